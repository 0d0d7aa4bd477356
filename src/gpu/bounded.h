/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_BOUNDED_H
#define CKPT_GPU_BOUNDED_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls that release what a GPU has wait for all that runs on it, also for kernels of others, and
 * NCCL's abort may wait for ranks that are gone. Nobody may wait for them without an end.
 */

/*
 * How long ckpt_gpu_run_bounded() waits: 10 s. For tests, which change it before anything runs.
 */
extern uint64_t ckpt_gpu_grace_nsec;

/*
 * Run RUN(ARG) in a thread of its own. True: it is done. False: it was not done within the grace
 * period and goes on, or there was no thread for it: ARG, and all that RUN uses, is never the
 * caller's again. While one such thread is left, the next ones get a tenth of the time.
 */
bool ckpt_gpu_run_bounded(void (*run)(void *arg), void *arg);

/* How many of them go on now: the process must not run exit handlers, which would meet them. */
unsigned ckpt_gpu_count_abandoned(void);

#endif
