/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fits on the terminal, and its colors: widths, names shortened in the middle, wrapped lines.
 *
 * What must stay true: in a pipe or a file nothing is shortened for lack of room, wrapped or colored,
 * unless it was asked for: scripts read it.
 */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	MOST_NAME = 60,	    /* in a pipe: a wider name does not move the cells of others */
	LEAST_NAME = 24,    /* shorter ones are told apart no more */
	LEAST_COLUMNS = 40, /* below, lines are left as they are */
	MOST_COLUMNS = 1000,
	DOTS = 3,
};

int terminal_columns(FILE *out)
{
	const char *said = getenv("COLUMNS");
	struct winsize size;
	long columns = 0;
	char *end;

	if (!isatty(fileno(out)))
		return 0;
	if (said && *said)
		columns = strtol(said, &end, 10);
	if ((!said || !*said || *end || columns <= 0) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
		columns = size.ws_col;
	if (columns <= 0)
		return 0;
	return columns < LEAST_COLUMNS	? LEAST_COLUMNS
	       : columns > MOST_COLUMNS ? MOST_COLUMNS
					: (int)columns;
}

int name_most(void)
{
	return terminal_columns(stdout) ? MOST_COLUMNS : MOST_NAME;
}

int fit_name(int name, int rest)
{
	int columns = terminal_columns(stdout), left = columns - rest;

	if (!columns || name <= left)
		return name;
	if (left < LEAST_NAME)
		left = LEAST_NAME;
	return name < left ? name : left;
}

/* The byte of TEXT at which COLUMN begins. */
static size_t byte_of(const char *text, int column)
{
	size_t at = 0;

	for (; text[at]; at++)
		if (((unsigned char)text[at] & 0xC0) != 0x80 && column-- == 0)
			break;
	return at;
}

char *shorten(char *text, int width)
{
	int columns = (int)text_columns(text), head = (width - DOTS + 1) / 2;
	size_t begin, end;

	if (columns <= width || width <= DOTS || !terminal_columns(stdout))
		return text;
	begin = byte_of(text, head);
	end = byte_of(text, columns - (width - DOTS - head));
	memcpy(text + begin, "...", DOTS); /* at least as many bytes are taken out */
	memmove(text + begin + DOTS, text + end, strlen(text + end) + 1);
	return text;
}

void print_name(char *text, int width)
{
	print_padded(shorten(text, width), width);
}

/* Where a line that LINE is broken into goes on: below its last column. */
static int hanging_indent(const char *line, size_t len, int columns)
{
	size_t indent = strspn(line, " "), found = indent;

	for (size_t i = indent; i + 2 < len && i < 40; i++)
		if (line[i] == ' ' && line[i + 1] == ' ' && line[i + 2] != ' ')
			found = i + 2;
	return (int)found <= columns / 2 ? (int)found : (int)indent;
}

static void wrap_line(const char *line, size_t len, int columns, FILE *out)
{
	int indent = hanging_indent(line, len, columns), width = columns;

	while (len) {
		size_t cut = byte_of(line, width), space;

		if (cut >= len) {
			fprintf(out, "%.*s", (int)len, line);
			break;
		}
		for (space = cut; space && line[space] != ' '; space--)
			;
		if (space <= (width == columns ? (size_t)indent : 0))
			space = cut + strcspn(line + cut, " \n"); /* one word */
		space = space < len ? space : len;
		fprintf(out, "%.*s", (int)space, line);
		for (line += space, len -= space; len && *line == ' '; line++)
			len--;
		if (len)
			fprintf(out, "\n%*s", indent, "");
		width = columns - indent;
	}
	fputc('\n', out);
}

/* Sentences are set for 80 columns: those of a paragraph are set anew. Returns its bytes. */
static size_t paragraph(const char *text)
{
	size_t len = strcspn(text, "\n");

	while (len && text[0] != ' ' && text[len] && text[len + 1] && text[len + 1] != ' ' &&
	       text[len + 1] != '\n' && text[len - 1] != ':')
		len += 1 + strcspn(text + len + 1, "\n");
	return len;
}

static bool has_wide_line(const char *text, size_t len, int columns)
{
	for (size_t at = 0; at < len; at += 1 + strcspn(text + at, "\n"))
		if (strcspn(text + at, "\n") > (size_t)columns)
			return true;
	return false;
}

void print_wrapped(const char *text, FILE *out)
{
	int columns = terminal_columns(out);

	while (columns && *text) {
		size_t len = paragraph(text);
		char *line = has_wide_line(text, len, columns) ? strndup(text, len) : NULL;

		if (line) {
			for (size_t i = 0; i < len; i++)
				line[i] = line[i] == '\n' ? ' ' : line[i];
			wrap_line(line, len, columns, out);
		} else {
			fprintf(out, "%.*s\n", (int)len, text);
		}
		free(line);
		text += len + (text[len] == '\n');
	}
	fputs(text, out);
}

/* ---- colors ---- */

const char *color_when;
static bool in_color; /* decided before a command with many inputs gives its stdout to others */

int check_color(const struct command *cmd)
{
	const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
	const char *when = color_when ? color_when : "auto";

	if (strcmp(when, "auto") != 0 && strcmp(when, "always") != 0 && strcmp(when, "never") != 0)
		return wrong_usage(cmd, "%s: --color %.40s: wanted 'auto', 'always' or 'never'", cmd->name, when);
	in_color = !strcmp(when, "always") ||
		   (!strcmp(when, "auto") && isatty(STDOUT_FILENO) && !(none && *none) &&
		    !(terminal && !strcmp(terminal, "dumb")));
	return EXIT_FINE;
}

static const char *when_in_color(const char *code)
{
	return in_color ? code : "";
}

const char *red(void)
{
	return when_in_color("\033[31m");
}

const char *green(void)
{
	return when_in_color("\033[32m");
}

const char *yellow(void)
{
	return when_in_color("\033[33m");
}

const char *bold(void)
{
	return when_in_color("\033[1m");
}

const char *plain(void)
{
	return when_in_color("\033[0m");
}
