/* SPDX-License-Identifier: Apache-2.0 */
#include "set/cut.h"

#include "format/format.h"
#include "tensor/assemble.h"
#include "tensor/negate.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_RANKS = 1 << 20 };

int ckpt_cutter_init(struct ckpt_cutter *c, const struct ckpt_save_options *o,
		     struct ckpt_error *err)
{
	*c = (struct ckpt_cutter){ .ranks = o->ranks ? o->ranks : 1,
				   .dim = o->shard_dim,
				   .least = o->least_shard };
	if (c->ranks > MOST_RANKS)
		return ckpt_fail(err, CKPT_E_ARG, "%" PRIu32 " ranks, the limit is %d", c->ranks,
				 MOST_RANKS);
	c->loads = calloc(c->ranks, sizeof(*c->loads));
	return c->loads ? 0 : ckpt_fail_nomem(err);
}

void ckpt_cutter_clear(struct ckpt_cutter *c)
{
	free(c->loads);
	c->loads = NULL;
}

static uint32_t least_loaded_rank(const struct ckpt_cutter *c)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < c->ranks; i++)
		if (c->loads[i] < c->loads[best])
			best = i;
	return best;
}

static uint32_t choose_dim(const struct ckpt_cutter *c, const struct ckpt_tensor *t)
{
	uint32_t longest = 0;

	if (c->dim >= 0)
		return (uint32_t)c->dim < t->ndim ? (uint32_t)c->dim : 0;
	for (uint32_t i = 0; i < t->ndim; i++) {
		if (t->shape[i] % c->ranks == 0)
			return i;
		if (t->shape[i] > t->shape[longest])
			longest = i;
	}
	return longest;
}

/* The parser saw to it that they can be counted. */
static uint64_t nbytes_of(const struct ckpt_tensor *t)
{
	uint64_t n = ckpt_dtype_size(t->dtype);

	return ckpt_shape_is_empty(t->shape, t->ndim) ? 0 : n * ckpt_shape_count(t->shape, t->ndim);
}

struct ckpt_cut ckpt_cutter_cut(struct ckpt_cutter *c, const struct ckpt_tensor *t)
{
	struct ckpt_cut cut = { .tensor = t, .count = 1 };
	uint64_t nbytes = nbytes_of(t), n, rest;

	c->total += nbytes;
	if (!t->ndim || !nbytes || nbytes < c->least) {
		cut.first_rank = least_loaded_rank(c);
		cut.piece = t->ndim ? t->shape[0] : 0;
		c->loads[cut.first_rank] += nbytes;
		return cut;
	}
	cut.dim = choose_dim(c, t);
	n = t->shape[cut.dim];
	cut.piece = n / c->ranks + (n % c->ranks > 0);
	cut.count = (uint32_t)(n / cut.piece + (n % cut.piece > 0));
	rest = n - cut.piece * (cut.count - 1);
	for (uint32_t i = 0; i < cut.count; i++)
		c->loads[i] += nbytes / n * (i + 1 < cut.count ? cut.piece : rest);
	return cut;
}

uint64_t ckpt_cut_part(const struct ckpt_cut *cut, uint32_t i, uint64_t *offset, uint64_t *shape)
{
	const struct ckpt_tensor *t = cut->tensor;
	uint64_t nbytes = ckpt_dtype_size(t->dtype), start = cut->piece * i;

	for (uint32_t d = 0; d < t->ndim; d++) {
		offset[d] = 0;
		shape[d] = t->shape[d];
		if (d == cut->dim && cut->count > 1) {
			offset[d] = start;
			shape[d] =
				t->shape[d] - start < cut->piece ? t->shape[d] - start : cut->piece;
		}
		nbytes = shape[d] ? nbytes * shape[d] : 0;
	}
	return nbytes;
}

static int negate(const struct ckpt_tensor *t, struct ckpt_arena *arena, struct ckpt_recipe *bytes,
		  struct ckpt_error *err)
{
	struct ckpt_negate *n = ckpt_arena_alloc(arena, sizeof(*n));

	if (!n)
		return ckpt_arena_fail(arena, err);
	*n = ckpt_negate_of(bytes, t->dtype, t->is_neg, t->is_conj);
	*bytes = ckpt_map_recipe(&n->map);
	return 0;
}

int ckpt_cut_box(const struct ckpt_model *model, const struct ckpt_tensor *t,
		 const uint64_t *offset, const uint64_t *shape, struct ckpt_arena *arena,
		 struct ckpt_recipe *out, struct ckpt_error *err)
{
	static const uint64_t zeros[CKPT_MOST_DIMS];
	const struct ckpt_storage *s = &model->storages[t->storage];
	struct ckpt_tensor_block block = { .offset = zeros,
					   .shape = t->shape,
					   .stride = t->stride };
	const struct ckpt_format *format = model->doc->format;
	int rc = format->box ? format->box(model, t, offset, shape, out, err) : 1;

	if (rc <= 0)
		return rc;
	rc = ckpt_model_storage_bytes(model, s, &block.bytes, err);
	if (rc < 0)
		return rc;
	block.first = t->offset;
	rc = ckpt_assemble(&block, 1, t->ndim, offset, shape, ckpt_dtype_size(t->dtype), arena, out,
			   err);
	if (rc == 0 && (t->is_neg || t->is_conj))
		rc = negate(t, arena, out, err);
	return rc;
}
