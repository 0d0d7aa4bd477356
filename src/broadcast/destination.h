/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_DESTINATION_H
#define CKPT_BROADCAST_DESTINATION_H

#include "broadcast/manifest.h"
#include "job/world.h"

/*
 * The path on this node from what the user wrote: %h host, %n number of the node, %r rank, %l local
 * rank, %j job key, %u user, %b the name of SOURCE, %%. A folder, or a path that ends with '/',
 * gets the source's name behind it, where it is one file or directory. Caller frees *OUT.
 */
int ckpt_destination(const char *wish, const struct ckpt_world *world, const char *source,
		     size_t source_count, char **out, struct ckpt_error *err);

/* Does every rank have a path of its own? If not, one rank of each node writes. */
bool ckpt_destination_is_per_rank(const char *wish);

/*
 * What was staged is known by a file beside it, or in it if it is a directory: which files of the
 * source it is a copy of, by size, inode and time, and which files it consists of. True if all of
 * that is as it was, and the one file had CRC, if that is not NULL.
 */
bool ckpt_staged_is_same(const struct ckpt_manifest *manifest, const char *path,
			 const uint32_t *crc);

/*
 * Was NAME, in the directory PATH, staged there, or is it in the MANIFEST of what takes its place?
 * For ckpt_folder_own. A directory that was not staged has nothing that is.
 */
bool ckpt_staged_is_own(const void *manifest, const char *path, const char *name);

/* PATH: of a directory that is being made the one where it is for now. CRCS: by file, or NULL. */
int ckpt_staged_note(const struct ckpt_manifest *manifest, const char *path, const uint32_t *crcs,
		     struct ckpt_error *err);

/* What is about to be replaced is not staged any more. */
void ckpt_staged_forget(const struct ckpt_manifest *manifest, const char *path);

#endif
