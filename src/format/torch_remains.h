/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_REMAINS_H
#define CKPT_FORMAT_TORCH_REMAINS_H

#include "base/cancel.h"
#include "base/strmap.h"
#include "pickle/decode.h"
#include "zipfmt/index.h"
#include "zipfmt/salvage.h"

/*
 * What is left of a damaged torch.save archive: its records, found by the headers in front of them
 * and by the sizes that the pickle has (repair/remains.h adds what is left of the directory). No
 * bytes of a record have been read here, so nothing is proven yet.
 */
struct ckpt_remnant {
	const char *name; /* full, in the arena */
	uint32_t name_len;
	uint16_t method;
	uint64_t header_off, data_off; /* counted from the start of the archive */
	uint64_t csize, usize;
	uint32_t crcs[3]; /* checksums that are recorded for it, none of them 0 */
	uint32_t crc_count;
	uint32_t doubtful_crc; /* in a descriptor that is itself damaged */
	bool has_doubtful;
	uint32_t elsewhere_crc; /* in the directory, for a record of this name at another place */
	bool has_elsewhere;
	bool says_none;	   /* one place records 0, which is no checksum */
	bool sized;	   /* its end is known */
	bool cut;	   /* the file ends inside its data */
	bool torn;	   /* the data is there, and the file ends in the descriptor after it */
	bool blank;	   /* zeros are where its descriptor should be */
	bool overwritten;  /* something else is there */
	bool no_header;	   /* only the directory knows it */
	bool in_directory; /* a readable entry of the directory describes it */
	bool misnamed;	   /* another record is the same one and has the right name */
};

struct ckpt_remains {
	struct ckpt_source *source; /* owned reference: the file from the start of the archive on */
	uint64_t start;		    /* of the archive, in the file */
	struct ckpt_arena *arena;   /* owned */
	/* malloc; in the order of the file, then those of the directory */
	struct ckpt_remnant *records;
	uint32_t count, cap;
	struct ckpt_strmap by_name; /* the first of each name */
	char *folder;		    /* arena; NULL: not even that is known */
	uint32_t alignment;
	/* only set by ckpt_remains_read(): */
	bool has_directory; /* at least a part of it */
	uint64_t follows;   /* bytes after the end of the archive */
	bool another;	    /* these are another archive */
	/* the list of tensors, decoded from record PICKLE_AT; -1: none, or it cannot be decoded */
	int64_t pickle_at;
	struct ckpt_pickle pickle;
	uint8_t *pickle_bytes;
	struct ckpt_strmap sizes; /* key of a storage to its bytes */
	uint64_t storage_nbytes;  /* of all of them */
	/* while it is read */
	struct ckpt_zip *zip;
	bool quick;
	const volatile int *cancel;
};

enum ckpt_remains_flags {
	/* go from record to record, and stop where that does not work */
	CKPT_REMAINS_QUICK = 1 << 0,
};

/*
 * Find the records in SOURCE, from one to the next; there may be none. *END: where the last one
 * ends. CANCEL: see ckpt_save_options. Returns 0, CKPT_E_NOMEM, CKPT_E_LIMIT or CKPT_E_CANCELLED.
 * OUT must be cleared in any case.
 */
int ckpt_remains_walk(struct ckpt_source *source, unsigned flags, const volatile int *cancel,
		      struct ckpt_remains *out, uint64_t *end, struct ckpt_error *err);
void ckpt_remains_clear(struct ckpt_remains *remains);

/* The record of NAME, which is without the folder. NULL: there is none. */
struct ckpt_remnant *ckpt_remains_find(const struct ckpt_remains *remains, const char *name);

/* The name of a record without the folder; NULL: it is in another one. */
const char *ckpt_remains_inner_name(const struct ckpt_remains *remains,
				    const struct ckpt_remnant *record);

/* Is NAME, without the folder, the name of a record? */
bool ckpt_remains_is_called(const struct ckpt_remains *remains, const struct ckpt_remnant *record,
			    const char *name);

/* The key of the storage whose record it is; NULL: it is another record. */
const char *ckpt_remains_key(const struct ckpt_remains *remains, const struct ckpt_remnant *record);

/* ---- parts ---- */

/* Add a record of NAME at HEADER_OFF. *OUT NULL: there already is one of this name. */
int ckpt_remains_add(struct ckpt_remains *remains, const char *name, uint32_t name_len,
		     uint64_t header_off, struct ckpt_remnant **out, struct ckpt_error *err);

/* Add a checksum that is recorded for RECORD; 0 is none. */
void ckpt_remnant_add_crc(struct ckpt_remnant *record, uint32_t crc32);

/* Read the descriptor after the csize bytes of RECORD, and note in RECORD what is there. */
enum ckpt_zip_found ckpt_remains_read_descriptor(const struct ckpt_remains *remains,
						 struct ckpt_remnant *record, uint64_t *end);

/* Is it the name of a record in this archive? One of torch's, as long as the folder is unknown. */
bool ckpt_remains_is_ours(const struct ckpt_remains *remains, const char *name, size_t len);

/* Is it the name of a record that this checkpoint should have? Foreign records are not. */
bool ckpt_remains_expects(const struct ckpt_remains *remains, const char *name, size_t len);

/*
 * Record I is data.pkl: find its size, if that is unknown, and keep what it decodes to, if it can
 * be decoded. (torch_remains_pickle.c)
 */
int ckpt_remains_read_pickle(struct ckpt_remains *remains, uint32_t i, struct ckpt_error *err);

/* 0, or CKPT_E_CANCELLED. */
int ckpt_remains_check_cancel(const struct ckpt_remains *remains, struct ckpt_error *err);

/* Set data_off of RECORD to where torch's layout puts it. False: it is the same, or unknown. */
bool ckpt_remains_expect_data_off(const struct ckpt_remains *remains, struct ckpt_remnant *record);

#endif
