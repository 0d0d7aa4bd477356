/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compressed-tensors 0.9 to 0.20. Sources: quantization/lifecycle/initialize.py, for the shapes of scales;
 * lifecycle/forward_helpers.py, _dequantize(), for the arithmetic, which is that of the dtype of the
 * scales; compressors/pack_quantized, nvfp4, mxfp4.
 *
 * What must stay true: num_bits, type and symmetric of the configuration, where there is one, agree with
 * the tensors; the number of words in a row tells the two ways of packing apart, or the version does, or they are the same.
 */
#include "quant/fill.h"

#include "base/text.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
	const json_t *weights;	       /* NULL: the configuration says nothing of this module */
	const char *format, *strategy; /* NULL: not said */
	int64_t bits, group_size;
	bool is_float;
};

/* KEY, a text, in small letters, as QuantizationArgs makes it. *OUT NULL: not said. */
static int take_word(struct ckpt_quant_group *g, const json_t *weights, const char *key, const char **out, struct ckpt_error *err)
{
	const json_t *v = json_object_get(weights, key);
	char *word;

	*out = NULL;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration's %s is no text", key);
	word = ckpt_arena_copy(g->quant->arena, json_string_value(v), json_string_length(v));
	if (!word)
		return ckpt_arena_fail(g->quant->arena, err);
	*out = word;
	for (; *word; word++)
		if (*word >= 'A' && *word <= 'Z')
			*word |= 0x20;
	return 0;
}

/* KEY, an integer. Pydantic also takes 8.0 for one, and where nothing compares it before, "8". 0: not said. */
static int take_integer(const struct ckpt_quant_group *g, const json_t *weights, const char *key, bool or_text, int64_t *out,
			struct ckpt_error *err)
{
	const json_t *v = json_object_get(weights, key);
	const char *text = or_text ? json_string_value(v) : NULL;
	double real = json_real_value(v);
	size_t digits = text ? strspn(text, "0123456789") : 0;

	*out = json_integer_value(v);
	if (!v || json_is_null(v) || json_is_integer(v))
		return 0;
	if (json_is_real(v) && real > -0x1p53 && real < 0x1p53 && real == (double)(int64_t)real)
		*out = (int64_t)real;
	else if (digits && digits < 10 && !text[digits])
		*out = strtoll(text, NULL, 10);
	else
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration's %s is no integer", key);
	return 0;
}

static int read_settings(struct ckpt_quant_group *g, struct settings *out, struct ckpt_error *err)
{
	char *module = strndup(g->base, g->base_len);
	const json_t *symmetric;
	const char *type;
	char shown[80];
	int rc = module ? ckpt_quant_config_weights(&g->quant->config, module, &out->weights,
						    &out->format, err)
			: ckpt_fail_nomem(err);

	free(module);
	if (rc < 0)
		return ckpt_error_at(err, rc, g->quant->config.path, NULL, CKPT_NO_OFFSET);
	rc = take_word(g, out->weights, "type", &type, err);
	if (rc == 0 && type && strcmp(type, "float") != 0 && strcmp(type, "int") != 0)
		rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says type '%s'",
				       ckpt_escape(shown, sizeof(shown), type, strlen(type)));
	if (rc == 0)
		rc = take_word(g, out->weights, "strategy", &out->strategy, err);
	if (rc == 0)
		rc = take_integer(g, out->weights, "num_bits", true, &out->bits, err);
	if (rc == 0 && out->weights && !json_object_get(out->weights, "num_bits"))
		out->bits = 8; /* QuantizationArgs' default */
	if (rc == 0)
		rc = take_integer(g, out->weights, "group_size", false, &out->group_size, err);
	symmetric = json_object_get(out->weights, "symmetric");
	if (rc == 0 && symmetric && !json_is_null(symmetric) && !json_is_boolean(symmetric))
		rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration's symmetric is neither true nor false");
	out->is_float = type && !strcmp(type, "float");
	return rc;
}

/* The configuration says BITS and whether numbers are FLOAT, if it says anything. */
static int check_settings(const struct ckpt_quant_group *g, const struct settings *s, int64_t bits,
			  bool is_float, struct ckpt_error *err)
{
	if (!s->weights || (s->bits == bits && s->is_float == is_float))
		return 0;
	return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
				 "the configuration says %s of %" PRId64 " bits",
				 s->is_float ? "floats" : "integers", s->bits);
}

/* The format that the configuration says is one of FORMATS; the last one is NULL. */
static int check_format(const struct ckpt_quant_group *g, const struct settings *s,
			const char *const *formats, struct ckpt_error *err)
{
	char shown[80];

	if (!s->weights || !s->format)
		return 0;
	for (; *formats; formats++)
		if (!strcmp(s->format, *formats))
			return 0;
	return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says '%s'",
				 ckpt_escape(shown, sizeof(shown), s->format, strlen(s->format)));
}

/* What the shape of the scales is, has to be what the configuration calls it. */
static int check_strategy(const struct ckpt_quant_group *g, const struct settings *s,
			  const char *is, struct ckpt_error *err)
{
	char shown[80];

	if (!s->strategy || !strcmp(s->strategy, is))
		return 0;
	return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
				 "the configuration says that the strategy is '%s'",
				 ckpt_escape(shown, sizeof(shown), s->strategy,
					     strlen(s->strategy)));
}

static int check_symmetric(const struct ckpt_quant_group *g, const struct settings *s,
			   struct ckpt_error *err)
{
	bool symmetric = ckpt_quant_config_true(s->weights, "symmetric", true),
	     has = g->parts[CKPT_PART_ZEROS].entry;

	if (!s->weights || !symmetric == has)
		return 0;
	return ckpt_quant_misfit(g, has ? CKPT_PART_ZEROS : CKPT_PART_SCALES, err,
				 "the configuration says that there are %szero points",
				 symmetric ? "no " : "");
}

static int none_of(const struct ckpt_quant_group *g, enum ckpt_part_role role, const char *why,
		   struct ckpt_error *err)
{
	return g->parts[role].entry ? ckpt_quant_misfit(g, role, err, "%s", why) : 0;
}

/* Scales for all, for rows, for groups of columns, or for blocks. */
static int fill_scales(struct ckpt_quant_group *g, const struct settings *s, struct ckpt_error *err)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	const json_t *block = json_object_get(s->weights, "block_structure");
	struct ckpt_quant_weight *w = &g->weight;
	uint64_t groups = t->ndim ? t->shape[t->ndim - 1] : 0,
		 size = (uint64_t)(s->group_size > 0 ? s->group_size : 0);
	long long rows = 0, cols = 0;

	if (json_is_string(block) &&
	    sscanf(json_string_value(block), "%lldx%lld", &rows, &cols) != 2)
		rows = 0;
	if (json_array_size(block) == 2) {
		rows = json_integer_value(json_array_get(block, 0));
		cols = json_integer_value(json_array_get(block, 1));
	}
	if (block && !json_is_null(block)) {
		if (rows <= 0 || cols <= 0)
			return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
						 "block_structure is no pair of sizes");
		if (check_strategy(g, s, "block", err) < 0)
			return CKPT_E_FORMAT;
		return ckpt_fill_blocks(g, (uint64_t)rows, (uint64_t)cols, err);
	}
	if (!size && ckpt_fill_is_single(g, CKPT_PART_SCALES) && (s->weights || w->rows != 1) &&
	    (!s->strategy || strcmp(s->strategy, "channel") != 0))
		return check_strategy(g, s, "tensor", err) < 0 ? CKPT_E_FORMAT
									 : ckpt_fill_single(g, err);
	if (!size && t->ndim == 1 && w->rows > 1 && ckpt_fill_is_by_row(g))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err, "wanted [%" PRIu64 ", 1]: torch multiplies columns by a row of scales", w->rows);
	if (!size && ckpt_fill_is_by_row(g))
		return check_strategy(g, s, "channel", err) < 0
			       ? CKPT_E_FORMAT
			       : ckpt_fill_by_row(g, err);
	if (!size && !s->weights && groups > 1 && w->cols % groups == 0) /* by the shapes alone */
		size = w->cols / groups;
	if (!size)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted one number, or one for each of %" PRIu64 " rows",
					 w->rows);
	if (w->cols % size)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "%" PRIu64
					 " numbers of a row are no whole groups of %" PRIu64,
					 w->cols, size);
	if (check_strategy(g, s, "group", err) < 0)
		return CKPT_E_FORMAT;
	return ckpt_fill_blocks(g, 1, size, err);
}

static int fill_zeros(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *z = ckpt_quant_tensor(g, CKPT_PART_ZEROS),
				 *s = ckpt_quant_tensor(g, CKPT_PART_SCALES);

	if (!z)
		return 0;
	if (z->ndim != s->ndim || memcmp(z->shape, s->shape, z->ndim * sizeof(*z->shape)) != 0)
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err, "wanted the shape of the scales");
	if (z->dtype != CKPT_DTYPE_INT8 && (z->dtype != CKPT_DTYPE_FLOAT8_E4M3FN || g->weight.item == CKPT_DTYPE_INT8))
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err, "wanted int8");
	g->weight.zero = CKPT_QUANT_ZERO_NUMBER;
	g->weight.zero_dtype = z->dtype;
	return ckpt_quant_bytes(g, CKPT_PART_ZEROS, &g->weight.zeros, err);
}

/* MX has groups of 32, and says so. */
static int check_mx(const struct ckpt_quant_group *g, const struct settings *s, struct ckpt_error *err)
{
	if (s->weights && s->group_size != 32)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err, "scales of uint8 are for 32 numbers each");
	return check_strategy(g, s, "group", err);
}

/* ---- float-quantized, int-quantized, naive-quantized, mxfp8-quantized: an item in each byte ---- */

static int fill_plain(struct ckpt_quant_group *g, const struct settings *s, struct ckpt_error *err)
{
	static const char *const floats[] = { "float-quantized", "naive-quantized", NULL };
	static const char *const integers[] = { "int-quantized", "naive-quantized", NULL };
	/* the other formats multiply by the bytes of the scales, as the numbers that they are */
	static const char *const mxfp8[] = { "mxfp8-quantized", NULL };
	enum ckpt_dtype item = ckpt_quant_tensor(g, CKPT_PART_ITEMS)->dtype,
			scale = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype;
	bool is_float = item == CKPT_DTYPE_FLOAT8_E4M3FN;
	int rc;

	if (!is_float && item != CKPT_DTYPE_INT8)
		return ckpt_quant_misfit(
			g, CKPT_PART_ITEMS, err,
			"wanted float8_e4m3fn or int8, as there are scales for it");
	/* integers of fewer bits are in a byte each, as they are */
	rc = check_settings(g, s, !is_float && s->bits > 0 && s->bits < 8 ? s->bits : 8, is_float, err);
	if (rc == 0)
		rc = check_format(g, s,
				  scale == CKPT_DTYPE_UINT8 ? mxfp8
				  : is_float		    ? floats
							    : integers,
				  err);
	if (rc == 0)
		rc = check_symmetric(g, s, err);
	if (rc == 0)
		rc = none_of(g, CKPT_PART_GLOBAL, "of use only beside a weight of FP4", err);
	if (rc == 0)
		rc = none_of(g, CKPT_PART_SHAPE, "of use only beside packed weights", err);
	if (rc == 0)
		rc = none_of(g, CKPT_PART_GROUPS, "known only beside packed weights", err);
	g->weight.code = CKPT_QUANT_NUMBER;
	g->weight.item = item;
	g->weight.bits = 8;
	if (rc == 0)
		rc = ckpt_fill_items(g, 1, err);
	if (rc < 0)
		return rc;
	if (scale == CKPT_DTYPE_UINT8) {
		if (!is_float || g->weight.cols % 32)
			return ckpt_quant_misfit(
				g, CKPT_PART_SCALES, err,
				"scales of uint8 are for 32 numbers of float8_e4m3fn each");
		rc = check_mx(g, s, err);
		if (rc < 0)
			return rc;
		snprintf(g->scheme, sizeof(g->scheme), "MXFP8, a power of 2 for 32 numbers");
		ckpt_fill_arithmetic(g, CKPT_DTYPE_BFLOAT16, CKPT_DTYPE_BFLOAT16,
				     CKPT_DTYPE_BFLOAT16);
		rc = none_of(g, CKPT_PART_ZEROS, "MXFP8 has none", err);
		return rc < 0 ? rc : ckpt_fill_blocks(g, 1, 32, err);
	}
	if (!ckpt_fill_is_wide(scale))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted float32, float16 or bfloat16");
	ckpt_fill_arithmetic(g, scale, scale, scale);
	rc = fill_scales(g, s, err);
	if (rc == 0)
		rc = fill_zeros(g, err);
	snprintf(g->scheme, sizeof(g->scheme), "%s%s", is_float ? "FP8 (e4m3)" : "INT8",
		 g->weight.block_cols	? ", scales for groups"
		 : g->weight.block_rows ? ", one scale for each row"
					: ", one scale");
	return rc;
}

/* ---- FP4 and FP6 ---- */

/* e2m3: a sign, two bits of exponent, three of fraction, no infinity */
static int fill_mxfp6(struct ckpt_quant_group *g, const struct settings *s, struct ckpt_error *err)
{
	static const char *const formats[] = { "mxfp6-pack-quantized", NULL };
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS);
	float *table = ckpt_arena_alloc(g->quant->arena, 64 * sizeof(*table));
	uint64_t bytes = items->ndim ? items->shape[items->ndim - 1] : 0;
	int rc = check_format(g, s, formats, err);

	if (!table)
		return ckpt_arena_fail(g->quant->arena, err);
	for (int i = 0; i < 32; i++) {
		table[i] = (float)(i < 8 ? i : (8 + i % 8) << (i / 8 - 1)) / 8;
		table[i + 32] = -table[i];
	}
	if (rc == 0)
		rc = ckpt_fill_items(g, 1, err);
	if (rc == 0 &&
	    (bytes % 24 || ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype != CKPT_DTYPE_UINT8))
		rc = ckpt_quant_misfit(
			g, CKPT_PART_ITEMS, err,
			"FP6 has 32 numbers in 24 bytes, and a scale of uint8 for them");
	if (rc < 0)
		return rc;
	g->weight.cols = g->shape[g->ndim - 1] = bytes / 3 * 4;
	g->weight.code = CKPT_QUANT_TABLE;
	g->weight.item = CKPT_DTYPE_UINT8;
	g->weight.bits = 6;
	g->weight.table = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY,
						.memory = table,
						.len = 64 * sizeof(*table) };
	ckpt_fill_arithmetic(g, CKPT_DTYPE_BFLOAT16, CKPT_DTYPE_BFLOAT16, CKPT_DTYPE_BFLOAT16);
	snprintf(g->scheme, sizeof(g->scheme), "MXFP6, a power of 2 for 32 numbers");
	rc = ckpt_fill_no_global(g, err);
	if (rc == 0)
		rc = check_mx(g, s, err);
	return rc < 0 ? rc : ckpt_fill_blocks(g, 1, 32, err);
}

static int fill_fp4(struct ckpt_quant_group *g, const struct settings *s, struct ckpt_error *err)
{
	static const char *const nvfp4[] = { "nvfp4-pack-quantized", NULL };
	static const char *const mxfp4[] = { "mxfp4-pack-quantized", NULL };
	enum ckpt_dtype scale = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype;
	int rc = check_settings(g, s, s->bits == 6 ? 6 : 4, true, err);

	if (rc == 0 && s->bits != 6)
		rc = check_format(g, s, scale == CKPT_DTYPE_UINT8 ? mxfp4 : nvfp4, err);
	if (rc == 0)
		rc = none_of(g, CKPT_PART_ZEROS, "FP4 has none", err);
	if (rc == 0)
		rc = check_symmetric(g, s, err);
	if (rc == 0)
		rc = none_of(g, CKPT_PART_SHAPE, "FP4 has none", err);
	if (rc == 0)
		rc = none_of(g, CKPT_PART_GROUPS, "FP4 has none", err);
	if (rc == 0 && s->weights && s->bits == 6)
		return fill_mxfp6(g, s, err);
	g->weight.code = CKPT_QUANT_E2M1;
	g->weight.item = CKPT_DTYPE_UINT8;
	g->weight.bits = 4;
	if (rc == 0)
		rc = ckpt_fill_items(g, 2, err);
	if (rc < 0)
		return rc;
	if (scale == CKPT_DTYPE_UINT8) {
		if (g->weight.cols % 32)
			return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
						 "scales of uint8 are for 32 numbers each");
		rc = check_mx(g, s, err);
		if (rc < 0)
			return rc;
		ckpt_fill_arithmetic(g, CKPT_DTYPE_BFLOAT16, CKPT_DTYPE_BFLOAT16,
				     CKPT_DTYPE_BFLOAT16);
		snprintf(g->scheme, sizeof(g->scheme), "MXFP4, a power of 2 for 32 numbers");
		rc = ckpt_fill_no_global(g, err);
		return rc < 0 ? rc : ckpt_fill_blocks(g, 1, 32, err);
	}
	if (scale != CKPT_DTYPE_FLOAT8_E4M3FN || (s->weights && s->group_size != 16))
		return ckpt_quant_misfit(
			g, CKPT_PART_SCALES, err,
			"wanted float8_e4m3fn, one for 16 numbers, or uint8, one for 32");
	rc = check_strategy(g, s, "tensor_group", err);
	if (rc < 0)
		return rc;
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32);
	g->weight.product = CKPT_DTYPE_BFLOAT16;
	return ckpt_fill_nvfp4(g, true, err);
}

/* ---- pack-quantized: integers of 1 to 8 bits in int32 words ---- */

static int read_shape(struct ckpt_quant_group *g, uint64_t out[2], struct ckpt_error *err)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_SHAPE);
	const uint8_t *bytes;
	size_t len;
	int64_t wide[2];
	int32_t narrow[2];
	int rc;

	if (!t)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "its weight_shape is missing");
	if (t->ndim != 1 || t->shape[0] != 2 ||
	    (t->dtype != CKPT_DTYPE_INT64 && t->dtype != CKPT_DTYPE_INT32))
		return ckpt_quant_misfit(g, CKPT_PART_SHAPE, err, "wanted int64 [2]");
	rc = ckpt_quant_read(g, CKPT_PART_SHAPE, sizeof(wide), &bytes, &len, err);
	if (rc < 0)
		return rc;
	if (t->dtype == CKPT_DTYPE_INT64) {
		memcpy(wide, bytes, sizeof(wide));
	} else {
		memcpy(narrow, bytes, sizeof(narrow));
		wide[0] = narrow[0];
		wide[1] = narrow[1];
	}
	if (wide[0] <= 0 || wide[1] <= 0)
		return ckpt_quant_misfit(g, CKPT_PART_SHAPE, err, "says %" PRId64 " x %" PRId64,
					 wide[0], wide[1]);
	out[0] = (uint64_t)wide[0];
	out[1] = (uint64_t)wide[1];
	return 0;
}

static uint64_t words_dense(uint64_t numbers, uint64_t bits)
{
	return numbers / 32 * bits + (numbers % 32 * bits + 31) / 32;
}

static uint64_t words_apart(uint64_t numbers, uint64_t bits)
{
	uint64_t per = 32 / bits;

	return numbers / per + (numbers % per != 0);
}

/* Are NUMBERS of BITS in so many WORDS packed densely, or apart, or the same way both times (DENSE_OR_APART)? */
enum packing { NEITHER, DENSE = 1, APART = 2, DENSE_OR_APART = DENSE | APART };

static enum packing packing_of(uint64_t numbers, uint64_t bits, uint64_t words)
{
	return (enum packing)((words == words_dense(numbers, bits) ? DENSE : NEITHER) | (words == words_apart(numbers, bits) ? APART : NEITHER));
}

/* Up to 0.17.1 all wrote items apart, from 0.18.0 on densely; what was between these releases, nobody knows. */
static enum packing packing_of_version(const char *version)
{
	unsigned major, minor, patch;
	int end = 0;

	if (!version || sscanf(version, "%3u.%3u.%3u%n", &major, &minor, &patch, &end) != 3 || (version[end] && version[end] != '.') ||
	    (version[end] == '.' && strspn(version + end + 1, "0123456789") != strlen(version + end + 1)))
		return NEITHER;
	if (!major && (minor < 17 || (minor == 17 && patch <= 1)))
		return APART;
	return major || minor >= 18 ? DENSE : NEITHER;
}

/*
 * How the items, and the zero points, are packed. Where both ways take as many words, and differ from the second word on, nothing
 * in the tensors tells.
 */
static int find_packing(struct ckpt_quant_group *g, uint64_t words, struct ckpt_error *err)
{
	const struct ckpt_tensor *z = ckpt_quant_tensor(g, CKPT_PART_ZEROS);
	struct ckpt_quant_weight *w = &g->weight;
	uint64_t per = 32 / w->bits;
	enum packing items = packing_of(w->cols, w->bits, words),
		     zeros = z && z->ndim == 2 ? packing_of(w->rows, w->bits, z->shape[0]) : DENSE_OR_APART, both = items & zeros;
	bool differ = 32 % w->bits && (w->cols > per || (z && w->rows > per));

	if (both == DENSE_OR_APART && differ)
		both = packing_of_version(ckpt_quant_config_text(g->quant->config.says, "version"));
	if (both == NEITHER && items == DENSE_OR_APART && zeros == DENSE_OR_APART)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "can be packed densely, as by compressed-tensors from 0.18 on, or item by item, as before, and no configuration says its version");
	w->dense = (both == NEITHER ? items : both) & DENSE;
	return 0;
}

/* Bits of an item: as the configuration says; else those for which the words are as many as there are, if only one does. */
static int find_bits(struct ckpt_quant_group *g, const struct settings *s, uint64_t words,
		     uint32_t *out, struct ckpt_error *err)
{
	uint64_t cols = g->shape[1];
	uint32_t found = 0;

	if (s->weights && (s->bits < 1 || s->bits > 8))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "the configuration says %" PRId64 " bits", s->bits);
	for (uint32_t bits = s->weights ? (uint32_t)s->bits : 2;
	     bits <= (s->weights ? (uint32_t)s->bits : 8); bits++)
		if (words == words_dense(cols, bits) || words == words_apart(cols, bits)) {
			if (found)
				return ckpt_quant_misfit(
					g, CKPT_PART_ITEMS, err,
					"can be of %u or of %u bits, and no configuration says which",
					found, bits);
			found = bits;
		}
	if (!found)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "%" PRIu64 " numbers of a row do not take %" PRIu64
					 " words",
					 cols, words);
	*out = found;
	return 0;
}

static int fill_packed_zeros(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *z = ckpt_quant_tensor(g, CKPT_PART_ZEROS),
				 *s = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	struct ckpt_quant_weight *w = &g->weight;
	uint64_t groups = s->ndim == 2 ? s->shape[1] : 1;

	if (!z) {
		w->zero = CKPT_QUANT_ZERO_FIXED;
		w->zero_fixed = 1 << (w->bits - 1);
		return 0;
	}
	if (z->dtype != CKPT_DTYPE_INT32)
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err, "wanted int32 words");
	if (s->ndim != 2 || z->ndim != 2 || z->shape[1] != groups ||
	    z->shape[0] !=
		    (w->dense ? words_dense(w->rows, w->bits) : words_apart(w->rows, w->bits)))
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err,
					 "wanted words for %" PRIu64 " rows, [.., %" PRIu64 "]",
					 w->rows, groups);
	w->zero = CKPT_QUANT_ZERO_BITS;
	w->zero_packed = CKPT_QUANT_ALONG_ROWS;
	return ckpt_quant_bytes(g, CKPT_PART_ZEROS, &w->zeros, err);
}

static int fill_g_idx(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_GROUPS);

	if (!t)
		return 0;
	if (t->dtype != CKPT_DTYPE_INT32 || t->ndim != 1 || t->shape[0] != g->weight.cols ||
	    !g->weight.block_cols)
		return ckpt_quant_misfit(g, CKPT_PART_GROUPS, err,
					 "wanted int32 [%" PRIu64 "], and scales for groups",
					 g->weight.cols);
	return ckpt_quant_bytes(g, CKPT_PART_GROUPS, &g->weight.group_of_col, err);
}

enum { MOST_ORDER = 4 << 20 }; /* bytes of a g_idx */

/* The configuration says that groups have no order of their own: a g_idx that says another one has two readings. */
static int check_order(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const uint8_t *bytes;
	int32_t group;
	size_t len;
	int rc = ckpt_quant_read(g, CKPT_PART_GROUPS, MOST_ORDER, &bytes, &len, err);

	for (uint64_t i = 0; rc == 0 && i < len / sizeof(group); i++) {
		memcpy(&group, bytes + i * sizeof(group), sizeof(group));
		if (group == -1) /* one of them says that there is no order: see group_of_col */
			return 0;
	}
	for (uint64_t i = 0; rc == 0 && i < len / sizeof(group); i++) {
		memcpy(&group, bytes + i * sizeof(group), sizeof(group));
		if (group < 0 || (uint64_t)group != i / g->weight.block_cols)
			return ckpt_quant_misfit(
				g, CKPT_PART_GROUPS, err,
				"column %" PRIu64 " is of group %" PRId32
				", and the configuration orders no groups (actorder): it would be of group %" PRIu64,
				i, group, i / g->weight.block_cols);
	}
	return rc;
}

static bool orders_groups(const struct settings *s)
{
	const json_t *order = json_object_get(s->weights, "actorder");
	const char *text = json_string_value(order);

	return json_is_true(order) ||
	       (text && (ckpt_quant_same_text(text, "group") || ckpt_quant_same_text(text, "dynamic")));
}

static int fill_packed(struct ckpt_quant_group *g, const struct settings *s, struct ckpt_error *err)
{
	static const char *const formats[] = { "pack-quantized", NULL };
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS);
	enum ckpt_dtype scale = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype;
	struct ckpt_quant_weight *w = &g->weight;
	int rc;

	if (items->ndim != 2)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "packed weights have two dimensions");
	if (!ckpt_fill_is_wide(scale))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted float32, float16 or bfloat16");
	if (s->weights && s->is_float)
		return check_settings(g, s, s->bits, false, err);
	rc = check_format(g, s, formats, err);
	if (rc == 0)
		rc = check_symmetric(g, s, err);
	if (rc == 0)
		rc = ckpt_fill_no_global(g, err);
	if (rc == 0)
		rc = read_shape(g, g->shape, err);
	if (rc == 0)
		rc = find_bits(g, s, items->shape[1], &w->bits, err);
	if (rc < 0)
		return rc;
	if (items->shape[0] != g->shape[0])
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "weight_shape says %" PRIu64 " rows", g->shape[0]);
	g->ndim = 2;
	if (ckpt_shape_numel(g->shape, 2) > UINT64_MAX / 8)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "too large");
	w->code = CKPT_QUANT_BITS;
	w->item = CKPT_DTYPE_INT32;
	w->packed = CKPT_QUANT_ALONG_COLS;
	w->matrices = 1;
	w->rows = g->shape[0];
	w->cols = g->shape[1];
	rc = find_packing(g, items->shape[1], err);
	if (rc < 0)
		return rc;
	ckpt_fill_arithmetic(g, scale, scale, scale);
	snprintf(g->scheme, sizeof(g->scheme), "INT%u, packed%s", w->bits,
		 g->parts[CKPT_PART_ZEROS].entry ? ", zero points" : "");
	rc = ckpt_quant_bytes(g, CKPT_PART_ITEMS, &w->items, err);
	if (rc == 0)
		rc = fill_scales(g, s, err);
	if (rc == 0)
		rc = fill_packed_zeros(g, err);
	if (rc == 0)
		rc = fill_g_idx(g, err);
	if (rc == 0 && g->parts[CKPT_PART_GROUPS].entry && !orders_groups(s) &&
	    json_object_get(s->weights, "actorder"))
		rc = check_order(g, err);
	return rc;
}

int ckpt_fill_compressed_tensors(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	enum ckpt_dtype item = ckpt_quant_tensor(g, CKPT_PART_ITEMS)->dtype;
	struct settings s = { 0 };
	int rc = ckpt_quant_check_done(g->quant, err);

	if (rc == 0)
		rc = read_settings(g, &s, err);
	if (rc == 0 && orders_groups(&s) && !g->parts[CKPT_PART_GROUPS].entry)
		rc = ckpt_quant_misfit(
			g, CKPT_PART_ITEMS, err,
			"the configuration orders groups (actorder), and weight_g_idx is missing");
	if (rc < 0)
		return rc;
	if (strcmp(g->parts[CKPT_PART_ITEMS].suffix, ".weight_packed") != 0)
		return fill_plain(g, &s, err);
	if (item == CKPT_DTYPE_INT32)
		return fill_packed(g, &s, err);
	if (item == CKPT_DTYPE_UINT8)
		return fill_fp4(g, &s, err);
	return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
				 "wanted int32 words, or uint8 (pairs of FP4)");
}
