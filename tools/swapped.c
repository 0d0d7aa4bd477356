/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands that stand in each other's place: 'ckpt cast IN OUT bf16'.
 *
 * What must stay true: nothing that the command could do is refused. Either the file that would be
 * read is not there, or what stands in DTYPE's place is none. And a wrong name of a file alone is
 * never taken for something else: what is moved looks like no file.
 */
#include "words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_there(const char *name)
{
	return !strcmp(name, "-") || access(name, F_OK) == 0 || strstr(name, "::");
}

/* Would people call a checkpoint that? */
static bool looks_like_file(const char *name)
{
	static const char *const ends[] = { ".pt",	    ".pth", ".bin",   ".ckpt",
					    ".safetensors", ".pkl", ".npz",   ".json",
					    ".zip",	    ".tar", ".distcp" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends_with(name, ends[i]))
			return true;
	return strchr(name, '/') != NULL;
}

/* A file or folder that has the name of a part of a model, "model", is none. */
static bool may_be_checkpoint(const char *name)
{
	static const char *const inside[] = { ".metadata", "model.safetensors.index.json",
					      "pytorch_model.bin.index.json" };
	char path[1024];
	struct stat st;

	if (stat(name, &st) < 0 || !S_ISDIR(st.st_mode))
		return looks_like_file(name);
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
		if (snprintf(path, sizeof(path), "%s/%s", name, inside[i]) < (int)sizeof(path) &&
		    access(path, F_OK) == 0)
			return true;
	return false;
}

static bool is_dtype(const char *word)
{
	static const char integers[] = " int64 int32 int16 int8 uint8 bool f16 f32 f64 ";

	if (!strncmp(word, "torch.", 6))
		word += 6;
	return is_one_of(word, operand_words("DTYPE")) || is_one_of(word, integers);
}

/* "cpu", "cuda:1" */
static bool is_device(const char *word)
{
	static const char types[] = " cpu cuda mps xpu hpu xla meta npu ";
	size_t len = strcspn(word, ":");
	char type[16];

	snprintf(type, sizeof(type), "%.*s", (int)len, word);
	if (len >= sizeof(type) || !is_one_of(type, types))
		return false;
	return !word[len] ||
	       (word[len + 1] && !word[len + 1 + strspn(word + len + 1, "0123456789")]);
}

static void put_word(const char *word, FILE *out)
{
	char *quoted = shell_word(word);

	fprintf(out, " %s", quoted);
	free(quoted);
}

/* Hint at the command line with the options of ARGV before FIRST, with EXTRA, and with OPERANDS. */
static void hint_line(const struct command *cmd, char **argv, int first, const char *extra,
		      char **operands, int count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	fprintf(out, "ckpt %s", cmd->name);
	for (int i = 1; i < first; i++) {
		if (extra && i == first - 1 && !strcmp(argv[i], "--"))
			continue;
		put_word(argv[i], out);
	}
	fputs(extra ? extra : "", out);
	for (int i = 0; i < count; i++)
		put_word(operands[i], out);
	if (fclose(out) == 0 && text)
		hint("%s", text);
	free(text);
}

static const char *shown(const char *word, char *buf)
{
	return ckpt_escape(buf, 100, word, strlen(word));
}

/* Say that operand AT is the one that BELONGS in front of the others. */
static int refuse(const struct command *cmd, int argc, char **argv, int first, int at,
		  const char *belongs)
{
	char **operands = argv + first, *moved = operands[at], *before = operands[0], a[100],
	     b[100];
	int count = argc - first;

	memmove(operands + 1, operands, (size_t)at * sizeof(*operands));
	operands[0] = moved;
	complain("%s: '%s' stands where %s belongs, and '%s' where %s does", cmd->name,
		 shown(before, a), belongs, shown(moved, b),
		 at == 2 && !(cmd->one_less && *cmd->one_less) ? "OUT" : "IN");
	hint_line(cmd, argv, first, NULL, operands, count);
	return EXIT_USAGE;
}

/* Which operand is the DTYPE, where the first is none? 0: no one knows. */
static int find_dtype(char **operands, int count)
{
	if (is_dtype(operands[0]) || !is_there(operands[0]))
		return 0;
	for (int i = 1; i < count; i++)
		if (is_dtype(operands[i]) && !is_there(operands[i]))
			return i;
	return 0;
}

/* Which operand is the NAME or PREFIX, where the first is a file? 0: no one knows. */
static int find_name(char **operands, int count, bool in_place)
{
	int found = 0;

	if (!is_there(operands[0]) || !may_be_checkpoint(operands[0]) ||
	    (!in_place && is_there(operands[1])))
		return 0;
	if (!in_place && !looks_like_file(operands[1]))
		return 1;
	for (int i = 1; i < count; i++) {
		if (is_there(operands[i]) || (!in_place && i == 1))
			continue;
		if (found || looks_like_file(operands[i]))
			return 0;
		found = i;
	}
	return found;
}

static int refuse_swapped_pair(const struct command *cmd, char **argv, int first)
{
	char **operands = argv + first, *swapped[] = { operands[1], operands[0] }, a[100], b[100];

	if (is_there(operands[0]) || !is_there(operands[1]) ||
	    (looks_like_file(operands[0]) && !looks_like_file(operands[1])))
		return EXIT_FINE;
	complain("%s: '%s' stands where IN belongs, and '%s' where NAME does", cmd->name,
		 shown(operands[0], a), shown(operands[1], b));
	hint_line(cmd, argv, first, NULL, swapped, 2);
	return EXIT_USAGE;
}

int refuse_swapped(const struct command *cmd, int argc, char **argv, int first)
{
	bool in_place = cmd->one_less && *cmd->one_less;
	int count = argc - first, at;
	char belongs[8];

	if (!strcmp(cmd->operands, "IN NAME") && count == 2)
		return refuse_swapped_pair(cmd, argv, first);
	snprintf(belongs, sizeof(belongs), "%.*s", (int)strcspn(cmd->operands, " "), cmd->operands);
	if (strcmp(belongs, "DTYPE") && strcmp(belongs, "NAME") && strcmp(belongs, "PREFIX"))
		return EXIT_FINE;
	if ((cmd->no_first && *cmd->no_first) || count < 2 || (!in_place && count != 3))
		return EXIT_FINE;
	at = !strcmp(belongs, "DTYPE") ? find_dtype(argv + first, count)
				       : find_name(argv + first, count, in_place);
	return at ? refuse(cmd, argc, argv, first, at, belongs) : EXIT_FINE;
}

int refuse_no_map(const struct command *cmd, int argc, char **argv, int first, int wrong)
{
	char **operands = argv + first, *sorted[64], all[40], text[100];
	int count = argc - first, at = -1, used = 0;

	if (is_there(argv[wrong]) || is_device(argv[wrong]))
		for (int i = 0; at < 0 && i < count; i++)
			if (!is_there(operands[i]) &&
			    (is_device(operands[i]) || strchr(operands[i], '=')))
				at = i;
	if (at < 0 || count > 64)
		return EXIT_FINE;
	if (is_device(operands[at])) {
		complain("%s: '%s': wanted OLD=NEW", cmd->name, shown(operands[at], text));
		snprintf(all, sizeof(all), " --all %s", operands[at]);
		memmove(operands + at, operands + at + 1,
			(size_t)(count - at - 1) * sizeof(*operands));
		hint_line(cmd, argv, first, all, operands, count - 1);
		return EXIT_USAGE;
	}
	for (int maps = 1; maps >= 0; maps--)
		for (int i = 0; i < count; i++)
			if ((!is_there(operands[i]) && strchr(operands[i], '=')) == maps)
				sorted[used++] = operands[i];
	complain("%s: '%s' stands where OLD=NEW belongs", cmd->name, shown(argv[wrong], text));
	hint_line(cmd, argv, first, NULL, sorted, count);
	return EXIT_USAGE;
}
