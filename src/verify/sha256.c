/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares files with SHA-256 sums that came another way: one sum of one file, or a file of sums as
 * `sha256sum` writes it. With the right sums every byte of a checkpoint is proven, whatever its format
 * records of itself.
 *
 * What must stay true: a directory is proven only if each file in it, at any depth and through links,
 * has its sum; a name in a file of sums means the same file whatever the current folder is.
 */
#include "verify/verifier.h"

#include "base/cancel.h"
#include "base/grow.h"
#include "base/paths.h"
#include "base/strmap.h"
#include "base/text.h"
#include "set/listing.h"
#include "set/set.h"

#include <inttypes.h>
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEX_LEN = 2 * SHA256_DIGEST_SIZE, BLOCK = 1 << 20, MOST_DEPTH = 64, MOST_SUMS = 256 << 20 };

/* ---- one sum ---- */

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 64 hex digits. */
static bool read_hex(const char *text, uint8_t sum[SHA256_DIGEST_SIZE])
{
	for (size_t i = 0; i < HEX_LEN; i += 2) {
		int high = digit_of(text[i]), low = high < 0 ? -1 : digit_of(text[i + 1]);

		if (low < 0)
			return false;
		sum[i / 2] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static void write_hex(const uint8_t sum[SHA256_DIGEST_SIZE], char out[HEX_LEN + 1])
{
	for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

static void finish(struct sha256_ctx *ctx, uint8_t sum[SHA256_DIGEST_SIZE])
{
#if NETTLE_VERSION_MAJOR >= 4
	sha256_digest(ctx, sum);
#else
	sha256_digest(ctx, SHA256_DIGEST_SIZE, sum);
#endif
}

static int hash(struct ckpt_verifier *v, const char *path, uint8_t sum[SHA256_DIGEST_SIZE], struct ckpt_error *err)
{
	struct sha256_ctx ctx;
	struct ckpt_source *source = NULL;
	uint8_t *block = malloc(BLOCK);
	int rc = block ? ckpt_source_open(path, &source, err) : ckpt_fail_nomem(err);
	uint64_t size = rc == 0 ? ckpt_source_size(source) : 0;

	sha256_init(&ctx);
	for (uint64_t at = 0, len; rc == 0 && at < size; at += len) {
		len = size - at < BLOCK ? size - at : BLOCK;
		rc = ckpt_cancelled(v->options.cancel) ? ckpt_fail(err, CKPT_E_CANCELLED, "interrupted") : ckpt_source_read(source, at, block, (size_t)len, err);
		if (rc == 0)
			sha256_update(&ctx, (size_t)len, block);
		v->done += rc == 0 ? len : 0;
		if (rc == 0 && v->options.progress)
			v->options.progress(v->options.progress_ctx, v->done, v->total);
	}
	if (rc == 0)
		rc = ckpt_source_check_unchanged(source, err);
	if (rc == 0)
		finish(&ctx, sum);
	ckpt_source_unref(source);
	free(block);
	return rc;
}

static int compare(struct ckpt_verifier *v, const char *path, const uint8_t wanted[SHA256_DIGEST_SIZE], struct ckpt_error *err)
{
	uint8_t sum[SHA256_DIGEST_SIZE];
	char found[HEX_LEN + 1], should[HEX_LEN + 1];
	int rc = hash(v, path, sum, err);

	if (rc < 0)
		return rc;
	v->report.sha256++;
	if (!memcmp(sum, wanted, sizeof(sum)))
		return 0;
	write_hex(sum, found);
	write_hex(wanted, should);
	return ckpt_verifier_report(v, CKPT_FINDING_DAMAGE, NULL, CKPT_NO_OFFSET, "its SHA-256 is %s, wanted %s", found, should);
}

/* ---- a file of sums ---- */

struct sums {
	struct ckpt_verifier *v;
	struct ckpt_arena *arena;
	struct ckpt_strmap by_path; /* to a place in SUMS */
	uint8_t (*sums)[SHA256_DIGEST_SIZE];
	uint32_t count, cap;
	const char *path; /* of the file of sums */
	char *real;	  /* the same, without links */
	char *folder;	  /* where its names begin */
};

static int fail_line(const struct sums *s, uint64_t line, const char *what, struct ckpt_error *err)
{
	return ckpt_error_at(err, ckpt_fail(err, CKPT_E_FORMAT, "line %" PRIu64 " %s", line, what), s->path, NULL, CKPT_NO_OFFSET);
}

/* The path of NAME without links and dots; of what is not there, as far as it is. To be freed. */
static char *resolve(const struct sums *s, const char *name)
{
	char *joined, *real, *slash;

	if (*name == '/' ? !(joined = strdup(name)) : asprintf(&joined, "%s/%s", s->folder, name) < 0)
		return NULL;
	real = realpath(joined, NULL);
	slash = strrchr(joined, '/');
	if (!real && slash && slash != joined) {
		char *parent, *base = slash + 1;

		*slash = '\0';
		parent = realpath(joined, NULL);
		if (!parent || asprintf(&real, "%s/%s", parent, base) < 0)
			real = parent ? NULL : strdup(name);
		free(parent);
	}
	if (!real)
		real = strdup(name);
	free(joined);
	return real;
}

static int add_sum(struct sums *s, const char *name, const char *hex, uint64_t line, struct ckpt_error *err)
{
	void *grown = ckpt_grow(s->sums, s->count, &s->cap, sizeof(*s->sums));
	char *path = grown ? resolve(s, name) : NULL;
	const char *copy = path ? ckpt_arena_copy(s->arena, path, strlen(path)) : NULL;
	uint64_t *place;
	bool there;

	free(path);
	if (grown)
		s->sums = grown;
	if (!copy)
		return ckpt_fail_nomem(err);
	if (!read_hex(hex, s->sums[s->count]))
		return fail_line(s, line, "has no SHA-256 sum of 64 hex digits", err);
	place = ckpt_strmap_insert(&s->by_path, copy, strlen(copy), s->count, &there);
	if (!place)
		return ckpt_fail_nomem(err);
	if (there && memcmp(s->sums[*place], s->sums[s->count], SHA256_DIGEST_SIZE) != 0)
		return fail_line(s, line, "has another sum for a file that is listed before", err);
	s->count += !there;
	return 0;
}

/* What a backslash in front of the line means: \\n, \\r and \\\\ in the name. */
static bool unescape(char *name)
{
	char *to = name;

	for (; *name; name++) {
		if (*name != '\\') {
			*to++ = *name;
			continue;
		}
		switch (*++name) {
		case 'n': *to++ = '\n'; break;
		case 'r': *to++ = '\r'; break;
		case '\\': *to++ = '\\'; break;
		default: return false;
		}
	}
	*to = '\0';
	return true;
}

/* "HEX  NAME", "HEX *NAME", or "SHA256 (NAME) = HEX", each maybe with a backslash in front. */
static int read_line(struct sums *s, char *text, uint64_t line, struct ckpt_error *err)
{
	static const char tag[] = "SHA256 (", is[] = ") = ";
	bool escaped = *text == '\\';
	size_t len;
	char *name, *hex;

	text += escaped;
	len = strlen(text);
	if (!strncmp(text, tag, sizeof(tag) - 1) && len > sizeof(tag) + sizeof(is) + HEX_LEN - 3 && !memcmp(text + len - HEX_LEN - (sizeof(is) - 1), is, sizeof(is) - 1)) {
		hex = text + len - HEX_LEN;
		name = text + sizeof(tag) - 1;
		hex[-(ptrdiff_t)(sizeof(is) - 1)] = '\0';
	} else if (len > HEX_LEN + 2 && text[HEX_LEN] == ' ' && (text[HEX_LEN + 1] == ' ' || text[HEX_LEN + 1] == '*')) {
		hex = text;
		name = text + HEX_LEN + 2;
	} else {
		return fail_line(s, line, "is none that sha256sum writes", err);
	}
	if (escaped && !unescape(name))
		return fail_line(s, line, "has a name with a backslash that means nothing", err);
	return add_sum(s, name, hex, line, err);
}

static int read_sums(struct sums *s, struct ckpt_error *err)
{
	struct ckpt_source *source = NULL;
	uint64_t size = 0, number = 0;
	char *text = NULL;
	int rc = ckpt_source_open(s->path, &source, err);

	if (rc == 0 && (size = ckpt_source_size(source)) > MOST_SUMS)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "a file of sums of %" PRIu64 " bytes", size);
	if (rc == 0 && !(text = malloc((size_t)size + 1)))
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_source_read(source, 0, text, (size_t)size, err);
	ckpt_source_unref(source);
	for (size_t at = 0; rc == 0 && at < size;) {
		char *line = text + at, *end = memchr(line, '\n', (size_t)size - at);
		size_t len = end ? (size_t)(end - line) : (size_t)size - at;

		at += len + 1;
		line[len] = '\0';
		if (len && line[len - 1] == '\r')
			line[--len] = '\0';
		number++;
		if (strlen(line) != len)
			rc = fail_line(s, number, "has a NUL", err);
		else if (len && *line != '#')
			rc = read_line(s, line, number, err);
	}
	free(text);
	return ckpt_error_at(err, rc, s->path, NULL, CKPT_NO_OFFSET);
}

/* ---- files against them ---- */

/* NAME: of the file in the directory, or NULL. Not every file needs to be a checkpoint's. */
static int check_file(struct sums *s, const char *path, const char *name, struct ckpt_error *err)
{
	char *real = realpath(path, NULL), shown[200];
	const uint64_t *place = real ? ckpt_strmap_find(&s->by_path, real, strlen(real)) : NULL;
	int rc = 0;

	if (name)
		s->v->file = ckpt_escape(shown, sizeof(shown), name, strlen(name));
	if (real && !strcmp(real, s->real)) {
		/* the sums themselves */
	} else if (place) {
		rc = compare(s->v, path, s->sums[*place], err);
	} else {
		s->v->is_summed = false;
		rc = ckpt_verifier_report(s->v, CKPT_FINDING_UNPROVEN, NULL, CKPT_NO_OFFSET, "the file of sums does not list it");
	}
	s->v->file = NULL;
	free(real);
	return rc;
}

/* Call USE for each file below FOLDER. BELOW: the path of FOLDER in the directory, with a slash, or "". */
static int each_file(struct sums *s, const char *folder, const char *below, int depth, int (*use)(struct sums *s, const char *path, const char *name, struct ckpt_error *err),
		     struct ckpt_error *err)
{
	struct ckpt_listing listing = { 0 };
	int rc = depth < MOST_DEPTH ? ckpt_listing_read(folder, &listing, err) : ckpt_fail(err, CKPT_E_LIMIT, "folders lie more than %d deep", MOST_DEPTH);

	for (size_t i = 0; rc == 0 && i < listing.count; i++) {
		const struct ckpt_listed *item = &listing.items[i];
		char *path = NULL, *name = NULL;

		if (asprintf(&path, "%s/%s", folder, item->name) < 0 || asprintf(&name, "%s%s%s", below, item->name, item->is_folder ? "/" : "") < 0)
			rc = ckpt_fail_nomem(err);
		else if (item->is_folder)
			rc = each_file(s, path, name, depth + 1, use, err);
		else
			rc = use(s, path, name, err);
		free(path);
		free(name);
	}
	ckpt_listing_clear(&listing);
	return rc;
}

static int add_size(struct sums *s, const char *path, const char *name, struct ckpt_error *err)
{
	struct stat st;

	(void)name;
	(void)err;
	s->v->total += stat(path, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
	return 0;
}

/* What is listed below FOLDER, and not there. */
static int report_missing(struct sums *s, const char *folder)
{
	char *real = realpath(folder, NULL);
	size_t len = real ? strlen(real) : 0;
	int rc = 0;

	for (size_t i = 0; real && rc == 0 && i < s->by_path.count; i++) {
		const char *path = s->by_path.entries[i].key;
		char shown[300];
		struct stat st;

		if (strncmp(path, real, len) != 0 || path[len] != '/' || stat(path, &st) == 0)
			continue;
		rc = ckpt_verifier_report(s->v, CKPT_FINDING_DAMAGE, NULL, CKPT_NO_OFFSET, "'%s' is listed in the file of sums, and missing",
					  ckpt_escape(shown, sizeof(shown), path + len + 1, strlen(path + len + 1)));
	}
	free(real);
	return rc;
}

static int check_all(struct sums *s, const char *path, struct ckpt_error *err)
{
	char *folder = NULL;
	int rc;

	if (!ckpt_set_is_folder(path) && !ckpt_set_is_index(path)) {
		rc = add_size(s, path, NULL, err);
		return rc < 0 ? rc : check_file(s, path, NULL, err);
	}
	folder = ckpt_set_is_folder(path) ? strdup(path) : ckpt_path_parent(path);
	rc = folder ? each_file(s, folder, "", 0, add_size, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = each_file(s, folder, "", 0, check_file, err);
	if (rc == 0)
		rc = report_missing(s, folder);
	free(folder);
	return rc;
}

static int check_sums(struct ckpt_verifier *v, const char *path, struct ckpt_error *err)
{
	struct sums s = { .v = v, .path = v->options.sha256sums };
	int rc;

	s.real = realpath(s.path, NULL);
	if (!s.real)
		return ckpt_error_at(err, ckpt_fail_errno(err, "cannot open"), s.path, NULL, CKPT_NO_OFFSET);
	s.folder = ckpt_path_parent(s.real);
	s.arena = ckpt_arena_new(2 * (uint64_t)MOST_SUMS);
	rc = s.folder && s.arena ? read_sums(&s, err) : ckpt_fail_nomem(err);
	v->is_summed = true;
	if (rc == 0)
		rc = check_all(&s, path, err);
	ckpt_strmap_clear(&s.by_path);
	ckpt_arena_free(s.arena);
	free(s.sums);
	free(s.folder);
	free(s.real);
	return rc;
}

int ckpt_verify_sums(struct ckpt_verifier *v, const char *path, struct ckpt_error *err)
{
	const char *hex = v->options.sha256;
	uint8_t wanted[SHA256_DIGEST_SIZE];
	struct stat st;
	int rc;

	if (v->options.sha256sums && (rc = check_sums(v, path, err)) < 0)
		return rc;
	if (!hex)
		return 0;
	if (strlen(hex) != HEX_LEN || !read_hex(hex, wanted))
		return ckpt_fail(err, CKPT_E_ARG, "a SHA-256 sum has 64 hex digits");
	if (ckpt_set_is_folder(path))
		return ckpt_fail(err, CKPT_E_ARG, "is a directory: one SHA-256 sum is that of one file");
	if (ckpt_set_is_index(path)) /* its shards are verified with it, and would count as proven */
		return ckpt_fail(err, CKPT_E_ARG, "is the index of several files: one SHA-256 sum is that of one file");
	v->total += stat(path, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
	v->is_summed = true;
	return compare(v, path, wanted, err);
}
