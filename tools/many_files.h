/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_MANY_FILES_H
#define CKPT_TOOLS_MANY_FILES_H

#include "command.h"

/* What one of several inputs came to. The command sets it where it prints the line about it. */
struct one_result {
	const char *path, *shown; /* set before; SHOWN is escaped */
	const char *word; /* one of many_files.words; NULL: the exit code says which */
	uint64_t tensors, elements, nbytes;
	uint64_t dead, freed; /* dead bytes that are left, and those that went back to the disk */
};

/* NULL: there is one input, and the command prints all about it, as if there were no others. */
extern struct one_result *one_of_many;

extern const char *many_jobs;

#define JOBS_OPT \
	OPT_STR("jobs", 'j', &many_jobs, "N", "take N files at once, each by a process; default: 1")
#define NAME_SKIPPED_OPT \
	OPT_FLAG("verbose", 'v', &verbose, "also name files in folders that are no checkpoints")

#define MANY_FILES \
	"A folder stands for every checkpoint below it; a directory of shards or ranks is\n" \
	"one. Other files are skipped and counted.\n"

enum { MOST_WORDS = 5 };
enum { WORTH_SAYING = 4096 }; /* of dead bytes: a block of the disk */

/* What a command does with many inputs. */
struct many_files {
	const struct command *cmd;
	/*
	 * Do what the command does with PATH, print all about it, and return the exit code. If there
	 * are several inputs, it runs in a process of its own, and each line gets the name of the
	 * input if it does not begin with it.
	 */
	int (*one)(const char *path, void *ctx);
	void *ctx;
	bool edits;		       /* whatever names a file has, it is taken once */
	bool directories; /* in folders, it passes over checkpoints that are files */
	const char *words[MOST_WORDS]; /* for the totals; first those of exit codes 0 and 1 */
	const char **json; /* the target of --json; NULL: there is no such option */
	const char *one_alone; /* why there may be one input alone; NULL: there may be many */
	bool bare_entries; /* ONE prints an entry of "inputs", not a document of its own */
	const char *written; /* what NBYTES of the totals are: "written"; NULL: sizes */
	const char *dead;    /* "are dead bytes now": what DEAD of the totals are */
};

/* Set *JOBS, which has its default, if there is --jobs. False: it says why not. */
bool parse_jobs(const struct command *cmd, uint32_t *jobs);

/*
 * Take all of PATHS, in this order, and the checkpoints in those that are folders. One input alone is
 * taken as if there were no others. Returns the exit code: EXIT_NO if that of any is, else EXIT_ERROR
 * if that of any is, else EXIT_FINE.
 */
int run_many(const struct many_files *m, char **paths, size_t count);

/*
 * Of the COUNT operands of a command that takes IN and PATTERNs: move those that are inputs to the
 * front, and append the others to PATTERNS. The first is an input, and of the others those that are
 * there; all of them if PATTERNS were given by an option (-m). Returns how many are inputs.
 */
size_t separate_patterns(char **operands, size_t count, struct str_list *patterns);

/* Nothing matched PATTERN, an operand: hint if it looks like the name of a file. */
void hint_no_file(const char *pattern);

#endif
