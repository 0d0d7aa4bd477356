/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "io/fault.h"
#include "job/meeting.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Ranks that are threads meet in a folder: who comes, who does not, and what others left there. */

enum { HELLO = 40, ANSWER = 16, MOST_RANKS = 12 };

struct rank {
	pthread_t thread;
	struct ckpt_world world;
	double seconds; /* from then on that it waits */
	unsigned late_ms;
	bool leaves; /* without waiting for an answer */
	uint8_t all[MOST_RANKS * HELLO];
	uint8_t answer[ANSWER];
	char silent[300];
	struct ckpt_error err;
	int rc;
};

static char *folder;
static struct rank ranks[MOST_RANKS];
static volatile int cancel;
static uint64_t began; /* of all ranks, however long a busy machine takes to start them */

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	__atomic_store_n(&cancel, 0, __ATOMIC_RELAXED);
	return 0;
}

static void remove_tree(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *below = unit_path(path, entry->d_name);

		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
			remove_tree(below);
			remove(below);
		}
		free(below);
	}
	if (dir)
		closedir(dir);
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	remove_tree(folder);
	unit_folder_remove(folder);
	return 0;
}

static void hello_of(uint32_t rank, uint8_t out[HELLO])
{
	memset(out, (int)rank + 1, HELLO);
}

static void sleep_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	uint64_t deadline = began + (uint64_t)(r->seconds * 1e9);
	struct ckpt_rendezvous *meeting;
	uint8_t hello[HELLO];

	sleep_ms(r->late_ms);
	hello_of(r->world.rank, hello);
	r->rc = ckpt_rendezvous_open_file(folder, &r->world, &meeting, &r->err);
	if (r->rc < 0)
		return NULL;
	meeting->cancel = &cancel;
	r->rc = meeting->ops->gather(meeting, hello, HELLO, r->all, deadline, &r->err);
	if (r->world.rank == 0)
		memset(r->answer, 'a', ANSWER);
	if (r->rc == 0 && !r->leaves)
		r->rc = meeting->ops->share(meeting, r->answer, ANSWER, deadline, &r->err);
	meeting->ops->silent(meeting, r->silent, sizeof(r->silent));
	meeting->ops->close(meeting);
	return NULL;
}

static void make_ranks(uint32_t size, double seconds)
{
	memset(ranks, 0, sizeof(ranks));
	began = ckpt_now_nsec();
	for (uint32_t i = 0; i < size; i++) {
		ranks[i].world = (struct ckpt_world){ .rank = i, .size = size, .key = "job/7" };
		ranks[i].seconds = seconds;
	}
}

static void start(uint32_t i)
{
	assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
}

static void run(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		start(i);
	for (uint32_t i = 0; i < count; i++)
		pthread_join(ranks[i].thread, NULL);
}

static void check_met(uint32_t size)
{
	uint8_t hello[HELLO];

	for (uint32_t i = 0; i < size; i++) {
		if (ranks[i].rc < 0)
			print_message("rank %u: %s\n", i, unit_message(&ranks[i].err));
		assert_int_equal(ranks[i].rc, 0);
		assert_int_equal(ranks[i].answer[ANSWER - 1], 'a');
		assert_string_equal(ranks[i].silent, "");
		hello_of(i, hello);
		assert_memory_equal(ranks[0].all + i * HELLO, hello, HELLO);
	}
}

static void check_text(uint32_t i, const char *text)
{
	assert_int_equal(ranks[i].rc, CKPT_E_PEER);
	if (!strstr(unit_text(&ranks[i].err), text))
		print_message("rank %u: %s\nwanted: %s\n", i, unit_text(&ranks[i].err), text);
	assert_non_null(strstr(unit_text(&ranks[i].err), text));
}

static void all_ranks_meet_and_leave_nothing(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= MOST_RANKS; size++)
		for (unsigned order = 0; order < 3; order++) {
			make_ranks(size, 60);
			for (uint32_t i = 0; i < size; i++)
				ranks[i].late_ms = order == 0	? 0
						   : order == 1 ? i * 7
								: (size - i) * 7;
			run(size);
			check_met(size);
			assert_int_equal(unit_folder_count(folder), 0);
		}
}

static void a_missing_rank_is_named_on_all(void **state)
{
	(void)state;
	for (uint32_t missing = 0; missing < 4; missing++) {
		char text[200];

		make_ranks(4, 0.5);
		for (uint32_t i = 0; i < 4; i++)
			if (i != missing)
				start(i);
		for (uint32_t i = 0; i < 4; i++)
			if (i != missing)
				pthread_join(ranks[i].thread, NULL);
		snprintf(text, sizeof(text),
			 "waiting for rank %" PRIu32
			 " of 4 in '%s/job%%2F7': start them, or give all "
			 "ranks the same --rdzv folder and --job-key",
			 missing, folder);
		for (uint32_t i = 0; i < 4; i++)
			if (i != missing)
				check_text(i, text);
		assert_int_equal(unit_folder_count(folder), 0);
	}
}

static void many_missing_ranks_are_counted(void **state)
{
	(void)state;
	make_ranks(2, 0.5);
	ranks[0].world.size = ranks[1].world.size = 64;
	run(2);
	for (uint32_t i = 0; i < 2; i++)
		check_text(i, "waiting for ranks 2, 3, 4, 5, 6, 7, 8, 9 and 54 more of 64 in");
}

static void who_came_and_left_is_told(void **state)
{
	(void)state;
	make_ranks(3, 1);
	ranks[1].seconds = 0.4;
	run(2);
	check_text(0, "; rank 1 (");
	check_text(0, ") came and left");
}

static void another_process_may_come_for_one_that_left(void **state)
{
	(void)state;
	make_ranks(3, 20);
	ranks[3] = ranks[1];
	ranks[1].seconds = 0.3;
	start(0);
	start(1);
	pthread_join(ranks[1].thread, NULL);
	check_text(1, "waiting for rank 2 of 3");
	start(3);
	start(2);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			pthread_join(ranks[i].thread, NULL);
	ranks[1] = ranks[3];
	check_met(3);
}

/* How many files say that a process of RANK has seen a rank 0. */
static unsigned count_seen(uint32_t rank)
{
	char *here = unit_path(folder, "job%2F7");
	DIR *dir = opendir(here);
	struct dirent *entry;
	unsigned count = 0;

	while (dir && (entry = readdir(dir))) {
		uint64_t first;
		uint32_t found;

		count += sscanf(entry->d_name, "seen.%" SCNx64 ".%" SCNu32, &first, &found) == 2 &&
			 found == rank;
	}
	if (dir)
		closedir(dir);
	free(here);
	return count;
}

static void one_rank_twice_is_told_to_all(void **state)
{
	(void)state;
	for (uint32_t twice = 0; twice < 3; twice++) {
		uint32_t last = twice == 1 ? 2 : 1; /* or they may have met without the fourth */
		char host[64] = "", text[200];

		make_ranks(3, 2);
		ranks[3] = ranks[twice];
		for (uint32_t i = 0; i < 4; i++)
			if (i != last)
				start(i);
		while (count_seen(twice) < 2)
			sleep_ms(1);
		start(last);
		for (uint32_t i = 0; i < 4; i++)
			pthread_join(ranks[i].thread, NULL);
		gethostname(host, sizeof(host) - 1);
		snprintf(text, sizeof(text), "two processes say that they are rank %" PRIu32,
			 twice);
		for (uint32_t i = 0; i < 4; i++)
			if (i != last &&
			    (twice != 0 || i == 0 || i == 3)) /* of two ranks 0 others hear one */
				check_text(i, text);
		assert_int_equal(ranks[last].rc, CKPT_E_PEER);
		assert_non_null(strstr(unit_text(&ranks[0].err), host));
		snprintf(text, sizeof(text), "(pid %d) and", (int)getpid());
		assert_non_null(strstr(unit_text(&ranks[0].err), text));
	}
}

static void a_rank_that_is_taken_is_told(void **state)
{
	struct ckpt_rendezvous *meeting;
	uint8_t hello[HELLO];

	(void)state;
	make_ranks(2, 20);
	assert_int_equal(ckpt_rendezvous_open_file(folder, &ranks[1].world, &meeting, NULL), 0);
	assert_int_equal(meeting->ops->gather(meeting, hello, HELLO, NULL, 0, NULL), 0);
	run(2); /* the first one lives, but belongs to another start */
	check_met(2);
	began = ckpt_now_nsec();
	ranks[1].seconds = 0.5;
	start(1);
	pthread_join(ranks[1].thread, NULL);
	check_text(1, "two processes say that they are rank 1 in");
	meeting->ops->close(meeting);
}

static void different_sizes_are_told_to_all(void **state)
{
	(void)state;
	make_ranks(3, 20);
	ranks[2].world.size = 4;
	run(3);
	for (uint32_t i = 0; i < 3; i++) {
		check_text(i, "rank 2 (");
		check_text(i, ") was started for 4 ranks, rank 0 (");
		check_text(i, ") for 3: all need the same");
	}
	assert_int_equal(unit_folder_count(folder), 0);
}

static void another_key_is_another_meeting(void **state)
{
	(void)state;
	make_ranks(4, 20);
	for (uint32_t i = 0; i < 4; i++) {
		ranks[i].world.size = 2;
		ranks[i].world.rank = i % 2;
		if (i >= 2)
			strcpy(ranks[i].world.key, "job_7");
	}
	run(4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(ranks[i].rc, 0);
	assert_int_equal(unit_folder_count(folder), 0);
}

/* Who is quick tells the others, who are interrupted, too. */
static void a_meeting_can_be_cancelled(void **state)
{
	(void)state;
	make_ranks(3, 60);
	__atomic_store_n(&cancel, 2, __ATOMIC_RELAXED);
	run(2);
	assert_int_equal(ranks[0].rc, CKPT_E_CANCELLED);
	assert_true(ranks[1].rc == CKPT_E_CANCELLED || ranks[1].rc == CKPT_E_PEER);
	for (uint32_t i = 0; i < 2; i++)
		assert_non_null(strstr(unit_text(&ranks[i].err), "interrupted while the ranks met"));
	assert_int_equal(unit_folder_count(folder), 0);
}

/* ---- what starts that died have left ---- */

/* The folder of the key, and a copy of every file that was ever in it. */
static void copy_files(const char *from, const char *to)
{
	DIR *dir = opendir(from);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *old = unit_path(from, entry->d_name), *new = unit_path(to, entry->d_name);
		struct stat st;
		FILE *in = stat(old, &st) == 0 && S_ISREG(st.st_mode) ? fopen(old, "rb") : NULL;

		if (in) {
			static uint8_t bytes[1 << 16];

			unit_write_file(new, bytes, fread(bytes, 1, sizeof(bytes), in));
			fclose(in);
		}
		free(old);
		free(new);
	}
	if (dir)
		closedir(dir);
}

/* Starts that end at every stage leave all of their files; the next one meets as if nothing were there. */
static void stale_files_are_never_taken(void **state)
{
	char *here = unit_path(folder, "job%2F7"), *kept = unit_path(folder, "kept");

	(void)state;
	mkdir(kept, 0700);
	for (unsigned stage = 0; stage < unit_rounds(20, 40); stage++) {
		make_ranks(4, 20);
		for (uint32_t i = 0; i < 4; i++)
			start(i);
		nanosleep(&(struct timespec){ 0, stage * 1000000L }, NULL);
		copy_files(here, kept);
		for (uint32_t i = 0; i < 4; i++)
			pthread_join(ranks[i].thread, NULL);
		check_met(4);
		mkdir(here, 0700);
		copy_files(kept, here); /* for the next */
	}
	assert_true(unit_folder_count(kept) > unit_rounds(20, 40));
	assert_int_equal(unit_folder_count(here),
			 unit_folder_count(kept)); /* nobody's files but their own */
	free(here);
	free(kept);
}

/* ... and the missing are those of this start, if files of the others are old. */
static void stale_ranks_count_as_missing(void **state)
{
	char *here = unit_path(folder, "job%2F7"), *path;
	struct timespec old[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
	struct ckpt_note note = { .rank = 1, .size = 3, .nonce = 77, .host = "dead" };

	(void)state;
	mkdir(here, 0700);
	assert_int_equal(ckpt_note_write(here, "hello.1.000000000000004d", &note, NULL), 0);
	path = unit_path(here, "hello.1.000000000000004d");
	utimensat(AT_FDCWD, path, old, 0);
	make_ranks(3, 0.5);
	ranks[1] = ranks[2];
	run(2);
	for (uint32_t i = 0; i < 2; i++)
		check_text(i, "waiting for rank 1 of 3 in");
	free(path);
	free(here);
}

static void a_damaged_hello_is_named(void **state)
{
	struct ckpt_meeting m = { .folder = unit_path(folder, "job%2F7") };
	struct ckpt_note note = { .rank = 1, .size = 2, .nonce = 77, .host = "there" };
	static const char name[] = "hello.1.000000000000004d";
	char *path = unit_path(m.folder, name);
	struct ckpt_buf file;

	(void)state;
	mkdir(m.folder, 0700);
	assert_int_equal(ckpt_note_write(m.folder, name, &note, NULL), 0);
	file = unit_read_file(path);
	for (size_t i = 0; i < file.len; i++) { /* every byte counts */
		file.data[i] ^= 1;
		unit_write_file(path, file.data, file.len);
		assert_int_equal(ckpt_note_read(m.folder, name, getuid(), &note, NULL),
				 CKPT_NOTE_DAMAGED);
		file.data[i] ^= 1;
		unit_write_file(path, file.data, i);
		assert_int_equal(ckpt_note_read(m.folder, name, getuid(), &note, NULL),
				 CKPT_NOTE_DAMAGED);
	}
	assert_int_equal(ckpt_note_read(m.folder, name, getuid() + 1, &note, NULL), CKPT_NOTE_NONE);
	make_ranks(2, 0.5);
	start(0);
	while (!m.first_count) { /* until there is a hello of rank 0 to be seen */
		DIR *dir = opendir(m.folder);
		struct dirent *entry;
		uint64_t nonce;

		while ((entry = readdir(dir)))
			if (sscanf(entry->d_name, "hello.0.%" SCNx64, &nonce) == 1) {
				m.me = note;
				m.me.rank = 1;
				m.me.nonce = 77;
				assert_int_equal(ckpt_meeting_acknowledge(&m, nonce, NULL), 0);
			}
		closedir(dir);
	}
	pthread_join(ranks[0].thread, NULL);
	check_text(0, "; 'hello.1.000000000000004d' is damaged, or of another version of ckpt");
	ckpt_buf_clear(&file);
	free(m.firsts);
	free(m.folder);
	free(path);
}

/* ---- the file system ---- */

static int open_in(const char *where, const char *key, struct ckpt_error *err)
{
	struct ckpt_world world = { .rank = 0, .size = 1 };
	struct ckpt_rendezvous *meeting;
	uint8_t hello[HELLO], all[HELLO];
	int rc;

	snprintf(world.key, sizeof(world.key), "%s", key);
	*err = (struct ckpt_error)CKPT_ERROR_INIT;
	rc = ckpt_rendezvous_open_file(where, &world, &meeting, err);
	if (rc < 0)
		return rc;
	rc = meeting->ops->gather(meeting, hello, HELLO, all, 0, err);
	meeting->ops->close(meeting);
	return rc;
}

static void folders_that_are_none_are_told(void **state)
{
	char *file = unit_path(folder, "file"), *none = unit_path(folder, "no/such"), *new;
	struct ckpt_error err;

	(void)state;
	unit_write_file(file, "x", 1);
	assert_int_equal(open_in(file, "k", &err), CKPT_E_IO);
	assert_non_null(
		strstr(unit_message(&err), "/file/k: cannot make the folder: Not a directory"));
	assert_int_equal(open_in(none, "k", &err), CKPT_E_IO);
	assert_non_null(
		strstr(unit_message(&err), "no/such: cannot make the folder: No such file"));
	assert_int_equal(open_in("/proc", "k", &err), CKPT_E_IO);
	assert_non_null(strstr(unit_message(&err), "/proc/k: cannot make the folder: "));
	assert_int_equal(open_in(folder, "", &err), CKPT_E_ARG);
	assert_non_null(strstr(unit_text(&err), "give all ranks of each start a --job-key of its own"));
	new = unit_path(folder, "new");
	assert_int_equal(open_in(new, "k", &err), 0); /* made, as only its parent has to be there */
	assert_int_equal(unit_folder_count(new), 0);
	rmdir(new);
	free(new);
	free(file);
	free(none);
}

static void a_folder_of_somebody_else_is_refused(void **state)
{
	char *kept = unit_path(folder, "kept"), *link = unit_path(folder, "link"), *foreign = unit_path(folder, "foreign");
	struct ckpt_error err;

	(void)state;
	assert_int_equal(mkdir(kept, 0777), 0);
	assert_int_equal(symlink(kept, link), 0);
	assert_int_equal(open_in(folder, "kept", &err), 0); /* made by hand; removed as if a rank had made it */
	assert_int_equal(mkdir(kept, 0777), 0);
	assert_int_equal(open_in(folder, "link", &err), CKPT_E_PEER);
	assert_non_null(strstr(unit_message(&err), "/link: is a link or belongs to another user"));
	assert_int_equal(unit_folder_count(kept), 0);
	assert_int_equal(mkdir(foreign, 0777), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(foreign, 12345, 12345), 0);
		assert_int_equal(open_in(folder, "foreign", &err), CKPT_E_PEER);
		assert_non_null(strstr(unit_message(&err), "/foreign: is a link or belongs to another user"));
	}
	free(kept);
	free(link);
	free(foreign);
}

static void keys_become_file_names(void **state)
{
	static const char *const keys[] = { "..", ".", "a/../b", "a b\n", "\xff", "%41" };
	struct ckpt_error err;
	char key[160];

	(void)state;
	for (size_t i = 0; i < COUNT(keys); i++)
		assert_int_equal(open_in(folder, keys[i], &err), 0);
	memset(key, '/', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	assert_int_equal(open_in(folder, key, &err), 0);
	assert_int_equal(unit_folder_count(folder), 0);
}

struct fault {
	enum ckpt_io_op op;
	unsigned at;
	atomic_uint seen;
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? EIO : 0;
}

static int refuse(void *ctx, enum ckpt_io_op op)
{
	return op == CKPT_IO_WRITE ? *(int *)ctx : 0;
}

static void who_cannot_say_that_it_is_there_may_leave(void **state)
{
	int code = ENOSPC;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct ckpt_world world = { .rank = i & 1, .size = 2, .key = "job" };
		struct ckpt_rendezvous *meeting;
		struct ckpt_error err = CKPT_ERROR_INIT;
		uint8_t hello[HELLO] = { 0 }, all[2 * HELLO];

		assert_int_equal(ckpt_rendezvous_open_file(folder, &world, &meeting, &err), 0);
		ckpt_io_set_hook(refuse, &code);
		assert_int_equal(meeting->ops->gather(meeting, hello, HELLO, all, ckpt_now_nsec() + 100000000, &err), CKPT_E_IO);
		if (i & 2) /* there is room again */
			ckpt_io_set_hook(NULL, NULL);
		meeting->ops->leave(meeting, &err, ckpt_now_nsec() + 100000000);
		meeting->ops->close(meeting);
		ckpt_io_set_hook(NULL, NULL);
	}
}

/* Whatever call fails on whichever rank: it says so, nobody waits for longer than it has to, nothing is left. */
static void calls_that_fail_are_told(void **state)
{
	static const enum ckpt_io_op ops[] = { CKPT_IO_READ, CKPT_IO_WRITE, CKPT_IO_RENAME,
					       CKPT_IO_THREAD };

	(void)state;
	for (size_t i = 0; i < COUNT(ops); i++)
		for (unsigned at = 1;; at++) {
			struct fault fault = { ops[i], at, 0 };
			unsigned failed = 0, told = 0;

			make_ranks(3, 0.4);
			ckpt_io_set_hook(inject, &fault);
			run(3);
			ckpt_io_set_hook(NULL, NULL);
			for (uint32_t r = 0; r < 3; r++) {
				failed += ranks[r].rc < 0;
				told += strstr(unit_text(&ranks[r].err), "Input/output error") != NULL;
			}
			assert_int_equal(unit_folder_count(folder), 0);
			if (fault.seen < at) {
				assert_int_equal(failed, 0);
				break;
			}
			assert_true(failed == 0 || told > 0 || fault.seen > at);
			assert_true(at < 40);
		}
}

/* ---- who is silent ---- */

static void silent_ranks_are_named(void **state)
{
	struct ckpt_rendezvous *meetings[2];
	struct ckpt_meeting *m;
	uint8_t hello[HELLO];
	struct timespec ago[2];
	char text[300], *path, wanted[120];

	(void)state;
	make_ranks(2, 20);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(ckpt_rendezvous_open_file(folder, &ranks[i].world, &meetings[i],
							   NULL),
				 0);
	assert_int_equal(meetings[1]->ops->gather(meetings[1], hello, HELLO, NULL, 0, NULL), 0);
	m = (struct ckpt_meeting *)meetings[0];
	assert_int_equal(meetings[0]->ops->gather(meetings[0], hello, HELLO, ranks[0].all,
						  ckpt_now_nsec(), NULL),
			 CKPT_E_PEER); /* it has not seen rank 0 yet */
	free(m->seats);
	m->seats = calloc(1, sizeof(*m->seats));
	m->seats[0] = (struct ckpt_seat){ 1, ((struct ckpt_meeting *)meetings[1])->me.nonce };
	m->seat_count = 1;
	meetings[0]->ops->silent(meetings[0], text, sizeof(text));
	assert_string_equal(text, "");
	clock_gettime(CLOCK_REALTIME, &ago[0]);
	ago[0].tv_sec -=
		ago[0].tv_nsec < 500000000 ? 73 : 72; /* 72.5 s: the clock of files is coarse */
	ago[0].tv_nsec = (ago[0].tv_nsec + 500000000) % 1000000000;
	ago[1] = ago[0];
	path = unit_path(m->folder, ((struct ckpt_meeting *)meetings[1])->own);
	assert_int_equal(utimensat(AT_FDCWD, path, ago, 0), 0);
	meetings[0]->ops->silent(meetings[0], text, sizeof(text));
	snprintf(wanted, sizeof(wanted), ", pid %d) was last heard of 72 s ago", (int)getpid());
	assert_non_null(strstr(text, "rank 1 ("));
	assert_non_null(strstr(text, wanted));
	meetings[0]->ops->silent(meetings[0], text, 20);
	assert_string_equal(text, "");
	for (uint32_t i = 0; i < 2; i++)
		meetings[i]->ops->close(meetings[i]);
	free(path);
}

/* It has seen rank 0, and dies before it reads the answer. */
static void who_does_not_take_the_answer_is_named(void **state)
{
	struct ckpt_rendezvous *meetings[3];
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint8_t hello[HELLO];
	char wanted[120];

	(void)state;
	make_ranks(3, 20);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(ckpt_rendezvous_open_file(folder, &ranks[i].world, &meetings[i], NULL), 0);
	for (uint32_t i = 1; i < 3; i++) {
		hello_of(i, hello);
		assert_int_equal(meetings[i]->ops->gather(meetings[i], hello, HELLO, NULL, 0, NULL), 0);
		assert_int_equal(ckpt_meeting_acknowledge((struct ckpt_meeting *)meetings[i],
							  ((struct ckpt_meeting *)meetings[0])->me.nonce, NULL),
				 0);
	}
	assert_int_equal(meetings[0]->ops->gather(meetings[0], hello, HELLO, ranks[0].all,
						  ckpt_now_nsec() + 5000000000, NULL),
			 0);
	assert_int_equal(meetings[0]->ops->share(meetings[0], hello, ANSWER, ckpt_now_nsec() + 1000000, &err),
			 CKPT_E_PEER);
	snprintf(wanted, sizeof(wanted), ", pid %d) is the first of them", (int)getpid());
	assert_non_null(strstr(unit_text(&err), "all 3 ranks came, but 2 did not take rank 0's answer: rank 1 ("));
	assert_non_null(strstr(unit_text(&err), wanted));
	for (uint32_t i = 0; i < 3; i++)
		meetings[i]->ops->close(meetings[i]);
}

/* It dies before it sees rank 0, and the others, whose time is over before rank 0's, know nothing of that. */
static void who_has_not_seen_rank_0_is_named_on_all(void **state)
{
	struct ckpt_rendezvous *dead;
	uint8_t hello[HELLO];

	(void)state;
	make_ranks(3, 1.5);
	ranks[1].seconds = 1.3;
	assert_int_equal(ckpt_rendezvous_open_file(folder, &ranks[2].world, &dead, NULL), 0);
	hello_of(2, hello);
	assert_int_equal(dead->ops->gather(dead, hello, HELLO, NULL, 0, NULL), 0);
	run(2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(ranks[i].rc, CKPT_E_PEER);
		assert_non_null(strstr(unit_text(&ranks[i].err), "waiting for rank 2 of 3 in '"));
	}
	dead->ops->close(dead);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT_SUITE(test_rendezvous)
{
	const struct CMUnitTest tests[] = {
		TEST(all_ranks_meet_and_leave_nothing),
		TEST(a_missing_rank_is_named_on_all),
		TEST(many_missing_ranks_are_counted),
		TEST(who_came_and_left_is_told),
		TEST(another_process_may_come_for_one_that_left),
		TEST(one_rank_twice_is_told_to_all),
		TEST(a_rank_that_is_taken_is_told),
		TEST(different_sizes_are_told_to_all),
		TEST(another_key_is_another_meeting),
		TEST(a_meeting_can_be_cancelled),
		TEST(stale_files_are_never_taken),
		TEST(stale_ranks_count_as_missing),
		TEST(a_damaged_hello_is_named),
		TEST(folders_that_are_none_are_told),
		TEST(a_folder_of_somebody_else_is_refused),
		TEST(keys_become_file_names),
		TEST(who_cannot_say_that_it_is_there_may_leave),
		TEST(calls_that_fail_are_told),
		TEST(silent_ranks_are_named),
		TEST(who_does_not_take_the_answer_is_named),
		TEST(who_has_not_seen_rank_0_is_named_on_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
