/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the records of a damaged archive, from one to the next. Where a record ends is told by its
 * header, by the directory, or by the size that the pickle has for its storage; where all of these
 * fail, by a search for the next mark of a zip archive.
 *
 * What must stay true: every number in the file may be the damage. So a size counts only if
 * something known stands where the record would end, and the next source of a size is tried if not.
 * Bytes that look like a header may be data: inside a record of known size, only a header that is
 * still missing counts. Each step moves *AT forward, so the walk ends. Nothing is an error but lack
 * of memory, a limit, and a cancel.
 */
#include "format/torch_remains.h"

#include "base/grow.h"
#include "base/reader.h"
#include "zipfmt/layout.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ALIGNMENT = 1 << 20, MOST_RECORDS = 1 << 26, QUICK_BYTES = 64 << 10, GIVE_UP = 2 };
static const uint32_t Z32 = 0xFFFFFFFF;

/* ---- records ---- */

int ckpt_remains_check_cancel(const struct ckpt_remains *r, struct ckpt_error *err)
{
	if (ckpt_cancelled(r->cancel))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted");
	return 0;
}

static bool is_of_torch(const char *record, size_t len)
{
	static const char *const names[] = {
		"data.pkl",	 ".format_version", ".storage_alignment",
		"byteorder",	 "version",	    ".data/version",
		"constants.pkl", "data/",	    ".data/serialization_id"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t want = strlen(names[i]);
		bool folder = names[i][want - 1] == '/';

		if (len >= want && (folder || len == want) && !memcmp(record, names[i], want))
			return true;
	}
	return false;
}

bool ckpt_remains_is_ours(const struct ckpt_remains *r, const char *name, size_t len)
{
	const char *slash = memchr(name, '/', len);
	size_t folder = slash ? (size_t)(slash - name) : 0;

	if (!slash)
		return false;
	if (r->folder)
		return strlen(r->folder) == folder && !memcmp(r->folder, name, folder);
	return is_of_torch(slash + 1, len - folder - 1);
}

bool ckpt_remains_expects(const struct ckpt_remains *r, const char *name, size_t len)
{
	size_t folder = r->folder ? strlen(r->folder) + 1 : 0;

	if (!folder || !ckpt_remains_is_ours(r, name, len) ||
	    !is_of_torch(name + folder, len - folder))
		return false;
	return memcmp(name + folder, "data/", 5) != 0 ||
	       ckpt_strmap_find(&r->sizes, name + folder + 5, len - folder - 5);
}

struct ckpt_remnant *ckpt_remains_find(const struct ckpt_remains *r, const char *name)
{
	size_t folder = r->folder ? strlen(r->folder) : 0, len = strlen(name);
	char full[1024]; /* nothing may be missing only because there is no memory */
	uint64_t *slot;

	if (!r->folder)
		return NULL;
	if (folder + len + 2 > sizeof(full)) { /* no writer has such names */
		for (size_t i = 0; i < r->by_name.count; i++)
			if (ckpt_remains_is_called(r, &r->records[r->by_name.entries[i].value], name))
				return &r->records[r->by_name.entries[i].value];
		return NULL;
	}
	memcpy(full, r->folder, folder);
	full[folder] = '/';
	memcpy(full + folder + 1, name, len + 1);
	slot = ckpt_strmap_find(&r->by_name, full, folder + 1 + len);
	return slot ? &r->records[*slot] : NULL;
}

const char *ckpt_remains_inner_name(const struct ckpt_remains *r, const struct ckpt_remnant *record)
{
	size_t folder = r->folder ? strlen(r->folder) : 0;

	if (!r->folder || record->name_len <= folder + 1 || record->name[folder] != '/' ||
	    memcmp(record->name, r->folder, folder) != 0)
		return NULL;
	return record->name + folder + 1;
}

bool ckpt_remains_is_called(const struct ckpt_remains *r, const struct ckpt_remnant *record,
			    const char *name)
{
	const char *inner = ckpt_remains_inner_name(r, record);

	return inner && !strcmp(inner, name);
}

const char *ckpt_remains_key(const struct ckpt_remains *r, const struct ckpt_remnant *record)
{
	const char *inner = ckpt_remains_inner_name(r, record);

	return inner && !strncmp(inner, "data/", 5) && inner[5] ? inner + 5 : NULL;
}

int ckpt_remains_add(struct ckpt_remains *r, const char *name, uint32_t name_len,
		     uint64_t header_off, struct ckpt_remnant **out, struct ckpt_error *err)
{
	const char *slash = memchr(name, '/', name_len), *copy;
	void *grown;
	bool there;

	*out = NULL;
	if (ckpt_strmap_find(&r->by_name, name, name_len))
		return 0;
	if (r->count == MOST_RECORDS)
		return ckpt_fail(err, CKPT_E_LIMIT, "more than %d records", MOST_RECORDS);
	grown = ckpt_grow(r->records, r->count, &r->cap, sizeof(*r->records));
	if (!grown)
		return ckpt_fail_nomem(err);
	r->records = grown;
	copy = ckpt_arena_copy(r->arena, name, name_len);
	if (!copy)
		return ckpt_arena_fail(r->arena, err);
	if (!r->folder && slash) {
		r->folder = ckpt_arena_copy(r->arena, name, (uint64_t)(slash - name));
		if (!r->folder)
			return ckpt_arena_fail(r->arena, err);
	}
	if (!ckpt_strmap_insert(&r->by_name, copy, name_len, r->count, &there))
		return ckpt_fail_nomem(err);
	*out = &r->records[r->count++];
	**out = (struct ckpt_remnant){ .name = copy,
				       .name_len = name_len,
				       .header_off = header_off };
	return 0;
}

void ckpt_remnant_add_crc(struct ckpt_remnant *record, uint32_t crc32)
{
	for (uint32_t i = 0; i < record->crc_count; i++)
		if (record->crcs[i] == crc32)
			return;
	record->says_none |= !crc32;
	if (crc32 && record->crc_count < sizeof(record->crcs) / sizeof(record->crcs[0]))
		record->crcs[record->crc_count++] = crc32;
}

/* ---- where a record begins and ends ---- */

bool ckpt_remains_expect_data_off(const struct ckpt_remains *r, struct ckpt_remnant *record)
{
	const char *inner = ckpt_remains_inner_name(r, record);
	struct ckpt_zip_record one = { .name = inner, .size = record->csize };
	struct ckpt_zip_layout layout = { r->folder, r->alignment, &one, 1, 0, 0, 0 };

	if (!inner || ckpt_zip_layout_append(&layout, record->header_off, NULL) < 0 ||
	    one.data_off == record->data_off)
		return false;
	record->data_off = one.data_off;
	return true;
}

enum ckpt_zip_found ckpt_remains_read_descriptor(const struct ckpt_remains *r,
						 struct ckpt_remnant *record, uint64_t *end)
{
	uint64_t size = ckpt_source_size(r->source);
	struct ckpt_zip_descriptor d = { 0 };
	bool big = record->csize >= Z32 || record->header_off >= Z32;
	enum ckpt_zip_found found =
		ckpt_zip_read_descriptor(r->source, record->data_off, record->csize, big, &d);

	record->cut = record->data_off > size || record->csize > size - record->data_off;
	record->torn = record->blank = record->overwritten = record->has_doubtful = false;
	*end = record->cut ? size : record->data_off + record->csize + d.len;
	if (found == CKPT_ZIP_THERE) {
		ckpt_remnant_add_crc(record, d.crc32);
		record->usize = d.usize;
		return found;
	}
	if (record->cut)
		return found;
	record->torn = found == CKPT_ZIP_CUT_OFF;
	record->blank = found == CKPT_ZIP_BLANK;
	record->overwritten = found == CKPT_ZIP_WRONG;
	record->has_doubtful = found == CKPT_ZIP_WRONG || (found == CKPT_ZIP_CUT_OFF && d.len);
	record->doubtful_crc = d.crc32;
	if (found == CKPT_ZIP_CUT_OFF)
		*end = size;
	return found;
}

/* ---- searching for marks ---- */

struct search {
	const struct ckpt_remains *r;
	struct ckpt_error *err;
	uint64_t data_off; /* also search for the descriptor of a record that begins here */
	uint64_t most;	   /* no further than this; 0: to the end */
	uint64_t sure;	   /* before this, only headers that are missing count: it may be data */
	bool wants_descriptor, is_descriptor;
};

/* 1, 0, or CKPT_E_NOMEM. MISSING: only a header that was not found yet, and should be there. */
static int is_our_header(const struct search *s, uint64_t at, bool missing)
{
	const struct ckpt_remains *r = s->r;
	struct ckpt_zip_local *local = malloc(sizeof(*local));
	bool is;

	if (!local)
		return ckpt_fail_nomem(s->err);
	is = ckpt_zip_read_local(r->source, at, local) && ckpt_remains_is_ours(r, local->name, local->name_len) &&
	     (!missing || (ckpt_remains_expects(r, local->name, local->name_len) && !ckpt_strmap_find(&r->by_name, local->name, local->name_len)));
	free(local);
	return is;
}

static bool is_our_entry(const struct ckpt_remains *r, uint64_t at)
{
	enum { ENTRY_BYTES = 46, NAME_LEN = 28, SHOWN = 512 };
	uint8_t bytes[ENTRY_BYTES + SHOWN];
	uint64_t left = ckpt_source_size(r->source) - at;
	size_t len = left < sizeof(bytes) ? (size_t)left : sizeof(bytes), name_len;

	if (len < ENTRY_BYTES || ckpt_source_read(r->source, at, bytes, len, NULL) < 0)
		return false;
	name_len = bytes[NAME_LEN] | (size_t)bytes[NAME_LEN + 1] << 8;
	if (name_len > len - ENTRY_BYTES)
		return false;
	return ckpt_remains_is_ours(r, (const char *)bytes + ENTRY_BYTES, name_len);
}

static int match_mark(void *ctx, uint32_t mark, uint64_t at)
{
	struct search *s = ctx;
	struct ckpt_zip_descriptor d = { 0 };

	if (s->most && at > s->most)
		return GIVE_UP;
	if (!mark)
		return ckpt_remains_check_cancel(s->r, s->err);
	if (mark == CKPT_ZIP_MARK_LOCAL)
		return is_our_header(s, at, at < s->sure);
	if (mark == CKPT_ZIP_MARK_DIRECTORY && at >= s->sure)
		return is_our_entry(s->r, at);
	if (mark != CKPT_ZIP_MARK_DESCRIPTOR || !s->wants_descriptor || at <= s->data_off)
		return 0;
	s->is_descriptor = ckpt_zip_read_descriptor(s->r->source, s->data_off, at - s->data_off,
						    false, &d) == CKPT_ZIP_THERE;
	return s->is_descriptor;
}

/*
 * Find the end of RECORD by what follows it. *AT: the mark that tells, its own or that of another
 * record. SURE: a mark is known to stand there; 0: not known.
 */
static int search_end(struct ckpt_remains *r, struct ckpt_remnant *record, uint64_t sure,
		      uint64_t *at, struct ckpt_error *err)
{
	struct search s = { .r = r, .err = err, .data_off = record->data_off, .sure = sure };
	int rc;

	s.wants_descriptor = true;
	s.most = r->quick ? record->data_off + QUICK_BYTES : 0;
	/* data_off may be wrong, with another header before it */
	rc = ckpt_zip_scan(r->source, record->header_off + 1, match_mark, &s, at);
	if (rc <= 0 || rc == GIVE_UP)
		*at = ckpt_source_size(r->source);
	if (rc < 0)
		return rc;
	record->sized = rc == 1 && s.is_descriptor;
	if (!record->sized)
		return 0;
	record->csize = record->usize = *at - record->data_off;
	ckpt_remains_read_descriptor(r, record, at);
	return 0;
}

/* Find the next header or directory, at AT or after it. */
static int search_mark(struct ckpt_remains *r, uint64_t *at, struct ckpt_error *err)
{
	struct search s = { .r = r, .err = err };
	uint64_t from = *at;
	int rc = ckpt_zip_scan(r->source, from, match_mark, &s, at);

	if (rc <= 0)
		*at = ckpt_source_size(r->source);
	return rc < 0 ? rc : 0;
}

/* ---- from record to record ---- */

static bool has_mark_at(const struct ckpt_remains *r, uint64_t at, uint32_t *mark)
{
	uint8_t b[4];

	if (ckpt_source_read(r->source, at, b, sizeof(b), NULL) < 0)
		return false;
	*mark = ckpt_get_u32(b);
	return *mark == CKPT_ZIP_MARK_LOCAL || *mark == CKPT_ZIP_MARK_DIRECTORY ||
	       *mark == CKPT_ZIP_MARK_END64 || *mark == CKPT_ZIP_MARK_END;
}

/* The size of RECORD by the directory or the pickle. False: neither knows it. */
static bool find_size(struct ckpt_remains *r, struct ckpt_remnant *record)
{
	const struct ckpt_zip_entry *entry =
		r->zip ? ckpt_zip_find(r->zip, record->name, record->name_len) : NULL;
	const char *key = ckpt_remains_key(r, record);
	const uint64_t *size = key ? ckpt_strmap_find(&r->sizes, key, strlen(key)) : NULL;
	struct ckpt_zip_descriptor d = { 0 };

	if (record->method != CKPT_ZIP_STORED)
		size = NULL;
	if (entry && (entry->header_off != record->header_off ||
		      (record->method == CKPT_ZIP_STORED && entry->csize != entry->usize)))
		entry = NULL; /* the entry is damaged itself, or is that of another record */
	if (size && (!entry || ckpt_zip_read_descriptor(r->source, record->data_off, *size, false,
							&d) == CKPT_ZIP_THERE))
		record->csize = record->usize = *size;
	else if (entry) {
		record->csize = entry->csize;
		record->usize = entry->usize;
	}
	return size || entry;
}

/* Check the size of RECORD that find_size() gave. *AT: where the next record begins. */
static int check_found_size(struct ckpt_remains *r, struct ckpt_remnant *record, uint64_t *at,
			    struct ckpt_error *err)
{
	enum ckpt_zip_found found = ckpt_remains_read_descriptor(r, record, at);
	struct ckpt_remnant other = *record;
	uint64_t end;
	uint32_t mark;
	int rc;

	record->sized = true;
	if (found == CKPT_ZIP_THERE || r->quick || !record->csize)
		return 0;
	/* the header itself may be damaged, and the data may begin elsewhere */
	if (ckpt_remains_expect_data_off(r, &other) &&
	    ckpt_remains_read_descriptor(r, &other, &end) == CKPT_ZIP_THERE) {
		*record = other;
		*at = end;
		return 0;
	}
	other = *record; /* or the size is wrong, or bytes of the record are missing */
	end = *at;
	other.sized = false;
	rc = search_end(r, &other, !record->cut && has_mark_at(r, end, &mark) ? end : 0, at, err);
	if (rc < 0)
		return rc;
	if (other.sized)
		*record = other;
	else if (*at == ckpt_source_size(r->source))
		*at = end;
	return 0;
}

/* Does something known begin where RECORD, of known size, ends? *AT: there. */
static bool ends_at_mark(const struct ckpt_remains *r, struct ckpt_remnant *record, uint64_t *at)
{
	uint64_t size = ckpt_source_size(r->source);
	uint32_t mark;

	record->cut = record->data_off > size || record->csize > size - record->data_off;
	*at = record->cut ? size : record->data_off + record->csize;
	return !record->cut && (*at == size || has_mark_at(r, *at, &mark));
}

/* The size of RECORD by its own header, LOCAL. *AT: where the next record begins. */
static int set_size_of_header(struct ckpt_remains *r, const struct ckpt_zip_local *local,
			      struct ckpt_remnant *record, uint64_t *at, struct ckpt_error *err)
{
	struct ckpt_remnant other;

	record->csize = local->csize;
	record->usize = local->method == CKPT_ZIP_STORED ? local->csize : local->usize;
	record->sized = true;
	ckpt_remnant_add_crc(record, local->crc32);
	if (ends_at_mark(r, record, at) || r->quick)
		return 0;
	other = *record; /* the size in the header may be the damage */
	if (find_size(r, &other) && ends_at_mark(r, &other, at)) {
		*record = other;
		return 0;
	}
	ends_at_mark(r, record, at);
	*at = local->header_off + 1; /* or bytes are missing */
	return search_mark(r, at, err);
}

static void read_alignment(struct ckpt_remains *r, const struct ckpt_remnant *record)
{
	char text[16] = "";
	unsigned long v;

	if (!record->sized || record->csize >= sizeof(text) ||
	    ckpt_source_read(r->source, record->data_off, text, record->csize, NULL) < 0)
		return;
	v = strtoul(text, NULL, 10);
	if (v >= 1 && v <= MOST_ALIGNMENT)
		r->alignment = (uint32_t)v;
}

/*
 * *OUT NULL: another record has its name. Of two pickles the later one counts, since an edit in
 * place wipes the old one.
 */
static int add_local(struct ckpt_remains *r, const struct ckpt_zip_local *local,
		     struct ckpt_remnant **out, struct ckpt_error *err)
{
	int rc = ckpt_remains_add(r, local->name, local->name_len, local->header_off, out, err);
	struct ckpt_remnant *first = ckpt_remains_find(r, "data.pkl");

	if (rc == 0 && !*out && r->pickle_at < 0 && first && first->name_len == local->name_len &&
	    !memcmp(first->name, local->name, local->name_len)) {
		*first = (struct ckpt_remnant){ .name = first->name,
						.name_len = first->name_len,
						.header_off = local->header_off };
		*out = first;
	}
	if (rc == 0 && *out) {
		(*out)->data_off = local->data_off;
		(*out)->method = local->method;
	}
	return rc;
}

static int read_record(struct ckpt_remains *r, const struct ckpt_zip_local *local, uint64_t *at,
		       struct ckpt_error *err)
{
	struct ckpt_remnant *record;
	int rc = add_local(r, local, &record, err);

	*at = local->header_off + 1;
	if (rc < 0 || !record)
		return rc; /* the next record is searched for */
	if (local->says_size)
		rc = set_size_of_header(r, local, record, at, err);
	else if (find_size(r, record))
		rc = check_found_size(r, record, at, err);
	if (rc == 0 && ckpt_remains_is_called(r, record, "data.pkl")) {
		rc = ckpt_remains_read_pickle(r, (uint32_t)(record - r->records), err);
		if (rc == 0 && record->sized && !local->says_size)
			ckpt_remains_read_descriptor(r, record, at);
	}
	if (rc == 0 && !record->sized && (!r->quick || !ckpt_remains_key(r, record)))
		rc = search_end(r, record, 0, at, err);
	if (rc == 0 && ckpt_remains_is_called(r, record, ".storage_alignment"))
		read_alignment(r, record);
	return rc;
}

/* *AT: where the records end. */
static int walk(struct ckpt_remains *r, uint64_t *at, struct ckpt_error *err)
{
	struct ckpt_zip_local *local = malloc(sizeof(*local));
	uint64_t size = ckpt_source_size(r->source);
	int rc = local ? 0 : ckpt_fail_nomem(err);
	uint32_t mark;

	while (rc == 0 && *at < size) {
		rc = ckpt_remains_check_cancel(r, err);
		if (rc < 0)
			break;
		if (ckpt_zip_read_local(r->source, *at, local) &&
		    ckpt_remains_is_ours(r, local->name, local->name_len)) {
			rc = read_record(r, local, at, err);
			continue;
		}
		if ((has_mark_at(r, *at, &mark) && mark != CKPT_ZIP_MARK_LOCAL) || r->quick)
			break;
		++*at;
		rc = search_mark(r, at, err);
	}
	free(local);
	return rc;
}

/* ---- the whole ---- */

/* Its directory, if it can be read. Only what is the machine's fault is an error. */
static int open_zip(struct ckpt_remains *r, struct ckpt_source *source, struct ckpt_error *err)
{
	struct ckpt_error opening = CKPT_ERROR_INIT;
	int rc = ckpt_zip_open(source, &r->zip, &opening);

	if (rc == 0)
		return 0;
	r->zip = NULL;
	if (rc != CKPT_E_NOMEM)
		return 0;
	return ckpt_fail_nomem(err);
}

static int find_start(struct ckpt_remains *r, struct ckpt_source *source, struct ckpt_error *err)
{
	struct ckpt_zip_local *local = malloc(sizeof(*local));
	bool at_once;
	int rc = local ? 0 : ckpt_fail_nomem(err);

	if (rc < 0)
		return rc;
	r->source = ckpt_source_ref(source);
	at_once = ckpt_zip_read_local(source, 0, local) && strchr(local->name, '/');
	if (at_once) { /* the first record of a repacked archive may be any file */
		r->folder = ckpt_arena_copy(r->arena, local->name,
					    (uint64_t)(strchr(local->name, '/') - local->name));
		rc = r->folder ? 0 : ckpt_arena_fail(r->arena, err);
	}
	free(local);
	if (rc == 0)
		rc = open_zip(r, source, err);
	if (rc < 0 || at_once || r->zip || r->quick)
		return rc;
	rc = search_mark(r, &r->start, err);
	if (rc < 0 || !r->start || r->start == ckpt_source_size(source))
		return rc;
	ckpt_source_unref(r->source);
	r->source = NULL;
	rc = ckpt_source_slice(source, r->start, ckpt_source_size(source) - r->start, &r->source,
			       err);
	return rc == 0 ? open_zip(r, r->source, err) : rc;
}

int ckpt_remains_walk(struct ckpt_source *source, unsigned flags, const volatile int *cancel,
		      struct ckpt_remains *r, uint64_t *end, struct ckpt_error *err)
{
	int rc;

	*end = 0;
	*r = (struct ckpt_remains){ .pickle_at = -1,
				    .alignment = CKPT_ZIP_ALIGNMENT,
				    .quick = flags & CKPT_REMAINS_QUICK,
				    .cancel = cancel };
	r->arena = ckpt_arena_new(8 * ckpt_source_size(source) + (1 << 20));
	rc = r->arena ? find_start(r, source, err) : ckpt_fail_nomem(err);
	return rc == 0 ? walk(r, end, err) : rc;
}

void ckpt_remains_clear(struct ckpt_remains *r)
{
	ckpt_zip_close(r->zip);
	ckpt_strmap_clear(&r->by_name);
	ckpt_strmap_clear(&r->sizes);
	ckpt_pickle_clear(&r->pickle);
	free(r->pickle_bytes);
	free(r->records);
	ckpt_arena_free(r->arena);
	ckpt_source_unref(r->source);
	*r = (struct ckpt_remains){ 0 };
}
