/* SPDX-License-Identifier: Apache-2.0 */
#include "archive.h"

#include "fuzz.h"

#include <libdeflate.h>

void fuzz_archive_add(struct fuzz_archive *a, const char *name, const void *bytes, size_t len)
{
	REQUIRE(a->count < FUZZ_MOST_RECORDS);
	a->records[a->count] = (struct ckpt_zip_record){ .name = name,
							 .size = len,
							 .crc32 = libdeflate_crc32(0, bytes, len) };
	a->bytes[a->count++] = bytes;
}

void fuzz_archive_write(const struct fuzz_archive *a, const char *archive_name,
			struct ckpt_buf *out)
{
	struct ckpt_zip_layout layout = { .archive_name = archive_name,
					  .alignment = CKPT_ZIP_ALIGNMENT,
					  .records = (struct ckpt_zip_record *)a->records,
					  .count = a->count };

	REQUIRE(ckpt_zip_layout_compute(&layout, NULL) == 0);
	for (uint32_t i = 0; i < a->count; i++) {
		ckpt_zip_put_local_header(&layout, i, out);
		ckpt_buf_add(out, a->bytes[i], a->records[i].size);
		ckpt_zip_put_descriptor(&layout, i, out);
	}
	for (uint32_t i = 0; i < a->count; i++)
		ckpt_zip_put_directory_entry(&layout, i, out);
	ckpt_zip_put_ends(&layout, out);
	REQUIRE(!out->bad && out->len == layout.file_size);
}
