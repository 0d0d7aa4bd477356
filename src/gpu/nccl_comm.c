/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator in NCCL's non-blocking mode: what is asked for is in its stream once
 * ckpt_nccl_comm_ready() says so.
 *
 * What must stay true: no call but abort() and close() waits for a peer without an end. NCCL's own
 * abort may hang or come back late, so the caller runs it in a thread (bounded.h), which then has
 * the communicator, CUDA (counted) and all memory that NCCL was given: nobody else frees any of it.
 * After an error NCCL takes nothing but an abort.
 */
#include "gpu/nccl_comm.h"

#include "base/clock.h"
#include "gpu/bounded.h"
#include "gpu/cuda_driver.h"
#include "gpu/nccl_library.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { POLL_NSEC = 1000000 };

struct ckpt_nccl_comm {
	const struct ckpt_nccl *nccl;
	struct ckpt_cuda *cuda;	 /* counted */
	struct ncclComm *handle; /* NULL: there is none, or none any more */
	bool failed;
};

/* CODE is what CALL of NCCL returned between enter() and leave_cuda(). IN_PROGRESS is no error. */
static int leave_cuda(struct ckpt_nccl_comm *comm, const char *call, unsigned code,
		 struct ckpt_error *err)
{
	ckpt_cuda_leave(comm->cuda, call, 0, NULL);
	if (code == 0 || code == CKPT_NCCL_IN_PROGRESS)
		return 0;
	comm->failed = true;
	return ckpt_nccl_fail(comm->nccl, call, code, ckpt_cuda_driver_version(comm->cuda), err);
}

#define CALL(comm, err, name, ...) \
	(ckpt_cuda_enter((comm)->cuda, err) < 0 \
		 ? CKPT_E_GPU \
		 : leave_cuda(comm, #name, (comm)->nccl->name(__VA_ARGS__), err))

/* ---- work ---- */

int ckpt_nccl_comm_ready(struct ckpt_nccl_comm *comm, struct ckpt_error *err)
{
	unsigned state = 0;
	int rc = CALL(comm, err, ncclCommGetAsyncError, comm->handle, &state);

	if (rc < 0 || state == CKPT_NCCL_IN_PROGRESS)
		return rc;
	comm->failed |= state != 0;
	if (state)
		return ckpt_nccl_fail(comm->nccl, "NCCL", state,
				      ckpt_cuda_driver_version(comm->cuda), err);
	return 1;
}

/* NCCL has addresses of the GPU as pointers. */
static void *pointer(ckpt_cuda_address address)
{
	return (void *)(uintptr_t)address;
}

int ckpt_nccl_comm_broadcast(struct ckpt_nccl_comm *comm, ckpt_cuda_stream stream,
			     ckpt_cuda_address address, size_t nbytes, uint32_t root,
			     struct ckpt_error *err)
{
	return CALL(comm, err, ncclBroadcast, pointer(address), pointer(address), nbytes,
		    CKPT_NCCL_UINT8, (int)root, comm->handle, stream);
}

int ckpt_nccl_comm_greatest(struct ckpt_nccl_comm *comm, ckpt_cuda_stream stream,
			    ckpt_cuda_address address, size_t count, struct ckpt_error *err)
{
	return CALL(comm, err, ncclAllReduce, pointer(address), pointer(address), count,
		    CKPT_NCCL_UINT64, CKPT_NCCL_MAX, comm->handle, stream);
}

/* 1: ready; 0: not before DEADLINE. */
static int wait_until(struct ckpt_nccl_comm *comm, uint64_t deadline,
		      const struct ckpt_gpu_peers *peers, struct ckpt_error *err)
{
	int rc;

	while ((rc = ckpt_nccl_comm_ready(comm, err)) == 0 && ckpt_now_nsec() < deadline) {
		rc = ckpt_gpu_peers_check(peers, err);
		if (rc < 0)
			return rc;
		nanosleep(&(struct timespec){ 0, POLL_NSEC }, NULL);
	}
	return rc;
}

/* ---- its end ---- */

void ckpt_nccl_comm_abort(struct ckpt_nccl_comm *comm)
{
	if (comm->handle)
		(void)CALL(comm, NULL, ncclCommAbort, comm->handle);
	comm->handle = NULL;
}

void ckpt_nccl_comm_close(struct ckpt_nccl_comm *comm)
{
	uint64_t deadline = ckpt_now_nsec() + ckpt_gpu_grace_nsec / 2;

	if (!comm)
		return;
	if (comm->handle && !comm->failed &&
	    CALL(comm, NULL, ncclCommFinalize, comm->handle) == 0 &&
	    wait_until(comm, deadline, NULL, NULL) == 1) {
		(void)CALL(comm, NULL, ncclCommDestroy, comm->handle);
		comm->handle = NULL;
	}
	ckpt_nccl_comm_abort(comm);
	ckpt_cuda_close(comm->cuda);
	free(comm);
}

/* ---- its beginning ---- */

static int check_fit(const struct ckpt_nccl *nccl, struct ckpt_cuda *cuda, struct ckpt_error *err)
{
	int driver = ckpt_cuda_driver_version(cuda);
	char version[16], number[16];

	if (nccl->cuda_major <= driver / 1000)
		return 0;
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "NCCL %s at %.300s was built for CUDA %d, the driver supports %s: set "
			 "CKPT_NCCL_LIB to a build for CUDA %d",
			 ckpt_nccl_version_text(nccl->version, version), nccl->path,
			 nccl->cuda_major, ckpt_cuda_version_text(driver, number), driver / 1000);
}

static int init_communicator(struct ckpt_nccl_comm *comm, const struct ckpt_nccl_id *id,
			     uint32_t rank, uint32_t size, uint64_t deadline,
			     const struct ckpt_gpu_peers *peers, struct ckpt_error *err)
{
	struct ckpt_nccl_config config = CKPT_NCCL_CONFIG_INIT;
	int rc = CALL(comm, err, ncclCommInitRankConfig, &comm->handle, (int)size, *id, (int)rank,
		      &config);

	if (rc == 0)
		rc = wait_until(comm, deadline, peers, err);
	comm->failed |= rc <= 0;
	if (rc == 0)
		return ckpt_fail(err, CKPT_E_PEER,
				 "NCCL did not find all %" PRIu32
				 " ranks in time: one has died or hangs, or they cannot reach each "
				 "other (NCCL_DEBUG=INFO tells more)",
				 size);
	return rc < 0 ? rc : 0;
}

int ckpt_nccl_comm_open(struct ckpt_cuda *cuda, const struct ckpt_nccl_id *id, uint32_t rank,
			uint32_t size, uint64_t deadline, const struct ckpt_gpu_peers *peers,
			struct ckpt_nccl_comm **out, struct ckpt_error *err)
{
	struct ckpt_nccl_comm *comm = calloc(1, sizeof(*comm));
	int rc;

	*out = NULL;
	if (!comm)
		return ckpt_fail_nomem(err);
	comm->cuda = ckpt_cuda_ref(cuda);
	rc = ckpt_nccl_get(&comm->nccl, err);
	if (rc == 0)
		rc = ckpt_nccl_check_variables(err);
	if (rc == 0)
		rc = check_fit(comm->nccl, cuda, err);
	if (rc == 0)
		rc = init_communicator(comm, id, rank, size, deadline, peers, err);
	if (rc == 0 || comm->handle)
		*out = comm;
	else
		ckpt_nccl_comm_close(comm);
	return rc;
}
