/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which way ranks meet: as --rdzv says, or by what the launcher's variables offer.
 *
 * What must stay true: this is a function of the wish, the world and the variables, which are the same on all
 * ranks, or they would wait for each other in different places. Variables that a training has for itself
 * (MASTER_ADDR) are taken only where they are asked for.
 */
#include "broadcast/how_to_meet.h"

#include "job/node_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(ckpt_lookup *lookup, void *ctx, const char *name)
{
	const char *value = lookup(ctx, name);

	return value && *value ? value : NULL;
}

/*
 * A launcher inside of another, as torchrun in srun --mpi=pmix, has ranks of its own, which the
 * outer does not know.
 */
static bool is_served_by_pmix(const struct ckpt_world *w, ckpt_lookup *lookup, void *ctx)
{
	return value_of(lookup, ctx, "PMIX_NAMESPACE") &&
	       (!strcmp(w->launcher, "openmpi") || !strcmp(w->launcher, "slurm"));
}

bool ckpt_world_is_mpi(const struct ckpt_world *w, ckpt_lookup *lookup, void *ctx)
{
	return !strcmp(w->launcher, "openmpi") || !strcmp(w->launcher, "mpich") ||
	       is_served_by_pmix(w, lookup, ctx);
}

static bool find_folder(ckpt_lookup *lookup, void *ctx, char *out, size_t size)
{
	const char *given = value_of(lookup, ctx, "CKPT_RDZV_DIR");
	const char *submit = value_of(lookup, ctx, "SLURM_SUBMIT_DIR");

	if (given)
		snprintf(out, size, "%s", given);
	else if (submit)
		snprintf(out, size, "%s/.ckpt", submit);
	return given || submit;
}

static int find_way(const struct ckpt_world *w, ckpt_lookup *lookup, void *ctx,
		    struct ckpt_ways *ways, enum ckpt_way *out, struct ckpt_error *err)
{
	bool is_mpi = ckpt_world_is_mpi(w, lookup, ctx);

	if (is_mpi && ways->has_mpi)
		*out = CKPT_WAY_MPI;
	else if (is_served_by_pmix(w, lookup, ctx) && ways->has_pmix)
		*out = CKPT_WAY_PMIX;
	else if (find_folder(lookup, ctx, ways->folder, sizeof(ways->folder)))
		*out = CKPT_WAY_FILE;
	else
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"rank %u of %u (launcher %s) has no way to meet the others: give all %s--rdzv file:DIR, a "
			"folder that all nodes see, or --rdzv tcp://HOST:PORT, where rank 0 listens; or %s",
			w->rank, w->size, w->launcher,
			value_of(lookup, ctx, "MASTER_ADDR") && value_of(lookup, ctx, "MASTER_PORT")
				? "--rdzv env, as MASTER_ADDR and MASTER_PORT are set, and CKPT_TOKEN; or "
				: "",
			is_mpi ? "build ckpt where mpicc is, for ckpt-mpi.so, which talks to MPI and is not there"
			       : "start them with mpirun or srun --mpi=pmix");
	return 0;
}

/* HEX: every byte of an id. */
static int read_id(const char *hex, struct ckpt_nccl_id *out, struct ckpt_error *err)
{
	size_t digits = strspn(hex, "0123456789abcdefABCDEF"), wanted = 2 * sizeof(out->bytes);

	if (digits != wanted || hex[digits])
		return ckpt_fail(err, CKPT_E_ARG,
				 "the id of NCCL after id: has %zu hex digits%s, wanted %zu",
				 digits, hex[digits] ? " and something else" : "", wanted);
	for (size_t i = 0; i < sizeof(out->bytes); i++) {
		char byte[3] = { hex[2 * i], hex[2 * i + 1], '\0' };

		out->bytes[i] = (char)strtoul(byte, NULL, 16);
	}
	return 0;
}

/*
 * In a Prolog of Slurm: at the first node of the job, at a port that follows from the job's number, below those
 * that systems give out by themselves.
 */
static int read_slurm(ckpt_lookup *lookup, void *ctx, char *host, char *port, size_t port_size,
		      struct ckpt_error *err)
{
	enum { FIRST_PORT = 21000, PORTS = 8000 };
	const char *list = ckpt_world_slurm_nodes(lookup, ctx), *job = value_of(lookup, ctx, "SLURM_JOB_ID");
	const char *wish = value_of(lookup, ctx, "CKPT_RDZV_PORT");
	uint32_t index, count;

	if (!list || !job)
		return ckpt_fail(err, CKPT_E_ARG, "--rdzv env goes by %s in a Prolog, which is not set",
				 job ? "SLURM_JOB_NODELIST" : "SLURM_JOB_ID");
	if (wish)
		snprintf(port, port_size, "%.20s", wish);
	else
		snprintf(port, port_size, "%llu", FIRST_PORT + strtoull(job, NULL, 10) % PORTS);
	return ckpt_node_list_find(list, "", &index, &count, host, err);
}

/*
 * Only where it is asked for: a job may have these variables for its training, and a port that nobody
 * has opened for us.
 */
static int read_env(const struct ckpt_world *w, ckpt_lookup *lookup, void *ctx, struct ckpt_tcp_address *out,
		    struct ckpt_error *err)
{
	const char *host = value_of(lookup, ctx, "MASTER_ADDR"), *port = value_of(lookup, ctx, "CKPT_RDZV_PORT");
	const char *master = value_of(lookup, ctx, "MASTER_PORT");
	char text[300], next[24], node[CKPT_NODE_NAME];

	if (!host && !strcmp(w->launcher, "slurm-prolog")) {
		int rc = read_slurm(lookup, ctx, node, next, sizeof(next), err);

		if (rc < 0)
			return rc;
		host = node;
		port = next;
	}
	if (!host || (!port && !master))
		return ckpt_fail(err, CKPT_E_ARG, "--rdzv env goes by %s, which is not set",
				 host ? "CKPT_RDZV_PORT or MASTER_PORT" : "MASTER_ADDR");
	if (!port) {
		size_t digits = strspn(master, "0123456789");

		if (!digits || digits > 5 || master[digits] || strtoul(master, NULL, 10) >= UINT16_MAX ||
		    strtoul(master, NULL, 10) == 0)
			return ckpt_fail(err, CKPT_E_ARG, "MASTER_PORT is '%.40s', wanted a port that has one behind it; or set CKPT_RDZV_PORT",
					 master);
		snprintf(next, sizeof(next), "%lu", strtoul(master, NULL, 10) + 1);
		port = next;
	}
	snprintf(text, sizeof(text), strchr(host, ':') && *host != '[' ? "[%.255s]:%.20s" : "%.255s:%.20s", host, port);
	return ckpt_error_prefix(err, ckpt_tcp_address_read(text, out, err), "--rdzv env");
}

int ckpt_how_to_meet(const char *wish, const struct ckpt_world *w, ckpt_lookup *lookup, void *ctx,
		     struct ckpt_ways *ways, enum ckpt_way *out, struct ckpt_error *err)
{
	bool is_auto = !wish || !strcmp(wish, "auto");

	if (is_auto && w->size > 1)
		return find_way(w, lookup, ctx, ways, out, err);
	if (is_auto)
		*out = CKPT_WAY_ALONE;
	else if (!strcmp(wish, "mpi"))
		*out = CKPT_WAY_MPI;
	else if (!strcmp(wish, "pmix"))
		*out = CKPT_WAY_PMIX;
	else if (!strncmp(wish, "file:", 5) && wish[5] && strlen(wish + 5) < sizeof(ways->folder))
		*out = CKPT_WAY_FILE;
	else if (!strncmp(wish, "tcp://", 6) || !strcmp(wish, "env"))
		*out = CKPT_WAY_TCP;
	else if (!strncmp(wish, "id:", 3))
		*out = CKPT_WAY_ID;
	else
		return ckpt_fail(
			err, CKPT_E_ARG,
			"ranks cannot meet by '%.200s', wanted auto, pmix, mpi, file:DIR, "
			"tcp://HOST:PORT, env or id:HEX",
			wish);
	if (*out == CKPT_WAY_ID)
		return read_id(wish + 3, &ways->id, err);
	if (*out == CKPT_WAY_TCP) {
		int rc = *wish == 't' ? ckpt_tcp_address_read(wish + 6, &ways->address, err)
				      : read_env(w, lookup, ctx, &ways->address, err);

		if (rc < 0)
			return rc;
	}
	if (*out == CKPT_WAY_FILE)
		strcpy(ways->folder, wish + 5);
	if (w->size == 1)
		*out = CKPT_WAY_ALONE;
	return 0;
}
