/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/assemble.h"

#include <libdeflate.h>
#include <string.h>

/*
 * Boxes of tensors that were cut into blocks, against a reference that looks up item by item. The
 * bytes of the blocks are random and lie in memory and in a file, in any order of dimensions, with
 * gaps, apart and on top of each other.
 */

enum { MOST_DIMS = 6, MOST_BLOCKS = 64, FILE_SIZE = 1 << 20, FILL = 0xA5 };

static char *folder;
static struct ckpt_error err;
static struct ckpt_source *file, *memory;
static uint8_t *file_bytes;
static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

static uint64_t below(uint64_t n)
{
	return next_random() % n;
}

static int setup(void **state)
{
	char *path;

	(void)state;
	folder = unit_folder_new();
	path = unit_path(folder, "bytes");
	file_bytes = malloc(FILE_SIZE);
	assert_non_null(file_bytes);
	for (size_t i = 0; i < FILE_SIZE; i += 8) {
		uint64_t bits = next_random();

		memcpy(file_bytes + i, &bits, 8);
	}
	unit_write_file(path, file_bytes, FILE_SIZE);
	assert_int_equal(ckpt_source_open(path, &file, &err), 0);
	assert_int_equal(ckpt_source_from_memory(file_bytes, FILE_SIZE, &memory, &err), 0);
	free(path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_source_unref(file);
	ckpt_source_unref(memory);
	free(file_bytes);
	unit_folder_remove(folder);
	return 0;
}

/* ---- tensors in blocks ---- */

struct made_block {
	uint64_t offset[MOST_DIMS], shape[MOST_DIMS], stride[MOST_DIMS];
	const uint8_t *bytes; /* those of its recipe */
	uint8_t *owned;	      /* or NULL */
};

struct made {
	uint32_t ndim, itemsize;
	uint64_t shape[MOST_DIMS];
	struct made_block made[MOST_BLOCKS];
	struct ckpt_tensor_block blocks[MOST_BLOCKS];
	size_t count;
};

static uint64_t volume(const uint64_t *shape, uint32_t ndim)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < ndim; i++)
		n *= shape[i];
	return n;
}

/* Start with the whole; cut a block that is there in two, some times. */
static void cut(struct made *m, unsigned cuts)
{
	memcpy(m->made[0].shape, m->shape, sizeof(m->shape));
	memset(m->made[0].offset, 0, sizeof(m->made[0].offset));
	m->count = 1;
	while (cuts-- && m->ndim && m->count < MOST_BLOCKS) {
		struct made_block *a = &m->made[below(m->count)], *b = &m->made[m->count];
		uint32_t dim = (uint32_t)below(m->ndim);
		uint64_t at;

		if (!a->shape[dim])
			continue;
		at = below(a->shape[dim] + 1); /* one half may be empty */
		*b = *a;
		b->offset[dim] += at;
		b->shape[dim] -= at;
		a->shape[dim] = at;
		m->count++;
	}
	for (size_t i = 0; i < m->count; i++) {
		size_t k = below(m->count);
		struct made_block swapped = m->made[k];

		m->made[k] = m->made[i];
		m->made[i] = swapped;
	}
}

enum layout {
	PLAIN,	  /* C order, nothing in front */
	PERMUTED, /* the dimensions in some order */
	LOOSE,	  /* with gaps between them */
	SHARED,	  /* items on top of each other, and some items for a whole dimension */
	LAYOUT_COUNT
};

/* Strides of a block; returns how many items it reaches over. */
static uint64_t lay(struct made_block *b, uint32_t ndim, enum layout layout)
{
	uint32_t order[MOST_DIMS];
	uint64_t step = 1, reach = 1;

	for (uint32_t i = 0; i < ndim; i++)
		order[i] = ndim - 1 - i;
	for (uint32_t i = 0; layout != PLAIN && i < ndim; i++) {
		uint32_t k = (uint32_t)below(ndim), kept = order[i];

		order[i] = order[k];
		order[k] = kept;
	}
	for (uint32_t i = 0; i < ndim; i++) {
		uint32_t d = order[i];

		b->stride[d] = layout == SHARED ? below(4) : step;
		if (layout == LOOSE)
			b->stride[d] += below(3);
		reach += b->shape[d] ? (b->shape[d] - 1) * b->stride[d] : 0;
		step = b->stride[d] * (b->shape[d] ? b->shape[d] : 1);
		if (b->shape[d] == 1 && below(3) == 0)
			b->stride[d] = below(1000); /* means nothing */
	}
	return reach;
}

static void give_bytes(struct made *m, size_t i, enum layout layout)
{
	struct made_block *b = &m->made[i];
	struct ckpt_tensor_block *out = &m->blocks[i];
	uint64_t reach = lay(b, m->ndim, layout), first = layout == PLAIN ? 0 : below(5);
	uint64_t items = first + reach + (layout == PLAIN ? 0 : below(5));
	uint64_t len = items * m->itemsize;
	struct ckpt_recipe bytes = { .len = len, .has_crc = true };

	if (len + 16 < FILE_SIZE && below(2)) {
		bytes.kind = CKPT_RECIPE_EXTENT;
		bytes.src = below(2) ? file : memory;
		bytes.off = below(FILE_SIZE - len);
		b->bytes = file_bytes + bytes.off;
	} else {
		b->owned = malloc(len ? len : 1); /* a sanitizer sees what reads past it */
		assert_non_null(b->owned);
		for (uint64_t k = 0; k < len; k++)
			b->owned[k] = (uint8_t)next_random();
		bytes.kind = CKPT_RECIPE_MEMORY;
		bytes.memory = b->bytes = b->owned;
	}
	bytes.crc32 = libdeflate_crc32(0, b->bytes, len);
	*out = (struct ckpt_tensor_block){ b->offset, b->shape, b->stride, first, bytes };
}

static void make(struct made *m, unsigned cuts, const enum layout *layout)
{
	cut(m, cuts);
	for (size_t i = 0; i < m->count; i++)
		give_bytes(m, i, layout ? *layout : (enum layout)below(LAYOUT_COUNT));
}

static void clear(struct made *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->made[i].owned);
}

/* ---- the reference ---- */

static const uint8_t *item_at(const struct made *m, const uint64_t *at)
{
	for (size_t k = 0; k < m->count; k++) {
		const struct made_block *b = &m->made[k];
		uint64_t item = m->blocks[k].first;
		uint32_t i = 0;

		for (; i < m->ndim; i++) {
			if (at[i] < b->offset[i] || at[i] - b->offset[i] >= b->shape[i])
				break;
			item += (at[i] - b->offset[i]) * b->stride[i];
		}
		if (i == m->ndim)
			return b->bytes + item * m->itemsize;
	}
	fail_msg("an item that is in no block");
	return NULL;
}

static uint8_t *expected(const struct made *m, const uint64_t *offset, const uint64_t *shape,
			 uint64_t *len)
{
	uint64_t items = volume(shape, m->ndim), at[MOST_DIMS];
	uint8_t *out;

	*len = items * m->itemsize;
	out = malloc(*len + 1);
	assert_non_null(out);
	memcpy(at, offset, sizeof(at));
	for (uint64_t n = 0; n < items; n++) {
		memcpy(out + n * m->itemsize, item_at(m, at), m->itemsize);
		for (uint32_t i = m->ndim; i-- > 0;) {
			if (++at[i] < offset[i] + shape[i])
				break;
			at[i] = offset[i];
		}
	}
	return out;
}

/* ---- reading ---- */

/* PIECE: bytes per read; 0: any. Reads behind each other, into a buffer with a guard behind it. */
static void check_bytes(const struct ckpt_recipe *recipe, const uint8_t *want, uint64_t len,
			size_t piece)
{
	uint8_t *found = malloc(len + 16);
	struct ckpt_stream *stream;
	uint64_t pos = 0;

	assert_non_null(found);
	assert_int_equal(recipe->len, len);
	memset(found, FILL, len + 16);
	assert_int_equal(ckpt_recipe_stream(recipe, &stream, &err), 0);
	while (pos < len) {
		uint64_t n = piece ? piece : 1 + below(len - pos);

		if (n > len - pos)
			n = len - pos;
		assert_int_equal(stream->read(stream, found + pos, (size_t)n, &err), 0);
		pos += n;
		assert_int_equal(found[pos], FILL);
	}
	stream->close(stream);
	assert_memory_equal(found, want, len);
	if (recipe->has_crc)
		assert_int_equal(recipe->crc32, libdeflate_crc32(0, want, len));
	free(found);
}

/* Joined recipes hold none that are joined, their lengths add up, and their checksums are true. */
static void check_parts(const struct ckpt_recipe *recipe, const uint8_t *want)
{
	uint64_t pos = 0;

	if (recipe->kind != CKPT_RECIPE_JOINED)
		return;
	assert_true(recipe->part_count > 1);
	for (size_t i = 0; i < recipe->part_count; i++) {
		const struct ckpt_recipe *part = &recipe->parts[i];

		assert_int_not_equal(part->kind, CKPT_RECIPE_JOINED);
		assert_true(part->len > 0 && part->len <= recipe->len - pos);
		check_bytes(part, want + pos, part->len, 0);
		pos += part->len;
	}
	assert_int_equal(pos, recipe->len);
}

static enum ckpt_recipe_kind check_box(const struct made *m, const uint64_t *offset,
				       const uint64_t *shape, size_t piece)
{
	struct ckpt_arena *arena = ckpt_arena_new(64 << 20);
	struct ckpt_recipe recipe;
	uint64_t len;
	uint8_t *want = expected(m, offset, shape, &len);
	int rc = ckpt_assemble(m->blocks, m->count, m->ndim, offset, shape, m->itemsize, arena,
			       &recipe, &err);

	if (rc < 0)
		fail_msg("%s", unit_message(&err));
	check_bytes(&recipe, want, len, piece);
	check_bytes(&recipe, want, len, 0); /* a recipe can be read more than once */
	check_parts(&recipe, want);
	ckpt_arena_free(arena);
	free(want);
	return recipe.kind;
}

static const uint64_t zeros[MOST_DIMS];

static void boxes_of_any_tensor_in_any_blocks(void **state)
{
	static const uint32_t itemsizes[] = { 1, 2, 4, 8, 16 };
	static const size_t pieces[] = { 0, 1, 3, 7, 64, 1 << 20 };
	unsigned kinds[4] = { 0 };

	(void)state;
	for (unsigned n = 0; n < 4000; n++) {
		struct made m = { .ndim = (uint32_t)below(6),
				  .itemsize = itemsizes[below(COUNT(itemsizes))] };
		uint64_t offset[MOST_DIMS] = { 0 }, shape[MOST_DIMS];
		unsigned most = m.ndim > 3 ? 5 : 12;

		for (uint32_t i = 0; i < m.ndim; i++)
			m.shape[i] = below(20) ? 1 + below(most) : 0;
		make(&m, (unsigned)below(10), NULL);
		kinds[check_box(&m, zeros, m.shape, pieces[below(COUNT(pieces))])]++;
		for (unsigned k = 0; k < 3; k++) {
			for (uint32_t i = 0; i < m.ndim; i++) {
				offset[i] = below(m.shape[i] + 1);
				shape[i] = below(m.shape[i] - offset[i] + 1);
			}
			kinds[check_box(&m, offset, shape, pieces[below(COUNT(pieces))])]++;
		}
		clear(&m);
	}
	for (size_t i = 0; i < COUNT(kinds); i++)
		assert_true(kinds[i] > 100); /* every kind was there */
}

static void tensors_of_many_bands(void **state)
{
	static const struct {
		uint32_t ndim;
		uint64_t shape[MOST_DIMS];
		uint32_t itemsize;
	} table[] = {
		{ 1, { 1300000 }, 4 },
		{ 2, { 2, 1100000 }, 1 },
		{ 2, { 700, 1000 }, 4 },
		{ 2, { 1100000, 2 }, 2 },
		{ 3, { 3, 300, 400 }, 8 },
		{ 3, { 2, 2, 150000 }, 8 },
		{ 3, { 2, 140000, 3 }, 4 },
		{ 4, { 3, 2, 2, 90000 }, 16 },
		{ 4, { 7, 1, 1000, 100 }, 2 },
		{ 5, { 2, 3, 2, 3, 40000 }, 4 },
		{ 3, { 1, 1, (1 << 20) + 1 }, 1 },
		{ 2, { 2, 1 << 19 }, 2 },
		{ 2, { 2, (1 << 19) + 1 }, 2 },
		{ 2, { 1200, 1800 }, 4 }, /* turned: its rows lie far apart */
	};
	static const size_t pieces[] = { 0, 4099, 65536, 1 << 20, (1 << 20) + 1 };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		for (enum layout layout = PLAIN; layout < SHARED; layout++) {
			if (layout != (enum layout)(i % SHARED) && !unit_rounds(0, 1))
				continue;

			struct made m = { .ndim = table[i].ndim, .itemsize = table[i].itemsize };
			uint64_t offset[MOST_DIMS] = { 0 }, shape[MOST_DIMS];

			memcpy(m.shape, table[i].shape, sizeof(m.shape));
			make(&m, 1 + (unsigned)below(8), &layout);
			check_box(&m, zeros, m.shape, pieces[below(COUNT(pieces))]);
			for (uint32_t d = 0; d < m.ndim; d++) {
				offset[d] = m.shape[d] > 2 ? 1 : 0;
				shape[d] = m.shape[d] - 2 * offset[d];
			}
			check_box(&m, offset, shape, pieces[below(COUNT(pieces))]);
			clear(&m);
		}
}

/* ---- one by one ---- */

static struct ckpt_tensor_block block_of(const uint64_t *offset, const uint64_t *shape,
				  const uint64_t *stride, const void *bytes, uint64_t len)
{
	return (struct ckpt_tensor_block){ .offset = offset,
				    .shape = shape,
				    .stride = stride,
				    .bytes = { .kind = CKPT_RECIPE_MEMORY,
					       .memory = bytes,
					       .len = len,
					       .has_crc = true,
					       .crc32 = libdeflate_crc32(0, bytes, len) } };
}

/* Columns 0 and 1, then column 2, of a tensor with two rows. */
static const uint64_t whole[2] = { 2, 3 }, left_shape[2] = { 2, 2 }, right_shape[2] = { 2, 1 },
		      right_offset[2] = { 0, 2 }, left_stride[2] = { 2, 1 },
		      right_stride[2] = { 1, 1 };

static void what_is_one_block_keeps_its_checksum(void **state)
{
	static const uint64_t row_stride[2] = { 3, 1 }, second_row[2] = { 1, 0 }, row[2] = { 1, 3 };
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor_block block = block_of(zeros, whole, row_stride, "abcdef", 6);
	struct ckpt_recipe recipe;

	(void)state;
	assert_int_equal(ckpt_assemble(&block, 1, 2, zeros, whole, 1, arena, &recipe, &err), 0);
	assert_int_equal(recipe.kind, CKPT_RECIPE_MEMORY);
	assert_ptr_equal(recipe.memory, block.bytes.memory);
	assert_true(recipe.has_crc);
	assert_int_equal(recipe.crc32, block.bytes.crc32);
	assert_int_equal(ckpt_assemble(&block, 1, 2, second_row, row, 1, arena, &recipe, &err), 0);
	assert_int_equal(recipe.kind, CKPT_RECIPE_MEMORY);
	assert_int_equal(recipe.len, 3);
	assert_memory_equal(recipe.memory, "def", 3);
	assert_false(recipe.has_crc); /* nobody knows that of a part */
	ckpt_arena_free(arena);
}

static void rows_are_joined_and_keep_their_checksums(void **state)
{
	static const uint64_t row[2] = { 1, 3 }, stride[2] = { 3, 1 }, second[2] = { 1, 0 };
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor_block blocks[2] = { block_of(second, row, stride, "def", 3),
					block_of(zeros, row, stride, "abc", 3) };
	struct ckpt_recipe recipe;

	(void)state;
	assert_int_equal(ckpt_assemble(blocks, 2, 2, zeros, whole, 1, arena, &recipe, &err), 0);
	assert_int_equal(recipe.kind, CKPT_RECIPE_JOINED);
	assert_int_equal(recipe.part_count, 2);
	assert_false(recipe.has_crc);
	assert_ptr_equal(recipe.parts[0].memory, blocks[1].bytes.memory);
	assert_true(recipe.parts[0].has_crc && recipe.parts[1].has_crc);
	assert_int_equal(recipe.parts[1].crc32, libdeflate_crc32(0, "def", 3));
	ckpt_arena_free(arena);
}

static void columns_are_put_in_their_places(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor_block blocks[2] = { block_of(zeros, left_shape, left_stride, "abde", 4),
					block_of(right_offset, right_shape, right_stride, "cf",
						 2) };
	struct ckpt_recipe recipe;

	(void)state;
	assert_int_equal(ckpt_assemble(blocks, 2, 2, zeros, whole, 1, arena, &recipe, &err), 0);
	assert_int_equal(recipe.kind, CKPT_RECIPE_STREAM);
	check_bytes(&recipe, (const uint8_t *)"abcdef", 6, 1);
	ckpt_arena_free(arena);
}

static void a_hole_is_an_error(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor_block left = block_of(zeros, left_shape, left_stride, "abde", 4);
	struct ckpt_recipe recipe;

	(void)state;
	assert_int_equal(ckpt_assemble(&left, 1, 2, zeros, whole, 1, arena, &recipe, &err),
			 CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "its chunks hold 4 of 6 items");
	assert_int_equal(ckpt_assemble(NULL, 0, 2, zeros, whole, 1, arena, &recipe, &err),
			 CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "its chunks hold 0 of 6 items");
	assert_int_equal(ckpt_assemble(NULL, 0, 0, zeros, zeros, 1, arena, &recipe, &err),
			 CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "its chunks hold 0 of 1 items");
	/* outside of the box it does not matter */
	assert_int_equal(ckpt_assemble(&left, 1, 2, zeros, left_shape, 1, arena, &recipe, &err), 0);
	check_bytes(&recipe, (const uint8_t *)"abde", 4, 0);
	ckpt_arena_free(arena);
}

static void an_empty_box_needs_no_blocks(void **state)
{
	static const uint64_t empty[2] = { 2, 0 };
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_recipe recipe;

	(void)state;
	assert_int_equal(ckpt_assemble(NULL, 0, 2, zeros, empty, 8, arena, &recipe, &err), 0);
	check_bytes(&recipe, (const uint8_t *)"", 0, 0);
	ckpt_arena_free(arena);
}

struct one_pass {
	struct ckpt_stream base;
	const uint8_t *bytes;
};

static int read_on(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *e)
{
	struct one_pass *s = (struct one_pass *)stream;

	(void)e;
	memcpy(buf, s->bytes, len);
	s->bytes += len;
	return 0;
}

static void close_pass(struct ckpt_stream *stream)
{
	free(stream);
}

static int open_pass(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		     struct ckpt_error *e)
{
	struct one_pass *s = calloc(1, sizeof(*s));

	(void)e;
	assert_non_null(s);
	s->base = (struct ckpt_stream){ .read = read_on, .close = close_pass };
	s->bytes = recipe->ctx;
	*out = &s->base;
	return 0;
}

static struct ckpt_tensor_block compressed(struct ckpt_tensor_block block)
{
	block.bytes.kind = CKPT_RECIPE_STREAM;
	block.bytes.open = open_pass;
	block.bytes.ctx = (void *)block.bytes.memory;
	return block;
}

static void of_compressed_blocks_only_stretches_are_taken(void **state)
{
	static const uint64_t row[2] = { 1, 3 }, stride[2] = { 3, 1 }, second[2] = { 1, 0 },
			      turned[2] = { 1, 2 }, right[2] = { 0, 1 };
	static const char refused[] = "rows would have to be taken out of bytes that come front to "
				      "back only (compressed, or cast)";
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor_block rows[2] = { compressed(block_of(zeros, row, stride, "abc", 3)),
				      compressed(block_of(second, row, stride, "def", 3)) };
	struct ckpt_tensor_block columns[2] = {
		compressed(block_of(zeros, left_shape, left_stride, "abde", 4)),
		block_of(right_offset, right_shape, right_stride, "cf", 2)
	};
	struct ckpt_recipe recipe;

	(void)state;
	assert_int_equal(ckpt_assemble(rows, 2, 2, zeros, whole, 1, arena, &recipe, &err), 0);
	check_bytes(&recipe, (const uint8_t *)"abcdef", 6, 2);
	assert_int_equal(ckpt_assemble(rows, 2, 2, zeros, row, 1, arena, &recipe, &err), 0);
	assert_true(recipe.has_crc);
	check_bytes(&recipe, (const uint8_t *)"abc", 3, 2);
	assert_int_equal(ckpt_assemble(rows, 2, 2, right, left_shape, 1, arena, &recipe, &err), 0);
	assert_false(recipe.has_crc);
	check_bytes(&recipe, (const uint8_t *)"bcef", 4, 1);
	check_bytes(&recipe, (const uint8_t *)"bcef", 4, 3);
	assert_int_equal(ckpt_assemble(columns, 2, 2, zeros, whole, 1, arena, &recipe, &err),
			 CKPT_E_UNSUPPORTED);
	assert_string_equal(unit_text(&err), refused);
	columns[0].stride = turned;
	assert_int_equal(ckpt_assemble(columns, 1, 2, zeros, left_shape, 1, arena, &recipe, &err),
			 CKPT_E_UNSUPPORTED);
	assert_string_equal(unit_text(&err), refused);
	ckpt_arena_free(arena);
}

static void a_long_stretch_of_compressed_bytes_is_found(void **state)
{
	static const uint64_t shape[1] = { 600000 }, one[1] = { 1 }, from[1] = { 399999 },
			      len[1] = { 100001 };
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor_block block = compressed(block_of(zeros, shape, one, file_bytes, 600000));
	struct ckpt_recipe recipe;

	(void)state;
	assert_int_equal(ckpt_assemble(&block, 1, 1, from, len, 1, arena, &recipe, &err), 0);
	check_bytes(&recipe, file_bytes + 399999, 100001, 0);
	ckpt_arena_free(arena);
}

static void a_source_that_is_too_short_is_an_error_while_reading(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor_block blocks[2] = { block_of(zeros, left_shape, left_stride, "abde", 4),
					block_of(right_offset, right_shape, right_stride, "cf",
						 2) };
	struct ckpt_recipe recipe;
	struct ckpt_stream *stream;
	uint8_t bytes[6];

	(void)state;
	blocks[1].bytes.kind = CKPT_RECIPE_EXTENT;
	blocks[1].bytes.src = file;
	blocks[1].bytes.off = FILE_SIZE - 1;
	assert_int_equal(ckpt_assemble(blocks, 2, 2, zeros, whole, 1, arena, &recipe, &err), 0);
	assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), 0);
	assert_int_equal(stream->read(stream, bytes, 6, &err), CKPT_E_FORMAT);
	stream->close(stream);
	ckpt_arena_free(arena);
}

static void an_arena_that_is_full_is_an_error(void **state)
{
	struct ckpt_tensor_block blocks[2] = { block_of(zeros, left_shape, left_stride, "abde", 4),
					block_of(right_offset, right_shape, right_stride, "cf",
						 2) };
	static const uint64_t turned[2] = { 1, 2 };
	struct ckpt_tensor_block block = block_of(zeros, left_shape, turned, "adbe", 4);
	struct ckpt_recipe recipe;

	(void)state;
	for (unsigned budget = 0; budget < 1000; budget += 500) {
		struct ckpt_arena *arena = ckpt_arena_new(budget);

		assert_int_equal(ckpt_assemble(blocks, 2, 2, zeros, whole, 1, arena, &recipe, &err),
				 CKPT_E_LIMIT);
		assert_int_equal(ckpt_assemble(&block, 1, 2, zeros, left_shape, 1, arena, &recipe,
					       &err),
				 CKPT_E_LIMIT);
		ckpt_arena_free(arena);
	}
}

UNIT_SUITE(test_assemble)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boxes_of_any_tensor_in_any_blocks),
		cmocka_unit_test(tensors_of_many_bands),
		cmocka_unit_test(what_is_one_block_keeps_its_checksum),
		cmocka_unit_test(rows_are_joined_and_keep_their_checksums),
		cmocka_unit_test(columns_are_put_in_their_places),
		cmocka_unit_test(a_hole_is_an_error),
		cmocka_unit_test(an_empty_box_needs_no_blocks),
		cmocka_unit_test(of_compressed_blocks_only_stretches_are_taken),
		cmocka_unit_test(a_long_stretch_of_compressed_bytes_is_found),
		cmocka_unit_test(a_source_that_is_too_short_is_an_error_while_reading),
		cmocka_unit_test(an_arena_that_is_full_is_an_error),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
