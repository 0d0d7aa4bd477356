/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files for the lite interpreter (.ff, .ptl) that are no archives but one FlatBuffers table,
 * since torch 1.12: storages, values and classes like those of a TorchScript archive, and its
 * sources, which tell the parameters. torch_mobile_values.c reads what is the pickle in such an
 * archive.
 *
 * What must stay true: what is read is counted by flatbuffer.h, which is the only limit on
 * memory; such a file is never written.
 */
#include "format/torch_mobile.h"

#include "format/format.h"
#include "format/torch_zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXTRA_NAME, EXTRA_CONTENT };
enum { MOST_SOURCE = 64 << 20 };

static bool probe(const struct ckpt_opening *opening)
{
	return opening->len >= 8 && !memcmp(opening->head + 4, "PTMF", 4);
}

/* ---- storages and files in it ---- */

static struct ckpt_mobile_place *new_places(struct ckpt_document *doc, struct ckpt_flatbuffer *fb,
					    uint32_t count)
{
	struct ckpt_mobile_place *places =
		ckpt_arena_calloc(doc->pickle.arena, count + (uint64_t)1, sizeof(*places));

	if (!places && fb->rc == 0)
		fb->rc = ckpt_arena_fail(doc->pickle.arena, fb->err);
	return places;
}

static int read_storages(struct ckpt_document *doc, struct ckpt_flatbuffer *fb,
			 const struct ckpt_flatbuffer_table *module)
{
	struct ckpt_mobile *mobile = doc->container;
	struct ckpt_flatbuffer_vector v =
		ckpt_flatbuffer_vector(fb, module, MODULE_STORAGE_DATA, 4);

	mobile->storages = new_places(doc, fb, v.count);
	for (uint32_t i = 0; fb->rc == 0 && i < v.count; i++) {
		struct ckpt_flatbuffer_table t = ckpt_flatbuffer_item(fb, &v, i);
		struct ckpt_flatbuffer_vector data = ckpt_flatbuffer_vector(fb, &t, 0, 1);

		mobile->storages[i] =
			(struct ckpt_mobile_place){ .off = data.at, .len = data.count };
	}
	mobile->storage_count = v.count;
	return fb->rc;
}

/* Texts under names: sources of classes, or what a user added. */
static int read_files(struct ckpt_document *doc, struct ckpt_flatbuffer *fb,
		      const struct ckpt_flatbuffer_table *module, unsigned field,
		      struct ckpt_mobile_place **out, uint32_t *count)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(fb, module, field, 4);

	*out = new_places(doc, fb, v.count);
	for (uint32_t i = 0; fb->rc == 0 && i < v.count; i++) {
		struct ckpt_flatbuffer_table t = ckpt_flatbuffer_item(fb, &v, i);
		struct ckpt_flatbuffer_vector text =
			ckpt_flatbuffer_vector(fb, &t, EXTRA_CONTENT, 1);
		uint32_t len;

		(*out)[i] = (struct ckpt_mobile_place){ .off = text.at, .len = text.count };
		(*out)[i].name = ckpt_flatbuffer_text(fb, &t, EXTRA_NAME, doc->pickle.arena, &len);
	}
	*count = v.count;
	return fb->rc;
}

static int name_sources(struct ckpt_mobile *mobile, struct ckpt_error *err)
{
	bool there;

	for (uint32_t i = 0; i < mobile->source_count; i++)
		if (!ckpt_strmap_insert(&mobile->source_by_name, mobile->sources[i].name,
					strlen(mobile->sources[i].name), i, &there))
			return ckpt_fail_nomem(err);
	return 0;
}

/* ---- the document ---- */

static bool source_of(void *ctx, const struct ckpt_global *cls, uint8_t **text, size_t *len)
{
	const struct ckpt_document *doc = ctx;
	const struct ckpt_mobile *mobile = doc->container;
	const uint64_t *slot =
		ckpt_strmap_find(&mobile->source_by_name, cls->module, cls->module_len);
	const struct ckpt_mobile_place *place = slot ? &mobile->sources[*slot] : NULL;

	if (!place || place->len > MOST_SOURCE || !(*text = malloc((size_t)place->len + 1)))
		return false;
	*len = (size_t)place->len;
	if (ckpt_source_read(doc->source, place->off, *text, *len, NULL) == 0)
		return true;
	free(*text);
	return false;
}

static const struct ckpt_class *class_of(struct ckpt_document *doc, const struct ckpt_global *cls)
{
	return ckpt_script_code_class(&((struct ckpt_mobile *)doc->container)->code, cls);
}

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_mobile_place *place = s->record;

	(void)err;
	*out = (struct ckpt_recipe){
		.kind = CKPT_RECIPE_EXTENT, .src = doc->source, .off = place->off, .len = s->nbytes
	};
	return 0;
}

static void free_mobile(void *container)
{
	struct ckpt_mobile *mobile = container;

	if (!mobile)
		return;
	ckpt_script_code_clear(&mobile->code);
	ckpt_strmap_clear(&mobile->source_by_name);
	free(mobile);
}

static struct ckpt_document *new_document(struct ckpt_source *source)
{
	struct ckpt_document *doc = ckpt_document_new(source, &ckpt_format_torch_mobile,
						      sizeof(struct ckpt_mobile), free_mobile);
	struct ckpt_mobile *mobile = doc ? doc->container : NULL;

	if (!doc)
		return NULL;
	ckpt_script_code_init(&mobile->code, source_of, doc, ckpt_source_size(source));
	doc->storage_bytes = storage_bytes;
	doc->class_of = class_of;
	/* what is read of the file is counted, see flatbuffer.h */
	doc->pickle.arena = ckpt_arena_new(UINT64_MAX >> 1);
	doc->pickle.next_id = 1;
	if (doc->pickle.arena)
		return doc;
	ckpt_document_unref(doc);
	return NULL;
}

/* ---- reading ---- */

static void place_storages(struct ckpt_document *doc)
{
	struct ckpt_mobile *mobile = doc->container;

	for (uint32_t i = 0; i < doc->storage_count; i++) /* keys are the numbers of the places */
		doc->storages[i].record =
			&mobile->storages[strtoul(doc->storages[i].key, NULL, 10)];
}

/* The size of all but the storages: limits of memory are in proportion to it. */
static uint64_t metadata_bytes(const struct ckpt_document *doc)
{
	const struct ckpt_mobile *mobile = doc->container;
	uint64_t size = ckpt_source_size(doc->source);

	for (uint32_t i = 0; i < mobile->storage_count; i++)
		size -= mobile->storages[i].len < size ? mobile->storages[i].len : size;
	return size;
}

static int read_module(struct ckpt_document *doc, struct ckpt_flatbuffer *fb)
{
	struct ckpt_mobile *mobile = doc->container;
	struct ckpt_maker maker = { .arena = doc->pickle.arena, .pickle = &doc->pickle };
	struct ckpt_flatbuffer_table module = ckpt_flatbuffer_root(fb);

	snprintf(mobile->writer, sizeof(mobile->writer),
		 "the lite interpreter of torch (bytecode version %" PRIu64 ")",
		 ckpt_flatbuffer_scalar(fb, &module, MODULE_BYTECODE_VERSION, 4, 0));
	mobile->operators =
		(uint32_t)ckpt_flatbuffer_scalar(fb, &module, MODULE_OPERATOR_VERSION, 4, 0);
	if (read_storages(doc, fb, &module) == 0 &&
	    read_files(doc, fb, &module, MODULE_JIT_SOURCES, &mobile->sources,
		       &mobile->source_count) == 0 &&
	    read_files(doc, fb, &module, MODULE_EXTRA_FILES, &mobile->extras,
		       &mobile->extra_count) == 0)
		fb->rc = name_sources(mobile, fb->err);
	if (fb->rc == 0)
		ckpt_mobile_read_values(doc, &maker, fb, &module, &doc->pickle.root);
	ckpt_maker_clear(&maker);
	doc->pickle_len = metadata_bytes(doc);
	return fb->rc;
}

static int read_mobile(struct ckpt_opening *opening, struct ckpt_model **out,
		       struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT;
	struct ckpt_document *doc = new_document(opening->source);
	struct ckpt_flatbuffer fb;
	int rc;

	*out = NULL;
	if (!doc)
		return ckpt_fail_nomem(err);
	rc = ckpt_flatbuffer_open(&fb, opening->source, err ? err : &local);
	if (rc == 0)
		rc = read_module(doc, &fb);
	ckpt_flatbuffer_clear(&fb);
	if (rc < 0) {
		ckpt_document_unref(doc);
		return rc;
	}
	rc = ckpt_model_new(doc, out, err);
	if (rc == 0)
		place_storages((*out)->doc);
	return rc;
}

/* ---- for struct ckpt_format ---- */

static int visit_places(const struct ckpt_mobile_place *places, uint32_t count,
			enum ckpt_record_kind kind,
			int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx)
{
	char number[32];
	int rc = 0;

	for (uint32_t i = 0; rc >= 0 && i < count; i++) {
		struct ckpt_record record = { .size = sizeof(record),
					      .name = places[i].name,
					      .kind = kind,
					      .nbytes = places[i].len,
					      .stored = places[i].len };

		snprintf(number, sizeof(number), "storage_data/%" PRIu32, i);
		if (!record.name)
			record.name = number;
		rc = visit(ctx, &record);
	}
	return rc;
}

static int records(const struct ckpt_model *model,
		   int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
		   struct ckpt_error *err)
{
	const struct ckpt_mobile *m = model->doc->container;
	int rc = visit_places(m->storages, m->storage_count, CKPT_RECORD_STORAGE, visit, ctx);

	(void)err;
	if (rc >= 0)
		rc = visit_places(m->sources, m->source_count, CKPT_RECORD_CODE, visit, ctx);
	if (rc >= 0)
		rc = visit_places(m->extras, m->extra_count, CKPT_RECORD_EXTRA, visit, ctx);
	return rc < 0 ? rc : 0;
}

static void describe_mobile(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_mobile *mobile = model->doc->container;

	out->format = "torch mobile";
	out->writer = mobile->writer;
	out->profile = "";
	out->archive_name = "";
	out->byteorder = "little";
	out->pickle_nbytes = 0;
	out->version = mobile->operators;
	out->alignment = 16;
	for (uint32_t i = 0; i < mobile->storage_count; i++)
		if (mobile->storages[i].len && mobile->storages[i].off % 16)
			out->alignment = 0;
	out->record_count =
		(uint64_t)mobile->storage_count + mobile->source_count + mobile->extra_count;
	out->is_program = true;
}

static int refuse(const struct ckpt_model *model, struct ckpt_error *err)
{
	return ckpt_error_at(
		err,
		ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is a mobile model, whose code only torch can write; 'ckpt convert' takes "
			"its state dict out"),
		ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

/* A part that an edit took out has no code, and can be saved. */
static int save(const struct ckpt_model *model, const char *path,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	return model->root == model->doc->pickle.root
		       ? refuse(model, err)
		       : ckpt_torch_zip_save(model, path, options, report, err);
}

static int save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
			 struct ckpt_save_report *report, struct ckpt_error *err)
{
	(void)options, (void)report;
	return refuse(model, err);
}

const struct ckpt_format ckpt_format_torch_mobile = {
	.name = "torch mobile",
	.code = CKPT_FORMAT_TORCH_MOBILE,
	.probe = probe,
	.read = read_mobile,
	.save = save,
	.save_in_place = save_in_place,
	.describe = describe_mobile,
	.records = records,
};
