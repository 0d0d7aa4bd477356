/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "plan/mover.h"
#include "tensor/byteswap.h"
#include "tensor/cast.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every kind of piece, in every size class: what arrives, its checksum and its first bytes. */

static char *folder, *in, *out;
static struct ckpt_error err;
static uint8_t *data;
enum { SIZE = 3 << 20 };

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	in = unit_path(folder, "in");
	out = unit_path(folder, "out");
	data = malloc(SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	unit_write_file(in, data, SIZE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(data);
	free(in);
	free(out);
	unit_folder_remove(folder);
	return 0;
}

struct read_stream {
	struct ckpt_stream base;
	uint64_t pos;
};

static int read_some(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *e)
{
	struct read_stream *s = (struct read_stream *)stream;

	(void)e;
	memcpy(buf, data + s->pos, len);
	s->pos += len;
	return 0;
}

static void close_stream(struct ckpt_stream *stream)
{
	free(stream);
}

static int open_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **stream,
		       struct ckpt_error *e)
{
	struct read_stream *s = calloc(1, sizeof(*s));

	(void)e;
	assert_non_null(s);
	s->base = (struct ckpt_stream){ .read = read_some, .close = close_stream };
	s->pos = recipe->off;
	*stream = &s->base;
	return 0;
}

static void every_piece_arrives_with_its_checksum_and_its_first_bytes(void **state)
{
	static const size_t sizes[] = { 0,
					1,
					7,
					8,
					9,
					65536,
					65537,
					1 << 19,
					(1 << 19) + 1,
					(1 << 20) - 1,
					1 << 20,
					(1 << 20) + 1,
					2500000 };
	static const enum ckpt_recipe_kind kinds[] = { CKPT_RECIPE_EXTENT, CKPT_RECIPE_MEMORY,
						       CKPT_RECIPE_STREAM };
	struct ckpt_mover_options options = { 0 };
	struct ckpt_buf want = { 0 }, found;
	struct ckpt_mover *mover;
	struct ckpt_source *src;
	struct ckpt_sink *sink;

	(void)state;
	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	assert_int_equal(ckpt_sink_open(out, 0, 0, 0, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	for (size_t k = 0; k < COUNT(kinds); k++)
		for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
			uint64_t off = 13 * i, len = sizes[i / 2];
			struct ckpt_recipe recipe = { .kind = kinds[k],
						      .src = src,
						      .off = off,
						      .len = len,
						      .memory = data + off,
						      .open = open_stream };
			struct ckpt_moved moved = { .want_crc = i % 2, .want_head = true };

			assert_int_equal(ckpt_mover_put(mover, "between", 7, &err), 0);
			assert_int_equal(ckpt_mover_copy(mover, &recipe, &moved, &err), 0);
			if (moved.want_crc)
				assert_int_equal(moved.crc32, libdeflate_crc32(0, data + off, len));
			assert_int_equal(moved.has_head, len >= 8);
			if (len >= 8)
				assert_memory_equal(moved.head, data + off, 8);
			ckpt_buf_add(&want, "between", 7);
			ckpt_buf_add(&want, data + off, len);
		}
	assert_int_equal(ckpt_mover_flush(mover, &err), 0);
	ckpt_mover_close(mover);
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	ckpt_source_unref(src);
	found = unit_read_file(out);
	assert_int_equal(found.len, want.len);
	assert_memory_equal(found.data, want.data, want.len);
	ckpt_buf_clear(&found);
	ckpt_buf_clear(&want);
}

/* In memory still, in the file already, and half of it in each. */
static void bytes_that_were_put_can_be_put_anew(void **state)
{
	static const uint64_t places[] = { 0, 5, (1 << 20) - 3, (1 << 20) - 8, 1 << 20, 1500000 };
	struct ckpt_mover_options options = { 0 };
	struct ckpt_mover *mover;
	struct ckpt_sink *sink;
	struct ckpt_buf found;

	(void)state;
	assert_int_equal(ckpt_sink_open(out, 0, 0, CKPT_SINK_REPLACE, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	assert_int_equal(ckpt_mover_put(mover, data, 2000000, &err), 0);
	for (size_t i = 0; i < COUNT(places); i++)
		assert_int_equal(ckpt_mover_patch(mover, places[i], "12345678", 8, &err), 0);
	assert_int_equal(ckpt_mover_put(mover, "end", 3, &err), 0);
	assert_int_equal(ckpt_mover_flush(mover, &err), 0);
	ckpt_mover_close(mover);
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	for (size_t i = 0; i < COUNT(places); i++)
		memcpy(data + places[i], "12345678", 8);
	memcpy(data + 2000000, "end", 3);
	found = unit_read_file(out);
	assert_int_equal(found.len, 2000003);
	assert_memory_equal(found.data, data, found.len);
	ckpt_buf_clear(&found);
}

static uint64_t last_done;

static void see_progress(void *ctx, uint64_t done, uint64_t total)
{
	assert_int_equal(total, *(uint64_t *)ctx);
	assert_true(done >= last_done && done <= total);
	last_done = done;
}

static void progress_grows_to_the_total(void **state)
{
	uint64_t total = SIZE + 5;
	struct ckpt_mover_options options = { .total = total,
					      .progress = see_progress,
					      .ctx = &total };
	struct ckpt_recipe recipe = { .kind = CKPT_RECIPE_EXTENT, .len = SIZE };
	struct ckpt_moved moved = { 0 };
	struct ckpt_mover *mover;
	struct ckpt_source *src;
	struct ckpt_sink *sink;

	(void)state;
	last_done = 0;
	ckpt_source_open(in, &src, &err);
	recipe.src = src;
	ckpt_sink_open(out, total, 0, 0, 0666, &sink, &err);
	ckpt_mover_open(sink, &options, &mover, &err);
	assert_int_equal(ckpt_mover_put(mover, "hello", 5, &err), 0);
	assert_int_equal(ckpt_mover_copy(mover, &recipe, &moved, &err), 0);
	assert_int_equal(ckpt_mover_flush(mover, &err), 0);
	assert_int_equal(last_done, total);
	ckpt_mover_close(mover);
	ckpt_mover_close(NULL);
	ckpt_sink_discard(sink);
	ckpt_source_unref(src);
}

/* SHIFT bytes in front: with some, pages of input and output do not line up. */
static void check_holes(size_t shift)
{
	static const uint64_t size = 64 << 20;
	struct ckpt_recipe recipe = { .kind = CKPT_RECIPE_EXTENT, .len = size };
	struct ckpt_mover_options options = { 0 };
	struct ckpt_moved moved = { 0 };
	struct ckpt_mover *mover;
	char *sparse = unit_path(folder, "sparse");
	struct ckpt_source *src;
	struct ckpt_sink *sink;
	struct stat st;
	uint8_t buf[16];
	int fd = open(sparse, O_CREAT | O_WRONLY, 0666);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(pwrite(fd, "middle", 6, 32 << 20), 6);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	if (st.st_blocks * 512 > 1 << 20) {
		free(sparse);
		print_message("skipped: this file system has no holes\n");
		skip();
	}
	assert_int_equal(ckpt_source_open(sparse, &src, &err), 0);
	assert_int_equal(ckpt_sink_open(out, shift + size, 0, 0, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	assert_int_equal(ckpt_mover_put(mover, "0123456789", shift, &err), 0);
	recipe.src = src;
	assert_int_equal(ckpt_mover_copy(mover, &recipe, &moved, &err), 0);
	assert_int_equal(ckpt_mover_flush(mover, &err), 0);
	ckpt_mover_close(mover);
	assert_int_equal(ckpt_sink_sync(sink, &err), 0);
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	ckpt_source_unref(src);
	assert_int_equal(stat(out, &st), 0);
	assert_int_equal(st.st_size, shift + size);
	assert_true(st.st_blocks * 512 < 1 << 20);
	assert_int_equal(ckpt_source_open(out, &src, &err), 0);
	assert_int_equal(ckpt_source_read(src, shift + (32 << 20), buf, 8, &err), 0);
	assert_memory_equal(buf, "middle\0\0", 8);
	ckpt_source_unref(src);
	free(sparse);
	unlink(out);
}

static void holes_of_the_source_stay_holes(void **state)
{
	(void)state;
	check_holes(0);
	check_holes(10);
}

/* A file that is LEN bytes long and has WHAT at each of COUNT places. */
static void make_sparse(const char *path, uint64_t len, const uint64_t *places, size_t count,
			const char *what)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666);

	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	for (size_t i = 0; i < count; i++)
		assert_true(pwrite(fd, what, strlen(what), (off_t)places[i]) > 0);
	close(fd);
}

static int refuse_clones(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	return op == CKPT_IO_CLONE ? EOPNOTSUPP : 0;
}

/* All of the file SPARSE, of which the sink knows the size or not, and which was to be cloned or not. */
static void check_copy(const char *sparse, bool knows_size, bool clone, bool want_crc)
{
	struct ckpt_mover_options options = { 0 };
	struct ckpt_recipe recipe = { .kind = CKPT_RECIPE_EXTENT };
	struct ckpt_moved moved = { .want_crc = want_crc };
	struct ckpt_buf wanted = unit_read_file(sparse), found;
	struct ckpt_mover *mover;
	struct ckpt_source *src;
	struct ckpt_sink *sink;
	bool done;

	assert_int_equal(ckpt_source_open(sparse, &src, &err), 0);
	recipe.src = src;
	recipe.len = ckpt_source_size(src);
	assert_int_equal(ckpt_sink_open(out, knows_size ? recipe.len : 0, 0, 0, 0666, &sink, &err), 0);
	if (clone) {
		ckpt_io_set_hook(refuse_clones, NULL);
		assert_int_equal(ckpt_sink_clone(sink, src, &done, &err), 0);
		ckpt_io_set_hook(NULL, NULL);
		assert_false(done);
	}
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	assert_int_equal(ckpt_mover_copy(mover, &recipe, &moved, &err), 0);
	assert_int_equal(ckpt_mover_flush(mover, &err), 0);
	ckpt_mover_close(mover);
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	ckpt_source_unref(src);
	found = unit_read_file(out);
	assert_int_equal(found.len, wanted.len);
	assert_memory_equal(found.data, wanted.data, wanted.len);
	ckpt_buf_clear(&found);
	ckpt_buf_clear(&wanted);
	unlink(out);
}

static void holes_arrive_wherever_they_are(void **state)
{
	enum { size = 3 << 20 };
	static const struct {
		uint64_t places[3];
		size_t count;
	} cases[] = {
		{ { 0 }, 0 },
		{ { 0 }, 1 },
		{ { size - 4 }, 1 },
		{ { size / 2 }, 1 },
		{ { 0, size - 4 }, 2 },
		{ { 0, size / 3 }, 2 },
		{ { size / 3, size / 2, size - 8192 }, 3 },
	};
	char *sparse = unit_path(folder, "sparse");

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		make_sparse(sparse, size, cases[i].places, cases[i].count, "data");
		for (unsigned how = 0; how < 8; how++)
			check_copy(sparse, how & 1, how & 2, how & 4);
	}
	unlink(sparse);
	free(sparse);
}

/* ---- maps ---- */

/* MAP of LEN bytes alone in a new file; what came of it. FOUND: its bytes. */
static int move_map(const struct ckpt_map *map, bool want_crc, struct ckpt_moved *moved,
		    struct ckpt_buf *found)
{
	struct ckpt_mover_options options = { 0 };
	struct ckpt_recipe recipe = ckpt_map_recipe(map);
	struct ckpt_mover *mover;
	struct ckpt_sink *sink;
	int rc;

	*moved = (struct ckpt_moved){ .want_crc = want_crc, .want_head = true };
	assert_int_equal(ckpt_sink_open(out, recipe.len, 0, CKPT_SINK_REPLACE, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	rc = ckpt_mover_copy(mover, &recipe, moved, &err);
	if (rc == 0)
		rc = ckpt_mover_flush(mover, &err);
	ckpt_mover_close(mover);
	if (rc < 0) {
		ckpt_sink_discard(sink);
		return rc;
	}
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	*found = unit_read_file(out);
	return 0;
}

static void check_map(const struct ckpt_map *map)
{
	struct ckpt_recipe recipe = ckpt_map_recipe(map);
	uint8_t *want = malloc(recipe.len + 1);

	map->apply(map, NULL, 0, data + map->inner.off, map->inner.len, want, NULL);
	for (unsigned want_crc = 0; want_crc < 2; want_crc++) {
		struct ckpt_moved moved;
		struct ckpt_buf found;

		assert_int_equal(move_map(map, want_crc, &moved, &found), 0);
		assert_int_equal(found.len, recipe.len);
		assert_memory_equal(found.data, want, recipe.len);
		if (want_crc)
			assert_int_equal(moved.crc32, libdeflate_crc32(0, want, recipe.len));
		assert_memory_equal(moved.head, want, 8);
		ckpt_buf_clear(&found);
	}
	free(want);
}

static void check_damage(const struct ckpt_map *sound)
{
	struct ckpt_map map = *sound;
	struct ckpt_moved moved;
	struct ckpt_buf found;

	map.inner.crc32 ^= 1;
	assert_int_equal(move_map(&map, true, &moved, &found), CKPT_E_DAMAGED);
	assert_non_null(strstr(unit_text(&err), "is damaged"));
}

/* Of every size class, from bytes that can be read anywhere and from some that cannot. */
static void mapped_bytes_arrive_and_damage_is_seen(void **state)
{
	static const size_t sizes[] = { 8, 65536, 1 << 20, (1 << 20) + 16, 2500016 };
	static const enum ckpt_recipe_kind kinds[] = { CKPT_RECIPE_EXTENT, CKPT_RECIPE_STREAM };
	struct ckpt_source *src;

	(void)state;
	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	for (size_t k = 0; k < COUNT(kinds); k++)
		for (size_t i = 0; i < COUNT(sizes); i++) {
			struct ckpt_recipe inner = { .kind = kinds[k],
						     .src = src,
						     .off = 24,
						     .len = sizes[i],
						     .open = open_stream,
						     .has_crc = true,
						     .crc32 = libdeflate_crc32(0, data + 24,
									       sizes[i]) };
			struct ckpt_byteswap swap = ckpt_byteswap_of(&inner, 4);
			struct ckpt_cast narrow =
				ckpt_cast_of(&inner, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT8_E5M2);
			struct ckpt_cast wide =
				ckpt_cast_of(&inner, CKPT_DTYPE_FLOAT8_E5M2, CKPT_DTYPE_FLOAT64);

			check_map(&swap.map);
			check_damage(&swap.map);
			check_map(&wide.map);
			if (sizes[i] > 8)
				check_map(&narrow.map);
		}
	ckpt_source_unref(src);
}

/* Four bytes of each, and what was kept by BEGIN. */
struct widened {
	struct ckpt_map map;
	uint64_t fails_at;
	atomic_int readings;
};

static int begin_widened(const struct ckpt_map *map, void **kept, struct ckpt_error *error)
{
	(void)error;
	*kept = malloc(1);
	*(uint8_t *)*kept = 9;
	((struct widened *)map)->readings++;
	return 0;
}

static void end_widened(const struct ckpt_map *map, void *kept)
{
	free(kept);
	((struct widened *)map)->readings--;
}

static int widen(const struct ckpt_map *map, const void *kept, uint64_t pos, const void *bytes,
		 size_t len, void *to, struct ckpt_error *error)
{
	const uint8_t *from = bytes, *more = kept;

	if (((const struct widened *)map)->fails_at - pos < len)
		return ckpt_fail(error, CKPT_E_FORMAT, "is not made");
	for (size_t i = 0; i < 4 * len; i++)
		((uint8_t *)to)[i] = (uint8_t)(from[i / 4] + *more + i % 4);
	return 0;
}

static void what_a_map_needs_is_there_and_its_failures_are_told(void **state)
{
	static const size_t sizes[] = { 8, 65536, 2500016 };
	struct ckpt_source *src;

	(void)state;
	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct widened w = { .map = { .inner = { .kind = CKPT_RECIPE_EXTENT,
							 .src = src,
							 .off = 24,
							 .len = sizes[i] },
					      .from = 1,
					      .to = 4,
					      .apply = widen,
					      .begin = begin_widened,
					      .end = end_widened },
				     .fails_at = UINT64_MAX };
		struct ckpt_moved moved;
		struct ckpt_buf found;

		assert_int_equal(move_map(&w.map, true, &moved, &found), 0);
		for (size_t k = 0; k < found.len; k++)
			assert_int_equal((uint8_t)found.data[k],
					 (uint8_t)(data[24 + k / 4] + 9 + k % 4));
		assert_int_equal(found.len, 4 * sizes[i]);
		ckpt_buf_clear(&found);
		assert_int_equal(w.readings, 0);
		w.fails_at = sizes[i] - 1;
		assert_int_equal(move_map(&w.map, true, &moved, &found), CKPT_E_FORMAT);
		assert_string_equal(unit_text(&err), "is not made");
		assert_int_equal(w.readings, 0);
	}
	ckpt_source_unref(src);
}

struct fault {
	enum ckpt_io_op op;
	unsigned at;
	atomic_uint seen;
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? EIO : 0;
}

/* Whichever thread meets it; an error of reading names what was read, one of writing what was written. */
static void a_block_that_fails_is_told(void **state)
{
	struct ckpt_recipe inner = { .kind = CKPT_RECIPE_EXTENT, .off = 24, .len = 2500016 };
	struct ckpt_byteswap swap;
	struct ckpt_source *src;

	(void)state;
	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	inner.src = src;
	swap = ckpt_byteswap_of(&inner, 4);
	for (unsigned writing = 0; writing < 2; writing++)
		for (unsigned at = 1; at <= 5; at++) {
			struct fault fault = { .op = writing ? CKPT_IO_WRITE : CKPT_IO_READ,
					       .at = at };
			struct ckpt_moved moved;
			struct ckpt_buf found;

			memset(&err, 0, sizeof(err));
			ckpt_io_set_hook(inject, &fault);
			assert_int_equal(move_map(&swap.map, true, &moved, &found), CKPT_E_IO);
			ckpt_io_set_hook(NULL, NULL);
			assert_int_equal(err.sys_errno, EIO);
			assert_string_equal(err.path, writing ? out : in);
		}
	ckpt_source_unref(src);
}

/* ---- joined recipes ---- */

/* Lengths of the parts; a part of which kind, and whether its checksum is known, is the caller's. */
static void check_joined(struct ckpt_mover *mover, const struct ckpt_recipe *parts, size_t count,
			 bool want_crc, struct ckpt_buf *want)
{
	struct ckpt_recipe all = { .kind = CKPT_RECIPE_JOINED,
				   .parts = parts,
				   .part_count = count };
	struct ckpt_moved moved = { .want_crc = want_crc, .want_head = true };
	size_t start;

	assert_int_equal(ckpt_mover_put(mover, "between", 7, &err), 0);
	ckpt_buf_add(want, "between", 7);
	start = want->len;
	for (size_t i = 0; i < count; i++) {
		all.len += parts[i].len;
		ckpt_buf_add(want, data + parts[i].off, parts[i].len);
	}
	assert_int_equal(ckpt_mover_copy(mover, &all, &moved, &err), 0);
	if (want_crc)
		assert_int_equal(moved.crc32, libdeflate_crc32(0, want->data + start, all.len));
	assert_int_equal(moved.has_head, all.len >= 8);
	if (moved.has_head)
		assert_memory_equal(moved.head, want->data + start, 8);
}

static void joined_parts_arrive_with_the_checksum_of_all(void **state)
{
	static const size_t sizes[] = { 0, 1, 5, 9, 65536, 65537, 300000, (1 << 20) + 1 };
	static const enum ckpt_recipe_kind kinds[] = { CKPT_RECIPE_EXTENT, CKPT_RECIPE_MEMORY,
						       CKPT_RECIPE_STREAM };
	struct ckpt_mover_options options = { 0 };
	struct ckpt_buf want = { 0 }, found;
	struct ckpt_mover *mover;
	struct ckpt_source *src;
	struct ckpt_sink *sink;
	uint32_t random = 1;

	(void)state;
	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	assert_int_equal(ckpt_sink_open(out, 0, 0, 0, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	for (unsigned n = 0; n < 120; n++) {
		struct ckpt_recipe parts[40]; /* as many are one stretch, if they have to be read */
		size_t count = n % 10 == 9 ? 40 : n % 6;

		for (size_t i = 0; i < count; i++) {
			uint64_t len;

			random = random * 1664525 + 1013904223;
			len = sizes[(random >> 16) % COUNT(sizes)];
			parts[i] =
				(struct ckpt_recipe){ .kind = kinds[(random >> 8) % COUNT(kinds)],
						      .len = len,
						      .src = src,
						      .off = random % 1000000,
						      .open = open_stream,
						      .has_crc = random >> 31 && count < 40 };
			parts[i].memory = data + parts[i].off;
			parts[i].crc32 = libdeflate_crc32(0, data + parts[i].off, len);
			if (!parts[i].has_crc)
				parts[i].crc32 = 0xBAD;
		}
		check_joined(mover, parts, count, n % 5 != 0, &want);
	}
	assert_int_equal(ckpt_mover_flush(mover, &err), 0);
	ckpt_mover_close(mover);
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	ckpt_source_unref(src);
	found = unit_read_file(out);
	assert_int_equal(found.len, want.len);
	assert_memory_equal(found.data, want.data, want.len);
	ckpt_buf_clear(&found);
	ckpt_buf_clear(&want);
}

static _Atomic unsigned reads;

static int count_reads(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	reads += op == CKPT_IO_READ;
	return 0;
}

/* How often two joined megabytes were read from the file for their checksum. */
static unsigned reads_of_joined(bool has_crc, struct ckpt_moved *moved)
{
	static const uint64_t len = 1 << 20;
	struct ckpt_recipe parts[2], all = {
		.kind = CKPT_RECIPE_JOINED, .len = 2 * len, .parts = parts, .part_count = 2
	};
	struct ckpt_mover_options options = { 0 };
	struct ckpt_mover *mover;
	struct ckpt_source *src;
	struct ckpt_sink *sink;

	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	assert_int_equal(ckpt_sink_open(out, 0, 0, 0, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	for (size_t i = 0; i < 2; i++)
		parts[i] =
			(struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
					      .src = src,
					      .off = i * len,
					      .len = len,
					      .has_crc = has_crc,
					      .crc32 = libdeflate_crc32(0, data + i * len, len) };
	reads = 0;
	ckpt_io_set_hook(count_reads, NULL);
	assert_int_equal(ckpt_mover_copy(mover, &all, moved, &err), 0);
	ckpt_io_set_hook(NULL, NULL);
	ckpt_mover_close(mover);
	ckpt_sink_discard(sink);
	ckpt_source_unref(src);
	return reads;
}

static bool kernel_copies(void)
{
	struct ckpt_source *src;
	struct ckpt_sink *sink;
	uint64_t done = 0;
	bool copies;

	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	assert_int_equal(ckpt_sink_open(out, 0, 0, 0, 0666, &sink, &err), 0);
	copies = ckpt_sink_copy(sink, 0, src, 0, 1 << 20, &done, &err) == 0 && done == 1 << 20;
	ckpt_sink_discard(sink);
	ckpt_source_unref(src);
	return copies;
}

static void known_checksums_are_put_together_and_nothing_is_read_for_them(void **state)
{
	struct ckpt_moved known = { .want_crc = true }, unknown = { .want_crc = true };
	uint32_t crc = libdeflate_crc32(0, data, 2 << 20);
	unsigned without, with;

	(void)state;
	with = reads_of_joined(true, &known);
	without = reads_of_joined(false, &unknown);
	assert_int_equal(known.crc32, crc);
	assert_int_equal(unknown.crc32, crc);
	assert_true(without >= 2);
	if (!kernel_copies()) {
		print_message("skipped: the kernel does not copy here\n");
		skip();
	}
	assert_int_equal(with, 0);
}

static void an_error_in_a_joined_part_stops_the_copy(void **state)
{
	struct ckpt_recipe parts[3],
		all = { .kind = CKPT_RECIPE_JOINED, .parts = parts, .part_count = 3 };
	struct ckpt_mover_options options = { 0 };
	struct ckpt_moved moved = { .want_crc = true };
	struct ckpt_mover *mover;
	struct ckpt_source *src;
	struct ckpt_sink *sink;

	(void)state;
	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	assert_int_equal(ckpt_sink_open(out, 0, 0, 0, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	for (size_t i = 0; i < 3; i++) {
		parts[i] = (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
						 .src = src,
						 .len = 100000,
						 .off = i == 1 ? SIZE - 99999 : 0 };
		all.len += parts[i].len;
	}
	assert_int_equal(ckpt_mover_copy(mover, &all, &moved, &err), CKPT_E_FORMAT);
	ckpt_mover_close(mover);
	ckpt_sink_discard(sink);
	ckpt_source_unref(src);
}

static int no_threads(void *ctx, enum ckpt_io_op op)
{
	return op == CKPT_IO_THREAD ? EAGAIN : ctx ? inject(ctx, op) : 0;
}

/* Twelve megabytes of pieces of seven bytes, a large one among them, and the first bytes anew: with a thread that writes them, or without. */
static int put_many(bool with_thread, struct fault *fault, struct ckpt_buf *want)
{
	struct ckpt_mover_options options = { 0 };
	struct ckpt_mover *mover;
	struct ckpt_source *src;
	struct ckpt_sink *sink;
	int rc = 0;

	memset(&err, 0, sizeof(err));
	assert_int_equal(ckpt_source_open(in, &src, &err), 0);
	assert_int_equal(ckpt_sink_open(out, 0, 0, CKPT_SINK_REPLACE, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	ckpt_io_set_hook(with_thread ? inject : no_threads, fault);
	for (uint32_t i = 0; rc == 0 && i < 12u << 20; i += 7) {
		rc = ckpt_mover_put(mover, data + i % (SIZE - 7), 7, &err);
		ckpt_buf_add(want, data + i % (SIZE - 7), 7);
		if (rc == 0 && i / 7 == 1000000) {
			struct ckpt_recipe large = { .kind = CKPT_RECIPE_EXTENT, .src = src, .len = SIZE };
			struct ckpt_moved moved = { 0 };

			rc = ckpt_mover_copy(mover, &large, &moved, &err);
			ckpt_buf_add(want, data, SIZE);
		}
	}
	if (rc == 0)
		rc = ckpt_mover_patch(mover, 0, "anew", 4, &err);
	memcpy(want->data, "anew", 4);
	if (rc == 0)
		rc = ckpt_mover_finish(mover, &err);
	ckpt_io_set_hook(NULL, NULL);
	ckpt_mover_close(mover);
	if (rc == 0)
		assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	else
		ckpt_sink_discard(sink);
	ckpt_source_unref(src);
	return rc;
}

static void many_small_pieces_arrive_whoever_writes_them(void **state)
{
	(void)state;
	for (unsigned with_thread = 0; with_thread < 2; with_thread++) {
		struct fault none = { .op = CKPT_IO_WRITE };
		struct ckpt_buf want = { 0 }, found;

		assert_int_equal(put_many(with_thread, &none, &want), 0);
		found = unit_read_file(out);
		assert_int_equal(found.len, want.len);
		assert_memory_equal(found.data, want.data, want.len);
		ckpt_buf_clear(&found);
		ckpt_buf_clear(&want);
		for (unsigned at = 1; at <= none.seen; at++) {
			struct fault fault = { .op = CKPT_IO_WRITE, .at = at };

			assert_int_equal(put_many(with_thread, &fault, &want), CKPT_E_IO);
			assert_non_null(strstr(unit_message(&err), "/out"));
			ckpt_buf_clear(&want);
		}
	}
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

UNIT_SUITE(test_mover)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(every_piece_arrives_with_its_checksum_and_its_first_bytes),
		WITH_FILE(bytes_that_were_put_can_be_put_anew),
		WITH_FILE(progress_grows_to_the_total),
		WITH_FILE(holes_of_the_source_stay_holes),
		WITH_FILE(holes_arrive_wherever_they_are),
		WITH_FILE(mapped_bytes_arrive_and_damage_is_seen),
		WITH_FILE(what_a_map_needs_is_there_and_its_failures_are_told),
		WITH_FILE(a_block_that_fails_is_told),
		WITH_FILE(joined_parts_arrive_with_the_checksum_of_all),
		WITH_FILE(known_checksums_are_put_together_and_nothing_is_read_for_them),
		WITH_FILE(an_error_in_a_joined_part_stops_the_copy),
		WITH_FILE(many_small_pieces_arrive_whoever_writes_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
