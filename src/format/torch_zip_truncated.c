/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says how much of a broken download there is. The directory is missing, but a local header
 * precedes every record, and the pickle, which is the first record, tells how large each storage
 * has to be.
 *
 * What must stay true: never more is said to be missing than is, for a file that only lacks its end.
 */
#include "format/torch_zip.h"

#include "format/torch_remains.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER_BYTES = 30, ENTRY_BYTES = 46, END_BYTES = 22, DATA_BYTES = 6 /* "/data/" */ };

static void add(uint64_t *sum, uint64_t nbytes)
{
	if (__builtin_add_overflow(*sum, nbytes, sum) || *sum > UINT64_MAX / 2)
		*sum = UINT64_MAX / 2;
}

/* What the record of storage KEY takes by the pickle; NULL: it is not one of the list. */
static const uint64_t *size_of(const struct ckpt_remains *r, const struct ckpt_remnant *record)
{
	const char *key = ckpt_remains_key(r, record);

	return key ? ckpt_strmap_find(&r->sizes, key, strlen(key)) : NULL;
}

static bool is_compressed(const struct ckpt_remains *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (r->records[i].method != CKPT_ZIP_STORED)
			return true;
	return false;
}

/* Was a record found for STORAGE? */
static bool is_there(const struct ckpt_remains *r, const struct ckpt_strmap_entry *storage)
{
	char name[1024] = "data/";

	if (storage->len >= sizeof(name) - 5)
		return true; /* no writer has such names */
	memcpy(name + 5, storage->key, storage->len);
	name[5 + storage->len] = '\0';
	return ckpt_remains_find(r, name);
}

/*
 * Bytes that are missing at least. Behind the records that were found, which end at END, come the rest of the
 * last one, those of all other storages of the list, and the directory. It is the least that a zip archive
 * takes for that: without padding and descriptors, and without the data of records that may be compressed.
 */
static uint64_t count_missing(const struct ckpt_remains *r, uint64_t end, uint64_t size)
{
	uint64_t folder = r->folder ? strlen(r->folder) : 0, expected = end;
	bool compressed = is_compressed(r);

	for (uint32_t i = 0; i < r->count; i++) {
		const uint64_t *nbytes = size_of(r, &r->records[i]);
		uint64_t to = r->records[i].data_off;

		if (!nbytes || compressed || !r->records[i].cut)
			continue;
		add(&to, *nbytes);
		if (to > expected)
			expected = to;
	}
	for (uint32_t i = 0; i < r->count; i++)
		if (!ckpt_remains_key(r, &r->records[i]))
			add(&expected, ENTRY_BYTES + (uint64_t)r->records[i].name_len);
	for (size_t i = 0; i < r->sizes.count; i++) {
		const struct ckpt_strmap_entry *storage = &r->sizes.entries[i];
		uint64_t name_len = folder + DATA_BYTES + storage->len;

		add(&expected, ENTRY_BYTES + name_len);
		if (is_there(r, storage))
			continue;
		add(&expected, HEADER_BYTES + name_len);
		add(&expected, compressed ? 0 : storage->value);
	}
	add(&expected, END_BYTES);
	return expected > size ? expected - size : 1; /* of the end: torch's takes more than the least */
}

static uint32_t count_whole(const struct ckpt_remains *r)
{
	uint32_t whole = 0;

	for (uint32_t i = 0; i < r->count; i++)
		whole += r->records[i].sized && !r->records[i].cut && size_of(r, &r->records[i]);
	return whole;
}

static int fail(const struct ckpt_remains *r, uint64_t end, uint64_t size, struct ckpt_error *err)
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
		  size, count_missing(r, end, size), count_whole(r), r->sizes.count);
	return ckpt_error_because(err, CKPT_E_FORMAT, CKPT_REASON_STORAGES_MISSING);
}

int ckpt_torch_zip_fail_truncated(struct ckpt_source *source, struct ckpt_error *err)
{
	struct ckpt_remains remains;
	uint64_t end;
	int rc = ckpt_remains_walk(source, CKPT_REMAINS_QUICK, NULL, &remains, &end, err);

	if (rc == 0)
		rc = fail(&remains, end, ckpt_source_size(source), err);
	ckpt_remains_clear(&remains);
	return rc;
}
