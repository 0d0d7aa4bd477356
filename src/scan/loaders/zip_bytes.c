/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "scan/loaders/zip.h"

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

/* False: it becomes too much. */
static bool may_come(struct output *o, size_t len)
{
	struct ckpt_scanner *s = o->zip->s;

	if (len > s->budget || ckpt_scan_is_cancelled(s))
		return false;
	s->budget -= len;
	return true;
}

static void count_output(struct output *o, const uint8_t *bytes, size_t len)
{
	o->len += len;
	o->crc32 = libdeflate_crc32(o->crc32, bytes, len);
}

/* False: it becomes too much, or there is no memory. */
static bool add_output(struct output *o, const uint8_t *bytes, size_t len)
{
	size_t keep = o->kept.len < o->most ? len : 0;

	if (keep > o->most - o->kept.len)
		keep = (size_t)(o->most - o->kept.len);
	if (!may_come(o, len))
		return false;
	ckpt_buf_add(&o->kept, bytes, keep);
	count_output(o, bytes, len);
	o->zip->s->no_memory |= o->kept.bad;
	return !o->kept.bad;
}

/* What is kept is read where it stays, all else into one block after the other. */
static bool copy_stored(struct output *o, const struct ckpt_loose_entry *e, uint8_t *block)
{
	for (uint64_t at = 0; at < e->csize;) {
		uint64_t room = o->most - o->kept.len, left = e->csize - at;
		size_t len = left < BLOCK ? (size_t)left : BLOCK;
		uint8_t *to = block;

		if (room && len > room)
			len = (size_t)room;
		if (!may_come(o, len))
			return false;
		if (room)
			to = ckpt_buf_grow(&o->kept, len);
		o->zip->s->no_memory |= !to;
		if (!to || !ckpt_loose_zip_at(o->zip, e->data_off + at, to, len))
			return false;
		count_output(o, to, len);
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

/* Room for LEN bytes, the same for all records: the heap would be cut off and made longer again behind each. NULL: no memory. */
static uint8_t *room_for(struct ckpt_loose_zip *zip, size_t len)
{
	if (len > zip->room_bytes) {
		free(zip->room);
		zip->room = malloc(len);
		zip->room_bytes = zip->room ? len : 0;
		zip->s->no_memory |= !zip->room;
	}
	return zip->room;
}

uint8_t *ckpt_loose_zip_bytes(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e,
			      uint64_t most, uint64_t *len, uint32_t *crc32)
{
	struct output o = { .zip = zip, .most = most };
	/* Not more than a record needs: a file may have very many small ones. */
	size_t in = e->csize < BLOCK ? (size_t)e->csize + 1 : BLOCK;
	/* and none for a stored one that is kept whole */
	uint8_t *blocks = e->method == DEFLATED || e->csize > most ? room_for(zip, in + (e->method == DEFLATED ? BLOCK : 0)) : NULL;
	bool ok;

	ok = !zip->s->no_memory &&
	     (e->method == DEFLATED ? unpack_record(&o, e, blocks, blocks + in) : copy_stored(&o, e, blocks));
	if (ok && !o.kept.data)
		ckpt_buf_grow(&o.kept, 1);
	*len = o.len;
	*crc32 = o.crc32;
	if (ok && o.kept.data)
		return o.kept.data;
	ckpt_buf_clear(&o.kept);
	return NULL;
}
