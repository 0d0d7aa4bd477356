/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/transport_nccl.h"

#include "broadcast/transport_gpu.h"
#include "gpu/nccl_comm.h"

struct wish {
	struct ckpt_cuda *cuda;
	const struct ckpt_nccl_id *id;
	uint32_t rank, size;
	uint64_t deadline;
	const struct ckpt_gpu_peers *peers;
};

static int broadcast(void *comm, ckpt_cuda_stream stream, ckpt_cuda_address address, size_t nbytes,
		     uint32_t root, struct ckpt_error *err)
{
	return ckpt_nccl_comm_broadcast(comm, stream, address, nbytes, root, err);
}

static int ready(void *comm, struct ckpt_error *err)
{
	return ckpt_nccl_comm_ready(comm, err);
}

static int greatest(void *comm, ckpt_cuda_stream stream, ckpt_cuda_address address, size_t count,
		    struct ckpt_error *err)
{
	return ckpt_nccl_comm_greatest(comm, stream, address, count, err);
}

static bool abort_comm(void *comm)
{
	ckpt_nccl_comm_abort(comm);
	return true;
}

static void close_comm(void *comm)
{
	ckpt_nccl_comm_close(comm);
}

static int open_comm(void *ctx, void **self, struct ckpt_error *err)
{
	const struct wish *w = ctx;
	struct ckpt_nccl_comm *comm;
	int rc = ckpt_nccl_comm_open(w->cuda, w->id, w->rank, w->size, w->deadline, w->peers, &comm,
				     err);

	*self = comm;
	return rc;
}

int ckpt_transport_open_nccl(struct ckpt_cuda *cuda, const struct ckpt_nccl_id *id, uint32_t rank,
			     uint32_t size, uint64_t deadline, const struct ckpt_gpu_peers *peers,
			     struct ckpt_transport **out, struct ckpt_error *err)
{
	static const struct ckpt_gpu_carrier carrier = {
		.name = "nccl",
		.broadcast = broadcast,
		.ready = ready,
		.greatest = greatest,
		.abort = abort_comm,
		.close = close_comm,
	};
	struct wish wish = { cuda, id, rank, size, deadline, peers };

	return ckpt_transport_open_gpu(cuda, rank, size, &carrier, open_comm, &wish, peers, out,
				       err);
}
