/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reads checkpoints has to be able to read it: every tensor inside of its storage, every
 * storage there.
 */
#include "scan/scanner.h"

#include "base/text.h"
#include "format/format.h"
#include "format/torch_legacy.h"
#include "format/torch_tar.h"
#include "format/torch_zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 16 };

static void check_sizes(struct ckpt_scanner *s, const struct ckpt_model *model)
{
	const struct ckpt_torch_zip *tz = ckpt_torch_zip_of(model);

	for (uint32_t i = 0; i < model->storage_count; i++) {
		const struct ckpt_storage *storage = &model->storages[i];
		const struct ckpt_zip_entry *e = ckpt_torch_zip_data(tz, storage);
		uint32_t item = ckpt_dtype_size(storage->dtype);

		if (e && e->usize > storage->nbytes && !s->depth)
			ckpt_scan_refuse(s, 1 << CKPT_SCAN_TORCH_2_14, NULL, CKPT_NO_OFFSET, "the record of storage %.200s is longer than its pickle says, which 2.14 reads with mmap=True only", storage->key);
		if (e && e->usize > storage->nbytes && e->usize - storage->nbytes >= item)
			ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "size", CKPT_NO_OFFSET,
				       "the record of storage %s has %" PRIu64
				       " bytes, its pickle says %" PRIu64
				       ": some versions of torch read it, others refuse",
				       storage->key, e->usize, storage->nbytes);
	}
}

/*
 * torch.load(mmap=True) takes the bytes where they are, and its code for numbers of 16 bytes ends the
 * process where these lie at odd places, be they a tensor's or the values of a sparse one. Which
 * storages have them is not asked: its own writers align all records to 64 bytes.
 */
static void check_alignment(struct ckpt_scanner *s, const struct ckpt_model *model)
{
	const struct ckpt_torch_zip *tz = ckpt_torch_zip_of(model);

	for (uint32_t i = 0; s->has_wide_numbers && i < model->storage_count; i++) {
		struct ckpt_zip_entry *e = model->storages[i].nbytes ? ckpt_torch_zip_data(tz, &model->storages[i]) : NULL;

		if (!e || ckpt_zip_locate(tz->zip, e, NULL) < 0 || e->data_off % WIDE == 0)
			continue;
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "size", CKPT_NO_OFFSET, "storage %s is not aligned, in a file with numbers of 16 bytes: with mmap=True, torch crashes on such", model->storages[i].key);
		return;
	}
}

static bool is_zero(struct ckpt_scanner *s, struct ckpt_source *source, uint64_t from)
{
	enum { BLOCK = 64 << 10 };
	uint64_t size = ckpt_source_size(source), at = from, end;
	uint8_t *block = malloc(BLOCK);
	bool fine = block != NULL;

	s->no_memory |= !block;
	/* of holes there is nothing to read */
	for (; fine && ckpt_source_next_data(source, &at, size, &end); at = end)
		for (; fine && at < end; at += BLOCK) {
			size_t len = end - at < BLOCK ? (size_t)(end - at) : BLOCK;

			fine = !ckpt_scan_is_cancelled(s) && ckpt_source_read(source, at, block, len, NULL) == 0;
			for (size_t i = 0; fine && i < len; i++)
				fine = !block[i];
		}
	free(block);
	return fine;
}

/*
 * What follows the last storage of a stream: torch would read it as the next, if it were asked
 * again.
 */
static void check_trailer(struct ckpt_scanner *s, struct ckpt_source *source,
			  const struct ckpt_model *model)
{
	uint64_t end = ckpt_torch_legacy_of(model)->end, size = ckpt_source_size(source);
	struct ckpt_source *rest;
	bool is_padding;

	if (end >= size)
		return;
	is_padding = is_zero(s, source, end);
	if (ckpt_scan_is_cancelled(s))
		return;
	if (is_padding) {
		ckpt_scan_find(s, CKPT_SCAN_PLAIN, "trailer", end,
			       "%" PRIu64 " zero bytes follow the last storage", size - end);
		return;
	}
	ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "trailer", end,
		       "%" PRIu64 " bytes follow the last storage", size - end);
	if (ckpt_source_slice(source, end, size - end, &rest, NULL) < 0) {
		s->no_memory = true;
		return;
	}
	s->depth++;
	ckpt_scan_source(s, rest, CKPT_SCAN_PART);
	s->depth--;
	ckpt_source_unref(rest);
}

void ckpt_scan_prove_part(struct ckpt_scanner *s, struct ckpt_source *source)
{
	if (s->rc == 0 && !s->in_fragment && s->file.verdict < CKPT_SCAN_UNREADABLE)
		ckpt_scan_prove(s, source, CKPT_SCAN_PART);
}

/* Of what is no checkpoint of its own indices are not looked at, which scan_one() says. */
static void check_indices(struct ckpt_scanner *s, const struct ckpt_model *model)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	if (s->has_places && s->drops_objects)
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "indices", CKPT_NO_OFFSET, "a sparse tensor, or the state of a generator, beside objects that are made and dropped: of these it is not looked at where numbers point");
	if (s->has_places) {
		ckpt_scan_failed(s, ckpt_scan_check_indices(s, model, &err), &err);
		if (s->has_packed_storage)
			ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "indices", CKPT_NO_OFFSET,
				       "a sparse tensor, or the state of a generator, beside compressed storages: torch.load(mmap=True) takes the compressed bytes for its numbers");
	}
	s->has_places = s->has_packed_storage = s->drops_objects = false;
}

void ckpt_scan_prove(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	int rc = ckpt_format_open(source, &model, &err);

	if (rc < 0) {
		if (s->file.verdict < CKPT_SCAN_UNREADABLE) /* else why is known */
			ckpt_scan_failed(s, rc, &err);
		return;
	}
	if (model->doc->format == &ckpt_format_torch_zip)
	{
		check_sizes(s, model);
		check_alignment(s, model);
	}
	else if (model->doc->format == &ckpt_format_torch_legacy)
		check_trailer(s, source, model);
	else if (model->doc->format == &ckpt_format_torch_tar)
		ckpt_scan_failed(s, ckpt_torch_tar_check_tensors(model, &err), &err);
	if (flags & CKPT_SCAN_TOP)
		check_indices(s, model);
	ckpt_close(model);
}
