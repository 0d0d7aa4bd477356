/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "io/folder.h"

#include <ckpt/ckpt.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Folders that are made beside and get their name at the end, with every system call made to fail in turn. */

/* What belongs to such a folder: "data", "old..." and whatever lies in "below". */
static bool is_own(const void *ctx, const char *path, const char *name)
{
	assert_null(ctx);
	assert_int_equal(path[0], '/');
	return !strcmp(name, "data") || !strncmp(name, "old", 3) || !strncmp(name, "below/", 6);
}

static const struct ckpt_folder_own own = { is_own, NULL };

static char *base, *out;
static struct ckpt_error err;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int setup(void **state)
{
	(void)state;
	base = unit_folder_new();
	out = unit_path(base, "out");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	remove_tree(base);
	free(base);
	free(out);
	return 0;
}

static void put_file(const char *folder, const char *name, const char *content)
{
	char *path = unit_path(folder, name);

	unit_write_file(path, content, strlen(content));
	free(path);
}

static void make_folder(const char *content)
{
	assert_int_equal(mkdir(out, 0777), 0);
	put_file(out, "data", content);
}

static bool holds(const char *folder, const char *name, const char *content)
{
	char *path = unit_path(folder, name);
	bool same = unit_exists(path);

	if (same) {
		struct ckpt_buf found = unit_read_file(path);

		same = found.len == strlen(content) && !memcmp(found.data, content, found.len);
		ckpt_buf_clear(&found);
	}
	free(path);
	return same;
}

/* Make OUT with a file and a folder in it. */
static int make_new(unsigned flags)
{
	struct ckpt_folder *folder;
	char *below;
	int rc = ckpt_folder_open(out, &own, 0, flags, 0777, &folder, &err);

	if (rc < 0) {
		assert_null(folder);
		return rc;
	}
	assert_int_equal(strncmp(ckpt_folder_temp_path(folder), base, strlen(base)), 0);
	put_file(ckpt_folder_temp_path(folder), "data", "new");
	put_file(ckpt_folder_temp_path(folder), "foreign", ""); /* one that a caller brought along */
	below = unit_path(ckpt_folder_temp_path(folder), "below");
	assert_int_equal(mkdir(below, 0777), 0);
	put_file(below, "more", "new, too");
	free(below);
	return ckpt_folder_commit(folder, &err);
}

static void assert_new(void)
{
	assert_int_equal(unit_folder_count(base), 1);
	assert_int_equal(unit_folder_count(out), 3);
	assert_true(holds(out, "data", "new"));
	assert_true(holds(out, "below/more", "new, too"));
}

static void a_folder_appears_when_it_is_complete(void **state)
{
	struct ckpt_folder *folder;

	(void)state;
	assert_int_equal(make_new(0), 0);
	assert_new();
	remove_tree(out);
	assert_int_equal(ckpt_folder_open(out, &own, 0, 0, 0777, &folder, &err), 0);
	assert_false(unit_exists(out));
	assert_int_equal(unit_folder_count(base), 1);
	assert_int_equal(strrchr(ckpt_folder_temp_path(folder), '/')[1], '.'); /* hidden */
	ckpt_folder_discard(folder);
	ckpt_folder_discard(NULL);
	assert_int_equal(unit_folder_count(base), 0);
}

static void a_name_may_end_with_slashes(void **state)
{
	char *name = out;

	(void)state;
	assert_true(asprintf(&out, "%s///", name) > 0);
	assert_int_equal(make_new(0), 0);
	free(out);
	out = name;
	assert_new();
}

static void a_name_may_be_relative(void **state)
{
	char *name = out, *before = getcwd(NULL, 0), *kept = base;
	struct ckpt_folder *folder;

	(void)state;
	assert_int_equal(chdir(base), 0);
	assert_int_equal(ckpt_folder_check("out", &own, 0, &err), 0);
	assert_int_equal(ckpt_folder_open("out", &own, 0, 0, 0777, &folder, &err), 0);
	put_file(ckpt_folder_temp_path(folder), "data", "new");
	assert_int_equal(ckpt_folder_commit(folder, &err), 0);
	assert_int_equal(chdir(before), 0);
	assert_true(holds(name, "data", "new"));
	assert_int_equal(unit_folder_count(kept), 1);
	free(before);
}

static void the_mode_is_that_of_any_new_folder(void **state)
{
	mode_t before = umask(027);
	struct stat st;

	(void)state;
	assert_int_equal(make_new(0), 0);
	umask(before);
	assert_int_equal(stat(out, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0750);
}

/* What is there already, and what is said of it with and without CKPT_FOLDER_REPLACE. */
static void assert_refused(unsigned flags, int want, const char *text, unsigned count)
{
	assert_int_equal(ckpt_folder_check(out, &own, flags, &err), want);
	assert_string_equal(unit_text(&err), text);
	assert_string_equal(err.path, out);
	assert_int_equal(make_new(flags), want);
	assert_string_equal(unit_text(&err), text);
	assert_string_equal(err.path, out);
	assert_int_equal(unit_folder_count(base), count);
}

static void an_existing_folder_is_not_replaced_unasked(void **state)
{
	(void)state;
	make_folder("old");
	assert_refused(0, CKPT_E_EXISTS, "the output exists already", 1);
	assert_true(holds(out, "data", "old"));
}

static void a_folder_that_holds_only_what_is_ours_is_replaced_as_a_whole(void **state)
{
	char *below, *link;

	(void)state;
	for (int files = 0; files < 3; files++) {
		assert_int_equal(mkdir(out, 0777), 0); /* an empty one is nobody's, too */
		below = unit_path(out, "below");
		if (files)
			put_file(out, "old", "old");
		if (files > 1) {
			assert_int_equal(mkdir(below, 0777), 0);
			put_file(below, "file", "old");
			put_file(below, ".x.1234-5.ckpt-tmp", "left behind");
			link = unit_path(out, "old link");
			assert_int_equal(symlink("nowhere", link), 0);
			free(link);
		}
		free(below);
		assert_int_equal(ckpt_folder_check(out, &own, CKPT_FOLDER_REPLACE, &err), 0);
		assert_int_equal(make_new(CKPT_FOLDER_REPLACE), 0);
		assert_new();
		remove_tree(out);
	}
}

static void a_folder_with_anything_else_in_it_stays_and_that_is_named(void **state)
{
	static const struct {
		const char *folder, *file, *named;
	} cases[] = {
		{ NULL, "notes.txt", "notes.txt" },
		{ NULL, ".hidden", ".hidden" },
		{ "logs", NULL, "logs" },
		{ "logs", "run.txt", "logs/run.txt" },
		{ "below", NULL, "below" },
		{ NULL, "a\n", "a\\n" },
		{ NULL, "x.ckpt-tmp", "x.ckpt-tmp" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *in = cases[i].folder ? unit_path(out, cases[i].folder) : strdup(out), text[200];

		make_folder("old");
		if (cases[i].folder)
			assert_int_equal(mkdir(in, 0777), 0);
		if (cases[i].file)
			put_file(in, cases[i].file, "mine");
		snprintf(text, sizeof(text),
			 "the output is a folder with '%s' in it, and one is replaced only if it "
			 "holds such a set and nothing else",
			 cases[i].named);
		assert_refused(CKPT_FOLDER_REPLACE, CKPT_E_OUTPUT, text, 1);
		assert_true(holds(out, "data", "old"));
		if (cases[i].file)
			assert_true(holds(in, cases[i].file, "mine"));
		free(in);
		remove_tree(out);
	}
}

static void where_nothing_is_known_to_be_ours_no_folder_is_replaced(void **state)
{
	struct ckpt_folder *made;

	(void)state;
	make_folder("old");
	assert_int_equal(ckpt_folder_check(out, NULL, 0, &err), CKPT_E_EXISTS);
	assert_int_equal(ckpt_folder_check(out, NULL, CKPT_FOLDER_REPLACE, &err), CKPT_E_OUTPUT);
	assert_int_equal(ckpt_folder_open(out, NULL, 0, CKPT_FOLDER_REPLACE, 0777, &made, &err),
			 CKPT_E_OUTPUT);
	assert_true(holds(out, "data", "old"));
}

static void what_is_no_folder_is_never_replaced(void **state)
{
	static const char text[] =
		"the output exists and is no folder, wanted the name of a new one";
	struct stat st;
	char *real;

	(void)state;
	put_file(base, "out", "a file");
	assert_refused(CKPT_FOLDER_REPLACE, CKPT_E_OUTPUT, text, 1);
	assert_true(holds(base, "out", "a file"));
	unlink(out);
	make_folder("old");
	real = unit_path(base, "real");
	assert_int_equal(rename(out, real), 0);
	free(real);
	assert_int_equal(symlink("real", out), 0);
	assert_refused(CKPT_FOLDER_REPLACE, CKPT_E_OUTPUT, text, 2);
	assert_int_equal(lstat(out, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
}

static void the_folder_around_must_be_there(void **state)
{
	char *deep = unit_path(base, "none/out"), *name = out;

	(void)state;
	out = deep;
	assert_int_equal(ckpt_folder_check(out, &own, 0, &err), CKPT_E_IO);
	assert_int_equal(err.sys_errno, ENOENT);
	assert_int_equal(make_new(0), CKPT_E_IO);
	assert_non_null(strstr(unit_text(&err), "/none'"));
	out = name;
	free(deep);
	assert_int_equal(ckpt_folder_check("", &own, 0, &err), CKPT_E_OUTPUT);
	assert_string_equal(unit_text(&err), "the output has no name");
	assert_int_equal(unit_folder_count(base), 0);
}

static void too_little_room_is_told_at_once(void **state)
{
	struct ckpt_folder *folder;

	(void)state;
	assert_int_equal(ckpt_folder_open(out, &own, UINT64_MAX, 0, 0777, &folder, &err), CKPT_E_IO);
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_non_null(strstr(unit_text(&err), "needs 18446744073709551615 bytes, "));
	assert_int_equal(unit_folder_count(base), 0);
}

/* ---- what happens meanwhile ---- */

static int appear(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	if (op == CKPT_IO_SYNC_DIR && !unit_exists(out))
		make_folder("other");
	return 0;
}

static void a_folder_that_appears_meanwhile_is_not_replaced(void **state)
{
	(void)state;
	ckpt_io_set_hook(appear, NULL);
	assert_int_equal(make_new(0), CKPT_E_EXISTS);
	assert_string_equal(unit_text(&err), "the output exists already");
	assert_int_equal(unit_folder_count(base), 1);
	assert_true(holds(out, "data", "other"));
}

static int appear_late(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	if (op == CKPT_IO_RENAME && !unit_exists(out))
		make_folder("other");
	return 0;
}

/* Between the last look and the call: the call itself has to refuse. */
static void a_folder_that_appears_at_the_last_moment_is_not_replaced(void **state)
{
	(void)state;
	ckpt_io_set_hook(appear_late, NULL);
	assert_int_equal(make_new(0), CKPT_E_EXISTS);
	assert_int_equal(unit_folder_count(base), 1);
	assert_true(holds(out, "data", "other"));
}

/* While "data" of OUT is looked at for time number *CTX, another process takes the folder away: nobody can say then whose it was. */
static bool is_own_until_taken(const void *ctx, const char *path, const char *name)
{
	unsigned *left = *(unsigned *const *)ctx;

	if (!strcmp(path, out) && !strcmp(name, "data") && (*left)-- == 1) {
		remove_tree(out);
		return false;
	}
	return is_own(NULL, path, name);
}

static void a_folder_that_others_take_away_while_it_is_looked_at_is_none(void **state)
{
	unsigned at, left, *where = &left;
	const struct ckpt_folder_own until = { is_own_until_taken, &where };

	(void)state;
	for (at = 1;; at++) {
		struct ckpt_folder *folder;

		left = at;
		make_folder("old");
		assert_int_equal(ckpt_folder_check(out, &until, CKPT_FOLDER_REPLACE, &err), 0);
		assert_int_equal(ckpt_folder_open(out, &until, 0, CKPT_FOLDER_REPLACE, 0777, &folder, &err), 0);
		put_file(ckpt_folder_temp_path(folder), "data", "new");
		assert_int_equal(ckpt_folder_commit(folder, &err), 0);
		assert_int_equal(err.status, 0);
		assert_true(holds(out, "data", "new"));
		assert_int_equal(unit_folder_count(base), 1);
		remove_tree(out);
		if (left && left <= at)
			break; /* it was not looked at so often */
	}
	assert_true(at > 3);
}

static int take_away(void *ctx, enum ckpt_io_op op)
{
	unsigned *left = ctx;

	if (op == CKPT_IO_RENAME && (*left)-- == 1)
		remove_tree(out);
	return 0;
}

static void a_name_that_others_take_or_give_at_the_last_moment_is_looked_at_again(void **state)
{
	unsigned left = 1;

	(void)state;
	make_folder("old");
	ckpt_io_set_hook(take_away, &left);
	assert_int_equal(make_new(CKPT_FOLDER_REPLACE), 0);
	assert_new();
	remove_tree(out);
	ckpt_io_set_hook(appear_late, NULL);
	assert_int_equal(make_new(CKPT_FOLDER_REPLACE), 0);
	assert_new();
}

/* A file comes into the old folder before call number *CTX that renames. */
static int put_foreign(void *ctx, enum ckpt_io_op op)
{
	unsigned *left = ctx;

	if (op == CKPT_IO_RENAME && (*left)-- == 1)
		put_file(out, "foreign", "late");
	return 0;
}

static void what_comes_into_the_old_folder_meanwhile_stays(void **state)
{
	unsigned at = 1;

	(void)state;
	make_folder("old");
	ckpt_io_set_hook(put_foreign, &at);
	assert_int_equal(make_new(CKPT_FOLDER_REPLACE), CKPT_E_OUTPUT);
	assert_non_null(strstr(unit_text(&err), "'foreign' in it"));
	assert_int_equal(unit_folder_count(base), 1);
	assert_true(holds(out, "data", "old"));
	assert_true(holds(out, "foreign", "late"));
}

/* ... and cannot even be put back. */
static int put_foreign_and_fail(void *ctx, enum ckpt_io_op op)
{
	unsigned *left = ctx;

	if (op == CKPT_IO_RENAME && *left == 0)
		return EIO;
	return put_foreign(ctx, op);
}

static void what_came_into_the_old_folder_is_never_removed(void **state)
{
	unsigned at = 1;

	(void)state;
	make_folder("old");
	ckpt_io_set_hook(put_foreign_and_fail, &at);
	assert_int_equal(make_new(CKPT_FOLDER_REPLACE), CKPT_E_OUTPUT);
	assert_non_null(strstr(unit_text(&err), "which is now '"));
	assert_int_equal(unit_folder_count(base), 2);
	assert_true(holds(out, "data", "new"));
}

/* ---- faults ---- */

struct fault {
	enum ckpt_io_op op;
	int code;
	unsigned at;
	_Atomic unsigned seen; /* reads come from two threads */
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? f->code : 0;
}

static void a_call_that_fails_leaves_what_was_there(void **state)
{
	(void)state;
	for (int replace = 0; replace < 2; replace++)
		for (int op = 0; op < 2; op++) {
			struct fault fault = { .op = op ? CKPT_IO_RENAME : CKPT_IO_SYNC_DIR,
					       .code = EIO,
					       .at = 1 };

			if (replace)
				make_folder("old");
			ckpt_io_set_hook(inject, &fault);
			assert_int_equal(make_new(replace ? CKPT_FOLDER_REPLACE : 0), CKPT_E_IO);
			ckpt_io_set_hook(NULL, NULL);
			assert_int_equal(fault.seen, 1);
			assert_int_equal(err.sys_errno, EIO);
			assert_string_equal(err.path, out);
			assert_int_equal(unit_folder_count(base), replace);
			if (replace)
				assert_true(holds(out, "data", "old"));
			remove_tree(out);
		}
}

/* It has its name by then, which may be lost in a power failure. */
static void a_folder_around_that_cannot_be_synced_is_reported(void **state)
{
	(void)state;
	for (int replace = 0; replace < 2; replace++) {
		struct fault fault = { .op = CKPT_IO_SYNC_DIR, .code = EIO, .at = 3 };

		if (replace)
			make_folder("old");
		ckpt_io_set_hook(inject, &fault);
		assert_int_equal(make_new(replace ? CKPT_FOLDER_REPLACE : 0), CKPT_E_IO);
		ckpt_io_set_hook(NULL, NULL);
		assert_non_null(strstr(unit_text(&err), "cannot be synced"));
		assert_new();
		remove_tree(out);
	}
}

static void file_systems_that_cannot_sync_folders_are_as_good(void **state)
{
	struct fault fault = { .op = CKPT_IO_SYNC_DIR, .code = EINVAL, .at = 1 };

	(void)state;
	ckpt_io_set_hook(inject, &fault);
	assert_int_equal(make_new(0), 0);
	assert_int_equal(fault.seen, 3); /* itself, the one in it, the one around it */
	assert_new();
}

static void without_sync_nothing_is_synced(void **state)
{
	struct fault fault = { .op = CKPT_IO_SYNC_DIR, .code = EIO, .at = 1 };

	(void)state;
	ckpt_io_set_hook(inject, &fault);
	assert_int_equal(make_new(CKPT_FOLDER_NO_SYNC), 0);
	assert_int_equal(fault.seen, 0);
	assert_new();
}

/* ---- files that are waited for together ---- */

enum { FILES = 40 };

struct order {
	unsigned files, folders, fail_at; /* synced; the number of the sync that fails, or 0 */
	bool renamed;
};

static int note_order(void *ctx, enum ckpt_io_op op)
{
	struct order *order = ctx;

	if (op == CKPT_IO_SYNC) {
		assert_false(order->renamed);
		if (++order->files == order->fail_at)
			return EIO;
	}
	if (op == CKPT_IO_SYNC_DIR)
		order->folders++;
	if (op == CKPT_IO_RENAME) {
		assert_int_equal(order->files, FILES);
		assert_int_equal(order->folders, 1);
		order->renamed = true;
	}
	return 0;
}

/* OUT with FILES files in it. */
static int make_files(unsigned flags)
{
	struct ckpt_folder *folder;
	int rc = ckpt_folder_open(out, &own, 0, flags, 0777, &folder, &err);

	for (int i = 0; rc == 0 && i < FILES; i++) {
		struct ckpt_sink *sink;
		char name[16], *path;

		snprintf(name, sizeof(name), "file %d", i);
		path = unit_path(ckpt_folder_temp_path(folder), name);
		rc = ckpt_sink_open(path, 0, 0, flags & CKPT_FOLDER_NO_SYNC ? CKPT_SINK_NO_SYNC : 0, 0666,
				    &sink, &err);
		if (rc == 0)
			rc = ckpt_sink_write(sink, 0, name, strlen(name), &err);
		rc = ckpt_folder_end_file(folder, sink, rc, &err);
		assert_true(rc < 0 || holds(ckpt_folder_temp_path(folder), name, name));
		free(path);
	}
	if (rc == 0)
		return ckpt_folder_commit(folder, &err);
	ckpt_folder_discard(folder);
	return rc;
}

static void every_file_is_synced_before_the_folder_has_its_name(void **state)
{
	struct order order = { 0 };

	(void)state;
	ckpt_io_set_hook(note_order, &order);
	assert_int_equal(make_files(0), 0);
	assert_true(order.renamed);
	assert_int_equal(order.folders, 2);
	assert_int_equal(unit_folder_count(out), FILES);
}

static void a_file_that_cannot_be_synced_is_an_error_of_the_folder(void **state)
{
	(void)state;
	for (unsigned at = 1; at <= FILES; at++) {
		struct order order = { .fail_at = at };

		ckpt_io_set_hook(note_order, &order);
		assert_int_equal(make_files(0), CKPT_E_IO);
		assert_int_equal(order.files, at);
		assert_false(order.renamed);
		assert_int_equal(unit_folder_count(base), 0);
	}
}

static void a_file_that_failed_is_dropped(void **state)
{
	struct ckpt_folder *folder;
	struct ckpt_sink *sink;
	char *path;

	(void)state;
	assert_int_equal(ckpt_folder_open(out, &own, 0, 0, 0777, &folder, &err), 0);
	path = unit_path(ckpt_folder_temp_path(folder), "file");
	assert_int_equal(ckpt_sink_open(path, 0, 0, 0, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_folder_end_file(folder, sink, CKPT_E_IO, &err), CKPT_E_IO);
	assert_int_equal(ckpt_folder_end_file(folder, NULL, CKPT_E_IO, &err), CKPT_E_IO);
	assert_false(unit_exists(path));
	free(path);
	ckpt_folder_discard(folder);
}

/* ---- directories that are saved ---- */

static const char *const keys[] = { "module.a", "module.b", "c" };

static void write_input(const char *path)
{
	struct ckpt_buf pickle = { 0 }, file;

	unit_put_state_dict(&pickle, keys, COUNT(keys));
	file = unit_torch_file(&pickle, COUNT(keys));
	unit_write_file(path, file.data, file.len);
	ckpt_buf_clear(&file);
	ckpt_buf_clear(&pickle);
}

/* Open IN, add a prefix, and save as a directory: for RANKS ranks, or 0: with a new index. */
static int save_directory(const char *in, uint32_t ranks, bool replace)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_model *model, *edited = NULL;
	int rc = ckpt_open(in, &model, &err);

	options.format = "dcp";
	options.ranks = ranks;
	options.flags = replace ? CKPT_SAVE_REPLACE : 0;
	if (rc == 0) {
		rc = ckpt_add_prefix(model, "x.", NULL, &edited, NULL, &err);
		ckpt_close(model);
	}
	if (rc == 0)
		rc = ckpt_save(edited, out, &options, NULL, &err);
	ckpt_close(edited);
	return rc;
}

static void put_old(bool replace)
{
	remove_tree(out);
	if (!replace)
		return;
	assert_int_equal(mkdir(out, 0777), 0);
	put_file(out, "old.distcp", "old");
	put_file(out, ".metadata", "old");
}

/* Fail each call of OP in turn until a save passes. Returns how many failed. */
static unsigned fail_each(const char *in, uint32_t ranks, enum ckpt_io_op op, int code,
			  bool replace)
{
	unsigned failed = 0, others;

	remove_tree(out);
	others = unit_folder_count(base);
	for (;; failed++) {
		struct fault fault = { .op = op, .code = code, .at = failed + 1 };
		int rc;

		put_old(replace);
		ckpt_io_set_hook(inject, &fault);
		rc = save_directory(in, ranks, replace);
		ckpt_io_set_hook(NULL, NULL);
		if (rc == 0)
			break;
		assert_int_equal(rc, CKPT_E_IO);
		assert_int_equal(err.sys_errno, code);
		assert_int_equal(unit_folder_count(base), others + replace);
		if (replace)
			assert_true(holds(out, "old.distcp", "old"));
		assert_true(failed < 1000);
	}
	assert_false(holds(out, "old.distcp", "old"));
	assert_int_equal(unit_folder_count(base), others + 1);
	return failed;
}

static void fail_every_call(const char *in, uint32_t ranks)
{
	static const struct {
		enum ckpt_io_op op;
		int code;
	} table[] = { { CKPT_IO_READ, EIO },	    { CKPT_IO_WRITE, ENOSPC },
		      { CKPT_IO_TRUNCATE, ENOSPC }, { CKPT_IO_SYNC, EIO },
		      { CKPT_IO_LINK, EIO },	    { CKPT_IO_RENAME, EIO } };

	for (int replace = 0; replace < 2; replace++)
		for (size_t i = 0; i < COUNT(table); i++)
			if (fail_each(in, ranks, table[i].op, table[i].code, replace) == 0 &&
			    table[i].op != CKPT_IO_TRUNCATE)
				fail_msg("operation %d was never called", table[i].op);
}

static void a_directory_that_is_split_leaves_nothing_whichever_call_fails(void **state)
{
	char *in = unit_path(base, "in.pt");

	(void)state;
	write_input(in);
	fail_every_call(in, 2);
	free(in);
}

static void a_directory_that_is_edited_leaves_nothing_whichever_call_fails(void **state)
{
	char *file = unit_path(base, "in.pt"), *in = unit_path(base, "in"), *kept = out;

	(void)state;
	write_input(file);
	out = in;
	assert_int_equal(save_directory(file, 2, false), 0);
	out = kept;
	fail_every_call(in, 0);
	free(in);
	free(file);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

UNIT_SUITE(test_folder)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(a_folder_appears_when_it_is_complete),
		IN_FOLDER(a_name_may_end_with_slashes),
		IN_FOLDER(a_name_may_be_relative),
		IN_FOLDER(the_mode_is_that_of_any_new_folder),
		IN_FOLDER(an_existing_folder_is_not_replaced_unasked),
		IN_FOLDER(a_folder_that_holds_only_what_is_ours_is_replaced_as_a_whole),
		IN_FOLDER(a_folder_with_anything_else_in_it_stays_and_that_is_named),
		IN_FOLDER(where_nothing_is_known_to_be_ours_no_folder_is_replaced),
		IN_FOLDER(what_is_no_folder_is_never_replaced),
		IN_FOLDER(the_folder_around_must_be_there),
		IN_FOLDER(too_little_room_is_told_at_once),
		IN_FOLDER(a_folder_that_appears_meanwhile_is_not_replaced),
		IN_FOLDER(a_folder_that_appears_at_the_last_moment_is_not_replaced),
		IN_FOLDER(a_folder_that_others_take_away_while_it_is_looked_at_is_none),
		IN_FOLDER(a_name_that_others_take_or_give_at_the_last_moment_is_looked_at_again),
		IN_FOLDER(what_comes_into_the_old_folder_meanwhile_stays),
		IN_FOLDER(what_came_into_the_old_folder_is_never_removed),
		IN_FOLDER(a_call_that_fails_leaves_what_was_there),
		IN_FOLDER(a_folder_around_that_cannot_be_synced_is_reported),
		IN_FOLDER(file_systems_that_cannot_sync_folders_are_as_good),
		IN_FOLDER(without_sync_nothing_is_synced),
		IN_FOLDER(every_file_is_synced_before_the_folder_has_its_name),
		IN_FOLDER(a_file_that_cannot_be_synced_is_an_error_of_the_folder),
		IN_FOLDER(a_file_that_failed_is_dropped),
		IN_FOLDER(a_directory_that_is_split_leaves_nothing_whichever_call_fails),
		IN_FOLDER(a_directory_that_is_edited_leaves_nothing_whichever_call_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
