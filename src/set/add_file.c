/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"
#include "format/member.h"

#include <ckpt/dcp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_member(void *held)
{
	if (held)
		ckpt_member_clear(held);
	free(held);
}

static int member_file(const void *held, ckpt_model_visit_file *visit, void *ctx)
{
	const struct ckpt_member *m = held;

	return ckpt_model_visit_source(m->source, NULL, visit, ctx);
}

static int open_file(struct ckpt_member *m, const char *path, uint32_t first_id,
		     struct ckpt_error *err)
{
	int rc = ckpt_member_open(m, path, first_id, err);

	if (rc == 0 && !ckpt_value_pairs(m->pickle.root))
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "holds no dict, whose entries could be added");
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

/* ---- entries ---- */

static bool same_key(const struct ckpt_value *a, const struct ckpt_value *b)
{
	return a->kind == CKPT_STR && b->kind == CKPT_STR && a->u.bytes.len == b->u.bytes.len &&
	       !memcmp(a->u.bytes.ptr, b->u.bytes.ptr, a->u.bytes.len);
}

/* As dict.update(): what is there under a key gives way. */
static int update_root(struct ckpt_model *to, const struct ckpt_seq *added, struct ckpt_error *err)
{
	const struct ckpt_value *root = ckpt_model_now(to, to->root);
	struct ckpt_value *copy = ckpt_arena_alloc(to->arena, sizeof(*copy));

	if (root->kind != CKPT_DICT)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "its root is no dict");
	if (!copy)
		return ckpt_arena_fail(to->arena, err);
	*copy = *root;
	copy->u.seq = (struct ckpt_seq){ 0 };
	if (!ckpt_seq_add_many(to->arena, &copy->u.seq, root->u.seq.items, root->u.seq.count))
		return ckpt_arena_fail(to->arena, err);
	for (uint32_t i = 0; i + 1 < added->count; i += 2) {
		uint32_t at = 0;

		while (at < root->u.seq.count && !same_key(copy->u.seq.items[at], added->items[i]))
			at += 2;
		if (at < root->u.seq.count)
			copy->u.seq.items[at + 1] = added->items[i + 1];
		else if (!ckpt_seq_add_many(to->arena, &copy->u.seq, added->items + i, 2))
			return ckpt_arena_fail(to->arena, err);
	}
	return ckpt_model_replace(to, copy, err);
}

int ckpt_add_file(const struct ckpt_model *model, const char *path, struct ckpt_model **out,
		  struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_member *b = rc == 0 ? calloc(1, sizeof(*b)) : NULL;
	struct ckpt_model *to = NULL;

	*out = NULL;
	if (rc == 0)
		rc = b ? open_file(b, path, model->next_id, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_model_derive(model, &to, err);
	if (rc < 0) {
		free_member(b);
		return rc;
	}
	to->held = b;
	to->free_held = free_member;
	to->held_files = member_file;
	to->next_id = b->pickle.next_id;
	rc = ckpt_member_add_storages(b, to, 'b', err);
	if (rc == 0)
		rc = update_root(to, ckpt_value_pairs(b->pickle.root), err);
	rc = ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
	if (rc < 0)
		ckpt_close(to);
	else
		*out = to;
	return rc;
}
