/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"
#include "format/torch_zip.h"

#include <ckpt/dcp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A torch.save file whose values became part of another checkpoint. */
struct beside {
	struct ckpt_source *source;
	struct ckpt_torch_zip *tz;
	struct ckpt_pickle pickle;
	uint8_t *bytes;
};

static void free_beside(void *held)
{
	struct beside *b = held;

	if (!b)
		return;
	ckpt_pickle_clear(&b->pickle);
	free(b->bytes);
	ckpt_torch_zip_free(b->tz);
	ckpt_source_unref(b->source);
	free(b);
}

static int open_file(struct beside *b, const char *path, uint32_t first_id, struct ckpt_error *err)
{
	size_t len;
	int rc = ckpt_source_open(path, &b->source, err);

	if (rc == 0)
		rc = ckpt_torch_zip_open(b->source, &b->tz, err);
	if (rc == 0)
		rc = ckpt_torch_zip_read_pickle(b->tz, first_id, &b->bytes, &len, &b->pickle, err);
	if (rc == 0 && !ckpt_value_pairs(b->pickle.root))
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "holds no dict, whose entries could be added");
	if (rc == 0 && !strcmp(b->tz->byteorder, "big"))
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "is big-endian; 'ckpt convert' turns it around");
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

/* ---- storages ---- */

static int keep_recipe(struct ckpt_model *to, struct beside *b, struct ckpt_storage *s,
		       struct ckpt_error *err)
{
	struct ckpt_recipe *made = ckpt_arena_alloc(to->arena, sizeof(*made));
	int rc;

	if (!made)
		return ckpt_arena_fail(to->arena, err);
	rc = ckpt_torch_zip_entry_bytes(b->tz, s->record, s->nbytes, made, err);
	made->has_crc = s->has_crc;
	made->crc32 = s->crc32;
	s->made = made;
	s->record = NULL;
	s->has_crc = false;
	return rc;
}

static int add_storage(struct ckpt_model *to, struct beside *b, const struct ckpt_value *persid,
		       struct ckpt_error *err)
{
	struct ckpt_storage *grown = realloc(to->storages,
					     (to->storage_count + (size_t)1) * sizeof(*grown)),
			    *s;
	const char *key;
	int rc;

	if (!grown)
		return ckpt_fail_nomem(err);
	to->storages = grown;
	s = &grown[to->storage_count];
	rc = ckpt_storage_parse(persid, to->arena, s, err);
	if (rc == 0)
		rc = ckpt_torch_zip_attach(b->tz, s, s->key, err);
	if (rc == 0)
		rc = keep_recipe(to, b, s, err);
	key = rc == 0 ? ckpt_model_new_key(to, 'b') : NULL;
	if (rc == 0 && !key)
		return ckpt_fail_nomem(err);
	s->key = key;
	to->storage_count++;
	return rc;
}

static int add_storages(struct ckpt_model *to, struct beside *b, struct ckpt_error *err)
{
	struct ckpt_strmap numbers = { 0 };
	int rc = ckpt_model_own_storages(to, err);

	for (uint32_t i = 0; rc == 0 && i < b->pickle.persids.count; i++) {
		/* the decoder made it for nobody else */
		struct ckpt_value *v = (struct ckpt_value *)b->pickle.persids.items[i];
		const struct ckpt_value *key = ckpt_storage_key(v);
		uint64_t *slot;
		bool there;

		if (!key)
			continue;
		slot = ckpt_strmap_insert(&numbers, key->u.bytes.ptr, key->u.bytes.len,
					  to->storage_count, &there);
		if (!slot)
			rc = ckpt_fail_nomem(err);
		else
			v->u.persid.meaning = *slot + 1;
		if (rc == 0 && !there)
			rc = add_storage(to, b, v, err);
	}
	ckpt_strmap_clear(&numbers);
	return rc;
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
	struct beside *b = calloc(1, sizeof(*b));
	struct ckpt_model *to = NULL;
	int rc = b ? open_file(b, path, model->next_id, err) : ckpt_fail_nomem(err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_model_derive(model, &to, err);
	if (rc < 0) {
		free_beside(b);
		return rc;
	}
	to->held = b;
	to->free_held = free_beside;
	to->next_id = b->pickle.next_id;
	rc = add_storages(to, b, err);
	if (rc == 0)
		rc = update_root(to, ckpt_value_pairs(b->pickle.root), err);
	rc = ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
	if (rc < 0)
		ckpt_close(to);
	else
		*out = to;
	return rc;
}
