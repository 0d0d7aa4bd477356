/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt-pmix.so: ranks meet through the PMIx server of their launcher. Has nothing of libckpt in it
 * but a few declarations, and is called by one thread.
 *
 * A fence waits for all ranks and brings what each has put; PMIx bounds none of it reliably, so all
 * calls are those that return at once, and what waits is here. What was not done when the time was
 * over is never freed: PMIx may still read and write it.
 */
#include "base/cancel.h"
#include "base/clock.h"
#include "base/plugin_fail.h"
#include "job/pmix_plugin.h"

#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>

struct meeting {
	struct ckpt_rendezvous base;
	pmix_proc_t me;
	unsigned turn; /* of this process: keys are put once */
};

/*
 * A call that has not returned yet, with what PMIx has been told: it keeps the addresses until
 * then.
 */
struct pending_call {
	pmix_proc_t who;
	pmix_key_t key;
	pmix_info_t info[2];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	pmix_status_t status;
	uint8_t bytes[CKPT_MOST_HELLO];
	size_t len;
};

enum { POLL_NSEC = 50000000, NAMED_NSEC = 300000000, MOST_NAMED = 8, MOST_SECONDS = 1 << 20 };
enum { TOO_LATE = 1 };

/* ---- waiting ---- */

static struct pending_call *call_new(struct ckpt_error *err)
{
	struct pending_call *c = calloc(1, sizeof(*c));

	if (!c) {
		ckpt_plugin_fail(err, CKPT_E_NOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	return c;
}

static void call_free(struct pending_call *c)
{
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void finish(struct pending_call *c, pmix_status_t status)
{
	pthread_mutex_lock(&c->lock);
	c->status = status;
	c->done = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void fence_is_done(pmix_status_t status, void *ctx)
{
	finish(ctx, status);
}

static void value_is_there(pmix_status_t status, pmix_value_t *value, void *ctx)
{
	struct pending_call *c = ctx;

	if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT &&
	    value->data.bo.size <= sizeof(c->bytes)) {
		c->len = value->data.bo.size;
		memcpy(c->bytes, value->data.bo.bytes, c->len);
	} else if (status == PMIX_SUCCESS) {
		status = PMIX_ERR_BAD_PARAM;
	}
	finish(c, status);
}

/* 0; TOO_LATE, or CKPT_E_CANCELLED: C belongs to PMIx now. */
static int wait_for(struct pending_call *c, const volatile int *cancel, uint64_t deadline)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->done && rc == 0) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += POLL_NSEC;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&c->changed, &c->lock, &until);
		if (!c->done && ckpt_now_nsec() > deadline)
			rc = TOO_LATE;
		if (!c->done && ckpt_cancelled(cancel))
			rc = CKPT_E_CANCELLED;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static int fail_pmix(const char *what, pmix_status_t status, struct ckpt_error *err)
{
	return ckpt_plugin_fail(err, CKPT_E_PEER, "%s: %.200s", what, PMIx_Error_string(status));
}

static int fail_wait(int rc, const char *what, struct ckpt_error *err)
{
	if (rc == CKPT_E_CANCELLED)
		return ckpt_plugin_fail(err, rc,
					"interrupted while the ranks met, nothing was written");
	return ckpt_plugin_fail(err, CKPT_E_PEER, "PMIx: %s: the time is over", what);
}

/* ---- put, fence, get ---- */

static void key_of(const struct meeting *m, const char *what, pmix_key_t key)
{
	snprintf(key, sizeof(pmix_key_t), "ckpt.%s.%u", what, m->turn);
}

static int put(struct meeting *m, const char *what, const void *bytes, size_t len,
	       struct ckpt_error *err)
{
	pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
	pmix_status_t status;
	pmix_key_t key;

	key_of(m, what, key);
	value.data.bo.bytes = (char *)bytes;
	value.data.bo.size = len;
	status = PMIx_Put(PMIX_GLOBAL, key, &value);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	return status == PMIX_SUCCESS ? 0 : fail_pmix("PMIx_Put", status, err);
}

/* For the server, which would go on waiting; a while longer than we do. */
static void timeout_info(pmix_info_t *info, uint64_t deadline)
{
	uint64_t now = ckpt_now_nsec(), left = deadline > now ? (deadline - now) / 1000000000u : 0;

	PMIX_INFO_CONSTRUCT(info);
	PMIX_LOAD_KEY(info->key, PMIX_TIMEOUT);
	info->value.type = PMIX_INT;
	info->value.data.integer = (int)(left < MOST_SECONDS ? left + 2 : MOST_SECONDS);
}

/* TOO_LATE: not all ranks have come. */
static int fence(struct meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	struct pending_call *c = call_new(err);
	pmix_status_t status;
	int rc = 0;

	if (!c)
		return CKPT_E_NOMEM;
	c->who = m->me;
	c->who.rank = PMIX_RANK_WILDCARD;
	timeout_info(&c->info[0], deadline);
	PMIX_INFO_CONSTRUCT(&c->info[1]);
	PMIX_LOAD_KEY(c->info[1].key, PMIX_COLLECT_DATA);
	c->info[1].value.type = PMIX_BOOL;
	c->info[1].value.data.flag = true;
	status = PMIx_Fence_nb(&c->who, 1, c->info, 2, fence_is_done, c);
	if (status == PMIX_SUCCESS) {
		rc = wait_for(c, m->base.cancel, deadline);
		if (rc != 0)
			return rc < 0 ? fail_wait(rc, "", err) : rc;
		status = c->status;
	}
	call_free(c);
	if (status == PMIX_ERR_TIMEOUT)
		return TOO_LATE;
	/*
	 * part of it is when a rank has left, which it may; what it ought to have put is asked for
	 */
	return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED ||
			       status == PMIX_ERR_PARTIAL_SUCCESS
		       ? 0
		       : fail_pmix("PMIx_Fence", status, err);
}

static int get(struct meeting *m, uint32_t rank, const char *what, void *out, size_t len,
	       uint64_t deadline, struct ckpt_error *err)
{
	struct pending_call *c = call_new(err);
	pmix_status_t status;
	int rc;

	if (!c)
		return CKPT_E_NOMEM;
	c->who = m->me;
	c->who.rank = rank;
	key_of(m, what, c->key);
	timeout_info(&c->info[0], deadline);
	status = PMIx_Get_nb(&c->who, c->key, c->info, 1, value_is_there, c);
	rc = status == PMIX_SUCCESS ? wait_for(c, m->base.cancel, deadline) : 0;
	if (rc != 0)
		return fail_wait(rc, what, err);
	if (status == PMIX_SUCCESS)
		status = c->status;
	if (status != PMIX_SUCCESS)
		rc = ckpt_plugin_fail(err, CKPT_E_PEER, "PMIx has no %s of rank %u: %.200s", what,
				      rank, PMIx_Error_string(status));
	else if (c->len != len)
		rc = ckpt_plugin_fail(
			err, CKPT_E_PEER,
			"rank %u left %zu bytes, wanted %zu: start the same ckpt on all "
			"nodes",
			rank, c->len, len);
	else
		memcpy(out, c->bytes, len);
	call_free(c);
	return rc;
}

/* ---- a rendezvous ---- */

/* Which ranks have put nothing: asked one by one, for a moment each. */
static int fail_missing(struct meeting *m, size_t len, struct ckpt_error *err)
{
	uint32_t missing = 0, size = m->base.world.size;
	uint8_t bytes[CKPT_MOST_HELLO];
	char list[120] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < size && missing < MOST_NAMED; i++) {
		if (i == m->base.world.rank ||
		    get(m, i, "hello", bytes, len, ckpt_now_nsec() + NAMED_NSEC, NULL) == 0)
			continue;
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%u",
					 missing++ ? ", " : "", i);
	}
	if (!missing)
		return ckpt_plugin_fail(err, CKPT_E_PEER,
					"all %u ranks came, but not all to PMIx's fence", size);
	return ckpt_plugin_fail(err, CKPT_E_PEER, "waiting for rank%s %s%s of %u at PMIx's fence",
				missing == 1 ? "" : "s", list,
				missing == MOST_NAMED ? " and perhaps more" : "", size);
}

static int gather(struct ckpt_rendezvous *r, const void *hello, size_t len, void *all,
		  uint64_t deadline, struct ckpt_error *err)
{
	struct meeting *m = (struct meeting *)r;
	int rc = put(m, "hello", hello, len, err);

	if (rc == 0) {
		rc = fence(m, deadline, err);
		if (rc == TOO_LATE)
			return fail_missing(m, len, err);
	}
	for (uint32_t i = 0; rc == 0 && r->world.rank == 0 && i < r->world.size; i++)
		rc = get(m, i, "hello", (uint8_t *)all + i * len, len, deadline, err);
	return rc;
}

static int share(struct ckpt_rendezvous *r, void *bytes, size_t len, uint64_t deadline,
		 struct ckpt_error *err)
{
	struct meeting *m = (struct meeting *)r;
	bool is_first = r->world.rank == 0;
	int rc = is_first ? put(m, "answer", bytes, len, err) : 0;

	if (rc == 0) {
		rc = fence(m, deadline, err);
		if (rc == TOO_LATE)
			return fail_wait(rc, "not all ranks came for rank 0's answer", err);
	}
	return rc < 0 || is_first ? rc : get(m, 0, "answer", bytes, len, deadline, err);
}

static void silent(struct ckpt_rendezvous *r, char *text, size_t size)
{
	(void)r;
	if (size)
		*text = '\0';
}

static void close_pmix(struct ckpt_rendezvous *r)
{
	free(r);
}

/* PMIx counts for itself: the launcher has to be the one whose variables were read. */
static int compare(struct meeting *m, struct ckpt_error *err)
{
	const struct ckpt_world *w = &m->base.world;
	pmix_value_t *value = NULL;
	pmix_status_t status;
	pmix_proc_t job;
	uint32_t size;

	PMIX_LOAD_PROCID(&job, m->me.nspace, PMIX_RANK_WILDCARD);
	status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
	if (status != PMIX_SUCCESS)
		return fail_pmix("PMIx has no size of the job", status, err);
	size = value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	if (size == w->size && m->me.rank == w->rank)
		return 0;
	return ckpt_plugin_fail(err, CKPT_E_ARG,
				"PMIx says rank %u of %u, %s says rank %u of %u: is it the PMIx of "
				"this launcher?",
				m->me.rank, size, w->launcher, w->rank, w->size);
}

static void leave(void)
{
	PMIx_Finalize(NULL, 0);
}

/*
 * Once for the process, until it ends: who leaves and comes again between two meetings is taken out
 * of the fence in which others wait for it already, and the ranks lose each other.
 */
static int join(pmix_proc_t *me, struct ckpt_error *err)
{
	static bool has_joined;
	static pmix_proc_t joined;
	pmix_status_t status;

	if (!has_joined) {
		status = PMIx_Init(&joined, NULL, 0);
		if (status != PMIX_SUCCESS)
			return ckpt_plugin_fail(err, CKPT_E_UNSUPPORTED,
						"PMIx has no server here: %.200s",
						PMIx_Error_string(status));
		has_joined = true;
		atexit(leave); /* or the launcher takes the end of the process for a crash */
	}
	*me = joined;
	return 0;
}

static int open_pmix(const struct ckpt_world *world, struct ckpt_rendezvous **out,
		     struct ckpt_error *err)
{
	static const struct ckpt_rendezvous_ops ops = {
		.name = "pmix", .gather = gather, .share = share, .silent = silent, .close = close_pmix
	};
	static unsigned turns;
	struct meeting *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return ckpt_plugin_fail(err, CKPT_E_NOMEM, "out of memory");
	m->base = (struct ckpt_rendezvous){ .ops = &ops, .world = *world };
	m->turn = turns++;
	rc = join(&m->me, err);
	if (rc == 0)
		rc = compare(m, err);
	if (rc < 0)
		close_pmix(&m->base);
	else
		*out = &m->base;
	return rc;
}

ckpt_pmix_open ckpt_pmix_open_here __asm__(CKPT_PMIX_OPEN_NAME)
	__attribute__((visibility("default")));

int ckpt_pmix_open_here(int version, const struct ckpt_world *world, struct ckpt_rendezvous **out,
			struct ckpt_error *err)
{
	*out = NULL;
	if (version != CKPT_PMIX_PLUGIN_VERSION)
		return ckpt_plugin_fail(err, CKPT_E_UNSUPPORTED,
					"ckpt-pmix.so is of another version of ckpt: %d, wanted %d",
					CKPT_PMIX_PLUGIN_VERSION, version);
	return open_pmix(world, out, err);
}
