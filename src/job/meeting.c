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

bool ckpt_meeting_is_left_over(const struct ckpt_meeting *m, uint32_t rank, uint64_t nonce)
{
	struct ckpt_note note;
	bool is_gone;
	char name[64];

	ckpt_hello_name(name, rank, nonce);
	if (ckpt_note_read(m->folder, name, m->uid, &note, NULL) != CKPT_NOTE_WHOLE)
		return false;
	is_gone = ckpt_process_mark_is_gone(&note.process);
	ckpt_note_clear(&note);
	return is_gone;
}

struct sweep {
	const struct ckpt_meeting *m;
	uint64_t gone[CKPT_MOST_TOLD]; /* nonces */
	unsigned count;
};

static int find_gone(void *ctx, const struct ckpt_sighting *s)
{
	struct sweep *w = ctx;

	if (s->kind == CKPT_SIGHT_HELLO && s->nonce != w->m->me.nonce &&
	    w->count < sizeof(w->gone) / sizeof(w->gone[0]) && ckpt_meeting_is_left_over(w->m, s->rank, s->nonce))
		w->gone[w->count++] = s->nonce;
	return 0;
}

/* Its hello last: without that nothing would say any more that the others are left over. */
static int remove_of_gone(void *ctx, const struct ckpt_sighting *s)
{
	const struct sweep *w = ctx;
	bool is_gone = false;
	char name[64];

	for (unsigned i = 0; i < w->count; i++)
		is_gone |= w->gone[i] == (s->kind == CKPT_SIGHT_ANSWER ? s->first : s->nonce);
	if (s->kind == CKPT_SIGHT_SEEN)
		ckpt_seen_name(name, s->first, s->rank, s->nonce);
	else if (s->kind == CKPT_SIGHT_LEFT)
		ckpt_left_name(name, s->first, s->rank, s->nonce);
	else
		ckpt_answer_name(name, s->first);
	if (is_gone && s->kind != CKPT_SIGHT_HELLO)
		ckpt_meeting_remove(w->m, name);
	return 0;
}

static int remove_hello_of_gone(void *ctx, const struct ckpt_sighting *s)
{
	const struct sweep *w = ctx;
	char name[64];

	ckpt_hello_name(name, s->rank, s->nonce);
	for (unsigned i = 0; s->kind == CKPT_SIGHT_HELLO && i < w->count; i++)
		if (w->gone[i] == s->nonce)
			ckpt_meeting_remove(w->m, name);
	return 0;
}

void ckpt_meeting_remove_left_over(const struct ckpt_meeting *m)
{
	struct sweep w = { .m = m };

	if (ckpt_meeting_list(m->folder, find_gone, &w, NULL) < 0 || w.count == 0)
		return;
	ckpt_meeting_list(m->folder, remove_of_gone, &w, NULL);
	ckpt_meeting_list(m->folder, remove_hello_of_gone, &w, NULL);
}
