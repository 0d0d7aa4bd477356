/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may stand at one word of a command line: for the completion scripts, which call 'ckpt completion --words'
 * where the table of options does not say it.
 *
 * What must stay true: a shell calls this at each press of a key. It prints no error and takes seconds at most; it
 * reads the metadata of plain files and directories only, and nothing of a file is ever executed. Names with control characters
 * are left out, as they would end a line.
 */
#include "complete.h"
#include "words.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SECONDS = 2, MOST_ITEMS = 200000, MOST_NAMES = 5000 };

struct line {
	char **words;
	int count, at;
	const char *current; /* what is typed of the word already */
	const struct command *cmd;
	const struct opt *option; /* whose value stands there; or NULL */
	int operand;		  /* which one stands there, from 0 */
	const char *file;	  /* the first operand that is a file; or NULL */
	size_t before;		  /* bytes of "--option=" in front of the value */
};

static void give_up(int signal)
{
	(void)signal;
	_exit(EXIT_FINE);
}

/* ---- the line ---- */

static bool takes_value(const struct opt *o)
{
	return o->arg && o->kind != OPT_KIND_OPTIONAL;
}

/* The option of CMD that WORD ends with, "--name" or "-qf"; NULL: it is none. */
static const struct opt *option_of(const struct command *cmd, const char *word, size_t len)
{
	if (len < 2 || word[0] != '-')
		return NULL;
	for (const struct opt *o = cmd->opts; o->kind; o++)
		if (word[1] == '-'
			    ? strlen(o->name) == len - 2 && !strncmp(o->name, word + 2, len - 2)
			    : o->letter == word[len - 1])
			return o;
	return NULL;
}

static void note_operand(struct line *l, const char *word)
{
	struct stat st;

	if (!l->file && stat(word, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		l->file = word;
}

static void read_line(struct line *l)
{
	const struct opt *pending = NULL;
	bool only_operands = false;
	size_t len = strlen(l->current);

	for (int i = 2; i < l->count; i++) {
		const char *word = l->words[i];
		size_t dash = strcspn(word, "=");

		if (!strcmp(word, "=") && pending && i != l->at)
			continue; /* bash makes words of "--name=VALUE" */
		if (i == l->at) {
			l->option = pending;
			if (!pending && word[0] == '-' && dash < len) {
				l->option = option_of(l->cmd, word, dash);
				l->before = dash + 1;
			}
			pending = NULL;
			continue;
		}
		if (pending) {
			pending = NULL;
			continue;
		}
		if (!only_operands && !strcmp(word, "--")) {
			only_operands = true;
		} else if (!only_operands && word[0] == '-' && word[1]) {
			pending = option_of(l->cmd, word, strlen(word));
			pending = pending && takes_value(pending) ? pending : NULL;
		} else {
			l->operand += i < l->at;
			note_operand(l, word);
		}
	}
	if (l->at >= l->count)
		l->option = pending;
	if (!strcmp(l->current, "="))
		l->current = "";
}

/* ---- candidates ---- */

static void put_words(const struct line *l, const char *words)
{
	size_t typed = strlen(l->current) - l->before, len;

	for (const char *at = words + 1; *at; at += len + 1) {
		len = strcspn(at, " ");
		if (typed <= len && !strncmp(at, l->current + l->before, typed))
			printf("%.*s%.*s\n", (int)l->before, l->current, (int)len, at);
	}
}

struct names {
	const struct line *line;
	bool only_mappings;
	uint32_t items, put;
};

static int put_name(void *ctx, const struct ckpt_item *item)
{
	struct names *n = ctx;
	const char *typed = n->line->current + n->line->before;
	bool plain = item->name[0];

	if (n->items++ >= MOST_ITEMS || n->put >= MOST_NAMES)
		return CKPT_E_ARG; /* enough */
	for (const char *at = item->name; plain && *at; at++)
		plain = (unsigned char)*at >= ' ' && *at != 0x7f;
	if (plain && (item->mapping || !n->only_mappings) &&
	    !strncmp(item->name, typed, strlen(typed))) {
		printf("%.*s%s\n", (int)n->line->before, n->line->current, item->name);
		n->put++;
	}
	return item->kind == CKPT_ITEM_CONTAINER && !item->seen;
}

static void put_names(const struct line *l)
{
	struct names n = { .line = l,
			   .only_mappings = l->option && !strncmp(l->option->name, "at", 2) };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;

	if (!l->file || ckpt_open(l->file, &model, &err) < 0)
		return;
	ckpt_walk(model, put_name, &n, &err);
	ckpt_close(model);
}

bool option_takes_names(const struct command *cmd, const struct opt *o)
{
	return o->arg && (!strcmp(o->arg, "NAME") || !strcmp(o->arg, "PATTERN")) &&
	       strcmp(cmd->name, "broadcast") != 0;
}

bool option_takes_files(const struct opt *o)
{
	return o->arg && (strstr(o->arg, "FILE") || !strcmp(o->arg, "TEXT"));
}

static void put_values(const struct line *l)
{
	const char *words;
	bool open;

	puts(option_takes_files(l->option) ? "files" : "words");
	words = option_words(l->cmd, l->option, &open);
	if (words)
		put_words(l, words);
	else if (option_takes_names(l->cmd, l->option))
		put_names(l);
}

static void put_commands(const struct line *l)
{
	for (const struct command *const *cmd = commands; *cmd; cmd++)
		if (!strncmp((*cmd)->name, l->current, strlen(l->current)))
			puts((*cmd)->name);
}

static void put_operands(const struct line *l)
{
	const char *name = l->cmd->operands;
	const char *words;
	char text[32];

	for (int i = 0; i < l->operand && strchr(name, ' '); i++)
		name = strchr(name, ' ') + 1;
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(name, " "), name);
	words = !strcmp(text, "PREFIX")		 ? " module. _orig_mod. model. _forward_module. "
		: !strcmp(text, "bash|zsh|fish") ? " bash zsh fish "
						 : operand_words(text);
	if (words || !strcmp(text, "[COMMAND]") || !strcmp(text, "NAME") || !*text) {
		puts("words");
		if (words && !l->operand)
			put_words(l, words);
		else if (!strcmp(text, "[COMMAND]") && !l->operand)
			put_commands(l);
		else if (!strcmp(text, "NAME"))
			put_names(l);
		return;
	}
	puts("files");
	if (!strcmp(text, "[PATTERN...]") || (l->operand && !strcmp(text, "[IN...]")))
		put_names(l);
}

void complete_word(int at, char **words, int count)
{
	struct line l = { .words = words, .count = count, .at = at };

	signal(SIGALRM, give_up);
	alarm(MOST_SECONDS);
	l.cmd = at > 1 && count > 1 ? find_command(words[1]) : NULL;
	l.current = at > 0 && at < count ? words[at] : "";
	if (!l.cmd) {
		puts("files");
		return;
	}
	read_line(&l);
	if (l.option)
		put_values(&l);
	else
		put_operands(&l);
}
