/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "job/world.h"

#include <stdio.h>
#include <string.h>

static struct ckpt_error err;

/* The environment: "NAME=VALUE" texts, ended by NULL. */
static const char *look_up(void *ctx, const char *name)
{
	const char *const *env = ctx;
	size_t len = strlen(name);

	for (; *env; env++)
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

static const struct ckpt_world_wish no_wish = { .rank = -1, .size = -1, .local_rank = -1 };

static int find(const struct ckpt_world_wish *wish, const char *const *env, struct ckpt_world *w)
{
	memset(&err, 0, sizeof(err));
	return ckpt_world_find(wish, look_up, (void *)env, w, &err);
}

#define ENV(...) \
	(const char *const[]) \
	{ \
		__VA_ARGS__, NULL \
	}

/* As the launchers set them; those that nest with what is around them. */
static void every_launcher_is_known(void **state)
{
	static const struct {
		const char *env[16];
		struct ckpt_world want;
	} cases[] = {
		{ { "HOME=/root" }, { 0, 1, 0, 0, "none", "", false, 0, false } },
		{ { "CKPT_RANK=1", "CKPT_WORLD_SIZE=4", "CKPT_LOCAL_RANK=1" },
		  { 1, 4, 1, 0, "ckpt", "", false, 0, true } },
		{ { "CKPT_RANK=1", "CKPT_WORLD_SIZE=4", "CKPT_JOB_KEY=k" },
		  { 1, 4, 0, 0, "ckpt", "k", false, 0, true } },
		{ { "TORCHELASTIC_RUN_ID=run7", "TORCHELASTIC_RESTART_COUNT=2", "RANK=9",
		    "GROUP_RANK=1", "WORLD_SIZE=16", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8",
		    "MASTER_PORT=29500" },
		  { 9, 16, 1, 8, "torchrun", "run7.2", true, 1, true } },
		{ { "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=0", "RANK=0",
		    "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=node1", "MASTER_PORT=41234" },
		  { 0, 2, 0, 0, "torchrun", "none.0.node1.41234", false, 0, true } },
		{ { "TORCHELASTIC_RUN_ID=x", "RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1",
		    "LOCAL_WORLD_SIZE=8", "SLURM_JOB_ID=77", "SLURM_STEP_NUM_TASKS=2",
		    "SLURM_PROCID=1", "SLURM_LOCALID=0" },
		  { 9, 16, 1, 8, "torchrun", "x", false, 0, true } },
		{ { "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=3",
		    "OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=3", "PMIX_RANK=2",
		    "PMIX_NAMESPACE=prterun-1234@1" },
		  { 2, 3, 2, 3, "openmpi", "prterun-1234@1", false, 0, true } },
		{ { "PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2" },
		  { 0, 2, 0, 2, "mpich", "", false, 0, true } },
		{ { "SLURM_JOB_ID=77", "SLURM_STEP_ID=3", "SLURM_RESTART_COUNT=1",
		    "SLURM_STEP_NUM_TASKS=11", "SLURM_PROCID=9", "SLURM_LOCALID=1",
		    "SLURM_NODEID=2", "SLURM_STEP_TASKS_PER_NODE=4(x2),3" },
		  { 9, 11, 1, 3, "slurm", "77.3.1", true, 2, true } },
		{ { "SLURM_SCRIPT_CONTEXT=prolog_slurmd", "SLURM_JOB_ID=77", "SLURM_JOB_RESTART_COUNT=2",
		    "SLURM_NODELIST=n[01-03]", "SLURMD_NODENAME=n02", "SLURM_JOB_NTASKS=24" },
		  { 1, 3, 0, 1, "slurm-prolog", "77.2", true, 1, true } },
		{ { "SLURM_SCRIPT_CONTEXT=prolog_task", "SLURM_NODELIST=n[01-03]", "SLURMD_NODENAME=n02" },
		  { 0, 1, 0, 0, "none", "", false, 0, false } },
		{ { "SLURM_JOB_ID=77", "SLURM_NTASKS=8", "SLURM_PROCID=0" },
		  { 0, 1, 0, 0, "none", "", false, 0, false } }, /* sbatch */
		{ { "JOB_COMPLETION_INDEX=3", "CKPT_WORLD_SIZE=4" },
		  { 3, 4, 0, 0, "k8s", "", false, 0, true } },
		{ { "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1" },
		  { 1, 2, 1, 0, "env", "", false, 0, true } },
		{ { "JOB_COMPLETION_INDEX=3", "CKPT_WORLD_SIZE=4", "CKPT_JOB_KEY=k" },
		  { 3, 4, 0, 0, "k8s", "k", false, 0, true } },
		{ { "CKPT_JOB_KEY=k" }, { 0, 1, 0, 0, "none", "k", false, 0, false } },
	};
	struct ckpt_world w;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(find(&no_wish, cases[i].env, &w), 0);
		assert_string_equal(w.launcher, cases[i].want.launcher);
		assert_int_equal(w.rank, cases[i].want.rank);
		assert_int_equal(w.size, cases[i].want.size);
		assert_int_equal(w.local_rank, cases[i].want.local_rank);
		assert_int_equal(w.local_size, cases[i].want.local_size);
		assert_string_equal(w.key, cases[i].want.key);
		assert_int_equal(w.has_node, cases[i].want.has_node);
		assert_int_equal(w.node, cases[i].want.node);
	}
}

static void what_the_user_says_wins(void **state)
{
	struct ckpt_world_wish wish = no_wish;
	struct ckpt_world w;

	(void)state;
	wish.rank = 3;
	wish.size = 5;
	assert_int_equal(find(&wish, ENV("RANK=0", "WORLD_SIZE=2"), &w), 0);
	assert_int_equal(w.rank, 3);
	assert_int_equal(w.size, 5);
	assert_int_equal(w.local_rank, 0);
	wish = no_wish;
	wish.launcher = "slurm";
	assert_int_equal(
		find(&wish,
		     ENV("RANK=0", "WORLD_SIZE=2", "SLURM_STEP_NUM_TASKS=3", "SLURM_PROCID=1"), &w),
		0);
	assert_int_equal(w.size, 3);
	wish.launcher = "none";
	wish.key = "job";
	assert_int_equal(find(&wish, ENV("RANK=0", "WORLD_SIZE=2"), &w), 0);
	assert_int_equal(w.size, 1);
	assert_string_equal(w.key, "job");
}

static void contradictions_are_told(void **state)
{
	static const struct {
		const char *env[8], *launcher, *text;
		int rc;
	} cases[] = {
		{ { "RANK=x", "WORLD_SIZE=2" }, NULL, "RANK is 'x'", CKPT_E_FORMAT },
		{ { "RANK=-1", "WORLD_SIZE=2" }, NULL, "RANK is '-1'", CKPT_E_FORMAT },
		{ { "RANK=1 ", "WORLD_SIZE=2" }, NULL, "RANK is '1 '", CKPT_E_FORMAT },
		{ { "RANK= 1", "WORLD_SIZE=2" }, NULL, "RANK is ' 1'", CKPT_E_FORMAT },
		{ { "RANK=+1", "WORLD_SIZE=2" }, NULL, "RANK is '+1'", CKPT_E_FORMAT },
		{ { "RANK=0x1", "WORLD_SIZE=2" }, NULL, "RANK is '0x1'", CKPT_E_FORMAT },
		{ { "RANK=99999999999999999999", "WORLD_SIZE=2" },
		  NULL,
		  "wanted a number",
		  CKPT_E_FORMAT },
		{ { "RANK=1" },
		  NULL,
		  "WORLD_SIZE is not set, which goes with RANK",
		  CKPT_E_FORMAT },
		{ { "RANK=2", "WORLD_SIZE=2" }, NULL, "rank 2 of 2", CKPT_E_FORMAT },
		{ { "RANK=0", "WORLD_SIZE=0" }, NULL, "rank 0 of 0", CKPT_E_FORMAT },
		{ { "JOB_COMPLETION_INDEX=0" }, NULL, "CKPT_WORLD_SIZE is not set", CKPT_E_FORMAT },
		{ { "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=3", "RANK=0", "WORLD_SIZE=2" },
		  NULL,
		  "OMPI_COMM_WORLD_SIZE says that there are 3 processes, WORLD_SIZE says 2",
		  CKPT_E_FORMAT },
		{ { "RANK=0", "WORLD_SIZE=2" },
		  "slurm",
		  "SLURM_STEP_NUM_TASKS is not set",
		  CKPT_E_ARG },
		{ { "SLURM_SCRIPT_CONTEXT=prolog_slurmd", "SLURM_NODELIST=n[1-2]", "SLURMD_NODENAME=n3" },
		  NULL,
		  "SLURMD_NODENAME is 'n3', which is not in 'n[1-2]'",
		  CKPT_E_FORMAT },
		{ { "SLURM_SCRIPT_CONTEXT=prolog_slurmd", "SLURM_NODELIST=n[1-", "SLURMD_NODENAME=n3" },
		  NULL,
		  "'n[1-' is no list of Slurm's nodes",
		  CKPT_E_FORMAT },
		{ { "SLURM_SCRIPT_CONTEXT=prolog_slurmd", "SLURM_NODELIST=n[1-2]" },
		  NULL,
		  "SLURMD_NODENAME is not set, which goes with SLURM_SCRIPT_CONTEXT",
		  CKPT_E_FORMAT },
		{ { "SLURM_SCRIPT_CONTEXT=prolog_task" },
		  "slurm-prolog",
		  "SLURM_SCRIPT_CONTEXT is not prolog_slurmd",
		  CKPT_E_ARG },
		{ { "RANK=0" }, "lsf", "there is no launcher 'lsf'", CKPT_E_ARG },
	};
	struct ckpt_world w;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ckpt_world_wish wish = no_wish;

		wish.launcher = cases[i].launcher;
		assert_int_equal(find(&wish, cases[i].env, &w), cases[i].rc);
		if (!strstr(unit_text(&err), cases[i].text))
			print_message("%s\n", unit_text(&err));
		assert_non_null(strstr(unit_text(&err), cases[i].text));
	}
}

/* Keys that were cut off, or lost a part, would be the same for two jobs. */
static void a_key_is_whole_or_an_error(void **state)
{
	char text[CKPT_WORLD_MOST_KEY + 2] = "", id[sizeof(text) + 20];
	struct ckpt_world_wish wish = no_wish;
	struct ckpt_world w;

	(void)state;
	memset(text, 'k', CKPT_WORLD_MOST_KEY);
	wish.key = text;
	assert_int_equal(find(&wish, ENV("HOME=/root"), &w), 0);
	assert_string_equal(w.key, text);

	text[CKPT_WORLD_MOST_KEY] = 'k';
	assert_int_equal(find(&wish, ENV("HOME=/root"), &w), CKPT_E_ARG);
	assert_string_equal(unit_text(&err),
			    "--job-key makes the key of the job longer than 500 bytes");

	snprintf(id, sizeof(id), "TORCHELASTIC_RUN_ID=%s", text + 1);
	assert_int_equal(find(&no_wish, ENV(id, "RANK=0", "WORLD_SIZE=2"), &w), 0);
	assert_string_equal(w.key, text + 1);
	assert_int_equal(find(&no_wish,
			      ENV(id, "TORCHELASTIC_RESTART_COUNT=0", "RANK=0", "WORLD_SIZE=2"),
			      &w),
			 CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err),
			    "TORCHELASTIC_RESTART_COUNT makes the key of the job longer than 500 "
			    "bytes: a shorter --job-key goes before it");
	wish.key = "short";
	assert_int_equal(
		find(&wish, ENV(id, "TORCHELASTIC_RESTART_COUNT=0", "RANK=0", "WORLD_SIZE=2"), &w),
		0);
	assert_string_equal(w.key, "short");
}

UNIT_SUITE(test_world)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_launcher_is_known),
		cmocka_unit_test(what_the_user_says_wins),
		cmocka_unit_test(contradictions_are_told),
		cmocka_unit_test(a_key_is_whole_or_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
