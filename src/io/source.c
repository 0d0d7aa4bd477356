/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source is one of four kinds: a file (FD), memory (MEMORY), a slice of another source (BASE),
 * or made by callbacks (MAKER). Slices and made sources hold references down to a root, which
 * answers for path, permissions and changes. Windows, at the end, are buffers for many small
 * reads.
 *
 * What must stay true: nothing in a source changes once it is made but its reference count and its
 * map, and
 * files are read with pread(), so that many threads can read one; ckpt_source_read() checks the
 * range against the outermost slice, which its creation checked against the rest.
 */
#include "io/source.h"

#include "io/fault.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct ckpt_source {
	_Atomic unsigned refs;
	int fd;			  /* owned; -1: memory or slice */
	const uint8_t *memory;	  /* borrowed */
	struct ckpt_source *base; /* owned reference, for slices */
	const struct ckpt_source_maker *maker;
	void *ctx;		    /* owned, for MAKER */
	struct ckpt_source *origin; /* owned reference, for MAKER */
	uint64_t off, size;	    /* OFF: in BASE */
	uint8_t *edges; /* owned: the first EDGE bytes of a slice, then its last EDGE bytes */
	size_t edge;
	_Atomic(void *) map; /* owned: of all of a file; NULL: nobody asked yet */
	char *path;	     /* owned, of a file */
	struct stat st; /* of a file, when it was opened */
};

static struct ckpt_source *new_source(uint64_t size)
{
	struct ckpt_source *src = calloc(1, sizeof(*src));

	if (src) {
		src->refs = 1;
		src->fd = -1;
		src->size = size;
	}
	return src;
}

static int open_regular(struct ckpt_source *src, struct ckpt_error *err)
{
	src->fd = open(src->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (src->fd < 0)
		return ckpt_fail_errno(err, "cannot open");
	if (fstat(src->fd, &src->st) < 0)
		return ckpt_fail_errno(err, "cannot look at the file");
	if (S_ISDIR(src->st.st_mode))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is a directory, wanted a file");
	if (!S_ISREG(src->st.st_mode))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is not a regular file");
	src->size = (uint64_t)src->st.st_size;
	return 0;
}

int ckpt_source_open(const char *path, struct ckpt_source **out, struct ckpt_error *err)
{
	struct ckpt_source *src = new_source(0);
	int rc;

	*out = NULL;
	if (!src || !(src->path = strdup(path))) {
		free(src);
		return ckpt_fail_nomem(err);
	}
	rc = open_regular(src, err);
	if (rc < 0)
		ckpt_source_unref(src);
	else
		*out = src;
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

int ckpt_source_from_memory(const void *bytes, size_t len, struct ckpt_source **out,
			    struct ckpt_error *err)
{
	struct ckpt_source *src = new_source(len);

	*out = src;
	if (!src)
		return ckpt_fail_nomem(err);
	src->memory = bytes ? bytes : (const uint8_t *)"";
	return 0;
}

int ckpt_source_slice(struct ckpt_source *base, uint64_t off, uint64_t len,
		      struct ckpt_source **out, struct ckpt_error *err)
{
	struct ckpt_source *src;

	*out = NULL;
	if (off > base->size || len > base->size - off)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "slice of %" PRIu64 " bytes at %" PRIu64 " is outside %" PRIu64
				 " bytes",
				 len, off, base->size);
	src = new_source(len);
	if (!src)
		return ckpt_fail_nomem(err);
	src->base = ckpt_source_ref(base);
	src->off = off;
	*out = src;
	return 0;
}

static int read_edges(struct ckpt_source *src, size_t edge, struct ckpt_error *err)
{
	bool whole = src->size <= 2 * (uint64_t)edge;
	uint8_t *edges = malloc(2 * edge + 1);
	int rc;

	if (!edges)
		return ckpt_fail_nomem(err);
	rc = ckpt_source_read(src, 0, edges, whole ? (size_t)src->size : edge, err);
	if (rc == 0 && !whole)
		rc = ckpt_source_read(src, src->size - edge, edges + edge, edge, err);
	if (whole) /* the first edge has all of it */
		edge = (size_t)src->size;
	src->edges = edges;
	src->edge = edge;
	return rc;
}

int ckpt_source_slice_edges(struct ckpt_source *base, uint64_t off, uint64_t len, size_t edge,
			    struct ckpt_source **out, struct ckpt_error *err)
{
	int rc = ckpt_source_slice(base, off, len, out, err);

	if (rc == 0)
		rc = read_edges(*out, edge, err);
	if (rc < 0) {
		ckpt_source_unref(*out);
		*out = NULL;
	}
	return rc;
}

int ckpt_source_make(const struct ckpt_source_maker *maker, void *ctx, struct ckpt_source *origin,
		     uint64_t size, struct ckpt_source **out, struct ckpt_error *err)
{
	struct ckpt_source *src = new_source(size);

	*out = src;
	if (!src) {
		maker->free(ctx);
		return ckpt_fail_nomem(err);
	}
	src->maker = maker;
	src->ctx = ctx;
	src->origin = ckpt_source_ref(origin);
	return 0;
}

/* The LEN bytes at OFF, or NULL if they are not in one of the edges. */
static const uint8_t *find_in_edges(const struct ckpt_source *src, uint64_t off, size_t len)
{
	if (!src->edges)
		return NULL;
	if (off + len <= src->edge)
		return src->edges + off;
	if (src->size > src->edge && off >= src->size - src->edge)
		return src->edges + src->edge + (off - (src->size - src->edge));
	return NULL;
}

struct ckpt_source *ckpt_source_ref(struct ckpt_source *src)
{
	if (src)
		src->refs++;
	return src;
}

void ckpt_source_unref(struct ckpt_source *src)
{
	if (!src || --src->refs)
		return;
	if (src->map)
		munmap(src->map, src->size);
	if (src->fd >= 0)
		close(src->fd);
	if (src->maker)
		src->maker->free(src->ctx);
	ckpt_source_unref(src->origin);
	ckpt_source_unref(src->base);
	free(src->path);
	free(src->edges);
	free(src);
}

static int map_file(struct ckpt_source *src, struct ckpt_error *err)
{
	void *none = NULL, *map;

	if (src->map)
		return 0;
	map = mmap(NULL, src->size, PROT_READ, MAP_SHARED, src->fd, 0);
	if (map == MAP_FAILED)
		return ckpt_fail_errno(err, "cannot map the file");
	if (!atomic_compare_exchange_strong(&src->map, &none, map))
		munmap(map, src->size); /* another thread was faster */
	return 0;
}

int ckpt_source_map(struct ckpt_source *src, const uint8_t **out, struct ckpt_error *err)
{
	int rc = 0;

	*out = (const uint8_t *)"";
	if (!src->size)
		return 0;
	if (src->memory) {
		*out = src->memory;
	} else if (src->base) {
		rc = ckpt_source_map(src->base, out, err);
		*out += src->off;
	} else if (src->fd >= 0) {
		rc = map_file(src, err);
		*out = src->map;
	} else {
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "its bytes are in no file");
	}
	return ckpt_error_at(err, rc, src->path, NULL, CKPT_NO_OFFSET);
}

uint64_t ckpt_source_size(const struct ckpt_source *src)
{
	return src->size;
}

static const struct ckpt_source *root_of(const struct ckpt_source *src)
{
	while (src->base || src->origin)
		src = src->base ? src->base : src->origin;
	return src;
}

const char *ckpt_source_path(const struct ckpt_source *src)
{
	return root_of(src)->path;
}

static int read_file(int fd, uint64_t off, uint8_t *buf, size_t len, struct ckpt_error *err)
{
	while (len) {
		ssize_t n = ckpt_io_pread(fd, buf, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ckpt_fail_errno(err, "cannot read");
		if (n == 0)
			return ckpt_fail(err, CKPT_E_CHANGED,
					 "the file became shorter while it was being read");
		buf += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int ckpt_source_read(const struct ckpt_source *src, uint64_t off, void *buf, size_t len,
		     struct ckpt_error *err)
{
	if (off > src->size || len > src->size - off)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "wanted %zu bytes at %" PRIu64 ", the file has %" PRIu64, len, off,
				 src->size);
	for (; src->base; src = src->base) {
		const uint8_t *edge = find_in_edges(src, off, len);

		if (edge) {
			memcpy(buf, edge, len);
			return 0;
		}
		off += src->off;
	}
	if (src->memory) {
		if (len)
			memcpy(buf, src->memory + off, len);
		return 0;
	}
	if (src->maker)
		return src->maker->read(src->ctx, off, buf, len, err);
	return read_file(src->fd, off, buf, len, err);
}

bool ckpt_source_is_sequential(const struct ckpt_source *src)
{
	while (src->base)
		src = src->base;
	return src->maker && !src->maker->is_random;
}

int ckpt_source_fd(const struct ckpt_source *src, uint64_t *file_off)
{
	*file_off = 0;
	for (; src->base; src = src->base)
		*file_off += src->off;
	return src->fd;
}

void ckpt_source_will_need(const struct ckpt_source *src, uint64_t off, uint64_t len)
{
	enum { AT_ONCE = 128 << 10 }; /* Linux fetches no more than its read-ahead for one call */
	uint64_t start;
	int fd = ckpt_source_fd(src, &start);

	for (uint64_t pos = 0; fd >= 0 && pos < len; pos += AT_ONCE)
		if (posix_fadvise(fd, (off_t)(start + off + pos), AT_ONCE, POSIX_FADV_WILLNEED) != 0)
			return;
}

bool ckpt_source_next_data(const struct ckpt_source *src, uint64_t *off, uint64_t end,
			   uint64_t *data_end)
{
	uint64_t start;
	int fd = ckpt_source_fd(src, &start);
	off_t data, hole;

	*data_end = end;
	if (*off >= end)
		return false;
	if (fd < 0)
		return true;
	data = lseek(fd, (off_t)(start + *off), SEEK_DATA);
	if (data < 0)
		return errno != ENXIO; /* ENXIO: no data is left; other errors: all is data */
	if ((uint64_t)data - start >= end)
		return false;
	hole = lseek(fd, data, SEEK_HOLE);
	*off = (uint64_t)data - start;
	if (hole > data && (uint64_t)hole - start < end)
		*data_end = (uint64_t)hole - start;
	return true;
}

unsigned ckpt_mode_for_new(const struct stat *st)
{
	unsigned mode = st->st_mode & 0777, both = mode >> 3 & mode & 7;

	/* group permissions are for the input's group, whose members are everybody to another group: what both may, and no more */
	return st->st_gid == getegid() ? mode : (mode & 0700) | both << 3 | both;
}

unsigned ckpt_source_mode(const struct ckpt_source *src)
{
	const struct ckpt_source *root = root_of(src);

	return root->fd < 0 ? 0666 : ckpt_mode_for_new(&root->st);
}

uint64_t ckpt_source_disk_bytes(const struct ckpt_source *src)
{
	const struct ckpt_source *root = root_of(src);

	return root->fd < 0 ? root->size : (uint64_t)root->st.st_blocks * 512;
}

int ckpt_source_check_unchanged(const struct ckpt_source *src, struct ckpt_error *err)
{
	const struct ckpt_source *root = root_of(src);
	struct stat now;

	if (root->fd < 0)
		return 0;
	if (fstat(root->fd, &now) < 0)
		return ckpt_fail_errno(err, "cannot look at the file");
	if (now.st_size != root->st.st_size || now.st_mtim.tv_sec != root->st.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != root->st.st_mtim.tv_nsec)
		return ckpt_fail(err, CKPT_E_CHANGED, "was changed while it was being read");
	return 0;
}

bool ckpt_source_identity(const struct ckpt_source *src, dev_t *dev, ino_t *ino)
{
	const struct ckpt_source *root = root_of(src);

	*dev = root->st.st_dev;
	*ino = root->st.st_ino;
	return root->fd >= 0;
}

int ckpt_window_init(struct ckpt_window *w, const struct ckpt_source *src, size_t cap,
		     struct ckpt_error *err)
{
	uint8_t *bytes = malloc(cap);

	*w = (struct ckpt_window){ 0 };
	if (!bytes)
		return ckpt_fail_nomem(err);
	*w = (struct ckpt_window){ .src = src, .cap = cap, .ahead = cap, .bytes = bytes };
	return 0;
}

void ckpt_window_clear(struct ckpt_window *w)
{
	free(w->bytes);
	*w = (struct ckpt_window){ 0 };
}

int ckpt_window_read(struct ckpt_window *w, uint64_t off, size_t len, const uint8_t **out,
		     struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(w->src), want = w->ahead > len ? w->ahead : len;
	int rc;

	assert(len <= w->cap);
	if (off < w->off || off - w->off > w->len || len > w->len - (off - w->off)) {
		if (off <= size && want > size - off)
			want = size - off;
		if (want < len)
			want = len; /* reaches past the end: let the source say so */
		w->len = 0;
		rc = ckpt_source_read(w->src, off, w->bytes, want, err);
		if (rc < 0)
			return rc;
		w->off = off;
		w->len = want;
	}
	*out = w->bytes + (off - w->off);
	return 0;
}
