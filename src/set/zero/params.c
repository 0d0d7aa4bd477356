/* SPDX-License-Identifier: Apache-2.0 */
#include "set/zero/read.h"

#include <inttypes.h>

/*
 * The parameters of the optimizer, whose vectors were read, as 'param_shapes' names them: a dict
 * per group, in the order of the items.
 */

struct group {
	const struct ckpt_zero_stream *streams;
	uint32_t stream_count;
	const struct ckpt_zero_paddings *paddings; /* NULL: none */
	uint64_t at;				   /* the next item */
};

static int read_param(struct ckpt_zero_reader *r, struct group *g, const struct ckpt_value *key,
		      const struct ckpt_value *shape)
{
	struct ckpt_zero_cut cut = { .streams = g->streams, .stream_count = g->stream_count };
	uint64_t have = g->streams->numel;
	int rc = ckpt_zero_shape(r, shape, &cut);

	if (rc == 0)
		rc = ckpt_zero_add_cut(r, key, &cut, &g->at);
	if (rc == 0 && g->at > have)
		rc = ckpt_fail(r->err, CKPT_E_FORMAT,
			       "ends behind the %" PRIu64 " items that there are%s", have,
			       g->stream_count > 1 ? " of each rank" : " in its group");
	return ckpt_zero_fail_named(r, rc, "parameter", key->u.bytes.ptr, key->u.bytes.len);
}

static int read_group(struct ckpt_zero_reader *r, struct group *g, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs;
	int rc = ckpt_zero_mapping(r, v, "param_shapes", &pairs);

	if (rc == 0 && g->paddings && g->paddings->count != pairs->count / 2)
		rc = ckpt_fail(r->err, CKPT_E_FORMAT,
			       "'param_alignment_paddings' has %" PRIu32
			       " numbers for a group of %" PRIu32 " parameters",
			       g->paddings->count, pairs->count / 2);
	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(r->model, pairs->items[i]);

		rc = ckpt_zero_check_key(r, key, "param_shapes");
		if (rc == 0)
			rc = read_param(r, g, key, ckpt_model_now(r->model, pairs->items[i + 1]));
		if (rc == 0 && g->paddings &&
		    __builtin_add_overflow(g->at, g->paddings->items[i / 2], &g->at))
			rc = ckpt_fail(r->err, CKPT_E_FORMAT,
				       "'param_alignment_paddings' has numbers that are too large");
	}
	return rc;
}

static uint64_t divide_up(uint64_t n, uint64_t to)
{
	return n / to + (n % to != 0);
}

/*
 * Stages 1 and 2: the vector of a group is as long as its parameters, but both were rounded to a
 * multiple of twice the number of ranks at some time, and what of that is in the files depends on
 * the release: the same rule as zero_to_fp32.py's.
 */
static int check_group(struct ckpt_zero_reader *r, const struct group *g, uint32_t number)
{
	uint64_t to = 2 * (uint64_t)r->zero->names.optim_count, have = g->streams->numel;

	if (divide_up(g->at, to) == divide_up(have, to))
		return 0;
	return ckpt_fail(r->err, CKPT_E_FORMAT,
			 "group %" PRIu32 ": its parameters have %" PRIu64
			 " items, the vectors of all ranks %" PRIu64,
			 number, g->at, have);
}

static int read_groups(struct ckpt_zero_reader *r, const struct ckpt_value *const *groups,
		       uint32_t count)
{
	struct ckpt_zero *z = r->zero;
	int rc = 0;

	if (count != z->group_count)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "'param_shapes' has %" PRIu32
				 " groups of parameters, the optimizer %" PRIu32,
				 count, z->group_count);
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		struct group g = { .streams = &z->streams[i],
				   .stream_count = 1,
				   .paddings = z->paddings ? &z->paddings[i] : NULL };

		rc = read_group(r, &g, ckpt_model_now(r->model, groups[i]));
		if (rc == 0)
			rc = check_group(r, &g, i);
	}
	return rc;
}

/*
 * Stage 3: every rank has a share of each parameter, all of them in one stream, wherever groups
 * end.
 */
static int read_shares(struct ckpt_zero_reader *r, const struct ckpt_value *const *groups,
		       uint32_t count)
{
	struct ckpt_zero *z = r->zero;
	struct group g = { .streams = z->streams, .stream_count = z->stream_count };
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = read_group(r, &g, ckpt_model_now(r->model, groups[i]));
	if (rc == 0 && g.at != z->streams->numel)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "the parameters have %" PRIu64
				 " items on each rank, its vectors %" PRIu64,
				 g.at, z->streams->numel);
	return rc;
}

int ckpt_zero_read_params(struct ckpt_zero_reader *r, const struct ckpt_value *v)
{
	const struct ckpt_value *const *groups = &v;
	const struct ckpt_seq *list;
	uint32_t count = 1;
	int rc = 0;

	if (!v)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "has no 'param_shapes', the names of the optimizer's weights; its "
				 "'module' may have the weights in the precision of the training");
	if (!ckpt_value_pairs(v)) { /* the first releases had one dict */
		rc = ckpt_zero_list(r, v, "param_shapes", &list);
		if (rc < 0)
			return rc;
		groups = list->items;
		count = list->count;
	}
	return r->zero->stage == 3 ? read_shares(r, groups, count) : read_groups(r, groups, count);
}
