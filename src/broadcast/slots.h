/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_SLOTS_H
#define CKPT_BROADCAST_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The chunks that are in memory: a few slots, each of which holds a chunk from the time when it is
 * read, or asked for, until it is written. The first free slot is used, so that slots that were
 * used recently are used again: memory that stays in the processor's cache is carried 1.4 times as
 * fast over MPI within a host. The caller does the locking.
 */
enum ckpt_slot_state {
	CKPT_SLOT_FREE,
	CKPT_SLOT_READING, /* by a thread of this rank */
	CKPT_SLOT_READY,   /* read, to be carried */
	CKPT_SLOT_FLYING,  /* the transport has it */
	CKPT_SLOT_ARRIVED, /* to be written */
	CKPT_SLOT_WRITING,
};

struct ckpt_slot {
	enum ckpt_slot_state state;
	uint64_t chunk; /* unless it is free */
	uint8_t *memory;
};

struct ckpt_slots {
	struct ckpt_slot *all;
	unsigned count;	  /* of all */
	unsigned own;	  /* the last ones, for chunks that this rank reads; 0: all are for all */
	uint64_t carried; /* chunks below it were given to the transport, in order */
	unsigned ahead; /* at most this many may be read, or being read, before they are carried */
	unsigned least_ahead, most_ahead;
	unsigned in_time; /* how many chunks in a row were read in time */
};

/*
 * COUNT of them, all free and without memory, and OWN more, if several ranks read: then what this
 * rank reads ahead does not depend on how far the others are. EAGER: as far ahead as there is
 * room, from the start (on the way to a GPU no cache is to be saved). False: out of memory.
 */
bool ckpt_slots_init(struct ckpt_slots *s, unsigned count, unsigned own, bool eager);

/*
 * A free slot that may hold CHUNK now; NULL if there is none. IS_MINE: this rank reads it. Where all
 * slots are for all, there is none, either, until the chunk COUNT places before it is done: so
 * chunks before CHUNK that have no slot yet find one. Where they are not, each kind is asked for in
 * order.
 */
struct ckpt_slot *ckpt_slots_free_for(const struct ckpt_slots *s, uint64_t chunk, bool is_mine);

/* The slot in STATE with the lowest chunk; NULL: none. */
struct ckpt_slot *ckpt_slots_first(const struct ckpt_slots *s, enum ckpt_slot_state state);

unsigned ckpt_slots_count(const struct ckpt_slots *s, enum ckpt_slot_state state);

/* May one more chunk be read before what was read is carried? */
bool ckpt_slots_may_read(const struct ckpt_slots *s);

/* Carrying had to wait for reading: from now on, read further ahead. */
void ckpt_slots_read_further(struct ckpt_slots *s);

/*
 * CHUNK, the next one, is given to the transport; IS_READ: this rank has read it. After many chunks
 * that were read in time, less is read ahead again, so that one delay of the source does not cost
 * the advantage of the cache for good.
 */
void ckpt_slots_carry(struct ckpt_slots *s, uint64_t chunk, bool is_read);

#endif
