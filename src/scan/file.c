/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is, by its bytes, and who looks into it. */
#include "scan/scanner.h"

#include "base/text.h"
#include "format/format.h"
#include "format/tar.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 8 };
static const uint64_t MOST_PICKLE = (uint64_t)2 << 30;

static bool starts_with(const uint8_t *head, size_t len, const char *what, size_t n)
{
	return len >= n && !memcmp(head, what, n);
}

static void set_format(struct ckpt_scanner *s, unsigned flags, const char *format)
{
	if (flags & CKPT_SCAN_TOP)
		s->file.format = format;
}

/* A pickle by itself, or several. */
static void scan_bare(struct ckpt_scanner *s, struct ckpt_source *source)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t size = ckpt_source_size(source);
	struct ckpt_scan_pickle p = { .len = (size_t)size };
	uint8_t *bytes;
	int rc;

	if (size > MOST_PICKLE) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET,
			       "a pickle of more than 2 GiB is not looked into");
		return;
	}
	bytes = malloc((size_t)size + 1);
	rc = bytes ? ckpt_source_read(source, 0, bytes, (size_t)size, &err) : CKPT_E_NOMEM;
	p.bytes = bytes;
	if (rc == 0)
		ckpt_scan_pickles(s, &p, 1);
	ckpt_scan_failed(s, rc, &err);
	free(bytes);
}

static bool is_text(const uint8_t *head, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (head[i] < ' ' && !strchr("\t\n\r\f", head[i]))
			return false;
	return len;
}

static bool is_legacy(const uint8_t *head, size_t len)
{
	static const uint8_t magic[] = {
		0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19
	};

	return memmem(head, len < 64 ? len : 64, magic, sizeof(magic)) ||
	       starts_with(head, len, "L119547037146038801333356L", 26);
}

/* What is not looked into, or holds nothing that runs. */
static bool scan_other(struct ckpt_scanner *s, struct ckpt_source *source, const uint8_t *head,
		       size_t len, unsigned flags)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	if (!(flags & CKPT_SCAN_TOP))
		return false;
	set_format(s, flags, is_text(head, len) ? "text" : "unknown");
	ckpt_fail_unknown_file(source, head, len, &err);
	ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET, "%s", err.text);
	return true;
}

bool ckpt_scan_source(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags)
{
	uint8_t head[CKPT_PROBE_BYTES];
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t size = ckpt_source_size(source);
	size_t len = size < sizeof(head) ? (size_t)size : sizeof(head);
	int rc = ckpt_source_read(source, 0, head, len, &err);

	if (rc < 0) {
		ckpt_scan_failed(s, rc, &err);
		return true;
	}
	if (s->depth > MOST_DEPTH) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET,
			       "files in files, more than %d deep", MOST_DEPTH);
		return true;
	}
	if (starts_with(head, len, "PK\x03\x04", 4)) {
		ckpt_scan_zip(s, source, flags);
	} else if (is_legacy(head, len)) {
		set_format(s, flags, "torch legacy stream");
		ckpt_scan_legacy(s, source, flags);
	} else if (ckpt_scan_looks_like_pickle(head, len)) {
		set_format(s, flags, "pickle");
		scan_bare(s, source);
	} else {
		return scan_other(s, source, head, len, flags);
	}
	return true;
}
