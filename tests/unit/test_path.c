/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/arena.h"
#include "model/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The steps in a form to compare: keys in <>, numbers bare. */
static int parse(const char *json, char out[200])
{
	struct ckpt_value text = { .kind = CKPT_STR, .u.bytes = { json, strlen(json) } };
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_error err = CKPT_ERROR_INIT;
	const struct ckpt_path_step *steps;
	uint32_t count;
	size_t len = 0;
	int rc = ckpt_path_parse_json(&text, arena, &steps, &count, &err);

	out[0] = '\0';
	for (uint32_t i = 0; rc == 0 && i < count && len < 200; i++)
		len += (size_t)(steps[i].key ? snprintf(out + len, 200 - len, "<%.*s>",
							(int)steps[i].len, steps[i].key)
					     : snprintf(out + len, 200 - len, "%lld ",
							(long long)steps[i].number));
	ckpt_arena_free(arena);
	return rc;
}

static void what_json_dumps_writes_is_read(void **state)
{
	static const struct {
		const char *json, *steps;
	} good[] = {
		{ "[]", "" },
		{ "[\"a.b\",0,\"c\"]", "<a.b>0 <c>" },
		{ "[-3, 12]", "-3 12 " },
		{ "[\"\"]", "<>" },
		{ "[\"\\\"\\\\\\/\\n\\t\\u0041\"]", "<\"\\/\n\tA>" },
		{ "[\"gr\\u00fcn\\u2603\"]", "<gr\xc3\xbcn\xe2\x98\x83>" },
		{ "[\"gr\xc3\xbcn\"]", "<gr\xc3\xbcn>" },
		{ "[\"\\ud835\\udcb3\"]", "<\xf0\x9d\x92\xb3>" },
		{ "[\"\\ud800x\"]", "<\xed\xa0\x80x>" },
		{ "[\"\\ud800\\u0041\"]", "<\xed\xa0\x80"
					  "A>" },
	};
	char out[200];

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		assert_int_equal(parse(good[i].json, out), 0);
		assert_string_equal(out, good[i].steps);
	}
}

static void everything_else_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"[",
		"]",
		"a",
		"[\"a]",
		"[\"a\"",
		"[\"a\",]",
		"[,]",
		"[1.5]",
		"[-]",
		"[1]x",
		"[null]",
		"[[1]]",
		"[{}]",
		"[\"\\",
		"[\"\\u1",
		"[\"\\u12g4\"]",
		"[\"\\q\"]",
		"[1 2]",
		"[\"a\"\"b\"]",
		"[9223372036854775808]",
	};
	char out[200];

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(parse(bad[i], out), CKPT_E_FORMAT);
}

/* COUNT texts of LEN bytes each, read with 1 MiB of memory. */
static int parse_long(unsigned count, size_t len)
{
	size_t size = count * (len + 3) + 1;
	char *json = malloc(size + 1), *to = json, out[200];
	int rc;

	assert_non_null(json);
	for (unsigned i = 0; i < count; i++) {
		*to++ = i ? ',' : '[';
		*to++ = '"';
		memset(to, 'x', len);
		to += len;
		*to++ = '"';
	}
	strcpy(to, "]");
	rc = parse(json, out);
	free(json);
	return rc;
}

static void long_paths_need_memory_in_proportion(void **state)
{
	(void)state;
	assert_int_equal(parse_long(1000, 800), 0);
	assert_int_equal(parse_long(1001, 1), CKPT_E_FORMAT);
	assert_int_equal(parse_long(1000, 1100), CKPT_E_LIMIT);
}

UNIT_SUITE(test_path)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_json_dumps_writes_is_read),
		cmocka_unit_test(everything_else_is_refused),
		cmocka_unit_test(long_paths_need_memory_in_proportion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
