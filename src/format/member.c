/* SPDX-License-Identifier: Apache-2.0 */
#include "format/member.h"

#include <stdlib.h>
#include <string.h>

void ckpt_member_clear(struct ckpt_member *m)
{
	ckpt_pickle_clear(&m->pickle);
	free(m->bytes);
	ckpt_torch_zip_free(m->tz);
	ckpt_source_unref(m->source);
	*m = (struct ckpt_member){ 0 };
}

int ckpt_member_read(struct ckpt_member *m, struct ckpt_source *source, uint32_t first_id,
		     struct ckpt_error *err)
{
	size_t len;
	int rc;

	m->source = ckpt_source_ref(source);
	rc = ckpt_torch_zip_open(m->source, NULL, &m->tz, err);
	if (rc == 0)
		rc = ckpt_torch_zip_read_pickle(m->tz, first_id, &m->bytes, &len, &m->pickle, err);
	if (rc == 0 && !strcmp(m->tz->byteorder, "big"))
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "is big-endian; 'ckpt convert' turns it around");
	return rc;
}

int ckpt_member_open(struct ckpt_member *m, const char *path, uint32_t first_id,
		     struct ckpt_error *err)
{
	struct ckpt_source *source;
	int rc = ckpt_source_open(path, &source, err);

	if (rc == 0) {
		rc = ckpt_member_read(m, source, first_id, err);
		ckpt_source_unref(source);
	}
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

/* ---- storages ---- */

static int keep_recipe(struct ckpt_member *m, struct ckpt_model *to, struct ckpt_storage *s,
		       struct ckpt_error *err)
{
	struct ckpt_recipe *made = ckpt_arena_alloc(to->arena, sizeof(*made));
	int rc;

	if (!made)
		return ckpt_arena_fail(to->arena, err);
	rc = ckpt_torch_zip_entry_bytes(m->tz, s->record, s->nbytes, made, err);
	made->has_crc = s->has_crc;
	made->crc32 = s->crc32;
	s->made = made;
	s->record = NULL;
	s->has_crc = false;
	return rc;
}

static int add_storage(struct ckpt_member *m, struct ckpt_model *to,
		       const struct ckpt_value *persid, char letter, struct ckpt_error *err)
{
	const char *key = ckpt_model_new_key(to, letter);
	struct ckpt_storage *s = key ? ckpt_model_add_storage(to) : NULL;
	int rc;

	if (!s)
		return ckpt_fail_nomem(err);
	rc = ckpt_storage_parse(persid, to->arena, s, err);
	if (rc == 0)
		rc = ckpt_torch_zip_attach(m->tz, s, s->key, err);
	if (rc == 0)
		rc = keep_recipe(m, to, s, err);
	s->key = key;
	return rc;
}

int ckpt_member_add_storages(struct ckpt_member *m, struct ckpt_model *to, char letter,
			     struct ckpt_error *err)
{
	struct ckpt_strmap numbers = { 0 };
	int rc = ckpt_model_own_storages(to, err);

	for (uint32_t i = 0; rc == 0 && i < m->pickle.persids.count; i++) {
		/* not const: the decoder made it for this pickle alone */
		struct ckpt_value *v = (struct ckpt_value *)m->pickle.persids.items[i];
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
			rc = add_storage(m, to, v, letter, err);
	}
	ckpt_strmap_clear(&numbers);
	return ckpt_error_at(err, rc, ckpt_source_path(m->source), NULL, CKPT_NO_OFFSET);
}
