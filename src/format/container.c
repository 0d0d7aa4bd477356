/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path is split at "::" only where what stands before it is a file and the whole path is not,
 * so that a file whose own name has "::" in it is opened as it is. Then each archive is opened
 * in turn.
 *
 * What must stay true: stored entries are slices of the file, and nothing is copied; what is
 * compressed is unpacked to memory, and hostile archives cannot make that much: it is in
 * proportion to the outermost file, and the depth of archives is limited.
 */
#include "format/container.h"

#include "base/buf.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_DEPTH = 8, SHOWN_NAMES = 6, SHOWN = 80 };

/* Bytes unpacked for each byte of the file: real weights hardly shrink, and what does is small. */
enum { MOST_RATIO = 128 };
static const uint64_t UNPACKED_BASE = 64 << 20, MOST_UNPACKED = (uint64_t)2 << 30;
static const char separator[] = "::";

/* ---- the bytes of an entry ---- */

struct unpacked {
	uint8_t *bytes; /* owned */
};

static int read_unpacked(void *ctx, uint64_t off, void *buf, size_t len, struct ckpt_error *err)
{
	const struct unpacked *u = ctx;

	(void)err;
	memcpy(buf, u->bytes + off, len);
	return 0;
}

static void free_unpacked(void *ctx)
{
	struct unpacked *u = ctx;

	free(u->bytes);
	free(u);
}

static const struct ckpt_source_maker unpacked_maker = { .read = read_unpacked,
							 .free = free_unpacked,
							 .is_random = true };

static int unpack(struct ckpt_zip *zip, struct ckpt_zip_entry *entry, struct ckpt_source *root,
		  struct ckpt_source **out, struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(root), most = MOST_UNPACKED;
	struct unpacked *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return ckpt_fail_nomem(err);
	if (size < (MOST_UNPACKED - UNPACKED_BASE) / MOST_RATIO)
		most = UNPACKED_BASE + MOST_RATIO * size;
	rc = ckpt_zip_read(zip, entry, most, &u->bytes, err);
	if (rc < 0) {
		free(u);
		return rc;
	}
	return ckpt_source_make(&unpacked_maker, u, root, entry->usize, out, err);
}

int ckpt_container_open_entry(struct ckpt_zip *zip, struct ckpt_zip_entry *entry,
			      struct ckpt_source *root, struct ckpt_source **out,
			      struct ckpt_error *err)
{
	int rc = ckpt_zip_locate(zip, entry, err);

	*out = NULL;
	if (rc < 0)
		return rc;
	if (entry->method != CKPT_ZIP_STORED)
		return unpack(zip, entry, root, out, err);
	return ckpt_source_slice(zip->source, entry->data_off, entry->usize, out, err);
}

/* ---- names ---- */

static bool is_folder(const struct ckpt_zip_entry *entry)
{
	return entry->name_len && entry->name[entry->name_len - 1] == '/';
}

static int fail_absent(const struct ckpt_zip *zip, const char *name, struct ckpt_error *err)
{
	struct ckpt_buf there = { 0 };
	uint32_t count = 0;
	char shown[SHOWN];

	for (uint32_t i = 0; i < zip->count; i++) {
		const struct ckpt_zip_entry *e = &zip->entries[i];

		if (is_folder(e) || ++count > SHOWN_NAMES)
			continue;
		ckpt_buf_printf(&there, "%s'%s'", count > 1 ? ", " : "",
				ckpt_escape(shown, sizeof(shown), e->name, e->name_len));
	}
	if (count > SHOWN_NAMES)
		ckpt_buf_printf(&there, " and %" PRIu32 " more", count - SHOWN_NAMES);
	ckpt_buf_add_u8(&there, 0);
	ckpt_escape(shown, sizeof(shown), name, strlen(name));
	if (there.bad)
		ckpt_fail_nomem(err);
	else
		ckpt_fail(err, CKPT_E_NOTFOUND, "there is no '%s' in the archive; there is %s",
			  shown, count ? (const char *)there.data : "nothing");
	ckpt_buf_clear(&there);
	return CKPT_E_NOTFOUND;
}

/*
 * The entry that is NAME, or NAME up to a separator; *REST is what follows the separator, or
 * NULL.
 */
static struct ckpt_zip_entry *find_entry(const struct ckpt_zip *zip, const char *name,
					 const char **rest)
{
	struct ckpt_zip_entry *entry = ckpt_zip_find(zip, name, strlen(name));

	*rest = NULL;
	for (const char *at = strstr(name, separator); !entry && at;
	     at = strstr(at + 1, separator)) {
		entry = ckpt_zip_find(zip, name, (size_t)(at - name));
		*rest = at + strlen(separator);
	}
	return entry && is_folder(entry) ? NULL : entry;
}

/*
 * Replace *SOURCE, an archive, by the entry that *NAME begins with, and *NAME by what follows,
 * or NULL.
 */
static int open_next(struct ckpt_source **source, const char **name, struct ckpt_source *root,
		     struct ckpt_error *err)
{
	struct ckpt_source *inner = NULL;
	struct ckpt_zip_entry *entry;
	struct ckpt_zip *zip;
	const char *rest;
	char shown[SHOWN];
	int rc = ckpt_zip_open(*source, &zip, err);

	if (rc == CKPT_E_NOTFOUND)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is not a zip archive, in which '%s' could be",
				 ckpt_escape(shown, sizeof(shown), *name, strlen(*name)));
	if (rc < 0)
		return rc;
	entry = find_entry(zip, *name, &rest);
	rc = entry ? ckpt_container_open_entry(zip, entry, root, &inner, err)
		   : fail_absent(zip, *name, err);
	ckpt_zip_close(zip);
	if (rc < 0)
		return rc;
	ckpt_source_unref(*source);
	*source = inner;
	*name = rest;
	return 0;
}

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * Cut PATH after the name of a file, and return the name inside it. NULL: PATH is a file, or
 * nothing.
 */
static const char *split_path(char *path)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return NULL;
	for (char *at = strstr(path, separator); at; at = strstr(at + 1, separator)) {
		*at = '\0';
		if (is_file(path))
			return at + strlen(separator);
		*at = *separator;
	}
	return NULL;
}

int ckpt_container_open(const char *path, struct ckpt_source **out, bool *inside,
			struct ckpt_error *err)
{
	char *outer = strdup(path);
	const char *name = outer ? split_path(outer) : NULL;
	struct ckpt_source *root = NULL, *source = NULL;
	int rc = outer ? ckpt_source_open(outer, &root, err) : ckpt_fail_nomem(err);

	*inside = name;
	if (rc == 0)
		source = ckpt_source_ref(root);
	for (int depth = 0; rc == 0 && name; depth++)
		rc = depth < MOST_DEPTH
			     ? open_next(&source, &name, root, err)
			     : ckpt_fail(err, CKPT_E_LIMIT,
					 "archives in archives, more than %d deep", MOST_DEPTH);
	ckpt_source_unref(root);
	if (rc < 0)
		ckpt_source_unref(source);
	*out = rc < 0 ? NULL : source;
	free(outer);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}
