/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists all that a checkpoint holds, as entries by name, in the order of the file.
 *
 * A walk visits each value once, but what is referred to from several places has an entry under
 * each name: the entries below a container are a range in the list, which is copied with other
 * names when the container is seen again (repeat_entries()). A small file could mean very many
 * entries in this way, so copies are limited to MOST_REPEATED; what is beyond is left out.
 */
#include "diff/entries.h"

#include "base/grow.h"
#include "diff/kinds.h"
#include "model/numpy_value.h"
#include "model/optimizers.h"
#include "model/walk.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t BUDGET_BASE = (uint64_t)1 << 30; /* and a multiple of the pickle */
enum { BUDGET_FACTOR = 256 };

enum { MOST_REPEATED = 1 << 20 };

/* Entries below a container. */
struct range {
	uint32_t from, to; /* TO: 0 while it is being walked */
	uint32_t below_len;
};

struct container {
	uint32_t id, entry;
	bool in_metadata;
};

struct lister {
	struct ckpt_entries *e;
	struct range *ranges;	      /* by id of the container */
	struct container *containers; /* by depth */
	uint32_t container_count, container_cap;
	uint32_t next_tensor; /* of the model's list */
	uint32_t repeated;
	struct ckpt_buf name;
	struct ckpt_optimizers optimizers;
};

static const struct ckpt_model *model_of(const struct lister *l)
{
	return l->e->model;
}

static int add_entry(struct lister *l, const struct ckpt_entry *entry, const char *name, size_t len,
		     struct ckpt_error *err)
{
	struct ckpt_entries *e = l->e;
	struct ckpt_entry *grown = ckpt_grow(e->items, e->count, &e->cap, sizeof(*grown));
	char *copy;
	bool own; /* the tensor has that name already */

	if (!grown)
		return ckpt_fail_nomem(err);
	e->items = grown;
	own = entry->t && entry->t->name && !strcmp(entry->t->name, name);
	copy = own ? NULL : ckpt_arena_copy(e->arena, name, len);
	if (!own && !copy)
		return ckpt_arena_fail(e->arena, err);
	e->items[e->count] = *entry;
	e->items[e->count].name = own ? entry->t->name : copy;
	e->items[e->count].name_len = (uint32_t)len;
	e->items[e->count].number = e->count;
	e->count++;
	return 0;
}

/* ---- containers, and values in several places ---- */

static void leave_containers(struct lister *l, size_t depth)
{
	while (l->container_count > depth) {
		const struct container *container = &l->containers[--l->container_count];

		if (container->id)
			l->ranges[container->id].to = l->e->count;
		l->e->items[container->entry].is_empty = container->entry + 1 == l->e->count;
	}
}

static int enter_container(struct lister *l, const struct ckpt_walk_step *step, bool in_metadata,
			   struct ckpt_error *err)
{
	struct container *grown =
		ckpt_grow(l->containers, l->container_count, &l->container_cap, sizeof(*grown));
	uint32_t id = step->value->id;

	if (!grown)
		return ckpt_fail_nomem(err);
	l->containers = grown;
	l->containers[l->container_count++] =
		(struct container){ id, l->e->count - 1, in_metadata };
	if (id)
		l->ranges[id] = (struct range){ .from = l->e->count,
						.below_len = (uint32_t)step->below_len };
	return 0;
}

/*
 * Sets the name that entry E has below the container of STEP; FROM: the length of the container's
 * own part of the name of E.
 */
static bool set_name_below(struct lister *l, const struct ckpt_entry *e, size_t from,
			   const struct ckpt_walk_step *step)
{
	l->name.len = 0;
	ckpt_buf_add(&l->name, step->name, step->below_len);
	if (!from && step->below_len)
		ckpt_buf_add_u8(&l->name, '.');
	if (from && !step->below_len)
		from++; /* the dot */
	ckpt_buf_add(&l->name, e->name + from, e->name_len - from);
	ckpt_buf_add_u8(&l->name, '\0');
	return !l->name.bad;
}

/* The container was walked under another name: copies the entries below it. */
static int repeat_entries(struct lister *l, const struct ckpt_walk_step *step,
			  struct ckpt_error *err)
{
	struct range range = l->ranges[step->value->id];

	l->e->items[l->e->count - 1].is_empty = range.to && range.to == range.from;
	if (!range.to || range.to - range.from > MOST_REPEATED - l->repeated)
		return 0; /* it contains itself, or there are too many */
	l->repeated += range.to - range.from;
	for (uint32_t i = range.from; i < range.to; i++) {
		struct ckpt_entry entry = l->e->items[i];
		const char *name;
		int rc;

		if (!set_name_below(l, &entry, range.below_len, step))
			return ckpt_fail_nomem(err);
		name = (const char *)l->name.data;
		rc = add_entry(l, &entry, name, l->name.len - 1, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- the walk ---- */

/*
 * 1: V is a tensor. The model's list of tensors is in the order of the walk; those inside of other
 * tensors are not in it, and parsed here.
 */
static int find_tensor(struct lister *l, const struct ckpt_value *v, struct ckpt_entry *entry,
		       struct ckpt_error *err)
{
	const struct ckpt_model *model = model_of(l);
	struct ckpt_tensor *t;
	int rc;

	if (l->next_tensor < model->tensor_count && model->tensors[l->next_tensor].value == v) {
		entry->t = &model->tensors[l->next_tensor++];
		return 1;
	}
	if (!ckpt_value_is_tensor(model, v))
		return 0;
	t = ckpt_arena_calloc(l->e->arena, 1, sizeof(*t));
	if (!t)
		return ckpt_arena_fail(l->e->arena, err);
	rc = ckpt_tensor_parse(model, v, l->e->arena, t, err);
	entry->t = t;
	return rc;
}

static int classify(struct lister *l, const struct ckpt_value *v, struct ckpt_entry *entry,
		    struct ckpt_error *err)
{
	struct ckpt_numpy n;
	int rc = find_tensor(l, v, entry, err);

	if (rc < 0)
		return rc;
	entry->value = v;
	entry->kind = CKPT_ENTRY_VALUE;
	if (rc > 0) {
		entry->kind = CKPT_ENTRY_TENSOR;
		entry->is_whole = entry->t->kind == CKPT_KIND_WRAPPER && !entry->t->local;
	} else if (v->kind == CKPT_PERSID && ckpt_storage_of(v) >= 0) {
		entry->kind = CKPT_ENTRY_STORAGE;
	} else if (ckpt_numpy_parse(model_of(l), v, &n) && !n.is_scalar &&
		   n.dtype != CKPT_DTYPE_UNKNOWN) {
		entry->kind = CKPT_ENTRY_ARRAY;
	} else if (!ckpt_is_one_value(model_of(l), v)) {
		entry->kind = CKPT_ENTRY_CONTAINER;
	}
	return 0;
}

static bool is_metadata(const struct lister *l, const struct ckpt_walk_step *step)
{
	static const char name[] = "_metadata";
	size_t len = sizeof(name) - 1;

	if (l->container_count && l->containers[l->container_count - 1].in_metadata)
		return true;
	return step->name_len >= len && !strcmp(step->name + step->name_len - len, name) &&
	       (step->name_len == len || step->name[step->name_len - len - 1] == '.');
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct lister *l = ctx;
	struct ckpt_entry entry = { 0 };
	bool enter;
	int rc;

	leave_containers(l, step->depth);
	rc = ckpt_optimizers_visit(&l->optimizers, step, err);
	if (rc < 0)
		return rc;
	entry.of_optimizer = rc;
	rc = classify(l, step->value, &entry, err);
	entry.in_metadata = is_metadata(l, step);
	entry.way = step->way;
	enter = entry.kind == CKPT_ENTRY_CONTAINER || entry.is_whole;
	if (rc == 0)
		rc = add_entry(l, &entry, step->name, step->name_len, err);
	if (rc < 0 || !enter)
		return rc < 0 ? rc : CKPT_WALK_SKIP;
	if (step->seen && step->value->id) {
		rc = repeat_entries(l, step, err);
		return rc < 0 ? rc : CKPT_WALK_SKIP;
	}
	rc = enter_container(l, step, entry.in_metadata, err);
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

/* ---- all of them ---- */

static int is_wanted(const char *name, struct ckpt_patterns *keep, struct ckpt_patterns *drop,
		     struct ckpt_error *err)
{
	int rc = keep->count ? ckpt_patterns_match(keep, name, err) : 1;

	if (rc > 0 && drop->count) {
		rc = ckpt_patterns_match(drop, name, err);
		rc = rc < 0 ? rc : !rc;
	}
	return rc;
}

/*
 * What is compared by the entries below it (IS_WHOLE) is taken with these, or it would be the same whatever it
 * holds. WHOLE: the last one that was taken; its entries follow it.
 */
static bool is_taken(const struct ckpt_entry *e, const struct ckpt_diff_options *o, const struct ckpt_entry *whole)
{
	if (!o->takes)
		return true;
	if (whole->name_len && e->name_len > whole->name_len && e->name[whole->name_len] == '.' &&
	    !memcmp(e->name, whole->name, whole->name_len))
		return true;
	return e->kind == CKPT_ENTRY_TENSOR && o->takes(o->takes_ctx, e->t->name ? e->t->name : e->name);
}

int ckpt_entries_filter(struct ckpt_entries *e, const struct ckpt_diff_options *options,
			struct ckpt_patterns *keep, struct ckpt_patterns *drop, struct ckpt_error *err)
{
	struct ckpt_entry whole = { 0 };
	uint32_t kept = 0;

	if (!options->takes && !keep->count && !drop->count)
		return 0;
	for (uint32_t i = 0; i < e->count; i++) {
		int rc;

		if (!is_taken(&e->items[i], options, &whole))
			continue;
		if (e->items[i].is_whole)
			whole = e->items[i];
		rc = is_wanted(e->items[i].name, keep, drop, err);
		if (rc < 0)
			return ckpt_error_at(err, rc, ckpt_document_path(e->model->doc), NULL, CKPT_NO_OFFSET);
		if (rc > 0)
			e->items[kept++] = e->items[i];
	}
	e->count = kept;
	return 0;
}

int ckpt_entry_compare(const struct ckpt_entry *a, const struct ckpt_entry *b)
{
	size_t least = a->name_len < b->name_len ? a->name_len : b->name_len;
	int order = memcmp(a->name, b->name, least);

	return order ? order : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static int by_name(const void *a, const void *b)
{
	const struct ckpt_entry *x = a, *y = b;
	int order = ckpt_entry_compare(x, y);

	if (!order)
		order = (x->way > y->way) - (x->way < y->way);
	return order ? order : (x->number > y->number) - (x->number < y->number);
}

int ckpt_entries_init(struct ckpt_entries *e, const struct ckpt_model *model,
		      struct ckpt_error *err)
{
	struct lister l = { .e = e };
	int rc;

	*e = (struct ckpt_entries){ .model = model };
	e->arena = ckpt_arena_new(BUDGET_BASE + BUDGET_FACTOR * (uint64_t)model->doc->pickle_len);
	l.ranges = calloc((size_t)model->next_id + 1, sizeof(*l.ranges));
	if (!e->arena || !l.ranges || !ckpt_model_has_tensors(model))
		rc = ckpt_fail_nomem(err);
	else
		rc = ckpt_model_walk(model, visit_value, &l, err);
	leave_containers(&l, 0);
	free(l.ranges);
	free(l.containers);
	ckpt_optimizers_clear(&l.optimizers);
	ckpt_buf_clear(&l.name);
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

void ckpt_entries_sort(struct ckpt_entries *e)
{
	if (e->count)
		qsort(e->items, e->count, sizeof(*e->items), by_name);
}

void ckpt_entries_clear(struct ckpt_entries *e)
{
	ckpt_arena_free(e->arena);
	free(e->items);
	*e = (struct ckpt_entries){ 0 };
}
