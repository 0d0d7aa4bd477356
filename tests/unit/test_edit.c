/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <ckpt/ckpt.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* strip-prefix, add-prefix and rename, on small checkpoints made here and on a real one. */

static struct ckpt_error err;
static struct ckpt_buf bytes; /* what the model under test reads from */

static int teardown(void **state)
{
	(void)state;
	ckpt_buf_clear(&bytes);
	return 0;
}

/* A checkpoint around a pickle without PROTO and STOP. */
static struct ckpt_model *open_pickle(const struct ckpt_buf *pickle, unsigned storages)
{
	struct ckpt_model *model;

	ckpt_buf_clear(&bytes);
	bytes = unit_torch_file(pickle, storages);
	if (ckpt_open_memory(bytes.data, bytes.len, &model, &err) < 0)
		fail_msg("%s", unit_message(&err));
	return model;
}

static struct ckpt_model *open_keys(const char *const *keys, size_t count)
{
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model;

	unit_put_state_dict(&pickle, keys, count);
	model = open_pickle(&pickle, (unsigned)count);
	ckpt_buf_clear(&pickle);
	return model;
}

static const char *name_of(const struct ckpt_model *model, uint64_t i)
{
	struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

	assert_int_equal(ckpt_tensor_get(model, i, &t), 0);
	return t.name;
}

/* The names of all tensors, comma between them, in a static buffer. */
static const char *names(const struct ckpt_model *model)
{
	static char text[2000];

	text[0] = '\0';
	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "," : "",
			 name_of(model, i));
	return text;
}

static struct ckpt_model *strip(const struct ckpt_model *model, const char *prefix,
				const struct ckpt_key_options *options, struct ckpt_edit_report *report)
{
	struct ckpt_model *out;

	if (ckpt_strip_prefix(model, prefix, options, &out, report, &err) < 0)
		fail_msg("%s", unit_message(&err));
	return out;
}

static void assert_stripped(const char *const *keys, size_t count, const char *prefix, bool anywhere,
			    const char *want)
{
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_model *model = open_keys(keys, count), *out;

	options.flags = anywhere ? CKPT_KEY_ANYWHERE : 0;
	out = strip(model, prefix, &options, NULL);
	ckpt_close(model); /* in any order */
	assert_string_equal(names(out), want);
	ckpt_close(out);
}

/* ---- prefixes ---- */

static const char *const ddp[] = { "module.a.weight", "module.a.bias", "other", "module.b",
				   "modules.c", "x.module.d" };

static void a_prefix_is_taken_off_and_entries_keep_their_place(void **state)
{
	(void)state;
	assert_stripped(ddp, 6, "module.", false, "a.weight,a.bias,other,b,modules.c,x.module.d");
}

static void a_missing_dot_is_added_so_that_only_whole_components_match(void **state)
{
	(void)state;
	assert_stripped(ddp, 6, "module", false, "a.weight,a.bias,other,b,modules.c,x.module.d");
	assert_stripped(ddp, 6, "mod", false,
			"module.a.weight,module.a.bias,other,module.b,modules.c,x.module.d");
}

static void anywhere_means_behind_every_dot(void **state)
{
	static const char *const keys[] = { "module.module.a", "x.module.y.module.z", "xmodule.a", "x.module" };

	(void)state;
	assert_stripped(keys, 4, "module.", false, "module.a,x.module.y.module.z,xmodule.a,x.module");
	assert_stripped(keys, 4, "module.", true, "a,x.y.z,xmodule.a,x.module");
}

static void a_prefix_of_several_components_is_one(void **state)
{
	static const char *const keys[] = { "a.b.c", "a.c", "a.b" };

	(void)state;
	assert_stripped(keys, 3, "a.b.", false, "c,a.c,a.b");
}

static void what_would_get_one_name_is_refused(void **state)
{
	static const char *const keys[] = { "module.a", "b", "a" };
	struct ckpt_model *model = open_keys(keys, 3), *out;

	(void)state;
	assert_int_equal(ckpt_strip_prefix(model, "module.", NULL, &out, NULL, &err), CKPT_E_CLASH);
	assert_string_equal(unit_text(&err), "'module.a' and 'a' in the state dict would both be named 'a'");
	assert_null(out);
	ckpt_close(model);
}

static void an_empty_prefix_is_refused(void **state)
{
	static const char *const keys[] = { "a" };
	struct ckpt_model *model = open_keys(keys, 1), *out;

	(void)state;
	assert_int_equal(ckpt_strip_prefix(model, "", NULL, &out, NULL, &err), CKPT_E_ARG);
	assert_string_equal(unit_text(&err), "the prefix is empty");
	assert_int_equal(ckpt_add_prefix(model, ".", NULL, &out, NULL, &err), CKPT_E_ARG);
	ckpt_close(model);
}

static void nothing_to_strip_is_no_error_and_is_reported(void **state)
{
	static const char *const keys[] = { "a", "b" };
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *model = open_keys(keys, 2), *out = strip(model, "module.", NULL, &report);

	(void)state;
	assert_int_equal(report.renamed, 0);
	assert_int_equal(report.state_dicts, 1);
	assert_int_equal(report.place_count, 0);
	assert_string_equal(names(out), "a,b");
	ckpt_close(out);
	ckpt_close(model);
}

static void a_prefix_is_put_before_every_key(void **state)
{
	static const char *const keys[] = { "a.weight", "", "module.b" };
	struct ckpt_model *model = open_keys(keys, 3), *out, *back;

	(void)state;
	assert_int_equal(ckpt_add_prefix(model, "module.", NULL, &out, NULL, &err), 0);
	assert_string_equal(names(out), "module.a.weight,module.,module.module.b");
	back = strip(out, "module.", NULL, NULL);
	assert_string_equal(names(back), names(model));
	ckpt_close(back);
	ckpt_close(out);
	ckpt_close(model);
}

static void a_file_without_a_state_dict_gets_no_prefix(void **state)
{
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model, *out;

	(void)state;
	ckpt_buf_printf(&pickle, "}");
	model = open_pickle(&pickle, 0);
	assert_int_equal(ckpt_add_prefix(model, "module.", NULL, &out, NULL, &err), CKPT_E_NOTFOUND);
	assert_string_equal(unit_text(&err), "no state dict of a module was found");
	assert_null(out);
	ckpt_close(model);
	ckpt_buf_clear(&pickle);
}

/* ---- several state dicts, and what stands beside them ---- */

/* {"model": {module.a}, "ema": {module.b}, "optimizer": {"state": {}, "param_groups": [...]}} */
static struct ckpt_model *open_trainer(void)
{
	static const char *const a[] = { "module.a" };
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model;

	ckpt_buf_printf(&pickle, "}(");
	unit_put_str(&pickle, "model");
	unit_put_state_dict(&pickle, a, 1);
	unit_put_str(&pickle, "e.ma");
	unit_put_state_dict(&pickle, a, 1);
	unit_put_str(&pickle, "optimizer");
	ckpt_buf_printf(&pickle, "}(");
	unit_put_str(&pickle, "state");
	ckpt_buf_printf(&pickle, "}");
	unit_put_str(&pickle, "param_groups");
	ckpt_buf_printf(&pickle, "](}(");
	unit_put_str(&pickle, "params");
	ckpt_buf_printf(&pickle, "](");
	unit_put_str(&pickle, "module.a");
	unit_put_str(&pickle, "plain");
	ckpt_buf_printf(&pickle, "e");
	unit_put_str(&pickle, "param_names");
	ckpt_buf_printf(&pickle, "](");
	unit_put_str(&pickle, "module.a");
	ckpt_buf_printf(&pickle, "euee");
	pickle.len -= 1; /* one item in the list of groups */
	ckpt_buf_printf(&pickle, "uu");
	model = open_pickle(&pickle, 1);
	ckpt_buf_clear(&pickle);
	return model;
}

struct seen {
	char text[4000];
};

static int see(void *ctx, const struct ckpt_item *item)
{
	struct seen *s = ctx;

	if (item->kind == CKPT_ITEM_VALUE)
		snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text), "%s=%s;", item->name,
			 item->text);
	return 1;
}

static void every_state_dict_and_every_list_of_names_is_edited(void **state)
{
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *model = open_trainer(), *out = strip(model, "module.", NULL, &report);
	struct seen seen = { "" };

	(void)state;
	assert_string_equal(names(out), "model.a,e.ma.a");
	assert_int_equal(report.renamed, 2);
	assert_int_equal(report.names_renamed, 2);
	assert_int_equal(report.place_count, 2);
	assert_string_equal(report.places[0].name, "model");
	assert_string_equal(report.places[1].name, "e.ma");
	assert_int_equal(report.places[1].renamed, 1);
	assert_int_equal(ckpt_walk(out, see, &seen, &err), 0);
	assert_string_equal(seen.text, "optimizer.param_groups.0.params.0='a';"
				       "optimizer.param_groups.0.params.1='plain';"
				       "optimizer.param_groups.0.param_names.0='a';");
	ckpt_close(out);
	ckpt_close(model);
}

static void at_limits_the_edit(void **state)
{
	static const struct {
		const char *at, *want;
	} table[] = {
		{ "model", "model.a,e.ma.module.a" },
		{ "e.ma", "model.module.a,e.ma.a" },
		{ "[\"e.ma\"]", "model.module.a,e.ma.a" }, /* the exact form of the same name */
		{ "", "model.a,e.ma.a" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
		struct ckpt_model *model = open_trainer(), *out;

		options.at = &table[i].at;
		options.at_count = 1;
		out = strip(model, "module.", &options, NULL);
		assert_string_equal(names(out), table[i].want);
		ckpt_close(out);
		ckpt_close(model);
	}
}

static void a_name_that_is_not_there_is_an_error(void **state)
{
	static const char *const at[] = { "model", "e" }; /* a part of the key 'e.ma' */
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_model *model = open_trainer(), *out;

	(void)state;
	options.at = at;
	options.at_count = 2;
	assert_int_equal(ckpt_strip_prefix(model, "module.", &options, &out, NULL, &err), CKPT_E_NOTFOUND);
	assert_string_equal(unit_text(&err), "no mapping is named 'e'");
	assert_null(out);
	ckpt_close(model);
}

static void a_state_dict_under_two_names_is_edited_once(void **state)
{
	static const char *const keys[] = { "module.module.a" };
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model, *out;

	(void)state;
	unit_put_state_dict(&pickle, keys, 1);
	ckpt_buf_printf(&pickle, "2\x86"); /* DUP, TUPLE2 */
	model = open_pickle(&pickle, 1);
	out = strip(model, "module.", NULL, &report);
	assert_int_equal(report.renamed, 1);
	assert_string_equal(name_of(out, 0), "0.module.a");
	ckpt_close(out);
	ckpt_close(model);
	ckpt_buf_clear(&pickle);
}

static void prefixes_are_counted(void **state)
{
	struct ckpt_prefix_count count = CKPT_PREFIX_COUNT_INIT;
	struct ckpt_model *model = open_keys(ddp, 6);

	(void)state;
	assert_int_equal(ckpt_count_prefix(model, "module.", &count, &err), 0);
	assert_int_equal(count.with_prefix, 3);
	assert_int_equal(count.keys, 6);
	count = (struct ckpt_prefix_count){ .size = sizeof(count) };
	assert_int_equal(ckpt_count_prefix(model, "model.", &count, &err), 0);
	assert_int_equal(count.with_prefix, 0);
	ckpt_close(model);
}

static void several_prefixes_are_counted_at_once(void **state)
{
	static const char *const prefixes[] = { "none.", "module." }, *const empty[] = { "module.", "" };
	struct ckpt_prefix_count counts[2] = { CKPT_PREFIX_COUNT_INIT };
	const char *many[65];
	struct ckpt_model *model = open_keys(ddp, 6);

	(void)state;
	assert_int_equal(ckpt_count_prefixes(model, prefixes, 2, counts, &err), 0);
	assert_int_equal(counts[0].with_prefix, 0);
	assert_int_equal(counts[1].size, sizeof(counts[1]));
	assert_int_equal(counts[1].with_prefix, 3);
	assert_int_equal(counts[1].keys, 6);
	assert_int_equal(ckpt_count_prefixes(model, prefixes, 0, counts, &err), 0);
	assert_int_equal(ckpt_count_prefixes(model, empty, 2, counts, &err), CKPT_E_ARG);
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = "a";
	assert_int_equal(ckpt_count_prefixes(model, many, COUNT(many), NULL, &err), CKPT_E_ARG);
	ckpt_close(model);
}

static void a_struct_of_another_size_is_refused(void **state)
{
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_save_options save = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_prefix_count count = CKPT_PREFIX_COUNT_INIT;
	struct ckpt_model *model = open_keys(ddp, 6), *out;
	static const size_t sizes[] = { 0, 7, 4097 };

	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		options.size = report.size = save.size = count.size = sizes[i];
		assert_int_equal(ckpt_strip_prefix(model, "a", &options, &out, NULL, &err), CKPT_E_ARG);
		assert_int_equal(ckpt_strip_prefix(model, "a", NULL, &out, &report, &err), CKPT_E_ARG);
		assert_int_equal(ckpt_add_prefix(model, "a", NULL, &out, &report, &err), CKPT_E_ARG);
		assert_int_equal(ckpt_count_prefix(model, "a", &count, &err), CKPT_E_ARG);
		assert_int_equal(ckpt_save(model, "none", &save, NULL, &err), CKPT_E_ARG);
		assert_null(out);
	}
	ckpt_close(model);
}

/* A caller that was built when there was less to report. */
static void a_shorter_report_is_filled_as_far_as_it_goes(void **state)
{
	struct ckpt_edit_report report;
	struct ckpt_model *model = open_keys(ddp, 6), *out;

	(void)state;
	memset(&report, 0x55, sizeof(report));
	report.size = offsetof(struct ckpt_edit_report, metadata_renamed);
	assert_int_equal(ckpt_strip_prefix(model, "module.", NULL, &out, &report, &err), 0);
	assert_int_equal(report.renamed, 3);
	assert_int_equal(report.size, offsetof(struct ckpt_edit_report, metadata_renamed));
	assert_int_equal(report.metadata_renamed, 0x5555555555555555);
	ckpt_close(out);
	ckpt_close(model);
}

/* ---- rename ---- */

static void assert_renamed(const char *const *expressions, size_t count, const char *want)
{
	static const char *const keys[] = { "backbone.a.gamma", "backbone.b.beta", "head.0.x", "a.a.a" };
	struct ckpt_model *model = open_keys(keys, 4), *out;

	if (ckpt_rename(model, expressions, count, NULL, &out, NULL, &err) < 0)
		fail_msg("%s: %s", expressions[0], unit_message(&err));
	assert_string_equal(names(out), want);
	ckpt_close(out);
	ckpt_close(model);
}

static void expressions_replace_what_they_match(void **state)
{
	static const struct {
		const char *expression, *want;
	} table[] = {
		{ "s/^backbone\\.(.*)/encoder.\\1/", "encoder.a.gamma,encoder.b.beta,head.0.x,a.a.a" },
		{ "s/^backbone.a.*//", ",backbone.b.beta,head.0.x,a.a.a" },
		{ "s/gamma$/weight/", "backbone.a.weight,backbone.b.beta,head.0.x,a.a.a" },
		{ "s/a\\./b./", "backbone.b.gamma,backbone.b.beta,head.0.x,b.a.a" },
		{ "s/a\\./b./g", "backbone.b.gamma,backbone.b.beta,head.0.x,b.b.a" },
		{ "s/HEAD/tail/i", "backbone.a.gamma,backbone.b.beta,tail.0.x,a.a.a" },
		{ "s|head|a/b|", "backbone.a.gamma,backbone.b.beta,a/b.0.x,a.a.a" },
		{ "s/(?<n>head)\\.(\\d)/\\g<2>.\\g<n>/", "backbone.a.gamma,backbone.b.beta,0.head.x,a.a.a" },
		{ "s/head/a$1\\\\/", "backbone.a.gamma,backbone.b.beta,a$1\\.0.x,a.a.a" },
		{ "s/head/x\\/y/", "backbone.a.gamma,backbone.b.beta,x/y.0.x,a.a.a" },
		{ "s/nothing/x/", "backbone.a.gamma,backbone.b.beta,head.0.x,a.a.a" },
		{ "s/^(a)\\.(a)/\\2-\\1-\\g<0>/", "backbone.a.gamma,backbone.b.beta,head.0.x,a-a-a.a.a" },
		{ "s/$/.end/", "backbone.a.gamma.end,backbone.b.beta.end,head.0.x.end,a.a.a.end" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		assert_renamed(&table[i].expression, 1, table[i].want);
}

static void expressions_apply_in_the_order_given(void **state)
{
	static const char *const forward[] = { "s/^head/a/", "s/^a/b/" };
	static const char *const backward[] = { "s/^a/b/", "s/^head/a/" };

	(void)state;
	assert_renamed(forward, 2, "backbone.a.gamma,backbone.b.beta,b.0.x,b.a.a");
	assert_renamed(backward, 2, "backbone.a.gamma,backbone.b.beta,a.0.x,b.a.a");
}

static void wrong_expressions_are_named(void **state)
{
	static const struct {
		const char *expression, *message;
	} table[] = {
		{ "x", "expression 'x': wanted s/PATTERN/REPLACEMENT/" },
		{ "", "expression '': wanted s/PATTERN/REPLACEMENT/" },
		{ "s", "expression 's': wanted s/PATTERN/REPLACEMENT/" },
		{ "s/a", "expression 's/a': wanted s/PATTERN/REPLACEMENT/, a delimiter is missing" },
		{ "s/a/b", "expression 's/a/b': wanted s/PATTERN/REPLACEMENT/, a delimiter is missing" },
		{ "s/a/b/x", "expression 's/a/b/x': only the flags g and i are known" },
		{ "s/(/b/", "expression 's/(/b/': missing closing parenthesis" },
		{ "s/a/\\1/", "expression 's/a/\\\\1/': the replacement names group '1', the pattern has none of that name" },
		{ "s/(a+)+$/\\g<x>/", "expression 's/(a+)+$/\\\\g<x>/': the replacement names group 'x', the pattern has none of that name" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		static const char *const keys[] = { "a" };
		struct ckpt_model *model = open_keys(keys, 1), *out;

		assert_int_equal(ckpt_rename(model, &table[i].expression, 1, NULL, &out, NULL, &err), CKPT_E_ARG);
		assert_string_equal(unit_text(&err), table[i].message);
		assert_null(out);
		ckpt_close(model);
	}
}

static void names_that_would_clash_are_refused_by_rename(void **state)
{
	static const char *const keys[] = { "a.x", "b.x", "c" }, *const expression[] = { "s/^[ab]/n/" };
	struct ckpt_model *model = open_keys(keys, 3), *out;

	(void)state;
	assert_int_equal(ckpt_rename(model, expression, 1, NULL, &out, NULL, &err), CKPT_E_CLASH);
	assert_string_equal(unit_text(&err), "'a.x' and 'b.x' in the state dict would both be named 'n.x'");
	ckpt_close(model);
}

/* {'m': {'module.a': tensor}, 'optim': {'param_groups': [{'params': [FIRST]}, {'params': [SECOND]}]}} */
static struct ckpt_model *open_groups(const char *first, const char *second)
{
	static const char *const a[] = { "module.a" };
	const char *const names[] = { first, second };
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model;

	ckpt_buf_printf(&pickle, "}(");
	unit_put_str(&pickle, "m");
	unit_put_state_dict(&pickle, a, 1);
	unit_put_str(&pickle, "optim");
	ckpt_buf_printf(&pickle, "}(");
	unit_put_str(&pickle, "param_groups");
	ckpt_buf_printf(&pickle, "](");
	for (int i = 0; i < 2; i++) {
		ckpt_buf_printf(&pickle, "}(");
		unit_put_str(&pickle, "params");
		ckpt_buf_printf(&pickle, "](");
		unit_put_str(&pickle, names[i]);
		ckpt_buf_printf(&pickle, "eu");
	}
	ckpt_buf_printf(&pickle, "euu");
	model = open_pickle(&pickle, 1);
	ckpt_buf_clear(&pickle);
	return model;
}

static void one_name_in_two_groups_of_an_optimizer_is_refused(void **state)
{
	struct ckpt_model *model = open_groups("module.a", "a"), *out;

	(void)state;
	assert_int_equal(ckpt_strip_prefix(model, "module.", NULL, &out, NULL, &err), CKPT_E_CLASH);
	assert_string_equal(unit_text(&err), "'module.a' and 'a' in 'param_groups' would both be named 'a'");
	ckpt_close(model);
	model = open_groups("module.a", "module.a"); /* as it was before */
	assert_int_equal(ckpt_strip_prefix(model, "module.", NULL, &out, NULL, &err), 0);
	ckpt_close(out);
	ckpt_close(model);
}

/* {'groups': {'names': [NAME], 'w': tensor}, 'optim': {'param_groups': [{'params': ['module.a']}, the same dict]}} */
static struct ckpt_model *open_shared_group(const char *name)
{
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model;

	ckpt_buf_printf(&pickle, "}(");
	unit_put_str(&pickle, "groups");
	ckpt_buf_printf(&pickle, "}q\xc8(");
	unit_put_str(&pickle, "names");
	ckpt_buf_printf(&pickle, "](");
	unit_put_str(&pickle, name);
	ckpt_buf_printf(&pickle, "e");
	unit_put_str(&pickle, "w");
	unit_put_tensor(&pickle, "0", 1);
	ckpt_buf_printf(&pickle, "u");
	unit_put_str(&pickle, "optim");
	ckpt_buf_printf(&pickle, "}(");
	unit_put_str(&pickle, "param_groups");
	ckpt_buf_printf(&pickle, "](}(");
	unit_put_str(&pickle, "params");
	ckpt_buf_printf(&pickle, "](");
	unit_put_str(&pickle, "module.a");
	ckpt_buf_printf(&pickle, "euh\xc8" "euu");
	model = open_pickle(&pickle, 1);
	ckpt_buf_clear(&pickle);
	return model;
}

static void a_list_that_becomes_that_of_a_group_is_held_against_the_others(void **state)
{
	static const char *const expressions[] = { "s/^names$/params/", "s/^module\\.//" };
	static const char *const at[] = { "groups", "optim" };
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_model *model = open_shared_group("module.a"), *out;

	(void)state;
	options.at = at;
	options.at_count = 2;
	assert_int_equal(ckpt_rename(model, expressions, 2, &options, &out, NULL, &err), 0);
	ckpt_close(out);
	ckpt_close(model);
	model = open_shared_group("a");
	assert_int_equal(ckpt_rename(model, expressions, 2, &options, &out, NULL, &err), CKPT_E_CLASH);
	assert_string_equal(unit_text(&err), "'module.a' and 'a' in 'param_groups' would both be named 'a'");
	ckpt_close(model);
}

static void names_may_be_swapped(void **state)
{
	static const char *const keys[] = { "a.x", "b.x" };
	static const char *const expressions[] = { "s/^a\\./tmp./", "s/^b\\./a./", "s/^tmp\\./b./" };
	struct ckpt_model *model = open_keys(keys, 2), *out;

	(void)state;
	assert_int_equal(ckpt_rename(model, expressions, 3, NULL, &out, NULL, &err), 0);
	assert_string_equal(names(out), "b.x,a.x");
	ckpt_close(out);
	ckpt_close(model);
}

static void a_pattern_that_takes_forever_is_stopped(void **state)
{
	static const char *const keys[] = { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" };
	static const char *const expression[] = { "s/^(a|aa|a+)+$/x/" };
	struct ckpt_model *model = open_keys(keys, 1), *out;

	(void)state;
	assert_true(ckpt_rename(model, expression, 1, NULL, &out, NULL, &err) < 0);
	assert_non_null(strstr(unit_message(&err), "match limit exceeded"));
	ckpt_close(model);
}

/* ---- a real one ---- */

static void a_real_checkpoint_becomes_what_torch_makes_of_it(void **state)
{
	static const char *const files[] = { "ddp_model.pt", "ddp_trainer.pt" };
	char *folder = unit_folder_new(), path[200];

	(void)state;
	for (size_t i = 0; i < COUNT(files); i++) {
		struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
		struct ckpt_model *model, *out, *with, *back;
		struct ckpt_buf found, want;
		char *in, *expected, *to = unit_path(folder, files[i]);

		snprintf(path, sizeof(path), "ddp/%s", files[i]);
		in = unit_fixture(path);
		snprintf(path, sizeof(path), "ddp/expected/%s", files[i]);
		expected = unit_fixture(path);
		assert_int_equal(ckpt_open(in, &model, &err), 0);
		out = strip(model, "module.", NULL, NULL);
		assert_int_equal(ckpt_save(out, to, &options, NULL, &err), 0);
		found = unit_read_file(to);
		want = unit_read_file(expected);
		assert_int_equal(found.len, want.len);
		assert_memory_equal(found.data, want.data, want.len);
		ckpt_buf_clear(&found);
		/* on and off again changes nothing */
		assert_int_equal(ckpt_add_prefix(out, "module.", NULL, &with, NULL, &err), 0);
		back = strip(with, "module.", NULL, NULL);
		options.flags = CKPT_SAVE_REPLACE;
		assert_int_equal(ckpt_save(back, to, &options, NULL, &err), 0);
		found = unit_read_file(to);
		assert_int_equal(found.len, want.len);
		assert_memory_equal(found.data, want.data, want.len);
		ckpt_buf_clear(&found);
		ckpt_buf_clear(&want);
		ckpt_close(with);
		ckpt_close(back);
		ckpt_close(out);
		ckpt_close(model);
		free(in);
		free(expected);
		free(to);
	}
	unit_folder_remove(folder);
}

#define CLEAN(f) cmocka_unit_test_teardown(f, teardown)

UNIT_SUITE(test_edit)
{
	const struct CMUnitTest tests[] = {
		CLEAN(a_prefix_is_taken_off_and_entries_keep_their_place),
		CLEAN(a_missing_dot_is_added_so_that_only_whole_components_match),
		CLEAN(anywhere_means_behind_every_dot),
		CLEAN(a_prefix_of_several_components_is_one),
		CLEAN(what_would_get_one_name_is_refused),
		CLEAN(an_empty_prefix_is_refused),
		CLEAN(nothing_to_strip_is_no_error_and_is_reported),
		CLEAN(a_prefix_is_put_before_every_key),
		CLEAN(a_file_without_a_state_dict_gets_no_prefix),
		CLEAN(every_state_dict_and_every_list_of_names_is_edited),
		CLEAN(at_limits_the_edit),
		CLEAN(a_name_that_is_not_there_is_an_error),
		CLEAN(a_state_dict_under_two_names_is_edited_once),
		CLEAN(prefixes_are_counted), CLEAN(several_prefixes_are_counted_at_once), CLEAN(a_struct_of_another_size_is_refused),
		CLEAN(a_shorter_report_is_filled_as_far_as_it_goes),
		CLEAN(expressions_replace_what_they_match),
		CLEAN(expressions_apply_in_the_order_given),
		CLEAN(wrong_expressions_are_named),
		CLEAN(names_that_would_clash_are_refused_by_rename),
		CLEAN(one_name_in_two_groups_of_an_optimizer_is_refused),
		CLEAN(a_list_that_becomes_that_of_a_group_is_held_against_the_others),
		CLEAN(names_may_be_swapped),
		CLEAN(a_pattern_that_takes_forever_is_stopped),
		CLEAN(a_real_checkpoint_becomes_what_torch_makes_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
