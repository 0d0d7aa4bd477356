/* SPDX-License-Identifier: Apache-2.0 */
#include "dcp_index_pickle.h"

/* The index in the dialects of all releases of torch. */

static void assert_place(const struct read_index *r, uint64_t chunk, const char *file, uint64_t off,
			 uint64_t len)
{
	const struct ckpt_dcp_chunk *c = &r->index.chunks[chunk];

	assert_int_not_equal(c->file, CKPT_DCP_NO_FILE);
	assert_string_equal(r->index.files[c->file], file);
	assert_int_equal(c->off, off);
	assert_int_equal(c->len, len);
	assert_non_null(c->info);
	assert_non_null(c->place);
	assert_null(c->transform);
}

/* It says what it always says. */
static void assert_usual(const struct read_index *r)
{
	const struct ckpt_dcp_entry *w = &r->index.entries[0], *n = &r->index.entries[1];
	const struct ckpt_dcp_chunk *chunks = r->index.chunks + w->first_chunk;

	assert_int_equal(r->index.entry_count, 2);
	assert_memory_equal(w->fqn->u.bytes.ptr, "w", 1);
	assert_true(w->is_tensor);
	assert_int_equal(w->dtype, CKPT_DTYPE_FLOAT32);
	assert_int_equal(w->ndim, 1);
	assert_int_equal(w->shape[0], 4);
	assert_int_equal(w->chunk_count, 2);
	assert_int_equal(chunks[0].offset[0], 0);
	assert_int_equal(chunks[0].shape[0], 1);
	assert_int_equal(chunks[1].offset[0], 1);
	assert_int_equal(chunks[1].shape[0], 3);
	assert_place(r, w->first_chunk, "__0_0.distcp", 7, 4096);
	assert_place(r, w->first_chunk + 1, "__1_0.distcp", 0, (uint64_t)1 << 32);
	assert_false(n->is_tensor);
	assert_int_equal(n->chunk_count, 1);
	assert_place(r, n->first_chunk, "__0_0.distcp", 0x50, 5);
	assert_null(r->index.chunks[n->first_chunk].shape);
	assert_int_equal(r->index.file_count, 2);
	assert_int_equal(r->index.unplaced, 0);
}

static void every_generation_says_the_same(void **state)
{
	static const struct {
		struct change changes[8];
		size_t count;
	} table[] = {
		{ { { ROOT, FRAGMENT(NEW(META, "Metadata")) } }, 1 }, /* 2.3 and later */
		{ { { MORE, FRAGMENT(STR("\x0c", "storage_meta") NEW(META, "StorageMeta") STATE(
				    STR("\x0d", "checkpoint_id") STR("\x01", "d"))
					     STR("\x07", "version") STR("\x06", "1.0.0x")) } },
		  1 },
		/* 2.0 */
		{ { { PROPERTIES,
		      FRAGMENT(NEW(OLD_PROPERTIES, "TensorProperties") "(ctorch\nfloat32\nctorch.serialization\n_get_layout\n" STR(
			      "\x0d",
			      "torch.strided") "\x85R\x89"
					       "c" OLD_PROPERTIES
					       "\nMEM_FORMAT_ENCODING\nK\x00\x85R\x89tb") } },
		  1 },
		/* 1.13 */
		{ { { ROOT, FRAGMENT(NEW(OLD_META, "Metadata")) },
		    { TENSOR, FRAGMENT(NEW(OLD_META, "TensorStorageMetadata")) },
		    { CHUNK, FRAGMENT(NEW(OLD_META, "ChunkStorageMetadata")) },
		    { VALUE, FRAGMENT(NEW(OLD_META, "BytesStorageMetadata")) },
		    { PLACE, FRAGMENT(NEW(OLD_META, "MetadataIndex")) },
		    { INFO, FRAGMENT(NEW(OLD_FILES, "_StorageInfo")) },
		    { PROPERTIES,
		      FRAGMENT(NEW(OLD_PROPERTIES,
				   "TensorProperties") "(ctorch\nfloat32\nN\x89N\x89tb") } },
		  7 },
		/* sizes that are tuples, chunks that are one */
		{ { { WHOLE, FRAGMENT("K\x04\x85") },
		    { FIRST_OFFSETS, FRAGMENT("K\x00\x85") },
		    { SECOND_SIZES, FRAGMENT("](K\x03"
					     "e") },
		    { PLACE_OFFSET, FRAGMENT(STR("\x06", "offset") "K\x00\x85") },
		    { CHUNKS, FRAGMENT("(") },
		    { END_OF_CHUNKS, FRAGMENT("t") } },
		  6 },
		/* attributes of others */
		{ { { MORE, FRAGMENT(STR("\x0a", "mcore_data") "}" STR("\x02", "xy")
					     NEW("some.where", "Plan")) },
		    { MORE_INFO, FRAGMENT(STR("\x05", "other") "K\x01") } },
		  2 },
		{ { { MORE_INFO, FRAGMENT(STR("\x15", "transform_descriptors") "N") } }, 1 },
		{ { { MORE_INFO, FRAGMENT(STR("\x15", "transform_descriptors") "]") } }, 1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct read_index r;

		read_fine(&r, table[i].changes, table[i].count);
		assert_usual(&r);
		assert_true(r.index.has_planner_data);
		assert_int_equal(r.index.entries[0].path->u.seq.count, 2);
		assert_int_equal(r.index.entries[1].path->u.seq.count, 1);
		clear(&r);
	}
}

static void without_sound_planner_data_keys_are_flat(void **state)
{
	static const struct {
		struct fragment paths;
		bool has;
	} table[] = {
		{ FRAGMENT(""), false },
		{ FRAGMENT(STR("\x0c", "planner_data") "N"), false },
		{ FRAGMENT(STR("\x0c", "planner_data") NEW("some.where", "Plan")), false },
		{ FRAGMENT(STR("\x0c", "planner_data") "}"), true },
		/* a path must begin with a str, and hold nothing but those and positions */
		{ FRAGMENT(STR("\x0c", "planner_data") "}(" STR("\x01", "w") "K\x01\x85" STR("\x01",
											     "n")
				   STR("\x01", "n") "J\xff\xff\xff\xff\x86u"),
		  true },
		{ FRAGMENT(STR("\x0c", "planner_data") "}(" STR("\x01", "w") ")" STR("\x01", "n")
				   STR("\x01", "n") "u"),
		  true },
		{ FRAGMENT(STR("\x0c", "planner_data") "}(K\x01" STR("\x01", "w") "\x85" STR("\x01",
											     "o")
				   STR("\x01", "n") "\x85u"),
		  true },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct change change = { PATHS, table[i].paths };
		struct read_index r;

		read_fine(&r, &change, 1);
		assert_usual(&r);
		assert_int_equal(r.index.has_planner_data, table[i].has);
		assert_null(r.index.entries[0].path);
		assert_null(r.index.entries[1].path);
		clear(&r);
	}
}

static void what_torch_does_not_find_is_without_a_place(void **state)
{
	static const struct change table[] = {
		{ PLACE_OFFSET, FRAGMENT("") },
		{ PLACE_OFFSET, FRAGMENT(STR("\x06", "offset") "N") },
		{ PLACE_OFFSET, FRAGMENT(STR("\x06", "offset") SIZE("K\x02", "\x85")) },
		{ PLACE_OFFSET, FRAGMENT(STR("\x06", "offset") SIZE("K\x00K\x00", "\x86")) },
		{ PLACE_KEY, FRAGMENT(STR("\x01", "v")) },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct read_index r;

		read_fine(&r, &table[i], 1);
		assert_int_equal(r.index.unplaced, 1);
		assert_int_equal(r.index.chunks[0].file, CKPT_DCP_NO_FILE);
		assert_null(r.index.chunks[0].info);
		assert_place(&r, 1, "__1_0.distcp", 0, (uint64_t)1 << 32);
		clear(&r);
	}
}

static void scalars_are_found_by_no_offset(void **state)
{
	static const struct change changes[] = {
		{ WHOLE, FRAGMENT(SIZE(")", "")) },
		{ FIRST_OFFSETS, FRAGMENT(SIZE(")", "")) },
		{ FIRST_SIZES, FRAGMENT(SIZE(")", "")) },
		{ SECOND_OFFSETS, FRAGMENT(SIZE(")", "")) },
		{ SECOND_SIZES, FRAGMENT(SIZE(")", "")) },
		{ PLACE_OFFSET, FRAGMENT(STR("\x06", "offset") SIZE(")", "")) },
	};
	struct read_index r;

	(void)state;
	read_fine(&r, changes, COUNT(changes));
	assert_int_equal(r.index.entries[0].ndim, 0);
	assert_place(&r, 0, "__0_0.distcp", 7, 4096);
	clear(&r);
}

static void of_a_key_that_comes_twice_the_last_counts(void **state)
{
	static const struct change again = {
		MORE_ENTRIES, FRAGMENT(STR("\x01", "w") NEW(META, "BytesStorageMetadata"))
	};
	struct read_index r;

	(void)state;
	read_fine(&r, &again, 1);
	assert_int_equal(r.index.entry_count, 2);
	assert_false(r.index.entries[0].is_tensor);
	/* torch looks for the item of a value without an offset */
	assert_int_equal(r.index.entries[0].chunk_count, 0);
	assert_int_equal(r.index.unplaced, 2);
	clear(&r);
}

static void a_transform_is_named(void **state)
{
	static const struct change table[] = {
		{ MORE_INFO,
		  FRAGMENT(STR("\x15", "transform_descriptors") "](" STR("\x04", "zstd") "e") },
		{ MORE_INFO, FRAGMENT(STR("\x15", "transform_descriptors") "](" STR("\x01", "a")
					      STR("\x01", "b") "e") },
		{ MORE_INFO, FRAGMENT(STR("\x15", "transform_descriptors") "](K\x01"
									   "e") },
	};
	static const char *const want[] = { "zstd", "several transforms", "several transforms" };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct read_index r;

		read_fine(&r, &table[i], 1);
		assert_string_equal(r.index.chunks[0].transform, want[i]);
		clear(&r);
	}
}

static void names_of_files_that_stay_inside_are_taken(void **state)
{
	static const struct change table[] = {
		{ FILE_NAME, FRAGMENT(STR("\x03", "a/b")) },
		{ FILE_NAME, FRAGMENT(STR("\x03", "..x")) },
		{ FILE_NAME, FRAGMENT(STR("\x05", "a..b/")) },
		{ FILE_NAME, FRAGMENT(STR("\x04", "ab:c")) },
		{ FILE_NAME, FRAGMENT(STR("\x05", "./a/b")) },
		{ FILE_NAME, FRAGMENT(STR("\x03", "...")) },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct read_index r;

		read_fine(&r, &table[i], 1);
		assert_memory_equal(r.index.files[0], table[i].to.bytes + 2, table[i].to.len - 2);
		clear(&r);
	}
}

UNIT_SUITE(test_dcp_index)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_generation_says_the_same),
		cmocka_unit_test(without_sound_planner_data_keys_are_flat),
		cmocka_unit_test(what_torch_does_not_find_is_without_a_place),
		cmocka_unit_test(scalars_are_found_by_no_offset),
		cmocka_unit_test(of_a_key_that_comes_twice_the_last_counts),
		cmocka_unit_test(a_transform_is_named),
		cmocka_unit_test(names_of_files_that_stay_inside_are_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
