/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads all tensors in blocks, in any order and by many threads, first for the tallies and then, if
 * they are wanted, for the bins, whose range comes from the tallies, and for quantiles.
 *
 * What must stay true: the result has the same digits however many threads there are. So the
 * tallies of blocks are merged in a fixed binary tree, block 0 with 1, 2 with 3, then these two,
 * always the left one first (add_node()); nodes that have no other half are merged at the end, from
 * the left. A lock protects nodes and bins.
 */
#include "base/cancel.h"
#include "base/grow.h"
#include "plan/read_blocks.h"
#include "stat/stat.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPEN = 1024 }; /* tensors that are open at a time */

/* A node of the tree: the tally of 2^LEVEL blocks, the first of them NUMBER * 2^LEVEL. */
struct node {
	uint32_t level;
	uint64_t number;
	struct ckpt_tally tally;
};

struct open_job {
	struct ckpt_stat_opened opened;
	struct node *nodes; /* malloc: those that wait for their other half */
	uint32_t count, cap;
};

/* One recipe of an open job: it may have several, one behind the other. */
struct part {
	uint32_t open_job;
	uint64_t item, block; /* its first */
};

struct reading {
	struct ckpt_stat *stat;
	struct ckpt_workers *workers;
	enum { TALLIES, BINS, QUANTILES } pass;
	struct open_job *open_jobs;
	uint32_t open_count;
	struct ckpt_recipe *recipes; /* malloc, as PARTS */
	struct part *parts;
	uint32_t count, recipe_cap, part_cap;
	uint64_t bytes, done, total;
	pthread_mutex_t lock; /* of what follows, and of rounds and bins */
	bool no_memory;
	uint32_t failed; /* the recipe that could not be read */
};

/* ---- tallies ---- */

static struct node *find_node(const struct open_job *s, uint32_t level, uint64_t number)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->nodes[i].level == level && s->nodes[i].number == number)
			return &s->nodes[i];
	return NULL;
}

/* The left one first, whichever was read first. */
static void merge_in_order(const struct ckpt_tally *left, const struct ckpt_tally *right,
			   struct ckpt_tally *out)
{
	struct ckpt_tally both = *left;

	ckpt_tally_merge(&both, right);
	*out = both;
}

static bool add_node(struct open_job *s, uint64_t block, struct ckpt_tally *tally)
{
	struct node mine = { 0, block, *tally }, *other, *grown;

	while ((other = find_node(s, mine.level, mine.number ^ 1))) {
		if (mine.number & 1)
			merge_in_order(&other->tally, &mine.tally, &mine.tally);
		else
			merge_in_order(&mine.tally, &other->tally, &mine.tally);
		*other = s->nodes[--s->count];
		mine.level++;
		mine.number /= 2;
	}
	grown = ckpt_grow(s->nodes, s->count, &s->cap, sizeof(*grown));
	if (!grown)
		return false;
	s->nodes = grown;
	grown[s->count++] = mine;
	return true;
}

/* The nodes that are left have no other half: the largest is the leftmost. */
static void merge_nodes(struct open_job *s)
{
	struct ckpt_stat_job *job = s->opened.job;

	while (s->count) {
		uint32_t top = 0;

		for (uint32_t i = 1; i < s->count; i++)
			if (s->nodes[i].level > s->nodes[top].level)
				top = i;
		ckpt_tally_merge(&job->tally, &s->nodes[top].tally);
		s->nodes[top] = s->nodes[--s->count];
	}
	ckpt_tally_repeat(&job->tally, job->repeat);
}

static void add_block_to_tally(struct reading *r, const struct part *part, uint64_t pos,
			       const uint8_t *bytes, size_t len)
{
	struct open_job *s = &r->open_jobs[part->open_job];
	uint32_t size = s->opened.view.itemsize;
	struct ckpt_tally tally =
		ckpt_stat_tally(&s->opened.view, part->item + pos / size, bytes, len / size);

	pthread_mutex_lock(&r->lock);
	if (!add_node(s, part->block + pos / CKPT_READ_BLOCK, &tally))
		r->no_memory = true;
	pthread_mutex_unlock(&r->lock);
}

/* ---- bins ---- */

static void add_bins(struct ckpt_stat_bins *to, const uint64_t *counts, uint64_t times)
{
	for (uint32_t i = 0; i < to->count; i++) {
		uint64_t n;

		if (__builtin_mul_overflow(counts[i], times, &n) ||
		    __builtin_add_overflow(to->counts[i], n, &to->counts[i]))
			to->counts[i] = UINT64_MAX;
	}
}

static void add_block_to(struct reading *r, struct ckpt_stat_bins *target, const struct part *part,
			 uint64_t pos, const uint8_t *bytes, size_t len)
{
	const struct ckpt_stat_opened *o = &r->open_jobs[part->open_job].opened;
	uint64_t counts[CKPT_STAT_MOST_BINS] = { 0 };
	struct ckpt_stat_bins bins = *target;

	bins.counts = counts;
	ckpt_stat_fill_bins(&o->view, part->item + pos / o->view.itemsize, bytes,
			    len / o->view.itemsize, &bins);
	pthread_mutex_lock(&r->lock);
	add_bins(target, counts, o->job->repeat);
	pthread_mutex_unlock(&r->lock);
}

/* A job that shows the same and is not read may be of another group. */
static void add_block_to_bins(struct reading *r, const struct part *part, uint64_t pos,
			      const uint8_t *bytes, size_t len)
{
	struct ckpt_stat *s = r->stat;
	struct ckpt_stat_job *job = r->open_jobs[part->open_job].opened.job;

	add_block_to(r, &job->bins, part, pos, bytes, len);
	if (job->counted)
		add_block_to(r, &s->sums[0].bins, part, pos, bytes, len);
	for (uint32_t i = (uint32_t)(job - s->jobs); s->group_count && i != UINT32_MAX;
	     i = s->jobs[i].next_same)
		if (s->jobs[i].counted_in_group)
			add_block_to(r, &s->groups[s->jobs[i].group].bins, part, pos, bytes, len);
}

/* ---- quantiles ---- */

static void add_block_to_selects(struct reading *r, const struct part *part, uint64_t pos,
				 const uint8_t *bytes, size_t len)
{
	const struct ckpt_stat_opened *o = &r->open_jobs[part->open_job].opened;
	uint32_t size = o->view.itemsize;

	ckpt_stat_add_to_selects(r->stat, o->job, &o->view, part->item + pos / size, bytes,
				 len / size, &r->lock);
}

/* ---- reading ---- */

static int add_block(void *ctx, const struct ckpt_block *block, struct ckpt_error *err)
{
	struct reading *r = ctx;
	const struct part *part = &r->parts[block->i];

	(void)err;
	switch (r->pass) {
	case TALLIES: add_block_to_tally(r, part, block->pos, block->bytes, block->len); break;
	case BINS: add_block_to_bins(r, part, block->pos, block->bytes, block->len); break;
	case QUANTILES: add_block_to_selects(r, part, block->pos, block->bytes, block->len); break;
	}
	return 0;
}

static int note_failed(void *ctx, uint64_t i, int rc, const struct ckpt_error *err)
{
	struct reading *r = ctx;

	(void)err;
	r->failed = (uint32_t)i;
	return rc;
}

static int tick(void *ctx, uint64_t done, struct ckpt_error *err)
{
	const struct reading *r = ctx;
	const struct ckpt_stat_options *o = &r->stat->options;

	if (ckpt_cancelled(o->cancel))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted");
	done += r->done;
	if (o->progress)
		o->progress(o->progress_ctx, done < r->total ? done : r->total, r->total);
	return 0;
}

static int read_open(struct reading *r, struct ckpt_error *err)
{
	struct ckpt_block_reading blocks = { .recipes = r->recipes,
					     .count = r->count,
					     .use = add_block,
					     .failed = note_failed,
					     .tick = tick,
					     .ctx = r };
	struct ckpt_error local = CKPT_ERROR_INIT;
	int rc;

	r->failed = UINT32_MAX;
	rc = ckpt_read_blocks(r->workers, &blocks, &local);
	if (rc == 0)
		return r->no_memory ? ckpt_fail_nomem(err) : 0;
	if (r->failed < r->count)
		rc = ckpt_array_fail_named(
			r->stat->model, r->open_jobs[r->parts[r->failed].open_job].opened.job->name,
			rc, &local);
	if (err)
		*err = local;
	return rc;
}

/* ---- opening ---- */

static int add_recipe(struct reading *r, const struct ckpt_recipe *recipe, uint64_t *item,
		      uint64_t *block, struct ckpt_error *err)
{
	struct ckpt_recipe *recipes =
		ckpt_grow(r->recipes, r->count, &r->recipe_cap, sizeof(*recipes));
	struct part *parts;

	if (!recipes)
		return ckpt_fail_nomem(err);
	r->recipes = recipes;
	parts = ckpt_grow(r->parts, r->count, &r->part_cap, sizeof(*parts));
	if (!parts)
		return ckpt_fail_nomem(err);
	r->parts = parts;
	recipes[r->count] = *recipe;
	parts[r->count++] = (struct part){ r->open_count, *item, *block };
	*item += recipe->len / r->open_jobs[r->open_count].opened.view.itemsize;
	*block += recipe->len / CKPT_READ_BLOCK + (recipe->len % CKPT_READ_BLOCK != 0);
	r->bytes += recipe->len;
	return 0;
}

/* Has each part whole items, and can it be read at any place? Then several threads read it. */
static bool can_be_split(const struct ckpt_recipe *recipe, uint32_t itemsize)
{
	if (recipe->kind != CKPT_RECIPE_JOINED)
		return false;
	for (size_t i = 0; i < recipe->part_count; i++)
		if (!ckpt_recipe_is_random(&recipe->parts[i]) ||
		    recipe->parts[i].len % itemsize != 0)
			return false;
	return true;
}

static int open_job_for_reading(struct reading *r, struct ckpt_stat_job *job,
				struct ckpt_error *err)
{
	struct ckpt_stat_opened *o = &r->open_jobs[r->open_count].opened;
	uint64_t item = 0, block = 0;
	int rc;

	r->open_jobs[r->open_count] = (struct open_job){ 0 };
	rc = ckpt_stat_open(r->stat, job, o, err);
	if (rc == 0 && can_be_split(&o->recipe, o->view.itemsize)) {
		for (size_t i = 0; rc == 0 && i < o->recipe.part_count; i++)
			rc = add_recipe(r, &o->recipe.parts[i], &item, &block, err);
	} else if (rc == 0 && o->recipe.len) {
		rc = add_recipe(r, &o->recipe, &item, &block, err);
	}
	r->open_count++;
	return rc;
}

static int close_jobs(struct reading *r, int rc)
{
	for (uint32_t i = 0; i < r->open_count; i++) {
		struct open_job *s = &r->open_jobs[i];

		if (rc == 0 && r->pass == TALLIES)
			merge_nodes(s);
		ckpt_stat_close(&s->opened);
		free(s->nodes);
	}
	r->done += r->bytes;
	r->bytes = r->count = r->open_count = 0;
	return rc;
}

static bool is_wanted(const struct reading *r, uint32_t i)
{
	const struct ckpt_stat_job *job = &r->stat->jobs[i];

	if (job->same_as != i)
		return false;
	return r->pass == TALLIES || (r->pass == BINS && job->bins.count) ||
	       (r->pass == QUANTILES && ckpt_stat_selects_from(r->stat, job));
}

static int read_jobs(struct reading *r, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->stat->count; i++) {
		if (is_wanted(r, i))
			rc = open_job_for_reading(r, &r->stat->jobs[i], err);
		if (rc == 0 && r->open_count == MOST_OPEN) {
			rc = read_open(r, err);
			rc = close_jobs(r, rc);
		}
	}
	if (rc == 0)
		rc = read_open(r, err);
	return close_jobs(r, rc);
}

/* ---- tallies, then bins, then quantiles ---- */

/* Bins over the range of the values in T. */
static int make_bins(struct ckpt_stat *s, const struct ckpt_tally *t, struct ckpt_stat_bins *bins,
		     struct ckpt_error *err)
{
	bool same = t->min == t->max;

	if (!t->finite)
		return 0;
	*bins = (struct ckpt_stat_bins){ .low = same ? t->min - 0.5 : t->min,
					 .high = same ? t->max + 0.5 : t->max,
					 .count = s->options.bins };
	bins->counts = ckpt_arena_calloc(s->arena, bins->count, sizeof(*bins->counts));
	return bins->counts ? 0 : ckpt_arena_fail(s->arena, err);
}

static int make_all_bins(struct ckpt_stat *s, struct ckpt_error *err)
{
	int rc = make_bins(s, &s->sums[0].tally, &s->sums[0].bins, err);

	for (uint32_t i = 0; rc == 0 && i < s->group_count; i++)
		rc = make_bins(s, &s->groups[i].tally, &s->groups[i].bins, err);
	for (uint32_t i = 0; rc == 0 && i < s->count; i++)
		if (s->jobs[i].same_as == i)
			rc = make_bins(s, &s->jobs[i].tally, &s->jobs[i].bins, err);
	return rc;
}

/* Jobs that show the same have the results of the one that was read. */
static void copy_to_same(struct ckpt_stat *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct ckpt_stat_job *job = &s->jobs[i];
		const struct ckpt_stat_job *of = &s->jobs[job->same_as];

		if (of == job)
			continue;
		job->tally = of->tally;
		job->bins = of->bins;
		job->quantiles = of->quantiles;
		job->numbers = of->numbers;
		job->why_not = of->why_not;
		job->unreadable = of->unreadable;
		job->looked_ndim = of->looked_ndim;
		job->looked_shape = of->looked_shape;
	}
}

static uint64_t bytes_of(const struct ckpt_stat *s)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < s->count; i++)
		if (s->jobs[i].same_as == i &&
		    __builtin_add_overflow(total, s->jobs[i].nbytes, &total))
			return UINT64_MAX;
	return total;
}

static int read_rounds(struct reading *r, struct ckpt_error *err)
{
	int rc;

	r->pass = QUANTILES;
	while ((rc = ckpt_stat_next_round(r->stat, err)) > 0) {
		rc = read_jobs(r, err);
		if (rc < 0)
			break;
	}
	return rc;
}

int ckpt_stat_read(struct ckpt_stat *s, struct ckpt_error *err)
{
	uint64_t times = 1 + (s->options.bins ? 1 : 0) + (s->options.quantile_count ? 6 : 0);
	struct reading r = { .stat = s, .total = bytes_of(s) };
	int rc;

	if (__builtin_mul_overflow(r.total, times, &r.total))
		r.total = UINT64_MAX;
	pthread_mutex_init(&r.lock, NULL);
	r.open_jobs = calloc(MOST_OPEN, sizeof(*r.open_jobs));
	rc = r.open_jobs ? ckpt_workers_new(ckpt_block_buffer_size(0, 0), s->options.threads,
					    &r.workers, err)
			 : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = read_jobs(&r, err);
	if (rc == 0)
		copy_to_same(s);
	if (rc == 0)
		rc = ckpt_stat_add_up(s, err);
	if (rc == 0 && s->options.bins) {
		r.pass = BINS;
		rc = make_all_bins(s, err);
		if (rc == 0)
			rc = read_jobs(&r, err);
	}
	if (rc == 0 && s->options.quantile_count)
		rc = read_rounds(&r, err);
	if (rc == 0)
		copy_to_same(s);
	ckpt_workers_free(r.workers);
	pthread_mutex_destroy(&r.lock);
	free(r.open_jobs);
	free(r.recipes);
	free(r.parts);
	return rc;
}
