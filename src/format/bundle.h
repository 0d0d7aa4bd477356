/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_BUNDLE_H
#define CKPT_FORMAT_BUNDLE_H

#include "format/member.h"
#include "model/maker.h"

/*
 * An archive of torch's writer that is no torch.save file but holds several things at once: pickles, torch.save archives,
 * records that are the bytes of one storage. Together they are one graph of values. What the formats share whose
 * archives are such (torch.package, torch.export); hangs on the document.
 */

/* What a record of such an archive is: the first row whose text is in front of its name, or at the end of it. */
struct ckpt_bundle_kind {
	const char *prefix, *suffix; /* NULL: whatever it is */
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
	struct ckpt_member *members; /* malloc; TZ is NULL of a bare pickle */
	uint32_t member_count, member_cap;
	struct ckpt_bundle_place *places; /* malloc, by storage of the document */
	struct ckpt_maker maker;
	char writer[120]; /* for struct ckpt_file_info */
};

/* Is RECORD in the folder of the archive's first record, or, if that has no folder, beside it? */
bool ckpt_bundle_has(const struct ckpt_zip *zip, const char *record);

/* Takes opening->zip. *OUT is the caller's, to be given to ckpt_bundle_finish() or ckpt_document_unref(). */
int ckpt_bundle_open(const struct ckpt_bundle_format *format, struct ckpt_opening *opening,
		     struct ckpt_document **out, struct ckpt_error *err);

/* The entry of a record, named without the folder; NULL: not there, or no memory. */
struct ckpt_zip_entry *ckpt_bundle_record(const struct ckpt_bundle *bundle, const char *record);

/* The name of an entry without the folder. */
const char *ckpt_bundle_name(const struct ckpt_bundle *bundle, const struct ckpt_zip_entry *entry);

/* The text of a small record, as much as fits in SIZE with its NUL, without a newline at the end; "" if it is not there. */
int ckpt_bundle_text(const struct ckpt_bundle *bundle, const char *record, char *out, size_t size,
		     struct ckpt_error *err);

/* The values of a record that is a pickle. Its storages are found by the format's storage_path. */
int ckpt_bundle_pickle(struct ckpt_document *doc, struct ckpt_zip_entry *entry,
		       const struct ckpt_value **root, struct ckpt_error *err);

/* ... of one that is a torch.save archive, whose storages are in itself. */
int ckpt_bundle_archive(struct ckpt_document *doc, struct ckpt_zip_entry *entry,
			const struct ckpt_value **root, struct ckpt_error *err);

/* The model with ROOT, all storages found. Takes DOC, also on failure. */
int ckpt_bundle_finish(struct ckpt_document *doc, const struct ckpt_value *root,
		       struct ckpt_model **out, struct ckpt_error *err);

static inline struct ckpt_bundle *ckpt_bundle_of(const struct ckpt_document *doc)
{
	return doc->container;
}

/* ---- for struct ckpt_format ---- */

/* Alignment, checksums and so on; what is different from format to format is left to the caller. */
void ckpt_bundle_describe(const struct ckpt_model *model, struct ckpt_file_info *out);
int ckpt_bundle_records(const struct ckpt_model *model,
			int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			struct ckpt_error *err);

/* These archives are not written, CKPT_E_UNSUPPORTED; what was extracted of one is, as a torch.save file. */
int ckpt_bundle_save(const struct ckpt_model *model, const char *path,
		     const struct ckpt_save_options *options, struct ckpt_save_report *report,
		     struct ckpt_error *err);
int ckpt_bundle_save_in_place(const struct ckpt_model *model,
			      const struct ckpt_save_options *options,
			      struct ckpt_save_report *report, struct ckpt_error *err);

#endif
