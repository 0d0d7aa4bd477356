/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of an archive: the directory against the headers in front of the records, and the bytes that
 * belong to no record.
 *
 * What must stay true: after compare_header(), the data of an entry that has a header end in front
 * of the directory, which the later steps rely on. Every byte of the file is in a record, in the
 * directory, zero, part of an old directory, or a finding; what can be read of it is looked into
 * as a file of its own.
 */
#include "base/ascii.h"
#include "scan/kinds.h"
#include "scan/loaders/zip.h"

#include "base/reader.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	ENCRYPTED = 1 << 0,
	DESCRIPTOR = 1 << 3,
	REFUSED = 1 << 5 | 1 << 6 | 1 << 13,
	MOST_GAP = 1 << 26,
	SHOWN = 160,
	MOST_NAME = 512, /* MZ_ZIP_MAX_ARCHIVE_FILENAME_SIZE; PyTorchStreamReader::getAllRecords() cuts it there */
};

/* ---- names ---- */

static void check_name(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	if (memchr(e->name, '\0', e->name_len))
		ckpt_loose_zip_odd(zip, e, 0,
				   "the name has a zero byte in it, where some readers end it");
	else if (ckpt_scan_leads_out(e->name, e->name_len))
		ckpt_loose_zip_odd(zip, e, 0, "the name leads out of the archive");
	else if (e->name_len >= MOST_NAME)
		ckpt_loose_zip_odd(zip, e, 0, "the name is longer than torch lists it, which sees %d bytes", MOST_NAME - 1);
	else if (!ckpt_utf8_ok(e->name, e->name_len))
		ckpt_loose_zip_odd(zip, e, 0, "the name is no UTF-8");
}

static int compare_names(const void *a, const void *b)
{
	const struct ckpt_loose_entry *x = *(const struct ckpt_loose_entry *const *)a,
				      *y = *(const struct ckpt_loose_entry *const *)b;

	int order = ckpt_strcasecmp(x->name, y->name);

	return order ? order : strcmp(x->name, y->name);
}

static int compare_exactly(const void *a, const void *b)
{
	const struct ckpt_loose_entry *x = *(const struct ckpt_loose_entry *const *)a, *y = *(const struct ckpt_loose_entry *const *)b;

	return strcmp(x->name, y->name);
}

/* A name without its ".npy", against that of an entry. */
static int compare_stem(const void *key, const void *item)
{
	const struct ckpt_loose_entry *e = *(const struct ckpt_loose_entry *const *)item;
	const char *name = key;
	size_t len = strlen(name) - 4;
	int order = strncmp(name, e->name, len);

	return order ? order : e->name[len] ? -1 : 0;
}

/*
 * numpy.load() calls "a.npy" "a", and shows one of the two if there is an "a", too. SORTED: by name, as it is.
 */
static void check_npy_doubles(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *const *sorted)
{
	for (uint32_t i = 0; i < zip->count; i++) {
		const struct ckpt_loose_entry *const *other = NULL;

		if (ckpt_ends_with(sorted[i]->name, ".npy"))
			other = bsearch(sorted[i]->name, sorted, zip->count, sizeof(*sorted), compare_stem);
		if (other) {
			ckpt_loose_zip_odd(zip, sorted[i], 0, "numpy takes it and the record '%.80s' for one array", (*other)->name);
			return;
		}
	}
}

/*
 * Python takes bytes of a name that is not said to be UTF-8 as of cp437, other readers do not: two
 * names can be one for it alone.
 */
static void check_codes(struct ckpt_loose_zip *zip)
{
	enum { UTF8 = 1 << 11 };
	const struct ckpt_loose_entry *first = NULL;

	for (uint32_t i = 0; i < zip->count; i++) {
		const struct ckpt_loose_entry *e = &zip->entries[i];

		if (ckpt_is_ascii(e->name))
			continue;
		if (first && (first->flags & UTF8) != (e->flags & UTF8)) {
			ckpt_loose_zip_odd(zip, e, 0, "some names are said to be UTF-8, this one is not, or the other way round");
			return;
		}
		first = e;
	}
}

/*
 * torch's miniz takes "w.npy" and "W.npy" for one; all others tell them apart. No torch opens an archive that has no record "version"
 * in its folder or in ".data": caffe2/serialize/inline_container.cc, PyTorchStreamReader::init().
 */
static bool may_be_of_torch(const struct ckpt_loose_zip *zip)
{
	for (uint32_t i = 0; i < zip->count; i++) {
		const char *slash = strrchr(zip->entries[i].name, '/');

		if (slash && !ckpt_strcasecmp(slash + 1, "version"))
			return true;
	}
	return false;
}

static void check_doubles(struct ckpt_loose_zip *zip)
{
	const struct ckpt_loose_entry **sorted = malloc((zip->count + (size_t)1) * sizeof(*sorted));
	bool of_torch = may_be_of_torch(zip);

	zip->s->no_memory |= !sorted;
	if (!sorted)
		return;
	for (uint32_t i = 0; i < zip->count; i++)
		sorted[i] = &zip->entries[i];
	qsort(sorted, zip->count, sizeof(*sorted), compare_names);
	for (uint32_t i = 1; i < zip->count; i++)
		if (!strcmp(sorted[i - 1]->name, sorted[i]->name) || (of_torch && !ckpt_strcasecmp(sorted[i - 1]->name, sorted[i]->name)))
			ckpt_loose_zip_odd(
				zip, sorted[i], 0,
				"two records have this name: which one counts depends on the reader");
	qsort(sorted, zip->count, sizeof(*sorted), compare_exactly);
	check_npy_doubles(zip, sorted);
	check_codes(zip);
	free(sorted);
}

/* ---- headers ---- */

static void compare_descriptor(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	uint8_t bytes[24];
	struct ckpt_reader r = { bytes, sizeof(bytes), 0, false };
	uint64_t end = e->data_off + e->csize, limit = zip->directory_off;
	size_t len = end + 24 <= limit ? 24 : 16;
	bool wide, narrow;

	memset(bytes, 0, sizeof(bytes));
	if (end + len > limit || !ckpt_loose_zip_at(zip, end, bytes, len) || memcmp(bytes, "PK\7\10", 4) != 0)
		return;
	ckpt_read_u32(&r);
	if (ckpt_read_u32(&r) != e->crc32) {
		ckpt_loose_zip_odd(zip, e, 0,
				   "the checksum behind the data is not that of the directory");
		return;
	}
	narrow = ckpt_read_u32(&r) == (uint32_t)e->csize && ckpt_read_u32(&r) == (uint32_t)e->usize;
	r.pos = 8;
	wide = ckpt_read_u64(&r) == e->csize && ckpt_read_u64(&r) == e->usize;
	if (!narrow && !wide)
		ckpt_loose_zip_odd(zip, e, 0,
				   "the sizes behind the data are not those of the directory");
}

static void compare_header(struct ckpt_loose_zip *zip, struct ckpt_loose_entry *e)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(zip->s->arena);
	struct ckpt_loose_entry local;
	char shown[SHOWN];
	uint64_t end;
	bool same;

	if (!ckpt_loose_zip_header(zip, e->header_off, zip->directory_off, &local)) {
		ckpt_loose_zip_odd(zip, e, 0,
				   "there is no header where the directory points, at 0x%" PRIx64,
				   e->header_off);
		return;
	}
	e->data_off = local.data_off;
	same = local.name_len == e->name_len && !memcmp(local.name, e->name, e->name_len);
	ckpt_escape(shown, sizeof(shown), local.name, local.name_len);
	ckpt_arena_release(zip->s->arena,
			   mark); /* where headers overlap, their names are more than the file */
	if (!same)
		ckpt_loose_zip_odd(zip, e, 0, "its header calls it '%s'", shown);
	if (local.method != e->method)
		ckpt_loose_zip_odd(zip, e, 0,
				   "compression method %u in its header, %u in the directory",
				   local.method, e->method);
	if ((local.flags ^ e->flags) & (ENCRYPTED | DESCRIPTOR | REFUSED))
		ckpt_loose_zip_odd(zip, e, 0, "flags 0x%04x in its header, 0x%04x in the directory",
				   local.flags, e->flags);
	if ((!(local.flags & DESCRIPTOR) || local.crc32) && local.crc32 != e->crc32)
		ckpt_loose_zip_odd(zip, e, 0,
				   "the checksum in its header is %08" PRIx32
				   ", in the directory %08" PRIx32,
				   local.crc32, e->crc32);
	if ((!(local.flags & DESCRIPTOR) || local.csize || local.usize) &&
	    (local.csize != e->csize || local.usize != e->usize))
		ckpt_loose_zip_odd(zip, e, 0,
				   "%" PRIu64 " bytes for %" PRIu64 " in its header, %" PRIu64
				   " for %" PRIu64 " in the directory",
				   local.csize, local.usize, e->csize, e->usize);
	if (e->flags & (ENCRYPTED | REFUSED))
		ckpt_loose_zip_odd(
			zip, e, 0,
			"its flags (0x%04x) say that it is encrypted, which nothing that holds a checkpoint is",
			e->flags);
	if (!e->method && e->csize != e->usize)
		ckpt_loose_zip_odd(zip, e, 0,
				   "%" PRIu64
				   " bytes that are not compressed claim to hold %" PRIu64,
				   e->csize, e->usize);
	if (__builtin_add_overflow(e->data_off, e->csize, &end) || end > zip->directory_off) {
		ckpt_loose_zip_odd(zip, e, 0, "it reaches into the directory");
		e->csize = zip->directory_off - e->data_off;
	} else if (e->flags & DESCRIPTOR) {
		compare_descriptor(zip, e);
	}
}

/* ---- what lies between ---- */

static bool is_all(const uint8_t *bytes, size_t len, uint8_t byte)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != byte)
			return false;
	return true;
}

struct gap {
	struct ckpt_loose_zip *zip;
	const uint8_t *bytes; /* all of it */
	uint64_t off, len;
	uint64_t at;
};

static bool is_mark(const uint8_t *at)
{
	return !memcmp(at, "PK\7\10", 4) || !memcmp(at, "PK\3\4", 4) || !memcmp(at, "PK\1\2", 4);
}

/*
 * Where the data of a record end whose header does not say it. No further than that is looked:
 * there may be very many.
 */
static uint64_t data_end(const struct gap *g, uint64_t data)
{
	const uint8_t *end = g->bytes + g->len, *at = g->bytes + data;

	while (end - at >= 4 && (at = memmem(at, (size_t)(end - at), "PK", 2)) && end - at >= 4) {
		if (is_mark(at))
			return (uint64_t)(at - g->bytes);
		at++;
	}
	return g->len;
}

/* A serialization id, which 'ckpt' leaves behind an edit in place. */
static bool is_digits(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] < '0' || bytes[i] > '9')
			return false;
	return len <= 40;
}

/* A record that is not in the directory. Others that it leaves are wiped. False: there is none. */
static bool scan_hidden(struct gap *g)
{
	struct ckpt_loose_entry e;
	uint64_t data, end;

	if (!ckpt_loose_zip_header(g->zip, g->off + g->at, g->off + g->len, &e))
		return false;
	e.is_hidden = true;
	data = e.data_off - g->off;
	end = e.csize && e.csize <= g->len - data ? data + e.csize : data_end(g, data);
	e.csize = end - data;
	if (!e.method)
		e.usize = e.csize;
	if (!is_all(g->bytes + data, (size_t)e.csize, 0) &&
	    !is_digits(g->bytes + data, (size_t)e.csize)) {
		ckpt_loose_zip_odd(g->zip, &e, 0,
				   "a record at 0x%" PRIx64 " that is not in the directory",
				   g->off + g->at);
		ckpt_loose_zip_record(g->zip, &e);
	}
	g->at = end;
	if (g->len - end >= 16 && !memcmp(g->bytes + end, "PK\7\10", 4))
		g->at += 16;
	return true;
}

/* A directory, or its end, that counts no more. */
static bool skip_directory(struct gap *g)
{
	const uint8_t *at = g->bytes + g->at;
	uint64_t left = g->len - g->at, skip = 0;

	if (left < 20 || at[0] != 'P' || at[1] != 'K')
		return false;
	if (at[2] == 1 && at[3] == 2 && left >= 46)
		skip = 46u + (at[28] | at[29] << 8) + (at[30] | at[31] << 8) +
		       (at[32] | at[33] << 8);
	else if (at[2] == 6 && at[3] == 6)
		skip = 56;
	else if (at[2] == 6 && at[3] == 7)
		skip = 20;
	else if (at[2] == 5 && at[3] == 6)
		skip = 22;
	g->at += skip < left ? skip : left;
	return skip;
}

static void scan_stray_bytes(struct gap *g)
{
	uint64_t off = g->off + g->at, len = g->len - g->at;
	struct ckpt_source *part;

	ckpt_loose_zip_odd(g->zip, NULL, off, "%" PRIu64 " bytes that belong to no record", len);
	if (ckpt_source_slice(g->zip->source, off, len, &part, NULL) == 0) {
		g->zip->s->depth++;
		g->zip->s->in_fragment = true;
		ckpt_scan_source(g->zip->s, part, CKPT_SCAN_PART);
		g->zip->s->in_fragment = false;
		g->zip->s->depth--;
		ckpt_source_unref(part);
	}
	g->at = g->len;
}

/* LEN bytes at OFF that belong to nothing. */
static void scan_gap(struct ckpt_loose_zip *zip, uint64_t off, uint64_t len)
{
	struct gap g = { .zip = zip, .off = off, .len = len };
	uint8_t *bytes = len <= MOST_GAP ? malloc((size_t)len + 1) : NULL;

	zip->s->no_memory |= !bytes && len <= MOST_GAP;
	g.bytes = bytes;
	if (!bytes || ckpt_source_read(zip->source, off, bytes, (size_t)len, NULL) < 0) {
		ckpt_loose_zip_odd(zip, NULL, off, "%" PRIu64 " bytes that belong to no record",
				   len);
		free(bytes);
		return;
	}
	while (g.at < len && zip->s->rc == 0)
		if (!bytes[g.at])
			g.at++;
		else if (ckpt_scan_is_cancelled(zip->s))
			zip->s->rc = CKPT_E_CANCELLED;
		else if (!scan_hidden(&g) && !skip_directory(&g))
			scan_stray_bytes(&g);
	free(bytes);
}

static int compare_header_offsets(const void *a, const void *b, void *ctx)
{
	const struct ckpt_loose_zip *zip = ctx;
	const struct ckpt_loose_entry *x = &zip->entries[*(const uint32_t *)a],
				      *y = &zip->entries[*(const uint32_t *)b];

	return (x->header_off > y->header_off) - (x->header_off < y->header_off);
}

/* Behind a record there may be a descriptor, with a signature or without, wide or narrow. */
static uint64_t end_of_record(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	uint64_t end = e->data_off + e->csize;
	uint8_t bytes[24] = { 0 };
	struct ckpt_reader r = { bytes, sizeof(bytes), 8, false };
	size_t room;
	bool wide;

	if (!e->data_off || !(e->flags & DESCRIPTOR) || end + 12 > zip->directory_off)
		return end;
	room = zip->directory_off - end < sizeof(bytes) ? (size_t)(zip->directory_off - end) : sizeof(bytes);
	if (!ckpt_loose_zip_at(zip, end, bytes, room))
		return end;
	wide = e->csize >= 0xFFFFFFFF || e->usize >= 0xFFFFFFFF || e->header_off - zip->base >= 0xFFFFFFFF;
	if (memcmp(bytes, "PK\7\10", 4) != 0)
		return end + (wide ? 20 : 12);
	/*
	 * Python writes wide ones for small records, too, where it could not know how large they
	 * become
	 */
	wide |= room == sizeof(bytes) && (ckpt_read_u32(&r) != (uint32_t)e->csize || ckpt_read_u32(&r) != (uint32_t)e->usize) &&
		(r.pos = 8, ckpt_read_u64(&r) == e->csize && ckpt_read_u64(&r) == e->usize);
	return end + (wide ? 24 : 16);
}

static void check_places(struct ckpt_loose_zip *zip)
{
	uint64_t at = zip->base;
	uint32_t count = zip->count; /* those that are hidden follow */

	for (uint32_t i = 0; i < count && zip->s->rc == 0; i++) {
		const struct ckpt_loose_entry e = zip->entries[zip->order[i]];
		uint64_t end;

		if (!e.data_off)
			continue;
		if (i && e.header_off == zip->entries[zip->order[i - 1]].header_off)
			zip->entries[zip->order[i]].is_shared =
				zip->entries[zip->order[i - 1]].is_shared = true;
		if (e.header_off < at)
			ckpt_loose_zip_odd(zip, &e, 0, "it overlaps the record in front of it");
		else if (e.header_off > at)
			scan_gap(zip, at, e.header_off - at);
		end = end_of_record(zip, &e);
		at = end > at ? end : at;
	}
	if (zip->directory_off > at)
		scan_gap(zip, at, zip->directory_off - at);
}

/* ---- the directory itself, and behind it ---- */

static void check_directory(struct ckpt_loose_zip *zip)
{
	uint64_t size = ckpt_source_size(zip->source), len = zip->end - zip->directory_off;
	uint8_t *bytes, *second;

	if (zip->end > size || len > MOST_GAP)
		return;
	bytes = malloc((size_t)len + 1);
	zip->s->no_memory |= !bytes;
	if (bytes &&
	    ckpt_source_read(zip->source, zip->directory_off, bytes, (size_t)len, NULL) == 0) {
		second = memmem(bytes, (size_t)len, "PK\5\6", 4);
		if (second && memmem(second + 4, (size_t)(bytes + len - second - 4), "PK\5\6", 4))
			ckpt_loose_zip_odd(
				zip, NULL, zip->directory_off + (uint64_t)(second - bytes),
				"a second end record: which directory counts depends on the reader");
		if (memmem(bytes, (size_t)len, "PK\3\4", 4))
			ckpt_loose_zip_odd(zip, NULL, zip->directory_off,
					   "a header of a record inside of the directory");
	}
	free(bytes);
}

static void check_trailer(struct ckpt_loose_zip *zip)
{
	uint64_t size = ckpt_source_size(zip->source);
	struct ckpt_source *part;
	uint8_t *bytes;

	if (size <= zip->end)
		return;
	bytes = malloc((size_t)(size - zip->end));
	if (bytes &&
	    ckpt_source_read(zip->source, zip->end, bytes, (size_t)(size - zip->end), NULL) == 0 &&
	    is_all(bytes, (size_t)(size - zip->end), 0)) {
		free(bytes);
		ckpt_scan_find(zip->s, CKPT_SCAN_PLAIN, "trailer", zip->end,
			       "%" PRIu64 " zero bytes follow the archive", size - zip->end);
		return;
	}
	free(bytes);
	ckpt_loose_zip_odd(zip, NULL, zip->end, "%" PRIu64 " bytes follow the archive",
			   size - zip->end);
	if (ckpt_source_slice(zip->source, zip->end, size - zip->end, &part, NULL) == 0) {
		zip->s->depth++;
		ckpt_scan_source(zip->s, part, CKPT_SCAN_PART);
		zip->s->depth--;
		ckpt_source_unref(part);
	}
}

void ckpt_loose_zip_compare(struct ckpt_loose_zip *zip)
{
	zip->order = malloc((zip->count + (size_t)1) * sizeof(*zip->order));
	zip->s->no_memory |= !zip->order;
	if (!zip->order)
		return;
	for (uint32_t i = 0; i < zip->count; i++) {
		zip->order[i] = i;
		check_name(zip, &zip->entries[i]);
		compare_header(zip, &zip->entries[i]);
	}
	qsort_r(zip->order, zip->count, sizeof(*zip->order), compare_header_offsets, zip);
	check_doubles(zip);
	check_places(zip);
	check_directory(zip);
	check_trailer(zip);
}
