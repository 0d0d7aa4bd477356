/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of torch.export (.pt2). From torch 2.7 on the archive is one of torch's writer, with
 * a folder, records of raw bytes and JSON texts that describe them (torch/export/pt2_archive/).
 * Before, it was an ordinary zip of four files, three of them torch.save files
 * (torch/export/__init__.py). 2.7 and 2.8 have torch.save files inside the new archive.
 *
 * The model has, like an ExportedProgram, `state_dict`, `constants` and `example_inputs`.
 * Archives of several programs have these for each, under its name.
 *
 * What must stay true: state_dicts of the document has the `state_dict` of each program, which is
 * recognized by the address of that name; from torch 2.7 on, missing weights or constants are an
 * error, so that no tensors are left out silently.
 */
#include "format/torch_export.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 200, MOST_RECORD = 300 };

static const struct ckpt_bundle_kind kinds[] = {
	{ "data/weights/", "_config.json", CKPT_RECORD_MARK },
	{ "data/weights/", ".pt", CKPT_RECORD_PICKLE },
	{ "data/weights/", NULL, CKPT_RECORD_STORAGE },
	{ "data/constants/", "_config.json", CKPT_RECORD_MARK },
	{ "data/constants/", ".pt", CKPT_RECORD_PICKLE },
	{ "data/constants/", NULL, CKPT_RECORD_CONSTANT },
	{ "data/sample_inputs/", NULL, CKPT_RECORD_PICKLE },
	{ "data/aotinductor/", NULL, CKPT_RECORD_CODE },
	{ "models/", NULL, CKPT_RECORD_CODE },
	{ "extra/", NULL, CKPT_RECORD_EXTRA },
	{ "extra_files/", NULL, CKPT_RECORD_EXTRA },
	{ "serialized_exported_program.json", NULL, CKPT_RECORD_CODE },
	{ "serialized_", NULL, CKPT_RECORD_PICKLE },
	{ "archive_", NULL, CKPT_RECORD_MARK },
	{ "version", NULL, CKPT_RECORD_MARK },
	{ "byteorder", NULL, CKPT_RECORD_MARK },
	{ ".data/", NULL, CKPT_RECORD_MARK },
};

static const struct ckpt_bundle_format export_format = {
	.format = &ckpt_format_torch_export,
	.what = "torch.export program",
	.storage_path = "%s",
	.kinds = kinds,
	.kind_count = sizeof(kinds) / sizeof(kinds[0]),
};

static const char old_program[] = "serialized_exported_program.json", state_dict[] = "state_dict";

static bool probe(const struct ckpt_opening *opening)
{
	return opening->zip && (ckpt_bundle_has(opening->zip, "archive_format") ||
				ckpt_bundle_has(opening->zip, old_program));
}

static int add_value(struct ckpt_document *doc, struct ckpt_value *program, const char *name,
		     const struct ckpt_value *value, struct ckpt_error *err)
{
	struct ckpt_maker *maker = &ckpt_bundle_of(doc)->maker;

	if (name == state_dict && !ckpt_seq_add(doc->pickle.arena, &doc->state_dicts, value))
		return ckpt_fail_nomem(err);
	if (!ckpt_maker_put(maker, program, ckpt_maker_str(maker, name), value))
		return ckpt_fail_nomem(err);
	return 0;
}

/*
 * A torch.save file as NAME of the program. *FOUND: it is there, and not empty, as torch writes
 * it for None.
 */
static int add_archive(struct ckpt_document *doc, struct ckpt_value *program, const char *name,
		       const char *record, bool *found, struct ckpt_error *err)
{
	struct ckpt_zip_entry *entry = ckpt_bundle_record(ckpt_bundle_of(doc), record);
	const struct ckpt_value *value;
	int rc;

	*found = entry && entry->usize;
	if (!*found)
		return 0;
	rc = ckpt_bundle_archive(doc, entry, &value, err);
	return rc < 0 ? rc : add_value(doc, program, name, value, err);
}

/* ---- torch 2.1 to 2.6 ---- */

static int read_old(struct ckpt_document *doc, struct ckpt_value *program, struct ckpt_error *err)
{
	/* torch 2.1 has the same files under other names */
	static const struct {
		const char *name, *record, *older;
	} parts[] = {
		{ state_dict, "serialized_state_dict.pt", "serialized_state_dict.json" },
		{ "constants", "serialized_constants.pt", "serialized_constants.json" },
		{ "example_inputs", "serialized_example_inputs.pt", "" },
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		bool found;

		rc = add_archive(doc, program, parts[i].name, parts[i].record, &found, err);
		if (rc == 0 && !found)
			rc = add_archive(doc, program, parts[i].name, parts[i].older, &found, err);
	}
	return rc;
}

/* ---- torch 2.7 and later ---- */

/*
 * Of constants and weights there is either one torch.save file, or a text that says where each
 * is.
 */
static int add_payloads(struct ckpt_document *doc, struct ckpt_value *program, const char *model,
			const char *name, const char *kind, struct ckpt_error *err)
{
	struct ckpt_bundle *b = ckpt_bundle_of(doc);
	char record[MOST_RECORD], folder[32], shown[MOST_RECORD];
	struct ckpt_zip_entry *config;
	struct ckpt_value *mapping;
	bool found;
	int rc;

	snprintf(folder, sizeof(folder), "data/%s/", kind);
	snprintf(record, sizeof(record), "%s%s.pt", folder, model);
	rc = add_archive(doc, program, name, record, &found, err);
	if (rc < 0 || found)
		return rc;
	snprintf(record, sizeof(record), "%s%s_%s_config.json", folder, model, kind);
	config = ckpt_bundle_record(b, record);
	if (!config)
		return ckpt_fail(err, CKPT_E_FORMAT, "the record '%s' is missing",
				 ckpt_escape(shown, sizeof(shown), record, strlen(record)));
	mapping = name == state_dict ? ckpt_maker_ordered_dict(&b->maker)
				     : ckpt_maker_node(&b->maker, CKPT_DICT);
	if (!mapping)
		return ckpt_fail_nomem(err);
	rc = ckpt_export_read_config(doc, config, folder, mapping, err);
	return rc < 0 ? rc : add_value(doc, program, name, mapping, err);
}

static int read_program(struct ckpt_document *doc, const char *model, struct ckpt_value **out,
			struct ckpt_error *err)
{
	struct ckpt_value *program = ckpt_maker_node(&ckpt_bundle_of(doc)->maker, CKPT_DICT);
	char record[MOST_RECORD];
	bool found;
	int rc;

	*out = program;
	if (!program)
		return ckpt_fail_nomem(err);
	rc = add_payloads(doc, program, model, state_dict, "weights", err);
	if (rc == 0)
		rc = add_payloads(doc, program, model, "constants", "constants", err);
	snprintf(record, sizeof(record), "data/sample_inputs/%s.pt", model);
	return rc < 0 ? rc : add_archive(doc, program, "example_inputs", record, &found, err);
}

/* "models/NAME.json": NAME, else "". */
static void model_name(const char *record, char out[MOST_NAME])
{
	size_t len = strlen(record);

	out[0] = '\0';
	if (len > 12 && len - 12 < MOST_NAME && !strncmp(record, "models/", 7) &&
	    !strcmp(record + len - 5, ".json"))
		snprintf(out, MOST_NAME, "%.*s", (int)len - 12, record + 7);
}

static int read_new(struct ckpt_document *doc, struct ckpt_value **root, struct ckpt_error *err)
{
	struct ckpt_bundle *b = ckpt_bundle_of(doc);
	struct ckpt_value *only = NULL;
	uint32_t count = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < b->tz->zip->count; i++) {
		char name[MOST_NAME], shown[MOST_NAME];

		model_name(ckpt_bundle_name(b, &b->tz->zip->entries[i]), name);
		if (!*name)
			continue;
		rc = read_program(doc, name, &only, err);
		if (rc == 0)
			rc = add_value(doc, *root, name, only, err);
		else if (err && !err->record[0])
			ckpt_error_at(err, rc, NULL,
				      ckpt_escape(shown, sizeof(shown), name, strlen(name)),
				      CKPT_NO_OFFSET);
		count++;
	}
	if (count == 1)
		*root = only;
	return rc;
}

/* ---- the whole ---- */

static int read_versions(struct ckpt_bundle *b, bool old, struct ckpt_error *err)
{
	char format[16], version[16], shown[40];
	int rc = ckpt_bundle_text(b, old ? "version" : "archive_version", version, sizeof(version),
				  err);

	if (rc == 0 && !old)
		rc = ckpt_bundle_text(b, "archive_format", format, sizeof(format), err);
	if (rc == 0 && !old && strcmp(format, "pt2"))
		return ckpt_error_at(
			err,
			ckpt_fail(err, CKPT_E_UNSUPPORTED, "archive format '%s', wanted 'pt2'",
				  ckpt_escape(shown, sizeof(shown), format, strlen(format))),
			NULL, "archive_format", CKPT_NO_OFFSET);
	ckpt_escape(shown, sizeof(shown), version, strlen(version));
	snprintf(b->writer, sizeof(b->writer), "torch.export of %s (version %s of its %s)",
		 old ? "torch 2.1 to 2.6" : "torch 2.7 or later", *shown ? shown : "0",
		 old ? "schema" : "archive");
	return rc;
}

static int read_export(struct ckpt_opening *opening, struct ckpt_model **out,
		       struct ckpt_error *err)
{
	struct ckpt_document *doc;
	struct ckpt_value *root;
	bool old;
	int rc = ckpt_bundle_open(&export_format, opening, &doc, err);

	*out = NULL;
	if (rc < 0)
		return rc;
	old = ckpt_bundle_record(ckpt_bundle_of(doc), old_program);
	root = ckpt_maker_node(&ckpt_bundle_of(doc)->maker, CKPT_DICT);
	rc = root ? read_versions(ckpt_bundle_of(doc), old, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = old ? read_old(doc, root, err) : read_new(doc, &root, err);
	if (rc == 0)
		return ckpt_bundle_finish(doc, root, out, err);
	ckpt_document_unref(doc);
	return rc;
}

static void describe_export(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	out->format = "torch export";
	out->writer = ckpt_bundle_of(model->doc)->writer;
	out->profile = "";
	out->is_program = true;
	ckpt_bundle_describe(model, out);
}

const struct ckpt_format ckpt_format_torch_export = {
	.name = "torch export",
	.code = CKPT_FORMAT_TORCH_EXPORT,
	.probe = probe,
	.read = read_export,
	.save = ckpt_bundle_save,
	.save_in_place = ckpt_bundle_save_in_place,
	.describe = describe_export,
	.records = ckpt_bundle_records,
};
