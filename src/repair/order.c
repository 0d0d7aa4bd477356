/* SPDX-License-Identifier: Apache-2.0 */
#include "repair/order.h"

#include "model/model.h"

#include <stdlib.h>
#include <string.h>

/*
 * Writers store storages in the order in which the pickle mentions them, older ones sorted by their keys as texts.
 * Source: torch/serialization.py, _save(), of torch 1.6 to 2.14.
 */

struct place {
	const char *key; /* borrowed from the pickle */
	size_t len;
	uint32_t mentioned, sorted; /* its number in either order */
	bool is_there;
};

struct order {
	const struct ckpt_remains *remains;
	struct place *places; /* malloc, as mentioned */
	uint32_t count;
	struct ckpt_strmap by_key;
};

static int compare(const void *a, const void *b)
{
	const struct place *one = *(const struct place *const *)a,
			   *other = *(const struct place *const *)b;
	size_t len = one->len < other->len ? one->len : other->len;
	int c = memcmp(one->key, other->key, len);

	return c ? c : (one->len > other->len) - (one->len < other->len);
}

static int note_mentions(struct order *o, struct ckpt_error *err)
{
	const struct ckpt_seq *persids = &o->remains->pickle.persids;

	o->places = calloc(persids->count + (size_t)1, sizeof(*o->places));
	if (!o->places)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < persids->count; i++) {
		const struct ckpt_value *key = ckpt_storage_key(persids->items[i]);
		bool there;

		if (!key)
			continue;
		if (!ckpt_strmap_insert(&o->by_key, key->u.bytes.ptr, key->u.bytes.len, o->count,
					&there))
			return ckpt_fail_nomem(err);
		if (there)
			continue;
		o->places[o->count] = (struct place){ .key = key->u.bytes.ptr,
						      .len = key->u.bytes.len,
						      .mentioned = o->count };
		o->count++;
	}
	return 0;
}

static int sort(struct order *o, struct ckpt_error *err)
{
	struct place **sorted = malloc((o->count + (size_t)1) * sizeof(struct place *));

	if (!sorted)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < o->count; i++)
		sorted[i] = &o->places[i];
	qsort(sorted, o->count, sizeof(struct place *), compare);
	for (uint32_t i = 0; i < o->count; i++)
		sorted[i]->sorted = i;
	free(sorted);
	return 0;
}

/* NULL: no storage's record. */
static struct place *place_of(const struct order *o, const struct ckpt_remnant *record)
{
	const char *key = ckpt_remains_key(o->remains, record);
	uint64_t *slot = key ? ckpt_strmap_find(&o->by_key, key, strlen(key)) : NULL;

	return slot ? &o->places[*slot] : NULL;
}

static bool all_there(struct order *o)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < o->remains->count; i++) {
		const struct ckpt_remnant *record = &o->remains->records[i];
		struct place *place = record->no_header ? NULL : place_of(o, record);

		if (place && !place->is_there) {
			place->is_there = true;
			there++;
		}
	}
	return there == o->count;
}

/* Does NEXT, NULL: behind all storages, follow PLACE in one of the orders? */
static bool follows(const struct order *o, const struct place *place, const struct place *next)
{
	uint32_t mentioned = next ? next->mentioned : o->count;
	uint32_t sorted = next ? next->sorted : o->count;

	return mentioned == place->mentioned + 1 || sorted == place->sorted + 1;
}

static void mark(struct order *o, bool *out)
{
	const struct ckpt_remains *remains = o->remains;

	for (uint32_t i = 0; i + 1 < remains->count; i++) {
		const struct place *place = place_of(o, &remains->records[i]);

		out[i] = place && !follows(o, place, place_of(o, &remains->records[i + 1]));
	}
}

int ckpt_order_find_gaps(const struct ckpt_remains *remains, bool *out, struct ckpt_error *err)
{
	struct order o = { .remains = remains };
	int rc;

	memset(out, 0, remains->count * sizeof(*out));
	if (remains->pickle_at < 0)
		return 0;
	rc = note_mentions(&o, err);
	if (rc == 0)
		rc = sort(&o, err);
	if (rc == 0 && !all_there(&o))
		mark(&o, out);
	ckpt_strmap_clear(&o.by_key);
	free(o.places);
	return rc;
}
