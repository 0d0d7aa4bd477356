/* SPDX-License-Identifier: Apache-2.0 */
#include "dcp_index_pickle.h"

/* The index with one thing wrong at a time. */

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
	assert_string_equal(unit_text(&r.err), wrong[i].text);
	if (wrong[i].at == AT_ROOT)
		at = r.w.at[ROOT] + usual[ROOT].len - 1;
	else if (wrong[i].at != NOWHERE)
		at = r.w.at[wrong[i].change.part] + wrong[i].at;
	if (r.err.offset != at)
		fail_msg("%s: at %" PRIu64 ", wanted %" PRIu64, unit_text(&r.err), r.err.offset, at);
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
		assert_string_equal(unit_text(&r.err), table[i].text);
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
	for (const char *p = unit_text(&r.err); *p; p++)
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

UNIT_SUITE(test_dcp_index_wrong)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wrong_is_told_with_its_key_and_place),
		cmocka_unit_test(what_is_no_index_is_told),
		cmocka_unit_test(an_empty_index_is_fine),
		cmocka_unit_test(what_is_wrong_in_a_key_is_escaped),
		cmocka_unit_test(chunks_that_many_tensors_share_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
