/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that every rank saved for itself with torch.save: which files of a directory are a set,
 * and one model of them all. Tensors that are spread over the ranks, DTensors and ShardedTensors,
 * are put together (set/joined.c); all others are rank 0's, and the other ranks' must only be
 * alike.
 *
 * The model is one derived from rank 0's, so its names, order and format are those of rank 0. The
 * other ranks' models stay open with it (`held`), as bytes come from them. Names of files decide
 * which rank one is of: two files of one rank, and a rank without one, are errors.
 */
#include "set/ranks/ranks.h"

#include "base/ascii.h"
#include "base/paths.h"
#include "base/text.h"
#include "format/torch_zip.h"
#include "model/plain_values.h"
#include "model/state_dict.h"
#include "set/joined.h"
#include "set/mesh.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 65536, SHOWN = 120 };

/* ---- which files ---- */

/*
 * "model_world_size_8_rank_3.pt": the rank, and how long the name is in front of it. -1: no such
 * name.
 */
static int64_t parse_file_name(const char *name, size_t *stem, size_t *digits)
{
	const char *at = strstr(name, "_rank");
	unsigned long rank;
	char *end;

	if (!at)
		return -1;
	at += strlen("_rank");
	at += *at == '_';
	if (!ckpt_is_digit((unsigned char)*at))
		return -1;
	rank = strtoul(at, &end, 10);
	if (rank >= MOST_RANKS ||
	    (strcmp(end, ".pt") && strcmp(end, ".bin") && strcmp(end, ".pth")))
		return -1;
	*stem = (size_t)(at - name);
	*digits = (size_t)(end - at);
	return (int64_t)rank;
}

bool ckpt_ranks_find(const struct ckpt_listing *l, char *stem, size_t size)
{
	bool found = false;

	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->items[i].name;
		size_t len, digits;

		if (parse_file_name(name, &len, &digits) != 0 || len >= size)
			continue;
		/*
		 * of several sets the model's: optimizers and other states are files of their own
		 */
		if (found && strncmp(name, "model_", 6) && strncmp(name, "pytorch_model", 13))
			continue;
		snprintf(stem, size, "%.*s", (int)len, name);
		found = true;
	}
	return found;
}

/* ---- the set ---- */

struct rank_models {
	struct ckpt_model **models; /* by rank, and: */
	char **names;		    /* their files */
	uint32_t count;
};

struct rank_joiner {
	struct rank_models *held;
	const struct ckpt_model *first;
	struct ckpt_model *to;
	struct ckpt_strmap *names; /* by rank: names of tensors to their numbers */
	struct ckpt_meshes meshes;
	struct ckpt_error *err;
};

static void free_rank_models(void *ctx)
{
	struct rank_models *h = ctx;

	for (uint32_t i = 0; h && i < h->count; i++) {
		if (h->models)
			ckpt_close(h->models[i]);
		if (h->names)
			free(h->names[i]);
	}
	if (h) {
		free(h->models);
		free(h->names);
	}
	free(h);
}

static int visit_rank_files(const void *ctx, ckpt_model_visit_file *visit, void *visit_ctx)
{
	const struct rank_models *h = ctx;
	int rc = 0;

	for (uint32_t i = 1; rc == 0 && i < h->count; i++) /* the first is the model's own */
		rc = ckpt_model_each_file(h->models[i], visit, visit_ctx);
	return rc;
}

/* FILE: whose part of it is wrong; NULL: all of them together. */
static int fail_tensor(struct rank_joiner *j, const struct ckpt_tensor *t, const char *file, int rc)
{
	char shown[SHOWN], name[SHOWN];

	return ckpt_error_prefix(j->err, rc, "'%s'%s%s: ",
				 ckpt_escape(shown, sizeof(shown), t->name, strlen(t->name)),
				 file ? " in " : "",
				 file ? ckpt_escape(name, sizeof(name), file, strlen(file)) : "");
}

/* The tensor NAME of a rank, or NULL. */
static const struct ckpt_tensor *tensor_of(const struct rank_joiner *j, uint32_t rank,
					   const char *name)
{
	uint64_t *slot = ckpt_strmap_find(&j->names[rank], name, strlen(name));

	return slot ? &j->held->models[rank]->tensors[*slot] : NULL;
}

/* ---- the parts of ranks ---- */

static int add_dtensor(struct rank_joiner *j, struct ckpt_joined *joined, uint32_t rank,
		       const struct ckpt_tensor *t)
{
	struct ckpt_mesh_extent *extents = calloc(t->ndim + (size_t)1, sizeof(*extents));
	const struct ckpt_model *m = j->held->models[rank];
	const struct ckpt_value *spec = ckpt_joined_spec(m, t);
	struct ckpt_tensor local = { 0 };
	struct ckpt_recipe bytes = { 0 };
	bool has = false;
	int rc = extents ? 0 : ckpt_fail_nomem(j->err);

	if (rc == 0 && !spec)
		rc = ckpt_fail(j->err, CKPT_E_FORMAT, "does not say how it is spread");
	if (rc == 0)
		rc = ckpt_mesh_extents(&j->meshes, m, spec, rank, t->shape, t->ndim, extents, &has,
				       j->err);
	if (rc == 0 && has)
		rc = ckpt_joined_local(m, t->local, j->to->arena, &local, &bytes, j->err);
	if (rc == 0 && has)
		rc = ckpt_joined_add_extents(joined, rank, &local, &bytes, extents, j->err);
	free(extents);
	return rc;
}

/*
 * An attribute of an object whose state is a dict, or a pair of one or none and the dict of its
 * slots.
 */
static const struct ckpt_value *field_of(const struct ckpt_model *m,
					 const struct ckpt_value *object, const char *name)
{
	object = object ? ckpt_model_now(m, object) : NULL;
	if (!object || object->kind != CKPT_CALL || !object->u.call->state)
		return NULL;
	return ckpt_state_find(m, ckpt_model_now(m, object->u.call->state), name);
}

static int read_numbers(struct rank_joiner *j, const struct ckpt_model *m,
			const struct ckpt_value *list, uint32_t count, uint64_t *out)
{
	list = list ? ckpt_model_now(m, list) : NULL;
	if (!list || (list->kind != CKPT_LIST && list->kind != CKPT_TUPLE) ||
	    list->u.seq.count != count)
		return ckpt_fail(j->err, CKPT_E_FORMAT, "a shard does not say where it lies");
	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt_value *v = ckpt_model_now(m, list->u.seq.items[i]);

		if (v->kind != CKPT_INT || v->u.integer < 0)
			return ckpt_fail(j->err, CKPT_E_FORMAT, "a shard lies at no place");
		out[i] = (uint64_t)v->u.integer;
	}
	return 0;
}

static int add_shard(struct rank_joiner *j, struct ckpt_joined *joined, uint32_t rank,
		     const struct ckpt_tensor *t, const struct ckpt_value *shard)
{
	const struct ckpt_model *m = j->held->models[rank];
	const struct ckpt_value *metadata = field_of(m, shard, "metadata");
	uint64_t offset[CKPT_MOST_DIMS];
	struct ckpt_tensor local;
	struct ckpt_recipe bytes;
	int rc = read_numbers(j, m, field_of(m, metadata, "shard_offsets"), t->ndim, offset);

	if (rc == 0)
		rc = ckpt_joined_local(m, field_of(m, shard, "tensor"), j->to->arena, &local,
				       &bytes, j->err);
	if (rc < 0)
		return rc;
	if (local.ndim != t->ndim)
		return ckpt_fail(j->err, CKPT_E_FORMAT, "a shard has other dimensions");
	for (uint32_t i = 0; i < t->ndim; i++)
		if (local.shape[i] &&
		    (offset[i] > t->shape[i] || local.shape[i] > t->shape[i] - offset[i]))
			return ckpt_fail(j->err, CKPT_E_FORMAT,
					 "a shard reaches out of its tensor");
	return ckpt_joined_add(joined, rank, &local, &bytes, NULL, offset, local.shape, j->err);
}

/* The state of a ShardedTensor begins with the list of its local shards. */
static int add_sharded(struct rank_joiner *j, struct ckpt_joined *joined, uint32_t rank,
		       const struct ckpt_tensor *t)
{
	const struct ckpt_model *m = j->held->models[rank];
	const struct ckpt_value *args = ckpt_model_now(m, t->value->u.call->args), *state,
				*list = NULL;
	int rc = 0;

	if (args->kind == CKPT_TUPLE && args->u.seq.count >= 4) {
		state = ckpt_model_now(m, args->u.seq.items[3]);
		if (state->kind == CKPT_TUPLE && state->u.seq.count)
			list = ckpt_model_now(m, state->u.seq.items[0]);
	}
	if (!list || list->kind != CKPT_LIST)
		return ckpt_fail(j->err, CKPT_E_FORMAT, "has no list of shards");
	for (uint32_t i = 0; rc == 0 && i < list->u.seq.count; i++)
		rc = add_shard(j, joined, rank, t, list->u.seq.items[i]);
	return rc;
}

/* ---- joining ---- */

static bool same_dims(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
	bool same = a->ndim == b->ndim && a->dtype == b->dtype;

	for (uint32_t i = 0; same && i < a->ndim; i++)
		same = a->shape[i] == b->shape[i];
	return same;
}

/* The device of rank 0's local part: "cuda:0", where the DTensor itself says "cuda". */
static const char *location_of(struct rank_joiner *j, const struct ckpt_tensor *t)
{
	struct ckpt_tensor local;

	if (t->local &&
	    ckpt_tensor_parse(j->first, ckpt_model_now(j->first, t->local), j->to->arena, &local,
			      NULL) == 1 &&
	    local.storage >= 0)
		return j->first->storages[local.storage].location;
	return t->device;
}

static int make_whole(struct rank_joiner *j, const struct ckpt_joined *joined,
		      const struct ckpt_tensor *t)
{
	struct ckpt_recipe made;
	uint32_t storage;
	int rc = ckpt_joined_bytes(joined, t->shape, t->dtype, &made, j->err);

	if (rc < 0)
		return fail_tensor(j, t, NULL, rc);
	rc = ckpt_joined_store(j->to, t->dtype, location_of(j, t), &made, &storage, j->err);
	if (rc == 0)
		rc = ckpt_plain_replace_tensor(j->to, t, t->shape, t->ndim, storage, j->err);
	return rc;
}

static int join_tensor(struct rank_joiner *j, const struct ckpt_tensor *t)
{
	struct ckpt_joined joined =
		ckpt_joined_of(j->to->arena, (const char *const *)j->held->names, t->ndim);
	bool sharded = t->class_name && !strcmp(t->class_name, "ShardedTensor");
	int rc = 0;

	if (!sharded && (!t->class_name || strcmp(t->class_name, "DTensor")))
		return ckpt_fail(j->err, CKPT_E_UNSUPPORTED,
				 "'%s' is a %s, which cannot be joined yet", t->name,
				 t->class_name ? t->class_name : "tensor of an unknown kind");
	for (uint32_t r = 0; rc == 0 && r < j->held->count; r++) {
		const struct ckpt_tensor *of = tensor_of(j, r, t->name);

		if (!of)
			rc = ckpt_fail(j->err, CKPT_E_FORMAT, "is not there");
		else if (of->kind != CKPT_KIND_WRAPPER || !same_dims(t, of))
			rc = ckpt_fail(j->err, CKPT_E_FORMAT, "is of another shape or dtype");
		else if (j->held->models[r]->doc->big_endian) /* joined bytes are taken for little-endian ones */
			rc = ckpt_fail(j->err, CKPT_E_UNSUPPORTED, "is big-endian; 'ckpt convert' of this file turns it around");
		else
			rc = sharded ? add_sharded(j, &joined, r, of)
				     : add_dtensor(j, &joined, r, of);
		if (rc < 0)
			fail_tensor(j, t, j->held->names[r], rc);
	}
	if (rc == 0)
		rc = make_whole(j, &joined, t);
	ckpt_joined_clear(&joined);
	return rc;
}

static int check_replica(struct rank_joiner *j, const struct ckpt_tensor *t)
{
	for (uint32_t r = 1; r < j->held->count; r++) {
		const struct ckpt_tensor *of = tensor_of(j, r, t->name);

		if (!of || of->kind != t->kind || !same_dims(t, of)) {
			ckpt_fail(j->err, CKPT_E_FORMAT,
				  of ? "is of another shape or dtype than rank 0's"
				     : "is not there, rank 0 has it");
			return fail_tensor(j, t, j->held->names[r], CKPT_E_FORMAT);
		}
	}
	return 0;
}

static int join_all(struct rank_joiner *j)
{
	const struct ckpt_model *first = j->held->models[0];
	int rc = ckpt_model_derive(first, &j->to, j->err);
	uint64_t nbytes = 0;

	for (uint32_t r = 0; r < j->held->count; r++)
		nbytes += j->held->models[r]->doc->pickle_len;
	j->first = first;
	if (rc == 0)
		rc = ckpt_meshes_init(&j->meshes, nbytes, j->err);
	if (rc == 0)
		rc = ckpt_model_own_storages(j->to, j->err);
	for (uint32_t i = 0; rc == 0 && i < first->tensor_count; i++) {
		const struct ckpt_tensor *t = &first->tensors[i];

		if (t->value->id < j->to->replaced_cap && j->to->replaced[t->value->id])
			continue; /* under another name already */
		rc = t->kind == CKPT_KIND_WRAPPER ? join_tensor(j, t) : check_replica(j, t);
	}
	return rc;
}

static int list_names(struct rank_joiner *j)
{
	j->names = calloc(j->held->count, sizeof(*j->names));
	if (!j->names)
		return ckpt_fail_nomem(j->err);
	for (uint32_t r = 0; r < j->held->count; r++) {
		const struct ckpt_model *m = j->held->models[r];
		bool there;

		if (!ckpt_model_has_tensors(m))
			return ckpt_fail_nomem(j->err);
		for (uint32_t i = 0; i < m->tensor_count; i++) {
			if (m->tensors[i].name_is_cut)
				return ckpt_fail(
					j->err, CKPT_E_LIMIT,
					"the name of a tensor is longer than %d bytes: '%.60s...'",
					CKPT_MOST_TENSOR_NAME, m->tensors[i].name);
			if (!ckpt_strmap_insert(&j->names[r], m->tensors[i].name,
						strlen(m->tensors[i].name), i, &there))
				return ckpt_fail_nomem(j->err);
		}
	}
	return 0;
}

/* ---- opening ---- */

static int open_rank(const char *path, const char *name, struct ckpt_model **out,
		     struct ckpt_error *err)
{
	struct ckpt_source *source;
	char *file;
	int rc;

	if (ckpt_path_join(path, name, &file, err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_source_open(file, &source, err);
	if (rc == 0) {
		rc = ckpt_torch_zip_read(source, out, err);
		ckpt_source_unref(source);
	}
	rc = ckpt_error_at(err, rc, file, NULL, CKPT_NO_OFFSET);
	free(file);
	return rc;
}

/* "world_size_8" in the name says how many there are. */
static uint64_t world_size(const char *stem)
{
	const char *at = strstr(stem, "world_size_");

	return at ? strtoull(at + strlen("world_size_"), NULL, 10) : 0;
}

/* The file's rank if it is one of the set, or -1. */
static int64_t rank_in_set(const char *name, const char *stem)
{
	size_t len, digits;
	int64_t rank = parse_file_name(name, &len, &digits);

	return rank >= 0 && len == strlen(stem) && !strncmp(name, stem, len) ? rank : -1;
}

static uint32_t count_ranks(const struct ckpt_listing *l, const char *stem)
{
	uint64_t count = world_size(stem);

	for (size_t i = 0; i < l->count; i++) {
		int64_t rank = rank_in_set(l->items[i].name, stem);

		if (rank >= 0 && (uint64_t)rank >= count)
			count = (uint64_t)rank + 1;
	}
	return count < MOST_RANKS ? (uint32_t)count : MOST_RANKS;
}

static int fail_double(int64_t rank, const char *a, const char *b, struct ckpt_error *err)
{
	char first[SHOWN], second[SHOWN];

	return ckpt_fail(err, CKPT_E_FORMAT, "two files are of rank %" PRIi64 ": '%s' and '%s'",
			 rank, ckpt_escape(first, sizeof(first), a, strlen(a)),
			 ckpt_escape(second, sizeof(second), b, strlen(b)));
}

/* One file for each rank, none of them twice. */
static int name_files(const struct ckpt_listing *l, const char *stem, struct rank_models *held,
		      struct ckpt_error *err)
{
	char shown[SHOWN];
	uint32_t found = 0;

	for (size_t i = 0; i < l->count; i++) {
		int64_t rank = rank_in_set(l->items[i].name, stem);

		if (rank < 0)
			continue;
		if (held->names[rank])
			return fail_double(rank, held->names[rank], l->items[i].name, err);
		held->names[rank] = strdup(l->items[i].name);
		if (!held->names[rank])
			return ckpt_fail_nomem(err);
		found++;
	}
	if (found == held->count)
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "holds %" PRIu32 " of the %" PRIu32 " files '%s...' of all ranks", found,
			 held->count, ckpt_escape(shown, sizeof(shown), stem, strlen(stem)));
}

static int open_all(const char *path, const struct ckpt_listing *l, const char *stem,
		    struct rank_models *held, struct ckpt_error *err)
{
	int rc;

	held->count = count_ranks(l, stem);
	held->models = calloc(held->count, sizeof(struct ckpt_model *));
	held->names = calloc(held->count, sizeof(char *));
	rc = held->models && held->names ? name_files(l, stem, held, err) : ckpt_fail_nomem(err);
	for (uint32_t r = 0; rc == 0 && r < held->count; r++)
		rc = open_rank(path, held->names[r], &held->models[r], err);
	return rc;
}

int ckpt_ranks_open(const char *path, const struct ckpt_listing *listing, const char *stem,
		    struct ckpt_model **out, struct ckpt_error *err)
{
	struct rank_joiner j = { .held = calloc(1, sizeof(struct rank_models)), .err = err };
	int rc = j.held ? open_all(path, listing, stem, j.held, err) : ckpt_fail_nomem(err);

	*out = NULL;
	if (rc == 0)
		rc = list_names(&j);
	if (rc == 0)
		rc = join_all(&j);
	for (uint32_t r = 0; j.names && r < j.held->count; r++)
		ckpt_strmap_clear(&j.names[r]);
	free(j.names);
	ckpt_meshes_clear(&j.meshes);
	if (rc < 0) {
		ckpt_close(j.to);
		free_rank_models(j.held);
		return rc;
	}
	j.to->held =
		j.held; /* the other ranks' files stay open as long as the bytes may be wanted */
	j.to->free_held = free_rank_models;
	j.to->held_files = visit_rank_files;
	*out = j.to;
	return 0;
}
