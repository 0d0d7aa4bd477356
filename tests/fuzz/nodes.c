/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>

/* Values object by object, and the bytes of storages. */

enum { MOST_NODES = 3000, MOST_BYTES = 1 << 20, MOST_STORAGES = 20 };

struct nodes {
	const struct ckpt_model *model;
	const struct ckpt_node *waiting[MOST_NODES];
	unsigned count;
};

static void add_node(struct nodes *n, const struct ckpt_node *node)
{
	if (node && n->count < MOST_NODES)
		n->waiting[n->count++] = node;
}

static void copy_bytes(const struct nodes *n, const struct ckpt_node *node,
		       const struct ckpt_node_info *info)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint8_t *buf;

	if (info->nbytes > MOST_BYTES)
		return;
	buf = malloc(info->nbytes); /* exactly, so that a sanitizer sees one too many */
	REQUIRE(buf || !info->nbytes);
	fuzz_check_error(ckpt_node_bytes(n->model, node, buf, &err), &err);
	REQUIRE(!info->bytes || !info->nbytes || !memcmp(buf, info->bytes, info->nbytes));
	free(buf);
}

static void open_values(const struct nodes *n, const struct ckpt_node *node)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	struct ckpt_array *array;
	uint64_t index;
	int rc = ckpt_node_tensor(n->model, node, &index, &err);

	REQUIRE(rc < 0 || index < ckpt_tensor_count(n->model));
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	rc = ckpt_node_array(n->model, node, "x", 0, &array, &err);
	fuzz_check_error(rc, &err);
	REQUIRE((rc == 0) == (array != NULL));
	REQUIRE(!array || ckpt_array_get(array, &info) == 0);
	ckpt_array_close(array);
}

/* What is said of a tensor at once is what its parts say. */
static void compare_rebuild(const struct nodes *n, const struct ckpt_node *node)
{
	struct ckpt_node_rebuild how = CKPT_NODE_REBUILD_INIT;
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	const struct ckpt_node *args, *axes;

	if (ckpt_node_rebuild(n->model, node, &how, &err) < 0)
		return;
	args = ckpt_node_part(n->model, node, CKPT_PART_ARGS);
	REQUIRE(how.storage == ckpt_node_item(n->model, args, 0) && how.hooks == ckpt_node_item(n->model, args, 5));
	REQUIRE(!ckpt_node_part(n->model, node, CKPT_PART_STATE) && !ckpt_node_item(n->model, args, 6));
	REQUIRE(ckpt_node_get(n->model, how.storage, &info, &err) == 0 && info.kind == CKPT_NODE_STORAGE);
	REQUIRE(ckpt_node_get(n->model, ckpt_node_item(n->model, args, 1), &info, &err) == 0 && info.integer == how.offset);
	axes = ckpt_node_item(n->model, args, 2);
	REQUIRE(ckpt_node_get(n->model, axes, &info, &err) == 0 && info.kind == CKPT_NODE_TUPLE && info.item_count == how.ndim);
	for (uint32_t i = 0; i < how.ndim; i++)
		REQUIRE(ckpt_node_get(n->model, ckpt_node_item(n->model, axes, i), &info, &err) == 0 && info.integer == how.shape[i]);
}

static void look_at(struct nodes *n, const struct ckpt_node *node)
{
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;

	REQUIRE(ckpt_node_get(n->model, node, &info, &err) == 0);
	REQUIRE(info.kind <= CKPT_NODE_OTHER);
	REQUIRE((info.kind != CKPT_NODE_GLOBAL) || (info.module && info.class_name));
	REQUIRE(info.kind != CKPT_NODE_STORAGE ||
		(uint64_t)info.integer < ckpt_storage_count(n->model));
	for (uint64_t i = 0; i < info.item_count && i < MOST_NODES; i++)
		add_node(n, ckpt_node_item(n->model, node, i));
	REQUIRE(!ckpt_node_item(n->model, node, info.item_count));
	for (uint64_t i = 0; i < info.pair_count && i < MOST_NODES; i++) {
		add_node(n, ckpt_node_key(n->model, node, i));
		add_node(n, ckpt_node_value(n->model, node, i));
	}
	REQUIRE(!ckpt_node_value(n->model, node, info.pair_count));
	for (int part = CKPT_PART_CALLABLE; part <= CKPT_PART_SETTER; part++)
		add_node(n, ckpt_node_part(n->model, node, part));
	if (info.bytes || info.kind == CKPT_NODE_BYTES || info.kind == CKPT_NODE_BYTEARRAY)
		copy_bytes(n, node, &info);
	if (info.kind == CKPT_NODE_TENSOR || info.kind == CKPT_NODE_NDARRAY ||
	    info.kind == CKPT_NODE_SCALAR)
		open_values(n, node);
	compare_rebuild(n, node);
}

static void read_storage(const struct ckpt_model *model, uint64_t i)
{
	struct ckpt_storage_info info = CKPT_STORAGE_INFO_INIT;
	struct ckpt_storage_read_options options = CKPT_STORAGE_READ_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = ckpt_storage_get(model, i, &info, &err);
	struct ckpt_storage_range range = { .storage = i };
	const void *map;

	fuzz_check_error(rc, &err);
	if (rc < 0 || info.nbytes > MOST_BYTES)
		return;
	REQUIRE(info.key && info.dtype && info.device);
	range.buf = malloc(info.nbytes);
	options.threads = 1;
	options.check = i % 2;
	for (range.offset = 0; range.buf && range.offset <= info.nbytes && range.offset < 3;
	     range.offset++) {
		range.nbytes = info.nbytes - range.offset;
		err = (struct ckpt_error)CKPT_ERROR_INIT;
		rc = ckpt_storages_read(model, &range, 1, &options, &err);
		fuzz_check_error(rc, &err);
		err = (struct ckpt_error)CKPT_ERROR_INIT;
		if (rc < 0)
			continue;
		rc = ckpt_storage_map(model, i, &map, &err);
		fuzz_check_error(rc, &err);
		if (rc == 0 && range.nbytes)
			REQUIRE(!memcmp((const uint8_t *)map + range.offset, range.buf,
					range.nbytes));
	}
	free(range.buf);
}

void fuzz_walk_nodes(const struct ckpt_model *model)
{
	struct nodes n = { .model = model };
	struct ckpt_error err = CKPT_ERROR_INIT;
	const struct ckpt_node *root;
	int rc = ckpt_node_find(model, "", &root, &err);

	fuzz_check_error(rc, &err);
	add_node(&n, root);
	for (unsigned i = 0; i < n.count; i++)
		look_at(&n, n.waiting[i]);
	for (uint64_t i = 0; i < ckpt_storage_count(model) && i < MOST_STORAGES; i++)
		read_storage(model, i);
}
