/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchao 0.18, in safetensors: the metadata of the file have a JSON text for each tensor, with its class and
 * the names of its parts; sets have those of each file in it. Sources: torchao/prototype/safetensors,
 * flatten_tensor_state_dict(); quantization/quantize_/workflows, dequantize() of Float8Tensor, Int8Tensor and
 * IntxUnpackedToInt8Tensor; prototype/mx_formats, to_dtype() of MXTensor, dequantize() of NVFP4Tensor.
 *
 * What must stay true: the class is what the metadata say, never what names and dtypes look like; a class
 * that is not known here, and scales in cuBLAS' order, are refused.
 */
#include "quant/fill.h"

#include "base/buf.h"
#include "base/text.h"
#include "format/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata ---- */

struct pair {
	const char *value;
	size_t len;
};

static int add_pair(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	struct ckpt_quant *q = ctx;
	struct pair *pair = ckpt_arena_alloc(q->arena, sizeof(*pair));
	bool there;

	if (!pair)
		return CKPT_E_NOMEM;
	*pair = (struct pair){ value, value_len };
	return ckpt_strmap_insert(&q->metadata, key, key_len, (uintptr_t)pair, &there)
		       ? 0
		       : CKPT_E_NOMEM;
}

static int read_metadata(struct ckpt_quant *q, struct ckpt_error *err)
{
	const struct ckpt_format *format = q->model->doc->format;
	int rc = 0;

	if (q->metadata.count)
		return 0;
	if (format->parts_metadata)
		rc = format->parts_metadata(q->model, add_pair, q);
	else if (format->metadata)
		rc = format->metadata(q->model, add_pair, q);
	return rc < 0 ? ckpt_fail_nomem(err) : 0;
}

/* An object with `_type`, to be released; NULL: the pair is none. */
static json_t *parse(const struct ckpt_strmap_entry *e)
{
	const struct pair *pair = (const struct pair *)(uintptr_t)e->value;
	json_error_t error;
	json_t *says;

	if (!pair->len || pair->value[0] != '{')
		return NULL;
	says = json_loadb(pair->value, pair->len, JSON_REJECT_DUPLICATES, &error);
	if (ckpt_quant_config_text(says, "_type"))
		return says;
	json_decref(says);
	return NULL;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has_group(const struct ckpt_strmap *names, const struct ckpt_strmap_entry *e)
{
	return ckpt_strmap_find(names, e->key, e->len) != NULL;
}

static int check_pair(struct ckpt_quant *q, const struct ckpt_strmap *names,
		      const struct ckpt_strmap_entry *e, struct ckpt_error *err)
{
	json_t *says = parse(e);
	const char *type = ckpt_quant_config_text(says, "_type");
	char shown[160], class[80];
	int rc = 0;

	if (!says && !(e->len == 12 && !memcmp(e->key, "tensor_names", 12)))
		return 0;
	q->stale[q->stale_count] = ckpt_arena_copy(q->arena, e->key, e->len);
	if (!q->stale[q->stale_count++])
		rc = ckpt_arena_fail(q->arena, err);
	else if (type && strcmp(type, "Tensor") != 0 && !has_group(names, e))
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "'%s' is a %s by the metadata, and its parts are missing",
			       ckpt_escape(shown, sizeof(shown), e->key, e->len),
			       ckpt_escape(class, sizeof(class), type, strlen(type)));
	json_decref(says);
	return rc;
}

int ckpt_check_torchao(struct ckpt_quant *q, struct ckpt_error *err)
{
	struct ckpt_strmap names = { 0 };
	int rc = read_metadata(q, err);
	bool there;

	q->stale_count = 0;
	q->stale = rc == 0 ? ckpt_arena_calloc(q->arena, q->metadata.count + 1, sizeof(*q->stale))
			   : NULL;
	if (rc == 0 && !q->stale)
		rc = ckpt_arena_fail(q->arena, err);
	for (uint32_t i = 0; rc == 0 && i < q->group_count; i++)
		if (!ckpt_strmap_insert(&names, q->groups[i]->key, strlen(q->groups[i]->key), i,
					&there))
			rc = ckpt_fail_nomem(err);
	for (size_t i = 0; rc == 0 && i < q->metadata.count; i++)
		rc = check_pair(q, &names, &q->metadata.entries[i], err);
	if (rc == 0 && q->stale_count)
		qsort(q->stale, q->stale_count, sizeof(*q->stale), by_text);
	ckpt_strmap_clear(&names);
	return rc;
}

/* ---- classes ---- */

static enum ckpt_dtype dtype_of(const json_t *data, const char *key)
{
	const char *name = ckpt_quant_config_text(json_object_get(data, key), "_data");

	return name ? ckpt_dtype_find(name) : CKPT_DTYPE_UNKNOWN;
}

/* What torch makes of both: a product of float16 and bfloat16 is one of float32. */
static enum ckpt_dtype promoted(enum ckpt_dtype a, enum ckpt_dtype b)
{
	return a == b ? a : CKPT_DTYPE_FLOAT32;
}

/* Blocks as block_size says, whose scales are as many in each dimension. */
static int fill_blocks(struct ckpt_quant_group *g, const json_t *data, struct ckpt_error *err)
{
	const json_t *size = json_object_get(data, "block_size");
	int64_t rows = json_integer_value(json_array_get(size, 0)),
		cols = json_integer_value(json_array_get(size, 1));

	if (json_array_size(size) != 2 || rows <= 0 || cols <= 0 || g->ndim != 2)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "block_size in the metadata is no pair of sizes");
	if (g->weight.rows % (uint64_t)rows || g->weight.cols % (uint64_t)cols)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "no whole blocks of %" PRId64 " x %" PRId64, rows, cols);
	return ckpt_fill_blocks(g, (uint64_t)rows, (uint64_t)cols, err);
}

static int fill_zeros(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *z = ckpt_quant_tensor(g, CKPT_PART_ZEROS),
				 *s = ckpt_quant_tensor(g, CKPT_PART_SCALES);

	if (!z)
		return 0;
	if (z->dtype != CKPT_DTYPE_INT8 || z->ndim != s->ndim ||
	    memcmp(z->shape, s->shape, z->ndim * sizeof(*z->shape)) != 0)
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err,
					 "wanted int8, in the shape of the scales");
	g->weight.zero = CKPT_QUANT_ZERO_NUMBER;
	g->weight.zero_dtype = z->dtype;
	return ckpt_quant_bytes(g, CKPT_PART_ZEROS, &g->weight.zeros, err);
}

static int want(const struct ckpt_quant_group *g, enum ckpt_part_role role, bool is_right,
		const char *wanted, struct ckpt_error *err)
{
	return is_right ? 0 : ckpt_quant_misfit(g, role, err, "wanted %s", wanted);
}

static int fill_float8(struct ckpt_quant_group *g, const json_t *data, struct ckpt_error *err)
{
	enum ckpt_dtype scale = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype;
	int rc = want(g, CKPT_PART_ITEMS, g->weight.item == CKPT_DTYPE_FLOAT8_E4M3FN,
		      "float8_e4m3fn", err);

	if (rc == 0)
		rc = want(g, CKPT_PART_SCALES, ckpt_fill_is_wide(scale), "float32 or bfloat16",
			  err);
	if (rc == 0 && g->parts[CKPT_PART_ZEROS].entry)
		rc = ckpt_quant_misfit(g, CKPT_PART_ZEROS, err, "Float8Tensor has none");
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32);
	if (rc == 0)
		rc = ckpt_fill_items(g, 1, err);
	snprintf(g->scheme, sizeof(g->scheme), "FP8 (e4m3) of torchao");
	return rc < 0 ? rc : fill_blocks(g, data, err);
}

static int fill_int8(struct ckpt_quant_group *g, const json_t *data, bool own,
		     struct ckpt_error *err)
{
	enum ckpt_dtype scale = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype,
			in = own ? dtype_of(data, "dtype") : g->quant->to;
	int rc = want(g, CKPT_PART_ITEMS, g->weight.item == CKPT_DTYPE_INT8, "int8", err);

	if (rc == 0)
		rc = want(g, CKPT_PART_SCALES, ckpt_fill_is_wide(scale),
			  "float32, float16 or bfloat16", err);
	if (rc == 0 && own &&
	    !ckpt_quant_config_text(json_object_get(data, "target_dtype"), "_data"))
		rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the metadata say no target_dtype");
	if (rc == 0 && (!ckpt_fill_is_wide(in) || (own && promoted(in, scale) != in)))
		rc = ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
				       "the metadata say another dtype of the weight");
	ckpt_fill_arithmetic(g, scale, in, promoted(in, scale));
	if (rc == 0)
		rc = ckpt_fill_items(g, 1, err);
	if (rc == 0)
		rc = fill_blocks(g, data, err);
	snprintf(g->scheme, sizeof(g->scheme),
		 own ? "integers in int8 of torchao" : "INT8 of torchao");
	return rc < 0 ? rc : fill_zeros(g, err);
}

static int fill_mx(struct ckpt_quant_group *g, const json_t *data, struct ckpt_error *err)
{
	enum ckpt_dtype elem = dtype_of(data, "elem_dtype");
	bool is_fp4 = elem == CKPT_DTYPE_FLOAT4_E2M1FN_X2;
	int64_t block = ckpt_quant_config_int(data, "block_size", 0);
	int rc = want(
		g, CKPT_PART_ITEMS,
		is_fp4 ? g->weight.item == CKPT_DTYPE_UINT8
		       : g->weight.item == elem && (elem == CKPT_DTYPE_FLOAT8_E4M3FN ||
						    elem == CKPT_DTYPE_FLOAT8_E5M2),
		"the elem_dtype of the metadata, float8_e4m3fn, float8_e5m2 or pairs of FP4 in uint8",
		err);

	if (rc == 0)
		rc = want(g, CKPT_PART_SCALES,
			  ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype ==
				  CKPT_DTYPE_FLOAT8_E8M0FNU,
			  "float8_e8m0fnu", err);
	if (rc == 0)
		rc = ckpt_fill_items(g, is_fp4 ? 2 : 1, err);
	if (rc == 0 && (block <= 0 || g->weight.cols % (uint64_t)block))
		rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
				       "a row is no multiple of %" PRId64 " numbers", block);
	g->weight.code = is_fp4 ? CKPT_QUANT_E2M1 : CKPT_QUANT_NUMBER;
	g->weight.bits = is_fp4 ? 4 : 8;
	ckpt_fill_arithmetic(g, g->quant->to, g->quant->to, g->quant->to);
	snprintf(g->scheme, sizeof(g->scheme),
		 "%s of torchao, a power of 2 for %" PRId64 " numbers", is_fp4 ? "MXFP4" : "MXFP8",
		 block);
	return rc < 0 ? rc : ckpt_fill_blocks(g, 1, (uint64_t)block, err);
}

/*
 * get_hp_scales() multiplies the two scales in float32 since 0.18, which calls the dtype of the weight orig_dtype; versions before,
 * which call it _orig_dtype, in that dtype, to which torch rounds both first, unless the second scale has a dimension.
 */
static int set_nvfp4_scales(struct ckpt_quant_group *g, const json_t *data, struct ckpt_error *err)
{
	const struct ckpt_tensor *global = ckpt_quant_tensor(g, CKPT_PART_GLOBAL);
	enum ckpt_dtype now = dtype_of(data, "orig_dtype"), before = dtype_of(data, "_orig_dtype");

	if (global && ckpt_fill_is_wide(now) == ckpt_fill_is_wide(before))
		return ckpt_quant_misfit(
			g, CKPT_PART_GLOBAL, err,
			"neither orig_dtype nor _orig_dtype says alone in which dtype it is multiplied");
	if (global && ckpt_fill_is_wide(before) && !global->ndim)
		g->weight.scale_in = before;
	return 0;
}

static int fill_nvfp4(struct ckpt_quant_group *g, const json_t *data, struct ckpt_error *err)
{
	const struct ckpt_tensor *global = ckpt_quant_tensor(g, CKPT_PART_GLOBAL);
	int rc = want(g, CKPT_PART_ITEMS, g->weight.item == CKPT_DTYPE_UINT8,
		      "pairs of FP4 in uint8", err);

	if (rc == 0)
		rc = want(g, CKPT_PART_SCALES,
			  ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype == CKPT_DTYPE_FLOAT8_E4M3FN,
			  "float8_e4m3fn", err);
	if (rc == 0 && global)
		rc = want(g, CKPT_PART_GLOBAL, global->dtype == CKPT_DTYPE_FLOAT32,
			  "one number of float32", err);
	if (rc == 0)
		rc = ckpt_fill_items(g, 2, err);
	if (rc == 0 && global)
		rc = want(g, CKPT_PART_GLOBAL, ckpt_fill_is_single(g, CKPT_PART_GLOBAL),
			  "one number of float32", err);
	if (rc == 0 && (ckpt_quant_config_int(data, "block_size", 0) != 16 || g->weight.cols % 16))
		rc = ckpt_quant_misfit(
			g, CKPT_PART_ITEMS, err,
			"wanted blocks of 16, as NVFP4 has them, in the metadata and in each row");
	g->weight.code = CKPT_QUANT_E2M1;
	g->weight.bits = 4;
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32);
	snprintf(g->scheme, sizeof(g->scheme), "NVFP4 of torchao, a scale for 16 numbers");
	if (rc == 0)
		rc = set_nvfp4_scales(g, data, err);
	if (rc == 0)
		rc = ckpt_quant_bytes(g, CKPT_PART_GLOBAL, &g->weight.global, err);
	return rc < 0 ? rc : ckpt_fill_blocks(g, 1, 16, err);
}

/* The metadata list the parts that there are, and no others but those of activations. */
static int check_parts(const struct ckpt_quant_group *g, const json_t *says, struct ckpt_error *err)
{
	static const struct {
		const char *name;
		enum ckpt_part_role role;
	} parts[] = { { "qdata", CKPT_PART_ITEMS },
		      { "scale", CKPT_PART_SCALES },
		      { "zero_point", CKPT_PART_ZEROS },
		      { "per_tensor_scale", CKPT_PART_GLOBAL } };
	const json_t *names = json_object_get(says, "_tensor_data_names"), *name;
	size_t i, listed = 0, there = 0;
	char shown[80];

	json_array_foreach(names, i, name)
	{
		const char *text = json_string_value(name);
		bool is_there = text && !strncmp(text, "act_", 4);

		for (size_t k = 0; text && k < sizeof(parts) / sizeof(parts[0]); k++)
			if (!strcmp(text, parts[k].name) && g->parts[parts[k].role].entry)
				is_there = ++listed;
		if (!is_there)
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
						 "the metadata list a part '%s', which is missing",
						 text ? ckpt_escape(shown, sizeof(shown), text,
								    strlen(text))
						      : "?");
	}
	for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
		there += g->parts[parts[k].role].entry != NULL;
	if (listed != there)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "the metadata list %zu of its %zu parts", listed, there);
	return 0;
}

static int fill_class(struct ckpt_quant_group *g, const json_t *says, struct ckpt_error *err)
{
	const char *type = ckpt_quant_config_text(says, "_type");
	const json_t *data = json_object_get(says, "_data");
	char shown[80];

	g->weight.code = CKPT_QUANT_NUMBER;
	g->weight.item = ckpt_quant_tensor(g, CKPT_PART_ITEMS)->dtype;
	g->weight.bits = 8;
	if (ckpt_quant_config_true(data, "is_swizzled_scales", false) ||
	    ckpt_quant_config_true(data, "_is_swizzled_scales", false))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"'%.200s' has its scales in the order of cuBLAS (is_swizzled_scales)",
			g->parts[CKPT_PART_SCALES].entry->t->name);
	if (strcmp(type, "NVFP4Tensor") != 0 && g->parts[CKPT_PART_GLOBAL].entry)
		return ckpt_quant_misfit(g, CKPT_PART_GLOBAL, err, "only NVFP4Tensor has one");
	if ((!strcmp(type, "NVFP4Tensor") || !strcmp(type, "MXTensor")) &&
	    g->parts[CKPT_PART_ZEROS].entry)
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err, "only integers have some");
	if (!strcmp(type, "Float8Tensor"))
		return fill_float8(g, data, err);
	if (!strcmp(type, "Int8Tensor"))
		return fill_int8(g, data, false, err);
	if (!strcmp(type, "IntxUnpackedToInt8Tensor"))
		return fill_int8(g, data, true, err);
	if (!strcmp(type, "MXTensor"))
		return fill_mx(g, data, err);
	if (!strcmp(type, "NVFP4Tensor"))
		return fill_nvfp4(g, data, err);
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "'%.200s' is a %s of torchao, which ckpt does not know",
			 g->parts[CKPT_PART_ITEMS].entry->t->name,
			 ckpt_escape(shown, sizeof(shown), type, strlen(type)));
}

int ckpt_fill_torchao_class(struct ckpt_quant_group *g, const json_t *says, struct ckpt_error *err)
{
	int rc = check_parts(g, says, err);

	return rc < 0 ? rc : fill_class(g, says, err);
}

int ckpt_fill_torchao(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	struct ckpt_strmap *metadata = &g->quant->metadata;
	struct ckpt_buf key = { 0 };
	uint64_t *at;
	json_t *says = NULL;
	int rc = read_metadata(g->quant, err);

	if (rc < 0)
		return rc;
	ckpt_buf_add(&key, g->base, g->base_len);
	ckpt_buf_add(&key, &".weight"[!g->base_len], strlen(".weight") - !g->base_len);
	if (key.bad)
		return ckpt_fail_nomem(err);
	at = ckpt_strmap_find(metadata, (char *)key.data, key.len);
	if (at)
		says = parse(&(struct ckpt_strmap_entry){ .value = *at });
	ckpt_buf_clear(&key);
	if (!says)
		return ckpt_quant_misfit(
			g, CKPT_PART_ITEMS, err,
			"the metadata of the file do not say of which class of torchao");
	rc = ckpt_fill_torchao_class(g, says, err);
	json_decref(says);
	return rc;
}
