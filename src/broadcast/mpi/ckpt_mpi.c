/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt-mpi.so: ckpt broadcast over MPI. It is built with the site's mpicc, has nothing of libckpt
 * in it but a few declarations, and is called by one thread.
 *
 * What must stay true: between joining and closing no call of MPI blocks, since MPI does not report
 * that a rank has died; every wait polls until a deadline. After a failure (`broken`), memory that
 * MPI may still write to is not freed, and MPI_Finalize(), which would hang, is not called.
 */
#include "base/clock.h"
#include "base/plugin_fail.h"
#include "broadcast/mpi_plugin.h"

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

enum {
	PAGE = 4096,
	HOST = 64,
	HERE = 1, /* tags of messages between two ranks */
	MISSING = 2,
	CHUNK = 16,	  /* plus the ticket: chunks of several roots overtake each other */
	MOST_MISSING = 8, /* ranks that are named */
	POLL_NSEC = 20000,
};

struct mpi {
	struct ckpt_transport base;
	MPI_Comm comm;
	struct ckpt_transport_chunk chunks[CKPT_MOST_FLYING]; /* by ticket, as the next two */
	MPI_Request flying[CKPT_MOST_FLYING];
	bool comes[CKPT_MOST_FLYING]; /* FLYING receives it; else FLYING sends it, or is done */
	bool broken;
	char (*hosts)[HOST]; /* by rank */
};

static int fail_mpi(struct mpi *m, const char *what, int code, struct ckpt_error *err)
{
	char text[MPI_MAX_ERROR_STRING] = "unknown error";
	int len = 0;

	m->broken = true;
	MPI_Error_string(code, text, &len);
	return ckpt_plugin_fail(err, CKPT_E_PEER, "%s: %.300s", what, text);
}

static int alloc(struct ckpt_transport *t, size_t nbytes, void **out, struct ckpt_error *err)
{
	(void)t;
	*out = aligned_alloc(PAGE, (nbytes + PAGE - 1) / PAGE * PAGE);
	return *out ? 0 : ckpt_plugin_fail(err, CKPT_E_NOMEM, "out of memory");
}

static void release(struct ckpt_transport *t, void *buffer)
{
	/* MPI may still write to it */
	if (!((struct mpi *)t)->broken)
		free(buffer);
}

static int neighbor(const struct mpi *m, uint32_t step)
{
	return (int)((m->base.rank + step) % m->base.size);
}

/* Send a chunk to the next rank, unless that is its root. */
static int send_to_next(struct mpi *m, unsigned ticket, struct ckpt_error *err)
{
	const struct ckpt_transport_chunk *c = &m->chunks[ticket];
	int rc = MPI_SUCCESS;

	m->comes[ticket] = false;
	if (neighbor(m, 1) != (int)c->root)
		rc = MPI_Isend(c->buffer, (int)c->nbytes, MPI_BYTE, neighbor(m, 1),
			       CHUNK + (int)ticket, m->comm, &m->flying[ticket]);
	return rc == MPI_SUCCESS ? 0 : fail_mpi(m, "MPI_Isend", rc, err);
}

/*
 * Every rank sends a chunk to the next one as soon as it has it: so each sends and receives every
 * byte once, however many ranks there are. MPI_Ibcast of a few ranks sends from the root to each of
 * them.
 */
static int begin(struct ckpt_transport *t, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	struct mpi *m = (struct mpi *)t;
	int rc;

	m->chunks[ticket] = *chunk;
	if (chunk->root == t->rank)
		return send_to_next(m, ticket, err);
	m->comes[ticket] = true;
	rc = MPI_Irecv(chunk->buffer, (int)chunk->nbytes, MPI_BYTE, neighbor(m, t->size - 1),
		       CHUNK + (int)ticket, m->comm, &m->flying[ticket]);
	return rc == MPI_SUCCESS ? 0 : fail_mpi(m, "MPI_Irecv", rc, err);
}

/* Also sends all other chunks that have arrived to the next rank. */
static int test(struct ckpt_transport *t, unsigned ticket, struct ckpt_error *err)
{
	struct mpi *m = (struct mpi *)t;
	int which[CKPT_MOST_FLYING], n = 0, result = 0;
	int rc = MPI_Testsome(CKPT_MOST_FLYING, m->flying, &n, which, MPI_STATUSES_IGNORE);

	if (rc != MPI_SUCCESS)
		return fail_mpi(m, "MPI_Testsome", rc, err);
	for (int i = 0; result == 0 && n != MPI_UNDEFINED && i < n; i++)
		if (m->comes[which[i]])
			result = send_to_next(m, (unsigned)which[i], err);
	return result < 0 ? result : m->flying[ticket] == MPI_REQUEST_NULL;
}

static void pause_poll(void)
{
	nanosleep(&(struct timespec){ 0, POLL_NSEC }, NULL);
}

static int vote(struct ckpt_transport *t, uint64_t *numbers, size_t count, uint64_t deadline,
		struct ckpt_error *err)
{
	struct mpi *m = (struct mpi *)t;
	MPI_Request request;
	int done = 0, rc;

	rc = MPI_Iallreduce(MPI_IN_PLACE, numbers, (int)count, MPI_UINT64_T, MPI_MAX, m->comm,
			    &request);
	while (rc == MPI_SUCCESS && !done) {
		rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
		if (!done && ckpt_now_nsec() > deadline) {
			m->broken = true;
			return ckpt_plugin_fail(err, CKPT_E_PEER, "a rank does not answer");
		}
		if (!done)
			pause_poll();
	}
	return rc == MPI_SUCCESS ? 0 : fail_mpi(m, "MPI_Iallreduce", rc, err);
}

/* ---- which ranks are silent ---- */

static bool wait_until(MPI_Request *request, uint64_t deadline)
{
	int done = 0, rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);

	while (rc == MPI_SUCCESS && !done && ckpt_now_nsec() < deadline) {
		pause_poll();
		rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
	}
	return rc == MPI_SUCCESS && done;
}

/* MISSING: their number, and the first of them. */
static void list_missing(const struct mpi *m, const int *missing, char *text, size_t size)
{
	size_t len = 0;

	*text = '\0';
	for (int i = 0; i < missing[0] && i < MOST_MISSING && len < size; i++)
		len += (size_t)snprintf(text + len, size - len, "%srank %d (%s)", i ? ", " : "",
					missing[1 + i], m->hosts[missing[1 + i]]);
	if (missing[0] > MOST_MISSING && len < size)
		snprintf(text + len, size - len, " and %d more", missing[0] - MOST_MISSING);
}

/* On rank 0: wait for a message of every other rank, and send the missing ones to those. */
static void collect(struct mpi *m, uint64_t deadline, int *missing)
{
	bool *here = calloc(m->base.size, sizeof(*here));
	static int from; /* MPI may write to it when this is over */
	MPI_Request request;

	missing[0] = 0;
	if (!here)
		return;
	for (uint32_t n = 1; n < m->base.size; n++) {
		if (MPI_Irecv(&from, 1, MPI_INT, MPI_ANY_SOURCE, HERE, m->comm, &request) !=
			    MPI_SUCCESS ||
		    !wait_until(&request, deadline))
			break;
		here[from] = true;
	}
	for (int i = 1; i < (int)m->base.size; i++)
		if (!here[i] && missing[0]++ < MOST_MISSING)
			missing[missing[0]] = i;
	for (int i = 1; i < (int)m->base.size; i++)
		if (here[i] && MPI_Isend(missing, 1 + MOST_MISSING, MPI_INT, i, MISSING, m->comm,
					 &request) == MPI_SUCCESS)
			wait_until(&request, deadline + 1000000000u);
	free(here);
}

/*
 * The ranks that live come here when their time is over, which is not at the same moment. It uses
 * messages between two ranks, since collective calls would wait for the lost rank.
 */
static void find_silent(struct ckpt_transport *t, uint64_t nsec, char *text, size_t size)
{
	struct mpi *m = (struct mpi *)t;
	uint64_t deadline = ckpt_now_nsec() + nsec;
	static int missing[1 + MOST_MISSING], rank; /* MPI may use them when this is over */
	MPI_Request request;

	rank = (int)t->rank;
	missing[0] = 1; /* rank 0, unless it sends something else */
	missing[1] = 0;
	if (rank == 0) {
		collect(m, deadline, missing);
	} else {
		MPI_Isend(&rank, 1, MPI_INT, 0, HERE, m->comm, &request);
		if (MPI_Irecv(missing, 1 + MOST_MISSING, MPI_INT, 0, MISSING, m->comm, &request) ==
		    MPI_SUCCESS)
			wait_until(&request, deadline + nsec);
	}
	list_missing(m, missing, text, size);
}

/* MPI cannot go on without a rank, nor end in order: mpirun ends all when this process ends. */
static void give_up(struct ckpt_transport *t)
{
	((struct mpi *)t)->broken = true;
}

static void close_mpi(struct ckpt_transport *t)
{
	struct mpi *m = (struct mpi *)t;

	if (m->broken)
		return;
	MPI_Comm_free(&m->comm);
	MPI_Finalize();
	free(m->hosts);
	free(m);
}

static int share_hosts(struct mpi *m, struct ckpt_error *err)
{
	char host[MPI_MAX_PROCESSOR_NAME + 1] = "";
	int len, rc;

	m->hosts = calloc(m->base.size, HOST);
	if (!m->hosts)
		return ckpt_plugin_fail(err, CKPT_E_NOMEM, "out of memory");
	MPI_Get_processor_name(host, &len);
	snprintf(m->hosts[m->base.rank], HOST, "%.63s", host);
	rc = MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, m->hosts, HOST, MPI_CHAR, m->comm);
	return rc == MPI_SUCCESS ? 0 : fail_mpi(m, "MPI_Allgather", rc, err);
}

static int join(struct mpi *m, struct ckpt_error *err)
{
	int rank, size, rc = MPI_Comm_dup(MPI_COMM_WORLD, &m->comm);

	if (rc != MPI_SUCCESS)
		return fail_mpi(m, "MPI_Comm_dup", rc, err);
	MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(m->comm, &rank);
	MPI_Comm_size(m->comm, &size);
	m->base.rank = (uint32_t)rank;
	m->base.size = (uint32_t)size;
	return share_hosts(m, err);
}

ckpt_mpi_open ckpt_mpi_open_here __asm__(CKPT_MPI_OPEN_NAME) __attribute__((visibility("default")));

int ckpt_mpi_open_here(int version, struct ckpt_transport **out, struct ckpt_error *err)
{
	static const struct ckpt_transport_ops ops = {
		.name = "mpi",
		.alloc = alloc,
		.release = release,
		.begin = begin,
		.test = test,
		.vote = vote,
		.abort = give_up,
		.close = close_mpi,
		.find_silent = find_silent,
	};
	struct mpi *m;
	int given, rc;

	*out = NULL;
	if (version != CKPT_MPI_PLUGIN_VERSION)
		return ckpt_plugin_fail(err, CKPT_E_UNSUPPORTED,
					"ckpt-mpi.so is of another version of ckpt: %d, wanted %d",
					CKPT_MPI_PLUGIN_VERSION, version);
	m = calloc(1, sizeof(*m));
	if (!m)
		return ckpt_plugin_fail(err, CKPT_E_NOMEM, "out of memory");
	m->base.ops = &ops;
	for (unsigned i = 0; i < CKPT_MOST_FLYING; i++)
		m->flying[i] = MPI_REQUEST_NULL;
	rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
	if (rc != MPI_SUCCESS)
		rc = fail_mpi(m, "MPI_Init_thread", rc, err);
	else
		rc = join(m, err);
	if (rc < 0) {
		free(m->hosts);
		free(m);
	} else {
		*out = &m->base;
	}
	return rc;
}
