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

/* Lists that are none, whose readers take them for other things: a text for its letters, for instance. */
static int check_lists(const struct ckpt_quant *q, struct ckpt_error *err)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const json_t *list = json_object_get(q->config.says, lists[i].key), *one;
		bool fits = !list || json_is_null(list) || json_is_array(list);
		size_t n;

		if (strcmp(lists[i].format, q->format->name) != 0)
			continue;
		json_array_foreach((json_t *)list, n, one) fits &= json_is_string(one);
		if (!fits)
			return ckpt_error_at(err,
					     ckpt_fail(err, CKPT_E_FORMAT, "%s is no list of names",
						       lists[i].key),
					     q->config.path, NULL, CKPT_NO_OFFSET);
	}
	return 0;
}

/* 1: MODULE is excluded, by *TEXT in the list *KEY. */
static int is_excluded(const struct ckpt_quant *q, const char *module, const char **text,
		       const char **key, struct ckpt_error *err)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const json_t *list = json_object_get(q->config.says, lists[i].key), *one;
		size_t n;

		if (strcmp(lists[i].format, q->format->name) != 0)
			continue;
		json_array_foreach(list, n, one)
		{
			int rc;

			*text = json_string_value(one);
			*key = lists[i].key;
			rc = *text ? lists[i].matches(*text, module, err) : 0;
			if (rc)
				return rc;
		}
	}
	return 0;
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

	free(module);
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
	if (strcmp(q->format->name, "compressed-tensors") != 0)
		return 0;
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
