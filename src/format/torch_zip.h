/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_ZIP_H
#define CKPT_FORMAT_TORCH_ZIP_H

#include "format/format.h"
#include "format/profile.h"
#include "io/patch.h"
#include "resave/resave.h"
#include "zipfmt/index.h"

/* What reading found out about the container; the document owns it. */
struct ckpt_torch_zip {
	struct ckpt_zip *zip; /* owned */
	const struct ckpt_profile *profile;
	char *archive_name;		 /* owned */
	char version[16], byteorder[16]; /* texts of these records; "" if absent */
	uint32_t alignment;
	bool has_crc, has_format_version, has_storage_alignment, has_serialization_id;
	bool version_first; /* torch 1.4 and 1.5 write it in front */
	uint32_t compressed, unreferenced, foreign;
};

/* That of MODEL's file; for another format one that says what torch would write today. */
const struct ckpt_torch_zip *ckpt_torch_zip_of(const struct ckpt_model *model);

/* Read SOURCE as a torch.save file, whatever else it looks like. */
int ckpt_torch_zip_read(struct ckpt_source *source, struct ckpt_model **out,
			struct ckpt_error *err);

/* ---- parts of reading, for torch.save files inside other checkpoints ---- */

/*
 * The caller passes *OUT to ckpt_torch_zip_free(), also on failure. ZIP: the directory of SOURCE
 * if it was read already, which this takes; or NULL.
 */
int ckpt_torch_zip_open(struct ckpt_source *source, struct ckpt_zip *zip,
			struct ckpt_torch_zip **out, struct ckpt_error *err);
void ckpt_torch_zip_free(void *torch_zip);

/*
 * The same for archives of torch's writer that hold something else: the kinds of their records
 * are not checked.
 */
int ckpt_torch_zip_open_any(struct ckpt_source *source, struct ckpt_zip *zip,
			    struct ckpt_torch_zip **out, struct ckpt_error *err);

/* Read the small records that all of these archives have: version, byte order, alignment. */
int ckpt_torch_zip_read_marks(struct ckpt_torch_zip *tz, struct ckpt_error *err);

/*
 * Read data.pkl, or ENTRY. Values get ids from FIRST_ID on. *BYTES is to be freed after OUT is
 * cleared.
 */
int ckpt_torch_zip_read_pickle(struct ckpt_torch_zip *tz, uint32_t first_id, uint8_t **bytes,
			       size_t *len, struct ckpt_pickle *out, struct ckpt_error *err);
int ckpt_torch_zip_read_pickle_of(struct ckpt_torch_zip *tz, struct ckpt_zip_entry *entry,
				  uint32_t first_id, uint8_t **bytes, size_t *len,
				  struct ckpt_pickle *out, struct ckpt_error *err);

/*
 * Attach the record data/KEY, or ENTRY, to STORAGE, whose bytes it has, with its checksum if one is
 * recorded.
 */
int ckpt_torch_zip_attach(struct ckpt_torch_zip *tz, struct ckpt_storage *storage, const char *key,
			  struct ckpt_error *err);
int ckpt_torch_zip_attach_entry(struct ckpt_torch_zip *tz, struct ckpt_storage *storage,
				struct ckpt_zip_entry *entry, struct ckpt_error *err);

/* A recipe for the first NBYTES of a record, which are all of its storage. */
int ckpt_torch_zip_entry_bytes(struct ckpt_torch_zip *tz, struct ckpt_zip_entry *entry,
			       uint64_t nbytes, struct ckpt_recipe *out, struct ckpt_error *err);

/*
 * The most bytes that a pickle may have: what a compressed one unpacks to is limited in
 * proportion to its size in the file.
 */
uint64_t ckpt_torch_zip_most_pickle(const struct ckpt_zip_entry *entry);

/*
 * Find RECORD in FOLDER, "/" or "/data/", of the archive. NULL: none, or, with a name of 1 KiB
 * and more, no memory.
 */
struct ckpt_zip_entry *ckpt_torch_zip_find(const struct ckpt_torch_zip *tz, const char *folder,
					   const char *record);

/* The same with FOLDER "/". */
struct ckpt_zip_entry *ckpt_torch_zip_record(const struct ckpt_torch_zip *tz, const char *record);

/* Find the record with the bytes of a storage. NULL as above. */
struct ckpt_zip_entry *ckpt_torch_zip_data(const struct ckpt_torch_zip *tz,
					   const struct ckpt_storage *storage);

/* Does torch.save write a record of this name? *KEY: that of its storage, or NULL. */
bool ckpt_torch_zip_knows(const struct ckpt_torch_zip *tz, const struct ckpt_zip_entry *entry,
			  const char **key);

/* ckpt_format.records */
int ckpt_torch_zip_records(const struct ckpt_model *model,
			   int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			   struct ckpt_error *err);

int ckpt_torch_zip_save(const struct ckpt_model *model, const char *path,
			const struct ckpt_save_options *options, struct ckpt_save_report *report,
			struct ckpt_error *err);

/*
 * The same in place of the input, whose archive name stays; links are followed. REPLACED is the
 * input: if PATH is another file at the end, that one stays.
 */
int ckpt_torch_zip_rewrite(const struct ckpt_model *model, const char *path,
			   const struct ckpt_patch *replaced,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err);

int ckpt_torch_zip_save_in_place(const struct ckpt_model *model,
				 const struct ckpt_save_options *options,
				 struct ckpt_save_report *report, struct ckpt_error *err);

/* *DONE: PATH is now a clone of the input with a new end. Otherwise nothing was written. */
int ckpt_torch_zip_save_clone(const struct ckpt_model *model, const char *path,
			      const struct ckpt_save_options *options,
			      struct ckpt_save_report *report, bool *done, struct ckpt_error *err);

/* How an edit pickles: like the input. */
struct ckpt_resave_options ckpt_torch_zip_resave_options(const struct ckpt_model *model);

/*
 * Fail for a zip without an end, with CKPT_E_FORMAT and a text that says how much of the
 * checkpoint is there.
 */
int ckpt_torch_zip_fail_truncated(struct ckpt_source *source, struct ckpt_error *err);

#endif
