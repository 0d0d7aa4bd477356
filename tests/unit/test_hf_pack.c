/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "set/hf/pack.h"

#include <stdio.h>
#include <string.h>

/* "0 1 | 2": which items are in which shard; those that share the storage of item F have FIRST F. */
static const char *packed(const struct ckpt_hf_item *items, uint32_t count, uint64_t limit,
			  uint64_t nbytes, char out[200])
{
	struct ckpt_hf_packing packing;
	size_t len = 0;

	assert_int_equal(ckpt_hf_pack(items, count, limit, &packing, NULL), 0);
	out[0] = '\0';
	for (uint32_t s = 0; s < packing.shard_count; s++)
		for (uint64_t i = packing.starts[s]; i < packing.starts[s + 1]; i++)
			len += (size_t)snprintf(out + len, 200 - len, "%s%s%u",
						s && i == packing.starts[s] ? " |" : "",
						len ? " " : "", (unsigned)packing.order[i]);
	assert_int_equal(packing.starts[packing.shard_count], count);
	assert_int_equal(packing.nbytes, nbytes);
	ckpt_hf_packing_clear(&packing);
	return out;
}

/* What split_torch_state_dict_into_shards() of huggingface_hub 0.34 and 2.4 gives. */
static void items_are_dealt_out_as_the_hub_library_does(void **state)
{
	static const struct {
		struct ckpt_hf_item items[8];
		uint32_t count;
		uint64_t limit, nbytes;
		const char *shards;
	} cases[] = {
		/* its own example */
		{ { { 6, 0 }, { 6, 1 }, { 2, 2 }, { 6, 3 }, { 2, 4 }, { 2, 5 } },
		  6,
		  10,
		  24,
		  "0 | 1 2 | 3 4 5" },
		/* an exact fit stays, a byte more does not */
		{ { { 5, 0 }, { 5, 1 }, { 1, 2 } }, 3, 10, 11, "0 1 | 2" },
		{ { { 10, 0 }, { 10, 1 } }, 2, 10, 20, "0 | 1" },
		{ { { 4, 0 }, { 5, 1 } }, 2, 9, 9, "0 1" },
		/* what is too large overtakes the shard that is being filled */
		{ { { 1, 0 }, { 11, 1 }, { 2, 2 } }, 3, 10, 14, "1 | 0 2" },
		{ { { 11, 0 }, { 12, 1 } }, 2, 10, 23, "0 | 1" },
		{ { { 1, 0 }, { 11, 1 }, { 10, 2 }, { 12, 3 } }, 4, 10, 34, "1 | 0 | 3 | 2" },
		/* shared storages count once, behind the others of the shard of the first */
		{ { { 6, 0 }, { 6, 1 }, { 6, 0 }, { 6, 1 }, { 4, 4 }, { 6, 0 } },
		  6,
		  10,
		  16,
		  "0 2 5 | 1 4 3" },
		{ { { 20, 0 }, { 3, 1 }, { 20, 0 } }, 3, 10, 23, "0 2 | 1" },
		/* nothing takes no room */
		{ { { 0, 0 }, { 10, 1 }, { 0, 0 }, { 0, 3 } }, 4, 10, 10, "0 1 3 2" },
		{ { { 0, 0 }, { 1, 1 } }, 2, 0, 1, "1 | 0" },
		{ { { 0 } }, 0, 10, 0, "" },
	};
	char out[200];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_string_equal(packed(cases[i].items, cases[i].count, cases[i].limit,
					   cases[i].nbytes, out),
				    cases[i].shards);
}

static void more_bytes_than_can_be_counted_are_refused(void **state)
{
	static const struct ckpt_hf_item items[] = { { UINT64_MAX - 1, 0 }, { 2, 1 } };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_hf_packing packing;

	(void)state;
	assert_int_equal(ckpt_hf_pack(items, 2, 10, &packing, &err), CKPT_E_LIMIT);
	assert_string_equal(unit_message(&err), "the tensors have more bytes than can be counted");
	ckpt_hf_packing_clear(&packing);
}

UNIT_SUITE(test_hf_pack)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_are_dealt_out_as_the_hub_library_does),
		cmocka_unit_test(more_bytes_than_can_be_counted_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
