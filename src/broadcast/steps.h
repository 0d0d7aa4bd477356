/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_STEPS_H
#define CKPT_BROADCAST_STEPS_H

#include "broadcast/session.h"

/*
 * The steps of a broadcast, in the order in which broadcast.c takes them. Each ends with a vote and
 * returns the session's code: 0, or why all ranks stop.
 */

/* Check that all ranks want the same, and send them rank 0's list of files. */
int ckpt_step_offer(struct ckpt_session *s);

/*
 * Look at the destination. If all nodes have a copy already, the session is REUSED, and nothing is
 * left to do. A node that has one writes nothing.
 */
int ckpt_step_place(struct ckpt_session *s);

/*
 * Bytes between two votes on the way, and four times as many where nothing is written and only reading can fail. What the ranks have
 * is drained for a vote. For tests.
 */
extern uint64_t ckpt_step_vote_every;

/* Carry the bytes. */
int ckpt_step_carry(struct ckpt_session *s);

/* Check that the bytes are on the disk, and the same everywhere. */
int ckpt_step_finish(struct ckpt_session *s);

/* Give the files their names. */
int ckpt_step_names(struct ckpt_session *s);

/* After a failure: remove the folders that were made. All ranks call it. */
void ckpt_step_remove_folders(struct ckpt_session *s);

#endif
