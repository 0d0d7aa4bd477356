/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: what each tensor stands in. A place is a module, a mapping, or a list, by its name; an
 * optimizer's is what has its `state`. Where the names in one mapping have the words of an averaged copy
 * in front ("model_ema."), these are a place of their own.
 *
 * The walk meets the tensors in the order of the model's list, as it makes that.
 */
#include "parts/parts.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/grow.h"
#include "model/module.h"
#include "model/optimizers.h"
#include "model/state_dict.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SCRIPTS = 256 };

/* A TorchScript object that the walk is inside of. */
struct script {
	size_t depth;
	const struct ckpt_class *cls;
};

struct finder {
	struct ckpt_parts *parts;
	struct ckpt_optimizers optimizers;
	uint32_t next;	     /* tensor */
	size_t module_depth; /* of the outermost; SIZE_MAX: not inside of one */
	uint32_t module;     /* its place */
	struct script scripts[MOST_SCRIPTS];
	uint32_t script_count;
	/* the last mapping that was asked for, and what it is */
	const struct ckpt_value *mapping;
	enum ckpt_holder_kind mapping_kind;
};

/* ---- words ---- */

const char *ckpt_parts_last_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

static bool is_letter(char c)
{
	return ckpt_to_lower((unsigned char)c) >= 'a' && ckpt_to_lower((unsigned char)c) <= 'z';
}

static bool is_copy_word(const char *word, size_t len)
{
	static const char *const words[] = { "ema", "shadow", "averaged", "average", "avg",
					     "swa", "polyak", "target",	  "teacher" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t k = 0;

		while (k < len && words[i][k] &&
		       ckpt_to_lower((unsigned char)word[k]) == (unsigned char)words[i][k])
			k++;
		if (k == len && !words[i][k])
			return true;
	}
	return false;
}

/* Has a name a word as averaged weights are called? Words are letters between others: "model_ema", "emaModel" is none. */
static bool has_copy_word(const char *name, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n = 0;

		while (at + n < len && is_letter(name[at + n]))
			n++;
		if (n && is_copy_word(name + at, n))
			return true;
		at += n + 1;
	}
	return false;
}

/* ---- places ---- */

/* The place called NAME, of LEN bytes; -1: no memory. */
static int64_t find_place(struct ckpt_parts *p, const char *name, size_t len,
			  enum ckpt_holder_kind kind, enum ckpt_part part)
{
	struct ckpt_strmap *by_name = &p->by_name[part == CKPT_PART_OPTIMIZER];
	uint64_t *found = ckpt_strmap_find(by_name, name, len);
	struct ckpt_parts_place *grown;
	const char *copy;
	bool there;

	if (found)
		return (int64_t)*found;
	grown = ckpt_grow(p->places, p->place_count, &p->place_cap, sizeof(*grown));
	if (!grown)
		return -1;
	p->places = grown;
	copy = ckpt_arena_copy(p->arena, name, len);
	if (!copy || !ckpt_strmap_insert(by_name, copy, len, p->place_count, &there))
		return -1;
	grown[p->place_count] =
		(struct ckpt_parts_place){ .name = copy,
					   .inner = len ? len + 1 : 0,
					   .kind = kind,
					   .part = part,
					   .same_as = -1,
					   .looks_like_copy = has_copy_word(name, len) };
	return p->place_count++;
}

/* Where the component WORD of a name begins; NULL: it has none. */
static const char *find_component(const char *name, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = name; at; at = strchr(at, '.') ? strchr(at, '.') + 1 : NULL)
		if (!strncmp(at, word, len) && (!at[len] || at[len] == '.'))
			return at;
	return NULL;
}

/*
 * An optimizer is what its key calls one, of which NAMED_LEN bytes are the name, or what has its "state" or
 * "param_groups"; else its tensors stand among others, and the place is a pattern for them, or the list they
 * are in.
 */
static int64_t place_of_optimizer(struct ckpt_parts *p, const char *name, size_t named_len)
{
	const char *at = find_component(name, "state"), *last = ckpt_parts_last_of(name);
	size_t len = strlen(last);
	char pattern[64];

	if (named_len < strlen(name))
		return find_place(p, name, named_len, CKPT_HOLDS_SOME, CKPT_PART_OPTIMIZER);
	if (!at)
		at = find_component(name, "param_groups");
	if (at)
		return find_place(p, name, at == name ? 0 : (size_t)(at - name) - 1,
				  CKPT_HOLDS_SOME, CKPT_PART_OPTIMIZER);
	if (len + 3 > sizeof(pattern) || last == name || strspn(last, "0123456789") == len)
		return find_place(p, name, last == name ? len : (size_t)(last - name) - 1,
				  CKPT_HOLDS_SOME, CKPT_PART_OPTIMIZER);
	pattern[0] = '*';
	pattern[1] = '.';
	memcpy(pattern + 2, last, len + 1);
	return find_place(p, pattern, len + 2, CKPT_HOLDS_SOME, CKPT_PART_OPTIMIZER);
}

static enum ckpt_holder_kind kind_of(struct finder *f, const struct ckpt_value *mapping)
{
	if (f->mapping != mapping) {
		f->mapping = mapping;
		f->mapping_kind = ckpt_is_module_state_dict(f->parts->model, mapping)
					  ? CKPT_HOLDS_STATE
					  : CKPT_HOLDS_SOME;
	}
	return f->mapping_kind;
}

/* The bytes of NAME in front of the key that it ends in, and of the dot. */
static size_t front_of(const char *name, size_t name_len, const struct ckpt_value *mapping,
		       uint32_t index)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(mapping);
	const struct ckpt_value *key = pairs && index < pairs->count ? pairs->items[index] : NULL;
	const char *last;

	if (key && ckpt_value_is_text(key) && key->u.bytes.len < name_len)
		return name_len - (size_t)key->u.bytes.len - 1;
	if (key && ckpt_value_is_text(key))
		return 0;
	last = memrchr(name, '.', name_len);
	return last ? (size_t)(last - name) : 0;
}

static int64_t place_of_tensor(struct finder *f, const struct ckpt_walk_step *step,
			       const char *name)
{
	const struct ckpt_value *parent = NULL;
	size_t len = strlen(name), front, first;
	uint32_t index = 0;
	bool is_entry;

	if (f->module_depth != SIZE_MAX)
		return f->module;
	is_entry = ckpt_walk_is_entry(step, &parent, &index);
	if (!parent)
		return find_place(f->parts, "", 0, CKPT_HOLDS_SOME, CKPT_PART_OTHER);
	front = is_entry ? front_of(name, len, parent, index)
			 : front_of(name, len, parent, UINT32_MAX);
	if (front > len)
		front = 0;
	if (!is_entry || !ckpt_value_pairs(parent))
		return find_place(f->parts, name, front, CKPT_HOLDS_SOME, CKPT_PART_OTHER);
	first = front ? front + 1 : 0;
	first += strcspn(name + first, ".");
	if (name[first] &&
	    has_copy_word(name + (front ? front + 1 : 0), first - (front ? front + 1 : 0)))
		return find_place(f->parts, name, first, CKPT_HOLDS_STATE, CKPT_PART_OTHER);
	return find_place(f->parts, name, front, kind_of(f, parent), CKPT_PART_OTHER);
}

/* ---- TorchScript ---- */

static void enter_script(struct finder *f, const struct ckpt_walk_step *step)
{
	const struct ckpt_model *model = f->parts->model;
	const struct ckpt_value *func;

	if (!ckpt_is_script_object(model, step->value) || f->script_count == MOST_SCRIPTS)
		return;
	func = ckpt_model_now(model, step->value->u.call->func);
	f->scripts[f->script_count++] =
		(struct script){ step->depth, model->doc->class_of(model->doc, func->u.global) };
}

/* What the class of the object says that a tensor is whose attribute is called NAME. */
static void tell_by_class(const struct finder *f, struct ckpt_parts_tensor *t, const char *name)
{
	const struct ckpt_class *cls = f->script_count ? f->scripts[f->script_count - 1].cls : NULL;
	const uint64_t *member;

	if (!cls || !cls->known)
		return;
	name = ckpt_parts_last_of(name);
	member = ckpt_strmap_find(&cls->members, name, strlen(name));
	if (!member || *member == CKPT_MEMBER_NONE)
		return;
	t->is_said = true;
	t->part = *member == CKPT_MEMBER_BUFFER ? CKPT_PART_BUFFER : CKPT_PART_PARAMETER;
}

/* ---- the walk ---- */

static int visit_tensor(struct finder *f, const struct ckpt_walk_step *step, bool of_optimizer,
			struct ckpt_error *err)
{
	struct ckpt_parts *p = f->parts;
	const struct ckpt_tensor *tensor = &p->model->tensors[f->next];
	struct ckpt_parts_tensor *t = &p->tensors[f->next++];
	int64_t place;

	t->part = of_optimizer ? CKPT_PART_OPTIMIZER : CKPT_PART_OTHER;
	t->is_parameter = tensor->is_parameter;
	if (!of_optimizer)
		tell_by_class(f, t, tensor->name);
	t->is_beside = of_optimizer && f->optimizers.only_named;
	place = of_optimizer ? place_of_optimizer(p, tensor->name, f->optimizers.named_len)
			     : place_of_tensor(f, step, tensor->name);
	if (place < 0)
		return ckpt_fail_nomem(err);
	t->place = (uint32_t)place;
	p->places[place].listed++;
	return CKPT_WALK_SKIP;
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct finder *f = ctx;
	struct ckpt_parts *p = f->parts;
	int rc = ckpt_optimizers_visit(&f->optimizers, step, err);

	if (rc < 0)
		return rc;
	if (f->module_depth != SIZE_MAX && step->depth <= f->module_depth)
		f->module_depth = SIZE_MAX;
	while (f->script_count && step->depth <= f->scripts[f->script_count - 1].depth)
		f->script_count--;
	if (f->next < p->model->tensor_count && p->model->tensors[f->next].value == step->value)
		return visit_tensor(f, step, rc, err);
	if (rc || step->value->kind != CKPT_CALL || step->seen)
		return CKPT_WALK_ENTER;
	if (f->module_depth == SIZE_MAX && ckpt_is_module(p->model, step->value)) {
		int64_t place = find_place(p, step->name, step->name_len, CKPT_HOLDS_MODULE,
					   CKPT_PART_OTHER);

		if (place < 0)
			return ckpt_fail_nomem(err);
		f->module = (uint32_t)place;
		f->module_depth = step->depth;
	}
	enter_script(f, step);
	return CKPT_WALK_ENTER;
}

int ckpt_parts_find_places(struct ckpt_parts *p, struct ckpt_error *err)
{
	struct finder f = { .parts = p, .module_depth = SIZE_MAX };
	uint32_t at = 0;
	int rc = ckpt_model_walk(p->model, visit_value, &f, err);

	ckpt_optimizers_clear(&f.optimizers);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < p->place_count; i++) {
		p->places[i].first = at;
		at += p->places[i].listed;
		p->places[i].listed = 0;
	}
	p->tensor_count = f.next;
	for (uint32_t i = 0; i < f.next; i++) {
		struct ckpt_parts_place *place = &p->places[p->tensors[i].place];

		p->order[place->first + place->listed++] = i;
	}
	return 0;
}
