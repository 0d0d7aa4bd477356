/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a --json document, and the values in it. Documents are written piece by piece,
 * never held as one tree; jansson formats the pieces.
 *
 * What must stay true:
 * - An existing file is never overwritten, and a document that is not whole is removed. Pipes,
 *   devices and descriptors of the shell are written to as they are.
 * - Whoever may not read the inputs may not read the new file: json_limit_mode() runs before
 *   json_open().
 * - No call of jansson fails for want of memory: json_begin() makes its malloc() end the command.
 *   Members would be lost otherwise, and nobody checks each json_object_set_new().
 * - A name is bytes. It goes through json_set_name(), for json_string() gives NULL for what is
 *   not UTF-8.
 */
#include "json.h"

#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *created; /* the file of json_open(), if it was not there before */

static unsigned mode = 0666; /* of that file */

void json_limit_mode(int argc, char *const *argv)
{
	struct stat st;

	for (int i = 1; i < argc; i++) {
		const char *inner = strstr(argv[i], "::");
		char *path = inner ? strndup(argv[i], (size_t)(inner - argv[i])) : strdup(argv[i]);

		if (path && stat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
			mode &= S_ISDIR(st.st_mode) ? (st.st_mode & 0111) * 6 : st.st_mode;
		free(path);
	}
}

/* The number in "/dev/fd/3", or -1. What the shell has opened is meant to be written to. */
static int inherited_fd(const char *target)
{
	char *end;
	long fd;

	if (!strcmp(target, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(target, "/dev/stderr"))
		return STDERR_FILENO;
	if (strncmp(target, "/dev/fd/", 8) || target[8] < '0' || target[8] > '9')
		return -1;
	fd = strtol(target + 8, &end, 10);
	return *end || fd > INT_MAX ? -1 : (int)fd;
}

/* Never touch an existing file; pipes and devices may be written to. */
static int open_target(const char *target)
{
	struct stat st;
	int fd = inherited_fd(target);

	if (fd >= 0)
		return dup(fd);
	fd = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd >= 0)
		created = target;
	if (fd >= 0 || errno != EEXIST || stat(target, &st) < 0)
		return fd;
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		errno = S_ISDIR(st.st_mode) ? EISDIR : EEXIST;
		return -1;
	}
	return open(target, O_WRONLY | O_CLOEXEC);
}

FILE *json_open(const char *target)
{
	FILE *out = NULL;
	int fd;

	if (!target || !*target)
		return stdout;
	fd = open_target(target);
	if (fd >= 0)
		out = fdopen(fd, "w");
	if (out)
		return out;
	complain("%s: cannot write JSON to it: %s", target,
		 errno == EEXIST ? "it exists already" : errno_text(errno));
	if (fd >= 0)
		close(fd);
	if (created)
		unlink(created);
	return NULL;
}

void hint_json(const char *json, const char *word)
{
	if (json && !*json && ends_with(word, ".json"))
		hint("--json=%s writes to that file", word);
}

int json_close(FILE *out, bool whole)
{
	bool bad;

	if (out == stdout)
		return finish_output(EXIT_FINE);
	bad = ferror(out);
	if ((fclose(out) != 0 || bad) && whole) {
		complain("cannot write the JSON file: %s", errno_text(errno));
		whole = false;
	}
	if (!whole && created)
		unlink(created);
	return whole ? EXIT_FINE : EXIT_ERROR;
}

/*
 * jansson leaves DEL as it is, for JSON allows it; but a terminal may act on it. It can only be
 * inside a string.
 */
static int write_ascii(const char *text, size_t len, void *out)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] == 0x7f)
			fputs("\\u007f", out);
		else
			fputc(text[i], out);
	return ferror(out) ? -1 : 0;
}

static void put(FILE *out, json_t *value, size_t flag)
{
	json_dump_callback(value, write_ascii, out, JSON_COMPACT | JSON_ENSURE_ASCII | flag);
	json_decref(value);
}

void json_put(FILE *out, json_t *value)
{
	put(out, value, JSON_ENCODE_ANY);
}

void json_put_members(FILE *out, json_t *object)
{
	put(out, object, JSON_EMBED);
}

json_t *json_u64(uint64_t v)
{
	char text[24];

	if (v <= INT64_MAX)
		return json_integer((json_int_t)v);
	snprintf(text, sizeof(text), "%" PRIu64, v);
	return json_string(text);
}

json_t *json_dims(const uint64_t *dims, uint32_t count)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(array, json_u64(dims[i]));
	return array;
}

/* Length of the UTF-8 sequence at S, or 0: jansson itself is the judge. */
static size_t valid_prefix(const char *s, size_t len)
{
	for (size_t n = 1; n <= 4 && n <= len; n++) {
		json_t *probe = json_stringn(s, n);

		if (probe) {
			json_decref(probe);
			return n;
		}
	}
	return 0;
}

void no_memory(void)
{
	complain("out of memory");
	exit(EXIT_ERROR);
}

static void *must_malloc(size_t size)
{
	void *memory = malloc(size);

	if (!memory)
		no_memory();
	return memory;
}

void json_begin(void)
{
	json_set_alloc_funcs(must_malloc, free);
}

void json_set_name(json_t *object, const char *key, const char *name)
{
	json_t *plain = json_string(name);
	size_t len = strlen(name), used = 0;
	char *text, *hex, hex_key[64];

	if (plain) {
		json_object_set_new(object, key, plain);
		return;
	}
	text = malloc(3 * len + 1);
	hex = malloc(2 * len + 1);
	if (!text || !hex)
		no_memory();
	for (size_t i = 0; i < len;) {
		size_t n = valid_prefix(name + i, len - i);

		memcpy(text + used, n ? name + i : "\xEF\xBF\xBD", n ? n : 3);
		used += n ? n : 3;
		i += n ? n : 1;
	}
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)name[i]);
	snprintf(hex_key, sizeof(hex_key), "%s_hex", key);
	json_object_set_new(object, key, json_stringn(text, used));
	json_object_set_new(object, hex_key, json_string(hex));
	free(text);
	free(hex);
}
