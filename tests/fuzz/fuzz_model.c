/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is the pickle of a checkpoint; a sound archive is made around it, with storages for
 * whoever wants them. So the fuzzer need not find out about zip files to get at what comes behind.
 * The last byte, which may lie behind STOP, picks the generation of the archive.
 */
#include "archive.h"
#include "fuzz.h"

enum { STORAGES = 8, STORAGE_BYTES = 64 };

static void add_records(struct fuzz_archive *a, const uint8_t *data, size_t size,
			unsigned generation)
{
	static const char *const names[STORAGES] = { "data/0", "data/1", "data/2", "data/3",
						     "data/4", "data/5", "data/6", "data/7" };
	static const uint8_t storage[STORAGE_BYTES] = "the bytes of a storage";

	fuzz_archive_add(a, "data.pkl", data, size);
	if (generation == 3) {
		fuzz_archive_add(a, ".format_version", "1", 1);
		fuzz_archive_add(a, ".storage_alignment", "64", 2);
	}
	if (generation >= 2)
		fuzz_archive_add(a, "byteorder", "little", 6);
	for (int i = 0; i < STORAGES; i++)
		fuzz_archive_add(a, names[i], storage, sizeof(storage));
	fuzz_archive_add(a, "version", "3\n", 2);
	if (generation >= 2)
		fuzz_archive_add(a, ".data/serialization_id",
				 "0123456789012345678901234567890123456789", 40);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned generation = size ? data[size - 1] & 3 : 0;
	struct fuzz_archive a = { .count = 0 };
	struct ckpt_buf file = { 0 };

	add_records(&a, data, size, generation);
	fuzz_archive_write(&a, generation == 1 ? "file" : "archive", &file);
	fuzz_exercise_file(file.data, file.len);
	ckpt_buf_clear(&file);
	return 0;
}
