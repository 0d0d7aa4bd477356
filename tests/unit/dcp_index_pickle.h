/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_DCP_INDEX_PICKLE_H
#define CKPT_TESTS_DCP_INDEX_PICKLE_H

#include "unit.h"

#include "set/dcp/index.h"

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

static inline void put(struct writer *w, enum part part)
{
	if (!w->at[part])
		w->at[part] = w->out.len;
	ckpt_buf_add(&w->out, w->parts[part].bytes, w->parts[part].len);
}

#define TEXT(w, text) ckpt_buf_add(&(w)->out, text, sizeof(text) - 1)

static inline void put_chunk(struct writer *w, enum part offsets, enum part sizes)
{
	put(w, CHUNK);
	TEXT(w, "}(" STR("\x07", "offsets"));
	put(w, offsets);
	TEXT(w, STR("\x05", "sizes"));
	put(w, sizes);
	TEXT(w, "ub");
}

static inline void put_entries(struct writer *w)
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

static inline void put_places(struct writer *w)
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

static inline void read_bytes(struct read_index *r)
{
	int rc = ckpt_pickle_decode(r->w.out.data, r->w.out.len, 64 << 20, &r->pickle, &r->err);

	if (rc < 0)
		fail_msg("the pickle: %s", unit_message(&r->err));
	r->rc = ckpt_dcp_index_read(&r->pickle, &r->index, &r->err);
}

static inline void read_changed(struct read_index *r, const struct change *changes, size_t count)
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

static inline void clear(struct read_index *r)
{
	ckpt_dcp_index_clear(&r->index);
	ckpt_pickle_clear(&r->pickle);
	ckpt_buf_clear(&r->w.out);
}

static inline void read_fine(struct read_index *r, const struct change *changes, size_t count)
{
	read_changed(r, changes, count);
	if (r->rc < 0)
		fail_msg("%s", unit_message(&r->err));
}

#endif
