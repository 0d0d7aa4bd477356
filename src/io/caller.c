/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"
#include "io/source.h"

#include <ckpt/model.h>

#include <errno.h>
#include <stdlib.h>

/* Bytes that the caller of the library reads. */

static int read_from_caller(void *ctx, uint64_t off, void *buf, size_t len, struct ckpt_error *err)
{
	const struct ckpt_reader_options *reader = ctx;
	int failure = len ? reader->read(reader->ctx, off, buf, len) : 0;

	if (!failure)
		return 0;
	errno = failure;
	return ckpt_fail_errno(err, "cannot read");
}

static void close_reader(void *ctx)
{
	struct ckpt_reader_options *reader = ctx;

	if (reader->close)
		reader->close(reader->ctx);
	free(reader);
}

int ckpt_source_from_caller(const struct ckpt_reader_options *given, struct ckpt_source **out,
			    struct ckpt_error *err)
{
	static const struct ckpt_source_maker random = { read_from_caller, close_reader, true },
					      sequential = { read_from_caller, close_reader,
							     false };
	struct ckpt_reader_options *reader = calloc(1, sizeof(*reader));
	int rc = reader ? 0 : ckpt_fail_nomem(err);

	*out = NULL;
	if (rc == 0) {
		*reader = (struct ckpt_reader_options)CKPT_READER_OPTIONS_INIT;
		rc = ckpt_sized_take(reader, sizeof(*reader), given, err);
	}
	if (rc == 0)
		rc = ckpt_unused_check(reader->reserved, sizeof(reader->reserved), err);
	if (rc == 0 && reader->nbytes && !reader->read)
		rc = ckpt_fail(err, CKPT_E_ARG, "a reader has a function that reads");
	if (rc < 0) {
		if (rc == CKPT_E_NOMEM && given && given->close)
			given->close(given->ctx);
		free(reader);
		return rc;
	}
	return ckpt_source_make(reader->random ? &random : &sequential, reader, NULL,
				reader->nbytes, out, err);
}
