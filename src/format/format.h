/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_FORMAT_H
#define CKPT_FORMAT_FORMAT_H

#include "io/source.h"
#include "model/model.h"
#include "zipfmt/index.h"

#include <ckpt/save.h>

/* What is known of a file before its format is. */
struct ckpt_opening {
	struct ckpt_source *source; /* borrowed */
	const uint8_t *head;	    /* its first LEN bytes */
	size_t len;
	uint64_t size;
	/* Of an archive: its directory, read once for all formats. NULL: none, or a damaged one. Who reads takes it. */
	struct ckpt_zip *zip;
	bool brief; /* tensors may be FOLDED (pickle/fold.h); a format that knows of none reads all */
};

/* One format. A format of single files is chosen by content, never by the file's name. */
struct ckpt_format {
	const char *name;
	enum ckpt_format_code code;
	/* Does it look like this format? */
	bool (*probe)(const struct ckpt_opening *opening);
	/* Takes opening->zip, and leaves NULL, if it keeps the directory. */
	int (*read)(struct ckpt_opening *opening, struct ckpt_model **out, struct ckpt_error *err);
	/* Can what MODEL, of a file of this format, holds be written at all? NULL: always. */
	int (*check_save)(const struct ckpt_model *model, struct ckpt_error *err);
	int (*save)(const struct ckpt_model *model, const char *path,
		    const struct ckpt_save_options *options, struct ckpt_save_report *report,
		    struct ckpt_error *err);
	/* NULL: it is made of several files, none of which could take its place. */
	int (*save_in_place)(const struct ckpt_model *model,
			     const struct ckpt_save_options *options,
			     struct ckpt_save_report *report, struct ckpt_error *err);
	void (*describe)(const struct ckpt_model *model, struct ckpt_file_info *out);
	/* The records of the file, in its order; NULL: it has none. */
	int (*records)(const struct ckpt_model *model,
		       int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
		       struct ckpt_error *err);
	/* What the file says of itself in pairs of texts; NULL: nothing. */
	int (*metadata)(const struct ckpt_model *model,
			int (*visit)(void *ctx, const char *key, size_t key_len, const char *value,
				     size_t value_len),
			void *ctx);
	/* What is odd about the state of the files; NULL: nothing ever is. */
	int (*notes)(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
		     void *ctx, struct ckpt_error *err);
	/*
	 * The bytes of a box of a tensor, in C order, where the files have them apart from the rest of its
	 * storage; 1: not of this one. They live as long as MODEL. NULL: of none.
	 */
	int (*box)(const struct ckpt_model *model, const struct ckpt_tensor *tensor,
		   const uint64_t *offset, const uint64_t *shape, struct ckpt_recipe *out,
		   struct ckpt_error *err);
};

extern const struct ckpt_format ckpt_format_torch_package;
extern const struct ckpt_format ckpt_format_torch_export;
extern const struct ckpt_format ckpt_format_torch_script;
extern const struct ckpt_format ckpt_format_torch_zip;
extern const struct ckpt_format ckpt_format_torch_legacy;
extern const struct ckpt_format ckpt_format_torch_mobile;
extern const struct ckpt_format ckpt_format_torch_tar;
extern const struct ckpt_format ckpt_format_safetensors;

/* The most that there is of opening->head. */
enum { CKPT_PROBE_BYTES = 4096 };

/* Whichever format SOURCE has. The model takes its own reference. */
int ckpt_format_open(struct ckpt_source *source, struct ckpt_model **out, struct ckpt_error *err);
int ckpt_format_open_brief(struct ckpt_source *source, struct ckpt_model **out, struct ckpt_error *err);

/* What a file is that no format reads. */
enum ckpt_nature {
	CKPT_NATURE_UNKNOWN,
	CKPT_NATURE_EMPTY,
	CKPT_NATURE_ZEROS,
	CKPT_NATURE_LFS,    /* a pointer of Git LFS */
	CKPT_NATURE_ANNEX,  /* ... of git-annex */
	CKPT_NATURE_MARKUP, /* HTML, XML: a page in the place of a model */
	CKPT_NATURE_JSON,
	CKPT_NATURE_TEXT,   /* a few words, as servers answer */
	CKPT_NATURE_PACKED, /* by gzip and the like */
	CKPT_NATURE_TAR,
	CKPT_NATURE_ZIP,
	CKPT_NATURE_SAFETENSORS,
	CKPT_NATURE_PICKLE,    /* without a container */
	CKPT_NATURE_DCP_INDEX, /* the .metadata of a directory */
	CKPT_NATURE_OTHER,     /* WHAT says which */
};

struct ckpt_identity {
	enum ckpt_nature nature;
	const char *what; /* after "is"; NULL: nothing to say beyond the nature */
	const char *
		unpack; /* PACKED: the command that writes what is in it to standard output; NULL: there is none */
};

/* HEAD: the first LEN bytes, CKPT_PROBE_BYTES if there are as many. */
void ckpt_identify(const struct ckpt_source *source, const uint8_t *head, size_t len,
		   struct ckpt_identity *out);

/*
 * Say what a file is that no format reads: always fails, CKPT_E_UNSUPPORTED or CKPT_E_FORMAT, with
 * a text that names it and, where it helps, how to get at the checkpoint.
 */
int ckpt_fail_unknown_file(const struct ckpt_source *source, const uint8_t *head, size_t len,
			   struct ckpt_error *err);

#endif
