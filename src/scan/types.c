/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the values of a pickle are, in the words of the table (CKPT_TYPE_*), and whether an
 * argument is one that its row takes.
 *
 * What must stay true: a type holds for the value as it is now. What a load would make of it must
 * follow from the opcodes alone; where it does not, the type is HIDDEN or UNKNOWN, which no row of
 * plain data takes. Sizes come from the file, so every product is checked.
 */
#include "base/ascii.h"
#include "base/grow.h"
#include "base/text.h"
#include "scan/walk.h"

#include "tensor/dtype.h"
#include "tensor/shape.h"

#include <string.h>

enum { MOST_SHORT = 64, MOST_TAG = 8192, MOST_TAGS = 16 /* of tuples in tuples torch takes twice as long for each */, MOST_DIMENSIONS = 64, MOST_DIGITS = 4300, MOST_BIGINT = 1786 /* bytes of 4300 digits */ };

static const struct ckpt_scan_rule *rule_of(const struct ckpt_global *g)
{
	return ckpt_scan_rule(g->module, g->name);
}

const struct ckpt_scan_rule *ckpt_scan_rule_of(const struct ckpt_value *func)
{
	return func->kind == CKPT_GLOBAL ? rule_of(func->u.global) : NULL;
}

static uint64_t type_of_global(const struct ckpt_value *v)
{
	const struct ckpt_scan_rule *rule = rule_of(v->u.global);

	if (rule->call == CKPT_CALL_GETATTR || rule->call == CKPT_CALL_GETITEM)
		return CKPT_TYPE_FUNCTION;
	if (rule->kind != CKPT_SCAN_DATA)
		return CKPT_TYPE_STRANGER;
	if (rule->is_function)
		return CKPT_TYPE_FUNCTION;
	return rule->call == CKPT_CALL_NEVER ? rule->result : CKPT_TYPE_CLASS;
}

/* What may be had of it only by running the file, or a storage, which torch makes of the id. */
static uint64_t type_of_persistent(const struct ckpt_value *v)
{
	const struct ckpt_value *pid = v->u.persid.pid, *first;

	if (ckpt_scan_is_unknown(v))
		return CKPT_TYPE_UNKNOWN;
	if (pid->kind == CKPT_STR || pid->kind == CKPT_PY2_STR)
		return CKPT_TYPE_TENSOR; /* of torch 0.1 */
	first = pid->kind == CKPT_TUPLE && pid->u.seq.count ? pid->u.seq.items[0] : NULL;
	if (first && ckpt_value_is_str(first, "storage"))
		return CKPT_TYPE_STORAGE;
	return first && ckpt_value_is_str(first, "reduce_package") ? CKPT_TYPE_OBJECT
								   : CKPT_TYPE_STRANGER;
}

static uint64_t type_of_call(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->u.call;
	const struct ckpt_global *g = ckpt_scan_callee(w, call->func);
	const struct ckpt_scan_rule *rule = g ? rule_of(g) : NULL;

	if (!rule)
		return CKPT_TYPE_UNKNOWN;
	/* of torch._utils.torch: all else is an object, or was found dangerous */
	if (rule->call == CKPT_CALL_GETATTR)
		return ckpt_value_is_global(call->args->kind == CKPT_TUPLE && call->args->u.seq.count
						    ? call->args->u.seq.items[0]
						    : &ckpt_value_none,
					    "torch._utils", "torch")
			       ? CKPT_TYPE_CONSTANT
			       : CKPT_TYPE_ATTRIBUTE;
	if (call->func->kind != CKPT_GLOBAL || rule->kind != CKPT_SCAN_DATA)
		return CKPT_TYPE_OBJECT;
	if (rule->result == CKPT_TYPE_FILLED && call->args->kind == CKPT_TUPLE &&
	    call->args->u.seq.count > (rule->args[0] & CKPT_TYPE_CLASS ? 1u : 0u))
		return CKPT_TYPE_HIDDEN; /* not all that is in it was set by opcodes */
	if (rule->call == CKPT_CALL_FROM_BYTES &&
	    (call->args->kind != CKPT_TUPLE || !call->args->u.seq.count ||
	     !(call->args->u.seq.items[0]->flags & CKPT_SCAN_HOLDS_STORAGE)))
		return CKPT_TYPE_HIDDEN;
	return rule->result;
}

uint64_t ckpt_scan_type(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (v->kind < CKPT_GLOBAL)
		return CKPT_TYPE_LITERAL(v->kind);
	if (v->kind == CKPT_GLOBAL)
		return type_of_global(v);
	if (v->kind == CKPT_PERSID)
		return type_of_persistent(v);
	return v->kind == CKPT_CALL ? type_of_call(w, v) : CKPT_TYPE_UNKNOWN;
}

/* ---- shapes of arguments ---- */

static bool is_sequence(const struct ckpt_value *v)
{
	return v->kind == CKPT_TUPLE || v->kind == CKPT_LIST;
}

static const struct ckpt_value *item(const struct ckpt_value *v, uint32_t i)
{
	return is_sequence(v) && i < v->u.seq.count ? v->u.seq.items[i] : &ckpt_value_none;
}

static bool is_literal_shape(const struct ckpt_value *v)
{
	if (!is_sequence(v) || v->u.seq.count > MOST_DIMENSIONS)
		return false;
	for (uint32_t i = 0; i < v->u.seq.count; i++)
		if (v->u.seq.items[i]->kind != CKPT_INT)
			return false;
	return true;
}

/* ... or torch.Size of one */
static bool is_shape(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	return is_literal_shape(v) || ckpt_scan_type(w, v) == CKPT_TYPE_SIZE;
}

static bool is_hooks(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	if (v->kind == CKPT_NONE)
		return true;
	return (v->kind == CKPT_DICT || ckpt_value_is_call_of(v, "collections", "OrderedDict")) &&
	       (v->kind == CKPT_DICT || ckpt_scan_type(w, v) == CKPT_TYPE_FILLED) && pairs &&
	       !pairs->count;
}

static bool is_metadata(const struct ckpt_value *v)
{
	if (v->kind == CKPT_NONE)
		return true;
	if (v->kind != CKPT_DICT || v->u.seq.count > MOST_DIMENSIONS)
		return false;
	for (uint32_t i = 0; i + 1 < v->u.seq.count; i += 2)
		if (v->u.seq.items[i]->kind != CKPT_STR || v->u.seq.items[i + 1]->kind != CKPT_BOOL)
			return false;
	return true;
}

/* Sizes that ckpt_shape_is_countable(). */
static bool are_countable(const struct ckpt_value *sizes)
{
	uint64_t shape[MOST_DIMENSIONS];
	uint32_t ndim = 0;

	if (sizes->kind == CKPT_CALL) /* torch.Size */
		sizes = item(sizes->u.call->args, 0);
	for (; ndim < MOST_DIMENSIONS && item(sizes, ndim)->kind == CKPT_INT; ndim++) {
		if (item(sizes, ndim)->u.integer < 0)
			return false;
		shape[ndim] = (uint64_t)item(sizes, ndim)->u.integer;
	}
	return ckpt_shape_is_countable(shape, ndim);
}

/*
 * An array of numpy of numbers that may become a tensor, over the same bytes: those that protocol 5 has are a bytearray, as what
 * may not be written to, a bytes object, may be one that Python has for everybody, as it has those of one byte.
 */
static bool is_numbers_array(const struct ckpt_value *v)
{
	return ckpt_scan_is_numbers_array(v) && (v->u.call->state || item(v->u.call->args, 0)->kind == CKPT_BYTEARRAY) && are_countable(v->u.call->state ? item(v->u.call->state, 1) : item(v->u.call->args, 2));
}

/* (indices, values, shape[, is coalesced]), or (rows, columns, values, shape) */
static bool is_sparse(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	uint32_t tensors = 0;

	if (v->kind != CKPT_TUPLE || v->u.seq.count < 3 || v->u.seq.count > 4)
		return false;
	while (tensors < v->u.seq.count && ckpt_scan_type(w, item(v, tensors)) == CKPT_TYPE_TENSOR)
		tensors++;
	return tensors >= 2 && tensors < v->u.seq.count && is_shape(w, item(v, tensors)) && are_countable(item(v, tensors)) &&
	       (v->u.seq.count == tensors + 1 ||
		(tensors == 2 &&
		 (item(v, 3)->kind == CKPT_BOOL || item(v, 3)->kind == CKPT_NONE)));
}

/* A number, some in a list, or a tensor of them. */
static bool is_numbers(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (v->kind == CKPT_LIST) {
		if (!ckpt_scan_may_look(w, v->u.seq.count))
			return false;
		for (uint32_t i = 0; i < v->u.seq.count; i++)
			if (v->u.seq.items[i]->kind != CKPT_INT &&
			    v->u.seq.items[i]->kind != CKPT_FLOAT)
				return false;
		return true;
	}
	return v->kind == CKPT_INT || v->kind == CKPT_FLOAT ||
	       ckpt_scan_type(w, v) == CKPT_TYPE_TENSOR;
}

/* (qscheme, scale, zero point[, axis]) */
static bool is_quantizer(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	return v->kind == CKPT_TUPLE && v->u.seq.count >= 3 && v->u.seq.count <= 4 &&
	       ckpt_scan_type(w, item(v, 0)) == CKPT_TYPE_QSCHEME && is_numbers(w, item(v, 1)) &&
	       is_numbers(w, item(v, 2)) &&
	       (v->u.seq.count == 3 || item(v, 3)->kind == CKPT_INT);
}

static bool is_pairs(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (v->kind == CKPT_DICT) {
		/* an OrderedDict adds each of them again */
		ckpt_scan_keys_added(w, &(struct ckpt_scan_added_keys){ .form = CKPT_KEYS_OF_PAIRS, .items = v->u.seq.items, .count = v->u.seq.count / 2 });
		return true;
	}
	if (!is_sequence(v) || !ckpt_scan_may_look(w, v->u.seq.count))
		return false;
	for (uint32_t i = 0; i < v->u.seq.count; i++)
		if (!is_sequence(v->u.seq.items[i]) || v->u.seq.items[i]->u.seq.count != 2)
			return false;
	ckpt_scan_keys_added(w, &(struct ckpt_scan_added_keys){ .form = CKPT_KEYS_IN_TUPLES, .items = v->u.seq.items, .count = v->u.seq.count });
	return true;
}

static bool is_keys(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (is_sequence(v))
		ckpt_scan_keys_added(w, &(struct ckpt_scan_added_keys){ .form = CKPT_KEYS_ALL, .items = v->u.seq.items, .count = v->u.seq.count });
	return is_sequence(v) || v->kind == CKPT_SET || v->kind == CKPT_FROZENSET;
}

/* "-12", "0.5", "3/4", "nan": what takes no more time or memory than it has characters */
static bool is_digits(const struct ckpt_value *v)
{
	if ((v->kind != CKPT_STR && v->kind != CKPT_PY2_STR) || v->u.bytes.len > MOST_DIGITS)
		return false;
	if (ckpt_value_is_str(v, "nan") || ckpt_value_is_str(v, "inf") || ckpt_value_is_str(v, "-inf"))
		return true;
	for (uint64_t i = 0; i < v->u.bytes.len; i++)
		if (!ckpt_is_digit((unsigned char)v->u.bytes.ptr[i]) &&
		    (!v->u.bytes.ptr[i] || !strchr("+-./", v->u.bytes.ptr[i])))
			return false;
	return v->u.bytes.len;
}

/* [1, 2.5, True, 'x']: what bytes and arrays are made of, number by number */
static bool are_scalars(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (!is_sequence(v) || !ckpt_scan_may_look(w, v->u.seq.count))
		return false;
	for (uint32_t i = 0; i < v->u.seq.count; i++)
		if (v->u.seq.items[i]->kind > CKPT_PY2_STR)
			return false;
	return true;
}

static bool is_latin1(const struct ckpt_value *v)
{
	return ckpt_value_is_str(v, "latin1") || ckpt_value_is_str(v, "latin-1");
}

/* b'b' as every protocol writes it, or 'b' */
static bool is_letter_b(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (v->kind == CKPT_CALL && ckpt_scan_type(w, v) == CKPT_TYPE_CODED)
		v = item(v->u.call->args, 0);
	return (v->kind == CKPT_STR || v->kind == CKPT_PY2_STR || v->kind == CKPT_BYTES) && v->u.bytes.len == 1 && *v->u.bytes.ptr == 'b';
}

static bool is_short_text(const struct ckpt_value *v)
{
	return (v->kind == CKPT_STR || v->kind == CKPT_PY2_STR) && v->u.bytes.len <= MOST_SHORT;
}

/* "Dict[str, List[int]]": torch goes into itself for each bracket. */
static bool is_tag(const struct ckpt_value *v)
{
	unsigned depth = 0, deepest = 0;

	if ((v->kind != CKPT_STR && v->kind != CKPT_PY2_STR) || v->u.bytes.len > MOST_TAG)
		return false;
	for (uint64_t i = 0; i < v->u.bytes.len; i++) {
		depth += v->u.bytes.ptr[i] == '[' || v->u.bytes.ptr[i] == '(';
		depth -= depth && (v->u.bytes.ptr[i] == ']' || v->u.bytes.ptr[i] == ')');
		deepest = depth > deepest ? depth : deepest;
	}
	return deepest <= MOST_TAGS;
}

/* Quantized ones are in the table as all dtypes are. */
static bool is_numbers_dtype(const struct ckpt_value *v)
{
	return v->kind == CKPT_GLOBAL && type_of_global(v) == CKPT_TYPE_DTYPE && !ckpt_dtype_is_quantized(ckpt_dtype_find(v->u.global->name));
}

/* torch.Tensor, what is made of it, or what may be, of a package. */
static bool is_tensor_class(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	static const char *const names[] = { "Tensor", "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer", "DTensor", NULL };
	const struct ckpt_scan_rule *rule = ckpt_scan_rule_of(v);

	if (rule && rule->kind == CKPT_SCAN_DATA)
		return ckpt_is_one_of(rule->name, names);
	if (rule && !strncmp(v->u.global->module, "torch.", strlen("torch.")) && !strstr(v->u.global->name, "Tensor") && !strstr(v->u.global->name, "Parameter") && !strstr(v->u.global->name, "Buffer"))
		return false; /* torch.nn.modules.linear.Linear */
	return ckpt_scan_type(w, v) & (CKPT_TYPE_STRANGER | CKPT_TYPE_ATTRIBUTE) && !(rule && ckpt_scan_is_of_library(v->u.global->module));
}

bool ckpt_scan_fits(struct ckpt_scan_walk *w, const struct ckpt_value *v, uint64_t wanted)
{
	if (ckpt_scan_type(w, v) & wanted)
		return true;
	return (wanted & CKPT_TYPE_SHAPE && is_shape(w, v)) ||
	       (wanted & CKPT_TYPE_LITERAL_SHAPE && is_literal_shape(v)) ||
	       (wanted & CKPT_TYPE_SIZES && is_shape(w, v) && are_countable(v)) ||
	       (wanted & CKPT_TYPE_HOOKS && is_hooks(w, v)) ||
	       (wanted & CKPT_TYPE_METADATA && is_metadata(v)) ||
	       (wanted & CKPT_TYPE_SPARSE && is_sparse(w, v)) ||
	       (wanted & CKPT_TYPE_QUANTIZER && is_quantizer(w, v)) ||
	       (wanted & CKPT_TYPE_PAIRS && is_pairs(w, v)) ||
	       (wanted & CKPT_TYPE_KEYS && is_keys(w, v)) ||
	       (wanted & CKPT_TYPE_SCALARS && are_scalars(w, v)) ||
	       (wanted & CKPT_TYPE_LETTER_B && is_letter_b(w, v)) ||
	       (wanted & CKPT_TYPE_DIGITS && is_digits(v)) ||
	       (wanted & CKPT_TYPE_LATIN1 && is_latin1(v)) ||
	       (wanted & CKPT_TYPE_SHORT && is_short_text(v)) ||
	       (wanted & CKPT_TYPE_ON_DEVICE && ckpt_scan_is_on_device(w, v)) ||
	       (wanted & CKPT_TYPE_TAG && is_tag(v)) ||
	       (wanted & CKPT_TYPE_TENSOR_CLASS && is_tensor_class(w, v)) ||
	       (wanted & CKPT_TYPE_NUMBERS_DTYPE && is_numbers_dtype(v)) ||
	       (wanted & CKPT_TYPE_NUMBERS_ARRAY && is_numbers_array(v)) ||
	       (wanted & CKPT_TYPE_ZERO && v->kind == CKPT_TUPLE && v->u.seq.count == 1 &&
		item(v, 0)->kind == CKPT_INT && item(v, 0)->u.integer == 0) ||
	       (wanted & CKPT_TYPE_SMALL_BIGINT && v->kind == CKPT_BIGINT &&
		v->u.bytes.len <= MOST_BIGINT);
}

/* ---- storages ---- */

/* The numbers of a shape; false: too many. */
static bool numbers_of(const struct ckpt_value *v, int64_t *out, uint32_t *count)
{
	if (v->kind == CKPT_CALL) /* torch.Size(...), whose argument is one */
		v = v->u.call->args->u.seq.count ? v->u.call->args->u.seq.items[0]
						 : &ckpt_value_empty_tuple;
	if (!is_sequence(v) || v->u.seq.count > MOST_DIMENSIONS)
		return false;
	*count = v->u.seq.count;
	for (uint32_t i = 0; i < *count; i++) {
		if (v->u.seq.items[i]->kind != CKPT_INT)
			return false;
		out[i] = v->u.seq.items[i]->u.integer;
	}
	return true;
}

static enum ckpt_dtype dtype_of(const struct ckpt_value *cls)
{
	return cls->kind == CKPT_GLOBAL ? ckpt_dtype_of_storage(cls->u.global->name)
					: CKPT_DTYPE_UNKNOWN;
}

/* ('storage', class, key, location, number of items, ...) */
bool ckpt_scan_read_storage_id(const struct ckpt_value *pid, struct ckpt_scan_storage *out)
{
	const struct ckpt_value *count = item(pid, 4);
	enum ckpt_dtype dtype;

	if (pid->kind != CKPT_TUPLE || count->kind != CKPT_INT || count->u.integer < 0 ||
	    count->u.integer > INT64_MAX / 64)
		return false;
	dtype = dtype_of(item(pid, 1));
	*out = (struct ckpt_scan_storage){ (uint64_t)count->u.integer, 1, (int8_t)dtype, ckpt_dtype_is_quantized(dtype) };
	if (dtype != CKPT_DTYPE_UNKNOWN) {
		out->item_nbytes = ckpt_dtype_size(dtype);
		out->nbytes *= ckpt_dtype_packed(dtype); /* as if each item had a byte of its own */
	}
	return !__builtin_mul_overflow(out->nbytes, out->item_nbytes, &out->nbytes);
}

/* Of a view, (key, offset, number of items): what there is of the storage from the offset on. */
static bool read_view(const struct ckpt_value *view, struct ckpt_scan_storage *storage)
{
	const struct ckpt_value *offset = item(view, 1), *count = item(view, 2);
	uint64_t step = storage->item_nbytes, start, nbytes;

	if (view->kind == CKPT_NONE)
		return true;
	if (view->kind != CKPT_TUPLE || (storage->dtype != CKPT_DTYPE_UNKNOWN && ckpt_dtype_packed((enum ckpt_dtype)storage->dtype) != 1) || view->u.seq.count != 3 || offset->kind != CKPT_INT || count->kind != CKPT_INT || offset->u.integer < 0 || count->u.integer < 0 ||
	    __builtin_mul_overflow((uint64_t)offset->u.integer, step, &start) || __builtin_mul_overflow((uint64_t)count->u.integer, step, &nbytes) ||
	    start > storage->nbytes || nbytes > storage->nbytes - start)
		return false;
	storage->nbytes = nbytes;
	return true;
}

bool ckpt_scan_read_storage(const struct ckpt_value *v, struct ckpt_scan_storage *out)
{
	return v->kind == CKPT_PERSID && ckpt_scan_read_storage_id(v->u.persid.pid, out) && read_view(item(v->u.persid.pid, 5), out);
}

/* The same of a storage that is in bytes of the pickle, which were looked into. */
static bool storage_of(struct ckpt_scan_walk *w, const struct ckpt_value *v, struct ckpt_scan_storage *out)
{
	const struct ckpt_value *bytes;
	const uint64_t *found;

	if (v->kind != CKPT_CALL)
		return ckpt_scan_read_storage(v, out);
	bytes = item(v->u.call->args, 0);
	found = ckpt_strmap_find(&w->sizes, (const char *)&bytes, sizeof(bytes));
	if (found)
		*out = *(const struct ckpt_scan_storage *)(uintptr_t)*found;
	return found;
}

bool ckpt_scan_may_be_quantized(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	struct ckpt_scan_storage storage;

	return (w->has_two_classes && w->has_quantized) || (storage_of(w, v, &storage) && storage.is_quantized);
}

/* ---- tensors whose numbers a call copies, or looks at ---- */

/* What a tensor that is made of a storage, as all are that torch writes here, has in it. */
struct numbers {
	enum ckpt_dtype dtype;
	int64_t count;
	bool is_contiguous;
	bool has_gaps; /* numbers along the last dimension do not lie one behind the other */
	bool is_new, is_turned; /* its strides are those that torch gives a new tensor, or that with the last two dimensions swapped */
	bool is_one; /* in the first dimension, or there are none */
	bool has_bits; /* negative or conjugated: torch copies them where it needs the numbers */
	const struct ckpt_value *location; /* whatever the file says; NULL: the storage has none */
};

/* Metadata of a tensor: torch looks for the keys 'neg' and 'conj', and sets what is there, False as True. */
static bool sets_bits(const struct ckpt_value *metadata)
{
	return metadata->kind == CKPT_DICT && metadata->u.seq.count;
}

/* Are these the strides that torch gives a new tensor? TURNED: one of which the last two dimensions are swapped then. */
static bool are_strides_of_new(const int64_t *size, const int64_t *stride, uint32_t count, bool turned)
{
	int64_t step = 1;

	for (uint32_t i = count; i-- > 0;) {
		uint32_t at = turned && count > 1 && i + 2 >= count ? 2 * count - 3 - i : i;

		if (stride[at] != step || (size[at] && __builtin_mul_overflow(step, size[at], &step)))
			return false;
	}
	return true;
}

static bool numbers_of_tensor(struct ckpt_scan_walk *w, const struct ckpt_value *v, struct numbers *out)
{
	const struct ckpt_value *args = v->kind == CKPT_CALL ? v->u.call->args : &ckpt_value_none, *func = v->kind == CKPT_CALL ? v->u.call->func : &ckpt_value_none;
	const struct ckpt_scan_rule *rule = ckpt_scan_rule_of(func);
	int64_t size[MOST_DIMENSIONS], stride[MOST_DIMENSIONS], step = 1;
	uint32_t sizes, strides;
	struct ckpt_scan_storage storage;

	/* of a storage that has two classes torch takes the first */
	if (!rule || (rule->call != CKPT_CALL_TENSOR && rule->call != CKPT_CALL_TENSOR_OF_DTYPE) || w->has_two_classes || !storage_of(w, item(args, 0), &storage) ||
	    !numbers_of(item(args, 2), size, &sizes) || !numbers_of(item(args, 3), stride, &strides) || sizes != strides)
		return false;
	*out = (struct numbers){ .dtype = storage.dtype, .is_contiguous = true };
	if (rule->call == CKPT_CALL_TENSOR_OF_DTYPE)
		out->dtype = item(args, 6)->kind == CKPT_GLOBAL ? ckpt_dtype_find(item(args, 6)->u.global->name) : CKPT_DTYPE_UNKNOWN;
	out->has_bits = sets_bits(item(args, rule->call == CKPT_CALL_TENSOR_OF_DTYPE ? 7 : 6));
	if (item(args, 0)->kind == CKPT_PERSID)
		out->location = item(item(args, 0)->u.persid.pid, 3);
	for (uint32_t i = sizes; i-- > 0;) {
		out->is_contiguous &= size[i] == 1 || stride[i] == step;
		if (i == sizes - 1)
			out->has_gaps = size[i] > 1 && stride[i] != 1;
		if (__builtin_mul_overflow(step, size[i], &step))
			return false;
	}
	out->count = step;
	out->is_contiguous |= !step; /* there are none */
	out->is_new = are_strides_of_new(size, stride, sizes, false);
	out->is_turned = are_strides_of_new(size, stride, sizes, true);
	out->is_one = !step || (sizes && size[0] == 1);
	return out->dtype != CKPT_DTYPE_UNKNOWN;
}

/* To go from one device to another, numbers are copied. */
static bool are_in_one_place(const struct numbers *a, const struct numbers *b)
{
	if (!a->location || !b->location)
		return a->location == b->location;
	if (!ckpt_value_is_text(a->location) || !ckpt_value_is_text(b->location))
		return false;
	return a->location->u.bytes.len == b->location->u.bytes.len && !memcmp(a->location->u.bytes.ptr, b->location->u.bytes.ptr, a->location->u.bytes.len);
}

/*
 * Numbers of which there are none. torch has sparse tensors over such storages, but writes none, and
 * where a load breaks off behind one, the next load in that process looks at its indices, and fails.
 */
static bool is_on_meta(const struct numbers *n)
{
	return n->location && ckpt_value_is_text(n->location) && n->location->u.bytes.len >= 4 && !memcmp(n->location->u.bytes.ptr, "meta", 4);
}

/* torch.sparse_bsr, or _get_layout("torch.sparse_bsr") */
static bool has_blocks(const struct ckpt_value *layout)
{
	const struct ckpt_value *text = layout->kind == CKPT_CALL ? item(layout->u.call->args, 0) : &ckpt_value_none;

	return ckpt_value_is_global(layout, "torch", "sparse_bsr") || ckpt_value_is_global(layout, "torch", "sparse_bsc") || ckpt_value_is_str(text, "torch.sparse_bsr") || ckpt_value_is_str(text, "torch.sparse_bsc");
}

/* (layout, (indices, values, ...)) or (layout, (rows, columns, values, shape)) */
static const char *misfit_of_sparse(struct ckpt_scan_walk *w, const struct ckpt_value *args, bool is_later)
{
	const struct ckpt_value *parts = item(args, 1);
	struct numbers n[3];
	uint32_t tensors = 0;
	bool is_coalesced;

	while (tensors < 3 && ckpt_scan_type(w, item(parts, tensors)) == CKPT_TYPE_TENSOR) {
		if (!numbers_of_tensor(w, item(parts, tensors), &n[tensors]))
			return "a sparse tensor of parts that are not each made of a storage, of one class";
		tensors++;
	}
	is_coalesced = tensors == 2 && item(parts, 3)->kind == CKPT_BOOL && item(parts, 3)->u.integer;
	for (uint32_t i = 0; i < tensors; i++)
		if (is_on_meta(&n[i]))
			return "a sparse tensor on 'meta', which torch does not write so";
	if (tensors == 2 && n[0].dtype != CKPT_DTYPE_INT64)
		return "a sparse tensor whose indices are no int64: torch copies them";
	if (is_coalesced && n[0].has_gaps)
		return "a sparse tensor that is said to be coalesced, whose indices have gaps: torch reads, and believes, what is in these";
	if (tensors == 3 && ((n[0].dtype != CKPT_DTYPE_INT64 && n[0].dtype != CKPT_DTYPE_INT32) || n[0].dtype != n[1].dtype))
		return "a sparse tensor whose indices are not both int64, or int32";
	if (tensors == 3 && (!n[0].is_contiguous || !n[1].is_contiguous))
		return "a sparse tensor whose indices are not one behind the other: torch copies them";
	if (is_coalesced && !n[1].is_new)
		return "a sparse tensor that is said to be coalesced, with values that do not lie one behind the other: torch reads them so once it is in rows";
	if (tensors == 2 && n[1].is_one && !n[1].is_new)
		return "a sparse tensor of one entry, or none, with values whose strides are not those that torch gives them: it takes the first for the length of an entry, and reads and writes so many numbers";
	if (tensors == 3 && !n[2].is_new && !(n[2].is_turned && has_blocks(item(args, 0))))
		return "a sparse tensor in rows with values that do not lie one behind the other: torch reads them so, to sum them up";
	for (uint32_t i = 0; i < tensors && is_later; i++)
		if (n[i].has_bits)
			return "a sparse tensor of negative or conjugated parts: torch copies them before it reads the bytes of the stream's storages";
	for (uint32_t i = 1; i < tensors && is_later; i++)
		if (!are_in_one_place(&n[0], &n[i]))
			return "a sparse tensor of parts on different devices: torch copies them before it reads the bytes of the stream's storages";
	return NULL;
}

/* How many scales or zero points, in a list or a tensor; -1: it is neither. */
static int64_t count_of_channels(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	struct numbers n;

	if (v->kind == CKPT_LIST)
		return v->u.seq.count;
	return numbers_of_tensor(w, v, &n) ? n.count : -1;
}

/* torch 1.13 and 2.6 take any number of scales; what packs such a tensor for a module reads as many as there are channels. */
static bool are_channels(struct ckpt_scan_walk *w, const struct ckpt_value *shape, const struct ckpt_value *quantizer)
{
	const struct ckpt_value *axis = quantizer->u.seq.count == 4 ? item(quantizer, 3) : NULL;
	int64_t size[MOST_DIMENSIONS];
	uint32_t sizes;

	return axis && axis->kind == CKPT_INT && numbers_of(shape, size, &sizes) && axis->u.integer >= 0 && axis->u.integer < sizes &&
	       count_of_channels(w, item(quantizer, 1)) == size[axis->u.integer] && count_of_channels(w, item(quantizer, 2)) == size[axis->u.integer];
}

/* (qscheme, scale or scales, zero point or points[, axis]) */
static const char *misfit_of_quantizer(struct ckpt_scan_walk *w, const struct ckpt_value *args, bool is_later)
{
	const struct ckpt_value *quantizer = item(args, 4), *scheme = item(quantizer, 0), *scales = item(quantizer, 1), *points = item(quantizer, 2);
	const struct ckpt_value *storage = item(args, 0);
	struct numbers of_scales, of_points, own = { .location = storage->kind == CKPT_PERSID ? item(storage->u.persid.pid, 3) : NULL };

	if (ckpt_value_is_global(scheme, "torch", "per_tensor_affine") || ckpt_value_is_global(scheme, "torch", "per_tensor_symmetric"))
		return scales->kind == CKPT_CALL || points->kind == CKPT_CALL ? "a scale or zero point of the whole tensor that is a tensor" : NULL;
	if (!are_channels(w, item(args, 2), quantizer))
		return "another number of scales or zero points than there are channels";
	if (scales->kind != CKPT_CALL && points->kind != CKPT_CALL)
		return NULL;
	/* torch writes the scheme of whole zero points for others, too: it goes by their dtype */
	if (!numbers_of_tensor(w, scales, &of_scales) || !numbers_of_tensor(w, points, &of_points) || !of_scales.is_contiguous || !of_points.is_contiguous ||
	    !((of_points.dtype == CKPT_DTYPE_INT64 && of_scales.dtype == CKPT_DTYPE_FLOAT64) || (of_points.dtype == CKPT_DTYPE_FLOAT32 && of_scales.dtype == CKPT_DTYPE_FLOAT32)))
		return "scales or zero points that torch does not keep as they are, but copies";
	if (is_later && (of_scales.has_bits || of_points.has_bits))
		return "negative or conjugated scales or zero points: torch copies them before it reads the bytes of the stream's storages";
	if (is_later && (!are_in_one_place(&own, &of_scales) || !are_in_one_place(&own, &of_points)))
		return "scales or zero points on another device: torch copies them before it reads the bytes of the stream's storages";
	return NULL;
}

/* (buffer, sizes, strides, offsets) of a nested tensor: torch reads the last three from where they begin, whatever their strides. */
static bool are_in_a_row(struct ckpt_scan_walk *w, const struct ckpt_value *parts)
{
	struct numbers n;

	for (uint32_t i = 0; i < 4; i++)
		if (!numbers_of_tensor(w, item(parts, i), &n) || !n.is_contiguous || n.has_bits)
			return false;
	return true;
}

bool ckpt_scan_begins_storage(const struct ckpt_value *v)
{
	static const char *const makers[] = { "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", NULL };
	const struct ckpt_call *call = v->kind == CKPT_CALL ? v->u.call : NULL;
	const struct ckpt_value *offset = call ? item(call->args, 1) : &ckpt_value_none;

	return call && call->func->kind == CKPT_GLOBAL && ckpt_is_one_of(call->func->u.global->name, makers) && offset->kind == CKPT_INT && !offset->u.integer &&
	       !sets_bits(item(call->args, strcmp(call->func->u.global->name, "_rebuild_tensor_v3") ? 6 : 7));
}

static bool is_wide(const struct ckpt_value *dtype)
{
	return dtype->kind == CKPT_GLOBAL && ckpt_dtype_find(dtype->u.global->name) == CKPT_DTYPE_COMPLEX128;
}

/* It begins where torch has laid it, which is at a multiple of 64 bytes: no view in a stream, and nothing in bytes, which may have one. */
static bool is_whole_storage(const struct ckpt_value *v)
{
	const struct ckpt_value *pid = v->kind == CKPT_PERSID ? v->u.persid.pid : &ckpt_value_none;

	return pid->kind == CKPT_TUPLE && (pid->u.seq.count == 5 || item(pid, 5)->kind == CKPT_NONE);
}

static void keep_given_back(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_value **grown = ckpt_grow(w->given_back, w->given_back_count, &w->given_back_cap, sizeof(*grown));

	w->s->no_memory |= !grown;
	if (!grown)
		return;
	w->given_back = grown;
	w->given_back[w->given_back_count++] = v;
}

/* As many strides as sizes, where no storage says what there is: torch 1.12 reads behind the shorter one. */
static bool are_as_many(const struct ckpt_scan_rule *rule, const struct ckpt_value *args)
{
	int64_t sizes[MOST_DIMENSIONS];
	uint32_t count, strides;

	for (uint32_t i = 0; i + 1 < CKPT_SCAN_MOST_ARGS; i++)
		if (rule->args[i] == CKPT_TYPE_SIZES)
			return numbers_of(item(args, i), sizes, &count) && numbers_of(item(args, i + 1), sizes, &strides) && count == strides;
	return true;
}

const char *ckpt_scan_misread(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule, const struct ckpt_value *args)
{
	bool is_later = w->in->flags & CKPT_SCAN_NUMBERS_LATER;
	struct numbers n;

	if (!are_as_many(rule, args))
		return "sizes and strides of other dimensions";
	if (rule->result == CKPT_TYPE_DEVICE && !ckpt_scan_keeps_device(args))
		return "a device with an index below 0 or above 127: torch makes another of it";
	if (rule->call == CKPT_CALL_TENSOR_WHOLE)
		return misfit_of_quantizer(w, args, is_later);
	if (rule->call == CKPT_CALL_OF_PLACES && rule->args[1] == CKPT_TYPE_SPARSE) {
		w->has_sparse = true;
		return misfit_of_sparse(w, args, is_later);
	}
	if (rule->call == CKPT_CALL_FROM_BYTES)
		return is_later && w->has_sparse ? "bytes that are loaded behind a sparse tensor: torch looks at its indices then, before it reads the bytes of the stream's storages" : NULL;
	if (rule->call == CKPT_CALL_TENSOR_OF_DTYPE && is_wide(item(args, 6)) && !is_whole_storage(item(args, 0)))
		return "numbers of 16 bytes in what may begin at no multiple of these: torch crashes on them";
	if (rule->call == CKPT_CALL_OF_PLACES && !are_in_a_row(w, args))
		return "a nested tensor of parts whose numbers are not one behind the other, as torch reads them";
	if (rule->call == CKPT_CALL_OF_PLACES && !ckpt_scan_begins_storage(item(args, 0)))
		return "a nested tensor whose buffer begins inside of its storage: torch 2.14 begins where that does";
	if (rule->call == CKPT_CALL_OF_PLACES)
		return is_later ? "a nested tensor: torch looks at its sizes before it reads the bytes of the stream's storages" : NULL;
	if (rule->args[0] == CKPT_TYPE_NUMBERS_ARRAY && !ckpt_scan_is_array_of(item(args, 0), item(args, 1)))
		return "an array of other numbers than the tensor is to have: torch converts them, each version in its way";
	if (rule->call != CKPT_CALL_OF_TENSORS || rule->args[0] != CKPT_TYPE_TENSOR)
		return NULL;
	if (is_later)
		return "a copy of a tensor: torch makes it before it reads the bytes of the stream's storages";
	if (!numbers_of_tensor(w, item(args, 0), &n) || item(args, 1)->kind != CKPT_GLOBAL || ckpt_dtype_find(item(args, 1)->u.global->name) != n.dtype)
		return "a copy of a tensor with another dtype than it has";
	keep_given_back(w, args);
	keep_given_back(w, item(args, 0));
	return NULL;
}

void ckpt_scan_check_given_back(struct ckpt_scan_walk *w)
{
	for (uint32_t i = 0; i < w->given_back_count; i++)
		if (w->given_back[i]->flags & CKPT_VALUE_SHARED) {
			ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "arguments", w->in->base + w->given_back[i]->pos, "a tensor that is in two places: torch gives it back as its copy for a device, if it is there already");
			return;
		}
}

/*
 * torch takes zero points of any dtype, and ends the process where those of numbers of 32 bits are
 * floats.
 */
bool ckpt_scan_is_quantized_so(struct ckpt_scan_walk *w, const struct ckpt_value *args)
{
	const struct ckpt_value *storage = item(args, 0), *quantizer = item(args, 4), *zero_points = item(quantizer, 2);
	struct numbers numbers;
	bool whole = zero_points->kind == CKPT_INT || zero_points->kind == CKPT_LIST || (numbers_of_tensor(w, zero_points, &numbers) && numbers.dtype == CKPT_DTYPE_INT64);
	struct ckpt_scan_storage read;

	if (!storage_of(w, storage, &read))
		return false;
	if (w->has_two_classes) /* the width may be another, too */
		return false;
	return read.item_nbytes == 1 || (whole && !ckpt_value_is_global(item(quantizer, 0), "torch", "per_channel_affine_float_qparams"));
}

/* Of items that share bytes torch counts where they begin in bytes, and takes them to lie one behind the other. */
static bool are_packed_inside(const struct ckpt_scan_storage *storage, int64_t begin, int64_t count)
{
	uint32_t packed = storage->dtype == CKPT_DTYPE_UNKNOWN ? 1 : ckpt_dtype_packed((enum ckpt_dtype)storage->dtype);
	int64_t end;

	if (packed == 1 || !count)
		return true;
	return !__builtin_mul_overflow(begin, packed, &end) && !__builtin_add_overflow(end, count, &end) && (uint64_t)end <= storage->nbytes;
}

bool ckpt_scan_is_in_storage(struct ckpt_scan_walk *w, const struct ckpt_seq *args, enum ckpt_scan_call call)
{
	int64_t size[MOST_DIMENSIONS], stride[MOST_DIMENSIONS], last = args->items[1]->u.integer, step, all = 1;
	uint32_t sizes, strides, item_nbytes;
	struct ckpt_scan_storage storage;

	if (args->items[1]->kind != CKPT_INT || last < 0 || !numbers_of(args->items[2], size, &sizes) ||
	    !numbers_of(args->items[3], stride, &strides) || sizes != strides || !are_countable(args->items[2]) ||
	    !storage_of(w, args->items[0], &storage))
		return false;
	item_nbytes = storage.item_nbytes;
	if (call == CKPT_CALL_TENSOR_OF_DTYPE) {
		const struct ckpt_global *g = args->items[6]->kind == CKPT_GLOBAL ? args->items[6]->u.global : NULL;

		item_nbytes = g && ckpt_dtype_find(g->name) != CKPT_DTYPE_UNKNOWN
				      ? ckpt_dtype_size(ckpt_dtype_find(g->name))
				      : 16;
	}
	for (uint32_t i = 0; i < sizes; i++) {
		if (size[i] < 0 || stride[i] < 0 || __builtin_mul_overflow(all, size[i], &all))
			return false;
		if (size[i] && (__builtin_mul_overflow(size[i] - 1, stride[i], &step) ||
				__builtin_add_overflow(last, step, &last)))
			return false;
	}
	if (call == CKPT_CALL_TENSOR_WHOLE && (uint64_t)all > storage.nbytes / item_nbytes)
		return false;
	if (!are_packed_inside(&storage, args->items[1]->u.integer, all))
		return false;
	/* torch makes no storage larger for a tensor without numbers: a column of an empty matrix begins behind its end */
	return !all ? args->items[1]->u.integer <= INT32_MAX : (uint64_t)last < storage.nbytes / item_nbytes;
}

uint64_t ckpt_scan_wanted(const struct ckpt_scan_rule *rule, uint32_t i)
{
	uint64_t wanted = 0;

	for (uint32_t n = 0; n <= i && n < CKPT_SCAN_MOST_ARGS; n++)
		if (rule->args[n])
			wanted = rule->args[n];
	return wanted;
}
