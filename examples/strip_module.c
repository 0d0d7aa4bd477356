/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strip_module IN OUT - what 'ckpt strip-module' does, with the library:
 *
 *     cc strip_module.c $(pkg-config --cflags --libs ckpt) -o strip_module
 */
#include <ckpt/ckpt.h>

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model = NULL, *plain = NULL;
	char text[1024];
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: strip_module IN OUT\n");
		return 64;
	}
	rc = ckpt_open(argv[1], &model, &err);
	if (rc == 0)
		rc = ckpt_strip_prefix(model, "module.", NULL, &plain, &report, &err);
	if (rc == 0)
		rc = ckpt_save(plain, argv[2], NULL, NULL, &err);
	if (rc == 0)
		printf("%" PRIu64 " keys renamed\n", report.renamed);
	else
		fprintf(stderr, "strip_module: %s\n", ckpt_error_format(&err, text, sizeof(text)));
	ckpt_close(plain);
	ckpt_close(model);
	return rc == 0 ? 0 : 2;
}
