/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help, and the man pages, from the tables of the commands: nothing is said here of a single one but
 * in the list of common tasks.
 */
#include "terminal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct opt help_opt = { OPT_KIND_FLAG, "help", 'h', NULL, NULL, "print this page" };

/* "-m, --match GLOB" */
static void spell(const struct opt *o, char *buf, size_t size)
{
	const char *sep = o->kind == OPT_KIND_OPTIONAL ? "[=" : " ";
	const char *end = o->kind == OPT_KIND_OPTIONAL ? "]" : "";
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(buf, size, "%s--%s%s%s%s", letter, o->name, o->arg ? sep : "",
		 o->arg ? o->arg : "", o->arg ? end : "");
}

static void print_opt(const struct opt *o, FILE *out)
{
	char spelled[80];

	spell(o, spelled, sizeof(spelled));
	if (strlen(spelled) > 26)
		fprintf(out, "  %s\n  %-26s  %s\n", spelled, "", o->help);
	else
		fprintf(out, "  %-26s  %s\n", spelled, o->help);
}

static const char many_in_place[] =
	"With -i the command takes many files and folders. A folder stands for every\n"
	"checkpoint below it; a directory of shards or ranks is one. Other files are\n"
	"skipped and counted. A failure does not stop the others. The exit code is 1 if\n"
	"that of any file is 1, else 2 if that of any is 2.\n";

/* "PREFIX IN [IN...]": the operands of CMD, the last of which is OUT, with -i. BUF has MOST_OPERANDS bytes. */
static const char *operands_in_place(const struct command *cmd, char *buf)
{
	char shown[MOST_OPERANDS];
	const char *operands = shown_operands(cmd, shown);
	int len = (int)(strrchr(operands, ' ') - operands), first = len;

	while (first > 0 && operands[first - 1] != ' ')
		first--;
	snprintf(buf, MOST_OPERANDS, "%.*s%s%.*s [%.*s...]", first, operands, strstr(operands, "...") ? "-- " : "",
		 len - first, operands + first, len - first, operands + first);
	return buf;
}

static void put_help(const struct command *cmd, FILE *out)
{
	char in_place[MOST_OPERANDS], shown[MOST_OPERANDS];

	fprintf(out, "usage: ckpt %s [OPTIONS]%s%s\n", cmd->name, *cmd->operands ? " " : "",
		shown_operands(cmd, shown));
	if (cmd->takes_many)
		fprintf(out, "       ckpt %s -i [OPTIONS] %s\n", cmd->name,
			operands_in_place(cmd, in_place));
	fprintf(out, "\n%s%s\n", cmd->summary, ends_with(cmd->summary, ".") ? "" : ".");
	if (cmd->details)
		fprintf(out, "\n%s", cmd->details);
	if (cmd->takes_many)
		fprintf(out, "\n%s", many_in_place);
	fprintf(out, "\nOptions:\n");
	for (const struct opt *o = cmd->opts; o->kind; o++)
		print_opt(o, out);
	print_opt(&help_opt, out);
	if (cmd->examples)
		fprintf(out, "\nExamples:\n%s", cmd->examples);
}

/*
 * What is asked for most, where no summary says which command does it. A test runs all lines. Lines begin
 * with a capital, since those of commands do not.
 */
static const char common_tasks[] =
	"Common tasks:\n"
	"  DDP trainer, to a plain model     ckpt edit IN OUT --extract model --strip-wrappers\n"
	"  Lightning, to a plain model       ckpt edit IN OUT --extract state_dict --strip-prefix model.\n"
	"  To the CPU, or to another GPU     ckpt remap --all cpu IN OUT\n"
	"  For the hub: shards, in bfloat16  ckpt convert IN DIR --shard-size 5GB --cast bf16\n"
	"  From the hub, to a file for DDP   ckpt convert DIR OUT --add-module\n"
	"  Count parameters, in each block   ckpt info IN; ckpt ls --parameters --depth module IN\n"
	"  Largest norms, without buffers    ckpt stat --parameters --sort norm IN\n"
	"  Is anything NaN or infinite?      ckpt stat -q --check-finite IN\n"
	"  What training changed most        ckpt diff --parameters --depth module --sort rms A B\n"
	"  The mean of several checkpoints   ckpt average --only model --others last A B OUT\n"
	"  Is a download whole? Save it      ckpt verify IN; ckpt repair IN OUT\n"
	"  Which files are safe to load?     ckpt scan --strict --json IN...\n"
	"  Drop the optimizer of many files  ckpt select -i --free --drop 'optimizer*' IN...\n"
	"  Rename keys by a list of pairs    ckpt rename --map LIST IN OUT\n"
	"  Print a slice; set a number       ckpt cat IN 'NAME[0:2]'; ckpt edit -i IN --set epoch=0\n"
	"  Why so large? Why no load?        ckpt why IN\n";

static void put_overview(const struct command *cmd, FILE *out)
{
	(void)cmd;
	fprintf(out,
		"ckpt %s: PyTorch checkpoints without Python\n\n"
		"usage: ckpt COMMAND [OPTIONS] IN [OUT]\n\n",
		ckpt_version());
	for (const struct command *const *each = commands; *each; each++)
		fprintf(out, "  %-14s %s\n", (*each)->name, (*each)->summary);
	fprintf(out, "\n%s", common_tasks);
	fprintf(out,
		"\n'ckpt help COMMAND' tells more. Nothing in a checkpoint is ever executed.\n"
		"IN may be '-', standard input; so may OUT of edits, average, merge and convert.\n"
		"Exit codes: 0 fine, 1 the answer is no, 2 error, 64 wrong usage, 128+n signal.\n");
}

/* What PUT prints, as it fits on OUT. */
static void put_fitting(void (*put)(const struct command *, FILE *), const struct command *cmd, FILE *out)
{
	char *text = NULL;
	size_t size;
	FILE *memory = terminal_columns(out) ? open_memstream(&text, &size) : NULL;

	put(cmd, memory ? memory : out);
	if (memory && fclose(memory) == 0 && text)
		print_wrapped(text, out);
	free(text);
}

void print_help(const struct command *cmd, FILE *out)
{
	put_fitting(put_help, cmd, out);
}

void print_overview(FILE *out)
{
	put_fitting(put_overview, NULL, out);
}

/* roff: escape a leading dot or quote, and every backslash and hyphen */
static void man_text(const char *text, FILE *out)
{
	bool line_start = true;

	for (; *text; text++) {
		if (line_start && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else
			fputc(*text, out);
		line_start = *text == '\n';
	}
}

static void man_opt(const struct opt *o, FILE *out)
{
	char spelled[80];
	const char *p = spelled;

	spell(o, spelled, sizeof(spelled));
	while (*p == ' ')
		p++;
	fputs(".TP\n.B ", out);
	man_text(p, out);
	fputs("\n", out);
	man_text(o->help, out);
	fputs(".\n", out);
}

static void man_upper(const char *text, FILE *out)
{
	for (; *text; text++)
		fputc(toupper((unsigned char)*text), out);
}

void print_man_page(const struct command *cmd, FILE *out)
{
	char in_place[MOST_OPERANDS], shown[MOST_OPERANDS];

	fputs(".TH CKPT\\-", out);
	man_upper(cmd->name, out);
	fprintf(out, " 1 \"\" \"ckpt %s\" \"ckpt manual\"\n.SH NAME\nckpt\\-", ckpt_version());
	man_text(cmd->name, out);
	fputs(" \\- ", out);
	man_text(cmd->summary, out);
	fputs("\n.SH SYNOPSIS\n.B ckpt ", out);
	man_text(cmd->name, out);
	fputs(*cmd->operands ? "\n[OPTIONS] " : "\n[OPTIONS]", out);
	man_text(shown_operands(cmd, shown), out);
	if (cmd->takes_many) {
		fputs("\n.br\n.B ckpt ", out);
		man_text(cmd->name, out);
		fputs(" \\-i\n[OPTIONS] ", out);
		man_text(operands_in_place(cmd, in_place), out);
	}
	fputs("\n.SH DESCRIPTION\n", out);
	fputc(toupper((unsigned char)cmd->summary[0]), out);
	man_text(cmd->summary + 1, out);
	fputs(ends_with(cmd->summary, ".") ? "\n" : ".\n", out);
	if (cmd->details) {
		fputs(".PP\n.nf\n", out);
		man_text(cmd->details, out);
		fputs(".fi\n", out);
	}
	if (cmd->takes_many) {
		fputs(".PP\n.nf\n", out);
		man_text(many_in_place, out);
		fputs(".fi\n", out);
	}
	fputs(".SH OPTIONS\n", out);
	for (const struct opt *o = cmd->opts; o->kind; o++)
		man_opt(o, out);
	man_opt(&help_opt, out);
	if (cmd->examples) {
		fputs(".SH EXAMPLES\n.nf\n", out);
		man_text(cmd->examples, out);
		fputs(".fi\n", out);
	}
	fputs(".SH EXIT STATUS\n0 fine, 1 the answer is no, 2 error, 64 wrong usage, 128+n signal.\n"
	      ".SH SEE ALSO\n.BR ckpt (1)\n",
	      out);
}
