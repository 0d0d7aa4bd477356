/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files through ckpt_verify(): it never says "sound" of what cannot be opened. Best with TMPDIR in memory. */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>
#include <sys/stat.h>

static int check_finding(void *ctx, const struct ckpt_finding *f)
{
	uint64_t *counts = ctx;

	REQUIRE(f->kind <= CKPT_FINDING_ODD && f->text && *f->text && !f->file);
	for (const char *p = f->text; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7F);
	for (const char *p = f->record ? f->record : ""; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7F);
	counts[f->kind]++;
	return 0;
}

static void verify(const char *path, unsigned flags, bool opens)
{
	struct ckpt_verify_options options = CKPT_VERIFY_OPTIONS_INIT;
	struct ckpt_verify_report report = CKPT_VERIFY_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t counts[4] = { 0 };
	int rc;

	options.flags = flags;
	rc = ckpt_verify(path, &options, check_finding, counts, &report, &err);
	fuzz_check_error(rc, &err);
	if (rc < 0)
		return;
	for (int i = 0; i < 4; i++)
		REQUIRE(counts[i] == (report.findings[i] < 1000 ? report.findings[i] : 1000));
	REQUIRE(opens || (report.verdict != CKPT_VERDICT_SOUND && report.verdict != CKPT_VERDICT_COMPLETE));
	REQUIRE((report.verdict == CKPT_VERDICT_DAMAGED) ==
		(counts[CKPT_FINDING_DAMAGE] || counts[CKPT_FINDING_NOT_FINITE]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_model *model;
	char path[FUZZ_MOST_PATH + 8];
	bool opens = ckpt_open_memory(data, size, &model, NULL) == 0;

	if (fuzz_make_base())
		REQUIRE(mkdir(fuzz_in, 0777) == 0);
	fuzz_write_input("file", data, size);
	snprintf(path, sizeof(path), "%s/file", fuzz_in);
	verify(path, 0, opens);
	verify(path, CKPT_VERIFY_QUICK, opens);
	verify(path, CKPT_VERIFY_FINITE, opens);
	ckpt_close(model);
	return 0;
}
