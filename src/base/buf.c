/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ckpt_buf_clear(struct ckpt_buf *buf)
{
	free(buf->data);
	*buf = (struct ckpt_buf){ 0 };
}

static bool reserve(struct ckpt_buf *buf, size_t len)
{
	size_t cap = buf->cap ? buf->cap : 256;
	uint8_t *data;

	if (buf->bad || len > SIZE_MAX / 4 - buf->len)
		return false;
	while (cap < buf->len + len)
		cap *= 2;
	if (cap == buf->cap)
		return true;
	data = realloc(buf->data, cap);
	if (!data)
		return false;
	buf->data = data;
	buf->cap = cap;
	return true;
}

uint8_t *ckpt_buf_grow(struct ckpt_buf *buf, size_t len)
{
	uint8_t *p;

	if (!reserve(buf, len)) {
		buf->bad = true;
		return NULL;
	}
	p = buf->data + buf->len;
	buf->len += len;
	return p;
}

static void add_le(struct ckpt_buf *buf, uint64_t v, size_t len)
{
	uint8_t *p = ckpt_buf_grow(buf, len);

	for (size_t i = 0; p && i < len; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

void ckpt_buf_add_u16(struct ckpt_buf *buf, uint16_t v)
{
	add_le(buf, v, 2);
}

void ckpt_buf_add_u32(struct ckpt_buf *buf, uint32_t v)
{
	add_le(buf, v, 4);
}

void ckpt_buf_add_u64(struct ckpt_buf *buf, uint64_t v)
{
	add_le(buf, v, 8);
}

void ckpt_buf_add_fill(struct ckpt_buf *buf, uint8_t byte, size_t count)
{
	uint8_t *p = ckpt_buf_grow(buf, count);

	if (p && count)
		memset(p, byte, count);
}

void ckpt_buf_printf(struct ckpt_buf *buf, const char *fmt, ...)
{
	va_list ap, again;
	int len;
	uint8_t *p;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, fmt, ap);
	p = ckpt_buf_grow(buf, (size_t)len + 1);
	if (p) {
		vsnprintf((char *)p, (size_t)len + 1, fmt, again);
		buf->len--; /* the NUL is no part of the text */
	}
	va_end(again);
	va_end(ap);
}
