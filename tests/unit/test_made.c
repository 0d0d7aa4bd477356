/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "plan/mover.h"
#include "tensor/made.h"

#include <libdeflate.h>
#include <stdatomic.h>
#include <string.h>

static struct ckpt_error err;
static char *folder, *path;

/* Byte I is a function of I, and of what is kept. */
struct counted {
	struct ckpt_made made;
	uint64_t fails_at, not_taken_at;
	bool cannot_begin;
	atomic_int readings, bands; /* that have begun and not ended */
};

static uint8_t byte_at(uint64_t i)
{
	return (uint8_t)((i * 2654435761u >> 13) + 5);
}

static int begin(const struct ckpt_made *made, void **kept, struct ckpt_error *error)
{
	struct counted *c = (struct counted *)made;

	if (c->cannot_begin)
		return ckpt_fail(error, CKPT_E_IO, "nothing is kept");
	c->readings++;
	*kept = malloc(1);
	*(uint8_t *)*kept = 5;
	return 0;
}

static void end(const struct ckpt_made *made, void *kept)
{
	((struct counted *)made)->readings--;
	free(kept);
}

/* What is taken is where the band begins. */
static int take(const struct ckpt_made *made, const void *kept, uint64_t pos, size_t len,
		void **taken, struct ckpt_error *error)
{
	struct counted *c = (struct counted *)made;

	(void)kept;
	assert_int_equal(pos % made->band, 0);
	assert_int_equal(len, made->len - pos < made->band ? made->len - pos : made->band);
	if (c->not_taken_at - pos < len)
		return ckpt_fail(error, CKPT_E_IO, "the band at %d is not taken", (int)pos);
	c->bands++;
	*taken = malloc(sizeof(pos));
	memcpy(*taken, &pos, sizeof(pos));
	return 0;
}

static void drop(const struct ckpt_made *made, void *taken)
{
	((struct counted *)made)->bands--;
	free(taken);
}

static int make(const struct ckpt_made *made, const void *kept, void *taken, uint64_t pos,
		size_t len, void *out, struct ckpt_error *error)
{
	const struct counted *c = (const struct counted *)made;

	assert_int_equal(pos % made->piece, 0);
	assert_int_equal(len, made->len - pos < made->piece ? made->len - pos : made->piece);
	assert_int_equal(*(uint64_t *)taken, pos / made->band * made->band);
	if (c->fails_at - pos < len)
		return ckpt_fail(error, CKPT_E_FORMAT, "the band at %d is not made", (int)pos);
	for (size_t i = 0; i < len; i++)
		((uint8_t *)out)[i] = (uint8_t)(byte_at(pos + i) - 5 + *(const uint8_t *)kept);
	return 0;
}

static void counted_init(struct counted *c, uint64_t len, size_t band)
{
	*c = (struct counted){ .made = { len, band, band % 4 ? band : band / 4, make, take, drop,
					 begin, end },
			       .fails_at = UINT64_MAX,
			       .not_taken_at = UINT64_MAX };
}

static void any_stretch_can_be_read(void **state)
{
	static const size_t bands[] = { 8, 1000, 4096, 1 << 20 };
	static uint8_t out[4096];
	uint32_t seed = 3;

	(void)state;
	for (size_t t = 0; t < COUNT(bands); t++) {
		struct counted c;
		struct ckpt_recipe recipe;
		struct ckpt_stream *stream;
		uint64_t pos = 0;

		counted_init(&c, 100003, bands[t]);
		recipe = ckpt_made_recipe(&c.made);
		assert_int_equal(recipe.len, 100003);
		assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), 0);
		assert_int_equal(c.readings, 0); /* nothing is read yet */
		for (int i = 0; i < 300; i++) {
			size_t len = (seed = seed * 1664525 + 1013904223) >> 20;

			if (i % 3 == 0 || pos + len > recipe.len) {
				pos = (uint64_t)(seed >> 3) * 7919 % (recipe.len - len + 1);
				assert_int_equal(stream->seek(stream, pos, &err), 0);
			}
			assert_int_equal(stream->read(stream, out, len, &err), 0);
			for (size_t k = 0; k < len; k++, pos++)
				assert_int_equal(out[k], byte_at(pos));
		}
		assert_int_equal(stream->seek(stream, recipe.len, &err), 0);
		stream->close(stream);
		assert_int_equal(c.readings + c.bands, 0);
	}
}

/* C alone in a new file. FOUND: its bytes. */
static int move(const struct counted *c, struct ckpt_moved *moved, struct ckpt_buf *found)
{
	struct ckpt_mover_options options = { .threads = 3 };
	struct ckpt_recipe recipe = ckpt_made_recipe(&c->made);
	struct ckpt_mover *mover;
	struct ckpt_sink *sink;
	int rc;

	assert_int_equal(ckpt_sink_open(path, recipe.len, 0, CKPT_SINK_REPLACE, 0666, &sink, &err),
			 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	rc = ckpt_mover_copy(mover, &recipe, moved, &err);
	if (rc == 0)
		rc = ckpt_mover_finish(mover, &err);
	ckpt_mover_close(mover);
	if (rc < 0) {
		ckpt_sink_discard(sink);
		return rc;
	}
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	*found = unit_read_file(path);
	return 0;
}

static void the_mover_makes_every_band_once(void **state)
{
	static const struct {
		uint64_t len;
		size_t band;
	} cases[] = { { 8, 8 },		 { 5, 64 },	     { 70000, 6000 },
		      { 1 << 20, 4096 }, { 3000000, 10000 }, { 3000007, 1 << 20 } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		for (unsigned want_crc = 0; want_crc < 2; want_crc++) {
			struct ckpt_moved moved = { .want_crc = want_crc, .want_head = true };
			struct counted c;
			struct ckpt_buf found;

			counted_init(&c, cases[i].len, cases[i].band);
			assert_int_equal(move(&c, &moved, &found), 0);
			assert_int_equal(found.len, cases[i].len);
			for (size_t k = 0; k < found.len; k++)
				assert_int_equal((uint8_t)found.data[k], byte_at(k));
			if (want_crc)
				assert_int_equal(moved.crc32,
						 libdeflate_crc32(0, found.data, found.len));
			assert_int_equal(moved.has_head, found.len >= 8);
			if (moved.has_head)
				assert_memory_equal(moved.head, found.data, 8);
			ckpt_buf_clear(&found);
			assert_int_equal(c.readings + c.bands, 0);
		}
}

static void a_band_that_fails_is_told(void **state)
{
	static const uint64_t lens[] = { 70000, 3000007 };

	(void)state;
	for (size_t i = 0; i < COUNT(lens); i++) {
		struct ckpt_moved moved = { .want_crc = true };
		struct counted c;
		struct ckpt_buf found;

		counted_init(&c, lens[i], 5002);
		c.fails_at = 65001;
		assert_int_equal(move(&c, &moved, &found), CKPT_E_FORMAT);
		assert_string_equal(unit_text(&err), "the band at 60024 is not made");
		assert_int_equal(c.readings + c.bands, 0);
		c.fails_at = UINT64_MAX;
		c.not_taken_at = 50020;
		assert_int_equal(move(&c, &moved, &found), CKPT_E_IO);
		assert_string_equal(unit_text(&err), "the band at 50020 is not taken");
		assert_int_equal(c.readings + c.bands, 0);
		c.cannot_begin = true;
		assert_int_equal(move(&c, &moved, &found), CKPT_E_IO);
		assert_string_equal(unit_text(&err), "nothing is kept");
		assert_int_equal(c.readings + c.bands, 0);
	}
}

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	path = unit_path(folder, "out");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(path);
	unit_folder_remove(folder);
	return 0;
}

UNIT_SUITE(test_made)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_stretch_can_be_read),
		cmocka_unit_test(the_mover_makes_every_band_once),
		cmocka_unit_test(a_band_that_fails_is_told),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
