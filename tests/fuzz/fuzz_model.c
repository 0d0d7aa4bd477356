/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is the pickle of a checkpoint; a sound archive is made around it, with storages for
 * whoever wants them. So the fuzzer need not find out about zip files to get at what comes behind.
 * The last byte, which may lie behind STOP, picks the generation of the archive.
 */
#include "fuzz.h"

#include "zipfmt/layout.h"

#include <libdeflate.h>
#include <string.h>

enum { STORAGES = 8, STORAGE_BYTES = 64, MOST_RECORDS = STORAGES + 6 };

struct archive {
	struct ckpt_zip_record records[MOST_RECORDS];
	const void *bytes[MOST_RECORDS];
	uint32_t count;
};

static void add(struct archive *a, const char *name, const void *bytes, size_t len)
{
	a->records[a->count] = (struct ckpt_zip_record){ .name = name,
							 .size = len,
							 .crc32 = libdeflate_crc32(0, bytes, len) };
	a->bytes[a->count++] = bytes;
}

static void add_records(struct archive *a, const uint8_t *data, size_t size, unsigned generation)
{
	static const char *const names[STORAGES] = { "data/0", "data/1", "data/2", "data/3",
						     "data/4", "data/5", "data/6", "data/7" };
	static const uint8_t storage[STORAGE_BYTES] = "the bytes of a storage";

	add(a, "data.pkl", data, size);
	if (generation == 3) {
		add(a, ".format_version", "1", 1);
		add(a, ".storage_alignment", "64", 2);
	}
	if (generation >= 2)
		add(a, "byteorder", "little", 6);
	for (int i = 0; i < STORAGES; i++)
		add(a, names[i], storage, sizeof(storage));
	add(a, "version", "3\n", 2);
	if (generation >= 2)
		add(a, ".data/serialization_id", "0123456789012345678901234567890123456789", 40);
}

static void write_archive(const struct archive *a, struct ckpt_zip_layout *layout,
			  struct ckpt_buf *out)
{
	for (uint32_t i = 0; i < a->count; i++) {
		ckpt_zip_put_local_header(layout, i, out);
		ckpt_buf_add(out, a->bytes[i], a->records[i].size);
		ckpt_zip_put_descriptor(layout, i, out);
	}
	for (uint32_t i = 0; i < a->count; i++)
		ckpt_zip_put_directory_entry(layout, i, out);
	ckpt_zip_put_ends(layout, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned generation = size ? data[size - 1] & 3 : 0;
	struct archive a = { .count = 0 };
	struct ckpt_buf file = { 0 };
	struct ckpt_zip_layout layout = { .archive_name = generation == 1 ? "file" : "archive",
					  .alignment = CKPT_ZIP_ALIGNMENT };

	add_records(&a, data, size, generation);
	layout.records = a.records;
	layout.count = a.count;
	REQUIRE(ckpt_zip_layout_compute(&layout, NULL) == 0);
	write_archive(&a, &layout, &file);
	REQUIRE(!file.bad && file.len == layout.file_size);
	fuzz_exercise_file(file.data, file.len);
	ckpt_buf_clear(&file);
	return 0;
}
