/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of zip archives: one, or several one behind the other, as the data files of DCP directories are. Each is read, its records are
 * looked into, and what it says of its storages is proven.
 *
 * What must stay true: the last archive comes first, since only its end can be found; of a row each one is a slice of the whole file.
 */
#include "scan/loaders/zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* torch.load of it: by the ordinary unpickler, or not at all. */
static void set_top(struct ckpt_loose_zip *zip)
{
	struct ckpt_scanner *s = zip->s;

	s->file.format = zip->is_script	   ? "TorchScript"
			 : zip->is_package ? "torch package"
			 : zip->is_export  ? "torch export"
			 : zip->has_pickle ? "torch zip"
					   : "zip archive";
	s->file.is_torch = zip->has_pickle || zip->is_script;
	if (s->file.is_torch)
		ckpt_loose_zip_check_for_torch(zip);
}

/*
 * A checkpoint inside of something, or one of a row: who loads it believes what its pickle says of
 * its storages.
 */
static void prove_zip(const struct ckpt_loose_zip *zip)
{
	struct ckpt_scanner *s = zip->s;
	struct ckpt_source *part;
	/* scan_one() does it */
	bool is_top = zip->flags & CKPT_SCAN_TOP && !zip->in_row && (zip->has_pickle || zip->is_script);

	if (is_top || !(zip->has_pickle || zip->is_script || zip->is_package) || s->rc < 0)
		return;
	if (zip->is_old_package && !zip->has_pickle && !zip->is_script && !zip->storages.count)
		return; /* a package of torch 1.8 without tensors, which has nothing to believe */
	if (ckpt_source_slice(zip->source, zip->base, ckpt_source_size(zip->source) - zip->base, &part, NULL) < 0) {
		s->no_memory = true;
		return;
	}
	ckpt_scan_prove_part(s, part);
	ckpt_source_unref(part);
}

/* Records that lie far apart are read where they are: a window would read what is between them. */
static bool open_window(struct ckpt_loose_zip *zip)
{
	enum { WINDOW = 64 << 10, NEAR = 8 << 10 };

	if (!zip->count || ckpt_source_size(zip->source) / zip->count > NEAR)
		return true;
	zip->s->no_memory |= ckpt_window_init(&zip->window, zip->source, WINDOW, NULL) < 0;
	return zip->window.bytes;
}

/* What who takes a row for one archive sees of it. */
struct row {
	bool is_begun, is_seen; /* a directory is */
	bool is_first;		/* ... which is that of the archive at the beginning, and so is looked into */
	struct ckpt_loose_directory seen;
};

/* Does a load miss nothing, where it knows of no more than so many records? torch writes a name for the archive last, and reads it nowhere. */
static bool are_enough(const struct ckpt_loose_zip *zip, uint64_t count)
{
	for (uint64_t i = count; i < zip->count; i++) {
		const char *record = !zip->folder ? NULL : ckpt_loose_zip_in_folder(zip, &zip->entries[i]);

		if (!record || strcmp(record, ".data/serialization_id") != 0)
			return false;
	}
	return true;
}

/* Items of the same size, or as far from their directories, point into the first. Who looks for more records than it has finds none. */
static void compare_as_one(struct row *row, struct ckpt_loose_zip *zip)
{
	if (!row->is_begun)
		row->is_seen = zip->base && ckpt_loose_zip_seen_as_one(zip, &row->seen);
	row->is_begun = true;
	row->is_first = !zip->base && row->seen.off == zip->directory_off && are_enough(zip, row->seen.count);
}

/* The last archive of SOURCE; returns how many bytes are in front of it. */
static uint64_t scan_last(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags, struct row *row)
{
	struct ckpt_loose_zip zip = { .s = s, .source = source, .flags = flags, .in_row = flags & CKPT_SCAN_ROW };
	const char *before = s->where;
	char place[32];

	if (ckpt_loose_zip_read(&zip)) {
		ckpt_loose_zip_find_kind(&zip);
		compare_as_one(row, &zip);
		if (zip.base)
			zip.flags &= ~(unsigned)CKPT_SCAN_TOP;
		if (zip.folder && zip.flags & CKPT_SCAN_TOP)
			set_top(&zip);
		snprintf(place, sizeof(place), "@0x%" PRIx64, zip.base);
		if (zip.base)
			ckpt_scan_enter(s, place, strlen(place));
		if (zip.folder && open_window(&zip)) {
			ckpt_loose_zip_compare(&zip);
			ckpt_loose_zip_records(&zip);
			ckpt_window_clear(&zip.window);
			free(zip.entries); /* the reader of checkpoints has its own list */
			free(zip.order);
			zip.entries = NULL;
			zip.order = NULL;
			zip.count = 0;
			prove_zip(&zip);
		}
	}
	s->where = before;
	free(zip.entries);
	free(zip.order);
	free(zip.folder);
	free(zip.room);
	ckpt_strmap_clear(&zip.storages);
	ckpt_strmap_clear(&zip.said_storages);
	ckpt_strmap_clear(&zip.records);
	return zip.base;
}

/* torch.load reads the last archive, if any: the directory is what is loaded. */
static void set_dcp(struct ckpt_scanner *s)
{
	s->file.format = "data of a DCP directory";
	s->file.is_torch = false;
}

/*
 * Data files of DCP directories are archives one behind the other. What else has something in front
 * of it is two files in one.
 */
void ckpt_scan_zip(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags)
{
	struct ckpt_source *part = ckpt_source_ref(source), *front;
	struct row row = { 0 };
	bool is_row = flags & CKPT_SCAN_ROW, in_row = true;
	uint64_t base, end;

	if (flags & CKPT_SCAN_TOP)
		s->file.format = "zip archive";
	while (part && in_row && (base = scan_last(s, part, flags, &row)) > 0 && s->rc == 0) {
		if (ckpt_scan_is_cancelled(s))
			s->rc = CKPT_E_CANCELLED;
		if (!is_row)
			ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "archive", 0,
				       "%" PRIu64 " bytes in front of the archive", base);
		flags = is_row ? flags : CKPT_SCAN_PART;
		end = ckpt_loose_row_end(part, base);
		in_row = end > 0;
		/* a slice of the whole, not of the last slice: there may be very many */
		if (ckpt_source_slice(source, 0, in_row ? end : base, &front, NULL) < 0)
			front = NULL;
		s->no_memory |= !front;
		ckpt_source_unref(part);
		part = front;
		if (part && !in_row) { /* which may end with another archive, and so on */
			s->depth++;
			ckpt_scan_source(s, part, CKPT_SCAN_PART);
			s->depth--;
		}
	}
	if (is_row && row.is_seen && !row.is_first)
		ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "archive", row.seen.off, "who opens the whole file finds a directory here, which is not that of its first archive");
	if (flags & CKPT_SCAN_TOP && is_row)
		set_dcp(s);
	ckpt_source_unref(part);
}
