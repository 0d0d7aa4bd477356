/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt rename --map`: whole keys of state dicts get other names, all at once (keys.c).
 *
 * A map says nothing of modules. The entry of a module in `_metadata` follows the keys below it: where all of them
 * go to one place, "a.b.weight" to "c.weight" and "a.b.bias" to "c.bias", the module does, too. A module without
 * keys (an activation) follows the module that it is in. That is found out for each state dict with a `_metadata`
 * before its keys get their names.
 */
#include "edit/keys.h"

#include "base/strmap.h"
#include "base/text.h"
#include "model/state_dict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 64 }; /* of a module's name that are looked at: a hostile one has very many dots */

/* Where the keys below a module go; NULL: not to one place. */
struct module {
	const char *to;
	size_t len;
};

struct mapper {
	struct ckpt_name_pair *pairs;
	size_t count;
	bool skip_absent;
	struct ckpt_strmap names;   /* FROM of a pair: its number */
	struct ckpt_strmap modules; /* of the state dict at hand: number in FOUND */
	struct module *found;
	size_t found_count, found_cap;
};

static int fail_twice(const char *a, const char *b, const char *to, struct ckpt_error *err)
{
	char one[100], other[100], name[100];

	return ckpt_fail(err, CKPT_E_ARG, "the map names both '%s' and '%s' '%s'",
			 ckpt_escape(one, sizeof(one), a, strlen(a)),
			 ckpt_escape(other, sizeof(other), b, strlen(b)),
			 ckpt_escape(name, sizeof(name), to, strlen(to)));
}

/* Neither an old name nor a new one may be there twice. */
static int check_pairs(struct mapper *m, struct ckpt_error *err)
{
	struct ckpt_strmap targets = { 0 };
	char name[160];
	int rc = 0;

	if (!ckpt_strmap_reserve(&m->names, m->count) || !ckpt_strmap_reserve(&targets, m->count))
		rc = ckpt_fail_nomem(err);
	for (size_t i = 0; rc == 0 && i < m->count; i++) {
		const char *from = m->pairs[i].from, *to = m->pairs[i].to;
		bool from_there, to_there;
		uint64_t *other = ckpt_strmap_insert(&targets, to, strlen(to), i, &to_there);

		m->pairs[i].renamed = 0;
		if (!other || !ckpt_strmap_insert(&m->names, from, strlen(from), i, &from_there))
			rc = ckpt_fail_nomem(err);
		else if (from_there)
			rc = ckpt_fail(err, CKPT_E_ARG, "'%s' is in the map twice",
				       ckpt_escape(name, sizeof(name), from, strlen(from)));
		else if (to_there)
			rc = fail_twice(m->pairs[*other].from, from, to, err);
	}
	ckpt_strmap_clear(&targets);
	return rc;
}

static struct ckpt_name_pair *find_pair(const struct mapper *m, const char *key, size_t len)
{
	const uint64_t *i = ckpt_strmap_find(&m->names, key, len);

	return i ? &m->pairs[*i] : NULL;
}

/* ---- modules ---- */

/* Of the key that begins with the module's name, LEN bytes: the same of its new name. */
static struct module target_of(const char *key, size_t key_len, size_t len, const char *to)
{
	size_t rest = key_len - len, to_len = strlen(to); /* ".weight" */

	if (to_len > rest && !memcmp(to + to_len - rest, key + len, rest))
		return (struct module){ to, to_len - rest };
	if (to_len == rest - 1 && !memcmp(to, key + len + 1, to_len))
		return (struct module){ to, 0 }; /* "a.weight" to "weight": the root */
	return (struct module){ NULL, 0 };
}

static bool add_module(struct mapper *m, const char *name, size_t len, struct module to)
{
	bool there;
	uint64_t *i = ckpt_strmap_insert(&m->modules, name, len, m->found_count, &there);
	struct module *have;

	if (!i)
		return false;
	if (!there) {
		if (m->found_count == m->found_cap) {
			size_t cap = m->found_cap ? 2 * m->found_cap : 64;
			struct module *grown = realloc(m->found, cap * sizeof(*grown));

			if (!grown)
				return false;
			m->found = grown;
			m->found_cap = cap;
		}
		m->found[m->found_count++] = to;
		return true;
	}
	have = &m->found[*i];
	if (have->to && (!to.to || to.len != have->len || memcmp(to.to, have->to, to.len)))
		have->to = NULL;
	return true;
}

/* All modules that the key is below of. */
static bool add_modules_of(struct mapper *m, const char *key, size_t len)
{
	const struct ckpt_name_pair *pair = find_pair(m, key, len);
	int parts = 0;

	for (size_t i = 1; i < len && parts < MOST_PARTS; i++) {
		struct module to = { key, i };

		if (key[i] != '.')
			continue;
		parts++;
		if (pair)
			to = target_of(key, len, i, pair->to);
		if (!add_module(m, key, i, to))
			return false;
	}
	return true;
}

static int begin_state_dict(void *ctx, const struct ckpt_model *model,
			    const struct ckpt_value *state_dict, struct ckpt_error *err)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(state_dict);
	struct mapper *m = ctx;

	ckpt_strmap_clear(&m->modules);
	m->found_count = 0;
	if (!ckpt_state_dict_metadata(model, state_dict))
		return 0;
	for (uint32_t i = 0; i < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(model, pairs->items[i]);

		if (ckpt_value_is_text(key) &&
		    !add_modules_of(m, key->u.bytes.ptr, key->u.bytes.len))
			return ckpt_fail_nomem(err);
	}
	return 0;
}

static int rename_module(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
			 struct ckpt_error *err)
{
	const struct mapper *m = ctx;
	const struct module *to = NULL;
	/* bytes of the module, or of one that it is in, below which there are keys */
	size_t known = 0;

	(void)err;
	for (int parts = 0; known < len && parts < MOST_PARTS; parts++)
		for (known++; known < len && key[known] != '.'; known++)
			;
	while (known) {
		const uint64_t *i = ckpt_strmap_find(&m->modules, key, known);

		if (i) {
			to = &m->found[*i];
			break;
		}
		for (known--; known && key[known] != '.'; known--)
			;
	}
	if (!to || !to->to || (to->len == known && !memcmp(to->to, key, known)))
		return 0;
	ckpt_buf_add(out, to->to, to->len);
	if (known < len && !to->len)
		known++; /* no dot in front */
	ckpt_buf_add(out, key + known, len - known);
	return 1;
}

/* ---- keys ---- */

static int rename_key(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
		      struct ckpt_error *err)
{
	struct ckpt_name_pair *pair = find_pair(ctx, key, len);
	size_t to_len;

	(void)err;
	if (!pair)
		return 0;
	pair->renamed++;
	to_len = strlen(pair->to);
	ckpt_buf_add(out, pair->to, to_len);
	return to_len != len || memcmp(pair->to, key, len);
}

/* The names that no key has go into the report, or are an error. */
static int check_absent(void *ctx, struct ckpt_arena *arena, struct ckpt_edit_report *report,
			struct ckpt_error *err)
{
	const struct mapper *m = ctx;
	const char **unused;
	size_t absent = 0, n = 0;
	char name[160], others[64] = "";

	for (size_t i = 0; i < m->count; i++)
		absent += !m->pairs[i].renamed;
	unused = absent ? ckpt_arena_alloc(arena, absent * sizeof(*unused)) : NULL;
	if (absent && !unused)
		return ckpt_arena_fail(arena, err);
	for (size_t i = 0; i < m->count; i++)
		if (!m->pairs[i].renamed)
			unused[n++] = m->pairs[i].from;
	report->unused = unused;
	report->unused_count = absent;
	if (!absent || m->skip_absent)
		return 0;
	if (absent > 1)
		snprintf(others, sizeof(others), ", nor like %zu others of the %zu in the map",
			 absent - 1, m->count);
	return ckpt_fail(err, CKPT_E_NOTFOUND, "no key is named '%s'%s",
			 ckpt_escape(name, sizeof(name), unused[0], strlen(unused[0])), others);
}

int ckpt_rename_map(const struct ckpt_model *model, struct ckpt_name_pair *pairs, size_t count,
		    const struct ckpt_key_options *options, struct ckpt_model **out,
		    struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct ckpt_key_options o = CKPT_KEY_OPTIONS_INIT;
	struct mapper m = { .pairs = pairs, .count = count };
	struct ckpt_key_edit edit = { .begin = begin_state_dict,
				      .rename = rename_key,
				      .rename_module = rename_module,
				      .end = check_absent,
				      .only_direct = true,
				      .joins_modules = true,
				      .ctx = &m };
	int rc = ckpt_model_whole(&model, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_key_options_take(&o, options, err);
	m.skip_absent = o.flags & CKPT_KEY_SKIP_ABSENT;
	if (rc == 0)
		rc = check_pairs(&m, err);
	if (rc == 0)
		rc = ckpt_model_edit_keys(model, &edit, options, out, report, err);
	ckpt_strmap_clear(&m.names);
	ckpt_strmap_clear(&m.modules);
	free(m.found);
	return rc;
}
