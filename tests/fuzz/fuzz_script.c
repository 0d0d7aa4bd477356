/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is what makes a TorchScript archive: data.pkl, constants.pkl and a source, each with its length in two bytes
 * in front; a sound archive is made around them, with storages for both pickles. The source stands for several modules.
 */
#include "archive.h"
#include "fuzz.h"

enum { STORAGES = 4, STORAGE_BYTES = 64, PARTS = 3 };

struct part {
	const uint8_t *bytes;
	size_t len;
};

/* What is there of it, if there is less than the length says. */
static struct part next_part(const uint8_t **data, size_t *size)
{
	struct part part = { *data, 0 };

	if (*size < 2)
		return part;
	part.bytes = *data + 2;
	part.len = (size_t)((*data)[0] | (*data)[1] << 8);
	if (part.len > *size - 2)
		part.len = *size - 2;
	*data += 2 + part.len;
	*size -= 2 + part.len;
	return part;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const storages[] = { "data/0", "data/1", "data/2", "data/3" };
	static const char *const constants[] = { "constants/0", "constants/1", "constants/2",
						 "constants/3" };
	static const char *const sources[] = { "code/__torch__.py", "code/__torch__/m.py",
					       "code/__torch__/torch/nn/modules/linear.py" };
	static const uint8_t storage[STORAGE_BYTES] = "the bytes of a storage";
	struct fuzz_archive a = { .count = 0 };
	struct ckpt_buf file = { 0 };
	struct part parts[PARTS];

	for (int i = 0; i < PARTS; i++)
		parts[i] = next_part(&data, &size);
	fuzz_archive_add(&a, "data.pkl", parts[0].bytes, parts[0].len);
	fuzz_archive_add(&a, "constants.pkl", parts[1].bytes, parts[1].len);
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		fuzz_archive_add(&a, sources[i], parts[2].bytes, parts[2].len);
	for (int i = 0; i < STORAGES; i++)
		fuzz_archive_add(&a, storages[i], storage, sizeof(storage));
	for (int i = 0; i < STORAGES; i++)
		fuzz_archive_add(&a, constants[i], storage, sizeof(storage));
	fuzz_archive_add(&a, "version", "3\n", 2);
	fuzz_archive_write(&a, "archive", &file);
	fuzz_exercise_file(file.data, file.len);
	ckpt_buf_clear(&file);
	return 0;
}
