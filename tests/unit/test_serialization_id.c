/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "zipfmt/serialization_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_names(struct ckpt_serialization_id *id, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ckpt_serialization_id_add(id, names[i], 0, 0, NULL);
}

static void assert_id(const struct ckpt_serialization_id *id, const char *want)
{
	char text[41];

	assert_int_equal(ckpt_serialization_id_format(id, text, NULL), 0);
	assert_string_equal(text, want);
}

/* Of one name the first half is its hash + 0x9E3779B9. */
static void names_are_hashed_as_libstdcxx_does(void **state)
{
	static const struct {
		const char *name;
		uint64_t hash;
	} table[] = {
		{ "version", 0x15BA742BB08E0596 },  { "data.pkl", 0x44943D565847B09E },
		{ "byteorder", 0xF2865A2CC9230444 }, { "data/0", 0x069D3707F0DFE08B },
		{ ".format_version", 0xF394ED16E57C685C }, { ".storage_alignment", 0x5ABE78BE0187373D },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct ckpt_serialization_id id;
		char want[41];

		ckpt_serialization_id_init(&id);
		ckpt_serialization_id_add(&id, table[i].name, 0, 0, NULL);
		snprintf(want, sizeof(want), "%020" PRIu64 "%020d", table[i].hash + 0x9E3779B9, 0);
		assert_id(&id, want);
		ckpt_serialization_id_clear(&id);
	}
}

static void first_halves_are_those_of_torch(void **state)
{
	static const struct {
		const char *names[8], *half;
	} table[] = {
		{ { "data.pkl", "byteorder", "version" }, "06364577379464010513" },
		{ { "data.pkl", "byteorder", "data/0", "data/1", "version" }, "13263068698938530805" },
		{ { "data.pkl", ".format_version", ".storage_alignment", "byteorder", "version" },
		  "02908468677762923104" },
		{ { "data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "data/1",
		    "version" }, "05611085236196705294" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct ckpt_serialization_id id;
		size_t count = 0;
		char want[41];

		while (count < COUNT(table[i].names) && table[i].names[count])
			count++;
		ckpt_serialization_id_init(&id);
		add_names(&id, table[i].names, count);
		snprintf(want, sizeof(want), "%s%020d", table[i].half, 0);
		assert_id(&id, want);
		ckpt_serialization_id_clear(&id);
	}
}

static void a_whole_id_is_that_of_torch(void **state)
{
	struct ckpt_serialization_id id;

	(void)state;
	ckpt_serialization_id_init(&id);
	ckpt_serialization_id_add(&id, "data.pkl", 246, 0x93A3F9AB, (const uint8_t *)"\x80\x02" "ccolle");
	ckpt_serialization_id_add(&id, ".format_version", 1, 0x83DCEFB7, NULL);
	ckpt_serialization_id_add(&id, ".storage_alignment", 2, 0xE971773F, NULL);
	ckpt_serialization_id_add(&id, "byteorder", 6, 0x19E33D85, NULL);
	ckpt_serialization_id_add(&id, "data/0", 24, 0x91E79017, (const uint8_t *)"\0\0\0\0\0\0\x80?");
	ckpt_serialization_id_add(&id, "data/1", 24, 0x4F8C5CCC, (const uint8_t *)"\0\0\0\0\0\0\0\0");
	ckpt_serialization_id_add(&id, "version", 2, 0x55679ED1, NULL);
	assert_id(&id, "0561108523619670529414426740356264764773");
	ckpt_serialization_id_clear(&id);
}

static uint64_t combine(uint64_t s, uint64_t v)
{
	return s ^ (v + 0x9E3779B9 + (s << 6) + (s >> 2));
}

static void assert_second_half(const struct ckpt_serialization_id *id, uint64_t want)
{
	char text[41], digits[24];

	assert_int_equal(ckpt_serialization_id_format(id, text, NULL), 0);
	snprintf(digits, sizeof(digits), "%020" PRIu64, want);
	assert_string_equal(text + 20, digits);
}

static void empty_records_do_not_count_for_the_second_half(void **state)
{
	struct ckpt_serialization_id id;

	(void)state;
	ckpt_serialization_id_init(&id);
	ckpt_serialization_id_add(&id, "a", 4, 7, NULL);
	ckpt_serialization_id_add(&id, "b", 0, 0, NULL);
	ckpt_serialization_id_add(&id, "c", 4, 0, NULL); /* but those without a checksum do */
	assert_second_half(&id, combine(combine(0, 7), 0));
	ckpt_serialization_id_clear(&id);
}

static void data_that_look_like_a_descriptor_count_twice(void **state)
{
	struct ckpt_serialization_id id;

	(void)state;
	ckpt_serialization_id_init(&id);
	ckpt_serialization_id_add(&id, "data/0", 9, 0xAABBCCDD, (const uint8_t *)"PK\x07\x08\x01\x02\x03\x04");
	assert_second_half(&id, combine(combine(0, 0x04030201), 0xAABBCCDD));
	ckpt_serialization_id_clear(&id);
}

static void the_set_grows_as_libstdcxx_lets_it_grow(void **state)
{
	static const struct {
		unsigned count;
		const char *half;
	} table[] = {
#include "serialization_id_cases.h"
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct ckpt_serialization_id id;
		char name[24], text[41];

		ckpt_serialization_id_init(&id);
		ckpt_serialization_id_add(&id, "data.pkl", 0, 0, NULL);
		for (unsigned k = 0; k < table[i].count; k++) {
			snprintf(name, sizeof(name), "data/%u", k);
			ckpt_serialization_id_add(&id, name, 0, 0, NULL);
		}
		ckpt_serialization_id_add(&id, "version", 0, 0, NULL);
		assert_int_equal(ckpt_serialization_id_format(&id, text, NULL), 0);
		text[20] = '\0';
		assert_string_equal(text, table[i].half);
		ckpt_serialization_id_clear(&id);
	}
}

UNIT_SUITE(test_serialization_id)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_hashed_as_libstdcxx_does),
		cmocka_unit_test(first_halves_are_those_of_torch),
		cmocka_unit_test(a_whole_id_is_that_of_torch),
		cmocka_unit_test(empty_records_do_not_count_for_the_second_half),
		cmocka_unit_test(data_that_look_like_a_descriptor_count_twice),
		cmocka_unit_test(the_set_grows_as_libstdcxx_lets_it_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
