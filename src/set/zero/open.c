/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a DeepSpeed directory as the state dict that zero_to_fp32.py would make: reads the
 * optimizers of all ranks, then the model states, and makes one tensor for each entry.
 *
 * Rank 0's files stay open until all was read, the others are closed as soon as their values are
 * known, so that memory is that of a few pickles. Bytes are stretches of files; a file whose
 * bytes have to be made (compressed, of another kind) stays open (`is_needed`). Recipes are made
 * when they are first asked for, under the lock. The key of a storage is the number of its entry.
 */
#include "set/zero/read.h"

#include "model/maker.h"
#include "model/state_dict.h"
#include "tensor/assemble.h"
#include "tensor/cast.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_zero(void *container)
{
	struct ckpt_zero *z = container;

	for (uint32_t i = 0; z->files && i < z->file_count; i++) {
		ckpt_close(z->files[i].model);
		ckpt_source_unref(z->files[i].source);
	}
	for (uint32_t i = 0; z->streams && i < z->stream_count; i++)
		ckpt_zero_stream_clear(&z->streams[i]);
	for (uint32_t i = 0; z->frozen && i < z->frozen_count; i++)
		ckpt_zero_stream_clear(&z->frozen[i]);
	free(z->files);
	free(z->streams);
	free(z->frozen);
	free(z->entries);
	free(z->order);
	ckpt_strmap_clear(&z->by_name);
	ckpt_zero_names_clear(&z->names);
	ckpt_arena_free(z->arena);
	pthread_mutex_destroy(&z->lock);
	free(z->path);
	free(z);
}

/* ---- the files ---- */

static int read_optims(struct ckpt_zero_reader *r)
{
	const struct ckpt_zero_names *n = &r->zero->names;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < n->optim_count; i++) {
		uint32_t file = n->model_count + i;

		rc = ckpt_zero_open_file(r, file, n->optim_states[i]);
		if (rc == 0)
			rc = ckpt_error_at(r->err, ckpt_zero_read_optim(r, i),
					   ckpt_source_path(r->zero->files[file].source), NULL,
					   CKPT_NO_OFFSET);
		if (rc == 0 && i)
			ckpt_zero_release_file(r, file);
	}
	return rc;
}

static int read_models(struct ckpt_zero_reader *r)
{
	const struct ckpt_zero_names *n = &r->zero->names;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < n->model_count; i++) {
		rc = i ? ckpt_zero_open_file(r, i, n->model_states[i]) : 0;
		if (!i)
			ckpt_zero_select_file(r, 0);
		if (rc == 0 && !i)
			rc = ckpt_zero_read_model(r);
		if (rc == 0)
			rc = ckpt_zero_read_frozen(r, i);
		if (rc < 0 && r->zero->files[i].source)
			ckpt_error_at(r->err, rc, ckpt_source_path(r->zero->files[i].source), NULL,
				      CKPT_NO_OFFSET);
		if (rc == 0)
			ckpt_zero_release_file(r, i);
	}
	if (rc == 0)
		ckpt_zero_release_file(r, n->model_count);
	return rc == 0 ? ckpt_zero_choose_dtypes(r) : rc;
}

/* ---- the values ---- */

static const struct ckpt_value *make_tensor(struct ckpt_maker *maker, uint32_t number,
					    const struct ckpt_zero_entry *e)
{
	struct ckpt_maker_view view = { .dtype = e->dtype, .ndim = e->ndim, .shape = e->shape };
	char key[16];

	snprintf(key, sizeof(key), "%" PRIu32, number);
	return ckpt_maker_tensor(maker, ckpt_maker_storage(maker, e->dtype, key, NULL, e->numel),
				 &view);
}

/* An OrderedDict in which names of one entry have one tensor. */
static int make_values(struct ckpt_zero *z, struct ckpt_document *doc, struct ckpt_error *err)
{
	struct ckpt_maker maker = { .arena = doc->pickle.arena, .pickle = &doc->pickle };
	struct ckpt_value *root = ckpt_maker_ordered_dict(&maker);
	bool fine = root != NULL;

	for (uint32_t i = 0; fine && i < z->name_count; i++) {
		const struct ckpt_zero_name *name = &z->order[i];
		struct ckpt_zero_entry *e = z->entries[name->entry];

		if (!e->value)
			e->value = make_tensor(&maker, name->entry, e);
		fine = ckpt_maker_put(&maker, root, ckpt_maker_text(&maker, name->text, name->len),
				      e->value);
	}
	ckpt_maker_clear(&maker);
	doc->pickle.root = root;
	return fine ? 0 : ckpt_fail_nomem(err);
}

/* ---- the bytes ---- */

static int whole_bytes(struct ckpt_zero *z, const struct ckpt_zero_entry *e,
		       struct ckpt_recipe *out, struct ckpt_error *err)
{
	static const uint64_t zeros[CKPT_MOST_DIMS];
	const struct ckpt_tensor_block block = { .offset = zeros,
						 .shape = e->shape,
						 .stride = e->whole.stride,
						 .first = e->whole.offset,
						 .bytes = e->whole_bytes };
	struct ckpt_cast *cast;
	int rc = ckpt_assemble(&block, 1, e->ndim, zeros, e->shape, ckpt_dtype_size(e->whole.dtype),
			       z->arena, out, err);

	if (rc < 0 || e->dtype == e->whole.dtype || !out->len)
		return rc;
	cast = ckpt_arena_alloc(z->arena, sizeof(*cast));
	if (!cast)
		return ckpt_arena_fail(z->arena, err);
	*cast = ckpt_cast_of(out, e->whole.dtype, e->dtype);
	*out = ckpt_map_recipe(&cast->map);
	return 0;
}

static int make_bytes(struct ckpt_zero *z, struct ckpt_zero_entry *e, struct ckpt_error *err)
{
	struct ckpt_recipe *made = ckpt_arena_alloc(z->arena, sizeof(*made));
	int rc;

	if (!made)
		return ckpt_arena_fail(z->arena, err);
	rc = e->stream_count ? ckpt_zero_streams_bytes(e->streams, e->first, e->share, e->numel,
						       e->dtype, z->arena, made, err)
			     : whole_bytes(z, e, made, err);
	if (rc == 0)
		e->made = made;
	return rc;
}

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	struct ckpt_zero *z = doc->container;
	struct ckpt_zero_entry *e = z->entries[strtoul(s->key, NULL, 10)];
	int rc = 0;

	pthread_mutex_lock(&z->lock);
	if (!e->made)
		rc = make_bytes(z, e, err);
	if (rc == 0)
		*out = *e->made;
	pthread_mutex_unlock(&z->lock);
	return rc;
}

/* ---- the document ---- */

static int held_files(const void *held, ckpt_model_visit_file *visit, void *ctx)
{
	const struct ckpt_zero *z = held;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < z->file_count; i++)
		rc = ckpt_model_visit_source(z->files[i].source, NULL, visit, ctx);
	return rc;
}

static int each_file(const struct ckpt_document *doc, ckpt_model_visit_file *visit, void *ctx)
{
	return held_files(doc->container, visit, ctx);
}

static struct ckpt_document *new_document(const struct ckpt_zero_reader *r)
{
	struct ckpt_document *doc = calloc(1, sizeof(*doc));
	struct ckpt_zero *z = r->zero;

	if (!doc)
		return NULL;
	doc->refs = 1;
	doc->source = ckpt_source_ref(z->files[0].source);
	doc->format = &ckpt_format_zero;
	doc->storage_bytes = storage_bytes;
	doc->each_file = each_file;
	doc->path = z->path;
	doc->pickle.arena = ckpt_arena_new(UINT64_MAX >> 1); /* in proportion to the entries */
	doc->pickle.next_id = 1;
	doc->pickle.protocol = 2;
	for (uint32_t i = 0; i < z->file_count; i++)
		doc->pickle_len += z->files[i].pickle_nbytes;
	if (doc->pickle.arena)
		return doc;
	ckpt_document_unref(doc);
	return NULL;
}

/* The document takes the container. */
static int make_model(struct ckpt_zero_reader *r, struct ckpt_model **out)
{
	struct ckpt_document *doc = new_document(r);
	int rc = doc ? make_values(r->zero, doc, r->err) : ckpt_fail_nomem(r->err);

	if (rc < 0) {
		ckpt_document_unref(doc);
		free_zero(r->zero);
		return rc;
	}
	snprintf(r->zero->writer, sizeof(r->zero->writer), "DeepSpeed%s%s",
		 *r->zero->version ? " " : "", r->zero->version);
	doc->container = r->zero;
	doc->free_container = free_zero;
	return ckpt_model_new(doc, out, r->err);
}

static struct ckpt_zero *new_zero(const char *path, struct ckpt_zero_names *names)
{
	struct ckpt_zero *z = calloc(1, sizeof(*z));

	if (!z) {
		ckpt_zero_names_clear(names);
		return NULL;
	}
	pthread_mutex_init(&z->lock, NULL);
	z->names = *names;
	*names = (struct ckpt_zero_names){ 0 };
	z->path = strdup(path);
	z->arena = ckpt_arena_new(UINT64_MAX >> 1); /* what is listed is limited, file by file */
	z->file_count = z->names.model_count + z->names.optim_count;
	z->files = calloc(z->file_count, sizeof(*z->files));
	if (z->path && z->arena && z->files)
		return z;
	free_zero(z);
	return NULL;
}

/* ---- without ZeRO ---- */

/*
 * `module` of the only file there is. It cannot be edited in place: what else is in the file would
 * be lost.
 */
static int open_module(struct ckpt_zero_reader *r, struct ckpt_model **out)
{
	const struct ckpt_model *model = r->model;
	const struct ckpt_value *root = ckpt_model_now(model, model->root),
				*module = ckpt_zero_field(r, root, "module");
	int rc;

	if (ckpt_zero_field(r, root, "param_shapes"))
		return ckpt_fail(
			r->err, CKPT_E_FORMAT,
			"is of a checkpoint with ZeRO, and there is no *_optim_states.pt beside "
			"it, which have the weights in full precision; its 'module' has those of "
			"the training");
	if (!module || !ckpt_value_pairs(module))
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "has no dict 'module', which are the weights");
	rc = ckpt_model_derive(model, out, r->err);
	if (rc < 0)
		return rc;
	(*out)->root = module;
	(*out)->held = r->zero;
	(*out)->free_held = free_zero;
	(*out)->held_files = held_files;
	return 0;
}

int ckpt_zero_open(const char *path, struct ckpt_zero_names *names, struct ckpt_model **out,
		   struct ckpt_error *err)
{
	struct ckpt_zero_reader r = { .zero = new_zero(path, names), .err = err };
	int rc = r.zero ? ckpt_zero_open_file(&r, 0, r.zero->names.model_states[0])
			: ckpt_fail_nomem(err);

	*out = NULL;
	if (rc == 0 && !r.zero->names.optim_count) {
		rc = ckpt_error_at(err, open_module(&r, out),
				   ckpt_source_path(r.zero->files[0].source), NULL, CKPT_NO_OFFSET);
		if (rc < 0)
			free_zero(r.zero);
		return rc;
	}
	if (rc == 0)
		rc = read_optims(&r);
	if (rc == 0)
		rc = read_models(&r);
	if (rc == 0)
		return make_model(&r, out);
	if (r.zero)
		free_zero(r.zero);
	return rc;
}
