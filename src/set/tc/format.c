/* SPDX-License-Identifier: Apache-2.0 */
#include "set/tc/tc.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 120, NOTE = 700 };

static void describe(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_tc *tc = model->doc->container;

	out->format = "torch_checkpointing directory";
	out->writer = strcmp(tc->index.version, "1.0") ? "torch_checkpointing (metadata 2.0)"
						       : "torch_checkpointing (metadata 1.0)";
	out->profile = "";
	out->archive_name = "";
	out->byteorder = "";
	ckpt_model_disk_bytes(model, &out->file_nbytes);
	out->record_count = tc->index.item_count;
	out->pickle_nbytes = ckpt_source_size(model->doc->source);
	out->file_count = tc->index.file_count;
}

/* Files that the metadata do not name and whose names say nothing. */
static int note_others(const struct ckpt_tc *tc, void (*note)(void *ctx, const char *text),
		       void *ctx, struct ckpt_error *err)
{
	struct ckpt_listing l;
	const char *first = NULL;
	char shown[SHOWN], text[NOTE];
	size_t count = 0;
	int rc = ckpt_listing_read(tc->path, &l, err);

	for (size_t i = 0; rc == 0 && i < l.count; i++) {
		const char *name = l.items[i].name;

		if (l.items[i].is_folder || !strcmp(name, CKPT_TC_INDEX) ||
		    ckpt_strmap_find(&tc->index.file_by_name, name, strlen(name)))
			continue;
		if (!count++)
			first = name;
	}
	if (count) {
		snprintf(text, sizeof(text),
			 "%zu file%s left out, which the metadata do not name and which are not "
			 "called <item>_<rank>.pt: '%s'%s",
			 count, count == 1 ? " is" : "s are",
			 ckpt_escape(shown, sizeof(shown), first, strlen(first)),
			 count == 1 ? "" : " ...");
		note(ctx, text);
	}
	if (rc == 0)
		ckpt_listing_clear(&l);
	return rc;
}

int ckpt_tc_check_directory(const struct ckpt_model *model,
			    void (*note)(void *ctx, const char *text), void *ctx,
			    struct ckpt_error *err)
{
	const struct ckpt_tc *tc = model->doc->container;
	char text[NOTE];

	if (tc->absent) {
		snprintf(text, sizeof(text), "%s; other ranks have all of it%s", tc->first_absent,
			 tc->absent > 1 ? ", and so with others" : "");
		note(ctx, text);
	}
	if (tc->differing) {
		snprintf(
			text, sizeof(text),
			"%u tensor%s that every rank has in full differ%s from rank to rank: '%s'%s; "
			"the lowest rank's is taken",
			tc->differing, tc->differing == 1 ? "" : "s", tc->differing == 1 ? "s" : "",
			tc->first_differing, tc->differing == 1 ? "" : " ...");
		note(ctx, text);
	}
	if (tc->index.left_out) {
		snprintf(text, sizeof(text),
			 "item '%s' is left out: it is not stored as torch.save does",
			 tc->index.left_out);
		note(ctx, text);
	}
	return note_others(tc, note, ctx, err);
}

const struct ckpt_format ckpt_format_tc = {
	.name = "torch_checkpointing directory",
	.code = CKPT_FORMAT_TORCH_CHECKPOINTING,
	.notes = ckpt_tc_check_directory,
	/* there is no writing of such directories: what is made of one is one file */
	.save = ckpt_torch_zip_save,
	.describe = describe,
};
