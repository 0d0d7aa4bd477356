/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_ERROR_H
#define CKPT_BASE_ERROR_H

#include <ckpt/error.h>

/* Say what went wrong. Returns STATUS. Only for the deepest level: it overwrites ERR. */
int ckpt_fail(struct ckpt_error *err, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As ckpt_fail() with CKPT_E_IO, for a failed system call: appends the text of errno. */
int ckpt_fail_errno(struct ckpt_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

int ckpt_fail_nomem(struct ckpt_error *err);

/* Set the reason of the error RC. Returns RC. */
int ckpt_error_because(struct ckpt_error *err, int rc, enum ckpt_reason reason);

/*
 * Put what FMT says in front of the text of ERR, such as "'model.w': ". The rest of ERR stays.
 * Does nothing if RC is no error, or one that is about no particular thing (out of memory,
 * cancelled). Returns RC.
 */
int ckpt_error_prefix(struct ckpt_error *err, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Append what FMT says to the text. */
void ckpt_error_append(struct ckpt_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* An error that was kept, for the caller: ERR, unless NULL, is set to WHY if RC is an error. Returns RC. */
int ckpt_error_pass(struct ckpt_error *err, int rc, const struct ckpt_error *why);

/* Copy the text alone, as it is printed, to BUF, as much as fits. Returns BUF. */
const char *ckpt_error_text(const struct ckpt_error *err, char *buf, size_t size);

/*
 * Add where it happened: each of PATH, RECORD, OFFSET that is given and not yet set. Returns RC and
 * does nothing if RC is 0, so it can close every function.
 */
int ckpt_error_at(struct ckpt_error *err, int rc, const char *path, const char *record,
		  uint64_t offset);

#endif
