/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How weights are quantized. The configuration, or the caller, says the format; without either names, dtypes and shapes decide,
 * if they fit one format only. A model may also have tensors that say on their own how they are quantized.
 */
#include "quant/fill.h"
#include "quant/find.h"

#include "base/flags.h"
#include "base/sized.h"
#include "base/text.h"
#include "tensor/shape.h"

#include <stdlib.h>
#include <string.h>

static const struct ckpt_quant_format *find_format(const char *name)
{
	for (size_t i = 0; i < ckpt_quant_format_count; i++)
		if (!strcmp(ckpt_quant_formats[i].name, name))
			return &ckpt_quant_formats[i];
	return NULL;
}

/* Tensors that the format which was tried last takes for parts. */
static uint32_t count_parts(const struct ckpt_quant *q)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < q->group_count; i++)
		for (size_t role = 0; role < sizeof(q->groups[i]->parts) / sizeof(q->groups[i]->parts[0]); role++)
			count += q->groups[i]->parts[role].entry != NULL;
	return count;
}

/* Nothing says the format: one that fits, and no other does. If none does, the error is of the one that has most parts. */
static int guess_none(struct ckpt_quant *q, struct ckpt_error *err)
{
	const struct ckpt_quant_format *fits = NULL;
	struct ckpt_error why = { 0 };
	int rc, failed = 0;
	uint32_t most = 0;

	for (size_t i = 0; i < ckpt_quant_format_count; i++) {
		struct ckpt_error now = { 0 };

		rc = ckpt_quant_try(q, &ckpt_quant_formats[i], &now);
		if (rc == CKPT_E_NOMEM || rc == CKPT_E_IO)
			return ckpt_error_pass(err, rc, &now);
		if (rc < 0 && (!failed || count_parts(q) > most)) {
			most = count_parts(q);
			why = now;
			failed = rc;
		}
		if (rc < 0 || !q->group_count)
			continue;
		if (fits)
			return ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"'%.200s' can be read as %s or as %s, and there is no config.json that says which",
				q->groups[0]->name, fits->name, ckpt_quant_formats[i].name);
		fits = &ckpt_quant_formats[i];
	}
	if (fits)
		return ckpt_quant_try(q, fits, err);
	if (failed)
		return ckpt_error_pass(err, failed, &why);
	return ckpt_fail(err, CKPT_E_NOTFOUND,
			 "no weight is quantized, as far as names and dtypes tell");
}

/* What `as` may also be: a format, with the arithmetic of a release. */
static const struct {
	const char *as, *format;
	enum ckpt_quant_release release;
} releases[] = {
	{ "torchao_0.17", "torchao", CKPT_QUANT_RELEASE_TORCHAO_0_17 },
	{ "auto_gptq_0.6", "gptq", CKPT_QUANT_RELEASE_AUTO_GPTQ_0_6 },
};

static int choose(struct ckpt_quant *q, const char *as, struct ckpt_error *err)
{
	const char *name = as ? as : q->config.says ? q->config.format : NULL;
	const struct ckpt_quant_format *format;
	int rc;
	char shown[100];

	for (size_t i = 0; as && i < sizeof(releases) / sizeof(releases[0]); i++)
		if (!strcmp(as, releases[i].as)) {
			q->release = releases[i].release;
			name = releases[i].format;
		}
	format = name ? find_format(name) : NULL;
	if (!name)
		return guess_none(q, err);
	if (!format && as)
		return ckpt_fail(err, CKPT_E_ARG, "there is no format of quantized weights '%s'",
				 ckpt_escape(shown, sizeof(shown), as, strlen(as)));
	if (!format)
		return ckpt_error_at(
			err,
			ckpt_fail(err, CKPT_E_UNSUPPORTED,
				  "the weights are quantized by '%s', which ckpt does not know",
				  q->config.method),
			q->config.path, NULL, CKPT_NO_OFFSET);
	rc = ckpt_quant_try(q, format, err);
	if (rc == 0 && !q->group_count)
		rc = ckpt_fail(err, CKPT_E_NOTFOUND, "no weight is quantized as %s has it",
			       format->name);
	return rc;
}

/* Weights of parts, and tensors that are quantized on their own: either may be all that there is. */
int ckpt_quant_choose(struct ckpt_quant *q, const char *as, struct ckpt_error *err)
{
	struct ckpt_error why = { 0 };
	int found = choose(q, as, &why), rc;

	if (found < 0 && found != CKPT_E_NOTFOUND)
		return ckpt_error_pass(err, found, &why);
	rc = ckpt_quant_check_others(q, err);
	if (rc == 0 && found < 0 && q->config.says && !as)
		rc = ckpt_quant_check_left_over(q, err);
	if (rc == 0 && (found == 0 || q->config.says || as || !q->parts_only))
		rc = ckpt_quant_check_called_codes(q, err);
	if (rc == 0 && (found == 0 || q->config.says || as || !q->parts_only))
		rc = ckpt_quant_check_orphans(q, err);
	if (rc < 0)
		return rc;
	if (found == 0 && !as) {
		rc = ckpt_quant_check_modules(q, err);
		if (rc < 0)
			return rc;
	}
	if (found < 0)
		q->group_count = q->dropped_count = q->stale_count = 0;
	if (q->parts_only)
		return ckpt_error_pass(err, found, &why);
	rc = ckpt_quant_add_tensors(q, err);
	if (rc == 0 && !q->group_count)
		return ckpt_error_pass(err, found, &why);
	if (rc == 0 && found < 0)
		q->format = find_format(q->has_wrappers ? "torchao"
					: q->has_engine ? "transformer-engine"
							: "torch");
	return rc;
}

int ckpt_quant_find_config(const struct ckpt_model *model, const char *as,
		       struct ckpt_quant_config *out, struct ckpt_error *err)
{
	struct ckpt_error why = { 0 };
	int rc = ckpt_quant_config_find(model, out, &why);

	out->is_overruled = as;
	if (rc < 0 && as && rc != CKPT_E_NOMEM)
		return 0;
	return ckpt_error_pass(err, rc, &why);
}

int ckpt_quant_new(const struct ckpt_model *model, enum ckpt_dtype to, struct ckpt_quant **out,
		      struct ckpt_error *err)
{
	struct ckpt_quant *q = calloc(1, sizeof(*q));

	if (q)
		q->arena = ckpt_arena_new(CKPT_MODEL_BUDGET_BASE + 8192 * (uint64_t)model->next_id);
	if (!q || !q->arena) {
		free(q);
		return ckpt_fail_nomem(err);
	}
	q->model = model;
	q->to = to;
	*out = q;
	return 0;
}

int ckpt_quant_find(const struct ckpt_model *model, const struct ckpt_quant_options *options,
		    enum ckpt_dtype to, struct ckpt_quant **out, struct ckpt_error *err)
{
	struct ckpt_quant_options o = CKPT_QUANT_OPTIONS_INIT;
	struct ckpt_quant *q = NULL;
	int rc = ckpt_sized_take(&o, sizeof(o), options, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_flags_check(o.flags, 0, err);
	if (rc == 0)
		rc = ckpt_unused_check(&o.reserved, sizeof(o.reserved), err);
	if (rc == 0)
		rc = ckpt_model_whole(&model, err);
	if (rc == 0)
		rc = ckpt_quant_new(model, to, &q, err);
	if (rc < 0)
		return rc;
	if (o.config) {
		rc = ckpt_quant_config_parse(o.config, o.config_len, &q->config, err);
		q->config.is_overruled = o.as;
	} else {
		rc = ckpt_quant_find_config(model, o.as, &q->config, err);
	}
	if (rc == 0)
		rc = ckpt_quant_collect(q, o.as || q->config.says, err);
	if (rc == 0)
		rc = ckpt_quant_choose(q, o.as, err);
	if (rc < 0)
		ckpt_quant_close(q);
	else
		*out = q;
	return rc;
}

int ckpt_quant_open(const struct ckpt_model *model, const struct ckpt_quant_options *options,
		    struct ckpt_quant **out, struct ckpt_error *err)
{
	return ckpt_quant_find(model, options, CKPT_DTYPE_BFLOAT16, out, err);
}

void ckpt_quant_close(struct ckpt_quant *q)
{
	if (!q)
		return;
	ckpt_quant_config_clear(&q->config);
	ckpt_arena_free(q->arena);
	for (uint32_t i = 0; i < q->array_count; i++)
		ckpt_array_close(q->arrays[i]);
	free(q->arrays);
	free(q->entries);
	free(q->groups);
	ckpt_strmap_clear(&q->metadata);
	free(q->dropped);
	free(q);
}

const char *ckpt_quant_format(const struct ckpt_quant *q)
{
	return q->format->name;
}

uint64_t ckpt_quant_count(const struct ckpt_quant *q)
{
	return q->group_count;
}

int ckpt_quant_get(const struct ckpt_quant *q, uint64_t i, struct ckpt_quant_weight_info *info)
{
	const struct ckpt_quant_group *g;
	struct ckpt_quant_weight_info local;

	if (i >= q->group_count || ckpt_sized_check(info, sizeof(local), NULL) < 0)
		return CKPT_E_ARG;
	g = q->groups[i];
	local = (struct ckpt_quant_weight_info){
		.size = sizeof(local),
		.name = g->name,
		.scheme = g->scheme,
		.shape = g->shape,
		.ndim = g->ndim,
		.numel = ckpt_shape_count(g->shape, g->ndim),
		.items = g->listed  ? g->listed
			 : g->whole ? g->whole->name
				    : ckpt_quant_tensor(g, CKPT_PART_ITEMS)->name
	};

	for (int r = 0; r < CKPT_PART_ROLES; r++)
		if (g->parts[r].entry) {
			const struct ckpt_tensor *t = g->parts[r].entry->t;
			uint64_t packed = ckpt_dtype_packed(t->dtype),
				 numel = ckpt_shape_count(t->shape, t->ndim);

			local.parts++;
			local.nbytes += (numel / packed + (numel % packed != 0)) *
					ckpt_dtype_size(t->dtype);
		}
	if (g->whole && !g->listed) /* its parts are inside of it */
		local.parts = 1;
	ckpt_sized_give(info, &local, sizeof(local));
	return 0;
}

uint64_t ckpt_quant_dropped_count(const struct ckpt_quant *q)
{
	return q->dropped_count;
}

const char *ckpt_quant_dropped(const struct ckpt_quant *q, uint64_t i)
{
	return q->dropped[i];
}
