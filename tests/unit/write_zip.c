/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_zip FILE ALIGNMENT (SIZE | SIZExCOUNT)...: an archive with records data/0, data/1 ... of these
 * sizes. Records of up to 1 MiB are full of 'x', larger ones are holes. For judge_zip.py.
 */
#include "unit.h"

#include "zipfmt/layout.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };
static uint8_t zeros[BLOCK], exes[BLOCK];

static uint32_t crc_of(uint64_t size)
{
	uint32_t crc = 0;

	if (size <= BLOCK)
		return libdeflate_crc32(0, exes, size);
	for (; size; size -= size < BLOCK ? size : BLOCK)
		crc = libdeflate_crc32(crc, zeros, size < BLOCK ? size : BLOCK);
	return crc;
}

static void write_at(int fd, uint64_t off, const void *bytes, size_t len)
{
	if (pwrite(fd, bytes, len, (off_t)off) != (ssize_t)len) {
		perror("write_zip");
		exit(1);
	}
}

static void add_records(struct ckpt_zip_layout *layout, const char *text)
{
	uint64_t size = 0, count = 1;
	char *name;

	sscanf(text, "%" SCNu64 "x%" SCNu64, &size, &count);
	layout->records = realloc(layout->records, (layout->count + count) * sizeof(*layout->records));
	for (; count; count--) {
		if (asprintf(&name, "data/%u", layout->count) < 0)
			exit(1);
		layout->records[layout->count++] =
			(struct ckpt_zip_record){ .name = name, .size = size, .crc32 = crc_of(size) };
	}
}

UNIT_SUITE(write_zip)
{
	struct ckpt_zip_layout layout = { .archive_name = "archive" };
	struct ckpt_buf out = { 0 };
	int fd = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0666);

	if (argc < 3 || fd < 0)
		return 1;
	memset(exes, 'x', sizeof(exes));
	layout.alignment = (uint32_t)strtoul(argv[2], NULL, 10);
	for (int i = 3; i < argc; i++)
		add_records(&layout, argv[i]);
	if (ckpt_zip_layout_compute(&layout, NULL) < 0)
		return 1;
	for (uint32_t i = 0; i < layout.count; i++) {
		const struct ckpt_zip_record *r = &layout.records[i];

		out.len = 0;
		ckpt_zip_put_local_header(&layout, i, &out);
		write_at(fd, r->header_off, out.data, out.len);
		if (r->size <= BLOCK)
			write_at(fd, r->data_off, exes, r->size);
		out.len = 0;
		ckpt_zip_put_descriptor(&layout, i, &out);
		write_at(fd, r->data_off + r->size, out.data ? out.data : zeros, out.len);
	}
	out.len = 0;
	for (uint32_t i = 0; i < layout.count; i++) {
		ckpt_zip_put_directory_entry(&layout, i, &out);
		free((char *)layout.records[i].name);
	}
	ckpt_zip_put_ends(&layout, &out);
	write_at(fd, layout.directory_off, out.data, out.len);
	ckpt_buf_clear(&out);
	free(layout.records);
	return close(fd) < 0;
}
