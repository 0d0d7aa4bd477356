/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An edited directory is a new index over the old data files: items hold no names. What the index
 * says beside the entries (version, id of the save, attributes of other tools) stays, and so does
 * the dialect it is written in. Values that changed themselves go into a new data file.
 *
 * An entry of the output is recognized as one of the input by the id of its value, so that id
 * must survive every edit. A value is written anew if anything that can be reached from it was
 * replaced or a storage of it changed; tensors cannot be written here (`new_data`). In the new
 * index one node is a key in all three dicts, as the pickler would write one object.
 */
#include "set/dcp/edit.h"

#include "base/grow.h"
#include "pickle/encode.h"
#include "set/dcp/item_writer.h"
#include "zipfmt/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which entry of the input is it ---- */

static int map_entries(struct ckpt_dcp_edit *d, struct ckpt_error *err)
{
	const struct ckpt_dcp *dcp = ckpt_dcp_of(d->model);
	uint32_t *by_id = calloc(d->model->doc->pickle.next_id, sizeof(*by_id));

	d->from = malloc((d->out.entry_count + (size_t)1) * sizeof(*d->from));
	if (!by_id || !d->from) {
		free(by_id);
		return ckpt_fail_nomem(err);
	}
	d->like = UINT32_MAX;
	for (uint32_t i = 0; i < dcp->index.entry_count; i++) {
		const struct ckpt_dcp_entry *e = &dcp->index.entries[i];

		by_id[dcp->values[i]->id] = i + 1;
		if (!e->is_tensor && e->chunk_count && dcp->index.chunks[e->first_chunk].place)
			d->like = i;
	}
	for (uint32_t i = 0; i < d->out.entry_count; i++) {
		uint32_t id = d->out.entries[i].value->id;

		d->from[i] = id < d->model->doc->pickle.next_id ? by_id[id] - 1 : UINT32_MAX;
	}
	free(by_id);
	return 0;
}

/* Was anything below V replaced, or a storage moved? With a stack of its own. */
struct change_finder {
	const struct ckpt_model *model;
	uint8_t *seen; /* by id */
	const struct ckpt_value **stack;
	uint32_t depth, cap;
	bool failed, changed;
};

static void push_value(struct change_finder *l, const struct ckpt_value *v)
{
	void *grown;

	if (!v || (v->id && l->seen[v->id]))
		return;
	if (v->id)
		l->seen[v->id] = 1;
	grown = ckpt_grow(l->stack, l->depth, &l->cap, sizeof(*l->stack));
	if (!grown) {
		l->failed = true;
		return;
	}
	l->stack = grown;
	l->stack[l->depth++] = v;
}

static void push_items(struct change_finder *l, const struct ckpt_seq *seq)
{
	for (uint32_t i = 0; i < seq->count; i++)
		push_value(l, seq->items[i]);
}

static void visit_value(struct change_finder *l, const struct ckpt_value *v)
{
	const struct ckpt_model *m = l->model;
	int64_t storage;

	if (ckpt_model_now(m, v) != v)
		l->changed = true;
	switch (v->kind) {
	case CKPT_TUPLE:
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET:
	case CKPT_DICT: push_items(l, &v->u.seq); break;
	case CKPT_CALL:
		push_value(l, v->u.call->func);
		push_value(l, v->u.call->args);
		push_value(l, v->u.call->kwargs);
		push_value(l, v->u.call->state);
		push_items(l, &v->u.call->items);
		push_items(l, &v->u.call->pairs);
		break;
	case CKPT_PERSID:
		storage = ckpt_storage_of(v);
		if (storage >= 0 && memcmp(&m->storages[storage], &m->doc->storages[storage],
					   sizeof(*m->storages)) != 0)
			l->changed = true;
		break;
	default: break;
	}
}

static int is_changed(const struct ckpt_model *model, struct change_finder *l,
		      const struct ckpt_value *v, bool *out, struct ckpt_error *err)
{
	l->model = model;
	l->changed = false;
	push_value(l, v);
	while (l->depth && !l->failed)
		visit_value(l, l->stack[--l->depth]);
	*out = l->changed;
	return l->failed ? ckpt_fail_nomem(err) : 0;
}

/* Is the tensor still that of the directory, all of it? */
static bool is_whole(const struct ckpt_dcp_edit *d, uint32_t entry)
{
	const struct ckpt_tensor *t = &d->out.entries[entry].tensor;
	uint32_t of;

	return !d->model->storages[t->storage].retyped && ckpt_dcp_tensor_entry(d->model, t, &of);
}

/* Which values have to be written anew, and whether tensors do. */
static int find_changes(struct ckpt_dcp_edit *d, struct ckpt_error *err)
{
	const struct ckpt_model *m = d->model;
	struct change_finder l = { .seen = calloc(m->next_id, 1) };
	int rc = 0;

	d->rewrite = calloc(d->out.entry_count + (size_t)1, 1);
	if (!l.seen || !d->rewrite)
		rc = ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < d->out.entry_count; i++) {
		const struct ckpt_dcp_out_entry *e = &d->out.entries[i];
		bool changed = true;

		if (d->from[i] == UINT32_MAX) {
			d->new_data |= e->is_tensor || d->like == UINT32_MAX;
		} else if (e->is_tensor) {
			d->new_data |= !is_whole(d, i);
			changed = false;
		} else if (e->value == ckpt_dcp_of(m)->values[d->from[i]]) {
			rc = is_changed(m, &l, e->value, &changed, err);
		}
		d->rewrite[i] = changed;
		d->rewrite_count += changed;
	}
	free(l.seen);
	free(l.stack);
	return rc;
}

int ckpt_dcp_edit_plan(const struct ckpt_model *model, struct ckpt_dcp_edit *out,
		       struct ckpt_error *err)
{
	int rc;

	*out = (struct ckpt_dcp_edit){ .model = model };
	rc = ckpt_dcp_flatten_model(model, &out->out, err);
	if (rc == 0)
		rc = map_entries(out, err);
	if (rc == 0)
		rc = find_changes(out, err);
	return rc;
}

void ckpt_dcp_edit_clear(struct ckpt_dcp_edit *d)
{
	ckpt_dcp_out_clear(&d->out);
	free(d->from);
	free(d->rewrite);
	*d = (struct ckpt_dcp_edit){ 0 };
}

/* ---- the new data file ---- */

int ckpt_dcp_edit_write_values(struct ckpt_dcp_edit *d, struct ckpt_mover *mover, uint64_t *size,
			       struct ckpt_error *err)
{
	struct ckpt_dcp_item_writer w = { d->model, mover, CKPT_ZIP_ALIGNMENT, 0 };
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < d->out.entry_count; i++) {
		struct ckpt_dcp_out_chunk chunk = { 0 };
		struct ckpt_dcp_out_entry *e = &d->out.entries[i];

		if (!d->rewrite[i])
			continue;
		rc = ckpt_dcp_write_value(&w, e->value, &chunk, err);
		e->first_chunk = d->out.chunk_count;
		e->chunk_count = 1;
		if (rc == 0)
			rc = ckpt_dcp_out_add_chunk(&d->out, &chunk, err);
	}
	*size = w.off;
	return rc;
}

/* ---- the new index ---- */

struct indexer {
	const struct ckpt_dcp_edit *d;
	const struct ckpt_dcp *dcp;
	struct ckpt_arena *arena;
	const char *new_file;
	uint32_t next_id;
	const struct ckpt_value **keys; /* by entry: its key, one node in all three places */
	bool failed;
};

static struct ckpt_value *new_node(struct indexer *x, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(x->arena, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->id = x->next_id++;
	} else {
		x->failed = true;
	}
	return v;
}

static const struct ckpt_value *new_str(struct indexer *x, const char *text, size_t len)
{
	struct ckpt_value *v = new_node(x, CKPT_STR);

	if (v) {
		v->u.bytes.ptr = text;
		v->u.bytes.len = len;
	}
	return v;
}

static const struct ckpt_value *new_int(struct indexer *x, uint64_t n)
{
	struct ckpt_value *v = new_node(x, CKPT_INT);

	if (v)
		v->u.integer = (int64_t)n;
	return v;
}

static void add_pair(struct indexer *x, struct ckpt_seq *seq, const struct ckpt_value *key,
		     const struct ckpt_value *value)
{
	const struct ckpt_value *pair[2] = { key, value };

	if (!key || !value || !ckpt_seq_add_many(x->arena, seq, pair, 2))
		x->failed = true;
}

/* A copy of a dict or of an object, whose items or state can be changed. */
static struct ckpt_value *copy_dict(struct indexer *x, const struct ckpt_value *dict)
{
	struct ckpt_value *v = new_node(x, CKPT_DICT);

	if (v && !ckpt_seq_add_many(x->arena, &v->u.seq, dict->u.seq.items, dict->u.seq.count))
		x->failed = true;
	return v;
}

static void set_field(struct indexer *x, struct ckpt_value *dict, const char *name,
		      const struct ckpt_value *value)
{
	if (!dict || !value) {
		x->failed = true;
		return;
	}
	for (uint32_t i = 0; i + 1 < dict->u.seq.count; i += 2)
		if (ckpt_value_is_str(dict->u.seq.items[i], name))
			dict->u.seq.items[i + 1] = value;
}

/* An object like another, with a state of its own that is filled afterwards. */
static struct ckpt_value *copy_object(struct indexer *x, const struct ckpt_value *object,
				      struct ckpt_value **state)
{
	struct ckpt_value *v = new_node(x, CKPT_CALL);
	struct ckpt_call *call = ckpt_arena_alloc(x->arena, sizeof(*call));

	*state = copy_dict(x, object->u.call->state);
	if (!v || !call || !*state) {
		x->failed = true;
		return NULL;
	}
	*call = *object->u.call;
	call->state = *state;
	v->u.call = call;
	return v;
}

/* The entry of the input that ENTRY is, or is described like. */
static const struct ckpt_dcp_entry *source_entry(const struct indexer *x, uint32_t entry)
{
	uint32_t from = x->d->from[entry];

	return &x->dcp->index.entries[from == UINT32_MAX ? x->d->like : from];
}

static bool is_named_as_before(const struct indexer *x, uint32_t entry)
{
	const struct ckpt_dcp_out_entry *e = &x->d->out.entries[entry];
	const struct ckpt_value *fqn = source_entry(x, entry)->fqn;

	return x->d->from[entry] != UINT32_MAX && fqn->u.bytes.len == e->fqn_len &&
	       !memcmp(fqn->u.bytes.ptr, e->fqn, e->fqn_len);
}

static const struct ckpt_value *make_path(struct indexer *x, const struct ckpt_dcp_out_entry *e)
{
	struct ckpt_value *v = new_node(x, CKPT_TUPLE);

	for (uint32_t i = 0; v && i < e->depth; i++) {
		const struct ckpt_value *step =
			e->path[i].text ? new_str(x, e->path[i].text, e->path[i].len)
					: new_int(x, e->path[i].position);

		if (!step || !ckpt_seq_add(x->arena, &v->u.seq, step))
			x->failed = true;
	}
	return v;
}

static bool is_flat(const struct ckpt_dcp_out_entry *e)
{
	return e->depth == 1 && e->path[0].text && e->path[0].len == e->fqn_len &&
	       !memcmp(e->path[0].text, e->fqn, e->fqn_len);
}

static bool needs_paths(const struct indexer *x)
{
	if (x->dcp->index.has_planner_data)
		return true;
	for (uint32_t i = 0; i < x->d->out.entry_count; i++)
		if (!is_flat(&x->d->out.entries[i]))
			return true;
	return false;
}

static const struct ckpt_value *entries_dict(struct indexer *x)
{
	struct ckpt_value *dict = new_node(x, CKPT_DICT);

	for (uint32_t i = 0; dict && i < x->d->out.entry_count; i++) {
		add_pair(x, &dict->u.seq, x->keys[i], source_entry(x, i)->metadata);
	}
	return dict;
}

static const struct ckpt_value *paths_dict(struct indexer *x)
{
	struct ckpt_value *dict = new_node(x, CKPT_DICT);

	for (uint32_t i = 0; dict && i < x->d->out.entry_count; i++) {
		uint32_t from = x->d->from[i];
		const struct ckpt_value *path = NULL;

		if (is_named_as_before(x, i))
			path = x->dcp->index.entries[from].path;
		add_pair(x, &dict->u.seq, x->keys[i],
			 path ? path : make_path(x, &x->d->out.entries[i]));
	}
	return dict;
}

/* Where a value is that was written anew: like the entry that was there, but for the place. */
static const struct ckpt_value *make_info(struct indexer *x, const struct ckpt_value *like,
					  const struct ckpt_dcp_out_chunk *chunk)
{
	struct ckpt_value *state, *v = copy_object(x, like, &state);
	struct ckpt_seq kept = { 0 };

	for (uint32_t i = 0; v && i + 1 < state->u.seq.count; i += 2)
		if (!ckpt_value_is_str(state->u.seq.items[i], "transform_descriptors"))
			add_pair(x, &kept, state->u.seq.items[i], state->u.seq.items[i + 1]);
	if (!v)
		return NULL;
	state->u.seq = kept;
	set_field(x, state, "relative_path", new_str(x, x->new_file, strlen(x->new_file)));
	set_field(x, state, "offset", new_int(x, chunk->off));
	set_field(x, state, "length", new_int(x, chunk->len));
	return v;
}

static void add_places(struct indexer *x, struct ckpt_value *dict, uint32_t entry)
{
	const struct ckpt_dcp_out_entry *e = &x->d->out.entries[entry];
	const struct ckpt_dcp_entry *source = source_entry(x, entry);

	for (uint64_t i = 0; i < source->chunk_count; i++) {
		const struct ckpt_dcp_chunk *chunk = &x->dcp->index.chunks[source->first_chunk + i];
		const struct ckpt_value *place = chunk->place, *info = chunk->info;
		struct ckpt_value *state;

		if (!place)
			continue; /* an empty chunk */
		if (!is_named_as_before(x, entry)) {
			place = copy_object(x, chunk->place, &state);
			set_field(x, state, "fqn", x->keys[entry]);
		}
		if (x->d->rewrite[entry])
			info = make_info(x, chunk->info, &x->d->out.chunks[e->first_chunk]);
		add_pair(x, &dict->u.seq, place, info);
	}
}

static const struct ckpt_value *places_dict(struct indexer *x)
{
	struct ckpt_value *dict = new_node(x, CKPT_DICT);

	for (uint32_t i = 0; dict && i < x->d->out.entry_count; i++)
		add_places(x, dict, i);
	return dict;
}

static bool make_keys(struct indexer *x)
{
	uint32_t count = x->d->out.entry_count;

	x->keys = ckpt_arena_calloc(x->arena, count + (uint64_t)1, sizeof(struct ckpt_value *));
	for (uint32_t i = 0; x->keys && i < count; i++) {
		const struct ckpt_dcp_out_entry *e = &x->d->out.entries[i];

		x->keys[i] = is_named_as_before(x, i) ? x->dcp->index.entries[x->d->from[i]].fqn
						      : new_str(x, e->fqn, e->fqn_len);
	}
	return x->keys && !x->failed;
}

int ckpt_dcp_edit_index(const struct ckpt_dcp_edit *d, const char *new_file, struct ckpt_buf *out,
			struct ckpt_error *err)
{
	const struct ckpt_dcp *dcp = ckpt_dcp_of(d->model);
	struct indexer x = { .d = d,
			     .dcp = dcp,
			     .new_file = new_file,
			     .arena = ckpt_arena_new(UINT64_MAX >> 1),
			     .next_id = d->model->next_id };
	struct ckpt_pickle_options options = { .protocol = d->model->doc->pickle.protocol };
	struct ckpt_value *root = NULL, *state = NULL;
	int rc;

	if (options.protocol < 2)
		options.protocol = 2;
	if (!x.arena || !make_keys(&x))
		x.failed = true;
	else
		root = copy_object(&x, dcp->index.root, &state);
	if (!x.failed) {
		set_field(&x, state, "state_dict_metadata", entries_dict(&x));
		set_field(&x, state, "storage_data", places_dict(&x));
		if (needs_paths(&x))
			set_field(&x, state, "planner_data", paths_dict(&x));
	}
	rc = x.failed ? ckpt_fail_nomem(err) : ckpt_pickle_encode(root, &options, out, err);
	ckpt_arena_free(x.arena);
	return rc;
}
