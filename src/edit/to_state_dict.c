/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt convert --state-dict`: the state dict of the one module of a checkpoint, or of the one
 * that is named; of a program (torch.export), the mapping that it says itself is its state dict.
 * What a module is and what its state dict holds is in model/module.h.
 *
 * The new model has the state dict as its root; everything else of the checkpoint is left behind.
 */
#include "base/buf.h"
#include "base/sized.h"
#include "base/text.h"
#include "model/find.h"
#include "model/module.h"
#include "model/plain_values.h"

#include <ckpt/edit.h>

#include <inttypes.h>
#include <string.h>

enum { MOST_SHOWN = 8 };

/* A module, or what a program says is its state dict. Of a program nothing else counts. */
static bool is_source(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_seq *known = &model->doc->state_dicts;

	for (uint32_t i = 0; i < known->count; i++)
		if (known->items[i] == v)
			return true;
	return !known->count && ckpt_is_module(model, v);
}

/* The outermost modules of a checkpoint. */
struct modules {
	const struct ckpt_model *model;
	const struct ckpt_value *first;
	uint64_t count;
	struct ckpt_buf names; /* of some, for a message */
};

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct modules *m = ctx;
	char shown[80];

	if (ckpt_value_is_tensor(m->model, step->value) || step->seen)
		return CKPT_WALK_SKIP;
	if (!is_source(m->model, step->value))
		return CKPT_WALK_ENTER;
	if (!m->count++)
		m->first = step->value;
	if (m->first == step->value && m->count > 1)
		m->count--; /* the same one under another name */
	else if (m->count <= MOST_SHOWN)
		ckpt_buf_printf(&m->names, "%s'%s'", m->count > 1 ? ", " : "",
				ckpt_escape(shown, sizeof(shown), step->name, step->name_len));
	return m->names.bad ? ckpt_fail_nomem(err) : CKPT_WALK_SKIP;
}

static int find_only(const struct ckpt_model *model, const struct ckpt_value **out,
		     struct ckpt_error *err)
{
	struct modules m = { .model = model };
	int rc = ckpt_model_walk(model, visit_value, &m, err);

	*out = m.first;
	if (rc == 0 && !m.count)
		rc = ckpt_fail(err, CKPT_E_NOTFOUND, "holds no module, only what is in its dicts");
	else if (rc == 0 && m.count > 1)
		rc = ckpt_fail(err, CKPT_E_ARG, "holds %" PRIu64 " %s: %.*s%s", m.count,
			       model->doc->state_dicts.count ? "programs" : "modules",
			       (int)m.names.len, (const char *)m.names.data,
			       m.count > MOST_SHOWN ? " ..." : "");
	ckpt_buf_clear(&m.names);
	return rc;
}

static int find_named(const struct ckpt_model *model, const char *at, const struct ckpt_value **out,
		      struct ckpt_error *err)
{
	char shown[160];
	int rc;

	rc = ckpt_model_find(model, at, out, err);
	if (rc < 0 || is_source(model, *out))
		return rc;
	ckpt_escape(shown, sizeof(shown), at, strlen(at));
	if (model->doc->state_dicts.count)
		return ckpt_fail(err, CKPT_E_NOTFOUND, "'%s' is not the state dict of a program",
				 shown);
	return ckpt_fail(err, CKPT_E_NOTFOUND, "'%s' is no module but a %s", shown,
			 ckpt_value_is_tensor(model, *out) ? "tensor" : ckpt_value_kind_name(*out));
}

/* The tensors of a mapping as state_dict() has them. NULL: no memory. */
static const struct ckpt_value *detach_all(struct ckpt_model *to, const struct ckpt_value *mapping,
					   struct ckpt_module_report *report)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(mapping);
	struct ckpt_value *made = ckpt_plain_call(to, "collections", "OrderedDict", NULL, 0);

	for (uint32_t i = 0; made && pairs && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *pair[2] = { ckpt_model_now(to, pairs->items[i]),
						     ckpt_model_now(to, pairs->items[i + 1]) };

		if (ckpt_value_is_tensor(to, pair[1]))
			pair[1] = ckpt_tensor_detached(to, pair[1]);
		if (!pair[1] || !ckpt_seq_add_many(to->arena, &made->u.call->pairs, pair, 2))
			return NULL;
		report->entries++;
	}
	return made;
}

static const struct ckpt_value *make_state_dict(struct ckpt_model *to,
						const struct ckpt_value *from,
						struct ckpt_module_report *report,
						struct ckpt_error *err)
{
	const struct ckpt_value *made;

	if (!to->doc->state_dicts.count)
		return ckpt_module_state_dict(to, from, report, err);
	made = detach_all(to, from, report);
	if (!made)
		ckpt_arena_fail(to->arena, err);
	return made;
}

int ckpt_state_dict(const struct ckpt_model *model, const struct ckpt_take_options *options,
		    struct ckpt_model **out, struct ckpt_edit_report *report,
		    struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_take_options o = CKPT_TAKE_OPTIONS_INIT;
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	struct ckpt_module_report made = { 0 };
	const struct ckpt_value *module = NULL;
	struct ckpt_error local = CKPT_ERROR_INIT, *e = err ? err : &local;

	if (rc == 0)
		rc = ckpt_sized_take(&o, sizeof(o), options, e);
	*out = NULL;
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(did), e);
	if (rc == 0)
		rc = o.at ? find_named(model, o.at, &module, e) : find_only(model, &module, e);
	if (rc == 0)
		rc = ckpt_model_derive(model, out, e);
	if (rc == 0) {
		(*out)->root = make_state_dict(*out, module, &made, e);
		rc = (*out)->root ? 0 : e->status;
	}
	if (rc < 0) {
		ckpt_close(*out);
		*out = NULL;
		return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
	}
	did.extracted = true;
	did.tensors_taken = made.entries;
	did.modules_guessed = made.guessed;
	ckpt_sized_give(report, &did, sizeof(did));
	return 0;
}
