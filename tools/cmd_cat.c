/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt cat': one value as text, or with -o as .npy. cat_json.c has the --json document, and
 * reads the numbers for both.
 *
 * What must stay true: a value of which ckpt_array_find() says that it is no array (CKPT_E_ARG,
 * CKPT_E_UNSUPPORTED) is shown by ckpt_show(), but only if it is no tensor either: the error of a
 * tensor must not be hidden.
 */
#include "cat.h"
#include "edit.h"
#include "float_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool force, no_sync, all_items;
static const char *output, *part, *json, *precision_text;
static int precision = 8;
static bool index_failed;
static char *index_text; /* of NAME[0:2]: what stands in the brackets; or NULL */

static const struct opt opts[] = {
	OPT_STR("output", 'o', &output, "FILE.npy",
		"write the values as numpy.save() does, and do not print them"),
	OPT_STR("part", 0, &part, "PART",
		"take one part: indices, values (sparse), int_repr, scales (quantized)"),
	OPT_FLAG("all", 'a', &all_items, "print all numbers, not only the edges of a long array"),
	OPT_STR("precision", 0, &precision_text, "N",
		"print at most N digits after the point, 0 to 17; default: 8"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document"),
	OPT_FLAG("force", 'f', &force, "replace FILE.npy if it exists"),
	OPT_FLAG("no-sync", 0, &no_sync, "do not wait for the disk, like cp"),
	OPT_FLAG("quiet", 'q', &quiet,
		 "print only the numbers, not the line that says what they are"),
	DEQUANTIZE_OPT("float32"),
	SPOOL_OPT,
	OPT_END
};

static int run_cat(int argc, char **argv);

const struct command cmd_cat = {
	.name = "cat",
	.operands = "IN NAME",
	.summary = "print a tensor or another value; with -o, write it as .npy for numpy",
	.details =
		"Write NAME as 'ckpt ls' and 'ckpt info' print it. If that is ambiguous, write\n"
		"the exact form: [\"a\"][\"b.c\"]. cat prints numbers as numpy does. Of a long array\n"
		"it reads and prints only the edges. It prints and writes dtypes that numpy lacks\n"
		"(bfloat16, float8) as float32. It dequantizes a quantized tensor. It prints a\n"
		"sparse tensor in parts, and writes it as a dense array.\n"
		"\n"
		"NAME[...] takes a part of a tensor as numpy does, and reads no more than that:\n"
		"integers, slices and an ellipsis, as in 'w[0]', 'w[-3:, ::2]', 'w[..., ::-1]'.\n",
	.examples = "  ckpt cat model.pt fc.weight\n"
		    "  ckpt cat model.pt fc.weight -o weight.npy\n"
		    "  ckpt cat model.pt 'fc.weight[0:2, ::4]'\n"
		    "  ckpt cat model.pt epoch\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.run = run_cat,
};

/* ---- one array ---- */

static void put_shape(const struct ckpt_array_info *info, FILE *out)
{
	fputc('[', out);
	for (uint32_t i = 0; i < info->ndim; i++)
		fprintf(out, "%s%" PRIu64, i ? ", " : "", info->shape[i]);
	fputc(']', out);
}

/* The line above the numbers. */
static void print_head(const char *name, const struct ckpt_array_info *info)
{
	char text[1024];

	if (quiet)
		return;
	fputs(*name ? ckpt_escape(text, sizeof(text), name, strlen(name)) : "(root)", stdout);
	if (index_text)
		printf("[%s]", ckpt_escape(text, sizeof(text), index_text, strlen(index_text)));
	printf("  %s%s", !strcmp(info->kind, "tensor") ? "" : "numpy ", info->dtype);
	if (strcmp(info->kind, "scalar") != 0) {
		fputs("  ", stdout);
		put_shape(info, stdout);
	}
	if (*info->device)
		printf("  %s", ckpt_escape(text, sizeof(text), info->device, strlen(info->device)));
	if (strcmp(info->layout, "strided") != 0)
		printf("  %s", ckpt_escape(text, sizeof(text), info->layout, strlen(info->layout)));
	if (info->class_name)
		printf("  %s",
		       ckpt_escape(text, sizeof(text), info->class_name, strlen(info->class_name)));
	if (info->wrapped)
		printf("  local tensor of a %s",
		       ckpt_escape(text, sizeof(text), info->wrapped, strlen(info->wrapped)));
	putchar('\n');
}

static int print_numbers(const struct ckpt_array *array, struct ckpt_error *err)
{
	struct cat_numbers n = { .info = CKPT_ARRAY_INFO_INIT };
	int rc;

	ckpt_array_get(array, &n.info);
	rc = cat_read_numbers(array, all_items, &n, err);
	if (rc == 0 && !print_array(stdout, &n.view, precision))
		rc = CKPT_E_NOMEM;
	free(n.bytes);
	return rc;
}

static int print_parts(const struct ckpt_array *array, const struct ckpt_array_info *info,
		       const char *except, struct ckpt_error *err)
{
	int rc = 0;

	for (const char *const *name = info->parts; rc == 0 && *name; name++) {
		struct ckpt_array_info inner = CKPT_ARRAY_INFO_INIT;
		struct ckpt_array *piece;

		if (!strcmp(*name, except))
			continue;
		rc = ckpt_array_part(array, *name, &piece, err);
		if (rc < 0)
			break;
		ckpt_array_get(piece, &inner);
		print_head(*name, &inner);
		rc = print_numbers(piece, err);
		ckpt_array_close(piece);
	}
	return rc;
}

static int print_quantizer(const struct ckpt_array *array, const struct ckpt_array_info *info,
			   struct ckpt_error *err)
{
	char text[FLOAT_MOST_TEXT];

	if (quiet)
		return 0;
	if (!strcmp(info->qscheme, "per_tensor_affine")) {
		printf("%s  scale %s  zero point %" PRId64 "\n", info->qscheme,
		       float_repr(text, info->scale, FLOAT_DOUBLE), info->zero_point);
		return 0;
	}
	printf("%s  axis %u\n", info->qscheme, info->axis);
	return print_parts(array, info, "int_repr", err);
}

static int print_text(const char *name, const struct ckpt_array *array, struct ckpt_error *err)
{
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	bool in_parts;
	int rc = 0;

	ckpt_array_get(array, &info);
	in_parts = info.parts[0] && !info.qscheme;
	print_head(part ? part : name, &info);
	if (in_parts)
		rc = print_parts(array, &info, "", err);
	else if (info.readable)
		rc = print_numbers(array, err);
	else if (!quiet)
		puts("no values");
	if (rc == 0 && info.qscheme)
		rc = print_quantizer(array, &info, err);
	return rc;
}

/* ---- other values ---- */

static int put_text(void *ctx, const char *text)
{
	return fputs(text, ctx) < 0 ? CKPT_E_IO : 0;
}

static int print_plain_value(const struct ckpt_model *model, const char *name,
			     struct ckpt_error *err)
{
	int rc;

	if (json)
		return cat_other_json(json, name, model, err);
	rc = ckpt_show(model, name, put_text, stdout, err);
	putchar('\n');
	return rc;
}

static int note_is_tensor(void *ctx, const struct ckpt_item *item)
{
	*(bool *)ctx = item->kind == CKPT_ITEM_TENSOR;
	return 0;
}

/* Is it a value without numbers, which ckpt_show() can print? */
static bool is_plain_value(const struct ckpt_model *model, const char *name, int rc)
{
	bool is_tensor = true;

	if (rc != CKPT_E_ARG && rc != CKPT_E_UNSUPPORTED)
		return false;
	return ckpt_find(model, name, note_is_tensor, &is_tensor, NULL) == 0 && !is_tensor;
}

/* ---- files ---- */

static int write_file(const char *name, const struct ckpt_array *array, struct ckpt_error *err)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	char size[16], time[32], shown[200];
	double began = seconds();
	int rc;

	ckpt_array_get(array, &info);
	ckpt_escape(shown, sizeof(shown), name, strlen(name));
	options.flags = (force ? CKPT_SAVE_REPLACE : 0u) | (no_sync ? CKPT_SAVE_NO_SYNC : 0u);
	options.progress = show_progress;
	options.cancel = catch_signals();
	rc = ckpt_array_save_npy(array, output, &options, &report, err);
	end_progress();
	if (rc < 0)
		return rc;
	if (info.wrapped)
		complain("note: '%s' is a %s: its local tensor was written", shown, info.wrapped);
	if (info.qscheme)
		complain(
			"note: '%s' is quantized (%s): the numbers that it stands for were written",
			shown, info.dtype);
	else if (strcmp(info.dtype, info.reads) != 0)
		complain("note: numpy has no %s: written as %s, with the same values", info.dtype,
			 info.reads);
	if (!quiet)
		printf("%s written in %s\n", size_phrase(report.nbytes, size),
		       seconds_phrase(seconds() - began, time));
	return 0;
}

/* ---- the command ---- */

static int replace_by_part(struct ckpt_array **array, struct ckpt_error *err)
{
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	struct ckpt_array *piece;
	int rc = ckpt_array_part(*array, part, &piece, err);

	if (rc == CKPT_E_NOTFOUND) {
		ckpt_array_get(*array, &info);
		fail(err);
		if (!info.parts[0])
			hint("it is %s, and has no parts", info.layout);
		else
			hint("it has the parts %s%s%s%s%s%s%s", info.parts[0],
			     info.parts[1] ? ", " : "", info.parts[1] ? info.parts[1] : "",
			     info.parts[1] && info.parts[2] ? ", " : "",
			     info.parts[1] && info.parts[2] ? info.parts[2] : "",
			     info.parts[1] && info.parts[2] && info.parts[3] ? ", " : "",
			     info.parts[1] && info.parts[2] && info.parts[3] ? info.parts[3] : "");
		*err = (struct ckpt_error)CKPT_ERROR_INIT;
		return rc;
	}
	if (rc < 0)
		return rc;
	ckpt_array_close(*array);
	*array = piece;
	return 0;
}

/* Where the bracket opens that NAME ends with; its length: it ends with none, or with a part of the exact form, ["w"]. */
static size_t index_in(const char *name)
{
	size_t len = strlen(name), open = len, depth = 0;

	if (!len || name[len - 1] != ']')
		return len;
	do {
		open--;
		depth += name[open] == ']' ? 1 : name[open] == '[' ? (size_t)-1 : 0;
	} while (open && depth);
	return depth || strpbrk(name + open, "\"'") ? len : open;
}

/*
 * NAME is no array: is it one with an index, "w[0:2]"? Then that is cut off and kept. Values of a list have such names,
 * too, in the exact form; so if there is no array, and something of that name, it stays. RC and ERR are those of NAME.
 */
static int find_indexed(const struct ckpt_model *model, char *name, int rc,
			struct ckpt_array **array, struct ckpt_error *err)
{
	size_t open = index_in(name), len = strlen(name);
	struct ckpt_error other = CKPT_ERROR_INIT;
	int found;

	if (open == len || (rc != CKPT_E_NOTFOUND && rc != CKPT_E_ARG))
		return rc;
	name[len - 1] = name[open] = '\0';
	found = ckpt_array_find(model, name, CKPT_ARRAY_FOR_NUMPY, array, &other);
	if (found < 0 && rc != CKPT_E_NOTFOUND) {
		name[open] = '[';
		name[len - 1] = ']';
		return rc;
	}
	*err = other;
	index_text = name + open + 1;
	return found;
}

static int cat(const struct ckpt_model *model, char *name, struct ckpt_error *err)
{
	struct ckpt_array *array;
	int rc = ckpt_array_find(model, name, CKPT_ARRAY_FOR_NUMPY, &array, err);

	if (rc < 0)
		rc = find_indexed(model, name, rc, &array, err);
	if (rc < 0 && !output && !part && !index_text && is_plain_value(model, name, rc)) {
		*err = (struct ckpt_error)CKPT_ERROR_INIT;
		return print_plain_value(model, name, err);
	}
	if (rc == 0 && part)
		rc = replace_by_part(&array, err);
	if (rc == 0 && index_text) {
		rc = ckpt_array_slice(array, index_text, err);
		index_failed = rc < 0;
	}
	if (rc == 0)
		rc = output ? write_file(name, array, err)
		     : json ? cat_array_json(json, name, index_text, array, all_items, err)
			    : print_text(name, array, err);
	ckpt_array_close(array);
	return rc;
}

/* Suggest the name of a tensor that is nearly NAME. */
static void hint_tensor_name(const struct ckpt_model *model, const char *name)
{
	uint64_t count = ckpt_tensor_count(model), used = 0;
	const char **names = calloc(count + 1, sizeof(*names)), *near;
	char shown[400];

	for (uint64_t i = 0; names && i < count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(model, i, &info) == 0)
			names[used++] = info.name;
	}
	near = names ? suggest(name, names) : NULL;
	if (near)
		hint("did you mean '%s'?", ckpt_escape(shown, sizeof(shown), near, strlen(near)));
	else
		hint("'ckpt ls' lists the names of tensors");
	free(names);
}

static int run_cat(int argc, char **argv)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	int first = parse_options(&cmd_cat, argc, argv), rc, code;
	char *end;

	if (first < 0)
		return -1 - first;
	if (precision_text) {
		precision = (int)strtol(precision_text, &end, 10);
		if (*end || end == precision_text || precision < 0 || precision > 17)
			return wrong_usage(&cmd_cat, "cat: --precision %.40s: wanted 0 to 17",
					   precision_text);
	}
	if (output && json)
		return wrong_usage(&cmd_cat, "cat: -o prints nothing that --json could be of");
	code = refuse_names(argv[first], output ? output : "OUT");
	if (code == EXIT_FINE && output)
		code = refuse_folder_name(output);
	if (code != EXIT_FINE || !open_model(argv[first], &model, &code))
		return code;
	code = show_dequantized(argv[first], "float32", &model);
	if (code != EXIT_FINE) {
		ckpt_close(model);
		return code;
	}
	rc = ckpt_list_tensors(model, &err);
	if (rc == 0)
		rc = cat(model, argv[first + 1], &err);
	if (rc < 0)
		code = !err.status ? EXIT_ERROR : output ? save_failed(&err, force) : fail(&err);
	else
		code = EXIT_FINE;
	if (index_failed && err.status == CKPT_E_UNSUPPORTED && !part)
		hint("--part NAME takes one part, which can be sliced");
	if (err.status == CKPT_E_NOTFOUND && index_text && ends_with(argv[first + 1], "]"))
		hint("write one index: 'NAME[0, 1]' for 'NAME[0][1]'");
	else if (err.status == CKPT_E_NOTFOUND && !part && !index_failed)
		hint_tensor_name(model, argv[first + 1]);
	ckpt_close(model);
	if (output && code != EXIT_FINE)
		end_by_signal();
	return finish_output(code);
}
