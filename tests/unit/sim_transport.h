/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_SIM_TRANSPORT_H
#define CKPT_TESTS_SIM_TRANSPORT_H

#include "broadcast/transport.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * Ranks that are threads of one process, and what can go wrong between them. Each rank counts its own calls
 * of begin() and vote(), from 1.
 */
enum { SIM_MOST_RANKS = 16, SIM_OPS = 64, SIM_NUMBERS = 8, SIM_NEVER = 0 };

struct sim_op {
	void *from; /* the root's bytes, a copy: it may die; NULL: not there yet */
	unsigned long seq;
	unsigned taken;
};

struct sim {
	uint32_t size;
	uint32_t victim;   /* the rank to which something happens */
	unsigned dies_at;  /* its call that never returns to the others: it is gone from then on */
	unsigned flips_at; /* its call that brings one wrong byte */
	unsigned hangs_at; /* its call that takes HANGS_MS */
	unsigned hangs_ms;
	bool slow; /* test() says "not yet" now and then */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct sim_op ops[SIM_OPS];
	uint64_t carried;    /* bytes that roots gave */
	unsigned long votes; /* that are over */
	unsigned voters;
	uint64_t greatest[SIM_NUMBERS], result[SIM_NUMBERS];
};

void sim_init(struct sim *sim, uint32_t size);
void sim_clear(struct sim *sim);

/* For rank RANK; closed by the one who uses it. */
struct ckpt_transport *sim_open(struct sim *sim, uint32_t rank);

#endif
