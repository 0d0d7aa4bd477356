/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcasts at random over TCP on the loopback, most of them with one fault, each judged:
 *
 *   tcp_schedules [--runs N] [--seed N] [--verbose]
 *   tcp_schedules --ranks N       one without a fault, of 64 KiB to N ranks, as often as --runs says: how long it takes
 *
 * The ranks of a run are threads. All choices of a run follow from its seed, which is printed if it fails: --seed SEED --runs 1
 * --verbose takes the same choices again. What threads do at the same time is not chosen.
 *
 * What is judged: all ranks but the one that has the fault end with one status, in time, and say which rank it is about. A
 * file under its final name is whole, who has status 0 has it, and nothing else is left, no descriptor either.
 */
#include "base/clock.h"
#include "broadcast/broadcast.h"
#include "broadcast/tcp_star.h"
#include "broadcast/transport_tcp.h"
#include "io/fault.h"

#include "../random_choices.h"

#include <ckpt/broadcast.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
enum { SLOWER = 4 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SLOWER = 2 };
#else
enum { SLOWER = 1 };
#endif

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { RANKS = 9, MOST_RANKS = 256, MOST_BYTES = 1 << 20, MOST_FAILURES = 10, TIMED_BYTES = 65536 };

static const double SPARE_S = 3,      /* for threads of a busy machine */
	LONG_S = 20,		      /* patience where nothing is to be waited for */
	INIT_S = 1,		      /* others wait so long for a rank that is lost before it is connected */
	HANG_S = 0.2, PAUSE_S = 0.06; /* ... where somebody hangs; and less than it */

/* ---- choices ---- */

#define FAULTS(X) \
	X(NONE, "none") \
	X(CALL_FAILS, "call-fails")   /* one of the network's, once */ \
	X(CUT_OFF, "cut-off")	      /* this one, and all that follow */ \
	X(PAUSES, "pauses")	      /* less than the time-out */ \
	X(HANGS, "hangs")	      /* more */ \
	X(FILE_FAILS, "file-fails")   /* one operation on a file, on any rank */ \
	X(CANCELLED, "cancelled") \
	X(WRONG_SUM, "wrong-sum")     /* other than the expected one */

enum fault_kind {
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

struct plan {
	uint64_t seed;
	uint32_t ranks, victim;
	size_t size;
	struct ckpt_broadcast_options o;
	enum fault_kind fault;
	bool any_call;
	enum ckpt_io_op op; /* the AT-th of these, or of all of the network's */
	unsigned at;
	int code;
};

static void choose_fault(struct plan *p)
{
	static const enum ckpt_io_op calls[] = { CKPT_IO_SOCKET,  CKPT_IO_BIND,	   CKPT_IO_LISTEN, CKPT_IO_ACCEPT,
						 CKPT_IO_CONNECT, CKPT_IO_SEND,	   CKPT_IO_SEND,   CKPT_IO_RECV,
						 CKPT_IO_RECV,	  CKPT_IO_POLL };
	static const int call_codes[] = { ECONNRESET, EPIPE, ETIMEDOUT, EHOSTUNREACH, ENOMEM, EMFILE };
	static const enum ckpt_io_op ops[] = { CKPT_IO_READ, CKPT_IO_WRITE,    CKPT_IO_WRITE, CKPT_IO_TRUNCATE,
					       CKPT_IO_SYNC, CKPT_IO_SYNC_DIR, CKPT_IO_LINK,  CKPT_IO_RENAME };

	p->fault = one_in(8) ? NONE : 1 + below(FAULT_COUNT - 1);
	if (p->fault == FILE_FAILS) {
		p->op = ops[below(COUNT(ops))];
		p->at = up_to(p->op == CKPT_IO_READ || p->op == CKPT_IO_WRITE ? 64 : 2 * p->ranks);
		p->code = p->op == CKPT_IO_READ || one_in(2) ? EIO : ENOSPC;
		return;
	}
	p->any_call = one_in(2) || p->fault == CANCELLED;
	p->op = calls[below(COUNT(calls))];
	p->at = up_to(p->any_call ? 1024 : p->op == CKPT_IO_SEND || p->op == CKPT_IO_RECV || p->op == CKPT_IO_POLL ? 256 : 4);
	p->code = call_codes[below(COUNT(call_codes))];
	if (p->fault == WRONG_SUM) {
		p->o.has_expected = true;
		p->o.expected_crc32 = 0x12345678;
		p->o.flags &= ~(unsigned)CKPT_BROADCAST_NO_VERIFY;
	}
}

static void choose(uint64_t seed, struct plan *p)
{
	random_state = seed;
	*p = (struct plan){ .seed = seed, .o = CKPT_BROADCAST_OPTIONS_INIT };
	p->ranks = 2 + below(one_in(3) ? RANKS - 1 : 4);
	p->victim = below(p->ranks);
	p->o.chunk = 4096u << below(6);
	p->o.depth = 1 + below(16);
	p->o.threads = 1 + below(3);
	p->o.readers = 1 + below(one_in(2) ? 1 : p->ranks);
	p->size = below((unsigned)(p->o.chunk * 40 < MOST_BYTES ? p->o.chunk * 40 : MOST_BYTES));
	p->o.flags = one_in(3) ? CKPT_BROADCAST_NO_VERIFY : 0u;
	p->o.flags |= one_in(4) ? 0u : CKPT_BROADCAST_NO_SYNC;
	p->o.flags |= one_in(4) ? CKPT_BROADCAST_KEEP_GOING : one_in(3) ? CKPT_BROADCAST_ALL_OR_NONE : 0u;
	if (!(p->o.flags & (CKPT_BROADCAST_NO_SYNC | CKPT_BROADCAST_NO_VERIFY)) && one_in(2))
		p->o.flags |= CKPT_BROADCAST_REREAD;
	choose_fault(p);
	p->o.timeout_s = p->fault == HANGS ? HANG_S * SLOWER : LONG_S;
	p->o.init_timeout_s = p->fault == HANGS ? HANG_S * SLOWER : INIT_S * SLOWER;
}

static void choose_timed(uint32_t count, struct plan *p)
{
	*p = (struct plan){ .ranks = count, .size = TIMED_BYTES, .o = CKPT_BROADCAST_OPTIONS_INIT };
	p->o.flags = CKPT_BROADCAST_NO_SYNC;
	p->o.timeout_s = p->o.init_timeout_s = LONG_S;
}

static void print_plan(const struct plan *p)
{
	printf("seed %" PRIu64 ": %u ranks, %zu bytes, chunk %" PRIu64 ", depth %u, readers %u, flags %#x, %s", p->seed, p->ranks,
	       p->size, p->o.chunk, p->o.depth, p->o.readers, p->o.flags, fault_names[p->fault]);
	if (p->fault == FILE_FAILS)
		printf(" (operation %d, the %u, with %d)", p->op, p->at, p->code);
	else if (p->fault != NONE && p->fault != WRONG_SUM)
		printf(" on rank %u (call %d, the %u, with %d)", p->victim, p->any_call ? -1 : (int)p->op, p->at, p->code);
	printf("\n");
}

/* ---- one run ---- */

struct rank {
	pthread_t thread;
	uint32_t number;
	const char *source, *wish;
	struct ckpt_tcp_star *star; /* rank 0's, which listens */
	struct ckpt_tcp_place place;
	struct ckpt_broadcast_options o;
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	bool has_met;
	int code, cancel;
	double seconds;
};

static struct plan plan;
static struct rank ranks[MOST_RANKS];
static uint8_t data[MOST_BYTES];
static char folder[100];
static const uint8_t secret[CKPT_WIRE_KEY] = { 4, 5, 6 };
static _Thread_local const struct rank *me; /* in the thread that uses the network */
static atomic_uint seen;
static atomic_bool has_happened;

static void nap(double seconds)
{
	usleep((useconds_t)(seconds * 1e6));
}

static int fail_at_files(enum ckpt_io_op op)
{
	if (op != plan.op || ++seen != plan.at)
		return 0;
	has_happened = true;
	return plan.code;
}

static int hook(void *ctx, enum ckpt_io_op op)
{
	unsigned count;

	(void)ctx;
	if (plan.fault == FILE_FAILS)
		return fail_at_files(op);
	if (op < CKPT_IO_SOCKET || !me || me->number != plan.victim || (!plan.any_call && op != plan.op && !has_happened))
		return 0;
	count = ++seen;
	if (count < plan.at || (count > plan.at && plan.fault != CUT_OFF))
		return 0;
	has_happened = true;
	switch (plan.fault) {
	case PAUSES: nap(PAUSE_S); return 0;
	case HANGS: nap(3 * plan.o.timeout_s); return 0;
	case CANCELLED: __atomic_store_n(&ranks[plan.victim].cancel, 15, __ATOMIC_RELAXED); return 0;
	default: return plan.code;
	}
}

static uint64_t from_now(double seconds)
{
	return ckpt_now_nsec() + (uint64_t)(seconds * 1e9);
}

static int open_transport(struct rank *r, const struct ckpt_world *world, struct ckpt_transport **out)
{
	struct ckpt_failure_notice told = { 0 };
	int rc = r->star ? 0 : ckpt_tcp_star_new(world, secret, &r->place, &r->star, &r->err);

	if (rc == 0)
		rc = ckpt_transport_open_tcp(r->star, NULL, &r->cancel, from_now(r->o.init_timeout_s), out, &told, &r->err);
	if (rc == CKPT_E_CANCELLED) /* as ckpt_session_open_transport() does it */
		r->code = CKPT_BROADCAST_CANCELLED + (told.signal ? told.signal : r->cancel);
	return rc;
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	uint64_t start = ckpt_now_nsec();
	struct ckpt_transport *transport = NULL;
	struct ckpt_session session;
	struct ckpt_world world = { .rank = r->number, .size = plan.ranks, .launcher = "threads" };

	me = r;
	r->code = CKPT_BROADCAST_SETUP;
	if (open_transport(r, &world, &transport) == 0) {
		r->has_met = true;
		if (ckpt_session_init(&session, &r->source, 1, r->wish, &r->o) < 0)
			abort();
		session.world = world;
		ckpt_broadcast_over(&session, transport, &r->report, &r->err);
		r->code = r->report.code;
	}
	r->seconds = (double)(ckpt_now_nsec() - start) / 1e9;
	return NULL;
}

static void listen_for_all(void)
{
	struct ckpt_world world = { .rank = 0, .size = plan.ranks };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_tcp_resolved at;

	ranks[0].place.nonce[0] = (uint8_t)plan.seed;
	if (ckpt_tcp_find_own("lo", &at, &err) < 0 ||
	    ckpt_tcp_star_new(&world, secret, &ranks[0].place, &ranks[0].star, &err) < 0 ||
	    ckpt_tcp_star_listen(ranks[0].star, &at, &ranks[0].place, &err) < 0)
		abort();
	for (uint32_t i = 1; i < plan.ranks; i++)
		ranks[i].place = ranks[0].place;
}

static void run_ranks(const char *source, const char *wish)
{
	for (uint32_t i = 0; i < plan.ranks; i++) {
		ranks[i] = (struct rank){ .number = i, .source = source, .wish = wish, .o = plan.o,
					  .report = CKPT_BROADCAST_REPORT_INIT, .err = CKPT_ERROR_INIT };
		ranks[i].o.cancel = &ranks[i].cancel;
	}
	listen_for_all();
	ckpt_io_set_hook(plan.fault == NONE || plan.fault == WRONG_SUM ? NULL : hook, NULL);
	for (uint32_t i = 0; i < plan.ranks; i++)
		if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) != 0)
			abort();
	for (uint32_t i = 0; i < plan.ranks; i++)
		pthread_join(ranks[i].thread, NULL);
	ckpt_io_set_hook(NULL, NULL);
}

/* ---- judged ---- */

static char verdict[700]; /* of the first thing that is wrong; "": nothing */

__attribute__((format(printf, 1, 2))) static void find_wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!*verdict)
		vsnprintf(verdict, sizeof(verdict), format, args);
	va_end(args);
}

static bool has_source(const char *path)
{
	static uint8_t found[MOST_BYTES + 1];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof(found));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)plan.size && memcmp(found, data, plan.size) == 0;
}

static bool is_of_one_rank(void)
{
	return plan.fault == CALL_FAILS || plan.fault == CUT_OFF || plan.fault == HANGS;
}

/* The status that all have; -1: not only one is possible. */
static int wanted_status(void)
{
	if (plan.fault == WRONG_SUM)
		return CKPT_BROADCAST_DAMAGED;
	if (plan.fault == HANGS) /* a busy machine may make others late */
		return -1;
	return plan.fault == NONE || plan.fault == PAUSES || !has_happened ? CKPT_BROADCAST_OK : -1;
}

static void judge_rank(const struct rank *r, int common)
{
	static const int possible[FAULT_COUNT][4] = {
		[CALL_FAILS] = { 0, CKPT_BROADCAST_SETUP, CKPT_BROADCAST_LOST, -1 },
		[CUT_OFF] = { 0, CKPT_BROADCAST_SETUP, CKPT_BROADCAST_LOST, -1 },
		[HANGS] = { 0, CKPT_BROADCAST_SETUP, CKPT_BROADCAST_LOST, -1 },
		[FILE_FAILS] = { 0, CKPT_BROADCAST_SOURCE, CKPT_BROADCAST_DESTINATION, CKPT_BROADCAST_PARTIAL },
		[CANCELLED] = { 0, 128 + 15, -1 },
	};
	bool is_victim = is_of_one_rank() && r->number == plan.victim, is_possible = false;
	double most = SPARE_S * SLOWER + (plan.fault == HANGS ? 6 * plan.o.timeout_s : r->code == CKPT_BROADCAST_SETUP ? plan.o.init_timeout_s : 0);
	char text[sizeof(r->err.text)];
	int wanted = wanted_status();

	for (size_t i = 0; i < COUNT(possible[0]); i++)
		is_possible |= possible[plan.fault][i] == r->code;
	if (wanted >= 0 ? r->code != wanted : !is_possible)
		find_wrong("rank %u has status %d, wanted %d", r->number, r->code, wanted);
	/* some may have heard that all have met, when rank 0 is lost */
	if (!is_victim && r->code != common && (r->has_met || common != CKPT_BROADCAST_LOST || r->code != CKPT_BROADCAST_SETUP))
		find_wrong("rank %u has status %d, others %d", r->number, r->code, common);
	if (r->seconds > most)
		find_wrong("rank %u took %.2f s", r->number, r->seconds);
	if (r->code == CKPT_BROADCAST_LOST && !is_victim && !strstr(ckpt_error_text(&r->err, text, sizeof(text)), "rank "))
		find_wrong("rank %u names nobody: %s", r->number, text);
}

static bool has_file(uint32_t rank)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/out/%u", folder, rank);
	if (access(path, F_OK) != 0)
		return false;
	if (!has_source(path))
		find_wrong("rank %u has other bytes", rank);
	return true;
}

/* After a failure a name can only be there from the last step, which may fail for one rank alone. */
static void judge_files(void)
{
	bool may_stay = is_of_one_rank() || (plan.fault == FILE_FAILS && !(plan.o.flags & CKPT_BROADCAST_ALL_OR_NONE));
	char path[200];
	struct dirent *e;
	DIR *dir;

	for (uint32_t i = 0; i < plan.ranks; i++) {
		bool there = has_file(i);

		if (ranks[i].code == 0 && !there)
			find_wrong("rank %u has status 0 and no file", i);
		if (ranks[i].code && ranks[i].code != CKPT_BROADCAST_PARTIAL && there && !may_stay)
			find_wrong("rank %u has status %d and a file", i, ranks[i].code);
		if (!ranks[i].has_met && there)
			find_wrong("rank %u has a file, and never met the others", i);
	}
	snprintf(path, sizeof(path), "%s/out", folder);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !(e->d_name[0] >= '0' && e->d_name[0] <= '9') &&
		    !(e->d_name[0] == '.' && strstr(e->d_name, "ckpt-staged") && !strstr(e->d_name, "tmp")))
			find_wrong("'%s' is left", e->d_name);
	if (dir)
		closedir(dir);
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

static void print_ranks(void)
{
	for (uint32_t i = 0; i < plan.ranks; i++) {
		char text[sizeof(ranks[i].err.text)];

		printf("  rank %u: status %d after %.3f s: %s\n", i, ranks[i].code, ranks[i].seconds,
		       ckpt_error_text(&ranks[i].err, text, sizeof(text)));
	}
	printf("  WRONG: %s\n", *verdict ? verdict : "nothing");
	fflush(stdout);
}

/* ---- ... and many ---- */

static void remove_below(const char *name)
{
	char path[300], file[600];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		unlink(file);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

static void write_source(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	if (fd < 0 || write(fd, data, plan.size) != (ssize_t)plan.size || close(fd) != 0) {
		perror(path);
		exit(1);
	}
}

static bool run_schedule(uint64_t seed, uint32_t timed, bool is_verbose)
{
	char source[200], wish[200], path[200];
	unsigned descriptors = count_descriptors();
	int common;

	*verdict = 0;
	if (timed)
		choose_timed(timed, &plan);
	else
		choose(seed, &plan);
	if (is_verbose)
		print_plan(&plan);
	seen = 0;
	has_happened = false;
	snprintf(path, sizeof(path), "%s/out", folder);
	mkdir(path, 0777);
	snprintf(source, sizeof(source), "%s/source", folder);
	snprintf(wish, sizeof(wish), "%s/out/%%r", folder);
	write_source(source);
	run_ranks(source, wish);
	common = ranks[is_of_one_rank() && plan.victim == 0].code;
	for (uint32_t i = 0; i < plan.ranks; i++)
		if (ranks[i].code == CKPT_BROADCAST_LOST && !(is_of_one_rank() && i == plan.victim))
			common = CKPT_BROADCAST_LOST;
	for (uint32_t i = 0; i < plan.ranks; i++)
		judge_rank(&ranks[i], common);
	judge_files();
	if (count_descriptors() != descriptors)
		find_wrong("%u descriptors, before %u", count_descriptors(), descriptors);
	if (*verdict && !is_verbose)
		print_plan(&plan);
	if (*verdict || is_verbose)
		print_ranks();
	unlink(source);
	remove_below("out");
	return !*verdict;
}

int main(int argc, char **argv)
{
	static unsigned happened[FAULT_COUNT], failed[FAULT_COUNT], runs[FAULT_COUNT];
	const char *given = getenv("CKPT_SCHEDULES_DIR");
	uint64_t seed = 1, count = 200, wrong = 0, begin = ckpt_now_nsec(), done = 0;
	uint32_t timed = 0;
	bool is_verbose = false;
	double slowest = 0;

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--verbose"))
			is_verbose = true;
		else if (!strcmp(argv[i], "--runs"))
			count = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--ranks"))
			timed = (uint32_t)strtoul(value, NULL, 10);
		else
			return 2;
		i += argv[i][2] != 'v';
	}
	if (timed > MOST_RANKS)
		return 2;
	snprintf(folder, sizeof(folder), "%s/ckpt-schedules-XXXXXX", given ? given : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(folder)) {
		perror(folder);
		return 1;
	}
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 2654435761u >> 23);
	for (; done < count && wrong < MOST_FAILURES; done++) {
		uint64_t last_begin = ckpt_now_nsec();

		wrong += !run_schedule(seed + done, timed, is_verbose);
		runs[plan.fault]++;
		happened[plan.fault] += has_happened;
		failed[plan.fault] += ranks[plan.victim == 0].code != 0;
		for (uint32_t i = 0; i < plan.ranks; i++)
			slowest = ranks[i].seconds > slowest ? ranks[i].seconds : slowest;
		if (timed)
			printf("%" PRIu32 " ranks have %zu bytes %.2f s after the first began\n", timed, plan.size, (double)(ckpt_now_nsec() - last_begin) / 1e9);
	}
	rmdir(folder);
	printf("%-12s %8s %8s %8s\n", "fault", "runs", "happened", "failed");
	for (unsigned i = 0; i < FAULT_COUNT; i++)
		printf("%-12s %8u %8u %8u\n", fault_names[i], runs[i], happened[i], failed[i]);
	printf("%" PRIu64 " runs from seed %" PRIu64 " in %.1f s, the slowest rank %.2f s; %" PRIu64 " wrong\n", done, seed,
	       (double)(ckpt_now_nsec() - begin) / 1e9, slowest, wrong);
	return wrong ? 1 : 0;
}
