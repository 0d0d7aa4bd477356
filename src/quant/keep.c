/* SPDX-License-Identifier: Apache-2.0 */
/* What a cast of numbers leaves as it is: the parts of quantized weights. */
#include "quant/keep.h"
#include "quant/find.h"

#include <string.h>

/* Codes of bitsandbytes have any dtype, and a table and a state beside them. */
static bool has_codes(const struct ckpt_quant_group *g)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS);

	if (items && (g->parts[CKPT_PART_MAP].entry || g->parts[CKPT_PART_STATE].entry))
		return true;
	for (int r = CKPT_PART_ITEMS + 1; items && ckpt_quant_is_code(items->dtype) && r < CKPT_PART_ROLES;
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

		if (ckpt_quant_group_all(q, format, NULL) < 0)
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
				    ckpt_quant_ends_as(&q->entries[i], s->text, &front))
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
	int no_config = ckpt_quant_find_config(q->model, as, &q->config, &config), rc;

	if (no_config == CKPT_E_NOMEM)
		return ckpt_error_pass(err, no_config, &config);
	rc = ckpt_quant_collect(q, as || q->config.says, err);
	if (rc < 0)
		return rc;
	if (!as && !q->config.says && !has_names_of_parts(q))
		return 0;
	q->parts_only = true;
	rc = ckpt_quant_choose(q, as, &why);
	if (rc == CKPT_E_NOTFOUND ||
	    ((rc == CKPT_E_FORMAT || rc == CKPT_E_UNSUPPORTED || rc == CKPT_E_CLASH) && !as &&
	     !q->config.says && !names_say(q)))
		return 0;
	if (no_config < 0)
		return ckpt_error_because(err, ckpt_error_pass(err, no_config, &config),
					  CKPT_REASON_QUANTIZED);
	if (rc == CKPT_E_FORMAT || rc == CKPT_E_UNSUPPORTED)
		return ckpt_error_because(err, ckpt_error_pass(err, rc, &why), CKPT_REASON_QUANTIZED);
	return rc < 0 ? ckpt_error_pass(err, rc, &why) : keep_entries(q, kept, err);
}

int ckpt_quant_keep_parts(const struct ckpt_model *model, const char *as, struct ckpt_kept *kept,
			  struct ckpt_error *err)
{
	struct ckpt_quant *q = NULL;
	int rc;

	*kept = (struct ckpt_kept){ 0 };
	if (as && !strcmp(as, "plain"))
		return 0;
	rc = ckpt_quant_new(model, CKPT_DTYPE_BFLOAT16, &q, err);
	if (rc < 0)
		return rc;
	rc = find_parts(q, as, kept, err);
	ckpt_quant_close(q);
	return rc;
}
