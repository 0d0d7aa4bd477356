/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that edits make: numbers, calls, and tensors with storages of their own, in the arena of
 * the new model. (maker.c makes those of a document that is being opened.) And the reverse:
 * arguments and bytes of calls that others made.
 *
 * A new storage has its bytes in memory, as a recipe, and a key that no storage of the file has.
 * Adding one moves the model's array of storages, so a pointer into that array is not valid
 * afterwards.
 */
#include "model/plain_values.h"

#include <stdio.h>
#include <string.h>

const struct ckpt_value *ckpt_plain_int(struct ckpt_model *model, int64_t integer)
{
	struct ckpt_value *v = ckpt_model_new_value(model, CKPT_INT);

	if (v)
		v->u.integer = integer;
	return v;
}

const struct ckpt_value *ckpt_plain_float(struct ckpt_model *model, double real)
{
	struct ckpt_value *v = ckpt_model_new_value(model, CKPT_FLOAT);

	if (v)
		v->u.real = real;
	return v;
}

const struct ckpt_value *ckpt_plain_global(struct ckpt_model *model, const char *module,
					   const char *name)
{
	struct ckpt_value *v = ckpt_model_new_value(model, CKPT_GLOBAL);
	struct ckpt_global *g = ckpt_arena_calloc(model->arena, 1, sizeof(*g));

	if (!v || !g)
		return NULL;
	*g = (struct ckpt_global){ module, name, (uint32_t)strlen(module), (uint32_t)strlen(name) };
	v->u.global = g;
	return v;
}

struct ckpt_value *ckpt_plain_seq(struct ckpt_model *model, uint8_t kind,
				  const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v = ckpt_model_new_value(model, kind);

	for (uint32_t i = 0; i < count; i++)
		if (!items[i])
			return NULL;
	return v && ckpt_seq_add_many(model->arena, &v->u.seq, items, count) ? v : NULL;
}

struct ckpt_value *ckpt_plain_call(struct ckpt_model *model, const char *module, const char *name,
				   const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v = ckpt_model_new_value(model, CKPT_CALL);
	struct ckpt_call *call = ckpt_arena_calloc(model->arena, 1, sizeof(*call));

	if (!v || !call)
		return NULL;
	call->kind = CKPT_CALL_REDUCE;
	call->func = ckpt_plain_global(model, module, name);
	call->args =
		count ? ckpt_plain_seq(model, CKPT_TUPLE, items, count) : &ckpt_value_empty_tuple;
	v->u.call = call;
	return call->func && call->args ? v : NULL;
}

/* ---- tensors ---- */

static int add_storage(struct ckpt_model *model, enum ckpt_dtype dtype, const void *bytes,
		       uint64_t len, struct ckpt_error *err)
{
	struct ckpt_recipe *made = ckpt_arena_calloc(model->arena, 1, sizeof(*made));
	struct ckpt_storage *s;
	const char *key;

	if (!made || ckpt_model_own_storages(model, err) < 0)
		return ckpt_fail_nomem(err);
	key = ckpt_model_new_key(model, 'n');
	s = key ? ckpt_model_add_storage(model) : NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	*made = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = bytes, .len = len };
	*s = (struct ckpt_storage){ .key = key,
				    .dtype = dtype,
				    .numel = len / ckpt_dtype_size(dtype),
				    .nbytes = len,
				    .location = "cpu",
				    .made = made,
				    .retyped = true };
	return 0;
}

/* ('storage', torch.FloatStorage, key, location, numel) */
static const struct ckpt_value *new_persid(struct ckpt_model *model, uint32_t storage)
{
	const struct ckpt_storage *s = &model->storages[storage];
	const char *cls = ckpt_dtype_storage_class(s->dtype);
	const struct ckpt_value *items[5] = {
		ckpt_model_new_str(model, "storage", 7),
		ckpt_plain_global(model, *cls ? "torch" : "torch.storage",
				  *cls ? cls : "UntypedStorage"),
		ckpt_model_new_str(model, s->key, strlen(s->key)),
		ckpt_model_new_str(model, s->location, strlen(s->location)),
		ckpt_plain_int(model, (int64_t)(*cls ? s->numel : s->nbytes)),
	};
	struct ckpt_value *v = ckpt_model_new_value(model, CKPT_PERSID);

	if (!v)
		return NULL;
	v->u.persid.pid = ckpt_plain_seq(model, CKPT_TUPLE, items, 5);
	v->u.persid.meaning = (uint64_t)storage + 1;
	return v->u.persid.pid ? v : NULL;
}

static const struct ckpt_value *new_ints(struct ckpt_model *model, const uint64_t *integers,
					 uint32_t count)
{
	struct ckpt_value *v = ckpt_model_new_value(model, CKPT_TUPLE);

	for (uint32_t i = 0; v && i < count; i++) {
		const struct ckpt_value *item = ckpt_plain_int(model, (int64_t)integers[i]);

		if (!item || !ckpt_seq_add(model->arena, &v->u.seq, item))
			return NULL;
	}
	return v;
}

struct ckpt_value *ckpt_plain_tensor(struct ckpt_model *model, enum ckpt_dtype dtype,
				     const uint64_t *shape, const uint64_t *stride, uint32_t ndim,
				     const void *bytes, uint64_t len, struct ckpt_error *err)
{
	const struct ckpt_value *items[5];

	if (add_storage(model, dtype, bytes, len, err) < 0)
		return NULL;
	items[0] = new_persid(model, model->storage_count - 1);
	items[1] = ckpt_plain_int(model, 0);
	items[2] = new_ints(model, shape, ndim);
	items[3] = new_ints(model, stride, ndim);
	items[4] = &ckpt_value_false;
	return ckpt_plain_call(model, "torch._utils", "_rebuild_tensor_v2", items, 5);
}

int ckpt_plain_replace_tensor(struct ckpt_model *to, const struct ckpt_tensor *t,
			      const uint64_t *shape, uint32_t ndim, uint32_t storage, struct ckpt_error *err)
{
	enum ckpt_dtype dtype = to->storages[storage].dtype;
	bool typed = *ckpt_dtype_storage_class(dtype);
	uint64_t stride[CKPT_MOST_DIMS], step = 1;
	const struct ckpt_value *items[7];
	struct ckpt_value *made, *v = ckpt_arena_calloc(to->arena, 1, sizeof(*v));

	for (uint32_t i = ndim; i-- > 0; step *= shape[i] ? shape[i] : 1)
		stride[i] = step;
	items[0] = new_persid(to, storage);
	items[1] = ckpt_plain_int(to, 0);
	items[2] = new_ints(to, shape, ndim);
	items[3] = new_ints(to, stride, ndim);
	items[4] = t->requires_grad ? &ckpt_value_true : &ckpt_value_false;
	items[5] = ckpt_plain_call(to, "collections", "OrderedDict", NULL, 0);
	items[6] = typed ? NULL : ckpt_plain_global(to, "torch", ckpt_dtype_name(dtype));
	made = ckpt_plain_call(to, "torch._utils",
			       typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3", items,
			       typed ? 6 : 7);
	if (!v || !made)
		return ckpt_fail_nomem(err);
	*v = *t->value; /* the identity of what it stands for */
	v->kind = CKPT_CALL;
	v->u.call = made->u.call;
	return ckpt_model_replace(to, v, err);
}

/* ---- what others mean ---- */

const struct ckpt_value *ckpt_plain_arg(const struct ckpt_model *model,
					const struct ckpt_value *call, uint32_t i)
{
	const struct ckpt_value *args = ckpt_model_now(model, call->u.call->args);

	return args->kind == CKPT_TUPLE && i < args->u.seq.count
		       ? ckpt_model_now(model, args->u.seq.items[i])
		       : NULL;
}

uint32_t ckpt_plain_arg_count(const struct ckpt_model *model, const struct ckpt_value *call)
{
	const struct ckpt_value *args = ckpt_model_now(model, call->u.call->args);

	return args->kind == CKPT_TUPLE ? args->u.seq.count : UINT32_MAX;
}

bool ckpt_plain_bytes(struct ckpt_model *model, const struct ckpt_value *v, const uint8_t **out,
		      uint64_t *len)
{
	return ckpt_plain_bytes_in(model, v, model->arena, out, len);
}

bool ckpt_plain_bytes_in(const struct ckpt_model *model, const struct ckpt_value *v,
			 struct ckpt_arena *arena, const uint8_t **out, uint64_t *len)
{
	const struct ckpt_value *text;

	if (v->kind == CKPT_BYTES || v->kind == CKPT_PY2_STR) {
		*out = (const uint8_t *)v->u.bytes.ptr;
		*len = v->u.bytes.len;
		return true;
	}
	if (ckpt_value_is_call_of(v, "__builtin__", "bytes") ||
	    ckpt_value_is_call_of(v, "builtins", "bytes")) {
		*out = (const uint8_t *)"";
		*len = 0;
		return ckpt_plain_arg_count(model, v) == 0;
	}
	text = ckpt_value_is_call_of(v, "_codecs", "encode") ? ckpt_plain_arg(model, v, 0) : NULL;
	return text && text->kind == CKPT_STR &&
	       ckpt_latin1_bytes(text->u.bytes.ptr, text->u.bytes.len, arena, out, len);
}

bool ckpt_plain_is_of_engine(const struct ckpt_global *global)
{
	return !strncmp(global->module, "transformer_engine.", 19) && strstr(global->module, "tensor");
}

const struct ckpt_global *ckpt_plain_engine_class(const struct ckpt_model *model, const struct ckpt_value *func)
{
	if (func->kind == CKPT_CALL)
		func = ckpt_plain_arg_count(model, func) == 2 ? ckpt_plain_arg(model, func, 0) : NULL;
	return func && func->kind == CKPT_GLOBAL && ckpt_plain_is_of_engine(func->u.global) ? func->u.global : NULL;
}
