/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_OUT_KIND_H
#define CKPT_TOOLS_OUT_KIND_H

#include "edit.h"

/*
 * What OUT is to be: one file, of which format, or a folder. One function answers that for every
 * command that writes a checkpoint, so that the name of OUT never says anything else than what is
 * in it. docs/formats.md has its answers as a table, which is also its test.
 *
 * In this order:
 *
 *  0. '-', and names of descriptors that are pipes: what 4. says, if that is one file.
 *  1. What the command or its options say: --to names a format, and --shard-size, --to npy, 'split',
 *     'reshard' and 'reindex' write a folder. A folder gets no name that ends as that of a file does,
 *     unless there is a folder of that name. --to allows any name of a file.
 *  2. A folder: OUT ends in a slash, or is one already. That is right for an edit of a DCP directory
 *     or of a Hugging Face set.
 *  3. How the name of OUT ends, in capitals or not. '.pt', '.pth', '.bin', '.ckpt' and their like
 *     are one torch.save file, '.safetensors' and '.npz' one file of that format, and the endings of
 *     formats that cannot be written, such as '.gguf', are refused.
 *  4. Any other name: edits keep the kind of IN; 'convert' and 'merge' write a torch.save file.
 *
 * An edit keeps the format: of a safetensors file it makes no torch.save file, nor the other way
 * round. The name alone decides whether a directory stays one: a DCP directory or any set becomes
 * one torch.save file, and a set of safetensors also one safetensors file. What would take a choice
 * (which state dict of a DCP directory is the safetensors file?) is refused, with the command that
 * makes it.
 */
enum out_rule {
	OUT_OF_EDIT,	/* keep the kind of IN, whose model is given */
	OUT_OF_CONVERT, /* a file of any format */
	OUT_OF_MERGE,	/* a file that torch or safetensors reads */
	OUT_IS_FOLDER,	/* 'split', 'reshard' and 'reindex', and some options of 'convert' */
};

struct out_wish {
	enum out_rule rule;
	const char *command; /* "split", for the hint */
	const char *options; /* "--ranks N", what the hint needs besides; NULL: nothing */
	const char *in, *out;
	const char *to;			/* of --to; NULL: not given */
	const struct ckpt_model *model; /* of an edit, which was opened as IN; else NULL */
	bool keeps_folder;		/* an edit that makes such a directory of one around a file */
	const struct edit_step *steps;	/* its steps, for the hint; NULL: they are unknown */
	size_t step_count;
};

/*
 * Set *FORMAT to what ckpt_save_options.format is to be. NULL: the format of IN. Prints why OUT
 * cannot be, and what to type instead. Returns the exit code.
 */
int choose_out(const struct out_wish *wish, const char **format);

/*
 * Is OUT a directory around one file, as IN is? Where WISH has that and IN is such a directory, OUT is one, too,
 * unless its name ends as that of a file does, and no directory has it.
 */
bool out_becomes_folder(const struct out_wish *wish);

#endif
