/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies the index of a DCP directory by itself: it has no checksum. What it says of items is
 * compared with the items (directory.c); here its classes, attributes and constants are compared
 * with those that torch has, and names with their paths in the nested state.
 *
 * A name that torch does not know is damage; one of another package cannot be proven, as programs
 * may put their own data into the index. The walk uses a stack of its own and visits each value
 * once, so a file cannot make it deep or long; after MOST_REPORTED findings the rest is not
 * reported. Source of the names: torch/distributed/checkpoint/metadata.py, filesystem.py and
 * planner.py of torch 1.13 to 2.14.
 */
#include "verify/verifier.h"

#include "base/grow.h"
#include "base/text.h"
#include "set/dcp/dcp.h"
#include "set/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 160, MOST_REPORTED = 20 };

#define METADATA \
	"Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", \
		"TensorProperties", "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING"

static const struct {
	const char *module;
	const char *names[10]; /* and NULL */
} known[] = {
	{ "torch.distributed.checkpoint.metadata", { METADATA } },
	{ "torch.distributed.checkpoint.filesystem", { "_StorageInfo" } },
	{ "torch.distributed._shard.checkpoint.metadata", { METADATA } },
	{ "torch.distributed._shard.checkpoint.filesystem", { "_StorageInfo" } },
	{ "torch.distributed._shard.sharded_tensor.metadata",
	  { "TensorProperties", "MEM_FORMAT_ENCODING" } },
	{ "torch", { "Size", "strided" } }, /* and dtypes */
	/* Megatron-Core keeps its plans there, to save the same again without planning */
	{ "torch.distributed.checkpoint.planner",
	  { "WriteItem", "TensorWriteData", "BytesIOWriteData", "WriteItemType", "SavePlan" } },
	{ "torch.serialization", { "_get_layout" } },
	{ "builtins", { "getattr", "object", "slice" } },
	{ "__builtin__", { "getattr", "object", "slice" } },
	{ "copyreg", { "_reconstructor" } },
	{ "copy_reg", { "_reconstructor" } },
	{ "collections", { "OrderedDict" } },
	{ "pathlib", { "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath" } },
	{ "pathlib._local", { "PosixPath", "WindowsPath" } },
};

static const struct {
	const char *class_name;
	const char *names[8]; /* and NULL */
} attributes[] = {
	/* the last two: Megatron-Core's own */
	{ "Metadata",
	  { "state_dict_metadata", "planner_data", "storage_data", "storage_meta", "version",
	    "mcore_data", "all_local_plans" } },
	{ "WriteItem", { "index", "type", "bytes_io_data", "tensor_data" } },
	{ "TensorWriteData", { "chunk", "properties", "size" } },
	{ "BytesIOWriteData", { "nbytes" } },
	{ "SavePlan", { "items", "storage_data", "planner_data", "usable" } },
	{ "TensorStorageMetadata", { "properties", "size", "chunks" } },
	{ "ChunkStorageMetadata", { "offsets", "sizes" } },
	{ "TensorProperties",
	  { "dtype", "layout", "requires_grad", "memory_format", "pin_memory" } },
	{ "MetadataIndex", { "fqn", "offset", "index" } },
	{ "_StorageInfo", { "relative_path", "offset", "length", "transform_descriptors" } },
	{ "StorageMeta", { "checkpoint_id", "save_id", "load_id", "modules" } },
};

/* Arguments that are names. */
static const char *const layouts[] = { "torch.strided", NULL };
static const char *const formats[] = { "TORCH_CONTIGUOUS_FORMAT", "TORCH_CHANNELS_LAST",
				       "TORCH_PRESERVE_FORMAT", NULL };
enum { FORMATS = 3 };

struct index_checker {
	struct ckpt_verifier *v;
	const struct ckpt_dcp *dcp;
	const struct ckpt_value **stack; /* malloc */
	uint32_t depth, cap;
	uint8_t *seen; /* malloc: bitmap by id */
	uint32_t reported;
};

/* ---- findings ---- */

static int report(struct index_checker *s, enum ckpt_finding_kind kind, const struct ckpt_value *at,
		  const char *what, const char *name, size_t len, const char *then)
{
	char shown[SHOWN];

	if (++s->reported > MOST_REPORTED)
		return 0;
	return ckpt_verifier_report(s->v, kind, NULL, at->pos, ".metadata: %s '%s'%s", what,
				    ckpt_escape(shown, sizeof(shown), name, len), then);
}

/* Its number in NAMES, or -1. */
static int index_in(const struct ckpt_value *name, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (ckpt_value_is_str(name, names[i]))
			return i;
	return -1;
}

/* ---- classes, attributes, constants ---- */

static bool is_known(const struct ckpt_global *g)
{
	if (!strcmp(g->module, "torch") && ckpt_dtype_find(g->name) != CKPT_DTYPE_UNKNOWN)
		return true;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		for (size_t k = 0; known[i].names[k]; k++)
			if (!strcmp(g->module, known[i].module) &&
			    !strcmp(g->name, known[i].names[k]))
				return true;
	return false;
}

static int check_global(struct index_checker *s, const struct ckpt_value *value)
{
	const struct ckpt_global *g = value->u.global;
	char name[2 * SHOWN];

	if (is_known(g))
		return 0;
	snprintf(name, sizeof(name), "%s.%s", g->module, g->name);
	if (!strcmp(g->module, "torch") || !strncmp(g->module, "torch.", 6))
		return report(s, CKPT_FINDING_DAMAGE, value, "torch's indexes know no", name,
			      strlen(name), "");
	return report(s, CKPT_FINDING_UNPROVEN, value, "needs", name, strlen(name),
		      ", which is not of torch: whether it loads depends on that");
}

static int check_attributes(struct index_checker *s, const char *class_name,
			    const struct ckpt_value *state)
{
	const char *const *names = NULL;
	enum ckpt_finding_kind kind = CKPT_FINDING_DAMAGE;
	unsigned seen = 0;
	int rc = 0;

	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (!strcmp(attributes[i].class_name, class_name))
			names = attributes[i].names;
	if (!names || state->kind != CKPT_DICT)
		return 0;
	if (names == attributes[0].names) /* programs put their own data there */
		kind = CKPT_FINDING_UNPROVEN;
	/* stop after enough findings: very many objects may share one state */
	for (uint32_t i = 0; rc == 0 && i + 1 < state->u.seq.count && s->reported <= MOST_REPORTED;
	     i += 2) {
		const struct ckpt_value *key = state->u.seq.items[i];
		const char *name = key->kind == CKPT_STR ? key->u.bytes.ptr : "?";
		size_t len = key->kind == CKPT_STR ? key->u.bytes.len : 1;
		int place = index_in(key, names);

		if (place < 0)
			rc = report(s, kind, key, "an object of torch has an attribute", name, len,
				    ", which its class does not know");
		else if (seen & 1u << place)
			rc = report(s, CKPT_FINDING_DAMAGE, key,
				    "an object has twice the attribute", name, len, "");
		else
			seen |= 1u << place;
	}
	return rc;
}

static bool is_enum(const struct ckpt_value *v)
{
	return v->kind == CKPT_GLOBAL && (!strcmp(v->u.global->name, "MEM_FORMAT_ENCODING") ||
					  !strcmp(v->u.global->name, "_MEM_FORMAT_ENCODING"));
}

/* Does torch find a constant with these arguments? */
static bool is_known_constant(const struct ckpt_value *func, const struct ckpt_value *args)
{
	const struct ckpt_seq *seq = &args->u.seq;

	if (args->kind != CKPT_TUPLE)
		return false;
	if (is_enum(func))
		return seq->count == 1 && seq->items[0]->kind == CKPT_INT &&
		       (uint64_t)seq->items[0]->u.integer < FORMATS;
	if (!strcmp(func->u.global->name, "getattr")) /* early releases of Python 3.11 */
		return seq->count == 2 && is_enum(seq->items[0]) &&
		       index_in(seq->items[1], formats) >= 0;
	if (!strcmp(func->u.global->name, "WriteItemType")) /* TENSOR, SHARD, BYTE_IO */
		return seq->count == 1 && seq->items[0]->kind == CKPT_INT &&
		       seq->items[0]->u.integer >= 1 && seq->items[0]->u.integer <= 3;
	return strcmp(func->u.global->name, "_get_layout") != 0 ||
	       (seq->count == 1 && index_in(seq->items[0], layouts) >= 0);
}

static bool is_a(const struct ckpt_value *v, enum ckpt_value_kind kind)
{
	return v->kind == kind;
}

/* dtype, layout, requires_grad, memory format, pin_memory */
static bool are_properties(const struct ckpt_value *state)
{
	const struct ckpt_value *const *item = state->u.seq.items;

	return state->u.seq.count == 5 && is_a(item[0], CKPT_GLOBAL) &&
	       (ckpt_value_is_global(item[1], "torch", "strided") ||
		ckpt_value_is_call_of(item[1], "torch.serialization", "_get_layout")) &&
	       is_a(item[2], CKPT_BOOL) && is_a(item[4], CKPT_BOOL) && is_a(item[3], CKPT_CALL) &&
	       (is_enum(item[3]->u.call->func) ||
		ckpt_value_is_call_of(item[3], "builtins", "getattr") ||
		ckpt_value_is_call_of(item[3], "__builtin__", "getattr"));
}

static int check_call(struct index_checker *s, const struct ckpt_value *value)
{
	const struct ckpt_call *call = value->u.call;
	const char *name = call->func->kind == CKPT_GLOBAL ? call->func->u.global->name : "";

	if (call->func->kind == CKPT_GLOBAL && !is_known_constant(call->func, call->args))
		return report(s, CKPT_FINDING_DAMAGE, value,
			      "torch has no constant of this kind:", name, strlen(name), "");
	if (call->state && call->state->kind == CKPT_TUPLE && !strcmp(name, "TensorProperties") &&
	    !are_properties(call->state))
		return report(s, CKPT_FINDING_DAMAGE, value, "these are not the values of a", name,
			      strlen(name), "");
	return call->state ? check_attributes(s, name, call->state) : 0;
}

/* ---- every value of the pickle ---- */

static int push(struct index_checker *s, const struct ckpt_value *value, struct ckpt_error *err)
{
	const struct ckpt_value **grown;

	if (!value || (value->id && s->seen[value->id >> 3] & 1 << (value->id & 7)))
		return 0;
	grown = ckpt_grow(s->stack, s->depth, &s->cap, sizeof(*grown));
	if (!grown)
		return ckpt_fail_nomem(err);
	s->stack = grown;
	s->seen[value->id >> 3] |= (uint8_t)(1 << (value->id & 7));
	s->stack[s->depth++] = value;
	return 0;
}

static int push_all(struct index_checker *s, const struct ckpt_seq *seq, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < seq->count; i++)
		rc = push(s, seq->items[i], err);
	return rc;
}

static int push_call(struct index_checker *s, const struct ckpt_call *call, struct ckpt_error *err)
{
	const struct ckpt_value *parts[] = { call->func, call->args, call->kwargs, call->state,
					     call->setter };
	int rc = push_all(s, &call->items, err);

	if (rc == 0)
		rc = push_all(s, &call->pairs, err);
	for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		rc = push(s, parts[i], err);
	return rc;
}

static int check_value(struct index_checker *s, const struct ckpt_value *value,
		       struct ckpt_error *err)
{
	int rc = 0;

	switch ((enum ckpt_value_kind)value->kind) {
	case CKPT_GLOBAL: return check_global(s, value);
	case CKPT_CALL:
		rc = check_call(s, value);
		return rc == 0 ? push_call(s, value->u.call, err) : rc;
	case CKPT_TUPLE:
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET:
	case CKPT_DICT: return push_all(s, &value->u.seq, err);
	default: return rc;
	}
}

static int check_values(struct index_checker *s, struct ckpt_error *err)
{
	int rc = push(s, s->dcp->index.root, err);

	while (rc == 0 && s->depth)
		rc = check_value(s, s->stack[--s->depth], err);
	return rc;
}

/* ---- names ---- */

/* No pickler writes a key twice. */
static int check_keys(struct index_checker *s)
{
	const struct ckpt_dcp_index *index = &s->dcp->index;
	const struct ckpt_value *dict =
		ckpt_fields_find(ckpt_fields_object_state(index->root), "state_dict_metadata");
	uint32_t names = ckpt_value_pairs(dict)->count / 2;

	if (names == index->entry_count)
		return 0;
	return ckpt_verifier_report(s->v, CKPT_FINDING_DAMAGE, NULL, dict->pos,
				    ".metadata: of %" PRIu32 " names only %" PRIu32
				    " are different from each other",
				    names, index->entry_count);
}

static int check_paths(struct index_checker *s)
{
	const struct ckpt_dcp_index *index = &s->dcp->index;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && index->has_planner_data && i < index->entry_count; i++) {
		const struct ckpt_dcp_entry *e = &index->entries[i];
		const char *name = e->fqn->u.bytes.ptr;

		if (!e->path)
			rc = report(s, CKPT_FINDING_DAMAGE, e->fqn, "there is no path for", name,
				    e->fqn->u.bytes.len, "");
		else if (!ckpt_dcp_path_spells(e->path, e->fqn))
			rc = report(s, CKPT_FINDING_DAMAGE, e->path,
				    "the path says another name than", name, e->fqn->u.bytes.len,
				    "");
	}
	return rc;
}

/* ---- the whole ---- */

int ckpt_verify_index(struct ckpt_verifier *v, const struct ckpt_model *model,
		      struct ckpt_error *err)
{
	const struct ckpt_pickle *pickle = &model->doc->pickle;
	struct index_checker s = { .v = v, .dcp = ckpt_dcp_of(model) };
	int rc = 0;

	s.seen = calloc(pickle->next_id / 8 + 1, 1);
	if (!s.seen)
		return ckpt_fail_nomem(err);
	if (pickle->nbytes < ckpt_source_size(model->doc->source))
		rc = ckpt_verifier_report(v, CKPT_FINDING_DAMAGE, NULL, pickle->nbytes,
					  ".metadata: bytes follow the end of the index");
	if (rc == 0 && pickle->frames_wrong)
		rc = ckpt_verifier_report(
			v, CKPT_FINDING_DAMAGE, NULL, CKPT_NO_OFFSET,
			".metadata: a frame of the pickle does not end where an opcode ends");
	if (rc == 0)
		rc = check_values(&s, err);
	if (rc == 0)
		rc = check_keys(&s);
	if (rc == 0)
		rc = check_paths(&s);
	free(s.stack);
	free(s.seen);
	return rc;
}
