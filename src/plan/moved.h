/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_MOVED_H
#define CKPT_PLAN_MOVED_H

#include <stdbool.h>
#include <stdint.h>

/* What the mover is asked to find out about a recipe's bytes, and what it found. */
struct ckpt_moved {
	bool want_crc;	 /* in: compute CRC32, which means to read every byte */
	bool carried;	 /* in: the recorded checksum is written with the bytes, damaged or not */
	bool want_head;	 /* in: fill HEAD */
	uint32_t crc32;	 /* out */
	bool has_head;	 /* out: there were 8 bytes or more */
	uint8_t head[8]; /* out: the first of them */
};

/*
 * The checksum of bytes whose first part has checksum FIRST, and whose last LEN bytes have
 * SECOND.
 */
uint32_t ckpt_join_crc(uint32_t first, uint32_t second, uint64_t len);

#endif
