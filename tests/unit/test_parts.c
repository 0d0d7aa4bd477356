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

/*
 * A dict: names of tensors of one element, of dicts, "name{...}", and of lists, "name[...]", whose items are
 * dicts, "{...}", or tensors, "*".
 */
static struct ckpt_model *open_nested(const char *text, struct ckpt_buf *file)
{
	struct ckpt_buf pickle = { 0 };
	struct ckpt_model *model;
	unsigned storages = 0;

	ckpt_buf_printf(&pickle, "}(");
	while (*text) {
		size_t len = strcspn(text, " {}[]*");
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)len, text);
		text += len;
		if (len)
			unit_put_str(&pickle, name);
		if (*text == '*' || (len && *text != '{' && *text != '[')) {
			snprintf(name, sizeof(name), "%u", storages++);
			unit_put_tensor(&pickle, name, 1);
		}
		if (*text && strchr("{}[]", *text))
			ckpt_buf_printf(&pickle, *text == '{' ? "}(" : *text == '[' ? "](" : *text == '}' ? "u" : "e");
		if (*text == '*' || *text == ' ' || (*text && strchr("{}[]", *text)))
			text++;
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

#define ADAM "{state{0{step exp_avg}}param_groups[{}]}"
#define MODEL "model{a.weight a.mask}"

static const struct {
	const char *text;
	uint64_t optimizer, model;
	const char *place; /* of the first optimizer */
} beside[] = {
	{ MODEL "optimizer" ADAM, 2, 2, "optimizer" },
	/* with its own parts, and beside it, before and behind */
	{ MODEL "optimizer{adam" ADAM "moments}", 3, 2, "optimizer" },
	{ MODEL "optimizer{moments adam" ADAM "}", 3, 2, "optimizer" },
	{ MODEL "optimizer{state{0{exp_avg}}param_groups[{}]slow_state{0{slow}}}", 2, 2, "optimizer" },
	{ MODEL "optimizer{adam" ADAM "moments{a.weight a.bias}}", 4, 2, "optimizer" },
	{ MODEL "optimizer{adam" ADAM "state_dict" ADAM "}", 4, 2, "optimizer" },
	{ MODEL "optimizer{adam{state{a.weight{exp_avg}}}scale}", 2, 2, "optimizer" },
	{ "trainer{" MODEL "optim{adam" ADAM "x}}", 3, 2, "trainer.optim" },
	{ MODEL "optimizer_states[" ADAM ADAM "]", 4, 2, "optimizer_states" },
	{ MODEL "optimizers[" ADAM "*]", 3, 2, "optimizers" },
	{ MODEL "optimizers{g" ADAM "d" ADAM "}", 4, 2, "optimizers" },
	{ MODEL "optimizers{g{adam" ADAM "moments}d" ADAM "}", 5, 2, "optimizers" },
	{ MODEL "optimizer{base_optimizer_state" ADAM "single_partition_of_fp32_groups[*]}", 3, 2, "optimizer" },
	{ MODEL "optimizer{adam{base_optimizer_state" ADAM "fp32_flat_groups[*]}x}", 4, 2, "optimizer" },
	/* flat keys, as of a DCP directory */
	{ "model.a.weight optimizer.adam.state.0.exp_avg optimizer.moments", 2, 1, "optimizer" },
	{ "model.a.weight optimizer.state.a.weight.exp_avg optimizer.moments.a.weight", 2, 1, "optimizer" },
	{ "model.a.weight optimizer.adam.exp_avg optimizer.model.a.mask", 1, 2, "*.exp_avg" },
	{ "model.a.weight optimizer.adam.exp_avg optimizer.b.weight", 1, 2, "*.exp_avg" },
	/* weights of a model are never an optimizer's: where they may be some, only what tells of itself is */
	{ MODEL "optimizer{adam" ADAM "model{b.weight b.mask}}", 2, 4, "optimizer.adam" },
	{ MODEL "optimizer{adam" ADAM "critic{b.weight}}", 2, 3, "optimizer.adam" },
	{ MODEL "optimizer{adam" ADAM "critic{c{weight}}}", 2, 3, "optimizer.adam" },
	{ MODEL "optimizer{adam" ADAM "list[{b.weight}]}", 2, 3, "optimizer.adam" },
	{ MODEL "optimizer{adam" ADAM "b.weight}", 2, 3, "optimizer.adam" },
	{ MODEL "optimizer{adam" ADAM "net{_parameters{b}_modules{}}}", 2, 3, "optimizer.adam" },
	{ MODEL "optimizer_and_model{" MODEL "optimizer" ADAM "}", 2, 4, "optimizer_and_model.optimizer" },
	/* nothing in it is an optimizer's */
	{ "optimizer{a.weight a.mask}", 0, 2, NULL },
	{ "optimizer{lstm{a.weight a.mask}}", 0, 2, NULL },
	/* no word */
	{ MODEL "optimal{adam" ADAM "x.weight}", 2, 3, "optimal.adam" },
};

static void what_stands_beside_an_optimizer_is_its_own(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(beside); i++) {
		const char *place = NULL;
		struct ckpt_parts *parts;
		struct ckpt_model *model;
		struct ckpt_buf file;
		uint64_t other;

		model = open_nested(beside[i].text, &file);
		assert_int_equal(ckpt_parts_new(model, &parts, &err), 0);
		other = ckpt_tensor_count(model) - elements(parts, CKPT_PART_OPTIMIZER);
		for (uint64_t k = 0; !place && k < ckpt_part_place_count(parts); k++) {
			struct ckpt_part_place one = CKPT_PART_PLACE_INIT;

			assert_int_equal(ckpt_part_place_get(parts, k, &one), 0);
			place = one.part == CKPT_PART_OPTIMIZER ? one.name : NULL;
		}
		if (elements(parts, CKPT_PART_OPTIMIZER) != beside[i].optimizer || other != beside[i].model ||
		    !place != !beside[i].place || (place && strcmp(place, beside[i].place) != 0))
			fail_msg("%s: %d of the optimizer in '%s', %d others", beside[i].text,
				 (int)elements(parts, CKPT_PART_OPTIMIZER), place ? place : "", (int)other);
		ckpt_parts_free(parts);
		ckpt_close(model);
		ckpt_buf_clear(&file);
	}
}

/* Every value may be called an optimizer, and be the same one. */
static void a_look_into_optimizers_ends(void **state)
{
	struct ckpt_buf pickle = { 0 }, file;
	struct ckpt_parts *parts;
	struct ckpt_model *model;

	(void)state;
	ckpt_buf_printf(&pickle, "}(");
	unit_put_str(&pickle, "w");
	unit_put_tensor(&pickle, "0", 1);
	unit_put_str(&pickle, "optimizer");
	ckpt_buf_printf(&pickle, "](");
	for (int i = 0; i < 3000; i++)
		ckpt_buf_printf(&pickle, "K%c", 'a');
	ckpt_buf_printf(&pickle, "eq%c", 200);
	for (int i = 0; i < 3000; i++) {
		char key[32];

		snprintf(key, sizeof(key), "optimizer%d", i);
		unit_put_str(&pickle, key);
		ckpt_buf_printf(&pickle, "](");
		for (int k = 0; k < 100; k++)
			ckpt_buf_printf(&pickle, "h%c", 200);
		ckpt_buf_printf(&pickle, "e");
	}
	ckpt_buf_printf(&pickle, "u");
	file = unit_torch_file(&pickle, 1);
	ckpt_buf_clear(&pickle);
	assert_int_equal(ckpt_open_memory(file.data, file.len, &model, &err), 0);
	assert_int_equal(ckpt_parts_new(model, &parts, &err), 0);
	assert_int_equal(elements(parts, CKPT_PART_OPTIMIZER), 0);
	ckpt_parts_free(parts);
	ckpt_close(model);
	ckpt_buf_clear(&file);
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
		cmocka_unit_test(what_stands_beside_an_optimizer_is_its_own),
		cmocka_unit_test(a_look_into_optimizers_ends),
		cmocka_unit_test(what_is_not_there_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
