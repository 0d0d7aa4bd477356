/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of an archive: 'ckpt ls --records', and what 'ckpt info' says of them.
 *
 * The records are walked twice, to measure names and to print, and never kept: there may be
 * millions.
 *
 * What must stay true: KIND_NAMES has the values of enum ckpt_record_kind (include/ckpt/model.h),
 * in its order.
 */
#include "records.h"

#include "command.h"
#include "json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* By enum ckpt_record_kind, in its order. */
static const char *const kind_names[] = { "storage", "constant", "pickle", "code",
					  "extra",   "mark",	 "other" };
enum { KINDS = sizeof(kind_names) / sizeof(kind_names[0]) };

static const char *kind_name(const struct ckpt_record *record)
{
	return (unsigned)record->kind < KINDS ? kind_names[record->kind] : "other";
}

/* ---- ls --records ---- */

struct record_rows {
	struct ckpt_pattern *const *patterns;
	size_t pattern_count;
	bool exact_bytes;
	FILE *json;		 /* NULL: a table */
	int width;		 /* of the names; 0: they are only measured */
	uint64_t all, shown;	 /* records */
	uint64_t nbytes, stored; /* of those that are shown */
	struct ckpt_error *err;
};

static int matches(const struct record_rows *r, const char *name)
{
	int rc = !r->pattern_count;

	for (size_t i = 0; rc == 0 && i < r->pattern_count; i++)
		rc = ckpt_pattern_matches(r->patterns[i], name, r->err);
	return rc;
}

static void print_row(const struct record_rows *r, const struct ckpt_record *record)
{
	char name[1024], size[32], stored[32];

	ckpt_escape(name, sizeof(name), record->name, strlen(record->name));
	printf("%-*s  %-8s  %6s", r->width, name, kind_name(record),
	       r->exact_bytes ? grouped(record->nbytes, size) : human_size(record->nbytes, size));
	if (record->stored != record->nbytes)
		printf("  compressed to %s", r->exact_bytes ? grouped(record->stored, stored)
							    : human_size(record->stored, stored));
	putchar('\n');
}

static void put_row(const struct record_rows *r, const struct ckpt_record *record)
{
	json_t *o = json_object();

	json_set_name(o, "name", record->name);
	json_object_set_new(o, "kind", json_string(kind_name(record)));
	json_object_set_new(o, "nbytes", json_u64(record->nbytes));
	json_object_set_new(o, "stored", json_u64(record->stored));
	fputs(r->shown ? ",\n" : "\n", r->json);
	json_put(r->json, o);
}

static int measure_record(void *ctx, const struct ckpt_record *record)
{
	static const size_t most = 60;
	struct record_rows *r = ctx;
	char name[1024];
	size_t len;
	int rc = matches(r, record->name);

	r->all++;
	if (rc <= 0)
		return rc;
	len = strlen(ckpt_escape(name, sizeof(name), record->name, strlen(record->name)));
	if (len > most)
		len = most;
	if ((int)len > r->width)
		r->width = (int)len;
	r->shown++;
	return 0;
}

static int show_record(void *ctx, const struct ckpt_record *record)
{
	struct record_rows *r = ctx;
	int rc = matches(r, record->name);

	if (rc <= 0)
		return rc;
	if (r->json)
		put_row(r, record);
	else
		print_row(r, record);
	r->shown++;
	r->nbytes = sum(r->nbytes, record->nbytes);
	r->stored = sum(r->stored, record->stored);
	return 0;
}

static int print_table(const struct ckpt_model *model, struct record_rows *r)
{
	char count[32], size[32], stored[32];

	if (ckpt_each_record(model, show_record, r, r->err) < 0)
		return fail(r->err);
	if (quiet)
		return finish_output(EXIT_FINE);
	printf("%s record%s, %s", grouped(r->shown, count), plural(r->shown),
	       r->exact_bytes ? grouped(r->nbytes, size) : human_size(r->nbytes, size));
	if (r->stored != r->nbytes)
		printf(" in %s",
		       r->exact_bytes ? grouped(r->stored, stored) : human_size(r->stored, stored));
	putchar('\n');
	return finish_output(EXIT_FINE);
}

static int print_json(const struct ckpt_model *model, struct record_rows *r, const char *target)
{
	int rc;

	r->json = json_open(target);
	if (!r->json)
		return EXIT_ERROR;
	fprintf(r->json, "{\"ckpt_json\":%d,\"command\":\"ls\",\"records\":[", JSON_VERSION);
	rc = ckpt_each_record(model, show_record, r, r->err);
	fprintf(r->json, "\n],\"count\":%" PRIu64 ",\"nbytes\":", r->shown);
	json_put(r->json, json_u64(r->nbytes));
	fputs(",\"stored\":", r->json);
	json_put(r->json, json_u64(r->stored));
	fputs("}\n", r->json);
	if (rc < 0)
		fail(r->err);
	return json_close(r->json, rc == 0) == EXIT_FINE && rc == 0 ? EXIT_FINE : EXIT_ERROR;
}

int list_records(const struct ckpt_model *model, const char *path,
		 struct ckpt_pattern *const *patterns, size_t pattern_count, bool exact_bytes,
		 const char *json)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct record_rows r = { .patterns = patterns,
				 .pattern_count = pattern_count,
				 .exact_bytes = exact_bytes,
				 .err = &err };
	uint64_t matching;

	if (ckpt_each_record(model, measure_record, &r, &err) < 0)
		return fail(&err);
	if (!r.all) {
		complain("%s: is no archive and has no records", path);
		return EXIT_ERROR;
	}
	matching = r.shown;
	r.shown = 0;
	if (!matching && pattern_count) {
		complain("%s: no record matches", path);
		return EXIT_NO;
	}
	return json ? print_json(model, &r, json) : print_table(model, &r);
}

/* ---- info ---- */

enum { SHOWN_NAMES = 4 };

struct kinds {
	struct {
		uint64_t count, nbytes;
	} of[KINDS];
	char extra[SHOWN_NAMES][80]; /* the first names, escaped */
};

static int count_record(void *ctx, const struct ckpt_record *record)
{
	struct kinds *k = ctx;
	unsigned kind = (unsigned)record->kind < KINDS ? (unsigned)record->kind : CKPT_RECORD_OTHER;
	const char *slash = strchr(record->name, '/');
	uint64_t n = k->of[kind].count++;

	k->of[kind].nbytes = sum(k->of[kind].nbytes, record->nbytes);
	if (kind == CKPT_RECORD_EXTRA && n < SHOWN_NAMES) {
		const char *name = slash ? slash + 1 : record->name; /* of extra/NAME */

		ckpt_escape(k->extra[n], sizeof(k->extra[n]), name, strlen(name));
	}
	return 0;
}

int print_record_kinds(const struct ckpt_model *model, struct ckpt_error *err)
{
	struct kinds k = { 0 };
	int rc = ckpt_each_record(model, count_record, &k, err);
	char count[32], size[16];
	uint64_t n;

	n = k.of[CKPT_RECORD_CODE].count;
	if (rc == 0 && n)
		printf("%-12s%s file%s, %s\n", "code", grouped(n, count), plural(n),
		       size_phrase(k.of[CKPT_RECORD_CODE].nbytes, size));
	n = k.of[CKPT_RECORD_EXTRA].count;
	if (rc < 0 || !n)
		return rc;
	printf("%-12s%s file%s, %s:", "extra", grouped(n, count), plural(n),
	       size_phrase(k.of[CKPT_RECORD_EXTRA].nbytes, size));
	for (uint64_t i = 0; i < n && i < SHOWN_NAMES; i++)
		printf("%s %s", i ? "," : "", k.extra[i]);
	puts(n > SHOWN_NAMES ? " ..." : "");
	return 0;
}

int record_kinds_json(const struct ckpt_model *model, json_t **out, struct ckpt_error *err)
{
	struct kinds k = { 0 };
	json_t *object;
	int rc = ckpt_each_record(model, count_record, &k, err);

	*out = NULL;
	if (rc < 0)
		return rc;
	object = json_object();
	for (size_t i = 0; i < KINDS; i++)
		if (k.of[i].count)
			json_object_set_new(object, kind_names[i],
					    json_pack("{s:o,s:o}", "records",
						      json_u64(k.of[i].count), "nbytes",
						      json_u64(k.of[i].nbytes)));
	*out = object;
	return 0;
}
