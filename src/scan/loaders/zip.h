/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_LOADERS_ZIP_H
#define CKPT_SCAN_LOADERS_ZIP_H

#include "scan/scanner.h"
#include "scan/loaders/script.h"

/*
 * A zip archive as a hostile one has to be read: what the directory says, what the headers in front
 * of the records say, and what lies where nobody points. zipfmt/index.h refuses such archives; here
 * they are looked into, and said to be what they are.
 */
struct ckpt_loose_entry {
	const char *name; /* arena of the scanner, with a NUL behind */
	uint32_t name_len;
	uint32_t crc32;
	uint64_t csize, usize, header_off,
		data_off; /* in the source; data_off 0: it has no header */
	uint16_t method, flags;
	bool is_hidden; /* it is not in the directory */
	bool is_wide;	/* its packed size is in a zip64 field: without that it is 4 GiB, less a byte */
	bool is_shared; /* another entry has the same header */
	uint8_t looked; /* as what it was looked into, of a shared one: bits of roles */
};

/* As an end record says where it is. */
struct ckpt_loose_directory {
	uint64_t off, count; /* of entries */
};

struct ckpt_loose_zip {
	struct ckpt_scanner *s;
	struct ckpt_source *source; /* borrowed */
	unsigned flags;
	bool in_row; /* archives lie in front of it: offsets of its locator do not count them */
	struct ckpt_loose_entry *entries; /* owned */
	uint32_t count, cap;
	uint64_t base; /* bytes in front of the archive, which offsets do not count */
	uint64_t directory_off, directory_end, ends_off, end; /* in the source */
	uint64_t said;	 /* entries, by the end record */
	struct ckpt_loose_directory short_end; /* by the end record without zip64 */
	bool has_locator;
	uint64_t located; /* where the zip64 locator points, from wherever its offsets count */
	/* where who knows no zip64 takes the directory to begin; 0: at its place, or nowhere */
	uint64_t narrow_off;
	uint32_t disk;	 /* the number that it says to be of, 0 or 1 if torch is to read it */
	bool has_disks;	 /* some of it is said to be on others: torch reads none of it */
	bool is_missed; /* the end record, by torch's miniz */
	/* a record that does not lie in the file: by its short offset, of which torch 1.13 asks; by its own */
	bool is_far, is_outside;
	size_t rest;	 /* behind the last entry that could be read, in the directory */
	uint32_t *order; /* owned: the entries as they lie in the file */
	char *folder;	 /* owned: of the first entry, which is the archive's name for torch */
	bool has_packed_storage; /* which was said */
	uint64_t unpacked;	 /* bytes of those, as tensors */
	bool has_pickle; /* data.pkl in that folder */
	bool is_old_package; /* of torch 1.8, whose list of modules and storages lie elsewhere */
	bool is_script, is_package,
		is_export;	     /* marks of TorchScript, torch.package, torch.export */
	/* torch.load gives it to torch.jit.load, which until 1.13 also weights_only has it do */
	bool is_for_jit;
	const char *version_record; /* of which torch takes the version of the format */
	struct ckpt_scan_script script; /* what its sources do */
	struct ckpt_strmap storages; /* keys that its pickles mention */
	struct ckpt_strmap said_storages; /* of a torch.package: what its pickles say of them */
	struct ckpt_strmap records;  /* of a program of torch.export: zip_payloads.c */
	bool has_empty_record;
	bool without_crc;	     /* none is recorded */
	uint8_t *room;		     /* owned: for what is read of a record, and not kept (zip_bytes.c) */
	size_t room_bytes;
	struct ckpt_window window;   /* of an archive of many small records, for reading them; else all zero */
};

/* Numbers of the format (APPNOTE.TXT 4.3) that more than one file needs. */
enum {
	CKPT_LOOSE_LOCAL = 0x04034B50,
	CKPT_LOOSE_ENTRY = 0x02014B50,
	CKPT_LOOSE_LOCAL_BYTES = 30,
	CKPT_LOOSE_ENTRY_BYTES = 46,
};

/*
 * How far from the end of a file somebody still finds an end record: zipimport of Python 3.13 goes
 * back 65,633 bytes, miniz in torch up to 69,652, in steps of 4,093.
 */
enum { CKPT_LOOSE_END_WINDOW = 72 * 1024 };

/* LEN bytes at OFF; false: they are not there. */
bool ckpt_loose_zip_at(struct ckpt_loose_zip *zip, uint64_t off, void *buf, size_t len);

/* Does a record of SIGNATURE begin at OFF? */
bool ckpt_loose_zip_has(struct ckpt_loose_zip *zip, uint64_t off, uint32_t signature);

/* Find the last end record and the directory (zip_ends.c). False: there is none. */
bool ckpt_loose_zip_find(struct ckpt_loose_zip *zip);

/*
 * Archives one behind the other, as in data files of DCP directories, zeros between them or not:
 * where the one in front of END ends. 0: none ends there (zip_ends.c). It begins at the base that
 * ckpt_loose_zip_find() says of the bytes up to there.
 */
uint64_t ckpt_loose_row_end(const struct ckpt_source *source, uint64_t end);

/*
 * What torch's miniz finds where a row of archives, of which ZIP is the last, is opened as one: offsets count from the beginning of the
 * file. False: nothing. zipfile of Python finds the same, or ZIP.
 */
bool ckpt_loose_zip_seen_as_one(struct ckpt_loose_zip *zip, struct ckpt_loose_directory *out);

/* Find the directory and read it. False: there is none that can be read; that was said. */
bool ckpt_loose_zip_read(struct ckpt_loose_zip *zip);

/* Compare it with the headers, and look at the bytes between the records (zip_layout.c). */
void ckpt_loose_zip_compare(struct ckpt_loose_zip *zip);

/*
 * `python FILE`, or `python FILE/FOLDER`, runs the record NAME; or imports it in place of a module of Python's own (zip_programs.c).
 */
bool ckpt_loose_zip_is_main(const char *name);
bool ckpt_loose_zip_shadows(const struct ckpt_loose_zip *zip, const char *name);

/*
 * aoti_load_package(), and torch.export.load() of torch 2.14, run the compiler that a file below "data/aotinductor/" names, or
 * load the library there, in any zip archive that has them: other marks are not asked for, and 2.6 unpacks all that lies there.
 * The folder may be in that of the archive; separators may be those of Windows. Of letters any case, which is more than torch takes.
 */
bool ckpt_loose_zip_is_compiled(const char *name);

/* ... and aoti_load_package() writes "data/constants", and what is below that, to files. */
bool ckpt_loose_zip_is_constant(const char *name);

/*
 * ".data/extern_modules" of a torch.package: names of modules that are not in it, one in a line. False: it is more than such a list
 * (extern_modules.c).
 */
bool ckpt_loose_zip_extern_modules(struct ckpt_loose_zip *zip, const uint8_t *bytes, uint64_t len);

/* JSON of a program of torch.export: does it ask for numbers that no record has (zip_payloads.c)? */
void ckpt_loose_zip_check_payloads(struct ckpt_loose_zip *zip, const uint8_t *json, uint64_t len);

/* The name of a record behind that of the archive's folder; NULL: it lies in another (zip_records.c). */
const char *ckpt_loose_zip_in_folder(const struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e);

/* What kinds of archive it is, by the names of its records: an archive may be of several (zip_records.c). */
void ckpt_loose_zip_find_kind(struct ckpt_loose_zip *zip);

/* What torch.load and its weights_only want of a checkpoint besides its pickle. */
void ckpt_loose_zip_check_for_torch(struct ckpt_loose_zip *zip);

/* Look into the records (zip_records.c). */
void ckpt_loose_zip_records(struct ckpt_loose_zip *zip);
void ckpt_loose_zip_record(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e);

/* The entry a header at OFF describes, which ends before LIMIT; false: there is none. */
bool ckpt_loose_zip_header(struct ckpt_loose_zip *zip, uint64_t off, uint64_t limit,
			   struct ckpt_loose_entry *out);
bool ckpt_loose_zip_add(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e);

/* About the archive as a whole, or a record. */
void ckpt_loose_zip_odd(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, uint64_t off,
			const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/*
 * The record's bytes, at most MOST of them, unpacked, to be freed; the checksum of all of them.
 * NULL: they cannot be unpacked.
 */
uint8_t *ckpt_loose_zip_bytes(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e,
			      uint64_t most, uint64_t *len, uint32_t *crc32);

#endif
