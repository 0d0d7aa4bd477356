/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "set/dcp/index.h"
#include "set/dcp/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dcp_tensor_cases.h"

/*
 * What is written of a directory: the pickles of tensors, against those of torch, and indexes, which are
 * read back. With an argument, the number of an index, it is written to standard output for judge_dcp.py.
 */

enum { MOST_ENTRIES = 70000, MOST_DIMS = 5, INDEXES = 12 };

static struct ckpt_error err;
static uint64_t random_state;

static uint64_t below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

/* ---- the pickle of a tensor ---- */

static void tensors_are_pickled_as_torch_does_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(tensor_cases); i++) {
		struct ckpt_buf found = { 0 };

		ckpt_dcp_emit_tensor(tensor_cases[i].dtype, tensor_cases[i].shape,
				     tensor_cases[i].ndim, &found);
		if (found.len != tensor_cases[i].len ||
		    memcmp(found.data, tensor_cases[i].pickle, found.len) != 0)
			fail_msg("%s of %" PRIu32 " dimensions, case %zu",
				 ckpt_dtype_name(tensor_cases[i].dtype), tensor_cases[i].ndim, i);
		ckpt_buf_clear(&found);
	}
}

static void a_tensor_is_appended(void **state)
{
	struct ckpt_buf out = { 0 };

	(void)state;
	ckpt_buf_add(&out, "before", 6);
	ckpt_dcp_emit_tensor(tensor_cases[0].dtype, tensor_cases[0].shape, tensor_cases[0].ndim,
			     &out);
	assert_int_equal(out.len, 6 + tensor_cases[0].len);
	assert_memory_equal(out.data + 6, tensor_cases[0].pickle, tensor_cases[0].len);
	ckpt_buf_clear(&out);
}

/* ---- indexes ---- */

static const char *const file_names[] = { "__0_0.distcp", "__1_0.distcp", "sub/__2_0.distcp", "" };
static char long_name[300];

static const uint64_t *dims(struct ckpt_dcp_out *out, uint32_t ndim, uint64_t most)
{
	uint64_t *d = ckpt_arena_calloc(out->arena, ndim + 1, sizeof(*d));

	assert_non_null(d);
	for (uint32_t i = 0; i < ndim; i++)
		d[i] = below(3) ? below(5) : below(most);
	return d;
}

/* Any key there is once: plain, with dots, long, with bytes of other scripts and NULs. */
static void make_key(struct ckpt_dcp_out *out, struct ckpt_dcp_out_entry *e, uint32_t n)
{
	static const char *const forms[] = { "%u", "model.layers.%u.weight",
					     "\xc3\xa9\xe6\x97\xa5 %u", "a.%u..b" };
	struct ckpt_buf text = { 0 };

	ckpt_buf_printf(&text, forms[n % COUNT(forms)], n);
	if (n % 97 == 5)
		for (int i = 0; i < 260; i++)
			ckpt_buf_add_u8(&text, 'l');
	if (n % 97 == 6)
		ckpt_buf_add_u8(&text, 0);
	e->fqn = ckpt_arena_copy(out->arena, text.data, text.len);
	e->fqn_len = text.len;
	assert_non_null(e->fqn);
	ckpt_buf_clear(&text);
}

static void make_path(struct ckpt_dcp_out *out, struct ckpt_dcp_out_entry *e)
{
	struct ckpt_dcp_step *path;

	e->depth = 1 + (uint32_t)below(5);
	path = ckpt_arena_calloc(out->arena, e->depth, sizeof(*path));
	assert_non_null(path);
	for (uint32_t i = 0; i < e->depth; i++)
		if (i == 0 || below(2)) {
			path[i].text = i % 2 ? "" : "step";
			path[i].len = strlen(path[i].text);
		} else {
			path[i].position = below(2) ? below(300) : below(UINT32_MAX);
		}
	e->path = path;
}

static void add_chunks(struct ckpt_dcp_out *out, struct ckpt_dcp_out_entry *e, uint64_t count)
{
	static const uint64_t most[] = { 200, 70000, UINT32_MAX, INT64_MAX };

	e->first_chunk = out->chunk_count;
	e->chunk_count = count;
	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_dcp_out_chunk chunk = { .file = (uint32_t)below(out->file_count),
						    .off = below(most[below(4)]),
						    .len = below(most[below(4)]) };

		if (e->is_tensor) {
			uint64_t *offset = ckpt_arena_calloc(out->arena, e->tensor.ndim + 1, 8),
				 *shape = ckpt_arena_calloc(out->arena, e->tensor.ndim + 1, 8);

			assert_true(offset && shape);
			/* distinct, and inside: in slices of the first dimension */
			for (uint32_t d = 0; d < e->tensor.ndim; d++)
				shape[d] = d ? e->tensor.shape[d] : 1;
			if (e->tensor.ndim)
				offset[0] = i;
			chunk.offset = offset;
			chunk.shape = shape;
		}
		assert_int_equal(ckpt_dcp_out_add_chunk(out, &chunk, &err), 0);
	}
}

static void make_entry(struct ckpt_dcp_out *out, uint32_t n)
{
	struct ckpt_dcp_out_entry *e = &out->entries[n];
	uint64_t *shape;

	*e = (struct ckpt_dcp_out_entry){ .alias_of = UINT32_MAX, .is_tensor = below(3) != 0 };
	make_key(out, e, n);
	make_path(out, e);
	if (!e->is_tensor) {
		add_chunks(out, e, 1);
		return;
	}
	if (n && out->entries[n - 1].is_tensor && out->entries[n - 1].alias_of == UINT32_MAX &&
	    below(4) == 0) {
		e->tensor = out->entries[n - 1].tensor;
		e->alias_of = n - 1;
		return;
	}
	e->tensor.dtype = (enum ckpt_dtype)below(CKPT_DTYPE_COUNT);
	e->tensor.ndim = (uint32_t)below(MOST_DIMS + 1);
	shape = (uint64_t *)dims(out, e->tensor.ndim, e->tensor.ndim < 3 ? 100000 : 300);
	e->tensor.shape = shape;
	if (e->tensor.ndim && below(3))
		shape[0] = 1 + below(5);
	add_chunks(out, e, !e->tensor.ndim ? 1 : shape[0] > 5 ? 5 : shape[0]);
}

/* Index NUMBER, the same every time. */
static void make_index(unsigned number, struct ckpt_dcp_out *out)
{
	static const uint32_t counts[INDEXES] = { 0,   1,   2,	 3,    10,   30,
						  100, 220, 260, 1000, 5000, MOST_ENTRIES };
	static const char *files[COUNT(file_names)];

	random_state = 88172645463325252u + number;
	memset(long_name, 'n', sizeof(long_name) - 1);
	memcpy(files, file_names, sizeof(files));
	files[3] = long_name;
	*out = (struct ckpt_dcp_out){ .arena = ckpt_arena_new(1 << 30),
				      .files = files,
				      .file_count = COUNT(files) };
	out->entry_count = counts[number];
	out->entries = calloc(counts[number] + 1, sizeof(*out->entries));
	assert_true(out->arena && out->entries);
	for (uint32_t i = 0; i < out->entry_count; i++)
		make_entry(out, i);
}

static const struct ckpt_dcp_out_entry *holder(const struct ckpt_dcp_out *out, uint32_t i)
{
	const struct ckpt_dcp_out_entry *e = &out->entries[i];

	return e->alias_of == UINT32_MAX ? e : &out->entries[e->alias_of];
}

static void compare_chunks(const struct ckpt_dcp_out *out, uint32_t i,
			   const struct ckpt_dcp_index *index)
{
	const struct ckpt_dcp_out_entry *want = holder(out, i);
	const struct ckpt_dcp_entry *found = &index->entries[i];

	assert_int_equal(found->chunk_count, want->chunk_count);
	for (uint64_t k = 0; k < want->chunk_count; k++) {
		const struct ckpt_dcp_out_chunk *w = &out->chunks[want->first_chunk + k];
		const struct ckpt_dcp_chunk *f = &index->chunks[found->first_chunk + k];

		assert_int_not_equal(f->file, CKPT_DCP_NO_FILE);
		assert_string_equal(index->files[f->file], out->files[w->file]);
		assert_true(f->off == w->off && f->len == w->len);
		assert_null(f->transform);
		if (!want->is_tensor)
			continue;
		for (uint32_t d = 0; d < want->tensor.ndim; d++)
			assert_true(f->offset[d] == w->offset[d] && f->shape[d] == w->shape[d]);
	}
}

static void compare_path(const struct ckpt_dcp_out_entry *want, const struct ckpt_value *found)
{
	assert_non_null(found);
	assert_int_equal(found->u.seq.count, want->depth);
	for (uint32_t k = 0; k < want->depth; k++) {
		const struct ckpt_dcp_step *w = &want->path[k];
		const struct ckpt_value *f = found->u.seq.items[k];

		assert_int_equal(f->kind, w->text ? CKPT_STR : CKPT_INT);
		if (w->text)
			assert_true(f->u.bytes.len == w->len &&
				    !memcmp(f->u.bytes.ptr, w->text, w->len));
		else
			assert_int_equal(f->u.integer, w->position);
	}
}

static void compare(const struct ckpt_dcp_out *out, const struct ckpt_dcp_index *index)
{
	assert_int_equal(index->entry_count, out->entry_count);
	assert_true(index->has_planner_data);
	assert_int_equal(index->unplaced, 0);
	for (uint32_t i = 0; i < out->entry_count; i++) {
		const struct ckpt_dcp_out_entry *want = &out->entries[i];
		const struct ckpt_dcp_entry *found = &index->entries[i];

		assert_int_equal(found->fqn->u.bytes.len, want->fqn_len);
		assert_memory_equal(found->fqn->u.bytes.ptr, want->fqn, want->fqn_len);
		assert_int_equal(found->is_tensor, want->is_tensor);
		compare_path(want, found->path);
		compare_chunks(out, i, index);
		if (!want->is_tensor)
			continue;
		assert_int_equal(found->dtype, want->tensor.dtype);
		assert_int_equal(found->ndim, want->tensor.ndim);
		for (uint32_t d = 0; d < found->ndim; d++)
			assert_int_equal(found->shape[d], want->tensor.shape[d]);
	}
}

static void read_back(const struct ckpt_dcp_out *out)
{
	struct ckpt_dcp_index index;
	struct ckpt_pickle pickle;
	struct ckpt_buf buf = { 0 };

	assert_int_equal(ckpt_dcp_emit_index(out, &buf, &err), 0);
	if (ckpt_pickle_decode(buf.data, buf.len, 1 << 30, &pickle, &err) < 0)
		fail_msg("%s", unit_message(&err));
	assert_int_equal(pickle.nbytes, buf.len);
	if (ckpt_dcp_index_read(&pickle, &index, &err) < 0)
		fail_msg("%s", unit_message(&err));
	compare(out, &index);
	ckpt_dcp_index_clear(&index);
	ckpt_pickle_clear(&pickle);
	ckpt_buf_clear(&buf);
}

static void indexes_say_what_they_were_told(void **state)
{
	(void)state;
	for (unsigned n = 0; n < INDEXES; n++) {
		struct ckpt_dcp_out out;

		make_index(n, &out);
		read_back(&out);
		out.torch_1_13 = true;
		read_back(&out);
		ckpt_dcp_out_clear(&out);
	}
}

static void transforms_are_kept(void **state)
{
	struct ckpt_dcp_index index;
	struct ckpt_pickle pickle;
	struct ckpt_buf buf = { 0 };
	struct ckpt_dcp_out out;

	(void)state;
	make_index(5, &out);
	for (uint64_t i = 0; i < out.chunk_count; i += 2)
		out.chunks[i].transform = "stream.zstd/1";
	assert_int_equal(ckpt_dcp_emit_index(&out, &buf, &err), 0);
	assert_int_equal(ckpt_pickle_decode(buf.data, buf.len, 1 << 30, &pickle, &err), 0);
	assert_int_equal(ckpt_dcp_index_read(&pickle, &index, &err), 0);
	for (uint32_t i = 0; i < out.entry_count; i++)
		for (uint64_t k = 0; k < holder(&out, i)->chunk_count; k++) {
			const char *want = out.chunks[holder(&out, i)->first_chunk + k].transform,
				   *found =
					   index.chunks[index.entries[i].first_chunk + k].transform;

			assert_int_equal(want != NULL, found != NULL);
			if (want)
				assert_string_equal(found, want);
		}
	ckpt_dcp_index_clear(&index);
	ckpt_pickle_clear(&pickle);
	ckpt_buf_clear(&buf);
	ckpt_dcp_out_clear(&out);
}

/* ---- for judge_dcp.py ---- */

static void print_hex(const char *bytes, size_t len)
{
	printf(" ");
	for (size_t i = 0; i < len; i++)
		printf("%02x", (unsigned char)bytes[i]);
}

static void print_dims(const uint64_t *d, uint32_t ndim)
{
	printf(" (");
	for (uint32_t i = 0; i < ndim; i++)
		printf("%s%" PRIu64, i ? "," : "", d[i]);
	printf(")");
}

static void describe_chunk(const struct ckpt_dcp_out *out, const struct ckpt_dcp_out_entry *e,
			   const struct ckpt_dcp_out_chunk *c)
{
	printf("chunk");
	if (e->is_tensor) {
		print_dims(c->offset, e->tensor.ndim);
		print_dims(c->shape, e->tensor.ndim);
	}
	printf(" %s %" PRIu64 " %" PRIu64 "\n", out->files[c->file], c->off, c->len);
}

static void describe_entry(const struct ckpt_dcp_out *out, uint32_t i)
{
	const struct ckpt_dcp_out_entry *e = &out->entries[i], *of = holder(out, i);

	printf("entry");
	print_hex(e->fqn, e->fqn_len);
	if (e->is_tensor) {
		printf(" %s", ckpt_dtype_name(e->tensor.dtype));
		print_dims(e->tensor.shape, e->tensor.ndim);
	}
	printf("\npath");
	for (uint32_t k = 0; k < e->depth; k++)
		if (e->path[k].text)
			printf(" '%s'", e->path[k].text);
		else
			printf(" %" PRIu64, e->path[k].position);
	printf("\n");
	for (uint64_t k = 0; k < of->chunk_count; k++)
		describe_chunk(out, e, &out->chunks[of->first_chunk + k]);
}

static int write_index(unsigned number)
{
	struct ckpt_buf buf = { 0 };
	struct ckpt_dcp_out out;

	if (number >= INDEXES)
		return 1;
	make_index(number, &out);
	ckpt_dcp_emit_index(&out, &buf, NULL);
	printf("%zu\n", buf.len);
	fwrite(buf.data, 1, buf.len, stdout);
	for (uint32_t i = 0; i < out.entry_count; i++)
		describe_entry(&out, i);
	ckpt_buf_clear(&buf);
	ckpt_dcp_out_clear(&out);
	return 0;
}

UNIT_SUITE(test_dcp_emit)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tensors_are_pickled_as_torch_does_it),
		cmocka_unit_test(a_tensor_is_appended),
		cmocka_unit_test(indexes_say_what_they_were_told),
		cmocka_unit_test(transforms_are_kept),
	};

	if (argc > 1)
		return write_index((unsigned)atoi(argv[1]));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
