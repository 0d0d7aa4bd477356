/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/rendezvous_over.h"

#include "base/clock.h"
#include "broadcast/agree.h"

#include <stdlib.h>
#include <string.h>

struct over {
	struct ckpt_rendezvous base;
	struct ckpt_agreement agreement;
};

static void set_patience(struct over *o, uint64_t deadline)
{
	uint64_t now = ckpt_now_nsec();

	o->agreement.patience_nsec = deadline > now ? deadline - now : 0;
}

static int gather(struct ckpt_rendezvous *r, const void *hello, size_t len, void *all,
		  uint64_t deadline, struct ckpt_error *err)
{
	struct over *o = (struct over *)r;
	uint8_t bytes[CKPT_MOST_HELLO];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->world.size; i++) {
		memcpy(bytes, hello, len);
		set_patience(o, deadline);
		rc = ckpt_agree_send(&o->agreement, bytes, len, i, err);
		if (rc == 0 && r->world.rank == 0)
			memcpy((uint8_t *)all + i * len, bytes, len);
	}
	return rc;
}

static int share(struct ckpt_rendezvous *r, void *bytes, size_t len, uint64_t deadline,
		 struct ckpt_error *err)
{
	struct over *o = (struct over *)r;

	set_patience(o, deadline);
	return ckpt_agree_send(&o->agreement, bytes, len, 0, err);
}

static void silent(struct ckpt_rendezvous *r, char *text, size_t size)
{
	(void)r;
	if (size)
		*text = '\0';
}

static void close_over(struct ckpt_rendezvous *r)
{
	ckpt_agreement_close(&((struct over *)r)->agreement);
	free(r);
}

int ckpt_rendezvous_over(struct ckpt_transport *transport, const struct ckpt_world *world,
			 struct ckpt_rendezvous **out, struct ckpt_error *err)
{
	static const struct ckpt_rendezvous_ops ops = {
		.name = "mpi", .gather = gather, .share = share, .silent = silent, .close = close_over
	};
	struct over *o = calloc(1, sizeof(*o));
	int rc;

	*out = NULL;
	if (!o)
		return ckpt_fail_nomem(err);
	o->base = (struct ckpt_rendezvous){ .ops = &ops, .world = *world };
	rc = ckpt_agreement_open(&o->agreement, transport, 0, err);
	if (rc < 0)
		free(o);
	else
		*out = &o->base;
	return rc;
}
