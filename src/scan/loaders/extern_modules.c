/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ".data/extern_modules" of a torch.package ("extern_modules" of torch 1.8): names of modules of Python that its pickles use and that are not in it, one in a line.
 *
 * What must stay true: a load imports such a module where something asks for what lies in a package of that name, a record too. So
 * nothing of a torch.package lies there: torch.package writes no such thing, and refuses most (torch/package/package_importer.py,
 * _build_root_node() and _load_module()), but not what a folder does not list: hidden names, and all names in a folder with glob's
 * characters in its own (directory_reader.py), nor what differs in the case of letters.
 */
#include "scan/loaders/zip.h"

#include "base/ascii.h"
#include "base/text.h"
#include "pickle/op.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	SHOWN = 160,
	MOST_PARTS = 1 << 16, /* of all names, of which each takes some 300 bytes where a package is opened */
	MOST_DEEP = 32,	      /* parts of a name */
};
static const uint64_t MOST_MODULES = 16 << 20;

/* Where lines end for str.splitlines() of Python, in ASCII; those of UTF-8: check_names(). */
static bool ends_line(uint8_t byte)
{
	return (byte >= '\n' && byte <= '\r') || (byte >= 0x1C && byte <= 0x1E);
}

/* The next name that is not empty, of *LEN bytes; NULL: there is none. */
static const uint8_t *next_name(const uint8_t **at, const uint8_t *end, size_t *len)
{
	const uint8_t *start;

	while (*at < end && ends_line(**at))
		(*at)++;
	start = *at;
	while (*at < end && !ends_line(**at))
		(*at)++;
	*len = (size_t)(*at - start);
	return *len ? start : NULL;
}

static bool has_other_bytes(const uint8_t *bytes, uint64_t nbytes)
{
	for (uint64_t i = 0; i < nbytes; i++)
		if (!ckpt_is_print(bytes[i]) && !ends_line(bytes[i]))
			return true;
	return false;
}

/* Behind the line at AT. */
static uint64_t behind_line(const uint8_t *bytes, uint64_t nbytes, uint64_t at)
{
	const uint8_t *end = at < nbytes ? memchr(bytes + at, '\n', (size_t)(nbytes - at)) : NULL;

	return end ? (uint64_t)(end - bytes) + 1 : nbytes;
}

/*
 * Most lists of names begin as a pickle does ("collections"). Would it call anything before it breaks off, or end well? Letters have no mark, no
 * tuple and no dict, so that most opcodes that want these find none. What is not sure counts as a call.
 */
static bool calls_something(const uint8_t *bytes, uint64_t nbytes)
{
	uint64_t at = 0, depth = 0; /* of the stack */

	while (at < nbytes) {
		switch (bytes[at++]) {
		case CKPT_OP_GLOBAL:
			at = behind_line(bytes, nbytes, behind_line(bytes, nbytes, at));
			depth++;
			break;
		case CKPT_OP_INT:
		case CKPT_OP_FLOAT:
		case CKPT_OP_LONG:
		case CKPT_OP_UNICODE:
		case CKPT_OP_GET:
			at = behind_line(bytes, nbytes, at);
			depth++;
			break;
		case CKPT_OP_PUT: at = behind_line(bytes, nbytes, at); break;
		case CKPT_OP_BINPUT: at++; break;
		case CKPT_OP_LONG_BINPUT: at += 4; break;
		case CKPT_OP_NONE:
		case CKPT_OP_DUP: depth++; break;
		case CKPT_OP_BININT1:
		case CKPT_OP_BINGET: at++, depth++; break;
		case CKPT_OP_BININT2: at += 2, depth++; break;
		case CKPT_OP_BININT:
		case CKPT_OP_LONG_BINGET: at += 4, depth++; break;
		case CKPT_OP_BINFLOAT: at += 8, depth++; break;
		case CKPT_OP_SHORT_BINSTRING:
		case CKPT_OP_SHORT_BINBYTES: at += at < nbytes ? 1 + bytes[at] : 1, depth++; break;
		case CKPT_OP_POP:
			if (!depth--)
				return false;
			break;
		case CKPT_OP_STOP: /* it is a whole pickle */
		case CKPT_OP_BINPERSID: return depth > 0;
		case CKPT_OP_REDUCE:
		case CKPT_OP_BUILD:
		case CKPT_OP_APPEND:
		case CKPT_OP_SETITEM: return depth > 1;
		default: return false; /* it breaks off: no opcode, one that wants a mark, or an id that nobody asked for */
		}
	}
	return false;
}

/* Names and nothing else, which would call nothing were they opcodes, and are no whole pickle. */
static bool is_list(const uint8_t *bytes, uint64_t nbytes)
{
	for (uint64_t i = 0; i < nbytes; i++)
		if (!ckpt_is_alnum(bytes[i]) && !memchr("._*\n", bytes[i], 4))
			return false;
	return !calls_something(bytes, nbytes);
}

static size_t count_parts(const uint8_t *name, size_t len)
{
	size_t parts = 1;

	for (size_t i = 0; i < len; i++)
		parts += name[i] == '.';
	return parts;
}

/* Is the list one that a load takes little for, and that is read here as there? Else that is said. */
static bool check_names(struct ckpt_scanner *s, const uint8_t *bytes, uint64_t nbytes)
{
	const uint8_t *at = bytes, *name;
	size_t len, parts = 0, most = 0;

	while (parts <= MOST_PARTS && (name = next_name(&at, bytes + nbytes, &len)) != NULL) {
		size_t own = count_parts(name, len);

		parts += own;
		most = own > most ? own : most;
	}
	if (parts > MOST_PARTS)
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "amount", CKPT_NO_OFFSET, "more than %d parts of names of modules, for each of which torch.package keeps an object", MOST_PARTS);
	else if (most > MOST_DEEP)
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "amount", CKPT_NO_OFFSET, "the name of a module of more than %d parts", MOST_DEEP);
	else if (has_other_bytes(bytes, nbytes))
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "name", CKPT_NO_OFFSET, "names of modules with what is no letter of ASCII are not looked into");
	else
		return true;
	return false;
}

static void say_is_there(struct ckpt_scanner *s, const char *module, size_t len)
{
	char shown[SHOWN];

	ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "name", CKPT_NO_OFFSET, "'%s' is said not to be in this torch.package, and something lies there: a load of that imports the module",
		       ckpt_escape(shown, sizeof(shown), module, len));
}

/* NAME as a path, in small letters if IS_SMALL. */
static char *path_of(const uint8_t *name, size_t len, bool is_small, char *out)
{
	for (size_t i = 0; i < len; i++)
		out[i] = name[i] == '.' ? '/' : is_small ? (char)ckpt_to_lower(name[i]) : (char)name[i];
	out[len] = 0;
	return out;
}

/* ---- in an archive ---- */

/* The first of its folders that is one of MODULES, with its length. */
static bool is_below(const struct ckpt_strmap *modules, const char *record, size_t *len)
{
	const char *slash = record;

	for (unsigned deep = 0; deep < MOST_DEEP && (slash = strchr(slash, '/')) != NULL; deep++, slash++) {
		*len = (size_t)(slash - record);
		if (ckpt_strmap_find_small(modules, record, *len))
			return true;
	}
	return false;
}

static void check_records(struct ckpt_loose_zip *zip, const struct ckpt_strmap *modules)
{
	for (uint32_t i = 0; i < zip->count; i++) {
		const char *record = ckpt_loose_zip_in_folder(zip, &zip->entries[i]);
		size_t len;

		if (record && is_below(modules, record, &len)) {
			say_is_there(zip->s, record, len);
			return;
		}
	}
}

bool ckpt_loose_zip_extern_modules(struct ckpt_loose_zip *zip, const uint8_t *bytes, uint64_t nbytes)
{
	struct ckpt_strmap modules = { 0 };
	const uint8_t *at = bytes, *name;
	size_t len;

	if (check_names(zip->s, bytes, nbytes)) {
		char *paths = malloc((size_t)nbytes + 1), *path = paths;
		bool is_there;

		zip->s->no_memory |= !paths;
		while (path && (name = next_name(&at, bytes + nbytes, &len)) != NULL) {
			zip->s->no_memory |= !ckpt_strmap_insert(&modules, path_of(name, len, true, path), len, 0, &is_there);
			path += len;
		}
		check_records(zip, &modules);
		ckpt_strmap_clear(&modules);
		free(paths);
	}
	return is_list(bytes, nbytes);
}

/* ---- in a folder ---- */

/* FOLDER: with a slash behind, or "". */
static bool is_in(struct ckpt_scanner *s, const char *folder, size_t folder_len, const uint8_t *name, size_t len)
{
	char *path = malloc(folder_len + len + 1);
	struct stat about;
	bool is_there;

	s->no_memory |= !path;
	if (!path)
		return false;
	memcpy(path, folder, folder_len);
	path_of(name, len, false, path + folder_len);
	is_there = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
	free(path);
	return is_there;
}

/* Of the folder whose name is the first FOLDER bytes of the path. */
static void check_folder(struct ckpt_scanner *s, size_t folder, const uint8_t *bytes, uint64_t nbytes)
{
	const uint8_t *at = bytes, *name;
	size_t len;

	while ((name = next_name(&at, bytes + nbytes, &len)) != NULL)
		if (is_in(s, s->file.path, folder, name, len)) {
			say_is_there(s, (const char *)name, len);
			return;
		}
}

/* Is NAME the last part of the LEN bytes of PATH? *FRONT is what lies in front of it. */
static bool is_at_end(const char *path, size_t len, const char *name, size_t *front)
{
	*front = len - strlen(name);
	return len >= strlen(name) && !memcmp(path + *front, name, strlen(name)) && (!*front || path[*front - 1] == '/');
}

bool ckpt_scan_extern_modules_file(struct ckpt_scanner *s, struct ckpt_source *source)
{
	uint64_t size = ckpt_source_size(source);
	size_t folder, outer; /* lengths of paths, with a slash behind */
	uint8_t *bytes;
	bool is_all;

	if (!is_at_end(s->file.path, strlen(s->file.path), "extern_modules", &folder))
		return false;
	if (size > MOST_MODULES) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET, "names of modules of more than 16 MiB are not looked into");
		return true;
	}
	bytes = ckpt_scan_read_whole(s, source);
	if (!bytes)
		return true;
	if (check_names(s, bytes, size)) {
		check_folder(s, folder, bytes, size); /* of torch 1.8 */
		if (is_at_end(s->file.path, folder, ".data/", &outer))
			check_folder(s, outer, bytes, size);
	}
	is_all = is_list(bytes, size);
	free(bytes);
	return is_all || s->file.verdict >= CKPT_SCAN_UNREADABLE;
}
