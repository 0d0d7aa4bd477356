/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of single ranks with parts of tensors: shard-00001-model-00001-of-00001.safetensors. The
 * metadata of each say where its parts begin: {"DCP_SHARDING_INFO": "{NAME: {\"saved_offsets\":
 * [...]}}"}. No file says how large a tensor is: as large as the parts reach. Source:
 * torch/distributed/checkpoint/hf_storage.py and _hf_utils.py, of 2.14.
 *
 * A tensor has the number of its name in the index (`wholes`, by that number), and its parts form
 * a list in the order of the files. Only after all files were read are shapes known: until then
 * nothing may be joined. The parts must cover each tensor, which finds a missing file, but not a
 * missing last one.
 */
#include "set/hf/hf.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/text.h"
#include "format/safetensors.h"
#include "model/maker.h"
#include "set/joined.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 120, NONE = UINT32_MAX };

/* What one file has of a tensor. */
struct file_part {
	uint32_t shard, next; /* NEXT: another one of it, or NONE */
	const struct ckpt_value *value;
	uint64_t *offset;
};

/* A tensor, by the same number as its name. */
struct whole {
	uint32_t first, last; /* parts */
	enum ckpt_dtype dtype;
	uint32_t ndim;
	uint64_t *shape;
};

struct part_joiner {
	struct ckpt_document *doc;
	struct ckpt_hf *hf;
	struct ckpt_arena *arena; /* the document's */
	struct ckpt_maker maker;
	struct ckpt_value *root;
	uint32_t shard;	      /* that is read, and: */
	json_t *offsets;      /* what it says of its parts */
	struct file_part *parts; /* malloc */
	struct whole *wholes; /* malloc */
	const char **files;   /* malloc: names, for messages */
	uint32_t part_count, part_cap, whole_count, whole_cap;
	struct ckpt_error *err;
};

static int fail_tensor(struct part_joiner *j, const char *name, size_t len, uint32_t shard,
		       int status, const char *what)
{
	char shown[SHOWN], file[SHOWN];

	return ckpt_fail(j->err, status, "'%s' in '%s' %s",
			 ckpt_escape(shown, sizeof(shown), name, len),
			 ckpt_escape(file, sizeof(file), j->files[shard], strlen(j->files[shard])),
			 what);
}

/* ---- what a file says ---- */

static int read_offsets(struct part_joiner *j)
{
	const struct ckpt_safetensors *st = ckpt_safetensors_of(j->hf->shards[j->shard]);
	const struct ckpt_safetensors_pair *found = NULL;
	char shown[SHOWN];
	json_error_t error;

	json_decref(j->offsets);
	j->offsets = NULL;
	for (uint32_t i = 0; st && i < st->header.metadata_count; i++)
		if (!strcmp(st->header.metadata[i].key, "DCP_SHARDING_INFO"))
			found = &st->header.metadata[i];
	if (!st)
		return ckpt_fail(j->err, CKPT_E_UNSUPPORTED,
				 "is no safetensors file, as others of the set are");
	if (!found)
		return 0; /* all of it begins at the first item */
	j->offsets = ckpt_json_load(found->value, found->value_len, JSON_REJECT_DUPLICATES, &error);
	if (json_is_object(j->offsets))
		return 0;
	return ckpt_fail(j->err, CKPT_E_FORMAT, "DCP_SHARDING_INFO is no JSON object: %s",
			 j->offsets ? "it is something else"
				    : ckpt_escape(shown, sizeof(shown), error.text,
						  strlen(error.text)));
}

/* Where the part NAME begins, NDIM numbers. */
static int find_offset(struct part_joiner *j, const struct ckpt_value *name,
		       const struct ckpt_tensor *t, uint64_t *out)
{
	const json_t *info = NULL, *list;

	/* names with a zero byte are in no object that jansson reads */
	if (j->offsets && strlen(name->u.bytes.ptr) == name->u.bytes.len)
		info = json_object_get(j->offsets, name->u.bytes.ptr);
	list = json_object_get(info, "saved_offsets");
	if (!info)
		return 0;
	if (!json_is_array(list) || json_array_size(list) != t->ndim)
		return fail_tensor(j, name->u.bytes.ptr, name->u.bytes.len, j->shard, CKPT_E_FORMAT,
				   "does not say where it begins in every dimension");
	for (uint32_t i = 0; i < t->ndim; i++) {
		const json_t *number = json_array_get(list, i);

		if (!json_is_integer(number) || json_integer_value(number) < 0 ||
		    json_integer_value(number) > INT64_MAX / 2)
			return fail_tensor(j, name->u.bytes.ptr, name->u.bytes.len, j->shard,
					   CKPT_E_FORMAT, "begins at no place");
		out[i] = (uint64_t)json_integer_value(number);
	}
	return 0;
}

/* ---- parts ---- */

/* The tensor NAME, which may be new. */
static struct whole *find_or_add_whole(struct part_joiner *j, const struct ckpt_value *name,
				       const struct ckpt_tensor *t)
{
	struct ckpt_hf_entry *entry =
		ckpt_hf_index_find(&j->hf->index, name->u.bytes.ptr, (size_t)name->u.bytes.len);
	struct whole *grown, *w;

	if (entry)
		return &j->wholes[entry - j->hf->index.entries];
	grown = ckpt_grow(j->wholes, j->whole_count, &j->whole_cap, sizeof(*grown));
	if (!grown)
		return NULL;
	j->wholes = grown;
	w = &grown[j->whole_count];
	*w = (struct whole){ NONE, NONE, t->dtype, t->ndim, NULL };
	w->shape = ckpt_arena_calloc(j->arena, t->ndim + (uint64_t)1, sizeof(*w->shape));
	if (!w->shape || ckpt_hf_index_add_entry(&j->hf->index, name->u.bytes.ptr,
						 (size_t)name->u.bytes.len, j->shard, j->err) < 0)
		return NULL;
	j->whole_count++;
	return w;
}

static int link_part(struct part_joiner *j, struct whole *w, const struct ckpt_value *value,
		     uint64_t *offset)
{
	struct file_part *grown = ckpt_grow(j->parts, j->part_count, &j->part_cap, sizeof(*grown));

	if (!grown)
		return ckpt_fail_nomem(j->err);
	j->parts = grown;
	grown[j->part_count] = (struct file_part){ j->shard, NONE, value, offset };
	if (w->last == NONE)
		w->first = j->part_count;
	else
		grown[w->last].next = j->part_count;
	w->last = j->part_count++;
	return 0;
}

static int add_part(struct part_joiner *j, const struct ckpt_value *name,
		    const struct ckpt_value *value)
{
	const struct ckpt_model *m = j->hf->shards[j->shard];
	struct ckpt_tensor t;
	struct whole *w;
	uint64_t *offset;
	int rc = ckpt_tensor_parse(m, value, j->arena, &t, j->err);

	if (rc < 0)
		return rc;
	if (rc == 0 || t.kind != CKPT_KIND_STRIDED || t.storage < 0)
		return fail_tensor(j, name->u.bytes.ptr, name->u.bytes.len, j->shard,
				   CKPT_E_UNSUPPORTED, "is no tensor that torch could have");
	offset = ckpt_arena_calloc(j->arena, t.ndim + (uint64_t)1, sizeof(*offset));
	w = offset ? find_or_add_whole(j, name, &t) : NULL;
	if (!w)
		return ckpt_fail_nomem(j->err);
	if (w->dtype != t.dtype || w->ndim != t.ndim)
		return fail_tensor(j, name->u.bytes.ptr, name->u.bytes.len, j->shard, CKPT_E_FORMAT,
				   "is of another dtype or has other dimensions than in the files "
				   "before");
	rc = find_offset(j, name, &t, offset);
	for (uint32_t i = 0; rc == 0 && i < t.ndim; i++)
		if (offset[i] + t.shape[i] > w->shape[i])
			w->shape[i] = offset[i] + t.shape[i];
	return rc == 0 ? link_part(j, w, value, offset) : rc;
}

static int add_file(struct part_joiner *j)
{
	const struct ckpt_model *m = j->hf->shards[j->shard];
	const struct ckpt_seq *pairs = ckpt_value_pairs(ckpt_model_now(m, m->root));
	int rc = read_offsets(j);

	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2)
		rc = add_part(j, pairs->items[i], pairs->items[i + 1]);
	return ckpt_error_at(j->err, rc, ckpt_document_path(m->doc), NULL, CKPT_NO_OFFSET);
}

/* ---- wholes ---- */

static int join_parts(struct part_joiner *j, const struct whole *w, struct ckpt_recipe *out)
{
	struct ckpt_joined joined = ckpt_joined_of(j->arena, j->files, w->ndim);
	int rc = 0;

	for (uint32_t i = w->first; rc == 0 && i != NONE; i = j->parts[i].next) {
		const struct file_part *part = &j->parts[i];
		struct ckpt_tensor local;
		struct ckpt_recipe bytes;

		rc = ckpt_joined_local(j->hf->shards[part->shard], part->value, j->arena, &local,
				       &bytes, j->err);
		if (rc == 0)
			rc = ckpt_joined_add(&joined, part->shard, &local, &bytes, NULL,
					     part->offset, local.shape, j->err);
	}
	if (rc == 0)
		rc = ckpt_joined_bytes(&joined, w->shape, w->dtype, out, j->err);
	ckpt_joined_clear(&joined);
	return rc;
}

static int add_made_place(struct part_joiner *j, const struct ckpt_recipe *made)
{
	struct ckpt_hf *hf = j->hf;
	struct ckpt_hf_place *grown =
		ckpt_grow(hf->places, hf->place_count, &hf->place_cap, sizeof(*grown));
	struct ckpt_recipe *kept = ckpt_arena_alloc(j->arena, sizeof(*kept));

	if (grown)
		hf->places = grown;
	if (!grown || !kept)
		return ckpt_fail_nomem(j->err);
	*kept = *made;
	hf->places[hf->place_count++] = (struct ckpt_hf_place){ .made = kept };
	hf->storage_nbytes += made->len;
	hf->tensor_nbytes += made->len;
	return 0;
}

static int add_whole(struct part_joiner *j, uint32_t number)
{
	const struct ckpt_hf_entry *entry = &j->hf->index.entries[number];
	const struct whole *w = &j->wholes[number];
	struct ckpt_maker_view view = { .dtype = w->dtype, .ndim = w->ndim, .shape = w->shape };
	struct ckpt_recipe made;
	char key[16], shown[SHOWN];
	int rc = join_parts(j, w, &made);

	if (rc < 0)
		return ckpt_error_prefix(j->err, rc, "'%s': ",
					 ckpt_escape(shown, sizeof(shown), entry->name,
						     entry->len));
	if (rc == 0)
		rc = add_made_place(j, &made);
	if (rc < 0)
		return rc;
	snprintf(key, sizeof(key), "%" PRIu32, number);
	if (!ckpt_maker_put(&j->maker, j->root, ckpt_maker_text(&j->maker, entry->name, entry->len),
			    ckpt_maker_tensor(&j->maker,
					      ckpt_maker_storage(&j->maker, w->dtype, key, NULL,
								 made.len /
									 ckpt_dtype_size(w->dtype)),
					      &view)))
		return ckpt_fail_nomem(j->err);
	return 0;
}

static int join_all(struct part_joiner *j)
{
	int rc = 0;

	j->root = ckpt_maker_ordered_dict(&j->maker);
	j->files = calloc(j->hf->index.file_count + (size_t)1, sizeof(*j->files));
	if (!j->root || !j->files)
		return ckpt_fail_nomem(j->err);
	for (uint32_t i = 0; i < j->hf->index.file_count; i++)
		j->files[i] = j->hf->index.files[i].name;
	for (; rc == 0 && j->shard < j->hf->index.file_count; j->shard++)
		rc = add_file(j);
	for (uint32_t i = 0; rc == 0 && i < j->whole_count; i++)
		rc = add_whole(j, i);
	j->doc->pickle.root = j->root;
	return rc;
}

int ckpt_hf_join_values(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct part_joiner j = { .doc = doc,
				 .hf = doc->container,
				 .arena = doc->pickle.arena,
				 .maker = { .arena = doc->pickle.arena, .pickle = &doc->pickle },
				 .err = err };
	int rc = join_all(&j);

	ckpt_maker_clear(&j.maker);
	json_decref(j.offsets);
	free(j.parts);
	free(j.wholes);
	free(j.files);
	return rc;
}
