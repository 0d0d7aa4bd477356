/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How steps of paths are written, and the one form that is read: a list of texts and integers in
 * JSON, as torch_checkpointing has it (path.h describes all forms).
 *
 * JSON is read by hand, and not with jansson, because Python's json.dumps() writes a lone surrogate
 * as \uD800, which jansson refuses and a key may have. A surrogate becomes three bytes, as it is in
 * a decoded pickle (surrogatepass). Decoded text is never longer than its JSON, so one buffer of
 * that length has room for all steps.
 */
#include "model/path.h"

#include "base/text.h"
#include "model/repr.h"

#include <string.h>

/* ---- writing ---- */

/*
 * Names are C strings: a zero byte in a key is shown as its symbol, or "a\0b" would be taken for
 * "a".
 */
void ckpt_path_add_key(struct ckpt_buf *out, const struct ckpt_value *key)
{
	static const char symbol[] = "\u2400";
	const char *text = key->u.bytes.ptr, *nul;
	uint64_t len = key->u.bytes.len;

	if (!ckpt_value_is_text(key)) {
		ckpt_value_repr(key, out);
		return;
	}
	while (len && (nul = memchr(text, 0, len))) {
		ckpt_buf_add(out, text, (size_t)(nul - text));
		ckpt_buf_add(out, symbol, strlen(symbol));
		len -= (uint64_t)(nul + 1 - text);
		text = nul + 1;
	}
	ckpt_buf_add(out, text, len);
}

void ckpt_path_add_raw_key(struct ckpt_buf *out, const struct ckpt_value *key)
{
	if (ckpt_value_is_text(key))
		ckpt_buf_add(out, key->u.bytes.ptr, key->u.bytes.len);
	else
		ckpt_value_repr(key, out);
}

/* Long lists have very many positions: no printf. */
void ckpt_path_add_position(struct ckpt_buf *out, uint32_t position)
{
	char digits[10];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + position % 10);
		position /= 10;
	} while (position);
	ckpt_buf_add(out, digits + n, sizeof(digits) - n);
}

void ckpt_path_add_exact_key(struct ckpt_buf *out, const struct ckpt_value *key)
{
	char one[24];

	if (!ckpt_value_is_text(key)) {
		ckpt_value_repr(key, out);
		return;
	}
	ckpt_buf_add_u8(out, '"');
	for (uint64_t i = 0; i < key->u.bytes.len;) {
		const char *at = key->u.bytes.ptr + i;
		size_t n = ckpt_utf8_len(at, key->u.bytes.len - i);

		if (*at == '"')
			ckpt_buf_add_u8(out, '\\');
		ckpt_escape(one, sizeof(one), at, n ? n : 1);
		ckpt_buf_add(out, one, strlen(one));
		i += n ? n : 1;
	}
	ckpt_buf_add_u8(out, '"');
}

/* ---- reading JSON ---- */

enum { MOST_STEPS = 1000, SHOWN = 120, SURROGATES = 0xD800, LOW_SURROGATES = 0xDC00 };

struct json {
	const char *at, *end;
	char *text; /* where the next one goes; there is room for all: none grows when it is read */
};

static bool next_is(struct json *j, char c)
{
	while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n'))
		j->at++;
	if (j->at == j->end || *j->at != c)
		return false;
	j->at++;
	return true;
}

static bool read_hex(struct json *j, uint32_t *out)
{
	*out = 0;
	if (j->end - j->at < 4)
		return false;
	for (int i = 0; i < 4; i++, j->at++) {
		char c = *j->at;

		if (c >= '0' && c <= '9')
			*out = *out << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			*out = *out << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return false;
	}
	return true;
}

/* What follows "\u": one character, or the first half of one, whose other half follows likewise. */
static bool read_unicode(struct json *j, uint32_t *c)
{
	struct json ahead;
	uint32_t low;

	if (!read_hex(j, c))
		return false;
	ahead = *j;
	if (*c < SURROGATES || *c >= LOW_SURROGATES || ahead.end - ahead.at < 6 ||
	    ahead.at[0] != '\\' || ahead.at[1] != 'u')
		return true;
	ahead.at += 2;
	if (!read_hex(&ahead, &low) || low < LOW_SURROGATES || low > 0xDFFF)
		return true;
	*c = 0x10000 + ((*c - SURROGATES) << 10) + (low - LOW_SURROGATES);
	*j = ahead;
	return true;
}

static bool read_escape(struct json *j, uint32_t *c)
{
	static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
	const char *found;

	if (j->at == j->end || !*j->at)
		return false;
	if (*j->at == 'u') {
		j->at++;
		return read_unicode(j, c);
	}
	found = strchr(names, *j->at++);
	*c = found ? (uint8_t)meanings[found - names] : 0;
	return found;
}

/* Behind the first quote. */
static bool read_text(struct json *j, struct ckpt_path_step *step)
{
	step->key = j->text;
	while (j->at < j->end && *j->at != '"') {
		uint32_t c;

		if (*j->at != '\\') {
			*j->text++ = *j->at++;
			continue;
		}
		j->at++;
		if (!read_escape(j, &c))
			return false;
		j->text += ckpt_utf8_put(c, j->text);
	}
	step->len = (size_t)(j->text - step->key);
	return next_is(j, '"');
}

static bool read_number(struct json *j, struct ckpt_path_step *step)
{
	bool minus = next_is(j, '-');
	const char *first = j->at;
	int64_t n = 0;

	for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *j->at - '0', &n))
			return false;
	step->number = minus ? -n : n;
	return j->at > first;
}

static bool read_list(struct json *j, struct ckpt_path_step *steps, uint32_t *count)
{
	if (!next_is(j, '['))
		return false;
	if (next_is(j, ']'))
		return j->at == j->end;
	do {
		struct ckpt_path_step *step = &steps[*count];

		*step = (struct ckpt_path_step){ 0 };
		if (++*count > MOST_STEPS)
			return false;
		if (!(next_is(j, '"') ? read_text(j, step) : read_number(j, step)))
			return false;
	} while (next_is(j, ','));
	return next_is(j, ']') && j->at == j->end;
}

int ckpt_path_parse_json(const struct ckpt_value *text, struct ckpt_arena *arena,
		       const struct ckpt_path_step **out, uint32_t *count, struct ckpt_error *err)
{
	struct json j = { text->u.bytes.ptr, text->u.bytes.ptr + text->u.bytes.len,
			  ckpt_arena_alloc(arena, text->u.bytes.len + 1) };
	struct ckpt_path_step *steps;
	uint64_t most = 1;
	char shown[SHOWN];

	*count = 0;
	for (const char *at = j.at; at < j.end && most <= MOST_STEPS; at++)
		most += *at == ',';
	steps = ckpt_arena_alloc(arena, (most + 1) * sizeof(*steps));
	if (!steps || !j.text)
		return ckpt_arena_fail(arena, err);
	*out = steps;
	if (read_list(&j, steps, count))
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "the path '%s' is not a list of strings and integers in JSON",
			 ckpt_escape(shown, sizeof(shown), text->u.bytes.ptr, text->u.bytes.len));
}
