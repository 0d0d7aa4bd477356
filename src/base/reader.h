/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_READER_H
#define CKPT_BASE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A cursor over bytes in memory. It sticks: after the first read past the end BAD is set and every
 * further read gives 0, so one check per structure is enough.
 */
struct ckpt_reader {
	const uint8_t *data;
	size_t len, pos;
	bool bad;
};

/* Little-endian numbers at a place that was checked. */
static inline uint16_t ckpt_get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t ckpt_get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t ckpt_get_u64(const uint8_t *p)
{
	return ckpt_get_u32(p) | (uint64_t)ckpt_get_u32(p + 4) << 32;
}

static inline const uint8_t *ckpt_read_bytes(struct ckpt_reader *r, size_t len)
{
	if (r->bad || len > r->len - r->pos) {
		r->bad = true;
		return NULL;
	}
	r->pos += len;
	return r->data + r->pos - len;
}

static inline uint64_t ckpt_read_le(struct ckpt_reader *r, size_t len)
{
	const uint8_t *p = ckpt_read_bytes(r, len);
	uint64_t v = 0;

	for (size_t i = 0; p && i < len; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static inline uint8_t ckpt_read_u8(struct ckpt_reader *r)
{
	return (uint8_t)ckpt_read_le(r, 1);
}

static inline uint16_t ckpt_read_u16(struct ckpt_reader *r)
{
	return (uint16_t)ckpt_read_le(r, 2);
}

static inline uint32_t ckpt_read_u32(struct ckpt_reader *r)
{
	return (uint32_t)ckpt_read_le(r, 4);
}

static inline uint64_t ckpt_read_u64(struct ckpt_reader *r)
{
	return ckpt_read_le(r, 8);
}

#endif
