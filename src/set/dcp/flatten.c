/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the nested state of a model into the flat entries of a DCP directory, as torch's planner
 * does: mappings are always opened, lists only if a tensor or a mapping is somewhere below,
 * everything else is one entry. Source: torch/distributed/checkpoint/_traverse.py and
 * _nested_dict.py, from torch 2.4 on, checked with 2.6 and 2.14.
 *
 * A key is the path joined by dots; two paths that join to one key are an error, since the second
 * would be lost. There is no recursion, depth is limited, and so is the number of steps in all
 * paths together (`left`): values that stand in many places are an entry in each.
 */
#include "set/dcp/out.h"

#include "base/grow.h"
#include "base/text.h"
#include "model/path.h"
#include "model/state_dict.h"
#include "tensor/shape.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 1000, SHOWN = 120 };

enum answer { ANSWER_UNKNOWN, ANSWER_LEAF, ANSWER_OPEN, ANSWER_BUSY };

/* A container on the way down. */
struct flatten_level {
	const struct ckpt_value *value;
	const struct ckpt_seq *pairs; /* of a mapping; NULL: a list */
	uint32_t next;
	struct ckpt_dcp_step step; /* that led here */
	size_t fqn_len;		   /* of the key up to here */
	uint32_t first_entry;
};

struct flattener {
	const struct ckpt_model *model;
	struct ckpt_dcp_out *out;
	const uint8_t *leaf;
	uint32_t leaf_cap;
	uint8_t *answers; /* by id: is a list opened */
	struct flatten_level *levels;
	uint32_t depth;
	struct ckpt_buf fqn;
	struct ckpt_strmap names;
	uint64_t left; /* steps of paths that may still be written down */
	struct ckpt_error *err;
};

static const struct ckpt_value *now(const struct flattener *f, const struct ckpt_value *v)
{
	return ckpt_model_now(f->model, v);
}

static bool is_marked_leaf(const struct flattener *f, const struct ckpt_value *v)
{
	return f->leaf && v->id < f->leaf_cap && f->leaf[v->id];
}

/*
 * The dict that a Counter is made from, Counter({key: number}), or that a UserDict keeps its items
 * in.
 */
static const struct ckpt_value *inner_dict(const struct flattener *f, const struct ckpt_value *v)
{
	const struct ckpt_value *args, *state;

	if (ckpt_value_is_call_of(v, "collections", "Counter")) {
		args = now(f, v->u.call->args);
		return args->kind == CKPT_TUPLE && args->u.seq.count == 1
			       ? now(f, args->u.seq.items[0])
			       : NULL;
	}
	if ((!ckpt_value_is_call_of(v, "collections", "UserDict") &&
	     !ckpt_value_is_call_of(v, "UserDict",
				    "IterableUserDict")) || /* as protocol 2 has it */
	    !v->u.call->state)
		return NULL;
	state = now(f, v->u.call->state);
	return state->kind == CKPT_DICT ? ckpt_mapping_find(f->model, state, "data") : NULL;
}

static const struct ckpt_seq *mapping_of(const struct flattener *f, const struct ckpt_value *v)
{
	const struct ckpt_value *inner;

	if (is_marked_leaf(f, v) || ckpt_value_is_tensor(f->model, v))
		return NULL;
	inner = inner_dict(f, v);
	return ckpt_value_pairs(inner ? inner : v);
}

/*
 * A list is opened if it holds a tensor, a mapping, or a list that is opened. Looked at depth
 * first, with a stack of its own: lists may be nested as deep as a file likes, and may hold
 * themselves.
 */
static int is_list_opened(struct flattener *f, const struct ckpt_value *list, bool *out)
{
	const struct ckpt_value **stack = malloc(MOST_DEPTH * sizeof(*stack));
	uint32_t *next = calloc(MOST_DEPTH, sizeof(*next)), depth = 0;
	int rc = stack && next ? 0 : ckpt_fail_nomem(f->err);

	if (rc == 0) {
		stack[depth++] = list;
		f->answers[list->id] = ANSWER_BUSY;
	}
	while (rc == 0 && depth) {
		const struct ckpt_value *at = stack[depth - 1], *item;
		uint8_t *answer = &f->answers[at->id];

		if (next[depth - 1] == at->u.seq.count) {
			if (*answer == ANSWER_BUSY)
				*answer = ANSWER_LEAF;
			if (depth > 1 && *answer == ANSWER_OPEN)
				f->answers[stack[depth - 2]->id] = ANSWER_OPEN;
			next[--depth] = 0;
			continue;
		}
		item = now(f, at->u.seq.items[next[depth - 1]++]);
		if (ckpt_value_is_tensor(f->model, item) || mapping_of(f, item)) {
			*answer = ANSWER_OPEN;
		} else if (item->kind == CKPT_LIST && !is_marked_leaf(f, item)) {
			if (f->answers[item->id] == ANSWER_OPEN)
				*answer = ANSWER_OPEN;
			if (f->answers[item->id] != ANSWER_UNKNOWN)
				continue;
			if (depth == MOST_DEPTH) {
				rc = ckpt_fail(f->err, CKPT_E_LIMIT, "lists are nested too deep");
				break;
			}
			f->answers[item->id] = ANSWER_BUSY;
			stack[depth++] = item;
		}
	}
	*out = rc == 0 && f->answers[list->id] == ANSWER_OPEN;
	free(stack);
	free(next);
	return rc;
}

/* ---- entries ---- */

static int fail_entry(struct flattener *f, int rc)
{
	char shown[SHOWN];

	return ckpt_error_prefix(f->err, rc, "'%s': ",
				 ckpt_escape(shown, sizeof(shown), (char *)f->fqn.data,
					     f->fqn.len));
}

static int note_tensor(struct flattener *f, struct ckpt_dcp_out_entry *e)
{
	int rc = ckpt_tensor_parse(f->model, e->value, f->out->arena, &e->tensor, f->err);

	if (rc < 0)
		return fail_entry(f, rc);
	e->is_tensor = rc == 1;
	if (rc == 1 && e->tensor.kind != CKPT_KIND_STRIDED) {
		ckpt_fail(f->err, CKPT_E_UNSUPPORTED,
			  "is a tensor that is not plain (quantised, sparse, meta, a subclass), "
			  "which such a directory cannot hold");
		return fail_entry(f, CKPT_E_UNSUPPORTED);
	}
	if (rc == 0)
		return 0;
	rc = ckpt_shape_check(e->tensor.shape, e->tensor.ndim, ckpt_dtype_size(e->tensor.dtype),
			      f->err);
	return rc < 0 ? fail_entry(f, rc) : 0;
}

static int keep_path(struct flattener *f, const struct ckpt_dcp_step *last,
		     struct ckpt_dcp_out_entry *e)
{
	struct ckpt_dcp_step *path;

	e->depth = f->depth;
	path = ckpt_arena_alloc(f->out->arena, f->depth * sizeof(*path));
	e->fqn = ckpt_arena_copy(f->out->arena, f->fqn.data, f->fqn.len);
	e->fqn_len = f->fqn.len;
	if (!path || !e->fqn || f->fqn.bad)
		return ckpt_arena_fail(f->out->arena, f->err);
	for (uint32_t i = 1; i < f->depth; i++)
		path[i - 1] = f->levels[i].step;
	path[f->depth - 1] = *last;
	e->path = path;
	return 0;
}

static int add_entry(struct flattener *f, const struct ckpt_value *v,
		     const struct ckpt_dcp_step *step)
{
	struct ckpt_dcp_out *out = f->out;
	struct ckpt_dcp_out_entry *e =
		ckpt_grow(out->entries, out->entry_count, &out->entry_cap, sizeof(*e));
	bool there;
	int rc;

	if (!e)
		return ckpt_fail_nomem(f->err);
	out->entries = e;
	e = &out->entries[out->entry_count];
	*e = (struct ckpt_dcp_out_entry){ .value = v, .alias_of = UINT32_MAX };
	rc = keep_path(f, step, e);
	if (rc == 0)
		rc = note_tensor(f, e);
	if (rc < 0)
		return rc;
	if (!ckpt_strmap_insert(&f->names, e->fqn, e->fqn_len, out->entry_count, &there))
		return ckpt_fail_nomem(f->err);
	if (there) {
		ckpt_fail(f->err, CKPT_E_CLASH,
			  "two values would have this key, which joins their paths by dots");
		return fail_entry(f, CKPT_E_CLASH);
	}
	out->entry_count++;
	return 0;
}

/* ---- the way through ---- */

static int enter(struct flattener *f, const struct ckpt_value *v, const struct ckpt_seq *pairs,
		 const struct ckpt_dcp_step *step)
{
	for (uint32_t i = 0; i < f->depth; i++)
		if (f->levels[i].value == v)
			return ckpt_fail(f->err, CKPT_E_UNSUPPORTED, "a container holds itself");
	if (f->depth == MOST_DEPTH)
		return ckpt_fail(f->err, CKPT_E_LIMIT, "nested deeper than %d levels", MOST_DEPTH);
	f->levels[f->depth++] =
		(struct flatten_level){ v, pairs, 0, *step, f->fqn.len, f->out->entry_count };
	return 0;
}

/*
 * What stands in many places is an entry in each: a few containers that hold each other twice are
 * 2^40 of them. Paths may take so many steps in all, which is far from what a checkpoint needs
 * whose values are mostly in one place.
 */
static const uint64_t LEAST_STEPS = 1 << 22, STEPS_A_VALUE = 64;

static int count_steps(struct flattener *f)
{
	if (f->left < f->depth)
		return ckpt_fail(
			f->err, CKPT_E_LIMIT,
			"values that stand in many places would be more entries than a file of "
			"this size can mean");
	f->left -= f->depth;
	return 0;
}

/* Append the step to the key. */
static int extend_key(struct flattener *f, const struct flatten_level *level, uint32_t item,
		      struct ckpt_dcp_step *step)
{
	size_t start;
	char *text;

	f->fqn.len = level->fqn_len;
	if (f->depth > 1)
		ckpt_buf_add_u8(&f->fqn, '.');
	*step = (struct ckpt_dcp_step){ .position = item };
	if (!level->pairs) {
		ckpt_path_add_position(&f->fqn, item);
		return f->fqn.bad ? ckpt_fail_nomem(f->err) : 0;
	}
	start = f->fqn.len;
	ckpt_path_add_raw_key(&f->fqn, now(f, level->pairs->items[2 * item]));
	text = f->fqn.bad ? NULL
			  : ckpt_arena_copy(f->out->arena, f->fqn.data + start, f->fqn.len - start);
	step->text = text;
	step->len = f->fqn.len - start;
	return text ? 0 : ckpt_fail_nomem(f->err);
}

static int visit_value(struct flattener *f, const struct ckpt_value *v,
		       const struct ckpt_dcp_step *step)
{
	const struct ckpt_seq *pairs = mapping_of(f, v);
	bool open = false;
	int rc = 0;

	if (pairs)
		return enter(f, v, pairs, step);
	if (v->kind == CKPT_LIST && !is_marked_leaf(f, v) && v->id < f->model->next_id) {
		if (f->answers[v->id] == ANSWER_UNKNOWN)
			rc = is_list_opened(f, v, &open);
		else
			open = f->answers[v->id] == ANSWER_OPEN;
	}
	if (rc < 0)
		return rc;
	return open ? enter(f, v, NULL, step) : add_entry(f, v, step);
}

/*
 * A mapping without entries leaves no trace. In a list that moves nothing: torch's converter then
 * looks for an entry that is not there, so such a list cannot be saved.
 */
static int leave(struct flattener *f)
{
	const struct flatten_level *level = &f->levels[--f->depth];
	bool empty = level->first_entry == f->out->entry_count;

	if (!empty || !f->depth || f->levels[f->depth - 1].pairs)
		return 0;
	f->fqn.len = level->fqn_len;
	ckpt_fail(f->err, CKPT_E_UNSUPPORTED,
		  "is an empty dict in a list, which a DCP directory cannot hold");
	return fail_entry(f, CKPT_E_UNSUPPORTED);
}

static int flatten_all(struct flattener *f)
{
	int rc = 0;

	while (rc == 0 && f->depth) {
		struct flatten_level *level = &f->levels[f->depth - 1];
		uint32_t count = level->pairs ? level->pairs->count / 2 : level->value->u.seq.count;
		uint32_t item = level->next++;
		struct ckpt_dcp_step step;

		if (item >= count) {
			rc = leave(f);
			continue;
		}
		rc = count_steps(f);
		if (rc == 0)
			rc = extend_key(f, level, item, &step);
		if (rc == 0)
			rc = visit_value(f,
					 now(f, level->pairs ? level->pairs->items[2 * item + 1]
							     : level->value->u.seq.items[item]),
					 &step);
	}
	return rc;
}

int ckpt_dcp_flatten(const struct ckpt_model *model, const uint8_t *leaf, uint32_t leaf_cap,
		     struct ckpt_dcp_out *out, struct ckpt_error *err)
{
	struct flattener f = {
		.model = model,
		.out = out,
		.leaf = leaf,
		.leaf_cap = leaf_cap,
		.left = LEAST_STEPS + STEPS_A_VALUE * model->next_id,
		.err = err
	};
	const struct ckpt_value *root = ckpt_model_now(model, model->root);
	struct ckpt_dcp_step none = { 0 };
	int rc = 0;

	*out = (struct ckpt_dcp_out){ .arena = ckpt_arena_new(UINT64_MAX >> 1) };
	f.answers = calloc(model->next_id, 1);
	f.levels = malloc(MOST_DEPTH * sizeof(*f.levels));
	if (!out->arena || !f.answers || !f.levels)
		rc = ckpt_fail_nomem(err);
	if (rc == 0 && !mapping_of(&f, root))
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "its root is no dict, and such a directory holds nothing else");
	if (rc == 0)
		rc = enter(&f, root, mapping_of(&f, root), &none);
	if (rc == 0)
		rc = flatten_all(&f);
	free(f.answers);
	free(f.levels);
	ckpt_buf_clear(&f.fqn);
	ckpt_strmap_clear(&f.names);
	if (rc < 0)
		ckpt_dcp_out_clear(out);
	return rc;
}

int ckpt_dcp_out_add_chunk(struct ckpt_dcp_out *out, const struct ckpt_dcp_out_chunk *chunk,
			   struct ckpt_error *err)
{
	void *grown = ckpt_grow(out->chunks, (uint32_t)out->chunk_count, &out->chunk_cap,
				sizeof(*out->chunks));

	if (!grown)
		return ckpt_fail_nomem(err);
	out->chunks = grown;
	out->chunks[out->chunk_count++] = *chunk;
	return 0;
}

void ckpt_dcp_out_clear(struct ckpt_dcp_out *out)
{
	free(out->entries);
	free(out->chunks);
	ckpt_arena_free(out->arena);
	*out = (struct ckpt_dcp_out){ 0 };
}
