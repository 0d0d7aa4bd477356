/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_MEMBER_H
#define CKPT_FORMAT_MEMBER_H

#include "format/torch_zip.h"

/*
 * A torch.save file, or an archive inside another, whose values are part of another file's
 * model.
 */
struct ckpt_member {
	struct ckpt_source *source; /* all are owned */
	struct ckpt_torch_zip *tz;
	struct ckpt_pickle pickle;
	uint8_t *bytes;
};

/*
 * Its values get ids from FIRST_ID on. MEMBER has to be cleared, also on failure. Errors have
 * the path.
 */
int ckpt_member_open(struct ckpt_member *member, const char *path, uint32_t first_id,
		     struct ckpt_error *err);

/* The same for SOURCE, of which the member takes a reference. */
int ckpt_member_read(struct ckpt_member *member, struct ckpt_source *source, uint32_t first_id,
		     struct ckpt_error *err);
void ckpt_member_clear(struct ckpt_member *member);

/* Add its storages to TO, under new keys that begin with LETTER. TO has to keep MEMBER. */
int ckpt_member_add_storages(struct ckpt_member *member, struct ckpt_model *to, char letter,
			     struct ckpt_error *err);

#endif
