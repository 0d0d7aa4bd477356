/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt cast`: the bytes belong to storages, so storages are cast, each as a whole, and tensors
 * that share one still do afterwards. A storage is cast only if all its tensors are of one dtype
 * and all are wanted; anything else is an error, not a copy.
 *
 * Parts of quantized weights, which the caller knows, stay whatever is chosen.
 *
 * Unless the caller says which tensors, those that a cast would harm without a word are left: an
 * optimizer's, whose counters and tiny moments narrow types cannot hold, and tensors without a
 * dimension. Weights come first: what shares a storage with a weight is cast with it. That is
 * known only after a look at all tensors; and so is it if the object that says the dtype of a
 * DTensor is that of a tensor that is left, too, in which case each of the others gets one of its
 * own (own_spec()). Where there was such news, all begins anew (walk_until_known()).
 *
 * One walk parses all tensors and notes, for each storage, how it is used (note_use()). On the
 * way it changes what else names the dtype of a wanted tensor: arguments of some rebuild calls,
 * the spec of a DTensor. Then cast_storages() gives each wanted storage a recipe that casts while
 * the bytes are moved; nothing is read here. Tensors inside a tensor have the verdict of the
 * outermost one.
 */
#include "edit/cast.h"

#include "base/flags.h"
#include "tensor/cast.h"

#include "base/sized.h"
#include "base/text.h"
#include "model/casts.h"
#include "model/model.h"
#include "model/optimizers.h"
#include "model/patterns.h"
#include "model/plain_values.h"
#include "model/state_dict.h"
#include "model/walk.h"

#include <ckpt/edit.h>

#include <stdlib.h>
#include <string.h>

/* What is known of one storage after a look at all tensors. */
struct use {
	enum ckpt_dtype dtype; /* as its tensors take it */
	const char *first;     /* a tensor that uses it */
	bool wanted, unwanted, left, mixed;
	bool alone;  /* it stands in the checkpoint without a tensor around it, too */
	bool needed; /* by a weight: all that share it are cast, too */
};

enum { OF_CHOSEN = 1, OF_OTHERS = 2, OF_BOTH = 3 };

struct caster {
	const struct ckpt_model *from;
	struct ckpt_model *to;
	enum ckpt_dtype dtype;
	struct ckpt_cast_options o;
	const struct ckpt_kept *kept;
	struct ckpt_patterns only, except;
	struct use *uses; /* by storage */
	struct ckpt_optimizers optimizers;
	int of_optimizer; /* the value that the walk is at */
	/* by id: objects that tell the dtype of chosen (1) or other (2) tensors, or of both (3) */
	uint8_t *dtype_holders;
	const struct ckpt_value *
		*own_specs;	       /* by id of a DTensorSpec of both: that of the chosen */
	bool news;		       /* a storage is needed, or a holder is of both */
	size_t tensor_depth;	       /* inside a tensor as long as the walk is deeper */
	bool chosen, left;	       /* that tensor; LEFT: for what it is */
	const struct ckpt_value *spec; /* of that tensor, which got its own in its place, or NULL */
	size_t spec_depth;	       /* inside of SPEC as long as the walk is deeper */
	char *tensor_name;
	struct ckpt_edit_report report;
};

/* ---- which ---- */

static int is_chosen(struct caster *c, const char *name, struct ckpt_error *err)
{
	int only = c->only.count ? ckpt_patterns_match(&c->only, name, err) : 1, except;

	if (only <= 0)
		return only;
	except = ckpt_patterns_match(&c->except, name, err);
	return except < 0 ? except : !except;
}

/* Everything, or what the caller names: nothing is left for what it is. */
static bool is_for_all(const struct caster *c)
{
	return c->o.flags & CKPT_CAST_ALL || c->only.count;
}

/* A tensor that is left, as it is no weight and shares its bytes with none. */
static bool is_left(struct caster *c, const struct ckpt_tensor *t)
{
	struct ckpt_tensor stored;

	if (is_for_all(c) || (!c->of_optimizer && t->ndim))
		return false;
	return !ckpt_tensor_stored(c->from, t, c->to->arena, &stored) || stored.storage < 0 ||
	       !c->uses[stored.storage].needed;
}

/* ---- what else names the dtype of a tensor ---- */

static const struct ckpt_value *new_dtype(struct caster *c)
{
	struct ckpt_value *v = ckpt_model_new_value(c->to, CKPT_GLOBAL);
	struct ckpt_global *g = ckpt_arena_calloc(c->to->arena, 1, sizeof(*g));
	const char *name = ckpt_dtype_name(c->dtype);

	if (!v || !g)
		return NULL;
	*g = (struct ckpt_global){ "torch", name, 5, (uint32_t)strlen(name) };
	v->u.global = g;
	return v;
}

/* Argument I of ARGS is a floating dtype: let it be the new one. */
static int change_argument(struct caster *c, const struct ckpt_value *original, uint32_t i,
			   struct ckpt_error *err)
{
	const struct ckpt_value *args = ckpt_model_now(c->to, original), *dtype;
	struct ckpt_value *copy;

	if (args->kind != CKPT_TUPLE || args->u.seq.count <= i)
		return 0;
	dtype = ckpt_model_now(c->to, args->u.seq.items[i]);
	if (dtype->kind != CKPT_GLOBAL ||
	    !ckpt_dtype_is_floating(ckpt_dtype_find(dtype->u.global->name)))
		return 0;
	copy = ckpt_arena_alloc(c->to->arena, sizeof(*copy));
	if (!copy)
		return ckpt_arena_fail(c->to->arena, err);
	*copy = *args;
	copy->u.seq = (struct ckpt_seq){ 0 };
	if (!ckpt_seq_add_many(c->to->arena, &copy->u.seq, args->u.seq.items, args->u.seq.count))
		return ckpt_arena_fail(c->to->arena, err);
	copy->u.seq.items[i] = new_dtype(c);
	if (!copy->u.seq.items[i])
		return ckpt_arena_fail(c->to->arena, err);
	return ckpt_model_replace(c->to, copy, err);
}

/* A new object like CALL, with the arguments and the state given. */
static const struct ckpt_value *copy_call(struct caster *c, const struct ckpt_value *v,
					  const struct ckpt_value *args,
					  const struct ckpt_value *state)
{
	struct ckpt_value *copy = ckpt_model_new_value(c->to, CKPT_CALL);
	struct ckpt_call *call = ckpt_arena_alloc(c->to->arena, sizeof(*call));

	if (!copy || !call)
		return NULL;
	*call = *v->u.call;
	call->args = args;
	call->state = state;
	copy->u.call = call;
	return copy;
}

/* A dict or tuple like V, with ITEM in place of the one at I. COPY: what it is to be. */
static const struct ckpt_value *copy_seq(struct caster *c, const struct ckpt_value *v, uint32_t i,
					 const struct ckpt_value *item, struct ckpt_value *copy)
{
	if (!copy || !item)
		return NULL;
	copy->u.seq = (struct ckpt_seq){ 0 };
	if (!ckpt_seq_add_many(c->to->arena, &copy->u.seq, v->u.seq.items, v->u.seq.count))
		return NULL;
	copy->u.seq.items[i] = item;
	return copy;
}

/* Where the value of KEY is in a dict of attributes; 0: nowhere. */
static uint32_t place_of(const struct ckpt_value *dict, const char *key)
{
	if (dict->kind != CKPT_DICT)
		return 0;
	for (uint32_t i = 0; i + 1 < dict->u.seq.count && i < 2 * CKPT_MOST_ATTRIBUTES; i += 2)
		if (ckpt_value_is_str(dict->u.seq.items[i], key))
			return i + 1;
	return 0;
}

static bool is_of_both(const struct caster *c, const struct ckpt_value *v)
{
	return v->id && v->id < c->from->next_id && c->dtype_holders[v->id] == OF_BOTH;
}

/*
 * A spec like SPEC with the new dtype, or NULL: it has another form, or there is no memory. Its
 * state is a dict with `tensor_meta`, a TensorMeta(shape, stride, dtype).
 */
static const struct ckpt_value *make_spec(struct caster *c, const struct ckpt_value *spec,
					  bool *has_form)
{
	const struct ckpt_value *state = spec->u.call->state, *meta, *args;
	uint32_t i;

	state = state ? ckpt_model_now(c->from, state) : NULL;
	i = state ? place_of(state, "tensor_meta") : 0;
	meta = i ? ckpt_model_now(c->from, state->u.seq.items[i]) : NULL;
	args = meta && meta->kind == CKPT_CALL ? ckpt_model_now(c->from, meta->u.call->args) : NULL;
	*has_form = args && args->kind == CKPT_TUPLE && args->u.seq.count == 3 &&
		    ckpt_model_now(c->from, args->u.seq.items[2])->kind == CKPT_GLOBAL;
	if (!*has_form)
		return NULL;
	args = copy_seq(c, args, 2, new_dtype(c), ckpt_model_new_value(c->to, CKPT_TUPLE));
	meta = args ? copy_call(c, meta, args, meta->u.call->state) : NULL;
	state = copy_seq(c, state, i, meta, ckpt_model_new_value(c->to, CKPT_DICT));
	return state ? copy_call(c, spec, spec->u.call->args, state) : NULL;
}

/*
 * The spec of a chosen DTensor says the dtype of one that is not, too: let it have its own, as do
 * the others that are chosen and have that spec.
 */
static int own_spec(struct caster *c, const struct ckpt_tensor *t, struct ckpt_error *err)
{
	const struct ckpt_value *holder = t->attributes, *spec = NULL;
	struct ckpt_value *copy;
	bool has_form = false;
	uint32_t i = 0;

	if (holder && holder->kind == CKPT_TUPLE && holder->u.seq.count == 2)
		holder = ckpt_model_now(c->from, holder->u.seq.items[1]);
	if (holder)
		i = place_of(holder, "_spec");
	if (i)
		spec = ckpt_model_now(c->from, holder->u.seq.items[i]);
	if (!spec || spec->kind != CKPT_CALL || !is_of_both(c, spec) || !holder->id)
		return 0;
	if (!c->own_specs)
		c->own_specs = calloc(c->from->next_id + (size_t)1, sizeof(*c->own_specs));
	if (!c->own_specs)
		return ckpt_fail_nomem(err);
	if (!c->own_specs[spec->id]) {
		c->own_specs[spec->id] = make_spec(c, spec, &has_form);
		if (!has_form) /* check_shared() says so */
			return 0;
	}
	copy = ckpt_arena_alloc(c->to->arena, sizeof(*copy));
	if (copy)
		*copy = *holder;
	if (!copy_seq(c, holder, i, c->own_specs[spec->id], copy))
		return ckpt_arena_fail(c->to->arena, err);
	c->spec = spec;
	return ckpt_model_replace(c->to, copy, err);
}

/* Functions whose arguments have a dtype beside that of a storage, and where. */
static const struct {
	const char *module, *name;
	uint32_t dtype;
} functions[] = {
	{ "torch._utils", "_rebuild_meta_tensor_no_storage", 0 },
	{ "torch._utils", "_rebuild_device_tensor_from_cpu_tensor", 1 },
	{ "torch._utils", "_rebuild_wrapper_subclass", 1 },
	{ "torch._utils", "_rebuild_tensor_v3", 6 },
	{ "torch.distributed.tensor._dtensor_spec", "TensorMeta", 2 },
	{ "torch.distributed._tensor.placement_types", "TensorMeta", 2 },
};

static int change_arguments_of(struct caster *c, const struct ckpt_value *func,
			       const struct ckpt_value *args, struct ckpt_error *err)
{
	func = ckpt_model_now(c->to, func);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (ckpt_value_is_global(func, functions[i].module, functions[i].name))
			return change_argument(c, args, functions[i].dtype, err);
	return 0;
}

static int change_dtypes_of(struct caster *c, const struct ckpt_value *v, struct ckpt_error *err)
{
	const struct ckpt_value *args = ckpt_model_now(c->to, v->u.call->args);

	/* _rebuild_from_type_v2(func, class, args, state) calls FUNC with ARGS */
	if (ckpt_value_is_call_of(v, "torch._tensor", "_rebuild_from_type_v2") &&
	    args->kind == CKPT_TUPLE && args->u.seq.count >= 4)
		return change_arguments_of(c, args->u.seq.items[0], args->u.seq.items[2], err);
	return change_arguments_of(c, v->u.call->func, v->u.call->args, err);
}

/* ---- a look at all tensors ---- */

/*
 * Of what other classes than DTensor make of their parts nothing is known; numpy data are no
 * storage.
 */
static bool is_castable(const struct ckpt_tensor *t)
{
	if (t->kind == CKPT_KIND_WRAPPER)
		return t->class_name && !strcmp(t->class_name, "DTensor");
	return t->kind != CKPT_KIND_QUANTIZED && t->kind != CKPT_KIND_NUMPY &&
	       t->kind != CKPT_KIND_UNINITIALIZED;
}

static void note_use(struct caster *c, const struct ckpt_tensor *t)
{
	struct use *use = &c->uses[t->storage];
	bool wanted = c->chosen && ckpt_dtype_is_floating(t->dtype);

	use->mixed |= use->first && use->dtype != t->dtype;
	if (!use->first)
		use->first = c->tensor_name;
	use->dtype = t->dtype;
	use->wanted |= wanted;
	use->left |= c->left;
	use->unwanted |= !wanted && !c->left;
}

/* A tensor that is not inside of another. */
static int begin_tensor(struct caster *c, const struct ckpt_walk_step *step,
			const struct ckpt_tensor *t, struct ckpt_error *err)
{
	bool could = ckpt_dtype_is_floating(t->dtype) && t->dtype != c->dtype,
	     is_kept = ckpt_kept_has(c->kept, t);
	int named = is_chosen(c, step->name, err);

	if (named < 0)
		return named;
	c->report.quantized_left += could && named && is_kept;
	could &= !is_kept;
	c->left = could && named && is_left(c, t);
	c->tensor_depth = step->depth;
	c->spec = NULL;
	c->spec_depth = SIZE_MAX;
	c->chosen = could && named && !c->left && is_castable(t);
	c->report.optimizer_left += c->left && c->of_optimizer;
	c->report.scalars_left += c->left && !c->of_optimizer;
	c->tensor_name = ckpt_arena_copy(c->to->arena, step->name, step->name_len);
	if (!c->tensor_name)
		return ckpt_arena_fail(c->to->arena, err);
	c->report.tensors_cast += c->chosen;
	c->report.tensors_left += could && named && !c->left && !is_castable(t);
	return c->chosen ? own_spec(c, t, err) : 0;
}

/* What DTensors say of their dtype may be one object for several of them. */
static bool has_dtype(const struct ckpt_value *v)
{
	const struct ckpt_value *func = v->u.call->func;

	return func->kind == CKPT_GLOBAL && (!strcmp(func->u.global->name, "DTensorSpec") ||
					     !strcmp(func->u.global->name, "TensorMeta"));
}

static int check_shared(struct caster *c, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	const struct ckpt_value *v = step->value;
	uint8_t is = c->chosen ? OF_CHOSEN : OF_OTHERS;
	char shown[160];

	if (v == c->spec)
		c->spec_depth = step->depth;
	if (c->tensor_depth == SIZE_MAX || c->spec_depth != SIZE_MAX || !v->id ||
	    v->id >= c->from->next_id || !has_dtype(v))
		return 0;
	if (is_of_both(c, v) && c->chosen)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%s' is shared by tensors of which only some are to be cast",
				 ckpt_escape(shown, sizeof(shown), step->name, step->name_len));
	if (c->dtype_holders[v->id] && c->dtype_holders[v->id] != is && !is_of_both(c, v)) {
		c->dtype_holders[v->id] = OF_BOTH;
		c->news = true;
	} else if (!is_of_both(c, v)) {
		c->dtype_holders[v->id] = is;
	}
	return 0;
}

/* A tensor of Transformer Engine, whose codes and scales are its own: it stays as it is. */
static int pass_over(struct caster *c, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	int named = is_chosen(c, step->name, err);

	if (named < 0)
		return named;
	c->left = c->chosen = false;
	c->tensor_depth = step->depth;
	c->spec = NULL;
	c->spec_depth = SIZE_MAX;
	c->tensor_name = ckpt_arena_copy(c->to->arena, step->name, step->name_len);
	if (!c->tensor_name)
		return ckpt_arena_fail(c->to->arena, err);
	c->report.tensors_left += named;
	return 0;
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct caster *c = ctx;
	struct ckpt_tensor t;
	int rc = 0, is_tensor = 0;

	if (step->depth <= c->tensor_depth)
		c->tensor_depth = SIZE_MAX;
	if (step->depth <= c->spec_depth)
		c->spec_depth = SIZE_MAX;
	if (!is_for_all(c))
		c->of_optimizer = ckpt_optimizers_visit(&c->optimizers, step, err);
	if (c->of_optimizer < 0)
		return c->of_optimizer;
	if (step->value->kind == CKPT_PERSID && c->tensor_depth == SIZE_MAX &&
	    ckpt_storage_of(step->value) >= 0)
		c->uses[ckpt_storage_of(step->value)].alone = true;
	if (step->value->kind != CKPT_CALL)
		return CKPT_WALK_ENTER;
	rc = check_shared(c, step, err);
	if (rc == 0 && c->tensor_depth == SIZE_MAX && ckpt_plain_engine_class(c->from, ckpt_model_now(c->from, step->value->u.call->func)))
		rc = pass_over(c, step, err);
	if (rc < 0)
		return rc;
	is_tensor = ckpt_tensor_parse(c->from, step->value, c->to->arena, &t, err);
	if (is_tensor < 0)
		return is_tensor;
	if (is_tensor && c->tensor_depth == SIZE_MAX)
		rc = begin_tensor(c, step, &t, err);
	if (rc == 0 && is_tensor && t.storage >= 0)
		note_use(c, &t);
	if (rc == 0 && c->tensor_depth != SIZE_MAX && c->spec_depth == SIZE_MAX && c->chosen)
		rc = change_dtypes_of(c, step->value, err);
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

static int walk(struct caster *c, struct ckpt_error *err)
{
	int rc = ckpt_model_derive(c->from, &c->to, err);

	c->news = false;
	c->tensor_depth = c->spec_depth = SIZE_MAX;
	c->report = (struct ckpt_edit_report)CKPT_EDIT_REPORT_INIT;
	if (rc == 0)
		rc = ckpt_model_walk(c->from, visit_value, c, err);
	ckpt_optimizers_clear(&c->optimizers);
	for (uint32_t i = 0; rc == 0 && i < c->from->storage_count; i++) {
		struct use *use = &c->uses[i];

		if (use->wanted && use->left && !use->needed)
			use->needed = c->news = true;
	}
	return rc;
}

/* What the walk before found out stays known; all else goes, names and values with the model. */
static void forget(struct caster *c)
{
	for (uint32_t i = 0; i < c->from->storage_count; i++)
		c->uses[i] = (struct use){ .needed = c->uses[i].needed };
	for (uint32_t i = 0; i < c->from->next_id; i++)
		if (c->dtype_holders[i] != OF_BOTH)
			c->dtype_holders[i] = 0;
	free(c->own_specs);
	c->own_specs = NULL;
	ckpt_close(c->to);
	c->to = NULL;
}

static int walk_until_known(struct caster *c, struct ckpt_error *err)
{
	enum { MOST_WALKS = 8 };
	int rc = walk(c, err);

	for (int i = 1; rc == 0 && c->news; i++) {
		if (i == MOST_WALKS)
			return ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"tensors of which only some are to be cast share too much");
		forget(c);
		rc = walk(c, err);
	}
	return rc;
}

/* ---- storages ---- */

static int fail_shared(const struct caster *c, const struct use *use, const char *what,
		       struct ckpt_error *err)
{
	char shown[160];

	(void)c;
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "the bytes of '%s' are also those of %s",
			 ckpt_escape(shown, sizeof(shown), use->first, strlen(use->first)), what);
}

static int cast_storage(struct caster *c, struct ckpt_storage *s, const struct use *use,
			struct ckpt_error *err)
{
	struct ckpt_storage_cast *cast =
		ckpt_model_add_cast(c->to, (uint32_t)(s - c->to->storages));
	struct ckpt_recipe *made = ckpt_arena_calloc(c->to->arena, 1, sizeof(*made)), inner;
	int rc;

	if (!cast || !made)
		return ckpt_arena_fail(c->to->arena, err);
	rc = ckpt_model_storage_bytes(c->from, s, &inner, err);
	if (rc < 0)
		return rc;
	cast->cast = ckpt_cast_of(&inner, use->dtype, c->dtype);
	cast->cast.tally = &cast->tally;
	*made = ckpt_map_recipe(&cast->cast.map);
	c->report.cast_nbytes_before += s->nbytes;
	s->made = made;
	s->dtype = c->dtype;
	s->retyped = true;
	s->nbytes = made->len;
	s->numel = made->len / ckpt_dtype_size(c->dtype);
	s->has_crc = false;
	c->report.storages_cast++;
	c->report.cast_nbytes_after += s->nbytes;
	return 0;
}

static int cast_storages(struct caster *c, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < c->to->storage_count; i++) {
		const struct use *use = &c->uses[i];

		if (!use->wanted)
			continue;
		if (use->alone)
			return fail_shared(c, use, "a storage that stands by itself", err);
		if (use->mixed)
			return fail_shared(c, use, "a tensor of another dtype", err);
		if (use->unwanted || use->left)
			return fail_shared(c, use, "a tensor that is not to be cast", err);
		rc = ckpt_model_own_storages(c->to, err);
		if (rc == 0)
			rc = cast_storage(c, &c->to->storages[i], use, err);
	}
	return rc;
}

static int check_target(struct caster *c, const char *dtype, struct ckpt_error *err)
{
	static const struct {
		const char *name, *means;
	} aliases[] = { { "bf16", "bfloat16" }, { "fp16", "float16" },	   { "f16", "float16" },
			{ "fp32", "float32" },	{ "f32", "float32" },	   { "fp64", "float64" },
			{ "f64", "float64" },	{ "fp8", "float8_e4m3fn" } };
	char shown[80];

	if (!strncmp(dtype, "torch.", 6))
		dtype += 6;
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(aliases[i].name, dtype))
			dtype = aliases[i].means;
	c->dtype = ckpt_dtype_find(dtype);
	if (c->dtype == CKPT_DTYPE_UNKNOWN || !ckpt_cast_known(CKPT_DTYPE_FLOAT32, c->dtype))
		return ckpt_fail(
			err, CKPT_E_ARG,
			"there is no cast to '%s', wanted float64, float32, float16, bfloat16, float8_e4m3fn, "
			"float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz or float8_e8m0fnu",
			ckpt_escape(shown, sizeof(shown), dtype, strlen(dtype)));
	if (!ckpt_dtype_is_floating(c->dtype) && !(c->o.flags & CKPT_CAST_TO_INTEGER))
		return ckpt_fail(
			err, CKPT_E_ARG,
			"a cast to %s cuts every fraction off; it has to be asked for twice",
			ckpt_dtype_name(c->dtype));
	return 0;
}

int ckpt_cast_others(const struct ckpt_model *model, const char *dtype,
		     const struct ckpt_cast_options *options, const struct ckpt_kept *kept,
		     struct ckpt_model **out, struct ckpt_edit_report *report,
		     struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct caster c = { .from = model,
			    .kept = kept,
			    .tensor_depth = SIZE_MAX,
			    .o = CKPT_CAST_OPTIONS_INIT,
			    .report = CKPT_EDIT_REPORT_INIT };
	const char *unmatched = NULL;

	if (rc == 0)
		rc = ckpt_sized_take(&c.o, sizeof(c.o), options, err);
	if (rc == 0)
		rc = ckpt_flags_check(c.o.flags, CKPT_CAST_TO_INTEGER | CKPT_CAST_ALL, err);
	if (rc == 0)
		rc = ckpt_unused_check(&c.o.reserved, sizeof(c.o.reserved), err);
	*out = NULL;
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(c.report), err);
	if (rc == 0)
		rc = check_target(&c, dtype, err);
	if (rc == 0)
		rc = ckpt_patterns_init(&c.only, c.o.only, c.o.only_count, err);
	if (rc == 0)
		rc = ckpt_patterns_init(&c.except, c.o.except, c.o.except_count, err);
	c.uses = calloc(model->storage_count + (size_t)1, sizeof(*c.uses));
	c.dtype_holders = calloc(model->next_id + (size_t)1, sizeof(*c.dtype_holders));
	if (rc == 0 && (!c.uses || !c.dtype_holders))
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = walk_until_known(&c, err);
	if (rc == 0)
		rc = cast_storages(&c, err);
	if (rc == 0)
		unmatched = ckpt_patterns_unmatched(&c.only);
	if (rc == 0 && !unmatched)
		unmatched = ckpt_patterns_unmatched(&c.except);
	free(c.uses);
	free(c.dtype_holders);
	free(c.own_specs);
	ckpt_patterns_clear(&c.only);
	ckpt_patterns_clear(&c.except);
	if (rc < 0) {
		ckpt_close(c.to);
		return rc;
	}
	c.report.unmatched = unmatched;
	ckpt_sized_give(report, &c.report, sizeof(c.report));
	*out = c.to;
	return 0;
}
