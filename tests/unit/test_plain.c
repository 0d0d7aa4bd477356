/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <ckpt/ckpt.h>

#include <stdio.h>
#include <string.h>

/* What has to be done before a plain model takes the weights: ckpt_why_plain(). */

static struct ckpt_error err;

static int print_plan(void *ctx, const struct ckpt_plain_model *plain)
{
	snprintf(ctx, 500, "'%s' %s|%s|%s%s%s", plain->name, plain->options,
		 plain->attribute ? plain->attribute : "", plain->nested ? "nested " : "",
		 plain->wrapped ? "wrapped " : "", plain->all_wrappers ? "all" : "");
	return 0;
}

/*
 * Of a file with a state dict of KEYS, at ENTRY; NULL: as the root. In a static buffer. LIGHTNING: the root
 * says so.
 */
static const char *plan(const char *entry, bool lightning, const char *const *keys)
{
	static char text[500];
	struct ckpt_buf pickle = { 0 }, bytes;
	struct ckpt_model *model;
	size_t count = 0;

	while (keys[count])
		count++;
	if (entry) {
		ckpt_buf_printf(&pickle, "}(");
		unit_put_str(&pickle, "epoch");
		ckpt_buf_printf(&pickle, "I3\n");
		if (lightning) {
			unit_put_str(&pickle, "pytorch-lightning_version");
			unit_put_str(&pickle, "2.2.0");
		}
		unit_put_str(&pickle, entry);
	}
	unit_put_state_dict(&pickle, keys, count);
	if (entry)
		ckpt_buf_add_u8(&pickle, 'u');
	bytes = unit_torch_file(&pickle, (unsigned)count);
	strcpy(text, "none");
	if (ckpt_open_memory(bytes.data, bytes.len, &model, &err) < 0)
		fail_msg("%s", unit_message(&err));
	assert_int_equal(ckpt_why_plain(model, print_plan, text, &err), 0);
	ckpt_close(model);
	ckpt_buf_clear(&pickle);
	ckpt_buf_clear(&bytes);
	return text;
}

static void the_edits_that_make_a_plain_model_are_named(void **state)
{
	static const struct {
		const char *entry;
		bool lightning;
		const char *keys[4], *want;
	} table[] = {
		{ NULL, false, { "a.w", "b.w" }, "'' ||" },
		{ NULL, false, { "module.a.w", "module.b.w" }, "'' --strip-prefix module.||wrapped " },
		{ "model", false, { "a.w", "b.w" }, "'model' --extract model||nested " },
		{ "model", false, { "module.a.w" }, "'model' --extract model --strip-prefix module.||nested wrapped " },
		{ "my model", false, { "a.w" }, "'my model' --extract 'my model'||nested " },
		{ "model", false, { "module._orig_mod.a.w", "_orig_mod.module.b.w", "c.w" },
		  "'model' --extract model --strip-wrappers||nested wrapped all" },
		{ "state_dict", true, { "model.a.w", "model.b.w" },
		  "'state_dict' --extract state_dict --strip-prefix model.|model.|nested " },
		{ "state_dict", true, { "model.a.w", "loss.w" },
		  "'state_dict' --extract state_dict --keep 'model.*' --strip-prefix model.|model.|nested " },
		{ "state_dict", true, { "net.a.w", "net.b.w" },
		  "'state_dict' --extract state_dict --strip-prefix net.|net.|nested " },
		/* two names would be one */
		{ NULL, false, { "module.a.w", "a.w" }, "none" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		assert_string_equal(plan(table[i].entry, table[i].lightning, table[i].keys), table[i].want);
}

static int refuse(void *ctx, const struct ckpt_plain_model *plain)
{
	(void)ctx;
	(void)plain;
	return CKPT_E_CANCELLED;
}

static void the_answer_of_the_caller_is_given_back(void **state)
{
	static const char *const keys[] = { "a.w" };
	struct ckpt_buf pickle = { 0 }, bytes;
	struct ckpt_model *model;

	(void)state;
	unit_put_state_dict(&pickle, keys, 1);
	bytes = unit_torch_file(&pickle, 1);
	assert_int_equal(ckpt_open_memory(bytes.data, bytes.len, &model, &err), 0);
	assert_int_equal(ckpt_why_plain(model, refuse, NULL, &err), CKPT_E_CANCELLED);
	ckpt_close(model);
	ckpt_buf_clear(&pickle);
	ckpt_buf_clear(&bytes);
}

UNIT_SUITE(test_plain)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_edits_that_make_a_plain_model_are_named),
		cmocka_unit_test(the_answer_of_the_caller_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
