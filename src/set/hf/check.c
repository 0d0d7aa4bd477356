/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a shard set complete? By the numbers in the names of its files, by the files that the index
 * names, and by the tensors that the index expects in them.
 *
 * Files are sorted by name with numbers compared as numbers (index.c), so those of one set are
 * consecutive; the loops rely on it. Two files of one set may have the same number only where an
 * index says what is in which.
 */
#include "set/hf/hf.h"

#include "base/paths.h"
#include "base/text.h"
#include "set/hf/name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOWN = 160 };

static const char *shown_file(const struct ckpt_hf_index *x, uint32_t i, char buf[SHOWN])
{
	return ckpt_escape(buf, SHOWN, x->files[i].name, strlen(x->files[i].name));
}

/* ---- numbers ---- */

/* Without an index: which one is not there? */
static int fail_absent(const struct ckpt_hf_index *x, uint32_t first, uint32_t end,
		       const struct ckpt_hf_name *like, struct ckpt_error *err)
{
	const char *name = x->files[first].name;
	struct ckpt_hf_name parts;
	char shown[SHOWN], rest[SHOWN];
	uint32_t absent = 1;

	for (uint32_t i = first; i < end; i++, absent++)
		if (ckpt_hf_name_parse(x->files[i].name, &parts) && parts.number != absent)
			break;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "has no index, and %" PRIu32 " of %" PRIu32 " files: '%s-%05" PRIu32
			 "-of-%05" PRIu32 "%s' is missing",
			 end - first, like->count,
			 ckpt_escape(shown, sizeof(shown), name, like->stem_len), absent,
			 like->count,
			 ckpt_escape(rest, sizeof(rest), like->rest, strlen(like->rest)));
}

struct numbered {
	uint32_t number, file;
};

static int by_number(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

/* "w-1-of-2" and "w-00001-of-00002" are not two of two. */
static int check_distinct(const struct ckpt_hf_index *x, uint32_t first, uint32_t end,
			  struct ckpt_error *err)
{
	struct numbered *all = malloc((end - first) * sizeof(*all));
	char a[SHOWN], b[SHOWN];
	int rc = 0;

	if (!all)
		return ckpt_fail_nomem(err);
	for (uint32_t i = first; i < end; i++) {
		struct ckpt_hf_name parts;

		ckpt_hf_name_parse(x->files[i].name, &parts);
		all[i - first] = (struct numbered){ parts.number, i };
	}
	qsort(all, end - first, sizeof(*all), by_number);
	for (uint32_t i = 1; rc == 0 && i < end - first; i++)
		if (all[i].number == all[i - 1].number)
			rc = ckpt_fail(err, CKPT_E_FORMAT,
				       "two files have the same number: '%s' and '%s'",
				       shown_file(x, all[i - 1].file, a),
				       shown_file(x, all[i].file, b));
	free(all);
	return rc;
}

/* Files of one set are behind each other, as they are sorted, and numbered in that order. */
static int check_one_set(const struct ckpt_hf_index *x, uint32_t first, uint32_t end,
			 struct ckpt_error *err)
{
	struct ckpt_hf_name parts, begin;
	char shown[SHOWN];

	/* an index says what is where */
	int rc = x->entry_count ? 0 : check_distinct(x, first, end, err);

	if (rc < 0)
		return rc;
	ckpt_hf_name_parse(x->files[first].name, &begin);
	for (uint32_t i = first; i < end; i++) {
		ckpt_hf_name_parse(x->files[i].name, &parts);
		if (parts.count != begin.count)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "the file '%s' is one of %" PRIu32
					 ", by its name, and others are of %" PRIu32,
					 shown_file(x, i, shown), parts.count, begin.count);
		if (!parts.number || parts.number > parts.count)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "the file '%s' has a number that is not 1 to %" PRIu32,
					 shown_file(x, i, shown), parts.count);
	}
	if (begin.count == end - first)
		return 0;
	if (!x->entry_count)
		return fail_absent(x, first, end, &begin, err);
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "the file '%s' is one of %" PRIu32
			 ", by its name, and the index has %" PRIu32 " of them",
			 shown_file(x, first, shown), begin.count, end - first);
}

int ckpt_hf_check_numbers(const struct ckpt_hf_index *x, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0, end; rc == 0 && i < x->file_count; i = end) {
		struct ckpt_hf_name first, other;

		end = i + 1;
		if (!ckpt_hf_name_parse(x->files[i].name, &first))
			continue;
		while (end < x->file_count && ckpt_hf_name_parse(x->files[end].name, &other) &&
		       ckpt_hf_name_is_like(x->files[i].name, &first, x->files[end].name, &other))
			end++;
		rc = check_one_set(x, i, end, err);
	}
	return rc;
}

/* ---- files ---- */

static bool is_missing(const char *folder, const char *name)
{
	struct stat st;
	char *path;
	bool missing = false;

	if (ckpt_path_join(folder, name, &path, NULL) == 0) {
		missing = stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
		free(path);
	}
	return missing; /* what else is wrong with it shows when it is opened */
}

int ckpt_hf_check_files(const struct ckpt_hf *hf, struct ckpt_error *err)
{
	const struct ckpt_hf_index *x = &hf->index;
	uint32_t missing = 0, first = 0;
	uint64_t names = 0;
	char shown[SHOWN];

	for (uint32_t i = 0; i < x->file_count; i++) {
		if (!is_missing(hf->path, x->files[i].name))
			continue;
		if (!missing++)
			first = i;
		names += x->files[i].names;
	}
	if (!missing)
		return 0;
	shown_file(x, first, shown);
	if (missing == 1)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the file '%s' is missing, with %" PRIu64 " of the %" PRIu32
				 " tensors",
				 shown, names, x->entry_count);
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "%" PRIu32 " of %" PRIu32 " files are missing, with %" PRIu64
			 " of the %" PRIu32 " tensors: '%s' ...",
			 missing, x->file_count, names, x->entry_count, shown);
}

/* ---- tensors ---- */

int ckpt_hf_check_found(const struct ckpt_hf_index *x, struct ckpt_error *err)
{
	const struct ckpt_hf_entry *first = NULL;
	char name[SHOWN], shown[SHOWN], more[40] = "";
	uint32_t count = 0;

	for (uint32_t i = 0; i < x->entry_count; i++)
		if (!x->entries[i].found && !count++)
			first = &x->entries[i];
	if (!count)
		return 0;
	if (count == 2)
		snprintf(more, sizeof(more), ", nor is 1 other in its file");
	else if (count > 2)
		snprintf(more, sizeof(more), ", nor are %" PRIu32 " others in theirs", count - 1);
	return ckpt_fail(err, CKPT_E_FORMAT, "'%s' is not in '%s', where the index has it%s",
			 ckpt_escape(name, sizeof(name), first->name, first->len),
			 shown_file(x, first->file, shown), more);
}
