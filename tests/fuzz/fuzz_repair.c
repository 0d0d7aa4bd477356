/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files through ckpt_repair_open(): what it gives can be saved and opened again, and is sound if all was said to be proven. Best with
 * TMPDIR in memory.
 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_text(const char *text)
{
	for (const char *p = text ? text : ""; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7F);
}

static int check_finding(void *ctx, const struct ckpt_repair_finding *f)
{
	uint64_t *counts = ctx;

	REQUIRE(f->kind <= CKPT_REPAIR_NOTE && f->text && *f->text);
	REQUIRE(f->name || f->kind >= CKPT_REPAIR_DAMAGE);
	REQUIRE(!f->zeros || f->filled);
	check_text(f->text);
	check_text(f->record);
	counts[f->kind]++;
	return 0;
}

/* What was repaired is a file like any other. */
static void save_and_verify(struct ckpt_model *model, const struct ckpt_repair_report *r)
{
	struct ckpt_verify_report verified = CKPT_VERIFY_REPORT_INIT;
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	char path[FUZZ_MOST_PATH + 8];
	int rc;

	snprintf(path, sizeof(path), "%s/out", fuzz_out);
	unlink(path);
	options.flags = CKPT_SAVE_REPLACE | CKPT_SAVE_NO_SYNC;
	rc = ckpt_save(model, path, &options, NULL, &err);
	fuzz_check_error(rc, &err);
	if (rc < 0)
		return;
	rc = ckpt_verify(path, NULL, NULL, NULL, &verified, &err);
	REQUIRE(rc == 0);
	REQUIRE(verified.verdict != CKPT_VERDICT_DAMAGED || !r->damaged);
	unlink(path);
}

static uint64_t repair(const char *path, enum ckpt_repair_fill fill, unsigned flags)
{
	struct ckpt_repair_options options = CKPT_REPAIR_OPTIONS_INIT;
	struct ckpt_repair_report r = CKPT_REPAIR_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t counts[4] = { 0 };
	struct ckpt_model *model;
	int rc;

	options.fill = fill;
	options.flags = flags;
	rc = ckpt_repair_open(path, &options, check_finding, counts, &model, &r, &err);
	fuzz_check_error(rc, &err);
	REQUIRE((rc == 0) == (model != NULL));
	REQUIRE(r.proven + r.unproven + r.lost == r.tensors && r.filled <= r.lost);
	if (rc == 0) {
		REQUIRE(counts[CKPT_REPAIR_LOST] == r.lost && r.damaged >= (r.lost > 0 && !flags));
		save_and_verify(model, &r);
	}
	ckpt_close(model);
	return rc == 0 ? r.proven : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[FUZZ_MOST_PATH + 8];
	uint64_t proven;

	if (fuzz_make_base())
		REQUIRE(mkdir(fuzz_in, 0777) == 0 && mkdir(fuzz_out, 0777) == 0);
	fuzz_write_input("file", data, size);
	snprintf(path, sizeof(path), "%s/file", fuzz_in);
	proven = repair(path, CKPT_FILL_NAN, 0);
	REQUIRE(repair(path, CKPT_FILL_ZEROS, CKPT_REPAIR_PROVEN_ONLY) == proven || !proven);
	repair(path, CKPT_FILL_NOTHING, 0);
	return 0;
}
