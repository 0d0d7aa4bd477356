/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What numpy's arrays are made of. numpy believes the state of a dtype: one that says of objects
 * that they are bytes, or the other way round, makes pointers of numbers in the file. So only what
 * numpy writes itself is understood.
 */
#include "base/ascii.h"
#include "scan/numpy.h"
#include "scan/walk.h"
#include "tensor/dtype.h"

#include <string.h>

/*
 * Flags of a dtype, as numpy 1.19 to 2.4 write them: each of its functions that looks at items trusts
 * them. Source: numpy/core/include/numpy/ndarraytypes.h (NPY_ITEM_*), descriptor.c.
 */
enum { TEXT_FLAGS = 8, STRUCTURE_FLAGS = 16, OBJECT_FLAGS = 63, ALIGNED_FLAGS = 128 };
enum { ARRAY_VERSION = 1 };
enum { MOST_DIMENSIONS = 32, MOST_ALIGNMENT = 64, TEXT_ALIGNMENT = 4 };

/*
 * What is not there: of a kind that nothing below takes. What is inside of a dtype may be of any shape: where it is none that numpy
 * writes that was said, and the scan goes on.
 */
static const struct ckpt_value nothing = { .kind = CKPT_EXT };

static const struct ckpt_value *item(const struct ckpt_value *tuple, uint32_t i)
{
	return tuple->kind == CKPT_TUPLE && i < tuple->u.seq.count ? tuple->u.seq.items[i] : &nothing;
}

static bool is_kind(const struct ckpt_value *v, enum ckpt_value_kind kind)
{
	return v->kind == kind;
}

static bool is_bytes(const struct ckpt_value *v)
{
	return v->kind == CKPT_BYTES || v->kind == CKPT_PY2_STR ||
	       ckpt_value_is_call_of(v, "_codecs", "encode") ||
	       ckpt_value_is_call_of(v, "__builtin__", "bytes") ||
	       ckpt_value_is_call_of(v, "builtins", "bytes");
}

/*
 * 'f4' -> 'f'; 0: of no kind that is known. numpy writes the size of each; without it 'b' is another
 * kind, and 'c' a text.
 */
static char letter_of_text(const struct ckpt_value *text)
{
	const char *at;
	uint64_t len;

	if (text->kind != CKPT_STR && text->kind != CKPT_PY2_STR)
		return 0;
	at = text->u.bytes.ptr;
	len = text->u.bytes.len;
	if (len && strchr("<>|=", *at)) {
		at++;
		len--;
	}
	if (len < 2 || len > 8 || !strchr("biufcmMSUVO", *at))
		return 0;
	for (uint64_t i = 1; i < len; i++)
		if (!ckpt_is_digit((unsigned char)at[i]))
			return 0;
	return *at;
}

bool ckpt_scan_is_dtype_text(const struct ckpt_value *v)
{
	return v && letter_of_text(v);
}

static char letter_of(const struct ckpt_value *dtype)
{
	return ckpt_value_is_call_of(dtype, "numpy", "dtype")
		       ? letter_of_text(item(dtype->u.call->args, 0))
		       : 0;
}

/* Bytes of an item: 'U5' has 20. 0: it is no dtype that is known. */
static int64_t size_of(const struct ckpt_value *dtype)
{
	char letter = letter_of(dtype);
	const struct ckpt_value *text = letter ? item(dtype->u.call->args, 0) : &ckpt_value_none;
	int64_t n = 0;

	for (uint64_t i = 0; letter && i < text->u.bytes.len; i++)
		if (ckpt_is_digit((unsigned char)text->u.bytes.ptr[i]))
			n = n * 10 + (text->u.bytes.ptr[i] - '0');
	return letter == 'U' ? 4 * n : n;
}

/* No objects. It may be an array of items itself, as fields may be. */
static bool is_numbers_dtype(const struct ckpt_value *v)
{
	char letter = letter_of(v);

	return letter && letter != 'O';
}

/* Is an item of it an array? numpy makes no arrays and no numbers of such, and does not look. */
static bool is_subarray(const struct ckpt_value *dtype)
{
	const struct ckpt_value *state = dtype->u.call->state, *array = state ? item(state, 2) : &ckpt_value_none;

	return array->kind != CKPT_NONE;
}

/* 'S0', 'U0', 'V0', 'f0': numpy writes none, and what makes tensors of arrays divides by their size. */
static bool has_no_bytes(const struct ckpt_value *dtype)
{
	return !size_of(dtype);
}

bool ckpt_scan_is_item_dtype(const struct ckpt_value *v)
{
	return v && is_numbers_dtype(v) && !is_subarray(v) && !has_no_bytes(v);
}

/* A dtype inside of another: it is made already, so it is none that contains this one. */
static bool is_inner(const struct ckpt_value *dtype)
{
	return is_numbers_dtype(dtype) && (letter_of(dtype) != 'V' || dtype->u.call->state);
}

/*
 * Up to 32 numbers: numpy until 1.26 has room for no more, and does not look. Beside a zero the others
 * are bounded, for so many empty lists tolist() makes.
 */
bool ckpt_scan_is_short_shape(const struct ckpt_value *shape)
{
	bool is_empty = false, are_many = false;
	int64_t lists = 1;

	if (!shape || !is_kind(shape, CKPT_TUPLE) || shape->u.seq.count > MOST_DIMENSIONS)
		return false;
	for (uint32_t i = 0; i < shape->u.seq.count; i++) {
		const struct ckpt_value *size = item(shape, i);

		if (!is_kind(size, CKPT_INT) || size->u.integer < 0)
			return false;
		is_empty |= !size->u.integer;
		are_many |= __builtin_mul_overflow(lists, size->u.integer ? size->u.integer : 1, &lists) || lists > CKPT_NUMPY_EMPTY_LISTS;
	}
	return !is_empty || !are_many;
}

static bool is_name(const struct ckpt_value *v)
{
	return is_kind(v, CKPT_STR) || (is_kind(v, CKPT_PY2_STR) && ckpt_scan_is_of_one_encoding(v));
}

/* numpy looks for each of the names among the fields, where it uses them, and does not ask whether it is there. */
static bool is_same_name(const struct ckpt_value *a, const struct ckpt_value *b)
{
	return a->kind == b->kind && a->u.bytes.len == b->u.bytes.len && !memcmp(a->u.bytes.ptr, b->u.bytes.ptr, a->u.bytes.len);
}

/* Is NAME that of item AT, or one of every STEP of these, of which few may be in another order? */
static bool has_name(const struct ckpt_value *in, uint32_t at, uint32_t step, const struct ckpt_value *name)
{
	enum { MOST_TURNED = 256 };

	if (is_same_name(in->u.seq.items[at], name))
		return true;
	for (uint32_t i = 0; in->u.seq.count <= MOST_TURNED && i < in->u.seq.count; i += step)
		if (is_name(in->u.seq.items[i]) && is_same_name(in->u.seq.items[i], name))
			return true;
	return false;
}

static bool is_field(const struct ckpt_value *field, int64_t whole)
{
	const struct ckpt_value *dtype = item(field, 0), *off = item(field, 1);

	/* of a third, a title, numpy makes a second name, which is not asked whether it is one */
	if (!is_kind(field, CKPT_TUPLE) || field->u.seq.count != 2 || !is_inner(dtype) || !is_kind(off, CKPT_INT))
		return false;
	ckpt_scan_mark(dtype, CKPT_SCAN_USED);
	return off->u.integer >= 0 && off->u.integer <= whole &&
	       size_of(dtype) <= whole - off->u.integer;
}

/* Named fields that lie inside of an item, or an array of one shape as item. */
static bool is_structure(const struct ckpt_value *state)
{
	const struct ckpt_value *array = item(state, 2), *names = item(state, 3),
				*fields = item(state, 4), *whole = item(state, 5);
	int64_t size;

	if (is_kind(array, CKPT_TUPLE) && is_kind(names, CKPT_NONE) && is_kind(fields, CKPT_NONE)) {
		const struct ckpt_value *shape = item(array, 1);

		if (array->u.seq.count != 2 || !is_inner(item(array, 0)) || is_subarray(item(array, 0)) || !ckpt_scan_is_short_shape(shape))
			return false;
		ckpt_scan_mark(item(array, 0), CKPT_SCAN_USED);
		size = size_of(item(array, 0));
		for (uint32_t i = 0; i < shape->u.seq.count; i++)
			if (!is_kind(item(shape, i), CKPT_INT) ||
			    __builtin_mul_overflow(size, item(shape, i)->u.integer, &size))
				return false;
		return size > 0 && size == whole->u.integer; /* of items without bytes there may be any number */
	}
	if (!is_kind(array, CKPT_NONE) || !is_kind(names, CKPT_TUPLE) ||
	    !is_kind(fields, CKPT_DICT) || fields->u.seq.count != 2 * names->u.seq.count)
		return false;
	for (uint32_t i = 1; i < fields->u.seq.count; i += 2)
		if (!is_name(fields->u.seq.items[i - 1]) || !is_name(item(names, i / 2)) || !has_name(fields, i - 1, 2, item(names, i / 2)) || !has_name(names, i / 2, 1, fields->u.seq.items[i - 1]) || !is_field(fields->u.seq.items[i], whole->u.integer))
			return false;
	ckpt_scan_mark(fields, CKPT_SCAN_USED); /* numpy keeps this very dict */
	return true;
}

/* The order of bytes that numpy writes: '|' of what has none. It turns around what says so, be it a pointer to an object. */
static bool is_order(const struct ckpt_value *v, const struct ckpt_value *dtype, char letter)
{
	bool has_order = letter == 'U' || (!strchr("OSV", letter) && size_of(dtype) > 1);

	return (v->kind == CKPT_STR || v->kind == CKPT_PY2_STR) && v->u.bytes.len == 1 &&
	       v->u.bytes.ptr[0] && strchr(has_order ? "<>" : "|", v->u.bytes.ptr[0]);
}

static bool is_power_of_two(int64_t n)
{
	return n > 0 && !(n & (n - 1));
}

/* Texts, bytes and structures say their size a second time, all others -1. */
static bool is_item_size(const struct ckpt_value *dtype, char letter, const struct ckpt_value *state)
{
	int64_t size = item(state, 5)->u.integer, alignment = item(state, 6)->u.integer;

	if (!strchr("SUV", letter))
		return size == -1 && alignment == -1;
	if (size != size_of(dtype) || size < 0)
		return false;
	if (letter == 'V')
		return is_power_of_two(alignment) && alignment <= MOST_ALIGNMENT;
	return alignment == (letter == 'U' ? TEXT_ALIGNMENT : 1);
}

/* numpy 1 wrote them as a signed byte. */
static int64_t said_flags(const struct ckpt_value *state)
{
	int64_t flags = item(state, 7)->u.integer;

	return flags >= -128 && flags < 0 ? flags + 256 : flags;
}

/* What numpy has for a dtype that is made already; its state was checked. */
static int64_t flags_of(const struct ckpt_value *dtype)
{
	if (letter_of(dtype) == 'U')
		return TEXT_FLAGS;
	return letter_of(dtype) == 'V' && dtype->u.call->state ? said_flags(dtype->u.call->state) : 0;
}

/* Of a structure whose fields are looked at, or an array of items. */
static bool are_structure_flags(const struct ckpt_value *state)
{
	const struct ckpt_value *array = item(state, 2), *fields = item(state, 4);
	int64_t said = said_flags(state), wanted = STRUCTURE_FLAGS;

	if (array->kind == CKPT_TUPLE)
		return (said & ~ALIGNED_FLAGS) == (flags_of(item(array, 0)) & ~ALIGNED_FLAGS);
	for (uint32_t i = 1; i < fields->u.seq.count; i += 2)
		wanted |= flags_of(item(fields->u.seq.items[i], 0)) & TEXT_FLAGS;
	return (said & ~ALIGNED_FLAGS) == wanted;
}

bool ckpt_scan_is_numpy_unit(const char *name, size_t len)
{
	static const char *const names[] = { "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (len == strlen(names[i]) && !memcmp(name, names[i], len))
			return true;
	return false;
}

/* A unit, of which there are COUNT, or "generic", of which there is one. */
static bool is_name_of_unit(const struct ckpt_value *v, const struct ckpt_value *count)
{
	static const char generic[] = "generic";
	const struct ckpt_value *text = v->kind == CKPT_CALL && is_bytes(v) ? item(v->u.call->args, 0) : v;

	if (text->kind != CKPT_BYTES && text->kind != CKPT_STR && text->kind != CKPT_PY2_STR)
		return false;
	if (text->u.bytes.len == strlen(generic) && !memcmp(text->u.bytes.ptr, generic, strlen(generic)))
		return count->u.integer == 1;
	return ckpt_scan_is_numpy_unit(text->u.bytes.ptr, text->u.bytes.len);
}

/*
 * ({}, (b'ns', 1, 1, 1)): numpy follows a pointer to it, which is none where it is missing. What is behind the number of units is always 1:
 * by another divisor numpy reads behind a table, and divides by zero.
 */
static bool is_unit(const struct ckpt_value *v)
{
	const struct ckpt_value *unit = item(v, 1);

	if (v->kind != CKPT_TUPLE || v->u.seq.count != 2 || unit->kind != CKPT_TUPLE || unit->u.seq.count != 4)
		return false;
	/* numpy 2 writes None */
	if (!is_kind(item(v, 0), CKPT_NONE) &&
	    (!is_kind(item(v, 0), CKPT_DICT) || item(v, 0)->u.seq.count))
		return false;
	if (is_kind(item(v, 0), CKPT_DICT))
		ckpt_scan_mark(item(v, 0), CKPT_SCAN_USED);
	for (uint32_t i = 1; i < 4; i++)
		if (!is_kind(item(unit, i), CKPT_INT) || item(unit, i)->u.integer < 1 ||
		    item(unit, i)->u.integer > (i == 1 ? INT32_MAX : 1))
			return false;
	return is_name_of_unit(item(unit, 0), item(unit, 1));
}

/* dtype('f8', False, True): without the last one numpy gives the dtype that everybody has, and sets no state on that. */
static bool is_copy(const struct ckpt_value *dtype)
{
	const struct ckpt_value *copy = item(dtype->u.call->args, 2);

	return is_kind(copy, CKPT_BOOL) || is_kind(copy, CKPT_INT) ? copy->u.integer : false;
}

/* (3, '<', None, None, None, -1, -1, 0); of times (4, ..., 0, unit) */
bool ckpt_scan_check_dtype_state(const struct ckpt_value *dtype, const struct ckpt_value *state)
{
	char letter = letter_of(dtype);
	const struct ckpt_value *flags = item(state, 7);
	bool simple;

	if (!letter || !is_copy(dtype) || dtype->flags & CKPT_SCAN_USED || state->kind != CKPT_TUPLE ||
	    state->u.seq.count < 8 || state->u.seq.count > 9)
		return false;
	/* of earlier versions numpy 1.19 looks for fields that are not there */
	if (!is_kind(item(state, 0), CKPT_INT) || item(state, 0)->u.integer != (state->u.seq.count == 9 ? 4 : 3) || !is_kind(item(state, 5), CKPT_INT) ||
	    !is_kind(item(state, 6), CKPT_INT) || !is_kind(flags, CKPT_INT))
		return false;
	simple = is_kind(item(state, 2), CKPT_NONE) && is_kind(item(state, 3), CKPT_NONE) &&
		 is_kind(item(state, 4), CKPT_NONE);
	if (!is_order(item(state, 1), dtype, letter) || !is_item_size(dtype, letter, state))
		return false;
	if ((letter == 'm' || letter == 'M') != (state->u.seq.count == 9) ||
	    (state->u.seq.count == 9 && !is_unit(item(state, 8))))
		return false;
	if (letter == 'O')
		return simple && flags->u.integer == OBJECT_FLAGS;
	if (simple)
		return flags->u.integer == (letter == 'U' ? TEXT_FLAGS : 0);
	return letter == 'V' && is_structure(state) && are_structure_flags(state);
}

/* Are there COUNT items in an array of SHAPE? */
static bool is_count(const struct ckpt_value *shape, int64_t count)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < shape->u.seq.count; i++)
		if (!is_kind(item(shape, i), CKPT_INT) || item(shape, i)->u.integer < 0 ||
		    __builtin_mul_overflow(n, item(shape, i)->u.integer, &n))
			return false;
	return n == count;
}

/*
 * No more items than the data have bytes: of items without any, who goes over all of them would not
 * come to an end.
 */
static bool are_few(const struct ckpt_value *shape, const struct ckpt_value *data)
{
	const struct ckpt_value *text = data->kind == CKPT_CALL ? item(data->u.call->args, 0) : data;
	uint64_t most = (text->kind == CKPT_STR || text->kind == CKPT_BYTES || text->kind == CKPT_BYTEARRAY || text->kind == CKPT_PY2_STR) ? text->u.bytes.len : 0, n = 1;

	for (uint32_t i = 0; i < shape->u.seq.count; i++)
		if (__builtin_mul_overflow(n, (uint64_t)item(shape, i)->u.integer, &n))
			return false;
	return n <= (most > CKPT_NUMPY_FEW_ITEMS ? most : CKPT_NUMPY_FEW_ITEMS);
}

/* Bytes of Python 2, as latin1 has them, are as many as the array has: as utf-8 they are fewer, which numpy refuses. */
static bool is_as_long(const struct ckpt_value *shape, const struct ckpt_value *dtype, const struct ckpt_value *data)
{
	int64_t n = size_of(dtype);

	for (uint32_t i = 0; i < shape->u.seq.count; i++)
		if (!is_kind(item(shape, i), CKPT_INT) || __builtin_mul_overflow(n, item(shape, i)->u.integer, &n))
			return false;
	return data->u.bytes.len == (uint64_t)n;
}

/* How many bytes DATA is; -1: it is not in the pickle as such. */
static int64_t count_of_bytes(const struct ckpt_value *data)
{
	const struct ckpt_value *text = data->kind == CKPT_CALL ? item(data->u.call->args, 0) : data;
	int64_t count = 0;

	if (text == &nothing) /* bytes() */
		return ckpt_value_is_call_of(data, "_codecs", "encode") ? -1 : 0;
	if (text->kind == CKPT_BYTES || text->kind == CKPT_PY2_STR)
		return (int64_t)text->u.bytes.len;
	if (text->kind != CKPT_STR)
		return -1;
	for (uint64_t i = 0; i < text->u.bytes.len; i++) /* of latin1: one for each character */
		count += ((uint8_t)text->u.bytes.ptr[i] & 0xC0) != 0x80;
	return count;
}

bool ckpt_scan_is_raw_item(const struct ckpt_value *dtype, const struct ckpt_value *data)
{
	return count_of_bytes(data) == size_of(dtype);
}

/* (1, (3, 4), dtype, False, bytes); of objects a list */
bool ckpt_scan_check_array_state(const struct ckpt_value *state)
{
	const struct ckpt_value *dtype = item(state, 2), *data = item(state, 4);
	char letter = letter_of(dtype);

	if (!letter || state->u.seq.count != 5 || !ckpt_scan_is_short_shape(item(state, 1)) || is_subarray(dtype) || has_no_bytes(dtype))
		return false;
	if (!is_kind(item(state, 0), CKPT_INT) || item(state, 0)->u.integer != ARRAY_VERSION || !is_kind(item(state, 3), CKPT_BOOL))
		return false;
	ckpt_scan_mark(dtype, CKPT_SCAN_USED);
	if (letter == 'O') /* numpy 1 reads as many as the shape says */
		return data->kind == CKPT_LIST && is_count(item(state, 1), data->u.seq.count);
	return is_bytes(data) && are_few(item(state, 1), data) && (ckpt_scan_is_of_one_encoding(data) || is_as_long(item(state, 1), dtype, data));
}

static const struct ckpt_value *dtype_of(const struct ckpt_value *array)
{
	const struct ckpt_call *call = array->kind == CKPT_CALL ? array->u.call : NULL;

	if (call && call->state)
		return item(call->state, 2);
	return ckpt_value_is_call_of(array, "numpy.core.numeric", "_frombuffer") || ckpt_value_is_call_of(array, "numpy._core.numeric", "_frombuffer") ? item(call->args, 1) : &nothing;
}

bool ckpt_scan_is_numbers_array(const struct ckpt_value *v)
{
	char letter = letter_of(dtype_of(v));

	return letter && strchr("biufc?", letter);
}

bool ckpt_scan_is_array_of(const struct ckpt_value *array, const struct ckpt_value *dtype)
{
	static const struct {
		char letter;
		uint8_t size;
		enum ckpt_dtype dtype;
	} same[] = { { 'b', 1, CKPT_DTYPE_BOOL }, { '?', 0, CKPT_DTYPE_BOOL }, { 'i', 1, CKPT_DTYPE_INT8 }, { 'i', 2, CKPT_DTYPE_INT16 }, { 'i', 4, CKPT_DTYPE_INT32 }, { 'i', 8, CKPT_DTYPE_INT64 },
		     { 'u', 1, CKPT_DTYPE_UINT8 }, { 'u', 2, CKPT_DTYPE_UINT16 }, { 'u', 4, CKPT_DTYPE_UINT32 }, { 'u', 8, CKPT_DTYPE_UINT64 }, { 'f', 2, CKPT_DTYPE_FLOAT16 }, { 'f', 4, CKPT_DTYPE_FLOAT32 },
		     { 'f', 8, CKPT_DTYPE_FLOAT64 }, { 'f', 4, CKPT_DTYPE_BFLOAT16 /* as torch writes it */ }, { 'c', 8, CKPT_DTYPE_COMPLEX64 }, { 'c', 16, CKPT_DTYPE_COMPLEX128 } };

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]) && dtype->kind == CKPT_GLOBAL; i++)
		if (same[i].letter == letter_of(dtype_of(array)) && same[i].size == size_of(dtype_of(array)) && same[i].dtype == ckpt_dtype_find(dtype->u.global->name))
			return true;
	return false;
}

bool ckpt_scan_holds_numbers(const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->kind == CKPT_CALL ? v->u.call : NULL;
	char letter = 0;

	if (!call || call->func->kind != CKPT_GLOBAL)
		return false;
	if (ckpt_scan_rule(call->func->u.global->module, call->func->u.global->name)->call == CKPT_CALL_NUMPY_SCALAR)
		letter = letter_of(item(call->args, 0));
	else if (call->state && ckpt_scan_rule(call->func->u.global->module, call->func->u.global->name)->then == CKPT_THEN_NUMPY_ARRAY)
		letter = letter_of(item(call->state, 2));
	return (letter && strchr("biufcmM?", letter)) || ckpt_scan_is_numbers_array(v);
}

/* ---- texts in items ---- */

enum { MOST_NESTING = 8 };

/* Where in the data an item of a dtype lies, which may be in an item of another one. */
struct item_place {
	struct ckpt_scan_walk *w;
	const struct ckpt_scan_numpy_data *data;
	size_t off, step;
	unsigned depth;
};

static bool has_text(struct ckpt_scan_walk *w, const struct ckpt_value *dtype, unsigned depth)
{
	const struct ckpt_value *state = dtype->kind == CKPT_CALL ? dtype->u.call->state : NULL, *fields;
	char letter = letter_of(dtype);

	if (letter != 'V' || !state || depth == MOST_NESTING || !ckpt_scan_may_look(w, 1))
		return letter == 'U' || depth == MOST_NESTING;
	if (is_kind(item(state, 2), CKPT_TUPLE))
		return has_text(w, item(item(state, 2), 0), depth + 1);
	fields = item(state, 4);
	for (uint32_t i = 1; is_kind(fields, CKPT_DICT) && i < fields->u.seq.count; i += 2)
		if (has_text(w, item(fields->u.seq.items[i], 0), depth + 1))
			return true;
	return false;
}

bool ckpt_scan_numpy_has_text(struct ckpt_scan_walk *w, const struct ckpt_value *dtype)
{
	return has_text(w, dtype, 0);
}

static bool is_big(const struct ckpt_value *dtype)
{
	const struct ckpt_value *text = item(dtype->u.call->args, 0), *order = dtype->u.call->state ? item(dtype->u.call->state, 1) : text;

	return ckpt_value_is_text(order) && order->u.bytes.len && order->u.bytes.ptr[0] == '>';
}

/* NBYTES at the place, and in each step behind it. */
static bool are_characters(const struct item_place *at, size_t nbytes, bool big)
{
	for (size_t start = at->off; start < at->data->len && nbytes <= at->data->len - start; start += at->step) {
		if (!ckpt_scan_may_look(at->w, 1 + nbytes / 4))
			return true; /* which was said */
		for (size_t i = 0; i + 4 <= nbytes; i += 4) {
			const uint8_t *c = at->data->bytes + start + i;
			uint32_t high = big ? (uint32_t)c[0] << 8 | c[1] : (uint32_t)c[3] << 8 | c[2];

			if (high > 0x10) /* the last character is 0x10FFFF */
				return false;
		}
		if (!at->step)
			return true;
	}
	return true;
}

static bool are_texts(const struct ckpt_value *dtype, const struct item_place *at)
{
	const struct ckpt_value *state = dtype->kind == CKPT_CALL && dtype->u.call->state ? dtype->u.call->state : &nothing, *array = item(state, 2), *fields = item(state, 4);
	struct item_place inner = *at;
	size_t nbytes;

	if (!letter_of(dtype))
		return false; /* a field without a dtype, which was said */
	nbytes = (size_t)size_of(dtype);

	if (letter_of(dtype) == 'U')
		return are_characters(at, nbytes, is_big(dtype));
	if (at->depth == MOST_NESTING || !ckpt_scan_may_look(at->w, 1))
		return at->depth < MOST_NESTING;
	inner.depth++;
	if (is_kind(array, CKPT_TUPLE)) { /* items of an array lie one behind the other */
		const struct ckpt_value *base = item(array, 0);
		size_t step;

		if (!letter_of(base))
			return false;
		step = (size_t)size_of(base);
		if (letter_of(base) == 'U')
			return are_characters(at, nbytes, is_big(base));
		for (; step && inner.off < at->data->len && inner.off - at->off + step <= nbytes && has_text(at->w, base, inner.depth); inner.off += step)
			if (!are_texts(base, &inner))
				return false;
		return true;
	}
	for (uint32_t i = 1; is_kind(fields, CKPT_DICT) && i < fields->u.seq.count; i += 2) {
		const struct ckpt_value *off = item(fields->u.seq.items[i], 1);

		if (off->kind != CKPT_INT)
			return false;
		inner.off = at->off + (size_t)off->u.integer;
		if (!are_texts(item(fields->u.seq.items[i], 0), &inner))
			return false;
	}
	return true;
}

bool ckpt_scan_numpy_are_texts(struct ckpt_scan_walk *w, const struct ckpt_value *dtype, const struct ckpt_scan_numpy_data *data)
{
	struct item_place whole = { .w = w, .data = data, .step = (size_t)size_of(dtype) };

	return are_texts(dtype, &whole);
}
