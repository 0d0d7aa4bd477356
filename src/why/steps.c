/* SPDX-License-Identifier: Apache-2.0 */
#include "why/why.h"

#include <string.h>

static const char *add_option(struct ckpt_why *w, const char *so_far, const char *option,
			      const char *argument)
{
	return ckpt_why_print(w, "%s %s%s", so_far, option, ckpt_why_quote(w, argument));
}

/* An expression that removes WRAPPER, which ends with a dot, from names wherever it is. */
static const char *strip_anywhere(struct ckpt_why *w, const char *wrapper)
{
	return ckpt_why_print(w, "s/(^|\\.)%.*s\\./\\1/g", (int)strlen(wrapper) - 1, wrapper);
}

static void print_one_edit(struct ckpt_why *w, const struct ckpt_why_steps *s)
{
	const char *in = ckpt_why_in(w), *out = ckpt_why_out(w);

	if (s->extract)
		ckpt_why_command(w, "ckpt extract %s %s %s", ckpt_why_quote(w, s->extract), in,
				 out);
	else if (s->drop)
		ckpt_why_command(w, "ckpt select%s %s %s", s->drop, in, out);
	else if (s->wrappers)
		ckpt_why_command(w, "ckpt strip-prefix --strip-wrappers %s %s", in, out);
	else if (s->strip_count && !strcmp(s->strip[0], "module."))
		ckpt_why_command(w, "ckpt strip-module %s %s", in, out);
	else if (s->strip_count)
		ckpt_why_command(w, "ckpt strip-prefix %s %s %s", ckpt_why_quote(w, s->strip[0]),
				 in, out);
	else if (s->inside_count)
		ckpt_why_command(w, "ckpt strip-prefix --anywhere %s %s %s",
				 ckpt_why_quote(w, s->inside[0]), in, out);
	else if (!strcmp(s->add, "module."))
		ckpt_why_command(w, "ckpt add-module %s %s", in, out);
	else
		ckpt_why_command(w, "ckpt add-prefix %s %s %s", ckpt_why_quote(w, s->add), in, out);
}

const char *ckpt_why_steps_options(struct ckpt_why *w, const struct ckpt_why_steps *s)
{
	const char *line = "";

	if (s->extract)
		line = add_option(w, line, "--extract ", s->extract);
	if (s->drop)
		line = ckpt_why_print(w, "%s%s", line, s->drop);
	if (s->wrappers)
		line = ckpt_why_print(w, "%s --strip-wrappers", line);
	if (s->keep)
		line = add_option(w, line, "--keep ", s->keep);
	for (uint32_t i = 0; i < s->strip_count; i++)
		line = add_option(w, line, "--strip-prefix ", s->strip[i]);
	for (uint32_t i = 0; i < s->inside_count; i++)
		line = add_option(w, line, "--rename ", strip_anywhere(w, s->inside[i]));
	if (s->add)
		line = add_option(w, line, "--add-prefix ", s->add);
	for (uint32_t i = 0; i < s->rename_count; i++)
		line = add_option(w, line, "--rename ", s->rename[i]);
	return line;
}

static void print_command(struct ckpt_why *w, const struct ckpt_why_steps *s)
{
	uint32_t others = !!s->extract + !!s->drop + !!s->wrappers + !!s->keep + s->strip_count +
			  s->inside_count + !!s->add;
	const char *line;

	if (!s->rename_count && others == 1) {
		print_one_edit(w, s);
		return;
	}
	if (!others) {
		line = "ckpt rename";
		for (uint32_t i = 0; i < s->rename_count; i++)
			line = add_option(w, line, "-e ", s->rename[i]);
		ckpt_why_command(w, "%s %s %s", line, ckpt_why_in(w), ckpt_why_out(w));
		return;
	}
	ckpt_why_command(w, "ckpt edit %s %s%s", ckpt_why_in(w), ckpt_why_out(w),
			 ckpt_why_steps_options(w, s));
}

void ckpt_why_steps_command(struct ckpt_why *w, const struct ckpt_why_steps *steps)
{
	print_command(w, steps);
	if (steps->guessed)
		ckpt_why_words(
			w,
			"which name is which is guessed from their order: compare the shapes that "
			"'ckpt ls %s' lists with the model's",
			ckpt_why_in(w));
}
