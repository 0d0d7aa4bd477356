/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Model.stat(): statistics of the values of tensors (<ckpt/stat.h>) as a dict in the shape of
 * `ckpt stat --json`, in the order of the file; numbers that JSON lacks are floats.
 */
#include "_ckpt.h"

#include <math.h>
#include <stdlib.h>

struct wanted {
	double quantiles[32];
	size_t count;
};

static PyObject *real_of(double v)
{
	return isnan(v) ? Py_NewRef(Py_None) : PyFloat_FromDouble(v);
}

static PyObject *end_of(const struct ckpt_stat_values *v, bool max)
{
	int64_t n = max ? v->max_integer : v->min_integer;

	if (!v->is_integer)
		return real_of(max ? v->max : v->min);
	return v->is_unsigned ? PyLong_FromUnsignedLongLong((uint64_t)n) : PyLong_FromLongLong(n);
}

static PyObject *quantiles_of(const struct ckpt_stat_values *v, const struct wanted *wanted)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < wanted->count; i++)
		ckpt_py_append(&list, Py_BuildValue("{s:d,s:N}", "q", wanted->quantiles[i], "value",
						    v->quantiles ? real_of(v->quantiles[i])
								 : Py_NewRef(Py_None)));
	return list;
}

static void put_values(PyObject *dict, const struct ckpt_stat_values *v,
		       const struct wanted *wanted)
{
	ckpt_py_put(dict, "count", PyLong_FromUnsignedLongLong(v->count));
	ckpt_py_put(dict, "nan", PyLong_FromUnsignedLongLong(v->nans));
	ckpt_py_put(dict, "inf", PyLong_FromUnsignedLongLong(v->infinities));
	ckpt_py_put(dict, "zeros", PyLong_FromUnsignedLongLong(v->zeros));
	ckpt_py_put(dict, "min", end_of(v, false));
	ckpt_py_put(dict, "max", end_of(v, true));
	ckpt_py_put(dict, "mean", real_of(v->mean));
	ckpt_py_put(dict, "std", real_of(v->std));
	if (v->bins)
		ckpt_py_put(dict, "histogram",
			    Py_BuildValue("{s:d,s:d,s:N}", "low", v->low, "high", v->high, "counts",
					  ckpt_py_numbers(v->bins, v->bin_count)));
	ckpt_py_put(dict, "norm", real_of(v->norm));
	ckpt_py_put(dict, "absmax",
		    v->is_integer ? PyLong_FromUnsignedLongLong(v->absmax_integer)
				  : real_of(v->absmax));
	if (wanted->count)
		ckpt_py_put(dict, "quantiles", quantiles_of(v, wanted));
}

static PyObject *index_of(const struct ckpt_stat_item *item)
{
	uint64_t i = item->first_not_finite, at[64] = { 0 };
	uint32_t ndim = item->looked_ndim < 64 ? item->looked_ndim : 64;

	for (uint32_t d = ndim; d-- > 0; i /= item->looked_shape[d])
		at[d] = i % item->looked_shape[d];
	return ckpt_py_numbers(at, ndim);
}

static PyObject *item_of(const struct ckpt_stat *stat, uint64_t i, const struct wanted *wanted)
{
	struct ckpt_stat_item item = CKPT_STAT_ITEM_INIT;
	struct ckpt_stat_values values = CKPT_STAT_VALUES_INIT;
	PyObject *dict = PyDict_New();

	ckpt_stat_get(stat, i, &item, &values);
	ckpt_py_put(dict, "name", ckpt_py_string(item.name));
	ckpt_py_put(dict, "kind", ckpt_py_string(item.kind));
	ckpt_py_put(dict, "dtype", ckpt_py_string(item.dtype));
	ckpt_py_put(dict, "shape", ckpt_py_numbers(item.shape, item.ndim));
	ckpt_py_put(dict, "layout", ckpt_py_string(item.layout));
	ckpt_py_put(dict, "nbytes", PyLong_FromUnsignedLongLong(item.nbytes));
	if (item.why_not) {
		ckpt_py_put(dict, "unreadable", PyBool_FromLong(item.unreadable));
		ckpt_py_put(dict, "why_not", ckpt_py_string(item.why_not));
		return ckpt_py_finished(dict);
	}
	if (item.is_magnitude)
		ckpt_py_put(dict, "magnitudes", Py_NewRef(Py_True));
	ckpt_py_put(dict, "counted", PyBool_FromLong(item.counted));
	put_values(dict, &values, wanted);
	if (item.first_not_finite != UINT64_MAX)
		ckpt_py_put(dict, "first_not_finite", index_of(&item));
	return ckpt_py_finished(dict);
}

static PyObject *total_of(const struct ckpt_stat *stat, uint64_t i, const struct wanted *wanted)
{
	struct ckpt_stat_total total = CKPT_STAT_TOTAL_INIT;
	struct ckpt_stat_values values = CKPT_STAT_VALUES_INIT;
	PyObject *dict = PyDict_New();

	ckpt_stat_total_get(stat, i, &total, &values);
	ckpt_py_put(dict, "dtype", total.dtype ? ckpt_py_string(total.dtype) : Py_NewRef(Py_None));
	ckpt_py_put(dict, "tensors", PyLong_FromUnsignedLongLong(total.items));
	put_values(dict, &values, wanted);
	return ckpt_py_finished(dict);
}

static PyObject *group_of(const struct ckpt_stat *stat, uint64_t i, const struct wanted *wanted)
{
	struct ckpt_stat_group group = CKPT_STAT_GROUP_INIT;
	struct ckpt_stat_values values = CKPT_STAT_VALUES_INIT;
	PyObject *dict = PyDict_New();

	ckpt_stat_group_get(stat, i, &group, &values);
	ckpt_py_put(dict, "name", ckpt_py_string(group.name));
	ckpt_py_put(dict, "dtype", group.dtype ? ckpt_py_string(group.dtype) : Py_NewRef(Py_None));
	ckpt_py_put(dict, "tensors", PyLong_FromUnsignedLongLong(group.items));
	ckpt_py_put(dict, "unreadable", PyLong_FromUnsignedLongLong(group.unreadable));
	ckpt_py_put(dict, "nbytes", PyLong_FromUnsignedLongLong(group.nbytes));
	put_values(dict, &values, wanted);
	return ckpt_py_finished(dict);
}

static PyObject *list_of(const struct ckpt_stat *stat, uint64_t count, const struct wanted *wanted,
			 PyObject *(*make)(const struct ckpt_stat *stat, uint64_t i,
					   const struct wanted *wanted))
{
	PyObject *list = PyList_New(0);

	for (uint64_t i = 0; list && i < count; i++)
		ckpt_py_append(&list, make(stat, i, wanted));
	return list;
}

static PyObject *all_of(const struct ckpt_stat *stat, const struct wanted *wanted, bool groups)
{
	PyObject *dict = PyDict_New();
	uint64_t not_finite = 0, unreadable = 0;

	for (uint64_t i = 0; i < ckpt_stat_count(stat); i++) {
		struct ckpt_stat_item item = CKPT_STAT_ITEM_INIT;

		ckpt_stat_get(stat, i, &item, NULL);
		not_finite += !item.why_not && item.first_not_finite != UINT64_MAX;
		unreadable += item.unreadable;
	}
	ckpt_py_put(dict, "tensors", list_of(stat, ckpt_stat_count(stat), wanted, item_of));
	ckpt_py_put(dict, "totals", list_of(stat, ckpt_stat_total_count(stat), wanted, total_of));
	ckpt_py_put(dict, "not_finite", PyLong_FromUnsignedLongLong(not_finite));
	ckpt_py_put(dict, "unreadable", PyLong_FromUnsignedLongLong(unreadable));
	if (groups)
		ckpt_py_put(dict, "groups",
			    list_of(stat, ckpt_stat_group_count(stat), wanted, group_of));
	return ckpt_py_finished(dict);
}

static bool take_quantiles(PyObject *list, struct wanted *wanted)
{
	Py_ssize_t count = PySequence_Size(list);

	if (count > (Py_ssize_t)(sizeof(wanted->quantiles) / sizeof(wanted->quantiles[0])))
		PyErr_SetString(PyExc_ValueError, "wanted at most 32 quantiles");
	for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
		PyObject *item = PySequence_GetItem(list, i);

		wanted->quantiles[i] = item ? PyFloat_AsDouble(item) : 0;
		Py_XDECREF(item);
	}
	wanted->count = count < 0 ? 0 : (size_t)count;
	return !PyErr_Occurred();
}

PyObject *ckpt_py_stat(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object;
	struct ckpt_stat_options options = CKPT_STAT_OPTIONS_INIT;
	struct words patterns = { NULL, 0, NULL };
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *names, *quantiles, *progress, *result = NULL;
	struct wanted wanted = { .count = 0 };
	struct ckpt_stat *stat = NULL;
	struct ckpt_model *model;
	unsigned long long depth;
	unsigned bins, threads;
	struct work work;
	int rc;

	if (!PyArg_ParseTuple(args, "OO&OKO&O", &names, ckpt_py_take_unsigned, &bins, &quantiles, &depth, ckpt_py_take_unsigned, &threads,
			      &progress) ||
	    !take_quantiles(quantiles, &wanted))
		return NULL;
	model = ckpt_py_model_use(self);
	if (model && ckpt_py_words_take(names, 0, &patterns) &&
	    ckpt_py_work_begin(&work, progress)) {
		options.patterns = patterns.count ? patterns.items : NULL;
		options.pattern_count = patterns.count;
		options.bins = bins;
		options.threads = threads;
		options.depth = depth;
		options.quantiles = wanted.count ? wanted.quantiles : NULL;
		options.quantile_count = wanted.count;
		options.progress = ckpt_py_work_progress;
		options.progress_ctx = &work;
		options.cancel = &work.cancel;
		rc = ckpt_stat_new(model, &options, &stat, &err);
		ckpt_py_work_end(&work);
		if (rc < 0 || PyErr_Occurred())
			ckpt_py_raise_for(self, &err, rc);
		else
			result = all_of(stat, &wanted, depth > 0);
		ckpt_stat_free(stat);
		Py_DECREF(work.list);
	}
	ckpt_py_words_clear(&patterns);
	if (model)
		ckpt_py_model_drop(self);
	return result;
}
