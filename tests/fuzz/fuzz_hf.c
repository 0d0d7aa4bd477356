/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shard sets. The first byte says what the rest is: 'i', the index of a set of two files, which are always the same; or the
 * number of bytes, times 4, of the first of two files with parts of tensors, as DCP leaves them. Best with TMPDIR in memory.
 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART(n) "shard-0000" #n "-model-00001-of-00001.safetensors"
#define FILE_OF(n) "model-0000" #n "-of-00002.safetensors"

static void write_file(const char *name, const char *header, const char *data)
{
	uint8_t bytes[512] = { (uint8_t)strlen(header) };
	size_t len = strlen(header);

	memcpy(bytes + 8, header, len);
	memcpy(bytes + 8 + len, data, strlen(data));
	fuzz_write_input(name, bytes, 8 + len + strlen(data));
}

static void write_set(const uint8_t *index, size_t size)
{
	write_file(FILE_OF(1),
		   "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
		   "\"b\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[4,6]}}",
		   "abcdef");
	write_file(FILE_OF(2), "{\"c\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}",
		   "ghij");
	fuzz_write_input("model.safetensors.index.json", index, size);
}

static void write_parts(size_t first, const uint8_t *data, size_t size)
{
	if (first > size)
		first = size;
	fuzz_write_input(PART(1), data, first);
	fuzz_write_input(PART(2), data + first, size - first);
}

static void check_note(void *ctx, const char *text)
{
	(void)ctx;
	REQUIRE(*text);
	for (const char *p = text; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7F);
}

static void check_model(const struct ckpt_model *model)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = ckpt_tell_state(model, check_note, NULL, &err);

	fuzz_check_error(rc, &err);
	REQUIRE(rc == 0);
	fuzz_exercise_model(model, true);
	if (fuzz_save_directory(model, NULL, 0, 0) == 0)
		fuzz_check_directory(model);
	fuzz_split(model);
	rc = ckpt_save_in_place(model, NULL, NULL, &err);
	fuzz_check_error(rc, &err);
	REQUIRE(rc < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_model *model;

	if (!size)
		return 0;
	fuzz_make_base();
	fuzz_remove_tree(fuzz_in);
	REQUIRE(mkdir(fuzz_in, 0777) == 0);
	if (*data == 'i')
		write_set(data + 1, size - 1);
	else
		write_parts((size_t)*data * 4, data + 1, size - 1);
	model = fuzz_open_directory(fuzz_in);
	if (model)
		check_model(model);
	ckpt_close(model);
	return 0;
}
