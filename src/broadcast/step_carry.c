/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/steps.h"

#include "base/clock.h"
#include "broadcast/votes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes, in chunks, and the votes between them. */

enum { UNWRITTEN = 4 };
uint64_t ckpt_step_vote_every = 1 << 30;

/* The first error of reading or writing here, if any. */
static int ring_error(struct ckpt_session *s, int *code)
{
	int rc = ckpt_ring_failed(s->ring, true, &s->err);

	*code = CKPT_BROADCAST_SOURCE;
	if (rc == 0) {
		rc = ckpt_ring_failed(s->ring, false, &s->err);
		*code = rc == CKPT_E_FORMAT ? CKPT_BROADCAST_DAMAGED : CKPT_BROADCAST_DESTINATION;
	}
	return rc;
}

static int vote_on_the_way(void *ctx)
{
	struct ckpt_session *s = ctx;
	int code, rc = ring_error(s, &code);

	return ckpt_session_agree(s, rc, code);
}

static void show_progress(void *ctx, uint64_t done)
{
	struct ckpt_session *s = ctx;

	if (s->o.progress && s->world.rank == 0)
		s->o.progress(s->o.progress_ctx, done, s->manifest.total);
}

/* A directory's files lie below it, each other source is a file itself. */
static int list_sources(struct ckpt_session *s)
{
	s->paths = calloc(s->manifest.count, sizeof(char *));
	for (uint32_t i = 0; s->paths && i < s->manifest.count; i++) {
		if (s->manifest.is_directory) {
			if (asprintf(&s->paths[i], "%s/%s", s->sources[0],
				     s->manifest.files[i].path) < 0)
				s->paths[i] = NULL;
		} else {
			s->paths[i] = strdup(s->sources[i]);
		}
		if (!s->paths[i])
			return ckpt_fail_nomem(&s->err);
	}
	return s->paths ? 0 : ckpt_fail_nomem(&s->err);
}

/* Past the page cache: of its own accord only into page-locked memory, where copying out of it is what takes the time. */
static enum ckpt_direct choose_direct(const struct ckpt_session *s)
{
	if (s->o.flags & (CKPT_BROADCAST_DIRECT | CKPT_BROADCAST_CACHED))
		return s->o.flags & CKPT_BROADCAST_DIRECT ? CKPT_DIRECT_ALWAYS : CKPT_DIRECT_NEVER;
	return s->agreement.transport->ops->is_on_gpu ? CKPT_DIRECT_AUTO : CKPT_DIRECT_NEVER;
}

static int open_ring(struct ckpt_session *s)
{
	bool writes = !(s->o.flags & (CKPT_BROADCAST_NO_TARGET | CKPT_BROADCAST_TO_GPU));
	uint64_t vote_every = ckpt_step_vote_every * (writes ? 1 : UNWRITTEN) / s->o.chunk;
	struct ckpt_ring_options options = {
		.transport = s->agreement.transport,
		.manifest = &s->manifest,
		.landing = s->landing,
		.slab = s->gpu ? s->gpu->slab : NULL,
		.chunk = (size_t)s->o.chunk,
		.depth = s->o.depth,
		.threads = s->o.threads,
		.readers = s->o.readers,
		.rate = s->o.bandwidth / s->o.readers,
		.direct = choose_direct(s),
		.crc = !(s->o.flags & CKPT_BROADCAST_NO_VERIFY),
		.cancel = s->o.cancel,
		.stall_nsec = s->agreement.patience_nsec,
		.vote_every = vote_every ? vote_every : 1,
		.vote = vote_on_the_way,
		.progress = show_progress,
		.ctx = s,
	};
	int rc = list_sources(s);

	options.sources = (const char *const *)s->paths;
	return rc < 0 ? rc : ckpt_ring_new(&options, &s->ring, &s->err);
}

int ckpt_step_carry(struct ckpt_session *s)
{
	int rc = open_ring(s), code;

	if (ckpt_session_agree(s, rc, CKPT_BROADCAST_SETUP))
		return s->code;
	s->carry_start = ckpt_now_nsec();
	rc = ckpt_ring_run(s->ring, &s->err);
	if (rc < 0) {
		s->agreement.broken = true;
		return ckpt_session_agree(s, rc, CKPT_BROADCAST_LOST);
	}
	if (s->code) /* agreed upon on the way */
		return s->code;
	rc = ring_error(s, &code);
	return ckpt_session_agree(s, rc, code);
}
