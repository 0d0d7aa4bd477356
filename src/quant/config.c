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

static void set_format(struct ckpt_quant_config *c, const char *method)
{
	c->format = "";
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].method, method))
			c->format = methods[i].format;
	ckpt_escape(c->method, sizeof(c->method), method, strlen(method));
}

/* gptqmodel: checkpoint_format, "gptq" or "gptq_v2"; packings of its own have other names. */
static void set_gptq_version(struct ckpt_quant_config *c)
{
	const char *form = ckpt_quant_config_text(c->says, "checkpoint_format");

	if (strcmp(c->format, "gptq") != 0 || !form || !strcmp(form, "gptq"))
		return;
	c->format = !strcmp(form, "gptq_v2") ? "gptq_v2" : "";
	snprintf(c->method, sizeof(c->method), "gptq, %.60s", form);
}

/* 1: it says how weights are quantized, 0: it does not. */
static int look_at_root(struct ckpt_quant_config *c, struct ckpt_error *err)
{
	const json_t *q = json_object_get(c->root, "quantization_config"),
		     *older = json_object_get(c->root, "compression_config");
	const char *method;

	if (!json_is_object(c->root))
		return ckpt_fail(err, CKPT_E_FORMAT, "is no JSON object");
	if ((q && !json_is_object(q) && !json_is_null(q)) ||
	    (older && !json_is_object(older) && !json_is_null(older)))
		return ckpt_fail(err, CKPT_E_FORMAT, "%s is no JSON object",
				 q && !json_is_object(q) && !json_is_null(q)
					 ? "quantization_config"
					 : "compression_config");
	if (json_is_object(q) && json_is_object(older) && !json_equal((json_t *)q, (json_t *)older))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "quantization_config and compression_config say different things");
	if (!json_is_object(q))
		q = older;
	if (json_is_object(q)) {
		c->says = q;
		method = ckpt_quant_config_text(q, "quant_method");
		if (!method &&
		    (json_object_get(q, "load_in_4bit") || json_object_get(q, "load_in_8bit")))
			method =
				"bitsandbytes"; /* transformers, AutoQuantizationConfig.from_dict() */
		/* older files of compressed-tensors do not say it */
		set_format(c, method ? method
			      : json_object_get(q, "config_groups")
				      ? "compressed-tensors"
				      : "a configuration without quant_method");
		set_gptq_version(c);
		return 1;
	}
	q = json_object_get(c->root, "quantization"); /* of hf_quant_config.json */
	if (json_is_object(q) && json_object_get(q, "quant_algo")) {
		c->says = q;
		set_format(c, "modelopt");
		return 1;
	}
	if (json_object_get(c->root, "bits") && json_object_get(c->root, "desc_act")) {
		c->says = c->root;
		set_format(c, "gptq");
		set_gptq_version(c);
		return 1;
	}
	if (json_object_get(c->root, "w_bit") && json_object_get(c->root, "q_group_size")) {
		c->says = c->root;
		set_format(c, "awq");
		return 1;
	}
	return 0;
}

/* How many bytes of a number, or of Infinity or NaN, begin at TEXT; 0: none. */
static size_t number_len(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && (strchr("+-.eE0123456789", text[n]) || strchr("InfityNa", text[n])) &&
	       text[n])
		n++;
	return n;
}

/*
 * Python writes and reads numbers that JSON does not have, or jansson: infinities, NaN, exponents and integers of any
 * length; and a byte order mark. Nothing that quantization is described by is among them: they become 0. The copy is to be freed.
 */
static char *make_strict(const char *text, size_t len)
{
	enum { LONGEST = 17 };
	char *copy = malloc(len + 1);
	bool in_text = false;

	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (len >= 3 && !memcmp(copy, "\xEF\xBB\xBF", 3))
		memset(copy, ' ', 3);
	for (size_t i = 0, n; i < len; i += n) {
		n = 1;
		if (in_text && copy[i] == '\\') {
			n = 2;
		} else if (copy[i] == '"') {
			in_text = !in_text;
		} else if (!in_text && strchr("-0123456789IN", copy[i]) && copy[i]) {
			n = number_len(copy + i, len - i);
			if (n > LONGEST || memchr(copy + i, 'I', n) || memchr(copy + i, 'N', n) ||
			    memchr(copy + i, 'e', n) || memchr(copy + i, 'E', n)) {
				memset(copy + i, ' ', n);
				copy[i] = '0';
			}
		}
	}
	return copy;
}

int ckpt_quant_config_parse(const char *text, size_t len, struct ckpt_quant_config *out,
			    struct ckpt_error *err)
{
	char shown[120];
	json_error_t error;
	char *strict;
	int rc;

	*out = (struct ckpt_quant_config){ 0 };
	if (!len)
		return 0;
	strict = make_strict(text, len);
	if (!strict)
		return ckpt_fail_nomem(err);
	out->root = json_loadb(strict, len, JSON_REJECT_DUPLICATES, &error);
	free(strict);
	if (!out->root)
		return ckpt_fail(err, CKPT_E_FORMAT, "is not JSON: %s",
				 ckpt_escape(shown, sizeof(shown), error.text, strlen(error.text)));
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
		if (err)
			*err = why;
		return rc;
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

/* What two files of a folder may both say: some loaders take the one, some the other. */
static int compare_files(const struct ckpt_quant_config *c, const struct ckpt_quant_config *other,
			 struct ckpt_error *err)
{
	static const char *const keys[] = { "quant_algo", "bits", "desc_act", "w_bit",
					    "q_group_size" };
	const char *differs = strcmp(c->format, other->format) != 0 ? "format" : NULL;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !differs; i++) {
		const json_t *one = json_object_get(c->says, keys[i]),
			     *two = json_object_get(other->says, keys[i]);

		if (one && two && !json_equal((json_t *)one, (json_t *)two))
			differs = keys[i];
	}
	if (!differs)
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_FORMAT, "says another %s than %s beside it",
				       differs, base_name(c->path)),
			     other->path, NULL, CKPT_NO_OFFSET);
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
		ckpt_quant_config_clear(&other);
	}
	if (rc < 0)
		ckpt_quant_config_clear(out);
	free(folder);
	return rc < 0 ? rc : 0;
}

/* ---- compressed-tensors: groups of modules ---- */

int ckpt_quant_target_matches(const char *target, const char *module, struct ckpt_error *err)
{
	pcre2_match_data *data;
	pcre2_match_context *limits;
	pcre2_code *code;
	PCRE2_SIZE where;
	int why, found;
	char shown[120];

	if (strncmp(target, "re:", 3) != 0)
		return !strcmp(target, module);
	code = pcre2_compile((PCRE2_SPTR)target + 3, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED, &why,
			     &where, NULL);
	if (!code)
		return ckpt_fail(err, CKPT_E_FORMAT, "'%s' is no pattern",
				 ckpt_escape(shown, sizeof(shown), target, strlen(target)));
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
				 ckpt_escape(shown, sizeof(shown), target, strlen(target)));
	return found > 0;
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

int ckpt_quant_config_weights(const struct ckpt_quant_config *c, const char *module,
			      const json_t **out, const char **format, struct ckpt_error *err)
{
	const json_t *groups = json_object_get(c->says, "config_groups"), *group, *best = NULL;
	const char *key;
	int means = 0;
	char shown[160];

	*out = NULL;
	*format = ckpt_quant_config_text(c->says, "format");
	json_object_foreach((json_t *)groups, key, group)
	{
		int now = json_object_size(groups) == 1 ? 1 : group_means(group, module, err);

		if (now < 0)
			return now;
		if (now && now == means &&
		    !json_equal(json_object_get(best, "weights"),
				json_object_get(group, "weights")))
			return ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"two groups of the configuration mean '%s', and say different things of it",
				ckpt_escape(shown, sizeof(shown), module, strlen(module)));
		if (now > means) {
			means = now;
			best = group;
		}
	}
	if (!best)
		return 0;
	*out = json_object_get(best, "weights");
	if (ckpt_quant_config_text(best, "format"))
		*format = ckpt_quant_config_text(best, "format");
	return 0;
}
