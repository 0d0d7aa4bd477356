/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_ZIP_H
#define CKPT_FORMAT_TORCH_ZIP_H

#include "format/format.h"
#include "format/profile.h"
#include "io/patch.h"
#include "resave/resave.h"
#include "zipfmt/index.h"

/* What reading found out about the container; hangs on the document. */
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

/* That of MODEL's file, or for a checkpoint of another format what torch would write today. */
const struct ckpt_torch_zip *ckpt_torch_zip_of(const struct ckpt_model *model);

/* What must be a torch.save file, whatever else it looks like. */
int ckpt_torch_zip_read(struct ckpt_source *source, struct ckpt_model **out,
			struct ckpt_error *err);

/* ---- parts of reading, for torch.save files inside of other checkpoints ---- */

/*
 * *OUT is the caller's also on failure, to be given to ckpt_torch_zip_free(). ZIP is the directory of SOURCE if somebody
 * has read it already, and is taken then; or NULL.
 */
int ckpt_torch_zip_open(struct ckpt_source *source, struct ckpt_zip *zip,
			struct ckpt_torch_zip **out, struct ckpt_error *err);
void ckpt_torch_zip_free(void *torch_zip);

/* The same for archives of torch's writer that hold something else: what is in them is not looked at. */
int ckpt_torch_zip_open_any(struct ckpt_source *source, struct ckpt_zip *zip,
			    struct ckpt_torch_zip **out, struct ckpt_error *err);

/* Version, byte order, alignment: the small records that all of these archives have. */
int ckpt_torch_zip_read_marks(struct ckpt_torch_zip *tz, struct ckpt_error *err);

/* Values get ids from FIRST_ID on. *BYTES is to be freed, after OUT is cleared. */
int ckpt_torch_zip_read_pickle(struct ckpt_torch_zip *tz, uint32_t first_id, uint8_t **bytes,
			       size_t *len, struct ckpt_pickle *out, struct ckpt_error *err);
int ckpt_torch_zip_read_pickle_of(struct ckpt_torch_zip *tz, struct ckpt_zip_entry *entry,
				  uint32_t first_id, uint8_t **bytes, size_t *len,
				  struct ckpt_pickle *out, struct ckpt_error *err);

/* Find the record with the bytes of a storage, called data/KEY, and what is known of its checksum. */
int ckpt_torch_zip_attach(struct ckpt_torch_zip *tz, struct ckpt_storage *storage, const char *key,
			  struct ckpt_error *err);
int ckpt_torch_zip_attach_entry(struct ckpt_torch_zip *tz, struct ckpt_storage *storage,
				struct ckpt_zip_entry *entry, struct ckpt_error *err);

/* The bytes of a storage of NBYTES as they are in the file: no more than belongs to it. */
int ckpt_torch_zip_entry_bytes(struct ckpt_torch_zip *tz, struct ckpt_zip_entry *entry,
			       uint64_t nbytes, struct ckpt_recipe *out, struct ckpt_error *err);

/*
 * How many bytes a pickle may have: what a compressed one unpacks to must stay in proportion to what
 * is there of it.
 */
uint64_t ckpt_torch_zip_most_pickle(const struct ckpt_zip_entry *entry);

/* The entry of FOLDER and RECORD behind the archive name; FOLDER is "/" or "/data/". NULL: not there, or no memory. */
struct ckpt_zip_entry *ckpt_torch_zip_find(const struct ckpt_torch_zip *tz, const char *folder,
					   const char *record);

/* The same in "/". */
struct ckpt_zip_entry *ckpt_torch_zip_record(const struct ckpt_torch_zip *tz, const char *record);

/* The entry with the bytes of a storage; NULL likewise. */
struct ckpt_zip_entry *ckpt_torch_zip_data(const struct ckpt_torch_zip *tz,
					   const struct ckpt_storage *storage);

/* Is it a record that torch.save writes? Says also which storages' keys have one. */
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
 * The same over the input itself, whose archive name stays; a link to PATH is followed. HELD is the input:
 * if PATH has become another file at the end, that one stays.
 */
int ckpt_torch_zip_rewrite(const struct ckpt_model *model, const char *path,
			   const struct ckpt_patch *held, const struct ckpt_save_options *options,
			   struct ckpt_save_report *report, struct ckpt_error *err);

int ckpt_torch_zip_save_in_place(const struct ckpt_model *model,
				 const struct ckpt_save_options *options,
				 struct ckpt_save_report *report, struct ckpt_error *err);

/* *DONE: PATH is a clone of the input with a new end. Else nothing was written. */
int ckpt_torch_zip_save_clone(const struct ckpt_model *model, const char *path,
			      const struct ckpt_save_options *options,
			      struct ckpt_save_report *report, bool *done, struct ckpt_error *err);

/* How an edit pickles: as the input was pickled. */
struct ckpt_resave_options ckpt_torch_zip_resave_options(const struct ckpt_model *model);

/*
 * A zip without an end: say how much of the checkpoint is there and which tensors are whole.
 * Always fails with CKPT_E_FORMAT.
 */
int ckpt_torch_zip_fail_truncated(struct ckpt_source *source, struct ckpt_error *err);

#endif
