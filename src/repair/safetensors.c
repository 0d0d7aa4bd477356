/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rescues a safetensors file that was cut off, or that has bytes behind its tensors. The header comes
 * first and says where each tensor is: what lies in front of the end is whole, and unproven, since the
 * format has no checksums. The file is put together as it should be, with zeros for what is lost, and
 * opened like any other.
 */
#include "repair/rescue.h"

#include "format/format.h"
#include "format/safetensors.h"
#include "io/pieces.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char no_checksums[] = "a safetensors file has no checksums";

/* What the tensors of the file are, wherever it ends. */
static int read_header(struct ckpt_rescue *r, struct ckpt_safetensors_header *out, struct ckpt_error *err)
{
	struct ckpt_error inner = CKPT_ERROR_INIT;
	char why[sizeof(inner.text)];
	int rc = ckpt_safetensors_header_read(r->file, CKPT_SAFETENSORS_AS_LISTED, r->arena, out, &inner);

	if (rc == CKPT_E_FORMAT)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "nothing can be saved: the header, which alone tells the names, shapes and places of the tensors, is cut off or damaged: %s",
				 ckpt_error_text(&inner, why, sizeof(why)));
	if (rc < 0 && err)
		*err = inner;
	return rc;
}

static int set_fates(struct ckpt_rescue *r, const struct ckpt_safetensors_header *h, struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(r->file);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < h->count; i++) {
		uint64_t begin = h->data_off + h->tensors[i].begin, end = h->data_off + h->tensors[i].end;
		struct ckpt_fate fate = { CKPT_FATE_UNPROVEN, begin, NULL, no_checksums };
		char key[16];

		if (end > size) {
			fate.mark = CKPT_FATE_LOST;
			fate.why = begin >= size ? "the file ends before it"
						 : ckpt_rescue_text(r, "the file ends %" PRIu64 " bytes into it, of %" PRIu64, size - begin, end - begin);
			r->report.damaged = true;
		}
		snprintf(key, sizeof(key), "%" PRIu32, i);
		rc = ckpt_rescue_set_fate(r, key, strlen(key), &fate, err);
	}
	return rc;
}

static int open_whole(struct ckpt_rescue *r, const struct ckpt_safetensors_header *h, struct ckpt_model **out, struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(r->file), whole = h->data_off + h->data_len;
	struct ckpt_pieces *pieces = ckpt_pieces_new(r->file);
	uint8_t head[CKPT_PROBE_BYTES];
	struct ckpt_opening opening = { .head = head, .size = whole };
	struct ckpt_source *source;
	int rc;

	ckpt_pieces_add_extent(pieces, 0, size < whole ? size : whole);
	if (size < whole)
		ckpt_pieces_add_zeros(pieces, whole - size);
	rc = ckpt_pieces_finish(pieces, &source, err);
	opening.source = source;
	opening.len = whole < sizeof(head) ? (size_t)whole : sizeof(head);
	if (rc == 0)
		rc = ckpt_source_read(source, 0, head, opening.len, err);
	if (rc == 0)
		rc = ckpt_format_safetensors.read(&opening, out, err);
	ckpt_source_unref(source);
	return rc;
}

int ckpt_rescue_safetensors(struct ckpt_rescue *r, struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_safetensors_header header;
	int rc = read_header(r, &header, err);

	r->pickle = CKPT_FATE_UNPROVEN;
	r->pickle_why = no_checksums;
	if (rc == 0)
		rc = set_fates(r, &header, err);
	if (rc == 0)
		rc = ckpt_rescue_check_texts(r, err);
	if (rc == 0)
		rc = open_whole(r, &header, out, err);
	ckpt_safetensors_header_clear(&header);
	return rc;
}
