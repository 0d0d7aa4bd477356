/* SPDX-License-Identifier: Apache-2.0 */
/* Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0. */
#include "json.h"
#include "scan_out.h"

#include <string.h>

static const struct {
	const char *level, *text;
} rules[] = {
	[CKPT_SCAN_PLAIN] = { "none", "tensors, containers, numbers and texts" },
	[CKPT_SCAN_NEEDS_OBJECTS] = { "note", "a load runs code of packages with data of the file, or compiles a program in it: as safe as that code is with hostile data" },
	[CKPT_SCAN_UNREADABLE] = { "warning", "not decided: damaged, cut off, or not looked into" },
	[CKPT_SCAN_INCONSISTENT] = { "error", "two readers would see different files" },
	[CKPT_SCAN_DANGEROUS] = { "error", "a load runs code that the file chose" },
};

/* A path as a reference, in which %XX stands for every byte that a reference cannot have. */
static json_t *uri_of(const char *path)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	char *uri = malloc(3 * strlen(path) + 8);
	size_t used = 0;
	json_t *text;

	if (!uri)
		no_memory();
	if (*path == '/')
		used = (size_t)sprintf(uri, "file://");
	for (; *path; path++)
		if (strchr(plain, *path))
			uri[used++] = *path;
		else
			used += (size_t)sprintf(uri + used, "%%%02X", (unsigned char)*path);
	uri[used] = '\0';
	text = json_string(uri);
	free(uri);
	return text;
}

static json_t *text_of(const char *text)
{
	json_t *o = json_object(), *name = json_object();

	json_set_name(name, "text", text); /* may be no UTF-8 */
	json_object_set(o, "text", json_object_get(name, "text"));
	json_decref(name);
	return o;
}

/* Offsets in a record are not offsets in the file, so they go beside its name. */
static json_t *location_of(const char *path, const char *record, uint64_t offset)
{
	json_t *location = json_object(), *physical = json_object(), *artifact = json_object(),
	       *region = json_object(), *logical = json_object(), *list = json_array();
	char name[1400];

	json_object_set_new(artifact, "uri", uri_of(path));
	json_object_set_new(physical, "artifactLocation", artifact);
	if (!*record && offset != CKPT_NO_OFFSET) {
		json_object_set_new(region, "byteOffset", json_u64(offset));
		json_object_set_new(region, "byteLength", json_integer(1));
		json_object_set_new(physical, "region", region);
	} else {
		json_decref(region);
	}
	json_object_set_new(location, "physicalLocation", physical);
	if (offset != CKPT_NO_OFFSET)
		snprintf(name, sizeof(name), "%s+0x%llx", record, (unsigned long long)offset);
	else
		snprintf(name, sizeof(name), "%s", record);
	if (*record) {
		json_set_name(logical, "fullyQualifiedName", name);
		json_array_append(list, logical);
		json_object_set(location, "logicalLocations", list);
	}
	json_decref(logical);
	json_decref(list);
	return location;
}

static void put_result(FILE *out, const char *path, enum ckpt_scan_verdict verdict,
		       const char *record, uint64_t offset, const char *text, bool *first)
{
	json_t *o = json_object(), *locations = json_array();

	json_array_append_new(locations, location_of(path, record, offset));
	json_object_set_new(o, "ruleId", json_string(ckpt_scan_verdict_name(verdict)));
	json_object_set_new(o, "ruleIndex", json_integer(verdict));
	json_object_set_new(o, "level", json_string(rules[verdict].level));
	json_object_set_new(o, "message", text_of(text));
	json_object_set_new(o, "locations", locations);
	fputs(*first ? "\n" : ",\n", out);
	*first = false;
	json_put(out, o);
}

void scan_sarif_begin(FILE *out)
{
	fprintf(out,
		"{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\"runs\":[{"
		"\"tool\":{\"driver\":{\"name\":\"ckpt scan\",\"version\":\"%s\",\"rules\":[",
		ckpt_version());
	for (int i = 0; i <= CKPT_SCAN_DANGEROUS; i++) {
		json_t *o = json_object(), *configuration = json_object();

		json_object_set_new(o, "id", json_string(ckpt_scan_verdict_name(i)));
		json_object_set_new(o, "shortDescription", text_of(rules[i].text));
		json_object_set_new(configuration, "level", json_string(rules[i].level));
		json_object_set_new(o, "defaultConfiguration", configuration);
		fputs(i ? ",\n" : "\n", out);
		json_put(out, o);
	}
	fputs("\n]}},\"results\":[", out);
}

void scan_sarif_file(FILE *out, const struct ckpt_scan_file *f, bool *first)
{
	char text[1400];

	for (uint64_t i = 0; i < f->finding_count; i++)
		if (f->findings[i].verdict != CKPT_SCAN_PLAIN)
			put_result(out, f->path, f->findings[i].verdict, f->findings[i].record,
				   f->findings[i].offset, f->findings[i].text, first);
	for (uint64_t i = 0; i < f->global_count; i++) {
		const struct ckpt_scan_global *g = &f->globals[i];

		if (g->kind != CKPT_SCAN_OBJECT)
			continue;
		snprintf(text, sizeof(text), "imports %s%s", g->name,
			 g->called ? " and calls it" : "");
		put_result(out, f->path, CKPT_SCAN_NEEDS_OBJECTS, g->where, g->offset, text, first);
	}
}

void scan_sarif_end(FILE *out, bool whole)
{
	fputs(whole ? "\n]}]}\n" : "\n],\"invocations\":[{\"executionSuccessful\":false}]}]}\n", out);
}
