/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One level for each mapping around the current value that has telling keys. A level is a map
 * from what stands in front of such a key ("" or "optimizer.") to what the key tells.
 *
 * What must stay true: levels are those of mappings that the walk is inside of, innermost last;
 * and what is in front of a key is a part of that key, whose bytes outlive the walk.
 */
#include "model/optimizers.h"

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
	MOST_PARTS = 64, /* of a name that are looked at: a hostile one has very many dots */
	MOST_LEVELS = 16 /* optimizers inside of each other: every value is held against all */
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

static int read_keys(struct ckpt_optimizers *o, const struct ckpt_walk_step *step,
		     const struct ckpt_seq *pairs, struct ckpt_error *err)
{
	struct ckpt_optimizers_level level = { .depth = step->depth,
					       .below = step->below_len ? step->below_len + 1 : 0 };
	struct ckpt_optimizers_level *grown;
	bool has_step = false;

	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = pairs->items[i];
		size_t last = ckpt_value_is_text(key) ? last_part(key->u.bytes.ptr, key->u.bytes.len) : 0;

		if (ckpt_value_is_text(key) &&
		    !read_key(&level.told, key->u.bytes.ptr, key->u.bytes.len))
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

/* NAME: without what is in front of the keys of LEVEL. */
static bool is_told(const struct ckpt_optimizers_level *level, const char *name, size_t len)
{
	size_t at = 0;

	for (int parts = 0; parts < MOST_PARTS; parts++) {
		const uint64_t *told = ckpt_strmap_find(&level->told, name, at);
		const char *dot;

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

/* Of a mapping, or the attributes of an object: an optimizer that was saved whole. */
static const struct ckpt_seq *pairs_of(const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);
	const struct ckpt_value *state = !pairs && v->kind == CKPT_CALL ? v->u.call->state : NULL;

	return state && state->kind == CKPT_DICT ? &state->u.seq : pairs;
}

int ckpt_optimizers_visit(struct ckpt_optimizers *o, const struct ckpt_walk_step *step,
			  struct ckpt_error *err)
{
	const struct ckpt_seq *pairs;
	bool told = false;
	int rc = 0;

	while (o->count && step->depth <= o->levels[o->count - 1].depth)
		ckpt_strmap_clear(&o->levels[--o->count].told);
	for (uint32_t i = 0; !told && i < o->count; i++)
		if (step->name_len >= o->levels[i].below)
			told = is_told(&o->levels[i], step->name + o->levels[i].below,
				       step->name_len - o->levels[i].below);
	pairs = step->seen || told || o->count == MOST_LEVELS ? NULL : pairs_of(step->value);
	if (pairs)
		rc = read_keys(o, step, pairs, err);
	return rc < 0 ? rc : told;
}
