/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of a DCP directory: stretches of data files that are torch.save files of their own. Of a
 * tensor, only where its bytes are is kept, after the item was checked against the index; of
 * another value, the decoded pickle.
 *
 * Data files are opened when they are first needed, under the lock of the directory, and stay
 * open. A recipe points into the data file itself, so that the item can be closed; only what has
 * to be unpacked stays open (`unpacked`). What has to be done with the bytes after they were read
 * (byte order, negation) is done once for the joined tensor if all chunks agree, else to each.
 */
#include "set/dcp/dcp.h"

#include "base/grow.h"
#include "base/text.h"
#include "io/unzstd.h"
#include "tensor/byteswap.h"
#include "tensor/negate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Headers and pickle of a small item are in there: it is read once, a large one twice. */
enum { EDGE = 4096, SHOWN = 120, SOME_MORE = 1 << 30 };

/* ---- data files ---- */

int ckpt_dcp_open_file(struct ckpt_dcp_file *file, struct ckpt_error *err)
{
	dev_t dev;
	ino_t ino;
	int rc;

	if (file->source)
		return 0;
	if (file->missing)
		return ckpt_error_at(err, ckpt_fail(err, CKPT_E_IO, "the data file is missing"),
				     file->path, NULL, CKPT_NO_OFFSET);
	rc = ckpt_source_open(file->path, &file->source, err);
	if (rc == 0 && ckpt_source_identity(file->source, &dev, &ino) && (dev != file->dev || ino != file->ino)) {
		ckpt_source_unref(file->source);
		file->source = NULL;
		rc = ckpt_error_at(err, ckpt_fail(err, CKPT_E_CHANGED, "is another file than when the directory was opened"), file->path, NULL, CKPT_NO_OFFSET);
	}
	return rc;
}

static int check_range(const struct ckpt_dcp_chunk *chunk, uint64_t size, struct ckpt_error *err)
{
	if (chunk->len && chunk->off <= size && chunk->len <= size - chunk->off)
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "the item of %" PRIu64 " bytes at %" PRIu64
			 " is not in the file, which has %" PRIu64
			 ": it was cut, or written anew after the index",
			 chunk->len, chunk->off, size);
}

/* PyTorch 2.7 and later; the number behind the slash may get a second part. */
bool ckpt_dcp_is_zstd(const char *transform)
{
	static const char name[] = "stream.zstd/1";
	size_t len = sizeof(name) - 1;

	return !strncmp(transform, name, len) && (!transform[len] || transform[len] == '.');
}

/* A few bytes may unpack to any number: no item is larger than its tensor and some more. */
static uint64_t most_unpacked(const struct ckpt_dcp_entry *e)
{
	uint64_t bytes = e->is_tensor ? ckpt_dtype_size(e->dtype) : 0;

	for (uint32_t i = 0; i < e->ndim; i++) /* does not overflow: read_entries() */
		bytes *= e->shape[i];
	return SOME_MORE + bytes;
}

static int open_unpacked(struct ckpt_source *file, const struct ckpt_dcp_entry *e,
			 const struct ckpt_dcp_chunk *chunk, struct ckpt_source **out,
			 struct ckpt_error *err)
{
	struct ckpt_source *packed;
	int rc = ckpt_source_slice(file, chunk->off, chunk->len, &packed, err);

	if (rc < 0)
		return rc;
	rc = ckpt_source_unzstd(packed, most_unpacked(e), EDGE, out, err);
	ckpt_source_unref(packed);
	return rc;
}

int ckpt_dcp_chunk_source(struct ckpt_dcp *dcp, const struct ckpt_dcp_entry *entry,
			  const struct ckpt_dcp_chunk *chunk, struct ckpt_source **out,
			  struct ckpt_error *err)
{
	struct ckpt_dcp_file *file;
	char shown[SHOWN];
	int rc;

	*out = NULL;
	if (chunk->file == CKPT_DCP_NO_FILE)
		return ckpt_fail(err, CKPT_E_FORMAT, "the index does not say where its bytes are");
	if (chunk->transform && !ckpt_dcp_is_zstd(chunk->transform))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is stored through '%s'",
				 ckpt_escape(shown, sizeof(shown), chunk->transform,
					     strlen(chunk->transform)));
	file = &dcp->files[chunk->file];
	rc = ckpt_dcp_open_file(file, err);
	if (rc == 0)
		rc = check_range(chunk, ckpt_source_size(file->source), err);
	if (rc == 0)
		rc = chunk->transform ? open_unpacked(file->source, entry, chunk, out, err)
				      : ckpt_source_slice_edges(file->source, chunk->off,
								chunk->len, EDGE, out, err);
	return rc < 0 && file->source ? ckpt_error_at(err, rc, ckpt_source_path(file->source), NULL,
						      CKPT_NO_OFFSET)
				      : rc;
}

/* "'model.w' in __0_0.distcp at 1234: what was wrong"; the place inside of the item is left out. */
static int fail_item(const struct ckpt_dcp *dcp, uint32_t entry, const struct ckpt_dcp_chunk *chunk,
		     int rc, struct ckpt_error *err)
{
	const struct ckpt_value *fqn = dcp->index.entries[entry].fqn;
	char shown[SHOWN], file[SHOWN], where[SHOWN + 40] = "";

	if (!err || rc == CKPT_E_NOMEM || rc == CKPT_E_CANCELLED)
		return rc;
	ckpt_escape(shown, sizeof(shown), fqn->u.bytes.ptr, fqn->u.bytes.len);
	if (chunk && chunk->file != CKPT_DCP_NO_FILE)
		snprintf(where, sizeof(where), " in %s at %" PRIu64,
			 ckpt_escape(file, sizeof(file), dcp->index.files[chunk->file],
				     strlen(dcp->index.files[chunk->file])),
			 chunk->off);
	ckpt_error_prefix(err, rc, "'%s'%s: ", shown, where);
	err->path[0] = err->record[0] = '\0';
	err->offset = CKPT_NO_OFFSET;
	err->named = true;
	return ckpt_error_at(err, rc, dcp->path, NULL, CKPT_NO_OFFSET);
}

/* ---- tensors ---- */

static int copy_to_arena(struct ckpt_dcp *dcp, const void *what, size_t size, const void **out,
			 struct ckpt_error *err)
{
	void *kept = ckpt_arena_alloc(dcp->arena, size);

	if (!kept)
		return ckpt_arena_fail(dcp->arena, err);
	memcpy(kept, what, size);
	*out = kept;
	return 0;
}

static struct ckpt_dcp_finish finish_of(const struct ckpt_tensor *t, bool big_endian)
{
	uint32_t width = ckpt_byteswap_width(t->dtype);

	return (struct ckpt_dcp_finish){ .swap = big_endian && width > 1 ? width : 0,
					 .dtype = t->dtype,
					 .is_neg = t->is_neg,
					 .is_conj = t->is_conj };
}

/* What has to be done with stored bytes before they are the values. */
static int apply_finish(struct ckpt_dcp *dcp, const struct ckpt_dcp_finish *f,
			struct ckpt_recipe *bytes, struct ckpt_error *err)
{
	const void *kept = NULL;
	int rc = 0;

	if (f->swap) {
		struct ckpt_byteswap swap = ckpt_byteswap_of(bytes, f->swap);

		rc = copy_to_arena(dcp, &swap, sizeof(swap), &kept, err);
		if (rc == 0)
			*bytes = ckpt_map_recipe(kept);
	}
	if (rc == 0 && (f->is_neg || f->is_conj)) {
		struct ckpt_negate negate = ckpt_negate_of(bytes, f->dtype, f->is_neg, f->is_conj);

		rc = copy_to_arena(dcp, &negate, sizeof(negate), &kept, err);
		if (rc == 0)
			*bytes = ckpt_map_recipe(kept);
	}
	return rc;
}

static int check_tensor(const struct ckpt_dcp_entry *e, const struct ckpt_dcp_chunk *chunk,
			const struct ckpt_model *item, struct ckpt_error *err)
{
	const struct ckpt_tensor *t = item->tensors;
	bool same = item->tensor_count == 1 && t->value == item->root &&
		    t->kind == CKPT_KIND_STRIDED && t->storage >= 0;

	if (!same)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "holds no plain tensor");
	if (t->dtype != e->dtype)
		return ckpt_fail(err, CKPT_E_FORMAT, "is of dtype %s, the index says %s",
				 ckpt_dtype_name(t->dtype), ckpt_dtype_name(e->dtype));
	same = t->ndim == e->ndim;
	for (uint32_t i = 0; same && i < t->ndim; i++)
		same = t->shape[i] == chunk->shape[i];
	if (same)
		return 0;
	return ckpt_fail(
		err, CKPT_E_FORMAT,
		"is of another shape than the index says: the data file belongs to another "
		"save, or to another directory");
}

/* ITEM, whose bytes are made when they are read, is wanted as long as DCP. */
static int keep_source(struct ckpt_dcp *dcp, struct ckpt_source *item, struct ckpt_error *err)
{
	struct ckpt_source **kept =
		ckpt_grow(dcp->unpacked, dcp->unpacked_count, &dcp->unpacked_cap, sizeof(*kept));

	if (!kept)
		return ckpt_fail_nomem(err);
	dcp->unpacked = kept;
	dcp->unpacked[dcp->unpacked_count++] = ckpt_source_ref(item);
	return 0;
}

/* The extent in the data file itself: then the item need not stay open. */
static int set_file_extent(struct ckpt_dcp *dcp, const struct ckpt_dcp_chunk *chunk,
			   struct ckpt_source *item, struct ckpt_recipe *bytes,
			   struct ckpt_error *err)
{
	if (bytes->kind != CKPT_RECIPE_EXTENT)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "its bytes are compressed");
	if (ckpt_source_is_sequential(item)) {
		bytes->src = item;
		return keep_source(dcp, item, err);
	}
	bytes->src = dcp->files[chunk->file].source;
	bytes->off += chunk->off;
	return 0;
}

static int fill_block(struct ckpt_dcp *dcp, const struct ckpt_dcp_chunk *chunk,
		      struct ckpt_source *source, const struct ckpt_model *item,
		      struct ckpt_tensor_block *out, struct ckpt_dcp_finish *after,
		      struct ckpt_error *err)
{
	const struct ckpt_tensor *t = item->tensors;
	const struct ckpt_storage *s = &item->storages[t->storage];
	const struct ckpt_torch_zip *tz = ckpt_torch_zip_of(item);
	const void *stride = NULL;
	int rc = ckpt_model_storage_bytes(item, s, &out->bytes, err);

	if (dcp->ignores_checksums)
		ckpt_recipe_forget_crc(&out->bytes);
	if (rc == 0)
		rc = set_file_extent(dcp, chunk, source, &out->bytes, err);
	if (rc == 0)
		rc = copy_to_arena(dcp, t->stride, t->ndim * sizeof(*t->stride), &stride, err);
	if (rc < 0)
		return rc;
	out->offset = chunk->offset;
	out->shape = chunk->shape;
	out->stride = stride;
	out->first = t->offset;
	*after = finish_of(t, !strcmp(tz->byteorder, "big"));
	return 0;
}

static int open_block(struct ckpt_dcp *dcp, uint32_t entry, const struct ckpt_dcp_chunk *chunk,
		      struct ckpt_tensor_block *out, struct ckpt_dcp_finish *after,
		      struct ckpt_error *err)
{
	struct ckpt_source *source;
	struct ckpt_model *item = NULL;
	int rc;

	if (ckpt_dcp_chunk_is_safetensors(dcp, chunk)) {
		rc = ckpt_dcp_safetensors_block(dcp, &dcp->index.entries[entry], chunk, out, err);
		return rc < 0 ? fail_item(dcp, entry, chunk, rc, err) : 0;
	}
	rc = ckpt_dcp_chunk_source(dcp, &dcp->index.entries[entry], chunk, &source, err);
	if (rc == 0)
		rc = ckpt_torch_zip_read(source, &item, err);
	if (rc == 0)
		rc = check_tensor(&dcp->index.entries[entry], chunk, item, err);
	if (rc == 0)
		rc = fill_block(dcp, chunk, source, item, out, after, err);
	ckpt_close(item);
	ckpt_source_unref(source);
	return rc < 0 ? fail_item(dcp, entry, chunk, rc, err) : 0;
}

/* The same for all blocks is done when they are joined; else to each of them. */
static int choose_finish(struct ckpt_dcp *dcp, uint32_t entry, struct ckpt_tensor_block *blocks,
			 const struct ckpt_dcp_finish *after, uint64_t count,
			 struct ckpt_error *err)
{
	bool same = true;
	int rc = 0;

	for (uint64_t i = 1; i < count; i++)
		same &= after[i].swap == after->swap && after[i].is_neg == after->is_neg &&
			after[i].is_conj == after->is_conj;
	if (same && count)
		dcp->finish[entry] = *after;
	for (uint64_t i = 0; rc == 0 && !same && i < count; i++)
		rc = apply_finish(dcp, &after[i], &blocks[i].bytes, err);
	return rc;
}

int ckpt_dcp_blocks(struct ckpt_dcp *dcp, uint32_t entry, const struct ckpt_tensor_block **out,
		    uint64_t *count, struct ckpt_error *err)
{
	const struct ckpt_dcp_entry *e = &dcp->index.entries[entry];
	struct ckpt_tensor_block *blocks = NULL;
	struct ckpt_dcp_finish *after;
	int rc;

	*count = 0;
	for (uint64_t i = 0; i < e->chunk_count; i++)
		*count += !ckpt_dcp_chunk_is_empty(&dcp->index.chunks[e->first_chunk + i], e->ndim);
	*out = dcp->blocks[entry];
	if (*out)
		return 0;
	rc = ckpt_dcp_check_cover(&dcp->index, e, err);
	if (rc < 0)
		return fail_item(dcp, entry, NULL, rc, err);
	blocks = ckpt_arena_calloc(dcp->arena, *count + 1, sizeof(*blocks));
	if (!blocks)
		return ckpt_arena_fail(dcp->arena, err);
	after = calloc(*count + 1, sizeof(*after));
	if (!after)
		return ckpt_fail_nomem(err);
	for (uint64_t i = 0, n = 0; rc == 0 && i < e->chunk_count; i++) {
		const struct ckpt_dcp_chunk *chunk = &dcp->index.chunks[e->first_chunk + i];

		if (ckpt_dcp_chunk_is_empty(chunk, e->ndim))
			continue;
		rc = open_block(dcp, entry, chunk, &blocks[n], &after[n], err);
		n++;
	}
	if (rc == 0)
		rc = choose_finish(dcp, entry, blocks, after, *count, err);
	free(after);
	if (rc == 0)
		*out = dcp->blocks[entry] = blocks;
	return rc;
}

int ckpt_dcp_box_bytes(struct ckpt_dcp *dcp, uint32_t entry, const uint64_t *offset,
		       const uint64_t *shape, struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_dcp_entry *e = &dcp->index.entries[entry];
	const struct ckpt_tensor_block *blocks;
	uint64_t count;
	int rc;

	pthread_mutex_lock(&dcp->lock);
	rc = ckpt_dcp_blocks(dcp, entry, &blocks, &count, err);
	if (rc == 0) {
		rc = ckpt_assemble(blocks, count, e->ndim, offset, shape, ckpt_dtype_size(e->dtype),
				   dcp->arena, out, err);
		if (rc == 0 && out->len)
			rc = apply_finish(dcp, &dcp->finish[entry], out, err);
		if (rc < 0)
			fail_item(dcp, entry, NULL, rc, err);
	}
	pthread_mutex_unlock(&dcp->lock);
	return rc;
}

/* ---- other values ---- */

void ckpt_dcp_item_forget_file(struct ckpt_dcp_item *item)
{
	ckpt_torch_zip_free(item->tz);
	ckpt_source_unref(item->source);
	item->tz = NULL;
	item->source = NULL;
}

static int decode_item(struct ckpt_dcp *dcp, struct ckpt_dcp_item *item,
		       const struct ckpt_dcp_chunk *chunk, uint32_t first_id,
		       struct ckpt_error *err)
{
	size_t len;
	int rc = ckpt_dcp_chunk_source(dcp, &dcp->index.entries[item->entry], chunk, &item->source,
				       err);

	if (rc == 0)
		rc = ckpt_torch_zip_open(item->source, NULL, &item->tz, err);
	if (rc == 0)
		rc = ckpt_torch_zip_read_pickle(item->tz, first_id, &item->pickle_bytes, &len,
						&item->pickle, err);
	return rc;
}

int ckpt_dcp_read_item(struct ckpt_dcp *dcp, struct ckpt_dcp_item *item, uint32_t *next_id,
		       struct ckpt_error *err)
{
	const struct ckpt_dcp_entry *e = &dcp->index.entries[item->entry];
	const struct ckpt_dcp_chunk *chunk = NULL;
	int rc;

	if (e->chunk_count)
		chunk = &dcp->index.chunks[e->first_chunk];
	if (chunk)
		rc = decode_item(dcp, item, chunk, *next_id, err);
	else
		rc = ckpt_fail(err, CKPT_E_FORMAT, "the index does not say where its bytes are");
	if (rc < 0)
		return fail_item(dcp, item->entry, chunk, rc, err);
	*next_id = item->pickle.next_id;
	item->root = item->pickle.root;
	if (!item->pickle.persids.count)
		ckpt_dcp_item_forget_file(item);
	return 0;
}
