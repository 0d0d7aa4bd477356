/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says how much of a broken download there is. The directory is missing, but a local header
 * precedes every record, and the pickle, which is the first record, tells how large each storage
 * has to be.
 */
#include "format/torch_zip.h"

#include "format/torch_remains.h"

#include <inttypes.h>
#include <string.h>

/* Bytes that are missing at least: of the tensors, or of the directory. */
static uint64_t count_missing(const struct ckpt_remains *r, uint64_t size)
{
	static const uint64_t ends = 98;
	const struct ckpt_remnant *pickle = &r->records[r->pickle_at];
	uint64_t expected;

	if (__builtin_add_overflow(pickle->data_off + pickle->csize, r->storage_nbytes, &expected))
		expected = UINT64_MAX / 2;
	return expected > size ? expected - size : ends;
}

static uint32_t count_whole(const struct ckpt_remains *r)
{
	uint32_t whole = 0;

	for (uint32_t i = 0; i < r->count; i++) {
		const char *key = ckpt_remains_key(r, &r->records[i]);

		whole += key && r->records[i].sized && !r->records[i].cut &&
			 ckpt_strmap_find(&r->sizes, key, strlen(key));
	}
	return whole;
}

static int fail(const struct ckpt_remains *r, uint64_t size, struct ckpt_error *err)
{
	if (!ckpt_remains_find(r, "data.pkl"))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "is a truncated zip archive: %" PRIu64
				 " bytes are there, the end with the "
				 "directory is missing; download or copy it again",
				 size);
	if (r->pickle_at < 0)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "is truncated: %" PRIu64
				 " bytes are there, not even the list of tensors is whole; "
				 "download or copy it again",
				 size);
	ckpt_fail(err, CKPT_E_FORMAT,
		  "is truncated: %" PRIu64 " bytes are there, at least %" PRIu64
		  " are missing; the list of tensors and the first %" PRIu32
		  " of %zu storages are whole; download or copy it again",
		  size, count_missing(r, size), count_whole(r), r->sizes.count);
	return ckpt_error_because(err, CKPT_E_FORMAT, CKPT_REASON_STORAGES_MISSING);
}

int ckpt_torch_zip_fail_truncated(struct ckpt_source *source, struct ckpt_error *err)
{
	struct ckpt_remains remains;
	uint64_t end;
	int rc = ckpt_remains_walk(source, CKPT_REMAINS_QUICK, NULL, &remains, &end, err);

	if (rc == 0)
		rc = fail(&remains, ckpt_source_size(source), err);
	ckpt_remains_clear(&remains);
	return rc;
}
