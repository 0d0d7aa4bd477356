/* SPDX-License-Identifier: Apache-2.0 */
#include "set/dcp_values.h"

#include "base/text.h"
#include "set/inside.h"

#include <string.h>

enum { MOST_FIELDS = 64, MOST_DIMS = 64, SHOWN = 160 };

bool ckpt_dcp_is(const struct ckpt_value *v, const char *name)
{
	const struct ckpt_value *func = v->kind == CKPT_CALL ? v->u.call->func : NULL;

	return func && func->kind == CKPT_GLOBAL && !strcmp(func->u.global->name, name) &&
	       !strncmp(func->u.global->module, "torch.distributed.", 18);
}

const struct ckpt_value *ckpt_dcp_object_state(const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->kind == CKPT_CALL ? v->u.call->state : NULL;

	return state && state->kind == CKPT_DICT ? state : NULL;
}

const struct ckpt_value *ckpt_dcp_state(const struct ckpt_value *v, const char *name)
{
	return ckpt_dcp_is(v, name) ? ckpt_dcp_object_state(v) : NULL;
}

const struct ckpt_value *ckpt_dcp_field(const struct ckpt_value *state, const char *name)
{
	uint32_t count = state->u.seq.count < MOST_FIELDS ? state->u.seq.count : MOST_FIELDS;

	for (uint32_t i = 0; i + 1 < count; i += 2)
		if (ckpt_value_is_str(state->u.seq.items[i], name))
			return state->u.seq.items[i + 1];
	return NULL;
}

int ckpt_dcp_wrong(struct ckpt_error *err, const char *what, const struct ckpt_value *v)
{
	const struct ckpt_value *func = v && v->kind == CKPT_CALL ? v->u.call->func : NULL;
	char shown[SHOWN];
	int rc;

	if (func && func->kind == CKPT_GLOBAL)
		rc = ckpt_fail(err, CKPT_E_FORMAT, "wanted %s, found a %s", what,
			       ckpt_escape(shown, sizeof(shown), func->u.global->name,
					   func->u.global->name_len));
	else
		rc = ckpt_fail(err, CKPT_E_FORMAT, "wanted %s, found %s", what,
			       v ? ckpt_value_kind_name(v) : "nothing");
	/* None and its like are everywhere */
	return ckpt_error_at(err, rc, NULL, NULL, v && (v->id || v->pos) ? v->pos : CKPT_NO_OFFSET);
}

int ckpt_dcp_dims(const struct ckpt_value *v, const char *what, struct ckpt_arena *arena,
		  const uint64_t **out, uint32_t *count, struct ckpt_error *err)
{
	const struct ckpt_value *args;
	uint64_t *dims;

	if (v && ckpt_value_is_call_of(v, "torch", "Size")) {
		args = v->u.call->args;
		v = args->kind == CKPT_TUPLE && args->u.seq.count == 1 ? args->u.seq.items[0] : v;
	}
	if (!v || (v->kind != CKPT_TUPLE && v->kind != CKPT_LIST))
		return ckpt_dcp_wrong(err, what, v);
	if (v->u.seq.count > MOST_DIMS)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_FORMAT,
					       "%s of %u dimensions, torch has at most %d", what,
					       v->u.seq.count, MOST_DIMS),
				     NULL, NULL, v->pos);
	dims = ckpt_arena_alloc(arena, v->u.seq.count * sizeof(*dims));
	if (!dims)
		return ckpt_arena_fail(arena, err);
	for (uint32_t i = 0; i < v->u.seq.count; i++) {
		int rc = ckpt_dcp_number(v->u.seq.items[i], what, &dims[i], err);

		if (rc < 0)
			return rc;
	}
	*out = dims;
	*count = v->u.seq.count;
	return 0;
}

int ckpt_dcp_number(const struct ckpt_value *v, const char *what, uint64_t *out,
		    struct ckpt_error *err)
{
	if (!v || v->kind != CKPT_INT)
		return ckpt_dcp_wrong(err, what, v);
	if (v->u.integer < 0)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_FORMAT, "%s is %lld, wanted 0 or more",
					       what, (long long)v->u.integer),
				     NULL, NULL, v->pos);
	*out = (uint64_t)v->u.integer;
	return 0;
}

int ckpt_dcp_dtype(const struct ckpt_value *properties, enum ckpt_dtype *out,
		   struct ckpt_error *err)
{
	const struct ckpt_value *state, *dtype;
	char shown[SHOWN];

	if (!properties || !ckpt_dcp_is(properties, "TensorProperties"))
		return ckpt_dcp_wrong(err, "TensorProperties", properties);
	state = properties->u.call->state;
	if (state && state->kind == CKPT_TUPLE && state->u.seq.count)
		dtype = state->u.seq.items[0];
	else
		dtype = state && state->kind == CKPT_DICT ? ckpt_dcp_field(state, "dtype") : NULL;
	if (!dtype || dtype->kind != CKPT_GLOBAL)
		return ckpt_dcp_wrong(err, "a dtype", dtype);
	*out = ckpt_dtype_find(dtype->u.global->name);
	if (*out != CKPT_DTYPE_UNKNOWN && !strcmp(dtype->u.global->module, "torch"))
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_UNSUPPORTED, "dtype '%s' is not known",
				       ckpt_escape(shown, sizeof(shown), dtype->u.global->name,
						   dtype->u.global->name_len)),
			     NULL, NULL, dtype->pos);
}

int ckpt_dcp_check_path(const struct ckpt_value *v, struct ckpt_error *err)
{
	const char *path;
	char shown[SHOWN];
	uint64_t len;
	bool odd;

	if (!v || v->kind != CKPT_STR)
		return ckpt_dcp_wrong(err, "a str as relative_path", v);
	path = v->u.bytes.ptr;
	len = v->u.bytes.len;
	odd = !ckpt_path_is_name(path, len);
	if (!odd && !ckpt_path_leads_out(path, len))
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_FORMAT, "the data file '%s' %s",
				       ckpt_escape(shown, sizeof(shown), path, len),
				       odd ? "is no name of a file"
					   : "lies outside of the directory; it is not read"),
			     NULL, NULL, v->pos);
}
