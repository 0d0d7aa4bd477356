/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <ckpt/node.h>: values in full, for programs. A node is a value as it was before edits; each
 * function asks what stands in its place now, so that nodes that are compared by address are the
 * same object whatever way led there. What values mean is model/meaning.c's.
 */
#include "base/sized.h"
#include "model/find.h"
#include "model/meaning.h"

#include <stdlib.h>
#include <string.h>

static const struct ckpt_node *node_of(const struct ckpt_model *model, const struct ckpt_value *v)
{
	return v ? (const struct ckpt_node *)ckpt_model_now(model, v) : NULL;
}

static const struct ckpt_value *value_of(const struct ckpt_node *node)
{
	return (const struct ckpt_value *)node;
}

int ckpt_node_find(const struct ckpt_model *model, const char *name, const struct ckpt_node **out,
		   struct ckpt_error *err)
{
	const struct ckpt_value *found;
	int rc = ckpt_model_whole(&model, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_model_find(model, name, &found, err);
	if (rc == 0)
		*out = node_of(model, found);
	return rc;
}

static uint64_t latin1_count(const struct ckpt_meaning *m)
{
	uint64_t count = m->len;

	for (uint64_t i = 0; i < m->len; i++)
		count -= ((uint8_t)m->bytes[i] & 0xc0) == 0x80;
	return count;
}

static void fill_bytes(const struct ckpt_value *v, const struct ckpt_meaning *m,
		       struct ckpt_node_info *out)
{
	const struct ckpt_value *text = v;

	switch (m->kind) {
	case CKPT_NODE_BYTES:
	case CKPT_NODE_BYTEARRAY: out->nbytes = m->latin1 ? latin1_count(m) : m->len; return;
	case CKPT_NODE_MISSING: text = v->u.persid.pid; break;
	case CKPT_NODE_LONG:
	case CKPT_NODE_STR:
	case CKPT_NODE_PY2_STR: break;
	default: return;
	}
	if (text->kind != CKPT_BIGINT && !ckpt_value_is_text(text))
		return;
	out->bytes = text->u.bytes.len ? text->u.bytes.ptr : "";
	out->nbytes = text->u.bytes.len;
}

/* Its number, and the class by which its id names it: torch.FloatStorage, UntypedStorage ... */
static void fill_storage(const struct ckpt_model *model, const struct ckpt_value *v,
			 struct ckpt_node_info *out)
{
	const struct ckpt_value *pid = v->u.persid.pid, *type;

	out->integer = ckpt_storage_of(v);
	out->bytes = ckpt_dtype_name(ckpt_storage_dtype(model, out->integer, v));
	out->nbytes = strlen(out->bytes);
	if (pid->kind != CKPT_TUPLE || pid->u.seq.count < 2)
		return;
	type = pid->u.seq.items[1];
	if (type->kind == CKPT_GLOBAL) {
		out->module = type->u.global->module;
		out->class_name = type->u.global->name;
	}
}

int ckpt_node_get(const struct ckpt_model *model, const struct ckpt_node *node,
		  struct ckpt_node_info *out, struct ckpt_error *err)
{
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;
	const struct ckpt_value *v = value_of(node);
	struct ckpt_meaning m;
	int rc = ckpt_model_whole(&model, err);

	if (rc == 0)
		rc = ckpt_sized_check(out, sizeof(info), err);
	if (rc < 0)
		return rc;
	ckpt_value_meaning(model, v, &m);
	info.kind = m.kind;
	info.real = m.real;
	info.imag = m.imag;
	info.item_count = m.items ? m.items->count : 0;
	info.pair_count = m.pairs ? m.pairs->count / 2 : 0;
	info.module = m.global ? m.global->module : NULL;
	info.class_name = m.global ? m.global->name : NULL;
	info.is_new = v->kind == CKPT_CALL && v->u.call->kind != CKPT_CALL_REDUCE;
	if (m.kind == CKPT_NODE_BOOL || m.kind == CKPT_NODE_INT || m.kind == CKPT_NODE_EXTENSION)
		info.integer = v->u.integer;
	if (m.kind == CKPT_NODE_STORAGE)
		fill_storage(model, v, &info);
	if (m.kind == CKPT_NODE_FLOAT)
		info.real = v->u.real;
	fill_bytes(v, &m, &info);
	ckpt_sized_give(out, &info, sizeof(info));
	return 0;
}

int ckpt_node_bytes(const struct ckpt_model *model, const struct ckpt_node *node, void *buf,
		    struct ckpt_error *err)
{
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;
	struct ckpt_meaning m;
	uint64_t len;
	int rc = ckpt_node_get(model, node, &info, err);

	if (rc < 0)
		return rc;
	ckpt_value_meaning(model, value_of(node), &m);
	if (info.bytes)
		memcpy(buf, info.bytes, info.nbytes);
	else if (m.bytes && m.latin1)
		ckpt_latin1_narrow(m.bytes, m.len, buf, &len);
	else if (m.bytes && m.len)
		memcpy(buf, m.bytes, m.len);
	else if (!m.bytes)
		return ckpt_fail(err, CKPT_E_ARG, "has no bytes");
	return 0;
}

static const struct ckpt_node *part_of_seq(const struct ckpt_model *model,
					   const struct ckpt_seq *seq, uint64_t i)
{
	return seq && i < seq->count ? node_of(model, seq->items[i]) : NULL;
}

const struct ckpt_node *ckpt_node_item(const struct ckpt_model *model, const struct ckpt_node *node,
				       uint64_t i)
{
	struct ckpt_meaning m;

	if (ckpt_model_whole(&model, NULL) < 0)
		return NULL;
	ckpt_value_meaning(model, value_of(node), &m);
	return part_of_seq(model, m.items, i);
}

static const struct ckpt_node *half_of_pair(const struct ckpt_model *model,
					    const struct ckpt_node *node, uint64_t i, unsigned half)
{
	struct ckpt_meaning m;

	if (ckpt_model_whole(&model, NULL) < 0)
		return NULL;
	ckpt_value_meaning(model, value_of(node), &m);
	return i < UINT32_MAX ? part_of_seq(model, m.pairs, 2 * i + half) : NULL;
}

const struct ckpt_node *ckpt_node_key(const struct ckpt_model *model, const struct ckpt_node *node,
				      uint64_t i)
{
	return half_of_pair(model, node, i, 0);
}

const struct ckpt_node *ckpt_node_value(const struct ckpt_model *model,
					const struct ckpt_node *node, uint64_t i)
{
	return half_of_pair(model, node, i, 1);
}

const struct ckpt_node *ckpt_node_part(const struct ckpt_model *model, const struct ckpt_node *node,
				       enum ckpt_node_part part)
{
	const struct ckpt_value *v = value_of(node);
	const struct ckpt_call *call;

	if (ckpt_model_whole(&model, NULL) < 0)
		return NULL;
	if (v->kind == CKPT_PERSID && part == CKPT_PART_ARGS)
		return node_of(model, v->u.persid.pid);
	if (v->kind != CKPT_CALL)
		return NULL;
	call = v->u.call;
	switch (part) {
	case CKPT_PART_CALLABLE: return node_of(model, call->func);
	case CKPT_PART_ARGS: return node_of(model, call->args);
	case CKPT_PART_KWARGS: return node_of(model, call->kwargs);
	case CKPT_PART_STATE: return node_of(model, call->state);
	case CKPT_PART_SETTER: return node_of(model, call->setter);
	}
	return NULL;
}

int ckpt_node_tensor(const struct ckpt_model *model, const struct ckpt_node *node, uint64_t *index,
		     struct ckpt_error *err)
{
	uint32_t number = 0;
	int rc = ckpt_model_whole(&model, err);

	if (rc == 0 && !ckpt_value_is_tensor(model, value_of(node)))
		rc = ckpt_fail(err, CKPT_E_ARG, "is no tensor");
	if (rc == 0)
		rc = ckpt_model_tensor_of(model, value_of(node), &number, err);
	*index = number;
	return rc;
}

/* ---- tensors as nearly all are ---- */

static bool is_call_without_more(const struct ckpt_value *v, const char *module, const char *name)
{
	const struct ckpt_call *call = v->kind == CKPT_CALL ? v->u.call : NULL;

	return call && call->kind == CKPT_CALL_REDUCE && !call->kwargs && !call->state && !call->setter && !call->items.count && !call->pairs.count &&
	       ckpt_value_is_call_of(v, module, name);
}

static const struct ckpt_value *now_at(const struct ckpt_model *model, const struct ckpt_seq *seq, uint32_t i)
{
	return ckpt_model_now(model, seq->items[i]);
}

/* The integers of V, a tuple; -1: it is none, or one of more axes or of something else. */
static int64_t take_axes(const struct ckpt_model *model, const struct ckpt_value *v, int64_t *out)
{
	uint32_t count = v->kind == CKPT_TUPLE ? v->u.seq.count : UINT32_MAX;

	if (count > CKPT_REBUILD_MOST_AXES)
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt_value *item = now_at(model, &v->u.seq, i);

		if (item->kind != CKPT_INT)
			return -1;
		out[i] = item->u.integer;
	}
	return count;
}

/* False: the arguments of a call are others, or what is in them is elsewhere, too. */
static bool take_arguments(const struct ckpt_model *model, const struct ckpt_value *tuple, struct ckpt_node_rebuild *out)
{
	const struct ckpt_seq *args = &tuple->u.seq;
	const struct ckpt_value *storage, *offset, *requires_grad, *hooks;
	int64_t ndim;

	if (args->count != 6 || tuple->flags & CKPT_VALUE_SHARED)
		return false;
	storage = now_at(model, args, 0);
	offset = now_at(model, args, 1);
	requires_grad = now_at(model, args, 4);
	hooks = now_at(model, args, 5);
	ndim = take_axes(model, now_at(model, args, 2), out->shape);
	if (ndim < 0 || take_axes(model, now_at(model, args, 3), out->stride) != ndim)
		return false;
	if (storage->kind != CKPT_PERSID || ckpt_storage_of(storage) < 0 || offset->kind != CKPT_INT || requires_grad->kind != CKPT_BOOL)
		return false;
	if (!is_call_without_more(hooks, "collections", "OrderedDict") || hooks->u.call->args->u.seq.count || hooks->flags & CKPT_VALUE_SHARED)
		return false;
	out->storage = (const struct ckpt_node *)storage;
	out->hooks = (const struct ckpt_node *)hooks;
	out->offset = offset->u.integer;
	out->requires_grad = requires_grad->u.integer != 0;
	out->ndim = (uint32_t)ndim;
	return true;
}

int ckpt_node_rebuild(const struct ckpt_model *model, const struct ckpt_node *node, struct ckpt_node_rebuild *out,
		      struct ckpt_error *err)
{
	const struct ckpt_value *v = value_of(node);
	struct ckpt_node_rebuild made = CKPT_NODE_REBUILD_INIT;
	int rc = ckpt_model_whole(&model, err);

	if (rc == 0)
		rc = ckpt_sized_check(out, sizeof(made), err);
	if (rc < 0)
		return rc;
	if (!is_call_without_more(v, "torch._utils", "_rebuild_tensor_v2") ||
	    !take_arguments(model, ckpt_model_now(model, v->u.call->args), &made))
		return ckpt_fail(err, CKPT_E_NOTFOUND, "is made in another way");
	ckpt_sized_give(out, &made, sizeof(made));
	return 0;
}
