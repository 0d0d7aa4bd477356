/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would loading a file import and run? Decided without loading it, by a decoder that executes
 * nothing.
 *
 * What must stay true: there is no list of bad names that a file has to avoid. CKPT_SCAN_PLAIN
 * means that everything was understood, to the last opcode; what is not known to be harmless is
 * never plain. docs/scan.md has the rules.
 */
#ifndef CKPT_SCAN_H
#define CKPT_SCAN_H

#include <ckpt/error.h>
#include <ckpt/model.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The verdict of a file is the highest of its findings. */
enum ckpt_scan_verdict {
	CKPT_SCAN_PLAIN, /* tensors, containers, numbers, texts: nothing else can happen */
	/*
	 * a load imports classes or functions of which nothing is known, to make objects, and runs
	 * their code with data of the file: as safe as that code is with hostile data
	 */
	CKPT_SCAN_NEEDS_OBJECTS,
	/* not decided: damaged, cut off, or of a kind that is not examined */
	CKPT_SCAN_UNREADABLE,
	CKPT_SCAN_INCONSISTENT, /* two readers would see two different files */
	CKPT_SCAN_DANGEROUS,	/* a load runs code that the file chose */
};

/* "plain", "needs-objects", "unreadable", "inconsistent", "dangerous". Static. */
CKPT_API const char *ckpt_scan_verdict_name(enum ckpt_scan_verdict verdict);

/* Versions of torch for which the outcome of load(weights_only=True) is predicted. */
enum ckpt_scan_torch {
	CKPT_SCAN_TORCH_1_13,
	CKPT_SCAN_TORCH_2_6,
	CKPT_SCAN_TORCH_2_14,
	CKPT_SCAN_TORCH_COUNT,
};

/* For which loaders the verdicts hold: "torch.load 1.7 to 2.14" ..., from 0 on; NULL: there are no more. Static. */
CKPT_API const char *ckpt_scan_loader(unsigned i);

/* "1.13", "2.6", "2.14". Static. */
CKPT_API const char *ckpt_scan_torch_name(enum ckpt_scan_torch torch);

enum ckpt_scan_kind {
	CKPT_SCAN_DATA,	  /* known, and makes nothing but data */
	CKPT_SCAN_OBJECT, /* a class or function that is not known to be harmless */
	/* known to run code or to reach the system, or what it does cannot be known */
	CKPT_SCAN_CODE,
};

/* "data", "object", "code". Static. */
CKPT_API const char *ckpt_scan_kind_name(enum ckpt_scan_kind kind);

/* A name that a load would import, listed once for every pickle that has it. */
struct ckpt_scan_global {
	size_t size;
	const char *name;  /* "module.attribute" as the file spells it, escaped */
	const char *where; /* the record with the pickle, escaped; "" for the file itself */
	uint64_t offset;   /* of the opcode that names it, in WHERE */
	bool called;	   /* or instantiated */
	enum ckpt_scan_kind kind;
};

/* One thing that was found. Strings are escaped. */
struct ckpt_scan_finding {
	size_t size;
	/* what it makes of the file; PLAIN: a note that changes nothing */
	enum ckpt_scan_verdict verdict;
	const char *kind; /* what it is about, one word: "call", "name", "archive", "hidden" ... */
	const char *record; /* "" for the file itself; "a::b" is b in the archive a */
	uint64_t offset;  /* in the record, or in the file if there is none; CKPT_NO_OFFSET: none */
	const char *path; /* of the object in the checkpoint that it makes; NULL: none */
	const char *text; /* one sentence */
};

/* Why torch.load(weights_only=True) would refuse a file. */
struct ckpt_scan_refusal {
	size_t size;
	unsigned versions;   /* 1 << enum ckpt_scan_torch, of those that refuse */
	bool can_be_allowed; /* adding NAME to the safe globals is enough */
	const char *name;    /* the global that is not allowed; NULL: it is not about one */
	const char *record;
	uint64_t offset;
	const char *text;
};

/* All about one file. Everything in it is valid during the call that gives it. */
struct ckpt_scan_file {
	size_t size;
	/* as it was given, or the folder that was given with the name in it; not escaped */
	const char *path;
	enum ckpt_scan_verdict verdict;
	const char *format; /* in words: "torch zip", "pickle", "safetensors" ... */
	bool is_torch;	    /* it has the form of a file that torch.load reads */
	/* load(weights_only=True) accepts what it imports */
	bool weights_only[CKPT_SCAN_TORCH_COUNT];
	uint64_t bytes;
	const struct ckpt_scan_global *globals;
	uint64_t global_count;
	const struct ckpt_scan_finding *findings; /* the worst first, then in the order they came */
	uint64_t finding_count;
	const struct ckpt_scan_refusal *refusals;
	uint64_t refusal_count;
	/*
	 * findings, globals and refusals beyond the first 1000 of each; of globals that are
	 * CKPT_SCAN_OBJECT each name is in the list, or the file is unreadable
	 */
	uint64_t left_out;
	/*
	 * versions, 1 << enum ckpt_scan_torch, of which WEIGHTS_ONLY is false because not all that such a load
	 * reads was looked at, and nothing in the rest is refused: they may accept it
	 */
	uint64_t weights_only_unknown;
};

struct ckpt_scan_options {
	size_t size;
	unsigned flags;	  /* there are none yet: 0 */
	uint32_t threads; /* that work at once; see "Threads" in ckpt.h */
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes */
	void *progress_ctx;
	const volatile int *cancel; /* not 0: it ends; see "Threads" in ckpt.h */
};
#define CKPT_SCAN_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_scan_options) \
	}

struct ckpt_scan_report {
	size_t size;
	uint64_t verdicts[5]; /* files, by verdict */
	uint64_t files, bytes;
	/* in folders: files that are no checkpoint and no pickle, and hold none */
	uint64_t passed_over;
};
#define CKPT_SCAN_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_scan_report) \
	}

/*
 * Scan the file at PATH, or all files in the folder and those below it, several at a time. Symbolic
 * links to files are followed; one that leads to a folder outside of PATH, or nowhere, counts as an
 * unreadable file, and so does what is no file. FILE is called for each, in the order of their
 * names, by one thread at a time but not always the same. Archives in archives are examined, to a
 * limit. Nothing in a file is executed, and nothing is loaded.
 *
 * Returns 0 if there is a verdict for each; a negative status of FILE; CKPT_E_IO if PATH cannot be
 * read (what cannot be read in a folder is an unreadable file); CKPT_E_CANCELLED; CKPT_E_NOMEM.
 * OPTIONS, FILE and REPORT may be NULL.
 */
CKPT_API int ckpt_scan(const char *path, const struct ckpt_scan_options *options,
		       int (*file)(void *ctx, const struct ckpt_scan_file *file), void *ctx,
		       struct ckpt_scan_report *report, struct ckpt_error *err);

/*
 * Would torch.load(PATH, weights_only=True) of each version accept what the checkpoint imports and
 * calls? ACCEPTS has CKPT_SCAN_TORCH_COUNT members, false also of what was not looked at to its end. REFUSED is called for each obstacle, in the
 * order of the file; it may be NULL. Only the unpickler is predicted: tensors of the file may still
 * be incomplete.
 *
 * Returns 0; CKPT_E_UNSUPPORTED if it has no form that torch.load reads; a negative status of
 * REFUSED; CKPT_E_IO; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_scan_weights_only(const char *path, bool *accepts,
				    int (*refused)(void *ctx,
						   const struct ckpt_scan_refusal *refusal),
				    void *ctx, struct ckpt_error *err);

/*
 * The same of MODEL, of the bytes that were read when it was opened, whatever has become of the file since. Of a zip
 * archive that is its pickle; what torch refuses whatever weights_only is, marks such as "version" and records, is not
 * looked at. Edits change nothing. Returns what ckpt_scan_weights_only() does; CKPT_E_UNSUPPORTED also of a directory,
 * and of what was built; CKPT_E_CHANGED.
 */
CKPT_API int ckpt_scan_model_weights_only(const struct ckpt_model *model, bool *accepts,
					  int (*refused)(void *ctx,
							 const struct ckpt_scan_refusal *refusal),
					  void *ctx, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
