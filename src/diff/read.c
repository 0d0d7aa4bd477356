/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and compares the numbers of many pairs, in blocks that several threads take and compare
 * side by side. What blocks give is added up in the order of the blocks, so that the result does
 * not depend on which thread was faster.
 *
 * What must stay true: take_block() runs in one thread at a time, compare_block() in many. What
 * both touch is atomic or under the lock. One run compares at most MOST_BLOCKS blocks; then their
 * parts are added up and finished pairs are closed. The pair that was not finished goes on in the
 * next run.
 */
#include "diff/read.h"

#include "base/cancel.h"
#include "diff/job.h"
#include "diff/sides.h"
#include "diff/small.h"
#include "plan/read_blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	BLOCK = 256 << 10,  /* of each side: both stay in a core's own cache */
	MOST_BLOCKS = 4096, /* that are compared in one run */
	/* waking threads for fewer bytes costs more than it saves */
	LEAST_FOR_THREADS = 1 << 20,
	/*
	 * ... and for smaller pairs, too: one thread at a time opens them, which is most of the
	 * work
	 */
	LEAST_PER_PAIR = 8 << 10,
	MOST_SMALL = 4096, /* pairs between two looks at whether to go on */
};

struct pair_reading {
	struct ckpt_work work;
	struct ckpt_diff_reading *whole;
	const struct ckpt_comparison *c; /* WHOLE's */
	struct ckpt_pair *pairs;
	uint32_t count, next;
	struct ckpt_job *current; /* blocks of it are taken; NULL: the next pair's */
	struct ckpt_job **jobs;	  /* with blocks in this run */
	uint32_t job_count;
	struct ckpt_numbers *parts; /* by block of this run */
	uint32_t block_count;
	struct ckpt_small_pairs small;
	uint32_t small_count; /* of this run */
	pthread_mutex_t lock;		 /* of failures */
	atomic_uint_fast64_t done, read; /* bytes; DONE: also those that need not be read */
};

/* The block that a thread works on. */
struct block {
	struct ckpt_job *job;
	uint32_t number; /* of this run */
	uint64_t first;
	size_t count;
	uint8_t a[BLOCK], b[BLOCK];
};

/* ---- taking blocks ---- */

static int fail_job(struct pair_reading *r, struct ckpt_job *job, int rc,
		    const struct ckpt_error *err)
{
	pthread_mutex_lock(&r->lock);
	if (!job->failed)
		rc = ckpt_pair_fail(r->c, job->pair, rc, err);
	else
		rc = 0;
	job->failed = true;
	pthread_mutex_unlock(&r->lock);
	return rc;
}

static bool has_failed(struct pair_reading *r, const struct ckpt_job *job)
{
	bool failed;

	pthread_mutex_lock(&r->lock);
	failed = job->failed;
	pthread_mutex_unlock(&r->lock);
	return failed;
}

static void add_job(struct pair_reading *r, struct ckpt_job *job)
{
	job->first_block = r->block_count;
	job->block_count = 0;
	r->jobs[r->job_count++] = job;
}

/* PAIR has nothing to be read, or RC says why it cannot be opened. */
static int finish_unread(struct pair_reading *r, struct ckpt_pair *pair, int rc,
			 const struct ckpt_error *err)
{
	pthread_mutex_lock(&r->lock);
	if (rc < 0)
		rc = ckpt_pair_fail(r->c, pair, rc, err);
	r->done += ckpt_pair_nbytes(r->c, pair);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

/* What the numbers of PAIR say of it. */
static int end_pair(const struct ckpt_comparison *c, struct ckpt_pair *pair,
		    const struct ckpt_measure *measure, const struct ckpt_numbers *n,
		    struct ckpt_error *err)
{
	struct ckpt_numbers *kept;

	if (n->outside)
		pair->what |= CKPT_DIFFERS_VALUE;
	if (n->other_bits && ckpt_comparison_has(c, CKPT_DIFF_STRICT))
		pair->what |= CKPT_DIFFERS_BITS;
	pair->state = pair->what ? CKPT_PAIR_CHANGED : CKPT_PAIR_SAME;
	pair->has_numbers = measure->has_numbers;
	pair->has_ulp = measure->has_ulp;
	if (!pair->what && !n->differing && !n->other_bits)
		return 0;
	kept = ckpt_arena_alloc(c->arena, sizeof(*kept));
	if (!kept)
		return ckpt_arena_fail(c->arena, err);
	*kept = *n;
	pair->numbers = kept;
	return 0;
}

/* 1: both sides are small, and compared. */
static int read_small(struct pair_reading *r, struct ckpt_pair *pair, struct ckpt_error *err)
{
	struct ckpt_measure measure;
	struct ckpt_numbers numbers;
	uint64_t nbytes;
	int rc;

	if (!ckpt_small_pair_read(&r->small, r->c, pair, &measure, &numbers))
		return 0;
	r->small_count++;
	nbytes = numbers.count / measure.parts * (measure.a_size + measure.b_size);
	r->done += nbytes;
	r->read += nbytes;
	pthread_mutex_lock(&r->lock);
	rc = end_pair(r->c, pair, &measure, &numbers, err);
	pthread_mutex_unlock(&r->lock);
	return rc < 0 ? rc : 1;
}

/* 1: there is a current job. */
static int open_next_job(struct pair_reading *r, struct ckpt_error *err)
{
	while (!r->current && r->next < r->count && r->small_count < MOST_SMALL) {
		struct ckpt_pair *pair = &r->pairs[r->next++];
		struct ckpt_job *job;
		int rc;

		if (pair->state != CKPT_PAIR_TO_READ)
			continue;
		rc = read_small(r, pair, err);
		if (rc < 0)
			return rc;
		if (rc > 0)
			continue;
		job = malloc(sizeof(*job));
		if (!job)
			return ckpt_fail_nomem(err);
		rc = ckpt_job_open(r->c, pair, BLOCK, job, err);
		if (rc > 0) {
			r->current = job;
			add_job(r, job);
			break;
		}
		ckpt_job_close(job);
		free(job);
		rc = finish_unread(r, pair, rc, err);
		if (rc < 0)
			return rc;
	}
	return r->current != NULL;
}

static int read_stream(struct ckpt_job_side *side, uint32_t size, struct block *block, uint8_t *out,
		       struct ckpt_error *err)
{
	int rc = 0;

	if (!side->streamed)
		return 0;
	if (!side->stream)
		rc = ckpt_recipe_stream(&side->recipe, &side->stream, err);
	return rc < 0 ? rc : side->stream->read(side->stream, out, block->count * size, err);
}

static int take_block(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct pair_reading *r = (struct pair_reading *)work;
	struct block *block = thread;
	int rc;

	if (r->block_count == MOST_BLOCKS || (!r->current && r->job_count == MOST_BLOCKS))
		return 0;
	while ((rc = open_next_job(r, err)) > 0) {
		struct ckpt_job *job = r->current;
		uint64_t left = job->count - job->next;

		if (!left || has_failed(r, job)) {
			ckpt_job_close_streams(job);
			r->current = NULL;
			if (r->job_count == MOST_BLOCKS)
				return 0;
			continue;
		}
		block->job = job;
		block->first = job->next;
		block->count = left < job->block ? (size_t)left : job->block;
		rc = read_stream(&job->a, job->measure.a_size, block, block->a, err);
		if (rc == 0)
			rc = read_stream(&job->b, job->measure.b_size, block, block->b, err);
		if (rc < 0)
			rc = fail_job(r, job, rc, err);
		if (rc < 0)
			return rc;
		if (has_failed(r, job))
			continue;
		job->next += block->count;
		block->number = r->block_count++;
		job->block_count++;
		return 1;
	}
	return rc;
}

/* ---- comparing them ---- */

static int read_side(const struct ckpt_job_side *side, uint32_t size, const struct block *block,
		     uint8_t *buf, const uint8_t **out, struct ckpt_error *err)
{
	*out = buf;
	if (side->streamed)
		return 0;
	if (side->dense) {
		*out = side->dense + block->first * size;
		return 0;
	}
	return ckpt_array_read(side->array, block->first, block->count, buf, err);
}

static int compare_block(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct pair_reading *r = (struct pair_reading *)work;
	struct block *block = thread;
	const struct ckpt_measure *m = &block->job->measure;
	const uint8_t *a = NULL, *b = NULL;
	int rc = read_side(&block->job->a, m->a_size, block, block->a, &a, err);

	if (rc == 0)
		rc = read_side(&block->job->b, m->b_size, block, block->b, &b, err);
	if (rc < 0)
		return fail_job(r, block->job, rc, err);
	ckpt_measure_items(m, a, b, block->count, &r->parts[block->number]);
	r->done += block->count * (m->a_size + m->b_size);
	r->read += block->count * (m->a_size + m->b_size);
	return 0;
}

static int tick(struct ckpt_work *work, struct ckpt_error *err)
{
	struct pair_reading *r = (struct pair_reading *)work;

	return ckpt_reading_tick(r->whole, r->done, err);
}

/* ---- adding up ---- */

static int finish_pair(const struct ckpt_comparison *c, struct ckpt_job *job,
		       struct ckpt_error *err)
{
	struct ckpt_numbers *n = &job->sum;

	if (job->failed)
		return 0;
	n->count += job->zeros * job->measure.parts;
	n->finite += job->zeros * job->measure.parts;
	return end_pair(c, job->pair, &job->measure, n, err);
}

/* Adds up the blocks of this run, and closes the jobs that are done. */
static int add_up_blocks(struct pair_reading *r, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < r->job_count; i++) {
		struct ckpt_job *job = r->jobs[i];

		for (uint32_t k = 0; k < job->block_count; k++)
			ckpt_numbers_add(&job->sum, &r->parts[job->first_block + k], job->times);
		if (job == r->current && job->next < job->count && !job->failed)
			continue;
		if (job == r->current)
			r->current = NULL;
		if (rc == 0)
			rc = finish_pair(r->c, job, err);
		ckpt_job_close(job);
		free(job);
	}
	r->job_count = r->block_count = r->small_count = 0;
	if (r->current)
		add_job(r, r->current);
	return rc;
}

static int read_all(struct pair_reading *r, bool together, struct ckpt_error *err)
{
	int rc;

	do {
		rc = ckpt_workers_run(r->whole->workers, &r->work, together, err);
		if (rc == 0)
			rc = add_up_blocks(r, err);
		if (rc == 0)
			rc = tick(&r->work, err); /* small pairs are no blocks */
	} while (rc == 0 && (r->current || r->next < r->count));
	for (uint32_t i = 0; rc < 0 && i < r->job_count; i++) {
		ckpt_job_close(r->jobs[i]);
		free(r->jobs[i]);
	}
	return rc;
}

int ckpt_reading_tick(struct ckpt_diff_reading *whole, uint64_t done, struct ckpt_error *err)
{
	const struct ckpt_diff_options *o = &whole->c->options;
	uint64_t all = whole->done + done;

	if (ckpt_cancelled(o->cancel))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted");
	if (o->progress)
		o->progress(o->progress_ctx, all < whole->total ? all : whole->total, whole->total);
	return 0;
}

int ckpt_reading_workers(struct ckpt_diff_reading *whole, struct ckpt_error *err)
{
	size_t of_pairs = sizeof(struct block), of_blocks = ckpt_block_buffer_size(0, 0);

	return whole->workers ? 0
			      : ckpt_workers_new(of_pairs > of_blocks ? of_pairs : of_blocks,
						 whole->c->options.threads, &whole->workers, err);
}

int ckpt_read_pairs(struct ckpt_diff_reading *whole, struct ckpt_pair *pairs, uint32_t count,
		    struct ckpt_error *err)
{
	struct pair_reading r = { .work = { take_block, compare_block, tick },
				  .whole = whole,
				  .c = whole->c,
				  .pairs = pairs,
				  .count = count };
	uint64_t before = whole->total, nbytes = 0;
	uint32_t to_read = 0;
	int rc = 0;

	for (uint32_t i = 0; i < count; i++)
		if (pairs[i].state == CKPT_PAIR_TO_READ) {
			nbytes += ckpt_pair_nbytes(whole->c, &pairs[i]);
			to_read++;
		}
	if (!to_read)
		return 0;
	whole->done = before;
	whole->total = before + nbytes;
	r.parts = malloc(MOST_BLOCKS * sizeof(*r.parts));
	r.jobs = malloc((MOST_BLOCKS + 1) * sizeof(struct ckpt_job *));
	if (!r.parts || !r.jobs)
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_reading_workers(whole, err);
	pthread_mutex_init(&r.lock, NULL);
	if (rc == 0)
		rc = read_all(&r, nbytes >= LEAST_FOR_THREADS && nbytes / to_read >= LEAST_PER_PAIR,
			      err);
	pthread_mutex_destroy(&r.lock);
	ckpt_small_pairs_clear(&r.small);
	whole->nbytes += r.read;
	free(r.parts);
	free(r.jobs);
	return rc;
}
