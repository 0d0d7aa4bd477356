/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/c_locale.h"
#include "io/fault.h"
#include "io/sink.h"

#include <ckpt/ckpt.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Saving, with every system call made to fail in turn. */

static char *folder, *in, *out;
static struct ckpt_error err;

enum { LARGE = 300000 };

/* An input with a storage that is copied in the kernel and one that is not. */
static int setup(void **state)
{
	struct ckpt_buf pickle = { 0 }, file, whole = { 0 };
	uint8_t *large = calloc(1, LARGE);
	struct unit_record records[6];

	(void)state;
	folder = unit_folder_new();
	in = unit_path(folder, "in.pt");
	out = unit_path(folder, "out.pt");
	for (size_t i = 0; i < LARGE; i++)
		large[i] = (uint8_t)(i * 7);
	ckpt_buf_printf(&pickle, "ccollections\nOrderedDict\n)R(");
	unit_put_str(&pickle, "module.a");
	unit_put_tensor(&pickle, "0", 1);
	unit_put_str(&pickle, "module.b");
	ckpt_buf_printf(&pickle, "ctorch._utils\n_rebuild_tensor_v2\n((");
	unit_put_str(&pickle, "storage");
	ckpt_buf_printf(&pickle, "ctorch\nByteStorage\n");
	unit_put_str(&pickle, "1");
	unit_put_str(&pickle, "cpu");
	ckpt_buf_add_u8(&pickle, 'J');
	ckpt_buf_add_u32(&pickle, LARGE);
	ckpt_buf_printf(&pickle, "tQK%cJ", 0);
	ckpt_buf_add_u32(&pickle, LARGE);
	ckpt_buf_printf(&pickle, "\x85K\x01\x85\x89" "ccollections\nOrderedDict\n)RtRu");
	ckpt_buf_add(&whole, "\x80\x02", 2);
	ckpt_buf_add(&whole, pickle.data, pickle.len);
	ckpt_buf_add_u8(&whole, '.');
	records[0] = (struct unit_record){ "data.pkl", whole.data, whole.len };
	/* pages that line up in input and output are what the kernel is asked to copy */
	records[1] = (struct unit_record){ ".format_version", "1", 1 };
	records[2] = (struct unit_record){ ".storage_alignment", "4096", 4 };
	records[3] = (struct unit_record){ "data/0", "\0\0\x80?", 4 };
	records[4] = (struct unit_record){ "data/1", large, LARGE };
	records[5] = (struct unit_record){ "version", "3\n", 2 };
	unit_zip_alignment = 4096;
	file = unit_zip("archive", records, 6);
	unit_zip_alignment = 64;
	unit_write_file(in, file.data, file.len);
	ckpt_buf_clear(&file);
	ckpt_buf_clear(&pickle);
	ckpt_buf_clear(&whole);
	free(large);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	free(in);
	free(out);
	unit_folder_remove(folder);
	return 0;
}

static int strip(unsigned flags)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_model *model, *edited = NULL;
	int rc = ckpt_open(in, &model, &err);

	options.flags = flags;
	if (rc == 0) {
		rc = ckpt_strip_prefix(model, "module.", NULL, &edited, NULL, &err);
		ckpt_close(model);
	}
	if (rc == 0)
		rc = ckpt_save(edited, out, &options, NULL, &err);
	ckpt_close(edited);
	return rc;
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

static void assert_file(const char *path, const struct ckpt_buf *want)
{
	struct ckpt_buf found = unit_read_file(path);

	assert_int_equal(found.len, want->len);
	assert_memory_equal(found.data, want->data, want->len);
	ckpt_buf_clear(&found);
}

/*
 * Fail the first, the second ... call of OP with CODE until a save passes. After each failure the
 * folder is as it was. Returns how many failed.
 */
static unsigned fail_each(enum ckpt_io_op op, int code, bool replace, const struct ckpt_buf *want)
{
	struct ckpt_buf input = unit_read_file(in), old = { 0 };
	unsigned flags = replace ? CKPT_SAVE_REPLACE : 0, failed = 0;

	ckpt_buf_add(&old, "old", 3);
	for (;; failed++) {
		struct fault fault = { .op = op, .code = code, .at = failed + 1 };
		int rc;

		unlink(out);
		if (replace)
			unit_write_file(out, "old", 3);
		ckpt_io_set_hook(inject, &fault);
		rc = strip(flags);
		ckpt_io_set_hook(NULL, NULL);
		assert_file(in, &input);
		if (rc == 0)
			break;
		assert_int_equal(rc, CKPT_E_IO);
		assert_int_equal(err.sys_errno, code);
		assert_string_equal(err.path, op == CKPT_IO_READ ? in : out);
		assert_non_null(strstr(unit_message(&err), ckpt_errno_text(code)));
		assert_int_equal(unit_folder_count(folder), replace ? 2 : 1);
		if (replace)
			assert_file(out, &old);
		assert_true(failed < 1000);
	}
	assert_file(out, want);
	assert_int_equal(unit_folder_count(folder), 2);
	ckpt_buf_clear(&input);
	ckpt_buf_clear(&old);
	return failed;
}

static struct ckpt_buf stripped(void)
{
	struct ckpt_buf want;

	assert_int_equal(strip(0), 0);
	want = unit_read_file(out);
	unlink(out);
	return want;
}

static void nothing_is_left_behind_whichever_call_fails(void **state)
{
	static const struct {
		enum ckpt_io_op op;
		int code;
	} table[] = { { CKPT_IO_READ, EIO }, { CKPT_IO_WRITE, ENOSPC }, { CKPT_IO_WRITE, EIO },
		      { CKPT_IO_COPY, ENOSPC }, { CKPT_IO_COPY, EIO }, { CKPT_IO_TRUNCATE, ENOSPC },
		      { CKPT_IO_SYNC, EIO }, { CKPT_IO_SYNC, ENOSPC }, { CKPT_IO_LINK, EIO } };
	struct ckpt_buf want = stripped();

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		if (fail_each(table[i].op, table[i].code, false, &want) == 0)
			fail_msg("operation %d was never called", table[i].op);
	ckpt_buf_clear(&want);
}

static void a_file_that_is_replaced_stays_until_the_new_one_is_complete(void **state)
{
	static const struct {
		enum ckpt_io_op op;
		int code;
	} table[] = { { CKPT_IO_READ, EIO }, { CKPT_IO_WRITE, ENOSPC }, { CKPT_IO_COPY, EIO },
		      { CKPT_IO_TRUNCATE, ENOSPC }, { CKPT_IO_SYNC, EIO }, { CKPT_IO_RENAME, EIO },
		      { CKPT_IO_LINK, EIO } };
	struct ckpt_buf want = stripped();

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		if (fail_each(table[i].op, table[i].code, true, &want) == 0)
			fail_msg("operation %d was never called", table[i].op);
	ckpt_buf_clear(&want);
}

/* The first *CTX links find that their name is taken. */
static int names_are_taken(void *ctx, enum ckpt_io_op op)
{
	unsigned *taken = ctx;

	return op == CKPT_IO_LINK && *taken && (*taken)-- ? EEXIST : 0;
}

/* In a container the process has the same number at each start, and what a killed one left is still there. */
static void a_temporary_name_that_is_taken_is_drawn_again(void **state)
{
	unsigned taken = 6, all = 1000;

	(void)state;
	unit_write_file(out, "old", 3);
	ckpt_io_set_hook(names_are_taken, &taken);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), 0);
	assert_int_equal(taken, 0);
	assert_int_equal(unit_folder_count(folder), 2);
	ckpt_io_set_hook(names_are_taken, &all);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), CKPT_E_IO);
	ckpt_io_set_hook(NULL, NULL);
	assert_int_equal(err.sys_errno, EEXIST);
	assert_int_equal(unit_folder_count(folder), 2);
}

static void a_copy_that_the_kernel_refuses_goes_through_memory(void **state)
{
	static const int codes[] = { EXDEV, ENOSYS, EINVAL, EOPNOTSUPP, EPERM };
	struct ckpt_buf want = stripped();

	(void)state;
	for (size_t i = 0; i < COUNT(codes); i++) {
		struct fault fault = { .op = CKPT_IO_COPY, .code = codes[i], .at = 1 };

		ckpt_io_set_hook(inject, &fault);
		assert_int_equal(strip(0), 0);
		ckpt_io_set_hook(NULL, NULL);
		assert_int_equal(fault.seen, 1); /* not asked again */
		assert_file(out, &want);
		unlink(out);
	}
	ckpt_buf_clear(&want);
}

static void interrupted_calls_are_made_again(void **state)
{
	static const enum ckpt_io_op ops[] = { CKPT_IO_READ, CKPT_IO_WRITE, CKPT_IO_COPY };
	struct ckpt_buf want = stripped();

	(void)state;
	for (size_t i = 0; i < COUNT(ops); i++) {
		struct fault fault = { .op = ops[i], .code = EINTR, .at = 1 };

		ckpt_io_set_hook(inject, &fault);
		assert_int_equal(strip(0), 0);
		ckpt_io_set_hook(NULL, NULL);
		assert_file(out, &want);
		unlink(out);
	}
	ckpt_buf_clear(&want);
}

/* The file is whole and synced by then; only its name may be lost in a power failure. */
static void a_folder_that_cannot_be_synced_is_reported(void **state)
{
	struct ckpt_buf want = stripped();
	struct fault fault = { .op = CKPT_IO_SYNC_DIR, .code = EIO, .at = 1 };

	(void)state;
	ckpt_io_set_hook(inject, &fault);
	assert_int_equal(strip(0), CKPT_E_IO);
	ckpt_io_set_hook(NULL, NULL);
	assert_string_equal(err.path, out);
	assert_non_null(strstr(unit_message(&err), "cannot be synced"));
	if (unit_exists(out)) /* never a part of it, and no other file beside it */
		assert_file(out, &want);
	assert_true(unit_folder_count(folder) <= 2);
	ckpt_buf_clear(&want);
}

static void without_sync_nothing_is_synced(void **state)
{
	struct fault fault = { .op = CKPT_IO_SYNC, .code = EIO, .at = 1 };

	(void)state;
	ckpt_io_set_hook(inject, &fault);
	assert_int_equal(strip(CKPT_SAVE_NO_SYNC), 0);
	assert_int_equal(fault.seen, 0);
}

/* ---- the target ---- */

static void an_existing_file_is_not_replaced_unasked(void **state)
{
	struct ckpt_buf old = { 0 };

	(void)state;
	ckpt_buf_add(&old, "old", 3);
	unit_write_file(out, "old", 3);
	assert_int_equal(strip(0), CKPT_E_EXISTS);
	assert_string_equal(unit_text(&err), "the output exists already");
	assert_file(out, &old);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), 0);
	ckpt_buf_clear(&old);
}

static int appear(void *ctx, enum ckpt_io_op op)
{
	if (op == CKPT_IO_SYNC)
		unit_write_file(ctx, "new", 3);
	return 0;
}

static void a_file_that_appears_meanwhile_is_not_replaced(void **state)
{
	struct ckpt_buf other = { 0 };

	(void)state;
	ckpt_buf_add(&other, "new", 3);
	ckpt_io_set_hook(appear, out);
	assert_int_equal(strip(0), CKPT_E_EXISTS);
	assert_string_equal(unit_text(&err), "the output exists already");
	assert_file(out, &other);
	assert_int_equal(unit_folder_count(folder), 2);
	ckpt_buf_clear(&other);
}

static void what_is_no_file_is_never_replaced(void **state)
{
	(void)state;
	assert_int_equal(mkdir(out, 0777), 0);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), CKPT_E_OUTPUT);
	assert_string_equal(unit_text(&err), "the output is an existing folder, wanted a file name");
	rmdir(out);
	assert_int_equal(mkfifo(out, 0666), 0);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), CKPT_E_OUTPUT);
	assert_string_equal(unit_text(&err), "the output is a device or a pipe, wanted a file name");
}

static void a_link_to_what_is_no_file_is_never_replaced(void **state)
{
	static const struct {
		const char *target, *text;
	} refused[] = { { "/dev/null", "the output is a device or a pipe, wanted a file name" },
			{ ".", "the output is an existing folder, wanted a file name" } };
	struct stat st;

	(void)state;
	for (size_t i = 0; i < COUNT(refused); i++) {
		assert_int_equal(symlink(refused[i].target, out), 0);
		assert_int_equal(strip(CKPT_SAVE_REPLACE), CKPT_E_OUTPUT);
		assert_string_equal(unit_text(&err), refused[i].text);
		assert_int_equal(lstat(out, &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		unlink(out);
	}
}

static void a_link_is_replaced_itself(void **state)
{
	char *target = unit_path(folder, "target");
	struct ckpt_buf old = { 0 };
	struct stat st;

	(void)state;
	ckpt_buf_add(&old, "old", 3);
	unit_write_file(target, "old", 3);
	assert_int_equal(symlink("target", out), 0);
	assert_int_equal(strip(0), CKPT_E_EXISTS);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), 0);
	assert_int_equal(lstat(out, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_file(target, &old);
	ckpt_buf_clear(&old);
	free(target);
}

static void a_replaced_file_keeps_its_mode(void **state)
{
	mode_t before = umask(022);
	struct stat st;

	(void)state;
	assert_int_equal(strip(0), 0);
	assert_int_equal(stat(out, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(chmod(out, 0600), 0);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), 0);
	assert_int_equal(stat(out, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	umask(before);
}

static void the_input_is_never_the_output(void **state)
{
	struct ckpt_buf input = unit_read_file(in);

	(void)state;
	assert_int_equal(link(in, out), 0);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), CKPT_E_OUTPUT);
	assert_string_equal(unit_text(&err), "the output is the input itself; name another file");
	unlink(out);
	assert_int_equal(symlink("in.pt", out), 0);
	assert_int_equal(strip(CKPT_SAVE_REPLACE), CKPT_E_OUTPUT);
	assert_string_equal(unit_text(&err), "the output is the input itself; name another file");
	assert_file(in, &input);
	ckpt_buf_clear(&input);
}

static int touch_input(void *ctx, enum ckpt_io_op op)
{
	struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	if (op == CKPT_IO_WRITE)
		utimensat(0, ctx, times, 0);
	return 0;
}

static void an_input_that_changes_meanwhile_is_an_error(void **state)
{
	(void)state;
	ckpt_io_set_hook(touch_input, in);
	assert_int_equal(strip(0), CKPT_E_CHANGED);
	assert_string_equal(err.path, in);
	assert_string_equal(unit_text(&err), "was changed while it was being read");
	assert_false(unit_exists(out));
	assert_int_equal(unit_folder_count(folder), 1);
}

static void a_dry_run_writes_nothing(void **state)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_model *model;

	(void)state;
	assert_int_equal(ckpt_open(in, &model, &err), 0);
	options.flags = CKPT_SAVE_DRY_RUN;
	assert_int_equal(ckpt_save(model, out, &options, &report, &err), 0);
	assert_false(unit_exists(out));
	options.flags = 0;
	ckpt_save(model, out, &options, NULL, &err);
	struct ckpt_buf written = unit_read_file(out);
	assert_int_equal(report.nbytes, written.len); /* and knows the size all the same */
	ckpt_buf_clear(&written);
	ckpt_close(model);
}

static void a_raised_flag_cancels(void **state)
{
	static int flag = 1;
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_model *model;

	(void)state;
	assert_int_equal(ckpt_open(in, &model, &err), 0);
	options.cancel = &flag;
	assert_int_equal(ckpt_save(model, out, &options, NULL, &err), CKPT_E_CANCELLED);
	assert_int_equal(unit_folder_count(folder), 1);
	ckpt_close(model);
}

struct naming {
	int refuse;
	unsigned begun, ended;
	bool early, late; /* OUT was there before, or not there after */
};

static int see_naming(void *ctx, enum ckpt_naming what)
{
	struct naming *n = ctx;

	if (what == CKPT_NAMING_BEGINS) {
		n->begun++;
		n->early |= unit_exists(out);
		return n->refuse;
	}
	n->ended++;
	n->late |= !unit_exists(out);
	return -1; /* does not matter */
}

/* One row for each writer. */
static const struct {
	const char *format;
	uint32_t ranks;
	uint64_t shard_size;
} writers[] = {
	{ "torch", 0, 0 }, { "torch-legacy", 0, 0 }, { "safetensors", 0, 0 }, { "npz", 0, 0 },
	{ "npy", 0, 0 },   { "dcp", 2, 0 },	     { "safetensors", 2, 0 }, { "torch", 0, 1 },
};

static void whoever_refuses_the_name_gets_no_output(void **state)
{
	struct ckpt_model *model;

	(void)state;
	assert_int_equal(ckpt_open(in, &model, &err), 0);
	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
		for (int refuse = 1; refuse >= 0; refuse--) {
			struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
			struct naming naming = { .refuse = refuse };
			char *command;

			options.format = writers[i].format;
			options.ranks = writers[i].ranks;
			options.shard_size = writers[i].shard_size;
			options.naming = see_naming;
			options.naming_ctx = &naming;
			assert_int_equal(ckpt_save(model, out, &options, NULL, &err),
					 refuse ? CKPT_E_CANCELLED : 0);
			assert_int_equal(naming.begun, 1);
			assert_int_equal(naming.ended, !refuse);
			assert_false(naming.early || naming.late);
			assert_int_equal(unit_folder_count(folder), refuse ? 1 : 2);
			assert_true(asprintf(&command, "rm -rf '%s'", out) > 0);
			assert_int_equal(system(command), 0);
			free(command);
		}
	ckpt_close(model);
}

/* ---- the sink itself ---- */

static void a_sink_that_is_dropped_leaves_nothing(void **state)
{
	struct ckpt_sink *sink;

	(void)state;
	assert_int_equal(ckpt_sink_open(out, 10, 0, 0, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_sink_write(sink, 0, "0123456789", 10, &err), 0);
	assert_false(unit_exists(out));
	ckpt_sink_discard(sink);
	ckpt_sink_discard(NULL);
	assert_int_equal(unit_folder_count(folder), 1);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
	char *deep = unit_path(folder, "none/out.pt");
	struct ckpt_sink *sink;

	(void)state;
	assert_int_equal(ckpt_sink_open(deep, 10, 0, 0, 0666, &sink, &err), CKPT_E_IO);
	assert_string_equal(err.path, deep);
	assert_non_null(strstr(unit_text(&err), "/none': No such file or directory"));
	free(deep);
}

/* ---- through a map, by many threads ---- */

enum { WRITERS = 6, PIECES = 400, MAPPED = 3 << 20, HOLE = 1 << 20 };

static struct ckpt_sink *shared;
static uint8_t *bytes;
static size_t starts[PIECES + 1]; /* of pieces that lie one behind the other, from HOLE on */
static _Atomic unsigned next_piece;

static void *write_pieces(void *arg)
{
	unsigned i;

	(void)arg;
	while ((i = next_piece++) < PIECES) {
		struct ckpt_error mine = CKPT_ERROR_INIT;
		size_t len = starts[i + 1] - starts[i];

		if (ckpt_sink_write(shared, starts[i], bytes + starts[i], len, &mine) < 0)
			return (void *)1;
	}
	return NULL;
}

static bool run_writers(void)
{
	pthread_t threads[WRITERS];
	bool all = true;

	next_piece = 0;
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_pieces, NULL), 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		all &= !failed;
	}
	return all;
}

/* A folder of tmpfs; NULL: there is none. */
static char *shm_folder(void)
{
	static char path[40];
	struct statfs kind;

	strcpy(path, "/dev/shm/ckpt-sink-XXXXXX");
	if (statfs("/dev/shm", &kind) < 0 || kind.f_type != TMPFS_MAGIC || !mkdtemp(path))
		return NULL;
	return path;
}

static void make_pieces(void)
{
	bytes = calloc(1, MAPPED);
	srand(1);
	for (size_t i = 0; i < PIECES; i++)
		starts[i] = HOLE + (size_t)rand() % (MAPPED - HOLE);
	starts[0] = HOLE;
	starts[PIECES] = MAPPED;
	for (size_t i = 1; i < PIECES; i++) /* in order */
		for (size_t j = i; j > 1 && starts[j] < starts[j - 1]; j--) {
			size_t other = starts[j];

			starts[j] = starts[j - 1];
			starts[j - 1] = other;
		}
	for (size_t i = HOLE; i < MAPPED; i++)
		bytes[i] = (uint8_t)rand();
}

/* Pages that two pieces share, a part that nobody writes, and each call that fails. */
static void many_threads_write_through_a_map(void **state)
{
	char *shm = shm_folder(), *path;
	struct ckpt_buf want = { 0 };
	struct fault fault = { .op = CKPT_IO_WRITE, .code = ENOSPC, .at = 17 };
	struct stat st;

	(void)state;
	if (!shm)
		skip();
	make_pieces();
	ckpt_buf_add(&want, bytes, MAPPED);
	path = unit_path(shm, "out");
	ckpt_sink_map_processors = 1;
	for (unsigned round = 0; round < 20; round++) {
		int code = round % 3 == 1 ? ENOSPC : EINTR;

		fault = (struct fault){ .op = CKPT_IO_WRITE, .code = code, .at = round % 3 ? 17 : 0 };
		assert_int_equal(ckpt_sink_open(path, MAPPED, 0, CKPT_SINK_THREADS | CKPT_SINK_REPLACE, 0666, &shared, &err), 0);
		ckpt_io_set_hook(inject, &fault);
		assert_int_equal(run_writers(), round % 3 != 1);
		ckpt_io_set_hook(NULL, NULL);
		if (round % 3 == 1) {
			ckpt_sink_discard(shared);
			continue;
		}
		assert_int_equal(ckpt_sink_commit(shared, &err), 0);
		assert_file(path, &want);
		assert_int_equal(stat(path, &st), 0);
		assert_true((uint64_t)st.st_blocks * 512 <= MAPPED - HOLE + 4096);
	}
	assert_int_equal(unit_folder_count(shm), 1);
	unlink(path);
	rmdir(shm);
	free(path);
	free(bytes);
	ckpt_buf_clear(&want);
	ckpt_sink_map_processors = 4;
}

/* Where there is no page left the error comes before the bytes, which would end the process. */
static void a_full_tmpfs_is_an_error(void **state)
{
	char *place = unit_path(folder, "small"), *path = unit_path(folder, "small/out");

	(void)state;
	assert_int_equal(mkdir(place, 0777), 0);
	if (mount("tmpfs", place, "tmpfs", 0, "size=1m") < 0) {
		puts("no tmpfs can be mounted here");
		free(place);
		free(path);
		return;
	}
	make_pieces();
	ckpt_sink_map_processors = 1;
	assert_int_equal(ckpt_sink_open(path, MAPPED, 0, CKPT_SINK_THREADS, 0666, &shared, &err), 0);
	assert_false(run_writers());
	assert_int_equal(ckpt_sink_write(shared, HOLE, bytes + HOLE, MAPPED - HOLE, &err), CKPT_E_IO);
	assert_non_null(strstr(unit_text(&err), "No space left on device"));
	ckpt_sink_discard(shared);
	ckpt_sink_map_processors = 4;
	umount(place);
	free(bytes);
	free(place);
	free(path);
}

/* A hint: with or without it, and where it is refused, the file has its bytes and its hole. */
static void what_is_expected_has_its_blocks(void **state)
{
	enum { SIZE = 6 << 20, FROM = 2 << 20, LEN = 2 << 20 };
	static const int codes[] = { 0, ENOSPC, EOPNOTSUPP, EINTR };
	char *path = unit_path(folder, "expected");
	struct ckpt_buf want = { 0 };
	struct statfs kind;
	struct stat st;

	(void)state;
	for (size_t i = 0; i < SIZE; i++)
		ckpt_buf_add_u8(&want, i >= FROM && i < FROM + LEN ? (uint8_t)(i * 7 + 1) : 0);
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct fault fault = { .op = CKPT_IO_RESERVE, .code = codes[i], .at = 1 };
		struct ckpt_sink *sink;
		bool has_blocks;

		assert_int_equal(ckpt_sink_open(path, SIZE, 0, CKPT_SINK_REPLACE, 0666, &sink, &err), 0);
		assert_int_equal(fstatfs(ckpt_sink_fd(sink), &kind), 0);
		has_blocks = kind.f_type == EXT4_SUPER_MAGIC && (codes[i] == 0 || codes[i] == EINTR);
		ckpt_io_set_hook(inject, &fault);
		ckpt_sink_expect(sink, FROM, LEN);
		ckpt_sink_expect(sink, 0, 4096); /* not worth it */
		ckpt_io_set_hook(NULL, NULL);
		assert_int_equal(fault.seen, kind.f_type != EXT4_SUPER_MAGIC ? 0 : codes[i] == EINTR ? 2 : 1);
		assert_int_equal(fstat(ckpt_sink_fd(sink), &st), 0);
		assert_int_equal(st.st_size, SIZE);
		assert_int_equal((uint64_t)st.st_blocks * 512 >= LEN, has_blocks);
		assert_int_equal(ckpt_sink_write(sink, FROM, want.data + FROM, LEN, &err), 0);
		assert_int_equal(ckpt_sink_commit(sink, &err), 0);
		assert_file(path, &want);
		assert_int_equal(stat(path, &st), 0);
		assert_true((uint64_t)st.st_blocks * 512 < LEN + (1 << 20));
	}
	unlink(path);
	free(path);
	ckpt_buf_clear(&want);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

UNIT_SUITE(test_sink)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(nothing_is_left_behind_whichever_call_fails),
		WITH_FILE(a_file_that_is_replaced_stays_until_the_new_one_is_complete),
		WITH_FILE(a_temporary_name_that_is_taken_is_drawn_again),
		WITH_FILE(a_copy_that_the_kernel_refuses_goes_through_memory),
		WITH_FILE(interrupted_calls_are_made_again),
		WITH_FILE(what_is_expected_has_its_blocks),
		WITH_FILE(a_folder_that_cannot_be_synced_is_reported),
		WITH_FILE(without_sync_nothing_is_synced),
		WITH_FILE(an_existing_file_is_not_replaced_unasked),
		WITH_FILE(a_file_that_appears_meanwhile_is_not_replaced),
		WITH_FILE(what_is_no_file_is_never_replaced),
		WITH_FILE(a_link_to_what_is_no_file_is_never_replaced),
		WITH_FILE(a_link_is_replaced_itself),
		WITH_FILE(a_replaced_file_keeps_its_mode),
		WITH_FILE(the_input_is_never_the_output),
		WITH_FILE(an_input_that_changes_meanwhile_is_an_error),
		WITH_FILE(a_dry_run_writes_nothing),
		WITH_FILE(a_raised_flag_cancels),
		WITH_FILE(whoever_refuses_the_name_gets_no_output),
		WITH_FILE(a_sink_that_is_dropped_leaves_nothing),
		WITH_FILE(a_folder_that_is_not_there_is_named),
		WITH_FILE(many_threads_write_through_a_map),
		WITH_FILE(a_full_tmpfs_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
