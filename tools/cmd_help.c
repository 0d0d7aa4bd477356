/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt help', 'ckpt version' and 'ckpt completion', all from the tables of commands and options.
 *
 * What must stay true: summaries and help of options get into a script only by way of
 * print_quoted(), so that they may contain any character.
 */
#include "complete.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

static bool man;
static const struct opt help_opts[] = {
	OPT_FLAG("man", 0, &man, "print COMMAND's man page as roff source"), OPT_END
};
static const struct opt version_opts[] = {
	OPT_FLAG("verbose", 'v', &verbose,
		 "also print the libraries, and what this machine has for GPUs"),
	OPT_END
};

static const char *word_number;
static const struct opt completion_opts[] = {
	OPT_STR("words", 0, &word_number, "N",
		"print what may be word N of the line behind '--'; the scripts call it"),
	OPT_END
};

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);
static int run_completion(int argc, char **argv);

const struct command cmd_help = {
	.name = "help",
	.operands = "[COMMAND]",
	.summary = "explain a command",
	.opts = help_opts,
	.least = 0,
	.most = 1,
	.run = run_help,
};
const struct command cmd_version = {
	.name = "version",
	.operands = "",
	.summary = "print the version",
	.opts = version_opts,
	.least = 0,
	.most = 0,
	.run = run_version,
};
const struct command cmd_completion = {
	.name = "completion",
	.operands = "bash|zsh|fish",
	.summary = "print a completion script for a shell",
	.details =
		"The scripts complete commands, options, their values, files, and names in the\n"
		"file that the line names. For these they run 'ckpt completion --words'.\n",
	.examples = "  ckpt completion bash > ~/.local/share/bash-completion/completions/ckpt\n",
	.opts = completion_opts,
	.least = 0,
	.most = -1,
	.run = run_completion,
};

static int run_help(int argc, char **argv)
{
	int first = parse_options(&cmd_help, argc, argv);
	const struct command *cmd;

	if (first < 0)
		return -1 - first;
	if (first == argc && man)
		return wrong_usage(&cmd_help, "help: --man needs the name of a command");
	if (first == argc) {
		print_overview(stdout);
		return finish_output(EXIT_FINE);
	}
	cmd = find_command(argv[first]);
	if (!cmd)
		return unknown_command(argv[first]);
	if (man)
		print_man_page(cmd, stdout);
	else
		print_help(cmd, stdout);
	return finish_output(EXIT_FINE);
}

static void print_detail(void *ctx, const char *name, const char *text)
{
	(void)ctx;
	printf("  %-12s %s\n", name, text);
}

static int run_version(int argc, char **argv)
{
	int first = parse_options(&cmd_version, argc, argv);

	if (first < 0)
		return -1 - first;
	printf("ckpt %s\n", ckpt_version());
	if (verbose)
		ckpt_version_details(print_detail, NULL);
	return finish_output(EXIT_FINE);
}

static void print_opt_names(const struct command *cmd, const char *format)
{
	for (const struct opt *o = cmd->opts; o->kind; o++)
		printf(format, o->name);
	printf(format, "help");
}

/* TEXT as it stands between double quotes, with a backslash before each character in SPECIAL. */
static void print_quoted(const char *text, const char *special)
{
	for (; *text; text++)
		printf(strchr(special, *text) ? "\\%c" : "%c", *text);
}

static void print_bash(void)
{
	printf("_ckpt() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} opts= me=ckpt words=() w\n"
	       "\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\tCOMPREPLY=($(compgen -W '");
	for (const struct command *const *cmd = commands; *cmd; cmd++)
		printf("%s ", (*cmd)->name);
	printf("' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]} in\n");
	for (const struct command *const *cmd = commands; *cmd; cmd++) {
		printf("\t%s) opts='", (*cmd)->name);
		print_opt_names(*cmd, "--%s ");
		printf("';;\n");
	}
	printf("\tesac\n\tcase $cur in\n\t-*)\n\t\tCOMPREPLY=($(compgen -W \"$opts\" -- \"$cur\"))\n\t\treturn;;\n"
	       "\t=) cur=;;\n\tesac\n"
	       "\ttype -P ckpt >/dev/null || me=$1\n"
	       "\tfor w in \"${COMP_WORDS[@]}\"; do\n"
	       "\t\tw=${w//[\\\"\\'\\\\]/}\n" /* as they were typed, with quotes */
	       "\t\tcase $w in '~/'*) w=$HOME${w:1};; esac\n"
	       "\t\twords+=(\"$w\")\n\tdone\n"
	       "\tmapfile -t words < <(\"$me\" completion --words \"$COMP_CWORD\" -- \"${words[@]}\" 2>/dev/null)\n"
	       "\tCOMPREPLY=(\"${words[@]:1}\")\n"
	       "\tif [ \"${words[0]-}\" != words ]; then\n"
	       "\t\tmapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$cur\")\n\tfi\n}\n"
	       "complete -o filenames -F _ckpt ckpt\n");
}

static void print_zsh(void)
{
	printf("#compdef ckpt\n_ckpt() {\n\tlocal -a cmds opts found\n\tlocal me=ckpt\n\tcmds=(\n");
	for (const struct command *const *cmd = commands; *cmd; cmd++) {
		printf("\t\t\"%s:", (*cmd)->name);
		print_quoted((*cmd)->summary, ":\"\\$`");
		printf("\"\n");
	}
	printf("\t)\n\tif (( CURRENT == 2 )); then _describe command cmds; return; fi\n"
	       "\tcase $words[2] in\n");
	for (const struct command *const *cmd = commands; *cmd; cmd++) {
		printf("\t%s) opts=(", (*cmd)->name);
		print_opt_names(*cmd, "--%s ");
		printf(");;\n");
	}
	printf("\tesac\n\tif [[ $words[CURRENT] == -* && $words[CURRENT] != *=* ]]; then compadd -- $opts; return; fi\n"
	       "\t(( $+commands[ckpt] )) || me=${(Q)words[1]}\n"
	       "\tfound=(\"${(@f)$(\"$me\" completion --words $((CURRENT - 1)) -- \"${(@Q)words}\" 2>/dev/null)}\")\n"
	       "\t(( $#found > 1 )) && compadd -- \"${(@)found[2,-1]}\"\n"
	       "\t[[ $found[1] == words ]] || _files\n}\n"
	       "_ckpt \"$@\"\n");
}

/* How fish completes the value of an option. */
static const char *fish_value(const struct command *cmd, const struct opt *o)
{
	bool open;

	if (!o->arg || o->kind == OPT_KIND_OPTIONAL)
		return "";
	if (option_takes_names(cmd, o) || option_words(cmd, o, &open))
		return " -x -a \"(__ckpt_words | tail -n +2)\"";
	/* with -r fish takes the word after the option for its argument */
	return option_takes_files(o) ? " -r" : " -x";
}

static void print_fish(void)
{
	static const char special[] = "\"\\$";

	printf("function __ckpt_words\n\tset -l before (commandline -opc)\n"
	       "\tckpt completion --words (count $before) -- $before (commandline -ct) 2>/dev/null\nend\n"
	       "function __ckpt_no_files\n\tset -l found (__ckpt_words)\n\ttest \"$found[1]\" = words\nend\n"
	       "complete -c ckpt -n 'not __fish_use_subcommand' -a '(__ckpt_words | tail -n +2)'\n"
	       "complete -c ckpt -n __ckpt_no_files -f\n");
	for (const struct command *const *cmd = commands; *cmd; cmd++) {
		printf("complete -c ckpt -n '__fish_seen_subcommand_from %s' -l help -s h\n",
		       (*cmd)->name);
		printf("complete -c ckpt -n __fish_use_subcommand -a %s -d \"", (*cmd)->name);
		print_quoted((*cmd)->summary, special);
		printf("\"\n");
		for (const struct opt *o = (*cmd)->opts; o->kind; o++) {
			printf("complete -c ckpt -n '__fish_seen_subcommand_from %s' -l %s",
			       (*cmd)->name, o->name);
			if (o->letter)
				printf(" -s %c", o->letter);
			printf("%s -d \"", fish_value(*cmd, o));
			print_quoted(o->help, special);
			printf("\"\n");
		}
	}
}

static int run_completion(int argc, char **argv)
{
	int first = parse_options(&cmd_completion, argc, argv);
	const char *shell;

	if (first < 0)
		return -1 - first;
	if (word_number) {
		complete_word(atoi(word_number), argv + first, argc - first);
		return finish_output(EXIT_FINE);
	}
	if (argc - first != 1)
		return wrong_usage(&cmd_completion, "completion: too %s operands, wanted bash|zsh|fish",
				   first == argc ? "few" : "many");
	shell = argv[first];
	if (!strcmp(shell, "bash"))
		print_bash();
	else if (!strcmp(shell, "zsh"))
		print_zsh();
	else if (!strcmp(shell, "fish"))
		print_fish();
	else
		return wrong_usage(&cmd_completion, "completion: shell '%.40s' is not known",
				   shell);
	return finish_output(EXIT_FINE);
}
