/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of weights that another format than the one of the checkpoint would read. Left as they are, their codes would be
 * taken for numbers, so they are an error, which says both readings.
 *
 * What must stay true: only what no weight of the format took is looked at, and a part counts by its name and dtype together,
 * since plain tensors may be called ".scales", too.
 */
#include "quant/fill.h"
#include "quant/find.h"

#include "base/buf.h"
#include "base/text.h"

#include <string.h>

/* Entries FROM to TO are those of one mapping. */
struct scope {
	const struct ckpt_quant *q;
	uint32_t from, to;
	struct ckpt_strmap by_key; /* number of the entry */
};

/* Does the key of E end with SUFFIX? "": in any case. *FRONT: how many bytes are in front of it. */
static bool ends_with(const struct ckpt_quant_entry *e, const char *suffix, uint32_t *front)
{
	*front = e->key_len;
	return *suffix ? ckpt_quant_ends_as(e, suffix, front) : e->key_len > 0;
}

/* 1: *OUT is the scales as FORMAT calls them of what has the first FRONT bytes of E's key, and no weight took it. */
static int find_scales(const struct scope *scope, const struct ckpt_quant_format *format,
		       const struct ckpt_quant_entry *e, uint32_t front,
		       const struct ckpt_quant_entry **out, struct ckpt_error *err)
{
	for (const struct ckpt_quant_suffix *s = format->suffixes; s->text; s++) {
		struct ckpt_buf key = { 0 };
		const uint64_t *at = NULL;
		bool bad;

		if (s->role != CKPT_PART_SCALES || !ckpt_quant_add_key(e->key, front, s->text, &key))
			continue;
		bad = key.bad;
		if (!bad)
			at = ckpt_strmap_find(&scope->by_key, (char *)key.data, key.len);
		ckpt_buf_clear(&key);
		if (bad)
			return ckpt_fail_nomem(err);
		*out = at ? &scope->q->entries[*at] : NULL;
		if (*out && !(*out)->group && !(*out)->dropped)
			return 1;
	}
	return 0;
}

static int fail_both(const struct ckpt_quant *q, const struct ckpt_quant_format *other,
		     const struct ckpt_quant_entry *items, const struct ckpt_quant_entry *scales,
		     struct ckpt_error *err)
{
	char one[160], two[160], by[160];

	ckpt_escape(one, sizeof(one), items->t->name, strlen(items->t->name));
	ckpt_escape(two, sizeof(two), scales->t->name, strlen(scales->t->name));
	if (q->group_count)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "'%s' with '%s' is quantized as %s has it, and '%s' as %s has it",
				 one, two, other->name,
				 ckpt_escape(by, sizeof(by), q->groups[0]->name,
					     strlen(q->groups[0]->name)),
				 q->format->name);
	return ckpt_fail(
		err, CKPT_E_FORMAT,
		"'%s' with '%s' is quantized as %s has it, and the format is said to be %s", one,
		two, other->name, q->format->name);
}

static int check_entry(const struct scope *scope, const struct ckpt_quant_entry *e,
		       struct ckpt_error *err)
{
	const struct ckpt_quant_entry *scales = NULL;
	uint32_t front;

	for (size_t i = 0; i < ckpt_quant_format_count; i++) {
		const struct ckpt_quant_format *other = &ckpt_quant_formats[i];

		for (const struct ckpt_quant_suffix *s = other->suffixes; s->text; s++) {
			int rc;

			if (s->role != CKPT_PART_ITEMS || !ends_with(e, s->text, &front))
				continue;
			rc = find_scales(scope, other, e, front, &scales, err);
			if (rc)
				return rc < 0 ? rc : fail_both(scope->q, other, e, scales, err);
		}
	}
	return 0;
}

/*
 * E, the state or the table of a weight of bitsandbytes, whose codes are of any dtype (bnb_4bit_quant_storage), so that only what
 * stands beside them tells.
 */
static int check_state(const struct scope *scope, const struct ckpt_quant_entry *e, struct ckpt_error *err)
{
	static const char *const names[] = { ".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4", ".quant_map" };
	const struct ckpt_quant_format *other = NULL;

	for (size_t i = 0; i < ckpt_quant_format_count; i++)
		if (!strcmp(ckpt_quant_formats[i].name, "bitsandbytes"))
			other = &ckpt_quant_formats[i];
	for (size_t i = 0; other && i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t front;
		const uint64_t *at = ends_with(e, names[i], &front) ? ckpt_strmap_find(&scope->by_key, e->key, front) : NULL;

		if (at && !scope->q->entries[*at].group)
			return fail_both(scope->q, other, &scope->q->entries[*at], e, err);
	}
	return 0;
}

static int check_mapping(struct scope *scope, struct ckpt_error *err)
{
	const struct ckpt_quant_entry *entries = scope->q->entries;
	int rc = 0;
	bool there;

	for (uint32_t i = scope->from; rc == 0 && i < scope->to; i++)
		if (!ckpt_strmap_insert(&scope->by_key, entries[i].key, entries[i].key_len, i,
					&there))
			rc = ckpt_fail_nomem(err);
	for (uint32_t i = scope->from; rc == 0 && i < scope->to; i++)
		if (!entries[i].group && !entries[i].dropped && ckpt_quant_is_code(entries[i].t->dtype))
			rc = check_entry(scope, &entries[i], err);
	for (uint32_t i = scope->from; rc == 0 && i < scope->to; i++)
		if (!entries[i].group && !entries[i].dropped)
			rc = check_state(scope, &entries[i], err);
	ckpt_strmap_clear(&scope->by_key);
	return rc;
}

int ckpt_quant_check_others(const struct ckpt_quant *q, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t from = 0, to; rc == 0 && from < q->entry_count; from = to) {
		struct scope scope = { .q = q, .from = from };

		for (to = from;
		     to < q->entry_count && q->entries[to].holder == q->entries[from].holder; to++)
			;
		scope.to = to;
		rc = check_mapping(&scope, err);
	}
	return rc;
}

int ckpt_quant_check_orphans(const struct ckpt_quant *q, struct ckpt_error *err)
{
	static const struct {
		const char *suffix, *format;
	} parts[] = { { ".weight_scale_inv", "fp8" },
		      { ".weight_packed", "compressed-tensors" },
		      { ".weight_global_scale", "compressed-tensors" },
		      { ".weight_zero_point", "compressed-tensors" },
		      { ".weight_g_idx", "compressed-tensors" },
		      { ".weight_scale_2", "modelopt" },
		      { ".qweight", "gptq or awq" },
		      { ".qzeros", "gptq or awq" },
		      { ".SCB", "bitsandbytes" },
		      { ".weight.absmax", "bitsandbytes" },
		      { ".quant_map", "bitsandbytes" },
		      { ".nested_absmax", "bitsandbytes" },
		      { ".nested_quant_map", "bitsandbytes" },
		      { ".quant_state.bitsandbytes__nf4", "bitsandbytes" },
		      { ".quant_state.bitsandbytes__fp4", "bitsandbytes" } };
	char shown[200];
	uint32_t front;

	for (uint32_t i = 0; i < q->entry_count; i++) {
		const struct ckpt_quant_entry *e = &q->entries[i];

		for (size_t k = 0; !e->group && !e->dropped && k < sizeof(parts) / sizeof(parts[0]); k++)
			if (ckpt_quant_ends_as(e, parts[k].suffix, &front))
				return ckpt_fail(err, CKPT_E_FORMAT,
						 "'%s' is a part of a weight that is quantized as %s has it, and the rest of that is missing",
						 ckpt_escape(shown, sizeof(shown), e->t->name, strlen(e->t->name)), parts[k].format);
	}
	return 0;
}
