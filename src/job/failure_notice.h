/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_FAILURE_NOTICE_H
#define CKPT_JOB_FAILURE_NOTICE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Why all ranks end, as the rank that could not go on tells it to the others: they end with the same
 * status and the same sentence.
 */
struct ckpt_failure_notice {
	int status;    /* enum ckpt_status, below 0 */
	int signal;    /* with CKPT_E_CANCELLED: the value of its cancel flag */
	uint32_t rank; /* whose failure it is */
	char text[940]; /* "rank 1 (nodeB): interrupted"; more than fits in an error */
};

/*
 * From the error of this rank. What it was told itself (CKPT_E_PEER) is not said to be its own: then the
 * text is that of WHY alone.
 */
void ckpt_failure_notice_make(uint32_t rank, const char *host, const struct ckpt_error *why, int signal,
			      struct ckpt_failure_notice *out);

enum { CKPT_MOST_FAILURE_NOTICE = 12 + 940 }; /* bytes */

/* Returns how many bytes. */
size_t ckpt_failure_notice_write(const struct ckpt_failure_notice *notice,
				 uint8_t out[CKPT_MOST_FAILURE_NOTICE]);

/* Whatever the bytes are, *OUT is a failure, and its text can be printed. */
void ckpt_failure_notice_read(const uint8_t *bytes, size_t len, struct ckpt_failure_notice *out);

/* Puts the text into ERR. Returns the status. */
int ckpt_failure_notice_fail(const struct ckpt_failure_notice *notice, struct ckpt_error *err);

#endif
