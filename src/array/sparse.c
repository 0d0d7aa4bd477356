/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dense array that a sparse tensor stands for: COO, CSR, CSC, BSR and BSC. All parts are read
 * into memory, then the values are added into an array of zeros.
 *
 * Indices come from the file, and each is checked against its dimension before it addresses
 * anything. The array and each part have at most `most_nbytes`; the shapes of the parts are
 * checked against the shape of the tensor first, so that products of them cannot overflow.
 * Source: aten/src/ATen/native/sparse, to_dense().
 */
#include "array/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t most_nbytes = (uint64_t)1 << 34;

struct dense {
	const struct ckpt_array *a;
	enum ckpt_dtype dtype;
	uint32_t size; /* of an item */
	uint8_t *dense;
	/* whole parts, in memory; indices as int64 */
	int64_t *indices[2];
	uint64_t counts[2];
	uint32_t dims[2];
	uint64_t shapes[2][CKPT_MOST_DIMS];
	struct ckpt_array *values;
	uint8_t *value_bytes;
	struct ckpt_error *err;
};

/* ---- parts ---- */

static int read_part(struct dense *m, const struct ckpt_array *part, uint8_t **out)
{
	uint64_t numel = ckpt_array_numel(part), nbytes;

	*out = NULL;
	if (__builtin_mul_overflow(numel, (uint64_t)ckpt_dtype_size(part->reads), &nbytes) ||
	    nbytes > most_nbytes)
		return ckpt_fail(m->err, CKPT_E_LIMIT, "has parts of more than %" PRIu64 " bytes",
				 most_nbytes);
	*out = malloc((size_t)nbytes + 1);
	if (!*out)
		return ckpt_fail_nomem(m->err);
	return ckpt_array_read(part, 0, numel, *out, m->err);
}

static int read_indices(struct dense *m, int which)
{
	struct ckpt_array *part;
	uint8_t *bytes = NULL;
	int rc = ckpt_array_part(m->a, m->a->parts[which].name, &part, m->err);

	if (rc < 0)
		return rc;
	if (part->reads != CKPT_DTYPE_INT64 && part->reads != CKPT_DTYPE_INT32)
		rc = ckpt_fail(m->err, CKPT_E_FORMAT, "has indices of dtype %s",
			       ckpt_dtype_name(part->reads));
	if (rc == 0)
		rc = read_part(m, part, &bytes);
	m->counts[which] = ckpt_array_numel(part);
	m->dims[which] = part->t.ndim;
	if (part->t.ndim)
		memcpy(m->shapes[which], part->t.shape, part->t.ndim * sizeof(uint64_t));
	if (rc == 0 && part->reads == CKPT_DTYPE_INT32) {
		uint8_t *wide = malloc((size_t)m->counts[which] * 8 + 1);

		for (uint64_t i = 0; wide && i < m->counts[which]; i++) {
			int32_t narrow;
			int64_t v;

			memcpy(&narrow, bytes + i * 4, 4);
			v = narrow;
			memcpy(wide + i * 8, &v, 8);
		}
		free(bytes);
		bytes = wide;
	}
	ckpt_array_close(part);
	m->indices[which] = (int64_t *)bytes;
	return rc == 0 && !bytes ? ckpt_fail_nomem(m->err) : rc;
}

static int read_parts(struct dense *m)
{
	bool coo = m->a->part_count == 2;
	int rc = read_indices(m, 0);

	if (rc == 0 && !coo)
		rc = read_indices(m, 1);
	if (rc == 0)
		rc = ckpt_array_part(m->a, "values", &m->values, m->err);
	if (rc == 0)
		rc = read_part(m, m->values, &m->value_bytes);
	if (rc == 0 && m->values->reads != m->dtype)
		rc = ckpt_fail(m->err, CKPT_E_FORMAT, "has values of another dtype");
	return rc;
}

static void clear_parts(struct dense *m)
{
	ckpt_array_close(m->values);
	free(m->value_bytes);
	free(m->indices[0]);
	free(m->indices[1]);
}

static int fail_shapes(struct dense *m)
{
	return ckpt_fail(m->err, CKPT_E_FORMAT,
			 "has indices and values of shapes that do not belong together");
}

static int fail_index(struct dense *m, int64_t index, uint64_t end)
{
	return ckpt_fail(m->err, CKPT_E_FORMAT,
			 "has index %" PRId64 " where %" PRIu64 " is the length", index, end);
}

/* ---- numbers ---- */

static void add_real(enum ckpt_dtype dtype, uint8_t *to, const uint8_t *from)
{
	double a, b;

	ckpt_cast_items(dtype, CKPT_DTYPE_FLOAT64, to, &a, 1);
	ckpt_cast_items(dtype, CKPT_DTYPE_FLOAT64, from, &b, 1);
	a += b; /* of two float32 it is exact enough to be rounded once more */
	ckpt_cast_items(CKPT_DTYPE_FLOAT64, dtype, &a, to, 1);
}

static void add_integer(uint32_t size, uint8_t *to, const uint8_t *from)
{
	uint64_t a = 0, b = 0;

	memcpy(&a, to, size);
	memcpy(&b, from, size);
	a += b;
	memcpy(to, &a, size);
}

/* Indices that stand twice: their values are summed up. */
static void add_item(const struct dense *m, uint8_t *to, const uint8_t *from)
{
	enum ckpt_dtype half = m->dtype == CKPT_DTYPE_COMPLEX128  ? CKPT_DTYPE_FLOAT64
			       : m->dtype == CKPT_DTYPE_COMPLEX64 ? CKPT_DTYPE_FLOAT32
			       : m->dtype == CKPT_DTYPE_COMPLEX32 ? CKPT_DTYPE_FLOAT16
								  : CKPT_DTYPE_UNKNOWN;

	if (half != CKPT_DTYPE_UNKNOWN) {
		add_real(half, to, from);
		add_real(half, to + m->size / 2, from + m->size / 2);
	} else if (ckpt_dtype_is_floating(m->dtype)) {
		add_real(m->dtype, to, from);
	} else if (m->dtype == CKPT_DTYPE_BOOL) {
		*to |= *from;
	} else {
		add_integer(m->size, to, from);
	}
}

/*
 * COUNT values, the first of them VALUE, to item TO and those behind it. Where no index stands
 * twice torch adds, too: what is -0.0 becomes 0.0.
 */
static void add_items(const struct dense *m, uint64_t to, uint64_t value, uint64_t count)
{
	uint8_t *out = m->dense + to * m->size;
	const uint8_t *in = m->value_bytes + value * m->size;

	for (uint64_t i = 0; i < count; i++)
		add_item(m, out + i * m->size, in + i * m->size);
}

/* ---- COO ---- */

/* indices [sparse dimensions, nnz], values [nnz, dense dimensions] */
static int fill_coo(struct dense *m)
{
	const struct ckpt_tensor *t = &m->a->t, *v = &m->values->t;
	uint64_t sparse, nnz, row = 1;

	if (m->dims[0] != 2 || !v->ndim)
		return fail_shapes(m);
	sparse = m->shapes[0][0];
	nnz = m->shapes[0][1];
	if (sparse > t->ndim || v->ndim != t->ndim - sparse + 1 || v->shape[0] != nnz)
		return fail_shapes(m);
	for (uint64_t i = sparse; i < t->ndim; i++) {
		if (v->shape[i - sparse + 1] != t->shape[i])
			return fail_shapes(m);
		row *= t->shape[i];
	}
	for (uint64_t k = 0; row && k < nnz; k++) {
		uint64_t at = 0;

		for (uint64_t i = 0; i < sparse; i++) {
			int64_t index = m->indices[0][i * nnz + k];

			if (index < 0 || (uint64_t)index >= t->shape[i])
				return fail_index(m, index, t->shape[i]);
			at = at * t->shape[i] + (uint64_t)index;
		}
		add_items(m, at * row, k * row, row);
	}
	return 0;
}

/* ---- CSR, CSC, BSR, BSC ---- */

struct compressed {
	uint32_t batch_dims, dense_dims;
	bool columns;
	uint64_t batches, nnz;
	uint64_t rows, cols;	/* of the matrix, in items */
	uint64_t height, width; /* of a block */
	uint64_t dense;		/* items of the dense dimensions */
};

static int check_compressed(struct dense *m, struct compressed *c)
{
	const struct ckpt_tensor *t = &m->a->t, *v = &m->values->t;
	bool blocks = !strncmp(t->layout, "sparse_b", 8);
	uint32_t least = blocks ? 3 : 1;

	if (!m->dims[0] || m->dims[1] != m->dims[0] || t->ndim < m->dims[0] + 1)
		return fail_shapes(m);
	c->batch_dims = m->dims[0] - 1;
	c->dense_dims = t->ndim - c->batch_dims - 2;
	if (v->ndim != c->batch_dims + least + c->dense_dims)
		return fail_shapes(m);
	c->columns = !strcmp(t->layout, "sparse_csc") || !strcmp(t->layout, "sparse_bsc");
	c->batches = c->dense = 1;
	c->nnz = v->shape[c->batch_dims];
	for (uint32_t i = 0; i < c->batch_dims; i++) {
		if (v->shape[i] != t->shape[i] || m->shapes[0][i] != t->shape[i] ||
		    m->shapes[1][i] != t->shape[i])
			return fail_shapes(m);
		c->batches *= t->shape[i];
	}
	for (uint32_t i = 0; i < c->dense_dims; i++) {
		uint64_t len = t->shape[c->batch_dims + 2 + i];

		if (v->shape[c->batch_dims + least + i] != len)
			return fail_shapes(m);
		c->dense *= len;
	}
	c->rows = t->shape[c->batch_dims];
	c->cols = t->shape[c->batch_dims + 1];
	c->height = blocks ? v->shape[c->batch_dims + 1] : 1;
	c->width = blocks ? v->shape[c->batch_dims + 2] : 1;
	if (!c->height || !c->width || c->rows % c->height || c->cols % c->width)
		return fail_shapes(m);
	if (m->shapes[0][c->batch_dims] !=
		    (c->columns ? c->cols / c->width : c->rows / c->height) + 1 ||
	    m->shapes[1][c->batch_dims] != c->nnz)
		return fail_shapes(m);
	return 0;
}

/* Block number K of the values to the place of block (ROW, COL). */
static void add_block(const struct dense *m, const struct compressed *c, uint64_t batch,
		      uint64_t row, uint64_t col, uint64_t k)
{
	for (uint64_t i = 0; i < c->height; i++) {
		uint64_t to = (batch * c->rows + row * c->height + i) * c->cols + col * c->width,
			 from = ((batch * c->nnz + k) * c->height + i) * c->width;

		add_items(m, to * c->dense, from * c->dense, c->width * c->dense);
	}
}

static int fill_batch(struct dense *m, const struct compressed *c, uint64_t batch)
{
	uint64_t lines = c->columns ? c->cols / c->width : c->rows / c->height,
		 others = c->columns ? c->rows / c->height : c->cols / c->width;
	const int64_t *ends = m->indices[0] + batch * (lines + 1),
		      *plain = m->indices[1] + batch * c->nnz;

	for (uint64_t line = 0; line < lines; line++) {
		if (ends[line] < 0 || ends[line + 1] < ends[line] ||
		    (uint64_t)ends[line + 1] > c->nnz)
			return fail_index(m, ends[line + 1], c->nnz);
		for (uint64_t k = (uint64_t)ends[line]; k < (uint64_t)ends[line + 1]; k++) {
			if (plain[k] < 0 || (uint64_t)plain[k] >= others)
				return fail_index(m, plain[k], others);
			add_block(m, c, batch, c->columns ? (uint64_t)plain[k] : line,
				  c->columns ? line : (uint64_t)plain[k], k);
		}
	}
	return 0;
}

static int fill_compressed(struct dense *m)
{
	struct compressed c = { 0 };
	int rc = check_compressed(m, &c);

	for (uint64_t batch = 0; rc == 0 && batch < c.batches; batch++)
		rc = fill_batch(m, &c, batch);
	return rc;
}

/* ---- the whole ---- */

int ckpt_array_dense(const struct ckpt_array *a, uint8_t **out, struct ckpt_error *err)
{
	struct dense m = {
		.a = a, .dtype = a->reads, .size = ckpt_dtype_size(a->reads), .err = err
	};
	uint64_t numel = ckpt_array_numel(a), nbytes;
	int rc;

	*out = NULL;
	if (__builtin_mul_overflow(numel, (uint64_t)m.size, &nbytes) || nbytes > most_nbytes)
		return ckpt_fail(err, CKPT_E_LIMIT,
				 "is sparse: as a dense array it would have %s%" PRIu64
				 " items, and more than %" PRIu64 " bytes; its parts can be read",
				 numel == UINT64_MAX ? "more than " : "", numel, most_nbytes);
	m.dense = calloc((size_t)nbytes + 1, 1);
	if (!m.dense)
		return ckpt_fail_nomem(err);
	rc = read_parts(&m);
	if (rc == 0 && numel)
		rc = a->part_count == 2 ? fill_coo(&m) : fill_compressed(&m);
	clear_parts(&m);
	if (rc < 0)
		free(m.dense);
	else
		*out = m.dense;
	return rc;
}
