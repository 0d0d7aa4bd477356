/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists what files of numpy can hold of a checkpoint: its tensors, and arrays and scalars of numpy.
 *
 * Everything else is reported as unfit, with a reason, and is an error unless CKPT_SAVE_DROP_OTHERS
 * is set; the error comes after the last of them, so that all are reported. Sizes are computed
 * here, from headers and shapes alone, as the writers need them before the first byte. Two members
 * of one name are always an error: numpy would find only one.
 */
#include "numpy/members.h"

#include "base/grow.h"
#include "base/text.h"
#include "model/describe.h"
#include "model/find.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char default_name[] = "arr_0"; /* as numpy.savez() calls what has no name */

struct lister {
	struct ckpt_numpy_members *members;
	const struct ckpt_save_options *options;
	int (*check_name)(const char *name, struct ckpt_error *err);
	struct ckpt_describer describer;
	struct ckpt_buf header;
	char first_unfit[160], first_unfit_why[160]; /* name and reason */
};

/* ---- values that cannot be written ---- */

static void note_unfit(struct lister *l, const struct ckpt_walk_step *step, const char *why)
{
	char shown[160];

	ckpt_escape(shown, sizeof(shown), step->name, step->name_len);
	if (!l->members->others++) {
		snprintf(l->first_unfit, sizeof(l->first_unfit), "%s", shown);
		snprintf(l->first_unfit_why, sizeof(l->first_unfit_why), "%.150s", why);
	}
	if (l->options->unfit)
		l->options->unfit(l->options->unfit_ctx, shown, why);
}

static int note_value(struct lister *l, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct ckpt_item item = { .size = sizeof(item) };
	char why[200];
	int rc = ckpt_describe(&l->describer, step->value, &item, err);

	if (rc < 0)
		return rc;
	snprintf(why, sizeof(why), "is no array but %s %.100s",
		 strchr("aeiouAEIOU", item.type[0]) ? "an" : "a", item.type);
	note_unfit(l, step, why);
	return CKPT_WALK_SKIP;
}

/* ---- arrays ---- */

static int check_array(const struct ckpt_array *a, struct ckpt_error *err)
{
	if (a->why_not)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "%s", a->why_not);
	if (a->wrapped)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is a %.80s, of which only the local tensor is there", a->wrapped);
	if (a->qscheme)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is quantized (%s), which numpy does not have", a->dtype);
	return 0;
}

/* Opens the array without a name, so that an error is the reason alone. */
static int check_and_size(struct lister *l, const struct ckpt_value *v, const char *name,
			  uint64_t *size, struct ckpt_error *err)
{
	struct ckpt_array *a;
	int rc = ckpt_array_open_value(l->members->model, v, "", 0, &a, err);

	if (rc == 0)
		rc = check_array(a, err);
	if (rc == 0)
		rc = ckpt_npy_size(a, &l->header, size, err);
	if (rc == 0)
		rc = l->check_name(name, err);
	ckpt_array_close(a);
	return rc;
}

/* Always fails: with the exact names of both, if there are any. */
static int fail_clash(const struct ckpt_model *model, const char *name, struct ckpt_error *err)
{
	const struct ckpt_value *found;
	char shown[160];

	if (ckpt_model_find(model, name, &found, err) == CKPT_E_ARG)
		return err->status = CKPT_E_CLASH;
	return ckpt_fail(err, CKPT_E_CLASH, "'%s' names two things",
			 ckpt_escape(shown, sizeof(shown), name, strlen(name)));
}

static int add_member(struct lister *l, const struct ckpt_value *v, const char *name, uint64_t size,
		      struct ckpt_error *err)
{
	struct ckpt_numpy_members *m = l->members;
	struct ckpt_numpy_member *items = ckpt_grow(m->items, m->count, &m->cap, sizeof(*items));
	char *copy = ckpt_arena_copy(m->arena, name, strlen(name));
	bool was_there;

	if (items)
		m->items = items;
	if (!items || !copy ||
	    !ckpt_strmap_insert(&m->by_name, copy, strlen(copy), m->count, &was_there))
		return ckpt_fail_nomem(err);
	if (was_there)
		return fail_clash(m->model, name, err);
	items[m->count++] = (struct ckpt_numpy_member){ copy, v, size };
	return CKPT_WALK_SKIP;
}

static int add_array(struct lister *l, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	const char *name = step->name_len ? step->name : default_name;
	char why[sizeof(err->text)];
	uint64_t size;
	int rc = check_and_size(l, step->value, name, &size, err);

	if (rc == CKPT_E_UNSUPPORTED) {
		ckpt_error_text(err, why, sizeof(why));
		*err = (struct ckpt_error)CKPT_ERROR_INIT;
		note_unfit(l, step, why);
		return CKPT_WALK_SKIP;
	}
	if (rc < 0)
		return ckpt_array_fail_named(l->members->model, step->name, rc, err);
	return add_member(l, step->value, name, size, err);
}

/* An attribute of state dicts, for the versions of modules; it holds no state. */
static bool is_metadata(const struct ckpt_walk_step *step)
{
	static const char metadata[] = "_metadata";
	size_t len = sizeof(metadata) - 1;
	const struct ckpt_value *parent;
	uint32_t index;

	return step->name_len >= len && !memcmp(step->name + step->name_len - len, metadata, len) &&
	       !ckpt_walk_is_entry(step, &parent, &index);
}

static bool is_container(const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL || (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT);
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct lister *l = ctx;
	const struct ckpt_value *v = step->value;
	struct ckpt_numpy numpy;

	if (ckpt_value_is_tensor(l->members->model, v) ||
	    ckpt_numpy_parse(l->members->model, v, &numpy))
		return add_array(l, step, err);
	if (is_metadata(step))
		return CKPT_WALK_SKIP;
	if (!is_container(v))
		return note_value(l, step, err);
	if (step->seen && v->kind != CKPT_CALL && !v->u.seq.count)
		return CKPT_WALK_SKIP;
	if (step->seen) {
		note_unfit(l, step, "is the same object as one before it");
		return CKPT_WALK_SKIP;
	}
	return CKPT_WALK_ENTER;
}

/* ---- all of them ---- */

static int check_list(const struct lister *l, struct ckpt_error *err)
{
	const struct ckpt_numpy_members *m = l->members;
	char and_more[60] = "";

	if (m->others > 1)
		snprintf(and_more, sizeof(and_more), ", and %" PRIu64 " more cannot be written",
			 m->others - 1);
	if (m->others && !(l->options->flags & CKPT_SAVE_DROP_OTHERS))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%s' %s%s", l->first_unfit,
				 l->first_unfit_why, and_more);
	if (!m->count)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "there is no tensor and no array in it");
	return 0;
}

int ckpt_numpy_members_list(const struct ckpt_model *model, const struct ckpt_save_options *options,
			    int (*check_name)(const char *name, struct ckpt_error *err),
			    struct ckpt_numpy_members *out, struct ckpt_error *err)
{
	struct lister l = { .members = out,
			    .options = options,
			    .check_name = check_name,
			    .describer = { .model = model } };
	int rc;

	*out = (struct ckpt_numpy_members){ .model = model };
	out->arena = ckpt_arena_new(UINT64_MAX >> 1); /* names: what the model has of them */
	rc = out->arena ? ckpt_model_walk(model, visit_value, &l, err) : ckpt_fail_nomem(err);
	if (rc < 0 && err && !err->record[0])
		err->offset = CKPT_NO_OFFSET; /* it is about a name, not about the file */
	if (rc == 0)
		rc = check_list(&l, err);
	ckpt_describer_clear(&l.describer);
	ckpt_buf_clear(&l.header);
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

void ckpt_numpy_members_clear(struct ckpt_numpy_members *members)
{
	ckpt_strmap_clear(&members->by_name);
	ckpt_arena_free(members->arena);
	free(members->items);
}

int ckpt_numpy_member_open(const struct ckpt_numpy_members *members,
			   const struct ckpt_numpy_member *m, struct ckpt_array **array,
			   struct ckpt_npy *npy, struct ckpt_error *err)
{
	int rc = ckpt_array_open_value(members->model, m->value, m->name, 0, array, err);

	*npy = (struct ckpt_npy){ 0 };
	if (rc == 0)
		rc = ckpt_npy_open(*array, npy, err);
	return ckpt_array_fail_named(members->model, m->name, rc, err);
}
