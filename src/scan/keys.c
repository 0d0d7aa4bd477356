/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of dicts and items of sets. Python hashes each of them as it is put in: into tuples in
 * tuples, however often the same one is in there, and without a limit to how deep. Who chooses
 * numbers of one hash makes a dict of which each new one is held against all before it. Hashes of
 * texts and bytes nobody can choose, since each process has a secret of its own. Source: CPython
 * 3.8 to 3.14, Objects/longobject.c, Objects/tupleobject.c (long_hash, tuple_hash), Python/pyhash.c
 * (_Py_HashDouble).
 */
#include "base/ascii.h"
#include "scan/keys.h"
#include "tensor/dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BIGINT = 64 /* bytes */, MOST_DIGITS = 160, MOST_DEPTH = 16, MOST_IN_A_KEY = 4096, FEW = 16, STEPS_BASE = 1 << 20, STEPS_OF_BYTE = 4, NODES_OF_STEP = 8, BITS = 61 };
static const int64_t MOST_OF_HALF = 65504; /* of 16 bits */
static const uint64_t MODULUS = ((uint64_t)1 << BITS) - 1;

static uint64_t with_sign(uint64_t rest, bool negative)
{
	uint64_t hash = negative ? 0 - rest : rest;

	return hash == UINT64_MAX ? hash - 1 : hash;
}

static uint64_t hash_of_int(int64_t n)
{
	return with_sign((n < 0 ? 0 - (uint64_t)n : (uint64_t)n) % MODULUS, n < 0);
}

/* Two's complement, the last byte first. */
static uint64_t hash_of_bigint(const uint8_t *bytes, uint64_t len)
{
	bool negative = len && bytes[len - 1] & 0x80;
	uint64_t rest = 0;

	for (uint64_t i = len; i-- > 0;)
		rest = ((rest << 8 & MODULUS) | rest >> (BITS - 8)) + (uint8_t)(negative ? ~bytes[i] : bytes[i]);
	return with_sign((rest + negative) % MODULUS, negative);
}

static uint64_t hash_of_float(double number)
{
	uint64_t rest = 0;
	int exponent;
	double left = frexp(fabs(number), &exponent);

	if (isnan(number))
		return 0; /* until 3.9 */
	if (isinf(number))
		return with_sign(314159, number < 0);
	while (left > 0) {
		uint64_t digits;

		rest = (rest << 28 & MODULUS) | rest >> (BITS - 28);
		left *= 268435456.0;
		exponent -= 28;
		digits = (uint64_t)left;
		left -= (double)digits;
		rest = (rest + digits) % MODULUS;
	}
	exponent = exponent >= 0 ? exponent % BITS : BITS - 1 - (-1 - exponent) % BITS;
	return with_sign((rest << exponent & MODULUS) | rest >> (BITS - exponent), number < 0);
}

/* Of a text: no other has it, as for Python. */
uint64_t ckpt_key_of_text(const char *text, uint64_t len)
{
	uint64_t hash = CKPT_KEY_NO_BYTES;

	for (uint64_t i = 0; i < len; i++)
		hash = ckpt_key_with_byte(hash, (uint8_t)text[i]);
	return hash ^ hash >> 29;
}

/* The same of the text that has a character for each byte. */
static uint64_t key_of_latin1(const char *text, uint64_t len)
{
	uint64_t hash = CKPT_KEY_NO_BYTES;

	for (uint64_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)text[i];

		if (c >= 0x80)
			hash = ckpt_key_with_byte(hash, 0xC0 | c >> 6);
		hash = ckpt_key_with_byte(hash, c >= 0x80 ? 0x80 | (c & 0x3F) : c);
	}
	return hash ^ hash >> 29;
}

uint64_t ckpt_key_of_tuple(struct ckpt_key *k, const struct ckpt_seq *items, unsigned depth)
{
	const uint64_t first = 11400714785074694791u, second = 14029467366897019727u, fifth = 2870177450012600261;
	uint64_t hash = fifth;

	for (uint32_t i = 0; i < items->count && !k->is_too_much; i++) {
		hash += ckpt_key_number(k, items->items[i], depth) * second;
		hash = (hash << 31 | hash >> 33) * first;
	}
	hash += items->count ^ (fifth ^ 3527539);
	return hash == UINT64_MAX ? 1546275796 : hash;
}

uint64_t ckpt_key_of_set(struct ckpt_key *k, const struct ckpt_seq *items, unsigned depth)
{
	enum { COMPARED_AT_ONCE = 8 };
	uint64_t hash = 0xC3A5C85C97CB3127 + items->count;

	/* where all are of one hash, Python holds each of them against all of another set */
	k->nodes += (uint64_t)items->count * items->count / COMPARED_AT_ONCE;
	for (uint32_t i = 0; i < items->count && !k->is_too_much; i++) {
		uint64_t part = ckpt_key_number(k, items->items[i], depth);

		hash += (part ^ part >> 31) * 0x9E3779B97F4A7C15; /* in any order */
	}
	k->is_unknown |= !k->is_exact;
	return k->is_exact ? hash : 0;
}

/* ---- hashes of what calls make ---- */

/* How Python hashes what a row of the table makes. Others are not known. */
enum way {
	BY_TEXT,	   /* of the argument, with the secret */
	BY_BYTES_ALONE,	   /* the same, if there is no second argument */
	BY_DIGITS,	   /* of the number that the argument spells, or is */
	BY_ITEMS,	   /* as a tuple of the items of the argument */
	BY_PARTS,	   /* of a real and an imaginary number */
	BY_NUMBER_OF_STATE, /* {'int': number} */
	BY_SCALAR,	   /* scalar(dtype, bytes) */
};
static const struct {
	const char *module, *name;
	enum way way;
} ways[] = {
	{ "_codecs", "encode", BY_TEXT },
	{ "builtins", "bytes", BY_TEXT },
	{ "builtins", "complex", BY_PARTS },
	{ "builtins", "float", BY_DIGITS },
	{ "builtins", "int", BY_DIGITS },
	{ "builtins", "str", BY_TEXT },
	{ "builtins", "tuple", BY_ITEMS },
	{ "datetime", "date", BY_TEXT },
	{ "datetime", "datetime", BY_BYTES_ALONE },
	{ "datetime", "time", BY_BYTES_ALONE },
	{ "decimal", "Decimal", BY_DIGITS },
	{ "fractions", "Fraction", BY_DIGITS },
	{ "numpy.core.multiarray", "scalar", BY_SCALAR },
	{ "pathlib", "Path", BY_TEXT },
	{ "pathlib", "PosixPath", BY_TEXT },
	{ "pathlib", "PurePath", BY_TEXT },
	{ "pathlib", "PurePosixPath", BY_TEXT },
	{ "torch", "Size", BY_ITEMS },
	{ "torch.torch_version", "TorchVersion", BY_TEXT },
	{ "uuid", "UUID", BY_NUMBER_OF_STATE },
};

static const struct ckpt_value *argument(const struct ckpt_value *v, uint32_t i)
{
	const struct ckpt_value *args = v->u.call->args;

	return args->kind == CKPT_TUPLE && i < args->u.seq.count ? args->u.seq.items[i] : &ckpt_value_none;
}

static uint64_t multiplied(uint64_t a, uint64_t b)
{
	uint64_t high = a >> 32, low = a & UINT32_MAX, middle = high * (b & UINT32_MAX) + low * (b >> 32), rest;

	/* a * b = (high * b' << 64) + (middle << 32) + low * b'', each of it in 61 bits */
	rest = (high * (b >> 32) << 3) % MODULUS;
	rest += (middle >> 29) + (middle << 32 & MODULUS);
	return (rest % MODULUS + (low * (b & UINT32_MAX)) % MODULUS) % MODULUS;
}

/* Of the modulus, which is a prime: the power two below it is the inverse. */
static uint64_t inverse_of(uint64_t n)
{
	uint64_t result = 1;

	for (uint64_t power = MODULUS - 2; power; power >>= 1, n = multiplied(n, n))
		if (power & 1)
			result = multiplied(result, n);
	return result;
}

/* "-12", "0.5", "3/4". False: it is no number. */
static bool hash_of_digits(const char *text, uint64_t len, uint64_t *hash)
{
	uint64_t number = 0, below = 1, *part = &number;
	bool negative = len && *text == '-', broken = false;

	for (uint64_t i = negative || (len && *text == '+'); i < len; i++) {
		if ((text[i] == '.' || text[i] == '/') && !broken) {
			broken = true;
			if (text[i] == '/')
				below = 0, part = &below;
		} else if (text[i] >= '0' && text[i] <= '9') {
			*part = (multiplied(*part, 10) + (uint64_t)(text[i] - '0')) % MODULUS;
			if (broken && part == &number)
				below = multiplied(below, 10);
		} else {
			return false;
		}
	}
	*hash = with_sign(below ? multiplied(number, inverse_of(below)) : 314159, negative);
	return true;
}

static uint64_t characters(const struct ckpt_value *text)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < text->u.bytes.len; i++)
		count += ((uint8_t)text->u.bytes.ptr[i] & 0xC0) != 0x80;
	return count;
}

/* Bytes of a scalar of numpy, which protocol 2 writes as a text. */
static bool is_few_bytes(const struct ckpt_value *v)
{
	enum { MOST = 8 };

	if (v->kind == CKPT_CALL && ckpt_value_is_call_of(v, "_codecs", "encode"))
		v = argument(v, 0);
	if (v->kind == CKPT_STR)
		return v->u.bytes.len <= 2 * MOST && characters(v) <= MOST;
	return (v->kind == CKPT_BYTES || v->kind == CKPT_PY2_STR) && v->u.bytes.len <= MOST;
}

/*
 * scalar(dtype, bytes). Of a real number of up to 8 bytes few others have the hash, but each
 * complex one shares its with very many, and a longer one with all that are the same as a double.
 * Texts have that of a Python text.
 */
/*
 * Not-a-numbers of any bits: until 3.10 Python has one hash for all of them, and none equals
 * another. In either byte order; of numbers of more than 8 bytes any may be one.
 */
static bool may_be_nan(const struct ckpt_value *number)
{
	uint8_t bytes[64];
	uint64_t len = number->kind == CKPT_CALL ? 0 : number->u.bytes.len;

	if (number->kind == CKPT_CALL) {
		number = argument(number, 0);
		if (number->kind != CKPT_STR || number->u.bytes.len > sizeof(bytes) || !ckpt_latin1_narrow(number->u.bytes.ptr, number->u.bytes.len, bytes, &len))
			return true;
	} else if (len <= sizeof(bytes)) {
		memcpy(bytes, number->u.bytes.ptr, len);
	}
	for (unsigned order = 0; order < 2 && len >= 2 && len <= 8; order++) {
		uint8_t high = order ? bytes[0] : bytes[len - 1], next = order ? bytes[1] : bytes[len - 2];

		if (len == 2 ? (high & 0x7C) == 0x7C : (high & 0x7F) == 0x7F && (next & 0x80))
			return true;
	}
	return len < 2 || len > 8;
}

static bool hash_of_scalar(const struct ckpt_value *v, uint64_t *hash)
{
	const struct ckpt_value *number = argument(v, 1);
	const struct ckpt_value *dtype = argument(v, 0), *code = dtype->kind == CKPT_CALL ? argument(dtype, 0) : &ckpt_value_none;

	if (code->kind != CKPT_STR && code->kind != CKPT_PY2_STR)
		return false;
	if (code->u.bytes.len < 2 || !ckpt_is_digit((unsigned char)code->u.bytes.ptr[1]))
		return false;
	switch (*code->u.bytes.ptr) {
	case 'U':
	case 'S': return true;
	case 'b':
	case 'i':
	case 'u': return is_few_bytes(number);
	case 'f': return is_few_bytes(number) && !may_be_nan(number);
	case 'm':
	case 'M': /* numpy 1 hashes the number, whatever it counts */
		if (number->kind == CKPT_CALL && ckpt_value_is_call_of(number, "_codecs", "encode"))
			number = argument(number, 0);
		*hash = is_few_bytes(number) ? ckpt_key_of_text(number->u.bytes.ptr, number->u.bytes.len) : 0;
		return is_few_bytes(number);
	default: return false;
	}
}

/* Of a call of the table. False: it is not known, and who wrote the file may have chosen it. */
static bool hash_of_call(struct ckpt_key *k, const struct ckpt_scan_rule *rule, const struct ckpt_value *v, unsigned depth, uint64_t *hash)
{
	const struct ckpt_value *first = argument(v, 0);
	const struct ckpt_seq *state;
	size_t i = 0;

	while (i < sizeof(ways) / sizeof(ways[0]) && (strcmp(ways[i].module, rule->module) != 0 || strcmp(ways[i].name, rule->name) != 0))
		i++;
	*hash = (uint64_t)(uintptr_t)v * 0x9E3779B97F4A7C15;
	if (i == sizeof(ways) / sizeof(ways[0]))
		return false;
	switch (ways[i].way) {
	case BY_TEXT: return true;
	case BY_BYTES_ALONE: return v->u.call->args->kind == CKPT_TUPLE && v->u.call->args->u.seq.count == 1;
	case BY_SCALAR: return hash_of_scalar(v, hash);
	case BY_DIGITS:
		if ((first->kind == CKPT_STR || first->kind == CKPT_PY2_STR) && first->u.bytes.len > MOST_DIGITS) {
			k->is_too_much = true; /* and is not gone through each time */
			return true;
		}
		if (argument(v, 1) != &ckpt_value_none)
			return false;
		k->bytes += first->kind == CKPT_STR || first->kind == CKPT_PY2_STR ? 16 * first->u.bytes.len : 0;
		if (first->kind == CKPT_STR || first->kind == CKPT_PY2_STR)
			return hash_of_digits(first->u.bytes.ptr, first->u.bytes.len, hash);
		*hash = ckpt_key_number(k, first, depth + 1);
		return first->kind == CKPT_INT || first->kind == CKPT_BOOL || first->kind == CKPT_BIGINT || first->kind == CKPT_FLOAT;
	case BY_ITEMS:
		if (first->kind != CKPT_TUPLE && first->kind != CKPT_LIST)
			return false;
		*hash = ckpt_key_of_tuple(k, &first->u.seq, depth + 1);
		return true;
	case BY_PARTS:
		*hash = ckpt_key_number(k, first, depth + 1);
		if (argument(v, 1) != &ckpt_value_none)
			*hash += 1000003 * ckpt_key_number(k, argument(v, 1), depth + 1);
		return true;
	case BY_NUMBER_OF_STATE:
		state = v->u.call->state && v->u.call->state->kind == CKPT_DICT ? &v->u.call->state->u.seq : NULL;
		for (uint32_t n = 0; state && n + 1 < state->count; n += 2)
			if (ckpt_value_is_str(state->items[n], "int"))
				*hash = ckpt_key_number(k, state->items[n + 1], depth + 1);
		return state;
	}
	return false;
}

/*
 * Classes, layouts, memory formats and DTensor, which torch has under the same name in several modules: `torch.strided` is
 * _get_layout('torch.strided'). NoneType is type(None).
 */
static bool has_several_modules(const struct ckpt_global *g)
{
	return !strcmp(g->name, "NoneType") || !strcmp(g->module, "torch") || !strncmp(g->module, "torch.", strlen("torch."));
}

/* The name that Python 3 has for a class of its own; OSError has several. */
static const char *name_today(const char *name)
{
	static const char *const pairs[][2] = { { "IOError", "OSError" }, { "EnvironmentError", "OSError" }, { "WindowsError", "OSError" }, { "StandardError", "Exception" },
						{ "long", "int" }, { "unicode", "str" }, { "basestring", "str" }, { "xrange", "range" } };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (!strcmp(name, pairs[i][0]))
			return pairs[i][1];
	return name;
}

static bool is_of_python(const char *module)
{
	return !strcmp(module, "builtins") || !strcmp(module, "__builtin__") || !strcmp(module, "exceptions");
}

uint64_t ckpt_key_of_constant(const char *name, uint64_t len)
{
	const char *dot = memrchr(name, '.', len);

	return dot ? ckpt_key_of_constant(dot + 1, len - (uint64_t)(dot + 1 - name)) : 5 * ckpt_key_of_text(name, len) + 1;
}

uint64_t ckpt_key_number(struct ckpt_key *k, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_global *g;
	const struct ckpt_scan_rule *rule;
	uint64_t hash;

	if (k->is_exact && v->kind == CKPT_GLOBAL) {
		const char *module;

		g = v->u.global;
		rule = ckpt_scan_rule(g->module, g->name);
		module = !strcmp(rule->name, g->name) ? rule->module : g->module; /* it has several names */
		if (!strcmp(module, "torch") && ckpt_dtype_find(g->name) != CKPT_DTYPE_UNKNOWN) /* torch.float, torch.float32 */
			return 3 * ckpt_key_of_text(module, strlen(module)) + (uint64_t)ckpt_dtype_find(g->name);
		if (has_several_modules(g))
			return ckpt_key_of_constant(g->name, g->name_len);
		if (is_of_python(module))
			return 3 * ckpt_key_of_text("builtins", strlen("builtins")) + ckpt_key_of_text(name_today(g->name), strlen(name_today(g->name)));
		return 3 * ckpt_key_of_text(module, strlen(module)) + ckpt_key_of_text(g->name, g->name_len);
	}
	if (++k->nodes > MOST_IN_A_KEY || depth > MOST_DEPTH) {
		k->is_too_much = true;
		return 0;
	}
	if ((v->kind == CKPT_INT && (v->u.integer > MOST_OF_HALF || v->u.integer < -MOST_OF_HALF)) || (v->kind == CKPT_FLOAT && fabs(v->u.real) > MOST_OF_HALF))
		k->numbers |= CKPT_KEY_OVER;
	if (v->kind == CKPT_BIGINT)
		k->numbers |= CKPT_KEY_OVER | CKPT_KEY_HUGE;
	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_BOOL:
	case CKPT_INT: return k->is_exact ? ckpt_key_of_number(v) : hash_of_int(v->u.integer);
	case CKPT_BIGINT:
		k->bytes += v->u.bytes.len;
		if (v->u.bytes.len > MOST_BIGINT)
			/* held against a Decimal of the same hash it is turned into digits, each time */
			k->is_too_much = true;
		return k->is_exact ? ckpt_key_of_number(v) : hash_of_bigint((const uint8_t *)v->u.bytes.ptr, v->u.bytes.len);
	case CKPT_FLOAT:
		if (k->is_exact && isnan(v->u.real))
			break; /* it equals none but itself */
		return k->is_exact ? ckpt_key_of_number(v) : hash_of_float(v->u.real);
	case CKPT_STR:
	case CKPT_PY2_STR:
	case CKPT_BYTES:
		k->bytes += v->u.bytes.len;
		k->has_py2_text |= v->kind == CKPT_PY2_STR;
		if (v->kind == CKPT_PY2_STR && k->encoding == CKPT_SCAN_LATIN1)
			return key_of_latin1(v->u.bytes.ptr, v->u.bytes.len);
		if (k->is_exact && (v->kind == CKPT_BYTES || (v->kind == CKPT_PY2_STR && k->encoding == CKPT_SCAN_BYTES)))
			return ckpt_key_of_bytes(v->u.bytes.ptr, v->u.bytes.len);
		return ckpt_key_of_text(v->u.bytes.ptr, v->u.bytes.len);
	case CKPT_TUPLE: return ckpt_key_of_tuple(k, &v->u.seq, depth + 1);
	case CKPT_LIST: /* what a call was given */
	case CKPT_SET:
	case CKPT_FROZENSET: return ckpt_key_of_set(k, &v->u.seq, depth + 1);
	case CKPT_CALL:
		g = ckpt_scan_callee(k->w, v->u.call->func);
		rule = g ? ckpt_scan_rule(g->module, g->name) : NULL;
		if (ckpt_value_is_call_of(v, "torch.torch_version", "TorchVersion"))
			/*
			 * to compare it, torch takes the text apart, by a package that it imports
			 * for that
			 */
			k->is_too_much = true;
		if (ckpt_value_is_call_of(v, "numpy", "dtype"))
			ckpt_scan_mark(v, CKPT_SCAN_USED); /* with a state it would have another hash */
		if (ckpt_value_is_call_of(v, "numpy", "dtype") && v->u.call->state && v->u.call->state->kind == CKPT_TUPLE && v->u.call->state->u.seq.count > 4 &&
		    (v->u.call->state->u.seq.items[2]->kind != CKPT_NONE || v->u.call->state->u.seq.items[4]->kind != CKPT_NONE))
			/* numpy goes into each field as often as it is met */
			k->is_too_much = true;
		if (k->is_exact && ckpt_scan_is_getattr(v) && ckpt_value_is_text(argument(v, 1)))
			return ckpt_key_of_constant(argument(v, 1)->u.bytes.ptr, argument(v, 1)->u.bytes.len);
		if (!rule || rule->kind != CKPT_SCAN_DATA)
			break; /* an object: its class has its own way */
		if (k->is_exact) {
			if (!ckpt_key_of_call(k, rule, v, depth, &hash))
				break;
			return hash;
		}
		if (!hash_of_call(k, rule, v, depth, &hash)) {
			ckpt_key_number(k, v->u.call->args, depth);
			k->is_unknown = true;
		}
		return hash;
	case CKPT_PERSID: /* a storage that was mentioned before is that one */
		k->is_unknown |= k->is_exact;
		break;
	default: break;
	}
	/* by where it lies, which nobody can choose either */
	return (uint64_t)(uintptr_t)v * 0x9E3779B97F4A7C15;
}

static const struct ckpt_value *key_at(const struct ckpt_value *const *items, size_t i, enum ckpt_scan_keys form)
{
	const struct ckpt_value *v = form == CKPT_KEYS_OF_PAIRS ? items[2 * i] : items[i];

	if (form == CKPT_KEYS_IN_TUPLES)
		return (v->kind == CKPT_TUPLE || v->kind == CKPT_LIST) && v->u.seq.count ? v->u.seq.items[0] : &ckpt_value_none;
	return v;
}

struct hashed {
	uint64_t hash;
	uint64_t steps; /* to compare it with another of that hash */
};

/* Of one hash, the largest first. */
static int by_hash(const void *a, const void *b)
{
	const struct hashed *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash > y->hash ? 1 : -1;
	return (x->steps < y->steps) - (x->steps > y->steps);
}

/* Steps that a dict of them takes: of two keys as many as the smaller one. */
static uint64_t steps_of(struct hashed *hashes, size_t count)
{
	uint64_t steps = 0, run = 0;

	qsort(hashes, count, sizeof(*hashes), by_hash);
	for (size_t i = 0; i < count; i++) {
		run = i && hashes[i].hash == hashes[i - 1].hash ? run + 1 : 0;
		steps += run * hashes[i].steps;
	}
	return steps;
}

/* The same key may be used very often, and be long. */
static bool may_look(const struct ckpt_key *k)
{
	return ckpt_scan_may_look(k->w, k->nodes + k->bytes / 16);
}

/* All of them against each other. */
static void compare(struct ckpt_scan_walk *w, const struct ckpt_scan_added_keys *a)
{
	size_t count = a->old_count + a->count, known = 0, unknown = 0, unknown_steps = 0;
	struct hashed *hashes;

	if (!ckpt_scan_may_look(w, count))
		return;
	hashes = malloc(count * sizeof(*hashes));
	w->s->no_memory |= !hashes;
	for (size_t i = 0; hashes && i < count; i++) {
		struct ckpt_key k = { .w = w };
		const struct ckpt_value *v = i < a->old_count ? key_at(a->old, i, a->form)
							      : key_at(a->items, i - a->old_count, a->form);

		hashes[known].hash = ckpt_key_number(&k, v, 0);
		hashes[known].steps = (k.nodes + NODES_OF_STEP - 1) / NODES_OF_STEP;
		if (!may_look(&k)) {
			free(hashes);
			return;
		}
		unknown_steps += k.is_unknown ? hashes[known].steps : 0;
		unknown += k.is_unknown;
		known += !k.is_unknown;
	}
	if (hashes)
		w->s->key_steps += steps_of(hashes, known) + unknown * unknown_steps / 2;
	if (w->s->key_steps > STEPS_BASE + STEPS_OF_BYTE * w->s->file.bytes)
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "key", ckpt_scan_at(w),
			       "keys of the same hash, or of one that can be chosen: Python holds each of them against all others");
	free(hashes);
}

/*
 * Has the number grown to the next power of two? Then it is looked at again, which makes no more
 * than twice the work in all.
 */
static bool has_doubled(size_t before, size_t after)
{
	return after >= FEW && (before < FEW || 63 - __builtin_clzll(before) != 63 - __builtin_clzll(after));
}

void ckpt_scan_keys_added(struct ckpt_scan_walk *w, const struct ckpt_scan_added_keys *a)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct ckpt_value *v = key_at(a->items, i, a->form);
		struct ckpt_key k = { .w = w };

		if (v->kind != CKPT_TUPLE && v->kind != CKPT_FROZENSET && v->kind != CKPT_CALL && v->kind != CKPT_BIGINT)
			continue;
		ckpt_key_number(&k, v, 0);
		if (!may_look(&k))
			return;
		if (k.is_too_much) {
			ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "key", ckpt_scan_at(w),
				       "a key that Python goes into for long, as often as it is met: tuples in tuples, an integer of very many digits, a structure or version");
			return;
		}
	}
	if (has_doubled(a->old_count, a->old_count + a->count))
		compare(w, a);
	ckpt_scan_keys_compared(w, a);
}

const struct ckpt_value *ckpt_scan_added_key(const struct ckpt_scan_added_keys *a, size_t i)
{
	return key_at(a->items, i, a->form);
}

uint64_t ckpt_scan_identity(struct ckpt_scan_walk *w, const struct ckpt_value *v, enum ckpt_scan_encoding encoding, struct ckpt_scan_identity_notes *notes)
{
	struct ckpt_key k = { .w = w, .is_exact = true, .encoding = encoding };
	uint64_t number = ckpt_key_number(&k, v, 0);

	notes->is_vague |= k.is_unknown || k.is_too_much || !may_look(&k);
	notes->has_py2_text |= k.has_py2_text;
	notes->has_unit |= k.unit;
	notes->numbers |= k.numbers;
	notes->has_mixed_units |= notes->any && k.unit != notes->unit;
	notes->unit = k.unit;
	notes->has_two_zones |= k.zone && notes->zone && k.zone != notes->zone;
	notes->zone = k.zone ? k.zone : notes->zone;
	notes->any = true;
	return number;
}
