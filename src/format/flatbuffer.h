/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_FLATBUFFER_H
#define CKPT_FORMAT_FLATBUFFER_H

#include "base/arena.h"
#include "io/source.h"

/*
 * The tables and vectors of a FlatBuffers file, each place in it checked before it is read. The layout is that of
 * flatbuffers.dev, "Internals": tables point back to a vtable that says which fields they have, everything else forward.
 *
 * It sticks: after the first thing that is wrong, RC is set, ERR says what, and all further reading gives 0. Nothing
 * is remembered of what was read, so that who follows pointers of a file has to limit the work; BUDGET does it for what
 * is counted by ckpt_flatbuffer_vector() and ckpt_flatbuffer_text().
 */
struct ckpt_flatbuffer {
	const struct ckpt_source *source; /* borrowed */
	uint64_t size;
	uint64_t budget; /* items of vectors and bytes of texts that may still be read */
	uint8_t *
		blocks; /* owned: what was read last, as the file is read here and there in small pieces */
	uint64_t *numbers;
	int rc;
	struct ckpt_error *err;
};

struct ckpt_flatbuffer_table {
	uint64_t at; /* 0: none; all its fields are absent */
	uint64_t vtable;
	uint32_t vtable_size, size;
};

struct ckpt_flatbuffer_vector {
	uint64_t at; /* of the first item */
	uint32_t count;
};

int ckpt_flatbuffer_open(struct ckpt_flatbuffer *fb, const struct ckpt_source *source,
			 struct ckpt_error *err);
void ckpt_flatbuffer_clear(struct ckpt_flatbuffer *fb);

/* Sets fb->rc. Returns it. */
int ckpt_flatbuffer_fail(struct ckpt_flatbuffer *fb, int status, uint64_t at, const char *what);

struct ckpt_flatbuffer_table ckpt_flatbuffer_root(struct ckpt_flatbuffer *fb);

/* WIDTH bytes at a place in the file, little-endian. */
uint64_t ckpt_flatbuffer_number(struct ckpt_flatbuffer *fb, uint64_t at, unsigned width);

/* Fields are counted as the schema has them, a union as two. An absent one is DEFAULT_, a table without fields, no items. */
uint64_t ckpt_flatbuffer_scalar(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				unsigned field, unsigned width, uint64_t default_);
struct ckpt_flatbuffer_table ckpt_flatbuffer_table(struct ckpt_flatbuffer *fb,
						   const struct ckpt_flatbuffer_table *t,
						   unsigned field);
struct ckpt_flatbuffer_vector ckpt_flatbuffer_vector(struct ckpt_flatbuffer *fb,
						     const struct ckpt_flatbuffer_table *t,
						     unsigned field, unsigned width);

/* Where a struct in the table is; 0: it is absent. */
uint64_t ckpt_flatbuffer_struct(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				unsigned field);

/* A table that is an item of a vector of such, I below the count. */
struct ckpt_flatbuffer_table ckpt_flatbuffer_item(struct ckpt_flatbuffer *fb,
						  const struct ckpt_flatbuffer_vector *v,
						  uint32_t i);

/* A text in ARENA, with a NUL behind; *LEN without it. "" if it is absent, NULL: fb->rc. */
const char *ckpt_flatbuffer_text(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				 unsigned field, struct ckpt_arena *arena, uint32_t *len);

/* ... that is an item of a vector of texts. */
const char *ckpt_flatbuffer_text_item(struct ckpt_flatbuffer *fb,
				      const struct ckpt_flatbuffer_vector *v, uint32_t i,
				      struct ckpt_arena *arena, uint32_t *len);

#endif
