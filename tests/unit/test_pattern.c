/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <ckpt/text.h>

#include <string.h>

static bool matches(const char *pattern, const char *name)
{
	struct ckpt_pattern *p;
	struct ckpt_error err = CKPT_ERROR_INIT;
	bool hit;

	if (ckpt_pattern_new(pattern, &p, &err) < 0)
		fail_msg("%s", unit_message(&err));
	hit = ckpt_pattern_matches(p, name, NULL) > 0;
	ckpt_pattern_free(p);
	return hit;
}

static void a_name_stands_for_itself_and_what_is_below_it(void **state)
{
	(void)state;
	assert_true(matches("model.layer1", "model.layer1"));
	assert_true(matches("model.layer1", "model.layer1.weight"));
	assert_false(matches("model.layer1", "model.layer10"));
	assert_false(matches("model.layer1", "model"));
	assert_false(matches("layer1", "model.layer1"));
}

static void a_star_crosses_dots(void **state)
{
	(void)state;
	assert_true(matches("*.weight", "model.layer1.weight"));
	assert_true(matches("model.*.bias", "model.a.b.bias"));
	assert_true(matches("layer?", "layer1"));
	assert_true(matches("layer[12]", "layer2"));
	assert_false(matches("layer[12]", "layer3"));
	assert_true(matches("*", ""));
}

static void a_name_with_special_characters_matches_itself(void **state)
{
	(void)state;
	assert_true(matches("a[0]", "a[0]"));
	assert_true(matches("a*", "a*"));
}

static void re_starts_a_regular_expression(void **state)
{
	(void)state;
	assert_true(matches("re:layer\\d+$", "model.layer10"));
	assert_false(matches("re:layer\\d+$", "model.layer"));
	assert_true(matches("re:^m", "model"));
	assert_true(matches("re:\xc3\xa9", "\xc3\xa9"));
	assert_false(matches("re:x", "\xff\xfe"));
	assert_true(matches("re:x", "\xffx"));
}

static void a_wrong_expression_is_named(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_pattern *p;

	(void)state;
	assert_int_equal(ckpt_pattern_new("re:(", &p, &err), CKPT_E_ARG);
	assert_string_equal(unit_message(&err), "pattern 're:(': missing closing parenthesis");
	assert_null(p);
	ckpt_pattern_free(NULL);
}

UNIT_SUITE(test_pattern)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_stands_for_itself_and_what_is_below_it),
		cmocka_unit_test(a_star_crosses_dots),
		cmocka_unit_test(a_name_with_special_characters_matches_itself),
		cmocka_unit_test(re_starts_a_regular_expression),
		cmocka_unit_test(a_wrong_expression_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
