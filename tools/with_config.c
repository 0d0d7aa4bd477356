/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt cast --dequantize --with-config`: what loaders want beside plain weights: config.json without what it says of
 * quantization, and the files of the tokenizer. The rest of config.json stays as it is written, to the letter.
 * Each file appears whole, under its name; none replaces another without -f, and nothing is written to the folder of IN.
 */
#include "with_config.h"

#include "json.h"
#include "command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILE = 256 << 20 };

static const char *const files[] = {
	"config.json",
	"generation_config.json",
	"tokenizer.json",
	"tokenizer.model",
	"tokenizer_config.json",
	"special_tokens_map.json",
	"added_tokens.json",
	"vocab.json",
	"vocab.txt",
	"merges.txt",
	"spiece.model",
	"sentencepiece.bpe.model",
	"chat_template.json",
	"chat_template.jinja",
	"preprocessor_config.json",
	"processor_config.json",
	"LICENSE",
};

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder that PATH is, or that it is in. */
static void folder_of(const char *path, bool is_one, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	if (is_one)
		snprintf(out, PATH_MAX, "%s", path);
	else if (!slash)
		snprintf(out, PATH_MAX, ".");
	else
		snprintf(out, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* The path of file I, in BUF. */
static const char *path_of(const char *folder, size_t i, char buf[PATH_MAX + 40])
{
	snprintf(buf, PATH_MAX + 40, "%s/%s", folder, files[i]);
	return buf;
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int check_config(const char *in, const char *out, bool force)
{
	char from[PATH_MAX], to[PATH_MAX], source[PATH_MAX + 40], target[PATH_MAX + 40];
	char *real_from, *real_to;
	bool same;

	folder_of(in, is_folder(in), from);
	/* OUT becomes a folder where IN is one, unless its name says that it is a file; then it is there, or is made */
	folder_of(out, is_folder(in) && !strrchr(out, '.'), to);
	if (is_folder(out))
		folder_of(out, true, to);
	real_from = realpath(from, NULL);
	real_to = realpath(to, NULL);
	same = real_from && real_to && !strcmp(real_from, real_to);
	if (!same && real_from && !is_folder(out)) { /* it may become a file all the same */
		folder_of(out, false, target);
		free(real_to);
		real_to = realpath(target, NULL);
		same = real_to && !strcmp(real_from, real_to);
	}
	free(real_from);
	free(real_to);
	if (same) {
		complain(
			"%s: is in the folder of IN, whose config.json --with-config would replace",
			out);
		return EXIT_ERROR;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !force; i++)
		if (is_file(path_of(from, i, source)) && is_there(path_of(to, i, target))) {
			complain("%s: exists already", target);
			hint("-f replaces it");
			return EXIT_ERROR;
		}
	return EXIT_FINE;
}

/* ---- config.json without a member ---- */

static size_t skip_blanks(const char *text, size_t at)
{
	while (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')
		at++;
	return at;
}

static size_t skip_text(const char *text, size_t at)
{
	for (at++; text[at] && text[at] != '"'; at++)
		if (text[at] == '\\' && text[at + 1])
			at++;
	return text[at] ? at + 1 : at;
}

static size_t skip_value(const char *text, size_t at)
{
	int depth = 0;

	do {
		if (text[at] == '"') {
			at = skip_text(text, at);
			continue;
		}
		if (!depth && (text[at] == ',' || text[at] == '}' || text[at] == ' ' ||
			       text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
			return at;
		depth +=
			(text[at] == '{' || text[at] == '[') - (text[at] == '}' || text[at] == ']');
		at++;
	} while (text[at] && (depth || text[at - 1] != '}'));
	return at;
}

/* Take the member KEY, with its quotes, out of the object that TEXT is; TEXT ends with a NUL. False: it is no object. */
static bool take_out(char *text, const char *key)
{
	size_t at = skip_blanks(text, 0), before;

	if (text[at] != '{')
		return false;
	before = ++at;
	for (;;) {
		size_t start = skip_blanks(text, at), end = start;
		bool is_wanted = !strncmp(text + start, key, strlen(key));

		if (text[start] == '}')
			return true;
		if (text[start] != '"')
			return false;
		end = skip_blanks(text, skip_text(text, start));
		if (text[end] != ':')
			return false;
		end = skip_blanks(text, skip_value(text, skip_blanks(text, end + 1)));
		if (text[end] != ',' && text[end] != '}')
			return false;
		if (!is_wanted && text[end] == '}')
			return true;
		if (!is_wanted) {
			before = end;
			at = end + 1;
			continue;
		}
		if (text[end] == ',') /* the next one takes its place */
			memmove(text + start, text + skip_blanks(text, end + 1),
				strlen(text + skip_blanks(text, end + 1)) + 1);
		else /* the last one: the comma before it goes, what ends the object stays */
			memmove(text + before, text + end, strlen(text + end) + 1);
		return true;
	}
}

/* ---- copying ---- */

static int failed(const char *path)
{
	complain("%s: %s", path, strerror(errno));
	return EXIT_ERROR;
}

static int read_whole(const char *path, char **out, size_t *len)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), code = EXIT_FINE;
	size_t got = 0;

	*out = NULL;
	if (fd < 0 || fstat(fd, &st) < 0) {
		code = failed(path);
	} else if (!S_ISREG(st.st_mode) || st.st_size > MOST_FILE) {
		complain("%s: is no file of up to %d bytes", path, MOST_FILE);
		code = EXIT_ERROR;
	} else if (!(*out = calloc((size_t)st.st_size + 1, 1))) {
		no_memory();
	}
	while (code == EXIT_FINE && got < (size_t)st.st_size) {
		ssize_t n = read(fd, *out + got, (size_t)st.st_size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			code = failed(path);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	*len = got;
	return code;
}

static int write_whole(const char *path, const char *bytes, size_t len)
{
	char temp[PATH_MAX + 80];
	int fd, code = EXIT_FINE;

	snprintf(temp, sizeof(temp), "%s.ckpt-XXXXXX", path);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return failed(path);
	for (size_t put = 0; code == EXIT_FINE && put < len;) {
		ssize_t n = write(fd, bytes + put, len - put);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			code = failed(path);
		else
			put += (size_t)n;
	}
	if (code == EXIT_FINE && (fchmod(fd, 0644) < 0 || fsync(fd) < 0))
		code = failed(path);
	if (close(fd) < 0 && code == EXIT_FINE)
		code = failed(path);
	if (code == EXIT_FINE && rename(temp, path) < 0)
		code = failed(path);
	if (code != EXIT_FINE)
		unlink(temp);
	return code;
}

int copy_config(const char *in, const char *out)
{
	char from[PATH_MAX], to[PATH_MAX], source[PATH_MAX + 40], target[PATH_MAX + 40], *text;
	int code = EXIT_FINE;
	size_t len;

	folder_of(in, is_folder(in), from);
	folder_of(out, is_folder(out), to);
	for (size_t i = 0; code == EXIT_FINE && i < sizeof(files) / sizeof(files[0]); i++) {
		if (!is_file(path_of(from, i, source)))
			continue;
		code = read_whole(source, &text, &len);
		if (code == EXIT_FINE && !i &&
		    (strlen(text) != len || !take_out(text, "\"quantization_config\"") ||
		     !take_out(text, "\"compression_config\""))) {
			complain("%s: is no JSON object", source);
			code = EXIT_ERROR;
		}
		if (code == EXIT_FINE)
			code = write_whole(path_of(to, i, target), text, i ? len : strlen(text));
		free(text);
	}
	return code;
}

/* ---- what is beside OUT ---- */

void note_config(const char *out)
{
	static const char *const keys[] = { "quantization_config", "compression_config" };
	char folder[PATH_MAX], path[PATH_MAX + 40], *text;
	json_t *root;
	size_t len;

	folder_of(out, is_folder(out), folder);
	path_of(folder, 0, path);
	if (!is_file(path) || read_whole(path, &text, &len) != EXIT_FINE)
		return;
	root = json_loadb(text, len, 0, NULL);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_is_object(json_object_get(root, keys[i]))) {
			fflush(stdout);
			complain(
				"note: %s still has the %s of the quantized weights, which loaders go by",
				path, keys[i]);
			break;
		}
	json_decref(root);
	free(text);
}

bool find_single_file(const char *in, const char **out, char *buf)
{
	char name[NAME_MAX + 1] = "";
	size_t len = strlen(*out), count = 0;
	struct dirent *e;
	DIR *dir;

	if (!len || (*out)[len - 1] != '/' || !is_folder(in))
		return false;
	dir = opendir(in);
	while (dir && (e = readdir(dir))) {
		if (ends_with(e->d_name, ".index.json"))
			count = 2; /* a set */
		if (!ends_with(e->d_name, ".safetensors"))
			continue;
		count++;
		snprintf(name, sizeof(name), "%s", e->d_name);
	}
	if (dir)
		closedir(dir);
	if (count != 1 || snprintf(buf, PATH_MAX, "%s%s", *out, name) >= PATH_MAX)
		return false;
	*out = buf;
	return true;
}
