/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local headers, descriptors and marks of an archive, each read on its own and without the
 * directory.
 *
 * What must stay true: nothing here relies on anything else in the file, since any part of it may
 * be damaged. What cannot be read counts as absent, not as an error. No sum of offsets and sizes
 * may overflow, and CSIZE of a caller may be any number.
 */
#include "zipfmt/salvage.h"

#include "base/reader.h"

#include <stdlib.h>
#include <string.h>

enum {
	LOCAL_BYTES = 30,
	DESCRIPTOR = 16,
	DESCRIPTOR64 = 24,
	WITH_CRC = 8, /* bytes of a descriptor that include its mark and checksum */
	FLAG_DESCRIPTOR = 1 << 3,
};
enum { FIRST_WINDOW = 4 << 10, WINDOW = 1 << 20 };
static const uint32_t Z32 = 0xFFFFFFFF;

static bool read_at(const struct ckpt_source *source, uint64_t off, void *buf, size_t len)
{
	uint64_t size = ckpt_source_size(source);

	return off <= size && len <= size - off &&
	       ckpt_source_read(source, off, buf, len, NULL) == 0;
}

/* Sizes that do not fit in the header itself. */
static void read_sizes64(const struct ckpt_source *source, uint16_t extra_len,
			 struct ckpt_zip_local *l)
{
	uint8_t bytes[64];
	size_t len = extra_len < sizeof(bytes) ? extra_len : sizeof(bytes);
	uint64_t none = 0; /* the offset of the header is known */

	if ((l->csize == Z32 || l->usize == Z32) &&
	    read_at(source, l->data_off - extra_len, bytes, len))
		ckpt_zip_read_zip64(bytes, len, &l->usize, &l->csize, &none);
}

bool ckpt_zip_read_local(const struct ckpt_source *source, uint64_t off, struct ckpt_zip_local *l)
{
	uint8_t bytes[LOCAL_BYTES];
	struct ckpt_reader r = { bytes, LOCAL_BYTES, 0, false };
	uint16_t extra_len;

	if (!read_at(source, off, bytes, sizeof(bytes)) || ckpt_read_u32(&r) != CKPT_ZIP_MARK_LOCAL)
		return false;
	ckpt_read_u16(&r);
	l->flags = ckpt_read_u16(&r);
	l->method = ckpt_read_u16(&r);
	ckpt_read_u32(&r);
	l->crc32 = ckpt_read_u32(&r);
	l->csize = ckpt_read_u32(&r);
	l->usize = ckpt_read_u32(&r);
	l->name_len = ckpt_read_u16(&r);
	extra_len = ckpt_read_u16(&r);
	if (!l->name_len || l->name_len > CKPT_ZIP_MOST_NAME ||
	    !read_at(source, off + LOCAL_BYTES, l->name, l->name_len) ||
	    memchr(l->name, '\0', l->name_len))
		return false;
	l->name[l->name_len] = '\0';
	l->header_off = off;
	l->data_off = off + LOCAL_BYTES + l->name_len + extra_len;
	l->says_size = !(l->flags & FLAG_DESCRIPTOR);
	read_sizes64(source, extra_len, l);
	return true;
}

static bool is_blank(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i])
			return false;
	return true;
}

/* Is it a descriptor of LEN bytes for a record of CSIZE bytes? */
static bool parse_descriptor(const uint8_t *bytes, uint32_t len, uint64_t csize,
			     struct ckpt_zip_descriptor *out)
{
	struct ckpt_reader r = { bytes, len, 0, false };
	uint32_t mark = ckpt_read_u32(&r);
	uint64_t size;

	out->crc32 = ckpt_read_u32(&r);
	size = len == DESCRIPTOR ? ckpt_read_u32(&r) : ckpt_read_u64(&r);
	out->usize = len == DESCRIPTOR ? ckpt_read_u32(&r) : ckpt_read_u64(&r);
	out->len = len;
	return mark == CKPT_ZIP_MARK_DESCRIPTOR && size == csize && out->usize;
}

enum ckpt_zip_found ckpt_zip_read_descriptor(const struct ckpt_source *source, uint64_t data_off,
					     uint64_t csize, bool big,
					     struct ckpt_zip_descriptor *out)
{
	uint64_t size = ckpt_source_size(source), at, there;
	uint8_t bytes[DESCRIPTOR64] = { 0 };

	if (__builtin_add_overflow(data_off, csize, &at) || at > size)
		return CKPT_ZIP_CUT_OFF;
	there = size - at < sizeof(bytes) ? size - at : sizeof(bytes);
	if (!read_at(source, at, bytes, (size_t)there))
		return CKPT_ZIP_WRONG;
	/* a short one never passes for a long one, in which one of the sizes would be 0 */
	if (there >= DESCRIPTOR64 && parse_descriptor(bytes, DESCRIPTOR64, csize, out))
		return CKPT_ZIP_THERE;
	if (parse_descriptor(bytes, DESCRIPTOR, csize, out) && there >= DESCRIPTOR)
		return CKPT_ZIP_THERE;
	if (big && there >= DESCRIPTOR64)
		parse_descriptor(bytes, DESCRIPTOR64, csize, out);
	if (there < (big ? DESCRIPTOR64 : DESCRIPTOR)) {
		out->len = there >= WITH_CRC ? (uint32_t)there : 0;
		return CKPT_ZIP_CUT_OFF;
	}
	return is_blank(bytes, out->len) ? CKPT_ZIP_BLANK : CKPT_ZIP_WRONG;
}

static int scan_window(const uint8_t *bytes, size_t len, uint64_t off,
		       int (*visit)(void *ctx, uint32_t mark, uint64_t at), void *ctx, uint64_t *at)
{
	const uint8_t *end = bytes + len, *p = bytes;
	int rc = 0;

	while (rc == 0 && end - p >= 4 && (p = memchr(p, 'P', (size_t)(end - p) - 3))) {
		*at = off + (uint64_t)(p - bytes);
		if (p[1] == 'K')
			rc = visit(ctx, ckpt_get_u32(p), *at);
		p++;
	}
	return rc;
}

int ckpt_zip_scan(const struct ckpt_source *source, uint64_t from,
		  int (*visit)(void *ctx, uint32_t mark, uint64_t at), void *ctx, uint64_t *at)
{
	uint64_t size = ckpt_source_size(source);
	size_t window = FIRST_WINDOW; /* the mark that VISIT wants is nearly always close */
	uint8_t *bytes = malloc(window);
	int rc = bytes ? 0 : CKPT_E_NOMEM;

	for (uint64_t off = from; rc == 0 && off < size && size - off >= 4;) {
		size_t len = size - off < window ? (size_t)(size - off) : window;

		rc = visit(ctx, 0, off);
		if (rc == 0 && read_at(source, off, bytes, len))
			rc = scan_window(bytes, len, off, visit, ctx, at);
		off += len - 3; /* windows overlap by one byte less than a mark has */
		if (rc == 0 && window < WINDOW) {
			free(bytes);
			window *= 4;
			bytes = malloc(window);
			rc = bytes ? 0 : CKPT_E_NOMEM;
		}
	}
	free(bytes);
	return rc;
}
