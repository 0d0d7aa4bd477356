/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <dirent.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_OPEN = 8 };

/* Everything happens in one folder: IN is the directory of the input, OUT what is made of it. */
static char base[400];
char fuzz_in[FUZZ_MOST_PATH], fuzz_out[FUZZ_MOST_PATH];
static char merged[FUZZ_MOST_PATH];

/* ---- files ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

void fuzz_remove_tree(const char *path)
{
	if (access(path, F_OK) == 0)
		REQUIRE(nftw(path, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS) == 0);
}

static void remove_base(void)
{
	fuzz_remove_tree(base);
}

bool fuzz_make_base(void)
{
	const char *dir = getenv("TMPDIR");

	if (base[0])
		return false;
	snprintf(base, sizeof(base), "%s/ckpt-fuzz-set-%ld", dir && *dir ? dir : "/tmp",
		 (long)getpid());
	snprintf(fuzz_in, sizeof(fuzz_in), "%s/in", base);
	snprintf(fuzz_out, sizeof(fuzz_out), "%s/out", base);
	snprintf(merged, sizeof(merged), "%s/merged", base);
	fuzz_remove_tree(base); /* of an earlier process with this id */
	REQUIRE(mkdir(base, 0777) == 0);
	atexit(remove_base);
	return true;
}

void fuzz_write_input(const char *name, const uint8_t *bytes, size_t len)
{
	char path[FUZZ_MOST_PATH + 32];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", fuzz_in, name);
	file = fopen(path, "wb");
	REQUIRE(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

static unsigned count_names(const char *path)
{
	DIR *dir = opendir(path);
	unsigned count = 0;

	REQUIRE(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

/* ---- models ---- */

struct ckpt_model *fuzz_open_directory(const char *path)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	int rc = ckpt_open(path, &model, &err);

	fuzz_check_error(rc, &err);
	REQUIRE((rc == 0) == (model != NULL));
	return model;
}

int fuzz_save_directory(const struct ckpt_model *model, const char *format, uint32_t ranks,
			unsigned flags)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	options.format = format;
	options.ranks = ranks;
	options.shard_dim = ranks ? -1 : 0;
	options.flags = flags | CKPT_SAVE_NO_SYNC;
	rc = ckpt_save(model, fuzz_out, &options, NULL, &err);
	fuzz_check_error(rc, &err);
	/* the input, and a complete output or nothing */
	REQUIRE(count_names(base) == (rc == 0 ? 2 : 1));
	return rc;
}

static bool merges(const struct ckpt_model *model)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	options.format = "torch";
	options.flags = CKPT_SAVE_DRY_RUN;
	rc = ckpt_save(model, merged, &options, NULL, &err);
	fuzz_check_error(rc, &err);
	return rc == 0;
}

void fuzz_check_directory(const struct ckpt_model *model)
{
	struct ckpt_model *again = fuzz_open_directory(fuzz_out);

	REQUIRE(again);
	REQUIRE(ckpt_tensor_count(again) >= ckpt_tensor_count(model));
	REQUIRE(!merges(model) || merges(again));
	ckpt_close(again);
	fuzz_remove_tree(fuzz_out);
}

void fuzz_split(const struct ckpt_model *model)
{
	static const char *const formats[] = { "dcp", "safetensors" };

	for (uint32_t ranks = 1; ranks <= 2; ranks++)
		for (int i = 0; i < 2; i++)
			if (fuzz_save_directory(model, formats[i], ranks, 0) == 0)
				fuzz_check_directory(model);
}
