/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one call of a broadcast was asked for: its options, checked, and what of them all ranks must have in
 * common.
 *
 * What must stay true: each option that changes what a rank sends or expects is in ckpt_session_wishes(), and
 * under its name in ckpt_session_each_wish(). Else ranks wait for messages that never come.
 */
#include "broadcast/session.h"

#include "base/flags.h"
#include "base/sized.h"
#include "broadcast/bucket.h"
#include "broadcast/transport_user.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <sched.h>
#include <string.h>

enum { PAGE = 4096, LEAST_RATE = 64 << 10 };

enum {
	CHUNK = 1 << 20,      /* some of them stay in a cache between processes of a node */
	SMALL_CHUNK = 64 << 10,
	CHUNK_COSTS = 25000, /* bytes that a network carries in the time that a chunk costs besides: 20 us of 10 Gbit/s */
	/* larger ones leave the cache and take longer until the first is there, smaller ones cost calls of NCCL */
	GPU_CHUNK = 8 << 20,
	LONE_GPU_CHUNK = 4 << 20,
	MOST_CHUNK = 1 << 30,
	LEAST_DEPTH = 4,
	MEMORY = 16 << 20,	/* of all chunks, where the least depth allows it */
	GPU_MEMORY = 128 << 20, /* all threads can read while chunks are on their way */
	THREADS = 4,
	HOST_THREADS = 8, /* to a tmpfs, 8 write 1.5 times as fast as 4 */
	GPU_THREADS = 12, /* one reads 4 to 5 GB/s from the page cache, a GPU takes 55 */
	MOST_THREADS = 64,
	PATIENCE_S = 60,
};

static const unsigned KNOWN_FLAGS =
	CKPT_BROADCAST_NO_SYNC | CKPT_BROADCAST_NO_VERIFY | CKPT_BROADCAST_NO_TARGET |
	CKPT_BROADCAST_REPLACE | CKPT_BROADCAST_NEW | CKPT_BROADCAST_MAY_EXIT |
	CKPT_BROADCAST_TO_GPU | CKPT_BROADCAST_REREAD | CKPT_BROADCAST_MKDIR |
	CKPT_BROADCAST_KEEP_GOING | CKPT_BROADCAST_ALL_OR_NONE | CKPT_BROADCAST_DIRECT | CKPT_BROADCAST_CACHED;

static uint64_t or_else(uint64_t value, uint64_t standard)
{
	return value ? value : standard;
}

/* As many as can run at a time, or half of them: a host's other ranks, and MPI, want to run, too. */
static uint32_t choose_threads(bool on_gpu)
{
	cpu_set_t set;
	uint32_t count = sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : THREADS;
	uint32_t most = on_gpu ? GPU_THREADS : HOST_THREADS;

	if (!on_gpu)
		count /= 2;
	return count < THREADS ? THREADS : count < most ? count : most;
}

/*
 * From rank to rank TOTAL bytes take (TOTAL + (RANKS - 2) * chunk) / rate, for the last one gets a chunk once
 * all before it have had it; and TOTAL / chunk times what each chunk costs. That is least where chunk^2 is
 * TOTAL * CHUNK_COSTS / (RANKS - 2).
 */
uint64_t ckpt_session_best_chunk(uint64_t total, uint32_t ranks)
{
	const uint64_t more_than_enough = (uint64_t)1 << 40;
	uint64_t share = total / (ranks > 2 ? ranks - 2 : 1), chunk = CHUNK;

	if (ranks <= 2 || share > more_than_enough)
		return CHUNK;
	while (chunk > SMALL_CHUNK && chunk * chunk > share * CHUNK_COSTS)
		chunk /= 2;
	return chunk;
}

void ckpt_session_choose_chunks(struct ckpt_session *s, bool on_gpu, uint64_t total)
{
	uint64_t depth;

	if (s->standard_threads)
		s->o.threads = choose_threads(on_gpu);
	if (s->standard_chunk)
		s->o.chunk = !on_gpu ? ckpt_session_best_chunk(total, s->world.size) : s->world.size > 1 ? GPU_CHUNK : LONE_GPU_CHUNK;
	/* as the bucket wants it; what is in memory could go at once where the network stood still */
	if (s->o.bandwidth) {
		uint64_t most = s->o.bandwidth / or_else(s->o.readers, 1) / (1000000000 / CKPT_BUCKET_NSEC) / PAGE * PAGE;

		most = most < PAGE ? PAGE : most;
		s->o.chunk = s->o.chunk > most ? most : s->o.chunk;
	}
	depth = (on_gpu ? GPU_MEMORY : MEMORY) / s->o.chunk;
	if (s->o.bandwidth && depth > s->o.bandwidth / 10 / s->o.chunk)
		depth = s->o.bandwidth / 10 / s->o.chunk;
	if (depth < LEAST_DEPTH)
		depth = LEAST_DEPTH;
	if (s->standard_depth)
		s->o.depth = depth < CKPT_MOST_FLYING ? (uint32_t)depth : CKPT_MOST_FLYING;
}

static int read_options(struct ckpt_session *s, const struct ckpt_broadcast_options *given)
{
	static const struct ckpt_broadcast_options standard = CKPT_BROADCAST_OPTIONS_INIT;
	struct ckpt_broadcast_options *o = &s->o;

	int rc;

	*o = standard;
	rc = ckpt_sized_take(o, sizeof(*o), given, &s->err);
	if (rc == 0)
		rc = ckpt_flags_check(o->flags, KNOWN_FLAGS, &s->err);
	if (rc < 0)
		return rc;
	s->standard_chunk = !o->chunk;
	s->standard_depth = !o->depth;
	s->standard_threads = !o->threads;
	ckpt_session_choose_chunks(s, false, UINT64_MAX);
	o->readers = (uint32_t)or_else(o->readers, 1);
	if (o->timeout_s <= 0)
		o->timeout_s = PATIENCE_S;
	if (o->chunk < 4096 || o->chunk > MOST_CHUNK || o->chunk % 4096)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "chunks are whole pages (4 KiB) of up to 1 GiB");
	if (o->bandwidth && o->bandwidth / o->readers < LEAST_RATE)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "a bandwidth of %" PRIu64 " bytes a second, wanted 64 KiB or more for each rank that reads",
				 o->bandwidth);
	if (o->flags & CKPT_BROADCAST_REREAD &&
	    o->flags & (CKPT_BROADCAST_NO_SYNC | CKPT_BROADCAST_NO_VERIFY))
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "what was written can be read again from the disk if it is waited "
				 "for, and its checksum known");
	if (o->flags & CKPT_BROADCAST_KEEP_GOING && o->flags & CKPT_BROADCAST_ALL_OR_NONE)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "to keep going and all or none are two different wishes");
	if (o->flags & CKPT_BROADCAST_DIRECT && o->flags & CKPT_BROADCAST_CACHED)
		return ckpt_fail(&s->err, CKPT_E_ARG, "to read past the page cache and through it are two different wishes");
	if (o->has_expected && o->flags & CKPT_BROADCAST_NO_VERIFY)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "a checksum is expected, but none is to be made");
	if (o->depth > CKPT_MOST_FLYING || o->threads > MOST_THREADS)
		return ckpt_fail(&s->err, CKPT_E_ARG, "at most %d chunks in memory and %d threads",
				 CKPT_MOST_FLYING, MOST_THREADS);
	return 0;
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

/* Which files are meant is no matter of this rank alone: it gives its copy their names. */
static uint64_t sum_sources(const struct ckpt_session *s)
{
	uint32_t crc = 0;

	for (size_t i = 0; i < s->source_count; i++)
		crc = libdeflate_crc32(crc, s->sources[i], strlen(s->sources[i]) + 1);
	return (uint64_t)s->source_count << 32 | crc;
}

uint64_t ckpt_session_wishes(const struct ckpt_session *s)
{
	uint64_t numbers[] = {
		2 /* of this protocol: over MPI chunks go from rank to rank */,
		s->o.chunk,
		s->o.depth,
		s->o.readers,
		s->o.flags,
		sum_sources(s),
		s->world.size,
		s->o.has_expected,
		s->o.expected_crc32,
		s->o.bandwidth,
	};

	return (uint64_t)libdeflate_crc32(0, numbers, sizeof(numbers)) << 32 |
	       libdeflate_crc32(1, s->wish, strlen(s->wish));
}

void ckpt_session_each_wish(const struct ckpt_session *s, uint32_t out[CKPT_WISHES])
{
	const uint64_t numbers[CKPT_WISHES] = {
		[CKPT_WISH_SOURCES] = sum_sources(s),  [CKPT_WISH_SIZE] = s->world.size,
		[CKPT_WISH_CHUNK] = s->o.chunk,	       [CKPT_WISH_DEPTH] = s->o.depth,
		[CKPT_WISH_READERS] = s->o.readers,    [CKPT_WISH_FLAGS] = s->o.flags,
		[CKPT_WISH_EXPECT] = (uint64_t)s->o.has_expected << 32 | s->o.expected_crc32,
	};

	/* what chunks are for each rank follows from both */
	const uint64_t chunk[] = { s->o.chunk, s->o.bandwidth };

	for (size_t i = 0; i < CKPT_WISHES; i++)
		out[i] = libdeflate_crc32(0, &numbers[i], sizeof(numbers[i]));
	if (s->o.bandwidth)
		out[CKPT_WISH_CHUNK] = libdeflate_crc32(0, chunk, sizeof(chunk));
	out[CKPT_WISH_DST] = libdeflate_crc32(0, s->wish, strlen(s->wish));
}

int ckpt_session_gpu(struct ckpt_session *s, uint32_t *ordinal)
{
	struct ckpt_cuda_facts facts;

	if (s->o.gpu < 0) {
		ckpt_cuda_find_facts(&facts);
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
