/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/sums.h"

#include <string.h>

#define SUMS plain
#define VECTOR 16
#define TARGET
#include "diff/sums_loops.h"

const struct ckpt_sum_kernels *ckpt_sums_plain(void)
{
	return &plain;
}

#if defined(__x86_64__)

#define SUMS with_avx2
#define VECTOR 32
#define TARGET __attribute__((target("avx2")))
#include "diff/sums_loops.h"

const struct ckpt_sum_kernels *ckpt_sums_best(void)
{
	return __builtin_cpu_supports("avx2") ? &with_avx2 : &plain;
}

#else

const struct ckpt_sum_kernels *ckpt_sums_best(void)
{
	return &plain;
}

#endif
