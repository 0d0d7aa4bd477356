/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a meeting over PMIx, under mpirun: meet_pmix TIMES [SECONDS [RANK]]. All ranks meet TIMES times; with
 * RANK that one says nothing for SECONDS, and the others are to tell so within half of them.
 */
#include "base/clock.h"
#include "job/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELLO = 3000, MOST_RANKS = 16 };

static const char *variable(void *ctx, const char *name)
{
	(void)ctx;
	return getenv(name);
}

static int meet(const struct ckpt_world *w, double seconds, unsigned turn, bool mute,
		struct ckpt_error *err)
{
	static uint8_t hello[HELLO], all[MOST_RANKS * HELLO], answer[HELLO];
	uint64_t deadline = ckpt_now_nsec() + (uint64_t)(seconds * 1e9);
	struct ckpt_rendezvous *r;
	int rc = ckpt_rendezvous_open_pmix(w, &r, err);

	if (rc < 0)
		return rc;
	memset(hello, (int)(w->rank + turn), sizeof(hello));
	memset(answer, w->rank == 0 ? (int)(100 + turn) : 0, sizeof(answer));
	if (mute)
		usleep((useconds_t)(seconds * 1e6));
	else
		rc = r->ops->gather(r, hello, sizeof(hello), all, deadline, err);
	for (uint32_t i = 0; rc == 0 && !mute && w->rank == 0 && i < w->size * HELLO; i++)
		if (all[i] != i / HELLO + turn)
			rc = ckpt_fail(err, CKPT_E_PEER, "wrong hello at %u", i);
	if (rc == 0 && !mute)
		rc = r->ops->share(r, answer, sizeof(answer), deadline, err);
	if (rc == 0 && !mute && (answer[0] != 100 + turn || answer[HELLO - 1] != 100 + turn))
		rc = ckpt_fail(err, CKPT_E_PEER, "wrong answer");
	r->ops->close(r);
	return rc;
}

int main(int argc, char **argv)
{
	const struct ckpt_world_wish wish = { .rank = -1, .size = -1, .local_rank = -1 };
	unsigned times = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	double seconds = argc > 2 ? atof(argv[2]) : 60;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_world world;
	char text[1200];
	int rc = ckpt_world_find(&wish, variable, NULL, &world, &err);

	bool has_mute = argc > 3, mute = has_mute && world.rank == (uint32_t)atoi(argv[3]);

	for (unsigned i = 0; rc == 0 && i < times; i++)
		rc = meet(&world, has_mute && !mute ? seconds / 2 : seconds, i, mute, &err);
	if (rc < 0)
		fprintf(stderr, "rank %u: %s\n", world.rank,
			ckpt_error_format(&err, text, sizeof(text)));
	return has_mute || rc == 0 ? 0 : -rc;
}
