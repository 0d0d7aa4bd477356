/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every value of a checkpoint with its name, depth first and without recursion: the one order and
 * the one naming that lists, edits, diff and messages share. walk.h has the form of names.
 *
 * A level of the stack is a value that is being walked, with the part of it that is next; each
 * visit happens with its own level on the stack, which the exact name is read from. A value is
 * entered once (`entered`, by id), and so are arguments and states that several objects share.
 * `name` is one buffer: a level remembers how much of it is its own name and how much the names
 * below begin with. Those two differ where a module's mappings are left out.
 *
 * Names are not unique. `way` tells apart two values of one name; it must not depend on anything
 * but the path, since diff compares it between files.
 */
#include "model/walk.h"

#include "base/grow.h"
#include "model/module.h"
#include "model/path.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 100000 };

/* The parts of a value that have children, in the order in which they are walked. */
enum part {
	PART_SEQ,
	PART_FUNC,
	PART_ARGS,
	PART_KWARGS,
	PART_ITEMS,
	PART_PAIRS,
	PART_STATE, /* attributes: a dict, or the first half of a pair (dict or None, slots) */
	PART_STATE_SLOTS, /* the second half */
	PART_STATE_OTHER, /* whatever else a class makes of its state */
	PART_COUNT,
};

struct walk_level {
	const struct ckpt_value *v;
	uint8_t part;
	uint32_t i;
	const struct ckpt_value *key; /* how it hangs in its parent: by key, or at a */
	uint32_t position;
	uint32_t way;
	size_t name_len, base_len; /* of its name; of what the names below it begin with */
	bool bare;		   /* with no dot behind that */
	bool unnamed;		   /* the part of a module that names below pass over */
};

struct ckpt_walker {
	const struct ckpt_model *model;
	ckpt_walk_visit *visit;
	void *ctx;
	struct ckpt_error *err;
	struct ckpt_buf name;
	struct walk_level *levels;
	uint32_t depth, cap;
	uint8_t *entered; /* bitmap by id */
	const struct ckpt_value *lone[2];
	struct ckpt_seq lone_seq;
};

static const struct ckpt_value *now(const struct ckpt_walker *w, const struct ckpt_value *v)
{
	return ckpt_model_now(w->model, v);
}

static const struct ckpt_seq no_seq;

static const struct ckpt_seq *seq_if(const struct ckpt_value *v, uint8_t kind)
{
	return v && v->kind == kind ? &v->u.seq : &no_seq;
}

static const struct ckpt_value state_key = { .kind = CKPT_STR, .u.bytes = { "state", 5 } };
static const struct ckpt_value func_key = { .kind = CKPT_STR, .u.bytes = { "func", 4 } };

/* One child under a name of our own. */
static const struct ckpt_seq *lone_child(struct ckpt_walker *w, const struct ckpt_value *key,
					 const struct ckpt_value *child)
{
	w->lone[0] = key;
	w->lone[1] = child;
	w->lone_seq = (struct ckpt_seq){ w->lone, 2, 2 };
	return &w->lone_seq;
}

static bool is_slots_pair(const struct ckpt_walker *w, const struct ckpt_value *state)
{
	const struct ckpt_value *first, *second;

	if (state->kind != CKPT_TUPLE || state->u.seq.count != 2)
		return false;
	first = now(w, state->u.seq.items[0]);
	second = now(w, state->u.seq.items[1]);
	return second->kind == CKPT_DICT && (first->kind == CKPT_NONE || first->kind == CKPT_DICT);
}

static const struct ckpt_seq *part_of_state(struct ckpt_walker *w, const struct ckpt_value *state,
					    uint8_t part)
{
	bool slots = is_slots_pair(w, state);

	if (part == PART_STATE_OTHER)
		return slots || state->kind == CKPT_DICT ? &no_seq
							 : lone_child(w, &state_key, state);
	if (part == PART_STATE_SLOTS)
		return slots ? seq_if(now(w, state->u.seq.items[1]), CKPT_DICT) : &no_seq;
	return seq_if(slots ? now(w, state->u.seq.items[0]) : state, CKPT_DICT);
}

static const struct ckpt_seq *part_of_call(struct ckpt_walker *w, const struct ckpt_call *call,
					   uint8_t part)
{
	const struct ckpt_value *func = now(w, call->func);

	switch ((enum part)part) {
	case PART_FUNC: return func->kind == CKPT_CALL ? lone_child(w, &func_key, func) : &no_seq;
	case PART_ARGS: return seq_if(now(w, call->args), CKPT_TUPLE);
	case PART_KWARGS: return seq_if(call->kwargs ? now(w, call->kwargs) : NULL, CKPT_DICT);
	case PART_ITEMS: return &call->items;
	case PART_PAIRS: return &call->pairs;
	default: return call->state ? part_of_state(w, now(w, call->state), part) : &no_seq;
	}
}

/* The children of one part of V. Keyed ones come as key, value, key, value. */
static const struct ckpt_seq *part_of(struct ckpt_walker *w, const struct ckpt_value *v,
				      uint8_t part, bool *keyed)
{
	*keyed = part != PART_ARGS && part != PART_ITEMS;
	if (part == PART_SEQ) {
		*keyed = v->kind == CKPT_DICT;
		return v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT ? &v->u.seq : &no_seq;
	}
	return v->kind == CKPT_CALL ? part_of_call(w, v->u.call, part) : &no_seq;
}

static bool can_enter(const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL || (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT);
}

static bool test_and_set(struct ckpt_walker *w, const struct ckpt_value *v)
{
	uint8_t bit = (uint8_t)(1 << (v->id & 7)), *byte = &w->entered[v->id >> 3];
	bool was = *byte & bit;

	if (v->id)
		*byte |= bit;
	return v->id && was;
}

static bool was_entered(const struct ckpt_walker *w, const struct ckpt_value *v)
{
	return v->id && (w->entered[v->id >> 3] >> (v->id & 7) & 1);
}

static int push(struct ckpt_walker *w, const struct walk_level *level)
{
	void *grown;

	if (w->depth == MOST_DEPTH)
		return ckpt_fail(w->err, CKPT_E_LIMIT, "values are nested deeper than %d levels",
				 MOST_DEPTH);
	grown = ckpt_grow(w->levels, w->depth, &w->cap, sizeof(*w->levels));
	if (!grown)
		return ckpt_fail_nomem(w->err);
	w->levels = grown;
	w->levels[w->depth++] = *level;
	return 0;
}

static int visit(struct ckpt_walker *w, const struct walk_level *level)
{
	const struct ckpt_value *v = level->v;
	struct ckpt_walk_step step = { .value = v,
				       .name_len = w->name.len,
				       .below_len = level->base_len,
				       .depth = w->depth,
				       .way = level->way,
				       .seen = was_entered(w, v),
				       .walker = w };
	int rc = push(w, level); /* also for leaves: the exact name needs it */

	if (rc < 0)
		return rc;
	ckpt_buf_add_u8(&w->name, '\0');
	step.name = (const char *)w->name.data;
	if (w->name.bad)
		return ckpt_fail_nomem(w->err);
	rc = w->visit(w->ctx, &step, w->err);
	w->name.len--;
	if (rc < 0)
		return ckpt_error_at(w->err, rc, NULL, NULL, v->pos);
	if (rc == CKPT_WALK_SKIP || !can_enter(v) || test_and_set(w, v))
		w->depth--;
	return 0;
}

/*
 * What is in the mappings of a module is called as its state_dict() calls it: `conv.weight`, not
 * `_modules.conv._parameters.weight`. Is V, under KEY, such a mapping?
 */
static bool is_mapping_of_module(const struct ckpt_walker *w, const struct ckpt_value *key,
				 const struct ckpt_value *v)
{
	static const char *const names[] = { "_parameters", "_buffers", "_modules" };
	const struct walk_level *top = &w->levels[w->depth - 1];

	if (!key || key->kind != CKPT_STR || !key->u.bytes.len || key->u.bytes.ptr[0] != '_')
		return false;
	if (top->v->kind == CKPT_DICT && top->unnamed) /* the attributes of a module of torch.fx */
		top--;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (ckpt_value_is_str(key, names[i]))
			return ckpt_module_mapping(w->model, top->v, names[i]) == v;
	return false;
}

/* The attributes of a module are an argument where torch.fx made it. */
static bool is_body_of_module(const struct ckpt_walker *w, const struct ckpt_value *key,
			      const struct ckpt_value *v)
{
	const struct walk_level *top = &w->levels[w->depth - 1];

	return !key && v->kind == CKPT_DICT && top->part == PART_ARGS &&
	       ckpt_module_attributes(w->model, top->v) == v && ckpt_is_module(w->model, top->v);
}

/* Names do not grow for ever: what is deeper, or has longer keys, is called as what it is in. */
static void shorten(struct ckpt_buf *name)
{
	size_t len = CKPT_WALK_MOST_NAME;

	if (name->len <= len)
		return;
	while (len && (name->data[len] & 0xC0) == 0x80)
		len--;
	name->len = len;
}

/* Names do not grow for ever, but the ways of those that are cut differ. */
static uint32_t shorten_way(struct ckpt_buf *name)
{
	size_t whole = name->len;
	uint32_t hash = 0;

	shorten(name);
	for (size_t i = name->len; i < whole; i++)
		hash = (hash ^ name->data[i]) * 0x01000193u + 1;
	return hash;
}

static int visit_child(struct ckpt_walker *w, const struct ckpt_value *child,
		       const struct ckpt_value *key, uint32_t position)
{
	const struct walk_level *top = &w->levels[w->depth - 1];
	struct walk_level level = { .v = now(w, child), .key = key, .position = position };

	level.unnamed = is_mapping_of_module(w, key, level.v) || is_body_of_module(w, key, level.v);
	level.way = (top->way ^ (uint32_t)top->part << 8 ^
		     (key ? key->kind == CKPT_PY2_STR ? CKPT_STR : key->kind : UINT8_MAX)) *
			    0x9E3779B1u +
		    1;
	if (key && key->kind >= CKPT_CALL) /* an object, which others are called the same as */
		level.way += position * 0x85EBCA6Bu;
	level.base_len = top->base_len;
	level.bare = top->bare;
	w->name.len = top->base_len;
	if (!top->bare)
		ckpt_buf_add_u8(&w->name, '.');
	if (key)
		ckpt_path_add_key(&w->name, key);
	else
		ckpt_path_add_position(&w->name, position);
	level.way ^= shorten_way(&w->name);
	level.name_len = w->name.len;
	if (!level.unnamed) {
		level.base_len = w->name.len;
		level.bare = false;
	}
	return visit(w, &level);
}

/* The dict of attributes, or of slots, that a part of a state is; NULL: none. */
static const struct ckpt_value *part_of_state_holder(const struct ckpt_walker *w,
						     const struct ckpt_value *state, uint8_t part)
{
	if (is_slots_pair(w, state))
		return state->u.seq.items[part - PART_STATE];
	return part == PART_STATE && state->kind == CKPT_DICT ? state : NULL;
}

/*
 * Arguments and states hang on the objects they made. Where many objects name the same tuple or
 * dict, its contents are walked for the first of them.
 */
static bool first_visit_of_part(struct ckpt_walker *w, const struct ckpt_value *v, uint8_t part)
{
	const struct ckpt_call *call = v->kind == CKPT_CALL ? v->u.call : NULL;
	const struct ckpt_value *holder = NULL, *state = call ? call->state : NULL;

	if (call && part == PART_ARGS)
		holder = call->args;
	else if (call && part == PART_KWARGS)
		holder = call->kwargs;
	else if (state && (part == PART_STATE || part == PART_STATE_SLOTS))
		holder = part_of_state_holder(w, now(w, state), part);
	return !holder || !test_and_set(w, now(w, holder));
}

static int advance(struct ckpt_walker *w)
{
	struct walk_level *top = &w->levels[w->depth - 1];
	const struct ckpt_seq *seq;
	bool keyed;
	uint32_t i;

	for (; top->part < PART_COUNT; top->part++, top->i = 0) {
		if (top->i == 0 && !first_visit_of_part(w, top->v, top->part))
			continue;
		seq = part_of(w, top->v, top->part, &keyed);
		if (top->i >= seq->count)
			continue;
		i = top->i;
		top->i += keyed ? 2 : 1;
		if (keyed)
			return visit_child(w, seq->items[i + 1], now(w, seq->items[i]), i / 2);
		return visit_child(w, seq->items[i], NULL, i);
	}
	w->depth--;
	return 0;
}

int ckpt_model_walk(const struct ckpt_model *model, ckpt_walk_visit *visit_fn, void *ctx,
		    struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT;
	struct ckpt_walker w = { .model = model, .visit = visit_fn, .ctx = ctx };
	struct walk_level root = { .bare = true };
	int rc;

	w.err = err ? err : &local;
	w.entered = calloc((size_t)model->next_id / 8 + 1, 1);
	if (!w.entered)
		return ckpt_fail_nomem(err);
	root.v = now(&w, model->root);
	rc = visit(&w, &root);
	while (rc >= 0 && w.depth)
		rc = advance(&w);
	free(w.entered);
	free(w.levels);
	ckpt_buf_clear(&w.name);
	return rc < 0 ? rc : 0;
}

void ckpt_walk_exact_name(const struct ckpt_walk_step *step, struct ckpt_buf *out)
{
	const struct ckpt_walker *w = step->walker;

	for (uint32_t i = 1; i < w->depth; i++) {
		const struct walk_level *level = &w->levels[i];

		ckpt_buf_add_u8(out, '[');
		if (level->key)
			ckpt_path_add_exact_key(out, level->key);
		else
			ckpt_path_add_position(out, level->position);
		ckpt_buf_add_u8(out, ']');
	}
	ckpt_buf_add_u8(out, '\0');
	if (!out->bad)
		out->len--;
}

static bool is_entry_part(const struct ckpt_value *parent, uint8_t part)
{
	if (part == PART_SEQ)
		return parent->kind == CKPT_DICT || parent->kind == CKPT_LIST;
	if (part == PART_ITEMS) /* not of an OrderedDict that was appended to */
		return !ckpt_value_pairs(parent);
	return part == PART_PAIRS && !parent->u.call->items.count;
}

bool ckpt_walk_is_entry(const struct ckpt_walk_step *step, const struct ckpt_value **parent,
			uint32_t *index)
{
	const struct ckpt_walker *w = step->walker;
	const struct walk_level *above;

	if (w->depth < 2)
		return false;
	above = &w->levels[w->depth - 2];
	*parent = above->v;
	*index = above->i - (w->levels[w->depth - 1].key ? 2 : 1);
	return is_entry_part(above->v, above->part);
}

bool ckpt_walk_slot(const struct ckpt_walk_step *step, struct ckpt_slot *out)
{
	const struct ckpt_walker *w = step->walker;
	const struct walk_level *above;

	if (w->depth < 2)
		return false;
	above = &w->levels[w->depth - 2];
	*out = (struct ckpt_slot){ .holder = above->v, .index = above->i - 1 };
	switch ((enum part)above->part) {
	case PART_SEQ:
		return above->v->kind == CKPT_DICT || above->v->kind == CKPT_LIST ||
		       above->v->kind == CKPT_TUPLE;
	case PART_ITEMS: out->part = CKPT_SLOT_ITEMS; return true;
	case PART_PAIRS: out->part = CKPT_SLOT_PAIRS; return true;
	case PART_STATE:
	case PART_STATE_SLOTS:
		out->holder = part_of_state_holder(w, now(w, above->v->u.call->state), above->part);
		out->holder = out->holder ? now(w, out->holder) : NULL;
		return out->holder && out->holder->kind == CKPT_DICT;
	default: return false;
	}
}
