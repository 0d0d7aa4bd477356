/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/dtype.h"

/* As torch has them: torch.<name>.itemsize, and the class that holds it. */
static const struct {
	const char *name;
	uint32_t size;
	const char *storage;
} known[] = {
	{ "float64", 8, "DoubleStorage" },     { "float32", 4, "FloatStorage" },
	{ "float16", 2, "HalfStorage" },       { "bfloat16", 2, "BFloat16Storage" },
	{ "int64", 8, "LongStorage" },	       { "int32", 4, "IntStorage" },
	{ "int16", 2, "ShortStorage" },	       { "int8", 1, "CharStorage" },
	{ "uint8", 1, "ByteStorage" },	       { "bool", 1, "BoolStorage" },
	{ "complex128", 16, "ComplexDoubleStorage" }, { "complex64", 8, "ComplexFloatStorage" },
	{ "qint8", 1, "QInt8Storage" },	       { "quint8", 1, "QUInt8Storage" },
	{ "qint32", 4, "QInt32Storage" },      { "quint4x2", 1, "QUInt4x2Storage" },
	{ "quint2x4", 1, "QUInt2x4Storage" },  { "float8_e5m2", 1, "" },
	{ "float8_e4m3fn", 1, "" },	       { "float8_e5m2fnuz", 1, "" },
	{ "float8_e4m3fnuz", 1, "" },	       { "float8_e8m0fnu", 1, "" },
	{ "float4_e2m1fn_x2", 1, "" },	       { "uint16", 2, "" },
	{ "uint32", 4, "" },		       { "uint64", 8, "" },
	{ "complex32", 4, "" },
};

static void every_dtype_has_the_size_and_the_storage_that_torch_gives_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(known); i++) {
		enum ckpt_dtype dtype = ckpt_dtype_find(known[i].name);

		assert_int_not_equal(dtype, CKPT_DTYPE_UNKNOWN);
		assert_string_equal(ckpt_dtype_name(dtype), known[i].name);
		assert_int_equal(ckpt_dtype_size(dtype), known[i].size);
		assert_string_equal(ckpt_dtype_storage_class(dtype), known[i].storage);
		if (known[i].storage[0])
			assert_int_equal(ckpt_dtype_of_storage(known[i].storage), dtype);
	}
}

static void short_names_are_known(void **state)
{
	(void)state;
	assert_int_equal(ckpt_dtype_find("half"), CKPT_DTYPE_FLOAT16);
	assert_int_equal(ckpt_dtype_find("float"), CKPT_DTYPE_FLOAT32);
	assert_int_equal(ckpt_dtype_find("double"), CKPT_DTYPE_FLOAT64);
	assert_int_equal(ckpt_dtype_find("long"), CKPT_DTYPE_INT64);
	assert_int_equal(ckpt_dtype_find("cfloat"), CKPT_DTYPE_COMPLEX64);
}

static void storages_without_a_type_count_bytes(void **state)
{
	(void)state;
	assert_int_equal(ckpt_dtype_of_storage("UntypedStorage"), CKPT_DTYPE_UINT8);
	assert_int_equal(ckpt_dtype_of_storage("_UntypedStorage"), CKPT_DTYPE_UINT8);
}

static void what_torch_does_not_know_is_unknown(void **state)
{
	(void)state;
	assert_int_equal(ckpt_dtype_find("float128"), CKPT_DTYPE_UNKNOWN);
	assert_int_equal(ckpt_dtype_find(""), CKPT_DTYPE_UNKNOWN);
	assert_int_equal(ckpt_dtype_of_storage(""), CKPT_DTYPE_UNKNOWN);
	assert_int_equal(ckpt_dtype_of_storage("Storage"), CKPT_DTYPE_UNKNOWN);
	assert_string_equal(ckpt_dtype_name(CKPT_DTYPE_UNKNOWN), "unknown");
	assert_string_equal(ckpt_dtype_name(CKPT_DTYPE_COUNT), "unknown");
}

static void packed_types_hold_several_elements_in_a_byte(void **state)
{
	(void)state;
	assert_int_equal(ckpt_dtype_packed(CKPT_DTYPE_QUINT4X2), 2);
	assert_int_equal(ckpt_dtype_packed(CKPT_DTYPE_QUINT2X4), 4);
	assert_int_equal(ckpt_dtype_packed(CKPT_DTYPE_QINT8), 1);
	assert_int_equal(ckpt_dtype_packed(CKPT_DTYPE_FLOAT32), 1);
}

UNIT_SUITE(test_dtype)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_dtype_has_the_size_and_the_storage_that_torch_gives_it),
		cmocka_unit_test(short_names_are_known),
		cmocka_unit_test(storages_without_a_type_count_bytes),
		cmocka_unit_test(what_torch_does_not_know_is_unknown),
		cmocka_unit_test(packed_types_hold_several_elements_in_a_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
