/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_PEERS_H
#define CKPT_GPU_PEERS_H

#include "base/error.h"

/*
 * What ranks of one node tell each other besides NCCL, since an abort of one frees memory that the
 * others' GPUs may still use. NULL functions: there is nothing.
 */
struct ckpt_gpu_peers {
	/* Asked while something waits. 0, or CKPT_E_PEER: a rank is about to abort, and why. */
	int (*check)(void *ctx, struct ckpt_error *err);
	/*
	 * Before an abort: tells the others why, and waits until they are about to abort as well,
	 * for 2 s at most.
	 */
	void (*announce)(void *ctx, const struct ckpt_error *why);
	void *ctx;
};

static inline int ckpt_gpu_peers_check(const struct ckpt_gpu_peers *peers, struct ckpt_error *err)
{
	return peers && peers->check ? peers->check(peers->ctx, err) : 0;
}

#endif
