/* SPDX-License-Identifier: Apache-2.0 */
/* An error text, 16 bits that say its length in front, and a file: whatever is told is printable. Best with TMPDIR in memory. */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>
#include <sys/stat.h>

static void check_text(const char *text)
{
	REQUIRE(text && *text);
	for (const char *p = text; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7F);
}

static int check_cause(void *ctx, const struct ckpt_cause *c)
{
	uint32_t *count = ctx;

	check_text(c->id);
	check_text(c->text);
	REQUIRE(c->certainty <= CKPT_CAUSE_LARGE && c->mend_count);
	for (size_t i = 0; i < c->fact_count; i++)
		check_text(c->facts[i]);
	for (size_t i = 0; i < c->mend_count; i++)
		check_text(c->mends[i].text);
	++*count;
	return 0;
}

static void why(const char *path, const char *error, size_t len)
{
	struct ckpt_why_options options = CKPT_WHY_OPTIONS_INIT;
	struct ckpt_why_report report = CKPT_WHY_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint32_t count = 0;
	int rc;

	options.error = error;
	options.error_len = len;
	rc = ckpt_why(path, &options, check_cause, &count, &report, &err);
	fuzz_check_error(rc, &err);
	REQUIRE(rc < 0 || count == report.causes + report.large);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[FUZZ_MOST_PATH + 8];
	size_t len = size < 2 ? 0 : data[0] | (size_t)data[1] << 8;
	char *error;

	if (size < 2 || len > size - 2)
		return 0;
	error = malloc(len + 1); /* so that one byte too many is seen */
	REQUIRE(error);
	memcpy(error, data + 2, len);
	if (fuzz_make_base())
		REQUIRE(mkdir(fuzz_in, 0777) == 0);
	fuzz_write_input("file", data + 2 + len, size - 2 - len);
	snprintf(path, sizeof(path), "%s/file", fuzz_in);
	why(path, error, len);
	why(NULL, error, len);
	why(path, NULL, 0);
	free(error);
	return 0;
}
