/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_SAFETENSORS_HEADER_H
#define CKPT_FORMAT_SAFETENSORS_HEADER_H

#include "base/arena.h"
#include "io/source.h"
#include "tensor/dtype.h"

/*
 * The header of a safetensors file, as a flat table. Source: the README of the format, and what
 * the package of that name refuses; a test compares every rule with the package.
 *
 * A file is the length of the JSON (8 bytes, little-endian), the JSON, and the bytes of the
 * tensors, which follow one another without gaps and are not aligned.
 */

/* Name, bits, dtype in torch. The format's own writer writes tensors of the last ones first. */
#define CKPT_SAFETENSORS_DTYPES(X) \
	X(BOOL, 8, BOOL) \
	X(F4, 4, FLOAT4_E2M1FN_X2) \
	X(F6_E2M3, 6, UNKNOWN) \
	X(F6_E3M2, 6, UNKNOWN) \
	X(U8, 8, UINT8) \
	X(I8, 8, INT8) \
	X(F8_E5M2, 8, FLOAT8_E5M2) \
	X(F8_E4M3, 8, FLOAT8_E4M3FN) \
	X(F8_E8M0, 8, FLOAT8_E8M0FNU) \
	X(F8_E4M3FNUZ, 8, FLOAT8_E4M3FNUZ) \
	X(F8_E5M2FNUZ, 8, FLOAT8_E5M2FNUZ) \
	X(I16, 16, INT16) \
	X(U16, 16, UINT16) \
	X(F16, 16, FLOAT16) \
	X(BF16, 16, BFLOAT16) \
	X(I32, 32, INT32) \
	X(U32, 32, UINT32) \
	X(F32, 32, FLOAT32) \
	X(C64, 64, COMPLEX64) \
	X(F64, 64, FLOAT64) \
	X(I64, 64, INT64) \
	X(U64, 64, UINT64)

enum ckpt_safetensors_dtype {
#define X(name, bits, torch) CKPT_SAFETENSORS_##name,
	CKPT_SAFETENSORS_DTYPES(X)
#undef X
		CKPT_SAFETENSORS_DTYPE_COUNT,
	CKPT_SAFETENSORS_DTYPE_UNKNOWN = -1,
};

const char *ckpt_safetensors_dtype_name(enum ckpt_safetensors_dtype dtype);

/* Bits of an item: of F4, which torch packs in pairs, those of one of the two. */
uint32_t ckpt_safetensors_dtype_bits(enum ckpt_safetensors_dtype dtype);

/* The dtype in torch; CKPT_DTYPE_UNKNOWN if torch has none. */
enum ckpt_dtype ckpt_safetensors_dtype_torch(enum ckpt_safetensors_dtype dtype);

/* The dtype in the format; UNKNOWN if it has none. */
enum ckpt_safetensors_dtype ckpt_safetensors_dtype_of(enum ckpt_dtype dtype);

enum {
	CKPT_SAFETENSORS_BEFORE_JSON = 8,
	CKPT_SAFETENSORS_MOST_JSON = 100000000,
};

/* Strings are UTF-8 with a NUL after them, and may have NULs in them. */
struct ckpt_safetensors_tensor {
	const char *name;
	uint32_t name_len, ndim;
	enum ckpt_safetensors_dtype dtype;
	uint32_t at; /* offset of its entry in the file, for messages */
	/* each size fits an int64_t; of F4 it counts single numbers, of which torch counts pairs */
	const uint64_t *shape;
	uint64_t begin, end; /* of its bytes, from DATA_OFF */
};

struct ckpt_safetensors_pair {
	const char *key, *value;
	uint32_t key_len, value_len;
};

struct ckpt_safetensors_header {
	struct ckpt_safetensors_tensor *tensors; /* owned; in the order of the header */
	uint32_t count, cap;
	struct ckpt_safetensors_pair *metadata; /* owned; what `__metadata__` holds */
	uint32_t metadata_count, metadata_cap;
	bool has_metadata;
	uint64_t data_off, data_len; /* in the file */
};

/*
 * Parse LEN bytes of JSON, followed by DATA_LEN bytes of tensors in the file (UINT64_MAX: as many
 * as they take), and check all rules. Names, shapes and metadata live in ARENA; OUT is to be cleared, also on failure.
 * Offsets in errors count from the beginning of the file.
 *
 * CKPT_E_FORMAT: a rule is broken, by the tensor that the text names; CKPT_E_LIMIT or
 * CKPT_E_NOMEM.
 */
int ckpt_safetensors_header_parse(const uint8_t *json, size_t len, uint64_t data_len,
				  struct ckpt_arena *arena, struct ckpt_safetensors_header *out,
				  struct ckpt_error *err);

/*
 * The same for a file. DATA_LEN: CKPT_SAFETENSORS_AS_IS, what the file has behind the header; or
 * CKPT_SAFETENSORS_AS_LISTED, what the tensors take, wherever the file ends.
 */
enum ckpt_safetensors_data_len { CKPT_SAFETENSORS_AS_IS, CKPT_SAFETENSORS_AS_LISTED };
int ckpt_safetensors_header_read(const struct ckpt_source *source, enum ckpt_safetensors_data_len data_len, struct ckpt_arena *arena,
				 struct ckpt_safetensors_header *out, struct ckpt_error *err);

void ckpt_safetensors_header_clear(struct ckpt_safetensors_header *header);

/*
 * The part of parsing that checks names and places: each name is there once, and the tensors
 * cover every byte once.
 */
int ckpt_safetensors_header_check(const struct ckpt_safetensors_header *header,
				  struct ckpt_error *err);

/* Does a file of SIZE bytes that begins with HEAD, LEN of it, look like one? */
bool ckpt_safetensors_probe(const uint8_t *head, size_t len, uint64_t size);

#endif
