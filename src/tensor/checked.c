/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/checked.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>

struct checked_stream {
	struct ckpt_stream base;
	const struct ckpt_checked *checked;
	struct ckpt_stream *inner;
	uint64_t left;
	uint32_t crc32;
};

static int read_checked(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct checked_stream *s = (struct checked_stream *)stream;
	int rc = s->inner->read(s->inner, buf, len, err);

	if (rc < 0)
		return rc;
	s->crc32 = libdeflate_crc32(s->crc32, buf, len);
	s->left -= len;
	if (s->left || s->crc32 == s->checked->crc32)
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "is damaged: its CRC-32 is %08" PRIx32 ", recorded is %08" PRIx32,
			 s->crc32, s->checked->crc32);
}

static void close_checked(struct ckpt_stream *stream)
{
	struct checked_stream *s = (struct checked_stream *)stream;

	s->inner->close(s->inner);
	free(s);
}

static int open_checked(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
			struct ckpt_error *err)
{
	struct checked_stream *s = calloc(1, sizeof(*s));
	int rc;

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ read_checked, close_checked };
	s->checked = recipe->ctx;
	s->left = recipe->len;
	rc = ckpt_recipe_stream(&s->checked->inner, &s->inner, err);
	if (rc < 0)
		free(s);
	else
		*out = &s->base;
	return rc;
}

struct ckpt_recipe ckpt_checked_recipe(const struct ckpt_checked *checked)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_STREAM,
				     .len = checked->inner.len,
				     .open = open_checked,
				     .ctx = (void *)checked };
}
