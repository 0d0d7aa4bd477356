/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/map.h"

#include <libdeflate.h>
#include <stdlib.h>

enum { PIECE = 64 << 10 }; /* bytes that are read at a time: what is read stays in the cache */

struct map_stream {
	struct ckpt_stream base;
	const struct ckpt_map *map;
	struct ckpt_stream *inner;
	uint64_t pos; /* in INNER */
	uint32_t crc32;
	bool sought; /* not all of INNER is read, so there is no checksum to compare */
	uint8_t piece[PIECE];
};

static int read_piece(struct map_stream *s, size_t len, uint8_t *out, struct ckpt_error *err)
{
	const struct ckpt_map *map = s->map;
	int rc = s->inner->read(s->inner, s->piece, len, err);

	if (rc < 0)
		return rc;
	if (map->inner.has_crc && !s->sought)
		s->crc32 = libdeflate_crc32(s->crc32, s->piece, len);
	map->apply(map, s->pos, s->piece, len, out);
	s->pos += len;
	return s->pos == map->inner.len && !s->sought ? ckpt_recipe_check(&map->inner, s->crc32, err) : 0;
}

static int read_mapped(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct map_stream *s = (struct map_stream *)stream;
	size_t from = s->map->from, to = s->map->to, left = len / to * from + len % to;
	uint8_t *out = buf;
	int rc = 0;

	while (rc == 0 && left) {
		size_t n = left < PIECE ? left : PIECE;

		rc = read_piece(s, n, out, err);
		out += n / from * to;
		left -= n;
	}
	return rc;
}

static void close_mapped(struct ckpt_stream *stream)
{
	struct map_stream *s = (struct map_stream *)stream;

	s->inner->close(s->inner);
	free(s);
}

static int seek_mapped(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	struct map_stream *s = (struct map_stream *)stream;

	s->sought = true;
	s->pos = off / s->map->to * s->map->from;
	return s->inner->seek(s->inner, s->pos, err);
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
	s->pos = 0;
	s->crc32 = 0;
	s->sought = false;
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

struct ckpt_recipe ckpt_map_recipe(const struct ckpt_map *map)
{
	uint64_t count = map->inner.len / map->from, rest = map->inner.len % map->from;

	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_MAP,
				     .len = count * map->to + (map->from == map->to ? rest : 0),
				     .open = open_mapped,
				     .inner = inner_of_map,
				     .checks_inner = true,
				     .ctx = (void *)map };
}
