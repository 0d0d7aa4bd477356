/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the job may still use: the least that any memory cgroup around this process has
 * left, of version 2 and 1 (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of
 * Linux).
 *
 * What must stay true: whatever cannot be read means no limit, never an error. Page cache that the
 * kernel could drop counts as free, so the answer is an upper bound, not a promise.
 */
#include "job/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096 };

static const struct version {
	const char *controller; /* "" has version 2 */
	const char *type;	/* of the mounted file system */
	const char *limit, *used;
	const char *droppable[2]; /* in memory.stat */
} versions[] = {
	{ "", "cgroup2", "memory.max", "memory.current", { "active_file", "inactive_file" } },
	{ "memory",
	  "cgroup",
	  "memory.limit_in_bytes",
	  "memory.usage_in_bytes",
	  { "total_active_file", "total_inactive_file" } },
};

/* One of the words in LIST, which commas separate. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strcspn(p, ",\n") == len && !strncmp(p, word, len))
			return true;
	}
	return false;
}

/* "4:memory:/job7/step1": the group that this process is in. */
static bool find_group(const char *root, const struct version *v, char *out, size_t size)
{
	char line[LINE];
	bool found = false;
	FILE *file;

	snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
	file = fopen(line, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		found = *v->controller ? has_word(names + 1, v->controller) : !names[1];
		if (found)
			snprintf(out, size, "%s", path);
	}
	if (file)
		fclose(file);
	return found;
}

/* Where the groups are mounted, and which of them is on top there. */
static bool find_mount(const char *root, const struct version *v, char *top, char *mount)
{
	char line[LINE], type[64], options[512];
	bool found = false;
	FILE *file;

	snprintf(line, sizeof(line), "%s/proc/self/mountinfo", root);
	file = fopen(line, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		const char *rest = strstr(line, " - ");

		found = rest && sscanf(rest, " - %63s %*s %511s", type, options) == 2 &&
			!strcmp(type, v->type) &&
			(!*v->controller || has_word(options, v->controller)) &&
			sscanf(line, "%*s %*s %*s %299s %299s", top, mount) == 2;
	}
	if (file)
		fclose(file);
	return found;
}

/* False: there is no number, as in "max". */
static bool read_number(const char *folder, const char *name, uint64_t *out)
{
	char path[1200], text[32] = "", *end;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	*out = strtoull(text, &end, 10);
	return end != text;
}

static uint64_t count_droppable(const char *folder, const struct version *v)
{
	char line[LINE], name[64];
	uint64_t sum = 0, n;
	FILE *file;

	snprintf(line, sizeof(line), "%s/memory.stat", folder);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %" SCNu64, name, &n) == 2 &&
		    (!strcmp(name, v->droppable[0]) || !strcmp(name, v->droppable[1])))
			sum += n;
	if (file)
		fclose(file);
	return sum;
}

/* The tighter of OUT, if FOUND, and what FOLDER says. */
static bool take_tighter_limit(const char *folder, const struct version *v, bool found,
			       struct ckpt_memory *out)
{
	uint64_t limit, used, droppable;

	if (!read_number(folder, v->limit, &limit) || !read_number(folder, v->used, &used) ||
	    limit > INT64_MAX / 2) /* version 1 writes "none" as a number of 63 bits */
		return found;
	droppable = count_droppable(folder, v);
	used -= droppable < used ? droppable : used;
	limit -= used < limit ? used : limit;
	if (found && limit >= out->left)
		return true;
	out->left = limit;
	snprintf(out->file, sizeof(out->file), "%.350s/%s", folder, v->limit);
	return true;
}

bool ckpt_memory_find(const char *root, struct ckpt_memory *out)
{
	char group[300], top[300], mount[300], folder[1000];
	bool found = false;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		const struct version *v = &versions[i];
		size_t skip, least;

		if (!find_group(root, v, group, sizeof(group)) || !find_mount(root, v, top, mount))
			continue;
		skip = !strcmp(top, "/") ? 0 : strlen(top);
		/* elsewhere: a namespace hides what is around it */
		if (strncmp(group, top, skip) != 0 || (group[skip] && group[skip] != '/'))
			skip = strlen(group);
		least = (size_t)snprintf(folder, sizeof(folder), "%s%s", root, mount);
		snprintf(folder + least, sizeof(folder) - least, "%s", group + skip);
		for (;;) {
			found = take_tighter_limit(folder, v, found, out);
			if (strlen(folder) <= least)
				break;
			*strrchr(folder, '/') = '\0';
		}
	}
	return found;
}
