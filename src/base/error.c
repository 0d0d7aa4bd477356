/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof(struct ckpt_error) == 1024, "the size of ckpt_error is part of the ABI");

static void start(struct ckpt_error *err, int status, int sys_errno)
{
	memset(err, 0, sizeof(*err));
	err->status = status;
	err->sys_errno = sys_errno;
	err->offset = CKPT_NO_OFFSET;
}

int ckpt_fail(struct ckpt_error *err, int status, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list ap;

	if (!err)
		return status;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	start(err, status, 0);
	/* a message is made of strings from files: whatever was not escaped is escaped here */
	ckpt_escape_again(err->text, sizeof(err->text), text, strlen(text));
	return status;
}

int ckpt_fail_errno(struct ckpt_error *err, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	int saved = errno;
	size_t len;
	va_list ap;

	if (!err)
		return CKPT_E_IO;
	start(err, CKPT_E_IO, saved);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ckpt_escape_again(err->text, sizeof(err->text), text, strlen(text));
	len = strlen(err->text);
	snprintf(err->text + len, sizeof(err->text) - len, ": %s", strerror(saved));
	return CKPT_E_IO;
}

int ckpt_fail_nomem(struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_NOMEM, "out of memory");
}

int ckpt_error_at(struct ckpt_error *err, int rc, const char *path, const char *record,
		  uint64_t offset)
{
	if (rc >= 0 || !err)
		return rc;
	if (path && !err->path[0])
		ckpt_escape_again(err->path, sizeof(err->path), path, strlen(path));
	if (record && !err->record[0])
		ckpt_escape_again(err->record, sizeof(err->record), record, strlen(record));
	if (offset != CKPT_NO_OFFSET && err->offset == CKPT_NO_OFFSET)
		err->offset = offset;
	return rc;
}

char *ckpt_error_format(const struct ckpt_error *err, char *buf, size_t size)
{
	char where[32] = "";
	const char *record = err->record;

	if (err->offset != CKPT_NO_OFFSET)
		snprintf(where, sizeof(where), "+0x%" PRIx64, err->offset);
	snprintf(buf, size, "%s%s%s%s%s%s", err->path, err->path[0] ? ": " : "", record, where,
		 record[0] || where[0] ? ": " : "", err->text);
	return buf;
}
