/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mean of several checkpoints. One of them is the base: the result is made of it, as by an edit,
 * with storages whose bytes are means (tensor/mean.h). match.c finds what belongs together, others.c
 * compares the rest, and means.c says how the bytes of the others lie, seen from the base.
 *
 * What must stay true: the result holds all checkpoints until it is closed, so that their files are
 * looked at again before an output gets its name, and no output replaces one of them.
 */
#include "average/average.h"

#include "base/flags.h"
#include "base/sized.h"
#include "base/text.h"
#include "quant/keep.h"
#include "tensor/cast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ckpt_averager_path(const struct ckpt_averager *a, size_t i, char *buf)
{
	const char *path = ckpt_document_path(a->models[i]->doc), *slash;

	if (!path)
		return i == a->base ? "the base" : "another";
	slash = strrchr(path, '/');
	if (slash && slash[1])
		path = slash + 1;
	return ckpt_escape(buf, 100, path, strlen(path));
}

int ckpt_average_refuse(const struct ckpt_averager *a, size_t i, const char *text, uint64_t count,
			enum ckpt_reason reason, struct ckpt_error *err)
{
	int rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "%s", text);

	if (count > 1)
		ckpt_error_append(err, " (%llu differences in all)", (unsigned long long)count);
	ckpt_error_because(err, rc, reason);
	return ckpt_error_at(err, rc, ckpt_document_path(a->models[i]->doc), NULL, CKPT_NO_OFFSET);
}

/* ---- what is asked for ---- */

static int check_weights(const struct ckpt_averager *a, struct ckpt_error *err)
{
	double sum = 0;

	for (size_t i = 0; a->o.weights && i < a->count; i++) {
		if (!isfinite(a->o.weights[i]))
			return ckpt_fail(err, CKPT_E_ARG, "a weight is no number");
		sum += a->o.weights[i];
	}
	if (a->o.weights && (!isfinite(sum) || sum == 0))
		return ckpt_fail(err, CKPT_E_ARG, "the weights have no sum to be divided by");
	if (!(a->o.flags & CKPT_AVERAGE_EMA))
		return 0;
	if (a->o.weights)
		return ckpt_fail(err, CKPT_E_ARG, "weights and a decay exclude each other");
	if (!(a->o.decay >= 0 && a->o.decay < 1))
		return ckpt_fail(err, CKPT_E_ARG, "a decay is a number from 0 on, below 1");
	return 0;
}

static int check_options(struct ckpt_averager *a, const struct ckpt_average_options *options,
			 struct ckpt_error *err)
{
	int rc = ckpt_sized_take(&a->o, sizeof(a->o), options, err);

	if (rc == 0)
		rc = ckpt_flags_check(a->o.flags, CKPT_AVERAGE_OTHERS_LAST | CKPT_AVERAGE_EMA, err);
	if (rc == 0 && !a->count)
		rc = ckpt_fail(err, CKPT_E_ARG, "there is nothing to average");
	return rc == 0 ? check_weights(a, err) : rc;
}

/* ---- what the result holds ---- */

struct held {
	size_t count;
	struct ckpt_model *models[];
};

static void free_held(void *held)
{
	struct held *h = held;

	for (size_t i = 0; h && i < h->count; i++)
		ckpt_close(h->models[i]);
	free(h);
}

static int held_files(const void *held, ckpt_model_visit_file *visit, void *ctx)
{
	const struct held *h = held;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < h->count; i++)
		rc = ckpt_model_each_file(h->models[i], visit, ctx);
	return rc;
}

static int hold_all(struct ckpt_averager *a, struct ckpt_error *err)
{
	struct held *h = malloc(sizeof(*h) + a->count * sizeof(h->models[0]));

	if (!h)
		return ckpt_fail_nomem(err);
	h->count = a->count;
	for (size_t i = 0; i < a->count; i++) {
		h->models[i] = (struct ckpt_model *)a->given[i]; /* only counted */
		h->models[i]->refs++;
	}
	a->to->held = h;
	a->to->free_held = free_held;
	a->to->held_files = held_files;
	return 0;
}

/* ---- the whole ---- */

static int open_whole(struct ckpt_averager *a, struct ckpt_error *err)
{
	int rc = 0;

	a->models = calloc(a->count, sizeof(*a->models));
	if (!a->models)
		return ckpt_fail_nomem(err);
	for (size_t i = 0; rc == 0 && i < a->count; i++) {
		a->models[i] = a->given[i];
		rc = ckpt_model_whole(&a->models[i], err);
		if (rc == 0 && !ckpt_model_has_tensors(a->models[i]))
			rc = ckpt_fail_nomem(err);
		if (rc == 0 && a->models[i]->doc->big_endian)
			rc = ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"a big-endian file cannot be averaged; 'ckpt convert' turns it around");
		rc = ckpt_error_at(err, rc, ckpt_document_path(a->given[i]->doc), NULL,
				   CKPT_NO_OFFSET);
	}
	return rc;
}

/*
 * A mean of codes means nothing, nor does one of scales without them, and codes of the last input do not belong to means of the
 * rest: is a chosen tensor of model I a part of a quantized weight?
 */
static int check_parts(struct ckpt_averager *a, size_t i, const struct ckpt_kept *kept,
		       struct ckpt_error *err)
{
	const struct ckpt_model *model = a->models[i];
	char shown[160];

	for (uint32_t k = 0; kept->count && k < model->tensor_count; k++) {
		const struct ckpt_tensor *t = &model->tensors[k];
		int rc = t->name && (ckpt_dtype_is_floating(t->dtype) || a->o.flags & CKPT_AVERAGE_OTHERS_LAST) && ckpt_kept_has(kept, t);

		if (rc > 0 && a->only.count)
			rc = ckpt_patterns_match(&a->only, t->name, err);
		if (rc > 0)
			rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
				       "'%s' is a part of a quantized weight, whose parts have no mean",
				       ckpt_escape(shown, sizeof(shown), t->name, strlen(t->name)));
		if (rc < 0)
			return ckpt_error_because(err, rc, CKPT_REASON_QUANTIZED);
	}
	return 0;
}

static int check_quantized(struct ckpt_averager *a, struct ckpt_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < a->count; i++) {
		struct ckpt_kept kept;

		rc = ckpt_quant_keep_parts(a->models[i], a->o.as, &kept, err);
		if (rc == 0)
			rc = check_parts(a, i, &kept, err);
		ckpt_kept_clear(&kept);
		if (!err || !err->path[0])
			rc = ckpt_error_at(err, rc, ckpt_document_path(a->given[i]->doc), NULL,
					   CKPT_NO_OFFSET);
	}
	return rc;
}

static int average(struct ckpt_averager *a, struct ckpt_error *err)
{
	int rc = ckpt_patterns_init(&a->only, a->o.only, a->o.only_count, err);

	a->base = a->o.flags & CKPT_AVERAGE_OTHERS_LAST ? a->count - 1 : 0;
	if (rc == 0)
		rc = open_whole(a, err);
	if (rc == 0)
		rc = check_quantized(a, err);
	if (rc == 0)
		rc = ckpt_model_derive(a->models[a->base], &a->to, err);
	if (rc == 0)
		rc = hold_all(a, err);
	if (rc == 0)
		rc = ckpt_average_match(a, err);
	if (rc == 0 && !(a->o.flags & CKPT_AVERAGE_OTHERS_LAST))
		rc = ckpt_average_check_others(a, err);
	if (rc == 0)
		rc = ckpt_average_make_means(a, err);
	return rc;
}

int ckpt_average(const struct ckpt_model *const *models, size_t count,
		 const struct ckpt_average_options *options, struct ckpt_model **out,
		 struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct ckpt_averager a = { .given = models,
				   .count = count,
				   .o = CKPT_AVERAGE_OPTIONS_INIT,
				   .report = CKPT_EDIT_REPORT_INIT };
	int rc = check_options(&a, options, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(a.report), err);
	if (rc == 0)
		rc = average(&a, err);
	if (rc == 0) {
		a.report.unmatched = ckpt_patterns_unmatched(&a.only);
		ckpt_sized_give(report, &a.report, sizeof(a.report));
		*out = a.to;
	} else {
		ckpt_close(a.to);
	}
	ckpt_patterns_clear(&a.only);
	ckpt_strmap_clear(&a.by_name);
	free(a.tensors);
	free(a.models);
	return rc;
}
