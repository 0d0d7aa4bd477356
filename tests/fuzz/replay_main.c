/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds files, and every file of folders, to a target, where there is no fuzzer to do it. */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

static unsigned fed;

static void feed(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes;
	struct stat st;

	REQUIRE(file && fstat(fileno(file), &st) == 0);
	/* exactly as large as the file, so that a sanitizer sees reads past the end */
	bytes = malloc(st.st_size ? (size_t)st.st_size : 1);
	REQUIRE(bytes && fread(bytes, 1, (size_t)st.st_size, file) == (size_t)st.st_size);
	fclose(file);
	if (getenv("FUZZ_VERBOSE"))
		fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(bytes, (size_t)st.st_size);
	free(bytes);
	fed++;
}

static void feed_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[4096];

	REQUIRE(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		feed(path);
	}
	closedir(dir);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st) < 0) {
			fprintf(stderr, "%s: %s is missing\n", argv[0], argv[i]);
			return 1;
		}
		if (S_ISDIR(st.st_mode))
			feed_folder(argv[i]);
		else
			feed(argv[i]);
	}
	printf("%u inputs\n", fed);
	return fed ? 0 : 1;
}
