/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies a directory: the items of a DCP directory against its index, files of a set, and
 * whatever else in it is a checkpoint.
 *
 * Everything is read, even if the directory does not open, and each damage is reported once: an
 * error of opening is dropped if the file it is about has findings of its own (report_opening()),
 * and notes of the format are left out after damage. Files of no known format are no finding, as
 * anything may lie in a directory.
 */
#include "verify/verifier.h"

#include "base/text.h"
#include "set/dcp/dcp.h"
#include "set/dcp/check_directory.h"
#include "set/hf/hf.h"
#include "set/listing.h"
#include "set/set.h"
#include "set/zero/zero.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 160 };

/* ---- items of a DCP directory ---- */

static void format_place(const struct ckpt_dcp *dcp, const struct ckpt_dcp_entry *e,
			 const struct ckpt_dcp_chunk *chunk, char *out, size_t size)
{
	char shown[SHOWN], file[SHOWN];

	snprintf(out, size, "'%s' in %s at %" PRIu64,
		 ckpt_escape(shown, sizeof(shown), e->fqn->u.bytes.ptr, e->fqn->u.bytes.len),
		 ckpt_escape(file, sizeof(file), dcp->index.files[chunk->file],
			     strlen(dcp->index.files[chunk->file])),
		 chunk->off);
}

/*
 * True: the chunk is in a safetensors file, which has no checksums to compare. verify_tensor()
 * checks that it is there.
 */
static bool skip_safetensors(struct ckpt_verifier *v, struct ckpt_dcp *dcp,
			     const struct ckpt_dcp_entry *e, const struct ckpt_dcp_chunk *chunk)
{
	uint64_t nbytes;
	bool is;

	if (!e->is_tensor)
		return false;
	pthread_mutex_lock(&dcp->lock);
	is = ckpt_dcp_chunk_is_safetensors(dcp, chunk);
	pthread_mutex_unlock(&dcp->lock);
	nbytes = ckpt_dtype_size(e->dtype);
	for (uint32_t i = 0; is && i < e->ndim; i++)
		nbytes *= chunk->shape[i];
	if (is && !ckpt_verifier_note_filled(v)) {
		v->without_crc++;
		v->without_crc_bytes += nbytes;
	}
	return is;
}

static int verify_item(struct ckpt_verifier *v, struct ckpt_dcp *dcp,
		       const struct ckpt_dcp_entry *e, const struct ckpt_dcp_chunk *chunk,
		       struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT;
	char text[sizeof(local.text)];
	struct ckpt_source *source;
	struct ckpt_zip *zip;
	char place[2 * SHOWN + 40];
	int rc;

	if (chunk->file == CKPT_DCP_NO_FILE || dcp->files[chunk->file].missing)
		return 0; /* reported with the tensor, or the file */
	if (skip_safetensors(v, dcp, e, chunk))
		return 0;
	format_place(dcp, e, chunk, place, sizeof(place));
	rc = ckpt_dcp_chunk_source(dcp, e, chunk, &source, &local);
	if (rc == 0) {
		rc = ckpt_zip_open(source, &zip, &local);
		ckpt_source_unref(source); /* the archive has its own reference */
	}
	if (rc == 0) {
		rc = ckpt_verify_archive(v, zip, place, NULL, err);
		return rc == 0 ? ckpt_batch_flush_if_large(v, err) : rc;
	}
	if (rc == CKPT_E_UNSUPPORTED) /* no writer of items makes such an archive */
		return ckpt_verifier_report(v, CKPT_FINDING_DAMAGE, NULL, CKPT_NO_OFFSET,
					    "%s: the %" PRIu64 " bytes of it are not one archive",
					    place, chunk->len);
	if (rc == CKPT_E_FORMAT || rc == CKPT_E_LIMIT || rc == CKPT_E_NOTFOUND)
		return ckpt_verifier_report(v, CKPT_FINDING_DAMAGE, NULL, CKPT_NO_OFFSET, "%s: %s",
					    place, ckpt_error_text(&local, text, sizeof(text)));
	if (err)
		*err = local;
	return rc;
}

/* Does what is in the items agree with the index? */
static int verify_tensor(struct ckpt_verifier *v, struct ckpt_dcp *dcp, uint32_t entry,
			 struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT;
	char text[sizeof(local.text)];
	const struct ckpt_tensor_block *blocks;
	uint64_t count;
	int rc;

	v->report.tensors++;
	pthread_mutex_lock(&dcp->lock);
	rc = ckpt_dcp_blocks(dcp, entry, &blocks, &count, &local);
	pthread_mutex_unlock(&dcp->lock);
	if (rc == 0 || dcp->missing_files) /* reported already */
		return 0;
	if (rc == CKPT_E_FORMAT || rc == CKPT_E_LIMIT || rc == CKPT_E_NOTFOUND)
		return ckpt_verifier_report(v, CKPT_FINDING_DAMAGE, NULL, CKPT_NO_OFFSET, "%s",
					    ckpt_error_text(&local, text, sizeof(text)));
	if (err)
		*err = local;
	return rc;
}

static int verify_entry(struct ckpt_verifier *v, struct ckpt_dcp *dcp, uint32_t i,
			struct ckpt_error *err)
{
	const struct ckpt_dcp_entry *e = &dcp->index.entries[i];
	uint64_t before = v->report.findings[CKPT_FINDING_DAMAGE];
	int rc = 0;

	for (uint64_t c = 0; rc == 0 && c < e->chunk_count; c++) {
		const struct ckpt_dcp_chunk *chunk = &dcp->index.chunks[e->first_chunk + c];

		if (!e->is_tensor || !ckpt_dcp_chunk_is_empty(chunk, e->ndim))
			rc = verify_item(v, dcp, e, chunk, err);
	}
	if (rc == 0 && e->is_tensor && v->report.findings[CKPT_FINDING_DAMAGE] == before)
		rc = verify_tensor(v, dcp, i, err);
	return rc;
}

static int report_missing_files(struct ckpt_verifier *v, const struct ckpt_dcp *dcp)
{
	char shown[SHOWN];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < dcp->index.file_count; i++) {
		v->report.files++;
		if (dcp->files[i].missing)
			rc = ckpt_verifier_report(v, CKPT_FINDING_DAMAGE, NULL, CKPT_NO_OFFSET,
						  "the data file '%s' is missing",
						  ckpt_escape(shown, sizeof(shown),
							      dcp->files[i].name,
							      strlen(dcp->files[i].name)));
	}
	if (rc == 0 && dcp->unreadable_items)
		rc = ckpt_verifier_report(v, CKPT_FINDING_DAMAGE, NULL, CKPT_NO_OFFSET,
					  "%" PRIu32 " values cannot be read: %s",
					  dcp->unreadable_items, dcp->first_unreadable);
	return rc;
}

static int verify_dcp(struct ckpt_verifier *v, struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_dcp *dcp = ckpt_dcp_of(model);
	bool reads_twice = v->options.flags & CKPT_VERIFY_FINITE && ckpt_verifier_wants_bytes(v); /* ckpt_verify_numbers() */
	int rc = report_missing_files(v, dcp);

	v->report.indexes++;
	if (rc == 0)
		rc = ckpt_verify_index(v, model, err);
	for (uint64_t i = 0; i < dcp->index.chunk_count; i++)
		v->total += dcp->index.chunks[i].len * (reads_twice ? 2u : 1u);
	for (uint32_t i = 0; rc == 0 && i < dcp->index.entry_count; i++)
		rc = verify_entry(v, dcp, i, err);
	if (rc == 0)
		rc = ckpt_batch_flush(v, err);
	return rc;
}

/* ---- files that are checkpoints of their own ---- */

/* BELOW: the path of its folder in FOLDER, or "". A file of no known format is no finding. */
static int verify_listed(struct ckpt_verifier *v, const char *folder, const char *below,
			 const char *name, struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT;
	struct ckpt_source *source = NULL;
	char *path, shown[SHOWN];
	int rc;

	if (asprintf(&path, "%s/%s%s", folder, below, name) < 0)
		return ckpt_fail_nomem(err);
	rc = ckpt_source_open(path, &source, &local);
	name = path + strlen(folder) + 1;
	v->file = ckpt_escape(shown, sizeof(shown), name, strlen(name));
	if (rc == 0)
		rc = ckpt_verify_file(v, source, &local);
	v->file = NULL;
	ckpt_source_unref(source);
	free(path);
	if (rc == 0 || rc == CKPT_E_UNSUPPORTED)
		return 0;
	if (err)
		*err = local;
	return rc;
}

/* Is it a data file of the index, or one that no index mentions, which a note reports? */
static bool is_data_file(const struct ckpt_model *model, const char *name)
{
	const struct ckpt_dcp *dcp =
		model && model->doc->format == &ckpt_format_dcp ? ckpt_dcp_of(model) : NULL;

	return dcp && (ckpt_strmap_find(&dcp->index.file_by_name, name, strlen(name)) ||
		       ckpt_dcp_is_unused_data(dcp, name));
}

static int verify_files(struct ckpt_verifier *v, const char *path, const char *below,
			const struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_listing listing;
	char *folder;
	int rc;

	if (asprintf(&folder, "%s/%s", path, below) < 0)
		return ckpt_fail_nomem(err);
	rc = ckpt_listing_read(folder, &listing, err);
	free(folder);

	for (size_t i = 0; rc == 0 && i < listing.count; i++) {
		const struct ckpt_listed *item = &listing.items[i];

		if (item->is_folder || item->name[0] == '.' || is_data_file(model, item->name))
			continue;
		v->total += item->size;
		rc = verify_listed(v, path, below, item->name, err);
	}
	ckpt_listing_clear(&listing);
	return rc;
}

/* The folder that DeepSpeed's file `latest` names, where the checkpoint is. */
static int verify_latest(struct ckpt_verifier *v, const char *path, struct ckpt_error *err)
{
	char *tag = ckpt_zero_latest(path), *below = NULL;
	int rc = 0;

	if (tag && asprintf(&below, "%s/", tag) < 0)
		rc = ckpt_fail_nomem(err);
	else if (below && ckpt_zero_is_folder(path, tag))
		rc = verify_files(v, path, below, NULL, err);
	free(below);
	free(tag);
	return rc;
}

/* ---- a model in one file or several, in a directory where anything may lie ---- */

static int verify_shards(struct ckpt_verifier *v, const struct ckpt_hf *hf, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < hf->index.file_count; i++)
		v->total += ckpt_source_size(hf->shards[i]->doc->source);
	for (uint32_t i = 0; rc == 0 && i < hf->index.file_count; i++)
		rc = verify_listed(v, hf->path, "", hf->index.files[i].name, err);
	return rc;
}

static int verify_model(struct ckpt_verifier *v, struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_source *source = model->doc->source;
	int rc;

	if (model->doc->format == &ckpt_format_hf) {
		v->report.indexes += ckpt_hf_of(model)->index_name != NULL;
		rc = verify_shards(v, ckpt_hf_of(model), err);
		if (rc == 0 && !v->report.findings[CKPT_FINDING_DAMAGE])
			rc = ckpt_verifier_report_notes(v, model, err);
		return rc;
	}
	v->total += ckpt_source_size(source);
	return ckpt_verify_file(v, source, err);
}

/* Is each file of the directory a model of its own, not a shard or the file of a rank? */
static bool is_set_of_models(const struct ckpt_model *model)
{
	return model->doc->format == &ckpt_format_hf || (!model->held && !model->doc->path);
}

/* ---- the whole ---- */

/*
 * The name of the file that ERR is about, relative to the directory; NULL: it is about the
 * directory.
 */
static const char *file_in(const char *path, const struct ckpt_error *err)
{
	size_t len = strlen(path);

	return !strncmp(err->path, path, len) && err->path[len] == '/' ? err->path + len + 1 : NULL;
}

/* Why it cannot be opened is a finding, unless its file has findings already. */
static int report_opening(struct ckpt_verifier *v, const char *path, int opened,
			  const struct ckpt_error *opening, struct ckpt_error *err)
{
	const char *file = file_in(path, opening);
	char shown[SHOWN];
	int rc;

	if (file && v->report.findings[CKPT_FINDING_DAMAGE])
		return 0;
	if (file)
		v->file = ckpt_escape(shown, sizeof(shown), file, strlen(file));
	rc = ckpt_verifier_report_error(v, opened, opening);
	v->file = NULL;
	if (rc < 0 && err)
		*err = *opening;
	return rc;
}

int ckpt_verify_directory(struct ckpt_verifier *v, const char *path, struct ckpt_error *err)
{
	struct ckpt_error opening = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	int opened = ckpt_set_open(path, &model, &opening), rc = 0;

	if (opened < 0 && !file_in(path, &opening))
		rc = report_opening(v, path, opened, &opening, err);
	if (rc == 0 && model && is_set_of_models(model)) {
		rc = verify_model(v, model, err);
		ckpt_close(model);
		return rc;
	}
	if (rc == 0 && model && model->doc->format == &ckpt_format_dcp)
		rc = verify_dcp(v, model, err);
	if (rc == 0 && !ckpt_set_is_index(path)) {
		rc = verify_files(v, path, "", model, err);
		if (rc == 0)
			rc = verify_latest(v, path, err);
	}
	if (rc == 0 && opened < 0 && file_in(path, &opening))
		rc = report_opening(v, path, opened, &opening, err);
	if (rc == 0 && model && v->options.flags & CKPT_VERIFY_FINITE &&
	    ckpt_verifier_wants_bytes(v))
		rc = ckpt_verify_numbers(v, model, err);
	if (rc == 0 && model &&
	    !v->report.findings[CKPT_FINDING_DAMAGE]) /* else they would repeat it */
		rc = ckpt_verifier_report_notes(v, model, err);
	ckpt_close(model);
	return rc;
}
