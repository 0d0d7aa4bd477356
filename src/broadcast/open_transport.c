/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the options to an open transport: which rank this is, how the ranks meet, what each of them
 * has, what rank 0 decides from that (meet.c), and the transport that it decided on.
 *
 * What must stay true: what one rank lacks reaches rank 0 in its hello, or reaches the others in
 * the plan; a rank that gave up on its own would leave the others waiting in a library. Where NCCL
 * does not open on one rank, all ranks meet once more and end with the same error. Nothing is
 * waited for without a deadline, and where MPI has none, a watchdog ends the process, if that is
 * allowed. What the ranks met over stays open after a failure until the error is out, since mpirun
 * ends all ranks as soon as one has gone.
 */
#include "broadcast/open_transport.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "broadcast/how_to_meet.h"
#include "broadcast/meet.h"
#include "broadcast/mpi_plugin.h"
#include "broadcast/rendezvous_over.h"
#include "broadcast/transport_alone.h"
#include "broadcast/transport_nccl.h"
#include "broadcast/transport_tcp.h"
#include "broadcast/transport_ucx.h"
#include "broadcast/transport_user.h"
#include "gpu/bounded.h"
#include "gpu/cuda_driver.h"
#include "job/process_mark.h"
#include "job/token.h"

#include <ckpt/version.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static_assert((int)CKPT_MEET_HELLO <= (int)CKPT_MOST_HELLO &&
		      (int)CKPT_MEET_PLAN <= (int)CKPT_MOST_HELLO,
	      "a hello and a plan fit into the messages of a rendezvous");

enum { INIT_PATIENCE_S = 120, SECOND_MEETING_S = 10 };

/*
 * A rank that fails before it has met the others stays so long, if it has to, until they come and are
 * told; who has sent a signal does not want to wait.
 */
static const uint64_t TCP_MOST_GRACE_NSEC = 5000000000;
static const uint64_t LEAVE_NSEC = 3000000000, LEAVE_CANCELLED_NSEC = 800000000;

/* Ranks of a node notice a failure by themselves at different times; an abort waits so long. */
static const uint64_t ANNOUNCED_NSEC = 2000000000;

static const char *from_environment(void *ctx, const char *name)
{
	(void)ctx;
	return getenv(name);
}

int ckpt_session_find_world(struct ckpt_session *s)
{
	struct ckpt_world_wish wish = { s->o.launcher, s->o.rank, s->o.world_size, s->o.local_rank,
					s->o.job_key };
	int rc;

	if (s->o.collectives) {
		wish.rank = s->collectives.rank;
		wish.size = s->collectives.world_size;
	}
	rc = ckpt_world_find(&wish, from_environment, NULL, &s->world, &s->err);
	if (rc == 0 && s->o.readers > s->world.size)
		s->o.readers = s->world.size;
	return rc;
}

static double init_seconds(const struct ckpt_session *s)
{
	return s->o.init_timeout_s > 0 ? s->o.init_timeout_s : INIT_PATIENCE_S;
}

struct ckpt_watchdog *ckpt_session_watch(const struct ckpt_session *s, double seconds, int code,
					 const char *what)
{
	char text[160];

	if (!(s->o.flags & CKPT_BROADCAST_MAY_EXIT))
		return NULL;
	snprintf(
		text, sizeof(text),
		"ckpt: broadcast: rank %u: %s did not come back within %.0f s: a rank has died or hangs",
		s->world.rank, what, seconds);
	return ckpt_watchdog_start((uint64_t)(seconds * 1e9), code, text);
}

/* All ranks are there, for example out of MPI_Init: from then on, a silent rank is a lost one. */
static uint64_t limit_by_timeout(const struct ckpt_session *s, uint64_t deadline)
{
	uint64_t end = ckpt_now_nsec() + (uint64_t)(s->o.timeout_s * 1e9);

	return end < deadline ? end : deadline;
}

/*
 * All ranks are there, and those that have the plan wait for rank 0 at its port: they hear from it who has not taken the plan before
 * they give it up (open_tcp()).
 */
static uint64_t limit_share(const struct ckpt_session *s, uint64_t deadline)
{
	uint64_t end = ckpt_now_nsec() + (uint64_t)(s->o.timeout_s * 1e9) / 2;

	return s->star && end < deadline ? end : deadline;
}

/* MPI numbers its ranks itself: it must have been started as the launcher's variables say. */
static int open_mpi(struct ckpt_session *s, struct ckpt_transport **out)
{
	struct ckpt_watchdog *watchdog =
		ckpt_session_watch(s, init_seconds(s), CKPT_BROADCAST_SETUP, "MPI_Init");
	int rc = ckpt_transport_open_mpi(out, &s->err);

	ckpt_watchdog_stop(watchdog);
	if (rc < 0 || ((*out)->size == s->world.size && (*out)->rank == s->world.rank))
		return rc;
	if (!strcmp(s->world.launcher, "none"))
		return ckpt_fail(&s->err, CKPT_E_FORMAT,
				 "the options say rank %u of %u, MPI says rank %u of %u: MPI connects only what mpirun or "
				 "srun --mpi=pmix started",
				 s->world.rank, s->world.size, (*out)->rank, (*out)->size);
	return ckpt_fail(
		&s->err, CKPT_E_FORMAT,
		"MPI says rank %u of %u, %s says rank %u of %u: is it the MPI of this launcher?",
		(*out)->rank, (*out)->size, s->world.launcher, s->world.rank, s->world.size);
}

/* ---- the hello of this rank ---- */

/*
 * A GPU that cannot be used counts as none. So all ranks learn of it before they wait for this one
 * in NCCL.
 */
static void find_gpu(struct ckpt_session *s, struct ckpt_meet_hello *h)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint32_t ordinal;

	ckpt_cuda_find_facts(&h->cuda);
	ckpt_nccl_find_facts(&h->nccl);
	if (h->nccl.is_there && ckpt_nccl_check_variables(&err) < 0) {
		h->nccl.is_there = false;
		ckpt_error_text(&err, h->nccl.text, sizeof(h->nccl.text));
	}
	h->gpu = s->o.gpu;
	if (!h->nccl.is_there || h->cuda.gpu_count <= 0 || h->gpu >= h->cuda.gpu_count ||
	    ckpt_session_gpu(s, &ordinal) < 0 || ckpt_cuda_open(ordinal, &s->cuda, &err) == 0)
		return;
	h->cuda.gpu_count = 0;
	ckpt_error_text(&err, h->cuda.text, sizeof(h->cuda.text));
}

static void identify_gpu(struct ckpt_session *s, struct ckpt_meet_hello *h)
{
	const char *host = getenv("NCCL_HOSTID"), *shares = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

	if (!s->cuda)
		return;
	ckpt_cuda_identify(s->cuda, &h->identity);
	ckpt_read_boot_id(h->machine, sizeof(h->machine));
	snprintf(h->nccl_host, sizeof(h->nccl_host), "%s", host ? host : "");
	h->shares = shares && *shares && strcmp(shares, "0") != 0;
}

/* As much as there is room for: of what is longer the end, which says more. */
static void copy_end(char *out, size_t size, const char *text)
{
	size_t len = strlen(text);

	if (len < size) {
		memcpy(out, text, len + 1);
		return;
	}
	memcpy(out, "...", 3);
	memcpy(out + 3, text + len - (size - 4), size - 3);
}

static void describe_sources(const struct ckpt_session *s, char *out, size_t size)
{
	char text[4096] = "";

	for (size_t i = 0; i < s->source_count; i++) {
		size_t len = strlen(text);

		snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "", s->sources[i]);
	}
	copy_end(out, size, text);
}

static void fill_hello(struct ckpt_session *s, struct ckpt_meet_hello *h)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	*h = (struct ckpt_meet_hello){ .version = CKPT_VERSION,
				       .protocol = CKPT_MEET_PROTOCOL,
				       .wishes = ckpt_session_wishes(s),
				       .pid = (uint32_t)getpid(),
				       .rank = s->world.rank,
				       .local_rank = s->world.local_rank };
	ckpt_session_each_wish(s, h->each_wish);
	h->flags = s->o.flags;
	describe_sources(s, h->sources, sizeof(h->sources));
	copy_end(h->destination, sizeof(h->destination), s->wish);
	if (gethostname(h->host, sizeof(h->host) - 1) < 0)
		snprintf(h->host, sizeof(h->host), "unknown host");
	h->has_mpi = ckpt_world_is_mpi(&s->world, from_environment, NULL) && ckpt_mpi_is_there();
	h->has_ucx = ckpt_ucx_is_there();
	find_gpu(s, h);
	identify_gpu(s, h);
	if (ckpt_tcp_find_own(s->o.interface, &s->own, &err) < 0)
		ckpt_error_text(&err, h->no_tcp, sizeof(h->no_tcp));
}

/* ---- meeting ---- */

/*
 * Rank 0 listens for the transport before the others are told where: at the address by which they have
 * met, if they met over TCP, else at all of this host's or those of --interface.
 */
static int prepare_tcp(struct ckpt_session *s, struct ckpt_tcp_place *place, struct ckpt_error *err)
{
	struct ckpt_tcp_resolved at = s->own;
	int rc = ckpt_tcp_draw(place->nonce, sizeof(place->nonce), err);

	if (!s->o.interface && s->rendezvous)
		ckpt_rendezvous_find_tcp(s->rendezvous, &at);
	if (rc == 0)
		rc = ckpt_tcp_star_new(&s->world, s->secret, place, &s->star, err);
	return rc < 0 ? rc : ckpt_tcp_star_listen(s->star, &at, place, err);
}

/* The votes, and of the transport tcp the bytes, too. */
static bool is_over_tcp(const struct ckpt_meet_plan *plan)
{
	return strcmp(plan->transport, "tcp") == 0 || strcmp(plan->transport, "ucx") == 0;
}

/*
 * On rank 0, from the BYTES of all hellos. Whatever fails becomes part of the plan, so that all
 * ranks learn of it.
 */
static void make_plan(struct ckpt_session *s, const uint8_t *bytes, struct ckpt_meet_plan *plan)
{
	uint32_t size = s->world.size;
	struct ckpt_meet_hello *hellos = calloc(size, sizeof(*hellos));
	struct ckpt_error err = CKPT_ERROR_INIT;
	char text[sizeof(err.text)];
	int rc = hellos ? 0 : ckpt_fail_nomem(&err);

	*plan = (struct ckpt_meet_plan){ 0 };
	for (uint32_t i = 0; hellos && i < size; i++)
		ckpt_meet_read_hello(bytes + (size_t)i * CKPT_MEET_HELLO, &hellos[i]);
	if (rc == 0)
		rc = ckpt_meet_decide(hellos, size, s->o.transport, plan, &err);
	if (rc == 0 && !strcmp(plan->transport, "nccl"))
		rc = ckpt_nccl_make_id(&plan->id, &err);
	if (rc == 0 && is_over_tcp(plan))
		rc = prepare_tcp(s, &plan->tcp, &err);
	if (rc < 0 && plan->status == 0) {
		plan->status = rc;
		snprintf(plan->text, sizeof(plan->text), "rank 0 (%s): %.300s",
			 hellos ? hellos[0].host : "?", ckpt_error_text(&err, text, sizeof(text)));
	}
	free(hellos);
}

/* R: NULL for a process alone. */
static int agree_on_plan(struct ckpt_session *s, struct ckpt_rendezvous *r, uint64_t deadline,
			 struct ckpt_meet_plan *plan)
{
	uint8_t mine[CKPT_MEET_HELLO], bytes[CKPT_MEET_PLAN] = { 0 }, *all = mine;
	struct ckpt_meet_hello hello;
	int rc = 0;

	fill_hello(s, &hello);
	ckpt_meet_write_hello(&hello, mine);
	if (r && s->world.rank == 0)
		all = malloc((size_t)s->world.size * CKPT_MEET_HELLO);
	if (!all)
		return ckpt_fail_nomem(&s->err);
	if (r)
		rc = r->ops->gather(r, mine, sizeof(mine), all, deadline, &s->err);
	if (rc == 0 && s->world.rank == 0) {
		make_plan(s, all, plan);
		ckpt_meet_write_plan(plan, bytes);
	}
	if (all != mine)
		free(all);
	if (rc == 0 && r)
		rc = r->ops->share(r, bytes, sizeof(bytes), limit_share(s, deadline), &s->err);
	if (rc < 0 && s->star)
		ckpt_tcp_star_refuse(s->star, &s->err); /* those that have the plan come there */
	if (rc < 0)
		return rc;
	s->has_plan = true;
	ckpt_meet_read_plan(bytes, plan);
	s->agreement.failed_rank = plan->failed_rank;
	if (!plan->status)
		snprintf(s->advice, sizeof(s->advice), "%.255s", plan->text);
	return plan->status ? ckpt_fail(&s->err, plan->status, "%s", plan->text) : 0;
}

struct meeting_place {
	enum ckpt_way way;
	const char *folder; /* for CKPT_WAY_FILE */
	const struct ckpt_tcp_address *address; /* for CKPT_WAY_TCP, and the next one */
	const uint8_t *secret;
};

/* MPI: for CKPT_WAY_MPI. */
static int open_rendezvous_again(const struct meeting_place *place, const struct ckpt_world *world,
				 struct ckpt_transport *mpi, struct ckpt_rendezvous **out,
				 struct ckpt_error *err)
{
	if (place->way == CKPT_WAY_PMIX)
		return ckpt_rendezvous_open_pmix(world, out, err);
	if (place->way == CKPT_WAY_FILE)
		return ckpt_rendezvous_open_file(place->folder, world, out, err);
	if (place->way == CKPT_WAY_TCP)
		return ckpt_rendezvous_open_tcp(place->address, place->secret, world, out, err);
	return ckpt_rendezvous_over(mpi, world, out, err);
}

/* *OUT is NULL for a single process; *MPI is set if the ranks met over MPI. */
static int open_rendezvous(struct ckpt_session *s, const struct meeting_place *place,
			   struct ckpt_rendezvous **out, struct ckpt_transport **mpi)
{
	int rc = 0;

	if (place->way == CKPT_WAY_ALONE)
		return 0;
	if (place->way == CKPT_WAY_MPI)
		rc = open_mpi(s, mpi);
	return rc < 0 ? rc : open_rendezvous_again(place, &s->world, *mpi, out, &s->err);
}

static void close_cuda(void *cuda)
{
	ckpt_cuda_close(cuda);
}

static void close_transport(void *arg)
{
	struct ckpt_transport *t = arg;

	t->ops->close(t);
}

/* Of this session; others may still use it. */
static void leave_gpu(struct ckpt_session *s)
{
	if (s->cuda)
		ckpt_gpu_run_bounded(close_cuda, s->cuda);
	s->cuda = NULL;
}

static int check_board(void *ctx, struct ckpt_error *err)
{
	struct ckpt_session *s = ctx;
	char text[256];
	uint32_t rank;

	if (!ckpt_board_find(s->board, &rank, text, sizeof(text)))
		return 0;
	s->was_told = true;
	return ckpt_fail(err, CKPT_E_PEER, "rank %u on this node gave up: %s", rank, text);
}

static void announce(void *ctx, const struct ckpt_error *why)
{
	ckpt_session_announce(ctx, why);
}

void ckpt_session_announce(struct ckpt_session *s, const struct ckpt_error *why)
{
	char text[sizeof(why->text)];

	ckpt_board_announce(s->board, ckpt_error_text(why, text, sizeof(text)));
	ckpt_board_wait(s->board, ANNOUNCED_NSEC);
}

/* How long NCCL may take for it has nothing to do with how long the ranks took to meet. */
static int open_nccl(struct ckpt_session *s, const struct ckpt_nccl_id *id,
		     struct ckpt_transport **out)
{
	const struct ckpt_gpu_peers peers = { check_board, announce, s };
	uint64_t deadline = ckpt_now_nsec() + (uint64_t)(init_seconds(s) * 1e9);

	s->board = ckpt_board_open(id, sizeof(*id), s->world.rank, s->world.size);
	return ckpt_transport_open_nccl(s->cuda, id, s->world.rank, s->world.size, deadline, &peers,
					out, &s->err);
}

/* Over MPI, or alone. */
static int open_without_gpu(struct ckpt_session *s, struct ckpt_transport **mpi,
			    struct ckpt_transport **out)
{
	leave_gpu(s); /* a context takes half a GB of the GPU */
	if (!*mpi)
		return open_mpi(s, out);
	*out = *mpi;
	*mpi = NULL;
	return 0;
}

/*
 * By the plan. The others wait a little longer than rank 0, from which they then hear why nothing comes
 * of it: one status and one sentence for all.
 */
static int open_tcp(struct ckpt_session *s, const struct ckpt_meet_plan *plan, struct ckpt_transport **out)
{
	uint64_t timeout = (uint64_t)(s->o.timeout_s * 1e9);
	uint64_t grace = timeout / 4 < TCP_MOST_GRACE_NSEC ? timeout / 4 : TCP_MOST_GRACE_NSEC;
	uint64_t deadline = ckpt_now_nsec() + timeout + (s->world.rank ? grace : 0);
	struct ckpt_failure_notice told = { 0 };
	struct ckpt_tcp_star *star = s->star;
	int rc = 0;

	leave_gpu(s);
	s->star = NULL;
	if (!star)
		rc = ckpt_tcp_star_new(&s->world, s->secret, &plan->tcp, &star, &s->err);
	if (rc == 0 && s->rendezvous && s->world.rank)
		ckpt_tcp_star_set_scope(star, ckpt_rendezvous_find_scope(s->rendezvous));
	if (rc == 0)
		rc = (strcmp(plan->transport, "ucx") == 0 ? ckpt_transport_open_ucx : ckpt_transport_open_tcp)(
			star, s->o.interface, s->o.cancel, deadline, out, &told, &s->err);
	if (told.status) {
		s->agreement.failed_rank = told.rank;
		s->signal = told.signal;
	}
	return rc;
}

#define OWN "own" /* in the place of a transport: this rank noticed it by itself */

/*
 * How much a failure tells: that others do not answer any more is what the other ranks see of it,
 * and least is what a rank was told.
 */
static int weigh_failure(const struct ckpt_meet_plan *failure)
{
	return failure->status != CKPT_E_PEER ? 2 : !strcmp(failure->transport, OWN);
}

/* On rank 0: the one that tells most, of the lowest rank. The form is that of a plan. */
static void choose_failure(const uint8_t *bytes, uint32_t size, struct ckpt_meet_plan *out)
{
	for (uint32_t i = 0; i < size; i++) {
		struct ckpt_meet_plan one;

		ckpt_meet_read_plan(bytes + (size_t)i * CKPT_MEET_PLAN, &one);
		if (i == 0 || weigh_failure(&one) > weigh_failure(out))
			*out = one;
	}
}

static int exchange_failures(struct ckpt_session *s, struct ckpt_rendezvous *r, uint64_t deadline,
			     struct ckpt_meet_plan *failure, struct ckpt_error *err)
{
	uint8_t bytes[CKPT_MEET_PLAN], *all = NULL;
	int rc;

	if (s->world.rank == 0 && !(all = malloc((size_t)s->world.size * CKPT_MEET_PLAN)))
		return ckpt_fail_nomem(err);
	ckpt_meet_write_plan(failure, bytes);
	rc = r->ops->gather(r, bytes, sizeof(bytes), all, deadline, err);
	if (rc == 0 && all) {
		choose_failure(all, s->world.size, failure);
		ckpt_meet_write_plan(failure, bytes);
	}
	free(all);
	if (rc == 0)
		rc = r->ops->share(r, bytes, sizeof(bytes), deadline, err);
	if (rc == 0)
		ckpt_meet_read_plan(bytes, failure);
	return rc;
}

/*
 * NCCL did not open here. It does not open on any rank then, and all meet once more: one status
 * and one sentence for all. A rank that does not come has died.
 */
static int share_failure(struct ckpt_session *s, const struct meeting_place *place,
			 struct ckpt_transport *mpi, int rc, uint64_t deadline)
{
	struct ckpt_meet_plan failure = { .status = rc, .failed_rank = s->world.rank };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_rendezvous *r = NULL;
	struct ckpt_world world = s->world;
	char text[sizeof(err.text)], host[65];
	int met;

	snprintf(failure.text, sizeof(failure.text), "rank %u (%s): %.340s", s->world.rank,
		 ckpt_cuda_host_name(host), ckpt_error_text(&s->err, text, sizeof(text)));
	if (!s->was_told)
		strcpy(failure.transport, OWN);
	snprintf(world.key, sizeof(world.key), "opening.%.490s", s->world.key);
	met = open_rendezvous_again(place, &world, mpi, &r, &err);
	if (met == 0) {
		r->cancel = s->o.cancel;
		met = exchange_failures(s, r, deadline, &failure, &err);
	}
	if (r)
		r->ops->close(r);
	s->agreement.broken = met < 0;
	if (met < 0) {
		ckpt_error_append(&s->err, "; %s", ckpt_error_text(&err, text, sizeof(text)));
		s->err.status = met == CKPT_E_CANCELLED ? met : CKPT_E_PEER;
		return s->err.status;
	}
	s->agreement.failed_rank = failure.failed_rank;
	s->err = (struct ckpt_error)CKPT_ERROR_INIT;
	return ckpt_fail(&s->err, failure.status, "%s", failure.text);
}

/*
 * Has NCCL opened on all ranks? The first vote comes back only if it has. Else *TRANSPORT is
 * closed.
 */
static int check_all_opened(struct ckpt_session *s, struct ckpt_transport **transport,
			    uint64_t deadline)
{
	struct ckpt_transport *t = *transport;
	uint64_t nothing = 0;
	int rc = t->ops->vote(t, &nothing, 1, deadline, &s->err);

	if (rc == 0) {
		ckpt_board_remove_file(s->board);
		return 0;
	}
	ckpt_session_announce(s, &s->err);
	t->ops->abort(t);
	ckpt_gpu_run_bounded(close_transport, t);
	*transport = NULL;
	return rc;
}

/* With the others, by the plan. */
static int open_nccl_with_others(struct ckpt_session *s, const struct ckpt_meet_plan *plan,
				 const struct meeting_place *place, struct ckpt_transport *mpi,
				 struct ckpt_transport **out)
{
	uint64_t deadline = ckpt_now_nsec() + (uint64_t)(init_seconds(s) * 1e9);
	int rc = open_nccl(s, &plan->id, out);

	if (s->world.size == 1)
		return rc;
	if (rc == 0)
		rc = check_all_opened(s, out, deadline + SECOND_MEETING_S * 1000000000ull);
	if (rc == 0)
		return 0;
	return share_failure(s, place, mpi, rc,
			     deadline + ckpt_gpu_grace_nsec + SECOND_MEETING_S * 1000000000ull);
}

/* MPI, if the ranks met over it and do not need it any more. */
static void close_mpi(struct ckpt_session *s, struct ckpt_transport *mpi)
{
	struct ckpt_watchdog *watchdog;

	if (!mpi)
		return;
	if (s->agreement.broken)
		mpi->ops->abort(mpi);
	watchdog = ckpt_session_watch(s, s->o.timeout_s, CKPT_BROADCAST_SETUP, "the end of MPI");
	mpi->ops->close(mpi);
	ckpt_watchdog_stop(watchdog);
}

static int open_own_gpu(struct ckpt_session *s)
{
	uint32_t ordinal;
	int rc = ckpt_session_gpu(s, &ordinal);

	return rc < 0 ? rc : ckpt_cuda_open(ordinal, &s->cuda, &s->err);
}

/*
 * The program made the id, and serves it: nothing is known of the other ranks before all of them
 * are in NCCL.
 */
static int open_by_id(struct ckpt_session *s, const struct ckpt_nccl_id *id,
		      struct ckpt_transport **out)
{
	int rc = open_own_gpu(s);

	return rc < 0 ? rc : open_nccl(s, id, out);
}

static int meet_at(struct ckpt_session *s, const struct meeting_place *place, uint64_t deadline,
		   struct ckpt_transport **out)
{
	struct ckpt_transport *mpi = NULL;
	struct ckpt_meet_plan plan = { 0 };
	int rc = open_rendezvous(s, place, &s->rendezvous, &mpi);
	bool met = mpi != NULL;

	if (s->rendezvous)
		s->rendezvous->cancel = s->o.cancel;
	if (rc == 0)
		rc = agree_on_plan(s, s->rendezvous, mpi ? limit_by_timeout(s, deadline) : deadline,
				   &plan);
	if (mpi && s->rendezvous) {
		s->rendezvous->ops->close(s->rendezvous);
		s->rendezvous = NULL;
	}
	met |= rc == 0;
	/* if the plan says why nothing can carry, all ranks know it and end in order */
	s->agreement.broken = met && rc < 0 && !plan.status;
	if (rc == 0 && !strcmp(plan.transport, "nccl")) {
		rc = open_nccl_with_others(s, &plan, place, mpi, out);
	} else if (rc == 0 && is_over_tcp(&plan)) {
		rc = open_tcp(s, &plan, out);
		s->agreement.broken = rc < 0 && mpi; /* which does not end in order without all ranks */
	} else if (rc == 0) {
		rc = open_without_gpu(s, &mpi, out);
		s->agreement.broken = rc < 0;
	}
	if (rc == 0)
		close_mpi(s, mpi);
	else
		s->met_over = mpi; /* open until the error is out, see above */
	return rc;
}

static int meet(struct ckpt_session *s, struct ckpt_transport **out)
{
	uint64_t deadline = ckpt_now_nsec() + (uint64_t)(init_seconds(s) * 1e9);
	struct ckpt_ways ways = { .has_mpi = ckpt_mpi_is_there(),
				  .has_pmix = ckpt_rendezvous_has_pmix() };
	enum ckpt_way way;
	int rc = ckpt_how_to_meet(s->o.rendezvous, &s->world, from_environment, NULL, &ways, &way,
				  &s->err);

	if (rc < 0)
		return rc;
	if (way == CKPT_WAY_ID)
		return open_by_id(s, &ways.id, out);
	if (way == CKPT_WAY_TCP)
		rc = ckpt_token_read(s->o.token_file, from_environment, NULL, s->secret, &s->err);
	if (rc < 0)
		return rc;
	return meet_at(s, &(struct meeting_place){ way, ways.folder, &ways.address, s->secret }, deadline, out);
}

/* ---- by the options ---- */

static int open_collectives(struct ckpt_session *s, struct ckpt_transport **out)
{
	int rc;

	if (!s->collectives.on_gpu)
		return ckpt_transport_open_user(&s->collectives, out, &s->err);
	rc = open_own_gpu(s);
	return rc < 0 ? rc : ckpt_transport_open_user_gpu(s->cuda, &s->collectives, out, &s->err);
}

static int open_self(struct ckpt_session *s, struct ckpt_transport **out)
{
	int rc;

	if (!(s->o.flags & CKPT_BROADCAST_TO_GPU))
		return ckpt_transport_open_self(out, &s->err);
	rc = open_own_gpu(s);
	return rc < 0 ? rc : ckpt_transport_open_alone(s->cuda, out, &s->err);
}

static bool is_at_port(const char *rendezvous)
{
	return rendezvous && (!strncmp(rendezvous, "tcp://", 6) || !strcmp(rendezvous, "env"));
}

static int open_by_options(struct ckpt_session *s, struct ckpt_transport **out)
{
	const char *name = s->o.transport;

	if (s->o.collectives)
		return open_collectives(s, out);
	/* what was forgotten would look like success: each rank its own copy, by itself */
	if (s->world.size == 1 && !s->world.size_is_said && is_at_port(s->o.rendezvous))
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "ranks are to meet at a port, and nothing says how many there are: give all --rank and --world-size, or "
				 "start them by a launcher that sets them, as torchrun and srun do");
	if (s->world.size == 1 && (!name || !strcmp(name, "tcp") || !strcmp(name, "ucx")))
		name = "self";
	if (!name || !strcmp(name, "nccl") || !strcmp(name, "tcp") || !strcmp(name, "ucx"))
		return meet(s, out);
	if (!strcmp(name, "mpi"))
		return open_mpi(s, out);
	if (strcmp(name, "self") != 0)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "there is no transport '%.40s', wanted nccl, mpi, ucx, tcp or self", name);
	if (s->world.size > 1)
		return ckpt_fail(&s->err, CKPT_E_ARG,
				 "transport self is for one rank, there are %u", s->world.size);
	return open_self(s, out);
}

int ckpt_session_open_transport(struct ckpt_session *s, struct ckpt_transport **out)
{
	int rc;

	*out = NULL;
	rc = open_by_options(s, out);
	if (rc < 0 && s->rendezvous && s->rendezvous->is_told) {
		s->agreement.failed_rank = s->rendezvous->told.rank;
		s->signal = s->rendezvous->told.signal;
	}
	if (rc == CKPT_E_UNSUPPORTED)
		s->code = CKPT_BROADCAST_NO_TRANSPORT;
	else if (rc == CKPT_E_CANCELLED)
		s->code = CKPT_BROADCAST_CANCELLED + (s->signal ? s->signal : ckpt_cancelled(s->o.cancel));
	else if (rc == CKPT_E_PEER && s->agreement.broken)
		s->code = CKPT_BROADCAST_LOST;
	else if (rc < 0)
		s->code = CKPT_BROADCAST_SETUP;
	return rc;
}

/* Where the others wait, for who did not get as far. */
static int open_to_leave(struct ckpt_session *s)
{
	struct ckpt_ways ways = { .has_mpi = ckpt_mpi_is_there(), .has_pmix = ckpt_rendezvous_has_pmix() };
	enum ckpt_way way;
	int rc = ckpt_how_to_meet(s->o.rendezvous, &s->world, from_environment, NULL, &ways, &way, NULL);

	if (rc < 0 || (way != CKPT_WAY_TCP && way != CKPT_WAY_FILE))
		return CKPT_E_UNSUPPORTED;
	/* without a token it cannot say why, but the others learn that it is there */
	if (way == CKPT_WAY_TCP && ckpt_token_read(s->o.token_file, from_environment, NULL, s->secret, NULL) < 0)
		rc = ckpt_tcp_draw(s->secret, sizeof(s->secret), NULL);
	if (rc == 0)
		rc = open_rendezvous_again(&(struct meeting_place){ way, ways.folder, &ways.address, s->secret },
					   &s->world, NULL, &s->rendezvous, NULL);
	if (rc == 0)
		s->rendezvous->cancel = s->o.cancel;
	return rc;
}

void ckpt_session_tell_failure(struct ckpt_session *s)
{
	uint64_t nsec = s->err.status == CKPT_E_CANCELLED ? LEAVE_CANCELLED_NSEC : LEAVE_NSEC;
	struct ckpt_error why = s->err;
	struct ckpt_rendezvous *r;

	if (s->world.size == 0) /* the options were refused before */
		ckpt_session_find_world(s);
	s->err = why;
	if (s->has_plan || s->world.size < 2 || s->err.status == CKPT_E_PEER || s->o.collectives)
		return;
	if (!s->rendezvous && open_to_leave(s) < 0)
		return;
	r = s->rendezvous;
	if (r->ops->leave)
		r->ops->leave(r, &s->err, ckpt_now_nsec() + nsec);
}

void ckpt_session_leave(struct ckpt_session *s)
{
	if (s->rendezvous)
		s->rendezvous->ops->close(s->rendezvous);
	s->rendezvous = NULL;
	ckpt_tcp_star_close(s->star, false);
	s->star = NULL;
	explicit_bzero(s->secret, sizeof(s->secret));
	ckpt_board_close(s->board);
	s->board = NULL;
	close_mpi(s, s->met_over);
	s->met_over = NULL;
	leave_gpu(s);
}

void ckpt_session_add_silent(struct ckpt_session *s)
{
	char text[300] = "";

	if (s->rendezvous)
		s->rendezvous->ops->silent(s->rendezvous, text, sizeof(text));
	if (text[0])
		ckpt_error_append(&s->err, "; %s", text);
}
