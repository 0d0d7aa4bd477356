/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints in a folder. */
#ifndef CKPT_FIND_H
#define CKPT_FIND_H

#include <ckpt/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ckpt_found {
	CKPT_FOUND_CHECKPOINT, /* a file, or a directory that is one checkpoint; it may be damaged */
	CKPT_FOUND_OTHER,      /* a file that is no checkpoint */
	/* a file or folder that cannot be read, or a link to a folder elsewhere */
	CKPT_FOUND_UNREADABLE,
};

/*
 * Call VISIT for every file in the folder PATH and in those below it, in the order of their paths;
 * a negative status stops and is returned. Directories that are one checkpoint (of shards, of
 * ranks, of torch.distributed.checkpoint, DeepSpeed ...) are visited as one, not their files. A
 * file is a checkpoint if its first bytes or the directory of its archive look like one, or if its
 * name ends as only those of checkpoints do: cut files and web pages in place of a model are to be
 * noticed. Links to files are followed, and links to folders are not, unless these are checkpoints.
 *
 * If PATH itself is a file, or a directory that ckpt_open() takes as one checkpoint, it is the only
 * one that is visited, as a checkpoint, whatever is in it. A folder that ckpt_open() takes only as
 * the one .safetensors file in it is a folder of many if there are other checkpoints beside that.
 *
 * WHY says what is wrong with what is UNREADABLE, else it is NULL. Its strings, and PATH, are valid
 * during the call. PATH is not escaped. Returns 0, CKPT_E_IO if PATH cannot be read, CKPT_E_LIMIT
 * (more than 1,048,576 folders) or CKPT_E_NOMEM.
 */
CKPT_API int ckpt_find_checkpoints(const char *path,
				   int (*visit)(void *ctx, const char *path, enum ckpt_found found,
						const struct ckpt_error *why),
				   void *ctx, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
