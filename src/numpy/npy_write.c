/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files of numpy.save(): a signature, the version 1.0, the length of the header in two
 * bytes, a dict as Python prints it, spaces and a line feed up to a multiple of 64 bytes, and the
 * items. The spaces are those of numpy 1.25 and later. Source: numpy/lib/format.py.
 *
 * ckpt_npy_size() and ckpt_npy_move() have to agree to the byte, as the size is taken before. Items
 * are always C-contiguous and little-endian; those of a sparse tensor are made dense in memory.
 */
#include "base/flags.h"
#include "numpy/npy.h"

#include "base/sized.h"
#include "format/output.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, BEFORE_DICT = 10, MOST_DIGITS = 21 };

static const char *descr_of(enum ckpt_dtype dtype)
{
	static const struct {
		enum ckpt_dtype dtype;
		const char *descr;
	} table[] = {
		{ CKPT_DTYPE_FLOAT64, "<f8" },	 { CKPT_DTYPE_FLOAT32, "<f4" },
		{ CKPT_DTYPE_FLOAT16, "<f2" },	 { CKPT_DTYPE_INT64, "<i8" },
		{ CKPT_DTYPE_INT32, "<i4" },	 { CKPT_DTYPE_INT16, "<i2" },
		{ CKPT_DTYPE_INT8, "|i1" },	 { CKPT_DTYPE_UINT8, "|u1" },
		{ CKPT_DTYPE_UINT16, "<u2" },	 { CKPT_DTYPE_UINT32, "<u4" },
		{ CKPT_DTYPE_UINT64, "<u8" },	 { CKPT_DTYPE_BOOL, "|b1" },
		{ CKPT_DTYPE_COMPLEX64, "<c8" }, { CKPT_DTYPE_COMPLEX128, "<c16" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].dtype == dtype)
			return table[i].descr;
	return NULL;
}

/* numpy leaves space for the first length to grow to the longest number. */
static void add_padding(const struct ckpt_array *a, struct ckpt_buf *h)
{
	char first[24];
	int digits = snprintf(first, sizeof(first), "%" PRIu64, a->t.ndim ? a->t.shape[0] : 0);

	if (a->t.ndim)
		ckpt_buf_add_fill(h, ' ', (size_t)(MOST_DIGITS - digits));
}

int ckpt_npy_put_header(const struct ckpt_array *a, struct ckpt_buf *h, struct ckpt_error *err)
{
	const char *descr = descr_of(a->reads);
	size_t start = h->len, len;

	if (!descr)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is %s, which numpy does not have",
				 ckpt_dtype_name(a->reads));
	ckpt_buf_add(h, "\x93NUMPY\x01", 8);
	ckpt_buf_add_u16(h, 0);
	ckpt_buf_printf(h, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	for (uint32_t i = 0; i < a->t.ndim; i++)
		ckpt_buf_printf(h, "%s%" PRIu64, i ? ", " : "", a->t.shape[i]);
	ckpt_buf_printf(h, "%s), }", a->t.ndim == 1 ? "," : "");
	add_padding(a, h);
	ckpt_buf_add_fill(h, ' ', ALIGN - (h->len - start + 1) % ALIGN);
	ckpt_buf_add_u8(h, '\n');
	if (h->bad)
		return ckpt_fail_nomem(err);
	len = h->len - start - BEFORE_DICT;
	h->data[start + 8] = (uint8_t)len;
	h->data[start + 9] = (uint8_t)(len >> 8);
	return 0;
}

int ckpt_npy_size(const struct ckpt_array *a, struct ckpt_buf *scratch, uint64_t *out,
		  struct ckpt_error *err)
{
	uint64_t numel = ckpt_array_numel(a);
	int rc;

	scratch->len = 0;
	rc = ckpt_npy_put_header(a, scratch, err);
	if (rc < 0)
		return rc;
	if (numel == UINT64_MAX ||
	    __builtin_mul_overflow(numel, (uint64_t)ckpt_dtype_size(a->reads), out) ||
	    __builtin_add_overflow(*out, scratch->len, out))
		return ckpt_fail(err, CKPT_E_LIMIT, "has more items than a file can hold");
	return 0;
}

/* ---- moving ---- */

int ckpt_npy_open(const struct ckpt_array *a, struct ckpt_npy *npy, struct ckpt_error *err)
{
	int rc;

	*npy = (struct ckpt_npy){ .items = { .kind = CKPT_RECIPE_MEMORY } };
	npy->scratch = ckpt_arena_new(1 << 20);
	if (!npy->scratch)
		return ckpt_fail_nomem(err);
	rc = ckpt_npy_put_header(a, &npy->header, err);
	if (rc == 0 && a->t.kind == CKPT_KIND_SPARSE) {
		rc = ckpt_array_dense(a, &npy->dense, err);
		npy->items.memory = npy->dense;
		npy->items.len = rc == 0 ? ckpt_array_numel(a) * ckpt_dtype_size(a->reads) : 0;
	} else if (rc == 0) {
		rc = ckpt_array_recipe(a, npy->scratch, &npy->items, err);
	}
	return rc;
}

void ckpt_npy_close(struct ckpt_npy *npy)
{
	free(npy->dense);
	ckpt_buf_clear(&npy->header);
	ckpt_arena_free(npy->scratch);
}

int ckpt_npy_move(const struct ckpt_npy *npy, struct ckpt_mover *mover, struct ckpt_moved *moved,
		  struct ckpt_error *err)
{
	int rc = ckpt_mover_put(mover, npy->header.data, npy->header.len, err);

	return rc < 0 ? rc : ckpt_mover_copy(mover, &npy->items, moved, err);
}

uint32_t ckpt_npy_crc(const struct ckpt_npy *npy, uint32_t items)
{
	return ckpt_join_crc(libdeflate_crc32(0, npy->header.data, npy->header.len), items,
			     npy->items.len);
}

/* ---- one file of one array ---- */

static int put_file(void *ctx, struct ckpt_mover *mover, struct ckpt_error *err)
{
	struct ckpt_moved moved = { 0 };

	return ckpt_npy_move(ctx, mover, &moved, err);
}

static int write_npy(const struct ckpt_array *a, struct ckpt_npy *npy, const char *path,
		     const struct ckpt_save_options *options, struct ckpt_save_report *report,
		     struct ckpt_error *err)
{
	struct ckpt_output output = {
		.model = a->model, .options = options, .put = put_file, .ctx = npy
	};
	int rc = 0;

	if (__builtin_add_overflow(npy->header.len, npy->items.len, &output.size))
		rc = ckpt_fail(err, CKPT_E_LIMIT, "no file can hold it");
	if (rc == 0)
		rc = ckpt_output_check(&output, path, err);
	if (rc == 0 && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = ckpt_output_write(&output, path, err);
	report->nbytes = output.size;
	report->written = output.size;
	return rc;
}

static int save(const struct ckpt_array *a, const char *path,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	struct ckpt_npy npy;
	int rc = ckpt_npy_open(a, &npy, err);

	rc = ckpt_error_at(err, rc, ckpt_document_path(a->model->doc), NULL, CKPT_NO_OFFSET);
	if (rc == 0)
		rc = write_npy(a, &npy, path, options, report, err);
	ckpt_npy_close(&npy);
	return rc;
}

int ckpt_array_save_npy(const struct ckpt_array *a, const char *path,
			const struct ckpt_save_options *options, struct ckpt_save_report *report,
			struct ckpt_error *err)
{
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report done = CKPT_SAVE_REPORT_INIT;
	int rc = ckpt_sized_take(&o, sizeof(o), options, err);

	if (rc == 0)
		rc = ckpt_flags_check(o.flags, CKPT_SAVE_FLAGS, err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(done), err);
	if (rc == 0)
		rc = save(a, path, &o, &done, err);
	if (rc == 0)
		ckpt_sized_give(report, &done, sizeof(done));
	return rc;
}
