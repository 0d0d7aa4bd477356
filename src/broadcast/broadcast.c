/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of a broadcast, from the call to the report. All ranks take the same steps
 * (steps.h):
 *
 *   do all ranks want the same?   vote
 *   rank 0 looks at the sources and sends the list   vote
 *   each rank looks at its destination: is it there already?   vote
 *   the bytes, in chunks; now and then a   vote
 *   sync, checksums compared   vote
 *   names   vote
 *
 * What must stay true: a failure on one rank is a code that it brings to the next vote (votes.h),
 * never a step that it leaves out; the other ranks would wait for it forever. What a GPU has is
 * released last, each part by a thread that owns it (gpu/bounded.h): what hangs there is left to it.
 */
#include "broadcast/broadcast.h"

#include "base/clock.h"
#include "base/sized.h"
#include "broadcast/open_transport.h"
#include "broadcast/parents.h"
#include "broadcast/steps.h"
#include "broadcast/votes.h"
#include "gpu/bounded.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEAST_CHUNK = 1 << 20, FEW_CHUNKS = 4, FEW_CHUNKS_OF_GPU = 16 };

static void run_steps(struct ckpt_session *s)
{
	bool on_gpu = s->agreement.transport->ops->is_on_gpu;
	uint64_t part;

	ckpt_session_choose_chunks(s, on_gpu, UINT64_MAX);
	if (ckpt_step_offer(s))
		return;
	ckpt_session_choose_chunks(s, on_gpu, s->manifest.total);
	/* a small source also has several chunks */
	part = s->manifest.total / (on_gpu ? FEW_CHUNKS_OF_GPU : FEW_CHUNKS);
	if (s->o.chunk > part + LEAST_CHUNK)
		s->o.chunk = (part / LEAST_CHUNK + 1) * LEAST_CHUNK;
	if (ckpt_step_place(s) ||
	    (!s->reused && (ckpt_step_carry(s) || ckpt_step_finish(s) || ckpt_step_names(s))) ||
	    ckpt_session_report_dropped(s, CKPT_BROADCAST_PARTIAL))
		ckpt_step_remove_folders(s);
}

static void fill_report(struct ckpt_session *s, struct ckpt_broadcast_report *report,
			uint64_t start)
{
	struct ckpt_broadcast_report r = CKPT_BROADCAST_REPORT_INIT;

	r.code = s->code;
	r.rank = s->world.rank;
	r.world_size = s->world.size;
	r.local_rank = s->world.local_rank;
	r.launcher = s->world.launcher ? s->world.launcher : "none";
	r.transport = s->agreement.transport ? s->agreement.transport->ops->name : "";
	if (s->agreement.transport && s->agreement.transport->ops->describe)
		s->agreement.transport->ops->describe(s->agreement.transport, r.network,
						      sizeof(r.network));
	r.failed_rank = s->code ? s->agreement.failed_rank : 0;
	r.reused = s->code == 0 && s->reused;
	r.files = s->manifest.count;
	r.nbytes = s->manifest.total;
	r.has_crc = s->code == 0 && s->crcs && s->manifest.count == 1;
	r.crc32 = r.has_crc ? s->crcs[0] : 0;
	r.seconds = (double)(ckpt_now_nsec() - start) / 1e9;
	snprintf(r.host, sizeof(r.host), "%s", s->agreement.host);
	if (!*r.host && gethostname(r.host, sizeof(r.host) - 1) < 0) /* the ranks did not meet */
		snprintf(r.host, sizeof(r.host), "unknown host");
	snprintf(r.advice, sizeof(r.advice), "%s", s->advice);
	snprintf(r.no_note, sizeof(r.no_note), "%s", s->no_note);
	r.links_left_out = s->manifest.left_out_count;
	snprintf(r.first_left_out, sizeof(r.first_left_out), "%s", s->manifest.left_out);
	if (s->code == 0 && report && report->size >= sizeof(*report)) {
		r.gpu = s->gpu;
		s->gpu = NULL;
	}
	if (s->path && (s->code == 0 || s->code == CKPT_BROADCAST_PARTIAL) && !s->dropped)
		snprintf(r.path, sizeof(r.path), "%s", s->path);
	ckpt_sized_give(report, &r, sizeof(r));
}

/* All that this rank has on its GPU. */
struct gpu_parts {
	struct ckpt_transport *transport;
	struct ckpt_gpu_copy *copy;
	struct ckpt_cuda *cuda;
};

/* In the order in which they use each other. */
static void end_gpu_parts(void *arg)
{
	struct gpu_parts *p = arg;

	if (p->transport)
		p->transport->ops->close(p->transport);
	ckpt_gpu_copy_end(p->copy);
	ckpt_cuda_close(p->cuda);
	free(p);
}

static void leave_gpu(struct ckpt_session *s, struct ckpt_transport *transport)
{
	struct gpu_parts *p = malloc(sizeof(*p));

	if (p) { /* else it is left */
		*p = (struct gpu_parts){ transport, s->gpu, s->cuda };
		ckpt_gpu_run_bounded(end_gpu_parts, p);
	}
	s->gpu = NULL;
	s->cuda = NULL;
}

static void clear(struct ckpt_session *s)
{
	struct ckpt_transport *t = s->agreement.transport;
	struct ckpt_watchdog *watchdog = NULL;
	bool is_on_gpu;
	char what[40];

	if (t) {
		snprintf(what, sizeof(what), "the end of %s", t->ops->name);
		watchdog = ckpt_session_watch(s, s->o.timeout_s, s->code, what);
	}
	if (t && s->agreement.broken)
		t->ops->abort(t);
	ckpt_ring_free(s->ring);
	ckpt_landing_discard(s->landing);
	if (s->code && s->made)
		ckpt_parents_remove(s->folder, s->made);
	ckpt_agreement_close(&s->agreement);
	for (uint32_t i = 0; s->paths && i < s->manifest.count; i++)
		free(s->paths[i]);
	free(s->paths);
	free(s->path);
	free(s->folder);
	free(s->made);
	free(s->crcs);
	ckpt_manifest_clear(&s->manifest);
	is_on_gpu = t && t->ops->is_on_gpu;
	if (t && !is_on_gpu)
		t->ops->close(t);
	if (is_on_gpu || s->gpu || s->cuda)
		leave_gpu(s, is_on_gpu ? t : NULL);
	ckpt_session_leave(s);
	ckpt_watchdog_stop(watchdog);
}

/* The error that all ranks were told; the rank that it is about has it in its own words. */
static int give_error(struct ckpt_session *s, struct ckpt_error *err)
{
	if (s->code == 0)
		return 0;
	if (s->agreement.transport && s->agreement.text[0] &&
	    (s->agreement.failed_rank != s->world.rank || s->world.size > 1 || !s->err.status))
		ckpt_fail(&s->err, CKPT_E_PEER, "%s", s->agreement.text);
	if (s->code == CKPT_BROADCAST_LOST)
		ckpt_session_add_silent(s);
	if (err)
		*err = s->err;
	return s->err.status ? s->err.status : CKPT_E_PEER;
}

int ckpt_broadcast_over(struct ckpt_session *s, struct ckpt_transport *transport,
			struct ckpt_broadcast_report *report, struct ckpt_error *err)
{
	uint64_t start = ckpt_now_nsec();
	int rc = ckpt_agreement_open(&s->agreement, transport, (uint64_t)(s->o.timeout_s * 1e9),
				     &s->err);

	if (rc < 0)
		s->code = CKPT_BROADCAST_SETUP;
	else
		run_steps(s);
	fill_report(s, report, start);
	rc = give_error(s, err);
	if (s->agreement.broken)
		ckpt_session_announce(s, &s->err);
	if (s->o.ended)
		s->o.ended(s->o.ended_ctx);
	clear(s);
	return rc;
}

int ckpt_broadcast(const char *const *sources, size_t count, const char *destination,
		   const struct ckpt_broadcast_options *options,
		   struct ckpt_broadcast_report *report, struct ckpt_error *err)
{
	struct ckpt_transport *transport = NULL;
	struct ckpt_session s;
	int rc = ckpt_session_init(&s, sources, count, destination, options);

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(*report), &s.err);
	s.code = CKPT_BROADCAST_SETUP;
	if (rc == 0)
		rc = ckpt_session_find_world(&s);
	if (rc == 0 && s.o.failure)
		rc = ckpt_fail(&s.err, CKPT_E_ARG, "%s", s.o.failure);
	if (rc == 0)
		rc = ckpt_session_open_transport(&s, &transport);
	if (rc < 0) {
		fill_report(&s, report, ckpt_now_nsec());
		rc = give_error(&s, err);
		if (s.o.ended)
			s.o.ended(s.o.ended_ctx);
		ckpt_session_tell_failure(&s);
		ckpt_session_leave(&s);
		return rc;
	}
	s.code = 0;
	return ckpt_broadcast_over(&s, transport, report, err);
}
