/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tar archives of torch before 0.1.10; torch_tar.h has the members. The tables come
 * first (torch_tar_tables.c), and the persistent ids of the object are resolved while it is
 * decoded (load_persistent), so that the graph is the one that a torch.save file of today would
 * give.
 *
 * What must stay true: a tar has no index, so that looking for four members passes over others,
 * but not over any number of them; places are numbered as the model numbers the storages.
 */
#include "format/torch_tar.h"

#include "base/text.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A tar has no directory: who looks for four members passes over others, but not over any number
 * of them.
 */
enum { MOST_MEMBERS = 64, SHOWN = 120 };
static const uint64_t BUDGET_BASE = 64 << 20;
static const uint64_t MOST_PICKLE = (uint64_t)512 << 20;

static const char *const names[CKPT_TAR_MEMBER_COUNT] = { "sys_info", "pickle", "tensors",
							  "storages" };

const char *ckpt_torch_tar_name(enum ckpt_torch_tar_member member)
{
	return names[member];
}

static const struct ckpt_torch_tar *tar_of(const struct ckpt_model *model)
{
	return model->doc->container;
}

void ckpt_torch_tar_clear(struct ckpt_torch_tar *tt)
{
	ckpt_strmap_clear(&tt->by_key);
	free(tt->entries);
	free(tt->places);
	ckpt_arena_free(tt->arena);
}

static void free_tar(void *container)
{
	if (container)
		ckpt_torch_tar_clear(container);
	free(container);
}

/* ---- members ---- */

static int add_member(struct ckpt_torch_tar *tt, const struct ckpt_tar_member *member,
		      struct ckpt_error *err)
{
	const char *what = NULL;
	int i = 0;

	while (i < CKPT_TAR_MEMBER_COUNT && strcmp(names[i], member->name) != 0)
		i++;
	if (i == CKPT_TAR_MEMBER_COUNT) {
		tt->foreign++;
		return 0;
	}
	if (tt->has[i])
		what = "is there twice";
	else if (!member->is_file)
		what = "is no plain file";
	tt->has[i] = true;
	tt->members[i] = *member;
	if (!what)
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_FORMAT, "the member '%s' %s", names[i], what),
			     NULL, NULL, member->header);
}

int ckpt_torch_tar_find(struct ckpt_source *source, struct ckpt_torch_tar *out,
			struct ckpt_error *err)
{
	struct ckpt_tar tar = { .source = source };
	struct ckpt_tar_member member;
	int rc = 1;

	for (uint32_t count = 0; rc == 1; count++) {
		if (count > MOST_MEMBERS)
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "is a tar archive of more than %d members, torch wrote %d",
					 MOST_MEMBERS, CKPT_TAR_MEMBER_COUNT);
		rc = ckpt_tar_next(&tar, &member, err);
		if (rc == 1 && add_member(out, &member, err) < 0)
			return CKPT_E_FORMAT;
	}
	return rc;
}

/* One name alone may be any file's: torch wrote `sys_info`, `pickle`, `tensors`, `storages`. */
bool ckpt_torch_tar_is_one(const struct ckpt_torch_tar *tt)
{
	return tt->has[CKPT_TAR_STORAGES] || tt->has[CKPT_TAR_TENSORS] ||
	       (tt->has[CKPT_TAR_SYS_INFO] && tt->has[CKPT_TAR_PICKLE]);
}

/* Only the byte order is of interest; a file may lack this member. */
static void read_facts(struct ckpt_torch_tar *tt, struct ckpt_source *source)
{
	const struct ckpt_tar_member *member = &tt->members[CKPT_TAR_SYS_INFO];
	const struct ckpt_seq *pairs;
	struct ckpt_pickle pickle;
	uint64_t at = member->off;
	uint8_t *bytes;

	if (!tt->has[CKPT_TAR_SYS_INFO])
		return;
	if (ckpt_torch_tar_pickle(source, &at, at + member->len, &pickle, &bytes, NULL) == 0) {
		pairs = ckpt_value_pairs(pickle.root);
		for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2)
			if (ckpt_value_is_str(pairs->items[i], "little_endian"))
				tt->says_big_endian = pairs->items[i + 1]->kind == CKPT_BOOL &&
						      !pairs->items[i + 1]->u.integer;
		ckpt_pickle_clear(&pickle);
	}
	free(bytes);
}

/* ---- the object ---- */

/* As int() takes it: decimal digits. */
static bool read_number(const struct ckpt_value *v, int64_t *out)
{
	bool is_text = v->kind == CKPT_STR || v->kind == CKPT_PY2_STR;

	*out = v->kind == CKPT_INT ? v->u.integer : 0;
	if (!is_text)
		return v->kind == CKPT_INT;
	for (uint64_t i = 0; i < v->u.bytes.len; i++) {
		char c = v->u.bytes.ptr[i];

		if (c < '0' || c > '9' || *out > (INT64_MAX - 9) / 10)
			return false;
		*out = *out * 10 + (c - '0');
	}
	return v->u.bytes.len > 0;
}

/* The key of a tensor or a storage; or a class with its source text, as (class, file, source). */
static int load_persistent(void *ctx, const struct ckpt_value *pid, const struct ckpt_value **out,
			   struct ckpt_error *err)
{
	const struct ckpt_torch_tar *tt = ctx;
	int64_t key;
	uint64_t *slot;

	if (pid->kind == CKPT_TUPLE && pid->u.seq.count > 0 &&
	    pid->u.seq.items[0]->kind == CKPT_GLOBAL) {
		*out = pid->u.seq.items[0];
		return 0;
	}
	if (!read_number(pid, &key))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "persistent id: wanted the number of a tensor, found %s",
				 ckpt_value_kind_name(pid));
	slot = ckpt_strmap_find(&tt->by_key, (const char *)&key, sizeof(key));
	if (!slot)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "persistent id %" PRId64 ": there is no such tensor or storage",
				 key);
	*out = tt->entries[*slot].value;
	return 0;
}

static int read_object(struct ckpt_document *doc, uint32_t first_id, struct ckpt_error *err)
{
	struct ckpt_torch_tar *tt = doc->container;
	const struct ckpt_tar_member *member = &tt->members[CKPT_TAR_PICKLE];
	struct ckpt_persistent_load persistent = { load_persistent, tt };
	int rc;

	if (member->len > MOST_PICKLE)
		return ckpt_fail(err, CKPT_E_LIMIT, "the pickle has %" PRIu64 " bytes",
				 member->len);
	doc->pickle_len = (size_t)member->len;
	doc->pickle_bytes = malloc(doc->pickle_len + 1);
	if (!doc->pickle_bytes)
		return ckpt_fail_nomem(err);
	rc = ckpt_source_read(doc->source, member->off, doc->pickle_bytes, doc->pickle_len, err);
	if (rc == 0)
		rc = ckpt_pickle_decode_with(&persistent, first_id, doc->pickle_bytes,
					     doc->pickle_len, BUDGET_BASE + 80 * member->len,
					     &doc->pickle, err);
	if (rc == 0 && !ckpt_seq_add_many(doc->pickle.arena, &doc->pickle.persids,
					  tt->storages.items, tt->storages.count))
		rc = ckpt_arena_fail(doc->pickle.arena, err);
	return ckpt_error_at(err, rc, NULL, names[CKPT_TAR_PICKLE], CKPT_NO_OFFSET);
}

/* ---- the document ---- */

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_torch_tar_place *place = s->record;

	(void)err;
	*out = (struct ckpt_recipe){
		.kind = CKPT_RECIPE_EXTENT, .src = doc->source, .off = place->off, .len = s->nbytes
	};
	return 0;
}

static int read_members(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct ckpt_torch_tar *tt = doc->container;
	uint32_t next_id = 1;
	int rc = ckpt_torch_tar_find(doc->source, tt, err);

	if (rc == 0)
		rc = ckpt_torch_tar_read_tables(tt, doc->source, &next_id, err);
	if (rc < 0)
		return rc;
	read_facts(tt, doc->source);
	return read_object(doc, next_id, err);
}

static struct ckpt_document *new_document(struct ckpt_source *source)
{
	struct ckpt_document *doc = ckpt_document_new(source, &ckpt_format_torch_tar,
						      sizeof(struct ckpt_torch_tar), free_tar);

	if (doc)
		doc->storage_bytes = storage_bytes;
	return doc;
}

static int read_torch_tar(struct ckpt_opening *opening, struct ckpt_model **out,
			  struct ckpt_error *err)
{
	struct ckpt_document *doc = new_document(opening->source);
	struct ckpt_torch_tar *tt;
	int rc;

	*out = NULL;
	if (!doc)
		return ckpt_fail_nomem(err);
	rc = read_members(doc, err);
	if (rc < 0) {
		ckpt_document_unref(doc);
		return rc;
	}
	tt = doc->container;
	rc = ckpt_model_new(doc, out, err);
	if (rc < 0)
		return ckpt_error_at(err, rc, NULL, names[CKPT_TAR_PICKLE], CKPT_NO_OFFSET);
	for (uint32_t i = 0; i < doc->storage_count; i++)
		doc->storages[i].record = &tt->places[i];
	return 0;
}

int ckpt_torch_tar_check_tensors(const struct ckpt_model *model, struct ckpt_error *err)
{
	const struct ckpt_torch_tar *tt = tar_of(model);
	struct ckpt_arena *arena = ckpt_arena_new(UINT64_MAX >> 1);
	struct ckpt_arena_mark empty;
	struct ckpt_tensor t;
	int rc = arena ? 0 : ckpt_fail_nomem(err);

	if (rc == 0)
		empty = ckpt_arena_mark(arena);
	for (uint32_t i = 0; i < tt->count && rc >= 0; i++) {
		if (tt->entries[i].type || !tt->entries[i].value)
			continue;
		rc = ckpt_tensor_parse(model, tt->entries[i].value, arena, &t, err);
		if (rc >= 0 && !ckpt_shape_is_countable(t.shape, t.ndim))
			rc = ckpt_fail(err, CKPT_E_FORMAT, "a tensor with more numbers than torch can count");
		ckpt_arena_release(arena, empty);
	}
	ckpt_arena_free(arena);
	if (rc >= 0 && tt->has_number_of_nothing)
		rc = ckpt_fail(err, CKPT_E_FORMAT, "a tensor of one number, of a storage that has none: torch 0.4 and later make it of memory that nobody has set");
	return rc < 0 ? ckpt_error_at(err, rc, NULL, names[CKPT_TAR_TENSORS], CKPT_NO_OFFSET) : 0;
}

static bool probe(const struct ckpt_opening *opening)
{
	struct ckpt_torch_tar tt = { 0 };

	if (!ckpt_tar_probe(opening->head, opening->len))
		return false;
	ckpt_torch_tar_find(opening->source, &tt, NULL); /* what is wrong is said by who reads */
	return ckpt_torch_tar_is_one(&tt);
}

/* ---- for struct ckpt_format ---- */

static uint32_t count_members(const struct ckpt_torch_tar *tt)
{
	uint32_t count = tt->foreign;

	for (int i = 0; i < CKPT_TAR_MEMBER_COUNT; i++)
		count += tt->has[i];
	return count;
}

static void describe_tar(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_torch_tar *tt = tar_of(model);

	out->format = "torch tar";
	out->writer = "torch up to 0.1.9";
	out->profile = "";
	out->archive_name = "";
	out->byteorder = "little";
	out->record_count = count_members(tt);
	out->foreign = tt->foreign;
}

static int records(const struct ckpt_model *model,
		   int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
		   struct ckpt_error *err)
{
	static const enum ckpt_record_kind kinds[CKPT_TAR_MEMBER_COUNT] = {
		CKPT_RECORD_MARK, CKPT_RECORD_PICKLE, CKPT_RECORD_PICKLE, CKPT_RECORD_STORAGE
	};
	const struct ckpt_torch_tar *tt = tar_of(model);
	int rc = 0;

	(void)err;
	for (int i = 0; rc >= 0 && i < CKPT_TAR_MEMBER_COUNT; i++) {
		struct ckpt_record record = { .size = sizeof(record),
					      .name = names[i],
					      .kind = kinds[i],
					      .nbytes = tt->members[i].len,
					      .stored = tt->members[i].len };

		if (tt->has[i])
			rc = visit(ctx, &record);
	}
	return rc < 0 ? rc : 0;
}

static int note_oddities(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
			 void *ctx, struct ckpt_error *err)
{
	(void)err;
	if (tar_of(model)->says_big_endian)
		note(ctx,
		     "was written on a big-endian machine; the bytes of tensors are read as little-endian "
		     "all the same, as torch does");
	return 0;
}

static int refuse(struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "the tar form of torch 0.1 cannot be written; 'ckpt convert' makes a file "
			 "of today, which can be edited");
}

static int save(const struct ckpt_model *model, const char *path,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	(void)path;
	(void)options;
	(void)report;
	return ckpt_error_at(err, refuse(err), ckpt_document_path(model->doc), NULL,
			     CKPT_NO_OFFSET);
}

static int save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
			 struct ckpt_save_report *report, struct ckpt_error *err)
{
	return save(model, NULL, options, report, err);
}

const struct ckpt_format ckpt_format_torch_tar = {
	.name = "torch tar",
	.code = CKPT_FORMAT_TORCH_TAR,
	.probe = probe,
	.read = read_torch_tar,
	.save = save,
	.save_in_place = save_in_place,
	.describe = describe_tar,
	.records = records,
	.notes = note_oddities,
};
