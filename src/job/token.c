/* SPDX-License-Identifier: Apache-2.0 */
#include "job/token.h"

#include "io/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST = 16, MOST = 1024 };

static int use_token(const char *text, size_t len, const char *from, uint8_t secret[CKPT_WIRE_KEY],
		     struct ckpt_error *err)
{
	if (len < LEAST || len > MOST)
		return ckpt_fail(err, CKPT_E_ARG,
				 "the token in %.300s has %s%zu bytes, wanted %d to %d: for example "
				 "32 random bytes in hex",
				 from, len > MOST ? "more than " : "", len > MOST ? (size_t)MOST : len, LEAST, MOST);
	ckpt_wire_make_secret(text, len, secret);
	return 0;
}

static ssize_t read_all(int fd, char *buf, size_t size)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = ckpt_io_pread(fd, buf + len, size - len, (off_t)len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

static int read_open_file(int fd, const char *path, uint8_t secret[CKPT_WIRE_KEY],
			  struct ckpt_error *err)
{
	char text[MOST + 3]; /* the end of the line, and one to see that it is longer */
	struct stat st;
	ssize_t len;
	int rc;

	if (fstat(fd, &st) < 0)
		return ckpt_fail_errno(err, "cannot look at the file of the token");
	if (!S_ISREG(st.st_mode))
		return ckpt_fail(err, CKPT_E_ARG, "is no file that could hold a token");
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return ckpt_fail(err, CKPT_E_ARG,
				 "others than its owner may use the file of the token (mode %04o): "
				 "chmod 600 changes that",
				 (unsigned)(st.st_mode & 07777));
	len = read_all(fd, text, sizeof(text));
	if (len < 0)
		return ckpt_fail_errno(err, "cannot read the file of the token");
	for (ssize_t i = 0; i < len; i++)
		if (text[i] == '\n' || text[i] == '\r')
			len = i;
	rc = use_token(text, (size_t)len, path, secret, err);
	explicit_bzero(text, sizeof(text));
	return rc;
}

static int read_file(const char *path, uint8_t secret[CKPT_WIRE_KEY], struct ckpt_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;

	if (fd < 0)
		return ckpt_fail_errno(err, "cannot open the file of the token");
	rc = read_open_file(fd, path, secret, err);
	close(fd);
	return rc;
}

int ckpt_token_read(const char *file, ckpt_lookup *lookup, void *ctx,
		    uint8_t secret[CKPT_WIRE_KEY], struct ckpt_error *err)
{
	const char *value = lookup(ctx, "CKPT_TOKEN");

	if (file)
		return ckpt_error_at(err, read_file(file, secret, err), file, NULL, CKPT_NO_OFFSET);
	if (!value || !*value)
		return ckpt_fail(err, CKPT_E_ARG,
				 "ranks that meet by tcp:// prove to each other that they know a "
				 "token: give all ranks the same CKPT_TOKEN, or a --token-file");
	return use_token(value, strlen(value), "CKPT_TOKEN", secret, err);
}
