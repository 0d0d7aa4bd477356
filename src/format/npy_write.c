/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/sized.h"
#include "format/output.h"
#include "model/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * Files of numpy.save(). Source: numpy/lib/format.py: a mark, the version 1.0, the length of the header in two bytes, a dict
 * as Python writes it, spaces and a line feed up to a multiple of 64, and the items.
 */
enum { ALIGN = 64, BEFORE_DICT = 10 };

struct npy {
	struct ckpt_buf header;
	const struct ckpt_recipe *items;
};

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

static int make_header(const struct ckpt_array *a, struct ckpt_buf *h, struct ckpt_error *err)
{
	const char *descr = descr_of(a->reads);
	size_t pad;

	if (!descr)
		return ckpt_fail(err, CKPT_E_ARG, "numpy has no %s", ckpt_dtype_name(a->reads));
	ckpt_buf_add(h, "\x93NUMPY\x01", 8);
	ckpt_buf_add_u16(h, 0);
	ckpt_buf_printf(h, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	for (uint32_t i = 0; i < a->t.ndim; i++)
		ckpt_buf_printf(h, "%s%" PRIu64, i ? ", " : "", a->t.shape[i]);
	ckpt_buf_printf(h, "%s), }", a->t.ndim == 1 ? "," : "");
	pad = ALIGN - (h->len + 1) % ALIGN;
	ckpt_buf_add_fill(h, ' ', pad % ALIGN);
	ckpt_buf_add_u8(h, '\n');
	if (h->bad)
		return ckpt_fail_nomem(err);
	h->data[8] = (uint8_t)(h->len - BEFORE_DICT);
	h->data[9] = (uint8_t)((h->len - BEFORE_DICT) >> 8);
	return 0;
}

static int put(void *ctx, struct ckpt_mover *mover, struct ckpt_error *err)
{
	struct npy *npy = ctx;
	struct ckpt_moved moved = { 0 };
	int rc = ckpt_mover_put(mover, npy->header.data, npy->header.len, err);

	return rc < 0 ? rc : ckpt_mover_copy(mover, npy->items, &moved, err);
}

static int write_npy(const struct ckpt_array *a, const char *path,
		     const struct ckpt_save_options *options, const struct ckpt_recipe *items,
		     struct ckpt_save_report *report, struct ckpt_error *err)
{
	struct npy npy = { .items = items };
	struct ckpt_output output = {
		.model = a->model, .options = options, .put = put, .ctx = &npy
	};
	int rc = make_header(a, &npy.header, err);

	if (rc == 0 && __builtin_add_overflow(npy.header.len, items->len, &output.size))
		rc = ckpt_fail(err, CKPT_E_LIMIT, "no file can hold it");
	if (rc == 0)
		rc = ckpt_output_check(&output, path, err);
	if (rc == 0 && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = ckpt_output_write(&output, path, err);
	report->nbytes = output.size;
	report->written = options->flags & CKPT_SAVE_DRY_RUN ? 0 : output.size;
	ckpt_buf_clear(&npy.header);
	return rc;
}

static int save(const struct ckpt_array *a, const char *path,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	struct ckpt_arena *scratch = ckpt_arena_new(1 << 20);
	struct ckpt_recipe items = { .kind = CKPT_RECIPE_MEMORY };
	uint8_t *dense = NULL;
	int rc;

	if (!scratch)
		return ckpt_fail_nomem(err);
	if (a->t.kind == CKPT_KIND_SPARSE) {
		rc = ckpt_array_dense(a, &dense, err);
		items.memory = dense;
		items.len = rc == 0 ? ckpt_array_numel(a) * ckpt_dtype_size(a->reads) : 0;
	} else {
		rc = ckpt_array_recipe(a, scratch, &items, err);
	}
	rc = ckpt_error_at(err, rc, ckpt_document_path(a->model->doc), NULL, CKPT_NO_OFFSET);
	if (rc == 0)
		rc = write_npy(a, path, options, &items, report, err);
	free(dense);
	ckpt_arena_free(scratch);
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
		rc = ckpt_sized_check(report, sizeof(done), err);
	if (rc == 0)
		rc = save(a, path, &o, &done, err);
	if (rc == 0)
		ckpt_sized_give(report, &done);
	return rc;
}
