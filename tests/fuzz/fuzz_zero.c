/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of DeepSpeed. The first byte says which files there are, then come their data.pkl, each with its length in two
 * bytes in front: the model states, then the optimizer's. Sound archives are made around them, with storages of 64 bytes.
 * Best with TMPDIR in memory.
 */
#include "archive.h"
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <sys/stat.h>

enum { STORAGES = 8, STORAGE_BYTES = 64 };
enum { STAGE_3 = 1 << 0, TWO_RANKS = 1 << 1, PREFIX = 1 << 2 };

static void write_archive(const char *name, const uint8_t **data, size_t *size)
{
	static const char *const names[STORAGES] = { "data/0", "data/1", "data/2", "data/3",
						     "data/4", "data/5", "data/6", "data/7" };
	static const uint8_t storage[STORAGE_BYTES] = "the bytes of a storage";
	struct fuzz_archive a = { .count = 0 };
	struct ckpt_buf file = { 0 };
	size_t len = 0;

	if (*size >= 2) {
		len = (size_t)((*data)[0] | (*data)[1] << 8);
		*data += 2;
		*size -= 2;
	}
	if (len > *size)
		len = *size;
	fuzz_archive_add(&a, "data.pkl", *data, len);
	*data += len;
	*size -= len;
	for (int i = 0; i < STORAGES; i++)
		fuzz_archive_add(&a, names[i], storage, sizeof(storage));
	fuzz_archive_add(&a, "version", "3\n", 2);
	fuzz_archive_write(&a, "archive", &file);
	fuzz_write_input(name, file.data, file.len);
	ckpt_buf_clear(&file);
}

static void write_files(unsigned flags, const uint8_t *data, size_t size)
{
	int ranks = flags & TWO_RANKS ? 2 : 1;
	char name[80];

	for (int i = 0; i < (flags & STAGE_3 ? ranks : 1); i++) {
		snprintf(name, sizeof(name), "zero_pp_rank_%d_mp_rank_00_model_states.pt", i);
		write_archive(flags & STAGE_3 ? name : "mp_rank_00_model_states.pt", &data, &size);
	}
	for (int i = 0; i < ranks && size; i++) { /* stage 0 has none */
		snprintf(name, sizeof(name), "%szero_pp_rank_%d_mp_rank_00_optim_states.pt",
			 flags & PREFIX ? "bf16_" : "", i);
		write_archive(name, &data, &size);
	}
}

static void check_note(void *ctx, const char *text)
{
	(void)ctx;
	REQUIRE(*text);
	for (const char *p = text; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7F);
}

static void refuse_in_place(const struct ckpt_model *model)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = ckpt_save_in_place(model, NULL, NULL, &err);

	fuzz_check_error(rc, &err);
	REQUIRE(rc < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_model *model;

	fuzz_make_base();
	if (!size)
		return 0;
	REQUIRE(mkdir(fuzz_in, 0777) == 0);
	write_files(data[0], data + 1, size - 1);
	model = fuzz_open_directory(fuzz_in);
	if (model) {
		REQUIRE(ckpt_tell_state(model, check_note, NULL, NULL) == 0);
		fuzz_exercise_model(model, true);
		if (fuzz_save_directory(model, NULL, 0, 0) == 0)
			fuzz_check_directory(model);
		fuzz_split(model);
		refuse_in_place(model);
	}
	ckpt_close(model);
	fuzz_remove_tree(fuzz_in);
	return 0;
}
