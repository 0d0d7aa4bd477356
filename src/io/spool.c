/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that come out of a pipe, into an unnamed file, and a file into a pipe.
 *
 * What must stay true: the file has no name, so that nothing is left of it however this process ends;
 * neither end waits longer than WAIT_MS before it looks whether the call was cancelled; and nobody
 * else's descriptor becomes non-blocking.
 */
#include "io/spool.h"

#include "io/fault.h"

#include <ckpt/model.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PIECE = 256 << 10,
	/* What a pipe takes without waiting once poll() says that it takes something (pipe(7)). */
	SMALL_PIECE = 4096,
	WAIT_MS = 200, /* for a pipe, before CANCEL is looked at again */
};

/* For file systems without unnamed files. */
static int create_and_unlink(const char *folder)
{
	char path[4096];
	int fd;

	if (snprintf(path, sizeof(path), "%s/ckpt-XXXXXX", folder) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

int ckpt_spool_create(const char *folder, struct ckpt_error *err)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
		fd = create_and_unlink(folder);
	if (fd < 0)
		return ckpt_fail_errno(err, "cannot create a temporary file in '%s'", folder);
	return fd;
}

/* ---- what comes out of a pipe ---- */

static int read_piece(int fd, void *buf, struct ckpt_error *err)
{
	for (;;) {
		ssize_t n = read(fd, buf, PIECE);
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		if (n >= 0)
			return (int)n;
		if (errno == EAGAIN) /* whoever made the pipe wants it so */
			poll(&wait, 1, -1);
		else if (errno != EINTR)
			return ckpt_fail_errno(err, "cannot read");
	}
}

static int write_piece(int fd, const uint8_t *p, size_t len, uint64_t off, const char *folder,
		       struct ckpt_error *err)
{
	while (len) {
		ssize_t n = ckpt_io_pwrite(fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return ckpt_fail_errno(err,
					       "cannot keep what comes in, after %" PRIu64
					       " bytes, in '%s'",
					       off, folder);
		p += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int copy_all(int from, int to, uint64_t limit, const char *folder, struct ckpt_error *err)
{
	uint8_t *buf = malloc(PIECE);
	uint64_t off = 0;
	int n, rc = 0;

	if (!buf)
		return ckpt_fail_nomem(err);
	while (rc == 0 && (n = read_piece(from, buf, err)) != 0) {
		if (n < 0)
			rc = n;
		else if ((uint64_t)n > limit - off)
			rc = ckpt_fail(err, CKPT_E_LIMIT,
				       "has more than %" PRIu64
				       " bytes, the limit of what is kept in '%s'",
				       limit, folder);
		else
			rc = write_piece(to, buf, (size_t)n, off, folder, err);
		off += n > 0 ? (uint64_t)n : 0;
	}
	free(buf);
	return rc;
}

int ckpt_spool(int fd, const char *folder, uint64_t limit, int *out, struct ckpt_error *err)
{
	int file, rc;

	*out = -1;
	if (fcntl(fd, F_GETFD) < 0)
		return ckpt_fail_errno(err, "cannot be read");
	file = ckpt_spool_create(folder, err);
	if (file < 0)
		return file;
	rc = copy_all(fd, file, limit, folder, err);
	/* nobody else finds the file; OUT gets its mode, and is as public as the umask lets it be */
	if (rc == 0 && fchmod(file, 0666) < 0)
		rc = ckpt_fail_errno(err, "cannot set the mode of a temporary file");
	if (rc < 0)
		close(file);
	else
		*out = file;
	return rc;
}

/* ---- what goes into a pipe ---- */

struct outlet {
	int fd, own; /* OWN: to be closed; -1: none */
	bool is_socket;
	size_t most; /* bytes at a time that never wait for the reader */
};

/*
 * A pipe is opened once more, not to wait in write(), which only a signal without SA_RESTART would
 * end. O_NONBLOCK on FD itself would be for all who have it.
 */
static struct outlet open_outlet(int fd)
{
	struct outlet o = { .fd = fd, .own = -1, .most = PIECE };
	struct stat st;
	char self[64];

	if (fstat(fd, &st) < 0)
		return o;
	o.is_socket = S_ISSOCK(st.st_mode);
	if (S_ISFIFO(st.st_mode)) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
		o.own = open(self, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		o.most = o.own < 0 ? SMALL_PIECE : PIECE;
	}
	if (o.own >= 0)
		o.fd = o.own;
	return o;
}

static int send_piece(const struct outlet *o, const uint8_t *p, size_t len,
		      const volatile int *cancel, struct ckpt_error *err)
{
	while (len) {
		size_t most = len < o->most ? len : o->most;
		struct pollfd wait = { .fd = o->fd, .events = POLLOUT };
		ssize_t n = 0;

		if (cancel && *cancel)
			return ckpt_fail(err, CKPT_E_CANCELLED,
					 "interrupted, it has not got all bytes");
		if (poll(&wait, 1, WAIT_MS) != 0)
			n = o->is_socket ? send(o->fd, p, most, MSG_DONTWAIT | MSG_NOSIGNAL)
					 : write(o->fd, p, most);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return ckpt_fail_errno(err, "cannot write");
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

int ckpt_spool_send(int from, uint64_t size, int to, const volatile int *cancel,
		    struct ckpt_error *err)
{
	struct outlet o = open_outlet(to);
	uint8_t *buf = malloc(PIECE);
	int rc = buf ? 0 : ckpt_fail_nomem(err);

	for (uint64_t off = 0; rc == 0 && off < size;) {
		size_t want = size - off < PIECE ? (size_t)(size - off) : PIECE;
		ssize_t n = ckpt_io_pread(from, buf, want, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n < 0 ? errno : EIO; /* no call says why */
			rc = ckpt_fail_errno(err, "cannot read the temporary file");
			break;
		}
		rc = send_piece(&o, buf, (size_t)n, cancel, err);
		off += (uint64_t)n;
	}
	free(buf);
	if (o.own >= 0)
		close(o.own);
	return rc;
}
