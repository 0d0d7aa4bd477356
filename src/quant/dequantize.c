/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain weights in the place of quantized ones. The storage of the items gets the recipe of the numbers
 * (dequant.h) as its bytes, and with it the new dtype and size, so that it stays in the file of a
 * directory where it was; the tensor becomes one of the plain shape, under the key of the plain weight.
 * The other parts and the scales of activations are left out of their mapping.
 *
 * What must stay true: a storage that becomes another one is used by that tensor alone; where others use it, a new one is made.
 * Weights are one afterwards only if all of their parts are: codes alone, one tensor object under two names among them, may have
 * other scales under each.
 */
#include "quant/group.h"

#include "base/buf.h"
#include "base/sized.h"
#include "base/text.h"
#include "edit/entries.h"
#include "model/casts.h"
#include "model/plain_values.h"
#include "model/state_dict.h"
#include "model/walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A tensor with codes, and where it stands. */
struct codes {
	const struct ckpt_quant_group *group; /* NULL: it is none */
	uint32_t wanted, found;		      /* places, as parts of weights and in all */
	const char *other;		      /* a place where it is no part, or NULL */
	bool is_counted;		      /* an object whose codes are among those wanted */
};

struct dequantizer {
	struct ckpt_quant *q;
	struct ckpt_model *to;
	struct codes *codes; /* by id of a value */
	uint32_t *uses; /* by storage: how often it is named, 1 more where a weight has taken it */
	struct ckpt_strmap made; /* by what a weight is made of: its storage */
	struct ckpt_strmap
		values; /* by a value and the storage of the numbers: address of what stands for it */
};

static int find_dtype(const char *name, enum ckpt_dtype *out, struct ckpt_error *err)
{
	static const struct {
		const char *name;
		enum ckpt_dtype dtype;
	} names[] = { { "bf16", CKPT_DTYPE_BFLOAT16 },	 { "f16", CKPT_DTYPE_FLOAT16 },
		      { "fp16", CKPT_DTYPE_FLOAT16 },	 { "f32", CKPT_DTYPE_FLOAT32 },
		      { "fp32", CKPT_DTYPE_FLOAT32 },	 { "bfloat16", CKPT_DTYPE_BFLOAT16 },
		      { "float16", CKPT_DTYPE_FLOAT16 }, { "float32", CKPT_DTYPE_FLOAT32 } };
	char shown[80];

	if (!strncmp(name, "torch.", 6))
		name += 6;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].name, name)) {
			*out = names[i].dtype;
			return 0;
		}
	return ckpt_fail(err, CKPT_E_ARG,
			 "quantized weights become bfloat16, float16 or float32, not '%s'",
			 ckpt_escape(shown, sizeof(shown), name, strlen(name)));
}

static const struct ckpt_value *inside_of_parameter(const struct ckpt_model *model,
						    const struct ckpt_value *v);

static void want_codes(struct dequantizer *d, const struct ckpt_quant_group *g,
		       const struct ckpt_value *v)
{
	if (!v->id || v->id >= d->q->model->next_id)
		return;
	d->codes[v->id].group = g;
	d->codes[v->id].wanted++;
}

/* What holds the codes of several weights is entered once. */
static bool is_counted(struct dequantizer *d, const struct ckpt_value *holder)
{
	bool was = false;

	if (holder && holder->id && holder->id < d->q->model->next_id) {
		was = d->codes[holder->id].is_counted;
		d->codes[holder->id].is_counted = true;
	}
	return was;
}

static void want_all_codes(struct dequantizer *d)
{
	const struct ckpt_model *model = d->q->model;

	for (uint32_t i = 0; i < d->q->group_count; i++) {
		const struct ckpt_quant_group *g = d->q->groups[i];
		const struct ckpt_quant_entry *e = g->parts[CKPT_PART_ITEMS].entry;
		const struct ckpt_value *v, *inner;

		if (g->has_numbers) /* such a tensor is a weight wherever it stands */
			continue;
		if (g->whole) {
			if (!is_counted(d, g->holder))
				want_codes(d, g, ckpt_model_now(model, e->t->value));
			continue;
		}
		v = ckpt_model_now(model, ckpt_value_pairs(e->holder)->items[e->at + 1]);
		want_codes(d, g, v);
		inner = inside_of_parameter(model, v);
		if (inner != v && !is_counted(d, v))
			want_codes(d, g, inner);
	}
}

/* Is the current value a part of a weight, as far as its place tells? */
static bool is_part(const struct dequantizer *d, const struct ckpt_walk_step *step,
		    const struct ckpt_quant_group *g)
{
	const struct ckpt_quant_entry *entries = d->q->entries;
	const struct ckpt_value *holder;
	uint32_t at, from = 0, to = d->q->entry_count;
	size_t len = strlen(g->name);

	if (g->whole)
		return step->name_len > len && !memcmp(step->name, g->name, len) &&
		       step->name[len] == '.';
	if (!ckpt_walk_is_entry(step, &holder, &at))
		return false;
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;
		const struct ckpt_quant_entry *e = &entries[middle];

		if (e->holder == holder && e->at == at)
			return e->group && e->group->parts[CKPT_PART_ITEMS].entry == e;
		if (e->holder->id != holder->id ? e->holder->id < holder->id : e->at < at)
			from = middle + 1;
		else
			to = middle;
	}
	return false;
}

static int count_codes(struct dequantizer *d, const struct ckpt_walk_step *step,
		       struct ckpt_error *err)
{
	struct codes *codes = step->value->id < d->q->model->next_id
				      ? &d->codes[step->value->id]
				      : NULL;

	if (!codes || !codes->group)
		return 0;
	codes->found++;
	if (codes->other || is_part(d, step, codes->group))
		return 0;
	codes->other = ckpt_arena_copy(d->q->arena, step->name, step->name_len);
	return codes->other ? 0 : ckpt_arena_fail(d->q->arena, err);
}

/* Codes that are a tensor of their own elsewhere, as the same object, would become numbers there, too. */
static int check_codes(const struct dequantizer *d, struct ckpt_error *err)
{
	char shown[200], other[200];

	for (uint32_t i = 0; i < d->q->model->next_id; i++) {
		const struct codes *codes = &d->codes[i];
		const char *name, *too = codes->other ? codes->other : "another";

		if (!codes->group || codes->found <= codes->wanted)
			continue;
		name = ckpt_quant_tensor(codes->group, CKPT_PART_ITEMS)->name;
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"'%s' and '%s' are one tensor, which is a part of a quantized weight under the first name alone",
			ckpt_escape(shown, sizeof(shown), name, strlen(name)),
			ckpt_escape(other, sizeof(other), too, strlen(too)));
	}
	return 0;
}

static int count_use(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct dequantizer *d = ctx;
	int rc = count_codes(d, step, err);

	if (step->value->kind == CKPT_PERSID && ckpt_storage_of(step->value) >= 0)
		d->uses[ckpt_storage_of(step->value)]++;
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

/* How often each storage is named: by tensors, those inside of others, too, and on its own. */
static int count_uses(struct dequantizer *d, struct ckpt_error *err)
{
	const struct ckpt_model *model = d->q->model;
	int rc;

	d->uses = calloc(model->storage_count + (size_t)1, sizeof(*d->uses));
	d->codes = calloc(model->next_id + (size_t)1, sizeof(*d->codes));
	if (!d->uses || !d->codes)
		return ckpt_fail_nomem(err);
	want_all_codes(d);
	for (uint32_t i = 0; i < model->storage_count; i++)
		if (model->storages[i].view) { /* of files before torch 0.4 */
			d->uses[i]++;
			d->uses[model->storages[i].view->root]++;
		}
	rc = ckpt_model_walk(model, count_use, d, err);
	return rc < 0 ? rc : check_codes(d, err);
}

/* ---- storages ---- */

/* What G is made of, as text: weights of the same parts, read in the same way, are tied. False: no memory. */
static bool add_parts(struct ckpt_buf *out, const struct ckpt_quant_group *g)
{
	const struct ckpt_quant_weight *w = &g->weight;

	for (int r = 0; r < CKPT_PART_ROLES; r++) {
		const struct ckpt_tensor *t = ckpt_quant_tensor(g, r);

		ckpt_buf_printf(out, "%d", r);
		if (!t)
			continue;
		ckpt_buf_printf(out, " %" PRId64 " %d %d %" PRIu64, t->storage, (int)t->dtype,
				t->is_neg, t->offset);
		for (uint32_t i = 0; i < t->ndim; i++)
			ckpt_buf_printf(out, " %" PRIu64 "/%" PRIu64, t->shape[i], t->stride[i]);
	}
	for (uint32_t i = 0; i < g->ndim; i++)
		ckpt_buf_printf(out, " %" PRIu64, g->shape[i]);
	/* groups of the configuration may say different things of the same parts */
	ckpt_buf_printf(out, " %u %" PRIu64 " %" PRIu64 " %u", w->bits, w->block_rows,
			w->block_cols, w->zero);
	if (g->whole) /* what it says of itself is not among its parts */
		ckpt_buf_printf(out, " %" PRIu32, g->whole->value->id);
	return !out->bad;
}

/*
 * The storage for the numbers of G: that of a weight of the same parts (*IS_MADE); that of its items, if nothing else uses it;
 * else a new one.
 */
static int find_storage(struct dequantizer *d, const struct ckpt_quant_group *g, uint32_t *out,
			bool *is_made, struct ckpt_error *err)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS);
	struct ckpt_buf parts = { 0 };
	struct ckpt_storage *s;
	uint32_t uses = d->uses[items->storage];
	uint64_t *slot;
	const char *key,
		*kept = add_parts(&parts, g)
				? ckpt_arena_copy(d->to->arena, (char *)parts.data, parts.len)
				: NULL;

	*out = uses == 1 ? (uint32_t)items->storage : d->to->storage_count;
	slot = kept ? ckpt_strmap_insert(&d->made, kept, parts.len, *out, is_made) : NULL;
	ckpt_buf_clear(&parts);
	if (!slot)
		return ckpt_fail_nomem(err);
	if (*is_made) {
		*out = (uint32_t)*slot;
		return 0;
	}
	d->uses[items->storage]++;
	if (uses == 1)
		return 0;
	key = ckpt_model_new_key(d->to, 'q');
	s = key ? ckpt_model_add_storage(d->to) : NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	*s = d->to->storages[items->storage];
	s->key = key;
	s->record = NULL;
	s->view = NULL;
	return 0;
}

/* The inner tensor of a torch.nn.Parameter, which stays one. */
static const struct ckpt_value *inside_of_parameter(const struct ckpt_model *model,
						    const struct ckpt_value *v)
{
	const struct ckpt_value *inner;

	while (v->kind == CKPT_CALL &&
	       (ckpt_value_is_call_of(v, "torch._utils", "_rebuild_parameter") ||
		ckpt_value_is_call_of(v, "torch._utils", "_rebuild_parameter_with_state"))) {
		inner = ckpt_plain_arg(model, v, 0);
		if (!inner || !ckpt_value_is_tensor(model, inner))
			break;
		v = inner;
	}
	return v;
}

/* A Parameter that is of a class of its own says so in an attribute: _rebuild_parameter(tensor, requires_grad, OrderedDict()) */
static int wrap_in_parameter(struct dequantizer *d, const struct ckpt_tensor *t,
			     struct ckpt_error *err)
{
	struct ckpt_value *inner = ckpt_model_new_value(d->to, CKPT_CALL), *outer;
	const struct ckpt_value *items[3];
	struct ckpt_value *v = ckpt_arena_calloc(d->to->arena, 1, sizeof(*v));

	if (!inner || !v)
		return ckpt_fail_nomem(err);
	inner->u.call = ckpt_model_now(d->to, t->value)->u.call;
	items[0] = inner;
	items[1] = t->requires_grad ? &ckpt_value_true : &ckpt_value_false;
	items[2] = ckpt_plain_call(d->to, "collections", "OrderedDict", NULL, 0);
	outer = items[2] ? ckpt_plain_call(d->to, "torch._utils", "_rebuild_parameter", items, 3)
			 : NULL;
	if (!outer)
		return ckpt_fail_nomem(err);
	*v = *t->value;
	v->kind = CKPT_CALL;
	v->u.call = outer->u.call;
	return ckpt_model_replace(d->to, v, err);
}

/* torch._utils._rebuild_tensor_v2(storage, 0, shape, stride, requires_grad, OrderedDict()), in the place of VALUE */
static int replace_tensor(struct dequantizer *d, const struct ckpt_quant_group *g,
			  const struct ckpt_value *value, uint32_t storage, struct ckpt_error *err)
{
	struct ckpt_tensor was = g->whole ? *g->whole : *ckpt_quant_tensor(g, CKPT_PART_ITEMS);
	const struct ckpt_value *mark =
		g->whole && was.attributes
			? ckpt_state_find(d->q->model, was.attributes, "_is_param")
			: NULL;
	bool becomes_parameter = mark && mark->kind == CKPT_BOOL && mark->u.integer;
	int rc;

	was.value = value;
	was.requires_grad &= !was.is_parameter && !becomes_parameter;
	rc = ckpt_plain_replace_tensor(d->to, &was, g->shape, g->ndim, storage, err);
	return rc == 0 && becomes_parameter ? wrap_in_parameter(d, g->whole, err) : rc;
}

/* OUTER, a Parameter of INNER or that itself, with INSTEAD in the place of INNER. */
static int copy_parameter(struct dequantizer *d, const struct ckpt_quant_group *g,
			  const struct ckpt_value *outer, const struct ckpt_value *inner,
			  const struct ckpt_value *instead, const struct ckpt_value **out,
			  struct ckpt_error *err)
{
	struct ckpt_value *copy;
	const struct ckpt_value **items;
	struct ckpt_call *call;
	const struct ckpt_seq *args;
	char shown[200];

	*out = instead;
	if (outer == inner)
		return 0;
	if (ckpt_plain_arg(d->q->model, outer, 0) != inner)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%s' is one Parameter in another, and has other scales elsewhere",
				 ckpt_escape(shown, sizeof(shown), g->name, strlen(g->name)));
	args = &ckpt_model_now(d->q->model, outer->u.call->args)->u.seq;
	items = ckpt_arena_calloc(d->to->arena, args->count, sizeof(*items));
	call = ckpt_arena_alloc(d->to->arena, sizeof(*call));
	copy = ckpt_model_new_value(d->to, CKPT_CALL);
	if (!items || !call || !copy)
		return ckpt_arena_fail(d->to->arena, err);
	memcpy(items, args->items, args->count * sizeof(*items));
	items[0] = instead;
	*call = *outer->u.call;
	call->args = ckpt_plain_seq(d->to, CKPT_TUPLE, items, args->count);
	copy->u.call = call;
	*out = copy;
	return call->args ? 0 : ckpt_arena_fail(d->to->arena, err);
}

/* The value in D->values under VALUE and STORAGE; a new one is 0. NULL: no memory. */
static uint64_t *value_slot(struct dequantizer *d, uint32_t value, uint32_t storage)
{
	uint32_t key[2] = { value, storage };
	const char *kept = ckpt_arena_copy(d->to->arena, (char *)key, sizeof(key));
	bool there;

	return kept ? ckpt_strmap_insert(&d->values, kept, sizeof(key), 0, &there) : NULL;
}

/*
 * Let G show STORAGE. One tensor object may be the codes of several weights, whose other parts are not the same: the first of
 * these takes its place, for the others there are new ones (INSTEAD), which edit_mapping() puts under their keys.
 */
static int put_tensor(struct dequantizer *d, struct ckpt_quant_group *g, uint32_t storage,
		      struct ckpt_error *err)
{
	const struct ckpt_quant_entry *e = g->parts[CKPT_PART_ITEMS].entry;
	const struct ckpt_value *inner = inside_of_parameter(d->q->model, g->whole ? g->whole->value
										   : e->t->value),
				*outer, *instead;
	uint64_t *any = value_slot(d, inner->id, UINT32_MAX), *slot;
	struct ckpt_value *fresh;
	int rc;

	if (!any)
		return ckpt_fail_nomem(err);
	if (!*any)
		*any = (uint64_t)storage + 1;
	if (*any == (uint64_t)storage + 1)
		return replace_tensor(d, g, inner, storage, err);
	slot = value_slot(d, inner->id, storage);
	if (!slot)
		return ckpt_fail_nomem(err);
	g->instead = (const struct ckpt_value *)(uintptr_t)*slot;
	if (g->instead)
		return 0;
	fresh = ckpt_model_new_value(d->to, CKPT_CALL);
	if (!fresh)
		return ckpt_arena_fail(d->to->arena, err);
	outer = ckpt_model_now(d->q->model, ckpt_value_pairs(e->holder)->items[e->at + 1]);
	rc = replace_tensor(d, g, fresh, storage, err);
	if (rc == 0)
		rc = copy_parameter(d, g, outer, inner, fresh, &instead, err);
	if (rc == 0) {
		g->instead = instead;
		*slot = (uint64_t)(uintptr_t)instead;
	}
	return rc;
}

/* *NUMBERS, of float32, cast: what that loses is counted. */
static int cast_numbers(struct dequantizer *d, uint32_t storage, struct ckpt_recipe *numbers,
			struct ckpt_error *err)
{
	struct ckpt_storage_cast *cast;

	if (d->q->to == CKPT_DTYPE_FLOAT32 || !numbers->len)
		return 0;
	cast = ckpt_model_add_cast(d->to, storage);
	if (!cast)
		return ckpt_arena_fail(d->to->arena, err);
	cast->cast = ckpt_cast_of(numbers, CKPT_DTYPE_FLOAT32, d->q->to);
	cast->cast.tally = &cast->tally;
	*numbers = ckpt_map_recipe(&cast->cast.map);
	return 0;
}

/*
 * Many numbers do not fit into float16: they are made in float32 first. That gives the same bits, as every product is
 * one of float32 until it is rounded; but for a factor behind a product of float16, which no format has. Where a zero point is
 * added to the product, that stays rounded to float16.
 */
static int make_numbers(struct dequantizer *d, struct ckpt_quant_group *g, uint32_t storage,
			struct ckpt_recipe *made, struct ckpt_error *err)
{
	struct ckpt_quant_weight w = g->weight;
	bool is_half = d->q->to == CKPT_DTYPE_FLOAT16 &&
		       (w.product != CKPT_DTYPE_FLOAT16 || w.factor == 0);
	int rc;

	if (g->has_numbers) {
		*made = g->numbers;
		return cast_numbers(d, storage, made, err);
	}
	w.to = is_half ? CKPT_DTYPE_FLOAT32 : d->q->to;
	if (is_half && w.product == CKPT_DTYPE_FLOAT16 && !w.zero_adds)
		w.product = CKPT_DTYPE_FLOAT32;
	rc = ckpt_quant_recipe(&w, d->to->arena, made, err);
	return rc == 0 && is_half ? cast_numbers(d, storage, made, err) : rc;
}

static int make_weight(struct dequantizer *d, struct ckpt_quant_group *g, struct ckpt_error *err)
{
	struct ckpt_recipe *made = ckpt_arena_calloc(d->to->arena, 1, sizeof(*made));
	struct ckpt_storage *s;
	uint32_t storage;
	bool is_made;
	int rc;

	if (!made)
		return ckpt_arena_fail(d->to->arena, err);
	rc = find_storage(d, g, &storage, &is_made, err);
	if (rc < 0 || is_made)
		return rc < 0 ? rc : put_tensor(d, g, storage, err);
	rc = make_numbers(d, g, storage, made, err);
	if (rc < 0)
		return ckpt_error_prefix(err, rc, "'%.200s': ", g->name);
	s = &d->to->storages[storage];
	s->made = made;
	s->dtype = d->q->to;
	s->retyped = true;
	s->nbytes = made->len;
	s->numel = made->len / ckpt_dtype_size(s->dtype);
	s->has_crc = false;
	return put_tensor(d, g, storage, err);
}

/* ---- mappings with other entries ---- */

static int clash(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	char shown[200];

	return ckpt_fail(err, CKPT_E_CLASH, "there is a '%s' beside the quantized one",
			 ckpt_escape(shown, sizeof(shown), g->name, strlen(g->name)));
}

/* Entries FROM to TO of the list are those of one mapping that are under text keys. */
static int check_names(const struct dequantizer *d, uint32_t from, uint32_t to,
		       struct ckpt_error *err)
{
	struct ckpt_quant_entry *entries = d->q->entries;
	const struct ckpt_seq *pairs = ckpt_value_pairs(entries[from].holder);
	struct ckpt_strmap kept = { 0 };
	uint32_t next = from;
	bool there;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(d->q->model, pairs->items[i]);
		struct ckpt_quant_entry *e =
			next < to && entries[next].at == i ? &entries[next++] : NULL;

		if (!ckpt_value_is_text(key) || (e && (e->group || e->dropped)))
			continue;
		if (!ckpt_strmap_insert(&kept, key->u.bytes.ptr, key->u.bytes.len, i, &there))
			rc = ckpt_fail_nomem(err);
	}
	for (uint32_t i = from; rc == 0 && i < to; i++) {
		const struct ckpt_quant_group *g = entries[i].group;

		if (!g || g->parts[CKPT_PART_ITEMS].entry != &entries[i])
			continue;
		if (!ckpt_strmap_insert(&kept, g->key, strlen(g->key), i, &there))
			rc = ckpt_fail_nomem(err);
		else if (there)
			rc = clash(g, err);
	}
	ckpt_strmap_clear(&kept);
	return rc;
}

static int keep_entry(struct dequantizer *d, struct ckpt_fewer_entries *fewer, uint32_t at,
		      const struct ckpt_quant_entry *e, struct ckpt_error *err)
{
	const struct ckpt_quant_group *g = e ? e->group : NULL;
	const struct ckpt_value *pair[2];

	if (!e || (!g && !e->dropped))
		return ckpt_fewer_entries_keep(d->to, fewer, at, err);
	if (!g || g->parts[CKPT_PART_ITEMS].entry != e)
		return 0;
	if (!g->instead && e->key_len == strlen(g->key) && !memcmp(e->key, g->key, e->key_len))
		return ckpt_fewer_entries_keep(d->to, fewer, at, err);
	pair[0] = ckpt_model_new_str(d->to, g->key, strlen(g->key));
	pair[1] = g->instead ? g->instead : fewer->were->items[at + 1];
	if (!pair[0] || !ckpt_seq_add_many(d->to->arena, fewer->entries, pair, 2))
		return ckpt_arena_fail(d->to->arena, err);
	return 0;
}

static int edit_mapping(struct dequantizer *d, uint32_t from, uint32_t to, struct ckpt_error *err)
{
	struct ckpt_quant_entry *entries = d->q->entries;
	struct ckpt_fewer_entries fewer;
	uint32_t next = from;
	int rc = check_names(d, from, to, err);

	if (rc == 0)
		rc = ckpt_fewer_entries_begin(d->to, entries[from].holder, &fewer, err);
	for (uint32_t i = 0; rc == 0 && i + 1 < fewer.were->count; i += 2)
		rc = keep_entry(d, &fewer, i,
				next < to && entries[next].at == i ? &entries[next++] : NULL, err);
	return rc < 0 ? rc : ckpt_model_replace(d->to, fewer.copy, err);
}

static int edit_mappings(struct dequantizer *d, struct ckpt_error *err)
{
	struct ckpt_quant_entry *entries = d->q->entries;
	int rc = 0;

	for (uint32_t from = 0, to; rc == 0 && from < d->q->entry_count; from = to) {
		bool any = false;

		for (to = from;
		     to < d->q->entry_count && entries[to].holder == entries[from].holder; to++)
			any |= entries[to].group || entries[to].dropped;
		if (any)
			rc = edit_mapping(d, from, to, err);
	}
	return rc;
}

static void close_held(void *held)
{
	ckpt_quant_close(held);
}

static int dequantize(struct dequantizer *d, struct ckpt_error *err)
{
	int rc = ckpt_model_derive(d->q->model, &d->to, err);

	if (rc == 0)
		rc = count_uses(d, err);
	if (rc == 0)
		rc = ckpt_model_own_storages(d->to, err);
	for (uint32_t i = 0; rc == 0 && i < d->q->group_count; i++)
		rc = make_weight(d, d->q->groups[i], err);
	if (rc == 0)
		rc = edit_mappings(d, err);
	return rc;
}

int ckpt_dequantize(const struct ckpt_model *model, const char *dtype,
		    const struct ckpt_quant_options *options, struct ckpt_model **out,
		    struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	struct dequantizer d = { 0 };
	struct ckpt_error why = { 0 };
	enum ckpt_dtype to = CKPT_DTYPE_UNKNOWN;
	int rc = ckpt_sized_check(report, sizeof(did), err);

	*out = NULL;
	if (rc == 0)
		rc = find_dtype(dtype, &to, err);
	if (rc == 0)
		rc = ckpt_quant_find(model, options, to, &d.q, &why);
	if (rc == CKPT_E_NOTFOUND) {
		rc = ckpt_model_derive(model, out, err);
		ckpt_sized_give(report, &did, sizeof(did));
		return rc;
	}
	if (rc < 0 && err && why.status)
		*err = why;
	if (rc == 0)
		rc = dequantize(&d, err);
	free(d.uses);
	free(d.codes);
	ckpt_strmap_clear(&d.made);
	ckpt_strmap_clear(&d.values);
	if (rc < 0) {
		ckpt_close(d.to);
		ckpt_quant_close(d.q);
		return rc;
	}
	did.tensors_dequantized = d.q->group_count;
	did.scales_dropped = d.q->dropped_count;
	did.tensors_left = d.q->unknown_count;
	d.to->stale_metadata = d.q->stale;
	d.to->stale_metadata_count = d.q->stale_count;
	/* the recipes borrow of its arena */
	d.to->held = d.q;
	d.to->free_held = close_held;
	ckpt_sized_give(report, &did, sizeof(did));
	*out = d.to;
	return 0;
}
