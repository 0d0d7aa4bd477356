/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects what is at the path before causes are looked for: whether it opens and if not, why and
 * what it is instead; its dicts of tensors, the first whole module and the first optimizer.
 *
 * A file that does not open is a fact and no error: only a lack of memory and what fails after the
 * file opened makes ckpt_facts_read() fail. A name in the facts means its value alone, even if keys
 * have dots in them (name_of()), since it is printed in commands. Past CKPT_WHY_MOST_DICTS dicts no
 * more are noted.
 */
#include "base/ascii.h"
#include "why/why.h"

#include "base/error.h"
#include "format/container.h"
#include "model/find.h"
#include "model/module.h"
#include "model/state_dict.h"
#include "model/walk.h"
#include "set/listing.h"
#include "set/set.h"
#include "zipfmt/index.h"

#include <stdlib.h>
#include <string.h>

/* ---- a file that does not open ---- */

/*
 * Is it what a server sends instead of a file? {"error": "Repository not found"} of the Hugging
 * Face hub, {"message": "Bad credentials"} of GitHub, "Entry not found", <Code>AccessDenied</Code>.
 * Any other text may be a config, or notes.
 */
static bool is_server_error(const uint8_t *head, size_t len)
{
	static const char *const words[] = { "\"error\"",   "\"errors\"",     "\"message\"",
					     "\"detail\"",  "\"code\"",	      "not found",
					     "denied",	    "unauthorized",   "forbidden",
					     "credentials", "authentication", "log in",
					     "expired",	    "rate limit" };
	char text[CKPT_PROBE_BYTES + 1];

	if (len > CKPT_PROBE_BYTES)
		len = CKPT_PROBE_BYTES;
	for (size_t i = 0; i < len; i++)
		text[i] = head[i] ? (char)ckpt_to_lower(head[i]) : ' ';
	text[len] = '\0';
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

static void identify(struct ckpt_facts *f)
{
	struct ckpt_source *source;
	struct ckpt_zip *zip = NULL;
	uint8_t head[CKPT_PROBE_BYTES] = { 0 };
	uint64_t size;
	bool inside;

	if (ckpt_container_open(f->path, &source, &inside, NULL) < 0)
		return;
	size = ckpt_source_size(source) < sizeof(head) ? ckpt_source_size(source) : sizeof(head);
	if (ckpt_source_read(source, 0, head, (size_t)size, NULL) == 0) {
		f->first = head[0];
		f->is_server_error = is_server_error(head, (size_t)size);
		ckpt_identify(source, head, (size_t)size, &f->identity);
	}
	if (f->identity.nature == CKPT_NATURE_ZIP && !f->model) {
		f->is_cut_zip = ckpt_zip_open(source, &zip, NULL) == CKPT_E_NOTFOUND;
		ckpt_zip_close(zip);
	}
	ckpt_source_unref(source);
}

/* ---- dicts of tensors ---- */

struct dict_search {
	struct ckpt_why *w;
	struct ckpt_state_dict_finder finder;
};

/* A name that means this value alone. */
static const char *name_of(struct ckpt_why *w, const struct ckpt_walk_step *step)
{
	const char *name = ckpt_arena_copy(w->arena, step->name, step->name_len), *exact = NULL;
	const struct ckpt_value *value;
	struct ckpt_buf buf = { 0 };

	if (!name || !*name)
		return name;
	if (step->depth == 1 && !strchr(name, '.'))
		return name; /* the usual case, without a search */
	if (ckpt_model_find(w->facts.model, name, &value, NULL) == CKPT_E_ARG) {
		ckpt_walk_exact_name(step, &buf);
		exact = buf.bad ? NULL : ckpt_arena_copy(w->arena, buf.data, buf.len);
		ckpt_buf_clear(&buf);
		return exact;
	}
	return name;
}

static uint32_t count_tensors(const struct ckpt_model *model, const struct ckpt_seq *pairs)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i + 1 < pairs->count; i += 2)
		count += ckpt_value_is_tensor(model, ckpt_model_now(model, pairs->items[i + 1]));
	return count;
}

static bool has_text_keys(const struct ckpt_model *model, const struct ckpt_seq *pairs)
{
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(model, pairs->items[i]);

		if (key->kind == CKPT_STR || key->kind == CKPT_PY2_STR)
			return true;
	}
	return false;
}

static int add_dict(struct dict_search *l, const struct ckpt_walk_step *step,
		    const struct ckpt_seq *pairs, struct ckpt_error *err)
{
	struct ckpt_facts *f = &l->w->facts;
	struct ckpt_why_dict *dict = &f->dicts[f->dict_count];

	if (f->dict_count == CKPT_WHY_MOST_DICTS)
		return CKPT_WALK_SKIP;
	*dict = (struct ckpt_why_dict){ .name = name_of(l->w, step),
					.value = step->value,
					.pairs = pairs,
					.tensors = count_tensors(f->model, pairs) };
	if (!dict->name)
		return ckpt_arena_fail(l->w->arena, err);
	f->dict_count++;
	return dict->tensors < pairs->count / 2 ? CKPT_WALK_ENTER : CKPT_WALK_SKIP;
}

static const char *class_of(struct ckpt_why *w, const struct ckpt_value *v)
{
	const struct ckpt_value *func =
		v->kind == CKPT_CALL ? ckpt_model_now(w->facts.model, v->u.call->func) : NULL;

	if (!func || func->kind != CKPT_GLOBAL)
		return "a class";
	return ckpt_why_show(w, ckpt_why_print(w, "%s.%s", func->u.global->module,
					       func->u.global->name));
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct dict_search *l = ctx;
	struct ckpt_facts *f = &l->w->facts;
	const struct ckpt_value *v = step->value;
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	if (ckpt_value_is_tensor(f->model, v) || step->seen)
		return CKPT_WALK_SKIP;
	if (ckpt_is_module(f->model, v) && !ckpt_is_script_object(f->model, v)) {
		if (!f->module) {
			f->module = name_of(l->w, step);
			f->module_class = class_of(l->w, v);
		}
		return CKPT_WALK_SKIP;
	}
	if (ckpt_is_optimizer(f->model, v)) {
		if (!f->optimizer)
			f->optimizer = name_of(l->w, step);
		return CKPT_WALK_SKIP;
	}
	if (pairs && has_text_keys(f->model, pairs) && ckpt_holds_tensors(&l->finder, v))
		return add_dict(l, step, pairs, err);
	return CKPT_WALK_ENTER;
}

static int note_root(void *ctx, const struct ckpt_item *item)
{
	struct ckpt_why *w = ctx;

	w->facts.root_type = ckpt_why_show(w, item->type);
	w->facts.root_is_mapping = item->mapping;
	return 0;
}

int ckpt_facts_list_dicts(struct ckpt_why *w, struct ckpt_error *err)
{
	struct dict_search l = { .w = w };
	int rc = ckpt_state_dict_finder_init(&l.finder, w->facts.model, err);

	if (rc == 0)
		rc = ckpt_model_walk(w->facts.model, visit_value, &l, err);
	ckpt_state_dict_finder_clear(&l.finder);
	if (rc == 0)
		rc = ckpt_find(w->facts.model, "", note_root, w, err);
	return rc < 0 ? rc : 0;
}

/* ---- the whole ---- */

int ckpt_facts_read(struct ckpt_why *w, const char *path, struct ckpt_error *err)
{
	struct ckpt_facts *f = &w->facts;
	int rc;

	f->path = path;
	f->root_type = "";
	f->opening = (struct ckpt_error)CKPT_ERROR_INIT;
	f->folder = ckpt_set_is_folder(path) || ckpt_set_is_index(path);
	rc = ckpt_open(path, &f->model, &f->opening);
	if (rc == 0)
		rc = ckpt_list_tensors(f->model, &f->opening);
	if (rc == CKPT_E_NOMEM)
		return ckpt_fail_nomem(err);
	if (!f->folder)
		identify(f);
	if (rc < 0)
		return 0;
	f->file = (struct ckpt_file_info)CKPT_FILE_INFO_INIT;
	rc = ckpt_file_get(f->model, &f->file);
	w->report.opened = true;
	return rc == 0 ? ckpt_facts_list_dicts(w, err) : rc;
}

void ckpt_facts_clear(struct ckpt_facts *f)
{
	ckpt_quant_close(f->quant);
	ckpt_close(f->model);
	*f = (struct ckpt_facts){ 0 };
}

/* ---- looking up keys ---- */

int64_t ckpt_why_find(const struct ckpt_why *w, const struct ckpt_why_dict *dict, const char *key)
{
	size_t len = strlen(key);

	for (uint32_t i = 0; i + 1 < dict->pairs->count; i += 2) {
		const struct ckpt_value *k = ckpt_model_now(w->facts.model, dict->pairs->items[i]);

		if ((k->kind == CKPT_STR || k->kind == CKPT_PY2_STR) && k->u.bytes.len == len &&
		    !memcmp(k->u.bytes.ptr, key, len))
			return i;
	}
	return -1;
}

const struct ckpt_why_dict *ckpt_why_dict_with(const struct ckpt_why *w, const char *const *keys,
					       size_t count, size_t *hits)
{
	const struct ckpt_why_dict *best = NULL;

	enum { MOST_ASKED = 50 }; /* enough to tell the dicts apart */

	*hits = 0;
	for (uint32_t i = 0; i < w->facts.dict_count; i++) {
		size_t n = 0;

		for (size_t k = 0; k < count && k < MOST_ASKED; k++)
			n += ckpt_why_find(w, &w->facts.dicts[i], keys[k]) >= 0;
		if (n > *hits) {
			*hits = n;
			best = &w->facts.dicts[i];
		}
	}
	return best;
}

const struct ckpt_why_dict *ckpt_why_largest(const struct ckpt_why *w)
{
	const struct ckpt_why_dict *best = NULL;

	for (uint32_t i = 0; i < w->facts.dict_count; i++)
		if (!best || w->facts.dicts[i].tensors > best->tensors)
			best = &w->facts.dicts[i];
	return best;
}
