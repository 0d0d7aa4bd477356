/* SPDX-License-Identifier: Apache-2.0 */
#include <ckpt/broadcast.h>

#include "base/clock.h"
#include "base/paths.h"
#include "base/sized.h"
#include "broadcast/agree.h"
#include "broadcast/destination.h"
#include "broadcast/open_transport.h"
#include "broadcast/parents.h"
#include "broadcast/reread.h"
#include "broadcast/ring.h"
#include "broadcast/room.h"
#include "broadcast/session.h"
#include "broadcast/transport_user.h"
#include "broadcast/undo.h"
#include "broadcast/watchdog.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <libgen.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	CHUNK = 1 << 20,      /* some of them stay in a cache between processes of a node */
	GPU_CHUNK = 64 << 20, /* the start of a broadcast on the GPU costs as much as some MB */
	LEAST_CHUNK = 1 << 20,
	MOST_CHUNK = 1 << 30,
	LEAST_DEPTH = 4,
	MEMORY = 16 << 20,	/* of all chunks, where the least depth allows it */
	GPU_MEMORY = 384 << 20, /* all threads can read while chunks are on their way */
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
	char said[sizeof(err->text)];

	snprintf(text, size, "%s%s%s", err->path, *err->path ? ": " : "", ckpt_error_text(err, said, sizeof(said)));
}

static bool writes(const struct ckpt_session *s)
{
	return !(s->o.flags & CKPT_BROADCAST_NO_TARGET) &&
	       (s->world.local_rank == 0 || ckpt_destination_is_per_rank(s->wish));
}

/* A rank that cannot write goes on without, if that was wished, and says so in the end. */
static bool drops_out(struct ckpt_session *s, int code)
{
	if (!(s->o.flags & CKPT_BROADCAST_KEEP_GOING) || code != CKPT_BROADCAST_DESTINATION ||
	    !writes(s))
		return false;
	if (!s->dropped)
		error_text(&s->err, s->dropped_text, sizeof(s->dropped_text));
	s->dropped = true;
	return true;
}

typedef int vote_fn(struct ckpt_agreement *agreement, int code, const char *text);

/* Bring CODE, and what ERR says, to a vote; what comes of it is the session's code. */
static int agree_by(vote_fn *vote, struct ckpt_session *s, int rc, int code)
{
	char text[900] = "";
	int cancelled = s->o.cancel ? *(const atomic_int *)s->o.cancel : 0;

	if (rc == CKPT_E_PEER)
		code = CKPT_BROADCAST_LOST;
	if (cancelled && !s->named) {
		rc = ckpt_fail(&s->err, CKPT_E_CANCELLED, "interrupted, nothing was written");
		code = CKPT_BROADCAST_CANCELLED + cancelled;
	}
	if (rc < 0 && drops_out(s, code))
		rc = 0;
	if (rc < 0)
		error_text(&s->err, text, sizeof(text));
	s->code = vote(&s->agreement, rc < 0 ? code : 0, text);
	return s->code;
}

static int agree(struct ckpt_session *s, int rc, int code)
{
	return agree_by(ckpt_agree, s, rc, code);
}

/* Those who dropped out say why. */
static int tell_dropped(struct ckpt_session *s, int code)
{
	if (s->o.flags & CKPT_BROADCAST_KEEP_GOING)
		s->code = ckpt_agree_listing(&s->agreement, s->dropped ? code : 0, s->dropped_text);
	return s->code;
}

/* Has everybody who writes dropped out? */
static int check_who_is_left(struct ckpt_session *s)
{
	bool nobody = false;
	int rc = 0;

	if (s->o.flags & CKPT_BROADCAST_KEEP_GOING)
		rc = ckpt_agree_all(&s->agreement, s->dropped || !writes(s), &nobody, &s->err);
	if (rc < 0)
		return agree(s, rc, CKPT_BROADCAST_LOST);
	return nobody ? tell_dropped(s, CKPT_BROADCAST_DESTINATION) : 0;
}

/* ---- the steps ---- */

uint64_t ckpt_session_wishes(const struct ckpt_session *s)
{
	uint64_t numbers[] = {
		2 /* of this protocol: over MPI chunks go from rank to rank */,
		s->o.chunk,
		s->o.depth,
		s->o.readers,
		s->o.flags,
		s->source_count,
		s->world.size,
		s->o.has_expected,
		s->o.expected_crc32,
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

/* A checksum is that of one file. */
static int check_expected(struct ckpt_session *s)
{
	int rc = 0;

	if (!s->o.has_expected)
		return 0;
	if (s->manifest.is_directory || s->manifest.count > 1)
		rc = ckpt_fail(&s->err, CKPT_E_ARG,
			       "a checksum is expected, which is that of one file: found %u%s",
			       s->manifest.count,
			       s->manifest.is_directory ? " in a directory" : "");
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

static int fail_own_source(struct ckpt_session *s)
{
	return ckpt_error_at(&s->err,
			     ckpt_fail(&s->err, CKPT_E_OUTPUT,
				       "is the source itself, wanted another destination"),
			     s->path, NULL, CKPT_NO_OFFSET);
}

/* Is the destination the directory that is broadcast, or in it? It need not be there yet. */
static bool is_in_source(const struct ckpt_session *s)
{
	char *path = strdup(s->path);
	bool is_in = path && (ckpt_is_below(path, s->sources[0]) ||
			      (access(path, F_OK) < 0 &&
			       ckpt_is_below(dirname(path), s->sources[0])));

	free(path);
	return is_in;
}

static int refuse_own_source(struct ckpt_session *s)
{
	struct stat st;

	if (s->manifest.is_directory && s->world.rank == 0 && is_in_source(s))
		return fail_own_source(s);
	for (uint32_t i = 0; i < s->manifest.count; i++) {
		const struct ckpt_manifest_file *f = &s->manifest.files[i];

		if (!s->manifest.is_directory && s->world.rank == 0 && stat(s->path, &st) == 0 &&
		    st.st_dev == f->dev && st.st_ino == f->ino)
			return fail_own_source(s);
	}
	return 0;
}

/* The destination of several files is a folder itself. */
static int make_parents(struct ckpt_session *s)
{
	const char *slash = strrchr(s->path, '/');

	if (!s->manifest.is_directory && s->manifest.count > 1)
		s->folder = strdup(s->path);
	else if (slash && slash > s->path)
		s->folder = strndup(s->path, (size_t)(slash - s->path));
	else
		return 0;
	return s->folder ? ckpt_parents_make(s->folder, &s->made, &s->err)
			 : ckpt_fail_nomem(&s->err);
}

static int open_landing(struct ckpt_session *s)
{
	unsigned flags = (s->o.flags & CKPT_BROADCAST_NEW ? 0u : CKPT_LANDING_REPLACE) |
			 (s->o.flags & CKPT_BROADCAST_NO_SYNC ? CKPT_LANDING_NO_SYNC : 0u);
	int rc = refuse_own_source(s);

	if (rc == 0 && s->o.flags & CKPT_BROADCAST_MKDIR)
		rc = make_parents(s);
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
	int rc = 0, room;

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
		has = ckpt_staged_is_same(&s->manifest, s->path,
					  s->o.has_expected ? &s->o.expected_crc32 : NULL);
	room = ckpt_room_check(&s->agreement, &s->manifest, rc == 0 && !has ? s->path : NULL,
			       ckpt_destination_is_per_rank(s->wish), s->o.depth * s->o.chunk,
			       rc == 0 ? &s->err : NULL);
	rc = rc == 0 ? room : rc;
	if (rc == 0 && s->path && !has)
		rc = open_landing(s);
	if (agree_by(ckpt_agree_listing, s, rc, CKPT_BROADCAST_DESTINATION) || check_who_is_left(s))
		return s->code;
	rc = 0;
	if (!(s->o.flags & NO_FILES))
		rc = ckpt_agree_all(&s->agreement, has || !writes(s) || s->dropped, &s->reused,
				    &s->err);
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

/*
 * The first rank says what came by there, and everybody has to have seen the same. Who does not write any more has
 * not looked at everything.
 */
static int compare_crcs(struct ckpt_session *s)
{
	uint32_t *crcs, mine, firsts, first = 0;
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
	rc = ckpt_agree_first(&s->agreement, !s->dropped, &first, &s->err);
	if (rc == 0)
		rc = ckpt_agree_send(&s->agreement, &firsts, sizeof(firsts), first, &s->err);
	if (rc == 0 && mine != firsts && !s->dropped)
		rc = ckpt_fail(&s->err, CKPT_E_FORMAT,
			       "other bytes came than rank %u has: memory or network is broken",
			       first);
	if (rc == 0 && s->o.has_expected && crcs[0] != s->o.expected_crc32 && !s->dropped)
		rc = ckpt_error_at(&s->err,
				   ckpt_fail(&s->err, CKPT_E_FORMAT,
					     "has crc32 %08" PRIx32 ", wanted %08" PRIx32, crcs[0],
					     s->o.expected_crc32),
				   s->sources[0], NULL, CKPT_NO_OFFSET);
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

/* One stretch of it, a part of what the others wait for. */
static int reread_some(struct ckpt_session *s, struct ckpt_reread *reread, bool *done, int *code)
{
	int rc = ckpt_reread_go(reread, s->agreement.patience_nsec / 4, done, &s->err);

	*code = rc == CKPT_E_FORMAT && !(s->o.flags & CKPT_BROADCAST_KEEP_GOING)
			? CKPT_BROADCAST_DAMAGED
			: CKPT_BROADCAST_DESTINATION;
	return rc;
}

static int reread(struct ckpt_session *s)
{
	int rc = 0, code = CKPT_BROADCAST_DESTINATION;
	bool is_here = s->landing && !s->dropped, done = !is_here, all = false;
	struct ckpt_reread reread;

	if (!(s->o.flags & CKPT_BROADCAST_REREAD))
		return 0;
	if (!done)
		rc = ckpt_reread_open(&reread, s->landing, &s->manifest, s->crcs, &s->err);
	while (agree(s, rc, code) == 0 && !all) {
		int lost;

		if (s->dropped) {
			done = true;
			rc = 0;
		}
		if (!done)
			rc = reread_some(s, &reread, &done, &code);
		lost = ckpt_agree_all(&s->agreement, done, &all, rc ? NULL : &s->err);
		rc = rc ? rc : lost;
	}
	if (is_here)
		ckpt_reread_close(&reread);
	return s->code;
}

static int finish(struct ckpt_session *s)
{
	int rc = 0;

	if (check_who_is_left(s))
		return s->code;
	if (s->landing && !s->dropped)
		rc = ckpt_landing_finish(s->landing, &s->err);
	if (agree(s, rc, CKPT_BROADCAST_DESTINATION) || compare_crcs(s) || reread(s))
		return s->code;
	rc = check_sources(s);
	return agree(s, rc, CKPT_BROADCAST_SOURCE) || check_who_is_left(s);
}

/* Some of the ranks could not give the names. */
static int take_back(struct ckpt_session *s, const struct ckpt_undo *undo)
{
	int code = s->code, rc = 0;

	if (undo->made) {
		ckpt_staged_forget(&s->manifest, s->path);
		rc = ckpt_undo_names(undo, s->path, &s->err);
	}
	if (agree(s, rc, CKPT_BROADCAST_DESTINATION) == 0)
		s->code = code;
	return s->code;
}

/* A node that dies between its name and this vote leaves a whole, checked file. */
static int give_names(struct ckpt_session *s)
{
	bool all_or_none = s->o.flags & CKPT_BROADCAST_ALL_OR_NONE;
	struct ckpt_undo undo = { 0 };
	int rc = 0;

	s->named = true;
	if (s->landing && all_or_none)
		rc = ckpt_undo_open(&undo, s->landing, &s->manifest, &s->err);
	if (s->landing && rc == 0 && !s->dropped) {
		struct ckpt_landing *landing = s->landing;

		s->landing = NULL;
		ckpt_staged_forget(&s->manifest, s->path);
		rc = ckpt_landing_commit(landing, s->crcs, &s->err);
		/* without it a file is there all the same, and is staged anew next time */
		if (rc == 0 && !s->manifest.is_directory)
			ckpt_staged_note(&s->manifest, s->path, s->crcs, NULL);
	}
	if (agree_by(ckpt_agree_listing, s, rc, CKPT_BROADCAST_DESTINATION) && all_or_none)
		take_back(s, &undo);
	ckpt_undo_close(&undo);
	return s->code ? s->code : check_who_is_left(s);
}

/* Where several ranks of a node made folders in each other's the outer ones are empty when all have removed theirs. */
static void remove_folders(struct ckpt_session *s)
{
	bool all;

	if (!(s->o.flags & CKPT_BROADCAST_MKDIR) || s->agreement.broken)
		return;
	ckpt_landing_discard(s->landing);
	s->landing = NULL;
	for (unsigned i = 0; i < 2; i++) {
		if (s->made)
			ckpt_parents_remove(s->folder, s->made);
		ckpt_agree_all(&s->agreement, true, &all, NULL);
	}
}

/* What nobody has asked for otherwise. */
static void choose_chunks(struct ckpt_session *s, bool on_gpu)
{
	uint64_t depth;

	if (s->standard_chunk)
		s->o.chunk = on_gpu ? GPU_CHUNK : CHUNK;
	depth = (on_gpu ? GPU_MEMORY : MEMORY) / s->o.chunk;
	if (depth < LEAST_DEPTH)
		depth = LEAST_DEPTH;
	if (s->standard_depth)
		s->o.depth = depth < CKPT_MOST_FLYING ? (uint32_t)depth : CKPT_MOST_FLYING;
}

static int run(struct ckpt_session *s)
{
	choose_chunks(s, s->agreement.transport->ops->is_on_gpu);
	if (compare_wishes(s) || share_manifest(s) || check_expected(s))
		return s->code;
	if (s->o.chunk >
	    s->manifest.total / 4 + LEAST_CHUNK) /* a small source: still several chunks */
		s->o.chunk = (s->manifest.total / 4 / LEAST_CHUNK + 1) * LEAST_CHUNK;
	if (look_at_destination(s) || (!s->reused && (carry(s) || finish(s) || give_names(s))) ||
	    tell_dropped(s, CKPT_BROADCAST_PARTIAL))
		remove_folders(s);
	return s->code;
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
	s->standard_depth = !o->depth;
	choose_chunks(s, false);
	o->threads = (uint32_t)or_else(o->threads, THREADS);
	o->readers = (uint32_t)or_else(o->readers, 1);
	if (o->timeout_s <= 0)
		o->timeout_s = PATIENCE_S;
	if (o->chunk < 4096 || o->chunk > MOST_CHUNK || o->chunk % 4096)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "chunks are whole pages (4 KiB) of up to 1 GiB");
	if (o->flags & CKPT_BROADCAST_REREAD &&
	    o->flags & (CKPT_BROADCAST_NO_SYNC | CKPT_BROADCAST_NO_VERIFY))
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "what was written can be read again from the disk if it is waited "
				 "for, and its checksum known");
	if (o->flags & CKPT_BROADCAST_KEEP_GOING && o->flags & CKPT_BROADCAST_ALL_OR_NONE)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "to keep going and all or none are two different wishes");
	if (o->has_expected && o->flags & CKPT_BROADCAST_NO_VERIFY)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "a checksum is expected, but none is to be made");
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
	if (s->path && (s->code == 0 || s->code == CKPT_BROADCAST_PARTIAL) && !s->dropped)
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
		watchdog = ckpt_session_watch(s, s->o.timeout_s, s->code, what);
	}
	if (t && s->agreement.broken)
		t->ops->abort(t);
	hangs = t && t->hangs;
	ckpt_ring_free(s->ring);
	ckpt_landing_discard(s->landing);
	if (!hangs) /* to free it would be to wait for what hangs */
		ckpt_gpu_copy_free(s->gpu);
	if (s->code && s->made)
		ckpt_parents_remove(s->folder, s->made);
	ckpt_agreement_close(&s->agreement);
	for (uint32_t i = 0; s->paths && i < s->manifest.count; i++)
		free(s->paths[i]);
	free(s->paths);
	free(s->path);
	free(s->folder);
	free(s->made);
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
	    (s->agreement.failed_rank != s->world.rank || s->world.size > 1 || !s->err.status))
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
	if (s->o.ended)
		s->o.ended(s->o.ended_ctx);
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
		if (s.o.ended)
			s.o.ended(s.o.ended_ctx);
		ckpt_session_leave(&s);
		return rc;
	}
	s.code = 0;
	return ckpt_broadcast_over(&s, transport, report, err);
}
