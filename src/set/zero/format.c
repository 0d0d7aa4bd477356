/* SPDX-License-Identifier: Apache-2.0 */
#include "set/zero/zero.h"

#include "format/torch_zip.h"

#include <inttypes.h>
#include <stdio.h>

enum { NOTE = 700 };

static const char *const names[] = { "DeepSpeed ZeRO-1 directory", "DeepSpeed ZeRO-2 directory",
				     "DeepSpeed ZeRO-3 directory" };

static void describe(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_zero *z = model->doc->container;

	out->format =
		z->is_bf16_optimizer ? "DeepSpeed BF16_Optimizer directory" : names[z->stage - 1];
	out->writer = z->writer;
	out->profile = "";
	out->archive_name = "";
	out->byteorder = "";
	ckpt_model_disk_bytes(model, &out->file_nbytes);
	out->pickle_nbytes = model->doc->pickle_len;
	out->file_count = z->file_count;
}

int ckpt_zero_check_directory(const struct ckpt_model *model,
			      void (*note)(void *ctx, const char *text), void *ctx,
			      struct ckpt_error *err)
{
	const struct ckpt_zero *z = model->doc->container;
	char text[NOTE];
	(void)err;

	if (z->frozen_narrow) {
		snprintf(text, sizeof(text),
			 "%" PRIu32 " frozen parameter%s kept as %s, as DeepSpeed saved %s",
			 z->frozen_narrow, z->frozen_narrow == 1 ? " is" : "s are",
			 ckpt_dtype_name(z->frozen_dtype), z->frozen_narrow == 1 ? "it" : "them");
		note(ctx, text);
	}
	if (z->left_out) {
		snprintf(text, sizeof(text),
			 "%" PRIu32
			 " tensor%s of 'module' %s in no list of parameters or buffers, and left "
			 "out: '%s'%s",
			 z->left_out, z->left_out == 1 ? "" : "s", z->left_out == 1 ? "is" : "are",
			 z->first_left_out, z->left_out == 1 ? "" : " ...");
		note(ctx, text);
	}
	if (z->dp_world_size && z->dp_world_size != z->names.optim_count) {
		snprintf(text, sizeof(text),
			 "the model states speak of %" PRIu64
			 " data-parallel ranks, the weights are cut among %" PRIu32,
			 z->dp_world_size, z->names.optim_count);
		note(ctx, text);
	}
	return 0;
}

const struct ckpt_format ckpt_format_zero = {
	.name = "DeepSpeed directory",
	.code = CKPT_FORMAT_DEEPSPEED,
	.notes = ckpt_zero_check_directory,
	/* there is no writing of such directories: what is made of one is one file */
	.save = ckpt_torch_zip_save,
	.describe = describe,
};
