/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_CUDA_H
#define CKPT_GPU_CUDA_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The CUDA driver, loaded at run time (libcuda.so.1), so that one build serves machines with and
 * without it. Only what carrying bytes needs. Source of the calls: cuda.h of CUDA 12 and 13,
 * "Driver API".
 */

/*
 * A GPU of this process, with its primary context: the one that a program's own CUDA calls use,
 * too.
 */
struct ckpt_cuda;

typedef uint64_t ckpt_cuda_address;	      /* CUdeviceptr; 0 is none */
typedef struct CUstream_st *ckpt_cuda_stream; /* CUstream, which is cudaStream_t */
typedef struct CUevent_st *ckpt_cuda_event;

/*
 * ORDINAL: as the driver counts behind CUDA_VISIBLE_DEVICES. CKPT_E_UNSUPPORTED, in a sentence that
 * names the host: no driver, the toolkit's stub library in its place, no GPU, no such GPU.
 */
int ckpt_cuda_open(uint32_t ordinal, struct ckpt_cuda **out, struct ckpt_error *err);
/*
 * It is counted: ref() for one more user; the last close() releases the context. NULL is allowed.
 * What releases, here and below, waits for all that runs on the GPU (bounded.h).
 */
struct ckpt_cuda *ckpt_cuda_ref(struct ckpt_cuda *cuda);
void ckpt_cuda_close(struct ckpt_cuda *cuda);

/*
 * Which GPU it is, whatever its number is here: "GPU-12345678-..." of the GPU, or of the slice of it
 * (MIG) that this process is shown, and "0000:3b:00.0", its place on the PCI bus, which slices have
 * in common. "": not known.
 */
struct ckpt_cuda_identity {
	char uuid[48], bus[16];
};
void ckpt_cuda_identify(struct ckpt_cuda *cuda, struct ckpt_cuda_identity *out);

/* For messages and hellos: 12040 is CUDA 12.4. */
int ckpt_cuda_driver_version(const struct ckpt_cuda *cuda);

/*
 * All that follows may be called by any thread. Errors are CKPT_E_GPU with the driver's name of it:
 * after one of them the GPU is as a rule of no more use to the process.
 */
int ckpt_cuda_alloc(struct ckpt_cuda *cuda, size_t nbytes, ckpt_cuda_address *out,
		    struct ckpt_error *err);
void ckpt_cuda_free(struct ckpt_cuda *cuda, ckpt_cuda_address address);

/* Page-locked memory of the host, that the GPU copies from and to at full speed. */
struct ckpt_cuda_host {
	void *memory;
	bool is_registered; /* it is the process's own, which the driver has only locked */
};

/* OUT: all zero after an error. */
int ckpt_cuda_alloc_host(struct ckpt_cuda *cuda, size_t nbytes, struct ckpt_cuda_host *out,
			 struct ckpt_error *err);
void ckpt_cuda_free_host(struct ckpt_cuda *cuda, struct ckpt_cuda_host host);

/* Copies that are done when the call returns. */
int ckpt_cuda_upload(struct ckpt_cuda *cuda, ckpt_cuda_address to, const void *from, size_t nbytes,
		     struct ckpt_error *err);
int ckpt_cuda_download(struct ckpt_cuda *cuda, void *to, ckpt_cuda_address from, size_t nbytes,
		       struct ckpt_error *err);

/* Copies in a stream: FROM and TO must stay until an event recorded behind them is done. */
int ckpt_cuda_stream_new(struct ckpt_cuda *cuda, ckpt_cuda_stream *out, struct ckpt_error *err);
void ckpt_cuda_stream_free(struct ckpt_cuda *cuda, ckpt_cuda_stream stream);
int ckpt_cuda_upload_in(struct ckpt_cuda *cuda, ckpt_cuda_stream stream, ckpt_cuda_address to,
			const void *from, size_t nbytes, struct ckpt_error *err);
int ckpt_cuda_download_in(struct ckpt_cuda *cuda, ckpt_cuda_stream stream, void *to,
			  ckpt_cuda_address from, size_t nbytes, struct ckpt_error *err);
int ckpt_cuda_copy_in(struct ckpt_cuda *cuda, ckpt_cuda_stream stream, ckpt_cuda_address to,
		      ckpt_cuda_address from, size_t nbytes, struct ckpt_error *err);

int ckpt_cuda_event_new(struct ckpt_cuda *cuda, ckpt_cuda_event *out, struct ckpt_error *err);
void ckpt_cuda_event_free(struct ckpt_cuda *cuda, ckpt_cuda_event event);
int ckpt_cuda_event_record(struct ckpt_cuda *cuda, ckpt_cuda_event event, ckpt_cuda_stream stream,
			   struct ckpt_error *err);
/* 1: all before it is done, 0: not yet. Never waits. */
int ckpt_cuda_event_done(struct ckpt_cuda *cuda, ckpt_cuda_event event, struct ckpt_error *err);
/* What comes behind it in STREAM waits for EVENT; the caller does not. */
int ckpt_cuda_stream_wait(struct ckpt_cuda *cuda, ckpt_cuda_stream stream, ckpt_cuda_event event,
			  struct ckpt_error *err);

/* What is there, without touching a GPU more than counting them; for `ckpt version` and hellos. */
struct ckpt_cuda_facts {
	bool has_driver;
	int driver_version; /* 12040 is CUDA 12.4; 0: not known */
	int gpu_count;
	char text[256]; /* the version and the GPUs, or why there are none */
};
void ckpt_cuda_find_facts(struct ckpt_cuda_facts *out);

#endif
