/* SPDX-License-Identifier: Apache-2.0 */
/* What ckpt_format asks about a TorchScript archive: facts, records and notes. */
#include "format/torch_script.h"

#include <stdlib.h>
#include <string.h>

static bool begins_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static enum ckpt_record_kind kind_of(const char *record)
{
	static const struct {
		const char *begin;
		enum ckpt_record_kind kind;
	} folders[] = {
		{ "data/", CKPT_RECORD_STORAGE },	{ "traced_inputs/", CKPT_RECORD_STORAGE },
		{ "constants/", CKPT_RECORD_CONSTANT }, { "bytecode/", CKPT_RECORD_CONSTANT },
		{ "code/", CKPT_RECORD_CODE },		{ "extra/", CKPT_RECORD_EXTRA },
	};
	static const char *const marks[] = { "version", ".data/version", "byteorder",
					     ".data/serialization_id" };
	size_t len = strlen(record);

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (begins_with(record, folders[i].begin))
			return folders[i].kind;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (!strcmp(record, marks[i]))
			return CKPT_RECORD_MARK;
	return len > 4 && !strcmp(record + len - 4, ".pkl") ? CKPT_RECORD_PICKLE
							    : CKPT_RECORD_OTHER;
}

int ckpt_torch_script_records(const struct ckpt_model *model,
			      int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			      struct ckpt_error *err)
{
	const struct ckpt_torch_script *script = model->doc->container;
	const struct ckpt_zip *zip = script->tz->zip;
	int rc = 0;

	(void)err;
	for (uint32_t i = 0; rc >= 0 && i < zip->count; i++) {
		struct ckpt_record record =
			ckpt_zip_describe(&zip->entries[i], strlen(script->tz->archive_name) + 1);

		record.kind = kind_of(record.name);
		rc = visit(ctx, &record);
	}
	return rc < 0 ? rc : 0;
}

void ckpt_torch_script_describe(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_torch_script *script = model->doc->container;
	const struct ckpt_torch_zip *tz = script->tz;

	out->format = "TorchScript";
	out->writer = tz->byteorder[0] ? "torch.jit.save of torch 2.1 or later"
				       : "torch.jit.save of torch 1.4 to 2.0";
	out->profile = "";
	out->archive_name = tz->archive_name;
	out->byteorder = tz->byteorder;
	out->record_count = tz->zip->count;
	out->alignment = ckpt_torch_zip_record(tz, "data.pkl")->data_off % 64 ? 0 : 64;
	out->has_crc = true;
	out->compressed = tz->compressed;
	out->is_program = true;
	out->version = (uint32_t)strtoul(tz->version, NULL, 10);
}

int ckpt_torch_script_notes(const struct ckpt_model *model,
			    void (*note)(void *ctx, const char *text), void *ctx,
			    struct ckpt_error *err)
{
	const struct ckpt_torch_script *script = model->doc->container;

	(void)err;
	if (ckpt_torch_zip_record(script->tz, "bytecode.pkl"))
		note(ctx,
		     "for the lite interpreter of phones: bytecode.pkl has the code once more");
	if (ckpt_torch_zip_record(script->tz, "traced_inputs.pkl"))
		note(ctx, "traced_inputs.pkl has examples of inputs, which are not listed");
	return 0;
}
