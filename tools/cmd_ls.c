/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt ls': tensors, and arrays and scalars of numpy, as a table or as a document. records.c
 * lists records, inner.c the files of an archive of checkpoints.
 *
 * What must stay true: it reads only metadata, and lists a million tensors without a copy of
 * their names (ROWS has numbers of tensors, and not even these without a pattern or --sort).
 * Totals count each storage once.
 */
#include "command.h"
#include "inner.h"
#include "json.h"
#include "many_files.h"
#include "name_groups.h"
#include "parameters.h"
#include "quantized_marks.h"
#include "records.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool long_form, exact_bytes, of_records, of_parameters;
static const char *sort_by, *json, *depth;
static uint64_t depth_parts; /* 0: no groups */
static struct str_list patterns;

static const struct opt opts[] = {
	OPT_LIST("match", 'm', &patterns, "PATTERN",
		 "list only what matches; all operands are then files; may be repeated"),
	OPT_FLAG("long", 'l', &long_form,
		 "also print stride, offset, storage, class and requires_grad"),
	OPT_FLAG("bytes", 'b', &exact_bytes, "print sizes in bytes, not as 1.5M (powers of 1000)"),
	OPT_FLAG("records", 0, &of_records, "list the records of the archive, not the tensors"),
	OPT_FLAG("parameters", 0, &of_parameters,
		 "list only parameters, as 'ckpt info' counts them"),
	OPT_STR("sort", 0, &sort_by, "KEY", "order by name, size or storage; default: as in the file"),
	OPT_STR("depth", 0, &depth, "N", "add up tensors by N first parts of their names, or by 'module'"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not a table"),
	JOBS_OPT,
	OPT_FLAG("quiet", 'q', &quiet, "print no totals"),
	NAME_SKIPPED_OPT,
	SPOOL_OPT,
	OPT_END
};

static int run_ls(int argc, char **argv);

const struct command cmd_ls = {
	.name = "ls",
	.operands = "IN [IN...] [PATTERN...]",
	.summary =
		"list tensors and numpy arrays: name, dtype, shape, device, bytes, shared storages",
	.details =
		"A PATTERN is a glob over the whole name, in which '*' crosses dots. A name also\n"
		"stands for everything below it. 're:' starts a regular expression.\n"
		"If IN is a zip archive with checkpoints inside, ls lists its files. Any command\n"
		"takes one of them as IN, written ARCHIVE::NAME.\n"
		"A tensor that shows a part of its storage has both sizes: '512 of 1.0M'; the file\n"
		"holds the larger one, and 'ckpt compact' drops what no tensor shows. --sort\n"
		"storage puts the largest storages first, each with all its tensors.\n"
		"With --depth 2, 'layers.0' stands for all that begins with it, with its tensors,\n"
		"elements, bytes, and their share of all bytes that are listed. Tied weights count\n"
		"once in a group, and in every group that they have a name in. With --depth\n"
		"module, a group is a layer: 'layers.0.weight' and 'layers.0.bias' are of 'layers.0',\n"
		"'head.weight' is of 'head'. With --parameters, buffers and optimizers are left out.\n"
		"The first operand is an IN. Others are IN where a file has that name, else a\n"
		"PATTERN. -m takes a PATTERN for certain. ls prints a line for each of several IN,\n"
		"and with -m, -l, --sort, --depth or --records what is in them, with the name of IN in\n"
		"front of each line.\n" MANY_FILES,
	.examples = "  ckpt ls model.pt\n"
		    "  ckpt ls model.pt 'module.layer1.*' --sort size\n"
		    "  ckpt ls --parameters --depth 2 trainer.pt\n"
		    "  ckpt ls --records model.pt\n"
		    "  ckpt ls best_model.zip::policy.pth\n"
		    "  ckpt ls -m '*.bias' runs/ other.pt\n"
		    "  ckpt ls model.pt --json | jq '.tensors[].name'\n",
	.opts = opts,
	.least = 1,
	.most = -1,
	.run = run_ls,
};

struct listing {
	struct ckpt_model *model; /* owned */
	struct ckpt_pattern **patterns;
	size_t pattern_count;
	struct ckpt_parts *parts; /* owned; NULL: nobody asked what tensors are */
	uint64_t *rows; /* numbers of tensors, in printing order; NULL: all, in file order */
	size_t count;
	uint32_t *first_user;	/* by storage: row + 1 that showed it first */
	uint64_t numel, nbytes; /* nbytes: of storages, each counted once */
	size_t storages;
	struct name_groups groups; /* with --depth */
	struct quantized_marks quantized;
	FILE *out;
	uint64_t values; /* arrays and scalars of numpy */
	int code;	 /* of a pattern that could not be compared */
};

static bool matches(struct listing *l, const char *name)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	for (size_t i = 0; i < l->pattern_count; i++) {
		int rc = ckpt_pattern_matches(l->patterns[i], name, &err);

		if (rc < 0 && l->code == EXIT_FINE)
			l->code = fail(&err);
		if (rc > 0)
			return true;
	}
	return !l->pattern_count;
}

static struct ckpt_tensor_info tensor_at(const struct listing *l, size_t row)
{
	struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

	ckpt_tensor_get(l->model, l->rows ? l->rows[row] : row, &t);
	return t;
}

static int by_name(const void *a, const void *b, void *model)
{
	struct ckpt_tensor_info x = CKPT_TENSOR_INFO_INIT, y = CKPT_TENSOR_INFO_INIT;

	ckpt_tensor_get(model, *(const uint64_t *)a, &x);
	ckpt_tensor_get(model, *(const uint64_t *)b, &y);
	return strcmp(x.name, y.name);
}

static int by_size(const void *a, const void *b, void *model)
{
	struct ckpt_tensor_info x = CKPT_TENSOR_INFO_INIT, y = CKPT_TENSOR_INFO_INIT;

	ckpt_tensor_get(model, *(const uint64_t *)a, &x);
	ckpt_tensor_get(model, *(const uint64_t *)b, &y);
	return (x.nbytes < y.nbytes) - (x.nbytes > y.nbytes);
}

/* Views of one storage in the order of their bytes. */
static int by_storage(const void *a, const void *b, void *model)
{
	struct ckpt_tensor_info x = CKPT_TENSOR_INFO_INIT, y = CKPT_TENSOR_INFO_INIT;
	uint64_t i = *(const uint64_t *)a, k = *(const uint64_t *)b;

	ckpt_tensor_get(model, i, &x);
	ckpt_tensor_get(model, k, &y);
	if (x.storage_nbytes != y.storage_nbytes)
		return x.storage_nbytes < y.storage_nbytes ? 1 : -1;
	if (x.storage != y.storage)
		return x.storage < y.storage ? -1 : 1;
	if (x.offset != y.offset)
		return x.offset < y.offset ? -1 : 1;
	return i < k ? -1 : i > k;
}

/* Those that match, in order. */
static bool choose_rows(struct listing *l)
{
	uint64_t all = ckpt_tensor_count(l->model);

	l->rows = malloc((all + 1) * sizeof(*l->rows));
	if (!l->rows)
		return false;
	for (uint64_t i = 0; i < all; i++) {
		struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

		ckpt_tensor_get(l->model, i, &t);
		l->rows[l->count] = i;
		l->count += matches(l, t.name) && (!of_parameters || ckpt_parts_of(l->parts, i) == CKPT_PART_PARAMETER);
	}
	if (sort_by && !depth_parts)
		qsort_r(l->rows, l->count, sizeof(*l->rows),
			!strcmp(sort_by, "name")   ? by_name
			: !strcmp(sort_by, "size") ? by_size
						   : by_storage,
			l->model);
	return true;
}

static bool collect_rows(struct listing *l)
{
	l->first_user = calloc(ckpt_storage_count(l->model) + 1, sizeof(*l->first_user));
	if (!l->first_user)
		return false;
	if (!l->pattern_count && !sort_by && !of_parameters)
		l->count = ckpt_tensor_count(l->model);
	else if (!choose_rows(l))
		return false;
	for (size_t i = 0; i < l->count; i++) {
		struct ckpt_tensor_info t = tensor_at(l, i);

		if (t.storage < 0) {
			l->numel = sum(l->numel, t.numel);
			l->nbytes = sum(l->nbytes, t.nbytes);
		} else if (!l->first_user[t.storage]) {
			l->first_user[t.storage] = (uint32_t)i + 1;
			l->numel = sum(l->numel, t.numel);
			l->nbytes = sum(l->nbytes, t.storage_nbytes);
			l->storages++;
		}
	}
	return true;
}

static int by_group_name(const void *a, const void *b)
{
	const struct name_group *x = a, *y = b;
	int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

static int by_group_size(const void *a, const void *b)
{
	const struct name_group *x = a, *y = b;

	if (x->nbytes != y->nbytes)
		return x->nbytes < y->nbytes ? 1 : -1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* Returns an exit code. */
static int collect_parts(struct listing *l)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	if (!depth_parts && !of_parameters)
		return EXIT_FINE;
	return ckpt_parts_new(l->model, &l->parts, &err) < 0 ? fail(&err) : EXIT_FINE;
}

/* Returns an exit code. */
static int collect_groups(struct listing *l)
{
	if (!depth_parts)
		return EXIT_FINE;
	if (!name_groups_make(l->model, l->parts, l->rows, l->count, depth_parts, &l->groups)) {
		complain("out of memory");
		return EXIT_ERROR;
	}
	if (sort_by && l->groups.count)
		qsort(l->groups.groups, l->groups.count, sizeof(*l->groups.groups),
		      strcmp(sort_by, "name") ? by_group_size : by_group_name);
	return EXIT_FINE;
}

/* The tensor above that shows the same storage, or NULL. */
static const char *shares_with(const struct listing *l, size_t row, int64_t storage)
{
	if (storage < 0 || l->first_user[storage] == row + 1)
		return NULL;
	return tensor_at(l, l->first_user[storage] - 1).name;
}

/* ---- table ---- */

struct ls_widths {
	int name, dtype, shape, device;
};

static struct ls_widths measure(const struct listing *l)
{
	struct ls_widths w = { 0 };
	char text[1024];

	for (size_t i = 0; i < l->count; i++) {
		struct ckpt_tensor_info t = tensor_at(l, i);

		ckpt_escape(text, sizeof(text), t.name, strlen(t.name));
		w.name = wider(w.name, text_columns(text), name_most());
		w.dtype = wider(w.dtype, strlen(t.dtype), 20);
		w.shape = wider(w.shape, strlen(shape_text(&t, text, sizeof(text))), 28);
		w.device = wider(w.device, strlen(t.device), 12);
	}
	w.name = fit_name(w.name, w.dtype + w.shape + w.device + 4 * 2 + 6);
	return w;
}

static void print_long(const struct ckpt_tensor_info *t)
{
	printf("  offset %" PRIu64, t->offset);
	if (t->stride) {
		printf("  stride [");
		for (uint32_t i = 0; i < t->ndim; i++)
			printf("%s%" PRIu64, i ? ", " : "", t->stride[i]);
		printf("]");
	}
	if (t->storage >= 0)
		printf("  storage %" PRId64 " of %" PRIu64 " bytes", t->storage, t->storage_nbytes);
	if (t->flags & CKPT_TENSOR_REQUIRES_GRAD)
		printf("  requires_grad");
}

static const char *size_text(uint64_t nbytes, char *buf)
{
	return exact_bytes ? grouped(nbytes, buf) : human_size(nbytes, buf);
}

/* What the plain weight would be, as far as the row does not say it. */
static void print_quantized(const struct ckpt_tensor_info *t, const struct ckpt_quant_weight_info *w)
{
	char text[1024];

	if (!w)
		return;
	printf("  is");
	if (strcmp(t->name, w->name) != 0)
		printf(" '%s'", ckpt_escape(text, sizeof(text), w->name, strlen(w->name)));
	if (t->ndim != w->ndim || memcmp(t->shape, w->shape, w->ndim * sizeof(*w->shape)) != 0) {
		struct ckpt_tensor_info plain = { .shape = w->shape, .ndim = w->ndim };

		printf(" %s,", shape_text(&plain, text, sizeof(text)));
	}
	printf(" %s", w->scheme);
}

static void print_row(const struct listing *l, size_t i, const struct ls_widths *w)
{
	const struct ckpt_tensor_info row = tensor_at(l, i), *t = &row;
	const char *shared = shares_with(l, i, t->storage);
	char text[1024], size[32];

	ckpt_escape(text, sizeof(text), t->name, strlen(t->name));
	print_name(text, w->name);
	print_padded(t->dtype, w->dtype);
	print_padded(shape_text(t, text, sizeof(text)), w->shape);
	print_padded(ckpt_escape(text, sizeof(text), t->device, strlen(t->device)), w->device);
	printf("%6s", size_text(t->nbytes, size));
	if (t->storage >= 0 && t->nbytes < t->storage_nbytes)
		printf(" of %s", size_text(t->storage_nbytes, size));
	if (strcmp(t->layout, "strided"))
		printf("  %s", ckpt_escape(text, sizeof(text), t->layout, strlen(t->layout)));
	if (t->class_name && (long_form || strcmp(t->class_name, "Parameter")))
		printf("  %s",
		       ckpt_escape(text, sizeof(text), t->class_name, strlen(t->class_name)));
	print_quantized(t, quantized_at(&l->quantized, t->name));
	if (t->flags & (CKPT_TENSOR_CONJ | CKPT_TENSOR_NEG))
		printf("%s%s", t->flags & CKPT_TENSOR_CONJ ? "  conj" : "",
		       t->flags & CKPT_TENSOR_NEG ? "  neg" : "");
	if (long_form)
		print_long(t);
	if (shared)
		printf("  shares storage with %s",
		       ckpt_escape(text, sizeof(text), shared, strlen(shared)));
	putchar('\n');
}

/* ---- arrays and scalars of numpy ---- */

static bool is_numpy(const struct ckpt_item *item)
{
	return item->kind == CKPT_ITEM_VALUE &&
	       (!strncmp(item->type, "numpy.", 6) || !strcmp(item->type, "ndarray"));
}

static int print_value(void *ctx, const struct ckpt_item *item)
{
	struct listing *l = ctx;
	char text[1024];

	if (of_parameters || !is_numpy(item) || !matches(l, item->name))
		return item->kind == CKPT_ITEM_CONTAINER;
	printf("%s  %s\n", ckpt_escape(text, sizeof(text), item->name, strlen(item->name)),
	       item->text);
	l->values++;
	return 0;
}

static int value_json(void *ctx, const struct ckpt_item *item)
{
	struct listing *l = ctx;
	json_t *o;

	if (of_parameters || !is_numpy(item) || !matches(l, item->name))
		return item->kind == CKPT_ITEM_CONTAINER;
	o = json_object();
	json_set_name(o, "name", item->name);
	json_set_name(o, "type", item->type);
	json_set_name(o, "value", item->text);
	fputs(l->values++ ? ",\n" : "\n", l->out);
	json_put(l->out, o);
	return 0;
}

static int count_value(void *ctx, const struct ckpt_item *item)
{
	struct listing *l = ctx;

	l->values += !of_parameters && is_numpy(item) && matches(l, item->name);
	return item->kind == CKPT_ITEM_CONTAINER && !l->values;
}

static bool matches_a_value(struct listing *l)
{
	bool any;

	ckpt_walk(l->model, count_value, l, NULL);
	any = l->values;
	l->values = 0;
	return any;
}

/* ---- groups ---- */

/* Of all that is listed; 0 if that has no bytes. */
static double share_of(const struct listing *l, const struct name_group *group)
{
	return l->groups.nbytes ? (double)group->nbytes / (double)l->groups.nbytes : 0;
}

static void print_groups(const struct listing *l)
{
	int name = 0, tensors = 0, elements = 0;
	char share[32], text[1024], count[32], size[32];

	for (size_t i = 0; i < l->groups.count; i++) {
		const struct name_group *g = &l->groups.groups[i];

		ckpt_escape(text, sizeof(text), g->name, g->len);
		name = wider(name, text_columns(text), 60);
		tensors = wider(tensors, strlen(grouped(g->tensors, count)), 20);
		elements = wider(elements, strlen(grouped(g->elements, count)), 26);
	}
	for (size_t i = 0; i < l->groups.count; i++) {
		const struct name_group *g = &l->groups.groups[i];

		print_padded(ckpt_escape(text, sizeof(text), g->name, g->len), name);
		printf("%*s tensor%s  ", tensors, grouped(g->tensors, count), g->tensors == 1 ? " " : "s");
		printf("%*s element%s  ", elements, grouped(g->elements, count), g->elements == 1 ? " " : "s");
		printf("%6s  %5s%%\n", size_text(g->nbytes, size), number_text(share, sizeof(share), "%.1f", 100 * share_of(l, g)));
	}
}

static json_t *group_json(const struct listing *l, const struct name_group *g)
{
	json_t *o = json_object();
	char *name = strndup(g->name, g->len);

	if (!name)
		no_memory();
	json_set_name(o, "name", name);
	json_object_set_new(o, "tensors", json_u64(g->tensors));
	json_object_set_new(o, "elements", json_u64(g->elements));
	json_object_set_new(o, "nbytes", json_u64(g->nbytes));
	json_object_set_new(o, "share", json_real(share_of(l, g)));
	free(name);
	return o;
}

/* ---- table, all of it ---- */

static void print_note(void *ctx, const char *text)
{
	(void)ctx;
	complain("note: %s", text);
}

/* A file without tensors may hold something that ckpt does not look into: say so. */
static int explain_nothing(const struct listing *l)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc =
		ckpt_tensor_count(l->model) ? 0 : ckpt_tell_state(l->model, print_note, NULL, &err);

	return rc < 0 ? fail(&err) : EXIT_FINE;
}

static int print_table(struct listing *l)
{
	bool rows = !one_of_many || patterns.count || long_form || sort_by;
	struct ls_widths w = depth_parts ? (struct ls_widths){ 0 } : measure(l);
	char a[32], b[32], c[32], size[32];

	if (depth_parts) {
		print_groups(l);
		if (!quiet)
			printf("%s tensor%s, %s element%s, %s in %s group%s\n", grouped(l->count, a),
			       plural(l->count), grouped(l->groups.elements, b), plural(l->groups.elements),
			       size_text(l->groups.nbytes, size), grouped(l->groups.count, c),
			       plural(l->groups.count));
		return finish_output(quiet ? EXIT_FINE : explain_nothing(l));
	}

	for (size_t i = 0; rows && i < l->count; i++)
		print_row(l, i, &w);
	if (rows)
		ckpt_walk(l->model, print_value, l, NULL);
	if (!quiet || !rows)
		printf("%s tensor%s, %s elements, %s in %s storage%s\n", grouped(l->count, a),
		       plural(l->count), grouped(l->numel, b),
		       exact_bytes ? grouped(l->nbytes, size) : human_size(l->nbytes, size),
		       grouped(l->storages, c), plural(l->storages));
	return finish_output(quiet ? EXIT_FINE : explain_nothing(l));
}

/* ---- JSON ---- */

static json_t *row_json(const struct listing *l, size_t i)
{
	const struct ckpt_tensor_info row = tensor_at(l, i), *t = &row;
	const char *shared = shares_with(l, i, t->storage);
	const struct ckpt_quant_weight_info *quantized = quantized_at(&l->quantized, t->name);
	json_t *o = json_object();

	json_set_name(o, "name", t->name);
	json_object_set_new(o, "dtype", json_string(t->dtype));
	json_object_set_new(o, "shape", json_dims(t->shape, t->ndim));
	json_object_set_new(o, "stride", t->stride ? json_dims(t->stride, t->ndim) : json_null());
	json_object_set_new(o, "offset", json_u64(t->offset));
	json_set_name(o, "device", t->device);
	json_object_set_new(o, "nbytes", json_u64(t->nbytes));
	json_set_name(o, "layout", t->layout);
	json_object_set_new(o, "storage", t->storage >= 0 ? json_integer(t->storage) : json_null());
	json_object_set_new(o, "storage_nbytes", json_u64(t->storage_nbytes));
	json_object_set_new(o, "requires_grad", json_boolean(t->flags & CKPT_TENSOR_REQUIRES_GRAD));
	if (t->class_name)
		json_set_name(o, "class", t->class_name);
	if (t->flags & CKPT_TENSOR_CONJ)
		json_object_set_new(o, "conj", json_true());
	if (t->flags & CKPT_TENSOR_NEG)
		json_object_set_new(o, "neg", json_true());
	if (shared)
		json_set_name(o, "shares_storage_with", shared);
	if (quantized) {
		json_t *is = json_object();

		json_set_name(is, "name", quantized->name);
		json_object_set_new(is, "shape", json_dims(quantized->shape, quantized->ndim));
		json_set_name(is, "scheme", quantized->scheme);
		json_object_set_new(o, "quantized", is);
	}
	return o;
}

static int print_json(struct listing *l)
{
	FILE *out = json_open(json);

	if (!out)
		return EXIT_ERROR;
	fprintf(out, "{\"ckpt_json\":%d,\"command\":\"ls\",\"tensors\":[", JSON_VERSION);
	for (size_t i = 0; i < l->count; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_put(out, row_json(l, i));
	}
	fprintf(out, "\n],\"count\":%zu,\"elements\":", l->count);
	json_put(out, json_u64(l->numel));
	fputs(",\"nbytes\":", out);
	json_put(out, json_u64(l->nbytes));
	fprintf(out, ",\"storages\":%zu,\"numpy\":[", l->storages);
	l->out = out;
	ckpt_walk(l->model, value_json, l, NULL);
	fputc(']', out);
	if (depth_parts)
		fputs(",\"groups\":[", out);
	for (size_t i = 0; i < l->groups.count; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_put(out, group_json(l, &l->groups.groups[i]));
	}
	fputs(depth_parts ? "\n]}\n" : "}\n", out);
	return json_close(out, true);
}

/* ---- the command ---- */

static int make_patterns(struct listing *l)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	l->patterns = calloc(patterns.count + 1, sizeof(struct ckpt_pattern *));
	for (size_t i = 0; l->patterns && i < patterns.count; i++) {
		if (ckpt_pattern_new(patterns.items[i], &l->patterns[i], &err) < 0)
			return fail(&err);
		l->pattern_count++;
	}
	return EXIT_FINE;
}

static void clear_listing(struct listing *l)
{
	for (size_t i = 0; i < l->pattern_count; i++)
		ckpt_pattern_free(l->patterns[i]);
	free(l->patterns);
	free(l->rows);
	ckpt_parts_free(l->parts);
	free(l->first_user);
	name_groups_clear(&l->groups);
	clear_quantized(&l->quantized);
	ckpt_close(l->model);
}

static int list_file(const char *path, void *ctx)
{
	struct ckpt_model *model = NULL;
	struct listing l = { 0 };
	bool is_archive = false;
	int code = make_patterns(&l);

	(void)ctx;
	if (code == EXIT_FINE &&
	    !open_model_or_archive(path, depth_parts || of_parameters ? 0 : CKPT_OPEN_BRIEF, &model, &is_archive, &code) &&
	    !is_archive)
		hint_json(json, path);
	l.model = model;
	if (is_archive) {
		clear_listing(&l);
		return list_inner(path, "ls", exact_bytes, json);
	}
	if (code == EXIT_FINE && of_records) {
		code = list_records(model, path, l.patterns, l.pattern_count, exact_bytes, json);
		clear_listing(&l);
		return code;
	}
	if (code == EXIT_FINE)
		code = collect_parts(&l);
	if (code == EXIT_FINE && !collect_rows(&l)) {
		complain("out of memory");
		code = EXIT_ERROR;
	}
	if (code == EXIT_FINE)
		code = l.code;
	if (code == EXIT_FINE)
		code = collect_groups(&l);
	if (one_of_many && code == EXIT_FINE) {
		one_of_many->tensors = l.count;
		one_of_many->elements = l.numel;
		one_of_many->nbytes = l.nbytes;
	}
	if (code == EXIT_FINE && l.pattern_count && !l.count && !matches_a_value(&l)) {
		complain("%s: no %s matches", path, of_parameters ? "parameter" : "tensor");
		for (size_t i = 0; i < patterns.count; i++) {
			hint_json(json, patterns.items[i]);
			hint_no_file(patterns.items[i]);
		}
		code = EXIT_NO;
	} else if (code == EXIT_FINE && of_parameters && !l.count) {
		complain("%s: " NO_PARAMETER, path);
		code = EXIT_NO;
	} else if (code == EXIT_FINE) {
		if (!depth_parts)
			find_quantized(&l.quantized, l.model);
		code = json ? print_json(&l) : print_table(&l);
	}
	clear_listing(&l);
	return code;
}

static int run_ls(int argc, char **argv)
{
	const struct many_files many = {
		.cmd = &cmd_ls,
		.one = list_file,
		.words = { "listed", "without a match" },
		.json = &json,
	};
	int first = parse_options(&cmd_ls, argc, argv);

	if (first < 0)
		return -1 - first;
	if (sort_by && strcmp(sort_by, "name") && strcmp(sort_by, "size") && strcmp(sort_by, "storage"))
		return wrong_usage(&cmd_ls, "ls: --sort %.40s: wanted 'name', 'size' or 'storage'",
				   sort_by);
	if (of_records && (sort_by || long_form || depth || of_parameters))
		return wrong_usage(&cmd_ls, "ls: --records come in the order of the archive, and have no "
					    "--long form, no --depth and no --parameters");
	if (!parse_depth(depth, &depth_parts))
		return wrong_usage(&cmd_ls, "ls: --depth %.40s: wanted a number from 1 on, or 'module'", depth);
	if (depth && (long_form || (sort_by && !strcmp(sort_by, "storage"))))
		return wrong_usage(&cmd_ls, "ls: with --depth there is no --long form, and no order by storage");
	return run_many(&many, argv + first,
			separate_patterns(argv + first, (size_t)(argc - first), &patterns));
}
