/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_ARCHIVE_H
#define CKPT_FORMAT_TORCH_ARCHIVE_H

#include "plan/mover.h"
#include "zipfmt/layout.h"
#include "zipfmt/serialization_id.h"

/*
 * A zip archive as torch writes it, being made: first all records are added, then they are laid out
 * (ckpt_zip_layout_compute), then moved. It may be a file of its own or a part of one.
 */
struct ckpt_torch_archive {
	struct ckpt_zip_layout layout; /* the caller sets archive_name and alignment */
	bool crc;		       /* record checksums; set by the caller */
	struct ckpt_torch_piece *pieces;
	uint32_t cap;
	struct ckpt_serialization_id id;
	struct ckpt_buf buf;
};

void ckpt_torch_archive_init(struct ckpt_torch_archive *archive);
void ckpt_torch_archive_clear(struct ckpt_torch_archive *archive);

/*
 * NAME and what RECIPE borrows have to live until the records are moved. CRC: NULL: not known
 * yet.
 */
int ckpt_torch_archive_add(struct ckpt_torch_archive *archive, const char *name,
			   const struct ckpt_recipe *recipe, const uint32_t *crc,
			   struct ckpt_error *err);
int ckpt_torch_archive_add_memory(struct ckpt_torch_archive *archive, const char *name,
				  const void *bytes, size_t len, struct ckpt_error *err);
int ckpt_torch_archive_add_text(struct ckpt_torch_archive *archive, const char *name,
				const char *text, struct ckpt_error *err);

/* Add the record .data/serialization_id, which is computed from all records before it. */
int ckpt_torch_archive_add_id(struct ckpt_torch_archive *archive, struct ckpt_error *err);

/* Append the archive, which has been laid out, to what the mover writes. */
int ckpt_torch_archive_move(struct ckpt_torch_archive *archive, struct ckpt_mover *mover,
			    struct ckpt_error *err);

#endif
