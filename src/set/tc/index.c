/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `metadata.pkl`, the index of a directory of torch_checkpointing, into tables of items,
 * places and files: version 2.0 by item, version 1.0 by path and by rank. Then adds the files
 * that go by their names alone, <item>_<rank>.pt.
 *
 * Names of items are parts of file names, and paths of files come from the pickle: both are
 * checked before they are used. Files are sorted by item and rank at the end, and numbers of
 * files are valid from then on; each rank has one file of an item at most.
 */
#include "set/tc/index.h"

#include "base/ascii.h"
#include "base/grow.h"
#include "base/text.h"
#include "model/repr.h"
#include "set/fields.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 65536, MOST_NAME = 200, BUDGET_PER_BYTE = 96, SHOWN = 120 };
static const uint64_t BUDGET_BASE = 64 << 20;

struct tc_reader {
	struct ckpt_tc_index *index;
	struct ckpt_error *err;
};

const struct ckpt_value *ckpt_tc_field(const struct ckpt_value *v, const char *name)
{
	return v && v->kind == CKPT_DICT ? ckpt_fields_find(v, name) : NULL;
}

static int fail_item(struct tc_reader *r, uint32_t item, int rc)
{
	return ckpt_error_prefix(r->err, rc, "item '%s': ", r->index->items[item].name);
}

/* ---- tables that grow ---- */

/* torch_checkpointing takes no others: they are parts of file names. */
static bool is_item_name(const char *name, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (!ckpt_is_alnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '-')
			return false;
	return len && len <= MOST_NAME;
}

static int find_or_add_item(struct tc_reader *r, const char *name, uint64_t len, uint32_t *out)
{
	struct ckpt_tc_index *x = r->index;
	char shown[SHOWN];
	uint64_t *slot;
	bool there;
	void *items;

	if (!is_item_name(name, len))
		return ckpt_fail(r->err, CKPT_E_FORMAT, "'%s' is no name of an item",
				 ckpt_escape(shown, sizeof(shown), name, len));
	slot = ckpt_strmap_find(&x->item_by_name, name, len);
	if (slot) {
		*out = (uint32_t)*slot;
		return 0;
	}
	items = ckpt_grow(x->items, x->item_count, &x->item_cap, sizeof(*x->items));
	if (!items)
		return ckpt_fail_nomem(r->err);
	x->items = items;
	x->items[x->item_count] =
		(struct ckpt_tc_item){ .name = ckpt_arena_copy(x->arena, name, len) };
	if (!x->items[x->item_count].name)
		return ckpt_arena_fail(x->arena, r->err);
	if (!ckpt_strmap_insert(&x->item_by_name, x->items[x->item_count].name, len, x->item_count,
				&there))
		return ckpt_fail_nomem(r->err);
	*out = x->item_count++;
	return 0;
}

static uint64_t rank_key(uint32_t item, uint32_t rank)
{
	return (uint64_t)item << 32 | rank;
}

uint32_t ckpt_tc_index_file(const struct ckpt_tc_index *x, uint32_t item, uint32_t rank)
{
	uint64_t key = rank_key(item, rank),
		 *slot = ckpt_strmap_find(&x->file_by_rank, (char *)&key, sizeof(key));

	return slot ? (uint32_t)*slot : UINT32_MAX;
}

static int note_rank(struct tc_reader *r, uint32_t file)
{
	struct ckpt_tc_index *x = r->index;
	uint64_t *key = ckpt_arena_alloc(x->arena, sizeof(*key));
	bool there;

	if (!key)
		return ckpt_arena_fail(x->arena, r->err);
	*key = rank_key(x->files[file].item, x->files[file].rank);
	if (!ckpt_strmap_insert(&x->file_by_rank, (char *)key, sizeof(*key), file, &there))
		return ckpt_fail_nomem(r->err);
	if (there)
		return ckpt_fail(r->err, CKPT_E_FORMAT, "rank %" PRIu32 " has two files",
				 x->files[file].rank);
	return 0;
}

/* NAME: in the arena, NULL if that is full. */
static int add_file(struct tc_reader *r, uint32_t item, uint32_t rank, const char *name)
{
	struct ckpt_tc_index *x = r->index;
	void *files = ckpt_grow(x->files, x->file_count, &x->file_cap, sizeof(*x->files));
	char shown[SHOWN];
	bool there;

	if (!files)
		return ckpt_fail_nomem(r->err);
	x->files = files;
	if (!name)
		return ckpt_arena_fail(x->arena, r->err);
	x->files[x->file_count] = (struct ckpt_tc_file){ item, rank, name };
	if (!ckpt_strmap_insert(&x->file_by_name, name, strlen(name), x->file_count, &there))
		return ckpt_fail_nomem(r->err);
	if (there)
		return ckpt_fail(r->err, CKPT_E_FORMAT, "'%s' is the file of two ranks or items",
				 ckpt_escape(shown, sizeof(shown), name, strlen(name)));
	return note_rank(r, x->file_count++);
}

/* ---- where files are ---- */

/* The key of a rank: an int, or its digits. UINT64_MAX: it is none. */
static uint64_t rank_number(const struct ckpt_value *v)
{
	uint64_t n = 0;

	if (v->kind == CKPT_INT)
		return v->u.integer < 0 ? UINT64_MAX : (uint64_t)v->u.integer;
	if (v->kind != CKPT_STR || !v->u.bytes.len || v->u.bytes.len > 9)
		return UINT64_MAX;
	for (uint64_t i = 0; i < v->u.bytes.len; i++) {
		if (!ckpt_is_digit((unsigned char)v->u.bytes.ptr[i]))
			return UINT64_MAX;
		n = n * 10 + (uint64_t)(v->u.bytes.ptr[i] - '0');
	}
	return n;
}

static int read_rank(struct tc_reader *r, const struct ckpt_value *v, uint32_t *out)
{
	uint64_t rank = rank_number(v);
	struct ckpt_buf shown = { 0 };

	*out = (uint32_t)rank;
	if (rank < r->index->world_size)
		return 0;
	ckpt_value_repr(v, &shown);
	ckpt_fail(r->err, CKPT_E_FORMAT, "rank %.*s of %" PRIu32, (int)shown.len,
		  (const char *)shown.data, r->index->world_size);
	ckpt_buf_clear(&shown);
	return ckpt_error_at(r->err, CKPT_E_FORMAT, NULL, NULL, v->pos);
}

/* ".//a/./b" is a/b: a file that is named twice shall be found to be, and not be read twice. */
static const char *tidy_path(struct ckpt_arena *arena, const char *path, uint64_t len)
{
	char *tidied = ckpt_arena_copy(arena, path, len), *to = tidied;

	for (uint64_t at = 0, next; tidied && at < len; at = next + 1) {
		next = at;
		while (next < len && path[next] != '/')
			next++;
		if (next == at || (next == at + 1 && path[at] == '.'))
			continue;
		if (to > tidied)
			*to++ = '/';
		memcpy(to, path + at, next - at);
		to += next - at;
	}
	if (tidied)
		*to = '\0';
	return tidied;
}

/* None: the file has the name that files have. */
static int read_layout(struct tc_reader *r, uint32_t item, uint32_t rank,
		       const struct ckpt_value *layout)
{
	const struct ckpt_value *path = ckpt_tc_field(layout, "file_path"),
				*format = ckpt_tc_field(layout, "serialization_format"),
				*type = ckpt_tc_field(format, "type");
	char shown[SHOWN], name[SHOWN];
	int rc;

	if (layout->kind == CKPT_NONE)
		return 0;
	if (!type || type->kind != CKPT_STR)
		return ckpt_fields_wrong(r->err, "a file_path and a serialization_format", layout);
	if (!path || path->kind != CKPT_STR)
		return ckpt_fields_wrong(r->err, "a str as file_path", path);
	rc = ckpt_fields_check_path(path, r->err);
	if (rc < 0)
		return rc;
	if (ckpt_value_is_str(type, "TorchSerialization"))
		return add_file(r, item, rank,
				tidy_path(r->index->arena, path->u.bytes.ptr, path->u.bytes.len));
	if (!r->index->items[item].described) {
		r->index->left_out = r->index->items[item].name;
		return 0;
	}
	return ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
			 "rank %" PRIu32 " stored it with %s in '%s', which cannot be read; only "
			 "what TorchSerialization stored can",
			 rank,
			 ckpt_escape(shown, sizeof(shown), type->u.bytes.ptr, type->u.bytes.len),
			 ckpt_escape(name, sizeof(name), path->u.bytes.ptr, path->u.bytes.len));
}

/* ---- version 2.0: by item ---- */

static int add_place(struct tc_reader *r, uint32_t item, struct ckpt_tc_place place)
{
	struct ckpt_tc_index *x = r->index;
	void *places = ckpt_grow(x->places, x->place_count, &x->place_cap, sizeof(*x->places));

	if (!places)
		return ckpt_fail_nomem(r->err);
	x->places = places;
	place.item = item;
	x->places[x->place_count++] = place;
	x->items[item].described = true;
	return 0;
}

static int read_place(struct tc_reader *r, const struct ckpt_value *text,
		      const struct ckpt_value *groups, struct ckpt_tc_place *out)
{
	*out = (struct ckpt_tc_place){ .text = text, .groups = groups };
	if (text->kind != CKPT_STR)
		return ckpt_fields_wrong(r->err, "a path in JSON", text);
	if (groups->kind != CKPT_LIST && groups->kind != CKPT_TUPLE)
		return ckpt_fields_wrong(r->err, "a list of groups of ranks", groups);
	return ckpt_path_parse_json(text, r->index->arena, &out->steps, &out->step_count, r->err);
}

static int read_item(struct tc_reader *r, uint32_t item, const struct ckpt_value *value)
{
	const struct ckpt_value *places = ckpt_tc_field(value, "nested_path_to_metadata"),
				*layouts = ckpt_tc_field(value, "rank_to_layout_info");
	int rc = 0;

	if (!places || places->kind != CKPT_DICT)
		return ckpt_fields_wrong(r->err, "a dict as nested_path_to_metadata", places);
	if (!layouts || layouts->kind != CKPT_DICT)
		return ckpt_fields_wrong(r->err, "a dict as rank_to_layout_info", layouts);
	for (uint32_t i = 0; rc == 0 && i + 1 < places->u.seq.count; i += 2) {
		struct ckpt_tc_place place;

		rc = read_place(r, places->u.seq.items[i], places->u.seq.items[i + 1], &place);
		if (rc == 0)
			rc = add_place(r, item, place);
	}
	for (uint32_t i = 0; rc == 0 && i + 1 < layouts->u.seq.count; i += 2) {
		uint32_t rank;

		rc = read_rank(r, layouts->u.seq.items[i], &rank);
		if (rc == 0)
			rc = read_layout(r, item, rank, layouts->u.seq.items[i + 1]);
	}
	return rc;
}

static int read_items(struct tc_reader *r, const struct ckpt_value *dict)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i + 1 < dict->u.seq.count; i += 2) {
		const struct ckpt_value *name = dict->u.seq.items[i];
		uint32_t item;

		if (name->kind != CKPT_STR)
			return ckpt_fields_wrong(r->err, "the name of an item", name);
		rc = find_or_add_item(r, name->u.bytes.ptr, name->u.bytes.len, &item);
		if (rc < 0)
			return rc;
		rc = read_item(r, item, dict->u.seq.items[i + 1]);
		if (rc < 0)
			fail_item(r, item, rc);
	}
	return rc;
}

/* ---- version 1.0: by path, which begins with the item ---- */

static int read_flat_places(struct tc_reader *r, const struct ckpt_value *dict)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i + 1 < dict->u.seq.count; i += 2) {
		struct ckpt_tc_place place;
		uint32_t item;

		rc = read_place(r, dict->u.seq.items[i], dict->u.seq.items[i + 1], &place);
		if (rc == 0 && (!place.step_count || !place.steps->key))
			rc = ckpt_fail(r->err, CKPT_E_FORMAT,
				       "a path does not begin with the name of an item");
		if (rc == 0)
			rc = find_or_add_item(r, place.steps->key, place.steps->len, &item);
		if (rc < 0)
			return rc;
		place.steps++;
		place.step_count--;
		rc = add_place(r, item, place);
	}
	return rc;
}

static int read_layouts_of_rank(struct tc_reader *r, uint32_t rank, const struct ckpt_value *dict)
{
	int rc = 0;

	if (dict->kind != CKPT_DICT)
		return ckpt_fields_wrong(r->err, "a dict of items", dict);
	for (uint32_t i = 0; rc == 0 && i + 1 < dict->u.seq.count; i += 2) {
		const struct ckpt_value *name = dict->u.seq.items[i];
		uint32_t item;

		if (name->kind != CKPT_STR)
			return ckpt_fields_wrong(r->err, "the name of an item", name);
		rc = find_or_add_item(r, name->u.bytes.ptr, name->u.bytes.len, &item);
		if (rc < 0)
			return rc;
		rc = read_layout(r, item, rank, dict->u.seq.items[i + 1]);
		if (rc < 0)
			fail_item(r, item, rc);
	}
	return rc;
}

static int read_flat_layouts(struct tc_reader *r, const struct ckpt_value *dict)
{
	int rc = 0;

	if (!dict || dict->kind != CKPT_DICT)
		return ckpt_fields_wrong(r->err, "a dict as rank_to_layout_info_mappings", dict);
	for (uint32_t i = 0; rc == 0 && i + 1 < dict->u.seq.count; i += 2) {
		uint32_t rank;

		rc = read_rank(r, dict->u.seq.items[i], &rank);
		if (rc == 0)
			rc = read_layouts_of_rank(r, rank, dict->u.seq.items[i + 1]);
	}
	return rc;
}

/* ---- the whole ---- */

static int read_world_size(struct tc_reader *r, const struct ckpt_value *v)
{
	if (!v || v->kind != CKPT_INT)
		return ckpt_fields_wrong(r->err, "an int as world_size", v);
	if (v->u.integer < 1)
		return ckpt_fail(r->err, CKPT_E_FORMAT, "a world_size of %" PRId64, v->u.integer);
	if (v->u.integer > MOST_RANKS)
		return ckpt_fail(r->err, CKPT_E_LIMIT,
				 "a world_size of %" PRId64 ", the limit is %d", v->u.integer,
				 MOST_RANKS);
	r->index->world_size = (uint32_t)v->u.integer;
	return 0;
}

static int read_all(struct tc_reader *r, const struct ckpt_value *root)
{
	const struct ckpt_value *version = ckpt_tc_field(root, "version"),
				*metadata = ckpt_tc_field(root, "metadata");
	char shown[SHOWN];
	int rc;

	if (!metadata || metadata->kind != CKPT_DICT)
		return ckpt_fields_wrong(r->err, "a dict of torch_checkpointing with its metadata",
					 root->kind == CKPT_DICT ? metadata : root);
	if (version && version->kind != CKPT_STR)
		return ckpt_fields_wrong(r->err, "a str as version", version);
	rc = read_world_size(r, ckpt_tc_field(root, "world_size"));
	if (rc < 0)
		return rc;
	if (version && ckpt_value_is_str(version, "2.0")) {
		r->index->version = "2.0";
		return read_items(r, metadata);
	}
	if (version && !ckpt_value_is_str(version, "1.0"))
		return ckpt_fail(
			r->err, CKPT_E_UNSUPPORTED,
			"version '%s' of torch_checkpointing's metadata is not known, only "
			"1.0 and 2.0 are",
			ckpt_escape(shown, sizeof(shown), version->u.bytes.ptr,
				    version->u.bytes.len));
	r->index->version = "1.0";
	rc = read_flat_places(r, metadata);
	return rc < 0 ? rc
		      : read_flat_layouts(r, ckpt_tc_field(root, "rank_to_layout_info_mappings"));
}

int ckpt_tc_index_read(const struct ckpt_pickle *pickle, struct ckpt_tc_index *out,
		       struct ckpt_error *err)
{
	struct tc_reader r = { .index = out, .err = err };

	*out = (struct ckpt_tc_index){ .arena = ckpt_arena_new(BUDGET_BASE +
							       BUDGET_PER_BYTE * pickle->nbytes) };
	return out->arena ? read_all(&r, pickle->root) : ckpt_fail_nomem(err);
}

void ckpt_tc_index_clear(struct ckpt_tc_index *x)
{
	ckpt_strmap_clear(&x->item_by_name);
	ckpt_strmap_clear(&x->file_by_name);
	ckpt_strmap_clear(&x->file_by_rank);
	free(x->items);
	free(x->places);
	free(x->files);
	ckpt_arena_free(x->arena);
	*x = (struct ckpt_tc_index){ 0 };
}

/* ---- what goes by its name ---- */

/* "<item>_<rank>.pt", the rank as Python prints it. */
static bool parse_name(const char *name, uint32_t world_size, size_t *len, uint32_t *rank)
{
	const char *at = strrchr(name, '_');
	unsigned long n;
	char *end;

	if (!at || !ckpt_is_digit((unsigned char)at[1]) || (at[1] == '0' && at[2] != '.'))
		return false;
	n = strtoul(at + 1, &end, 10);
	if (n >= world_size || strcmp(end, ".pt") != 0)
		return false;
	*len = (size_t)(at - name);
	*rank = (uint32_t)n;
	return is_item_name(name, *len);
}

static int by_item_and_rank(const void *a, const void *b)
{
	const struct ckpt_tc_file *x = a, *y = b;
	uint64_t one = rank_key(x->item, x->rank), other = rank_key(y->item, y->rank);

	return (one > other) - (one < other);
}

static int sort_files(struct tc_reader *r)
{
	struct ckpt_tc_index *x = r->index;
	int rc = 0;

	if (x->file_count)
		qsort(x->files, x->file_count, sizeof(*x->files), by_item_and_rank);
	ckpt_strmap_clear(&x->file_by_rank);
	for (uint32_t i = 0; rc == 0 && i < x->file_count; i++)
		rc = note_rank(r, i);
	return rc;
}

int ckpt_tc_index_add_listed(struct ckpt_tc_index *x, const struct ckpt_listing *l,
			     struct ckpt_error *err)
{
	struct tc_reader r = { .index = x, .err = err };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->count; i++) {
		const char *name = l->items[i].name;
		uint32_t item, rank;
		size_t len;

		if (l->items[i].is_folder || !parse_name(name, x->world_size, &len, &rank) ||
		    ckpt_strmap_find(&x->file_by_name, name, strlen(name)))
			continue;
		rc = find_or_add_item(&r, name, len, &item);
		if (rc == 0 && ckpt_tc_index_file(x, item, rank) == UINT32_MAX)
			rc = add_file(&r, item, rank,
				      ckpt_arena_copy(x->arena, name, strlen(name)));
	}
	return rc < 0 ? rc : sort_files(&r);
}
