/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of one dict, and items of one set, that Python takes for the same: 1, True and 1.0, or one
 * text twice. A load keeps the last value, under the first key; whoever reads the opcodes sees both.
 * No pickler writes two.
 *
 * A container that gets all of its keys at once is looked at then, each other one behind the last
 * opcode: so each key is looked at once, or twice.
 */
#include "scan/keys.h"

#include "base/grow.h"

#include <stdlib.h>

enum { FEW = 16 };

/* Keys that were seen, by their numbers: sorted, as a file could be made to fill one corner of a table. */
struct seen_keys {
	struct ckpt_scan_walk *w;
	uint64_t few[FEW], *numbers;
	size_t count;
	enum ckpt_scan_encoding encoding; /* of texts of Python 2 */
	struct ckpt_scan_identity_notes notes;
};

static bool make_room(struct seen_keys *k, size_t count)
{
	k->numbers = count <= FEW ? k->few : malloc(count * sizeof(*k->numbers));
	k->w->s->no_memory |= !k->numbers;
	return k->numbers;
}

static void see(struct seen_keys *k, const struct ckpt_value *key)
{
	k->numbers[k->count++] = ckpt_scan_identity(k->w, key, k->encoding, &k->notes);
}

static void see_all(struct seen_keys *k, const struct ckpt_seq *seq, uint32_t step)
{
	for (uint32_t i = 0; i + step <= seq->count && k->w->s->rc == 0; i += step)
		see(k, seq->items[i]);
}

/* What a call was given: a dict, or pairs. */
static bool is_pairs(const struct ckpt_value *v)
{
	return v->kind == CKPT_LIST || v->kind == CKPT_TUPLE;
}

static void see_arguments(struct seen_keys *k, const struct ckpt_seq *args)
{
	for (uint32_t i = 0; i < args->count; i++) {
		const struct ckpt_value *v = args->items[i];

		if (v->kind == CKPT_DICT)
			see_all(k, &v->u.seq, 2);
		for (uint32_t n = 0; is_pairs(v) && n < v->u.seq.count; n++)
			if (is_pairs(v->u.seq.items[n]) && v->u.seq.items[n]->u.seq.count)
				see(k, v->u.seq.items[n]->u.seq.items[0]);
	}
}

static size_t room_for(const struct ckpt_value *v)
{
	size_t count = 0;

	if (v->kind != CKPT_CALL)
		return v->u.seq.count / (v->kind == CKPT_DICT ? 2 : 1);
	for (uint32_t i = 0; v->u.call->args->kind == CKPT_TUPLE && i < v->u.call->args->u.seq.count; i++) {
		const struct ckpt_value *arg = v->u.call->args->u.seq.items[i];

		count += arg->kind == CKPT_DICT ? arg->u.seq.count / 2 : is_pairs(arg) ? arg->u.seq.count : 0;
	}
	return count + v->u.call->pairs.count / 2;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool has_two(struct seen_keys *k)
{
	if (k->count > 1)
		qsort(k->numbers, k->count, sizeof(*k->numbers), by_number);
	for (size_t i = 1; i < k->count; i++)
		if (k->numbers[i] == k->numbers[i - 1])
			return true;
	return false;
}

/* Are there numbers of numpy, and such of Python that it may round to be compared with these? */
static bool are_rounded(unsigned numbers)
{
	return (numbers & CKPT_KEY_NUMPY_INFINITE && numbers & CKPT_KEY_OVER) || (numbers & CKPT_KEY_NUMPY_HUGE && numbers & CKPT_KEY_HUGE) ||
	       (numbers & CKPT_KEY_NUMPY_SMALL && numbers & CKPT_KEY_COMPLEX);
}

static void finish(struct seen_keys *k, bool twice, uint64_t at)
{
	if (twice)
		ckpt_scan_find(k->w->s, CKPT_SCAN_UNREADABLE, "key", at, k->encoding == CKPT_SCAN_UTF8 ? "two keys that are the same to Python: a load keeps one of them" : "two keys that are the same to a load with encoding='latin1' or 'bytes', which keeps one of them");
	else if (k->count > 1 && (k->notes.is_vague || are_rounded(k->notes.numbers) || k->notes.has_two_zones || (k->notes.has_unit && k->notes.has_mixed_units)))
		ckpt_scan_find(k->w->s, CKPT_SCAN_UNREADABLE, "key", at, "a key of which it is not known whether another is the same to Python");
	if (k->numbers != k->few)
		free(k->numbers);
}

static void see_container(struct seen_keys *k, const struct ckpt_value *v)
{
	if (v->kind == CKPT_DICT) {
		see_all(k, &v->u.seq, 2);
	} else if (v->kind == CKPT_SET) {
		see_all(k, &v->u.seq, 1);
	} else if (v->kind == CKPT_CALL) {
		if (v->u.call->args->kind == CKPT_TUPLE)
			see_arguments(k, &v->u.call->args->u.seq);
		see_all(k, &v->u.call->pairs, 2);
	}
}

/* A container that has more keys than it got at once. */
static void check_container(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	struct seen_keys k = { .w = w };
	bool twice;

	if (!make_room(&k, room_for(v)))
		return;
	do {
		k.count = 0;
		see_container(&k, v);
		twice = has_two(&k);
	} while (!twice && k.notes.has_py2_text && ++k.encoding < CKPT_SCAN_ENCODINGS);
	finish(&k, twice, w->in->base + v->pos);
}

static bool has_arguments(const struct ckpt_value *v)
{
	return v && v->kind == CKPT_CALL && v->u.call->args->kind == CKPT_TUPLE && v->u.call->args->u.seq.count;
}

void ckpt_scan_keys_compared(struct ckpt_scan_walk *w, const struct ckpt_scan_added_keys *a)
{
	const struct ckpt_value **grown;
	struct seen_keys k = { .w = w };
	bool twice;

	if (!a->count)
		return;
	if (a->old_count || has_arguments(a->container)) {
		if (w->grown_count && w->grown[w->grown_count - 1] == a->container)
			return;
		grown = ckpt_grow(w->grown, w->grown_count, &w->grown_cap, sizeof(*grown));
		w->s->no_memory |= !grown;
		if (!grown)
			return;
		w->grown = grown;
		w->grown[w->grown_count++] = a->container;
		return;
	}
	if (a->count < 2 || !make_room(&k, a->count))
		return;
	do {
		k.count = 0;
		for (size_t i = 0; i < a->count; i++)
			see(&k, ckpt_scan_added_key(a, i));
		twice = has_two(&k);
	} while (!twice && k.notes.has_py2_text && ++k.encoding < CKPT_SCAN_ENCODINGS);
	finish(&k, twice, ckpt_scan_at(w));
}

static int by_place(const void *a, const void *b)
{
	const struct ckpt_value *x = *(const struct ckpt_value *const *)a, *y = *(const struct ckpt_value *const *)b;

	return (x > y) - (x < y);
}

void ckpt_scan_check_keys(struct ckpt_scan_walk *w)
{
	if (w->grown_count > 1)
		qsort(w->grown, w->grown_count, sizeof(*w->grown), by_place);
	for (uint32_t i = 0; i < w->grown_count && w->s->rc == 0 && !w->s->no_memory; i++)
		if (!i || w->grown[i] != w->grown[i - 1])
			check_container(w, w->grown[i]);
}
