/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"
#include "json.h"

#include <inttypes.h>
#include <string.h>

/* What wrappers of modules have put into names, and what is left of it after a prefix is off. */

enum { MOST_WRAPPERS = 16 };

struct wrapper_list {
	struct ckpt_wrapper_count items[MOST_WRAPPERS];
	size_t count;
};

static int add_wrapper(void *ctx, const struct ckpt_wrapper_count *count)
{
	struct wrapper_list *list = ctx;

	if (list->count < MOST_WRAPPERS)
		list->items[list->count++] = *count;
	return 0;
}

/* Static; NULL: there are none. */
static const char *describe(const struct ckpt_model *model, const struct ckpt_key_options *keys,
			    const char *still)
{
	static char text[400];
	struct wrapper_list list = { .count = 0 };
	struct ckpt_error err = CKPT_ERROR_INIT;
	size_t len = 0;
	int rc = ckpt_count_wrappers(model, keys, add_wrapper, &list, &err);

	if (rc == CKPT_E_NOMEM)
		no_memory(); /* a count that fails must not look like one of zero */
	for (size_t i = 0; rc == 0 && i < 2 * list.count && len < sizeof(text); i++) {
		const struct ckpt_wrapper_count *c = &list.items[i % list.count];
		bool inside = i >= list.count; /* what no key begins with comes last */
		uint64_t count = inside ? c->inside : c->first;
		char of[64] = "";

		if (inside == (c->first > 0))
			continue;
		if (!len)
			snprintf(of, sizeof(of), " of %" PRIu64 " keys", c->keys);
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s%" PRIu64 "%s %s '%s'%s%s", len ? ", " : "", count, of,
					inside	     ? count == 1 ? "has" : "have"
					: count == 1 ? "begins with"
						     : "begin with",
					c->prefix, inside ? " inside" : "", len ? "" : still);
	}
	return len ? text : NULL;
}

const char *wrappers_in(const struct ckpt_model *model, const struct ckpt_key_options *keys)
{
	return describe(model, keys, "");
}

const char *wrappers_left(const struct ckpt_model *model, const struct edit_step *steps,
			  size_t count)
{
	const struct edit_step *strip = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct edit_kind *kind = steps[i].kind;

		if (kind == &kind_strip_module || kind == &kind_strip_prefix ||
		    kind == &kind_strip_wrappers)
			strip = &steps[i];
		else if (kind == &kind_add_module || kind == &kind_add_prefix)
			strip = NULL; /* what is there then was asked for */
	}
	return strip && !quiet ? describe(model, strip->keys, " still") : NULL;
}

void note_wrappers(const char *left)
{
	if (!left)
		return;
	fflush(stdout);
	fprintf(stderr, "ckpt: note: %s\n", left);
	hint("'ckpt strip-prefix " STRIP_WRAPPERS
	     " IN OUT' takes all of them off; edit and convert have " STRIP_WRAPPERS ", too");
}
