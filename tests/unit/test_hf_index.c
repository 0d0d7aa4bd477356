/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "set/hf/index.h"
#include "set/hf/name.h"

#include <string.h>

static int parse(const char *text, struct ckpt_hf_index *out, struct ckpt_error *err)
{
	return ckpt_hf_index_parse(text, strlen(text), out, err);
}

static void files_are_in_order_and_know_how_many_tensors_they_have(void **state)
{
	static const char text[] =
		"{\"metadata\": {\"total_size\": 24}, \"weight_map\": {"
		"\"c\": \"m-00010-of-00010.bin\", \"a\": \"m-00002-of-00010.bin\","
		"\"b\": \"m-00010-of-00010.bin\"}}";
	struct ckpt_hf_index x;
	struct ckpt_hf_entry *b;

	(void)state;
	assert_int_equal(parse(text, &x, NULL), 0);
	assert_int_equal(x.file_count, 2);
	assert_string_equal(x.files[0].name, "m-00002-of-00010.bin");
	assert_int_equal(x.files[1].names, 2);
	assert_true(x.has_total && x.total_size == 24);
	b = ckpt_hf_index_find(&x, "b", 1);
	assert_non_null(b);
	assert_int_equal(b->file, 1);
	assert_null(ckpt_hf_index_find(&x, "d", 1));
	ckpt_hf_index_clear(&x);
}

static void a_total_may_be_a_float_or_missing(void **state)
{
	struct ckpt_hf_index x;

	(void)state;
	assert_int_equal(parse("{\"metadata\":{\"total_size\":26e9},\"weight_map\":{\"a\":\"f\"}}",
			       &x, NULL),
			 0);
	assert_true(x.has_total && x.total_size == 26e9);
	ckpt_hf_index_clear(&x);
	assert_int_equal(parse("{\"weight_map\":{\"a\":\"f\"}}", &x, NULL), 0);
	assert_false(x.has_total);
	ckpt_hf_index_clear(&x);
}

static void metadata_name_what_shares_its_bytes(void **state)
{
	static const char text[] =
		"{\"metadata\": {\"tied\": \"a\", \"format\": \"a\", \"b\": \"a\", \"x\": \"none\", \"n\": 1, "
		"\"too\": \"a\"}, \"weight_map\": {\"a\": \"f\", \"b\": \"f\"}}";
	struct ckpt_hf_index x;
	const struct ckpt_hf_alias *alias;

	(void)state;
	assert_int_equal(parse(text, &x, NULL), 0);
	assert_int_equal(x.alias_count, 2);
	assert_int_equal(ckpt_hf_index_find(&x, "b", 1)->alias, UINT32_MAX);
	alias = &x.aliases[ckpt_hf_index_find(&x, "a", 1)->alias];
	assert_string_equal(alias->name, "too");
	assert_string_equal(x.aliases[alias->next].name, "tied");
	ckpt_hf_index_clear(&x);
}

static const struct {
	const char *text, *message;
} bad[] = {
	{ "", "the index is not JSON: '[' or '{' expected near end of file" },
	{ "{\"a\": 1", "+0x7: the index is not JSON: '}' expected near end of file" },
	{ "[]", "the index: wanted an object with 'weight_map', found an array" },
	{ "{}", "'weight_map': wanted an object, found nothing" },
	{ "{\"weight_map\": [\"a\"]}", "'weight_map': wanted an object, found an array" },
	{ "{\"weight_map\": {}}", "'weight_map' names no tensor" },
	{ "{\"weight_map\": {\"a\": 1}}", "'weight_map': wanted names of files, found an integer" },
	{ "{\"weight_map\": {\"a\": \"\"}}", "'a' is in the file '', which is no name of a file" },
	{ "{\"weight_map\": {\"a\": \"/etc/passwd\"}}",
	  "'a' is in the file '/etc/passwd', which lies outside of the directory; it is not read" },
	{ "{\"weight_map\": {\"a\": \"x/../../b\"}}",
	  "'a' is in the file 'x/../../b', which lies outside of the directory; it is not read" },
	{ "{\"weight_map\": {\"a\": \"..\\\\b\"}}",
	  "'a' is in the file '..\\\\b', which lies outside of the directory; it is not read" },
	{ "{\"weight_map\": {\"a\": \"c:b\"}}",
	  "'a' is in the file 'c:b', which lies outside of the directory; it is not read" },
	{ "{\"weight_map\": {\"a\": \"f\", \"a\": \"g\"}}",
	  "+0x1d: the index is not JSON: duplicate object key near '\"a\"'" },
};

static void what_is_wrong_with_an_index_is_said(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_hf_index x;

		assert_int_equal(parse(bad[i].text, &x, &err), CKPT_E_FORMAT);
		assert_string_equal(unit_message(&err), bad[i].message);
		ckpt_hf_index_clear(&x);
	}
}

static void names_with_numbers_are_known(void **state)
{
	static const struct {
		const char *name;
		size_t stem_len;
		uint32_t number, count;
		const char *rest;
	} good[] = {
		{ "model-00001-of-00003.safetensors", 5, 1, 3, ".safetensors" },
		{ "pytorch_model.fp16-00010-of-00011.bin", 18, 10, 11, ".bin" },
		{ "model-00002-of-00003.fp16.safetensors", 5, 2, 3, ".fp16.safetensors" },
		{ "state-of-the-art-7-of-9.bin", 16, 7, 9, ".bin" },
		{ "sub/model-00001-of-00001.safetensors", 9, 1, 1, ".safetensors" },
	};
	static const char *const others[] = { "model.safetensors",     "model-of-3.bin",
					      "model-1-of-.bin",       "1-of-2.bin",
					      "model-1-of-2-of-x.bin", "model_1-of-2.bin",
					      "m-1234567890-of-2.bin" };
	struct ckpt_hf_name parts;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		assert_true(ckpt_hf_name_parse(good[i].name, &parts));
		assert_int_equal(parts.stem_len, good[i].stem_len);
		assert_int_equal(parts.number, good[i].number);
		assert_int_equal(parts.count, good[i].count);
		assert_string_equal(parts.rest, good[i].rest);
	}
	for (size_t i = 0; i < COUNT(others); i++)
		assert_false(ckpt_hf_name_parse(others[i], &parts));
}

UNIT_SUITE(test_hf_index)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_in_order_and_know_how_many_tensors_they_have),
		cmocka_unit_test(a_total_may_be_a_float_or_missing),
		cmocka_unit_test(metadata_name_what_shares_its_bytes),
		cmocka_unit_test(what_is_wrong_with_an_index_is_said),
		cmocka_unit_test(names_with_numbers_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
