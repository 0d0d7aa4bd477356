/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_GPU_DOUBLES_H
#define CKPT_TESTS_GPU_DOUBLES_H

#include <stdatomic.h>
#include <stdbool.h>

/* Tests with the doubles of tests/doubles in the place of the GPU's libraries. */

/* Path of a double, to be freed. */
char *doubles_path(const char *name);

/* From now on $CKPT_CUDA_LIB, $CKPT_NCCL_LIB are these doubles; NULL: is not touched. */
void doubles_use(const char *cuda, const char *nccl);

/* A function that the double in VARIABLE has for tests. */
void *doubles_function(const char *variable, const char *name);

/* Of stub_nccl.so: how many calls there were, and communicators that were not ended. */
unsigned doubles_nccl_calls(void);
unsigned doubles_nccl_live(void);

/* Of fake_cuda.so: how many calls there were, and how much was not released. */
unsigned doubles_cuda_calls(void);
unsigned doubles_cuda_live(void);

/* GPU 0 has work of somebody else's, in the context that all share, until *IS_OVER; it stays there, with 16 bytes and a stream. */
void doubles_occupy_gpu(atomic_bool *is_over);

/*
 * What a process can do only once, such as to load a library: RUN in a child, in which nothing can be asserted. True if
 * it returned true.
 */
bool doubles_in_child(bool (*run)(void));

/* A file of the real toolkit: the first that is there, or NULL. */
const char *toolkit_file(const char *const *paths);

#endif
