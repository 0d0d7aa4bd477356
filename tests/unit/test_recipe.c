/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/recipe.h"

#include <string.h>

/* Parts, joined recipes, and stretches of streams. */

static const char text[] = "the quick brown fox jumps over the lazy dog, and again";
static struct ckpt_source *source;
static struct ckpt_error err;
static int open_now, opened; /* streams of open_counted */

static int setup(void **state)
{
	(void)state;
	return ckpt_source_from_memory(text, sizeof(text), &source, &err);
}

static int teardown(void **state)
{
	(void)state;
	ckpt_source_unref(source);
	return 0;
}

/* A stream that counts how many of its kind are open, and fails at its byte number FAIL_AT. */
struct counted {
	struct ckpt_stream base;
	const struct ckpt_recipe *recipe;
	uint64_t pos;
};

static int read_counted(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *e)
{
	struct counted *s = (struct counted *)stream;
	const uint64_t *fail_at = s->recipe->ctx;

	if (s->pos + len > s->recipe->len)
		fail_msg("read past the end of a stream");
	if (fail_at && s->pos + len > *fail_at)
		return ckpt_fail(e, CKPT_E_IO, "it fails here");
	memcpy(buf, text + s->recipe->off + s->pos, len);
	s->pos += len;
	return 0;
}

static void close_counted(struct ckpt_stream *stream)
{
	open_now--;
	free(stream);
}

static int open_counted(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
			struct ckpt_error *e)
{
	struct counted *s = calloc(1, sizeof(*s));

	(void)e;
	assert_non_null(s);
	s->base = (struct ckpt_stream){ .read = read_counted, .close = close_counted };
	s->recipe = recipe;
	open_now++;
	opened++;
	*out = &s->base;
	return 0;
}

static struct ckpt_recipe memory(uint64_t off, uint64_t len)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = text + off, .len = len };
}

static struct ckpt_recipe extent(uint64_t off, uint64_t len)
{
	return (struct ckpt_recipe){
		.kind = CKPT_RECIPE_EXTENT, .src = source, .off = off, .len = len
	};
}

static struct ckpt_recipe stream_of(uint64_t off, uint64_t len)
{
	return (struct ckpt_recipe){
		.kind = CKPT_RECIPE_STREAM, .open = open_counted, .off = off, .len = len
	};
}

static struct ckpt_recipe joined(const struct ckpt_recipe *parts, size_t count)
{
	struct ckpt_recipe all = { .kind = CKPT_RECIPE_JOINED,
				   .parts = parts,
				   .part_count = count };

	for (size_t i = 0; i < count; i++)
		all.len += parts[i].len;
	return all;
}

static void check(const struct ckpt_recipe *recipe, const char *want)
{
	char found[sizeof(text)];
	size_t len = strlen(want);

	assert_int_equal(recipe->len, len);
	for (size_t piece = 1; piece <= len; piece++) {
		struct ckpt_stream *stream;

		assert_int_equal(ckpt_recipe_stream(recipe, &stream, &err), 0);
		for (size_t pos = 0; pos < len; pos += piece)
			assert_int_equal(stream->read(stream, found + pos,
						      piece < len - pos ? piece : len - pos, &err),
					 0);
		stream->close(stream);
		assert_memory_equal(found, want, len);
		assert_int_equal(open_now, 0);
	}
}

static void parts_of_every_kind_follow_each_other(void **state)
{
	struct ckpt_recipe parts[] = { memory(0, 4),	 extent(4, 0),	   extent(4, 6),
				       stream_of(10, 0), stream_of(10, 6), memory(0, 0),
				       stream_of(4, 6),	 extent(16, 3),	   memory(0, 0) };
	struct ckpt_recipe all = joined(parts, COUNT(parts)), none = joined(NULL, 0),
			   one = joined(parts, 1);

	(void)state;
	check(&all, "the quick brown quick fox");
	check(&one, "the ");
	check(&none, "");
}

static void of_a_joined_recipe_one_part_is_open_at_a_time(void **state)
{
	struct ckpt_recipe parts[] = { stream_of(0, 3), stream_of(3, 3), stream_of(6, 3) };
	struct ckpt_recipe all = joined(parts, COUNT(parts));
	struct ckpt_stream *stream;
	char buf[9];

	(void)state;
	opened = 0;
	assert_int_equal(ckpt_recipe_stream(&all, &stream, &err), 0);
	assert_int_equal(opened, 0);
	for (size_t i = 0; i < sizeof(buf); i++) {
		assert_int_equal(stream->read(stream, buf + i, 1, &err), 0);
		assert_int_equal(open_now, 1);
		assert_int_equal(opened, i / 3 + 1);
	}
	stream->close(stream);
	assert_int_equal(open_now, 0);
	assert_int_equal(ckpt_recipe_stream(&all, &stream, &err), 0);
	stream->close(stream); /* without a read */
	assert_memory_equal(buf, text, sizeof(buf));
}

static void an_error_of_a_part_is_passed_on(void **state)
{
	static uint64_t fail_at = 2;
	struct ckpt_recipe parts[] = { memory(0, 3), stream_of(3, 3), stream_of(6, 3) };
	struct ckpt_recipe all = joined(parts, COUNT(parts));
	struct ckpt_stream *stream;
	char buf[9];

	(void)state;
	parts[1].ctx = &fail_at;
	assert_int_equal(ckpt_recipe_stream(&all, &stream, &err), 0);
	assert_int_equal(stream->read(stream, buf, 5, &err), 0);
	assert_int_equal(stream->read(stream, buf, 4, &err), CKPT_E_IO);
	assert_string_equal(unit_text(&err), "it fails here");
	stream->close(stream);
	assert_int_equal(open_now, 0);
}

static void a_part_is_cut_out_without_reading(void **state)
{
	struct ckpt_recipe all[] = { memory(4, 11), extent(4, 11) };

	(void)state;
	for (size_t i = 0; i < COUNT(all); i++) {
		struct ckpt_recipe part;

		all[i].has_crc = true;
		all[i].crc32 = 0x12345678;
		assert_true(ckpt_recipe_is_random(&all[i]));
		part = ckpt_recipe_part(&all[i], 6, 5);
		check(&part, "brown");
		assert_false(part.has_crc);
		part = ckpt_recipe_part(&part, 1, 3);
		check(&part, "row");
		part = ckpt_recipe_part(&all[i], 11, 0);
		check(&part, "");
		assert_false(part.has_crc);
		part = ckpt_recipe_part(&all[i], 0, 11);
		check(&part, "quick brown");
		assert_true(part.has_crc && part.crc32 == 0x12345678);
	}
}

static void streams_and_joined_recipes_are_not_random(void **state)
{
	struct ckpt_recipe part = memory(0, 3), stream = stream_of(0, 3), all = joined(&part, 1);

	(void)state;
	assert_false(ckpt_recipe_is_random(&stream));
	assert_false(ckpt_recipe_is_random(&all));
}

static void a_stretch_of_anything_can_be_read(void **state)
{
	struct ckpt_recipe parts[] = { stream_of(0, 6), memory(6, 4), extent(10, 9) };
	struct ckpt_skip skips[] = { { memory(0, 20), 4, 5, false },
				     { extent(0, 20), 4, 5, false },
				     { stream_of(0, 20), 4, 5, false },
				     { joined(parts, 3), 4, 5, false },
				     { stream_of(4, 5), 0, 5, false } };

	(void)state;
	for (size_t i = 0; i < 2 * COUNT(skips); i++) {
		struct ckpt_skip *skip = &skips[i % COUNT(skips)];
		struct ckpt_recipe recipe = ckpt_skip_recipe(skip);

		skip->may_seek = i >= COUNT(skips); /* what only goes forward is skipped all the same */

		assert_false(ckpt_recipe_is_random(&recipe));
		assert_false(recipe.has_crc);
		check(&recipe, "quick");
	}
}

static void what_cannot_be_skipped_is_an_error_and_is_closed(void **state)
{
	static uint64_t fail_at = 2;
	struct ckpt_skip skip = { stream_of(0, 20), 4, 5, false };
	struct ckpt_recipe recipe = ckpt_skip_recipe(&skip);
	struct ckpt_stream *stream;

	(void)state;
	skip.inner.ctx = &fail_at;
	assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), CKPT_E_IO);
	assert_null(stream);
	assert_int_equal(open_now, 0);
}

UNIT_SUITE(test_recipe)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_every_kind_follow_each_other),
		cmocka_unit_test(of_a_joined_recipe_one_part_is_open_at_a_time),
		cmocka_unit_test(an_error_of_a_part_is_passed_on),
		cmocka_unit_test(a_part_is_cut_out_without_reading),
		cmocka_unit_test(streams_and_joined_recipes_are_not_random),
		cmocka_unit_test(a_stretch_of_anything_can_be_read),
		cmocka_unit_test(what_cannot_be_skipped_is_an_error_and_is_closed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
