/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"
#include "scan_out.h"

#include <inttypes.h>

static void set_place(json_t *o, const char *record, uint64_t offset)
{
	if (*record)
		json_set_name(o, "record", record);
	if (offset != CKPT_NO_OFFSET)
		json_object_set_new(o, "offset", json_u64(offset));
}

static void put_item(FILE *out, json_t *o, bool first)
{
	fputs(first ? "\n" : ",\n", out);
	json_put(out, o);
}

static void put_globals(FILE *out, const struct ckpt_scan_file *f)
{
	fputs(",\"globals\":[", out);
	for (uint64_t i = 0; i < f->global_count; i++) {
		const struct ckpt_scan_global *g = &f->globals[i];
		json_t *o = json_object();

		json_set_name(o, "name", g->name);
		json_object_set_new(o, "kind", json_string(ckpt_scan_kind_name(g->kind)));
		json_object_set_new(o, "called", json_boolean(g->called));
		json_set_name(o, "where", g->where);
		json_object_set_new(o, "offset", json_u64(g->offset));
		put_item(out, o, !i);
	}
	fputs("]", out);
}

static void put_findings(FILE *out, const struct ckpt_scan_file *f)
{
	fputs(",\"findings\":[", out);
	for (uint64_t i = 0; i < f->finding_count; i++) {
		const struct ckpt_scan_finding *x = &f->findings[i];
		json_t *o = json_object();

		json_object_set_new(o, "verdict", json_string(ckpt_scan_verdict_name(x->verdict)));
		json_object_set_new(o, "kind", json_string(x->kind));
		set_place(o, x->record, x->offset);
		if (x->path)
			json_set_name(o, "path", x->path);
		json_set_name(o, "text", x->text);
		put_item(out, o, !i);
	}
	fputs("]", out);
}

static json_t *versions_of(unsigned bits)
{
	json_t *versions = json_array();

	for (int v = 0; v < CKPT_SCAN_TORCH_COUNT; v++)
		if (bits & 1u << v)
			json_array_append_new(versions, json_string(ckpt_scan_torch_name(v)));
	return versions;
}

static void put_refusals(FILE *out, const struct ckpt_scan_file *f)
{
	fputs(",\"refusals\":[", out);
	for (uint64_t i = 0; i < f->refusal_count; i++) {
		const struct ckpt_scan_refusal *x = &f->refusals[i];
		json_t *o = json_object();

		json_object_set_new(o, "versions", versions_of(x->versions));
		if (x->name)
			json_set_name(o, "name", x->name);
		set_place(o, x->record, x->offset);
		json_set_name(o, "text", x->text);
		put_item(out, o, !i);
	}
	fputs("]", out);
}

static void put_weights_only(FILE *out, const struct ckpt_scan_file *f)
{
	json_t *o = json_object();

	for (int i = 0; i < CKPT_SCAN_TORCH_COUNT; i++)
		json_object_set_new(o, ckpt_scan_torch_name(i),
				    f->is_torch && !(f->weights_only_unknown >> i & 1)
					    ? json_boolean(f->weights_only[i])
					    : json_null());
	fputs(",\"weights_only\":", out);
	json_put(out, o);
}

/* {"path":..., "verdict":..., without the end */
static void put_head(FILE *out, const char *path, enum ckpt_scan_verdict verdict,
		     const char *format, bool first)
{
	json_t *o = json_object();

	json_set_name(o, "path", path);
	json_object_set_new(o, "verdict", json_string(ckpt_scan_verdict_name(verdict)));
	if (format)
		json_object_set_new(o, "format", json_string(format));
	fputs(first ? "\n{" : ",\n{", out);
	json_put_members(out, o);
}

void scan_json_begin(FILE *out)
{
	fprintf(out, "{\"ckpt_json\":%d,\"command\":\"scan\",\"version\":%d,\"loaders\":[", JSON_VERSION, JSON_VERSION);
	for (unsigned i = 0; ckpt_scan_loader(i); i++)
		fprintf(out, "%s\"%s\"", i ? "," : "", ckpt_scan_loader(i));
	fputs("],\"files\":[", out);
}

void scan_json_file(FILE *out, const struct ckpt_scan_file *f, bool first)
{
	put_head(out, f->path, f->verdict, f->format, first);
	fprintf(out, ",\"nbytes\":%" PRIu64, f->bytes);
	put_weights_only(out, f);
	put_globals(out, f);
	put_findings(out, f);
	if (f->is_torch)
		put_refusals(out, f);
	if (f->left_out)
		fprintf(out, ",\"left_out\":%" PRIu64, f->left_out);
	fputs("}", out);
}

void scan_json_failed(FILE *out, const char *path, const char *text, bool first)
{
	put_head(out, path, CKPT_SCAN_UNREADABLE, NULL, first);
	fputs(",\"error\":", out);
	json_put(out, json_string(text));
	fputs("}", out);
}

void scan_json_end(FILE *out, const uint64_t *counts, uint64_t passed_over, bool whole)
{
	fputs("\n],\"counts\":{", out);
	for (int i = 0; i <= CKPT_SCAN_DANGEROUS; i++)
		fprintf(out, "\"%s\":%" PRIu64 ",", ckpt_scan_verdict_name(i), counts[i]);
	fprintf(out, "\"passed_over\":%" PRIu64 "}%s}\n", passed_over, whole ? "" : ",\"interrupted\":true");
}
