/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchao 0.18, in safetensors: the metadata of the file have a JSON text for each tensor, with its class and
 * the names of its parts; sets have those of each file in it. Sources: torchao/prototype/safetensors,
 * flatten_tensor_state_dict(); quantization/quantize_/workflows, dequantize() of Float8Tensor, Int8Tensor and
 * IntxUnpackedToInt8Tensor; prototype/mx_formats, to_dtype() of MXTensor, dequantize() of NVFP4Tensor, from_blocked().
 *
 * What must stay true: the class is what the metadata say, never what names and dtypes look like; a class
 * that is not known here is refused. So is a tensor that torchao would not build of the file,
 * unflatten_tensor_state_dict(): "tensor_names" does not list it, or its parts are not those that the metadata list.
 */
#include "quant/fill.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "format/format.h"
#include "tensor/items.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata ---- */

struct pair {
	const char *value;
	size_t len;
	bool differs; /* another file of the set says another thing */
};

struct ckpt_quant_names {
	struct pair list;
	const struct ckpt_quant_names *next;
};

static bool is_names(const char *key, size_t len)
{
	return len == 12 && !memcmp(key, "tensor_names", 12);
}

static int add_pair(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	struct ckpt_quant *q = ctx;
	struct pair *pair = ckpt_arena_alloc(q->arena, sizeof(*pair));
	struct ckpt_quant_names *names = is_names(key, key_len) ? ckpt_arena_alloc(q->arena, sizeof(*names)) : NULL;
	uint64_t *slot;
	bool there;

	if (!pair || (is_names(key, key_len) && !names))
		return CKPT_E_NOMEM;
	*pair = (struct pair){ value, value_len, false };
	slot = ckpt_strmap_insert(&q->metadata, key, key_len, (uintptr_t)pair, &there);
	if (!slot)
		return CKPT_E_NOMEM;
	if (there) {
		struct pair *first = (struct pair *)(uintptr_t)*slot;

		first->differs |= first->len != value_len || memcmp(first->value, value, value_len) != 0;
	}
	if (names) {
		*names = (struct ckpt_quant_names){ *pair, q->name_lists };
		q->name_lists = names;
	}
	return 0;
}

/* The first name that the file has for something else, or not: *OUT, or NULL. */
static int find_renamed(struct ckpt_quant *q, const char **out, struct ckpt_error *err)
{
	const struct ckpt_model *first = q->model;
	const struct ckpt_seq *pairs;
	struct ckpt_strmap were = { 0 };
	bool fine = true, there;

	*out = NULL;
	while (first->base)
		first = first->base;
	pairs = first == q->model || !q->name_lists ? NULL : ckpt_value_pairs(first->root);
	for (uint32_t i = 0; fine && pairs && i + 1 < pairs->count; i += 2)
		if (ckpt_value_is_text(pairs->items[i]))
			fine = ckpt_strmap_insert(&were, pairs->items[i]->u.bytes.ptr, pairs->items[i]->u.bytes.len, pairs->items[i + 1]->id, &there);
	for (uint32_t i = 0; fine && !*out && pairs && i < q->entry_count; i++) {
		const struct ckpt_quant_entry *e = &q->entries[i];
		const uint64_t *was = ckpt_strmap_find(&were, e->key, e->key_len);

		if (was && *was == ckpt_value_pairs(e->holder)->items[e->at + 1]->id)
			continue;
		*out = ckpt_arena_copy(q->arena, e->key, e->key_len);
		fine = *out;
	}
	ckpt_strmap_clear(&were);
	return fine ? 0 : ckpt_fail_nomem(err);
}

/*
 * The metadata are those of the file. Where an edit gave its tensors other names, they say nothing of these: one of another class
 * may have had the name.
 */
static int read_metadata(struct ckpt_quant *q, struct ckpt_error *err)
{
	const struct ckpt_format *format = q->model->doc->format;
	char shown[160];
	int rc = 0;

	if (!q->metadata.count) {
		if (format->parts_metadata)
			rc = format->parts_metadata(q->model, add_pair, q);
		else if (format->metadata)
			rc = format->metadata(q->model, add_pair, q);
		rc = rc < 0 ? ckpt_fail_nomem(err) : find_renamed(q, &q->renamed, err);
	}
	if (rc < 0 || !q->renamed)
		return rc;
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%s' had another name when torchao wrote of its class: dequantize before names change, or in a command of its own",
			 ckpt_escape(shown, sizeof(shown), q->renamed, strlen(q->renamed)));
}

/* An object with `_type`, to be released; NULL: the pair is none. */
static json_t *parse(const struct ckpt_strmap_entry *e)
{
	const struct pair *pair = (const struct pair *)(uintptr_t)e->value;
	json_error_t error;
	json_t *says;

	if (!pair->len || pair->value[0] != '{')
		return NULL;
	says = ckpt_json_load(pair->value, pair->len, JSON_REJECT_DUPLICATES, &error);
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

/* What is in front of the parts of the tensor NAME, "X._w1_" of "X.w1", and PART. */
static void add_part_name(struct ckpt_buf *out, const char *name, size_t len, const char *part)
{
	const char *dot = memrchr(name, '.', len);
	size_t front = dot ? (size_t)(dot + 1 - name) : 0;

	ckpt_buf_add(out, name, front);
	ckpt_buf_add_u8(out, '_');
	ckpt_buf_add(out, name + front, len - front);
	ckpt_buf_add_u8(out, '_');
	ckpt_buf_add(out, part, strlen(part));
}

static int fail_missing(const struct ckpt_strmap_entry *e, const char *type, struct ckpt_error *err)
{
	struct ckpt_buf part = { 0 };
	char shown[160], class[80], shown_part[160];
	int rc;

	add_part_name(&part, e->key, e->len, "qdata");
	rc = part.bad ? ckpt_fail_nomem(err)
		      : ckpt_fail(err, CKPT_E_FORMAT, "'%s' is a %s by the metadata, and its '%s' is missing",
				  ckpt_escape(shown, sizeof(shown), e->key, e->len),
				  ckpt_escape(class, sizeof(class), type, strlen(type)),
				  ckpt_escape(shown_part, sizeof(shown_part), (char *)part.data, part.len));
	ckpt_buf_clear(&part);
	return rc;
}

static int check_pair(struct ckpt_quant *q, const struct ckpt_strmap *names,
		      const struct ckpt_strmap_entry *e, struct ckpt_error *err)
{
	json_t *says = parse(e);
	const char *type = ckpt_quant_config_text(says, "_type");
	int rc = 0;

	if (!says && !is_names(e->key, e->len))
		return 0;
	q->stale[q->stale_count] = ckpt_arena_copy(q->arena, e->key, e->len);
	if (!q->stale[q->stale_count++])
		rc = ckpt_arena_fail(q->arena, err);
	else if (type && strcmp(type, "Tensor") != 0 && !has_group(names, e))
		rc = fail_missing(e, type, err);
	json_decref(says);
	return rc;
}

/* ---- what torchao builds ---- */

/* The names that "tensor_names" lists, of all files. */
static int list_names(struct ckpt_quant *q, struct ckpt_strmap *listed, struct ckpt_error *err)
{
	for (const struct ckpt_quant_names *n = q->name_lists; n; n = n->next) {
		json_error_t why;
		json_t *list = ckpt_json_load(n->list.value, n->list.len, 0, &why), *name;
		struct ckpt_strmap own = { 0 }; /* another file of the set may list it, too */
		bool fits = json_is_array(list), there, is_twice;
		char shown[160];
		size_t i;
		int rc = 0;

		json_array_foreach(list, i, name)
		{
			const char *text = json_string_value(name), *kept;

			fits &= text != NULL;
			if (!text || rc < 0)
				continue;
			kept = ckpt_arena_copy(q->arena, text, strlen(text));
			if (!kept || !ckpt_strmap_insert(listed, kept, strlen(kept), 0, &there) ||
			    !ckpt_strmap_insert(&own, kept, strlen(kept), 0, &is_twice))
				rc = ckpt_fail_nomem(err);
			else if (is_twice)
				rc = ckpt_fail(err, CKPT_E_FORMAT, "'tensor_names' in the metadata lists '%s' twice",
					       ckpt_escape(shown, sizeof(shown), kept, strlen(kept)));
			else if (!ckpt_strmap_find(&q->metadata, kept, strlen(kept)))
				rc = ckpt_fail(err, CKPT_E_FORMAT, "'tensor_names' in the metadata lists '%s', of which they say nothing",
					       ckpt_escape(shown, sizeof(shown), kept, strlen(kept)));
		}
		json_decref(list);
		ckpt_strmap_clear(&own);
		if (rc == 0 && !fits)
			rc = ckpt_fail(err, CKPT_E_FORMAT, "'tensor_names' in the metadata is no list of names");
		if (rc < 0)
			return rc;
	}
	return 0;
}

static bool lists(const json_t *names, const char *part)
{
	const json_t *name;
	size_t i;

	json_array_foreach(names, i, name)
		if (json_is_string(name) && !strcmp(json_string_value(name), part))
			return true;
	return false;
}

static const char *const activations[] = { "act_quant_scale", "act_quant_zero_point", "act_per_tensor_scale" };
enum { ACTIVATIONS = sizeof(activations) / sizeof(activations[0]) };

/* Scales of activations are of no use here, but torchao builds no tensor whose parts are not those that are listed. */
static int check_activations(const struct ckpt_quant_group *g, const struct ckpt_strmap *keys, const json_t *names,
			     struct ckpt_error *err)
{
	for (size_t i = 0; i < ACTIVATIONS; i++) {
		struct ckpt_buf key = { 0 };
		bool is_there, is_bad;

		add_part_name(&key, g->key, strlen(g->key), activations[i]);
		is_bad = key.bad;
		is_there = !is_bad && ckpt_strmap_find(keys, (char *)key.data, key.len);
		ckpt_buf_clear(&key);
		if (is_bad)
			return ckpt_fail_nomem(err);
		if (is_there != lists(names, activations[i]))
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
						 is_there ? "the metadata do not list its part '%s', which is there"
							  : "the metadata list a part '%s', which is missing",
						 activations[i]);
	}
	return 0;
}

static int check_built(const struct ckpt_quant_group *g, const struct ckpt_strmap *listed,
		       const struct ckpt_strmap *keys, struct ckpt_error *err)
{
	const uint64_t *at = ckpt_strmap_find(&g->quant->metadata, g->key, strlen(g->key));
	json_t *says;
	int rc;

	if (!g->quant->name_lists)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "the metadata have no 'tensor_names', without which torchao builds nothing");
	if (!ckpt_strmap_find(listed, g->key, strlen(g->key)))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "'tensor_names' in the metadata does not list its tensor, which torchao does not build then");
	says = at ? parse(&(struct ckpt_strmap_entry){ .value = *at }) : NULL;
	rc = check_activations(g, keys, json_object_get(says, "_tensor_data_names"), err);
	json_decref(says);
	return rc;
}

static int check_all_built(struct ckpt_quant *q, struct ckpt_error *err)
{
	struct ckpt_strmap listed = { 0 }, keys = { 0 };
	int rc = q->group_count ? list_names(q, &listed, err) : 0;
	bool there;

	for (uint32_t i = 0; rc == 0 && q->group_count && i < q->entry_count; i++)
		if (!ckpt_strmap_insert(&keys, q->entries[i].key, q->entries[i].key_len, i, &there))
			rc = ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < q->group_count; i++)
		if (q->groups[i]->key)
			rc = check_built(q->groups[i], &listed, &keys, err);
	ckpt_strmap_clear(&listed);
	ckpt_strmap_clear(&keys);
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
	for (uint32_t i = 0; rc == 0 && i < q->group_count; i++) {
		const char *key = q->groups[i]->key; /* NULL: of a group that was not filled */

		if (key && !ckpt_strmap_insert(&names, key, strlen(key), i, &there))
			rc = ckpt_fail_nomem(err);
	}
	for (size_t i = 0; rc == 0 && i < q->metadata.count; i++)
		rc = check_pair(q, &names, &q->metadata.entries[i], err);
	if (rc == 0 && q->stale_count)
		qsort(q->stale, q->stale_count, sizeof(*q->stale), by_text);
	ckpt_strmap_clear(&names);
	return rc < 0 ? rc : check_all_built(q, err);
}

/* ---- classes ---- */

/* object_from_dict() in torchao: what the classes are given has to be what it can make, and all that has no default. */
static int check_dtypes(const struct ckpt_quant_group *g, const json_t *data, struct ckpt_error *err)
{
	static const char *const keys[] = { "dtype", "orig_dtype", "_orig_dtype", "elem_dtype", "target_dtype" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const json_t *dtype = json_object_get(data, keys[i]);
		const char *type = ckpt_quant_config_text(dtype, "_type"), *name = ckpt_quant_config_text(dtype, "_data");
		bool is_integer = i == 4; /* of 1 to 8 bits, of which ckpt_dtype_find() knows one */

		if (!dtype || json_is_null(dtype))
			continue;
		if (!type || strcmp(type, "torch.dtype") != 0 || !name ||
		    (is_integer ? strncmp(name, "int", 3) != 0 || name[3] < '1' || name[3] > '8' || name[4]
				: ckpt_dtype_find(name) == CKPT_DTYPE_UNKNOWN))
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the metadata say a %s that is none", keys[i]);
	}
	return 0;
}

static int check_settings(const struct ckpt_quant_group *g, const json_t *says, struct ckpt_error *err)
{
	static const struct {
		const char *type, *key, *before; /* BEFORE: as torchao up to 0.15 calls it */
	} required[] = { { "Int8Tensor", "dtype", "dtype" },
			 { "IntxUnpackedToInt8Tensor", "dtype", "dtype" },
			 { "MXTensor", "orig_dtype", "_orig_dtype" },
			 { "MXTensor", "kernel_preference", "kernel_preference" },
			 { "MXTensor", "is_swizzled_scales", "_is_swizzled_scales" },
			 { "NVFP4Tensor", "orig_dtype", "_orig_dtype" } };
	const char *type = ckpt_quant_config_text(says, "_type");
	const json_t *data = json_object_get(says, "_data");

	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		if (!strcmp(required[i].type, type) && !json_object_get(data, required[i].key) &&
		    !json_object_get(data, required[i].before))
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the metadata say no %s, without which torchao builds no %s",
						 required[i].key, required[i].type);
	return check_dtypes(g, data, err);
}

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

/* Blocks as block_size says, whose scales are as many in each dimension: each in one matrix, or one for all of them. */
static int fill_blocks(struct ckpt_quant_group *g, const json_t *data, struct ckpt_error *err)
{
	const json_t *size = json_object_get(data, "block_size");
	const struct ckpt_tensor *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	int64_t rows = json_integer_value(json_array_get(size, g->ndim - 2)),
		cols = json_integer_value(json_array_get(size, g->ndim - 1));
	bool is_in_one = true, is_all = scales->ndim == g->ndim && ckpt_shape_numel(scales->shape, scales->ndim) == 1;

	if (json_array_size(size) != g->ndim || rows <= 0 || cols <= 0)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "block_size is not a size for each dimension");
	for (uint32_t i = 0; i < g->ndim; i++) {
		int64_t one = json_integer_value(json_array_get(size, i));

		is_in_one &= i + 2 >= g->ndim || one == 1;
		is_all &= one > 0 && (uint64_t)one == g->shape[i];
	}
	if (!is_in_one && is_all)
		return ckpt_fill_single(g, err);
	if (!is_in_one)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "block_size has blocks of several matrices, which ckpt does not know");
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
	int rc = want(g, CKPT_PART_ITEMS,
		      g->weight.item == CKPT_DTYPE_FLOAT8_E4M3FN || g->weight.item == CKPT_DTYPE_FLOAT8_E5M2,
		      "float8_e4m3fn or float8_e5m2", err);

	if (rc == 0)
		rc = want(g, CKPT_PART_SCALES, ckpt_fill_is_wide(scale), "float32 or bfloat16",
			  err);
	if (rc == 0 && g->parts[CKPT_PART_ZEROS].entry)
		rc = ckpt_quant_misfit(g, CKPT_PART_ZEROS, err, "Float8Tensor has none");
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32);
	if (rc == 0)
		rc = ckpt_fill_items(g, 1, err);
	snprintf(g->scheme, sizeof(g->scheme), "FP8 (%s) of torchao",
		 g->weight.item == CKPT_DTYPE_FLOAT8_E5M2 ? "e5m2" : "e4m3");
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

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

static bool is_dense(const struct ckpt_tensor *t)
{
	return ckpt_items_are_dense(&(struct ckpt_items){
		.ndim = t->ndim, .numel = ckpt_shape_numel(t->shape, t->ndim), .shape = t->shape, .stride = t->stride });
}

/*
 * A scale for each BLOCK numbers of a row. is_swizzled_scales: in the order of cuBLAS. from_blocked() takes those of all matrices for
 * one matrix, and their number, but not their shape, has to fit; to_mx() and to_nvfp4() write [..., 32 * ceil(M / 128), ...].
 */
static int fill_row_blocks(struct ckpt_quant_group *g, uint64_t block, struct ckpt_error *err)
{
	struct ckpt_quant_weight *w = &g->weight;
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS), *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	uint64_t rows, want = 0;

	if (!w->scales_in_tiles)
		return ckpt_fill_blocks(g, 1, block, err);
	if (items->stride[items->ndim - 2] < items->stride[items->ndim - 1])
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "it is transposed, and its scales are in the order of cuBLAS");
	if (!is_dense(scales))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err, "scales in the order of cuBLAS have to lie one behind the other");
	if (__builtin_mul_overflow(w->matrices, w->rows, &rows) ||
	    __builtin_mul_overflow(ceil_div(rows, 128), ceil_div(w->cols / block, 4), &want) ||
	    __builtin_mul_overflow(want, 512, &want) || ckpt_shape_numel(scales->shape, scales->ndim) != want)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted %" PRIu64 " scales in the order of cuBLAS, whole tiles of 128 x 4, for %" PRIu64 " x %" PRIu64
					 " numbers",
					 want, rows, w->cols);
	w->block_rows = 1;
	w->block_cols = block;
	w->scale_dtype = scales->dtype;
	return ckpt_quant_bytes(g, CKPT_PART_SCALES, &w->scales, err);
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
	if (rc == 0 && g->weight.scales_in_tiles) /* to_dtype() asks that */
		rc = want(g, CKPT_PART_ITEMS, is_dense(ckpt_quant_tensor(g, CKPT_PART_ITEMS)), "numbers that lie one behind the other", err);
	g->weight.code = is_fp4 ? CKPT_QUANT_E2M1 : CKPT_QUANT_NUMBER;
	g->weight.bits = is_fp4 ? 4 : 8;
	ckpt_fill_arithmetic(g, g->quant->to, g->quant->to, g->quant->to);
	snprintf(g->scheme, sizeof(g->scheme),
		 "%s of torchao, a power of 2 for %" PRId64 " numbers", is_fp4 ? "MXFP4" : "MXFP8",
		 block);
	return rc < 0 ? rc : fill_row_blocks(g, (uint64_t)block, err);
}

/*
 * The second scale as get_hp_scales() can multiply by it. 0.18 takes one number, or [E, 1, 1] for the matrices of experts. Versions before
 * have the scales in cuBLAS' order as those of one matrix there.
 */
static bool fits_nvfp4_global(const struct ckpt_quant_group *g, bool is_before)
{
	const struct ckpt_tensor *global = ckpt_quant_tensor(g, CKPT_PART_GLOBAL);
	bool is_by_matrix = ckpt_fill_has_shape(g, CKPT_PART_GLOBAL, 1, 1),
	     is_one = ckpt_shape_numel(global->shape, global->ndim) == 1;

	if (is_before)
		return (is_one && global->ndim <= 1) || (is_by_matrix && (is_one || !g->weight.scales_in_tiles));
	return !global->ndim || (global->ndim == 3 && (is_one || is_by_matrix));
}

/*
 * get_hp_scales() multiplies the two scales in float32 since 0.18; versions before in the dtype of the weight, to which torch rounds both
 * first, unless the second scale has a dimension. Up to 0.15 that dtype is called _orig_dtype, and from 0.16 on orig_dtype: no file of 0.16
 * and 0.17 says that it is not of 0.18, which reads them as its own.
 */
static int set_nvfp4_scales(struct ckpt_quant_group *g, const json_t *data, struct ckpt_error *err)
{
	const struct ckpt_tensor *global = ckpt_quant_tensor(g, CKPT_PART_GLOBAL);
	enum ckpt_dtype now = dtype_of(data, "orig_dtype"), before = dtype_of(data, "_orig_dtype");
	bool is_before = ckpt_fill_is_wide(before) || g->quant->release == CKPT_QUANT_RELEASE_TORCHAO_0_17;

	if (!global)
		return 0;
	if (ckpt_fill_is_wide(now) == ckpt_fill_is_wide(before))
		return ckpt_quant_misfit(
			g, CKPT_PART_GLOBAL, err,
			"neither orig_dtype nor _orig_dtype says alone in which dtype it is multiplied");
	if (is_before && !global->ndim)
		g->weight.scale_in = ckpt_fill_is_wide(before) ? before : now;
	return want(g, CKPT_PART_GLOBAL, fits_nvfp4_global(g, is_before),
		    is_before ? "one number" : "one number without dimensions, or [E, 1, 1] for E matrices", err);
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
	return rc < 0 ? rc : fill_row_blocks(g, 16, err);
}

/* The metadata list the parts that there are, each once, and no others but those of activations: see check_activations(). */
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
		bool is_there = false, is_twice = false;

		for (size_t k = 0; text && k < i; k++)
			is_twice |= json_equal(json_array_get(names, k), (json_t *)name);
		for (size_t k = 0; text && k < ACTIVATIONS; k++)
			is_there |= !strcmp(text, activations[k]);
		for (size_t k = 0; text && k < sizeof(parts) / sizeof(parts[0]); k++)
			if (!strcmp(text, parts[k].name) && g->parts[parts[k].role].entry)
				is_there = ++listed;
		if (!is_there || is_twice)
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the metadata list a part '%s'%s",
						 text ? ckpt_escape(shown, sizeof(shown), text, strlen(text)) : "?",
						 is_twice ? " twice" : ", which is missing");
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
	const json_t *data = json_object_get(says, "_data"), *swizzled = json_object_get(data, "is_swizzled_scales"),
		     *before = json_object_get(data, "_is_swizzled_scales"); /* as up to 0.15 */
	char shown[80];

	g->weight.code = CKPT_QUANT_NUMBER;
	g->weight.item = ckpt_quant_tensor(g, CKPT_PART_ITEMS)->dtype;
	g->weight.bits = 8;
	if ((swizzled && !json_is_boolean(swizzled)) || /* torchao asks whether Python takes it for true */
	    (before && !json_is_boolean(before)))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err, "its is_swizzled_scales is neither true nor false");
	if (swizzled && before && swizzled != before) /* there is one true and one false */
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err, "its is_swizzled_scales is true and false");
	g->weight.scales_in_tiles = json_is_true(swizzled) || json_is_true(before);
	if (g->weight.scales_in_tiles && strcmp(type, "NVFP4Tensor") != 0 && strcmp(type, "MXTensor") != 0)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
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

/* "X.weight" of X, "X.w1" of "X._w1_". */
static int name_tensor(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	bool is_weight = g->parts[CKPT_PART_ITEMS].suffix[0] != '*';
	const char *dot = memrchr(g->base, '.', g->base_len);
	uint32_t front = is_weight ? g->base_len : dot ? (uint32_t)(dot + 1 - g->base) : 0;
	struct ckpt_buf key = { 0 };

	ckpt_buf_add(&key, g->base, front);
	if (is_weight)
		ckpt_buf_add(&key, &".weight"[!front], strlen(".weight") - !front);
	else
		ckpt_buf_add(&key, g->base + front + 1, g->base_len - front - 2);
	g->base = key.bad ? NULL : ckpt_arena_copy(g->quant->arena, key.data, key.len);
	g->base_len = (uint32_t)key.len;
	g->result = "";
	ckpt_buf_clear(&key);
	return g->base ? 0 : ckpt_fail_nomem(err);
}

int ckpt_fill_torchao(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct pair *pair = NULL;
	uint64_t *at;
	json_t *says = NULL;
	int rc = read_metadata(g->quant, err);

	if (rc == 0)
		rc = name_tensor(g, err);
	if (rc < 0)
		return rc;
	at = ckpt_strmap_find(&g->quant->metadata, g->base, g->base_len);
	if (at) {
		pair = (const struct pair *)(uintptr_t)*at;
		says = parse(&(struct ckpt_strmap_entry){ .value = *at });
	}
	if (says && pair->differs) {
		json_decref(says);
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the files of the set say different things of its class");
	}
	if (!says)
		return ckpt_quant_misfit(
			g, CKPT_PART_ITEMS, err,
			"the metadata of the file do not say of which class of torchao");
	rc = check_settings(g, says, err);
	if (rc == 0)
		rc = ckpt_fill_torchao_class(g, says, err);
	json_decref(says);
	return rc;
}
