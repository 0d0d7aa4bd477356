/* SPDX-License-Identifier: Apache-2.0 */
#include "set/fields.h"

#include "base/text.h"
#include "set/safe_path.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MOST_INDEX = (uint64_t)4 << 30, BUDGET_BASE = 64 << 20;
enum { BUDGET_PER_BYTE = 80, MOST_FIELDS = 64, MOST_DIMS = 64, SHOWN = 160 };

int ckpt_fields_load(const struct ckpt_source *source, uint8_t **bytes, struct ckpt_pickle *pickle,
		     struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(source);
	int rc = 0;

	*bytes = NULL;
	if (size > MOST_INDEX)
		rc = ckpt_fail(err, CKPT_E_LIMIT,
			       "the index has %" PRIu64 " bytes, the limit is 4 GiB", size);
	if (rc == 0 && !(*bytes = malloc((size_t)size + 1)))
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_source_read(source, 0, *bytes, (size_t)size, err);
	if (rc == 0)
		rc = ckpt_pickle_decode(*bytes, (size_t)size, BUDGET_BASE + BUDGET_PER_BYTE * size,
					pickle, err);
	return ckpt_error_at(err, rc, ckpt_source_path(source), NULL, CKPT_NO_OFFSET);
}

bool ckpt_fields_is(const struct ckpt_value *v, const char *name)
{
	const struct ckpt_value *func = v->kind == CKPT_CALL ? v->u.call->func : NULL;

	return func && func->kind == CKPT_GLOBAL && !strcmp(func->u.global->name, name) &&
	       !strncmp(func->u.global->module, "torch.distributed.", 18);
}

const struct ckpt_value *ckpt_fields_object_state(const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->kind == CKPT_CALL ? v->u.call->state : NULL;

	return state && state->kind == CKPT_DICT ? state : NULL;
}

const struct ckpt_value *ckpt_fields_state(const struct ckpt_value *v, const char *name)
{
	return ckpt_fields_is(v, name) ? ckpt_fields_object_state(v) : NULL;
}

const struct ckpt_value *ckpt_fields_find(const struct ckpt_value *state, const char *name)
{
	uint32_t count = state->u.seq.count < MOST_FIELDS ? state->u.seq.count : MOST_FIELDS;

	for (uint32_t i = 0; i + 1 < count; i += 2)
		if (ckpt_value_is_str(state->u.seq.items[i], name))
			return state->u.seq.items[i + 1];
	return NULL;
}

int ckpt_fields_wrong(struct ckpt_error *err, const char *what, const struct ckpt_value *v)
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

int ckpt_fields_dims(const struct ckpt_value *v, const char *what, struct ckpt_arena *arena,
		     const uint64_t **out, uint32_t *count, struct ckpt_error *err)
{
	const struct ckpt_value *args;
	uint64_t *dims;

	if (v && ckpt_value_is_call_of(v, "torch", "Size")) {
		args = v->u.call->args;
		v = args->kind == CKPT_TUPLE && args->u.seq.count == 1 ? args->u.seq.items[0] : v;
	}
	if (!v || (v->kind != CKPT_TUPLE && v->kind != CKPT_LIST))
		return ckpt_fields_wrong(err, what, v);
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
		int rc = ckpt_fields_number(v->u.seq.items[i], what, &dims[i], err);

		if (rc < 0)
			return rc;
	}
	*out = dims;
	*count = v->u.seq.count;
	return 0;
}

int ckpt_fields_number(const struct ckpt_value *v, const char *what, uint64_t *out,
		       struct ckpt_error *err)
{
	if (!v || v->kind != CKPT_INT)
		return ckpt_fields_wrong(err, what, v);
	if (v->u.integer < 0)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_FORMAT, "%s is %lld, wanted 0 or more",
					       what, (long long)v->u.integer),
				     NULL, NULL, v->pos);
	*out = (uint64_t)v->u.integer;
	return 0;
}

int ckpt_fields_check_path(const struct ckpt_value *v, struct ckpt_error *err)
{
	const char *path;
	char shown[SHOWN];
	uint64_t len;
	bool odd;

	if (!v || v->kind != CKPT_STR)
		return ckpt_fields_wrong(err, "a str as relative_path", v);
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
