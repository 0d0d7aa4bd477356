/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU with its primary context, memory, copies and events, by calls of the CUDA driver
 * (cuda_driver.h has the table).
 *
 * What must stay true: every call runs between enter() and leave(), so the program that uses this
 * library keeps the context that its thread had. What waits for a copy waits for our own stream
 * only, which does not synchronize with the program's default stream. Releasing never reports an
 * error, since it also runs after one.
 */
#include "gpu/cuda_driver.h"

#include "gpu/numa.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALL_PAGE = 4096, HUGE_PAGE = 2 << 20 };

struct ckpt_cuda {
	atomic_uint users;
	const struct ckpt_cuda_driver *driver;
	struct CUctx_st *context;
	int device;
	uint32_t ordinal;
	int node; /* of memory, that it is near to; -1: none, or not known */
	ckpt_cuda_stream copies; /* for those that are waited for */
};

/* ---- the context ---- */

static int fail_call(const struct ckpt_cuda *cuda, const char *call, unsigned code,
		     struct ckpt_error *err)
{
	char text[200];

	return ckpt_fail(err, CKPT_E_GPU, "%s on GPU %u: %s", call, cuda->ordinal,
			 ckpt_cuda_code_text(cuda->driver, code, text));
}

int ckpt_cuda_enter(struct ckpt_cuda *cuda, struct ckpt_error *err)
{
	unsigned code = cuda->driver->cuCtxPushCurrent_v2(cuda->context);

	return code ? fail_call(cuda, "cuCtxPushCurrent", code, err) : 0;
}

/* What popping says may be an older failure of the GPU: the next call will hear of it. */
int ckpt_cuda_leave(struct ckpt_cuda *cuda, const char *call, unsigned code, struct ckpt_error *err)
{
	struct CUctx_st *popped;

	cuda->driver->cuCtxPopCurrent_v2(&popped);
	return code ? fail_call(cuda, call, code, err) : 0;
}

/* A call of the driver between enter() and leave(): 0 or CKPT_E_GPU. */
#define CALL(cuda, err, name, ...) \
	(ckpt_cuda_enter(cuda, err) < 0 \
		 ? CKPT_E_GPU \
		 : ckpt_cuda_leave(cuda, #name, (cuda)->driver->name(__VA_ARGS__), err))

/* ---- opened and closed ---- */

static int find_device(struct ckpt_cuda *cuda, struct ckpt_error *err)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	char host[65];
	int count = 0;
	unsigned code = cuda->driver->cuDeviceGetCount(&count);

	if (code)
		return fail_call(cuda, "cuDeviceGetCount", code, err);
	if (cuda->ordinal < (uint32_t)count) {
		char bus[16];

		code = cuda->driver->cuDeviceGet(&cuda->device, (int)cuda->ordinal);
		if (!code && cuda->driver->cuDeviceGetPCIBusId(bus, sizeof(bus), cuda->device) == 0)
			cuda->node = ckpt_numa_node_of(NULL, bus);
		return code ? fail_call(cuda, "cuDeviceGet", code, err) : 0;
	}
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "there is no GPU %u on %s: the driver counts %d, from 0%s%.60s%s",
			 cuda->ordinal, ckpt_cuda_host_name(host), count, visible ? "; CUDA_VISIBLE_DEVICES is '" : "",
			 visible ? visible : "", visible ? "'" : "");
}

static int retain_context(struct ckpt_cuda *cuda, struct ckpt_error *err)
{
	unsigned code = cuda->driver->cuDevicePrimaryCtxRetain(&cuda->context, cuda->device);

	if (!code)
		return 0;
	cuda->context = NULL;
	return fail_call(cuda, "cuDevicePrimaryCtxRetain", code, err);
}

int ckpt_cuda_open(uint32_t ordinal, struct ckpt_cuda **out, struct ckpt_error *err)
{
	struct ckpt_cuda *cuda = calloc(1, sizeof(*cuda));
	int version, rc;

	*out = NULL;
	if (!cuda)
		return ckpt_fail_nomem(err);
	atomic_init(&cuda->users, 1);
	cuda->ordinal = ordinal;
	cuda->node = -1;
	rc = ckpt_cuda_driver_get(&cuda->driver, &version, err);
	if (rc == 0)
		rc = find_device(cuda, err);
	if (rc == 0)
		rc = retain_context(cuda, err);
	if (rc == 0)
		rc = ckpt_cuda_stream_new(cuda, &cuda->copies, err);
	if (rc < 0)
		ckpt_cuda_close(cuda);
	else
		*out = cuda;
	return rc;
}

struct ckpt_cuda *ckpt_cuda_ref(struct ckpt_cuda *cuda)
{
	atomic_fetch_add(&cuda->users, 1);
	return cuda;
}

void ckpt_cuda_close(struct ckpt_cuda *cuda)
{
	if (!cuda || atomic_fetch_sub(&cuda->users, 1) > 1)
		return;
	ckpt_cuda_stream_free(cuda, cuda->copies);
	if (cuda->context)
		cuda->driver->cuDevicePrimaryCtxRelease_v2(cuda->device);
	free(cuda);
}

void ckpt_cuda_identify(struct ckpt_cuda *cuda, struct ckpt_cuda_identity *out)
{
	const struct ckpt_cuda_driver *d = cuda->driver;
	struct ckpt_cuda_uuid uuid;
	char bus[sizeof(out->bus)];
	unsigned code = 1;

	*out = (struct ckpt_cuda_identity){ "", "" };
	if (d->cuDeviceGetUuid_v2)
		code = d->cuDeviceGetUuid_v2(&uuid, cuda->device);
	else if (d->cuDeviceGetUuid)
		code = d->cuDeviceGetUuid(&uuid, cuda->device);
	for (size_t i = 0, len = 0; code == 0 && i < sizeof(uuid.bytes); i++)
		len += (size_t)snprintf(out->uuid + len, sizeof(out->uuid) - len, "%s%02x",
					i == 0					? "GPU-"
					: i == 4 || i == 6 || i == 8 || i == 10 ? "-"
										: "",
					(uint8_t)uuid.bytes[i]);
	if (d->cuDeviceGetPCIBusId(bus, sizeof(bus), cuda->device) == 0)
		snprintf(out->bus, sizeof(out->bus), "%.15s", bus);
}

int ckpt_cuda_driver_version(const struct ckpt_cuda *cuda)
{
	return cuda->driver->version;
}

/* ---- memory ---- */

int ckpt_cuda_alloc(struct ckpt_cuda *cuda, size_t nbytes, ckpt_cuda_address *out,
		    struct ckpt_error *err)
{
	unsigned long long address = 0;
	int rc = CALL(cuda, err, cuMemAlloc_v2, &address, nbytes);

	*out = rc < 0 ? 0 : address;
	return rc;
}

void ckpt_cuda_free(struct ckpt_cuda *cuda, ckpt_cuda_address address)
{
	if (address)
		(void)CALL(cuda, NULL, cuMemFree_v2, address);
}

/* In huge pages where the system has them, of NODE of the machine if that is no less than 0, and there before it is locked. */
static void *alloc_pages(size_t nbytes, int node)
{
	size_t page = nbytes < HUGE_PAGE ? SMALL_PAGE : HUGE_PAGE, room;
	void *memory = NULL;

	if (!__builtin_add_overflow(nbytes, page - 1, &room))
		memory = aligned_alloc(page, room / page * page);
	if (memory && page == HUGE_PAGE)
		madvise(memory, nbytes, MADV_HUGEPAGE);
	if (memory && node >= 0)
		ckpt_numa_prefer(memory, room / page * page, node);
	if (memory)
		memset(memory, 0, nbytes);
	if (memory && node >= 0) /* where its pages are now, they stay; what is freed may serve others */
		ckpt_numa_prefer(memory, room / page * page, -1);
	return memory;
}

/*
 * The driver locks huge pages at 40 GB/s, and makes memory of its own at 2 (measured with a driver for
 * CUDA 13): for 128 MiB that is 60 ms, in which a GPU gets 3 GB. Where it cannot lock what there
 * is, it makes its own.
 */
int ckpt_cuda_alloc_host(struct ckpt_cuda *cuda, size_t nbytes, struct ckpt_cuda_host *out,
			 struct ckpt_error *err)
{
	void *memory = nbytes ? alloc_pages(nbytes, cuda->node) : NULL;
	int rc;

	*out = (struct ckpt_cuda_host){ memory, true };
	if (memory && CALL(cuda, NULL, cuMemHostRegister_v2, memory, nbytes,
			   CKPT_CU_MEMHOSTREGISTER_PORTABLE) == 0)
		return 0;
	free(memory);
	*out = (struct ckpt_cuda_host){ NULL, false };
	rc = CALL(cuda, err, cuMemHostAlloc, &memory, nbytes, CKPT_CU_MEMHOSTALLOC_PORTABLE);
	if (rc == 0)
		out->memory = memory;
	return rc;
}

void ckpt_cuda_free_host(struct ckpt_cuda *cuda, struct ckpt_cuda_host host)
{
	if (host.is_registered) {
		(void)CALL(cuda, NULL, cuMemHostUnregister, host.memory);
		free(host.memory);
	} else if (host.memory) {
		(void)CALL(cuda, NULL, cuMemFreeHost, host.memory);
	}
}

/* ---- copies ---- */

/*
 * Not cuMemcpyHtoD: that may return before the GPU has the bytes, and waits for whatever the
 * program does in the stream that it uses by default.
 */
int ckpt_cuda_upload(struct ckpt_cuda *cuda, ckpt_cuda_address to, const void *from, size_t nbytes,
		     struct ckpt_error *err)
{
	int rc = ckpt_cuda_upload_in(cuda, cuda->copies, to, from, nbytes, err);

	return rc < 0 ? rc : CALL(cuda, err, cuStreamSynchronize, cuda->copies);
}

int ckpt_cuda_download(struct ckpt_cuda *cuda, void *to, ckpt_cuda_address from, size_t nbytes,
		       struct ckpt_error *err)
{
	int rc = ckpt_cuda_download_in(cuda, cuda->copies, to, from, nbytes, err);

	return rc < 0 ? rc : CALL(cuda, err, cuStreamSynchronize, cuda->copies);
}

int ckpt_cuda_stream_new(struct ckpt_cuda *cuda, ckpt_cuda_stream *out, struct ckpt_error *err)
{
	ckpt_cuda_stream stream = NULL;
	int rc = CALL(cuda, err, cuStreamCreate, &stream, CKPT_CU_STREAM_NON_BLOCKING);

	*out = rc < 0 ? NULL : stream;
	return rc;
}

void ckpt_cuda_stream_free(struct ckpt_cuda *cuda, ckpt_cuda_stream stream)
{
	if (stream)
		(void)CALL(cuda, NULL, cuStreamDestroy_v2, stream);
}

int ckpt_cuda_upload_in(struct ckpt_cuda *cuda, ckpt_cuda_stream stream, ckpt_cuda_address to,
			const void *from, size_t nbytes, struct ckpt_error *err)
{
	return CALL(cuda, err, cuMemcpyHtoDAsync_v2, to, from, nbytes, stream);
}

int ckpt_cuda_download_in(struct ckpt_cuda *cuda, ckpt_cuda_stream stream, void *to,
			  ckpt_cuda_address from, size_t nbytes, struct ckpt_error *err)
{
	return CALL(cuda, err, cuMemcpyDtoHAsync_v2, to, from, nbytes, stream);
}

int ckpt_cuda_copy_in(struct ckpt_cuda *cuda, ckpt_cuda_stream stream, ckpt_cuda_address to,
		      ckpt_cuda_address from, size_t nbytes, struct ckpt_error *err)
{
	return CALL(cuda, err, cuMemcpyDtoDAsync_v2, to, from, nbytes, stream);
}

/* ---- events ---- */

int ckpt_cuda_event_new(struct ckpt_cuda *cuda, ckpt_cuda_event *out, struct ckpt_error *err)
{
	ckpt_cuda_event event = NULL;
	int rc = CALL(cuda, err, cuEventCreate, &event, CKPT_CU_EVENT_DISABLE_TIMING);

	*out = rc < 0 ? NULL : event;
	return rc;
}

void ckpt_cuda_event_free(struct ckpt_cuda *cuda, ckpt_cuda_event event)
{
	if (event)
		(void)CALL(cuda, NULL, cuEventDestroy_v2, event);
}

int ckpt_cuda_event_record(struct ckpt_cuda *cuda, ckpt_cuda_event event, ckpt_cuda_stream stream,
			   struct ckpt_error *err)
{
	return CALL(cuda, err, cuEventRecord, event, stream);
}

int ckpt_cuda_event_done(struct ckpt_cuda *cuda, ckpt_cuda_event event, struct ckpt_error *err)
{
	unsigned code;
	int rc = ckpt_cuda_enter(cuda, err);

	if (rc < 0)
		return rc;
	code = cuda->driver->cuEventQuery(event);
	rc = ckpt_cuda_leave(cuda, "cuEventQuery", code == CKPT_CU_NOT_READY ? 0 : code, err);
	return rc < 0 ? rc : code == 0;
}

int ckpt_cuda_stream_wait(struct ckpt_cuda *cuda, ckpt_cuda_stream stream, ckpt_cuda_event event,
			  struct ckpt_error *err)
{
	return CALL(cuda, err, cuStreamWaitEvent, stream, event, 0);
}

/* ---- what there is ---- */

void ckpt_cuda_find_facts(struct ckpt_cuda_facts *out)
{
	const struct ckpt_cuda_driver *driver;
	struct ckpt_error err = CKPT_ERROR_INIT;
	char version[16];
	int rc;

	*out = (struct ckpt_cuda_facts){ 0 };
	rc = ckpt_cuda_driver_get(&driver, &out->driver_version, &err);
	out->has_driver = out->driver_version > 0;
	if (rc < 0) {
		ckpt_error_text(&err, out->text, sizeof(out->text));
		return;
	}
	driver->cuDeviceGetCount(&out->gpu_count);
	snprintf(out->text, sizeof(out->text), "driver for CUDA %s, %d GPU%s",
		 ckpt_cuda_version_text(out->driver_version, version), out->gpu_count,
		 out->gpu_count == 1 ? "" : "s");
}
