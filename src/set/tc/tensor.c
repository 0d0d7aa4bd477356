/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins one tensor of a torch_checkpointing directory: from the groups of ranks that the metadata
 * give for it, or, where they give none, from what a DTensor says of itself.
 *
 * `group` has one number for each rank and belongs to the tensor at hand: it is filled anew for
 * each. A tensor that every rank has in full is the lowest rank's, untouched; all others get a
 * storage that is made of the parts. `key` spells what a tensor was joined of, so that two names
 * of the same parts get one storage: everything that tells parts apart has to go into it.
 */
#include "set/tc/join.h"

#include "base/text.h"
#include "set/fields.h"
#include "model/plain_values.h"
#include "set/joined.h"
#include "set/mesh.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One tensor that the metadata describe. */
struct described {
	const struct ckpt_tc_node *node;
	const struct ckpt_value *list;	/* of groups */
	struct ckpt_tc_sharding *shardings; /* malloc: one for each */
	struct ckpt_tensor first;	/* what the lowest rank has, and: */
	struct ckpt_tensor local;	/* the local part of it */
};

static uint32_t rank_of_file(const struct ckpt_tc_joiner *j, uint32_t file)
{
	return j->tc->index.files[file].rank;
}

/* ---- which rank is in which group ---- */

static int note_group(struct ckpt_tc_joiner *j, const struct ckpt_value *ranks, uint32_t group,
		      bool set)
{
	for (uint32_t i = 0; i < ranks->u.seq.count; i++) {
		uint64_t rank;
		int rc = ckpt_fields_number(ranks->u.seq.items[i], "a rank", &rank, j->err);

		if (rc < 0)
			return rc;
		if (rank >= j->tc->index.world_size)
			return ckpt_fail(j->err, CKPT_E_FORMAT, "rank %" PRIu64 " of %" PRIu32,
					 rank, j->tc->index.world_size);
		if (set && j->group[rank])
			return ckpt_fail(j->err, CKPT_E_FORMAT,
					 "the metadata name rank %" PRIu64 " twice", rank);
		j->group[rank] = set ? group + 1 : 0;
	}
	return 0;
}

static bool same_shape(const struct ckpt_tc_sharding *a, const struct ckpt_tc_sharding *b)
{
	return a->ndim == b->ndim &&
	       (!a->ndim || !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)));
}

static uint32_t box_count(const struct ckpt_tc_sharding *sharding)
{
	return sharding->mesh ? 0 : sharding->local_sizes->u.seq.count;
}

static int count_items(struct ckpt_tc_joiner *j, uint32_t count)
{
	if (count > j->left)
		return ckpt_fail(j->err, CKPT_E_LIMIT,
				 "the metadata have long lists that many tensors share");
	j->left -= count;
	return 0;
}

static int read_groups(struct ckpt_tc_joiner *j, struct described *d)
{
	uint32_t count = d->list->u.seq.count;
	int rc = count_items(j, count);

	if (rc < 0)
		return rc;
	d->shardings = calloc(count + (size_t)1, sizeof(*d->shardings));
	if (!d->shardings)
		return ckpt_fail_nomem(j->err);
	if (!count)
		return ckpt_fail(j->err, CKPT_E_FORMAT, "the metadata name no ranks that have it");
	memset(j->group, 0, j->tc->index.world_size * sizeof(*j->group));
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		const struct ckpt_value *group = d->list->u.seq.items[i],
					*ranks = ckpt_tc_ranks(group);

		if (!ranks)
			return ckpt_fields_wrong(j->err, "a group with a tuple of ranks", group);
		rc = note_group(j, ranks, i, true);
		if (rc == 0)
			rc = ckpt_tc_sharding_read(&j->shardings,
						   ckpt_tc_field(group, "sharding_metadata"),
						   &d->shardings[i], j->err);
		if (rc == 0 && !same_shape(&d->shardings[i], d->shardings))
			rc = ckpt_fail(j->err, CKPT_E_FORMAT,
				       "the metadata give it two global shapes");
	}
	return rc;
}

/* ---- one tensor ---- */

/* What a rank has of it: T, and of a DTensor that was saved as such the part inside. */
static int parse_part(struct ckpt_tc_joiner *j, const struct ckpt_value *value,
		      struct ckpt_tensor *t, struct ckpt_tensor *local)
{
	struct ckpt_model *to = j->tree->to;
	int rc = ckpt_tensor_parse(to, value, to->arena, t, j->err);

	if (rc == 0)
		return ckpt_fail(j->err, CKPT_E_FORMAT, "is no tensor");
	*local = *t;
	if (rc < 0 || t->kind != CKPT_KIND_WRAPPER)
		return rc < 0 ? rc : 0;
	if (!t->local ||
	    ckpt_tensor_parse(to, ckpt_model_now(to, t->local), to->arena, local, NULL) != 1)
		return ckpt_fail(j->err, CKPT_E_UNSUPPORTED, "is a %s, whose parts are not known",
				 t->class_name ? t->class_name : "tensor of an unknown kind");
	return 0;
}

static int check_dtype(struct ckpt_tc_joiner *j, const struct ckpt_value *said,
		       const struct ckpt_tensor *t)
{
	char shown[CKPT_TC_SHOWN];

	if (!said || said->kind != CKPT_STR)
		return ckpt_fields_wrong(j->err, "a str as dtype", said);
	if (said->u.bytes.len > 6 && !memcmp(said->u.bytes.ptr, "torch.", 6) &&
	    strlen(ckpt_dtype_name(t->dtype)) == said->u.bytes.len - 6 &&
	    !memcmp(said->u.bytes.ptr + 6, ckpt_dtype_name(t->dtype), said->u.bytes.len - 6))
		return 0;
	return ckpt_fail(j->err, CKPT_E_FORMAT, "is of dtype %s, the metadata say %s",
			 ckpt_dtype_name(t->dtype),
			 ckpt_escape(shown, sizeof(shown), said->u.bytes.ptr, said->u.bytes.len));
}

static bool is_whole(const struct ckpt_tc_sharding *sharding, const struct ckpt_tensor *t)
{
	bool same = t->ndim == sharding->ndim;

	for (uint32_t i = 0; same && i < t->ndim; i++)
		same = t->shape[i] == sharding->shape[i];
	return same;
}

/* The checksum of a tensor that has its storage for itself. */
static bool crc_of(const struct ckpt_tc_joiner *j, const struct ckpt_tensor *t, uint32_t *crc)
{
	const struct ckpt_storage *s = t->storage >= 0 ? &j->tree->to->storages[t->storage] : NULL;
	uint64_t n = ckpt_dtype_size(t->dtype);

	for (uint32_t i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(n, t->shape[i], &n))
			return false;
	if (t->kind != CKPT_KIND_STRIDED || !s || !s->made || s->nbytes != n || !s->made->has_crc)
		return false;
	*crc = s->made->crc32;
	return true;
}

static void compare_copies(struct ckpt_tc_joiner *j, struct described *d,
			   const struct ckpt_tensor *other, bool *told)
{
	uint32_t one, two;

	if (*told || !crc_of(j, &d->local, &one) || !crc_of(j, other, &two) || one == two)
		return;
	*told = true;
	if (!j->tc->differing++)
		ckpt_tc_name(j, d->node, j->tc->first_differing);
}

/* Every rank has all of it: the lowest rank's is taken as it is, views and all. */
static int keep_first(struct ckpt_tc_joiner *j, struct described *d)
{
	bool told = false;

	for (uint32_t p = d->node->first_part; p != CKPT_TC_NONE; p = j->tree->parts[p].next) {
		const struct ckpt_tc_part *part = &j->tree->parts[p];
		struct ckpt_tensor t, local;
		int rc = parse_part(j, part->value, &t, &local);

		if (rc == 0 && (local.dtype != d->local.dtype || !is_whole(d->shardings, &local)))
			rc = ckpt_fail(j->err, CKPT_E_FORMAT,
				       "is of another shape or dtype than the metadata say of a "
				       "tensor that every rank has");
		if (rc < 0)
			return ckpt_tc_fail_node(j, d->node, part->file, rc);
		compare_copies(j, d, &local, &told);
	}
	return 0;
}

/* What makes two joined tensors one under two names: the same parts of the same storages. */
static void add_to_key(struct ckpt_tc_joiner *j, uint32_t file, const struct ckpt_tensor *local)
{
	ckpt_buf_add_u32(&j->key, file);
	ckpt_buf_add_u64(&j->key, (uint64_t)local->storage);
	ckpt_buf_add_u64(&j->key, local->offset);
	for (uint32_t i = 0; i < local->ndim; i++) {
		ckpt_buf_add_u64(&j->key, local->shape[i]);
		ckpt_buf_add_u64(&j->key, local->stride[i]);
	}
}

static int add_part(struct ckpt_tc_joiner *j, struct described *d, const struct ckpt_tc_part *part,
		    struct ckpt_joined *joined)
{
	uint32_t rank = rank_of_file(j, part->file), group = j->group[rank];
	struct ckpt_model *to = j->tree->to;
	struct ckpt_tensor t, local;
	struct ckpt_recipe bytes;
	int rc;

	if (!group)
		return ckpt_fail(j->err, CKPT_E_FORMAT,
				 "the metadata do not say which part rank %" PRIu32 " has", rank);
	rc = parse_part(j, part->value, &t, &local);
	if (rc == 0 && local.dtype != d->local.dtype)
		rc = ckpt_fail(j->err, CKPT_E_FORMAT, "is of dtype %s, elsewhere of %s",
			       ckpt_dtype_name(local.dtype), ckpt_dtype_name(d->local.dtype));
	if (rc == 0)
		rc = ckpt_joined_local(to, local.value, to->arena, &local, &bytes, j->err);
	if (rc < 0)
		return rc;
	add_to_key(j, part->file, &local);
	rc = count_items(j, box_count(&d->shardings[group - 1]));
	return rc < 0 ? rc
		      : ckpt_tc_sharding_add_part(&d->shardings[group - 1], rank, part->file,
						  &local, &bytes, joined, j->err);
}

/* The first rank that the metadata name and that has no part: UINT32_MAX if there is none. */
static uint32_t find_absent(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n)
{
	uint32_t absent = UINT32_MAX;

	for (uint32_t p = n->first_part; p != CKPT_TC_NONE; p = j->tree->parts[p].next)
		j->group[rank_of_file(j, j->tree->parts[p].file)] = 0;
	for (uint32_t r = 0; absent == UINT32_MAX && r < j->tc->index.world_size; r++)
		if (j->group[r])
			absent = r;
	return absent;
}

static int fail_hole(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n, int rc)
{
	uint32_t item = j->tc->index.files[n->file].item, absent = find_absent(j, n);
	char text[CKPT_TC_SHOWN + 80];

	if (absent == UINT32_MAX || rc != CKPT_E_FORMAT)
		return rc;
	ckpt_tc_describe_absent(&j->tc->index, item, absent, text, sizeof(text));
	return ckpt_error_prefix(j->err, rc, "%s: ", text);
}

/* The storage of what was joined, which another tensor may have been joined to before. */
static int make_storage(struct ckpt_tc_joiner *j, const struct ckpt_joined *joined,
			const struct described *d, uint32_t *storage)
{
	struct ckpt_model *to = j->tree->to;
	uint64_t *slot = ckpt_strmap_find(&j->ties, (char *)j->key.data, j->key.len);
	struct ckpt_recipe bytes;
	char *copy;
	bool there;
	int rc;

	if (slot) {
		*storage = (uint32_t)*slot;
		return 0;
	}
	rc = ckpt_joined_bytes(joined, d->shardings->shape, d->local.dtype, &bytes, j->err);
	if (rc < 0)
		return fail_hole(j, d->node, rc);
	rc = ckpt_joined_store(to, d->local.dtype,
			       d->local.storage >= 0 ? to->storages[d->local.storage].location
						     : "cpu",
			       &bytes, storage, j->err);
	if (rc < 0)
		return rc;
	copy = j->key.bad ? NULL : ckpt_arena_copy(to->arena, j->key.data, j->key.len);
	if (!copy)
		return ckpt_arena_fail(to->arena, j->err);
	if (!ckpt_strmap_insert(&j->ties, copy, j->key.len, *storage, &there))
		return ckpt_fail_nomem(j->err);
	return 0;
}

static void begin_key(struct ckpt_tc_joiner *j, const struct described *d)
{
	j->key.len = 0;
	ckpt_buf_add_u32(&j->key, d->local.dtype);
	ckpt_buf_add(&j->key, d->shardings->shape,
		     d->shardings->ndim * sizeof(*d->shardings->shape));
}

/* RC: whether all parts could be added. */
static int end_join(struct ckpt_tc_joiner *j, const struct described *d, struct ckpt_joined *joined,
		    int rc)
{
	const struct ckpt_tc_sharding *whole = d->shardings;
	uint32_t storage;

	if (rc == 0) {
		rc = make_storage(j, joined, d, &storage);
		if (rc == 0)
			rc = ckpt_plain_replace_tensor(j->tree->to, &d->first, whole->shape, whole->ndim,
						 storage, j->err);
		if (rc < 0)
			ckpt_tc_fail_node(j, d->node, CKPT_TC_NONE, rc);
	}
	ckpt_joined_clear(joined);
	return rc;
}

static int join_parts(struct ckpt_tc_joiner *j, struct described *d)
{
	struct ckpt_joined joined =
		ckpt_joined_of(j->tree->to->arena, j->tc->names, d->shardings->ndim);
	int rc = 0;

	begin_key(j, d);
	for (uint32_t p = d->node->first_part; rc == 0 && p != CKPT_TC_NONE;
	     p = j->tree->parts[p].next) {
		rc = add_part(j, d, &j->tree->parts[p], &joined);
		if (rc < 0)
			ckpt_tc_fail_node(j, d->node, j->tree->parts[p].file, rc);
	}
	return end_join(j, d, &joined, rc);
}

/*
 * Is a part there on all ranks that the metadata name? If not, but the tensor is whole, that is
 * worth a note; not so of plain tensors, which are described for all ranks wherever they are.
 */
static void note_absent(struct ckpt_tc_joiner *j, const struct described *d)
{
	uint32_t item = j->tc->index.files[d->node->file].item, absent = find_absent(j, d->node);
	char shown[CKPT_TC_SHOWN], text[CKPT_TC_SHOWN + 80];

	if (absent == UINT32_MAX || d->shardings[j->group[absent] - 1].replicated ||
	    j->tc->absent++)
		return;
	ckpt_tc_describe_absent(&j->tc->index, item, absent, text, sizeof(text));
	snprintf(j->tc->first_absent, sizeof(j->tc->first_absent), "%.120s of '%.100s'", text,
		 ckpt_tc_name(j, d->node, shown));
}

static int join_group(struct ckpt_tc_joiner *j, struct described *d)
{
	uint32_t group = j->group[rank_of_file(j, d->node->file)];
	bool as_it_is =
		group && d->shardings[group - 1].replicated && d->first.kind != CKPT_KIND_WRAPPER;
	int rc = as_it_is ? keep_first(j, d) : join_parts(j, d);

	if (rc == 0)
		note_absent(j, d);
	return rc;
}

int ckpt_tc_join_described(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n)
{
	struct described d = { .node = n, .list = j->tc->index.places[n->place].groups };
	int rc = parse_part(j, n->value, &d.first, &d.local);

	if (rc < 0)
		return ckpt_tc_fail_node(j, n, n->file, rc);
	rc = read_groups(j, &d);
	if (rc == 0)
		rc = check_dtype(j, d.shardings->dtype, &d.local);
	if (rc < 0)
		ckpt_tc_fail_node(j, n, CKPT_TC_NONE, rc);
	else
		rc = join_group(j, &d);
	free(d.shardings);
	return rc;
}

/* ---- DTensors that the metadata do not describe: they describe themselves ---- */

static int add_part_by_own_spec(struct ckpt_tc_joiner *j, const struct ckpt_tc_part *part,
				const struct ckpt_tensor *first, struct ckpt_mesh_extent *extents,
				struct ckpt_joined *joined)
{
	struct ckpt_model *to = j->tree->to;
	const struct ckpt_value *spec;
	struct ckpt_tensor t, local;
	struct ckpt_recipe bytes;
	bool has = false;
	int rc = parse_part(j, part->value, &t, &local);

	if (rc < 0)
		return rc;
	spec = t.kind == CKPT_KIND_WRAPPER ? ckpt_joined_spec(to, &t) : NULL;
	if (!spec)
		return ckpt_fail(j->err, CKPT_E_UNSUPPORTED, "does not say how it is spread");
	if (t.ndim != first->ndim || t.dtype != first->dtype ||
	    (t.ndim && memcmp(t.shape, first->shape, t.ndim * sizeof(*t.shape)) != 0))
		return ckpt_fail(j->err, CKPT_E_FORMAT, "is of another shape or dtype");
	rc = ckpt_mesh_extents(&j->meshes, to, spec, rank_of_file(j, part->file), t.shape, t.ndim,
			       extents, &has, j->err);
	if (rc < 0 || !has)
		return rc;
	rc = ckpt_joined_local(to, t.local, to->arena, &local, &bytes, j->err);
	if (rc < 0)
		return rc;
	add_to_key(j, part->file, &local);
	return ckpt_joined_add_extents(joined, part->file, &local, &bytes, extents, j->err);
}

static int join_by_own_spec(struct ckpt_tc_joiner *j, struct described *d)
{
	struct ckpt_mesh_extent *extents = calloc(d->first.ndim + (size_t)1, sizeof(*extents));
	struct ckpt_joined joined = ckpt_joined_of(j->tree->to->arena, j->tc->names, d->first.ndim);
	struct ckpt_tc_sharding whole = { .shape = d->first.shape, .ndim = d->first.ndim };
	int rc = extents ? 0 : ckpt_fail_nomem(j->err);

	d->shardings = &whole;
	begin_key(j, d);
	memset(j->group, 0, j->tc->index.world_size * sizeof(*j->group));
	for (uint32_t p = d->node->first_part; rc == 0 && p != CKPT_TC_NONE;
	     p = j->tree->parts[p].next) {
		rc = add_part_by_own_spec(j, &j->tree->parts[p], &d->first, extents, &joined);
		if (rc < 0)
			ckpt_tc_fail_node(j, d->node, j->tree->parts[p].file, rc);
	}
	free(extents);
	return end_join(j, d, &joined, rc);
}

int ckpt_tc_join_undescribed(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n)
{
	struct described d = { .node = n };
	int rc = parse_part(j, n->value, &d.first, &d.local);

	if (rc < 0)
		return ckpt_tc_fail_node(j, n, n->file, rc);
	return d.first.kind == CKPT_KIND_WRAPPER ? join_by_own_spec(j, &d) : 0;
}
