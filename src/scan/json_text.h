/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_JSON_TEXT_H
#define CKPT_SCAN_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Texts in JSON, found without a parser, so that a broken file or a repeated key hides none.
 */
enum { CKPT_JSON_MOST_TEXT = 4096 };

struct ckpt_json_cursor {
	const uint8_t *at, *end;
};

/*
 * A text, behind its first quote, without its escapes: how long it is, of which OUT gets the first CKPT_JSON_MOST_TEXT, with
 * a NUL behind them. What is written as an escape and is no ASCII becomes '?'.
 */
size_t ckpt_json_read_text(struct ckpt_json_cursor *c, char out[CKPT_JSON_MOST_TEXT + 1]);

/*
 * The whole of such a text, for which OUT has room where it has room for all that is left. What is written as an escape and is
 * a control character becomes '?', and no ASCII 0x80.
 */
size_t ckpt_json_read_whole(struct ckpt_json_cursor *c, char *out);

/* Is the text behind the first quote KEY? It is not gone past if not. */
bool ckpt_json_read_key(struct ckpt_json_cursor *c, const char *key);

/* Take one layer of escapes off LEN bytes, as JSON in a text of JSON has them. Returns how many are left. */
size_t ckpt_json_unescape(uint8_t *bytes, size_t len);

/* BYTE, behind blanks. False: it is not there. */
bool ckpt_json_skip(struct ckpt_json_cursor *c, uint8_t byte);

#endif
