/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_SCRIPT_H
#define CKPT_FORMAT_TORCH_SCRIPT_H

#include "format/torch_zip.h"
#include "model/module.h"

/*
 * Read the source text of a module ("__torch__.a.b"), to be freed. False: there is none that can
 * be read. Called by several threads, one at a time.
 */
typedef bool ckpt_script_source(void *ctx, const struct ckpt_global *cls, uint8_t **text,
				size_t *len);

/* What the sources in code/ say about their classes. Each is read when it is needed. */
struct ckpt_script_code {
	ckpt_script_source *source;
	void *ctx;
	uint64_t size;		    /* of the file, which limits the memory */
	struct ckpt_arena *arena;   /* owned; NULL until something was read */
	struct ckpt_strmap files;   /* names of modules that were looked for */
	struct ckpt_strmap classes; /* full names to struct ckpt_class */
	pthread_mutex_t lock;
};

void ckpt_script_code_init(struct ckpt_script_code *code, ckpt_script_source *source, void *ctx,
			   uint64_t size);
void ckpt_script_code_clear(struct ckpt_script_code *code);

/*
 * NULL: no memory, or more classes than an archive of this size can have. May be called from
 * several threads.
 */
const struct ckpt_class *ckpt_script_code_class(struct ckpt_script_code *code,
						const struct ckpt_global *cls);

/* What reading found out about an archive; hangs on the document. */
struct ckpt_torch_script {
	struct ckpt_torch_zip *tz;    /* owned */
	struct ckpt_pickle constants; /* owned; its values are part of the graph */
	uint8_t *constants_bytes;     /* owned; its strings point into it */
	struct ckpt_script_code code;
};

void ckpt_torch_script_describe(const struct ckpt_model *model, struct ckpt_file_info *out);
int ckpt_torch_script_records(const struct ckpt_model *model,
			      int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			      struct ckpt_error *err);
int ckpt_torch_script_notes(const struct ckpt_model *model,
			    void (*note)(void *ctx, const char *text), void *ctx,
			    struct ckpt_error *err);

#endif
