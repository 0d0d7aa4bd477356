/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process of a job this is: a table of launchers and their variables, innermost first. What
 * the user says wins over all of them.
 *
 * What must stay true: variables that contradict each other are an error, never a guess. The key
 * names this start of the job, not only the job. It is whole or an error: two jobs whose keys lost
 * a part would meet.
 */
#include "job/world.h"

#include "job/node_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20 };

#define PROLOG "slurm-prolog"

/*
 * Launchers nest: torchrun runs under srun, mpirun under sbatch, where all local ranks see the same
 * SLURM_PROCID. The innermost is asked first. Names are alternatives, separated by spaces.
 */
static const struct launcher {
	const char *name;
	const char *sign; /* it is there if this is set */
	const char *rank, *size, *local_rank, *local_size;
	const char *key; /* all that are set are joined */
	const char *node;
	const char *value; /* of SIGN; NULL: any */
} launchers[] = {
	{ "ckpt", "CKPT_RANK", "CKPT_RANK", "CKPT_WORLD_SIZE", "CKPT_LOCAL_RANK", NULL,
	  "CKPT_JOB_KEY", NULL, NULL },
	{ "torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
	  "TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT", "GROUP_RANK", NULL },
	{ "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", NULL, NULL },
	{ "mpich", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
	  "CKPT_JOB_KEY", NULL, NULL },
	{ "slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
	  NULL, "SLURM_JOB_ID SLURM_STEP_ID SLURM_RESTART_COUNT", "SLURM_NODEID", NULL },
	/* slurmd runs it once on each node, before there are tasks: see read_prolog() */
	{ PROLOG, "SLURM_SCRIPT_CONTEXT", NULL, NULL, NULL, NULL,
	  "SLURM_JOB_ID SLURM_JOB_RESTART_COUNT", NULL, "prolog_slurmd" },
	{ "k8s", "JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX", "CKPT_WORLD_SIZE", NULL, NULL,
	  "CKPT_JOB_KEY", NULL, NULL },
	{ "env", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CKPT_JOB_KEY",
	  NULL, NULL },
};

enum { LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]) };

struct finder {
	const struct ckpt_world_wish *wish;
	ckpt_lookup *lookup;
	void *ctx;
	struct ckpt_error *err;
};

const char *ckpt_world_launchers(void)
{
	return "auto, ckpt, torchrun, openmpi, mpich, slurm, slurm-prolog, k8s, env, none";
}

static const char *value_of(const struct finder *f, const char *name)
{
	const char *value = name ? f->lookup(f->ctx, name) : NULL;

	return value && *value ? value : NULL;
}

static bool is_there(const struct finder *f, const struct launcher *l)
{
	const char *value = value_of(f, l->sign);

	return value && (!l->value || !strcmp(value, l->value));
}

static int parse(const struct finder *f, const char *name, const char *text, uint32_t *out)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text < '0' || *text > '9' || n > MOST_RANKS)
		return ckpt_fail(f->err, CKPT_E_FORMAT, "%s is '%.40s', wanted a number up to %d",
				 name, text, MOST_RANKS);
	*out = (uint32_t)n;
	return 0;
}

/* 0 where the variable is not set. */
static int number_of(const struct finder *f, const char *name, uint32_t *out)
{
	const char *text = value_of(f, name);

	*out = 0;
	return text ? parse(f, name, text, out) : 0;
}

static int require_number(const struct finder *f, const struct launcher *l, const char *name,
			  uint32_t *out)
{
	if (value_of(f, name))
		return number_of(f, name, out);
	return ckpt_fail(f->err, CKPT_E_FORMAT, "%s is not set, which goes with %s", name, l->sign);
}

/* ---- the key ---- */

static int add_to_key(const struct finder *f, struct ckpt_world *w, const char *name,
		      const char *text)
{
	size_t len = strlen(w->key), room = sizeof(w->key) - len;
	int added = snprintf(w->key + len, room, "%s%s", len ? "." : "", text);

	if (added >= 0 && (size_t)added < room)
		return 0;
	return ckpt_fail(f->err, f->wish->key ? CKPT_E_ARG : CKPT_E_FORMAT,
			 "%s makes the key of the job longer than %d bytes%s", name,
			 CKPT_WORLD_MOST_KEY,
			 f->wish->key ? "" : ": a shorter --job-key goes before it");
}

static int find_key(const struct finder *f, const char *names, struct ckpt_world *w)
{
	int rc = 0;

	if (f->wish->key)
		return 0; /* it wins, however long the other is */
	while (rc == 0 && names && *names) {
		size_t len = strcspn(names, " ");
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)len, names);
		if (value_of(f, name))
			rc = add_to_key(f, w, name, value_of(f, name));
		names += len + (names[len] == ' ');
	}
	return rc;
}

/* ---- a launcher's view ---- */

/* "4(x2),3": how many tasks the nodes of a Slurm step have; that of node number NODE. */
static uint32_t slurm_tasks_of(const char *text, uint32_t node)
{
	while (*text) {
		char *end;
		uint32_t tasks = (uint32_t)strtoul(text, &end, 10), times = 1;

		if (end == text)
			return 0;
		if (!strncmp(end, "(x", 2))
			times = (uint32_t)strtoul(end + 2, &end, 10);
		if (node < times)
			return tasks;
		node -= times;
		text = strchr(end, ',');
		if (!text)
			return 0;
		text++;
	}
	return 0;
}

const char *ckpt_world_slurm_nodes(ckpt_lookup *lookup, void *ctx)
{
	const char *list = lookup(ctx, "SLURM_JOB_NODELIST");

	return list && *list ? list : lookup(ctx, "SLURM_NODELIST");
}

/* In a Prolog of Slurm: one process on each node, numbered as the job's list has them. */
static int read_prolog(const struct finder *f, const struct launcher *l, struct ckpt_world *out)
{
	const char *list = ckpt_world_slurm_nodes(f->lookup, f->ctx), *name = value_of(f, "SLURMD_NODENAME");
	int rc;

	if (!list || !name)
		return ckpt_fail(f->err, CKPT_E_FORMAT, "%s is not set, which goes with %s",
				 name ? "SLURM_JOB_NODELIST" : "SLURMD_NODENAME", l->sign);
	rc = ckpt_node_list_find(list, name, &out->rank, &out->size, NULL, f->err);
	if (rc == 0 && out->rank == out->size)
		return ckpt_fail(f->err, CKPT_E_FORMAT, "SLURMD_NODENAME is '%.200s', which is not in '%.200s'", name, list);
	out->has_node = true;
	out->node = out->rank;
	out->local_size = 1;
	out->launcher = l->name;
	return rc < 0 ? rc : find_key(f, l->key, out);
}

static int read_launcher(const struct finder *f, const struct launcher *l, struct ckpt_world *out)
{
	const char *tasks = value_of(f, "SLURM_STEP_TASKS_PER_NODE");
	uint32_t node;
	int rc;

	if (!strcmp(l->name, PROLOG))
		return read_prolog(f, l, out);
	rc = require_number(f, l, l->rank, &out->rank);
	if (rc == 0)
		rc = require_number(f, l, l->size, &out->size);
	if (rc == 0)
		rc = number_of(f, l->local_rank, &out->local_rank);
	if (rc == 0)
		rc = number_of(f, l->local_size, &out->local_size);
	out->has_node = value_of(f, l->node) != NULL;
	if (rc == 0)
		rc = number_of(f, l->node, &out->node);
	if (rc == 0 && !strcmp(l->name, "slurm") && tasks) {
		rc = number_of(f, "SLURM_NODEID", &node);
		out->local_size = slurm_tasks_of(tasks, node);
	}
	out->launcher = l->name;
	if (rc == 0)
		rc = find_key(f, l->key, out);
	/*
	 * without --rdzv-id it calls all its runs that, but each has a port of its own while it
	 * goes on
	 */
	if (rc == 0 && !strcmp(l->name, "torchrun") && !strcmp(value_of(f, l->sign), "none"))
		rc = find_key(f, "MASTER_ADDR MASTER_PORT", out);
	return rc;
}

static int choose_launcher(const struct finder *f, const struct launcher **out)
{
	const char *name = f->wish->launcher;

	*out = NULL;
	for (int i = 0; i < LAUNCHERS && !*out; i++) {
		bool there = is_there(f, &launchers[i]);

		if (name ? !strcmp(name, launchers[i].name) : there)
			*out = &launchers[i];
		if (*out && !there)
			return ckpt_fail(f->err, CKPT_E_ARG, "launcher '%s', but %s is not %s",
					 name, launchers[i].sign,
					 launchers[i].value ? launchers[i].value : "set");
	}
	if (name && !*out && strcmp(name, "none") != 0)
		return ckpt_fail(f->err, CKPT_E_ARG,
				 "there is no launcher '%.40s', wanted one of %s", name,
				 ckpt_world_launchers());
	return 0;
}

/*
 * One launcher may run inside of another, with a whole number of processes for each of its tasks.
 * Other pairs come of variables that were left behind.
 */
static int check_others(const struct finder *f, const struct launcher *chosen, uint32_t size)
{
	for (const struct launcher *l = chosen + 1; l < launchers + LAUNCHERS; l++) {
		uint32_t other;
		int rc = is_there(f, l) ? number_of(f, l->size, &other) : 0;

		if (rc < 0)
			return rc;
		if (!is_there(f, l) || !value_of(f, l->size) || (other && size % other == 0))
			continue;
		return ckpt_fail(f->err, CKPT_E_FORMAT,
				 "%s says that there are %" PRIu32 " processes, %s says %" PRIu32,
				 chosen->size, size, l->size, other);
	}
	return 0;
}

static void apply_wish(const struct ckpt_world_wish *wish, struct ckpt_world *w)
{
	if (wish->rank >= 0)
		w->rank = (uint32_t)wish->rank;
	if (wish->size >= 0)
		w->size = (uint32_t)wish->size;
	if (wish->local_rank >= 0)
		w->local_rank = (uint32_t)wish->local_rank;
}

int ckpt_world_find(const struct ckpt_world_wish *wish, ckpt_lookup *lookup, void *ctx,
		    struct ckpt_world *out, struct ckpt_error *err)
{
	const struct finder f = { wish, lookup, ctx, err };
	const struct launcher *l = NULL;
	int rc = 0;

	*out = (struct ckpt_world){ .size = 1, .launcher = "none" };
	if (wish->rank < 0 || wish->size < 0 || wish->launcher)
		rc = choose_launcher(&f, &l);
	if (rc == 0 && l)
		rc = read_launcher(&f, l, out);
	if (rc == 0 && l && !wish->launcher && wish->size < 0)
		rc = check_others(&f, l, out->size);
	if (rc == 0 && !l)
		rc = find_key(&f, "CKPT_JOB_KEY", out);
	if (rc == 0 && wish->key)
		rc = add_to_key(&f, out, "--job-key", wish->key);
	if (rc < 0)
		return rc;
	apply_wish(wish, out);
	out->size_is_said = l || wish->size >= 0;
	if (!out->size || out->rank >= out->size)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "rank %" PRIu32 " of %" PRIu32 " processes, %s%s; ranks count from 0",
				 out->rank, out->size, l ? "by " : "as the options say", l ? l->name : "");
	return 0;
}
