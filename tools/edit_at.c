/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"

#include <stdlib.h>
#include <string.h>

/* Check names that the user gives, and suggest what was probably meant. */

enum { MOST_NAMES = 64 };

struct names {
	const char *text[MOST_NAMES + 1];
	size_t count;
};

/* An attribute, not an entry: edits follow it, --at cannot name it. */
static bool is_metadata(const char *name)
{
	return !strcmp(name, "_metadata") || ends_with(name, "._metadata");
}

static int collect_name(void *ctx, const struct ckpt_item *item)
{
	struct names *n = ctx;

	if (is_metadata(item->name) || item->kind != CKPT_ITEM_CONTAINER)
		return 0;
	if (item->mapping && item->depth > 0 && n->count < MOST_NAMES) {
		n->text[n->count] = strdup(item->name);
		n->count += n->text[n->count] != NULL;
	}
	return item->depth < 2;
}

void hint_mapping_name(const struct ckpt_model *model, const char *name)
{
	struct names n = { 0 };
	const char *near;
	char shown[160];

	ckpt_walk(model, collect_name, &n, NULL);
	n.text[n.count] = NULL;
	near = suggest(name, n.text);
	if (near)
		hint("did you mean '%s'?", ckpt_escape(shown, sizeof(shown), near, strlen(near)));
	else if (n.count)
		hint("there is '%s'; 'ckpt info' lists the rest",
		     ckpt_escape(shown, sizeof(shown), n.text[0], strlen(n.text[0])));
	else
		hint("the root is the only mapping in it");
	for (size_t i = 0; i < n.count; i++)
		free((char *)n.text[i]);
}

/* "a tensor", "a list"; "" for a mapping */
static int note_type(void *ctx, const struct ckpt_item *item)
{
	char *what = ctx;
	const char *type = item->kind == CKPT_ITEM_TENSOR ? "tensor" : item->type;

	if (!item->mapping)
		snprintf(what, 100, "%s %.80s", strchr("aeiouAEIOU", type[0]) ? "an" : "a", type);
	return 0;
}

static int check_one(const struct ckpt_model *model, const char *in, const char *at)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	char what[100] = "", shown[160], file[320];
	int rc = ckpt_find(model, at, note_type, what, &err);

	if (rc == 0 && !what[0])
		return EXIT_FINE;
	ckpt_escape(file, sizeof(file), in, strlen(in));
	ckpt_escape(shown, sizeof(shown), at, strlen(at));
	if (rc == 0) {
		complain("%s: '%s' is %s, not a mapping", file, shown, what);
		hint("--at wants a mapping: a dict, a state dict");
	} else if (rc == CKPT_E_NOTFOUND) {
		complain("%s: no mapping is named '%s'", file, shown);
		hint_mapping_name(model, at);
	} else {
		return fail(&err);
	}
	return EXIT_ERROR;
}

int check_at(const struct ckpt_model *model, const char *in, const struct ckpt_key_options *options)
{
	int code = EXIT_FINE;

	for (size_t i = 0; options && i < options->at_count; i++) {
		int one = check_one(model, in, options->at[i]);

		code = one != EXIT_FINE ? one : code;
	}
	return code;
}
