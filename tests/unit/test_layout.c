/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "zipfmt/layout.h"

#include <string.h>

static const uint64_t Z32 = 0xFFFFFFFF;

static void compute(struct ckpt_zip_layout *layout)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	if (ckpt_zip_layout_compute(layout, &err) < 0)
		fail_msg("%s", unit_message(&err));
}

/* Every offset of a file that torch 2.14 wrote: OrderedDict of two small tensors. */
static void records_lie_where_torch_puts_them(void **state)
{
	static const struct {
		const char *name;
		uint64_t size, header_off, data_off;
		uint32_t extra_len;
	} want[] = {
		{ "data.pkl", 246, 0, 64, 18 },		   { ".format_version", 1, 326, 384, 5 },
		{ ".storage_alignment", 2, 401, 512, 55 }, { "byteorder", 6, 530, 640, 63 },
		{ "data/0", 24, 662, 768, 62 },		   { "data/1", 24, 808, 896, 44 },
		{ "version", 2, 936, 1024, 43 },	   { ".data/serialization_id", 40, 1042, 1152, 50 },
	};
	struct ckpt_zip_record records[COUNT(want)];
	struct ckpt_zip_layout layout = { "archive", 64, records, COUNT(want), 0, 0, 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(want); i++)
		records[i] = (struct ckpt_zip_record){ .name = want[i].name, .size = want[i].size };
	compute(&layout);
	for (uint32_t i = 0; i < COUNT(want); i++) {
		struct ckpt_buf header = { 0 };

		assert_int_equal(records[i].header_off, want[i].header_off);
		assert_int_equal(records[i].data_off, want[i].data_off);
		ckpt_zip_put_local_header(&layout, i, &header);
		assert_int_equal(header.len, want[i].data_off - want[i].header_off);
		assert_int_equal(header.data[28] | header.data[29] << 8, want[i].extra_len);
		ckpt_buf_clear(&header);
	}
	assert_int_equal(layout.directory_off, 1208);
	assert_int_equal(layout.directory_size, 523);
	assert_int_equal(layout.file_size, 1829);
}

static void a_record_that_torch_1_13_wrote_has_its_padding(void **state)
{
	struct ckpt_zip_record records[] = { { .name = "data.pkl", .size = 246 }, { .name = "data/0", .size = 24 },
					     { .name = "x", .size = 1 } };
	struct ckpt_zip_layout layout = { "basic_1.13.0a0", 64, records, 3, 0, 0, 0 };
	struct ckpt_buf header = { 0 };

	(void)state;
	compute(&layout);
	assert_int_equal(records[1].header_off, 326);
	assert_int_equal(records[1].data_off, 384);
	assert_int_equal(records[2].header_off, 424);
	ckpt_zip_put_local_header(&layout, 1, &header);
	assert_int_equal(header.len, 58);
	assert_memory_equal(header.data,
			    "PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x15\0\x07\0"
			    "basic_1.13.0a0/data/0FB\x03\0ZZZ", 58);
	ckpt_buf_clear(&header);
}

static void a_small_record_behind_4_gib_has_its_offset_in_its_local_header(void **state)
{
	struct ckpt_zip_record records[] = { { .name = "data.pkl", .size = 4294967760 },
					     { .name = "data/123456", .size = 12, .crc32 = 0x01020304 } };
	struct ckpt_zip_layout layout = { "archive", 64, records, 2, 0, 0, 0 };
	struct ckpt_buf out = { 0 };

	(void)state;
	compute(&layout);
	assert_int_equal(records[0].data_off, 128); /* 4 + 16 bytes of zip64 in front of the padding */
	assert_int_equal(records[1].header_off, 4294967912);
	assert_int_equal(records[1].data_off, 4294968000);
	ckpt_zip_put_local_header(&layout, 1, &out);
	assert_int_equal(out.len, 88);
	assert_memory_equal(out.data + 30 + 19, "\x01\0\x08\0\x68\x02\0\0\x01\0\0\0FB\x17\0ZZZ", 19);
	out.len = 0;
	ckpt_zip_put_descriptor(&layout, 1, &out);
	assert_int_equal(out.len, 24);
	assert_memory_equal(out.data, "PK\x07\x08\x04\x03\x02\x01\x0c\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0", 24);
	out.len = 0;
	ckpt_zip_put_directory_entry(&layout, 1, &out);
	assert_int_equal(out.len, 46 + 19 + 12);
	assert_memory_equal(out.data + 20, "\x0c\0\0\0\x0c\0\0\0\x13\0\x0c\0", 12);
	assert_memory_equal(out.data + 42, "\xff\xff\xff\xff", 4);
	assert_memory_equal(out.data + 65, "\x01\0\x08\0\x68\x02\0\0\x01\0\0\0", 12);
	ckpt_buf_clear(&out);
}

static void zip64_begins_at_the_last_32_bit_number(void **state)
{
	static const struct {
		uint64_t size;
		uint32_t zip64, descriptor;
	} table[] = { { 0xFFFFFFFE, 0, 16 }, { 0xFFFFFFFF, 20, 24 }, { 0x100000000, 20, 24 },
		      { 0x100000010, 20, 24 } };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct ckpt_zip_record r = { .name = "data/0", .size = table[i].size };
		struct ckpt_zip_layout layout = { "archive", 64, &r, 1, 0, 0, 0 };
		struct ckpt_buf out = { 0 };

		compute(&layout);
		ckpt_zip_put_descriptor(&layout, 0, &out);
		assert_int_equal(out.len, table[i].descriptor);
		out.len = 0;
		ckpt_zip_put_directory_entry(&layout, 0, &out);
		assert_int_equal(out.len, 46 + 14 + table[i].zip64);
		if (table[i].zip64) {
			assert_memory_equal(out.data + 20, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
			assert_memory_equal(out.data + 60, "\x01\0\x10\0", 4);
			assert_memory_equal(out.data + 64, &table[i].size, 8);
			assert_memory_equal(out.data + 72, &table[i].size, 8);
		}
		out.len = 0;
		ckpt_zip_put_local_header(&layout, 0, &out);
		assert_memory_equal(out.data + 18, "\0\0\0\0\0\0\0\0", 8); /* never Z32 here */
		if (table[i].zip64) { /* the compressed size is not known yet */
			assert_memory_equal(out.data + 44, "\x01\0\x10\0", 4);
			assert_memory_equal(out.data + 48, &table[i].size, 8);
			assert_memory_equal(out.data + 56, "\0\0\0\0\0\0\0\0", 8);
		}
		ckpt_buf_clear(&out);
	}
}

static void a_record_that_begins_at_the_last_32_bit_number_is_behind_it(void **state)
{
	/* the first record is sized so that the second begins at Z32 - 1 or at Z32 */
	for (uint64_t at = Z32 - 1; at <= Z32; at++) {
		struct ckpt_zip_record r[] = { { .name = "data/0", .size = at - 64 - 16 },
					       { .name = "data/1", .size = 5 }, { .name = "data/2", .size = 5 } };
		struct ckpt_zip_layout layout = { "archive", 64, r, 3, 0, 0, 0 };
		struct ckpt_buf out = { 0 };
		bool behind = at == Z32;

		(void)state;
		compute(&layout);
		assert_int_equal(r[1].header_off, at);
		assert_int_equal(r[1].data_off % 64, 0);
		ckpt_zip_put_directory_entry(&layout, 1, &out);
		assert_int_equal(out.len, 60 + (behind ? 12 : 0));
		out.len = 0;
		ckpt_zip_put_descriptor(&layout, 1, &out);
		assert_int_equal(out.len, behind ? 24 : 16);
		assert_int_equal(r[2].header_off, r[1].data_off + 5 + out.len);
		ckpt_buf_clear(&out);
	}
}

static void an_empty_record_has_no_descriptor_and_no_flag(void **state)
{
	struct ckpt_zip_record r[] = { { .name = "data/0" }, { .name = "data/1", .size = 1, .crc32 = 5 },
				       { .name = "data/2" } };
	struct ckpt_zip_layout layout = { "archive", 64, r, 3, 0, 0, 0 };
	struct ckpt_buf out = { 0 };

	(void)state;
	compute(&layout);
	assert_int_equal(r[1].header_off, 64); /* where its data would be */
	ckpt_zip_put_local_header(&layout, 0, &out);
	assert_memory_equal(out.data + 6, "\0\x08", 2);
	assert_int_equal(out.len, 64); /* padded all the same */
	out.len = 0;
	ckpt_zip_put_descriptor(&layout, 0, &out);
	assert_int_equal(out.len, 0);
	ckpt_zip_put_local_header(&layout, 1, &out);
	assert_memory_equal(out.data + 6, "\x08\x08", 2);
	ckpt_buf_clear(&out);
}

static void every_alignment_is_kept(void **state)
{
	static const uint32_t alignments[] = { 1, 2, 64, 100, 4096, 32768 };

	(void)state;
	for (size_t i = 0; i < COUNT(alignments); i++)
		for (uint64_t size = 0; size < 200; size += 7) {
			struct ckpt_zip_record r[] = { { .name = "data.pkl", .size = size },
						       { .name = "data/0", .size = 3 } };
			struct ckpt_zip_layout layout = { "archive", alignments[i], r, 2, 0, 0, 0 };
			struct ckpt_buf out = { 0 };

			compute(&layout);
			for (uint32_t k = 0; k < 2; k++) {
				assert_int_equal(r[k].data_off % alignments[i], 0);
				out.len = 0;
				ckpt_zip_put_local_header(&layout, k, &out);
				assert_int_equal(r[k].header_off + out.len, r[k].data_off);
			}
			ckpt_buf_clear(&out);
		}
}

static void what_does_not_fit_its_field_is_refused(void **state)
{
	struct ckpt_zip_record r = { .name = "data/0", .size = 1 };
	struct ckpt_zip_layout layout = { "archive", 131072, &r, 1, 0, 0, 0 };
	struct ckpt_error err = CKPT_ERROR_INIT;
	char *name = malloc(70000);

	(void)state;
	assert_int_equal(ckpt_zip_layout_compute(&layout, &err), CKPT_E_LIMIT);
	assert_string_equal(unit_message(&err), "alignment 131072 needs 131024 bytes of padding, "
						"a zip header has room for 65,535");
	memset(name, 'n', 70000);
	name[65535 - 8] = '\0';
	r.name = name;
	layout.alignment = 64;
	assert_int_equal(ckpt_zip_layout_compute(&layout, &err), 0);
	name[65535 - 8] = 'n';
	name[65536 - 8] = '\0';
	assert_int_equal(ckpt_zip_layout_compute(&layout, &err), CKPT_E_LIMIT);
	r.name = "data/0";
	r.size = INT64_MAX;
	assert_int_equal(ckpt_zip_layout_compute(&layout, &err), CKPT_E_LIMIT);
	assert_string_equal(unit_message(&err), "the output would be larger than 8 EiB");
	r.size = UINT64_MAX;
	assert_int_equal(ckpt_zip_layout_compute(&layout, &err), CKPT_E_LIMIT);
	free(name);
}

static void all_three_end_records_are_always_written(void **state)
{
	struct ckpt_zip_layout layout = { .archive_name = "archive", .alignment = 64 };
	struct ckpt_buf out = { 0 };

	(void)state;
	compute(&layout);
	ckpt_zip_put_ends(&layout, &out);
	assert_int_equal(out.len, 98);
	assert_memory_equal(out.data, "PK\x06\x06\x2c\0\0\0\0\0\0\0\x1e\x03\x2d\0", 16);
	assert_memory_equal(out.data + 56, "PK\x06\x07", 4);
	assert_memory_equal(out.data + 76, "PK\x05\x06", 4);
	out.len = 0;
	layout.count = 66003;
	layout.directory_off = 0x100000005;
	layout.directory_size = 0x1234;
	ckpt_zip_put_ends(&layout, &out);
	assert_memory_equal(out.data + 24, "\xd3\x01\x01\0\0\0\0\0\xd3\x01\x01\0\0\0\0\0"
					   "\x34\x12\0\0\0\0\0\0\x05\0\0\0\x01\0\0\0", 32);
	assert_memory_equal(out.data + 56, "PK\x06\x07\0\0\0\0\x39\x12\0\0\x01\0\0\0\x01\0\0\0", 20);
	assert_memory_equal(out.data + 76, "PK\x05\x06\0\0\0\0\xff\xff\xff\xff\x34\x12\0\0\xff\xff\xff\xff\0\0", 22);
	ckpt_buf_clear(&out);
}

UNIT_SUITE(test_layout)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_lie_where_torch_puts_them),
		cmocka_unit_test(a_record_that_torch_1_13_wrote_has_its_padding),
		cmocka_unit_test(a_small_record_behind_4_gib_has_its_offset_in_its_local_header),
		cmocka_unit_test(zip64_begins_at_the_last_32_bit_number),
		cmocka_unit_test(a_record_that_begins_at_the_last_32_bit_number_is_behind_it),
		cmocka_unit_test(an_empty_record_has_no_descriptor_and_no_flag),
		cmocka_unit_test(every_alignment_is_kept),
		cmocka_unit_test(what_does_not_fit_its_field_is_refused),
		cmocka_unit_test(all_three_end_records_are_always_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
