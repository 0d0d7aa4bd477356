/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_MOVER_H
#define CKPT_PLAN_MOVER_H

#include "io/sink.h"
#include "plan/checks.h"
#include "plan/moved.h"
#include "tensor/recipe.h"


/*
 * The one engine that moves bytes: it appends pieces to a sink, front to back. It gathers small
 * pieces into large writes, and copies large ones inside the kernel or in blocks. It needs a few
 * MiB of memory whatever the size of the checkpoint.
 */
struct ckpt_mover;

struct ckpt_mover_options {
	uint64_t total; /* for PROGRESS */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
	uint32_t threads;	    /* as in ckpt_save_options */
	const volatile int *cancel; /* not 0: stop with CKPT_E_CANCELLED; may be NULL */
	/*
	 * Collects the recorded checksums that are not carried along; the caller finishes it. NULL:
	 * ckpt_mover_finish() compares them.
	 */
	struct ckpt_checks *checks;
};

int ckpt_mover_open(struct ckpt_sink *sink, const struct ckpt_mover_options *options,
		    struct ckpt_mover **out, struct ckpt_error *err);
void ckpt_mover_close(struct ckpt_mover *mover);

int ckpt_mover_put(struct ckpt_mover *mover, const void *bytes, size_t len, struct ckpt_error *err);

int ckpt_mover_copy(struct ckpt_mover *mover, const struct ckpt_recipe *recipe,
		    struct ckpt_moved *moved, struct ckpt_error *err);

/* Overwrite LEN bytes that were put before they were known. AT: bytes put before them, of all. */
int ckpt_mover_patch(struct ckpt_mover *mover, uint64_t at, const void *bytes, size_t len,
		     struct ckpt_error *err);

/*
 * Wait until all bytes of the sink are on the disk, and look at the cancel flag meanwhile and
 * afterwards: CKPT_E_CANCELLED if it is up. To be called when nothing is put any more.
 */
int ckpt_mover_sync(struct ckpt_mover *mover, struct ckpt_error *err);

/* Write what is gathered. The sink then has everything up to the last piece. */
int ckpt_mover_flush(struct ckpt_mover *mover, struct ckpt_error *err);

/*
 * Flush, and compare the recorded checksums of what was copied, unless the caller does that
 * (CHECKS). CKPT_E_DAMAGED if one differs.
 */
int ckpt_mover_finish(struct ckpt_mover *mover, struct ckpt_error *err);

#endif
