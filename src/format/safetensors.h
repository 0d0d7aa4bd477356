/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_SAFETENSORS_H
#define CKPT_FORMAT_SAFETENSORS_H

#include "format/format.h"
#include "format/safetensors_header.h"
#include "model/maker.h"

/* What reading found out about a file; the document owns it. */
struct ckpt_safetensors {
	struct ckpt_safetensors_header header; /* owned; its strings live as long as the document */
	uint32_t alias_count;
};

/* That of MODEL's file; NULL: it has another format. */
const struct ckpt_safetensors *ckpt_safetensors_of(const struct ckpt_model *model);

/* ---- parts of reading, for sets of such files ---- */

/* The most memory that the values of a header of JSON_LEN bytes may take. */
uint64_t ckpt_safetensors_budget(uint64_t json_len);

/*
 * Make the tensor of T over a storage called KEY, or, if torch cannot hold it, a value that
 * stands for it. *STORAGE: the persistent id of the storage, or NULL. Returns NULL if there is
 * no memory.
 */
const struct ckpt_value *ckpt_safetensors_value(struct ckpt_maker *maker,
						const struct ckpt_safetensors_tensor *t,
						const char *key, const struct ckpt_value **storage);

/* Make the tensor of T over STORAGE. */
const struct ckpt_value *ckpt_safetensors_view(struct ckpt_maker *maker,
					       const struct ckpt_safetensors_tensor *t,
					       const struct ckpt_value *storage);

/*
 * save_model() of the package writes one of several tensors that share their memory, and for the
 * others a PAIR of the metadata: their name, the name of that tensor. Returns the index of that
 * tensor, or -1 if PAIR is something else. NAMES: the index of every tensor by name.
 */
int64_t ckpt_safetensors_alias(const struct ckpt_safetensors_pair *pair,
			       const struct ckpt_strmap *names);

#endif
