/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of storages and of views into them. Each becomes the persistent id that torch.save
 * writes today. What must stay true: places are added in the order of the ids (add_storage), as
 * the model numbers storages by them; entries move when one is added, so a pointer to one does
 * not survive ckpt_tar_add_entry(); counts and offsets are checked against the member before
 * they are multiplied.
 */
#include "format/torch_tar_tables.h"

#include "base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_BYTES = 8 };

static const char *decimal(struct ckpt_tar_reader *r, const char *prefix, int64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%s%" PRId64, prefix, number);
	return ckpt_arena_copy(r->tt->arena, text, strlen(text));
}

/* Places have the numbers that the model gives to the storages. */
static int add_storage(struct ckpt_tar_reader *r, const struct ckpt_value *id,
		       const struct ckpt_torch_tar_place *place)
{
	struct ckpt_torch_tar *tt = r->tt;
	uint32_t count = tt->storages.count;
	void *grown = ckpt_grow(tt->places, count, &tt->place_cap, sizeof(*tt->places));

	if (!grown)
		return ckpt_fail_nomem(r->err);
	tt->places = grown;
	tt->places[count] = *place;
	return ckpt_seq_add(tt->arena, &tt->storages, id) ? 0 : ckpt_arena_fail(tt->arena, r->err);
}

/*
 * ('storage', class, key, location, numel), as in a file of today; of a view with what it is a
 * part of behind.
 */
static int make_storage(struct ckpt_tar_reader *r, struct ckpt_torch_tar_entry *e,
			const struct ckpt_torch_tar_entry *root, const struct ckpt_value *view)
{
	const struct ckpt_composer *c = &r->compose;
	const struct ckpt_torch_tar_entry *of = root ? root : e;
	const struct ckpt_value *items[6] = {
		r->word_storage,
		ckpt_compose_global(c, "torch", e->type),
		ckpt_compose_str(c, of->key, strlen(of->key)),
		e->location,
		ckpt_compose_int(c, (int64_t)of->numel),
		view,
	};
	struct ckpt_value *v = ckpt_compose(c, CKPT_PERSID);

	if (v)
		v->u.persid.pid = ckpt_compose_tuple(c, items, root ? 6 : 5);
	e->value = v;
	if (!v || !v->u.persid.pid)
		return ckpt_arena_fail(c->arena, r->err);
	return add_storage(r, v, &e->place);
}

/*
 * The class of a dtype, as torch calls it today; NULL: NAME is no class of storages that have
 * one.
 */
static const char *storage_class(const char *name)
{
	enum ckpt_dtype dtype = ckpt_dtype_of_storage(name);
	const char *class = dtype == CKPT_DTYPE_UNKNOWN ? "" : ckpt_dtype_storage_class(dtype);

	return *class ? class : NULL;
}

static int read_type(struct ckpt_tar_reader *r, const struct ckpt_value *type, const char **out)
{
	if (type->kind != CKPT_GLOBAL)
		return ckpt_tar_wrong(r, "a storage class", type);
	*out = storage_class(type->u.global->name);
	if (!*out)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "'%.60s.%.60s' is not a storage class of torch",
				 type->u.global->module, type->u.global->name);
	return 0;
}

static uint64_t item_size(const struct ckpt_torch_tar_entry *e)
{
	return ckpt_dtype_size(ckpt_dtype_of_storage(e->type));
}

/* The number of elements, then the elements. */
static int read_data(struct ckpt_tar_reader *r, struct ckpt_torch_tar_entry *e)
{
	uint8_t count[COUNT_BYTES];
	int rc = ckpt_tar_read_bytes(r, count, sizeof(count));

	if (rc < 0)
		return rc;
	e->numel = ckpt_tar_little_endian(count, sizeof(count));
	if (__builtin_mul_overflow(e->numel, item_size(e), &e->place.nbytes) ||
	    e->place.nbytes > r->end - r->at)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "storage %s has %" PRIu64 " elements of %" PRIu64
				 " bytes, %" PRIu64 " bytes are left",
				 e->key, e->numel, item_size(e), r->end - r->at);
	e->place.off = r->at;
	r->at += e->place.nbytes;
	return 0;
}

int ckpt_tar_read_storage(struct ckpt_tar_reader *r)
{
	const struct ckpt_value *const *items = NULL;
	struct ckpt_torch_tar_entry *e = NULL;
	const char *type = NULL;
	int rc = ckpt_tar_next_tuple(r, 3, "the key, the location and the class of a storage",
				     &items);

	if (rc == 0)
		rc = read_type(r, items[2], &type);
	if (rc == 0 && items[1]->kind != CKPT_STR && items[1]->kind != CKPT_PY2_STR)
		rc = ckpt_tar_wrong(r, "the text of a device", items[1]);
	if (rc == 0)
		rc = ckpt_tar_add_entry(r, items[0], &e);
	if (rc < 0)
		return rc;
	e->type = type;
	e->key = decimal(r, "", items[0]->u.integer);
	e->location = ckpt_compose_str(&r->compose, items[1]->u.bytes.ptr, items[1]->u.bytes.len);
	if (!e->key || !e->location)
		return ckpt_arena_fail(r->tt->arena, r->err);
	rc = read_data(r, e);
	return rc < 0 ? rc : make_storage(r, e, NULL, NULL);
}

/* (key, that of the whole, first element, elements) */
static int read_view(struct ckpt_tar_reader *r, const struct ckpt_value *v)
{
	const struct ckpt_value *const *item = v->u.seq.items;
	const struct ckpt_torch_tar_entry *root;
	struct ckpt_torch_tar_entry *e = NULL;
	const struct ckpt_value *view[3];
	uint64_t offset, numel, number;
	int rc;

	if (v->kind != CKPT_TUPLE || v->u.seq.count != 4 || item[2]->kind != CKPT_INT ||
	    item[3]->kind != CKPT_INT || item[2]->u.integer < 0 || item[3]->u.integer < 0)
		return ckpt_tar_wrong(r, "two keys, the offset and the size of a view", v);
	root = ckpt_tar_find_entry(r, item[1]);
	if (!root)
		return ckpt_fail(r->err, CKPT_E_FORMAT, "a view of a storage that is not there");
	offset = (uint64_t)item[2]->u.integer;
	numel = (uint64_t)item[3]->u.integer;
	if (offset > root->numel || numel > root->numel - offset)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "a view of %" PRIu64 " elements at %" PRIu64
				 " of storage %s with %" PRIu64,
				 numel, offset, root->key, root->numel);
	number = (uint64_t)(root - r->tt->entries);
	rc = ckpt_tar_add_entry(r, item[0], &e);
	if (rc < 0)
		return rc;
	root = &r->tt->entries[number];
	*e = *root;
	e->numel = numel;
	e->place.off += offset * item_size(e);
	e->place.nbytes = numel * item_size(e);
	e->key = decimal(r, "", item[0]->u.integer);
	if (!e->key)
		return ckpt_arena_fail(r->tt->arena, r->err);
	view[0] = ckpt_compose_str(&r->compose, e->key, strlen(e->key));
	view[1] = ckpt_compose_int(&r->compose, (int64_t)offset);
	view[2] = ckpt_compose_int(&r->compose, (int64_t)numel);
	return make_storage(r, e, root, ckpt_compose_tuple(&r->compose, view, 3));
}

int ckpt_tar_read_views(struct ckpt_tar_reader *r)
{
	int rc = ckpt_tar_next_pickle(r);
	const struct ckpt_value *v = r->pickle.root;

	if (rc == 0 && v->kind != CKPT_LIST)
		rc = ckpt_tar_wrong(r, "the list of views", v);
	for (uint32_t i = 0; rc == 0 && i < v->u.seq.count; i++)
		rc = read_view(r, v->u.seq.items[i]);
	return rc;
}

/* An empty tensor may have no storage at all; it gets one of its own, without elements. */
int ckpt_tar_empty_storage(struct ckpt_tar_reader *r, int64_t key, const struct ckpt_value *type,
			   const struct ckpt_torch_tar_entry **out)
{
	struct ckpt_torch_tar_entry *e =
		ckpt_arena_calloc(r->tt->arena, 1, sizeof(*e)); /* under no key */
	char name[64] = "";
	int len = type->kind == CKPT_GLOBAL ? (int)type->u.global->name_len - 6 : 0;

	if (!e)
		return ckpt_arena_fail(r->tt->arena, r->err);
	if (len > 0 && len < 40 && !strcmp(type->u.global->name + len, "Tensor"))
		snprintf(name, sizeof(name), "%.*sStorage", len, type->u.global->name);
	e->type = storage_class(name);
	if (!e->type)
		return ckpt_tar_wrong(r, "the class of a tensor", type);
	e->key = decimal(r, "t", key);
	e->location = ckpt_compose_str(&r->compose, "cpu", 3);
	if (!e->key || !e->location)
		return ckpt_arena_fail(r->tt->arena, r->err);
	e->place.off = r->tt->members[CKPT_TAR_TENSORS].off;
	*out = e;
	return make_storage(r, e, NULL, NULL);
}
