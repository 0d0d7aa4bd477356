/* SPDX-License-Identifier: Apache-2.0 */
#include "zipfmt/rebuild.h"

#include "io/pieces.h"
#include "zipfmt/layout.h"

#include <stdlib.h>

/* layout.h knows stored records only; these fields differ for a deflated one. */
enum { HEADER_METHOD = 8, ENTRY_METHOD = 10, ENTRY_USIZE = 24 };

static void set_le(struct ckpt_buf *buf, size_t at, uint64_t v, size_t len)
{
	for (size_t i = 0; !buf->bad && i < len; i++)
		buf->data[at + i] = (uint8_t)(v >> 8 * i);
}

static void add_record(struct ckpt_pieces *pieces, const struct ckpt_zip_layout *layout, uint32_t i,
		       const struct ckpt_zip_rebuilt *r, struct ckpt_buf *buf)
{
	buf->len = 0;
	ckpt_zip_put_local_header(layout, i, buf);
	set_le(buf, HEADER_METHOD, r->method, 2);
	ckpt_pieces_add_memory(pieces, buf->data, buf->len);
	if (r->from == CKPT_ZIP_FROM_FILE)
		ckpt_pieces_add_extent(pieces, r->off, r->csize);
	else if (r->from == CKPT_ZIP_FROM_MEMORY)
		ckpt_pieces_add_memory(pieces, r->memory, (size_t)r->csize);
	else
		ckpt_pieces_add_zeros(pieces, r->csize);
	buf->len = 0;
	ckpt_zip_put_descriptor(layout, i, buf);
	ckpt_pieces_add_memory(pieces, buf->data, buf->len);
}

static void add_entry(const struct ckpt_zip_layout *layout, uint32_t i,
		      const struct ckpt_zip_rebuilt *r, struct ckpt_buf *buf)
{
	size_t at = buf->len;

	ckpt_zip_put_directory_entry(layout, i, buf);
	if (r->method == CKPT_ZIP_STORED)
		return;
	set_le(buf, at + ENTRY_METHOD, r->method, 2);
	set_le(buf, at + ENTRY_USIZE, r->usize, 4);
}

static int lay_out(struct ckpt_zip_layout *layout, const struct ckpt_zip_rebuilt *records,
		   struct ckpt_error *err)
{
	layout->records = calloc(layout->count + (size_t)1, sizeof(*layout->records));
	if (!layout->records)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < layout->count; i++)
		layout->records[i] = (struct ckpt_zip_record){ .name = records[i].name,
							       .size = records[i].csize,
							       .crc32 = records[i].crc32 };
	return ckpt_zip_layout_compute(layout, err);
}

int ckpt_zip_rebuild(struct ckpt_source *base, const char *folder,
		     const struct ckpt_zip_rebuilt *records, uint32_t count,
		     struct ckpt_source **out, struct ckpt_error *err)
{
	struct ckpt_zip_layout layout = { .archive_name = folder,
					  .alignment = CKPT_ZIP_ALIGNMENT,
					  .count = count };
	struct ckpt_pieces *pieces = ckpt_pieces_new(base);
	struct ckpt_buf buf = { 0 };
	int rc = lay_out(&layout, records, err);
	bool bad = false;

	*out = NULL;
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		add_record(pieces, &layout, i, &records[i], &buf);
		bad |= buf.bad;
	}
	buf.len = 0;
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		add_entry(&layout, i, &records[i], &buf);
	if (rc == 0)
		ckpt_zip_put_ends(&layout, &buf);
	if (rc == 0 && (bad || buf.bad))
		rc = ckpt_fail_nomem(err);
	if (rc == 0) {
		ckpt_pieces_add_memory(pieces, buf.data, buf.len);
		rc = ckpt_pieces_finish(pieces, out, err);
	} else {
		ckpt_pieces_free(pieces);
	}
	ckpt_buf_clear(&buf);
	free(layout.records);
	return rc;
}
