/* SPDX-License-Identifier: Apache-2.0 */
#include "io/fault.h"

#include <ckpt/ckpt.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * log_in_place FILE EDIT LOG: edit FILE in place (strip, add, remap or drop; free: drop, and give the blocks back) and write down
 * what reaches the disk: lines "write OFF LEN" each followed by LEN bytes, "hole OFF LEN", "cut SIZE", "sync".
 */
static void write_down(void *ctx, enum ckpt_io_op op, uint64_t off, const void *bytes, size_t len)
{
	FILE *log = ctx;

	if (op == CKPT_IO_WRITE) {
		fprintf(log, "write %" PRIu64 " %zu\n", off, len);
		fwrite(bytes, 1, len, log);
	} else if (op == CKPT_IO_TRUNCATE) {
		fprintf(log, "cut %" PRIu64 "\n", off);
	} else if (op == CKPT_IO_PUNCH) {
		fprintf(log, "hole %" PRIu64 " %zu\n", off, len);
	} else if (op == CKPT_IO_SYNC) {
		fprintf(log, "sync\n");
	}
}

static int edit(const struct ckpt_model *model, const char *how, struct ckpt_model **out,
		struct ckpt_error *err)
{
	static const struct ckpt_device_map all = { NULL, "cuda:7" };
	static const char *const first[] = { "module.first" };

	if (!strcmp(how, "remap"))
		return ckpt_remap(model, &all, 1, NULL, out, NULL, err);
	if (!strcmp(how, "drop") || !strcmp(how, "free"))
		return ckpt_select(model, NULL, 0, first, 1, out, NULL, err);
	if (!strcmp(how, "add"))
		return ckpt_add_prefix(model, "module.", NULL, out, NULL, err);
	return ckpt_strip_prefix(model, "module.", NULL, out, NULL, err);
}

int main(int argc, char **argv)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model = NULL, *edited = NULL;
	FILE *log = argc == 4 ? fopen(argv[3], "wb") : NULL;
	char text[1024];
	int rc;

	if (!log)
		return 64;
	options.flags = !strcmp(argv[2], "free") ? CKPT_SAVE_FREE : 0u;
	rc = ckpt_open(argv[1], &model, &err);
	if (rc == 0)
		rc = edit(model, argv[2], &edited, &err);
	ckpt_io_set_log(write_down, log);
	if (rc == 0)
		rc = ckpt_save_in_place(edited, &options, &report, &err);
	if (rc == 0 && report.rewritten)
		fprintf(stderr, "written anew: %s\n", report.rewritten);
	if (rc < 0)
		fprintf(stderr, "%s\n", ckpt_error_format(&err, text, sizeof(text)));
	ckpt_close(edited);
	ckpt_close(model);
	return fclose(log) || rc < 0 || report.rewritten ? 2 : 0;
}
