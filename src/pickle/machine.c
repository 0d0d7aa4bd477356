/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack, the marks and the memo of the decoder.
 *
 * What must stay true: memory is bounded by the length of the pickle, so an index into the memo
 * that is higher goes to a map instead of the array. Entries of the array may be tagged pointers
 * to a FOLDED (ckpt_is_inside_folded()): only ckpt_machine_memo_get() and fold.c read them. All
 * empty OrderedDict()s share one call, so whoever changes a call takes it from
 * ckpt_machine_own_call(). The scan adds the capacities to what the arena uses, and stops at its
 * own limit: another rule of growth would move that.
 */
#include "pickle/fold.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void ckpt_machine_clear(struct ckpt_machine *m)
{
	free(m->stack);
	free(m->marks);
	free(m->memo);
	ckpt_strmap_clear(&m->sparse_memo);
	ckpt_strmap_clear(&m->globals);
}

int ckpt_machine_nomem(struct ckpt_machine *m)
{
	return ckpt_arena_fail(m->arena, m->err);
}

const char *ckpt_machine_op_name(const struct ckpt_machine *m)
{
	return ckpt_opcode_table[m->op.code].name;
}

int ckpt_machine_too_few(struct ckpt_machine *m, size_t count)
{
	return ckpt_fail(m->err, CKPT_E_FORMAT, "%s needs %zu value%s, the stack has %zu",
			 ckpt_machine_op_name(m), count, count == 1 ? "" : "s",
			 m->depth - ckpt_machine_floor(m));
}

int ckpt_machine_grow(struct ckpt_machine *m)
{
	size_t cap = m->stack_cap ? m->stack_cap * 2 : 64;
	void *grown = realloc(m->stack, cap * sizeof(*m->stack));

	if (!grown)
		return ckpt_fail_nomem(m->err);
	m->stack = grown;
	m->stack_cap = cap;
	return 0;
}

struct ckpt_call *ckpt_machine_own_call(struct ckpt_machine *m, struct ckpt_value *v)
{
	struct ckpt_call *own = v->u.call;

	if (own != m->empty_ordered)
		return own;
	own = ckpt_arena_alloc(m->arena, sizeof(*own));
	if (own) {
		*own = *m->empty_ordered;
		v->u.call = own;
	}
	return own;
}

int ckpt_machine_push_mark(struct ckpt_machine *m)
{
	if (m->mark_count == m->mark_cap) {
		size_t cap = m->mark_cap ? m->mark_cap * 2 : 64;
		void *grown = realloc(m->marks, cap * sizeof(*m->marks));

		if (!grown)
			return ckpt_fail_nomem(m->err);
		m->marks = grown;
		m->mark_cap = cap;
	}
	m->marks[m->mark_count++] = m->depth;
	return 0;
}

int ckpt_machine_pop_to_mark(struct ckpt_machine *m, const struct ckpt_value ***items,
			     uint32_t *count)
{
	size_t n;

	*items = NULL;
	*count = 0;
	if (!m->mark_count)
		return ckpt_fail(m->err, CKPT_E_FORMAT, "%s needs a MARK, there is none",
				 ckpt_machine_op_name(m));
	n = m->depth - ckpt_machine_floor(m);
	if (n > UINT32_MAX)
		return ckpt_fail(m->err, CKPT_E_LIMIT, "more than 4294967295 values above a MARK");
	m->depth = m->marks[--m->mark_count];
	*items = n ? m->stack + m->depth : NULL;
	*count = (uint32_t)n;
	return 0;
}

static int sparse_put(struct ckpt_machine *m, uint64_t index, const struct ckpt_value *v)
{
	char *key = ckpt_arena_copy(m->arena, &index, sizeof(index));
	uint64_t *slot;
	bool there;

	if (!key)
		return ckpt_machine_nomem(m);
	slot = ckpt_strmap_insert(&m->sparse_memo, key, sizeof(index), 0, &there);
	if (!slot)
		return ckpt_fail_nomem(m->err);
	*slot = (uint64_t)(uintptr_t)v;
	m->memo_count += !there;
	return 0;
}

int ckpt_machine_memo_reserve(struct ckpt_machine *m, uint64_t index)
{
	size_t cap = m->memo_cap ? m->memo_cap : 64;
	void *grown;

	if (index < m->memo_cap)
		return 0;
	while (cap <= index)
		cap *= 2;
	grown = realloc(m->memo, cap * sizeof(*m->memo));
	if (!grown)
		return ckpt_fail_nomem(m->err);
	m->memo = grown;
	memset(m->memo + m->memo_cap, 0, (cap - m->memo_cap) * sizeof(*m->memo));
	m->memo_cap = cap;
	return 0;
}

int ckpt_machine_memo_put(struct ckpt_machine *m, uint64_t index)
{
	int rc = ckpt_machine_need(m, 1);

	if (rc < 0)
		return rc;
	if (index > m->r.len) /* cannot be dense: a PUT takes at least a byte */
		return sparse_put(m, index, m->stack[m->depth - 1]);
	rc = ckpt_machine_memo_reserve(m, index);
	if (rc < 0)
		return rc;
	m->memo_count += !m->memo[index];
	m->memo[index] = m->stack[m->depth - 1];
	return 0;
}

int ckpt_machine_memo_get(struct ckpt_machine *m, uint64_t index)
{
	const struct ckpt_value *v = NULL;

	if (index <= m->r.len) {
		v = index < m->memo_cap ? m->memo[index] : NULL;
		if (v && ckpt_is_inside_folded(v)) {
			int rc = ckpt_machine_unfold_entry(m, index);

			if (rc < 0)
				return rc;
			v = m->memo[index];
		}
	} else {
		uint64_t *slot =
			ckpt_strmap_find(&m->sparse_memo, (const char *)&index, sizeof(index));

		if (slot)
			v = (const struct ckpt_value *)(uintptr_t)*slot;
	}
	if (!v)
		return ckpt_fail(m->err, CKPT_E_FORMAT,
				 "%s of memo entry %" PRIu64 ", which is not set",
				 ckpt_machine_op_name(m), index);
	if (v->id) /* it is the decoder's own */
		((struct ckpt_value *)v)->flags |= CKPT_VALUE_SHARED;
	return ckpt_machine_push(m, v);
}
