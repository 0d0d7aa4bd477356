/* SPDX-License-Identifier: Apache-2.0 */
#include "job/board.h"

#include "base/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum place_state { ABSENT, PRESENT, GIVES_UP, LEFT };
enum { POLL_NSEC = 1000000 };

/* TEXT is written before the state says so, and never again. */
struct place {
	atomic_uint state;
	char text[252];
};

struct ckpt_board {
	struct place *places; /* mapped; by rank */
	uint32_t rank, size;
	char path[80];
	bool has_file;
};

static int open_file(struct ckpt_board *b, off_t nbytes)
{
	int fd = open(b->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    ftruncate(fd, nbytes) == 0)
		return fd;
	close(fd);
	return -1;
}

struct ckpt_board *ckpt_board_open(const void *id, size_t len, uint32_t rank, uint32_t size)
{
	struct ckpt_board *b = calloc(1, sizeof(*b));
	size_t nbytes = size * sizeof(struct place);
	void *memory = MAP_FAILED;
	int fd;

	if (!b)
		return NULL;
	b->rank = rank;
	b->size = size;
	snprintf(b->path, sizeof(b->path), "/dev/shm/ckpt-%u-%08" PRIx32 "%08" PRIx32,
		 (unsigned)geteuid(), libdeflate_crc32(0, id, len), libdeflate_crc32(1, id, len));
	fd = open_file(b, (off_t)nbytes);
	if (fd >= 0) {
		memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	if (memory == MAP_FAILED) {
		free(b);
		return NULL;
	}
	b->places = memory;
	b->has_file = true;
	atomic_store(&b->places[rank].state, PRESENT);
	return b;
}

void ckpt_board_remove_file(struct ckpt_board *b)
{
	if (b && b->has_file)
		unlink(b->path);
	if (b)
		b->has_file = false;
}

void ckpt_board_announce(struct ckpt_board *b, const char *text)
{
	struct place *mine = b ? &b->places[b->rank] : NULL;

	if (!mine || atomic_load(&mine->state) != PRESENT)
		return;
	snprintf(mine->text, sizeof(mine->text), "%s", text);
	atomic_store(&mine->state, GIVES_UP);
}

bool ckpt_board_find(const struct ckpt_board *b, uint32_t *rank, char *text, size_t size)
{
	for (uint32_t i = 0; b && i < b->size; i++) {
		const struct place *p = &b->places[i];

		if (i == b->rank || atomic_load(&p->state) < GIVES_UP || !p->text[0])
			continue;
		*rank = i;
		snprintf(text, size, "%.*s", (int)sizeof(p->text) - 1, p->text);
		return true;
	}
	return false;
}

static bool is_anyone_present(const struct ckpt_board *b)
{
	for (uint32_t i = 0; i < b->size; i++)
		if (i != b->rank && atomic_load(&b->places[i].state) == PRESENT)
			return true;
	return false;
}

void ckpt_board_wait(const struct ckpt_board *b, uint64_t nsec)
{
	uint64_t end = ckpt_now_nsec() + nsec;

	while (b && is_anyone_present(b) && ckpt_now_nsec() < end)
		nanosleep(&(struct timespec){ 0, POLL_NSEC }, NULL);
}

void ckpt_board_close(struct ckpt_board *b)
{
	if (!b)
		return;
	atomic_store(&b->places[b->rank].state, LEFT);
	munmap(b->places, b->size * sizeof(struct place));
	ckpt_board_remove_file(b);
	free(b);
}
