/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt-mpi.so: ckpt broadcast over MPI. Built with the site's mpicc; has nothing of libckpt in it but a few
 * declarations, and is called by one thread.
 */
#include "base/clock.h"
#include "base/plugin_fail.h"
#include "broadcast/mpi_plugin.h"

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

struct mpi {
	struct ckpt_transport base;
	MPI_Comm comm;
	MPI_Request flying[CKPT_MOST_FLYING];
	bool broken;
};

enum { PAGE = 4096 };

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
	/* what MPI may still write to stays */
	if (!((struct mpi *)t)->broken)
		free(buffer);
}

static int begin(struct ckpt_transport *t, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	struct mpi *m = (struct mpi *)t;
	int rc = MPI_Ibcast(chunk->buffer, (int)chunk->nbytes, MPI_BYTE, (int)chunk->root, m->comm,
			    &m->flying[ticket]);

	return rc == MPI_SUCCESS ? 0 : fail_mpi(m, "MPI_Ibcast", rc, err);
}

static int test(struct ckpt_transport *t, unsigned ticket, struct ckpt_error *err)
{
	struct mpi *m = (struct mpi *)t;
	int done = 0, rc = MPI_Test(&m->flying[ticket], &done, MPI_STATUS_IGNORE);

	return rc == MPI_SUCCESS ? done != 0 : fail_mpi(m, "MPI_Ibcast", rc, err);
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
			nanosleep(&(struct timespec){ 0, 20000 }, NULL);
	}
	return rc == MPI_SUCCESS ? 0 : fail_mpi(m, "MPI_Iallreduce", rc, err);
}

/* MPI cannot go on without a rank, nor end properly: mpirun ends all when this process does. */
static void let_go(struct ckpt_transport *t)
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
	free(m);
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
	return 0;
}

ckpt_mpi_open ckpt_mpi_open_here __asm__(CKPT_MPI_OPEN_NAME) __attribute__((visibility("default")));

int ckpt_mpi_open_here(int version, struct ckpt_transport **out, struct ckpt_error *err)
{
	static const struct ckpt_transport_ops ops = { "mpi", false, alloc,  release,  begin,
						       test,  vote,  let_go, close_mpi };
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
	rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
	if (rc != MPI_SUCCESS)
		rc = fail_mpi(m, "MPI_Init_thread", rc, err);
	else
		rc = join(m, err);
	if (rc < 0)
		free(m);
	else
		*out = &m->base;
	return rc;
}
