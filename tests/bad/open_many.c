/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens many files that differ a little, in one process: from standard input comes for each its length (32 bits, little-endian) and
 * its bytes. Prints a line for each: "opened", or the message. Every one is at the end of its own allocation, so that
 * a sanitizer sees each byte that is read behind it.
 */
#include <ckpt/ckpt.h>

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

static void open_one(const unsigned char *bytes, size_t len)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	char text[1024];

	if (ckpt_open_memory(bytes, len, &model, &err) == 0) {
		look(model);
		ckpt_close(model);
		puts("opened");
	} else {
		puts(ckpt_error_format(&err, text, sizeof(text)));
	}
}

int main(void)
{
	unsigned char head[4];

	while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
		size_t len = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 |
			     (size_t)head[3] << 24;
		unsigned char *bytes = malloc(len ? len : 1);

		if (!bytes || fread(bytes, 1, len, stdin) != len)
			return 2;
		open_one(bytes, len);
		free(bytes);
	}
	return 0;
}
