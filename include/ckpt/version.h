/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_VERSION_H
#define CKPT_VERSION_H

#include <ckpt/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CKPT_VERSION "0.1.0"

/* The version of the library that the program runs with; it may differ from CKPT_VERSION. */
CKPT_API const char *ckpt_version(void);

/*
 * What this library was built with and what it finds on this machine, one name and text per call of
 * EMIT. The CUDA driver and NCCL are among them; they are looked up at run time.
 */
CKPT_API void ckpt_version_details(void (*emit)(void *ctx, const char *name, const char *text),
				   void *ctx);

#ifdef __cplusplus
}
#endif
#endif
