/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a weight: its bytes, one number behind the other, and what an error calls it.
 */
#include "quant/fill.h"

#include "base/buf.h"
#include "base/text.h"
#include "tensor/items.h"
#include "tensor/negate.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add_shape(struct ckpt_buf *out, const struct ckpt_tensor *t)
{
	ckpt_buf_printf(out, "%s [", ckpt_dtype_name(t->dtype));
	for (uint32_t i = 0; i < t->ndim; i++)
		ckpt_buf_printf(out, "%s%" PRIu64, i ? ", " : "", t->shape[i]);
	ckpt_buf_printf(out, "]");
}

int ckpt_quant_misfit(const struct ckpt_quant_group *g, enum ckpt_part_role role,
		      struct ckpt_error *err, const char *format, ...)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, role);
	struct ckpt_buf is = { 0 };
	char why[300], shown[200];
	va_list args;
	int rc;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	add_shape(&is, t);
	ckpt_buf_add_u8(&is, '\0');
	if (is.bad)
		return ckpt_fail_nomem(err);
	rc = ckpt_fail(err, CKPT_E_FORMAT, "'%s' is %s: %s",
		       ckpt_escape(shown, sizeof(shown), t->name, strlen(t->name)),
		       (const char *)is.data, why);
	ckpt_buf_clear(&is);
	return rc;
}

/* The signs that the negative bit of a tensor turns: torch stores what was there before the bit was set. */
static int negate(struct ckpt_quant_group *g, enum ckpt_part_role role, struct ckpt_recipe *bytes,
		  struct ckpt_error *err)
{
	enum ckpt_dtype dtype = ckpt_quant_tensor(g, role)->dtype;
	struct ckpt_negate *negated = ckpt_arena_alloc(g->quant->arena, sizeof(*negated));

	if (!negated)
		return ckpt_arena_fail(g->quant->arena, err);
	if (role == CKPT_PART_ITEMS || !ckpt_fill_is_wide(dtype))
		return ckpt_quant_misfit(g, role, err, "its negative bit is set");
	*negated = ckpt_negate_of(bytes, dtype, true, false);
	*bytes = ckpt_map_recipe(&negated->map);
	return 0;
}

int ckpt_quant_bytes(struct ckpt_quant_group *g, enum ckpt_part_role role, struct ckpt_recipe *out,
		     struct ckpt_error *err)
{
	const struct ckpt_model *model = g->quant->model;
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, role);
	struct ckpt_items *items = ckpt_arena_calloc(g->quant->arena, 1, sizeof(*items));
	int rc;

	*out = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = "" };
	if (!t)
		return 0;
	if (!items)
		return ckpt_arena_fail(g->quant->arena, err);
	items->itemsize = ckpt_dtype_size(t->dtype);
	items->ndim = t->ndim;
	items->offset = t->offset;
	items->shape = t->shape;
	items->stride = t->stride;
	rc = ckpt_model_storage_bytes(model, &model->storages[t->storage], &items->bytes, err);
	if (rc == 0)
		rc = ckpt_items_check(items, err);
	if (rc == 0)
		*out = ckpt_items_recipe(items);
	rc = ckpt_error_prefix(err, rc, "'%.200s': ", t->name);
	return rc == 0 && t->is_neg ? negate(g, role, out, err) : rc;
}

int ckpt_quant_read(struct ckpt_quant_group *g, enum ckpt_part_role role, size_t most,
		    const uint8_t **out, size_t *len, struct ckpt_error *err)
{
	struct ckpt_recipe recipe;
	struct ckpt_stream *stream;
	uint8_t *bytes;
	int rc = ckpt_quant_bytes(g, role, &recipe, err);

	if (rc < 0)
		return rc;
	if (recipe.len > most)
		return ckpt_quant_misfit(g, role, err, "too long, the limit is %zu bytes", most);
	bytes = ckpt_arena_calloc(g->quant->arena, recipe.len + 1, 1);
	if (!bytes)
		return ckpt_arena_fail(g->quant->arena, err);
	rc = ckpt_recipe_stream(&recipe, &stream, err);
	if (rc == 0) {
		rc = stream->read(stream, bytes, (size_t)recipe.len, err);
		stream->close(stream);
	}
	if (rc == 0 && recipe.has_crc)
		rc = ckpt_recipe_check(&recipe, libdeflate_crc32(0, bytes, (size_t)recipe.len),
				       err);
	*out = bytes;
	*len = (size_t)recipe.len;
	return rc;
}
