/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine behind rename, strip-prefix and add-prefix: it finds the state dicts of a
 * checkpoint, renames their keys with a function that it is given, and follows in `_metadata` and
 * in an optimizer's lists of parameter names.
 *
 * A container is edited once, under the first name it is met by, and only in a copy with its id
 * (copy_container()); the walked model `from` stays as it is, so that names and verdicts are
 * those from before the edit. After the edit no two keys of a mapping may be equal
 * (check_clashes()): an edit that loses a tensor is an error. Modules that were pickled whole are
 * left alone, since their code looks members up by name.
 */
#include "edit/keys.h"

#include "base/sized.h"
#include "base/text.h"
#include "model/module.h"
#include "model/state_dict.h"
#include "model/walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef int rename_fn(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
		      struct ckpt_error *err);

struct editor {
	const struct ckpt_model *from;
	struct ckpt_model *to;
	const struct ckpt_key_edit *edit;
	struct ckpt_key_choice choice;
	struct ckpt_edit_report report;
	struct ckpt_edit_place *places; /* arena of TO */
	size_t place_count, place_cap;
	struct ckpt_buf text;
	struct ckpt_state_dict_finder finder;
	uint8_t *visited; /* bitmap by id: lists, groups and metadata that need no second look */
	size_t optimizer_depth; /* inside an optimizer as long as the walk is deeper */
	const struct ckpt_value *version_key;
};

static const struct ckpt_value *now(const struct editor *e, const struct ckpt_value *v)
{
	return ckpt_model_now(e->to, v);
}

static bool was_edited(const struct editor *e, const struct ckpt_value *v)
{
	return ckpt_model_now(e->to, v) != ckpt_model_now(e->from, v);
}

/* True once per value: what hangs in many places is edited once. */
static bool is_first_visit(struct editor *e, const struct ckpt_value *v)
{
	uint8_t bit = (uint8_t)(1 << (v->id & 7));
	bool first;

	if (v->id >= e->from->next_id) /* made by this edit */
		return false;
	first = !(e->visited[v->id >> 3] & bit);
	if (v->id)
		e->visited[v->id >> 3] |= bit;
	return first;
}

/* ---- new values ---- */

static struct ckpt_seq *pairs_of(struct ckpt_value *v)
{
	return v->kind == CKPT_CALL ? &v->u.call->pairs : &v->u.seq;
}

/* A copy of a container that may be changed; it has the original's id. */
static struct ckpt_value *copy_container(struct editor *e, const struct ckpt_value *v,
					 uint32_t more_items)
{
	struct ckpt_arena *arena = e->to->arena;
	struct ckpt_value *copy = ckpt_arena_alloc(arena, sizeof(*copy));
	struct ckpt_call *call;
	struct ckpt_seq *seq;
	const struct ckpt_value **items;

	if (!copy)
		return NULL;
	*copy = *v;
	if (v->kind == CKPT_CALL) {
		call = ckpt_arena_alloc(arena, sizeof(*call));
		if (!call)
			return NULL;
		*call = *v->u.call;
		copy->u.call = call;
	}
	seq = pairs_of(copy);
	items = ckpt_arena_alloc(arena, ((uint64_t)seq->count + more_items) * sizeof(*items));
	if (!items)
		return NULL;
	if (seq->count)
		memcpy(items, seq->items, seq->count * sizeof(*items));
	seq->items = items;
	seq->cap = seq->count + more_items;
	return copy;
}

static const struct ckpt_value *new_key(struct editor *e, const struct ckpt_value *like)
{
	struct ckpt_value *v =
		(struct ckpt_value *)ckpt_model_new_str(e->to, (const char *)e->text.data,
							e->text.len);

	if (v)
		v->kind = like->kind;
	return v;
}

/* ---- renaming ---- */

static int fail_clash(const char *where, const struct ckpt_value *first,
		      const struct ckpt_value *second, const struct ckpt_value *key,
		      struct ckpt_error *err)
{
	char name[100], place[100], one[100], other[100];

	return ckpt_fail(err, CKPT_E_CLASH, "'%s' and '%s' in %s%s%s would both be named '%s'",
			 ckpt_escape(one, sizeof(one), first->u.bytes.ptr, first->u.bytes.len),
			 ckpt_escape(other, sizeof(other), second->u.bytes.ptr,
				     second->u.bytes.len),
			 where[0] ? "'" : "the state dict",
			 where[0] ? ckpt_escape(place, sizeof(place), where, strlen(where)) : "",
			 where[0] ? "'" : "",
			 ckpt_escape(name, sizeof(name), key->u.bytes.ptr, key->u.bytes.len));
}

/* Every key must be there once only, after the edit. BEFORE has the old names, place by place. */
static int check_clashes(struct editor *e, const struct ckpt_seq *pairs,
			 const struct ckpt_seq *before, const char *where, struct ckpt_error *err)
{
	struct ckpt_strmap names = { 0 };
	int rc = ckpt_strmap_reserve(&names, pairs->count / 2) ? 0 : ckpt_fail_nomem(err);
	bool there;

	for (uint32_t i = 0; rc == 0 && i < pairs->count; i += 2) {
		const struct ckpt_value *key = now(e, pairs->items[i]);
		uint64_t *first;

		if (!ckpt_value_is_text(key))
			continue;
		first = ckpt_strmap_insert(&names, key->u.bytes.ptr, key->u.bytes.len, i, &there);
		if (!first)
			rc = ckpt_fail_nomem(err);
		else if (there)
			rc = fail_clash(where, before->items[*first], before->items[i], key, err);
	}
	ckpt_strmap_clear(&names);
	return rc;
}

/* Rename the keys of PAIRS (a private copy) in place; *RENAMED counts them. */
static int rename_keys(struct editor *e, struct ckpt_seq *pairs, rename_fn *rename,
		       uint64_t *renamed, struct ckpt_error *err)
{
	for (uint32_t i = 0; i < pairs->count; i += 2) {
		const struct ckpt_value *key = now(e, pairs->items[i]), *fresh;
		int rc;

		if (!ckpt_value_is_text(key))
			continue;
		e->text.len = 0;
		rc = rename(e->edit->ctx, key->u.bytes.ptr, key->u.bytes.len, &e->text, err);
		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		fresh = e->text.bad ? NULL : new_key(e, key);
		if (!fresh)
			return ckpt_arena_fail(e->to->arena, err);
		pairs->items[i] = fresh;
		++*renamed;
	}
	return 0;
}

/* ---- _metadata ---- */

/*
 * The module that is named like the prefix takes the place of the root: its value moves to where
 * the root's was, its own entry goes. With no root entry it becomes the root where it stands.
 * BEFORE has the keys as they were.
 */
static void merge_root(struct editor *e, struct ckpt_seq *pairs, const struct ckpt_seq *before)
{
	uint32_t root = UINT32_MAX, module = UINT32_MAX;

	for (uint32_t i = 0; i < pairs->count; i += 2) {
		if (!ckpt_value_is_str(now(e, pairs->items[i]), ""))
			continue;
		if (pairs->items[i] == before->items[i])
			root = i;
		else
			module = i;
	}
	if (root == UINT32_MAX || module == UINT32_MAX)
		return;
	pairs->items[root + 1] = pairs->items[module + 1];
	memmove(&pairs->items[module], &pairs->items[module + 2],
		(pairs->count - module - 2) * sizeof(*pairs->items));
	pairs->count -= 2;
}

/*
 * A wrapper and the module in it get one name: the entry of the innermost one, whose old name is
 * the longest, takes the place of the outermost, as in the state dict of the plain model. BEFORE has
 * the keys as they were.
 */
static int join_modules(struct editor *e, struct ckpt_seq *pairs, const struct ckpt_seq *before,
			struct ckpt_error *err)
{
	struct ckpt_strmap innermost = { 0 }; /* by new name: place of the pair */
	uint32_t count = 0;
	bool ok = ckpt_strmap_reserve(&innermost, pairs->count / 2), there;

	for (uint32_t i = 0; ok && i < pairs->count; i += 2) {
		const struct ckpt_value *key = now(e, pairs->items[i]);
		uint64_t *place;

		if (!ckpt_value_is_text(key))
			continue;
		place = ckpt_strmap_insert(&innermost, key->u.bytes.ptr, key->u.bytes.len, i,
					   &there);
		ok = place != NULL;
		if (ok && there &&
		    ckpt_model_now(e->from, before->items[i])->u.bytes.len >=
			    ckpt_model_now(e->from, before->items[*place])->u.bytes.len)
			*place = i;
	}
	for (uint32_t i = 0; ok && i < pairs->count; i += 2) {
		const struct ckpt_value *key = now(e, pairs->items[i]);
		bool text = ckpt_value_is_text(key);
		uint64_t *place =
			text ? ckpt_strmap_find(&innermost, key->u.bytes.ptr, key->u.bytes.len)
			     : NULL;

		if (text && *place == UINT64_MAX)
			continue; /* it stands there already */
		pairs->items[count] = pairs->items[i];
		pairs->items[count + 1] = pairs->items[(place ? *place : i) + 1];
		count += 2;
		if (place)
			*place = UINT64_MAX;
	}
	ckpt_strmap_clear(&innermost);
	if (!ok)
		return ckpt_fail_nomem(err);
	pairs->count = count;
	return 0;
}

/* {'version': 1}, as a module without a version of its own has it */
static const struct ckpt_value *new_version(struct editor *e)
{
	struct ckpt_value *dict = ckpt_model_new_value(e->to, CKPT_DICT), *one, *key;

	if (!e->version_key) {
		key = (struct ckpt_value *)ckpt_model_new_str(e->to, "version", 7);
		if (!key)
			return NULL;
		key->flags |= CKPT_VALUE_INTERNED | CKPT_VALUE_FINAL;
		e->version_key = key;
	}
	one = ckpt_model_new_value(e->to, CKPT_INT);
	if (!dict || !one)
		return NULL;
	one->id = 0;
	one->u.integer = 1;
	return ckpt_seq_add(e->to->arena, &dict->u.seq, e->version_key) &&
			       ckpt_seq_add(e->to->arena, &dict->u.seq, one)
		       ? dict
		       : NULL;
}

/* Entries for the modules that the new prefix stands for come first: '' and, for "a.b.", 'a'. */
static bool add_roots(struct editor *e, struct ckpt_seq *pairs)
{
	const char *prefix = e->edit->new_roots, *dot = prefix;
	struct ckpt_seq grown = { 0 };

	for (; dot; dot = strchr(dot + 1, '.')) {
		size_t len = dot == prefix ? 0 : (size_t)(dot - prefix);
		const struct ckpt_value *name, *version;

		if (len && !dot[1])
			break; /* the prefix as a whole is the old root */
		name = ckpt_model_new_str(e->to, prefix, len);
		version = new_version(e);
		if (!name || !version || !ckpt_seq_add(e->to->arena, &grown, name) ||
		    !ckpt_seq_add(e->to->arena, &grown, version))
			return false;
	}
	if (!ckpt_seq_add_many(e->to->arena, &grown, pairs->items, pairs->count))
		return false;
	*pairs = grown;
	return true;
}

static int edit_metadata(struct editor *e, const struct ckpt_value *state_dict,
			 struct ckpt_error *err)
{
	const struct ckpt_value *metadata = ckpt_state_dict_metadata(e->to, state_dict);
	struct ckpt_value *copy;
	uint64_t renamed = 0;
	int rc;

	if (!metadata || was_edited(e, metadata) || !is_first_visit(e, metadata))
		return 0;
	copy = copy_container(e, metadata, 0);
	if (!copy)
		return ckpt_arena_fail(e->to->arena, err);
	rc = rename_keys(e, pairs_of(copy), e->edit->rename_module, &renamed, err);
	if (rc == 0 && renamed && e->edit->joins_modules)
		rc = join_modules(e, pairs_of(copy), ckpt_value_pairs(metadata), err);
	else if (rc == 0 && renamed)
		merge_root(e, pairs_of(copy), ckpt_value_pairs(metadata));
	if (rc == 0 && e->edit->new_roots && !add_roots(e, pairs_of(copy)))
		rc = ckpt_arena_fail(e->to->arena, err);
	if (rc == 0)
		rc = check_clashes(e, pairs_of(copy), pairs_of(copy), "_metadata", err);
	if (rc == 0 && (renamed || e->edit->new_roots))
		rc = ckpt_model_replace(e->to, copy, err);
	e->report.metadata_renamed += renamed;
	return rc;
}

/* ---- lists of parameter names ---- */

static int edit_name_list(struct editor *e, const struct ckpt_value *list, struct ckpt_error *err)
{
	struct ckpt_value *copy;
	uint64_t renamed = 0;

	if (!list || list->kind != CKPT_LIST || was_edited(e, list) || !is_first_visit(e, list))
		return 0;
	copy = copy_container(e, list, 0);
	if (!copy)
		return ckpt_arena_fail(e->to->arena, err);
	for (uint32_t i = 0; i < copy->u.seq.count; i++) {
		const struct ckpt_value *name = now(e, copy->u.seq.items[i]);
		int rc;

		if (!ckpt_value_is_text(name))
			continue;
		e->text.len = 0;
		rc = e->edit->rename(e->edit->ctx, name->u.bytes.ptr, name->u.bytes.len, &e->text,
				     err);
		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		copy->u.seq.items[i] = e->text.bad ? NULL : new_key(e, name);
		if (!copy->u.seq.items[i])
			return ckpt_arena_fail(e->to->arena, err);
		renamed++;
	}
	e->report.names_renamed += renamed;
	return renamed ? ckpt_model_replace(e->to, copy, err) : 0;
}

/*
 * The list under KEY of GROUP after the edit, and in *BEFORE as it was, which may have been under
 * another key. NULL: there is none.
 */
static const struct ckpt_value *find_list(const struct editor *e, const struct ckpt_value *group,
					  const char *key, const struct ckpt_value **before)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(now(e, group));
	const struct ckpt_seq *old = ckpt_value_pairs(ckpt_model_now(e->from, group));

	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *list = now(e, pairs->items[i + 1]);

		if (!ckpt_value_is_str(now(e, pairs->items[i]), key) || list->kind != CKPT_LIST)
			continue;
		*before = ckpt_model_now(e->from, old->items[i + 1]);
		return list;
	}
	return NULL;
}

/* No two names of all groups' lists under KEY may have become one: a parameter has one group. */
static int check_group_clashes(struct editor *e, const struct ckpt_value *groups, const char *key,
			       struct ckpt_error *err)
{
	struct ckpt_seq before = { 0 };
	struct ckpt_strmap names = { 0 };
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < groups->u.seq.count; i++) {
		const struct ckpt_value *old,
			*list = find_list(e, groups->u.seq.items[i], key, &old);

		for (uint32_t k = 0; rc == 0 && list && k < list->u.seq.count; k++) {
			const struct ckpt_value *name = now(e, list->u.seq.items[k]), *first;
			const struct ckpt_value *was = ckpt_model_now(e->from, old->u.seq.items[k]);
			uint64_t *place;
			bool there;

			if (!ckpt_value_is_text(name))
				continue;
			place = ckpt_strmap_insert(&names, name->u.bytes.ptr, name->u.bytes.len,
						   before.count, &there);
			if (!place || !ckpt_seq_add(e->to->arena, &before, was)) {
				rc = ckpt_fail_nomem(err);
				break;
			}
			first = before.items[*place];
			if (there && (first->u.bytes.len != was->u.bytes.len ||
				      memcmp(first->u.bytes.ptr, was->u.bytes.ptr,
					     was->u.bytes.len) != 0))
				rc = fail_clash("param_groups", first, was, name, err);
		}
	}
	ckpt_strmap_clear(&names);
	return rc;
}

static int edit_param_groups(struct editor *e, const struct ckpt_value *optimizer,
			     struct ckpt_error *err)
{
	const struct ckpt_value *groups = ckpt_mapping_find(e->to, optimizer, "param_groups");
	uint64_t before = e->report.names_renamed;
	int checked;

	for (uint32_t i = 0; i < groups->u.seq.count; i++) {
		const struct ckpt_value *group = now(e, groups->u.seq.items[i]);
		int rc;

		if (!is_first_visit(e, group))
			continue;
		rc = edit_name_list(e, ckpt_mapping_find(e->to, group, "params"), err);

		if (rc == 0)
			rc = edit_name_list(e, ckpt_mapping_find(e->to, group, "param_names"), err);
		if (rc < 0)
			return rc;
	}
	if (e->report.names_renamed == before)
		return 0;
	checked = check_group_clashes(e, groups, "params", err);
	return checked < 0 ? checked : check_group_clashes(e, groups, "param_names", err);
}

/* ---- the walk ---- */

static int note_place(struct editor *e, const struct ckpt_walk_step *step, uint64_t renamed,
		      struct ckpt_error *err)
{
	struct ckpt_edit_place *place;

	if (e->place_count == e->place_cap) {
		size_t cap = e->place_cap ? e->place_cap * 2 : 8;
		struct ckpt_edit_place *grown =
			ckpt_arena_alloc(e->to->arena, cap * sizeof(*grown));

		if (!grown)
			return ckpt_arena_fail(e->to->arena, err);
		if (e->place_count)
			memcpy(grown, e->places, e->place_count * sizeof(*grown));
		e->places = grown;
		e->place_cap = cap;
	}
	place = &e->places[e->place_count++];
	place->name = ckpt_arena_copy(e->to->arena, step->name, step->name_len);
	place->renamed = renamed;
	e->report.renamed += renamed;
	return place->name ? 0 : ckpt_arena_fail(e->to->arena, err);
}

static int edit_state_dict(struct editor *e, const struct ckpt_walk_step *step,
			   struct ckpt_error *err)
{
	struct ckpt_value *copy;
	uint64_t renamed = 0;
	int rc = e->edit->begin ? e->edit->begin(e->edit->ctx, e->from, step->value, err) : 0;

	if (rc < 0)
		return rc;
	e->report.state_dicts++;
	copy = copy_container(e, step->value, 0);
	if (!copy)
		return ckpt_arena_fail(e->to->arena, err);
	rc = rename_keys(e, pairs_of(copy), e->edit->rename, &renamed, err);
	if (rc == 0 && renamed)
		rc = check_clashes(e, pairs_of(copy), ckpt_value_pairs(step->value), step->name,
				   err);
	if (rc == 0 && renamed)
		rc = ckpt_model_replace(e->to, copy, err);
	if (rc == 0 && renamed)
		rc = note_place(e, step, renamed, err);
	if (rc == 0)
		rc = edit_metadata(e, step->value, err);
	return rc;
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct editor *e = ctx;
	const struct ckpt_value *v = step->value;
	bool optimizer, wanted;
	int rc = 0, at;

	if (step->depth <= e->optimizer_depth)
		e->optimizer_depth = SIZE_MAX;
	if (!e->choice.o.at_count && ckpt_is_module(e->from, v))
		return CKPT_WALK_SKIP; /* its code looks its members up by their names */
	if (!e->choice.o.at_count && ckpt_is_extra_state(step->name, step->name_len))
		return CKPT_WALK_SKIP;
	if (!ckpt_value_pairs(v) || step->seen)
		return ckpt_value_is_tensor_object(e->from, v) ? CKPT_WALK_SKIP : CKPT_WALK_ENTER;
	at = ckpt_key_choice_has(&e->choice, step, err);
	if (at < 0)
		return at;
	optimizer = ckpt_is_optimizer(e->from, v);
	if (e->edit->only_modules && !e->choice.o.at_count)
		wanted = ckpt_is_module_state_dict(e->from, v) && e->optimizer_depth == SIZE_MAX;
	else if (e->edit->only_direct && !e->choice.o.at_count)
		wanted = ckpt_holds_tensors(&e->finder, v) && e->optimizer_depth == SIZE_MAX;
	else
		wanted = ckpt_is_state_dict(&e->finder, v);
	if (optimizer && e->optimizer_depth == SIZE_MAX)
		e->optimizer_depth = step->depth;
	if (at && wanted && !was_edited(e, v))
		rc = edit_state_dict(e, step, err);
	if (rc == 0 && at && optimizer && !(e->edit->only_modules && !e->choice.o.at_count))
		rc = edit_param_groups(e, v, err);
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

static int refuse_module(const struct ckpt_model *model, const struct ckpt_key_options *o,
			 struct ckpt_error *err)
{
	if (o->at_count || !ckpt_is_module(model, ckpt_model_now(model, model->root)))
		return 0;
	return ckpt_fail(
		err, CKPT_E_UNSUPPORTED,
		"is one module, saved whole: its code looks its members up by their names, "
		"which stay; 'ckpt convert --state-dict' takes its state dict out");
}

int ckpt_model_edit_keys(const struct ckpt_model *model, const struct ckpt_key_edit *edit,
			 const struct ckpt_key_options *options, struct ckpt_model **out,
			 struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct editor e = { .from = model,
			    .edit = edit,
			    .report = CKPT_EDIT_REPORT_INIT,
			    .optimizer_depth = SIZE_MAX };
	int rc = ckpt_key_choice_init(&e.choice, options, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(e.report), err);
	if (rc == 0)
		rc = refuse_module(model, &e.choice.o, err);
	if (rc == 0)
		rc = ckpt_model_derive(model, &e.to, err);
	if (rc < 0) {
		ckpt_key_choice_clear(&e.choice);
		return rc;
	}
	e.visited = calloc((size_t)model->next_id / 8 + 1, 1);
	rc = ckpt_state_dict_finder_init(&e.finder, model, err);
	if (rc == 0 && !e.visited)
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_model_walk(model, visit_value, &e, err);
	if (rc == 0)
		rc = ckpt_key_choice_check(&e.choice, err);
	ckpt_key_choice_clear(&e.choice);
	free(e.visited);
	ckpt_state_dict_finder_clear(&e.finder);
	ckpt_buf_clear(&e.text);
	if (rc == 0 && edit->end)
		rc = edit->end(edit->ctx, e.to->arena, &e.report, err);
	e.report.places = e.places;
	e.report.place_count = e.place_count;
	ckpt_sized_give(report, &e.report, sizeof(e.report));
	if (rc == CKPT_E_ARG && err)
		err->offset =
			CKPT_NO_OFFSET; /* it is about what was asked for, not about the file */
	else if (rc < 0)
		ckpt_error_at(err, rc, ckpt_source_path(model->doc->source),
			      rc == CKPT_E_NOTFOUND ? NULL : "data.pkl", CKPT_NO_OFFSET);
	if (rc < 0)
		ckpt_close(e.to);
	else
		*out = e.to;
	return rc;
}
