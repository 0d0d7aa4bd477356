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

/*
 * transformers 5.24, quantizers/quantizers_utils.py, should_convert_module(): a pattern from the start to the end of a part of the
 * name, or what the name ends with. What Python cannot compile is an error there, too.
 */
static int transformers_matches(const char *text, const char *module, struct ckpt_error *err)
{
	size_t len = strlen(text), all = strlen(module);
	char *pattern;
	int rc;

	if (asprintf(&pattern, "(?:%s)(?:(?<=\\.)|(?=\\.|$))", text) < 0)
		return ckpt_fail_nomem(err);
	rc = ckpt_quant_pattern_matches(pattern, text, module, err);
	free(pattern);
	return rc ? rc : all >= len && !strcmp(module + all - len, text);
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
	{ "fp8", "modules_to_not_convert", transformers_matches },
	{ "fp8", "ignored_layers", name_matches },
	{ "mxfp4", "modules_to_not_convert", transformers_matches },
	{ "awq", "modules_to_not_convert", transformers_matches },
	{ "gptq", "modules_to_not_convert", name_matches },
	{ "gptq_v2", "modules_to_not_convert", name_matches },
	{ "bitsandbytes", "llm_int8_skip_modules", transformers_matches },
	{ "torchao", "modules_to_not_convert", transformers_matches },
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
	const json_t *says = json_object_get(sparsity, "format");
	const char *format = json_string_value(says);
	char shown[80];

	if (!sparsity || json_is_null(sparsity) || (json_is_object(sparsity) && (!says || json_is_null(says))) ||
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

	/* TransformConfig has nothing but config_groups, which are none if they are empty */
	if (!transform || json_is_null(transform) ||
	    (json_is_object(transform) && json_object_size(transform) == (groups != NULL) &&
	     (!groups || json_is_null(groups) || (json_is_object(groups) && !json_object_size(groups)))))
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
	char shown[200], by[120], *dot;
	int rc = module ? is_excluded(g->quant, module, &text, &key, err) : ckpt_fail_nomem(err);
	bool is_left_out = rc == 0 && in_block(g->quant, module) < 0;

	if (rc == 0 && !*g->result && (dot = strrchr(module, '.'))) { /* a parameter, of the module that it is in */
		*dot = '\0';
		rc = is_excluded(g->quant, module, &text, &key, err);
	}

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

/* How long the name of the list is that MODULE's block is in: "model.layers" of "model.layers.0.mlp.up_proj". 0: it is in none. */
static size_t blocks_len(const char *module)
{
	for (const char *dot = strchr(module, '.'); dot; dot = strchr(dot + 1, '.')) {
		size_t digits = strspn(dot + 1, "0123456789");

		if (digits && dot[1 + digits] == '.')
			return (size_t)(dot - module);
	}
	return 0;
}

/* Of the modules that are quantized: the last parts of their names, and the lists of blocks that they are in. */
struct quantized {
	struct ckpt_strmap leaves, blocks;
};

static int add_name(const struct ckpt_quant *q, struct ckpt_strmap *map, const char *name, size_t len, struct ckpt_error *err)
{
	const char *kept = ckpt_arena_copy(q->arena, name, len);
	bool there;

	return kept && ckpt_strmap_insert(map, kept, len, 0, &there) ? 0 : ckpt_fail_nomem(err);
}

static int add_quantized(const struct ckpt_quant_group *g, struct quantized *all, struct ckpt_error *err)
{
	char *module = module_of(g->base, g->base_len);
	const char *leaf = module ? leaf_of(module) : NULL;
	int rc = module ? add_name(g->quant, &all->leaves, leaf, strlen(leaf), err) : ckpt_fail_nomem(err);

	if (rc == 0)
		rc = add_name(g->quant, &all->blocks, module, blocks_len(module), err);
	free(module);
	return rc;
}

/* optimum 1.2x, gptq/quantizer.py, convert_model(): the modules that are named are those of one list of blocks. */
static bool is_in_blocks(const struct ckpt_quant *q, const char *module, const struct quantized *all)
{
	const char *blocks = ckpt_quant_config_text(q->config.says, "block_name_to_quantize");
	size_t len = blocks ? strlen(blocks) : 0;

	if (len)
		return !strncmp(module, blocks, len) && module[len] == '.';
	return ckpt_strmap_find(&all->blocks, module, blocks_len(module)) != NULL;
}

/* Does the configuration name MODULE, or a pattern of it that means it? *TEXT: that. */
static int is_named(const struct ckpt_quant *q, const char *module, const struct quantized *all, const char **text,
		    struct ckpt_error *err)
{
	const json_t *groups = json_object_get(q->config.says, "config_groups"), *group, *target;
	const json_t *layers = json_object_get(q->config.says, "quantized_layers");
	const char *key, *leaf = leaf_of(module);
	/* a pattern may mean modules that are no matrices to multiply by, such as embeddings */
	bool is_known = ckpt_strmap_find(&all->leaves, leaf, strlen(leaf));
	size_t i;

	*text = module;
	if (!strcmp(q->format->name, "modelopt"))
		return json_object_get(layers, module) != NULL;
	if (strcmp(q->format->name, "compressed-tensors") != 0)
		return in_block(q, module) > 0 && is_in_blocks(q, module, all);
	json_object_foreach((json_t *)groups, key, group)
	{
		json_array_foreach(json_object_get(group, "targets"), i, target)
		{
			int rc;

			*text = json_string_value(target);
			rc = *text && (is_known || strncmp(*text, "re:", 3) != 0) ? ckpt_quant_target_matches(*text, module, err) : 0;
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
		       const struct quantized *all, struct ckpt_error *err)
{
	char *module = module_of(e->key, e->key_len);
	const char *text, *by, *key;
	char shown[200], name[120];
	int rc;

	if (!module)
		return ckpt_fail_nomem(err);
	rc = is_named(q, module, all, &text, err);
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
	struct quantized all = { 0 };
	int rc = 0;

	if (!q->config.says)
		return 0;
	rc = check_lists(q, err);
	if (rc == 0)
		rc = ckpt_quant_check_done(q, err);
	if (rc == 0)
		rc = check_blocks(q, err);
	for (uint32_t i = 0; rc == 0 && i < q->group_count; i++) {
		rc = check_group(q->groups[i], err);
		if (rc == 0)
			rc = add_quantized(q->groups[i], &all, err);
	}
	for (uint32_t i = 0; rc == 0 && i < q->entry_count; i++)
		if (may_be_whole(&q->entries[i]))
			rc = check_entry(q, &q->entries[i], &all, err);
	ckpt_strmap_clear(&all.leaves);
	ckpt_strmap_clear(&all.blocks);
	return rc;
}
