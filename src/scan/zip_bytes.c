/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "scan/zip.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BLOCK = 256 << 10, DEFLATED = 8 };

/* What has come out of a record so far. */
struct output {
	struct ckpt_loose_zip *zip;
	struct ckpt_buf kept;
	uint64_t most, len;
	uint32_t crc32;
};

/* False: it becomes too much, or there is no memory. */
static bool add_output(struct output *o, const uint8_t *bytes, size_t len)
{
	struct ckpt_scanner *s = o->zip->s;
	size_t keep = o->kept.len < o->most ? len : 0;

	if (keep > o->most - o->kept.len)
		keep = (size_t)(o->most - o->kept.len);
	if (len > s->budget || ckpt_scan_is_cancelled(s))
		return false;
	s->budget -= len;
	ckpt_buf_add(&o->kept, bytes, keep);
	o->len += len;
	o->crc32 = libdeflate_crc32(o->crc32, bytes, len);
	s->no_memory |= o->kept.bad;
	return !o->kept.bad;
}

static bool copy_stored(struct output *o, const struct ckpt_loose_entry *e, uint8_t *block)
{
	for (uint64_t at = 0; at < e->csize;) {
		size_t len = e->csize - at < BLOCK ? (size_t)(e->csize - at) : BLOCK;

		if (!ckpt_loose_zip_at(o->zip, e->data_off + at, block, len) ||
		    !add_output(o, block, len))
			return false;
		at += len;
	}
	return true;
}

static bool inflate_all(struct output *o, const struct ckpt_loose_entry *e, uint8_t *in,
			uint8_t *out, z_stream *z)
{
	uint64_t at = 0;
	int rc = Z_OK;

	while (rc == Z_OK) {
		if (!z->avail_in) {
			size_t len = e->csize - at < BLOCK ? (size_t)(e->csize - at) : BLOCK;

			if (!len ||
			    ckpt_source_read(o->zip->source, e->data_off + at, in, len, NULL) < 0)
				return false;
			at += len;
			z->next_in = in;
			z->avail_in = (unsigned)len;
		}
		z->next_out = out;
		z->avail_out = BLOCK;
		rc = inflate(z, Z_NO_FLUSH);
		if (!add_output(o, out, BLOCK - z->avail_out))
			return false;
	}
	return rc == Z_STREAM_END;
}

static bool unpack_record(struct output *o, const struct ckpt_loose_entry *e, uint8_t *in, uint8_t *out)
{
	z_stream z = { 0 };
	bool ok;

	if (inflateInit2(&z, -MAX_WBITS) != Z_OK) {
		o->zip->s->no_memory = true;
		return false;
	}
	ok = inflate_all(o, e, in, out, &z);
	inflateEnd(&z);
	return ok;
}

uint8_t *ckpt_loose_zip_bytes(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e,
			      uint64_t most, uint64_t *len, uint32_t *crc32)
{
	struct output o = { .zip = zip, .most = most };
	/* Not more than a record needs: a file may have very many small ones. */
	size_t in = e->csize < BLOCK ? (size_t)e->csize + 1 : BLOCK;
	uint8_t *blocks = malloc(in + (e->method == DEFLATED ? BLOCK : 0));
	bool ok;

	zip->s->no_memory |= !blocks;
	ok = blocks &&
	     (e->method == DEFLATED ? unpack_record(&o, e, blocks, blocks + in) : copy_stored(&o, e, blocks));
	free(blocks);
	if (ok && !o.kept.data)
		ckpt_buf_grow(&o.kept, 1);
	*len = o.len;
	*crc32 = o.crc32;
	if (ok && o.kept.data)
		return o.kept.data;
	ckpt_buf_clear(&o.kept);
	return NULL;
}
