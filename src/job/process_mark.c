/* SPDX-License-Identifier: Apache-2.0 */
#include "job/process_mark.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void ckpt_read_boot_id(char *out, int size)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(out, size, file))
		*out = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (file)
		fclose(file);
}

static uint64_t own_pid_space(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* 0: there is none, or it cannot be seen. The name of the program, before it, may have any character. */
static uint64_t start_of(uint32_t pid)
{
	char path[40], text[1024];
	uint64_t started = 0;
	const char *p;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
	file = fopen(path, "re");
	n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[n] = '\0';
	if (file)
		fclose(file);
	p = strrchr(text, ')');
	if (p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
			&started) != 1)
		started = 0;
	return started;
}

void ckpt_process_mark_own(struct ckpt_process_mark *out)
{
	memset(out, 0, sizeof(*out));
	ckpt_read_boot_id(out->machine, sizeof(out->machine));
	out->pid_space = own_pid_space();
	out->pid = (uint32_t)getpid();
	out->started = start_of(out->pid);
}

bool ckpt_process_mark_is_gone(const struct ckpt_process_mark *mark)
{
	char machine[sizeof(mark->machine)], path[40];
	uint64_t started;
	struct stat st;

	ckpt_read_boot_id(machine, sizeof(machine));
	if (!machine[0] || strcmp(machine, mark->machine) != 0 || !mark->pid_space ||
	    mark->pid_space != own_pid_space() || !mark->started || mark->pid == 0 || mark->pid > INT32_MAX)
		return false;
	if (start_of((uint32_t)getpid()) == 0)
		return false; /* there is no /proc */
	snprintf(path, sizeof(path), "/proc/%" PRIu32, mark->pid);
	if (stat(path, &st) < 0)
		return errno == ENOENT;
	started = start_of(mark->pid);
	return started && started != mark->started;
}
