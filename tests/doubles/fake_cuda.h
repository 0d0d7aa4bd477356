/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_FAKE_CUDA_H
#define CKPT_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * fake_cuda.so: a double of libcuda.so.1 on the memory of the host, to drive the paths of our own code, above all
 * those that lead nowhere. It proves nothing about CUDA.
 *
 * What is put into a stream is done later, in steps that are chosen at random ($FAKE_CUDA_SEED) among all streams
 * whenever something is asked: a wait that is missing shows as wrong bytes, and whatever was chosen it is a complaint that
 * streams touch the same bytes in no order (stream_order.h). Addresses are no pointers; those that were
 * freed, or were never given, are refused, as are calls without a context. Streams, events, modules and memory are of the
 * context that was current when they were made: with another one they are refused, and no context goes before they do.
 *
 * The only kernel that there is, is the one of gpu/crc_kernel.h. It runs on the host as it is written there, when its
 * turn comes in the stream.
 *
 * What frees memory waits for all work of its context, as CUDA does.
 *
 * FAKE_CUDA_FAIL=NAME:CODE:NTH   see fault_spec.h; what releases does so all the same, and "*" is all but
 *                                cuCtxPushCurrent_v2. With "NTH+" the GPU has failed: all its calls do, until nobody
 *                                has its context any more, and what is in its streams is dropped
 * FAKE_CUDA_ASYNC=KIND:CODE:NTH  the NTH "copy", "kernel" or "event" in a stream makes its GPU fail in this way: the next
 *                                call tells, whichever it is
 * FAKE_CUDA_RATES=h2d:R,d2h:R,d2d:R,launch:USEC
 *                                nothing is at random: what is in a stream begins when what is before it has ended, and
 *                                ends after its time, of R bytes in a microsecond; kernels take none. A GPU makes one
 *                                copy in each direction at a time
 * FAKE_CUDA_PROTECT=1            page-locked pages that a stream is to read cannot be written until it has, and those
 *                                that it is to write can neither be read nor written: who does, dies
 * FAKE_CUDA_LATE=NAME:MSEC:NTH   that call takes so long, as cuMemFree does while others' kernels run
 * FAKE_CUDA_FIRST=0              this process's GPU 0 is that one of the machine
 * FAKE_CUDA_SLICES=1             so many of them are slices (MIG) of one GPU
 * FAKE_CUDA_GPUS=1, FAKE_CUDA_VERSION=12040
 * FAKE_CUDA_SHOW=NAME            cuInit prints the variable NAME to standard error
 * FAKE_CUDA_MISCOUNT=1           what a kernel finds is wrong, by this bit
 * FAKE_CUDA_STRICT=1             a wrong call, or something not released at the end, ends the process by abort()
 */
struct CUstream_st;

/* For tests, by dlsym() in the handle of $CKPT_CUDA_LIB. */
typedef unsigned fake_cuda_number(void);

/*
 * "fake_cuda_calls": of the driver, so far. "fake_cuda_live": what was not released.
 */

/* "fake_cuda_memory": the bytes behind an address; NULL: it is not one. */
typedef void *fake_cuda_memory_of(unsigned long long address, size_t nbytes);

/*
 * "fake_cuda_poll_in": work in a stream that is over when POLL says so; ARG is freed then. POLL is called with the
 * double's lock. It reads those bytes of the GPU, or WRITES them.
 */
typedef void fake_cuda_poll_into(struct CUstream_st *stream, bool (*poll)(void *), void *arg, const void *memory,
				 size_t nbytes, bool writes);

/*
 * "fake_cuda_timing": for POLL, with FAKE_CUDA_RATES. NOW, and since when it was READY to begin, in nanoseconds; POLL sets
 * END, if it knows it, and is over from then on.
 */
struct fake_cuda_timing {
	bool is_on;
	uint64_t now, ready, end;
};

/* "fake_cuda_failed": the error of the calling thread's GPU that all of its calls have; 0: none. */

/* "fake_cuda_device": the device of the calling thread's context, or of STREAM; -1: there is none. */
typedef int fake_cuda_device_of(struct CUstream_st *stream);

#endif
