/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/items.h"
#include "tensor/map.h"

#include <string.h>

/* Strided views of any bytes, against a reference that looks up item by item. */

enum { MOST_DIMS = 5, FILE_SIZE = 1 << 20 };

static char *folder;
static struct ckpt_error err;
static struct ckpt_source *file;
static uint8_t *bytes;
static uint64_t random_state = 88172645463325252u;

static uint64_t below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return (random_state ^= random_state << 17) % n;
}

static int setup(void **state)
{
	char *path;

	(void)state;
	folder = unit_folder_new();
	path = unit_path(folder, "bytes");
	bytes = malloc(FILE_SIZE);
	assert_non_null(bytes);
	for (size_t i = 0; i < FILE_SIZE; i++)
		bytes[i] = (uint8_t)below(256);
	unit_write_file(path, bytes, FILE_SIZE);
	assert_int_equal(ckpt_source_open(path, &file, &err), 0);
	free(path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_source_unref(file);
	free(bytes);
	unit_folder_remove(folder);
	return 0;
}

/* A view of the file that stays inside of it. */
static void any_view(struct ckpt_items *items, uint64_t *shape, uint64_t *stride)
{
	static const uint32_t sizes[] = { 1, 2, 4, 8, 16 };
	static const uint64_t strides[] = { 0, 1, 1, 2, 3, 7, 100, 1000, 5000 };
	uint64_t last = 0;

	*items = (struct ckpt_items){ .itemsize = sizes[below(5)],
				      .ndim = (uint32_t)below(MOST_DIMS + 1),
				      .offset = below(50),
				      .shape = shape,
				      .stride = stride };
	for (uint32_t i = 0; i < items->ndim; i++) {
		shape[i] = 1 + below(below(4) ? 6 : 40);
		stride[i] = strides[below(9)];
		last += (shape[i] - 1) * stride[i];
	}
	while ((items->offset + last + 1) * items->itemsize > FILE_SIZE - 16) {
		uint32_t i = (uint32_t)below(items->ndim);

		last -= (shape[i] - 1) * stride[i];
		shape[i] = 1;
	}
	items->reversed = below(2) ? below(1u << items->ndim) : 0;
}

static void look_up(const struct ckpt_items *items, uint64_t item, const uint8_t *from,
		    uint8_t *out)
{
	uint64_t at = items->offset;

	for (uint32_t i = items->ndim; i-- > 0; item /= items->shape[i]) {
		uint64_t n = item % items->shape[i];

		at += (items->reversed >> i & 1 ? items->shape[i] - 1 - n : n) * items->stride[i];
	}
	memcpy(out, from + at * items->itemsize, items->itemsize);
}

static void read_and_compare(struct ckpt_items *items, const uint8_t *from)
{
	struct ckpt_items_reader reader;
	uint8_t *found, want[16];

	assert_int_equal(ckpt_items_check(items, &err), 0);
	ckpt_items_open(items, &reader);
	for (int pass = 0; pass < 3; pass++) {
		uint64_t first = pass ? below(items->numel) : 0,
			 count = pass ? 1 + below(items->numel - first) : items->numel;

		found = malloc((size_t)count * items->itemsize);
		assert_non_null(found);
		assert_int_equal(ckpt_items_read(&reader, first, count, found, &err), 0);
		for (uint64_t i = 0; i < count; i++) {
			look_up(items, first + i, from, want);
			assert_memory_equal(found + i * items->itemsize, want, items->itemsize);
		}
		free(found);
	}
	ckpt_items_close(&reader);
}

static void views_of_a_file_give_every_item_in_order(void **state)
{
	uint64_t shape[MOST_DIMS], stride[MOST_DIMS];
	struct ckpt_items items;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		any_view(&items, shape, stride);
		items.bytes = (struct ckpt_recipe){
			.kind = CKPT_RECIPE_EXTENT, .src = file, .off = 16, .len = FILE_SIZE - 16
		};
		read_and_compare(&items, bytes + 16);
	}
}

static int inverted(const struct ckpt_map *map, const void *kept, uint64_t pos, const void *in,
		    size_t len, void *out, struct ckpt_error *error)
{
	(void)map;
	(void)kept;
	(void)pos;
	(void)error;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)out)[i] = (uint8_t) ~((const uint8_t *)in)[i];
	return 0;
}

/* JOINED of two halves, MAP of that, and a stream that cannot be sought: what is before is read again. */
static void views_of_made_bytes_give_the_same(void **state)
{
	uint64_t shape[MOST_DIMS], stride[MOST_DIMS];
	struct ckpt_recipe parts[2], joined;
	struct ckpt_map map = { .from = 1, .to = 1, .apply = inverted };
	struct ckpt_skip skip;
	uint8_t *inverse = malloc(FILE_SIZE);
	struct ckpt_items items;

	(void)state;
	assert_non_null(inverse);
	inverted(NULL, NULL, 0, bytes, FILE_SIZE, inverse, NULL);
	parts[0] = (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT, .src = file, .len = 70016 };
	parts[1] = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY,
					 .memory = bytes + 70016,
					 .len = FILE_SIZE - 70016 };
	joined = (struct ckpt_recipe){
		.kind = CKPT_RECIPE_JOINED, .len = FILE_SIZE, .parts = parts, .part_count = 2
	};
	map.inner = joined;
	skip = (struct ckpt_skip){ joined, 16, FILE_SIZE - 16, false };
	for (int i = 0; i < 200; i++) {
		any_view(&items, shape, stride);
		items.bytes = joined;
		read_and_compare(&items, bytes);
		items.bytes = ckpt_map_recipe(&map);
		read_and_compare(&items, inverse);
		items.bytes = ckpt_skip_recipe(&skip);
		if (items.itemsize == 16 && !(i % 8))
			read_and_compare(&items, bytes + 16);
	}
	free(inverse);
}

static void items_outside_of_their_bytes_are_refused(void **state)
{
	static const uint64_t shape[2] = { 3, 4 }, stride[2] = { 4, 1 },
			      far[2] = { UINT64_MAX / 2, 1 }, many[2] = { UINT64_MAX / 2, 4 };
	struct ckpt_items items = {
		.bytes = { .kind = CKPT_RECIPE_MEMORY, .memory = bytes, .len = 48 },
		.itemsize = 4,
		.ndim = 2,
		.shape = shape,
		.stride = stride
	};

	(void)state;
	assert_int_equal(ckpt_items_check(&items, &err), 0);
	assert_int_equal(items.numel, 12);
	assert_true(ckpt_items_are_dense(&items));
	items.offset = 1;
	assert_int_equal(ckpt_items_check(&items, &err), CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "its items reach beyond the 48 bytes that it has");
	items.offset = 0;
	items.stride = far;
	assert_int_equal(ckpt_items_check(&items, &err), CKPT_E_FORMAT);
	items.stride = stride;
	items.shape = many;
	assert_int_equal(ckpt_items_check(&items, &err), CKPT_E_FORMAT);
}

UNIT_SUITE(test_items)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_of_a_file_give_every_item_in_order),
		cmocka_unit_test(views_of_made_bytes_give_the_same),
		cmocka_unit_test(items_outside_of_their_bytes_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
