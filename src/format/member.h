/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_MEMBER_H
#define CKPT_FORMAT_MEMBER_H

#include "format/torch_zip.h"

/* A torch.save file, or an archive inside of another, whose values are part of a model that is not its own. */
struct ckpt_member {
	struct ckpt_source *source; /* owned, all of them */
	struct ckpt_torch_zip *tz;
	struct ckpt_pickle pickle;
	uint8_t *bytes;
};

/* Its values get ids from FIRST_ID on. To be cleared also on failure; the path goes into the message. */
int ckpt_member_open(struct ckpt_member *member, const char *path, uint32_t first_id,
		     struct ckpt_error *err);

/* The same for what is in SOURCE, of which the member takes a reference. */
int ckpt_member_read(struct ckpt_member *member, struct ckpt_source *source, uint32_t first_id,
		     struct ckpt_error *err);
void ckpt_member_clear(struct ckpt_member *member);

/* Its storages become some of TO's, under new keys with LETTER in front; TO has to keep MEMBER. */
int ckpt_member_add_storages(struct ckpt_member *member, struct ckpt_model *to, char letter,
			     struct ckpt_error *err);

#endif
