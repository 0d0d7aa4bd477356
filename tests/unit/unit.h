/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_UNIT_H
#define CKPT_TESTS_UNIT_H

/* What the unit tests share. Include first: cmocka wants these four before itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdlib.h>

/*
 * The entry of a suite, a file test_NAME.c: UNIT_SUITE(test_NAME) { ... return cmocka_run_group_tests(...); }
 * It returns what main() would. argv[0] is the suite's name.
 */
#define UNIT_SUITE(name) \
	int name(int argc, char **argv); \
	int name(int argc __attribute__((unused)), char **argv __attribute__((unused)))

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* "80 02 4b" -> bytes; to be freed with ckpt_buf_clear(). */
struct ckpt_buf unit_bytes(const char *hex);

/* What ERR says, in a static buffer. */
const char *unit_message(const struct ckpt_error *err);

/* The text alone, in one of two. */
const char *unit_text(const struct ckpt_error *err);

/* How often something is tried: SOME, or MANY in a long run (CKPT_TEST_LONG=1). */
unsigned unit_rounds(unsigned some, unsigned many);

/* ---- files ---- */

/* A new empty folder, removed with all it holds by unit_folder_remove(). */
char *unit_folder_new(void);
void unit_folder_remove(char *folder);
unsigned unit_folder_count(const char *folder); /* entries, hidden ones too */

/* FOLDER/NAME, to be freed. */
char *unit_path(const char *folder, const char *name);
void unit_write_file(const char *path, const void *bytes, size_t len);
struct ckpt_buf unit_read_file(const char *path);
bool unit_exists(const char *path);

/* tests/fixtures/NAME of the source tree, to be freed. */
char *unit_fixture(const char *name);

/* ---- archives ---- */

struct unit_record {
	const char *name; /* without the archive's */
	const void *bytes;
	size_t len;
};

/* What unit_zip() aligns data to; 64 unless a test sets it. */
extern uint32_t unit_zip_alignment;

/* An archive with these records, laid out as torch does. */
struct ckpt_buf unit_zip(const char *archive_name, const struct unit_record *records, size_t count);

/* ---- pickles, protocol 2 ---- */

void unit_put_str(struct ckpt_buf *out, const char *text);
/* A float32 tensor of NUMEL elements that is the whole of storage KEY. */
void unit_put_tensor(struct ckpt_buf *out, const char *key, unsigned numel);
/* OrderedDict with a tensor under every key; without PROTO and STOP. */
void unit_put_state_dict(struct ckpt_buf *out, const char *const *keys, size_t count);

/* A torch file around the pickle PICKLE (PROTO and STOP are added), with STORAGES of 4 bytes each. */
struct ckpt_buf unit_torch_file(const struct ckpt_buf *pickle, unsigned storages);

#endif
