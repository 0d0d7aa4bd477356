/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "zipfmt/index.h"

#include <stdio.h>
#include <string.h>

static const struct unit_record three[] = { { "data.pkl", "pickle", 6 }, { "data/0", "0123456789", 10 },
					    { "version", "3\n", 2 } };

static struct ckpt_error err;

static int open_bytes(const void *bytes, size_t len, struct ckpt_zip **zip)
{
	struct ckpt_source *source;
	int rc;

	assert_int_equal(ckpt_source_from_memory(bytes, len, &source, NULL), 0);
	rc = ckpt_zip_open(source, zip, &err);
	ckpt_source_unref(source);
	return rc;
}

static struct ckpt_zip_entry *find(const struct ckpt_zip *zip, const char *name)
{
	return ckpt_zip_find(zip, name, strlen(name));
}

static void assert_record(struct ckpt_zip *zip, const char *name, const char *bytes)
{
	struct ckpt_zip_entry *entry = find(zip, name);
	uint8_t *read;

	assert_non_null(entry);
	assert_int_equal(entry->usize, strlen(bytes));
	if (ckpt_zip_read(zip, entry, 1000, &read, &err) < 0)
		fail_msg("%s", unit_message(&err));
	assert_memory_equal(read, bytes, strlen(bytes));
	free(read);
}

static void put32(struct ckpt_buf *buf, size_t off, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		buf->data[off + (size_t)i] = (uint8_t)(v >> (8 * i));
}

/* Where entry I of the directory starts. */
static size_t directory_entry(const struct ckpt_buf *file, unsigned i)
{
	for (size_t at = 0; at + 46 < file->len; at++)
		if (!memcmp(file->data + at, "PK\x01\x02", 4) && !i--)
			return at;
	fail_msg("no such entry");
	return 0;
}

static void every_record_is_found_and_read(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);
	struct ckpt_zip *zip;

	(void)state;
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	assert_int_equal(zip->count, 3);
	assert_record(zip, "archive/data.pkl", "pickle");
	assert_record(zip, "archive/data/0", "0123456789");
	assert_record(zip, "archive/version", "3\n");
	assert_null(find(zip, "archive/data/1"));
	assert_null(find(zip, "data.pkl"));
	ckpt_zip_close(zip);
	ckpt_buf_clear(&file);
}

static void case_does_not_count_in_names(void **state)
{
	const struct unit_record upper[] = { { "DATA.PKL", "p", 1 }, { "VERSION", "3\n", 2 } };
	struct ckpt_buf file = unit_zip("Archive", upper, 2);
	struct ckpt_zip *zip;

	(void)state;
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	assert_record(zip, "archive/data.pkl", "p");
	assert_record(zip, "ARCHIVE/version", "3\n");
	ckpt_zip_close(zip);
	ckpt_buf_clear(&file);
}

static void two_records_of_one_name_are_refused(void **state)
{
	const struct unit_record same[] = { { "data/0", "a", 1 }, { "data/0", "b", 1 } };
	const struct unit_record nearly[] = { { "data/a", "a", 1 }, { "DATA/A", "b", 1 } };
	struct ckpt_buf file = unit_zip("archive", same, 2);
	struct ckpt_zip *zip;

	(void)state;
	assert_int_equal(open_bytes(file.data, file.len, &zip), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err), "two records are named 'archive/data/0'; which one counts "
						"depends on the reader");
	ckpt_buf_clear(&file);
	file = unit_zip("archive", nearly, 2);
	assert_int_equal(open_bytes(file.data, file.len, &zip), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err), "two records are named 'archive/DATA/A'; which one counts "
						"depends on the reader");
	ckpt_buf_clear(&file);
}

static void records_that_overlap_are_refused(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);
	struct ckpt_zip *zip;
	size_t entry = directory_entry(&file, 1);

	(void)state;
	put32(&file, entry + 42, 8); /* data/0 claims to begin inside of data.pkl's header */
	assert_int_equal(open_bytes(file.data, file.len, &zip), CKPT_E_FORMAT);
	assert_non_null(strstr(unit_message(&err), "overlaps what lies at"));
	ckpt_buf_clear(&file);
	file = unit_zip("archive", three, 3);
	put32(&file, directory_entry(&file, 0) + 20, 4000); /* data.pkl reaches into the directory */
	put32(&file, directory_entry(&file, 0) + 24, 4000);
	assert_int_equal(open_bytes(file.data, file.len, &zip), CKPT_E_FORMAT);
	assert_non_null(strstr(unit_message(&err), "archive/data.pkl+0x0: the record of 4000 bytes overlaps"));
	ckpt_buf_clear(&file);
}

static void sizes_that_overflow_are_refused(void **state)
{
	static const uint32_t sizes[] = { 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF };

	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct ckpt_buf file = unit_zip("archive", three, 3);
		size_t entry = directory_entry(&file, 1);
		struct ckpt_zip *zip;

		put32(&file, entry + 20, sizes[i]);
		put32(&file, entry + 24, sizes[i]);
		assert_int_equal(open_bytes(file.data, file.len, &zip), CKPT_E_FORMAT);
		ckpt_buf_clear(&file);
	}
}

static void a_comment_and_trailing_bytes_are_tolerated(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);
	struct ckpt_zip *zip;

	(void)state;
	file.data[file.len - 2] = 5;
	ckpt_buf_add(&file, "hello", 5);
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	assert_record(zip, "archive/version", "3\n");
	ckpt_zip_close(zip);
	ckpt_buf_add_fill(&file, 0, 100);
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	ckpt_zip_close(zip);
	ckpt_buf_add_fill(&file, 0, 70000);
	assert_int_equal(open_bytes(file.data, file.len, &zip), CKPT_E_NOTFOUND);
	ckpt_buf_clear(&file);
}

static void archives_without_zip64_records_are_read(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);
	struct ckpt_zip *zip;

	(void)state;
	memmove(file.data + file.len - 98, file.data + file.len - 22, 22);
	file.len -= 76;
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	assert_record(zip, "archive/data/0", "0123456789");
	ckpt_zip_close(zip);
	ckpt_buf_clear(&file);
}

/* Whatever is cut off: an error, no crash, and no success before the very last byte. */
static void a_file_cut_anywhere_is_refused(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);

	(void)state;
	for (size_t len = 0; len < file.len; len++) {
		uint8_t *part = malloc(len ? len : 1);
		struct ckpt_zip *zip;

		memcpy(part, file.data, len);
		assert_true(open_bytes(part, len, &zip) < 0);
		free(part);
	}
	ckpt_buf_clear(&file);
}

/* Any byte may be anything: no crash, and what opens can be walked. */
static void a_flipped_byte_never_crashes(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);
	static const uint8_t flips[] = { 0x01, 0x80, 0xFF };

	(void)state;
	for (size_t i = 0; i < file.len * COUNT(flips); i++) {
		uint8_t *at = &file.data[i / COUNT(flips)], before = *at, *bytes;
		struct ckpt_zip *zip;

		*at ^= flips[i % COUNT(flips)];
		if (open_bytes(file.data, file.len, &zip) == 0) {
			for (uint32_t k = 0; k < zip->count; k++)
				if (ckpt_zip_read(zip, &zip->entries[k], 10000, &bytes, NULL) == 0)
					free(bytes);
			ckpt_zip_locate_all(zip, NULL);
			ckpt_zip_close(zip);
		}
		*at = before;
	}
	ckpt_buf_clear(&file);
}

/* One field of the directory or of the ends, and what is said. */
static const struct {
	size_t from_end; /* offset from the end of the file; 0: from the entry of data/0 */
	size_t off;
	uint32_t v;
	const char *message;
} lies[] = {
	{ 22, 4, 1, "the archive is spread over several disks" },
	{ 42, 4, 1, "the archive is spread over several disks" },
	{ 42, 8, 0x7FFFFFFF, "the zip64 locator points outside of the file" },
	{ 42, 8, 0, "no zip64 end record where the locator points" },
	{ 98, 16, 1, "the archive is spread over several disks" },
	{ 98, 48, 0x7FFFFFFF, "the central directory lies outside of the file" },
	{ 98, 40, 0x7FFFFFFF, "the central directory lies outside of the file" },
	{ 98, 32, 0x7FFFFFFF, "2147483647 records are announced, 183 bytes of directory cannot hold them" },
	{ 98, 48, 0, "the central directory is cut short or overwritten" },
	{ 0, 0, 0, "the central directory is cut short or overwritten" },
	{ 0, 28, 0xFFFF, "the central directory is cut short" },
	{ 0, 30, 0xFFFF, "the central directory is cut short" },
};

static void lies_in_the_directory_are_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(lies); i++) {
		struct ckpt_buf file = unit_zip("archive", three, 3);
		size_t base = lies[i].from_end ? file.len - lies[i].from_end : directory_entry(&file, 1);
		struct ckpt_zip *zip;

		put32(&file, base + lies[i].off, lies[i].v);
		assert_int_equal(open_bytes(file.data, file.len, &zip), CKPT_E_FORMAT);
		if (!strstr(unit_message(&err), lies[i].message))
			fail_msg("row %zu: '%s', wanted '%s'", i, unit_message(&err), lies[i].message);
		ckpt_buf_clear(&file);
	}
}

/* One byte of the header of data/0 or of its directory entry; found when the record is read. */
static const struct {
	bool local, both;
	size_t off;
	uint8_t v;
	int status;
	const char *message;
} record_lies[] = {
	{ true, false, 0, 0, CKPT_E_FORMAT, "no local header where the directory points" },
	{ true, false, 8, 8, CKPT_E_FORMAT, "local header (method 8, flags 0x0808) and directory (method 0, "
					    "flags 0x0808) disagree" },
	{ true, false, 6, 9, CKPT_E_FORMAT, "local header (method 0, flags 0x0809) and directory (method 0, "
					    "flags 0x0808) disagree" },
	{ true, false, 26, 13, CKPT_E_FORMAT, "local header and directory disagree about the name" },
	{ true, false, 30, 'X', CKPT_E_FORMAT, "the local header calls the record 'Xrchive/data/0'" },
	{ true, false, 29, 0xFF, CKPT_E_FORMAT, "inside the directory at" },
	{ false, false, 8, 9, CKPT_E_UNSUPPORTED, "the record is encrypted" },
	{ false, false, 10, 12, CKPT_E_UNSUPPORTED, "compression method 12, torch reads only 0 (stored) and 8 "
						   "(deflated)" },
	{ false, false, 24, 9, CKPT_E_FORMAT, "a stored record of 10 bytes claims to hold 9" },
	{ false, false, 16, 0, CKPT_E_FORMAT, "damaged: its CRC-32 is" },
};

static void lies_about_a_record_are_named_with_the_record(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(record_lies); i++) {
		struct ckpt_buf file = unit_zip("archive", three, 3);
		struct ckpt_zip *zip;
		uint8_t *bytes;
		size_t base = directory_entry(&file, 1);

		if (record_lies[i].local)
			base = (size_t)(file.data[base + 42] | file.data[base + 43] << 8);
		file.data[base + record_lies[i].off] = record_lies[i].v;
		if (open_bytes(file.data, file.len, &zip) < 0)
			fail_msg("row %zu: %s", i, unit_message(&err));
		assert_int_equal(ckpt_zip_read(zip, find(zip, "archive/data/0"), 1000, &bytes, &err),
				 record_lies[i].status);
		if (!strstr(unit_message(&err), record_lies[i].message) ||
		    strncmp(err.record, "archive/data/0", 14))
			fail_msg("row %zu: '%s', wanted '%s'", i, unit_message(&err), record_lies[i].message);
		ckpt_zip_close(zip);
		ckpt_buf_clear(&file);
	}
}

static void a_flipped_bit_is_seen_by_the_checksum(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);
	struct ckpt_zip *zip;
	uint8_t *bytes;

	(void)state;
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	assert_record(zip, "archive/data/0", "0123456789");
	file.data[find(zip, "archive/data/0")->data_off + 3] ^= 1;
	assert_int_equal(ckpt_zip_read(zip, find(zip, "archive/data/0"), 1000, &bytes, &err), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err),
			    "archive/data/0: damaged: its CRC-32 is 00f3cc72, a684c7c6 is recorded");
	ckpt_zip_close(zip);
	ckpt_buf_clear(&file);
}

static void a_checksum_of_0_means_that_none_was_recorded(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);
	struct ckpt_zip *zip;

	(void)state;
	put32(&file, directory_entry(&file, 1) + 16, 0);
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	assert_record(zip, "archive/data/0", "0123456789");
	ckpt_zip_close(zip);
	ckpt_buf_clear(&file);
}

static void a_record_over_the_limit_is_not_read(void **state)
{
	struct ckpt_buf file = unit_zip("archive", three, 3);
	struct ckpt_zip *zip;
	uint8_t *bytes;

	(void)state;
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	assert_int_equal(ckpt_zip_read(zip, find(zip, "archive/data/0"), 9, &bytes, &err), CKPT_E_LIMIT);
	assert_string_equal(unit_message(&err), "archive/data/0: has 10 bytes, the limit is 9");
	ckpt_zip_close(zip);
	ckpt_buf_clear(&file);
}

static void more_than_65535_records_are_all_there(void **state)
{
	enum { MANY = 66003 };
	struct unit_record *records = calloc(MANY, sizeof(*records));
	char (*names)[16] = calloc(MANY, sizeof(*names));
	struct ckpt_buf file;
	struct ckpt_zip *zip;

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "data/%u", i);
		records[i] = (struct unit_record){ names[i], names[i], i % 3 };
	}
	file = unit_zip("archive", records, MANY);
	assert_int_equal(open_bytes(file.data, file.len, &zip), 0);
	assert_int_equal(zip->count, MANY);
	assert_int_equal(ckpt_zip_locate_all(zip, &err), 0);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(zip->entries[i].usize, i % 3);
		assert_int_equal(zip->entries[i].data_off % 64, 0);
	}
	assert_non_null(find(zip, "archive/data/66002"));
	ckpt_zip_close(zip);
	ckpt_buf_clear(&file);
	free(records);
	free(names);
}

static void bytes_without_an_end_record_are_no_archive(void **state)
{
	struct ckpt_zip *zip;

	(void)state;
	assert_int_equal(open_bytes("", 0, &zip), CKPT_E_NOTFOUND);
	assert_int_equal(open_bytes("PK\x05\x06", 4, &zip), CKPT_E_NOTFOUND);
	assert_string_equal(unit_message(&err), "no end of central directory record found: the file is "
						"truncated, or no zip archive");
	assert_null(zip);
	ckpt_zip_close(NULL);
}

UNIT_SUITE(test_index)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_record_is_found_and_read),
		cmocka_unit_test(case_does_not_count_in_names),
		cmocka_unit_test(two_records_of_one_name_are_refused),
		cmocka_unit_test(records_that_overlap_are_refused),
		cmocka_unit_test(sizes_that_overflow_are_refused),
		cmocka_unit_test(a_comment_and_trailing_bytes_are_tolerated),
		cmocka_unit_test(archives_without_zip64_records_are_read),
		cmocka_unit_test(a_file_cut_anywhere_is_refused),
		cmocka_unit_test(a_flipped_byte_never_crashes),
		cmocka_unit_test(lies_in_the_directory_are_named),
		cmocka_unit_test(lies_about_a_record_are_named_with_the_record),
		cmocka_unit_test(a_flipped_bit_is_seen_by_the_checksum),
		cmocka_unit_test(a_checksum_of_0_means_that_none_was_recorded),
		cmocka_unit_test(a_record_over_the_limit_is_not_read),
		cmocka_unit_test(more_than_65535_records_are_all_there),
		cmocka_unit_test(bytes_without_an_end_record_are_no_archive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
