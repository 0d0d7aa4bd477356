/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack of chunks, each twice as large as the one before it, up to LARGEST_CHUNK. Memory comes
 * from the top one; a piece larger than that gets a chunk of its own.
 *
 * What must stay true: pieces never move; the budget counts the bytes that are handed out and
 * not the chunks, so that the same file meets the limit at the same place everywhere;
 * ckpt_arena_release() frees whole chunks, so nothing that was made before a mark may be in a
 * chunk above it.
 */
#include "base/arena.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * AddressSanitizer allows access only to what was handed out, with a gap after each piece, so
 * that it finds reads past the end of an array in an arena as it does on the heap.
 */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
enum { GAP = 8 };
#else
#define ASAN_POISON_MEMORY_REGION(p, nbytes) ((void)(p), (void)(nbytes))
#define ASAN_UNPOISON_MEMORY_REGION(p, nbytes) ((void)(p), (void)(nbytes))
enum { GAP = 0 };
#endif

/*
 * Chunks of HUGE bytes and more use huge pages, where the system has them: far fewer page
 * faults.
 */
enum { FIRST_CHUNK = 128, HUGE = 2 << 20, LARGEST_CHUNK = 8 << 20 };

struct chunk {
	struct chunk *below;
	size_t size, used;
	max_align_t bytes[];
};

struct ckpt_arena {
	struct chunk *top;
	uint64_t budget, total;
	bool over_budget;
};

struct ckpt_arena *ckpt_arena_new(uint64_t budget)
{
	struct ckpt_arena *arena = calloc(1, sizeof(*arena));

	if (arena)
		arena->budget = budget;
	return arena;
}

static void pop_chunk(struct ckpt_arena *arena)
{
	struct chunk *top = arena->top;

	arena->top = top->below;
	ASAN_UNPOISON_MEMORY_REGION(top->bytes, top->size);
	free(top);
}

void ckpt_arena_free(struct ckpt_arena *arena)
{
	if (!arena)
		return;
	while (arena->top)
		pop_chunk(arena);
	free(arena);
}

/* *SIZE: bytes after the header; the chunk may get more. */
static struct chunk *new_chunk(size_t *size)
{
	size_t whole = sizeof(struct chunk) + *size;
	struct chunk *chunk;

	if (GAP) /* gcc 14 warns that poisoning reads what malloc() did not set */
		return calloc(1, whole);
	if (whole < HUGE || whole > SIZE_MAX - HUGE)
		return malloc(whole);
	whole = (whole + HUGE - 1) / HUGE * HUGE;
	chunk = aligned_alloc(HUGE, whole);
	if (chunk) {
		madvise(chunk, whole, MADV_HUGEPAGE);
		*size = whole - sizeof(struct chunk);
	}
	return chunk;
}

static bool add_chunk(struct ckpt_arena *arena, size_t at_least)
{
	size_t size = arena->top ? arena->top->size * 2 : FIRST_CHUNK;
	struct chunk *chunk;

	if (size > LARGEST_CHUNK - sizeof(*chunk))
		size = LARGEST_CHUNK - sizeof(*chunk);
	if (size < at_least)
		size = at_least;
	chunk = new_chunk(&size);
	if (!chunk)
		return false;
	chunk->below = arena->top;
	chunk->size = size;
	chunk->used = 0;
	ASAN_POISON_MEMORY_REGION(chunk->bytes, size);
	arena->top = chunk;
	return true;
}

void *ckpt_arena_alloc(struct ckpt_arena *arena, uint64_t nbytes)
{
	uint64_t size;
	void *p;

	if (__builtin_add_overflow(nbytes, 7, &size))
		size = UINT64_MAX;
	size &= ~(uint64_t)7;
	if (size > arena->budget - arena->total) {
		arena->over_budget = true;
		return NULL;
	}
	if (!arena->top || size + GAP > arena->top->size - arena->top->used)
		if (!add_chunk(arena, size + GAP))
			return NULL;
	p = (char *)arena->top->bytes + arena->top->used;
	ASAN_UNPOISON_MEMORY_REGION(p, nbytes);
	arena->top->used += size + GAP;
	arena->total += size;
	return p;
}

void *ckpt_arena_calloc(struct ckpt_arena *arena, uint64_t count, uint64_t size)
{
	uint64_t nbytes;
	void *p;

	if (__builtin_mul_overflow(count, size, &nbytes))
		nbytes = UINT64_MAX;
	p = ckpt_arena_alloc(arena, nbytes);
	if (p)
		memset(p, 0, nbytes);
	return p;
}

char *ckpt_arena_copy(struct ckpt_arena *arena, const void *bytes, uint64_t len)
{
	char *p = len < UINT64_MAX ? ckpt_arena_alloc(arena, len + 1) : NULL;

	if (p) {
		if (len)
			memcpy(p, bytes, len);
		p[len] = '\0';
	}
	return p;
}

int ckpt_arena_fail(const struct ckpt_arena *arena, struct ckpt_error *err)
{
	if (arena && arena->over_budget)
		return ckpt_fail(err, CKPT_E_LIMIT,
				 "needs more than %" PRIu64 " MiB of memory, which is the limit",
				 arena->budget >> 20);
	return ckpt_fail_nomem(err);
}

uint64_t ckpt_arena_used(const struct ckpt_arena *arena)
{
	return arena->total;
}

struct ckpt_arena_mark ckpt_arena_mark(const struct ckpt_arena *arena)
{
	struct ckpt_arena_mark mark = { arena->top, arena->top ? arena->top->used : 0,
					arena->total };

	return mark;
}

void ckpt_arena_release(struct ckpt_arena *arena, struct ckpt_arena_mark mark)
{
	while (arena->top != mark.chunk)
		pop_chunk(arena);
	if (arena->top) {
		arena->top->used = mark.used;
		ASAN_POISON_MEMORY_REGION((char *)arena->top->bytes + mark.used,
					  arena->top->size - mark.used);
	}
	arena->total = mark.total;
}
