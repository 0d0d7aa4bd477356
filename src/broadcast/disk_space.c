/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free space for what a rank is to write: of the file system, and of the memory that the job may
 * take if that is a tmpfs. Ranks with the same KEY share one place, so that what they need is
 * added up.
 *
 * What must stay true: all ranks take part in the vote, also those that write nothing or know
 * nothing; only then may one refuse. What a file system does not tell is no reason to refuse.
 */
#include "broadcast/disk_space.h"

#include "base/c_locale.h"
#include "job/memory.h"

#include <errno.h>
#include <libdeflate.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

/* What limits a rank: ranks with the same KEY share it. */
struct demand {
	uint64_t key, need, have;
	bool is_memory;
	char place[400];
};

/* The folder that is there, on the way to PATH. Caller frees; NULL: no memory. */
static char *existing_folder(const struct ckpt_manifest *m, const char *path)
{
	char *folder = strdup(path), *slash;
	bool is_inside = !m->is_directory && m->count > 1; /* files in the folder PATH */
	struct stat st;

	while (folder && (!is_inside || stat(folder, &st) < 0)) {
		is_inside = true;
		slash = strrchr(folder, '/');
		if (!slash)
			strcpy(folder, ".");
		else
			slash[slash == folder] = '\0';
		if (!slash || slash == folder)
			break;
	}
	return folder;
}

static uint64_t make_key(const struct ckpt_agreement *a, dev_t dev, const char *file)
{
	uint32_t host = libdeflate_crc32(0, a->host, strlen(a->host));
	uint32_t thing = libdeflate_crc32(0, &dev, sizeof(dev));

	return (uint64_t)host << 32 | libdeflate_crc32(thing, file, strlen(file));
}

static uint64_t bytes_needed(const struct ckpt_manifest *m, uint64_t block)
{
	uint64_t need = 0;

	for (uint32_t i = 0; i < m->count; i++)
		need += (m->files[i].size + block - 1) / block * block;
	return need;
}

/* False: the file system does not say how much is free. */
static bool measure_space(const struct ckpt_agreement *a, const struct ckpt_manifest *m,
			  const char *folder, uint64_t buffers, struct demand *out)
{
	struct ckpt_memory memory;
	struct statvfs fs;
	struct statfs kind;
	struct stat st;

	if (statvfs(folder, &fs) < 0 || !fs.f_blocks || statfs(folder, &kind) < 0 ||
	    stat(folder, &st) < 0 ||
	    __builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &out->have))
		return false;
	out->need = bytes_needed(m, fs.f_frsize);
	out->key = make_key(a, st.st_dev, "");
	snprintf(out->place, sizeof(out->place), "%s", folder);
	if (kind.f_type != TMPFS_MAGIC || !ckpt_memory_find("", &memory) ||
	    memory.left - (buffers < memory.left ? buffers : memory.left) >= out->have)
		return true;
	out->is_memory = true;
	out->have = memory.left;
	out->need += buffers;
	out->key = make_key(a, 0, memory.file);
	snprintf(out->place, sizeof(out->place), "%s", memory.file);
	return true;
}

/* What all ranks with this one's key need. */
static int add_others(struct ckpt_agreement *a, const struct demand *mine, uint64_t *need,
		      struct ckpt_error *err)
{
	uint64_t numbers[2] = { mine->key, mine->need }, *all;
	uint32_t size = a->transport->size;
	int rc;

	all = calloc(2 * (size_t)size, sizeof(*all));
	rc = ckpt_agree_gather(a, numbers, 2, all, err);
	for (uint32_t i = 0; rc == 0 && all && i < size; i++)
		if (i != a->transport->rank && all[2 * i] == mine->key &&
		    __builtin_add_overflow(*need, all[2 * i + 1], need))
			*need = UINT64_MAX;
	if (rc == 0 && !all)
		rc = ckpt_fail_nomem(err);
	free(all);
	return rc;
}

static const char *size_text(uint64_t nbytes, bool exact, char *out, size_t size)
{
	locale_t before = ckpt_c_locale_enter();

	if (exact || nbytes < 1 << 20)
		snprintf(out, size, "%llu bytes", (unsigned long long)nbytes);
	else if (nbytes < 1 << 30)
		snprintf(out, size, "%.1f MiB", (double)nbytes / (1 << 20));
	else
		snprintf(out, size, "%.1f GiB", (double)nbytes / (1 << 30));
	ckpt_c_locale_leave(before);
	return out;
}

static int fail_no_space(const struct demand *r, uint64_t all, struct ckpt_error *err)
{
	bool exact = all - r->have < all / 1000; /* else the same figure twice */
	char need[40], sum[120] = "", of_all[40], have[40];

	size_text(r->need, exact, need, sizeof(need));
	size_text(r->have, exact, have, sizeof(have));
	if (all != r->need)
		snprintf(sum, sizeof(sum), " and with the other ranks of this node %s",
			 size_text(all, exact, of_all, sizeof(of_all)));
	if (r->is_memory)
		ckpt_fail(err, CKPT_E_IO,
			  "needs %s%s of memory, as the destination is a tmpfs, %s are left of "
			  "the limit '%s'",
			  need, sum, have, r->place);
	else
		ckpt_fail(err, CKPT_E_IO, "needs %s%s, %s are free in '%s'", need, sum, have,
			  r->place);
	if (err)
		err->sys_errno = ENOSPC;
	return CKPT_E_IO;
}

int ckpt_disk_space_check(struct ckpt_agreement *a, const struct ckpt_manifest *m, const char *path,
			  bool together, uint64_t buffers, struct ckpt_error *err)
{
	struct demand room = { 0 };
	char *folder = path ? existing_folder(m, path) : NULL;
	bool known = folder && measure_space(a, m, folder, buffers, &room);
	uint64_t all;
	int rc = 0;

	free(folder);
	all = room.need;
	if (together)
		rc = add_others(a, &room, &all, err);
	return rc == 0 && known && all > room.have ? fail_no_space(&room, all, err) : rc;
}
