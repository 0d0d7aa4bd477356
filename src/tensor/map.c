/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes whose bytes are made of those of another one, stretch by stretch: as a stream, and at any place. */
#include "tensor/map.h"

#include <assert.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 64 << 10 }; /* bytes that are read at a time: what is read stays in the cache */

struct map_stream {
	struct ckpt_stream base;
	const struct ckpt_map *map;
	struct ckpt_stream *inner;
	void *kept;
	bool begun;   /* KEPT is there */
	uint64_t pos; /* in INNER */
	uint32_t crc32;
	bool sought; /* not all of INNER is read, so there is no checksum to compare */
	uint8_t item[CKPT_MAP_MOST_TO]; /* was made, and its last LEFT bytes are not read yet */
	uint32_t left;
	uint8_t piece[PIECE];
};

static int read_piece(struct map_stream *s, size_t len, uint8_t *out, struct ckpt_error *err)
{
	const struct ckpt_map *map = s->map;
	int rc = s->inner->read(s->inner, s->piece, len, err);

	if (rc < 0) /* which of them: a map may read others, too */
		return map->inner.kind == CKPT_RECIPE_EXTENT
			       ? ckpt_error_at(err, rc, ckpt_source_path(map->inner.src), NULL,
					       CKPT_NO_OFFSET)
			       : rc;
	if (map->inner.has_crc && !s->sought)
		s->crc32 = libdeflate_crc32(s->crc32, s->piece, len);
	rc = map->apply(map, s->kept, s->pos, s->piece, len, out, err);
	s->pos += len;
	if (rc < 0)
		return rc;
	return s->pos == map->inner.len && !s->sought ? ckpt_recipe_check(&map->inner, s->crc32, err) : 0;
}

/* The first LEN bytes of an item; behind the last one, bytes as they are. */
static int read_part_of_item(struct map_stream *s, uint8_t *out, size_t len, struct ckpt_error *err)
{
	const struct ckpt_map *map = s->map;
	int rc;

	if (map->inner.len - s->pos < map->from)
		return read_piece(s, len, out, err);
	rc = read_piece(s, map->from, s->item, err);
	if (rc < 0)
		return rc;
	memcpy(out, s->item, len);
	s->left = (uint32_t)(map->to - len);
	return 0;
}

static int read_mapped(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct map_stream *s = (struct map_stream *)stream;
	size_t from = s->map->from, to = s->map->to, n = len < s->left ? len : s->left;
	uint8_t *out = buf;
	int rc = s->begun ? 0 : ckpt_map_begin(s->map, &s->kept, err);

	if (rc < 0)
		return rc;
	s->begun = true;
	memcpy(out, s->item + to - s->left, n);
	s->left -= (uint32_t)n;
	out += n;
	len -= n;
	for (; rc == 0 && len >= to; out += n * to, len -= n * to) {
		n = len / to < PIECE / from ? len / to : PIECE / from;
		rc = read_piece(s, n * from, out, err);
	}
	return rc == 0 && len ? read_part_of_item(s, out, len, err) : rc;
}

static void close_mapped(struct ckpt_stream *stream)
{
	struct map_stream *s = (struct map_stream *)stream;

	ckpt_map_end(s->map, s->kept);
	s->inner->close(s->inner);
	free(s);
}

static int seek_mapped(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	struct map_stream *s = (struct map_stream *)stream;

	const struct ckpt_map *map = s->map;
	size_t skip = (size_t)(off % map->to);
	uint8_t skipped[CKPT_MAP_MOST_TO];
	int rc;

	s->sought = true;
	s->left = 0;
	s->pos = off / map->to * map->from;
	if (map->inner.len - s->pos < map->from) { /* behind the last item */
		s->pos += skip;
		skip = 0;
	}
	rc = s->inner->seek(s->inner, s->pos, err);
	return rc == 0 && skip ? read_mapped(stream, skipped, skip, err) : rc;
}

static int open_mapped(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err)
{
	struct map_stream *s = malloc(sizeof(*s));
	int rc;

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ .read = read_mapped, .close = close_mapped };
	s->map = ckpt_recipe_map(recipe);
	s->kept = NULL;
	s->begun = s->sought = false;
	s->pos = 0;
	s->crc32 = s->left = 0;
	rc = ckpt_recipe_stream(&s->map->inner, &s->inner, err);
	if (rc < 0) {
		free(s);
		return rc;
	}
	if (s->inner->seek)
		s->base.seek = seek_mapped;
	*out = &s->base;
	return rc;
}

const struct ckpt_map *ckpt_recipe_map(const struct ckpt_recipe *recipe)
{
	return recipe->ctx;
}

static const struct ckpt_recipe *inner_of_map(const struct ckpt_recipe *recipe, size_t i)
{
	return i ? NULL : &ckpt_recipe_map(recipe)->inner;
}

int ckpt_map_begin(const struct ckpt_map *map, void **kept, struct ckpt_error *err)
{
	*kept = NULL;
	return map->begin ? map->begin(map, kept, err) : 0;
}

void ckpt_map_end(const struct ckpt_map *map, void *kept)
{
	if (kept)
		map->end(map, kept);
}

struct ckpt_recipe ckpt_map_recipe(const struct ckpt_map *map)
{
	uint64_t count = map->inner.len / map->from, rest = map->inner.len % map->from;

	assert(map->to <= CKPT_MAP_MOST_TO);
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_MAP,
				     .len = count * map->to + (map->from == map->to ? rest : 0),
				     .open = open_mapped,
				     .inner = inner_of_map,
				     .checks_inner = true,
				     .is_one_way = map->inner.is_one_way,
				     .ctx = (void *)map };
}
