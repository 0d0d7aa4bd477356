/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a set's items. Python puts them into a table by their hashes, in the order of the
 * file, and writes them as they stand there. Hashes of numbers are known; those of texts differ in
 * every process, and those of objects are addresses: a set with such items stays as it is in the
 * file. Probing, growth and hashes must stay those of CPython, step by step, or the order is wrong.
 * Source: CPython 3.9 to 3.14, Objects/setobject.c (set_add_entry, set_table_resize,
 * set_insert_clean), Python/pyhash.c (_Py_HashDouble), Objects/longobject.c (long_hash).
 */
#include "resave/resaver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_TUPLES = 4,
	MOST_IN_TUPLE = 64,
	LEAST_TABLE = 8,
	LINEAR_PROBES = 9,
	PERTURB_SHIFT = 5,
	HASH_BITS = 61,
	MANY = 50000,
	HASH_INFINITE = 314159
};
static const uint64_t MODULUS = (UINT64_C(1) << HASH_BITS) - 1;

/* Of an int: its remainder. */
static uint64_t signed_hash(uint64_t remainder, bool negative)
{
	uint64_t hash = negative ? -remainder : remainder;

	return hash == UINT64_MAX ? (uint64_t)-2 : hash; /* -1 says that there is none */
}

static uint64_t hash_of_bytes(const uint8_t *bytes, uint64_t len)
{
	bool negative = len && bytes[len - 1] & 0x80;
	uint64_t rest = 0, carry = negative;

	for (uint64_t i = len; i-- > 0;) { /* two's complement: the absolute value is ~x + 1 */
		uint8_t byte = negative ? (uint8_t)~bytes[i] : bytes[i];

		rest = ((rest << 8 & MODULUS) | rest >> (HASH_BITS - 8)) + byte;
		if (rest >= MODULUS)
			rest -= MODULUS;
	}
	rest += carry;
	return signed_hash(rest >= MODULUS ? rest - MODULUS : rest, negative);
}

static uint64_t hash_of_double(double v)
{
	bool negative = v < 0;
	uint64_t x = 0;
	int exponent;
	double m;

	if (isinf(v))
		return negative ? (uint64_t)-HASH_INFINITE : HASH_INFINITE;
	m = frexp(negative ? -v : v, &exponent);
	while (m != 0) {
		uint64_t y;

		x = ((x << 28) & MODULUS) | x >> (HASH_BITS - 28);
		m *= 268435456.0; /* 2**28 */
		exponent -= 28;
		y = (uint64_t)m;
		m -= (double)y;
		x += y;
		if (x >= MODULUS)
			x -= MODULUS;
	}
	exponent = exponent >= 0 ? exponent % HASH_BITS
				 : HASH_BITS - 1 - ((-1 - exponent) % HASH_BITS);
	x = ((x << exponent) & MODULUS) | x >> (HASH_BITS - exponent);
	return signed_hash(x, negative);
}

static bool hash_of(const struct ckpt_saver *s, const struct ckpt_value *v, unsigned depth,
		    uint64_t *out);

/* Since Python 3.8: tuple_hash() in Objects/tupleobject.c. */
static bool hash_of_tuple(const struct ckpt_saver *s, const struct ckpt_seq *items, unsigned depth,
			  uint64_t *out)
{
	const uint64_t first = 11400714785074694791u, second = 14029467366897019727u,
		       fifth = 2870177450012600261;
	uint64_t hash = fifth, lane;

	if (depth == MOST_TUPLES || items->count > MOST_IN_TUPLE)
		return false;
	for (uint32_t i = 0; i < items->count; i++) {
		if (!hash_of(s, ckpt_resave_now(s, items->items[i]), depth + 1, &lane))
			return false;
		hash += lane * second;
		hash = (hash << 31 | hash >> 33) * first;
	}
	hash += items->count ^ (fifth ^ 3527539);
	*out = hash == UINT64_MAX ? 1546275796 : hash;
	return true;
}

/* torch.Size((1, 2)) is a tuple. */
static const struct ckpt_value *inside_of_size(const struct ckpt_saver *s,
					       const struct ckpt_value *v)
{
	const struct ckpt_value *items =
		ckpt_value_is_call_of(v, "torch", "Size") ? ckpt_resave_arg(s, v, 0) : NULL;

	return items && items->kind == CKPT_TUPLE ? items : v;
}

/* False: it cannot be known. */
static bool hash_of(const struct ckpt_saver *s, const struct ckpt_value *v, unsigned depth,
		    uint64_t *out)
{
	uint8_t bytes[8];

	v = inside_of_size(s, v);
	if (v->kind == CKPT_TUPLE)
		return hash_of_tuple(s, &v->u.seq, depth, out);

	switch (v->kind) {
	case CKPT_BOOL:
	case CKPT_INT:
		for (int i = 0; i < 8; i++)
			bytes[i] = (uint8_t)((uint64_t)v->u.integer >> 8 * i);
		*out = hash_of_bytes(bytes, sizeof(bytes));
		return true;
	case CKPT_BIGINT:
		*out = hash_of_bytes((const uint8_t *)v->u.bytes.ptr, v->u.bytes.len);
		return true;
	case CKPT_FLOAT:
		*out = isnan(v->u.real) ? 0 : hash_of_double(v->u.real);
		return !isnan(v->u.real);
	default: return false;
	}
}

struct slot {
	const struct ckpt_value *key; /* NULL: free */
	uint64_t hash;
};

struct set_table {
	const struct ckpt_saver *s;
	struct slot *slots; /* malloc */
	uint64_t mask, used;
};

/*
 * Equal hashes are equal numbers here: those that are not lie a multiple of 2**61 - 1 apart, and
 * are told apart by their kinds and values.
 */
static bool is_same(const struct ckpt_saver *s, const struct ckpt_value *a,
		    const struct ckpt_value *b)
{
	bool whole_a, whole_b;

	a = inside_of_size(s, ckpt_resave_now(s, a));
	b = inside_of_size(s, ckpt_resave_now(s, b));
	whole_a = a->kind == CKPT_INT || a->kind == CKPT_BOOL;
	whole_b = b->kind == CKPT_INT || b->kind == CKPT_BOOL;
	/* whose hash is known, and so no deeper than that goes */
	if (a->kind == CKPT_TUPLE && b->kind == CKPT_TUPLE) {
		bool same = a->u.seq.count == b->u.seq.count;

		for (uint32_t i = 0; same && i < a->u.seq.count; i++)
			same = is_same(s, a->u.seq.items[i], b->u.seq.items[i]);
		return same;
	}
	if (whole_a && whole_b)
		return a->u.integer == b->u.integer;
	if (a->kind == CKPT_FLOAT && b->kind == CKPT_FLOAT)
		return a->u.real == b->u.real;
	if (a->kind == CKPT_FLOAT && whole_b)
		return a->u.real == (double)b->u.integer;
	if (whole_a && b->kind == CKPT_FLOAT)
		return b->u.real == (double)a->u.integer;
	return a->kind == CKPT_BIGINT && b->kind == CKPT_BIGINT &&
	       a->u.bytes.len == b->u.bytes.len &&
	       !memcmp(a->u.bytes.ptr, b->u.bytes.ptr, a->u.bytes.len);
}

/* Where KEY is, or is to be. */
static struct slot *find_slot(const struct set_table *t, const struct ckpt_value *key,
			      uint64_t hash)
{
	uint64_t perturb = hash, i = hash & t->mask;

	for (;;) {
		uint64_t probes = i + LINEAR_PROBES <= t->mask ? LINEAR_PROBES : 0;

		for (uint64_t n = 0; n <= probes; n++) {
			struct slot *slot = &t->slots[i + n];

			if (!slot->key || (slot->hash == hash && is_same(t->s, slot->key, key)))
				return slot;
		}
		perturb >>= PERTURB_SHIFT;
		i = (i * 5 + 1 + perturb) & t->mask;
	}
}

static bool resize_table(struct set_table *t, uint64_t least)
{
	struct set_table wider = { .s = t->s, .mask = LEAST_TABLE, .used = t->used };

	while (wider.mask <= least)
		wider.mask <<= 1;
	wider.slots = calloc(wider.mask, sizeof(*wider.slots));
	if (!wider.slots)
		return false;
	wider.mask--;
	for (uint64_t i = 0; i <= t->mask; i++)
		if (t->slots[i].key)
			*find_slot(&wider, t->slots[i].key, t->slots[i].hash) = t->slots[i];
	free(t->slots);
	*t = wider;
	return true;
}

static bool add_key(struct set_table *t, const struct ckpt_value *key, uint64_t hash)
{
	struct slot *slot = find_slot(t, key, hash);

	if (slot->key)
		return true;
	*slot = (struct slot){ key, hash };
	t->used++;
	return t->used * 5 < t->mask * 3 ||
	       resize_table(t, t->used > MANY ? t->used * 2 : t->used * 4);
}

/* SEQ as Python would write it again, in SCRATCH; *KNOWN false: it stays. False: no memory. */
static bool order_items(struct ckpt_saver *s, const struct ckpt_seq *seq, struct ckpt_seq *out,
			bool *known)
{
	struct set_table t = { .s = s,
			       .slots = calloc(LEAST_TABLE, sizeof(*t.slots)),
			       .mask = LEAST_TABLE - 1 };
	bool fine = t.slots != NULL;
	uint64_t hash;

	*known = seq->count > 1;
	for (uint32_t i = 0; fine && *known && i < seq->count; i++) {
		const struct ckpt_value *v = ckpt_resave_now(s, seq->items[i]);

		*known = hash_of(s, v, 0, &hash);
		fine = !*known || add_key(&t, seq->items[i], hash);
	}
	for (uint64_t i = 0; fine && *known && i <= t.mask; i++)
		if (t.slots[i].key)
			fine = ckpt_seq_add(s->scratch, out, t.slots[i].key);
	free(t.slots);
	return fine;
}

const struct ckpt_value *ckpt_resave_set(struct ckpt_saver *s, const struct ckpt_value *v)
{
	struct ckpt_seq seq = { 0 };
	struct ckpt_value *copy;
	bool known;

	if (!order_items(s, &v->u.seq, &seq, &known))
		return NULL;
	if (!known)
		return v;
	copy = ckpt_resave_make(s, v->kind);
	if (!copy)
		return NULL;
	copy->id = v->id;
	copy->pos = v->pos;
	copy->u.seq = seq;
	return copy;
}

/*
 * A set that is met again inside of its own items, before it was made, is written once more, with a
 * list of its own: as often as it has items, since each is written by then. Where that goes on, it
 * is one that no Python has.
 */
static bool may_be_written_again(struct ckpt_saver *s, const struct ckpt_value *v, uint32_t count,
				 bool *no_memory)
{
	*no_memory = false;
	if (!v->id || v->id >= s->model->next_id)
		return false;
	if (!s->times_written)
		s->times_written = calloc(s->model->next_id, sizeof(*s->times_written));
	*no_memory = !s->times_written;
	return s->times_written && s->times_written[v->id]++ <= count;
}

/* A list or tuple that stands at one place only. */
static bool is_unshared_seq(const struct ckpt_value *v)
{
	return (v->kind == CKPT_LIST || v->kind == CKPT_TUPLE) && v->u.seq.count &&
	       !(v->flags & CKPT_VALUE_SHARED);
}

const struct ckpt_value *ckpt_resave_with_own_args(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *args = ckpt_resave_now(s, v->u.call->args), **items;
	/* SHARED: what is in it is somebody's, too */
	bool is_shared = args->flags & CKPT_VALUE_SHARED, no_memory = false;
	uint32_t count = args->kind == CKPT_TUPLE && !is_shared ? args->u.seq.count : 0, most = 0;

	for (uint32_t i = 0; i < count; i++)
		if (is_unshared_seq(ckpt_resave_now(s, args->u.seq.items[i])))
			most += ckpt_resave_now(s, args->u.seq.items[i])->u.seq.count;
	if (!most || !may_be_written_again(s, v, most, &no_memory))
		return no_memory ? NULL : ckpt_resave_with_attributes(s, v);
	items = ckpt_arena_alloc(s->scratch, count * sizeof(*items));
	if (!items)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt_value *arg = ckpt_resave_now(s, args->u.seq.items[i]);
		struct ckpt_value *copy =
			is_unshared_seq(arg) ? ckpt_resave_make(s, arg->kind) : NULL;

		if (is_unshared_seq(arg) && !copy)
			return NULL;
		if (copy)
			copy->u.seq = arg->u.seq;
		items[i] = copy ? copy : arg;
	}
	v = ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, count));
	return v ? ckpt_resave_with_attributes(s, v) : NULL;
}

/* set(list), as protocols up to 3 have it */
const struct ckpt_value *ckpt_resave_set_call(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *list = ckpt_resave_arg(s, v, 0), *items[1];
	struct ckpt_seq seq = { 0 };
	struct ckpt_value *copy;
	bool known = false;

	if (list->kind != CKPT_LIST)
		return ckpt_resave_with_attributes(s, v);
	if (!order_items(s, &list->u.seq, &seq, &known))
		return NULL;
	if (!known)
		return ckpt_resave_with_own_args(s, v);
	copy = ckpt_resave_make(s, CKPT_LIST);
	if (!copy)
		return NULL;
	copy->u.seq = seq;
	items[0] = copy;
	return ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, 1));
}
