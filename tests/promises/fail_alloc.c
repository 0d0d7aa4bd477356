/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded: allocation number CKPT_FAIL_ALLOC of the process returns NULL, and with CKPT_FAIL_ALL all behind it, too. At the end
 * the number of allocations is written to the descriptor CKPT_COUNT_FD.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_ulong calls;
static unsigned long fails_at;
static bool all;

__attribute__((constructor)) static void begin(void)
{
	const char *at = getenv("CKPT_FAIL_ALLOC");

	calls = 0;
	fails_at = at ? strtoul(at, NULL, 10) : 0;
	all = getenv("CKPT_FAIL_ALL");
}

__attribute__((destructor)) static void end(void)
{
	const char *fd = getenv("CKPT_COUNT_FD");

	if (fd)
		dprintf(atoi(fd), "%lu\n", (unsigned long)calls);
}

static bool fails(void)
{
	unsigned long n = ++calls;

	if (!fails_at || !(all ? n >= fails_at : n == fails_at))
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return fails() ? NULL : __libc_realloc(old, size);
}
