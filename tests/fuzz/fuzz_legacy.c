/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Legacy streams: everything that is done with any file, and the forms against each other. What a stream becomes as a zip
 * must not depend on whether it was written as a stream once more.
 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>
#include <unistd.h>

struct bytes {
	uint8_t *data;
	size_t size;
};

static const char *output_path(void)
{
	static char path[FUZZ_MOST_PATH];
	const char *dir = getenv("TMPDIR");

	if (!path[0])
		snprintf(path, sizeof(path), "%s/ckpt-fuzz-legacy-%ld", dir && *dir ? dir : "/tmp",
			 (long)getpid());
	return path;
}

static struct bytes take_output(void)
{
	FILE *file = fopen(output_path(), "rb");
	struct bytes bytes = { 0 };

	REQUIRE(file && fseek(file, 0, SEEK_END) == 0);
	bytes.size = (size_t)ftell(file);
	rewind(file);
	bytes.data = malloc(bytes.size + 1);
	REQUIRE(bytes.data && fread(bytes.data, 1, bytes.size, file) == bytes.size);
	fclose(file);
	unlink(output_path());
	return bytes;
}

/* MODEL in FORMAT; false: it cannot be written so, and the error was in order. */
static bool convert(const struct ckpt_model *model, const char *format, struct bytes *out)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	options.format = format;
	options.profile = strcmp(format, "torch") ? NULL : "2.14";
	options.flags = CKPT_SAVE_CANONICAL | CKPT_SAVE_REPLACE | CKPT_SAVE_NO_SYNC;
	rc = ckpt_save(model, output_path(), &options, NULL, &err);
	fuzz_check_error(rc, &err);
	if (rc == 0)
		*out = take_output();
	return rc == 0;
}

static struct ckpt_model *reopen(const struct bytes *bytes)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	int rc = ckpt_open_memory(bytes->data, bytes->size, &model, &err);

	if (rc < 0)
		fprintf(stderr, "%s\n", err.text);
	REQUIRE(rc == 0);
	return model;
}

static bool is_same(const struct bytes *a, const struct bytes *b)
{
	return a->size == b->size && !memcmp(a->data, b->data, a->size);
}

/* As a stream, then of that stream both forms again. */
static void check_second(const struct ckpt_model *model, const struct bytes *stream)
{
	struct ckpt_model *second = reopen(stream);
	struct bytes zip = { 0 }, zip_again = { 0 }, stream_again = { 0 };

	REQUIRE(convert(second, "torch-legacy", &stream_again));
	REQUIRE(is_same(stream, &stream_again));
	if (convert(model, "torch", &zip)) {
		REQUIRE(convert(second, "torch", &zip_again));
		REQUIRE(is_same(&zip, &zip_again));
	}
	ckpt_close(second);
	free(zip.data);
	free(zip_again.data);
	free(stream_again.data);
}

/*
 * The first stream may show what no load can give (a class named "a..b"), which is written as calls, and these
 * otherwise than the name: so two steps before they are held against each other.
 */
static void compare_forms(const struct ckpt_model *model)
{
	struct bytes first = { 0 }, stream = { 0 };
	struct ckpt_model *plain;

	if (!convert(model, "torch-legacy", &first))
		return;
	plain = reopen(&first);
	REQUIRE(convert(plain, "torch-legacy", &stream));
	check_second(is_same(&first, &stream) ? model : plain, &stream);
	ckpt_close(plain);
	free(first.data);
	free(stream.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_file_info file = CKPT_FILE_INFO_INIT;
	struct ckpt_model *model;
	int rc = ckpt_open_memory(data, size, &model, &err);

	fuzz_check_error(rc, &err);
	if (rc < 0)
		return 0;
	REQUIRE(ckpt_file_get(model, &file) == 0);
	if (!strcmp(file.format, "torch legacy stream")) {
		fuzz_exercise_model(model, true);
		compare_forms(model);
	}
	ckpt_close(model);
	return 0;
}
