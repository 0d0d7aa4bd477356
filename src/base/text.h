/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_TEXT_H
#define CKPT_BASE_TEXT_H

#include <ckpt/text.h> /* ckpt_escape() */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ckpt_escape(), but backslashes stay: for text that has escaped parts. */
char *ckpt_escape_again(char *buf, size_t size, const char *text, size_t len);

/*
 * Length of the UTF-8 sequence that starts TEXT, 1 to 4, or 0 if it is broken. Surrogates count as
 * broken.
 */
size_t ckpt_utf8_len(const char *text, size_t len);

bool ckpt_utf8_ok(const char *text, size_t len);
/* The same, or halves of pairs (surrogates), as pickles have them: "surrogatepass" in Python. */
bool ckpt_utf8_or_surrogates_ok(const char *text, size_t len);

/* TEXT, of a pickle, as the name of a file that Python would open: the bytes that U+DC80 to U+DCFF stand for ("surrogateescape"). */
void ckpt_text_to_file_name(char *text);

/*
 * Write code point CP, at most 0x10FFFF, to OUT as UTF-8; returns its length, 1 to 4. Surrogates
 * become three bytes each, as with Python's "surrogatepass".
 */
size_t ckpt_utf8_put(uint32_t cp, char *out);

/* Is NAME one of NAMES, which end with NULL? */
bool ckpt_is_one_of(const char *name, const char *const *names);

/* Does TEXT end with END? */
static inline bool ckpt_ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

#endif
