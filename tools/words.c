/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <string.h>

/* What may stand behind an option, for completion and "did you mean". A test compares it with what commands accept. */

#define DTYPES \
	" bfloat16 float16 float32 float64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu" \
	" bf16 fp16 fp32 fp64 fp8 "
#define DEVICES " cpu cuda:0 cuda:1 cuda:2 cuda:3 meta "

static const struct {
	const char *command; /* NULL: each that has the option */
	const char *option, *words;
	bool open;
} rows[] = {
	{ "ls", "sort", " name size storage ", false },
	{ "stat", "sort", " name size min max mean std norm absmax zeros nan inf ", false },
	{ "diff", "sort", " change rms name ", false },
	{ "convert", "to", " torch torch-legacy safetensors npz npy ", false },
	{ NULL, "to", " dcp safetensors ", false },
	{ "convert", "shared", " error clone alias ", false },
	{ NULL, "shared", " error clone ", false },
	{ NULL, "crc", " on off ", false },
	{ NULL, "byteorder", " little big ", false },
	{ NULL, "from-byteorder", " little big ", false },
	{ NULL, "color", " auto always never ", false },
	{ NULL, "reflink", " never auto always ", false },
	{ NULL, "fill", " zeros nan ", false },
	{ NULL, "others", " last ", false },
	{ NULL, "profile", " 1.6 1.9 1.13 2.1 2.6 2.7 2.14 ", true },
	{ NULL, "for-torch", " 1.13 2.0 2.6 2.14 ", true },
	{ "ls", "depth", " module ", true },
	{ "stat", "depth", " module ", true },
	{ "diff", "depth", " module ", true },
	{ NULL, "dim", " best 0 1 ", true },
	{ NULL, "part", " indices values int_repr scales ", true },
	{ "broadcast", "if-exists", " reuse replace error ", false },
	{ "broadcast", "target", " file gpu null ", false },
	{ "broadcast", "progress", " lines json ", false },
	{ "broadcast", "verify", " crc none reread ", false },
	{ "broadcast", "transport", " nccl mpi self ", true },
	{ "broadcast", "launcher", " torchrun openmpi mpich slurm k8s env none ", true },
	{ "broadcast", "rdzv", " auto pmix mpi file: tcp:// env id: ", true },
};

const char *option_words(const struct command *cmd, const struct opt *option, bool *open)
{
	*open = false;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].option, option->name) &&
		    (!rows[i].command || !strcmp(rows[i].command, cmd->name))) {
			*open = rows[i].open;
			return rows[i].words;
		}
	*open = true; /* int8, with --to-integer; any number behind "cuda:" */
	return option->arg ? operand_words(option->arg) : NULL;
}

const char *operand_words(const char *name)
{
	return !strcmp(name, "DTYPE") ? DTYPES : !strcmp(name, "DEVICE") ? DEVICES : NULL;
}

bool is_one_of(const char *word, const char *words)
{
	size_t len = strlen(word);

	if (!len || strchr(word, ' '))
		return false;
	for (const char *at = words; (at = strstr(at, word)); at++)
		if (at[-1] == ' ' && at[len] == ' ')
			return true;
	return false;
}

const char *suggest_word(const char *word, const char *words, char *buf)
{
	enum { MOST_TEXTS = 24 };
	static char texts[MOST_TEXTS][MOST_WORD];
	const char *list[MOST_TEXTS + 1], *near;
	size_t count = 0, len;

	for (const char *at = words + 1; *at && count < MOST_TEXTS; at += len + 1) {
		len = strcspn(at, " ");
		snprintf(texts[count], MOST_WORD, "%.*s", (int)len, at);
		list[count] = texts[count];
		count++;
	}
	list[count] = NULL;
	near = suggest(word, list);
	if (near)
		snprintf(buf, MOST_WORD, "%s", near);
	return near ? buf : NULL;
}
