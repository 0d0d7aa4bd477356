/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors are averaged: floating and complex ones that are numbers in a storage, of all
 * checkpoints, under one name. They must have one shape and dtype, or the mean means nothing.
 */
#include "average/average.h"

#include "base/grow.h"
#include "tensor/cast.h"

#include <ckpt/text.h>

#include <stdio.h>
#include <string.h>

enum { MOST_TEXT = 400, MOST_SHAPE = 100 };

/* ---- texts ---- */

static const char *shape_text(const struct ckpt_tensor *t, char *buf)
{
	size_t len = (size_t)snprintf(buf, MOST_SHAPE, "[");

	for (uint32_t i = 0; i < t->ndim && len < MOST_SHAPE - 30; i++)
		len += (size_t)snprintf(buf + len, MOST_SHAPE - len, "%s%llu", i ? ", " : "",
					(unsigned long long)t->shape[i]);
	snprintf(buf + len, MOST_SHAPE - len, len < MOST_SHAPE - 30 ? "]" : ", ...]");
	return buf;
}

static const char *kind_text(const struct ckpt_tensor *t)
{
	if (t->kind == CKPT_KIND_WRAPPER)
		return t->class_name ? t->class_name : "wrapper";
	return t->kind == CKPT_KIND_QUANTIZED	    ? "quantized"
	       : t->kind == CKPT_KIND_SPARSE	    ? "sparse"
	       : t->kind == CKPT_KIND_NESTED	    ? "nested"
	       : t->kind == CKPT_KIND_META	    ? "meta"
	       : t->kind == CKPT_KIND_NUMPY	    ? "numpy"
	       : t->kind == CKPT_KIND_UNINITIALIZED ? "uninitialized"
						    : "strided";
}

/* What differs is said: the kind, or the dtype and shape, or a bit. */
static void tell_unlike(const struct ckpt_tensor *a, const struct ckpt_tensor *b, const char *path,
			char text[MOST_TEXT])
{
	char name[120], shape_a[MOST_SHAPE], shape_b[MOST_SHAPE];

	ckpt_escape(name, sizeof(name), a->name, strlen(a->name));
	if (a->kind != b->kind)
		snprintf(text, MOST_TEXT, "'%s' is %s, in %s it is %s", name, kind_text(b), path,
			 kind_text(a));
	else if (a->is_conj != b->is_conj || a->is_neg != b->is_neg)
		snprintf(text, MOST_TEXT, "'%s' has another conjugate or negative bit than in %s",
			 name, path);
	else
		snprintf(text, MOST_TEXT, "'%s' is %s %s, in %s it is %s %s", name,
			 ckpt_dtype_name(b->dtype), shape_text(b, shape_b), path,
			 ckpt_dtype_name(a->dtype), shape_text(a, shape_a));
}

/* ---- which ---- */

static bool has_parts_that_float(enum ckpt_dtype dtype)
{
	return ckpt_dtype_is_floating(dtype) || dtype == CKPT_DTYPE_COMPLEX128 ||
	       dtype == CKPT_DTYPE_COMPLEX64 || dtype == CKPT_DTYPE_COMPLEX32 ||
	       dtype == CKPT_DTYPE_BCOMPLEX32;
}

/* 1: T is averaged, and *STORED is what is stored of it. */
static int is_averaged(struct ckpt_averager *a, size_t i, const struct ckpt_tensor *t,
		       const struct ckpt_tensor **stored, struct ckpt_error *err)
{
	struct ckpt_tensor *local;
	int rc;

	if (!has_parts_that_float(t->dtype) ||
	    (t->kind == CKPT_KIND_WRAPPER ? !t->class_name || strcmp(t->class_name, "DTensor") != 0
					  : t->kind != CKPT_KIND_STRIDED))
		return 0;
	rc = a->only.count ? ckpt_patterns_match(&a->only, t->name, err) : 1;
	if (rc <= 0)
		return rc;
	*stored = t;
	if (t->kind == CKPT_KIND_STRIDED)
		return t->storage >= 0 && t->stride;
	local = ckpt_arena_calloc(a->to->arena, 1, sizeof(*local));
	if (!local)
		return ckpt_arena_fail(a->to->arena, err);
	*stored = local;
	return ckpt_tensor_stored(a->models[i], t, a->to->arena, local) &&
	       local->kind == CKPT_KIND_STRIDED;
}

static int add(struct ckpt_averager *a, const struct ckpt_tensor *t,
	       const struct ckpt_tensor *stored, struct ckpt_error *err)
{
	struct ckpt_averaged *grown =
		ckpt_grow(a->tensors, a->tensor_count, &a->tensor_cap, sizeof(*grown));
	bool there = false;
	char shown[160];

	if (!grown)
		return ckpt_fail_nomem(err);
	a->tensors = grown;
	if (t->name_is_cut ||
	    !ckpt_strmap_insert(&a->by_name, t->name, strlen(t->name), a->tensor_count, &there) ||
	    there) {
		if (!t->name_is_cut && !there)
			return ckpt_fail_nomem(err);
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "the name '%s' is %s",
				 ckpt_escape(shown, sizeof(shown), t->name, strlen(t->name)),
				 there ? "that of two tensors" : "too long to be found again");
	}
	grown = &a->tensors[a->tensor_count];
	*grown = (struct ckpt_averaged){ .name = t->name,
					 .storage = (uint32_t)stored->storage,
					 .number = a->tensor_count,
					 .offset = stored->offset };
	grown->stored = ckpt_arena_calloc(a->to->arena, a->count, sizeof(struct ckpt_tensor *));
	if (!grown->stored)
		return ckpt_arena_fail(a->to->arena, err);
	grown->stored[a->base] = stored;
	a->tensor_count++;
	return 0;
}

static int list_base(struct ckpt_averager *a, struct ckpt_error *err)
{
	const struct ckpt_model *base = a->models[a->base];
	int rc = 0;

	for (uint32_t k = 0; rc >= 0 && k < base->tensor_count; k++) {
		const struct ckpt_tensor *stored;

		rc = is_averaged(a, a->base, &base->tensors[k], &stored, err);
		if (rc > 0)
			rc = add(a, &base->tensors[k], stored, err);
	}
	if (rc >= 0 && !a->tensor_count)
		rc = ckpt_fail(err, CKPT_E_NOTFOUND, "no floating tensor%s to average",
			       a->only.count ? " has a name like that" : "");
	a->report.tensors_averaged = a->tensor_count;
	return ckpt_error_at(err, rc < 0 ? rc : 0, ckpt_document_path(base->doc), NULL,
			     CKPT_NO_OFFSET);
}

/* ---- the same of the others ---- */

static bool same_shape(const struct ckpt_tensor *x, const struct ckpt_tensor *y)
{
	return x->ndim == y->ndim &&
	       (!x->ndim || !memcmp(x->shape, y->shape, x->ndim * sizeof(*x->shape)));
}

static bool is_like(const struct ckpt_tensor *x, const struct ckpt_tensor *y)
{
	return x->kind == y->kind && x->dtype == y->dtype && x->is_conj == y->is_conj &&
	       x->is_neg == y->is_neg && same_shape(x, y);
}

struct unlike {
	uint64_t count;
	char text[MOST_TEXT]; /* of the first */
};

/* Tensor T of checkpoint I belongs to TENSOR, or to none. */
static int take_one(struct ckpt_averager *a, size_t i, const struct ckpt_tensor *t,
		    struct unlike *unlike, struct ckpt_error *err)
{
	const uint64_t *index =
		t->name_is_cut ? NULL : ckpt_strmap_find(&a->by_name, t->name, strlen(t->name));
	const struct ckpt_tensor *stored = NULL;
	struct ckpt_averaged *tensor = index ? &a->tensors[*index] : NULL;
	int rc = is_averaged(a, i, t, &stored, err);
	char path[100], name[120];

	if (rc < 0)
		return rc;
	if (!tensor && !rc)
		return 0; /* others.c compares it */
	if (tensor && rc && tensor->stored[i]) {
		ckpt_escape(name, sizeof(name), t->name, strlen(t->name));
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "the name '%s' is that of two tensors",
				 name);
	}
	if (tensor && !rc)
		stored = t; /* of a kind that is not averaged; told below */
	if (tensor)
		tensor->stored[i] = stored;
	if (tensor && is_like(tensor->stored[a->base], stored))
		return 0;
	if (unlike->count++)
		return 0;
	if (tensor) {
		struct ckpt_tensor mine = *tensor->stored[a->base], theirs = *stored;

		mine.name = theirs.name = tensor->name;
		tell_unlike(&mine, &theirs, ckpt_averager_path(a, a->base, path), unlike->text);
	} else {
		snprintf(unlike->text, sizeof(unlike->text), "'%s' is not in %s",
			 ckpt_escape(name, sizeof(name), t->name, strlen(t->name)),
			 ckpt_averager_path(a, a->base, path));
	}
	return 0;
}

static int match_one(struct ckpt_averager *a, size_t i, struct ckpt_error *err)
{
	const struct ckpt_model *model = a->models[i];
	struct unlike unlike = { 0 };
	char path[100], name[120];
	int rc = 0;

	for (uint32_t k = 0; rc == 0 && k < model->tensor_count; k++)
		rc = take_one(a, i, &model->tensors[k], &unlike, err);
	for (uint32_t k = 0; rc == 0 && k < a->tensor_count; k++)
		if (!a->tensors[k].stored[i] && !unlike.count++)
			snprintf(unlike.text, sizeof(unlike.text), "there is no '%s', as in %s",
				 ckpt_escape(name, sizeof(name), a->tensors[k].name,
					     strlen(a->tensors[k].name)),
				 ckpt_averager_path(a, a->base, path));
	if (rc == 0 && unlike.count)
		rc = ckpt_average_refuse(a, i, unlike.text, unlike.count, CKPT_REASON_NOT_ALIKE,
					 err);
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

int ckpt_average_match(struct ckpt_averager *a, struct ckpt_error *err)
{
	int rc = list_base(a, err);

	for (size_t i = 0; rc == 0 && i < a->count; i++)
		if (i != a->base)
			rc = match_one(a, i, err);
	return rc;
}
