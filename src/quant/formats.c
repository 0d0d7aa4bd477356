/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of formats: what the parts of a weight are called, and what their dtypes, shapes and the
 * configuration mean. Where a fact is from stands with each; docs/quantized.md says the same in words,
 * and tests/interop/quantized_references.py holds it against the packages themselves.
 *
 * What must stay true: a function here either proves all that it says of a weight, or refuses. Nothing is
 * taken from one part alone where another part or the configuration says it, too.
 */
#include "quant/fill.h"

#include "base/text.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_float8(enum ckpt_dtype dtype)
{
	return dtype == CKPT_DTYPE_FLOAT8_E4M3FN || dtype == CKPT_DTYPE_FLOAT8_E5M2 ||
	       dtype == CKPT_DTYPE_FLOAT8_E4M3FNUZ || dtype == CKPT_DTYPE_FLOAT8_E5M2FNUZ;
}

static bool is_byte_or_fp4(enum ckpt_dtype dtype)
{
	return is_float8(dtype) || dtype == CKPT_DTYPE_INT8 || dtype == CKPT_DTYPE_UINT8 ||
	       dtype == CKPT_DTYPE_FLOAT4_E2M1FN_X2;
}

static bool is_byte(enum ckpt_dtype dtype)
{
	return is_float8(dtype) || dtype == CKPT_DTYPE_INT8 || dtype == CKPT_DTYPE_UINT8;
}

static bool is_none(enum ckpt_dtype dtype)
{
	(void)dtype;
	return false;
}

/* ---- shapes ---- */

/*
 * Items of the shape [.., M, N], PER to each stored one along the last dimension: sets matrices, rows, cols, the shape
 * of the plain weight.
 */
int ckpt_fill_items(struct ckpt_quant_group *g, uint64_t per, struct ckpt_error *err)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_ITEMS);
	struct ckpt_quant_weight *w = &g->weight;

	if (t->ndim < 2)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "a quantized weight has two dimensions or more");
	memcpy(g->shape, t->shape, t->ndim * sizeof(*g->shape));
	g->ndim = t->ndim;
	if (__builtin_mul_overflow(g->shape[g->ndim - 1], per, &g->shape[g->ndim - 1]))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "too large");
	w->rows = g->shape[g->ndim - 2];
	w->cols = g->shape[g->ndim - 1];
	w->matrices = ckpt_shape_numel(g->shape, g->ndim - 2);
	if (ckpt_shape_numel(g->shape, g->ndim) > UINT64_MAX / 8)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "too large");
	return ckpt_quant_bytes(g, CKPT_PART_ITEMS, &w->items, err);
}

static uint64_t ceil_of(uint64_t a, uint64_t b)
{
	return b ? a / b + (a % b != 0) : 1;
}

/* Is the shape of ROLE that of the items, its last two dimensions ROWS and COLS? */
bool ckpt_fill_has_shape(const struct ckpt_quant_group *g, enum ckpt_part_role role, uint64_t rows,
			 uint64_t cols)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, role);

	if (t->ndim != g->ndim || t->shape[t->ndim - 2] != rows || t->shape[t->ndim - 1] != cols)
		return false;
	for (uint32_t i = 0; i + 2 < t->ndim; i++)
		if (t->shape[i] != g->shape[i])
			return false;
	return true;
}

/* One number, or one for each matrix. */
bool ckpt_fill_is_single(const struct ckpt_quant_group *g, enum ckpt_part_role role)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, role);
	uint64_t numel = ckpt_shape_numel(t->shape, t->ndim);

	if (numel == 1 && t->ndim <= 1)
		return true;
	return ckpt_fill_has_shape(g, role, 1, 1) ||
	       (g->ndim > 2 && t->ndim == g->ndim - 2 &&
		!memcmp(t->shape, g->shape, t->ndim * sizeof(*t->shape)));
}

/* Scales for blocks of BLOCK_ROWS x BLOCK_COLS; 0: the whole side. Their dtype is not looked at. */
int ckpt_fill_blocks(struct ckpt_quant_group *g, uint64_t block_rows, uint64_t block_cols,
		     struct ckpt_error *err)
{
	struct ckpt_quant_weight *w = &g->weight;
	uint64_t rows = ceil_of(w->rows, block_rows), cols = ceil_of(w->cols, block_cols);

	if (!ckpt_fill_has_shape(g, CKPT_PART_SCALES, rows, cols))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted [%s%" PRIu64 ", %" PRIu64 "] for %" PRIu64
					 " x %" PRIu64 " numbers",
					 g->ndim > 2 ? "..., " : "", rows, cols, w->rows, w->cols);
	w->block_rows = block_rows;
	w->block_cols = block_cols;
	w->scale_dtype = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype;
	return ckpt_quant_bytes(g, CKPT_PART_SCALES, &w->scales, err);
}

/* One scale for all, or for each matrix. */
int ckpt_fill_single(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	struct ckpt_quant_weight *w = &g->weight;
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_SCALES);

	if (ckpt_shape_numel(t->shape, t->ndim) != w->matrices) { /* one for all of several */
		if (w->matrices && __builtin_mul_overflow(w->rows, w->matrices, &w->rows))
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "too large");
		if (!w->matrices)
			w->rows = 0;
		w->matrices = 1;
	}
	w->block_rows = w->block_cols = 0;
	w->scale_dtype = t->dtype;
	return ckpt_quant_bytes(g, CKPT_PART_SCALES, &w->scales, err);
}

/* One for each row: [.., M] or [.., M, 1]. */
bool ckpt_fill_is_by_row(const struct ckpt_quant_group *g)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_SCALES);

	return ckpt_fill_has_shape(g, CKPT_PART_SCALES, g->weight.rows, 1) ||
	       (t->ndim == g->ndim - 1 && !memcmp(t->shape, g->shape, t->ndim * sizeof(*t->shape)));
}

int ckpt_fill_by_row(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	g->weight.block_rows = 1;
	g->weight.block_cols = 0;
	g->weight.scale_dtype = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype;
	return ckpt_quant_bytes(g, CKPT_PART_SCALES, &g->weight.scales, err);
}

void ckpt_fill_arithmetic(struct ckpt_quant_group *g, enum ckpt_dtype scale_in,
			  enum ckpt_dtype difference, enum ckpt_dtype product)
{
	g->weight.scale_in = scale_in;
	g->weight.difference = difference;
	g->weight.product = product;
}

bool ckpt_fill_is_wide(enum ckpt_dtype dtype)
{
	return dtype == CKPT_DTYPE_FLOAT32 || dtype == CKPT_DTYPE_FLOAT16 ||
	       dtype == CKPT_DTYPE_BFLOAT16;
}

/* ---- fp8: DeepSeek V3, Qwen, MiniMax, and FP4 experts of DeepSeek V4 ---- */

/*
 * Sources: DeepSeek-V3, inference/kernel.py, weight_dequant(): the product in float32, rounded once;
 * transformers 5.24, integrations/finegrained_fp8.py. Of the latter's "block as the shapes divide" nothing is taken: the block is what
 * weight_block_size says, as DeepSeek and compressed-tensors have it. Two FP4 in a byte: _dequantize_one() there.
 */
static const struct ckpt_quant_suffix fp8_suffixes[] = {
	{ ".weight", CKPT_PART_ITEMS },
	{ "", CKPT_PART_ITEMS },
	{ ".weight_scale_inv", CKPT_PART_SCALES },
	{ "_scale_inv", CKPT_PART_SCALES },
	{ ".scale", CKPT_PART_SCALES },
	{ ".activation_scale", CKPT_PART_ACTIVATIONS },
	{ "_activation_scale", CKPT_PART_ACTIVATIONS },
	{ ".input_scale", CKPT_PART_ACTIVATIONS },
	{ 0 },
};

/*
 * gptqmodel 7.7, quantization/config.py, FP8Config: parts of the same names, whose scales divide ("inverse"). What it says besides is
 * none of the configurations of DeepSeek and transformers, and changes numbers.
 */
static int check_not_gptqmodel(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	static const char *const keys[] = { "weight_scale_semantics", "weight_scale_method", "rotation" };
	const json_t *says = g->quant->config.says;
	const char *method = ckpt_quant_config_text(says, "method"), *formats[] = { ckpt_quant_config_text(says, "format"), ckpt_quant_config_text(says, "checkpoint_format") };
	char shown[80];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *one = json_object_get(says, keys[i]);

		if (one && !json_is_null(one))
			return ckpt_fail(err, CKPT_E_UNSUPPORTED, "the configuration says %s, as gptqmodel does, whose FP8 divides by its scales: ckpt does not know that", keys[i]);
	}
	if (method && strcmp(method, "fp8") != 0)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says the method '%s'", ckpt_escape(shown, sizeof(shown), method, strlen(method)));
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i] && !strstr(formats[i], "e4m3"))
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says the format '%s'", ckpt_escape(shown, sizeof(shown), formats[i], strlen(formats[i])));
	return 0;
}

static int fill_fp8(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS),
				 *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	const json_t *block = json_object_get(g->quant->config.says, "weight_block_size"),
		     *says_fmt = json_object_get(g->quant->config.says, "fmt"),
		     *bits = json_object_get(g->quant->config.says, "bits");
	bool is_fp4 =
		     items->dtype == CKPT_DTYPE_INT8 || items->dtype == CKPT_DTYPE_FLOAT4_E2M1FN_X2,
	     is_e8m0 = scales->dtype == CKPT_DTYPE_FLOAT8_E8M0FNU;
	const char *fmt = ckpt_quant_config_text(g->quant->config.says, "fmt");
	int64_t rows = 128, cols = 128;
	char shown[80];
	int rc = check_not_gptqmodel(g, err);

	if (rc < 0)
		return ckpt_error_at(err, rc, g->quant->config.path, NULL, CKPT_NO_OFFSET);
	g->result = *g->parts[CKPT_PART_ITEMS].suffix ? ".weight" : "";
	if (says_fmt && !json_is_null(says_fmt) && !fmt)
		return ckpt_error_at(err, ckpt_fail(err, CKPT_E_FORMAT, "fmt is no text"),
				     g->quant->config.path, NULL, CKPT_NO_OFFSET);
	if (!is_fp4 && fmt && !strstr(fmt, "e4m3"))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says '%s'",
					 ckpt_escape(shown, sizeof(shown), fmt, strlen(fmt)));
	if (!is_fp4 && items->dtype != CKPT_DTYPE_FLOAT8_E4M3FN)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "wanted float8_e4m3fn, as there are scales for it");
	if (!is_fp4 && bits && !json_is_null(bits) && json_integer_value(bits) != 8)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says another number of bits");
	if (is_fp4 && !is_e8m0)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted float8_e8m0fnu for pairs of FP4");
	if (!is_e8m0 && scales->dtype != CKPT_DTYPE_UINT8 && !ckpt_fill_is_wide(scales->dtype))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted float32, bfloat16 or float8_e8m0fnu");
	g->weight.code = is_fp4 ? CKPT_QUANT_E2M1 : CKPT_QUANT_NUMBER;
	g->weight.item = items->dtype;
	g->weight.bits = is_fp4 ? 4 : 8;
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32);
	rc = ckpt_fill_items(g, is_fp4 ? 2 : 1, err);
	if (rc < 0)
		return rc;
	if (is_fp4) {
		snprintf(g->scheme, sizeof(g->scheme), "FP4 (e2m1), a power of 2 for 32 numbers");
		if (g->weight.cols % 32)
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
						 "a row is no multiple of 32 numbers");
		return ckpt_fill_blocks(g, 1, 32, err);
	}
	if (block && !json_is_null(block) && json_array_size(block) != 2)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_FORMAT,
					       "weight_block_size is no pair of sizes"),
				     g->quant->config.path, NULL, CKPT_NO_OFFSET);
	if (json_array_size(block) == 2) {
		rows = json_integer_value(json_array_get(block, 0));
		cols = json_integer_value(json_array_get(block, 1));
		if (rows <= 0 || cols <= 0)
			return ckpt_error_at(err,
					     ckpt_fail(err, CKPT_E_FORMAT,
						       "weight_block_size is no pair of sizes"),
					     g->quant->config.path, NULL, CKPT_NO_OFFSET);
	} else if (ckpt_fill_is_single(g, CKPT_PART_SCALES) &&
		   (g->weight.rows > 128 || g->weight.cols > 128 || g->quant->config.says)) {
		snprintf(g->scheme, sizeof(g->scheme), "FP8 (e4m3), one scale");
		return ckpt_fill_single(g, err);
	} else if (json_is_null(block)) {
		return ckpt_quant_misfit(
			g, CKPT_PART_SCALES, err,
			"the configuration says that there are no blocks (weight_block_size): wanted one number");
	}
	snprintf(g->scheme, sizeof(g->scheme), "FP8 (e4m3), blocks of %" PRId64 " x %" PRId64, rows,
		 cols);
	if (rows == 1 && cols == 32 &&
	    g->weight.cols % 32) /* MX, which has no blocks that are cut off */
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "a row is no multiple of %" PRId64 " numbers", cols);
	return ckpt_fill_blocks(g, (uint64_t)rows, (uint64_t)cols, err);
}

/* ---- modelopt ---- */

/*
 * Source: nvidia-modelopt 0.47, modelopt/torch/quantization/qtensor and export/quant_utils.py: FP8 and
 * INT8 multiply in the dtype that is made, the scale rounded to it first; NVFP4, MXFP4 and MXFP8 in float32, rounded once.
 */
static const struct ckpt_quant_suffix modelopt_suffixes[] = {
	{ ".weight", CKPT_PART_ITEMS },
	{ ".weight_scale", CKPT_PART_SCALES },
	{ ".weight_scale_2", CKPT_PART_GLOBAL },
	{ ".input_scale", CKPT_PART_ACTIVATIONS },
	{ ".output_scale", CKPT_PART_ACTIVATIONS },
	{ ".k_scale", CKPT_PART_ACTIVATIONS },
	{ ".v_scale", CKPT_PART_ACTIVATIONS },
	{ ".q_scale", CKPT_PART_ACTIVATIONS },
	{ ".pre_quant_scale", CKPT_PART_REFUSED },
	{ ".svdquant_lora_a", CKPT_PART_REFUSED },
	{ ".svdquant_lora_b", CKPT_PART_REFUSED },
	{ 0 },
};

int ckpt_fill_no_global(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	return g->parts[CKPT_PART_GLOBAL].entry
		       ? ckpt_quant_misfit(
				 g, CKPT_PART_GLOBAL, err,
				 "of use only beside a weight of FP4 with scales of float8_e4m3fn")
		       : 0;
}

/*
 * ModelOpt's table, which has no -0: NVFP4QTensor.e2m1_values_on_device. All others take the sign bit of
 * zero as it is.
 */
static const float modelopt_e2m1[16] = { 0, 0.5,  1,  1.5,  2,	3,  4,	6,
					 0, -0.5, -1, -1.5, -2, -3, -4, -6 };

int ckpt_fill_nvfp4(struct ckpt_quant_group *g, bool divides, struct ckpt_error *err)
{
	struct ckpt_quant_weight *w = &g->weight;
	int rc;

	if (!g->parts[CKPT_PART_GLOBAL].entry)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "one more scale, for all of these, is missing");
	if (ckpt_quant_tensor(g, CKPT_PART_GLOBAL)->dtype != CKPT_DTYPE_FLOAT32 ||
	    !ckpt_fill_is_single(g, CKPT_PART_GLOBAL))
		return ckpt_quant_misfit(g, CKPT_PART_GLOBAL, err, "wanted one number of float32");
	if (divides && !ckpt_quant_tensor(g, CKPT_PART_GLOBAL)->ndim) /* which torch divides by in another dtype */
		return ckpt_quant_misfit(g, CKPT_PART_GLOBAL, err, "wanted [1]");
	if (w->cols % 16)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "a row is no multiple of 16 numbers");
	w->global_divides = divides;
	snprintf(g->scheme, sizeof(g->scheme), "NVFP4, a scale for 16 numbers");
	rc = ckpt_quant_bytes(g, CKPT_PART_GLOBAL, &w->global, err);
	return rc < 0 ? rc : ckpt_fill_blocks(g, 1, 16, err);
}

/* What ModelOpt's algorithms are: of the weight alone, whatever activations are. */
enum modelopt_kind { MO_ANY, MO_FP8, MO_FP8_ROWS, MO_INT8, MO_NVFP4, MO_MXFP8, MO_MXFP4 };
static const struct {
	const char *algo;
	enum modelopt_kind kind;
} modelopt_algos[] = {
	{ "FP8", MO_FP8 },
	{ "FP8_PER_CHANNEL_PER_TOKEN", MO_FP8_ROWS },
	{ "INT8", MO_INT8 },
	{ "W8A16", MO_INT8 },
	{ "W8A8_SQ_PER_CHANNEL", MO_INT8 },
	{ "NVFP4", MO_NVFP4 },
	{ "W4A16_NVFP4", MO_NVFP4 },
	{ "W4A8_NVFP4_FP8", MO_NVFP4 },
	{ "MXFP8", MO_MXFP8 },
	{ "MXFP4", MO_MXFP4 },
	{ "mxfp4", MO_MXFP4 }, /* ModelOpt 0.41 to 0.47 */
	{ "W4A8_MXFP4_FP8", MO_MXFP4 },
	{ "MIXED_PRECISION", MO_ANY },
};

/* RC is the error of a form that ModelOpt writes, and that nobody here reads: it is not damaged. */
static int not_known(int rc, struct ckpt_error *err)
{
	if (rc != CKPT_E_FORMAT)
		return rc;
	if (err)
		err->status = CKPT_E_UNSUPPORTED;
	return CKPT_E_UNSUPPORTED;
}

/* NVFP4 has a scale for 16 numbers, MX for 32; 0 or null is what other algorithms have. OBJECT says it, of all or of some. */
static int check_group_size(const struct ckpt_quant_group *g, enum modelopt_kind kind, const json_t *object,
			    struct ckpt_error *err)
{
	const json_t *says = json_object_get(object, "group_size");
	int64_t size = ckpt_quant_config_int(object, "group_size", 0),
		want = kind == MO_NVFP4			      ? 16
		       : kind == MO_MXFP8 || kind == MO_MXFP4 ? 32
							      : 0;

	if (!says || json_is_null(says) || size == want || (!want && size == -1))
		return 0;
	if (!want)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "the configuration says groups of %" PRId64
					 ", and the algorithm has none",
					 size);
	return not_known(ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					   "the configuration says groups of %" PRId64
					   ", and ckpt knows this format with groups of %" PRId64 " only",
					   size, want),
			 err);
}

/* What ModelOpt says of AWQ and SVD, whose weights are no plain ones alone. OBJECT says it, of all or of some. */
static int check_flags(const struct ckpt_quant_group *g, const json_t *object, struct ckpt_error *err)
{
	static const char *const flags[] = { "pre_quant_scale", "has_zero_point" };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const json_t *flag = json_object_get(object, flags[i]);

		if (flag && !json_is_null(flag) && !json_is_false(flag))
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
						 json_is_true(flag) ? "the configuration says %s, and there is none"
								    : "the configuration's %s is neither true nor false",
						 flags[i]);
	}
	return 0;
}

static int check_all_flags(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const json_t *says = g->quant->config.says, *group;
	const char *key;
	int rc = check_flags(g, says, err);

	json_object_foreach(json_object_get(says, "config_groups"), key, group)
		rc = rc < 0 ? rc : check_flags(g, group, err);
	return rc;
}

/* The configuration says KIND, of all or of this module, if it says anything. */
static int check_algo(const struct ckpt_quant_group *g, enum modelopt_kind kind,
		      struct ckpt_error *err)
{
	const json_t *says = g->quant->config.says, *algo = json_object_get(says, "quant_algo"),
		     *layer;
	const json_t *layers = json_object_get(says, "quantized_layers");
	const char *text = json_string_value(algo), *key;
	bool is_named = false, is_known = false;
	char shown[80];
	int rc = 0;

	if (!algo)
		return 0;
	if (text && !strcmp(text, "MIXED_PRECISION"))
		json_object_foreach((json_t *)layers, key, layer)
		{
			if (strlen(key) != g->base_len || memcmp(key, g->base, g->base_len) != 0)
				continue;
			is_named = true;
			text = ckpt_quant_config_text(layer, "quant_algo");
			rc = check_group_size(g, kind, layer, err);
			if (rc == 0)
				rc = check_flags(g, layer, err);
		}
	if (rc < 0)
		return rc;
	if (json_object_size(layers) && !is_named && text && !strcmp(text, "MIXED_PRECISION") && !g->quant->config.is_overruled)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration does not name it (quantized_layers)");
	for (size_t i = 0; text && i < sizeof(modelopt_algos) / sizeof(modelopt_algos[0]); i++) {
		if (strcmp(modelopt_algos[i].algo, text) != 0)
			continue;
		if (modelopt_algos[i].kind == MO_ANY || modelopt_algos[i].kind == kind)
			return 0;
		is_known = true;
	}
	rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says %s",
			       text ? ckpt_escape(shown, sizeof(shown), text, strlen(text))
				    : "no algorithm");
	return text && !is_known ? not_known(rc, err) : rc;
}

/* What a group of the configuration says of the weights of this module, in the words of compressed-tensors. */
static int check_config_groups(const struct ckpt_quant_group *g, enum modelopt_kind kind, struct ckpt_error *err)
{
	char *module = strndup(g->base, g->base_len);
	const json_t *weights = NULL;
	const char *format, *type, *want = kind == MO_INT8 ? "int" : "float";
	int64_t bits = kind == MO_NVFP4 || kind == MO_MXFP4 ? 4 : 8;
	char shown[80];
	int rc = module ? ckpt_quant_config_weights(&g->quant->config, module, &weights, &format, err) : ckpt_fail_nomem(err);

	free(module);
	if (rc < 0 || !json_is_object(weights))
		return rc;
	if (ckpt_quant_config_int(weights, "num_bits", bits) != bits)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says num_bits %" PRId64, ckpt_quant_config_int(weights, "num_bits", bits));
	type = ckpt_quant_config_text(weights, "type");
	if (type && strcmp(type, want) != 0)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says type '%s'", ckpt_escape(shown, sizeof(shown), type, strlen(type)));
	if (!ckpt_quant_config_true(weights, "symmetric", true))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says that it is not symmetric, and there are no zero points");
	return check_group_size(g, kind, weights, err);
}

static int fill_modelopt(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS),
				 *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	enum ckpt_dtype to = g->quant->to;
	bool is_fp4 = items->dtype == CKPT_DTYPE_UINT8, is_mx = scales->dtype == CKPT_DTYPE_UINT8;
	enum modelopt_kind kind = is_mx				    ? is_fp4 ? MO_MXFP4 : MO_MXFP8
				  : is_fp4			    ? MO_NVFP4
				  : items->dtype == CKPT_DTYPE_INT8 ? MO_INT8
								    : MO_FP8;
	int rc;

	if (!is_fp4 && items->dtype != CKPT_DTYPE_FLOAT8_E4M3FN && items->dtype != CKPT_DTYPE_INT8)
		return ckpt_quant_misfit(
			g, CKPT_PART_ITEMS, err,
			"wanted float8_e4m3fn, int8 or uint8 (pairs of FP4), as there are scales for it");
	g->weight.code = is_fp4 ? CKPT_QUANT_E2M1 : CKPT_QUANT_NUMBER;
	g->weight.item = items->dtype;
	g->weight.bits = is_fp4 ? 4 : 8;
	rc = ckpt_fill_items(g, is_fp4 ? 2 : 1, err);
	if (rc == 0 && kind == MO_FP8 && !ckpt_fill_is_single(g, CKPT_PART_SCALES))
		kind = MO_FP8_ROWS;
	if (rc == 0)
		rc = check_algo(g, kind, err);
	if (rc == 0)
		rc = check_group_size(g, kind, g->quant->config.says, err);
	if (rc == 0)
		rc = check_config_groups(g, kind, err);
	if (rc == 0)
		rc = check_all_flags(g, err);
	if (rc < 0)
		return rc;
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32);
	if (is_fp4 && scales->dtype == CKPT_DTYPE_FLOAT8_E4M3FN) {
		g->weight.code = CKPT_QUANT_TABLE;
		g->weight.table = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY,
							.memory = modelopt_e2m1,
							.len = sizeof(modelopt_e2m1) };
		return ckpt_fill_nvfp4(g, false, err);
	}
	rc = ckpt_fill_no_global(g, err);
	if (rc < 0)
		return rc;
	if (is_mx) {
		if (items->dtype == CKPT_DTYPE_INT8)
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
						 "scales of uint8 are for FP8 and FP4");
		if (g->weight.cols % 32)
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
						 "a row is no multiple of 32 numbers");
		snprintf(g->scheme, sizeof(g->scheme), "%s, a power of 2 for 32 numbers",
			 is_fp4 ? "MXFP4" : "MXFP8");
		return ckpt_fill_blocks(g, 1, 32, err);
	}
	if (is_fp4 || !ckpt_fill_is_wide(scales->dtype))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "a dtype that is none for scales of %s",
					 ckpt_dtype_name(items->dtype));
	ckpt_fill_arithmetic(g, to, to, to);
	snprintf(g->scheme, sizeof(g->scheme), "%s, one scale%s",
		 items->dtype == CKPT_DTYPE_INT8 ? "INT8" : "FP8 (e4m3)",
		 ckpt_fill_is_single(g, CKPT_PART_SCALES) ? "" : " for each row");
	if (ckpt_fill_is_single(g, CKPT_PART_SCALES))
		return ckpt_fill_single(g, err);
	if (ckpt_fill_is_by_row(g))
		return ckpt_fill_by_row(g, err);
	return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
				 "wanted one number, or one for each of %" PRIu64 " rows",
				 g->weight.rows);
}

/* ---- mxfp4: gpt-oss ---- */

/*
 * Sources: transformers 5.24, integrations/mxfp4.py, convert_moe_packed_tensors(), whose result is transposed as its model has it;
 * gpt_oss/torch/weights.py, _get_mxfp4_tensor(), for the names with dots, whose result is not.
 */
static const struct ckpt_quant_suffix mxfp4_suffixes[] = {
	{ "_blocks", CKPT_PART_ITEMS },
	{ "_scales", CKPT_PART_SCALES },
	{ ".blocks", CKPT_PART_ITEMS },
	{ ".scales", CKPT_PART_SCALES },
	{ 0 },
};

static int fill_mxfp4(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS),
				 *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	struct ckpt_quant_weight *w = &g->weight;
	bool transposed = g->parts[CKPT_PART_ITEMS].suffix[0] == '_';
	uint32_t n = items->ndim;
	int rc;

	g->result = "";
	if (items->dtype != CKPT_DTYPE_UINT8 || n < 3 || items->shape[n - 1] != 16)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "wanted uint8 [..., rows, blocks, 16]");
	if (scales->dtype != CKPT_DTYPE_UINT8 || scales->ndim != n - 1 ||
	    memcmp(scales->shape, items->shape, (n - 1) * sizeof(*scales->shape)) != 0)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted uint8, one for each block of 16 bytes");
	memcpy(g->shape, items->shape, n * sizeof(*g->shape));
	g->ndim = n - 1;
	if (__builtin_mul_overflow(items->shape[n - 2], (uint64_t)32, &g->shape[n - 2]) ||
	    ckpt_shape_numel(g->shape, g->ndim) > UINT64_MAX / 8)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "too large");
	w->matrices = ckpt_shape_numel(g->shape, n - 3);
	w->rows = g->shape[n - 3];
	w->cols = g->shape[n - 2];
	w->transposed = transposed;
	if (transposed) {
		g->shape[n - 3] = w->cols;
		g->shape[n - 2] = w->rows;
	}
	w->code = CKPT_QUANT_E2M1;
	w->item = items->dtype;
	w->bits = 4;
	w->block_rows = 1;
	w->block_cols = 32;
	w->scale_dtype = CKPT_DTYPE_UINT8;
	/* torch.ldexp() of 2.14 is exact: 0.5 times the largest scale, 2**128, is a number */
	w->exact_power = true;
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32);
	snprintf(g->scheme, sizeof(g->scheme), "MXFP4, a power of 2 for 32 numbers%s",
		 transposed ? ", transposed" : "");
	rc = ckpt_quant_bytes(g, CKPT_PART_ITEMS, &w->items, err);
	return rc < 0 ? rc : ckpt_quant_bytes(g, CKPT_PART_SCALES, &w->scales, err);
}

/* ---- the table ---- */

static const struct ckpt_quant_suffix ct_suffixes[] = {
	{ ".weight", CKPT_PART_ITEMS },
	{ ".weight_packed", CKPT_PART_ITEMS },
	{ ".weight_scale", CKPT_PART_SCALES },
	{ ".weight_zero_point", CKPT_PART_ZEROS },
	{ ".weight_g_idx", CKPT_PART_GROUPS },
	{ ".weight_shape", CKPT_PART_SHAPE },
	{ ".weight_global_scale", CKPT_PART_GLOBAL },
	{ ".input_scale", CKPT_PART_ACTIVATIONS },
	{ ".input_zero_point", CKPT_PART_ACTIVATIONS },
	{ ".input_global_scale", CKPT_PART_ACTIVATIONS },
	{ ".output_scale", CKPT_PART_ACTIVATIONS },
	{ ".output_zero_point", CKPT_PART_ACTIVATIONS },
	{ ".k_scale", CKPT_PART_ACTIVATIONS },
	{ ".v_scale", CKPT_PART_ACTIVATIONS },
	{ ".q_scale", CKPT_PART_ACTIVATIONS },
	{ 0 },
};

static const struct ckpt_quant_suffix gptq_suffixes[] = {
	{ ".qweight", CKPT_PART_ITEMS },
	{ ".scales", CKPT_PART_SCALES },
	{ ".qzeros", CKPT_PART_ZEROS },
	{ ".g_idx", CKPT_PART_GROUPS },
	{ 0 },
};

static const struct ckpt_quant_suffix awq_suffixes[] = {
	{ ".qweight", CKPT_PART_ITEMS },
	{ ".scales", CKPT_PART_SCALES },
	{ ".qzeros", CKPT_PART_ZEROS },
	{ 0 },
};

static const struct ckpt_quant_suffix bitsandbytes_suffixes[] = {
	{ "", CKPT_PART_ITEMS },
	{ ".weight", CKPT_PART_ITEMS },
	{ ".SCB", CKPT_PART_SCALES },
	{ ".weight_format", CKPT_PART_STATE },
	{ ".absmax", CKPT_PART_SCALES },
	{ ".quant_map", CKPT_PART_MAP },
	{ ".nested_absmax", CKPT_PART_NESTED_SCALES },
	{ ".nested_quant_map", CKPT_PART_NESTED_MAP },
	{ ".quant_state.bitsandbytes__nf4", CKPT_PART_STATE },
	{ ".quant_state.bitsandbytes__fp4", CKPT_PART_STATE },
	{ 0 },
};

static const struct ckpt_quant_suffix torchao_suffixes[] = {
	{ "._weight_qdata", CKPT_PART_ITEMS },
	{ "._weight_scale", CKPT_PART_SCALES },
	{ "._weight_zero_point", CKPT_PART_ZEROS },
	{ "._weight_per_tensor_scale", CKPT_PART_GLOBAL },
	{ "._weight_act_quant_scale", CKPT_PART_ACTIVATIONS },
	{ "._weight_act_quant_zero_point", CKPT_PART_ACTIVATIONS },
	{ "._weight_act_per_tensor_scale", CKPT_PART_ACTIVATIONS },
	{ "._weight_act_pre_scale", CKPT_PART_REFUSED },
	/* of "X.w1": "X._w1_qdata" */
	{ "*qdata", CKPT_PART_ITEMS },
	{ "*scale", CKPT_PART_SCALES },
	{ "*zero_point", CKPT_PART_ZEROS },
	{ "*per_tensor_scale", CKPT_PART_GLOBAL },
	{ "*act_quant_scale", CKPT_PART_ACTIVATIONS },
	{ "*act_quant_zero_point", CKPT_PART_ACTIVATIONS },
	{ "*act_per_tensor_scale", CKPT_PART_ACTIVATIONS },
	{ "*act_pre_scale", CKPT_PART_REFUSED },
	{ 0 },
};

static const struct ckpt_quant_suffix no_suffixes[] = { { 0 } };

const struct ckpt_quant_format ckpt_quant_formats[] = {
	{ "fp8", fp8_suffixes, true, is_byte_or_fp4, fill_fp8, NULL },
	{ "compressed-tensors", ct_suffixes, false, is_byte, ckpt_fill_compressed_tensors, NULL },
	{ "modelopt", modelopt_suffixes, false, is_byte, fill_modelopt, NULL },
	{ "mxfp4", mxfp4_suffixes, false, is_none, fill_mxfp4, NULL },
	{ "gptq", gptq_suffixes, false, is_none, ckpt_fill_gptq, NULL },
	{ "gptq_v2", gptq_suffixes, false, is_none, ckpt_fill_gptq, NULL },
	{ "awq", awq_suffixes, false, is_none, ckpt_fill_awq, NULL },
	{ "bitsandbytes", bitsandbytes_suffixes, false, is_none, ckpt_fill_bitsandbytes, NULL },
	{ "torchao", torchao_suffixes, false, is_none, ckpt_fill_torchao, ckpt_check_torchao },
	/* tensors that say it themselves: tensors.c, engine.c */
	{ "transformer-engine", no_suffixes, false, is_none, NULL, NULL },
	{ "torch", no_suffixes, false, is_none, NULL, NULL },
};
const size_t ckpt_quant_format_count = sizeof(ckpt_quant_formats) / sizeof(ckpt_quant_formats[0]);
