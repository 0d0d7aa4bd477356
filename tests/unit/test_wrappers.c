/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/state_dict.h"

#include <ckpt/ckpt.h>

#include <stdio.h>
#include <string.h>

/* What wrappers put into names: of keys, and of modules in `_metadata`. */

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

UNIT_SUITE(test_wrappers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_module_takes_the_place_of_the_wrapper_around_it,
					  teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
