/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a prefix that explains most of the names that only one side has: "module.fc.weight" here
 * and "fc.weight" there. A few names are tried as samples, and the guess that explains most names
 * wins, if it explains half of them.
 */
#include "diff/differ.h"

#include "base/buf.h"
#include "base/strmap.h"

#include <string.h>

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

/* Where the components of a name begin; at most MOST_COMPONENTS. */
static uint32_t find_components(const struct ckpt_entry *e, uint32_t *at)
{
	uint32_t count = 1;

	at[0] = 0;
	for (uint32_t i = 0; i < e->name_len && count < MOST_COMPONENTS; i++)
		if (e->name[i] == '.')
			at[count++] = i + 1;
	return count;
}

/* Is E without the bytes FROM to TO a name of OTHERS? */
static bool is_other_name(const struct names *others, const struct ckpt_entry *e, uint32_t from,
			  uint32_t to, struct ckpt_buf *scratch)
{
	scratch->len = 0;
	ckpt_buf_add(scratch, e->name, from);
	ckpt_buf_add(scratch, e->name + to, e->name_len - to);
	return !scratch->bad && scratch->len &&
	       ckpt_strmap_find(&others->map, (const char *)scratch->data, scratch->len);
}

static bool explains_name(const struct names *others, const struct ckpt_entry *e,
			  const char *prefix, uint32_t len, struct ckpt_buf *scratch)
{
	uint32_t at[MOST_COMPONENTS], count = find_components(e, at);

	for (uint32_t i = 0; i < count; i++)
		if (len < e->name_len - at[i] && !memcmp(e->name + at[i], prefix, len) &&
		    is_other_name(others, e, at[i], at[i] + len, scratch))
			return true;
	return false;
}

static uint64_t count_explained(const struct names *names, const struct names *others,
				const char *prefix, uint32_t len, struct ckpt_buf *scratch)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < names->count; i++)
		if (ckpt_entry_has_numbers(names->items[i]))
			count += explains_name(others, names->items[i], prefix, len, scratch);
	return count;
}

/* The first part of E without which it is a name of OTHERS. */
static bool guess_prefix(const struct names *others, const struct ckpt_entry *e,
			 const char **prefix, uint32_t *len, struct ckpt_buf *scratch)
{
	uint32_t at[MOST_COMPONENTS], count = find_components(e, at);

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = i + 1; k < count; k++)
			if (is_other_name(others, e, at[i], at[k], scratch)) {
				*prefix = e->name + at[i];
				*len = at[k] - at[i];
				return true;
			}
	return false;
}

static void try_side(struct ckpt_differ *d, char side, const struct names *names,
		     const struct names *others, struct ckpt_buf *scratch)
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
		if (!guess_prefix(others, names->items[i], &prefix, &len, scratch) ||
		    len >= sizeof(r->prefix))
			continue;
		count = count_explained(names, others, prefix, len, scratch);
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
	struct ckpt_buf scratch = { 0 };
	int rc = init_names(&a, d->only_a, d->only_a_count, err);

	if (rc == 0)
		rc = init_names(&b, d->only_b, d->only_b_count, err);
	if (rc == 0 && a.tensors && b.tensors) {
		try_side(d, 'a', &a, &b, &scratch);
		try_side(d, 'b', &b, &a, &scratch);
	}
	ckpt_strmap_clear(&a.map);
	ckpt_strmap_clear(&b.map);
	ckpt_buf_clear(&scratch);
	return rc;
}
