/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt remap`: device tags, as torch.load(map_location=...) followed by torch.save would leave
 * them. Storages have the tag in the model; some rebuild calls name a device in an argument, too,
 * and objects torch.device may stand anywhere (those only with CKPT_REMAP_DEVICE_OBJECTS).
 *
 * The walk reads `from` and replaces in `to`. Several calls may share one tuple of arguments,
 * which is changed for the first of them: move_argument() compares both models for that. Which
 * device is meant is decided by the original tag only, so that a map of a to b and b to a swaps
 * them.
 */
#include "base/c_locale.h"
#include "base/flags.h"
#include "base/sized.h"
#include "base/text.h"
#include "model/model.h"
#include "model/walk.h"
#include "tensor/device.h"

#include <ckpt/edit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct remapper {
	const struct ckpt_model *from;
	struct ckpt_model *to;
	const struct ckpt_device_map *maps;
	size_t count;
	char (*tags)[CKPT_MOST_DEVICE_TAG]; /* what each map's TO is in a file */
	bool *counted;			    /* by storage: met on the walk */
	struct ckpt_remap_options o;
	struct ckpt_edit_report report;
};

static bool is_wildcard(const char *text)
{
	return text[strcspn(text, "*?[")] != '\0';
}

/*
 * The tag that stands for TAG, or NULL. Exact texts first, as in a dict; then wildcards in order.
 */
static const char *mapped_tag(const struct remapper *r, const char *tag)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->maps[i].from && !strcmp(r->maps[i].from, tag))
			return r->tags[i];
	for (size_t i = 0; i < r->count; i++)
		if (!r->maps[i].from ||
		    (is_wildcard(r->maps[i].from) && ckpt_glob_matches(r->maps[i].from, tag, 0)))
			return r->tags[i];
	return NULL;
}

static int check_maps(struct remapper *r, struct ckpt_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->count; i++) {
		const char *from = r->maps[i].from;

		rc = ckpt_device_tag(r->maps[i].to, r->o.flags & CKPT_REMAP_ANY_DEVICE, r->tags[i], err);
		if (rc == 0 && !strcmp(r->tags[i], "meta"))
			rc = ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"on 'meta' tensors have no data: nothing would be left to load");
		for (size_t k = 0; rc == 0 && from && k < i; k++)
			if (r->maps[k].from && !strcmp(r->maps[k].from, from) &&
			    strcmp(r->tags[k], r->tags[i]))
				rc = ckpt_fail(err, CKPT_E_ARG,
					       "'%.40s' is mapped to '%s' and to '%s'", from,
					       r->tags[k], r->tags[i]);
	}
	return rc;
}

/* ---- storages ---- */

static int move_storages(struct remapper *r, struct ckpt_error *err)
{
	for (uint32_t i = 0; i < r->to->storage_count; i++) {
		const char *tag = mapped_tag(r, r->to->storages[i].location);

		if (!tag || !strcmp(tag, r->to->storages[i].location))
			continue;
		if (ckpt_model_own_storages(r->to, err) < 0)
			return CKPT_E_NOMEM;
		tag = ckpt_arena_copy(r->to->arena, tag, strlen(tag));
		if (!tag)
			return ckpt_arena_fail(r->to->arena, err);
		r->to->storages[i].location = tag;
	}
	return 0;
}

/* ---- devices that are written out elsewhere ---- */

/* torch.device('cuda', 1) -> "cuda:1"; false if it is none, or an odd one. */
static bool device_text(const struct remapper *r, const struct ckpt_value *v,
			char out[CKPT_MOST_DEVICE_TAG])
{
	const struct ckpt_value *args, *type, *index = NULL;

	if (!ckpt_value_is_call_of(v, "torch", "device"))
		return false;
	args = ckpt_model_now(r->from, v->u.call->args);
	if (args->kind != CKPT_TUPLE || !args->u.seq.count || args->u.seq.count > 2)
		return false;
	type = ckpt_model_now(r->from, args->u.seq.items[0]);
	if (args->u.seq.count == 2)
		index = ckpt_model_now(r->from, args->u.seq.items[1]);
	if (type->kind != CKPT_STR || type->u.bytes.len >= 40 || (index && index->kind != CKPT_INT))
		return false;
	if (index)
		snprintf(out, CKPT_MOST_DEVICE_TAG, "%.*s:%d", (int)type->u.bytes.len,
			 type->u.bytes.ptr, (int)index->u.integer);
	else
		snprintf(out, CKPT_MOST_DEVICE_TAG, "%.*s", (int)type->u.bytes.len,
			 type->u.bytes.ptr);
	return true;
}

/* The arguments of torch.device: ('cuda', 1) or ('cpu',) */
static const struct ckpt_value *device_args(struct remapper *r, const char *tag)
{
	size_t len = strcspn(tag, ":");
	const struct ckpt_value *type = ckpt_model_new_str(r->to, tag, len);
	struct ckpt_value *args = ckpt_model_new_value(r->to, CKPT_TUPLE), *index;

	if (!type || !args || !ckpt_seq_add(r->to->arena, &args->u.seq, type))
		return NULL;
	if (!tag[len])
		return args;
	index = ckpt_model_new_value(r->to, CKPT_INT);
	if (!index)
		return NULL;
	index->id = 0;
	index->u.integer = atoi(tag + len + 1);
	return ckpt_seq_add(r->to->arena, &args->u.seq, index) ? args : NULL;
}

/* A torch.device for TAG that was called as LIKE was; it has LIKE's id if SAME. */
static struct ckpt_value *new_device(struct remapper *r, const struct ckpt_value *like,
				     const char *tag, bool same)
{
	struct ckpt_value *v = ckpt_model_new_value(r->to, CKPT_CALL);
	struct ckpt_call *call = ckpt_arena_calloc(r->to->arena, 1, sizeof(*call));

	if (!v || !call)
		return NULL;
	*call = *like->u.call;
	call->args = device_args(r, tag);
	v->u.call = call;
	if (same)
		v->id = like->id;
	return call->args ? v : NULL;
}

/* Let argument I of CALL be ITEM. */
static int replace_argument(struct remapper *r, const struct ckpt_value *args, uint32_t i,
			    const struct ckpt_value *item, struct ckpt_error *err)
{
	struct ckpt_value *copy = ckpt_arena_alloc(r->to->arena, sizeof(*copy));

	if (!copy || !item)
		return ckpt_arena_fail(r->to->arena, err);
	*copy = *args;
	copy->u.seq = (struct ckpt_seq){ 0 };
	if (!ckpt_seq_add_many(r->to->arena, &copy->u.seq, args->u.seq.items, args->u.seq.count))
		return ckpt_arena_fail(r->to->arena, err);
	copy->u.seq.items[i] = item;
	r->report.devices_moved++;
	return ckpt_model_replace(r->to, copy, err);
}

/* An argument that is a device, as an object or as text. */
static int move_argument(struct remapper *r, const struct ckpt_value *original, uint32_t i,
			 struct ckpt_error *err)
{
	const struct ckpt_value *args = ckpt_model_now(r->from, original), *device, *fresh;
	char text[CKPT_MOST_DEVICE_TAG];
	const char *tag;

	if (args != ckpt_model_now(r->to, original)) /* moved already, for another call */
		return 0;
	if (args->kind != CKPT_TUPLE || args->u.seq.count <= i)
		return 0;
	device = ckpt_model_now(r->from, args->u.seq.items[i]);
	if (device->kind != CKPT_STR && r->o.flags & CKPT_REMAP_DEVICE_OBJECTS) /* it is moved where it is met */
		return 0;
	if (device->kind == CKPT_STR && device->u.bytes.len < sizeof(text))
		snprintf(text, sizeof(text), "%.*s", (int)device->u.bytes.len, device->u.bytes.ptr);
	else if (!device_text(r, device, text))
		return 0;
	tag = mapped_tag(r, text);
	if (!tag || !strcmp(tag, text))
		return 0;
	fresh = device->kind == CKPT_STR ? ckpt_model_new_str(r->to, tag, strlen(tag))
					 : new_device(r, device, tag, false);
	return replace_argument(r, args, i, fresh, err);
}

static int move_device_object(struct remapper *r, const struct ckpt_value *device,
			      struct ckpt_error *err)
{
	char text[CKPT_MOST_DEVICE_TAG];
	const struct ckpt_value *fresh;
	const char *tag;

	if (!device_text(r, device, text))
		return 0;
	tag = mapped_tag(r, text);
	if (!tag || !strcmp(tag, text))
		return 0;
	fresh = new_device(r, device, tag, true);
	if (!fresh)
		return ckpt_arena_fail(r->to->arena, err);
	r->report.devices_moved++;
	return ckpt_model_replace(r->to, fresh, err);
}

/* Functions whose arguments have a device, and where. */
static const struct {
	const char *name;
	uint32_t device;
} functions[] = {
	{ "_rebuild_device_tensor_from_numpy", 2 },
	{ "_rebuild_device_tensor_from_cpu_tensor", 2 },
	{ "_rebuild_xla_tensor", 2 },
	{ "_rebuild_mlc_tensor", 2 },
	{ "_rebuild_wrapper_subclass", 6 },
};

static int move_arguments_of(struct remapper *r, const struct ckpt_value *func,
			     const struct ckpt_value *args, struct ckpt_error *err)
{
	func = ckpt_model_now(r->from, func);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (ckpt_value_is_global(func, "torch._utils", functions[i].name))
			return move_argument(r, args, functions[i].device, err);
	return 0;
}

/* Storages of what was dropped by an edit before are not met. */
static void count_storage(struct remapper *r, const struct ckpt_value *persid)
{
	int64_t i = ckpt_storage_of(persid);

	if (i < 0 || r->counted[i])
		return;
	r->counted[i] = true;
	r->report.storages_moved += r->to->storages[i].location != r->from->storages[i].location;
}

/*
 * torch.Generator takes its state from a tensor on the CPU, and nowhere else, and makes a new one
 * on the CPU when it is saved: (seed, offset, tensor).
 */
static void leave_generator_state(struct remapper *r, const struct ckpt_value *generator)
{
	const struct ckpt_value *state = generator->u.call->state, *tensor, *args, *persid;
	int64_t i;

	state = state ? ckpt_model_now(r->from, state) : NULL;
	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 3)
		return;
	tensor = ckpt_model_now(r->from, state->u.seq.items[2]);
	if (!ckpt_value_is_call_of(tensor, "torch._utils", "_rebuild_tensor_v2"))
		return;
	args = ckpt_model_now(r->from, tensor->u.call->args);
	if (args->kind != CKPT_TUPLE || !args->u.seq.count)
		return;
	persid = ckpt_model_now(r->from, args->u.seq.items[0]);
	i = persid->kind == CKPT_PERSID ? ckpt_storage_of(persid) : -1;
	if (i >= 0)
		r->to->storages[i].location = r->from->storages[i].location;
}

static bool is_rebuild_from_type(const struct ckpt_value *v)
{
	return ckpt_value_is_call_of(v, "torch._tensor", "_rebuild_from_type_v2") ||
	       ckpt_value_is_call_of(v, "torch._tensor", "_rebuild_from_type") ||
	       ckpt_value_is_call_of(v, "torch.tensor", "_rebuild_from_type");
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct remapper *r = ctx;
	const struct ckpt_value *v = step->value, *args;
	int rc = 0;

	if (v->kind == CKPT_PERSID)
		count_storage(r, v);
	if (v->kind != CKPT_CALL || step->seen)
		return CKPT_WALK_ENTER;
	if (ckpt_value_is_call_of(v, "torch._C", "Generator"))
		leave_generator_state(r, v);
	args = ckpt_model_now(r->from, v->u.call->args);
	/* _rebuild_from_type_v2(func, class, args, state) calls FUNC with ARGS */
	if (is_rebuild_from_type(v) && args->kind == CKPT_TUPLE && args->u.seq.count >= 4)
		rc = move_arguments_of(r, args->u.seq.items[0], args->u.seq.items[2], err);
	else
		rc = move_arguments_of(r, v->u.call->func, v->u.call->args, err);
	if (rc == 0 && r->o.flags & CKPT_REMAP_DEVICE_OBJECTS)
		rc = move_device_object(r, v, err);
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

int ckpt_remap(const struct ckpt_model *model, const struct ckpt_device_map *maps, size_t count,
	       const struct ckpt_remap_options *options, struct ckpt_model **out,
	       struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct remapper r = { .from = model,
			      .maps = maps,
			      .count = count,
			      .o = CKPT_REMAP_OPTIONS_INIT,
			      .report = CKPT_EDIT_REPORT_INIT };

	if (rc == 0)
		rc = ckpt_sized_take(&r.o, sizeof(r.o), options, err);
	if (rc == 0)
		rc = ckpt_flags_check(r.o.flags, CKPT_REMAP_DEVICE_OBJECTS | CKPT_REMAP_ANY_DEVICE, err);
	if (rc == 0)
		rc = ckpt_unused_check(&r.o.reserved, sizeof(r.o.reserved), err);
	*out = NULL;
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(r.report), err);
	r.tags = calloc(count + 1, sizeof(*r.tags));
	r.counted = calloc(model->storage_count + (size_t)1, sizeof(*r.counted));
	if (rc == 0 && (!r.tags || !r.counted))
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = check_maps(&r, err);
	if (rc == 0)
		rc = ckpt_model_derive(model, &r.to, err);
	if (rc == 0)
		rc = move_storages(&r, err);
	if (rc == 0)
		rc = ckpt_model_walk(model, visit_value, &r, err);
	free(r.tags);
	free(r.counted);
	if (rc < 0) {
		ckpt_close(r.to);
		return rc;
	}
	ckpt_sized_give(report, &r.report, sizeof(r.report));
	*out = r.to;
	return 0;
}
