/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file, or all files of a folder by several threads. Each file has a scanner of its own;
 * results go to the caller in the order of the paths, whichever file is done first.
 *
 * What must stay true: a scanner belongs to one thread until deliver_results() takes it under the
 * lock. In a folder, a file that cannot be read is a finding, not an error, so that one file
 * cannot hide the others; only lack of memory, cancelling and the caller's own function end the
 * run.
 */
#include "base/flags.h"
#include "scan/scanner.h"

#include "base/ascii.h"
#include "base/sized.h"
#include "base/text.h"
#include "format/container.h"
#include "format/torch_zip.h"
#include "io/workers.h"
#include "scan/files.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *ckpt_scan_verdict_name(enum ckpt_scan_verdict verdict)
{
	static const char *const names[] = { "plain", "needs-objects", "unreadable", "inconsistent",
					     "dangerous" };

	return names[verdict];
}

const char *ckpt_scan_loader(unsigned i)
{
	static const char *const names[] = { "torch.load 1.7 to 2.14", "torch.package", "pickle of CPython 3.9 to 3.14", "zipfile", "numpy.load",
					      "python FILE", "torch.export.load 2.6 to 2.14", "aoti_load_package 2.6 to 2.14" };

	return i < sizeof(names) / sizeof(names[0]) ? names[i] : NULL;
}

const char *ckpt_scan_torch_name(enum ckpt_scan_torch torch)
{
	static const char *const names[] = { "1.13", "2.6", "2.14" };

	return names[torch];
}

const char *ckpt_scan_kind_name(enum ckpt_scan_kind kind)
{
	static const char *const names[] = { "data", "object", "code" };

	return names[kind];
}

/* ---- one file ---- */

/* ".metadata", and "__0.metadata" of a rank */
static bool is_index(const char *path)
{
	size_t len = strlen(path);

	return len >= 9 && !strcmp(path + len - 9, ".metadata");
}

/*
 * A file of an unpacked torch.package, at NAME in it. What lies in ".data" is for the importer, as in
 * an archive.
 */
static void take_for_package(struct ckpt_scanner *s, const char *name)
{
	size_t len = strlen(name);

	if (!strncmp(name, ".data/", 6))
		return;
	s->in_package = s->is_unpacked = true;
	if (len < 3 || ckpt_strcasecmp(name + len - 3, ".py") != 0)
		return;
	ckpt_scan_find(s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET, "a source of Python in an unpacked torch.package, which a load of its pickles runs");
}

/* torch 2.14 goes by the name of a path, and gives such a file to the package safetensors, which knows no other (torch.load). */
static void check_name(struct ckpt_scanner *s)
{
	if (s->file.is_torch && ckpt_ends_with(s->file.path, ".safetensors"))
		ckpt_scan_refuse(s, 1 << CKPT_SCAN_TORCH_2_14, NULL, CKPT_NO_OFFSET, "its name ends in '.safetensors', as which 2.14 reads it");
}

/* Can it be read as the checkpoint that it is said to be? */
static void prove(struct ckpt_scanner *s, struct ckpt_source *source)
{
	if (s->rc == 0 && s->file.is_torch &&
	    s->file.verdict < CKPT_SCAN_UNREADABLE) /* what is more than is looked into is not opened either */
		ckpt_scan_prove(s, source, CKPT_SCAN_TOP);
	if (s->has_places || s->has_places_inside)
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "indices", CKPT_NO_OFFSET,
			       "a sparse tensor, or the state of a generator, in what is no checkpoint of its own: where its numbers point is not looked at");
}

static int finish(struct ckpt_scanner *s, const char *path, struct ckpt_error *err)
{
	if (s->rc == 0 && s->no_memory && !ckpt_scan_is_full(s))
		s->rc = CKPT_E_NOMEM;
	if (s->rc == CKPT_E_NOMEM)
		return ckpt_error_at(err, ckpt_fail_nomem(err), path, NULL, CKPT_NO_OFFSET);
	if (s->rc == 0 && ckpt_scan_is_cancelled(s)) /* whoever broke off for that has not seen all */
		s->rc = CKPT_E_CANCELLED;
	if (s->rc < 0)
		return ckpt_fail(err, s->rc, "cancelled");
	ckpt_scanner_finish(s);
	return 0;
}

/*
 * 0: there is a verdict, or it is of no kind to have one (s->file.format is "" then).
 * PACKAGE: where it lies in an unpacked torch.package; NULL: in none.
 */
static int scan_file(struct ckpt_scanner *s, const char *path, const char *package, struct ckpt_error *err)
{
	struct ckpt_source *source;
	bool inside;
	int rc = ckpt_container_open(path, &source, &inside, err);

	if (rc < 0)
		return rc;
	rc = ckpt_scanner_set_size(s, ckpt_source_size(source));
	if (rc < 0) {
		ckpt_source_unref(source);
		return ckpt_fail_nomem(err);
	}
	if (package)
		take_for_package(s, package);
	s->is_one = ckpt_scan_source(s, source, CKPT_SCAN_TOP | (strlen(path) > 7 && ckpt_ends_with(path, ".distcp") ? CKPT_SCAN_ROW : 0u));
	if (s->rc == 0 && is_index(path) && s->file.verdict < CKPT_SCAN_UNREADABLE)
		ckpt_scan_dcp_index(s, source);
	prove(s, source);
	check_name(s);
	ckpt_source_unref(source);
	return finish(s, path, err);
}

/* ---- many ---- */

struct scanning {
	struct ckpt_work work;
	const struct ckpt_scan_options *options;
	struct ckpt_scan_files files;
	bool is_folder;
	uint32_t next; /* to be taken */

	pthread_mutex_t lock;	    /* of all that follows */
	struct ckpt_scanner **done; /* by file; NULL: not yet */
	uint32_t told;		    /* those in front were told */
	int (*file)(void *ctx, const struct ckpt_scan_file *file);
	void *ctx;
	struct ckpt_scan_report report;
	atomic_uint_fast64_t bytes;
};

static void free_scanner(struct ckpt_scanner *s)
{
	if (s)
		ckpt_scanner_clear(s);
	free(s);
}

static int report_file(struct scanning *g, const struct ckpt_scanner *s)
{
	if (g->is_folder && !s->is_one && s->file.verdict == CKPT_SCAN_PLAIN) {
		g->report.passed_over++;
		return 0;
	}
	g->report.files++;
	g->report.bytes += s->file.bytes;
	g->report.verdicts[s->file.verdict]++;
	return g->file ? g->file(g->ctx, &s->file) : 0;
}

/* In the order of the names, whichever is done first. */
static int deliver_results(struct scanning *g, uint32_t i, struct ckpt_scanner *s)
{
	int rc = 0;

	pthread_mutex_lock(&g->lock);
	g->done[i] = s;
	for (; rc >= 0 && g->told < g->files.count && g->done[g->told]; g->told++) {
		rc = report_file(g, g->done[g->told]);
		free_scanner(g->done[g->told]);
		g->done[g->told] = NULL;
	}
	pthread_mutex_unlock(&g->lock);
	return rc < 0 ? rc : 0;
}

static int take_file(struct ckpt_work *work, void *desk, struct ckpt_error *err)
{
	struct scanning *g = (struct scanning *)work;

	(void)err;
	if (g->next == g->files.count)
		return 0;
	*(uint32_t *)desk = g->next++;
	return 1;
}

static int scan_taken_file(struct ckpt_work *work, void *desk, struct ckpt_error *err)
{
	struct scanning *g = (struct scanning *)work;
	struct ckpt_scanner *s = malloc(sizeof(*s));
	struct ckpt_error local = CKPT_ERROR_INIT;
	char text[sizeof(local.text)];
	uint32_t i = *(uint32_t *)desk;
	int rc;

	if (!s || ckpt_scanner_init(s, g->files.paths[i]) < 0) {
		free(s);
		return ckpt_fail_nomem(err);
	}
	s->cancel = g->options->cancel;
	s->in_folder = g->is_folder;
	rc = ckpt_scan_is_cancelled(s) ? ckpt_fail(&local, CKPT_E_CANCELLED, "cancelled")
				       : scan_file(s, g->files.paths[i], ckpt_scan_path_in_package(&g->files, g->files.paths[i]), &local);
	if (rc < 0 && g->is_folder && rc != CKPT_E_NOMEM && rc != CKPT_E_CANCELLED) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", local.offset, "%s",
			       ckpt_error_text(&local, text, sizeof(text)));
		ckpt_scanner_finish(s);
		rc = 0;
	}
	g->bytes += g->files.sizes[i];
	if (rc == 0)
		return deliver_results(g, i, s);
	free_scanner(s);
	if (err)
		*err = local;
	return rc;
}

static int report_progress(struct ckpt_work *work, struct ckpt_error *err)
{
	struct scanning *g = (struct scanning *)work;

	(void)err;
	if (g->options->progress && g->bytes)
		g->options->progress(g->options->progress_ctx, g->bytes, g->files.bytes);
	return 0;
}

static int scan_all(struct scanning *g, struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT;
	struct ckpt_workers *workers;
	int rc = ckpt_workers_new(sizeof(uint32_t), g->options->threads, &workers, err);

	if (rc < 0)
		return rc;
	g->done = calloc(g->files.count + (size_t)1, sizeof(*g->done));
	rc = g->done ? ckpt_workers_run(workers, &g->work, g->files.count > 1, err ? err : &local)
		     : ckpt_fail_nomem(err);
	ckpt_workers_free(workers);
	for (uint32_t i = 0; g->done && i < g->files.count; i++)
		free_scanner(g->done[i]);
	free(g->done);
	return rc;
}

int ckpt_scan(const char *path, const struct ckpt_scan_options *options,
	      int (*file)(void *ctx, const struct ckpt_scan_file *file), void *ctx,
	      struct ckpt_scan_report *report, struct ckpt_error *err)
{
	struct ckpt_scan_options o = CKPT_SCAN_OPTIONS_INIT;
	struct scanning g = { .work = { take_file, scan_taken_file, report_progress },
			      .options = &o,
			      .file = file,
			      .ctx = ctx,
			      .report = CKPT_SCAN_REPORT_INIT };
	struct stat st;
	int rc = ckpt_sized_take(&o, sizeof(o), options, err);

	if (rc == 0)
		rc = ckpt_flags_check(o.flags, 0, err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(g.report), err);
	if (rc < 0)
		return rc;
	g.is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	pthread_mutex_init(&g.lock, NULL);
	rc = ckpt_scan_list_files(path, &g.files, err);
	if (rc == 0)
		rc = scan_all(&g, err);
	ckpt_scan_files_clear(&g.files);
	pthread_mutex_destroy(&g.lock);
	ckpt_sized_give(report, &g.report, sizeof(g.report));
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

/* What S found out about weights_only. */
static int give_refusals(const struct ckpt_scanner *s, const char *path, bool *accepts,
			 int (*refused)(void *ctx, const struct ckpt_scan_refusal *refusal),
			 void *ctx, struct ckpt_error *err)
{
	int rc = 0;

	if (!s->file.is_torch)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_UNSUPPORTED,
					       "has no form that torch.load reads"),
				     path, NULL, CKPT_NO_OFFSET);
	for (int i = 0; i < CKPT_SCAN_TORCH_COUNT; i++)
		accepts[i] = s->file.weights_only[i];
	for (uint32_t i = 0; rc == 0 && refused && i < s->refusal_count; i++)
		rc = refused(ctx, &s->refusals[i]);
	return rc;
}

int ckpt_scan_weights_only(const char *path, bool *accepts,
			   int (*refused)(void *ctx, const struct ckpt_scan_refusal *refusal),
			   void *ctx, struct ckpt_error *err)
{
	struct ckpt_scanner s;
	int rc = ckpt_scanner_init(&s, path);

	if (rc < 0)
		return ckpt_fail_nomem(err);
	rc = scan_file(&s, path, NULL, err);
	if (rc == 0)
		rc = give_refusals(&s, path, accepts, refused, ctx, err);
	ckpt_scanner_clear(&s);
	return rc;
}

/* What torch.load() gives its unpickler, as the archive of DOC has it. */
static void scan_pickle_of(struct ckpt_scanner *s, const struct ckpt_document *doc)
{
	struct ckpt_scan_pickle pickle = { .bytes = doc->pickle_bytes,
					   .len = doc->pickle_len,
					   .flags = CKPT_SCAN_STORAGES };
	struct ckpt_strmap storages = { 0 };

	s->file.format = "torch zip";
	s->file.is_torch = s->weights = true;
	s->storages = &storages;
	ckpt_scan_pickles(s, &pickle, 1);
	s->storages = NULL;
	s->weights = false;
	ckpt_strmap_clear(&storages);
}

int ckpt_scan_model_weights_only(const struct ckpt_model *model, bool *accepts,
				 int (*refused)(void *ctx, const struct ckpt_scan_refusal *refusal),
				 void *ctx, struct ckpt_error *err)
{
	const struct ckpt_document *doc = model->doc;
	bool is_zip = doc->format == &ckpt_format_torch_zip && doc->pickle_bytes;
	const char *path = ckpt_document_path(doc) ? ckpt_document_path(doc) : "";
	struct ckpt_scanner s;
	int rc = ckpt_scanner_init(&s, path);

	if (rc == 0 && doc->source)
		rc = ckpt_scanner_set_size(&s, is_zip ? doc->pickle_len : ckpt_source_size(doc->source));
	if (rc < 0) {
		ckpt_scanner_clear(&s);
		return ckpt_fail_nomem(err);
	}
	if (doc->source && !doc->path && is_zip)
		scan_pickle_of(&s, doc);
	else if (doc->source && !doc->path)
	{
		ckpt_scan_source(&s, doc->source, CKPT_SCAN_TOP);
		prove(&s, doc->source);
	}
	rc = finish(&s, path, err);
	if (rc == 0 && doc->source)
		rc = ckpt_error_at(err, ckpt_source_check_unchanged(doc->source, err), path, NULL, CKPT_NO_OFFSET);
	if (rc == 0)
		rc = give_refusals(&s, path, accepts, refused, ctx, err);
	ckpt_scanner_clear(&s);
	return rc;
}
