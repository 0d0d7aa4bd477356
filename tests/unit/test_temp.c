/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/undo.h"
#include "io/folder.h"
#include "io/temp.h"

#include <ckpt/ckpt.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Hidden names that files and folders have until they are whole: one that a killed process left, or
 * that another has just taken, is in nobody's way. For that all of them are made to be known before.
 */

static char *base, *out;
static struct ckpt_error err;
static bool is_known, is_broken, no_proc;

/* In place of the system's. */
ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
	if (is_broken) {
		errno = EAGAIN;
		return -1;
	}
	if (!is_known)
		return syscall(SYS_getrandom, buf, len, flags);
	memset(buf, 0, len);
	return (ssize_t)len;
}

/* Without /proc a file has a hidden name from the beginning, as where the file system has no O_TMPFILE. */
int access(const char *path, int mode)
{
	if (no_proc && !strcmp(path, "/proc/self/fd")) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

static int setup(void **state)
{
	(void)state;
	base = unit_folder_new();
	out = unit_path(base, "out");
	is_known = true;
	return 0;
}

static int teardown(void **state)
{
	char command[4200];

	(void)state;
	is_known = is_broken = no_proc = false;
	snprintf(command, sizeof(command), "rm -rf '%s'", base);
	assert_int_equal(system(command), 0);
	free(base);
	free(out);
	return 0;
}

static void make_file(const char *path)
{
	unit_write_file(path, "left", 4);
}

static void make_folder(const char *path)
{
	char *file = unit_path(path, "file");

	assert_int_equal(mkdir(path, 0700), 0);
	make_file(file);
	free(file);
}

/* The next COUNT names are taken. */
static void leave(void (*make)(const char *path), unsigned count)
{
	char *name = ckpt_temp_name(base, out);
	unsigned last;

	assert_int_equal(sscanf(strrchr(name, '/'), "/.out.%8x.ckpt-tmp", &last), 1);
	for (unsigned i = 1; i <= count; i++) {
		snprintf(strrchr(name, '/'), 40, "/.out.%08x.ckpt-tmp", last + i);
		make(name);
	}
	free(name);
}

static int save_file(const char *text, unsigned flags)
{
	struct ckpt_sink *sink;
	int rc = ckpt_sink_open(out, 0, 0, flags | CKPT_SINK_NO_SYNC, 0600, &sink, &err);

	if (rc < 0)
		return rc;
	rc = ckpt_sink_write(sink, 0, text, strlen(text), &err);
	if (rc == 0)
		return ckpt_sink_commit(sink, &err);
	ckpt_sink_discard(sink);
	return rc;
}

static void check_file(const char *text)
{
	struct ckpt_buf found = unit_read_file(out);

	assert_int_equal(found.len, strlen(text));
	assert_memory_equal(found.data, text, found.len);
	ckpt_buf_clear(&found);
}

static void files_get_past_what_was_left(void **state)
{
	(void)state;
	make_file(out);
	for (int i = 0; i < 2; i++) {
		no_proc = i == 1;
		leave(i ? make_folder : make_file, 5);
		assert_int_equal(save_file(i ? "second" : "first", CKPT_SINK_REPLACE), 0);
		check_file(i ? "second" : "first");
		assert_int_equal(unit_folder_count(base), 1 + 5 * (i + 1)); /* what is left stays as it is */
	}
	assert_int_equal(unlink(out), 0);
	leave(make_file, CKPT_TEMP_TRIES);
	assert_int_equal(save_file("third", 0), CKPT_E_IO);
	assert_int_equal(err.sys_errno, EEXIST);
	assert_int_equal(save_file("third", 0), 0);
	check_file("third");
}

static bool is_own(const void *ctx, const char *path, const char *name)
{
	(void)ctx;
	(void)path;
	return !strcmp(name, "file");
}

static int save_folder(void)
{
	static const struct ckpt_folder_own own = { is_own, NULL };
	struct ckpt_folder *folder;
	int rc = ckpt_folder_open(out, &own, 0, CKPT_FOLDER_REPLACE | CKPT_FOLDER_NO_SYNC, 0700, &folder,
				  &err);
	char *file;

	if (rc < 0)
		return rc;
	file = unit_path(ckpt_folder_temp_path(folder), "file");
	make_file(file);
	free(file);
	return ckpt_folder_commit(folder, &err);
}

static void folders_get_past_what_was_left(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) { /* a new one, and one that is replaced */
		leave(i ? make_folder : make_file, 5);
		assert_int_equal(save_folder(), 0);
		assert_int_equal(unit_folder_count(base), 1 + 5 * (i + 1));
		assert_int_equal(unit_folder_count(out), 1);
	}
}

static void a_folder_that_is_taken_back_gets_past_what_was_left(void **state)
{
	struct ckpt_manifest manifest = { .is_directory = true };
	struct stat made;
	struct ckpt_undo undo = { &manifest, &made };

	(void)state;
	make_folder(out);
	assert_int_equal(stat(out, &made), 0);
	leave(make_folder, 5);
	assert_int_equal(ckpt_undo_names(&undo, out, &err), 0);
	assert_int_equal(unit_folder_count(base), 5);
	make_folder(out);
	assert_int_equal(stat(out, &made), 0);
	leave(make_folder, CKPT_TEMP_TRIES);
	assert_int_equal(ckpt_undo_names(&undo, out, &err), CKPT_E_IO);
	assert_int_equal(err.sys_errno, EEXIST);
}

/* A child draws the name that its parent has drawn, which holds it; both come to an end, the later one has it. */
static void processes_that_draw_the_same_name_are_not_in_each_others_way(void **state)
{
	struct ckpt_sink *sink = NULL;
	int opened[2], status;
	char byte = 0;
	pid_t child;

	(void)state;
	make_file(out);
	no_proc = true;
	assert_int_equal(pipe(opened), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool fine = read(opened[0], &byte, 1) == 1 && save_file("child", CKPT_SINK_REPLACE) == 0;

		_exit(fine ? 0 : 1);
	}
	assert_int_equal(ckpt_sink_open(out, 0, 0, CKPT_SINK_REPLACE, 0600, &sink, &err), 0);
	assert_int_equal(ckpt_sink_write(sink, 0, "parent", 6, &err), 0);
	assert_int_equal(write(opened[1], &byte, 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	check_file("child");
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	check_file("parent");
	assert_int_equal(unit_folder_count(base), 1);
	close(opened[0]);
	close(opened[1]);
}

/* At boot, where the kernel has no random numbers yet. */
static void names_differ_without_random_numbers(void **state)
{
	char *a, *b;

	(void)state;
	is_broken = true;
	a = ckpt_temp_name(base, out);
	b = ckpt_temp_name(base, out);
	assert_string_not_equal(a, b);
	free(a);
	free(b);
	assert_int_equal(save_folder(), 0);
}

/* A process that writes OUT, as a folder or as a file that has a name from the beginning. */
static pid_t start_writer(bool is_folder)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct ckpt_folder *f;
		struct ckpt_sink *sink;
		int rc;

		no_proc = true;
		if (is_folder)
			rc = ckpt_folder_open(out, NULL, 0, CKPT_FOLDER_NO_SYNC, 0700, &f, NULL);
		else
			rc = ckpt_sink_open(out, 0, 0, CKPT_SINK_NO_SYNC, 0600, &sink, NULL);
		if (rc == 0 && write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void what_a_killed_process_left_is_removed_and_nothing_else(void **state)
{
	char *other = unit_path(base, ".other.00000001.ckpt-tmp"), *plain = unit_path(base, ".out.0000001.ckpt-tmp");
	char *unmarked = unit_path(base, ".out.00000099.ckpt-tmp"), *empty = unit_path(base, ".out.00000098.ckpt-tmp");

	(void)state;
	is_known = false;
	make_folder(unmarked); /* may be an old folder that was exchanged for the new one */
	make_file(other);
	make_file(plain);
	for (unsigned i = 0; i < 4; i++) {
		pid_t lives = start_writer(i & 1), dies = start_writer(i & 2);
		unsigned there = unit_folder_count(base);

		ckpt_temp_remove_left_over(base, out);
		assert_int_equal(unit_folder_count(base), there);
		kill(dies, SIGKILL);
		waitpid(dies, NULL, 0);
		ckpt_temp_remove_left_over(base, "elsewhere/other2");
		assert_int_equal(unit_folder_count(base), there);
		ckpt_temp_remove_left_over(base, out);
		assert_int_equal(unit_folder_count(base), there - 1);
		kill(lives, SIGKILL);
		waitpid(lives, NULL, 0);
		ckpt_temp_remove_left_over(base, out);
		assert_int_equal(unit_folder_count(base), 3);
	}
	/* of a process that was killed before it had marked it */
	assert_int_equal(mkdir(empty, 0700), 0);
	ckpt_temp_each_left_over(base, true, NULL, NULL);
	assert_true(unit_exists(empty));
	ckpt_temp_remove_left_over(base, out);
	assert_false(unit_exists(empty));
	free(other);
	free(plain);
	free(unmarked);
	free(empty);
}

/* Its mark is no part of what is written. */
static void a_folder_that_gets_its_name_has_no_mark(void **state)
{
	struct ckpt_folder *f;

	(void)state;
	assert_int_equal(ckpt_folder_open(out, NULL, 0, CKPT_FOLDER_NO_SYNC, 0700, &f, &err), 0);
	assert_int_equal(unit_folder_count(ckpt_folder_temp_path(f)), 1);
	assert_int_equal(ckpt_folder_commit(f, &err), 0);
	assert_int_equal(unit_folder_count(out), 0);
}

UNIT_SUITE(test_temp)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(files_get_past_what_was_left),
		TEST(folders_get_past_what_was_left),
		TEST(a_folder_that_is_taken_back_gets_past_what_was_left),
		TEST(processes_that_draw_the_same_name_are_not_in_each_others_way),
		TEST(names_differ_without_random_numbers),
		TEST(what_a_killed_process_left_is_removed_and_nothing_else),
		TEST(a_folder_that_gets_its_name_has_no_mark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
