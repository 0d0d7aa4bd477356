/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the stream as torch.save(..., _use_new_zipfile_serialization=False) does. Its keys are
 * addresses in the process that saved: those of the input stay, and a model of another format
 * uses the numbers of its storages.
 *
 * What must stay true: storages come in the order of their keys as text, as torch sorts them;
 * the size of the file is known before the first byte is written; all numbers are little-endian,
 * whatever the input was.
 */
#include "format/torch_legacy.h"

#include "format/output.h"
#include "format/profile.h"
#include "format/storage_byteswap.h"
#include "pickle/encode.h"
#include "resave/resave.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_BYTES = 8 };
#define NEWEST "2.6"

struct writer {
	const struct ckpt_model *model;
	bool canonical; /* as torch.load and torch.save of a file of today */
	uint8_t protocol;
	struct ckpt_storage_byteswap byteswap;
	struct ckpt_resaved resaved;
	struct ckpt_buf head; /* all pickles */
	uint32_t *places;     /* of the resaved storages, in the order of the file */
	struct ckpt_arena *arena;
	uint64_t size;
};

/* ---- the small pickles ---- */

#define TEXT(literal) \
	{ \
		.kind = CKPT_STR, .flags = CKPT_VALUE_FINAL, .u.bytes = { \
			literal, \
			sizeof(literal) - 1 \
		} \
	}
#define NUMBER(value) \
	{ \
		.kind = CKPT_INT, .u.integer = (value) \
	}

static int put_magic(struct writer *w, const struct ckpt_pickle_options *o, struct ckpt_error *err)
{
	static const struct ckpt_value magic = {
		.kind = CKPT_BIGINT,
		.u.bytes = { (const char *)ckpt_torch_magic, CKPT_TORCH_MAGIC_BYTES },
	};
	static const struct ckpt_value version = NUMBER(1001);
	int rc = ckpt_pickle_encode(&magic, o, &w->head, err);

	return rc < 0 ? rc : ckpt_pickle_encode(&version, o, &w->head, err);
}

/*
 * {'protocol_version': 1001, 'little_endian': True, 'type_sizes': {'short': 2, 'int': 4, 'long':
 * 4}}
 */
static int put_facts(struct writer *w, const struct ckpt_pickle_options *o, struct ckpt_error *err)
{
	struct ckpt_value texts[6] = { TEXT("protocol_version"),
				       TEXT("little_endian"),
				       TEXT("type_sizes"),
				       TEXT("short"),
				       TEXT("int"),
				       TEXT("long") };
	const struct ckpt_value version = NUMBER(1001), two = NUMBER(2), four = NUMBER(4);
	const struct ckpt_value *sizes[] = { &texts[3], &two, &texts[4], &four, &texts[5], &four };
	const struct ckpt_value inner = { .kind = CKPT_DICT, .id = 7, .u.seq = { sizes, 6, 6 } };
	const struct ckpt_value *pairs[] = { &texts[0],	       &version,  &texts[1],
					     &ckpt_value_true, &texts[2], &inner };
	const struct ckpt_value facts = { .kind = CKPT_DICT, .id = 8, .u.seq = { pairs, 6, 6 } };

	for (uint32_t i = 0; i < 6; i++)
		texts[i].id = i + 1;
	return ckpt_pickle_encode(&facts, o, &w->head, err);
}

static int put_keys(struct writer *w, const struct ckpt_pickle_options *o, struct ckpt_error *err)
{
	uint32_t count = w->resaved.count;
	struct ckpt_value *texts = ckpt_arena_calloc(w->arena, count + (uint64_t)1, sizeof(*texts));
	const struct ckpt_value **items =
		ckpt_arena_calloc(w->arena, count + (uint64_t)1, sizeof(*items));
	const struct ckpt_value list = { .kind = CKPT_LIST,
					 .id = count + 1,
					 .u.seq = { items, count, count } };

	if (!texts || !items)
		return ckpt_arena_fail(w->arena, err);
	for (uint32_t i = 0; i < count; i++) {
		const char *key = w->resaved.keys[w->places[i]];

		texts[i] = (struct ckpt_value){ .kind = CKPT_STR,
						.flags = CKPT_VALUE_FINAL | CKPT_VALUE_DISTINCT,
						.id = i + 1,
						.u.bytes = { key, strlen(key) } };
		items[i] = &texts[i];
	}
	return ckpt_pickle_encode(&list, o, &w->head, err);
}

/* ---- the whole ---- */

static const struct ckpt_storage *storage_at(const struct writer *w, uint32_t place)
{
	return &w->model->storages[w->resaved.order[w->places[place]]];
}

/*
 * A stream does not say which torch wrote it: the newest stands for it, unless another is asked
 * for.
 */
static int make_pickle(struct writer *w, const char *version, struct ckpt_error *err)
{
	const struct ckpt_pickle *from = &w->model->doc->pickle;
	const struct ckpt_profile *profile =
		ckpt_profile_find(version && strcmp(version, "same") ? version : NEWEST);
	struct ckpt_resave_options options = {
		.protocol = w->protocol,
		.python_batches =
			w->model->doc->format == &ckpt_format_torch_legacy && from->python_batches,
		.keep_keys = w->model->doc->format == &ckpt_format_torch_legacy,
		.spell_keys = true,
		.legacy_ids = true,
		.python3_strings = w->canonical,
		.python2_names = w->protocol <= 2 && (from->protocol > 2 || w->model->doc->of_cpp),
	};

	if (!profile)
		return ckpt_fail(err, CKPT_E_ARG, "profile '%.40s': no such version of torch",
				 version);
	options.python311 = profile->python311;
	/* keep what was read, or the torch that wrote the stream could not load it */
	options.as_read = options.keep_keys && (!version || !strcmp(version, "same"));
	options.is_coalesced = profile->is_coalesced;
	/* the torch that loads it adds this default, or does not know it */
	options.differentiable = profile->differentiable && !options.as_read;
	options.empty_apart = profile->empty_apart && !options.as_read;
	options.python313 = profile->python313;
	options.heap_generator = profile->heap_generator;
	options.prepared_keys = profile->prepared_keys && !options.as_read;
	return ckpt_model_resave(w->model, &options, &w->resaved, err);
}

static int make_head(struct writer *w, const char *version, struct ckpt_error *err)
{
	struct ckpt_pickle_options o = { .protocol = w->protocol };
	int rc = make_pickle(w, version, err);

	if (rc == 0) {
		w->places = malloc((w->resaved.count + (size_t)1) * sizeof(*w->places));
		rc = w->places ? 0 : ckpt_fail_nomem(err);
	}
	if (rc == 0) {
		ckpt_resaved_sort_by_key(&w->resaved, w->places);
		rc = put_magic(w, &o, err);
	}
	if (rc == 0)
		rc = put_facts(w, &o, err);
	if (rc == 0)
		ckpt_buf_add(&w->head, w->resaved.pickle.data, w->resaved.pickle.len);
	if (rc == 0)
		rc = put_keys(w, &o, err);
	if (rc == 0 && w->head.bad)
		return ckpt_fail_nomem(err);
	w->size = w->head.len;
	for (uint32_t i = 0; rc == 0 && i < w->resaved.count; i++)
		if (__builtin_add_overflow(w->size, COUNT_BYTES + storage_at(w, i)->nbytes,
					   &w->size))
			return ckpt_fail(err, CKPT_E_LIMIT, "more bytes than any file holds");
	return rc;
}

static int put_storage(struct writer *w, uint32_t place, struct ckpt_mover *mover,
		       struct ckpt_error *err)
{
	const struct ckpt_storage *s = storage_at(w, place);
	uint64_t numel = s->nbytes / ckpt_dtype_size(s->dtype);
	struct ckpt_moved moved = { 0 };
	struct ckpt_recipe recipe;
	uint8_t count[COUNT_BYTES];
	bool swapped;
	int rc = ckpt_model_storage_bytes(w->model, s, &recipe, err);

	if (rc == 0)
		rc = ckpt_storage_byteswap_recipe(&w->byteswap, w->model, &w->resaved,
						  w->resaved.order[w->places[place]], &recipe,
						  &swapped, err);
	for (int i = 0; i < COUNT_BYTES; i++)
		count[i] = (uint8_t)(numel >> 8 * i);
	if (rc == 0)
		rc = ckpt_mover_put(mover, count, sizeof(count), err);
	return rc < 0 || !s->nbytes ? rc : ckpt_mover_copy(mover, &recipe, &moved, err);
}

static int put_all(void *ctx, struct ckpt_mover *mover, struct ckpt_error *err)
{
	struct writer *w = ctx;
	int rc = ckpt_mover_put(mover, w->head.data, w->head.len, err);

	for (uint32_t i = 0; rc == 0 && i < w->resaved.count; i++)
		rc = put_storage(w, i, mover, err);
	return rc;
}

static void clear(struct writer *w)
{
	ckpt_resaved_clear(&w->resaved);
	ckpt_buf_clear(&w->head);
	ckpt_arena_free(w->arena);
	free(w->places);
}

/* Big-endian files of the zip form have their numbers in that order; the stream never has. */
static int choose_order(struct writer *w, const struct ckpt_save_options *o, struct ckpt_error *err)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	int rc;

	ckpt_file_get(w->model, &info);
	rc = ckpt_storage_byteswap_choose(o, info.byteorder, &w->byteswap, err);
	if (rc == 0 && w->byteswap.to_big)
		return ckpt_fail(err, CKPT_E_ARG, "a legacy stream is little-endian always");
	if (rc == 0 && w->byteswap.from_big && !(o->flags & CKPT_SAVE_CANONICAL))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"a big-endian file cannot become a legacy stream; 'ckpt convert' turns it "
			"around");
	return rc;
}

static uint8_t protocol_for(const struct ckpt_model *model, bool canonical)
{
	uint8_t found = model->doc->pickle.protocol;

	if (canonical || found < 1)
		return 2;
	return model->protocol ? model->protocol : found;
}

static int save(const struct ckpt_model *model, const char *path, const struct ckpt_patch *replaced,
		const struct ckpt_save_options *o, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	bool canonical =
		o->flags & CKPT_SAVE_CANONICAL || model->doc->format != &ckpt_format_torch_legacy;
	struct writer w = { .model = model,
			    .canonical = canonical,
			    .protocol = protocol_for(model, canonical) };
	struct ckpt_output output = {
		.model = model, .options = o, .replaced = replaced, .put = put_all, .ctx = &w
	};
	int rc = ckpt_output_check(&output, path, err);

	if (rc == 0)
		rc = choose_order(&w, o, err);
	w.arena = ckpt_arena_new(UINT64_MAX >> 1);
	if (rc == 0 && !w.arena)
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = make_head(&w, o->profile, err);
	rc = ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
	output.size = w.size;
	if (rc == 0 && !(o->flags & CKPT_SAVE_DRY_RUN))
		rc = ckpt_output_write(&output, path, err);
	report->nbytes = report->written = w.size;
	report->turned_alone = w.byteswap.not_by_torch;
	clear(&w);
	return rc;
}

int ckpt_torch_legacy_save(const struct ckpt_model *model, const char *path,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err)
{
	return save(model, path, NULL, options, report, err);
}

/* There is no place for a longer pickle: the file is written anew. */
int ckpt_torch_legacy_save_in_place(const struct ckpt_model *model,
				    const struct ckpt_save_options *options,
				    struct ckpt_save_report *report, struct ckpt_error *err)
{
	return ckpt_output_write_anew(model, save, "a legacy stream has no room for a change",
				      options, report, err);
}
