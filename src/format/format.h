/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_FORMAT_H
#define CKPT_FORMAT_FORMAT_H

#include "io/source.h"
#include "model/model.h"
#include "zipfmt/index.h"

#include <ckpt/save.h>

/* What is known of a file before its format is known. */
struct ckpt_opening {
	struct ckpt_source *source; /* borrowed */
	const uint8_t *head;	    /* its first LEN bytes */
	size_t len;
	uint64_t size;
	/* The directory of an archive, read once for all formats. NULL: none, or a damaged one. */
	struct ckpt_zip *zip;
	bool brief; /* tensors may be FOLDED (pickle/fold.h); other formats ignore it */
};

/* One format. The format of a single file is chosen by its content, never by its name. */
struct ckpt_format {
	const char *name;
	enum ckpt_format_code code;
	/* Does it look like this format? */
	bool (*probe)(const struct ckpt_opening *opening);
	/* If it keeps the directory it takes opening->zip, and sets that to NULL. */
	int (*read)(struct ckpt_opening *opening, struct ckpt_model **out, struct ckpt_error *err);
	/* Can MODEL, read from a file of this format, be written at all? NULL: always. */
	int (*check_save)(const struct ckpt_model *model, struct ckpt_error *err);
	int (*save)(const struct ckpt_model *model, const char *path,
		    const struct ckpt_save_options *options, struct ckpt_save_report *report,
		    struct ckpt_error *err);
	/* NULL: it is made of several files. */
	int (*save_in_place)(const struct ckpt_model *model,
			     const struct ckpt_save_options *options,
			     struct ckpt_save_report *report, struct ckpt_error *err);
	void (*describe)(const struct ckpt_model *model, struct ckpt_file_info *out);
	/* Visit the records of the file, in its order. NULL: it has none. */
	int (*records)(const struct ckpt_model *model,
		       int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
		       struct ckpt_error *err);
	/* Visit the metadata of the file, pairs of texts. NULL: it has none. */
	int (*metadata)(const struct ckpt_model *model,
			int (*visit)(void *ctx, const char *key, size_t key_len, const char *value,
				     size_t value_len),
			void *ctx);
	/* The same of all files of a set, one after the other. NULL: METADATA has all that there are. */
	int (*parts_metadata)(const struct ckpt_model *model,
			      int (*visit)(void *ctx, const char *key, size_t key_len, const char *value,
					   size_t value_len),
			      void *ctx);
	/* Those that all files of a set have alike, whatever is in which file. NULL: it is no set. */
	int (*common_metadata)(const struct ckpt_model *model,
			       int (*visit)(void *ctx, const char *key, size_t key_len, const char *value,
					    size_t value_len),
			       void *ctx);
	/* Note what is odd about the file. NULL: nothing ever is. */
	int (*notes)(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
		     void *ctx, struct ckpt_error *err);
	/*
	 * The bytes of a box of a tensor, in C order, if the files keep them apart from the rest
	 * of its storage; 1: they do not for this tensor. They live as long as MODEL. NULL: they
	 * never do.
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

/* The size of opening->head. */
enum { CKPT_PROBE_BYTES = 4096 };

/* Open SOURCE, whatever its format. The model takes its own reference. BRIEF: see ckpt_opening. */
int ckpt_format_open(struct ckpt_source *source, struct ckpt_model **out, struct ckpt_error *err);
/*
 * Is PATH named as a data file of a DCP directory? One item in it may be an archive that opens, and is not the
 * checkpoint. Returns 0, or CKPT_E_UNSUPPORTED with CKPT_REASON_DCP_DATA_FILE.
 */
int ckpt_format_refuse_data_file(const char *path, struct ckpt_error *err);
int ckpt_format_open_brief(struct ckpt_source *source, struct ckpt_model **out,
			   struct ckpt_error *err);

/*
 * Does SOURCE look like a checkpoint, by its first bytes or the directory of its archive? Damaged
 * ones and archives whose directory is damaged do; archives that torch did not write do not.
 */
int ckpt_format_probe(struct ckpt_source *source, bool *is_one, struct ckpt_error *err);

/* What a file is that no format reads. */
enum ckpt_nature {
	CKPT_NATURE_UNKNOWN,
	CKPT_NATURE_EMPTY,
	CKPT_NATURE_ZEROS,
	CKPT_NATURE_LFS,    /* a pointer of Git LFS */
	CKPT_NATURE_ANNEX,  /* ... of git-annex */
	CKPT_NATURE_MARKUP, /* HTML, XML: a web page in place of a model */
	CKPT_NATURE_JSON,
	CKPT_NATURE_TEXT,   /* a few words, as servers answer */
	CKPT_NATURE_PACKED, /* compressed by gzip and the like */
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
	const char *unpack; /* PACKED: a command that unpacks it to standard output, or NULL */
};

/* HEAD: the first LEN bytes, CKPT_PROBE_BYTES if the file has that many. */
void ckpt_identify(const struct ckpt_source *source, const uint8_t *head, size_t len,
		   struct ckpt_identity *out);

/*
 * Fail for a file that no format reads, with CKPT_E_UNSUPPORTED or CKPT_E_FORMAT and a text that
 * says what it is and, where that helps, how to get the checkpoint.
 */
int ckpt_fail_unknown_file(const struct ckpt_source *source, const uint8_t *head, size_t len,
			   struct ckpt_error *err);

#endif
