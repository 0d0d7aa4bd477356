/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_STEPS_H
#define CKPT_BROADCAST_STEPS_H

#include "broadcast/session.h"

/*
 * The steps of a broadcast, in the order in which broadcast.c takes them. Each ends with a vote,
 * and returns the session's code: 0, or why all of them stop.
 */

/* Everybody wishes for the same, and knows from rank 0 what there is. */
int ckpt_step_offer(struct ckpt_session *s);

/*
 * Is it there on all nodes? Then it is REUSED, and nothing is left to do. Where it is there nothing
 * is written.
 */
int ckpt_step_place(struct ckpt_session *s);

/* The bytes. */
int ckpt_step_carry(struct ckpt_session *s);

/* They are on the disk, and the same everywhere. */
int ckpt_step_finish(struct ckpt_session *s);

/* Files have their names. */
int ckpt_step_names(struct ckpt_session *s);

/* It has come to nothing: take away the folders that were made. All ranks at once. */
void ckpt_step_remove_folders(struct ckpt_session *s);

#endif
