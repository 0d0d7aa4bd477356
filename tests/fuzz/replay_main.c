/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_replay TARGET PATH...: feeds a target what PATH names, where there is no fuzzer to do it: a file, every file of a
 * folder, every record of an archive NAME.zip (a packed corpus, read by the library's own reader).
 *
 * All targets are one program, since each program links the whole library once more: CMake gives the entry of each
 * target a name of its own.
 */
#include "fuzz.h"

#include "base/error.h"
#include "zipfmt/index.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TARGET(name) int name##_input(const uint8_t *data, size_t size);
#include "fuzz_targets.h" /* made by CMake: a TARGET() for each */
#undef TARGET

typedef int target_fn(const uint8_t *data, size_t size);

static const struct {
	const char *name;
	target_fn *feed;
} targets[] = {
#define TARGET(name) { #name, name##_input },
#include "fuzz_targets.h"
#undef TARGET
};

enum { MOST_INPUT = 64 << 20 };

static target_fn *target;
static unsigned fed;
static const char *feeding = ""; /* for who has to know on what it crashed */

static void tell(int number)
{
	static const char text[] = "fuzz_replay: it crashed on ";

	if (write(2, text, sizeof(text) - 1) < 0 || write(2, feeding, strlen(feeding)) < 0 ||
	    write(2, "\n", 1) < 0)
		_exit(1);
	signal(number, SIG_DFL);
	raise(number);
}

/* What a sanitizer calls in front of its end; absent without one. */
void __sanitizer_set_death_callback(void (*call)(void)) __attribute__((weak));

static void tell_sanitizer(void)
{
	fprintf(stderr, "fuzz_replay: it happened on %s\n", feeding);
}

static void watch(void)
{
	static const int signals[] = { SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSEGV, SIGBUS, SIGALRM };
	bool sanitized = __sanitizer_set_death_callback;

	if (sanitized)
		__sanitizer_set_death_callback(tell_sanitizer);
	for (size_t i = 0; i < (sanitized ? 3 : sizeof(signals) / sizeof(signals[0])); i++)
		signal(signals[i], tell);
}

/* Takes BYTES, which have no room behind them: a sanitizer sees reads past the end. */
static void feed(const char *name, uint8_t *bytes, size_t size)
{
	feeding = name;
	if (getenv("FUZZ_VERBOSE"))
		fprintf(stderr, "%s\n", name);
	target(bytes, size);
	free(bytes);
	fed++;
}

static void feed_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes;
	struct stat st;

	REQUIRE(file && fstat(fileno(file), &st) == 0);
	bytes = malloc(st.st_size ? (size_t)st.st_size : 1);
	REQUIRE(bytes && fread(bytes, 1, (size_t)st.st_size, file) == (size_t)st.st_size);
	fclose(file);
	feed(path, bytes, (size_t)st.st_size);
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
		feed_file(path);
	}
	closedir(dir);
}

static void feed_archive(const char *path)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_source *source = NULL;
	struct ckpt_zip *zip = NULL;

	if (ckpt_source_open(path, &source, &err) < 0 || ckpt_zip_open(source, &zip, &err) < 0) {
		fprintf(stderr, "fuzz_replay: %s: %s\n", path, err.text);
		exit(1);
	}
	for (uint32_t i = 0; i < zip->count; i++) {
		struct ckpt_zip_entry *entry = &zip->entries[i];
		uint8_t *record, *bytes = malloc(entry->usize ? entry->usize : 1);

		REQUIRE(bytes && ckpt_zip_read(zip, entry, MOST_INPUT, &record, &err) == 0);
		memcpy(bytes, record, entry->usize);
		free(record);
		feed(entry->name, bytes, entry->usize);
	}
	ckpt_zip_close(zip);
	ckpt_source_unref(source);
}

static bool is_archive(const char *path)
{
	size_t len = strlen(path);

	return len > 4 && strcmp(path + len - 4, ".zip") == 0;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(targets) / sizeof(targets[0]); i++)
		if (strcmp(targets[i].name, argv[1]) == 0)
			target = targets[i].feed;
	if (!target) {
		fprintf(stderr, "usage: fuzz_replay TARGET PATH...\n");
		return 64;
	}
	watch();
	for (int i = 2; i < argc; i++) {
		unsigned before = fed;
		struct stat st;

		if (stat(argv[i], &st) < 0) {
			fprintf(stderr, "%s: %s is missing\n", argv[0], argv[i]);
			return 1;
		}
		if (S_ISDIR(st.st_mode))
			feed_folder(argv[i]);
		else if (is_archive(argv[i]))
			feed_archive(argv[i]);
		else
			feed_file(argv[i]);
		if (fed == before) {
			fprintf(stderr, "fuzz_replay: %s holds no input\n", argv[i]);
			return 1;
		}
	}
	printf("%u inputs\n", fed);
	return fed ? 0 : 1;
}
