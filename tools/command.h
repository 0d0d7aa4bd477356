/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every command uses: the tables of options and commands, messages, texts, signals, progress,
 * and opening and saving with the right exit code.
 *
 * What must stay true: a command is one const table, from which parsing, --help, completion and the
 * man page are made. Results go to stdout, everything else to stderr. A command ends with
 * finish_output(), so that a full disk behind stdout is an error. Nothing here needs more than
 * <ckpt/ckpt.h>.
 */
#ifndef CKPT_TOOLS_COMMAND_H
#define CKPT_TOOLS_COMMAND_H

#include <ckpt/ckpt.h>

#include <stdio.h>

enum exit_code { EXIT_FINE = 0, EXIT_NO = 1, EXIT_ERROR = 2, EXIT_USAGE = 64 };

/* ---- options: one table per command ---- */

enum opt_kind {
	OPT_KIND_END,
	OPT_KIND_FLAG,
	OPT_KIND_STR,
	OPT_KIND_LIST,
	OPT_KIND_OPTIONAL,
	OPT_KIND_STEP,
};

struct str_list {
	const char **items;
	size_t count;
};

/* Options whose order matters go into one list. */
struct step_list {
	struct {
		const char *name, *value;
	} * items;
	size_t count;
};

struct opt {
	enum opt_kind kind;
	const char *name;
	char letter;	 /* or 0 */
	void *target;	 /* bool, const char *, struct str_list or struct step_list */
	const char *arg; /* name of the argument; a step without one takes none */
	const char *help;
};

#define OPT_FLAG(name, letter, target, help) \
	{ \
		OPT_KIND_FLAG, name, letter, target, NULL, help \
	}
#define OPT_STR(name, letter, target, arg, help) \
	{ \
		OPT_KIND_STR, name, letter, target, arg, help \
	}
#define OPT_LIST(name, letter, target, arg, help) \
	{ \
		OPT_KIND_LIST, name, letter, target, arg, help \
	}
#define OPT_STEP(name, target, arg, help) \
	{ \
		OPT_KIND_STEP, name, 0, target, arg, help \
	}
/* --name or --name=ARG; the target is "" for the bare form */
#define OPT_OPTIONAL(name, target, arg, help) \
	{ \
		OPT_KIND_OPTIONAL, name, 0, target, arg, help \
	}
#define OPT_END \
	{ \
		OPT_KIND_END, NULL, 0, NULL, NULL, NULL \
	}

/* In the table of every command that takes a pipe as IN: '-', or a name such as /dev/stdin. */
#define SPOOL_OPT \
	OPT_STR("spool-limit", 0, &spool_limit, "SIZE", \
		"keep up to SIZE of a pipe ('-') in TMPDIR or /tmp; default: 16G")

extern const char *spool_limit;

struct command {
	const char *name;
	const char *operands; /* "IN OUT" */
	const char *summary;  /* one line */
	const char *details;  /* paragraphs; may be NULL */
	const char *examples; /* lines of "command\n"; may be NULL */
	const struct opt *opts;
	int least, most; /* operands; most -1: any number */
	/* set by an option (-i) that takes the place of the last operand; or NULL */
	const bool *one_less;
	bool takes_many; /* ... and then allows any number of the operand before it */
	/* set by an option (--strip-wrappers) that takes the place of the first; or NULL */
	const bool *no_first;
	bool dry_without_out; /* a dry run may leave out OUT, the last operand, as it may with takes_many */
	int (*run)(int argc, char **argv);
};

/* In the order of the help screen; the last one is NULL. */
extern const struct command *const commands[];

const struct command *find_command(const char *name);

/* Print that no command is called NAME, and suggest one. Returns the exit code. */
int unknown_command(const char *name);

/* What does that for which people type WORD, as a hint; NULL: nothing known. */
const char *other_word(const char *word);

/*
 * Parse the options of CMD. Returns the index of the first operand, or -1 - exit code if the
 * command is already done (--help, wrong usage). Options may follow operands.
 */
int parse_options(const struct command *cmd, int argc, char **argv);

enum { MOST_OPERANDS = 80 };

/*
 * "(PREFIX | --strip-wrappers) IN OUT": the operands of CMD as usage lines have them, with the option that takes the
 * place of the first, if there is one. BUF has MOST_OPERANDS bytes.
 */
const char *shown_operands(const struct command *cmd, char *buf);

/* A dry run needs no OUT: is none among the COUNT operands of CMD? After its options are parsed. */
bool lacks_out(const struct command *cmd, int count, char *const *operands);

/*
 * Set options that the command line did not give from variables: CKPT_BROADCAST_READERS=4. For
 * commands without lists and steps. Returns the exit code.
 */
int read_option_variables(const struct command *cmd);

/* "broadcast: --readers 4", or the variable that set it, for a message. Static. */
const char *option_text(const struct command *cmd, const char *option, const char *value);

/* One message on stderr: "ckpt: ..." */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Print ERR and return the exit code for it. */
int fail(const struct ckpt_error *err);

/* Make ERR one of the command's own, as if the library had made it. Returns STATUS. */
int set_error(struct ckpt_error *err, enum ckpt_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

const char *wrong_usage_text(void); /* what it said last, "" before */
int wrong_usage(const struct command *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The word of WORDS, which ends with NULL, that is closest to WORD; NULL if none is close. */
const char *suggest(const char *word, const char *const *words);

void print_help(const struct command *cmd, FILE *out);
void print_overview(FILE *out);
void print_man_page(const struct command *cmd, FILE *out);

/* ---- text ---- */

/* "1.5G", powers of 1000; BUF has 16 bytes. */
const char *human_size(uint64_t nbytes, char *buf);
/* The same for a sentence: "1.5G", "747 bytes"; BUF has 16 bytes. */
const char *size_phrase(uint64_t nbytes, char *buf);

/* "1.52 s"; BUF has 32 bytes. */
const char *seconds_phrase(double s, char *buf);

/*
 * Like snprintf(), strtod() and strtof(), but with a '.' in every locale. number_text() returns
 * BUF.
 */
char *number_text(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
double number_of(const char *text, char **end);
float float_of(const char *text);

/* Like strerror(), in English. */
const char *errno_text(int code);
/* A + B, or UINT64_MAX: files may claim any size. */
uint64_t sum(uint64_t a, uint64_t b);
/* 11689512 -> "11,689,512"; BUF has 32 bytes. */
const char *grouped(uint64_t n, char *buf);
/* "s", or "" for one: "%s tensor%s" */
const char *plural(uint64_t n);
/* "[64, 3, 7, 7]" */
const char *shape_text(const struct ckpt_tensor_info *t, char *buf, size_t size);

/*
 * WORD as a POSIX shell takes it: as it is, or quoted. What no terminal should get is escaped, and such
 * a word is another one. To be freed.
 */
char *shell_word(const char *word);

/* How many columns TEXT takes on a screen. */
size_t text_columns(const char *text);
/* Print TEXT, spaces up to WIDTH, and two more. */
void print_padded(const char *text, int width);
/* The larger of HAVE and WANT, which is limited to MOST. */
int wider(int have, size_t want, int most);

/* "64K", "1M", "512", powers of 1024; false: it is not a size. */
bool parse_size(const char *text, uint64_t *out);

/* What is behind --depth: a number from 1 on, or "module"; NULL leaves *OUT alone. False: it is neither. */
bool parse_depth(const char *text, uint64_t *out);

/* "5GB", "1.5G", "500MB", powers of 1000; false: it is not a size, or it is 0. */
bool parse_decimal_size(const char *text, uint64_t *out);

bool ends_with(const char *text, const char *end);

extern bool quiet, verbose;

/* Every command ends with this: a full disk behind stdout is an error. Returns the exit code. */
int finish_output(int code);
/* The same of OUT, which is standard output under another descriptor. */
int finish_stream(FILE *out, int code);

/* From now on, finish_output() turns EXIT_FINE into EXIT_NO. */
void answer_is_no(void);

/* ---- signals and progress ---- */

/* Catch Ctrl-C and the signals of batch systems. Returns the flag for ckpt_save_options.cancel. */
const volatile int *catch_signals(void);
/* Let them end the process again. */
void release_signals(void);
/* If a signal came, end the process by it, so that the caller sees 128+n. */
void end_by_signal(void);
void show_progress(void *ctx, uint64_t done, uint64_t total);
/* The same for a job of many inputs. */
void show_count(uint64_t done, uint64_t total);
void end_progress(void);
/* Show no progress any more: another process does. */
void forget_terminal(void);
extern bool progress_in_lines; /* not only on a terminal */
double seconds(void);	       /* by a clock that only goes forward */

/* ---- input and output ---- */

/*
 * Returns 0, or prints why one of them cannot be the name of a file ("-", "") and returns the exit
 * code.
 */
int refuse_names(const char *in, const char *out);

/* The same for a file to be written that is named "folder/". */
int refuse_folder_name(const char *out);

/*
 * Refuse to give a torch.save file the name of another format, which would mislead its readers.
 * Returns the exit code.
 */
int refuse_other_name(const char *out);

/* False: it failed, the message is printed, and *CODE is the exit code. */
bool open_model(const char *in, struct ckpt_model **out, int *code);

/* The same, with FLAGS of enum ckpt_open_flags. */
bool open_model_with(const char *in, unsigned flags, struct ckpt_model **out, int *code);

/* Opening IN failed: hint at 'ckpt repair' if that may help. */
void hint_repair(const char *in, const struct ckpt_error *err);

/* Print why OUT was not written, with a hint if -f would help, and return the exit code. */
int save_failed(const struct ckpt_error *err, bool force);

#endif
