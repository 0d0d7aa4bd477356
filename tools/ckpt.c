/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

extern const struct command cmd_ls, cmd_info, cmd_cat, cmd_stat, cmd_dis, cmd_strip_module,
	cmd_add_module, cmd_strip_prefix, cmd_add_prefix, cmd_rename, cmd_remap, cmd_cast,
	cmd_compact, cmd_sanitize, cmd_extract, cmd_select, cmd_edit, cmd_merge, cmd_split,
	cmd_reshard, cmd_broadcast, cmd_reindex, cmd_convert, cmd_verify, cmd_latest, cmd_version,
	cmd_help, cmd_completion;

const struct command *const commands[] = {
	&cmd_ls,	 &cmd_info,	    &cmd_cat,	     &cmd_stat,	   &cmd_strip_module,
	&cmd_add_module, &cmd_strip_prefix, &cmd_add_prefix, &cmd_rename,  &cmd_remap,
	&cmd_cast,	 &cmd_compact,	    &cmd_sanitize,   &cmd_extract, &cmd_select,
	&cmd_edit,	 &cmd_merge,	    &cmd_split,	     &cmd_reshard, &cmd_broadcast,
	&cmd_reindex,	 &cmd_convert,	    &cmd_verify,     &cmd_latest,  &cmd_dis,
	&cmd_version,	 &cmd_help,	    &cmd_completion, NULL,
};

const struct command *find_command(const char *name)
{
	for (const struct command *const *cmd = commands; *cmd; cmd++)
		if (!strcmp((*cmd)->name, name))
			return *cmd;
	return NULL;
}

int unknown_command(const char *name)
{
	const char *names[sizeof(commands) / sizeof(commands[0])], *near;
	size_t count = 0;

	for (const struct command *const *cmd = commands; *cmd; cmd++)
		names[count++] = (*cmd)->name;
	names[count] = NULL;
	near = suggest(name, names);
	complain("unknown command '%.60s'", name);
	if (near)
		hint("did you mean '%s'?", near);
	else if (access(name, R_OK) == 0)
		hint("'ckpt info %s' shows what is in that file", name);
	else
		hint("'ckpt help' lists the commands");
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	const struct command *cmd;

	signal(SIGPIPE, SIG_IGN); /* a closed pipe is seen as an error of write */
	if (argc < 2) {
		print_overview(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_overview(stdout);
		return finish_output(EXIT_FINE);
	}
	cmd = find_command(!strcmp(argv[1], "--version") ? "version" : argv[1]);
	if (!cmd)
		return unknown_command(argv[1]);
	return cmd->run(argc - 1, argv + 1);
}
