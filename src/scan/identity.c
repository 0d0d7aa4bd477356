/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls make that Python takes for the same: numbers of all kinds by their value, texts and
 * bytes by what is in them, tuples by their items, others as they are spelled. A number, be it int,
 * float, Decimal, Fraction or of numpy, is a fraction, and stands for what that is modulo a prime. It
 * is not the prime of Python's hashes: there are dicts of numbers that were chosen to share one.
 */
#include "base/ascii.h"
#include "base/double.h"
#include "base/text.h"
#include "scan/keys.h"

#include <math.h>
#include <string.h>

enum { MOST_SCALAR = 16, MOST_FLOAT_TEXT = 64, DIGITS_OF_DOUBLE = 53, SHOWN_OF_TIME = 9, PARTS_OF_SLICE = 3 };
static const uint64_t PRIME = (UINT64_C(1) << 62) - 57, INFINITE = UINT64_C(1) << 63;

/* What tells values of one kind from those of others that have the same in them. */
enum family { OF_BYTES = 1, OF_DATE, OF_ZONE, OF_SPAN, OF_PATH, OF_RANGE, OF_UUID, OF_DEVICE, AS_SPELLED };

static uint64_t in_family(enum family family, uint64_t number)
{
	return (number ^ number >> 29) * 0xD6E8FEB86659FD93 + (uint64_t)family * 0x9E3779B97F4A7C15;
}

static const struct ckpt_value *argument(const struct ckpt_value *v, uint32_t i)
{
	const struct ckpt_value *args = v->u.call->args;

	return args->kind == CKPT_TUPLE && i < args->u.seq.count ? args->u.seq.items[i] : &ckpt_value_none;
}

static bool is_text(const struct ckpt_value *v)
{
	return v->kind == CKPT_STR || v->kind == CKPT_PY2_STR;
}

static bool is_sequence(const struct ckpt_value *v)
{
	return v->kind == CKPT_LIST || v->kind == CKPT_TUPLE;
}

/* ---- bytes ---- */

/* One by one: of bytes, of a text that has one in each character, of a list of numbers. */
struct byte_reader {
	const char *at, *end;
	const struct ckpt_seq *list;
	uint32_t next;
	bool is_text;
};

/* False: they are not in the pickle as such. */
static bool open_bytes(struct ckpt_key *k, const struct ckpt_value *v, struct byte_reader *out)
{
	if (v->kind == CKPT_CALL) /* encode(text, 'latin1'), bytes(...) */
		v = argument(v, 0);
	*out = (struct byte_reader){ .is_text = v->kind == CKPT_STR };
	if (is_text(v) || v->kind == CKPT_BYTES) {
		out->at = v->u.bytes.ptr;
		out->end = out->at + v->u.bytes.len;
		k->bytes += v->u.bytes.len;
	} else if (is_sequence(v)) {
		out->list = &v->u.seq;
		k->bytes += v->u.seq.count;
	}
	return v->kind == CKPT_NONE || out->end || out->list;
}

static bool next_byte(struct byte_reader *r, uint8_t *out)
{
	if (r->list) {
		*out = r->next < r->list->count ? (uint8_t)r->list->items[r->next]->u.integer : 0;
		return r->next++ < r->list->count;
	}
	if (r->at == r->end)
		return false;
	*out = (uint8_t)*r->at++;
	if (r->is_text && (*out & 0xFC) == 0xC0 && r->at != r->end)
		*out = (uint8_t)(*out << 6 | (*r->at++ & 0x3F));
	return true;
}

static uint64_t number_of_bytes(struct byte_reader r)
{
	uint64_t number = CKPT_KEY_NO_BYTES;
	uint8_t byte;

	while (next_byte(&r, &byte))
		number = ckpt_key_with_byte(number, byte);
	return in_family(OF_BYTES, number);
}

uint64_t ckpt_key_of_bytes(const char *bytes, uint64_t len)
{
	return number_of_bytes((struct byte_reader){ .at = bytes, .end = bytes + len });
}

/* ---- numbers ---- */

static uint64_t multiplied(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b % PRIME);
}

static uint64_t power_of(uint64_t n, uint64_t exponent)
{
	uint64_t result = 1;

	for (; exponent; exponent >>= 1, n = multiplied(n, n))
		if (exponent & 1)
			result = multiplied(result, n);
	return result;
}

static uint64_t inverse_of(uint64_t n)
{
	return power_of(n, PRIME - 2);
}

static uint64_t with_sign(uint64_t rest, bool negative)
{
	return negative ? 0 - rest : rest;
}

static uint64_t number_of_int(int64_t n)
{
	return with_sign((n < 0 ? 0 - (uint64_t)n : (uint64_t)n) % PRIME, n < 0);
}

/* Two's complement, the last byte first. */
static uint64_t number_of_bigint(const uint8_t *bytes, uint64_t len)
{
	bool negative = len && bytes[len - 1] & 0x80;
	uint64_t rest = 0;

	for (uint64_t i = len; i-- > 0;)
		rest = (uint64_t)(((unsigned __int128)rest << 8 | (uint8_t)(negative ? ~bytes[i] : bytes[i])) % PRIME);
	return with_sign((rest + negative) % PRIME, negative);
}

static uint64_t number_of_float(double real)
{
	int exponent;
	uint64_t rest, power;

	if (isnan(real) || isinf(real))
		return real < 0 ? INFINITE + 1 : INFINITE;
	rest = (uint64_t)ldexp(frexp(fabs(real), &exponent), DIGITS_OF_DOUBLE);
	exponent -= DIGITS_OF_DOUBLE;
	power = power_of(2, (uint64_t)(exponent < 0 ? -exponent : exponent));
	return with_sign(multiplied(rest % PRIME, exponent < 0 ? inverse_of(power) : power), real < 0);
}

uint64_t ckpt_key_of_number(const struct ckpt_value *v)
{
	if (v->kind == CKPT_BIGINT)
		return number_of_bigint((const uint8_t *)v->u.bytes.ptr, v->u.bytes.len);
	return v->kind == CKPT_FLOAT ? number_of_float(v->u.real) : number_of_int(v->u.integer);
}

/* "-12", "0.5", "3/4", and "1E+2", which Decimal has. False: it is no such number. */
static bool number_of_digits(const struct ckpt_value *v, uint64_t *out)
{
	const char *text = v->u.bytes.ptr;
	uint64_t len = v->u.bytes.len, over = 0, under = 1, exponent = 0, at = 0, power, digits = 0;
	uint64_t *part = &over;
	bool negative = len && *text == '-', below = false, broken = false;

	for (at += negative || (len && *text == '+'); at < len && (text[at] | 0x20) != 'e'; at++) {
		if ((text[at] == '.' || text[at] == '/') && !broken) {
			broken = true;
			if (text[at] == '/') {
				under = 0;
				part = &under;
			}
		} else if (ckpt_is_digit((unsigned char)text[at])) {
			digits++;
			*part = (multiplied(*part, 10) + (uint64_t)(text[at] - '0')) % PRIME;
			if (broken && part == &over)
				under = multiplied(under, 10);
		} else {
			return false;
		}
	}
	if (at < len) {
		below = ++at < len && text[at] == '-';
		for (at += at < len && (text[at] == '-' || text[at] == '+'); at < len; at++) {
			if (!ckpt_is_digit((unsigned char)text[at]))
				return false;
			exponent = (exponent * 10 + (uint64_t)(text[at] - '0')) % (PRIME - 1);
		}
	}
	power = power_of(10, exponent);
	*out = with_sign(multiplied(multiplied(over, inverse_of(under)), below ? inverse_of(power) : power), negative);
	return digits && under;
}

/* Fraction(3, 4) */
static bool number_of_parts(const struct ckpt_value *over, const struct ckpt_value *under, uint64_t *out)
{
	uint64_t a, b;

	if (over->kind != CKPT_INT || under->kind != CKPT_INT)
		return false;
	a = number_of_int(over->u.integer);
	b = number_of_int(under->u.integer);
	a = over->u.integer < 0 ? 0 - a : a;
	b = under->u.integer < 0 ? 0 - b : b;
	*out = with_sign(multiplied(a, inverse_of(b)), a && (over->u.integer < 0) != (under->u.integer < 0));
	return b;
}

/* The double that is nearest to a text. */
static bool number_of_float_text(const struct ckpt_value *v, uint64_t *out)
{
	char text[MOST_FLOAT_TEXT];
	double real;

	if (v->u.bytes.len >= sizeof(text))
		return false;
	memcpy(text, v->u.bytes.ptr, v->u.bytes.len);
	text[v->u.bytes.len] = '\0';
	real = ckpt_double_parse(text, NULL);
	*out = number_of_float(real);
	return !isnan(real);
}

/* What a float or complex makes of a number: the double that is nearest. False: it is not looked for. */
static bool number_as_double(const struct ckpt_value *v, uint64_t *out)
{
	*out = number_of_float(v->kind == CKPT_FLOAT ? v->u.real : (double)v->u.integer);
	return v->kind == CKPT_FLOAT || v->kind == CKPT_INT || v->kind == CKPT_BOOL;
}

/* complex(a, b) */
static bool number_of_complex(const struct ckpt_value *real, const struct ckpt_value *imaginary, uint64_t *out)
{
	uint64_t parts[2] = { 0, 0 };
	bool known = (real->kind == CKPT_NONE || number_as_double(real, &parts[0])) && (imaginary->kind == CKPT_NONE || number_as_double(imaginary, &parts[1]));

	*out = parts[0] + 1000003 * parts[1];
	return known;
}

/* int(x), float(x), Decimal(x), Fraction(x) */
static bool number_of_call(struct ckpt_key *k, const struct ckpt_scan_rule *rule, const struct ckpt_value *v, uint64_t *out)
{
	const struct ckpt_value *first = argument(v, 0);
	bool is_float = !strcmp(rule->name, "float");

	if (argument(v, 1)->kind != CKPT_NONE)
		return number_of_parts(first, argument(v, 1), out);
	if (is_text(first)) {
		k->bytes += 16 * first->u.bytes.len;
		return is_float ? number_of_float_text(first, out) : number_of_digits(first, out);
	}
	if (is_float && first->kind == CKPT_FLOAT && isnan(first->u.real))
		return false; /* it is that itself, which equals itself alone */
	*out = 0; /* int() */
	if (is_float && first->kind != CKPT_NONE)
		return number_as_double(first, out);
	if (first->kind == CKPT_FLOAT)
		*out = number_of_float(trunc(first->u.real));
	else if (first->kind != CKPT_NONE && first->kind <= CKPT_FLOAT)
		*out = ckpt_key_of_number(first);
	return first->kind <= CKPT_FLOAT;
}

static bool is_true(const struct ckpt_value *v)
{
	if (v->kind == CKPT_FLOAT)
		return v->u.real != 0;
	return is_text(v) ? v->u.bytes.len > 0 : v->kind == CKPT_BIGINT || ((v->kind == CKPT_INT || v->kind == CKPT_BOOL) && v->u.integer);
}

/* ---- scalars of numpy ---- */

static double half_of(uint16_t bits)
{
	int exponent = bits >> 10 & 31;
	double rest = bits & 1023, all = exponent ? ldexp(1024 + rest, exponent - 25) : ldexp(rest, -24);

	if (exponent == 31)
		all = rest != 0 ? NAN : INFINITY;
	return bits & 0x8000 ? -all : all;
}

static double real_at(const uint8_t *at, uint64_t size)
{
	double wide;
	float narrow;
	uint16_t least;

	if (size == sizeof(wide)) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	if (size == sizeof(narrow)) {
		memcpy(&narrow, at, sizeof(narrow));
		return (double)narrow;
	}
	memcpy(&least, at, sizeof(least));
	return half_of(least);
}

/* Characters of four bytes each, as UTF-8 has them. Zeros at the end numpy leaves out. */
static uint64_t number_of_characters(struct byte_reader r)
{
	static const uint8_t first[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
	uint64_t number = CKPT_KEY_NO_BYTES, with_zeros = number;
	uint8_t b[4] = { 0 };

	while (next_byte(&r, &b[0]) && next_byte(&r, &b[1]) && next_byte(&r, &b[2]) && next_byte(&r, &b[3])) {
		uint32_t c = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16, bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

		with_zeros = ckpt_key_with_byte(with_zeros, (uint8_t)(first[bytes] | c >> 6 * (bytes - 1)));
		while (--bytes)
			with_zeros = ckpt_key_with_byte(with_zeros, (uint8_t)(0x80 | (c >> 6 * (bytes - 1) & 0x3F)));
		number = c ? with_zeros : number;
	}
	return number ^ number >> 29;
}

/* The same of bytes. */
static uint64_t number_of_padded(struct byte_reader r)
{
	uint64_t number = CKPT_KEY_NO_BYTES, with_zeros = number;
	uint8_t byte;

	while (next_byte(&r, &byte)) {
		with_zeros = ckpt_key_with_byte(with_zeros, byte);
		number = byte ? with_zeros : number;
	}
	return in_family(OF_BYTES, number);
}

static bool number_of_item(char letter, const uint8_t *bytes, uint64_t size, uint64_t *out)
{
	uint64_t integer = 0;
	double real;

	memcpy(&integer, bytes, sizeof(integer));
	switch (letter) {
	case 'i':
		if (size && size < sizeof(integer) && bytes[size - 1] & 0x80)
			integer |= UINT64_MAX << 8 * size;
		*out = number_of_int((int64_t)integer);
		return size <= sizeof(integer);
	case 'b': /* True, whatever the byte is but 0 */
		*out = integer != 0;
		return size <= sizeof(integer);
	case 'u':
		*out = integer % PRIME;
		return size <= sizeof(integer);
	case 'f':
		if (size != 2 && size != 4 && size != 8)
			return false;
		real = real_at(bytes, size);
		*out = number_of_float(real);
		return !isnan(real);
	case 'c':
		if (size != 8 && size != 16)
			return false;
		real = real_at(bytes, size / 2) + real_at(bytes + size / 2, size / 2);
		*out = number_of_float(real_at(bytes, size / 2)) + 1000003 * number_of_float(real_at(bytes + size / 2, size / 2));
		return !isnan(real);
	case 'm':
	case 'M': /* of one unit */
		*out = in_family(OF_SPAN, integer);
		return true;
	default: return false;
	}
}

/* A date or span of numpy: 1 s is 1000 ms, and a span of 1 is the number. STATE: of its dtype, with the unit in its last item. */
static void note_unit(struct ckpt_key *k, const struct ckpt_value *state)
{
	const struct ckpt_value *last = state && state->kind == CKPT_TUPLE && state->u.seq.count == 9 ? state->u.seq.items[8] : &ckpt_value_none;
	uint64_t unit = 1;

	if (last->kind == CKPT_TUPLE && last->u.seq.count == 2 && last->u.seq.items[1]->kind == CKPT_TUPLE)
		unit = ckpt_key_of_tuple(k, &last->u.seq.items[1]->u.seq, 0) | 1;
	k->is_unknown |= k->unit && k->unit != unit;
	k->unit = unit;
}

/* A number that is the same in 16 bits. */
static bool is_small(const struct ckpt_value *v)
{
	enum { MOST_INT_OF_HALF = 2048 };
	double real = v->kind == CKPT_FLOAT ? v->u.real : v->kind == CKPT_INT ? (double)v->u.integer : 0;

	return v->kind != CKPT_BIGINT && v->kind < CKPT_STR && fabs(real) <= MOST_INT_OF_HALF && real == floor(real);
}

static void note_real(struct ckpt_key *k, double real)
{
	k->numbers |= isinf(real) ? CKPT_KEY_NUMPY_INFINITE : fabs(real) >= 0x1p84 ? CKPT_KEY_NUMPY_HUGE : 0;
}

/* scalar(dtype, bytes), the lowest byte first */
static bool number_of_scalar(struct ckpt_key *k, const struct ckpt_value *v, uint64_t *out)
{
	const struct ckpt_value *dtype = argument(v, 0), *code = dtype->kind == CKPT_CALL ? argument(dtype, 0) : &ckpt_value_none;
	const struct ckpt_value *state = dtype->kind == CKPT_CALL ? dtype->u.call->state : NULL;
	struct byte_reader r, all;
	uint8_t bytes[MOST_SCALAR + 1] = { 0 };
	uint64_t size = 0;

	if (!is_text(code) || !code->u.bytes.len || !open_bytes(k, argument(v, 1), &r))
		return false;
	if (state && state->kind == CKPT_TUPLE && state->u.seq.count > 1 && ckpt_value_is_str(state->u.seq.items[1], ">"))
		return false;
	all = r;
	while (size < sizeof(bytes) && next_byte(&r, &bytes[size]))
		size++;
	switch (*code->u.bytes.ptr) {
	case 'U': *out = number_of_characters(all); return true;
	case 'S': *out = number_of_padded(all); return true;
	case 'm':
	case 'M': note_unit(k, state); break;
	case 'f':
		note_real(k, real_at(bytes, size));
		k->numbers |= size < sizeof(double) ? CKPT_KEY_NUMPY_SMALL : 0;
		break;
	case 'c':
		k->numbers |= size < 2 * sizeof(double) ? CKPT_KEY_NUMPY_SMALL : 0;
		note_real(k, real_at(bytes, size / 2));
		note_real(k, real_at(bytes + size / 2, size / 2));
		break;
	default: break;
	}
	return number_of_item(*code->u.bytes.ptr, bytes, size, out);
}

/* ---- others ---- */

/* "a/b" and ("a", "b"): what is between slashes, from the last part on that begins with one */
static bool number_of_path(struct ckpt_key *k, const struct ckpt_seq *parts, uint64_t *out)
{
	uint64_t number = CKPT_KEY_NO_BYTES;

	for (uint32_t i = 0; i < parts->count; i++) {
		const char *at, *end;

		if (!is_text(parts->items[i]) || !ckpt_scan_is_of_one_encoding(parts->items[i]))
			return false;
		at = parts->items[i]->u.bytes.ptr;
		end = at + parts->items[i]->u.bytes.len;
		k->bytes += parts->items[i]->u.bytes.len;
		if (at != end && *at == '/')
			number = ckpt_key_with_byte(CKPT_KEY_NO_BYTES, '/');
		while (at != end) {
			const char *slash = memchr(at, '/', (size_t)(end - at)), *stop = slash ? slash : end;

			if (stop != at && (stop != at + 1 || *at != '.')) {
				while (at != stop)
					number = ckpt_key_with_byte(number, (uint8_t)*at++);
				number = ckpt_key_with_byte(number, '/');
			}
			at = slash ? slash + 1 : end;
		}
	}
	*out = in_family(OF_PATH, number);
	return true;
}

/* 9:30 in one zone is 10:30 in another. */
static void note_zone(struct ckpt_key *k, uint64_t zone)
{
	k->is_unknown |= k->zone && k->zone != (zone | 1);
	k->zone = zone | 1;
}

/* A date or time as it is pickled. Of two that differ in the fold alone, a bit in the byte at FOLD, Python takes one. */
static uint64_t number_of_date(struct byte_reader r, unsigned fold)
{
	uint64_t number = CKPT_KEY_NO_BYTES;
	uint8_t byte;

	for (unsigned i = 0; next_byte(&r, &byte); i++)
		number = ckpt_key_with_byte(number, i == fold ? byte & 0x7F : byte);
	return in_family(OF_DATE, number + fold);
}

static bool are_ints(const struct ckpt_seq *args)
{
	for (uint32_t i = 0; i < args->count; i++)
		if (args->items[i]->kind != CKPT_INT)
			return false;
	return true;
}

/* range(end), range(start, end[, step]): by what is in it */
static bool number_of_range(const struct ckpt_seq *args, uint64_t *out)
{
	__int128 start = args->count > 1 ? args->items[0]->u.integer : 0, step = args->count > 2 ? args->items[2]->u.integer : 1;
	__int128 end = args->items[args->count > 1]->u.integer, count;

	if (!step)
		return false;
	count = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
	count = count < 0 ? 0 : count;
	*out = (uint64_t)count + (count > 0 ? 3 * in_family(AS_SPELLED, (uint64_t)start) : 0) + (count > 1 ? 5 * in_family(AS_SPELLED, (uint64_t)step) : 0);
	*out = in_family(OF_RANGE, *out);
	return true;
}

/* timedelta(days, seconds, microseconds) */
static uint64_t number_of_span(const struct ckpt_seq *args)
{
	static const uint64_t each[] = { UINT64_C(86400000000), 1000000, 1 };
	uint64_t all = 0;

	for (uint32_t i = 0; i < args->count && i < 3; i++)
		all += each[i] * (uint64_t)args->items[i]->u.integer;
	return in_family(OF_SPAN, all);
}

/* device("cuda:1"), which is pickled as device("cuda", 1). torch keeps the last 8 bits of an index, and of -1 that there is none. */
static bool number_of_device(const struct ckpt_seq *args, uint64_t *out)
{
	enum { NO_INDEX = -1, MOST_INDEX = INT8_MAX };
	uint64_t number = CKPT_KEY_NO_BYTES, i = 0;
	int64_t index = NO_INDEX;
	const struct ckpt_value *name;

	if (!args->count || !is_text(args->items[0]) || (args->count > 1 && args->items[1]->kind != CKPT_INT))
		return false;
	name = args->items[0];
	for (; i < name->u.bytes.len && name->u.bytes.ptr[i] != ':'; i++)
		number = ckpt_key_with_byte(number, (uint8_t)name->u.bytes.ptr[i]);
	if (i < name->u.bytes.len)
		index = 0;
	for (i++; i < name->u.bytes.len && index <= MOST_INDEX; i++)
		index = index * 10 + (name->u.bytes.ptr[i] - '0');
	if (args->count > 1)
		index = args->items[1]->u.integer;
	*out = in_family(OF_DEVICE, number + 3 * (uint64_t)index);
	return index >= NO_INDEX && index <= MOST_INDEX;
}

/* UUID() with the state {'int': number} */
static bool number_of_uuid(struct ckpt_key *k, const struct ckpt_value *state, unsigned depth, uint64_t *out)
{
	for (uint32_t i = 0; state && state->kind == CKPT_DICT && i + 1 < state->u.seq.count; i += 2)
		if (ckpt_value_is_str(state->u.seq.items[i], "int")) {
			*out = in_family(OF_UUID, ckpt_key_number(k, state->u.seq.items[i + 1], depth + 1));
			return true;
		}
	return false;
}

static uint64_t as_spelled(struct ckpt_key *k, const struct ckpt_scan_rule *rule, const struct ckpt_value *v, unsigned depth)
{
	uint64_t number = ckpt_key_of_text(rule->name, strlen(rule->name)) + 3 * ckpt_key_number(k, v->u.call->args, depth + 1);

	if (v->u.call->state)
		number += 7 * ckpt_key_number(k, v->u.call->state, depth + 1);
	return in_family(AS_SPELLED, number);
}

/*
 * A dtype of numpy has many spellings (`d`, `=f8`, no copy), of which numpy writes one: a letter and a size, as a copy that has the
 * byte order of this machine. With a unit it may be the same as with another.
 */
static bool is_dtype_as_written(const struct ckpt_value *v)
{
	const struct ckpt_value *code = argument(v, 0), *state = v->u.call->state, *order;

	if (!is_text(code) || code->u.bytes.len < 2 || !strchr("biufcSUV", *code->u.bytes.ptr) || !argument(v, 2)->u.integer || !state || state->kind != CKPT_TUPLE || state->u.seq.count < 2)
		return false;
	order = state->u.seq.items[1];
	return ckpt_value_is_str(order, "|") || ckpt_value_is_str(order, "<");
}

/* Functions that give items as they are, in a tuple or what equals one. */
static bool is_tuple(const struct ckpt_scan_rule *rule)
{
	return !strcmp(rule->module, "torch.return_types") || !strcmp(rule->name, "Size") || !strcmp(rule->name, "tuple");
}

/* Its arguments may be none that the row takes: that was said. */
bool ckpt_key_of_call(struct ckpt_key *k, const struct ckpt_scan_rule *rule, const struct ckpt_value *v, unsigned depth, uint64_t *number)
{
	static const char *const numbers[] = { "int", "long", "float", "Decimal", "Fraction", NULL };
	/* of several spellings, of which all but one are not known */
	static const char *const others[] = { "datetime", "date", "time", "timedelta", "dtype", "range", "xrange", "slice", "WindowsPath", "PureWindowsPath", NULL };
	const struct ckpt_seq *args = v->u.call->args->kind == CKPT_TUPLE ? &v->u.call->args->u.seq : &ckpt_value_empty_tuple.u.seq;
	const struct ckpt_value *first = argument(v, 0);
	struct ckpt_seq shown;
	const struct ckpt_seq *items = is_sequence(first) || first->kind == CKPT_SET || first->kind == CKPT_FROZENSET ? &first->u.seq : &ckpt_value_empty_tuple.u.seq;
	struct byte_reader r;

	*number = (uint64_t)(uintptr_t)v;
	if (ckpt_is_one_of(rule->name, numbers)) {
		k->is_unknown |= !number_of_call(k, rule, v, number);
		k->numbers |= CKPT_KEY_OVER | CKPT_KEY_HUGE; /* it may be */
	} else if (!strcmp(rule->name, "bool")) {
		*number = is_true(first);
	} else if (!strcmp(rule->name, "complex")) {
		k->is_unknown |= !number_of_complex(first, argument(v, 1), number);
		k->numbers |= CKPT_KEY_OVER | (is_small(first) && is_small(argument(v, 1)) ? 0 : CKPT_KEY_COMPLEX);
	} else if (!strcmp(rule->name, "scalar")) {
		k->is_unknown |= !number_of_scalar(k, v, number);
	} else if (!strcmp(rule->name, "encode") || !strcmp(rule->name, "bytes")) {
		k->is_unknown |= !open_bytes(k, v, &r);
		*number = number_of_bytes(r);
	} else if (!strcmp(rule->name, "str") || !strcmp(rule->name, "unicode")) {
		*number = is_text(first) ? ckpt_key_number(k, first, depth + 1) : ckpt_key_of_text("", 0);
	} else if (!strcmp(rule->name, "struct_time")) { /* others are not shown as items */
		shown = *items;
		shown.count = shown.count < SHOWN_OF_TIME ? shown.count : SHOWN_OF_TIME;
		*number = ckpt_key_of_tuple(k, &shown, depth + 1);
	} else if (is_tuple(rule)) {
		*number = ckpt_key_of_tuple(k, items, depth + 1);
	} else if (!strcmp(rule->name, "frozenset")) {
		*number = ckpt_key_of_set(k, items, depth + 1);
	} else if (!strcmp(rule->name, "PosixPath") || !strcmp(rule->name, "PurePosixPath")) {
		k->is_unknown |= !number_of_path(k, args, number);
	} else if ((!strcmp(rule->name, "datetime") || !strcmp(rule->name, "date") || !strcmp(rule->name, "time")) && first->kind != CKPT_INT && open_bytes(k, first, &r)) {
		*number = number_of_date(r, !strcmp(rule->name, "datetime") ? 2 : !strcmp(rule->name, "time") ? 0 : 9);
		if (argument(v, 1)->kind != CKPT_NONE)
			note_zone(k, ckpt_key_number(k, argument(v, 1), depth + 1));
	} else if (!strcmp(rule->name, "timedelta") && are_ints(args)) {
		*number = number_of_span(args);
	} else if (!strcmp(rule->name, "timezone")) {
		*number = in_family(OF_ZONE, ckpt_key_number(k, first, depth + 1));
	} else if (!strcmp(rule->name, "_get_layout") && is_text(first)) {
		*number = ckpt_key_of_constant(first->u.bytes.ptr, first->u.bytes.len);
	} else if (!strcmp(rule->name, "type")) {
		*number = first->kind == CKPT_NONE ? ckpt_key_of_constant("NoneType", strlen("NoneType")) : as_spelled(k, rule, v, depth);
		k->is_unknown |= first->kind == CKPT_GLOBAL && strcmp(first->u.global->name, "Ellipsis") != 0 && strcmp(first->u.global->name, "NotImplemented") != 0; /* of the constants of torch some are of one class */
	} else if (!strcmp(rule->name, "build_tensor_from_id")) { /* of TorchScript: gives an int as it is */
		*number = ckpt_key_number(k, first, depth + 1);
	} else if (!strcmp(rule->name, "device")) {
		k->is_unknown |= !number_of_device(args, number);
	} else if (!strcmp(rule->name, "UUID")) {
		k->is_unknown |= !number_of_uuid(k, v->u.call->state, depth, number);
	} else if ((!strcmp(rule->name, "range") || !strcmp(rule->name, "xrange")) && args->count && are_ints(args)) {
		k->is_unknown |= !number_of_range(args, number);
	} else if (ckpt_is_one_of(rule->name, others)) {
		*number = as_spelled(k, rule, v, depth);
		k->is_unknown |= !(!strcmp(rule->name, "dtype") && is_dtype_as_written(v)) && !(!strcmp(rule->name, "slice") && args->count == PARTS_OF_SLICE);
	} else {
		return false;
	}
	return true;
}
