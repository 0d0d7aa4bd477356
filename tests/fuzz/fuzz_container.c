/* SPDX-License-Identifier: Apache-2.0 */
/* Files inside of a zip archive, which is the input. Best with TMPDIR in memory. */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>
#include <sys/stat.h>

enum { MOST_FILES = 4, MOST_NAME = 300 };

struct names {
	char text[MOST_FILES][MOST_NAME];
	size_t count;
};

static int take(void *ctx, const struct ckpt_inner *inner)
{
	struct names *n = ctx;

	REQUIRE(inner->size == sizeof(*inner) && inner->name);
	REQUIRE(inner->kind || !inner->tensors);
	if (n->count < MOST_FILES && strlen(inner->name) < MOST_NAME)
		snprintf(n->text[n->count++], MOST_NAME, "%s", inner->name);
	return 0;
}

static int drop_line(void *ctx, const char *line)
{
	(void)ctx;
	REQUIRE(line);
	return 0;
}

static void use(const char *archive, const char *name)
{
	struct ckpt_error err = CKPT_ERROR_INIT, refused = CKPT_ERROR_INIT, dis = CKPT_ERROR_INIT;
	struct ckpt_model *model = NULL;
	char path[FUZZ_MOST_PATH + MOST_NAME + 20];
	int rc;

	snprintf(path, sizeof(path), "%s::%s", archive, name);
	rc = ckpt_open(path, &model, &err);
	fuzz_check_error(rc, &err);
	fuzz_check_error(ckpt_disassemble(path, NULL, drop_line, NULL, &dis), &dis);
	if (rc < 0)
		return;
	fuzz_exercise_model(model, false);
	rc = ckpt_save_in_place(model, NULL, NULL, &refused);
	fuzz_check_error(rc, &refused);
	REQUIRE(rc == CKPT_E_UNSUPPORTED);
	ckpt_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	char archive[FUZZ_MOST_PATH + 10];
	struct names names = { .count = 0 };

	if (fuzz_make_base())
		REQUIRE(mkdir(fuzz_in, 0777) == 0);
	fuzz_write_input("a.zip", data, size);
	snprintf(archive, sizeof(archive), "%s/a.zip", fuzz_in);
	fuzz_check_error(ckpt_each_inner(archive, take, &names, &err), &err);
	for (size_t i = 0; i < names.count; i++)
		use(archive, names.text[i]);
	use(archive, "no such file");
	return 0;
}
