/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_WHY_H
#define CKPT_WHY_H

#include <ckpt/model.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ckpt_certainty {
	CKPT_CAUSE_CERTAIN, /* the file itself shows it */
	CKPT_CAUSE_LIKELY,  /* the message says so, and nothing in the file contradicts it */
	/* a load may fail so on a machine, torch or model other than the one that saved the file */
	CKPT_CAUSE_POSSIBLE,
	/* nothing fails of it: something makes the file much larger than the model in it */
	CKPT_CAUSE_LARGE,
};

enum ckpt_mend_kind {
	CKPT_MEND_COMMAND, /* a line for a POSIX shell, names quoted */
	CKPT_MEND_PYTHON,  /* a Python expression; MODEL stands for the caller's own */
	CKPT_MEND_WORDS,   /* what no line can do */
};

/* One thing to do about a cause. */
struct ckpt_mend {
	enum ckpt_mend_kind kind;
	const char *text;
};

/* One cause of a failed load, or of a large file. All strings are valid during the call, escaped, on one line. */
struct ckpt_cause {
	size_t size;
	const char *id; /* "prefix", "truncated" ...: their meaning is fixed; see docs/json.md */
	enum ckpt_certainty certainty;
	const char *text;	  /* one or two sentences */
	const char *const *facts; /* the evidence in the file */
	size_t fact_count;
	const struct ckpt_mend *mends; /* the best first */
	size_t mend_count;
};

struct ckpt_why_options {
	size_t size;
	unsigned flags;	  /* there are none yet: 0 */
	uint32_t threads; /* that work at once; see "Threads" in ckpt.h */
	/* what the failed load printed: a message, a whole traceback; any bytes. NULL: unknown */
	const char *error;
	size_t error_len; /* up to CKPT_WHY_MOST_ERROR */
};
#define CKPT_WHY_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_why_options) \
	}
enum { CKPT_WHY_MOST_ERROR = 16 << 20 };

struct ckpt_why_report {
	size_t size;
	uint32_t causes;   /* how many were reported */
	uint32_t messages; /* kinds of messages that were recognized in the error */
	bool opened;	   /* the checkpoint could be opened: its names and values were examined */
	uint8_t reserved[3];
	uint32_t large; /* how many CKPT_CAUSE_LARGE were reported, which are not in CAUSES */
};
#define CKPT_WHY_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_why_report) \
	}

/*
 * Why does the checkpoint at PATH (a file, ARCHIVE::NAME, or a directory) not load? With an error
 * text, the causes are what it means, checked against the names, shapes and devices in the file.
 * Without one, they are everything that can go wrong, the most likely first. FOUND is called for
 * each cause, once. PATH may be NULL if there is an error text; then the causes are what it means
 * in general.
 *
 * Suggested commands write beside PATH, to a name that is free. From files above 1 GiB, only
 * metadata is read; ckpt_verify() reads the bytes of tensors.
 *
 * Returns 0, even if nothing was found; a negative status of FOUND; CKPT_E_ARG (neither PATH nor
 * error, or an error that is too long); CKPT_E_IO if there is nothing at PATH and the error does
 * not say so, or if it cannot be read; CKPT_E_NOMEM. OPTIONS and REPORT may be NULL.
 */
CKPT_API int ckpt_why(const char *path, const struct ckpt_why_options *options,
		      int (*found)(void *ctx, const struct ckpt_cause *cause), void *ctx,
		      struct ckpt_why_report *report, struct ckpt_error *err);

/* What a plain model needs of a checkpoint. Strings are escaped, and valid during the call. */
struct ckpt_plain_model {
	size_t size;
	const char *name; /* of the state dict with the most tensors; "" for the root */
	/* of a file of Lightning, what the names begin with behind wrappers: "model."; NULL: nothing */
	const char *attribute;
	/*
	 * The edits after which a plain model takes it, as options of 'ckpt edit', quoted for a shell:
	 * "--extract model --strip-prefix module."; "": it takes it as it is.
	 */
	const char *options;
	bool nested;	   /* it is an entry of the root, beside other things or alone */
	bool wrapped;	   /* keys have prefixes of wrappers: "module." */
	bool all_wrappers; /* OPTIONS strip all of them, whatever was stripped before */
	bool is_adapter;   /* most keys have the names of an adapter (LoRA), which is added to another model */
	bool is_zero_part; /* one rank's file of DeepSpeed ZeRO-3: the weights are empty in it, and in the whole directory */
	uint8_t reserved[3];
};

/*
 * What has to be done to MODEL before load_state_dict() of a plain model takes its weights? It is what
 * ckpt_why() advises. Reads no bytes of tensors. FOUND is called once; or not at all if the state dict
 * with the most tensors is neither the root nor an entry of it, if there is none, or if two names
 * would become one.
 *
 * Returns 0; a negative status of FOUND; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_why_plain(const struct ckpt_model *model,
			    int (*found)(void *ctx, const struct ckpt_plain_model *plain), void *ctx,
			    struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
