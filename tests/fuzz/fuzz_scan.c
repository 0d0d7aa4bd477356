/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files through ckpt_scan(): what cannot be opened as a checkpoint may be plain only if there is nothing to load. */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>
#include <sys/stat.h>

static void check_text(const char *text)
{
	for (; *text; text++)
		REQUIRE((unsigned char)*text >= 0x20 && *text != 0x7F);
}

static int check_file(void *ctx, const struct ckpt_scan_file *f)
{
	enum ckpt_scan_verdict worst = CKPT_SCAN_PLAIN, *verdict = ctx;

	for (uint64_t i = 0; i < f->finding_count; i++) {
		const struct ckpt_scan_finding *x = &f->findings[i];

		REQUIRE(x->text && *x->text && x->kind && x->record);
		check_text(x->text);
		check_text(x->record);
		if (x->verdict > worst)
			worst = x->verdict;
	}
	for (uint64_t i = 0; i < f->global_count; i++) {
		check_text(f->globals[i].name);
		REQUIRE(f->globals[i].kind == CKPT_SCAN_DATA || f->verdict > CKPT_SCAN_PLAIN);
		REQUIRE(f->globals[i].kind != CKPT_SCAN_CODE || f->verdict == CKPT_SCAN_DANGEROUS);
	}
	for (uint64_t i = 0; i < f->refusal_count; i++) {
		check_text(f->refusals[i].text);
		for (int v = 0; v < CKPT_SCAN_TORCH_COUNT; v++)
			REQUIRE(!(f->refusals[i].versions & 1u << v) || !f->weights_only[v]);
	}
	REQUIRE(f->verdict >= worst && *f->format);
	*verdict = f->verdict;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_scan_report report = CKPT_SCAN_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	enum ckpt_scan_verdict verdict = CKPT_SCAN_PLAIN;
	bool accepts[CKPT_SCAN_TORCH_COUNT];
	struct ckpt_model *model;
	char path[FUZZ_MOST_PATH + 8];
	int rc;

	if (fuzz_make_base())
		REQUIRE(mkdir(fuzz_in, 0777) == 0);
	fuzz_write_input("file", data, size);
	snprintf(path, sizeof(path), "%s/file", fuzz_in);
	rc = ckpt_scan(path, NULL, check_file, &verdict, &report, &err);
	fuzz_check_error(rc, &err);
	REQUIRE(rc < 0 || (report.files == 1 && report.verdicts[verdict] == 1));
	rc = ckpt_scan_weights_only(path, accepts, NULL, NULL, &err);
	REQUIRE(rc == 0 || rc == CKPT_E_UNSUPPORTED || rc == CKPT_E_NOMEM);
	if (ckpt_open(path, &model, &err) < 0)
		return 0;
	rc = ckpt_scan_model_weights_only(model, accepts, NULL, NULL, &err);
	REQUIRE(rc == 0 || rc == CKPT_E_UNSUPPORTED || rc == CKPT_E_NOMEM);
	ckpt_close(model);
	return 0;
}
