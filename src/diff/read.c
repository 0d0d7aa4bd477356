/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/read.h"

#include "base/cancel.h"
#include "diff/job.h"
#include "diff/sides.h"
#include "plan/read_blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * Numbers of many pairs, in blocks that some threads read and compare side by side. What they find is put together in the
 * order of the blocks, so that it does not depend on who was faster.
 */

enum {
	BLOCK = 256 << 10,  /* of each side: both stay in a core's own cache */
	MOST_BLOCKS = 4096, /* that are compared before they are put together */
	TOGETHER = 1 << 20, /* waking threads for less costs more than it saves */
	SMALL = 8 << 10,    /* ... and so it does for pairs of which opening them is most of the work, which one thread does at a time */
};

struct reading {
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
	pthread_mutex_t lock;		 /* of failures */
	atomic_uint_fast64_t done, read; /* bytes; DONE: also those that need not be read */
};

/* A thread's own. */
struct desk {
	struct ckpt_job *job;
	uint32_t block;
	uint64_t first;
	size_t count;
	uint8_t a[BLOCK], b[BLOCK];
};

/* ---- taking blocks ---- */

static int fail_job(struct reading *r, struct ckpt_job *job, int rc, const struct ckpt_error *err)
{
	pthread_mutex_lock(&r->lock);
	if (!job->failed)
		rc = ckpt_pair_failed(r->c, job->pair, rc, err);
	else
		rc = 0;
	job->failed = true;
	pthread_mutex_unlock(&r->lock);
	return rc;
}

static bool has_failed(struct reading *r, const struct ckpt_job *job)
{
	bool failed;

	pthread_mutex_lock(&r->lock);
	failed = job->failed;
	pthread_mutex_unlock(&r->lock);
	return failed;
}

static void add_job(struct reading *r, struct ckpt_job *job)
{
	job->first_block = r->block_count;
	job->block_count = 0;
	r->jobs[r->job_count++] = job;
}

/* There is nothing to be read of PAIR, or RC says why it cannot be. */
static int settle_unread(struct reading *r, struct ckpt_pair *pair, int rc,
			 const struct ckpt_error *err)
{
	pthread_mutex_lock(&r->lock);
	if (rc < 0)
		rc = ckpt_pair_failed(r->c, pair, rc, err);
	r->done += ckpt_bytes_of_pair(r->c, pair);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

/* 1: there is a current job. */
static int next_job(struct reading *r, struct ckpt_error *err)
{
	while (!r->current && r->next < r->count) {
		struct ckpt_pair *pair = &r->pairs[r->next++];
		struct ckpt_job *job;
		int rc;

		if (pair->state != CKPT_PAIR_TO_READ)
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
		rc = settle_unread(r, pair, rc, err);
		if (rc < 0)
			return rc;
	}
	return r->current != NULL;
}

static int read_stream(struct ckpt_job_side *side, uint32_t size, struct desk *desk, uint8_t *out,
		       struct ckpt_error *err)
{
	int rc = 0;

	if (!side->streamed)
		return 0;
	if (!side->stream)
		rc = ckpt_recipe_stream(&side->recipe, &side->stream, err);
	return rc < 0 ? rc : side->stream->read(side->stream, out, desk->count * size, err);
}

static int take(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct reading *r = (struct reading *)work;
	struct desk *desk = thread;
	int rc;

	if (r->block_count == MOST_BLOCKS || (!r->current && r->job_count == MOST_BLOCKS))
		return 0;
	while ((rc = next_job(r, err)) > 0) {
		struct ckpt_job *job = r->current;
		uint64_t left = job->count - job->next;

		if (!left || has_failed(r, job)) {
			ckpt_job_end_reading(job);
			r->current = NULL;
			if (r->job_count == MOST_BLOCKS)
				return 0;
			continue;
		}
		desk->job = job;
		desk->first = job->next;
		desk->count = left < job->block ? (size_t)left : job->block;
		rc = read_stream(&job->a, job->measure.a_size, desk, desk->a, err);
		if (rc == 0)
			rc = read_stream(&job->b, job->measure.b_size, desk, desk->b, err);
		if (rc < 0)
			rc = fail_job(r, job, rc, err);
		if (rc < 0)
			return rc;
		if (has_failed(r, job))
			continue;
		job->next += desk->count;
		desk->block = r->block_count++;
		job->block_count++;
		return 1;
	}
	return rc;
}

/* ---- comparing them ---- */

static int bytes_of(const struct ckpt_job_side *side, uint32_t size, const struct desk *desk,
		    uint8_t *buf, const uint8_t **out, struct ckpt_error *err)
{
	*out = buf;
	if (side->streamed)
		return 0;
	if (side->dense) {
		*out = side->dense + desk->first * size;
		return 0;
	}
	return ckpt_array_read(side->array, desk->first, desk->count, buf, err);
}

static int finish(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct reading *r = (struct reading *)work;
	struct desk *desk = thread;
	const struct ckpt_measure *m = &desk->job->measure;
	const uint8_t *a = NULL, *b = NULL;
	int rc = bytes_of(&desk->job->a, m->a_size, desk, desk->a, &a, err);

	if (rc == 0)
		rc = bytes_of(&desk->job->b, m->b_size, desk, desk->b, &b, err);
	if (rc < 0)
		return fail_job(r, desk->job, rc, err);
	ckpt_measure_items(m, a, b, desk->count, &r->parts[desk->block]);
	r->done += desk->count * (m->a_size + m->b_size);
	r->read += desk->count * (m->a_size + m->b_size);
	return 0;
}

static int tick(struct ckpt_work *work, struct ckpt_error *err)
{
	struct reading *r = (struct reading *)work;

	return ckpt_reading_tick(r->whole, r->done, err);
}

/* ---- putting together ---- */

static int end_job(const struct ckpt_comparison *c, struct ckpt_job *job, struct ckpt_error *err)
{
	struct ckpt_numbers *n = &job->sum;
	struct ckpt_pair *pair = job->pair;
	struct ckpt_numbers *kept;

	if (job->failed)
		return 0;
	n->count += job->zeros * job->measure.parts;
	n->finite += job->zeros * job->measure.parts;
	if (n->outside)
		pair->what |= CKPT_DIFFERS_VALUE;
	if (n->other_bits && ckpt_comparison_has(c, CKPT_DIFF_STRICT))
		pair->what |= CKPT_DIFFERS_BITS;
	pair->state = pair->what ? CKPT_PAIR_CHANGED : CKPT_PAIR_SAME;
	pair->has_numbers = job->measure.has_numbers;
	pair->has_ulp = job->measure.has_ulp;
	if (!pair->what && !n->differing && !n->other_bits)
		return 0;
	kept = ckpt_arena_alloc(c->arena, sizeof(*kept));
	if (!kept)
		return ckpt_arena_fail(c->arena, err);
	*kept = *n;
	pair->numbers = kept;
	return 0;
}

/* The blocks of this run; jobs that are done are closed. */
static int put_together(struct reading *r, struct ckpt_error *err)
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
			rc = end_job(r->c, job, err);
		ckpt_job_close(job);
		free(job);
	}
	r->job_count = r->block_count = 0;
	if (r->current)
		add_job(r, r->current);
	return rc;
}

static void give_up(struct reading *r)
{
	for (uint32_t i = 0; i < r->job_count; i++) {
		ckpt_job_close(r->jobs[i]);
		free(r->jobs[i]);
	}
}

static int run(struct reading *r, bool together, struct ckpt_error *err)
{
	int rc;

	do {
		rc = ckpt_workers_run(r->whole->workers, &r->work, together, err);
		if (rc == 0)
			rc = put_together(r, err);
	} while (rc == 0 && (r->current || r->next < r->count));
	if (rc < 0)
		give_up(r);
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
	size_t of_pairs = sizeof(struct desk), of_blocks = ckpt_block_buffer_size(0, 0);

	return whole->workers ? 0
			      : ckpt_workers_new(of_pairs > of_blocks ? of_pairs : of_blocks,
						 whole->c->options.threads, &whole->workers, err);
}

int ckpt_read_pairs(struct ckpt_diff_reading *whole, struct ckpt_pair *pairs, uint32_t count,
		    struct ckpt_error *err)
{
	struct reading r = { .work = { take, finish, tick },
			     .whole = whole,
			     .c = whole->c,
			     .pairs = pairs,
			     .count = count };
	uint64_t before = whole->total, nbytes = 0;
	uint32_t to_read = 0;
	int rc = 0;

	for (uint32_t i = 0; i < count; i++)
		if (pairs[i].state == CKPT_PAIR_TO_READ) {
			nbytes += ckpt_bytes_of_pair(whole->c, &pairs[i]);
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
		rc = run(&r, nbytes >= TOGETHER && nbytes / to_read >= SMALL, err);
	pthread_mutex_destroy(&r.lock);
	whole->nbytes += r.read;
	free(r.parts);
	free(r.jobs);
	return rc;
}
