/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries and names of the result of a DeepSpeed directory, in the order in which zero_to_fp32.py
 * would have them, and the dtype of each entry.
 *
 * An entry may have several names, and a name that is given anew keeps its place, as in a dict of
 * Python. Entries are pointers into the arena: the table may move, they do not.
 */
#include "set/zero/read.h"

#include "base/grow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- entries and names of the result ---- */

struct ckpt_zero_entry *ckpt_zero_new_entry(struct ckpt_zero_reader *r, uint32_t *number)
{
	struct ckpt_zero *z = r->zero;
	struct ckpt_zero_entry *e = ckpt_arena_calloc(z->arena, 1, sizeof(*e));
	void *grown = ckpt_grow(z->entries, z->entry_count, &z->entry_cap, sizeof(*z->entries));

	if (grown)
		z->entries = grown;
	if (!grown || !e)
		return NULL;
	*number = z->entry_count;
	z->entries[z->entry_count++] = e;
	return e;
}

int ckpt_zero_set_name(struct ckpt_zero_reader *r, const struct ckpt_value *key, uint32_t entry)
{
	struct ckpt_zero *z = r->zero;
	size_t len = key->u.bytes.len;
	const char *text = ckpt_arena_copy(z->arena, key->u.bytes.ptr, len);
	void *grown = ckpt_grow(z->order, z->name_count, &z->name_cap, sizeof(*z->order));
	uint64_t *slot;
	bool there;

	if (!grown)
		return ckpt_fail_nomem(r->err);
	z->order = grown;
	slot = text ? ckpt_strmap_insert(&z->by_name, text, len, z->name_count, &there) : NULL;
	if (!slot)
		return ckpt_fail_nomem(r->err);
	if (there)
		z->order[*slot].entry = entry;
	else
		z->order[z->name_count++] = (struct ckpt_zero_name){ text, len, entry };
	return 0;
}

const struct ckpt_zero_name *ckpt_zero_find_name(const struct ckpt_zero *z,
						 const struct ckpt_value *key)
{
	uint64_t *slot = key->kind == CKPT_STR
				 ? ckpt_strmap_find(&z->by_name, key->u.bytes.ptr, key->u.bytes.len)
				 : NULL;

	return slot ? &z->order[*slot] : NULL;
}

int ckpt_zero_check_key(struct ckpt_zero_reader *r, const struct ckpt_value *key, const char *what)
{
	if (key->kind == CKPT_STR)
		return 0;
	return ckpt_fail(r->err, CKPT_E_FORMAT, "'%s' has %s as a name, wanted str", what,
			 ckpt_value_kind_name(key));
}

/* ---- parameters that are cut ---- */

static uint64_t share_of(const struct ckpt_zero *z, uint64_t numel)
{
	uint64_t ranks = z->names.optim_count;

	return numel / ranks + (numel % ranks != 0);
}

int ckpt_zero_add_cut(struct ckpt_zero_reader *r, const struct ckpt_value *key,
		      const struct ckpt_zero_cut *cut, uint64_t *first)
{
	uint32_t number;
	struct ckpt_zero_entry *e = ckpt_zero_new_entry(r, &number);

	if (!e)
		return ckpt_fail_nomem(r->err);
	*e = (struct ckpt_zero_entry){ .ndim = cut->ndim,
				       .shape = cut->shape,
				       .numel = cut->numel,
				       .streams = cut->streams,
				       .stream_count = cut->stream_count,
				       .first = *first };
	e->share = cut->stream_count > 1 ? share_of(r->zero, cut->numel) : cut->numel;
	*first += e->share;
	return ckpt_zero_set_name(r, key, number);
}

static const char *name_of(const struct ckpt_zero *z, uint32_t entry, size_t *len)
{
	for (uint32_t i = 0; i < z->name_count; i++)
		if (z->order[i].entry == entry) {
			*len = z->order[i].len;
			return z->order[i].text;
		}
	*len = 0;
	return "";
}

/* All items of an entry have one dtype; torch.cat would look for one that holds them all. */
static int choose_dtype(struct ckpt_zero_reader *r, struct ckpt_zero_entry *e)
{
	uint64_t left = e->numel;

	e->dtype = CKPT_DTYPE_FLOAT32; /* of a tensor without items */
	for (uint32_t i = 0; left; i++) {
		uint64_t count = left < e->share ? left : e->share;
		enum ckpt_dtype dtype = e->dtype;

		if (ckpt_zero_stream_alike(&e->streams[i], e->first, count, &dtype) != count ||
		    (i && dtype != e->dtype))
			return ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
					 "its parts are of several dtypes");
		e->dtype = dtype;
		left -= count;
	}
	return 0;
}

int ckpt_zero_choose_dtypes(struct ckpt_zero_reader *r)
{
	struct ckpt_zero *z = r->zero;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < z->entry_count; i++) {
		struct ckpt_zero_entry *e = z->entries[i];
		const char *name;
		size_t len;

		if (!e->stream_count)
			continue;
		rc = choose_dtype(r, e);
		if (rc == 0 && e->streams == z->frozen && e->dtype != CKPT_DTYPE_FLOAT32 &&
		    !z->frozen_narrow++)
			z->frozen_dtype = e->dtype;
		if (rc < 0) {
			name = name_of(z, i, &len);
			ckpt_zero_fail_named(r, rc, "parameter", name, len);
		}
	}
	return rc;
}
