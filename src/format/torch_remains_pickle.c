/* SPDX-License-Identifier: Apache-2.0 */
/* The list of tensors of a damaged archive: it has the size of each storage. */
#include "format/pickle_stream.h"
#include "format/torch_remains.h"
#include "model/model.h"
#include "zipfmt/rebuild.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t MOST_PICKLE = (uint64_t)2 << 30, BUDGET_BASE = 64 << 20;
enum { MOST_RATIO = 128 };

/* ---- its bytes ---- */

/* The size of a pickle that only its STOP tells. */
static int find_stop(struct ckpt_remains *r, struct ckpt_remnant *record)
{
	uint64_t left = ckpt_source_size(r->source) - record->data_off;
	struct ckpt_pickle_stream stream;
	struct ckpt_pickle_extent extent;
	struct ckpt_source *slice;
	int rc;

	if (record->data_off > ckpt_source_size(r->source))
		return CKPT_E_FORMAT;
	rc = ckpt_source_slice(r->source, record->data_off, left, &slice, NULL);
	if (rc < 0)
		return rc;
	ckpt_pickle_stream_open(&stream, slice);
	rc = ckpt_pickle_stream_next(&stream, &extent, NULL);
	if (rc == 0) {
		record->csize = record->usize = extent.len;
		record->sized = true;
	}
	ckpt_pickle_stream_clear(&stream);
	ckpt_source_unref(slice);
	return rc;
}

/* A compressed pickle is unpacked from an archive that holds nothing else. */
static int unpack(const struct ckpt_remains *r, const struct ckpt_remnant *record, uint8_t **bytes,
		  uint64_t *len)
{
	struct ckpt_zip_rebuilt only = { .name = "data.pkl",
					 .off = record->data_off,
					 .csize = record->csize,
					 .usize = record->usize,
					 .method = record->method,
					 .crc32 = record->crc_count ? record->crcs[0] : 0 };
	struct ckpt_source *source = NULL;
	struct ckpt_zip *zip = NULL;
	int rc = 0;

	if (record->usize / MOST_RATIO > record->csize + (1 << 16) ||
	    record->csize > UINT32_MAX / 2 || record->usize > UINT32_MAX / 2)
		return CKPT_E_LIMIT;
	rc = ckpt_zip_rebuild(r->source, "archive", &only, 1, &source, NULL);
	if (rc == 0)
		rc = ckpt_zip_open(source, &zip, NULL);
	if (rc == 0)
		rc = ckpt_zip_read(zip, &zip->entries[0], MOST_PICKLE, bytes, NULL);
	*len = record->usize;
	ckpt_zip_close(zip);
	ckpt_source_unref(source);
	return rc;
}

static int read_bytes(const struct ckpt_remains *r, const struct ckpt_remnant *record,
		      uint8_t **bytes, uint64_t *len)
{
	int rc;

	*bytes = NULL;
	*len = record->csize;
	if (record->cut || record->csize > MOST_PICKLE)
		return CKPT_E_FORMAT;
	if (record->method != CKPT_ZIP_STORED)
		return unpack(r, record, bytes, len);
	*bytes = malloc((size_t)record->csize + 1);
	if (!*bytes)
		return CKPT_E_NOMEM;
	rc = ckpt_source_read(r->source, record->data_off, *bytes, (size_t)record->csize, NULL);
	if (rc < 0)
		free(*bytes);
	return rc;
}

/* ---- what is in it ---- */

static int add_size(struct ckpt_remains *r, const struct ckpt_value *persid, struct ckpt_error *err)
{
	const struct ckpt_value *key = ckpt_storage_key(persid);
	struct ckpt_storage s;
	bool there;

	if (!key || ckpt_storage_parse(persid, r->pickle.arena, &s, NULL) < 0)
		return 0;
	if (!ckpt_strmap_insert(&r->sizes, key->u.bytes.ptr, key->u.bytes.len, s.nbytes, &there))
		return ckpt_fail_nomem(err);
	if (!there && __builtin_add_overflow(r->storage_nbytes, s.nbytes, &r->storage_nbytes))
		r->storage_nbytes = UINT64_MAX / 2;
	return 0;
}

int ckpt_remains_read_pickle(struct ckpt_remains *r, uint32_t i, struct ckpt_error *err)
{
	struct ckpt_remnant *record = &r->records[i];
	uint8_t *bytes;
	uint64_t len;
	int rc = 0;

	if (r->pickle_at >= 0)
		return 0;
	if (!record->sized && record->method == CKPT_ZIP_STORED)
		find_stop(r, record);
	if (!record->sized || read_bytes(r, record, &bytes, &len) < 0)
		return 0;
	if (ckpt_pickle_decode(bytes, (size_t)len, BUDGET_BASE + 80 * len, &r->pickle, NULL) < 0) {
		ckpt_pickle_clear(&r->pickle);
		free(bytes);
		return 0;
	}
	r->pickle_bytes = bytes;
	r->pickle_at = i;
	for (uint32_t k = 0; rc == 0 && k < r->pickle.persids.count; k++)
		rc = add_size(r, r->pickle.persids.items[k], err);
	return rc;
}
