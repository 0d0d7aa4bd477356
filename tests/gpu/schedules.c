/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcasts at random over the doubles of CUDA and NCCL, half of them with one fault, each judged:
 *
 *   schedules [--runs N | --seconds S] [--seed N] [--jobs N] [--fault NAME] [--verbose]
 *
 * The ranks of a run are threads, each with a fake GPU of its own. All choices of a run follow from its seed, which is
 * printed if it fails: --seed SEED --runs 1 --verbose takes the same choices again. What threads do at the same time is
 * not chosen.
 *
 * What is judged: all ranks end with the same status; where NCCL or the driver fails, they may no longer be able to agree,
 * and some say that a rank is lost. Bytes, files and checksums are right wherever there is success, and a file under its
 * final name is always whole. Nothing is left: memory of the GPUs, communicators, contexts of threads, files, descriptors.
 * No rank takes longer than its deadlines.
 *
 * What must stay true: the environment, the hook and the variables for tests change only while no other thread runs.
 * Workers are processes that the parent forks before it has threads; a worker that dies or hangs costs one run.
 */
#include "base/clock.h"
#include "broadcast/agree.h"
#include "broadcast/ring.h"
#include "gpu/bounded.h"
#include "gpu/cuda_driver.h"
#include "gpu/nccl_library.h"
#include "io/fault.h"

#include "../doubles/fake_cuda.h"
#include "../random_choices.h"

#include <ckpt/broadcast.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
enum { SLOWER = 8 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SLOWER = 3 };
#else
enum { SLOWER = 1 };
#endif

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
	MOST_RANKS = 8,
	MOST_FILES = 5,
	MOST_BYTES = 384 << 10,
	MOST_JOBS = 16,
	MOST_FAILURES = 10,
	LONG_S = 20, /* patience where nothing is to be waited for */
	HANGS_S = 60,
	RETIRED = 3, /* exit status: this process has threads that never come back */
};

/* ---- choices ---- */

#define FAULTS(X) \
	X(NONE, "none") \
	X(CUDA_FAILS, "cuda-fails") \
	X(GPU_FAILS, "gpu-fails")	      /* a call, and all that follow */ \
	X(GPU_FAILS_LATER, "gpu-fails-later") /* what is in a stream */ \
	X(CUDA_IS_LATE, "cuda-late") \
	X(NCCL_FAILS, "nccl-fails") \
	X(NCCL_HANGS, "nccl-hangs") \
	X(NCCL_STALLS, "nccl-stalls") \
	X(NCCL_IS_LATE, "nccl-late") \
	X(IO_FAILS, "io-fails") \
	X(CANCELLED, "cancelled") \
	X(WRONG_SUM, "wrong-sum") /* other than the expected one */

enum fault {
#define X(name, text) name,
	FAULTS(X)
#undef X
		FAULT_COUNT
};

static const char *const fault_names[] = {
#define X(name, text) text,
	FAULTS(X)
#undef X
};

static const char *const driver_calls[] = {
#define X(name, ...) #name,
	CKPT_CUDA_CALLS(X)
#undef X
};

static const char *const waiting_calls[] = { "cuMemFree_v2",	   "cuMemHostUnregister",
					     "cuStreamDestroy_v2", "cuMemAlloc_v2",
					     "cuEventDestroy_v2",  "cuMemcpyHtoDAsync_v2",
					     "cuEventQuery",	   "cuDevicePrimaryCtxRelease_v2" };

static const char *const nccl_calls[] = { "ncclCommInitRankConfig", "ncclCommGetAsyncError",
					  "ncclBroadcast",	    "ncclAllReduce",
					  "ncclCommFinalize",	    "ncclCommDestroy",
					  "ncclCommAbort" };

enum target { TO_FILES, TO_GPUS, TO_NOTHING };

struct plan {
	uint64_t seed;
	uint32_t ranks, shift; /* rank R is on GPU (R + SHIFT) % MOST_RANKS */
	size_t sizes[MOST_FILES], count, nbytes;
	bool is_folder, is_shared; /* all in one folder; one file for all ranks of the node */
	enum target target;
	struct ckpt_broadcast_options o;
	uint64_t gpu_sums_from;
	size_t agree_buffer;
	bool protects, aborts_together;
	enum fault fault;
	char variable[32], spec[100];
	enum ckpt_io_op op; /* of IO_FAILS */
	unsigned at;	    /* the so-many-th of them, or of all for CANCELLED */
	int code;
	uint32_t who; /* is cancelled */
	double grace_s;
};

static void choose_sizes(struct plan *p)
{
	size_t most = p->o.chunk * 40 < MOST_BYTES ? p->o.chunk * 40 : MOST_BYTES;

	p->is_folder = one_in(6);
	p->count = one_in(3) || p->is_folder ? 1 + below(MOST_FILES) : 1;
	for (size_t i = 0; i < p->count; i++) {
		size_t size = below((unsigned)(most / p->count) + 1);

		if (one_in(4))
			size = size / p->o.chunk * p->o.chunk;
		else if (one_in(8))
			size = below(3);
		p->sizes[i] = size;
		p->nbytes += size;
	}
}

static void choose_target(struct plan *p)
{
	unsigned *flags = &p->o.flags;

	p->target = below(3);
	if (p->target == TO_GPUS)
		*flags |= CKPT_BROADCAST_TO_GPU;
	if (p->target == TO_NOTHING)
		*flags |= CKPT_BROADCAST_NO_TARGET;
	if (one_in(3))
		*flags |= CKPT_BROADCAST_NO_VERIFY;
	if (p->target == TO_FILES) {
		p->is_shared = p->count == 1 && one_in(6);
		*flags |= one_in(4) ? 0u : CKPT_BROADCAST_NO_SYNC;
		*flags |= one_in(4) ? CKPT_BROADCAST_MKDIR : 0u;
		*flags |= one_in(4)   ? CKPT_BROADCAST_KEEP_GOING
			  : one_in(3) ? CKPT_BROADCAST_ALL_OR_NONE
				      : 0u;
		if (!(*flags & (CKPT_BROADCAST_NO_SYNC | CKPT_BROADCAST_NO_VERIFY)) && one_in(2))
			*flags |= CKPT_BROADCAST_REREAD;
	}
	/* on the host the kernel takes milliseconds */
	p->gpu_sums_from =
		one_in(4) && p->ranks <= 3 && p->nbytes <= 8 * p->o.chunk ? 0 : UINT64_MAX;
}

/* The nth call of some name, or of all. */
static void choose_call(struct plan *p, const char *variable, const char *const *names,
			size_t count, unsigned code, const char *tail)
{
	bool any = one_in(3);

	snprintf(p->variable, sizeof(p->variable), "%s", variable);
	snprintf(p->spec, sizeof(p->spec), "%s:%u:%u%s#%" PRIu64,
		 any ? "*" : names[below((unsigned)count)], code, up_to(any ? 4096 : 256), tail,
		 p->seed);
}

static void choose_fault(struct plan *p)
{
	static const unsigned cuda_codes[] = { 2, 719, 700, 999 }, nccl_codes[] = { 1, 2, 3, 5, 6 };
	static const char *const kinds[] = { "copy", "copy", "event", "kernel" };
	static const char *const asked[] = { "ncclBroadcast", "ncclAllReduce" };
	static const char *const ended[] = { "ncclCommAbort", "ncclCommDestroy" };
	static const enum ckpt_io_op ops[] = { CKPT_IO_READ,	 CKPT_IO_READ,	   CKPT_IO_WRITE,
					       CKPT_IO_WRITE,	 CKPT_IO_TRUNCATE, CKPT_IO_SYNC,
					       CKPT_IO_SYNC_DIR, CKPT_IO_LINK,	   CKPT_IO_RENAME,
					       CKPT_IO_THREAD };
	unsigned cuda_code = cuda_codes[below(COUNT(cuda_codes))], msec = 1 + below(20);

	switch (p->fault) {
	case CUDA_FAILS:
		choose_call(p, "FAKE_CUDA_FAIL", driver_calls, COUNT(driver_calls), cuda_code, "");
		break;
	case GPU_FAILS:
		choose_call(p, "FAKE_CUDA_FAIL", driver_calls, COUNT(driver_calls), cuda_code, "+");
		break;
	case GPU_FAILS_LATER:
		choose_call(p, "FAKE_CUDA_ASYNC", kinds,
			    COUNT(kinds) - (p->gpu_sums_from ? 1u : 0u), cuda_code, "");
		break;
	case CUDA_IS_LATE:
		choose_call(p, "FAKE_CUDA_LATE", waiting_calls, COUNT(waiting_calls), msec, "");
		break;
	case NCCL_FAILS:
		choose_call(p, "STUB_NCCL_FAIL", nccl_calls, COUNT(nccl_calls),
			    nccl_codes[below(COUNT(nccl_codes))], one_in(2) ? "" : "+");
		break;
	case NCCL_HANGS:
		choose_call(p, "STUB_NCCL_HANG", nccl_calls, COUNT(nccl_calls), 1, "");
		break;
	case NCCL_STALLS:
		choose_call(p, "STUB_NCCL_STALL", asked, COUNT(asked), 1, one_in(2) ? "" : "+");
		break;
	case NCCL_IS_LATE: choose_call(p, "STUB_NCCL_LATE", ended, COUNT(ended), msec, ""); break;
	case IO_FAILS:
		p->op = ops[below(COUNT(ops))];
		p->at = up_to(p->op == CKPT_IO_READ || p->op == CKPT_IO_WRITE ? 64
			      : p->op == CKPT_IO_THREAD			      ? 40
									      : 16);
		if (p->op == CKPT_IO_THREAD) /* no other one is given up then */
			p->grace_s = LONG_S;
		p->code = p->op == CKPT_IO_READ	    ? EIO
			  : p->op == CKPT_IO_THREAD ? EAGAIN
			  : one_in(2)		    ? ENOSPC
						    : EIO;
		break;
	case CANCELLED:
		p->at = below(2) * up_to(64);
		p->who = below(p->ranks);
		break;
	case WRONG_SUM:
		p->o.has_expected = true;
		p->o.expected_crc32 = 0x12345678;
		p->o.flags &= ~(unsigned)CKPT_BROADCAST_NO_VERIFY;
		break;
	default: break;
	}
}

/* Whether the ranks may no longer be able to agree. */
static bool breaks_transport(enum fault f)
{
	return f == CUDA_FAILS || f == GPU_FAILS || f == GPU_FAILS_LATER || f == NCCL_FAILS ||
	       f == NCCL_HANGS || f == NCCL_STALLS;
}

/* WANTED: a fault, or FAULT_COUNT. */
static void choose(uint64_t seed, enum fault wanted, struct plan *p)
{
	random_state = seed;
	*p = (struct plan){ .seed = seed, .o = CKPT_BROADCAST_OPTIONS_INIT };
	p->ranks = one_in(3) ? MOST_RANKS : 1 + below(MOST_RANKS);
	p->shift = below(MOST_RANKS);
	p->o.chunk = 4096u << below(4);
	if (one_in(3))
		p->o.chunk *= 3;
	p->o.depth = below(17);
	p->o.threads = 1 + below(4);
	p->o.readers = 1 + below(one_in(2) ? 1 : p->ranks);
	p->o.transport = p->ranks == 1 && one_in(3) ? "self" : "nccl";
	choose_sizes(p);
	choose_target(p);
	p->protects = one_in(4);
	p->aborts_together = one_in(2);
	p->fault = one_in(2) ? NONE : 1 + below(FAULT_COUNT - 1);
	if (wanted < FAULT_COUNT)
		p->fault = wanted;
	if (p->fault == WRONG_SUM && (p->count > 1 || p->is_folder))
		p->fault = NONE;
	p->o.timeout_s = LONG_S * SLOWER;
	p->grace_s = LONG_S;
	if (p->fault != NONE)
		p->grace_s = (5 + below(40)) * 1e-3 * SLOWER;
	if (breaks_transport(p->fault))
		p->o.timeout_s = (60 + below(100)) * 1e-3 * SLOWER;
	p->o.init_timeout_s = p->o.timeout_s;
	choose_fault(p);
	p->agree_buffer = (size_t)512 << below(8);
}

static void print_plan(const struct plan *p)
{
	printf("seed %" PRIu64 ": %u ranks, GPUs from %u, transport %s, %s of %zu (", p->seed,
	       p->ranks, p->shift, p->o.transport, p->is_folder ? "a folder" : "files", p->count);
	for (size_t i = 0; i < p->count; i++)
		printf("%s%zu", i ? " " : "", p->sizes[i]);
	printf("), chunk %" PRIu64
	       ", texts by %zu, depth %u, threads %u, readers %u, target %s%s, flags %#x, %s%s%s, fault %s %s",
	       p->o.chunk, p->agree_buffer, p->o.depth, p->o.threads, p->o.readers,
	       p->target == TO_FILES  ? "files"
	       : p->target == TO_GPUS ? "GPUs"
				      : "none",
	       p->is_shared ? ", one" : "", p->o.flags,
	       p->gpu_sums_from ? "sums of the host" : "sums of the GPU",
	       p->protects ? ", pages protected" : "", p->aborts_together ? ", aborts together" : "",
	       fault_names[p->fault], p->spec);
	if (p->fault == IO_FAILS)
		printf("operation %d, the %u", p->op, p->at);
	if (p->fault == CANCELLED)
		printf("rank %u at operation %u", p->who, p->at);
	printf(", timeout %.3f s, grace %.3f s\n", p->o.timeout_s, p->grace_s);
}

/* ---- what is there for all runs of a worker ---- */

static uint8_t data[MOST_BYTES + 1000 * MOST_FILES];
static char folder[100];
static bool is_verbose;

static fake_cuda_number *cuda_live, *nccl_live;
static fake_cuda_memory_of *gpu_memory;
static fake_cuda_device_of *current_device;
static void (*let_go)(void);

static void *function_of(const char *variable, const char *name)
{
	void *lib = dlopen(getenv(variable), RTLD_NOW | RTLD_LOCAL),
	     *function = lib ? dlsym(lib, name) : NULL;

	if (!function) {
		fprintf(stderr, "schedules: %s: %s\n", name, dlerror());
		exit(1);
	}
	return function;
}

/* Once, so that the first run of a process does no more than the others: what NCCL was built for is read from its file. */
static void load_doubles(void)
{
	struct ckpt_nccl_facts facts;

	*(void **)&cuda_live = function_of("CKPT_CUDA_LIB", "fake_cuda_live");
	*(void **)&gpu_memory = function_of("CKPT_CUDA_LIB", "fake_cuda_memory");
	*(void **)&current_device = function_of("CKPT_CUDA_LIB", "fake_cuda_device");
	*(void **)&nccl_live = function_of("CKPT_NCCL_LIB", "stub_nccl_live");
	*(void **)&let_go = function_of("CKPT_NCCL_LIB", "stub_nccl_let_go");
	ckpt_nccl_find_facts(&facts);
}

static const uint8_t *bytes_of(size_t file)
{
	return data + 997 * file;
}

/* Everything in the folder NAME of FOLDER, and it. */
static void remove_below(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	char name[600];

	while (dir && (e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		if (e->d_type == DT_DIR)
			remove_below(name);
		else
			unlink(name);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

static void write_source(const char *path, size_t file, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	if (fd < 0 || write(fd, bytes_of(file), size) != (ssize_t)size) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* ---- one run ---- */

struct rank {
	pthread_t thread;
	const struct plan *plan;
	const char *const *sources;
	size_t source_count;
	const char *wish;
	struct ckpt_broadcast_options o;
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	int rc, cancel, device_after;
	uint64_t nsec;
};

static struct rank ranks[MOST_RANKS];
static struct plan plan;
static atomic_uint io_seen;
static atomic_bool io_fired;

/* Without reading of another file the so-many-th operation of a kind is that of any rank. */
static int io_hook(void *ctx, enum ckpt_io_op op)
{
	const struct plan *p = ctx;

	if (p->fault == CANCELLED) {
		if (++io_seen == p->at)
			__atomic_store_n(&ranks[p->who].cancel, 15, __ATOMIC_RELAXED);
		return 0;
	}
	if (op != p->op || ++io_seen != p->at)
		return 0;
	io_fired = true;
	return p->code;
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	uint64_t start = ckpt_now_nsec();

	r->rc = ckpt_broadcast(r->sources, r->source_count, r->wish, &r->o, &r->report, &r->err);
	r->nsec = ckpt_now_nsec() - start;
	r->device_after = current_device(NULL);
	return NULL;
}

/* The id is of this run alone, as those of other processes that have the same double are not. */
static void make_id(uint64_t seed, char hex[300], char board[80])
{
	uint8_t bytes[128] = { 0 };
	unsigned len = 0;

	snprintf((char *)bytes, sizeof(bytes), "schedule %d %" PRIu64 " %" PRIu64, (int)getpid(),
		 seed, ckpt_now_nsec());
	bytes[127] = 1;
	len += (unsigned)sprintf(hex, "id:");
	for (size_t i = 0; i < sizeof(bytes); i++)
		len += (unsigned)sprintf(hex + len, "%02x", bytes[i]);
	sprintf(board, "/dev/shm/ckpt-%u-%08" PRIx32 "%08" PRIx32, (unsigned)geteuid(),
		libdeflate_crc32(0, bytes, 128), libdeflate_crc32(1, bytes, 128));
}

static size_t make_sources(const struct plan *p, char *names[MOST_FILES])
{
	char path[200];

	snprintf(path, sizeof(path), "%s/in", folder);
	mkdir(path, 0777);
	for (size_t i = 0; i < p->count; i++) {
		if (asprintf(&names[i], "%s/in/f%zu", folder, i) < 0)
			exit(1);
		write_source(names[i], i, p->sizes[i]);
	}
	if (!p->is_folder)
		return p->count;
	names[0][strlen(names[0]) - 3] = '\0';
	return 1;
}

/* Where the copies are to be: a file or folder for each rank, in out/, or in out/new/, which is to be made. */
static char *make_wish(const struct plan *p)
{
	bool is_new = p->o.flags & CKPT_BROADCAST_MKDIR;
	char path[200], *wish;

	snprintf(path, sizeof(path), "%s/out", folder);
	mkdir(path, 0777);
	for (uint32_t r = 0; p->count > 1 && !p->is_folder && !is_new && r < p->ranks; r++) {
		snprintf(path, sizeof(path), "%s/out/%u", folder, r);
		mkdir(path, 0777);
	}
	if (asprintf(&wish, "%s/out/%s%s", folder, is_new ? "new/" : "",
		     p->is_shared ? "0" : "%r") < 0)
		exit(1);
	return wish;
}

/* ---- judged ---- */

static char verdict[400]; /* of the first thing that is wrong; "": nothing */

__attribute__((format(printf, 1, 2))) static void find_wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!*verdict)
		vsnprintf(verdict, sizeof(verdict), format, args);
	va_end(args);
}

static bool has_bytes(const char *path, size_t file, size_t size)
{
	static uint8_t found[MOST_BYTES + 1];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof(found));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)size && memcmp(found, bytes_of(file), size) == 0;
}

static unsigned count_files; /* of the rank that is looked at */

/* A file, or a note of ckpt's. */
static void judge_file(const struct plan *p, const char *path, const char *name)
{
	size_t file = 0;

	if (name[0] == '.' && strstr(name, "ckpt-staged"))
		return;
	if (p->count > 1 || p->is_folder) {
		if (name[0] != 'f' || (file = (size_t)(name[1] - '0')) >= p->count || name[2]) {
			find_wrong("'%s' is left", path);
			return;
		}
	}
	if (!has_bytes(path, file, p->sizes[file]))
		find_wrong("'%s' has wrong bytes", path);
	count_files++;
}

/* What is at RANK's place: so many files, which are right. */
static unsigned judge_place(const struct plan *p, const char *out, uint32_t rank)
{
	char path[400], name[700];
	struct dirent *e;
	DIR *dir;

	count_files = 0;
	snprintf(path, sizeof(path), "%s/%u", out, rank);
	dir = p->count > 1 || p->is_folder ? opendir(path) : NULL;
	if (!dir && access(path, F_OK) == 0)
		judge_file(p, path, path + strlen(out) + 1);
	while (dir && (e = readdir(dir))) {
		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			judge_file(p, name, e->d_name);
	}
	if (dir)
		closedir(dir);
	return count_files;
}

/* Beside those places there are only notes. */
static void judge_names(const struct plan *p, const char *out)
{
	DIR *dir = opendir(out);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		bool is_place = e->d_name[0] >= '0' && (uint32_t)(e->d_name[0] - '0') < p->ranks &&
				!e->d_name[1];
		bool is_note = e->d_name[0] == '.' && strstr(e->d_name, "ckpt-staged") &&
			       !strstr(e->d_name, "tmp");

		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, "new") &&
		    !is_place && !is_note)
			find_wrong("'%s' is left", e->d_name);
	}
	if (dir)
		closedir(dir);
}

static void judge_files(const struct plan *p)
{
	bool may_stay = breaks_transport(p->fault) ||
			(p->fault == IO_FAILS && p->op != CKPT_IO_READ && p->op != CKPT_IO_THREAD &&
			 !(p->o.flags & CKPT_BROADCAST_ALL_OR_NONE));
	bool failed = false, is_new = p->o.flags & CKPT_BROADCAST_MKDIR;
	char out[200];

	snprintf(out, sizeof(out), "%s/out%s", folder, is_new ? "/new" : "");
	for (uint32_t r = 0; r < p->ranks; r++) {
		unsigned there = judge_place(p, out, r);
		int code = ranks[r].report.code;

		failed |= code != 0;
		if (p->is_shared && r > 0)
			continue;
		if (code == 0 && there != (p->target == TO_FILES ? p->count : 0))
			find_wrong("rank %u has %u files", r, there);
		if (code == CKPT_BROADCAST_PARTIAL && *ranks[r].report.path && there != p->count)
			find_wrong("rank %u has %u files, and says path '%s'", r, there,
				   ranks[r].report.path);
		/* where only the folder could not be synced the message says that all is there */
		if (code == CKPT_BROADCAST_PARTIAL && !*ranks[r].report.path && there &&
		    there == p->count && p->op != CKPT_IO_SYNC_DIR)
			find_wrong("rank %u has all files, and says no path", r);
		if (code && code != CKPT_BROADCAST_PARTIAL && there && !may_stay)
			find_wrong("rank %u has %u files in spite of status %d", r, there, code);
	}
	judge_names(p, out);
	if (is_new && failed && !may_stay && p->fault != IO_FAILS && access(out, F_OK) == 0)
		find_wrong("the new folder is left");
}

static void judge_gpu(const struct plan *p, uint32_t rank)
{
	struct ckpt_gpu_copy *copy = ranks[rank].report.gpu;
	struct ckpt_gpu_file file = CKPT_GPU_FILE_INIT;

	if ((copy != NULL) != (ranks[rank].report.code == 0 && p->target == TO_GPUS))
		find_wrong("rank %u has %s on its GPU", rank, copy ? "something" : "nothing");
	for (size_t i = 0; copy && i < p->count; i++) {
		if (ckpt_gpu_file_get(copy, (uint32_t)i, &file) < 0 || file.nbytes != p->sizes[i])
			find_wrong("rank %u: file %zu has %" PRIu64 " bytes on the GPU", rank, i,
				   file.nbytes);
		else if (file.nbytes && memcmp(gpu_memory(file.address, file.nbytes), bytes_of(i),
					       file.nbytes) != 0)
			find_wrong("rank %u: wrong bytes of file %zu on the GPU", rank, i);
	}
	if (copy)
		ckpt_gpu_release(copy);
}

/* The status that all must have; -1: not only one is possible. */
static int wanted_status(const struct plan *p)
{
	switch (p->fault) {
	case NONE:
	case CUDA_IS_LATE:
	case NCCL_IS_LATE: return 0;
	case WRONG_SUM: return CKPT_BROADCAST_DAMAGED;
	case IO_FAILS:
		return !io_fired					? 0
		       : p->op == CKPT_IO_READ && p->target != TO_FILES ? CKPT_BROADCAST_SOURCE
									: -1;
	case CANCELLED: return p->at == 0 ? 128 + 15 : -1;
	default: return -1;
	}
}

static void judge_status(const struct plan *p)
{
	int wanted = wanted_status(p), first = ranks[0].report.code;

	for (uint32_t r = 0; r < p->ranks; r++) {
		const struct rank *k = &ranks[r];
		int code = k->report.code;

		if ((code == 0) != (k->rc == 0))
			find_wrong("rank %u has status %d and returned %d", r, code, k->rc);
		if (wanted >= 0 && code != wanted)
			find_wrong("rank %u has status %d, wanted %d", r, code, wanted);
		if (!breaks_transport(p->fault) && code != first)
			find_wrong("rank %u has status %d, rank 0 %d", r, code, first);
		if (breaks_transport(p->fault) && code && code != CKPT_BROADCAST_SETUP &&
		    code != CKPT_BROADCAST_LOST && code != CKPT_BROADCAST_NO_TRANSPORT &&
		    (code != CKPT_BROADCAST_DESTINATION || p->target != TO_GPUS))
			find_wrong("rank %u has status %d", r, code);
		if (code == 0 && k->report.has_crc &&
		    k->report.crc32 != libdeflate_crc32(0, bytes_of(0), p->sizes[0]))
			find_wrong("rank %u has a wrong checksum", r);
		if (code == 0 && k->report.has_crc != (p->count == 1 &&
						       !(p->o.flags & CKPT_BROADCAST_NO_VERIFY)))
			find_wrong("rank %u has %s checksum", r, k->report.has_crc ? "a" : "no");
		if (k->device_after >= 0)
			find_wrong("rank %u was left with a context", r);
	}
}

/* To open, a vote and the text behind it, the others' announcements, the end. */
static void judge_time(const struct plan *p)
{
	double most = p->o.init_timeout_s + 2 * p->o.timeout_s + 2 + 3 * p->grace_s + 1.5 * SLOWER;

	for (uint32_t r = 0; r < p->ranks; r++)
		if ((double)ranks[r].nsec / 1e9 > most)
			find_wrong("rank %u took %.2f s, wanted at most %.2f", r,
				   (double)ranks[r].nsec / 1e9, most);
}

static unsigned count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* How many threads never come back: one that could not be started, in whose place nothing is released. */
static unsigned wait_for_threads(const struct plan *p)
{
	unsigned lost = p->fault == IO_FAILS && p->op == CKPT_IO_THREAD && io_fired;

	for (unsigned i = 0; i < 10000 && ckpt_gpu_count_abandoned() > lost; i++) {
		let_go(); /* what hangs only now as well */
		usleep(1000);
	}
	if (ckpt_gpu_count_abandoned() > lost)
		find_wrong("%u threads still hang", ckpt_gpu_count_abandoned());
	return ckpt_gpu_count_abandoned();
}

/* False: a thread never comes back, and nobody can say what is left. */
static bool judge_rest(const struct plan *p, unsigned descriptors, const char *board)
{
	if (wait_for_threads(p))
		return false;
	if (cuda_live() || nccl_live())
		find_wrong("%u things of CUDA and %u communicators are left", cuda_live(),
			   nccl_live());
	if (count_descriptors() != descriptors)
		find_wrong("%u descriptors, before %u", count_descriptors(), descriptors);
	if (access(board, F_OK) == 0) {
		find_wrong("'%s' is left", board);
		unlink(board);
	}
	return true;
}

static void print_ranks(const struct plan *p)
{
	for (uint32_t r = 0; r < p->ranks; r++) {
		char text[sizeof(ranks[r].err.text)];

		printf("  rank %u: status %d after %.3f s: %s\n", r, ranks[r].report.code,
		       (double)ranks[r].nsec / 1e9,
		       ckpt_error_text(&ranks[r].err, text, sizeof(text)));
	}
}

/* ---- ... begun and ended ---- */

enum outcome { ALL_SUCCEED, ALL_SAY_THE_SAME, ALL_FAIL, SOME_SUCCEED, OUTCOME_COUNT };

static enum outcome outcome_of(const struct plan *p)
{
	unsigned good = 0, same = 0;

	for (uint32_t r = 0; r < p->ranks; r++) {
		good += ranks[r].report.code == 0;
		same += ranks[r].report.code == ranks[0].report.code;
	}
	if (good == p->ranks)
		return ALL_SUCCEED;
	return good ? SOME_SUCCEED : same == p->ranks ? ALL_SAY_THE_SAME : ALL_FAIL;
}

static void set_number(const char *variable, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	setenv(variable, text, 1);
}

static void prepare(const struct plan *p)
{
	set_number("FAKE_CUDA_SEED", p->seed % 1000000 + 1);
	set_number("FAKE_CUDA_PROTECT", p->protects);
	set_number("STUB_NCCL_TOGETHER", p->aborts_together);
	if (*p->variable)
		setenv(p->variable, p->spec, 1);
	ckpt_ring_gpu_sums_from = p->gpu_sums_from;
	ckpt_agree_buffer = p->agree_buffer;
	ckpt_gpu_grace_nsec = (uint64_t)(p->grace_s * 1e9);
	io_seen = 0;
	io_fired = false;
	if (p->fault == IO_FAILS || (p->fault == CANCELLED && p->at))
		ckpt_io_set_hook(io_hook, (void *)p);
}

static void unprepare(const struct plan *p)
{
	ckpt_io_set_hook(NULL, NULL);
	if (*p->variable)
		unsetenv(p->variable);
	ckpt_gpu_grace_nsec = LONG_S * 1000000000ull;
}

static void run_ranks(const struct plan *p, const char *const *sources, size_t count,
		      const char *wish, const char *id)
{
	for (uint32_t i = 0; i < p->ranks; i++) {
		struct rank *r = &ranks[i];

		*r = (struct rank){ .plan = p,
				    .sources = sources,
				    .source_count = count,
				    .wish = wish,
				    .o = p->o,
				    .report = CKPT_BROADCAST_REPORT_INIT,
				    .err = CKPT_ERROR_INIT };
		r->o.rank = i;
		r->o.world_size = p->ranks;
		r->o.local_rank = p->is_shared ? i : 0;
		r->o.gpu = (i + p->shift) % MOST_RANKS;
		r->o.rendezvous = id;
		r->o.cancel = &r->cancel;
		if (p->fault == CANCELLED && p->at == 0 && p->who == i)
			r->cancel = 15;
	}
	for (uint32_t i = 0; i < p->ranks; i++)
		if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) != 0)
			exit(1);
	for (uint32_t i = 0; i < p->ranks; i++)
		pthread_join(ranks[i].thread, NULL);
}

/* False: this process is to be the last one's. */
static bool run_schedule(uint64_t seed, enum fault wanted, enum outcome *outcome)
{
	char *names[MOST_FILES], *wish, id[300], board[80], path[200];
	unsigned descriptors = count_descriptors();
	bool goes_on;

	*verdict = 0;
	choose(seed, wanted, &plan);
	if (is_verbose)
		print_plan(&plan);
	size_t count = make_sources(&plan, names);
	wish = make_wish(&plan);
	make_id(seed, id, board);
	prepare(&plan);
	run_ranks(&plan, (const char *const *)names, count, wish, id);
	wait_for_threads(&plan); /* before anything changes */
	unprepare(&plan);
	judge_status(&plan);
	judge_time(&plan);
	judge_files(&plan);
	for (uint32_t r = 0; r < plan.ranks; r++)
		judge_gpu(&plan, r);
	goes_on = judge_rest(&plan, descriptors, board);
	*outcome = outcome_of(&plan);
	if (*verdict && !is_verbose)
		print_plan(&plan);
	if (*verdict || is_verbose)
		print_ranks(&plan);
	if (*verdict)
		printf("  WRONG: %s\n", verdict);
	fflush(stdout);
	for (size_t i = 0; i < plan.count; i++)
		free(names[i]);
	free(wish);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, i ? "in" : "out");
		remove_below(path);
	}
	return goes_on;
}

/* ---- workers ---- */

struct shared {
	uint64_t seed; /* of the first run */
	atomic_ullong next, done, wrong;
	atomic_ullong now[MOST_JOBS]; /* the run that each does */
	atomic_ullong slowest_nsec, slowest_seed;
	atomic_ullong outcomes[FAULT_COUNT][OUTCOME_COUNT];
	uint64_t runs, end_nsec; /* whichever comes first */
	enum fault wanted;
};

static struct shared *shared;

static void make_folder(void)
{
	const char *given = getenv("CKPT_SCHEDULES_DIR");

	snprintf(folder, sizeof(folder), "%s/ckpt-schedules-XXXXXX",
		 given				 ? given
		 : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
						 : "/tmp");
	if (!mkdtemp(folder)) {
		perror(folder);
		exit(1);
	}
}

static void work(unsigned job)
{
	int status = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* fewer looks at what has not changed: twice as many runs */
	prctl(PR_SET_TIMERSLACK, 200000);
	load_doubles();
	make_folder();
	while (status == 0 && shared->wrong < MOST_FAILURES && ckpt_now_nsec() < shared->end_nsec) {
		uint64_t number = shared->next++, start = ckpt_now_nsec();
		enum outcome outcome;

		if (number >= shared->runs)
			break;
		shared->now[job] = number + 1;
		alarm(HANGS_S * SLOWER);
		if (!run_schedule(shared->seed + number, shared->wanted, &outcome))
			status = RETIRED;
		alarm(0);
		if (ckpt_now_nsec() - start > shared->slowest_nsec) {
			shared->slowest_nsec = ckpt_now_nsec() - start;
			shared->slowest_seed = shared->seed + number;
		}
		shared->wrong += *verdict != 0;
		shared->outcomes[plan.fault][outcome]++;
		if (++shared->done % 1000 == 0)
			printf("%llu runs, %llu wrong\n", shared->done, shared->wrong);
		shared->now[job] = 0;
	}
	remove_below(folder);
	fflush(stdout);
	if (status)
		_exit(status);
	exit(0);
}

static pid_t start(unsigned job)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		work(job);
	return child;
}

static void supervise(unsigned jobs)
{
	pid_t workers[MOST_JOBS];
	unsigned left = jobs;

	for (unsigned i = 0; i < jobs; i++)
		workers[i] = start(i);
	while (left) {
		int status;
		pid_t ended = wait(&status);
		unsigned job = 0;

		while (job < jobs && workers[job] != ended)
			job++;
		if (job == jobs)
			continue;
		if (status == 0) {
			left--;
			continue;
		}
		if (!WIFEXITED(status) || WEXITSTATUS(status) != RETIRED) {
			shared->wrong++;
			shared->done++;
			if (shared->now[job]) {
				choose(shared->seed + shared->now[job] - 1, shared->wanted, &plan);
				print_plan(&plan);
				printf("  WRONG: the process %s\n",
				       WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hangs"
											  : "died");
			} else
				printf("WRONG: a process died at its end\n");
		}
		workers[job] = start(job);
	}
}

static void print_results(double seconds)
{
	printf("%-16s %9s %9s %9s %9s\n", "fault", "succeed", "one status", "fail", "some succeed");
	for (unsigned f = 0; f < FAULT_COUNT; f++)
		printf("%-16s %9llu %9llu %9llu %9llu\n", fault_names[f],
		       shared->outcomes[f][ALL_SUCCEED], shared->outcomes[f][ALL_SAY_THE_SAME],
		       shared->outcomes[f][ALL_FAIL], shared->outcomes[f][SOME_SUCCEED]);
	printf("%llu runs from seed %" PRIu64
	       " in %.1f s, %.0f a second, the slowest %.2f s (seed %llu); %llu wrong\n",
	       shared->done, shared->seed, seconds, (double)shared->done / seconds,
	       (double)shared->slowest_nsec / 1e9, shared->slowest_seed, shared->wrong);
}

static enum fault find_fault(const char *name)
{
	unsigned f = 0;

	while (f < FAULT_COUNT && strcmp(name, fault_names[f]) != 0)
		f++;
	return f;
}

/* Runs do not depend on what there is, such as a launcher's, and what looks for a variable soon sees that it is missing. */
static void set_variables(void)
{
	static const char *const kept[] = { "CKPT_CUDA_LIB", "CKPT_NCCL_LIB", "CKPT_SCHEDULES_DIR",
					    "USER" };
	char *values[COUNT(kept)];

	for (size_t i = 0; i < COUNT(kept); i++)
		values[i] = getenv(kept[i]) ? strdup(getenv(kept[i])) : NULL;
	clearenv();
	for (size_t i = 0; i < COUNT(kept); i++) {
		if (values[i])
			setenv(kept[i], values[i], 1);
		free(values[i]);
	}
	setenv("FAKE_CUDA_STRICT", "1", 1);
	set_number("FAKE_CUDA_GPUS", MOST_RANKS);
	if (!getenv("CKPT_CUDA_LIB"))
		setenv("CKPT_CUDA_LIB", DOUBLES "/fake_cuda.so", 1);
	if (!getenv("CKPT_NCCL_LIB"))
		setenv("CKPT_NCCL_LIB", DOUBLES "/stub_nccl.so", 1);
	mallopt(M_MMAP_THRESHOLD, 64 << 20); /* pages that were there are used again */
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

int main(int argc, char **argv)
{
	unsigned jobs = 8;
	double seconds = 0;
	uint64_t begin = ckpt_now_nsec();

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	shared->seed = 1;
	shared->runs = UINT64_MAX;
	shared->wanted = FAULT_COUNT;
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--verbose"))
			is_verbose = true;
		else if (!strcmp(argv[i], "--runs"))
			shared->runs = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--seconds"))
			seconds = atof(value);
		else if (!strcmp(argv[i], "--seed"))
			shared->seed = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--jobs"))
			jobs = (unsigned)atoi(value);
		else if (!strcmp(argv[i], "--fault"))
			shared->wanted = find_fault(value);
		i += argv[i][2] != 'v';
	}
	if (jobs < 1 || jobs > MOST_JOBS)
		return 2;
	if (seconds == 0 && shared->runs == UINT64_MAX)
		seconds = 5;
	shared->end_nsec = seconds > 0 ? begin + (uint64_t)(seconds * 1e9) : UINT64_MAX;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 2654435761u >> 23);
	set_variables();
	supervise(jobs);
	print_results((double)(ckpt_now_nsec() - begin) / 1e9);
	return shared->wrong ? 1 : 0;
}
