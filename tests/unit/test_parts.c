/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <ckpt/ckpt.h>

#include <stdio.h>
#include <string.h>

static struct ckpt_error err;

/* A dict of dicts, "NAME: KEY KEY ..." each; every tensor has one element and a storage of its own. */
static struct ckpt_model *open_dicts(const char *const *dicts, size_t count, struct ckpt_buf *file)
{
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model;
	unsigned storages = 0;

	ckpt_buf_printf(&pickle, "}(");
	for (size_t i = 0; i < count; i++) {
		char *text = strdup(dicts[i]), *state = NULL;

		unit_put_str(&pickle, strtok_r(text, ": ", &state));
		ckpt_buf_printf(&pickle, "}(");
		for (char *key = strtok_r(NULL, ": ", &state); key;
		     key = strtok_r(NULL, ": ", &state)) {
			char number[16];

			unit_put_str(&pickle, key);
			snprintf(number, sizeof(number), "%u", storages++);
			unit_put_tensor(&pickle, number, 1);
		}
		ckpt_buf_printf(&pickle, "u");
		free(text);
	}
	ckpt_buf_printf(&pickle, "u");
	*file = unit_torch_file(&pickle, storages);
	ckpt_buf_clear(&pickle);
	assert_int_equal(ckpt_open_memory(file->data, file->len, &model, &err), 0);
	return model;
}

static uint64_t elements(const struct ckpt_parts *parts, enum ckpt_part part)
{
	struct ckpt_part_size size = CKPT_PART_SIZE_INIT;

	assert_int_equal(ckpt_parts_get(parts, part, &size), 0);
	return size.elements;
}

static const struct {
	const char *const dicts[4];
	uint64_t want[CKPT_PARTS]; /* elements */
	unsigned told_by;
} cases[] = {
	{ { "model: a.weight a.running_mean a.num_batches_tracked" },
	  { 1, 2 },
	  CKPT_TOLD_BY_NAMES },
	/* a state for each: the two that are not called weights are no parameters */
	{ { "model: a.weight a.mask b.weight b.mask", "optimizer: x.exp_avg y.exp_avg" },
	  { 2, 2, 2 },
	  CKPT_TOLD_BY_OPTIMIZER },
	/* ... for one of two weights: the other may be frozen */
	{ { "model: a.weight a.mask b.weight", "optimizer: x.exp_avg" },
	  { 3, 0, 1 },
	  CKPT_TOLD_BY_NAMES },
	/* a state that says no shape */
	{ { "model: a.weight a.bias", "optimizer: x.exp_avg y.exp_avg_sq_row" },
	  { 2, 0, 2 },
	  CKPT_TOLD_BY_OPTIMIZER },
	/* more states than tensors */
	{ { "model: a.weight", "optimizer: x.exp_avg y.exp_avg" },
	  { 1, 0, 2 },
	  CKPT_TOLD_BY_NAMES },
	{ { "model: a.weight b.weight", "model_ema: a.weight b.weight" },
	  { 2, 0, 0, 2 },
	  CKPT_TOLD_BY_NAMES },
	/* the same in one mapping, as latent diffusion saves it */
	{ { "state_dict: m.weight n.weight model_ema.mweight model_ema.nweight" },
	  { 2, 0, 0, 2 },
	  CKPT_TOLD_BY_NAMES },
	/* no model beside it that it could be a copy of */
	{ { "ema: a.weight b.weight" }, { 2 }, CKPT_TOLD_BY_NAMES },
	/* "schema" and "emanation" are no words of copies */
	{ { "model: a.weight", "schema: a.weight", "emanation: a.weight" },
	  { 3 },
	  CKPT_TOLD_BY_NAMES },
	{ { "optimizer: x.exp_avg" }, { 0, 0, 1 }, 0 },
};

static void parameters_are_told_from_buffers(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ckpt_parts *parts;
		struct ckpt_model *model;
		struct ckpt_buf file;
		size_t count = 0;

		while (count < COUNT(cases[i].dicts) && cases[i].dicts[count])
			count++;
		model = open_dicts(cases[i].dicts, count, &file);
		assert_int_equal(ckpt_parts_new(model, &parts, &err), 0);
		for (int part = 0; part < CKPT_PARTS; part++)
			if (elements(parts, (enum ckpt_part)part) != cases[i].want[part])
				fail_msg("case %zu, part %d: %d elements", i, part,
					 (int)elements(parts, (enum ckpt_part)part));
		assert_int_equal(ckpt_parts_told_by(parts), cases[i].told_by);
		ckpt_parts_free(parts);
		ckpt_close(model);
		ckpt_buf_clear(&file);
	}
}

static void what_is_not_there_is_refused(void **state)
{
	static const char *const dicts[] = { "model: a.weight" };
	struct ckpt_part_size size = CKPT_PART_SIZE_INIT;
	struct ckpt_part_place place = CKPT_PART_PLACE_INIT;
	struct ckpt_extra extra = CKPT_EXTRA_INIT;
	struct ckpt_parts *parts;
	struct ckpt_buf file;
	struct ckpt_model *model = open_dicts(dicts, 1, &file);

	(void)state;
	assert_int_equal(ckpt_parts_new(model, &parts, &err), 0);
	assert_int_equal(ckpt_parts_get(parts, (enum ckpt_part)CKPT_PARTS, &size), CKPT_E_ARG);
	assert_int_equal(ckpt_part_place_count(parts), 1);
	assert_int_equal(ckpt_part_place_get(parts, 1, &place), CKPT_E_ARG);
	assert_int_equal(ckpt_part_place_get(parts, 0, &place), 0);
	assert_string_equal(place.name, "model");
	assert_int_equal(ckpt_extra_get(parts, ckpt_extra_count(parts), &extra), CKPT_E_ARG);
	assert_int_equal(ckpt_parts_of(parts, 0), CKPT_PART_PARAMETER);
	assert_int_equal(ckpt_parts_of(parts, 1), CKPT_PART_OTHER);
	assert_int_equal(ckpt_parts_counted(parts, 0), 0);
	ckpt_parts_free(parts);
	ckpt_parts_free(NULL);
	ckpt_close(model);
	ckpt_buf_clear(&file);
}

UNIT_SUITE(test_parts)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_are_told_from_buffers),
		cmocka_unit_test(what_is_not_there_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
