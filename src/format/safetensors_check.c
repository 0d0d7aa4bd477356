/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of the format about names and places, once the header is a table. Source:
 * Metadata::validate() in safetensors/src/tensor.rs; where the package is laxer (two entries of
 * one name), the difference is said at the check.
 *
 * What must stay true: a header that passes has each name once, and its tensors cover the data
 * from the first byte to the last without a gap or an overlap. Readers of the table add offsets
 * without further checks.
 */
#include "format/safetensors_header.h"

#include "base/strmap.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int fail_tensor(const struct ckpt_safetensors_tensor *t, const char *what,
		       struct ckpt_error *err)
{
	char shown[160];

	ckpt_escape(shown, sizeof(shown), t->name, t->name_len);
	return ckpt_error_at(err, ckpt_fail(err, CKPT_E_FORMAT, "tensor '%s': %s", shown, what),
			     NULL, NULL, t->at);
}

/* A text like "F32 [2, 3]". */
static void format_shape(const struct ckpt_safetensors_tensor *t, char *out, size_t size)
{
	size_t len = (size_t)snprintf(out, size, "%s [", ckpt_safetensors_dtype_name(t->dtype));

	for (uint32_t i = 0; i < t->ndim && len < size - 32; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%" PRIu64, i ? ", " : "",
					t->shape[i]);
	snprintf(out + len, size - len, "%s]", len < size - 32 ? "" : " ...");
}

/* Multiplies from the first to the last size, zeros or not, as the package does. */
static int check_size(const struct ckpt_safetensors_tensor *t, struct ckpt_error *err)
{
	uint64_t bits = 1;
	bool over = false;
	char shape[120], what[280];

	for (uint32_t i = 0; i < t->ndim; i++)
		over |= __builtin_mul_overflow(bits, t->shape[i], &bits);
	over |= __builtin_mul_overflow(bits, (uint64_t)ckpt_safetensors_dtype_bits(t->dtype),
				       &bits);
	if (!over && bits % 8 == 0 && bits / 8 == t->end - t->begin)
		return 0;
	format_shape(t, shape, sizeof(shape));
	if (over)
		snprintf(what, sizeof(what), "%s is more than can be counted", shape);
	else if (bits % 8)
		snprintf(what, sizeof(what), "%s takes %" PRIu64 " bits, which are not whole bytes",
			 shape, bits);
	else
		snprintf(what, sizeof(what),
			 "%s takes %" PRIu64 " bytes, its data_offsets [%" PRIu64 ", %" PRIu64
			 "] hold %" PRIu64,
			 shape, bits / 8, t->begin, t->end, t->end - t->begin);
	return fail_tensor(t, what, err);
}

static int by_place(const void *a, const void *b)
{
	const struct ckpt_safetensors_tensor *x = *(const struct ckpt_safetensors_tensor *const *)a,
					     *y = *(const struct ckpt_safetensors_tensor *const *)b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* BEHIND: the end of the data of LAST, the tensor before T; NULL: T is the first. */
static int check_place(const struct ckpt_safetensors_tensor *t,
		       const struct ckpt_safetensors_tensor *last, uint64_t behind,
		       struct ckpt_error *err)
{
	char shown[100] = "", what[280];

	if (t->end < t->begin) {
		snprintf(what, sizeof(what),
			 "its data_offsets [%" PRIu64 ", %" PRIu64 "] end before they begin",
			 t->begin, t->end);
		return fail_tensor(t, what, err);
	}
	if (t->begin == behind)
		return check_size(t, err);
	if (last)
		ckpt_escape(shown, sizeof(shown), last->name, last->name_len);
	if (t->begin < behind)
		snprintf(what, sizeof(what),
			 "its data begin at %" PRIu64
			 ", inside of those of '%s', which end at %" PRIu64,
			 t->begin, shown, behind);
	else
		snprintf(what, sizeof(what),
			 "its data begin at %" PRIu64 ", and the %" PRIu64
			 " bytes before belong to "
			 "no tensor",
			 t->begin, t->begin - behind);
	return fail_tensor(t, what, err);
}

/* BEHIND: the end of the data of all tensors. SOME_WHOLE: the file has all bytes of at least one. */
static int check_end(const struct ckpt_safetensors_header *h, uint64_t behind, bool some_whole,
		     struct ckpt_error *err)
{
	int rc = 0;

	if (behind > h->data_len)
		rc = ckpt_error_because(err,
					ckpt_fail(err, CKPT_E_FORMAT,
						  "the tensors take %" PRIu64 " bytes, the file has %" PRIu64
						  " after its header: it is cut short",
						  behind, h->data_len),
					some_whole ? CKPT_REASON_STORAGES_MISSING
						   : CKPT_REASON_TRUNCATED);
	else if (behind < h->data_len)
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "%" PRIu64 " bytes at the end of the file belong to no tensor",
			       h->data_len - behind);
	return ckpt_error_at(err, rc, NULL, NULL,
			     h->data_off + (behind < h->data_len ? behind : h->data_len));
}

static int check_places(const struct ckpt_safetensors_header *h, struct ckpt_error *err)
{
	const struct ckpt_safetensors_tensor **order =
		malloc((h->count + (size_t)1) * sizeof(*order));
	uint64_t behind = 0;
	bool sorted = true, some_whole = false;
	int rc = 0;

	if (!order)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < h->count; i++) {
		order[i] = &h->tensors[i];
		sorted = sorted && (!i || by_place(&order[i - 1], &order[i]) < 0);
	}
	if (!sorted)
		qsort(order, h->count, sizeof(*order), by_place);
	for (uint32_t i = 0; rc == 0 && i < h->count; i++) {
		rc = check_place(order[i], i ? order[i - 1] : NULL, behind, err);
		behind = order[i]->end;
		some_whole = some_whole || (behind > order[i]->begin && behind <= h->data_len);
	}
	free(order);
	return rc < 0 ? rc : check_end(h, behind, some_whole, err);
}

/* The package silently takes the last of two entries of one name. */
static int check_names(const struct ckpt_safetensors_header *h, struct ckpt_error *err)
{
	struct ckpt_strmap names = { 0 };
	bool there = false;
	int rc = ckpt_strmap_reserve(&names, h->count) ? 0 : ckpt_fail_nomem(err);

	for (uint32_t i = 0; rc == 0 && i < h->count; i++) {
		const struct ckpt_safetensors_tensor *t = &h->tensors[i];

		if (!ckpt_strmap_insert(&names, t->name, t->name_len, i, &there))
			rc = ckpt_fail_nomem(err);
		else if (there)
			rc = fail_tensor(t, "there are two entries of this name", err);
	}
	ckpt_strmap_clear(&names);
	return rc;
}

static int check_metadata(const struct ckpt_safetensors_header *h, struct ckpt_error *err)
{
	struct ckpt_strmap keys = { 0 };
	bool there = false;
	char shown[100];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < h->metadata_count; i++) {
		const struct ckpt_safetensors_pair *p = &h->metadata[i];

		if (!ckpt_strmap_insert(&keys, p->key, p->key_len, i, &there))
			rc = ckpt_fail_nomem(err);
		else if (there)
			rc = ckpt_fail(err, CKPT_E_FORMAT, "__metadata__: '%s' is there twice",
				       ckpt_escape(shown, sizeof(shown), p->key, p->key_len));
	}
	ckpt_strmap_clear(&keys);
	return rc;
}

int ckpt_safetensors_header_check(const struct ckpt_safetensors_header *header,
				  struct ckpt_error *err)
{
	int rc = check_names(header, err);

	if (rc == 0)
		rc = check_metadata(header, err);
	return rc < 0 ? rc : check_places(header, err);
}
