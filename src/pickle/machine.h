/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_MACHINE_H
#define CKPT_PICKLE_MACHINE_H

#include "base/strmap.h"
#include "pickle/decode.h"
#include "pickle/op.h"

/*
 * The decoder's inside: the machine whose program a pickle is. It has a stack of values with marks,
 * and the memo. Functions return 0, or a negative status with the message in m->err.
 */
enum { CKPT_MACHINE_SMALL_INTS = 256 };

struct ckpt_machine {
	struct ckpt_reader r;
	struct ckpt_op op; /* the one being carried out */
	size_t frame_end;  /* of the last FRAME; 0: there was none */
	struct ckpt_pickle *doc;
	struct ckpt_arena *arena;		       /* of DOC */
	const struct ckpt_persistent_load *persistent; /* NULL: ids stay what they are */
	struct ckpt_error *err;

	const struct ckpt_value **stack;
	size_t depth, stack_cap;
	size_t *marks;
	size_t mark_count, mark_cap;

	const struct ckpt_value **memo; /* by index, as long as indices are dense */
	size_t memo_cap, memo_count;
	struct ckpt_strmap sparse_memo; /* the others, by the bytes of the index */
	struct ckpt_strmap globals;	/* "module\0name" to the one node of each */
	const struct ckpt_value *small_ints[CKPT_MACHINE_SMALL_INTS];
	/* of every OrderedDict() that nothing was put into: one for each tensor */
	struct ckpt_call *empty_ordered;
	bool folds; /* see pickle/fold.h */
	struct ckpt_mold *mold; /* of the last tensor that was folded; others behind it */
	unsigned mold_count;
	bool done;
};

/*
 * Carry out m->op, which was read from m->r. After a failure the opcode may have taken values off
 * the stack.
 */
int ckpt_machine_step(struct ckpt_machine *m);

/* Release the stack and the maps; the values stay with DOC. */
void ckpt_machine_clear(struct ckpt_machine *m);

/* The error for an allocation in the arena that failed. */
int ckpt_machine_nomem(struct ckpt_machine *m);

/* The name of the opcode being carried out, for messages. */
const char *ckpt_machine_op_name(const struct ckpt_machine *m);

/* Slow paths of the inline functions. */
int ckpt_machine_too_few(struct ckpt_machine *m, size_t count);
int ckpt_machine_grow(struct ckpt_machine *m);

/* The stack above the last mark; what lies below belongs to somebody else. */
static inline size_t ckpt_machine_floor(const struct ckpt_machine *m)
{
	return m->mark_count ? m->marks[m->mark_count - 1] : 0;
}

/* COUNT values must be there. */
static inline int ckpt_machine_need(struct ckpt_machine *m, size_t count)
{
	return m->depth - ckpt_machine_floor(m) >= count ? 0 : ckpt_machine_too_few(m, count);
}

static inline int ckpt_machine_push(struct ckpt_machine *m, const struct ckpt_value *v)
{
	if (m->depth == m->stack_cap && ckpt_machine_grow(m) < 0)
		return CKPT_E_NOMEM;
	m->stack[m->depth++] = v;
	return 0;
}

int ckpt_machine_push_mark(struct ckpt_machine *m);

/* Take everything above the last mark off the stack: ITEMS stay readable until the next push. */
int ckpt_machine_pop_to_mark(struct ckpt_machine *m, const struct ckpt_value ***items,
			     uint32_t *count);

/* A new value of the running opcode, with an identity; NULL: no memory. */
static inline struct ckpt_value *ckpt_machine_new(struct ckpt_machine *m, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(m->arena, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->pos = m->op.pos;
		v->id = m->doc->next_id++;
	}
	return v;
}

/* The call of V, a CALL, to be changed: from now on V's own. NULL: no memory. */
struct ckpt_call *ckpt_machine_own_call(struct ckpt_machine *m, struct ckpt_value *v);

/* Room for INDEX, which is no higher than the pickle is long, in m->memo. */
int ckpt_machine_memo_reserve(struct ckpt_machine *m, uint64_t index);

/* Remember the top of the stack under INDEX; push what is remembered there. */
int ckpt_machine_memo_put(struct ckpt_machine *m, uint64_t index);
int ckpt_machine_memo_get(struct ckpt_machine *m, uint64_t index);

#endif
