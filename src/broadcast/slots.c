/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/slots.h"

#include <stdlib.h>

enum { FIRST_AHEAD = 2 };

bool ckpt_slots_init(struct ckpt_slots *s, unsigned count, unsigned own, bool eager)
{
	unsigned most = own ? own : count;

	*s = (struct ckpt_slots){
		.all = calloc(count + own, sizeof(*s->all)),
		.count = count + own,
		.own = own,
		.most_ahead = most,
		.least_ahead = eager || most < FIRST_AHEAD ? most : FIRST_AHEAD,
	};
	s->ahead = s->least_ahead;
	return s->all != NULL;
}

/* All chunks before it are done. */
static uint64_t oldest(const struct ckpt_slots *s)
{
	uint64_t first = s->carried;

	for (unsigned i = 0; i < s->count; i++)
		if (s->all[i].state != CKPT_SLOT_FREE && s->all[i].chunk < first)
			first = s->all[i].chunk;
	return first;
}

struct ckpt_slot *ckpt_slots_free_for(const struct ckpt_slots *s, uint64_t chunk, bool is_mine)
{
	unsigned first = s->own && is_mine ? s->count - s->own : 0;
	unsigned end = s->own && !is_mine ? s->count - s->own : s->count;

	if (!s->own && chunk - oldest(s) >= s->count)
		return NULL;
	for (unsigned i = first; i < end; i++)
		if (s->all[i].state == CKPT_SLOT_FREE)
			return &s->all[i];
	return NULL;
}

struct ckpt_slot *ckpt_slots_first(const struct ckpt_slots *s, enum ckpt_slot_state state)
{
	struct ckpt_slot *found = NULL;

	for (unsigned i = 0; i < s->count; i++) {
		struct ckpt_slot *slot = &s->all[i];

		if (slot->state == state && (!found || slot->chunk < found->chunk))
			found = slot;
	}
	return found;
}

unsigned ckpt_slots_count(const struct ckpt_slots *s, enum ckpt_slot_state state)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->count; i++)
		n += s->all[i].state == state;
	return n;
}

bool ckpt_slots_may_read(const struct ckpt_slots *s)
{
	return ckpt_slots_count(s, CKPT_SLOT_READING) + ckpt_slots_count(s, CKPT_SLOT_READY) <
	       s->ahead;
}

void ckpt_slots_read_further(struct ckpt_slots *s)
{
	s->in_time = 0;
	if (s->ahead < s->most_ahead)
		s->ahead++;
}

/* Were the source too slow, carrying would have to wait within as many chunks as can be read ahead. */
void ckpt_slots_carry(struct ckpt_slots *s, uint64_t chunk, bool is_read)
{
	s->carried = chunk + 1;
	if (is_read && s->ahead > s->least_ahead && ++s->in_time >= 2 * s->most_ahead) {
		s->in_time = 0;
		s->ahead--;
	}
}
