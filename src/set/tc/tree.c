/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays what the ranks have of an item over each other: containers and tensors become nodes, found
 * by parent and key, and each tensor lists its parts in the order of ranks. Files must be added
 * from the lowest rank on, since the first one's values stay.
 *
 * Values of files are never changed: what higher ranks have beyond the first is collected
 * (`extra`) and put into copies at the end. A container is entered once, under its first name; a
 * path that leads through another name of it is `shared`. No recursion: frames are on a stack
 * with a limit. Pointers to nodes are not valid after a node was added.
 */
#include "set/tc/tree.h"

#include "base/grow.h"
#include "model/repr.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* In the map of children: a value that is neither container nor tensor. */
enum { LEAF = CKPT_TC_NONE - 1, MOST_DEPTH = 100000 };

struct tree_frame {
	const struct ckpt_value *value; /* a container of the file that is added */
	uint32_t node, i;
};

struct adder {
	struct ckpt_tc_tree *tree;
	uint32_t file;
	struct tree_frame *frames; /* malloc */
	uint32_t depth, cap;
	struct ckpt_error *err;
};

int ckpt_tc_tree_init(struct ckpt_tc_tree *t, struct ckpt_model *to, struct ckpt_error *err)
{
	*t = (struct ckpt_tc_tree){ .to = to };
	t->entered = calloc((size_t)to->next_id / 8 + 1, 1);
	return t->entered ? 0 : ckpt_fail_nomem(err);
}

void ckpt_tc_tree_clear(struct ckpt_tc_tree *t)
{
	free(t->nodes);
	free(t->parts);
	free(t->entered);
	ckpt_strmap_clear(&t->children);
	ckpt_buf_clear(&t->key);
}

/* ---- tables ---- */

static int add_node(struct adder *a, uint32_t parent, const char *key, size_t key_len,
		    const struct ckpt_value *value, uint32_t *out)
{
	struct ckpt_tc_tree *t = a->tree;
	void *nodes = ckpt_grow(t->nodes, t->node_count, &t->node_cap, sizeof(*t->nodes));

	if (!nodes)
		return ckpt_fail_nomem(a->err);
	t->nodes = nodes;
	t->nodes[t->node_count] = (struct ckpt_tc_node){
		.value = value,
		.file = a->file,
		.parent = parent,
		.key = key,
		.key_len = (uint32_t)key_len,
		.first_part = CKPT_TC_NONE,
		.last_part = CKPT_TC_NONE,
		.place = CKPT_TC_NONE,
	};
	*out = t->node_count++;
	return 0;
}

static int add_part(struct adder *a, uint32_t node, const struct ckpt_value *value)
{
	struct ckpt_tc_tree *t = a->tree;
	struct ckpt_tc_node *n = &t->nodes[node];
	void *parts = ckpt_grow(t->parts, t->part_count, &t->part_cap, sizeof(*t->parts));

	if (!parts)
		return ckpt_fail_nomem(a->err);
	t->parts = parts;
	t->parts[t->part_count] = (struct ckpt_tc_part){ value, a->file, CKPT_TC_NONE };
	if (n->first_part == CKPT_TC_NONE)
		n->first_part = t->part_count;
	else
		t->parts[n->last_part].next = t->part_count;
	n->last_part = t->part_count++;
	return 0;
}

static bool test_and_set(struct ckpt_tc_tree *t, const struct ckpt_value *v)
{
	uint8_t bit = (uint8_t)(1 << (v->id & 7)), *byte = &t->entered[v->id >> 3];
	bool was = *byte & bit;

	*byte |= bit;
	return was;
}

/* ---- containers ---- */

/* What V holds: KEYED as key, value, key, value. NULL: it is no container. */
static const struct ckpt_seq *items_of(const struct ckpt_value *v, bool *keyed)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	*keyed = pairs;
	if (pairs)
		return pairs;
	if (v->kind == CKPT_LIST || v->kind == CKPT_TUPLE)
		return &v->u.seq;
	return v->kind == CKPT_CALL && v->u.call->items.count ? &v->u.call->items : NULL;
}

/*
 * The bytes that a child is found by; *TEXT: where its key begins in them. False: it cannot be
 * told.
 */
static bool make_child_key(struct ckpt_tc_tree *t, uint32_t node, const struct ckpt_value *key,
			   uint32_t i, size_t *text)
{
	t->key.len = 0;
	ckpt_buf_add_u32(&t->key, node);
	ckpt_buf_add_u8(&t->key, !key || key->kind == CKPT_INT ? 'i'
				 : key->kind == CKPT_STR       ? 's'
							       : 'o');
	*text = t->key.len;
	if (!key)
		ckpt_buf_printf(&t->key, "%" PRIu32, i);
	else if (key->kind == CKPT_STR)
		ckpt_buf_add(&t->key, key->u.bytes.ptr, key->u.bytes.len);
	else if (key->kind <= CKPT_FLOAT)
		ckpt_value_repr(key, &t->key);
	else
		return false;
	return true;
}

/* The node of a child, LEAF, or CKPT_TC_NONE; its key was spelled. */
static uint32_t find_child(const struct ckpt_tc_tree *t)
{
	uint64_t *slot = ckpt_strmap_find(&t->children, (char *)t->key.data, t->key.len);

	return slot ? (uint32_t)*slot : CKPT_TC_NONE;
}

static bool is_node(const struct ckpt_tc_tree *t, const struct ckpt_value *v)
{
	bool keyed;

	return items_of(v, &keyed) || ckpt_value_is_tensor(t->to, v);
}

/* A child that no file had before. */
static int add_child(struct adder *a, uint32_t node, const struct ckpt_value *value, bool keyed,
		     size_t text, uint32_t *out)
{
	struct ckpt_tc_tree *t = a->tree;
	char *copy;
	bool there;
	int rc = 0;

	*out = LEAF;
	if (!keyed && !is_node(t, value))
		return 0;
	copy = t->key.bad ? NULL : ckpt_arena_copy(t->to->arena, t->key.data, t->key.len);
	if (!copy)
		return ckpt_arena_fail(t->to->arena, a->err);
	if (is_node(t, value))
		rc = add_node(a, node, copy + text, t->key.len - text, value, out);
	if (rc == 0 && !ckpt_strmap_insert(&t->children, copy, t->key.len, *out, &there))
		rc = ckpt_fail_nomem(a->err);
	return rc;
}

/*
 * Item I of a container of this file, which the first file's does not have: may it be added there?
 */
static bool can_extend(const struct ckpt_tc_node *n, bool keyed, uint32_t i)
{
	bool of_pairs;
	const struct ckpt_seq *items = items_of(n->value, &of_pairs);

	return keyed || (n->value->kind == CKPT_LIST && i == items->count + n->extra.count);
}

static int extend(struct adder *a, uint32_t node, const struct ckpt_value *key,
		  const struct ckpt_value *value)
{
	const struct ckpt_value *pair[2] = { key, value };

	if (ckpt_seq_add_many(a->tree->to->arena, &a->tree->nodes[node].extra,
			      key ? pair : pair + 1, key ? 2 : 1))
		return 0;
	return ckpt_fail_nomem(a->err);
}

/* ---- the walk ---- */

static int push(struct adder *a, uint32_t node, const struct ckpt_value *value)
{
	void *grown;

	if (a->depth == MOST_DEPTH)
		return ckpt_fail(a->err, CKPT_E_LIMIT, "values are nested deeper than %d levels",
				 MOST_DEPTH);
	grown = ckpt_grow(a->frames, a->depth, &a->cap, sizeof(*a->frames));
	if (!grown)
		return ckpt_fail_nomem(a->err);
	a->frames = grown;
	a->frames[a->depth++] = (struct tree_frame){ value, node, 0 };
	return 0;
}

static int visit(struct adder *a, uint32_t node, const struct ckpt_value *value)
{
	struct ckpt_tc_tree *t = a->tree;
	struct ckpt_tc_node *n = &t->nodes[node];
	bool keyed, first_keyed;

	if (ckpt_value_is_tensor(t->to, value))
		return ckpt_value_is_tensor(t->to, n->value) ? add_part(a, node, value) : 0;
	if (!items_of(value, &keyed) || ckpt_value_is_tensor(t->to, n->value))
		return 0;
	if (!items_of(n->value, &first_keyed) || keyed != first_keyed || !value->id)
		return 0;
	if (n->file != a->file && !n->open)
		return 0;
	if (test_and_set(t, value)) /* under another name before: there its parts are */
		return 0;
	n->open = true;
	return push(a, node, value);
}

static int visit_child(struct adder *a, uint32_t node, const struct ckpt_value *key, uint32_t i,
		       const struct ckpt_value *value)
{
	const struct ckpt_tc_node *n = &a->tree->nodes[node];
	bool is_first = n->file == a->file, of_pairs;
	uint32_t child;
	size_t text;
	int rc = 0;

	if (!make_child_key(a->tree, node, key, i, &text))
		return 0;
	child = find_child(a->tree);
	if (child == CKPT_TC_NONE && !is_first) {
		if (!key && i < items_of(n->value, &of_pairs)->count)
			return 0; /* a plain value of the first file */
		if (!can_extend(n, key, i))
			return 0;
		rc = extend(a, node, key, value);
	}
	if (rc == 0 && child == CKPT_TC_NONE)
		rc = add_child(a, node, value, key, text, &child);
	return rc < 0 || child == LEAF ? rc : visit(a, child, value);
}

static int advance(struct adder *a)
{
	struct tree_frame *top = &a->frames[a->depth - 1];
	bool keyed;
	const struct ckpt_seq *items = items_of(top->value, &keyed);
	uint32_t i = top->i;

	if (keyed ? i + 1 >= items->count : i >= items->count) {
		a->depth--;
		return 0;
	}
	top->i += keyed ? 2 : 1;
	return keyed ? visit_child(a, top->node, items->items[i], 0, items->items[i + 1])
		     : visit_child(a, top->node, NULL, i, items->items[i]);
}

int ckpt_tc_tree_add(struct ckpt_tc_tree *t, uint32_t *root, uint32_t file,
		     const struct ckpt_value *value, struct ckpt_error *err)
{
	struct adder a = { .tree = t, .file = file, .err = err };
	int rc = 0;

	if (*root == CKPT_TC_NONE)
		rc = add_node(&a, CKPT_TC_NONE, NULL, 0, value, root);
	if (rc == 0)
		rc = visit(&a, *root, value);
	while (rc == 0 && a.depth)
		rc = advance(&a);
	free(a.frames);
	return rc;
}

/* ---- the result ---- */

static int extend_value(struct ckpt_tc_tree *t, const struct ckpt_tc_node *n,
			struct ckpt_error *err)
{
	struct ckpt_arena *arena = t->to->arena;
	struct ckpt_value *copy = ckpt_arena_alloc(arena, sizeof(*copy));
	struct ckpt_seq *to;

	if (!copy)
		return ckpt_arena_fail(arena, err);
	*copy = *n->value;
	if (copy->kind == CKPT_CALL) {
		copy->u.call = ckpt_arena_alloc(arena, sizeof(*copy->u.call));
		if (!copy->u.call)
			return ckpt_arena_fail(arena, err);
		*copy->u.call = *n->value->u.call;
	}
	to = copy->kind == CKPT_CALL ? &copy->u.call->pairs : &copy->u.seq;
	*to = (struct ckpt_seq){ 0 };
	if (!ckpt_seq_add_many(arena, to,
			       n->value->kind == CKPT_CALL ? n->value->u.call->pairs.items
							   : n->value->u.seq.items,
			       n->value->kind == CKPT_CALL ? n->value->u.call->pairs.count
							   : n->value->u.seq.count) ||
	    !ckpt_seq_add_many(arena, to, n->extra.items, n->extra.count))
		return ckpt_arena_fail(arena, err);
	return ckpt_model_replace(t->to, copy, err);
}

int ckpt_tc_tree_finish(struct ckpt_tc_tree *t, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < t->node_count; i++)
		if (t->nodes[i].extra.count)
			rc = extend_value(t, &t->nodes[i], err);
	return rc;
}

uint32_t ckpt_tc_tree_find(struct ckpt_tc_tree *t, uint32_t root, const struct ckpt_path_step *steps,
			   uint32_t count, bool *shared)
{
	uint32_t node = root;

	*shared = false;
	for (uint32_t i = 0; i < count && node < LEAF; i++) {
		const struct ckpt_tc_node *n = &t->nodes[node];
		bool keyed;

		*shared |= !n->open && n->first_part == CKPT_TC_NONE && items_of(n->value, &keyed);
		t->key.len = 0;
		ckpt_buf_add_u32(&t->key, node);
		ckpt_buf_add_u8(&t->key, steps[i].key ? 's' : 'i');
		if (steps[i].key)
			ckpt_buf_add(&t->key, steps[i].key, steps[i].len);
		else
			ckpt_buf_printf(&t->key, "%" PRId64, steps[i].number);
		node = t->key.bad ? CKPT_TC_NONE : find_child(t);
	}
	return node < LEAF ? node : CKPT_TC_NONE;
}
