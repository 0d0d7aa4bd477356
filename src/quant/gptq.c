/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPTQ and AWQ, whose weights are stored [in, out] and packed, so that the plain weight is the transpose.
 * Sources: auto_gptq 0.7.1, nn_modules/qlinear/qlinear_cuda_old.py and qlinear_cuda.py; gptqmodel 7.7,
 * utils/model_dequant.py, convert_gptq_v1_to_v2_format(); AutoAWQ 0.2.9, utils/packing_utils.py.
 *
 * A zero point of GPTQ's first form is stored less 1, modulo 2 to the power of its bits (of 3 bits
 * auto_gptq adds the 1 without that). Both multiply in the dtype of the scales.
 *
 * Symmetric (sym of GPTQ, not zero_point of AWQ) means the zero point in the middle of the codes: vLLM's Marlin kernels take that
 * and do not read qzeros (0.11, layers/quantization/gptq_marlin.py, TYPE_MAP), others read them.
 */
#include "quant/fill.h"

#include "base/text.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ORDER = 4 << 20 }; /* bytes of a g_idx */

static int check_words(const struct ckpt_quant_group *g, enum ckpt_part_role role,
		       struct ckpt_error *err)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, role);

	return t->dtype == CKPT_DTYPE_INT32 && t->ndim == 2
		       ? 0
		       : ckpt_quant_misfit(g, role, err, "wanted int32 words, two dimensions");
}

static int check_common(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	int rc = check_words(g, CKPT_PART_ITEMS, err);

	if (rc == 0 && !g->parts[CKPT_PART_ZEROS].entry)
		rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "its qzeros are missing");
	if (rc == 0)
		rc = check_words(g, CKPT_PART_ZEROS, err);
	if (rc == 0 && (scales->ndim != 2 || !ckpt_fill_is_wide(scales->dtype)))
		rc = ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
				       "wanted float16, bfloat16 or float32, two dimensions");
	return rc;
}

/*
 * ROWS inputs, COLS outputs: the plain weight is [COLS, ROWS]. GROUP: inputs for one scale; the scales have
 * a row for each.
 */
static int fill_shape(struct ckpt_quant_group *g, uint64_t rows, uint64_t cols, int64_t group,
		      struct ckpt_error *err)
{
	const struct ckpt_tensor *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	struct ckpt_quant_weight *w = &g->weight;
	uint64_t size = group > 0 ? (uint64_t)group : rows, groups;
	int rc;

	if (!rows || !cols)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "empty");
	groups = rows / size + (rows % size != 0);
	if (scales->shape[0] != groups || scales->shape[1] != cols)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted [%" PRIu64 ", %" PRIu64 "]: groups of %" PRIu64
					 " of %" PRIu64 " inputs",
					 groups, cols, size, rows);
	g->ndim = 2;
	g->shape[0] = cols;
	g->shape[1] = rows;
	if (ckpt_shape_numel(g->shape, 2) > UINT64_MAX / 8)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "too large");
	w->matrices = 1;
	w->rows = rows;
	w->cols = cols;
	w->transposed = true;
	w->code = CKPT_QUANT_BITS;
	w->item = CKPT_DTYPE_INT32;
	w->block_rows = size;
	w->block_cols = 1;
	w->scale_dtype = scales->dtype;
	w->zero = CKPT_QUANT_ZERO_BITS;
	ckpt_fill_arithmetic(g, scales->dtype, scales->dtype, scales->dtype);
	rc = ckpt_quant_bytes(g, CKPT_PART_ITEMS, &w->items, err);
	if (rc == 0)
		rc = ckpt_quant_bytes(g, CKPT_PART_SCALES, &w->scales, err);
	return rc < 0 ? rc : ckpt_quant_bytes(g, CKPT_PART_ZEROS, &w->zeros, err);
}

/* Inputs for one scale: as the configuration says (-1: all); else the scales' rows tell. */
static int find_group_size(const struct ckpt_quant_group *g, const char *key, const char *old_key,
			   uint64_t rows, int64_t *out, struct ckpt_error *err)
{
	const json_t *says = g->quant->config.says, *said = json_object_get(says, key);
	uint64_t groups = ckpt_quant_tensor(g, CKPT_PART_SCALES)->shape[0];

	if (!said) {
		key = old_key;
		said = json_object_get(says, key);
	}
	if (said && !json_is_integer(said))
		return ckpt_error_at(err, ckpt_fail(err, CKPT_E_FORMAT, "%s is no integer", key),
				     g->quant->config.path, NULL, CKPT_NO_OFFSET);
	*out = said ? json_integer_value(said) : 0;
	if (*out == -1 || *out > 0)
		return 0;
	if (said)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "the configuration says groups of %" PRId64, *out);
	if (!groups || rows % groups)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "%" PRIu64 " inputs are no multiple of that", rows);
	*out = (int64_t)(rows / groups);
	/* the last group may be short, where no g_idx tells: packages have sizes that are powers of 2 */
	for (uint64_t size = 8; !ckpt_quant_tensor(g, CKPT_PART_GROUPS) && size < rows && rows / groups & (rows / groups - 1); size *= 2)
		if (rows / size + (rows % size != 0) == groups)
			return ckpt_quant_misfit(g, CKPT_PART_SCALES, err, "%" PRIu64 " inputs can be in groups of %" PRIu64 " or of %" PRIu64 ", and there is no configuration that says which",
						 rows, size, rows / groups);
	return 0;
}

static const char *find_bits(const struct ckpt_quant_group *g, uint32_t *bits)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS),
				 *zeros = ckpt_quant_tensor(g, CKPT_PART_ZEROS);
	bool is_said = json_object_get(g->quant->config.says, "bits");
	int64_t says = ckpt_quant_config_int(g->quant->config.says, "bits", 0);
	/* zero points of 32 outputs take BITS words */
	uint64_t words = items->shape[1] % 32 ? 0 : items->shape[1] / 32, by_shape = 0;

	if (words && zeros->shape[1] % words == 0)
		by_shape = zeros->shape[1] / words;
	for (uint64_t b = 2; !words && b <= 8;
	     b += b == 4 ? 4 : 1) /* fewer than 32 outputs, which fill whole words */
		if (items->shape[1] * b % 32 == 0 && zeros->shape[1] == items->shape[1] * b / 32)
			by_shape = b;
	*bits = says > 0 && says <= 8 ? (uint32_t)says : by_shape <= 8 ? (uint32_t)by_shape : 0;
	if (is_said && (says < 1 || says > 8 || (by_shape && (uint64_t)says != by_shape)))
		return "the configuration says another number of bits";
	return *bits == 2 || *bits == 3 || *bits == 4 || *bits == 8
		       ? NULL
		       : "of a number of bits that GPTQ does not have (2, 3, 4, 8)";
}

/*
 * Without desc_act the groups are those of inputs that follow each other, and some kernels do not look at g_idx: what says
 * another order has two readings.
 */
static int check_order(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const json_t *says = g->quant->config.says;
	const uint8_t *bytes;
	int32_t group;
	size_t len;
	int rc;

	if (ckpt_quant_config_true(says, "desc_act", true) ||
	    !json_is_boolean(json_object_get(says, "desc_act")))
		return 0;
	rc = ckpt_quant_read(g, CKPT_PART_GROUPS, MOST_ORDER, &bytes, &len, err);
	for (uint64_t i = 0; rc == 0 && i < len / sizeof(group); i++) {
		memcpy(&group, bytes + i * sizeof(group), sizeof(group));
		if (group < 0 || (uint64_t)group != i / g->weight.block_rows)
			return ckpt_quant_misfit(
				g, CKPT_PART_GROUPS, err,
				"input %" PRIu64 " is of group %" PRId32
				", and the configuration says that desc_act is false: it would be of group %" PRIu64,
				i, group, i / g->weight.block_rows);
	}
	return rc;
}

/*
 * gptqmodel 7.7, quantization/config.py, dynamic_get(): patterns of modules, those with "-:" are not quantized, others have settings of
 * their own; the first one that means a module counts. *SAYS: those settings, or NULL.
 */
static int find_dynamic(const struct ckpt_quant_group *g, const json_t **says,
			struct ckpt_error *err)
{
	const json_t *dynamic = json_object_get(g->quant->config.says, "dynamic"), *one;
	char *module = strndup(g->base, g->base_len), shown[120];
	const char *key;
	int rc = module ? 0 : ckpt_fail_nomem(err);

	*says = NULL;
	if (rc == 0 && dynamic && !json_is_null(dynamic) && !json_is_object(dynamic))
		rc = ckpt_fail(err, CKPT_E_FORMAT, "dynamic is no JSON object");
	json_object_foreach((json_t *)dynamic, key, one)
	{
		bool excludes = !strncmp(key, "-:", 2);

		if (rc == 0)
			rc = ckpt_quant_pattern_matches(key + (excludes || !strncmp(key, "+:", 2) ? 2 : 0), key, module, err);
		if (rc > 0 && excludes)
			rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					       "the configuration excludes '%s' (dynamic)",
					       ckpt_escape(shown, sizeof(shown), key, strlen(key)));
		else if (rc > 0)
			*says = one;
		if (rc)
			break;
	}
	free(module);
	return rc < 0 ? rc : 0;
}

/* What changes numbers in a way that nothing here undoes, or says of the words what they are not. */
static int check_settings(const struct ckpt_quant_group *g, const json_t *own,
			  struct ckpt_error *err)
{
	static const char *const keys[] = { "bits", "group_size", "desc_act", "sym", "format", "checkpoint_format", "pack_dtype", "method" };
	const json_t *says = g->quant->config.says, *rotation = json_object_get(says, "rotation");
	const char *words = ckpt_quant_config_text(says, "pack_dtype"), *method = ckpt_quant_config_text(says, "method");
	char shown[80];

	if (method && strcmp(method, "gptq") != 0)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says the method '%s'",
					 ckpt_escape(shown, sizeof(shown), method, strlen(method)));

	if (words && strcmp(words, "int32") != 0)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "the configuration says words of %s (pack_dtype)",
					 ckpt_escape(shown, sizeof(shown), words, strlen(words)));
	if (rotation && !json_is_null(rotation))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"rotation says that weights are rotated, which ckpt does not undo");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *one = json_object_get(own, keys[i]),
			     *all = json_object_get(says, keys[i]);

		if ((i == 2 || i == 3) && all && !json_is_null(all) && !json_is_boolean(all))
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
						 "the configuration's %s is neither true nor false",
						 keys[i]);
		if (one && !json_equal((json_t *)one, (json_t *)all))
			return ckpt_quant_misfit(
				g, CKPT_PART_ITEMS, err,
				"the configuration says another %s of this module (dynamic), which ckpt does not know",
				keys[i]);
	}
	return 0;
}

/* The middle of the codes; W.bits is known. */
static void set_only_zero(struct ckpt_quant_group *g)
{
	g->weight.only_zeros = ckpt_quant_tensor(g, CKPT_PART_ZEROS)->name;
	g->weight.only_zero = 1 << (g->weight.bits - 1);
}

/*
 * gptqmodel 7.7, nn_modules/qlinear/torch.py, TorchQuantEmbeddings: the weight of an embedding is packed as it is, and that of a layer
 * turned around; nothing in the file tells. The vocabulary is one side of an embedding, and the other one of the last layer; else the
 * name is all that there is: "embed_tokens", "wte", "shared" (T5), and not "embed_proj", which is a layer.
 */
static bool is_embedding(const struct ckpt_quant_group *g, uint64_t inputs, uint64_t outputs)
{
	static const char *const layers[] = { "proj", "dense", "linear", "mapping", "out" };
	const json_t *root = g->quant->config.root;
	int64_t said = ckpt_quant_config_int(root, "vocab_size", ckpt_quant_config_int(json_object_get(root, "text_config"), "vocab_size", 0));
	uint64_t words = said > 0 ? (uint64_t)said : 0;
	const char *dot = memrchr(g->base, '.', g->base_len), *last = dot ? dot + 1 : g->base;
	size_t len = g->base_len - (size_t)(last - g->base);

	if (words && (inputs == words) != (outputs == words))
		return inputs == words;
	for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
		if (memmem(last, len, layers[i], strlen(layers[i])))
			return false;
	return (len == 3 && (!memcmp(last, "wte", 3) || !memcmp(last, "wpe", 3))) || (len == 6 && !memcmp(last, "shared", 6)) || memmem(last, len, "emb", 3);
}

int ckpt_fill_gptq(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS), *zeros,
				 *groups = ckpt_quant_tensor(g, CKPT_PART_GROUPS),
				 *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	struct ckpt_quant_weight *w = &g->weight;
	const char *why;
	const json_t *own;
	uint64_t inputs, cols;
	int64_t size;
	int rc = check_common(g, err);

	if (rc == 0)
		rc = find_dynamic(g, &own, err);
	if (rc == 0)
		rc = check_settings(g, own, err);
	if (rc < 0)
		return rc;
	zeros = ckpt_quant_tensor(g, CKPT_PART_ZEROS);
	why = find_bits(g, &w->bits);
	if (why)
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err, "%s", why);
	cols = items->shape[1];
	if (items->shape[0] > UINT64_MAX / 64 || (items->shape[0] * 32) % w->bits)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "its rows are no whole numbers of %u bits", w->bits);
	inputs = items->shape[0] * 32 / w->bits;
	if (is_embedding(g, groups && groups->ndim == 1 ? groups->shape[0] : inputs, cols))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%.200s' is an embedding, whose weight gptqmodel does not turn around: ckpt does not know that", items->name);
	if (cols > UINT64_MAX / 64 || zeros->shape[0] != scales->shape[0] ||
	    zeros->shape[1] != cols / 32 * w->bits + (cols % 32 * w->bits + 31) / 32)
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err,
					 "wanted a row for each of the scales, with %" PRIu64
					 " numbers of %u bits",
					 cols, w->bits);
	rc = find_group_size(g, "group_size", "group_size", inputs, &size, err);
	if (rc == 0)
		rc = fill_shape(g, inputs, cols, size, err);
	if (rc < 0)
		return rc;
	w->packed = CKPT_QUANT_ALONG_ROWS;
	w->zero_packed = CKPT_QUANT_ALONG_COLS;
	w->dense = true;
	w->zero_add = !strcmp(g->quant->format->name, "gptq");
	w->zero_wraps = w->bits != 3 && g->quant->release != CKPT_QUANT_RELEASE_AUTO_GPTQ_0_6;
	if (ckpt_quant_config_true(g->quant->config.says, "sym", false) && !g->quant->config.is_overruled)
		set_only_zero(g);
	snprintf(g->scheme, sizeof(g->scheme), "GPTQ, %u bits, groups of %" PRIu64 "%s", w->bits,
		 w->block_rows,
		 ckpt_quant_config_true(g->quant->config.says, "desc_act", false)
			 ? ", in an order of their own"
			 : "");
	if (!groups && ckpt_quant_config_true(g->quant->config.says, "desc_act", false))
		return ckpt_quant_misfit(
			g, CKPT_PART_ITEMS, err,
			"the configuration says desc_act, and its g_idx is missing");
	if (!groups)
		return 0;
	if (groups->dtype != CKPT_DTYPE_INT32 || groups->ndim != 1 || groups->shape[0] != inputs)
		return ckpt_quant_misfit(g, CKPT_PART_GROUPS, err, "wanted int32 [%" PRIu64 "]",
					 inputs);
	rc = check_order(g, err);
	return rc < 0 ? rc : ckpt_quant_bytes(g, CKPT_PART_GROUPS, &w->group_of_row, err);
}

/* transformers' and AWQ's own names of the same settings; and llm-awq, whose layout is another one. */
static int check_old_names(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	static const char *const keys[][2] = { { "bits", "w_bit" },
					       { "group_size", "q_group_size" } };
	const json_t *says = g->quant->config.says;
	const char *backend = ckpt_quant_config_text(says, "backend");

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *one = json_object_get(says, keys[i][0]),
			     *two = json_object_get(says, keys[i][1]);

		for (size_t k = 0; !i && k < 2; k++) /* find_group_size() looks at the others */
			if (json_object_get(says, keys[i][k]) && !json_is_integer(json_object_get(says, keys[i][k])))
				return ckpt_error_at(err, ckpt_fail(err, CKPT_E_FORMAT, "%s is no integer", keys[i][k]),
						     g->quant->config.path, NULL, CKPT_NO_OFFSET);
		if (one && two && !json_equal((json_t *)one, (json_t *)two))
			return ckpt_error_at(err,
					     ckpt_fail(err, CKPT_E_FORMAT,
						       "%s and %s say different things", keys[i][0],
						       keys[i][1]),
					     g->quant->config.path, NULL, CKPT_NO_OFFSET);
	}
	if (backend && !strcmp(backend, "llm-awq"))
		return ckpt_error_at(
			err,
			ckpt_fail(err, CKPT_E_UNSUPPORTED,
				  "AWQ's layout is that of llm-awq, and only 'gemm' is known"),
			g->quant->config.path, NULL, CKPT_NO_OFFSET);
	return 0;
}

/*
 * transformers 5.24, AwqConfig: version, checkpoint_format and format are names of one setting, the first of them that is said counts
 * there, and capitals do not.
 */
static int check_layout(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	static const char *const keys[] = { "version", "checkpoint_format", "format" };
	char shown[80];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *v = json_object_get(g->quant->config.says, keys[i]);
		const char *text = json_string_value(v);

		if (!v || json_is_null(v))
			continue;
		if (!text)
			rc = ckpt_fail(err, CKPT_E_FORMAT, "%s is no text", keys[i]);
		else if (!ckpt_quant_same_text(text, "gemm"))
			rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "AWQ's layout is '%s' (%s), and only 'gemm' is known",
				       ckpt_escape(shown, sizeof(shown), text, strlen(text)), keys[i]);
	}
	return ckpt_error_at(err, rc, g->quant->config.path, NULL, CKPT_NO_OFFSET);
}

int ckpt_fill_awq(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS), *zeros,
				 *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	const json_t *says = g->quant->config.says, *has = json_object_get(says, "zero_point");
	struct ckpt_quant_weight *w = &g->weight;
	int64_t size,
		bits = ckpt_quant_config_int(says, "bits", ckpt_quant_config_int(says, "w_bit", 4));
	int rc = check_common(g, err);

	if (rc == 0)
		rc = check_old_names(g, err);
	if (rc < 0)
		return rc;
	if (has && !json_is_null(has) && !json_is_boolean(has))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration's zero_point is neither true nor false");
	rc = check_layout(g, err);
	if (rc < 0)
		return rc;
	zeros = ckpt_quant_tensor(g, CKPT_PART_ZEROS);
	if (bits != 4 || items->shape[1] > UINT64_MAX / 8)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "the configuration says %" PRId64 " bits, and AWQ has 4",
					 bits);
	if (zeros->shape[0] != scales->shape[0] || zeros->shape[1] != items->shape[1])
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err,
					 "wanted [%" PRIu64 ", %" PRIu64 "]", scales->shape[0],
					 items->shape[1]);
	w->bits = 4;
	rc = find_group_size(g, "group_size", "q_group_size", items->shape[0], &size, err);
	if (rc == 0 && size > 0 && items->shape[0] % (uint64_t)size)
		rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
				       "its rows are no whole groups of %" PRId64, size);
	if (rc == 0)
		rc = fill_shape(g, items->shape[0], items->shape[1] * 8, size, err);
	w->packed = w->zero_packed = CKPT_QUANT_AWQ;
	if (!ckpt_quant_config_true(says, "zero_point", true) && !g->quant->config.is_overruled)
		set_only_zero(g);
	snprintf(g->scheme, sizeof(g->scheme), "AWQ, 4 bits, groups of %" PRIu64, w->block_rows);
	return rc;
}
