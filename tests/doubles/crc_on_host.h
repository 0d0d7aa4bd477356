/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_CRC_ON_HOST_H
#define CKPT_TESTS_CRC_ON_HOST_H

#include "gpu/crc_kernel.h"

#include <stdlib.h>

/* The kernel of gpu/crc_kernel.h on the host, one thread after the other between its barriers. */
struct crc_launch {
	uint32_t blocks, threads; /* threads of a block */
	const void *from;
	uint64_t nbytes;
	const uint32_t *constants;
	uint32_t *partials;
};

static inline void crc_run_block(const struct crc_launch *l, struct crc_shared *s, uint32_t block)
{
	const struct crc_job job = { l->from, l->nbytes, (uint64_t)l->blocks * l->threads };
	const crc_u8 *tables = (const crc_u8 *)s->tables;

	for (uint32_t i = 0; i < l->threads; i++)
		crc_fill_tables(s, l->constants, i, l->threads);
	for (uint32_t i = 0; i < l->threads; i++) {
		uint64_t index = (uint64_t)block * l->threads + i;
		crc_vector weight;

		for (int k = 0; k < CRC_WORDS; k++)
			weight[k] = l->constants[CRC_PRODUCTS + index * CRC_WORDS + (uint64_t)k];
		s->sums[i] = crc_add_up(&job, index, weight, tables + i % CRC_LANES * 4);
	}
	for (uint32_t i = 0; i < CRC_LANES && i < l->threads; i++)
		s->sums[i] = crc_add(s->sums, i, CRC_LANES, l->threads);
	l->partials[block] =
		crc_add(s->sums, 0, 1, CRC_LANES < l->threads ? CRC_LANES : l->threads);
}

static inline void crc_run_on_host(const struct crc_launch *l)
{
	struct crc_shared *s = aligned_alloc(_Alignof(struct crc_shared), sizeof(*s));

	for (uint32_t block = 0; block < l->blocks; block++)
		crc_run_block(l, s, block);
	free(s);
}

#endif
