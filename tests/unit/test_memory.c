/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "job/memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A proc and a sys of our own, as Linux shows them. */
static char *root;

static void put(const char *path, const char *text)
{
	char *whole = unit_path(root, path);

	for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(whole, 0700);
		*slash = '/';
	}
	unit_write_file(whole, text, strlen(text));
	free(whole);
}

static const char v2_mount[] = "31 23 0:28 / /proc rw - proc proc rw\n"
			       "35 25 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
static const char v1_mount[] =
	"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	"35 31 0:32 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

static int setup(void **state)
{
	(void)state;
	root = unit_folder_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unit_folder_remove(root);
	return 0;
}

static void the_tightest_of_the_groups_around_counts(void **state)
{
	struct ckpt_memory m;

	(void)state;
	put("proc/self/cgroup", "0::/job/step\n");
	put("proc/self/mountinfo", v2_mount);
	put("sys/fs/cgroup/job/step/memory.max", "max\n");
	put("sys/fs/cgroup/job/step/memory.current", "100\n");
	assert_false(ckpt_memory_find(root, &m));
	put("sys/fs/cgroup/job/memory.max", "1000\n");
	put("sys/fs/cgroup/job/memory.current", "700\n");
	assert_true(ckpt_memory_find(root, &m));
	assert_int_equal(m.left, 300);
	assert_non_null(strstr(m.file, "/sys/fs/cgroup/job/memory.max"));
	put("sys/fs/cgroup/job/step/memory.max", "150\n");
	assert_true(ckpt_memory_find(root, &m));
	assert_int_equal(m.left, 50);
	assert_non_null(strstr(m.file, "/sys/fs/cgroup/job/step/memory.max"));
	put("sys/fs/cgroup/job/step/memory.max", "60\n");
	assert_true(ckpt_memory_find(root, &m));
	assert_int_equal(m.left, 0); /* over it already */
}

/* Files in the page cache are let go of before anybody is killed; what lies in a tmpfs is not. */
static void what_the_kernel_can_drop_is_left(void **state)
{
	struct ckpt_memory m;

	(void)state;
	put("proc/self/cgroup", "0::/\n");
	put("proc/self/mountinfo", v2_mount);
	put("sys/fs/cgroup/memory.max", "1000\n");
	put("sys/fs/cgroup/memory.current", "990\n");
	put("sys/fs/cgroup/memory.stat",
	    "anon 90\nfile 900\nshmem 200\ninactive_anon 5\ninactive_file 400\nactive_file 300\n");
	assert_true(ckpt_memory_find(root, &m));
	assert_int_equal(m.left, 710);
}

/* In a container without a namespace of its own: the mount shows only what is below /docker/7. */
static void version_1_is_known(void **state)
{
	struct ckpt_memory m;

	(void)state;
	put("proc/self/cgroup", "7:blkio:/\n4:memory:/docker/7/job\n1:name=systemd:/\n0::/\n");
	put("proc/self/mountinfo", v1_mount);
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
	assert_false(ckpt_memory_find(root, &m));
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000\n");
	put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000\n");
	put("sys/fs/cgroup/memory/job/memory.stat",
	    "inactive_file 77\ntotal_inactive_file 100\ntotal_active_file 10\n");
	assert_true(ckpt_memory_find(root, &m));
	assert_int_equal(m.left, 4110);
	assert_non_null(strstr(m.file, "/memory/job/memory.limit_in_bytes"));
}

/* The mount shows what is below /job; this process has been moved to another group, /jobs. */
static void a_group_beside_the_one_on_top_is_not_below_it(void **state)
{
	struct ckpt_memory m;

	(void)state;
	put("proc/self/cgroup", "0::/jobs/x\n");
	put("proc/self/mountinfo",
	    "35 25 0:30 /job /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
	put("sys/fs/cgroup/memory.max", "1000\n");
	put("sys/fs/cgroup/memory.current", "400\n");
	put("sys/fs/cgroups/x/memory.max", "5\n");
	put("sys/fs/cgroups/x/memory.current", "5\n");
	assert_true(ckpt_memory_find(root, &m));
	assert_int_equal(m.left, 600);
	assert_non_null(strstr(m.file, "/sys/fs/cgroup/memory.max"));
	put("proc/self/cgroup", "0::/job\n");
	assert_true(ckpt_memory_find(root, &m));
	assert_int_equal(m.left, 600);
}

static void a_machine_without_groups_has_no_limit(void **state)
{
	struct ckpt_memory m;

	(void)state;
	assert_false(ckpt_memory_find(root, &m));
	put("proc/self/cgroup", "nonsense\n0\n");
	put("proc/self/mountinfo", "nonsense - \n - cgroup2 x y\n");
	assert_false(ckpt_memory_find(root, &m));
}

#define WITH_ROOT(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

UNIT_SUITE(test_memory)
{
	const struct CMUnitTest tests[] = {
		WITH_ROOT(the_tightest_of_the_groups_around_counts),
		WITH_ROOT(what_the_kernel_can_drop_is_left),
		WITH_ROOT(version_1_is_known),
		WITH_ROOT(a_group_beside_the_one_on_top_is_not_below_it),
		WITH_ROOT(a_machine_without_groups_has_no_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
