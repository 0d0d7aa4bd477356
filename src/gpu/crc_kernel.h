/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_CRC_KERNEL_H
#define CKPT_GPU_CRC_KERNEL_H

/*
 * The CRC-32 of zlib over memory of a GPU, by many threads: the one source of the kernel. As OpenCL
 * C it becomes crc_kernel_ptx.h (scripts/crc-kernel), as C it runs on the host, for tests.
 *
 * Bytes are a polynomial over GF(2), and their CRC is that polynomial times x^32, modulo P. A word
 * of 32 bits has the power 0 in its highest bit, as a little-endian machine loads it. The threads of
 * the whole grid take rows of memory, each one vector of 16 bytes of every row. For each of the 4
 * words in its vectors a thread keeps a sum, which it multiplies by x^(bits of a row) from row to
 * row. This factor is always the same, so the product is looked up, in one table for each 4 bits of
 * the sum. In the end a thread multiplies its sums by the power of their distance from the end; a
 * block adds up its threads, and the host its blocks (crc.c).
 *
 * What must stay true:
 * - Rows end where the memory ends. The first ones have vectors of zeros in front of the memory,
 *   which change nothing; the host takes back the zeros behind the last byte.
 * - No byte outside of the memory is read.
 * - Every lane of a warp has tables of its own, in its own bank of the shared memory, so that no
 *   lookup waits for another one.
 */

#ifdef __OPENCL_C_VERSION__
#define CRC_GLOBAL __global
#define CRC_SHARED __local
#define CRC_UNROLL _Pragma("unroll")
typedef unsigned char crc_u8;
typedef unsigned int crc_u32;
typedef unsigned long crc_u64;
typedef long crc_s64;
#else
#include <stdint.h>
#define CRC_GLOBAL
#define CRC_SHARED
#define CRC_UNROLL
typedef uint8_t crc_u8;
typedef uint32_t crc_u32;
typedef uint64_t crc_u64;
typedef int64_t crc_s64;
#endif

#define CRC_POLY 0xedb88320u /* P without x^32 */

enum {
	CRC_WORDS = 4,		    /* of a vector */
	CRC_VECTOR = 4 * CRC_WORDS, /* bytes */
	CRC_ROWS = 4,	/* that a thread loads at a time, while it adds up those before */
	CRC_LANES = 32, /* threads of a warp */
	CRC_TABLES = 8,
	CRC_ENTRIES = 16, /* of a table */
	CRC_PRODUCTS = CRC_TABLES * CRC_ENTRIES,
	CRC_TABLE_BYTES = 4 * CRC_ENTRIES * CRC_LANES, /* one table, for all lanes */
	CRC_MOST_THREADS = 512,			       /* of a block */
};

typedef crc_u32 crc_vector __attribute__((vector_size(16)));

/* What all threads of a grid get. */
struct crc_job {
	const CRC_GLOBAL crc_u8 *from; /* the memory */
	crc_u64 nbytes;
	crc_u64 threads; /* of the grid */
};

/* The shared memory of a block. */
struct crc_shared {
	crc_u32 tables[CRC_PRODUCTS * CRC_LANES] __attribute__((aligned(CRC_TABLE_BYTES)));
	crc_u32 sums[CRC_MOST_THREADS];
};

/* ---- polynomials ---- */

/* X times x. */
static inline crc_u32 crc_times_x(crc_u32 x)
{
	return x >> 1 ^ (CRC_POLY & (0u - (x & 1)));
}

/* The sum of the products of the 4 words. */
static inline crc_u32 crc_dot(crc_vector a, crc_vector b)
{
	crc_u32 sum = 0;

	for (int bit = 31; bit >= 0; bit--) {
		CRC_UNROLL for (int i = 0; i < CRC_WORDS; i++)
		{
			sum ^= b[i] & (0u - (a[i] >> bit & 1));
			b[i] = crc_times_x(b[i]);
		}
	}
	return sum;
}

/*
 * X times x^(bits of a row), by the tables of a lane. LANE has zeros where an entry's place in its
 * table goes: it is put there, not added, in one instruction with the mask.
 */
static inline crc_u32 crc_next_row(const CRC_SHARED crc_u8 *lane, crc_u32 x)
{
	crc_u32 sum = 0;

	/* 4 bits of X, times the distance of two entries, which is 1 << 7. */
	CRC_UNROLL for (int i = 0; i < CRC_TABLES; i++)
	{
		crc_u32 at = (i < 2 ? x << (7 - 4 * i) : x >> (4 * i - 7)) & 15 << 7;
		const CRC_SHARED crc_u8 *entry = (const CRC_SHARED crc_u8 *)((crc_u64)lane | at);

		sum ^= *(const CRC_SHARED crc_u32 *)(entry + i * CRC_TABLE_BYTES);
	}
	return sum;
}

/* ---- memory ---- */

/* Vector AT, counted from the last address before FROM that 16 divides, zeros where it is outside. */
static inline crc_vector crc_load_bytes(const struct crc_job *job, crc_s64 at)
{
	crc_u64 head = (crc_u64)job->from % CRC_VECTOR;
	crc_vector v = { 0, 0, 0, 0 };

	CRC_UNROLL for (int i = 0; i < CRC_VECTOR; i++)
	{
		crc_u64 off = (crc_u64)at * CRC_VECTOR + (crc_u64)i - head; /* wraps before FROM */

		if (off < job->nbytes)
			v[i / 4] |= (crc_u32)job->from[off] << i % 4 * 8;
	}
	return v;
}

/* ---- phases of a block, with a barrier behind each: all threads do one before any does the next ---- */

/*
 * PRODUCTS: entry E of table I is E << 4 * I times x^(bits of a row). The threads of a warp begin with
 * different lanes: writes to the same bank would wait for each other.
 */
static inline void crc_fill_tables(CRC_SHARED struct crc_shared *s,
				   const CRC_GLOBAL crc_u32 *products, crc_u32 thread,
				   crc_u32 count)
{
	for (crc_u32 i = thread; i < CRC_PRODUCTS; i += count) {
		crc_u32 product = products[i];

		for (crc_u32 lane = 0; lane < CRC_LANES; lane++)
			s->tables[i * CRC_LANES + (thread + lane) % CRC_LANES] = product;
	}
}

/*
 * Thread INDEX of the grid adds up its part. Its first rows may be in front of the memory. The first
 * and the last vector may be cut and are loaded by bytes, the last one behind the loop, since a row
 * is not multiplied any more there.
 */
static inline crc_u32 crc_add_up(const struct crc_job *job, crc_u64 index, crc_vector weight,
				 const CRC_SHARED crc_u8 *lane)
{
	crc_u64 head = (crc_u64)job->from % CRC_VECTOR;
	crc_s64 vectors = (crc_s64)((head + job->nbytes + CRC_VECTOR - 1) / CRC_VECTOR);
	crc_s64 stride = (crc_s64)job->threads, last = vectors - 1;
	crc_s64 turns = (vectors + CRC_ROWS * stride - 1) / (CRC_ROWS * stride);
	crc_s64 at = (crc_s64)index + vectors - turns * CRC_ROWS * stride;
	const CRC_GLOBAL crc_vector *from = (const CRC_GLOBAL crc_vector *)(job->from - head);
	crc_vector sum = { 0, 0, 0, 0 }, first = sum;
	crc_vector rows[CRC_ROWS] = { sum }, next[CRC_ROWS] = { sum }; /* next: loaded meanwhile */

	for (int i = 0; i < CRC_ROWS; i++)
		if (at + i * stride == 0)
			first = crc_load_bytes(job, 0);
	for (crc_s64 turn = 0; turn <= turns; turn++) {
		if (turn < turns) {
			CRC_UNROLL for (int i = 0; i < CRC_ROWS; i++, at += stride)
			{
				next[i] = sum ^ sum;
				if (at == 0)
					next[i] = first;
				else if (at > 0 && at < last)
					next[i] = from[at];
			}
		}
		if (turn > 0) {
			CRC_UNROLL for (int i = 0; i < CRC_ROWS; i++)
			{
				CRC_UNROLL for (int k = 0; k < CRC_WORDS; k++) sum[k] =
					crc_next_row(lane, sum[k]);
				sum ^= rows[i];
			}
		}
		CRC_UNROLL for (int i = 0; i < CRC_ROWS; i++) rows[i] = next[i];
	}
	if (last > 0 && at - stride == last)
		sum ^= crc_load_bytes(job, last);
	return crc_dot(sum, weight);
}

static inline crc_u32 crc_add(const CRC_SHARED crc_u32 *sums, crc_u32 first, crc_u32 step,
			      crc_u32 end)
{
	crc_u32 sum = 0;

	for (crc_u32 i = first; i < end; i += step)
		sum ^= sums[i];
	return sum;
}

/* ---- the kernel ---- */

/*
 * CONSTANTS: CRC_PRODUCTS words, and one vector of weights for each thread of the grid, the powers
 * by which its 4 sums are multiplied. PARTIALS: a word for each block, whose sum is the result.
 */
#ifdef __OPENCL_C_VERSION__
__kernel void ckpt_crc(__global const crc_u8 *from, crc_u64 nbytes,
		       __global const crc_u32 *constants, __global crc_u32 *partials)
{
	/* from sm_90 on shared memory begins at 1024, whatever alignment is asked for */
	__local crc_u8 room[sizeof(struct crc_shared) + CRC_TABLE_BYTES];
	__local struct crc_shared *shared =
		(__local struct crc_shared *)(room + (0 - (crc_u64)room) % CRC_TABLE_BYTES);
	crc_u32 count = __nvvm_read_ptx_sreg_ntid_x(), thread = __nvvm_read_ptx_sreg_tid_x();
	crc_u32 block = __nvvm_read_ptx_sreg_ctaid_x(), sum;
	struct crc_job job = { from, nbytes, (crc_u64)__nvvm_read_ptx_sreg_nctaid_x() * count };
	crc_u64 index = (crc_u64)block * count + thread;
	const __global crc_vector *weights =
		(const __global crc_vector *)(constants + CRC_PRODUCTS);
	const __local crc_u8 *lane = (const __local crc_u8 *)(shared->tables + thread % CRC_LANES);

	crc_fill_tables(shared, constants, thread, count);
	__syncthreads();
	shared->sums[thread] = crc_add_up(&job, index, weights[index], lane);
	__syncthreads();
	if (thread < CRC_LANES) {
		sum = crc_add(shared->sums, thread, CRC_LANES, count);
		shared->sums[thread] = sum;
	}
	__syncthreads();
	if (thread == 0)
		partials[block] = crc_add(shared->sums, 0, 1, CRC_LANES < count ? CRC_LANES : count);
}
#endif

#endif
