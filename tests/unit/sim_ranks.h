/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_SIM_RANKS_H
#define CKPT_TESTS_SIM_RANKS_H

#include "broadcast/broadcast.h"
#include "io/fault.h"
#include "sim_transport.h"

#include <stdatomic.h>

/* Whole broadcasts between threads, of one file in a folder of its own. Include behind unit.h. */
enum { CHUNK = 1 << 20, SIZE = 5 * CHUNK + 12345 };

extern char *folder, *source, *wish;
extern uint8_t *data; /* SIZE bytes, which the source has */

int sim_setup(void **state);
int sim_teardown(void **state);

struct rank {
	pthread_t thread;
	struct ckpt_session session;
	struct ckpt_transport *transport;
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	int rc;
};

extern struct rank ranks[SIM_MOST_RANKS];
extern struct ckpt_rendezvous *met_in; /* by rank 0, if a test sets it */

struct ckpt_broadcast_options options_for_tests(void);

/* One broadcast of SOURCES in all ranks of SIM. */
void broadcast(struct sim *sim, const char *const *sources, size_t count,
	       const struct ckpt_broadcast_options *options);

/* The same in two steps, where the ranks are to have different options. */
void start_rank(struct sim *sim, uint32_t rank, const char *const *sources, size_t count,
		const struct ckpt_broadcast_options *options);
void join_ranks(struct sim *sim);

char *path_for(uint32_t rank); /* to be freed */
bool exists(uint32_t rank);
void check_file(uint32_t rank, size_t size);
void check_codes(const struct sim *sim, int code);

/* What the first SIZE ranks made, and nothing else, is there besides the source; it goes. */
void remove_outputs(uint32_t size);

/* ---- hooks of src/io ---- */

extern atomic_uint reads;
int count_reads(void *ctx, enum ckpt_io_op op);

/* Operation OP fails with CODE when it is done the AT-th time, on whichever rank. */
struct fault {
	enum ckpt_io_op op;
	int code;
	unsigned at;
	atomic_uint seen;
};
int inject(void *ctx, enum ckpt_io_op op);

#endif
