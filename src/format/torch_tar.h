/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_TAR_H
#define CKPT_FORMAT_TORCH_TAR_H

#include "format/format.h"
#include "format/tar.h"
#include "pickle/compose.h"

/*
 * What torch.save wrote before 0.1.10 (February 2017): a tar archive with the members `sys_info`
 * (facts of the machine), `pickle` (the object, in which every tensor and storage is a
 * persistent id with its key in decimal), `tensors` and `storages` (what the keys stand for).
 * Source: torch/serialization.py, legacy_load() in _legacy_load(), which reads them to this day;
 * checked with 1.7, 1.13 and 2.6.
 */
enum ckpt_torch_tar_member {
	CKPT_TAR_SYS_INFO,
	CKPT_TAR_PICKLE,
	CKPT_TAR_TENSORS,
	CKPT_TAR_STORAGES,
	CKPT_TAR_MEMBER_COUNT,
};

/* Where the bytes of one storage are. */
struct ckpt_torch_tar_place {
	uint64_t off, nbytes;
};

/* One thing that a persistent id may name. */
struct ckpt_torch_tar_entry {
	const struct ckpt_value
		*value; /* of a storage its id, of a tensor the call that makes it */
	/* of a storage: */
	const char *type; /* "FloatStorage"; NULL: it is a tensor */
	const char *key;  /* decimal */
	const struct ckpt_value *location;
	uint64_t numel;
	struct ckpt_torch_tar_place place;
};

/* What reading found out about the container; the document owns it. */
struct ckpt_torch_tar {
	struct ckpt_tar_member members[CKPT_TAR_MEMBER_COUNT];
	bool has[CKPT_TAR_MEMBER_COUNT];
	uint32_t foreign;		      /* members of other names */
	struct ckpt_arena *arena;	      /* owned: what hangs on the entries */
	struct ckpt_torch_tar_entry *entries; /* owned: in the order of the file, storages first */
	uint32_t count, cap;
	struct ckpt_strmap by_key;	     /* the 8 bytes of the number to that of the entry */
	struct ckpt_seq storages;	     /* arena: the ids of storages, in this order */
	bool has_number_of_nothing; /* a tensor without dimensions, which is one number, of a storage that has none */
	struct ckpt_torch_tar_place *places; /* owned: of each of these */
	uint32_t place_cap;
	/* Called for every pickle in the tables, with its offset in the file. May be NULL. */
	int (*visit)(void *ctx, uint64_t off, const uint8_t *bytes, size_t len,
		     struct ckpt_error *err);
	void *ctx;
	bool says_big_endian; /* in the facts; torch ignores it */
};

const char *ckpt_torch_tar_name(enum ckpt_torch_tar_member member);

/*
 * Find the members. 0, or what is wrong with them; also on failure OUT has those that were found
 * (ckpt_torch_tar_is_one).
 */
int ckpt_torch_tar_find(struct ckpt_source *source, struct ckpt_torch_tar *out,
			struct ckpt_error *err);
bool ckpt_torch_tar_is_one(const struct ckpt_torch_tar *tt);
void ckpt_torch_tar_clear(struct ckpt_torch_tar *tt);

/*
 * Check that every tensor of the table lies in its storage, also one that the object does not
 * use: torch makes all of them, and enlarges the storage for one that does not. And that torch can
 * count their numbers. 0, or CKPT_E_FORMAT.
 */
int ckpt_torch_tar_check_tensors(const struct ckpt_model *model, struct ckpt_error *err);

/* Read both tables of a file in which all members were found. Values get ids from *NEXT_ID on. */
int ckpt_torch_tar_read_tables(struct ckpt_torch_tar *tt, struct ckpt_source *source,
			       uint32_t *next_id, struct ckpt_error *err);

/*
 * Read the pickle at *AT, which ends before END, and move *AT past it. The caller owns OUT and
 * *BYTES, which the strings of OUT point into; *BYTES is to be freed also on failure.
 */
int ckpt_torch_tar_pickle(struct ckpt_source *source, uint64_t *at, uint64_t end,
			  struct ckpt_pickle *out, uint8_t **bytes, struct ckpt_error *err);

/* Call VISIT for every pickle of member NAME, in order. A negative result stops and is returned. */
int ckpt_torch_tar_each_pickle(struct ckpt_source *source, const char *name,
			       int (*visit)(void *ctx, const uint8_t *bytes, size_t len,
					    struct ckpt_error *err),
			       void *ctx, struct ckpt_error *err);

#endif
