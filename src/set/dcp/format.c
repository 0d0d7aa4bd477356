/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "set/dcp/dcp.h"
#include "set/dcp/item_writer.h"
#include "set/dcp/save.h"
#include "set/dcp/check_directory.h"
#include "set/fields.h"

#include <string.h>

/* Which releases write such an index: the classes it names and the attributes it has. */
static const char *writer_of(const struct ckpt_dcp *dcp)
{
	const struct ckpt_value *root = dcp->index.root, *state = ckpt_fields_object_state(root);
	const struct ckpt_value *properties = NULL, *entry;

	if (root->u.call->func->kind == CKPT_GLOBAL &&
	    !strncmp(root->u.call->func->u.global->module, "torch.distributed._shard.", 25))
		return "torch 1.13";
	for (uint32_t i = 0; i < dcp->index.entry_count && !properties; i++) {
		entry = ckpt_fields_object_state(dcp->index.entries[i].metadata);
		properties = entry ? ckpt_fields_find(entry, "properties") : NULL;
	}
	if (properties && properties->u.call->func->kind == CKPT_GLOBAL &&
	    !strncmp(properties->u.call->func->u.global->module, "torch.distributed._shard.", 25))
		return "torch 2.0 to 2.2";
	if (ckpt_fields_find(state, "version"))
		return "torch 2.9 or later";
	return ckpt_fields_find(state, "storage_meta") ? "torch 2.4 to 2.8" : "torch 2.3";
}

static void describe(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_dcp *dcp = ckpt_dcp_of(model);

	out->format = "DCP directory";
	out->writer = writer_of(dcp);
	out->profile = "";
	out->archive_name = "";
	out->byteorder = "";
	ckpt_model_disk_bytes(model, &out->file_nbytes);
	out->record_count = dcp->index.chunk_count;
	out->pickle_nbytes = ckpt_source_size(model->doc->source);
	out->file_count = dcp->index.file_count;
}

/* A new index over the same data files: safetensors have the names, too, and do not change. */
static int check_edit(const struct ckpt_model *model, struct ckpt_error *err)
{
	if (!ckpt_dcp_has_safetensors(ckpt_dcp_of(model)))
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_UNSUPPORTED,
				       "its data files are safetensors, which an edited index "
				       "could not use; 'ckpt reshard' writes torch's own"),
			     ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

/* The index says each name twice, and has no checksum: what of it is not the same was damaged. */
static int check_save(const struct ckpt_model *model, struct ckpt_error *err)
{
	const struct ckpt_dcp_index *x = &ckpt_dcp_of(model)->index;
	char shown[160];

	for (uint32_t i = 0; !model->doc->ignores_checksums && i < x->entry_count; i++) {
		const struct ckpt_dcp_entry *e = &x->entries[i];

		if (e->path && !ckpt_dcp_path_spells(e->path, e->fqn))
			return ckpt_error_at(
				err,
				ckpt_fail(err, CKPT_E_DAMAGED,
					  "its path says another name than '%s'",
					  ckpt_escape(shown, sizeof(shown), e->fqn->u.bytes.ptr,
						      e->fqn->u.bytes.len)),
				ckpt_source_path(model->doc->source), NULL, e->path->pos);
	}
	return 0;
}

static int save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
			 struct ckpt_save_report *report, struct ckpt_error *err)
{
	int rc = check_save(model, err);

	if (rc == 0)
		rc = check_edit(model, err);
	return rc < 0 ? rc : ckpt_dcp_save_in_place(model, options, report, err);
}

static int save(const struct ckpt_model *model, const char *path,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	int rc;

	if (!options->ranks && model->doc->format == &ckpt_format_dcp) {
		rc = check_edit(model, err);
		return rc < 0 ? rc : ckpt_dcp_save_edited(model, path, options, report, err);
	}
	return ckpt_dcp_save_split(model, path, options, report, err);
}

const struct ckpt_format ckpt_format_dcp = {
	.name = "DCP directory",
	.code = CKPT_FORMAT_DCP,
	.notes = ckpt_dcp_check_directory,
	.save = save,
	.check_save = check_save,
	.save_in_place = save_in_place,
	.describe = describe,
	.box = ckpt_dcp_box,
};
