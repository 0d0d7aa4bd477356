/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and strings that a pickle spells out as text (protocols 0 and 1), and integers of any
 * size, read as CPython's unpickler in C reads them; what it refuses fails here, too.
 *
 * What must stay true: the cost is bounded whatever the text says. Decimal digits are limited,
 * since the conversion is quadratic, and no string becomes longer than twice its text.
 */
#include "pickle/literal.h"

#include "base/ascii.h"
#include "base/double.h"
#include "base/text.h"

#include <math.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 4300 }; /* CPython's own limit for text to integer */

static int bad_literal(struct ckpt_error *err, const char *what, const char *text, uint64_t len)
{
	char shown[64];

	return ckpt_fail(err, CKPT_E_FORMAT, "'%s' is not %s",
			 ckpt_escape(shown, sizeof(shown), text, len), what);
}

int ckpt_literal_long(struct ckpt_arena *arena, const uint8_t *bytes, uint64_t len,
		      struct ckpt_value *v, struct ckpt_error *err)
{
	uint64_t bits = 0;
	uint8_t sign;

	while (len > 1) { /* drop bytes that only repeat the sign */
		uint8_t top = bytes[len - 1], next = bytes[len - 2];

		if (!((top == 0 && next < 0x80) || (top == 0xFF && next >= 0x80)))
			break;
		len--;
	}
	if (len > 8) {
		v->kind = CKPT_BIGINT;
		v->u.bytes.ptr = ckpt_arena_copy(arena, bytes, len);
		v->u.bytes.len = len;
		return v->u.bytes.ptr ? 0 : ckpt_arena_fail(arena, err);
	}
	sign = len && bytes[len - 1] >= 0x80 ? 0xFF : 0;
	for (unsigned i = 0; i < 8; i++)
		bits |= (uint64_t)(i < len ? bytes[i] : sign) << (8 * i);
	v->kind = CKPT_INT;
	v->u.integer = (int64_t)bits;
	return 0;
}

/* LIMBS = LIMBS * FACTOR + ADD; returns how many limbs are used. */
static unsigned multiply_add(uint32_t *limbs, unsigned used, uint32_t factor, uint32_t add)
{
	uint64_t carry = add;

	for (unsigned i = 0; i < used; i++) {
		carry += (uint64_t)limbs[i] * factor;
		limbs[i] = (uint32_t)carry;
		carry >>= 32;
	}
	if (carry)
		limbs[used++] = (uint32_t)carry;
	return used;
}

/* Decimal digits -> two's complement bytes. Quadratic, hence the limit on the digits. */
static int parse_bigint(struct ckpt_arena *arena, const char *digits, uint64_t count, bool negative,
			struct ckpt_value *v, struct ckpt_error *err)
{
	uint32_t limbs[MOST_DIGITS / 9 + 2] = { 0 };
	uint8_t bytes[sizeof(limbs) + 1];
	unsigned used = 1, len, carry = negative;

	while (count) {
		uint32_t chunk = 0, factor = 1;

		for (unsigned i = 0; i < 9 && count; i++, count--) {
			chunk = chunk * 10 + (uint32_t)(*digits++ - '0');
			factor *= 10;
		}
		used = multiply_add(limbs, used, factor, chunk);
	}
	len = 4 * used + 1; /* room for the sign */
	for (unsigned i = 0; i < len; i++) {
		uint8_t byte = i / 4 < used ? (uint8_t)(limbs[i / 4] >> (8 * (i % 4))) : 0;

		carry += (uint8_t)(negative ? ~byte : byte);
		bytes[i] = (uint8_t)carry;
		carry >>= 8;
	}
	return ckpt_literal_long(arena, bytes, len, v, err);
}

int ckpt_literal_int(struct ckpt_arena *arena, const char *text, uint64_t len, bool long_form,
		     struct ckpt_value *v, struct ckpt_error *err)
{
	const char *digits = text;
	uint64_t count = len;
	bool negative;

	if (!long_form && len == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1')) {
		v->kind = CKPT_BOOL;
		v->u.integer = text[1] == '1';
		return 0;
	}
	if (long_form && count && digits[count - 1] == 'L')
		count--;
	negative = count && digits[0] == '-';
	if (negative || (count && digits[0] == '+')) {
		digits++;
		count--;
	}
	if (!count || count > MOST_DIGITS)
		return bad_literal(err, "an integer", text, len);
	for (uint64_t i = 0; i < count; i++)
		if (!ckpt_is_digit((unsigned char)digits[i]))
			return bad_literal(err, "an integer", text, len);
	return parse_bigint(arena, digits, count, negative, v, err);
}

/*
 * What PyOS_string_to_double() takes, as CPython's unpickler in C does: no spaces, no hexadecimals,
 * and none that is too large.
 */
static bool is_float(const char *text, double value)
{
	const char *digits = text + (*text == '+' || *text == '-');

	if (!ckpt_strcasecmp(digits, "inf") || !ckpt_strcasecmp(digits, "infinity") ||
	    !ckpt_strcasecmp(digits, "nan"))
		return true;
	return !text[strspn(text, "0123456789.eE+-")] && isfinite(value);
}

int ckpt_literal_float(const char *text, uint64_t len, struct ckpt_value *v, struct ckpt_error *err)
{
	char copy[64], *end;

	if (!len || len >= sizeof(copy))
		return bad_literal(err, "a number", text, len);
	memcpy(copy, text, len);
	copy[len] = '\0';
	v->kind = CKPT_FLOAT;
	v->u.real = ckpt_double_parse(copy, &end);
	return end != copy + len || !is_float(copy, v->u.real)
		       ? bad_literal(err, "a number", text, len)
		       : 0;
}

static int hex_digits(const char *text, uint64_t len, unsigned count, uint32_t *out)
{
	*out = 0;
	if (len < count)
		return -1;
	for (unsigned i = 0; i < count; i++) {
		int c = ckpt_to_lower((unsigned char)text[i]);

		if (!ckpt_is_hex_digit(c))
			return -1;
		*out = *out << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return 0;
}

/* One backslash escape of a Python 2 str; returns the bytes of TEXT it took, 0 if it is broken. */
static uint64_t py2_escape(const char *text, uint64_t len, char *out)
{
	static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
	const char *hit;
	uint32_t v = 0;
	uint64_t n = 0;

	if (len < 2)
		return 0;
	hit = memchr(from, text[1], sizeof(from) - 1);
	if (hit) {
		*out = to[hit - from];
		return 2;
	}
	if (text[1] == 'x') {
		if (hex_digits(text + 2, len - 2, 2, &v) < 0)
			return 0;
		*out = (char)v;
		return 4;
	}
	while (n < 3 && 1 + n < len && text[1 + n] >= '0' && text[1 + n] <= '7')
		v = v * 8 + (uint32_t)(text[1 + n++] - '0');
	*out = (char)v;
	return n ? 1 + n : 0;
}

int ckpt_literal_py2_str(struct ckpt_arena *arena, const char *text, uint64_t len,
			 struct ckpt_value *v, struct ckpt_error *err)
{
	uint64_t used = 0, i = 1;
	char *out;

	if (len < 2 || (text[0] != '\'' && text[0] != '"') || text[len - 1] != text[0])
		return bad_literal(err, "a quoted string", text, len);
	out = ckpt_arena_alloc(arena, len);
	if (!out)
		return ckpt_arena_fail(arena, err);
	while (i < len - 1) {
		uint64_t took = 1;

		if (text[i] != '\\')
			out[used] = text[i];
		else
			took = py2_escape(text + i, len - 1 - i, &out[used]);
		if (!took) { /* Python keeps an unknown escape as it is */
			out[used] = text[i];
			took = 1;
		}
		used++;
		i += took;
	}
	v->kind = CKPT_PY2_STR;
	v->u.bytes.ptr = out;
	v->u.bytes.len = used;
	return 0;
}

int ckpt_literal_unicode(struct ckpt_arena *arena, const char *text, uint64_t len,
			 struct ckpt_value *v, struct ckpt_error *err)
{
	char *out = len < UINT64_MAX / 2 ? ckpt_arena_alloc(arena, 2 * len + 1) : NULL;
	uint64_t used = 0, i = 0;

	if (!out)
		return ckpt_arena_fail(arena, err);
	while (i < len) {
		uint32_t cp = (uint8_t)text[i];
		unsigned width = 0;

		if (cp == '\\' && i + 1 < len)
			width = text[i + 1] == 'u' ? 4 : text[i + 1] == 'U' ? 8 : 0;
		if (width &&
		    (hex_digits(text + i + 2, len - i - 2, width, &cp) < 0 || cp > 0x10FFFF))
			return bad_literal(err, "a unicode string", text, len);
		if (cp == '\\' && !width &&
		    i + 1 < len) { /* \\ is two characters, and escapes nothing */
			out[used++] = '\\';
			cp = (uint8_t)text[++i];
		}
		used += ckpt_utf8_put(cp, out + used);
		i += width ? 2 + width : 1;
	}
	v->kind = CKPT_STR;
	v->u.bytes.ptr = out;
	v->u.bytes.len = used;
	return 0;
}
