/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_DTYPE_H
#define CKPT_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Every dtype that a torch file can hold: name as torch prints it, bytes per item, name of the
 * typed storage class or "" for the dtypes that came after that list was frozen and are kept in an
 * UntypedStorage. Source: torch/storage.py, torch/serialization.py; checked with torch 1.7 to 2.14.
 */
#define CKPT_DTYPES(X)                               \
	X(FLOAT64, "float64", 8, "DoubleStorage")        \
	X(FLOAT32, "float32", 4, "FloatStorage")         \
	X(FLOAT16, "float16", 2, "HalfStorage")          \
	X(BFLOAT16, "bfloat16", 2, "BFloat16Storage")    \
	X(INT64, "int64", 8, "LongStorage")              \
	X(INT32, "int32", 4, "IntStorage")               \
	X(INT16, "int16", 2, "ShortStorage")             \
	X(INT8, "int8", 1, "CharStorage")                \
	X(UINT8, "uint8", 1, "ByteStorage")              \
	X(BOOL, "bool", 1, "BoolStorage")                \
	X(COMPLEX128, "complex128", 16, "ComplexDoubleStorage") \
	X(COMPLEX64, "complex64", 8, "ComplexFloatStorage") \
	X(QINT8, "qint8", 1, "QInt8Storage")             \
	X(QUINT8, "quint8", 1, "QUInt8Storage")          \
	X(QINT32, "qint32", 4, "QInt32Storage")          \
	X(QUINT4X2, "quint4x2", 1, "QUInt4x2Storage")    \
	X(QUINT2X4, "quint2x4", 1, "QUInt2x4Storage")    \
	X(FLOAT8_E5M2, "float8_e5m2", 1, "")             \
	X(FLOAT8_E4M3FN, "float8_e4m3fn", 1, "")         \
	X(FLOAT8_E5M2FNUZ, "float8_e5m2fnuz", 1, "")     \
	X(FLOAT8_E4M3FNUZ, "float8_e4m3fnuz", 1, "")     \
	X(FLOAT8_E8M0FNU, "float8_e8m0fnu", 1, "")       \
	X(FLOAT4_E2M1FN_X2, "float4_e2m1fn_x2", 1, "")   \
	X(UINT16, "uint16", 2, "")                       \
	X(UINT32, "uint32", 4, "")                       \
	X(UINT64, "uint64", 8, "")                       \
	X(COMPLEX32, "complex32", 4, "")                 \
	X(BCOMPLEX32, "bcomplex32", 4, "")               \
	X(BITS8, "bits8", 1, "")                         \
	X(BITS1X8, "bits1x8", 1, "")                     \
	X(BITS2X4, "bits2x4", 1, "")                     \
	X(BITS4X2, "bits4x2", 1, "")                     \
	X(BITS16, "bits16", 2, "")

enum ckpt_dtype {
#define X(id, name, size, storage) CKPT_DTYPE_##id,
	CKPT_DTYPES(X)
#undef X
	CKPT_DTYPE_COUNT,
	CKPT_DTYPE_UNKNOWN = -1,
};

const char *ckpt_dtype_name(enum ckpt_dtype dtype);

/* Bytes per item. For quint4x2 and quint2x4, which pack several elements, bytes of storage. */
uint32_t ckpt_dtype_size(enum ckpt_dtype dtype);

/* Elements in one byte of storage for the packed quantised types, else 1. */
uint32_t ckpt_dtype_packed(enum ckpt_dtype dtype);

/* Items are numbers only with a quantizer. */
bool ckpt_dtype_is_quantized(enum ckpt_dtype dtype);

/* "float32" -> FLOAT32; UNKNOWN if torch has no such dtype. Short names ("half") are accepted. */
enum ckpt_dtype ckpt_dtype_find(const char *name);

/*
 * "FloatStorage" -> FLOAT32. "UntypedStorage" and its older spelling count as UINT8, as they do in
 * torch. UNKNOWN if it is no storage class.
 */
enum ckpt_dtype ckpt_dtype_of_storage(const char *class_name);

/* "FloatStorage"; "" for the dtypes that live in an UntypedStorage. */
const char *ckpt_dtype_storage_class(enum ckpt_dtype dtype);

#endif
