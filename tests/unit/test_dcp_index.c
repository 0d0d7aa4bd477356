/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "set/dcp_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * One small index in all its dialects, and with one thing wrong at a time. It has the tensor "w" of four
 * float32 in two chunks and the value "n". Its parts are fragments of a pickle; a test puts another
 * one in the place of some.
 */

#define NEW(module, name) "c" module "\n" name "\n)\x81"
#define STATE(...) "}(" __VA_ARGS__ "ub"
#define STR(len, text) "\x8c" len text
#define SIZE(numbers, tuple) "ctorch\nSize\n" numbers tuple "\x85R"
#define META "torch.distributed.checkpoint.metadata"
#define FILES "torch.distributed.checkpoint.filesystem"
#define OLD_META "torch.distributed._shard.checkpoint.metadata"
#define OLD_FILES "torch.distributed._shard.checkpoint.filesystem"
#define OLD_PROPERTIES "torch.distributed._shard.sharded_tensor.metadata"

enum part {
	ROOT,	 /* the class Metadata */
	ENTRIES, /* "state_dict_metadata" and its dict, up to the key "w" */
	KEY,
	TENSOR, /* the class TensorStorageMetadata */
	PROPERTIES,
	WHOLE,	/* size */
	CHUNKS, /* begins the list */
	CHUNK,	/* the class ChunkStorageMetadata */
	FIRST_OFFSETS,
	FIRST_SIZES,
	SECOND_OFFSETS,
	SECOND_SIZES,
	END_OF_CHUNKS,
	VALUE, /* BytesStorageMetadata */
	MORE_ENTRIES,
	PATHS,	/* "planner_data" and its value */
	PLACES, /* "storage_data" and its dict */
	PLACE,	/* the class MetadataIndex */
	PLACE_KEY,
	PLACE_OFFSET, /* "offset" and its value */
	INFO,	      /* the class _StorageInfo */
	FILE_NAME,
	FILE_OFFSET,
	FILE_LENGTH,
	MORE_INFO,
	MORE_PLACES,
	MORE, /* attributes of Metadata */
	PART_COUNT
};

struct fragment {
	const char *bytes;
	size_t len;
};
#define FRAGMENT(text) \
	{ \
		text, sizeof(text) - 1 \
	}

static const struct fragment usual[PART_COUNT] = {
	[ROOT] = FRAGMENT(NEW(META, "Metadata")),
	[ENTRIES] = FRAGMENT(STR("\x13", "state_dict_metadata") "}("),
	[KEY] = FRAGMENT(STR("\x01", "w")),
	[TENSOR] = FRAGMENT(NEW(META, "TensorStorageMetadata")),
	[PROPERTIES] = FRAGMENT(NEW(META, "TensorProperties")
					STATE(STR("\x05", "dtype") "ctorch\nfloat32\n")),
	[WHOLE] = FRAGMENT(SIZE("K\x04", "\x85")),
	[CHUNKS] = FRAGMENT("]("),
	[CHUNK] = FRAGMENT(NEW(META, "ChunkStorageMetadata")),
	[FIRST_OFFSETS] = FRAGMENT(SIZE("K\x00", "\x85")),
	[FIRST_SIZES] = FRAGMENT(SIZE("K\x01", "\x85")),
	[SECOND_OFFSETS] = FRAGMENT(SIZE("K\x01", "\x85")),
	[SECOND_SIZES] = FRAGMENT(SIZE("K\x03", "\x85")),
	[END_OF_CHUNKS] = FRAGMENT("e"),
	[VALUE] = FRAGMENT(NEW(META, "BytesStorageMetadata")),
	[MORE_ENTRIES] = FRAGMENT(""),
	[PATHS] =
		FRAGMENT(STR("\x0c", "planner_data") "}(" STR("\x01", "w") STR("\x01", "m")
				 STR("\x01", "x") "\x86" STR("\x01", "n") STR("\x01", "n") "\x85u"),
	[PLACES] = FRAGMENT(STR("\x0c", "storage_data") "}("),
	[PLACE] = FRAGMENT(NEW(META, "MetadataIndex")),
	[PLACE_KEY] = FRAGMENT(STR("\x01", "w")),
	[PLACE_OFFSET] = FRAGMENT(STR("\x06", "offset") SIZE("K\x00", "\x85")),
	[INFO] = FRAGMENT(NEW(FILES, "_StorageInfo")),
	[FILE_NAME] = FRAGMENT(STR("\x0c", "__0_0.distcp")),
	[FILE_OFFSET] = FRAGMENT("K\x07"),
	[FILE_LENGTH] = FRAGMENT("J\x00\x10\x00\x00"),
	[MORE_INFO] = FRAGMENT(""),
	[MORE_PLACES] = FRAGMENT(""),
	[MORE] = FRAGMENT(""),
};

struct change {
	enum part part;
	struct fragment to;
};

struct writer {
	struct fragment parts[PART_COUNT];
	size_t at[PART_COUNT]; /* where each was written first */
	struct ckpt_buf out;
};

static void put(struct writer *w, enum part part)
{
	if (!w->at[part])
		w->at[part] = w->out.len;
	ckpt_buf_add(&w->out, w->parts[part].bytes, w->parts[part].len);
}

#define TEXT(w, text) ckpt_buf_add(&(w)->out, text, sizeof(text) - 1)

static void put_chunk(struct writer *w, enum part offsets, enum part sizes)
{
	put(w, CHUNK);
	TEXT(w, "}(" STR("\x07", "offsets"));
	put(w, offsets);
	TEXT(w, STR("\x05", "sizes"));
	put(w, sizes);
	TEXT(w, "ub");
}

static void put_entries(struct writer *w)
{
	put(w, ENTRIES);
	put(w, KEY);
	put(w, TENSOR);
	TEXT(w, "}(" STR("\x0a", "properties"));
	put(w, PROPERTIES);
	TEXT(w, STR("\x04", "size"));
	put(w, WHOLE);
	TEXT(w, STR("\x06", "chunks"));
	put(w, CHUNKS);
	put_chunk(w, FIRST_OFFSETS, FIRST_SIZES);
	put_chunk(w, SECOND_OFFSETS, SECOND_SIZES);
	put(w, END_OF_CHUNKS);
	TEXT(w, "ub" STR("\x01", "n"));
	put(w, VALUE);
	put(w, MORE_ENTRIES);
	TEXT(w, "u");
}

static void put_places(struct writer *w)
{
	put(w, PLACES);
	put(w, PLACE);
	TEXT(w, "}(" STR("\x03", "fqn"));
	put(w, PLACE_KEY);
	put(w, PLACE_OFFSET);
	TEXT(w, STR("\x05", "index") "K\x00ub");
	put(w, INFO);
	TEXT(w, "}(" STR("\x0d", "relative_path"));
	put(w, FILE_NAME);
	TEXT(w, STR("\x06", "offset"));
	put(w, FILE_OFFSET);
	TEXT(w, STR("\x06", "length"));
	put(w, FILE_LENGTH);
	put(w, MORE_INFO);
	TEXT(w, "ub");
	put(w, PLACE);
	TEXT(w, STATE(STR("\x03", "fqn") STR("\x01", "w") STR("\x06", "offset")
			      SIZE("K\x01", "\x85")));
	put(w, INFO);
	TEXT(w, STATE(STR("\x0d", "relative_path") STR("\x0c", "__1_0.distcp")
			      STR("\x06",
				  "offset") "K\x00" STR("\x06",
							"length") "\x8a\x05\x00\x00\x00\x00\x01"));
	put(w, PLACE);
	TEXT(w, STATE(STR("\x03", "fqn") STR("\x01", "n") STR("\x06", "offset") "N"));
	put(w, INFO);
	TEXT(w, STATE(STR("\x0d", "relative_path") STR("\x0c", "__0_0.distcp")
			      STR("\x06", "offset") "K\x50" STR("\x06", "length") "K\x05"));
	put(w, MORE_PLACES);
	TEXT(w, "u");
}

struct read_index {
	struct writer w;
	struct ckpt_pickle pickle;
	struct ckpt_dcp_index index;
	struct ckpt_error err;
	int rc;
};

static void read_bytes(struct read_index *r)
{
	int rc = ckpt_pickle_decode(r->w.out.data, r->w.out.len, 64 << 20, &r->pickle, &r->err);

	if (rc < 0)
		fail_msg("the pickle: %s", unit_message(&r->err));
	r->rc = ckpt_dcp_index_read(&r->pickle, &r->index, &r->err);
}

static void read_changed(struct read_index *r, const struct change *changes, size_t count)
{
	*r = (struct read_index){ .err = CKPT_ERROR_INIT };
	memcpy(r->w.parts, usual, sizeof(usual));
	for (size_t i = 0; i < count; i++)
		r->w.parts[changes[i].part] = changes[i].to;
	TEXT(&r->w, "\x80\x04");
	put(&r->w, ROOT);
	TEXT(&r->w, "}(");
	put_entries(&r->w);
	put(&r->w, PATHS);
	put_places(&r->w);
	put(&r->w, MORE);
	TEXT(&r->w, "ub.");
	read_bytes(r);
}

static void clear(struct read_index *r)
{
	ckpt_dcp_index_clear(&r->index);
	ckpt_pickle_clear(&r->pickle);
	ckpt_buf_clear(&r->w.out);
}

static void read_fine(struct read_index *r, const struct change *changes, size_t count)
{
	read_changed(r, changes, count);
	if (r->rc < 0)
		fail_msg("%s", unit_message(&r->err));
}

/* ---- dialects ---- */

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
	assert_int_equal(r.index.entries[0].chunk_count, 1);
	assert_place(&r, r.index.entries[0].first_chunk, "__1_0.distcp", 0, (uint64_t)1 << 32);
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

/* ---- what is wrong ---- */

#define TEN(x) x x x x x x x x x x
#define FORTY TEN("K\x01K\x01K\x01K\x01")
#define NOWHERE ((size_t)-1)
#define AT_ROOT ((size_t)-2)

static const struct {
	struct change change;
	int rc;
	const char *text;
	size_t at; /* of the opcode that made it, in the fragment */
} wrong[] = {
	{ { PLACES, FRAGMENT(STR("\x0c", "storage_dat_") "}(") },
	  CKPT_E_UNSUPPORTED,
	  "is an index of torch 1.12 or earlier, which has another form",
	  NOWHERE },
	{ { ENTRIES, FRAGMENT(STR("\x13", "state_dict_metadatx") "}(") },
	  CKPT_E_FORMAT,
	  "wanted torch.distributed.checkpoint's Metadata, found a Metadata",
	  AT_ROOT },
	{ { KEY, FRAGMENT("K\x05") },
	  CKPT_E_FORMAT,
	  "wanted a str as key of state_dict_metadata, found int",
	  0 },
	{ { TENSOR, FRAGMENT(NEW("some.where", "TensorStorageMetadata")) },
	  CKPT_E_FORMAT,
	  "'w': wanted a TensorStorageMetadata or BytesStorageMetadata, found a TensorStorageMetadata",
	  35 },
	{ { TENSOR, FRAGMENT(NEW(META, "OtherStorageMetadata")) },
	  CKPT_E_FORMAT,
	  "'w': wanted a TensorStorageMetadata or BytesStorageMetadata, found a OtherStorageMetadata",
	  61 },
	{ { VALUE, FRAGMENT("N") },
	  CKPT_E_FORMAT,
	  "'n': wanted a TensorStorageMetadata or BytesStorageMetadata, found None",
	  NOWHERE },
	{ { PROPERTIES, FRAGMENT("N") },
	  CKPT_E_FORMAT,
	  "'w': wanted TensorProperties, found None",
	  NOWHERE },
	{ { PROPERTIES, FRAGMENT(NEW(META, "TensorProperties")) },
	  CKPT_E_FORMAT,
	  "'w': wanted a dtype, found nothing",
	  NOWHERE },
	{ { PROPERTIES,
	    FRAGMENT(NEW(META, "TensorProperties") STATE(STR("\x05", "dtype") "K\x01")) },
	  CKPT_E_FORMAT,
	  "'w': wanted a dtype, found int",
	  67 },
	{ { PROPERTIES, FRAGMENT(NEW(META, "TensorProperties")
					 STATE(STR("\x05", "dtype") "ctorch\nfloat33\n")) },
	  CKPT_E_UNSUPPORTED,
	  "'w': dtype 'float33' is not known",
	  67 },
	{ { PROPERTIES, FRAGMENT(NEW(META, "TensorProperties")
					 STATE(STR("\x05", "dtype") "cnumpy\nfloat32\n")) },
	  CKPT_E_UNSUPPORTED,
	  "'w': dtype 'float32' is not known",
	  67 },
	{ { WHOLE, FRAGMENT("K\x04") }, CKPT_E_FORMAT, "'w': wanted size, found int", 0 },
	{ { WHOLE, FRAGMENT(SIZE("J\xff\xff\xff\xff", "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': size is -1, wanted 0 or more",
	  12 },
	{ { WHOLE, FRAGMENT(SIZE(STR("\x01", "4"), "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': wanted size, found str",
	  12 },
	{ { WHOLE, FRAGMENT(SIZE("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01", "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': wanted size, found int",
	  12 },
	{ { WHOLE, FRAGMENT(SIZE("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': more bytes than any file holds",
	  NOWHERE },
	{ { WHOLE, FRAGMENT(SIZE("(" FORTY FORTY, "t")) },
	  CKPT_E_FORMAT,
	  "'w': size of 80 dimensions, torch has at most 64",
	  173 },
	{ { WHOLE, FRAGMENT(SIZE("K\x04K\x02", "\x86")) },
	  CKPT_E_FORMAT,
	  "'w': a chunk of 1 dimensions in a tensor of 2",
	  NOWHERE },
	{ { WHOLE, FRAGMENT(SIZE("K\x03", "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': a chunk of 3 at 1 reaches out of dimension 0 of 3",
	  NOWHERE },
	{ { FIRST_OFFSETS, FRAGMENT(SIZE("K\x04", "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': a chunk of 1 at 4 reaches out of dimension 0 of 4",
	  NOWHERE },
	{ { FIRST_OFFSETS, FRAGMENT(SIZE("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': a chunk of 1 at 9223372036854775807 reaches out of dimension 0 of 4",
	  NOWHERE },
	{ { FIRST_SIZES, FRAGMENT(SIZE("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': a chunk of 9223372036854775807 at 0 reaches out of dimension 0 of 4",
	  NOWHERE },
	{ { FIRST_SIZES, FRAGMENT(SIZE(")", "")) },
	  CKPT_E_FORMAT,
	  "'w': a chunk of 0 dimensions in a tensor of 1",
	  NOWHERE },
	{ { FIRST_SIZES, FRAGMENT("N") }, CKPT_E_FORMAT, "'w': wanted sizes, found None", NOWHERE },
	{ { CHUNK, FRAGMENT(NEW(META, "Chunk")) },
	  CKPT_E_FORMAT,
	  "'w': wanted a ChunkStorageMetadata, found a Chunk",
	  46 },
	{ { PLACE, FRAGMENT(NEW("some.where", "MetadataIndex")) },
	  CKPT_E_FORMAT,
	  "wanted a MetadataIndex as key of storage_data, found a MetadataIndex",
	  27 },
	{ { PLACE_KEY, FRAGMENT("K\x05") },
	  CKPT_E_FORMAT,
	  "wanted a str as fqn of a MetadataIndex, found int",
	  0 },
	{ { PLACE_OFFSET, FRAGMENT(STR("\x06", "offset") SIZE("J\xff\xff\xff\xff", "\x85")) },
	  CKPT_E_FORMAT,
	  "'w': offset is -1, wanted 0 or more",
	  20 },
	{ { INFO, FRAGMENT(NEW(META, "_Info")) },
	  CKPT_E_FORMAT,
	  "'w': wanted a _StorageInfo, found a _Info",
	  46 },
	{ { FILE_OFFSET, FRAGMENT("J\xff\xff\xff\xff") },
	  CKPT_E_FORMAT,
	  "'w': offset is -1, wanted 0 or more",
	  0 },
	{ { FILE_OFFSET, FRAGMENT("N") },
	  CKPT_E_FORMAT,
	  "'w': wanted offset, found None",
	  NOWHERE },
	{ { FILE_LENGTH, FRAGMENT("J\x00\x00\x00\x80") },
	  CKPT_E_FORMAT,
	  "'w': length is -2147483648, wanted 0 or more",
	  0 },
	{ { FILE_LENGTH, FRAGMENT("G\x3f\xf0\x00\x00\x00\x00\x00\x00") },
	  CKPT_E_FORMAT,
	  "'w': wanted length, found float",
	  0 },
	{ { FILE_NAME, FRAGMENT("K\x05") },
	  CKPT_E_FORMAT,
	  "'w': wanted a str as relative_path, found int",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x0b", "/etc/passwd")) },
	  CKPT_E_FORMAT,
	  "'w': the data file '/etc/passwd' lies outside of the directory; it is not read",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x02", "..")) },
	  CKPT_E_FORMAT,
	  "'w': the data file '..' lies outside of the directory; it is not read",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x04", "../x")) },
	  CKPT_E_FORMAT,
	  "'w': the data file '../x' lies outside of the directory; it is not read",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x09", "a/../../b")) },
	  CKPT_E_FORMAT,
	  "'w': the data file 'a/../../b' lies outside of the directory; it is not read",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x04", "a/..")) },
	  CKPT_E_FORMAT,
	  "'w': the data file 'a/..' lies outside of the directory; it is not read",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x06", "a\\..\\b")) },
	  CKPT_E_FORMAT,
	  "'w': the data file 'a\\\\..\\\\b' lies outside of the directory; it is not read",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x02", "\\x")) },
	  CKPT_E_FORMAT,
	  "'w': the data file '\\\\x' lies outside of the directory; it is not read",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x03", "C:x")) },
	  CKPT_E_FORMAT,
	  "'w': the data file 'C:x' lies outside of the directory; it is not read",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x00", "")) },
	  CKPT_E_FORMAT,
	  "'w': the data file '' is no name of a file",
	  0 },
	{ { FILE_NAME, FRAGMENT(STR("\x03", "a\0b")) },
	  CKPT_E_FORMAT,
	  "'w': the data file 'a\\x00b' is no name of a file",
	  0 },
};

static void check_wrong(size_t i)
{
	struct read_index r;
	uint64_t at = CKPT_NO_OFFSET;

	read_changed(&r, &wrong[i].change, 1);
	assert_int_equal(r.rc, wrong[i].rc);
	assert_string_equal(r.err.text, wrong[i].text);
	if (wrong[i].at == AT_ROOT)
		at = r.w.at[ROOT] + usual[ROOT].len - 1;
	else if (wrong[i].at != NOWHERE)
		at = r.w.at[wrong[i].change.part] + wrong[i].at;
	if (r.err.offset != at)
		fail_msg("%s: at %" PRIu64 ", wanted %" PRIu64, r.err.text, r.err.offset, at);
	assert_int_equal(r.index.entry_count, 0); /* nothing is left of it */
	assert_null(r.index.arena);
	clear(&r);
}

static void what_is_wrong_is_told_with_its_key_and_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++)
		check_wrong(i);
}

static void whole(struct read_index *r, const char *bytes, size_t len)
{
	*r = (struct read_index){ .err = CKPT_ERROR_INIT };
	ckpt_buf_add(&r->w.out, bytes, len);
	read_bytes(r);
}

static void what_is_no_index_is_told(void **state)
{
	static const struct {
		struct fragment bytes;
		int rc;
		const char *text;
	} table[] = {
		{ FRAGMENT("\x80\x04K\x01."), CKPT_E_FORMAT,
		  "wanted torch.distributed.checkpoint's Metadata, found int" },
		{ FRAGMENT("\x80\x04}."), CKPT_E_FORMAT,
		  "wanted torch.distributed.checkpoint's Metadata, found dict" },
		{ FRAGMENT("\x80\x04" NEW(META, "Metadata") "."), CKPT_E_FORMAT,
		  "wanted torch.distributed.checkpoint's Metadata, found a Metadata" },
		{ FRAGMENT("\x80\x04" NEW("paddle.distributed.checkpoint.metadata", "Metadata")
				   STATE(STR("\x01", "x") "N") "."),
		  CKPT_E_UNSUPPORTED, "is an index of PaddlePaddle, not of PyTorch" },
		{ FRAGMENT("\x80\x04" NEW(META, "Metadata")
				   STATE(STR("\x13", "state_dict_metadata") "}") "."),
		  CKPT_E_UNSUPPORTED,
		  "is an index of torch 1.12 or earlier, which has another form" },
		{ FRAGMENT("\x80\x04" NEW(META, "Metadata") STATE(STR(
			  "\x13", "state_dict_metadata") "](K\x01"
							 "e" STR("\x0c", "storage_data") "}") "."),
		  CKPT_E_FORMAT, "wanted a dict as state_dict_metadata, found list" },
		{ FRAGMENT("\x80\x04" NEW(META, "Metadata") STATE(
			  STR("\x13", "state_dict_metadata") "}" STR("\x0c",
								     "storage_data") "K\x01") "."),
		  CKPT_E_FORMAT, "wanted a dict as storage_data, found int" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct read_index r;

		whole(&r, table[i].bytes.bytes, table[i].bytes.len);
		assert_int_equal(r.rc, table[i].rc);
		assert_string_equal(r.err.text, table[i].text);
		clear(&r);
	}
}

static void an_empty_index_is_fine(void **state)
{
	static const struct fragment bytes = FRAGMENT("\x80\x04" NEW(META, "Metadata") STATE(
		STR("\x13", "state_dict_metadata") "}" STR("\x0c", "storage_data") "}") ".");
	struct read_index r;

	(void)state;
	whole(&r, bytes.bytes, bytes.len);
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.index.entry_count, 0);
	assert_int_equal(r.index.chunk_count, 0);
	clear(&r);
}

static void what_is_wrong_in_a_key_is_escaped(void **state)
{
	static const struct change changes[] = { { KEY, FRAGMENT(STR("\x05", "a\n\x1b'\\")) },
						 { PROPERTIES, FRAGMENT("K\x01") } };
	struct read_index r;

	(void)state;
	read_changed(&r, changes, COUNT(changes));
	assert_int_equal(r.rc, CKPT_E_FORMAT);
	for (const char *p = r.err.text; *p; p++)
		assert_true(*p >= 0x20 && *p < 0x7F);
	clear(&r);
}

/*
 * A hostile index of a few kilobytes: one list of many chunks, which every one of many tensors has. As
 * many chunks as one times the other would take what memory there is.
 */
static void chunks_that_many_tensors_share_are_limited(void **state)
{
	enum { MANY = 1000 };
	struct read_index r = { .err = CKPT_ERROR_INIT };

	(void)state;
	TEXT(&r.w,
	     "\x80\x04" NEW(META, "Metadata") "}(" STR("\x13",
						       "state_dict_metadata") "}(" STR("\x01", "w")
		     NEW(META, "TensorStorageMetadata") "}(" STR("\x0a", "properties"));
	ckpt_buf_add(&r.w.out, usual[PROPERTIES].bytes, usual[PROPERTIES].len);
	TEXT(&r.w, STR("\x04", "size") ")" STR("\x06", "chunks") "](");
	TEXT(&r.w, NEW(META, "ChunkStorageMetadata")
			   STATE(STR("\x07", "offsets") ")" STR("\x05", "sizes") ")") "q\x01");
	for (int i = 1; i < MANY; i++)
		TEXT(&r.w, "h\x01");
	TEXT(&r.w, "eubq\x02");
	for (int i = 0; i < MANY; i++) {
		TEXT(&r.w, "\x8c\x04");
		ckpt_buf_printf(&r.w.out, "%04d", i);
		TEXT(&r.w, "h\x02");
	}
	TEXT(&r.w, "u" STR("\x0c", "storage_data") "}ub.");
	read_bytes(&r);
	assert_int_equal(r.rc, CKPT_E_LIMIT);
	clear(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_generation_says_the_same),
		cmocka_unit_test(without_sound_planner_data_keys_are_flat),
		cmocka_unit_test(what_torch_does_not_find_is_without_a_place),
		cmocka_unit_test(scalars_are_found_by_no_offset),
		cmocka_unit_test(of_a_key_that_comes_twice_the_last_counts),
		cmocka_unit_test(a_transform_is_named),
		cmocka_unit_test(names_of_files_that_stay_inside_are_taken),
		cmocka_unit_test(what_is_wrong_is_told_with_its_key_and_place),
		cmocka_unit_test(what_is_no_index_is_told),
		cmocka_unit_test(an_empty_index_is_fine),
		cmocka_unit_test(what_is_wrong_in_a_key_is_escaped),
		cmocka_unit_test(chunks_that_many_tensors_share_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
