/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of torch.package: sources, resources and pickles of a user under package paths,
 * storages as `.data/<number>.storage`. Source: torch/package/package_exporter.py,
 * package_importer.py; checked with torch 1.13 to 2.14. The model is a dict from the path of a
 * pickle to what was pickled.
 *
 * What must stay true: a record counts as a pickle by its first and last bytes (by its name, if it
 * is compressed), and one that looks like a pickle but cannot be decoded is an error: no tensors
 * are left out silently. Only an importer can make a 'reduce_package' object, so its call is BOUND
 * and is never written.
 */
#include "format/bundle.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_PICKLE = 3 };

static const struct ckpt_bundle_kind kinds[] = {
	{ ".data/ts_code/", ".py", CKPT_RECORD_CODE },
	{ ".data/ts_code/", "/data.pkl", CKPT_RECORD_PICKLE },
	{ ".data/ts_code/", "/constants.pkl", CKPT_RECORD_PICKLE },
	{ ".data/ts_code/", ".debug_pkl", CKPT_RECORD_CODE },
	{ ".data/", ".storage", CKPT_RECORD_STORAGE },
	{ ".data/", NULL, CKPT_RECORD_MARK },
	{ "byteorder", NULL, CKPT_RECORD_MARK },
	{ NULL, ".py", CKPT_RECORD_CODE },
	{ NULL, NULL, CKPT_RECORD_EXTRA },
};

static const struct ckpt_bundle_format package_format = {
	.format = &ckpt_format_torch_package,
	.what = "torch.package archive",
	.storage_path = ".data/%s.storage",
	.kinds = kinds,
	.kind_count = sizeof(kinds) / sizeof(kinds[0]),
};

static bool probe(const struct ckpt_opening *opening)
{
	return opening->zip && ckpt_bundle_has(opening->zip, ".data/extern_modules");
}

/* ---- which records are pickles ---- */

static bool may_be_pickle(const char *name, const struct ckpt_zip_entry *e)
{
	size_t len = strlen(name);

	return len && name[len - 1] != '/' && strncmp(name, ".data/", 6) &&
	       strcmp(name, "byteorder") && (len < 3 || strcmp(name + len - 3, ".py")) &&
	       e->usize >= LEAST_PICKLE;
}

/*
 * Nothing tells pickles from other resources: they may have any name. PackageExporter writes
 * protocol 3 or 4; what a user pickled and put in as bytes has 2 to 5. Of a compressed record
 * nothing can be said without unpacking it.
 */
static int looks_like_pickle(const struct ckpt_bundle *b, struct ckpt_zip_entry *e, bool *is,
			     struct ckpt_error *err)
{
	struct ckpt_recipe recipe;
	uint8_t head[2], tail;
	int rc = ckpt_zip_locate(b->tz->zip, e, err);

	*is = false;
	if (rc < 0)
		return rc;
	recipe = ckpt_zip_recipe(b->tz->zip, e);
	if (recipe.kind != CKPT_RECIPE_EXTENT) {
		*is = e->name_len > 4 && !strcmp(e->name + e->name_len - 4, ".pkl");
		return 0;
	}
	rc = ckpt_source_read(recipe.src, recipe.off, head, sizeof(head), err);
	if (rc == 0)
		rc = ckpt_source_read(recipe.src, recipe.off + recipe.len - 1, &tail, 1, err);
	*is = rc == 0 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 && tail == '.';
	return rc;
}

/* ---- ids ---- */

/*
 * ('reduce_package', id, func, args), without the id up to torch 1.10: func(importer, *args)
 * makes the object. It is shown as a call without the importer, which cannot be written: nothing
 * but an importer can make it.
 */
static int make_call_of_reduced(struct ckpt_maker *maker, struct ckpt_value *v,
				struct ckpt_error *err)
{
	const struct ckpt_seq *pid = &v->u.persid.pid->u.seq;
	const struct ckpt_value *const *last = pid->items + pid->count - 2;
	struct ckpt_call *call;

	if (last[1]->kind != CKPT_TUPLE) /* as value.h promises of every call */
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the arguments of a 'reduce_package' are not a tuple");
	call = ckpt_arena_calloc(maker->arena, 1, sizeof(*call));
	if (!call)
		return ckpt_arena_fail(maker->arena, err);
	call->func = last[0];
	call->args = last[1];
	call->kind = CKPT_CALL_REDUCE;
	v->kind = CKPT_CALL;
	v->flags |= CKPT_VALUE_BOUND;
	v->u.call = call;
	return 0;
}

static int make_calls_of_reduced(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct ckpt_bundle *b = doc->container;
	struct ckpt_seq *ids = &doc->pickle.persids, storages = { 0 };
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < ids->count; i++) {
		/* not const: the decoder made it for this pickle alone */
		struct ckpt_value *v = (struct ckpt_value *)ids->items[i];
		const struct ckpt_value *pid = v->u.persid.pid;

		if (pid->kind == CKPT_TUPLE && (pid->u.seq.count == 3 || pid->u.seq.count == 4) &&
		    ckpt_value_is_str(pid->u.seq.items[0], "reduce_package"))
			rc = make_call_of_reduced(&b->maker, v, err);
		else if (!ckpt_seq_add(doc->pickle.arena, &storages, v))
			rc = ckpt_fail_nomem(err);
	}
	*ids = storages;
	return rc;
}

/* ---- the whole ---- */

static int read_python(struct ckpt_bundle *b, struct ckpt_error *err)
{
	char text[32], shown[48];
	int rc = ckpt_bundle_text(b, ".data/python_version", text, sizeof(text), err);

	ckpt_escape(shown, sizeof(shown), text, strlen(text));
	snprintf(b->writer, sizeof(b->writer), "torch.package%s%s", *text ? " under Python " : "",
		 shown);
	return rc;
}

static int read_record(struct ckpt_document *doc, struct ckpt_value *root, struct ckpt_zip_entry *e,
		       struct ckpt_error *err)
{
	struct ckpt_bundle *b = doc->container;
	const char *name = ckpt_bundle_name(b, e);
	const struct ckpt_value *value;
	bool is;
	int rc;

	if (!may_be_pickle(name, e))
		return 0;
	rc = looks_like_pickle(b, e, &is, err);
	if (rc < 0 || !is)
		return rc;
	rc = ckpt_bundle_pickle(doc, e, &value, err);
	if (rc == 0 && !ckpt_maker_put(&b->maker, root, ckpt_maker_str(&b->maker, name), value))
		rc = ckpt_fail_nomem(err);
	return rc;
}

static int read_package(struct ckpt_opening *opening, struct ckpt_model **out,
			struct ckpt_error *err)
{
	struct ckpt_document *doc;
	struct ckpt_bundle *b;
	struct ckpt_value *root;
	int rc = ckpt_bundle_open(&package_format, opening, &doc, err);

	*out = NULL;
	if (rc < 0)
		return rc;
	b = doc->container;
	root = ckpt_maker_node(&b->maker, CKPT_DICT);
	rc = root ? read_python(b, err) : ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < b->tz->zip->count; i++)
		rc = read_record(doc, root, &b->tz->zip->entries[i], err);
	if (rc == 0)
		rc = make_calls_of_reduced(doc, err);
	if (rc == 0)
		return ckpt_bundle_finish(doc, root, out, err);
	ckpt_document_unref(doc);
	return rc;
}

static void describe_package(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	out->format = "torch package";
	out->writer = ckpt_bundle_of(model->doc)->writer;
	out->profile = "";
	ckpt_bundle_describe(model, out);
}

/* ScriptModules have pickles of their own kind, beside the package's. */
static int note_oddities(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
			 void *ctx, struct ckpt_error *err)
{
	const struct ckpt_bundle *b = ckpt_bundle_of(model->doc);
	uint32_t count = 0;
	char text[120];

	(void)err;
	for (uint32_t i = 0; i < b->tz->zip->count; i++) {
		const char *name = ckpt_bundle_name(b, &b->tz->zip->entries[i]);
		size_t len = strlen(name);

		count += !strncmp(name, ".data/ts_code/", 14) && len > 9 &&
			 !strcmp(name + len - 9, "/data.pkl");
	}
	if (!count)
		return 0;
	snprintf(text, sizeof(text),
		 "holds %" PRIu32 " TorchScript module%s, whose tensors are not listed", count,
		 count == 1 ? "" : "s");
	note(ctx, text);
	return 0;
}

const struct ckpt_format ckpt_format_torch_package = {
	.name = "torch package",
	.code = CKPT_FORMAT_TORCH_PACKAGE,
	.probe = probe,
	.read = read_package,
	.save = ckpt_bundle_save,
	.save_in_place = ckpt_bundle_save_in_place,
	.describe = describe_package,
	.records = ckpt_bundle_records,
	.notes = note_oddities,
};
