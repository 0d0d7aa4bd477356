/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_CHECKS_H
#define CKPT_PLAN_CHECKS_H

#include "tensor/recipe.h"


/*
 * Compares the recorded checksums of records whose bytes are written under other checksums, or
 * none. Otherwise damaged bytes would get a checksum that hides the damage. Where the mover
 * reads a record front to back, whole or in parts, it computes checksums on the way; any other
 * record is read once more at the end. For one thread.
 *
 * A record whose recorded checksum is written with its bytes needs no check: verify finds the
 * damage in the output.
 */
struct ckpt_checks;

int ckpt_checks_new(struct ckpt_checks **out, struct ckpt_error *err);
void ckpt_checks_free(struct ckpt_checks *checks);

/*
 * All bytes of RECIPE were read; CRC32 is their checksum. RECIPE is an EXTENT, or has a recorded
 * checksum. CKPT_E_DAMAGED if it is a whole record and damaged.
 */
int ckpt_checks_add(struct ckpt_checks *checks, const struct ckpt_recipe *recipe, uint32_t crc32,
		    struct ckpt_error *err);

/*
 * Some bytes of RECIPE, or of the recipes it is made of, were read, and no checksum was
 * computed. STREAM recipes among these have to live until ckpt_checks_finish().
 */
int ckpt_checks_want(struct ckpt_checks *checks, const struct ckpt_recipe *recipe,
		     struct ckpt_error *err);

/*
 * Compare all that was not compared yet. CANCEL, THREADS: see ckpt_mover_options.
 * CKPT_E_DAMAGED if one differs.
 */
int ckpt_checks_finish(struct ckpt_checks *checks, const volatile int *cancel, uint32_t threads,
		       struct ckpt_error *err);

#endif
