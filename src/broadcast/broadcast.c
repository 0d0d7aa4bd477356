/* SPDX-License-Identifier: Apache-2.0 */
#include <ckpt/broadcast.h>

#include "base/clock.h"
#include "base/sized.h"
#include "broadcast/agree.h"
#include "broadcast/destination.h"
#include "broadcast/open_transport.h"
#include "broadcast/ring.h"
#include "broadcast/session.h"
#include "broadcast/transport_user.h"

#include <libdeflate.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The protocol. All ranks take the same steps; what fails on one of them is a code that it brings to the next
 * vote, never a step that it leaves out:
 *
 *   the same wishes?   vote
 *   rank 0 looks at the sources and tells what there is   vote
 *   everybody looks at its destination: is it there already?   vote
 *   the bytes, in chunks; now and then a   vote
 *   sync, checksums compared   vote
 *   names   vote
 */

enum {
	CHUNK = 4
		<< 20, /* stays in a cache between processes of a node; longer ones were slower over MPI */
	GPU_CHUNK = 64 << 20, /* the start of a broadcast on the GPU costs as much as some MB */
	LEAST_CHUNK = 1 << 20,
	MOST_CHUNK = 1 << 30,
	DEPTH = 4,
	THREADS = 4,
	MOST_THREADS = 64,
	VOTE_EVERY = 1 << 30, /* bytes */
	PATIENCE_S = 60,
	MOST_MANIFEST = 1 << 30,
};

static const unsigned NO_FILES = CKPT_BROADCAST_NO_TARGET | CKPT_BROADCAST_TO_GPU;

/* ---- what is wrong on this rank ---- */

static void error_text(const struct ckpt_error *err, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s", err->path, *err->path ? ": " : "", err->text);
}

/* Bring CODE, and what ERR says, to a vote; what comes of it is the session's code. */
static int agree(struct ckpt_session *s, int rc, int code)
{
	char text[900] = "";
	int cancelled = s->o.cancel ? *(const atomic_int *)s->o.cancel : 0;

	if (rc == CKPT_E_PEER)
		code = CKPT_BROADCAST_LOST;
	if (cancelled && !s->named) {
		rc = ckpt_fail(&s->err, CKPT_E_CANCELLED, "interrupted, nothing was written");
		code = CKPT_BROADCAST_CANCELLED + cancelled;
	}
	if (rc < 0)
		error_text(&s->err, text, sizeof(text));
	s->code = ckpt_agree(&s->agreement, rc < 0 ? code : 0, text);
	return s->code;
}

/* ---- the steps ---- */

uint64_t ckpt_session_wishes(const struct ckpt_session *s)
{
	uint64_t numbers[] = {
		1 /* of this protocol */, s->o.chunk,	s->o.depth, s->o.readers, s->o.flags,
		s->source_count,	  s->world.size
	};

	return (uint64_t)libdeflate_crc32(0, numbers, sizeof(numbers)) << 32 |
	       libdeflate_crc32(1, s->wish, strlen(s->wish));
}

static int compare_wishes(struct ckpt_session *s)
{
	bool same = true;
	int rc = ckpt_agree_same(&s->agreement, ckpt_session_wishes(s), &same, &s->err);

	if (rc == 0 && !same)
		rc = ckpt_fail(
			&s->err, CKPT_E_ARG,
			"the ranks were started with different options, or are different versions "
			"of ckpt");
	return agree(s, rc, CKPT_BROADCAST_SETUP);
}

/* Rank 0 tells what there is. */
static int share_manifest(struct ckpt_session *s)
{
	bool is_first = s->world.rank == 0;
	struct ckpt_buf bytes = { 0 };
	uint64_t len;
	int rc = 0;

	if (is_first)
		rc = ckpt_manifest_make(s->sources, s->source_count, &s->manifest, &s->err);
	if (is_first && rc == 0)
		rc = ckpt_manifest_write(&s->manifest, &bytes, &s->err);
	if (agree(s, rc, CKPT_BROADCAST_SOURCE)) {
		ckpt_buf_clear(&bytes);
		return s->code;
	}
	len = bytes.len;
	rc = ckpt_agree_send(&s->agreement, &len, sizeof(len), 0, &s->err);
	if (rc == 0 && !is_first) {
		uint8_t *room = len <= MOST_MANIFEST ? ckpt_buf_grow(&bytes, (size_t)len) : NULL;

		rc = room ? 0 : ckpt_fail_nomem(&s->err);
	}
	/* a rank without memory is heard of before the others send */
	if (agree(s, rc, CKPT_BROADCAST_SETUP) == 0) {
		rc = ckpt_agree_send(&s->agreement, bytes.data, (size_t)len, 0, &s->err);
		if (rc == 0 && !is_first)
			rc = ckpt_manifest_read(bytes.data, (size_t)len, &s->manifest, &s->err);
		agree(s, rc, CKPT_BROADCAST_SETUP);
	}
	ckpt_buf_clear(&bytes);
	return s->code;
}

static bool writes(const struct ckpt_session *s)
{
	return !(s->o.flags & NO_FILES) &&
	       (s->world.local_rank == 0 || ckpt_destination_is_per_rank(s->wish));
}

static int refuse_own_source(struct ckpt_session *s)
{
	struct stat st;

	for (uint32_t i = 0; i < s->manifest.count; i++) {
		const struct ckpt_manifest_file *f = &s->manifest.files[i];

		if (!s->manifest.is_directory && s->world.rank == 0 && stat(s->path, &st) == 0 &&
		    st.st_dev == f->dev && st.st_ino == f->ino)
			return ckpt_error_at(
				&s->err,
				ckpt_fail(&s->err, CKPT_E_OUTPUT,
					  "is the source itself, wanted another destination"),
				s->path, NULL, CKPT_NO_OFFSET);
	}
	return 0;
}

static int open_landing(struct ckpt_session *s)
{
	unsigned flags = (s->o.flags & CKPT_BROADCAST_NEW ? 0u : CKPT_LANDING_REPLACE) |
			 (s->o.flags & CKPT_BROADCAST_NO_SYNC ? CKPT_LANDING_NO_SYNC : 0u);
	int rc = refuse_own_source(s);

	return rc < 0 ? rc : ckpt_landing_open(&s->manifest, s->path, flags, &s->landing, &s->err);
}

int ckpt_session_gpu(struct ckpt_session *s, uint32_t *ordinal)
{
	struct ckpt_cuda_facts facts;

	if (s->o.gpu < 0) {
		ckpt_cuda_look(&facts);
		if (facts.gpu_count > 0) /* each process may be shown its own GPU only */
			*ordinal = s->world.local_rank % (uint32_t)facts.gpu_count;
		else
			*ordinal = 0; /* opening it says what is wrong */
		return 0;
	}
	if (s->o.gpu > INT32_MAX)
		return ckpt_fail(&s->err, CKPT_E_ARG, "there is no GPU %lld", (long long)s->o.gpu);
	*ordinal = (uint32_t)s->o.gpu;
	return 0;
}

/* Room for all bytes on this rank's GPU. */
static int open_gpu(struct ckpt_session *s)
{
	uint32_t count = s->manifest.count, ordinal = 0;
	const char **paths = calloc(count + (size_t)1, sizeof(*paths));
	uint64_t *sizes = calloc(count + (size_t)1, sizeof(*sizes));
	int rc = paths && sizes ? ckpt_session_gpu(s, &ordinal) : ckpt_fail_nomem(&s->err);

	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		paths[i] = s->manifest.files[i].path;
		sizes[i] = s->manifest.files[i].size;
	}
	if (rc == 0)
		rc = ckpt_gpu_copy_new(ordinal, paths, sizes, count, s->manifest.is_directory,
				       &s->gpu, &s->err);
	free(paths);
	free(sizes);
	return rc;
}

/* Is it there on all nodes? Then nothing is left to do. Where it is there nothing is written. */
static int look_at_destination(struct ckpt_session *s)
{
	bool reuses = !(s->o.flags & (CKPT_BROADCAST_NEW | CKPT_BROADCAST_REPLACE)), has = false;
	int rc = 0;

	if (s->o.flags & CKPT_BROADCAST_TO_GPU) {
		rc = open_gpu(s);
		return agree(s, rc,
			     rc == CKPT_E_UNSUPPORTED ? CKPT_BROADCAST_NO_TRANSPORT
						      : CKPT_BROADCAST_DESTINATION);
	}
	if (writes(s))
		rc = ckpt_destination(s->wish, &s->world, s->sources[0], s->source_count, &s->path,
				      &s->err);
	if (rc == 0 && s->path && reuses)
		has = ckpt_staged_is_same(&s->manifest, s->path);
	if (rc == 0 && s->path && !has)
		rc = open_landing(s);
	if (agree(s, rc, CKPT_BROADCAST_DESTINATION))
		return s->code;
	if (!(s->o.flags & NO_FILES))
		rc = ckpt_agree_all(&s->agreement, has || !writes(s), &s->reused, &s->err);
	return rc < 0 ? agree(s, rc, CKPT_BROADCAST_LOST) : 0;
}

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

	return agree(s, rc, code);
}

static void show_progress(void *ctx, uint64_t done)
{
	struct ckpt_session *s = ctx;

	if (s->o.progress)
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

static int open_ring(struct ckpt_session *s)
{
	uint64_t vote_every = VOTE_EVERY / s->o.chunk;
	struct ckpt_ring_options options = {
		.transport = s->agreement.transport,
		.manifest = &s->manifest,
		.landing = s->landing,
		.slab = s->gpu ? s->gpu->slab : NULL,
		.chunk = (size_t)s->o.chunk,
		.depth = s->o.depth,
		.threads = s->o.threads,
		.readers = s->o.readers,
		.crc = !(s->o.flags & CKPT_BROADCAST_NO_VERIFY),
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

static int carry(struct ckpt_session *s)
{
	int rc = open_ring(s), code;

	if (agree(s, rc, CKPT_BROADCAST_SETUP))
		return s->code;
	rc = ckpt_ring_run(s->ring, &s->err);
	if (rc < 0) {
		s->agreement.broken = true;
		return agree(s, rc, CKPT_BROADCAST_LOST);
	}
	if (s->code) /* agreed upon on the way */
		return s->code;
	rc = ring_error(s, &code);
	return agree(s, rc, code);
}

/* Rank 0 says what came by there: everybody has to have seen the same. */
static int compare_crcs(struct ckpt_session *s)
{
	uint32_t *crcs, mine, firsts;
	int rc = 0;

	if (s->o.flags & CKPT_BROADCAST_NO_VERIFY)
		return 0;
	s->crcs = crcs = calloc(s->manifest.count, sizeof(*crcs));
	if (crcs)
		ckpt_ring_crcs(s->ring, crcs);
	else
		rc = ckpt_fail_nomem(&s->err);
	if (agree(s, rc, CKPT_BROADCAST_SETUP))
		return s->code;
	mine = firsts = libdeflate_crc32(0, crcs, s->manifest.count * sizeof(*crcs));
	rc = ckpt_agree_send(&s->agreement, &firsts, sizeof(firsts), 0, &s->err);
	if (rc == 0 && mine != firsts)
		rc = ckpt_fail(&s->err, CKPT_E_FORMAT,
			       "other bytes came than rank 0 has: memory or network is broken");
	return agree(s, rc, CKPT_BROADCAST_DAMAGED);
}

/* Who read looks whether the sources are still what they were. */
static int check_sources(struct ckpt_session *s)
{
	for (uint32_t i = 0; s->world.rank < s->o.readers && i < s->manifest.count; i++) {
		const struct ckpt_manifest_file *f = &s->manifest.files[i];
		struct stat st;

		if (stat(s->paths[i], &st) == 0 && (uint64_t)st.st_size == f->size &&
		    st.st_ino == f->ino && st.st_mtim.tv_sec == f->mtime_sec &&
		    (uint32_t)st.st_mtim.tv_nsec == f->mtime_nsec)
			continue;
		return ckpt_error_at(&s->err,
				     ckpt_fail(&s->err, CKPT_E_CHANGED,
					       "was changed during the broadcast"),
				     s->paths[i], NULL, CKPT_NO_OFFSET);
	}
	return 0;
}

static int finish(struct ckpt_session *s)
{
	int rc = s->landing ? ckpt_landing_finish(s->landing, &s->err) : 0;

	if (agree(s, rc, CKPT_BROADCAST_DESTINATION) || compare_crcs(s))
		return s->code;
	rc = check_sources(s);
	return agree(s, rc, CKPT_BROADCAST_SOURCE);
}

/* A node that dies between its name and this vote leaves a whole, checked file. */
static int give_names(struct ckpt_session *s)
{
	int rc = 0;

	s->named = true;
	if (s->landing) {
		struct ckpt_landing *landing = s->landing;

		s->landing = NULL;
		ckpt_staged_forget(&s->manifest, s->path);
		rc = ckpt_landing_commit(landing, &s->err);
		if (rc == 0)
			rc = ckpt_staged_note(&s->manifest, s->path, s->crcs, &s->err);
	}
	return agree(s, rc, CKPT_BROADCAST_DESTINATION);
}

static int run(struct ckpt_session *s)
{
	if (s->standard_chunk && s->agreement.transport->ops->is_on_gpu)
		s->o.chunk = GPU_CHUNK;
	if (compare_wishes(s) || share_manifest(s))
		return s->code;
	if (s->o.chunk >
	    s->manifest.total / 4 + LEAST_CHUNK) /* a small source: still several chunks */
		s->o.chunk = (s->manifest.total / 4 / LEAST_CHUNK + 1) * LEAST_CHUNK;
	if (look_at_destination(s) || s->reused)
		return s->code;
	if (carry(s) || finish(s))
		return s->code;
	return give_names(s);
}

/* ---- around them ---- */

static uint64_t or_else(uint64_t value, uint64_t standard)
{
	return value ? value : standard;
}

static int read_options(struct ckpt_session *s, const struct ckpt_broadcast_options *given)
{
	static const struct ckpt_broadcast_options standard = CKPT_BROADCAST_OPTIONS_INIT;
	struct ckpt_broadcast_options *o = &s->o;

	int rc;

	*o = standard;
	rc = ckpt_sized_take(o, sizeof(*o), given, &s->err);
	if (rc < 0)
		return rc;
	s->standard_chunk = !o->chunk;
	o->chunk = or_else(o->chunk, CHUNK);
	o->depth = (uint32_t)or_else(o->depth, DEPTH);
	o->threads = (uint32_t)or_else(o->threads, THREADS);
	o->readers = (uint32_t)or_else(o->readers, 1);
	if (o->timeout_s <= 0)
		o->timeout_s = PATIENCE_S;
	if (o->chunk < 4096 || o->chunk > MOST_CHUNK || o->chunk % 4096)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "chunks are whole pages (4 KiB) of up to 1 GiB");
	if (o->depth > CKPT_MOST_FLYING || o->threads > MOST_THREADS)
		return ckpt_fail(&s->err, CKPT_E_ARG, "at most %d chunks in memory and %d threads",
				 CKPT_MOST_FLYING, MOST_THREADS);
	return 0;
}

static uint64_t patience_nsec(const struct ckpt_session *s)
{
	return (uint64_t)(s->o.timeout_s * 1000000000.0);
}

static void fill_report(struct ckpt_session *s, struct ckpt_broadcast_report *report,
			uint64_t start)
{
	struct ckpt_broadcast_report r = CKPT_BROADCAST_REPORT_INIT;

	r.code = s->code;
	r.rank = s->world.rank;
	r.world_size = s->world.size;
	r.local_rank = s->world.local_rank;
	r.launcher = s->world.launcher ? s->world.launcher : "none";
	r.transport = s->agreement.transport ? s->agreement.transport->ops->name : "";
	r.failed_rank = s->code ? s->agreement.failed_rank : 0;
	r.reused = s->code == 0 && s->reused;
	r.files = s->manifest.count;
	r.nbytes = s->manifest.total;
	r.has_crc = s->code == 0 && s->crcs && s->manifest.count == 1;
	r.crc32 = r.has_crc ? s->crcs[0] : 0;
	r.seconds = (double)(ckpt_now_nsec() - start) / 1e9;
	snprintf(r.host, sizeof(r.host), "%s", s->agreement.host);
	if (s->code == 0 && report && report->size >= sizeof(*report)) {
		r.gpu = s->gpu;
		s->gpu = NULL;
	}
	if (s->path && s->code == 0)
		snprintf(r.path, sizeof(r.path), "%s", s->path);
	ckpt_sized_give(report, &r);
}

static void clear(struct ckpt_session *s)
{
	struct ckpt_transport *t = s->agreement.transport;
	struct ckpt_watchdog *watchdog = NULL;
	char what[40];
	bool hangs;

	if (t) {
		snprintf(what, sizeof(what), "the end of %s", t->ops->name);
		watchdog = ckpt_session_watch(s, s->code, what);
	}
	if (t && s->agreement.broken)
		t->ops->abort(t);
	hangs = t && t->hangs;
	ckpt_ring_free(s->ring);
	ckpt_landing_discard(s->landing);
	if (!hangs) /* to free it would be to wait for what hangs */
		ckpt_gpu_copy_free(s->gpu);
	ckpt_agreement_close(&s->agreement);
	for (uint32_t i = 0; s->paths && i < s->manifest.count; i++)
		free(s->paths[i]);
	free(s->paths);
	free(s->path);
	free(s->crcs);
	ckpt_manifest_clear(&s->manifest);
	if (t)
		t->ops->close(t);
	if (hangs)
		s->cuda = NULL;
	ckpt_session_leave(s);
	ckpt_watchdog_stop(watchdog);
}

/* What all ranks were told; a rank's own error is that, too, in its own words. */
static int outcome(struct ckpt_session *s, struct ckpt_error *err)
{
	if (s->code == 0)
		return 0;
	if (s->agreement.transport && s->agreement.text[0] &&
	    (s->agreement.failed_rank != s->world.rank || s->world.size > 1 || !s->err.text[0]))
		ckpt_fail(&s->err, CKPT_E_PEER, "%s", s->agreement.text);
	if (s->code == CKPT_BROADCAST_LOST)
		ckpt_session_add_silent(s);
	if (err)
		*err = s->err;
	return s->err.status ? s->err.status : CKPT_E_PEER;
}

int ckpt_broadcast_over(struct ckpt_session *s, struct ckpt_transport *transport,
			struct ckpt_broadcast_report *report, struct ckpt_error *err)
{
	uint64_t start = ckpt_now_nsec();
	int rc = ckpt_agreement_open(&s->agreement, transport, patience_nsec(s), &s->err);

	if (rc < 0)
		s->code = CKPT_BROADCAST_SETUP;
	else
		run(s);
	fill_report(s, report, start);
	rc = outcome(s, err);
	clear(s);
	return rc;
}

int ckpt_session_init(struct ckpt_session *s, const char *const *sources, size_t count,
		      const char *destination, const struct ckpt_broadcast_options *options)
{
	int rc;

	*s = (struct ckpt_session){ .sources = sources,
				    .source_count = count,
				    .wish = destination ? destination : "",
				    .err = CKPT_ERROR_INIT };
	rc = read_options(s, options);
	if (rc == 0 && s->o.collectives)
		rc = ckpt_collectives_take(s->o.collectives, &s->collectives, &s->err);
	return rc;
}

int ckpt_broadcast(const char *const *sources, size_t count, const char *destination,
		   const struct ckpt_broadcast_options *options,
		   struct ckpt_broadcast_report *report, struct ckpt_error *err)
{
	struct ckpt_transport *transport = NULL;
	struct ckpt_session s;
	int rc = ckpt_session_init(&s, sources, count, destination, options);

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(*report), &s.err);
	s.code = CKPT_BROADCAST_SETUP;
	if (rc == 0)
		rc = ckpt_session_find_world(&s);
	if (rc == 0)
		rc = ckpt_session_open_transport(&s, &transport);
	if (rc < 0) {
		fill_report(&s, report, ckpt_now_nsec());
		rc = outcome(&s, err);
		ckpt_session_leave(&s);
		return rc;
	}
	s.code = 0;
	return ckpt_broadcast_over(&s, transport, report, err);
}
