/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each record makes the bytes that layout.h would write at its place, and compares them with
 * the file: first headers, descriptors and the gaps between records, in the order of the file,
 * then the directory, then the end records. What must stay true: everything but the data of the
 * records is compared or reported as a gap, except the headers of other writers, whose bytes are
 * not known; a difference is no error here, as a file that ckpt_zip_open() accepts can be read.
 */
#include "zipfmt/exact.h"

#include "zipfmt/layout.h"

#include <stdlib.h>
#include <string.h>

enum {
	WINDOW = 136 << 10, /* the longest header: 30 bytes, a name and padding of 65,535 each */
	ENDS = 98,
	HEADER_VERSION = 4,
	HEADER_METHOD = 8,
	ENTRY_VERSION = 6,
	ENTRY_METHOD = 10
};
enum { DEFLATE_VERSION = 20 };

struct comparer {
	struct ckpt_zip *zip;
	uint32_t alignment;
	struct ckpt_zip_comparison *c;
	struct ckpt_window window;
	struct ckpt_buf wanted; /* what torch would write */
	struct ckpt_zip_record record;
	struct ckpt_zip_layout one; /* of RECORD alone */
	char *folder;		    /* name of the archive */
	struct ckpt_error *err;
};

/* ---- what torch would write ---- */

/* Lay out entry E as torch would at its offset. False: torch writes no such record. */
static bool lay_out_entry(struct comparer *c, const struct ckpt_zip_entry *e)
{
	size_t folder = strlen(c->folder);

	if (e->name_len <= folder || memcmp(e->name, c->folder, folder) || e->name[folder] != '/')
		return false;
	c->record = (struct ckpt_zip_record){ .name = e->name + folder + 1,
					      .size = e->usize,
					      .crc32 = e->crc32 };
	c->one = (struct ckpt_zip_layout){ c->folder, c->alignment, &c->record, 1, 0, 0, 0 };
	return ckpt_zip_layout_append(&c->one, e->header_off, NULL) == 0;
}

static void set_u16(struct comparer *c, size_t at, uint16_t v)
{
	if (!c->wanted.bad && at + 2 <= c->wanted.len) {
		c->wanted.data[at] = (uint8_t)v;
		c->wanted.data[at + 1] = (uint8_t)(v >> 8);
	}
}

/* TorchScript deflates its code, and layout.h knows stored records only. */
static void make_deflated(struct comparer *c, const struct ckpt_zip_entry *e, size_t version,
			  size_t method)
{
	if (e->method != CKPT_ZIP_DEFLATED)
		return;
	set_u16(c, version, DEFLATE_VERSION);
	set_u16(c, method, CKPT_ZIP_DEFLATED);
}

static void set_csize(struct comparer *c, const struct ckpt_zip_entry *e, size_t at)
{
	for (int i = 0; i < 4; i += 2)
		set_u16(c, at + (size_t)i, (uint16_t)(e->csize >> (8 * i)));
}

/* ---- comparing it with the file ---- */

static int report(struct comparer *c, const struct ckpt_zip_difference *d)
{
	return c->c->differs(c->c->ctx, d);
}

/* Compare LEN bytes at OFF with c->wanted. 1: they are the same, 0: the difference was reported. */
static int compare(struct comparer *c, enum ckpt_zip_part part, const struct ckpt_zip_entry *e,
		   uint64_t off, uint64_t len)
{
	struct ckpt_zip_difference d = { .part = part, .entry = e, .found = -1, .wanted = -1 };
	const struct ckpt_buf *wanted = &c->wanted;
	const uint8_t *found;
	size_t i = 0, both;
	int rc;

	if (wanted->bad)
		return ckpt_fail_nomem(c->err);
	both = len < wanted->len ? (size_t)len : wanted->len;
	if (both > WINDOW)
		both = WINDOW;
	rc = ckpt_window_read(&c->window, off, both, &found, c->err);
	if (rc < 0)
		return rc;
	while (i < both && found[i] == wanted->data[i])
		i++;
	if (i == both && len == wanted->len)
		return 1;
	d.off = off + i;
	if (i < both)
		d.found = found[i];
	if (i < wanted->len)
		d.wanted = wanted->data[i];
	rc = report(c, &d);
	return rc < 0 ? rc : 0;
}

static int compare_header(struct comparer *c, const struct ckpt_zip_entry *e)
{
	int rc;

	c->wanted.len = 0;
	ckpt_zip_put_local_header(&c->one, 0, &c->wanted);
	make_deflated(c, e, HEADER_VERSION, HEADER_METHOD);
	rc = compare(c, CKPT_ZIP_HEADER, e, e->header_off, e->data_off - e->header_off);
	c->c->same_headers += rc == 1;
	return rc < 0 ? rc : 0;
}

/* *END: where the record ends. */
static int compare_descriptor(struct comparer *c, const struct ckpt_zip_entry *e, uint64_t *end)
{
	int rc;

	*end = e->data_off + e->csize;
	c->wanted.len = 0;
	ckpt_zip_put_descriptor(&c->one, 0, &c->wanted);
	if (e->method == CKPT_ZIP_DEFLATED)
		set_csize(c, e, 8);
	if (c->wanted.len > c->zip->directory_off - *end)
		return 0;
	rc = compare(c, CKPT_ZIP_DESCRIPTOR, e, *end, c->wanted.len);
	*end += c->wanted.len;
	return rc < 0 ? rc : 0;
}

static int report_gap(struct comparer *c, const struct ckpt_zip_entry *before, uint64_t from,
		      uint64_t to)
{
	struct ckpt_zip_difference d = { CKPT_ZIP_GAP, before, from, to - from, -1, -1 };

	return to > from ? report(c, &d) : 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct ckpt_zip_entry *x = *(const struct ckpt_zip_entry *const *)a,
				    *y = *(const struct ckpt_zip_entry *const *)b;

	return (x->header_off > y->header_off) - (x->header_off < y->header_off);
}

static int compare_records(struct comparer *c, const struct ckpt_zip_entry **sorted)
{
	uint64_t end = 0;
	int rc = 0;

	for (uint32_t i = 0; i < c->zip->count; i++)
		sorted[i] = &c->zip->entries[i];
	qsort(sorted, c->zip->count, sizeof(*sorted), by_offset);
	for (uint32_t i = 0; rc == 0 && i < c->zip->count; i++) {
		const struct ckpt_zip_entry *e = sorted[i];

		rc = report_gap(c, e, end, e->header_off);
		if (rc < 0 || !e->data_off) /* not located: its end is not known */
			end = UINT64_MAX;
		else if (!lay_out_entry(c, e))
			end = e->data_off + e->csize;
		else if ((rc = compare_header(c, e)) == 0)
			rc = compare_descriptor(c, e, &end);
	}
	return rc < 0 ? rc : report_gap(c, NULL, end, c->zip->directory_off);
}

/* *END: where the directory ends. 0: that is not known, as an entry is not torch's. */
static int compare_directory(struct comparer *c, uint64_t *end)
{
	int rc = 0;

	*end = c->zip->directory_off;
	for (uint32_t i = 0; rc >= 0 && i < c->zip->count; i++) {
		const struct ckpt_zip_entry *e = &c->zip->entries[i];

		if (!lay_out_entry(c, e))
			return 0;
		c->record.header_off = e->header_off;
		c->wanted.len = 0;
		ckpt_zip_put_directory_entry(&c->one, 0, &c->wanted);
		make_deflated(c, e, ENTRY_VERSION, ENTRY_METHOD);
		if (e->method == CKPT_ZIP_DEFLATED)
			set_csize(c, e, 20);
		rc = compare(c, CKPT_ZIP_DIRECTORY, e, *end, c->wanted.len);
		c->c->same_entries += rc == 1;
		*end += c->wanted.len;
	}
	return rc < 0 ? rc : 1;
}

/* An edit in place may leave a gap before the end records, which then end the file. */
static int compare_ends(struct comparer *c, uint64_t directory_end)
{
	struct ckpt_zip_layout all = { .count = c->zip->count,
				       .directory_off = c->zip->directory_off,
				       .directory_size = directory_end - c->zip->directory_off };
	uint64_t size = ckpt_source_size(c->zip->source), at = directory_end;
	struct ckpt_zip_difference trailer = { CKPT_ZIP_TRAILER, NULL, 0, 0, -1, -1 };
	const uint8_t *found;
	int rc;

	if (size < ENDS || directory_end > size - ENDS)
		return 0;
	rc = ckpt_window_read(&c->window, at, 4, &found, c->err);
	if (rc < 0)
		return rc;
	c->wanted.len = 0;
	ckpt_zip_put_ends(&all, &c->wanted);
	if (memcmp(found, "PK\6\6", 4) != 0 && size - ENDS > at && size - ENDS - at < 1024) {
		rc = report_gap(c, NULL, at, size - ENDS);
		at = size - ENDS;
		for (int i = 0; i < 8; i += 2) /* the offset in the locator */
			set_u16(c, 64 + (size_t)i, (uint16_t)(at >> (8 * i)));
	}
	if (rc == 0)
		rc = compare(c, CKPT_ZIP_ENDS, NULL, at, ENDS);
	trailer.off = at + ENDS;
	trailer.len = size - trailer.off;
	return rc < 0 || !trailer.len ? rc : report(c, &trailer);
}

int ckpt_zip_compare(struct ckpt_zip *zip, uint32_t alignment,
		     struct ckpt_zip_comparison *comparison, struct ckpt_error *err)
{
	struct comparer c = { .zip = zip, .alignment = alignment, .c = comparison, .err = err };
	const struct ckpt_zip_entry **sorted = malloc((zip->count + (size_t)1) * sizeof(*sorted));
	const char *slash = zip->count ? strchr(zip->entries[0].name, '/') : NULL;
	uint64_t end = 0;
	int rc;

	comparison->same_headers = comparison->same_entries = 0;
	c.folder = slash ? strndup(zip->entries[0].name, (size_t)(slash - zip->entries[0].name))
			 : strdup("");
	rc = sorted && c.folder ? ckpt_window_init(&c.window, zip->source, WINDOW, err)
				: ckpt_fail_nomem(err);
	if (rc == 0)
		rc = compare_records(&c, sorted);
	if (rc == 0)
		rc = compare_directory(&c, &end);
	if (rc > 0)
		rc = compare_ends(&c, end);
	ckpt_window_clear(&c.window);
	ckpt_buf_clear(&c.wanted);
	free(c.folder);
	free(sorted);
	return rc < 0 ? rc : 0;
}
