/* SPDX-License-Identifier: Apache-2.0 */
#include "set/dcp/save.h"

#include "set/out.h"

#include "base/c_locale.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <sys/stat.h>

int ckpt_dcp_check_no_link(const char *path, unsigned flags, struct ckpt_error *err)
{
	struct stat st;

	if (flags & CKPT_SAVE_REPLACE || lstat(path, &st) < 0 || !S_ISLNK(st.st_mode))
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_OUTPUT,
				       "is a symbolic link: what it points to would be changed"),
			     path, NULL, CKPT_NO_OFFSET);
}

bool ckpt_dcp_is_own(const void *ctx, const char *path, const char *name)
{
	static const char *const patterns[] = { ".metadata", ".metadata.tmp", "__*.metadata",
						"__*.metadata.tmp" };

	(void)ctx;
	(void)path;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (ckpt_glob_matches(patterns[i], name, FNM_PATHNAME))
			return true;
	return ckpt_glob_matches("*.distcp", name, 0); /* in folders, too */
}

int ckpt_dcp_check_target(const struct ckpt_model *model, const char *path,
			  const struct ckpt_folder_own *own, const struct ckpt_save_options *o,
			  struct ckpt_error *err)
{
	int rc = ckpt_set_check_not_input(model, path, err);

	return rc < 0 ? rc : ckpt_folder_check(path, own, ckpt_set_folder_flags(o), err);
}

int ckpt_dcp_flatten_model(const struct ckpt_model *model, struct ckpt_dcp_out *out,
			   struct ckpt_error *err)
{
	const struct ckpt_dcp *dcp;
	uint8_t *leaf;
	int rc;

	if (model->doc->format != &ckpt_format_dcp)
		return ckpt_dcp_flatten(model, NULL, 0, out, err);
	dcp = ckpt_dcp_of(model);
	leaf = calloc(model->doc->pickle.next_id, 1);
	if (!leaf)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < dcp->index.entry_count; i++)
		if (dcp->values[i]->id)
			leaf[dcp->values[i]->id] = 1;
	rc = ckpt_dcp_flatten(model, leaf, model->doc->pickle.next_id, out, err);
	free(leaf);
	return rc;
}
