/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_ERROR_H
#define CKPT_BASE_ERROR_H

#include <ckpt/error.h>

/* Say what went wrong. Returns STATUS. Only for the deepest level: it starts ERR anew. */
int ckpt_fail(struct ckpt_error *err, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As ckpt_fail(CKPT_E_IO), for a failed system call: appends the text of errno. */
int ckpt_fail_errno(struct ckpt_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

int ckpt_fail_nomem(struct ckpt_error *err);

/*
 * Add where it happened: each of PATH, RECORD, OFFSET that is given and not yet set. Returns RC and
 * does nothing if RC is 0, so it can close every function.
 */
int ckpt_error_at(struct ckpt_error *err, int rc, const char *path, const char *record,
		  uint64_t offset);

#endif
