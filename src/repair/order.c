/* SPDX-License-Identifier: Apache-2.0 */
#include "repair/order.h"

#include "model/model.h"

#include <stdlib.h>
#include <string.h>

/*
 * Writers store storages in the order in which the pickle mentions them, older ones sorted by their
 * keys as texts. Source: torch/serialization.py, _save(), of torch 1.6 to 2.14.
 */

struct position {
	const char *key; /* borrowed from the pickle */
	size_t len;
	uint32_t mentioned, sorted; /* its number in either order */
	bool is_there;
};

struct order {
	const struct ckpt_remains *remains;
	struct position *positions; /* malloc, as mentioned */
	uint32_t count;
	struct ckpt_strmap by_key;
};

static int compare_keys(const void *a, const void *b)
{
	const struct position *one = *(const struct position *const *)a,
			      *other = *(const struct position *const *)b;
	size_t len = one->len < other->len ? one->len : other->len;
	int c = memcmp(one->key, other->key, len);

	return c ? c : (one->len > other->len) - (one->len < other->len);
}

static int list_mentioned(struct order *o, struct ckpt_error *err)
{
	const struct ckpt_seq *persids = &o->remains->pickle.persids;

	o->positions = calloc(persids->count + (size_t)1, sizeof(*o->positions));
	if (!o->positions)
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
		o->positions[o->count] = (struct position){ .key = key->u.bytes.ptr,
							    .len = key->u.bytes.len,
							    .mentioned = o->count };
		o->count++;
	}
	return 0;
}

static int number_sorted(struct order *o, struct ckpt_error *err)
{
	struct position **sorted = malloc((o->count + (size_t)1) * sizeof(struct position *));

	if (!sorted)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < o->count; i++)
		sorted[i] = &o->positions[i];
	qsort(sorted, o->count, sizeof(struct position *), compare_keys);
	for (uint32_t i = 0; i < o->count; i++)
		sorted[i]->sorted = i;
	free(sorted);
	return 0;
}

/* NULL: it is not the record of a storage. */
static struct position *find_position(const struct order *o, const struct ckpt_remnant *record)
{
	const char *key = ckpt_remains_key(o->remains, record);
	uint64_t *slot = key ? ckpt_strmap_find(&o->by_key, key, strlen(key)) : NULL;

	return slot ? &o->positions[*slot] : NULL;
}

static bool all_there(struct order *o)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < o->remains->count; i++) {
		const struct ckpt_remnant *record = &o->remains->records[i];
		struct position *position = record->no_header ? NULL : find_position(o, record);

		if (position && !position->is_there) {
			position->is_there = true;
			there++;
		}
	}
	return there == o->count;
}

/* Does NEXT follow PLACE in one of the orders? NULL: what is behind all storages. */
static bool follows(const struct order *o, const struct position *position,
		    const struct position *next)
{
	uint32_t mentioned = next ? next->mentioned : o->count;
	uint32_t sorted = next ? next->sorted : o->count;

	return mentioned == position->mentioned + 1 || sorted == position->sorted + 1;
}

static void mark_gaps(struct order *o, bool *out)
{
	const struct ckpt_remains *remains = o->remains;

	for (uint32_t i = 0; i + 1 < remains->count; i++) {
		const struct position *position = find_position(o, &remains->records[i]);

		out[i] = position &&
			 !follows(o, position, find_position(o, &remains->records[i + 1]));
	}
}

int ckpt_order_find_gaps(const struct ckpt_remains *remains, bool *out, struct ckpt_error *err)
{
	struct order o = { .remains = remains };
	int rc;

	memset(out, 0, remains->count * sizeof(*out));
	if (remains->pickle_at < 0)
		return 0;
	rc = list_mentioned(&o, err);
	if (rc == 0)
		rc = number_sorted(&o, err);
	if (rc == 0 && !all_there(&o))
		mark_gaps(&o, out);
	ckpt_strmap_clear(&o.by_key);
	free(o.positions);
	return rc;
}
