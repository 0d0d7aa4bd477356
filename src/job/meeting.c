/* SPDX-License-Identifier: Apache-2.0 */
#include "job/meeting.h"

#include "base/grow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The folder of a meeting: names of files. meeting.h says what they are for. */

void ckpt_hello_name(char out[64], uint32_t rank, uint64_t nonce)
{
	snprintf(out, 64, "hello.%" PRIu32 ".%016" PRIx64, rank, nonce);
}

void ckpt_seen_name(char out[64], uint64_t first, uint32_t rank, uint64_t nonce)
{
	snprintf(out, 64, "seen.%016" PRIx64 ".%" PRIu32 ".%016" PRIx64, first, rank, nonce);
}

void ckpt_answer_name(char out[64], uint64_t first)
{
	snprintf(out, 64, "answer.%016" PRIx64, first);
}

void ckpt_left_name(char out[64], uint64_t first, uint32_t rank, uint64_t nonce)
{
	snprintf(out, 64, "left.%016" PRIx64 ".%" PRIu32 ".%016" PRIx64, first, rank, nonce);
}

static bool parse_name(const char *name, struct ckpt_sighting *s)
{
	int used = 0;

	*s = (struct ckpt_sighting){ .kind = CKPT_SIGHT_HELLO };
	if (sscanf(name, "hello.%" SCNu32 ".%16" SCNx64 "%n", &s->rank, &s->nonce, &used) < 2) {
		s->kind = CKPT_SIGHT_SEEN;
		if (sscanf(name, "seen.%16" SCNx64 ".%" SCNu32 ".%16" SCNx64 "%n", &s->first,
			   &s->rank, &s->nonce, &used) < 3) {
			s->kind = CKPT_SIGHT_LEFT;
			if (sscanf(name, "left.%16" SCNx64 ".%" SCNu32 ".%16" SCNx64 "%n", &s->first,
				   &s->rank, &s->nonce, &used) < 3) {
				s->kind = CKPT_SIGHT_ANSWER;
				if (sscanf(name, "answer.%16" SCNx64 "%n", &s->first, &used) < 1)
					return false;
			}
		}
	}
	return used && !name[used];
}

int ckpt_meeting_list(const char *folder, int (*visit)(void *ctx, const struct ckpt_sighting *s),
		      void *ctx, struct ckpt_error *err)
{
	DIR *dir = opendir(folder); /* anew each time, so that NFS asks the server */
	struct ckpt_sighting s;
	struct dirent *entry;
	int rc = 0;

	while (dir && rc == 0 && (errno = 0, entry = readdir(dir)))
		if (parse_name(entry->d_name, &s))
			rc = visit(ctx, &s);
	if (rc == 0 && (!dir || errno))
		rc = ckpt_error_at(err, ckpt_fail_errno(err, "cannot look into the folder"), folder,
				   NULL, CKPT_NO_OFFSET);
	if (dir)
		closedir(dir);
	return rc;
}

static bool has_seen(const struct ckpt_meeting *m, uint64_t first)
{
	for (uint32_t i = 0; i < m->first_count; i++)
		if (m->firsts[i] == first)
			return true;
	return false;
}

int ckpt_meeting_acknowledge(struct ckpt_meeting *m, uint64_t first, struct ckpt_error *err)
{
	char name[64], path[PATH_MAX];
	uint64_t *grown;
	int fd;

	if (has_seen(m, first))
		return 0;
	grown = ckpt_grow(m->firsts, m->first_count, &m->first_cap, sizeof(*grown));
	if (!grown)
		return ckpt_fail_nomem(err);
	m->firsts = grown;
	ckpt_seen_name(name, first, m->me.rank, m->me.nonce);
	snprintf(path, sizeof(path), "%s/%s", m->folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return ckpt_error_at(err, ckpt_fail_errno(err, "cannot write"), path, NULL,
				     CKPT_NO_OFFSET);
	close(fd);
	m->firsts[m->first_count++] = first;
	return 0;
}

void ckpt_meeting_remove(const struct ckpt_meeting *m, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", m->folder, name);
	unlink(path);
}
