/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the pickle of a model: the encoder asks resolve() for the value to write in place of
 * each one that it meets, and `table` says what a known function's call becomes.
 *
 * Which values are one object decides what the encoder writes as a memo reference, so a value
 * that is made here needs the right id: that of the object it stands for, a new one (`next_id`)
 * if torch makes an object that is met again, 0 if nobody else holds it. Values made for one
 * answer live in `scratch` and are gone after it; keys of storages live in `out->arena`. A call
 * that torch could not carry out stays as it is. The result must be byte for byte what torch.save
 * writes of what torch.load has read (tests/interop).
 */
#include "resave/resave.h"

#include "pickle/encode.h"
#include "pickle/fold.h"
#include "resave/resaver.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NESTING = 32 };

/* Few bytes of a hostile pickle can mean very many; a real one hardly grows. */
static const uint64_t OUTPUT_BASE = 64 << 20, OUTPUT_PER_BYTE = 16;

static const struct {
	const char *module, *name; /* module NULL: a string */
} constants[CKPT_RESAVE_CONSTANT_COUNT] = {
	[CKPT_RESAVE_STR_STORAGE] = { NULL, "storage" },
	[CKPT_RESAVE_STR_MODULE] = { NULL, "module" },
	[CKPT_RESAVE_STR_CPU] = { NULL, "cpu" },
	[CKPT_RESAVE_STR_MPS] = { NULL, "mps" },
	[CKPT_RESAVE_STR_META] = { NULL, "meta" },
	[CKPT_RESAVE_ORDERED_DICT] = { "collections", "OrderedDict" },
	[CKPT_RESAVE_REBUILD_V2] = { "torch._utils", "_rebuild_tensor_v2" },
	[CKPT_RESAVE_REBUILD_V3] = { "torch._utils", "_rebuild_tensor_v3" },
	[CKPT_RESAVE_REBUILD_SPARSE] = { "torch._utils", "_rebuild_sparse_tensor" },
	[CKPT_RESAVE_REBUILD_PARAMETER] = { "torch._utils", "_rebuild_parameter" },
	[CKPT_RESAVE_UNTYPED] = { "torch.storage", "UntypedStorage" },
};

typedef const struct ckpt_value *resave_call(struct ckpt_saver *s, const struct ckpt_value *v);

static const struct {
	const char *module, *name;
	uint32_t least_args, most_args; /* a call with others fails in torch */
	resave_call *resave;
} table[] = {
	{ "torch._utils", "_rebuild_tensor_v2", 4, 7, ckpt_resave_tensor_v2 },
	{ "torch._utils", "_rebuild_tensor_v3", 7, 8, ckpt_resave_tensor_v3 },
	{ "torch._utils", "_rebuild_tensor", 4, 4, ckpt_resave_tensor_v2 },
	{ "torch._utils", "_rebuild_parameter", 3, 3, ckpt_resave_parameter },
	{ "torch._utils", "_rebuild_parameter_with_state", 4, 4, ckpt_resave_parameter },
	{ "torch._utils", "_rebuild_qtensor", 7, 7, ckpt_resave_quantized },
	{ "torch._utils", "_rebuild_meta_tensor_no_storage", 4, 4, ckpt_resave_meta },
	{ "torch._utils", "_rebuild_sparse_tensor", 2, 2, ckpt_resave_sparse },
	{ "torch._utils", "_rebuild_sparse_csr_tensor", 2, 2, ckpt_resave_sparse },
	{ "torch._tensor", "_rebuild_from_type_v2", 4, 4, ckpt_resave_from_type },
	{ "__builtin__", "getattr", 2, 2, ckpt_resave_nested_global },
	{ "builtins", "getattr", 2, 2, ckpt_resave_nested_global },
	{ "_codecs", "encode", 2, 2, ckpt_resave_latin1_bytes },
	{ "__builtin__", "bytes", 0, 0, ckpt_resave_empty_bytes },
	{ "builtins", "bytes", 0, 0, ckpt_resave_empty_bytes },
	{ "__builtin__", "set", 1, 1, ckpt_resave_set_call },
	{ "builtins", "set", 1, 1, ckpt_resave_set_call },
	{ "__builtin__", "frozenset", 1, 1, ckpt_resave_set_call },
	{ "builtins", "frozenset", 1, 1, ckpt_resave_set_call },
	{ "__builtin__", "bytearray", 1, 1, ckpt_resave_bytearray },
	{ "builtins", "bytearray", 1, 1, ckpt_resave_bytearray },
	{ "__builtin__", "iter", 1, 1, ckpt_resave_iterator },
	{ "builtins", "iter", 1, 1, ckpt_resave_iterator },
	{ "decimal", "Decimal", 1, 1, ckpt_resave_of_text },
	{ "fractions", "Fraction", 1, 1, ckpt_resave_of_text },
	{ "datetime", "datetime", 1, 2, ckpt_resave_time },
	{ "datetime", "time", 1, 2, ckpt_resave_time },
	{ "pathlib", "PosixPath", 0, UINT32_MAX, ckpt_resave_path },
	{ "pathlib", "PurePosixPath", 0, UINT32_MAX, ckpt_resave_path },
	{ "pathlib", "WindowsPath", 0, UINT32_MAX, ckpt_resave_path },
	{ "pathlib", "PureWindowsPath", 0, UINT32_MAX, ckpt_resave_path },
	{ "array", "_array_reconstructor", 4, 4, ckpt_resave_array },
	{ "numpy.core.multiarray", "_reconstruct", 3, 3, ckpt_resave_numpy_array },
	{ "numpy._core.multiarray", "_reconstruct", 3, 3, ckpt_resave_numpy_array },
	{ "numpy.core.numeric", "_frombuffer", 4, 4, ckpt_resave_numpy_from_buffer },
	{ "numpy._core.numeric", "_frombuffer", 4, 4, ckpt_resave_numpy_from_buffer },
	{ "numpy.core.multiarray", "scalar", 2, 2, ckpt_resave_numpy_scalar },
	{ "numpy._core.multiarray", "scalar", 2, 2, ckpt_resave_numpy_scalar },
};

/*
 * ('x',), which nobody else has, although Python has one 'x' for all: what is derived of str makes
 * a copy of itself.
 */
static bool is_lone_letter(const struct ckpt_value *args)
{
	const struct ckpt_value *text =
		args->kind == CKPT_TUPLE && args->u.seq.count == 1 ? args->u.seq.items[0] : NULL;

	return text && (text->kind == CKPT_STR || text->kind == CKPT_BYTES) &&
	       text->u.bytes.len <= 2 && !(text->flags & (CKPT_VALUE_SHARED | CKPT_VALUE_INTERNED));
}

static bool holds_value(const struct ckpt_saver *s, const struct ckpt_value *dict,
			const struct ckpt_value *args)
{
	dict = ckpt_resave_now(s, dict);
	for (uint32_t i = 1; dict->kind == CKPT_DICT && i < dict->u.seq.count; i += 2)
		if (ckpt_resave_now(s, dict->u.seq.items[i])->id == args->id)
			return true;
	return false;
}

/* "ValueError", "MyException": they have the tuple that they are made with, until Python 3.14. */
static bool is_exception(const struct ckpt_value *func)
{
	static const char *const ends[] = { "Error", "Exception", "Warning",
					    "Exit",  "Interrupt", "StopIteration" };
	size_t len = strlen(func->u.global->name);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (len >= strlen(ends[i]) &&
		    !strcmp(func->u.global->name + len - strlen(ends[i]), ends[i]))
			return true;
	return false;
}

/*
 * Is the tuple of arguments an object of which others know, still, when the object was loaded?
 * __reduce__() gives an attribute of its own then, such as self.args, which is one of the state,
 * too.
 */
static bool keeps_args(const struct ckpt_saver *s, const struct ckpt_value *v,
		       const struct ckpt_value *func, const struct ckpt_value *args)
{
	const struct ckpt_value *state =
		v->u.call->state ? ckpt_resave_now(s, v->u.call->state) : NULL;
	bool is = false;

	if (!(args->flags & CKPT_VALUE_SHARED) || !args->id || args->kind != CKPT_TUPLE)
		return false;
	if (is_exception(func))
		return true;
	if (state && state->kind == CKPT_TUPLE)
		for (uint32_t i = 0; !is && i < state->u.seq.count; i++)
			is = holds_value(s, state->u.seq.items[i], args);
	return is || (state && holds_value(s, state, args));
}

/* Exceptions of Python 3.14 make a tuple of their own of it, once. */
static const struct ckpt_value *copy_exception_args(struct ckpt_saver *s,
						    const struct ckpt_value *v,
						    const struct ckpt_value *args)
{
	struct ckpt_value *copy = ckpt_resave_make(s, CKPT_TUPLE);

	if (!s->args_ids)
		s->args_ids = calloc(s->model->next_id, sizeof(*s->args_ids));
	if (!copy || !s->args_ids)
		return NULL;
	if (!s->args_ids[v->id])
		s->args_ids[v->id] = s->next_id++;
	copy->id = s->args_ids[v->id];
	copy->u.seq = args->u.seq;
	return copy;
}

static const struct ckpt_value *with_kept_args(struct ckpt_saver *s, const struct ckpt_value *v,
					       const struct ckpt_value *func,
					       const struct ckpt_value *args)
{
	bool copies =
		is_exception(func) && s->o->heap_generator && v->id && v->id < s->model->next_id;
	const struct ckpt_value *copy =
		ckpt_resave_call(s, v, v->u.call->func,
				 copies ? copy_exception_args(s, v, args) : v->u.call->args);

	if (!copy)
		return NULL;
	copy->u.call->keeps_args = true;
	return ckpt_resave_with_attributes(s, copy);
}

static const struct ckpt_value *dispatch(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *func = ckpt_resave_now(s, v->u.call->func),
				*args = ckpt_resave_now(s, v->u.call->args);
	struct ckpt_old_tensor old;

	if (ckpt_old_tensor_is(s->model, v, &old))
		return ckpt_resave_old_tensor(s, v, &old);
	if (v->u.call->kind == CKPT_CALL_NEWOBJ_EX && s->o->protocol < 4) {
		v = ckpt_resave_new_with_keywords(s, v);
		return v ? ckpt_resave_with_attributes(s, v) : NULL;
	}
	if (v->u.call->kind == CKPT_CALL_NEWOBJ_EX) {
		v = ckpt_resave_keyword_names(s, v);
		return v ? ckpt_resave_with_attributes(s, v) : NULL;
	}
	if (ckpt_value_is_call_of(func, "functools", "partial")) {
		v = ckpt_resave_called_partial(s, v);
		return v ? ckpt_resave_with_attributes(s, v) : NULL;
	}
	if (v->u.call->kind == CKPT_CALL_NEWOBJ && is_lone_letter(args))
		return ckpt_resave_of_text(s, v);
	if (func->kind != CKPT_GLOBAL || v->u.call->kind != CKPT_CALL_REDUCE)
		return ckpt_resave_with_own_args(s, v);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (ckpt_value_is_global(func, table[i].module, table[i].name))
			return args->kind == CKPT_TUPLE &&
					       args->u.seq.count >= table[i].least_args &&
					       args->u.seq.count <= table[i].most_args
				       ? table[i].resave(s, v)
				       : v;
	if (keeps_args(s, v, func, args))
		return with_kept_args(s, v, func, args);
	return ckpt_resave_with_own_args(s, v);
}

/* Calls inside of calls: what is nested deeper than any real object stays as it is. */
const struct ckpt_value *ckpt_resave_resolve_call(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *answer = v;

	if (s->nesting < MOST_NESTING) {
		s->nesting++;
		answer = dispatch(s, v);
		s->nesting--;
	}
	return answer;
}

/* The class of ('module', class, file, source); NULL: V is no such persistent id. */
static const struct ckpt_value *const *class_of_source(const struct ckpt_value *v)
{
	const struct ckpt_value *pid = v->u.persid.pid;
	bool is_one =
		!(v->flags & (CKPT_VALUE_MISSING | CKPT_VALUE_FINAL)) && pid->kind == CKPT_TUPLE &&
		pid->u.seq.count > 1 &&
		ckpt_value_is_str(pid->u.seq.items[0], constants[CKPT_RESAVE_STR_MODULE].name);

	return is_one ? &pid->u.seq.items[1] : NULL;
}

/* Which classes the input has a source of. False: no memory. */
static bool note_class_sources(struct ckpt_saver *s)
{
	const struct ckpt_seq *persids = &s->model->doc->pickle.persids;

	for (uint32_t i = 0; i < persids->count; i++) {
		const struct ckpt_value *v = persids->items[i], *const *class =
									ckpt_storage_of(v) < 0
										? class_of_source(v)
										: NULL;
		bool there;

		if (class && !ckpt_strmap_insert(&s->class_sources, (const char *)class,
						 sizeof(*class), (uintptr_t)v, &there))
			return false;
	}
	return true;
}

/*
 * CLASS's source, if the input has one and it is not written yet: what had it before may have been
 * taken away.
 */
static const struct ckpt_value *source_of_class(struct ckpt_saver *s,
						const struct ckpt_value *class)
{
	uint64_t *v = s->class_sources.count ? ckpt_strmap_find(&s->class_sources,
								(const char *)&class, sizeof(class))
					     : NULL;

	return v ? (const struct ckpt_value *)(uintptr_t)*v : NULL;
}

/* A class with its source: torch makes such a tuple anew, around a text of its own. */
static const struct ckpt_value *class_with_source(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *pid = v->u.persid.pid, *const *class = class_of_source(v), **items;
	struct ckpt_value *made;
	uint64_t *source;

	if (!class)
		return v;
	source = ckpt_strmap_find(&s->class_sources, (const char *)class, sizeof(*class));
	if (source)
		*source = 0;
	made = ckpt_resave_make(s, CKPT_PERSID);
	items = ckpt_arena_alloc(s->scratch, pid->u.seq.count * sizeof(*items));
	if (!made || !items)
		return NULL;
	memcpy(items, pid->u.seq.items, pid->u.seq.count * sizeof(*items));
	items[0] = &s->constants[CKPT_RESAVE_STR_MODULE];
	made->u.persid.pid = ckpt_resave_seq(s, CKPT_TUPLE, items, pid->u.seq.count);
	return made->u.persid.pid ? made : NULL;
}

/* The class that V is the source of, which was written at an earlier mention of it; else V. */
static const struct ckpt_value *class_if_written(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *const *class = class_of_source(v);
	const uint64_t *source =
		class ? ckpt_strmap_find(&s->class_sources, (const char *)class, sizeof(*class))
		      : NULL;

	return source && !*source ? *class : v;
}

static const struct ckpt_value *resolve_value(void *ctx, const struct ckpt_value *v,
					      struct ckpt_arena *scratch, struct ckpt_error *err)
{
	struct ckpt_saver *s = ctx;
	const struct ckpt_value *answer;

	s->scratch = scratch;
	s->err = err;
	if (s->o->legacy_ids && v->kind == CKPT_PERSID && ckpt_storage_of(v) < 0)
		v = class_if_written(s, v);
	if (s->o->legacy_ids && v->kind == CKPT_PERSID && ckpt_storage_of(v) < 0 &&
	    !(v->flags & (CKPT_VALUE_MISSING | CKPT_VALUE_FINAL)))
		return class_with_source(s, v);
	if (s->o->legacy_ids && v->kind == CKPT_GLOBAL && source_of_class(s, v))
		return class_with_source(s, source_of_class(s, v));
	v = ckpt_resave_now(s, v);
	if (v->kind == CKPT_FOLDED)
		v = ckpt_unfold(v, scratch);
	if (!v || v->flags & CKPT_VALUE_FINAL)
		return v;
	if (v->flags & CKPT_VALUE_BOUND) {
		ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"holds an object that only a reader of the archive can make, which no torch.save file "
			"can hold");
		return NULL;
	}
	if (v->kind == CKPT_PERSID)
		answer = ckpt_resave_storage(s, v, CKPT_DTYPE_UNKNOWN);
	else if (v->kind == CKPT_CALL)
		answer = ckpt_resave_resolve_call(s, v);
	else if (v->kind == CKPT_SET || v->kind == CKPT_FROZENSET)
		answer = ckpt_resave_set(s, v);
	else if (v->kind == CKPT_GLOBAL)
		answer = ckpt_resave_python2_global(s, v);
	else if (v->kind == CKPT_PY2_STR && s->o->python3_strings)
		answer = ckpt_resave_python2_str(s, v);
	else
		return v;
	if (!answer && !err->status)
		ckpt_fail_nomem(err);
	return answer;
}

static void set_global(struct ckpt_saver *s, struct ckpt_value *v, struct ckpt_global *names,
		       const char *module, const char *name)
{
	*names = (struct ckpt_global){ module, name, (uint32_t)strlen(module),
				       (uint32_t)strlen(name) };
	*v = (struct ckpt_value){ .kind = CKPT_GLOBAL,
				  .flags = CKPT_VALUE_FINAL,
				  .id = s->next_id++ };
	v->u.global = names;
}

static void set_constants(struct ckpt_saver *s)
{
	for (int i = 0; i < CKPT_RESAVE_CONSTANT_COUNT; i++) {
		struct ckpt_value *v = &s->constants[i];

		if (constants[i].module) {
			set_global(s, v, &s->constant_names[i], constants[i].module,
				   constants[i].name);
			continue;
		}
		*v = (struct ckpt_value){ .kind = CKPT_STR, .id = s->next_id++ };
		v->flags = CKPT_VALUE_FINAL | CKPT_VALUE_INTERNED;
		v->u.bytes.ptr = constants[i].name;
		v->u.bytes.len = strlen(constants[i].name);
	}
	for (int i = 0; i < CKPT_DTYPE_COUNT; i++) {
		set_global(s, &s->classes[i], &s->class_names[i], "torch",
			   ckpt_dtype_storage_class(i));
		set_global(s, &s->dtypes[i], &s->dtype_names[i], "torch", ckpt_dtype_name(i));
	}
}

int ckpt_model_resave(const struct ckpt_model *model, const struct ckpt_resave_options *options,
		      struct ckpt_resaved *out, struct ckpt_error *err)
{
	struct ckpt_saver s = {
		.model = model, .o = options, .out = out, .next_id = model->next_id
	};
	struct ckpt_pickle_options pickle = {
		.protocol = options->protocol,
		.python_batches = options->python_batches,
		.python311 = options->python311,
		.python313_nested = options->python313,
		.heap_generator = options->heap_generator,
		.most_bytes = OUTPUT_BASE + OUTPUT_PER_BYTE * (uint64_t)model->doc->pickle_len,
		.resolve = resolve_value,
		.ctx = &s,
	};
	int rc;

	*out = (struct ckpt_resaved){ .arena = ckpt_arena_new(UINT64_MAX >> 1) };
	if (!out->arena)
		return ckpt_fail_nomem(err);
	set_constants(&s);
	rc = options->legacy_ids && !note_class_sources(&s)
		     ? ckpt_fail_nomem(err)
		     : ckpt_pickle_encode(model->root, &pickle, &out->pickle, err);
	free(s.key_nodes);
	ckpt_strmap_clear(&s.empty_keys);
	ckpt_strmap_clear(&s.class_sources);
	free(s.state_ids);
	free(s.args_ids);
	free(s.times_written);
	ckpt_module_keys_free(s.module_keys);
	ckpt_strmap_clear(&s.numpy_dtypes);
	if (rc < 0)
		ckpt_resaved_clear(out);
	return rc;
}

static int by_key_text(const void *a, const void *b, void *keys)
{
	const char *const *key = keys;

	return strcmp(key[*(const uint32_t *)a], key[*(const uint32_t *)b]);
}

void ckpt_resaved_sort_by_key(const struct ckpt_resaved *resaved, uint32_t *places)
{
	for (uint32_t i = 0; i < resaved->count; i++)
		places[i] = i;
	if (resaved->count)
		qsort_r(places, resaved->count, sizeof(*places), by_key_text, resaved->keys);
}

void ckpt_resaved_clear(struct ckpt_resaved *resaved)
{
	ckpt_buf_clear(&resaved->pickle);
	free(resaved->order);
	free(resaved->keys);
	free(resaved->widths);
	ckpt_arena_free(resaved->arena);
	*resaved = (struct ckpt_resaved){ 0 };
}
