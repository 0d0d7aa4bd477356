/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `.metadata`, the pickle that is the index of a DCP directory, into tables of entries,
 * chunks and files. It is read as values, nothing is called, and nobody vouches for it: each
 * field is checked for its type, each chunk to lie inside its tensor, each path to stay inside
 * the directory.
 *
 * The three dicts are read in order: state_dict_metadata makes entries and their chunks,
 * planner_data gives paths to entries, storage_data says where a chunk is. A chunk is found by
 * entry and offsets (`places`). Chunks of an entry are consecutive, so no other chunk may be
 * added between the first and the last of a tensor. The number of chunks is limited by the size
 * of the pickle, as objects can be shared.
 */
#include "set/dcp/index.h"

#include "base/grow.h"
#include "base/text.h"
#include "set/cover.h"
#include "set/fields.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t BUDGET_BASE = 64 << 20;
enum { BUDGET_PER_VALUE = 64, SHOWN = 120, LEAST_CHUNK = 8 };

struct index_reader {
	struct ckpt_dcp_index *index;
	uint64_t most_chunks;
	struct ckpt_strmap places; /* entry number and offsets of a chunk, to its number */
	struct ckpt_error *err;
};

/* ---- tables that grow ---- */

static struct ckpt_dcp_entry *add_entry(struct ckpt_dcp_index *x)
{
	void *grown = ckpt_grow(x->entries, x->entry_count, &x->entry_cap, sizeof(*x->entries));

	if (!grown)
		return NULL;
	x->entries = grown;
	x->entries[x->entry_count] = (struct ckpt_dcp_entry){ .dtype = CKPT_DTYPE_UNKNOWN };
	return &x->entries[x->entry_count++];
}

static struct ckpt_dcp_chunk *add_chunk(struct ckpt_dcp_index *x)
{
	void *grown =
		ckpt_grow(x->chunks, (uint32_t)x->chunk_count, &x->chunk_cap, sizeof(*x->chunks));

	if (!grown)
		return NULL;
	x->chunks = grown;
	x->chunks[x->chunk_count] = (struct ckpt_dcp_chunk){ .file = CKPT_DCP_NO_FILE };
	return &x->chunks[x->chunk_count++];
}

static int fail_entry(struct index_reader *r, const struct ckpt_value *fqn, int rc)
{
	char shown[SHOWN];

	return ckpt_error_prefix(r->err, rc, "'%s': ",
				 ckpt_escape(shown, sizeof(shown), fqn->u.bytes.ptr,
					     fqn->u.bytes.len));
}

/* ---- state_dict_metadata ---- */

static int read_chunk(struct index_reader *r, const struct ckpt_dcp_entry *e,
		      const struct ckpt_value *value)
{
	const struct ckpt_value *state = ckpt_fields_state(value, "ChunkStorageMetadata");
	struct ckpt_dcp_chunk *chunk;
	uint32_t offsets, sizes;
	int rc;

	/* the same chunk object again and again: no writer does that */
	if (r->index->chunk_count >= r->most_chunks)
		return ckpt_fail(r->err, CKPT_E_LIMIT, "more chunks than an index of its size has");
	chunk = add_chunk(r->index);
	if (!chunk)
		return ckpt_fail_nomem(r->err);
	if (!state)
		return ckpt_fields_wrong(r->err, "a ChunkStorageMetadata", value);
	rc = ckpt_fields_dims(ckpt_fields_find(state, "offsets"), "offsets", r->index->arena,
			      &chunk->offset, &offsets, r->err);
	if (rc == 0)
		rc = ckpt_fields_dims(ckpt_fields_find(state, "sizes"), "sizes", r->index->arena,
				      &chunk->shape, &sizes, r->err);
	if (rc < 0)
		return rc;
	if (offsets != e->ndim || sizes != e->ndim)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "a chunk of %" PRIu32 " dimensions in a tensor of %" PRIu32,
				 offsets != e->ndim ? offsets : sizes, e->ndim);
	for (uint32_t i = 0; i < e->ndim; i++)
		if (chunk->offset[i] > e->shape[i] ||
		    chunk->shape[i] > e->shape[i] - chunk->offset[i])
			return ckpt_fail(r->err, CKPT_E_FORMAT,
					 "a chunk of %" PRIu64 " at %" PRIu64
					 " reaches out of dimension %" PRIu32 " of %" PRIu64,
					 chunk->shape[i], chunk->offset[i], i, e->shape[i]);
	return 0;
}

/* The dtype in a TensorProperties. */
static int read_dtype(const struct ckpt_value *properties, enum ckpt_dtype *out,
		      struct ckpt_error *err)
{
	const struct ckpt_value *state, *dtype;
	char shown[160];

	if (!properties || !ckpt_fields_is(properties, "TensorProperties"))
		return ckpt_fields_wrong(err, "TensorProperties", properties);
	state = properties->u.call->state;
	if (state && state->kind == CKPT_TUPLE && state->u.seq.count)
		dtype = state->u.seq.items[0];
	else
		dtype = state && state->kind == CKPT_DICT ? ckpt_fields_find(state, "dtype") : NULL;
	if (!dtype || dtype->kind != CKPT_GLOBAL)
		return ckpt_fields_wrong(err, "a dtype", dtype);
	*out = ckpt_dtype_find(dtype->u.global->name);
	if (*out != CKPT_DTYPE_UNKNOWN && !strcmp(dtype->u.global->module, "torch"))
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_UNSUPPORTED, "dtype '%s' is not known",
				       ckpt_escape(shown, sizeof(shown), dtype->u.global->name,
						   dtype->u.global->name_len)),
			     NULL, NULL, dtype->pos);
}

static int read_tensor(struct index_reader *r, struct ckpt_dcp_entry *e,
		       const struct ckpt_value *state)
{
	const struct ckpt_value *chunks = ckpt_fields_find(state, "chunks");
	int rc = read_dtype(ckpt_fields_find(state, "properties"), &e->dtype, r->err);

	e->is_tensor = true;
	if (rc == 0)
		rc = ckpt_fields_dims(ckpt_fields_find(state, "size"), "size", r->index->arena,
				      &e->shape, &e->ndim, r->err);
	if (rc == 0)
		rc = ckpt_shape_check(e->shape, e->ndim, ckpt_dtype_size(e->dtype), r->err);
	if (rc < 0)
		return rc;
	if (!chunks || (chunks->kind != CKPT_LIST && chunks->kind != CKPT_TUPLE))
		return ckpt_fields_wrong(r->err, "a list of chunks", chunks);
	e->first_chunk = r->index->chunk_count;
	for (uint32_t i = 0; rc == 0 && i < chunks->u.seq.count; i++)
		rc = read_chunk(r, e, chunks->u.seq.items[i]);
	e->chunk_count = r->index->chunk_count - e->first_chunk;
	return rc;
}

/* torch 1.12 looks in the entry for the file. */
static bool has_key_of_old(const struct ckpt_value *state)
{
	return state && ckpt_fields_find(state, "storage_key");
}

static int read_entry(struct index_reader *r, const struct ckpt_value *fqn,
		      const struct ckpt_value *what)
{
	struct ckpt_dcp_index *x = r->index;
	const struct ckpt_value *state = ckpt_fields_state(what, "TensorStorageMetadata");
	struct ckpt_dcp_entry *e;
	uint64_t *slot;
	bool there;

	if (fqn->kind != CKPT_STR)
		return ckpt_fields_wrong(r->err, "a str as key of state_dict_metadata", fqn);
	slot = ckpt_strmap_insert(&x->entry_by_fqn, fqn->u.bytes.ptr, fqn->u.bytes.len,
				  x->entry_count, &there);
	if (!slot)
		return ckpt_fail_nomem(r->err);
	e = there ? &x->entries[*slot] : add_entry(x);
	if (!e)
		return ckpt_fail_nomem(r->err);
	*e = (struct ckpt_dcp_entry){ .fqn = fqn, .metadata = what, .dtype = CKPT_DTYPE_UNKNOWN };
	if (state && !has_key_of_old(state))
		return read_tensor(r, e, state);
	if (ckpt_fields_is(what, "BytesStorageMetadata") && !has_key_of_old(ckpt_fields_object_state(what)))
		return 0;
	return ckpt_fields_wrong(r->err, "a TensorStorageMetadata or BytesStorageMetadata", what);
}

/*
 * The pairs of a dict, all of which are in sight; NULL: it is none, a call makes it of what lies in its
 * arguments, or a defaultdict makes those that torch asks for and nobody put in.
 */
static const struct ckpt_seq *pairs_in_sight(const struct ckpt_value *dict)
{
	const struct ckpt_value *args = dict && dict->kind == CKPT_CALL ? dict->u.call->args : NULL;
	bool is_default = dict && ckpt_value_is_call_of(dict, "collections", "defaultdict");

	if (!args)
		return dict && dict->kind == CKPT_DICT ? ckpt_value_pairs(dict) : NULL;
	/* what an object of a package makes of its items and its state is not known */
	if (!is_default && !ckpt_value_is_call_of(dict, "collections", "OrderedDict"))
		return NULL;
	if (args->kind != CKPT_TUPLE || args->u.seq.count > is_default || dict->u.call->kwargs || dict->u.call->state)
		return NULL;
	if (args->u.seq.count && args->u.seq.items[0]->kind != CKPT_NONE)
		return NULL;
	return ckpt_value_pairs(dict);
}

static int read_entries(struct index_reader *r, const struct ckpt_value *dict)
{
	int rc = 0;

	if (!pairs_in_sight(dict))
		return ckpt_fields_wrong(r->err, "a dict as state_dict_metadata", dict);
	for (uint32_t i = 0; rc == 0 && i + 1 < ckpt_value_pairs(dict)->count; i += 2) {
		const struct ckpt_value *const *item = ckpt_value_pairs(dict)->items + i;

		rc = read_entry(r, item[0], item[1]);
		if (rc < 0 && item[0]->kind == CKPT_STR)
			fail_entry(r, item[0], rc);
	}
	return rc;
}

/* ---- planner_data ---- */

static bool is_path(const struct ckpt_value *v)
{
	bool ok = v->kind == CKPT_TUPLE && v->u.seq.count;

	for (uint32_t i = 0; ok && i < v->u.seq.count; i++) {
		const struct ckpt_value *item = v->u.seq.items[i];

		ok = item->kind == CKPT_STR || (item->kind == CKPT_INT && item->u.integer >= 0);
	}
	return ok && v->u.seq.items[0]->kind == CKPT_STR;
}

static int read_paths(struct index_reader *r, const struct ckpt_value *dict)
{
	const struct ckpt_seq *pairs = dict ? ckpt_value_pairs(dict) : NULL;
	struct ckpt_dcp_index *x = r->index;

	if (!dict || dict->kind == CKPT_NONE)
		return 0;
	if (!pairs)
		return 0; /* a planner's own object: then all keys are flat */
	x->has_planner_data = true;
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *fqn = pairs->items[i], *path = pairs->items[i + 1];
		uint64_t *slot;

		if (fqn->kind != CKPT_STR || !is_path(path))
			continue;
		slot = ckpt_strmap_find(&x->entry_by_fqn, fqn->u.bytes.ptr, fqn->u.bytes.len);
		if (slot)
			x->entries[*slot].path = path;
	}
	return 0;
}

/* ---- storage_data ---- */

/* The bytes that a chunk is found by: entry number and offsets. */
static char *place_key(struct index_reader *r, uint64_t entry, const uint64_t *offset,
		       uint32_t ndim, size_t *len)
{
	char *key;

	*len = (ndim + (size_t)1) * sizeof(uint64_t);
	key = ckpt_arena_alloc(r->index->arena, *len);
	if (key) {
		memcpy(key, &entry, sizeof(entry));
		if (ndim)
			memcpy(key + sizeof(entry), offset, ndim * sizeof(*offset));
	}
	return key;
}

static int note_places(struct index_reader *r)
{
	struct ckpt_dcp_index *x = r->index;

	for (uint64_t n = 0; n < x->entry_count; n++) {
		const struct ckpt_dcp_entry *e = &x->entries[n];

		for (uint64_t i = e->first_chunk; i < e->first_chunk + e->chunk_count; i++) {
			size_t len;
			bool there;
			char *key = place_key(r, n, x->chunks[i].offset, e->ndim, &len);

			if (!key || !ckpt_strmap_insert(&r->places, key, len, i, &there))
				return ckpt_fail_nomem(r->err);
		}
	}
	return 0;
}

static int read_file_name(struct index_reader *r, const struct ckpt_value *v, uint32_t *out)
{
	struct ckpt_dcp_index *x = r->index;
	uint64_t *slot;
	void *grown;
	bool there;
	int rc = ckpt_fields_check_path(v, r->err);

	if (rc < 0)
		return rc;
	slot = ckpt_strmap_insert(&x->file_by_name, v->u.bytes.ptr, v->u.bytes.len, x->file_count,
				  &there);
	if (!slot)
		return ckpt_fail_nomem(r->err);
	*out = (uint32_t)*slot;
	if (there)
		return 0;
	grown = ckpt_grow(x->files, x->file_count, &x->file_cap, sizeof(*x->files));
	if (!grown)
		return ckpt_fail_nomem(r->err);
	x->files = grown;
	x->files[x->file_count] = ckpt_arena_copy(x->arena, v->u.bytes.ptr, v->u.bytes.len);
	return x->files[x->file_count++] ? 0 : ckpt_arena_fail(x->arena, r->err);
}

static int read_transform(struct index_reader *r, const struct ckpt_value *list, const char **out)
{
	const struct ckpt_value *first;

	if (!list || list->kind == CKPT_NONE)
		return 0;
	if (list->kind != CKPT_LIST && list->kind != CKPT_TUPLE)
		return ckpt_fields_wrong(r->err, "a list as transform_descriptors", list);
	if (!list->u.seq.count)
		return 0;
	first = list->u.seq.items[0];
	if (list->u.seq.count > 1 || first->kind != CKPT_STR)
		*out = "several transforms";
	else
		*out = ckpt_arena_copy(r->index->arena, first->u.bytes.ptr, first->u.bytes.len);
	return *out ? 0 : ckpt_arena_fail(r->index->arena, r->err);
}

static int read_info(struct index_reader *r, struct ckpt_dcp_chunk *chunk,
		     const struct ckpt_value *info)
{
	const struct ckpt_value *state = ckpt_fields_state(info, "_StorageInfo");
	int rc;

	if (!state)
		return ckpt_fields_wrong(r->err, "a _StorageInfo", info);
	chunk->info = info;
	rc = ckpt_fields_number(ckpt_fields_find(state, "offset"), "offset", &chunk->off, r->err);
	if (rc == 0)
		rc = ckpt_fields_number(ckpt_fields_find(state, "length"), "length", &chunk->len,
					r->err);
	if (rc == 0)
		rc = read_transform(r, ckpt_fields_find(state, "transform_descriptors"),
				    &chunk->transform);
	if (rc == 0)
		rc = read_file_name(r, ckpt_fields_find(state, "relative_path"), &chunk->file);
	return rc;
}

/* The chunk that a MetadataIndex means. *OUT NULL: there is none. */
static int find_place(struct index_reader *r, const struct ckpt_value *state,
		      const struct ckpt_value *fqn, struct ckpt_dcp_chunk **out)
{
	const struct ckpt_value *offset = ckpt_fields_find(state, "offset");
	struct ckpt_dcp_index *x = r->index;
	const uint64_t *dims = NULL;
	struct ckpt_dcp_entry *e;
	uint64_t *slot = ckpt_strmap_find(&x->entry_by_fqn, fqn->u.bytes.ptr, fqn->u.bytes.len);
	uint32_t ndim = 0;
	size_t len;
	char *key;
	int rc;

	*out = NULL;
	if (!slot)
		return 0;
	e = &x->entries[*slot];
	if (!e->is_tensor) {
		if (offset && offset->kind != CKPT_NONE)
			return 0; /* torch asks for that without, which may be another one */
		if (!e->chunk_count) {
			e->first_chunk = x->chunk_count;
			e->chunk_count = 1;
			if (!add_chunk(x))
				return ckpt_fail_nomem(r->err);
		}
		*out = &x->chunks[e->first_chunk];
		return 0;
	}
	if (!offset || offset->kind == CKPT_NONE)
		return 0; /* torch does not find it either */
	rc = ckpt_fields_dims(offset, "offset", x->arena, &dims, &ndim, r->err);
	if (rc < 0)
		return rc;
	key = place_key(r, *slot, dims, ndim, &len);
	if (!key)
		return ckpt_arena_fail(x->arena, r->err);
	slot = ckpt_strmap_find(&r->places, key, len);
	if (slot)
		*out = &x->chunks[*slot];
	return 0;
}

static int read_place(struct index_reader *r, const struct ckpt_value *index,
		      const struct ckpt_value *info)
{
	const struct ckpt_value *state = ckpt_fields_state(index, "MetadataIndex"), *fqn;
	struct ckpt_dcp_chunk *chunk;
	int rc;

	if (!state)
		return ckpt_fields_wrong(r->err, "a MetadataIndex as key of storage_data", index);
	fqn = ckpt_fields_find(state, "fqn");
	if (!fqn || fqn->kind != CKPT_STR)
		return ckpt_fields_wrong(r->err, "a str as fqn of a MetadataIndex", fqn);
	rc = find_place(r, state, fqn, &chunk);
	if (rc == 0 && chunk) {
		chunk->place = index;
		rc = read_info(r, chunk, info);
	}
	if (rc == 0 && !chunk)
		r->index->unplaced++;
	return rc < 0 ? fail_entry(r, fqn, rc) : 0;
}

static int read_places(struct index_reader *r, const struct ckpt_value *dict)
{
	const struct ckpt_seq *pairs = pairs_in_sight(dict);
	int rc = note_places(r);

	if (rc == 0 && !pairs)
		rc = ckpt_fields_wrong(r->err, "a dict as storage_data", dict);
	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2)
		rc = read_place(r, pairs->items[i], pairs->items[i + 1]);
	return rc;
}

/* ---- the whole ---- */

/* Not an index of this format: say what it is instead. */
static int fail_other(const struct ckpt_value *root, struct ckpt_error *err)
{
	if (root->kind == CKPT_CALL && root->u.call->func->kind == CKPT_GLOBAL &&
	    !strncmp(root->u.call->func->u.global->module, "paddle", 6))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is an index of PaddlePaddle, not of PyTorch");
	return ckpt_fields_wrong(err, "torch.distributed.checkpoint's Metadata", root);
}

static int read_all(struct index_reader *r)
{
	const struct ckpt_value *root = r->index->root, *state = ckpt_fields_object_state(root);
	int rc;

	if (!state || !ckpt_fields_find(state, "state_dict_metadata"))
		return fail_other(root, r->err);
	if (!ckpt_fields_find(state, "storage_data"))
		return ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
				 "is an index of torch 1.12 or earlier, which has another form");
	rc = read_entries(r, ckpt_fields_find(state, "state_dict_metadata"));
	if (rc == 0)
		rc = read_paths(r, ckpt_fields_find(state, "planner_data"));
	if (rc == 0)
		rc = read_places(r, ckpt_fields_find(state, "storage_data"));
	return rc;
}

int ckpt_dcp_index_read(const struct ckpt_pickle *pickle, struct ckpt_dcp_index *out,
			struct ckpt_error *err)
{
	struct index_reader r = { .index = out,
				  .most_chunks = pickle->nbytes / LEAST_CHUNK + 1,
				  .err = err };
	int rc;

	*out = (struct ckpt_dcp_index){ .root = pickle->root };
	out->arena = ckpt_arena_new(BUDGET_BASE + BUDGET_PER_VALUE * (uint64_t)pickle->next_id);
	rc = out->arena ? read_all(&r) : ckpt_fail_nomem(err);
	ckpt_strmap_clear(&r.places);
	if (rc < 0)
		ckpt_dcp_index_clear(out);
	return rc;
}

void ckpt_dcp_index_clear(struct ckpt_dcp_index *x)
{
	ckpt_strmap_clear(&x->entry_by_fqn);
	ckpt_strmap_clear(&x->file_by_name);
	free(x->entries);
	free(x->chunks);
	free(x->files);
	ckpt_arena_free(x->arena);
	*x = (struct ckpt_dcp_index){ 0 };
}

int ckpt_dcp_index_load(const struct ckpt_source *source, uint8_t **bytes,
			struct ckpt_pickle *pickle, struct ckpt_dcp_index *out,
			struct ckpt_error *err)
{
	int rc = ckpt_fields_load(source, bytes, pickle, err);

	if (rc == 0)
		rc = ckpt_dcp_index_read(pickle, out, err);
	return ckpt_error_at(err, rc, ckpt_source_path(source), NULL, CKPT_NO_OFFSET);
}

bool ckpt_dcp_chunk_is_empty(const struct ckpt_dcp_chunk *chunk, uint32_t ndim)
{
	return chunk->shape && ckpt_shape_is_empty(chunk->shape, ndim);
}

int ckpt_dcp_check_cover(const struct ckpt_dcp_index *index, const struct ckpt_dcp_entry *entry,
			 struct ckpt_error *err)
{
	struct ckpt_box *boxes = malloc((entry->chunk_count + 1) * sizeof(*boxes));
	int rc;

	if (!boxes)
		return ckpt_fail_nomem(err);
	for (uint64_t i = 0; i < entry->chunk_count; i++) {
		const struct ckpt_dcp_chunk *chunk = &index->chunks[entry->first_chunk + i];
		const char *file =
			chunk->file == CKPT_DCP_NO_FILE ? NULL : index->files[chunk->file];

		boxes[i] = (struct ckpt_box){ chunk->offset, chunk->shape, file };
	}
	rc = ckpt_cover_check(boxes, entry->chunk_count, entry->shape, entry->ndim, err);
	free(boxes);
	return rc;
}

bool ckpt_dcp_path_spells(const struct ckpt_value *path, const struct ckpt_value *fqn)
{
	const char *name = fqn->u.bytes.ptr;
	uint64_t len = fqn->u.bytes.len;
	char number[24];

	for (uint32_t i = 0; i < path->u.seq.count; i++) {
		const struct ckpt_value *part = path->u.seq.items[i];
		const char *text = number;
		size_t n;

		if (part->kind == CKPT_STR) {
			text = part->u.bytes.ptr;
			n = part->u.bytes.len;
		} else {
			n = (size_t)snprintf(number, sizeof(number), "%lld",
					     (long long)part->u.integer);
		}
		if (i && (!len || *name++ != '.' || !len--))
			return false;
		if (n > len || memcmp(name, text, n) != 0)
			return false;
		name += n;
		len -= n;
	}
	return !len;
}
