/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path that a rank writes to: the user's wish with its percent signs filled in, and below a folder the source's name.
 *
 * What must stay true: a directory that was staged is a destination, not a folder that it goes into, even while others replace it.
 */
#include "broadcast/destination.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *base_name(const char *path, size_t *len)
{
	const char *name = path;

	*len = strlen(path);
	while (*len > 1 && path[*len - 1] == '/')
		--*len;
	for (size_t i = 0; i + 1 < *len; i++)
		if (path[i] == '/')
			name = path + i + 1;
	*len -= (size_t)(name - path);
	return name;
}

static int fill_in(struct ckpt_buf *out, char letter, const struct ckpt_world *world,
		   const char *source, struct ckpt_error *err)
{
	const char *user = getenv("USER"), *name;
	char host[256] = "";
	size_t len;

	switch (letter) {
	case '%': ckpt_buf_add_u8(out, '%'); return 0;
	case 'r': ckpt_buf_printf(out, "%u", world->rank); return 0;
	case 'l': ckpt_buf_printf(out, "%u", world->local_rank); return 0;
	case 'h':
		gethostname(host, sizeof(host) - 1);
		ckpt_buf_printf(out, "%s", host);
		return 0;
	case 'j':
		if (!world->key[0])
			return ckpt_fail(
				err, CKPT_E_ARG,
				"%%j in the destination, but no launcher says the job's name; "
				"--job-key says it");
		ckpt_buf_printf(out, "%s", world->key);
		return 0;
	case 'n':
		if (!world->has_node)
			return ckpt_fail(err, CKPT_E_ARG,
					 "%%n in the destination, but no launcher says the node's "
					 "number: torchrun and srun do");
		ckpt_buf_printf(out, "%u", world->node);
		return 0;
	case 'u':
		if (user)
			ckpt_buf_printf(out, "%s", user);
		else
			ckpt_buf_printf(out, "%u", (unsigned)getuid());
		return 0;
	case 'b':
		name = base_name(source, &len);
		ckpt_buf_add(out, name, len);
		return 0;
	}
	if (!letter)
		return ckpt_fail(err, CKPT_E_ARG,
				 "'%%' at the end of the destination, wanted '%%%%'");
	return ckpt_fail(
		err, CKPT_E_ARG,
		"'%%%c' in the destination, wanted one of %%h %%n %%r %%l %%j %%u %%b %%%%",
		letter);
}

/*
 * Is it a folder that is no staged directory? Who evicts or replaces one gives its name away between two system calls; what was
 * looked at must have it still.
 */
static bool is_other_folder(const char *path)
{
	for (int i = 0; i < 1000; i++) {
		int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct stat opened = { 0 }, named;
		bool is_staged, is_same;

		if (fd < 0)
			return false;
		is_staged = faccessat(fd, ".ckpt-staged", F_OK, 0) == 0;
		is_same = fstat(fd, &opened) == 0 && stat(path, &named) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
		close(fd);
		if (is_staged || is_same)
			return !is_staged;
	}
	return true;
}

/*
 * cp's rule, with one exception: a directory that was staged there before is that destination
 * again.
 */
static bool add_name(struct ckpt_buf *out, const char *source)
{
	size_t len;
	const char *name = base_name(source, &len);
	bool slash = out->len && out->data[out->len - 1] == '/', found;

	ckpt_buf_add_u8(out, 0);
	if (out->bad)
		return false;
	out->len--;
	found = !slash && is_other_folder((const char *)out->data);
	if (slash || found) {
		if (!slash)
			ckpt_buf_add_u8(out, '/');
		ckpt_buf_add(out, name, len);
	}
	return found;
}

int ckpt_destination(const char *wish, const struct ckpt_world *world, const char *source,
		     size_t source_count, char **out, bool *found_folder, struct ckpt_error *err)
{
	struct ckpt_buf buf = { 0 };
	int rc = 0;

	*out = NULL;
	*found_folder = false;
	for (const char *p = wish; rc == 0 && *p; p++)
		if (*p == '%')
			rc = fill_in(&buf, *++p, world, source, err);
		else
			ckpt_buf_add_u8(&buf, (uint8_t)*p);
	if (rc == 0 && !buf.len)
		rc = ckpt_fail(err, CKPT_E_ARG, "the destination has no name");
	if (rc == 0 && source_count == 1)
		*found_folder = add_name(&buf, source);
	ckpt_buf_add_u8(&buf, 0);
	if (rc == 0 && buf.bad)
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		*out = strdup((const char *)buf.data);
	ckpt_buf_clear(&buf);
	return rc == 0 && !*out ? ckpt_fail_nomem(err) : rc;
}

bool ckpt_destination_is_per_rank(const char *wish)
{
	for (const char *p = strchr(wish, '%'); p && p[1]; p = strchr(p + 2, '%'))
		if (p[1] == 'r' || p[1] == 'l')
			return true;
	return false;
}
