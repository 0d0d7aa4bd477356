/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors are the parts of quantized weights. The configuration, or the caller, says the format; a
 * format has its own names of parts (formats.c). Every tensor whose name ends as a part's does is put
 * into the group of its front; then each group has to be whole, and its format proves that dtypes and
 * shapes fit. What says to be a part and is in no group is an error: somebody would take the numbers
 * without their scales for weights.
 *
 * Without a configuration names, dtypes and shapes decide, if they fit one format only.
 */
#include "quant/fill.h"
#include "quant/keep.h"

#include "base/flags.h"
#include "base/grow.h"
#include "base/sized.h"
#include "base/text.h"
#include "model/walk.h"
#include "tensor/cast.h"
#include "tensor/shape.h"

#include <inttypes.h>
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
	if (step->seen || !ckpt_walk_is_entry(step, &e.holder, &e.at))
		return CKPT_WALK_SKIP;
	pairs = ckpt_value_pairs(e.holder);
	key = pairs ? ckpt_model_now(q->model, pairs->items[e.at]) : NULL;
	if (!key || !ckpt_value_is_text(key) || key->u.bytes.len > UINT32_MAX)
		return CKPT_WALK_SKIP;
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

/* ---- groups ---- */

static bool is_code(enum ckpt_dtype dtype)
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

/* Does its key end with SUFFIX, whose dot is missing where nothing is in front of it? */
static bool ends_as(const struct ckpt_quant_entry *e, const char *suffix, uint32_t *front)
{
	size_t len = strlen(suffix);

	*front = 0;
	if (suffix[0] == '.' && e->key_len == len - 1 && !memcmp(e->key, suffix + 1, len - 1))
		return true;
	if (!len || e->key_len <= len || memcmp(e->key + e->key_len - len, suffix, len) != 0)
		return false;
	*front = e->key_len - (uint32_t)len;
	return true;
}

static const struct ckpt_quant_suffix *suffix_of(const struct ckpt_quant_format *format,
						 const struct ckpt_quant_entry *e, uint32_t *front)
{
	const struct ckpt_quant_suffix *found = NULL;
	uint32_t at;

	for (const struct ckpt_quant_suffix *s = format->suffixes; s->text; s++)
		if (ends_as(e, s->text, &at) && (!found || strlen(s->text) > strlen(found->text))) {
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
		ckpt_buf_add(&key, g->base, g->base_len);
		ckpt_buf_add(&key, s->text + (!g->base_len && *s->text == '.'),
			     strlen(s->text) - (!g->base_len && *s->text == '.'));
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

/* NAME of LEN bytes, beside a quantized weight, is one of what its package may have done to it more than anybody here knows. */
static bool changes_meaning(const char *name, uint32_t len)
{
	static const char *const words[] = { "scale", "zero", "perm",	  "mask",    "hadamard", "rotat",
					     "smooth", "idx",  "codebook", "outlier", "quant" };
	static const char *const harmless[] = { "logit_scale", "weight_amax", "input_amax" };

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (len == strlen(harmless[i]) && !memcmp(name, harmless[i], len))
			return false;
	if ((len >= 4 && !memcmp(name + len - 4, "bias", 4)) || (len > 4 && !memcmp(name, "lora", 4)))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (memmem(name, len, words[i], strlen(words[i])))
			return true;
	return false;
}

/* A tensor "X.smooth_scale" or "X_perm" beside the quantized weight X, which no part of it is. */
static int check_neighbor(const struct mapping *m, const struct ckpt_quant_entry *e,
			  struct ckpt_error *err)
{
	const char *dot = memrchr(e->key, '.', e->key_len);
	uint32_t front = dot ? (uint32_t)(dot - e->key) : 0, at, other;
	bool found = false;
	char shown[200];

	if (e->group || e->dropped)
		return 0;
	for (size_t i = 0; i < ckpt_quant_format_count; i++) {
		const struct ckpt_quant_suffix *s = suffix_of(&ckpt_quant_formats[i], e, &other);

		if (s && s->role == CKPT_PART_ACTIVATIONS)
			return 0;
	}
	at = dot ? front + 1 : 0;
	found = changes_meaning(e->key + at, e->key_len - at) && has_weight(m, e->key, front);
	for (; !found && at < e->key_len; at++)
		found = e->key[at] == '_' && at + 1 < e->key_len &&
			changes_meaning(e->key + at + 1, e->key_len - at - 1) &&
			has_weight(m, e->key, at);
	return found ? ckpt_fail(
			       err, CKPT_E_UNSUPPORTED,
			       "'%s' stands beside a quantized weight, and ckpt does not know how it changes that",
			       ckpt_escape(shown, sizeof(shown), e->t->name, strlen(e->t->name)))
		     : 0;
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

/* Scales of activations, beside a quantized weight: up to one number for each channel, not a tensor of another meaning. */
static int drop_scales(const struct mapping *m, struct ckpt_quant_entry *e, struct ckpt_error *err)
{
	const struct ckpt_quant_suffix *s;
	uint32_t front = 0;

	s = e->group ? NULL : suffix_of(m->q->format, e, &front);
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

static bool is_nothing(const struct ckpt_quant_group *g)
{
	const struct ckpt_tensor *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);

	return g->quant->format->is_loose && !g->parts[CKPT_PART_ITEMS].entry && scales &&
	       !strcmp(g->parts[CKPT_PART_SCALES].suffix, ".scale") &&
	       scales->dtype != CKPT_DTYPE_FLOAT8_E8M0FNU;
}

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

/* Names that only codes have. */
static bool is_called_codes(const struct ckpt_quant_entry *e)
{
	static const char *const names[] = { ".weight_packed", ".qweight", "._weight_qdata" };
	uint32_t front;

	for (size_t i = 0; is_code(e->t->dtype) && i < sizeof(names) / sizeof(names[0]); i++)
		if (ends_as(e, names[i], &front))
			return true;
	return false;
}

static int check_called_codes(const struct ckpt_quant *q, struct ckpt_error *err)
{
	char shown[200];

	for (uint32_t i = 0; i < q->entry_count; i++) {
		const struct ckpt_quant_entry *e = &q->entries[i];

		if (!e->group && !e->dropped && is_called_codes(e))
			return ckpt_fail(err, CKPT_E_FORMAT, "'%s' has no scales beside it",
					 ckpt_escape(shown, sizeof(shown), e->t->name,
						     strlen(e->t->name)));
	}
	return 0;
}

/* Numbers of 8 bits and fewer, without scales. */
static int check_left_over(const struct ckpt_quant *q, struct ckpt_error *err)
{
	char shown[200];

	for (uint32_t i = 0; i < q->entry_count; i++) {
		const struct ckpt_quant_entry *e = &q->entries[i];

		if (!e->group && !e->dropped && ckpt_dtype_size(e->t->dtype) == 1 &&
		    (ckpt_dtype_is_floating(e->t->dtype) ||
		     e->t->dtype == CKPT_DTYPE_FLOAT4_E2M1FN_X2))
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "'%s' is %s and has no scales beside it",
					 ckpt_escape(shown, sizeof(shown), e->t->name,
						     strlen(e->t->name)),
					 ckpt_dtype_name(e->t->dtype));
	}
	return 0;
}

static int fill_all(struct ckpt_quant *q, struct ckpt_error *err)
{
	uint32_t kept = 0;
	int rc = q->group_count ? check_left_over(q, err) : 0;

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
	return rc;
}

/* ---- one format, or the one that fits ---- */

static int group_all(struct ckpt_quant *q, const struct ckpt_quant_format *format,
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

static int try_format(struct ckpt_quant *q, const struct ckpt_quant_format *format,
		      struct ckpt_error *err)
{
	int rc = group_all(q, format, err);

	if (rc == 0)
		rc = fill_all(q, err);
	return rc == 0 && format->check_all ? format->check_all(q, err) : rc;
}

static const struct ckpt_quant_format *find_format(const char *name)
{
	for (size_t i = 0; i < ckpt_quant_format_count; i++)
		if (!strcmp(ckpt_quant_formats[i].name, name))
			return &ckpt_quant_formats[i];
	return NULL;
}

static int pass_on(struct ckpt_error *err, const struct ckpt_error *why, int rc)
{
	if (err)
		*err = *why;
	return rc;
}

/* Nothing says the format: one that fits, and no other does. */
static int guess_none(struct ckpt_quant *q, struct ckpt_error *err)
{
	const struct ckpt_quant_format *fits = NULL, *nearly = NULL;
	struct ckpt_error why = { 0 };
	int rc, failed = 0;

	for (size_t i = 0; i < ckpt_quant_format_count; i++) {
		struct ckpt_error now = { 0 };

		rc = try_format(q, &ckpt_quant_formats[i], &now);
		if (rc == CKPT_E_NOMEM || rc == CKPT_E_IO)
			return pass_on(err, &now, rc);
		if (rc < 0 && !nearly) {
			nearly = &ckpt_quant_formats[i];
			why = now;
			failed = rc;
		}
		if (rc < 0 || !q->group_count)
			continue;
		if (fits)
			return ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"'%.200s' can be read as %s or as %s, and there is no config.json that says which",
				q->groups[0]->name, fits->name, ckpt_quant_formats[i].name);
		fits = &ckpt_quant_formats[i];
	}
	if (fits)
		return try_format(q, fits, err);
	if (nearly)
		return pass_on(err, &why, failed);
	return ckpt_fail(err, CKPT_E_NOTFOUND,
			 "no weight is quantized, as far as names and dtypes tell");
}

static int choose(struct ckpt_quant *q, const char *as, struct ckpt_error *err)
{
	const char *name = as ? as : q->config.says ? q->config.format : NULL;
	const struct ckpt_quant_format *format = name ? find_format(name) : NULL;
	int rc;
	char shown[100];

	if (!name)
		return guess_none(q, err);
	if (!format && as)
		return ckpt_fail(err, CKPT_E_ARG, "there is no format of quantized weights '%s'",
				 ckpt_escape(shown, sizeof(shown), as, strlen(as)));
	if (!format)
		return ckpt_error_at(
			err,
			ckpt_fail(err, CKPT_E_UNSUPPORTED,
				  "the weights are quantized by '%s', which ckpt does not know",
				  q->config.method),
			q->config.path, NULL, CKPT_NO_OFFSET);
	rc = try_format(q, format, err);
	if (rc == 0 && !q->group_count)
		rc = ckpt_fail(err, CKPT_E_NOTFOUND, "no weight is quantized as %s has it",
			       format->name);
	return rc;
}

/* Weights of parts, and tensors that are quantized on their own: either may be all that there is. */
static int choose_all(struct ckpt_quant *q, const char *as, struct ckpt_error *err)
{
	struct ckpt_error why = { 0 };
	int found = choose(q, as, &why), rc;

	if (found < 0 && found != CKPT_E_NOTFOUND)
		return pass_on(err, &why, found);
	rc = ckpt_quant_check_others(q, err);
	if (rc == 0 && found < 0 && q->config.says && !as)
		rc = check_left_over(q, err);
	if (rc == 0 && (found == 0 || q->config.says))
		rc = check_called_codes(q, err);
	if (rc < 0)
		return rc;
	if (found == 0 && !as) {
		rc = ckpt_quant_check_modules(q, err);
		if (rc < 0)
			return rc;
	}
	if (found < 0)
		q->group_count = q->dropped_count = q->stale_count = 0;
	if (q->parts_only)
		return found == 0 ? 0 : pass_on(err, &why, found);
	rc = ckpt_quant_add_tensors(q, err);
	if (rc == 0 && !q->group_count)
		return pass_on(err, &why, found);
	if (rc == 0 && found < 0)
		q->format = find_format(q->has_wrappers ? "torchao"
					: q->has_engine ? "transformer-engine"
							: "torch");
	return rc;
}

/* Is there a tensor of a dtype that items of some format have? A look at names takes much longer. */
static bool may_have_items(const struct ckpt_model *model)
{
	for (uint32_t i = 0; i < model->tensor_count; i++)
		if (is_code(model->tensors[i].dtype))
			return true;
	return false;
}

/* ALWAYS: something says that weights are quantized, and scales alone have to be seen, too. */
static int collect(struct ckpt_quant *q, bool always, struct ckpt_error *err)
{
	int rc = ckpt_model_has_tensors(q->model) ? 0 : ckpt_fail_nomem(err);

	if (rc == 0)
		rc = always || may_have_items(q->model) ? ckpt_model_walk(q->model, add_entry, q, err) : 0;
	if (rc == 0 && q->entry_count)
		qsort(q->entries, q->entry_count, sizeof(*q->entries), by_holder);
	return rc;
}

/* Who says the format needs no file, and one that cannot be read is none. */
static int find_config(const struct ckpt_model *model, const char *as,
		       struct ckpt_quant_config *out, struct ckpt_error *err)
{
	struct ckpt_error why = { 0 };
	int rc = ckpt_quant_config_find(model, out, &why);

	if (rc < 0 && as && rc != CKPT_E_NOMEM)
		return 0;
	return rc < 0 ? pass_on(err, &why, rc) : rc;
}

static int new_finder(const struct ckpt_model *model, enum ckpt_dtype to, struct ckpt_quant **out,
		      struct ckpt_error *err)
{
	struct ckpt_quant *q = calloc(1, sizeof(*q));

	if (q)
		q->arena = ckpt_arena_new(CKPT_MODEL_BUDGET_BASE + 8192 * (uint64_t)model->next_id);
	if (!q || !q->arena) {
		free(q);
		return ckpt_fail_nomem(err);
	}
	q->model = model;
	q->to = to;
	*out = q;
	return 0;
}

int ckpt_quant_find(const struct ckpt_model *model, const struct ckpt_quant_options *options,
		    enum ckpt_dtype to, struct ckpt_quant **out, struct ckpt_error *err)
{
	struct ckpt_quant_options o = CKPT_QUANT_OPTIONS_INIT;
	struct ckpt_quant *q = NULL;
	int rc = ckpt_sized_take(&o, sizeof(o), options, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_flags_check(o.flags, 0, err);
	if (rc == 0)
		rc = ckpt_unused_check(&o.reserved, sizeof(o.reserved), err);
	if (rc == 0)
		rc = ckpt_model_whole(&model, err);
	if (rc == 0)
		rc = new_finder(model, to, &q, err);
	if (rc < 0)
		return rc;
	if (o.config)
		rc = ckpt_quant_config_parse(o.config, o.config_len, &q->config, err);
	else
		rc = find_config(model, o.as, &q->config, err);
	if (rc == 0)
		rc = collect(q, o.as || q->config.says, err);
	if (rc == 0)
		rc = choose_all(q, o.as, err);
	if (rc < 0)
		ckpt_quant_close(q);
	else
		*out = q;
	return rc;
}

/* ---- what a cast leaves ---- */

static bool has_codes(const struct ckpt_quant_group *g)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS);

	for (int r = CKPT_PART_ITEMS + 1; items && is_code(items->dtype) && r < CKPT_PART_ROLES;
	     r++)
		if (g->parts[r].entry)
			return true;
	return false;
}

/*
 * Nothing says a format, and none fits. Do names say that something is quantized all the same? Codes, and beside them what a
 * format calls a scale or the like; or metadata that say the classes of tensors. Codes alone are numbers: a cast to float8 made
 * them.
 */
static bool names_say(struct ckpt_quant *q)
{
	for (size_t i = 0; i < ckpt_quant_format_count; i++) {
		const struct ckpt_quant_format *format = &ckpt_quant_formats[i];

		if (group_all(q, format, NULL) < 0)
			return true;
		for (uint32_t k = 0; k < q->group_count; k++)
			if (has_codes(q->groups[k]))
				return true;
		if (format->check_all && format->check_all(q, NULL) < 0 && q->stale_count)
			return true;
	}
	return false;
}

/* Is anything called as what stands beside codes? Without a configuration nothing is quantized otherwise, and this takes no time. */
static bool has_names_of_parts(const struct ckpt_quant *q)
{
	uint32_t front;

	for (uint32_t i = 0; i < q->entry_count; i++)
		for (size_t k = 0; k < ckpt_quant_format_count; k++)
			for (const struct ckpt_quant_suffix *s = ckpt_quant_formats[k].suffixes; s->text;
			     s++)
				if (s->role != CKPT_PART_ITEMS && q->entries[i].key_len &&
				    q->entries[i].key[q->entries[i].key_len - 1] ==
					    s->text[strlen(s->text) - 1] &&
				    ends_as(&q->entries[i], s->text, &front))
					return true;
	return false;
}

static int keep_entries(const struct ckpt_quant *q, struct ckpt_kept *kept, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < q->entry_count; i++)
		if (q->entries[i].group || q->entries[i].dropped)
			rc = ckpt_kept_add(kept, q->entries[i].t, err);
	ckpt_kept_sort(kept);
	return rc;
}

/* A configuration that cannot be read says nothing; if something is quantized all the same, it is what is wrong. */
static int find_parts(struct ckpt_quant *q, const char *as, struct ckpt_kept *kept,
		      struct ckpt_error *err)
{
	struct ckpt_error config = { 0 }, why = { 0 };
	int no_config = find_config(q->model, as, &q->config, &config), rc;

	if (no_config == CKPT_E_NOMEM)
		return pass_on(err, &config, no_config);
	rc = collect(q, as || q->config.says, err);
	if (rc < 0)
		return rc;
	if (!as && !q->config.says && !has_names_of_parts(q))
		return 0;
	q->parts_only = true;
	rc = choose_all(q, as, &why);
	if (rc == CKPT_E_NOTFOUND ||
	    ((rc == CKPT_E_FORMAT || rc == CKPT_E_UNSUPPORTED || rc == CKPT_E_CLASH) && !as &&
	     !q->config.says && !names_say(q)))
		return 0;
	if (no_config < 0)
		return ckpt_error_because(err, pass_on(err, &config, no_config),
					  CKPT_REASON_QUANTIZED);
	if (rc == CKPT_E_FORMAT || rc == CKPT_E_UNSUPPORTED)
		return ckpt_error_because(err, pass_on(err, &why, rc), CKPT_REASON_QUANTIZED);
	return rc < 0 ? pass_on(err, &why, rc) : keep_entries(q, kept, err);
}

int ckpt_quant_keep_parts(const struct ckpt_model *model, const char *as, struct ckpt_kept *kept,
			  struct ckpt_error *err)
{
	struct ckpt_quant *q = NULL;
	int rc;

	*kept = (struct ckpt_kept){ 0 };
	if (as && !strcmp(as, "plain"))
		return 0;
	rc = new_finder(model, CKPT_DTYPE_BFLOAT16, &q, err);
	if (rc < 0)
		return rc;
	rc = find_parts(q, as, kept, err);
	ckpt_quant_close(q);
	return rc;
}

int ckpt_quant_open(const struct ckpt_model *model, const struct ckpt_quant_options *options,
		    struct ckpt_quant **out, struct ckpt_error *err)
{
	return ckpt_quant_find(model, options, CKPT_DTYPE_BFLOAT16, out, err);
}

void ckpt_quant_close(struct ckpt_quant *q)
{
	if (!q)
		return;
	ckpt_quant_config_clear(&q->config);
	ckpt_arena_free(q->arena);
	for (uint32_t i = 0; i < q->array_count; i++)
		ckpt_array_close(q->arrays[i]);
	free(q->arrays);
	free(q->entries);
	free(q->groups);
	ckpt_strmap_clear(&q->metadata);
	free(q->dropped);
	free(q);
}

const char *ckpt_quant_format(const struct ckpt_quant *q)
{
	return q->format->name;
}

uint64_t ckpt_quant_count(const struct ckpt_quant *q)
{
	return q->group_count;
}

int ckpt_quant_get(const struct ckpt_quant *q, uint64_t i, struct ckpt_quant_weight_info *info)
{
	const struct ckpt_quant_group *g;
	struct ckpt_quant_weight_info local;

	if (i >= q->group_count || ckpt_sized_check(info, sizeof(local), NULL) < 0)
		return CKPT_E_ARG;
	g = q->groups[i];
	local = (struct ckpt_quant_weight_info){
		.size = sizeof(local),
		.name = g->name,
		.scheme = g->scheme,
		.shape = g->shape,
		.ndim = g->ndim,
		.numel = ckpt_shape_count(g->shape, g->ndim),
		.items = g->listed  ? g->listed
			 : g->whole ? g->whole->name
				    : ckpt_quant_tensor(g, CKPT_PART_ITEMS)->name
	};

	for (int r = 0; r < CKPT_PART_ROLES; r++)
		if (g->parts[r].entry) {
			const struct ckpt_tensor *t = g->parts[r].entry->t;
			uint64_t packed = ckpt_dtype_packed(t->dtype),
				 numel = ckpt_shape_count(t->shape, t->ndim);

			local.parts++;
			local.nbytes += (numel / packed + (numel % packed != 0)) *
					ckpt_dtype_size(t->dtype);
		}
	if (g->whole && !g->listed) /* its parts are inside of it */
		local.parts = 1;
	ckpt_sized_give(info, &local, sizeof(local));
	return 0;
}

uint64_t ckpt_quant_dropped_count(const struct ckpt_quant *q)
{
	return q->dropped_count;
}

const char *ckpt_quant_dropped(const struct ckpt_quant *q, uint64_t i)
{
	return q->dropped[i];
}
