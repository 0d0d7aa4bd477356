/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of crc_kernel.h: the kernel's constants, its launches, and what is left to do with
 * what its blocks found.
 *
 * The kernel takes memory as whole vectors of 16 bytes, with zeros behind the last byte, and begins
 * with the sum 0. So with Z zeros, its sum is the one that is wanted times x^(8 * Z), which is
 * divided out here. zlib begins with a sum of ones, and inverts the result: both together add the
 * CRC of as many zeros as there are bytes.
 *
 * What must stay true: factor and addend of a slot belong to the last launch for it. The constants
 * belong to a number of blocks, so that never changes.
 */
#include "gpu/crc.h"

#include "gpu/crc_kernel.h"
#include "gpu/crc_kernel_ptx.h"
#include "gpu/cuda_driver.h"

#include <assert.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>

enum { THREADS = 256 }; /* of a block */

#define ONE (1u << 31)	  /* the polynomial 1 */
#define ORDER 0xffffffffu /* x^ORDER is 1 modulo P, which is primitive */

struct slot {
	uint32_t factor, addend;
};

struct ckpt_cuda_crc {
	struct ckpt_cuda *cuda;
	const struct ckpt_cuda_driver *driver;
	struct CUmod_st *module;
	struct CUfunc_st *function;
	ckpt_cuda_address constants, partials; /* one word for each block of each slot */
	struct ckpt_cuda_host found;	       /* PARTIALS, as they arrive */
	struct slot *slots;
	uint32_t blocks, slot_count;
	uint32_t squares[32];	   /* x^(2^i) */
	uint32_t back[CRC_VECTOR]; /* x^-(8 * i) */
};

/* ---- polynomials ---- */

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t sum = 0;

	for (int bit = 31; bit >= 0; bit--, b = crc_times_x(b))
		sum ^= b & -(a >> bit & 1);
	return sum;
}

/* x^N */
static uint32_t power(const struct ckpt_cuda_crc *crc, uint64_t n)
{
	uint32_t result = ONE;

	n %= ORDER;
	for (unsigned i = 0; n; i++, n >>= 1)
		if (n & 1)
			result = multiply(result, crc->squares[i]);
	return result;
}

static void make_powers(struct ckpt_cuda_crc *crc)
{
	crc->squares[0] = ONE >> 1;
	for (unsigned i = 1; i < 32; i++)
		crc->squares[i] = multiply(crc->squares[i - 1], crc->squares[i - 1]);
	for (unsigned i = 0; i < CRC_VECTOR; i++)
		crc->back[i] = power(crc, ORDER - 8 * i);
}

static uint32_t times_x32(uint32_t a)
{
	return ~libdeflate_crc32(~a, (const uint8_t[4]){ 0 }, 4);
}

/* ---- constants ---- */

static size_t constants_count(uint32_t blocks)
{
	return CRC_PRODUCTS + (size_t)blocks * THREADS * CRC_WORDS;
}

/* The weight of the last word is x^32: a CRC is a polynomial times that. */
static uint32_t *make_constants(const struct ckpt_cuda_crc *crc, struct ckpt_error *err)
{
	size_t count = constants_count(crc->blocks);
	uint32_t *out = malloc(count * sizeof(*out)), weight = ONE;
	uint32_t row = power(crc, (uint64_t)crc->blocks * THREADS * CRC_VECTOR * 8);

	if (!out) {
		ckpt_fail_nomem(err);
		return NULL;
	}
	for (uint32_t i = 0; i < CRC_PRODUCTS; i++)
		out[i] = multiply(i % CRC_ENTRIES << i / CRC_ENTRIES * 4, row);
	while (count-- > CRC_PRODUCTS) {
		weight = times_x32(weight);
		out[count] = weight;
	}
	return out;
}

/* ---- the kernel ---- */

static int fail_load(const struct ckpt_cuda_crc *crc, const char *call, unsigned code,
		     struct ckpt_error *err)
{
	char text[200];

	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "the driver does not load the kernel for checksums: %s: %s", call,
			 ckpt_cuda_code_text(crc->driver, code, text));
}

static int load_kernel(struct ckpt_cuda_crc *crc, struct ckpt_error *err)
{
	const char *call = "cuModuleLoadData";
	unsigned code;
	int rc = ckpt_cuda_enter(crc->cuda, err);

	if (rc < 0)
		return rc;
	code = crc->driver->cuModuleLoadData(&crc->module, crc_kernel_ptx);
	if (code) {
		crc->module = NULL;
	} else {
		call = "cuModuleGetFunction";
		code = crc->driver->cuModuleGetFunction(&crc->function, crc->module, "ckpt_crc");
	}
	ckpt_cuda_leave(crc->cuda, call, 0, NULL);
	return code ? fail_load(crc, call, code, err) : 0;
}

static unsigned launch(struct ckpt_cuda_crc *crc, ckpt_cuda_stream stream, ckpt_cuda_address from,
		       uint64_t nbytes, uint32_t slot)
{
	uint64_t partials = crc->partials + (uint64_t)slot * crc->blocks * sizeof(uint32_t);
	void *arguments[] = { &from, &nbytes, &crc->constants, &partials };

	return crc->driver->cuLaunchKernel(crc->function, crc->blocks, 1, 1, THREADS, 1, 1, 0,
					   stream, arguments, NULL);
}

static int fetch(struct ckpt_cuda_crc *crc, ckpt_cuda_stream stream, uint32_t slot,
		 struct ckpt_error *err)
{
	size_t first = (size_t)slot * crc->blocks;

	return ckpt_cuda_download_in(crc->cuda, stream, (uint32_t *)crc->found.memory + first,
				     crc->partials + first * sizeof(uint32_t),
				     crc->blocks * sizeof(uint32_t), err);
}

static void set_slot(struct ckpt_cuda_crc *crc, uint32_t slot, ckpt_cuda_address from,
		     uint64_t nbytes)
{
	uint64_t zeros = -(from + nbytes) % CRC_VECTOR;

	crc->slots[slot].factor = crc->back[zeros];
	crc->slots[slot].addend = ~multiply(UINT32_MAX, power(crc, 8 * nbytes));
}

int ckpt_cuda_crc_in(struct ckpt_cuda_crc *crc, ckpt_cuda_stream stream, ckpt_cuda_address from,
		     uint64_t nbytes, uint32_t slot, struct ckpt_error *err)
{
	unsigned code;
	int rc;

	assert(slot < crc->slot_count && nbytes <= UINT64_C(1) << 40);
	set_slot(crc, slot, from, nbytes);
	rc = ckpt_cuda_enter(crc->cuda, err);
	if (rc < 0)
		return rc;
	code = launch(crc, stream, from, nbytes, slot);
	rc = ckpt_cuda_leave(crc->cuda, "cuLaunchKernel", code, err);
	return rc < 0 ? rc : fetch(crc, stream, slot, err);
}

uint32_t ckpt_cuda_crc_get(const struct ckpt_cuda_crc *crc, uint32_t slot)
{
	const uint32_t *found = crc->found.memory;
	uint32_t sum = 0;

	assert(slot < crc->slot_count);
	for (uint32_t i = 0; i < crc->blocks; i++)
		sum ^= found[(size_t)slot * crc->blocks + i];
	return multiply(sum, crc->slots[slot].factor) ^ crc->slots[slot].addend;
}

/* ---- made and freed ---- */

/* The launch that loads what the driver has put off, so a failure of it is one to load. */
static int try_out_in(struct ckpt_cuda_crc *crc, ckpt_cuda_stream stream, const uint32_t *constants,
		      struct ckpt_error *err)
{
	size_t nbytes =
		constants_count(crc->blocks) * sizeof(*constants) - 8; /* neither end at 16 */
	uint32_t wanted = libdeflate_crc32(0, (const uint8_t *)constants + 3, nbytes), found;
	unsigned code;
	int rc = ckpt_cuda_enter(crc->cuda, err);

	if (rc < 0)
		return rc;
	set_slot(crc, 0, crc->constants + 3, nbytes);
	code = launch(crc, stream, crc->constants + 3, nbytes, 0);
	ckpt_cuda_leave(crc->cuda, "cuLaunchKernel", 0, NULL);
	if (code)
		return fail_load(crc, "cuLaunchKernel", code, err);
	rc = fetch(crc, stream, 0, err);
	if (rc == 0)
		rc = ckpt_cuda_enter(crc->cuda, err);
	if (rc < 0)
		return rc;
	code = crc->driver->cuStreamSynchronize(stream);
	rc = ckpt_cuda_leave(crc->cuda, "cuStreamSynchronize", code, err);
	if (rc < 0)
		return rc;
	found = ckpt_cuda_crc_get(crc, 0);
	if (found == wanted)
		return 0;
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "the GPU computes a wrong checksum: %08" PRIx32 ", the host %08" PRIx32,
			 found, wanted);
}

static int try_out(struct ckpt_cuda_crc *crc, const uint32_t *constants, struct ckpt_error *err)
{
	ckpt_cuda_stream stream;
	int rc = ckpt_cuda_stream_new(crc->cuda, &stream, err);

	if (rc < 0)
		return rc;
	rc = try_out_in(crc, stream, constants, err);
	ckpt_cuda_stream_free(crc->cuda, stream);
	return rc;
}

static int allocate(struct ckpt_cuda_crc *crc, struct ckpt_error *err)
{
	size_t nbytes = (size_t)crc->slot_count * crc->blocks * sizeof(uint32_t);
	int rc;

	crc->slots = calloc(crc->slot_count, sizeof(*crc->slots));
	if (!crc->slots)
		return ckpt_fail_nomem(err);
	rc = ckpt_cuda_alloc(crc->cuda, constants_count(crc->blocks) * sizeof(uint32_t),
			     &crc->constants, err);
	if (rc == 0)
		rc = ckpt_cuda_alloc(crc->cuda, nbytes, &crc->partials, err);
	if (rc == 0)
		rc = ckpt_cuda_alloc_host(crc->cuda, nbytes, &crc->found, err);
	return rc;
}

static int set_up(struct ckpt_cuda_crc *crc, struct ckpt_error *err)
{
	uint32_t *constants;
	int version, rc = ckpt_cuda_driver_get(&crc->driver, &version, err);

	if (rc == 0)
		rc = load_kernel(crc, err);
	if (rc == 0)
		rc = allocate(crc, err);
	if (rc < 0)
		return rc;
	constants = make_constants(crc, err);
	if (!constants)
		return CKPT_E_NOMEM;
	rc = ckpt_cuda_upload(crc->cuda, crc->constants, constants,
			      constants_count(crc->blocks) * sizeof(*constants), err);
	if (rc == 0)
		rc = try_out(crc, constants, err);
	free(constants);
	return rc;
}

int ckpt_cuda_crc_new(struct ckpt_cuda *cuda, uint32_t blocks, uint32_t slots,
		      struct ckpt_cuda_crc **out, struct ckpt_error *err)
{
	struct ckpt_cuda_crc *crc = calloc(1, sizeof(*crc));
	int rc;

	assert(blocks > 0 && blocks <= CKPT_CUDA_CRC_MOST_BLOCKS && slots > 0);
	*out = NULL;
	if (!crc)
		return ckpt_fail_nomem(err);
	crc->cuda = ckpt_cuda_ref(cuda);
	crc->blocks = blocks;
	crc->slot_count = slots;
	make_powers(crc);
	rc = set_up(crc, err);
	if (rc < 0)
		ckpt_cuda_crc_free(crc);
	else
		*out = crc;
	return rc;
}

void ckpt_cuda_crc_free(struct ckpt_cuda_crc *crc)
{
	if (!crc)
		return;
	ckpt_cuda_free_host(crc->cuda, crc->found);
	ckpt_cuda_free(crc->cuda, crc->partials);
	ckpt_cuda_free(crc->cuda, crc->constants);
	if (crc->module && ckpt_cuda_enter(crc->cuda, NULL) == 0)
		ckpt_cuda_leave(crc->cuda, "cuModuleUnload",
				crc->driver->cuModuleUnload(crc->module), NULL);
	ckpt_cuda_close(crc->cuda);
	free(crc->slots);
	free(crc);
}
