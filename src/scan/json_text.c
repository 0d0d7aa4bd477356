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

/* One character, which is not the last quote. */
static char read_character(struct ckpt_json_cursor *c)
{
	char next = (char)*c->at++;

	if (next != '\\' || c->at == c->end)
		return next;
	next = (char)*c->at++;
	return next == 'u' ? read_escaped(c) : next == 'n' || next == 't' || next == 'r' || next == 'b' || next == 'f' ? '?' : next;
}

size_t ckpt_json_read_text(struct ckpt_json_cursor *c, char out[CKPT_JSON_MOST_TEXT + 1])
{
	size_t len = 0;

	while (c->at < c->end && *c->at != '"') {
		char next = read_character(c);

		if (len < CKPT_JSON_MOST_TEXT)
			out[len] = next ? next : '?';
		len++;
	}
	c->at += c->at < c->end;
	out[len < CKPT_JSON_MOST_TEXT ? len : CKPT_JSON_MOST_TEXT] = '\0';
	return len;
}

size_t ckpt_json_read_whole(struct ckpt_json_cursor *c, char *out)
{
	size_t len = 0;

	while (c->at < c->end && *c->at != '"') {
		const uint8_t *at = c->at;
		bool is_ascii = c->end - at < 6 || at[0] != '\\' || at[1] != 'u' || (at[2] == '0' && at[3] == '0' && at[4] < '8');

		out[len++] = read_character(c);
		if (!is_ascii)
			out[len - 1] = (char)0x80;
	}
	c->at += c->at < c->end;
	return len;
}

bool ckpt_json_read_key(struct ckpt_json_cursor *c, const char *key)
{
	struct ckpt_json_cursor at = *c;

	while (*key && at.at < at.end && *at.at != '"')
		if (read_character(&at) != *key++)
			return false;
	if (*key || at.at == at.end || *at.at != '"')
		return false;
	c->at = at.at + 1;
	return true;
}

size_t ckpt_json_unescape(uint8_t *bytes, size_t len)
{
	struct ckpt_json_cursor c = { bytes, bytes + len };
	size_t n = 0;

	while (c.at < c.end)
		bytes[n++] = (uint8_t)read_character(&c);
	return n;
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
