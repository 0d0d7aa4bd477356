/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes names and texts from files printable. What must stay true: the result holds no control
 * character, no mark that reorders or hides text, and only whole UTF-8 sequences, so that a file
 * can forge neither the output of a command nor a terminal's state; it fits in the buffer with
 * its NUL, and "..." shows where it was cut.
 */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

size_t ckpt_utf8_len(const char *text, size_t len)
{
	const uint8_t *s = (const uint8_t *)text;
	uint32_t cp;
	size_t n;

	if (!len)
		return 0;
	if (s[0] < 0x80)
		return 1;
	n = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
	if (s[0] < 0xC2 || s[0] > 0xF4 || len < n)
		return 0;
	cp = s[0] & (0xFFu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xC0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3F);
	}
	if ((n == 3 && cp < 0x800) || (n == 4 && (cp < 0x10000 || cp > 0x10FFFF)) ||
	    (cp >= 0xD800 && cp <= 0xDFFF))
		return 0;
	return n;
}

bool ckpt_utf8_ok(const char *text, size_t len)
{
	while (len) {
		size_t n = ckpt_utf8_len(text, len);

		if (!n)
			return false;
		text += n;
		len -= n;
	}
	return true;
}

bool ckpt_utf8_or_surrogates_ok(const char *text, size_t len)
{
	const uint8_t *s = (const uint8_t *)text;

	while (len) {
		size_t n = ckpt_utf8_len((const char *)s, len);

		if (!n && len >= 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF && (s[2] & 0xC0) == 0x80)
			n = 3;
		if (!n)
			return false;
		s += n;
		len -= n;
	}
	return true;
}

void ckpt_text_to_file_name(char *text)
{
	char *to = text;

	for (const uint8_t *s = (const uint8_t *)text; *s; to++) {
		bool is_byte = s[0] == 0xED && (s[1] == 0xB2 || s[1] == 0xB3) && (s[2] & 0xC0) == 0x80;

		*to = (char)(is_byte ? s[2] + (s[1] == 0xB3 ? 0x40 : 0) : s[0]);
		s += is_byte ? 3 : 1;
	}
	*to = '\0';
}

size_t ckpt_utf8_put(uint32_t cp, char *out)
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xC0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3F));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xE0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
		out[2] = (char)(0x80 | (cp & 0x3F));
		return 3;
	}
	out[0] = (char)(0xF0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
	out[3] = (char)(0x80 | (cp & 0x3F));
	return 4;
}

bool ckpt_is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/* C1 controls, and marks that reorder or hide text. */
static bool is_unsafe(const char *text, size_t n)
{
	static const char *const marks[] = { "\u061C", "\u200B", "\u200C", "\u200D", "\u200E",
					     "\u200F", "\u2028", "\u2029", "\u202A", "\u202B",
					     "\u202C", "\u202D", "\u202E", "\u2066", "\u2067",
					     "\u2068", "\u2069", "\uFEFF" };

	if (n == 2 && (uint8_t)text[0] == 0xC2 && (uint8_t)text[1] < 0xA0)
		return true;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strlen(marks[i]) == n && !memcmp(marks[i], text, n))
			return true;
	return false;
}

/* How many bytes at the start of TEXT are ASCII that needs no escape. */
static size_t count_plain(const char *text, size_t len, bool backslash)
{
	size_t n = 0;

	while (n < len && text[n] >= 0x20 && text[n] < 0x7F && (text[n] != '\\' || !backslash))
		n++;
	return n;
}

/* One character of TEXT as printable text in OUT[17]; returns how many bytes of TEXT it took. */
static size_t escape_one(char *out, const char *text, size_t len, bool backslash)
{
	size_t n = ckpt_utf8_len(text, len);
	uint8_t c = (uint8_t)text[0];

	if (n == 1 && c >= 0x20 && c != 0x7F && (c != '\\' || !backslash)) {
		out[0] = (char)c;
		out[1] = '\0';
	} else if (n > 1 && !is_unsafe(text, n)) {
		memcpy(out, text, n);
		out[n] = '\0';
	} else if (c == '\n' || c == '\t' || c == '\r' || c == '\\') {
		snprintf(out, 17, "\\%c",
			 c == '\n'   ? 'n'
			 : c == '\t' ? 't'
			 : c == '\r' ? 'r'
				     : '\\');
	} else if (n > 1) {
		for (size_t i = 0; i < n; i++)
			snprintf(out + 4 * i, 5, "\\x%02x", (uint8_t)text[i]);
	} else {
		snprintf(out, 17, "\\x%02x", c);
		n = 1;
	}
	return n;
}

static char *escape(char *buf, size_t size, const char *text, size_t len, bool backslash)
{
	size_t used = 0, room_for_dots = 0;
	char one[17];

	if (!size)
		return buf;
	used = count_plain(text, len, backslash);
	if (used + 5 > size) /* near the end of BUF go character by character */
		used = size > 5 ? size - 5 : 0;
	memcpy(buf, text, used);
	room_for_dots = used;
	text += used;
	len -= used;
	while (len) {
		size_t took = escape_one(one, text, len, backslash), add = strlen(one);

		if (used + add + 4 <= size)
			room_for_dots = used + add;
		if (used + add + 1 > size) {
			if (size > 4)
				memcpy(buf + room_for_dots, "...", 4);
			else
				buf[used] = '\0';
			return buf;
		}
		memcpy(buf + used, one, add);
		used += add;
		text += took;
		len -= took;
	}
	buf[used] = '\0';
	return buf;
}

char *ckpt_escape(char *buf, size_t size, const char *text, size_t len)
{
	return escape(buf, size, text, len, true);
}

char *ckpt_escape_again(char *buf, size_t size, const char *text, size_t len)
{
	return escape(buf, size, text, len, false);
}
