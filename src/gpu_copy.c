/* SPDX-License-Identifier: Apache-2.0 */
#include <ckpt/gpu.h>

#include "base/sized.h"
#include "format/format.h"
#include "gpu/bounded.h"
#include "gpu/copy.h"

uint32_t ckpt_gpu_file_count(const struct ckpt_gpu_copy *copy)
{
	return copy->count;
}

int ckpt_gpu_file_get(const struct ckpt_gpu_copy *copy, uint32_t file, struct ckpt_gpu_file *out)
{
	struct ckpt_gpu_file f = CKPT_GPU_FILE_INIT;

	if (file >= copy->count || ckpt_sized_check(out, sizeof(f), NULL) < 0)
		return CKPT_E_ARG;
	f.path = copy->paths[file];
	f.address = ckpt_slab_address(copy->slab, file, 0);
	f.nbytes = copy->sizes[file];
	ckpt_sized_give(out, &f, sizeof(f));
	return 0;
}

int ckpt_gpu_open(const struct ckpt_gpu_copy *copy, uint32_t file, struct ckpt_model **out,
		  struct ckpt_error *err)
{
	*out = NULL;
	if (file >= copy->count)
		return ckpt_fail(err, CKPT_E_ARG, "file %u: there are %u", file, copy->count);
	if (copy->is_directory)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"a directory's tensors cannot be listed on the GPU; 'ckpt merge' makes one file of it");
	return ckpt_error_at(err, ckpt_format_open(copy->sources[file], out, err),
			     copy->paths[file], NULL, CKPT_NO_OFFSET);
}

static int fail_no_address(const struct ckpt_tensor *t, const char *why, struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%.120s' has no address on the GPU: %s",
			 t->name ? t->name : "", why);
}

/* The file of the copy that MODEL was opened from, or COUNT. */
static uint32_t file_of(const struct ckpt_gpu_copy *copy, const struct ckpt_model *model)
{
	uint32_t i = 0;

	while (i < copy->count && copy->sources[i] != model->doc->source)
		i++;
	return i;
}

int ckpt_gpu_tensor_address(const struct ckpt_gpu_copy *copy, const struct ckpt_model *model,
			    uint64_t i, uint64_t *out, struct ckpt_error *err)
{
	uint32_t file = file_of(copy, model);
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	const struct ckpt_tensor *t;
	struct ckpt_recipe bytes;
	int rc;

	*out = 0;
	rc = ckpt_list_tensors(model, err);
	if (rc < 0)
		return rc;
	if (file == copy->count || i >= ckpt_tensor_count(model))
		return ckpt_fail(err, CKPT_E_ARG,
				 "no such tensor, or a model that is not of this copy");
	t = &model->tensors[i];
	if (t->kind != CKPT_KIND_STRIDED || t->storage < 0)
		return fail_no_address(t, "it is not a plain tensor", err);
	rc = ckpt_model_storage_bytes(model, &model->storages[t->storage], &bytes, err);
	if (rc < 0)
		return rc;
	if (bytes.kind != CKPT_RECIPE_EXTENT || bytes.src != copy->sources[file])
		return bytes.len ? fail_no_address(t, "its bytes are not in the file as they are",
						   err)
				 : 0;
	ckpt_file_get(model, &info);
	if (info.byteorder[0] == 'b' && ckpt_dtype_size(t->dtype) > 1)
		return fail_no_address(t, "the file is big-endian", err);
	*out = ckpt_slab_address(copy->slab, file,
				 bytes.off + t->offset * ckpt_dtype_size(t->dtype));
	return 0;
}

int ckpt_gpu_read(const struct ckpt_gpu_copy *copy, uint64_t address, void *to, size_t nbytes,
		  struct ckpt_error *err)
{
	return ckpt_slab_read(copy->slab, address, to, nbytes, err);
}

void ckpt_gpu_release(struct ckpt_gpu_copy *copy)
{
	ckpt_gpu_copy_free(copy);
}

unsigned ckpt_gpu_hanging_calls(void)
{
	return ckpt_gpu_count_abandoned();
}
