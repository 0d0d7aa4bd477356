/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state dict of a module, as nn.Module.state_dict() makes it (torch/nn/modules/module.py):
 * parameters, then buffers that are saved, then the same of the modules below. A module that
 * hangs in several places has entries under each name.
 *
 * Files may hold modules that contain themselves, and few modules may stand for very many. So
 * there is no recursion, and three limits end it: the length of a name, the number of modules,
 * and `work`, the number of names that were looked at. Every loop over names of a file has to
 * count its work.
 */
#include "base/buf.h"
#include "base/grow.h"
#include "base/text.h"
#include "model/module.h"
#include "model/plain_values.h"
#include "model/state_dict.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 16384, MOST_MODULES = 1000000, MOST_WORK = 200000000 };

struct module_level {
	const struct ckpt_value *module;
	/* where the modules below are looked for, key and value in turn */
	const struct ckpt_seq *children;
	uint32_t next;
	size_t prefix_len;
	bool script;
};

struct state_dict_maker {
	struct ckpt_model *to;
	struct ckpt_value *made; /* the OrderedDict */
	struct ckpt_buf prefix;
	struct module_level *levels;
	uint32_t depth, cap;
	uint64_t work; /* names that were looked at */
	struct ckpt_module_report report;
	struct ckpt_error *err;
};

static const struct ckpt_value *now(const struct state_dict_maker *m, const struct ckpt_value *v)
{
	return ckpt_model_now(m->to, v);
}

/* ---- entries ---- */

static const char *shown_prefix(const struct state_dict_maker *m, char *buf, size_t size)
{
	return ckpt_escape(buf, size, m->prefix.len ? (const char *)m->prefix.data : "",
			   m->prefix.len);
}

static int extend_prefix(struct state_dict_maker *m, const struct ckpt_value *key)
{
	char shown[120];

	if (!ckpt_value_is_text(key))
		return ckpt_fail(m->err, CKPT_E_UNSUPPORTED,
				 "a member of module '%s' is named by %s, wanted a text",
				 shown_prefix(m, shown, sizeof(shown)), ckpt_value_kind_name(key));
	if (key->u.bytes.len > MOST_NAME || m->prefix.len + key->u.bytes.len > MOST_NAME)
		return ckpt_fail(m->err, CKPT_E_LIMIT, "a name is longer than %d bytes: '%s...'",
				 MOST_NAME, shown_prefix(m, shown, sizeof(shown)));
	ckpt_buf_add(&m->prefix, key->u.bytes.ptr, key->u.bytes.len);
	return m->prefix.bad ? ckpt_fail_nomem(m->err) : 0;
}

static int add_entry(struct state_dict_maker *m, const struct ckpt_value *key,
		     const struct ckpt_value *value)
{
	struct ckpt_seq *pairs = &m->made->u.call->pairs;
	size_t len = m->prefix.len;
	const struct ckpt_value *name, *tensor;
	int rc = extend_prefix(m, key);

	if (rc < 0)
		return rc;
	name = ckpt_model_new_str(m->to, (const char *)m->prefix.data, m->prefix.len);
	tensor = ckpt_value_is_tensor(m->to, value) ? ckpt_tensor_detached(m->to, value) : value;
	m->prefix.len = len;
	m->report.entries++;
	if (!name || !tensor || !ckpt_seq_add(m->to->arena, pairs, name) ||
	    !ckpt_seq_add(m->to->arena, pairs, tensor))
		return ckpt_arena_fail(m->to->arena, m->err);
	return 0;
}

/* ---- a module that was pickled ---- */

/* A set is a SET, or at protocol 2 a call with a list. */
static bool set_has(struct state_dict_maker *m, const struct ckpt_value *set,
		    const struct ckpt_value *name)
{
	const struct ckpt_value *items = set;

	if (set && set->kind == CKPT_CALL)
		items = ckpt_plain_arg(m->to, set, 0);
	if (!items || items->kind < CKPT_TUPLE || items->kind > CKPT_FROZENSET ||
	    !ckpt_value_is_text(name))
		return false;
	for (uint32_t i = 0; i < items->u.seq.count && m->work <= MOST_WORK; i++, m->work++) {
		const struct ckpt_value *item = now(m, items->u.seq.items[i]);

		if (ckpt_value_is_text(item) && item->u.bytes.len == name->u.bytes.len &&
		    !memcmp(item->u.bytes.ptr, name->u.bytes.ptr, item->u.bytes.len))
			return true;
	}
	return false;
}

static int check_work(struct state_dict_maker *m, uint64_t names)
{
	m->work += names;
	if (m->work <= MOST_WORK)
		return 0;
	return ckpt_fail(m->err, CKPT_E_LIMIT, "modules with more than %d members", MOST_WORK);
}

/* UNSAVED: names that are left out, or NULL. */
static int add_mapping(struct state_dict_maker *m, const struct ckpt_value *mapping,
		       const struct ckpt_value *unsaved)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(mapping);
	int rc = check_work(m, pairs->count);

	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = now(m, pairs->items[i]),
					*value = now(m, pairs->items[i + 1]);

		if (value->kind != CKPT_NONE && !set_has(m, unsaved, key))
			rc = add_entry(m, key, value);
	}
	return rc < 0 ? rc : check_work(m, 0);
}

static int add_pickled(struct state_dict_maker *m, struct module_level *level)
{
	/*
	 * it is a module, so that the mappings are there: ckpt_module_mapping() would look for all
	 * three each time
	 */
	const struct ckpt_value *attributes = ckpt_module_attributes(m->to, level->module);
	int rc = add_mapping(m, ckpt_attribute_find(m->to, attributes, "_parameters"), NULL);

	if (rc == 0)
		rc = add_mapping(m, ckpt_attribute_find(m->to, attributes, "_buffers"),
				 ckpt_attribute_find(m->to, attributes,
						     "_non_persistent_buffers_set"));
	level->children = ckpt_value_pairs(ckpt_attribute_find(m->to, attributes, "_modules"));
	return rc;
}

/* ---- a module of TorchScript ---- */

static enum ckpt_member role_of(const struct ckpt_class *cls, const struct ckpt_value *key)
{
	const uint64_t *role;

	if (!cls || !cls->known)
		return CKPT_MEMBER_PARAMETER;
	role = ckpt_value_is_text(key)
		       ? ckpt_strmap_find(&cls->members, key->u.bytes.ptr, key->u.bytes.len)
		       : NULL;
	return role ? (enum ckpt_member) * role : CKPT_MEMBER_NONE;
}

static int add_role(struct state_dict_maker *m, const struct module_level *level,
		    const struct ckpt_class *cls, enum ckpt_member role)
{
	int rc = check_work(m, level->children->count);

	for (uint32_t i = 0; rc == 0 && i + 1 < level->children->count; i += 2) {
		const struct ckpt_value *key = now(m, level->children->items[i]),
					*value = now(m, level->children->items[i + 1]);

		if (role_of(cls, key) == role && ckpt_value_is_tensor(m->to, value))
			rc = add_entry(m, key, value);
	}
	return rc;
}

static int add_script(struct state_dict_maker *m, struct module_level *level)
{
	const struct ckpt_value *func = now(m, level->module->u.call->func);
	const struct ckpt_class *cls = m->to->doc->class_of(m->to->doc, func->u.global);
	int rc;

	level->script = true;
	level->children = &ckpt_module_attributes(m->to, level->module)->u.seq;
	m->report.guessed += !cls || !cls->known;
	rc = add_role(m, level, cls, CKPT_MEMBER_PARAMETER);
	return rc < 0 ? rc : add_role(m, level, cls, CKPT_MEMBER_BUFFER);
}

/* ---- one after the other ---- */

/*
 * Quantized modules keep their weights packed, and unpack them by code of their own where a state
 * dict is made.
 */
static bool packs_its_weights(const struct ckpt_value *cls)
{
	static const char *const names[] = { "Linear", "Conv", "Embedding",   "LSTM",
					     "GRU",    "RNN",  "QFunctional", "PackedParameter" };

	if (cls->kind != CKPT_GLOBAL || !strstr(cls->u.global->module, "nn.") ||
	    !strstr(cls->u.global->module, ".quantized") ||
	    strncmp(cls->u.global->module, "torch.", 6) != 0)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strstr(cls->u.global->name, names[i]))
			return true;
	return false;
}

static int push_module(struct state_dict_maker *m, const struct ckpt_value *module)
{
	const struct ckpt_value *cls = now(m, module->u.call->func);
	struct module_level *level;
	char shown[120];
	void *grown;

	if (packs_its_weights(cls))
		return ckpt_fail(
			m->err, CKPT_E_UNSUPPORTED,
			"module '%s' is a quantized %.60s, which unpacks its weights by code of its own",
			shown_prefix(m, shown, sizeof(shown)), cls->u.global->name);

	if (++m->report.modules > MOST_MODULES)
		return ckpt_fail(m->err, CKPT_E_LIMIT, "more than %d modules hang in each other",
				 MOST_MODULES);
	grown = ckpt_grow(m->levels, m->depth, &m->cap, sizeof(*m->levels));
	if (!grown)
		return ckpt_fail_nomem(m->err);
	m->levels = grown;
	level = &m->levels[m->depth++];
	*level = (struct module_level){ .module = module, .prefix_len = m->prefix.len };
	return ckpt_is_script_object(m->to, module) ? add_script(m, level) : add_pickled(m, level);
}

static int refuse_child(struct state_dict_maker *m, const struct ckpt_value *child)
{
	const struct ckpt_value *func =
		child->kind == CKPT_CALL ? now(m, child->u.call->func) : NULL;
	char name[120], type[120];

	if (func && func->kind == CKPT_GLOBAL)
		ckpt_escape(type, sizeof(type), func->u.global->name, func->u.global->name_len);
	else
		ckpt_escape(type, sizeof(type), ckpt_value_kind_name(child),
			    strlen(ckpt_value_kind_name(child)));
	return ckpt_fail(
		m->err, CKPT_E_UNSUPPORTED,
		"module '%s' is a %s that was not pickled as its attributes: what is in it "
		"cannot be told without its class",
		ckpt_escape(name, sizeof(name), (const char *)m->prefix.data, m->prefix.len), type);
}

static int visit_child(struct state_dict_maker *m, struct module_level *top)
{
	const struct ckpt_value *key = now(m, top->children->items[top->next]),
				*child = now(m, top->children->items[top->next + 1]);
	bool module = ckpt_is_module(m->to, child);
	int rc;

	top->next += 2;
	if (!module && (top->script || child->kind == CKPT_NONE))
		return 0;
	m->prefix.len = top->prefix_len;
	rc = extend_prefix(m, key);
	if (rc == 0 && !module)
		rc = refuse_child(m, child);
	if (rc < 0)
		return rc;
	ckpt_buf_add_u8(&m->prefix, '.');
	return m->prefix.bad ? ckpt_fail_nomem(m->err) : push_module(m, child);
}

static int make_entries(struct state_dict_maker *m, const struct ckpt_value *module)
{
	int rc = push_module(m, module);

	while (rc == 0 && m->depth) {
		struct module_level *top = &m->levels[m->depth - 1];

		if (top->next + 1 < top->children->count)
			rc = visit_child(m, top);
		else
			m->depth--;
	}
	return rc;
}

const struct ckpt_value *ckpt_module_state_dict(struct ckpt_model *to,
						const struct ckpt_value *module,
						struct ckpt_module_report *report,
						struct ckpt_error *err)
{
	struct state_dict_maker m = { .to = to, .err = err };
	int rc;

	m.made = ckpt_plain_call(to, "collections", "OrderedDict", NULL, 0);
	rc = m.made ? make_entries(&m, module) : ckpt_arena_fail(to->arena, err);
	free(m.levels);
	ckpt_buf_clear(&m.prefix);
	if (report)
		*report = m.report;
	return rc == 0 ? m.made : NULL;
}
