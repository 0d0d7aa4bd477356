/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the directory of an archive as torch does (caffe2/serialize/inline_container.cc over
 * miniz): the last end record in the last 64 KiB, zip64 records where there is a locator, and
 * names that are found whatever the case of their letters.
 *
 * What must stay true: an archive that two readers would see differently is refused, here or
 * when a record is located, since ckpt writes and judges what torch would read. So no two
 * records have one name or overlap, and a local header says the same as the directory. HEADER_OFF,
 * CSIZE and DATA_OFF that passed cannot overflow later: they lie before the directory, which is
 * in the file.
 */
#include "zipfmt/index.h"

#include "base/ascii.h"
#include "base/reader.h"
#include "base/text.h"
#include "zipfmt/inflate.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SIG_LOCAL = 0x04034B50,
	SIG_DIRECTORY = 0x02014B50,
	SIG_END = 0x06054B50,
	SIG_END64 = 0x06064B50,
	SIG_LOCATOR64 = 0x07064B50,
	LOCAL_BYTES = 30,
	DIRECTORY_BYTES = 46,
	END_BYTES = 22,
	END64_BYTES = 56,
	LOCATOR64_BYTES = 20,
	END_WINDOW = 64 * 1024 + END_BYTES, /* a comment of 65,535 bytes */
	ENCRYPTED = 1 << 0,
	/* patches, strong encryption, a masked directory: torch refuses these flags */
	REFUSED = 1 << 5 | 1 << 6 | 1 << 13,
	/* of MS-DOS; source: mz_zip_reader_is_file_a_directory() of miniz in torch */
	FOLDER_ATTRIBUTE = 0x10,
	Z16 = 0xFFFF,
	TAG_ZIP64 = 1,
	HEADER_WINDOW = 4096, /* holds the headers of many small records */
	NEAR = 256,	      /* bytes of a record behind which the next header is worth to be read with its own */
};
static const uint32_t Z32 = 0xFFFFFFFF;
static const uint64_t MOST_DIRECTORY = 1 << 30;

struct ends {
	uint64_t count, directory_size, directory_off;
	uint64_t end_off; /* of the first end record */
};

static int bad(struct ckpt_error *err, uint64_t off, const char *text)
{
	return ckpt_error_at(err, ckpt_fail(err, CKPT_E_FORMAT, "%s", text), NULL, NULL, off);
}

/* The directory alone is bad: records may be whole, and repair can find them. */
static int bad_directory(struct ckpt_error *err, uint64_t off, const char *text)
{
	return ckpt_error_because(err, bad(err, off, text), CKPT_REASON_ZIP_DIRECTORY);
}

/* Find the last end record in the last LEN bytes. CKPT_E_NOTFOUND, without a message: none. */
static int find_end_in_tail(struct ckpt_zip *zip, size_t len, uint64_t *out, struct ckpt_error *err)
{
	static const uint8_t sig[4] = { 0x50, 0x4B, 0x05, 0x06 };
	uint64_t size = ckpt_source_size(zip->source);
	uint8_t *tail = malloc(len ? len : 1);
	int rc;

	if (!tail)
		return ckpt_fail_nomem(err);
	rc = ckpt_source_read(zip->source, size - len, tail, len, err);
	if (rc == 0) {
		rc = CKPT_E_NOTFOUND;
		for (size_t i = len >= END_BYTES ? len - END_BYTES + 1 : 0; rc && i-- > 0;) {
			if (memcmp(tail + i, sig, sizeof(sig)))
				continue;
			*out = size - len + i;
			rc = 0;
		}
	}
	free(tail);
	return rc;
}

/* The offset of the last end record, searched backwards as far as torch does. */
static int find_end(struct ckpt_zip *zip, uint64_t *out, struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(zip->source);
	int rc = CKPT_E_NOTFOUND;

	if (size >= END_BYTES) /* nearly always it ends the file */
		rc = find_end_in_tail(zip, END_BYTES, out, err);
	if (rc == CKPT_E_NOTFOUND)
		rc = find_end_in_tail(zip, size < END_WINDOW ? (size_t)size : END_WINDOW, out, err);
	if (rc == CKPT_E_NOTFOUND)
		ckpt_fail(err, rc,
			  "no end of central directory record found: the file is "
			  "truncated, or no zip archive");
	return rc;
}

static bool has_signature(const struct ckpt_zip *zip, uint64_t off, uint32_t signature)
{
	uint8_t bytes[4];
	struct ckpt_reader r = { bytes, sizeof(bytes), 0, false };

	return ckpt_source_read(zip->source, off, bytes, sizeof(bytes), NULL) == 0 &&
	       ckpt_read_u32(&r) == signature;
}

/*
 * OFF counts from the start of an archive, and several archives may follow one another in a file, whose
 * locator is that of the last. The first may have its record at OFF, too, if both are of one size.
 */
static bool is_of_last_archive(const struct ckpt_zip *zip, uint64_t locator_off, uint64_t off)
{
	uint64_t end64_off = locator_off - END64_BYTES;

	return end64_off > off && has_signature(zip, end64_off, SIG_END64) &&
	       has_signature(zip, end64_off - off, SIG_LOCAL) && has_signature(zip, 0, SIG_LOCAL);
}

static int read_end64(struct ckpt_zip *zip, uint64_t locator_off, struct ends *ends,
		      struct ckpt_error *err)
{
	uint8_t bytes[END64_BYTES];
	struct ckpt_reader r = { bytes, LOCATOR64_BYTES, 0, false };
	uint64_t off;
	int rc = ckpt_source_read(zip->source, locator_off, bytes, LOCATOR64_BYTES, err);

	if (rc < 0)
		return rc;
	if (ckpt_read_u32(&r) != SIG_LOCATOR64)
		return 0; /* an archive without zip64 records */
	if (ckpt_read_u32(&r) != 0)
		return bad(err, locator_off, "the archive is spread over several disks");
	off = ckpt_read_u64(&r);
	if (off > locator_off || locator_off - off < END64_BYTES)
		return bad(err, locator_off, "the zip64 locator points outside of the file");
	if (is_of_last_archive(zip, locator_off, off))
		return ckpt_error_because(
			err,
			ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"holds several archives, one after the other, as data files (.distcp) "
				"of a DCP directory do: name the directory it belongs to"),
			CKPT_REASON_DCP_DATA_FILE);
	rc = ckpt_source_read(zip->source, off, bytes, END64_BYTES, err);
	if (rc < 0)
		return rc;
	r = (struct ckpt_reader){ bytes, END64_BYTES, 0, false };
	if (ckpt_read_u32(&r) != SIG_END64)
		return bad_directory(err, off,
				     "no zip64 end record where the locator points: the file is damaged");
	ckpt_read_bytes(&r, 8 + 2 + 2);
	if (ckpt_read_u32(&r) || ckpt_read_u32(&r))
		return bad(err, off, "the archive is spread over several disks");
	ckpt_read_u64(&r);
	ends->count = ckpt_read_u64(&r);
	ends->directory_size = ckpt_read_u64(&r);
	ends->directory_off = ckpt_read_u64(&r);
	ends->end_off = off;
	return 0;
}

static int read_ends(struct ckpt_zip *zip, struct ends *ends, struct ckpt_error *err)
{
	uint8_t bytes[END_BYTES];
	struct ckpt_reader r = { bytes, END_BYTES, 0, false };
	uint64_t off = 0;
	int rc = find_end(zip, &off, err);

	if (rc == 0)
		rc = ckpt_source_read(zip->source, off, bytes, END_BYTES, err);
	if (rc < 0)
		return rc;
	ckpt_read_u32(&r);
	if (ckpt_read_u16(&r) || ckpt_read_u16(&r))
		return bad(err, off, "the archive is spread over several disks");
	ckpt_read_u16(&r);
	ends->count = ckpt_read_u16(&r);
	ends->directory_size = ckpt_read_u32(&r);
	ends->directory_off = ckpt_read_u32(&r);
	ends->end_off = off;
	if (off >= LOCATOR64_BYTES)
		rc = read_end64(zip, off - LOCATOR64_BYTES, ends, err);
	if (rc == 0 && (ends->directory_off > ends->end_off ||
			ends->directory_size > ends->end_off - ends->directory_off))
		rc = bad_directory(err, off, "the central directory lies outside of the file");
	if (rc == 0 && ends->count > ends->directory_size / DIRECTORY_BYTES)
		rc = ckpt_error_at(err,
				   ckpt_fail(err, CKPT_E_FORMAT,
					     "%" PRIu64 " records are announced, %" PRIu64
					     " bytes of directory cannot hold them",
					     ends->count, ends->directory_size),
				   NULL, NULL, off);
	return rc;
}

bool ckpt_zip_read_zip64(const uint8_t *bytes, size_t len, uint64_t *usize, uint64_t *csize,
			 uint64_t *header_off)
{
	uint64_t *const longs[] = { usize, csize, header_off };
	struct ckpt_reader extra = { bytes, len, 0, false };

	while (extra.len - extra.pos >= 4) {
		uint16_t tag = ckpt_read_u16(&extra), n = ckpt_read_u16(&extra);
		const uint8_t *body = ckpt_read_bytes(&extra, n);
		struct ckpt_reader r = { body, n, 0, false };

		if (!body)
			break;
		if (tag != TAG_ZIP64)
			continue;
		for (size_t i = 0; i < sizeof(longs) / sizeof(longs[0]); i++)
			if (*longs[i] == Z32)
				*longs[i] = ckpt_read_u64(&r);
		return !r.bad;
	}
	return true;
}

int ckpt_zip_parse_entry(struct ckpt_reader *r, uint64_t start, struct ckpt_arena *arena,
			 struct ckpt_zip_entry *e, struct ckpt_error *err)
{
	uint64_t off = start + r->pos;
	uint32_t attributes;
	uint16_t extra_len, comment_len;
	const uint8_t *name, *extra_bytes;

	if (ckpt_read_u32(r) != SIG_DIRECTORY)
		return bad_directory(err, off, "the central directory is cut short or overwritten");
	ckpt_read_u32(r);
	e->flags = ckpt_read_u16(r);
	e->method = ckpt_read_u16(r);
	ckpt_read_u32(r);
	e->crc32 = ckpt_read_u32(r);
	e->csize = ckpt_read_u32(r);
	e->usize = ckpt_read_u32(r);
	e->name_len = ckpt_read_u16(r);
	extra_len = ckpt_read_u16(r);
	comment_len = ckpt_read_u16(r);
	ckpt_read_u32(r); /* disk, attributes of its own */
	attributes = ckpt_read_u32(r);
	e->header_off = ckpt_read_u32(r);
	name = ckpt_read_bytes(r, e->name_len);
	extra_bytes = ckpt_read_bytes(r, extra_len);
	ckpt_read_bytes(r, comment_len);
	if (r->bad)
		return bad_directory(err, off, "the central directory is cut short");
	if (memchr(name, '\0', e->name_len))
		return bad(err, off, "a record's name has a zero byte in it");
	if (attributes & FOLDER_ATTRIBUTE && e->name_len && name[e->name_len - 1] != '/')
		return bad(err, off,
			   "a record has the attribute of a folder, of which torch reads nothing");
	if (!ckpt_zip_read_zip64(extra_bytes, extra_len, &e->usize, &e->csize, &e->header_off))
		return bad(err, off, "the zip64 field of a directory entry is cut short");
	if (e->usize && e->name_len && name[e->name_len - 1] == '/')
		return bad(
			err, off,
			"a record with bytes has the name of a folder, of which torch reads nothing");
	e->name = ckpt_arena_copy(arena, name, e->name_len);
	return e->name ? 0 : ckpt_arena_fail(arena, err);
}

/* NAME in lower case; a copy only if it has capitals. NULL: no memory. */
static char *lower(struct ckpt_arena *arena, char *name, size_t len)
{
	char *copy = name; /* nearly always */
	size_t upper = 0;

	while (upper < len && !ckpt_is_upper(name[upper]))
		upper++;
	if (upper < len)
		copy = ckpt_arena_copy(arena, name, len);
	for (size_t i = upper; copy && i < len; i++)
		copy[i] = (char)ckpt_to_lower(copy[i]);
	return copy;
}

/* Also of the records before one that cannot be read: of two faults, the first is told. */
static int index_names(struct ckpt_zip *zip, struct ckpt_error *err)
{
	struct ckpt_strmap_entry *names = malloc((zip->count + (size_t)1) * sizeof(*names));
	size_t again;
	char shown[128];

	if (!names)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < zip->count; i++) {
		const struct ckpt_zip_entry *e = &zip->entries[i];
		char *key = lower(zip->arena, (char *)e->name, e->name_len);

		if (!key) {
			free(names);
			return ckpt_arena_fail(zip->arena, err);
		}
		names[i] = (struct ckpt_strmap_entry){ .key = key, .len = e->name_len, .value = i };
	}
	if (!ckpt_strmap_build(&zip->by_name, names, zip->count, &again))
		return ckpt_fail_nomem(err);
	if (again < zip->count)
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"two records are named '%s'; which one counts depends on the reader",
			ckpt_escape(shown, sizeof(shown), zip->entries[again].name,
				    zip->entries[again].name_len));
	return 0;
}

static int by_header_off(const void *a, const void *b)
{
	const struct ckpt_zip_entry *x = *(struct ckpt_zip_entry *const *)a,
				    *y = *(struct ckpt_zip_entry *const *)b;

	return (x->header_off > y->header_off) - (x->header_off < y->header_off);
}

struct ckpt_zip_entry **ckpt_zip_by_place(const struct ckpt_zip *zip)
{
	struct ckpt_zip_entry **order = malloc((zip->count + (size_t)1) * sizeof(*order));
	bool sorted = true; /* as every writer leaves them */

	for (uint32_t i = 0; order && i < zip->count; i++) {
		order[i] = &zip->entries[i];
		sorted &= !i || order[i - 1]->header_off <= order[i]->header_off;
	}
	if (order && !sorted)
		qsort(order, zip->count, sizeof(*order), by_header_off);
	return order;
}

/*
 * Every record has to end before the next one, or the directory, begins. Extra fields of local
 * headers are not known yet: ckpt_zip_locate_all() checks again with them.
 */
static int check_overlaps(const struct ckpt_zip *zip, struct ckpt_error *err)
{
	struct ckpt_zip_entry **order = ckpt_zip_by_place(zip);
	char shown[128];
	int rc = order ? 0 : ckpt_fail_nomem(err);

	for (uint32_t i = 0; rc == 0 && i < zip->count; i++) {
		const struct ckpt_zip_entry *e = order[i];
		uint64_t limit = i + 1 < zip->count ? order[i + 1]->header_off : zip->directory_off;
		uint64_t end;

		if (__builtin_add_overflow(e->header_off, e->csize, &end) ||
		    __builtin_add_overflow(end, (uint64_t)LOCAL_BYTES + e->name_len, &end) ||
		    end > limit)
			rc = ckpt_error_at(err,
					   ckpt_fail(err, CKPT_E_FORMAT,
						     "the record of %" PRIu64
						     " bytes overlaps what lies "
						     "at 0x%" PRIx64,
						     e->csize, limit),
					   NULL,
					   ckpt_escape(shown, sizeof(shown), e->name, e->name_len),
					   e->header_off);
	}
	free(order);
	return rc;
}

static int read_directory(struct ckpt_zip *zip, const struct ends *ends, struct ckpt_error *err)
{
	struct ckpt_reader r = { .len = (size_t)ends->directory_size };
	uint8_t *bytes;
	int rc, indexed;

	if (ends->directory_size > MOST_DIRECTORY ||
	    ends->directory_size > (ends->count + 1) * (DIRECTORY_BYTES + 3 * (uint64_t)Z16)) {
		return ckpt_fail(err, CKPT_E_LIMIT,
				 "a directory of %" PRIu64 " bytes for %" PRIu64 " records",
				 ends->directory_size, ends->count);
	}
	zip->directory_off = ends->directory_off;
	bytes = malloc(r.len ? r.len : 1);
	rc = bytes ? 0 : ckpt_fail_nomem(err);
	r.data = bytes;
	if (rc == 0)
		rc = ckpt_source_read(zip->source, ends->directory_off, bytes, r.len, err);
	if (rc == 0 && ends->count > UINT32_MAX - 1)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "the archive has %" PRIu64 " records",
			       ends->count);
	if (rc == 0) {
		zip->entries =
			ckpt_arena_calloc(zip->arena, ends->count + 1, sizeof(*zip->entries));
		rc = zip->entries ? 0 : ckpt_arena_fail(zip->arena, err);
	}
	while (rc == 0 && zip->count < ends->count) {
		rc = ckpt_zip_parse_entry(&r, zip->directory_off, zip->arena,
					  &zip->entries[zip->count], err);
		zip->count += rc == 0;
	}
	free(bytes);
	indexed = index_names(zip, err);
	return indexed < 0 ? indexed : rc;
}

int ckpt_zip_open(struct ckpt_source *source, struct ckpt_zip **out, struct ckpt_error *err)
{
	struct ckpt_zip *zip = calloc(1, sizeof(*zip));
	struct ends ends = { 0 };
	int rc;

	*out = NULL;
	if (!zip)
		return ckpt_fail_nomem(err);
	pthread_mutex_init(&zip->lock, NULL);
	zip->source = ckpt_source_ref(source);
	/* an entry takes 46 bytes of the file and about 80 here */
	zip->arena = ckpt_arena_new(8 * ckpt_source_size(source) + (1 << 20));
	rc = zip->arena ? 0 : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = read_ends(zip, &ends, err);
	if (rc == 0)
		rc = read_directory(zip, &ends, err);
	if (rc == 0)
		rc = check_overlaps(zip, err);
	if (rc < 0)
		ckpt_zip_close(zip);
	else
		*out = zip;
	return rc;
}

void ckpt_zip_close(struct ckpt_zip *zip)
{
	if (!zip)
		return;
	ckpt_zip_inflater_free(zip->inflater);
	pthread_mutex_destroy(&zip->lock);
	ckpt_window_clear(&zip->headers);
	ckpt_strmap_clear(&zip->by_name);
	ckpt_arena_free(zip->arena);
	ckpt_source_unref(zip->source);
	free(zip);
}

struct ckpt_zip_entry *ckpt_zip_find(const struct ckpt_zip *zip, const char *name, size_t len)
{
	uint64_t *slot = ckpt_strmap_find_small(&zip->by_name, name, len);

	for (uint32_t i = 0; zip->forgot_names && i < zip->count; i++)
		if (zip->entries[i].name_len == len &&
		    !ckpt_strncasecmp(zip->entries[i].name, name, len))
			return &zip->entries[i];
	return slot ? &zip->entries[*slot] : NULL;
}

void ckpt_zip_forget_names(struct ckpt_zip *zip)
{
	ckpt_strmap_clear(&zip->by_name);
	zip->forgot_names = true;
}

struct ckpt_record ckpt_zip_describe(const struct ckpt_zip_entry *entry, size_t skip)
{
	return (struct ckpt_record){ .size = sizeof(struct ckpt_record),
				     .name = entry->name + (skip < entry->name_len ? skip : 0),
				     .kind = CKPT_RECORD_OTHER,
				     .nbytes = entry->usize,
				     .stored = entry->csize };
}

static int check_entry(const struct ckpt_zip_entry *e, struct ckpt_error *err)
{
	if (e->flags & ENCRYPTED)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "the record is encrypted");
	if (e->flags & REFUSED)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"the flags 0x%04x in the directory ask for what torch does not know",
			e->flags);
	if (e->method != CKPT_ZIP_STORED && e->method != CKPT_ZIP_DEFLATED)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"compression method %u, torch reads only 0 (stored) and 8 (deflated)",
			e->method);
	if (e->method == CKPT_ZIP_STORED && e->csize != e->usize)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "a stored record of %" PRIu64 " bytes claims to hold %" PRIu64,
				 e->csize, e->usize);
	return 0;
}

static int check_local_header(const struct ckpt_zip *zip, struct ckpt_zip_entry *e,
			      const uint8_t *bytes, struct ckpt_error *err)
{
	struct ckpt_reader r = { bytes, LOCAL_BYTES, 0, false };
	uint16_t flags, method, name_len, extra_len;
	uint64_t data_off, end;

	if (ckpt_read_u32(&r) != SIG_LOCAL)
		return ckpt_fail(err, CKPT_E_FORMAT, "no local header where the directory points");
	ckpt_read_u16(&r);
	flags = ckpt_read_u16(&r);
	method = ckpt_read_u16(&r);
	ckpt_read_bytes(&r, 16);
	name_len = ckpt_read_u16(&r);
	extra_len = ckpt_read_u16(&r);
	if (method != e->method || (flags & ENCRYPTED) != (e->flags & ENCRYPTED))
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"local header (method %u, flags 0x%04x) and directory (method %u, flags "
			"0x%04x) disagree",
			method, flags, e->method, e->flags);
	if (name_len != e->name_len)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "local header and directory disagree about the name");
	data_off = e->header_off + LOCAL_BYTES + name_len + extra_len;
	if (__builtin_add_overflow(data_off, e->csize, &end) || end > zip->directory_off)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the data would end at %" PRIu64
				 ", inside the directory at %" PRIu64,
				 end, zip->directory_off);
	e->data_off = data_off;
	return 0;
}

static int locate(struct ckpt_zip *zip, struct ckpt_zip_entry *e, struct ckpt_window *w,
		  struct ckpt_error *err)
{
	const uint8_t *bytes, *name;
	char shown[128];
	int rc = check_entry(e, err);

	/* the header alone, where the next one is not near: what is read besides is the record's, and is read once more for that */
	w->ahead = e->csize > NEAR ? LOCAL_BYTES + (size_t)e->name_len : w->cap;
	w->ahead = w->ahead < w->cap ? w->ahead : w->cap;
	if (rc == 0)
		rc = ckpt_window_read(w, e->header_off, LOCAL_BYTES, &bytes, err);
	if (rc == 0)
		rc = check_local_header(zip, e, bytes, err);
	if (rc == 0) {
		uint32_t len = e->name_len < w->cap ? e->name_len : (uint32_t)w->cap;

		rc = ckpt_window_read(w, e->header_off + LOCAL_BYTES, len, &name, err);
		if (rc == 0 && memcmp(name, e->name, len))
			rc = ckpt_fail(err, CKPT_E_FORMAT, "the local header calls the record '%s'",
				       ckpt_escape(shown, sizeof(shown), (const char *)name, len));
	}
	if (rc < 0)
		e->data_off = 0;
	return ckpt_error_at(err, rc, NULL,
			     rc < 0 ? ckpt_escape(shown, sizeof(shown), e->name, e->name_len)
				    : NULL,
			     e->header_off);
}

int ckpt_zip_locate(struct ckpt_zip *zip, struct ckpt_zip_entry *entry, struct ckpt_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&zip->lock);
	if (!entry->data_off && !zip->headers.cap)
		rc = ckpt_window_init(&zip->headers, zip->source, HEADER_WINDOW, err);
	if (rc == 0 && !entry->data_off)
		rc = locate(zip, entry, &zip->headers, err);
	pthread_mutex_unlock(&zip->lock);
	return rc;
}

int ckpt_zip_locate_all(struct ckpt_zip *zip, struct ckpt_error *err)
{
	struct ckpt_zip_entry **order = ckpt_zip_by_place(zip);
	struct ckpt_window w = { 0 };
	int rc = order ? ckpt_window_init(&w, zip->source, HEADER_WINDOW, err)
		       : ckpt_fail_nomem(err);

	pthread_mutex_lock(&zip->lock);
	for (uint32_t i = 0; rc == 0 && i < zip->count; i++) {
		struct ckpt_zip_entry *e = order[i];
		char one[120], other[120];
		uint64_t end;

		if (!e->data_off)
			rc = locate(zip, e, &w, err);
		end = e->data_off + e->csize;
		if (rc == 0 && i + 1 < zip->count && end > order[i + 1]->header_off)
			rc = ckpt_fail(err, CKPT_E_FORMAT, "the records '%s' and '%s' overlap",
				       ckpt_escape(one, sizeof(one), e->name, e->name_len),
				       ckpt_escape(other, sizeof(other), order[i + 1]->name,
						   order[i + 1]->name_len));
	}
	pthread_mutex_unlock(&zip->lock);
	ckpt_window_clear(&w);
	free(order);
	return rc;
}

struct ckpt_recipe ckpt_zip_recipe(struct ckpt_zip *zip, const struct ckpt_zip_entry *entry)
{
	if (entry->method == CKPT_ZIP_DEFLATED)
		return ckpt_zip_inflate_recipe(zip, entry);
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
				     .src = zip->source,
				     .off = entry->data_off,
				     .len = entry->usize };
}

static int read_recipe(const struct ckpt_recipe *recipe, uint8_t *buf, struct ckpt_error *err)
{
	struct ckpt_stream *stream;
	int rc;

	if (recipe->kind == CKPT_RECIPE_EXTENT)
		return ckpt_source_read(recipe->src, recipe->off, buf, recipe->len, err);
	rc = recipe->open(recipe, &stream, err);
	if (rc == 0) {
		rc = stream->read(stream, buf, recipe->len, err);
		stream->close(stream);
	}
	return rc;
}

int ckpt_zip_read(struct ckpt_zip *zip, struct ckpt_zip_entry *entry, uint64_t most, uint8_t **out,
		  struct ckpt_error *err)
{
	struct ckpt_recipe recipe;
	uint8_t *buf = NULL;
	char shown[128];
	uint32_t crc;
	int rc = ckpt_zip_locate(zip, entry, err);

	*out = NULL;
	if (rc == 0 && entry->usize > most)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "has %" PRIu64 " bytes, the limit is %" PRIu64,
			       entry->usize, most);
	if (rc == 0) {
		buf = malloc(entry->usize + 1);
		rc = buf ? 0 : ckpt_fail_nomem(err);
	}
	if (rc == 0) {
		recipe = ckpt_zip_recipe(zip, entry);
		rc = read_recipe(&recipe, buf, err);
	}
	if (rc == 0 && entry->crc32) {
		crc = libdeflate_crc32(0, buf, entry->usize);
		if (crc != entry->crc32)
			rc = ckpt_fail(err, CKPT_E_FORMAT,
				       "damaged: its CRC-32 is %08" PRIx32 ", %08" PRIx32
				       " is recorded",
				       crc, entry->crc32);
	}
	if (rc == 0)
		*out = buf;
	else
		free(buf);
	return ckpt_error_at(err, rc, NULL,
			     rc < 0 ? ckpt_escape(shown, sizeof(shown), entry->name,
						  entry->name_len)
				    : NULL,
			     CKPT_NO_OFFSET);
}
