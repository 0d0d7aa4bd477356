/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/slab.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ALIGNMENT = 256 };

struct ckpt_slab {
	struct ckpt_cuda *cuda;	  /* counted */
	ckpt_cuda_address memory; /* 0: no file has a byte */
	uint64_t nbytes;
	uint64_t *starts; /* by file */
	uint64_t *sizes;
	uint32_t count;
};

/* A source of one file. */
struct file_reader {
	const struct ckpt_slab *slab;
	uint32_t file;
};

static int lay_out_files(struct ckpt_slab *slab, const uint64_t *sizes, struct ckpt_error *err)
{
	slab->starts = calloc(slab->count + (size_t)1, sizeof(*slab->starts));
	slab->sizes = calloc(slab->count + (size_t)1, sizeof(*slab->sizes));
	if (!slab->starts || !slab->sizes)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < slab->count; i++) {
		uint64_t room;

		slab->sizes[i] = sizes[i];
		slab->starts[i] = slab->nbytes;
		if (__builtin_add_overflow(sizes[i], ALIGNMENT - 1, &room) ||
		    __builtin_add_overflow(slab->nbytes, room / ALIGNMENT * ALIGNMENT,
					   &slab->nbytes) ||
		    slab->nbytes > SIZE_MAX)
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "files of more bytes than there can be");
	}
	return 0;
}

int ckpt_slab_open(struct ckpt_cuda *cuda, const uint64_t *sizes, uint32_t count,
		   struct ckpt_slab **out, struct ckpt_error *err)
{
	struct ckpt_slab *slab = calloc(1, sizeof(*slab));
	int rc;

	*out = NULL;
	if (!slab)
		return ckpt_fail_nomem(err);
	slab->cuda = ckpt_cuda_ref(cuda);
	slab->count = count;
	rc = lay_out_files(slab, sizes, err);
	if (rc == 0 && slab->nbytes)
		rc = ckpt_cuda_alloc(cuda, (size_t)slab->nbytes, &slab->memory, err);
	if (rc < 0)
		ckpt_slab_free(slab);
	else
		*out = slab;
	return rc;
}

void ckpt_slab_free(struct ckpt_slab *slab)
{
	if (!slab)
		return;
	if (slab->memory)
		ckpt_cuda_free(slab->cuda, slab->memory);
	ckpt_cuda_close(slab->cuda);
	free(slab->starts);
	free(slab->sizes);
	free(slab);
}

ckpt_cuda_address ckpt_slab_address(const struct ckpt_slab *slab, uint32_t file, uint64_t off)
{
	return slab->memory + slab->starts[file] + off;
}

int ckpt_slab_write(struct ckpt_slab *slab, uint32_t file, uint64_t off, const void *bytes,
		    size_t len, struct ckpt_error *err)
{
	return ckpt_cuda_upload(slab->cuda, ckpt_slab_address(slab, file, off), bytes, len, err);
}

int ckpt_slab_read(const struct ckpt_slab *slab, ckpt_cuda_address address, void *to, size_t len,
		   struct ckpt_error *err)
{
	if (address < slab->memory || address - slab->memory > slab->nbytes ||
	    len > slab->nbytes - (address - slab->memory))
		return ckpt_fail(err, CKPT_E_ARG,
				 "%zu bytes at %#" PRIx64
				 " are not of this checkpoint, which is at %#" PRIx64
				 " and has %" PRIu64,
				 len, address, slab->memory, slab->nbytes);
	return len ? ckpt_cuda_download(slab->cuda, to, address, len, err) : 0;
}

static int read_file(void *ctx, uint64_t off, void *buf, size_t len, struct ckpt_error *err)
{
	const struct file_reader *r = ctx;

	return ckpt_slab_read(r->slab, ckpt_slab_address(r->slab, r->file, off), buf, len, err);
}

int ckpt_slab_source(struct ckpt_slab *slab, uint32_t file, struct ckpt_source **out,
		     struct ckpt_error *err)
{
	static const struct ckpt_source_maker maker = { read_file, free, true };
	struct file_reader *r = malloc(sizeof(*r));

	*out = NULL;
	if (!r)
		return ckpt_fail_nomem(err);
	*r = (struct file_reader){ slab, file };
	return ckpt_source_make(&maker, r, NULL, slab->sizes[file], out, err);
}
