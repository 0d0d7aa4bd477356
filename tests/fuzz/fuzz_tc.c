/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of torch_checkpointing: the input is its `metadata.pkl`, the data files are those of tests/fuzz/tc.
 * Best with TMPDIR in memory.
 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static void link_files(void)
{
	DIR *dir = opendir(FUZZ_TC_FILES);
	struct dirent *entry;

	REQUIRE(dir && mkdir(fuzz_in, 0777) == 0);
	while ((entry = readdir(dir))) {
		char from[FUZZ_MOST_PATH + 256], to[FUZZ_MOST_PATH + 256];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(from, sizeof(from), "%s/%s", FUZZ_TC_FILES, entry->d_name);
		snprintf(to, sizeof(to), "%s/%s", fuzz_in, entry->d_name);
		REQUIRE(symlink(from, to) == 0);
	}
	closedir(dir);
}

static void check_note(void *ctx, const char *text)
{
	(void)ctx;
	REQUIRE(*text);
	for (const char *p = text; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7F);
}

static void check_state(const struct ckpt_model *model)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = ckpt_tell_state(model, check_note, NULL, &err);

	fuzz_check_error(rc, &err);
	REQUIRE(rc == 0);
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

	if (fuzz_make_base())
		link_files();
	fuzz_write_input("metadata.pkl", data, size);
	model = fuzz_open_directory(fuzz_in);
	if (!model)
		return 0;
	check_state(model);
	fuzz_exercise_model(model, true);
	if (fuzz_save_directory(model, NULL, 0, 0) == 0)
		fuzz_check_directory(model);
	fuzz_split(model);
	refuse_in_place(model);
	ckpt_close(model);
	return 0;
}
