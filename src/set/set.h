/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_SET_H
#define CKPT_SET_SET_H

#include "model/model.h"

#include <ckpt/save.h>

/*
 * A checkpoint of many files: open the directory PATH, whatever kind it is. What it is that cannot
 * be opened, and what state it is in, goes to ERR: CKPT_E_UNSUPPORTED, or CKPT_E_FORMAT for an
 * incomplete one.
 */
int ckpt_set_open(const char *path, struct ckpt_model **out, struct ckpt_error *err);

/* How much of a folder is one checkpoint, by the names in it. */
enum ckpt_set_extent {
	CKPT_SET_NONE,	 /* it is a folder like any other */
	CKPT_SET_ONLY,	 /* the only .safetensors file in it, whatever its name */
	CKPT_SET_SINGLE, /* one file, which has the name of a whole model */
	CKPT_SET_FILES,	 /* the files in it; folders are others */
	CKPT_SET_WHOLE,	 /* all that is in it; or it is of a kind that ckpt_set_open() explains */
};

/* A folder that cannot be listed is CKPT_SET_NONE: listing it again says why. Returns 0 or CKPT_E_NOMEM. */
int ckpt_set_extent(const char *path, enum ckpt_set_extent *out, struct ckpt_error *err);

/*
 * Is it the index of a shard set (model.safetensors.index.json), which ckpt_set_open() takes as
 * well?
 */
bool ckpt_set_is_index(const char *path);

/* CKPT_E_OUTPUT if the folder PATH has the index of a shard set: loaders go by that, and would never see another file in it. */
int ckpt_set_refuse_index(const char *path, struct ckpt_error *err);

/*
 * The pickle of the directory's index (NAME NULL), or the item of the value or tensor NAME: of a
 * tensor its first chunk, as a torch.save file. *OUT is the caller's.
 */
int ckpt_set_open_pickle(const char *path, const char *name, struct ckpt_source **out,
			 struct ckpt_error *err);

/* The format of directories that NAME, of ckpt_save_options, stands for; NULL: none. */
const struct ckpt_format *ckpt_set_format(const char *name);

/*
 * A shard set: files of at most options->shard_size bytes, or BY_RANK one for each of
 * options->ranks.
 */
int ckpt_set_save_shards(const struct ckpt_model *model, const char *path, bool by_rank,
			 const struct ckpt_save_options *options, struct ckpt_save_report *report,
			 struct ckpt_error *err);

#endif
