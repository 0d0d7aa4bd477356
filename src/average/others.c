/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is not averaged has to be equal, as 'ckpt diff' has it: first all but numbers, which reads no
 * byte of a tensor, then the numbers of the tensors that are not averaged.
 */
#include "average/average.h"

#include <ckpt/diff.h>
#include <ckpt/text.h>

#include <stdio.h>
#include <string.h>

enum { MOST_TEXT = 400 };

struct finder {
	const struct ckpt_averager *a;
	char text[MOST_TEXT]; /* of the first */
	uint64_t count;
};

static const char *what_differs(unsigned what)
{
	static const struct {
		unsigned bit;
		const char *text;
	} words[] = {
		{ CKPT_DIFFERS_TYPE, "is of another type" },
		{ CKPT_DIFFERS_SHAPE, "has another shape" },
		{ CKPT_DIFFERS_DTYPE, "has another dtype" },
		{ CKPT_DIFFERS_LAYOUT, "has another layout" },
		{ CKPT_DIFFERS_QUANTIZER, "has another quantizer" },
		{ CKPT_DIFFERS_KEYS, "has other keys" },
		{ CKPT_DIFFERS_ATTRIBUTES, "has other attributes" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (what & words[i].bit)
			return words[i].text;
	return "has other values";
}

static int note_difference(void *ctx, const struct ckpt_difference *f)
{
	struct finder *finder = ctx;
	char name[120], path[100];

	if (finder->count++)
		return 0;
	ckpt_averager_path(finder->a, finder->a->base, path);
	ckpt_escape(name, sizeof(name), f->name, strlen(f->name));
	if (f->kind == CKPT_DIFFERENCE_REMOVED)
		snprintf(finder->text, MOST_TEXT, "there is no '%s', as in %s", name, path);
	else if (f->kind == CKPT_DIFFERENCE_ADDED)
		snprintf(finder->text, MOST_TEXT, "'%s' is not in %s", name, path);
	else if (f->kind == CKPT_DIFFERENCE_UNREADABLE)
		snprintf(finder->text, MOST_TEXT, "'%s' cannot be compared: %.200s", name,
			 f->text ? f->text : "");
	else if (f->what == CKPT_DIFFERS_VALUE && !f->a->is_array && !f->b->is_array)
		snprintf(finder->text, MOST_TEXT, "'%s' is %.60s, in %s it is %.60s", name,
			 f->b->text, path, f->a->text);
	else
		snprintf(finder->text, MOST_TEXT, "'%s' %s than in %s, and is not averaged", name,
			 what_differs(f->what), path);
	return 0;
}

static bool is_not_averaged(void *ctx, const char *name)
{
	const struct ckpt_averager *a = ctx;

	return !ckpt_strmap_find(&a->by_name, name, strlen(name));
}

int ckpt_average_check_others(struct ckpt_averager *a, struct ckpt_error *err)
{
	struct ckpt_diff_options options = CKPT_DIFF_OPTIONS_INIT;
	int rc = 0;

	options.threads = a->o.threads;
	options.cancel = a->o.cancel;
	options.progress = a->o.progress;
	options.progress_ctx = a->o.progress_ctx;
	options.reads = is_not_averaged;
	options.reads_ctx = a;
	for (size_t i = 0; rc == 0 && i < a->count; i++) {
		struct finder finder = { .a = a };

		if (i == a->base)
			continue;
		for (int quick = 1; rc == 0 && !finder.count && quick >= 0; quick--) {
			options.flags = CKPT_DIFF_IGNORE_DEVICE | (quick ? CKPT_DIFF_QUICK : 0u);
			rc = ckpt_diff(a->models[a->base], a->models[i], &options, note_difference,
				       &finder, NULL, err);
		}
		if (rc == 0 && finder.count)
			rc = ckpt_average_refuse(a, i, finder.text, finder.count,
						 CKPT_REASON_NOT_EQUAL, err);
	}
	return rc;
}
