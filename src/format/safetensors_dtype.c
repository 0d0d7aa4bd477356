/* SPDX-License-Identifier: Apache-2.0 */
#include "format/safetensors_header.h"

static const struct {
	const char *name;
	uint32_t bits;
	enum ckpt_dtype torch;
} table[CKPT_SAFETENSORS_DTYPE_COUNT] = {
#define X(name, bits, torch) [CKPT_SAFETENSORS_##name] = { #name, bits, CKPT_DTYPE_##torch },
	CKPT_SAFETENSORS_DTYPES(X)
#undef X
};

const char *ckpt_safetensors_dtype_name(enum ckpt_safetensors_dtype dtype)
{
	return table[dtype].name;
}

uint32_t ckpt_safetensors_dtype_bits(enum ckpt_safetensors_dtype dtype)
{
	return table[dtype].bits;
}

enum ckpt_dtype ckpt_safetensors_dtype_torch(enum ckpt_safetensors_dtype dtype)
{
	return table[dtype].torch;
}

enum ckpt_safetensors_dtype ckpt_safetensors_dtype_of(enum ckpt_dtype dtype)
{
	for (int i = 0; dtype != CKPT_DTYPE_UNKNOWN && i < CKPT_SAFETENSORS_DTYPE_COUNT; i++)
		if (table[i].torch == dtype)
			return i;
	return CKPT_SAFETENSORS_DTYPE_UNKNOWN;
}
