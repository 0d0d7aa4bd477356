/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_ALONE_H
#define CKPT_BROADCAST_TRANSPORT_ALONE_H

#include "broadcast/transport.h"
#include "gpu/cuda.h"

/* One rank, whose bytes go to its GPU: in chunks that are read while others are copied. CUDA is counted. */
int ckpt_transport_open_alone(struct ckpt_cuda *cuda, struct ckpt_transport **out,
			      struct ckpt_error *err);

#endif
