/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ascii.h"
#include "format/container.h"
#include "format/format.h"

#include <ckpt/container.h>

#include <string.h>

/* What is compressed is unpacked only if its name promises a checkpoint. */
static bool has_checkpoint_name(const struct ckpt_zip_entry *entry)
{
	static const char *const suffixes[] = { ".pt",	".pth", ".ckpt", ".bin",
						".pkl", ".tar", ".zip",	 ".model" };

	if (entry->method == CKPT_ZIP_STORED)
		return true;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t len = strlen(suffixes[i]);

		if (entry->name_len >= len &&
		    !ckpt_strcasecmp(entry->name + entry->name_len - len, suffixes[i]))
			return true;
	}
	return false;
}

static bool is_zip(struct ckpt_source *source)
{
	struct ckpt_zip *zip;

	if (ckpt_zip_open(source, &zip, NULL) < 0)
		return false;
	ckpt_zip_close(zip);
	return true;
}

/* What cannot be read has no kind. Returns 0 or CKPT_E_NOMEM. */
static int describe_entry(struct ckpt_zip *zip, struct ckpt_zip_entry *entry,
			  struct ckpt_source *root, struct ckpt_inner *inner)
{
	struct ckpt_source *source;
	struct ckpt_model *model = NULL;
	int rc;

	if (!has_checkpoint_name(entry))
		return 0;
	rc = ckpt_container_open_entry(zip, entry, root, &source, NULL);
	if (rc < 0)
		return rc == CKPT_E_NOMEM ? rc : 0;
	rc = ckpt_format_open(source, &model, NULL);
	if (rc == 0)
		rc = ckpt_list_tensors(model, NULL);
	if (rc == 0) {
		inner->kind = model->doc->format->name;
		inner->tensors = ckpt_tensor_count(model);
	} else if (rc != CKPT_E_NOMEM && is_zip(source)) {
		inner->kind = "zip archive";
	}
	ckpt_close(model);
	ckpt_source_unref(source);
	return rc == CKPT_E_NOMEM ? rc : 0;
}

static int visit_entries(struct ckpt_zip *zip, struct ckpt_source *root,
			 int (*visit)(void *ctx, const struct ckpt_inner *inner), void *ctx,
			 struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc >= 0 && i < zip->count; i++) {
		struct ckpt_zip_entry *e = &zip->entries[i];
		struct ckpt_inner inner = { .size = sizeof(inner),
					    .name = e->name,
					    .nbytes = e->usize,
					    .stored = e->csize };

		if (e->name_len && e->name[e->name_len - 1] == '/')
			continue;
		if (describe_entry(zip, e, root, &inner) < 0)
			return ckpt_fail_nomem(err);
		rc = visit(ctx, &inner);
	}
	return rc < 0 ? rc : 0;
}

int ckpt_each_inner(const char *path, int (*visit)(void *ctx, const struct ckpt_inner *inner),
		    void *ctx, struct ckpt_error *err)
{
	struct ckpt_source *source;
	struct ckpt_zip *zip;
	bool inside;
	int rc = ckpt_container_open(path, &source, &inside, err);

	if (rc < 0)
		return rc;
	rc = ckpt_zip_open(source, &zip, err);
	if (rc == CKPT_E_NOTFOUND)
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "is no zip archive");
	if (rc == 0) {
		rc = visit_entries(zip, source, visit, ctx, err);
		ckpt_zip_close(zip);
	}
	ckpt_source_unref(source);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}
