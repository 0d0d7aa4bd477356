/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_BUF_H
#define CKPT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A byte array that grows. After the first failed allocation BAD stays set and nothing is added. */
struct ckpt_buf {
	uint8_t *data;
	size_t len, cap;
	bool bad;
};

void ckpt_buf_clear(struct ckpt_buf *buf);

/* Append LEN bytes, for the caller to fill. NULL, and BAD is set, if there is no memory. */
uint8_t *ckpt_buf_grow(struct ckpt_buf *buf, size_t len);

static inline void ckpt_buf_add(struct ckpt_buf *buf, const void *bytes, size_t len)
{
	uint8_t *p;

	if (!len)
		return;				       /* DATA may be NULL */
	if (!buf->bad && len <= buf->cap - buf->len) { /* nearly always */
		p = buf->data + buf->len;
		buf->len += len;
	} else {
		p = ckpt_buf_grow(buf, len);
	}
	if (p)
		memcpy(p, bytes, len);
}

static inline void ckpt_buf_add_u8(struct ckpt_buf *buf, uint8_t v)
{
	ckpt_buf_add(buf, &v, 1);
}

void ckpt_buf_add_u16(struct ckpt_buf *buf, uint16_t v); /* little-endian, as all below */
void ckpt_buf_add_u32(struct ckpt_buf *buf, uint32_t v);
void ckpt_buf_add_u64(struct ckpt_buf *buf, uint64_t v);
void ckpt_buf_add_fill(struct ckpt_buf *buf, uint8_t byte, size_t count);
void ckpt_buf_printf(struct ckpt_buf *buf, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
