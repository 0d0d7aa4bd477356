/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_NCCL_H
#define CKPT_GPU_NCCL_H

#include "base/error.h"

#include <stdbool.h>

/*
 * NCCL, loaded at run time. Any libnccl.so.2 from 2.14 on. Source: nccl.h of 2.28 and its
 * documentation. Looked for in this order: $CKPT_NCCL_LIB; what the process has loaded already; the
 * virtual environment ($VIRTUAL_ENV, $CONDA_PREFIX: lib/python3.x/site-packages/nvidia/nccl/lib);
 * libnccl.so.2 as the system finds it; /usr/local/cuda/lib64.
 */

struct ckpt_nccl_facts {
	bool is_there;
	int version;	/* 22809 is 2.28.9 */
	int cuda_major; /* what it was built for, 12 or 13; 0: not known */
	char path[512]; /* of the file */
	char text[256]; /* "2.28.9", with a warning before 2.19; or why there is none */
};
void ckpt_nccl_find_facts(struct ckpt_nccl_facts *out);

/*
 * CKPT_E_UNSUPPORTED, in a sentence, if a variable of NCCL defeats every broadcast: NCCL_COMM_BLOCKING=1
 * (calls that wait without an end) or an NCCL_ALGO without Ring (the only algorithm of a broadcast).
 * What NCCL reads from its own files (/etc/nccl.conf) is not seen.
 */
int ckpt_nccl_check_variables(struct ckpt_error *err);

/* What rank 0 makes and all ranks open the communicator with: an ncclUniqueId. */
struct ckpt_nccl_id {
	char bytes[128];
};

/* In the process that is rank 0: it serves the others with it. */
int ckpt_nccl_make_id(struct ckpt_nccl_id *out, struct ckpt_error *err);

#endif
