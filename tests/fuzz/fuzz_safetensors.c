/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Safetensors: everything that is done with any file, and what is written of it, over and over. Of other files the weights are
 * taken out first.
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
		snprintf(path, sizeof(path), "%s/ckpt-fuzz-safetensors-%ld",
			 dir && *dir ? dir : "/tmp", (long)getpid());
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

static void count_unfit(void *ctx, const char *name, const char *why)
{
	REQUIRE(name && *why);
	++*(uint64_t *)ctx;
}

/* False: it cannot be written so, and the error was in order. */
static bool write_as(const struct ckpt_model *model, enum ckpt_shared shared, struct bytes *out)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t unfit = 0;
	int rc;

	options.format = "safetensors";
	options.flags = CKPT_SAVE_CANONICAL | CKPT_SAVE_REPLACE | CKPT_SAVE_NO_SYNC |
			CKPT_SAVE_DROP_OTHERS | CKPT_SAVE_DRY_RUN;
	options.shared = shared;
	options.unfit = count_unfit;
	options.unfit_ctx = &unfit;
	rc = ckpt_save(model, output_path(), &options, &report, &err);
	fuzz_check_error(rc, &err);
	if (rc < 0 || report.nbytes > 1 << 20) /* what is expanded may be very long */
		return false;
	REQUIRE(report.others == unfit);
	options.flags &= ~(unsigned)CKPT_SAVE_DRY_RUN;
	options.unfit = NULL;
	rc = ckpt_save(model, output_path(), &options, &report, &err);
	fuzz_check_error(rc, &err);
	if (rc == 0)
		*out = take_output();
	REQUIRE(rc < 0 || out->size == report.nbytes);
	return rc == 0;
}

static bool write_again(const struct bytes *bytes, struct bytes *out)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *again;
	int rc = ckpt_open_memory(bytes->data, bytes->size, &again, &err);
	bool written;

	if (rc < 0)
		fprintf(stderr, "%s\n", err.text);
	REQUIRE(rc == 0);
	written = write_as(again, CKPT_SHARED_DEFAULT, out);
	ckpt_close(again);
	return written;
}

/*
 * What was written opens, and is written the same again: but for the first time, as what an edit left of the metadata may by now
 * name a tensor that it did not name before.
 */
static void write_often(const struct ckpt_model *model, enum ckpt_shared shared)
{
	struct bytes first = { 0 }, second = { 0 }, third = { 0 };

	if (!write_as(model, shared, &first))
		return;
	REQUIRE(write_again(&first, &second));
	REQUIRE(write_again(&second, &third));
	REQUIRE(second.size == third.size && !memcmp(second.data, third.data, second.size));
	free(first.data);
	free(second.data);
	free(third.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_file_info file = CKPT_FILE_INFO_INIT;
	struct ckpt_model *model, *weights;
	int rc = ckpt_open_memory(data, size, &model, &err);

	fuzz_check_error(rc, &err);
	if (rc < 0)
		return 0;
	REQUIRE(ckpt_file_get(model, &file) == 0);
	if (!strcmp(file.format, "safetensors")) {
		fuzz_exercise_model(model, true);
		write_often(model, CKPT_SHARED_DEFAULT);
	}
	rc = ckpt_take_weights(model, NULL, &weights, NULL, &err);
	fuzz_check_error(rc, &err);
	if (rc == 0) {
		write_often(weights, CKPT_SHARED_CLONE);
		write_often(weights, CKPT_SHARED_ALIAS);
	}
	ckpt_close(rc == 0 ? weights : NULL);
	ckpt_close(model);
	return 0;
}
