/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_FUZZ_ARCHIVE_H
#define CKPT_TESTS_FUZZ_ARCHIVE_H

#include "base/buf.h"
#include "zipfmt/layout.h"

/* A sound zip archive around what a fuzzer made up, so that it need not find out about zip files. */
enum { FUZZ_MOST_RECORDS = 32 };

struct fuzz_archive {
	struct ckpt_zip_record records[FUZZ_MOST_RECORDS];
	const void *bytes[FUZZ_MOST_RECORDS];
	uint32_t count;
};

/* NAME and BYTES are borrowed until the archive is written. */
void fuzz_archive_add(struct fuzz_archive *a, const char *name, const void *bytes, size_t len);
void fuzz_archive_write(const struct fuzz_archive *a, const char *archive_name,
			struct ckpt_buf *out);

#endif
