/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives that are no torch.save files. The first byte says which; around what follows a sound archive is made:
 * 0: a mobile model, which is no archive and stands for itself; 1: the pickle of a torch.package; 2: the JSON text that
 * says what is in a torch.export program; 3: a torch.save archive inside of an old one.
 */
#include "archive.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { STORAGES = 4, STORAGE_BYTES = 64, KINDS = 4 };

static const uint8_t storage[STORAGE_BYTES] = "the bytes of a storage";

static void add_package(struct fuzz_archive *a, const uint8_t *data, size_t size)
{
	static const char *const names[STORAGES] = { ".data/0.storage", ".data/1.storage",
						     ".data/2.storage", ".data/3.storage" };

	fuzz_archive_add(a, "models/m.pkl", data, size);
	for (int i = 0; i < STORAGES; i++)
		fuzz_archive_add(a, names[i], storage, sizeof(storage));
	fuzz_archive_add(a, ".data/extern_modules", "torch\n", 6);
	fuzz_archive_add(a, ".data/version", "6\n", 2);
}

static void add_program(struct fuzz_archive *a, const uint8_t *data, size_t size)
{
	static const char *const names[STORAGES] = { "data/weights/weight_0",
						     "data/weights/weight_1",
						     "data/constants/tensor_0",
						     "data/constants/custom_obj_0" };

	for (int i = 0; i < STORAGES; i++)
		fuzz_archive_add(a, names[i], storage, sizeof(storage));
	fuzz_archive_add(a, "data/weights/empty", storage, 0);
	fuzz_archive_add(a, "data/weights/model_weights_config.json", data, size);
	fuzz_archive_add(a, "data/constants/model_constants_config.json", data, size);
	fuzz_archive_add(a, "models/model.json", "{}", 2);
	fuzz_archive_add(a, "archive_format", "pt2", 3);
	fuzz_archive_add(a, ".data/version", "6\n", 2);
}

static void add_old_program(struct fuzz_archive *a, const uint8_t *data, size_t size)
{
	fuzz_archive_add(a, "serialized_exported_program.json", "{}", 2);
	fuzz_archive_add(a, "serialized_state_dict.pt", data, size);
	fuzz_archive_add(a, "serialized_constants.pt", data, size);
	fuzz_archive_add(a, "version", "8.2", 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_archive a = { .count = 0 };
	struct ckpt_buf file = { 0 };
	uint8_t *copy;

	if (!size)
		return 0;
	if (data[0] % KINDS ==
	    0) { /* a block of its own, so that a sanitizer sees reads past its ends */
		copy = malloc(size);
		REQUIRE(copy);
		memcpy(copy, data + 1, size - 1);
		fuzz_exercise_file(copy, size - 1);
		free(copy);
		return 0;
	}
	if (data[0] % KINDS == 1)
		add_package(&a, data + 1, size - 1);
	else if (data[0] % KINDS == 2)
		add_program(&a, data + 1, size - 1);
	else
		add_old_program(&a, data + 1, size - 1);
	fuzz_archive_write(&a, "m", &file);
	fuzz_exercise_file(file.data, file.len);
	ckpt_buf_clear(&file);
	return 0;
}
