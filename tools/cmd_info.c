/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt info': one page, or one document, about a file.
 *
 * What must stay true: it reads only metadata, whatever the size of the file. dtypes and devices
 * are counted by sorting one entry for each tensor: a hostile file may have as many kinds as
 * tensors, and a list of kinds to search for each tensor would make that quadratic.
 */
#include "command.h"
#include "inner.h"
#include "json.h"
#include "many_files.h"
#include "parts.h"
#include "terminal.h"
#include "records.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *json;
static bool all_items;

static const struct opt opts[] = {
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not a page"),
	OPT_FLAG("all", 'a', &all_items, "list all top-level entries, not only the first 24"),
	JOBS_OPT,
	OPT_FLAG("quiet", 'q', &quiet, "print no totals of several IN"),
	NAME_SKIPPED_OPT,
	SPOOL_OPT,
	OPT_END
};

static int run_info(int argc, char **argv);

const struct command cmd_info = {
	.name = "info",
	.operands = "IN [IN...]",
	.summary = "show a file on one screen: format, writer, sizes, dtypes, devices, contents",
	.details = "info reads only the metadata, whatever the size of the file. Of several IN it\n"
		   "prints one line each; with --all their pages, with the name of IN in front of\n"
		   "each line.\n" MANY_FILES,
	.examples = "  ckpt info model.pt\n"
		    "  ckpt info runs/ --jobs 8\n",
	.opts = opts,
	.least = 1,
	.most = -1,
	.run = run_info,
};

enum { SHOWN_KINDS = 16, SHOWN_ITEMS = 24 };

struct kind {
	const char *text;
	uint64_t first, count, nbytes; /* first: number of the first tensor that has it */
};

/* How often each text occurs, in order of first occurrence. */
struct tally {
	struct kind *kinds;
	size_t used;
};

struct summary {
	struct ckpt_file_info file;
	struct tally dtypes, devices;
	uint64_t tensors, elements, nbytes;
	const struct ckpt_model *model;
	struct ckpt_parts *parts; /* owned; NULL: of a line that has no room for them */
	struct ckpt_quant
		*quant; /* owned; NULL: nothing is quantized, or nothing that can be read */
	char why_no_quant[1024]; /* what says to be quantized, and is not; empty: nothing */
};

static int by_text(const void *a, const void *b)
{
	const struct kind *x = a, *y = b;
	int order = strcmp(x->text, y->text);

	return order ? order : (x->first > y->first) - (x->first < y->first);
}

static int by_first(const void *a, const void *b)
{
	const struct kind *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/*
 * Merge one kind per tensor into one per text. This sorts, for a file may have as many kinds as
 * tensors.
 */
static void merge(struct tally *t)
{
	size_t last = 0;

	if (!t->used)
		return;
	qsort(t->kinds, t->used, sizeof(*t->kinds), by_text);
	for (size_t i = 1; i < t->used; i++) {
		if (strcmp(t->kinds[i].text, t->kinds[last].text)) {
			t->kinds[++last] = t->kinds[i];
			continue;
		}
		t->kinds[last].count += t->kinds[i].count;
		t->kinds[last].nbytes = sum(t->kinds[last].nbytes, t->kinds[i].nbytes);
	}
	t->used = last + 1;
	qsort(t->kinds, t->used, sizeof(*t->kinds), by_first);
}

static void clear_summary(struct summary *s)
{
	free(s->dtypes.kinds);
	free(s->devices.kinds);
	ckpt_parts_free(s->parts);
	ckpt_quant_close(s->quant);
}

/* One more tensor, which very often has the kind of the one before it. */
static void count_kind(struct tally *t, const char *text, uint64_t tensor, uint64_t nbytes)
{
	struct kind *last = t->used ? &t->kinds[t->used - 1] : NULL;

	if (!last || strcmp(last->text, text)) {
		t->kinds[t->used++] = (struct kind){ text, tensor, 1, nbytes };
		return;
	}
	last->count++;
	last->nbytes = sum(last->nbytes, nbytes);
}

static bool summarise(struct summary *s)
{
	char *seen = calloc(ckpt_storage_count(s->model) + 1, 1);

	s->tensors = ckpt_tensor_count(s->model);
	s->nbytes = ckpt_storage_bytes(s->model);
	s->dtypes.kinds = calloc(s->tensors + 1, sizeof(struct kind));
	s->devices.kinds = calloc(s->tensors + 1, sizeof(struct kind));
	if (!seen || !s->dtypes.kinds || !s->devices.kinds) {
		free(seen);
		return false;
	}
	for (uint64_t i = 0; i < s->tensors; i++) {
		struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

		ckpt_tensor_get(s->model, i, &t);
		count_kind(&s->dtypes, t.dtype, i, t.nbytes);
		count_kind(&s->devices, t.device, i, t.nbytes);
		if (t.storage < 0 || !seen[t.storage])
			s->elements = sum(s->elements, t.numel);
		if (t.storage >= 0)
			seen[t.storage] = 1;
	}
	free(seen);
	merge(&s->dtypes);
	merge(&s->devices);
	return true;
}

/* ---- page ---- */

static void print_tally(const char *label, const struct tally *t)
{
	char size[16], shown[80];

	if (!t->used)
		return;
	printf("%-12s", label);
	for (size_t i = 0; i < t->used && i < SHOWN_KINDS; i++)
		printf("%s%s (%" PRIu64 ", %s)", i ? ", " : "",
		       ckpt_escape(shown, sizeof(shown), t->kinds[i].text,
				   strlen(t->kinds[i].text)),
		       t->kinds[i].count, human_size(t->kinds[i].nbytes, size));
	if (t->used > SHOWN_KINDS)
		printf(", and %zu more", t->used - SHOWN_KINDS);
	putchar('\n');
}

static const char *const known_prefixes[] = { "module.", "_orig_mod.", "model.", "_forward_module.",
					      "_fsdp_wrapped_module." };
enum { KNOWN_PREFIXES = sizeof(known_prefixes) / sizeof(known_prefixes[0]) };

/* A count that fails for want of memory must not look like a count of zero. */
static void count_prefixes(const struct ckpt_model *model, struct ckpt_prefix_count counts[])
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	for (size_t i = 0; i < KNOWN_PREFIXES; i++)
		counts[i] = (struct ckpt_prefix_count)CKPT_PREFIX_COUNT_INIT;
	if (ckpt_count_prefixes(model, known_prefixes, KNOWN_PREFIXES, counts, &err) ==
	    CKPT_E_NOMEM)
		no_memory();
}

static int copy_plain(void *ctx, const struct ckpt_plain_model *plain)
{
	struct ckpt_plain_model *p = ctx;

	p->is_adapter = plain->is_adapter;
	p->is_zero_part = plain->is_zero_part;
	return 0;
}

static void print_adapter(const struct summary *s)
{
	struct ckpt_plain_model plain = { .size = sizeof(plain) };

	if (ckpt_why_plain(s->model, copy_plain, &plain, NULL) < 0)
		return;
	if (plain.is_zero_part)
		printf("part        of a DeepSpeed ZeRO-3 directory: one rank's file, in which the weights are empty; 'ckpt merge DIR OUT' makes them whole\n");
	if (plain.is_adapter)
		printf("adapter     by its names (LoRA): it is added to a base model, which ckpt does not do, but PEFT: merge_and_unload()\n");
}

static void print_prefixes(const struct summary *s)
{
	struct ckpt_prefix_count counts[KNOWN_PREFIXES];
	bool any = false;

	count_prefixes(s->model, counts);
	for (size_t i = 0; i < KNOWN_PREFIXES; i++) {
		if (!counts[i].with_prefix)
			continue;
		printf("%-12s%s on %" PRIu64 " of %" PRIu64 " keys\n", any ? "" : "prefix",
		       known_prefixes[i], counts[i].with_prefix, counts[i].keys);
		any = true;
	}
}

/* Lines of a list, which --all prints all of. */
struct line_count {
	uint64_t shown, hidden;
	uint64_t tensors; /* that 'ls' lists */
};

static void print_root(const struct ckpt_item *item)
{
	if (item->kind == CKPT_ITEM_TENSOR)
		printf("%-12stensor\n", "root");
	else if (item->module)
		printf("%-12s%s, a module\n", "root", item->type);
	else if (item->kind == CKPT_ITEM_CONTAINER)
		printf("%-12s%s of %" PRIu64 "\n", "root", item->type, item->count);
	else
		printf("%-12s%.160s\n", "root", item->text);
}

static int print_item(void *ctx, const struct ckpt_item *item)
{
	struct line_count *p = ctx;
	char name[80], line[160];

	if (item->depth == 0) {
		print_root(item);
		return 1;
	}
	if (item->kind == CKPT_ITEM_TENSOR) {
		p->tensors++;
		return 0;
	}
	if (!all_items && p->shown == SHOWN_ITEMS) {
		p->hidden++;
		return 0;
	}
	p->shown++;
	ckpt_escape(name, sizeof(name), item->name, strlen(item->name));
	if (item->kind == CKPT_ITEM_CONTAINER && strchr("[({", item->text[0]) && item->text[0])
		snprintf(line, sizeof(line), "%.110s", item->text);
	else if (item->module)
		snprintf(line, sizeof(line), "%.80s, a module", item->type);
	else if (item->kind == CKPT_ITEM_CONTAINER)
		snprintf(line, sizeof(line), "%.80s of %" PRIu64, item->type, item->count);
	else
		snprintf(line, sizeof(line), "%.110s", item->text);
	shorten(name, fit_name((int)text_columns(name), 40));
	shorten(line, fit_name((int)text_columns(line), 25));
	printf("  %-22s %s\n", name, line);
	return 0;
}

static void print_directory(const struct summary *s, const char *path)
{
	const struct ckpt_file_info *f = &s->file;
	char size[16], about[24], name[200], items[48] = "", a[32], b[32];

	printf("%-12s%s\n", "directory", ckpt_escape(name, sizeof(name), path, strlen(path)));
	printf("%-12s%s, as %s writes it\n", "format", f->format, f->writer);
	snprintf(about, sizeof(about), " (%s)", human_size(f->file_nbytes, size));
	if (f->record_count)
		snprintf(items, sizeof(items), "%s item%s in ", grouped(f->record_count, b),
			 plural(f->record_count));
	printf("%-12s%s bytes%s, %s%u data file%s\n", "size", grouped(f->file_nbytes, a),
	       f->file_nbytes < 1000 ? "" : about, items, f->file_count, plural(f->file_count));
	if (f->pickle_protocol && f->record_count)
		printf("%-12spickle of %s bytes, protocol %u\n", "index",
		       grouped(f->pickle_nbytes, a), f->pickle_protocol);
	else if (f->pickle_protocol)
		printf("%-12s%s bytes in all\n", "pickles", grouped(f->pickle_nbytes, a));
	else if (f->pickle_nbytes)
		printf("%-12sJSON of %s bytes\n", "index", grouped(f->pickle_nbytes, a));
}

static int print_pair(void *ctx, const char *key, size_t key_len, const char *value,
		      size_t value_len)
{
	struct line_count *p = ctx;
	char name[100], text[120];

	if (!all_items && p->shown == SHOWN_ITEMS) {
		p->hidden++;
		return 0;
	}
	printf("%-12s%s = %s\n", p->shown++ ? "" : "metadata",
	       ckpt_escape(name, sizeof(name), key, key_len),
	       ckpt_escape(text, sizeof(text), value, value_len));
	return 0;
}

static int print_metadata(const struct ckpt_model *model, struct ckpt_error *err)
{
	struct line_count pairs = { 0 };
	int rc = ckpt_each_metadata(model, print_pair, &pairs, err);

	if (pairs.hidden)
		printf("%-12s... %" PRIu64 " more (--all shows them)\n", "", pairs.hidden);
	return rc;
}

static void print_note(void *ctx, const char *text)
{
	(void)ctx;
	printf("%-12s%s\n", "note", text);
}

static void print_file(const struct summary *s, const char *path)
{
	const struct ckpt_file_info *f = &s->file;
	char size[16], about[24], name[200], a[32], b[32], aligned[40];

	printf("%-12s%s\n", "file", ckpt_escape(name, sizeof(name), path, strlen(path)));
	printf("%-12s%s", "format", f->format);
	printf(strcmp(f->format, f->writer) ? ", as %s writes it\n" : "\n", f->writer);
	snprintf(about, sizeof(about), " (%s)", human_size(f->file_nbytes, size));
	printf("%-12s%s bytes%s", "size", grouped(f->file_nbytes, a),
	       f->file_nbytes < 1000 ? "" : about);
	if (f->archive_name[0])
		printf(", %s record%s in '%s/'", grouped(f->record_count, b),
		       plural(f->record_count),
		       ckpt_escape(name, sizeof(name), f->archive_name, strlen(f->archive_name)));
	putchar('\n');
	snprintf(aligned, sizeof(aligned), f->alignment ? "data aligned to %u" : "data not aligned",
		 f->alignment);
	printf("%-12s", "layout");
	if (f->pickle_nbytes)
		printf("pickle of %s bytes, protocol %u; ", grouped(f->pickle_nbytes, a),
		       f->pickle_protocol);
	printf("%s; %s; byte order %s\n", aligned, f->has_crc ? "CRC-32 recorded" : "no checksums",
	       f->byteorder[0] ? f->byteorder : "not said");
	if (f->version)
		printf("%-12sversion %u\n", "operators", f->version);
	if (f->compressed)
		printf("%-12s%u storage%s compressed: mmap=True would load garbage; 'ckpt convert' mends "
		       "that\n",
		       "warning", f->compressed, f->compressed == 1 ? " is" : "s are");
	if (f->unreferenced)
		printf("%-12s%u storage record%s used by no tensor\n", "note", f->unreferenced,
		       f->unreferenced == 1 ? " is" : "s are");
	if (f->dead_nbytes)
		printf("%-12s%s, of which the disk has %s: edits in place left them, 'ckpt compact' leaves them out\n",
		       "dead bytes", human_size(f->dead_nbytes, a),
		       f->dead_on_disk ? size_phrase(f->dead_on_disk, b) : "none");
	if (f->foreign)
		printf("%-12s%u record%s not torch.save's\n", "note", f->foreign,
		       f->foreign == 1 ? " is" : "s are");
}

/* ---- quantized weights ---- */

enum { MOST_SCHEMES = 8 };

struct scheme {
	const char *text;
	uint64_t weights, numel, nbytes;
};

/* The schemes of the weights of QUANT, and how many there are; the last one takes what is too many. */
static size_t count_schemes(const struct ckpt_quant *quant, struct scheme *schemes, uint64_t *parts)
{
	size_t used = 0;

	*parts = 0;
	for (uint64_t i = 0; i < ckpt_quant_count(quant); i++) {
		struct ckpt_quant_weight_info w = CKPT_QUANT_WEIGHT_INFO_INIT;
		size_t k = 0;

		ckpt_quant_get(quant, i, &w);
		while (k < used && k + 1 < MOST_SCHEMES && strcmp(schemes[k].text, w.scheme) != 0)
			k++;
		if (k == used)
			schemes[used++] = (struct scheme){ .text = w.scheme };
		else if (strcmp(schemes[k].text, w.scheme) != 0)
			schemes[k].text = "other schemes";
		schemes[k].weights++;
		schemes[k].numel += w.numel;
		schemes[k].nbytes += w.nbytes;
		*parts += w.parts;
	}
	return used;
}

/* Fills QUANT and WHY_NO_QUANT. Memory that runs out says nothing of the file, and is the error. */
static int find_quantized(struct summary *s, struct ckpt_error *err)
{
	struct ckpt_error why = CKPT_ERROR_INIT;
	int rc = ckpt_quant_open(s->model, NULL, &s->quant, &why);

	if (rc == CKPT_E_NOMEM || rc == CKPT_E_CANCELLED) {
		*err = why;
		return rc;
	}
	if (rc < 0 && rc != CKPT_E_NOTFOUND)
		ckpt_error_format(&why, s->why_no_quant, sizeof(s->why_no_quant));
	return 0;
}

static void print_quantized(const struct summary *s)
{
	struct scheme schemes[MOST_SCHEMES];
	const struct ckpt_quant *quant = s->quant;
	uint64_t parts, whole;
	size_t count;
	char a[32], bits[32];

	if (s->why_no_quant[0])
		printf("%-12s%s\n", "quantized?", s->why_no_quant);
	if (!quant)
		return;
	count = count_schemes(quant, schemes, &parts);
	for (size_t i = 0; i < count; i++) {
		const struct scheme *c = &schemes[i];

		printf("%-12s%s weight%s: %s; %s bits a number\n", i ? "" : "quantized", grouped(c->weights, a),
		       plural(c->weights), c->text,
		       number_text(bits, sizeof(bits), "%.2f", c->numel ? (double)c->nbytes * 8 / (double)c->numel : 0.0));
	}
	whole = ckpt_tensor_count(s->model) - parts;
	printf("%-12sas %s has it; %s other tensor%s ('ckpt cast --dequantize bf16' makes plain weights)\n",
	       "", ckpt_quant_format(quant), grouped(whole, a), plural(whole));
}

/* { "format": ..., "schemes": [...], ... }, null, or { "error": ... } */
static json_t *quantized_json(const struct summary *s)
{
	struct scheme schemes[MOST_SCHEMES];
	const struct ckpt_quant *quant = s->quant;
	json_t *object = json_object(), *list = json_array();
	uint64_t parts;
	size_t count = quant ? count_schemes(quant, schemes, &parts) : 0;

	if (!quant) {
		json_decref(list);
		if (s->why_no_quant[0])
			json_set_name(object, "error", s->why_no_quant);
		else
			json_decref(object);
		return s->why_no_quant[0] ? object : json_null();
	}
	json_set_name(object, "format", ckpt_quant_format(quant));
	for (size_t i = 0; i < count; i++) {
		json_t *scheme = json_object();

		json_set_name(scheme, "scheme", schemes[i].text);
		json_object_set_new(scheme, "weights", json_u64(schemes[i].weights));
		json_object_set_new(scheme, "numbers", json_u64(schemes[i].numel));
		json_object_set_new(scheme, "nbytes", json_u64(schemes[i].nbytes));
		json_array_append_new(list, scheme);
	}
	json_object_set_new(object, "schemes", list);
	json_object_set_new(object, "other_tensors", json_u64(ckpt_tensor_count(s->model) - parts));
	return object;
}

static int print_page(const struct summary *s, const char *path, struct ckpt_error *err)
{
	struct line_count page = { 0 };
	char a[32], b[32], size[16];
	int rc;

	if (s->file.file_count)
		print_directory(s, path);
	else
		print_file(s, path);
	rc = print_record_kinds(s->model, err);
	if (rc == 0)
		rc = print_metadata(s->model, err);
	if (rc == 0)
		rc = ckpt_tell_state(s->model, print_note, NULL, err);
	if (rc < 0)
		return rc;
	printf("%-12s%s, %s element%s, %s in %" PRIu64 " storage%s\n", "tensors",
	       grouped(s->tensors, a), grouped(s->elements, b), plural(s->elements),
	       size_phrase(s->nbytes, size), ckpt_storage_count(s->model),
	       plural(ckpt_storage_count(s->model)));
	print_parts(s->parts);
	print_tally("dtypes", &s->dtypes);
	print_tally("devices", &s->devices);
	print_quantized(s);
	print_adapter(s);
	print_prefixes(s);
	rc = ckpt_walk(s->model, print_item, &page, err);
	if (page.hidden)
		printf("  ... %" PRIu64 " more (--all shows them)\n", page.hidden);
	if (page.tensors)
		printf("  and %s tensor%s ('ckpt ls' lists %s)\n", grouped(page.tensors, a),
		       plural(page.tensors), page.tensors == 1 ? "it" : "them");
	return rc;
}

/* ---- JSON ---- */

static json_t *tally_json(const struct tally *t)
{
	json_t *object = json_object();

	for (size_t i = 0; i < t->used; i++) {
		const struct kind *k = &t->kinds[i];
		size_t len = strlen(k->text), size = 4 * len + 8; /* escaped in full */
		char *shown = malloc(size);

		if (!shown)
			no_memory();
		json_object_set_new(object, ckpt_escape(shown, size, k->text, len),
				    json_pack("{s:I,s:o}", "tensors", (json_int_t)k->count,
					      "nbytes", json_u64(k->nbytes)));
		free(shown);
	}
	return object;
}

static json_t *file_json(const struct ckpt_file_info *f)
{
	json_t *o = json_object();

	json_object_set_new(o, "format", json_string(f->format));
	json_object_set_new(o, "writer", json_string(f->writer));
	json_object_set_new(o, "profile", json_string(f->profile));
	json_set_name(o, "archive_name", f->archive_name);
	json_object_set_new(o, "byteorder", json_string(f->byteorder));
	json_object_set_new(o, "nbytes", json_u64(f->file_nbytes));
	json_object_set_new(o, "pickle_nbytes", json_u64(f->pickle_nbytes));
	json_object_set_new(o, "pickle_protocol", json_integer(f->pickle_protocol));
	json_object_set_new(o, "records", json_u64(f->record_count));
	json_object_set_new(o, "alignment", json_integer(f->alignment));
	json_object_set_new(o, "crc", json_boolean(f->has_crc));
	json_object_set_new(o, "compressed", json_integer(f->compressed));
	json_object_set_new(o, "unreferenced", json_integer(f->unreferenced));
	json_object_set_new(o, "foreign", json_integer(f->foreign));
	json_object_set_new(o, "data_files", json_integer(f->file_count));
	json_object_set_new(o, "version", json_integer(f->version));
	json_object_set_new(o, "dead_nbytes", json_u64(f->dead_nbytes));
	json_object_set_new(o, "dead_on_disk", json_u64(f->dead_on_disk));
	return o;
}

struct items_json {
	FILE *out;
	bool any;
};

static int item_json(void *ctx, const struct ckpt_item *item)
{
	struct items_json *j = ctx;
	json_t *o;

	if (item->depth == 0)
		return 1;
	if (item->kind == CKPT_ITEM_TENSOR)
		return 0;
	o = json_object();
	json_set_name(o, "name", item->name);
	json_set_name(o, "type", item->type);
	if (item->module)
		json_object_set_new(o, "module", json_true());
	if (item->kind == CKPT_ITEM_CONTAINER)
		json_object_set_new(o, "count", json_u64(item->count));
	else
		json_set_name(o, "value", item->text);
	fputs(j->any ? ",\n" : "\n", j->out);
	json_put(j->out, o);
	j->any = true;
	return 0;
}

static void add_note(void *ctx, const char *text)
{
	char shown[1024];

	json_array_append_new(ctx,
			      json_string(ckpt_escape(shown, sizeof(shown), text, strlen(text))));
}

static int add_pair(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	json_t *pair = json_array();

	json_array_append_new(pair, json_stringn(key, key_len));
	json_array_append_new(pair, json_stringn(value, value_len));
	return json_array_append_new(ctx, pair) < 0 ? CKPT_E_NOMEM : 0;
}

static int print_json(const struct summary *s, const char *path, struct ckpt_error *err)
{
	struct items_json items = { 0 };
	struct ckpt_prefix_count counts[KNOWN_PREFIXES];
	json_t *prefixes, *name, *notes, *kinds, *metadata;
	int rc = record_kinds_json(s->model, &kinds, err);

	if (rc < 0)
		return rc;
	items.out = json_open(json);
	if (!items.out) {
		json_decref(kinds);
		return CKPT_E_IO;
	}
	prefixes = json_object();
	name = json_object();
	notes = json_array();
	metadata = json_array();
	count_prefixes(s->model, counts);
	for (size_t i = 0; i < KNOWN_PREFIXES; i++)
		if (counts[i].with_prefix)
			json_object_set_new(prefixes, known_prefixes[i],
					    json_pack("{s:I,s:I}", "with",
						      (json_int_t)counts[i].with_prefix, "keys",
						      (json_int_t)counts[i].keys));
	json_set_name(name, "path", path);
	fprintf(items.out, "{\"ckpt_json\":%d,\"command\":\"info\",\"input\":", JSON_VERSION);
	json_put(items.out, name);
	fputs(",\"file\":", items.out);
	json_put(items.out, file_json(&s->file));
	fprintf(items.out, ",\"tensors\":%" PRIu64 ",\"elements\":", s->tensors);
	json_put(items.out, json_u64(s->elements));
	fputs(",\"nbytes\":", items.out);
	json_put(items.out, json_u64(s->nbytes));
	fprintf(items.out, ",\"storages\":%" PRIu64 ",\"dtypes\":", ckpt_storage_count(s->model));
	json_put(items.out, tally_json(&s->dtypes));
	fputs(",\"devices\":", items.out);
	json_put(items.out, tally_json(&s->devices));
	fputs(",\"record_kinds\":", items.out);
	json_put(items.out, kinds);
	fputs(",\"metadata\":", items.out);
	rc = ckpt_each_metadata(s->model, add_pair, metadata, err);
	json_put(items.out, metadata);
	fputs(",\"notes\":", items.out);
	if (rc == 0)
		rc = ckpt_tell_state(s->model, add_note, notes, err);
	json_put(items.out, notes);
	fputs(",\"prefixes\":", items.out);
	json_put(items.out, prefixes);
	fputs(",\"items\":[", items.out);
	if (rc == 0)
		rc = ckpt_walk(s->model, item_json, &items, err);
	fputs("\n],\"parts\":", items.out);
	print_parts_json(s->parts, items.out);
	fputs(",\"quantized\":", items.out);
	json_put(items.out, quantized_json(s));
	fputs("}\n", items.out);
	if (json_close(items.out, rc == 0) != EXIT_FINE && rc == 0)
		rc = CKPT_E_IO;
	return rc;
}

static int print_line(const struct summary *s)
{
	char a[32], b[32], c[32], size[16];

	printf("%s, %s tensor%s, %s element%s, %s in %s storage%s", s->file.format,
	       grouped(s->tensors, a), plural(s->tensors), grouped(s->elements, b),
	       plural(s->elements), size_phrase(s->nbytes, size),
	       grouped(ckpt_storage_count(s->model), c), plural(ckpt_storage_count(s->model)));
	if (s->file.dead_on_disk >= WORTH_SAYING)
		printf(", %s of dead bytes", size_phrase(s->file.dead_on_disk, size));
	printf("\n");
	return 0;
}

static int print_info(const char *path, void *ctx)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct summary s = { .file = CKPT_FILE_INFO_INIT };
	struct ckpt_model *model;
	bool is_archive;
	int rc, code;

	(void)ctx;
	if (!open_model_or_archive(path, 0, &model, &is_archive, &code)) {
		if (is_archive)
			return list_inner(path, "info", false, json);
		hint_json(json, path);
		return code;
	}
	s.model = model;
	ckpt_file_get(model, &s.file);
	if (!summarise(&s)) {
		complain("out of memory");
		rc = CKPT_E_NOMEM;
	} else if (!json && one_of_many && !all_items) {
		rc = print_line(&s);
	} else {
		rc = ckpt_parts_new(model, &s.parts, &err);
		if (rc == 0)
			rc = find_quantized(&s, &err);
		if (rc == 0)
			rc = json ? print_json(&s, path, &err) : print_page(&s, path, &err);
	}
	if (one_of_many && rc == 0) {
		one_of_many->tensors = s.tensors;
		one_of_many->elements = s.elements;
		one_of_many->nbytes = s.nbytes;
		one_of_many->dead = s.file.dead_on_disk;
	}
	clear_summary(&s);
	ckpt_close(model);
	if (rc < 0)
		return err.status ? fail(&err) : EXIT_ERROR;
	return finish_output(EXIT_FINE);
}

static int run_info(int argc, char **argv)
{
	const struct many_files many = {
		.cmd = &cmd_info,
		.one = print_info,
		.words = { "read" },
		.dead = "are dead bytes ('ckpt compact -i --free --if-present' gives them back)",
		.json = &json,
	};
	int first = parse_options(&cmd_info, argc, argv);

	if (first < 0)
		return -1 - first;
	return run_many(&many, argv + first, (size_t)(argc - first));
}
