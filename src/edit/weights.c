/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one state dict of a checkpoint that a file of nothing but tensors is made of: the one that
 * is named, or the largest by the bytes of its tensors, or, where there is none, that of the
 * module.
 *
 * What an optimizer remembers is no weights, whatever its size. The report names what was chosen
 * and how many there were, since the choice is a guess.
 */
#include "base/sized.h"
#include "base/text.h"
#include "edit/entries.h"
#include "model/find.h"
#include "model/module.h"
#include "model/optimizers.h"
#include "model/state_dict.h"

#include <ckpt/edit.h>

#include <stdlib.h>
#include <string.h>

struct chooser {
	const struct ckpt_model *model;
	struct ckpt_state_dict_finder finder;
	struct ckpt_optimizers optimizers;
	const struct ckpt_value *best;
	struct ckpt_buf name; /* of BEST, with a NUL behind */
	uint64_t best_nbytes, count;
	bool has_module;
};

/* Of the tensors that stand in V itself. */
static int count_bytes(const struct ckpt_model *model, const struct ckpt_value *v, uint64_t *out,
		       struct ckpt_error *err)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);
	struct ckpt_arena *scratch = ckpt_arena_new(1 << 20);
	int rc = scratch ? 0 : ckpt_fail_nomem(err);

	*out = 0;
	for (uint32_t i = 1; rc >= 0 && i < pairs->count; i += 2) {
		struct ckpt_arena_mark mark = ckpt_arena_mark(scratch);
		struct ckpt_tensor t;
		uint64_t nbytes;

		rc = ckpt_tensor_parse(model, ckpt_model_now(model, pairs->items[i]), scratch, &t,
				       err);
		nbytes = rc > 0 ? ckpt_dtype_size(t.dtype) : 0;
		for (uint32_t k = 0; rc > 0 && k < t.ndim; k++)
			if (__builtin_mul_overflow(nbytes, t.shape[k], &nbytes))
				nbytes = UINT64_MAX; /* an expanded one */
		if (__builtin_add_overflow(*out, nbytes, out))
			*out = UINT64_MAX;
		ckpt_arena_release(scratch, mark);
	}
	ckpt_arena_free(scratch);
	return rc < 0 ? rc : 0;
}

static int compare_size(struct chooser *c, const struct ckpt_walk_step *step,
			struct ckpt_error *err)
{
	uint64_t nbytes;
	int rc = count_bytes(c->model, step->value, &nbytes, err);

	if (rc < 0 || (c->count++ && nbytes <= c->best_nbytes))
		return rc;
	c->best = step->value;
	c->best_nbytes = nbytes;
	c->name.len = 0;
	ckpt_buf_add(&c->name, step->name, step->name_len);
	ckpt_buf_add_u8(&c->name, '\0');
	return c->name.bad ? ckpt_fail_nomem(err) : 0;
}

/*
 * What an optimizer remembers is no weights, whatever its size; what a nested tensor is made of is
 * no state dict.
 */
static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct chooser *c = ctx;
	int rc = ckpt_optimizers_visit(&c->optimizers, step, err);

	if (rc < 0)
		return rc;
	if (rc || c->optimizers.is_named || step->seen ||
	    ckpt_value_is_tensor_object(c->model, step->value) ||
	    ckpt_is_optimizer(c->model, step->value))
		return CKPT_WALK_SKIP;
	if (ckpt_is_module(c->model, step->value)) {
		c->has_module = true;
		return CKPT_WALK_SKIP;
	}
	if (ckpt_holds_tensors(&c->finder, step->value))
		rc = compare_size(c, step, err);
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

static int choose_largest(struct chooser *c, struct ckpt_error *err)
{
	int rc = ckpt_state_dict_finder_init(&c->finder, c->model, err);

	if (rc == 0)
		rc = ckpt_model_walk(c->model, visit_value, c, err);
	ckpt_state_dict_finder_clear(&c->finder);
	ckpt_optimizers_clear(&c->optimizers);
	if (rc == 0 && !c->best && !c->has_module)
		rc = ckpt_fail(err, CKPT_E_NOTFOUND, "holds no state dict");
	return rc;
}

/*
 * 1: it is a mapping, which becomes the whole; 0: a module, of which another function takes the
 * state dict.
 */
static int find_named(struct chooser *c, const char *name, struct ckpt_error *err)
{
	int rc = ckpt_model_find(c->model, name, &c->best, err);
	const char *what;
	char shown[160];

	if (rc < 0)
		return rc;
	if (ckpt_is_module(c->model, c->best))
		return 0;
	c->count = 1;
	ckpt_buf_add(&c->name, name, strlen(name) + 1);
	if (ckpt_value_pairs(c->best) && !ckpt_value_is_tensor(c->model, c->best))
		return c->name.bad ? ckpt_fail_nomem(err) : 1;
	ckpt_escape(shown, sizeof(shown), name, strlen(name));
	what = ckpt_value_is_tensor(c->model, c->best) ? "tensor" : ckpt_value_kind_name(c->best);
	return ckpt_fail(err, CKPT_E_NOTFOUND, "'%s' is no state dict but %s %s", shown,
			 strchr("aeiou", *what) ? "an" : "a", what);
}

static int make_model(const struct chooser *c, struct ckpt_model **out,
		      struct ckpt_edit_report *did, struct ckpt_error *err)
{
	struct ckpt_edit_place *place;
	int rc = ckpt_model_derive(c->model, out, err);

	if (rc < 0)
		return rc;
	place = ckpt_arena_calloc((*out)->arena, 1, sizeof(*place));
	if (place)
		place->name =
			ckpt_arena_copy((*out)->arena, c->name.data, strlen((char *)c->name.data));
	(*out)->root = c->best;
	if (!place || !place->name || !ckpt_model_has_tensors(*out)) {
		ckpt_close(*out);
		*out = NULL;
		return ckpt_fail_nomem(err);
	}
	did->extracted = c->best != ckpt_model_now(c->model, c->model->root);
	did->state_dicts = c->count;
	did->places = place;
	did->place_count = 1;
	did->tensors_dropped = ckpt_tensors_dropped(c->model, *out);
	did->tensors_taken = ckpt_tensor_count(*out);
	return 0;
}

/* Of a program nothing but what it says itself is a state dict. */
static bool is_program(const struct ckpt_model *model)
{
	return model->doc->state_dicts.count && model->root == model->doc->pickle.root;
}

int ckpt_take_weights(const struct ckpt_model *model, const struct ckpt_take_options *options,
		      struct ckpt_model **out, struct ckpt_edit_report *report,
		      struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_take_options o = CKPT_TAKE_OPTIONS_INIT;
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	struct chooser c = { .model = model };

	if (rc == 0)
		rc = ckpt_sized_take(&o, sizeof(o), options, err);
	*out = NULL;
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(did), err);
	if (rc == 0 && is_program(model))
		return ckpt_state_dict(model, &o, out, report, err);
	if (rc == 0)
		rc = o.at ? find_named(&c, o.at, err) : choose_largest(&c, err);
	if (rc >= 0 && (o.at ? rc == 0 : !c.best)) {
		ckpt_buf_clear(&c.name);
		return ckpt_state_dict(model, &o, out, report, err);
	}
	if (rc >= 0)
		rc = make_model(&c, out, &did, err);
	ckpt_buf_clear(&c.name);
	if (rc == 0)
		ckpt_sized_give(report, &did, sizeof(did));
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}
