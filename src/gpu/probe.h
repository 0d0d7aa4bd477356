/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_PROBE_H
#define CKPT_GPU_PROBE_H

#include <stddef.h>

/*
 * What this machine has for GPUs. Both libraries are looked for at run time, so one build serves
 * machines with and without them. TEXT says the version, or why there is none. Returns 1 if found.
 */
int ckpt_gpu_probe_cuda(char *text, size_t size);
int ckpt_gpu_probe_nccl(char *text, size_t size);

#endif
