/* SPDX-License-Identifier: Apache-2.0 */
#include "model/find.h"

#include "base/text.h"

#include <string.h>

struct name_finder {
	const struct ckpt_model *model;
	const char *wanted;
	size_t len;
	const struct ckpt_value *found;
	bool found_entry;
	struct ckpt_slot *slot; /* of what was found; NULL: not asked for */
	struct ckpt_buf exact, first; /* of the current value, of the first one found */
};

/* What stands under a key or in a list goes before arguments and attributes of the same name. */
static int add_match(struct name_finder *f, const struct ckpt_walk_step *step,
		     struct ckpt_error *err)
{
	const struct ckpt_value *parent;
	uint32_t index;
	bool entry = ckpt_walk_is_entry(step, &parent, &index);
	char shown[160];

	if (f->found && f->found_entry && !entry)
		return 0;
	if (f->found && f->found_entry == entry)
		return ckpt_fail(err, CKPT_E_ARG, "'%s' names two things: %.100s and %.100s",
				 ckpt_escape(shown, sizeof(shown), f->wanted, f->len),
				 (const char *)f->first.data, (const char *)f->exact.data);
	f->found = step->value;
	f->found_entry = entry;
	if (f->slot && !ckpt_walk_slot(step, f->slot))
		f->slot->holder = NULL;
	f->first.len = 0;
	ckpt_buf_add(&f->first, f->exact.data, f->exact.len);
	ckpt_buf_add_u8(&f->first, '\0');
	return 0;
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct name_finder *f = ctx;
	bool exact = f->wanted[0] == '[';
	const char *name = step->name;
	size_t len = step->name_len, below = step->below_len;
	int rc = 0;

	f->exact.len = 0;
	ckpt_walk_exact_name(step, &f->exact);
	if (f->exact.bad)
		return ckpt_fail_nomem(err);
	if (exact) {
		name = (const char *)f->exact.data;
		len = below = f->exact.len;
	}
	if (below > f->len || memcmp(name, f->wanted, below))
		return CKPT_WALK_SKIP;
	if (len == f->len && !memcmp(name, f->wanted, len))
		rc = add_match(f, step, err);
	if (rc < 0)
		return rc;
	if (ckpt_value_is_tensor(f->model, step->value)) /* its parts have no names in Python */
		return CKPT_WALK_SKIP;
	return !below || below == f->len || f->wanted[below] == (exact ? '[' : '.')
		       ? CKPT_WALK_ENTER
		       : CKPT_WALK_SKIP;
}

int ckpt_model_find(const struct ckpt_model *model, const char *name, const struct ckpt_value **out,
		    struct ckpt_error *err)
{
	return ckpt_model_find_slot(model, name, out, NULL, err);
}

int ckpt_model_find_slot(const struct ckpt_model *model, const char *name,
			 const struct ckpt_value **out, struct ckpt_slot *slot,
			 struct ckpt_error *err)
{
	struct name_finder f = { .model = model, .wanted = name, .len = strlen(name), .slot = slot };
	char shown[160];
	int rc = 0;

	if (slot)
		*slot = (struct ckpt_slot){ 0 };
	if (f.len)
		rc = ckpt_model_walk(model, visit_value, &f, err);
	else
		f.found = ckpt_model_now(model, model->root);
	*out = f.found;
	ckpt_buf_clear(&f.exact);
	ckpt_buf_clear(&f.first);
	if (rc == CKPT_E_ARG && err)
		err->offset = CKPT_NO_OFFSET; /* it is about NAME, not about the file */
	if (rc == 0 && !f.found)
		rc = ckpt_fail(err, CKPT_E_NOTFOUND, "nothing is named '%s'",
			       ckpt_escape(shown, sizeof(shown), name, f.len));
	return rc;
}
