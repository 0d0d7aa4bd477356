/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of 'ckpt rename --map': old and new names of keys, in two columns or as a JSON object.
 *
 * What must stay true: a name is never cut, changed or left out in silence. Lines that are not two names, and names
 * that are there twice, are errors with their line.
 */
#include "name_map.h"
#include "edit.h"
#include "grow.h"
#include "json.h"
#include "pipes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MAP_NBYTES = 256 << 20, MOST_HINTS = 8 };

static int fail_map(struct ckpt_error *err, const char *path, enum ckpt_status status,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static int fail_map(struct ckpt_error *err, const char *path, enum ckpt_status status,
		    const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	set_error(err, status, "%s", text);
	ckpt_escape(err->path, sizeof(err->path), path, strlen(path));
	return status;
}

/* "line 3: ", or "" where lines are not counted */
static const char *line_text(const struct name_map *map, size_t i, char buf[40])
{
	buf[0] = '\0';
	if (map->lines)
		snprintf(buf, 40, "line %zu: ", map->lines[i]);
	return buf;
}

/* ---- reading ---- */

static int read_text(const char *path, struct name_map *map, size_t *len, struct ckpt_error *err)
{
	FILE *in = !strcmp(path, "-") ? stdin : fopen(path, "rb");
	size_t cap = 0;
	int rc = 0;

	*len = 0;
	if (!in)
		return fail_map(err, path, CKPT_E_IO, "%s", errno_text(errno));
	if (in == stdin && is_standard_input_taken())
		return fail_map(err, path, CKPT_E_ARG, "standard input is IN, and cannot be the map, too");
	do {
		if (cap - *len < 2) {
			cap = cap ? 2 * cap : 1 << 16;
			map->text = realloc(map->text, cap);
			if (!map->text)
				no_memory();
		}
		*len += fread(map->text + *len, 1, cap - *len - 1, in);
	} while (!feof(in) && !ferror(in) && *len <= MOST_MAP_NBYTES);
	if (ferror(in))
		rc = fail_map(err, path, CKPT_E_IO, "%s", errno_text(errno));
	else if (*len > MOST_MAP_NBYTES)
		rc = fail_map(err, path, CKPT_E_LIMIT,
			      "is larger than %d MiB, wanted a map of names",
			      MOST_MAP_NBYTES >> 20);
	map->text[*len] = '\0';
	if (in != stdin)
		fclose(in);
	return rc;
}

static void add_pair(struct name_map *map, const char *from, const char *to, size_t line)
{
	if (!(map->count & (map->count - 1))) { /* room is a power of two */
		size_t room = map->count ? 2 * map->count : 1;

		map->pairs = realloc(map->pairs, room * sizeof(*map->pairs));
		if (line)
			map->lines = realloc(map->lines, room * sizeof(*map->lines));
		if (!map->pairs || (line && !map->lines))
			no_memory();
	}
	if (line)
		map->lines[map->count] = line;
	map->pairs[map->count++] = (struct ckpt_name_pair){ .from = from, .to = to };
}

/* Two names, with a tab between them, or spaces if there is no tab. LINE is cut up. */
static bool split_line(char *line, char **from, char **to)
{
	char *tab = strchr(line, '\t');

	*from = line;
	if (tab) {
		*tab = '\0';
		*to = tab + 1;
		return **from && **to && !strchr(*to, '\t');
	}
	*from += strspn(line, " ");
	*to = *from + strcspn(*from, " ");
	if (!**to)
		return false;
	*(*to)++ = '\0';
	*to += strspn(*to, " ");
	return **to && !(*to)[strcspn(*to, " ")];
}

static int parse_columns(const char *path, struct name_map *map, struct ckpt_error *err)
{
	size_t number = 0;
	char *from, *to;

	for (char *line = map->text, *next; line; line = next) {
		size_t n;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		n = strlen(line);
		while (n && (line[n - 1] == '\r' || (line[n - 1] == ' ' && !strchr(line, '\t'))))
			line[--n] = '\0';
		if (!n || line[0] == '#')
			continue;
		if (!split_line(line, &from, &to))
			return fail_map(
				err, path, CKPT_E_FORMAT,
				"line %zu: wanted an old and a new name, with a tab or spaces between them",
				number);
		add_pair(map, from, to, number);
	}
	return 0;
}

static int parse_json(const char *path, struct name_map *map, const char *text,
		      struct ckpt_error *err)
{
	json_error_t wrong;
	const char *from;
	char name[160];
	json_t *to;

	map->json = json_loads(text, JSON_REJECT_DUPLICATES, &wrong);
	if (!map->json)
		return fail_map(err, path, CKPT_E_FORMAT, "line %d: %s", wrong.line,
				ckpt_escape(name, sizeof(name), wrong.text, strlen(wrong.text)));
	json_object_foreach(map->json, from, to)
	{
		if (!json_is_string(to) || !*json_string_value(to) || !*from)
			return fail_map(err, path, CKPT_E_FORMAT,
					"'%s' has no new name, wanted a text",
					ckpt_escape(name, sizeof(name), from, strlen(from)));
		add_pair(map, from, json_string_value(to), 0);
	}
	return 0;
}

/* ---- names that are there twice ---- */

static int by_from(const void *a, const void *b)
{
	const struct ckpt_name_pair *x = *(struct ckpt_name_pair *const *)a,
				    *y = *(struct ckpt_name_pair *const *)b;
	int order = strcmp(x->from, y->from);

	return order ? order : x < y ? -1 : 1;
}

static int by_to(const void *a, const void *b)
{
	const struct ckpt_name_pair *x = *(struct ckpt_name_pair *const *)a,
				    *y = *(struct ckpt_name_pair *const *)b;
	int order = strcmp(x->to, y->to);

	return order ? order : x < y ? -1 : 1;
}

static int check_twice(const char *path, const struct name_map *map, struct ckpt_error *err)
{
	struct ckpt_name_pair **sorted = calloc(map->count + 1, sizeof(*sorted));
	char line[40], one[120], other[120], name[120];
	int rc = 0;

	if (!sorted)
		no_memory();
	for (size_t i = 0; i < map->count; i++)
		sorted[i] = &map->pairs[i];
	qsort(sorted, map->count, sizeof(struct ckpt_name_pair *), by_from);
	for (size_t i = 1; rc == 0 && i < map->count; i++)
		if (!strcmp(sorted[i - 1]->from, sorted[i]->from))
			rc = fail_map(err, path, CKPT_E_FORMAT, "%s'%s' is in the map twice",
				      line_text(map, (size_t)(sorted[i] - map->pairs), line),
				      ckpt_escape(name, sizeof(name), sorted[i]->from,
						  strlen(sorted[i]->from)));
	qsort(sorted, map->count, sizeof(struct ckpt_name_pair *), by_to);
	for (size_t i = 1; rc == 0 && i < map->count; i++)
		if (!strcmp(sorted[i - 1]->to, sorted[i]->to))
			rc = fail_map(err, path, CKPT_E_FORMAT,
				      "%s'%s' and '%s' would both be named '%s'",
				      line_text(map, (size_t)(sorted[i] - map->pairs), line),
				      ckpt_escape(one, sizeof(one), sorted[i - 1]->from,
						  strlen(sorted[i - 1]->from)),
				      ckpt_escape(other, sizeof(other), sorted[i]->from,
						  strlen(sorted[i]->from)),
				      ckpt_escape(name, sizeof(name), sorted[i]->to,
						  strlen(sorted[i]->to)));
	free(sorted);
	return rc;
}

static int read_map(const char *path, struct name_map *map, struct ckpt_error *err)
{
	static const char bom[] = "\xef\xbb\xbf";
	const char *text;
	size_t len;
	int rc;

	*map = (struct name_map){ 0 };
	rc = read_text(path, map, &len, err);
	if (rc < 0)
		return rc;
	if (!strncmp(map->text, bom, 3))
		memmove(map->text, map->text + 3, (len -= 3) + 1);
	if (strlen(map->text) != len)
		return fail_map(err, path, CKPT_E_FORMAT,
				"has zero bytes, wanted a map of names as text");
	text = map->text + strspn(map->text, " \t\r\n");
	rc = *text == '{' ? parse_json(path, map, text, err) : parse_columns(path, map, err);
	if (rc == 0 && !map->count)
		rc = fail_map(err, path, CKPT_E_FORMAT,
			      "has no names, wanted two columns or a JSON object");
	return rc == 0 ? check_twice(path, map, err) : rc;
}

static void clear_map(struct name_map *map)
{
	json_decref(map->json);
	free(map->pairs);
	free(map->lines);
	free(map->text);
}

const struct name_map *name_map_get(const char *path, struct ckpt_error *err)
{
	static struct kept {
		const char *path;
		struct name_map map;
	} **kept;
	static size_t count, cap;

	for (size_t i = 0; i < count; i++)
		if (!strcmp(kept[i]->path, path))
			return &kept[i]->map;
	kept = grow_array(kept, count, &cap, sizeof(*kept));
	if (!kept || !(kept[count] = calloc(1, sizeof(*kept[count]))))
		no_memory();
	kept[count]->path = path;
	if (read_map(path, &kept[count]->map, err) == 0)
		return &kept[count++]->map;
	clear_map(&kept[count]->map);
	free(kept[count]);
	return NULL;
}

/* A line that begins with NAME would be read as a comment, or the first as JSON. */
static bool needs_json(const char *name)
{
	return *name == '#' || *name == '{';
}

int name_map_print_inverse(const char *path, const struct name_map *map, struct ckpt_error *err)
{
	json_t *o = map->json ? json_object() : NULL;
	char name[160];

	for (size_t i = 0; i < map->count && !map->json; i++)
		if (needs_json(map->pairs[i].to))
			return fail_map(err, path, CKPT_E_UNSUPPORTED,
					"line %zu: '%s' cannot begin a line of a map; write the map as JSON", map->lines[i],
					ckpt_escape(name, sizeof(name), map->pairs[i].to,
						    strlen(map->pairs[i].to)));
	for (size_t i = 0; i < map->count; i++)
		if (!map->json)
			printf("%s\t%s\n", map->pairs[i].to, map->pairs[i].from);
		else if (json_object_set_new(o, map->pairs[i].to, json_string(map->pairs[i].from)) < 0)
			no_memory();
	if (o) {
		json_dumpf(o, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(o);
	return 0;
}

/* ---- names that are nearly right ---- */

enum { MOST_DEPTH = 64 };

struct key_list {
	const char **names; /* each owned */
	size_t count, cap;
	char *parents[MOST_DEPTH]; /* by depth: the container that the walk is in */
};

static char *copy_text(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		no_memory();
	return copy;
}

/* The name of a tensor, without that of the mapping that it is in, is its key. */
static int collect_key(void *ctx, const struct ckpt_item *item)
{
	struct key_list *k = ctx;
	const char *parent = item->depth ? k->parents[item->depth - 1] : "";

	if (item->kind == CKPT_ITEM_TENSOR) {
		k->names = grow_array(k->names, k->count + 1, &k->cap, sizeof(*k->names));
		if (!k->names)
			no_memory();
		k->names[k->count++] = copy_text(item->name + (*parent ? strlen(parent) + 1 : 0));
		k->names[k->count] = NULL;
	}
	if (item->kind != CKPT_ITEM_CONTAINER || item->depth >= MOST_DEPTH || item->seen)
		return 0;
	free(k->parents[item->depth]);
	k->parents[item->depth] = copy_text(item->name);
	return 1;
}

/* "model.fc.weight" of "fc.weight" */
static bool ends_in(const char *whole, const char *part)
{
	size_t len = strlen(whole), of = strlen(part);

	return len > of && whole[len - of - 1] == '.' && !strcmp(whole + len - of, part);
}

static void hint_one(const struct key_list *k, const char *name)
{
	const char *near = NULL;
	uint64_t below = 0;
	char one[200], other[200];
	size_t len = strlen(name);

	for (size_t i = 0; i < k->count; i++) {
		if (!near && (ends_in(name, k->names[i]) || ends_in(k->names[i], name)))
			near = k->names[i];
		below += !strncmp(k->names[i], name, len) && k->names[i][len] == '.';
	}
	if (!near && k->count)
		near = suggest(name, k->names);
	ckpt_escape(one, sizeof(one), name, len);
	if (near)
		hint("'%s': did you mean '%s'?", one,
		     ckpt_escape(other, sizeof(other), near, strlen(near)));
	else if (below)
		hint("'%s' is the beginning of %" PRIu64
		     " key%s; a map has whole keys, and -e renames parts",
		     one, below, plural(below));
	else
		hint("'%s': no key is nearly named so", one);
}

void name_map_hint_absent(const struct name_map *map, const struct ckpt_model *model)
{
	struct key_list k = { 0 };
	size_t absent = 0;

	ckpt_walk(model, collect_key, &k, NULL);
	for (size_t i = 0; i < map->count; i++)
		if (!map->pairs[i].renamed && absent++ < MOST_HINTS)
			hint_one(&k, map->pairs[i].from);
	if (absent > MOST_HINTS)
		hint("and %zu more", absent - MOST_HINTS);
	for (size_t i = 0; i < k.count; i++)
		free((char *)k.names[i]);
	for (size_t i = 0; i < MOST_DEPTH; i++)
		free(k.parents[i]);
	free(k.names);
}
