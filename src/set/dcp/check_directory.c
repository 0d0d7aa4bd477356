/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong, or may be, with a DCP directory that has an index: files that are not there or
 * do not fit, tensors that are not covered, traces of other saves. Each finding is one line of
 * text for the user.
 *
 * It looks at names, sizes, times and the index, and reads no data. Of many findings of a kind
 * the first few are shown and the others counted.
 */
#include "set/dcp/check_directory.h"

#include "base/text.h"
#include "set/listing.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OF_A_KIND = 8, SHOWN = 120, NOTE = 700 };

struct directory_check {
	struct ckpt_dcp *dcp;
	void (*note)(void *ctx, const char *text);
	void *ctx;
	struct ckpt_listing listing;
	uint64_t *items, *cut; /* by file: items in it, and those that reach beyond its end */
};

static void __attribute__((format(printf, 2, 3)))
add_note(const struct directory_check *t, const char *fmt, ...)
{
	char text[NOTE];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	t->note(t->ctx, text);
}

static const char *escaped(const char *name, char shown[SHOWN])
{
	return ckpt_escape(shown, SHOWN, name, strlen(name));
}

static void count_items(struct directory_check *t)
{
	const struct ckpt_dcp_index *x = &t->dcp->index;

	for (uint64_t i = 0; i < x->chunk_count; i++) {
		const struct ckpt_dcp_chunk *c = &x->chunks[i];
		const struct ckpt_dcp_file *file;

		if (c->file == CKPT_DCP_NO_FILE)
			continue;
		file = &t->dcp->files[c->file];
		t->items[c->file]++;
		if (!file->missing && (c->off > file->size || c->len > file->size - c->off))
			t->cut[c->file]++;
	}
}

static void note_bad_files(const struct directory_check *t)
{
	uint32_t told = 0, more = 0;
	char shown[SHOWN];

	for (uint32_t i = 0; i < t->dcp->index.file_count; i++) {
		const struct ckpt_dcp_file *file = &t->dcp->files[i];

		if (!file->missing && !t->cut[i])
			continue;
		if (told++ >= MOST_OF_A_KIND)
			more++;
		else if (file->missing)
			add_note(t, "'%s' is missing, which holds %" PRIu64 " of the items",
				 escaped(file->name, shown), t->items[i]);
		else
			add_note(t,
				 "'%s' is too short for %" PRIu64 " of its %" PRIu64
				 " items: it was cut, or written anew after the index",
				 escaped(file->name, shown), t->cut[i], t->items[i]);
	}
	if (more)
		add_note(t, "... and %u files more", more);
}

static void note_stale_files(const struct directory_check *t)
{
	const struct ckpt_listed *index = ckpt_listing_find(&t->listing, ".metadata");
	char shown[SHOWN];

	if (ckpt_listing_find(&t->listing, ".metadata.tmp"))
		add_note(
			t,
			"'.metadata.tmp' lies beside: a later save into the directory was interrupted");
	for (uint32_t i = 0; index && i < t->dcp->index.file_count; i++) {
		const struct ckpt_dcp_file *file = &t->dcp->files[i];

		if (file->missing || !ckpt_listed_newer(&file->mtime, &index->mtime))
			continue;
		add_note(
			t,
			"'%s' was changed after the index: a later save into the directory did not finish, "
			"or the files were copied one by one",
			escaped(file->name, shown));
		return;
	}
}

bool ckpt_dcp_is_unused_data(const struct ckpt_dcp *dcp, const char *name)
{
	size_t len = strlen(name);

	return len > 7 && !strcmp(name + len - 7, ".distcp") &&
	       !ckpt_strmap_find(&dcp->index.file_by_name, name, len);
}

static void note_unused_files(const struct directory_check *t)
{
	const char *first = NULL;
	uint64_t count = 0, nbytes = 0;
	char shown[SHOWN];

	for (size_t i = 0; i < t->listing.count; i++) {
		const struct ckpt_listed *file = &t->listing.items[i];

		if (!ckpt_dcp_is_unused_data(t->dcp, file->name))
			continue;
		if (!count++)
			first = file->name;
		nbytes += file->size;
	}
	if (count)
		add_note(t,
			 "%" PRIu64 " data file%s of %" PRIu64
			 " bytes that the index does not mention (%s): of "
			 "an earlier save with more ranks, or of an edit in place",
			 count, count == 1 ? "" : "s", nbytes, escaped(first, shown));
}

static int note_uncovered(const struct directory_check *t, struct ckpt_error *err)
{
	const struct ckpt_dcp_index *x = &t->dcp->index;
	struct ckpt_error why = CKPT_ERROR_INIT;
	uint64_t bad = 0;
	char shown[SHOWN], text[sizeof(why.text)];

	for (uint32_t i = 0; i < x->entry_count; i++) {
		const struct ckpt_dcp_entry *e = &x->entries[i];

		if (!e->is_tensor || ckpt_dcp_check_cover(x, e, &why) == 0)
			continue;
		if (why.status == CKPT_E_NOMEM)
			return ckpt_fail_nomem(err);
		if (bad++ < MOST_OF_A_KIND)
			add_note(t, "'%s': %s",
				 ckpt_escape(shown, SHOWN, e->fqn->u.bytes.ptr,
					     e->fqn->u.bytes.len),
				 ckpt_error_text(&why, text, sizeof(text)));
	}
	if (bad > MOST_OF_A_KIND)
		add_note(t, "... and %" PRIu64 " tensors more", bad - MOST_OF_A_KIND);
	if (x->unplaced)
		add_note(t, "%u places in the index belong to no tensor and no value", x->unplaced);
	if (t->dcp->unreadable_items)
		add_note(t, "%u value%s cannot be read: %s", t->dcp->unreadable_items,
			 t->dcp->unreadable_items == 1 ? "" : "s", t->dcp->first_unreadable);
	return 0;
}

int ckpt_dcp_check_directory(const struct ckpt_model *model,
			     void (*note)(void *ctx, const char *text), void *ctx,
			     struct ckpt_error *err)
{
	struct directory_check t = { .dcp = ckpt_dcp_of(model), .note = note, .ctx = ctx };
	size_t room = t.dcp->index.file_count + (size_t)1;
	int rc = ckpt_listing_read(t.dcp->path, &t.listing, err);

	t.items = calloc(room, sizeof(*t.items));
	t.cut = calloc(room, sizeof(*t.cut));
	if (rc == 0 && (!t.items || !t.cut))
		rc = ckpt_fail_nomem(err);
	if (rc == 0) {
		count_items(&t);
		note_bad_files(&t);
		note_stale_files(&t);
		rc = note_uncovered(&t, err);
		note_unused_files(&t);
	}
	ckpt_listing_clear(&t.listing);
	free(t.items);
	free(t.cut);
	return rc;
}
