/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "plan/checks.h"

#include <libdeflate.h>
#include <string.h>

/* Recorded checksums are compared however a record was read: whole, in parts, in any order, or through something else. */

enum { SIZE = 1000 };

static char *folder, *path;
static struct ckpt_error err;
static struct ckpt_source *src;
static struct ckpt_checks *checks;
static uint8_t data[2 * SIZE];

static int setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 + i / 7);
	folder = unit_folder_new();
	path = unit_path(folder, "file");
	unit_write_file(path, data, sizeof(data));
	assert_int_equal(ckpt_source_open(path, &src, &err), 0);
	assert_int_equal(ckpt_checks_new(&checks, &err), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_checks_free(checks);
	ckpt_source_unref(src);
	free(path);
	unit_folder_remove(folder);
	return 0;
}

static uint32_t crc(uint64_t off, uint64_t len)
{
	return libdeflate_crc32(0, data + off, len);
}

/* Record number I of two, with the checksum that it has, or another. */
static struct ckpt_recipe record(int i, bool sound)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
				     .src = src,
				     .off = (uint64_t)i * SIZE,
				     .len = SIZE,
				     .has_crc = true,
				     .crc32 = crc((uint64_t)i * SIZE, SIZE) ^ !sound };
}

static int add(const struct ckpt_recipe *all, uint64_t off, uint64_t len)
{
	struct ckpt_recipe part = ckpt_recipe_part(all, off, len);

	return ckpt_checks_add(checks, &part, crc(part.off, len), &err);
}

static void a_whole_record_is_compared_at_once(void **state)
{
	struct ckpt_recipe sound = record(0, true), damaged = record(1, false);

	(void)state;
	assert_int_equal(add(&sound, 0, SIZE), 0);
	assert_int_equal(add(&damaged, 0, SIZE), CKPT_E_DAMAGED);
	assert_non_null(strstr(unit_text(&err), "is damaged: its CRC-32 is "));
	assert_string_equal(err.path, path);
}

static void parts_are_put_together_in_any_order(void **state)
{
	static const struct {
		uint64_t off[6], len[6];
		size_t count;
	} cases[] = {
		{ { 0, 400 }, { 400, 600 }, 2 },
		{ { 400, 0 }, { 600, 400 }, 2 },
		{ { 0, 400, 400, 0 }, { 400, 600, 600, 400 }, 4 }, /* twice */
		{ { 0, 100, 0 }, { 1000, 5, 3 }, 3 },
		/* not to be put together: read again */
		{ { 0 }, { 999 }, 1 },
		{ { 1 }, { 999 }, 1 },
		{ { 0, 300 }, { 400, 700 }, 2 },
		{ { 0, 500 }, { 400, 500 }, 2 },
	};

	(void)state;
	for (int sound = 0; sound < 2; sound++)
		for (size_t i = 0; i < COUNT(cases); i++) {
			struct ckpt_recipe all = record(0, sound), other = record(1, true);
			int rc = 0;

			ckpt_checks_free(checks);
			assert_int_equal(ckpt_checks_new(&checks, &err), 0);
			for (size_t k = 0; rc == 0 && k < cases[i].count; k++) {
				rc = add(&all, cases[i].off[k], cases[i].len[k]);
				if (rc == 0)
					rc = add(&other, 10 * k, 10);
			}
			if (rc == 0)
				rc = ckpt_checks_finish(checks, NULL, 0, &err);
			assert_int_equal(rc, sound ? 0 : CKPT_E_DAMAGED);
		}
}

static void parts_with_other_bytes_than_the_file_are_damage(void **state)
{
	struct ckpt_recipe all = record(0, true), part;

	(void)state;
	assert_int_equal(add(&all, 0, 500), 0);
	part = ckpt_recipe_part(&all, 500, 500);
	assert_int_equal(ckpt_checks_add(checks, &part, crc(500, 500) ^ 1, &err), 0);
	assert_int_equal(ckpt_checks_finish(checks, NULL, 0, &err), CKPT_E_DAMAGED);
}

static void very_many_parts_are_not_remembered(void **state)
{
	(void)state;
	for (int sound = 0; sound < 2; sound++) {
		struct ckpt_recipe all = record(0, sound);

		for (int i = 0; i < 10000; i++)
			assert_int_equal(add(&all, (uint64_t)i % SIZE, 1), 0);
		assert_int_equal(ckpt_checks_finish(checks, NULL, 0, &err), sound ? 0 : CKPT_E_DAMAGED);
		ckpt_checks_free(checks);
		assert_int_equal(ckpt_checks_new(&checks, &err), 0);
	}
}

static const struct ckpt_recipe *inner_of(const struct ckpt_recipe *recipe, size_t i)
{
	const struct ckpt_recipe *inner = recipe->ctx;

	return i < 2 ? &inner[i] : NULL;
}

static void what_was_taken_apart_is_read_again(void **state)
{
	(void)state;
	for (int sound = 0; sound < 2; sound++)
		for (int joined = 0; joined < 2; joined++) {
			struct ckpt_recipe second = record(1, sound);
			struct ckpt_recipe inner[2] = { record(0, true),
							ckpt_recipe_part(&second, 7, 20) };
			struct ckpt_recipe stream = { .kind = CKPT_RECIPE_STREAM,
						      .inner = inner_of,
						      .ctx = inner };
			struct ckpt_recipe both = { .kind = CKPT_RECIPE_JOINED,
						    .parts = inner,
						    .part_count = 2 };

			assert_int_equal(
				ckpt_checks_want(checks, joined ? &both : &stream, &err), 0);
			assert_int_equal(ckpt_checks_finish(checks, NULL, 0, &err),
					 sound ? 0 : CKPT_E_DAMAGED);
			ckpt_checks_free(checks);
			assert_int_equal(ckpt_checks_new(&checks, &err), 0);
		}
}

static void what_has_no_checksum_is_not_read(void **state)
{
	struct ckpt_recipe none = { .kind = CKPT_RECIPE_EXTENT, .src = src, .off = SIZE, .len = 2 * SIZE };
	int cancel = 1;

	(void)state;
	assert_int_equal(ckpt_checks_add(checks, &none, 0, &err), 0);
	assert_int_equal(ckpt_checks_want(checks, &none, &err), 0);
	assert_int_equal(ckpt_checks_finish(checks, &cancel, 0, &err), 0);
}

static void reading_again_can_be_cancelled(void **state)
{
	struct ckpt_recipe all = record(0, true);
	int cancel = 1;

	(void)state;
	assert_int_equal(ckpt_checks_want(checks, &all, &err), 0);
	assert_int_equal(ckpt_checks_finish(checks, &cancel, 0, &err), CKPT_E_CANCELLED);
}

#define WITH_CHECKS(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

UNIT_SUITE(test_checks)
{
	const struct CMUnitTest tests[] = {
		WITH_CHECKS(a_whole_record_is_compared_at_once),
		WITH_CHECKS(parts_are_put_together_in_any_order),
		WITH_CHECKS(parts_with_other_bytes_than_the_file_are_damage),
		WITH_CHECKS(very_many_parts_are_not_remembered),
		WITH_CHECKS(what_was_taken_apart_is_read_again),
		WITH_CHECKS(what_has_no_checksum_is_not_read),
		WITH_CHECKS(reading_again_can_be_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
