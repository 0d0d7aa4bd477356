/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors of all files of a shard set become those of one OrderedDict, in the order of the
 * files and in theirs: made anew, for each file's own values have numbers that others have as
 * well.
 *
 * With an index each tensor must be in the file that the index names, once; without one no two
 * files may have it. What was found is noted in the index's entries (`found`), so that a tensor
 * which is nowhere can be reported. A storage gets its place and its persistent id together, at
 * its first mention: places are by storage of the document.
 */
#include "set/hf/hf.h"

#include "base/grow.h"
#include "base/text.h"
#include "model/maker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 120, SCRATCH_BUDGET = 1 << 24 };

struct shard_reader {
	struct ckpt_document *doc;
	struct ckpt_hf *hf;
	struct ckpt_maker maker;
	struct ckpt_value *root;
	uint32_t shard;		       /* that is read, and: */
	const struct ckpt_value **ids; /* malloc: by its storages, their persistent ids here */
	struct ckpt_arena *scratch;    /* owned */
	struct ckpt_error *err;
};

/* "'a.weight' in 'model-00001-of-00002.safetensors' ...": what is wrong with it. */
static int fail_entry(struct shard_reader *r, const struct ckpt_value *key, int status,
		      const char *what)
{
	const char *file = r->hf->index.files[r->shard].name;
	char name[SHOWN], shown[SHOWN];

	return ckpt_fail(r->err, status, "'%s' in '%s' %s",
			 ckpt_escape(name, sizeof(name), key->u.bytes.ptr, key->u.bytes.len),
			 ckpt_escape(shown, sizeof(shown), file, strlen(file)), what);
}

/* ---- names ---- */

static int fail_elsewhere(struct shard_reader *r, const struct ckpt_value *key,
			  const struct ckpt_hf_entry *entry)
{
	const char *other = r->hf->index.files[entry->file].name;
	char shown[SHOWN], text[2 * SHOWN];

	ckpt_escape(shown, sizeof(shown), other, strlen(other));
	if (entry->file == r->shard)
		return fail_entry(r, key, CKPT_E_FORMAT, "is there twice");
	snprintf(text, sizeof(text),
		 r->hf->index_name ? "belongs to '%s', as the index has it" : "is in '%s' as well",
		 shown);
	return fail_entry(r, key, CKPT_E_FORMAT, text);
}

static int note_unnamed(struct shard_reader *r, const struct ckpt_value *key)
{
	struct ckpt_hf *hf = r->hf;

	if (hf->index_name && !hf->unnamed++)
		ckpt_escape(hf->first_unnamed, sizeof(hf->first_unnamed), key->u.bytes.ptr,
			    key->u.bytes.len);
	return ckpt_hf_index_add_entry(&hf->index, key->u.bytes.ptr, key->u.bytes.len, r->shard,
				       r->err);
}

static int claim_name(struct shard_reader *r, const struct ckpt_value *key, uint32_t *number)
{
	struct ckpt_hf_index *x = &r->hf->index;
	struct ckpt_hf_entry *entry = ckpt_hf_index_find(x, key->u.bytes.ptr, key->u.bytes.len);
	int rc = 0;

	if (entry && (entry->file != r->shard || entry->found))
		return fail_elsewhere(r, key, entry);
	if (!entry)
		rc = note_unnamed(r, key);
	if (rc < 0)
		return rc;
	if (!entry)
		entry = &x->entries[x->entry_count - 1];
	entry->found = true;
	*number = (uint32_t)(entry - x->entries);
	return 0;
}

/* ---- tensors ---- */

static int add_place(struct shard_reader *r, uint32_t storage)
{
	struct ckpt_hf *hf = r->hf;
	struct ckpt_hf_place *grown =
		ckpt_grow(hf->places, hf->place_count, &hf->place_cap, sizeof(*grown));

	if (!grown)
		return ckpt_fail_nomem(r->err);
	hf->places = grown;
	hf->places[hf->place_count++] =
		(struct ckpt_hf_place){ .shard = r->shard, .storage = storage };
	return 0;
}

/* The persistent id of a storage of the file. */
static int storage_id(struct shard_reader *r, const struct ckpt_tensor *t,
		      const struct ckpt_value **out)
{
	const struct ckpt_storage *s = &r->hf->shards[r->shard]->storages[t->storage];
	enum ckpt_dtype dtype = *ckpt_dtype_storage_class(t->dtype) ? s->dtype : t->dtype;
	char key[40];
	int rc;

	*out = r->ids[t->storage];
	if (*out)
		return 0;
	rc = add_place(r, (uint32_t)t->storage);
	if (rc < 0)
		return rc;
	snprintf(key, sizeof(key), "%" PRIu32 "/%" PRIi64, r->shard, t->storage);
	*out = ckpt_maker_storage(&r->maker, dtype, key, s->location,
				  s->nbytes / ckpt_dtype_size(dtype));
	r->ids[t->storage] = *out;
	r->hf->storage_nbytes += s->nbytes;
	return *out ? 0 : ckpt_fail_nomem(r->err);
}

static uint64_t nbytes_of(const struct ckpt_tensor *t)
{
	uint64_t n = ckpt_dtype_size(t->dtype);

	for (uint32_t i = 0; i < t->ndim; i++) /* as many as torch can have: the parser saw to it */
		n *= t->shape[i];
	return n;
}

static int make_tensor(struct shard_reader *r, const struct ckpt_tensor *t,
		       const struct ckpt_value **out)
{
	struct ckpt_maker_view view = { .dtype = t->dtype,
					.ndim = t->ndim,
					.offset = t->offset,
					.shape = t->shape,
					.stride = t->stride,
					.requires_grad = t->requires_grad && !t->is_parameter };
	const struct ckpt_value *storage;
	int rc = storage_id(r, t, &storage);

	if (rc < 0)
		return rc;
	r->hf->tensor_nbytes += nbytes_of(t);
	*out = ckpt_maker_tensor(&r->maker, storage, &view);
	if (*out && t->is_parameter)
		*out = ckpt_maker_parameter(&r->maker, *out, t->requires_grad);
	return *out ? 0 : ckpt_fail_nomem(r->err);
}

static bool is_plain(const struct ckpt_tensor *t)
{
	return t->kind == CKPT_KIND_STRIDED && t->storage >= 0 && !t->is_conj && !t->is_neg;
}

static int add_value(struct shard_reader *r, const char *name, size_t len,
		     const struct ckpt_value *made)
{
	return ckpt_maker_put(&r->maker, r->root, ckpt_maker_text(&r->maker, name, len), made)
		       ? 0
		       : ckpt_fail_nomem(r->err);
}

/* The other names of an entry, whose tensor is T, show the same storage. */
static int add_aliases(struct shard_reader *r, uint32_t number, const struct ckpt_tensor *t)
{
	struct ckpt_hf_index *x = &r->hf->index;
	uint32_t next = x->entries[number].alias;
	int rc = 0;

	while (rc == 0 && next != UINT32_MAX) {
		const struct ckpt_hf_alias *alias = &x->aliases[next];
		const struct ckpt_value *made;

		next = alias->next;
		if (ckpt_hf_index_find(x, alias->name, alias->len))
			continue; /* a file has it */
		rc = ckpt_hf_index_add_entry(x, alias->name, alias->len, r->shard, r->err);
		if (rc < 0)
			break;
		x->entries[x->entry_count - 1].found = true;
		rc = make_tensor(r, t, &made);
		if (rc == 0)
			rc = add_value(r, alias->name, alias->len, made);
	}
	return rc;
}

/* What torch has no tensor for stays what it is: it can be shown, but not be written. */
static int add_missing(struct shard_reader *r, const struct ckpt_value *key,
		       const struct ckpt_value *value)
{
	const struct ckpt_value *why = value->u.persid.pid;
	char text[SHOWN];
	uint32_t number;
	int rc = claim_name(r, key, &number);

	snprintf(text, sizeof(text), "%s", why->kind == CKPT_STR ? why->u.bytes.ptr : "");
	return rc == 0 ? add_value(r, key->u.bytes.ptr, key->u.bytes.len,
				   ckpt_maker_missing(&r->maker, text))
		       : rc;
}

static int add_entry(struct shard_reader *r, const struct ckpt_value *key,
		     const struct ckpt_value *value)
{
	const struct ckpt_model *m = r->hf->shards[r->shard];
	const struct ckpt_value *made = NULL;
	struct ckpt_tensor t;
	uint32_t number;
	int rc = ckpt_tensor_parse(m, value, r->scratch, &t, r->err);

	if (rc < 0)
		return rc;
	if (rc == 0 && value->flags & CKPT_VALUE_MISSING)
		return add_missing(r, key, value);
	if (rc == 0)
		return fail_entry(r, key, CKPT_E_UNSUPPORTED, "is no tensor");
	if (!is_plain(&t) || m->storages[t.storage].view)
		return fail_entry(r, key, CKPT_E_UNSUPPORTED,
				  "is no plain tensor, which is all that a set can hold");
	rc = claim_name(r, key, &number);
	if (rc == 0)
		rc = make_tensor(r, &t, &made);
	if (rc == 0)
		rc = add_value(r, key->u.bytes.ptr, key->u.bytes.len, made);
	return rc == 0 ? add_aliases(r, number, &t) : rc;
}

/* ---- files ---- */

static int add_entries(struct shard_reader *r, const struct ckpt_seq *pairs)
{
	const struct ckpt_model *m = r->hf->shards[r->shard];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2) {
		struct ckpt_arena_mark mark = ckpt_arena_mark(r->scratch);
		const struct ckpt_value *key = ckpt_model_now(m, pairs->items[i]);

		if (key->kind == CKPT_STR)
			rc = add_entry(r, key, ckpt_model_now(m, pairs->items[i + 1]));
		else
			rc = ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
				       "holds a key that is a %s, wanted names of tensors",
				       ckpt_value_kind_name(key));
		ckpt_arena_release(r->scratch, mark);
	}
	return rc;
}

static int add_shard(struct shard_reader *r)
{
	const struct ckpt_model *m = r->hf->shards[r->shard];
	const struct ckpt_seq *pairs = ckpt_value_pairs(ckpt_model_now(m, m->root));
	int rc = 0;

	if (m->doc->big_endian)
		rc = ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
			       "is big-endian; 'ckpt convert' of this file turns it around");
	else if (!pairs)
		rc = ckpt_fail(r->err, CKPT_E_UNSUPPORTED, "holds no dict of tensors");
	r->ids = calloc(m->storage_count + (size_t)1, sizeof(*r->ids));
	if (rc == 0 && !r->ids)
		rc = ckpt_fail_nomem(r->err);
	if (rc == 0)
		rc = add_entries(r, pairs);
	free(r->ids);
	return ckpt_error_at(r->err, rc, ckpt_document_path(m->doc), NULL, CKPT_NO_OFFSET);
}

int ckpt_hf_make_values(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct shard_reader r = { .doc = doc,
				  .hf = doc->container,
				  .maker = { .arena = doc->pickle.arena, .pickle = &doc->pickle },
				  .scratch = ckpt_arena_new(SCRATCH_BUDGET),
				  .err = err };
	int rc = 0;

	r.root = ckpt_maker_ordered_dict(&r.maker);
	if (!r.root || !r.scratch)
		rc = ckpt_fail_nomem(err);
	for (; rc == 0 && r.shard < r.hf->index.file_count; r.shard++)
		rc = add_shard(&r);
	if (rc == 0)
		rc = ckpt_hf_check_found(&r.hf->index, err);
	doc->pickle.root = r.root;
	ckpt_maker_clear(&r.maker);
	ckpt_arena_free(r.scratch);
	return rc;
}
