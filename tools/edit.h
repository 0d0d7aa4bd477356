/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all commands that edit share: open IN, one or more edits, one write, one summary.
 *
 * A command has a table of steps, which this makes of its options; the library does the edits, and
 * prints nothing. Exit codes are decided here.
 */
#ifndef CKPT_TOOLS_EDIT_H
#define CKPT_TOOLS_EDIT_H

#include "command.h"
#include "many_files.h"

/* What is asked of every edit. */
struct edit_settings {
	bool force, no_sync, dry_run, if_present, in_place, free, hard_link;
	const char *reflink; /* "never", "auto", "always"; NULL: never */
	const char *profile; /* torch to write OUT like; NULL: the one that wrote IN */
	bool keeps_folder;   /* a directory around one file becomes one: out_becomes_folder() */
	const struct ckpt_side_file *files; /* to be written with OUT */
	size_t file_count;
};

/* IN, as it was given, if there is one edit alone; set by run_edit(). */
extern const char *edit_input;

/* For open_model(): take damaged bytes as they are, and list them. */
extern bool ignore_damage;

/* Write nothing if a cast loses numbers. */
extern bool check_overflow;

#define CHECK_OVERFLOW_OPT \
	OPT_FLAG("check-overflow", 0, &check_overflow, \
		 "if a cast makes a number infinite or 0, write nothing and exit with 1")

/* What each --cast of a chain takes; empty: weights. */
extern struct str_list cast_only;

/* How weights are quantized, whatever config.json says; NULL: as it says. */
extern const char *quant_as;

/* --dequantize[=DTYPE] of commands that read: NULL: as it is stored; "": USUAL of show_dequantized(). */
extern const char *dequantize_to;

/*
 * If --dequantize asks, put the checkpoint with plain weights in place of *MODEL, which was opened as PATH. One
 * without quantized weights stays, with a note. Returns the exit code, after a message.
 */
int show_dequantized(const char *path, const char *usual, struct ckpt_model **model);

#define DEQUANTIZE_OPT(usual) \
	OPT_OPTIONAL("dequantize", &dequantize_to, "DTYPE", \
		     "read quantized weights as numbers; default: " usual), \
		QUANT_AS_OPT

#define QUANT_FORMATS "fp8, compressed-tensors, modelopt, mxfp4, gptq, auto_gptq_0.6, gptq_v2, awq, bitsandbytes, torchao, torchao_0.17, transformer-engine, torch"
#define QUANT_AS_OPT \
	OPT_STR("as", 0, &quant_as, "FORMAT", \
		"how weights are quantized, whatever config.json says: fp8, gptq, awq")
#define CAST_AS_OPT \
	OPT_STR("as", 0, &quant_as, "FORMAT", \
		"how weights are quantized: fp8, gptq ...; plain: not at all")

#define HINT_AS_PLAIN "'--as plain' says that nothing is quantized"

#define IGNORE_DAMAGE_OPT \
	OPT_FLAG("ignore-damage", 0, &ignore_damage, \
		 "write even bytes that fail their checksum; list them and exit with 1")

#define EDIT_OPTS(s) \
	OPT_FLAG("in-place", 'i', &(s).in_place, \
		 "edit IN itself and write no OUT; crash-safe, moves no unchanged tensor"), \
		OPT_FLAG( \
			"free", 0, &(s).free, \
			"with -i, give dead blocks back; who has them mapped sees zeros"), \
		OPT_FLAG( \
			"force", 'f', &(s).force, \
			"replace OUT if it exists; with -i, edit even symlinks and hard links"), \
		OPT_STR("profile", 0, &(s).profile, "VERSION", \
			"write as this torch does; default: as IN (legacy streams: the newest)"), \
		OPT_STR("reflink", 0, &(s).reflink, "WHEN", \
			"share IN's blocks, not in torch's layout: auto, always; default: never"), \
		OPT_FLAG( \
			"hard-link", 0, &(s).hard_link, \
			"hard-link a directory's files; a later save to IN or OUT ruins both"), \
		IGNORE_DAMAGE_OPT, \
		OPT_FLAG("no-sync", 0, &(s).no_sync, "do not wait for the disk, like cp"), \
		OPT_FLAG("dry-run", 'n', &(s).dry_run, \
			 "say what would be done, write nothing; OUT may be left out"), \
		OPT_STR("jobs", 'j', &many_jobs, "N", \
			"with -i, edit N files at once, each by a process; default: 1"), \
		SPOOL_OPT, \
		OPT_FLAG("quiet", 'q', &quiet, "print errors only"), NAME_SKIPPED_OPT

#define AT_OPT(at) \
	OPT_LIST("at", 0, &(at), "NAME", \
		 "edit only the mapping NAME, and what is below it; may be repeated")

/* All edits, as options whose order counts. */
#define EDIT_STEP_OPTS(chain) \
	OPT_STEP("strip-module", &(chain), NULL, "take 'module.' off the keys"), \
	OPT_STEP("add-module", &(chain), NULL, "put 'module.' before the keys of modules"), \
	OPT_STEP("strip-prefix", &(chain), "PREFIX", "take PREFIX off the keys"), \
	OPT_STEP("strip-wrappers", &(chain), NULL, \
		 "take what wrappers put into keys off, as 'ckpt strip-prefix' does"), \
	OPT_STEP("add-prefix", &(chain), "PREFIX", "put PREFIX before the keys of modules"), \
	OPT_STEP("rename", &(chain), "s/A/B/", "rename keys, as 'ckpt rename -e' does"), \
	OPT_STEP("rename-map", &(chain), "FILE", \
		 "rename the keys that FILE lists, as 'ckpt rename --map' does"), \
	OPT_STEP("remap", &(chain), "OLD=NEW[,...]", \
		 "move tensors from device OLD to NEW, as 'ckpt remap' does"), \
	OPT_STEP("remap-all", &(chain), "DEVICE", "move everything to DEVICE"), \
	OPT_STEP("extract", &(chain), "NAME", "make the value called NAME the whole checkpoint"), \
	OPT_STEP("keep", &(chain), "PATTERN", "keep only entries that match"), \
	OPT_STEP("drop", &(chain), "PATTERN", "leave out entries that match"), \
	OPT_STEP("cast", &(chain), "DTYPE", "cast weights to DTYPE, as 'ckpt cast' does"), \
	OPT_STEP("cast-all", &(chain), "DTYPE", \
		 "cast all floating tensors to DTYPE, as 'ckpt cast --all' does"), \
	OPT_STEP("dequantize", &(chain), "FLOAT", \
		 "make quantized weights plain, as 'ckpt cast --dequantize' does"), \
	CAST_AS_OPT, \
	OPT_LIST("cast-only", 0, &cast_only, "PATTERN", \
		 "let every --cast take only tensors whose name matches; may be repeated"), \
	OPT_STEP("set", &(chain), "NAME=VALUE", \
		 "set a number, text, True, False or None; it keeps its type"), \
	OPT_STEP("set-json", &(chain), "NAME=JSON", \
		 "the same, and VALUE says the type: 3, 0.5, \"text\", true, null"), \
	OPT_STEP("sanitize", &(chain), NULL, "make it load with weights_only=True"), \
	OPT_STEP("compact", &(chain), NULL, "drop the bytes of storages that no tensor shows")

enum { MOST_REASON = 240 };

/* One edit of a chain. */
struct edit_step {
	const struct edit_kind *kind;
	struct str_list args; /* prefix, expressions, maps, patterns ... */
	const struct ckpt_key_options *keys; /* the options of its kind; NULL: none */
	const struct ckpt_remap_options *remap;
	const struct ckpt_cast_options *cast;
	const struct edit_kind *same_as; /* of a chain, with ARGS: for hints; NULL: KIND itself */
};

struct edit_kind {
	const char *name;	  /* as in `ckpt edit --NAME` */
	bool nothing_found_is_no; /* CKPT_E_NOTFOUND of APPLY is an answer, not an error */
	bool takes_dead_bytes; /* what edits in place left in the file is nothing to keep, either */
	bool merges;		  /* neighbors in a chain are one step with several arguments */
	/* Read what all files are edited by, before each has its own process; may be NULL. */
	int (*prepare)(const struct edit_step *step, struct ckpt_error *err);
	int (*apply)(const struct ckpt_model *in, const struct edit_step *step,
		     struct ckpt_model **out, struct ckpt_edit_report *report,
		     struct ckpt_error *err);
	/* Write to WHY why nothing was changed; return what to do instead. */
	const char *(*why_nothing)(const struct ckpt_model *in, const struct edit_step *step,
				   char why[MOST_REASON]);
	/* What might help where APPLY failed; may be NULL. */
	void (*hint_failed)(const struct ckpt_model *in, const struct edit_step *step,
			    const struct ckpt_error *err);
};

extern const struct edit_kind kind_strip_module, kind_add_module, kind_strip_prefix,
	kind_strip_wrappers, kind_add_prefix, kind_rename, kind_rename_map, kind_remap, kind_remap_all, kind_extract, kind_cast,
	kind_cast_all, kind_dequantize, kind_compact, kind_sanitize, kind_set, kind_set_json, kind_keep, kind_drop;

#define HINT_IF_PRESENT "--if-present writes OUT unchanged instead, with exit code 0"

/*
 * Open IN, apply the steps, save as OUT, print what was done. PATHS: IN and OUT, or any number of
 * INs for an edit in place. CMD is for messages. Returns the exit code.
 */
int run_edit(const struct command *cmd, const struct edit_settings *s,
	     const struct edit_step *steps, size_t count, char **paths, int path_count);

/* Make the *COUNT steps that the options in CHAIN ask for. The caller frees them. */
struct edit_step *make_steps(const struct step_list *chain, size_t *count);

/* Of NAME=VALUE: where VALUE begins; NULL: there is no '='. */
const char *set_value_of(const char *text);
/* Is KIND an option of 'ckpt edit' and 'ckpt convert'? */
bool is_chain_kind(const struct edit_kind *kind);

/* Check the options that change steps of CMD. Returns the exit code. */
int check_chain(const struct command *cmd, const struct step_list *chain);
void free_steps(struct edit_step *steps);

/*
 * Apply the steps one after the other, and replace *MODEL by the result. Each of the COUNT REPORTS
 * says what one step did. Of S, only if_present and in_place count. Returns the exit code.
 */
int apply_steps(const struct edit_settings *s, const struct edit_step *steps, size_t count,
		const char *in, struct ckpt_model **model, struct ckpt_edit_report *reports);

#define STRIP_WRAPPERS "--strip-wrappers"

/*
 * "11 of 32 keys begin with '_orig_mod.'": what wrappers have put into the names of keys; NULL:
 * nothing. Static. KEYS as for ckpt_count_wrappers().
 */
const char *wrappers_in(const struct ckpt_model *model, const struct ckpt_key_options *keys);

/*
 * The same of what is left in the result of STEPS, if one of them takes a prefix off and none puts
 * one on after it. To be asked for before the save, so that no memory means no output.
 */
const char *wrappers_left(const struct ckpt_model *model, const struct edit_step *steps,
			  size_t count);

/* Print a note that LEFT is left, with a hint; LEFT may be NULL. */
void note_wrappers(const char *left);

/*
 * A name that nothing has, for a dry run without OUT. It begins as that of IN does, since torch names the
 * records of a file after it, and their names have a size, too. To be freed.
 */
char *name_of_no_output(const char *in);

/*
 * Is OUT there, and a checkpoint with the names that MODEL has? Then it may be an input, and what was
 * forgotten is OUT.
 */
bool is_like_input(const struct ckpt_model *model, const char *out);

/*
 * Can MODEL, which was opened as IN, be written as OUT, and as S says? OUT NULL: in place. What
 * save_edited() will write is chosen here. The COUNT STEPS, which may be NULL, are for the hint.
 * Prints why not, and returns the exit code.
 */
int check_output(const struct edit_settings *s, const struct ckpt_model *model, const char *in,
		 const char *out, const struct edit_step *steps, size_t count);

/*
 * Save MODEL as OUT, NULL: in place, and print what COUNT STEPS did, which began at START. Returns
 * the exit code.
 */
int save_edited(const struct edit_settings *s, const struct ckpt_model *model,
		const struct edit_step *steps, const struct ckpt_edit_report *reports, size_t count,
		const char *out, double start);

/* Did an edit change anything? */
bool edit_changed(const struct ckpt_edit_report *report);

/* Print "14 keys renamed in 'model', ": what each step did, or also that one did nothing. */
void print_all_changes(const struct ckpt_edit_report *reports, size_t count, bool unchanged);

/* Print a note of each expression, and each name of a map, that no key matches. */
void note_unused(const struct ckpt_edit_report *report);

/* Print a note of the parts of quantized weights that casts have left, if any. */
void note_quantized(const struct ckpt_edit_report *reports, size_t count);

/* Print a note if the file of IN says of which class of torchao tensors are, and OUT, which was made of it, does not. */
void note_classes(const struct ckpt_model *in, const char *out);

/* Print a note of the numbers that casts have lost. */
void note_losses(const struct ckpt_model *model);

/* Print one line for every value that became something else. */
void list_replacements(const struct ckpt_edit_report *report);

/*
 * Check that every --at names a mapping; print a message and a suggestion for each that does not.
 * Returns the exit code.
 */
int check_at(const struct ckpt_model *model, const char *in, const struct ckpt_key_options *options);

/* Nothing is called NAME: suggest the name of a mapping. */
void hint_mapping_name(const struct ckpt_model *model, const char *name);

#endif
