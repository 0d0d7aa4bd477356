/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stub_nccl.so: a double of libnccl.so.2 whose ranks are threads of one process over fake_cuda.so ($CKPT_CUDA_LIB), to
 * drive the paths of our own code, above all those that lead nowhere. It proves nothing about NCCL.
 *
 * A communicator is of the GPU whose context was current when it was made: with another one, or with none, a call is wrong.
 * So is one that its state does not allow: after an error there is only the abort, and no end before the work is done. A
 * wrong call is a complaint, which ends the process if FAKE_CUDA_STRICT is set. Two ranks of a communicator on one GPU are
 * refused, those two by "invalid usage", the others by "remote error".
 *
 * What NCCL may do it does: behind every call the communicator is "in progress" for a few questions, and what was asked
 * for gets into its stream at once, or only then ($FAKE_CUDA_SEED). What it is about to bring when it is aborted, has
 * come in part. On a GPU that has failed every call fails, and an abort is done all the same. Ranks that ask for
 * different things at the same place are a complaint.
 *
 * STUB_NCCL_FAIL=NAME:CODE:NTH    see fault_spec.h; of ncclCommGetAsyncError it is what is told, not what is returned
 * STUB_NCCL_HANG=NAME:1:NTH       from that call on "in progress" for ever; ncclCommAbort and ncclCommDestroy do not return
 *                                 until a test calls "stub_nccl_let_go"
 * STUB_NCCL_STALL=NAME:1:NTH      what that call put into the stream is never done, as if a peer had died
 * STUB_NCCL_LATE=NAME:MSEC:NTH    ncclCommAbort or ncclCommDestroy: comes back only then
 * STUB_NCCL_LINK=R:USEC:USEC:USEC:USEC
 *                                 with FAKE_CUDA_RATES: what a rank sends on in a microsecond, after how long the next has the
 *                                 first of it, what a call takes on the GPU by itself, how long it is in progress before,
 *                                 and after how long the next has a few bytes or numbers
 * STUB_NCCL_TOGETHER=1            an abort comes back only when all ranks of the communicator have ended it in some way, as where they
 *                                 share memory of a host, or when a test calls "stub_nccl_let_go"
 * STUB_NCCL_VERSION=22809
 * NCCL_COMM_BLOCKING=1            calls come back only when they are done
 * NCCL_ALGO                       without "ring": a broadcast has no algorithm
 * NCCL_DEBUG, NCCL_DEBUG_FILE     a communicator logs a line, as NCCL does: the file is opened anew, and truncated
 *
 * Built with STUB_NCCL_OLD there is no ncclCommFinalize, as before 2.14; STUB_NCCL_CUDA is what it was built for.
 */
#include "fake_cuda.h"

#include "fault_spec.h"
#include "gpu/nccl_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#ifndef STUB_NCCL_CUDA
#define STUB_NCCL_CUDA "12.4"
#endif

#pragma GCC visibility push(default)
#define DECLARE(type, name, ...) type name(__VA_ARGS__);
CKPT_NCCL_CALLS(DECLARE)
unsigned stub_nccl_calls(void);
unsigned stub_nccl_live(void);
void stub_nccl_let_go(void);
#pragma GCC visibility pop

enum { LATE = 2, FEW = 4096, MOST_NUMBERS = 64, MOST_GPUS = 64 };

__attribute__((used)) static const char version_line[] = "NCCL version 2.28.9+cuda" STUB_NCCL_CUDA;

/* One collective call of all ranks: the same number on each. */
struct meeting {
	struct meeting *next;
	unsigned long seq;
	unsigned came, left; /* ranks */
	size_t nbytes, count; /* as the first of them wants it */
	int root;
	void *bytes;	     /* of the root; NULL: not there yet */
	uint64_t ready[MOST_GPUS]; /* by rank: since when it could begin; 0: not yet there */
	uint64_t greatest[MOST_NUMBERS];
};

struct world {
	struct world *next;
	struct ckpt_nccl_id id;
	int size, joined, users;
	int ended; /* ranks whose communicator is aborted or destroyed, or about to be */
	bool has_gpu[MOST_GPUS];
	int twice; /* a GPU that two ranks have; -1: none */
	struct meeting *meetings;
};

struct ncclComm {
	struct world *world;
	int rank;
	unsigned late; /* questions until it is no more in progress */
	uint64_t late_nsec; /* with time: until then */
	unsigned long seq;
	unsigned users; /* the caller, and what is in streams */
	int device;
	unsigned failed; /* the error that it has, for good */
	bool hangs, aborted, finalized;
	struct work *pending; /* to be put into its stream */
	struct work *works;   /* those that are there */
	struct CUstream_st *stream;
};

struct work {
	struct work *next; /* of the communicator */
	struct ncclComm *comm;
	unsigned long seq;
	void *memory;
	size_t nbytes; /* of a broadcast; 0: numbers are compared */
	size_t count;
	int root;
	uint64_t put_nsec; /* with time: then it gets into the stream */
	bool stalls, came;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault_spec fault, hang, stall, late;
static struct world *worlds;
static unsigned calls, live, ids, let_go;
static pthread_cond_t goes_on = PTHREAD_COND_INITIALIZER;
static uint32_t seed, seeded_by;
static bool has_failed;

static void complain(const char *what)
{
	fprintf(stderr, "stub_nccl: %s\n", what);
	if (getenv("FAKE_CUDA_STRICT"))
		abort();
}

/* What fake_cuda.so has for this. */
static struct {
	fake_cuda_device_of *device;
	fake_cuda_number *failed;
	fake_cuda_memory_of *memory;
	fake_cuda_poll_into *poll_in;
	struct fake_cuda_timing *timing;
} cuda;
static pthread_once_t cuda_is_found = PTHREAD_ONCE_INIT;

static void find_cuda(void)
{
	void *lib = dlopen(getenv("CKPT_CUDA_LIB"), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

	assert(lib);
	*(void **)&cuda.device = dlsym(lib, "fake_cuda_device");
	*(void **)&cuda.failed = dlsym(lib, "fake_cuda_failed");
	*(void **)&cuda.memory = dlsym(lib, "fake_cuda_memory");
	*(void **)&cuda.poll_in = dlsym(lib, "fake_cuda_poll_in");
	cuda.timing = dlsym(lib, "fake_cuda_timing");
}

/* Of the calling thread, or of STREAM. */
static int device_of(struct CUstream_st *stream)
{
	pthread_once(&cuda_is_found, find_cuda);
	return cuda.device(stream);
}

/* Whether the calling thread's GPU has failed. */
static bool has_failed_gpu(void)
{
	pthread_once(&cuda_is_found, find_cuda);
	return cuda.failed() != 0;
}

static unsigned next_random(unsigned below)
{
	unsigned wanted = number_from("FAKE_CUDA_SEED", 1);

	if (wanted != seeded_by)
		seed = seeded_by = wanted;
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static void check_device(const struct ncclComm *c)
{
	if (device_of(NULL) != c->device)
		complain("a call without the context of the communicator's GPU");
}

static unsigned begin(const char *name)
{
	unsigned code;

	pthread_mutex_lock(&lock);
	calls++;
	code = fault_code(&fault, "STUB_NCCL_FAIL", name);
	has_failed |= code != 0;
	return code;
}

/* Nothing works on a GPU that has failed. */
static unsigned begin_on_gpu(const char *name)
{
	unsigned code = begin(name);

	if (!code && has_failed_gpu())
		code = CKPT_NCCL_UNHANDLED_CUDA_ERROR;
	has_failed |= code != 0;
	return code;
}

static unsigned end(unsigned code)
{
	pthread_mutex_unlock(&lock);
	return code;
}

/* ---- worlds ---- */

static struct world *join(const struct ckpt_nccl_id *id, int size, int device)
{
	struct world *w = worlds;

	while (w && memcmp(&w->id, id, sizeof(*id)) != 0)
		w = w->next;
	if (!w) {
		w = calloc(1, sizeof(*w));
		*w = (struct world){ .next = worlds, .id = *id, .size = size, .twice = -1 };
		worlds = w;
	}
	w->joined++;
	if (w->has_gpu[device])
		w->twice = device;
	w->has_gpu[device] = true;
	w->users++;
	return w;
}

static void leave(struct world *w)
{
	struct world **at = &worlds;

	if (--w->users)
		return;
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	while (w->meetings) {
		struct meeting *m = w->meetings;

		w->meetings = m->next;
		free(m->bytes);
		free(m);
	}
	free(w);
}

static void release(struct ncclComm *c)
{
	if (--c->users)
		return;
	leave(c->world);
	free(c->pending);
	free(c);
}

static struct meeting *meet(struct world *w, const struct work *work)
{
	struct meeting *m = w->meetings;

	while (m && m->seq != work->seq)
		m = m->next;
	if (!m) {
		m = calloc(1, sizeof(*m));
		*m = (struct meeting){ .next = w->meetings,
				       .seq = work->seq,
				       .nbytes = work->nbytes,
				       .count = work->count,
				       .root = work->root };
		w->meetings = m;
	}
	if (m->nbytes != work->nbytes || m->count != work->count || m->root != work->root)
		complain("ranks ask for different things");
	return m;
}

static void part(struct world *w, struct meeting *m)
{
	struct meeting **at = &w->meetings;

	if ((int)++m->left < w->size)
		return;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	free(m->bytes);
	free(m);
}

/* ---- work in streams ---- */

/* The root is done when all have what it had. */
static bool carry(struct work *w, struct meeting *m)
{
	bool is_root = w->comm->rank == w->root;

	if (is_root && !m->bytes) {
		m->bytes = malloc(w->nbytes);
		memcpy(m->bytes, w->memory, w->nbytes);
	}
	if (!m->bytes)
		return false;
	if (!w->came && !is_root)
		memcpy(w->memory, m->bytes, w->nbytes);
	m->came += !w->came;
	w->came = true;
	return !is_root || cuda.timing->is_on || (int)m->came == w->comm->world->size;
}

static bool compare(struct work *w, struct meeting *m)
{
	uint64_t *mine = w->memory;

	for (size_t i = 0; !w->came && i < w->count; i++)
		if (m->came == 0 || mine[i] > m->greatest[i])
			m->greatest[i] = mine[i];
	m->came += !w->came;
	w->came = true;
	if ((int)m->came < w->comm->world->size)
		return false;
	memcpy(mine, m->greatest, w->count * sizeof(*mine));
	return true;
}

/* ---- ... that takes its time ---- */

static const uint64_t NEVER = UINT64_MAX;

static uint64_t now_nsec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct link {
	double rate, hop_usec, call_usec, progress_usec, few_usec;
};

static struct link read_link(void)
{
	const char *text = getenv("STUB_NCCL_LINK");
	struct link link = { 1, 0, 0, 0, 0 };

	sscanf(text ? text : "", "%lf:%lf:%lf:%lf:%lf", &link.rate, &link.hop_usec, &link.call_usec,
	       &link.progress_usec, &link.few_usec);
	return link;
}

/* When the rank so many places behind the root has the first byte, and is there to take it. */
static uint64_t begin_nsec(const struct world *w, const struct meeting *m, int place, double hop_usec)
{
	uint64_t t = 0;

	for (int i = 0; i <= place; i++) {
		uint64_t ready = m->ready[(m->root + i) % w->size];

		if (!ready)
			return NEVER;
		t = later(ready, i ? t + (uint64_t)(hop_usec * 1000) : 0);
	}
	return t;
}

/* A rank is done when it has all, and the next one, to which it sends that on, is there. */
static uint64_t end_nsec(const struct work *w, const struct meeting *m)
{
	const struct world *world = w->comm->world;
	int place = (w->comm->rank - m->root + world->size) % world->size;
	struct link link = read_link();
	uint64_t begin, next = 0;
	double hop_usec = w->nbytes < FEW ? link.few_usec : link.hop_usec;

	if (!w->nbytes)
		place = world->size - 1; /* around the ring, and again */
	begin = begin_nsec(world, m, place, w->nbytes ? hop_usec : 2 * hop_usec);
	if (w->nbytes && place + 1 < world->size)
		next = m->ready[(w->comm->rank + 1) % world->size];
	if (begin == NEVER || (w->nbytes && place + 1 < world->size && !next))
		return NEVER;
	return later(begin + (uint64_t)((link.call_usec + (double)w->nbytes / link.rate) * 1000), next);
}

/* True: it is time. Until then nothing is brought. */
static bool is_time(const struct work *w, struct meeting *m)
{
	if (!cuda.timing->is_on)
		return true;
	if (!m->ready[w->comm->rank])
		m->ready[w->comm->rank] = later(cuda.timing->ready, w->put_nsec);
	cuda.timing->end = end_nsec(w, m);
	return cuda.timing->end <= cuda.timing->now;
}

static void forget_work(const struct work *w)
{
	struct work **at = &w->comm->works;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
}

static bool is_over(void *arg)
{
	struct work *w = arg;
	struct world *world = w->comm->world;
	bool over;

	pthread_mutex_lock(&lock);
	over = w->comm->aborted;
	if (!over && !w->stalls) {
		struct meeting *m = meet(world, w);

		over = w->nbytes ? carry(w, m) : compare(w, m);
		over = is_time(w, m) && over;
		if (over)
			part(world, m);
	}
	if (over) {
		forget_work(w);
		release(w->comm);
	}
	pthread_mutex_unlock(&lock);
	return over;
}

/* What was asked for gets into its stream. */
static void put_pending(struct ncclComm *c)
{
	struct work *work = c->pending;

	pthread_mutex_lock(&lock);
	c->pending = NULL;
	c->users++;
	work->next = c->works;
	c->works = work;
	pthread_mutex_unlock(&lock);
	cuda.poll_in(c->stream, is_over, work, work->memory, work->nbytes ? work->nbytes : work->count * sizeof(uint64_t),
		     !work->nbytes || work->root != c->rank);
}

static unsigned ask(const char *name, struct ncclComm *c, struct work what, const void *address,
		    size_t nbytes, struct CUstream_st *stream)
{
	unsigned code = begin_on_gpu(name);
	bool at_once;

	check_device(c);
	if (device_of(stream) != c->device)
		complain("a stream of another GPU");
	if (c->failed || c->finalized)
		complain("a call for a communicator that has failed, or is finalized");
	if (!code && (c->late || c->pending || c->hangs))
		code = CKPT_NCCL_INVALID_ARGUMENT; /* the call before is still in progress */
	c->hangs |= fault_code(&hang, "STUB_NCCL_HANG", name) != 0;
	c->failed = code;
	if (code)
		return end(code);
	what.comm = c;
	what.seq = c->seq++;
	what.stalls = fault_code(&stall, "STUB_NCCL_STALL", name) != 0;
	c->pending = malloc(sizeof(what));
	*c->pending = what;
	c->stream = stream;
	c->late = cuda.timing->is_on ? 0 : LATE;
	if (cuda.timing->is_on)
		c->late_nsec = now_nsec() + (uint64_t)(read_link().progress_usec * 1000);
	c->pending->put_nsec = c->late_nsec;
	at_once = cuda.timing->is_on || next_random(2) == 0;
	end(0);
	what.memory = cuda.memory((uintptr_t)address, nbytes);
	c->pending->memory = what.memory;
	if (what.memory && at_once)
		put_pending(c);
	return what.memory ? CKPT_NCCL_IN_PROGRESS : CKPT_NCCL_INVALID_ARGUMENT;
}

/* To standard output, unless NCCL_DEBUG_FILE is a file that can be opened. */
static void log_line(void)
{
	const char *name = getenv("NCCL_DEBUG_FILE");
	FILE *out = name && *name ? fopen(name, "w") : NULL;

	if (getenv("NCCL_DEBUG"))
		fprintf(out ? out : stdout, "NCCL INFO of the stub\n");
	fflush(out ? out : stdout);
	if (out)
		fclose(out);
}

/* ---- calls ---- */

unsigned ncclGetVersion(int *version)
{
	*version = (int)number_from("STUB_NCCL_VERSION", 22809);
	return 0;
}

unsigned ncclGetUniqueId(struct ckpt_nccl_id *id)
{
	unsigned code = begin("ncclGetUniqueId");

	memset(id, 0, sizeof(*id));
	snprintf(id->bytes, sizeof(id->bytes), "stub %d.%u", (int)getpid(), ++ids);
	id->bytes[sizeof(id->bytes) - 1] = 1; /* it has to come whole */
	return end(code);
}

unsigned ncclCommInitRankConfig(struct ncclComm **comm, int size, struct ckpt_nccl_id id, int rank,
				struct ckpt_nccl_config *config)
{
	const struct ckpt_nccl_config wanted = CKPT_NCCL_CONFIG_INIT;
	unsigned code = begin_on_gpu("ncclCommInitRankConfig");
	struct ncclComm *c;

	log_line();
	if (!code &&
	    (config->size < 20 || config->magic != wanted.magic || config->version < 21400 ||
	     config->blocking || rank < 0 || rank >= size || id.bytes[sizeof(id.bytes) - 1] != 1))
		code = CKPT_NCCL_INVALID_ARGUMENT;
	if (code)
		return end(code);
	if (device_of(NULL) < 0)
		complain("a communicator is made without a context");
	*comm = c = calloc(1, sizeof(*c));
	c->device = device_of(NULL) < 0 ? 0 : device_of(NULL);
	*c = (struct ncclComm){ .device = c->device, .world = join(&id, size, c->device), .rank = rank, .late = LATE, .users = 1 };
	c->hangs = fault_code(&hang, "STUB_NCCL_HANG", "ncclCommInitRankConfig") != 0;
	live++;
	while (getenv("NCCL_COMM_BLOCKING") && atoi(getenv("NCCL_COMM_BLOCKING")) > 0 &&
	       (c->hangs || c->world->joined < size)) {
		pthread_mutex_unlock(&lock);
		usleep(1000);
		pthread_mutex_lock(&lock);
	}
	return end(CKPT_NCCL_IN_PROGRESS);
}

unsigned ncclCommGetAsyncError(struct ncclComm *c, unsigned *code)
{
	*code = begin_on_gpu("ncclCommGetAsyncError");
	check_device(c);
	if (!*code && c->world->twice >= 0)
		*code = c->device == c->world->twice ? CKPT_NCCL_INVALID_USAGE : 6;
	if (c->failed)
		*code = c->failed;
	c->failed = *code;
	if (!*code && (c->hangs || c->late || (c->late_nsec && now_nsec() < c->late_nsec) ||
		       c->world->joined < c->world->size))
		*code = CKPT_NCCL_IN_PROGRESS;
	c->late -= c->late > 0;
	end(0);
	if (!*code && c->pending)
		put_pending(c);
	return 0;
}

unsigned ncclBroadcast(const void *from, void *to, size_t count, unsigned type, int root,
		       struct ncclComm *comm, struct CUstream_st *stream)
{
	const char *algo = getenv("NCCL_ALGO");

	if (algo && *algo && !strcasestr(algo, "ring"))
		return CKPT_NCCL_INVALID_USAGE;
	if (from != to || type != CKPT_NCCL_UINT8 || !count)
		return CKPT_NCCL_INVALID_ARGUMENT;
	return ask("ncclBroadcast", comm, (struct work){ .nbytes = count, .root = root }, to, count,
		   stream);
}

unsigned ncclAllReduce(const void *from, void *to, size_t count, unsigned type, unsigned op,
		       struct ncclComm *comm, struct CUstream_st *stream)
{
	if (from != to || type != CKPT_NCCL_UINT64 || op != CKPT_NCCL_MAX || count > MOST_NUMBERS)
		return CKPT_NCCL_INVALID_ARGUMENT;
	return ask("ncclAllReduce", comm, (struct work){ .count = count }, to,
		   count * sizeof(uint64_t), stream);
}

#ifndef STUB_NCCL_OLD
unsigned ncclCommFinalize(struct ncclComm *c)
{
	unsigned code = begin_on_gpu("ncclCommFinalize");

	check_device(c);
	if (c->failed || c->finalized || c->pending || c->works)
		complain("a communicator is finalized that has failed, has work, or is finalized already");
	c->finalized = true;
	c->failed = code;
	c->hangs |= fault_code(&hang, "STUB_NCCL_HANG", "ncclCommFinalize") != 0;
	c->late = LATE;
	return end(code ? code : CKPT_NCCL_IN_PROGRESS);
}
#endif

/* With the lock. */
static void hang_as_told(const char *name)
{
	unsigned before = let_go;

	if (fault_code(&hang, "STUB_NCCL_HANG", name))
		while (let_go == before)
			pthread_cond_wait(&goes_on, &lock);
}

/* With the lock. */
static void end_with_others(struct ncclComm *c, bool waits)
{
	unsigned before = let_go;

	c->world->ended++;
	pthread_cond_broadcast(&goes_on);
	while (waits && number_from("STUB_NCCL_TOGETHER", 0) && c->world->ended < c->world->joined && let_go == before)
		pthread_cond_wait(&goes_on, &lock);
}

unsigned ncclCommDestroy(struct ncclComm *c)
{
	unsigned code = begin_on_gpu("ncclCommDestroy");

	check_device(c);
	if (!c->finalized || c->late || c->hangs)
		complain("a communicator is destroyed before it was finalized");
	hang_as_told("ncclCommDestroy");
	sleep_as(&late, "STUB_NCCL_LATE", "ncclCommDestroy", &lock);
	end_with_others(c, false);
	live--;
	release(c);
	return end(code);
}

unsigned ncclCommAbort(struct ncclComm *c)
{
	unsigned code = begin_on_gpu("ncclCommAbort");

	check_device(c);
	hang_as_told("ncclCommAbort");
	sleep_as(&late, "STUB_NCCL_LATE", "ncclCommAbort", &lock);
	end_with_others(c, true);
	c->aborted = true;
	for (struct work *w = c->works; w; w = w->next)
		if (w->nbytes && !w->came)
			memset(w->memory, 0xdb, w->nbytes / 2 + 1);
	live--;
	release(c);
	return end(code);
}

const char *ncclGetErrorString(unsigned code)
{
	static const char *const texts[] = {
		"no error",
		"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		"internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
	};

	return code < sizeof(texts) / sizeof(texts[0]) ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(struct ncclComm *comm)
{
	const char *text;

	(void)comm;
	pthread_mutex_lock(&lock);
	text = has_failed ? "the stub was told to fail\nand no more" : "";
	pthread_mutex_unlock(&lock);
	return text;
}

/* ---- for tests ---- */

unsigned stub_nccl_calls(void)
{
	pthread_mutex_lock(&lock);
	return end(calls);
}

/* Communicators that were neither destroyed nor aborted. */
unsigned stub_nccl_live(void)
{
	pthread_mutex_lock(&lock);
	return end(live);
}

/* What hangs now comes back. */
void stub_nccl_let_go(void)
{
	pthread_mutex_lock(&lock);
	let_go++;
	pthread_cond_broadcast(&goes_on);
	pthread_mutex_unlock(&lock);
}
