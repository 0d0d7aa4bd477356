/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `*.index.json` of a shard set into tables: files, tensors with the number of their file,
 * and other names of tensors (aliases in its metadata). Also filled without an index, from the
 * files themselves.
 *
 * The text comes from anywhere: it has a limit, duplicates of keys are refused, and names of
 * files must stay inside the directory. Files are sorted before entries refer to them by number;
 * after that the order must not change.
 */
#include "set/hf/index.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/text.h"
#include "set/safe_path.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The hub library itself reads 10 MiB; the longest indexes of today have 14. */
enum { NONE = UINT32_MAX, SHOWN = 120, MOST_FILES = 100000 };
static const uint64_t MOST_TEXT = 64 << 20;

void ckpt_hf_index_clear(struct ckpt_hf_index *x)
{
	ckpt_strmap_clear(&x->entry_by_name);
	free(x->files);
	free(x->entries);
	free(x->aliases);
	free(x->others);
	ckpt_arena_free(x->arena);
	*x = (struct ckpt_hf_index){ 0 };
}

static int make_arena(struct ckpt_hf_index *x, struct ckpt_error *err)
{
	if (!x->arena)
		x->arena = ckpt_arena_new(UINT64_MAX >> 1); /* in proportion to what was read */
	return x->arena ? 0 : ckpt_fail_nomem(err);
}

/* ---- tables ---- */

int ckpt_hf_index_add_file(struct ckpt_hf_index *x, const char *name, struct ckpt_error *err)
{
	struct ckpt_hf_file *grown;
	char *copy;
	int rc = make_arena(x, err);

	if (rc < 0)
		return rc;
	if (x->file_count == MOST_FILES)
		return ckpt_fail(err, CKPT_E_LIMIT, "has more than %d files", MOST_FILES);
	grown = realloc(x->files, (x->file_count + (size_t)1) * sizeof(*grown));
	copy = ckpt_arena_copy(x->arena, name, strlen(name));
	if (grown)
		x->files = grown;
	if (!grown || !copy)
		return ckpt_fail_nomem(err);
	x->files[x->file_count++] = (struct ckpt_hf_file){ .name = copy };
	return 0;
}

int ckpt_hf_index_add_entry(struct ckpt_hf_index *x, const char *name, size_t len, uint32_t file,
			    struct ckpt_error *err)
{
	struct ckpt_hf_entry *grown =
		ckpt_grow(x->entries, x->entry_count, &x->entry_cap, sizeof(*grown));
	char *copy;
	bool there;
	int rc = make_arena(x, err);

	if (rc < 0)
		return rc;
	if (grown)
		x->entries = grown;
	copy = ckpt_arena_copy(x->arena, name, len);
	if (!grown || !copy ||
	    !ckpt_strmap_insert(&x->entry_by_name, copy, len, x->entry_count, &there))
		return ckpt_fail_nomem(err);
	x->entries[x->entry_count++] =
		(struct ckpt_hf_entry){ .name = copy, .len = len, .file = file, .alias = NONE };
	x->files[file].names++;
	return 0;
}

struct ckpt_hf_entry *ckpt_hf_index_find(const struct ckpt_hf_index *x, const char *name,
					 size_t len)
{
	uint64_t *slot = ckpt_strmap_find(&x->entry_by_name, name, len);

	return slot ? &x->entries[*slot] : NULL;
}

/* ---- JSON ---- */

static int wrong(const char *what, const char *wanted, const json_t *found, struct ckpt_error *err)
{
	static const char *const names[] = { "an object", "an array", "a text", "an integer",
					     "a number",  "true",     "false",	"null" };

	return ckpt_fail(err, CKPT_E_FORMAT, "%s: wanted %s, found %s", what, wanted,
			 found ? names[json_typeof(found)] : "nothing");
}

static int check_file(const char *key, const json_t *file, struct ckpt_error *err)
{
	const char *name = json_string_value(file);
	char shown[SHOWN], of[SHOWN];

	ckpt_escape(of, sizeof(of), key, strlen(key));
	if (!name)
		return wrong("'weight_map'", "names of files", file, err);
	ckpt_escape(shown, sizeof(shown), name, strlen(name));
	if (!ckpt_path_is_name(name, strlen(name)))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "'%s' is in the file '%s', which is no name of a file", of, shown);
	if (ckpt_path_leads_out(name, strlen(name)))
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"'%s' is in the file '%s', which lies outside of the directory; it is not read",
			of, shown);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct ckpt_hf_file *x = a, *y = b;
	int order = strverscmp(x->name, y->name);

	return order ? order : strcmp(x->name, y->name);
}

/* Every file once, sorted; NUMBERS: by name, which one it is. */
static int add_files(struct ckpt_hf_index *x, json_t *map, struct ckpt_strmap *numbers,
		     struct ckpt_error *err)
{
	const char *key;
	json_t *file;
	bool there;
	int rc = 0;

	json_object_foreach(map, key, file)
	{
		rc = check_file(key, file, err);
		if (rc == 0 && !ckpt_strmap_insert(numbers, json_string_value(file),
						   strlen(json_string_value(file)), 0, &there))
			rc = ckpt_fail_nomem(err);
		if (rc == 0 && !there)
			rc = ckpt_hf_index_add_file(x, json_string_value(file), err);
		if (rc < 0)
			return rc;
	}
	if (x->file_count)
		qsort(x->files, x->file_count, sizeof(*x->files), by_name);
	for (uint32_t i = 0; i < x->file_count; i++)
		*ckpt_strmap_find(numbers, x->files[i].name, strlen(x->files[i].name)) = i;
	return 0;
}

static int add_entries(struct ckpt_hf_index *x, json_t *map, const struct ckpt_strmap *numbers,
		       struct ckpt_error *err)
{
	const char *key;
	json_t *file;
	int rc = 0;

	json_object_foreach(map, key, file)
	{
		const char *name = json_string_value(file);

		rc = ckpt_hf_index_add_entry(x, key, strlen(key),
					     (uint32_t)*ckpt_strmap_find(numbers, name,
									 strlen(name)),
					     err);
		if (rc < 0)
			break;
	}
	return rc;
}

static int read_map(struct ckpt_hf_index *x, json_t *map, struct ckpt_error *err)
{
	struct ckpt_strmap numbers = { 0 };
	int rc;

	if (!json_is_object(map))
		return wrong("'weight_map'", "an object", map, err);
	if (!json_object_size(map))
		return ckpt_fail(err, CKPT_E_FORMAT, "'weight_map' names no tensor");
	rc = add_files(x, map, &numbers, err);
	if (rc == 0)
		rc = add_entries(x, map, &numbers, err);
	ckpt_strmap_clear(&numbers);
	return rc;
}

static int add_alias(struct ckpt_hf_index *x, const char *name, struct ckpt_hf_entry *of,
		     struct ckpt_error *err)
{
	struct ckpt_hf_alias *grown =
		ckpt_grow(x->aliases, x->alias_count, &x->alias_cap, sizeof(*grown));
	char *copy = ckpt_arena_copy(x->arena, name, strlen(name));

	if (grown)
		x->aliases = grown;
	if (!grown || !copy)
		return ckpt_fail_nomem(err);
	x->aliases[x->alias_count] = (struct ckpt_hf_alias){ copy, strlen(name), of->alias };
	of->alias = x->alias_count++;
	return 0;
}

bool ckpt_hf_index_is_taken(const char *key)
{
	return !strcmp(key, "format") || !strcmp(key, "total_size");
}

/* As text, and now: where it is written, jansson may end a program whose memory is out. */
static int keep_other(struct ckpt_hf_index *x, const char *key, const json_t *value, bool in_metadata, struct ckpt_error *err)
{
	struct ckpt_hf_other *grown = ckpt_grow(x->others, x->other_count, &x->other_cap, sizeof(*grown));
	char *json = ckpt_json_dump(value, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
	const char *text = json_string_value(value);
	struct ckpt_hf_other other = { .in_metadata = in_metadata };

	if (grown)
		x->others = grown;
	other.key = ckpt_arena_copy(x->arena, key, strlen(key));
	other.json = json ? ckpt_arena_copy(x->arena, json, strlen(json)) : NULL;
	other.text = text ? ckpt_arena_copy(x->arena, text, strlen(text)) : NULL;
	free(json);
	if (!grown || !other.key || !other.json || (text && !other.text))
		return ckpt_fail_nomem(err);
	x->others[x->other_count++] = other;
	return 0;
}

/* Other things in the metadata say something else. */
static int read_aliases(struct ckpt_hf_index *x, json_t *metadata, struct ckpt_error *err)
{
	const char *key;
	json_t *value;
	int rc = 0;

	json_object_foreach(metadata, key, value)
	{
		const char *name = json_string_value(value);
		struct ckpt_hf_entry *of = name ? ckpt_hf_index_find(x, name, strlen(name)) : NULL;

		if (of && !ckpt_hf_index_is_taken(key) && !ckpt_hf_index_find(x, key, strlen(key)))
			rc = add_alias(x, key, of, err);
		else if (strcmp(key, "total_size") != 0)
			rc = keep_other(x, key, value, true, err);
		if (rc < 0)
			break;
	}
	return rc;
}

static int read_others(struct ckpt_hf_index *x, json_t *root, struct ckpt_error *err)
{
	const char *key;
	json_t *value;
	int rc = 0;

	json_object_foreach(root, key, value)
	{
		if (strcmp(key, "metadata") != 0 && strcmp(key, "weight_map") != 0)
			rc = keep_other(x, key, value, false, err);
		if (rc < 0)
			break;
	}
	return rc;
}

static int read_root(struct ckpt_hf_index *x, json_t *root, struct ckpt_error *err)
{
	const json_t *total = json_object_get(json_object_get(root, "metadata"), "total_size");
	int rc;

	if (!json_is_object(root))
		return wrong("the index", "an object with 'weight_map'", root, err);
	x->has_total = json_is_number(total);
	x->total_size = json_number_value(total);
	rc = read_map(x, json_object_get(root, "weight_map"), err);
	if (rc == 0)
		rc = read_aliases(x, json_object_get(root, "metadata"), err);
	return rc == 0 ? read_others(x, root, err) : rc;
}

int ckpt_hf_index_parse(const char *text, size_t len, struct ckpt_hf_index *out,
			struct ckpt_error *err)
{
	char shown[SHOWN];
	json_error_t error;
	json_t *root = ckpt_json_load(text, len, JSON_REJECT_DUPLICATES, &error);
	int rc;

	*out = (struct ckpt_hf_index){ 0 };
	if (!root)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_FORMAT, "the index is not JSON: %s",
					       ckpt_escape(shown, sizeof(shown), error.text,
							   strlen(error.text))),
				     NULL, NULL,
				     error.position > 0 ? (uint64_t)error.position
							: CKPT_NO_OFFSET);
	rc = read_root(out, root, err);
	json_decref(root);
	return rc;
}

int ckpt_hf_index_read(const struct ckpt_source *source, struct ckpt_hf_index *out,
		       struct ckpt_error *err)
{
	uint64_t len = ckpt_source_size(source);
	char *text;
	int rc;

	*out = (struct ckpt_hf_index){ 0 };
	if (len > MOST_TEXT)
		return ckpt_fail(err, CKPT_E_LIMIT,
				 "the index has %" PRIu64 " bytes, the limit is %" PRIu64, len,
				 MOST_TEXT);
	text = malloc((size_t)len + 1);
	if (!text)
		return ckpt_fail_nomem(err);
	rc = ckpt_source_read(source, 0, text, (size_t)len, err);
	if (rc == 0)
		rc = ckpt_hf_index_parse(text, (size_t)len, out, err);
	free(text);
	return rc;
}
