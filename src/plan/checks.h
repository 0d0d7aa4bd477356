/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_CHECKS_H
#define CKPT_PLAN_CHECKS_H

#include "tensor/recipe.h"

#include <stdatomic.h>

/*
 * The recorded checksums of what is written under other checksums, or none: each is compared, so that damage does not get a checksum that
 * says nothing of it. Where the mover reads a record front to back, whole or cut in parts, it knows the checksums on the way;
 * what it took apart otherwise is read once more at the end. For one thread.
 *
 * A record whose recorded checksum is written with its bytes needs no check: verify finds the damage in the output.
 */
struct ckpt_checks;

int ckpt_checks_new(struct ckpt_checks **out, struct ckpt_error *err);
void ckpt_checks_free(struct ckpt_checks *checks);

/*
 * All bytes of RECIPE were read, CRC32 is theirs. It is an EXTENT, or has a checksum of its own. CKPT_E_DAMAGED: it is a whole record, and
 * damaged.
 */
int ckpt_checks_add(struct ckpt_checks *checks, const struct ckpt_recipe *recipe, uint32_t crc32,
		    struct ckpt_error *err);

/* Some bytes of RECIPE were read, or of what it takes them from. Recipes of kind STREAM below it have to live until the end. */
int ckpt_checks_want(struct ckpt_checks *checks, const struct ckpt_recipe *recipe,
		     struct ckpt_error *err);

/* Compare what is left. CANCEL: see ckpt_mover_options. CKPT_E_DAMAGED: a record is damaged. */
int ckpt_checks_finish(struct ckpt_checks *checks, const atomic_int *cancel,
		       struct ckpt_error *err);

#endif
