/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must stay true: an error is 1024 bytes without pointers, so that it can be copied and
 * needs no memory when there is none; its strings are printable text, whatever names a file has,
 * as everything that goes in is escaped here; no text is read back to decide anything
 * (CKPT_SCRAMBLE_TEXTS shows where one is).
 */
#include "base/error.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof(struct ckpt_error) == 1024, "the size of ckpt_error is part of the ABI");

static void start_error(struct ckpt_error *err, int status, int sys_errno)
{
	memset(err, 0, sizeof(*err));
	err->status = status;
	err->sys_errno = sys_errno;
	err->offset = CKPT_NO_OFFSET;
}

#ifdef CKPT_SCRAMBLE_TEXTS
/*
 * ROT13, which undoes itself. In this build texts are scrambled until they are printed, and
 * tests fail where code decides by the wording of one.
 */
static void scramble(char *text)
{
	for (; *text; text++) {
		char small = (char)(*text | 0x20),
		     rotated = (char)(small + (small < 'n' ? 13 : -13));

		if (small >= 'a' && small <= 'z')
			*text = (char)(rotated ^ small ^ *text);
	}
}
#else
static void scramble(char *text)
{
	(void)text;
}
#endif

/* A message has strings from files in it. What was not escaped yet is escaped here. */
static void set_text(struct ckpt_error *err, const char *text)
{
	ckpt_escape_again(err->text, sizeof(err->text), text, strlen(text));
	scramble(err->text);
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
	start_error(err, status, 0);
	set_text(err, text);
	return status;
}

int ckpt_fail_errno(struct ckpt_error *err, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	int saved = errno, status = saved == ENOMEM ? CKPT_E_NOMEM : CKPT_E_IO;
	va_list ap;

	if (!err)
		return status;
	start_error(err, status, saved);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	set_text(err, text);
	ckpt_error_append(err, ": %s", ckpt_errno_text(saved));
	return status;
}

int ckpt_error_pass(struct ckpt_error *err, int rc, const struct ckpt_error *why)
{
	if (rc < 0 && err)
		*err = *why;
	return rc;
}

int ckpt_error_because(struct ckpt_error *err, int rc, enum ckpt_reason reason)
{
	if (rc < 0 && err)
		err->reason = reason;
	return rc;
}

int ckpt_error_prefix(struct ckpt_error *err, int rc, const char *fmt, ...)
{
	char text[2 * sizeof(err->text)];
	size_t len;
	va_list ap;

	if (rc >= 0 || !err || rc == CKPT_E_NOMEM || rc == CKPT_E_CANCELLED)
		return rc;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(err->text), fmt, ap);
	va_end(ap);
	len = strlen(text);
	scramble(err->text);
	memcpy(text + len, err->text, strlen(err->text) + 1);
	set_text(err, text);
	return rc;
}

void ckpt_error_append(struct ckpt_error *err, const char *fmt, ...)
{
	size_t len = err ? strlen(err->text) : 0;
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	vsnprintf(err->text + len, sizeof(err->text) - len, fmt, ap);
	va_end(ap);
	scramble(err->text + len);
}

const char *ckpt_error_text(const struct ckpt_error *err, char *buf, size_t size)
{
	snprintf(buf, size, "%s", err->text);
	scramble(buf);
	return buf;
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
	char where[32] = "", text[sizeof(err->text)];
	const char *record = err->record;

	ckpt_error_text(err, text, sizeof(text));

	if (err->offset != CKPT_NO_OFFSET)
		snprintf(where, sizeof(where), "+0x%" PRIx64, err->offset);
	snprintf(buf, size, "%s%s%s%s%s%s", err->path, err->path[0] ? ": " : "", record, where,
		 record[0] || where[0] ? ": " : "", text);
	return buf;
}
