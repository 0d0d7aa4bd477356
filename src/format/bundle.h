/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_BUNDLE_H
#define CKPT_FORMAT_BUNDLE_H

#include "format/member.h"
#include "model/maker.h"

/*
 * An archive of torch's writer that is no torch.save file but holds several things: pickles,
 * torch.save archives, and records that are the bytes of one storage. Together they are one
 * graph of values. This is what torch.package and torch.export share; it is the container of the
 * document.
 */

/* The kind of a record: that of the first row whose prefix and suffix its name has. */
struct ckpt_bundle_kind {
	const char *prefix, *suffix; /* NULL: any */
	enum ckpt_record_kind kind;
};

struct ckpt_bundle_format {
	const struct ckpt_format *format;
	const char *what;	  /* for messages: "torch.package archive" */
	const char *storage_path; /* printf format: the record of a storage by its key */
	const struct ckpt_bundle_kind *kinds;
	size_t kind_count;
};

/* Where the bytes of a storage are. */
struct ckpt_bundle_place {
	struct ckpt_torch_zip *tz;
	struct ckpt_zip_entry *entry;
};

struct ckpt_bundle {
	const struct ckpt_bundle_format *format;
	struct ckpt_torch_zip *tz;   /* owned */
	struct ckpt_member *members; /* malloc; a bare pickle has no TZ */
	uint32_t member_count, member_cap;
	struct ckpt_bundle_place *places; /* malloc, by storage of the document */
	struct ckpt_maker maker;
	char writer[120]; /* for struct ckpt_file_info */
};

/*
 * Is there a RECORD in the folder of the archive's first record, or beside it if that has no
 * folder?
 */
bool ckpt_bundle_has(const struct ckpt_zip *zip, const char *record);

/* Takes opening->zip. The caller passes *OUT to ckpt_bundle_finish() or ckpt_document_unref(). */
int ckpt_bundle_open(const struct ckpt_bundle_format *format, struct ckpt_opening *opening,
		     struct ckpt_document **out, struct ckpt_error *err);

/* Find a record by its name without the folder. NULL: none, or no memory. */
struct ckpt_zip_entry *ckpt_bundle_record(const struct ckpt_bundle *bundle, const char *record);

/* The name of an entry without the folder. */
const char *ckpt_bundle_name(const struct ckpt_bundle *bundle, const struct ckpt_zip_entry *entry);

/*
 * The first line of a small record, as much as fits in SIZE with its NUL; "" if there is no such
 * record.
 */
int ckpt_bundle_text(const struct ckpt_bundle *bundle, const char *record, char *out, size_t size,
		     struct ckpt_error *err);

/* Read a record that is a pickle. The format's storage_path names the records of its storages. */
int ckpt_bundle_pickle(struct ckpt_document *doc, struct ckpt_zip_entry *entry,
		       const struct ckpt_value **root, struct ckpt_error *err);

/* Read a record that is a torch.save archive, and has its storages in itself. */
int ckpt_bundle_archive(struct ckpt_document *doc, struct ckpt_zip_entry *entry,
			const struct ckpt_value **root, struct ckpt_error *err);

/* Make the model with ROOT, and find all storages. Takes DOC, also on failure. */
int ckpt_bundle_finish(struct ckpt_document *doc, const struct ckpt_value *root,
		       struct ckpt_model **out, struct ckpt_error *err);

static inline struct ckpt_bundle *ckpt_bundle_of(const struct ckpt_document *doc)
{
	return doc->container;
}

/* ---- for struct ckpt_format ---- */

/* Alignment, checksums and so on; the caller sets what differs from format to format. */
void ckpt_bundle_describe(const struct ckpt_model *model, struct ckpt_file_info *out);
int ckpt_bundle_records(const struct ckpt_model *model,
			int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			struct ckpt_error *err);

/*
 * CKPT_E_UNSUPPORTED, as these archives are not written; but what an edit extracted from one is
 * saved as a torch.save file.
 */
int ckpt_bundle_save(const struct ckpt_model *model, const char *path,
		     const struct ckpt_save_options *options, struct ckpt_save_report *report,
		     struct ckpt_error *err);
int ckpt_bundle_save_in_place(const struct ckpt_model *model,
			      const struct ckpt_save_options *options,
			      struct ckpt_save_report *report, struct ckpt_error *err);

#endif
