/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an archive as torch does: all records with their descriptors, then the directory and
 * the end records. What must stay true: the layout is computed before the first byte, from sizes
 * alone, so checksums may be set while records are moved (descriptors and directory come after
 * the data); .data/serialization_id depends on the names, checksums and first bytes of all
 * records before it, in the order of writing.
 */
#include "format/torch_archive.h"

#include "base/grow.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BYTES = 40 };
static const char id_record[] = ".data/serialization_id";

/*
 * The bytes of one record of the layout. There may be very many, nearly all of them plain
 * extents, which need a quarter of the memory of a recipe.
 */
struct ckpt_torch_piece {
	struct ckpt_recipe *recipe; /* owned; NULL: it is the extent at OFF of SRC */
	const struct ckpt_source *src;
	uint64_t off;
	uint32_t crc32;
	bool has_crc;	/* of the extent: CRC32 is recorded for it */
	bool crc_known; /* the record's checksum is in the layout already */
};

void ckpt_torch_archive_init(struct ckpt_torch_archive *a)
{
	*a = (struct ckpt_torch_archive){ 0 };
	ckpt_serialization_id_init(&a->id);
}

void ckpt_torch_archive_clear(struct ckpt_torch_archive *a)
{
	ckpt_serialization_id_clear(&a->id);
	ckpt_buf_clear(&a->buf);
	for (uint32_t i = 0; i < a->layout.count; i++)
		free(a->pieces[i].recipe);
	free(a->layout.records);
	free(a->pieces);
	*a = (struct ckpt_torch_archive){ 0 };
}

/* ---- what is written ---- */

/* Make room for one more record. CAP is that of both arrays: it grows with the second one. */
static int grow(struct ckpt_torch_archive *a, struct ckpt_error *err)
{
	uint32_t count = a->layout.count, cap = a->cap;
	void *grown = ckpt_grow(a->layout.records, count, &cap, sizeof(*a->layout.records));

	if (!grown)
		return ckpt_fail_nomem(err);
	a->layout.records = grown;
	grown = ckpt_grow(a->pieces, count, &a->cap, sizeof(*a->pieces));
	if (!grown)
		return ckpt_fail_nomem(err);
	a->pieces = grown;
	return 0;
}

static bool is_simple(const struct ckpt_recipe *recipe)
{
	return recipe->kind == CKPT_RECIPE_EXTENT && !recipe->whole.len && !recipe->checks_inner &&
	       !recipe->inner;
}

/* False: no memory. */
static bool keep_recipe(struct ckpt_torch_piece *piece, const struct ckpt_recipe *recipe)
{
	*piece = (struct ckpt_torch_piece){ .src = recipe->src,
					    .off = recipe->off,
					    .crc32 = recipe->crc32,
					    .has_crc = recipe->has_crc };
	if (is_simple(recipe))
		return true;
	piece->recipe = malloc(sizeof(*piece->recipe));
	if (piece->recipe)
		*piece->recipe = *recipe;
	return piece->recipe;
}

static struct ckpt_recipe extent_of(const struct ckpt_torch_archive *a, uint32_t i)
{
	const struct ckpt_torch_piece *piece = &a->pieces[i];

	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
				     .src = piece->src,
				     .off = piece->off,
				     .len = a->layout.records[i].size,
				     .has_crc = piece->has_crc,
				     .crc32 = piece->crc32 };
}

int ckpt_torch_archive_add(struct ckpt_torch_archive *a, const char *name,
			   const struct ckpt_recipe *recipe, const uint32_t *crc,
			   struct ckpt_error *err)
{
	uint32_t i = a->layout.count;

	if (grow(a, err) < 0)
		return CKPT_E_NOMEM;
	if (!keep_recipe(&a->pieces[i], recipe))
		return ckpt_fail_nomem(err);
	a->layout.records[i] = (struct ckpt_zip_record){ .name = name, .size = recipe->len };
	a->pieces[i].crc_known = crc != NULL;
	if (crc)
		a->layout.records[i].crc32 = *crc;
	a->layout.count++;
	return 0;
}

int ckpt_torch_archive_add_memory(struct ckpt_torch_archive *a, const char *name, const void *bytes,
				  size_t len, struct ckpt_error *err)
{
	struct ckpt_recipe recipe = { .kind = CKPT_RECIPE_MEMORY, .memory = bytes, .len = len };
	uint32_t crc = a->crc ? libdeflate_crc32(0, bytes, len) : 0;

	return ckpt_torch_archive_add(a, name, &recipe, &crc, err);
}

int ckpt_torch_archive_add_text(struct ckpt_torch_archive *a, const char *name, const char *text,
				struct ckpt_error *err)
{
	return ckpt_torch_archive_add_memory(a, name, text, strlen(text), err);
}

int ckpt_torch_archive_add_id(struct ckpt_torch_archive *a, struct ckpt_error *err)
{
	return ckpt_torch_archive_add_text(a, id_record, "0000000000000000000000000000000000000000",
					   err);
}

/* ---- moving ---- */

static int fill_id(struct ckpt_torch_archive *a, uint32_t i, char text[ID_BYTES + 1],
		   struct ckpt_error *err)
{
	int rc = ckpt_serialization_id_format(&a->id, text, err);

	a->pieces[i].recipe->memory =
		text; /* not NULL: ckpt_torch_archive_add_id() gave it a text */
	a->layout.records[i].crc32 = a->crc ? libdeflate_crc32(0, text, ID_BYTES) : 0;
	return rc;
}

static int flush_buf(struct ckpt_torch_archive *a, struct ckpt_mover *mover, struct ckpt_error *err)
{
	int rc = a->buf.bad ? ckpt_fail_nomem(err)
			    : ckpt_mover_put(mover, a->buf.data, a->buf.len, err);

	a->buf.len = 0;
	return rc;
}

static int move_record(struct ckpt_torch_archive *a, struct ckpt_mover *mover, uint32_t i,
		       struct ckpt_error *err)
{
	struct ckpt_zip_record *r = &a->layout.records[i];
	struct ckpt_torch_piece *piece = &a->pieces[i];
	struct ckpt_moved moved = { .want_crc = !piece->crc_known,
				    .carried = piece->crc_known && a->crc,
				    .want_head = true };
	const struct ckpt_recipe extent = extent_of(a, i);
	char id_text[ID_BYTES + 1];
	bool is_id = !strcmp(r->name, id_record);
	int rc = 0;

	if (is_id)
		rc = fill_id(a, i, id_text, err);
	ckpt_zip_put_local_header(&a->layout, i, &a->buf);
	if (rc == 0)
		rc = flush_buf(a, mover, err);
	if (rc == 0)
		rc = ckpt_mover_copy(mover, piece->recipe ? piece->recipe : &extent, &moved, err);
	if (rc < 0)
		return rc == CKPT_E_CANCELLED
			       ? rc
			       : ckpt_error_at(err, rc, NULL, r->name, CKPT_NO_OFFSET);
	if (!piece->crc_known)
		r->crc32 = moved.crc32;
	if (!is_id)
		ckpt_serialization_id_add(&a->id, r->name, r->size, r->crc32,
					  moved.has_head ? moved.head : NULL);
	ckpt_zip_put_descriptor(&a->layout, i, &a->buf);
	return flush_buf(a, mover, err);
}

int ckpt_torch_archive_move(struct ckpt_torch_archive *a, struct ckpt_mover *mover,
			    struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < a->layout.count; i++)
		rc = move_record(a, mover, i, err);
	for (uint32_t i = 0; rc == 0 && i < a->layout.count; i++) {
		ckpt_zip_put_directory_entry(&a->layout, i, &a->buf);
		rc = flush_buf(a, mover, err);
	}
	if (rc == 0) {
		ckpt_zip_put_ends(&a->layout, &a->buf);
		rc = flush_buf(a, mover, err);
	}
	return rc;
}
