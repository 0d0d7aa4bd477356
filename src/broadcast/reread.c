/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/reread.h"

#include "base/clock.h"
#include "io/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEP = 1 << 20 };

int ckpt_reread_open(struct ckpt_reread *out, struct ckpt_landing *landing,
		     const struct ckpt_manifest *m, const uint32_t *crcs, struct ckpt_error *err)
{
	*out = (struct ckpt_reread){ .landing = landing, .manifest = m, .crcs = crcs, .fd = -1 };
	out->memory = malloc(STEP);
	return out->memory ? 0 : ckpt_fail_nomem(err);
}

void ckpt_reread_close(struct ckpt_reread *r)
{
	if (r->fd >= 0)
		close(r->fd);
	free(r->memory);
}

static int open_file(struct ckpt_reread *r, struct ckpt_error *err)
{
	int rc = ckpt_landing_reopen(r->landing, r->file, &r->fd, err);

	r->off = 0;
	r->crc = 0;
	/* only what is on the disk already can be dropped; a tmpfs has nothing else */
	if (rc == 0)
		posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED);
	return rc;
}

static int read_step(struct ckpt_reread *r, uint64_t left, struct ckpt_error *err)
{
	ssize_t n = ckpt_io_pread(r->fd, r->memory, left < STEP ? left : STEP, (off_t)r->off);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0)
		return ckpt_fail_errno(err, "cannot read what was written");
	if (n == 0)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the disk gives back %" PRIu64 " bytes, %" PRIu64 " were written",
				 r->off, r->off + left);
	r->crc = libdeflate_crc32(r->crc, r->memory, (size_t)n);
	r->off += (uint64_t)n;
	return 0;
}

static int end_file(struct ckpt_reread *r, struct ckpt_error *err)
{
	close(r->fd);
	r->fd = -1;
	if (r->crc == r->crcs[r->file])
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "the disk gives back other bytes than were written: crc32 %08" PRIx32
			 ", wanted %08" PRIx32,
			 r->crc, r->crcs[r->file]);
}

int ckpt_reread_go(struct ckpt_reread *r, uint64_t nsec, bool *done, struct ckpt_error *err)
{
	uint64_t end = ckpt_now_nsec() + nsec;
	int rc = 0;

	while (rc == 0 && r->file < r->manifest->count && ckpt_now_nsec() < end) {
		uint64_t size = r->manifest->files[r->file].size;

		if (r->fd < 0)
			rc = open_file(r, err);
		if (rc == 0 && r->off < size)
			rc = read_step(r, size - r->off, err);
		else if (rc == 0)
			rc = end_file(r, err);
		if (rc < 0)
			rc = ckpt_landing_name_error(r->landing, r->file, rc, err);
		else if (r->fd < 0)
			r->file++;
	}
	*done = r->file == r->manifest->count;
	return rc;
}
