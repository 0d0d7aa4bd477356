/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint against itself, and against one that has another byte somewhere: what is gone one way has come the other. */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_ITEMS = 1 << 20 };

/* A view may show its bytes again and again. */
static bool is_small(const struct ckpt_model *model)
{
	uint64_t items = 0;

	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++) {
		struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

		REQUIRE(ckpt_tensor_get(model, i, &t) == 0);
		if (t.numel > MOST_ITEMS || (items += t.numel) > MOST_ITEMS)
			return false;
	}
	return true;
}

static void check_text(const char *text)
{
	REQUIRE(text);
	for (; *text; text++)
		REQUIRE((unsigned char)*text >= 0x20 && *text != 0x7F);
}

static void check_side(const struct ckpt_diff_side *s)
{
	if (!s)
		return;
	check_text(s->type);
	check_text(s->text);
	REQUIRE(s->is_array == (*s->dtype != '\0') && s->device && s->layout);
}

static int check_difference(void *ctx, const struct ckpt_difference *f)
{
	uint64_t *counts = ctx;

	REQUIRE(f->name && (f->a || f->b));
	REQUIRE((f->kind == CKPT_DIFFERENCE_RENAMED) == (f->other_name != NULL));
	REQUIRE((f->kind == CKPT_DIFFERENCE_UNREADABLE) == (f->text != NULL));
	REQUIRE(f->kind != CKPT_DIFFERENCE_CHANGED || f->what);
	REQUIRE(!f->numbers || f->numbers->outside <= f->numbers->differing);
	REQUIRE(!f->numbers || f->numbers->differing <= f->numbers->count);
	if (f->text)
		check_text(f->text);
	check_side(f->a);
	check_side(f->b);
	counts[f->kind]++;
	return 0;
}

static uint64_t sum_of(const struct ckpt_diff_counts *c, uint64_t *all)
{
	all[CKPT_DIFFERENCE_REMOVED] += c->removed;
	all[CKPT_DIFFERENCE_ADDED] += c->added;
	all[CKPT_DIFFERENCE_RENAMED] += c->renamed;
	all[CKPT_DIFFERENCE_CHANGED] += c->changed;
	all[CKPT_DIFFERENCE_UNREADABLE] += c->unreadable;
	return c->unreadable;
}

/* False: it cannot be told. */
static bool diff(const struct ckpt_model *a, const struct ckpt_model *b, unsigned flags,
		 struct ckpt_diff_report *report)
{
	struct ckpt_diff_options options = CKPT_DIFF_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t counts[5] = { 0 }, all[5] = { 0 }, unreadable;
	int rc;

	*report = (struct ckpt_diff_report)CKPT_DIFF_REPORT_INIT;
	options.flags = flags;
	rc = ckpt_diff(a, b, &options, check_difference, counts, report, &err);
	fuzz_check_error(rc, &err);
	if (rc < 0)
		return false;
	unreadable = sum_of(&report->tensors, all) + sum_of(&report->values, all);
	REQUIRE(!memcmp(counts, all, sizeof(all)));
	REQUIRE(report->same == !(counts[0] + counts[1] + counts[2] + counts[3] + counts[4]));
	return !unreadable;
}

static void against_itself(const struct ckpt_model *a, const struct ckpt_model *b)
{
	static const unsigned flags[] = { 0, CKPT_DIFF_READ, CKPT_DIFF_READ | CKPT_DIFF_STRICT,
					  CKPT_DIFF_QUICK };
	struct ckpt_diff_report report;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (diff(a, a, flags[i], &report))
			REQUIRE(report.same);
		if (diff(a, b, flags[i], &report))
			REQUIRE(report.same);
	}
}

static void against_another(const struct ckpt_model *a, const struct ckpt_model *b)
{
	struct ckpt_diff_report there, back;

	if (!diff(a, b, CKPT_DIFF_READ, &there) || !diff(b, a, CKPT_DIFF_READ, &back))
		return;
	REQUIRE(there.same == back.same);
	REQUIRE(there.tensors.changed == back.tensors.changed);
	REQUIRE(there.tensors.removed == back.tensors.added);
	REQUIRE(there.values.removed == back.values.added);
	REQUIRE(there.values.changed == back.values.changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_model *a = NULL, *again = NULL, *b = NULL;
	uint8_t *other;

	if (size < 4)
		return 0;
	other = malloc(size);
	REQUIRE(other);
	memcpy(other, data + 3, size - 3);
	other[(data[0] + 256u * data[1]) % (size - 3)] ^= data[2];
	if (ckpt_open_memory(data + 3, size - 3, &a, NULL) == 0 && is_small(a)) {
		REQUIRE(ckpt_open_memory(data + 3, size - 3, &again, NULL) == 0);
		against_itself(a, again);
		if (ckpt_open_memory(other, size - 3, &b, NULL) == 0 && is_small(b))
			against_another(a, b);
	}
	ckpt_close(a);
	ckpt_close(again);
	ckpt_close(b);
	free(other);
	return 0;
}
