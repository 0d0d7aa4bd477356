/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What needs the bytes of which storages: each tensor, with all that is inside of it, or a
 * storage that stands on its own. `ckpt repair` asks this to find what a damaged storage takes
 * along.
 *
 * The walk does not descend into tensors, so what is inside of one is gathered here, with a list
 * of what is still to do and one stamp for each id. Values that many tensors share are met again
 * for each of them; `met` limits that, since a hostile file may share many values among many
 * tensors.
 */
#include "model/holders.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

/* Values inside of tensors are few, and a hostile file may share many among many. */
static const uint64_t BASE_VALUES = 1 << 24, MOST_VALUES_EACH = 64;

struct holder_finder {
	const struct ckpt_model *model;
	const struct ckpt_holders *h;
	struct ckpt_arena *arena;
	/* through the values of one tensor */
	const struct ckpt_value **todo;
	uint32_t todo_count, todo_cap;
	uint32_t *stamps; /* by id: the tensor for which it was met last */
	uint32_t stamp;
	uint64_t met;
	/* of the walk; SIZE_MAX: not inside of one */
	size_t object_depth, optimizer_depth;
	struct ckpt_buf optimizer; /* what the names of its state begin with */
};

/* ---- what a tensor is made of ---- */

static bool push_value(struct holder_finder *f, const struct ckpt_value *v)
{
	void *grown;

	if (!v)
		return true;
	grown = ckpt_grow(f->todo, f->todo_count, &f->todo_cap, sizeof(*f->todo));
	if (!grown)
		return false;
	f->todo = grown;
	f->todo[f->todo_count++] = v;
	return true;
}

static bool push_seq(struct holder_finder *f, const struct ckpt_seq *seq)
{
	bool ok = true;

	for (uint32_t i = 0; ok && i < seq->count; i++)
		ok = push_value(f, seq->items[i]);
	return ok;
}

static bool push_children(struct holder_finder *f, const struct ckpt_value *v)
{
	const struct ckpt_call *call;

	if (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT)
		return push_seq(f, &v->u.seq);
	if (v->kind != CKPT_CALL)
		return true;
	call = v->u.call;
	return push_value(f, call->func) && push_value(f, call->args) &&
	       push_value(f, call->kwargs) && push_value(f, call->state) &&
	       push_value(f, call->setter) && push_seq(f, &call->items) &&
	       push_seq(f, &call->pairs);
}

static void add_storage(struct holder_finder *f, const struct ckpt_value *persid,
			struct ckpt_holder *holder)
{
	int64_t number = ckpt_storage_of(persid);
	const struct ckpt_tensor *t =
		holder->tensor && holder->tensor->storage == number ? holder->tensor : NULL;

	if (number < 0)
		return;
	holder->nbytes += f->model->storages[number].nbytes;
	if (f->h->marks[number] > holder->mark) {
		holder->mark = f->h->marks[number];
		holder->storage = (uint32_t)number;
	}
	if (f->h->storage)
		f->h->storage(f->h->ctx, (uint32_t)number, t);
}

static int add_storages(struct holder_finder *f, struct ckpt_holder *holder, struct ckpt_error *err)
{
	uint64_t most = BASE_VALUES + MOST_VALUES_EACH * f->model->next_id;

	f->stamp++;
	f->todo_count = 0;
	if (!push_value(f, holder->step->value))
		return ckpt_fail_nomem(err);
	while (f->todo_count) {
		const struct ckpt_value *v = ckpt_model_now(f->model, f->todo[--f->todo_count]);

		if (v->id && f->stamps[v->id] == f->stamp)
			continue;
		if (v->id)
			f->stamps[v->id] = f->stamp;
		if (++f->met > most)
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "too many values are inside of more than one tensor");
		if (v->kind == CKPT_PERSID)
			add_storage(f, v, holder);
		else if (!push_children(f, v))
			return ckpt_fail_nomem(err);
	}
	return 0;
}

/* ---- where it stands ---- */

static bool has_key(const struct ckpt_seq *pairs, const char *key)
{
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2)
		if (ckpt_value_is_str(pairs->items[i], key))
			return true;
	return false;
}

/* The state dict of an optimizer: its tensors are of use together only. */
static void note_optimizer(struct holder_finder *f, const struct ckpt_walk_step *step)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(step->value);

	if (f->optimizer_depth != SIZE_MAX || !pairs || pairs->count > 64 ||
	    !has_key(pairs, "state") || !has_key(pairs, "param_groups"))
		return;
	f->optimizer_depth = step->depth;
	f->optimizer.len = 0;
	ckpt_buf_add(&f->optimizer, step->name, step->name_len);
	ckpt_buf_printf(&f->optimizer, "%sstate.", step->name_len ? "." : "");
}

static void leave_depth(struct holder_finder *f, size_t depth)
{
	size_t *const depths[] = { &f->object_depth, &f->optimizer_depth };

	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		if (depth <= *depths[i])
			*depths[i] = SIZE_MAX;
}

static void find_place(struct holder_finder *f, const struct ckpt_walk_step *step,
		       struct ckpt_holder *holder)
{
	const struct ckpt_value *parent = NULL;
	uint32_t index = 0;
	bool entry = step->depth && ckpt_walk_is_entry(step, &parent, &index);

	if (parent && parent->kind == CKPT_CALL && !entry && f->object_depth == SIZE_MAX)
		f->object_depth = step->depth; /* an argument or an attribute */
	if (entry && f->object_depth == SIZE_MAX && ckpt_value_pairs(parent)) {
		holder->mapping = parent;
		holder->index = index;
	}
	holder->of_optimizer = f->optimizer_depth != SIZE_MAX && !f->optimizer.bad &&
			       step->name_len > f->optimizer.len &&
			       !memcmp(step->name, f->optimizer.data, f->optimizer.len);
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct holder_finder *f = ctx;
	struct ckpt_holder holder = { .step = step };
	struct ckpt_tensor t;
	int is_tensor = 0, rc;

	leave_depth(f, step->depth);
	find_place(f, step, &holder);
	if (step->value->kind == CKPT_CALL) {
		is_tensor = ckpt_tensor_parse(f->model, step->value, f->arena, &t, err);
		if (is_tensor < 0)
			return is_tensor;
	}
	if (!is_tensor && (step->value->kind != CKPT_PERSID || ckpt_storage_of(step->value) < 0)) {
		note_optimizer(f, step);
		return CKPT_WALK_ENTER;
	}
	if (is_tensor)
		holder.tensor = &t;
	rc = add_storages(f, &holder, err);
	if (rc == 0)
		rc = f->h->holder(f->h->ctx, &holder, err);
	return rc < 0 ? rc : CKPT_WALK_SKIP;
}

int ckpt_model_each_holder(const struct ckpt_model *model, const struct ckpt_holders *holders,
			   struct ckpt_error *err)
{
	struct holder_finder f = {
		.model = model, .h = holders, .object_depth = SIZE_MAX, .optimizer_depth = SIZE_MAX
	};
	int rc;

	f.stamps = calloc(model->next_id + (size_t)1, sizeof(*f.stamps));
	f.arena = ckpt_arena_new((64 << 20) + 64 * (uint64_t)model->doc->pickle_len);
	rc = f.stamps && f.arena ? ckpt_model_walk(model, visit_value, &f, err)
				 : ckpt_fail_nomem(err);
	ckpt_buf_clear(&f.optimizer);
	ckpt_arena_free(f.arena);
	free(f.stamps);
	free(f.todo);
	return rc;
}
