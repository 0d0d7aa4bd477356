/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Model.edit(): the edits of <ckpt/edit.h> by name, each of which gives a new Model and a report.
 *
 * All take the same four things, of which a row of the table `kinds` says what they mean. Texts are
 * borrowed from lists that live until the library has returned.
 */
#include "_ckpt.h"

#include <stdlib.h>
#include <string.h>

struct edit {
	const struct ckpt_model *in;
	const struct words *texts, *others;
	unsigned flags;
	struct ckpt_name_pair
		*pairs; /* rename_map; freed by the caller, after the report is read */
	struct ckpt_edit_report *report;
	struct ckpt_error *err;
};

static struct ckpt_key_options keys_of(const struct edit *e)
{
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;

	options.flags = e->flags;
	options.at = e->others->count ? e->others->items : NULL;
	options.at_count = e->others->count;
	return options;
}

static int strip_prefix(const struct edit *e, struct ckpt_model **out)
{
	const struct ckpt_key_options options = keys_of(e);

	return ckpt_strip_prefix(e->in, e->texts->items[0], &options, out, e->report, e->err);
}

static int strip_wrappers(const struct edit *e, struct ckpt_model **out)
{
	const struct ckpt_key_options options = keys_of(e);

	return ckpt_strip_wrappers(e->in, &options, out, e->report, e->err);
}

static int add_prefix(const struct edit *e, struct ckpt_model **out)
{
	const struct ckpt_key_options options = keys_of(e);

	return ckpt_add_prefix(e->in, e->texts->items[0], &options, out, e->report, e->err);
}

static int rename_keys(const struct edit *e, struct ckpt_model **out)
{
	const struct ckpt_key_options options = keys_of(e);

	return ckpt_rename(e->in, e->texts->items, e->texts->count, &options, out, e->report,
			   e->err);
}

static int rename_map(const struct edit *e, struct ckpt_model **out)
{
	const struct ckpt_key_options options = keys_of(e);
	size_t count = e->texts->count / 2;

	for (size_t i = 0; i < count; i++) {
		e->pairs[i].from = e->texts->items[2 * i];
		e->pairs[i].to = e->texts->items[2 * i + 1];
	}
	return ckpt_rename_map(e->in, e->pairs, count, &options, out, e->report, e->err);
}

static int remap(const struct edit *e, struct ckpt_model **out)
{
	struct ckpt_remap_options options = CKPT_REMAP_OPTIONS_INIT;
	size_t count = e->texts->count / 2;
	struct ckpt_device_map *maps = calloc(count + 1, sizeof(*maps));
	int rc;

	if (!maps)
		return CKPT_E_NOMEM;
	for (size_t i = 0; i < count; i++)
		maps[i] = (struct ckpt_device_map){ e->texts->items[2 * i],
						    e->texts->items[2 * i + 1] };
	options.flags = e->flags;
	rc = ckpt_remap(e->in, maps, count, &options, out, e->report, e->err);
	free(maps);
	return rc;
}

static int extract(const struct edit *e, struct ckpt_model **out)
{
	return ckpt_extract(e->in, e->texts->items[0], out, e->report, e->err);
}

static int take_state_dict(const struct edit *e, struct ckpt_model **out)
{
	struct ckpt_take_options options = CKPT_TAKE_OPTIONS_INIT;

	options.at = e->texts->items[0];
	return ckpt_state_dict(e->in, &options, out, e->report, e->err);
}

static int take_weights(const struct edit *e, struct ckpt_model **out)
{
	struct ckpt_take_options options = CKPT_TAKE_OPTIONS_INIT;

	options.at = e->texts->items[0];
	return ckpt_take_weights(e->in, &options, out, e->report, e->err);
}

static int select_names(const struct edit *e, struct ckpt_model **out)
{
	return ckpt_select(e->in, e->texts->items, e->texts->count, e->others->items,
			   e->others->count, out, e->report, e->err);
}

static int set(const struct edit *e, struct ckpt_model **out)
{
	return ckpt_set(e->in, e->texts->items[0], e->texts->items[1], e->flags, out, e->report,
			e->err);
}

/* The texts are `as`, which may be NULL, the dtype, and what is cast. */
static int cast(const struct edit *e, struct ckpt_model **out)
{
	struct ckpt_cast_options options = CKPT_CAST_OPTIONS_INIT;

	options.flags = e->flags;
	options.as = e->texts->items[0];
	options.only = e->texts->count > 2 ? e->texts->items + 2 : NULL;
	options.only_count = e->texts->count - 2;
	options.except = e->others->count ? e->others->items : NULL;
	options.except_count = e->others->count;
	return ckpt_cast(e->in, e->texts->items[1], &options, out, e->report, e->err);
}

/* The texts are `as` and the configuration, of which each may be NULL, and the dtype. */
static int dequantize(const struct edit *e, struct ckpt_model **out)
{
	const struct ckpt_quant_options options = ckpt_py_quant_options(e->texts);

	return ckpt_dequantize(e->in, e->texts->items[2], &options, out, e->report, e->err);
}

static int compact(const struct edit *e, struct ckpt_model **out)
{
	return ckpt_compact(e->in, out, e->report, e->err);
}

static int sanitize(const struct edit *e, struct ckpt_model **out)
{
	return ckpt_sanitize(e->in, out, e->report, e->err);
}

static int number_keys(const struct edit *e, struct ckpt_model **out)
{
	return ckpt_number_keys(e->in, out, e->report, e->err);
}

/* FEWEST: texts; NONE: up to how many of them may be None, from the first on. */
static const struct {
	const char *name;
	size_t fewest, none;
	int (*apply)(const struct edit *e, struct ckpt_model **out);
} kinds[] = {
	{ "strip_prefix", 1, 0, strip_prefix },
	{ "strip_wrappers", 0, 0, strip_wrappers },
	{ "add_prefix", 1, 0, add_prefix },
	{ "rename", 0, 0, rename_keys },
	{ "rename_map", 0, 0, rename_map },
	{ "remap", 2, 1, remap },
	{ "extract", 1, 0, extract },
	{ "state_dict", 1, 1, take_state_dict },
	{ "weights", 1, 1, take_weights },
	{ "select", 0, 0, select_names },
	{ "set", 2, 0, set },
	{ "cast", 2, 1, cast },
	{ "dequantize", 3, 2, dequantize },
	{ "compact", 0, 0, compact },
	{ "sanitize", 0, 0, sanitize },
	{ "number_keys", 0, 0, number_keys },
};

static PyObject *text_or_none(const char *text)
{
	return text ? ckpt_py_text(text, strlen(text)) : Py_NewRef(Py_None);
}

static bool append(PyObject *list, PyObject *item)
{
	bool fine = list && item && PyList_Append(list, item) == 0;

	Py_XDECREF(item);
	return fine;
}

PyObject *ckpt_py_edit_report(const struct ckpt_edit_report *r)
{
	PyObject *places = PyList_New(0), *changes = PyList_New(0), *unused = PyList_New(0);
	bool fine = places && changes && unused;

	for (size_t i = 0; fine && i < r->place_count; i++)
		fine = append(places,
			      Py_BuildValue("{s:N,s:K}", "name", text_or_none(r->places[i].name),
					    "renamed", (unsigned long long)r->places[i].renamed));
	for (size_t i = 0; fine && i < r->change_count; i++)
		fine = append(changes, Py_BuildValue("{s:N,s:N,s:N}", "name",
						     text_or_none(r->changes[i].name), "was",
						     text_or_none(r->changes[i].was), "is",
						     text_or_none(r->changes[i].is)));
	for (size_t i = 0; fine && i < r->unused_count; i++)
		fine = append(unused, text_or_none(r->unused[i]));
	if (!fine) {
		Py_XDECREF(places);
		Py_XDECREF(changes);
		Py_XDECREF(unused);
		return NULL;
	}
#define COUNT(member) #member, (unsigned long long)r->member
	return Py_BuildValue(
		"{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,"
		"s:N,s:N,s:N,s:N,s:N,s:N}",
		COUNT(renamed), COUNT(metadata_renamed), COUNT(names_renamed), COUNT(state_dicts),
		COUNT(storages_moved), COUNT(devices_moved), COUNT(entries_dropped),
		COUNT(tensors_dropped), COUNT(tensors_cast), COUNT(storages_cast),
		COUNT(cast_nbytes_before), COUNT(cast_nbytes_after), COUNT(tensors_left),
		COUNT(tensors_compacted), COUNT(storages_made), COUNT(compacted_nbytes_before),
		COUNT(compacted_nbytes_after), COUNT(tensors_taken), COUNT(modules_guessed),
		COUNT(optimizer_left), COUNT(scalars_left), COUNT(optimizer_averaged),
		COUNT(tensors_dequantized), COUNT(scales_dropped), COUNT(quantized_left), "extracted",
		PyBool_FromLong(r->extracted), "protocol_changed",
		PyBool_FromLong(r->protocol_changed), "unmatched", text_or_none(r->unmatched),
		"places", places, "changes", changes, "unused", unused);
#undef COUNT
}

/* Run kind K. Returns (Model, report). */
static PyObject *apply(struct model *self, size_t k, struct edit *e)
{
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *dict;
	struct model *out = ckpt_py_model_new(STATE(self), self);
	int rc;

	if (!out)
		return NULL;
	e->report = &report;
	e->err = &err;
	Py_BEGIN_ALLOW_THREADS rc = kinds[k].apply(e, &out->model);
	Py_END_ALLOW_THREADS if (rc < 0)
	{
		Py_DECREF(out);
		return ckpt_py_raise_for(self, &err, rc);
	}
	dict = ckpt_py_edit_report(&report);
	if (!dict) {
		Py_DECREF(out);
		return NULL;
	}
	return Py_BuildValue("(NN)", out, dict);
}

PyObject *ckpt_py_edit(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object;
	struct words texts = { NULL, 0, NULL }, others = { NULL, 0, NULL };
	struct edit e = { .texts = &texts, .others = &others };
	PyObject *first, *second, *result = NULL;
	const char *name;
	size_t k = 0, count = sizeof(kinds) / sizeof(kinds[0]);

	if (!PyArg_ParseTuple(args, "sOOI", &name, &first, &second, &e.flags))
		return NULL;
	while (k < count && strcmp(kinds[k].name, name) != 0)
		k++;
	if (k == count) {
		PyErr_Format(PyExc_ValueError, "there is no edit '%s'", name);
		return NULL;
	}
	if (ckpt_py_words_take(first, kinds[k].none, &texts) &&
	    ckpt_py_words_take(second, 0, &others)) {
		e.pairs = calloc(texts.count + 1, sizeof(*e.pairs));
		if (!e.pairs)
			PyErr_NoMemory();
		else if (texts.count < kinds[k].fewest)
			PyErr_Format(PyExc_ValueError, "edit '%s' needs %zu texts", name,
				     kinds[k].fewest);
		else
			e.in = ckpt_py_model_use(self);
		if (e.in) {
			result = apply(self, k, &e);
			ckpt_py_model_drop(self);
		}
		free(e.pairs);
	}
	ckpt_py_words_clear(&texts);
	ckpt_py_words_clear(&others);
	return result;
}

static PyObject *loss_dict(const struct ckpt_cast_loss *loss)
{
	return Py_BuildValue("{s:K,s:d,s:N,s:N}", "count", (unsigned long long)loss->count, "first",
			     loss->first, "dtype", text_or_none(loss->dtype), "place",
			     ckpt_py_text(loss->place, strlen(loss->place)));
}

PyObject *ckpt_py_cast_losses(PyObject *object, PyObject *none)
{
	struct model *self = (struct model *)object;
	struct ckpt_cast_report report = CKPT_CAST_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model = ckpt_py_model_use(self);
	PyObject *result = NULL;
	int rc;

	(void)none;
	if (!model)
		return NULL;
	rc = ckpt_cast_losses(model, &report, &err);
	result = rc < 0 ? ckpt_py_raise_for(self, &err, rc)
			: Py_BuildValue("{s:N,s:N}", "overflow", loss_dict(&report.overflow),
					"underflow", loss_dict(&report.underflow));
	ckpt_py_model_drop(self);
	return result;
}
