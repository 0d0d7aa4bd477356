/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "set/cover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Chunks of a tensor against a reference that counts item by item how many chunks hold it. */

enum { MOST_DIMS = 4, MOST_CHUNKS = 40, TEXT = 1024 };

static struct ckpt_error err;
static uint64_t random_state = 88172645463325252u;
static const char *files[] = { "__0_0.distcp", "__1_0.distcp" };

static uint64_t below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

struct cover_case {
	uint64_t shape[MOST_DIMS];
	uint64_t offsets[MOST_CHUNKS][MOST_DIMS], shapes[MOST_CHUNKS][MOST_DIMS];
	struct ckpt_box boxes[MOST_CHUNKS];
	uint32_t ndim;
	size_t count;
};

static int check(struct cover_case *c)
{
	for (size_t i = 0; i < c->count; i++)
		c->boxes[i] = (struct ckpt_box){ c->offsets[i], c->shapes[i], files[i % 2] };
	return ckpt_cover_check(c->boxes, c->count, c->shape, c->ndim, &err);
}

/* ---- the reference ---- */

static uint64_t volume(const uint64_t *shape, uint32_t ndim)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < ndim; i++)
		n *= shape[i];
	return n;
}

static bool is_inside(const struct cover_case *c, size_t chunk, const uint64_t *at)
{
	for (uint32_t i = 0; i < c->ndim; i++)
		if (at[i] < c->offsets[chunk][i] ||
		    at[i] >= c->offsets[chunk][i] + c->shapes[chunk][i])
			return false;
	return true;
}

static void item(const struct cover_case *c, uint64_t n, uint64_t *at)
{
	for (uint32_t i = c->ndim; i-- > 0;) {
		at[i] = n % c->shape[i];
		n /= c->shape[i];
	}
}

struct truth {
	uint64_t sum, holes;
	bool overlap;
};

static struct truth look(const struct cover_case *c)
{
	struct truth t = { 0 };

	for (uint64_t n = 0; n < volume(c->shape, c->ndim); n++) {
		uint64_t at[MOST_DIMS], holders = 0;

		item(c, n, at);
		for (size_t i = 0; i < c->count; i++)
			holders += is_inside(c, i, at);
		t.sum += holders;
		t.holes += holders == 0;
		t.overlap |= holders > 1;
	}
	return t;
}

static void spell_box(const uint64_t *offset, const uint64_t *shape, uint32_t ndim, char *text)
{
	text += sprintf(text, "[");
	for (uint32_t i = 0; i < ndim; i++)
		text += sprintf(text, "%s%" PRIu64 ":%" PRIu64, i ? ", " : "", offset[i],
				offset[i] + shape[i]);
	sprintf(text, "]");
}

/* Does the text name two chunks that do overlap, and their files? */
static bool names_overlap(const struct cover_case *c)
{
	for (size_t a = 0; a < c->count; a++)
		for (size_t b = 0; b < c->count; b++) {
			char first[200], second[200], want[TEXT];
			bool meet = a != b;

			for (uint32_t i = 0; i < c->ndim; i++)
				meet &= c->offsets[a][i] < c->offsets[b][i] + c->shapes[b][i] &&
					c->offsets[b][i] < c->offsets[a][i] + c->shapes[a][i];
			if (!meet || !volume(c->shapes[a], c->ndim) ||
			    !volume(c->shapes[b], c->ndim))
				continue;
			spell_box(c->offsets[a], c->shapes[a], c->ndim, first);
			spell_box(c->offsets[b], c->shapes[b], c->ndim, second);
			snprintf(want, sizeof(want), "chunks overlap: %s in %s and %s in %s", first,
				 files[a % 2], second, files[b % 2]);
			if (!strcmp(want, unit_text(&err)))
				return true;
		}
	return false;
}

/* Does the text count right, and name an item that is in no chunk? */
static bool names_hole(const struct cover_case *c, uint64_t sum)
{
	static const uint64_t ones[MOST_DIMS] = { 1, 1, 1, 1 };

	for (uint64_t n = 0; n < volume(c->shape, c->ndim); n++) {
		char box[200], want[TEXT];
		uint64_t at[MOST_DIMS];
		bool held = false;

		item(c, n, at);
		for (size_t i = 0; i < c->count; i++)
			held |= is_inside(c, i, at);
		if (held)
			continue;
		spell_box(at, ones, c->ndim, box);
		snprintf(want, sizeof(want),
			 "its chunks hold %" PRIu64 " of %" PRIu64
			 " items; the one at %s is in none of them",
			 sum, volume(c->shape, c->ndim), box);
		if (!strcmp(want, unit_text(&err)))
			return true;
	}
	return false;
}

static void judge(struct cover_case *c)
{
	struct truth t = look(c);
	int rc = check(c);

	if (!t.overlap && !t.holes) {
		if (rc < 0)
			fail_msg("sound chunks: %s", unit_text(&err));
		return;
	}
	assert_int_equal(rc, CKPT_E_FORMAT);
	if (t.overlap ? !names_overlap(c) : !names_hole(c, t.sum))
		fail_msg("not true: %s", unit_text(&err));
}

/* ---- chunks ---- */

static void cut(struct cover_case *c, unsigned cuts)
{
	memset(c->offsets[0], 0, sizeof(c->offsets[0]));
	memcpy(c->shapes[0], c->shape, sizeof(c->shape));
	c->count = 1;
	while (cuts-- && c->ndim) {
		size_t a = below(c->count), b = c->count;
		uint32_t dim = (uint32_t)below(c->ndim);
		uint64_t at = below(c->shapes[a][dim] + 1);

		memcpy(c->offsets[b], c->offsets[a], sizeof(c->offsets[a]));
		memcpy(c->shapes[b], c->shapes[a], sizeof(c->shapes[a]));
		c->offsets[b][dim] += at;
		c->shapes[b][dim] -= at;
		c->shapes[a][dim] = at;
		c->count++;
	}
}

static void swap_chunks(struct cover_case *c, size_t a, size_t b)
{
	uint64_t kept[MOST_DIMS];

	memcpy(kept, c->offsets[a], sizeof(kept));
	memmove(c->offsets[a], c->offsets[b], sizeof(kept));
	memcpy(c->offsets[b], kept, sizeof(kept));
	memcpy(kept, c->shapes[a], sizeof(kept));
	memmove(c->shapes[a], c->shapes[b], sizeof(kept));
	memcpy(c->shapes[b], kept, sizeof(kept));
}

/* Move, grow, shrink, double or drop a chunk, so that it stays inside of the tensor. */
static void damage(struct cover_case *c)
{
	size_t i = below(c->count);
	uint32_t dim = c->ndim ? (uint32_t)below(c->ndim) : 0;
	uint64_t *offset = &c->offsets[i][dim], *shape = &c->shapes[i][dim];
	bool at_end = !c->ndim || *offset + *shape == c->shape[dim];

	switch (below(6)) {
	case 0: *offset += !at_end; break;
	case 1: *shape += !at_end; break;
	case 2: *shape -= c->ndim && *shape; break;
	case 3: *offset -= c->ndim && *offset; break;
	case 4: swap_chunks(c, i, --c->count); break;
	default:
		if (c->count == MOST_CHUNKS)
			break;
		memcpy(c->offsets[c->count], c->offsets[i], sizeof(c->offsets[i]));
		memcpy(c->shapes[c->count++], c->shapes[i], sizeof(c->shapes[i]));
	}
}

static void random_case(struct cover_case *c)
{
	c->ndim = 1 + (uint32_t)below(MOST_DIMS);
	for (uint32_t i = 0; i < c->ndim; i++)
		c->shape[i] = 1 + below(c->ndim == MOST_DIMS ? 4 : 6);
	cut(c, (unsigned)below(12));
	for (size_t i = 0; i < c->count; i++)
		swap_chunks(c, i, below(c->count));
}

static void chunks_that_cover_a_tensor_once_are_sound(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 3000; n++) {
		struct cover_case c;

		random_case(&c);
		assert_false(look(&c).overlap || look(&c).holes);
		judge(&c);
	}
}

static void holes_and_overlaps_are_found_and_named(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 20000; n++) {
		struct cover_case c;

		random_case(&c);
		for (uint64_t k = below(4); c.count && k-- > 0;)
			damage(&c);
		judge(&c);
	}
}

static void a_hole_between_chunks_that_stand_around_it_is_found(void **state)
{
	static const uint64_t around[2][4][2][2] = {
		{ { { 0, 0 }, { 1, 2 } },
		  { { 0, 2 }, { 2, 1 } },
		  { { 2, 1 }, { 1, 2 } },
		  { { 1, 0 }, { 2, 1 } } },
		{ { { 0, 0 }, { 2, 1 } },
		  { { 0, 1 }, { 1, 2 } },
		  { { 1, 2 }, { 2, 1 } },
		  { { 2, 0 }, { 1, 2 } } },
	};
	struct cover_case c = { .ndim = 2, .shape = { 3, 3 } };

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		c.count = 4;
		for (size_t i = 0; i < 4; i++) {
			memcpy(c.offsets[i], around[k][i][0], 2 * sizeof(uint64_t));
			memcpy(c.shapes[i], around[k][i][1], 2 * sizeof(uint64_t));
		}
		judge(&c);
		assert_string_equal(unit_text(&err),
				    "its chunks hold 8 of 9 items; the one at [1:2, 1:2] "
				    "is in none of them");
	}
}

static void grids_are_sound_and_every_missing_field_is_named(void **state)
{
	(void)state;
	for (size_t missing = 0; missing <= 36; missing++) {
		struct cover_case c = { .ndim = 2, .shape = { 6, 6 } };

		for (size_t i = 0; i < 36; i++) {
			if (i == missing)
				continue;
			c.offsets[c.count][0] = i / 6;
			c.offsets[c.count][1] = i % 6;
			c.shapes[c.count][0] = c.shapes[c.count][1] = 1;
			c.count++;
		}
		judge(&c);
	}
}

static void scalars_have_one_chunk(void **state)
{
	struct cover_case c = { .ndim = 0 };

	(void)state;
	c.count = 1;
	assert_int_equal(check(&c), 0);
	c.count = 0;
	assert_int_equal(check(&c), CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err),
			    "its chunks hold 0 of 1 items; the one at [] is in none of them");
	c.count = 2;
	assert_int_equal(check(&c), CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "a scalar in 2 chunks");
}

static void tensors_without_items_need_no_chunks(void **state)
{
	struct cover_case c = { .ndim = 2, .shape = { 4, 0 } };

	(void)state;
	assert_int_equal(check(&c), 0);
	c.count = 3; /* all of shape 0 */
	assert_int_equal(check(&c), 0);
}

static void a_chunk_without_a_place_is_named(void **state)
{
	struct cover_case c = { .ndim = 1, .shape = { 4 }, .count = 2 };

	(void)state;
	c.shapes[0][0] = 4;
	c.offsets[1][0] = 4;
	assert_int_equal(check(&c), 0);
	c.boxes[1].file = NULL; /* is empty: it may */
	assert_int_equal(ckpt_cover_check(c.boxes, c.count, c.shape, c.ndim, &err), 0);
	c.boxes[0].file = NULL;
	assert_int_equal(ckpt_cover_check(c.boxes, c.count, c.shape, c.ndim, &err), CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "the index does not say where chunk [0:4] is");
}

/* ---- many ---- */

static void check_many(uint64_t rows, uint64_t columns)
{
	uint64_t count = rows * columns, shape[2] = { 3 * rows, 5 * columns },
		 (*offsets)[2] = calloc(count, sizeof(*offsets)), chunk[2] = { 3, 5 };
	struct ckpt_box *boxes = calloc(count, sizeof(*boxes));
	char want[TEXT];

	assert_true(offsets && boxes);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t n = i * 7919 % count; /* in no order */

		offsets[n][0] = i / columns * 3;
		offsets[n][1] = i % columns * 5;
		boxes[n] = (struct ckpt_box){ offsets[n], chunk, files[0] };
	}
	assert_int_equal(ckpt_cover_check(boxes, count, shape, 2, &err), 0);
	assert_int_equal(ckpt_cover_check(boxes, count - 1, shape, 2, &err), CKPT_E_FORMAT);
	snprintf(want, sizeof(want), "its chunks hold %" PRIu64 " of %" PRIu64 " items",
		 15 * (count - 1), 15 * count);
	assert_string_equal(unit_text(&err), want); /* looking for the hole would take too long */
	boxes[count / 2] = boxes[count / 3];
	assert_int_equal(ckpt_cover_check(boxes, count, shape, 2, &err), CKPT_E_FORMAT);
	assert_int_equal(strncmp(unit_text(&err), "chunks overlap: [", 17), 0);
	free(offsets);
	free(boxes);
}

static void many_chunks_take_no_time(void **state)
{
	(void)state;
	check_many(1, 200000);
	check_many(200000, 1);
	check_many(300, 300);
}

static void long_names_and_boxes_are_cut(void **state)
{
	uint64_t shape[64], zeros[64] = { 0 };
	static char name[5000];
	struct ckpt_box boxes[2] = { { zeros, shape, name }, { zeros, shape, name } };

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	for (size_t i = 0; i < 64; i++)
		shape[i] = 1;
	shape[0] = (uint64_t)1 << 62;
	assert_int_equal(ckpt_cover_check(boxes, 2, shape, 64, &err), CKPT_E_FORMAT);
	assert_int_equal(strncmp(unit_text(&err), "chunks overlap: [0:4611686018427387904, 0:1",
				 43),
			 0);
}

UNIT_SUITE(test_cover)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_that_cover_a_tensor_once_are_sound),
		cmocka_unit_test(holes_and_overlaps_are_found_and_named),
		cmocka_unit_test(a_hole_between_chunks_that_stand_around_it_is_found),
		cmocka_unit_test(grids_are_sound_and_every_missing_field_is_named),
		cmocka_unit_test(scalars_have_one_chunk),
		cmocka_unit_test(tensors_without_items_need_no_chunks),
		cmocka_unit_test(a_chunk_without_a_place_is_named),
		cmocka_unit_test(many_chunks_take_no_time),
		cmocka_unit_test(long_names_and_boxes_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
