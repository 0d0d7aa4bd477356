/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gpu/numa.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *folder;

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unit_folder_remove(folder);
	return 0;
}

static void device(const char *bus, const char *says)
{
	char *path = unit_path(folder, bus), *file;

	mkdir(path, 0777);
	file = unit_path(path, "numa_node");
	unit_write_file(file, says, strlen(says));
	free(file);
	free(path);
}

static void the_node_of_a_device_is_what_the_kernel_says(void **state)
{
	char longer[5000];

	(void)state;
	device("0000:3b:00.0", "1\n");
	device("0000:af:00.0", "0\n");
	device("0000:d8:00.0", "-1\n");
	device("0000:d9:00.0", "none\n");
	device("0000:da:00.0", "99999\n");
	device("0000:db:00.0", "");
	assert_int_equal(ckpt_numa_node_of(folder, "0000:3B:00.0"), 1); /* as the driver writes it */
	assert_int_equal(ckpt_numa_node_of(folder, "0000:3b:00.0"), 1);
	assert_int_equal(ckpt_numa_node_of(folder, "0000:AF:00.0"), 0);
	assert_int_equal(ckpt_numa_node_of(folder, "0000:D8:00.0"), -1);
	assert_int_equal(ckpt_numa_node_of(folder, "0000:d9:00.0"), -1);
	assert_int_equal(ckpt_numa_node_of(folder, "0000:da:00.0"), -1);
	assert_int_equal(ckpt_numa_node_of(folder, "0000:db:00.0"), -1);
	assert_int_equal(ckpt_numa_node_of(folder, "0000:00:00.0"), -1);
	assert_int_equal(ckpt_numa_node_of(folder, ""), -1);
	assert_int_equal(ckpt_numa_node_of(folder, "../0000:3b:00.0"), -1);
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(ckpt_numa_node_of(folder, longer), -1);
	assert_int_equal(ckpt_numa_node_of(longer, "0000:3b:00.0"), -1);
	assert_int_equal(ckpt_numa_node_of(NULL, "0000:zz:00.0"), -1);
}

/* Of the page at MEMORY: its policy, or its node. */
static int asked(void *memory, unsigned long flags)
{
	int mode = -1;

	return syscall(SYS_get_mempolicy, &mode, NULL, 0, memory, flags | MPOL_F_ADDR) == 0 ? mode : -1;
}

static void memory_comes_from_the_node_and_is_ordinary_afterwards(void **state)
{
	enum { LEN = 1 << 20 };
	uint8_t *memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	ckpt_numa_prefer(memory, LEN, 0);
	if (asked(memory, 0) != MPOL_PREFERRED) { /* a kernel, or a container, without these calls */
		munmap(memory, LEN);
		skip();
	}
	memset(memory, 1, LEN);
	assert_int_equal(asked(memory + LEN - 1, MPOL_F_NODE), 0);
	ckpt_numa_prefer(memory, LEN, -1);
	assert_int_equal(asked(memory, 0), MPOL_DEFAULT);
	ckpt_numa_prefer(memory, LEN, 1023); /* that there is not: nothing changes */
	memset(memory, 2, LEN);
	assert_int_equal(asked(memory, 0), MPOL_DEFAULT);
	munmap(memory, LEN);
}

UNIT_SUITE(test_numa)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_node_of_a_device_is_what_the_kernel_says),
		cmocka_unit_test(memory_comes_from_the_node_and_is_ordinary_afterwards),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
