/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/differ.h"

#include "base/buf.h"
#include "base/strmap.h"

#include <string.h>

/* Names of one side that are names of the other with something taken out: "module.fc.weight", "fc.weight". */

enum { SAMPLES = 8, MOST_COMPONENTS = 32 };

struct names {
	const struct ckpt_entry **items;
	uint32_t count, tensors;
	struct ckpt_strmap map;
};

static int init_names(struct names *n, const struct ckpt_entry **items, uint32_t count,
		      struct ckpt_error *err)
{
	*n = (struct names){ .items = items, .count = count };
	for (uint32_t i = 0; i < count; i++) {
		bool there;

		if (!ckpt_entry_has_numbers(items[i]))
			continue;
		n->tensors++;
		if (!ckpt_strmap_insert(&n->map, items[i]->name, items[i]->name_len, i, &there))
			return ckpt_fail_nomem(err);
	}
	return 0;
}

/* Where the components of a name begin, and behind the last one's dot; at most MOST_COMPONENTS. */
static uint32_t components(const struct ckpt_entry *e, uint32_t *at)
{
	uint32_t count = 1;

	at[0] = 0;
	for (uint32_t i = 0; i < e->name_len && count < MOST_COMPONENTS; i++)
		if (e->name[i] == '.')
			at[count++] = i + 1;
	return count;
}

/* Is E without the bytes FROM to TO a name of OTHERS? */
static bool is_other(const struct names *others, const struct ckpt_entry *e, uint32_t from,
		     uint32_t to, struct ckpt_buf *work)
{
	work->len = 0;
	ckpt_buf_add(work, e->name, from);
	ckpt_buf_add(work, e->name + to, e->name_len - to);
	return !work->bad && work->len &&
	       ckpt_strmap_find(&others->map, (const char *)work->data, work->len);
}

static bool explains(const struct names *others, const struct ckpt_entry *e, const char *prefix,
		     uint32_t len, struct ckpt_buf *work)
{
	uint32_t at[MOST_COMPONENTS], count = components(e, at);

	for (uint32_t i = 0; i < count; i++)
		if (len < e->name_len - at[i] && !memcmp(e->name + at[i], prefix, len) &&
		    is_other(others, e, at[i], at[i] + len, work))
			return true;
	return false;
}

static uint64_t count_explained(const struct names *names, const struct names *others,
				const char *prefix, uint32_t len, struct ckpt_buf *work)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < names->count; i++)
		if (ckpt_entry_has_numbers(names->items[i]))
			count += explains(others, names->items[i], prefix, len, work);
	return count;
}

/* The first part of E that makes another name when it is taken out. */
static bool guess(const struct names *others, const struct ckpt_entry *e, const char **prefix,
		  uint32_t *len, struct ckpt_buf *work)
{
	uint32_t at[MOST_COMPONENTS], count = components(e, at);

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = i + 1; k < count; k++)
			if (is_other(others, e, at[i], at[k], work)) {
				*prefix = e->name + at[i];
				*len = at[k] - at[i];
				return true;
			}
	return false;
}

static void try_side(struct ckpt_differ *d, char side, const struct names *names,
		     const struct names *others, struct ckpt_buf *work)
{
	uint32_t samples = 0;
	uint32_t least = names->tensors < others->tensors ? names->tensors : others->tensors;

	for (uint32_t i = 0; i < names->count && samples < SAMPLES; i++) {
		struct ckpt_diff_report *r = &d->report;
		const char *prefix;
		uint64_t count;
		uint32_t len;

		if (!ckpt_entry_has_numbers(names->items[i]))
			continue;
		samples++;
		if (!guess(others, names->items[i], &prefix, &len, work) ||
		    len >= sizeof(r->prefix))
			continue;
		count = count_explained(names, others, prefix, len, work);
		if (count <= r->prefix_count || 2 * count < least)
			continue;
		r->prefixed = side;
		r->prefix_count = count;
		memcpy(r->prefix, prefix, len);
		r->prefix[len] = '\0';
	}
}

int ckpt_find_prefix(struct ckpt_differ *d, struct ckpt_error *err)
{
	struct names a, b = { 0 };
	struct ckpt_buf work = { 0 };
	int rc = init_names(&a, d->only_a, d->only_a_count, err);

	if (rc == 0)
		rc = init_names(&b, d->only_b, d->only_b_count, err);
	if (rc == 0 && a.tensors && b.tensors) {
		try_side(d, 'a', &a, &b, &work);
		try_side(d, 'b', &b, &a, &work);
	}
	ckpt_strmap_clear(&a.map);
	ckpt_strmap_clear(&b.map);
	ckpt_buf_clear(&work);
	return rc;
}
