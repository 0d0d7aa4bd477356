/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one file, byte for byte as save_file() of the package does: tensors of wide dtypes
 * first, then by name, and a header without blanks but for those at its end that make its length
 * a multiple of 8. Source: safetensors/src/tensor.rs, prepare().
 *
 * What must stay true: every tensor was opened once, without writing, before the output is
 * created (check_all), so that what cannot be written fails early; SCRATCH is released after
 * each tensor, so that memory does not grow with their number.
 */
#include "format/safetensors_write.h"

#include "array/array.h"
#include "base/buf.h"
#include "base/text.h"
#include "format/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_ALIGNMENT = 8 };

struct writer {
	const struct ckpt_safetensors_out *out;
	struct ckpt_safetensors_item **order;
	struct ckpt_buf header;
	struct ckpt_arena *scratch; /* of one tensor at a time */
	uint64_t data_len;
};

/* ---- header ---- */

static void put_string(struct ckpt_buf *b, const char *text, size_t len)
{
	static const char short_forms[] = "\b\t\n\v\f\r", letters[] = "btn\0fr";

	ckpt_buf_add_u8(b, '"');
	for (size_t i = 0; i < len; i++) {
		uint8_t byte = (uint8_t)text[i];
		const char *at = byte ? memchr(short_forms, byte, 6) : NULL;

		if (byte == '"' || byte == '\\')
			ckpt_buf_printf(b, "\\%c", byte);
		else if (at && letters[at - short_forms])
			ckpt_buf_printf(b, "\\%c", letters[at - short_forms]);
		else if (byte < 0x20)
			ckpt_buf_printf(b, "\\u%04x", byte);
		else
			ckpt_buf_add_u8(b, byte);
	}
	ckpt_buf_add_u8(b, '"');
}

static void put_metadata(struct ckpt_buf *b, const struct ckpt_safetensors_out *out)
{
	ckpt_buf_printf(b, "\"__metadata__\":{");
	for (uint32_t i = 0; i < out->metadata_count; i++) {
		const struct ckpt_safetensors_pair *p = &out->metadata[i];

		if (i)
			ckpt_buf_add_u8(b, ',');
		put_string(b, p->key, p->key_len);
		ckpt_buf_add_u8(b, ':');
		put_string(b, p->value, p->value_len);
	}
	ckpt_buf_add_u8(b, '}');
}

static void put_entry(struct ckpt_buf *b, const struct ckpt_safetensors_item *item)
{
	const struct ckpt_tensor *t = &item->t;

	put_string(b, item->name, item->name_len);
	ckpt_buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[",
			ckpt_safetensors_dtype_name(item->dtype));
	for (uint32_t i = 0; i < t->ndim; i++) {
		bool pairs = item->dtype == CKPT_SAFETENSORS_F4 && i == t->ndim - 1;

		ckpt_buf_printf(b, "%s%" PRIu64, i ? "," : "",
				pairs ? 2 * t->shape[i] : t->shape[i]);
	}
	ckpt_buf_printf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", item->begin,
			item->begin + item->nbytes);
}

static int make_header(struct writer *w, struct ckpt_error *err)
{
	struct ckpt_buf *b = &w->header;
	size_t len;

	ckpt_buf_add_u64(b, 0);
	ckpt_buf_add_u8(b, '{');
	if (w->out->has_metadata)
		put_metadata(b, w->out);
	for (uint32_t i = 0; i < w->out->count; i++) {
		if (i || w->out->has_metadata)
			ckpt_buf_add_u8(b, ',');
		put_entry(b, w->order[i]);
	}
	ckpt_buf_add_u8(b, '}');
	ckpt_buf_add_fill(b, ' ',
			  (HEADER_ALIGNMENT - b->len % HEADER_ALIGNMENT) % HEADER_ALIGNMENT);
	if (b->bad)
		return ckpt_fail_nomem(err);
	len = b->len - CKPT_SAFETENSORS_BEFORE_JSON;
	if (len > CKPT_SAFETENSORS_MOST_JSON)
		return ckpt_fail(err, CKPT_E_LIMIT,
				 "the header would have %zu bytes, readers take %d at most", len,
				 CKPT_SAFETENSORS_MOST_JSON);
	for (unsigned i = 0; i < CKPT_SAFETENSORS_BEFORE_JSON; i++)
		b->data[i] = (uint8_t)(len >> 8 * i);
	return 0;
}

/* ---- order ---- */

static int by_dtype_and_name(const void *a, const void *b)
{
	const struct ckpt_safetensors_item *x = *(struct ckpt_safetensors_item *const *)a,
					   *y = *(struct ckpt_safetensors_item *const *)b;
	uint32_t len = x->name_len < y->name_len ? x->name_len : y->name_len;
	int order;

	if (x->dtype != y->dtype)
		return x->dtype > y->dtype ? -1 : 1;
	order = memcmp(x->name, y->name, len);
	return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

static int place_items(struct writer *w, struct ckpt_error *err)
{
	uint32_t count = w->out->count;

	w->order = malloc((count + (size_t)1) * sizeof(struct ckpt_safetensors_item *));
	if (!w->order)
		return ckpt_fail_nomem(err);
	if (count)
		memcpy(w->order, w->out->items, count * sizeof(struct ckpt_safetensors_item *));
	qsort(w->order, count, sizeof(struct ckpt_safetensors_item *), by_dtype_and_name);
	for (uint32_t i = 0; i < count; i++) {
		w->order[i]->begin = w->data_len;
		if (__builtin_add_overflow(w->data_len, w->order[i]->nbytes, &w->data_len) ||
		    w->data_len > INT64_MAX / 2)
			return ckpt_fail(err, CKPT_E_LIMIT, "more bytes than any file holds");
	}
	return 0;
}

/* ---- bytes ---- */

/* Copy RECIPE to MOVER; NULL: only check that it could be. */
static int move(const struct ckpt_safetensors_item *item, const struct ckpt_recipe *recipe,
		struct ckpt_mover *mover, struct ckpt_error *err)
{
	struct ckpt_moved moved = { 0 };

	if (recipe->len != item->nbytes)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "has %" PRIu64 " bytes, its shape wants %" PRIu64, recipe->len,
				 item->nbytes);
	return mover && recipe->len ? ckpt_mover_copy(mover, recipe, &moved, err) : 0;
}

/* The items of a tensor in their order. */
static int put_value(struct writer *w, const struct ckpt_safetensors_item *item,
		     struct ckpt_mover *mover, struct ckpt_error *err)
{
	struct ckpt_recipe recipe;
	struct ckpt_array *array;
	int rc = ckpt_array_open_value(w->out->model, item->value, item->name, 0, &array, err);

	if (rc < 0)
		return rc;
	rc = ckpt_array_recipe(array, w->scratch, &recipe, err);
	if (rc == 0)
		rc = move(item, &recipe, mover, err);
	ckpt_array_close(array);
	return rc;
}

static int put_item(struct writer *w, const struct ckpt_safetensors_item *item,
		    struct ckpt_mover *mover, struct ckpt_error *err)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(w->scratch);
	struct ckpt_recipe recipe;
	int rc;

	if (w->out->bytes) {
		rc = w->out->bytes(w->out->ctx, item, w->scratch, &recipe, err);
		if (rc == 0)
			rc = move(item, &recipe, mover, err);
	} else {
		rc = put_value(w, item, mover, err);
	}
	ckpt_arena_release(w->scratch, mark);
	return rc;
}

static int put_all(void *ctx, struct ckpt_mover *mover, struct ckpt_error *err)
{
	struct writer *w = ctx;
	int rc = ckpt_mover_put(mover, w->header.data, w->header.len, err);

	for (uint32_t i = 0; rc == 0 && i < w->out->count; i++)
		rc = put_item(w, w->order[i], mover, err);
	return rc;
}

static int check_all(struct writer *w, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < w->out->count; i++)
		rc = put_item(w, w->order[i], NULL, err);
	return rc;
}

/* ---- one file ---- */

static int prepare(struct writer *w, struct ckpt_error *err)
{
	int rc;

	w->scratch = ckpt_arena_new(UINT64_MAX >> 1);
	rc = w->scratch ? place_items(w, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = make_header(w, err);
	return rc < 0 ? rc : check_all(w, err);
}

static void clear(struct writer *w)
{
	free(w->order);
	ckpt_buf_clear(&w->header);
	ckpt_arena_free(w->scratch);
}

int ckpt_safetensors_write(const struct ckpt_safetensors_out *out, const char *path,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err)
{
	struct writer w = { .out = out };
	struct ckpt_output output = { .model = out->model,
				      .checks = out->checks,
				      .options = options,
				      .replaced = out->replaced,
				      .put = put_all,
				      .ctx = &w };
	int rc = ckpt_output_check(&output, path, err);

	if (rc == 0)
		rc = prepare(&w, err);
	rc = ckpt_error_at(err, rc, ckpt_document_path(out->model->doc), NULL, CKPT_NO_OFFSET);
	output.size = w.header.len + w.data_len;
	if (rc == 0 && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = ckpt_output_write(&output, path, err);
	report->nbytes = report->written = output.size;
	clear(&w);
	return rc;
}
