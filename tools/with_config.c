/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt cast --dequantize --with-config`: what loaders want beside plain weights: config.json without what it says of
 * quantization, and the files of the tokenizer. The rest of config.json stays as it is written, to the letter.
 *
 * All of it is read before anything is written; ckpt_save() writes it together with the weights, all or nothing.
 */
#include "with_config.h"

#include "json.h"
#include "command.h"
#include "pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILE = 256 << 20 };

static const char *const names[] = {
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

/* What config.json says of quantization. */
static const char *const entries[] = { "quantization_config", "compression_config" };

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
	snprintf(buf, PATH_MAX + 40, "%s/%s", folder, names[i]);
	return buf;
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

/* Is the key that begins at START, and ends before END, one of KEYS? It may be written with escapes. */
static bool is_one_of(const char *start, const char *end, const char *const *keys, size_t count)
{
	json_t *key = json_loadb(start, (size_t)(end - start), JSON_DECODE_ANY, NULL);
	bool found = false;

	for (size_t i = 0; i < count; i++)
		found |= json_is_string(key) && !strcmp(json_string_value(key), keys[i]);
	json_decref(key);
	return found;
}

/* Models of several parts have the entry in one of these: text_config, and what that is made of. */
enum { MOST_NESTED = 2 };

/*
 * Take the members whose keys are one of KEYS out of the object that begins at AT, and out of the objects in it, DEPTH levels
 * down; TEXT ends with a NUL. Where the object ends; 0: it is none.
 */
static size_t take_out(char *text, size_t at, const char *const *keys, size_t count, unsigned depth)
{
	size_t before;

	if (text[at] != '{')
		return 0;
	before = ++at; /* where what precedes the next member ends: the bracket, or its comma begins */
	for (;;) {
		size_t start = skip_blanks(text, at), value, end;
		bool stays;

		if (text[start] == '}')
			return start + 1;
		if (text[start] != '"')
			return 0;
		end = skip_text(text, start);
		stays = !is_one_of(text + start, text + end, keys, count);
		end = skip_blanks(text, end);
		if (text[end] != ':')
			return 0;
		value = skip_blanks(text, end + 1);
		if (stays && depth && text[value] == '{')
			end = take_out(text, value, keys, count, depth - 1);
		else
			end = skip_value(text, value);
		if (!end)
			return 0;
		end = skip_blanks(text, end);
		if (text[end] != ',' && text[end] != '}')
			return 0;
		if (stays && text[end] == ',') {
			before = end;
			at = end + 1;
		} else if (stays) {
			at = end;
		} else if (text[end] == ',') { /* the next one takes its place */
			size_t next = skip_blanks(text, end + 1);

			memmove(text + start, text + next, strlen(text + next) + 1);
			at = start;
		} else { /* the last one: the comma before it goes, what ends the object stays */
			memmove(text + before, text + end, strlen(text + end) + 1);
			at = before;
		}
	}
}

/* The same of the object that TEXT is. False: it is no object, or there is something behind it. */
static bool take_out_of_text(char *text, const char *const *keys, size_t count)
{
	size_t end = take_out(text, skip_blanks(text, 0), keys, count, MOST_NESTED);

	return end && !text[skip_blanks(text, end)];
}

/* ---- reading ---- */

static int failed(const char *path)
{
	complain("%s: %s", path, strerror(errno));
	return EXIT_ERROR;
}

/* The file PATH, with a NUL behind it; its mode in FILE. */
static int read_whole(const char *path, struct ckpt_side_file *file)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), code = EXIT_FINE;
	char *bytes = NULL;

	file->len = 0;
	if (fd < 0 || fstat(fd, &st) < 0) {
		code = failed(path);
	} else if (!S_ISREG(st.st_mode) || st.st_size > MOST_FILE) {
		complain("%s: is no file of up to %d bytes", path, MOST_FILE);
		code = EXIT_ERROR;
	} else if (!(bytes = calloc((size_t)st.st_size + 1, 1))) {
		no_memory();
	} else {
		file->mode = st.st_mode & 0777;
	}
	while (code == EXIT_FINE && file->len < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + file->len, (size_t)st.st_size - file->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			code = failed(path);
		if (n <= 0)
			break;
		file->len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	file->bytes = bytes;
	return code;
}

/* Take what it says of quantization out of config.json, and a byte order mark, which Python takes for an error. */
static int make_plain(const char *path, struct ckpt_side_file *file)
{
	char *text = (char *)file->bytes;
	bool is_marked = file->len >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3);

	if (is_marked)
		memmove(text, text + 3, file->len - 2);
	if (strlen(text) + (is_marked ? 3 : 0) != file->len || !take_out_of_text(text, entries, sizeof(entries) / sizeof(entries[0]))) {
		complain("%s: is no JSON object", path);
		return EXIT_ERROR;
	}
	file->len = strlen(text);
	return EXIT_FINE;
}

int read_config(const char *in, struct config_files *out)
{
	char folder[PATH_MAX], path[PATH_MAX + 40];
	int code = EXIT_FINE;

	*out = (struct config_files){ .count = 0 };
	folder_of(in, is_folder(in), folder);
	for (size_t i = 0; code == EXIT_FINE && i < sizeof(names) / sizeof(names[0]); i++) {
		struct ckpt_side_file *file = &out->items[out->count];
		struct stat st;

		if (lstat(path_of(folder, i, path), &st) < 0) { /* one that is there has to be read: it would be missed */
			if (errno != ENOENT && errno != ENOTDIR)
				code = failed(path);
			continue;
		}
		file->name = names[i];
		code = read_whole(path, file);
		out->count++;
		if (code == EXIT_FINE && !i)
			code = make_plain(path, file);
	}
	return code;
}

void clear_config(struct config_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free((void *)files->items[i].bytes);
	files->count = 0;
}

/* ---- what is beside OUT ---- */

/* The file NAME of FOLDER is a JSON object. Its path is in PATH; the member that says how weights are quantized, or NULL, in *ENTRY. */
static bool is_object(const char *folder, const char *name, char path[PATH_MAX + 40], const char **entry)
{
	struct ckpt_side_file file = { .len = 0 };
	bool is_one = false;
	struct stat st;

	*entry = NULL;
	snprintf(path, PATH_MAX + 40, "%s/%s", folder, name);
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && read_whole(path, &file) == EXIT_FINE)
		is_one = ckpt_quant_config_entry(file.bytes, file.len, entry, NULL) == 0;
	free((void *)file.bytes);
	return is_one;
}

/* Of ModelOpt, GPTQ and AWQ: they speak of nothing else. */
static const char *const others[] = { "hf_quant_config.json", "quantize_config.json", "quant_config.json" };

void note_config(const char *out)
{
	char folder[PATH_MAX], path[PATH_MAX + 40];
	const char *entry;

	if (is_stream(out))
		return;
	folder_of(out, is_folder(out), folder);
	fflush(stdout);
	if (is_object(folder, names[0], path, &entry) && entry)
		complain("note: %s still has the %s of the quantized weights, which loaders go by", path, entry);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (is_object(folder, others[i], path, &entry))
			complain("note: %s still says how the weights were quantized, and loaders may go by it", path);
}

static bool is_same(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Does a file of FOLDER say how weights are quantized? The path of the first that does is in PATH. */
static bool says_quantized(const char *folder, char path[PATH_MAX + 40])
{
	const char *entry;

	if (is_object(folder, names[0], path, &entry) && entry)
		return true;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (is_object(folder, others[i], path, &entry))
			return true;
	return false;
}

void note_config_left(const char *in, const char *out)
{
	char from[PATH_MAX], to[PATH_MAX], path[PATH_MAX + 40], unused[PATH_MAX + 40];

	if (is_stream(in) || is_stream(out))
		return;
	folder_of(in, is_folder(in), from);
	folder_of(out, is_folder(out), to);
	if (is_same(from, to) || !says_quantized(from, path) || says_quantized(to, unused))
		return;
	fflush(stdout);
	complain("note: %s, which says how the weights are quantized, was not copied", path);
}
