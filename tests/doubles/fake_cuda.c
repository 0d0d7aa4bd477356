/* SPDX-License-Identifier: Apache-2.0 */
/* A double that drives paths of our code and proves nothing about CUDA: see fake_cuda.h. */
#include "fake_cuda.h"

#include "crc_on_host.h"
#include "fault_spec.h"
#include "gpu/cuda_driver.h"
#include "stream_order.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#define DECLARE(name, ...) unsigned name(__VA_ARGS__);
CKPT_CUDA_CALLS(DECLARE)
CKPT_CUDA_OPTIONAL_CALLS(DECLARE)
fake_cuda_number fake_cuda_calls, fake_cuda_live, fake_cuda_failed;
fake_cuda_memory_of fake_cuda_memory;
fake_cuda_poll_into fake_cuda_poll_in;
fake_cuda_device_of fake_cuda_device;
extern struct fake_cuda_timing fake_cuda_timing;
#pragma GCC visibility pop

enum {
	INVALID_VALUE = 1,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	INVALID_PTX = 218,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	ALREADY_REGISTERED = 712,
	MOST_STREAMS = STREAM_ORDER_MOST,
	MOST_GPUS = 64,
	MOST_DEPTH = 16,
	GAP = 1 << 20,
	PAGE = 4096,
};

struct CUctx_st {
	unsigned refs;
	atomic_uint failed; /* the error of all calls from now on */
	bool is_refused;    /* ... which somebody heard who came to it, and did nothing in it */
	uint64_t copied[2]; /* until when there are copies to it, and from it */
};

struct CUevent_st {
	struct CUevent_st *next;
	struct CUctx_st *context;
	unsigned long recorded, done;
	uint64_t done_nsec;
	struct stream_clock behind; /* what was in its stream when it was last recorded */
};

struct CUfunc_st {
	struct CUmod_st *module;
};

struct CUmod_st {
	struct CUmod_st *next;
	struct CUctx_st *context;
	struct CUfunc_st function;
};

enum direction { UP, DOWN, WITHIN };

/* One thing in a stream: whatever of it is set. */
struct op {
	struct op *next;
	enum direction direction; /* of a copy */
	bool has_begun;
	uint64_t put_nsec, begun_nsec, end_nsec;
	void *to; /* a copy */
	const void *from;
	size_t nbytes;
	uint8_t *guarded; /* pages of the host that only this may touch */
	size_t guarded_nbytes;
	bool reads_host;
	bool (*poll)(void *);
	void *arg;
	struct stream_touch touch; /* of what is polled */
	struct CUevent_st *waits, *records;
	unsigned long seq;
	struct CUmod_st *module; /* a kernel */
	struct crc_launch *launch;
};

struct CUstream_st {
	struct op *first, **last;
	struct CUctx_st *context;
	unsigned number;
	uint64_t free_nsec; /* what was before FIRST has ended then */
};

struct block {
	struct block *next;
	struct CUctx_st *context;
	unsigned long long address; /* 0: of the host */
	size_t nbytes;
	uint8_t *memory;
	bool is_registered; /* the program's */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault_spec fault, late, async;
static bool initialized;
static unsigned calls;
static uint32_t seed, seeded_by;
static struct CUctx_st contexts[MOST_GPUS];
static struct block *blocks;
static struct CUevent_st *events;
static struct CUmod_st *modules;
static struct CUstream_st *streams[MOST_STREAMS];
static unsigned stream_end; /* behind the last that there ever was */
static unsigned long long next_address = 1ULL << 45; /* where no memory of ours is */
/* in the thread itself: ThreadSanitizer does not know memory that the loader makes and frees */
#define IN_THREAD static __attribute__((tls_model("initial-exec"))) _Thread_local
IN_THREAD struct CUctx_st *stack[MOST_DEPTH];
IN_THREAD unsigned depth;

static void complain(const char *what)
{
	fprintf(stderr, "fake_cuda: %s\n", what);
	if (getenv("FAKE_CUDA_STRICT"))
		abort();
}

static unsigned next_random(unsigned below)
{
	unsigned wanted = number_from("FAKE_CUDA_SEED", 1);

	if (wanted != seeded_by)
		seed = seeded_by = wanted;
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

/* ---- streams ---- */

/* What was asked for last is found first. */
static bool is_event(const struct CUevent_st *event)
{
	struct CUevent_st **at = &events, *e;

	while (*at && *at != event)
		at = &(*at)->next;
	e = *at;
	if (!e)
		return false;
	*at = e->next;
	e->next = events;
	events = e;
	return true;
}

static bool is_ready(const struct op *op)
{
	if (op->waits && is_event(op->waits) && op->waits->done < op->seq)
		return false;
	return !op->poll || op->poll(op->arg);
}

static void guard(const struct op *op, int protection)
{
	if (op->guarded_nbytes)
		mprotect(op->guarded, op->guarded_nbytes, protection);
}

static void do_op(const struct op *op)
{
	if (op->nbytes)
		memmove(op->to, op->from, op->nbytes);
	if (op->launch) {
		crc_run_on_host(op->launch);
		op->launch->partials[0] ^= number_from("FAKE_CUDA_MISCOUNT", 0);
	}
	if (op->records && is_event(op->records))
		op->records->done = op->seq;
}

/* Whether the GPU fails where it comes to OP. */
static void fail_async(struct CUctx_st *context, const struct op *op)
{
	const char *kind = op->nbytes ? "copy" : op->launch ? "kernel" : op->records ? "event" : NULL;
	unsigned code = kind ? fault_code(&async, "FAKE_CUDA_ASYNC", kind) : 0;

	if (code)
		context->failed = code;
}

static void remove_first(struct CUstream_st *s)
{
	struct op *op = s->first;

	s->first = op->next;
	if (!s->first)
		s->last = &s->first;
	free(op->launch);
	free(op->arg);
	free(op);
}

static void end_first(struct CUstream_st *s)
{
	struct op *op = s->first;

	fail_async(s->context, op);
	guard(op, PROT_READ | PROT_WRITE);
	if (!s->context->failed)
		do_op(op);
	remove_first(s);
}

/* A GPU that has failed does nothing more; what is another library's in its streams ends as that says. */
static bool run_first(struct CUstream_st *s)
{
	struct op *op = s->first;

	if (!op || ((!s->context->failed || op->poll) && !is_ready(op)))
		return false;
	end_first(s);
	return true;
}

/* ---- streams that take their time ---- */

static const uint64_t NEVER = UINT64_MAX;
struct fake_cuda_timing fake_cuda_timing;
static double rates[3], launch_usec;

static uint64_t now_nsec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What the variable says when it is first asked for. */
static bool is_timed(void)
{
	static bool is_known;
	const char *text = getenv("FAKE_CUDA_RATES");

	if (!is_known && text)
		fake_cuda_timing.is_on = sscanf(text, "h2d:%lf,d2h:%lf,d2d:%lf,launch:%lf", &rates[UP], &rates[DOWN],
						&rates[WITHIN], &launch_usec) == 4;
	is_known = true;
	return fake_cuda_timing.is_on;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t ready_nsec(const struct CUstream_st *s, const struct op *op)
{
	uint64_t t = later(op->put_nsec, s->free_nsec);

	if (!op->waits || !is_event(op->waits))
		return t;
	return op->waits->done < op->seq ? NEVER : later(t, op->waits->done_nsec);
}

/* True: it is over, and gone. */
static bool poll_first(struct CUstream_st *s, uint64_t now)
{
	struct op *op = s->first;

	fake_cuda_timing.now = now;
	fake_cuda_timing.ready = op->begun_nsec;
	fake_cuda_timing.end = NEVER;
	if (!op->poll(op->arg)) {
		op->end_nsec = fake_cuda_timing.end;
		return false;
	}
	s->free_nsec = fake_cuda_timing.end < now ? fake_cuda_timing.end : now;
	remove_first(s);
	return true;
}

static void begin_first(struct CUstream_st *s, uint64_t ready)
{
	struct op *op = s->first;

	op->has_begun = true;
	op->begun_nsec = ready;
	op->end_nsec = op->poll ? NEVER : ready;
	if (!op->nbytes)
		return;
	if (op->direction != WITHIN)
		ready = later(ready, s->context->copied[op->direction]);
	op->end_nsec = ready + (uint64_t)((launch_usec + (double)op->nbytes / rates[op->direction]) * 1000);
	if (op->direction != WITHIN)
		s->context->copied[op->direction] = op->end_nsec;
}

/* What happens next in some stream, if it has happened by NOW, in the order of time. */
static bool step_in_time(uint64_t now)
{
	struct CUstream_st *first = NULL;
	uint64_t first_nsec = NEVER;

	for (unsigned i = 0; i < stream_end; i++) {
		struct CUstream_st *s = streams[i];
		struct op *op = s ? s->first : NULL;
		uint64_t t;

		if (op && op->has_begun && op->end_nsec == NEVER && poll_first(s, now))
			return true;
		if (!op)
			continue;
		t = op->has_begun ? op->end_nsec : ready_nsec(s, op);
		if (t < first_nsec) {
			first_nsec = t;
			first = s;
		}
	}
	if (!first || first_nsec > now)
		return false;
	if (!first->first->has_begun) {
		begin_first(first, first_nsec);
	} else if (first->first->poll) {
		poll_first(first, now);
	} else {
		first->free_nsec = first_nsec;
		if (first->first->records)
			first->first->records->done_nsec = first_nsec;
		end_first(first);
	}
	return true;
}

/* One thing of some stream, whichever: the streams are asked from a random one on. */
static bool step(void)
{
	struct CUstream_st *busy[MOST_STREAMS];
	unsigned count = 0, first;

	if (is_timed())
		return step_in_time(now_nsec());
	for (unsigned i = 0; i < stream_end; i++)
		if (streams[i] && streams[i]->first)
			busy[count++] = streams[i];
	first = count ? next_random(count) : 0;
	for (unsigned i = 0; i < count; i++)
		if (run_first(busy[(first + i) % count]))
			return true;
	return false;
}

/* Sometimes the GPU is far behind, sometimes it has done everything. */
static void advance(void)
{
	unsigned steps = is_timed() || !next_random(16) ? 1000 : next_random(4) / 2;

	while (steps-- && step())
		;
}

static bool is_stream(const struct CUstream_st *stream)
{
	for (unsigned i = 0; stream && i < stream_end; i++)
		if (streams[i] == stream)
			return true;
	return false;
}

static struct CUctx_st *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

static bool is_foreign(const struct CUctx_st *context)
{
	if (context != current())
		complain("a stream, event, module or memory of another context");
	return context != current();
}

static void check_order(const struct CUstream_st *s, const struct op *op)
{
	const struct crc_launch *l = op->launch;
	const struct stream_touch touches[] = {
		op->touch,
		{ op->from, op->nbytes, false },
		{ op->to, op->nbytes, true },
		{ l ? l->from : NULL, l ? l->nbytes : 0, false },
		{ l ? l->partials : NULL, l ? l->blocks * sizeof(uint32_t) : 0, true },
	};

	if (op->waits)
		stream_order_wait(s->number, &op->waits->behind);
	if (!stream_order_put(s->number, touches, sizeof(touches) / sizeof(touches[0])))
		complain("two streams touch the same bytes in no order");
	if (op->records)
		stream_order_record(s->number, &op->records->behind);
}

static unsigned put(struct CUstream_st *s, struct op what)
{
	struct op *op;

	if (!is_stream(s)) {
		complain("no such stream");
		return INVALID_HANDLE;
	}
	op = malloc(sizeof(*op));
	*op = what;
	op->put_nsec = is_timed() ? now_nsec() : 0;
	if (!is_timed())
		check_order(s, op);
	guard(op, op->reads_host ? PROT_READ : PROT_NONE);
	*s->last = op;
	s->last = &op->next;
	advance();
	return 0;
}

/* ---- calls ---- */

/* "*" leaves out what nothing can be released without. Of a GPU that fails for good only the first failure is told here. */
static unsigned fault_of(const char *name)
{
	const char *spec = getenv("FAKE_CUDA_FAIL");
	unsigned code;

	if (spec && *spec == '*' && strcmp(name, "cuCtxPushCurrent_v2") == 0)
		return 0;
	code = fault_code(&fault, "FAKE_CUDA_FAIL", name);
	return fault.stays && fault.seen > fault.nth ? 0 : code;
}

static unsigned begin(const char *name)
{
	unsigned code;

	pthread_mutex_lock(&lock);
	calls++;
	sleep_as(&late, "FAKE_CUDA_LATE", name, &lock);
	code = fault_of(name);
	return code || initialized || strcmp(name, "cuInit") == 0 ? code : NOT_INITIALIZED;
}

static unsigned begin_in_context(const char *name)
{
	unsigned code = begin(name);

	if (depth && current()->failed)
		return current()->failed;
	if (depth && code && fault.stays)
		current()->failed = code;
	if (code || depth)
		return code;
	complain("a call without a context");
	return INVALID_CONTEXT;
}

static unsigned end(unsigned code)
{
	pthread_mutex_unlock(&lock);
	return code;
}

unsigned cuInit(unsigned flags)
{
	const char *shown = getenv("FAKE_CUDA_SHOW"), *value = shown ? getenv(shown) : NULL;
	unsigned code = begin("cuInit");

	if (shown)
		fprintf(stderr, "fake_cuda: %s=%s\n", shown, value ? value : "");
	if (!code && number_from("FAKE_CUDA_GPUS", 1) == 0)
		code = CKPT_CU_NO_DEVICE;
	initialized |= code == 0;
	return end(code ? code : flags);
}

unsigned cuDriverGetVersion(int *version)
{
	*version = (int)number_from("FAKE_CUDA_VERSION", 12040);
	return 0;
}

unsigned cuGetErrorName(unsigned code, const char **name)
{
	*name = code == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
		: code == 719 ? "CUDA_ERROR_LAUNCH_FAILED"
			      : NULL;
	return *name ? 0 : INVALID_VALUE;
}

unsigned cuGetErrorString(unsigned code, const char **text)
{
	*text = code == 2 ? "out of memory" : code == 719 ? "unspecified launch failure" : NULL;
	return *text ? 0 : INVALID_VALUE;
}

unsigned cuDeviceGetCount(int *count)
{
	*count = (int)number_from("FAKE_CUDA_GPUS", 1);
	return end(begin("cuDeviceGetCount"));
}

unsigned cuDeviceGet(int *device, int ordinal)
{
	unsigned code = begin("cuDeviceGet");

	*device = ordinal;
	if (!code && (ordinal < 0 || ordinal >= (int)number_from("FAKE_CUDA_GPUS", 1)))
		code = INVALID_DEVICE;
	return end(code);
}

/* Of the slice. */
unsigned cuDeviceGetUuid_v2(struct ckpt_cuda_uuid *uuid, int device)
{
	memset(uuid, 0xab, sizeof(*uuid));
	uuid->bytes[15] = (char)(number_from("FAKE_CUDA_FIRST", 0) + (unsigned)device);
	return 0;
}

/* Of the GPU. */
unsigned cuDeviceGetUuid(struct ckpt_cuda_uuid *uuid, int device)
{
	cuDeviceGetUuid_v2(uuid, device);
	uuid->bytes[15] /= (char)number_from("FAKE_CUDA_SLICES", 1);
	return 0;
}

unsigned cuDeviceGetPCIBusId(char *id, int size, int device)
{
	unsigned gpu = (number_from("FAKE_CUDA_FIRST", 0) + (unsigned)device) / number_from("FAKE_CUDA_SLICES", 1);

	snprintf(id, (size_t)size, "0000:%02x:00.0", gpu);
	return 0;
}

unsigned cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
	unsigned code = begin("cuDevicePrimaryCtxRetain");

	if (!code) {
		contexts[device].refs++;
		*context = &contexts[device];
	}
	return end(code);
}

static bool has_objects(const struct CUctx_st *context)
{
	bool any = false;

	for (const struct block *b = blocks; b; b = b->next)
		any |= b->context == context;
	for (const struct CUevent_st *e = events; e; e = e->next)
		any |= e->context == context;
	for (const struct CUmod_st *m = modules; m; m = m->next)
		any |= m->context == context;
	for (unsigned i = 0; i < MOST_STREAMS; i++)
		any |= streams[i] && streams[i]->context == context;
	return any;
}

/*
 * A GPU that failed says so to whoever comes to it to give something back, which then stays: the driver
 * takes all of it with the context.
 */
static void drop_objects(const struct CUctx_st *context)
{
	while (step())
		;
	for (unsigned i = 0; i < MOST_STREAMS; i++) {
		if (!streams[i] || streams[i]->context != context)
			continue;
		while (streams[i]->first)
			remove_first(streams[i]);
		stream_order_seen_all(streams[i]->number);
		free(streams[i]);
		streams[i] = NULL;
	}
	for (struct CUevent_st **at = &events, *e = *at; e; e = *at) {
		if (e->context != context) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		free(e);
	}
	for (struct CUmod_st **at = &modules, *m = *at; m; m = *at) {
		if (m->context != context) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		free(m);
	}
	for (struct block **at = &blocks, *b = *at; b; b = *at) {
		if (b->context != context) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		stream_order_forget(b->memory, b->nbytes);
		if (!b->is_registered)
			free(b->memory);
		free(b);
	}
}

unsigned cuDevicePrimaryCtxRelease_v2(int device)
{
	unsigned code = begin("cuDevicePrimaryCtxRelease_v2");
	bool is_refused = contexts[device].is_refused;

	if (contexts[device].refs == 0)
		complain("a context is released that nobody has");
	else
		contexts[device].refs--;
	if (contexts[device].refs == 0) {
		contexts[device].failed = 0;
		contexts[device].is_refused = false;
	}
	if (contexts[device].refs == 0 && is_refused)
		drop_objects(&contexts[device]);
	else if (contexts[device].refs == 0 && has_objects(&contexts[device]))
		complain("a context goes that still has streams, events, modules or memory");
	return end(code);
}

unsigned cuCtxPushCurrent_v2(struct CUctx_st *context)
{
	unsigned code = begin("cuCtxPushCurrent_v2");

	if (code && fault.stays && context && context->refs) {
		context->failed = code;
		context->is_refused = true;
	}
	if (!code && (!context || !context->refs || depth == MOST_DEPTH)) {
		complain("a context that is none, or too many");
		code = INVALID_CONTEXT;
	}
	if (!code)
		stack[depth++] = context;
	return end(code);
}

unsigned cuCtxPopCurrent_v2(struct CUctx_st **context)
{
	unsigned code = begin("cuCtxPopCurrent_v2");

	if (depth) {
		*context = stack[--depth];
	} else {
		complain("no context to pop");
		code = INVALID_CONTEXT;
	}
	return end(code);
}

/* ---- memory ---- */

static struct block *add_memory(size_t nbytes, uint8_t *memory)
{
	struct block *b = malloc(sizeof(*b));

	*b = (struct block){ .next = blocks, .context = current(), .nbytes = nbytes, .memory = memory };
	blocks = b;
	return b;
}

static struct block *add_block(size_t nbytes)
{
	struct block *b = add_memory(nbytes, malloc(nbytes));

	memset(b->memory, 0xa5, nbytes);
	return b;
}

static bool has(const struct block *b, const void *memory)
{
	const uint8_t *at = memory;

	return at >= b->memory && at < b->memory + b->nbytes;
}

/* Whether something in a stream still reads or writes it, behind all that can be done now. */
static bool is_in_use(const struct block *b)
{
	while (step())
		;
	for (unsigned i = 0; i < MOST_STREAMS; i++)
		for (struct op *op = streams[i] ? streams[i]->first : NULL; op; op = op->next) {
			const struct crc_launch *l = op->launch;

			if (op->nbytes && (has(b, op->to) || has(b, op->from)))
				return true;
			if (l && ((l->nbytes && has(b, l->from)) || has(b, l->constants) ||
				  has(b, l->partials)))
				return true;
		}
	return false;
}

static bool is_busy(const struct CUctx_st *context)
{
	for (unsigned i = 0; i < stream_end; i++)
		if (streams[i] && streams[i]->context == context && streams[i]->first)
			return true;
	return false;
}

/*
 * What frees memory waits until the GPU has done all that it was given in this context, by whomever: also a kernel of NCCL
 * whose peers are gone, which never ends. One that failed has stopped.
 */
static void wait_for_all(void)
{
	while (current() && !current()->failed && is_busy(current()))
		if (!step()) { /* for another thread */
			pthread_mutex_unlock(&lock);
			usleep(100);
			pthread_mutex_lock(&lock);
		}
}

/* What is registered goes by unregistering it, and only what is. */
static unsigned free_block(unsigned code, unsigned long long address, const void *memory, bool is_registered)
{
	struct block **at = &blocks, *b;

	while (*at && ((*at)->address != address || (!address && (*at)->memory != memory)))
		at = &(*at)->next;
	b = *at;
	if (!b) {
		complain("memory is freed that is not there");
		return INVALID_VALUE;
	}
	if (current())
		is_foreign(b->context);
	if (b->is_registered != is_registered)
		complain("memory is registered, and freed, or the other way round");
	if (is_in_use(b))
		complain("memory is freed that a stream still uses: a GPU would wait here");
	wait_for_all();
	for (at = &blocks; *at != b; at = &(*at)->next) /* others may have gone meanwhile */
		;
	*at = b->next;
	stream_order_forget(b->memory, b->nbytes);
	if (!b->is_registered)
		free(b->memory);
	free(b);
	return code;
}

static void *find_memory(unsigned long long address, size_t nbytes)
{
	for (struct block *b = blocks; b; b = b->next)
		if (b->address && address >= b->address && nbytes <= b->nbytes &&
		    address - b->address <= b->nbytes - nbytes)
			return current() && is_foreign(b->context)
				       ? NULL
				       : b->memory + (address - b->address);
	complain("an address that is not on the GPU");
	return NULL;
}

void *fake_cuda_memory(unsigned long long address, size_t nbytes)
{
	void *memory;

	pthread_mutex_lock(&lock);
	memory = find_memory(address, nbytes);
	pthread_mutex_unlock(&lock);
	return memory;
}

unsigned cuMemAlloc_v2(unsigned long long *address, size_t nbytes)
{
	unsigned code = begin_in_context("cuMemAlloc_v2");

	if (!code && !nbytes)
		code = INVALID_VALUE;
	if (!code) {
		*address = add_block(nbytes)->address = next_address;
		next_address += (nbytes / GAP + 2) * GAP;
	}
	return end(code);
}

unsigned cuMemFree_v2(unsigned long long address)
{
	return end(free_block(begin_in_context("cuMemFree_v2"), address, NULL, false));
}

unsigned cuMemHostAlloc(void **memory, size_t nbytes, unsigned flags)
{
	unsigned code = begin_in_context("cuMemHostAlloc");

	if (!code && (!nbytes || flags != CKPT_CU_MEMHOSTALLOC_PORTABLE))
		code = INVALID_VALUE;
	if (!code)
		*memory = add_block(nbytes)->memory;
	return end(code);
}

unsigned cuMemFreeHost(void *memory)
{
	return end(free_block(begin_in_context("cuMemFreeHost"), 0, memory, false));
}

static bool is_overlapping(const uint8_t *memory, size_t nbytes)
{
	for (const struct block *b = blocks; b; b = b->next)
		if (!b->address && memory < b->memory + b->nbytes && b->memory < memory + nbytes)
			return true;
	return false;
}

unsigned cuMemHostRegister_v2(void *memory, size_t nbytes, unsigned flags)
{
	unsigned code = begin_in_context("cuMemHostRegister_v2");

	if (!code && (!memory || !nbytes || flags != CKPT_CU_MEMHOSTREGISTER_PORTABLE))
		code = INVALID_VALUE;
	if (!code && is_overlapping(memory, nbytes))
		code = ALREADY_REGISTERED;
	if (!code)
		add_memory(nbytes, memory)->is_registered = true;
	return end(code);
}

unsigned cuMemHostUnregister(void *memory)
{
	return end(free_block(begin_in_context("cuMemHostUnregister"), 0, memory, true));
}

/* Those pages of what is locked at MEMORY that have nothing else. */
static void find_guarded(struct op *op, const void *memory, size_t nbytes)
{
	const struct block *b = blocks;
	uintptr_t first = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE, end = ((uintptr_t)memory + nbytes) / PAGE * PAGE;

	if (!number_from("FAKE_CUDA_PROTECT", 0) || first >= end)
		return;
	while (b && (b->address || !has(b, memory)))
		b = b->next;
	if (b) {
		op->guarded = (uint8_t *)first;
		op->guarded_nbytes = end - first;
		op->reads_host = memory == op->from;
	}
}

static unsigned put_copy(unsigned code, struct CUstream_st *stream, enum direction direction, void *to,
			 const void *from, size_t nbytes)
{
	struct op op = { .to = to, .from = from, .nbytes = nbytes, .direction = direction };

	if (!code && (!to || !from))
		code = INVALID_VALUE;
	if (!code && is_stream(stream) && is_foreign(stream->context))
		code = INVALID_CONTEXT;
	if (!code)
		find_guarded(&op, from, nbytes);
	if (!code && !op.guarded)
		find_guarded(&op, to, nbytes);
	if (!code)
		code = put(stream, op);
	return end(code);
}

unsigned cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t nbytes,
			      struct CUstream_st *stream)
{
	unsigned code = begin_in_context("cuMemcpyHtoDAsync_v2");

	return put_copy(code, stream, UP, find_memory(to, nbytes), from, nbytes);
}

unsigned cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t nbytes,
			      struct CUstream_st *stream)
{
	unsigned code = begin_in_context("cuMemcpyDtoHAsync_v2");

	return put_copy(code, stream, DOWN, to, find_memory(from, nbytes), nbytes);
}

unsigned cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t nbytes,
			      struct CUstream_st *stream)
{
	unsigned code = begin_in_context("cuMemcpyDtoDAsync_v2");

	return put_copy(code, stream, WITHIN, find_memory(to, nbytes), find_memory(from, nbytes), nbytes);
}

/* ---- streams and events, as they are called ---- */

unsigned cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
	unsigned code = begin_in_context("cuStreamCreate"), i = 0;

	if (!code && flags != CKPT_CU_STREAM_NON_BLOCKING)
		code = INVALID_VALUE;
	while (i < MOST_STREAMS && streams[i])
		i++;
	if (!code && i < MOST_STREAMS) {
		*stream = streams[i] = calloc(1, sizeof(**stream));
		stream_end = i < stream_end ? stream_end : i + 1;
		streams[i]->last = &streams[i]->first;
		streams[i]->context = current();
		streams[i]->number = i;
	}
	return end(code);
}

unsigned cuStreamDestroy_v2(struct CUstream_st *stream)
{
	unsigned code = begin_in_context("cuStreamDestroy_v2"), i = 0;

	while (i < MOST_STREAMS && streams[i] != stream)
		i++;
	if (!stream || i == MOST_STREAMS) {
		complain("no such stream to destroy");
		return end(INVALID_HANDLE);
	}
	while (step())
		;
	if (stream->first)
		complain("a stream is destroyed that still has work");
	stream_order_seen_all(stream->number);
	streams[i] = NULL;
	free(stream);
	return end(code);
}

unsigned cuStreamSynchronize(struct CUstream_st *stream)
{
	unsigned code = begin_in_context("cuStreamSynchronize");

	if (!code && !is_stream(stream))
		code = INVALID_HANDLE;
	while (code &&
	       step()) /* a GPU that failed has stopped: nothing is copied behind the caller's back */
		;
	while (!code && stream->first)
		if (!step()) { /* for another thread */
			pthread_mutex_unlock(&lock);
			usleep(100);
			pthread_mutex_lock(&lock);
		}
	if (!code)
		stream_order_seen_all(stream->number);
	return end(code);
}

unsigned cuStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event, unsigned flags)
{
	unsigned code = begin_in_context("cuStreamWaitEvent");

	if (!code && (flags || !is_event(event)))
		code = INVALID_HANDLE;
	if (!code && is_stream(stream) && (is_foreign(stream->context) || is_foreign(event->context)))
		code = INVALID_CONTEXT;
	if (!code)
		code = put(stream, (struct op){ .waits = event, .seq = event->recorded });
	return end(code);
}

unsigned cuEventCreate(struct CUevent_st **event, unsigned flags)
{
	unsigned code = begin_in_context("cuEventCreate");

	if (!code && flags != CKPT_CU_EVENT_DISABLE_TIMING)
		code = INVALID_VALUE;
	if (!code) {
		*event = calloc(1, sizeof(**event));
		(*event)->next = events;
		(*event)->context = current();
		events = *event;
	}
	return end(code);
}

unsigned cuEventDestroy_v2(struct CUevent_st *event)
{
	unsigned code = begin_in_context("cuEventDestroy_v2");

	if (!is_event(event)) {
		complain("no such event to destroy");
		return end(INVALID_HANDLE);
	}
	while (step()) /* nothing must find another event in its place */
		;
	is_event(event); /* now it is the first */
	events = event->next;
	free(event);
	return end(code);
}

unsigned cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
	unsigned code = begin_in_context("cuEventRecord");

	if (!code && !is_event(event))
		code = INVALID_HANDLE;
	if (!code && is_stream(stream) && (is_foreign(stream->context) || is_foreign(event->context)))
		code = INVALID_CONTEXT;
	if (!code)
		code = put(stream, (struct op){ .records = event, .seq = ++event->recorded });
	return end(code);
}

unsigned cuEventQuery(struct CUevent_st *event)
{
	unsigned code = begin_in_context("cuEventQuery");

	advance();
	if (!code && !is_event(event))
		code = INVALID_HANDLE;
	if (!code && is_foreign(event->context))
		code = INVALID_CONTEXT;
	if (!code && event->done < event->recorded)
		code = CKPT_CU_NOT_READY;
	if (!code)
		stream_order_seen(&event->behind);
	return end(code);
}

/* ---- the kernel of gpu/crc_kernel.h ---- */

unsigned cuModuleLoadData(struct CUmod_st **module, const void *image)
{
	unsigned code = begin_in_context("cuModuleLoadData");

	if (!code && (strncmp(image, ".version ", 9) != 0 || !strstr(image, ".entry ckpt_crc(")))
		code = INVALID_PTX;
	if (!code) {
		*module = calloc(1, sizeof(**module));
		**module = (struct CUmod_st){ modules, current(), { *module } };
		modules = *module;
	}
	return end(code);
}

static bool is_module(const struct CUmod_st *module)
{
	const struct CUmod_st *m = modules;

	while (m && m != module)
		m = m->next;
	return m != NULL;
}

unsigned cuModuleUnload(struct CUmod_st *module)
{
	unsigned code = begin_in_context("cuModuleUnload");
	struct CUmod_st **at = &modules;

	while (*at && *at != module)
		at = &(*at)->next;
	if (!*at) {
		complain("no such module to unload");
		return end(INVALID_HANDLE);
	}
	is_foreign(module->context);
	while (step())
		;
	for (unsigned i = 0; i < MOST_STREAMS; i++)
		for (struct op *op = streams[i] ? streams[i]->first : NULL; op; op = op->next)
			if (op->module == module)
				complain("a module is unloaded whose kernel is still to run");
	*at = module->next;
	free(module);
	return end(code);
}

unsigned cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
	unsigned code = begin_in_context("cuModuleGetFunction");

	if (!code && !is_module(module))
		code = INVALID_HANDLE;
	if (!code && is_foreign(module->context))
		code = INVALID_CONTEXT;
	if (!code && strcmp(name, "ckpt_crc") != 0)
		code = NOT_FOUND;
	if (!code)
		*function = &module->function;
	return end(code);
}

/* What the kernel's arguments are: addresses of the GPU. */
static struct crc_launch *make_launch(uint32_t grid, uint32_t threads, void *const *arguments)
{
	const unsigned long long *from = arguments[0], *nbytes = arguments[1], *constants = arguments[2],
				 *partials = arguments[3];
	size_t words = CRC_PRODUCTS + (size_t)grid * threads * CRC_WORDS;
	struct crc_launch l = { grid,
				threads,
				*nbytes ? find_memory(*from, *nbytes) : (void *)(*from % CRC_VECTOR + CRC_VECTOR),
				*nbytes,
				find_memory(*constants, words * sizeof(uint32_t)),
				find_memory(*partials, grid * sizeof(uint32_t)) };
	struct crc_launch *out;

	if (!l.from || !l.constants || !l.partials)
		return NULL;
	out = malloc(sizeof(*out));
	*out = l;
	return out;
}

unsigned cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_nbytes,
			struct CUstream_st *stream, void **arguments, void **extra)
{
	unsigned code = begin_in_context("cuLaunchKernel");
	struct CUmod_st *module = function ? function->module : NULL;
	struct crc_launch *launch = NULL;

	if (!code && (!is_module(module) || !is_stream(stream)))
		code = INVALID_HANDLE;
	if (!code && (is_foreign(module->context) || is_foreign(stream->context)))
		code = INVALID_CONTEXT;
	if (!code && (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_x > CRC_MOST_THREADS ||
		      block_y != 1 || block_z != 1 || shared_nbytes || extra))
		code = INVALID_VALUE;
	if (!code)
		launch = make_launch(grid_x, block_x, arguments);
	if (!code && !launch)
		code = INVALID_VALUE;
	if (!code)
		code = put(stream, (struct op){ .module = module, .launch = launch });
	return end(code);
}

void fake_cuda_poll_in(struct CUstream_st *stream, bool (*poll)(void *), void *arg, const void *memory, size_t nbytes,
		       bool writes)
{
	pthread_mutex_lock(&lock);
	put(stream, (struct op){ .poll = poll, .arg = arg, .touch = { memory, nbytes, writes } });
	pthread_mutex_unlock(&lock);
}

unsigned fake_cuda_failed(void)
{
	return depth ? current()->failed : 0;
}

int fake_cuda_device(struct CUstream_st *stream)
{
	const struct CUctx_st *context = stream ? stream->context : current();

	return context ? (int)(context - contexts) : -1;
}

/* ---- what is left ---- */

unsigned fake_cuda_calls(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = calls;
	pthread_mutex_unlock(&lock);
	return n;
}

unsigned fake_cuda_live(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	for (struct block *b = blocks; b; b = b->next)
		n++;
	for (struct CUevent_st *e = events; e; e = e->next)
		n++;
	for (struct CUmod_st *m = modules; m; m = m->next)
		n++;
	for (unsigned i = 0; i < MOST_STREAMS; i++)
		n += streams[i] != NULL;
	for (unsigned i = 0; i < MOST_GPUS; i++)
		n += contexts[i].refs;
	pthread_mutex_unlock(&lock);
	return n;
}

__attribute__((destructor)) static void look_at_the_end(void)
{
	if (fake_cuda_live())
		complain("something was not released");
}
