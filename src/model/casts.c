/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What casts have lost, put together from the tallies of their storages.
 *
 * A chain of edits is a chain of models, each of which may cast, and is alive as long as the last
 * one. The first place is that of the storage that the file mentions first; models that cast
 * earlier come later, as their names are older.
 */
#include "model/casts.h"

#include "base/buf.h"
#include "base/cancel.h"
#include "base/sized.h"
#include "base/text.h"
#include "model/walk.h"

#include <ckpt/edit.h>
#include <ckpt/save.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ckpt_storage_cast *ckpt_model_add_cast(struct ckpt_model *model, uint32_t storage)
{
	struct ckpt_storage_cast *made = ckpt_arena_calloc(model->arena, 1, sizeof(*made));

	if (!made)
		return NULL;
	ckpt_cast_tally_init(&made->tally);
	made->storage = storage;
	made->next = model->casts;
	model->casts = made;
	return made;
}

void ckpt_model_clear_casts(struct ckpt_model *model)
{
	for (struct ckpt_storage_cast *c = model->casts; c; c = c->next)
		ckpt_cast_tally_clear(&c->tally);
}

/* ---- where ---- */

/*
 * The index of item OFF, behind the first, of a tensor. Dimensions are taken from the longest
 * stride to the shortest, which finds it unless items overlap in odd ways. False: T does not show
 * it.
 */
static bool find_index(const struct ckpt_tensor *t, uint64_t off, uint64_t index[CKPT_MOST_DIMS])
{
	bool taken[CKPT_MOST_DIMS] = { false };

	for (uint32_t n = 0; n < t->ndim; n++) {
		uint32_t longest = t->ndim;

		for (uint32_t d = 0; d < t->ndim; d++)
			if (!taken[d] && (longest == t->ndim || t->stride[d] > t->stride[longest]))
				longest = d;
		taken[longest] = true;
		if (!t->shape[longest])
			return false;
		index[longest] = 0;
		if (t->stride[longest] && t->shape[longest] > 1) {
			uint64_t i = off / t->stride[longest], most = t->shape[longest] - 1;

			index[longest] = i < most ? i : most;
			off -= index[longest] * t->stride[longest];
		}
	}
	return off == 0;
}

static void print_place(struct ckpt_buf *out, const struct ckpt_tensor *t, const uint64_t *index)
{
	char shown[320];

	ckpt_buf_printf(out, "'%s'", ckpt_escape(shown, sizeof(shown), t->name, strlen(t->name)));
	for (uint32_t d = 0; d < t->ndim; d++)
		ckpt_buf_printf(out, "%s%" PRIu64, d ? ", " : "[", index[d]);
	if (t->ndim)
		ckpt_buf_printf(out, "]");
}

/* "'model.a'[3, 17]" for item ITEM of a storage of MODEL */
static int find_place(const struct ckpt_model *model, uint32_t storage, uint64_t item,
		      struct ckpt_buf *out, struct ckpt_error *err)
{
	struct ckpt_arena *arena =
		ckpt_arena_new((64 << 20) + 64 * (uint64_t)model->doc->pickle_len);
	const char *beside = NULL;
	char shown[320];

	if (!arena || !ckpt_model_has_tensors(model)) {
		ckpt_arena_free(arena);
		return ckpt_fail_nomem(err);
	}
	for (uint32_t i = 0; !out->len && i < model->tensor_count; i++) {
		uint64_t index[CKPT_MOST_DIMS];
		struct ckpt_tensor t;

		if (!ckpt_tensor_stored(model, &model->tensors[i], arena, &t) ||
		    t.storage != (int64_t)storage)
			continue;
		beside = beside ? beside : model->tensors[i].name;
		t.name = model->tensors[i].name;
		if (t.stride && item >= t.offset && find_index(&t, item - t.offset, index))
			print_place(out, &t, index);
	}
	if (!out->len)
		ckpt_buf_printf(out, "item %" PRIu64 " of the storage of '%s'", item,
				ckpt_escape(shown, sizeof(shown), beside ? beside : "",
					    beside ? strlen(beside) : 0));
	ckpt_arena_free(arena);
	return out->bad ? ckpt_fail_nomem(err) : 0;
}

static int note_first(const struct ckpt_model *model, const struct ckpt_storage_cast *c,
		      uint64_t item, double number, struct ckpt_cast_loss *out,
		      struct ckpt_error *err)
{
	struct ckpt_buf place = { 0 };
	int rc = find_place(model, c->storage, item, &place, err);

	out->first = number;
	out->dtype = ckpt_dtype_name(c->cast.to);
	if (rc == 0)
		snprintf(out->place, sizeof(out->place), "%.*s", (int)place.len,
			 (const char *)place.data);
	ckpt_buf_clear(&place);
	return rc;
}

/* ---- all of them ---- */

/* Casts of one model are in a list that begins with the last storage. */
static int add_losses(const struct ckpt_model *model, struct ckpt_cast_report *r,
		      struct ckpt_error *err)
{
	struct ckpt_cast_tally over = { .count = CKPT_CAST_COUNT_INIT }, under = over;
	const struct ckpt_storage_cast *of_over = NULL, *of_under = NULL;
	bool had_over = r->overflow.count, had_under = r->underflow.count;
	int rc = 0;

	for (struct ckpt_storage_cast *c = model->casts; c; c = c->next) {
		struct ckpt_cast_tally *t = &c->tally;

		pthread_mutex_lock(&t->lock);
		r->overflow.count += t->count.overflowed;
		r->underflow.count += t->count.underflowed;
		if (t->count.overflowed) {
			over.count = t->count;
			over.overflow = t->overflow;
			of_over = c;
		}
		if (t->count.underflowed) {
			under.count = t->count;
			under.underflow = t->underflow;
			of_under = c;
		}
		pthread_mutex_unlock(&t->lock);
	}
	if (of_over && !had_over)
		rc = note_first(model, of_over, over.count.first_overflow, over.overflow,
				&r->overflow, err);
	if (rc == 0 && of_under && !had_under)
		rc = note_first(model, of_under, under.count.first_underflow, under.underflow,
				&r->underflow, err);
	return rc;
}

int ckpt_cast_losses(const struct ckpt_model *model, struct ckpt_cast_report *report,
		     struct ckpt_error *err)
{
	struct ckpt_cast_report r = CKPT_CAST_REPORT_INIT;
	int rc = ckpt_sized_check(report, sizeof(r), err);

	for (const struct ckpt_model *m = model; rc == 0 && m; m = m->base)
		rc = add_losses(m, &r, err);
	if (rc == 0)
		ckpt_sized_give(report, &r, sizeof(r));
	return rc;
}

static void print_loss(struct ckpt_buf *out, const struct ckpt_cast_loss *loss, const char *what)
{
	if (!loss->count)
		return;
	ckpt_buf_printf(out, "%s%" PRIu64 " %s for %s, the first at %.160s", out->len ? "; " : "",
			loss->count, what, loss->dtype, loss->place);
}

static int check_losses(const struct ckpt_model *model, unsigned flags, struct ckpt_error *err)
{
	struct ckpt_cast_report r = CKPT_CAST_REPORT_INIT;
	struct ckpt_buf text = { 0 };
	int rc = flags & CKPT_SAVE_CHECK_CASTS ? ckpt_cast_losses(model, &r, err) : 0;

	if (rc < 0 || (!r.overflow.count && !r.underflow.count))
		return rc;
	print_loss(&text, &r.overflow,
		   r.overflow.count == 1 ? "number is too large" : "numbers are too large");
	print_loss(&text, &r.underflow,
		   r.underflow.count == 1 ? "number is too small" : "numbers are too small");
	if (text.bad)
		rc = ckpt_fail_nomem(err);
	else
		rc = ckpt_error_because(err,
					ckpt_fail(err, CKPT_E_UNSUPPORTED, "%.*s", (int)text.len,
						  (const char *)text.data),
					CKPT_REASON_CAST_LOSES);
	ckpt_buf_clear(&text);
	return rc;
}

int ckpt_model_check_saved(const struct ckpt_model *model, unsigned flags, struct ckpt_error *err)
{
	int rc = ckpt_model_check_unchanged(model, err);

	return rc == 0 ? check_losses(model, flags, err) : rc;
}

/* ---- without a save ---- */

static int read_all(const struct ckpt_recipe *recipe, void *piece, size_t size,
		    const volatile int *cancel, struct ckpt_error *err)
{
	struct ckpt_stream *stream;
	int rc = ckpt_recipe_stream(recipe, &stream, err);

	if (rc < 0)
		return rc;
	for (uint64_t left = recipe->len; rc == 0 && left;) {
		size_t n = left < size ? (size_t)left : size;

		rc = ckpt_cancelled(cancel)
			     ? ckpt_fail(err, CKPT_E_CANCELLED, "interrupted, nothing was written")
			     : stream->read(stream, piece, n, err);
		left -= n;
	}
	stream->close(stream);
	return rc;
}

static bool casts(const struct ckpt_model *model)
{
	for (; model; model = model->base)
		if (model->casts)
			return true;
	return false;
}

static int note_storage(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	bool *used = ctx;

	(void)err;
	if (step->value->kind == CKPT_PERSID && ckpt_storage_of(step->value) >= 0)
		used[ckpt_storage_of(step->value)] = true;
	return CKPT_WALK_ENTER;
}

/* The bytes that edits made of storages which are in the checkpoint still. */
static int read_made(const struct ckpt_model *model, const volatile int *cancel,
		     struct ckpt_error *err)
{
	enum { PIECE = 512 << 10 };
	bool *used = calloc(model->storage_count + (size_t)1, sizeof(*used));
	void *piece = malloc(PIECE);
	int rc = used && piece ? ckpt_model_walk(model, note_storage, used, err)
			       : ckpt_fail_nomem(err);

	for (uint32_t i = 0; rc == 0 && i < model->storage_count; i++)
		if (used[i] && model->storages[i].made)
			rc = read_all(model->storages[i].made, piece, PIECE, cancel, err);
	free(piece);
	free(used);
	return rc;
}

int ckpt_model_check_unsaved(const struct ckpt_model *model, unsigned flags,
			     const volatile int *cancel, struct ckpt_error *err)
{
	int rc = 0;

	if (!(flags & CKPT_SAVE_CHECK_CASTS))
		return 0;
	if (casts(model))
		rc = read_made(model, cancel, err);
	return rc == 0 ? ckpt_model_check_saved(model, flags, err) : rc;
}
