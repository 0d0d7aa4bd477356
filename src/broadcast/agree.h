/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_AGREE_H
#define CKPT_BROADCAST_AGREE_H

#include "broadcast/transport.h"

#include <stdbool.h>

/*
 * How the ranks come to one mind. Every rank calls the same functions in the same order; a rank
 * that has failed says so with its code and goes on.
 */
struct ckpt_agreement {
	struct ckpt_transport *transport;
	uint64_t patience_nsec; /* with a silent peer */
	char host[64];		/* of this rank */
	void *buffer;		/* of the transport */
	bool broken;		/* the transport is of no use any more */
	bool asked;		/* who does not answer */
	uint32_t failed_rank;	/* of the last vote that was not 0 */
	char text[1024];	/* what that rank said, with its name and host */
};

int ckpt_agreement_open(struct ckpt_agreement *out, struct ckpt_transport *transport,
			uint64_t patience_nsec, struct ckpt_error *err);
void ckpt_agreement_close(struct ckpt_agreement *agreement);

/*
 * CODE: 0, or what kind of thing failed on this rank, said by TEXT. Returns the greatest code of
 * all ranks; TEXT of the lowest rank that has it is in AGREEMENT then. If the ranks cannot be asked
 * that is a code, too: CKPT_BROADCAST_LOST.
 */
int ckpt_agree(struct ckpt_agreement *agreement, int code, const char *text);

/*
 * The same, but AGREEMENT has what all ranks with that code say, or as many as there is room for,
 * and how many more.
 */
int ckpt_agree_listing(struct ckpt_agreement *agreement, int code, const char *text);

/* COUNT numbers of each rank in ALL, in the order of ranks; NULL: this rank does not want them. */
int ckpt_agree_gather(struct ckpt_agreement *agreement, const uint64_t *numbers, size_t count,
		      uint64_t *all, struct ckpt_error *err);

/* The same number on all ranks? */
int ckpt_agree_same(struct ckpt_agreement *agreement, uint64_t number, bool *same,
		    struct ckpt_error *err);

/* Whether all ranks say yes. */
int ckpt_agree_all(struct ckpt_agreement *agreement, bool yes, bool *all, struct ckpt_error *err);

/* The lowest rank that says yes; 0 if none does. */
int ckpt_agree_first(struct ckpt_agreement *agreement, bool yes, uint32_t *first,
		     struct ckpt_error *err);

/* LEN bytes from rank ROOT to all; the others have as much room. */
int ckpt_agree_send(struct ckpt_agreement *agreement, void *bytes, size_t len, uint32_t root,
		    struct ckpt_error *err);

#endif
