/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantized weights. The first byte is a dtype and --as, two say how long config.json is, which follows; the rest is a file.
 * What is found is asked for, and the first numbers of each weight are made, twice: alone, and with all that is left.
 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>

enum { HEAD = 3, MOST_NUMBERS = 4096 };

static const char *const dtypes[] = { "bf16", "f16", "f32" };
static const char *const formats[] = { NULL,	   "fp8",   "compressed-tensors",
				       "modelopt", "mxfp4", "gptq",
				       "gptq_v2",  "awq",   "bitsandbytes",
				       "torchao",  "torch" };

static void check_list(const struct ckpt_quant *quant)
{
	struct ckpt_quant_weight_info info = CKPT_QUANT_WEIGHT_INFO_INIT;
	uint64_t count = ckpt_quant_count(quant);

	REQUIRE(count && *ckpt_quant_format(quant));
	for (uint64_t i = 0; i < count; i++) {
		uint64_t numel = 1;

		REQUIRE(ckpt_quant_get(quant, i, &info) == 0);
		REQUIRE(info.name && info.items && *info.scheme && info.parts);
		for (uint32_t d = 0; d < info.ndim; d++)
			numel *= info.shape[d];
		REQUIRE(numel == info.numel);
	}
	REQUIRE(ckpt_quant_get(quant, count, &info) == CKPT_E_ARG);
	for (uint64_t i = 0; i < ckpt_quant_dropped_count(quant); i++)
		REQUIRE(ckpt_quant_dropped(quant, i));
}

/* The first numbers of tensor I, and those behind the middle. */
static void read_weight(const struct ckpt_model *model, uint64_t i, const char *dtype)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	static uint8_t numbers[MOST_NUMBERS * 4];
	struct ckpt_array *array;
	int rc = ckpt_array_open(model, i, 0, &array, &err);

	fuzz_check_error(rc, &err);
	REQUIRE(rc == 0);
	REQUIRE(ckpt_array_get(array, &info) == 0);
	REQUIRE(!strcmp(info.dtype, dtype));
	for (uint64_t half = 0; half < 2; half++) {
		uint64_t first = half * (info.numel / 2), left = info.numel - first;

		rc = ckpt_array_read(array, first, left < MOST_NUMBERS ? left : MOST_NUMBERS,
				     numbers, &err);
		fuzz_check_error(rc, &err);
	}
	ckpt_array_close(array);
}

static void read_named(const struct ckpt_model *model, const char *name, const char *dtype)
{
	struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
	uint64_t found = 0;

	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++) {
		REQUIRE(ckpt_tensor_get(model, i, &info) == 0);
		if (strcmp(info.name, name) != 0)
			continue;
		found++;
		read_weight(model, i, dtype);
	}
	REQUIRE(found);
}

static void check_model(const struct ckpt_model *model, const struct ckpt_quant_options *options,
			unsigned to)
{
	static const char *const names[] = { "bfloat16", "float16", "float32" };
	struct ckpt_quant_weight_info info = CKPT_QUANT_WEIGHT_INFO_INIT;
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *plain = NULL;
	struct ckpt_quant *quant;
	int found = ckpt_quant_open(model, options, &quant, &err), rc;

	fuzz_check_error(found, &err);
	if (found == 0)
		check_list(quant);
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	rc = ckpt_dequantize(model, dtypes[to], options, &plain, &report, &err);
	fuzz_check_error(rc, &err);
	REQUIRE(found == 0 || rc < 0 || (found == CKPT_E_NOTFOUND && !report.tensors_dequantized));
	if (rc == 0 && found == 0) {
		REQUIRE(report.tensors_dequantized == ckpt_quant_count(quant));
		REQUIRE(report.scales_dropped == ckpt_quant_dropped_count(quant));
		for (uint64_t i = 0; i < ckpt_quant_count(quant); i++) {
			REQUIRE(ckpt_quant_get(quant, i, &info) == 0);
			read_named(plain, info.name, names[to]);
		}
	}
	if (rc == 0)
		fuzz_read_arrays(plain);
	ckpt_close(plain);
	if (found == 0)
		ckpt_quant_close(quant);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_quant_options options = CKPT_QUANT_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	const char *entry;
	size_t len;
	char *config;
	int rc;

	if (size < HEAD)
		return 0;
	len = data[1] | (size_t)data[2] << 8;
	if (len > size - HEAD)
		return 0;
	rc = ckpt_open_memory(data + HEAD + len, size - HEAD - len, &model, &err);
	fuzz_check_error(rc, &err);
	if (rc < 0)
		return 0;
	config = malloc(len + 1); /* so that a look behind it is seen */
	REQUIRE(config);
	memcpy(config, data + HEAD, len);
	options.as = formats[data[0] / 3 % (sizeof(formats) / sizeof(formats[0]))];
	rc = ckpt_quant_config_entry(config, len, &entry, &err);
	fuzz_check_error(rc, &err);
	REQUIRE(rc == 0 || !entry);
	options.config = config;
	options.config_len = len;
	check_model(model, &options, data[0] % 3);
	free(config);
	ckpt_close(model);
	return 0;
}
