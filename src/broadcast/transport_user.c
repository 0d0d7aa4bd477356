/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport by functions of the program (struct ckpt_collectives), on the host or on GPUs.
 *
 * What must stay true: they block, so there is nothing to test, and no deadline that could be
 * kept. What hangs in a stream of the program belongs to the program: abort() says so, and nothing
 * is freed under it.
 */
#include "broadcast/transport_user.h"

#include "base/sized.h"
#include "broadcast/transport_gpu.h"

#include <stdlib.h>

struct user {
	struct ckpt_transport base;
	struct ckpt_collectives calls;
};

static int fail_call(const char *name, int code, struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_PEER, "the program's own %s returned %d, wanted 0", name,
			 code);
}

/* It blocks: test() has nothing left to ask. */
static int begin(struct ckpt_transport *t, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	struct user *u = (struct user *)t;
	int code =
		u->calls.broadcast(u->calls.ctx, chunk->buffer, chunk->nbytes, chunk->root, NULL);

	(void)ticket;
	return code ? fail_call("broadcast", code, err) : 0;
}

static int test(struct ckpt_transport *t, unsigned ticket, struct ckpt_error *err)
{
	(void)t;
	(void)ticket;
	(void)err;
	return 1;
}

static int vote(struct ckpt_transport *t, uint64_t *numbers, size_t count, uint64_t deadline,
		struct ckpt_error *err)
{
	struct user *u = (struct user *)t;
	int code = u->calls.allreduce_max(u->calls.ctx, numbers, count);

	(void)deadline;
	return code ? fail_call("allreduce_max", code, err) : 0;
}

static void ignore_abort(struct ckpt_transport *t)
{
	(void)t;
}

static void close_user(struct ckpt_transport *t)
{
	free(t);
}

int ckpt_collectives_take(const struct ckpt_collectives *given, struct ckpt_collectives *out,
			  struct ckpt_error *err)
{
	int rc = ckpt_sized_take(out, sizeof(*out), given, err);

	if (rc == 0 && (!out->broadcast || !out->allreduce_max || out->rank >= out->world_size))
		return ckpt_fail(
			err, CKPT_E_ARG,
			"collectives of rank %u of %u: wanted both functions, and a rank below the "
			"world size",
			out->rank, out->world_size);
	return rc;
}

int ckpt_transport_open_user(const struct ckpt_collectives *collectives,
			     struct ckpt_transport **out, struct ckpt_error *err)
{
	static const struct ckpt_transport_ops ops = {
		.name = "user",
		.alloc = ckpt_transport_host_alloc,
		.release = ckpt_transport_host_release,
		.begin = begin,
		.test = test,
		.vote = vote,
		.abort = ignore_abort,
		.close = close_user,
	};
	struct user *u = calloc(1, sizeof(*u));

	*out = NULL;
	if (!u)
		return ckpt_fail_nomem(err);
	u->calls = *collectives;
	u->base = (struct ckpt_transport){ .ops = &ops,
					   .rank = u->calls.rank,
					   .size = u->calls.world_size };
	*out = &u->base;
	return 0;
}

/* ---- on the GPU ---- */

static int broadcast_on_gpu(void *self, ckpt_cuda_stream stream, ckpt_cuda_address address,
			    size_t nbytes, uint32_t root, struct ckpt_error *err)
{
	const struct ckpt_collectives *calls = self;
	int code = calls->broadcast(calls->ctx, (void *)(uintptr_t)address, nbytes, root, stream);

	return code ? fail_call("broadcast", code, err) : 0;
}

static int is_ready(void *self, struct ckpt_error *err)
{
	(void)self;
	(void)err;
	return 1;
}

static int vote_on_gpu(void *self, uint64_t *numbers, size_t count, struct ckpt_error *err)
{
	const struct ckpt_collectives *calls = self;
	int code = calls->allreduce_max(calls->ctx, numbers, count);

	return code ? fail_call("allreduce_max", code, err) : 0;
}

/* What hangs in a stream of the program's is the program's: nothing may be freed under it. */
static bool refuse_abort(void *self)
{
	(void)self;
	return false;
}

static void close_on_gpu(void *self)
{
	free(self);
}

static int copy_calls(void *ctx, void **self, struct ckpt_error *err)
{
	struct ckpt_collectives *calls = malloc(sizeof(*calls));

	if (!calls)
		return ckpt_fail_nomem(err);
	*calls = *(const struct ckpt_collectives *)ctx;
	*self = calls;
	return 0;
}

int ckpt_transport_open_user_gpu(struct ckpt_cuda *cuda, const struct ckpt_collectives *collectives,
				 struct ckpt_transport **out, struct ckpt_error *err)
{
	static const struct ckpt_gpu_carrier carrier = {
		.name = "user",
		.broadcast = broadcast_on_gpu,
		.ready = is_ready,
		.vote = vote_on_gpu,
		.abort = refuse_abort,
		.close = close_on_gpu,
	};

	return ckpt_transport_open_gpu(cuda, collectives->rank, collectives->world_size, &carrier,
				       copy_calls, (void *)collectives, NULL, out, err);
}
