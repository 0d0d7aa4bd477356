/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <ckpt/build.h>: a document that no file has. Values are made by model/maker.h, as those of
 * formats that are no pickles are; storages are memory, or bytes that the caller reads.
 *
 * What must stay true: the first mistake is kept (`err`) and everything after it is NULL or false,
 * so that ckpt_builder_finish() can tell what was wrong. The document exists from the beginning and
 * is frozen by ckpt_model_new().
 */
#include "base/grow.h"
#include "base/sized.h"
#include "format/format.h"
#include "model/maker.h"
#include "model/model.h"
#include "tensor/shape.h"

#include <ckpt/build.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct built_storage {
	const void *bytes;
	struct ckpt_source *source; /* owned; NULL: BYTES */
	enum ckpt_dtype dtype;
	uint64_t nbytes;
};

struct built {
	struct built_storage *storages;
	uint32_t count, cap;
};

struct ckpt_builder {
	struct ckpt_document *doc; /* owned */
	struct ckpt_maker maker;
	struct ckpt_error err; /* the first mistake; status 0: none yet */
};

/* ---- the format ---- */

static void free_built(void *container)
{
	struct built *built = container;

	for (uint32_t i = 0; built && i < built->count; i++)
		ckpt_source_unref(built->storages[i].source);
	if (built)
		free(built->storages);
	free(built);
}

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct built *built = doc->container;
	const struct built_storage *from = &built->storages[strtoul(s->key, NULL, 10)];

	(void)err;
	*out = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY,
				     .memory = from->bytes,
				     .len = from->nbytes };
	if (from->source)
		*out = (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
					     .src = from->source,
					     .len = from->nbytes };
	return 0;
}

static int save_built(const struct ckpt_model *model, const char *path,
		      const struct ckpt_save_options *options, struct ckpt_save_report *report,
		      struct ckpt_error *err)
{
	return ckpt_format_torch_zip.save(model, path, options, report, err);
}

static void describe_built(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	(void)model;
	out->format = "memory";
	out->writer = out->profile = out->archive_name = "";
	out->byteorder = "little";
}

static const struct ckpt_format format_built = {
	.name = "memory",
	.code = CKPT_FORMAT_MEMORY,
	.save = save_built,
	.describe = describe_built,
};

/* ---- the builder ---- */

/* What the values of a builder may take together: the caller decides, nothing is from a file. */
static const uint64_t arena_budget = (uint64_t)1 << 46;

int ckpt_builder_new(struct ckpt_builder **out, struct ckpt_error *err)
{
	struct ckpt_builder *b = calloc(1, sizeof(*b));
	struct ckpt_source *nothing;

	*out = NULL;
	if (!b || ckpt_source_from_memory("", 0, &nothing, err) < 0) {
		free(b);
		return ckpt_fail_nomem(err);
	}
	b->err = (struct ckpt_error)CKPT_ERROR_INIT;
	b->doc = ckpt_document_new(nothing, &format_built, sizeof(struct built), free_built);
	ckpt_source_unref(nothing);
	if (b->doc)
		b->doc->pickle.arena = ckpt_arena_new(arena_budget);
	if (!b->doc || !b->doc->pickle.arena) {
		ckpt_builder_free(b);
		return ckpt_fail_nomem(err);
	}
	b->doc->storage_bytes = storage_bytes;
	b->doc->of_objects = true;
	b->doc->pickle.next_id = 1;
	b->doc->pickle.protocol = 4; /* names are those of Python 3 */
	b->maker = (struct ckpt_maker){ .arena = b->doc->pickle.arena, .pickle = &b->doc->pickle };
	*out = b;
	return 0;
}

void ckpt_builder_free(struct ckpt_builder *b)
{
	if (!b)
		return;
	ckpt_maker_clear(&b->maker);
	ckpt_document_unref(b->doc);
	free(b);
}

static void *wrong(struct ckpt_builder *b, const char *what)
{
	if (!b->err.status)
		ckpt_fail(&b->err, CKPT_E_ARG, "%s", what);
	return NULL;
}

/* What was made; NULL is noted. */
static struct ckpt_node *made(struct ckpt_builder *b, const struct ckpt_value *v)
{
	if (!v && !b->err.status)
		ckpt_fail_nomem(&b->err);
	return (struct ckpt_node *)(uintptr_t)v;
}

static const struct ckpt_value *value_of(const struct ckpt_node *node)
{
	return (const struct ckpt_value *)node;
}

static bool fits_in_value(struct ckpt_builder *b, uint64_t count)
{
	return count <= UINT32_MAX / 2 || wrong(b, "more items than a pickle can have");
}

/* ---- values ---- */

const struct ckpt_node *ckpt_build_none(struct ckpt_builder *b)
{
	return made(b, &ckpt_value_none);
}

const struct ckpt_node *ckpt_build_bool(struct ckpt_builder *b, bool value)
{
	return made(b, value ? &ckpt_value_true : &ckpt_value_false);
}

const struct ckpt_node *ckpt_build_int(struct ckpt_builder *b, int64_t value)
{
	return made(b, ckpt_maker_int(&b->maker, (uint64_t)value));
}

static struct ckpt_value *new_bytes(struct ckpt_builder *b, uint8_t kind, const void *bytes,
				    size_t len)
{
	struct ckpt_value *v = ckpt_maker_node(&b->maker, kind);

	if (!v)
		return NULL;
	v->u.bytes.ptr = ckpt_arena_copy(b->maker.arena, bytes, len);
	v->u.bytes.len = len;
	return v->u.bytes.ptr ? v : NULL;
}

const struct ckpt_node *ckpt_build_long(struct ckpt_builder *b, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	uint64_t small = 0;

	/* the shortest form is the only one */
	while (len > 1 && ((p[len - 1] == 0 && !(p[len - 2] & 0x80)) ||
			   (p[len - 1] == 0xff && p[len - 2] & 0x80)))
		len--;
	if (len > 8)
		return made(b, new_bytes(b, CKPT_BIGINT, bytes, len));
	for (size_t i = 0; i < 8; i++) {
		uint8_t fill = len && p[len - 1] & 0x80 ? 0xff : 0;

		small |= (uint64_t)(i < len ? p[i] : fill) << 8 * i;
	}
	return ckpt_build_int(b, (int64_t)small);
}

const struct ckpt_node *ckpt_build_float(struct ckpt_builder *b, double value)
{
	struct ckpt_value *v = ckpt_maker_node(&b->maker, CKPT_FLOAT);

	if (v)
		v->u.real = value;
	return made(b, v);
}

const struct ckpt_node *ckpt_build_complex(struct ckpt_builder *b, double real, double imag)
{
	const struct ckpt_node *halves[2] = { ckpt_build_float(b, real),
					      ckpt_build_float(b, imag) };

	return ckpt_build_call(b, ckpt_build_global(b, "builtins", "complex"),
			       ckpt_build_tuple(b, halves, 2));
}

const struct ckpt_node *ckpt_build_str(struct ckpt_builder *b, const char *text, size_t len)
{
	return made(b, new_bytes(b, CKPT_STR, text, len));
}

const struct ckpt_node *ckpt_build_interned(struct ckpt_builder *b, const char *text, size_t len)
{
	struct ckpt_value *v = new_bytes(b, CKPT_STR, text, len);

	if (v)
		v->flags |= CKPT_VALUE_INTERNED;
	return made(b, v);
}

const struct ckpt_node *ckpt_build_bytes(struct ckpt_builder *b, const void *bytes, size_t len)
{
	return made(b, new_bytes(b, CKPT_BYTES, bytes, len));
}

const struct ckpt_node *ckpt_build_distinct_bytes(struct ckpt_builder *b, const void *bytes, size_t len)
{
	struct ckpt_value *v = new_bytes(b, CKPT_BYTES, bytes, len);

	if (v)
		v->flags |= CKPT_VALUE_DISTINCT;
	return made(b, v);
}

const struct ckpt_node *ckpt_build_bytearray(struct ckpt_builder *b, const void *bytes, size_t len)
{
	return made(b, new_bytes(b, CKPT_BYTEARRAY, bytes, len));
}

/* ---- containers ---- */

static const struct ckpt_node *new_seq(struct ckpt_builder *b, uint8_t kind,
				       const struct ckpt_node *const *items, uint32_t count)
{
	struct ckpt_value *v;

	if (!fits_in_value(b, count))
		return NULL;
	v = ckpt_maker_node(&b->maker, kind);
	for (uint32_t i = 0; v && i < count; i++)
		if (!items[i] || !ckpt_seq_add(b->maker.arena, &v->u.seq, value_of(items[i])))
			v = NULL;
	return made(b, v);
}

const struct ckpt_node *ckpt_build_tuple(struct ckpt_builder *b,
					 const struct ckpt_node *const *items, uint32_t count)
{
	return count ? new_seq(b, CKPT_TUPLE, items, count) : made(b, &ckpt_value_empty_tuple);
}

const struct ckpt_node *ckpt_build_frozenset(struct ckpt_builder *b,
					     const struct ckpt_node *const *items, uint32_t count)
{
	return new_seq(b, CKPT_FROZENSET, items, count);
}

struct ckpt_node *ckpt_build_set(struct ckpt_builder *b)
{
	return made(b, ckpt_maker_node(&b->maker, CKPT_SET));
}

struct ckpt_node *ckpt_build_list(struct ckpt_builder *b)
{
	return made(b, ckpt_maker_node(&b->maker, CKPT_LIST));
}

struct ckpt_node *ckpt_build_dict(struct ckpt_builder *b)
{
	return made(b, ckpt_maker_node(&b->maker, CKPT_DICT));
}

struct ckpt_node *ckpt_build_ordered_dict(struct ckpt_builder *b)
{
	return made(b, ckpt_maker_ordered_dict(&b->maker));
}

bool ckpt_build_append(struct ckpt_builder *b, struct ckpt_node *container,
		       const struct ckpt_node *item)
{
	struct ckpt_value *v = (struct ckpt_value *)container;

	struct ckpt_seq *items;

	if (!v || !item)
		return false;
	if (v->kind != CKPT_LIST && v->kind != CKPT_SET && v->kind != CKPT_CALL)
		return wrong(b, "items are appended to lists, sets and objects only");
	items = v->kind == CKPT_CALL ? &v->u.call->items : &v->u.seq;
	if (!fits_in_value(b, items->count))
		return false;
	return ckpt_seq_add(b->maker.arena, items, value_of(item)) || made(b, NULL);
}

bool ckpt_build_put(struct ckpt_builder *b, struct ckpt_node *mapping, const struct ckpt_node *key,
		    const struct ckpt_node *value)
{
	struct ckpt_value *v = (struct ckpt_value *)mapping;

	if (!v || !key || !value)
		return false;
	if (v->kind != CKPT_DICT && v->kind != CKPT_CALL)
		return wrong(b, "keys are put into dicts and objects only");
	if (!fits_in_value(b, v->kind == CKPT_CALL ? v->u.call->pairs.count : v->u.seq.count))
		return false;
	return ckpt_maker_put(&b->maker, v, value_of(key), value_of(value)) || made(b, NULL);
}

/* ---- objects ---- */

const struct ckpt_node *ckpt_build_global(struct ckpt_builder *b, const char *module,
					  const char *name)
{
	if (!*module || !*name)
		return wrong(b, "a class or function needs the names of its module and its own");
	if (strchr(module, '\n') || strchr(name, '\n'))
		return wrong(b, "a class or function has no line feed in its name");
	return made(b, ckpt_maker_global(&b->maker, module, name));
}

struct ckpt_node *ckpt_build_call(struct ckpt_builder *b, const struct ckpt_node *callable,
				  const struct ckpt_node *args)
{
	if (!callable || !args)
		return NULL;
	if (value_of(args)->kind != CKPT_TUPLE)
		return wrong(b, "the arguments of a call are a tuple");
	return made(b, ckpt_maker_call(&b->maker, value_of(callable), value_of(args)));
}

struct ckpt_node *ckpt_build_new(struct ckpt_builder *b, const struct ckpt_node *class_,
				 const struct ckpt_node *args)
{
	struct ckpt_node *node = ckpt_build_call(b, class_, args);

	if (node)
		((struct ckpt_value *)node)->u.call->kind = CKPT_CALL_NEWOBJ;
	return node;
}

bool ckpt_build_set_state(struct ckpt_builder *b, struct ckpt_node *object,
			  const struct ckpt_node *state)
{
	struct ckpt_value *v = (struct ckpt_value *)object;

	if (!v || !state)
		return false;
	if (v->kind != CKPT_CALL || v->u.call->state)
		return wrong(b, "a state is set once, and on what was made by a call");
	v->u.call->state = value_of(state);
	return true;
}

/* ---- tensors ---- */

static const struct ckpt_node *add_storage(struct ckpt_builder *b, const char *dtype_name,
					   const char *device, const struct built_storage *given)
{
	struct built *built = b->doc->container;
	struct built_storage s = *given, *grown;
	uint32_t size;
	char key[16];

	s.dtype = ckpt_dtype_find(dtype_name);
	if (s.dtype == CKPT_DTYPE_UNKNOWN)
		return wrong(b, "torch has no such dtype");
	size = ckpt_dtype_size(s.dtype);
	if (s.nbytes % size || s.nbytes > INT64_MAX)
		return wrong(b, "a storage has a whole number of items");
	grown = ckpt_grow(built->storages, built->count, &built->cap, sizeof(*grown));
	if (!grown)
		return made(b, NULL);
	built->storages = grown;
	grown[built->count] = s;
	if (s.source)
		ckpt_source_ref(s.source);
	snprintf(key, sizeof(key), "%" PRIu32, built->count++);
	return made(b, ckpt_maker_storage(&b->maker, s.dtype, key,
					  strcmp(device, "cpu") ? device : NULL, s.nbytes / size));
}

const struct ckpt_node *ckpt_build_storage(struct ckpt_builder *b, const char *dtype,
					   const char *device, const void *bytes, uint64_t nbytes)
{
	const struct built_storage s = { .bytes = nbytes ? bytes : "", .nbytes = nbytes };

	return add_storage(b, dtype, device, &s);
}

const struct ckpt_node *ckpt_build_storage_from(struct ckpt_builder *b, const char *dtype,
						const char *device,
						const struct ckpt_reader_options *reader)
{
	struct built_storage s = { 0 };
	struct ckpt_error err = CKPT_ERROR_INIT;
	const struct ckpt_node *node;

	if (ckpt_source_from_caller(reader, &s.source, &err) < 0) {
		if (!b->err.status)
			b->err = err;
		return NULL;
	}
	s.nbytes = ckpt_source_size(s.source);
	node = add_storage(b, dtype, device, &s);
	ckpt_source_unref(s.source);
	return node;
}

/* Does it lie within the storage? Bytes of the storage are of any dtype, as torch has views. */
static bool check_view(struct ckpt_builder *b, const struct built_storage *s,
		       const struct ckpt_tensor_view *view, enum ckpt_dtype dtype)
{
	uint64_t last = view->offset, step, dense[CKPT_MOST_DIMS], numel = 1;

	if (view->ndim > CKPT_MOST_DIMS)
		return wrong(b, "a tensor has at most 64 dimensions");
	if (ckpt_shape_check(view->shape, view->ndim, ckpt_dtype_size(dtype),
			     b->err.status ? NULL : &b->err) < 0)
		return false;
	if (ckpt_shape_is_empty(view->shape, view->ndim))
		return true;
	for (uint32_t i = view->ndim; i-- > 0;) {
		dense[i] = numel;
		numel *= view->shape[i];
	}
	for (uint32_t i = 0; i < view->ndim; i++)
		if (__builtin_mul_overflow(view->shape[i] - 1,
					   view->stride ? view->stride[i] : dense[i], &step) ||
		    __builtin_add_overflow(last, step, &last))
			return wrong(b, "a tensor reaches beyond its storage");
	return last < s->nbytes / ckpt_dtype_size(dtype) ||
	       wrong(b, "a tensor reaches beyond its storage");
}

const struct ckpt_node *ckpt_build_tensor(struct ckpt_builder *b, const struct ckpt_node *storage,
					  const struct ckpt_tensor_view *given)
{
	struct ckpt_tensor_view view = CKPT_TENSOR_VIEW_INIT;
	const struct built *built = b->doc->container;
	const struct ckpt_value *v = value_of(storage);
	const struct built_storage *s;
	struct ckpt_maker_view in;

	if (!v)
		return NULL;
	if (v->kind != CKPT_PERSID)
		return wrong(b, "a tensor is made of a storage");
	if (ckpt_sized_take(&view, sizeof(view), given, b->err.status ? NULL : &b->err) < 0 ||
	    ckpt_unused_check(view.reserved, sizeof(view.reserved),
			      b->err.status ? NULL : &b->err) < 0)
		return NULL;
	s = &built->storages[strtoul(ckpt_storage_key(v)->u.bytes.ptr, NULL, 10)];
	in = (struct ckpt_maker_view){ .dtype = view.dtype ? ckpt_dtype_find(view.dtype) : s->dtype,
				       .ndim = view.ndim,
				       .offset = view.offset,
				       .shape = view.shape,
				       .stride = view.stride,
				       .requires_grad = view.requires_grad };
	if (in.dtype == CKPT_DTYPE_UNKNOWN)
		return wrong(b, "torch has no such dtype");
	if (in.dtype != s->dtype && *ckpt_dtype_storage_class(in.dtype))
		return wrong(b, "a tensor of this dtype has a storage of the same");
	if (!check_view(b, s, &view, in.dtype))
		return NULL;
	return made(b, ckpt_maker_tensor(&b->maker, v, &in));
}

const struct ckpt_node *ckpt_build_parameter(struct ckpt_builder *b, const struct ckpt_node *tensor,
					     bool requires_grad)
{
	if (!tensor)
		return NULL;
	return made(b, ckpt_maker_parameter(&b->maker, value_of(tensor), requires_grad));
}

bool ckpt_build_has_bytes_of(struct ckpt_builder *b, const struct ckpt_model *model)
{
	if (b && model)
		b->doc->withheld |= 0777 & ~ckpt_model_mode(model);
	return b && model;
}

int ckpt_builder_finish(struct ckpt_builder *b, const struct ckpt_node *root,
			struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_document *doc;
	int rc = b->err.status;

	*out = NULL;
	if (rc == 0 && !root)
		rc = ckpt_fail(&b->err, CKPT_E_ARG, "a checkpoint has a root");
	if (rc < 0) {
		if (err)
			*err = b->err;
		ckpt_builder_free(b);
		return rc;
	}
	doc = b->doc;
	doc->pickle.root = value_of(root);
	b->doc = NULL;
	ckpt_builder_free(b);
	return ckpt_model_new(doc, out, err);
}
