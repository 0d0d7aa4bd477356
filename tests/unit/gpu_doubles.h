/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_GPU_DOUBLES_H
#define CKPT_TESTS_GPU_DOUBLES_H

/* Tests with the doubles of tests/doubles in the place of the GPU's libraries. */

/* Path of a double, to be freed. */
char *doubles_path(const char *name);

/* From now on $CKPT_CUDA_LIB, $CKPT_NCCL_LIB are these doubles; NULL: is not touched. */
void doubles_use(const char *cuda, const char *nccl);

/* A function that the double in VARIABLE has for tests. */
void *doubles_function(const char *variable, const char *name);

/* Of fake_cuda.so: how many calls there were, and how much was not released. */
unsigned doubles_cuda_calls(void);
unsigned doubles_cuda_live(void);

/* A file of the real toolkit: the first that is there, or NULL. */
const char *toolkit_file(const char *const *paths);

#endif
