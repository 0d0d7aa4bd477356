/* SPDX-License-Identifier: Apache-2.0 */
#include "evict.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

static const char *const whats[] = {
	[CKPT_EVICT_REMOVED] = "removed",   [CKPT_EVICT_LEFT_OVER] = "left_over", [CKPT_EVICT_IN_USE] = "in_use",
	[CKPT_EVICT_CHANGED] = "changed", [CKPT_EVICT_FAILED] = "failed",
};

struct eviction {
	bool dry_run;
	json_t *list; /* NULL: none is wanted */
};

/* "90", "30m", "12h", "7d": seconds, minutes, hours, days. */
static bool parse_age(const char *text, double *out)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 }, { "w", 604800 } };
	char *end;

	*out = number_of(text, &end);
	if (end == text || !(*out >= 0) || *out > 1e9)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].unit)) {
			*out *= units[i].seconds;
			return true;
		}
	return false;
}

static void add_to_list(json_t *list, const struct ckpt_evicted *c)
{
	json_t *row = json_object();

	json_set_name(row, "path", c->path);
	json_object_set_new(row, "what", json_string(whats[c->what]));
	json_object_set_new(row, "nbytes", json_u64(c->nbytes));
	json_object_set_new(row, "used", json_integer(c->used_sec));
	json_object_set_new(row, "process", json_integer(c->process));
	json_array_append_new(list, row);
}

/* What went is a result; what stays is news for whoever watches. */
static void show(void *ctx, const struct ckpt_evicted *c)
{
	struct eviction *e = ctx;
	char size[16], *path = shell_word(c->path);

	if (e->list)
		add_to_list(e->list, c);
	if (c->what == CKPT_EVICT_FAILED)
		complain("broadcast: %s: cannot be removed, or not all of it: %s", path, errno_text(c->error));
	else if (c->what == CKPT_EVICT_IN_USE && !quiet && c->process)
		complain("broadcast: %s stays: process %d has it open", path, c->process);
	else if (c->what == CKPT_EVICT_IN_USE && !quiet)
		complain("broadcast: %s stays: it was just used, or another process removes it", path);
	else if (c->what == CKPT_EVICT_CHANGED && !quiet)
		complain("broadcast: %s stays: it is not what its note says, or another user's", path);
	else if ((c->what == CKPT_EVICT_REMOVED || c->what == CKPT_EVICT_LEFT_OVER) && !e->list)
		printf("%s %s, %s%s\n", e->dry_run ? "would remove" : "removed", path, size_phrase(c->nbytes, size),
		       c->what == CKPT_EVICT_LEFT_OVER ? ", left by one that has ended" : "");
	free(path);
}

/* The first of FOLDERS where less than WANTED is free; NULL: none. */
static const char *find_full(uint64_t wanted, char *const *folders, int count)
{
	struct statvfs fs;

	for (int i = 0; i < count; i++)
		if (statvfs(folders[i], &fs) == 0 && (double)fs.f_bavail * (double)fs.f_frsize < (double)wanted)
			return folders[i];
	return NULL;
}

static int write_json(const struct evict_wish *w, const struct ckpt_evict_report *r, json_t *list)
{
	FILE *out = json_open(w->json);

	if (!out) {
		json_decref(list);
		return EXIT_ERROR;
	}
	json_put(out, json_pack("{s:i,s:s,s:b,s:o,s:I,s:I,s:o,s:I,s:I,s:I}", "ckpt_json", JSON_VERSION, "command", "broadcast",
				"dry_run", (int)w->dry_run, "evicted", list, "copies", (json_int_t)r->copies, "left_overs",
				(json_int_t)r->left_overs, "nbytes", json_u64(r->nbytes), "in_use", (json_int_t)r->in_use,
				"changed", (json_int_t)r->changed, "failed", (json_int_t)r->failed));
	fputc('\n', out);
	return json_close(out, true);
}

int run_evict(const struct evict_wish *w, char *const *folders, int count)
{
	struct ckpt_evict_options options = CKPT_EVICT_OPTIONS_INIT;
	struct ckpt_evict_report report = CKPT_EVICT_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct eviction e = { w->dry_run, w->json ? json_array() : NULL };
	const struct command *cmd = find_command("broadcast");
	char size[16], number[32];
	const char *full;
	int code = EXIT_FINE, rc;

	if (w->older_than && !parse_age(w->older_than, &options.older_than_s))
		return wrong_usage(cmd, "%s: wanted an age, such as 12h or 7d", option_text(cmd, "older-than", w->older_than));
	if (w->keep_free && (!parse_size(w->keep_free, &options.keep_free) || !options.keep_free))
		return wrong_usage(cmd, "%s: wanted a size, such as 200G", option_text(cmd, "keep-free", w->keep_free));
	if (!count)
		return wrong_usage(cmd, "broadcast: --evict: wanted DIR");
	options.flags = w->dry_run ? CKPT_EVICT_DRY_RUN : 0;
	options.each = show;
	options.ctx = &e;
	options.cancel = catch_signals();
	rc = ckpt_evict_staged((const char *const *)folders, (size_t)count, &options, &report, &err);
	if (!quiet && !e.list)
		printf("%s %s %s, %s\n", w->dry_run ? "would remove" : "removed", grouped(report.copies, number),
		       report.copies == 1 ? "copy" : "copies", size_phrase(report.nbytes, size));
	if (e.list)
		code = write_json(w, &report, e.list);
	if (rc < 0)
		code = fail(&err);
	else if (report.failed)
		code = EXIT_ERROR;
	else if (w->keep_free && !w->dry_run && code == EXIT_FINE && (full = find_full(options.keep_free, folders, count)) != NULL) {
		complain("broadcast: %s: less than %s is free: nothing more may be removed", full, w->keep_free);
		code = EXIT_NO;
	}
	code = finish_output(code);
	end_by_signal();
	return code;
}
