/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_MOBILE_H
#define CKPT_FORMAT_TORCH_MOBILE_H

#include "format/flatbuffer.h"
#include "model/maker.h"
#include "format/torch_script.h"

/*
 * Mobile models in a FlatBuffers file. The schema is torch/csrc/jit/serialization/mobile_bytecode.fbs: below are the
 * numbers of the fields in its tables.
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

/* The bytes of a storage, or of a file inside of the model. */
struct ckpt_mobile_place {
	const char *name;
	uint64_t off, len;
};

/* Hangs on the document. */
struct ckpt_mobile {
	struct ckpt_mobile_place *storages, *sources, *extras; /* the document's arena */
	uint32_t storage_count, source_count, extra_count;
	struct ckpt_strmap source_by_name;
	struct ckpt_script_code code;
	uint32_t operators; /* their version */
	char writer[80];
};

/* What a storage is, as far as tensors have said. */
struct ckpt_mobile_storage {
	const struct ckpt_value *value;
	enum ckpt_dtype dtype;
};

/* What reading values needs everywhere. */
struct ckpt_mobile_reader {
	struct ckpt_document *doc;
	struct ckpt_maker *maker;
	struct ckpt_flatbuffer *fb;
	struct ckpt_mobile_storage *storages; /* malloc */
};

/* Always NULL: fb->rc and the error say why. */
const struct ckpt_value *ckpt_mobile_fail(struct ckpt_mobile_reader *reader, int status,
					  uint64_t at, const char *what);

/* V, or NULL with the reason why it is not: no memory, or what went wrong before. */
const struct ckpt_value *ckpt_mobile_made(struct ckpt_mobile_reader *reader,
					  const struct ckpt_value *v);

const struct ckpt_value *ckpt_mobile_float(struct ckpt_mobile_reader *reader, uint64_t bits);

const struct ckpt_value *ckpt_mobile_read_tensor(struct ckpt_mobile_reader *reader,
						 const struct ckpt_flatbuffer_table *t);

/* The object of the model, with its constants: ckpt_mobile's storages are known. */
int ckpt_mobile_read_values(struct ckpt_document *doc, struct ckpt_maker *maker,
			    struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *module,
			    const struct ckpt_value **root);

#endif
