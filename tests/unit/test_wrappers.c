/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/state_dict.h"

#include <ckpt/ckpt.h>

#include <stdio.h>
#include <string.h>

/* What wrappers put into names, and what a map makes of them: of keys, and of modules in `_metadata`. */

static struct ckpt_error err;
static struct ckpt_buf bytes; /* what the model under test reads from */

static int teardown(void **state)
{
	(void)state;
	ckpt_buf_clear(&bytes);
	return 0;
}

/* A state dict with KEYS; its `_metadata` has a number for each of MODULES: 0, 1 ... */
static struct ckpt_model *open_module(const char *const *keys, const char *const *modules)
{
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model;
	size_t count = 0;

	while (keys[count])
		count++;
	unit_put_state_dict(&pickle, keys, count);
	ckpt_buf_printf(&pickle, "}");
	unit_put_str(&pickle, "_metadata");
	ckpt_buf_printf(&pickle, "ccollections\nOrderedDict\n)R(");
	for (size_t i = 0; modules[i]; i++) {
		unit_put_str(&pickle, modules[i]);
		ckpt_buf_printf(&pickle, "I%zu\n", i);
	}
	ckpt_buf_printf(&pickle, "usb");
	ckpt_buf_clear(&bytes);
	bytes = unit_torch_file(&pickle, (unsigned)count);
	ckpt_buf_clear(&pickle);
	if (ckpt_open_memory(bytes.data, bytes.len, &model, &err) < 0)
		fail_msg("%s", unit_message(&err));
	return model;
}

/* "a.w,b.w | =1,a=2": the tensors, and the modules with their numbers; in a static buffer. */
static const char *names(const struct ckpt_model *model)
{
	const struct ckpt_value *metadata =
		ckpt_state_dict_metadata(model, ckpt_model_now(model, model->root));
	const struct ckpt_seq *pairs = ckpt_value_pairs(metadata);
	static char text[2000];
	size_t len = 0;

	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++) {
		struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

		assert_int_equal(ckpt_tensor_get(model, i, &t), 0);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "," : "",
					t.name);
	}
	len += (size_t)snprintf(text + len, sizeof(text) - len, " | ");
	for (uint32_t i = 0; i < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(model, pairs->items[i]);
		const struct ckpt_value *number = ckpt_model_now(model, pairs->items[i + 1]);

		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s=%d", i ? "," : "",
					(int)key->u.bytes.len, key->u.bytes.ptr,
					(int)number->u.integer);
	}
	return text;
}

static void a_module_takes_the_place_of_the_wrapper_around_it(void **state)
{
	static const char *const keys[] = { "stem.w", "layers.0._orig_mod.w", "layers.1.w", NULL };
	static const char *const modules[] = {
		"", "stem", "layers", "layers.0", "layers.0._orig_mod", "layers.1", NULL
	};
	static const char *const twice[] = { "module.module.w", NULL };
	static const char *const roots[] = { "", "module", "module.module", NULL };
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_model *model = open_module(keys, modules), *out;

	(void)state;
	options.flags = CKPT_KEY_ANYWHERE;
	assert_int_equal(ckpt_strip_prefix(model, "_orig_mod.", &options, &out, NULL, &err), 0);
	assert_string_equal(
		names(out),
		"stem.w,layers.0.w,layers.1.w | =0,stem=1,layers=2,layers.0=4,layers.1=5");
	ckpt_close(out);
	ckpt_close(model);
	model = open_module(twice, roots);
	assert_int_equal(ckpt_strip_prefix(model, "module.", &options, &out, NULL, &err), 0);
	assert_string_equal(names(out), "w | =2");
	ckpt_close(out);
	ckpt_close(model);
}

static void a_module_goes_where_a_map_takes_all_its_keys(void **state)
{
	static const char *const keys[] = { "a.x.w", "a.x.b", "a.y.w", "c.w", "d.w", NULL };
	static const char *const modules[] = { "", "a", "a.x", "a.y", "a.relu", "a.x.drop", "c", "d", NULL };
	static const struct {
		struct ckpt_name_pair pairs[5];
		const char *want;
	} table[] = {
		{ { { "a.x.w", "b.x.w", 0 }, { "a.x.b", "b.x.b", 0 }, { "a.y.w", "b.y.w", 0 } },
		  "b.x.w,b.x.b,b.y.w,c.w,d.w | =0,b=1,b.x=2,b.y=3,b.relu=4,b.x.drop=5,c=6,d=7" },
		{ { { "a.x.w", "e.w", 0 }, { "a.x.b", "e.b", 0 } },
		  "e.w,e.b,a.y.w,c.w,d.w | =0,a=1,e=2,a.y=3,a.relu=4,e.drop=5,c=6,d=7" },
		{ { { "c.w", "d.w", 0 }, { "d.w", "c.w", 0 } },
		  "a.x.w,a.x.b,a.y.w,d.w,c.w | =0,a=1,a.x=2,a.y=3,a.relu=4,a.x.drop=5,d=6,c=7" },
		/* one of two, or another last word: the module stays */
		{ { { "a.x.w", "e.w", 0 }, { "c.w", "c.v", 0 } },
		  "e.w,a.x.b,a.y.w,c.v,d.w | =0,a=1,a.x=2,a.y=3,a.relu=4,a.x.drop=5,c=6,d=7" },
		/* two become one, and one the root */
		{ { { "c.w", "e.w", 0 }, { "d.w", "e.b.w", 0 }, { "a.y.w", "w", 0 } },
		  "a.x.w,a.x.b,w,e.w,e.b.w | =3,a=1,a.x=2,a.relu=4,a.x.drop=5,e=6,e.b=7" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct ckpt_model *model = open_module(keys, modules), *out;
		struct ckpt_name_pair pairs[5];
		size_t count = 0;

		memcpy(pairs, table[i].pairs, sizeof(pairs));
		while (count < 5 && pairs[count].from)
			count++;
		if (ckpt_rename_map(model, pairs, count, NULL, &out, NULL, &err) < 0)
			fail_msg("%s", unit_message(&err));
		assert_string_equal(names(out), table[i].want);
		for (size_t k = 0; k < count; k++)
			assert_int_equal(pairs[k].renamed, 1);
		ckpt_close(out);
		ckpt_close(model);
	}
}

static void a_map_is_all_or_nothing(void **state)
{
	static const char *const keys[] = { "a.w", "b.w", NULL };
	struct ckpt_name_pair pairs[] = { { "a.w", "c.w", 7 }, { "x", "d.w", 7 }, { "a.w", "e", 7 }, { "b.w", "c.w", 7 } };
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *model = open_module(keys, (const char *const[]){ "", NULL }), *out;

	(void)state;
	assert_int_equal(ckpt_rename_map(model, pairs, 2, NULL, &out, NULL, &err), CKPT_E_NOTFOUND);
	assert_null(out);
	assert_int_equal(pairs[0].renamed, 1);
	assert_int_equal(pairs[1].renamed, 0);
	options.flags = CKPT_KEY_SKIP_ABSENT;
	assert_int_equal(ckpt_rename_map(model, pairs, 2, &options, &out, &report, &err), 0);
	assert_int_equal(report.renamed, 1);
	assert_int_equal(report.unused_count, 1);
	assert_string_equal(report.unused[0], "x");
	ckpt_close(out);
	assert_int_equal(ckpt_rename_map(model, pairs, 3, NULL, &out, NULL, &err), CKPT_E_ARG);
	pairs[2].from = "y";
	assert_int_equal(ckpt_rename_map(model, pairs, 4, NULL, &out, NULL, &err), CKPT_E_ARG);
	pairs[0].to = "b.w";
	assert_int_equal(ckpt_rename_map(model, pairs, 1, NULL, &out, NULL, &err), CKPT_E_CLASH);
	ckpt_close(model);
}

static const char *const no_modules[] = { "", NULL };

static struct ckpt_model *strip(const struct ckpt_model *model, struct ckpt_edit_report *report)
{
	struct ckpt_model *out;

	if (ckpt_strip_wrappers(model, NULL, &out, report, &err) < 0)
		fail_msg("%s", unit_message(&err));
	return out;
}

static void wrappers_go_in_any_order_and_wherever_they_are(void **state)
{
	static const struct {
		const char *key, *want;
	} table[] = {
		{ "module.w", "w" },
		{ "_orig_mod.w", "w" },
		{ "_forward_module.w", "w" },
		{ "_fsdp_wrapped_module.w", "w" },
		{ "_checkpoint_wrapped_module.w", "w" },
		{ "module._orig_mod.module.w", "w" },
		{ "_orig_mod.module.net._fsdp_wrapped_module._checkpoint_wrapped_module.w",
		  "net.w" },
		{ "net.module.w", "net.w" },
		{ "a.module.b.module.c", "a.b.c" },
		/* no components, or the tensor's own name */
		{ "modules.w", "modules.w" },
		{ "my_module.w", "my_module.w" },
		{ "net.module", "net.module" },
		{ "module", "module" },
		{ "module.module", "module" },
		{ "module.", "module." },
		{ "_orig_mod..w", ".w" },
		{ "module.a.", "a." },
		{ "", "" },
		{ ".", "." },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		const char *const keys[] = { table[i].key, NULL };
		struct ckpt_model *model = open_module(keys, no_modules), *out = strip(model, NULL);
		char want[100];

		snprintf(want, sizeof(want), "%s | =0", table[i].want);
		assert_string_equal(names(out), want);
		ckpt_close(out);
		ckpt_close(model);
	}
}

static void modules_get_the_names_of_the_plain_model(void **state)
{
	static const char *const keys[] = { "module._orig_mod.stem.w",
					    "module._orig_mod.layers.0._orig_mod.w", NULL };
	static const char *const modules[] = { "",
					       "module",
					       "module._orig_mod",
					       "module._orig_mod.stem",
					       "module._orig_mod.layers",
					       "module._orig_mod.layers.0",
					       "module._orig_mod.layers.0._orig_mod",
					       NULL };
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *model = open_module(keys, modules), *out = strip(model, &report);

	(void)state;
	assert_string_equal(names(out), "stem.w,layers.0.w | =2,stem=3,layers=4,layers.0=6");
	assert_int_equal(report.renamed, 2);
	ckpt_close(out);
	ckpt_close(model);
}

static void keys_that_would_get_one_name_are_refused(void **state)
{
	static const char *const keys[] = { "module.a", "b", "_orig_mod.module.a", NULL };
	struct ckpt_model *model = open_module(keys, no_modules), *out;

	(void)state;
	assert_int_equal(ckpt_strip_wrappers(model, NULL, &out, NULL, &err), CKPT_E_CLASH);
	assert_string_equal(unit_text(&err),
			    "'module.a' and '_orig_mod.module.a' in the state dict "
			    "would both be named 'a'");
	assert_null(out);
	ckpt_close(model);
}

static int note(void *ctx, const struct ckpt_wrapper_count *count)
{
	char *text = ctx;

	assert_int_equal(count->size, sizeof(*count));
	snprintf(text + strlen(text), 200, "%s %d+%d of %d;", count->prefix, (int)count->first,
		 (int)count->inside, (int)count->keys);
	return 0;
}

static int stop(void *ctx, const struct ckpt_wrapper_count *count)
{
	(void)ctx;
	(void)count;
	return CKPT_E_CANCELLED;
}

static void wrappers_are_counted(void **state)
{
	static const struct {
		const char *keys[5], *want;
	} table[] = {
		{ { "module.a", "module._orig_mod.b", "_orig_mod.c", "d" },
		  "module. 2+0 of 4;_orig_mod. 1+1 of 4;" },
		{ { "a.module.b", "a.module", "module" }, "" },
		{ { "a.module._orig_mod.b", "c" }, "module. 0+1 of 2;_orig_mod. 0+1 of 2;" },
		{ { "a._fsdp_wrapped_module.b._checkpoint_wrapped_module.c" },
		  "_fsdp_wrapped_module. 0+1 of 1;_checkpoint_wrapped_module. 0+1 of 1;" },
		{ { "_forward_module.a", "_forward_module.b" }, "_forward_module. 2+0 of 2;" },
		{ { "module.module.a" }, "module. 1+0 of 1;" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct ckpt_model *model = open_module(table[i].keys, no_modules);
		char text[1000] = "";

		assert_int_equal(ckpt_count_wrappers(model, NULL, note, text, &err), 0);
		assert_string_equal(text, table[i].want);
		assert_int_equal(ckpt_count_wrappers(model, NULL, stop, NULL, &err),
				 *text ? CKPT_E_CANCELLED : 0);
		ckpt_close(model);
	}
}

static void counting_is_limited_by_at(void **state)
{
	static const char *const at[] = { "nope" };
	static const char *const keys[] = { "module.a", NULL };
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_model *model = open_module(keys, no_modules);
	char text[1000] = "";

	(void)state;
	options.at = at;
	options.at_count = 1;
	assert_int_equal(ckpt_count_wrappers(model, &options, note, text, &err), CKPT_E_NOTFOUND);
	assert_string_equal(text, "");
	ckpt_close(model);
}

UNIT_SUITE(test_wrappers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(wrappers_go_in_any_order_and_wherever_they_are, teardown),
		cmocka_unit_test_teardown(modules_get_the_names_of_the_plain_model, teardown),
		cmocka_unit_test_teardown(keys_that_would_get_one_name_are_refused, teardown),
		cmocka_unit_test_teardown(wrappers_are_counted, teardown),
		cmocka_unit_test_teardown(counting_is_limited_by_at, teardown),
		cmocka_unit_test_teardown(a_module_takes_the_place_of_the_wrapper_around_it,
					  teardown),
		cmocka_unit_test_teardown(a_module_goes_where_a_map_takes_all_its_keys, teardown),
		cmocka_unit_test_teardown(a_map_is_all_or_nothing, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
