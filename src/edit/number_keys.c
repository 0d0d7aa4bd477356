/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"
#include "model/model.h"
#include "model/walk.h"

#include <ckpt/edit.h>

#include <string.h>

enum { MOST_DIGITS = 18 };

struct numberer {
	struct ckpt_model *to;
	uint64_t keys, dicts;
};

/* "12", but not "012" or "-1": what str() makes of a number that is 0 or more. */
static bool parse_number(const struct ckpt_value *key, int64_t *out)
{
	const char *text;
	int64_t n = 0;

	if (key->kind != CKPT_STR || !key->u.bytes.len || key->u.bytes.len > MOST_DIGITS)
		return false;
	text = key->u.bytes.ptr;
	for (uint64_t i = 0; i < key->u.bytes.len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (text[i] - '0');
	}
	*out = n;
	return text[0] != '0' || key->u.bytes.len == 1;
}

static bool all_numbers(const struct ckpt_model *model, const struct ckpt_value *dict)
{
	int64_t n;

	for (uint32_t i = 0; i < dict->u.seq.count; i += 2)
		if (!parse_number(ckpt_model_now(model, dict->u.seq.items[i]), &n))
			return false;
	return dict->u.seq.count > 0;
}

static bool is_called_state(const struct ckpt_walk_step *step)
{
	static const char word[] = "state";
	size_t len = sizeof(word) - 1;

	return step->name_len >= len && !memcmp(step->name + step->name_len - len, word, len) &&
	       (step->name_len == len || step->name[step->name_len - len - 1] == '.');
}

static int number_dict(struct numberer *n, const struct ckpt_value *dict, struct ckpt_error *err)
{
	struct ckpt_arena *arena = n->to->arena;
	struct ckpt_value *copy = ckpt_arena_calloc(arena, 1, sizeof(*copy));

	if (!copy)
		return ckpt_arena_fail(arena, err);
	*copy = *dict;
	copy->u.seq = (struct ckpt_seq){ 0 };
	if (!ckpt_seq_add_many(arena, &copy->u.seq, dict->u.seq.items, dict->u.seq.count))
		return ckpt_arena_fail(arena, err);
	for (uint32_t i = 0; i < copy->u.seq.count; i += 2) {
		struct ckpt_value *key = ckpt_model_new_value(n->to, CKPT_INT);

		if (!key)
			return ckpt_arena_fail(arena, err);
		parse_number(ckpt_model_now(n->to, copy->u.seq.items[i]), &key->u.integer);
		copy->u.seq.items[i] = key;
		n->keys++;
	}
	n->dicts++;
	return ckpt_model_replace(n->to, copy, err);
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct numberer *n = ctx;
	int rc = 0;

	if (step->value->kind == CKPT_DICT && !step->seen && is_called_state(step) &&
	    all_numbers(n->to, step->value))
		rc = number_dict(n, step->value, err);
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

int ckpt_number_keys(const struct ckpt_model *model, struct ckpt_model **out,
		     struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_edit_report r = CKPT_EDIT_REPORT_INIT;
	struct numberer n = { 0 };

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(r), err);
	*out = NULL;
	if (rc == 0)
		rc = ckpt_model_derive(model, &n.to, err);
	if (rc == 0)
		rc = ckpt_model_walk(model, visit_value, &n, err);
	if (rc < 0) {
		ckpt_close(n.to);
		return rc;
	}
	r.renamed = n.keys;
	r.state_dicts = n.dicts;
	ckpt_sized_give(report, &r, sizeof(r));
	*out = n.to;
	return 0;
}
