/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt latest': the newest checkpoint in a folder that verifies.
 *
 * What must stay true: stdout has the one path or nothing, for scripts put it into a command
 * line; everything else goes to stderr. Of a directory of shards the index counts, which is
 * written last: the folder itself does not change when a file in it is written again.
 */
#include "command.h"
#include "grow.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool quick;

static const struct opt opts[] = {
	OPT_FLAG("quick", 0, &quick, "check only the metadata; do not read the bytes of tensors"),
	OPT_FLAG("quiet", 'q', &quiet, "do not report what is passed over"), OPT_END
};

static int run_latest(int argc, char **argv);

const struct command cmd_latest = {
	.name = "latest",
	.operands = "DIR",
	.summary =
		"print the newest checkpoint in a folder that verifies: for scripts that restart a job",
	.details =
		"latest tries the files and directories in DIR, last changed first. It skips what\n"
		"is not a checkpoint. It also skips what is damaged or unfinished, and says so on\n"
		"stderr. It accepts a checkpoint without checksums if nothing else is wrong with\n"
		"it. For a directory of shards, the time of its index counts. It ignores hidden\n"
		"names.\n\n"
		"Exit status: 0 it printed one; 1 there is none; 2 DIR cannot be read.\n",
	.examples = "  ./train --resume \"$(ckpt latest run/checkpoints)\"\n",
	.opts = opts,
	.least = 1,
	.most = 1,
	.run = run_latest,
};

struct candidate {
	char *path;
	struct timespec changed;
};

struct candidates {
	struct candidate *items;
	size_t count, cap;
};

/*
 * Newest first. If two have the same time, the later name comes first; numbers in it count as
 * numbers.
 */
static int by_age(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->changed.tv_sec != y->changed.tv_sec)
		return x->changed.tv_sec < y->changed.tv_sec ? 1 : -1;
	if (x->changed.tv_nsec != y->changed.tv_nsec)
		return x->changed.tv_nsec < y->changed.tv_nsec ? 1 : -1;
	return strverscmp(y->path, x->path);
}

/* The index is written last. */
static struct timespec time_of_change(const char *path, const struct stat *st)
{
	static const char *const indexes[] = { ".metadata", "metadata.pkl",
					       "model.safetensors.index.json",
					       "pytorch_model.bin.index.json" };
	struct stat index;
	char *name;

	for (size_t i = 0; S_ISDIR(st->st_mode) && i < sizeof(indexes) / sizeof(indexes[0]); i++) {
		int rc = -1;

		if (asprintf(&name, "%s/%s", path, indexes[i]) >= 0) {
			rc = stat(name, &index);
			free(name);
		}
		if (rc == 0)
			return index.st_mtim;
	}
	return st->st_mtim;
}

static bool add_candidate(struct candidates *c, const char *folder, const char *name)
{
	size_t len = strlen(folder);
	struct stat st;
	void *grown;
	char *path;

	if (asprintf(&path, "%s%s%s", folder, len && folder[len - 1] == '/' ? "" : "/", name) < 0)
		return false;
	if (stat(path, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
		free(path);
		return true;
	}
	grown = grow_array(c->items, c->count, &c->cap, sizeof(*c->items));
	if (!grown) {
		free(path);
		return false;
	}
	c->items = grown;
	c->items[c->count++] = (struct candidate){ path, time_of_change(path, &st) };
	return true;
}

static int list_candidates(const char *folder, struct candidates *out)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	bool ok = true;

	if (!dir) {
		complain("%s: %s", folder, errno_text(errno));
		return EXIT_ERROR;
	}
	while (ok && (errno = 0, entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			ok = add_candidate(out, folder, entry->d_name);
	if (!ok) {
		complain("out of memory");
	} else if (errno) {
		complain("%s: %s", folder, errno_text(errno));
		ok = false;
	}
	closedir(dir);
	if (out->count) /* there may be no array to sort */
		qsort(out->items, out->count, sizeof(*out->items), by_age);
	return ok ? EXIT_FINE : EXIT_ERROR;
}

/* ---- which of them ---- */

enum { MOST_FINDING = 800 };

static int keep_first(void *ctx, const struct ckpt_finding *f)
{
	char *first = ctx;

	if (f->kind == CKPT_FINDING_DAMAGE && !first[0])
		snprintf(first, MOST_FINDING, "%s%s%s%s%s", f->file ? f->file : "",
			 f->file ? ": " : "", f->record ? f->record : "", f->record ? ": " : "",
			 f->text);
	return 0;
}

/* Returns 1 to take it, 0 to pass it over, -1 if the user wants to end the command. */
static int check_candidate(const char *path, const struct ckpt_verify_options *options)
{
	struct ckpt_verify_report report = CKPT_VERIFY_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	char first[MOST_FINDING] = "";
	int rc = ckpt_verify(path, options, keep_first, first, &report, &err);

	end_progress();
	if (rc == CKPT_E_CANCELLED)
		return -1;
	if (rc == CKPT_E_UNSUPPORTED) {
		if (verbose)
			fail(&err);
		return 0;
	}
	if (rc < 0) {
		fail(&err);
		return 0;
	}
	if (report.verdict == CKPT_VERDICT_DAMAGED && !quiet)
		complain("%s: passed over: %s", path, first);
	if ((report.verdict == CKPT_VERDICT_UNPROVEN || report.verdict == CKPT_VERDICT_COMPLETE) && !quiet)
		complain("%s: has no checksums; nothing else is wrong with it", path);
	return report.verdict != CKPT_VERDICT_DAMAGED;
}

static int run_latest(int argc, char **argv)
{
	struct ckpt_verify_options options = CKPT_VERIFY_OPTIONS_INIT;
	struct candidates found = { 0 };
	int first = parse_options(&cmd_latest, argc, argv), code, taken = 0;

	if (first < 0)
		return -1 - first;
	options.flags = quick ? CKPT_VERIFY_QUICK : 0;
	options.progress = show_progress;
	options.cancel = catch_signals();
	code = list_candidates(argv[first], &found);
	for (size_t i = 0; code == EXIT_FINE && !taken && i < found.count; i++) {
		taken = check_candidate(found.items[i].path, &options);
		if (taken > 0)
			puts(found.items[i].path);
	}
	if (code == EXIT_FINE && !taken) {
		complain("%s: there is no checkpoint that verifies", argv[first]);
		code = EXIT_NO;
	}
	for (size_t i = 0; i < found.count; i++)
		free(found.items[i].path);
	free(found.items);
	end_by_signal();
	return finish_output(code);
}
