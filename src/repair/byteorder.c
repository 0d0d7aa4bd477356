/* SPDX-License-Identifier: Apache-2.0 */
#include "repair/rebuild.h"

#include <libdeflate.h>
#include <string.h>

/*
 * A checksum proves the bytes of a tensor; which numbers they are, the record 'byteorder' says,
 * which torch writes since 2.1.
 */

/* The text of a damaged record, by its checksum alone: there are two texts. NULL: neither. */
static const char *find_text(const struct ckpt_remnant *record)
{
	static const char *const texts[] = { "little", "big" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (uint32_t k = 0; k < record->crc_count; k++)
			if (record->crcs[k] == libdeflate_crc32(0, texts[i], strlen(texts[i])))
				return texts[i];
	return NULL;
}

static bool is_expected(const struct ckpt_remains *remains)
{
	return ckpt_remains_find(remains, ".format_version") ||
	       ckpt_remains_find(remains, ".storage_alignment") ||
	       ckpt_remains_find(remains, ".data/serialization_id");
}

void ckpt_rebuild_find_byteorder(struct ckpt_rescue *r, struct ckpt_rebuild *b)
{
	const struct ckpt_remnant *record = ckpt_remains_find(b->remains, "byteorder");
	enum ckpt_fate_mark mark =
		record ? b->fates[record - b->remains->records].mark : CKPT_FATE_LOST;

	if (mark == CKPT_FATE_LOST && record)
		b->byteorder = find_text(record);
	if (mark != CKPT_FATE_LOST || b->byteorder || (!record && !is_expected(b->remains)))
		return;
	r->report.damaged = true;
	if (r->pickle != CKPT_FATE_PROVEN)
		return;
	r->pickle = CKPT_FATE_UNPROVEN;
	r->pickle_why = "the record that tells the byte order is lost: it is taken for little";
}
