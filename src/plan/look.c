/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/look.h"

#include "plan/moved.h"

#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
	BLOCK = CKPT_LOOK_BLOCK,
	TOGETHER = 1 << 20, /* waking threads for less costs more than it saves */
};

struct looking {
	struct ckpt_work work;
	const struct ckpt_look *look;
	uint64_t *first;	    /* by recipe: number of its first block among all */
	uint32_t *crcs;		    /* by block; NULL: not wanted */
	uint64_t next, pos;	    /* what is taken next: that recipe, from there on */
	struct ckpt_stream *stream; /* of it, if it cannot be read at any place */
	pthread_mutex_t lock;	    /* of FAILED */
	uint8_t *failed;	    /* bitmap by recipe */
	atomic_uint_fast64_t done;
};

/* A thread's own. */
struct desk {
	uint64_t i, pos;
	size_t len;
	uint8_t bytes[BLOCK];
};

size_t ckpt_look_desk(void)
{
	return sizeof(struct desk);
}

/* ---- failures ---- */

static bool set_failed(struct looking *l, uint64_t i)
{
	uint8_t bit = (uint8_t)(1 << (i & 7)), *byte = &l->failed[i >> 3];
	bool was = *byte & bit;

	*byte |= bit;
	return !was;
}

/* One recipe cannot be read, which need not end it all. */
static int give_up(struct looking *l, uint64_t i, int rc, const struct ckpt_error *err)
{
	if (!l->look->failed || rc == CKPT_E_NOMEM)
		return rc;
	pthread_mutex_lock(&l->lock);
	rc = set_failed(l, i) ? l->look->failed(l->look->ctx, i, rc, err) : 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* ---- blocks ---- */

static void close_stream(struct looking *l)
{
	if (l->stream)
		l->stream->close(l->stream);
	l->stream = NULL;
}

static int open_stream(struct looking *l, const struct ckpt_recipe *recipe, struct ckpt_error *err)
{
	bool at_any_place =
		recipe->kind == CKPT_RECIPE_EXTENT && !ckpt_source_is_sequential(recipe->src);

	return at_any_place || l->stream ? 0 : ckpt_recipe_stream(recipe, &l->stream, err);
}

static void next_recipe(struct looking *l)
{
	close_stream(l);
	l->next++;
	l->pos = 0;
}

static int take(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct looking *l = (struct looking *)work;
	struct desk *desk = thread;

	while (l->next < l->look->count) {
		const struct ckpt_recipe *recipe = &l->look->recipes[l->next];
		uint64_t left = recipe->len - l->pos;
		int rc;

		if (!left) {
			next_recipe(l);
			continue;
		}
		desk->i = l->next;
		desk->pos = l->pos;
		desk->len = left < BLOCK ? (size_t)left : BLOCK;
		rc = open_stream(l, recipe, err);
		if (rc == 0 && l->stream)
			rc = l->stream->read(l->stream, desk->bytes, desk->len, err);
		l->pos += desk->len;
		if (rc == 0)
			return 1;
		rc = give_up(l, l->next, rc, err);
		if (rc < 0)
			return rc;
		next_recipe(l);
	}
	return 0;
}

static bool is_streamed(const struct ckpt_recipe *recipe)
{
	return recipe->kind != CKPT_RECIPE_EXTENT || ckpt_source_is_sequential(recipe->src);
}

static int finish(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct looking *l = (struct looking *)work;
	struct desk *desk = thread;
	const struct ckpt_recipe *recipe = &l->look->recipes[desk->i];
	int rc = 0;

	if (!is_streamed(recipe))
		rc = ckpt_source_read(recipe->src, recipe->off + desk->pos, desk->bytes, desk->len,
				      err);
	l->done += desk->len;
	if (rc < 0)
		return give_up(l, desk->i,
			       ckpt_error_at(err, rc, ckpt_source_path(recipe->src), NULL,
					     CKPT_NO_OFFSET),
			       err);
	if (l->crcs)
		l->crcs[l->first[desk->i] + desk->pos / BLOCK] =
			libdeflate_crc32(0, desk->bytes, desk->len);
	if (l->look->see)
		l->look->see(l->look->ctx, desk->i, desk->pos, desk->bytes, desk->len);
	return 0;
}

static int tick(struct ckpt_work *work, struct ckpt_error *err)
{
	struct looking *l = (struct looking *)work;

	return l->look->tick ? l->look->tick(l->look->ctx, l->done, err) : 0;
}

/* ---- the whole ---- */

static void join_crcs(const struct looking *l)
{
	for (uint64_t i = 0; i < l->look->count; i++) {
		uint64_t len = l->look->recipes[i].len;
		const uint32_t *crc = &l->crcs[l->first[i]];
		uint32_t all = 0;

		for (uint64_t pos = 0; pos < len; pos += BLOCK, crc++)
			all = ckpt_join_crc(all, *crc, len - pos < BLOCK ? len - pos : BLOCK);
		l->look->crc32[i] = all;
	}
}

/* *BYTES: of all recipes. */
static int prepare(struct looking *l, uint64_t *bytes, struct ckpt_error *err)
{
	uint64_t blocks = 0, count = l->look->count;

	*bytes = 0;
	l->first = malloc((count + 1) * sizeof(*l->first));
	l->failed = calloc(count / 8 + 1, 1);
	if (!l->first || !l->failed)
		return ckpt_fail_nomem(err);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t len = l->look->recipes[i].len;

		l->first[i] = blocks;
		blocks += len / BLOCK + (len % BLOCK != 0);
		*bytes += len;
	}
	if (!l->look->crc32)
		return 0;
	l->crcs = calloc(blocks + 1, sizeof(*l->crcs));
	return l->crcs ? 0 : ckpt_fail_nomem(err);
}

int ckpt_look_run(struct ckpt_workers *workers, const struct ckpt_look *look,
		  struct ckpt_error *err)
{
	struct looking l = { .work = { take, finish, tick }, .look = look };
	struct ckpt_error local = CKPT_ERROR_INIT;
	uint64_t bytes;
	int rc = prepare(&l, &bytes, err);

	pthread_mutex_init(&l.lock, NULL);
	if (rc == 0)
		rc = ckpt_workers_run(workers, &l.work, bytes >= TOGETHER, err ? err : &local);
	if (rc == 0 && l.crcs)
		join_crcs(&l);
	close_stream(&l);
	pthread_mutex_destroy(&l.lock);
	free(l.first);
	free(l.failed);
	free(l.crcs);
	return rc;
}
