/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_DESTINATION_H
#define CKPT_BROADCAST_DESTINATION_H

#include "broadcast/manifest.h"
#include "job/world.h"

/*
 * Make the path on this node from what the user wrote: %h host, %n number of the node, %r rank, %l
 * local rank, %j job key, %u user, %b the name of SOURCE, %%. If there is one source, its name is
 * appended to a folder and to a path that ends with '/'. The caller frees *OUT. *FOUND_FOLDER: the name was appended
 * because a folder was found, which may be another matter on another node.
 */
int ckpt_destination(const char *wish, const struct ckpt_world *world, const char *source,
		     size_t source_count, char **out, bool *found_folder, struct ckpt_error *err);

/* Does every rank have a path of its own? If not, one rank of each node writes. */
bool ckpt_destination_is_per_rank(const char *wish);

/*
 * A copy that a broadcast wrote has a note beside it, or inside if it is a directory: which files
 * of the source it is a copy of, by size, inode, mtime and ctime, and which files it consists of. True if
 * all of that is as it was, and, if CRC is not NULL, the single file had that checksum.
 */
bool ckpt_staged_is_same(const struct ckpt_manifest *manifest, const char *path,
			 const uint32_t *crc);

/*
 * Did a broadcast write NAME in the directory PATH, or is it in the MANIFEST of what will replace
 * it? For ckpt_folder_own. False for everything in a directory without a note.
 */
bool ckpt_staged_is_own(const void *manifest, const char *path, const char *name);

/* Write the note. PATH: of a directory without its name, where it is. CRCS: by file, or NULL. */
int ckpt_staged_note(const struct ckpt_manifest *manifest, const char *path, const uint32_t *crcs,
		     struct ckpt_error *err);

/* Who may not read or enter the source any more may not read or enter the copy either. False: its modes cannot be set. */
bool ckpt_staged_tighten(const struct ckpt_manifest *manifest, const char *path);

/* The copy is used again: its note gets the time of now, so that it is not the next to be evicted. */
void ckpt_staged_touch(const struct ckpt_manifest *manifest, const char *path);

/* Remove the note, before the copy is replaced. */
void ckpt_staged_forget(const struct ckpt_manifest *manifest, const char *path);

#endif
