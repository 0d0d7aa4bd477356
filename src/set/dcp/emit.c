/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the index of a new DCP directory, and the pickle of a tensor's item, opcode by opcode. A
 * small dialect: protocol 4 without frames, opcodes that every Python reads, memo entries for
 * what is said often (names of classes and attributes, keys).
 *
 * Memo numbers are fixed by position: classes, dtypes, words, then one for each key, so that what
 * refers to them needs no table. put_global() and put_word() write a thing out at its first
 * mention and refer to it afterwards (`written`). The classes are those of torch 2.0, which every
 * later release still loads; the item's pickle is byte for byte what torch.save writes
 * (tests/dcp).
 */
#include "set/dcp/out.h"

#include "pickle/opcodes.h"

#include <stdio.h>
#include <string.h>

#define METADATA "torch.distributed.checkpoint.metadata"
#define OLD_PROPERTIES "torch.distributed._shard.sharded_tensor.metadata"

/* The classes and functions of an index, in the order of their memo numbers. */
enum class {
	CLASS_METADATA,
	CLASS_TENSOR,
	CLASS_BYTES,
	CLASS_CHUNK,
	CLASS_INDEX,
	CLASS_INFO,
	CLASS_PROPERTIES,
	CLASS_MEMORY_FORMAT,
	CLASS_SIZE,
	CLASS_LAYOUT,
	CLASS_COUNT,
};

static const struct {
	const char *module, *name;
} classes[CLASS_COUNT] = {
	[CLASS_METADATA] = { METADATA, "Metadata" },
	[CLASS_TENSOR] = { METADATA, "TensorStorageMetadata" },
	[CLASS_BYTES] = { METADATA, "BytesStorageMetadata" },
	[CLASS_CHUNK] = { METADATA, "ChunkStorageMetadata" },
	[CLASS_INDEX] = { METADATA, "MetadataIndex" },
	[CLASS_INFO] = { "torch.distributed.checkpoint.filesystem", "_StorageInfo" },
	[CLASS_PROPERTIES] = { OLD_PROPERTIES, "TensorProperties" },
	[CLASS_MEMORY_FORMAT] = { OLD_PROPERTIES, "MEM_FORMAT_ENCODING" },
	[CLASS_SIZE] = { "torch", "Size" },
	[CLASS_LAYOUT] = { "torch.serialization", "_get_layout" },
};

enum word {
	WORD_OFFSETS,
	WORD_SIZES,
	WORD_FQN,
	WORD_INDEX,
	WORD_OFFSET,
	WORD_PATH,
	WORD_LENGTH,
	WORD_PROPERTIES,
	WORD_SIZE,
	WORD_CHUNKS,
	WORD_COUNT,
};
static const char *const words[WORD_COUNT] = {
	"offsets",	 "sizes",  "fqn",	 "index", "offset",
	"relative_path", "length", "properties", "size",  "chunks",
};

/* Memo numbers: classes, dtypes, words, then the keys of the entries. */
enum { FIRST_WORD = CLASS_COUNT + CKPT_DTYPE_COUNT, FIRST_KEY = FIRST_WORD + WORD_COUNT };

struct emitter {
	const struct ckpt_dcp_out *out;
	struct ckpt_buf *buf;
	bool written[FIRST_KEY]; /* classes, dtypes and words that have their memo entry */
};

/* ---- opcodes ---- */

static void put_op(struct emitter *e, enum ckpt_opcode code)
{
	ckpt_buf_add_u8(e->buf, (uint8_t)code);
}

static void put_str(struct emitter *e, const char *text, size_t len)
{
	if (len < 256) {
		put_op(e, CKPT_OP_SHORT_BINUNICODE);
		ckpt_buf_add_u8(e->buf, (uint8_t)len);
	} else {
		put_op(e, CKPT_OP_BINUNICODE);
		ckpt_buf_add_u32(e->buf, (uint32_t)len);
	}
	ckpt_buf_add(e->buf, text, len);
}

static void put_int(struct emitter *e, uint64_t v)
{
	uint8_t bytes[9] = { 0 };
	unsigned len = 0;

	if (v < 256) {
		put_op(e, CKPT_OP_BININT1);
		ckpt_buf_add_u8(e->buf, (uint8_t)v);
	} else if (v < 65536) {
		put_op(e, CKPT_OP_BININT2);
		ckpt_buf_add_u16(e->buf, (uint16_t)v);
	} else if (v <= INT32_MAX) {
		put_op(e, CKPT_OP_BININT);
		ckpt_buf_add_u32(e->buf, (uint32_t)v);
	} else {
		for (uint64_t rest = v; rest; rest >>= 8)
			bytes[len++] = (uint8_t)rest;
		len += bytes[len - 1] >> 7; /* the sign is the top bit */
		put_op(e, CKPT_OP_LONG1);
		ckpt_buf_add_u8(e->buf, (uint8_t)len);
		ckpt_buf_add(e->buf, bytes, len);
	}
}

static void put_memo(struct emitter *e, uint32_t number)
{
	put_op(e, number < 256 ? CKPT_OP_BINPUT : CKPT_OP_LONG_BINPUT);
	if (number < 256)
		ckpt_buf_add_u8(e->buf, (uint8_t)number);
	else
		ckpt_buf_add_u32(e->buf, number);
}

static void get_memo(struct emitter *e, uint32_t number)
{
	put_op(e, number < 256 ? CKPT_OP_BINGET : CKPT_OP_LONG_BINGET);
	if (number < 256)
		ckpt_buf_add_u8(e->buf, (uint8_t)number);
	else
		ckpt_buf_add_u32(e->buf, number);
}

static void put_global(struct emitter *e, uint32_t number, const char *module, const char *name)
{
	if (e->written[number]) {
		get_memo(e, number);
		return;
	}
	put_str(e, module, strlen(module));
	put_str(e, name, strlen(name));
	put_op(e, CKPT_OP_STACK_GLOBAL);
	put_memo(e, number);
	e->written[number] = true;
}

static void put_class(struct emitter *e, enum class class)
{
	const char *module = classes[class].module;

	if (e->out->torch_1_13 && !strcmp(module, METADATA))
		module = "torch.distributed._shard.checkpoint.metadata";
	else if (e->out->torch_1_13 && class == CLASS_INFO)
		module = "torch.distributed._shard.checkpoint.filesystem";
	put_global(e, class, module, classes[class].name);
}

static void put_word(struct emitter *e, enum word word)
{
	uint32_t number = FIRST_WORD + word;

	if (e->written[number]) {
		get_memo(e, number);
		return;
	}
	put_str(e, words[word], strlen(words[word]));
	put_memo(e, number);
	e->written[number] = true;
}

/* An instance without attributes yet; those follow between begin_state and end_state. */
static void new_object(struct emitter *e, enum class class)
{
	put_class(e, class);
	put_op(e, CKPT_OP_EMPTY_TUPLE);
	put_op(e, CKPT_OP_NEWOBJ);
}

static void begin_state(struct emitter *e)
{
	put_op(e, CKPT_OP_EMPTY_DICT);
	put_op(e, CKPT_OP_MARK);
}

static void end_state(struct emitter *e)
{
	put_op(e, CKPT_OP_SETITEMS);
	put_op(e, CKPT_OP_BUILD);
}

static void put_size(struct emitter *e, const uint64_t *dims, uint32_t ndim)
{
	put_class(e, CLASS_SIZE);
	if (ndim > 3)
		put_op(e, CKPT_OP_MARK);
	for (uint32_t i = 0; i < ndim; i++)
		put_int(e, dims[i]);
	switch (ndim) {
	case 0: put_op(e, CKPT_OP_EMPTY_TUPLE); break;
	case 1: put_op(e, CKPT_OP_TUPLE1); break;
	case 2: put_op(e, CKPT_OP_TUPLE2); break;
	case 3: put_op(e, CKPT_OP_TUPLE3); break;
	default: put_op(e, CKPT_OP_TUPLE);
	}
	put_op(e, CKPT_OP_TUPLE1);
	put_op(e, CKPT_OP_REDUCE);
}

/* ---- state_dict_metadata ---- */

/* A key is written out at its first mention, which is here. */
static void put_key(struct emitter *e, uint32_t entry)
{
	const struct ckpt_dcp_out_entry *en = &e->out->entries[entry];

	put_str(e, en->fqn, en->fqn_len);
	put_memo(e, FIRST_KEY + entry);
}

static void get_key(struct emitter *e, uint32_t entry)
{
	get_memo(e, FIRST_KEY + entry);
}

static void put_properties(struct emitter *e, enum ckpt_dtype dtype)
{
	static const char strided[] = "torch.strided";

	new_object(e, CLASS_PROPERTIES);
	put_op(e, CKPT_OP_MARK);
	put_global(e, CLASS_COUNT + (uint32_t)dtype, "torch", ckpt_dtype_name(dtype));
	put_class(e, CLASS_LAYOUT);
	put_str(e, strided, strlen(strided));
	put_op(e, CKPT_OP_TUPLE1);
	put_op(e, CKPT_OP_REDUCE);
	put_op(e, CKPT_OP_NEWFALSE); /* requires_grad */
	put_class(e, CLASS_MEMORY_FORMAT);
	put_int(e, 0); /* contiguous */
	put_op(e, CKPT_OP_TUPLE1);
	put_op(e, CKPT_OP_REDUCE);
	put_op(e, CKPT_OP_NEWFALSE); /* pin_memory */
	put_op(e, CKPT_OP_TUPLE);
	put_op(e, CKPT_OP_BUILD);
}

static void put_chunk(struct emitter *e, const struct ckpt_dcp_out_chunk *chunk, uint32_t ndim)
{
	new_object(e, CLASS_CHUNK);
	begin_state(e);
	put_word(e, WORD_OFFSETS);
	put_size(e, chunk->offset, ndim);
	put_word(e, WORD_SIZES);
	put_size(e, chunk->shape, ndim);
	end_state(e);
}

/* The entry whose chunks hold the bytes. */
static const struct ckpt_dcp_out_entry *chunk_holder(const struct emitter *e, uint32_t entry)
{
	const struct ckpt_dcp_out_entry *en = &e->out->entries[entry];

	return en->alias_of == UINT32_MAX ? en : &e->out->entries[en->alias_of];
}

static void put_tensor(struct emitter *e, uint32_t entry)
{
	const struct ckpt_dcp_out_entry *en = &e->out->entries[entry], *of = chunk_holder(e, entry);

	new_object(e, CLASS_TENSOR);
	begin_state(e);
	put_word(e, WORD_PROPERTIES);
	put_properties(e, en->tensor.dtype);
	put_word(e, WORD_SIZE);
	put_size(e, en->tensor.shape, en->tensor.ndim);
	put_word(e, WORD_CHUNKS);
	put_op(e, CKPT_OP_EMPTY_LIST);
	put_op(e, CKPT_OP_MARK);
	for (uint64_t i = 0; i < of->chunk_count; i++)
		put_chunk(e, &e->out->chunks[of->first_chunk + i], en->tensor.ndim);
	put_op(e, CKPT_OP_APPENDS);
	end_state(e);
}

static void put_entries(struct emitter *e)
{
	static const char name[] = "state_dict_metadata";

	put_str(e, name, strlen(name));
	begin_state(e);
	for (uint32_t i = 0; i < e->out->entry_count; i++) {
		put_key(e, i);
		if (e->out->entries[i].is_tensor)
			put_tensor(e, i);
		else
			new_object(e, CLASS_BYTES);
	}
	put_op(e, CKPT_OP_SETITEMS);
}

/* ---- planner_data ---- */

static void put_path(struct emitter *e, const struct ckpt_dcp_out_entry *en)
{
	put_op(e, CKPT_OP_MARK);
	for (uint32_t i = 0; i < en->depth; i++)
		if (en->path[i].text)
			put_str(e, en->path[i].text, en->path[i].len);
		else
			put_int(e, en->path[i].position);
	put_op(e, CKPT_OP_TUPLE);
}

static void put_paths(struct emitter *e)
{
	static const char name[] = "planner_data";

	put_str(e, name, strlen(name));
	begin_state(e);
	for (uint32_t i = 0; i < e->out->entry_count; i++) {
		get_key(e, i);
		put_path(e, &e->out->entries[i]);
	}
	put_op(e, CKPT_OP_SETITEMS);
}

/* ---- storage_data ---- */

static void put_place(struct emitter *e, uint32_t entry, const struct ckpt_dcp_out_chunk *chunk,
		      uint64_t number)
{
	const struct ckpt_dcp_out_entry *en = &e->out->entries[entry];

	new_object(e, CLASS_INDEX);
	begin_state(e);
	put_word(e, WORD_FQN);
	get_key(e, entry);
	put_word(e, WORD_INDEX);
	if (en->is_tensor) {
		put_int(e, number);
		put_word(e, WORD_OFFSET);
		put_size(e, chunk->offset, en->tensor.ndim);
	} else {
		put_op(e, CKPT_OP_NONE);
	}
	end_state(e);
	new_object(e, CLASS_INFO);
	begin_state(e);
	put_word(e, WORD_PATH);
	put_str(e, e->out->files[chunk->file], strlen(e->out->files[chunk->file]));
	put_word(e, WORD_OFFSET);
	put_int(e, chunk->off);
	put_word(e, WORD_LENGTH);
	put_int(e, chunk->len);
	if (chunk->transform) {
		put_str(e, "transform_descriptors", strlen("transform_descriptors"));
		put_op(e, CKPT_OP_EMPTY_LIST);
		put_str(e, chunk->transform, strlen(chunk->transform));
		put_op(e, CKPT_OP_APPEND);
	}
	end_state(e);
}

static void put_places(struct emitter *e)
{
	static const char name[] = "storage_data";

	put_str(e, name, strlen(name));
	begin_state(e);
	for (uint32_t n = 0; n < e->out->entry_count; n++) {
		const struct ckpt_dcp_out_entry *of = chunk_holder(e, n);

		for (uint64_t i = 0; i < of->chunk_count; i++)
			put_place(e, n, &e->out->chunks[of->first_chunk + i], i);
	}
	put_op(e, CKPT_OP_SETITEMS);
}

int ckpt_dcp_emit_index(const struct ckpt_dcp_out *out, struct ckpt_buf *buf,
			struct ckpt_error *err)
{
	struct emitter e = { .out = out, .buf = buf };

	put_op(&e, CKPT_OP_PROTO);
	ckpt_buf_add_u8(buf, 4);
	new_object(&e, CLASS_METADATA);
	begin_state(&e);
	put_entries(&e);
	put_paths(&e);
	put_places(&e);
	end_state(&e);
	put_op(&e, CKPT_OP_STOP);
	return buf->bad ? ckpt_fail_nomem(err) : 0;
}

/* ---- the pickle of a tensor item ---- */

static void put_text_global(struct ckpt_buf *buf, const char *module, const char *name)
{
	ckpt_buf_printf(buf, "c%s\n%s\n", module, name);
}

static void put_text_str(struct ckpt_buf *buf, const char *text)
{
	ckpt_buf_add_u8(buf, CKPT_OP_BINUNICODE);
	ckpt_buf_add_u32(buf, (uint32_t)strlen(text));
	ckpt_buf_add(buf, text, strlen(text));
}

static void put_text_memo(struct ckpt_buf *buf, uint8_t *memo)
{
	ckpt_buf_add_u8(buf, CKPT_OP_BINPUT);
	ckpt_buf_add_u8(buf, (*memo)++);
}

/* A tuple of numbers; the empty one is not memoised. */
static void put_numbers(struct emitter *e, const uint64_t *numbers, uint32_t count, uint8_t *memo)
{
	static const enum ckpt_opcode ends[] = { CKPT_OP_EMPTY_TUPLE, CKPT_OP_TUPLE1,
						 CKPT_OP_TUPLE2, CKPT_OP_TUPLE3 };

	if (count > 3)
		put_op(e, CKPT_OP_MARK);
	for (uint32_t i = 0; i < count; i++)
		put_int(e, numbers[i]);
	put_op(e, count > 3 ? CKPT_OP_TUPLE : ends[count]);
	if (count)
		put_text_memo(e->buf, memo);
}

void ckpt_dcp_emit_tensor(enum ckpt_dtype dtype, const uint64_t *shape, uint32_t ndim,
			  struct ckpt_buf *buf)
{
	const char *class = ckpt_dtype_storage_class(dtype);
	bool typed = *class;
	struct emitter e = { .buf = buf };
	uint64_t stride[CKPT_MOST_DIMS], step = 1, numel = 1;
	uint8_t memo = 0;

	for (uint32_t i = ndim; i-- > 0;) {
		stride[i] = step;
		step *= shape[i] ? shape[i] : 1;
		numel *= shape[i];
	}
	ckpt_buf_add(buf, "\x80\x02", 2);
	put_text_global(buf, "torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
	put_text_memo(buf, &memo);
	ckpt_buf_add(buf, "((", 2);
	put_text_str(buf, "storage");
	put_text_memo(buf, &memo);
	put_text_global(buf, typed ? "torch" : "torch.storage", typed ? class : "UntypedStorage");
	put_text_memo(buf, &memo);
	put_text_str(buf, "0");
	put_text_memo(buf, &memo);
	put_text_str(buf, "cpu");
	put_text_memo(buf, &memo);
	put_int(&e, typed ? numel : numel * ckpt_dtype_size(dtype));
	put_op(&e, CKPT_OP_TUPLE);
	put_text_memo(buf, &memo);
	put_op(&e, CKPT_OP_BINPERSID);
	put_int(&e, 0);
	put_numbers(&e, shape, ndim, &memo);
	put_numbers(&e, stride, ndim, &memo);
	put_op(&e, CKPT_OP_NEWFALSE);
	put_text_global(buf, "collections", "OrderedDict");
	put_text_memo(buf, &memo);
	put_op(&e, CKPT_OP_EMPTY_TUPLE);
	put_op(&e, CKPT_OP_REDUCE);
	put_text_memo(buf, &memo);
	if (!typed) {
		put_text_global(buf, "torch", ckpt_dtype_name(dtype));
		put_text_memo(buf, &memo);
	}
	put_op(&e, CKPT_OP_TUPLE);
	put_text_memo(buf, &memo);
	put_op(&e, CKPT_OP_REDUCE);
	put_text_memo(buf, &memo);
	put_op(&e, CKPT_OP_STOP);
}
