/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document (what a file says) and the models over it: counting references, registering
 * storages, replacing values. The list of tensors is tensor_list.c.
 *
 * Opening is the only time when values change: register_persids() notes in each persistent id
 * which storage it names. After that, everything that a document or a model holds is constant,
 * and models in several threads may share it; the exceptions are caches under `listing` (the list
 * of tensors, `whole`) and the counts of references. A model keeps alive what it was edited from
 * (`base`), since its values point there. Storages are numbered in the order of first mention,
 * and that number is `meaning` - 1 of every id that names one.
 */
#include "model/model.h"

#include "base/ascii.h"
#include "base/grow.h"
#include "model/casts.h"
#include "model/cpp_calls.h"
#include "pickle/fold.h"

#include <ckpt/model.h>
#include <ckpt/save.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- document ---- */

struct ckpt_document *ckpt_document_new(struct ckpt_source *source,
					const struct ckpt_format *format, size_t size,
					void (*free_container)(void *container))
{
	struct ckpt_document *doc = calloc(1, sizeof(*doc));
	void *container = calloc(1, size);

	if (!doc || !container) {
		free(doc);
		free(container);
		return NULL;
	}
	doc->refs = 1;
	doc->source = ckpt_source_ref(source);
	doc->format = format;
	doc->container = container;
	doc->free_container = free_container;
	return doc;
}

void ckpt_document_unref(struct ckpt_document *doc)
{
	if (!doc || --doc->refs)
		return;
	if (doc->free_container)
		doc->free_container(doc->container);
	ckpt_strmap_clear(&doc->storage_by_key);
	free(doc->storages);
	ckpt_pickle_clear(&doc->pickle);
	free(doc->pickle_bytes);
	free(doc->inner_path);
	ckpt_source_unref(doc->source);
	free(doc);
}

const char *ckpt_document_path(const struct ckpt_document *doc)
{
	if (doc->inner_path)
		return doc->inner_path;
	return doc->path ? doc->path : ckpt_source_path(doc->source);
}

static int fail_persid(struct ckpt_error *err, const char *what, const struct ckpt_value *found)
{
	return ckpt_fail(err, CKPT_E_FORMAT, "storage id: wanted %s, found %s", what,
			 found ? ckpt_value_kind_name(found) : "nothing");
}

static struct ckpt_storage *add_storage(struct ckpt_document *doc)
{
	struct ckpt_storage *grown =
		ckpt_grow(doc->storages, doc->storage_count, &doc->storage_cap, sizeof(*grown));

	if (!grown)
		return NULL;
	doc->storages = grown;
	doc->storages[doc->storage_count] = (struct ckpt_storage){ 0 };
	return &doc->storages[doc->storage_count];
}

static bool has_nul(const struct ckpt_value *str)
{
	return memchr(str->u.bytes.ptr, '\0', str->u.bytes.len) != NULL;
}

int ckpt_storage_parse(const struct ckpt_value *persid, struct ckpt_arena *arena,
		       struct ckpt_storage *s, struct ckpt_error *err)
{
	const struct ckpt_value *const *item = persid->u.persid.pid->u.seq.items;
	const struct ckpt_value *type = item[1], *key = item[2], *location = item[3],
				*numel = item[4];
	uint32_t size;

	*s = (struct ckpt_storage){ 0 };
	if (type->kind != CKPT_GLOBAL)
		return fail_persid(err, "a storage class", type);
	s->dtype = ckpt_dtype_of_storage(type->u.global->name);
	if (s->dtype == CKPT_DTYPE_UNKNOWN)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "storage id: '%.60s.%.60s' is not a storage class of torch",
				 type->u.global->module, type->u.global->name);
	if (!ckpt_value_is_text(location) || has_nul(location))
		return fail_persid(err, "the text of a device", location);
	if (numel->kind != CKPT_INT || numel->u.integer < 0)
		return fail_persid(err, "a number of elements", numel);
	size = ckpt_dtype_size(s->dtype);
	s->numel = (uint64_t)numel->u.integer;
	if (__builtin_mul_overflow(s->numel, (uint64_t)size, &s->nbytes) || s->nbytes > INT64_MAX)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "storage id: %" PRIu64 " elements of %" PRIu32
				 " bytes are more than any file holds",
				 s->numel, size);
	s->key = ckpt_arena_copy(arena, key->u.bytes.ptr, key->u.bytes.len);
	s->location =
		ckpt_value_is_str(location, "cpu")
			? "cpu"
			: ckpt_arena_copy(arena, location->u.bytes.ptr, location->u.bytes.len);
	return s->key && s->location ? 0 : ckpt_arena_fail(arena, err);
}

/* The one thing that is noted on a value after it was made: all of it while the file is opened. */
static void set_storage_number(const struct ckpt_value *persid, int64_t index)
{
	((struct ckpt_value *)persid)->u.persid.meaning = (uint64_t)index + 1;
}

const struct ckpt_value *ckpt_storage_key(const struct ckpt_value *persid)
{
	const struct ckpt_value *pid = persid->u.persid.pid;

	if (pid->kind != CKPT_TUPLE || pid->u.seq.count < 5 ||
	    !ckpt_value_is_str(pid->u.seq.items[0], "storage"))
		return NULL;
	return ckpt_value_is_text(pid->u.seq.items[2]) ? pid->u.seq.items[2] : NULL;
}

enum ckpt_dtype ckpt_storage_dtype(const struct ckpt_model *model, int64_t index,
				   const struct ckpt_value *persid)
{
	const struct ckpt_storage *s = &model->storages[index];
	const struct ckpt_value *type, *pid = persid->u.persid.pid;
	enum ckpt_dtype own = CKPT_DTYPE_UNKNOWN;

	if (s->nbytes || s->retyped || pid->kind != CKPT_TUPLE || pid->u.seq.count < 5)
		return s->dtype;
	type = pid->u.seq.items[1];
	if (type->kind == CKPT_GLOBAL)
		own = ckpt_dtype_of_storage(type->u.global->name);
	return own == CKPT_DTYPE_UNKNOWN ? s->dtype : own;
}

static int check_key(const struct ckpt_value *key, struct ckpt_error *err)
{
	if (ckpt_value_is_text(key) && !has_nul(key) && key->u.bytes.len &&
	    key->u.bytes.len <= CKPT_MOST_STORAGE_KEY)
		return 0;
	return fail_persid(err, "a text as key", key);
}

/* "0", "17": UINT64_MAX if KEY is no number as torch writes it. */
static uint64_t number_of_key(const struct ckpt_value *key)
{
	uint64_t number = 0;

	if (key->u.bytes.len > 9 || (key->u.bytes.len > 1 && *key->u.bytes.ptr == '0'))
		return UINT64_MAX;
	for (uint64_t i = 0; i < key->u.bytes.len; i++) {
		if (key->u.bytes.ptr[i] < '0' || key->u.bytes.ptr[i] > '9')
			return UINT64_MAX;
		number = number * 10 + (uint64_t)(key->u.bytes.ptr[i] - '0');
	}
	return number;
}

/*
 * Until the first key that is not the number of its storage, as nearly all are, there is no map of
 * them.
 */
static int index_keys(struct ckpt_document *doc, struct ckpt_error *err)
{
	bool there;

	for (uint32_t i = 0; !doc->keys_indexed && i < doc->storage_count; i++)
		if (!ckpt_strmap_insert(&doc->storage_by_key, doc->storages[i].key,
					strlen(doc->storages[i].key), i, &there))
			return ckpt_fail_nomem(err);
	doc->keys_indexed = true;
	return 0;
}

/*
 * The number of the storage that PERSID describes under KEY; at its first mention it is registered.
 */
static int find_or_add_storage(struct ckpt_document *doc, const struct ckpt_value *persid,
			       const struct ckpt_value *key, uint64_t *index, bool *there,
			       struct ckpt_error *err)
{
	struct ckpt_storage *s;
	uint64_t *slot = NULL;
	int rc = check_key(key, err);

	if (rc < 0)
		return rc;
	*index = number_of_key(key);
	if (!doc->keys_indexed && *index > doc->storage_count)
		rc = index_keys(doc, err);
	if (rc < 0)
		return rc;
	if (doc->keys_indexed) {
		slot = ckpt_strmap_insert(&doc->storage_by_key, key->u.bytes.ptr, key->u.bytes.len,
					  doc->storage_count, there);
		if (!slot)
			return ckpt_fail_nomem(err);
		*index = *slot;
	} else {
		*there = *index < doc->storage_count;
	}
	if (*there)
		return 0;
	s = add_storage(doc);
	rc = s ? ckpt_storage_parse(persid, doc->pickle.arena, s, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		doc->storage_count++;
	return rc;
}

/* (view_key, offset, view_size), in elements: a part of storage ROOT that is known as VIEW_KEY. */
static int register_view(struct ckpt_document *doc, const struct ckpt_value *persid,
			 const struct ckpt_value *metadata, uint64_t root, uint64_t *index,
			 struct ckpt_error *err)
{
	const struct ckpt_value *const *item = metadata->u.seq.items;
	const struct ckpt_storage *whole = &doc->storages[root];
	struct ckpt_storage_view *view;
	struct ckpt_storage *s;
	uint64_t offset, size;
	bool there;
	int rc;

	if (metadata->u.seq.count != 3 || item[1]->kind != CKPT_INT || item[2]->kind != CKPT_INT ||
	    item[1]->u.integer < 0 || item[2]->u.integer < 0)
		return fail_persid(err, "key, offset and size of a view", metadata);
	offset = (uint64_t)item[1]->u.integer;
	size = (uint64_t)item[2]->u.integer;
	if (offset > whole->numel || size > whole->numel - offset)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "storage id: a view of %" PRIu64 " elements at %" PRIu64
				 " of a storage with %" PRIu64,
				 size, offset, whole->numel);
	rc = find_or_add_storage(doc, persid, item[0], index, &there, err);
	if (rc < 0 || there)
		return rc;
	view = ckpt_arena_alloc(doc->pickle.arena, sizeof(*view));
	if (!view)
		return ckpt_arena_fail(doc->pickle.arena, err);
	*view = (struct ckpt_storage_view){ (uint32_t)root, offset };
	s = &doc->storages[*index];
	s->key = ckpt_arena_copy(doc->pickle.arena, item[0]->u.bytes.ptr, item[0]->u.bytes.len);
	s->view = view;
	s->numel = size;
	s->nbytes = size * ckpt_dtype_size(s->dtype);
	return s->key ? 0 : ckpt_arena_fail(doc->pickle.arena, err);
}

/* Find out what a persistent id names. */
static int register_storage(struct ckpt_document *doc, const struct ckpt_value *persid,
			    struct ckpt_error *err)
{
	const struct ckpt_value *pid = persid->u.persid.pid;
	uint64_t index;
	bool there;
	int rc;

	if (pid->kind != CKPT_TUPLE || pid->u.seq.count < 5 ||
	    !ckpt_value_is_str(pid->u.seq.items[0], "storage"))
		return 0;
	rc = find_or_add_storage(doc, persid, pid->u.seq.items[2], &index, &there, err);
	if (rc == 0 && pid->u.seq.count > 5 && pid->u.seq.items[5]->kind != CKPT_TUPLE && pid->u.seq.items[5]->kind != CKPT_NONE)
		rc = fail_persid(err, "a view as a tuple", pid->u.seq.items[5]);
	if (rc == 0 && pid->u.seq.count > 5 && pid->u.seq.items[5]->kind == CKPT_TUPLE)
		rc = register_view(doc, persid, pid->u.seq.items[5], index, &index, err);
	if (rc == 0)
		set_storage_number(persid, (int64_t)index);
	return ckpt_error_at(err, rc, NULL, NULL, persid->pos);
}

/* Protocols below 4 name a class inside of another one by a call. */
static bool is_class(const struct ckpt_value *v)
{
	return v->kind == CKPT_GLOBAL || ckpt_value_is_call_of(v, "__builtin__", "getattr") ||
	       ckpt_value_is_call_of(v, "builtins", "getattr");
}

/*
 * A class of a model that was saved whole comes with its source text, as ('module', class, file,
 * source): for all that reads, the value is the class. Source: torch/serialization.py,
 * persistent_load() of _legacy_load().
 */
static int register_class(struct ckpt_model *m, const struct ckpt_value *persid,
			  struct ckpt_error *err)
{
	const struct ckpt_value *pid = persid->u.persid.pid;

	if (pid->kind != CKPT_TUPLE || pid->u.seq.count < 2 ||
	    !ckpt_value_is_str(pid->u.seq.items[0], "module") || !is_class(pid->u.seq.items[1]))
		return 0;
	return ckpt_model_replace_id(m, persid->id, pid->u.seq.items[1], err);
}

/*
 * Protocol 0 writes str(id) in the place of a persistent id: torch cannot load that, nor is a type
 * to be known from it.
 */
static int refuse_text(const struct ckpt_value *persid, struct ckpt_error *err)
{
	const struct ckpt_value *pid = persid->u.persid.pid;

	if (persid->flags & CKPT_VALUE_MISSING || !ckpt_value_is_text(pid) ||
	    pid->u.bytes.len < 10 || memcmp(pid->u.bytes.ptr, "('storage'", 10) != 0)
		return 0;
	return ckpt_error_at(
		err,
		ckpt_fail(err, CKPT_E_UNSUPPORTED,
			  "was saved with pickle protocol 0, which writes storages as text: torch "
			  "cannot load it either"),
		NULL, NULL, persid->pos);
}

/* The storage of a folded tensor. */
static int register_folded(struct ckpt_document *doc, const struct ckpt_value *folded,
			   struct ckpt_error *err)
{
	struct ckpt_folded_id id;
	struct ckpt_fold f;
	int rc;

	ckpt_fold_read(folded, &f);
	ckpt_unfold_id(folded->u.folded.mold, &f, &id);
	rc = register_storage(doc, &id.persid, err);
	((struct ckpt_value *)folded)->u.folded.meaning =
		(uint32_t)id.persid.u.persid.meaning; /* see set_storage_number() */
	return rc;
}

static int register_persids(struct ckpt_model *m, struct ckpt_error *err)
{
	const struct ckpt_seq *persids = &m->doc->pickle.persids;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < persids->count; i++) {
		if (persids->items[i]->kind == CKPT_FOLDED) {
			rc = register_folded(m->doc, persids->items[i], err);
			continue;
		}
		rc = refuse_text(persids->items[i], err);
		if (rc == 0)
			rc = register_storage(m->doc, persids->items[i], err);
		if (rc == 0)
			rc = register_class(m, persids->items[i], err);
	}
	return rc;
}

/* ---- model ---- */

void ckpt_close(struct ckpt_model *model)
{
	while (model && !--model->refs) {
		struct ckpt_model *base = model->base;

		if (model->own_storages)
			free(model->storages);
		free(model->replaced);
		free(model->tensors);
		free(model->tensor_of_id);
		pthread_mutex_destroy(&model->listing);
		ckpt_close(model->whole); /* which has none */
		if (model->free_held)
			model->free_held(model->held);
		ckpt_model_clear_casts(model);
		ckpt_arena_free(model->arena);
		ckpt_document_unref(model->doc);
		free(model);
		model = base;
	}
}

static struct ckpt_model *empty_model(struct ckpt_document *doc)
{
	struct ckpt_model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->arena = ckpt_arena_new(CKPT_MODEL_BUDGET_BASE + 64 * (uint64_t)doc->pickle_len);
	if (!m->arena) {
		free(m);
		return NULL;
	}
	pthread_mutex_init(&m->listing, NULL);
	doc->refs++;
	m->refs = 1;
	m->doc = doc;
	m->root = doc->pickle.root;
	m->next_id = doc->pickle.next_id;
	return m;
}

/*
 * Who has FOLDED tensors wants to save memory, and does without edits, which make keys. Resave
 * makes some for storages without bytes.
 */
static int keep_keys_if_wanted(struct ckpt_document *doc, struct ckpt_error *err)
{
	bool any_empty = false;

	doc->keys_are_numbers = !doc->keys_indexed;
	for (uint32_t i = 0; i < doc->storage_count; i++)
		any_empty |= !doc->storages[i].nbytes;
	if (!doc->pickle.has_folded || any_empty)
		return index_keys(doc, err);
	ckpt_strmap_clear(&doc->storage_by_key);
	return 0;
}

int ckpt_model_new(struct ckpt_document *doc, struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_model *m = empty_model(doc);
	int rc;

	*out = NULL;
	ckpt_document_unref(doc); /* the model holds its own */
	if (!m)
		return ckpt_fail_nomem(err);
	rc = register_persids(m, err);
	if (rc == 0)
		rc = keep_keys_if_wanted(m->doc, err);
	m->storages = m->doc->storages;
	m->storage_count = m->doc->storage_count;
	if (rc == 0 && m->doc->of_cpp)
		rc = ckpt_model_resolve_cpp_calls(m, err);
	if (rc == 0)
		rc = doc->pickle.has_folded ? ckpt_model_check_tensors(m, err)
					    : ckpt_model_list_tensors(m, err);
	if (rc < 0)
		ckpt_close(m);
	else
		*out = m;
	return rc;
}

int ckpt_model_derive(const struct ckpt_model *from, struct ckpt_model **out,
		      struct ckpt_error *err)
{
	struct ckpt_model *m;

	assert(!from->doc->pickle.has_folded); /* ckpt_model_whole() comes first */
	m = empty_model(from->doc);
	*out = NULL;
	if (!m)
		return ckpt_fail_nomem(err);
	m->base = (struct ckpt_model *)from; /* only its count of references changes */
	m->base->refs++;
	m->stale_metadata = from->stale_metadata;
	m->stale_metadata_count = from->stale_metadata_count;
	m->next_id = from->next_id;
	m->root = from->root;
	m->protocol = from->protocol;
	m->storages = from->storages;
	m->storage_count = from->storage_count;
	if (from->replaced_cap) {
		m->replaced = calloc(from->replaced_cap, sizeof(*m->replaced));
		if (!m->replaced) {
			ckpt_close(m);
			return ckpt_fail_nomem(err);
		}
		memcpy(m->replaced, from->replaced, from->replaced_cap * sizeof(*m->replaced));
		m->replaced_cap = from->replaced_cap;
	}
	*out = m;
	return 0;
}

void ckpt_ignore_checksums(struct ckpt_model *model)
{
	struct ckpt_document *doc = model->doc;

	doc->ignores_checksums = true;
	for (uint32_t i = 0; i < doc->storage_count; i++)
		doc->storages[i].has_crc = false;
	for (uint32_t i = 0; i < model->storage_count; i++) {
		struct ckpt_storage *s = &model->storages[i];

		s->has_crc = false;
		if (s->made)
			ckpt_recipe_forget_crc((struct ckpt_recipe *)s->made);
	}
	if (doc->forget_checksums)
		doc->forget_checksums(doc);
}

static int read_whole(struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_document *doc = model->doc;
	struct ckpt_model *whole = NULL;
	int rc = doc->read_whole(doc->source, &whole, err);

	if (rc == 0 && doc->inner_path) {
		whole->doc->inner_path = strdup(doc->inner_path);
		rc = whole->doc->inner_path ? 0 : ckpt_fail_nomem(err);
	}
	if (rc == 0 && doc->ignores_checksums)
		ckpt_ignore_checksums(whole);
	if (rc < 0)
		ckpt_close(whole);
	else
		model->whole = whole;
	return ckpt_error_at(err, rc, ckpt_document_path(doc), NULL, CKPT_NO_OFFSET);
}

int ckpt_model_whole(const struct ckpt_model **model, struct ckpt_error *err)
{
	struct ckpt_model *m = (struct ckpt_model *)*model; /* WHOLE is a cache */
	int rc = 0;

	if (!m->doc->pickle.has_folded)
		return 0;
	pthread_mutex_lock(&m->listing);
	if (!m->whole)
		rc = read_whole(m, err);
	pthread_mutex_unlock(&m->listing);
	if (rc == 0)
		*model = m->whole;
	return rc;
}

int ckpt_model_own_storages(struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_storage *own;

	if (model->own_storages)
		return 0;
	own = malloc((model->storage_count + (size_t)1) * sizeof(*own));
	if (!own)
		return ckpt_fail_nomem(err);
	if (model->storage_count)
		memcpy(own, model->storages, model->storage_count * sizeof(*own));
	model->storages = own;
	model->storage_cap = model->storage_count + 1;
	model->own_storages = true;
	return 0;
}

struct ckpt_storage *ckpt_model_add_storage(struct ckpt_model *model)
{
	struct ckpt_storage *grown, *s;

	assert(model->own_storages);
	grown = ckpt_grow(model->storages, model->storage_count, &model->storage_cap,
			  sizeof(*grown));
	if (!grown)
		return NULL;
	model->storages = grown;
	s = &grown[model->storage_count++];
	*s = (struct ckpt_storage){ 0 };
	return s;
}

const char *ckpt_model_new_key(struct ckpt_model *model, char letter)
{
	struct ckpt_strmap *taken = &model->doc->storage_by_key;
	char key[40], upper[40];

	/*
	 * the number is new in this chain of edits; a file that was written with such keys may have
	 * it
	 */
	snprintf(key, sizeof(key), "%c%u", letter, model->storage_count);
	for (unsigned salt = 0;; salt++) {
		size_t len = strlen(key);

		for (size_t i = 0; i < len; i++)
			upper[i] = (char)ckpt_to_upper((unsigned char)key[i]);
		if (!ckpt_strmap_find(taken, key, len) && !ckpt_strmap_find(taken, upper, len))
			return ckpt_arena_copy(model->arena, key, len);
		snprintf(key, sizeof(key), "%c%u.%u", letter, model->storage_count, salt);
	}
}

int ckpt_model_storage_bytes(const struct ckpt_model *model, const struct ckpt_storage *storage,
			     struct ckpt_recipe *out, struct ckpt_error *err)
{
	int rc;

	if (storage->made) {
		*out = *storage->made;
		return 0;
	}
	rc = model->doc->storage_bytes(model->doc, storage, out, err);
	/* else the format may know more than one of the storage */
	if (rc == 0 && storage->has_crc) {
		out->has_crc = true;
		out->crc32 = storage->crc32;
	}
	if (rc == 0 && model->doc->ignores_checksums)
		ckpt_recipe_forget_crc(out);
	return rc;
}

int ckpt_model_replace(struct ckpt_model *model, const struct ckpt_value *with,
		       struct ckpt_error *err)
{
	return ckpt_model_replace_id(model, with->id, with, err);
}

int ckpt_model_replace_id(struct ckpt_model *model, uint32_t id, const struct ckpt_value *with,
			  struct ckpt_error *err)
{
	if (id >= model->replaced_cap) {
		uint32_t cap = model->next_id;
		void *grown = realloc(model->replaced, cap * sizeof(*model->replaced));

		if (!grown)
			return ckpt_fail_nomem(err);
		model->replaced = grown;
		memset(model->replaced + model->replaced_cap, 0,
		       (cap - model->replaced_cap) * sizeof(*model->replaced));
		model->replaced_cap = cap;
	}
	model->replaced[id] = with;
	return 0;
}

struct ckpt_value *ckpt_model_new_value(struct ckpt_model *model, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(model->arena, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->id = model->next_id++;
		v->pos = CKPT_NO_OFFSET;
	}
	return v;
}

const struct ckpt_value *ckpt_model_new_str(struct ckpt_model *model, const char *text, size_t len)
{
	struct ckpt_value *v = ckpt_model_new_value(model, CKPT_STR);
	char *copy = v ? ckpt_arena_copy(model->arena, text, len) : NULL;

	if (!copy)
		return NULL;
	v->u.bytes.ptr = copy;
	v->u.bytes.len = len;
	return v;
}
