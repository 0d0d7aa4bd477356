/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <ckpt/ckpt.h>

#include <stdio.h>
#include <string.h>

/* <ckpt/build.h>, <ckpt/node.h> and <ckpt/storage.h>: what is built is what is read again. */

static struct ckpt_error err;
static const float numbers[6] = { 0, 1, 2, 3, 4, 5 };

static const struct ckpt_node *str(struct ckpt_builder *b, const char *text)
{
	return ckpt_build_str(b, text, strlen(text));
}

static const struct ckpt_node *tensor(struct ckpt_builder *b, const struct ckpt_node *storage,
				      const uint64_t *shape, const uint64_t *stride, uint32_t ndim,
				      uint64_t offset)
{
	struct ckpt_tensor_view view = CKPT_TENSOR_VIEW_INIT;

	view.shape = shape;
	view.stride = stride;
	view.ndim = ndim;
	view.offset = offset;
	return ckpt_build_tensor(b, storage, &view);
}

/* {'w': 2x3, 't': its transpose, 'p': Parameter(w), 'l': [itself, ...]} and values of all kinds. */
static struct ckpt_model *build(void)
{
	static const uint64_t wide[2] = { 2, 3 }, tall[2] = { 3, 2 }, turned[2] = { 1, 3 };
	static const uint8_t large[9] = { 0, 0, 0, 0, 0, 0, 0, 0, 1 },
			     minus[9] = { 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	struct ckpt_builder *b;
	struct ckpt_model *model;
	const struct ckpt_node *storage, *w, *pair[2];
	struct ckpt_node *root, *list, *set, *object;

	assert_int_equal(ckpt_builder_new(&b, &err), 0);
	root = ckpt_build_dict(b);
	storage = ckpt_build_storage(b, "float32", "cpu", numbers, sizeof(numbers));
	w = tensor(b, storage, wide, NULL, 2, 0);
	assert_true(ckpt_build_put(b, root, str(b, "w"), w));
	assert_true(ckpt_build_put(b, root, str(b, "t"), tensor(b, storage, tall, turned, 2, 0)));
	assert_true(ckpt_build_put(b, root, str(b, "p"), ckpt_build_parameter(b, w, true)));
	list = ckpt_build_list(b);
	assert_true(ckpt_build_append(b, list, ckpt_build_none(b)));
	assert_true(ckpt_build_append(b, list, ckpt_build_bool(b, true)));
	assert_true(ckpt_build_append(b, list, ckpt_build_int(b, -7)));
	assert_true(ckpt_build_append(b, list, ckpt_build_long(b, large, 9)));
	assert_true(ckpt_build_append(b, list, ckpt_build_long(b, minus, 9)));
	assert_true(ckpt_build_append(b, list, ckpt_build_float(b, 0.5)));
	assert_true(ckpt_build_append(b, list, ckpt_build_complex(b, 1, -2)));
	assert_true(ckpt_build_append(b, list, ckpt_build_bytes(b, "a\0\xff", 3)));
	assert_true(ckpt_build_append(b, list, ckpt_build_bytearray(b, "xy", 2)));
	set = ckpt_build_set(b);
	assert_true(ckpt_build_append(b, set, ckpt_build_int(b, 3)));
	assert_true(ckpt_build_append(b, list, set));
	pair[0] = ckpt_build_int(b, 1);
	pair[1] = str(b, "\xc3\xa4");
	assert_true(ckpt_build_append(b, list, ckpt_build_tuple(b, pair, 2)));
	assert_true(ckpt_build_append(b, list, ckpt_build_frozenset(b, pair, 1)));
	assert_true(ckpt_build_append(b, list, ckpt_build_global(b, "torch", "float32")));
	assert_true(ckpt_build_append(b, list, list));
	assert_true(ckpt_build_put(b, root, str(b, "l"), list));
	object = ckpt_build_new(b, ckpt_build_global(b, "m", "C"), ckpt_build_tuple(b, NULL, 0));
	assert_true(ckpt_build_append(b, object, ckpt_build_int(b, 4)));
	assert_true(ckpt_build_put(b, object, str(b, "k"), object));
	assert_true(ckpt_build_set_state(b, object, pair[0]));
	assert_true(ckpt_build_put(b, root, str(b, "o"), object));
	assert_int_equal(ckpt_builder_finish(b, root, &model, &err), 0);
	return model;
}

static struct ckpt_node_info info_of(const struct ckpt_model *model, const struct ckpt_node *node)
{
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;

	assert_non_null(node);
	assert_int_equal(ckpt_node_get(model, node, &info, &err), 0);
	return info;
}

static void check_bytes(const struct ckpt_model *model, const struct ckpt_node *node,
			enum ckpt_node_kind kind, const char *bytes, size_t len)
{
	struct ckpt_node_info info = info_of(model, node);
	char got[16] = { 0 };

	assert_int_equal(info.kind, kind);
	assert_int_equal(info.nbytes, len);
	assert_int_equal(ckpt_node_bytes(model, node, got, &err), 0);
	assert_memory_equal(got, bytes, len);
}

static void check_list(const struct ckpt_model *model, const struct ckpt_node *list)
{
	struct ckpt_node_info info = info_of(model, list);

	assert_int_equal(info.kind, CKPT_NODE_LIST);
	assert_int_equal(info.item_count, 14);
	assert_int_equal(info_of(model, ckpt_node_item(model, list, 0)).kind, CKPT_NODE_NONE);
	info = info_of(model, ckpt_node_item(model, list, 1));
	assert_true(info.kind == CKPT_NODE_BOOL && info.integer == 1);
	info = info_of(model, ckpt_node_item(model, list, 2));
	assert_true(info.kind == CKPT_NODE_INT && info.integer == -7);
	check_bytes(model, ckpt_node_item(model, list, 3), CKPT_NODE_LONG, "\0\0\0\0\0\0\0\0\1", 9);
	info = info_of(model, ckpt_node_item(model, list, 4));
	assert_true(info.kind == CKPT_NODE_INT && info.integer == -2);
	info = info_of(model, ckpt_node_item(model, list, 5));
	assert_true(info.kind == CKPT_NODE_FLOAT && info.real == 0.5);
	info = info_of(model, ckpt_node_item(model, list, 6));
	assert_true(info.kind == CKPT_NODE_COMPLEX && info.real == 1 && info.imag == -2);
	check_bytes(model, ckpt_node_item(model, list, 7), CKPT_NODE_BYTES, "a\0\xff", 3);
	check_bytes(model, ckpt_node_item(model, list, 8), CKPT_NODE_BYTEARRAY, "xy", 2);
	info = info_of(model, ckpt_node_item(model, list, 9));
	assert_true(info.kind == CKPT_NODE_SET && info.item_count == 1);
	info = info_of(model, ckpt_node_item(model, list, 10));
	assert_true(info.kind == CKPT_NODE_TUPLE && info.item_count == 2);
	check_bytes(model, ckpt_node_item(model, ckpt_node_item(model, list, 10), 1), CKPT_NODE_STR,
		    "\xc3\xa4", 2);
	info = info_of(model, ckpt_node_item(model, list, 11));
	assert_true(info.kind == CKPT_NODE_FROZENSET && info.item_count == 1);
	info = info_of(model, ckpt_node_item(model, list, 12));
	assert_int_equal(info.kind, CKPT_NODE_GLOBAL);
	assert_string_equal(info.module, "torch");
	assert_string_equal(info.class_name, "float32");
	assert_ptr_equal(ckpt_node_item(model, list, 13), list); /* it contains itself */
	assert_null(ckpt_node_item(model, list, 14));
}

/* m.C.__new__(m.C), with an item, itself under a key, and a state. */
static void check_object(const struct ckpt_model *model, const struct ckpt_node *object)
{
	struct ckpt_node_info info = info_of(model, object);

	assert_int_equal(info.kind, CKPT_NODE_OBJECT);
	assert_true(info.is_new);
	assert_string_equal(info.module, "m");
	assert_string_equal(info.class_name, "C");
	assert_int_equal(info.item_count, 1);
	assert_int_equal(info.pair_count, 1);
	assert_int_equal(info_of(model, ckpt_node_item(model, object, 0)).integer, 4);
	check_bytes(model, ckpt_node_key(model, object, 0), CKPT_NODE_STR, "k", 1);
	assert_ptr_equal(ckpt_node_value(model, object, 0), object);
	assert_int_equal(info_of(model, ckpt_node_part(model, object, CKPT_PART_STATE)).integer, 1);
}

static void check_tensor(const struct ckpt_model *model, const struct ckpt_node *node,
			 const char *name, const float *wanted)
{
	struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;
	struct ckpt_array *array;
	uint64_t index;
	float got[6];

	assert_int_equal(info_of(model, node).kind, CKPT_NODE_TENSOR);
	assert_int_equal(ckpt_node_tensor(model, node, &index, &err), 0);
	assert_int_equal(ckpt_tensor_get(model, index, &t), 0);
	assert_string_equal(t.name, name);
	assert_int_equal(ckpt_node_array(model, node, name, 0, &array, &err), 0);
	assert_int_equal(ckpt_array_read(array, 0, 6, got, &err), 0);
	ckpt_array_close(array);
	assert_memory_equal(got, wanted, sizeof(got));
}

/* NODE is made by the usual call, of its storage from OFFSET. */
static void check_rebuild(const struct ckpt_model *model, const struct ckpt_node *node, int64_t rows, int64_t columns,
			  int64_t row_stride, int64_t column_stride)
{
	struct ckpt_node_rebuild how = CKPT_NODE_REBUILD_INIT;
	const struct ckpt_node *args = ckpt_node_part(model, node, CKPT_PART_ARGS);

	how.shape[2] = -3;
	assert_int_equal(ckpt_node_rebuild(model, node, &how, &err), 0);
	assert_ptr_equal(how.storage, ckpt_node_item(model, args, 0));
	assert_ptr_equal(how.hooks, ckpt_node_item(model, args, 5));
	assert_int_equal(how.offset, 0);
	assert_int_equal(how.ndim, 2);
	assert_false(how.requires_grad);
	assert_int_equal(how.shape[0], rows);
	assert_int_equal(how.shape[1], columns);
	assert_int_equal(how.stride[0], row_stride);
	assert_int_equal(how.stride[1], column_stride);
	assert_int_equal(how.shape[2], 0);
}

static void check_other_rebuild(const struct ckpt_model *model, const struct ckpt_node *node)
{
	struct ckpt_node_rebuild how = CKPT_NODE_REBUILD_INIT;

	assert_int_equal(ckpt_node_rebuild(model, node, &how, &err), CKPT_E_NOTFOUND);
}

static void check_all(const struct ckpt_model *model)
{
	static const float turned[6] = { 0, 3, 1, 4, 2, 5 };
	const struct ckpt_node *root, *list;
	struct ckpt_node_info info;

	assert_int_equal(ckpt_node_find(model, "", &root, &err), 0);
	info = info_of(model, root);
	assert_int_equal(info.kind, CKPT_NODE_DICT);
	assert_int_equal(info.pair_count, 5);
	check_bytes(model, ckpt_node_key(model, root, 0), CKPT_NODE_STR, "w", 1);
	check_tensor(model, ckpt_node_value(model, root, 0), "w", numbers);
	check_tensor(model, ckpt_node_value(model, root, 1), "t", turned);
	assert_int_equal(info_of(model, ckpt_node_value(model, root, 2)).kind, CKPT_NODE_TENSOR);
	check_rebuild(model, ckpt_node_value(model, root, 0), 2, 3, 3, 1);
	check_rebuild(model, ckpt_node_value(model, root, 1), 3, 2, 1, 3);
	check_other_rebuild(model, ckpt_node_value(model, root, 2)); /* a parameter */
	check_other_rebuild(model, root);
	/* of a tensor, arguments are a storage and how it lies in that */
	list = ckpt_node_item(model, ckpt_node_part(model, ckpt_node_value(model, root, 0), CKPT_PART_ARGS), 0);
	info = info_of(model, list);
	assert_int_equal(info.kind, CKPT_NODE_STORAGE);
	assert_int_equal(info.integer, 0);
	assert_string_equal(info.class_name, "FloatStorage");
	assert_int_equal(ckpt_node_find(model, "l", &list, &err), 0);
	assert_ptr_equal(ckpt_node_value(model, root, 3), list);
	check_object(model, ckpt_node_value(model, root, 4));
	assert_null(ckpt_node_value(model, root, 5));
	check_list(model, list);
}

static void what_is_built_is_read(void **state)
{
	struct ckpt_model *model = build();

	(void)state;
	check_all(model);
	ckpt_close(model);
}

struct bytes_reader {
	const uint8_t *bytes;
	int failure;
	unsigned closed;
};

static int read_bytes(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct bytes_reader *r = ctx;

	if (!r->failure)
		memcpy(buf, r->bytes + offset, len);
	return r->failure;
}

static void close_bytes(void *ctx)
{
	((struct bytes_reader *)ctx)->closed++;
}

static void check_storage(const struct ckpt_model *model, const char *path)
{
	struct ckpt_storage_info info = CKPT_STORAGE_INFO_INIT;
	float part[4] = { 0 }, whole[6] = { 0 };
	struct ckpt_storage_range ranges[2] = { { 0, 4, sizeof(part), part },
						{ 0, 0, sizeof(whole), whole } };
	struct ckpt_storage_read_options options = CKPT_STORAGE_READ_OPTIONS_INIT;
	int cancel = 1;
	const void *map;

	assert_int_equal(ckpt_storage_count(model), 1);
	assert_int_equal(ckpt_storage_get(model, 0, &info, &err), 0);
	assert_string_equal(info.dtype, "float32");
	assert_string_equal(info.device, "cpu");
	assert_int_equal(info.nbytes, sizeof(numbers));
	assert_int_equal(info.path != NULL, path != NULL);
	if (path) {
		struct ckpt_buf file = unit_read_file(path);

		assert_string_equal(info.path, path);
		assert_memory_equal(file.data + info.offset, numbers, sizeof(numbers));
		assert_int_equal(ckpt_storage_map(model, 0, &map, &err), 0);
		assert_memory_equal(map, numbers, sizeof(numbers));
		ckpt_buf_clear(&file);
	}
	options.check = 1;
	assert_int_equal(ckpt_storages_read(model, ranges, 2, &options, &err), 0);
	assert_memory_equal(part, numbers + 1, sizeof(part));
	assert_memory_equal(whole, numbers, sizeof(whole));
	options.cancel = &cancel;
	assert_int_equal(ckpt_storages_read(model, ranges, 2, &options, &err), CKPT_E_CANCELLED);
	ranges[0].offset = 12;
	assert_int_equal(ckpt_storages_read(model, ranges, 2, NULL, &err), CKPT_E_ARG);
	assert_int_equal(ckpt_storage_get(model, 1, &info, &err), CKPT_E_ARG);
}

/* In a file of each kind, and by a reader of the caller's. */
static void what_is_saved_is_read(void **state)
{
	static const char *const formats[] = { "torch", "torch-legacy" };
	char *folder = unit_folder_new(), *path = unit_path(folder, "x.pt");
	struct ckpt_model *built = build(), *model;

	(void)state;
	for (size_t i = 0; i < COUNT(formats); i++) {
		struct ckpt_save_options save = CKPT_SAVE_OPTIONS_INIT;
		struct ckpt_reader_options from = CKPT_READER_OPTIONS_INIT;
		struct bytes_reader reader = { 0 };
		struct ckpt_buf file;

		save.format = formats[i];
		save.flags = CKPT_SAVE_REPLACE;
		assert_int_equal(ckpt_save(built, path, &save, NULL, &err), 0);
		assert_int_equal(ckpt_open(path, &model, &err), 0);
		check_all(model);
		check_storage(model, path);
		ckpt_close(model);
		assert_int_equal(ckpt_open_with(path, CKPT_OPEN_BRIEF, &model, &err), 0);
		check_all(model);
		ckpt_close(model);

		file = unit_read_file(path);
		reader.bytes = file.data;
		from.read = read_bytes;
		from.close = close_bytes;
		from.ctx = &reader;
		from.nbytes = file.len;
		assert_int_equal(ckpt_open_reader(&from, &model, &err), 0);
		check_all(model);
		check_storage(model, NULL);
		ckpt_close(model);
		assert_int_equal(reader.closed, 1);
		reader.failure = 5;
		assert_int_equal(ckpt_open_reader(&from, &model, &err), CKPT_E_IO);
		assert_int_equal(err.sys_errno, 5);
		assert_int_equal(reader.closed, 2);
		ckpt_buf_clear(&file);
	}
	ckpt_close(built);
	free(path);
	unit_folder_remove(folder);
}

/* The first mistake is told, whatever follows. */
static void mistakes_are_told(void **state)
{
	static const uint64_t shape[1] = { 7 };
	struct ckpt_builder *b;
	struct ckpt_model *model;
	const struct ckpt_node *storage;

	(void)state;
	assert_int_equal(ckpt_builder_new(&b, &err), 0);
	storage = ckpt_build_storage(b, "float32", "cpu", numbers, sizeof(numbers));
	assert_null(tensor(b, storage, shape, NULL, 1, 0));
	assert_false(ckpt_build_put(b, ckpt_build_dict(b), str(b, "x"), NULL));
	assert_int_equal(ckpt_builder_finish(b, ckpt_build_none(b), &model, &err), CKPT_E_ARG);
	assert_string_equal(unit_text(&err), "a tensor reaches beyond its storage");

	assert_int_equal(ckpt_builder_new(&b, &err), 0);
	assert_null(ckpt_build_global(b, "m", "C\ncos\nsystem"));
	assert_null(ckpt_build_global(b, "m\n", "C"));
	assert_int_equal(ckpt_builder_finish(b, ckpt_build_none(b), &model, &err), CKPT_E_ARG);
	assert_string_equal(unit_text(&err), "a class or function has no line feed in its name");

	assert_int_equal(ckpt_builder_new(&b, &err), 0);
	assert_null(ckpt_build_storage(b, "float33", "cpu", numbers, 4));
	assert_int_equal(ckpt_builder_finish(b, ckpt_build_none(b), &model, &err), CKPT_E_ARG);
	assert_string_equal(unit_text(&err), "torch has no such dtype");

	assert_int_equal(ckpt_builder_new(&b, &err), 0);
	assert_int_equal(ckpt_builder_finish(b, NULL, &model, &err), CKPT_E_ARG);
	ckpt_builder_free(NULL);
}

UNIT_SUITE(test_build)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_built_is_read),
		cmocka_unit_test(what_is_saved_is_read),
		cmocka_unit_test(mistakes_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
