/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flags.h"
#include "base/sized.h"
#include "base/text.h"
#include "edit/keys.h"

#include <stdlib.h>
#include <string.h>

/* Which mappings an edit of names is limited to. */

int ckpt_key_choice_init(struct ckpt_key_choice *choice, const struct ckpt_key_options *options,
			 struct ckpt_error *err)
{
	int rc;

	*choice = (struct ckpt_key_choice){ .o = CKPT_KEY_OPTIONS_INIT };
	rc = ckpt_key_options_take(&choice->o, options, err);
	if (rc < 0)
		return rc;
	choice->found = calloc(choice->o.at_count + 1, sizeof(*choice->found));
	return choice->found ? 0 : ckpt_fail_nomem(err);
}

void ckpt_key_choice_clear(struct ckpt_key_choice *choice)
{
	for (size_t i = 0; choice->found && i < choice->o.at_count; i++)
		free(choice->found[i]);
	free(choice->found);
	choice->found = NULL;
}

/* Two paths may join to one name; then only the exact form will do. */
static int note_found(struct ckpt_key_choice *choice, size_t i, const char *exact,
		      struct ckpt_error *err)
{
	char shown[160];

	if (choice->found[i])
		return ckpt_fail(err, CKPT_E_ARG, "'%s' names two things: %.100s and %.100s",
				 ckpt_escape(shown, sizeof(shown), choice->o.at[i],
					     strlen(choice->o.at[i])),
				 choice->found[i], exact);
	choice->found[i] = strdup(exact);
	return choice->found[i] ? 0 : ckpt_fail_nomem(err);
}

int ckpt_key_choice_has(struct ckpt_key_choice *choice, const struct ckpt_walk_step *step,
			struct ckpt_error *err)
{
	struct ckpt_buf exact = { 0 };
	int chosen = choice->o.at_count == 0;

	if (choice->o.at_count)
		ckpt_walk_exact_name(step, &exact);
	for (size_t i = 0; chosen >= 0 && i < choice->o.at_count; i++) {
		const char *at = choice->o.at[i];
		size_t len = strlen(at);
		bool is_exact = at[0] == '[';
		const char *name = is_exact ? (const char *)exact.data : step->name;
		size_t name_len = is_exact ? exact.len : step->name_len;

		if (name_len < len || memcmp(name, at, len))
			continue;
		if (name_len == len) {
			int rc = note_found(choice, i, (const char *)exact.data, err);

			chosen = rc < 0 ? rc : 1;
		} else if (!len || name[len] == (is_exact ? '[' : '.')) {
			chosen = 1;
		}
	}
	ckpt_buf_clear(&exact);
	return chosen;
}

int ckpt_key_choice_check(const struct ckpt_key_choice *choice, struct ckpt_error *err)
{
	char shown[160];

	for (size_t i = 0; i < choice->o.at_count; i++)
		if (!choice->found[i])
			return ckpt_fail(err, CKPT_E_NOTFOUND, "no mapping is named '%s'",
					 ckpt_escape(shown, sizeof(shown), choice->o.at[i],
						     strlen(choice->o.at[i])));
	return 0;
}

int ckpt_key_options_take(struct ckpt_key_options *out, const struct ckpt_key_options *given,
			  struct ckpt_error *err)
{
	int rc = ckpt_sized_take(out, sizeof(*out), given, err);

	if (rc == 0)
		rc = ckpt_flags_check(out->flags, CKPT_KEY_ANYWHERE | CKPT_KEY_SKIP_ABSENT, err);
	return rc == 0 ? ckpt_unused_check(&out->reserved, sizeof(out->reserved), err) : rc;
}
