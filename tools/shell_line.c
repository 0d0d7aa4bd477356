/* SPDX-License-Identifier: Apache-2.0 */
#include "shell_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shell_add(struct shell_line *l, const char *text)
{
	l->len += (size_t)snprintf(l->text + l->len, sizeof(l->text) - l->len, "%s", text);
	if (l->len >= sizeof(l->text))
		l->len = sizeof(l->text) - 1;
}

void shell_add_word(struct shell_line *l, const char *word)
{
	char *quoted = shell_word(word);

	shell_add(l, " ");
	shell_add(l, quoted);
	free(quoted);
}

void shell_add_path(struct shell_line *l, const char *path)
{
	struct shell_line dotted = { .len = 0 };

	if (!strcmp(path, "/dev/stdin")) /* which the user called '-' */
		path = "-";
	if (*path != '-' || !path[1]) {
		shell_add_word(l, path);
		return;
	}
	shell_add(&dotted, "./");
	shell_add(&dotted, path);
	shell_add_word(l, dotted.text);
}

bool shell_add_steps(struct shell_line *l, const struct edit_step *steps, size_t count, bool devices)
{
	struct shell_line text = { .len = 0 };

	for (size_t i = 0; i < count; i++) {
		const struct edit_step *step = &steps[i];
		const struct edit_kind *kind = step->same_as ? step->same_as : step->kind;

		if (!devices && (kind == &kind_remap || kind == &kind_remap_all))
			continue;
		if (!is_chain_kind(kind) ||
		    (step->keys && (step->keys->flags || step->keys->at_count)) ||
		    (step->remap && step->remap->flags) ||
		    (step->cast && (step->cast->flags & ~CKPT_CAST_ALL ||
				    step->cast->except_count || step->cast->only_count)))
			return false;
		for (size_t k = 0; k < (step->args.count ? step->args.count : 1); k++) {
			shell_add(&text, " --");
			shell_add(&text, kind->name);
			if (kind == &kind_cast && step->cast && step->cast->flags & CKPT_CAST_ALL)
				shell_add(&text, "-all");
			if (step->args.count)
				shell_add_word(&text, step->args.items[k]);
		}
	}
	for (size_t i = 0; i < cast_only.count; i++) {
		shell_add(&text, " --cast-only");
		shell_add_word(&text, cast_only.items[i]);
	}
	shell_add(l, text.text);
	return text.len < sizeof(text.text) - 1;
}
