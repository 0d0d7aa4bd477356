/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that torch takes for places in memory: indices of sparse tensors, which torch.load does
 * not look at (2.14) or not in all of them, sizes, strides and offsets of nested ones, and the position in the state of a random generator,
 * which nobody looks at. Who uses such a tensor reads, or writes, where they say. Source: torch 1.7
 * to 2.14, torch/_utils.py (_rebuild_sparse_tensor), aten/src/ATen/CPUGeneratorImpl.cpp and
 * core/MT19937RNGEngine.h.
 */
#include "scan/scanner.h"

#include "array/array.h"
#include "base/grow.h"
#include "model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8192, GENERATOR_BYTES = 5056, OLD_GENERATOR_BYTES = 5048, MT_ITEMS = 624, MOST_MAKERS = 16 };

struct proof {
	struct ckpt_scanner *s;
	const struct ckpt_model *model;
	uint8_t *seen; /* owned: bits, by the values' ids */
	const struct ckpt_value **stack; /* owned */
	uint32_t depth, cap;
};

/* ---- one part of a sparse tensor ---- */

struct sparse_part {
	struct ckpt_array *array;
	struct ckpt_array_info info;
};

static int open_part(const struct ckpt_array *whole, const char *name, struct sparse_part *out, struct ckpt_error *err)
{
	int rc = ckpt_array_part(whole, name, &out->array, err);

	out->info = (struct ckpt_array_info)CKPT_ARRAY_INFO_INIT;
	return rc < 0 ? rc : ckpt_array_get(out->array, &out->info);
}

/*
 * Does torch read the same numbers? Of a big-endian file it turns a whole storage around by the class
 * that its persistent id has, whatever the dtype of the tensor (torch/serialization.py, load_tensor()).
 */
static bool torch_reads_the_same(const struct ckpt_array *array)
{
	const struct ckpt_model *model = array->model;
	int64_t i = array->t.storage;

	return !model->doc->big_endian || i < 0 || ckpt_byteswap_width(array->t.dtype) == ckpt_byteswap_width(model->storages[i].dtype);
}

static bool is_of_int64(const struct ckpt_array_info *info)
{
	return info->readable && info->layout && !strcmp(info->layout, "strided") && info->dtype && !strcmp(info->dtype, "int64");
}

static int64_t number_at(const uint8_t *at, uint32_t itemsize)
{
	int64_t wide;
	int32_t narrow;

	if (itemsize == sizeof(wide)) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

/*
 * Items FROM to TO of PART: is each at least LEAST, and below LIMIT? GROWS: and none below the one
 * in front of it. 0, or <0.
 */
static int check_range(const struct sparse_part *part, uint64_t from, uint64_t to, int64_t limit, bool grows, bool *out, struct ckpt_error *err)
{
	int64_t least = 0;
	uint8_t *block;
	int rc = 0;

	*out = *out && torch_reads_the_same(part->array) && (part->info.itemsize == 4 || part->info.itemsize == 8);
	block = *out ? malloc((size_t)BLOCK * part->info.itemsize) : NULL;
	if (!block)
		return *out ? ckpt_fail_nomem(err) : 0;
	for (uint64_t at = from; at < to && rc == 0 && *out;) {
		uint64_t count = to - at < BLOCK ? to - at : BLOCK;

		rc = ckpt_array_read(part->array, at, count, block, err);
		for (uint64_t i = 0; rc == 0 && i < count && *out; i++) {
			int64_t n = number_at(block + i * part->info.itemsize, part->info.itemsize);

			*out = n >= least && n < limit;
			least = grows ? n : 0;
		}
		at += count;
	}
	free(block);
	return rc;
}

/* ---- numbers of a part, one behind the other ---- */

enum { FEW = 512 };

struct numbers {
	const struct sparse_part *part;
	uint64_t at, end; /* in the part, of what is read next */
	uint32_t next, count;
	uint8_t bytes[FEW * 8];
};

/* There is one more. 0, or <0. */
static int next_number(struct numbers *n, int64_t *out, struct ckpt_error *err)
{
	uint32_t itemsize = n->part->info.itemsize;
	int rc = 0;

	if (n->next == n->count) {
		n->count = n->end - n->at < FEW ? (uint32_t)(n->end - n->at) : FEW;
		n->next = 0;
		rc = ckpt_array_read(n->part->array, n->at, n->count, n->bytes, err);
		n->at += n->count;
	}
	*out = rc == 0 ? number_at(n->bytes + (size_t)n->next++ * itemsize, itemsize) : 0;
	return rc;
}

/*
 * What torch validates when all is read. Of a tensor that it refuses it keeps a list until a load ends well, so that the next load, of
 * another file, fails (2.6 and 2.14; torch/_utils.py, _validate_loaded_sparse_tensors()).
 */

/* Is each place (d0, d1, ...) of a tensor that is said to be coalesced behind the one in front of it? */
static int check_order(const struct sparse_part *indices, bool *out, struct ckpt_error *err)
{
	uint64_t dims = indices->info.shape[0], count = indices->info.shape[1];
	struct numbers *each = calloc(dims ? dims : 1, sizeof(*each));
	int64_t *last = calloc(dims ? dims : 1, sizeof(*last)), n;
	int rc = each && last ? 0 : ckpt_fail_nomem(err);

	for (uint64_t d = 0; rc == 0 && d < dims; d++)
		each[d] = (struct numbers){ .part = indices, .at = d * count, .end = (d + 1) * count };
	for (uint64_t i = 0; rc == 0 && *out && i < count; i++) {
		int order = i == 0;

		for (uint64_t d = 0; rc == 0 && d < dims; d++) {
			rc = next_number(&each[d], &n, err);
			if (!order)
				order = (n > last[d]) - (n < last[d]);
			last[d] = n;
		}
		*out = order > 0;
	}
	free(each);
	free(last);
	return rc;
}

/* Does each of the COUNT lines of batch N begin with the least of its PLACES, and do they grow? STARTS were looked at. */
static int check_lines(const struct sparse_part *starts, const struct sparse_part *places, uint64_t n, uint64_t count, bool *out, struct ckpt_error *err)
{
	uint64_t each = starts->info.shape[starts->info.ndim - 1];
	struct numbers ends = { .part = starts, .at = n * each, .end = (n + 1) * each }, at = { .part = places, .at = n * count, .end = (n + 1) * count };
	int64_t end = 0, place, last = -1;
	int rc = next_number(&ends, &end, err); /* 0 */

	for (uint64_t i = 0; rc == 0 && *out && i < count; i++) {
		while (rc == 0 && (uint64_t)end <= i) {
			rc = next_number(&ends, &end, err);
			last = -1;
		}
		if (rc == 0)
			rc = next_number(&at, &place, err);
		if (rc == 0)
			*out = place > last;
		last = rc == 0 ? place : last;
	}
	return rc;
}

/* (dimensions that are sparse, values) */
static int check_coo(const struct ckpt_array *whole, const struct ckpt_tensor *t, bool is_coalesced, bool *out, struct ckpt_error *err)
{
	struct sparse_part indices = { 0 }, values = { 0 };
	int rc = open_part(whole, "indices", &indices, err);

	if (rc == 0)
		rc = open_part(whole, "values", &values, err);
	*out = rc == 0 && is_of_int64(&indices.info) && indices.info.ndim == 2 && indices.info.shape[0] <= t->ndim && values.info.ndim && values.info.shape[0] == indices.info.shape[1];
	for (uint64_t d = 0; rc == 0 && *out && d < indices.info.shape[0]; d++)
		rc = check_range(&indices, d * indices.info.shape[1], (d + 1) * indices.info.shape[1], (int64_t)t->shape[d], false, out, err);
	if (rc == 0 && *out && is_coalesced)
		rc = check_order(&indices, out, err);
	ckpt_array_close(indices.array);
	ckpt_array_close(values.array);
	return rc;
}

static bool is_block(const char *layout)
{
	return !strcmp(layout, "sparse_bsr") || !strcmp(layout, "sparse_bsc");
}

/* Do the indices of a batch lie one behind the other? */
static bool are_dense(const struct sparse_part *part)
{
	const struct ckpt_tensor *t = &part->array->t;

	return t->stride && t->ndim && (t->stride[t->ndim - 1] == 1 || !part->info.numel);
}

/* The sizes in front are those of the whole, and so are those of values behind: batches, and what each value is. */
static bool are_of_shape(const struct sparse_part *starts, const struct sparse_part *places, const struct sparse_part *values, const struct ckpt_tensor *t, bool blocks)
{
	uint32_t batch = starts->info.ndim - 1, first = batch + (blocks ? 3 : 1), dense = values->info.ndim - first;

	if (t->ndim != batch + 2 + dense || !are_dense(starts) || !are_dense(places))
		return false;
	for (uint32_t i = 0; i < batch; i++)
		if (starts->info.shape[i] != t->shape[i] || places->info.shape[i] != t->shape[i] || values->info.shape[i] != t->shape[i])
			return false;
	for (uint32_t i = 0; i < dense; i++)
		if (values->info.shape[first + i] != t->shape[batch + 2 + i])
			return false;
	return true;
}

/* How often the columns of each row begin, from 0 to the number of values; and these columns. */
static int check_parts(const struct sparse_part *starts, const struct sparse_part *places, const struct sparse_part *values, const struct ckpt_tensor *t, bool *out,
		       struct ckpt_error *err)
{
	bool by_rows = !strcmp(t->layout, "sparse_csr") || !strcmp(t->layout, "sparse_bsr"), blocks = is_block(t->layout);
	uint32_t batch = starts->info.ndim - 1;
	uint64_t lines, across, each, count, first, last;
	int rc = 0;

	/* torch 1.12 ends at one of no batches; no torch makes such out of a dense one */
	*out = starts->info.ndim && starts->info.numel && places->info.ndim == batch + 1 && t->ndim >= batch + 2 && values->info.ndim >= batch + (blocks ? 3 : 1) && are_of_shape(starts, places, values, t, blocks);
	if (!*out)
		return 0;
	lines = t->shape[batch + !by_rows];
	across = t->shape[batch + by_rows];
	if (blocks) {
		uint64_t high = values->info.shape[batch + 1 + !by_rows], wide = values->info.shape[batch + 1 + by_rows];

		*out = high && wide && lines % high == 0 && across % wide == 0;
		if (!*out)
			return 0;
		lines /= high;
		across /= wide;
	}
	each = starts->info.shape[batch];
	count = places->info.shape[batch];
	*out = each == lines + 1 && values->info.shape[batch] == count && across <= INT64_MAX && count < INT64_MAX;
	for (uint64_t n = 0; rc == 0 && *out && n < starts->info.numel / each; n++) {
		uint8_t bytes[8];

		rc = check_range(starts, n * each, (n + 1) * each, (int64_t)count + 1, true, out, err);
		first = last = 0;
		if (rc == 0 && *out && (rc = ckpt_array_read(starts->array, n * each, 1, bytes, err)) == 0)
			first = (uint64_t)number_at(bytes, starts->info.itemsize);
		if (rc == 0 && *out && (rc = ckpt_array_read(starts->array, (n + 1) * each - 1, 1, bytes, err)) == 0)
			last = (uint64_t)number_at(bytes, starts->info.itemsize);
		*out = *out && first == 0 && last == count;
	}
	if (rc == 0 && *out)
		rc = check_range(places, 0, places->info.numel, (int64_t)across, false, out, err);
	for (uint64_t n = 0; rc == 0 && *out && n < starts->info.numel / each; n++)
		rc = check_lines(starts, places, n, count, out, err);
	return rc;
}

static int check_compressed(const struct ckpt_array *whole, const struct ckpt_tensor *t, bool *out, struct ckpt_error *err)
{
	bool by_rows = !strcmp(t->layout, "sparse_csr") || !strcmp(t->layout, "sparse_bsr");
	struct sparse_part starts = { 0 }, places = { 0 }, values = { 0 };
	int rc = open_part(whole, by_rows ? "crow_indices" : "ccol_indices", &starts, err);

	if (rc == 0)
		rc = open_part(whole, by_rows ? "col_indices" : "row_indices", &places, err);
	if (rc == 0)
		rc = open_part(whole, "values", &values, err);
	if (rc == 0)
		rc = check_parts(&starts, &places, &values, t, out, err);
	ckpt_array_close(starts.array);
	ckpt_array_close(places.array);
	ckpt_array_close(values.array);
	return rc;
}

static int check_sparse(struct proof *p, const struct ckpt_value *v, bool is_coalesced, struct ckpt_error *err)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_array *whole = NULL;
	struct ckpt_tensor t = { 0 };
	bool fine = true;
	int rc = arena ? ckpt_tensor_parse(p->model, v, arena, &t, err) : ckpt_fail_nomem(err);

	if (rc > 0 && t.layout && !strncmp(t.layout, "sparse_", 7)) {
		rc = ckpt_array_open_value(p->model, v, "", 0, &whole, err);
		if (rc == 0)
			rc = !strcmp(t.layout, "sparse_coo") ? check_coo(whole, &t, is_coalesced, &fine, err) : check_compressed(whole, &t, &fine, err);
		ckpt_array_close(whole);
	}
	ckpt_arena_free(arena);
	if (rc >= 0 && !fine)
		ckpt_scan_find(p->s, CKPT_SCAN_UNREADABLE, "indices", CKPT_NO_OFFSET, "a sparse tensor whose indices lie outside of it, where who uses it reads or writes, or are not in the order that torch wants");
	return rc < 0 ? rc : 0;
}

/* ---- nested tensors ---- */

enum { NESTED_PARTS = 4, MOST_NESTED_DIMENSIONS = 64 };

/* Does a tensor of these sizes and strides, which begins at OFF, lie in ROOM items? */
static bool is_inside(const int64_t *sizes, const int64_t *strides, uint64_t ndim, int64_t off, uint64_t room)
{
	int64_t last = off, step;
	bool is_empty = false;

	if (off < 0 || (uint64_t)off > room)
		return false;
	for (uint64_t d = 0; d < ndim; d++) {
		if (sizes[d] < 0 || strides[d] < 0)
			return false;
		is_empty |= !sizes[d];
		if (sizes[d] && (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) || __builtin_add_overflow(last, step, &last)))
			return false;
	}
	return is_empty || (uint64_t)last < room;
}

/*
 * (buffer, sizes and strides of N x D, N offsets): torch takes N and D as they come, and divides by
 * them.
 */
static int check_nested_parts(const struct sparse_part *parts, bool *out, struct ckpt_error *err)
{
	const struct ckpt_array_info *buffer = &parts[0].info, *sizes = &parts[1].info, *strides = &parts[2].info, *offsets = &parts[3].info;
	int64_t size[MOST_NESTED_DIMENSIONS], stride[MOST_NESTED_DIMENSIONS], off;
	uint64_t ndim;
	int rc = 0;

	for (int i = 0; i < NESTED_PARTS; i++)
		if (!torch_reads_the_same(parts[i].array))
			*out = false;
	if (!*out)
		return 0;
	*out = buffer->readable && buffer->ndim == 1 && is_of_int64(sizes) && is_of_int64(strides) && is_of_int64(offsets) && sizes->ndim == 2 && strides->ndim == 2 &&
	       offsets->ndim == 1 && sizes->shape[0] && sizes->shape[1] && sizes->shape[1] <= MOST_NESTED_DIMENSIONS && strides->shape[0] == sizes->shape[0] &&
	       strides->shape[1] == sizes->shape[1] && offsets->shape[0] == sizes->shape[0];
	if (!*out)
		return 0;
	ndim = sizes->shape[1];
	for (uint64_t i = 0; rc == 0 && *out && i < sizes->shape[0]; i++) {
		rc = ckpt_array_read(parts[1].array, i * ndim, ndim, size, err);
		if (rc == 0)
			rc = ckpt_array_read(parts[2].array, i * ndim, ndim, stride, err);
		if (rc == 0)
			rc = ckpt_array_read(parts[3].array, i, 1, &off, err);
		*out = rc == 0 && is_inside(size, stride, ndim, off, buffer->numel);
	}
	return rc;
}

static int check_nested(struct proof *p, const struct ckpt_value *v, struct ckpt_error *err)
{
	static const char *const names[NESTED_PARTS] = { "buffer", "sizes", "strides", "offsets" };
	struct sparse_part parts[NESTED_PARTS] = { 0 };
	struct ckpt_array *whole = NULL;
	bool fine = true;
	int rc;

	if (p->model->doc->big_endian) {
		ckpt_scan_find(p->s, CKPT_SCAN_UNREADABLE, "indices", CKPT_NO_OFFSET, "a nested tensor of a big-endian machine: torch before 2.1 does not turn its sizes around");
		return 0;
	}
	rc = ckpt_array_open_value(p->model, v, "", 0, &whole, err);
	for (int i = 0; i < NESTED_PARTS && rc == 0; i++)
		rc = open_part(whole, names[i], &parts[i], err);
	if (rc == 0)
		rc = check_nested_parts(parts, &fine, err);
	for (int i = 0; i < NESTED_PARTS; i++)
		ckpt_array_close(parts[i].array);
	ckpt_array_close(whole);
	if (rc >= 0 && !fine)
		ckpt_scan_find(p->s, CKPT_SCAN_UNREADABLE, "indices", CKPT_NO_OFFSET, "a nested tensor that is empty, or whose parts lie outside of it");
	return rc < 0 ? rc : 0;
}

/* ---- generators ---- */

/*
 * A seed (8 bytes), numbers left (4), is it seeded (4), the next (8), 624 numbers of 8 bytes: the
 * numbers that are left lie behind the next.
 */
static int check_generator(struct proof *p, const struct ckpt_value *v, struct ckpt_error *err)
{
	const struct ckpt_value *state = v->u.call->state;
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	struct ckpt_array *array = NULL;
	uint8_t head[24];
	uint64_t next;
	int32_t left;
	int rc = 0;

	if (state->kind == CKPT_TUPLE && state->u.seq.count == 3)
		rc = ckpt_array_open_value(p->model, state->u.seq.items[2], "", 0, &array, err);
	if (!array)
		return rc;
	if (ckpt_array_get(array, &info) == 0 && info.itemsize == 1 && (info.numel == GENERATOR_BYTES || info.numel == OLD_GENERATOR_BYTES)) {
		rc = ckpt_array_read(array, 0, sizeof(head), head, err);
		memcpy(&left, head + 8, sizeof(left));
		memcpy(&next, head + 16, sizeof(next));
		if (rc == 0 && (!torch_reads_the_same(array) || left < 1 || next > MT_ITEMS || (uint64_t)left + next > MT_ITEMS + 1))
			ckpt_scan_find(p->s, CKPT_SCAN_UNREADABLE, "indices", CKPT_NO_OFFSET, "a random generator whose next number lies behind its state");
	}
	ckpt_array_close(array);
	return rc;
}

/* ---- all of them ---- */

static bool push(struct proof *p, const struct ckpt_value *v)
{
	void *grown;

	if (!v || (v->id && p->seen[v->id / 8] & 1u << v->id % 8))
		return true;
	if (v->kind != CKPT_CALL && v->kind != CKPT_TUPLE && v->kind != CKPT_LIST && v->kind != CKPT_SET && v->kind != CKPT_FROZENSET && v->kind != CKPT_DICT)
		return true;
	if (v->id)
		p->seen[v->id / 8] |= (uint8_t)(1u << v->id % 8);
	grown = ckpt_grow(p->stack, p->depth, &p->cap, sizeof(*p->stack));
	if (!grown)
		return false;
	p->stack = grown;
	p->stack[p->depth++] = v;
	return true;
}

static bool push_all(struct proof *p, const struct ckpt_seq *seq)
{
	for (uint32_t i = 0; i < seq->count; i++)
		if (!push(p, seq->items[i]))
			return false;
	return true;
}

static bool is_from_type(const struct ckpt_value *func)
{
	return ckpt_value_is_global(func, "torch._tensor", "_rebuild_from_type_v2") || ckpt_value_is_global(func, "torch._tensor", "_rebuild_from_type") ||
	       ckpt_value_is_global(func, "torch.tensor", "_rebuild_from_type");
}

/* The function that makes a tensor, which another may be given, and its arguments; NULL: none. */
static const struct ckpt_value *maker_of(const struct ckpt_value *v, const struct ckpt_value **made_of)
{
	const struct ckpt_value *func = v->u.call->func, *args = v->u.call->args;

	for (unsigned depth = 0; depth < MOST_MAKERS; depth++) {
		*made_of = args;
		if (!is_from_type(func))
			return func;
		if (args->kind != CKPT_TUPLE || args->u.seq.count < 3)
			return NULL;
		func = args->u.seq.items[0];
		args = args->u.seq.items[2];
	}
	return NULL;
}

/* (layout, (indices, values, sizes, is it coalesced?)) */
static bool says_coalesced(const struct ckpt_value *args)
{
	const struct ckpt_value *parts = args->kind == CKPT_TUPLE && args->u.seq.count == 2 ? args->u.seq.items[1] : &ckpt_value_none;

	return parts->kind == CKPT_TUPLE && parts->u.seq.count == 4 && parts->u.seq.items[3]->kind == CKPT_BOOL && parts->u.seq.items[3]->u.integer;
}

static int check_value(struct proof *p, const struct ckpt_value *v, struct ckpt_error *err)
{
	const struct ckpt_call *call = v->u.call;
	const struct ckpt_value *maker, *args;

	if (v->kind != CKPT_CALL)
		return push_all(p, &v->u.seq) ? 0 : ckpt_fail_nomem(err);
	if (!push(p, call->func) || !push(p, call->args) || !push(p, call->kwargs) || !push(p, call->state) || !push_all(p, &call->items) || !push_all(p, &call->pairs))
		return ckpt_fail_nomem(err);
	maker = maker_of(v, &args);
	if (maker && (ckpt_value_is_global(maker, "torch._utils", "_rebuild_sparse_tensor") || ckpt_value_is_global(maker, "torch._utils", "_rebuild_sparse_csr_tensor")))
		return check_sparse(p, v, says_coalesced(args), err);
	if (maker && ckpt_value_is_global(maker, "torch._utils", "_rebuild_nested_tensor"))
		return check_nested(p, v, err);
	if (call->state && (ckpt_value_is_call_of(v, "torch", "Generator") || ckpt_value_is_call_of(v, "torch._C", "Generator")))
		return check_generator(p, v, err);
	return 0;
}

int ckpt_scan_check_indices(struct ckpt_scanner *s, const struct ckpt_model *model, struct ckpt_error *err)
{
	const struct ckpt_pickle *pickle = &model->doc->pickle;
	struct proof p = { .s = s, .model = model };
	int rc = 0;

	p.seen = calloc(1, pickle->next_id / 8 + 1);
	if (!p.seen || !push(&p, pickle->root))
		rc = ckpt_fail_nomem(err);
	while (rc == 0 && p.depth) {
		if (ckpt_scan_is_cancelled(s))
			rc = CKPT_E_CANCELLED;
		else
			rc = check_value(&p, p.stack[--p.depth], err);
	}
	free(p.seen);
	free(p.stack);
	return rc;
}
