/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the values of a DCP directory into nested dicts and lists, as their paths in planner_data
 * say. Source: set_element() in torch/distributed/checkpoint/_traverse.py, as torch's own
 * converter uses it.
 *
 * Paths come from the file and may contradict each other: a value whose way is blocked goes to
 * the root under its whole key, so that no value is lost. Only containers that were made here are
 * extended, never ones that an item brought along (is_made_here()). A position in a list is
 * limited by the number of entries.
 */
#include "set/dcp/dcp.h"

#include <stdint.h>

struct nest {
	struct ckpt_dcp *dcp;
	uint32_t *next_id;
	struct ckpt_value *root;
	/* container's id, then the key: to the place among its items */
	struct ckpt_strmap children;
	struct ckpt_buf key;
	struct ckpt_error *err;
};

static struct ckpt_value *new_container(struct nest *n, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(n->dcp->arena, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->id = (*n->next_id)++;
		v->pos = CKPT_NO_OFFSET;
	}
	return v;
}

static void make_map_key(struct nest *n, const struct ckpt_value *in, const struct ckpt_value *key)
{
	n->key.len = 0;
	ckpt_buf_add(&n->key, &in->id, sizeof(in->id));
	ckpt_buf_add(&n->key, key->u.bytes.ptr, key->u.bytes.len);
}

/* Where KEY of the dict IN has its value, or SIZE_MAX. */
static size_t find_key(struct nest *n, const struct ckpt_value *in, const struct ckpt_value *key)
{
	uint64_t *slot;

	make_map_key(n, in, key);
	slot = ckpt_strmap_find(&n->children, (char *)n->key.data, n->key.len);
	return slot ? (size_t)*slot : SIZE_MAX;
}

static int add_key(struct nest *n, struct ckpt_value *in, const struct ckpt_value *key,
		   const struct ckpt_value *value)
{
	const struct ckpt_value *pair[2] = { key, value };
	uint64_t place = in->u.seq.count + 1;
	char *copy;
	bool there;

	make_map_key(n, in, key);
	copy = n->key.bad ? NULL : ckpt_arena_copy(n->dcp->arena, n->key.data, n->key.len);
	if (!copy || !ckpt_strmap_insert(&n->children, copy, n->key.len, place, &there) ||
	    !ckpt_seq_add_many(n->dcp->arena, &in->u.seq, pair, 2))
		return ckpt_fail_nomem(n->err);
	return 0;
}

/* A list index beyond what the checkpoint could fill is no real one. */
static bool is_index_of(const struct nest *n, const struct ckpt_value *in,
			const struct ckpt_value *key)
{
	return in->kind == CKPT_LIST && key->kind == CKPT_INT &&
	       (uint64_t)key->u.integer < (uint64_t)in->u.seq.count + n->dcp->index.entry_count;
}

/*
 * Where the value of KEY is in IN, which is extended if need be: None is there until a value is
 * put. *OUT NULL: IN cannot have such a key.
 */
static int slot_for_key(struct nest *n, struct ckpt_value *in, const struct ckpt_value *key,
			const struct ckpt_value ***out)
{
	size_t place;

	*out = NULL;
	if (in->kind == CKPT_DICT && key->kind == CKPT_STR) {
		place = find_key(n, in, key);
		if (place == SIZE_MAX) {
			if (add_key(n, in, key, &ckpt_value_none) < 0)
				return CKPT_E_NOMEM;
			place = in->u.seq.count - 1;
		}
	} else if (is_index_of(n, in, key)) {
		place = (size_t)key->u.integer;
		while (in->u.seq.count <= place)
			if (!ckpt_seq_add(n->dcp->arena, &in->u.seq, &ckpt_value_none))
				return ckpt_fail_nomem(n->err);
	} else {
		return 0;
	}
	*out = &in->u.seq.items[place];
	return 0;
}

static bool is_made_here(const struct nest *n, const struct ckpt_value *v)
{
	return v->id >= n->root->id && v->pos == CKPT_NO_OFFSET;
}

/* Follow PATH; *OUT NULL: something else stands in the way. */
static int find_slot(struct nest *n, const struct ckpt_value *path, const struct ckpt_value ***out)
{
	struct ckpt_value *in = n->root;
	int rc = slot_for_key(n, in, path->u.seq.items[0], out);

	for (uint32_t i = 1; rc == 0 && *out && i < path->u.seq.count; i++) {
		const struct ckpt_value *key = path->u.seq.items[i];
		uint8_t kind = key->kind == CKPT_STR ? CKPT_DICT : CKPT_LIST;

		if ((**out)->kind == CKPT_NONE) {
			**out = new_container(n, kind);
			if (!**out)
				return ckpt_fail_nomem(n->err);
		}
		if ((**out)->kind != kind || !is_made_here(n, **out)) {
			*out = NULL;
			return 0;
		}
		in = (struct ckpt_value *)**out; /* one of ours */
		rc = slot_for_key(n, in, key, out);
	}
	if (rc == 0 && *out && (**out)->kind != CKPT_NONE)
		*out = NULL; /* two entries with one path */
	return rc;
}

static int put_flat(struct nest *n, uint32_t entry)
{
	const struct ckpt_value *fqn = n->dcp->index.entries[entry].fqn;

	if (find_key(n, n->root, fqn) != SIZE_MAX)
		return ckpt_fail(n->err, CKPT_E_FORMAT,
				 "the planner data give two values the same place");
	return add_key(n, n->root, fqn, n->dcp->values[entry]);
}

static int put_entry(struct nest *n, uint32_t entry)
{
	const struct ckpt_value *path = n->dcp->index.entries[entry].path, **slot = NULL;
	int rc = path ? find_slot(n, path, &slot) : 0;

	if (rc < 0)
		return rc;
	if (!slot)
		return put_flat(n, entry);
	*slot = n->dcp->values[entry];
	return 0;
}

int ckpt_dcp_nest(struct ckpt_dcp *dcp, uint32_t *next_id, const struct ckpt_value **root,
		  struct ckpt_error *err)
{
	struct nest n = { .dcp = dcp, .next_id = next_id, .err = err };
	int rc = 0;

	n.root = new_container(&n, CKPT_DICT);
	if (!n.root)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < dcp->index.entry_count; i++)
		rc = put_entry(&n, i);
	*root = n.root;
	ckpt_strmap_clear(&n.children);
	ckpt_buf_clear(&n.key);
	return rc;
}
