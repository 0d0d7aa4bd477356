/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the JSON texts that describe weights and constants of an exported program: {"config":
 * {name: {"path_name": ..., "is_param": ..., "use_pickle": ..., "tensor_meta": {...}}}}. Source:
 * PayloadConfig and TensorMeta in torch/_export/serde/schema.py, _load_state_dict() in
 * torch/export/pt2_archive/_package.py.
 *
 * What must stay true: a path names a record in FOLDER and nowhere else; all tensors over one
 * record have one dtype, as torch reads them; the length of the text is limited, as jansson
 * takes about thirty times its memory.
 */
#include "format/torch_export.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATH = 200, MOST_DEVICE = 40, SHOWN = 120, STRIDED = 7 };
static const uint64_t MOST_TEXT = (uint64_t)256 << 20, MOST_UNPACKED = 8 << 20;

/* By number of the schema's ScalarType; the gaps have no name there. */
static const enum ckpt_dtype dtypes[] = {
	[0] = CKPT_DTYPE_UNKNOWN,
	[1] = CKPT_DTYPE_UINT8,
	[2] = CKPT_DTYPE_INT8,
	[3] = CKPT_DTYPE_INT16,
	[4] = CKPT_DTYPE_INT32,
	[5] = CKPT_DTYPE_INT64,
	[6] = CKPT_DTYPE_FLOAT16,
	[7] = CKPT_DTYPE_FLOAT32,
	[8] = CKPT_DTYPE_FLOAT64,
	[9] = CKPT_DTYPE_COMPLEX32,
	[10] = CKPT_DTYPE_COMPLEX64,
	[11] = CKPT_DTYPE_COMPLEX128,
	[12] = CKPT_DTYPE_BOOL,
	[13] = CKPT_DTYPE_BFLOAT16,
	[28] = CKPT_DTYPE_UINT16,
	[29] = CKPT_DTYPE_FLOAT8_E4M3FN,
	[30] = CKPT_DTYPE_FLOAT8_E5M2,
	[31] = CKPT_DTYPE_FLOAT8_E4M3FNUZ,
	[32] = CKPT_DTYPE_FLOAT8_E5M2FNUZ,
	[33] = CKPT_DTYPE_FLOAT8_E8M0FNU,
	[34] = CKPT_DTYPE_UINT32,
	[35] = CKPT_DTYPE_UINT64,
};
enum { FIRST_GAP = 14, LAST_GAP = 27, DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

/* The bytes of a record, of which several tensors may be views. */
struct payload {
	const struct ckpt_value *storage;
	enum ckpt_dtype dtype;
};

struct reader {
	struct ckpt_document *doc;
	const char *folder;
	struct ckpt_strmap payloads; /* path_name, the text's, to the number below */
	struct payload *payload;     /* malloc */
	struct ckpt_error *err;
};

/* What a tensor_meta says. */
struct meta {
	struct ckpt_maker_view view;
	uint64_t shape[CKPT_MOST_DIMS], stride[CKPT_MOST_DIMS];
	char device[MOST_DEVICE];
};

/* ---- JSON ---- */

static int wrong(const struct reader *r, const char *what, const char *wanted, const json_t *found)
{
	static const char *const names[] = { "an object", "an array", "a text", "an integer",
					     "a number",  "true",     "false",	"null" };

	return ckpt_fail(r->err, CKPT_E_FORMAT, "'%s': wanted %s, found %s", what, wanted,
			 found ? names[json_typeof(found)] : "nothing");
}

static int read_number(const struct reader *r, const json_t *v, const char *what, uint64_t *out)
{
	if (!json_is_integer(v))
		return wrong(r, what, "an integer", v);
	if (json_integer_value(v) < 0)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "'%s' is %" JSON_INTEGER_FORMAT ", wanted 0 or more", what,
				 json_integer_value(v));
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static int read_bool(const struct reader *r, const json_t *in, const char *what, bool *out)
{
	const json_t *v = json_object_get(in, what);

	if (!json_is_boolean(v))
		return wrong(r, what, "true or false", v);
	*out = json_is_true(v);
	return 0;
}

/* {"as_int": 3}; a tensor that has bytes has no symbolic sizes. */
static int read_size(const struct reader *r, const json_t *v, const char *what, uint64_t *out)
{
	if (!json_is_object(v))
		return wrong(r, what, "an object with 'as_int'", v);
	return read_number(r, json_object_get(v, "as_int"), what, out);
}

static int read_sizes(const struct reader *r, const json_t *meta, const char *what, uint64_t *out,
		      uint32_t *count)
{
	const json_t *list = json_object_get(meta, what);
	int rc = 0;

	if (!json_is_array(list))
		return wrong(r, what, "an array", list);
	if (json_array_size(list) > CKPT_MOST_DIMS)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "'%s' has %zu dimensions, torch has at most %d", what,
				 json_array_size(list), CKPT_MOST_DIMS);
	*count = (uint32_t)json_array_size(list);
	for (uint32_t i = 0; rc == 0 && i < *count; i++)
		rc = read_size(r, json_array_get(list, i), what, &out[i]);
	return rc;
}

/* ---- tensor_meta ---- */

static int read_dtype(const struct reader *r, const json_t *meta, enum ckpt_dtype *out)
{
	uint64_t number = 0;
	int rc = read_number(r, json_object_get(meta, "dtype"), "dtype", &number);

	if (rc < 0)
		return rc;
	if (!number || number >= DTYPES || (number >= FIRST_GAP && number <= LAST_GAP))
		return ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
				 "dtype number %" PRIu64 " is not known", number);
	*out = dtypes[number];
	return 0;
}

/* {"type": "cuda", "index": 0} is "cuda:0" */
static int read_device(const struct reader *r, const json_t *meta, char out[MOST_DEVICE])
{
	const json_t *device = json_object_get(meta, "device"),
		     *type = json_object_get(device, "type"),
		     *index = json_object_get(device, "index");
	uint64_t number = 0;
	int rc;

	if (!json_is_string(type) || !json_string_length(type) ||
	    json_string_length(type) > MOST_DEVICE / 2)
		return wrong(r, "device", "the name of a type", type);
	snprintf(out, MOST_DEVICE, "%s", json_string_value(type));
	if (!index || json_is_null(index) || !strcmp(out, "cpu"))
		return 0;
	rc = read_number(r, index, "device", &number);
	if (rc == 0 && number > 9999)
		rc = ckpt_fail(r->err, CKPT_E_FORMAT, "'device' has the number %" PRIu64, number);
	if (rc == 0)
		snprintf(out + strlen(out), MOST_DEVICE - strlen(out), ":%u", (unsigned)number);
	return rc;
}

static int read_meta(const struct reader *r, const json_t *meta, struct meta *m)
{
	struct ckpt_maker_view *view = &m->view;
	uint64_t layout = 0;
	uint32_t strides;
	int rc;

	if (!json_is_object(meta))
		return wrong(r, "tensor_meta", "an object", meta);
	rc = read_number(r, json_object_get(meta, "layout"), "layout", &layout);
	if (rc == 0 && layout != STRIDED)
		rc = ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
			       "layout number %" PRIu64 ", wanted %d: a strided tensor", layout,
			       STRIDED);
	if (rc == 0)
		rc = read_dtype(r, meta, &view->dtype);
	if (rc == 0)
		rc = read_sizes(r, meta, "sizes", m->shape, &view->ndim);
	if (rc == 0)
		rc = read_sizes(r, meta, "strides", m->stride, &strides);
	if (rc == 0 && strides != view->ndim)
		rc = ckpt_fail(r->err, CKPT_E_FORMAT, "'sizes' has %u dimensions, 'strides' %u",
			       view->ndim, strides);
	if (rc == 0)
		rc = read_size(r, json_object_get(meta, "storage_offset"), "storage_offset",
			       &view->offset);
	if (rc == 0)
		rc = read_bool(r, meta, "requires_grad", &view->requires_grad);
	view->shape = m->shape;
	view->stride = m->stride;
	return rc < 0 ? rc : read_device(r, meta, m->device);
}

/* ---- payloads ---- */

static int find_record(const struct reader *r, const json_t *path, struct ckpt_zip_entry **out)
{
	char record[2 * MOST_PATH], shown[SHOWN];
	size_t len = json_string_length(path);

	if (!json_is_string(path))
		return wrong(r, "path_name", "a text", path);
	ckpt_escape(shown, sizeof(shown), json_string_value(path), len);
	if (!len || len > MOST_PATH || strchr(json_string_value(path), '/'))
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "'path_name' is not the name of a record in '%s': '%s'", r->folder,
				 shown);
	snprintf(record, sizeof(record), "%s%s", r->folder, json_string_value(path));
	*out = ckpt_bundle_record(ckpt_bundle_of(r->doc), record);
	if (*out)
		return 0;
	return ckpt_fail(r->err, CKPT_E_FORMAT, "the record '%s%s' is missing", r->folder, shown);
}

/* The storage that RECORD is. Its dtype is that of the first tensor, as for torch. */
static int find_payload(struct reader *r, const json_t *path, const struct ckpt_zip_entry *record,
			const struct meta *m, const struct ckpt_value **out)
{
	struct ckpt_maker *maker = &ckpt_bundle_of(r->doc)->maker;
	const char *text = json_string_value(path);
	uint32_t itemsize = ckpt_dtype_size(m->view.dtype);
	char key[2 * MOST_PATH];
	struct payload *p;
	bool there;
	uint64_t *slot =
		ckpt_strmap_insert(&r->payloads, text, strlen(text), r->payloads.count, &there);

	if (!slot)
		return ckpt_fail_nomem(r->err);
	p = &r->payload[*slot];
	if (!there) {
		if (record->usize % itemsize)
			return ckpt_fail(r->err, CKPT_E_FORMAT,
					 "the record '%s%s' has %" PRIu64
					 " bytes, no multiple of the %" PRIu32 " of %s",
					 r->folder, text, record->usize, itemsize,
					 ckpt_dtype_name(m->view.dtype));
		snprintf(key, sizeof(key), "%s%s", r->folder, text);
		p->dtype = m->view.dtype;
		p->storage = ckpt_maker_storage(maker, p->dtype, key,
						strcmp(m->device, "cpu") ? m->device : NULL,
						record->usize / itemsize);
	} else if (p->dtype != m->view.dtype) {
		return ckpt_fail(
			r->err, CKPT_E_UNSUPPORTED,
			"is of %s, another tensor over the same record '%s%s' of %s, which torch "
			"does not read as what it was",
			ckpt_dtype_name(m->view.dtype), r->folder, text, ckpt_dtype_name(p->dtype));
	}
	*out = p->storage;
	return p->storage ? 0 : ckpt_fail_nomem(r->err);
}

static bool is_empty(const struct ckpt_maker_view *view)
{
	for (uint32_t i = 0; i < view->ndim; i++)
		if (!view->shape[i])
			return true;
	return false;
}

static int read_raw(struct reader *r, const json_t *item, struct ckpt_zip_entry *record,
		    bool is_param, const struct ckpt_value **out)
{
	struct ckpt_maker *maker = &ckpt_bundle_of(r->doc)->maker;
	const struct ckpt_value *storage;
	struct meta m = { .view = { 0 } };
	int rc = read_meta(r, json_object_get(item, "tensor_meta"), &m);
	bool requires_grad = m.view.requires_grad;

	if (rc == 0 && !record->usize && !is_empty(&m.view)) {
		record->used = true;
		*out = ckpt_maker_missing(
			maker, "the bytes of a tensor were left out, as they are of fake tensors");
		return *out ? 0 : ckpt_fail_nomem(r->err);
	}
	if (rc == 0)
		rc = find_payload(r, json_object_get(item, "path_name"), record, &m, &storage);
	if (rc < 0)
		return rc;
	m.view.requires_grad = requires_grad && !is_param;
	*out = ckpt_maker_tensor(maker, storage, &m.view);
	if (is_param)
		*out = ckpt_maker_parameter(maker, *out, requires_grad);
	return *out ? 0 : ckpt_fail_nomem(r->err);
}

/* Objects of classes in C++, and others that are no tensors: pickles of other kinds. */
static bool is_object(const char *path)
{
	return !strncmp(path, "custom_obj_", 11) || !strncmp(path, "opaque_obj_", 11);
}

static int read_item(struct reader *r, const json_t *item, const struct ckpt_value **out)
{
	struct ckpt_bundle *b = ckpt_bundle_of(r->doc);
	const json_t *path = json_object_get(item, "path_name");
	struct ckpt_zip_entry *record;
	bool is_param = false, use_pickle = false;
	int rc;

	if (!json_is_object(item))
		return wrong(r, "config", "an object for each tensor", item);
	rc = find_record(r, path, &record);
	if (rc == 0)
		rc = read_bool(r, item, "is_param", &is_param);
	if (rc == 0)
		rc = read_bool(r, item, "use_pickle", &use_pickle);
	if (rc < 0)
		return rc;
	if (is_object(json_string_value(path))) {
		record->used = true;
		*out = ckpt_maker_missing(&b->maker,
					  "an object that is not a tensor, which is not read");
		return *out ? 0 : ckpt_fail_nomem(r->err);
	}
	return use_pickle ? ckpt_bundle_archive(r->doc, record, out, r->err)
			  : read_raw(r, item, record, is_param, out);
}

/* ---- the whole ---- */

static int in_item(struct ckpt_error *err, int rc, const char *name)
{
	char shown[SHOWN];

	if (rc == 0 || !err || err->record[0])
		return rc;
	return ckpt_error_prefix(err, rc, "tensor '%s': ",
				 ckpt_escape(shown, sizeof(shown), name, strlen(name)));
}

static int read_items(struct reader *r, json_t *config, struct ckpt_value *mapping)
{
	struct ckpt_maker *maker = &ckpt_bundle_of(r->doc)->maker;
	const char *name;
	json_t *item;

	if (!json_is_object(config))
		return wrong(r, "config", "an object", config);
	r->payload = calloc(json_object_size(config) + 1, sizeof(*r->payload));
	if (!r->payload)
		return ckpt_fail_nomem(r->err);
	json_object_foreach(config, name, item)
	{
		const struct ckpt_value *value;
		int rc = in_item(r->err, read_item(r, item, &value), name);

		if (rc < 0)
			return rc;
		if (!ckpt_maker_put(maker, mapping, ckpt_maker_str(maker, name), value))
			return ckpt_fail_nomem(r->err);
	}
	return 0;
}

static int parse(const uint8_t *text, size_t len, json_t **out, struct ckpt_error *err)
{
	json_error_t why;
	char shown[SHOWN];

	*out = ckpt_json_load((const char *)text, len, JSON_REJECT_DUPLICATES, &why);
	if (*out)
		return 0;
	if (json_error_code(&why) == json_error_out_of_memory)
		return ckpt_fail_nomem(err);
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_FORMAT, "is not JSON that can be read: %s",
				       ckpt_escape(shown, sizeof(shown), why.text,
						   strlen(why.text))),
			     NULL, NULL, (uint64_t)why.position);
}

/* torch stores these texts; few bytes of a compressed one may stand for very many. */
static uint64_t most_text(const struct ckpt_zip_entry *entry)
{
	return entry->method == CKPT_ZIP_STORED ? MOST_TEXT : MOST_UNPACKED;
}

int ckpt_export_read_config(struct ckpt_document *doc, struct ckpt_zip_entry *config,
			    const char *folder, struct ckpt_value *mapping, struct ckpt_error *err)
{
	struct reader r = { .doc = doc, .folder = folder, .err = err };
	json_t *root = NULL;
	uint8_t *text = NULL;
	char shown[SHOWN];
	int rc = ckpt_zip_read(ckpt_bundle_of(doc)->tz->zip, config, most_text(config), &text, err);

	if (rc == 0)
		rc = parse(text, config->usize, &root, err);
	if (rc == 0)
		rc = read_items(&r, json_object_get(root, "config"), mapping);
	if (rc == 0)
		doc->pickle_len += config->usize;
	json_decref(root);
	free(text);
	free(r.payload);
	ckpt_strmap_clear(&r.payloads);
	return ckpt_error_at(err, rc, NULL,
			     rc < 0 ? ckpt_escape(shown, sizeof(shown), config->name,
						  config->name_len)
				    : NULL,
			     CKPT_NO_OFFSET);
}
