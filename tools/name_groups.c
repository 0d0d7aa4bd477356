/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors by the first parts of their names. Rows that stand beside each other mostly have the same, so
 * groups are made of runs, which are sorted to find those of one name: a file may have as many groups as
 * tensors.
 */
#include "name_groups.h"

#include "command.h"

#include <stdlib.h>
#include <string.h>

struct run {
	const char *name;
	size_t len;
	uint64_t first, end; /* rows */
	size_t group;
};

/* A tensor that has several names, in a group. */
struct shared_name {
	uint64_t tensor; /* that counts */
	size_t group;
};

struct grouping {
	const struct ckpt_model *model;
	const struct ckpt_parts *parts;
	const uint64_t *rows;
	size_t count;
	struct run *runs;
	size_t run_count;
	bool *is_shared; /* by tensor: it counts for another one as well */
	struct shared_name *shared;
	size_t shared_count;
	struct name_groups *out;
};

static uint64_t tensor_of(const struct grouping *g, uint64_t row)
{
	return g->rows ? g->rows[row] : row;
}

static int by_name(const void *a, const void *b)
{
	const struct run *x = a, *y = b;
	int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	if (order || x->len != y->len)
		return order ? order : x->len < y->len ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int by_first_row(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static int by_first_tensor(const void *a, const void *b)
{
	const struct name_group *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static bool is_of(const char *a, size_t a_len, const char *b, size_t b_len)
{
	return a_len == b_len && !memcmp(a, b, a_len);
}

static bool make_runs(struct grouping *g, uint64_t depth)
{
	size_t cap = 0;

	for (size_t i = 0; i < g->count; i++) {
		struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;
		struct run *last = g->run_count ? &g->runs[g->run_count - 1] : NULL, *grown;
		size_t len;

		ckpt_tensor_get(g->model, tensor_of(g, i), &t);
		len = ckpt_name_front(t.name, depth);
		if (last && is_of(last->name, last->len, t.name, len)) {
			last->end++;
			continue;
		}
		if (g->run_count == cap) {
			cap = cap ? 2 * cap : 64;
			grown = realloc(g->runs, cap * sizeof(*grown));
			if (!grown)
				return false;
			g->runs = grown;
		}
		g->runs[g->run_count++] = (struct run){ t.name, len, i, i + 1, 0 };
	}
	return true;
}

static bool make_groups(struct grouping *g)
{
	struct name_groups *out = g->out;

	out->groups = malloc((g->run_count + 1) * sizeof(*out->groups));
	if (!out->groups)
		return false;
	if (g->run_count)
		qsort(g->runs, g->run_count, sizeof(*g->runs), by_name);
	for (size_t i = 0; i < g->run_count; i++) {
		struct run *run = &g->runs[i];
		const struct name_group *last = out->count ? &out->groups[out->count - 1] : NULL;

		if (!last || !is_of(last->name, last->len, run->name, run->len))
			out->groups[out->count++] = (struct name_group){ .name = run->name,
									 .len = run->len,
									 .first = run->first };
		run->group = out->count - 1;
	}
	if (g->run_count)
		qsort(g->runs, g->run_count, sizeof(*g->runs), by_first_row);
	return true;
}

/* ---- what counts once ---- */

static int by_tensor(const void *a, const void *b)
{
	const struct shared_name *x = a, *y = b;

	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	return x->group < y->group ? -1 : x->group > y->group;
}

static bool find_shared(struct grouping *g)
{
	uint64_t all = ckpt_tensor_count(g->model);

	g->is_shared = calloc(all + 1, sizeof(*g->is_shared));
	g->shared = NULL;
	for (uint64_t i = 0; g->is_shared && i < all; i++) {
		uint64_t counted = ckpt_parts_counted(g->parts, i);

		if (counted != i)
			g->is_shared[counted] = true;
	}
	return g->is_shared;
}

static void count_tensor(struct grouping *g, uint64_t tensor, struct name_group *group, bool in_all)
{
	struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

	ckpt_tensor_get(g->model, tensor, &t);
	if (group) {
		group->elements = sum(group->elements, t.numel);
		group->nbytes = sum(group->nbytes, t.nbytes);
	}
	if (in_all) {
		g->out->elements = sum(g->out->elements, t.numel);
		g->out->nbytes = sum(g->out->nbytes, t.nbytes);
	}
}

static bool add_up(struct grouping *g)
{
	size_t cap = 0;

	for (size_t r = 0; r < g->run_count; r++) {
		const struct run *run = &g->runs[r];
		struct name_group *group = &g->out->groups[run->group];

		group->tensors += run->end - run->first;
		for (uint64_t i = run->first; i < run->end; i++) {
			uint64_t counted = ckpt_parts_counted(g->parts, tensor_of(g, i));
			struct shared_name *grown;

			if (!g->is_shared[counted]) {
				count_tensor(g, counted, group, true);
				continue;
			}
			if (g->shared_count == cap) {
				cap = cap ? 2 * cap : 64;
				grown = realloc(g->shared, cap * sizeof(*grown));
				if (!grown)
					return false;
				g->shared = grown;
			}
			g->shared[g->shared_count++] = (struct shared_name){ counted, run->group };
		}
	}
	if (g->shared_count)
		qsort(g->shared, g->shared_count, sizeof(*g->shared), by_tensor);
	for (size_t i = 0; i < g->shared_count; i++) {
		const struct shared_name *s = &g->shared[i], *last = i ? s - 1 : NULL;
		bool new_tensor = !last || last->tensor != s->tensor;

		if (new_tensor || last->group != s->group)
			count_tensor(g, s->tensor, &g->out->groups[s->group], new_tensor);
	}
	return true;
}

bool name_groups_make(const struct ckpt_model *model, const struct ckpt_parts *parts,
		      const uint64_t *rows, size_t count, uint64_t depth, struct name_groups *out)
{
	struct grouping g = {
		.model = model, .parts = parts, .rows = rows, .count = count, .out = out
	};
	bool ok;

	*out = (struct name_groups){ 0 };
	ok = make_runs(&g, depth) && make_groups(&g) && find_shared(&g) && add_up(&g);
	if (ok && out->count)
		qsort(out->groups, out->count, sizeof(*out->groups), by_first_tensor);
	free(g.runs);
	free(g.is_shared);
	free(g.shared);
	if (!ok)
		name_groups_clear(out);
	return ok;
}

void name_groups_clear(struct name_groups *groups)
{
	free(groups->groups);
	*groups = (struct name_groups){ 0 };
}
