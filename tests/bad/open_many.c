/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open_many                     opens many files that differ a little, in one process
 * open_many open FILE PATH      writes each to FILE and opens PATH, a directory that it belongs to or FILE itself
 * open_many verify FILE PATH    the same for ckpt_verify()
 *
 * From standard input comes for each its length (32 bits, little-endian) and its bytes. Prints a line for each: "opened", or
 * "sound", "damaged", "unproven", "complete"; or the message. Those that are opened in memory are at the end of their own allocation, so
 * that a sanitizer sees each byte that is read behind them.
 */
#include <ckpt/ckpt.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int enter(void *ctx, const struct ckpt_item *item)
{
	unsigned *left = ctx;

	return *left && (*left)-- && item->kind == CKPT_ITEM_CONTAINER && !item->seen;
}

/* As ls and info do. */
static void look(const struct ckpt_model *model)
{
	struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
	struct ckpt_file_info file = CKPT_FILE_INFO_INIT;
	unsigned left = 10000;

	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++)
		ckpt_tensor_get(model, i, &info);
	ckpt_file_get(model, &file);
	ckpt_walk(model, enter, &left, NULL);
}

static const char *open_one(const char *path, const unsigned char *bytes, size_t len,
			    struct ckpt_error *err)
{
	struct ckpt_model *model;

	if ((path ? ckpt_open(path, &model, err) : ckpt_open_memory(bytes, len, &model, err)) < 0)
		return NULL;
	look(model);
	ckpt_close(model);
	return "opened";
}

static const char *verify_one(const char *path, struct ckpt_error *err)
{
	static const char *const verdicts[] = { "sound", "damaged", "unproven", "complete" };
	struct ckpt_verify_report report = CKPT_VERIFY_REPORT_INIT;

	return ckpt_verify(path, NULL, NULL, NULL, &report, err) < 0 ? NULL :
								       verdicts[report.verdict];
}

static int write_file(const char *path, const unsigned char *bytes, size_t len)
{
	FILE *out = fopen(path, "wb");

	return out && fwrite(bytes, 1, len, out) == len && fclose(out) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
	const char *path = argc == 4 ? argv[3] : NULL;
	bool verify = path && strcmp(argv[1], "verify") == 0;
	unsigned char head[4];

	while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
		size_t len = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 |
			     (size_t)head[3] << 24;
		unsigned char *bytes = malloc(len ? len : 1);
		struct ckpt_error err = CKPT_ERROR_INIT;
		const char *answer;
		char text[1024];

		if (!bytes || fread(bytes, 1, len, stdin) != len ||
		    (path && write_file(argv[2], bytes, len) < 0))
			return 2;
		answer = verify ? verify_one(path, &err) : open_one(path, bytes, len, &err);
		puts(answer ? answer : ckpt_error_format(&err, text, sizeof(text)));
		free(bytes);
	}
	return 0;
}
