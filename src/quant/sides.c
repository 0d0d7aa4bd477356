/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the numbers of a weight are made of beside the items. What is short is read once for each
 * reading of the weight, what is long where it is needed.
 *
 * What must stay true: no number is final before the checksums of all that it was made of are
 * compared. What is kept is compared when it is read. What is not kept has no checksum of its own
 * any more, but is a part of a record that has one (WHOLE), which the mover reads and compares at
 * its end.
 */
#include "quant/dequant_inner.h"

#include "tensor/float8.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_IF_RANDOM = 1 << 20, KEPT_MOST = 64 << 20, PIECE = 256 << 10 };

static const char *const names[CKPT_QUANT_SIDES] = {
	[CKPT_QUANT_ITEMS] = "numbers",
	[CKPT_QUANT_SCALES] = "scales",
	[CKPT_QUANT_ZEROS] = "zero points",
	[CKPT_QUANT_NESTED_SCALES] = "nested scales",
	[CKPT_QUANT_GLOBAL] = "global scales",
	[CKPT_QUANT_TABLE_SIDE] = "table",
	[CKPT_QUANT_NESTED_TABLE] = "nested table",
	[CKPT_QUANT_ROW_GROUPS] = "groups of rows",
	[CKPT_QUANT_COL_GROUPS] = "groups of columns",
};

const char *ckpt_quant_side_name(enum ckpt_quant_side side)
{
	return names[side];
}

/* Can it be read anywhere at the same speed? */
static bool is_random(const struct ckpt_recipe *recipe)
{
	if (recipe->kind == CKPT_RECIPE_JOINED) {
		for (size_t i = 0; i < recipe->part_count; i++)
			if (!is_random(&recipe->parts[i])) /* no part is joined itself */
				return false;
		return true;
	}
	return ckpt_recipe_is_random(recipe) &&
	       (recipe->kind != CKPT_RECIPE_EXTENT || !ckpt_source_is_sequential(recipe->src));
}

/* Let others compare the checksum of a recipe that is read in pieces. */
static void leave_check(struct ckpt_recipe *side)
{
	if (side->has_crc && side->kind == CKPT_RECIPE_EXTENT)
		side->whole = (struct ckpt_recipe_whole){ side->off, side->len, side->crc32 };
	side->has_crc = false; /* parts of a joined one have their own */
}

int ckpt_quant_plan_sides(struct ckpt_dequant *q, struct ckpt_error *err)
{
	uint64_t total = 0;

	for (unsigned i = q->is_map ? CKPT_QUANT_SCALES : CKPT_QUANT_ITEMS; i < CKPT_QUANT_SIDES;
	     i++) {
		struct ckpt_recipe *side = q->sides[i];
		bool random;

		if (!side)
			continue;
		random = is_random(side);
		q->keep[i] =
			(!random || side->len <= KEPT_IF_RANDOM || i > CKPT_QUANT_NESTED_SCALES);
		if (!q->keep[i]) {
			leave_check(side);
			continue;
		}
		if (side->len > KEPT_MOST - total)
			return ckpt_fail(err, CKPT_E_UNSUPPORTED,
					 random ? "its %s are too many: they take %" PRIu64 " bytes"
						: "its %s, of %" PRIu64
						  " bytes, can be read front to back only, and "
						  "are too many to be kept in memory",
					 names[i], side->len);
		total += side->len;
	}
	return 0;
}

/* ---- reading ---- */

/* An error of reading names the file that was read. */
static int at_source(const struct ckpt_recipe *side, int rc, struct ckpt_error *err)
{
	return side->kind == CKPT_RECIPE_EXTENT
		       ? ckpt_error_at(err, rc, ckpt_source_path(side->src), NULL, CKPT_NO_OFFSET)
		       : rc;
}

static int keep_side(const struct ckpt_recipe *side, uint8_t **out, struct ckpt_error *err)
{
	uint8_t *bytes = malloc((size_t)side->len);
	struct ckpt_stream *stream;
	int rc = bytes ? ckpt_recipe_stream(side, &stream, err) : ckpt_fail_nomem(err);

	*out = bytes;
	if (rc < 0)
		return rc;
	rc = stream->read(stream, bytes, (size_t)side->len, err);
	stream->close(stream);
	rc = at_source(side, rc, err);
	if (rc == 0 && side->has_crc)
		rc = ckpt_recipe_check(side, libdeflate_crc32(0, bytes, (size_t)side->len), err);
	return rc;
}

int ckpt_quant_read_side(const struct ckpt_recipe *side, uint64_t off, void *buf, size_t len,
			 struct ckpt_error *err)
{
	uint8_t *out = buf;
	int rc = 0;

	if (side->kind != CKPT_RECIPE_JOINED)
		return at_source(side, ckpt_recipe_read(side, off, buf, len, err), err);
	for (size_t i = 0; rc == 0 && len; i++) {
		const struct ckpt_recipe *part = &side->parts[i];
		size_t n;

		if (off >= part->len) {
			off -= part->len;
			continue;
		}
		n = len < part->len - off ? len : (size_t)(part->len - off);
		rc = ckpt_quant_read_side(part, off, out, n, err);
		out += n;
		len -= n;
		off = 0;
	}
	return rc;
}

void ckpt_quant_will_need(const struct ckpt_dequant *q, const struct ckpt_quant_kept *kept,
			  uint64_t off, uint64_t len)
{
	const struct ckpt_recipe *items = q->sides[CKPT_QUANT_ITEMS];

	if (!kept->bytes[CKPT_QUANT_ITEMS] && items->kind == CKPT_RECIPE_EXTENT)
		ckpt_source_will_need(items->src, items->off + off, len);
}

/* ---- what codes are ---- */

static float widen8(enum ckpt_dtype dtype, uint8_t code)
{
	uint32_t bits;
	float v;

	if (dtype == CKPT_DTYPE_INT8)
		return (int8_t)code;
	if (dtype == CKPT_DTYPE_UINT8)
		return code;
	bits = ckpt_float8_widen(dtype, code);
	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* 2 to the power of CODE - 127, or of 1 less. */
static float power_of(uint8_t code, bool one_less)
{
	uint32_t bits = one_less && code < 2 ? 0x200000u << code
			: code		     ? (uint32_t)(code - one_less) << 23
					     : 0x400000;
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void set_values(const struct ckpt_dequant *q, struct ckpt_quant_kept *kept)
{
	static const float e2m1[] = { 0,    .5F,  1,  1.5F,  2,	 3,  4,	 6,
				      -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6 };
	struct ckpt_quant_math *m = &kept->math;
	enum ckpt_dtype item = q->w.code == CKPT_QUANT_NUMBER ? q->w.item
			       : q->w.code == CKPT_QUANT_BITS ? CKPT_DTYPE_UINT8
							      : CKPT_DTYPE_UNKNOWN;

	for (unsigned i = 0; i < 256; i++)
		if (item != CKPT_DTYPE_UNKNOWN)
			m->values[i] = widen8(item, (uint8_t)i);
		else if (q->w.code == CKPT_QUANT_E2M1)
			m->values[i] = e2m1[i % 16];
	if (q->w.code == CKPT_QUANT_TABLE)
		memcpy(m->values, kept->bytes[CKPT_QUANT_TABLE_SIDE],
		       (size_t)q->sides[CKPT_QUANT_TABLE_SIDE]->len);
	m->item = item;
	m->few = q->layout.bits <= 4;
}

/* Without zero points that vary, the difference is that of the code. */
static void subtract_from_values(const struct ckpt_dequant *q, struct ckpt_quant_math *m)
{
	float values[256];

	if ((q->w.zero == CKPT_QUANT_ZERO_NUMBER || q->w.zero == CKPT_QUANT_ZERO_BITS) &&
	    !q->w.zero_adds)
		return;
	memcpy(values, m->values, sizeof(values));
	for (unsigned i = 0; (q->w.zero == CKPT_QUANT_ZERO_FIXED || q->w.zero_adds) && i < 256; i++)
		values[i] -= (float)q->w.zero_fixed;
	ckpt_quant_round(m->difference, values, 256);
	m->difference = CKPT_DTYPE_FLOAT32;
	if (!memcmp(values, m->values, sizeof(values)))
		return;
	memcpy(m->values, values, sizeof(values));
	m->item = CKPT_DTYPE_UNKNOWN;
}

static void set_scale_values(const struct ckpt_dequant *q, struct ckpt_quant_kept *kept)
{
	if (q->sides[CKPT_QUANT_NESTED_TABLE]) {
		memcpy(kept->scale_values, kept->bytes[CKPT_QUANT_NESTED_TABLE],
		       sizeof(kept->scale_values));
		return;
	}
	if (ckpt_dtype_size(q->w.scale_dtype) != 1)
		return;
	for (unsigned i = 0; i < 256; i++)
		kept->scale_values[i] = q->w.scale_dtype == CKPT_DTYPE_UINT8
						? power_of((uint8_t)i, q->w.exact_power)
						: widen8(q->w.scale_dtype, (uint8_t)i);
}

/* ---- groups ---- */

static int32_t group_at(const uint8_t *groups, uint64_t i)
{
	int32_t group;

	memcpy(&group, groups + i * sizeof(group), sizeof(group));
	return group;
}

/* Negative ones count from the end, as Python's do. */
static int check_row_groups(const struct ckpt_dequant *q, uint8_t *groups, struct ckpt_error *err)
{
	for (uint64_t i = 0; i < q->w.rows; i++) {
		int64_t group = group_at(groups, i);

		if (group < 0)
			group += (int64_t)q->scale_rows;
		if (group < 0 || group >= (int64_t)q->scale_rows)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "row %" PRIu64 " is of group %" PRId32
					 ", there are %" PRIu64,
					 i, group_at(groups, i), q->scale_rows);
		memcpy(groups + i * 4, &(int32_t){ (int32_t)group }, 4);
	}
	return 0;
}

static void use_column_order(const struct ckpt_dequant *q, uint8_t *groups)
{
	for (uint64_t i = 0; i < q->w.cols; i++)
		memcpy(groups + i * 4, &(int32_t){ (int32_t)(i / q->w.block_cols) }, 4);
}

/*
 * Each has BLOCK_COLS columns, the last one what is left: else packages do not agree what is meant.
 */
static int check_col_groups(const struct ckpt_dequant *q, uint8_t *groups, struct ckpt_error *err)
{
	uint64_t *counts = calloc((size_t)q->scale_cols, sizeof(*counts));
	int rc = counts ? 0 : ckpt_fail_nomem(err);

	for (uint64_t i = 0; rc == 0 && i < q->w.cols; i++) {
		int32_t group = group_at(groups, i);

		if (group == -1) {
			use_column_order(q, groups);
			free(counts);
			return 0;
		}
		if (group < 0 || (uint64_t)group >= q->scale_cols)
			rc = ckpt_fail(err, CKPT_E_FORMAT,
				       "column %" PRIu64 " is of group %" PRId32
				       ", there are %" PRIu64,
				       i, group, q->scale_cols);
		else
			counts[group]++;
	}
	for (uint64_t i = 0; rc == 0 && i < q->scale_cols; i++) {
		uint64_t want =
			i + 1 < q->scale_cols ? q->w.block_cols : q->w.cols - i * q->w.block_cols;

		if (counts[i] != want)
			rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
				       "group %" PRIu64 " has %" PRIu64 " columns, %" PRIu64
				       " are usual",
				       i, counts[i], want);
	}
	free(counts);
	return rc;
}

/* ---- all of it ---- */

int ckpt_quant_keep(const struct ckpt_dequant *q, struct ckpt_quant_kept **out,
		    struct ckpt_error *err)
{
	struct ckpt_quant_kept *kept = calloc(1, sizeof(*kept));
	int rc = kept ? 0 : ckpt_fail_nomem(err);

	*out = NULL;
	for (unsigned i = 0; rc == 0 && i < CKPT_QUANT_SIDES; i++)
		if (q->keep[i]) {
			rc = keep_side(q->sides[i], &kept->bytes[i], err);
			rc = ckpt_error_prefix(err, rc, "its %s: ", names[i]);
		}
	if (rc == 0 && kept->bytes[CKPT_QUANT_ROW_GROUPS])
		rc = check_row_groups(q, kept->bytes[CKPT_QUANT_ROW_GROUPS], err);
	if (rc == 0 && kept->bytes[CKPT_QUANT_COL_GROUPS])
		rc = check_col_groups(q, kept->bytes[CKPT_QUANT_COL_GROUPS], err);
	if (rc < 0) {
		ckpt_quant_kept_free(kept);
		return rc;
	}
	kept->math.difference = q->w.difference;
	kept->math.product = q->w.product;
	kept->math.to = q->w.to;
	kept->math.adds_zeros = q->w.zero_adds;
	kept->math.factor = q->w.exact_power ? 2 : q->w.factor; /* with the half of the scale */
	set_values(q, kept);
	subtract_from_values(q, &kept->math);
	set_scale_values(q, kept);
	*out = kept;
	return 0;
}

void ckpt_quant_kept_free(struct ckpt_quant_kept *kept)
{
	for (unsigned i = 0; kept && i < CKPT_QUANT_SIDES; i++)
		free(kept->bytes[i]);
	free(kept);
}
