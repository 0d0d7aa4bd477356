/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the options of a command from its table (command.h), suggests what a typo meant, and
 * prints messages on stderr.
 *
 * No option but --help is named here. getopt_long() permutes argv, so that options may stand
 * behind operands; values stay pointers into argv. Long options have codes from LONG_BASE on,
 * above every letter.
 *
 * What must stay true: a table has fewer than MOST_OPTS options. Nothing checks that, and the
 * arrays here have no more room.
 */
#include "command.h"
#include "json.h"
#include "many_files.h"
#include "pipes.h"
#include "terminal.h"
#include "words.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
	MOST_OPTS = 48, /* more than any table has: the arrays below have no more room */
	LONG_BASE = 1000,
};

/* A message about one of many inputs is one line, even if the name of the input is not. */
static void put_one_line(const char *fmt, va_list ap)
{
	const char *name = one_of_many->path;
	size_t len = strlen(name);
	char *text, *rest;

	if (vasprintf(&text, fmt, ap) < 0)
		no_memory();
	rest = text;
	if (!strncmp(text, name, len)) {
		fputs(one_of_many->shown, stderr);
		rest += len;
	}
	for (; *rest; rest++)
		fputc(*rest == '\n' ? ' ' : *rest, stderr);
	free(text);
}

void complain(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("ckpt: ", stderr);
	va_start(ap, fmt);
	if (one_of_many)
		put_one_line(fmt, ap);
	else
		vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void hint(const char *fmt, ...)
{
	va_list ap;

	fputs("hint: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

int fail(const struct ckpt_error *err)
{
	char text[1024];

	complain("%s", ckpt_error_format(err, text, sizeof(text)));
	return err->status == CKPT_E_ARG ? EXIT_USAGE : EXIT_ERROR;
}

bool hint_value(const struct command *cmd)
{
	for (const struct opt *o = cmd->opts; o->kind; o++) {
		const char *value = o->kind == OPT_KIND_STR ? *(const char **)o->target : NULL, *words, *near;
		char buf[MOST_WORD];
		bool open;

		words = value ? option_words(cmd, o, &open) : NULL;
		if (!words || open || is_one_of(value, words))
			continue;
		near = suggest_word(value, words, buf);
		if (near)
			hint("did you mean '--%s %s'?", o->name, near);
		return near != NULL;
	}
	return false;
}

/* The option of CMD that sets TARGET. */
static const char *option_that_sets(const struct command *cmd, const bool *target)
{
	for (const struct opt *o = cmd->opts; o->kind; o++)
		if (o->target == target)
			return o->name;
	return "";
}

const char *shown_operands(const struct command *cmd, char *buf)
{
	size_t first = strcspn(cmd->operands, " ");

	if (!cmd->no_first)
		return cmd->operands;
	snprintf(buf, MOST_OPERANDS, "(%.*s | --%s)%s", (int)first, cmd->operands, option_that_sets(cmd, cmd->no_first),
		 cmd->operands + first);
	return buf;
}

static char last_wrong_usage[400];

const char *wrong_usage_text(void)
{
	return last_wrong_usage;
}

int wrong_usage(const struct command *cmd, const char *fmt, ...)
{
	char shown[MOST_OPERANDS];
	va_list ap;

	fputs("ckpt: ", stderr);
	va_start(ap, fmt);
	vsnprintf(last_wrong_usage, sizeof(last_wrong_usage), fmt, ap);
	va_end(ap);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nusage: ckpt %s [OPTIONS]%s%s\n", cmd->name, *cmd->operands ? " " : "",
		shown_operands(cmd, shown));
	if (!hint_value(cmd))
		hint("'ckpt %s --help' shows the options", cmd->name);
	return EXIT_USAGE;
}

/* Edit distance, good enough for one-word typos. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[64], la, lb;

	for (; *a && *a == *b; a++, b++)
		; /* what both begin and end with costs nothing, and long names have much of it */
	for (la = strlen(a), lb = strlen(b); la && lb && a[la - 1] == b[lb - 1]; la--, lb--)
		;
	if (la >= 64 || lb >= 64)
		return 64;
	for (size_t j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[lb];
}

const char *suggest(const char *word, const char *const *words)
{
	size_t least = strlen(word) <= 4 ? 2 : 3; /* two letters make a short word another one */
	const char *best = NULL;

	for (; *words; words++) {
		size_t d = edit_distance(word, *words);

		if (d < least) {
			least = d;
			best = *words;
		}
	}
	return best;
}

/* "PREFIX", where GIVEN is "--prefix", or nearly: an operand of CMD. BUF has MOST_WORD bytes. */
static const char *operand_like(const struct command *cmd, const char *given, char *buf)
{
	char lower[80] = " ", word[MOST_WORD];
	size_t len = 1;

	if (!strncmp(given, "output", 6))
		given = "out";
	for (const char *at = cmd->operands; *at && len < sizeof(lower) - 2; at++)
		lower[len++] = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
	lower[len] = ' ';
	if (strlen(given) < 3 || strlen(given) >= MOST_WORD || !suggest_word(given, lower, word))
		return NULL;
	len = strlen(word);
	for (size_t i = 0; i <= len; i++)
		buf[i] = word[i] >= 'a' && word[i] <= 'z' ? (char)(word[i] - 'a' + 'A') : word[i];
	return strchr(buf, '.') || strchr(buf, '[') || strchr(buf, '|') ? NULL : buf;
}

/* Hint at the one or two options with a part that is nearly GIVEN, "--prefix" for "--strip-prefix", or that take a GIVEN. */
static bool hint_part(const struct command *cmd, const char *given)
{
	const char *found[3];
	size_t count = 0;
	char words[200], buf[MOST_WORD];

	for (const struct opt *o = cmd->opts; o->kind && count < 3; o++) {
		snprintf(words, sizeof(words), " %s ", o->name);
		for (char *at = words; *at; at++)
			*at = *at == '-' ? ' ' : *at;
		if ((strlen(given) > 3 && suggest_word(given, words, buf) && strlen(buf) > 3) ||
		    (o->arg && !strcasecmp(o->arg, given)))
			found[count++] = o->name;
	}
	if (count == 1)
		hint("did you mean '--%s'?", found[0]);
	else if (count == 2)
		hint("did you mean '--%s' or '--%s'?", found[0], found[1]);
	return count == 1 || count == 2;
}

static int unknown_option(const struct command *cmd, const char *given)
{
	const char *names[MOST_OPTS + 1] = { "help" }, *near, *operand = NULL;
	char letter[3], name[MOST_WORD], buf[MOST_WORD];
	size_t count = 1;

	for (const struct opt *o = cmd->opts; o->kind; o++)
		names[count++] = o->name;
	names[count] = NULL;
	if (optopt >= LONG_BASE || (optopt == 'h' && !strncmp(given, "--", 2)))
		return -1 - wrong_usage(cmd, "%s: option '--%.*s' takes no value", cmd->name,
					(int)strcspn(given + 2, "="), given + 2);
	if (optopt) { /* one letter of a group */
		snprintf(letter, sizeof(letter), "-%c", optopt);
		given = letter;
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(given + 2, "="), given + 2);
	near = !strncmp(given, "--", 2) ? suggest(name, names) : NULL;
	if (!near && !strncmp(given, "--", 2))
		operand = operand_like(cmd, name, buf);
	complain("%s: unknown option '%s'", cmd->name, given);
	if (near)
		hint("did you mean '--%s'?", near);
	else if (operand)
		hint("%s is no option: ckpt %s [OPTIONS] %s", operand, cmd->name, cmd->operands);
	else if (strncmp(given, "--", 2) != 0 || !hint_part(cmd, name))
		hint("'ckpt %s --help' shows the options", cmd->name);
	return -1 - EXIT_USAGE;
}

static int store_value(const struct opt *o, char *value)
{
	struct str_list *list;
	struct step_list *steps;

	switch (o->kind) {
	case OPT_KIND_FLAG: *(bool *)o->target = true; break;
	case OPT_KIND_STR: *(const char **)o->target = value; break;
	case OPT_KIND_OPTIONAL: *(const char **)o->target = value ? value : ""; break;
	case OPT_KIND_LIST:
		list = o->target;
		list->items = realloc(list->items, (list->count + 1) * sizeof(*list->items));
		if (!list->items)
			no_memory();
		list->items[list->count++] = value;
		break;
	case OPT_KIND_STEP:
		steps = o->target;
		steps->items = realloc(steps->items, (steps->count + 1) * sizeof(*steps->items));
		if (!steps->items)
			no_memory();
		steps->items[steps->count].name = o->name;
		steps->items[steps->count++].value = value;
		break;
	case OPT_KIND_END: break;
	}
	return 0;
}

static int takes_argument(const struct opt *o)
{
	if (o->kind == OPT_KIND_FLAG || (o->kind == OPT_KIND_STEP && !o->arg))
		return no_argument;
	return o->kind == OPT_KIND_OPTIONAL ? optional_argument : required_argument;
}

static bool may_be_file(const char *name)
{
	return access(name, F_OK) == 0 || strstr(name, "::");
}

/*
 * With -i and two operands where there was one: are both inputs? A PREFIX that should not be there
 * and an OUT are no files.
 */
static bool are_inputs(const struct command *cmd, int count, bool no_first, char **operands)
{
	if (!cmd->takes_many || cmd->most < 0 || count + no_first < cmd->most)
		return false;
	return count + no_first > cmd->most ||
	       (may_be_file(operands[count - 1]) && (!no_first || may_be_file(operands[0])));
}

static bool is_dry_run(const struct command *cmd)
{
	for (const struct opt *o = cmd->opts; o->kind; o++)
		if (o->kind == OPT_KIND_FLAG && !strcmp(o->name, "dry-run"))
			return *(const bool *)o->target;
	return false;
}

bool lacks_out(const struct command *cmd, int count, char *const *operands)
{
	int words = cmd->no_first && *cmd->no_first ? 0 : 1;

	if (!(cmd->takes_many || cmd->dry_without_out) || (cmd->one_less && *cmd->one_less) || !is_dry_run(cmd))
		return false;
	if (cmd->dry_without_out && strstr(cmd->operands, "... OUT"))
		return count == cmd->least - 1;
	if (strstr(cmd->operands, "...")) /* OLD=NEW */
		return count == 1 || (count > 1 && strchr(operands[count - 2], '=') &&
				      !may_be_file(operands[count - 2]));
	for (const char *p = strchr(cmd->operands, ' '); p; p = strchr(p + 1, ' '))
		words++;
	return count == words - 1;
}

static int check_operands(const struct command *cmd, int count, char **operands)
{
	bool no_last = cmd->one_less && *cmd->one_less, no_first = cmd->no_first && *cmd->no_first;
	int first = (int)strcspn(cmd->operands, " ");
	const char *wanted = cmd->operands + (no_first ? first + 1 : 0);

	if (no_last && are_inputs(cmd, count, no_first, operands))
		return 0;
	if (lacks_out(cmd, count, operands))
		return 0;
	count += no_last + no_first;
	if (count > cmd->most && cmd->most >= 0 && no_first)
		return -1 - wrong_usage(cmd, "%s: with --%s there is no %.*s%s", cmd->name,
					option_that_sets(cmd, cmd->no_first), first, cmd->operands,
					no_last ? ", and with --in-place no OUT" : "");
	if (count > cmd->most && cmd->most >= 0 && no_last)
		return -1 - wrong_usage(cmd, "%s: with --in-place there is no OUT", cmd->name);
	if (count < cmd->least)
		return -1 - wrong_usage(cmd, "%s: too few operands, wanted %s", cmd->name, wanted);
	if (cmd->most >= 0 && count > cmd->most)
		return -1 - wrong_usage(cmd, "%s: too many operands, wanted %s", cmd->name,
					*cmd->operands ? cmd->operands : "none");
	return 0;
}

int parse_options(const struct command *cmd, int argc, char **argv)
{
	struct option longs[MOST_OPTS + 2] = { { "help", no_argument, NULL, 'h' } };
	char shorts[2 * MOST_OPTS + 4] = ":h";
	int count = 0, c, rc = 0;

	for (const struct opt *o = cmd->opts; o->kind; o++, count++) {
		int has = takes_argument(o);
		size_t len = strlen(shorts);

		longs[count + 1] = (struct option){ o->name, has, NULL, LONG_BASE + count };
		if (o->letter)
			snprintf(shorts + len, sizeof(shorts) - len, "%c%s", o->letter,
				 has == required_argument ? ":" : "");
	}
	opterr = 0;
	optind = 1;
	while (rc == 0 && (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct opt *hit = NULL;

		if (c == 'h') {
			print_help(cmd, stdout);
			return -1 - finish_output(EXIT_FINE);
		}
		if (c == ':')
			return -1 - wrong_usage(cmd, "%s: option '%s' needs a value", cmd->name,
						argv[optind - 1]);
		for (int i = 0; i < count; i++)
			if (c == LONG_BASE + i || (cmd->opts[i].letter && c == cmd->opts[i].letter))
				hit = &cmd->opts[i];
		if (!hit)
			return unknown_option(cmd, argv[optind - 1]);
		rc = store_value(hit, optarg);
	}
	if (rc == 0 && refuse_swapped(cmd, argc, argv, optind) != EXIT_FINE)
		rc = -1 - EXIT_USAGE;
	if (rc == 0)
		rc = check_operands(cmd, argc - optind, argv + optind);
	if (rc == 0 && check_color(cmd) != EXIT_FINE)
		rc = -1 - EXIT_USAGE;
	if (rc == 0)
		rc = take_pipes(cmd, argc - optind, argv + optind);
	return rc < 0 ? rc : rc > 0 ? -1 - rc : optind;
}
