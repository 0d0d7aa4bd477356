/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits of metadata without moving a byte of tensors, crash-safe without a journal. At every
 * moment the file is the old checkpoint or the new one, whatever part of the writes between two
 * syncs is on the disk:
 *
 *   1. Write 98 bytes after the end of the file, in one sector: a copy of the old end records.
 *   2. Write the new data.pkl and a directory with it between the old end and the copy.
 *   3. Switch: write the new end records over the copy.
 *   4. Mark and wipe what nobody refers to any more, the old directory last.
 *
 * Or, where there is room for the new end before the one of now, in what earlier edits have left
 * behind (so that the file does not grow with each of them):
 *
 *   1. Write the new data.pkl, directory and end records there.
 *   2. Switch: cut the file off behind them.
 *   3. Mark and wipe.
 *
 * What must stay true: there is a sync between any two of these steps; nothing before the old end
 * of the file is written before the switch is on the disk, but where no record is and no storage
 * was (zipfmt/dead.h); a record is wiped only if the new directory does not have it and no other
 * record reaches into it (ckpt_zip_locate_all).
 *
 * An edit that was killed before its switch leaves the copy, and maybe metadata in front of it: the next
 * one begins where the archive ended before, and cuts the copy off or writes beyond it. One that was
 * killed behind its switch leaves the old metadata: the next one first takes step 4 for it (take_back()).
 *
 * After 1 the copy ends the file, and readers find the old directory through it. (A tail of
 * zeros, which extending the file first would leave, is not read by torch past 64 KiB.)
 */
#include "base/cancel.h"
#include "format/torch_zip.h"

#include "io/patch.h"
#include "io/sink.h"
#include "resave/resave.h"
#include "zipfmt/killed.h"
#include "zipfmt/serialization_id.h"
#include "zipfmt/tail.h"

#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NEW = 2, ID_BYTES = 40, WIPE = 64 << 10, LOCAL_BYTES = 30, LONGEST_DESCRIPTOR = 24, SPARE = 1024, MOST_READ = 16 << 20 };

struct job {
	const struct ckpt_model *model;
	struct ckpt_torch_zip *tz;
	const struct ckpt_save_options *o;
	struct ckpt_resaved resaved;
	bool *keep; /* by entry of the zip */
	struct ckpt_zip_record records[MOST_NEW];
	const void *bytes[MOST_NEW];
	struct ckpt_zip_layout layout;
	char id[ID_BYTES + 1];
	struct ckpt_zip_tail tail;
	bool is_done;	/* the switch was made, whether it is on the disk or not */
	bool is_inside; /* the tail lies before the old end of the file, which gets shorter */
	struct ckpt_patch *patch; /* the input itself, or ... */
	struct ckpt_sink *sink;	  /* ... a clone of it, which nobody sees yet */
};

static int write_at(struct job *j, uint64_t off, const void *bytes, size_t len,
		    struct ckpt_error *err)
{
	return j->patch ? ckpt_patch_write(j->patch, off, bytes, len, err)
			: ckpt_sink_write(j->sink, off, bytes, len, err);
}

/* Why the bytes cannot stay where they are, or NULL. */
static const char *why_rewrite(const struct job *j)
{
	for (uint32_t i = 0; i < j->resaved.count; i++)
		if (j->model->storages[j->resaved.order[i]].made)
			return "bytes of tensors were changed";
	if (!ckpt_zip_has_plain_ends(j->tz->zip))
		return "it does not end as torch ends its files";
	return NULL;
}

/* ---- the new directory ---- */

static void drop_record(struct job *j, const char *record)
{
	struct ckpt_zip_entry *e = ckpt_torch_zip_record(j->tz, record);

	if (e)
		j->keep[e - j->tz->zip->entries] = false;
}

/*
 * With .format_version torch computes where the storages are, from their sizes in the order of the
 * pickle, which therefore must be 0, 1, 2 ...
 */
static bool is_sequential(const struct job *j)
{
	char text[16];

	for (uint32_t i = 0; i < j->resaved.count; i++) {
		snprintf(text, sizeof(text), "%u", i);
		if (strcmp(j->resaved.keys[i], text))
			return false;
	}
	return true;
}

static int choose_kept(struct job *j, struct ckpt_error *err)
{
	const struct ckpt_zip *zip = j->tz->zip;

	j->keep = malloc(zip->count + (size_t)1);
	if (!j->keep)
		return ckpt_fail_nomem(err);
	memset(j->keep, true, zip->count + (size_t)1);
	for (uint32_t i = 0; i < j->model->storage_count; i++) {
		struct ckpt_zip_entry *e = ckpt_torch_zip_data(j->tz, &j->model->storages[i]);

		if (e)
			j->keep[e - zip->entries] = false;
	}
	for (uint32_t i = 0; i < j->resaved.count; i++) {
		const struct ckpt_storage *s = &j->model->storages[j->resaved.order[i]];
		struct ckpt_zip_entry *e = ckpt_torch_zip_data(j->tz, s);

		if (!e)
			return ckpt_fail(err, CKPT_E_FORMAT, "the record 'data/%.200s' is missing",
					 s->key);
		j->keep[e - zip->entries] = true;
	}
	drop_record(j, "data.pkl");
	drop_record(j, ".data/serialization_id");
	if (!is_sequential(j)) {
		drop_record(j, ".format_version");
		drop_record(j, ".storage_alignment");
	}
	return 0;
}

static void add_new(struct job *j, const char *name, const void *bytes, size_t len)
{
	uint32_t i = j->layout.count++;

	j->records[i] = (struct ckpt_zip_record){ .name = name, .size = len };
	j->records[i].crc32 = j->tz->has_crc ? libdeflate_crc32(0, bytes, len) : 0;
	j->bytes[i] = bytes;
}

/*
 * Made of the names and checksums that there will be; the records' first bytes are not looked
 * at.
 */
static int make_id(struct job *j, struct ckpt_error *err)
{
	size_t skip = strlen(j->tz->archive_name) + 1;
	struct ckpt_serialization_id id;
	int rc;

	ckpt_serialization_id_init(&id);
	for (uint32_t i = 0; i < j->tz->zip->count; i++) {
		const struct ckpt_zip_entry *e = &j->tz->zip->entries[i];

		if (j->keep[i])
			ckpt_serialization_id_add(&id, e->name + skip, e->usize, e->crc32, NULL);
	}
	ckpt_serialization_id_add(&id, "data.pkl", j->records[0].size, j->records[0].crc32, NULL);
	rc = ckpt_serialization_id_format(&id, j->id, err);
	ckpt_serialization_id_clear(&id);
	return rc;
}

/* Records that every edit in place writes anew. */
static bool is_of_every_edit(const struct job *j, const struct ckpt_zip_entry *e)
{
	const char *name = e->name + strlen(j->tz->archive_name) + 1;

	return !strcmp(name, "data.pkl") || !strcmp(name, ".data/serialization_id");
}

/* Where the metadata begin that the last edit in place wrote: behind all other records. */
static bool find_first_of_edit(const struct job *j, uint64_t *first)
{
	const struct ckpt_zip *zip = j->tz->zip;

	*first = zip->directory_off;
	for (uint32_t i = 0; i < zip->count; i++)
		if (is_of_every_edit(j, &zip->entries[i]) && zip->entries[i].header_off < *first)
			*first = zip->entries[i].header_off;
	for (uint32_t i = 0; i < zip->count; i++)
		if (!is_of_every_edit(j, &zip->entries[i]) && zip->entries[i].header_off >= *first)
			return false;
	return *first > 0;
}

/*
 * Where the tail could begin if it is to end before the records that the last edit in place wrote,
 * and behind all that is kept. No storage may lie behind that, since the file will end there: who
 * has it mapped must not lose it. Returns 1 and sets both, or 0.
 */
static int find_room(struct job *j, uint64_t *start, uint64_t *end, struct ckpt_error *err)
{
	const struct ckpt_zip *zip = j->tz->zip;
	uint64_t kept_end = LONGEST_DESCRIPTOR, first, nbytes = 0, most = j->tail.ends_off + sizeof(j->tail.new_ends) - j->tail.start;
	int rc;

	if (!find_first_of_edit(j, &first))
		return 0;
	for (uint32_t i = 0; i < zip->count; i++) {
		const struct ckpt_zip_entry *e = &zip->entries[i];
		uint64_t e_end = e->data_off + e->csize + LONGEST_DESCRIPTOR;

		if (j->keep[i])
			kept_end = e_end > kept_end ? e_end : kept_end;
		if (e->header_off >= first)
			nbytes += e->data_off + e->csize - e->header_off + SPARE;
	}
	if (kept_end >= first || zip->directory_off - first > nbytes)
		return 0;
	/* all that has to be read is a few times what is written, however much of it is a hole */
	if (first - kept_end > MOST_READ + 4 * most)
		kept_end = first - MOST_READ - 4 * most;
	rc = ckpt_zip_find_left_behind(j->tz->zip, j->tz->archive_name, kept_end, first, start, err);
	*end = first;
	/* elsewhere it takes a little more or less, as its records are aligned */
	return rc < 0 ? rc : first - *start + SPARE >= most;
}

static int make_tail_at(struct job *j, uint64_t start, struct ckpt_error *err)
{
	ckpt_zip_tail_clear(&j->tail);
	return ckpt_zip_tail_make(j->tz->zip, j->keep, start, &j->layout, j->bytes, &j->tail, err);
}

/* Behind the archive; where an edit that was killed has appended a copy of its end records, before that. */
static int make_outer_tail(struct job *j, struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(j->tz->zip->source), end = ckpt_zip_end_before_copy(j->tz->zip);
	int rc = make_tail_at(j, end, err);

	j->is_inside = false;
	if (rc == 0 && j->patch && end < size) {
		j->is_inside = j->tail.ends_off + 2 * sizeof(j->tail.new_ends) <= size;
		if (!j->is_inside && j->tail.ends_off < size) { /* it would lie upon that copy */
			rc = make_tail_at(j, size, err);
			end = size;
		}
	} else if (rc == 0 && end < size) { /* nobody sees the clone meanwhile, but it is not cut */
		rc = make_tail_at(j, size, err);
	}
	j->tail.off = end;
	return rc;
}

static int make_inner_tail(struct job *j, struct ckpt_error *err)
{
	uint64_t start, end;
	int rc = find_room(j, &start, &end, err);

	if (rc <= 0)
		return rc;
	rc = make_tail_at(j, start, err);
	j->is_inside = rc == 0 && j->tail.ends_off + sizeof(j->tail.new_ends) <= end;
	if (rc < 0 || j->is_inside)
		return rc;
	return make_outer_tail(j, err);
}

static int make_tail(struct job *j, struct ckpt_error *err)
{
	int rc = choose_kept(j, err);

	if (rc < 0)
		return rc;
	j->layout = (struct ckpt_zip_layout){ .archive_name = j->tz->archive_name,
					      .alignment = CKPT_ZIP_ALIGNMENT,
					      .records = j->records };
	add_new(j, "data.pkl", j->resaved.pickle.data, j->resaved.pickle.len);
	if (j->tz->has_serialization_id) {
		rc = make_id(j, err);
		add_new(j, ".data/serialization_id", j->id, ID_BYTES);
	}
	if (rc == 0)
		rc = make_outer_tail(j, err);
	return rc < 0 || !j->patch ? rc : make_inner_tail(j, err);
}

/* ---- writing ---- */

static bool is_cancelled(const struct job *j)
{
	return ckpt_cancelled(j->o->cancel);
}

/*
 * Steps 1 and 2 of the second way. One write, so that a process that is killed leaves all of it or
 * nothing: by its end records the next edit finds it (take_back()).
 */
static int write_inner_tail(struct job *j, struct ckpt_error *err)
{
	struct ckpt_zip_tail *t = &j->tail;
	int rc;

	ckpt_buf_add(&t->body, t->new_ends, sizeof(t->new_ends));
	rc = t->body.bad ? ckpt_fail_nomem(err) : ckpt_patch_write(j->patch, t->start, t->body.data, t->body.len, err);
	if (rc == 0)
		rc = ckpt_patch_sync(j->patch, err);
	if (rc == 0 && is_cancelled(j))
		rc = ckpt_fail(err, CKPT_E_CANCELLED, "interrupted, nothing was changed");
	if (rc == 0)
		rc = ckpt_patch_truncate(j->patch, t->ends_off + sizeof(t->new_ends), err);
	j->is_done = rc == 0; /* what was cut off does not come back */
	return rc == 0 ? ckpt_patch_sync(j->patch, err) : rc;
}

/* Steps 1 to 3 of the first. */
static int write_tail(struct job *j, struct ckpt_error *err)
{
	struct ckpt_zip_tail *t = &j->tail;
	int rc = ckpt_patch_write(j->patch, t->ends_off, t->old_ends, sizeof(t->old_ends), err);

	if (rc == 0)
		rc = ckpt_patch_sync(j->patch, err);
	if (rc == 0)
		rc = ckpt_patch_write(j->patch, t->start, t->body.data, t->body.len, err);
	if (rc == 0)
		rc = ckpt_patch_sync(j->patch, err);
	if (rc == 0 && is_cancelled(j))
		rc = ckpt_fail(err, CKPT_E_CANCELLED, "interrupted, nothing was changed");
	if (rc == 0)
		rc = ckpt_patch_write(j->patch, t->ends_off, t->new_ends, sizeof(t->new_ends), err);
	return rc == 0 ? ckpt_patch_sync(j->patch, err) : rc;
}

/*
 * Cut the file back to what it was: nothing before the old end changed, or nothing that anybody
 * refers to.
 */
static void undo_tail(struct job *j)
{
	if (!j->is_inside && ckpt_patch_truncate(j->patch, j->tail.off, NULL) == 0)
		ckpt_patch_sync(j->patch, NULL);
}

static int wipe(struct job *j, uint64_t off, uint64_t len, struct ckpt_error *err)
{
	static const uint8_t zeros[WIPE];
	int rc = 0;

	for (uint64_t n; rc == 0 && len; off += n, len -= n) {
		n = len < WIPE ? len : WIPE;
		rc = write_at(j, off, zeros, n, err);
	}
	return rc;
}

static int mark_dead(struct job *j, const struct ckpt_zip_entry *e, struct ckpt_error *err)
{
	size_t skip = strlen(j->tz->archive_name) + 1;

	skip += ckpt_zip_dead_at(e->name + skip);
	return e->name_len >= skip + CKPT_ZIP_DEAD_BYTES ? write_at(j, e->header_off + LOCAL_BYTES + skip, CKPT_ZIP_DEAD, CKPT_ZIP_DEAD_BYTES, err) : 0;
}

static int sync_writes(struct job *j, struct ckpt_error *err)
{
	return j->patch ? ckpt_patch_sync(j->patch, err) : 0;
}

/*
 * The last step: the old pickle may hold what was meant to go; the old directory would only confuse.
 * That goes last, since it leads the next edit to what this one could not wipe (take_back()). What lies
 * behind a tail inside of the file was cut off.
 */
static int clean_up(struct job *j, struct ckpt_error *err)
{
	struct ckpt_zip *zip = j->tz->zip;
	struct ckpt_zip_entry *pickle = ckpt_torch_zip_record(j->tz, "data.pkl");
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < zip->count; i++)
		if (!j->keep[i] && (!j->is_inside || zip->entries[i].header_off < j->tail.start))
			rc = mark_dead(j, &zip->entries[i], err);
	if (rc == 0 && (!j->is_inside || pickle->header_off < j->tail.start))
		rc = wipe(j, pickle->data_off, pickle->csize, err);
	if (rc == 0)
		rc = sync_writes(j, err);
	if (rc == 0 && zip->directory_off < j->tail.start)
		rc = wipe(j, zip->directory_off, j->tail.start - zip->directory_off, err);
	return rc;
}

/*
 * The last step of an edit before this one, that was killed or whose machine stopped. What it dropped
 * is not looked for where a storage lies behind its metadata: no edit in place leaves that.
 */
static int take_back(struct job *j, struct ckpt_error *err)
{
	struct ckpt_zip_remains remains;
	uint64_t first;
	int rc;

	if (!find_first_of_edit(j, &first))
		return 0;
	rc = ckpt_zip_find_remains(j->tz->zip, j->tz->archive_name, first, &remains, err);
	if (rc <= 0)
		return rc;
	rc = 0;
	for (size_t i = 0; rc == 0 && i < remains.mark_count; i++)
		rc = write_at(j, remains.marks[i], CKPT_ZIP_DEAD, CKPT_ZIP_DEAD_BYTES, err);
	if (rc == 0)
		rc = wipe(j, remains.pickle.off, remains.pickle.len, err);
	if (rc == 0)
		rc = sync_writes(j, err);
	if (rc == 0)
		rc = wipe(j, remains.directory.off, remains.directory.len, err);
	if (rc == 0)
		rc = sync_writes(j, err);
	ckpt_zip_remains_clear(&remains);
	return ckpt_error_prefix(err, rc, "what an earlier edit left could not be wiped: ");
}

/* Between the records that are kept, before the new ones. */
static int find_dead(struct job *j, uint64_t least, struct ckpt_zip_gap **gaps, size_t *count, struct ckpt_error *err)
{
	return ckpt_zip_gaps(j->tz->zip, j->keep, j->tail.start, least, gaps, count, err);
}

/* With CKPT_SAVE_FREE, when the edit is on the disk: a crash leaves some of the blocks. */
static int give_back(struct job *j, struct ckpt_save_report *report, struct ckpt_error *err)
{
	uint64_t before = ckpt_patch_nbytes_on_disk(j->patch), after;
	struct ckpt_zip_gap *gaps;
	size_t count;
	int rc = find_dead(j, 1, &gaps, &count, err);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = ckpt_patch_punch(j->patch, gaps[i].off, gaps[i].len, err);
	free(gaps);
	if (rc == 0)
		rc = ckpt_patch_sync(j->patch, err);
	after = ckpt_patch_nbytes_on_disk(j->patch);
	report->freed = before > after ? before - after : 0;
	return ckpt_error_prefix(err, rc, "the edit is done, but blocks could not be given back: ");
}

static int patch(struct job *j, struct ckpt_save_report *report, struct ckpt_error *err)
{
	int rc;

	if (j->o->flags & CKPT_SAVE_DRY_RUN)
		return 0;
	rc = j->is_inside ? write_inner_tail(j, err) : write_tail(j, err);
	if (rc < 0 && j->is_done)
		return ckpt_error_prefix(err, rc, "the edit is done, but may not be on the disk yet: ");
	if (rc < 0) {
		undo_tail(j);
		return rc;
	}
	rc = clean_up(j, err);
	if (rc < 0)
		return ckpt_error_prefix(err, rc,
					 "the edit is done, but what it replaced could not be wiped: ");
	return j->o->flags & CKPT_SAVE_FREE ? give_back(j, report, err) : 0;
}

static void clear(struct job *j)
{
	ckpt_resaved_clear(&j->resaved);
	ckpt_zip_tail_clear(&j->tail);
	free(j->keep);
}

/* The pickle, and why the bytes cannot stay where they are. */
static int prepare(struct job *j, const char **why, struct ckpt_error *err)
{
	struct ckpt_resave_options resave = ckpt_torch_zip_resave_options(j->model);
	int rc;

	resave.keep_keys = true;
	resave.empty_apart = false; /* the records stay: torch reads an empty one several times */
	rc = ckpt_model_resave(j->model, &resave, &j->resaved, err);
	if (rc == 0) /* a record that reaches into another must not be wiped */
		rc = ckpt_zip_locate_all(j->tz->zip, err);
	*why = rc == 0 ? why_rewrite(j) : NULL;
	if (rc == 0 && !*why && j->patch && !(j->o->flags & CKPT_SAVE_DRY_RUN))
		rc = take_back(j, err);
	return rc == 0 && !*why ? make_tail(j, err) : rc;
}

static void report_dead(struct job *j, struct ckpt_save_report *report)
{
	struct ckpt_zip_gap *gaps;
	size_t count;

	if (find_dead(j, CKPT_ZIP_SMALL_GAP, &gaps, &count, NULL) == 0)
		for (size_t i = 0; i < count; i++)
			report->dead += ckpt_zip_gap_on_disk(j->tz->zip->source, &gaps[i]);
	free(gaps);
}

static void report_tail(const struct job *j, struct ckpt_save_report *report)
{
	report->nbytes = j->tail.ends_off + sizeof(j->tail.new_ends);
	report->written = report->nbytes - (j->is_inside ? j->tail.start : j->tail.off);
}

int ckpt_torch_zip_save_in_place(const struct ckpt_model *model,
				 const struct ckpt_save_options *options,
				 struct ckpt_save_report *report, struct ckpt_error *err)
{
	const char *path = ckpt_source_path(model->doc->source);
	unsigned flags = options->flags & CKPT_SAVE_REPLACE ? CKPT_PATCH_ANY_NAMES : 0u;
	struct job j = { .model = model, .tz = model->doc->container, .o = options };
	/* held to the end: nobody else edits it, and it is the file that will be replaced */
	int rc = ckpt_patch_open(path, model->doc->source, flags, &j.patch, err);

	if (rc == 0 && options->flags & CKPT_SAVE_FREE && !(options->flags & CKPT_SAVE_REPLACE))
		rc = ckpt_patch_check_unused(j.patch, err);
	if (rc == 0)
		rc = prepare(&j, &report->rewritten, err);
	if (rc == 0 && options->flags & CKPT_SAVE_FREE && !report->rewritten && !(options->flags & CKPT_SAVE_DRY_RUN) && !ckpt_patch_can_punch(j.patch))
		report->rewritten = "the file system has no holes to give blocks back with";
	if (rc == 0 && report->rewritten) {
		rc = ckpt_torch_zip_rewrite(model, path, j.patch, options, report, err);
	} else if (rc == 0) {
		report_dead(&j, report);
		rc = patch(&j, report, err);
		report_tail(&j, report);
	}
	ckpt_patch_close(j.patch);
	clear(&j);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

/* ---- the same on a clone ---- */

static int write_clone(struct job *j, bool *done, struct ckpt_error *err)
{
	struct ckpt_zip_tail *t = &j->tail;
	int rc = ckpt_sink_clone(j->sink, j->model->doc->source, done, err);

	if (rc < 0 || !*done)
		return rc;
	rc = write_at(j, t->start, t->body.data, t->body.len, err);
	if (rc == 0)
		rc = write_at(j, t->ends_off, t->new_ends, sizeof(t->new_ends), err);
	if (rc == 0)
		rc = take_back(j, err);
	if (rc == 0)
		rc = clean_up(j, err);
	if (rc == 0)
		rc = ckpt_source_check_unchanged(j->model->doc->source, err);
	return rc == 0 ? ckpt_sink_sync(j->sink, err) : rc;
}

static int make_clone(struct job *j, const char *path, bool *done, struct ckpt_error *err)
{
	unsigned flags = (j->o->flags & CKPT_SAVE_REPLACE ? CKPT_SINK_REPLACE : 0u) |
			 (j->o->flags & CKPT_SAVE_NO_SYNC ? CKPT_SINK_NO_SYNC : 0u);
	uint64_t size = j->tail.ends_off + sizeof(j->tail.new_ends);
	int rc = ckpt_sink_open(path, size, size - j->tail.off, flags,
				ckpt_model_mode(j->model), &j->sink, err);

	if (rc < 0)
		return rc;
	ckpt_sink_set_save(j->sink, j->o);
	rc = write_clone(j, done, err);
	if (rc == 0 && *done)
		return ckpt_sink_commit(j->sink, err);
	ckpt_sink_discard(j->sink);
	return rc;
}

/* A dry run: would the blocks be shared? A file without a name tells, where there can be one. */
static bool can_clone(const struct job *j, const char *path)
{
	unsigned flags = CKPT_SINK_NO_SYNC | (j->o->flags & CKPT_SAVE_REPLACE ? CKPT_SINK_REPLACE : 0u);
	struct ckpt_sink *sink;
	bool cloned = false;

	if (j->o->reflink == CKPT_REFLINK_ALWAYS || ckpt_sink_open(path, 0, 0, flags, ckpt_model_mode(j->model), &sink, NULL) < 0)
		return true;
	if (ckpt_sink_clone(sink, j->model->doc->source, &cloned, NULL) < 0)
		cloned = false;
	ckpt_sink_discard(sink);
	return cloned;
}

int ckpt_torch_zip_save_clone(const struct ckpt_model *model, const char *path,
			      const struct ckpt_save_options *options,
			      struct ckpt_save_report *report, bool *done, struct ckpt_error *err)
{
	struct job j = { .model = model, .tz = model->doc->container, .o = options };
	const char *why;
	int rc = prepare(&j, &why, err);

	*done = false;
	if (rc == 0 && !why && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = make_clone(&j, path, done, err);
	else if (rc == 0 && !why)
		*done = can_clone(&j, path);
	if (rc == 0 && !*done && options->reflink == CKPT_REFLINK_ALWAYS)
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "its blocks cannot be shared: %s",
			       why ? why : "the file system has no reflinks, or OUT is on another");
	report->reflinked = *done;
	if (*done)
		report_tail(&j, report);
	clear(&j);
	return ckpt_error_at(err, rc, ckpt_source_path(model->doc->source), NULL, CKPT_NO_OFFSET);
}
