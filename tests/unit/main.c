/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unit_tests SUITE [PATTERN]   run a suite, or those of its tests whose names match PATTERN ('*' and '?')
 * unit_tests                   list the suites
 *
 * A suite is what a file test_*.c here holds (UNIT_SUITE in unit.h). All of them are one program, since each
 * program links the whole library once more; CTest runs every suite in a process of its own.
 */
#include "unit.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SUITE(name) int name(int argc, char **argv);
#include "unit_suites.h" /* made by CMake: a SUITE() for every file */
#undef SUITE

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} suites[] = {
#define SUITE(name) { #name, name },
#include "unit_suites.h"
#undef SUITE
};

/* A test that ends the program must not pass for one that came to its end. */
static bool at_end;
static pid_t self;

static void check_end(void)
{
	if (at_end || getpid() != self) /* a child that a test made */
		return;
	fprintf(stderr, "unit_tests: a test ended the program\n");
	_exit(1);
}

/* Where this program is, the doubles are, and the source of the build around it: for who runs it by hand. */
static void set_folders(void)
{
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 32);

	if (len < 0)
		return;
	path[len] = '\0';
	strcpy(strrchr(path, '/'), "/doubles");
	setenv("CKPT_DOUBLES", path, 0);
	setenv("CKPT_SOURCE_DIR", UNIT_SOURCE_DIR, 0);
}

int main(int argc, char **argv)
{
	int rc;

	if (argc > 3 && !strncmp(argv[1], "test_", 5)) {
		fprintf(stderr, "usage: unit_tests [SUITE [PATTERN]]\n");
		return 64;
	}
	set_folders();
	/* as programs do that draw windows; tests/locale/run.py */
	if (getenv("CKPT_TEST_LOCALE") &&
	    (!setlocale(LC_ALL, "") || strcmp(localeconv()->decimal_point, ",") != 0)) {
		fprintf(stderr, "unit_tests: the locale has no comma\n");
		return 1;
	}
	for (size_t i = 0; i < COUNT(suites); i++) {
		if (argc < 2)
			puts(suites[i].name);
		else if (strcmp(suites[i].name, argv[1]) == 0) {
			if (argc == 3)
				cmocka_set_test_filter(argv[2]);
			self = getpid();
			atexit(check_end);
			rc = suites[i].run(argc - 1, argv + 1);
			at_end = true;
			return rc;
		}
	}
	if (argc < 2)
		return 0;
	fprintf(stderr, "unit_tests: there is no suite '%s'\n", argv[1]);
	return 64;
}
