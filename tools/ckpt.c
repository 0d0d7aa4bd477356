/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "json.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* In the order of the help screen. */
#define COMMANDS(X) \
	X(ls) \
	X(info) \
	X(cat) \
	X(stat) \
	X(strip_module) \
	X(add_module) \
	X(strip_prefix) \
	X(add_prefix) \
	X(rename) \
	X(remap) \
	X(cast) \
	X(compact) \
	X(sanitize) \
	X(extract) \
	X(select) \
	X(edit) \
	X(average) \
	X(merge) \
	X(split) \
	X(reshard) \
	X(broadcast) \
	X(reindex) \
	X(convert) \
	X(verify) \
	X(scan) \
	X(diff) \
	X(latest) \
	X(repair) \
	X(why) \
	X(dis) \
	X(version) \
	X(help) \
	X(completion)

#define X(name) extern const struct command cmd_##name;
COMMANDS(X)
#undef X

const struct command *const commands[] = {
#define X(name) &cmd_##name,
	COMMANDS(X)
#undef X
		NULL,
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
	const char *names[sizeof(commands) / sizeof(commands[0])], *near, *other;
	size_t count = 0;

	for (const struct command *const *cmd = commands; *cmd; cmd++)
		names[count++] = (*cmd)->name;
	names[count] = NULL;
	near = suggest(name, names);
	other = other_word(name);
	complain("unknown command '%.60s'", name);
	if (other)
		hint("%s", other);
	else if (near)
		hint("did you mean '%s'?", near);
	else if (access(name, R_OK) == 0)
		hint("'ckpt info %s' shows what is in that file", name);
	else
		hint("'ckpt help' lists the commands");
	return EXIT_USAGE;
}

/*
 * Who starts us with one of them closed would find what is printed in the first file that is opened. What stands in its place
 * fails, as the closed one does.
 */
static void fill_standard_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			_exit(EXIT_ERROR);
}

int main(int argc, char **argv)
{
	const struct command *cmd;

	fill_standard_streams();
	signal(SIGPIPE, SIG_IGN); /* write() then reports a closed pipe */
	signal(SIGXFSZ, SIG_IGN); /* and a file that reaches the size limit */
	json_begin();
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
	json_limit_mode(argc - 1, argv + 1);
	return cmd->run(argc - 1, argv + 1);
}
