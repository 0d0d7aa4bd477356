/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/nccl.h"

#include "gpu/nccl_library.h"

#include <stdio.h>
#include <string.h>

enum { ABORT_FROM_A_THREAD = 21900 }; /* mended there: github.com/NVIDIA/nccl/issues/992 */

void ckpt_nccl_find_facts(struct ckpt_nccl_facts *out)
{
	const struct ckpt_nccl *nccl;
	struct ckpt_error err = CKPT_ERROR_INIT;
	const char *warning = "";
	char version[16];

	*out = (struct ckpt_nccl_facts){ 0 };
	if (ckpt_nccl_get(&nccl, &err) < 0) {
		ckpt_error_text(&err, out->text, sizeof(out->text));
		return;
	}
	if (nccl->version < ABORT_FROM_A_THREAD)
		warning = " (before 2.19 an abort in another thread may hang)";
	out->is_there = true;
	out->version = nccl->version;
	out->cuda_major = nccl->cuda_major;
	memcpy(out->path, nccl->path, sizeof(out->path));
	ckpt_nccl_version_text(nccl->version, version);
	if (nccl->cuda_major)
		snprintf(out->text, sizeof(out->text), "%s for CUDA %d%s", version,
			 nccl->cuda_major, warning);
	else
		snprintf(out->text, sizeof(out->text), "%s%s", version, warning);
}

int ckpt_nccl_make_id(struct ckpt_nccl_id *out, struct ckpt_error *err)
{
	const struct ckpt_nccl *nccl;
	unsigned code;
	int rc = ckpt_nccl_get(&nccl, err);

	memset(out, 0, sizeof(*out));
	if (rc < 0)
		return rc;
	code = nccl->ncclGetUniqueId(out);
	return code ? ckpt_nccl_fail(nccl, "ncclGetUniqueId", code, 0, err) : 0;
}
