/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_WITH_CONFIG_H
#define CKPT_TOOLS_WITH_CONFIG_H

#include <ckpt/save.h>

#include <stdbool.h>

/* What is to be written beside plain weights. To be cleared. */
struct config_files {
	struct ckpt_side_file items[32];
	size_t count;
};

/*
 * Read config.json, without what it says of quantization, and the files of the tokenizer from beside the weights IN.
 * One that is there and cannot be read is an error. Returns the exit code, after a message.
 */
int read_config(const char *in, struct config_files *out);
void clear_config(struct config_files *files);

/* Note that config.json, or a file that says nothing else, beside OUT still says how weights were quantized, if it does. */
void note_config(const char *out);

/* Note that a file beside IN says how weights are quantized, and none beside OUT, which is in another folder. */
void note_config_left(const char *in, const char *out);

#endif
