/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/copy.h"

#include "gpu/bounded.h"

#include <stdlib.h>
#include <string.h>

static int list_files(struct ckpt_gpu_copy *copy, const char *const *paths, const uint64_t *sizes,
		      struct ckpt_error *err)
{
	copy->paths = calloc(copy->count + (size_t)1, sizeof(char *));
	copy->sizes = calloc(copy->count + (size_t)1, sizeof(*copy->sizes));
	copy->sources = calloc(copy->count + (size_t)1, sizeof(struct ckpt_source *));
	if (!copy->paths || !copy->sizes || !copy->sources)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < copy->count; i++) {
		copy->paths[i] = strdup(paths[i]);
		if (!copy->paths[i])
			return ckpt_fail_nomem(err);
		copy->sizes[i] = sizes[i];
	}
	return 0;
}

static int make_sources(struct ckpt_gpu_copy *copy, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < copy->count; i++)
		rc = ckpt_slab_source(copy->slab, i, &copy->sources[i], err);
	return rc;
}

int ckpt_gpu_copy_new(uint32_t ordinal, const char *const *paths, const uint64_t *sizes,
		      uint32_t count, bool is_directory, struct ckpt_gpu_copy **out,
		      struct ckpt_error *err)
{
	struct ckpt_gpu_copy *copy = calloc(1, sizeof(*copy));
	int rc;

	*out = NULL;
	if (!copy)
		return ckpt_fail_nomem(err);
	copy->count = count;
	copy->is_directory = is_directory;
	rc = list_files(copy, paths, sizes, err);
	if (rc == 0)
		rc = ckpt_cuda_open(ordinal, &copy->cuda, err);
	if (rc == 0)
		rc = ckpt_slab_open(copy->cuda, sizes, count, &copy->slab, err);
	if (rc == 0)
		rc = make_sources(copy, err);
	if (rc < 0)
		ckpt_gpu_copy_free(copy);
	else
		*out = copy;
	return rc;
}

void ckpt_gpu_copy_end(struct ckpt_gpu_copy *copy)
{
	if (!copy)
		return;
	for (uint32_t i = 0; i < copy->count; i++) {
		if (copy->sources)
			ckpt_source_unref(copy->sources[i]);
		if (copy->paths)
			free(copy->paths[i]);
	}
	ckpt_slab_free(copy->slab);
	if (copy->cuda)
		ckpt_cuda_close(copy->cuda);
	free(copy->paths);
	free(copy->sizes);
	free(copy->sources);
	free(copy);
}

static void end_copy(void *copy)
{
	ckpt_gpu_copy_end(copy);
}

void ckpt_gpu_copy_free(struct ckpt_gpu_copy *copy)
{
	if (copy && copy->cuda)
		ckpt_gpu_run_bounded(end_copy, copy);
	else
		ckpt_gpu_copy_end(copy);
}
