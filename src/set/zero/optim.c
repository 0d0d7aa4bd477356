/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what an optimizer file of DeepSpeed says: ZeRO stage, number of ranks, and the flat
 * vectors with the weights in full precision. Source: runtime/zero/stage_1_and_2.py,
 * runtime/zero/stage3.py and runtime/bf16_optimizer.py of DeepSpeed 0.3.16 to 0.19.8.
 *
 * In stages 1 and 2 a stream is a group of parameters, put together of all ranks' shares; in
 * stage 3 it is a rank, with all its groups one behind the other. Rank 0 goes first and sets what
 * the others must agree with.
 */
#include "set/zero/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- stage and number of ranks ---- */

/*
 * ZeroStageEnum: Class(2), or by name, as some releases of Python write it; or the plain number.
 * -1: none of them.
 */
static int64_t stage_of(const struct ckpt_zero_reader *r, const struct ckpt_value *v)
{
	static const char *const names[] = { "disabled", "optimizer_states", "gradients",
					     "weights" };
	const struct ckpt_value *args;

	if (v->kind == CKPT_INT)
		return v->u.integer;
	if (v->kind != CKPT_CALL)
		return -1;
	args = ckpt_model_now(r->model, v->u.call->args);
	if (args->kind != CKPT_TUPLE || !args->u.seq.count)
		return -1;
	v = ckpt_model_now(r->model, args->u.seq.items[args->u.seq.count - 1]);
	for (int i = 0; i < 4; i++)
		if (ckpt_value_is_str(v, names[i]))
			return i;
	return v->kind == CKPT_INT ? v->u.integer : -1;
}

/*
 * BF16_Optimizer does not say a stage. It cuts vectors as stage 1 does, and leaves the padding at
 * their end.
 */
static int read_stage(struct ckpt_zero_reader *r, const struct ckpt_value *state, int *stage,
		      bool *is_bf16)
{
	const struct ckpt_value *v = ckpt_zero_field(r, state, "zero_stage");
	int64_t found = v ? stage_of(r, v) : 1;

	*is_bf16 = !v;
	*stage = (int)found;
	if (!v && !ckpt_zero_field(r, state, "single_partition_of_fp32_groups"))
		return ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
				 "has no 'zero_stage', and no weights of another optimizer that is "
				 "known");
	if (found < 1 || found > 3)
		return ckpt_fail(r->err, CKPT_E_FORMAT, "'zero_stage' is no stage of ZeRO");
	return 0;
}

/* One number, or one per group of parameters. Those of experts are spread over fewer ranks. */
static int read_partition_count(struct ckpt_zero_reader *r, const struct ckpt_value *state,
				uint64_t *out)
{
	const struct ckpt_value *v = ckpt_zero_field(r, state, "partition_count");
	const struct ckpt_seq *list;
	int rc;

	if (!v || (v->kind != CKPT_LIST && v->kind != CKPT_TUPLE))
		return ckpt_zero_number(r, v, "partition_count", out);
	rc = ckpt_zero_list(r, v, "partition_count", &list);
	for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
		uint64_t count;

		rc = ckpt_zero_number(r, ckpt_model_now(r->model, list->items[i]),
				      "partition_count", &count);
		if (rc == 0 && i && count != *out)
			return ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
					 "its groups of parameters are spread over %" PRIu64
					 " and over %" PRIu64
					 " ranks, as those of experts (MoE) are; that cannot be "
					 "read",
					 *out, count);
		*out = count;
	}
	if (rc == 0 && !list->count)
		return ckpt_fail(r->err, CKPT_E_FORMAT, "'partition_count' is an empty list");
	return rc;
}

static int check_count(struct ckpt_zero_reader *r, uint64_t count)
{
	uint32_t files = r->zero->names.optim_count;

	if (count > files)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "was saved by %" PRIu64
				 " ranks, and there are the files of %" PRIu32
				 ": those of rank %" PRIu32 " and after it are missing",
				 count, files, files);
	if (count < files)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "was saved by %" PRIu64
				 " ranks, and there are the files of %" PRIu32
				 ": some are left over from an older checkpoint of more ranks",
				 count, files);
	return 0;
}

/* ---- vectors ---- */

static int find_groups(struct ckpt_zero_reader *r, const struct ckpt_value *state,
		       const char **what, const struct ckpt_seq **out)
{
	const struct ckpt_value *v;

	*what = r->zero->stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
	v = ckpt_zero_field(r, state, *what);
	if (!v && ckpt_zero_field(r, state, "local_sub_partitions_of_fp32_groups"))
		return ckpt_fail(
			r->err, CKPT_E_UNSUPPORTED,
			"has 'local_sub_partitions_of_fp32_groups', as stage 1 of the first "
			"releases of DeepSpeed wrote it; that cannot be read");
	return ckpt_zero_list(r, v, *what, out);
}

static int make_streams(struct ckpt_zero_reader *r, uint32_t groups)
{
	struct ckpt_zero *z = r->zero;

	z->group_count = groups;
	z->stream_count = z->stage == 3 ? z->names.optim_count : groups;
	z->streams = calloc(z->stream_count + (size_t)1, sizeof(*z->streams));
	return z->streams ? 0 : ckpt_fail_nomem(r->err);
}

/* In stage 3 all ranks have the same share of each group. */
static int check_share(struct ckpt_zero_reader *r, uint32_t rank, uint32_t group)
{
	const struct ckpt_zero_piece *first = &r->zero->streams[0].pieces[group],
				     *own = &r->zero->streams[rank].pieces[group];

	if (own->numel == first->numel && own->dtype == first->dtype)
		return 0;
	return ckpt_fail(r->err, CKPT_E_FORMAT,
			 "has %" PRIu64 " items of %s, rank 0's %" PRIu64 " of %s", own->numel,
			 ckpt_dtype_name(own->dtype), first->numel, ckpt_dtype_name(first->dtype));
}

static int read_vectors(struct ckpt_zero_reader *r, const struct ckpt_value *state, uint32_t rank)
{
	struct ckpt_zero *z = r->zero;
	const struct ckpt_seq *groups;
	const char *what;
	int rc = find_groups(r, state, &what, &groups);

	if (rc == 0 && !rank)
		rc = make_streams(r, groups->count);
	if (rc == 0 && groups->count != z->group_count)
		rc = ckpt_fail(r->err, CKPT_E_FORMAT,
			       "'%s' has %" PRIu32 " vectors, rank 0's %" PRIu32, what,
			       groups->count, z->group_count);
	for (uint32_t i = 0; rc == 0 && i < groups->count; i++) {
		char number[16];

		rc = ckpt_zero_add_flat(r, ckpt_model_now(r->model, groups->items[i]),
					&z->streams[z->stage == 3 ? rank : i]);
		if (rc == 0 && z->stage == 3)
			rc = check_share(r, rank, i);
		snprintf(number, sizeof(number), "%" PRIu32, i);
		ckpt_zero_fail_named(r, rc, "vector", number, strlen(number));
	}
	return rc;
}

/* Newer releases align each parameter: how many items lie behind it, by group and parameter. */
static int read_paddings(struct ckpt_zero_reader *r, const struct ckpt_value *state)
{
	struct ckpt_zero *z = r->zero;
	const struct ckpt_value *v = ckpt_zero_field(r, state, "param_alignment_paddings");
	const struct ckpt_seq *groups, *list;
	int rc;

	if (!v || z->stage == 3)
		return 0;
	rc = ckpt_zero_list(r, v, "param_alignment_paddings", &groups);
	if (rc == 0 && groups->count != z->group_count)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "'param_alignment_paddings' has %" PRIu32
				 " groups, there are %" PRIu32,
				 groups->count, z->group_count);
	if (rc == 0)
		z->paddings = ckpt_arena_calloc(z->arena, groups->count + (uint64_t)1,
						sizeof(*z->paddings));
	for (uint32_t i = 0; rc == 0 && z->paddings && i < groups->count; i++) {
		struct ckpt_zero_paddings *p = &z->paddings[i];

		rc = ckpt_zero_list(r, ckpt_model_now(r->model, groups->items[i]),
				    "param_alignment_paddings", &list);
		if (rc < 0)
			break;
		p->count = list->count;
		p->items =
			ckpt_arena_calloc(z->arena, list->count + (uint64_t)1, sizeof(*p->items));
		if (!p->items)
			return ckpt_arena_fail(z->arena, r->err);
		for (uint32_t k = 0; rc == 0 && k < list->count; k++)
			rc = ckpt_zero_number(r, ckpt_model_now(r->model, list->items[k]),
					      "param_alignment_paddings", &p->items[k]);
	}
	return rc == 0 && !z->paddings ? ckpt_arena_fail(z->arena, r->err) : rc;
}

/* ---- one file ---- */

/* What all ranks say alike; STAGE and COUNT of this one. */
static int check_alike(struct ckpt_zero_reader *r, uint32_t rank, int stage, bool is_bf16,
		       uint64_t count)
{
	struct ckpt_zero *z = r->zero;

	if (!rank) {
		z->stage = stage;
		z->is_bf16_optimizer = is_bf16;
		if (z->names.is_stage3 != (stage == 3))
			return ckpt_fail(
				r->err, CKPT_E_FORMAT,
				"is of ZeRO stage %d, and the model states beside it are %s "
				"of stage 3",
				stage, stage == 3 ? "not" : "those");
	}
	if (z->stage != stage || z->is_bf16_optimizer != is_bf16)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "is of ZeRO stage %d%s, rank 0's file is of stage %d%s", stage,
				 is_bf16 ? " (BF16_Optimizer)" : "", z->stage,
				 z->is_bf16_optimizer ? " (BF16_Optimizer)" : "");
	return check_count(r, count);
}

int ckpt_zero_read_optim(struct ckpt_zero_reader *r, uint32_t rank)
{
	const struct ckpt_value *state =
		ckpt_zero_field(r, ckpt_model_now(r->model, r->model->root),
				"optimizer_state_dict");
	uint64_t count;
	bool is_bf16;
	int stage, rc;

	if (!state || !ckpt_value_pairs(state))
		return ckpt_fail(
			r->err, CKPT_E_FORMAT,
			"holds no 'optimizer_state_dict', as DeepSpeed's files of this name "
			"do");
	if (ckpt_zero_field(r, state, "ds_zero_partition_groups"))
		return ckpt_fail(
			r->err, CKPT_E_UNSUPPORTED,
			"is of experts that are spread over groups of ranks (AutoEP); that "
			"cannot be read");
	rc = read_stage(r, state, &stage, &is_bf16);
	if (rc == 0)
		rc = read_partition_count(r, state, &count);
	if (rc == 0)
		rc = check_alike(r, rank, stage, is_bf16, count);
	if (rc == 0)
		rc = read_vectors(r, state, rank);
	return rc == 0 && !rank ? read_paddings(r, state) : rc;
}
