/* SPDX-License-Identifier: Apache-2.0 */
#include "io/direct.h"

#include "io/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 }; /* what disks and file systems want of addresses and lengths; few want more */

int ckpt_direct_open(const struct ckpt_source *src)
{
	char path[40];
	uint64_t file_off;
	int fd = ckpt_source_fd(src, &file_off);

	if (fd < 0 || file_off)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* of its name there may be another file now */
	return open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
}

bool ckpt_direct_is_cached(struct ckpt_source *src, uint64_t off, size_t len)
{
	long page = sysconf(_SC_PAGESIZE);
	uint64_t first = off / (uint64_t)page * (uint64_t)page;
	size_t pages = (size_t)((off + len - first + (uint64_t)page - 1) / (uint64_t)page), there = 0;
	const uint8_t *map;
	unsigned char *are;

	if (!len || ckpt_source_map(src, &map, NULL) < 0)
		return true;
	are = malloc(pages);
	if (!are || mincore((uint8_t *)map + first, (size_t)(off + len - first), are) < 0)
		there = pages;
	for (size_t i = 0; there < pages && i < pages; i++)
		there += are[i] & 1;
	free(are);
	return there > pages / 4;
}

/* Reads a part at the beginning of the LEN bytes, as much as it can. */
static size_t read_some(int fd, uint64_t off, uint8_t *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = ckpt_io_pread(fd, buf + done, len - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
		if ((size_t)n % PAGE) /* the end of the file, or of what the disk can */
			break;
	}
	return done;
}

int ckpt_direct_read(const struct ckpt_source *src, int fd, uint64_t off, void *buf, size_t len, struct ckpt_error *err)
{
	uint8_t *to = buf;
	size_t front = (size_t)(-off % PAGE), done;
	int rc;

	if (fd < 0 || ((uintptr_t)to - off) % PAGE || front >= len || len - front < PAGE)
		return ckpt_source_read(src, off, buf, len, err);
	rc = front ? ckpt_source_read(src, off, to, front, err) : 0;
	if (rc < 0)
		return rc;
	done = front + read_some(fd, off + front, to + front, (len - front) / PAGE * PAGE);
	/* also what failed: reading it as usual says why, or succeeds */
	return done < len ? ckpt_source_read(src, off + done, to + done, len - done, err) : 0;
}
