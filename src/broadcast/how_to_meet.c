/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/how_to_meet.h"

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
			"rank %u of %u (launcher %s) has no way to meet the others: %s; where every rank has a GPU, "
			"--rdzv file:DIR does, a folder that all nodes see",
			w->rank, w->size, w->launcher,
			is_mpi ? "there is no ckpt-mpi.so, which talks to MPI: build ckpt where mpicc is, and it lies beside it"
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
	else if (!strncmp(wish, "id:", 3))
		*out = CKPT_WAY_ID;
	else
		return ckpt_fail(
			err, CKPT_E_ARG,
			"ranks cannot meet by '%.200s', wanted auto, pmix, mpi, file:DIR or "
			"id:HEX",
			wish);
	if (*out == CKPT_WAY_ID)
		return read_id(wish + 3, &ways->id, err);
	if (*out == CKPT_WAY_FILE)
		strcpy(ways->folder, wish + 5);
	if (w->size == 1)
		*out = CKPT_WAY_ALONE;
	return 0;
}
