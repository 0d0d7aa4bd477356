/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torch.jit.save() writes: a module as data.pkl, tensors that its code uses as
 * constants.pkl, and the code. Each pickle counts its storages from 0, in a folder of its own
 * name. Source: torch/csrc/jit/serialization/export_module.cpp, import.cpp.
 *
 * Both pickles become one graph: the constants are an attribute of the root, and their storages
 * are named like their records, "constants/0". What must stay true: a key with a slash is the
 * name of a record, as attach_all() takes it; values change only while the file is being opened;
 * an object with code is never written (refuse_program), as only torch can write the code.
 */
#include "format/torch_script.h"

#include "base/text.h"
#include "model/cpp_calls.h"
#include "model/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATH = 4096 };

/* ---- values ---- */

/* ('storage', class, KEY, ...) becomes ('storage', class, 'constants/KEY', ...). */
static int name_by_folder(struct ckpt_pickle *pickle, const struct ckpt_value *persid,
			  const char *folder, struct ckpt_error *err)
{
	const struct ckpt_value *key = ckpt_storage_key(persid);
	struct ckpt_value *tuple, *text;
	struct ckpt_storage checked; /* while it is known which pickle it stands in */
	size_t first = strlen(folder);
	char *name;
	int rc;

	if (!key)
		return 0;
	rc = ckpt_storage_parse(persid, pickle->arena, &checked, err);
	if (rc < 0)
		return rc;
	tuple = ckpt_arena_calloc(pickle->arena, 1, sizeof(*tuple));
	text = ckpt_arena_calloc(pickle->arena, 1, sizeof(*text));
	name = ckpt_arena_alloc(pickle->arena, first + key->u.bytes.len);
	if (!tuple || !text || !name ||
	    !ckpt_seq_add_many(pickle->arena, &tuple->u.seq, persid->u.persid.pid->u.seq.items,
			       persid->u.persid.pid->u.seq.count))
		return ckpt_arena_fail(pickle->arena, err);
	memcpy(name, folder, first);
	memcpy(name + first, key->u.bytes.ptr, key->u.bytes.len);
	text->kind = CKPT_STR;
	text->pos = key->pos;
	text->u.bytes.ptr = name;
	text->u.bytes.len = first + key->u.bytes.len;
	tuple->kind = CKPT_TUPLE;
	tuple->pos = persid->u.persid.pid->pos;
	tuple->u.seq.items[2] = text;
	((struct ckpt_value *)persid)->u.persid.pid =
		tuple; /* as long as the file is being opened */
	return 0;
}

static struct ckpt_value *new_value(struct ckpt_pickle *pickle, const struct ckpt_value *like)
{
	struct ckpt_value *v = ckpt_arena_alloc(pickle->arena, sizeof(*v));

	if (v) {
		*v = *like;
		v->id = pickle->next_id++;
	}
	return v;
}

/* Replace the root by one that has one attribute more. */
static int add_to_root(struct ckpt_pickle *pickle, const char *name, const struct ckpt_value *value,
		       struct ckpt_error *err)
{
	static const struct ckpt_value text = { .kind = CKPT_STR, .pos = CKPT_NO_OFFSET };
	const struct ckpt_value *old = pickle->root, *state;
	struct ckpt_call *call = ckpt_arena_alloc(pickle->arena, sizeof(*call));
	struct ckpt_value *root = new_value(pickle, old), *dict, *key = new_value(pickle, &text);

	state = old->kind == CKPT_CALL ? old->u.call->state : NULL;
	if (!state || state->kind != CKPT_DICT)
		return 0; /* it is no module */
	dict = new_value(pickle, state);
	if (!call || !root || !dict || !key)
		return ckpt_arena_fail(pickle->arena, err);
	key->u.bytes.ptr = name;
	key->u.bytes.len = strlen(name);
	dict->u.seq = (struct ckpt_seq){ 0 };
	if (!ckpt_seq_add_many(pickle->arena, &dict->u.seq, state->u.seq.items,
			       state->u.seq.count) ||
	    !ckpt_seq_add(pickle->arena, &dict->u.seq, key) ||
	    !ckpt_seq_add(pickle->arena, &dict->u.seq, value))
		return ckpt_arena_fail(pickle->arena, err);
	*call = *old->u.call;
	call->state = dict;
	root->u.call = call;
	pickle->root = root;
	return 0;
}

static int read_constants(struct ckpt_document *doc, struct ckpt_torch_script *script,
			  struct ckpt_error *err)
{
	struct ckpt_pickle *constants = &script->constants;
	size_t len;
	int rc = ckpt_torch_zip_read_pickle_of(script->tz,
					       ckpt_torch_zip_record(script->tz, "constants.pkl"),
					       doc->pickle.next_id, &script->constants_bytes, &len,
					       constants, err);

	if (rc < 0)
		return rc;
	doc->pickle.next_id = constants->next_id;
	doc->of_cpp |= ckpt_pickle_is_of_cpp(script->constants_bytes, len);
	for (uint32_t i = 0; rc == 0 && i < constants->persids.count; i++)
		rc = ckpt_error_at(err,
				   name_by_folder(constants, constants->persids.items[i],
						  "constants/", err),
				   NULL, "constants.pkl", constants->persids.items[i]->pos);
	if (rc == 0 && !ckpt_seq_add_many(doc->pickle.arena, &doc->pickle.persids,
					  constants->persids.items, constants->persids.count))
		rc = ckpt_arena_fail(doc->pickle.arena, err);
	if (rc < 0 || constants->root->kind != CKPT_TUPLE || !constants->root->u.seq.count)
		return rc;
	return add_to_root(&doc->pickle, "constants", constants->root, err);
}

/* ---- storages ---- */

static int attach_all(struct ckpt_document *doc, struct ckpt_torch_script *script,
		      struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < doc->storage_count; i++) {
		struct ckpt_storage *s = &doc->storages[i];
		struct ckpt_zip_entry *entry;

		if (!strchr(s->key, '/')) {
			rc = ckpt_torch_zip_attach(script->tz, s, s->key, err);
			continue;
		}
		entry = ckpt_torch_zip_record(script->tz, s->key);
		if (entry)
			rc = ckpt_torch_zip_attach_entry(script->tz, s, entry, err);
		else
			rc = ckpt_fail(err, CKPT_E_FORMAT,
				       "the record '%.200s' is missing, which holds %" PRIu64
				       " bytes of tensors",
				       s->key, s->nbytes);
	}
	return rc;
}

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_torch_script *script = doc->container;

	return ckpt_torch_zip_entry_bytes(script->tz, s->record, s->nbytes, out, err);
}

/* ---- the whole ---- */

static const struct ckpt_class *class_of(struct ckpt_document *doc, const struct ckpt_global *cls)
{
	struct ckpt_torch_script *script = doc->container;

	return ckpt_script_code_class(&script->code, cls);
}

static void free_script(void *container)
{
	struct ckpt_torch_script *script = container;

	if (!script)
		return;
	ckpt_script_code_clear(&script->code);
	ckpt_pickle_clear(&script->constants);
	free(script->constants_bytes);
	ckpt_torch_zip_free(script->tz);
	free(script);
}

/* Offsets are those in the pickle that a value came from. */
static const char *record_of(const char *name)
{
	static const char constants[] = "constants.";

	return strncmp(name, constants, sizeof(constants) - 1) ? "data.pkl" : "constants.pkl";
}

static struct ckpt_document *new_document(struct ckpt_source *source)
{
	struct ckpt_document *doc =
		ckpt_document_new(source, &ckpt_format_torch_script,
				  sizeof(struct ckpt_torch_script), free_script);

	if (!doc)
		return NULL;
	doc->storage_bytes = storage_bytes;
	doc->class_of = class_of;
	doc->record_of = record_of;
	return doc;
}

/* code/__torch__/a/b.py */
static bool source_of(void *ctx, const struct ckpt_global *cls, uint8_t **text, size_t *len)
{
	const struct ckpt_torch_script *script = ctx;
	struct ckpt_zip_entry *entry;
	char path[MOST_PATH];

	if (cls->module_len > MOST_PATH - 16)
		return false;
	snprintf(path, sizeof(path), "code/%s.py", cls->module);
	for (char *p = path + 5; p < path + 5 + cls->module_len; p++)
		if (*p == '.')
			*p = '/';
	entry = ckpt_torch_zip_record(script->tz, path);
	if (!entry || ckpt_zip_read(script->tz->zip, entry, ckpt_torch_zip_most_pickle(entry), text,
				    NULL) < 0)
		return false;
	*len = (size_t)entry->usize;
	return true;
}

static int read_pickles(struct ckpt_document *doc, struct ckpt_zip *zip, struct ckpt_error *err)
{
	struct ckpt_torch_script *script = doc->container;
	int rc = ckpt_torch_zip_open_any(doc->source, zip, &script->tz, err);

	ckpt_script_code_init(&script->code, source_of, script, ckpt_source_size(doc->source));
	if (rc == 0)
		rc = ckpt_torch_zip_read_marks(script->tz, err);
	if (rc == 0)
		rc = ckpt_torch_zip_read_pickle(script->tz, 1, &doc->pickle_bytes, &doc->pickle_len,
						&doc->pickle, err);
	if (rc == 0) {
		doc->of_cpp = ckpt_pickle_is_of_cpp(doc->pickle_bytes, doc->pickle_len);
		rc = read_constants(doc, script, err);
	}
	return rc;
}

static int read_script(struct ckpt_opening *opening, struct ckpt_model **out,
		       struct ckpt_error *err)
{
	struct ckpt_document *doc = new_document(opening->source);
	struct ckpt_model *model = NULL;
	int rc;

	*out = NULL;
	if (!doc)
		return ckpt_fail_nomem(err);
	rc = read_pickles(doc, opening->zip, err);
	opening->zip = NULL;
	if (rc < 0) {
		ckpt_document_unref(doc);
		return rc;
	}
	rc = ckpt_model_new(doc, &model, err);
	rc = ckpt_error_at(err, rc, NULL, "data.pkl", CKPT_NO_OFFSET);
	if (rc == 0)
		rc = attach_all(doc, doc->container, err);
	if (rc < 0)
		ckpt_close(model);
	else
		*out = model;
	return rc;
}

/* torch's own test: constants.pkl in the folder of the first record. */
static bool probe(const struct ckpt_opening *opening)
{
	static const char *const wanted[] = { "constants.pkl", "data.pkl" };
	const struct ckpt_zip *zip = opening->zip;
	const char *slash;
	char name[1024];
	size_t len;

	if (!zip || !zip->count)
		return false;
	slash = memchr(zip->entries[0].name, '/', zip->entries[0].name_len);
	len = slash ? (size_t)(slash - zip->entries[0].name) : 0;
	if (len > sizeof(name) - 16)
		return false;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		snprintf(name, sizeof(name), "%.*s/%s", (int)len, zip->entries[0].name, wanted[i]);
		if (!ckpt_zip_find(zip, name, strlen(name)))
			return false;
	}
	return true;
}

/* ---- saving: a part that an edit took out ---- */

static int refuse_program(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	const struct ckpt_model *model = ctx;
	const struct ckpt_global *cls;
	char shown[160];

	if (!ckpt_is_script_object(model, step->value))
		return CKPT_WALK_ENTER;
	cls = ckpt_model_now(model, step->value->u.call->func)->u.global;
	return ckpt_fail(
		err, CKPT_E_UNSUPPORTED,
		"is a TorchScript archive: an object of its class '%s' has code, which only "
		"torch can write; 'ckpt convert' takes the state dict out",
		ckpt_escape(shown, sizeof(shown), cls->name, cls->name_len));
}

static int check_save(const struct ckpt_model *model, struct ckpt_error *err)
{
	int rc = ckpt_model_walk(model, refuse_program, (void *)model, err);

	if (rc < 0 && err)
		err->offset = CKPT_NO_OFFSET; /* nothing is wrong there */
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

static int save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
			 struct ckpt_save_report *report, struct ckpt_error *err)
{
	(void)options;
	(void)report;
	return ckpt_error_at(
		err,
		ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is a TorchScript archive, which only torch can write; 'ckpt convert' takes "
			"the state dict out"),
		ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

const struct ckpt_format ckpt_format_torch_script = {
	.name = "TorchScript",
	.code = CKPT_FORMAT_TORCH_SCRIPT,
	.probe = probe,
	.read = read_script,
	.check_save = check_save,
	.save = ckpt_torch_zip_save,
	.save_in_place = save_in_place,
	.describe = ckpt_torch_script_describe,
	.records = ckpt_torch_script_records,
	.notes = ckpt_torch_script_notes,
};
