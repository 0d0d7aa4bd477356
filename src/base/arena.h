/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_ARENA_H
#define CKPT_BASE_ARENA_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Memory that is freed all at once. The budget is the limit against hostile files: an allocation
 * that would exceed it returns NULL.
 */
struct ckpt_arena;

struct ckpt_arena *ckpt_arena_new(uint64_t budget);
void ckpt_arena_free(struct ckpt_arena *arena);

/* 8-byte aligned, not cleared. NULL if the budget or the system's memory is used up. */
void *ckpt_arena_alloc(struct ckpt_arena *arena, uint64_t nbytes);
void *ckpt_arena_calloc(struct ckpt_arena *arena, uint64_t count, uint64_t size);

/* A copy of LEN bytes, with a NUL after them. */
char *ckpt_arena_copy(struct ckpt_arena *arena, const void *bytes, uint64_t len);

/* Fill ERR with the reason of the last NULL. Returns CKPT_E_LIMIT or CKPT_E_NOMEM. */
int ckpt_arena_fail(const struct ckpt_arena *arena, struct ckpt_error *err);

/* Bytes handed out so far. */
uint64_t ckpt_arena_used(const struct ckpt_arena *arena);

/* Free everything that was allocated since the mark was taken. Marks nest. */
struct ckpt_arena_mark {
	void *chunk;
	size_t used;
	uint64_t total;
};
struct ckpt_arena_mark ckpt_arena_mark(const struct ckpt_arena *arena);
void ckpt_arena_release(struct ckpt_arena *arena, struct ckpt_arena_mark mark);

#endif
