/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storages: what lies outside of the pickle (persistent ids), and files of torch inside bytes of it.
 *
 * What must stay true: what is looked into in bytes of a pickle is paid for out of one budget of the file (nested_budget), and
 * what was decoded for that is given back.
 */
#include "scan/walk.h"

#include "base/ascii.h"

#include "tensor/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 8 };

static void not_understood(struct ckpt_scan_walk *w, const char *text)
{
	ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "state", ckpt_scan_at(w), "%s", text);
}

/* ---- what lies outside ---- */

static bool is_storage_class(const struct ckpt_value *v)
{
	const struct ckpt_scan_rule *rule;

	if (v->kind != CKPT_GLOBAL)
		return false;
	rule = ckpt_scan_rule(v->u.global->module, v->u.global->name);
	return rule->kind == CKPT_SCAN_DATA && strstr(v->u.global->name, "Storage");
}

/* None, or (key, first item, number of items): torch takes apart whatever can be, and reads it as that. */
static bool is_view(const struct ckpt_value *v)
{
	const struct ckpt_value *const *at = v->u.seq.items;

	return v->kind == CKPT_NONE || (v->kind == CKPT_TUPLE && v->u.seq.count == 3 && (ckpt_scan_is_text(at[0]) || at[0]->kind == CKPT_INT) && at[1]->kind == CKPT_INT &&
					at[2]->kind == CKPT_INT);
}

/* ('storage', class, key, location, number of items[, view]) */
static bool is_storage(const struct ckpt_seq *id)
{
	const struct ckpt_value *const *at = id->items;

	return (id->count == 5 || id->count == 6) && ckpt_value_is_str(at[0], "storage") &&
	       is_storage_class(at[1]) && (ckpt_scan_is_text(at[2]) || at[2]->kind == CKPT_INT) &&
	       ckpt_scan_is_text(at[3]) && at[4]->kind == CKPT_INT && (id->count == 5 || is_view(at[5]));
}

/*
 * What a stream has instead of a class of a module: ('module', class, file, source), or the last three in a tar of torch 0.1. NULL:
 * PID is none of these.
 */
static const struct ckpt_value *class_with_source(const struct ckpt_scan_walk *w, const struct ckpt_value *pid)
{
	if (pid->kind != CKPT_TUPLE)
		return NULL;
	if (pid->u.seq.count == 3 && w->in->flags & CKPT_SCAN_TAR_IDS)
		return pid->u.seq.items[0];
	return pid->u.seq.count == 4 && ckpt_value_is_str(pid->u.seq.items[0], "module") ? pid->u.seq.items[1] : NULL;
}

int ckpt_scan_load_persistent(void *ctx, const struct ckpt_value *pid, const struct ckpt_value **out, struct ckpt_error *err)
{
	const struct ckpt_scan_walk *w = ctx;
	const struct ckpt_value *class = class_with_source(w, pid);

	(void)err;
	*out = class && class->kind == CKPT_GLOBAL ? class : NULL;
	return 0;
}

/* torch writes it for subclasses of Module alone, of which none is in the tables. */
static bool may_be_module(struct ckpt_scan_walk *w, const struct ckpt_value *class)
{
	const struct ckpt_scan_rule *rule = ckpt_scan_rule_of(class);

	return rule && rule->kind == CKPT_SCAN_OBJECT && !rule->call_runs_code && !ckpt_scan_is_no_class(w, class);
}

/* CLASS is what torch gives back in the place of the id, whatever it is. */
static void check_class_source(struct ckpt_scan_walk *w, const struct ckpt_value *class)
{
	if (!may_be_module(w, class))
		not_understood(w, "a persistent id of a class that is none of a module: torch gives back what stands there");
	ckpt_scan_find(
		w->s, CKPT_SCAN_NEEDS_OBJECTS, "source", ckpt_scan_at(w),
		"a class of a module, with the text of its source, which torch compares, and writes to a file if the class has dump_patches");
}

/* torch.package: ('reduce_package', [number,] function, arguments) */
static void check_package_call(struct ckpt_scan_walk *w, const struct ckpt_seq *id)
{
	if (id->count < 3) {
		not_understood(w, "a persistent id that torch.package does not write");
		return;
	}
	ckpt_scan_called(w, CKPT_CALL_REDUCE, id->items[id->count - 2], id->items[id->count - 1],
			 NULL);
	ckpt_scan_find(w->s, CKPT_SCAN_NEEDS_OBJECTS, "call", ckpt_scan_at(w), "a call that torch.package makes with itself as the first argument");
}

enum { TEXT_OF_KEY = 24 };

/* What torch keeps a storage by: a text, or a number, which is shown in BUFFER. */
static const char *text_of_key(const struct ckpt_value *key, char buffer[TEXT_OF_KEY], size_t *len)
{
	if (key->kind == CKPT_INT) {
		*len = (size_t)snprintf(buffer, TEXT_OF_KEY, "%lld", (long long)key->u.integer);
		return buffer;
	}
	*len = (size_t)key->u.bytes.len;
	return key->u.bytes.ptr;
}

/* Records of these names are numbers, for whoever loads the file. */
static void note_storage(struct ckpt_scan_walk *w, const struct ckpt_value *key)
{
	char buffer[TEXT_OF_KEY];
	size_t len;
	const char *text = text_of_key(key, buffer, &len), *copy = ckpt_arena_copy(w->s->arena, text, len);
	bool there;

	if (!copy || !ckpt_strmap_insert(w->s->storages, copy, len, key->kind, &there))
		w->s->no_memory = true;
}

/* "0", "12": as Python shows a number that is not negative */
static bool is_number(const struct ckpt_value *key)
{
	const char *text = key->u.bytes.ptr;
	uint64_t len = key->u.bytes.len, i = 0;

	while (i < len && ckpt_is_digit((unsigned char)text[i]))
		i++;
	return len && i == len && (len == 1 || *text != '0');
}

/* torch.load(encoding=...) makes of bytes of Python 2 what it is told, and finds the record by that; only streams were written so. */
static void check_key(struct ckpt_scan_walk *w, const struct ckpt_value *key)
{
	w->has_texts_as_keys |= key->kind == CKPT_STR;
	w->has_python2_keys |= key->kind == CKPT_PY2_STR;
	if (w->has_texts_as_keys && w->has_python2_keys)
		not_understood(w, "keys of storages as texts, and as bytes of Python 2, which are the same or not by the encoding that a loader is told");
	if (key->kind == CKPT_PY2_STR && (!ckpt_scan_is_of_one_encoding(key) || !(w->in->flags & CKPT_SCAN_NUMBERS_LATER)))
		not_understood(w, "a key of a storage as bytes of Python 2, which is another one by the encoding that a loader is told");
	if (w->s->in_package && key->kind != CKPT_INT && !is_number(key))
		not_understood(w, "a key of a storage in a torch.package that is no number as torch writes it: torch 1.10 takes int() of it");
}

/* What was said of a storage, or of a view of one, where it was mentioned first. */
struct said {
	const char *class;
	const struct said *whole; /* of what it is a view; NULL: of nothing */
	int64_t first, count; /* of items */
	bool is_on_meta;
};

static bool is_same(const struct said *a, const struct said *b)
{
	return !strcmp(a->class, b->class) && a->whole == b->whole && a->first == b->first && a->count == b->count && a->is_on_meta == b->is_on_meta;
}

/* What is kept of a pickle lives as long as that; a package's pickles share all. NULL: no memory. */
static const struct said *keep_said(struct ckpt_scan_walk *w, const char *key, size_t len, const struct said *said)
{
	struct ckpt_strmap *map = w->s->said_in_package ? w->s->said_in_package : &w->said;
	struct ckpt_arena *arena = map == &w->said ? w->m.arena : w->s->arena;
	struct said *kept = ckpt_arena_alloc(arena, sizeof(*kept));
	bool there;

	key = ckpt_arena_copy(arena, key, len);
	if (!kept || !key)
		return NULL;
	*kept = *said;
	kept->class = ckpt_arena_copy(arena, said->class, strlen(said->class) + 1);
	return kept->class && ckpt_strmap_insert(map, key, len, (uintptr_t)kept, &there) ? kept : NULL;
}

/* What was said under KEY first, whole storages and views alike: torch keeps both in one dict, and takes the first. */
static const struct said *first_said(struct ckpt_scan_walk *w, const struct ckpt_value *key, const struct said *said)
{
	char buffer[TEXT_OF_KEY];
	size_t len;
	const char *text = text_of_key(key, buffer, &len);
	const uint64_t *found = ckpt_strmap_find(w->s->said_in_package ? w->s->said_in_package : &w->said, text, len);
	const struct said *first = found ? (const struct said *)(uintptr_t)*found : keep_said(w, text, len, said);

	w->s->no_memory |= !first;
	if (!first || is_same(first, said))
		return first;
	/* torch 1.13 keeps the first, with or without numbers; 2.6 does not keep one without, and swaps the bytes of as many as the next is said to have */
	if (first->is_on_meta != said->is_on_meta)
		ckpt_scan_find(w->s, CKPT_SCAN_INCONSISTENT, "storage", ckpt_scan_at(w), "a storage that is on the device meta, without numbers, and elsewhere");
	else if (said->is_on_meta)
		ckpt_scan_find(w->s, CKPT_SCAN_INCONSISTENT, "storage", ckpt_scan_at(w), "a storage on the device meta that is said to be of two classes, or lengths");
	else if (!first->count != !said->count)
		ckpt_scan_find(w->s, CKPT_SCAN_INCONSISTENT, "storage", ckpt_scan_at(w), "a storage that is said to be empty, and not to be");
	w->has_two_classes = true;
	/* torch.package gives the bytes of the first mention the class of each */
	if (w->s->in_package)
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "storage", ckpt_scan_at(w), "a storage of a package that is said to be of two classes, or lengths");
	else
		ckpt_scan_find(w->s, CKPT_SCAN_PLAIN, "note", ckpt_scan_at(w), "a storage that is said to be of two classes, or lengths");
	return first;
}

/*
 * torch makes one storage for a key, at its first mention. Streams may have views of it with
 * another class, which 1.7 does not know.
 */
static void compare_storage(struct ckpt_scan_walk *w, const struct ckpt_seq *id)
{
	struct said said = { .class = id->items[1]->kind == CKPT_GLOBAL ? id->items[1]->u.global->name : "", .count = id->items[4]->u.integer, .is_on_meta = ckpt_value_is_str(id->items[3], "meta") };
	const struct ckpt_value *const *view = id->count == 6 && id->items[5]->kind == CKPT_TUPLE ? id->items[5]->u.seq.items : NULL;

	w->has_quantized |= ckpt_dtype_is_quantized(ckpt_dtype_of_storage(said.class));
	said.whole = first_said(w, id->items[2], &said);
	if (!view || !said.whole) /* (key, first item, number of items) */
		return;
	said.first = view[1]->u.integer;
	said.count = view[2]->u.integer;
	first_said(w, view[0], &said);
}

void ckpt_scan_persistent(struct ckpt_scan_walk *w, const struct ckpt_value *pid)
{
	const struct ckpt_seq *id = pid && pid->kind == CKPT_TUPLE ? &pid->u.seq : NULL;
	struct ckpt_scan_storage storage;

	if (!(w->in->flags & CKPT_SCAN_STORAGES))
		not_understood(w, "a persistent id, which only a program of its own can load");
	else if (w->in->flags & CKPT_SCAN_TAR_IDS && (!pid || ckpt_scan_is_text(pid)))
		return; /* the number of a tensor */
	else if (id && class_with_source(w, pid))
		check_class_source(w, class_with_source(w, pid));
	else if (id && id->count && ckpt_value_is_str(id->items[0], "reduce_package"))
		check_package_call(w, id);
	else if (!id || !is_storage(id))
		not_understood(w, "a persistent id that torch does not write");
	else {
		if (w->s->is_unpacked)
			not_understood(w, "a storage of an unpacked torch.package, of which other pickles may say something else, and whose file may have another size");
		compare_storage(w, id);
		check_key(w, id->items[2]);
		if (!ckpt_scan_is_of_one_encoding(id->items[3]))
			not_understood(w, "a device as bytes of Python 2, which is another one by the encoding that a loader is told");
		if (id->count == 6 && id->items[5]->kind == CKPT_TUPLE) /* a view, which is kept by its own */
			check_key(w, id->items[5]->u.seq.items[0]);
		if (id->count > 4 && (ckpt_value_is_str(id->items[3], "meta") || (id->items[4]->kind == CKPT_INT && !id->items[4]->u.integer)))
			ckpt_scan_storage_named(w, ckpt_scan_read_storage_id(pid, &storage) ? storage.nbytes : UINT64_MAX);
		if (w->s->storages)
			note_storage(w, id->items[2]);
	}
}

/* ---- pickles in pickles ---- */

/* A text of which each character is a byte, as protocol 2 has bytes. OWN: to be freed, or NULL. */
static bool bytes_of(struct ckpt_scan_walk *w, const struct ckpt_value *v, const uint8_t **out,
		     uint64_t *len, uint8_t **own)
{
	const struct ckpt_value *text;

	*own = NULL;
	if (v->kind == CKPT_BYTES || v->kind == CKPT_PY2_STR || v->kind == CKPT_BYTEARRAY) {
		*out = (const uint8_t *)v->u.bytes.ptr;
		*len = v->u.bytes.len;
		return true;
	}
	if (!ckpt_value_is_call_of(v, "_codecs", "encode") || v->u.call->args->kind != CKPT_TUPLE ||
	    !v->u.call->args->u.seq.count)
		return false;
	text = v->u.call->args->u.seq.items[0];
	if (text->kind != CKPT_STR)
		return false;
	*out = *own = malloc((size_t)text->u.bytes.len + 1);
	w->s->no_memory |= !*own;
	return *own && ckpt_latin1_narrow(text->u.bytes.ptr, text->u.bytes.len, *own, len);
}

/* LEN bytes that V stands for are a file of torch. */
static void look_into_bytes(struct ckpt_scan_walk *w, const struct ckpt_value *v, const uint8_t *bytes, uint64_t len)
{
	struct ckpt_scanner *s = w->s;
	struct ckpt_source *source;
	const char *before = s->where;
	bool weights = s->weights;
	char place[64];

	if (ckpt_scan_is_cancelled(s)) {
		s->rc = CKPT_E_CANCELLED;
		return;
	}
	if (s->depth >= MOST_DEPTH || len > s->nested_budget) {
		not_understood(w, "files in files, more than are looked into");
		return;
	}
	s->nested_budget -= len;
	snprintf(place, sizeof(place), "bytes@0x%llx", (unsigned long long)ckpt_scan_at(w));
	ckpt_scan_enter(s, place, strlen(place));
	s->depth++;
	s->weights = false;
	s->result = 0;
	if (ckpt_source_from_memory(bytes, (size_t)len, &source, NULL) == 0) {
		if (!ckpt_scan_source(s, source, CKPT_SCAN_PART))
			ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET,
				       "is given to torch.load, and is no file of torch");
		ckpt_source_unref(source);
	} else {
		s->no_memory = true;
	}
	if (s->result == CKPT_TYPE_STORAGE) {
		const void *key = ckpt_arena_copy(w->m.arena, &v, sizeof(v)), *storage = ckpt_arena_copy(w->m.arena, &s->result_storage, sizeof(s->result_storage));
		bool there;

		ckpt_scan_mark(v, CKPT_SCAN_HOLDS_STORAGE);
		s->no_memory |= !key || !storage || !ckpt_strmap_insert(&w->sizes, key, sizeof(v), (uintptr_t)storage, &there);
	} else {
		/* torch calls it for storages: how deep others are, what they equal as a key, is not known here */
		not_understood(w, "loads a file of torch whose object is no storage");
	}
	s->weights = weights;
	s->depth--;
	s->where = before;
}

void ckpt_scan_nested_bytes(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const uint8_t *bytes;
	uint8_t *own;
	uint64_t len;

	if (v == w->nested)
		return; /* the same once more */
	if (bytes_of(w, v, &bytes, &len, &own)) {
		w->nested = v;
		look_into_bytes(w, v, bytes, len);
	} else {
		not_understood(w, "loads a file of torch out of bytes that are not in the pickle");
	}
	free(own);
}
