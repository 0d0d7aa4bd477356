/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "format/safetensors_header.h"

#include <stdio.h>
#include <string.h>

/* Parse JSON, which DATA_LEN bytes follow, and give what was found to LOOK. Returns the message, NULL if there is none. */
static const char *parse(const char *json, uint64_t data_len,
			 void (*look)(const struct ckpt_safetensors_header *h))
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_safetensors_header h;
	size_t len = strlen(json);
	uint8_t *bytes = malloc(len ? len : 1); /* a sanitizer sees what is read behind it */
	int rc;

	memcpy(bytes, json, len);
	rc = ckpt_safetensors_header_parse(bytes, len, data_len, arena, &h, &err);
	free(bytes);
	if (rc == 0 && look)
		look(&h);
	ckpt_safetensors_header_clear(&h);
	ckpt_arena_free(arena);
	return rc == 0 ? NULL : unit_message(&err);
}

static void look_at_two(const struct ckpt_safetensors_header *h)
{
	assert_int_equal(h->count, 2);
	assert_string_equal(h->tensors[0].name, "b");
	assert_int_equal(h->tensors[0].dtype, CKPT_SAFETENSORS_BF16);
	assert_int_equal(h->tensors[0].ndim, 0);
	assert_int_equal(h->tensors[0].begin, 24);
	assert_int_equal(h->tensors[0].end, 26);
	assert_string_equal(h->tensors[1].name, "\xc3\xa9\"");
	assert_int_equal(h->tensors[1].ndim, 2);
	assert_int_equal(h->tensors[1].shape[0], 2);
	assert_int_equal(h->tensors[1].shape[1], 3);
	assert_int_equal(h->metadata_count, 2);
	assert_true(h->has_metadata);
	assert_string_equal(h->metadata[0].key, "format");
	assert_string_equal(h->metadata[0].value, "pt");
	assert_int_equal(h->metadata[1].value_len, 3);
	assert_memory_equal(h->metadata[1].value, "x\0y", 4);
	assert_int_equal(h->data_len, 26);
}

static void tensors_stay_in_the_order_of_the_header(void **state)
{
	(void)state;
	assert_null(parse(" {\"__metadata__\" : {\"format\":\"pt\", \"n\":\"x\\u0000y\"},\n"
			  "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]},"
			  "\"\\u00e9\\\"\":{\"data_offsets\":[0,24],\"shape\":[2, 3],\"dtype\":\"F32\"}} \t\r\n",
			  26, look_at_two));
}

static void look_at_one(const struct ckpt_safetensors_header *h)
{
	assert_int_equal(h->count, 1);
}

#define A(shape, offsets) "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void what_the_package_accepts_is_accepted(void **state)
{
	static const struct {
		const char *json;
		uint64_t data_len;
	} good[] = {
		{ A("[1]", "[0,4]"), 4 },
		{ A("[0]", "[0,0]"), 0 },
		{ A("[0,4611686018427387904]", "[0,0]"), 0 },
		{ "{\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 3 },
		{ "{\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3 },
		{ "{\"a\":{\"dtype\":\"F\\u00332\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4 },
		{ "{\"__metadata__\":null,\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1 },
		{ "{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"new\":[{\"x\":-1e3}],"
		  "\"n\":123456789012345678901234567890}}", 1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++)
		assert_null(parse(good[i].json, good[i].data_len, look_at_one));
	assert_null(parse("{}", 0, NULL));
	assert_null(parse("{\"__metadata__\":{}}", 0, NULL));
}

static void every_rule_that_is_broken_is_told_with_its_place(void **state)
{
	static const struct {
		const char *json;
		uint64_t data_len;
		const char *message;
	} bad[] = {
		{ "", 0, "+0x8: wanted an object, the JSON ends" },
		{ "[]", 0, "+0x8: wanted an object, found '['" },
		{ "{", 0, "+0x9: wanted a name in quotes, the JSON ends" },
		{ "{1:2}", 0, "+0x9: wanted a name in quotes, found '1'" },
		{ "{\"a\"}", 0, "+0xc: wanted ':' after a name, found '}'" },
		{ "{\"a\":", 0, "+0xd: wanted a value, the JSON ends" },
		{ "{}x", 0, "+0xa: wanted nothing but blanks after the object, found 'x'" },
		{ "{\"a\xff\":1}", 0, "+0xb: the header is not UTF-8" },
		{ "{\"a\":1}", 0, "+0xd: tensor 'a': its entry is not an object" },
		{ "{\"a\":{\"shape\":[],\"data_offsets\":[0,0]}}", 0, "+0xd: tensor 'a': has no dtype" },
		{ "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 0, "+0xd: tensor 'a': has no shape" },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, "+0xd: tensor 'a': has no data_offsets" },
		{ "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "+0x23: tensor 'a': says the same twice" },
		{ "{\"a\":{\"dtype\":7}}", 0, "+0x16: tensor 'a': its dtype is not a string" },
		{ "{\"a\":{\"dtype\":\"f32\"}}", 0, "+0x16: tensor 'a': the format has no dtype 'f32'" },
		{ A("7", "[0,4]"), 4, "+0x24: tensor 'a': its shape is not an array of sizes" },
		{ A("[1.0]", "[0,4]"), 4, "+0x24: tensor 'a': its shape is not an array of sizes" },
		{ A("[-1]", "[0,4]"), 4, "+0x24: tensor 'a': its shape is not an array of sizes" },
		{ A("[-0]", "[0,0]"), 0, "+0x24: tensor 'a': its shape is not an array of sizes" },
		{ A("[1]", "[4]"), 4, "+0x37: tensor 'a': its data_offsets are not two integers" },
		{ A("[1]", "[0,4,4]"), 4, "+0x37: tensor 'a': its data_offsets are not two integers" },
		{ A("[1]", "[0,4.0]"), 4, "+0x37: tensor 'a': its data_offsets are not two integers" },
		{ A("[2]", "[0,4]"), 4, "+0xd: tensor 'a': F32 [2] takes 8 bytes, its data_offsets [0, 4] hold 4" },
		{ A("[1]", "[4,0]"), 4, "+0xd: tensor 'a': its data_offsets [4, 0] end before they begin" },
		{ A("[1]", "[1,5]"), 5, "+0xd: tensor 'a': its data begin at 1, and the 1 bytes before belong to no tensor" },
		{ A("[1]", "[0,4]"), 3, "+0x41: the tensors take 4 bytes, the file has 3 after its header: it is cut short" },
		{ A("[1]", "[0,4]"), 6, "+0x42: 2 bytes at the end of the file belong to no tensor" },
		{ A("[4294967296,4294967296,0]", "[0,0]"), 0,
		  "+0xd: tensor 'a': F32 [4294967296, 4294967296, 0] is more than can be counted" },
		{ A("[9223372036854775808]", "[0,0]"), 0, "+0x38: is not JSON: too big integer near '9223372036854775808'" },
		{ "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
		  "+0xd: tensor 'a': F4 [3] takes 12 bits, which are not whole bytes" },
		{ "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
		  "+0xd: tensor 'a': F4 [3] takes 12 bits, which are not whole bytes" },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],"
		  "\"data_offsets\":[1,2]}}", 2,
		  "+0x41: tensor 'b': its data begin at 1, inside of those of 'a', which end at 2" },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
		  "\"data_offsets\":[1,2]}}", 2, "+0x41: tensor 'a': there are two entries of this name" },
		{ "{\"__metadata__\":1}", 0, "+0x18: wanted an object of strings as __metadata__, found '1'" },
		{ "{\"__metadata__\":{\"k\":1}}", 0, "+0x1d: __metadata__: 'k' is not a string" },
		{ "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "+0x2a: __metadata__ is there twice" },
		{ "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "__metadata__: 'k' is there twice" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		const char *message = parse(bad[i].json, bad[i].data_len, NULL);

		assert_non_null(message);
		assert_string_equal(message, bad[i].message);
	}
}

/* As deep as the package goes, and no deeper: the arrays are in an entry, which is in the header. */
static void values_may_be_nested_127_deep(void **state)
{
	char json[600], brackets[300] = "";

	(void)state;
	for (int i = 0; i < 125; i++)
		strcat(brackets, "[");
	for (int i = 0; i < 125; i++)
		strcat(brackets, "]");
	snprintf(json, sizeof(json), "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":%s}}", brackets);
	assert_null(parse(json, 0, NULL));
	snprintf(json, sizeof(json), "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":[%s]}}", brackets);
	assert_string_equal(parse(json, 0, NULL), "+0xbd: values are nested deeper than 127 levels");
}

static void a_length_is_believed_only_if_it_fits(void **state)
{
	static const struct {
		const char *hex, *message;
	} bad[] = {
		{ "01 02", "a safetensors file has 8 bytes or more, this one has 2" },
		{ "03 00 00 00 00 00 00 00 7b 7d",
		  "+0x0: the header is said to have 3 bytes, the file has 2 after their number: it is cut short" },
		{ "01 e1 f5 05 00 00 00 00 7b 7d",
		  "+0x0: the header is said to have 100000001 bytes, at most 100000000 are allowed" },
		{ "ff ff ff ff ff ff ff ff 7b 7d",
		  "+0x0: the header is said to have 18446744073709551615 bytes, at most 100000000 are allowed" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct ckpt_buf bytes = unit_bytes(bad[i].hex);
		struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_safetensors_header h;
		struct ckpt_source *source;

		assert_int_equal(ckpt_source_from_memory(bytes.data, bytes.len, &source, &err), 0);
		assert_int_equal(ckpt_safetensors_header_read(source, CKPT_SAFETENSORS_AS_IS, arena, &h, &err), CKPT_E_FORMAT);
		assert_string_equal(unit_message(&err), bad[i].message);
		ckpt_safetensors_header_clear(&h);
		ckpt_source_unref(source);
		ckpt_arena_free(arena);
		ckpt_buf_clear(&bytes);
	}
}

static void dtypes_are_found_both_ways(void **state)
{
	unsigned without = 0;

	(void)state;
	for (int i = 0; i < CKPT_SAFETENSORS_DTYPE_COUNT; i++) {
		enum ckpt_dtype torch = ckpt_safetensors_dtype_torch(i);
		uint32_t packed = i == CKPT_SAFETENSORS_F4 ? 2 : 1;

		without += torch == CKPT_DTYPE_UNKNOWN;
		if (torch == CKPT_DTYPE_UNKNOWN)
			continue;
		assert_int_equal(ckpt_safetensors_dtype_of(torch), i);
		assert_int_equal(packed * ckpt_safetensors_dtype_bits(i), 8 * ckpt_dtype_size(torch));
	}
	assert_int_equal(without, 2);
	assert_int_equal(ckpt_safetensors_dtype_of(CKPT_DTYPE_COMPLEX128), CKPT_SAFETENSORS_DTYPE_UNKNOWN);
	assert_int_equal(ckpt_safetensors_dtype_of(CKPT_DTYPE_UNKNOWN), CKPT_SAFETENSORS_DTYPE_UNKNOWN);
}

UNIT_SUITE(test_safetensors_header)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tensors_stay_in_the_order_of_the_header),
		cmocka_unit_test(what_the_package_accepts_is_accepted),
		cmocka_unit_test(every_rule_that_is_broken_is_told_with_its_place),
		cmocka_unit_test(values_may_be_nested_127_deep),
		cmocka_unit_test(a_length_is_believed_only_if_it_fits),
		cmocka_unit_test(dtypes_are_found_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
