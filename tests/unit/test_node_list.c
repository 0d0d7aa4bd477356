/* SPDX-License-Identifier: Apache-2.0 */
/* The names are those that 'scontrol show hostnames' of Slurm 22.05 prints. */
#include "job/node_list.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

static void lists_are_read_as_slurm_reads_them(void **state)
{
	static const struct {
		const char *list, *names[8];
	} cases[] = {
		{ "n1", { "n1" } },
		{ "n[1-3]", { "n1", "n2", "n3" } },
		{ "a,b,c", { "a", "b", "c" } },
		{ "gpu[01-03,007,10]", { "gpu01", "gpu02", "gpu03", "gpu007", "gpu10" } },
		{ "r[1-2]n[1-3]", { "r1n1", "r1n2", "r1n3", "r2n1", "r2n2", "r2n3" } },
		{ "n[3,1]", { "n3", "n1" } },
		{ "a[1-2],b", { "a1", "a2", "b" } },
		{ "n[001-3]", { "n001", "n002", "n003" } },
		{ "n[9-11]", { "n9", "n10", "n11" } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		uint32_t wanted = 0, index, count;
		char first[CKPT_NODE_NAME];

		while (wanted < 8 && cases[i].names[wanted])
			wanted++;
		for (uint32_t k = 0; k < wanted; k++) {
			assert_int_equal(ckpt_node_list_find(cases[i].list, cases[i].names[k],
							     &index, &count, first, NULL),
					 0);
			assert_int_equal(index, k);
			assert_int_equal(count, wanted);
			assert_string_equal(first, cases[i].names[0]);
		}
		assert_int_equal(ckpt_node_list_find(cases[i].list, "none", &index, &count, NULL,
						     NULL),
				 0);
		assert_int_equal(index, wanted);
	}
}

static void what_is_no_list_is_told(void **state)
{
	static const char *const lists[] = { "",
					     "n[]",
					     "n[3-1]",
					     "n[1-3",
					     "n]1[",
					     "a,,b",
					     ",",
					     "a,",
					     "n[1-]",
					     "n[-1]",
					     "n[1--2]",
					     "n[a]",
					     "n[1,]",
					     "n[1;2]",
					     "n[1234567890]",
					     "n[[1]]",
					     "n1]",
					     "[1]]",
					     "n[0-999999][0-9]",
					     "a[1][1][1][1][1][1][1][1][1]" };
	struct ckpt_error err = CKPT_ERROR_INIT;
	char name[400];
	uint32_t index, count;

	(void)state;
	for (size_t i = 0; i < COUNT(lists); i++)
		assert_int_equal(ckpt_node_list_find(lists[i], "n1", &index, &count, NULL, &err),
				 CKPT_E_FORMAT);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(ckpt_node_list_find(name, "n1", &index, &count, NULL, &err),
			 CKPT_E_FORMAT);
	strcpy(name + 254, "[1-12]");
	assert_int_equal(ckpt_node_list_find(name, "n1", &index, &count, NULL, &err),
			 CKPT_E_FORMAT);
	assert_int_equal(ckpt_node_list_find("n[0-999999]", "n999999", &index, &count, NULL, &err),
			 0);
	assert_int_equal(index, 999999);
}

UNIT_SUITE(test_node_list)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_read_as_slurm_reads_them),
		cmocka_unit_test(what_is_no_list_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
