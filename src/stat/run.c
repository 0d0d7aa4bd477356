/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cancel.h"
#include "base/grow.h"
#include "plan/read_blocks.h"
#include "stat/stat.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/*
 * Blocks are looked at in any order, by many threads, and their tallies put together like the rounds of a tournament: block 0 with 1,
 * 2 with 3, then these two. So the last digits are the same however many threads there are, and little waits for its other half.
 */
enum { TOGETHER = 1024 }; /* tensors that are open at a time */

/* 2^LEVEL blocks, the first of them NUMBER * 2^LEVEL. */
struct round {
	uint32_t level;
	uint64_t number;
	struct ckpt_tally tally;
};

struct subject {
	struct ckpt_stat_opened opened;
	struct round *rounds; /* malloc: that wait for their other half */
	uint32_t count, cap;
};

/* One recipe of a subject: it may have several, one behind the other. */
struct stretch {
	uint32_t subject;
	uint64_t item, block; /* the first of it */
};

struct run {
	struct ckpt_stat *stat;
	struct ckpt_workers *workers;
	bool bins; /* the second time */
	struct subject *subjects;
	uint32_t subject_count;
	struct ckpt_recipe *recipes; /* malloc, as STRETCHES */
	struct stretch *stretches;
	uint32_t count, recipe_cap, stretch_cap;
	uint64_t bytes, done, total;
	pthread_mutex_t lock; /* of what follows, and of rounds and bins */
	bool no_memory;
	uint32_t failed; /* the recipe that could not be read */
};

/* ---- tallies ---- */

static struct round *find_round(const struct subject *s, uint32_t level, uint64_t number)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->rounds[i].level == level && s->rounds[i].number == number)
			return &s->rounds[i];
	return NULL;
}

/* The left one first, whichever came first. */
static void join(const struct ckpt_tally *left, const struct ckpt_tally *right,
		 struct ckpt_tally *out)
{
	struct ckpt_tally both = *left;

	ckpt_tally_merge(&both, right);
	*out = both;
}

static bool add_round(struct subject *s, uint64_t block, struct ckpt_tally *tally)
{
	struct round mine = { 0, block, *tally }, *other, *grown;

	while ((other = find_round(s, mine.level, mine.number ^ 1))) {
		if (mine.number & 1)
			join(&other->tally, &mine.tally, &mine.tally);
		else
			join(&mine.tally, &other->tally, &mine.tally);
		*other = s->rounds[--s->count];
		mine.level++;
		mine.number /= 2;
	}
	grown = ckpt_grow(s->rounds, s->count, &s->cap, sizeof(*grown));
	if (!grown)
		return false;
	s->rounds = grown;
	grown[s->count++] = mine;
	return true;
}

/* Those that are left have no other half: the longest is the leftmost. */
static void end_rounds(struct subject *s)
{
	struct ckpt_stat_job *job = s->opened.job;

	while (s->count) {
		uint32_t top = 0;

		for (uint32_t i = 1; i < s->count; i++)
			if (s->rounds[i].level > s->rounds[top].level)
				top = i;
		ckpt_tally_merge(&job->tally, &s->rounds[top].tally);
		s->rounds[top] = s->rounds[--s->count];
	}
	ckpt_tally_repeat(&job->tally, job->repeat);
}

static void add_block_to_tally(struct run *r, const struct stretch *part, uint64_t pos, const uint8_t *bytes,
		      size_t len)
{
	struct subject *s = &r->subjects[part->subject];
	uint32_t size = s->opened.view.itemsize;
	struct ckpt_tally tally =
		ckpt_stat_tally(&s->opened.view, part->item + pos / size, bytes, len / size);

	pthread_mutex_lock(&r->lock);
	if (!add_round(s, part->block + pos / CKPT_READ_BLOCK, &tally))
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

static void add_block_to_bins(struct run *r, const struct stretch *part, uint64_t pos, const uint8_t *bytes,
		     size_t len)
{
	const struct ckpt_stat_opened *o = &r->subjects[part->subject].opened;
	struct ckpt_stat_bins *targets[] = { &o->job->bins,
					     o->job->counted ? &r->stat->sums[0].bins : NULL };
	uint64_t item = part->item + pos / o->view.itemsize;

	for (int i = 0; i < 2 && targets[i]; i++) {
		uint64_t counts[CKPT_STAT_MOST_BINS] = { 0 };
		struct ckpt_stat_bins bins = *targets[i];

		bins.counts = counts;
		ckpt_stat_fill_bins(&o->view, item, bytes, len / o->view.itemsize, &bins);
		pthread_mutex_lock(&r->lock);
		add_bins(targets[i], counts, o->job->repeat);
		pthread_mutex_unlock(&r->lock);
	}
}

/* ---- reading ---- */

static int add_block(void *ctx, const struct ckpt_block *block, struct ckpt_error *err)
{
	struct run *r = ctx;

	(void)err;
	if (r->bins)
		add_block_to_bins(r, &r->stretches[block->i], block->pos, block->bytes, block->len);
	else
		add_block_to_tally(r, &r->stretches[block->i], block->pos, block->bytes, block->len);
	return 0;
}

static int failed(void *ctx, uint64_t i, int rc, const struct ckpt_error *err)
{
	struct run *r = ctx;

	(void)err;
	r->failed = (uint32_t)i;
	return rc;
}

static int tick(void *ctx, uint64_t done, struct ckpt_error *err)
{
	const struct run *r = ctx;
	const struct ckpt_stat_options *o = &r->stat->options;

	if (ckpt_cancelled(o->cancel))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted");
	done += r->done;
	if (o->progress)
		o->progress(o->progress_ctx, done < r->total ? done : r->total, r->total);
	return 0;
}

static int read_all(struct run *r, struct ckpt_error *err)
{
	struct ckpt_block_reading reading = { .recipes = r->recipes,
				  .count = r->count,
				  .use = add_block,
				  .failed = failed,
				  .tick = tick,
				  .ctx = r };
	struct ckpt_error local = CKPT_ERROR_INIT;
	int rc;

	r->failed = UINT32_MAX;
	rc = ckpt_read_blocks(r->workers, &reading, &local);
	if (rc == 0)
		return r->no_memory ? ckpt_fail_nomem(err) : 0;
	if (r->failed < r->count)
		rc = ckpt_array_fail_named(
			r->stat->model,
			r->subjects[r->stretches[r->failed].subject].opened.job->name, rc, &local);
	if (err)
		*err = local;
	return rc;
}

/* ---- what is open together ---- */

static int add_recipe(struct run *r, const struct ckpt_recipe *recipe, uint64_t *item,
		      uint64_t *block, struct ckpt_error *err)
{
	struct ckpt_recipe *recipes =
		ckpt_grow(r->recipes, r->count, &r->recipe_cap, sizeof(*recipes));
	struct stretch *stretches;

	if (!recipes)
		return ckpt_fail_nomem(err);
	r->recipes = recipes;
	stretches = ckpt_grow(r->stretches, r->count, &r->stretch_cap, sizeof(*stretches));
	if (!stretches)
		return ckpt_fail_nomem(err);
	r->stretches = stretches;
	recipes[r->count] = *recipe;
	stretches[r->count++] = (struct stretch){ r->subject_count, *item, *block };
	*item += recipe->len / r->subjects[r->subject_count].opened.view.itemsize;
	*block += recipe->len / CKPT_READ_BLOCK + (recipe->len % CKPT_READ_BLOCK != 0);
	r->bytes += recipe->len;
	return 0;
}

/* Whole items in each part, which can be read at any place? Then several threads can. */
static bool can_be_parted(const struct ckpt_recipe *recipe, uint32_t itemsize)
{
	if (recipe->kind != CKPT_RECIPE_JOINED)
		return false;
	for (size_t i = 0; i < recipe->part_count; i++)
		if (!ckpt_recipe_is_random(&recipe->parts[i]) ||
		    recipe->parts[i].len % itemsize != 0)
			return false;
	return true;
}

static int add_subject(struct run *r, struct ckpt_stat_job *job, struct ckpt_error *err)
{
	struct ckpt_stat_opened *o = &r->subjects[r->subject_count].opened;
	uint64_t item = 0, block = 0;
	int rc;

	r->subjects[r->subject_count] = (struct subject){ 0 };
	rc = ckpt_stat_open(r->stat, job, o, err);
	if (rc == 0 && can_be_parted(&o->recipe, o->view.itemsize)) {
		for (size_t i = 0; rc == 0 && i < o->recipe.part_count; i++)
			rc = add_recipe(r, &o->recipe.parts[i], &item, &block, err);
	} else if (rc == 0 && o->recipe.len) {
		rc = add_recipe(r, &o->recipe, &item, &block, err);
	}
	r->subject_count++;
	return rc;
}

static int end_subjects(struct run *r, int rc)
{
	for (uint32_t i = 0; i < r->subject_count; i++) {
		struct subject *s = &r->subjects[i];

		if (rc == 0 && !r->bins)
			end_rounds(s);
		ckpt_stat_close(&s->opened);
		free(s->rounds);
	}
	r->done += r->bytes;
	r->bytes = r->count = r->subject_count = 0;
	return rc;
}

static bool is_wanted(const struct run *r, uint32_t i)
{
	const struct ckpt_stat_job *job = &r->stat->jobs[i];

	return job->same_as == i && (!r->bins || job->bins.count);
}

static int run_all(struct run *r, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->stat->count; i++) {
		if (is_wanted(r, i))
			rc = add_subject(r, &r->stat->jobs[i], err);
		if (rc == 0 && r->subject_count == TOGETHER) {
			rc = read_all(r, err);
			rc = end_subjects(r, rc);
		}
	}
	if (rc == 0)
		rc = read_all(r, err);
	return end_subjects(r, rc);
}

/* ---- both times ---- */

/* As many bins as are wanted, over the values that T has. */
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

	for (uint32_t i = 0; rc == 0 && i < s->count; i++)
		if (s->jobs[i].same_as == i)
			rc = make_bins(s, &s->jobs[i].tally, &s->jobs[i].bins, err);
	return rc;
}

/* What was found of one is found of all that show the same. */
static void copy_to_same(struct ckpt_stat *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct ckpt_stat_job *job = &s->jobs[i];
		const struct ckpt_stat_job *of = &s->jobs[job->same_as];

		if (of == job)
			continue;
		job->tally = of->tally;
		job->bins = of->bins;
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

int ckpt_stat_run(struct ckpt_stat *s, struct ckpt_error *err)
{
	struct run r = { .stat = s, .total = bytes_of(s) };
	int rc;

	if (s->options.bins && __builtin_mul_overflow(r.total, 2, &r.total))
		r.total = UINT64_MAX;
	pthread_mutex_init(&r.lock, NULL);
	r.subjects = calloc(TOGETHER, sizeof(*r.subjects));
	rc = r.subjects ? ckpt_workers_new(ckpt_block_buffer_size(0, 0), s->options.threads, &r.workers, err)
			: ckpt_fail_nomem(err);
	if (rc == 0)
		rc = run_all(&r, err);
	if (rc == 0)
		copy_to_same(s);
	if (rc == 0)
		rc = ckpt_stat_add_up(s, err);
	if (rc == 0 && s->options.bins) {
		r.bins = true;
		rc = make_all_bins(s, err);
		if (rc == 0)
			rc = run_all(&r, err);
		if (rc == 0)
			copy_to_same(s);
	}
	ckpt_workers_free(r.workers);
	pthread_mutex_destroy(&r.lock);
	free(r.subjects);
	free(r.recipes);
	free(r.stretches);
	return rc;
}
