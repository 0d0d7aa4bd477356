/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_NOTE_H
#define CKPT_JOB_NOTE_H

#include "base/error.h"
#include "job/process_mark.h"

#include <stdint.h>
#include <sys/types.h>

/* Small files by which processes talk in a folder; they appear as a whole and have a checksum. */
struct ckpt_note {
	uint32_t rank, size; /* who wrote it: its place in the world as it sees it */
	uint32_t pid;
	struct ckpt_process_mark process;
	uint64_t nonce; /* a number that no other process has */
	char host[64];
	size_t len;
	uint8_t *bytes; /* owned after ckpt_note_read() */
};

enum { CKPT_MOST_NOTE = 16 << 20 }; /* bytes */

/* Readable only by its owner. NAME is replaced if it exists. */
int ckpt_note_write(const char *folder, const char *name, const struct ckpt_note *note,
		    struct ckpt_error *err);

enum ckpt_note_found {
	CKPT_NOTE_NONE,	   /* no such file of user UID: not yet, or not any more */
	CKPT_NOTE_WHOLE,   /* only this one has to be cleared */
	CKPT_NOTE_DAMAGED, /* cut short, with a wrong checksum, or of another version of ckpt */
};

/* An enum ckpt_note_found, or CKPT_E_IO, CKPT_E_NOMEM. */
int ckpt_note_read(const char *folder, const char *name, uid_t uid, struct ckpt_note *out,
		   struct ckpt_error *err);
void ckpt_note_clear(struct ckpt_note *note);

/*
 * When it was last written or touched, by the clock of the file server, in nanoseconds; -1: it does
 * not exist.
 */
int64_t ckpt_note_mtime(const char *folder, const char *name, uid_t uid);
void ckpt_note_touch(const char *folder, const char *name);

#endif
