/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt help', 'ckpt version' and 'ckpt completion', all from the tables of commands and options.
 *
 * What must stay true: summaries and help of options get into a script only by way of
 * print_quoted(), so that they may contain any character.
 */
#include "command.h"

#include <string.h>

static bool man;
static const struct opt help_opts[] = {
	OPT_FLAG("man", 0, &man, "print COMMAND's man page as roff source"), OPT_END
};
static const struct opt no_opts[] = { OPT_END };
static const struct opt version_opts[] = {
	OPT_FLAG("verbose", 'v', &verbose,
		 "also print the libraries, and what this machine has for GPUs"),
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
	.examples = "  ckpt completion bash > ~/.local/share/bash-completion/completions/ckpt\n",
	.opts = no_opts,
	.least = 1,
	.most = 1,
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
	printf("_ckpt() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} opts=\n"
	       "\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\tCOMPREPLY=($(compgen -W '");
	for (const struct command *const *cmd = commands; *cmd; cmd++)
		printf("%s ", (*cmd)->name);
	printf("' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]} in\n");
	for (const struct command *const *cmd = commands; *cmd; cmd++) {
		printf("\t%s) opts='", (*cmd)->name);
		print_opt_names(*cmd, "--%s ");
		printf("';;\n");
	}
	printf("\tesac\n\tcase $cur in\n\t-*) COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\"));;\n"
	       "\t*) COMPREPLY=($(compgen -f -- \"$cur\"));;\n\tesac\n}\n"
	       "complete -o filenames -F _ckpt ckpt\n");
}

static void print_zsh(void)
{
	printf("#compdef ckpt\n_ckpt() {\n\tlocal -a cmds opts\n\tcmds=(\n");
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
	printf("\tesac\n\tif [[ $words[CURRENT] == -* ]]; then compadd -- $opts; else _files; fi\n}\n"
	       "_ckpt \"$@\"\n");
}

static void print_fish(void)
{
	static const char special[] = "\"\\$";

	printf("complete -c ckpt -n '__fish_seen_subcommand_from help completion version' -f\n");
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
			/* with -r fish takes the word after the option for its argument */
			printf("%s -d \"", o->arg && o->kind != OPT_KIND_OPTIONAL ? " -r" : "");
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
