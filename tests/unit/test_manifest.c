/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/buf.h"
#include "broadcast/manifest.h"

static struct ckpt_buf write_two(void)
{
	struct ckpt_manifest_file files[] = { { .path = "a.bin", .size = 3, .mode = 0600 },
					      { .path = "b/c.bin", .size = 70000, .mode = 0640 } };
	struct ckpt_manifest m = {
		.files = files, .count = 2, .is_directory = true, .directory_mode = 0750
	};
	struct ckpt_buf out = { 0 };

	assert_int_equal(ckpt_manifest_write(&m, &out, NULL), 0);
	return out;
}

static void what_is_written_is_read(void **state)
{
	struct ckpt_buf bytes = write_two();
	struct ckpt_manifest m;

	(void)state;
	assert_int_equal(ckpt_manifest_read(bytes.data, bytes.len, &m, NULL), 0);
	assert_int_equal(m.count, 2);
	assert_string_equal(m.files[1].path, "b/c.bin");
	assert_int_equal(m.files[0].mode, 0600);
	assert_int_equal(m.directory_mode, 0750);
	ckpt_manifest_clear(&m);
	ckpt_buf_clear(&bytes);
}

/* A name or a mode that is another one would be written as if rank 0 had said so. */
static void a_changed_byte_is_seen(void **state)
{
	struct ckpt_buf bytes = write_two();
	struct ckpt_manifest m;

	(void)state;
	for (size_t i = 0; i < bytes.len; i++)
		for (unsigned bit = 1; bit < 256; bit *= 2) {
			bytes.data[i] ^= (uint8_t)bit;
			assert_int_not_equal(ckpt_manifest_read(bytes.data, bytes.len, &m, NULL),
					     0);
			bytes.data[i] ^= (uint8_t)bit;
		}
	for (size_t len = 0; len < bytes.len; len++)
		assert_int_not_equal(ckpt_manifest_read(bytes.data, len, &m, NULL), 0);
	ckpt_buf_clear(&bytes);
}

UNIT_SUITE(test_manifest)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_changed_byte_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
