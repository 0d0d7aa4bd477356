/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and reads what says how weights are quantized: `quantization_config` (older: `compression_config`) in
 * config.json, of which transformers reads it; else hf_quant_config.json, which ModelOpt writes; else
 * quantize_config.json and quant_config.json of GPTQ's and AWQ's first packages, which have nothing else
 * in them. The files come from anywhere: their length is limited, and duplicates of keys are refused,
 * since two readers could take different ones.
 */
#include "quant/config.h"

#include "base/paths.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MOST_TEXT = 16 << 20, MATCH_LIMIT = 100000 };

void ckpt_quant_config_clear(struct ckpt_quant_config *c)
{
	json_decref(c->root);
	free(c->path);
	*c = (struct ckpt_quant_config){ 0 };
}

int64_t ckpt_quant_config_int(const json_t *object, const char *key, int64_t otherwise)
{
	const json_t *v = json_object_get(object, key);

	return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

const char *ckpt_quant_config_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

bool ckpt_quant_config_true(const json_t *object, const char *key, bool otherwise)
{
	const json_t *v = json_object_get(object, key);

	return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

/* ---- which format ---- */

static const struct {
	const char *method, *format;
} methods[] = {
	{ "fp8", "fp8" },
	{ "compressed-tensors", "compressed-tensors" },
	{ "compressed_tensors", "compressed-tensors" },
	{ "modelopt", "modelopt" },
	{ "modelopt_fp4", "modelopt" },
	{ "mxfp8", "fp8" },
	{ "mxfp4", "mxfp4" },
	{ "gptq", "gptq" },
	{ "awq", "awq" },
	{ "bitsandbytes", "bitsandbytes" },
	{ "torchao", "torchao" },
};

/* Not inlined: gcc 12 warns of comparisons of texts that it knows then. */
__attribute__((noinline)) static void set_format(struct ckpt_quant_config *c, const char *method)
{
	c->format = "";
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].method, method))
			c->format = methods[i].format;
	ckpt_escape(c->method, sizeof(c->method), method, strlen(method));
}

/*
 * gptqmodel 7.7, quantization/config.py: checkpoint_format, in files of others and older ones format, "gptq" or "gptq_v2"; packings
 * of its own have other names. auto_gptq 0.7 says is_marlin_format.
 */
static int set_gptq_version(struct ckpt_quant_config *c, struct ckpt_error *err)
{
	static const char *const keys[] = { "checkpoint_format", "format" };
	const char *form = NULL;
	char one[40], two[40];

	if (strcmp(c->format, "gptq") != 0)
		return 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *v = json_object_get(c->says, keys[i]);
		const char *text = json_string_value(v);

		if (!v || json_is_null(v))
			continue;
		if (!text)
			return ckpt_fail(err, CKPT_E_FORMAT, "%s is no text", keys[i]);
		if (form && strcmp(form, text) != 0)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "checkpoint_format says '%s', and format '%s'",
					 ckpt_escape(one, sizeof(one), form, strlen(form)),
					 ckpt_escape(two, sizeof(two), text, strlen(text)));
		form = text;
	}
	if (ckpt_quant_config_true(c->says, "is_marlin_format", false))
		form = "marlin";
	if (!form || !strcmp(form, "gptq"))
		return 0;
	c->format = !strcmp(form, "gptq_v2") ? "gptq_v2" : "";
	snprintf(c->method, sizeof(c->method), "gptq, %s",
		 ckpt_escape(one, sizeof(one), form, strlen(form)));
	return 0;
}

/* KEY of OBJECT, an object; NULL: it has none, or null. */
static int find_object(const json_t *object, const char *key, const json_t **out,
		       struct ckpt_error *err)
{
	const json_t *v = json_object_get(object, key);

	*out = v && !json_is_null(v) ? v : NULL;
	return *out && !json_is_object(*out)
		       ? ckpt_fail(err, CKPT_E_FORMAT, "%s is no JSON object", key)
		       : 0;
}

/* *Q, what the root says, or one of the models that it is made of (text_config, vision_config ..., and those of these). */
static int find_nested(const json_t *root, const json_t **q, struct ckpt_error *err)
{
	const json_t *part, *inner, *found;
	const char *key, *below;
	char one[80], two[80];
	int rc = 0;

	json_object_foreach((json_t *)root, key, part)
	{
		if (!json_is_object(part) || !strcmp(key, "quantization_config") || !strcmp(key, "compression_config"))
			continue; /* take_inner() */
		rc = find_object(part, "quantization_config", &found, err);
		below = NULL;
		if (rc == 0 && !found)
			json_object_foreach((json_t *)part, below, inner)
			{
				if (json_is_object(inner) && strcmp(below, "quantization_config"))
					rc = find_object(inner, "quantization_config", &found, err);
				if (rc < 0 || found)
					break;
			}
		if (rc < 0)
			return rc;
		if (found && *q && !json_equal((json_t *)*q, (json_t *)found))
			return ckpt_fail(
				err, CKPT_E_FORMAT,
				"the quantization_config of %s%s%s and another one say different things",
				ckpt_escape(one, sizeof(one), key, strlen(key)), below ? "." : "",
				below ? ckpt_escape(two, sizeof(two), below, strlen(below)) : "");
		if (found)
			*q = found;
	}
	return 0;
}

/* quantize_config.json and quant_config.json, whose root is what says it. NULL: it is neither. */
static const char *root_method(const json_t *root)
{
	if (json_object_get(root, "w_bit"))
		return "awq";
	if (!json_object_get(root, "bits"))
		return NULL;
	if (json_object_get(root, "zero_point"))
		return "awq";
	return json_object_get(root, "desc_act") || json_object_get(root, "group_size") ? "gptq"
											: NULL;
}

static const char *difference(const json_t *one, const json_t *two);

/*
 * transformers 5.24, CompressedTensorsConfig.from_dict(): of a quantization_config in another one the inner one is read; who does
 * not know that reads the outer one. What both say has to be the same, and what only the outer one says counts as if the inner one said it.
 */
static int take_inner(struct ckpt_quant_config *c, struct ckpt_error *err)
{
	const json_t *inner;
	json_t *v;
	const char *key, *differs;
	char shown[80];
	int rc = strcmp(c->format, "compressed-tensors") ? 0 : find_object(c->says, "quantization_config", &inner, err);

	if (rc < 0 || strcmp(c->format, "compressed-tensors") != 0 || !inner)
		return rc;
	differs = difference(inner, c->says);
	if (!differs && json_object_get(c->says, "config_groups") && !json_object_get(inner, "config_groups"))
		differs = "config_groups";
	if (differs)
		return ckpt_fail(err, CKPT_E_FORMAT, "the quantization_config in quantization_config says another %s than that around it",
				 ckpt_escape(shown, sizeof(shown), differs, strlen(differs)));
	json_object_foreach((json_t *)c->says, key, v)
	{
		if (strcmp(key, "quantization_config") != 0 && !json_object_get(inner, key) &&
		    json_object_set((json_t *)inner, key, v) < 0)
			return ckpt_fail_nomem(err);
	}
	c->says = inner;
	return 0;
}

/* How the package is called. Older files of compressed-tensors do not say it. */
static int find_method(const json_t *says, const char **out, struct ckpt_error *err)
{
	const json_t *method = json_object_get(says, "quant_method");

	if (method && !json_is_null(method) && !json_is_string(method))
		return ckpt_fail(err, CKPT_E_FORMAT, "quant_method is no text");
	*out = json_string_value(method);
	if (*out)
		return 0;
	/* transformers, AutoQuantizationConfig.from_dict() */
	if (json_object_get(says, "load_in_4bit") || json_object_get(says, "load_in_8bit"))
		*out = "bitsandbytes";
	else
		*out = json_object_get(says, "config_groups") ||
				       json_object_get(json_object_get(says, "quantization_config"), "config_groups")
			       ? "compressed-tensors"
			       : "a configuration without quant_method";
	return 0;
}

/* 1: it says how weights are quantized, 0: it does not. */
static int look_at_root(struct ckpt_quant_config *c, struct ckpt_error *err)
{
	const json_t *q, *older;
	const char *method;
	int rc;

	if (!json_is_object(c->root))
		return ckpt_fail(err, CKPT_E_FORMAT, "is no JSON object");
	rc = find_object(c->root, "quantization_config", &q, err);
	if (rc == 0)
		rc = find_object(c->root, "compression_config", &older, err);
	if (rc == 0 && q && older && !json_equal((json_t *)q, (json_t *)older))
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "quantization_config and compression_config say different things");
	if (rc == 0 && !q)
		q = older;
	if (rc == 0)
		rc = find_nested(c->root, &q, err);
	if (rc < 0)
		return rc;
	if (q) {
		c->says = q;
		rc = find_method(q, &method, err);
		if (rc < 0)
			return rc;
		set_format(c, method);
		rc = set_gptq_version(c, err);
		if (rc == 0)
			rc = take_inner(c, err);
		return rc < 0 ? rc : 1;
	}
	rc = find_object(c->root, "quantization", &q, err); /* of hf_quant_config.json */
	if (rc < 0)
		return rc;
	if (q && json_object_get(q, "quant_algo")) {
		c->says = q;
		set_format(c, "modelopt");
		return 1;
	}
	method = root_method(c->root);
	if (!method)
		return 0;
	if (!json_is_null(json_object_get(c->root, "quant_method")) && json_object_get(c->root, "quant_method"))
		rc = find_method(c->root, &method, err); /* gptqmodel says it here, too */
	if (rc < 0)
		return rc;
	c->says = c->root;
	set_format(c, method);
	rc = set_gptq_version(c, err);
	return rc < 0 ? rc : 1;
}

int ckpt_quant_config_parse(const char *text, size_t len, struct ckpt_quant_config *out,
			    struct ckpt_error *err)
{
	int rc;

	*out = (struct ckpt_quant_config){ 0 };
	if (!len)
		return 0;
	rc = ckpt_quant_config_load(text, len, JSON_REJECT_DUPLICATES, &out->root, err);
	if (rc < 0)
		return rc;
	rc = look_at_root(out, err);
	if (rc <= 0)
		ckpt_quant_config_clear(out);
	return rc < 0 ? rc : 0;
}

/* 1: it is there and says something, 0: not. */
static int try_file(const char *folder, const char *name, struct ckpt_quant_config *out,
		    struct ckpt_error *err)
{
	struct ckpt_source *source = NULL;
	struct ckpt_error why = { 0 };
	char *path, *text = NULL;
	uint64_t len = 0;
	int rc = ckpt_path_join(folder, name, &path, err);

	if (rc < 0)
		return rc;
	rc = ckpt_source_open(path, &source, &why);
	if (rc == CKPT_E_IO && why.sys_errno == ENOENT) {
		struct stat st;

		rc = lstat(path, &st) == 0 ? ckpt_fail(err, CKPT_E_IO, "is a link to what is not there") : 0;
		rc = ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
		free(path);
		return rc;
	}
	if (rc < 0) {
		free(path);
		return ckpt_error_pass(err, rc, &why);
	}
	len = ckpt_source_size(source);
	if (len > MOST_TEXT)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "has %" PRIu64 " bytes, the limit is %d", len,
			       MOST_TEXT);
	else if (!(text = malloc((size_t)len + 1)))
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_source_read(source, 0, text, (size_t)len, err);
	if (rc == 0 && !len)
		rc = ckpt_fail(err, CKPT_E_FORMAT, "is not JSON: it is empty");
	if (rc == 0)
		rc = ckpt_quant_config_parse(text, (size_t)len, out, err);
	rc = ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
	free(text);
	ckpt_source_unref(source);
	if (rc < 0 || !out->says) {
		free(path);
		return rc;
	}
	out->path = path;
	return 1;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool ckpt_quant_same_text(const char *one, const char *two)
{
	while (*one && (*one | 0x20) == (*two | 0x20)) {
		if (*one != *two && ((*one | 0x20) < 'a' || (*one | 0x20) > 'z'))
			return false;
		one++;
		two++;
	}
	return *one == *two;
}

/* Lists of modules are the same in any order. */
static bool is_same(const json_t *one, const json_t *two)
{
	const json_t *item, *other;
	size_t i, k;

	if (!json_is_array(one) || !json_is_array(two))
		return json_is_string(one) && json_is_string(two)
			       ? ckpt_quant_same_text(json_string_value(one), json_string_value(two))
			       : json_equal((json_t *)one, (json_t *)two);
	if (json_array_size(one) != json_array_size(two))
		return false;
	if (json_equal((json_t *)one, (json_t *)two))
		return true;
	json_array_foreach((json_t *)one, i, item)
	{
		bool found = false;

		if (!json_is_string(item)) /* sizes, whose order counts */
			return false;
		json_array_foreach((json_t *)two, k, other) found |=
			json_equal((json_t *)item, (json_t *)other);
		if (!found)
			return false;
	}
	return true;
}

/* Says nothing of the numbers: who made the file, and how. */
static bool is_remark(const char *key)
{
	static const char *const remarks[] = { "producer",
					       "meta",
					       "quantizer",
					       "damp_percent",
					       "damp_auto_increment",
					       "true_sequential",
					       "model_name_or_path",
					       "model_file_base_name" };

	for (size_t i = 0; i < sizeof(remarks) / sizeof(remarks[0]); i++)
		if (!strcmp(remarks[i], key))
			return true;
	return false;
}

/* A key, or NULL, of which ONE says another thing than TWO. */
static const char *difference(const json_t *one, const json_t *two)
{
	static const char *const also[][2] = { { "bits", "w_bit" },
					       { "w_bit", "bits" },
					       { "group_size", "q_group_size" },
					       { "q_group_size", "group_size" },
					       { "ignore", "exclude_modules" },
					       { "checkpoint_format", "format" },
					       { "format", "checkpoint_format" } };
	const json_t *v, *w;
	const char *key;

	json_object_foreach((json_t *)one, key, v)
	{
		w = json_object_get(two, key);
		if (w && !is_remark(key) && !is_same(v, w))
			return key;
	}
	for (size_t i = 0; i < sizeof(also) / sizeof(also[0]); i++) {
		v = json_object_get(one, also[i][0]);
		w = json_object_get(two, also[i][1]);
		if (v && w && !is_same(v, w))
			return also[i][1];
	}
	return NULL;
}

/* What two files of a folder both say: some loaders take the one, some the other. */
static int compare_files(const struct ckpt_quant_config *c, const struct ckpt_quant_config *other,
			 struct ckpt_error *err)
{
	const char *differs =
		strcmp(c->format, other->format) != 0 ? "format" : difference(c->says, other->says);
	char shown[80];

	if (!differs)
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_FORMAT, "says another %s than %s beside it",
				       ckpt_escape(shown, sizeof(shown), differs, strlen(differs)),
				       base_name(c->path)),
			     other->path, NULL, CKPT_NO_OFFSET);
}

/* What only the other file says is held against the tensors as well. */
static int take_over(struct ckpt_quant_config *c, const struct ckpt_quant_config *other, struct ckpt_error *err)
{
	const char *key;
	json_t *v;
	bool took = false;
	char *both;

	json_object_foreach((json_t *)other->says, key, v)
	{
		if (json_object_get(c->says, key) || is_remark(key))
			continue;
		if (json_object_set((json_t *)c->says, key, v) < 0)
			return ckpt_fail_nomem(err);
		took = true;
	}
	if (!took)
		return 0;
	if (asprintf(&both, "%s and %s", c->path, base_name(other->path)) < 0)
		return ckpt_fail_nomem(err);
	free(c->path);
	c->path = both;
	return 0;
}

int ckpt_quant_config_find(const struct ckpt_model *model, struct ckpt_quant_config *out,
			   struct ckpt_error *err)
{
	static const char *const names[] = { "config.json", "hf_quant_config.json",
					     "quantize_config.json", "quant_config.json" };
	const struct ckpt_document *doc = model->doc;
	const char *path = doc->inner_path ? NULL : ckpt_document_path(doc);
	char *folder;
	int rc = 0;

	*out = (struct ckpt_quant_config){ 0 };
	if (!path)
		return 0;
	folder = doc->path ? strdup(doc->path) : ckpt_path_parent(path);
	if (!folder)
		return ckpt_fail_nomem(err);
	for (size_t i = 0; rc >= 0 && i < sizeof(names) / sizeof(names[0]); i++) {
		struct ckpt_quant_config other = { 0 };

		rc = try_file(folder, names[i], out->says ? &other : out, err);
		if (rc > 0 && other.says)
			rc = compare_files(out, &other, err);
		if (rc == 0 && other.says)
			rc = take_over(out, &other, err);
		ckpt_quant_config_clear(&other);
	}
	if (rc < 0)
		ckpt_quant_config_clear(out);
	free(folder);
	return rc < 0 ? rc : 0;
}

/* ---- compressed-tensors: groups of modules ---- */

int ckpt_quant_pattern_matches(const char *pattern, const char *as_said, const char *module, struct ckpt_error *err)
{
	/* as Python has it, of characters, not of bytes; what is read from JSON is UTF-8 */
	uint32_t flags = PCRE2_ANCHORED | (ckpt_utf8_ok(module, strlen(module)) ? PCRE2_UTF | PCRE2_UCP : 0);
	pcre2_match_data *data;
	pcre2_match_context *limits;
	pcre2_code *code;
	PCRE2_SIZE where;
	int why, found;
	char shown[120];

	code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, flags, &why, &where, NULL);
	if (!code)
		return ckpt_fail(err, CKPT_E_FORMAT, "'%s' is no pattern",
				 ckpt_escape(shown, sizeof(shown), as_said, strlen(as_said)));
	data = pcre2_match_data_create_from_pattern(code, NULL);
	limits = pcre2_match_context_create(NULL);
	if (data && limits) {
		pcre2_set_match_limit(limits, MATCH_LIMIT);
		found = pcre2_match(code, (PCRE2_SPTR)module, strlen(module), 0, 0, data, limits);
	} else {
		found = PCRE2_ERROR_NOMEMORY;
	}
	pcre2_match_context_free(limits);
	pcre2_match_data_free(data);
	pcre2_code_free(code);
	if (found == PCRE2_ERROR_NOMEMORY)
		return ckpt_fail_nomem(err);
	if (found < 0 && found != PCRE2_ERROR_NOMATCH)
		return ckpt_fail(err, CKPT_E_LIMIT, "'%s' takes too long to match",
				 ckpt_escape(shown, sizeof(shown), as_said, strlen(as_said)));
	return found > 0;
}

int ckpt_quant_target_matches(const char *target, const char *module, struct ckpt_error *err)
{
	return strncmp(target, "re:", 3) != 0 ? !strcmp(target, module)
					      : ckpt_quant_pattern_matches(target + 3, target, module, err);
}

/* 2: GROUP names MODULE, 1: perhaps, by a class, 0: not. */
static int group_means(const json_t *group, const char *module, struct ckpt_error *err)
{
	const json_t *targets = json_object_get(group, "targets"), *target;
	int means = 0;
	size_t i;

	json_array_foreach(targets, i, target)
	{
		const char *text = json_string_value(target);
		int rc = text ? ckpt_quant_target_matches(text, module, err) : 0;

		if (rc < 0)
			return rc;
		if (rc)
			return 2;
		if (text && strncmp(text, "re:", 3) && !strchr(text, '.'))
			means = 1; /* "Linear": a file does not say the classes of modules */
	}
	return means;
}

/* *OUT stays as it is where SAYS has no format. */
static int take_format(const json_t *says, const char **out, struct ckpt_error *err)
{
	const json_t *v = json_object_get(says, "format");

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v))
		return ckpt_fail(err, CKPT_E_FORMAT, "format is no text");
	*out = json_string_value(v);
	return 0;
}

int ckpt_quant_config_weights(const struct ckpt_quant_config *c, const char *module,
			      const json_t **out, const char **format, struct ckpt_error *err)
{
	const json_t *groups = json_object_get(c->says, "config_groups"), *group, *best = NULL;
	const char *key;
	int means = 0, rc;
	bool is_ambiguous = false;
	char shown[160];

	*out = NULL;
	*format = NULL;
	rc = take_format(c->says, format, err);
	if (rc == 0 && groups && !json_is_null(groups) && !json_is_object(groups))
		rc = ckpt_fail(err, CKPT_E_FORMAT, "config_groups is no JSON object");
	if (rc < 0)
		return rc;
	json_object_foreach((json_t *)groups, key, group)
	{
		int now;

		if (!json_is_object(group)) /* {"W8A16": ["Linear"]} */
			return ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"the group '%s' of config_groups is the name of a preset, which ckpt does not know",
				ckpt_escape(shown, sizeof(shown), key, strlen(key)));
		/* of activations or attention alone: no weight of it is quantized */
		if (!json_object_get(group, "weights") || json_is_null(json_object_get(group, "weights")))
			continue;
		now = group_means(group, module, err);
		if (now < 0)
			return now;
		is_ambiguous |= now && now == means &&
				!json_equal(json_object_get(best, "weights"), json_object_get(group, "weights"));
		if (is_ambiguous && !c->is_overruled)
			return ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"two groups of the configuration mean '%s', and say different things of it",
				ckpt_escape(shown, sizeof(shown), module, strlen(module)));
		if (now > means) {
			means = now;
			best = group;
			is_ambiguous = false;
		}
	}
	if (!best && json_object_size(groups) && !c->is_overruled)
		return ckpt_fail(err, CKPT_E_FORMAT, "'%s' is quantized, and the configuration names it nowhere (config_groups)",
				 ckpt_escape(shown, sizeof(shown), module, strlen(module)));
	if (!best || is_ambiguous)
		return 0;
	*out = json_object_get(best, "weights");
	return take_format(best, format, err);
}
