/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes opened as streams: plain ones (a source or memory), joined ones (part after part), and
 * what lies behind skipped bytes. Streams, maps, means and what is made open themselves.
 *
 * What must stay true: nothing is read before the first read() of the stream, except by a skip. A
 * part of an extent keeps the checksum of the whole record in WHOLE, so that the mover can still
 * find damage; a part itself has none. Parts of a joined recipe are not joined, so that the
 * recursion ends.
 */
#include "tensor/recipe.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED_AT_ONCE = 64 << 10 };

struct plain_stream {
	struct ckpt_stream base;
	const struct ckpt_recipe *recipe;
	uint64_t pos;
};

static int read_plain(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct plain_stream *s = (struct plain_stream *)stream;
	uint64_t pos = s->pos;

	s->pos += len;
	return ckpt_recipe_read(s->recipe, pos, buf, len, err);
}

static void close_plain(struct ckpt_stream *stream)
{
	free(stream);
}

static int seek_plain(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	(void)err;
	((struct plain_stream *)stream)->pos = off;
	return 0;
}

struct joined_stream {
	struct ckpt_stream base;
	const struct ckpt_recipe *recipe;
	size_t next; /* part to be opened */
	struct ckpt_stream *part;
	uint64_t left; /* of PART */
};

static int next_part(struct joined_stream *s, struct ckpt_error *err)
{
	const struct ckpt_recipe *part = &s->recipe->parts[s->next++];

	if (s->part)
		s->part->close(s->part);
	s->part = NULL;
	s->left = part->len;
	return ckpt_recipe_stream(part, &s->part, err);
}

static int read_joined(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct joined_stream *s = (struct joined_stream *)stream;
	uint8_t *out = buf;
	int rc = 0;

	while (rc == 0 && len) {
		size_t n = len < s->left ? len : (size_t)s->left;

		if (n)
			rc = s->part->read(s->part, out, n, err);
		else
			rc = next_part(s, err);
		out += n;
		len -= n;
		s->left -= rc == 0 ? n : 0;
	}
	return rc;
}

static int seek_joined(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	struct joined_stream *s = (struct joined_stream *)stream;
	int rc;

	s->next = 0;
	while (s->next < s->recipe->part_count && off >= s->recipe->parts[s->next].len)
		off -= s->recipe->parts[s->next++].len;
	s->left = 0;
	if (s->next == s->recipe->part_count) /* the end */
		return 0;
	rc = next_part(s, err);
	if (rc == 0 && off)
		rc = s->part->seek ? s->part->seek(s->part, off, err)
				   : ckpt_stream_skip(s->part, off, err);
	s->left -= off;
	return rc;
}

static void close_joined(struct ckpt_stream *stream)
{
	struct joined_stream *s = (struct joined_stream *)stream;

	if (s->part)
		s->part->close(s->part);
	free(s);
}

static int open_joined(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err)
{
	struct joined_stream *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ read_joined, close_joined, seek_joined };
	s->recipe = recipe;
	*out = &s->base;
	return 0;
}

int ckpt_recipe_check(const struct ckpt_recipe *recipe, uint32_t crc32, struct ckpt_error *err)
{
	int rc;

	if (!recipe->has_crc || crc32 == recipe->crc32)
		return 0;
	rc = ckpt_fail(err, CKPT_E_DAMAGED,
		       "is damaged: its CRC-32 is %08" PRIx32 ", recorded is %08" PRIx32, crc32,
		       recipe->crc32);
	return recipe->kind == CKPT_RECIPE_EXTENT
		       ? ckpt_error_at(err, rc, ckpt_source_path(recipe->src), NULL, CKPT_NO_OFFSET)
		       : rc;
}

void ckpt_recipe_forget_crc(struct ckpt_recipe *recipe)
{
	const struct ckpt_recipe *inner;

	recipe->has_crc = false;
	recipe->whole = (struct ckpt_recipe_whole){ 0 };
	for (size_t i = 0; recipe->kind == CKPT_RECIPE_JOINED && i < recipe->part_count; i++)
		ckpt_recipe_forget_crc((struct ckpt_recipe *)&recipe->parts[i]);
	for (size_t i = 0; recipe->inner && (inner = recipe->inner(recipe, i)); i++)
		ckpt_recipe_forget_crc((struct ckpt_recipe *)inner);
}

bool ckpt_recipe_is_random(const struct ckpt_recipe *recipe)
{
	return recipe->kind == CKPT_RECIPE_EXTENT || recipe->kind == CKPT_RECIPE_MEMORY;
}

struct ckpt_recipe ckpt_recipe_part(const struct ckpt_recipe *recipe, uint64_t off, uint64_t len)
{
	struct ckpt_recipe part = *recipe;

	assert(ckpt_recipe_is_random(recipe));
	assert(off <= recipe->len && len <= recipe->len - off);
	part.has_crc = recipe->has_crc && len == recipe->len;
	if (recipe->has_crc && len < recipe->len && recipe->kind == CKPT_RECIPE_EXTENT)
		part.whole =
			(struct ckpt_recipe_whole){ recipe->off, recipe->len, recipe->crc32 };
	part.len = len;
	if (recipe->kind == CKPT_RECIPE_MEMORY)
		part.memory = (const uint8_t *)recipe->memory + off;
	else
		part.off += off;
	return part;
}

int ckpt_recipe_read(const struct ckpt_recipe *recipe, uint64_t off, void *buf, size_t len,
		     struct ckpt_error *err)
{
	assert(ckpt_recipe_is_random(recipe));
	if (recipe->kind == CKPT_RECIPE_EXTENT)
		return ckpt_source_read(recipe->src, recipe->off + off, buf, len, err);
	memcpy(buf, (const uint8_t *)recipe->memory + off, len);
	return 0;
}

int ckpt_stream_skip(struct ckpt_stream *stream, uint64_t nbytes, struct ckpt_error *err)
{
	uint8_t *buf = malloc(SKIPPED_AT_ONCE);
	int rc = buf ? 0 : ckpt_fail_nomem(err);

	while (rc == 0 && nbytes) {
		size_t n = nbytes < SKIPPED_AT_ONCE ? (size_t)nbytes : SKIPPED_AT_ONCE;

		rc = stream->read(stream, buf, n, err);
		nbytes -= n;
	}
	free(buf);
	return rc;
}

int ckpt_recipe_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err)
{
	struct plain_stream *s;

	if (recipe->kind == CKPT_RECIPE_STREAM || recipe->kind == CKPT_RECIPE_MAP ||
	    recipe->kind == CKPT_RECIPE_MEAN || recipe->kind == CKPT_RECIPE_MADE)
		return recipe->open(recipe, out, err);
	if (recipe->kind == CKPT_RECIPE_JOINED)
		return open_joined(recipe, out, err);
	*out = NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ckpt_fail_nomem(err);
	*s = (struct plain_stream){ { read_plain, close_plain, seek_plain }, recipe, 0 };
	*out = &s->base;
	return 0;
}

/* ---- a part of a stream ---- */

static int open_skipped(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
			struct ckpt_error *err)
{
	const struct ckpt_skip *skip = recipe->ctx;
	int rc = ckpt_recipe_stream(&skip->inner, out, err);

	if (rc < 0) {
		*out = NULL;
		return rc;
	}
	rc = skip->may_seek && (*out)->seek ? (*out)->seek(*out, skip->off, err)
					    : ckpt_stream_skip(*out, skip->off, err);
	(*out)->seek = NULL; /* it would count from the beginning of INNER */
	if (rc < 0) {
		(*out)->close(*out);
		*out = NULL;
	}
	return rc;
}

static const struct ckpt_recipe *inner_of_skip(const struct ckpt_recipe *recipe, size_t i)
{
	const struct ckpt_skip *skip = recipe->ctx;

	return i ? NULL : &skip->inner;
}

struct ckpt_recipe ckpt_skip_recipe(const struct ckpt_skip *skip)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_STREAM,
				     .len = skip->len,
				     .open = open_skipped,
				     .inner = inner_of_skip,
				     .ctx = (void *)skip };
}
