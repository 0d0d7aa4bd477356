/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_MOBILE_H
#define CKPT_FORMAT_TORCH_MOBILE_H

#include "format/flatbuffer.h"
#include "model/maker.h"
#include "format/torch_script.h"

/*
 * Mobile models in a FlatBuffers file. The schema is
 * torch/csrc/jit/serialization/mobile_bytecode.fbs: below are the numbers of the fields in its
 * tables.
 */
enum {
	MODULE_BYTECODE_VERSION = 0,
	MODULE_EXTRA_FILES = 1,
	MODULE_STATE_OBJ = 3,
	MODULE_IVALUES = 4,
	MODULE_STORAGE_DATA = 6,
	MODULE_OBJECT_TYPES = 7,
	MODULE_JIT_SOURCES = 8,
	MODULE_JIT_CONSTANTS = 9,
	MODULE_OPERATOR_VERSION = 10,
};

/* The bytes of a storage, or of a file inside the model. */
struct ckpt_mobile_place {
	const char *name;
	uint64_t off, len;
};

/* What reading found out about the file; the document owns it. */
struct ckpt_mobile {
	struct ckpt_mobile_place *storages, *sources, *extras; /* the document's arena */
	uint32_t storage_count, source_count, extra_count;
	struct ckpt_strmap source_by_name;
	struct ckpt_script_code code;
	uint32_t operators; /* their version */
	char writer[80];
};

/* A storage, once a tensor has told its dtype. */
struct ckpt_mobile_storage {
	const struct ckpt_value *value;
	enum ckpt_dtype dtype;
};

/* What all functions that read values need. */
struct ckpt_mobile_reader {
	struct ckpt_document *doc;
	struct ckpt_maker *maker;
	struct ckpt_flatbuffer *fb;
	struct ckpt_mobile_storage *storages; /* malloc */
};

/* Fail: sets fb->rc and the error. Returns NULL. */
const struct ckpt_value *ckpt_mobile_fail(struct ckpt_mobile_reader *reader, int status,
					  uint64_t at, const char *what);

/* Returns V if all went well so far. NULL: fb->rc says why; if V is NULL there was no memory. */
const struct ckpt_value *ckpt_mobile_made(struct ckpt_mobile_reader *reader,
					  const struct ckpt_value *v);

const struct ckpt_value *ckpt_mobile_float(struct ckpt_mobile_reader *reader, uint64_t bits);

const struct ckpt_value *ckpt_mobile_read_tensor(struct ckpt_mobile_reader *reader,
						 const struct ckpt_flatbuffer_table *t);

/*
 * Read the object of the model, with its constants. The storages of ckpt_mobile are read
 * already.
 */
int ckpt_mobile_read_values(struct ckpt_document *doc, struct ckpt_maker *maker,
			    struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *module,
			    const struct ckpt_value **root);

#endif
