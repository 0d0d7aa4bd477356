/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One level for each mapping around the current value that has telling keys. A level is a map
 * from what stands in front of such a key ("" or "optimizer.") to what the key tells.
 *
 * A value whose key says "optimizer" is looked into before the walk enters it, since what tells may come
 * behind what it tells of.
 *
 * What must stay true: levels are those of mappings that the walk is inside of, innermost last;
 * what is in front of a key is a part of that key, whose bytes outlive the walk; and all looks ahead of
 * one walk together see at most MOST_PEEKED entries, however often a file holds the same value.
 */
#include "model/optimizers.h"

#include "base/ascii.h"
#include "base/grow.h"
#include "base/strmap.h"

#include <stdlib.h>
#include <string.h>

enum {
	HAS_GROUPS = 1,	 /* "state" and "param_groups" behind it are an optimizer's */
	ALL = 2,	 /* and so is everything behind it */
	HAS_STEP = 4,	 /* a counter, ... */
	HAS_KEPT = 8,	 /* ... what some optimizers keep beside it, ... */
	HAS_OTHER = 16,	 /* ... and what none of these does */
	NAMED = 32,	 /* a key says "optimizer", and there is one behind it: all of it is, ... */
	HAS_MODEL = 64,	 /* ... unless this may be a model's weights */
	MOST_PARTS = 64, /* of a name that are looked at: a hostile one has very many dots */
	MOST_LEVELS = 16, /* optimizers inside of each other: every value is held against all */
	MOST_PEEKED = 1 << 20,
	PEEK_DEPTH = 6 /* optimizers, its name, state, a parameter, exp_avg: and one more */
};

struct ckpt_optimizers_level {
	size_t depth;
	size_t below; /* where the keys begin in the names of what is inside */
	struct ckpt_strmap told;
};

/*
 * Sources: torch/optim (adam, adamw, sgd, rmsprop, adadelta, adamax, nadam, lbfgs) and Adafactor of
 * transformers: words that are no names of weights.
 */
static const char *const slots[] = {
	"exp_avg",	   "exp_avg_sq", "max_exp_avg_sq", "exp_avg_sq_row", "exp_avg_sq_col",
	"momentum_buffer", "square_avg", "acc_delta",	   "exp_inf",
	"old_dirs",	   "old_stps",	 "prev_flat_grad",
};

/*
 * What they keep beside a "step": words that are names of weights elsewhere, so that a mapping has
 * to have a step, one of them, and nothing else. Sources: torch/optim (adagrad, rprop, asgd, radam,
 * _adafactor, _muon).
 */
static const char *const kept[] = { "sum", "prev", "step_size", "eta", "mu", "ax", "row_var", "col_var", "variance" };

/*
 * Sources: runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py, runtime/bf16_optimizer.py and
 * runtime/fp16/fused_optimizer.py of DeepSpeed; optimizer/optimizer.py of Megatron-LM;
 * apex/fp16_utils/fp16_optimizer.py.
 */
static const char *const wholes[] = {
	"base_optimizer_state", "single_partition_of_fp32_groups", "fp32_flat_groups",
	"fp32_groups_flat",	"fp32_from_fp16_params",	   "fp32_from_fp16",
};

/* As a model is called, where a mapping is under it. */
static const char *const models[] = {
	"model", "models", "module", "modules", "net", "network", "state_dict", "model_state_dict",
	"weights", "params", "parameters", "ema", "model_ema",
};

/* What has an entry for each weight, by its name, and is no model. */
static const char *const moments[] = {
	"state", "states", "moments", "moment", "momentum", "velocity", "m", "v", "mu", "nu",
	"first_moment", "second_moment", "first_moments", "second_moments", "slow_state",
	"master_params", "master_weights", "fp32_params", "fp32_weights", "fp32_param",
	"grads", "gradients", "accumulators", "preconditioners",
};

void ckpt_optimizers_clear(struct ckpt_optimizers *o)
{
	for (uint32_t i = 0; i < o->count; i++)
		ckpt_strmap_clear(&o->levels[i].told);
	free(o->levels);
	*o = (struct ckpt_optimizers){ 0 };
}

static bool is_one_of(const char *word, size_t len, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (len == strlen(words[i]) && !memcmp(word, words[i], len))
			return true;
	return false;
}

static bool note(struct ckpt_strmap *told, const char *key, size_t len, uint64_t what)
{
	bool was_there;
	uint64_t *value = ckpt_strmap_insert(told, key, len, what, &was_there);

	if (value)
		*value |= what;
	return value;
}

/* Does NAME begin with WORD, as a whole part of it? */
static bool begins_with(const char *name, size_t len, const char *word)
{
	size_t n = strlen(word);

	return len >= n && !memcmp(name, word, n) && (len == n || name[n] == '.');
}

static bool is_whole_or_slot(const char *word, size_t len)
{
	return is_one_of(word, len, slots, sizeof(slots) / sizeof(slots[0])) || is_one_of(word, len, wholes, sizeof(wholes) / sizeof(wholes[0]));
}

/* Where the last part of KEY begins. */
static size_t last_part(const char *key, size_t len)
{
	const char *dot = len ? memrchr(key, '.', len) : NULL;

	return dot ? (size_t)(dot - key) + 1 : 0;
}

static bool is_model_word(const char *word, size_t len)
{
	return is_one_of(word, len, models, sizeof(models) / sizeof(models[0]));
}

static bool is_moment_word(const char *word, size_t len)
{
	return is_whole_or_slot(word, len) || is_one_of(word, len, moments, sizeof(moments) / sizeof(moments[0]));
}

/* Is WORD in TEXT, in letters of any size? ALONE: with no letter before and behind it. */
static bool has_word(const char *text, size_t len, const char *word, bool alone)
{
	size_t n = strlen(word);

	for (size_t at = 0; at + n <= len; at++)
		if (ckpt_to_lower((unsigned char)text[at]) == word[0] && !ckpt_strncasecmp(text + at, word, n) &&
		    (!alone || ((!at || !ckpt_is_alpha((unsigned char)text[at - 1])) &&
				(at + n == len || !ckpt_is_alpha((unsigned char)text[at + n])))))
			return true;
	return false;
}

/* One part of a name: "optimizer", "optimizer_states", "optimizerG", "d_optim" ... */
static bool says_optimizer(const char *part, size_t len)
{
	return has_word(part, len, "opt", false) &&
	       (has_word(part, len, "optimizer", false) || has_word(part, len, "optimiser", false) ||
		has_word(part, len, "optim", true) || has_word(part, len, "optims", true) ||
		has_word(part, len, "opt", true));
}

/* Would a model have a tensor of that name? A part of the name. */
static bool says_weight(const char *part, size_t len)
{
	return (has_word(part, len, "weight", false) || has_word(part, len, "bias", false) ||
		has_word(part, len, "running", true)) &&
	       !has_word(part, len, "decay", false);
}

/* Something that may be a tensor. */
static bool is_object(const struct ckpt_value *v)
{
	return (v->kind == CKPT_CALL && !ckpt_value_pairs(v)) || v->kind == CKPT_FOLDED || v->kind == CKPT_PERSID;
}

static bool is_step(const char *word, size_t len)
{
	return len == 4 && !memcmp(word, "step", 4);
}

/*
 * What KEY tells. False: no memory. Such a word inside of a flat key (optimizer.state.exp_avg.decoder.weight,
 * of Megatron) tells what is in front of it; if that is nothing, only what begins with the word.
 */
static bool read_key(struct ckpt_strmap *told, const char *key, size_t len)
{
	size_t last = last_part(key, len), at = 0;

	if (is_whole_or_slot(key + last, len - last))
		return note(told, key, last, ALL);
	for (int parts = 0; parts < MOST_PARTS; parts++) {
		const char *dot = memchr(key + at, '.', len - at);

		if (begins_with(key + at, len - at, "param_groups"))
			return note(told, key, at, HAS_GROUPS);
		if (!dot)
			break;
		if (is_whole_or_slot(key + at, (size_t)(dot - key) - at))
			return note(told, key, at ? at : (size_t)(dot - key) + 1, ALL);
		at = (size_t)(dot - key) + 1;
	}
	return true;
}

/*
 * Of a flat key with a part that says optimizer: is there one behind it, or what may be a model's? False: no
 * memory.
 */
static bool read_named_key(struct ckpt_strmap *told, const char *key, size_t len, const struct ckpt_value *value)
{
	size_t at = 0, named = 0, first = 0;
	bool has_moment = false, has_optimizer = false;

	if (!has_word(key, len, "opt", false))
		return true;
	for (int parts = 0; parts < MOST_PARTS; parts++) {
		const char *dot = memchr(key + at, '.', len - at);
		size_t n = dot ? (size_t)(dot - key) - at : len - at;

		if (named) {
			has_optimizer |= is_whole_or_slot(key + at, n) || begins_with(key + at, n, "param_groups");
			has_moment |= is_moment_word(key + at, n);
		} else if (dot && says_optimizer(key + at, n)) {
			named = first = at + n + 1;
		}
		if (!dot)
			break;
		at += n + 1;
	}
	if (!named)
		return true;
	if (has_optimizer)
		return note(told, key, named, NAMED);
	while (first < len && key[first] != '.')
		first++;
	at = last_part(key, len);
	if ((first < len || !is_object(value)) && is_model_word(key + named, first - named))
		return note(told, key, named, HAS_MODEL);
	return has_moment || !is_object(value) || !says_weight(key + at, len - at) || note(told, key, named, HAS_MODEL);
}

/* Of a mapping with a "step": does KEY belong beside it? False: no memory. */
static bool read_key_beside_step(struct ckpt_strmap *told, const char *key, size_t len)
{
	size_t last = last_part(key, len);
	uint64_t what = HAS_OTHER;

	if (is_step(key + last, len - last))
		what = HAS_STEP;
	else if (is_one_of(key + last, len - last, kept, sizeof(kept) / sizeof(kept[0])))
		what = HAS_KEPT;
	return note(told, key, last, what);
}

/* Of a mapping, or the attributes of an object: an optimizer that was saved whole. */
static const struct ckpt_seq *pairs_of(const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);
	const struct ckpt_value *state = !pairs && v->kind == CKPT_CALL ? v->u.call->state : NULL;

	return state && state->kind == CKPT_DICT ? &state->u.seq : pairs;
}

/* ---- ahead of the walk ---- */

struct peek {
	struct ckpt_optimizers *optimizers; /* counts */
	bool has_optimizer, has_model;	    /* MODEL: it may be, or there is too much to know */
};

static void peek_into(struct peek *p, const struct ckpt_value *v, const char *key, size_t key_len, int depth);

/* The entries of a mapping under KEY. */
static void peek_into_pairs(struct peek *p, const struct ckpt_seq *pairs, const char *key, size_t key_len, int depth)
{
	bool has_groups = false;

	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *k = pairs->items[i];
		const char *text = ckpt_value_is_text(k) ? k->u.bytes.ptr : NULL;
		size_t len = text ? k->u.bytes.len : 0, last = last_part(text, len);

		p->has_model |= ++p->optimizers->peeked >= MOST_PEEKED || (text && len == 11 && !memcmp(text, "_parameters", 11));
		if (p->has_model)
			return;
		if (text && is_whole_or_slot(text + last, len - last)) {
			p->has_optimizer = true;
			if (!last)
				return; /* all of it is one's */
		}
		has_groups |= text && begins_with(text + last, len - last, "param_groups");
	}
	p->has_optimizer |= has_groups;
	for (uint32_t i = 0; !p->has_model && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *k = pairs->items[i], *value = pairs->items[i + 1];
		const char *text = ckpt_value_is_text(k) ? k->u.bytes.ptr : "";
		size_t len = ckpt_value_is_text(k) ? k->u.bytes.len : 0, last = last_part(text, len);

		if (has_groups && (begins_with(text, len, "state") || begins_with(text, len, "param_groups")))
			continue;
		if (is_object(value) && says_weight(text + last, len - last) && !is_moment_word(key, key_len))
			p->has_model = true;
		if (is_model_word(text, len) && pairs_of(value)) {
			struct peek below = { p->optimizers, false, false };

			/* state_dict may be the optimizer's */
			peek_into(&below, value, text, len, depth - 1);
			p->has_model |= below.has_model || !below.has_optimizer;
			p->has_optimizer |= below.has_optimizer;
			continue;
		}
		peek_into(p, value, text, len, depth - 1);
	}
}

/* What V, which stands under KEY, has in it. Goes DEPTH deep at most. */
static void peek_into(struct peek *p, const struct ckpt_value *v, const char *key, size_t key_len, int depth)
{
	const struct ckpt_seq *pairs = pairs_of(v);

	if (!pairs && v->kind != CKPT_LIST && v->kind != CKPT_TUPLE)
		return;
	if (!depth) {
		p->has_model = true;
	} else if (pairs) {
		peek_into_pairs(p, pairs, key, key_len, depth);
		return;
	}
	for (uint32_t i = 0; !p->has_model && i < v->u.seq.count; i++) {
		p->has_model = ++p->optimizers->peeked >= MOST_PEEKED;
		peek_into(p, v->u.seq.items[i], key, key_len, depth - 1);
	}
}

/* Is all of the value an optimizer's, by its key and what is in it? */
static bool is_named_optimizer(struct ckpt_optimizers *o, const struct ckpt_walk_step *step)
{
	size_t last = last_part(step->name, step->name_len);
	struct peek peek = { o, false, false };
	bool is_list = step->value->kind == CKPT_LIST || step->value->kind == CKPT_TUPLE;

	if (!is_list && !pairs_of(step->value))
		return false;
	if (!says_optimizer(step->name + last, step->name_len - last))
		return false;
	peek_into(&peek, step->value, step->name + last, step->name_len - last, PEEK_DEPTH);
	return peek.has_optimizer && !peek.has_model;
}

/* ---- the walk ---- */

static int read_keys(struct ckpt_optimizers *o, const struct ckpt_walk_step *step,
		     const struct ckpt_seq *pairs, bool named, struct ckpt_error *err)
{
	struct ckpt_optimizers_level level = { .depth = step->depth,
					       .below = step->below_len ? step->below_len + 1 : 0 };
	struct ckpt_optimizers_level *grown;
	bool has_step = false;

	if (named && !note(&level.told, "", 0, NAMED))
		goto nomem;
	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = pairs->items[i];
		size_t last = ckpt_value_is_text(key) ? last_part(key->u.bytes.ptr, key->u.bytes.len) : 0;

		if (ckpt_value_is_text(key) &&
		    (!read_key(&level.told, key->u.bytes.ptr, key->u.bytes.len) ||
		     !read_named_key(&level.told, key->u.bytes.ptr, key->u.bytes.len, pairs->items[i + 1])))
			goto nomem;
		has_step |= ckpt_value_is_text(key) && is_step(key->u.bytes.ptr + last, key->u.bytes.len - last);
	}
	for (uint32_t i = 0; has_step && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = pairs->items[i];

		if (ckpt_value_is_text(key) && !read_key_beside_step(&level.told, key->u.bytes.ptr, key->u.bytes.len))
			goto nomem;
	}
	if (!level.told.count)
		return 0;
	grown = ckpt_grow(o->levels, o->count, &o->cap, sizeof(*grown));
	if (!grown)
		goto nomem;
	o->levels = grown;
	o->levels[o->count++] = level;
	return 0;
nomem:
	ckpt_strmap_clear(&level.told);
	return ckpt_fail_nomem(err);
}

/*
 * NAME: without what is in front of the keys of LEVEL. *NAMED: the bytes of it that name an optimizer, without
 * a dot; SIZE_MAX: none.
 */
static bool is_told(const struct ckpt_optimizers_level *level, const char *name, size_t len, size_t *named)
{
	size_t at = 0;

	*named = SIZE_MAX;
	for (int parts = 0; parts < MOST_PARTS; parts++) {
		const uint64_t *told = ckpt_strmap_find(&level->told, name, at);
		const char *dot;

		if (told && *named == SIZE_MAX && (*told & (NAMED | HAS_MODEL)) == NAMED)
			*named = at ? at - 1 : 0;
		if (told && (*told & ALL || (*told & (HAS_STEP | HAS_KEPT | HAS_OTHER)) == (HAS_STEP | HAS_KEPT)))
			return true;
		if (told && *told & HAS_GROUPS && (begins_with(name + at, len - at, "state") ||
						    begins_with(name + at, len - at, "param_groups")))
			return true;
		dot = memchr(name + at, '.', len - at);
		if (!dot)
			break;
		at = (size_t)(dot - name) + 1;
	}
	return false;
}

int ckpt_optimizers_visit(struct ckpt_optimizers *o, const struct ckpt_walk_step *step,
			  struct ckpt_error *err)
{
	const struct ckpt_seq *pairs;
	bool told = false, named;
	int rc = 0;

	while (o->count && step->depth <= o->levels[o->count - 1].depth)
		ckpt_strmap_clear(&o->levels[--o->count].told);
	o->named_len = SIZE_MAX;
	o->is_named = false;
	for (uint32_t i = 0; !told && i < o->count; i++) {
		size_t below = o->levels[i].below, len = SIZE_MAX;

		if (step->name_len >= below)
			told = is_told(&o->levels[i], step->name + below, step->name_len - below, &len);
		/* without the dot that is in front of what is below */
		if (len != SIZE_MAX && o->named_len == SIZE_MAX)
			o->named_len = len ? below + len : below ? below - 1 : 0;
	}
	o->only_named = !told && o->named_len != SIZE_MAX;
	if (!step->seen && !told && o->count < MOST_LEVELS) {
		pairs = pairs_of(step->value);
		named = !o->only_named && is_named_optimizer(o, step);
		o->is_named = named;
		if (pairs || named)
			rc = read_keys(o, step, pairs, named, err);
	}
	return rc < 0 ? rc : told || o->only_named;
}
