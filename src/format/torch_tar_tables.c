/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tables `storages` and `tensors`: a count, then so many entries, each a pickle and
 * raw bytes after it. What must stay true: everything is read at AT and before END of the
 * member, and AT moves past all that was read; values live in the arena of the archive, as the
 * last pickle is gone with the next one; keys are unique over both tables.
 */
#include "format/torch_tar_tables.h"

#include "base/grow.h"

#include "base/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t BUDGET_BASE = 64 << 20, MOST_BUDGET = (uint64_t)64 << 30;

int ckpt_tar_wrong(struct ckpt_tar_reader *r, const char *what, const struct ckpt_value *found)
{
	return ckpt_fail(r->err, CKPT_E_FORMAT, "wanted %s, found %s", what,
			 found ? ckpt_value_kind_name(found) : "nothing");
}

int ckpt_tar_next_pickle(struct ckpt_tar_reader *r)
{
	uint64_t start = r->at;
	int rc;

	ckpt_pickle_clear(&r->pickle);
	free(r->bytes);
	rc = ckpt_torch_tar_pickle(r->source, &r->at, r->end, &r->pickle, &r->bytes, r->err);
	if (rc == 0 && r->tt->visit)
		rc = r->tt->visit(r->tt->ctx, start, r->bytes, (size_t)r->pickle.nbytes, r->err);
	return rc;
}

static int next_count(struct ckpt_tar_reader *r, const char *what, uint64_t *out)
{
	int rc = ckpt_tar_next_pickle(r);
	const struct ckpt_value *v = r->pickle.root;

	if (rc < 0)
		return rc;
	if (v->kind != CKPT_INT || v->u.integer < 0)
		return ckpt_tar_wrong(r, what, v);
	*out = (uint64_t)v->u.integer;
	return 0;
}

/* The items of a tuple with COUNT of them. */
int ckpt_tar_next_tuple(struct ckpt_tar_reader *r, uint32_t count, const char *what,
			const struct ckpt_value *const **items)
{
	int rc = ckpt_tar_next_pickle(r);
	const struct ckpt_value *v = r->pickle.root;

	if (rc < 0)
		return rc;
	if (v->kind != CKPT_TUPLE || v->u.seq.count != count)
		return ckpt_tar_wrong(r, what, v);
	*items = v->u.seq.items;
	return 0;
}

int ckpt_tar_read_bytes(struct ckpt_tar_reader *r, void *out, size_t len)
{
	int rc;

	if (r->end - r->at < len)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "the member ends in the middle of an entry");
	rc = ckpt_source_read(r->source, r->at, out, len, r->err);
	r->at += len;
	return rc;
}

uint64_t ckpt_tar_little_endian(const uint8_t *bytes, size_t len)
{
	struct ckpt_reader of = { .data = bytes, .len = len };

	return ckpt_read_le(&of, len);
}

/* ---- entries ---- */

struct ckpt_torch_tar_entry *ckpt_tar_find_entry(const struct ckpt_tar_reader *r,
						 const struct ckpt_value *key)
{
	uint64_t *slot = NULL;

	if (key->kind == CKPT_INT)
		slot = ckpt_strmap_find(&r->tt->by_key, (const char *)&key->u.integer,
					sizeof(key->u.integer));
	return slot ? &r->tt->entries[*slot] : NULL;
}

/* A new entry under KEY; *OUT is valid until the next one. */
int ckpt_tar_add_entry(struct ckpt_tar_reader *r, const struct ckpt_value *key,
		       struct ckpt_torch_tar_entry **out)
{
	struct ckpt_torch_tar *tt = r->tt;
	const char *copy;
	void *grown;
	bool there;

	if (key->kind != CKPT_INT)
		return ckpt_tar_wrong(r, "a number as key", key);
	copy = ckpt_arena_copy(tt->arena, &key->u.integer, sizeof(key->u.integer));
	if (!copy)
		return ckpt_arena_fail(tt->arena, r->err);
	grown = ckpt_grow(tt->entries, tt->count, &tt->cap, sizeof(*tt->entries));
	if (!grown)
		return ckpt_fail_nomem(r->err);
	tt->entries = grown;
	if (!ckpt_strmap_insert(&tt->by_key, copy, sizeof(key->u.integer), tt->count, &there))
		return ckpt_fail_nomem(r->err);
	if (there)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "there are two things with the key %" PRId64, key->u.integer);
	*out = &tt->entries[tt->count++];
	memset(*out, 0, sizeof(**out));
	return 0;
}

/* ---- the whole ---- */

static int read_table(struct ckpt_tar_reader *r, enum ckpt_torch_tar_member which, const char *what,
		      int (*read_entry)(struct ckpt_tar_reader *r),
		      int (*read_rest)(struct ckpt_tar_reader *r))
{
	const struct ckpt_tar_member *member = &r->tt->members[which];
	uint64_t count = 0, start = member->off;
	int rc;

	r->at = member->off;
	r->end = member->off + member->len;
	rc = next_count(r, what, &count);
	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		start = r->at;
		rc = read_entry(r);
	}
	if (rc == 0) {
		start = r->at;
		rc = read_rest ? read_rest(r) : 0;
	}
	return ckpt_error_at(r->err, rc, NULL, ckpt_torch_tar_name(which), start);
}

static int check_members(const struct ckpt_torch_tar *tt, struct ckpt_error *err)
{
	for (int i = CKPT_TAR_PICKLE; i < CKPT_TAR_MEMBER_COUNT; i++)
		if (!tt->has[i])
			return ckpt_fail(
				err, CKPT_E_FORMAT,
				"a tar archive of torch 0.1 without the member '%s': it was "
				"cut off, or repacked without it",
				ckpt_torch_tar_name(i));
	return 0;
}

int ckpt_torch_tar_read_tables(struct ckpt_torch_tar *tt, struct ckpt_source *source,
			       uint32_t *next_id, struct ckpt_error *err)
{
	struct ckpt_tar_reader r = { .tt = tt, .source = source, .err = err };
	uint64_t size = ckpt_source_size(source);
	int rc = check_members(tt, err);

	if (rc < 0)
		return rc;
	tt->arena = ckpt_arena_new(size < MOST_BUDGET / 80 ? BUDGET_BASE + 80 * size : MOST_BUDGET);
	if (!tt->arena)
		return ckpt_fail_nomem(err);
	r.compose = (struct ckpt_composer){ tt->arena, next_id };
	r.word_storage = ckpt_compose_str(&r.compose, "storage", 7);
	r.rebuild = ckpt_compose_global(&r.compose, "torch._utils", "_rebuild_tensor_v2");
	r.ordered_dict = ckpt_compose_global(&r.compose, "collections", "OrderedDict");
	if (!r.word_storage || !r.rebuild || !r.ordered_dict)
		return ckpt_arena_fail(tt->arena, err);
	rc = read_table(&r, CKPT_TAR_STORAGES, "the number of storages", ckpt_tar_read_storage,
			ckpt_tar_read_views);
	if (rc == 0)
		rc = read_table(&r, CKPT_TAR_TENSORS, "the number of tensors", ckpt_tar_read_tensor,
				NULL);
	ckpt_pickle_clear(&r.pickle);
	free(r.bytes);
	return rc;
}
