/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

/* Options that are edits, in the order given. */

static const struct edit_kind *const kinds[] = {
	&kind_strip_module, &kind_add_module, &kind_strip_prefix, &kind_strip_wrappers,
	&kind_add_prefix,   &kind_rename,     &kind_rename_map,	  &kind_remap,
	&kind_remap_all,
	&kind_extract,	    &kind_keep,	      &kind_drop,	  &kind_cast,
	&kind_cast_all,	&kind_dequantize, &kind_compact,	    &kind_sanitize,	  &kind_set,
	&kind_set_json,
};

static const struct edit_kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i]->name, name))
			return kinds[i];
	return NULL;
}

bool is_chain_kind(const struct edit_kind *kind)
{
	return find_kind(kind->name) == kind;
}

/* The arguments of all steps are in one array, which begins with those of the first step. */
struct edit_step *make_steps(const struct step_list *chain, size_t *count)
{
	struct edit_step *steps = calloc(chain->count + 1, sizeof(*steps)), *last = NULL;
	const char **values = calloc(chain->count + 1, sizeof(*values));

	*count = 0;
	if (!steps || !values)
		no_memory();
	steps->args.items = values;
	for (size_t i = 0; i < chain->count; i++) {
		const struct edit_kind *kind = find_kind(chain->items[i].name);

		if (!last || last->kind != kind || !kind->merges) {
			last = &steps[(*count)++];
			*last = (struct edit_step){ .kind = kind, .args = { values, 0 } };
		}
		if (chain->items[i].value)
			last->args.items[last->args.count++] = *values++ = chain->items[i].value;
	}
	return steps;
}

void free_steps(struct edit_step *steps)
{
	if (steps)
		free(steps->args.items);
	free(steps);
}

int check_chain(const struct command *cmd, const struct step_list *chain)
{
	bool casts = false, casts_all = false, dequantizes = false;

	for (size_t i = 0; i < chain->count; i++)
		if (!strncmp(chain->items[i].name, "set", 3) && !set_value_of(chain->items[i].value))
			return wrong_usage(cmd, "%s: --%s %.80s: wanted NAME=VALUE", cmd->name,
					   chain->items[i].name, chain->items[i].value);
		else if (!strcmp(chain->items[i].name, "cast"))
			casts = true;
		else if (!strcmp(chain->items[i].name, "cast-all"))
			casts_all = true;
		else if (!strcmp(chain->items[i].name, "dequantize"))
			dequantizes = true;
	if (check_overflow && !casts && !casts_all && !dequantizes)
		return wrong_usage(
			cmd, "%s: --check-overflow looks at what --cast makes, and there is none",
			cmd->name);
	if (cast_only.count && !casts)
		return wrong_usage(cmd, "%s: --cast-only says what --cast takes, and there is none",
				   cmd->name);
	return EXIT_FINE;
}
