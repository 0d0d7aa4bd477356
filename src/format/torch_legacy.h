/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_LEGACY_H
#define CKPT_FORMAT_TORCH_LEGACY_H

#include "format/format.h"
#include "format/pickle_stream.h"

/*
 * The stream that torch.save wrote until 1.5, and writes on request: five pickles (a magic
 * number, a version, facts of the machine, the object, the keys of its storages), then the
 * storages: 8 bytes for the number of elements, the bytes. Source: torch/serialization.py,
 * _legacy_save and _legacy_load; checked with 1.7, 1.13 and 2.14.
 */

/*
 * The number with which each stream begins, 0x1950a86a20f9469cfc6c: as a pickle of protocol 2 and
 * later has it, little-endian, and in the digits of protocols 0 and 1.
 */
enum { CKPT_TORCH_MAGIC_BYTES = 10 };
extern const uint8_t ckpt_torch_magic[CKPT_TORCH_MAGIC_BYTES];
#define CKPT_TORCH_MAGIC_DIGITS "119547037146038801333356"

/* Do these LEN bytes begin with that number as torch writes it, in a pickle of its own? */
bool ckpt_torch_legacy_begins(const uint8_t *head, size_t len);

/* Where the bytes of one storage are. */
struct ckpt_legacy_place {
	uint64_t off, nbytes;
};

/* What reading found out about the container; the document owns it. */
struct ckpt_torch_legacy {
	struct ckpt_pickle_extent pickles[5];
	struct ckpt_legacy_place
		*places;      /* owned: by number of the storage; OFF 0: not in the file */
	uint64_t end;	      /* of the last storage; what follows is something else */
	uint32_t missing;     /* storages without bytes */
	bool says_big_endian; /* in the facts; torch ignores it: the bytes are little-endian */
};

/* Write any model as a stream. */
int ckpt_torch_legacy_save(const struct ckpt_model *model, const char *path,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err);
int ckpt_torch_legacy_save_in_place(const struct ckpt_model *model,
				    const struct ckpt_save_options *options,
				    struct ckpt_save_report *report, struct ckpt_error *err);

/* That of MODEL's file. */
const struct ckpt_torch_legacy *ckpt_torch_legacy_of(const struct ckpt_model *model);

#endif
