/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operands of a command stand for: inputs, the checkpoints in folders, patterns.
 *
 * What must stay true: all inputs are known before the first is taken, so that no output becomes
 * one. Two names are one file if device and inode are equal, so that an edit takes no file twice.
 */
#include "many_inputs.h"

#include "json.h"
#include "many_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which inputs ---- */

static struct input *add_input(struct inputs *r, const char *path)
{
	size_t len = strlen(path);
	struct input *in;

	if (r->count == r->room) {
		r->room = r->room ? 2 * r->room : 64;
		r->items = realloc(r->items, r->room * sizeof(*r->items));
		if (!r->items)
			no_memory();
	}
	in = &r->items[r->count++];
	*in = (struct input){ .path = strdup(path), .shown = malloc(4 * len + 8) };
	in->out = in->err = in->life = -1;
	if (!in->path || !in->shown)
		no_memory();
	ckpt_escape(in->shown, 4 * len + 8, path, len);
	return in;
}

static int add_found(void *ctx, const char *path, enum ckpt_found found,
		     const struct ckpt_error *why)
{
	struct inputs *r = ctx;
	struct input *in = add_input(r, path);
	char text[1200];
	struct stat st;

	in->skipped = found == CKPT_FOUND_OTHER ||
		      (found == CKPT_FOUND_CHECKPOINT && r->directories_only &&
		       stat(path, &st) == 0 && !S_ISDIR(st.st_mode));
	r->skipped += in->skipped;
	if (!why)
		return 0;
	in->error = strdup(ckpt_error_format(why, text, sizeof(text)));
	if (!in->error)
		no_memory();
	return 0;
}

static void remove_from(struct inputs *r, size_t first)
{
	for (size_t i = first; i < r->count; i++) {
		r->skipped -= r->items[i].skipped;
		free(r->items[i].path);
		free(r->items[i].shown);
		free(r->items[i].error);
	}
	r->count = first;
}

void inputs_clear(struct inputs *r)
{
	remove_from(r, 0);
	free(r->items);
}

int inputs_add(struct inputs *r, const char *path)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	size_t first = r->count, skipped = r->skipped;

	if (ckpt_find_checkpoints(path, add_found, r, &err) < 0)
		return fail(&err);
	if (r->count - first == r->skipped - skipped) {
		remove_from(r, first);
		add_input(r, path);
	}
	return EXIT_FINE;
}

/* ---- inputs that are one ---- */

struct identity {
	dev_t device;
	ino_t number;
	bool is_link; /* an edit refuses it, and takes the file under its own name */
	size_t input;
};

static int by_identity(const void *a, const void *b)
{
	const struct identity *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	if (x->is_link != y->is_link)
		return x->is_link - y->is_link;
	return (x->input > y->input) - (x->input < y->input);
}

static int by_file(const void *a, const void *b)
{
	const struct identity *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static bool identify(const char *path, struct identity *out)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	out->device = st.st_dev;
	out->number = st.st_ino;
	out->is_link = lstat(path, &st) < 0 || S_ISLNK(st.st_mode);
	return true;
}

/* The input that is the folder that PATH is in; NULL: none. What is deeper is no part of it. */
static const struct input *find_around(const struct inputs *r, const struct identity *ids,
				       size_t count, const char *path)
{
	char *real = realpath(path, NULL), *slash = real ? strrchr(real, '/') : NULL;
	const struct identity *hit = NULL;
	struct identity id;

	if (slash && slash != real) {
		*slash = '\0';
		if (identify(real, &id))
			hit = bsearch(&id, ids, count, sizeof(*ids), by_file);
	}
	free(real);
	while (hit && hit > ids && !by_file(hit - 1, hit))
		hit--; /* to the first of its names */
	return hit ? &r->items[hit->input] : NULL;
}

void inputs_find_same(struct inputs *r)
{
	struct identity *ids = calloc(r->count + 1, sizeof(*ids));
	size_t count = 0;

	if (!ids)
		no_memory();
	for (size_t i = 0; i < r->count; i++) {
		ids[count].input = i;
		count += !r->items[i].skipped && !r->items[i].error &&
			 identify(r->items[i].path, &ids[count]);
	}
	qsort(ids, count, sizeof(*ids), by_identity);
	for (size_t i = 0; i < count; i++) {
		struct input *in = &r->items[ids[i].input];

		if (i && !by_file(&ids[i - 1], &ids[i])) {
			const struct input *before = &r->items[ids[i - 1].input];

			in->same = before->same ? before->same : before;
		} else {
			in->same = find_around(r, ids, count, in->path);
			in->is_part = in->same != NULL;
		}
	}
	free(ids);
}

/* ---- inputs and patterns ---- */

static bool is_there(const char *path)
{
	const char *inner = strstr(path, "::");
	char *archive;
	bool is;

	if (access(path, F_OK) == 0 || !inner)
		return access(path, F_OK) == 0;
	archive = strndup(path, (size_t)(inner - path));
	if (!archive)
		no_memory();
	is = access(archive, F_OK) == 0;
	free(archive);
	return is;
}

static bool is_named_like_a_file(const char *word)
{
	static const char *const ends[] = { ".pt", ".pth", ".ckpt", ".bin", ".safetensors" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends_with(word, ends[i]))
			return true;
	return false;
}

static int do_nothing(void *ctx, const struct ckpt_item *item)
{
	(void)ctx;
	(void)item;
	return 0;
}

/* WORD is there, and may have been meant as the name of a value in IN. */
static void note_doubt(const char *in, const char *word)
{
	struct ckpt_model *model;
	char shown[400];

	if (strchr(word, '/') || is_named_like_a_file(word) ||
	    ckpt_open_with(in, CKPT_OPEN_BRIEF, &model, NULL) < 0)
		return;
	if (ckpt_find(model, word, do_nothing, NULL, NULL) == 0)
		complain(
			"note: '%s' is a file here and a name in the checkpoint, and taken as the file; "
			"-m takes it as a pattern",
			ckpt_escape(shown, sizeof(shown), word, strlen(word)));
	ckpt_close(model);
}

static bool patterns_by_option;

size_t separate_patterns(char **operands, size_t count, struct str_list *patterns)
{
	size_t inputs = 1;

	patterns_by_option = patterns->count > 0;
	if (patterns_by_option)
		return count;
	patterns->items = calloc(count + 1, sizeof(*patterns->items));
	if (!patterns->items)
		no_memory();
	for (size_t i = 1; i < count; i++)
		if (is_there(operands[i])) {
			note_doubt(operands[0], operands[i]);
			operands[inputs++] = operands[i];
		} else {
			patterns->items[patterns->count++] = operands[i];
		}
	return inputs;
}

void hint_no_file(const char *pattern)
{
	char shown[400];

	if (!patterns_by_option && is_named_like_a_file(pattern))
		hint("there is no file '%s', so it was taken as a PATTERN",
		     ckpt_escape(shown, sizeof(shown), pattern, strlen(pattern)));
}
