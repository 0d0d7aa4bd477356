/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data files that are safetensors (serialization_format=SerializationFormat.SAFETENSORS of torch
 * 2.8 and later): items of tensors are found by name in the file's header. What the index has as
 * their offset is where the file begins, behind items of other values, and their length is none.
 * Source: torch/distributed/checkpoint/filesystem.py, of 2.14.
 *
 * A header is read once for each file and kept, under the lock of the directory. Such a file
 * knows one part of each name, so an index that has two parts of a tensor in one file is refused:
 * torch would have lost one.
 */
#include "set/dcp/dcp.h"

#include <inttypes.h>

enum { HEAD = 16 };

bool ckpt_dcp_chunk_is_safetensors(struct ckpt_dcp *dcp, const struct ckpt_dcp_chunk *chunk)
{
	struct ckpt_dcp_file *file;
	uint8_t head[HEAD];
	uint64_t size;

	if (chunk->file == CKPT_DCP_NO_FILE || chunk->transform)
		return false;
	file = &dcp->files[chunk->file];
	if (ckpt_dcp_open_file(file, NULL) < 0)
		return false;
	size = ckpt_source_size(file->source);
	return chunk->off < size && size - chunk->off >= HEAD &&
	       ckpt_source_read(file->source, chunk->off, head, HEAD, NULL) == 0 &&
	       ckpt_safetensors_probe(head, HEAD, size - chunk->off);
}

bool ckpt_dcp_has_safetensors(struct ckpt_dcp *dcp)
{
	const struct ckpt_dcp_index *x = &dcp->index;
	bool has = false;

	pthread_mutex_lock(&dcp->lock);
	for (uint32_t i = 0; !has && i < x->entry_count; i++)
		if (x->entries[i].is_tensor && x->entries[i].chunk_count)
			has = ckpt_dcp_chunk_is_safetensors(dcp,
							    &x->chunks[x->entries[i].first_chunk]);
	pthread_mutex_unlock(&dcp->lock);
	return has;
}

/* Once per file: the names in its header. */
static int read_names(struct ckpt_dcp *dcp, struct ckpt_dcp_file *file, uint64_t off,
		      struct ckpt_error *err)
{
	struct ckpt_safetensors_header *h = &file->header;
	struct ckpt_source *rest;
	bool there, fine = true;
	int rc;

	if (file->has_header && file->header_off == off)
		return 0;
	if (file->has_header) /* it would be read again and again, and kept each time */
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the index has two headers in it, at %" PRIu64 " and at %" PRIu64,
				 file->header_off, off);
	ckpt_safetensors_header_clear(h);
	ckpt_strmap_clear(&file->names);
	rc = ckpt_source_slice(file->source, off, ckpt_source_size(file->source) - off, &rest, err);
	if (rc < 0)
		return rc;
	rc = ckpt_safetensors_header_read(rest, CKPT_SAFETENSORS_AS_IS, dcp->arena, h, err);
	ckpt_source_unref(rest);
	for (uint32_t i = 0; rc == 0 && fine && i < h->count; i++)
		fine = ckpt_strmap_insert(&file->names, h->tensors[i].name, h->tensors[i].name_len,
					  i, &there);
	if (rc == 0 && !fine)
		rc = ckpt_fail_nomem(err);
	file->has_header = rc == 0;
	file->header_off = off;
	return rc;
}

static bool has_shape(const struct ckpt_safetensors_tensor *t, const struct ckpt_dcp_entry *e,
		      const struct ckpt_dcp_chunk *chunk)
{
	bool same = t->ndim == e->ndim;

	for (uint32_t i = 0; same && i < t->ndim; i++)
		same = t->shape[i] == chunk->shape[i];
	return same;
}

/* Such a file knows one part of each name; a rank that has two of a tensor loses one. */
static bool is_only_part(const struct ckpt_dcp *dcp, const struct ckpt_dcp_entry *e,
			 const struct ckpt_dcp_chunk *chunk)
{
	for (uint64_t i = 0; i < e->chunk_count; i++) {
		const struct ckpt_dcp_chunk *other = &dcp->index.chunks[e->first_chunk + i];

		if (other != chunk && other->file == chunk->file &&
		    !ckpt_dcp_chunk_is_empty(other, e->ndim))
			return false;
	}
	return true;
}

static int find_tensor(struct ckpt_dcp *dcp, const struct ckpt_dcp_entry *e,
		       const struct ckpt_dcp_chunk *chunk,
		       const struct ckpt_safetensors_tensor **out, struct ckpt_error *err)
{
	struct ckpt_dcp_file *file = &dcp->files[chunk->file];
	uint64_t *slot;
	int rc = read_names(dcp, file, chunk->off, err);

	if (rc < 0)
		return rc;
	slot = ckpt_strmap_find(&file->names, e->fqn->u.bytes.ptr, (size_t)e->fqn->u.bytes.len);
	if (!slot)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the file, of safetensors, has no such tensor");
	*out = &file->header.tensors[*slot];
	if (!is_only_part(dcp, e, chunk))
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"the index has several parts of it in one file, of safetensors, which "
			"keeps only the last of them");
	if (ckpt_safetensors_dtype_torch((*out)->dtype) != e->dtype ||
	    ckpt_dtype_packed(e->dtype) > 1)
		return ckpt_fail(err, CKPT_E_FORMAT, "is of dtype %s, the index says %s",
				 ckpt_safetensors_dtype_name((*out)->dtype),
				 ckpt_dtype_name(e->dtype));
	if (!has_shape(*out, e, chunk))
		return ckpt_fail(err, CKPT_E_FORMAT, "is of another shape than the index says");
	return 0;
}

int ckpt_dcp_safetensors_block(struct ckpt_dcp *dcp, const struct ckpt_dcp_entry *e,
			       const struct ckpt_dcp_chunk *chunk, struct ckpt_tensor_block *out,
			       struct ckpt_error *err)
{
	struct ckpt_dcp_file *file = &dcp->files[chunk->file];
	const struct ckpt_safetensors_tensor *t = NULL;
	uint64_t *stride = ckpt_arena_alloc(dcp->arena, (e->ndim + (uint64_t)1) * sizeof(*stride));
	uint64_t step = 1;
	int rc = stride ? find_tensor(dcp, e, chunk, &t, err) : ckpt_arena_fail(dcp->arena, err);

	if (rc < 0)
		return rc;
	for (uint32_t i = e->ndim; i-- > 0; step *= chunk->shape[i])
		stride[i] = step;
	*out = (struct ckpt_tensor_block){ .offset = chunk->offset,
					   .shape = chunk->shape,
					   .stride = stride,
					   .bytes = { .kind = CKPT_RECIPE_EXTENT,
						      .src = file->source,
						      .off = chunk->off + file->header.data_off +
							     t->begin,
						      .len = t->end - t->begin } };
	return 0;
}
