/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/dtype.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	uint32_t size;
	const char *storage;
} table[CKPT_DTYPE_COUNT] = {
#define X(id, name, size, storage) [CKPT_DTYPE_##id] = { name, size, storage },
	CKPT_DTYPES(X)
#undef X
};

const char *ckpt_dtype_name(enum ckpt_dtype dtype)
{
	return dtype >= 0 && dtype < CKPT_DTYPE_COUNT ? table[dtype].name : "unknown";
}

uint32_t ckpt_dtype_size(enum ckpt_dtype dtype)
{
	return table[dtype].size;
}

uint32_t ckpt_dtype_packed(enum ckpt_dtype dtype)
{
	return dtype == CKPT_DTYPE_QUINT4X2 ? 2 : dtype == CKPT_DTYPE_QUINT2X4 ? 4 : 1;
}

bool ckpt_dtype_is_quantized(enum ckpt_dtype dtype)
{
	return dtype == CKPT_DTYPE_QINT8 || dtype == CKPT_DTYPE_QUINT8 || dtype == CKPT_DTYPE_QINT32 || dtype == CKPT_DTYPE_QUINT4X2 || dtype == CKPT_DTYPE_QUINT2X4;
}

enum ckpt_dtype ckpt_dtype_find(const char *name)
{
	static const struct {
		const char *alias;
		enum ckpt_dtype dtype;
	} aliases[] = {
		{ "double", CKPT_DTYPE_FLOAT64 },     { "float", CKPT_DTYPE_FLOAT32 },
		{ "half", CKPT_DTYPE_FLOAT16 },	      { "long", CKPT_DTYPE_INT64 },
		{ "int", CKPT_DTYPE_INT32 },	      { "short", CKPT_DTYPE_INT16 },
		{ "cdouble", CKPT_DTYPE_COMPLEX128 }, { "cfloat", CKPT_DTYPE_COMPLEX64 },
		{ "chalf", CKPT_DTYPE_COMPLEX32 },
	};

	for (int i = 0; i < CKPT_DTYPE_COUNT; i++)
		if (!strcmp(table[i].name, name))
			return i;
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(aliases[i].alias, name))
			return aliases[i].dtype;
	return CKPT_DTYPE_UNKNOWN;
}

enum ckpt_dtype ckpt_dtype_of_storage(const char *class_name)
{
	for (int i = 0; i < CKPT_DTYPE_COUNT; i++)
		if (table[i].storage[0] && !strcmp(table[i].storage, class_name))
			return i;
	if (!strcmp(class_name, "UntypedStorage") || !strcmp(class_name, "_UntypedStorage"))
		return CKPT_DTYPE_UINT8;
	return CKPT_DTYPE_UNKNOWN;
}

const char *ckpt_dtype_storage_class(enum ckpt_dtype dtype)
{
	return table[dtype].storage;
}
