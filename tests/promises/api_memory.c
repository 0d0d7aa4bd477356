/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation fails in turn: a checkpoint is built, saved, opened by a reader, walked object by object, and its storages are
 * read. Each call either does its work or says CKPT_E_NOMEM, and nothing is left behind. Ends when none is left to fail.
 */
#include <ckpt/ckpt.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *p);

#define SEEN __attribute__((visibility("default"))) /* by the library */

static unsigned long calls, fails_at;
static long live; /* allocations that nobody freed */

static int fails(void)
{
	unsigned long n = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);

	if (n != fails_at)
		return 0;
	errno = ENOMEM;
	return 1;
}

static void *counted(void *p)
{
	if (p)
		__atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
	return p;
}

SEEN void *malloc(size_t size)
{
	return fails() ? NULL : counted(__libc_malloc(size));
}

SEEN void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : counted(__libc_calloc(count, size));
}

SEEN void *realloc(void *old, size_t size)
{
	if (fails())
		return NULL;
	return old ? __libc_realloc(old, size) : counted(__libc_realloc(old, size));
}

SEEN void free(void *p)
{
	if (p)
		__atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
	__libc_free(p);
}

/* ---- the work ---- */

static struct ckpt_error err;

#define DO(call) \
	do { \
		rc = call; \
		if (rc < 0) \
			goto out; \
	} while (0)

static int build(struct ckpt_model **out)
{
	static const float numbers[6] = { 0, 1, 2, 3, 4, 5 };
	static const uint64_t shape[2] = { 2, 3 };
	struct ckpt_tensor_view view = CKPT_TENSOR_VIEW_INIT;
	const struct ckpt_node *storage, *t;
	struct ckpt_builder *b;
	struct ckpt_node *root, *list;
	int rc = ckpt_builder_new(&b, &err);

	if (rc < 0)
		return rc;
	view.shape = shape;
	view.ndim = 2;
	root = ckpt_build_dict(b);
	storage = ckpt_build_storage(b, "float32", "cuda:1", numbers, sizeof(numbers));
	t = ckpt_build_tensor(b, storage, &view);
	ckpt_build_put(b, root, ckpt_build_str(b, "w", 1), t);
	ckpt_build_put(b, root, ckpt_build_str(b, "p", 1), ckpt_build_parameter(b, t, true));
	list = ckpt_build_list(b);
	for (int i = 0; i < 40; i++)
		ckpt_build_append(b, list, ckpt_build_int(b, i));
	ckpt_build_append(b, list, ckpt_build_complex(b, 1, 2));
	ckpt_build_append(b, list, ckpt_build_bytes(b, "abc", 3));
	ckpt_build_append(b, list, ckpt_build_distinct_bytes(b, "a", 1));
	ckpt_build_put(b, root, ckpt_build_interned(b, "l", 1), list);
	return ckpt_builder_finish(b, root, out, &err);
}

static int read_memory(void *ctx, uint64_t offset, void *buf, size_t len)
{
	memcpy(buf, (const char *)ctx + offset, len);
	return 0;
}

static int walk(const struct ckpt_model *model, const struct ckpt_node *node, unsigned depth)
{
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;
	struct ckpt_node_rebuild rebuild = CKPT_NODE_REBUILD_INIT;
	uint64_t index;
	int rc = ckpt_node_get(model, node, &info, &err);

	if (rc == 0 && info.kind == CKPT_NODE_TENSOR)
		rc = ckpt_node_tensor(model, node, &index, &err);
	if (rc == 0 && info.kind == CKPT_NODE_TENSOR)
		rc = ckpt_node_rebuild(model, node, &rebuild, &err);
	if (rc == CKPT_E_NOTFOUND)
		rc = 0;
	for (uint64_t i = 0; rc == 0 && depth && i < info.item_count; i++)
		rc = walk(model, ckpt_node_item(model, node, i), depth - 1);
	for (uint64_t i = 0; rc == 0 && depth && i < info.pair_count; i++)
		rc = walk(model, ckpt_node_value(model, node, i), depth - 1);
	return rc;
}

static int work(void)
{
	struct ckpt_model *built = NULL, *model = NULL;
	struct ckpt_save_options save = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_reader_options from = CKPT_READER_OPTIONS_INIT;
	struct ckpt_storage_read_options how = CKPT_STORAGE_READ_OPTIONS_INIT;
	struct ckpt_storage_info info = CKPT_STORAGE_INFO_INIT;
	const struct ckpt_node *root;
	bool accepts[CKPT_SCAN_TORCH_COUNT];
	float got[6];
	struct ckpt_storage_range range = { 0, 0, sizeof(got), got };
	struct ckpt_array *array = NULL;
	int fd = memfd_create("saved", 0), rc;
	void *map = MAP_FAILED;

	err = (struct ckpt_error)CKPT_ERROR_INIT;
	DO(build(&built));
	save.flags = CKPT_SAVE_TO_FD;
	save.out_fd = fd;
	DO(ckpt_save(built, "x.pt", &save, NULL, &err));
	from.nbytes = (uint64_t)lseek(fd, 0, SEEK_END);
	map = mmap(NULL, from.nbytes, PROT_READ, MAP_SHARED, fd, 0);
	from.read = read_memory;
	from.ctx = map;
	DO(ckpt_open_reader(&from, &model, &err));
	DO(ckpt_node_find(model, "", &root, &err));
	DO(walk(model, root, 3));
	DO(ckpt_storage_get(model, 0, &info, &err));
	how.threads = 1;
	how.check = 1;
	DO(ckpt_storages_read(model, &range, 1, &how, &err));
	DO(ckpt_node_find(model, "w", &root, &err));
	DO(ckpt_scan_model_weights_only(model, accepts, NULL, NULL, &err));
	if (!accepts[CKPT_SCAN_TORCH_2_6]) {
		rc = 1;
		goto out;
	}
	DO(ckpt_node_array(model, root, "w", 0, &array, &err));
	DO(ckpt_array_read(array, 0, 6, got, &err));
	if (got[5] != 5)
		rc = 1;
out:
	ckpt_array_close(array);
	ckpt_close(model);
	ckpt_close(built);
	if (map != MAP_FAILED)
		munmap(map, from.nbytes);
	close(fd);
	return rc;
}

int main(void)
{
	unsigned long failed = 0;

	if (work() != 0 || work() != 0) { /* twice: what is allocated once is there then */
		fprintf(stderr, "does not work at all: %s\n", err.text);
		return 1;
	}
	for (fails_at = 1;; fails_at++) {
		long before = live;
		int rc;

		calls = 0;
		rc = work();
		if (rc != 0 && rc != CKPT_E_NOMEM) {
			fprintf(stderr, "allocation %lu fails: status %d, %s\n", fails_at, rc, err.text);
			return 1;
		}
		if (live != before) {
			fprintf(stderr, "allocation %lu fails: %ld are left\n", fails_at, live - before);
			return 1;
		}
		failed += rc != 0;
		if (calls < fails_at)
			break;
	}
	printf("%lu allocations, %lu of them ended the work\n", calls, failed);
	return failed < 30; /* else nothing was tried */
}
