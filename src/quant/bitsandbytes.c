/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bitsandbytes 0.50: NF4 and FP4, whose statistics may be quantized themselves, and int8. Sources:
 * functional.py, QuantState.as_dict() and from_dict(), dequantize_4bit(); csrc/cpu_ops.cpp, for the tables,
 * which it takes instead of the quant_map of a file: one that differs is refused, as two readers
 * would make two things of it. _ops.py, int8_vectorwise_dequant.
 */
#include "quant/fill.h"

#include "base/json.h"
#include "base/text.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const float nf4[16] = { -1.0f,
			       -0.6961928009986877f,
			       -0.5250730514526367f,
			       -0.39491748809814453f,
			       -0.28444138169288635f,
			       -0.18477343022823334f,
			       -0.09105003625154495f,
			       0.0f,
			       0.07958029955625534f,
			       0.16093020141124725f,
			       0.24611230194568634f,
			       0.33791524171829224f,
			       0.44070982933044434f,
			       0.5626170039176941f,
			       0.7229568362236023f,
			       1.0f };
/* Code 8 is 0, as in quant_map and in its arithmetic in torch; some of its kernels make -0 of it. */
static const float fp4[16] = {
	0.0f,  5.208333333e-03f,  0.66666667f,	1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
	0.0f,  -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f
};

enum { MOST_STATE = 64 << 10 };

static int check_map(struct ckpt_quant_group *g, const float *table, struct ckpt_error *err)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_MAP);
	const uint8_t *bytes;
	size_t len;
	float map[16];
	int rc;

	if (!t)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "its quant_map is missing");
	if (t->dtype != CKPT_DTYPE_FLOAT32 || ckpt_shape_numel(t->shape, t->ndim) != 16)
		return ckpt_quant_misfit(g, CKPT_PART_MAP, err, "wanted 16 numbers of float32");
	rc = ckpt_quant_read(g, CKPT_PART_MAP, sizeof(map), &bytes, &len, err);
	if (rc < 0)
		return rc;
	memcpy(map, bytes, sizeof(map));
	for (int i = 0; i < 16; i++)
		if (!(fabsf(map[i] - table[i]) <= 1e-6f))
			return ckpt_quant_misfit(g, CKPT_PART_MAP, err,
						 "number %d is not that of bitsandbytes", i);
	return 0;
}

static enum ckpt_dtype dtype_of(const json_t *state, const char *key)
{
	const char *name = ckpt_quant_config_text(state, key);

	return name ? ckpt_dtype_find(!strncmp(name, "torch.", 6) ? name + 6 : name)
		    : CKPT_DTYPE_UNKNOWN;
}

static int bad_state(const struct ckpt_quant_group *g, const char *what, struct ckpt_error *err)
{
	return ckpt_quant_misfit(g, CKPT_PART_STATE, err, "its text has no %s that can be", what);
}

static int read_shape(struct ckpt_quant_group *g, const json_t *state, struct ckpt_error *err)
{
	const json_t *shape = json_object_get(state, "shape");
	size_t ndim = json_array_size(shape);

	if (!ndim || ndim > CKPT_MOST_DIMS)
		return bad_state(g, "shape", err);
	for (size_t i = 0; i < ndim; i++) {
		const json_t *n = json_array_get(shape, i);

		if (!json_is_integer(n) || json_integer_value(n) < 1)
			return bad_state(g, "shape", err);
		g->shape[i] = (uint64_t)json_integer_value(n);
	}
	g->ndim = (uint32_t)ndim;
	if (ckpt_shape_numel(g->shape, g->ndim) > UINT64_MAX / 8)
		return bad_state(g, "shape", err);
	return 0;
}

/* ROLE has COUNT numbers of DTYPE. */
static int check_numbers(const struct ckpt_quant_group *g, enum ckpt_part_role role,
			 enum ckpt_dtype dtype, uint64_t count, struct ckpt_error *err)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, role);

	if (t->dtype == dtype && ckpt_shape_numel(t->shape, t->ndim) == count)
		return 0;
	return ckpt_quant_misfit(g, role, err, "wanted %" PRIu64 " numbers of %s", count,
				 ckpt_dtype_name(dtype));
}

static int fill_nested(struct ckpt_quant_group *g, const json_t *state, uint64_t blocks,
		       struct ckpt_error *err)
{
	const json_t *offset = json_object_get(state, "nested_offset");
	int64_t block = ckpt_quant_config_int(state, "nested_blocksize", 0);
	struct ckpt_quant_weight *w = &g->weight;
	int rc;

	if (!g->parts[CKPT_PART_NESTED_MAP].entry)
		return ckpt_quant_misfit(g, CKPT_PART_NESTED_SCALES, err,
					 "its nested_quant_map is missing");
	if (block <= 0)
		return bad_state(g, "nested_blocksize", err);
	if (!json_is_number(offset))
		return bad_state(g, "nested_offset", err);
	if (dtype_of(state, "nested_dtype") != CKPT_DTYPE_FLOAT32)
		return bad_state(g, "nested_dtype", err);
	rc = check_numbers(g, CKPT_PART_SCALES, CKPT_DTYPE_UINT8, blocks, err);
	if (rc == 0)
		rc = check_numbers(g, CKPT_PART_NESTED_MAP, CKPT_DTYPE_FLOAT32, 256, err);
	if (rc == 0)
		rc = check_numbers(g, CKPT_PART_NESTED_SCALES, CKPT_DTYPE_FLOAT32,
				   blocks / (uint64_t)block + (blocks % (uint64_t)block != 0), err);
	if (rc == 0)
		rc = ckpt_quant_bytes(g, CKPT_PART_NESTED_SCALES, &w->nested_scales, err);
	if (rc == 0)
		rc = ckpt_quant_bytes(g, CKPT_PART_NESTED_MAP, &w->nested_table, err);
	w->scale_dtype = CKPT_DTYPE_UINT8;
	w->nested_block = (uint64_t)block;
	w->nested_offset = (float)json_number_value(offset);
	return rc;
}

/* The configuration says another kind than the weight is. */
static int check_kind(const struct ckpt_quant_group *g, const char *kind, struct ckpt_error *err)
{
	static const char *const loads[] = { "load_in_4bit", "load_in_8bit" };
	const json_t *says = g->quant->config.says;
	const char *type = ckpt_quant_config_text(says, "bnb_4bit_quant_type"), *key;
	bool four = ckpt_quant_config_true(says, "load_in_4bit", false),
	     eight = ckpt_quant_config_true(says, "load_in_8bit", false);
	const json_t *says_type = json_object_get(says, "bnb_4bit_quant_type");
	char shown[80];

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		const json_t *load = json_object_get(says, loads[i]);

		if (load && !json_is_null(load) && !json_is_boolean(load))
			return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration's %s is neither true nor false", loads[i]);
	}
	if (four && eight)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration says load_in_4bit and load_in_8bit");
	if (says_type && !json_is_null(says_type) && !type)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "the configuration's bnb_4bit_quant_type is no text");
	if (four != eight && four == !strcmp(kind, "int8"))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "it is %s, and the configuration says %s", kind,
					 four ? "load_in_4bit" : "load_in_8bit");
	key = strcmp(kind, "int8") != 0 ? "load_in_4bit" : "load_in_8bit";
	if (json_is_false(json_object_get(says, key)))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "it is %s, and the configuration says that %s is false",
					 kind, key);
	if (strcmp(kind, "int8") != 0 && four && type && strcmp(type, kind) != 0)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "it is %s, and the configuration says '%s'", kind,
					 ckpt_escape(shown, sizeof(shown), type, strlen(type)));
	return 0;
}

static int fill_from_state(struct ckpt_quant_group *g, const json_t *state, struct ckpt_error *err)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS);
	bool is_nf4 = !strcmp(g->parts[CKPT_PART_STATE].suffix, ".quant_state.bitsandbytes__nf4"),
	     nested = g->parts[CKPT_PART_NESTED_SCALES].entry;
	const char *type = ckpt_quant_config_text(state, "quant_type");
	int64_t block = ckpt_quant_config_int(state, "blocksize", 0);
	enum ckpt_dtype dtype = dtype_of(state, "dtype");
	const float *table = is_nf4 ? nf4 : fp4;
	struct ckpt_quant_weight *w = &g->weight;
	uint64_t numel, bytes = ckpt_shape_numel(items->shape, items->ndim), blocks;
	int rc = read_shape(g, state, err);

	if (rc < 0)
		return rc;
	rc = check_kind(g, is_nf4 ? "nf4" : "fp4", err);
	if (rc < 0)
		return rc;
	if (items->dtype != CKPT_DTYPE_UINT8 && !ckpt_fill_is_wide(items->dtype))
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "wanted uint8, or what bnb_4bit_quant_storage can be");
	if (!type || strcmp(type, is_nf4 ? "nf4" : "fp4") != 0)
		return bad_state(g, "quant_type", err);
	if (block <= 0 || block % 2)
		return bad_state(g, "blocksize", err);
	if (!ckpt_fill_is_wide(dtype))
		return bad_state(g, "dtype", err);
	if (nested != (json_object_get(state, "nested_blocksize") != NULL))
		return bad_state(g, nested ? "nested_blocksize" : "plain absmax", err);
	if (items->ndim > 1 && items->shape[0] == 1) /* dequantize_4bit() turns what it makes of such codes */
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "wanted a column of codes: bitsandbytes takes a row for a weight that is turned around");
	numel = ckpt_shape_numel(g->shape, g->ndim);
	blocks = numel / (uint64_t)block + (numel % (uint64_t)block != 0);
	if (__builtin_mul_overflow(bytes, (uint64_t)ckpt_dtype_size(items->dtype), &bytes) ||
	    bytes != numel / 2 + numel % 2)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "wanted %" PRIu64 " bytes, two numbers in each",
					 numel / 2 + numel % 2);
	rc = check_map(g, table, err);
	w->code = CKPT_QUANT_TABLE;
	w->item = CKPT_DTYPE_UINT8;
	w->bits = 4;
	w->upper_first = true;
	w->table = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY,
					 .memory = table,
					 .len = sizeof(nf4) };
	w->matrices = w->rows = 1;
	w->cols = numel;
	w->block_rows = 1;
	w->block_cols = (uint64_t)block;
	w->scale_dtype = CKPT_DTYPE_FLOAT32;
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, dtype);
	snprintf(g->scheme, sizeof(g->scheme), "bitsandbytes %s, blocks of %" PRId64 "%s",
		 is_nf4 ? "NF4" : "FP4", block, nested ? ", nested" : "");
	if (rc == 0)
		rc = nested ? fill_nested(g, state, blocks, err)
			    : check_numbers(g, CKPT_PART_SCALES, CKPT_DTYPE_FLOAT32, blocks, err);
	if (rc == 0)
		rc = ckpt_quant_bytes(g, CKPT_PART_ITEMS, &w->items, err);
	return rc < 0 ? rc : ckpt_quant_bytes(g, CKPT_PART_SCALES, &w->scales, err);
}

static int fill_4bit(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_STATE);
	const uint8_t *bytes;
	json_error_t error;
	json_t *state;
	size_t len;
	int rc;

	g->result = "";
	if (!t)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "the quant_state of its weight is missing");
	if (t->dtype != CKPT_DTYPE_UINT8 || t->ndim != 1)
		return ckpt_quant_misfit(g, CKPT_PART_STATE, err, "wanted a text in uint8");
	rc = ckpt_quant_read(g, CKPT_PART_STATE, MOST_STATE, &bytes, &len, err);
	if (rc < 0)
		return rc;
	state = ckpt_json_load((const char *)bytes, len, JSON_REJECT_DUPLICATES, &error);
	rc = json_is_object(state)
		     ? fill_from_state(g, state, err)
		     : ckpt_quant_misfit(g, CKPT_PART_STATE, err, "its text is no JSON object");
	json_decref(state);
	return rc;
}

static int fill_int8(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	const struct ckpt_tensor *items = ckpt_quant_tensor(g, CKPT_PART_ITEMS),
				 *scales = ckpt_quant_tensor(g, CKPT_PART_SCALES),
				 *state = ckpt_quant_tensor(g, CKPT_PART_STATE);
	const uint8_t *bytes = NULL;
	size_t len = 0;
	int rc = check_kind(g, "int8", err);

	if (rc < 0)
		return rc;
	if (items->dtype != CKPT_DTYPE_INT8 || items->ndim != 2)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
					 "wanted int8, two dimensions, as there is an SCB for it");
	if (scales->dtype != CKPT_DTYPE_FLOAT32)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err, "wanted float32");
	if (state && state->dtype != CKPT_DTYPE_UINT8)
		return ckpt_quant_misfit(g, CKPT_PART_STATE, err, "wanted uint8");
	if (state)
		rc = ckpt_quant_read(g, CKPT_PART_STATE, 1, &bytes, &len, err);
	if (rc == 0 && len && bytes[0])
		rc = ckpt_quant_misfit(g, CKPT_PART_STATE, err,
				       "layout %u, and only 0 (row by row) is known", bytes[0]);
	g->weight.code = CKPT_QUANT_NUMBER;
	g->weight.item = items->dtype;
	g->weight.bits = 8;
	g->weight.factor = 7.874015718698502e-3f;
	ckpt_fill_arithmetic(g, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32);
	snprintf(g->scheme, sizeof(g->scheme), "bitsandbytes INT8, one scale for each row");
	if (rc == 0)
		rc = ckpt_fill_items(g, 1, err);
	if (rc == 0 && !ckpt_fill_is_by_row(g))
		rc = ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
				       "wanted one for each of %" PRIu64 " rows", g->weight.rows);
	return rc < 0 ? rc : ckpt_fill_by_row(g, err);
}

int ckpt_fill_bitsandbytes(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	if (!strcmp(g->parts[CKPT_PART_SCALES].suffix, ".SCB"))
		return fill_int8(g, err);
	return fill_4bit(g, err);
}
