/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_many   reads files from standard input, each behind its length (4 bytes, little-endian) and one byte: its number of the names
 *             below; writes a byte for each, its verdict. Thousands a second, for what is made at random.
 */
#include <ckpt/scan.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* What a file is called decides little, but something: data files of DCP are archives one behind the other. */
static const char *const names[] = { "a.pt", "a.pkl", "a.distcp", "a.bin" };

static int keep_verdict(void *ctx, const struct ckpt_scan_file *file)
{
	*(unsigned char *)ctx = (unsigned char)file->verdict;
	return 0;
}

static void put(const char *path, const uint8_t *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len) {
		perror(path);
		exit(2);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	uint8_t *bytes = NULL, head[5];

	if (argc != 2 || chdir(argv[1]) < 0) {
		fprintf(stderr, "usage: scan_many FOLDER <FILES >VERDICTS\n");
		return 64;
	}
	while (fread(head, sizeof(head), 1, stdin) == 1) {
		uint32_t len = head[0] | head[1] << 8 | head[2] << 16 | (uint32_t)head[3] << 24;
		const char *name = names[head[4] % (sizeof(names) / sizeof(names[0]))];
		unsigned char verdict = 255;

		bytes = realloc(bytes, (size_t)len + 1);
		if (!bytes || fread(bytes, 1, len, stdin) != len)
			return 2;
		put(name, bytes, len);
		if (ckpt_scan(name, NULL, keep_verdict, &verdict, NULL, NULL) < 0)
			verdict = 254;
		putchar(verdict);
	}
	free(bytes);
	return 0;
}
