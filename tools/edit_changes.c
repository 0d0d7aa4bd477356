/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an edit did, in a few words, and notes of what it did not do or what it lost.
 */
#include "edit.h"
#include "float_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_PLACES = 8 };

bool edit_changed(const struct ckpt_edit_report *r)
{
	return r->renamed || r->names_renamed || r->storages_moved || r->devices_moved ||
	       r->entries_dropped || r->extracted || r->tensors_cast || r->tensors_compacted ||
	       r->tensors_averaged || r->tensors_dequantized || r->change_count || r->protocol_changed;
}

static const char *one_or_more(uint64_t count, const char *one, const char *more)
{
	return count == 1 ? one : more;
}

static void print_renamed(const struct ckpt_edit_report *r)
{
	char name[160];

	for (size_t i = 0; i < r->place_count && i < MOST_PLACES; i++) {
		const char *place = r->places[i].name;

		printf("%" PRIu64 "%s in %s%s%s, ", r->places[i].renamed,
		       i ? "" : one_or_more(r->places[i].renamed, " key renamed", " keys renamed"),
		       place[0] ? "'" : "the state dict",
		       ckpt_escape(name, sizeof(name), place, strlen(place)), place[0] ? "'" : "");
	}
	if (r->place_count > MOST_PLACES)
		printf("and in %zu more state dicts, ", r->place_count - MOST_PLACES);
	if (r->names_renamed)
		printf("%" PRIu64 " parameter %s in param_groups, ", r->names_renamed,
		       one_or_more(r->names_renamed, "name", "names"));
}

void list_replacements(const struct ckpt_edit_report *r)
{
	char name[160];

	for (size_t i = 0; i < r->change_count; i++) {
		const char *where = r->changes[i].name;

		printf("%s: %s is now %s\n",
		       where[0] ? ckpt_escape(name, sizeof(name), where, strlen(where))
				: "the root",
		       r->changes[i].was, r->changes[i].is);
	}
}

/* "1.6M became 1.6M" says nothing. */
static void print_compacted(const struct ckpt_edit_report *r)
{
	uint64_t before = r->compacted_nbytes_before, after = r->compacted_nbytes_after;
	char a[16], b[16];

	printf("%" PRIu64 " %s compacted, ", r->tensors_compacted,
	       one_or_more(r->tensors_compacted, "tensor", "tensors"));
	size_phrase(before, a);
	size_phrase(after, b);
	if (strcmp(a, b) != 0)
		printf("%s became %s, ", a, b);
	else if (before > after)
		printf("%s less than %s, ", size_phrase(before - after, b), a);
	else
		printf("with the %s that they had, ", a);
}

static void print_changes(const struct ckpt_edit_report *r)
{
	char before[16], after[16];

	print_renamed(r);
	if (r->storages_moved || r->devices_moved)
		printf("%" PRIu64 " %s moved, ", r->storages_moved,
		       one_or_more(r->storages_moved, "storage", "storages"));
	if (r->devices_moved)
		printf("%" PRIu64 " %s, ", r->devices_moved,
		       one_or_more(r->devices_moved, "other device changed",
				   "other devices changed"));
	if (r->entries_dropped)
		printf("%" PRIu64 " %s with %" PRIu64 " %s dropped, ", r->entries_dropped,
		       one_or_more(r->entries_dropped, "entry", "entries"), r->tensors_dropped,
		       one_or_more(r->tensors_dropped, "tensor", "tensors"));
	if (r->extracted && r->tensors_dropped)
		printf("%" PRIu64 " %s left behind, ", r->tensors_dropped,
		       one_or_more(r->tensors_dropped, "tensor", "tensors"));
	if (r->tensors_dequantized)
		printf("%" PRIu64 " %s dequantized, ", r->tensors_dequantized,
		       one_or_more(r->tensors_dequantized, "weight", "weights"));
	if (r->scales_dropped)
		printf("%" PRIu64 " %s of activations left out, ", r->scales_dropped,
		       one_or_more(r->scales_dropped, "scale", "scales"));
	if (r->tensors_cast)
		printf("%" PRIu64 " %s cast, %s became %s, ", r->tensors_cast,
		       one_or_more(r->tensors_cast, "tensor", "tensors"),
		       size_phrase(r->cast_nbytes_before, before),
		       size_phrase(r->cast_nbytes_after, after));
	if (r->optimizer_left)
		printf("%" PRIu64 " of an optimizer left, ", r->optimizer_left);
	if (r->quantized_left)
		printf("%" PRIu64 " of quantized weights left, ", r->quantized_left);
	if (r->scalars_left)
		printf("%" PRIu64 " without a dimension left, ", r->scalars_left);
	if (r->tensors_compacted)
		print_compacted(r);
	if (r->tensors_averaged)
		printf("%" PRIu64 " %s averaged, ", r->tensors_averaged,
		       one_or_more(r->tensors_averaged, "tensor", "tensors"));
	if (r->optimizer_averaged)
		printf("%" PRIu64 " of them of an optimizer, ", r->optimizer_averaged);
	if (r->change_count)
		printf("%zu %s replaced, ", r->change_count,
		       one_or_more(r->change_count, "value", "values"));
	if (r->protocol_changed)
		printf("pickle protocol 2 now, ");
	if (r->tensors_left)
		printf("%" PRIu64 " %s of a kind that cannot be changed, ", r->tensors_left,
		       one_or_more(r->tensors_left, "tensor", "tensors"));
	if (!edit_changed(r))
		printf("nothing to change, ");
}

/* Has it replaced values, and done nothing else? */
static bool only_replaced(const struct ckpt_edit_report *r)
{
	struct ckpt_edit_report rest = *r;

	rest.change_count = 0;
	return r->change_count && !edit_changed(&rest);
}

void print_all_changes(const struct ckpt_edit_report *reports, size_t count, bool unchanged)
{
	size_t replaced = 0;

	for (size_t i = 0; i < count; i++) {
		struct ckpt_edit_report r = reports[i];

		if (i + 1 < count && only_replaced(&r) && only_replaced(&reports[i + 1])) {
			replaced += r.change_count; /* several --set: one number */
			continue;
		}
		r.change_count += replaced;
		replaced = 0;
		if (edit_changed(&r) || unchanged)
			print_changes(&r);
	}
}

void note_unused(const struct ckpt_edit_report *r)
{
	char name[160];

	fflush(stdout);
	for (size_t i = 0; i < r->unused_count; i++)
		fprintf(stderr, "ckpt: note: no key matches '%s'\n",
			ckpt_escape(name, sizeof(name), r->unused[i], strlen(r->unused[i])));
}

void note_quantized(const struct ckpt_edit_report *reports, size_t count)
{
	uint64_t left = 0;

	for (size_t i = 0; i < count; i++)
		left += reports[i].quantized_left;
	fflush(stdout);
	if (left)
		complain("note: %" PRIu64 " %s of quantized weights %s as %s; --dequantize makes numbers of them",
			 left, one_or_more(left, "part", "parts"), one_or_more(left, "stays", "stay"),
			 one_or_more(left, "it is", "they are"));
}

static int find_names(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	(void)value;
	(void)value_len;
	*(bool *)ctx |= key_len == 12 && !memcmp(key, "tensor_names", 12);
	return 0;
}

void note_classes(const struct ckpt_model *in, const char *out)
{
	struct ckpt_model *written = NULL;
	bool has = false, has_still = false;

	if (ckpt_each_metadata(in, find_names, &has, NULL) < 0 || !has ||
	    ckpt_open(out, &written, NULL) < 0)
		return;
	ckpt_each_metadata(written, find_names, &has_still, NULL);
	ckpt_close(written);
	fflush(stdout);
	if (!has_still)
		complain("note: OUT has no place for the metadata that say of which class of torchao the tensors are");
}

/* What numbers that are too large for DTYPE become. */
static const char *overflow_of(const char *dtype)
{
	if (strstr(dtype, "int"))
		return "another";
	if (!strcmp(dtype, "float8_e4m3fn"))
		return "the largest that it has";
	return strstr(dtype, "fnu") ? "NaN" : "infinite";
}

static void note_loss(const struct ckpt_cast_loss *loss, const char *large, const char *became)
{
	char count[32], number[FLOAT_MOST_TEXT] = "";
	double v = loss->first;

	if (isfinite(v))
		float_repr(number, v, (double)(float)v == v ? FLOAT_SINGLE : FLOAT_DOUBLE);
	else
		strcpy(number, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
	fprintf(stderr, "ckpt: note: %s number%s too %s for %s and became %s, first %s at %s\n",
		grouped(loss->count, count), loss->count == 1 ? " was" : "s were", large,
		loss->dtype, became, number, loss->place);
}

void note_losses(const struct ckpt_model *model)
{
	struct ckpt_cast_report r = CKPT_CAST_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;

	fflush(stdout);
	if (ckpt_cast_losses(model, &r, &err) < 0) {
		fail(&err);
		return;
	}
	if (r.overflow.count)
		note_loss(&r.overflow, "large", overflow_of(r.overflow.dtype));
	if (r.underflow.count)
		note_loss(&r.underflow, "small", "0");
}
