/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DCP directory with one data file: the input is the length of `.metadata` (four bytes, little-endian),
 * `.metadata`, and `__0_0.distcp`. Best with TMPDIR in memory.
 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <sys/stat.h>

static void write_directory(const uint8_t *data, size_t size)
{
	uint32_t len = 0;

	for (unsigned i = 0; i < 4 && i < size; i++)
		len |= (uint32_t)data[i] << (8 * i);
	data += size < 4 ? size : 4;
	size -= size < 4 ? size : 4;
	if (len > size)
		len = (uint32_t)size;
	fuzz_remove_tree(fuzz_in);
	REQUIRE(mkdir(fuzz_in, 0777) == 0);
	fuzz_write_input(".metadata", data, len);
	fuzz_write_input("__0_0.distcp", data + len, size - len);
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
		if (fuzz_save_directory(edited, NULL, 0, how & 1 ? CKPT_SAVE_HARD_LINK : 0) == 0)
			fuzz_check_directory(edited);
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
	again = fuzz_open_directory(fuzz_in);
	REQUIRE(again); /* the old one or the new one */
	REQUIRE(rc < 0 || ckpt_tensor_count(again) >= ckpt_tensor_count(edited));
	ckpt_close(again);
	ckpt_close(edited);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_model *model;

	fuzz_make_base();
	write_directory(data, size);
	model = fuzz_open_directory(fuzz_in);
	if (!model)
		return 0;
	fuzz_exercise_model(model, true);
	fuzz_split(model);
	save_edited(model);
	edit_in_place(model);
	ckpt_close(model);
	return 0;
}
