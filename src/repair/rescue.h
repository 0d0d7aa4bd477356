/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_REPAIR_RESCUE_H
#define CKPT_REPAIR_RESCUE_H

#include "base/arena.h"
#include "base/strmap.h"
#include "io/workers.h"
#include "model/model.h"
#include "plan/read_blocks.h"

#include <ckpt/repair.h>

/* How much is known of the bytes of a storage; the worse the higher. */
enum ckpt_fate_mark { CKPT_FATE_PROVEN, CKPT_FATE_UNPROVEN, CKPT_FATE_LOST };

struct ckpt_fate {
	enum ckpt_fate_mark mark;
	uint64_t offset;    /* in the file; UINT64_MAX: not there */
	const char *record; /* escaped; NULL: none */
	const char *why;
};

struct ckpt_rescue {
	struct ckpt_repair_options o;
	struct ckpt_repair_report report;
	int (*found)(void *ctx, const struct ckpt_repair_finding *finding);
	void *ctx;
	struct ckpt_source *file; /* borrowed */
	struct ckpt_workers *workers;
	uint64_t total; /* bytes to be read, for the progress */
	struct ckpt_arena *arena;
	struct ckpt_strmap by_key; /* of storages, to FATES */
	struct ckpt_fate *fates;
	uint32_t fate_count, fate_cap;
	enum ckpt_fate_mark pickle; /* without a proof for it there is none for any tensor */
	const char *pickle_why;
	bool compressed; /* some records are */
	bool no_memory;	 /* for a text */
};

/* Report a finding. 0, or the negative status with which the caller's function ends the call. */
int ckpt_rescue_report(struct ckpt_rescue *r, enum ckpt_repair_kind kind, const char *record,
		       uint64_t offset, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* A text in the arena; NULL: no memory, which ckpt_rescue_check_texts() then returns. */
const char *ckpt_rescue_text(struct ckpt_rescue *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* CKPT_E_NOMEM if a text could not be made: call it before texts, or their absence, are used. */
int ckpt_rescue_check_texts(const struct ckpt_rescue *r, struct ckpt_error *err);

int ckpt_rescue_set_fate(struct ckpt_rescue *r, const char *key, size_t len,
			 const struct ckpt_fate *fate, struct ckpt_error *err);

/* Compute the CRC32 of each recipe; READABLE is false for those that cannot be read. */
int ckpt_rescue_checksum(struct ckpt_rescue *r, const struct ckpt_recipe *recipes, uint64_t count,
			 uint32_t *crc32, bool *readable, struct ckpt_error *err);

/* Make a model of all that there is, with zeros for what is lost, and the fates of its storages. */
int ckpt_rescue_zip(struct ckpt_rescue *r, struct ckpt_model **out, struct ckpt_error *err);
int ckpt_rescue_legacy(struct ckpt_rescue *r, struct ckpt_model **out, struct ckpt_error *err);
int ckpt_rescue_safetensors(struct ckpt_rescue *r, struct ckpt_model **out, struct ckpt_error *err);

/* Make *OUT: MODEL without what is lost, or with that filled. Reports all that is not proven. */
int ckpt_rescue_tensors(struct ckpt_rescue *r, const struct ckpt_model *model,
			struct ckpt_model **out, struct ckpt_error *err);

#endif
