/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors by the weights that they are parts of. A format has its own names of parts (formats.c): every tensor whose name ends
 * as a part's does is put into the group of its front; then each group has to be whole, and its format proves that dtypes and
 * shapes fit. What says to be a part and is in no group is an error: somebody would take the numbers without their scales for
 * weights.
 */
#include "quant/fill.h"
#include "quant/find.h"

#include "base/grow.h"
#include "base/text.h"
#include "model/walk.h"
#include "tensor/cast.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- all tensors that stand under a text key ---- */

/* A tensor that has several names is listed under the first: let E have that of STEP. */
static int name_again(struct ckpt_quant *q, const struct ckpt_walk_step *step,
		      struct ckpt_quant_entry *e, struct ckpt_error *err)
{
	struct ckpt_tensor *copy;

	if (e->t->name_is_cut || step->name_len > CKPT_MOST_TENSOR_NAME ||
	    (strlen(e->t->name) == step->name_len &&
	     !memcmp(e->t->name, step->name, step->name_len)))
		return 0;
	copy = ckpt_arena_alloc(q->arena, sizeof(*copy));
	if (!copy)
		return ckpt_arena_fail(q->arena, err);
	*copy = *e->t;
	copy->name = ckpt_arena_copy(q->arena, step->name, step->name_len);
	e->t = copy;
	return copy->name ? 0 : ckpt_arena_fail(q->arena, err);
}

static bool is_small_float(enum ckpt_dtype dtype)
{
	return (ckpt_dtype_size(dtype) == 1 && ckpt_dtype_is_floating(dtype)) || dtype == CKPT_DTYPE_FLOAT4_E2M1FN_X2;
}

/* A tensor in a list, or under a key that is no text. */
static int note_placeless(struct ckpt_quant *q, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	uint32_t index;
	int rc = q->placeless ? CKPT_E_NOTFOUND : ckpt_model_tensor_of(q->model, step->value, &index, err);

	if (rc == 0 && is_small_float(q->model->tensors[index].dtype) && q->model->tensors[index].kind == CKPT_KIND_STRIDED &&
	    q->model->tensors[index].storage >= 0 && q->model->tensors[index].name)
		q->placeless = &q->model->tensors[index];
	return rc < 0 && rc != CKPT_E_NOTFOUND ? rc : CKPT_WALK_SKIP;
}

static int add_entry(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct ckpt_quant *q = ctx;
	struct ckpt_quant_entry e = { 0 };
	const struct ckpt_seq *pairs;
	const struct ckpt_value *key;
	uint32_t index;
	void *grown;
	int rc;

	if (!ckpt_value_is_tensor(q->model, step->value))
		return CKPT_WALK_ENTER;
	if (step->seen)
		return CKPT_WALK_SKIP;
	pairs = ckpt_walk_is_entry(step, &e.holder, &e.at) ? ckpt_value_pairs(e.holder) : NULL;
	key = pairs ? ckpt_model_now(q->model, pairs->items[e.at]) : NULL;
	if (!key || !ckpt_value_is_text(key) || key->u.bytes.len > UINT32_MAX)
		return note_placeless(q, step, err);
	e.key = key->u.bytes.ptr;
	e.key_len = (uint32_t)key->u.bytes.len;
	rc = ckpt_model_tensor_of(q->model, step->value, &index, err);
	if (rc == CKPT_E_NOTFOUND)
		return CKPT_WALK_SKIP;
	if (rc < 0)
		return rc;
	e.t = &q->model->tensors[index];
	if (e.t->kind != CKPT_KIND_STRIDED || e.t->storage < 0 || !e.t->name)
		return CKPT_WALK_SKIP;
	grown = ckpt_grow(q->entries, q->entry_count, &q->entry_cap, sizeof(*q->entries));
	if (!grown)
		return ckpt_fail_nomem(err);
	q->entries = grown;
	rc = name_again(q, step, &e, err);
	if (rc < 0)
		return rc;
	q->entries[q->entry_count++] = e;
	return CKPT_WALK_SKIP;
}

static int by_holder(const void *a, const void *b)
{
	const struct ckpt_quant_entry *x = a, *y = b;

	if (x->holder->id != y->holder->id)
		return x->holder->id < y->holder->id ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Is there a tensor of a dtype that items of some format have, or a table of bitsandbytes, whose items have any? */
static bool may_have_items(const struct ckpt_model *model)
{
	static const char table[] = ".quant_map";

	for (uint32_t i = 0; i < model->tensor_count; i++) {
		const struct ckpt_tensor *t = &model->tensors[i];
		size_t len = t->name ? strlen(t->name) : 0;

		if (ckpt_quant_is_code(t->dtype) ||
		    (len >= sizeof(table) && !memcmp(t->name + len - (sizeof(table) - 1), table, sizeof(table) - 1)))
			return true;
	}
	return false;
}

int ckpt_quant_collect(struct ckpt_quant *q, bool always, struct ckpt_error *err)
{
	int rc = ckpt_model_has_tensors(q->model) ? 0 : ckpt_fail_nomem(err);

	if (rc == 0)
		rc = always || may_have_items(q->model) ? ckpt_model_walk(q->model, add_entry, q, err) : 0;
	if (rc == 0 && q->entry_count)
		qsort(q->entries, q->entry_count, sizeof(*q->entries), by_holder);
	return rc;
}

/* ---- groups ---- */

bool ckpt_quant_is_code(enum ckpt_dtype dtype)
{
	return dtype == CKPT_DTYPE_INT32 ||
	       (dtype != CKPT_DTYPE_BOOL && dtype != CKPT_DTYPE_UNKNOWN &&
		ckpt_dtype_size(dtype) == 1);
}

/* Those of the entries FROM to TO, which one mapping has. */
struct mapping {
	struct ckpt_quant *q;
	uint32_t from, to;
	struct ckpt_strmap by_key;  /* number of the entry */
	struct ckpt_strmap by_base; /* number of the group */
};

/* Does FRONT end with a part of a name that is "_", one byte or more, and "_"? */
static bool is_between_underscores(const char *front, uint32_t len)
{
	const char *dot = memrchr(front, '.', len), *last = dot ? dot + 1 : front, *end = front + len;

	return end - last > 2 && *last == '_' && end[-1] == '_';
}

bool ckpt_quant_ends_as(const struct ckpt_quant_entry *e, const char *suffix, uint32_t *front)
{
	bool is_starred = *suffix == '*';
	size_t len = strlen(suffix += is_starred);

	*front = 0;
	if (is_starred && (e->key_len <= len || !is_between_underscores(e->key, e->key_len - (uint32_t)len)))
		return false;
	if (suffix[0] == '.' && e->key_len == len - 1 && !memcmp(e->key, suffix + 1, len - 1))
		return true;
	if (!len || e->key_len <= len || memcmp(e->key + e->key_len - len, suffix, len) != 0)
		return false;
	*front = e->key_len - (uint32_t)len;
	return true;
}

bool ckpt_quant_add_key(const char *front, uint32_t len, const char *suffix, struct ckpt_buf *out)
{
	bool is_starred = *suffix == '*';

	if (is_starred && !is_between_underscores(front, len))
		return false;
	suffix += is_starred || (!len && *suffix == '.');
	ckpt_buf_add(out, front, len);
	ckpt_buf_add(out, suffix, strlen(suffix));
	return true;
}

static const struct ckpt_quant_suffix *suffix_of(const struct ckpt_quant_format *format,
						 const struct ckpt_quant_entry *e, uint32_t *front)
{
	const struct ckpt_quant_suffix *found = NULL;
	uint32_t at;

	for (const struct ckpt_quant_suffix *s = format->suffixes; s->text; s++)
		if (ckpt_quant_ends_as(e, s->text, &at) && (!found || strlen(s->text) > strlen(found->text))) {
			found = s;
			*front = at;
		}
	return found;
}

struct ckpt_quant_group *ckpt_quant_new_group(struct ckpt_quant *q, struct ckpt_error *err)
{
	void *grown = ckpt_grow(q->groups, q->group_count, &q->group_cap,
				sizeof(struct ckpt_quant_group *));
	struct ckpt_quant_group *g;

	if (grown)
		q->groups = grown;
	g = grown ? ckpt_arena_calloc(q->arena, 1, sizeof(*g)) : NULL;
	if (!g) {
		ckpt_fail_nomem(err);
		return NULL;
	}
	g->quant = q;
	q->groups[q->group_count++] = g;
	return g;
}

static int find_group(struct mapping *m, const char *base, uint32_t len,
		      struct ckpt_quant_group **out, struct ckpt_error *err)
{
	struct ckpt_quant *q = m->q;
	struct ckpt_quant_group *g;
	uint64_t *slot;
	bool there;

	slot = ckpt_strmap_insert(&m->by_base, base, len, q->group_count, &there);
	if (!slot)
		return ckpt_fail_nomem(err);
	if (there) {
		*out = q->groups[*slot];
		return 0;
	}
	g = ckpt_quant_new_group(q, err);
	if (!g)
		return CKPT_E_NOMEM;
	g->base = base;
	g->base_len = len;
	*out = g;
	return 0;
}

static int fail_twice(const struct ckpt_quant_entry *one, const struct ckpt_quant_entry *other,
		      struct ckpt_error *err)
{
	char shown[200], of[200];

	return ckpt_fail(err, CKPT_E_FORMAT, "'%s' and '%s' say to be the same part of one weight",
			 ckpt_escape(shown, sizeof(shown), one->t->name, strlen(one->t->name)),
			 ckpt_escape(of, sizeof(of), other->t->name, strlen(other->t->name)));
}

static int put_in(struct ckpt_quant_group *g, enum ckpt_part_role role, const char *suffix,
		  struct ckpt_quant_entry *e, struct ckpt_error *err)
{
	if (g->parts[role].entry)
		return fail_twice(g->parts[role].entry, e, err);
	if (e->group)
		return fail_twice(g->parts[CKPT_PART_SCALES].entry
					  ? g->parts[CKPT_PART_SCALES].entry
					  : e,
				  e, err);
	g->parts[role].entry = e;
	g->parts[role].suffix = suffix;
	e->group = g;
	return 0;
}

static int drop(struct ckpt_quant *q, struct ckpt_quant_entry *e, struct ckpt_error *err)
{
	void *grown = ckpt_grow(q->dropped, q->dropped_count, &q->dropped_cap, sizeof(char *));

	if (!grown)
		return ckpt_fail_nomem(err);
	q->dropped = grown;
	q->dropped[q->dropped_count++] = e->t->name;
	e->dropped = true;
	return 0;
}

static int put_entry(struct mapping *m, struct ckpt_quant_entry *e, struct ckpt_error *err)
{
	const struct ckpt_quant_suffix *s;
	struct ckpt_quant_group *g = NULL;
	uint32_t front = 0;
	char shown[200];
	int rc;

	s = suffix_of(m->q->format, e, &front);
	if (!s || (s->role == CKPT_PART_ITEMS && !strcmp(s->text, ".weight") &&
		   !m->q->format->is_item(e->t->dtype)))
		return 0;
	if (s->role == CKPT_PART_ACTIVATIONS) /* see drop_scales() */
		return 0;
	if (s->role == CKPT_PART_REFUSED)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"'%s' changes what its weight means: there is no plain weight that is the same",
			ckpt_escape(shown, sizeof(shown), e->t->name, strlen(e->t->name)));
	rc = find_group(m, e->key, front, &g, err);
	return rc < 0 ? rc : put_in(g, s->role, s->text, e, err);
}

/* Items whose name is the front alone, or ".weight" and of a dtype that nobody expects. */
static int find_items(struct mapping *m, struct ckpt_quant_group *g, struct ckpt_error *err)
{
	for (const struct ckpt_quant_suffix *s = m->q->format->suffixes; s->text; s++) {
		struct ckpt_buf key = { 0 };
		uint64_t *at;
		int rc = 0;

		if (s->role != CKPT_PART_ITEMS || g->parts[CKPT_PART_ITEMS].entry)
			continue;
		if (!ckpt_quant_add_key(g->base, g->base_len, s->text, &key))
			continue;
		at = key.bad ? NULL : ckpt_strmap_find(&m->by_key, (char *)key.data, key.len);
		if (key.bad)
			rc = ckpt_fail_nomem(err);
		if (at)
			rc = put_in(g, CKPT_PART_ITEMS, s->text, &m->q->entries[*at], err);
		ckpt_buf_clear(&key);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* A scale as another format calls it, beside a weight of this one: two readers would take two things. */
static int check_others(const struct mapping *m, const struct ckpt_quant_entry *e,
			struct ckpt_error *err)
{
	const struct ckpt_quant_suffix *s;
	uint32_t front = 0;
	char shown[200];

	for (size_t i = 0; i < ckpt_quant_format_count; i++) {
		const struct ckpt_quant_format *other = &ckpt_quant_formats[i];

		s = e->group || e->dropped ? NULL : suffix_of(other, e, &front);
		if (!s || (s->role != CKPT_PART_SCALES && s->role != CKPT_PART_ZEROS &&
			   s->role != CKPT_PART_REFUSED && s->role != CKPT_PART_GLOBAL &&
			   s->role != CKPT_PART_GROUPS))
			continue;
		if (ckpt_strmap_find(&m->by_base, e->key, front))
			return ckpt_fail(
				err, CKPT_E_FORMAT,
				"'%s' stands beside a weight that is quantized as %s has it, which has nothing of that name",
				ckpt_escape(shown, sizeof(shown), e->t->name, strlen(e->t->name)),
				m->q->format->name);
	}
	return 0;
}

/* Is there a quantized weight whose name is the first LEN bytes of KEY? */
static bool has_weight(const struct mapping *m, const char *key, uint32_t len)
{
	const uint64_t *at = ckpt_strmap_find(&m->by_base, key, len);

	return at && m->q->groups[*at]->parts[CKPT_PART_ITEMS].entry &&
	       m->q->groups[*at]->parts[CKPT_PART_SCALES].entry;
}

/* What linear layers, embeddings and gates have beside their weight, and what packages note of it, which changes nothing. */
static bool is_harmless(const char *name, uint32_t len)
{
	static const char *const all[] = { "logit_scale", "weight_amax", "input_amax", "output_amax", "_extra_state" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (len == strlen(all[i]) && !memcmp(name, all[i], len))
			return true;
	return (len >= 4 && !memcmp(name + len - 4, "bias", 4)) || (len > 4 && !memcmp(name, "lora", 4));
}

/* Is what the first LEN bytes of KEY name a quantized weight, or its module? Parts may have ".weight" in front. */
static bool has_module(const struct mapping *m, const char *key, uint32_t len, struct ckpt_error *err, int *rc)
{
	struct ckpt_buf weight = { 0 };
	bool has = has_weight(m, key, len) || (len > 7 && !memcmp(key + len - 7, ".weight", 7) && has_weight(m, key, len - 7));

	if (has)
		return true;
	ckpt_buf_add(&weight, key, len);
	ckpt_buf_add(&weight, len ? ".weight" : "weight", len ? 7 : 6);
	*rc = weight.bad ? ckpt_fail_nomem(err) : 0;
	has = !weight.bad && has_weight(m, (char *)weight.data, (uint32_t)weight.len);
	ckpt_buf_clear(&weight);
	return has;
}

/* "X.input_quantizer._pre_quant_scale": what ModelOpt has of a quantizer besides the largest number that it has seen. */
static bool is_of_quantizer(const struct mapping *m, const struct ckpt_quant_entry *e, uint32_t front, struct ckpt_error *err, int *rc)
{
	static const char quantizer[] = "quantizer", amax[] = "._amax";
	const char *dot = front ? memrchr(e->key, '.', front) : NULL;
	size_t len = sizeof(quantizer) - 1;

	return dot && front - (size_t)(dot - e->key) > len && !memcmp(e->key + front - len, quantizer, len) &&
	       (e->key_len - front != sizeof(amax) - 1 || memcmp(e->key + front, amax, sizeof(amax) - 1) != 0) &&
	       has_module(m, e->key, (uint32_t)(dot - e->key), err, rc);
}

/* "X._memory_scale", without a "X._memory_qdata", is a name as any other. */
static bool is_starred_alone(const struct ckpt_quant_group *g)
{
	const struct ckpt_quant_part *any = g->parts;

	while (any < g->parts + CKPT_PART_ROLES - 1 && !any->entry)
		any++;
	return !g->parts[CKPT_PART_ITEMS].entry && any->entry && any->suffix[0] == '*';
}

/* What is a part by its name alone, and something else. */
static bool is_nothing(const struct ckpt_quant_group *g)
{
	const struct ckpt_tensor *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);

	if (is_starred_alone(g))
		return true;
	return g->quant->format->is_loose && !g->parts[CKPT_PART_ITEMS].entry && scales &&
	       !strcmp(g->parts[CKPT_PART_SCALES].suffix, ".scale") &&
	       scales->dtype != CKPT_DTYPE_FLOAT8_E8M0FNU;
}

/*
 * Is E in a module inside of that of a quantized weight ("X.R_input.weight", a rotation)? Harmless are LoRA's, and what ModelOpt's
 * quantizers have, of which is_of_quantizer() decides.
 */
static bool is_inside(const struct mapping *m, const struct ckpt_quant_entry *e, uint32_t front, struct ckpt_error *err, int *rc)
{
	for (uint32_t at = 1; *rc == 0 && at < front; at++) {
		uint32_t len = e->key_len - at - 1;
		const char *inner = e->key + at + 1, *end = memchr(inner, '.', len);

		if (e->key[at] != '.' || (len > 4 && !memcmp(inner, "lora", 4)) ||
		    (end - inner >= 9 && !memcmp(end - 9, "quantizer", 9)))
			continue;
		if (!is_harmless(e->key + front + 1, e->key_len - front - 1) && has_module(m, e->key, at, err, rc))
			return true;
	}
	return false;
}

/*
 * A tensor in the module of a quantized weight that is no part of it and not known to be harmless ("X.smooth_scale",
 * "X.weight_offset"), or is called as the weight and more ("X_perm").
 */
static int check_neighbor(const struct mapping *m, const struct ckpt_quant_entry *e,
			  struct ckpt_error *err)
{
	const char *dot = memrchr(e->key, '.', e->key_len);
	uint32_t front = dot ? (uint32_t)(dot - e->key) : 0, at, other;
	bool found = false, is_of_activations = false;
	char shown[200];
	int rc = 0;

	if ((e->group && !is_nothing(e->group)) || e->dropped)
		return 0;
	for (size_t i = 0; i < ckpt_quant_format_count; i++) {
		const struct ckpt_quant_suffix *s = suffix_of(&ckpt_quant_formats[i], e, &other);

		is_of_activations |= s && s->role == CKPT_PART_ACTIVATIONS;
	}
	at = dot ? front + 1 : 0;
	if (!is_of_activations) { /* those of the module itself are left out */
		found = !is_harmless(e->key + at, e->key_len - at) && has_module(m, e->key, front, err, &rc);
		if (rc == 0 && !found)
			found = is_of_quantizer(m, e, front, err, &rc);
	}
	if (rc == 0 && !found)
		found = is_inside(m, e, front, err, &rc);
	for (; rc == 0 && !found && !is_of_activations && at < e->key_len; at++)
		found = e->key[at] == '_' && at + 1 < e->key_len &&
			!is_harmless(e->key + at + 1, e->key_len - at - 1) &&
			(has_weight(m, e->key, at) ||
			 (is_between_underscores(e->key, at + 1) && has_weight(m, e->key, at + 1)));
	return found ? ckpt_fail(
			       err, CKPT_E_UNSUPPORTED,
			       "'%s' stands beside a quantized weight, and ckpt does not know how it changes that",
			       ckpt_escape(shown, sizeof(shown), e->t->name, strlen(e->t->name)))
		     : rc;
}

/* "k_scale" and its like, of an attention whose parts are quantized, not itself. */
static bool is_of_cache(const char *suffix)
{
	return !strcmp(suffix, ".k_scale") || !strcmp(suffix, ".v_scale") ||
	       !strcmp(suffix, ".q_scale");
}

/*
 * Is E, a scale of a cache with the first FRONT bytes of its key in front, of an attention in a block with quantized weights,
 * or does the configuration say that caches are quantized? A tensor of another meaning may have such a name.
 */
static bool has_cache(const struct mapping *m, const struct ckpt_quant_entry *e, uint32_t front)
{
	const json_t *says = m->q->config.says, *scheme = json_object_get(says, "kv_cache_scheme"),
		     *algo = json_object_get(says, "kv_cache_quant_algo");
	const char *dot = memrchr(e->key, '.', front);
	uint32_t len = dot ? (uint32_t)(dot - e->key) : front;

	if ((scheme && !json_is_null(scheme)) || (algo && !json_is_null(algo)))
		return true;
	for (size_t i = 0; i < m->by_base.count; i++) {
		const struct ckpt_strmap_entry *base = &m->by_base.entries[i];

		if (base->len > len && !memcmp(base->key, e->key, len) && base->key[len] == '.')
			return true;
	}
	return false;
}

/* Scales of activations, beside a quantized weight of whatever format: up to one number for each channel, not a tensor of another meaning. */
static int drop_scales(const struct mapping *m, struct ckpt_quant_entry *e, struct ckpt_error *err)
{
	const struct ckpt_quant_suffix *s = NULL;
	uint32_t front = 0;

	for (size_t i = 0; i < ckpt_quant_format_count && !e->group && (!s || s->role != CKPT_PART_ACTIVATIONS); i++)
		s = suffix_of(&ckpt_quant_formats[i], e, &front);
	if (!s || s->role != CKPT_PART_ACTIVATIONS || e->t->ndim > 1 || !m->by_base.count)
		return 0;
	if (ckpt_strmap_find(&m->by_base, e->key, front) ||
	    (is_of_cache(s->text) && has_cache(m, e, front)))
		return drop(m->q, e, err);
	return 0;
}

static int group_mapping(struct ckpt_quant *q, uint32_t from, uint32_t to, struct ckpt_error *err)
{
	struct mapping m = { .q = q, .from = from, .to = to };
	uint32_t first = q->group_count;
	int rc = 0;
	bool there;

	for (uint32_t i = from; rc == 0 && i < to; i++)
		if (!ckpt_strmap_insert(&m.by_key, q->entries[i].key, q->entries[i].key_len, i,
					&there))
			rc = ckpt_fail_nomem(err);
	for (uint32_t i = from; rc == 0 && i < to; i++)
		rc = put_entry(&m, &q->entries[i], err);
	for (uint32_t i = first; rc == 0 && i < q->group_count; i++)
		rc = find_items(&m, q->groups[i], err);
	for (uint32_t i = from; rc == 0 && i < to; i++)
		rc = drop_scales(&m, &q->entries[i], err);
	for (uint32_t i = from; rc == 0 && i < to; i++)
		rc = check_others(&m, &q->entries[i], err);
	for (uint32_t i = from; rc == 0 && m.by_base.count && i < to; i++)
		rc = check_neighbor(&m, &q->entries[i], err);
	ckpt_strmap_clear(&m.by_key);
	ckpt_strmap_clear(&m.by_base);
	return rc;
}

/* ---- whole groups ---- */

static int check_whole(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_quant_entry *any = NULL;
	char shown[200];

	if (g->parts[CKPT_PART_ITEMS].entry && g->parts[CKPT_PART_SCALES].entry)
		return 0;
	for (int r = 0; r < CKPT_PART_ROLES; r++)
		if (g->parts[r].entry && !any)
			any = g->parts[r].entry;
	return ckpt_fail(err, CKPT_E_FORMAT, "'%s' has no %s beside it",
			 ckpt_escape(shown, sizeof(shown), any->t->name, strlen(any->t->name)),
			 g->parts[CKPT_PART_ITEMS].entry ? "scales" : "quantized weight");
}

static int name_result(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_quant_entry *e = g->parts[CKPT_PART_ITEMS].entry;
	size_t name_len = strlen(e->t->name),
	       front = name_len >= e->key_len ? name_len - e->key_len : 0;
	const char *result = g->result + (!g->base_len && g->result[0] == '.');
	struct ckpt_buf key = { 0 }, name = { 0 };
	char shown[200];

	if (memchr(g->base, '\0', g->base_len)) /* keys are counted, names of tensors are not */
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%s' has a zero byte in its name: the plain weight could not be named",
				 ckpt_escape(shown, sizeof(shown), e->t->name, name_len));
	ckpt_buf_add(&key, g->base, g->base_len);
	ckpt_buf_add(&key, result, strlen(result) + 1);
	ckpt_buf_add(&name, e->t->name, front);
	ckpt_buf_add(&name, key.data, key.len);
	if (!key.bad && !name.bad) {
		g->key = ckpt_arena_copy(g->quant->arena, key.data, key.len);
		g->name = ckpt_arena_copy(g->quant->arena, name.data, name.len);
	}
	ckpt_buf_clear(&key);
	ckpt_buf_clear(&name);
	return g->key && g->name ? 0 : ckpt_arena_fail(g->quant->arena, err);
}

/* Of bitsandbytes: a weight of a layer that has no numbers of its own, whatever stands beside it. */
static bool is_bitsandbytes_codes(const struct ckpt_quant *q, const struct ckpt_quant_entry *e)
{
	const char *storage = ckpt_quant_config_text(q->config.says, "bnb_4bit_quant_storage");
	uint32_t front;

	if (!ckpt_quant_ends_as(e, ".weight", &front))
		return false;
	return e->t->dtype == CKPT_DTYPE_INT8 ||
	       (e->t->ndim == 2 && e->t->shape[1] == 1 &&
		(e->t->dtype == CKPT_DTYPE_UINT8 || (storage && !strcmp(storage, ckpt_dtype_name(e->t->dtype)))));
}

/* Names that only codes have. */
static bool is_called_codes(const struct ckpt_quant *q, const struct ckpt_quant_entry *e)
{
	static const char *const names[] = { ".weight_packed", ".qweight", "*qdata" };
	uint32_t front;

	if (q->format && !strcmp(q->format->name, "bitsandbytes") && is_bitsandbytes_codes(q, e))
		return true;

	for (size_t i = 0; ckpt_quant_is_code(e->t->dtype) && i < sizeof(names) / sizeof(names[0]); i++)
		if (ckpt_quant_ends_as(e, names[i], &front))
			return true;
	return false;
}

/* Codes of packages that nothing here knows, by their names: HQQ's and quanto's. */
static const char *package_of(const struct ckpt_quant_entry *e)
{
	uint32_t front;

	if (!ckpt_quant_is_code(e->t->dtype))
		return NULL;
	return ckpt_quant_ends_as(e, ".W_q", &front) ? "HQQ" : ckpt_quant_ends_as(e, ".weight._data", &front) ? "quanto" : NULL;
}

int ckpt_quant_check_called_codes(const struct ckpt_quant *q, struct ckpt_error *err)
{
	char shown[200];

	for (uint32_t i = 0; i < q->entry_count; i++) {
		const struct ckpt_quant_entry *e = &q->entries[i];

		if (!e->group && !e->dropped && package_of(e))
			return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%s' is of %s, which ckpt does not know", ckpt_escape(shown, sizeof(shown), e->t->name, strlen(e->t->name)),
					 package_of(e));
	}

	for (uint32_t i = 0; i < q->entry_count; i++) {
		const struct ckpt_quant_entry *e = &q->entries[i];

		if (!e->group && !e->dropped && is_called_codes(q, e))
			return ckpt_fail(err, CKPT_E_FORMAT, "'%s' has no scales beside it",
					 ckpt_escape(shown, sizeof(shown), e->t->name,
						     strlen(e->t->name)));
	}
	return 0;
}

/* Is E of a dtype that codes of this checkpoint have? Masks and biases of attentions have it, too. */
static bool may_be_codes(const struct ckpt_quant *q, const struct ckpt_quant_entry *e)
{
	static const char *const others[] = { "bias", "mask" };
	uint32_t front;

	if ((e->t->dtype != CKPT_DTYPE_INT8 && e->t->dtype != CKPT_DTYPE_UINT8) || e->t->ndim < 2 || package_of(e))
		return false;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (ckpt_quant_ends_as(e, others[i], &front))
			return false;
	/* of bitsandbytes, both are: is_item() is of no use there, as codes have any dtype */
	if (q->group_count && (q->format->is_item(e->t->dtype) || !strcmp(q->format->name, "bitsandbytes")))
		return true;
	for (uint32_t i = 0; i < q->group_count; i++)
		if (q->groups[i]->parts[CKPT_PART_ITEMS].entry && q->groups[i]->parts[CKPT_PART_ITEMS].entry->t->dtype == e->t->dtype)
			return true;
	return false;
}

static int fail_left_over(const struct ckpt_tensor *t, struct ckpt_error *err)
{
	char shown[200];

	return ckpt_fail(err, CKPT_E_FORMAT, "'%s' is %s and has no scales beside it", ckpt_escape(shown, sizeof(shown), t->name, strlen(t->name)),
			 ckpt_dtype_name(t->dtype));
}

int ckpt_quant_check_left_over(const struct ckpt_quant *q, struct ckpt_error *err)
{
	for (uint32_t i = 0; i < q->entry_count; i++) {
		const struct ckpt_quant_entry *e = &q->entries[i];

		if (!e->group && !e->dropped && (is_small_float(e->t->dtype) || may_be_codes(q, e)))
			return fail_left_over(e->t, err);
	}
	return q->placeless ? fail_left_over(q->placeless, err) : 0;
}

static bool are_of_one_kind(const struct ckpt_quant_group *a, const struct ckpt_quant_group *b)
{
	return a->parts[CKPT_PART_ITEMS].entry->t->dtype == b->parts[CKPT_PART_ITEMS].entry->t->dtype &&
	       !strcmp(a->parts[CKPT_PART_ITEMS].suffix, b->parts[CKPT_PART_ITEMS].suffix);
}

/* An order of columns that a weight lacks, and its like has, may be lost; so may zero points, where no configuration speaks of them. */
static int check_alike(const struct ckpt_quant *q, struct ckpt_error *err)
{
	static const enum ckpt_part_role roles[] = { CKPT_PART_GROUPS, CKPT_PART_ZEROS };
	char shown[200], other[200];

	for (uint32_t i = 1; i < q->group_count; i++) {
		const struct ckpt_quant_group *g = q->groups[i], *first = NULL;

		for (uint32_t k = 0; !first && k < i; k++)
			first = are_of_one_kind(q->groups[k], g) ? q->groups[k] : NULL;
		for (size_t r = 0; first && r < (q->config.says ? 1u : 2u); r++) {
			const struct ckpt_quant_entry *one = g->parts[roles[r]].entry, *its = first->parts[roles[r]].entry;
			const char *lacks = (one ? first : g)->name;

			if (!one == !its)
				continue;
			return ckpt_fail(err, CKPT_E_FORMAT, "'%s' lacks what another weight has with '%s'",
					 ckpt_escape(shown, sizeof(shown), lacks, strlen(lacks)),
					 ckpt_escape(other, sizeof(other), (one ? one : its)->t->name, strlen((one ? one : its)->t->name)));
		}
	}
	return 0;
}

static int fill_all(struct ckpt_quant *q, struct ckpt_error *err)
{
	uint32_t kept = 0;
	int rc = q->group_count ? ckpt_quant_check_left_over(q, err) : 0;

	for (uint32_t i = 0; rc == 0 && i < q->group_count; i++) {
		struct ckpt_quant_group *g = q->groups[i];

		if (is_nothing(g)) {
			for (int r = 0; r < CKPT_PART_ROLES; r++)
				if (g->parts[r].entry)
					g->parts[r].entry->group = NULL;
			continue;
		}
		q->groups[kept++] = g;
		rc = check_whole(g, err);
		g->result = ".weight";
		if (rc == 0)
			rc = q->format->fill(g, err);
		if (rc == 0)
			rc = name_result(g, err);
	}
	q->group_count = kept;
	return rc < 0 || q->format->check_all ? rc : check_alike(q, err);
}

int ckpt_quant_group_all(struct ckpt_quant *q, const struct ckpt_quant_format *format,
		     struct ckpt_error *err)
{
	int rc = 0;

	q->format = format;
	q->group_count = q->dropped_count = 0;
	for (uint32_t i = 0; i < q->entry_count; i++) {
		q->entries[i].group = NULL;
		q->entries[i].dropped = false;
	}
	for (uint32_t from = 0, to; rc == 0 && from < q->entry_count; from = to) {
		for (to = from;
		     to < q->entry_count && q->entries[to].holder == q->entries[from].holder; to++)
			;
		rc = group_mapping(q, from, to, err);
	}
	return rc;
}

int ckpt_quant_try(struct ckpt_quant *q, const struct ckpt_quant_format *format,
		      struct ckpt_error *err)
{
	int rc = ckpt_quant_group_all(q, format, err);

	if (rc == 0)
		rc = fill_all(q, err);
	return rc == 0 && format->check_all ? format->check_all(q, err) : rc;
}
