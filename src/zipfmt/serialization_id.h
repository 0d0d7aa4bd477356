/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_SERIALIZATION_ID_H
#define CKPT_ZIPFMT_SERIALIZATION_ID_H

#include "base/error.h"

#include <stdbool.h>

/*
 * The text of the record `.data/serialization_id`: 40 digits that torch 2.1+ makes from the names
 * and the CRCs of all other records. Nothing checks it. This is what builds against libstdc++
 * (Linux) write; the iteration order of its unordered_set is part of it.
 */
struct ckpt_serialization_id {
	uint64_t *hashes; /* of the names */
	uint32_t count, cap;
	uint64_t data_hash;
	bool bad;
};

void ckpt_serialization_id_init(struct ckpt_serialization_id *id);
void ckpt_serialization_id_clear(struct ckpt_serialization_id *id);

/*
 * Add the next record in writing order. HEAD: its first 8 bytes, or NULL if it has fewer: torch
 * counts data that look like a data descriptor once more.
 */
void ckpt_serialization_id_add(struct ckpt_serialization_id *id, const char *name, uint64_t size,
			       uint32_t crc32, const uint8_t *head);

/* OUT: 40 digits and a NUL. CKPT_E_NOMEM if memory ran out on the way. */
int ckpt_serialization_id_format(const struct ckpt_serialization_id *id, char out[41],
				 struct ckpt_error *err);

#endif
