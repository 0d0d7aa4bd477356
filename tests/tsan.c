/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into the command where it is built with ThreadSanitizer. libtsan (gcc 12) keeps signals until a thread waits or
 * returns from a call. It makes the memory for them at the first wait of a thread, and what comes meanwhile gets lost: a rank
 * that is told to end just when it begins to wait for the others waits on. So the first wait is here, before any handler.
 */
#include <time.h>

static __attribute__((constructor)) void wait_first(void)
{
	nanosleep(&(struct timespec){ 0 }, NULL);
}
