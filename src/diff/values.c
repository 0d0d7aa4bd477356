/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares values that have no numbers of a dtype: scalars, containers, and what programs set on
 * tensors.
 *
 * Containers are compared by their types only, as what is in them are entries of their own; what
 * the names of entries cannot tell, keys that are no plain ones, is compared here. Everything else
 * is compared as encodings (encode.c), except floats, which have a tolerance.
 */
#include "diff/values.h"

#include "diff/encode.h"
#include "diff/kinds.h"
#include "model/describe.h"
#include "model/plain_values.h"
#include "pickle/names.h"

#include <math.h>
#include <string.h>

static bool same_float(const struct ckpt_comparison *c, double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (ckpt_comparison_has(c, CKPT_DIFF_STRICT) && signbit(a) != signbit(b))
		return false; /* 0 and -0 */
	return a == b || fabs(a - b) <= c->options.atol + c->options.rtol * fabs(b);
}

static bool is_missing(const struct ckpt_value *v)
{
	return v->kind == CKPT_PERSID && v->flags & CKPT_VALUE_MISSING;
}

static int set_unreadable(const struct ckpt_comparison *c, struct ckpt_pair *pair, const char *why,
			  struct ckpt_error *err)
{
	pair->state = CKPT_PAIR_UNREADABLE;
	pair->why = ckpt_arena_copy(c->arena, why, strlen(why));
	return pair->why ? 0 : ckpt_arena_fail(c->arena, err);
}

int ckpt_compare_values(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			struct ckpt_error *err)
{
	const struct ckpt_value *a = pair->a->value, *b = pair->b->value;
	struct ckpt_error limit = CKPT_ERROR_INIT;
	char text[sizeof(limit.text)];
	int same;

	if (is_missing(a) || is_missing(b))
		return set_unreadable(c, pair, "could not be read when the checkpoint was opened",
				      err);
	if (ckpt_value_kind_of(c->a.model, a) != ckpt_value_kind_of(c->b.model, b)) {
		pair->what = CKPT_DIFFERS_TYPE | CKPT_DIFFERS_VALUE;
		pair->state = CKPT_PAIR_CHANGED;
		return 0;
	}
	same = a->kind == CKPT_FLOAT ? same_float(c, a->u.real, b->u.real)
				     : ckpt_compare_encoded(c, a, b, &limit);
	if (same == CKPT_E_LIMIT)
		return set_unreadable(c, pair, ckpt_error_text(&limit, text, sizeof(text)), err);
	if (same < 0)
		return ckpt_fail_nomem(err);
	pair->what = same ? 0 : CKPT_DIFFERS_VALUE;
	pair->state = same ? CKPT_PAIR_SAME : CKPT_PAIR_CHANGED;
	return 0;
}

/* ---- attributes and classes of tensors and arrays ---- */

int ckpt_compare_attributes(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			    struct ckpt_error *err)
{
	const struct ckpt_value *a = ckpt_tensor_attributes(c->a.model, pair->a->t),
				*b = ckpt_tensor_attributes(c->b.model, pair->b->t);
	struct ckpt_error limit = CKPT_ERROR_INIT;
	char text[sizeof(limit.text)];
	int same = !a && !b;

	if (a && b)
		same = ckpt_compare_encoded(c, a, b, &limit);
	if (same == CKPT_E_LIMIT)
		return set_unreadable(c, pair, ckpt_error_text(&limit, text, sizeof(text)), err);
	if (same < 0)
		return ckpt_fail_nomem(err);
	if (!same)
		pair->what |= CKPT_DIFFERS_ATTRIBUTES;
	return 0;
}

bool ckpt_same_class_of_numpy(const struct ckpt_comparison *c, const struct ckpt_value *a,
			      const struct ckpt_value *b)
{
	const struct ckpt_value *class_a =
		ckpt_plain_arg_count(c->a.model, a) ? ckpt_plain_arg(c->a.model, a, 0) : NULL;
	const struct ckpt_value *class_b =
		ckpt_plain_arg_count(c->b.model, b) ? ckpt_plain_arg(c->b.model, b, 0) : NULL;
	bool is_class_a = class_a && class_a->kind == CKPT_GLOBAL &&
			  strcmp(class_a->u.global->name, "ndarray") != 0;
	bool is_class_b = class_b && class_b->kind == CKPT_GLOBAL &&
			  strcmp(class_b->u.global->name, "ndarray") != 0;

	return is_class_a == is_class_b &&
	       (!is_class_a || !strcmp(class_a->u.global->name, class_b->u.global->name));
}

/* ---- containers ---- */

/* Types that Python uses in the same way have the same number; 0: used like no other. */
static int container_family(const struct ckpt_item *item)
{
	if (item->mapping)
		return 1;
	return !strcmp(item->type, "list") || !strcmp(item->type, "tuple") ? 2 : 0;
}

/* How many keys are no texts: 0 and "0" have the same name, and differ in that. */
static uint32_t count_other_keys(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(ckpt_model_now(model, v));
	uint32_t count = 0;

	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2)
		count += pairs->items[i]->kind != CKPT_STR && pairs->items[i]->kind != CKPT_PY2_STR;
	return count;
}

/* Objects of one class, which may have another name in Python 2. */
static bool same_class(const struct ckpt_comparison *c, const struct ckpt_pair *pair)
{
	const struct ckpt_value *a = ckpt_model_now(c->a.model, pair->a->value),
				*b = ckpt_model_now(c->b.model, pair->b->value);
	const char *modules[2], *names[2];

	if (a->kind != CKPT_CALL || b->kind != CKPT_CALL)
		return false;
	a = ckpt_model_now(c->a.model, a->u.call->func);
	b = ckpt_model_now(c->b.model, b->u.call->func);
	if (a->kind != CKPT_GLOBAL || b->kind != CKPT_GLOBAL)
		return false;
	ckpt_python2_name(a->u.global->module, a->u.global->name, &modules[0], &names[0]);
	ckpt_python2_name(b->u.global->module, b->u.global->name, &modules[1], &names[1]);
	return !strcmp(modules[0], modules[1]) && !strcmp(names[0], names[1]);
}

/* False: one object has items where the other has pairs, whose keys may be the items' numbers. */
static bool same_contents(const struct ckpt_comparison *c, const struct ckpt_pair *pair)
{
	const struct ckpt_value *a = ckpt_model_now(c->a.model, pair->a->value),
				*b = ckpt_model_now(c->b.model, pair->b->value);

	if (a->kind != CKPT_CALL || b->kind != CKPT_CALL)
		return true;
	return !(a->u.call->items.count && !a->u.call->pairs.count && b->u.call->pairs.count &&
		 !b->u.call->items.count) &&
	       !(b->u.call->items.count && !b->u.call->pairs.count && a->u.call->pairs.count &&
		 !a->u.call->items.count);
}

int ckpt_compare_containers(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			    struct ckpt_error *err)
{
	struct ckpt_describer da = { .model = c->a.model }, db = { .model = c->b.model };
	struct ckpt_item a = { .size = sizeof(a) }, b = { .size = sizeof(b) };
	bool same;
	int rc = ckpt_describe(&da, pair->a->value, &a, err);

	if (rc == 0)
		rc = ckpt_describe(&db, pair->b->value, &b, err);
	if (rc == 0) {
		same = ((!strcmp(a.type, b.type) || same_class(c, pair)) &&
			same_contents(c, pair)) ||
		       (!ckpt_comparison_has(c, CKPT_DIFF_STRICT) && container_family(&a) &&
			container_family(&a) == container_family(&b));
		if (same && a.mapping && b.mapping &&
		    count_other_keys(c->a.model, pair->a->value) !=
			    count_other_keys(c->b.model, pair->b->value)) {
			pair->other_keys = true;
			same = !ckpt_comparison_has(c, CKPT_DIFF_STRICT);
		}
		pair->what = same ? 0 : CKPT_DIFFERS_TYPE;
	}
	if (rc == 0 && a.mapping && b.mapping &&
	    (ckpt_has_other_keys(c->a.model, pair->a->value) ||
	     ckpt_has_other_keys(c->b.model, pair->b->value))) {
		rc = ckpt_compare_other_keys(c, pair->a->value, pair->b->value, err);
		if (rc == 0 || rc == CKPT_E_LIMIT)
			pair->what |= CKPT_DIFFERS_KEYS;
		rc = rc == CKPT_E_LIMIT || rc >= 0 ? 0 : rc;
	}
	pair->state = pair->what ? CKPT_PAIR_CHANGED : CKPT_PAIR_SAME;
	ckpt_describer_clear(&da);
	ckpt_describer_clear(&db);
	return rc;
}
