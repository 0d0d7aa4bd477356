/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt stat --json': docs/json.md has the shape, which scripts count on. New values stand at the end
 * of their object.
 */
#include "json.h"
#include "stat.h"

#include <math.h>

/* An infinite number is a string, as everywhere; NaN is null. */
static json_t *real(double v)
{
	if (isnan(v))
		return json_null();
	return isinf(v) ? json_string(v < 0 ? "-inf" : "inf") : json_real(v);
}

static json_t *end_json(const struct ckpt_stat_values *v, bool max)
{
	int64_t n = max ? v->max_integer : v->min_integer;

	if (!v->is_integer)
		return real(max ? v->max : v->min);
	return v->is_unsigned ? json_u64((uint64_t)n) : json_integer(n);
}

static void set_values(json_t *o, const struct ckpt_stat_values *v)
{
	json_t *bins;

	json_object_set_new(o, "count", json_u64(v->count));
	json_object_set_new(o, "nan", json_u64(v->nans));
	json_object_set_new(o, "inf", json_u64(v->infinities));
	json_object_set_new(o, "zeros", json_u64(v->zeros));
	json_object_set_new(o, "min", end_json(v, false));
	json_object_set_new(o, "max", end_json(v, true));
	json_object_set_new(o, "mean", real(v->mean));
	json_object_set_new(o, "std", real(v->std));
	if (!v->bins)
		return;
	bins = json_object();
	json_object_set_new(bins, "low", real(v->low));
	json_object_set_new(bins, "high", real(v->high));
	json_object_set_new(bins, "counts", json_dims(v->bins, v->bin_count));
	json_object_set_new(o, "histogram", bins);
}

/* What came later stands at the end of an object. */
static void set_more_values(json_t *o, const struct ckpt_stat_values *v,
			    const struct stat_page *page)
{
	json_t *quantiles;

	json_object_set_new(o, "norm", real(v->norm));
	json_object_set_new(o, "absmax",
			    v->is_integer ? json_u64(v->absmax_integer) : real(v->absmax));
	if (!page->quantile_count)
		return;
	quantiles = json_array();
	for (size_t i = 0; i < page->quantile_count; i++) {
		json_t *one = json_object();

		json_object_set_new(one, "q", real(page->quantiles[i]));
		json_object_set_new(one, "value",
				    v->quantiles ? real(v->quantiles[i]) : json_null());
		json_array_append_new(quantiles, one);
	}
	json_object_set_new(o, "quantiles", quantiles);
}

static json_t *index_json(const struct ckpt_stat_item *item)
{
	uint64_t i = item->first_not_finite, at[64] = { 0 };

	for (uint32_t d = item->looked_ndim < 64 ? item->looked_ndim : 64; d-- > 0;
	     i /= item->looked_shape[d])
		at[d] = i % item->looked_shape[d];
	return json_dims(at, item->looked_ndim < 64 ? item->looked_ndim : 64);
}

static json_t *row_json(const struct stat_row *row, const struct stat_page *page)
{
	const struct ckpt_stat_item *item = &row->item;
	json_t *o = json_object();

	json_set_name(o, "name", item->name);
	json_object_set_new(o, "kind", json_string(item->kind));
	json_object_set_new(o, "dtype", json_string(item->dtype));
	json_object_set_new(o, "shape", json_dims(item->shape, item->ndim));
	json_set_name(o, "layout", item->layout);
	json_object_set_new(o, "nbytes", json_u64(item->nbytes));
	if (item->why_not) {
		json_object_set_new(o, "unreadable", json_boolean(item->unreadable));
		json_set_name(o, "why_not", item->why_not);
		return o;
	}
	if (item->is_magnitude)
		json_object_set_new(o, "magnitudes", json_true());
	json_object_set_new(o, "counted", json_boolean(item->counted));
	set_values(o, &row->values);
	if (item->first_not_finite != UINT64_MAX)
		json_object_set_new(o, "first_not_finite", index_json(item));
	set_more_values(o, &row->values, page);
	return o;
}

static json_t *total_json(const struct stat_page *page, uint64_t i)
{
	struct ckpt_stat_total total = CKPT_STAT_TOTAL_INIT;
	struct ckpt_stat_values values = CKPT_STAT_VALUES_INIT;
	json_t *o = json_object();

	ckpt_stat_total_get(page->stat, i, &total, &values);
	json_object_set_new(o, "dtype", total.dtype ? json_string(total.dtype) : json_null());
	json_object_set_new(o, "tensors", json_u64(total.items));
	set_values(o, &values);
	set_more_values(o, &values, page);
	return o;
}

static json_t *group_json(const struct stat_row *row, const struct stat_page *page)
{
	const struct ckpt_stat_item *item = &row->item;
	json_t *o = json_object();

	json_set_name(o, "name", item->name);
	json_object_set_new(o, "dtype", item->dtype ? json_string(item->dtype) : json_null());
	json_object_set_new(o, "tensors", json_u64(row->tensors));
	json_object_set_new(o, "unreadable", json_u64(row->unreadable));
	json_object_set_new(o, "nbytes", json_u64(item->nbytes));
	set_values(o, &row->values);
	set_more_values(o, &row->values, page);
	return o;
}

void stat_print_json(const struct stat_page *page, FILE *out)
{
	fprintf(out, "{\"ckpt_json\":%d,\"command\":\"stat\",\"tensors\":[", JSON_VERSION);
	for (uint64_t i = 0; i < page->count; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_put(out, row_json(&page->rows[i], page));
	}
	fputs("\n],\"totals\":[", out);
	for (uint64_t i = 0; i < ckpt_stat_total_count(page->stat); i++) {
		fputs(i ? ",\n" : "\n", out);
		json_put(out, total_json(page, i));
	}
	fprintf(out, "\n],\"not_finite\":%llu,\"unreadable\":%llu",
		(unsigned long long)page->not_finite, (unsigned long long)page->unreadable);
	for (uint64_t i = 0; page->groups && i < page->group_count; i++) {
		fputs(i ? ",\n" : ",\"groups\":[\n", out);
		json_put(out, group_json(&page->groups[i], page));
	}
	fputs(page->groups ? "\n]}\n" : "}\n", out);
}
