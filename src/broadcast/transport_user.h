/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_USER_H
#define CKPT_BROADCAST_TRANSPORT_USER_H

#include "broadcast/transport.h"
#include "gpu/cuda.h"

#include <ckpt/broadcast.h>

/* Check and copy what the caller gave. CKPT_E_ARG if something is missing. */
int ckpt_collectives_take(const struct ckpt_collectives *given, struct ckpt_collectives *out,
			  struct ckpt_error *err);

/* The same from GPU to GPU. CUDA is counted. */
int ckpt_transport_open_user_gpu(struct ckpt_cuda *cuda, const struct ckpt_collectives *collectives,
				 struct ckpt_transport **out, struct ckpt_error *err);

/* What the calling program carries bytes with, in memory of the host. */
int ckpt_transport_open_user(const struct ckpt_collectives *collectives,
			     struct ckpt_transport **out, struct ckpt_error *err);

#endif
