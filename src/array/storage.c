/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <ckpt/storage.h>: the bytes of storages, for programs that put them into memory of their own.
 * The bytes come from the model as recipes, and from there by the one loop of plan/read_blocks.h.
 *
 * torch turns the numbers of a big-endian file around by the class of a storage; so is it here,
 * whatever the tensors that show it are.
 */
#include "base/cancel.h"
#include "base/sized.h"
#include "model/model.h"
#include "plan/read_blocks.h"
#include "tensor/byteswap.h"

#include <ckpt/storage.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Storage I as it is in the files. *WIDTH: of the numbers that have to be turned around; 1: none. */
static int find_bytes(const struct ckpt_model *model, uint64_t i, struct ckpt_recipe *out,
		      uint32_t *width, struct ckpt_error *err)
{
	const struct ckpt_storage *s = &model->storages[i];
	int rc;

	if (i >= model->storage_count)
		return ckpt_fail(err, CKPT_E_ARG,
				 "storage %" PRIu64 " is wanted, there are %" PRIu32, i,
				 model->storage_count);
	*width = 1;
	*out = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = "" };
	if (!s->nbytes)
		return 0; /* its record may be missing */
	rc = ckpt_model_storage_bytes(model, s, out, err);
	if (rc == 0 && out->len != s->nbytes)
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "storage '%.200s' has %" PRIu64 " bytes, wanted %" PRIu64, s->key,
			       out->len, s->nbytes);
	if (model->doc->big_endian && !s->made)
		*width = ckpt_byteswap_width(s->dtype);
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

static bool is_as_in_memory(const struct ckpt_recipe *bytes, uint32_t width)
{
	return bytes->kind == CKPT_RECIPE_EXTENT && width == 1;
}

int ckpt_storage_get(const struct ckpt_model *model, uint64_t i, struct ckpt_storage_info *out,
		     struct ckpt_error *err)
{
	struct ckpt_storage_info info = CKPT_STORAGE_INFO_INIT;
	const struct ckpt_storage *s = &model->storages[i];
	struct ckpt_recipe bytes;
	uint64_t file_off;
	uint32_t width = 1;
	int fd;
	int rc = ckpt_sized_check(out, sizeof(info), err);

	if (rc == 0)
		rc = find_bytes(model, i, &bytes, &width, err);
	if (rc < 0)
		return rc;
	info.key = s->key;
	info.dtype = ckpt_dtype_name(s->dtype);
	info.device = s->location ? s->location : "";
	info.numel = s->numel;
	info.nbytes = s->nbytes;
	info.has_crc = bytes.has_crc;
	info.is_cut = s->is_cut && !s->made;
	info.is_one_way = bytes.is_one_way;
	info.crc32 = bytes.crc32;
	info.descriptor = -1;
	fd = is_as_in_memory(&bytes, width) ? ckpt_source_fd(bytes.src, &file_off) : -1;
	if (fd >= 0) {
		info.descriptor = fd;
		info.path = ckpt_source_path(bytes.src);
		info.offset = file_off + bytes.off;
	}
	ckpt_sized_give(out, &info, sizeof(info));
	return 0;
}

int ckpt_storage_map(const struct ckpt_model *model, uint64_t i, const void **out,
		     struct ckpt_error *err)
{
	struct ckpt_recipe bytes;
	const uint8_t *map;
	uint32_t width = 1;
	int rc = find_bytes(model, i, &bytes, &width, err);

	*out = "";
	if (rc < 0 || !bytes.len)
		return rc;
	if (bytes.kind == CKPT_RECIPE_MEMORY && width == 1) {
		*out = bytes.memory;
		return 0;
	}
	if (!is_as_in_memory(&bytes, width))
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "storage '%.200s' is in the file in another form than in memory",
			       model->storages[i].key);
	if (rc == 0) /* only its cache of the map changes */
		rc = ckpt_source_map((struct ckpt_source *)bytes.src, &map, err);
	if (rc == 0)
		*out = map + bytes.off;
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

/* ---- many at once ---- */

struct storage_reading {
	const struct ckpt_model *model;
	const struct ckpt_storage_range *ranges;
	uint64_t count, total;
	struct ckpt_storage_read_options options;
	struct ckpt_recipe *recipes, *wholes; /* COUNT of each */
	struct ckpt_byteswap *swaps;	      /* COUNT; NULL: none is needed */
	struct ckpt_skip *skips;
	uint32_t *crc32;
};

static uint8_t *place_of(void *ctx, uint64_t i, uint64_t pos)
{
	const struct storage_reading *r = ctx;

	return (uint8_t *)r->ranges[i].buf + pos;
}

static int tick(void *ctx, uint64_t done, struct ckpt_error *err)
{
	const struct storage_reading *r = ctx;

	if (ckpt_cancelled(r->options.cancel))
		return ckpt_fail(err, CKPT_E_CANCELLED, "cancelled");
	return r->options.progress ? r->options.progress(r->options.progress_ctx, done, r->total)
				   : 0;
}

static int plan_range(struct storage_reading *r, uint64_t i, struct ckpt_error *err)
{
	const struct ckpt_storage_range *range = &r->ranges[i];
	struct ckpt_recipe *whole = &r->wholes[i];
	uint32_t width = 1;
	int rc = find_bytes(r->model, range->storage, whole, &width, err);

	if (rc < 0)
		return rc;
	if (range->offset > whole->len || range->nbytes > whole->len - range->offset)
		return ckpt_fail(err, CKPT_E_ARG,
				 "bytes %" PRIu64 " to %" PRIu64
				 " are wanted of a storage of %" PRIu64,
				 range->offset, range->offset + range->nbytes, whole->len);
	if (width > 1) {
		r->swaps[i] = ckpt_byteswap_of(whole, width);
		*whole = ckpt_map_recipe(&r->swaps[i].map);
	}
	r->total += range->nbytes;
	if (range->nbytes == whole->len) {
		r->recipes[i] = *whole;
	} else if (ckpt_recipe_is_random(whole)) {
		r->recipes[i] = ckpt_recipe_part(whole, range->offset, range->nbytes);
	} else {
		r->skips[i] = (struct ckpt_skip){ *whole, range->offset, range->nbytes, true };
		r->recipes[i] = ckpt_skip_recipe(&r->skips[i]);
	}
	return 0;
}

static int check_crc(const struct storage_reading *r, struct ckpt_error *err)
{
	int rc = 0;

	for (uint64_t i = 0; rc == 0 && r->crc32 && i < r->count; i++)
		if (r->recipes[i].len)
			rc = ckpt_recipe_check(&r->recipes[i], r->crc32[i], err);
	return ckpt_error_at(err, rc, ckpt_document_path(r->model->doc), NULL, CKPT_NO_OFFSET);
}

static int read_planned(struct storage_reading *r, struct ckpt_error *err)
{
	struct ckpt_block_reading reading = { .recipes = r->recipes,
					      .count = r->count,
					      .crc32 = r->crc32,
					      .place = place_of,
					      .tick = tick,
					      .ctx = r };
	struct ckpt_workers *workers;
	int rc = ckpt_workers_new(ckpt_block_buffer_size(0, 0), r->options.threads, &workers, err);

	if (rc < 0)
		return rc;
	rc = ckpt_read_blocks(workers, &reading, err);
	ckpt_workers_free(workers);
	if (rc == 0)
		rc = check_crc(r, err);
	if (rc == 0)
		rc = ckpt_model_check_unchanged(r->model, err);
	return rc;
}

int ckpt_storages_read(const struct ckpt_model *model, const struct ckpt_storage_range *ranges,
		       uint64_t count, const struct ckpt_storage_read_options *options,
		       struct ckpt_error *err)
{
	struct storage_reading r = { .model = model,
				     .ranges = ranges,
				     .count = count,
				     .options = CKPT_STORAGE_READ_OPTIONS_INIT };
	int rc = ckpt_sized_take(&r.options, sizeof(r.options), options, err);

	if (rc < 0 || !count)
		return rc;
	r.recipes = calloc(count, sizeof(*r.recipes));
	r.wholes = calloc(count, sizeof(*r.wholes));
	r.swaps = calloc(count, sizeof(*r.swaps));
	r.skips = calloc(count, sizeof(*r.skips));
	r.crc32 = r.options.check ? calloc(count, sizeof(*r.crc32)) : NULL;
	if (!r.recipes || !r.wholes || !r.swaps || !r.skips || (r.options.check && !r.crc32))
		rc = ckpt_fail_nomem(err);
	for (uint64_t i = 0; rc == 0 && i < count; i++)
		rc = plan_range(&r, i, err);
	if (rc == 0)
		rc = read_planned(&r, err);
	free(r.crc32);
	free(r.skips);
	free(r.swaps);
	free(r.wholes);
	free(r.recipes);
	return rc;
}
