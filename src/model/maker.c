/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that nobody pickled, for checkpoints that describe their tensors in another way
 * (safetensors, DCP, DeepSpeed, mobile models, torch.export ...): the calls that torch.save would
 * have written for them.
 *
 * Every value gets an id of the document's, so that edits, the walk and resave treat it as one
 * from a file. Each class or function is one value (`globals`), and so are the words "storage"
 * and "cpu": Python has one object of each, and the pickler writes references to it. NULL is
 * passed through, so that one check at the end is enough.
 */
#include "model/maker.h"

#include "base/buf.h"
#include "model/model.h"
#include "pickle/compose.h"

#include <inttypes.h>
#include <string.h>

void ckpt_maker_clear(struct ckpt_maker *maker)
{
	ckpt_strmap_clear(&maker->globals);
}

/* ---- plain values ---- */

static struct ckpt_composer composer_of(const struct ckpt_maker *maker)
{
	return (struct ckpt_composer){ maker->arena, &maker->pickle->next_id };
}

struct ckpt_value *ckpt_maker_node(struct ckpt_maker *maker, uint8_t kind)
{
	struct ckpt_composer composer = composer_of(maker);

	return ckpt_compose(&composer, kind);
}

const struct ckpt_value *ckpt_maker_text(struct ckpt_maker *maker, const char *text, size_t len)
{
	struct ckpt_composer composer = composer_of(maker);

	return ckpt_compose_str(&composer, text, len);
}

const struct ckpt_value *ckpt_maker_str(struct ckpt_maker *maker, const char *text)
{
	return ckpt_maker_text(maker, text, strlen(text));
}

const struct ckpt_value *ckpt_maker_int(struct ckpt_maker *maker, uint64_t integer)
{
	struct ckpt_composer composer = composer_of(maker);

	return ckpt_compose_int(&composer, (int64_t)integer);
}

const struct ckpt_value *ckpt_maker_tuple(struct ckpt_maker *maker,
					  const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_composer composer = composer_of(maker);

	return ckpt_compose_tuple(&composer, items, count);
}

static struct ckpt_value *new_call(struct ckpt_maker *maker, const struct ckpt_value *func,
				   const struct ckpt_value *args)
{
	struct ckpt_composer composer = composer_of(maker);

	return ckpt_compose_call(&composer, func, args);
}

const struct ckpt_value *ckpt_maker_call(struct ckpt_maker *maker, const struct ckpt_value *func,
					 const struct ckpt_value *args)
{
	return new_call(maker, func, args);
}

const struct ckpt_value *ckpt_maker_global(struct ckpt_maker *maker, const char *module,
					   const char *name)
{
	size_t module_len = strlen(module), name_len = strlen(name), len = module_len + name_len;
	struct ckpt_arena_mark mark = ckpt_arena_mark(maker->arena);
	char *full = ckpt_arena_alloc(maker->arena, len + 2);
	struct ckpt_global *g;
	struct ckpt_value *v;
	uint64_t *slot;
	bool there;

	if (!full)
		return NULL;
	memcpy(full, module, module_len + 1);
	memcpy(full + module_len + 1, name, name_len + 1);
	slot = ckpt_strmap_find(&maker->globals, full, len + 1);
	if (slot) {
		ckpt_arena_release(maker->arena, mark);
		return (const struct ckpt_value *)(uintptr_t)*slot;
	}
	v = ckpt_maker_node(maker, CKPT_GLOBAL);
	g = ckpt_arena_calloc(maker->arena, 1, sizeof(*g));
	if (!v || !g)
		return NULL;
	*g = (struct ckpt_global){ full, full + module_len + 1, (uint32_t)module_len,
				   (uint32_t)name_len };
	v->u.global = g;
	if (!ckpt_strmap_insert(&maker->globals, full, len + 1, (uintptr_t)v, &there))
		return NULL;
	return v;
}

struct ckpt_value *ckpt_maker_ordered_dict(struct ckpt_maker *maker)
{
	return new_call(maker, ckpt_maker_global(maker, "collections", "OrderedDict"),
			&ckpt_value_empty_tuple);
}

bool ckpt_maker_put(struct ckpt_maker *maker, struct ckpt_value *mapping,
		    const struct ckpt_value *key, const struct ckpt_value *value)
{
	const struct ckpt_value *pair[2] = { key, value };
	struct ckpt_seq *pairs =
		mapping->kind == CKPT_CALL ? &mapping->u.call->pairs : &mapping->u.seq;

	return key && value && ckpt_seq_add_many(maker->arena, pairs, pair, 2);
}

/* ---- tensors ---- */

static bool make_words(struct ckpt_maker *maker)
{
	if (!maker->word_storage)
		maker->word_storage = ckpt_maker_str(maker, "storage");
	if (!maker->word_cpu)
		maker->word_cpu = ckpt_maker_str(maker, "cpu");
	return maker->word_storage && maker->word_cpu;
}

const struct ckpt_value *ckpt_maker_storage(struct ckpt_maker *maker, enum ckpt_dtype dtype,
					    const char *key, const char *location, uint64_t numel)
{
	const char *class = ckpt_dtype_storage_class(dtype);
	const struct ckpt_value *items[5];
	struct ckpt_value *v;

	if (!make_words(maker))
		return NULL;
	items[0] = maker->word_storage;
	items[1] = *class ? ckpt_maker_global(maker, "torch", class)
			  : ckpt_maker_global(maker, "torch.storage", "UntypedStorage");
	items[2] = ckpt_maker_str(maker, key);
	items[3] = location ? ckpt_maker_str(maker, location) : maker->word_cpu;
	items[4] = ckpt_maker_int(maker, *class ? numel : numel * ckpt_dtype_size(dtype));
	v = ckpt_maker_node(maker, CKPT_PERSID);
	if (!v || !(v->u.persid.pid = ckpt_maker_tuple(maker, items, 5)) ||
	    !ckpt_seq_add(maker->pickle->arena, &maker->pickle->persids, v))
		return NULL;
	return v;
}

static const struct ckpt_value *dims_tuple(struct ckpt_maker *maker, const uint64_t *dims,
					   uint32_t ndim)
{
	const struct ckpt_value *items[CKPT_MOST_DIMS];

	for (uint32_t i = 0; i < ndim; i++)
		items[i] = ckpt_maker_int(maker, dims[i]);
	return ckpt_maker_tuple(maker, items, ndim);
}

static const struct ckpt_value *stride_tuple(struct ckpt_maker *maker,
					     const struct ckpt_maker_view *view)
{
	uint64_t stride[CKPT_MOST_DIMS], step = 1;

	if (view->stride)
		return dims_tuple(maker, view->stride, view->ndim);
	for (uint32_t i = view->ndim; i-- > 0;) {
		stride[i] = step;
		step *= view->shape[i] > 1 ? view->shape[i] : 1;
	}
	return dims_tuple(maker, stride, view->ndim);
}

const struct ckpt_value *ckpt_maker_tensor(struct ckpt_maker *maker,
					   const struct ckpt_value *storage,
					   const struct ckpt_maker_view *view)
{
	bool typed = *ckpt_dtype_storage_class(view->dtype);
	const struct ckpt_value *items[7] = {
		storage,
		ckpt_maker_int(maker, view->offset),
		dims_tuple(maker, view->shape, view->ndim),
		stride_tuple(maker, view),
		view->requires_grad ? &ckpt_value_true : &ckpt_value_false,
		ckpt_maker_ordered_dict(maker),
	};

	if (!typed)
		items[6] = ckpt_maker_global(maker, "torch", ckpt_dtype_name(view->dtype));
	return ckpt_maker_call(maker,
			       ckpt_maker_global(maker, "torch._utils",
						 typed ? "_rebuild_tensor_v2"
						       : "_rebuild_tensor_v3"),
			       ckpt_maker_tuple(maker, items, typed ? 6 : 7));
}

const struct ckpt_value *ckpt_maker_parameter(struct ckpt_maker *maker,
					      const struct ckpt_value *tensor, bool requires_grad)
{
	const struct ckpt_value *items[3] = { tensor,
					      requires_grad ? &ckpt_value_true : &ckpt_value_false,
					      ckpt_maker_ordered_dict(maker) };

	return ckpt_maker_call(maker,
			       ckpt_maker_global(maker, "torch._utils", "_rebuild_parameter"),
			       ckpt_maker_tuple(maker, items, 3));
}

const struct ckpt_value *ckpt_maker_missing(struct ckpt_maker *maker, const char *why)
{
	struct ckpt_value *v = ckpt_maker_node(maker, CKPT_PERSID);

	if (!v)
		return NULL;
	v->flags |= CKPT_VALUE_MISSING;
	v->u.persid.pid = ckpt_maker_str(maker, why);
	return v->u.persid.pid ? v : NULL;
}

/* ---- other pickles ---- */

/*
 * The text of a storage's key with PREFIX in front; NULL: no memory. *IS_KEY: it is one that torch
 * knows.
 */
static const struct ckpt_value *prefixed(struct ckpt_maker *maker, const struct ckpt_value *key,
					 const char *prefix, struct ckpt_buf *buf, bool *is_key)
{
	buf->len = 0;
	ckpt_buf_add(buf, prefix, strlen(prefix));
	*is_key = true;
	if (ckpt_value_is_text(key))
		ckpt_buf_add(buf, key->u.bytes.ptr, key->u.bytes.len);
	else if (key->kind == CKPT_INT)
		ckpt_buf_printf(buf, "%" PRId64, key->u.integer);
	else
		*is_key = false;
	return *is_key && !buf->bad ? ckpt_maker_text(maker, (char *)buf->data, buf->len) : NULL;
}

static bool is_storage(const struct ckpt_value *pid)
{
	return pid->kind == CKPT_TUPLE && pid->u.seq.count >= 5 &&
	       ckpt_value_is_str(pid->u.seq.items[0], "storage");
}

int ckpt_maker_adopt(struct ckpt_maker *maker, struct ckpt_pickle *part, const char *prefix,
		     struct ckpt_error *err)
{
	struct ckpt_buf key = { 0 };
	bool fine = true, is_key;

	for (uint32_t i = 0; fine && i < part->persids.count; i++) {
		/* the decoder made it for nobody else */
		struct ckpt_value *v = (struct ckpt_value *)part->persids.items[i];
		const struct ckpt_value *items[5], *pid = v->u.persid.pid;

		if (is_storage(pid)) {
			memcpy(items, pid->u.seq.items, sizeof(items));
			items[2] = prefixed(maker, items[2], prefix, &key, &is_key);
			if (is_key)
				v->u.persid.pid = ckpt_maker_tuple(maker, items, 5);
			fine = v->u.persid.pid;
		}
		fine = fine && ckpt_seq_add(maker->pickle->arena, &maker->pickle->persids, v);
	}
	ckpt_buf_clear(&key);
	return fine ? 0 : ckpt_fail_nomem(err);
}
