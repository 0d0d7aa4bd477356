/* SPDX-License-Identifier: Apache-2.0 */
#include "io/temp.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* The process id would not do: in a container it is the same at each start. */
char *ckpt_temp_name(const char *dir, const char *path)
{
	static _Atomic uint32_t counter;
	const char *slash = strrchr(path, '/');
	struct timespec now = { 0 };
	uint32_t random;
	char *name;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
		clock_gettime(CLOCK_REALTIME, &now);
		random = (uint32_t)now.tv_nsec ^ (uint32_t)getpid() << 8;
	}
	if (asprintf(&name, "%s/.%.200s.%08" PRIx32 ".ckpt-tmp", dir, slash ? slash + 1 : path,
		     random + counter++) < 0)
		return NULL;
	return name;
}
