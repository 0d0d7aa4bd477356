/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unit_tests SUITE [PATTERN]   run a suite, or those of its tests whose names match PATTERN ('*' and '?')
 * unit_tests                   list the suites
 *
 * A suite is what a file test_*.c here holds (UNIT_SUITE in unit.h). All of them are one program, since each
 * program links the whole library once more; CTest runs every suite in a process of its own.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	for (size_t i = 0; i < COUNT(suites); i++) {
		if (argc < 2)
			puts(suites[i].name);
		else if (strcmp(suites[i].name, argv[1]) == 0) {
			if (argc == 3)
				cmocka_set_test_filter(argv[2]);
			return suites[i].run(argc - 1, argv + 1);
		}
	}
	if (argc < 2)
		return 0;
	fprintf(stderr, "unit_tests: there is no suite '%s'\n", argv[1]);
	return 64;
}
