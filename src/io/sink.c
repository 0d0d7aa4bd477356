/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new file: unnamed (O_TMPFILE) until it is complete, or, on file systems without that, under
 * a hidden name beside the final one. An unnamed file gets its final name by linkat(); to
 * replace another file it is linked to a hidden name and renamed.
 *
 * What must stay true:
 *  - Nothing has the final name before give_name(), and nothing is replaced without
 *    CKPT_SINK_REPLACE, not even if somebody makes a file of that name after check_target().
 *  - Bytes that nobody writes are holes: the file is created empty, and before it is synced or
 *    named it gets at least LEAST_SIZE bytes, as ftruncate() alone makes the last hole.
 *  - Its mode is never wider than the caller's, not for a moment. A file that replaces another
 *    gets no wider mode than that one's, where the file system can change it.
 *  - ckpt_sink_write() and ckpt_sink_reach() run in several threads: what they change is atomic.
 */
#include "io/sink.h"

#include "base/paths.h"
#include "io/fault.h"
#include "io/naming.h"
#include "io/space.h"
#include "io/spool.h"
#include "io/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	WRITE_BACK = 8 << 20, /* written back at a time */
	EXPECTED = 1 << 20,   /* for less it is not worth a call */
};

struct ckpt_sink {
	int fd;
	unsigned flags;
	char *path, *dir, *temp; /* TEMP: the hidden name; NULL: the file has none */
	bool kernel_copy;	 /* false once the kernel refused it */
	bool keep_mode;		 /* a file is replaced: keep MODE, OWNER and GROUP */
	mode_t new_mode, mode;	 /* of a new file; of the one that is replaced */
	uid_t owner;
	gid_t group;
	const struct ckpt_save_options *save; /* which may end it; NULL: none */
	int to; /* the bytes go there at the end, and the file gets no name; -1: it gets one */
	const volatile int *cancel; /* of TO; may be NULL */
	uint8_t *map; /* of MAP_SIZE bytes; NULL: it is written to by calls */
	size_t map_size;
	bool is_ext4;
	_Atomic uint64_t started;   /* write-back was asked for up to here */
	_Atomic uint64_t least_size; /* see ckpt_sink_reach() */
};

unsigned ckpt_sink_map_processors = 4;

static void free_sink(struct ckpt_sink *sink)
{
	if (sink->map)
		munmap(sink->map, sink->map_size);
	if (sink->fd >= 0)
		close(sink->fd);
	free(sink->path);
	free(sink->dir);
	free(sink->temp);
	free(sink);
}

void ckpt_sink_discard(struct ckpt_sink *sink)
{
	if (!sink)
		return;
	if (sink->temp)
		unlink(sink->temp);
	free_sink(sink);
}

/* MAKE makes a file called TEMP, or fails with EEXIST: then the next name is tried. */
static int make_temp(struct ckpt_sink *sink, int (*make)(struct ckpt_sink *sink),
		     const char *failure, struct ckpt_error *err)
{
	for (int i = 0; i < CKPT_TEMP_TRIES; i++) {
		int rc;

		sink->temp = ckpt_temp_name(sink->dir, sink->path);
		if (!sink->temp)
			return ckpt_fail_nomem(err);
		if (make(sink) == 0)
			return 0;
		rc = errno == EEXIST && i + 1 < CKPT_TEMP_TRIES
			     ? 0
			     : ckpt_fail_errno(err, "%s in '%s'", failure, sink->dir);
		free(sink->temp);
		sink->temp = NULL;
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int create_named(struct ckpt_sink *sink)
{
	sink->fd = open(sink->temp, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, sink->new_mode);
	if (sink->fd < 0)
		return -1;
	if (ckpt_temp_lock(sink->fd) == 0)
		return 0;
	close(sink->fd);
	sink->fd = -1;
	errno = EEXIST;
	return -1;
}

static int create(struct ckpt_sink *sink, struct ckpt_error *err)
{
	if (access("/proc/self/fd", X_OK) == 0) { /* needed later to link it to a name */
		sink->fd = open(sink->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, sink->new_mode);
		if (sink->fd >= 0)
			return 0;
		if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
			return ckpt_fail_errno(err, "cannot create a file in '%s'", sink->dir);
	}
	return make_temp(sink, create_named, "cannot create a file", err);
}

/*
 * Refuses a target that cannot be replaced before the work, not after it. A symbolic link is
 * replaced itself: the file that it points to may be shared (hub caches are made of such links).
 */
static int check_target(struct ckpt_sink *sink, struct ckpt_error *err)
{
	struct stat link, st;

	if (lstat(sink->path, &link) < 0)
		return errno == ENOENT ? 0 : ckpt_fail_errno(err, "cannot look at the output");
	if (stat(sink->path, &st) < 0)
		st = link; /* it points to nothing */
	if (S_ISDIR(st.st_mode))
		return ckpt_fail(err, CKPT_E_OUTPUT,
				 "the output is an existing folder, wanted a file name");
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return ckpt_fail(err, CKPT_E_OUTPUT,
				 "the output is a device or a pipe, wanted a file name");
	if (!(sink->flags & CKPT_SINK_REPLACE))
		return ckpt_fail(err, CKPT_E_EXISTS, "the output exists already");
	sink->keep_mode = S_ISREG(link.st_mode);
	sink->mode = link.st_mode & 0777;
	sink->owner = link.st_uid;
	sink->group = link.st_gid;
	return 0;
}

/* SIZE is not 0: ext4 writes back at close every file that was ever truncated to nothing. */
static int set_size(struct ckpt_sink *sink, uint64_t size, struct ckpt_error *err)
{
	if (ckpt_io_truncate(sink->fd, (off_t)size) < 0)
		return ckpt_fail_errno(err, "cannot make the output %" PRIu64 " bytes long", size);
	return 0;
}

void ckpt_sink_reach(struct ckpt_sink *sink, uint64_t size)
{
	uint64_t least = sink->least_size;

	while (least < size &&
	       !atomic_compare_exchange_weak(&sink->least_size, &least, size))
		;
}

/* Make the hole that the file ends in: nothing was written there. */
static int extend_to_least_size(struct ckpt_sink *sink, struct ckpt_error *err)
{
	struct stat st;

	if (fstat(sink->fd, &st) < 0)
		return ckpt_fail_errno(err, "cannot look at the output");
	return (uint64_t)st.st_size < sink->least_size ? set_size(sink, sink->least_size, err) : 0;
}

int ckpt_sink_check(const char *path, unsigned flags, struct ckpt_error *err)
{
	struct ckpt_sink sink = { .flags = flags,
				  .path = (char *)path,
				  .dir = ckpt_path_parent(path) };
	int rc = sink.dir ? check_target(&sink, err) : ckpt_fail_nomem(err);

	if (rc == 0 && access(sink.dir, W_OK | X_OK) < 0)
		rc = ckpt_fail_errno(err, "cannot create a file in '%s'", sink.dir);
	free(sink.dir);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

static unsigned processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

/* Where it cannot be mapped it is written to by calls. */
static void map_output(struct ckpt_sink *sink, uint64_t size)
{
	struct statfs kind;
	void *map;

	if (!(sink->flags & CKPT_SINK_THREADS) || size > SIZE_MAX || processors() < ckpt_sink_map_processors ||
	    fstatfs(sink->fd, &kind) < 0 || kind.f_type != TMPFS_MAGIC)
		return;
	map = mmap(NULL, (size_t)size, PROT_WRITE, MAP_SHARED, sink->fd, 0);
	if (map == MAP_FAILED)
		return;
	sink->map = map;
	sink->map_size = (size_t)size;
}

static bool is_ext4(int fd)
{
	struct statfs kind;

	return fstatfs(fd, &kind) == 0 && kind.f_type == EXT4_SUPER_MAGIC;
}

/* With RC of what went before: is there room, and let it have its size. */
static int finish_open(struct ckpt_sink *sink, int rc, const char *name, uint64_t size, uint64_t need,
		       struct ckpt_sink **out, struct ckpt_error *err)
{
	struct statvfs fs;

	if (rc == 0 && fstatvfs(sink->fd, &fs) == 0)
		rc = ckpt_space_check(&fs, need, sink->dir, err);
	ckpt_sink_reach(sink, size);
	if (rc == 0 && size)
		rc = set_size(sink, size, err);
	if (rc == 0 && size)
		map_output(sink, size);
	sink->is_ext4 = rc == 0 && is_ext4(sink->fd);
	if (rc < 0)
		ckpt_sink_discard(sink);
	else
		*out = sink;
	return ckpt_error_at(err, rc, name, NULL, CKPT_NO_OFFSET);
}

int ckpt_sink_open(const char *path, uint64_t size, uint64_t need, unsigned flags, unsigned mode,
		   struct ckpt_sink **out, struct ckpt_error *err)
{
	struct ckpt_sink *sink = calloc(1, sizeof(*sink));
	int rc;

	*out = NULL;
	if (!sink)
		return ckpt_fail_nomem(err);
	sink->fd = sink->to = -1;
	sink->flags = flags;
	sink->new_mode = mode & 0777;
	sink->kernel_copy = true;
	sink->path = strdup(path);
	sink->dir = ckpt_path_parent(path);
	rc = sink->path && sink->dir ? check_target(sink, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = create(sink, err);
	sink->mode &=
		sink->new_mode; /* a private input stays private where the output was public */
	if (rc == 0 && sink->keep_mode && geteuid() == 0 &&
	    fchown(sink->fd, sink->owner, sink->group) < 0 && errno != EPERM &&
	    errno != EOPNOTSUPP && errno != EINVAL)
		rc = ckpt_fail_errno(err, "cannot give the output to the owner of the old one");
	if (rc == 0 && sink->keep_mode && fchmod(sink->fd, sink->mode) < 0 && errno != EPERM &&
	    errno != EOPNOTSUPP)
		rc = ckpt_fail_errno(err, "cannot set the mode of the output");
	return finish_open(sink, rc, path, size, need, out, err);
}

int ckpt_sink_open_fd(int fd, const char *name, const char *folder, uint64_t size, uint64_t need,
		      const volatile int *cancel, struct ckpt_sink **out, struct ckpt_error *err)
{
	struct ckpt_sink *sink = calloc(1, sizeof(*sink));
	int rc = 0;

	*out = NULL;
	if (!sink)
		return ckpt_fail_nomem(err);
	sink->fd = -1;
	sink->flags = CKPT_SINK_NO_SYNC; /* nothing of it is there after a crash */
	sink->kernel_copy = true;
	sink->to = fd;
	sink->cancel = cancel;
	sink->path = strdup(name);
	sink->dir = strdup(folder);
	rc = sink->path && sink->dir ? 0 : ckpt_fail_nomem(err);
	if (rc == 0)
		sink->fd = rc = ckpt_spool_create(sink->dir, err);
	return finish_open(sink, rc < 0 ? rc : 0, name, size, need, out, err);
}

/*
 * Begin to write back early, so that the disk works while bytes are still being copied and the
 * final sync finds little left to do.
 */
static void start_write_back(struct ckpt_sink *sink, uint64_t end)
{
	uint64_t start = sink->started;

	if ((sink->flags & CKPT_SINK_NO_SYNC) || end < start + WRITE_BACK)
		return;
	if (atomic_compare_exchange_strong(&sink->started, &start, end))
		sync_file_range(sink->fd, (off_t)start, (off_t)(end - start),
				SYNC_FILE_RANGE_WRITE);
}

/* An interrupted call has left nothing half done. */
static int write_mapped(struct ckpt_sink *sink, uint64_t off, const void *bytes, size_t len, struct ckpt_error *err)
{
	int rc;

	do
		rc = ckpt_io_write_mapped(sink->fd, sink->map, bytes, len, (off_t)off);
	while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return ckpt_error_at(err, ckpt_fail_errno(err, "cannot write"), sink->path, NULL, CKPT_NO_OFFSET);
	return 0;
}

void ckpt_sink_expect(struct ckpt_sink *sink, uint64_t off, uint64_t len)
{
	if (!sink->is_ext4 || len < EXPECTED)
		return;
	while (ckpt_io_reserve(sink->fd, (off_t)off, (off_t)len) < 0 && errno == EINTR)
		;
}

int ckpt_sink_write(struct ckpt_sink *sink, uint64_t off, const void *bytes, size_t len,
		    struct ckpt_error *err)
{
	const uint8_t *p = bytes;

	if (sink->map && len && off <= sink->map_size && len <= sink->map_size - off)
		return write_mapped(sink, off, bytes, len, err);
	while (len) {
		ssize_t n = ckpt_io_pwrite(sink->fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int rc;

			if (n == 0)
				errno = EIO; /* no call says why */
			rc = ckpt_fail_errno(err, "cannot write");
			return ckpt_error_at(err, rc, sink->path, NULL, CKPT_NO_OFFSET);
		}
		p += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	start_write_back(sink, off);
	return 0;
}

/* Not a failure of the disk: other file systems, old kernels and sandboxes do not have the call. */
static bool kernel_copy_unsupported(int code)
{
	return code == EXDEV || code == ENOSYS || code == EINVAL || code == EOPNOTSUPP ||
	       code == EPERM || code == ETXTBSY || code == EBADF;
}

int ckpt_sink_copy(struct ckpt_sink *sink, uint64_t off, const struct ckpt_source *src,
		   uint64_t src_off, uint64_t len, uint64_t *done, struct ckpt_error *err)
{
	uint64_t file_off;
	int fd = ckpt_source_fd(src, &file_off);

	*done = 0;
	/*
	 * If the pages of both files do not line up, no block can be shared and the kernel splits
	 * every page in two. A buffer that stays in the cache is faster.
	 */
	if (fd < 0 || !sink->kernel_copy || (file_off + src_off) % PAGE != off % PAGE)
		return 0;
	while (*done < len) {
		uint64_t n = len - *done < WRITE_BACK ? len - *done : WRITE_BACK;
		ssize_t got = ckpt_io_copy_range(fd, (off_t)(file_off + src_off + *done), sink->fd,
						 (off_t)(off + *done), n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0 || (got < 0 && kernel_copy_unsupported(errno))) {
			sink->kernel_copy = false;
			return 0;
		}
		if (got < 0)
			return ckpt_error_at(err, ckpt_fail_errno(err, "cannot write"), sink->path,
					     NULL, CKPT_NO_OFFSET);
		*done += (uint64_t)got;
		start_write_back(sink, off + *done);
	}
	return 0;
}

int ckpt_sink_clone(struct ckpt_sink *sink, const struct ckpt_source *src, bool *done,
		    struct ckpt_error *err)
{
	uint64_t off;
	int fd = ckpt_source_fd(src, &off);

	*done = false;
	/* if the output is longer than the input, its last block cannot be shared */
	if (fd < 0 || off || (sink->least_size && ckpt_io_truncate(sink->fd, 0) < 0))
		return 0;
	*done = ckpt_io_clone(fd, sink->fd) == 0;
	if (!*done && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
		return ckpt_error_at(err,
				     ckpt_fail_errno(err, "cannot share the blocks of the input"),
				     sink->path, NULL, CKPT_NO_OFFSET);
	return 0;
}

/* Before anything has its name: there may be no descriptor left for it. */
static int open_dir(const struct ckpt_sink *sink, int *out, struct ckpt_error *err)
{
	*out = sink->flags & CKPT_SINK_NO_SYNC ? -1 : open(sink->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*out < 0 && !(sink->flags & CKPT_SINK_NO_SYNC))
		return ckpt_fail_errno(err, "cannot open the folder '%s' to sync it", sink->dir);
	return 0;
}

static int sync_dir(const struct ckpt_sink *sink, int dir, struct ckpt_error *err)
{
	if (dir < 0 || ckpt_io_sync_dir(dir) == 0 || errno == EINVAL)
		return 0;
	return ckpt_fail_errno(err, "is written and whole, but the folder '%s' cannot be synced", sink->dir);
}

static int link_to(const struct ckpt_sink *sink, const char *name)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", sink->fd);
	return ckpt_io_linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

static int link_temp(struct ckpt_sink *sink)
{
	flock(sink->fd, LOCK_EX | LOCK_NB); /* as one that has the name from the start */
	return link_to(sink, sink->temp);
}

/*
 * An unnamed file gets the final name at once, or, as a link cannot replace a file, a temporary
 * one that is renamed.
 */
static int give_name(struct ckpt_sink *sink, struct ckpt_error *err)
{
	bool replace = sink->flags & CKPT_SINK_REPLACE;
	int rc = extend_to_least_size(sink, err);

	if (rc == 0 && !sink->temp) {
		if (link_to(sink, sink->path) == 0)
			return 0;
		if (errno == EEXIST && !replace)
			return ckpt_fail(err, CKPT_E_EXISTS, "the output exists already");
		if (errno != EEXIST)
			return ckpt_fail_errno(err, "cannot name the output");
		rc = make_temp(sink, link_temp, "cannot name the output", err);
	}
	if (rc < 0)
		return rc;
	if (ckpt_io_rename(sink->temp, sink->path, replace) < 0)
		return errno == EEXIST
			       ? ckpt_fail(err, CKPT_E_EXISTS, "the output exists already")
			       : ckpt_fail_errno(err, "cannot rename the output to its final name");
	free(sink->temp);
	sink->temp = NULL;
	return 0;
}

static int send(struct ckpt_sink *sink, struct ckpt_error *err)
{
	struct stat st;
	int rc = extend_to_least_size(sink, err);

	if (rc == 0 && fstat(sink->fd, &st) < 0)
		rc = ckpt_fail_errno(err, "cannot look at the output");
	return rc < 0 ? rc
		      : ckpt_spool_send(sink->fd, (uint64_t)st.st_size, sink->to, sink->cancel, err);
}

void ckpt_sink_start_sync(struct ckpt_sink *sink)
{
	if (!(sink->flags & CKPT_SINK_NO_SYNC))
		sync_file_range(sink->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int ckpt_sink_fd(const struct ckpt_sink *sink)
{
	return sink->fd;
}

int ckpt_sink_name(struct ckpt_sink *sink, struct ckpt_error *err)
{
	return ckpt_error_at(err, give_name(sink, err), sink->path, NULL, CKPT_NO_OFFSET);
}

int ckpt_sink_sync_part(struct ckpt_sink *sink, uint64_t off, uint64_t len, struct ckpt_error *err)
{
	const unsigned flags = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			       SYNC_FILE_RANGE_WAIT_AFTER;

	if (sink->flags & CKPT_SINK_NO_SYNC ||
	    sync_file_range(sink->fd, (off_t)off, (off_t)len, flags) == 0)
		return 0;
	/* what a disk refuses is told once: fsync() would not say it again */
	if (errno != EIO && errno != ENOSPC && errno != EDQUOT)
		return 0;
	return ckpt_error_at(err, ckpt_fail_errno(err, "cannot sync the output"), sink->path, NULL,
			     CKPT_NO_OFFSET);
}

int ckpt_sink_sync(struct ckpt_sink *sink, struct ckpt_error *err)
{
	int rc = extend_to_least_size(sink, err);

	if (rc == 0 && !(sink->flags & CKPT_SINK_NO_SYNC) && ckpt_io_sync(sink->fd) < 0)
		rc = ckpt_fail_errno(err, "cannot sync the output");
	return ckpt_error_at(err, rc, sink->path, NULL, CKPT_NO_OFFSET);
}

void ckpt_sink_set_save(struct ckpt_sink *sink, const struct ckpt_save_options *o)
{
	sink->save = o;
}

/* What is too short yet gets its size first, so that nothing waits once the naming has begun. */
static int begin_naming(struct ckpt_sink *sink, struct ckpt_error *err)
{
	int rc = extend_to_least_size(sink, err);

	return rc < 0 ? rc : ckpt_naming_begin(sink->save, err);
}

int ckpt_sink_commit(struct ckpt_sink *sink, struct ckpt_error *err)
{
	int dir, rc = open_dir(sink, &dir, err);

	if (rc == 0 && sink->to < 0) {
		rc = begin_naming(sink, err);
		if (rc == 0) {
			rc = give_name(sink, err);
			ckpt_naming_end(sink->save);
		}
	} else if (rc == 0) {
		rc = send(sink, err);
	}
	if (rc == 0)
		rc = sync_dir(sink, dir, err);
	if (dir >= 0)
		close(dir);
	rc = ckpt_error_at(err, rc, sink->path, NULL, CKPT_NO_OFFSET);
	ckpt_sink_discard(sink);
	return rc;
}
