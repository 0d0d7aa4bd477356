/* SPDX-License-Identifier: Apache-2.0 */
/*
 * '-' as IN and OUT, and names of descriptors that are pipes (/dev/stdin, <(...), >(...)).
 *
 * IN: a checkpoint is read at many places, so all that comes out of the pipe is first kept in an
 * unnamed file in TMPDIR, which then takes the pipe's place. From there on its name, /dev/stdin, is
 * that of a file like others, and no command knows the difference.
 *
 * OUT: ckpt_save() writes to a descriptor. What commands print goes to stderr then, as stdout
 * itself becomes a copy of it.
 *
 * What must stay true: the table of a command that reads single files has SPOOL_OPT, which says
 * that it takes a pipe; the names of its operands (IN, A, B, DIR; OUT) say which of them are files.
 */
#include "pipes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STANDARD_INPUT "/dev/stdin"
#define DEFAULT_LIMIT 16000000000u /* SPOOL_OPT says so */

const char *spool_limit;

static int out_fd = -1;
static bool used[1024]; /* descriptors that are an IN */

/* Borrowed from the environment. */
static const char *spool_folder(void)
{
	const char *folder = getenv("TMPDIR");

	return folder && *folder ? folder : "/tmp";
}

/* ---- which operand is what ---- */

static bool takes_pipe(const struct command *cmd)
{
	for (const struct opt *o = cmd->opts; o->kind; o++)
		if (o->target == &spool_limit)
			return true;
	return false;
}

/*
 * The word of cmd->operands for operand I of COUNT, without brackets and dots: "IN" of "[IN...]".
 * Words that stand for several operands take those that the others leave. NO_OUT: lacks_out().
 */
static void operand_word(const struct command *cmd, int i, int count, bool no_out, char *word, size_t size)
{
	const char *p = cmd->operands, *last = strrchr(p, ' ');
	bool no_last = no_out || (cmd->one_less && *cmd->one_less),
	     no_first = cmd->no_first && *cmd->no_first;
	int least = 0;

	*word = '\0';
	if (no_first)
		p += strcspn(p, " ") + 1;
	for (const char *q = p; *q; q += strcspn(q, " "), q += *q == ' ')
		least += *q != '[';
	least -= no_last;
	for (int at = 0; *p; p += strcspn(p, " "), p += *p == ' ') {
		size_t len = strcspn(p, " ");
		bool is_optional = *p == '[', is_many = len > 3 && memmem(p, len, "...", 3) != NULL;
		int spare = count - least, takes = !is_optional;

		if (no_last && last && p == last + 1)
			return;
		if (is_many && (spare > 0 || takes)) /* 'remap --all' has no OLD=NEW at all */
			takes = takes + spare > 0 ? takes + spare : 0;
		else if (spare > 0 && is_optional)
			takes = 1;
		if (i < at + takes) {
			p += is_optional;
			snprintf(word, size, "%.*s", (int)strcspn(p, " .]"), p);
			return;
		}
		at += takes;
		least += is_optional ? takes : takes - 1;
	}
}

static bool is_input(const char *word)
{
	static const char *const words[] = { "IN", "A", "B", "DIR", "FILE" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(word, words[i]))
			return true;
	return false;
}

/*
 * The descriptor that PATH is a name of: "-", "/dev/stdin", "/dev/fd/63"; "/dev/stdin::NAME" is in an
 * archive. -1: none.
 */
static int descriptor_of(const char *path, const char *standard_name, int standard)
{
	static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
	size_t len = strcspn(path, ":");
	char *end;

	if (path[len] && strncmp(path + len, "::", 2) != 0)
		return -1;
	if (!strcmp(path, "-"))
		return standard;
	if (len == strlen(standard_name) && !strncmp(path, standard_name, len))
		return standard;
	for (size_t i = 0; i < 2; i++) {
		size_t skip = strlen(folders[i]);
		long fd;

		if (strncmp(path, folders[i], skip) != 0)
			continue;
		fd = strtol(path + skip, &end, 10);
		if (end == path + len && end > path + skip && fd >= 0 && fd < 1024)
			return (int)fd;
	}
	return -1;
}

static bool is_pipe(const struct stat *st)
{
	return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode);
}

/* ---- IN ---- */

static int spool(int fd, const char *name)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t limit = DEFAULT_LIMIT;
	char twice[40];
	int file, code;

	if (spool_limit && !parse_decimal_size(spool_limit, &limit)) {
		complain("--spool-limit %.40s: wanted a size such as 16G", spool_limit);
		return EXIT_USAGE;
	}
	if (ckpt_spool(fd, spool_folder(), limit, &file, &err) == 0) {
		if (dup2(file, fd) >= 0) {
			close(file);
			return EXIT_FINE;
		}
		complain("%s: cannot be replaced by a file: %s", name, errno_text(errno));
		close(file);
		return EXIT_ERROR;
	}
	snprintf(err.path, sizeof(err.path), "%s", name);
	code = fail(&err);
	if (err.status == CKPT_E_LIMIT)
		hint("--spool-limit %s takes more; TMPDIR names another folder",
		     human_size(limit > UINT64_MAX / 2 ? limit : 2 * limit, twice));
	else if (err.sys_errno != EBADF)
		hint("TMPDIR names another folder");
	return code;
}

/* Bytes that are read where they are: of a file from its beginning, or of a directory. */
static bool needs_no_spool(int fd, const struct stat *st)
{
	struct stat named;
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (S_ISDIR(st->st_mode))
		return true;
	return S_ISREG(st->st_mode) && lseek(fd, 0, SEEK_CUR) == 0 && access(self, R_OK) == 0 &&
	       stat(self, &named) == 0 && named.st_ino == st->st_ino && named.st_dev == st->st_dev;
}

/* IN is descriptor FD: put a file there, and its name in *OPERAND. */
static int take_input(const struct command *cmd, int fd, char **operand)
{
	static char standard_input[] = STANDARD_INPUT;
	bool dash = !strcmp(*operand, "-");
	const char *name = dash ? "standard input" : *operand;
	struct stat st, named;

	if (fstat(fd, &st) < 0) {
		if (!dash)
			return EXIT_FINE; /* opening it says why */
		complain("%s: cannot be read: %s", name, errno_text(errno));
		return EXIT_ERROR;
	}
	if (!dash && !is_pipe(&st) && !used[fd])
		return EXIT_FINE;
	if (cmd->one_less && *cmd->one_less) {
		complain("%s: there is no file to be edited in place", name);
		return EXIT_USAGE;
	}
	if (used[fd]) {
		complain("%s: can be read once only, and is named twice", name);
		return EXIT_USAGE;
	}
	if (dash && isatty(fd)) {
		complain("standard input is a terminal, wanted a pipe or a file");
		return EXIT_USAGE;
	}
	used[fd] = true;
	if (!needs_no_spool(fd, &st)) {
		int code = spool(fd, name);

		if (code != EXIT_FINE)
			return code;
	}
	if (!dash)
		return EXIT_FINE;
	if (stat(STANDARD_INPUT, &named) < 0 || fstat(fd, &st) < 0 || named.st_ino != st.st_ino) {
		complain("standard input cannot be opened as " STANDARD_INPUT ": is /proc there?");
		return EXIT_ERROR;
	}
	*operand = standard_input;
	return EXIT_FINE;
}

int take_pipes(const struct command *cmd, int count, char **operands)
{
	bool no_out = lacks_out(cmd, count, operands);
	int code = EXIT_FINE;

	for (int i = 0; i < count && code == EXIT_FINE && takes_pipe(cmd); i++) {
		int fd = descriptor_of(operands[i], STANDARD_INPUT, STDIN_FILENO);
		char word[32];

		operand_word(cmd, i, count, no_out, word, sizeof(word));
		if (fd >= 0 && is_input(word))
			code = take_input(cmd, fd, &operands[i]);
	}
	return code;
}

bool is_standard_input_taken(void)
{
	return used[STDIN_FILENO];
}

/* ---- OUT ---- */

bool is_stream(const char *out)
{
	int fd = descriptor_of(out, "/dev/stdout", STDOUT_FILENO);
	struct stat st;

	return !strcmp(out, "-") || (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode)));
}

int open_stream(const char *out)
{
	int fd = descriptor_of(out, "/dev/stdout", STDOUT_FILENO);
	bool dash = !strcmp(out, "-");
	const char *name = dash ? "standard output" : out;
	struct stat st;

	if (fstat(fd, &st) < 0) {
		complain("%s: cannot be written to: %s", name, errno_text(errno));
		return EXIT_ERROR;
	}
	if (isatty(fd)) {
		complain("%s is a terminal, wanted a pipe or a file", name);
		hint("'ckpt ... - | COMMAND' and 'ckpt ... - >FILE' write elsewhere");
		return EXIT_USAGE;
	}
	if (!dash && !is_pipe(&st)) {
		complain("%s: the output is no pipe, wanted a file name", name);
		if (fd == STDOUT_FILENO)
			hint("'-' writes to standard output, whatever it is");
		return EXIT_ERROR;
	}
	fflush(stdout);
	out_fd = fd == STDOUT_FILENO ? dup(fd) : fd;
	if (out_fd < 0 || (fd == STDOUT_FILENO && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)) {
		complain("%s: cannot be used twice: %s", name, errno_text(errno));
		return EXIT_ERROR;
	}
	return EXIT_FINE;
}

const char *save_to_stream(struct ckpt_save_options *options, const char *out)
{
	if (out_fd < 0 || !out)
		return out;
	options->flags |= CKPT_SAVE_TO_FD;
	options->out_fd = out_fd;
	options->spool_folder = spool_folder();
	return strcmp(out, "-") != 0 ? out : "standard output";
}
