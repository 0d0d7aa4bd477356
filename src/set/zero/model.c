/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the model states of DeepSpeed: names of buffers, frozen parameters, shared ones, and
 * where the shapes of the optimizer's parameters are. The order of reading is the order of the
 * result: buffers, frozen parameters, parameters, then other names of shared ones. Source:
 * utils/zero_to_fp32.py of DeepSpeed 0.3.16 to 0.19.8.
 *
 * In stage 3 rank 0's file gives names and shapes of frozen parameters, and each rank's file
 * gives its share of them, in the same order: add_share() checks that the names agree. Models
 * that are cut in other ways than by ZeRO are refused (check_kind()), since their parts would be
 * put together wrongly.
 */
#include "set/zero/read.h"

#include "base/text.h"
#include "model/state_dict.h"
#include "tensor/cast.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail_key(struct ckpt_zero_reader *r, int rc, const char *what,
		    const struct ckpt_value *key)
{
	return ckpt_zero_fail_named(r, rc, what, key->u.bytes.ptr, key->u.bytes.len);
}

/* ---- tensors that are there as a whole ---- */

static int add_whole(struct ckpt_zero_reader *r, const struct ckpt_value *key,
		     const struct ckpt_value *v, bool widen)
{
	uint32_t number;
	struct ckpt_zero_entry *e = ckpt_zero_new_entry(r, &number);
	int rc = e ? ckpt_zero_tensor(r, v, &e->whole, &e->whole_bytes) : ckpt_fail_nomem(r->err);

	if (rc < 0)
		return rc;
	e->ndim = e->whole.ndim;
	e->shape = e->whole.shape;
	e->numel = 1;
	for (uint32_t i = 0; i < e->ndim; i++)
		e->numel *= e->shape[i];
	e->dtype = e->whole.dtype;
	if (widen && ckpt_dtype_is_floating(e->dtype))
		e->dtype = CKPT_DTYPE_FLOAT32;
	return ckpt_zero_set_name(r, key, number);
}

/* ---- buffers ---- */

static int list_buffers(struct ckpt_zero_reader *r, const struct ckpt_value *root,
			struct ckpt_strmap *names)
{
	const struct ckpt_seq *list;
	int rc = ckpt_zero_list(r, ckpt_zero_field(r, root, "buffer_names"), "buffer_names", &list);

	for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
		const struct ckpt_value *name = ckpt_model_now(r->model, list->items[i]);
		bool there;

		rc = ckpt_zero_check_key(r, name, "buffer_names");
		if (rc == 0 &&
		    !ckpt_strmap_insert(names, name->u.bytes.ptr, name->u.bytes.len, 0, &there))
			rc = ckpt_fail_nomem(r->err);
	}
	return rc;
}

/*
 * What `module` has under the names of buffers, floating ones as float32. The same object twice
 * stays one.
 */
static int read_buffers(struct ckpt_zero_reader *r, const struct ckpt_seq *module,
			const struct ckpt_strmap *names)
{
	struct ckpt_strmap seen = { 0 }; /* the id of a value, to its entry */
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i + 1 < module->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(r->model, module->items[i]), *v;
		uint64_t *slot;
		bool there = false;

		if (key->kind != CKPT_STR ||
		    !ckpt_strmap_find(names, key->u.bytes.ptr, key->u.bytes.len))
			continue;
		v = ckpt_model_now(r->model, module->items[i + 1]);
		slot = ckpt_strmap_insert(&seen, (const char *)&v->id, sizeof(v->id),
					  r->zero->entry_count, &there);
		if (!slot)
			rc = ckpt_fail_nomem(r->err);
		else
			rc = there ? ckpt_zero_set_name(r, key, (uint32_t)*slot)
				   : add_whole(r, key, v, true);
		fail_key(r, rc, "buffer", key);
	}
	ckpt_strmap_clear(&seen);
	return rc;
}

/* ---- frozen parameters ---- */

static int check_whole_shape(struct ckpt_zero_reader *r, const struct ckpt_zero_cut *wanted)
{
	const struct ckpt_tensor *t = &r->zero->entries[r->zero->entry_count - 1]->whole;
	bool same = t->ndim == wanted->ndim;

	for (uint32_t i = 0; same && i < t->ndim; i++)
		same = t->shape[i] == wanted->shape[i];
	return same ? 0
		    : ckpt_fail(r->err, CKPT_E_FORMAT,
				"is of another shape than 'frozen_param_shapes' says");
}

static void note_narrow(struct ckpt_zero *z, enum ckpt_dtype dtype)
{
	if (dtype != CKPT_DTYPE_FLOAT32 && !z->frozen_narrow++)
		z->frozen_dtype = dtype;
}

/*
 * Stages 1 and 2 have it as it is; in stage 3 every rank has a share, in the order of
 * 'frozen_param_shapes'.
 */
static int add_frozen(struct ckpt_zero_reader *r, const struct ckpt_value *key,
		      const struct ckpt_value *shape, const struct ckpt_value *whole,
		      uint64_t *first)
{
	struct ckpt_zero *z = r->zero;
	struct ckpt_zero_cut cut = { .streams = z->frozen, .stream_count = z->frozen_count };
	int rc = ckpt_zero_shape(r, shape, &cut);

	if (rc < 0)
		return rc;
	if (z->stage == 3)
		return ckpt_zero_add_cut(r, key, &cut, first);
	rc = add_whole(r, key, whole, false);
	if (rc < 0)
		return rc;
	note_narrow(z, z->entries[z->entry_count - 1]->dtype);
	return check_whole_shape(r, &cut);
}

static int make_frozen_streams(struct ckpt_zero_reader *r)
{
	struct ckpt_zero *z = r->zero;

	z->frozen_count = z->names.optim_count;
	z->frozen = calloc(z->frozen_count, sizeof(*z->frozen));
	return z->frozen ? 0 : ckpt_fail_nomem(r->err);
}

static int read_frozen(struct ckpt_zero_reader *r, const struct ckpt_value *root)
{
	const struct ckpt_value *shapes = ckpt_zero_field(r, root, "frozen_param_shapes"),
				*fragments = ckpt_zero_field(r, root, "frozen_param_fragments");
	const struct ckpt_seq *names, *parts;
	uint64_t first = 0;
	int rc;

	if (!shapes)
		return 0;
	rc = ckpt_zero_mapping(r, shapes, "frozen_param_shapes", &names);
	if (rc < 0 || !names->count)
		return rc;
	rc = ckpt_zero_mapping(r, fragments, "frozen_param_fragments", &parts);
	if (rc == 0 && names->count != parts->count)
		rc = ckpt_fail(r->err, CKPT_E_FORMAT,
			       "'frozen_param_shapes' has %" PRIu32
			       " names, 'frozen_param_fragments' %" PRIu32,
			       names->count / 2, parts->count / 2);
	if (rc == 0 && r->zero->stage == 3)
		rc = make_frozen_streams(r);
	/* both were made in one order, from one list */
	for (uint32_t i = 0; rc == 0 && i + 1 < names->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(r->model, names->items[i]),
					*other = ckpt_model_now(r->model, parts->items[i]);

		rc = ckpt_zero_check_key(r, key, "frozen_param_shapes");
		if (rc < 0)
			break;
		if (other->kind != CKPT_STR || other->u.bytes.len != key->u.bytes.len ||
		    memcmp(other->u.bytes.ptr, key->u.bytes.ptr, key->u.bytes.len) != 0)
			rc = ckpt_fail(r->err, CKPT_E_FORMAT,
				       "has another place in 'frozen_param_fragments'");
		else
			rc = add_frozen(r, key, ckpt_model_now(r->model, names->items[i + 1]),
					ckpt_model_now(r->model, parts->items[i + 1]), &first);
		fail_key(r, rc, "frozen parameter", key);
	}
	return rc;
}

/* The share of one rank, which has to be that of entry NUMBER. */
static int add_share(struct ckpt_zero_reader *r, struct ckpt_zero_stream *s, uint32_t number,
		     const struct ckpt_value *key, const struct ckpt_value *v)
{
	const struct ckpt_zero_name *name = ckpt_zero_find_name(r->zero, key);
	const struct ckpt_zero_entry *e = r->zero->entries[number];
	int rc;

	if (!name || name->entry != number)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "'frozen_param_fragments' has other names than rank 0's file");
	rc = ckpt_zero_add_flat(r, v, s);
	if (rc == 0 && s->pieces[s->count - 1].numel != e->share)
		rc = ckpt_fail(r->err, CKPT_E_FORMAT,
			       "has %" PRIu64 " items, where a share of %" PRIu64 " is %" PRIu64,
			       s->pieces[s->count - 1].numel, e->numel, e->share);
	return fail_key(r, rc, "frozen parameter", key);
}

int ckpt_zero_read_frozen(struct ckpt_zero_reader *r, uint32_t rank)
{
	struct ckpt_zero *z = r->zero;
	const struct ckpt_value *root = ckpt_model_now(r->model, r->model->root);
	const struct ckpt_seq *parts;
	uint32_t at = 0;
	int rc;

	if (!z->frozen_count)
		return 0;
	rc = ckpt_zero_mapping(r, ckpt_zero_field(r, root, "frozen_param_fragments"),
			       "frozen_param_fragments", &parts);
	for (uint32_t i = 0; rc == 0 && i < z->entry_count; i++) {
		if (z->entries[i]->streams != z->frozen)
			continue;
		if (at + 1 >= parts->count)
			return ckpt_fail(r->err, CKPT_E_FORMAT,
					 "'frozen_param_fragments' has %" PRIu32
					 " names, rank 0's more",
					 parts->count / 2);
		rc = add_share(r, &z->frozen[rank], i, ckpt_model_now(r->model, parts->items[at]),
			       ckpt_model_now(r->model, parts->items[at + 1]));
		at += 2;
	}
	return rc;
}

/* ---- shared parameters ---- */

static int read_shared(struct ckpt_zero_reader *r, const struct ckpt_value *root)
{
	const struct ckpt_value *shared = ckpt_zero_field(r, root, "shared_params");
	const struct ckpt_seq *pairs;
	int rc;

	if (!shared)
		return 0;
	rc = ckpt_zero_mapping(r, shared, "shared_params", &pairs);
	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *alias = ckpt_model_now(r->model, pairs->items[i]);
		const struct ckpt_zero_name *source =
			ckpt_zero_find_name(r->zero, ckpt_model_now(r->model, pairs->items[i + 1]));

		rc = ckpt_zero_check_key(r, alias, "shared_params");
		if (rc == 0 && source)
			rc = ckpt_zero_set_name(r, alias, source->entry);
	}
	return rc;
}

/* ---- all of it ---- */

/* Numbers of ways in which a model can be cut beside ZeRO: only 1 can be put together. */
static int check_cuts(struct ckpt_zero_reader *r, const struct ckpt_value *mapping,
		      const char *const *keys, size_t count)
{
	for (size_t i = 0; mapping && i < count; i++) {
		const struct ckpt_value *v = ckpt_zero_field(r, mapping, keys[i]);

		if (v && v->kind == CKPT_INT && v->u.integer > 1)
			return ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
					 "'%s' is %" PRId64
					 ": a model that is cut by tensor or pipeline parallelism "
					 "cannot be put together",
					 keys[i], v->u.integer);
	}
	return 0;
}

static int check_kind(struct ckpt_zero_reader *r, const struct ckpt_value *root)
{
	static const char *const world[] = { "mp_world_size" },
				 *const degrees[] = { "pp_degree", "tp_degree" },
				 *const experts[] = { "ds_autoep_layers", "autoep_layers" };
	int rc = check_cuts(r, root, world, 1);

	if (rc == 0)
		rc = check_cuts(r, ckpt_zero_field(r, root, "checkpoint_parallel_dimensions"),
				degrees, 2);
	for (int i = 0; rc == 0 && i < 2; i++) {
		const struct ckpt_value *v = ckpt_zero_field(r, root, experts[i]);

		if (v && v->kind == CKPT_LIST && v->u.seq.count)
			rc = ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
				       "has '%s': experts that are spread over groups of ranks "
				       "(AutoEP) cannot be put together",
				       experts[i]);
	}
	return rc;
}

/* What is said beside the weights. */
static void note_facts(struct ckpt_zero_reader *r, const struct ckpt_value *root)
{
	const struct ckpt_value *version = ckpt_zero_field(r, root, "ds_version"),
				*world = ckpt_zero_field(r, root, "dp_world_size");
	struct ckpt_zero *z = r->zero;

	if (version && version->kind == CKPT_STR)
		ckpt_escape(z->version, sizeof(z->version), version->u.bytes.ptr,
			    version->u.bytes.len);
	if (world && world->kind == CKPT_INT && world->u.integer > 0)
		z->dp_world_size = (uint64_t)world->u.integer;
}

static void note_left_out(struct ckpt_zero_reader *r, const struct ckpt_seq *module)
{
	struct ckpt_zero *z = r->zero;

	for (uint32_t i = 0; i + 1 < module->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(r->model, module->items[i]);

		if (key->kind != CKPT_STR || ckpt_zero_find_name(z, key) ||
		    !ckpt_value_is_tensor(r->model, ckpt_model_now(r->model, module->items[i + 1])))
			continue;
		if (!z->left_out++)
			ckpt_escape(z->first_left_out, sizeof(z->first_left_out), key->u.bytes.ptr,
				    key->u.bytes.len);
	}
}

/* Releases before 0.6 have the shapes in the optimizer's file. */
static int read_params(struct ckpt_zero_reader *r, const struct ckpt_value *root)
{
	const struct ckpt_value *shapes = ckpt_zero_field(r, root, "param_shapes");
	uint32_t optim = r->zero->names.model_count;
	int rc;

	if (shapes)
		return ckpt_zero_read_params(r, shapes);
	ckpt_zero_select_file(r, optim);
	shapes = ckpt_zero_field(r, ckpt_model_now(r->model, r->model->root), "param_shapes");
	rc = shapes ? ckpt_error_at(r->err, ckpt_zero_read_params(r, shapes),
				    ckpt_source_path(r->zero->files[optim].source), NULL,
				    CKPT_NO_OFFSET)
		    : 0;
	ckpt_zero_select_file(r, 0);
	return shapes ? rc : ckpt_zero_read_params(r, NULL);
}

int ckpt_zero_read_model(struct ckpt_zero_reader *r)
{
	const struct ckpt_value *root = ckpt_model_now(r->model, r->model->root);
	struct ckpt_strmap buffers = { 0 };
	const struct ckpt_seq *module = NULL;
	int rc = check_kind(r, root);

	if (rc == 0)
		rc = ckpt_zero_mapping(r, ckpt_zero_field(r, root, "module"), "module", &module);
	if (rc == 0)
		rc = list_buffers(r, root, &buffers);
	if (rc == 0)
		rc = read_buffers(r, module, &buffers);
	if (rc == 0)
		rc = read_frozen(r, root);
	if (rc == 0)
		rc = read_params(r, root);
	if (rc == 0)
		rc = read_shared(r, root);
	if (rc == 0) {
		note_facts(r, root);
		note_left_out(r, module);
	}
	ckpt_strmap_clear(&buffers);
	return rc;
}
