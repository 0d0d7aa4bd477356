/* SPDX-License-Identifier: Apache-2.0 */
/*
 * use_library POINT OUT [-s] FILE...
 *
 * A program with a locale, whose decimal point is POINT, does what the library can do with each FILE,
 * prints all that it is told, and saves copies in the folder OUT. tests/locale/run.py compares that
 * with another locale. -s: FILEs are only scanned.
 */
#include <ckpt/ckpt.h>

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ckpt_error err;
static const char *folder;

/* The bits of a number: printf() has the locale's point. */
static void print_number(const char *what, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	printf("%s=%016" PRIx64 " ", what, bits);
}

static int print_rc(const char *what, int rc)
{
	char text[1200];

	printf("%s: %s\n", what, rc < 0 ? ckpt_error_format(&err, text, sizeof(text)) : "done");
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	return rc;
}

static int print_item(void *ctx, const struct ckpt_item *item)
{
	(void)ctx;
	printf("  item '%s' %s %s\n", item->name, item->type, item->text ? item->text : "");
	return 1;
}

static int print_text(void *ctx, const char *text)
{
	(void)ctx;
	printf("%s", text);
	return 0;
}

static int print_line(void *ctx, const char *text)
{
	(void)ctx;
	printf("  %s\n", text);
	return 0;
}

static int print_difference(void *ctx, const struct ckpt_difference *d)
{
	(void)ctx;
	printf("  differs '%s' %d %x %s ", d->name, d->kind, d->what, d->text ? d->text : "");
	if (d->a && d->b)
		printf("%s %s ", d->a->text, d->b->text);
	if (d->numbers)
		print_number("change", d->numbers->change);
	printf("\n");
	return 0;
}

static int print_finding(void *ctx, const struct ckpt_finding *f)
{
	(void)ctx;
	printf("  verify %d %s %s\n", f->kind, f->record ? f->record : "", f->text);
	return 0;
}

static int print_scan(void *ctx, const struct ckpt_scan_file *f)
{
	(void)ctx;
	printf("  scan %s %s\n", ckpt_scan_verdict_name(f->verdict), f->format);
	for (uint64_t i = 0; i < f->finding_count; i++)
		printf("    %s %s %s\n", f->findings[i].kind, f->findings[i].record,
		       f->findings[i].text);
	for (uint64_t i = 0; i < f->global_count; i++)
		printf("    %s %d\n", f->globals[i].name, f->globals[i].kind);
	for (uint64_t i = 0; i < f->refusal_count; i++)
		printf("    refused: %s\n", f->refusals[i].text);
	return 0;
}

static int print_cause(void *ctx, const struct ckpt_cause *c)
{
	(void)ctx;
	printf("  why %s: %s\n", c->id, c->text);
	for (size_t i = 0; i < c->fact_count; i++)
		printf("    %s\n", c->facts[i]);
	return 0;
}

static void print_arrays(const struct ckpt_model *model)
{
	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++) {
		struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
		struct ckpt_array *array;
		uint64_t sum = 0;
		uint8_t *buf;

		if (print_rc("array", ckpt_array_open(model, i, 0, &array, &err)) < 0)
			continue;
		ckpt_array_get(array, &info);
		buf = info.readable && info.nbytes < 1 << 24 ? malloc(info.nbytes + 1) : NULL;
		if (buf && print_rc("read", ckpt_array_read(array, 0, info.numel, buf, &err)) == 0)
			for (uint64_t j = 0; j < info.nbytes; j++)
				sum = sum * 31 + buf[j];
		printf("  %s %" PRIu64 " %016" PRIx64 " ", info.dtype, info.numel, sum);
		print_number("scale", info.scale);
		printf("\n");
		free(buf);
		ckpt_array_close(array);
	}
}

static void print_stat(const struct ckpt_model *model)
{
	struct ckpt_stat_options options = CKPT_STAT_OPTIONS_INIT;
	struct ckpt_stat *stat;

	options.bins = 3;
	if (print_rc("stat", ckpt_stat_new(model, &options, &stat, &err)) < 0)
		return;
	for (uint64_t i = 0; i < ckpt_stat_count(stat); i++) {
		struct ckpt_stat_values v = CKPT_STAT_VALUES_INIT;
		struct ckpt_stat_item item = CKPT_STAT_ITEM_INIT;

		ckpt_stat_get(stat, i, &item, &v);
		printf("  '%s' %s ", item.name, item.why_not ? item.why_not : "");
		print_number("mean", v.mean);
		print_number("std", v.std);
		print_number("low", v.low);
		printf("\n");
	}
	ckpt_stat_free(stat);
}

static void save(const struct ckpt_model *model, const char *name, const char *format)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.%s", folder, name, format ? format : "edited");
	options.format = format;
	options.flags = CKPT_SAVE_NO_SYNC | CKPT_SAVE_DROP_OTHERS;
	options.shared = CKPT_SHARED_CLONE;
	print_rc(path, ckpt_save(model, path, &options, NULL, &err));
}

static void save_edited(const struct ckpt_model *model, const char *name)
{
	static const char *const renames[] = { "s/\\w+eight/\xc3\xa4w/", "s/[i-k]/I/g" };
	static const char *const keep[] = { "*[a-z]*", "?*", "re:\\w+" };
	struct ckpt_model *a = NULL, *b = NULL, *c = NULL;

	if (print_rc("sanitize", ckpt_sanitize(model, &a, NULL, &err)) == 0 &&
	    print_rc("rename", ckpt_rename(a, renames, 2, NULL, &b, NULL, &err)) == 0 &&
	    print_rc("select", ckpt_select(b, keep, 3, NULL, 0, &c, NULL, &err)) == 0)
		save(c, name, NULL);
	ckpt_close(a);
	ckpt_close(b);
	ckpt_close(c);
}

static void use_model(struct ckpt_model *model, const struct ckpt_model *first, const char *name)
{
	static const char *const formats[] = { "torch", "torch-legacy", "safetensors", "npz", "dcp" };

	print_rc("walk", ckpt_walk(model, print_item, NULL, &err));
	print_rc("show", ckpt_show(model, "", print_text, NULL, &err));
	print_arrays(model);
	print_stat(model);
	if (first)
		print_rc("diff", ckpt_diff(first, model, NULL, print_difference, NULL, NULL, &err));
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		save(model, name, formats[i]);
	save_edited(model, name);
}

static void use(const char *path, struct ckpt_model **first, bool scan_only)
{
	const char *slash = strrchr(path, '/');
	struct ckpt_model *model;

	printf("== %s\n", path);
	print_rc("scan", ckpt_scan(path, NULL, print_scan, NULL, NULL, &err));
	if (scan_only)
		return;
	print_rc("dis", ckpt_disassemble(path, NULL, print_line, NULL, &err));
	print_rc("verify", ckpt_verify(path, NULL, print_finding, NULL, NULL, &err));
	print_rc("why", ckpt_why(path, NULL, print_cause, NULL, NULL, &err));
	if (print_rc("open", ckpt_open(path, &model, &err)) < 0)
		return;
	use_model(model, *first, slash ? slash + 1 : path);
	if (*first)
		ckpt_close(model);
	else
		*first = model;
}

int main(int argc, char **argv)
{
	struct ckpt_model *first = NULL;
	bool scan_only = argc > 3 && !strcmp(argv[3], "-s");

	if (argc < 4 || !setlocale(LC_ALL, "") || strcmp(localeconv()->decimal_point, argv[1]) != 0) {
		fprintf(stderr, "use_library: not the locale that was wanted\n");
		return 1;
	}
	folder = argv[2];
	for (int i = scan_only ? 4 : 3; i < argc; i++)
		use(argv[i], &first, scan_only);
	ckpt_close(first);
	return 0;
}
