/* SPDX-License-Identifier: Apache-2.0 */
#include "set/placement.h"

#include <inttypes.h>

uint64_t ckpt_extent_len(const struct ckpt_mesh_extent *e)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < e->count; i++)
		n += e->len[i];
	return n;
}

/* Append items [FIRST, FIRST + LEN) of FROM, counted through all its stretches. */
static bool append_items(const struct ckpt_mesh_extent *from, uint64_t first, uint64_t len,
			 struct ckpt_mesh_extent *to)
{
	for (uint32_t i = 0; i < from->count && len; i++) {
		uint64_t n;

		if (first >= from->len[i]) {
			first -= from->len[i];
			continue;
		}
		n = from->len[i] - first < len ? from->len[i] - first : len;
		if (to->count &&
		    to->start[to->count - 1] + to->len[to->count - 1] == from->start[i] + first) {
			to->len[to->count - 1] += n;
		} else {
			if (to->count == CKPT_MESH_MOST_SEGMENTS)
				return false;
			to->start[to->count] = from->start[i] + first;
			to->len[to->count++] = n;
		}
		first = 0;
		len -= n;
	}
	return true;
}

/*
 * Cut in SPLIT * COUNT pieces as torch.chunk does; number AT gets its piece of each of the SPLIT
 * rounds.
 */
static bool cut_extent(struct ckpt_mesh_extent *e, uint64_t count, uint64_t at, uint64_t split)
{
	uint64_t n = ckpt_extent_len(e), pieces = count * split,
		 piece = n / pieces + (n % pieces > 0);
	struct ckpt_mesh_extent out = { .count = 0 };

	if (count == 1)
		return true;
	for (uint64_t j = 0; j < split; j++) {
		uint64_t first = piece * (j * count + at);

		if (first >= n)
			break;
		if (!append_items(e, first, n - first < piece ? n - first : piece, &out))
			return false;
	}
	*e = out;
	return true;
}

void ckpt_extents_init(struct ckpt_mesh_extent *extents, const uint64_t *shape, uint32_t ndim)
{
	for (uint32_t i = 0; i < ndim; i++)
		extents[i] = (struct ckpt_mesh_extent){ .start = { 0 },
							.len = { shape[i] },
							.count = 1 };
}

int ckpt_extents_place(struct ckpt_mesh_extent *extents, uint32_t ndim,
		       const struct ckpt_placement *placement, uint64_t count, uint64_t at,
		       struct ckpt_error *err)
{
	if (placement->replicated)
		return 0;
	if (placement->dim >= ndim)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "is cut along dimension %" PRIu64 " and has %" PRIu32,
				 placement->dim, ndim);
	if (!cut_extent(&extents[placement->dim], count, at, placement->split))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is cut in too many pieces");
	return 0;
}
