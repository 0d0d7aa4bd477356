/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a model as a torch.save file, in one of two ways. An edit of such a file keeps what is
 * not edited: the profile of its torch, small records, foreign records, checksums that were not
 * recorded. A conversion (CANONICAL, or a model of another format) writes what the torch of the
 * profile would.
 *
 * What must stay true: the order of the records is torch's, for each profile; the layout is
 * complete before the output is created; a record that passes unchanged keeps its checksum
 * unread, and one whose bytes change gets a new one (knows_crc).
 */
#include "format/output.h"
#include "format/torch_archive.h"
#include "format/torch_zip.h"
#include "format/storage_byteswap.h"

#include "base/text.h"
#include "io/background.h"
#include "resave/resave.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY_RECORDS = 10000 };

struct writer {
	const struct ckpt_model *model;
	const struct ckpt_torch_zip *tz; /* of the input, or what stands for one */
	const struct ckpt_profile *profile;
	const struct ckpt_save_options *o;
	bool canonical;
	const struct ckpt_patch *replaced; /* in place: the input, or NULL */
	struct ckpt_storage_byteswap byteswap;
	struct ckpt_resaved resaved;
	struct ckpt_torch_archive archive;
	char archive_name[4096], alignment_text[16];
};

/* Is it no torch.save file? Then everything is made anew. */
static bool is_foreign(const struct ckpt_model *model)
{
	return model->doc->format != &ckpt_format_torch_zip;
}

/* ---- what is written ---- */

/* An edit does not add checksums that were not recorded, unless they are asked for. */
static bool knows_crc(const struct writer *w, const struct ckpt_storage *s, bool swapped)
{
	if (swapped || w->model->doc->ignores_checksums)
		return false;
	return s->has_crc || (!w->canonical && w->o->crc < 0 &&
			      ckpt_torch_zip_data(w->tz, s)->usize == s->nbytes);
}

static int add_storage(struct writer *w, uint32_t place, struct ckpt_error *err)
{
	uint32_t number = w->resaved.order[place];
	const struct ckpt_storage *s = &w->model->storages[number];
	bool swapped = false, made = s->made;
	static const uint32_t none = 0;
	size_t len = strlen(w->resaved.keys[place]);
	struct ckpt_recipe recipe;
	int rc = ckpt_model_storage_bytes(w->model, s, &recipe, err);
	char *name;

	if (rc == 0)
		rc = ckpt_storage_byteswap_recipe(&w->byteswap, w->model, &w->resaved, number,
						  &recipe, &swapped, err);
	if (rc < 0)
		return rc;
	name = ckpt_arena_alloc(w->resaved.arena, len + 6);
	if (!name)
		return ckpt_fail_nomem(err);
	memcpy(name, "data/", 5);
	memcpy(name + 5, w->resaved.keys[place], len + 1);
	if (!w->archive.crc)
		return ckpt_torch_archive_add(&w->archive, name, &recipe, &none, err);
	if (is_foreign(w->model))
		return ckpt_torch_archive_add(&w->archive, name, &recipe,
					      recipe.has_crc ? &recipe.crc32 : NULL, err);
	return ckpt_torch_archive_add(&w->archive, name, &recipe,
				      !made && knows_crc(w, s, swapped) ? &s->crc32 : NULL, err);
}

/* Storages in the order of the profile: numeric is the order of first mention, else as text. */
static int add_storages(struct writer *w, struct ckpt_error *err)
{
	uint32_t count = w->resaved.count;
	uint32_t *places = malloc((count + (size_t)1) * sizeof(*places));
	int rc = 0;

	if (!places)
		return ckpt_fail_nomem(err);
	if (!w->profile->numeric_order)
		ckpt_resaved_sort_by_key(&w->resaved, places);
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = add_storage(w, w->profile->numeric_order ? i : places[i], err);
	free(places);
	return rc;
}

/* Keep records that somebody added. */
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
		rc = ckpt_torch_archive_add(&w->archive, e->name + skip, &recipe,
					    e->crc32 ? &e->crc32 : NULL, err);
	}
	return rc;
}

/* For an edit the records stay what they are; in a conversion the profile says what there is. */
static bool wants(const struct writer *w, bool in_profile, bool in_source)
{
	return w->canonical || w->profile != w->tz->profile ? in_profile : in_source;
}

static const char *byteorder(const struct writer *w)
{
	if (w->canonical)
		return w->byteswap.to_big ? "big" : "little";
	return w->tz->byteorder[0] ? w->tz->byteorder : "little";
}

static int add_records(struct writer *w, struct ckpt_error *err)
{
	const struct ckpt_torch_zip *tz = w->tz;
	const char *version = w->canonical ? "3\n" : tz->version;
	bool version_first = tz->version_first && !w->canonical;
	int rc = 0;

	if (version_first)
		rc = ckpt_torch_archive_add_text(&w->archive, "version", version, err);
	if (rc == 0)
		rc = ckpt_torch_archive_add_memory(&w->archive, "data.pkl", w->resaved.pickle.data,
						   w->resaved.pickle.len, err);
	if (rc == 0 && wants(w, w->profile->format_version, tz->has_format_version))
		rc = ckpt_torch_archive_add_text(&w->archive, ".format_version", "1", err);
	if (rc == 0 && wants(w, w->profile->format_version, tz->has_storage_alignment))
		rc = ckpt_torch_archive_add_text(&w->archive, ".storage_alignment",
						 w->alignment_text, err);
	if (rc == 0 && wants(w, w->profile->byteorder, tz->byteorder[0]))
		rc = ckpt_torch_archive_add_text(&w->archive, "byteorder", byteorder(w), err);
	if (rc == 0)
		rc = add_storages(w, err);
	if (rc == 0 && !w->canonical)
		rc = add_foreign(w, err);
	if (rc == 0 && !version_first)
		rc = ckpt_torch_archive_add_text(&w->archive, "version", version, err);
	if (rc == 0 && wants(w, w->profile->serialization_id, tz->has_serialization_id))
		rc = ckpt_torch_archive_add_id(&w->archive, err);
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
	if (!w->profile->byteorder && !strcmp(byteorder(w), "big"))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "the file %s big-endian, and torch before 2.1 cannot be told so",
				 w->canonical ? "would be" : "is");
	return 0;
}

static int choose_archive_name(struct writer *w, const char *path, struct ckpt_error *err)
{
	/* a file that was saved to a buffer is called "archive", and an edit keeps that */
	if ((!w->canonical && !strcmp(w->tz->archive_name, "archive")) || w->o->flags & CKPT_SAVE_TO_FD) {
		strcpy(w->archive_name, "archive");
		return 0;
	}
	if (w->replaced && strlen(w->tz->archive_name) < sizeof(w->archive_name)) {
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

	w->canonical = w->o->flags & CKPT_SAVE_CANONICAL || is_foreign(w->model);
	rc = ckpt_storage_byteswap_choose(w->o, w->tz->byteorder, &w->byteswap, err);
	if (rc == 0 && !w->canonical)
		w->byteswap.to_big = w->byteswap.from_big; /* an edit keeps the byte order */
	if (rc == 0)
		rc = choose_profile(w, err);
	if (rc < 0)
		return rc;
	w->archive.crc = w->o->crc >= 0 ? w->o->crc : w->canonical || w->tz->has_crc;
	w->archive.layout.alignment = w->o->alignment;
	if (!w->o->alignment)
		w->archive.layout.alignment = w->canonical || !w->profile->format_version
						      ? CKPT_ZIP_ALIGNMENT
						      : w->tz->alignment;
	snprintf(w->alignment_text, sizeof(w->alignment_text), "%" PRIu32,
		 w->archive.layout.alignment);
	w->archive.layout.archive_name = w->archive_name;
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
		.empty_apart = profile->empty_apart,
		.differentiable = profile->differentiable,
		.python313 = profile->python313,
		.heap_generator = profile->heap_generator,
		.prepared_keys = profile->prepared_keys,
		.python3_strings = canonical,
	};

	options.python2_names =
		options.protocol <= 2 && (pickle->protocol > 2 || model->doc->of_cpp);
	return options;
}

struct ckpt_resave_options ckpt_torch_zip_resave_options(const struct ckpt_model *model)
{
	return pickle_options(model, ckpt_torch_zip_of(model)->profile, false);
}

static int locate(void *ctx, struct ckpt_error *err)
{
	struct ckpt_zip *zip = ctx;

	return zip ? ckpt_zip_locate_all(zip, err) : 0;
}

/* Make the pickle, and locate the records of the input, in the background if there are many. */
static int make_pickle(struct writer *w, struct ckpt_error *err)
{
	struct ckpt_resave_options options = pickle_options(w->model, w->profile, w->canonical);
	struct ckpt_background locating = { .call = locate, .ctx = w->tz->zip };
	struct ckpt_error other = CKPT_ERROR_INIT;
	int rc, found;

	if (w->tz->zip && w->tz->zip->count > MANY_RECORDS && w->o->threads != 1)
		ckpt_background_start(&locating);
	rc = ckpt_model_resave(w->model, &options, &w->resaved, err);
	if (rc < 0 && !locating.has_thread)
		return rc;
	found = ckpt_background_wait(&locating, &other);
	if (rc == 0 && found < 0 && err)
		*err = other;
	return rc < 0 ? rc : found;
}

/* ---- writing ---- */

static int put_archive(void *ctx, struct ckpt_mover *mover, struct ckpt_error *err)
{
	return ckpt_torch_archive_move(ctx, mover, err);
}

static void clear(struct writer *w)
{
	ckpt_resaved_clear(&w->resaved);
	ckpt_torch_archive_clear(&w->archive);
}

static uint32_t count_dropped(const struct writer *w)
{
	uint32_t used = w->resaved.count, there = w->model->storage_count + w->tz->unreferenced;

	if (is_foreign(w->model))
		return 0;
	if (w->model->storage_count != w->model->doc->storage_count) /* an edit replaced some */
		there = used + w->tz->unreferenced;
	return (there > used ? there - used : 0) + (w->canonical ? w->tz->foreign : 0);
}

static int write_new(const struct ckpt_model *model, const char *path,
		     const struct ckpt_patch *replaced, const struct ckpt_save_options *options,
		     struct ckpt_save_report *report, struct ckpt_error *err)
{
	struct writer *w = calloc(1, sizeof(*w));
	struct ckpt_output output = {
		.model = model, .options = options, .replaced = replaced, .put = put_archive
	};
	int rc;

	if (!w)
		return ckpt_fail_nomem(err);
	w->model = model;
	w->tz = ckpt_torch_zip_of(model);
	w->o = options;
	w->replaced = replaced;
	output.ctx = &w->archive;
	ckpt_torch_archive_init(&w->archive);
	rc = ckpt_output_check(&output, path, err);
	if (rc == 0)
		rc = choose(w, path, err);
	if (rc == 0)
		rc = make_pickle(w, err);
	if (rc == 0)
		rc = add_records(w, err);
	if (rc == 0)
		rc = ckpt_zip_layout_compute(&w->archive.layout, err);
	rc = ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
	output.size = w->archive.layout.file_size;
	if (rc == 0 && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = ckpt_output_write(&output, path, err);
	report->nbytes = report->written = w->archive.layout.file_size;
	report->dropped = count_dropped(w);
	report->turned_alone = w->byteswap.not_by_torch;
	clear(w);
	free(w);
	return rc;
}

int ckpt_torch_zip_save(const struct ckpt_model *model, const char *path,
			const struct ckpt_save_options *options, struct ckpt_save_report *report,
			struct ckpt_error *err)
{
	bool wanted = options->reflink != CKPT_REFLINK_NEVER && !is_foreign(model) &&
		      !(options->flags & CKPT_SAVE_CANONICAL) && !options->profile &&
		      !options->alignment && options->crc < 0;
	struct ckpt_output output = { .model = model, .options = options };
	bool cloned = false;
	int rc = 0;

	if (model->doc->inner_path && options->reflink == CKPT_REFLINK_ALWAYS)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "what is inside of an archive shares no blocks");
	if (options->flags & CKPT_SAVE_TO_FD && options->reflink == CKPT_REFLINK_ALWAYS)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "a pipe shares no blocks");
	wanted = wanted && !model->doc->inner_path && !(options->flags & CKPT_SAVE_TO_FD);
	if (wanted)
		rc = ckpt_output_check(&output, path, err);
	if (wanted && rc == 0)
		rc = ckpt_torch_zip_save_clone(model, path, options, report, &cloned, err);
	return rc < 0 || cloned ? rc : write_new(model, path, NULL, options, report, err);
}

int ckpt_torch_zip_rewrite(const struct ckpt_model *model, const char *path,
			   const struct ckpt_patch *replaced,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err)
{
	struct ckpt_save_options o = *options;
	char *target = realpath(path, NULL);
	int rc;

	if (!target)
		return ckpt_error_at(err, ckpt_fail_errno(err, "cannot be resolved"), path, NULL,
				     CKPT_NO_OFFSET);
	o.flags |= CKPT_SAVE_REPLACE;
	rc = ckpt_patch_check_one_name(replaced, report->rewritten, err);
	if (rc == 0)
		rc = write_new(model, target, replaced, &o, report, err);
	free(target);
	return rc;
}
