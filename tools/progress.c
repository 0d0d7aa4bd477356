/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t caught;
static bool shown;
bool progress_in_lines;

/* On whichever thread it comes, while others read the flag. */
static void on_signal(int number)
{
	__atomic_store_n(&caught, number, __ATOMIC_RELAXED);
}

static const int numbers[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
			       SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM };

const volatile int *catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction before;

		sigaction(numbers[i], NULL, &before);
		if (before.sa_handler != SIG_IGN) /* nohup stays in force */
			sigaction(numbers[i], &action, NULL);
	}
	return &caught;
}

void release_signals(void)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction now;

		sigaction(numbers[i], NULL, &now);
		if (now.sa_handler == on_signal)
			signal(numbers[i], SIG_DFL);
	}
}

void end_by_signal(void)
{
	int number = caught;

	if (!number)
		return;
	fflush(stdout);
	signal(number, SIG_DFL);
	raise(number);
}

double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A job that ends with its first step has no time to divide by. */
static const double LEAST_SECONDS = 1e-3;

/* Every two seconds, and at the end. */
static bool is_time_for_line(double since, bool is_end)
{
	return progress_in_lines && (since >= 2 || is_end);
}

/* Ask only once: many small tensors make very many steps. */
static int on_terminal = -1;

static bool is_on_terminal(void)
{
	if (on_terminal < 0)
		on_terminal = isatty(STDERR_FILENO);
	return on_terminal;
}

void forget_terminal(void)
{
	on_terminal = 0;
}

static bool is_time_on_terminal(double since, double since_start)
{
	return !progress_in_lines && !quiet && since_start >= 1 && since >= 0.2 &&
	       is_on_terminal();
}

/*
 * Print one line on a terminal, for jobs that take longer than a second; or lines, if these are
 * wanted.
 */
void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	static double start, last;
	double now = seconds(), rate;
	char a[16], b[16], r[16];

	(void)ctx;
	if (!start)
		start = last = now;
	if (!is_time_for_line(now - last, done == total) &&
	    !is_time_on_terminal(now - last, now - start))
		return;
	last = now;
	shown = !progress_in_lines;
	rate = (double)done / (now - start > LEAST_SECONDS ? now - start : LEAST_SECONDS);
	fprintf(stderr, "%s%s of %s, %s/s, %.0f s left%s", progress_in_lines ? "ckpt: " : "\r",
		human_size(done, a), human_size(total, b), human_size((uint64_t)rate, r),
		rate > 0 ? (double)(total - done) / rate : 0.0,
		progress_in_lines ? "\n" : " \033[K");
}

void show_count(uint64_t done, uint64_t total)
{
	static double start, last;
	double now = seconds();
	char a[32], b[32];

	if (!start)
		start = last = now;
	if (!is_time_on_terminal(now - last, now - start))
		return;
	last = now;
	shown = true;
	fprintf(stderr, "\r%s of %s inputs \033[K", grouped(done, a), grouped(total, b));
}

void end_progress(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
