/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At what pace would a broadcast go? A model: the real code, its threads and its polls, over doubles of CUDA and NCCL that
 * take their time (FAKE_CUDA_RATES, STUB_NCCL_LINK). It shows where the code waits, not what a machine does.
 *
 *   pace [--quick] [--slower N] [--only TEXT]
 *
 * Fails if a goal is missed, but not with --quick.
 *
 * Sizes are 1/SCALE of the real ones, and so are rates. All time goes N times slower (by default 40), the pauses of the code
 * included, so that two processors stand for many: what the code computes takes none of the model's time. A read takes as
 * long as one thread needs for it, checksum included; threads do not slow each other down.
 *
 * What must stay true: nothing in the library but nanosleep() decides how often it looks for what has changed. Not in the
 * model: votes between the chunks, as there are fewer bytes; kernels for checksums; the memory's own limits.
 */
#include "base/clock.h"
#include "base/error.h"
#include "io/fault.h"

#include <ckpt/broadcast.h>

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	SCALE = 1024,
	MOST_RANKS = 64,
};

static double slower = 40;

static void pause_for(double nsec)
{
	nsec *= slower;
	clock_nanosleep(CLOCK_MONOTONIC, 0,
			&(struct timespec){ (time_t)(nsec / 1e9), (long)fmod(nsec, 1e9) }, NULL);
}

/* In the place of the one of the C library, for all that this program is linked from: the system wakes a thread late. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	(void)left;
	pause_for((double)wanted->tv_sec * 1e9 + (double)wanted->tv_nsec +
		  prctl(PR_GET_TIMERSLACK));
	return 0;
}

struct machine {
	const char *name;
	uint32_t ranks, readers, threads;
	double read;		   /* GB/s: of one thread */
	double up, link, hop_usec; /* GB/s: to a GPU; from one to the next, and what that takes */
	double gib;		   /* to carry */
	uint64_t chunk, depth;	   /* 0: the standard */
	double goal;		   /* GB/s; 0: none */
	double slower;		   /* 0: as asked: what many threads compute takes its time as well */
};

static double read_nsec; /* of one chunk, in the model */

/* Each read is of one chunk. */
static int read_slowly(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	if (op == CKPT_IO_READ)
		pause_for(read_nsec);
	return 0;
}

struct rank {
	pthread_t thread;
	const char *source;
	struct ckpt_broadcast_options o;
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	int rc;
};

static void *run_rank(void *arg)
{
	struct rank *r = arg;

	r->rc = ckpt_broadcast(&r->source, 1, NULL, &r->o, &r->report, &r->err);
	ckpt_gpu_release(r->report.gpu);
	return NULL;
}

static void make_id(char hex[300])
{
	uint8_t bytes[128] = { 0 };
	unsigned len = (unsigned)sprintf(hex, "id:");

	snprintf((char *)bytes, sizeof(bytes), "pace %d %" PRIu64, (int)getpid(), ckpt_now_nsec());
	bytes[127] = 1;
	for (size_t i = 0; i < sizeof(bytes); i++)
		len += (unsigned)sprintf(hex + len, "%02x", bytes[i]);
}

/* GB/s of the machine, as bytes in a microsecond of the slow model. */
static double rate(double gb_per_s)
{
	return gb_per_s * 1000 / SCALE / slower;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* The doubles read them once: in a process of its own. */
static void set_rates(const struct machine *m)
{
	char text[200];

	snprintf(text, sizeof(text), "h2d:%f,d2h:%f,d2d:%f,launch:%f", rate(m->up), rate(m->up),
		 rate(1500), 2 * slower);
	setenv("FAKE_CUDA_RATES", text, 1);
	snprintf(text, sizeof(text), "%f:%f:%f:%f:%f", rate(m->link), m->hop_usec * slower,
		 10 * slower, 30 * slower, smaller(m->hop_usec, 5) * slower);
	setenv("STUB_NCCL_LINK", text, 1);
}

static void make_source(const char *path, size_t nbytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)nbytes) < 0) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* GB/s; 0: it failed. */
static double carry(const struct machine *m, const char *source)
{
	static struct rank ranks[MOST_RANKS];
	uint64_t chunk = (m->chunk ? m->chunk : m->ranks > 1 ? 8 << 20 : 4 << 20) / SCALE;
	size_t nbytes = (size_t)(m->gib * (1 << 30)) / SCALE;
	double seconds = 0;
	char id[300];

	read_nsec = (double)chunk * SCALE / m->read;
	make_source(source, nbytes);
	make_id(id);
	ckpt_io_set_hook(read_slowly, NULL);
	for (uint32_t i = 0; i < m->ranks; i++) {
		ranks[i] = (struct rank){ .source = source,
					  .o = CKPT_BROADCAST_OPTIONS_INIT,
					  .report = CKPT_BROADCAST_REPORT_INIT,
					  .err = CKPT_ERROR_INIT };
		ranks[i].o.flags = CKPT_BROADCAST_TO_GPU | CKPT_BROADCAST_NO_VERIFY;
		ranks[i].o.rank = ranks[i].o.gpu = i;
		ranks[i].o.world_size = m->ranks;
		ranks[i].o.local_rank = i;
		ranks[i].o.transport = m->ranks > 1 ? "nccl" : "self";
		ranks[i].o.rendezvous = id;
		ranks[i].o.chunk = chunk;
		ranks[i].o.depth = m->depth ? (uint32_t)m->depth : 16;
		ranks[i].o.threads = m->threads;
		ranks[i].o.readers = m->readers;
		ranks[i].o.timeout_s = ranks[i].o.init_timeout_s = 100;
		if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) != 0)
			exit(1);
	}
	for (uint32_t i = 0; i < m->ranks; i++) {
		pthread_join(ranks[i].thread, NULL);
		if (ranks[i].rc < 0) {
			char text[sizeof(ranks[i].err.text)];

			printf("rank %u: %s\n", i,
			       ckpt_error_text(&ranks[i].err, text, sizeof(text)));
			return 0;
		}
		if (ranks[i].report.seconds > seconds)
			seconds = ranks[i].report.seconds;
	}
	return (double)nbytes * SCALE / 1e9 / (seconds / slower);
}

/* In a child, whose doubles have other rates. False: it failed. */
static bool show(const struct machine *m)
{
	double readers = m->readers,
	       most = smaller(m->threads * m->read * readers, m->up * readers);
	char source[] = "/dev/shm/ckpt-pace-XXXXXX";
	int status = 1, fd;
	pid_t child;

	if (m->ranks > 1)
		most = smaller(most, m->link);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		double found;

		if (slower > 2 && slower < m->slower)
			slower = m->slower;
		set_rates(m);
		fd = mkstemp(source);
		if (fd < 0)
			exit(1);
		close(fd);
		found = carry(m, source);
		unlink(source);
		printf("%-52s %7.1f %9.1f %6.2f  ", m->name, found, most, found / most);
		if (m->goal > 0)
			printf("%g%s", m->goal, found < m->goal && slower > 2 ? ", missed" : "");
		putchar('\n');
		exit(found > 0 && (found >= m->goal || slower <= 2) ? 0 : 1);
	}
	waitpid(child, &status, 0);
	return status == 0;
}

static const struct machine cases[] = {
	{ "page cache to one GPU, 4 threads", 1, 1, 4, 5, 55, 0, 0, 8, 0, 0, 0, 0 },
	{ "page cache to one GPU, 8 threads", 1, 1, 8, 5, 55, 0, 0, 8, 0, 0, 0, 0 },
	{ "page cache to one GPU, 12 threads", 1, 1, 12, 5, 55, 0, 0, 8, 0, 0, 0, 0 },
	{ "the same, PCIe at 52", 1, 1, 12, 5, 52, 0, 0, 8, 0, 0, 40, 0 },
	{ "8 GPUs, 1 reader", 8, 1, 12, 5, 52, 360, 3, 8, 0, 0, 45, 0 },
	{ "8 GPUs, 4 readers", 8, 4, 12, 5, 52, 360, 3, 8, 0, 0, 0, 0 },
	{ "8 GPUs, 8 readers", 8, 8, 12, 5, 52, 360, 3, 8, 0, 0, 150, 0 },
	{ "8 GPUs, 8 readers, 4 threads each", 8, 8, 4, 5, 52, 360, 3, 8, 0, 0, 0, 0 },
	{ "8 GPUs, 8 readers, chunks of 16 MiB", 8, 8, 12, 5, 52, 360, 3, 8, 16 << 20, 8, 0, 0 },
	{ "64 nodes at 400 Gbit/s, a GPU each, 1 reader", 64, 1, 12, 5, 52, 48, 50, 8, 0, 0, 40, 300 },
};

int main(int argc, char **argv)
{
	const char *only = "";
	bool is_quick = false, good = true;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--quick"))
			is_quick = true;
		else if (!strcmp(argv[i], "--slower") && i + 1 < argc)
			slower = atof(argv[++i]);
		else if (!strcmp(argv[i], "--only") && i + 1 < argc)
			only = argv[++i];
		else
			return 2;
	}
	if (is_quick)
		slower = 2;
	setenv("FAKE_CUDA_STRICT", "1", 1);
	setenv("FAKE_CUDA_GPUS", "64", 1);
	if (!getenv("CKPT_CUDA_LIB"))
		setenv("CKPT_CUDA_LIB", DOUBLES "/fake_cuda.so", 1);
	if (!getenv("CKPT_NCCL_LIB"))
		setenv("CKPT_NCCL_LIB", DOUBLES "/stub_nccl.so", 1);
	printf("Model only: no GPU, no NCCL and no disk has been measured. GB/s, time %g times slower.\n",
	       slower);
	printf("%-52s %7s %9s %6s  %s\n", "", "model", "slowest", "share", "goal");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine m = cases[i];

		if (is_quick)
			m.gib /= 16;
		if (strstr(m.name, only))
			good &= show(&m);
	}
	return good ? 0 : 1;
}
