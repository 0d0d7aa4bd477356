/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are storages where torch computes them? With .format_version in the file, torch 2.7 and later do
 * not ask the directory where storages are, for mmap and the device "meta": key 0 comes first, then
 * the others in the order in which the pickle mentions them, each laid out as the writer does it.
 * Source: torch/serialization.py, _get_offset() of the unpickler; checked with torch 2.14.
 */
#include "verify/verifier.h"

#include "format/torch_zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t end_of_record(const struct ckpt_zip_entry *e)
{
	bool wide = e->usize >= UINT32_MAX || e->header_off >= UINT32_MAX;

	return e->data_off + e->csize + (!e->usize ? 0 : wide ? 24 : 16);
}

static int report_broken(struct ckpt_verifier *v, const char *what)
{
	return ckpt_verifier_report(
		v, CKPT_FINDING_DAMAGE, ".format_version", CKPT_NO_OFFSET,
		"promises a layout that the file does not have (%s): torch.load with mmap "
		"or to the device 'meta' would take wrong bytes for tensors; 'ckpt "
		"convert' mends it",
		what);
}

int ckpt_verify_storage_layout(struct ckpt_verifier *v, const struct ckpt_model *model,
			       struct ckpt_error *err)
{
	const struct ckpt_torch_zip *tz = ckpt_torch_zip_of(model);
	struct ckpt_error damage = CKPT_ERROR_INIT;
	uint64_t end = 0;
	char key[16], what[120];
	int rc;

	if (!tz->has_format_version)
		return 0;
	rc = ckpt_zip_locate_all(tz->zip, &damage);
	if (rc == CKPT_E_FORMAT || rc == CKPT_E_UNSUPPORTED)
		return 0; /* reported already */
	if (rc < 0 && err)
		*err = damage;
	for (uint32_t i = 0; rc == 0 && i < model->storage_count; i++) {
		const struct ckpt_zip_entry *e = ckpt_torch_zip_data(tz, &model->storages[i]);

		snprintf(key, sizeof(key), "%" PRIu32, i);
		if (strcmp(model->storages[i].key, key) != 0) {
			snprintf(what, sizeof(what), "storage number %s has the key '%.40s'", key,
				 model->storages[i].key);
			return report_broken(v, what);
		}
		if (e->method != CKPT_ZIP_STORED)
			return report_broken(v, "storages are compressed");
		if (i && e->header_off != end) {
			snprintf(what, sizeof(what), "storage '%s' does not follow the one before",
				 key);
			return report_broken(v, what);
		}
		end = end_of_record(e);
	}
	return rc;
}
