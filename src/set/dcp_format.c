/* SPDX-License-Identifier: Apache-2.0 */
#include "set/dcp.h"
#include "set/dcp_save.h"

static void describe(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_dcp *dcp = ckpt_dcp_of(model);

	out->format = "DCP directory";
	out->writer = "";
	out->profile = "";
	out->archive_name = "";
	out->byteorder = "";
	ckpt_document_disk_bytes(model->doc, &out->file_nbytes);
	out->record_count = dcp->index.chunk_count;
	out->has_crc = true;
	out->alignment = 64;
}

static int save(const struct ckpt_model *model, const char *path,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	if (!options->ranks && model->doc->format == &ckpt_format_dcp)
		return ckpt_dcp_save_edited(model, path, options, report, err);
	return ckpt_dcp_save_split(model, path, options, report, err);
}

const struct ckpt_format ckpt_format_dcp = {
	.name = "DCP directory",
	.save = save,
	.save_in_place = ckpt_dcp_save_in_place,
	.describe = describe,
};
