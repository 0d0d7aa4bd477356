/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_SALVAGE_H
#define CKPT_ZIPFMT_SALVAGE_H

#include "zipfmt/index.h"

/*
 * The parts of an archive, each on its own, for an archive whose directory is lost or cannot be
 * trusted. What cannot be read counts as absent.
 */
enum ckpt_zip_mark {
	CKPT_ZIP_MARK_LOCAL = 0x04034B50,
	CKPT_ZIP_MARK_DESCRIPTOR = 0x08074B50,
	CKPT_ZIP_MARK_DIRECTORY = 0x02014B50,
	CKPT_ZIP_MARK_END64 = 0x06064B50,
	CKPT_ZIP_MARK_END = 0x06054B50,
};

enum { CKPT_ZIP_MOST_NAME = 1023 };

/* The header in front of a record. */
struct ckpt_zip_local {
	uint64_t header_off, data_off; /* the data may begin after the end of the file */
	uint64_t csize, usize;
	uint32_t crc32;
	uint16_t method, flags, name_len;
	bool says_size; /* else sizes and checksum are in a descriptor after the data */
	char name[CKPT_ZIP_MOST_NAME + 1]; /* ends with a NUL */
};

/* Read the header at OFF. False: there is none with a name, or it is incomplete. */
bool ckpt_zip_read_local(const struct ckpt_source *source, uint64_t off,
			 struct ckpt_zip_local *out);

struct ckpt_zip_descriptor {
	uint32_t crc32;
	uint64_t usize;
	uint32_t len; /* of the descriptor: 16 or 24, or as much as there is of it */
};

enum ckpt_zip_found {
	CKPT_ZIP_THERE,	  /* mark and size are right */
	CKPT_ZIP_WRONG,	  /* other bytes are there; OUT is what they would mean */
	CKPT_ZIP_BLANK,	  /* zeros are there */
	CKPT_ZIP_CUT_OFF, /* the file ends in it; if the checksum is there, LEN is not 0 */
};

/*
 * Read the descriptor after a record of CSIZE bytes that begin at DATA_OFF. BIG: it should have 24
 * bytes.
 */
enum ckpt_zip_found ckpt_zip_read_descriptor(const struct ckpt_source *source, uint64_t data_off,
					     uint64_t csize, bool big,
					     struct ckpt_zip_descriptor *out);

/*
 * Call VISIT for everything from FROM on that may be a mark, and now and then with 0 as MARK. It
 * returns 0 to go on; anything else ends the scan, with *AT at the mark, and is returned. 0: the
 * file ends.
 */
int ckpt_zip_scan(const struct ckpt_source *source, uint64_t from,
		  int (*visit)(void *ctx, uint32_t mark, uint64_t at), void *ctx, uint64_t *at);

#endif
