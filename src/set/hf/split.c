/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of single ranks with parts of tensors, as sharded.c reads them:
 * shard-00001-model-00001-of-00001.safetensors, whose number is that of the rank and 1. Their
 * metadata say where each part begins. There is no index. Source:
 * torch/distributed/checkpoint/hf_storage.py, _hf_utils.py and _write_files_from_queue() in
 * filesystem.py, of 2.14.
 *
 * Parts are counted by rank, then put in place (`starts`, `parts`): both passes must cut the same
 * way, so the cuts are kept. All files are laid out once without writing, as in save.c. A struct
 * part begins with its item, because the writer of safetensors gives the item back and the part
 * is found from it.
 */
#include "set/hf/out.h"

#include "base/c_locale.h"
#include "base/paths.h"
#include "base/text.h"
#include "model/casts.h"
#include "plan/checks.h"
#include "set/cut.h"
#include "set/hf/hf.h"
#include "set/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANY_NAME "shard-[0-9]*-model-[0-9]*-of-[0-9]*.safetensors"
enum { SHOWN = 120, NAME_ROOM = 64 };

/* What is written of a tensor: ITEM has the shape of the part. */
struct rank_part {
	struct ckpt_safetensors_item item; /* goes first: the writer gives it back */
	const struct ckpt_tensor *whole;
	const uint64_t *offset;
};

struct hf_splitter {
	const struct ckpt_model *model;
	struct ckpt_save_options o;
	struct ckpt_safetensors_list list;
	struct ckpt_cutter cutter;
	struct ckpt_arena *arena; /* owned: of parts */
	struct rank_part **parts; /* malloc: by rank, and in the order of the model */
	uint64_t *starts;	  /* malloc: by rank, where its own begin; one more for the end */
	struct ckpt_folder *folder;
	struct ckpt_checks *checks;
	uint32_t files;
	uint64_t done, total; /* bytes of finished files, and of all */
	struct ckpt_error *err;
};

/* ---- where everything goes ---- */

static int fail_whole(struct hf_splitter *s, const struct ckpt_safetensors_item *item)
{
	char shown[SHOWN];

	return ckpt_fail(s->err, CKPT_E_UNSUPPORTED, "'%s' cannot be cut into shards",
			 ckpt_escape(shown, sizeof(shown), item->name, item->name_len));
}

/*
 * How every tensor is cut, to be freed; *COUNT parts in all, those of each rank counted in STARTS.
 */
static struct ckpt_cut *cut_all(struct hf_splitter *s, uint64_t *count)
{
	struct ckpt_cut *cuts = calloc(s->list.count + (size_t)1, sizeof(*cuts));

	*count = 0;
	for (uint32_t i = 0; cuts && i < s->list.count; i++) {
		cuts[i] = ckpt_cutter_cut(&s->cutter, &s->list.items[i].t);
		for (uint32_t k = 0; k < cuts[i].count; k++)
			s->starts[cuts[i].first_rank + k + 2]++;
		*count += cuts[i].count;
	}
	for (uint32_t r = 2; r < s->cutter.ranks + 2; r++)
		s->starts[r] += s->starts[r - 1];
	return cuts;
}

static int add_part(struct hf_splitter *s, const struct ckpt_safetensors_item *item,
		    const struct ckpt_cut *cut, uint32_t i)
{
	uint32_t ndim = item->t.ndim;
	struct rank_part *part = ckpt_arena_alloc(s->arena, sizeof(*part));
	uint64_t *offset = ckpt_arena_calloc(s->arena, ndim + (uint64_t)1, sizeof(*offset));
	uint64_t *shape = ckpt_arena_calloc(s->arena, ndim + (uint64_t)1, sizeof(*shape));

	if (!part || !offset || !shape)
		return ckpt_arena_fail(s->arena, s->err);
	*part = (struct rank_part){ .item = *item, .whole = &item->t, .offset = offset };
	part->item.nbytes = ckpt_cut_part(cut, i, offset, shape);
	part->item.t.shape = shape;
	s->parts[s->starts[cut->first_rank + i + 1]++] = part;
	return 0;
}

static int check_items(struct hf_splitter *s)
{
	for (uint32_t i = 0; i < s->list.count; i++)
		if (s->list.items[i].t.storage < 0 ||
		    ckpt_dtype_packed(s->list.items[i].t.dtype) > 1)
			return fail_whole(s, &s->list.items[i]);
	return s->list.count ? 0 : ckpt_fail(s->err, CKPT_E_UNSUPPORTED, "holds no tensor");
}

static int assign_parts(struct hf_splitter *s)
{
	struct ckpt_cut *cuts;
	uint64_t count = 0;
	int rc = 0;

	s->arena = ckpt_arena_new(UINT64_MAX >> 1); /* in proportion to tensors and ranks */
	s->starts = calloc(s->cutter.ranks + (size_t)2, sizeof(*s->starts));
	cuts = s->starts ? cut_all(s, &count) : NULL;
	s->parts = malloc((count + 1) * sizeof(struct rank_part *));
	if (!s->arena || !cuts || !s->parts)
		rc = ckpt_fail_nomem(s->err);
	for (uint32_t i = 0; rc == 0 && i < s->list.count; i++)
		for (uint32_t k = 0; rc == 0 && k < cuts[i].count; k++)
			rc = add_part(s, &s->list.items[i], &cuts[i], k);
	free(cuts);
	return rc;
}

static int plan(struct hf_splitter *s)
{
	int rc = ckpt_safetensors_list_make(s->model, &s->o, &s->list, s->err);

	if (rc == 0)
		rc = check_items(s);
	if (rc == 0)
		rc = ckpt_cutter_init(&s->cutter, &s->o, s->err);
	return rc == 0 ? assign_parts(s) : rc;
}

/* ---- one file ---- */

/* {"a.weight": {"saved_offsets": [0, 0]}, ...}, as json.dumps() writes it. */
static int write_offsets(struct hf_splitter *s, struct rank_part *const *parts, uint64_t count,
			 struct ckpt_buf *text)
{
	ckpt_buf_printf(text, "{");
	for (uint64_t i = 0; i < count; i++) {
		const struct ckpt_safetensors_item *item = &parts[i]->item;

		ckpt_buf_printf(text, i ? ", " : "");
		ckpt_hf_add_string(text, item->name, item->name_len);
		ckpt_buf_printf(text, ": {\"saved_offsets\": [");
		for (uint32_t d = 0; d < item->t.ndim; d++)
			ckpt_buf_printf(text, "%s%" PRIu64, d ? ", " : "", parts[i]->offset[d]);
		ckpt_buf_printf(text, "]}");
	}
	ckpt_buf_printf(text, "}");
	if (text->len > CKPT_SAFETENSORS_MOST_JSON)
		return ckpt_fail(s->err, CKPT_E_LIMIT,
				 "a rank has more tensors than a header can name");
	return text->bad ? ckpt_fail_nomem(s->err) : 0;
}

static int part_bytes(void *ctx, const struct ckpt_safetensors_item *item, struct ckpt_arena *arena,
		      struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct hf_splitter *s = ctx;
	const struct rank_part *part = (const struct rank_part *)item;

	return ckpt_cut_box(s->model, part->whole, part->offset, item->t.shape, arena, out, err);
}

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct hf_splitter *s = ctx;

	(void)total;
	s->o.progress(s->o.progress_ctx, s->done + done, s->total);
}

static int write_parts(struct hf_splitter *s, struct rank_part *const *parts, uint64_t count,
		       const char *path, bool dry, uint64_t *nbytes)
{
	struct ckpt_buf offsets = { 0 };
	struct ckpt_safetensors_item **items = malloc((count + 1) * sizeof(*items));
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_save_options o = s->o;
	int rc = items ? write_offsets(s, parts, count, &offsets) : ckpt_fail_nomem(s->err);

	for (uint64_t i = 0; rc == 0 && i < count; i++)
		items[i] = &parts[i]->item;
	o.flags = (o.flags & CKPT_SAVE_NO_SYNC) | CKPT_SAVE_CANONICAL |
		  (dry ? CKPT_SAVE_DRY_RUN : 0u);
	o.progress = o.progress ? show_progress : NULL;
	o.progress_ctx = s;
	o.naming = NULL; /* of the directory alone */
	if (rc == 0) {
		const struct ckpt_safetensors_pair metadata[] = {
			{ "DCP_SHARDING_INFO", (const char *)offsets.data, 17,
			  (uint32_t)offsets.len },
			{ "DCP_VERSION", "1.0", 11, 3 },
			{ "format", "pt", 6, 2 },
		};
		struct ckpt_safetensors_out out = { .model = s->model,
						    .items = items,
						    .count = (uint32_t)count,
						    .metadata = metadata,
						    .metadata_count = 3,
						    .has_metadata = true,
						    .bytes = part_bytes,
						    .ctx = s,
						    .checks = s->checks };

		rc = ckpt_safetensors_write(&out, path, &o, &report, s->err);
	}
	*nbytes = report.nbytes;
	ckpt_buf_clear(&offsets);
	free(items);
	return rc;
}

static void make_name(uint32_t rank, char name[NAME_ROOM])
{
	snprintf(name, NAME_ROOM, "shard-%05" PRIu32 "-model-00001-of-00001.safetensors", rank + 1);
}

/* A rank that has no part of anything gets no file, as of torch. */
static int write_rank(struct hf_splitter *s, uint32_t rank, bool dry)
{
	uint64_t start = rank ? s->starts[rank] : 0, count = s->starts[rank + 1] - start, nbytes;
	char name[NAME_ROOM], *path;
	int rc;

	if (!count)
		return 0;
	make_name(rank, name);
	if (ckpt_path_join(ckpt_folder_temp_path(s->folder), name, &path, s->err) < 0)
		return CKPT_E_NOMEM;
	rc = write_parts(s, s->parts + start, count, path, dry, &nbytes);
	free(path);
	if (dry) {
		s->total += nbytes;
		s->files++;
	} else {
		s->done += nbytes;
	}
	return rc;
}

/* ---- all of them ---- */

/* Once without writing: what cannot be written is found before there is a byte of it. */
static int write_all(struct hf_splitter *s)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < s->cutter.ranks; i++)
		rc = write_rank(s, i, true);
	if (rc < 0 || s->o.flags & CKPT_SAVE_DRY_RUN)
		return rc;
	rc = ckpt_checks_new(&s->checks, s->err);
	for (uint32_t i = 0; rc == 0 && i < s->cutter.ranks; i++)
		rc = write_rank(s, i, false);
	if (rc == 0)
		rc = ckpt_checks_finish(s->checks, s->o.cancel, s->o.threads, s->err);
	return rc == 0 ? ckpt_model_check_saved(s->model, s->o.flags, s->err) : rc;
}

static bool is_own(const void *ctx, const char *path, const char *name)
{
	(void)ctx;
	(void)path;
	return ckpt_glob_matches(ANY_NAME, name, 0);
}

static int save_set(struct hf_splitter *s, const char *path)
{
	static const struct ckpt_folder_own own = { is_own, NULL };
	unsigned flags = ckpt_set_folder_flags(&s->o);
	int rc = ckpt_set_check_not_input(s->model, path, s->err);

	if (rc == 0)
		rc = ckpt_folder_check(path, &own, flags, s->err);
	if (rc == 0)
		rc = plan(s);
	rc = ckpt_error_at(s->err, rc, ckpt_document_path(s->model->doc), NULL, CKPT_NO_OFFSET);
	if (rc == 0)
		rc = ckpt_folder_open(path, &own, s->cutter.total, flags,
				      ckpt_model_folder_mode(s->model), &s->folder, s->err);
	if (rc == 0)
		rc = write_all(s);
	if (rc == 0 && !(s->o.flags & CKPT_SAVE_DRY_RUN)) {
		ckpt_folder_set_save(s->folder, &s->o);
		rc = ckpt_folder_commit(s->folder, s->err);
		s->folder = NULL;
	}
	return rc;
}

static int check_options(const struct hf_splitter *s)
{
	if (s->o.shard_size)
		return ckpt_fail(s->err, CKPT_E_ARG,
				 "a size of files and a number of ranks: one of them is wanted");
	if (s->o.shared == CKPT_SHARED_ALIAS)
		return ckpt_fail(s->err, CKPT_E_ARG, "files of ranks have no place for aliases");
	return ckpt_set_check_source(s->model, s->err);
}

int ckpt_hf_save_split(const struct ckpt_model *model, const char *path,
		       const struct ckpt_save_options *options, struct ckpt_save_report *report,
		       struct ckpt_error *err)
{
	struct hf_splitter s = { .model = model, .o = *options, .err = err };
	int rc = check_options(&s);

	if (s.o.shared == CKPT_SHARED_DEFAULT)
		s.o.shared = CKPT_SHARED_ERROR;
	if (rc == 0)
		rc = save_set(&s, path);
	report->nbytes = report->written = s.total;
	report->others = s.list.others;
	report->cloned = s.list.cloned;
	report->shards = s.files;
	ckpt_folder_discard(s.folder);
	ckpt_checks_free(s.checks);
	ckpt_cutter_clear(&s.cutter);
	ckpt_safetensors_list_clear(&s.list);
	ckpt_arena_free(s.arena);
	free(s.parts);
	free(s.starts);
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}
