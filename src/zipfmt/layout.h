/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_LAYOUT_H
#define CKPT_ZIPFMT_LAYOUT_H

#include "base/buf.h"
#include "base/error.h"

/*
 * The place of every byte of an archive, as torch's writer (miniz with its patches) lays it out:
 * all records stored, data aligned by padding in the local header, sizes in a descriptor after
 * the data, always zip64 end records. Source of the rules: files written by torch 1.7 to 2.14.
 */
struct ckpt_zip_record {
	const char *name; /* without the archive name: "data/0" */
	uint64_t size;
	uint64_t header_off, data_off; /* set by ckpt_zip_layout_compute() */
	uint32_t crc32;		       /* set by the writer, before the directory is made */
};

struct ckpt_zip_layout {
	const char *archive_name;
	uint32_t alignment; /* 64 unless the file says otherwise */
	struct ckpt_zip_record *records;
	uint32_t count;
	uint64_t directory_off, directory_size, file_size; /* computed */
};

enum { CKPT_ZIP_ALIGNMENT = 64 };

/* CKPT_E_LIMIT if a name or the padding does not fit its 16-bit field. */
int ckpt_zip_layout_compute(struct ckpt_zip_layout *layout, struct ckpt_error *err);

/* The same for records that are appended to a file of START bytes. */
int ckpt_zip_layout_append(struct ckpt_zip_layout *layout, uint64_t start, struct ckpt_error *err);

/* Append the local header of record I with its padding, up to where its data start. */
void ckpt_zip_put_local_header(const struct ckpt_zip_layout *layout, uint32_t i,
			       struct ckpt_buf *out);

/* Append what follows the data of record I: nothing if it is empty. */
void ckpt_zip_put_descriptor(const struct ckpt_zip_layout *layout, uint32_t i,
			     struct ckpt_buf *out);

/* Append one directory entry. */
void ckpt_zip_put_directory_entry(const struct ckpt_zip_layout *layout, uint32_t i,
				  struct ckpt_buf *out);

/* The length of that entry. */
uint64_t ckpt_zip_directory_entry_size(const struct ckpt_zip_layout *layout, uint32_t i);

/* Append the three end records: 98 bytes. */
void ckpt_zip_put_ends(const struct ckpt_zip_layout *layout, struct ckpt_buf *out);

#endif
