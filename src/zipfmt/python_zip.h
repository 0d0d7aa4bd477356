/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_PYTHON_ZIP_H
#define CKPT_ZIPFMT_PYTHON_ZIP_H

#include "base/buf.h"

/*
 * Parts of an archive as Python's zipfile writes it for numpy.savez(): stored members, zip64
 * sizes in every local header, the date 1980-01-01, and a checksum that is patched in when the
 * data are written. Source: Lib/zipfile of CPython 3.12 and later, with force_zip64.
 */
struct ckpt_python_zip_member {
	const char *name; /* UTF-8, at most 65,535 bytes */
	uint64_t size, header_off;
	uint32_t crc32;
};

/* The lengths of the two headers of M. */
uint64_t ckpt_python_zip_local_size(const struct ckpt_python_zip_member *m);
uint64_t ckpt_python_zip_entry_size(const struct ckpt_python_zip_member *m);

/* Append the local header of M, which precedes its data. */
void ckpt_python_zip_put_local(const struct ckpt_python_zip_member *m, struct ckpt_buf *out);

/* Append the directory entry of M. */
void ckpt_python_zip_put_entry(const struct ckpt_python_zip_member *m, struct ckpt_buf *out);

/* Append the end records of a directory of COUNT entries and SIZE bytes at OFF; their length. */
void ckpt_python_zip_put_ends(uint64_t count, uint64_t off, uint64_t size, struct ckpt_buf *out);
uint64_t ckpt_python_zip_ends_size(uint64_t count, uint64_t off, uint64_t size);

#endif
