/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several checkpoints in one archive: opening the only one, and listing them for 'ckpt ls' and 'info'.
 */
#include "inner.h"

#include "command.h"
#include "edit.h"
#include "json.h"
#include "many_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct inner_rows {
	bool exact_bytes;
	FILE *json; /* NULL: a table */
	int width;  /* of the names */
	uint64_t shown, checkpoints, archives;
	uint64_t nbytes, stored;
};

static int measure_inner(void *ctx, const struct ckpt_inner *inner)
{
	static const size_t most = 60;
	struct inner_rows *r = ctx;
	char name[1024];
	size_t len = strlen(ckpt_escape(name, sizeof(name), inner->name, strlen(inner->name)));

	len = len > most ? most : len;
	if ((int)len > r->width)
		r->width = (int)len;
	if (inner->kind && strcmp(inner->kind, "zip archive") != 0)
		r->checkpoints++;
	r->archives += inner->kind && !strcmp(inner->kind, "zip archive");
	return 0;
}

bool open_model_or_archive(const char *in, unsigned flags, struct ckpt_model **out,
			   bool *is_archive, int *code)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct inner_rows r = { 0 };

	*is_archive = false;
	*code = refuse_names(in, "OUT");
	if (*code != EXIT_FINE)
		return false;
	if (ckpt_open_with(in, flags, out, &err) == 0) {
		if (ckpt_list_tensors(*out, &err) == 0)
			return true;
		ckpt_close(*out);
	}
	if (err.status == CKPT_E_UNSUPPORTED && ckpt_each_inner(in, measure_inner, &r, NULL) == 0)
		*is_archive = r.checkpoints || r.archives;
	*code = *is_archive ? EXIT_FINE : fail(&err);
	if (!*is_archive)
		hint_repair(in, &err);
	return false;
}

static const char *size_of(const struct inner_rows *r, uint64_t nbytes, char text[32])
{
	return r->exact_bytes ? grouped(nbytes, text) : human_size(nbytes, text);
}

static void print_row(const struct inner_rows *r, const struct ckpt_inner *inner)
{
	char name[1024], size[32], number[32];

	ckpt_escape(name, sizeof(name), inner->name, strlen(inner->name));
	printf("%-*s  %6s", r->width, name, size_of(r, inner->nbytes, size));
	if (inner->kind)
		printf("  %s", inner->kind);
	if (inner->kind && strcmp(inner->kind, "zip archive") != 0)
		printf(", %s tensor%s", grouped(inner->tensors, number), plural(inner->tensors));
	if (inner->stored != inner->nbytes)
		printf("%s compressed to %s", inner->kind ? "," : " ",
		       size_of(r, inner->stored, size));
	putchar('\n');
}

static void put_row(const struct inner_rows *r, const struct ckpt_inner *inner)
{
	json_t *o = json_object();

	json_set_name(o, "name", inner->name);
	json_object_set_new(o, "kind", inner->kind ? json_string(inner->kind) : json_null());
	json_object_set_new(o, "nbytes", json_u64(inner->nbytes));
	json_object_set_new(o, "stored", json_u64(inner->stored));
	json_object_set_new(o, "tensors", json_u64(inner->tensors));
	fputs(r->shown ? ",\n" : "\n", r->json);
	json_put(r->json, o);
}

static int show_inner(void *ctx, const struct ckpt_inner *inner)
{
	struct inner_rows *r = ctx;

	if (r->json)
		put_row(r, inner);
	else
		print_row(r, inner);
	r->shown++;
	r->nbytes = sum(r->nbytes, inner->nbytes);
	r->stored = sum(r->stored, inner->stored);
	return 0;
}

static int print_table(const char *path, bool with_head, struct inner_rows *r,
		       struct ckpt_error *err)
{
	char number[32], size[32], shown[1024];

	if (one_of_many) {
		printf("zip archive with %s checkpoint%s inside\n", grouped(r->checkpoints, number),
		       plural(r->checkpoints));
		return finish_output(EXIT_FINE);
	}
	if (with_head)
		printf("%-12s%s\n%-12szip archive with %s checkpoint%s inside\n", "file",
		       ckpt_escape(shown, sizeof(shown), path, strlen(path)), "format",
		       grouped(r->checkpoints, number), plural(r->checkpoints));
	if (ckpt_each_inner(path, show_inner, r, err) < 0)
		return fail(err);
	if (!quiet)
		printf("%s file%s in a zip archive, %s; ARCHIVE::NAME is one of them\n",
		       grouped(r->shown, number), plural(r->shown), size_of(r, r->nbytes, size));
	return finish_output(EXIT_FINE);
}

static int print_json(const char *path, const char *command, struct inner_rows *r,
		      const char *target, struct ckpt_error *err)
{
	int rc;

	r->json = json_open(target);
	if (!r->json)
		return EXIT_ERROR;
	fprintf(r->json, "{\"ckpt_json\":%d,\"command\":\"%s\",\"files\":[", JSON_VERSION, command);
	rc = ckpt_each_inner(path, show_inner, r, err);
	fprintf(r->json, "\n],\"count\":%" PRIu64 ",\"nbytes\":", r->shown);
	json_put(r->json, json_u64(r->nbytes));
	fputs(",\"stored\":", r->json);
	json_put(r->json, json_u64(r->stored));
	fputs("}\n", r->json);
	if (rc < 0)
		fail(err);
	return json_close(r->json, rc == 0) == EXIT_FINE && rc == 0 ? EXIT_FINE : EXIT_ERROR;
}

int list_inner(const char *path, const char *command, bool exact_bytes, const char *json)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct inner_rows r = { .exact_bytes = exact_bytes };

	if (ckpt_each_inner(path, measure_inner, &r, &err) < 0)
		return fail(&err);
	return json ? print_json(path, command, &r, json, &err)
		    : print_table(path, !strcmp(command, "info"), &r, &err);
}
