/* SPDX-License-Identifier: Apache-2.0 */
/*
 * '--set' and '--set-json' of 'ckpt edit' and 'ckpt convert': one value becomes another one.
 *
 * The library decides what text is a value of the kind that is there; here are the syntax of NAME=VALUE
 * and the hints for a name that is not there, or a value of another kind.
 */
#include "edit.h"
#include "grow.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 20000 };

const char *set_value_of(const char *text)
{
	char quote = 0;

	if (*text != '[') {
		text = strchr(text, '=');
		return text ? text + 1 : NULL;
	}
	for (; *text; text++) { /* the exact form may have one in a key: ["a=b"]=0 */
		if (quote && *text == '\\' && text[1])
			text++;
		else if (quote)
			quote = *text == quote ? 0 : quote;
		else if (*text == '"' || *text == '\'')
			quote = *text;
		else if (*text == '=')
			return text + 1;
	}
	return NULL;
}

/* To be freed. */
static char *name_in(const char *text)
{
	char *name = strndup(text, (size_t)(set_value_of(text) - text) - 1);

	if (!name)
		no_memory();
	return name;
}

static int set(const struct ckpt_model *in, const struct edit_step *step, unsigned flags,
	       struct ckpt_model **out, struct ckpt_edit_report *report, struct ckpt_error *err)
{
	const char *text = step->args.items[0];
	char *name = name_in(text);
	int rc = ckpt_set(in, name, set_value_of(text), flags, out, report, err);

	free(name);
	return rc;
}

static int set_as_it_is(const struct ckpt_model *in, const struct edit_step *step,
			struct ckpt_model **out, struct ckpt_edit_report *report,
			struct ckpt_error *err)
{
	return set(in, step, 0, out, report, err);
}

static int set_as_json(const struct ckpt_model *in, const struct edit_step *step,
		       struct ckpt_model **out, struct ckpt_edit_report *report,
		       struct ckpt_error *err)
{
	return set(in, step, CKPT_SET_JSON, out, report, err);
}

static const char *has_that_value(const struct ckpt_model *in, const struct edit_step *step,
				  char why[MOST_REASON])
{
	char *name = name_in(step->args.items[0]), shown[160];

	(void)in;
	snprintf(why, MOST_REASON, "'%s' has that value already",
		 ckpt_escape(shown, sizeof(shown), name, strlen(name)));
	free(name);
	return HINT_IF_PRESENT;
}

struct name_list {
	const char **names;
	size_t count, cap;
};

static int collect_name(void *ctx, const struct ckpt_item *item)
{
	struct name_list *list = ctx;

	if (item->kind == CKPT_ITEM_VALUE && list->count < MOST_NAMES) {
		list->names =
			grow_array(list->names, list->count + 1, &list->cap, sizeof(*list->names));
		list->names = list->names ? list->names : (no_memory(), NULL);
		list->names[list->count] = strdup(item->name);
		if (!list->names[list->count++])
			no_memory();
		list->names[list->count] = NULL;
	}
	return item->kind == CKPT_ITEM_CONTAINER;
}

static void hint_name(const struct ckpt_model *in, const char *name)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	struct name_list list = { 0 };
	const char *near = NULL;
	char shown[200];

	ckpt_walk(in, collect_name, &list, NULL);
	ckpt_file_get(in, &info);
	for (size_t i = 0; i < list.count && !near; i++) { /* "epoch" of "trainer.epoch" */
		size_t len = strlen(list.names[i]), of = strlen(name);

		if (len > of && list.names[i][len - of - 1] == '.' &&
		    !strcmp(list.names[i] + len - of, name))
			near = list.names[i];
	}
	if (!near && list.count)
		near = suggest(name, list.names);
	if (near)
		hint("did you mean '%s'?", ckpt_escape(shown, sizeof(shown), near, strlen(near)));
	else if (info.format_code == CKPT_FORMAT_SAFETENSORS)
		hint("a safetensors file holds nothing but tensors");
	else
		hint("--set sets what is there; 'ckpt info' lists it, 'ckpt cat IN NAME' prints it");
	for (size_t i = 0; i < list.count; i++)
		free((char *)list.names[i]);
	free(list.names);
}

static int note_scalar(void *ctx, const struct ckpt_item *item)
{
	*(bool *)ctx = !strncmp(item->type, "numpy.", 6);
	return 0;
}

static void hint_failed(const struct ckpt_model *in, const struct edit_step *step,
			const struct ckpt_error *err)
{
	char *name = name_in(step->args.items[0]);
	bool is_scalar = false;

	if (err->status == CKPT_E_UNSUPPORTED)
		ckpt_find(in, name, note_scalar, &is_scalar, NULL);
	if (err->status == CKPT_E_NOTFOUND)
		hint_name(in, name);
	else if (step->kind == &kind_set && (err->status == CKPT_E_ARG || is_scalar))
		hint("--set-json NAME=JSON gives it another type: 3, 0.5, \"text\", true, false, null");
	free(name);
}

const struct edit_kind kind_set = {
	.name = "set",
	.apply = set_as_it_is,
	.why_nothing = has_that_value,
	.hint_failed = hint_failed,
};
const struct edit_kind kind_set_json = {
	.name = "set-json",
	.apply = set_as_json,
	.why_nothing = has_that_value,
	.hint_failed = hint_failed,
};
