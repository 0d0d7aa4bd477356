/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the fates of storages to those of tensors: makes the model without what is lost, or with
 * zeros or NaN in its place.
 *
 * A tensor has the worst mark of all storages that it needs, and is never better than the pickle.
 * What is lost is left out as an entry of a dict. Lists and objects cannot do without a part, so
 * there it can only be filled (`stuck`). Every tensor is counted in the report, and every one that
 * is not proven is reported.
 */
#include "repair/rescue.h"

#include "base/grow.h"
#include "base/text.h"
#include "edit/entries.h"
#include "model/holders.h"
#include "tensor/fill.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An entry that is left out. */
struct dropped {
	const struct ckpt_value *mapping;
	uint32_t index;
};

struct tensor_rescue {
	struct ckpt_rescue *r;
	const struct ckpt_model *from;
	struct ckpt_model *to;
	uint8_t *marks;			/* by storage */
	const struct ckpt_fate **fates; /* by storage; NULL: nothing is known of it */
	enum ckpt_dtype *dtypes;	/* by storage: that of its tensors; UNKNOWN: it has none */
	struct dropped *dropped;
	uint32_t dropped_count, dropped_cap;
	uint64_t stuck; /* tensors that are lost and cannot be left out */
	char first_stuck[200];
};

/* ---- which storages ---- */

static int mark_storages(struct tensor_rescue *j, struct ckpt_error *err)
{
	uint32_t count = j->from->storage_count;

	j->marks = calloc(count + (size_t)1, sizeof(*j->marks));
	j->fates = calloc(count + (size_t)1, sizeof(*j->fates));
	j->dtypes = malloc((count + (size_t)1) * sizeof(*j->dtypes));
	if (!j->marks || !j->fates || !j->dtypes)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt_storage *s = &j->from->storages[i];
		const char *key = s->view ? j->from->storages[s->view->root].key : s->key;
		const uint64_t *fate = ckpt_strmap_find(&j->r->by_key, key, strlen(key));

		j->dtypes[i] = CKPT_DTYPE_UNKNOWN;
		j->fates[i] = fate ? &j->r->fates[*fate] : NULL;
		j->marks[i] = fate ? (uint8_t)j->fates[i]->mark : CKPT_FATE_LOST;
		j->r->report.damaged |= !fate; /* it is only mentioned */
		j->r->report.storages += !s->view;
		if (s->view)
			continue;
		if (j->marks[i] == CKPT_FATE_LOST)
			j->r->report.lost_nbytes += s->nbytes;
		else if (j->marks[i] == CKPT_FATE_UNPROVEN)
			j->r->report.unproven_nbytes += s->nbytes;
		else
			j->r->report.proven_nbytes += s->nbytes;
	}
	return 0;
}

static void note_dtype(void *ctx, uint32_t storage, const struct ckpt_tensor *t)
{
	struct tensor_rescue *j = ctx;

	if (t && j->dtypes[storage] == CKPT_DTYPE_UNKNOWN)
		j->dtypes[storage] = t->dtype;
}

static enum ckpt_dtype dtype_of(const struct tensor_rescue *j, uint32_t storage)
{
	const struct ckpt_storage *s = &j->from->storages[storage];

	/* an untyped storage, of bytes, has the dtype of its tensors */
	if (s->dtype == CKPT_DTYPE_UINT8 && j->dtypes[storage] != CKPT_DTYPE_UNKNOWN)
		return j->dtypes[storage];
	return s->dtype;
}

/* ---- which tensors ---- */

static bool is_wanted(const struct tensor_rescue *j, enum ckpt_fate_mark mark)
{
	return mark == CKPT_FATE_PROVEN ||
	       (mark == CKPT_FATE_UNPROVEN && !(j->r->o.flags & CKPT_REPAIR_PROVEN_ONLY));
}

static bool has_nan(const struct tensor_rescue *j, const struct ckpt_holder *h)
{
	struct ckpt_fill fill;

	return ckpt_fill_nan(h->tensor ? h->tensor->dtype : dtype_of(j, h->storage), false, 0,
			     &fill);
}

/*
 * Sparse and nested tensors have tensors with indices inside, where torch would not accept zeros.
 */
static bool can_be_filled(const struct tensor_rescue *j, const struct ckpt_holder *h)
{
	return j->r->o.fill != CKPT_FILL_NOTHING &&
	       !(h->tensor &&
		 (h->tensor->kind == CKPT_KIND_SPARSE || h->tensor->kind == CKPT_KIND_NESTED));
}

static int report_tensor(struct tensor_rescue *j, const struct ckpt_holder *h,
			 enum ckpt_fate_mark mark, bool wanted)
{
	const struct ckpt_fate *fate = h->mark ? j->fates[h->storage] : NULL;
	struct ckpt_repair_finding f = { .size = sizeof(f),
					 .kind = wanted ? CKPT_REPAIR_UNPROVEN : CKPT_REPAIR_LOST,
					 .name = h->step->name,
					 .offset = CKPT_NO_OFFSET,
					 .nbytes = h->nbytes,
					 .of_optimizer = h->of_optimizer,
					 .text = "it is not in the file" };

	if (fate && h->mark == mark) {
		f.record = fate->record;
		f.offset = fate->offset;
		f.text = fate->why;
	} else if (mark == CKPT_FATE_UNPROVEN) {
		f.text = j->r->pickle_why;
	}
	f.filled = !wanted && can_be_filled(j, h);
	f.zeros = f.filled && j->r->o.fill == CKPT_FILL_NAN && !has_nan(j, h);
	return j->r->found ? j->r->found(j->r->ctx, &f) : 0;
}

static int drop_entry(struct tensor_rescue *j, const struct ckpt_holder *h, struct ckpt_error *err)
{
	void *grown;

	if (!h->mapping) {
		if (!j->stuck++)
			ckpt_escape(j->first_stuck, sizeof(j->first_stuck), h->step->name,
				    h->step->name_len);
		return 0;
	}
	grown = ckpt_grow(j->dropped, j->dropped_count, &j->dropped_cap, sizeof(*j->dropped));
	if (!grown)
		return ckpt_fail_nomem(err);
	j->dropped = grown;
	j->dropped[j->dropped_count++] = (struct dropped){ h->mapping, h->index };
	return 0;
}

static int visit_holder(void *ctx, const struct ckpt_holder *h, struct ckpt_error *err)
{
	struct tensor_rescue *j = ctx;
	struct ckpt_repair_report *report = &j->r->report;
	enum ckpt_fate_mark mark = (enum ckpt_fate_mark)h->mark;
	bool wanted;
	int rc;

	if (mark < j->r->pickle)
		mark = j->r->pickle;
	wanted = is_wanted(j, mark);
	report->tensors++;
	report->proven += mark == CKPT_FATE_PROVEN;
	report->unproven += wanted && mark == CKPT_FATE_UNPROVEN;
	report->lost += !wanted;
	if (mark == CKPT_FATE_PROVEN)
		return 0;
	rc = report_tensor(j, h, mark, wanted);
	if (rc < 0 || wanted)
		return rc;
	if (can_be_filled(j, h)) {
		report->filled++;
		return 0;
	}
	report->optimizer_lost += h->of_optimizer;
	return drop_entry(j, h, err);
}

/* ---- leaving out and filling ---- */

static int by_mapping(const void *a, const void *b)
{
	const struct dropped *x = a, *y = b;

	if (x->mapping->id != y->mapping->id)
		return x->mapping->id < y->mapping->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Leaves out COUNT entries of one mapping, which are in their order. */
static int drop_from_mapping(struct tensor_rescue *j, const struct dropped *dropped, uint32_t count,
			     struct ckpt_error *err)
{
	struct ckpt_fewer_entries fewer;
	uint32_t next = 0;
	int rc = ckpt_fewer_entries_begin(j->to, dropped->mapping, &fewer, err);

	for (uint32_t i = 0; rc == 0 && i + 1 < fewer.were->count; i += 2) {
		if (next < count && dropped[next].index == i)
			next++;
		else
			rc = ckpt_fewer_entries_keep(j->to, &fewer, i, err);
	}
	return rc < 0 ? rc : ckpt_model_replace(j->to, fewer.copy, err);
}

static int drop_entries(struct tensor_rescue *j, struct ckpt_error *err)
{
	int rc = 0;

	if (j->dropped_count)
		qsort(j->dropped, j->dropped_count, sizeof(*j->dropped), by_mapping);
	for (uint32_t i = 0, end; rc == 0 && i < j->dropped_count; i = end) {
		for (end = i;
		     end < j->dropped_count && j->dropped[end].mapping == j->dropped[i].mapping;
		     end++)
			;
		rc = drop_from_mapping(j, &j->dropped[i], end - i, err);
	}
	return rc;
}

static int fill_storage(struct tensor_rescue *j, uint32_t i, struct ckpt_error *err)
{
	struct ckpt_fill *fill = ckpt_arena_alloc(j->to->arena, sizeof(*fill));
	struct ckpt_recipe *made = ckpt_arena_alloc(j->to->arena, sizeof(*made));
	int rc = fill && made ? ckpt_model_own_storages(j->to, err)
			      : ckpt_arena_fail(j->to->arena, err);
	struct ckpt_storage *s;

	if (rc < 0)
		return rc;
	s = &j->to->storages[i];
	*fill = ckpt_fill_zeros(s->nbytes);
	if (j->r->o.fill == CKPT_FILL_NAN)
		ckpt_fill_nan(dtype_of(j, i), j->from->doc->big_endian, s->nbytes, fill);
	*made = ckpt_fill_recipe(fill);
	s->made = made;
	s->has_crc = false;
	return 0;
}

static int fill_all(struct tensor_rescue *j, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < j->from->storage_count; i++)
		if (!is_wanted(j, (enum ckpt_fate_mark)j->marks[i]))
			rc = fill_storage(j, i, err);
	return rc;
}

static int check_any_left(const struct tensor_rescue *j, struct ckpt_error *err)
{
	const struct ckpt_repair_report *report = &j->r->report;

	if (report->tensors && report->lost == report->tensors)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "nothing can be saved: of none of the %" PRIu64
				 " tensors are the bytes there%s",
				 report->tensors,
				 j->r->o.flags & CKPT_REPAIR_PROVEN_ONLY ? ", and proven" : "");
	if (j->stuck)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%s' is lost and part of a list or an object, which cannot do "
				 "without it (%" PRIu64 " such tensor%s): it can only be filled",
				 j->first_stuck, j->stuck, j->stuck == 1 ? "" : "s");
	return 0;
}

int ckpt_rescue_tensors(struct ckpt_rescue *r, const struct ckpt_model *model,
			struct ckpt_model **out, struct ckpt_error *err)
{
	struct tensor_rescue j = { .r = r, .from = model };
	struct ckpt_holders holders = { .holder = visit_holder, .storage = note_dtype, .ctx = &j };
	int rc = mark_storages(&j, err);

	holders.marks = j.marks;
	if (rc == 0)
		rc = ckpt_model_derive(model, &j.to, err);
	if (rc == 0)
		rc = ckpt_model_each_holder(model, &holders, err);
	if (rc == 0)
		rc = check_any_left(&j, err);
	if (rc == 0)
		rc = drop_entries(&j, err);
	if (rc == 0 && r->o.fill != CKPT_FILL_NOTHING)
		rc = fill_all(&j, err);
	free(j.marks);
	free(j.fates);
	free(j.dtypes);
	free(j.dropped);
	if (rc < 0)
		ckpt_close(j.to);
	else
		*out = j.to;
	return rc;
}
