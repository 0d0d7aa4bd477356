/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_AGREE_H
#define CKPT_BROADCAST_AGREE_H

#include "broadcast/transport.h"

#include <stdbool.h>

/*
 * How the ranks agree. Every rank calls the same functions in the same order; a rank that has
 * failed says so with its code and goes on.
 */
struct ckpt_agreement {
	struct ckpt_transport *transport;
	uint64_t patience_nsec; /* with a silent peer */
	char host[64];		/* of this rank */
	void *buffer;		/* of the transport */
	size_t buffer_size;
	bool broken;		/* the transport cannot be used any more */
	bool asked;		/* find_silent() was called */
	uint32_t failed_rank;	/* in the last vote that was not 0 */
	char text[1024];	/* the text of that rank, with its number and host */
};

/* Bytes that are sent at once, the same on all ranks; tests make it small. */
extern size_t ckpt_agree_buffer;

int ckpt_agreement_open(struct ckpt_agreement *out, struct ckpt_transport *transport,
			uint64_t patience_nsec, struct ckpt_error *err);
void ckpt_agreement_close(struct ckpt_agreement *agreement);

/*
 * Vote. CODE: 0, or what kind of failure this rank has, with TEXT. Returns the greatest code of all
 * ranks; AGREEMENT then has the text of the lowest rank with that code. CKPT_BROADCAST_LOST if no
 * vote is possible.
 */
int ckpt_agree(struct ckpt_agreement *agreement, int code, const char *text);

/*
 * The same, but AGREEMENT gets the texts of all ranks with that code, or as many as fit, and how
 * many more there are.
 */
int ckpt_agree_listing(struct ckpt_agreement *agreement, int code, const char *text);

/* ALL gets COUNT numbers of each rank, in the order of ranks; NULL: this rank needs none. */
int ckpt_agree_gather(struct ckpt_agreement *agreement, const uint64_t *numbers, size_t count,
		      uint64_t *all, struct ckpt_error *err);

/* Is the number the same on all ranks? */
int ckpt_agree_same(struct ckpt_agreement *agreement, uint64_t number, bool *same,
		    struct ckpt_error *err);

/* Do all ranks say yes? */
int ckpt_agree_all(struct ckpt_agreement *agreement, bool yes, bool *all, struct ckpt_error *err);

/* The greatest of all ranks, of each of up to 8 numbers. */
int ckpt_agree_most(struct ckpt_agreement *agreement, uint64_t *numbers, size_t count, struct ckpt_error *err);

/* The lowest rank that says yes; 0 if none does. */
int ckpt_agree_first(struct ckpt_agreement *agreement, bool yes, uint32_t *first,
		     struct ckpt_error *err);

/* Send LEN bytes from rank ROOT to all; BYTES has LEN bytes on all ranks. */
int ckpt_agree_send(struct ckpt_agreement *agreement, void *bytes, size_t len, uint32_t root,
		    struct ckpt_error *err);

#endif
