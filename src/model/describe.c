/* SPDX-License-Identifier: Apache-2.0 */
#include "model/describe.h"

#include "base/text.h"
#include "model/meaning.h"
#include "model/module.h"
#include "model/numpy_value.h"
#include "model/repr.h"
#include "pickle/fold.h"

static void put_type(struct ckpt_describer *d, const struct ckpt_value *v)
{
	const struct ckpt_value *func = v->kind == CKPT_CALL
						? ckpt_model_now(d->model, v->u.call->func)
					: v->kind == CKPT_FOLDED ? v->u.folded.mold->func
								 : NULL;
	char shown[160];

	d->type.len = 0;
	if (func && func->kind == CKPT_GLOBAL)
		ckpt_buf_printf(&d->type, "%s",
				ckpt_escape(shown, sizeof(shown), func->u.global->name,
					    func->u.global->name_len));
	else
		ckpt_buf_printf(&d->type, "%s", ckpt_value_kind_name(v));
}

static enum ckpt_item_kind kind_of(const struct ckpt_model *model, const struct ckpt_value *v)
{
	if (ckpt_value_is_tensor(model, v))
		return CKPT_ITEM_TENSOR;
	return v->kind == CKPT_CALL || (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT)
		       ? CKPT_ITEM_CONTAINER
		       : CKPT_ITEM_VALUE;
}

static uint64_t count_pairs(const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = v ? ckpt_value_pairs(v) : NULL;

	return pairs ? pairs->count / 2 : 0;
}

/* Attributes: a dict, or a pair of one (or None) and one of those that are in slots. */
static uint64_t count_state(const struct ckpt_model *model, const struct ckpt_value *state)
{
	uint64_t count = 0;

	state = state ? ckpt_model_now(model, state) : NULL;
	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 2)
		return count_pairs(state);
	for (uint32_t i = 0; i < 2; i++)
		count += count_pairs(ckpt_model_now(model, state->u.seq.items[i]));
	return count;
}

/* set([1, 2]), Counter({'a': 2}), torch.Size((1, 2)): what is in them is an argument. */
static uint64_t count_argument(const struct ckpt_model *model, const struct ckpt_value *call)
{
	struct ckpt_meaning m;

	ckpt_value_meaning(model, call, &m);
	if (m.kind == CKPT_NODE_OBJECT)
		return 0;
	return m.items ? m.items->count : m.pairs ? m.pairs->count / 2 : 0;
}

static uint64_t count_of(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	if (pairs)
		return pairs->count / 2;
	if (v->kind == CKPT_CALL && v->u.call->items.count)
		return v->u.call->items.count;
	if (v->kind == CKPT_CALL)
		return v->u.call->state ? count_state(model, v->u.call->state) : count_argument(model, v);
	return v->kind >= CKPT_TUPLE && v->kind <= CKPT_FROZENSET ? v->u.seq.count : 0;
}

static bool is_mapping(const struct ckpt_model *model, const struct ckpt_value *v)
{
	return ckpt_value_pairs(v) && !ckpt_value_is_tensor(model, v);
}

/* An array or a scalar of numpy is one value, whatever its pickle calls to make it. */
static bool describe_numpy(struct ckpt_describer *d, const struct ckpt_value *v)
{
	struct ckpt_numpy n;

	if (!ckpt_numpy_parse(d->model, v, &n))
		return false;
	d->type.len = 0;
	ckpt_buf_printf(&d->type, n.is_scalar ? "numpy.%s" : "%s", ckpt_numpy_type(&n));
	ckpt_numpy_text(d->model, &n, &d->text);
	return true;
}

/* What the last value was, too. */
static void describe_tensor(const struct ckpt_describer *d, struct ckpt_item *item)
{
	item->kind = CKPT_ITEM_TENSOR;
	item->type = (const char *)d->type.data;
	item->text = (const char *)d->text.data;
	item->count = 0;
	item->mapping = item->module = false;
}

int ckpt_describe(struct ckpt_describer *d, const struct ckpt_value *v, struct ckpt_item *item,
		  struct ckpt_error *err)
{
	bool is_numpy;

	/* they are all called the same, and there may be very many */
	if (v->kind == CKPT_FOLDED && d->folded == v->u.folded.mold->func) {
		describe_tensor(d, item);
		return 0;
	}
	d->folded = v->kind == CKPT_FOLDED ? v->u.folded.mold->func : NULL;
	put_type(d, v);
	d->text.len = 0;
	is_numpy = describe_numpy(d, v);
	if (!is_numpy)
		ckpt_value_repr(v, &d->text);
	ckpt_buf_add_u8(&d->text, '\0');
	if (d->text.bad || d->type.bad)
		return ckpt_fail_nomem(err);
	item->kind = is_numpy ? CKPT_ITEM_VALUE : kind_of(d->model, v);
	item->type = (const char *)d->type.data;
	item->text = (const char *)d->text.data;
	item->count = count_of(d->model, v);
	item->mapping = is_mapping(d->model, v);
	item->module =
		ckpt_module_mapping(d->model, v, "_modules") || ckpt_is_script_object(d->model, v);
	return 0;
}

void ckpt_describer_clear(struct ckpt_describer *d)
{
	ckpt_buf_clear(&d->text);
	ckpt_buf_clear(&d->type);
}
