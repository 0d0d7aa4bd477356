/* SPDX-License-Identifier: Apache-2.0 */
/* Model.quantized(): the quantized weights of a checkpoint, as <ckpt/quant.h> lists them. */
#include "_ckpt.h"

#include <string.h>

struct ckpt_quant_options ckpt_py_quant_options(const struct words *words)
{
	struct ckpt_quant_options options = CKPT_QUANT_OPTIONS_INIT;

	options.as = words->items[0];
	options.config = words->items[1];
	options.config_len = options.config ? strlen(options.config) : 0;
	return options;
}

static PyObject *shape_of(const struct ckpt_quant_weight_info *info)
{
	PyObject *list = ckpt_py_numbers(info->shape, info->ndim);
	PyObject *tuple = list ? PyList_AsTuple(list) : NULL;

	Py_XDECREF(list);
	return tuple;
}

static PyObject *weight_dict(const struct ckpt_quant *quant, uint64_t i)
{
	struct ckpt_quant_weight_info info = CKPT_QUANT_WEIGHT_INFO_INIT;

	ckpt_quant_get(quant, i, &info);
	return Py_BuildValue("{s:N,s:N,s:N,s:K,s:I,s:N}", "name", ckpt_py_string(info.name),
			     "scheme", ckpt_py_string(info.scheme), "shape", shape_of(&info),
			     "nbytes", (unsigned long long)info.nbytes, "parts",
			     (unsigned)info.parts, "items", ckpt_py_string(info.items));
}

static PyObject *quant_dict(const struct ckpt_quant *quant)
{
	PyObject *weights = PyList_New(0), *dropped = PyList_New(0), *dict = PyDict_New();

	for (uint64_t i = 0; weights && i < ckpt_quant_count(quant); i++)
		ckpt_py_append(&weights, weight_dict(quant, i));
	for (uint64_t i = 0; dropped && i < ckpt_quant_dropped_count(quant); i++)
		ckpt_py_append(&dropped, ckpt_py_string(ckpt_quant_dropped(quant, i)));
	ckpt_py_put(dict, "format", ckpt_py_string(ckpt_quant_format(quant)));
	ckpt_py_put(dict, "weights", weights);
	ckpt_py_put(dict, "dropped", dropped);
	return ckpt_py_finished(dict);
}

/* RC is what ckpt_quant_open() returned; the model is in use. */
static PyObject *result_of(struct model *self, int rc, struct ckpt_quant *quant,
			   const struct ckpt_error *err)
{
	PyObject *dict;

	if (rc == CKPT_E_NOTFOUND)
		return Py_NewRef(Py_None);
	if (rc < 0)
		return ckpt_py_raise_for(self, err, rc);
	dict = quant_dict(quant);
	ckpt_quant_close(quant);
	return dict;
}

PyObject *ckpt_py_quantized(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct words words = { NULL, 0, NULL };
	struct ckpt_model *model = NULL;
	struct ckpt_quant *quant = NULL;
	PyObject *result = NULL;

	if (ckpt_py_words_take(args, 2, &words)) {
		if (words.count != 2)
			PyErr_SetString(PyExc_TypeError, "quantized(as or None, config or None)");
		else
			model = ckpt_py_model_use(self);
	}
	if (model) {
		const struct ckpt_quant_options options = ckpt_py_quant_options(&words);
		int rc;

		Py_BEGIN_ALLOW_THREADS rc = ckpt_quant_open(model, &options, &quant, &err);
		Py_END_ALLOW_THREADS result = result_of(self, rc, quant, &err);
		ckpt_py_model_drop(self);
	}
	ckpt_py_words_clear(&words);
	return result;
}
