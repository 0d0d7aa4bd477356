/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DCP directory with one data file: the input is the length of `.metadata` (four bytes, little-endian),
 * `.metadata`, and `__0_0.distcp`. Best with TMPDIR in memory.
 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <dirent.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PATH = 600, MOST_OPEN = 8 };

/* Everything happens in one folder: IN is the directory of the input, OUT what is made of it. */
static char base[400], in[MOST_PATH], out[MOST_PATH], merged[MOST_PATH];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

static void remove_tree(const char *path)
{
	if (access(path, F_OK) == 0)
		REQUIRE(nftw(path, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS) == 0);
}

static void remove_base(void)
{
	remove_tree(base);
}

static void make_base(void)
{
	const char *dir = getenv("TMPDIR");

	if (base[0])
		return;
	snprintf(base, sizeof(base), "%s/ckpt-fuzz-dcp-%ld", dir && *dir ? dir : "/tmp",
		 (long)getpid());
	snprintf(in, sizeof(in), "%s/in", base);
	snprintf(out, sizeof(out), "%s/out", base);
	snprintf(merged, sizeof(merged), "%s/merged", base);
	remove_tree(base); /* of an earlier process with this id */
	REQUIRE(mkdir(base, 0777) == 0);
	atexit(remove_base);
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

static void write_file(const char *name, const uint8_t *bytes, size_t len)
{
	char path[MOST_PATH + 32];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", in, name);
	file = fopen(path, "wb");
	REQUIRE(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

static void write_directory(const uint8_t *data, size_t size)
{
	uint32_t len = 0;

	for (unsigned i = 0; i < 4 && i < size; i++)
		len |= (uint32_t)data[i] << (8 * i);
	data += size < 4 ? size : 4;
	size -= size < 4 ? size : 4;
	if (len > size)
		len = (uint32_t)size;
	remove_tree(in);
	REQUIRE(mkdir(in, 0777) == 0);
	write_file(".metadata", data, len);
	write_file("__0_0.distcp", data + len, size - len);
}

static struct ckpt_model *open_directory(const char *path)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	int rc = ckpt_open(path, &model, &err);

	fuzz_check_error(rc, &err);
	REQUIRE((rc == 0) == (model != NULL));
	return model;
}

static int save(const struct ckpt_model *model, const char *format, uint32_t ranks, unsigned flags)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	options.format = format;
	options.ranks = ranks;
	options.shard_dim = ranks ? -1 : 0;
	options.flags = flags | CKPT_SAVE_NO_SYNC;
	rc = ckpt_save(model, out, &options, NULL, &err);
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

/* The directory that was written opens, holds as many tensors, and can be merged if the first could. */
static void check_output(const struct ckpt_model *model)
{
	struct ckpt_model *again = open_directory(out);

	REQUIRE(again);
	REQUIRE(ckpt_tensor_count(again) >= ckpt_tensor_count(model));
	REQUIRE(!merges(model) || merges(again));
	ckpt_close(again);
	remove_tree(out);
}

static void split(const struct ckpt_model *model)
{
	for (uint32_t ranks = 1; ranks <= 2; ranks++)
		if (save(model, "dcp", ranks, 0) == 0)
			check_output(model);
}

static void save_edited(const struct ckpt_model *model)
{
	static const char *const drop[] = { "*a*" };
	struct ckpt_model *edited = NULL;

	for (int how = 0; how < 4; how++) {
		int rc;

		if (how == 0)
			rc = ckpt_add_prefix(model, "module.", NULL, &edited, NULL, NULL);
		else if (how == 1)
			rc = ckpt_strip_prefix(model, "module.", NULL, &edited, NULL, NULL);
		else if (how == 2)
			rc = ckpt_select(model, NULL, 0, drop, 1, &edited, NULL, NULL);
		else
			rc = ckpt_cast(model, "float16", NULL, &edited, NULL, NULL);
		if (rc < 0)
			continue;
		if (save(edited, NULL, 0, how & 1 ? CKPT_SAVE_HARD_LINK : 0) == 0)
			check_output(edited);
		ckpt_close(edited);
	}
}

/* The last thing that is done with the directory. */
static void edit_in_place(const struct ckpt_model *model)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *edited, *again;
	int rc = ckpt_add_prefix(model, "module.", NULL, &edited, NULL, NULL);

	if (rc < 0)
		return;
	options.flags = CKPT_SAVE_NO_SYNC;
	rc = ckpt_save_in_place(edited, &options, NULL, &err);
	fuzz_check_error(rc, &err);
	again = open_directory(in);
	REQUIRE(again); /* the old one or the new one */
	REQUIRE(rc < 0 || ckpt_tensor_count(again) >= ckpt_tensor_count(edited));
	ckpt_close(again);
	ckpt_close(edited);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_model *model;

	make_base();
	write_directory(data, size);
	model = open_directory(in);
	if (!model)
		return 0;
	fuzz_exercise_model(model, true);
	split(model);
	save_edited(model);
	edit_in_place(model);
	ckpt_close(model);
	return 0;
}
