/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a tar archive header by header; tar.h has the sources. What must stay true: it reads
 * what tarfile of Python reads, with which torch opens such files, and refuses the rest, so that
 * there is one way to read a file. Sizes are checked against the file before AT moves by them,
 * and every step moves it by a block at least, so that the walk ends.
 */
#include "format/tar.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields of a header: offset and length. */
enum {
	NAME = 0,
	NAME_LEN = 100,
	SIZE = 124,
	SIZE_LEN = 12,
	CHECKSUM = 148,
	CHECKSUM_LEN = 8,
	TYPE = 156,
	MAGIC = 257,
	PREFIX = 345,
};

/* Bytes of one extended header: those in a tar of torch have some 100. */
static const uint64_t MOST_EXTENDED = 1 << 20;

/* What the extended headers before a member's own say about it. */
struct extended {
	char name[CKPT_TAR_MOST_NAME + 1];
	bool has_name, has_size, is_sparse;
	uint64_t size;
};

bool ckpt_tar_probe(const uint8_t *head, size_t len)
{
	return len >= CKPT_TAR_BLOCK && !memcmp(head + MAGIC, "ustar", 5);
}

static int fail_at(struct ckpt_error *err, uint64_t off, const char *what)
{
	return ckpt_error_at(err, ckpt_fail(err, CKPT_E_FORMAT, "%s", what), NULL, NULL, off);
}

/* ---- numbers ---- */

/* Blanks, octal digits, blanks or zeros. */
static bool read_octal(const uint8_t *field, size_t len, uint64_t *out)
{
	size_t i = 0;

	*out = 0;
	while (i < len && field[i] == ' ')
		i++;
	for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
		*out = *out << 3 | (uint64_t)(field[i] - '0');
	while (i < len && (field[i] == ' ' || !field[i]))
		i++;
	return i == len;
}

/* GNU tar's form of numbers above 8 GiB: a byte 0x80, then the number in big-endian order. */
static bool read_base256(const uint8_t *field, size_t len, uint64_t *out)
{
	*out = 0;
	for (size_t i = 1; i < len; i++) {
		if (*out >> 55)
			return false;
		*out = *out << 8 | field[i];
	}
	return field[0] == 0x80;
}

static bool read_number(const uint8_t *field, size_t len, uint64_t *out)
{
	return field[0] & 0x80 ? read_base256(field, len, out) : read_octal(field, len, out);
}

/* The sum of all bytes, with blanks in its own field. Some old writers added signed bytes. */
static bool is_checksum_right(const uint8_t *header)
{
	uint64_t wanted;
	int64_t plain = 0, of_signed = 0;

	if (!read_number(header + CHECKSUM, CHECKSUM_LEN, &wanted))
		return false;
	for (size_t i = 0; i < CKPT_TAR_BLOCK; i++) {
		uint8_t c = i >= CHECKSUM && i < CHECKSUM + CHECKSUM_LEN ? ' ' : header[i];

		plain += c;
		of_signed += (int8_t)c;
	}
	return wanted == (uint64_t)plain || wanted == (uint64_t)of_signed;
}

/* ---- extended headers ---- */

static void set_name(struct extended *x, const char *name, size_t len)
{
	x->has_name = true;
	x->name[0] = '\0';
	if (len <= CKPT_TAR_MOST_NAME && !memchr(name, '\0', len))
		snprintf(x->name, sizeof(x->name), "%.*s", (int)len, name);
}

static bool read_decimal(const char *text, size_t len, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9' || *out > (INT64_MAX - 9) / 10)
			return false;
		*out = *out * 10 + (uint64_t)(text[i] - '0');
	}
	return len > 0;
}

/* One pair of a pax header. False: its value is damaged. */
static bool read_pax_pair(struct extended *x, const char *key, size_t key_len, const char *value,
			  size_t len)
{
	if (key_len == 4 && !memcmp(key, "path", 4))
		set_name(x, value, len);
	if (key_len >= 10 && !memcmp(key, "GNU.sparse", 10))
		x->is_sparse = true;
	if (key_len != 4 || memcmp(key, "size", 4) != 0)
		return true;
	x->has_size = true;
	return read_decimal(value, len, &x->size);
}

/* Records "LENGTH KEY=VALUE\n", LENGTH that of the record in decimal. */
static bool read_pax(struct extended *x, const char *text, size_t len)
{
	while (len && *text) {
		const char *blank = memchr(text, ' ', len < 20 ? len : 20), *equals, *end;
		uint64_t record;

		if (!blank || !read_decimal(text, (size_t)(blank - text), &record) ||
		    record > len || record < (uint64_t)(blank - text) + 3 ||
		    text[record - 1] != '\n')
			return false;
		end = text + record - 1;
		equals = memchr(blank + 1, '=', (size_t)(end - blank - 1));
		if (!equals || !read_pax_pair(x, blank + 1, (size_t)(equals - blank - 1),
					      equals + 1, (size_t)(end - equals - 1)))
			return false;
		len -= record;
		text += record;
	}
	return true;
}

/* The body of such a header, LEN bytes at OFF: of TYPE. */
static int read_extended(struct ckpt_tar *tar, struct extended *x, char type, uint64_t off,
			 uint64_t len, struct ckpt_error *err)
{
	char *text;
	int rc;

	if (len > MOST_EXTENDED)
		return fail_at(err, tar->at, "an extended header of more than 1 MiB");
	text = malloc((size_t)len + 1);
	if (!text)
		return ckpt_fail_nomem(err);
	rc = ckpt_source_read(tar->source, off, text, (size_t)len, err);
	text[len] = '\0';
	if (rc == 0 && type == 'L')
		set_name(x, text, strlen(text));
	else if (rc == 0 && type != 'K' && !read_pax(x, text, (size_t)len))
		rc = fail_at(err, tar->at, "a damaged extended header (pax)");
	free(text);
	if (rc == 0 && type == 'g' && (x->has_name || x->has_size || x->is_sparse))
		rc = fail_at(err, tar->at, "a global extended header (pax) with a name or a size");
	return rc;
}

/* ---- members ---- */

/* Links, devices, folders and pipes have no bytes, whatever their size says. */
static bool has_body(char type)
{
	return type < '1' || type > '6';
}

static bool is_extended(char type)
{
	return type && strchr("xgXLK", type);
}

/* The name and kind of the member with HEADER. */
static void set_member(const uint8_t *header, const struct extended *x, struct ckpt_tar_member *out)
{
	char type = (char)header[TYPE];

	out->is_file = (!type || type == '0' || type == '7') && !x->is_sparse;
	if (x->has_name)
		memcpy(out->name, x->name, sizeof(out->name));
	else if (!header[PREFIX]) /* with a prefix it has a folder, and is none of torch's */
		snprintf(out->name, sizeof(out->name), "%.*s", NAME_LEN,
			 (const char *)header + NAME);
	else
		out->name[0] = '\0';
}

/* Read and check the header at tar->at. 1: there is one; 0: this is the end. */
static int read_header(struct ckpt_tar *tar, uint8_t header[CKPT_TAR_BLOCK], uint64_t *size,
		       struct ckpt_error *err)
{
	static const uint8_t zeros[CKPT_TAR_BLOCK];
	uint64_t whole = ckpt_source_size(tar->source);
	size_t len;
	int rc;

	if (tar->at >= whole)
		return 0;
	len = whole - tar->at < CKPT_TAR_BLOCK ? (size_t)(whole - tar->at) : CKPT_TAR_BLOCK;
	rc = ckpt_source_read(tar->source, tar->at, header, len, err);
	if (rc < 0 || !memcmp(header, zeros, len))
		return rc; /* zeros are the end */
	if (len < CKPT_TAR_BLOCK)
		return fail_at(err, tar->at, "the tar archive is cut off in a header");
	if (!is_checksum_right(header))
		return fail_at(err, tar->at,
			       "the checksum of a header of the tar archive is wrong");
	if (!read_number(header + SIZE, SIZE_LEN, size))
		return fail_at(err, tar->at,
			       "the size in a header of the tar archive is not a number");
	return 1;
}

static int fail_cut(const struct ckpt_tar *tar, const char *name, uint64_t len,
		    struct ckpt_error *err)
{
	char shown[120];
	uint64_t there = ckpt_source_size(tar->source) - tar->at - CKPT_TAR_BLOCK;

	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_FORMAT,
				       "the tar archive is cut off: member '%s' has %" PRIu64
				       " bytes, %" PRIu64 " are there",
				       ckpt_escape(shown, sizeof(shown), name, strlen(name)), len,
				       there),
			     NULL, NULL, tar->at);
}

/*
 * Move past a header and LEN bytes, padded to a whole block; the padding may be missing at the
 * end.
 */
static void skip_member(struct ckpt_tar *tar, uint64_t len)
{
	tar->at += CKPT_TAR_BLOCK + (len + CKPT_TAR_BLOCK - 1) / CKPT_TAR_BLOCK * CKPT_TAR_BLOCK;
}

int ckpt_tar_next(struct ckpt_tar *tar, struct ckpt_tar_member *out, struct ckpt_error *err)
{
	uint8_t header[CKPT_TAR_BLOCK];
	struct extended x = { 0 };

	for (;;) {
		uint64_t size = 0;
		int rc = read_header(tar, header, &size, err);
		char type;

		if (rc <= 0)
			return rc;
		type = (char)header[TYPE];
		if (!has_body(type))
			size = 0;
		else if (!is_extended(type) && x.has_size)
			size = x.size;
		set_member(header, &x, out);
		if (size > ckpt_source_size(tar->source) - tar->at - CKPT_TAR_BLOCK)
			return fail_cut(tar, out->name, size, err);
		out->header = tar->at;
		out->off = tar->at + CKPT_TAR_BLOCK;
		out->len = size;
		if (is_extended(type)) {
			rc = read_extended(tar, &x, type, out->off, size, err);
			if (rc < 0)
				return rc;
		}
		skip_member(tar, size);
		if (!is_extended(type))
			return 1;
	}
}
