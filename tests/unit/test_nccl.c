/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gpu/elf_text.h"
#include "gpu/nccl_comm.h"
#include "gpu/nccl_library.h"
#include "gpu_doubles.h"

#include "base/clock.h"

#include <ckpt/broadcast.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct ckpt_error err;

static bool err_has(const char *text)
{
	if (strstr(unit_text(&err), text))
		return true;
	fprintf(stderr, "no '%s' in: %s\n", text, unit_text(&err));
	return false;
}

static int get(void)
{
	const struct ckpt_nccl *nccl;

	err = (struct ckpt_error)CKPT_ERROR_INIT;
	return ckpt_nccl_get(&nccl, &err);
}

/* ---- what is looked for ---- */

/* Before any other: what works is kept for good. */
static void a_library_that_is_not_there_is_named(void **state)
{
	struct ckpt_nccl_facts facts;

	(void)state;
	setenv("CKPT_NCCL_LIB", "/nowhere/libnccl.so.2", 1);
	assert_int_equal(get(), CKPT_E_UNSUPPORTED);
	assert_true(err_has("cannot load the library that CKPT_NCCL_LIB names: "));
	assert_true(err_has("/nowhere/libnccl.so.2"));
	ckpt_nccl_find_facts(&facts);
	assert_false(facts.is_there);
	assert_non_null(strstr(facts.text, "cannot load"));
}

static void one_that_is_too_old_is_named(void **state)
{
	(void)state;
	doubles_use(NULL, "stub_nccl_old.so");
	setenv("STUB_NCCL_VERSION", "21308", 1);
	assert_int_equal(get(), CKPT_E_UNSUPPORTED);
	assert_true(err_has("NCCL 2.13.8 at "));
	assert_true(err_has("stub_nccl_old.so has no ncclCommFinalize: wanted 2.14 or later"));
	unsetenv("STUB_NCCL_VERSION");
}

static bool finds_one_in_an_environment(void)
{
	char *folder = unit_folder_new(), *stub = doubles_path("stub_nccl.so"), command[2000];
	struct ckpt_nccl_facts facts;
	bool found;

	unsetenv("CKPT_NCCL_LIB");
	snprintf(command, sizeof(command),
		 "d='%s/lib/python3.11/site-packages/nvidia/nccl/lib' && mkdir -p \"$d\" && "
		 "cp '%s' \"$d/libnccl.so.2\"",
		 folder, stub);
	found = system(command) == 0;
	setenv("VIRTUAL_ENV", "/nowhere", 1);
	setenv("CONDA_PREFIX", folder, 1);
	ckpt_nccl_find_facts(&facts);
	found &= facts.is_there && strncmp(facts.path, folder, strlen(folder)) == 0;
	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	return found && system(command) == 0;
}

static void environments_of_python_are_looked_at(void **state)
{
	(void)state;
	assert_true(doubles_in_child(finds_one_in_an_environment));
}

/* Others may be reading it: only the command sets variables. */
static bool keeps_the_environment(void)
{
	unsetenv("NCCL_DEBUG_FILE");
	unsetenv("NCCL_RAS_ENABLE");
	unsetenv("NCCL_NVLS_ENABLE");
	return get() == 0 && !getenv("NCCL_DEBUG_FILE") && !getenv("NCCL_RAS_ENABLE") &&
	       !getenv("NCCL_NVLS_ENABLE");
}

static void the_environment_is_left_alone(void **state)
{
	(void)state;
	doubles_use(NULL, "stub_nccl.so");
	assert_true(doubles_in_child(keeps_the_environment));
}

static bool warns_of_an_old_one(void)
{
	struct ckpt_nccl_facts facts;

	setenv("STUB_NCCL_VERSION", "21805", 1);
	ckpt_nccl_find_facts(&facts);
	return facts.is_there &&
	       strcmp(facts.text, "2.18.5 (before 2.19 an abort in another thread may hang)") == 0;
}

static void an_old_one_is_taken_with_a_warning(void **state)
{
	(void)state;
	assert_true(doubles_in_child(warns_of_an_old_one));
}

static void what_there_is_is_told(void **state)
{
	struct ckpt_nccl_facts facts;

	(void)state;
	ckpt_nccl_find_facts(&facts);
	assert_true(facts.is_there);
	assert_int_equal(facts.version, 22809);
	assert_int_equal(facts.cuda_major, 12);
	assert_string_equal(facts.text, "2.28.9 for CUDA 12");
	assert_string_equal(facts.path, getenv("CKPT_NCCL_LIB"));
}

static void an_id_is_made(void **state)
{
	struct ckpt_nccl_id id, other;

	(void)state;
	assert_int_equal(ckpt_nccl_make_id(&id, &err), 0);
	assert_int_equal(ckpt_nccl_make_id(&other, &err), 0);
	assert_memory_not_equal(&id, &other, sizeof(id));
	setenv("STUB_NCCL_FAIL", "ncclGetUniqueId:2", 1);
	assert_int_equal(ckpt_nccl_make_id(&id, &err), CKPT_E_SYSTEM);
	assert_true(err_has("ncclGetUniqueId: unhandled system error (run with NCCL_DEBUG=INFO for "
			    "details): the stub was told to fail (NCCL 2.28.9 at "));
	unsetenv("STUB_NCCL_FAIL");
}

static void a_status_says_whose_fault_it_was(void **state)
{
	static const struct {
		unsigned code;
		int status;
	} cases[] = {
		{ 1, CKPT_E_GPU },	   { 2, CKPT_E_SYSTEM },      { 3, CKPT_E_SYSTEM },
		{ 4, CKPT_E_UNSUPPORTED }, { 5, CKPT_E_UNSUPPORTED }, { 6, CKPT_E_PEER },
		{ 99, CKPT_E_SYSTEM },
	};
	const struct ckpt_nccl *nccl;

	(void)state;
	assert_int_equal(ckpt_nccl_get(&nccl, &err), 0);
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(ckpt_nccl_fail(nccl, "ncclBroadcast", cases[i].code, 0, &err),
				 cases[i].status);
}

/* What sites export for their training. */
static void variables_that_defeat_a_broadcast_are_refused(void **state)
{
	static const struct {
		const char *name, *value;
		bool fits;
	} cases[] = {
		{ "NCCL_COMM_BLOCKING", "0", true },
		{ "NCCL_COMM_BLOCKING", "1", false },
		{ "NCCL_ALGO", "Tree", false },
		{ "NCCL_ALGO", "NVLS,NVLSTree", false },
		{ "NCCL_ALGO", "tree,RING", true },
		{ "NCCL_ALGO", "^Tree", true },
		{ "NCCL_ALGO", "^ring,tree", false },
		{ "NCCL_ALGO", "allreduce:tree", true },
		{ "NCCL_ALGO", "allreduce:tree;Broadcast:nvls", false },
		{ "NCCL_ALGO", "allreduce:tree;broadcast:ring", true },
		{ "NCCL_ALGO", "", true },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ckpt_nccl_comm *comm = NULL;
		struct ckpt_nccl_id id;
		struct ckpt_cuda *cuda;
		int rc;

		setenv(cases[i].name, cases[i].value, 1);
		err = (struct ckpt_error)CKPT_ERROR_INIT;
		rc = ckpt_nccl_check_variables(&err);
		if (rc != (cases[i].fits ? 0 : CKPT_E_UNSUPPORTED))
			fail_msg("%s=%s: %d", cases[i].name, cases[i].value, rc);
		assert_true(rc == 0 || err_has(cases[i].name));
		assert_int_equal(ckpt_cuda_open(0, &cuda, NULL), 0);
		assert_int_equal(ckpt_nccl_make_id(&id, NULL), 0);
		assert_int_equal(ckpt_nccl_comm_open(cuda, &id, 0, 1,
						     ckpt_now_nsec() + 20000000000u, NULL, &comm,
						     &err),
				 rc);
		ckpt_nccl_comm_close(comm);
		ckpt_cuda_close(cuda);
		unsetenv(cases[i].name);
	}
	assert_int_equal(doubles_cuda_live(), 0);
}

static void constants_of_other_files_are_not_searched(void **state)
{
	char text[20], *folder = unit_folder_new(), *path = unit_path(folder, "file");
	uint8_t bytes[200] = "\177ELF\2\1\1";

	(void)state;
	assert_false(ckpt_elf_find_text("/nowhere", "x", text, sizeof(text)));
	for (size_t len = 0; len <= sizeof(bytes); len += 8) {
		unit_write_file(path, bytes, len);
		assert_false(ckpt_elf_find_text(path, "x", text, sizeof(text)));
	}
	memset(bytes + 16, 0xff, sizeof(bytes) - 16); /* tables that lie far outside */
	unit_write_file(path, bytes, sizeof(bytes));
	assert_false(ckpt_elf_find_text(path, "x", text, sizeof(text)));
	free(path);
	unit_folder_remove(folder);
}

/* ---- the real library, where it is found ---- */

static char *real; /* its path */

/* The next of those that CKPT_REAL_NCCL names, ";" between them, or the toolkit's. False: there is none. */
static bool next_real_library(void)
{
	static const char *const places[] = { "/usr/local/cuda/lib64/libnccl.so.2",
					      "/usr/local/cuda/lib/libnccl.so.2", NULL };
	static char *names, *rest;

	if (!names) {
		const char *found = getenv("CKPT_REAL_NCCL");

		found = found ? found : toolkit_file(places);
		names = rest = strdup(found ? found : "");
	}
	real = strtok_r(NULL, ";", &rest);
	return real != NULL;
}

static bool real_tells_versions_and_makes_ids(void)
{
	struct ckpt_nccl_facts facts;
	struct ckpt_nccl_id id;

	setenv("CKPT_NCCL_LIB", real, 1);
	ckpt_nccl_find_facts(&facts);
	return facts.is_there && facts.version >= 21400 && facts.cuda_major >= 11 &&
	       facts.cuda_major < 20 && ckpt_nccl_make_id(&id, &err) == 0 && id.bytes[0];
}

/* It looks for a driver of its own, and finds none where the double is the only one. */
static bool real_says_what_is_missing(void)
{
	uint64_t deadline = ckpt_now_nsec() + 20000000000u;
	struct ckpt_nccl_comm *comm;
	struct ckpt_cuda *cuda;
	struct ckpt_nccl_id id;
	bool fits;

	setenv("CKPT_NCCL_LIB", real, 1);
	setenv("FAKE_CUDA_VERSION", "99000", 1);
	fits = ckpt_cuda_open(0, &cuda, &err) == 0 && ckpt_nccl_make_id(&id, &err) == 0 &&
	       ckpt_nccl_comm_open(cuda, &id, 0, 1, deadline, NULL, &comm, &err) == CKPT_E_GPU;
	return fits && err_has("ncclCommInitRankConfig: unhandled cuda error") &&
	       err_has(", driver for CUDA 99.0)") && err_has(real);
}

static void the_real_library_does_what_it_can_without_a_gpu(void **state)
{
	unsigned count = 0;

	(void)state;
	for (; next_real_library(); count++) {
		print_message("%s\n", real);
		assert_true(doubles_in_child(real_tells_versions_and_makes_ids));
		if (access("/dev/nvidiactl", F_OK) != 0)
			assert_true(doubles_in_child(real_says_what_is_missing));
	}
	if (!count)
		skip();
}

/* ---- what does not fit ---- */

static bool newer_than_the_driver(void)
{
	struct ckpt_nccl_id id = { { 0 } };
	struct ckpt_nccl_comm *comm;
	struct ckpt_cuda *cuda;

	doubles_use("fake_cuda.so", "stub_nccl_cuda13.so");
	return ckpt_cuda_open(0, &cuda, &err) == 0 &&
	       ckpt_nccl_comm_open(cuda, &id, 0, 1, 0, NULL, &comm, &err) == CKPT_E_UNSUPPORTED &&
	       err_has("NCCL 2.28.9 at ") &&
	       err_has(" was built for CUDA 13, the driver supports 12.4: set CKPT_NCCL_LIB to a "
		       "build for CUDA 12");
}

static void a_build_for_a_newer_driver_is_refused(void **state)
{
	(void)state;
	assert_true(doubles_in_child(newer_than_the_driver));
}

/* ---- ends, which the double complains of if they are not as NCCL wants them ---- */

static struct ckpt_nccl_comm *open_comm(void)
{
	const struct ckpt_nccl *nccl;
	struct ckpt_nccl_comm *comm;
	struct ckpt_nccl_id id;
	struct ckpt_cuda *cuda;
	bool is_open;

	setenv("FAKE_CUDA_STRICT", "1", 1);
	doubles_use("fake_cuda.so", "stub_nccl.so");
	is_open = ckpt_cuda_open(0, &cuda, &err) == 0 && ckpt_nccl_get(&nccl, &err) == 0 && nccl->ncclGetUniqueId(&id) == 0 &&
		  ckpt_nccl_comm_open(cuda, &id, 0, 1, ckpt_now_nsec() + 5000000000u, NULL, &comm, &err) == 0;
	ckpt_cuda_close(cuda);
	return is_open ? comm : NULL;
}

static bool a_failed_one_is_aborted(void)
{
	struct ckpt_nccl_comm *comm = open_comm();
	bool failed;

	if (!comm)
		return false;
	setenv("STUB_NCCL_FAIL", "ncclCommGetAsyncError:6:1", 1);
	failed = ckpt_nccl_comm_ready(comm, &err) < 0;
	unsetenv("STUB_NCCL_FAIL");
	ckpt_nccl_comm_close(comm);
	return failed && doubles_nccl_live() == 0;
}

static void a_communicator_that_failed_is_not_finalized(void **state)
{
	(void)state;
	assert_true(doubles_in_child(a_failed_one_is_aborted));
}

static char *meeting; /* "file:DIR" */

struct rank {
	uint32_t number;
	int rc;
	struct ckpt_error err;
};

static void *broadcast_as(void *ctx)
{
	static const char *const sources[] = { "/proc/self/exe" };
	struct ckpt_broadcast_options o = CKPT_BROADCAST_OPTIONS_INIT;
	struct ckpt_broadcast_report report = CKPT_BROADCAST_REPORT_INIT;
	struct rank *r = ctx;

	o.transport = "nccl";
	o.rendezvous = meeting;
	o.job_key = "1";
	o.flags = CKPT_BROADCAST_NO_TARGET;
	o.gpu = o.rank = o.local_rank = r->number;
	o.world_size = 2;
	o.init_timeout_s = 20;
	r->rc = ckpt_broadcast(sources, 1, "/nowhere", &o, &report, &r->err);
	return NULL;
}

/* The first vote, by which all ranks know that NCCL has opened, fails on the rank that asks last; the other one has asked. */
static bool an_unanswered_one_is_aborted(void)
{
	struct rank ranks[2] = { { .number = 0 }, { .number = 1 } };
	pthread_t other;

	setenv("FAKE_CUDA_STRICT", "1", 1);
	setenv("FAKE_CUDA_GPUS", "2", 1);
	setenv("STUB_NCCL_FAIL", "ncclAllReduce:2:2", 1);
	doubles_use("fake_cuda.so", "stub_nccl.so");
	if (pthread_create(&other, NULL, broadcast_as, &ranks[1]))
		return false;
	broadcast_as(&ranks[0]);
	pthread_join(other, NULL);
	err = ranks[0].err;
	if (ranks[0].rc == CKPT_E_SYSTEM && ranks[1].rc == CKPT_E_SYSTEM && doubles_nccl_live() == 0)
		return err_has("ncclAllReduce: unhandled system error");
	fprintf(stderr, "%d %d, %u left: %s\n", ranks[0].rc, ranks[1].rc, doubles_nccl_live(), unit_text(&err));
	return false;
}

static void a_communicator_with_work_is_not_finalized(void **state)
{
	char *folder = unit_folder_new();

	(void)state;
	assert_true(asprintf(&meeting, "file:%s", folder) > 0);
	assert_true(doubles_in_child(an_unanswered_one_is_aborted));
	free(meeting);
	unit_folder_remove(folder);
}

UNIT_SUITE(test_nccl)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_library_that_is_not_there_is_named),
		cmocka_unit_test(one_that_is_too_old_is_named),
		cmocka_unit_test(environments_of_python_are_looked_at),
		cmocka_unit_test(the_environment_is_left_alone),
		cmocka_unit_test(a_build_for_a_newer_driver_is_refused),
		cmocka_unit_test(the_real_library_does_what_it_can_without_a_gpu),
		cmocka_unit_test(an_old_one_is_taken_with_a_warning),
		cmocka_unit_test(what_there_is_is_told),
		cmocka_unit_test(an_id_is_made),
		cmocka_unit_test(a_status_says_whose_fault_it_was),
		cmocka_unit_test(variables_that_defeat_a_broadcast_are_refused),
		cmocka_unit_test(constants_of_other_files_are_not_searched),
		cmocka_unit_test(a_communicator_that_failed_is_not_finalized),
		cmocka_unit_test(a_communicator_with_work_is_not_finalized),
	};

	doubles_use("fake_cuda.so", NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
