/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_WITH_CONFIG_H
#define CKPT_TOOLS_WITH_CONFIG_H

#include <stdbool.h>

/* Could copy_config() do its work? Before anything is written. Returns the exit code, after a message. */
int check_config(const char *in, const char *out, bool force);

/*
 * Copy config.json, without what it says of quantization, and the files of the tokenizer from beside the weights IN to
 * beside OUT, which is there. Returns the exit code, after a message.
 */
int copy_config(const char *in, const char *out);

/* Note that config.json beside OUT still says how weights were quantized, if it does. */
void note_config(const char *out);

/*
 * IN is a folder of one file of weights, and OUT is named like a folder: let *OUT be the file of that name in it, in BUF of
 * PATH_MAX bytes. True: so it is.
 */
bool find_single_file(const char *in, const char **out, char *buf);

#endif
