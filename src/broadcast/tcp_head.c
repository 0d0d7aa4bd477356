/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/tcp_head.h"

#include <stddef.h>

static const uint32_t MAGIC = 0x4b4e4843; /* "CHNK" */

static void put(uint8_t *out, uint64_t value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *in, size_t len)
{
	uint64_t value = 0;

	for (size_t i = 0; i < len; i++)
		value |= (uint64_t)in[i] << (8 * i);
	return value;
}

void ckpt_tcp_head_write(const struct ckpt_tcp_head *head, uint8_t out[CKPT_TCP_HEAD])
{
	put(out, MAGIC, 4);
	put(out + 4, head->number, 8);
	put(out + 12, head->nbytes, 4);
	put(out + 16, head->root, 4);
}

bool ckpt_tcp_head_read(const uint8_t in[CKPT_TCP_HEAD], struct ckpt_tcp_head *out)
{
	out->number = get(in + 4, 8);
	out->nbytes = (uint32_t)get(in + 12, 4);
	out->root = (uint32_t)get(in + 16, 4);
	return get(in, 4) == MAGIC;
}
