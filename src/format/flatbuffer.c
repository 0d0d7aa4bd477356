/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a FlatBuffers file through a small cache of blocks, as tables and vectors are small and
 * far apart.
 *
 * What must stay true: every place is checked against the size of the file before it is read,
 * offsets are added in 64 bits, and after the first failure (RC) nothing is read and all results
 * are 0 or NULL; what a caller reads in proportion to is paid for by spend(), as tables may
 * point to each other and so make a small file look large.
 */
#include "format/flatbuffer.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, BLOCKS = 64 };
static const uint64_t BUDGET_BASE = 1 << 20;

int ckpt_flatbuffer_open(struct ckpt_flatbuffer *fb, const struct ckpt_source *source,
			 struct ckpt_error *err)
{
	*fb = (struct ckpt_flatbuffer){ .source = source,
					.size = ckpt_source_size(source),
					.err = err };
	/* a text may be read several times, as writers share equal ones; vectors are not shared */
	if (__builtin_mul_overflow(fb->size, (uint64_t)4, &fb->budget))
		fb->budget = fb->size;
	fb->budget += BUDGET_BASE;
	fb->blocks = malloc((size_t)BLOCK * BLOCKS);
	fb->numbers = malloc(BLOCKS * sizeof(*fb->numbers));
	if (!fb->blocks || !fb->numbers)
		return ckpt_fail_nomem(err);
	memset(fb->numbers, 0xFF, BLOCKS * sizeof(*fb->numbers));
	return 0;
}

void ckpt_flatbuffer_clear(struct ckpt_flatbuffer *fb)
{
	free(fb->blocks);
	free(fb->numbers);
	*fb = (struct ckpt_flatbuffer){ 0 };
}

int ckpt_flatbuffer_fail(struct ckpt_flatbuffer *fb, int status, uint64_t at, const char *what)
{
	if (fb->rc == 0)
		fb->rc = ckpt_error_at(fb->err, ckpt_fail(fb->err, status, "%s", what), NULL, NULL,
				       at);
	return fb->rc;
}

/* ---- bytes ---- */

static const uint8_t *read_block(struct ckpt_flatbuffer *fb, uint64_t number)
{
	size_t place = (size_t)(number % BLOCKS);
	uint8_t *bytes = fb->blocks + place * BLOCK;
	uint64_t left = fb->size - number * BLOCK;
	int rc;

	if (fb->numbers[place] == number)
		return bytes;
	fb->numbers[place] = UINT64_MAX;
	rc = ckpt_source_read(fb->source, number * BLOCK, bytes, left < BLOCK ? left : BLOCK,
			      fb->err);
	if (rc < 0) {
		fb->rc = rc;
		return NULL;
	}
	fb->numbers[place] = number;
	return bytes;
}

static bool is_inside(struct ckpt_flatbuffer *fb, uint64_t at, uint64_t len)
{
	if (fb->rc == 0 && (at > fb->size || len > fb->size - at))
		ckpt_flatbuffer_fail(fb, CKPT_E_FORMAT, at, "points past the end of the file");
	return fb->rc == 0;
}

uint64_t ckpt_flatbuffer_number(struct ckpt_flatbuffer *fb, uint64_t at, unsigned width)
{
	uint64_t v = 0;

	if (!is_inside(fb, at, width))
		return 0;
	for (unsigned i = 0; i < width; i++) {
		const uint8_t *bytes = read_block(fb, (at + i) / BLOCK);

		if (!bytes)
			return 0;
		v |= (uint64_t)bytes[(at + i) % BLOCK] << 8 * i;
	}
	return v;
}

/* The place that the offset at AT points to. 0: it failed, fb->rc. */
static uint64_t follow_offset(struct ckpt_flatbuffer *fb, uint64_t at)
{
	uint64_t off = ckpt_flatbuffer_number(fb, at, 4);

	return is_inside(fb, at, off) ? at + off : 0;
}

static bool spend(struct ckpt_flatbuffer *fb, uint64_t count, uint64_t at)
{
	if (fb->rc == 0 && count > fb->budget)
		ckpt_flatbuffer_fail(fb, CKPT_E_LIMIT, at,
				     "has more in its vectors than a file of this size can hold");
	if (fb->rc == 0)
		fb->budget -= count;
	return fb->rc == 0;
}

/* ---- tables ---- */

static struct ckpt_flatbuffer_table table_at(struct ckpt_flatbuffer *fb, uint64_t at)
{
	struct ckpt_flatbuffer_table t = { .at = at };
	int32_t back = (int32_t)ckpt_flatbuffer_number(fb, at, 4);

	t.vtable = at - (uint64_t)(int64_t)back;
	t.vtable_size = (uint32_t)ckpt_flatbuffer_number(fb, t.vtable, 2);
	t.size = (uint32_t)ckpt_flatbuffer_number(fb, t.vtable + 2, 2);
	if (is_inside(fb, t.vtable, t.vtable_size) && is_inside(fb, at, t.size) &&
	    (t.vtable_size < 4 || t.vtable_size % 2 || t.size < 4))
		ckpt_flatbuffer_fail(fb, CKPT_E_FORMAT, at, "a table without a vtable");
	return fb->rc < 0 ? (struct ckpt_flatbuffer_table){ 0 } : t;
}

struct ckpt_flatbuffer_table ckpt_flatbuffer_root(struct ckpt_flatbuffer *fb)
{
	return table_at(fb, follow_offset(fb, 0));
}

/* The place of FIELD, of WIDTH bytes; 0: it is absent, or fb->rc. */
static uint64_t field_at(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
			 unsigned field, unsigned width)
{
	uint32_t entry = 4 + 2 * field, off;

	if (!t->at || fb->rc < 0 || entry + 2 > t->vtable_size)
		return 0;
	off = (uint32_t)ckpt_flatbuffer_number(fb, t->vtable + entry, 2);
	if (off && (off < 4 || off + width > t->size))
		ckpt_flatbuffer_fail(fb, CKPT_E_FORMAT, t->at, "a field outside of its table");
	return off && fb->rc == 0 ? t->at + off : 0;
}

uint64_t ckpt_flatbuffer_scalar(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				unsigned field, unsigned width, uint64_t default_)
{
	uint64_t at = field_at(fb, t, field, width);

	return at ? ckpt_flatbuffer_number(fb, at, width) : default_;
}

uint64_t ckpt_flatbuffer_struct(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				unsigned field)
{
	uint64_t at = field_at(fb, t, field, 4);

	return at ? follow_offset(fb, at) : 0;
}

struct ckpt_flatbuffer_table ckpt_flatbuffer_table(struct ckpt_flatbuffer *fb,
						   const struct ckpt_flatbuffer_table *t,
						   unsigned field)
{
	uint64_t at = ckpt_flatbuffer_struct(fb, t, field);

	return at ? table_at(fb, at) : (struct ckpt_flatbuffer_table){ 0 };
}

/* ---- vectors ---- */

static struct ckpt_flatbuffer_vector vector_at(struct ckpt_flatbuffer *fb, uint64_t at,
					       unsigned width)
{
	struct ckpt_flatbuffer_vector v = { .at = at + 4 };

	v.count = (uint32_t)ckpt_flatbuffer_number(fb, at, 4);
	if (!is_inside(fb, v.at, (uint64_t)v.count * width))
		return (struct ckpt_flatbuffer_vector){ 0 };
	return v;
}

struct ckpt_flatbuffer_vector ckpt_flatbuffer_vector(struct ckpt_flatbuffer *fb,
						     const struct ckpt_flatbuffer_table *t,
						     unsigned field, unsigned width)
{
	uint64_t at = field_at(fb, t, field, 4);
	struct ckpt_flatbuffer_vector v = { 0 };

	if (at)
		v = vector_at(fb, follow_offset(fb, at), width);
	/* a vector of bytes is not read here */
	return spend(fb, width == 1 ? 1 : v.count, at) ? v : (struct ckpt_flatbuffer_vector){ 0 };
}

struct ckpt_flatbuffer_table ckpt_flatbuffer_item(struct ckpt_flatbuffer *fb,
						  const struct ckpt_flatbuffer_vector *v,
						  uint32_t i)
{
	uint64_t at = follow_offset(fb, v->at + 4 * (uint64_t)i);

	return fb->rc == 0 ? table_at(fb, at) : (struct ckpt_flatbuffer_table){ 0 };
}

/* ---- texts ---- */

static const char *text_at(struct ckpt_flatbuffer *fb, uint64_t at, struct ckpt_arena *arena,
			   uint32_t *len)
{
	struct ckpt_flatbuffer_vector v = vector_at(fb, at, 1);
	char *text = NULL;

	if (fb->rc == 0 && ckpt_flatbuffer_number(fb, v.at + v.count, 1))
		ckpt_flatbuffer_fail(fb, CKPT_E_FORMAT, at, "a text without a zero at its end");
	if (spend(fb, v.count, at) && !(text = ckpt_arena_alloc(arena, (uint64_t)v.count + 1)))
		fb->rc = ckpt_arena_fail(arena, fb->err);
	if (fb->rc == 0)
		fb->rc = ckpt_source_read(fb->source, v.at, text, v.count, fb->err);
	if (fb->rc < 0)
		return NULL;
	text[v.count] = '\0';
	*len = v.count;
	return text;
}

const char *ckpt_flatbuffer_text(struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *t,
				 unsigned field, struct ckpt_arena *arena, uint32_t *len)
{
	uint64_t at = field_at(fb, t, field, 4);

	*len = 0;
	if (at)
		at = follow_offset(fb, at);
	if (fb->rc < 0)
		return NULL;
	return at ? text_at(fb, at, arena, len) : "";
}

const char *ckpt_flatbuffer_text_item(struct ckpt_flatbuffer *fb,
				      const struct ckpt_flatbuffer_vector *v, uint32_t i,
				      struct ckpt_arena *arena, uint32_t *len)
{
	uint64_t at = follow_offset(fb, v->at + 4 * (uint64_t)i);

	*len = 0;
	return fb->rc < 0 ? NULL : text_at(fb, at, arena, len);
}
