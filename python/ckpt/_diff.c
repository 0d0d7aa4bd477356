/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Model.diff(): ckpt_diff(), as a dict in the shape of `ckpt diff --json`; numbers that JSON lacks
 * are floats.
 *
 * What must stay true: `words` has the bits of enum ckpt_difference_what, lowest first, and `kinds`
 * the values of enum ckpt_difference_kind.
 */
#include "_ckpt.h"

#include <math.h>
#include <stdlib.h>

#define PUT_COUNT(dict, from, member) \
	ckpt_py_put(dict, #member, PyLong_FromUnsignedLongLong((from)->member))
#define PUT_REAL(dict, from, member) ckpt_py_put(dict, #member, PyFloat_FromDouble((from)->member))

static PyObject *side_of(const struct ckpt_diff_side *s)
{
	PyObject *dict = PyDict_New();

	ckpt_py_put(dict, "type", ckpt_py_string(s->type));
	if (!s->is_array) {
		ckpt_py_put(dict, "text", ckpt_py_string(s->text));
		return ckpt_py_finished(dict);
	}
	ckpt_py_put(dict, "dtype", ckpt_py_string(s->dtype));
	ckpt_py_put(dict, "shape", ckpt_py_numbers(s->shape, s->ndim));
	ckpt_py_put(dict, "device", ckpt_py_string(s->device));
	ckpt_py_put(dict, "layout", ckpt_py_string(s->layout));
	if (s->class_name)
		ckpt_py_put(dict, "class", ckpt_py_string(s->class_name));
	PUT_COUNT(dict, s, nbytes);
	return ckpt_py_finished(dict);
}

static PyObject *numbers_of(const struct ckpt_diff_numbers *n)
{
	PyObject *dict = PyDict_New();

	PUT_COUNT(dict, n, count);
	PUT_COUNT(dict, n, differing);
	PUT_COUNT(dict, n, outside);
	if (!n->has_numbers)
		return ckpt_py_finished(dict);
	PUT_COUNT(dict, n, other_bits);
	PUT_COUNT(dict, n, nan_appeared);
	PUT_COUNT(dict, n, nan_vanished);
	PUT_COUNT(dict, n, nan_both);
	PUT_COUNT(dict, n, inf_appeared);
	PUT_COUNT(dict, n, inf_vanished);
	PUT_REAL(dict, n, max_abs);
	PUT_REAL(dict, n, max_rel);
	PUT_REAL(dict, n, rms);
	PUT_REAL(dict, n, change);
	ckpt_py_put(dict, "cosine",
		    isnan(n->cosine) ? Py_NewRef(Py_None) : PyFloat_FromDouble(n->cosine));
	ckpt_py_put(dict, "max_ulp",
		    n->has_ulp ? PyLong_FromUnsignedLongLong(n->max_ulp) : Py_NewRef(Py_None));
	return ckpt_py_finished(dict);
}

static PyObject *what_of(unsigned what)
{
	static const char *const words[] = { "type",	"shape",     "dtype", "device",
					     "layout",	"quantizer", "value", "bits",
					     "strides", "class",     "order", "attributes",
					     "keys" };
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < sizeof(words) / sizeof(words[0]); i++)
		if (what >> i & 1)
			ckpt_py_append(&list, ckpt_py_string(words[i]));
	return list;
}

static PyObject *difference_of(const void *what)
{
	static const char *const kinds[] = { "removed", "added", "renamed", "changed",
					     "unreadable" };
	const struct ckpt_difference *f = what;
	const struct ckpt_diff_side *side = f->a ? f->a : f->b;
	PyObject *dict = PyDict_New();

	ckpt_py_put(dict, "kind", ckpt_py_string(kinds[f->kind]));
	ckpt_py_put(dict, "name", ckpt_py_string(f->name));
	if (f->other_name)
		ckpt_py_put(dict, "other_name", ckpt_py_string(f->other_name));
	ckpt_py_put(dict, "tensor",
		    PyBool_FromLong(side->is_array && (!f->a || !f->b || f->b->is_array)));
	if (f->what)
		ckpt_py_put(dict, "what", what_of(f->what));
	if (f->within)
		ckpt_py_put(dict, "within", ckpt_py_string(f->within));
	if (f->a)
		ckpt_py_put(dict, "a", side_of(f->a));
	if (f->b)
		ckpt_py_put(dict, "b", side_of(f->b));
	if (f->numbers)
		ckpt_py_put(dict, "numbers", numbers_of(f->numbers));
	if (f->kind == CKPT_DIFFERENCE_RENAMED)
		ckpt_py_put(dict, "by_checksum", PyBool_FromLong(f->by_checksum));
	if (f->text)
		ckpt_py_put(dict, "text", ckpt_py_string(f->text));
	if (f->of_optimizer)
		ckpt_py_put(dict, "optimizer", Py_NewRef(Py_True));
	if (f->is_counter)
		ckpt_py_put(dict, "counter", Py_NewRef(Py_True));
	return ckpt_py_finished(dict);
}

static int add_difference(void *ctx, const struct ckpt_difference *difference)
{
	return ckpt_py_work_add(ctx, difference_of, difference);
}

static PyObject *counts_of(const struct ckpt_diff_counts *c)
{
	PyObject *dict = PyDict_New();

	PUT_COUNT(dict, c, same);
	PUT_COUNT(dict, c, changed);
	PUT_COUNT(dict, c, removed);
	PUT_COUNT(dict, c, added);
	PUT_COUNT(dict, c, renamed);
	PUT_COUNT(dict, c, unreadable);
	return ckpt_py_finished(dict);
}

static PyObject *report_of(const struct ckpt_diff_report *r, bool quick)
{
	PyObject *dict = PyDict_New();

	ckpt_py_put(dict, "compared",
		    ckpt_py_string(quick	    ? "descriptions"
				   : r->by_checksum ? "checksums"
						    : "bytes"));
	PUT_COUNT(dict, r, by_checksum);
	PUT_COUNT(dict, r, by_checksum_nbytes);
	PUT_COUNT(dict, r, read_nbytes);
	PUT_COUNT(dict, r, other_bits);
	PUT_COUNT(dict, r, tolerated);
	PUT_COUNT(dict, r, other_keys);
	if (r->prefixed) {
		ckpt_py_put(dict, "prefixed", ckpt_py_string(r->prefixed == 'a' ? "a" : "b"));
		ckpt_py_put(dict, "prefix", ckpt_py_string(r->prefix));
		PUT_COUNT(dict, r, prefix_count);
	}
	return ckpt_py_finished(dict);
}

static PyObject *all_of(const struct ckpt_diff_report *r, PyObject *list, unsigned flags)
{
	PyObject *dict = PyDict_New();
	bool unreadable = r->tensors.unreadable || r->values.unreadable;

	ckpt_py_put(dict, "differences", Py_NewRef(list));
	ckpt_py_put(dict, "verdict",
		    ckpt_py_string(unreadable ? "unreadable"
				   : r->same  ? "same"
					      : "different"));
	ckpt_py_put(dict, "tensors", counts_of(&r->tensors));
	ckpt_py_put(dict, "values", counts_of(&r->values));
	ckpt_py_put(dict, "report", report_of(r, flags & CKPT_DIFF_QUICK));
	return ckpt_py_finished(dict);
}

static PyObject *diff(struct model *self, const struct ckpt_model *a, const struct ckpt_model *b,
		      struct ckpt_diff_options *options, PyObject *progress)
{
	struct ckpt_diff_report report = CKPT_DIFF_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *result = NULL;
	struct work work;
	int rc;

	if (!ckpt_py_work_begin(&work, progress))
		return NULL;
	options->progress = ckpt_py_work_progress;
	options->progress_ctx = &work;
	options->cancel = &work.cancel;
	rc = ckpt_diff(a, b, options, add_difference, &work, &report, &err);
	ckpt_py_work_end(&work);
	if (rc < 0 || PyErr_Occurred())
		ckpt_py_raise_for_one_of(self, &err, rc);
	else
		result = all_of(&report, work.list, options->flags);
	Py_DECREF(work.list);
	return result;
}

PyObject *ckpt_py_diff(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object, *other;
	struct ckpt_diff_options options = CKPT_DIFF_OPTIONS_INIT;
	struct words keep = { NULL, 0, NULL }, drop = { NULL, 0, NULL };
	PyObject *given, *keep_list, *drop_list, *progress, *result = NULL;
	struct ckpt_model *a, *b;
	unsigned order, threads;

	if (!PyArg_ParseTuple(args, "OIOOddIO&O", &given, &options.flags, &keep_list, &drop_list,
			      &options.rtol, &options.atol, &order, ckpt_py_take_unsigned, &threads, &progress))
		return NULL;
	if (Py_TYPE(given) != STATE(self)->model) {
		PyErr_SetString(PyExc_TypeError, "a Model is compared with a Model");
		return NULL;
	}
	options.order = order;
	options.threads = threads;
	other = (struct model *)given;
	a = ckpt_py_model_use(self);
	b = a ? ckpt_py_model_use(other) : NULL;
	if (b && ckpt_py_words_take(keep_list, 0, &keep) &&
	    ckpt_py_words_take(drop_list, 0, &drop)) {
		options.keep = keep.count ? keep.items : NULL;
		options.keep_count = keep.count;
		options.drop = drop.count ? drop.items : NULL;
		options.drop_count = drop.count;
		result = diff(self, a, b, &options, progress);
	}
	ckpt_py_words_clear(&keep);
	ckpt_py_words_clear(&drop);
	if (b)
		ckpt_py_model_drop(other);
	if (a)
		ckpt_py_model_drop(self);
	return result;
}
