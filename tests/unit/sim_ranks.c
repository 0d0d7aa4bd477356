/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim_ranks.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *folder, *source, *wish;
uint8_t *data;

int sim_setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	source = unit_path(folder, "model.pt");
	wish = unit_path(folder, "out-%r.pt");
	data = malloc(SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	unit_write_file(source, data, SIZE);
	return 0;
}

int sim_teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	free(data);
	free(wish);
	free(source);
	unit_folder_remove(folder);
	return 0;
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;

	r->rc = ckpt_broadcast_over(&r->session, r->transport, &r->report, &r->err);
	return NULL;
}

struct rank ranks[SIM_MOST_RANKS];
struct ckpt_rendezvous *met_in;

void start_rank(struct sim *sim, uint32_t rank, const char *const *sources, size_t count,
		const struct ckpt_broadcast_options *options)
{
	struct rank *r = &ranks[rank];

	memset(r, 0, sizeof(*r));
	r->report = (struct ckpt_broadcast_report)CKPT_BROADCAST_REPORT_INIT;
	assert_int_equal(ckpt_session_init(&r->session, sources, count, wish, options), 0);
	r->session.world =
		(struct ckpt_world){ .rank = rank, .size = sim->size, .launcher = "sim" };
	r->session.rendezvous = rank == 0 ? met_in : NULL;
	if (r->session.o.readers > sim->size)
		r->session.o.readers = sim->size;
	r->transport = sim_open(sim, rank);
	assert_int_equal(pthread_create(&r->thread, NULL, run_rank, r), 0);
}

void join_ranks(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->size; i++)
		pthread_join(ranks[i].thread, NULL);
}

void broadcast(struct sim *sim, const char *const *sources, size_t count,
	       const struct ckpt_broadcast_options *options)
{
	for (uint32_t i = 0; i < sim->size; i++)
		start_rank(sim, i, sources, count, options);
	join_ranks(sim);
}

struct ckpt_broadcast_options options_for_tests(void)
{
	struct ckpt_broadcast_options o = CKPT_BROADCAST_OPTIONS_INIT;

	o.chunk = CHUNK;
	o.timeout_s = 20;
	o.threads = 2;
	o.flags = CKPT_BROADCAST_NO_SYNC;
	return o;
}

char *path_for(uint32_t rank)
{
	char name[40];

	snprintf(name, sizeof(name), "out-%u.pt", rank);
	return unit_path(folder, name);
}

bool exists(uint32_t rank)
{
	char *path = path_for(rank);
	bool there = access(path, F_OK) == 0;

	free(path);
	return there;
}

void check_file(uint32_t rank, size_t size)
{
	char *path = path_for(rank);
	struct ckpt_buf found = unit_read_file(path);

	assert_int_equal(found.len, size);
	assert_memory_equal(found.data, data, size);
	ckpt_buf_clear(&found);
	free(path);
}

static unsigned count_names(void)
{
	DIR *dir = opendir(folder);
	unsigned count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

void remove_outputs(uint32_t size)
{
	for (uint32_t i = 0; i < size; i++) {
		char *path = path_for(i), name[60], *note;

		snprintf(name, sizeof(name), ".out-%u.pt.ckpt-staged", i);
		note = unit_path(folder, name);
		unlink(path);
		unlink(note);
		free(path);
		free(note);
	}
	assert_int_equal(count_names(), 1); /* the source: nothing else was left */
}

void check_codes(const struct sim *sim, int code)
{
	for (uint32_t i = 0; i < sim->size; i++) {
		if (ranks[i].report.code != code)
			print_message("rank %u: %s\n", i, unit_text(&ranks[i].err));
		assert_int_equal(ranks[i].report.code, code);
		assert_int_equal(ranks[i].rc == 0, code == 0);
	}
}

atomic_uint reads;

int count_reads(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	reads += op == CKPT_IO_READ;
	return 0;
}

int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? f->code : 0;
}
