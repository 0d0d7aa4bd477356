/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over GPUs of a process that is alone: what it reads goes from page-locked memory to
 * its own GPU, while the next chunks are read, and nowhere else.
 */
#include "broadcast/transport_alone.h"

#include "broadcast/transport_gpu.h"

static int broadcast(void *self, ckpt_cuda_stream stream, ckpt_cuda_address address, size_t nbytes,
		     uint32_t root, struct ckpt_error *err)
{
	(void)self;
	(void)stream;
	(void)address;
	(void)nbytes;
	(void)root;
	(void)err;
	return 0;
}

static int ready(void *self, struct ckpt_error *err)
{
	(void)self;
	(void)err;
	return 1;
}

static int vote(void *self, uint64_t *numbers, size_t count, struct ckpt_error *err)
{
	(void)self;
	(void)numbers;
	(void)count;
	(void)err;
	return 0;
}

static bool abort_alone(void *self)
{
	(void)self;
	return true;
}

static void close_alone(void *self)
{
	(void)self;
}

static int open_alone(void *ctx, void **self, struct ckpt_error *err)
{
	(void)ctx;
	(void)err;
	*self = NULL;
	return 0;
}

int ckpt_transport_open_alone(struct ckpt_cuda *cuda, struct ckpt_transport **out,
			      struct ckpt_error *err)
{
	static const struct ckpt_gpu_carrier carrier = {
		.name = "self",
		.broadcast = broadcast,
		.ready = ready,
		.vote = vote,
		.abort = abort_alone,
		.close = close_alone,
	};

	return ckpt_transport_open_gpu(cuda, 0, 1, &carrier, open_alone, NULL, NULL, out, err);
}
