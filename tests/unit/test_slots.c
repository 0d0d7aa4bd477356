/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/slots.h"

#include <stdlib.h>

enum { CHUNKS = 60 };

/* One rank of some, RANK, which reads the chunks that are a multiple of READERS more than it. */
struct rank {
	struct ckpt_slots slots;
	uint64_t rank, readers, next_read, landed, written;
};

static bool is_mine(const struct rank *r, uint64_t chunk)
{
	return chunk % r->readers == r->rank;
}

static uint64_t next_mine(const struct rank *r, uint64_t chunk)
{
	while (chunk < CHUNKS && !is_mine(r, chunk))
		chunk++;
	return chunk;
}

static bool begins_to_read(struct rank *r)
{
	struct ckpt_slot *s = r->next_read < CHUNKS && ckpt_slots_may_read(&r->slots)
				      ? ckpt_slots_free_for(&r->slots, r->next_read, true)
				      : NULL;

	if (!s)
		return false;
	*s = (struct ckpt_slot){ CKPT_SLOT_READING, r->next_read, NULL };
	r->next_read = next_mine(r, r->next_read + 1);
	return true;
}

static bool moves(struct rank *r, enum ckpt_slot_state from, enum ckpt_slot_state to)
{
	struct ckpt_slot *s = ckpt_slots_first(&r->slots, from);

	if (s)
		s->state = to;
	return s != NULL;
}

static bool begins(struct rank *r)
{
	uint64_t chunk = r->slots.carried;
	struct ckpt_slot *s;

	if (chunk >= CHUNKS)
		return false;
	if (is_mine(r, chunk)) {
		s = ckpt_slots_first(&r->slots, CKPT_SLOT_READY);
		if (!s || s->chunk != chunk)
			return false;
	} else {
		s = ckpt_slots_free_for(&r->slots, chunk, false);
		if (!s)
			return false;
	}
	*s = (struct ckpt_slot){ CKPT_SLOT_FLYING, chunk, NULL };
	ckpt_slots_carry(&r->slots, chunk, is_mine(r, chunk));
	return true;
}

/* What comes, comes in order. */
static bool lands(struct rank *r)
{
	struct ckpt_slot *s = ckpt_slots_first(&r->slots, CKPT_SLOT_FLYING);

	if (!s)
		return false;
	assert_int_equal(s->chunk, r->landed);
	r->landed++;
	s->state = CKPT_SLOT_ARRIVED;
	return true;
}

static bool is_written(struct rank *r)
{
	bool any = moves(r, CKPT_SLOT_WRITING, CKPT_SLOT_FREE);

	r->written += any;
	return any;
}

static bool step(struct rank *r, unsigned which)
{
	switch (which % 6) {
	case 0: return begins_to_read(r);
	case 1: return moves(r, CKPT_SLOT_READING, CKPT_SLOT_READY);
	case 2: return begins(r);
	case 3: return lands(r);
	case 4: return moves(r, CKPT_SLOT_ARRIVED, CKPT_SLOT_WRITING);
	default: return is_written(r);
	}
}

static void assert_no_chunk_twice(const struct ckpt_slots *s)
{
	for (unsigned i = 0; i < s->count; i++)
		for (unsigned j = 0; j < i; j++)
			if (s->all[i].state && s->all[j].state)
				assert_int_not_equal(s->all[i].chunk, s->all[j].chunk);
}

/* In whatever order the steps come, there is always one to take, and every chunk goes through. */
static void no_order_of_steps_gets_stuck(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 3000; seed++) {
		struct rank r = { .readers = seed % 4 + 1, .rank = seed / 4 % 5 };
		unsigned idle = 0;

		srand(seed);
		assert_true(ckpt_slots_init(&r.slots, seed % 7 + 1, seed % 3 == 0 ? seed / 3 % 5 : 0, seed % 2));
		r.next_read = next_mine(&r, 0);
		while (r.written < CHUNKS) {
			if (rand() % 20 == 0)
				ckpt_slots_read_further(&r.slots);
			idle = step(&r, (unsigned)rand()) ? 0 : idle + 1;
			assert_true(idle < 500);
			assert_no_chunk_twice(&r.slots);
		}
		assert_int_equal(r.landed, CHUNKS);
		free(r.slots.all);
	}
}

static void slots_that_were_used_last_are_used_again(void **state)
{
	struct ckpt_slots s;

	(void)state;
	assert_true(ckpt_slots_init(&s, 16, 0, false));
	for (uint64_t chunk = 0; chunk < 100; chunk++) {
		struct ckpt_slot *slot = ckpt_slots_free_for(&s, chunk, true);

		assert_ptr_equal(slot, &s.all[0]);
		ckpt_slots_carry(&s, chunk, true);
	}
	free(s.all);
}

static void only_a_little_is_read_ahead_until_that_is_too_little(void **state)
{
	struct ckpt_slots s;
	unsigned most = 0;

	(void)state;
	assert_true(ckpt_slots_init(&s, 8, 0, false));
	for (unsigned i = 0; i < 20; i++) {
		while (ckpt_slots_may_read(&s)) {
			struct ckpt_slot *slot = ckpt_slots_free_for(&s, most, true);

			assert_non_null(slot);
			*slot = (struct ckpt_slot){ most % 2 ? CKPT_SLOT_READING : CKPT_SLOT_READY,
						    most, NULL };
			most++;
		}
		assert_int_equal(most, i + 2 < 8 ? i + 2 : 8);
		ckpt_slots_read_further(&s);
	}
	free(s.all);
}

/* How many a rank that reads all may read before any of them is carried. */
static unsigned room_ahead(struct ckpt_slots *s, uint64_t chunk)
{
	unsigned n = 0;

	while (ckpt_slots_may_read(s)) {
		struct ckpt_slot *slot = ckpt_slots_free_for(s, chunk + n, true);

		*slot = (struct ckpt_slot){ CKPT_SLOT_READY, chunk + n, NULL };
		n++;
	}
	for (unsigned i = 0; i < s->count; i++)
		s->all[i].state = CKPT_SLOT_FREE;
	return n;
}

/* A hiccup of the source is forgotten, a source that is slow is not. */
static void less_is_read_ahead_when_chunks_are_read_in_time(void **state)
{
	enum { COUNT = 8 };
	struct ckpt_slots s;

	(void)state;
	assert_true(ckpt_slots_init(&s, COUNT, 0, false));
	for (unsigned i = 0; i < COUNT; i++)
		ckpt_slots_read_further(&s);
	for (uint64_t chunk = 0; chunk < 500; chunk++) {
		ckpt_slots_carry(&s, chunk, true);
		if (chunk % COUNT == 0)
			ckpt_slots_read_further(&s);
		assert_int_equal(room_ahead(&s, chunk + 1), COUNT);
	}
	for (uint64_t chunk = 500; chunk < 1000; chunk++)
		ckpt_slots_carry(&s, chunk, false);
	assert_int_equal(room_ahead(&s, 1000), COUNT);
	for (uint64_t chunk = 1000; chunk < 1500; chunk++)
		ckpt_slots_carry(&s, chunk, true);
	assert_int_equal(room_ahead(&s, 1500), 2);
	free(s.all);
}

/* One of several readers: its own chunks find room, however many of the others' have come and are not written. */
static void several_readers_read_ahead_by_themselves(void **state)
{
	enum { COUNT = 4, OWN = 3, READERS = 8 };
	struct ckpt_slots s;

	(void)state;
	assert_true(ckpt_slots_init(&s, COUNT, OWN, true));
	assert_int_equal(s.count, COUNT + OWN);
	for (uint64_t chunk = 0; chunk < COUNT; chunk++) {
		struct ckpt_slot *slot = ckpt_slots_free_for(&s, chunk, false);

		*slot = (struct ckpt_slot){ CKPT_SLOT_ARRIVED, chunk, NULL };
		ckpt_slots_carry(&s, chunk, false);
	}
	assert_null(ckpt_slots_free_for(&s, COUNT, false));
	for (uint64_t i = 0; i < OWN; i++) {
		uint64_t chunk = READERS - 1 + i * READERS;
		struct ckpt_slot *slot;

		assert_true(ckpt_slots_may_read(&s));
		slot = ckpt_slots_free_for(&s, chunk, true);
		assert_non_null(slot);
		*slot = (struct ckpt_slot){ CKPT_SLOT_READING, chunk, NULL };
	}
	assert_false(ckpt_slots_may_read(&s));
	assert_null(ckpt_slots_free_for(&s, READERS * COUNT, true));
	s.all[0].state = CKPT_SLOT_FREE;
	assert_null(ckpt_slots_free_for(&s, READERS * COUNT, true));
	assert_ptr_equal(ckpt_slots_free_for(&s, COUNT, false), &s.all[0]);
	free(s.all);
}

UNIT_SUITE(test_slots)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_order_of_steps_gets_stuck),
		cmocka_unit_test(slots_that_were_used_last_are_used_again),
		cmocka_unit_test(only_a_little_is_read_ahead_until_that_is_too_little),
		cmocka_unit_test(less_is_read_ahead_when_chunks_are_read_in_time),
		cmocka_unit_test(several_readers_read_ahead_by_themselves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
