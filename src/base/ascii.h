/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_ASCII_H
#define CKPT_BASE_ASCII_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Letters and digits of ASCII, whatever the locale of the program says is one. With <ctype.h> the
 * bytes of a UTF-8 name are letters in a Latin-1 locale, and 'I' and 'i' are two letters in a
 * Turkish one: a scan would have another verdict there.
 */

static inline bool ckpt_is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static inline bool ckpt_is_upper(int c)
{
	return c >= 'A' && c <= 'Z';
}

static inline bool ckpt_is_alpha(int c)
{
	return ckpt_is_upper(c) || (c >= 'a' && c <= 'z');
}

static inline bool ckpt_is_alnum(int c)
{
	return ckpt_is_alpha(c) || ckpt_is_digit(c);
}

static inline bool ckpt_is_hex_digit(int c)
{
	return ckpt_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static inline bool ckpt_is_space(int c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline bool ckpt_is_print(int c)
{
	return c >= ' ' && c <= '~';
}

static inline bool ckpt_is_punct(int c)
{
	return ckpt_is_print(c) && c != ' ' && !ckpt_is_alnum(c);
}

static inline int ckpt_to_lower(int c)
{
	return ckpt_is_upper(c) ? c + ('a' - 'A') : c;
}

static inline int ckpt_to_upper(int c)
{
	return ckpt_is_alpha(c) && !ckpt_is_upper(c) ? c - ('a' - 'A') : c;
}

/* Is TEXT plain ASCII? */
static inline bool ckpt_is_ascii(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x80)
			return false;
	return true;
}

/* As strncasecmp(). */
static inline int ckpt_strncasecmp(const char *a, const char *b, size_t len)
{
	for (; len; len--, a++, b++) {
		int diff = ckpt_to_lower((unsigned char)*a) - ckpt_to_lower((unsigned char)*b);

		if (diff || !*a)
			return diff;
	}
	return 0;
}

/* As strcasecmp(). */
static inline int ckpt_strcasecmp(const char *a, const char *b)
{
	return ckpt_strncasecmp(a, b, (size_t)-1);
}

/* Is WORD in TEXT, in letters of any size? */
static inline bool ckpt_has_word(const char *text, const char *word)
{
	size_t len = 0;

	while (word[len])
		len++;
	for (; *text; text++)
		if (!ckpt_strncasecmp(text, word, len))
			return true;
	return !len;
}

#endif
