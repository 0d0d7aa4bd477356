/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_CLOCK_H
#define CKPT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC, for durations and deadlines. */
static inline uint64_t ckpt_now_nsec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
