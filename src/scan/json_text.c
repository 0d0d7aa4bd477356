/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/json_text.h"

static int hex(uint8_t c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Behind "\u": what is no ASCII becomes '?', which no formula has. */
static char read_escaped(struct ckpt_json_cursor *c)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		int digit = c->at < c->end ? hex(*c->at) : -1;

		if (digit < 0)
			return '?';
		v = v << 4 | digit;
		c->at++;
	}
	return v && v < 0x80 ? (char)v : '?';
}

size_t ckpt_json_read_text(struct ckpt_json_cursor *c, char out[CKPT_JSON_MOST_TEXT + 1])
{
	size_t len = 0;

	while (c->at < c->end && *c->at != '"') {
		char next = (char)*c->at++;

		if (next == '\\' && c->at < c->end) {
			next = (char)*c->at++;
			next = next == 'u' ? read_escaped(c) : next == 'n' || next == 't' || next == 'r' || next == 'b' || next == 'f' ? '?' : next;
		}
		if (len < CKPT_JSON_MOST_TEXT)
			out[len] = next ? next : '?';
		len++;
	}
	c->at += c->at < c->end;
	out[len < CKPT_JSON_MOST_TEXT ? len : CKPT_JSON_MOST_TEXT] = '\0';
	return len;
}

static void skip_blanks(struct ckpt_json_cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
		c->at++;
}

bool ckpt_json_skip(struct ckpt_json_cursor *c, uint8_t byte)
{
	skip_blanks(c);
	if (c->at == c->end || *c->at != byte)
		return false;
	c->at++;
	return true;
}
