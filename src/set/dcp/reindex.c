/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt reindex`: makes the `.metadata` of a DCP directory, from the indexes of single ranks,
 * from a `.metadata.tmp`, or from the old one, in the form that another torch loads.
 *
 * Chunks of all parts are joined by key; replicas are left out, and every tensor has to be
 * covered once its parts are joined, as a rank's index may be missing. Data files are not read.
 * In place the index replaces the old one in one step; into a new folder the data files are
 * brought along. Values that are written are borrowed from the parts, which stay open until the
 * end.
 */
#include "base/cancel.h"
#include "base/flags.h"
#include "base/grow.h"
#include "base/paths.h"
#include "base/sized.h"
#include "base/text.h"
#include "io/sink.h"
#include "set/cover.h"
#include "set/dcp/copy_files.h"
#include "set/dcp/save.h"
#include "set/listing.h"
#include "set/out.h"

#include <ckpt/dcp.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN = 120, ENTRIES_AT_ONCE = 1024 }; /* that are joined between two looks at `cancel` */

/* One index file. */
struct index_part {
	uint8_t *bytes;
	struct ckpt_pickle pickle;
	struct ckpt_dcp_index index;
};

struct reindexer {
	char *path; /* owned */
	const struct ckpt_reindex_options *o;
	struct ckpt_reindex_report *report;
	struct ckpt_listing listing;
	struct index_part *parts;
	uint32_t part_count;
	struct ckpt_dcp_out out;
	struct ckpt_strmap entries, files; /* of OUT: key to entry, name to file */
	uint32_t file_cap;
	uint64_t total; /* bytes of data files to copy; 0: not known yet */
	struct ckpt_error *err;
};

static int report_progress(const struct reindexer *r, uint64_t done)
{
	if (r->o->progress)
		r->o->progress(r->o->progress_ctx, done < r->total ? done : r->total, r->total);
	return ckpt_cancelled(r->o->cancel) ? ckpt_fail(r->err, CKPT_E_CANCELLED, "interrupted")
					    : 0;
}

/* ---- reading ---- */

static int read_part(struct reindexer *r, const char *name)
{
	struct index_part *parts = realloc(r->parts, (r->part_count + (size_t)1) * sizeof(*parts));
	struct ckpt_source *source;
	char *path;
	int rc;

	if (!parts)
		return ckpt_fail_nomem(r->err);
	r->parts = parts;
	rc = report_progress(r, 0);
	if (rc < 0)
		return rc;
	parts[r->part_count] = (struct index_part){ 0 };
	if (ckpt_path_join(r->path, name, &path, r->err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_source_open(path, &source, r->err);
	if (rc == 0) {
		struct index_part *p = &r->parts[r->part_count++];

		rc = ckpt_dcp_index_load(source, &p->bytes, &p->pickle, &p->index, r->err);
		ckpt_source_unref(source);
	}
	rc = ckpt_error_at(r->err, rc, path, NULL, CKPT_NO_OFFSET);
	free(path);
	return rc;
}

/* "__12.metadata" */
static bool is_of_rank(const char *name)
{
	size_t digits = strspn(name + (strncmp(name, "__", 2) ? 0 : 2), "0123456789");

	return !strncmp(name, "__", 2) && digits && !strcmp(name + 2 + digits, ".metadata");
}

static int read_ranks(struct reindexer *r)
{
	int rc = 0;

	r->report->source = "indexes of single ranks";
	for (size_t i = 0; rc == 0 && i < r->listing.count; i++)
		if (is_of_rank(r->listing.items[i].name))
			rc = read_part(r, r->listing.items[i].name);
	if (rc == 0 && !r->part_count)
		rc = ckpt_fail(r->err, CKPT_E_FORMAT,
			       "has no indexes of single ranks (__0.metadata)");
	return rc;
}

static int read_sources(struct reindexer *r)
{
	bool has_index = ckpt_listing_find(&r->listing, ".metadata"),
	     has_temporary = ckpt_listing_find(&r->listing, ".metadata.tmp");
	size_t ranks = ckpt_listing_count(&r->listing, "__[0-9]*.metadata", NULL);

	if (r->o->from_ranks || (!has_index && ranks))
		return read_ranks(r);
	r->report->source = has_index ? ".metadata" : ".metadata.tmp";
	if (has_index || has_temporary)
		return read_part(r, r->report->source);
	return ckpt_fail(
		r->err, CKPT_E_FORMAT,
		"has no .metadata, no .metadata.tmp and no indexes of ranks: there is nothing "
		"to make an index of");
}

/* ---- joining ---- */

static int fail_entry(struct reindexer *r, const struct ckpt_dcp_entry *e, const char *what)
{
	char shown[SHOWN];

	return ckpt_fail(r->err, CKPT_E_FORMAT, "'%s' %s",
			 ckpt_escape(shown, sizeof(shown), e->fqn->u.bytes.ptr,
				     e->fqn->u.bytes.len),
			 what);
}

static int file_number(struct reindexer *r, const char *name, uint32_t *out)
{
	uint64_t *slot;
	bool there;

	slot = ckpt_strmap_insert(&r->files, name, strlen(name), r->out.file_count, &there);
	if (!slot)
		return ckpt_fail_nomem(r->err);
	*out = (uint32_t)*slot;
	if (there)
		return 0;
	if (r->out.file_count == r->file_cap) {
		uint32_t cap = r->file_cap ? r->file_cap * 2 : 16;
		const char **grown = ckpt_arena_alloc(r->out.arena, cap * sizeof(*grown));

		if (!grown)
			return ckpt_arena_fail(r->out.arena, r->err);
		if (r->out.file_count)
			memcpy(grown, r->out.files, r->out.file_count * sizeof(*grown));
		r->out.files = grown;
		r->file_cap = cap;
	}
	r->out.files[r->out.file_count++] = name;
	return 0;
}

static int add_chunk(struct reindexer *r, const struct ckpt_dcp_index *x,
		     const struct ckpt_dcp_entry *e, const struct ckpt_dcp_chunk *c)
{
	struct ckpt_dcp_out_chunk chunk = { .offset = c->offset,
					    .shape = c->shape,
					    .off = c->off,
					    .len = c->len,
					    .transform = c->transform };
	int rc;

	if (ckpt_dcp_chunk_is_empty(c, e->ndim))
		return 0;
	if (c->file == CKPT_DCP_NO_FILE)
		return fail_entry(r, e, "has a chunk of which the index does not say where it is");
	rc = file_number(r, x->files[c->file], &chunk.file);
	return rc < 0 ? rc : ckpt_dcp_out_add_chunk(&r->out, &chunk, r->err);
}

static int set_path(struct reindexer *r, const struct ckpt_dcp_entry *e,
		    struct ckpt_dcp_out_entry *out)
{
	uint32_t depth = e->path ? e->path->u.seq.count : 1;
	struct ckpt_dcp_step *path = ckpt_arena_calloc(r->out.arena, depth, sizeof(*path));

	if (!path)
		return ckpt_arena_fail(r->out.arena, r->err);
	for (uint32_t i = 0; i < depth; i++) {
		const struct ckpt_value *step = e->path ? e->path->u.seq.items[i] : e->fqn;

		if (step->kind == CKPT_INT)
			path[i].position = (uint64_t)step->u.integer;
		else
			path[i] = (struct ckpt_dcp_step){ step->u.bytes.ptr, step->u.bytes.len, 0 };
	}
	out->path = path;
	out->depth = depth;
	return 0;
}

static int add_entry(struct reindexer *r, const struct ckpt_dcp_entry *e)
{
	struct ckpt_dcp_out_entry *out =
		ckpt_grow(r->out.entries, r->out.entry_count, &r->out.entry_cap, sizeof(*out));

	if (!out)
		return ckpt_fail_nomem(r->err);
	r->out.entries = out;
	out = &r->out.entries[r->out.entry_count++];
	*out = (struct ckpt_dcp_out_entry){ .fqn = e->fqn->u.bytes.ptr,
					    .fqn_len = e->fqn->u.bytes.len,
					    .value = e->fqn,
					    .is_tensor = e->is_tensor,
					    .alias_of = UINT32_MAX };
	out->tensor.dtype = e->dtype;
	out->tensor.shape = e->shape;
	out->tensor.ndim = e->ndim;
	return set_path(r, e, out);
}

/* All entries, in the order in which the parts name them first. */
static int list_entries(struct reindexer *r)
{
	int rc = 0;

	for (uint32_t p = 0; rc == 0 && p < r->part_count; p++) {
		const struct ckpt_dcp_index *x = &r->parts[p].index;

		for (uint32_t i = 0; rc == 0 && i < x->entry_count; i++) {
			const struct ckpt_value *fqn = x->entries[i].fqn;
			bool there;

			if (!ckpt_strmap_insert(&r->entries, fqn->u.bytes.ptr, fqn->u.bytes.len,
						r->out.entry_count, &there))
				return ckpt_fail_nomem(r->err);
			if (!there)
				rc = add_entry(r, &x->entries[i]);
		}
	}
	return rc;
}

static bool is_alike(const struct ckpt_dcp_out_entry *a, const struct ckpt_dcp_entry *b)
{
	bool same = a->is_tensor == b->is_tensor && a->tensor.dtype == b->dtype &&
		    a->tensor.ndim == b->ndim;

	for (uint32_t i = 0; same && i < b->ndim; i++)
		same = a->tensor.shape[i] == b->shape[i];
	return same;
}

/*
 * Has another rank written the same block, or value, already? Every rank keeps what is replicated.
 */
static bool has_chunk(const struct reindexer *r, const struct ckpt_dcp_out_entry *out,
		      const struct ckpt_dcp_chunk *c)
{
	for (uint64_t i = out->first_chunk; i < r->out.chunk_count; i++)
		if (!out->is_tensor || !memcmp(r->out.chunks[i].offset, c->offset,
					       out->tensor.ndim * sizeof(*c->offset)))
			return true;
	return false;
}

/* The chunks of one entry, of all parts that have it. */
static int join_entry(struct reindexer *r, struct ckpt_dcp_out_entry *out)
{
	int rc = 0;

	out->first_chunk = r->out.chunk_count;
	for (uint32_t p = 0; rc == 0 && p < r->part_count; p++) {
		const struct ckpt_dcp_index *x = &r->parts[p].index;
		uint64_t *slot = ckpt_strmap_find(&x->entry_by_fqn, out->fqn, out->fqn_len);
		const struct ckpt_dcp_entry *e = slot ? &x->entries[*slot] : NULL;

		if (e && !is_alike(out, e))
			return fail_entry(r, e,
					  "is of another shape or dtype in another rank's index");
		for (uint64_t i = 0; rc == 0 && e && i < e->chunk_count; i++) {
			const struct ckpt_dcp_chunk *c = &x->chunks[e->first_chunk + i];

			if (r->part_count == 1 || !has_chunk(r, out, c))
				rc = add_chunk(r, x, e, c);
		}
	}
	out->chunk_count = r->out.chunk_count - out->first_chunk;
	return rc;
}

static int check_cover(struct reindexer *r, const struct ckpt_dcp_out_entry *out)
{
	struct ckpt_box *boxes = malloc((out->chunk_count + 1) * sizeof(*boxes));
	struct ckpt_error why = CKPT_ERROR_INIT;
	char shown[SHOWN], text[sizeof(why.text)];
	int rc;

	if (!boxes)
		return ckpt_fail_nomem(r->err);
	for (uint64_t i = 0; i < out->chunk_count; i++) {
		const struct ckpt_dcp_out_chunk *c = &r->out.chunks[out->first_chunk + i];
		const char *file = c->file == CKPT_DCP_NO_FILE ? NULL : r->out.files[c->file];

		boxes[i] = (struct ckpt_box){ c->offset, c->shape, file };
	}
	rc = ckpt_cover_check(boxes, out->chunk_count, out->tensor.shape, out->tensor.ndim, &why);
	free(boxes);
	if (rc == 0)
		return 0;
	r->report->uncovered++;
	if (r->part_count < 2)
		return 0; /* it is no worse than it was */
	return ckpt_fail(r->err, rc, "'%s': %s: is the index of a rank missing?",
			 ckpt_escape(shown, sizeof(shown), out->fqn, out->fqn_len),
			 ckpt_error_text(&why, text, sizeof(text)));
}

static int join_parts(struct reindexer *r)
{
	int rc;

	r->out.arena = ckpt_arena_new(UINT64_MAX >> 1);
	rc = r->out.arena ? list_entries(r) : ckpt_fail_nomem(r->err);
	for (uint32_t i = 0; rc == 0 && i < r->out.entry_count; i++) {
		if (i % ENTRIES_AT_ONCE == 0)
			rc = report_progress(r, 0);
		if (rc == 0)
			rc = join_entry(r, &r->out.entries[i]);
		if (rc == 0 && r->out.entries[i].is_tensor)
			rc = check_cover(r, &r->out.entries[i]);
	}
	return rc;
}

/* ---- writing ---- */

static unsigned mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? ckpt_mode_for_new(&st) : 0777;
}

/* Who may read all data files, and all that the index is made of, may read the index. */
static unsigned mode_of_files(const struct reindexer *r)
{
	unsigned mode = 0666;
	char *path;

	for (size_t i = 0; i < r->listing.count; i++)
		if (strstr(r->listing.items[i].name, ".metadata") &&
		    ckpt_path_join(r->path, r->listing.items[i].name, &path, NULL) == 0) {
			mode &= mode_of(path);
			free(path);
		}

	for (uint32_t i = 0; i < r->out.file_count; i++)
		if (ckpt_path_join(r->path, r->out.files[i], &path, NULL) == 0) {
			mode &= mode_of(path);
			free(path);
		}
	return mode;
}

static int write_index(struct reindexer *r, struct ckpt_folder *folder, const char *in,
		       const struct ckpt_buf *index, unsigned flags)
{
	char *path;
	int rc;

	if (ckpt_path_join(in, ".metadata", &path, r->err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_set_write_file(folder, path, index, flags, mode_of_files(r), r->err);
	free(path);
	return rc;
}

static int write_in_place(struct reindexer *r, const struct ckpt_buf *index)
{
	int rc = write_index(r, NULL, r->path, index, CKPT_SINK_REPLACE);
	char *path;

	if (rc == 0 && !strcmp(r->report->source, ".metadata.tmp") &&
	    ckpt_path_join(r->path, ".metadata.tmp", &path, NULL) == 0) {
		unlink(path); /* it has done its work */
		free(path);
	}
	return rc;
}

/* The directory itself, or files that links in it lead to. */
static int check_not_input(struct reindexer *r, const char *out)
{
	bool is_input = ckpt_is_below(r->path, out);
	char *path;

	for (uint32_t i = 0; !is_input && i < r->out.file_count; i++) {
		if (ckpt_path_join(r->path, r->out.files[i], &path, r->err) < 0)
			return CKPT_E_NOMEM;
		is_input = ckpt_is_below(path, out);
		free(path);
	}
	return is_input ? ckpt_set_fail_is_input(out, r->err) : 0;
}

/* What the data files hold; one that is not there is found when it is copied. */
static uint64_t nbytes_of_files(const struct reindexer *r)
{
	uint64_t total = 0;
	struct stat st;
	char *path;

	for (uint32_t i = 0; i < r->out.file_count; i++) {
		if (ckpt_path_join(r->path, r->out.files[i], &path, NULL) < 0)
			continue;
		if (stat(path, &st) == 0 && st.st_size > 0 &&
		    __builtin_add_overflow(total, (uint64_t)st.st_size, &total))
			total = UINT64_MAX;
		free(path);
	}
	return total;
}

static int write_folder(struct reindexer *r, const char *out, const struct ckpt_buf *index)
{
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_dcp_copier b = {
		.from = r->path, .data_files = &r->files, .o = &o, .err = r->err
	};
	const struct ckpt_folder_own own = { ckpt_dcp_is_copied, &b };
	struct ckpt_folder *folder;
	int rc;

	o.flags = r->o->flags;
	o.threads = r->o->threads;
	o.cancel = r->o->cancel;
	o.progress = r->o->progress;
	o.progress_ctx = r->o->progress_ctx;
	o.naming = r->o->naming;
	o.naming_ctx = r->o->naming_ctx;
	b.total = r->total = nbytes_of_files(r);
	rc = ckpt_folder_open(out, &own, 0, ckpt_set_folder_flags(&o), mode_of(r->path), &folder,
			      r->err);
	if (rc < 0)
		return rc;
	b.folder = folder;
	b.to = ckpt_folder_temp_path(folder);
	for (uint32_t i = 0; rc == 0 && i < r->out.file_count; i++) {
		rc = ckpt_dcp_copy_data_file(&b, r->out.files[i]);
		if (rc == 0)
			rc = report_progress(r, b.done);
	}
	if (rc == 0)
		rc = ckpt_dcp_copy_others(&b);
	if (rc == 0)
		rc = write_index(r, folder, b.to, index, ckpt_set_sink_flags(r->o->flags));
	if (rc == 0) {
		ckpt_folder_set_save(folder, &o);
		return ckpt_folder_commit(folder, r->err);
	}
	ckpt_folder_discard(folder);
	return rc;
}

static int write_out(struct reindexer *r, const char *out)
{
	struct ckpt_buf index = { 0 };
	int rc = ckpt_dcp_emit_index(&r->out, &index, r->err);

	r->report->entries = r->out.entry_count;
	r->report->chunks = r->out.chunk_count;
	r->report->indexes = r->part_count;
	r->report->nbytes = index.len;
	if (rc == 0)
		rc = out ? check_not_input(r, out)
			 : ckpt_dcp_check_no_link(r->path, r->o->flags, r->err);
	if (rc == 0 && !(r->o->flags & CKPT_SAVE_DRY_RUN))
		rc = out ? write_folder(r, out, &index) : write_in_place(r, &index);
	ckpt_buf_clear(&index);
	return rc;
}

/* ---- the whole ---- */

static int choose_form(struct reindexer *r)
{
	const char *version = r->o->for_torch;
	const struct ckpt_profile *profile = version ? ckpt_profile_find(version) : NULL;

	if (!version)
		return 0;
	if (profile && !strcmp(profile->since, "1.13"))
		r->out.torch_1_13 = version[0] == '1';
	else if (!profile || profile->major < 2)
		return ckpt_fail(
			r->err, CKPT_E_ARG,
			"torch '%.40s': wanted a version from 1.13 on, before which there were "
			"no such directories",
			version);
	return 0;
}

static void clear_reindexer(struct reindexer *r)
{
	for (uint32_t i = 0; i < r->part_count; i++) {
		ckpt_dcp_index_clear(&r->parts[i].index);
		ckpt_pickle_clear(&r->parts[i].pickle);
		free(r->parts[i].bytes);
	}
	free(r->parts);
	ckpt_dcp_out_clear(&r->out);
	ckpt_strmap_clear(&r->entries);
	ckpt_strmap_clear(&r->files);
	ckpt_listing_clear(&r->listing);
	free(r->path);
}

static int reindex(struct reindexer *r, const char *out)
{
	int rc = ckpt_listing_read(r->path, &r->listing, r->err);

	if (rc == 0)
		rc = choose_form(r);
	if (rc == 0)
		rc = read_sources(r);
	if (rc == 0)
		rc = join_parts(r);
	return rc == 0 ? write_out(r, out) : rc;
}

int ckpt_reindex(const char *path, const char *out, const struct ckpt_reindex_options *options,
		 struct ckpt_reindex_report *report, struct ckpt_error *err)
{
	struct ckpt_reindex_options o = CKPT_REINDEX_OPTIONS_INIT;
	struct ckpt_reindex_report local = CKPT_REINDEX_REPORT_INIT;
	struct reindexer r = { .o = &o, .report = &local, .err = err };
	struct ckpt_dcp_copier b = { .data_files = &r.files, .err = err };
	const struct ckpt_folder_own own = { ckpt_dcp_is_copied, &b };
	size_t len = strlen(path);
	int rc = ckpt_sized_take(&o, sizeof(o), options, err);

	if (rc == 0)
		rc = ckpt_flags_check(o.flags, CKPT_SAVE_FLAGS, err);
	if (rc == 0)
		rc = ckpt_unused_check(&o.reserved, sizeof(o.reserved), err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(local), err);
	while (len > 1 && path[len - 1] == '/')
		len--;
	r.path = strndup(path, len);
	if (rc == 0 && !r.path)
		rc = ckpt_fail_nomem(err);
	b.from = r.path;
	if (rc == 0 && out)
		rc = ckpt_folder_check(out, &own,
				       o.flags & CKPT_SAVE_REPLACE ? CKPT_FOLDER_REPLACE : 0u, err);
	if (rc == 0)
		rc = reindex(&r, out);
	rc = ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
	if (rc == 0)
		ckpt_sized_give(report, &local, sizeof(local));
	clear_reindexer(&r);
	return rc;
}
