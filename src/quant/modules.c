/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modules the configuration means, held against those that are quantized: a weight that it excludes, by the rules
 * that all packages of a format agree on, or one that it names and that is whole.
 *
 * What must stay true: a name counts only where it is sure what it means. Of classes ("Linear") a file says nothing, and
 * transformers takes more names for excluded than other packages do.
 */
#include "quant/config.h"
#include "quant/fill.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* Is MODULE called TEXT, or below it, or is its last part? So transformers has it, and all that search for a part of the name. */
static int name_matches(const char *text, const char *module, struct ckpt_error *err)
{
	size_t len = strlen(text), all = strlen(module);

	(void)err;
	if (!len || all < len)
		return 0;
	return (!strncmp(module, text, len) && (!module[len] || module[len] == '.')) ||
	       (all > len && module[all - len - 1] == '.' && !strcmp(module + all - len, text));
}

/* ModelOpt's lists have wildcards: * and ?. */
static int wildcard_matches(const char *text, const char *module, struct ckpt_error *err)
{
	const char *star = NULL, *from = NULL;

	(void)err;
	while (*module) {
		if (*text == '*') {
			star = text++;
			from = module;
		} else if (*text == '?' || *text == *module) {
			text++;
			module++;
		} else if (star) { /* the last * takes one more */
			text = star + 1;
			module = ++from;
		} else {
			return 0;
		}
	}
	while (*text == '*')
		text++;
	return !*text;
}

/* Of a list that another format has: whatever a package may mean by TEXT. */
static int any_matches(const char *text, const char *module, struct ckpt_error *err)
{
	if (!strncmp(text, "re:", 3))
		return ckpt_quant_target_matches(text, module, err);
	return strchr(text, '*') ? wildcard_matches(text, module, err)
				 : name_matches(text, module, err);
}

static const char *const list_keys[] = { "ignore", "exclude_modules", "modules_to_not_convert",
					 "ignored_layers", "llm_int8_skip_modules" };

/* The lists that a format has itself; all others are any_matches(). */
static const struct {
	const char *format, *key;
	int (*matches)(const char *text, const char *module, struct ckpt_error *err);
} lists[] = {
	{ "compressed-tensors", "ignore", ckpt_quant_target_matches },
	{ "modelopt", "ignore", wildcard_matches },
	{ "modelopt", "exclude_modules", wildcard_matches },
	{ "fp8", "modules_to_not_convert", name_matches },
	{ "fp8", "ignored_layers", name_matches },
	{ "mxfp4", "modules_to_not_convert", name_matches },
	{ "awq", "modules_to_not_convert", name_matches },
	{ "gptq", "modules_to_not_convert", name_matches },
	{ "gptq_v2", "modules_to_not_convert", name_matches },
	{ "bitsandbytes", "llm_int8_skip_modules", name_matches },
	{ "torchao", "modules_to_not_convert", name_matches },
};

static int list_matches(const struct ckpt_quant *q, const char *key, const char *text,
			const char *module, struct ckpt_error *err)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (!strcmp(lists[i].format, q->format->name) && !strcmp(lists[i].key, key))
			return lists[i].matches(text, module, err);
	return any_matches(text, module, err);
}

/* Lists that are none, whose readers take them for other things: a text for its letters, for instance. */
static int check_lists(const struct ckpt_quant *q, struct ckpt_error *err)
{
	for (size_t i = 0; i < sizeof(list_keys) / sizeof(list_keys[0]); i++) {
		const json_t *list = json_object_get(q->config.says, list_keys[i]), *one;
		bool fits = !list || json_is_null(list) || json_is_array(list);
		size_t n;

		json_array_foreach((json_t *)list, n, one) fits &= json_is_string(one);
		if (!fits)
			return ckpt_error_at(err,
					     ckpt_fail(err, CKPT_E_FORMAT, "%s is no list of names",
						       list_keys[i]),
					     q->config.path, NULL, CKPT_NO_OFFSET);
	}
	return 0;
}

/* 1: MODULE is excluded, by *TEXT in the list *KEY. */
static int is_excluded(const struct ckpt_quant *q, const char *module, const char **text,
		       const char **key, struct ckpt_error *err)
{
	for (size_t i = 0; i < sizeof(list_keys) / sizeof(list_keys[0]); i++) {
		const json_t *list = json_object_get(q->config.says, list_keys[i]), *one;
		size_t n;

		json_array_foreach(list, n, one)
		{
			int rc;

			*text = json_string_value(one);
			*key = list_keys[i];
			rc = *text ? list_matches(q, *key, *text, module, err) : 0;
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* ---- what is done to weights beside quantizing them ---- */

static int fail_config(const struct ckpt_quant *q, int rc, struct ckpt_error *err)
{
	return ckpt_error_at(err, rc, q->config.path, NULL, CKPT_NO_OFFSET);
}

/* Weights that are sparse as well are of other parts, which nothing here puts together. */
static int check_sparsity(const struct ckpt_quant *q, struct ckpt_error *err)
{
	const json_t *sparsity = json_object_get(q->config.says, "sparsity_config");
	const char *format = ckpt_quant_config_text(sparsity, "format");
	char shown[80];

	if (!sparsity || json_is_null(sparsity) || (json_is_object(sparsity) && !format) ||
	    (format && !strcmp(format, "dense")))
		return 0;
	return fail_config(q,
			   ckpt_fail(err, CKPT_E_UNSUPPORTED,
				     "sparsity_config says '%s', which ckpt does not know",
				     format ? ckpt_escape(shown, sizeof(shown), format,
							  strlen(format))
					    : "?"),
			   err);
}

/* Rotations, transform/transform_config.py: what they made of a weight is another weight, and activations are rotated as well. */
static int check_transform(const struct ckpt_quant *q, struct ckpt_error *err)
{
	const json_t *transform = json_object_get(q->config.says, "transform_config"),
		     *groups = json_object_get(transform, "config_groups");

	if (!transform || json_is_null(transform) ||
	    (json_is_object(transform) && !json_object_size(groups)))
		return 0;
	return fail_config(
		q,
		ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"transform_config says that weights are transformed, which ckpt does not undo"),
		err);
}

int ckpt_quant_check_done(const struct ckpt_quant *q, struct ckpt_error *err)
{
	int rc = check_sparsity(q, err);

	return rc < 0 ? rc : check_transform(q, err);
}

/* ---- GPTQ: modules_in_block_to_quantize ---- */

/* transformers, GPTQConfig: lists of lists of names below a block. 1: one of them means MODULE, -1: there is such a list, and none does. */
static int in_block(const struct ckpt_quant *q, const char *module)
{
	const json_t *lists_of = json_object_get(q->config.says, "modules_in_block_to_quantize"),
		     *list, *one;
	size_t i, k, all = strlen(module);

	if (strncmp(q->format->name, "gptq", 4) != 0 || !json_array_size(lists_of))
		return 0;
	json_array_foreach(lists_of, i, list) json_array_foreach(list, k, one)
	{
		const char *text = json_string_value(one);
		size_t len = text ? strlen(text) : 0;

		if (len && all >= len && !strcmp(module + all - len, text) &&
		    (all == len || module[all - len - 1] == '.'))
			return 1;
	}
	return -1;
}

static int check_blocks(const struct ckpt_quant *q, struct ckpt_error *err)
{
	const json_t *lists_of = json_object_get(q->config.says, "modules_in_block_to_quantize"),
		     *list, *one;
	bool fits = !lists_of || json_is_null(lists_of) || json_is_array(lists_of);
	size_t i, k;

	if (strncmp(q->format->name, "gptq", 4) != 0)
		return 0;
	json_array_foreach((json_t *)lists_of, i, list)
	{
		fits &= json_is_array(list);
		json_array_foreach((json_t *)list, k, one) fits &= json_is_string(one);
	}
	return fits ? 0
		    : fail_config(q,
				  ckpt_fail(err, CKPT_E_FORMAT,
					    "modules_in_block_to_quantize is no list of lists of names"),
				  err);
}

/* NAME of LEN bytes without ".weight", to be freed. */
static char *module_of(const char *name, size_t len)
{
	static const char weight[] = ".weight";
	size_t n = sizeof(weight) - 1;

	return strndup(name, len > n && !memcmp(name + len - n, weight, n) ? len - n : len);
}

static int check_group(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	char *module = module_of(g->base, g->base_len);
	const char *text, *key;
	char shown[200], by[120];
	int rc = module ? is_excluded(g->quant, module, &text, &key, err) : ckpt_fail_nomem(err);
	bool is_left_out = rc == 0 && in_block(g->quant, module) < 0;

	free(module);
	if (is_left_out)
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"'%s' is quantized, and the configuration does not name it (modules_in_block_to_quantize)",
			ckpt_escape(shown, sizeof(shown), g->name, strlen(g->name)));
	if (rc > 0)
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "'%s' is quantized, and the configuration excludes '%s' (%s)",
			       ckpt_escape(shown, sizeof(shown), g->name, strlen(g->name)),
			       ckpt_escape(by, sizeof(by), text, strlen(text)), key);
	return rc;
}

/* ---- weights that are whole ---- */

/* The last part of a module's name. */
static const char *leaf_of(const char *module)
{
	const char *dot = strrchr(module, '.');

	return dot ? dot + 1 : module;
}

/* Does a group of the configuration name MODULE, or a pattern that means it? *TEXT: that. */
static int is_named(const struct ckpt_quant *q, const char *module, const char **text,
		    struct ckpt_error *err)
{
	const json_t *groups = json_object_get(q->config.says, "config_groups"), *group, *target;
	const json_t *layers = json_object_get(q->config.says, "quantized_layers");
	const char *key;
	size_t i;

	if (!strcmp(q->format->name, "modelopt")) {
		*text = module;
		return json_object_get(layers, module) != NULL;
	}
	*text = module;
	if (strcmp(q->format->name, "compressed-tensors") != 0)
		return in_block(q, module) > 0;
	json_object_foreach((json_t *)groups, key, group)
	{
		json_array_foreach(json_object_get(group, "targets"), i, target)
		{
			int rc;

			*text = json_string_value(target);
			rc = *text ? ckpt_quant_target_matches(*text, module, err) : 0;
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* A matrix of an ordinary dtype, as a weight is that was not quantized. */
static bool may_be_whole(const struct ckpt_quant_entry *e)
{
	return !e->group && !e->dropped && ckpt_fill_is_wide(e->t->dtype) && e->t->ndim >= 2 &&
	       e->key_len > 7 && !memcmp(e->key + e->key_len - 7, ".weight", 7);
}

static int check_entry(const struct ckpt_quant *q, const struct ckpt_quant_entry *e,
		       const struct ckpt_strmap *leaves, struct ckpt_error *err)
{
	char *module = module_of(e->key, e->key_len);
	const char *text, *by, *key, *leaf;
	char shown[200], name[120];
	int rc;

	if (!module)
		return ckpt_fail_nomem(err);
	leaf = leaf_of(module);
	rc = ckpt_strmap_find(leaves, leaf, strlen(leaf)) ? is_named(q, module, &text, err) : 0;
	if (rc > 0) {
		rc = is_excluded(q, module, &by, &key, err);
		if (rc == 0)
			rc = ckpt_fail(
				err, CKPT_E_FORMAT,
				"'%s' is not quantized, and the configuration says so of '%s'",
				ckpt_escape(shown, sizeof(shown), e->t->name, strlen(e->t->name)),
				ckpt_escape(name, sizeof(name), text, strlen(text)));
	}
	free(module);
	return rc < 0 ? rc : 0;
}

int ckpt_quant_check_modules(const struct ckpt_quant *q, struct ckpt_error *err)
{
	struct ckpt_strmap leaves = { 0 };
	int rc = 0;
	bool there;

	if (!q->config.says)
		return 0;
	rc = check_lists(q, err);
	if (rc == 0)
		rc = ckpt_quant_check_done(q, err);
	if (rc == 0)
		rc = check_blocks(q, err);
	for (uint32_t i = 0; rc == 0 && i < q->group_count; i++) {
		const struct ckpt_quant_group *g = q->groups[i];
		char *module, *leaf;

		rc = check_group(g, err);
		module = rc == 0 ? module_of(g->base, g->base_len) : NULL;
		leaf = module ? ckpt_arena_copy(q->arena, leaf_of(module), strlen(leaf_of(module)))
			      : NULL;
		if (rc == 0 &&
		    (!leaf || !ckpt_strmap_insert(&leaves, leaf, strlen(leaf), i, &there)))
			rc = ckpt_fail_nomem(err);
		free(module);
	}
	for (uint32_t i = 0; rc == 0 && i < q->entry_count; i++)
		if (may_be_whole(&q->entries[i]))
			rc = check_entry(q, &q->entries[i], &leaves, err);
	ckpt_strmap_clear(&leaves);
	return rc;
}
