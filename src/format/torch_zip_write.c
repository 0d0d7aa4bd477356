/* SPDX-License-Identifier: Apache-2.0 */
#include "format/torch_zip.h"

#include "base/text.h"
#include "model/resave.h"
#include "plan/mover.h"
#include "tensor/byteswap.h"
#include "zipfmt/layout.h"
#include "zipfmt/serialization_id.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BYTES = 40 };
static const char id_record[] = ".data/serialization_id";

/* One record of the output, beside its place in the layout. */
struct piece {
	struct ckpt_recipe recipe;
	bool crc_known;
};

struct writer {
	const struct ckpt_model *model;
	struct ckpt_torch_zip *tz; /* of the input */
	const struct ckpt_profile *profile;
	const struct ckpt_save_options *o;
	bool canonical, crc;
	const struct ckpt_patch *held; /* in place: the input, or NULL */
	bool swap; /* big-endian numbers become little-endian, as torch.load does it */
	struct ckpt_resaved resaved;
	struct ckpt_zip_layout layout;
	struct piece *pieces;
	uint32_t cap;
	char archive_name[4096], alignment_text[16];
	struct ckpt_serialization_id id;
	struct ckpt_mover *mover;
	struct ckpt_buf buf;
};

/* ---- what is written ---- */

static int add_piece(struct writer *w, const char *name, const struct ckpt_recipe *recipe,
		     const uint32_t *crc, struct ckpt_error *err)
{
	uint32_t i = w->layout.count;

	if (i == w->cap) {
		uint32_t cap = w->cap ? w->cap * 2 : 64;
		void *records = realloc(w->layout.records, cap * sizeof(*w->layout.records)),
		     *pieces;

		if (records)
			w->layout.records = records;
		pieces = realloc(w->pieces, cap * sizeof(*w->pieces));
		if (pieces)
			w->pieces = pieces;
		if (!records || !pieces)
			return ckpt_fail_nomem(err);
		w->cap = cap;
	}
	w->layout.records[i] = (struct ckpt_zip_record){ .name = name, .size = recipe->len };
	w->pieces[i] = (struct piece){ *recipe, crc != NULL };
	if (crc)
		w->layout.records[i].crc32 = *crc;
	w->layout.count++;
	return 0;
}

static int add_memory(struct writer *w, const char *name, const void *bytes, size_t len,
		      struct ckpt_error *err)
{
	struct ckpt_recipe recipe = { .kind = CKPT_RECIPE_MEMORY, .memory = bytes, .len = len };
	uint32_t crc = w->crc ? libdeflate_crc32(0, bytes, len) : 0;

	return add_piece(w, name, &recipe, &crc, err);
}

static int add_text(struct writer *w, const char *name, const char *text, struct ckpt_error *err)
{
	return add_memory(w, name, text, strlen(text), err);
}

static int swap_recipe(struct writer *w, const struct ckpt_storage *s, struct ckpt_recipe *recipe,
		       struct ckpt_error *err)
{
	struct ckpt_byteswap *swap = ckpt_arena_alloc(w->resaved.arena, sizeof(*swap));

	if (!swap)
		return ckpt_fail_nomem(err);
	*swap = (struct ckpt_byteswap){ *recipe, ckpt_byteswap_width(s->dtype) };
	*recipe = ckpt_byteswap_recipe(swap);
	return 0;
}

/* An edit leaves a checksum that was not recorded unrecorded; who asks for them gets all. */
static bool knows_crc(const struct writer *w, const struct ckpt_storage *s, bool swapped)
{
	if (swapped)
		return false;
	return s->has_crc || (!w->canonical && w->o->crc < 0 &&
			      ckpt_torch_zip_data(w->tz, s)->usize == s->nbytes);
}

static int add_storage(struct writer *w, uint32_t place, struct ckpt_error *err)
{
	const struct ckpt_storage *s = &w->model->storages[w->resaved.order[place]];
	bool swapped = w->swap && ckpt_byteswap_width(s->dtype) > 1;
	bool made = s->made;
	static const uint32_t none = 0;
	size_t len = strlen(w->resaved.keys[place]);
	struct ckpt_recipe recipe;
	int rc = ckpt_model_storage_bytes(w->model, s, &recipe, err);
	char *name;

	if (rc == 0 && made && s->retyped && !strcmp(w->tz->byteorder, "big"))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"a big-endian file cannot be cast; 'ckpt convert' turns it around");
	if (rc == 0 && swapped)
		rc = swap_recipe(w, s, &recipe, err);
	if (rc < 0)
		return rc;
	name = ckpt_arena_alloc(w->resaved.arena, len + 6);
	if (!name)
		return ckpt_fail_nomem(err);
	memcpy(name, "data/", 5);
	memcpy(name + 5, w->resaved.keys[place], len + 1);
	if (!w->crc)
		return add_piece(w, name, &recipe, &none, err);
	return add_piece(w, name, &recipe, !made && knows_crc(w, s, swapped) ? &s->crc32 : NULL,
			 err);
}

static int by_key_text(const void *a, const void *b, void *keys)
{
	const char *const *key = keys;

	return strcmp(key[*(const uint32_t *)a], key[*(const uint32_t *)b]);
}

/* Storages in the order of the profile: numeric is the order of first mention, else as text. */
static int add_storages(struct writer *w, struct ckpt_error *err)
{
	uint32_t count = w->resaved.count;
	uint32_t *places = malloc((count + (size_t)1) * sizeof(*places));
	int rc = 0;

	if (!places)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < count; i++)
		places[i] = i;
	if (!w->profile->numeric_order && count)
		qsort_r(places, count, sizeof(*places), by_key_text, w->resaved.keys);
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = add_storage(w, places[i], err);
	free(places);
	return rc;
}

/* Records that somebody added: an edit keeps them. */
static int add_foreign(struct writer *w, struct ckpt_error *err)
{
	size_t skip = strlen(w->tz->archive_name) + 1;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < w->tz->zip->count; i++) {
		const struct ckpt_zip_entry *e = &w->tz->zip->entries[i];
		struct ckpt_recipe recipe;
		const char *key;

		if (e->used || ckpt_torch_zip_knows(w->tz, e, &key))
			continue;
		recipe = ckpt_zip_recipe(w->tz->zip, e);
		rc = add_piece(w, e->name + skip, &recipe, e->crc32 ? &e->crc32 : NULL, err);
	}
	return rc;
}

/* For an edit the records stay what they are; in a conversion the profile says what there is. */
static bool wants(const struct writer *w, bool in_profile, bool in_source)
{
	return w->canonical || w->profile != w->tz->profile ? in_profile : in_source;
}

static int add_records(struct writer *w, struct ckpt_error *err)
{
	const struct ckpt_torch_zip *tz = w->tz;
	const char *version = w->canonical ? "3\n" : tz->version;
	bool version_first = tz->version_first && !w->canonical;
	int rc = 0;

	if (version_first)
		rc = add_text(w, "version", version, err);
	if (rc == 0)
		rc = add_memory(w, "data.pkl", w->resaved.pickle.data, w->resaved.pickle.len, err);
	if (rc == 0 && wants(w, w->profile->format_version, tz->has_format_version))
		rc = add_text(w, ".format_version", "1", err);
	if (rc == 0 && wants(w, w->profile->format_version, tz->has_storage_alignment))
		rc = add_text(w, ".storage_alignment", w->alignment_text, err);
	if (rc == 0 && wants(w, w->profile->byteorder, tz->byteorder[0]))
		rc = add_text(w, "byteorder",
			      tz->byteorder[0] && !w->swap ? tz->byteorder : "little", err);
	if (rc == 0)
		rc = add_storages(w, err);
	if (rc == 0 && !w->canonical)
		rc = add_foreign(w, err);
	if (rc == 0 && !version_first)
		rc = add_text(w, "version", version, err);
	if (rc == 0 && wants(w, w->profile->serialization_id, tz->has_serialization_id))
		rc = add_text(w, id_record, "0000000000000000000000000000000000000000", err);
	return rc;
}

/* ---- choices ---- */

static int choose_profile(struct writer *w, struct ckpt_error *err)
{
	const char *version = w->o->profile;

	w->profile = w->tz->profile;
	if (version && strcmp(version, "same"))
		w->profile = ckpt_profile_find(version);
	if (!w->profile)
		return ckpt_fail(
			err, CKPT_E_ARG,
			"profile '%.40s': wanted 'same' or a torch version from 1.6 to 2.14",
			version);
	if (!strcmp(w->tz->byteorder, "big") && !w->profile->byteorder && !w->swap)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "the file is big-endian, and torch before 2.1 cannot be told so");
	return 0;
}

static int choose_archive_name(struct writer *w, const char *path, struct ckpt_error *err)
{
	/* a file that was saved to a buffer has no name to follow, unless torch would make a new one */
	if (!w->canonical && !strcmp(w->tz->archive_name, "archive")) {
		strcpy(w->archive_name, "archive");
		return 0;
	}
	if (w->held && strlen(w->tz->archive_name) < sizeof(w->archive_name)) {
		strcpy(w->archive_name, w->tz->archive_name);
		return 0;
	}
	return ckpt_error_at(err,
			     ckpt_profile_archive_name(w->profile, path, w->archive_name,
						       sizeof(w->archive_name), err),
			     path, NULL, CKPT_NO_OFFSET);
}

static int choose(struct writer *w, const char *path, struct ckpt_error *err)
{
	int rc;

	w->canonical = w->o->flags & CKPT_SAVE_CANONICAL;
	w->swap = w->canonical && !strcmp(w->tz->byteorder, "big");
	rc = choose_profile(w, err);
	if (rc < 0)
		return rc;
	w->crc = w->o->crc >= 0 ? w->o->crc : w->canonical || w->tz->has_crc;
	w->layout.alignment = w->o->alignment;
	if (!w->o->alignment)
		w->layout.alignment = w->canonical || !w->profile->format_version
					      ? CKPT_ZIP_ALIGNMENT
					      : w->tz->alignment;
	snprintf(w->alignment_text, sizeof(w->alignment_text), "%" PRIu32, w->layout.alignment);
	w->layout.archive_name = w->archive_name;
	return choose_archive_name(w, path, err);
}

static struct ckpt_resave_options pickle_options(const struct ckpt_model *model,
						 const struct ckpt_profile *profile, bool canonical)
{
	const struct ckpt_pickle *pickle = &model->doc->pickle;
	struct ckpt_resave_options options = {
		.protocol = canonical || pickle->protocol < 1 ? 2
			    : model->protocol		      ? model->protocol
							      : pickle->protocol,
		.python_batches = !canonical && pickle->python_batches,
		.keep_keys =
			profile->address_keys && ckpt_torch_zip_of(model)->profile->address_keys,
		.spell_keys = profile->address_keys,
		.python311 = profile->python311,
		.is_coalesced = profile->is_coalesced,
		.python313 = profile->python313,
	};

	options.python2_names = options.protocol <= 2 && pickle->protocol > 2;
	return options;
}

struct ckpt_resave_options ckpt_torch_zip_resave_options(const struct ckpt_model *model)
{
	return pickle_options(model, ckpt_torch_zip_of(model)->profile, false);
}

static int make_pickle(struct writer *w, struct ckpt_error *err)
{
	struct ckpt_resave_options options = pickle_options(w->model, w->profile, w->canonical);

	return ckpt_model_resave(w->model, &options, &w->resaved, err);
}

/* ---- moving ---- */

static int fill_id(struct writer *w, uint32_t i, char text[ID_BYTES + 1], struct ckpt_error *err)
{
	int rc = ckpt_serialization_id_format(&w->id, text, err);

	w->pieces[i].recipe.memory = text;
	w->layout.records[i].crc32 = w->crc ? libdeflate_crc32(0, text, ID_BYTES) : 0;
	return rc;
}

static int flush_buf(struct writer *w, struct ckpt_error *err)
{
	int rc = w->buf.bad ? ckpt_fail_nomem(err)
			    : ckpt_mover_put(w->mover, w->buf.data, w->buf.len, err);

	w->buf.len = 0;
	return rc;
}

static int move_record(struct writer *w, uint32_t i, struct ckpt_error *err)
{
	struct ckpt_zip_record *r = &w->layout.records[i];
	struct piece *piece = &w->pieces[i];
	struct ckpt_moved moved = { .want_crc = !piece->crc_known, .want_head = true };
	char id_text[ID_BYTES + 1];
	bool is_id = !strcmp(r->name, id_record);
	int rc = 0;

	if (is_id)
		rc = fill_id(w, i, id_text, err);
	ckpt_zip_put_local_header(&w->layout, i, &w->buf);
	if (rc == 0)
		rc = flush_buf(w, err);
	if (rc == 0)
		rc = ckpt_mover_copy(w->mover, &piece->recipe, &moved, err);
	if (rc < 0)
		return rc == CKPT_E_CANCELLED
			       ? rc
			       : ckpt_error_at(err, rc, NULL, r->name, CKPT_NO_OFFSET);
	if (!piece->crc_known)
		r->crc32 = moved.crc32;
	if (!is_id)
		ckpt_serialization_id_add(&w->id, r->name, r->size, r->crc32,
					  moved.has_head ? moved.head : NULL);
	ckpt_zip_put_descriptor(&w->layout, i, &w->buf);
	return flush_buf(w, err);
}

static int move_all(struct writer *w, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < w->layout.count; i++)
		rc = move_record(w, i, err);
	for (uint32_t i = 0; rc == 0 && i < w->layout.count; i++) {
		ckpt_zip_put_directory_entry(&w->layout, i, &w->buf);
		rc = flush_buf(w, err);
	}
	if (rc == 0) {
		ckpt_zip_put_ends(&w->layout, &w->buf);
		rc = flush_buf(w, err);
	}
	return rc == 0 ? ckpt_mover_flush(w->mover, err) : rc;
}

static unsigned sink_flags(const struct ckpt_save_options *o)
{
	return (o->flags & CKPT_SAVE_REPLACE ? CKPT_SINK_REPLACE : 0u) |
	       (o->flags & CKPT_SAVE_NO_SYNC ? CKPT_SINK_NO_SYNC : 0u);
}

static int write_file(struct writer *w, const char *path, struct ckpt_error *err)
{
	struct ckpt_mover_options options = { .total = w->layout.file_size,
					      .progress = w->o->progress,
					      .ctx = w->o->progress_ctx,
					      .cancel = w->o->cancel };
	unsigned flags = sink_flags(w->o);
	uint64_t size = w->layout.file_size, need = size;
	const struct ckpt_source *source = w->model->doc->source;
	struct ckpt_sink *sink;
	int rc;

	if (ckpt_source_disk_bytes(source) < ckpt_source_size(source)) /* holes stay holes */
		need = ckpt_source_disk_bytes(source) < size ? ckpt_source_disk_bytes(source)
							     : size;
	rc = ckpt_sink_open(path, size, need, flags, &sink, err);

	if (rc < 0)
		return rc;
	rc = ckpt_mover_open(sink, &options, &w->mover, err);
	if (rc == 0)
		rc = move_all(w, err);
	if (rc == 0)
		rc = ckpt_source_check_unchanged(source, err);
	if (rc == 0)
		rc = ckpt_sink_sync(sink, err);
	if (rc == 0 && w->held)
		rc = ckpt_patch_check(w->held, path, err);
	if (rc == 0)
		rc = ckpt_mover_check_cancel(w->mover, err);
	/* what fails from the sink knows its path already; the rest is about the input */
	rc = ckpt_error_at(err, rc, ckpt_source_path(source), NULL, CKPT_NO_OFFSET);
	ckpt_mover_close(w->mover);
	w->mover = NULL;
	if (rc == 0)
		return ckpt_sink_commit(sink, err);
	ckpt_sink_discard(sink);
	return rc;
}

static int check_not_input(const struct ckpt_model *model, const char *path, struct ckpt_error *err)
{
	struct ckpt_source *there;
	dev_t dev_in, dev_out;
	ino_t ino_in, ino_out;
	bool same;

	if (ckpt_source_open(path, &there, NULL) < 0)
		return 0;
	same = ckpt_source_identity(model->doc->source, &dev_in, &ino_in) &&
	       ckpt_source_identity(there, &dev_out, &ino_out) && dev_in == dev_out &&
	       ino_in == ino_out;
	ckpt_source_unref(there);
	if (!same)
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_OUTPUT,
				       "the output is the input itself; name another file"),
			     path, NULL, CKPT_NO_OFFSET);
}

static void clear(struct writer *w)
{
	ckpt_resaved_clear(&w->resaved);
	ckpt_serialization_id_clear(&w->id);
	ckpt_buf_clear(&w->buf);
	free(w->layout.records);
	free(w->pieces);
}

static uint32_t count_dropped(const struct writer *w)
{
	uint32_t used = w->resaved.count, there = w->model->storage_count + w->tz->unreferenced;

	if (w->model->storage_count != w->model->doc->storage_count) /* an edit replaced some */
		there = used + w->tz->unreferenced;
	return (there > used ? there - used : 0) + (w->canonical ? w->tz->foreign : 0);
}

static int write_new(const struct ckpt_model *model, const char *path,
		     const struct ckpt_patch *held, const struct ckpt_save_options *options,
		     struct ckpt_save_report *report, struct ckpt_error *err)
{
	struct writer *w = calloc(1, sizeof(*w));
	int rc = 0;

	if (!w)
		return ckpt_fail_nomem(err);
	w->model = model;
	w->tz = model->doc->container;
	w->o = options;
	w->held = held;
	ckpt_serialization_id_init(&w->id);
	if (!held)
		rc = check_not_input(model, path, err);
	if (rc == 0)
		rc = ckpt_sink_check(path, sink_flags(options), err);
	if (rc == 0)
		rc = choose(w, path, err);
	if (rc == 0)
		rc = make_pickle(w, err);
	if (rc == 0)
		rc = ckpt_zip_locate_all(w->tz->zip, err);
	if (rc == 0)
		rc = add_records(w, err);
	if (rc == 0)
		rc = ckpt_zip_layout_compute(&w->layout, err);
	rc = ckpt_error_at(err, rc, ckpt_source_path(model->doc->source), NULL, CKPT_NO_OFFSET);
	if (rc == 0 && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = write_file(w, path, err);
	report->nbytes = report->written = w->layout.file_size;
	report->dropped = count_dropped(w);
	clear(w);
	free(w);
	return rc;
}

int ckpt_torch_zip_save(const struct ckpt_model *model, const char *path,
			const struct ckpt_save_options *options, struct ckpt_save_report *report,
			struct ckpt_error *err)
{
	bool wanted = options->reflink != CKPT_REFLINK_NEVER &&
		      !(options->flags & CKPT_SAVE_CANONICAL) && !options->profile &&
		      !options->alignment && options->crc < 0;
	bool cloned = false;
	int rc = 0;

	if (wanted)
		rc = check_not_input(model, path, err);
	if (wanted && rc == 0)
		rc = ckpt_torch_zip_save_clone(model, path, options, report, &cloned, err);
	return rc < 0 || cloned ? rc : write_new(model, path, NULL, options, report, err);
}

int ckpt_torch_zip_rewrite(const struct ckpt_model *model, const char *path,
			   const struct ckpt_patch *held, const struct ckpt_save_options *options,
			   struct ckpt_save_report *report, struct ckpt_error *err)
{
	struct ckpt_save_options o = *options;
	char *target = realpath(path, NULL);
	int rc;

	if (!target)
		return ckpt_error_at(err, ckpt_fail_errno(err, "cannot be resolved"), path, NULL,
				     CKPT_NO_OFFSET);
	o.flags |= CKPT_SAVE_REPLACE;
	rc = write_new(model, target, held, &o, report, err);
	free(target);
	return rc;
}
