/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_SAFETENSORS_H
#define CKPT_FORMAT_SAFETENSORS_H

#include "format/format.h"
#include "format/safetensors_header.h"
#include "model/maker.h"

/* What reading found out about a file; hangs on the document. */
struct ckpt_safetensors {
	struct ckpt_safetensors_header header; /* owned; its strings live as long as the document */
	uint32_t alias_count;
};

/* That of MODEL's file; NULL: it is of another format. */
const struct ckpt_safetensors *ckpt_safetensors_of(const struct ckpt_model *model);

/* ---- parts of reading, for sets of such files ---- */

/* What a header of JSON_LEN bytes may take of memory, once it is values. */
uint64_t ckpt_safetensors_budget(uint64_t json_len);

/*
 * The tensor that T tells of, over a storage called KEY, or, of what torch cannot hold, a value that stands for it. *STORAGE
 * becomes the persistent id of the storage, NULL if there is none. Returns NULL if there is no memory.
 */
const struct ckpt_value *ckpt_safetensors_value(struct ckpt_maker *maker,
						const struct ckpt_safetensors_tensor *t,
						const char *key, const struct ckpt_value **storage);

/* The same tensor once more, over a STORAGE that is known. */
const struct ckpt_value *ckpt_safetensors_view(struct ckpt_maker *maker,
					       const struct ckpt_safetensors_tensor *t,
					       const struct ckpt_value *storage);

/*
 * A pair of the metadata that says of a name which tensor it is, as save_model() of the package writes it for tensors that share
 * their memory: the index of that tensor, or -1. NAMES: the index of every tensor by name.
 */
int64_t ckpt_safetensors_alias(const struct ckpt_safetensors_pair *pair,
			       const struct ckpt_strmap *names);

#endif
