/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of `why` share: the state dicts of a file, the causes that were found, and the ways out
 * that are printed for them.
 *
 * What must stay true: a way out is a command that runs as it stands, or advice in words; none is
 * offered that would run what the file says, or that leaves a part of the keys as they were.
 */
#ifndef CKPT_WHY_WHY_H
#define CKPT_WHY_WHY_H

#include "base/buf.h"
#include "format/format.h"
#include "model/model.h"

#include <ckpt/quant.h>
#include <ckpt/why.h>

#include <string.h>

/* A mapping of names to tensors, as a module's state_dict() gives it. */
struct ckpt_why_dict {
	const char *name; /* as ckpt_find() takes it; "" for the root */
	const struct ckpt_value *value;
	const struct ckpt_seq *pairs;
	uint32_t tensors;
};

/* Is it the root, or an entry of the root whose key is its name? */
static inline bool ckpt_why_has_plain_name(const struct ckpt_why_dict *dict)
{
	return dict->name[0] != '[' && !strchr(dict->name, '.');
}

enum { CKPT_WHY_MOST_DICTS = 64 };

/* What is at the path. */
struct ckpt_facts {
	const char *path; /* NULL: nothing was given */
	bool folder;
	struct ckpt_model *model; /* NULL: it does not open, and OPENING says why */
	struct ckpt_error opening;
	struct ckpt_identity identity; /* of a file that does not open */
	bool is_cut_zip;	       /* a zip archive without its end */
	uint8_t first;		       /* byte of the file; 0 if it is empty */
	bool is_server_error;	       /* its text is what a server sends instead of the file */
	struct ckpt_file_info file;    /* of a model */
	struct ckpt_why_dict dicts[CKPT_WHY_MOST_DICTS];
	uint32_t dict_count;
	const char *optimizer; /* the name of the first; NULL: none */
	const char *module;    /* the name of the first that was saved whole; NULL: none */
	const char *module_class;
	const char *root_type; /* "dict", "OrderedDict", ... */
	bool root_is_mapping;
	/* of ckpt_quant_open(), once KNOWN: see quantized_causes.c */
	struct ckpt_quant *quant;
	struct ckpt_error quant_error;
	int quant_status;
	bool quant_known;
};

enum { CKPT_WHY_MOST_LINES = 24, CKPT_WHY_MOST_REPORTED = 96 };

/* One call of ckpt_why(). */
struct ckpt_why {
	struct ckpt_why_options options;
	struct ckpt_why_report report;
	int (*found)(void *ctx, const struct ckpt_cause *cause);
	void *ctx;
	struct ckpt_arena *arena; /* all texts */
	struct ckpt_facts facts;
	const char *error; /* cleaned: see ckpt_why_clean(); NULL: none */
	size_t error_len;
	struct ckpt_cause cause; /* that is being reported */
	const char *fact[CKPT_WHY_MOST_LINES];
	struct ckpt_mend mend[CKPT_WHY_MOST_LINES];
	const char *reported[CKPT_WHY_MOST_REPORTED]; /* ids */
	uint32_t reported_count;
	const char *out; /* a path for what the commands of this cause make; NULL: not asked for yet */
	bool dangerous;	 /* it was reported that it runs code: no line that loads it is given after that */
	int outs;	 /* the number in the last such path: no two causes have the same one */
	int failed;	 /* status of what failed first; nothing is reported after it */
};

/*
 * What a pattern found in the error. Captures are NUL-terminated copies, not escaped; those that
 * took no part in the match are "".
 */
enum { CKPT_WHY_MOST_CAPTURES = 4 };
struct ckpt_match {
	const char *all;
	const char *part[CKPT_WHY_MOST_CAPTURES]; /* 0: the first group */
	size_t end;				  /* behind it in the error */
};

/* ---- report.c ---- */

/*
 * Begin a cause. False: it was reported already, or memory is out. Escape what comes from files or
 * from the error: see ckpt_why_show().
 */
bool ckpt_why_begin(struct ckpt_why *w, const char *id, enum ckpt_certainty certainty,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void ckpt_why_fact(struct ckpt_why *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The fact why the file does not open. */
void ckpt_why_fact_opening(struct ckpt_why *w);
void ckpt_why_command(struct ckpt_why *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void ckpt_why_python(struct ckpt_why *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, of a line with torch.load(), which takes no directory: of one, it is merged first. */
void ckpt_why_python_load(struct ckpt_why *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void ckpt_why_words(struct ckpt_why *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Give the cause to the caller. */
void ckpt_why_end(struct ckpt_why *w);

/* Printed to the arena; "" if memory is out, which makes the call fail. */
const char *ckpt_why_print(struct ckpt_why *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Escaped, for sentences: at most 120 bytes of it. */
const char *ckpt_why_show(struct ckpt_why *w, const char *text);
/* For a shell: as it is, or quoted. */
const char *ckpt_why_quote(struct ckpt_why *w, const char *text);
/* A Python string. */
const char *ckpt_why_python_text(struct ckpt_why *w, const char *text);
/* The path for a command line: quoted, and no option. */
const char *ckpt_why_in(struct ckpt_why *w);
/* A path beside it where nothing is yet, likewise; "model.pt" -> "model-mended.pt". */
const char *ckpt_why_out(struct ckpt_why *w);
/* The path without the ending CUT, "model.pt.gz" without ".gz", where nothing is yet. */
const char *ckpt_why_out_without(struct ckpt_why *w, const char *is_cut_zip);
/* The commands of this cause write one file of a directory: FOLDER-mended.pt. */
void ckpt_why_one_file(struct ckpt_why *w);
/* A file beside the directory FOLDER (raw) where nothing is yet, for a command line. */
const char *ckpt_why_merged(struct ckpt_why *w, const char *folder);
/* A new directory for the shards of the file, for a command line. */
const char *ckpt_why_shards(struct ckpt_why *w);
/* "torch.load('model.pt'ARGUMENTS)" */
const char *ckpt_why_load(struct ckpt_why *w, const char *arguments);
/* "torch.load('model.pt')['state_dict']"; without the entry if DICT is NULL, the root or deeper. */
const char *ckpt_why_load_dict(struct ckpt_why *w, const struct ckpt_why_dict *dict);

/* Advice for a file that is cut off or damaged. */
extern const char ckpt_why_copy_again[];

/* Is the file small enough to read all of it for an answer? */
bool ckpt_why_is_small(const struct ckpt_why *w);

/* ---- steps.c: the edits that make a checkpoint fit, as one command line ---- */

enum { CKPT_WHY_MOST_STEPS = 6 };
struct ckpt_why_steps {
	const char *extract;  /* the name of the entry that becomes the root; NULL */
	const char *drop;     /* " --drop NAME ...", which comes next; NULL */
	const char *wrappers; /* all prefixes of wrappers go: the first of them; NULL */
	const char *keep;     /* a pattern of what is kept then; NULL: everything */
	const char *strip[CKPT_WHY_MOST_STEPS]; /* prefixes, in this order */
	uint32_t strip_count;
	const char *inside[CKPT_WHY_MOST_STEPS]; /* wrappers inside of names */
	uint32_t inside_count;
	const char *add;			 /* a prefix; NULL */
	const char *rename[CKPT_WHY_MOST_STEPS]; /* expressions */
	uint32_t rename_count;
	bool guessed; /* from the order of the names: they alone do not say which is which */
};
void ckpt_why_steps_command(struct ckpt_why *w, const struct ckpt_why_steps *steps);
/* All of them as options of 'ckpt edit', each behind a space. */
const char *ckpt_why_steps_options(struct ckpt_why *w, const struct ckpt_why_steps *steps);

/* ---- wrappers.c ---- */

/* Who puts PREFIX there, or NULL. */
const char *ckpt_why_wrapper(const char *prefix);
/*
 * What a model is whose names begin with PREFIX: "inside of FSDP", "a part of another module".
 * SAVED: how it was saved, "from inside of FSDP", "as a part of another module".
 */
const char *ckpt_why_prefix(struct ckpt_why *w, const char *prefix, bool saved);

/* ---- facts.c ---- */

int ckpt_facts_read(struct ckpt_why *w, const char *path, struct ckpt_error *err);
/* Only the part about the model, which is open already. */
int ckpt_facts_list_dicts(struct ckpt_why *w, struct ckpt_error *err);
void ckpt_facts_clear(struct ckpt_facts *facts);

/* The number of the entry KEY among the pairs of DICT, times two, or -1. */
int64_t ckpt_why_find(const struct ckpt_why *w, const struct ckpt_why_dict *dict, const char *key);

/* The dict that has most of the COUNT keys, *HITS of them; NULL: none has one. */
const struct ckpt_why_dict *ckpt_why_dict_with(const struct ckpt_why *w, const char *const *keys,
					       size_t count, size_t *hits);

/* The one with the most tensors, or NULL. */
const struct ckpt_why_dict *ckpt_why_largest(const struct ckpt_why *w);

/*
 * ---- causes: each checks whether it applies and reports it. True: reported, now or before. ----
 *
 * MATCH: the message that asks; NULL: none was given, only the file is checked.
 */

typedef bool ckpt_why_check(struct ckpt_why *w, const struct ckpt_match *match);

/* what the file is (file_causes.c, damage_causes.c, directory_causes.c) */
ckpt_why_check ckpt_why_check_file;	 /* no checkpoint, damaged, cut off */
ckpt_why_check ckpt_why_check_program;	 /* TorchScript and others that torch.load does not take */
ckpt_why_check ckpt_why_check_shards;	 /* a directory where something is missing */
ckpt_why_check ckpt_why_check_directory; /* ... or that is given where a file is wanted */
ckpt_why_check ckpt_why_check_damage;	 /* a checkpoint that is damaged or cut off */
ckpt_why_check ckpt_why_check_repacked;	 /* an archive that another tool zipped again */

/* the names in it (name_causes.c) */
ckpt_why_check ckpt_why_check_wrapped; /* keys have the prefix of a wrapper */
ckpt_why_check ckpt_why_check_nested;  /* the weights are an entry of a larger dict */
ckpt_why_check ckpt_why_check_module;  /* a module was saved whole */
ckpt_why_check ckpt_why_check_adapter; /* it is added to a model, and is none */
ckpt_why_check ckpt_why_check_zero_part; /* one rank's file of DeepSpeed ZeRO-3 (file_causes.c) */
/* Is it one? Its 'module' has tensors without numbers, whose shapes are in 'param_shapes'. */
bool ckpt_why_is_zero_part(struct ckpt_why *w);
/* Is that the name of a weight of an adapter? */
bool ckpt_why_is_adapter_name(const char *name, size_t len);
/*
 * Was an adapter given to a model that wants none? The file says so, or, without one, the unexpected keys of
 * the error.
 */
bool ckpt_why_adapter_given(struct ckpt_why *w);
/* Do most keys of the largest state dict have the names of an adapter (LoRA)? How many do is in *OF_ADAPTER, of *KEYS. */
bool ckpt_why_is_adapter(struct ckpt_why *w, uint64_t *of_adapter, uint64_t *keys);
/*
 * The edits that check_wrapped and check_nested advise, for ckpt_why_plain(). False: there is no
 * state dict, or no edit does it.
 */
bool ckpt_why_find_plain(struct ckpt_why *w, struct ckpt_plain_model *plain);
/* what else is in it (content_causes.c) */
ckpt_why_check ckpt_why_check_devices;	/* tensors were on devices */
ckpt_why_check ckpt_why_check_danger;	/* it runs code (object_causes.c) */
ckpt_why_check ckpt_why_check_objects;	/* weights_only=True refuses something */
ckpt_why_check ckpt_why_check_versions; /* older torch cannot read it */
ckpt_why_check ckpt_why_check_meta;	/* tensors without data */
ckpt_why_check ckpt_why_check_bytes; /* big-endian numbers, compressed storages, text of Python 2 */

/* Quantized weights (quantized_causes.c): their parts do not fit; they do, and plain loaders take them for others. */
ckpt_why_check ckpt_why_check_quantized_parts;
ckpt_why_check ckpt_why_check_quantized;
/* What weights are quantized, as a fact, and the command that makes plain ones; false: none is, as far as ckpt_quant_open() tells. */
bool ckpt_why_add_quantized(struct ckpt_why *w);
/* May its weights have scales, so that a plain cast would make other numbers of them? */
bool ckpt_why_may_have_scales(struct ckpt_why *w);
/* Does NAME end as nothing but a part of a quantized weight does: ".weight_scale_inv"? */
bool ckpt_why_is_quant_part(const char *name);
/* Is NAME in the file the tensor with the numbers of a quantized weight? */
bool ckpt_why_has_quant_items(struct ckpt_why *w, const char *name);

/* What makes the file much larger than the model in it (size_causes.c); no cause of a failed load. */
ckpt_why_check ckpt_why_check_size;

/* ---- messages.c ---- */

/* Recognize messages in the error, and report what they mean. */
void ckpt_why_read_error(struct ckpt_why *w);

/* ---- explanations of messages, checked against the file ---- */

ckpt_why_check ckpt_why_explain_keys;	      /* missing and unexpected keys (keys.c) */
ckpt_why_check ckpt_why_explain_dcp_key;      /* DCP: one missing key */
ckpt_why_check ckpt_why_explain_shapes;	      /* size mismatch (shapes.c) */
ckpt_why_check ckpt_why_explain_device;	      /* load_messages.c */
ckpt_why_check ckpt_why_explain_device_count; /* ... */
ckpt_why_check ckpt_why_explain_global;
ckpt_why_check ckpt_why_explain_operand;
ckpt_why_check ckpt_why_explain_import;
ckpt_why_check ckpt_why_explain_record;
ckpt_why_check ckpt_why_explain_version;
ckpt_why_check ckpt_why_explain_attribute; /* use_messages.c */
ckpt_why_check ckpt_why_explain_dict_like;
ckpt_why_check ckpt_why_explain_entry;
ckpt_why_check ckpt_why_explain_optimizer;
ckpt_why_check ckpt_why_explain_path;
ckpt_why_check ckpt_why_explain_quant_part; /* quantized_causes.c */
ckpt_why_check ckpt_why_explain_quant_table;
ckpt_why_check ckpt_why_explain_quant_attribute;
ckpt_why_check ckpt_why_explain_quant_grid;
ckpt_why_check ckpt_why_explain_quant_class; /* torchao_causes.c */
ckpt_why_check ckpt_why_explain_quant_list;
ckpt_why_check ckpt_why_explain_quant_method;
ckpt_why_check ckpt_why_explain_quant_hardware;
ckpt_why_check ckpt_why_explain_float8;
ckpt_why_check ckpt_why_explain_quant_state;
/* Of a message about names that one side has and the other has not; of one about other shapes. */
bool ckpt_why_explain_quant_names(struct ckpt_why *w, const char *const *names, size_t count);
bool ckpt_why_explain_quant_shape(struct ckpt_why *w, const char *const *names, size_t count);

#endif
