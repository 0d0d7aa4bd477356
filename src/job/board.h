/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_BOARD_H
#define CKPT_JOB_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where the ranks of one node that share /dev/shm say that they are about to give up, and why: a
 * file of 256 bytes a rank that all of them map. Looking at it costs no system call. Ranks of other
 * nodes, and of containers with a /dev/shm of their own, have another board.
 */
struct ckpt_board;

/*
 * ID: LEN bytes that only the ranks of this start have. NULL if there can be none: then nobody is
 * told, which all functions take.
 */
struct ckpt_board *ckpt_board_open(const void *id, size_t len, uint32_t rank, uint32_t size);

/* All ranks of this node are on the board: its file goes, and no kill leaves it behind. */
void ckpt_board_remove_file(struct ckpt_board *board);

/* The first TEXT of a rank stays. */
void ckpt_board_announce(struct ckpt_board *board, const char *text);

/* Has another rank announced something? *RANK and TEXT are its, which may be cut. */
bool ckpt_board_find(const struct ckpt_board *board, uint32_t *rank, char *text, size_t size);

/* Until all ranks that came have announced something or left, for NSEC at most. */
void ckpt_board_wait(const struct ckpt_board *board, uint64_t nsec);

void ckpt_board_close(struct ckpt_board *board);

#endif
