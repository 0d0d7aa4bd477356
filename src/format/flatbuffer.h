/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_FLATBUFFER_H
#define CKPT_FORMAT_FLATBUFFER_H

#include "base/arena.h"
#include "io/source.h"

/*
 * Reads the tables and vectors of a FlatBuffers file, and checks each place in it before. Source
 * of the layout: flatbuffers.dev, "Internals". Tables point back to a vtable that says which
 * fields they have; everything else points forward.
 *
 * It sticks: the first failure sets RC and ERR, and all further reads give 0. Several tables may
 * point to the same place, so that whoever follows pointers has to limit the work; BUDGET does
 * that for ckpt_flatbuffer_vector() and ckpt_flatbuffer_text().
 */
struct ckpt_flatbuffer {
	const struct ckpt_source *source; /* borrowed */
	uint64_t size;
	uint64_t budget; /* items of vectors and bytes of texts that may still be read */
	uint8_t *blocks; /* owned: a cache of BLOCKS blocks */
	uint64_t *numbers; /* owned: which block each of them is */
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

/* WIDTH bytes at AT in the file, little-endian. */
uint64_t ckpt_flatbuffer_number(struct ckpt_flatbuffer *fb, uint64_t at, unsigned width);

/*
 * FIELD: its number in the schema, where a union counts as two. An absent field is DEFAULT_, a
 * table without fields, or a vector without items.
 */
uint64_t ckpt_flatbuffer_scalar(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				unsigned field, unsigned width, uint64_t default_);
struct ckpt_flatbuffer_table ckpt_flatbuffer_table(struct ckpt_flatbuffer *fb,
						   const struct ckpt_flatbuffer_table *t,
						   unsigned field);
struct ckpt_flatbuffer_vector ckpt_flatbuffer_vector(struct ckpt_flatbuffer *fb,
						     const struct ckpt_flatbuffer_table *t,
						     unsigned field, unsigned width);

/* The place of a struct in the table; 0: it is absent. */
uint64_t ckpt_flatbuffer_struct(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				unsigned field);

/* Item I, below the count, of a vector of tables. */
struct ckpt_flatbuffer_table ckpt_flatbuffer_item(struct ckpt_flatbuffer *fb,
						  const struct ckpt_flatbuffer_vector *v,
						  uint32_t i);

/* A text, copied to ARENA with a NUL after its *LEN bytes. "" if it is absent; NULL: fb->rc. */
const char *ckpt_flatbuffer_text(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				 unsigned field, struct ckpt_arena *arena, uint32_t *len);

/* The same for item I of a vector of texts. */
const char *ckpt_flatbuffer_text_item(struct ckpt_flatbuffer *fb,
				      const struct ckpt_flatbuffer_vector *v, uint32_t i,
				      struct ckpt_arena *arena, uint32_t *len);

#endif
