/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantized weights: what loaders say that do not know them or miss a part of one, and what the file
 * shows of it. ckpt_quant_open() decides whether the parts of the file fit; here are the words.
 *
 * What must stay true:
 *  - Where no configuration says that weights are quantized, names and dtypes are all there is to go by:
 *    what does not fit is no certain damage, as a mere cast to 8 bits leaves no scales, either.
 *  - `ckpt cast --dequantize` is offered only where ckpt_quant_open() takes the file.
 */
#include "why/why.h"

#include "base/error.h"
#include "quant/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NAMED = 3 };

/* ---- names ---- */

/*
 * Endings of names that nothing but parts of quantized weights have. WEIGHT: what the plain weight ends
 * with instead; NULL: it belongs to no weight.
 */
static const struct part {
	const char *ending, *weight, *what;
} parts[] = {
	{ ".weight_scale_inv", ".weight", "the scales" },
	{ "_scale_inv", "", "the scales" },
	{ ".weight_scale", ".weight", "the scales" },
	{ ".weight_scale_2", ".weight", "the scale of the scales" },
	{ ".weight_global_scale", ".weight", "the scale of the scales" },
	{ ".weight_packed", ".weight", "the numbers" },
	{ ".weight_shape", ".weight", "the shape" },
	{ ".weight_zero_point", ".weight", "the zero points" },
	{ ".weight_g_idx", ".weight", "the groups of the columns" },
	{ ".qweight", ".weight", "the numbers" },
	{ ".qzeros", ".weight", "the zero points" },
	{ ".g_idx", ".weight", "the groups of the columns" },
	{ "_proj_blocks", "_proj", "the numbers" },
	{ "_proj_scales", "_proj", "the scales" },
	{ ".absmax", "", "the scales" },
	{ ".nested_absmax", "", "the scales of the scales" },
	{ ".quant_map", "", "the table of numbers" },
	{ ".nested_quant_map", "", "the table of scales" },
	{ ".quant_state.bitsandbytes__nf4", "", "the layout" },
	{ ".quant_state.bitsandbytes__fp4", "", "the layout" },
	{ ".SCB", ".weight", "the scales" },
	{ ".weight_format", ".weight", "the layout" },
	{ "._weight_qdata", ".weight", "the numbers" },
	{ "._weight_scale", ".weight", "the scales" },
	{ "._weight_zero_point", ".weight", "the zero points" },
	{ "._weight_per_tensor_scale", ".weight", "the scale of the scales" },
	{ ".input_scale", NULL, "a scale of activations" },
	{ ".input_global_scale", NULL, "a scale of activations" },
	{ ".input_zero_point", NULL, "a zero point of activations" },
	{ ".output_scale", NULL, "a scale of activations" },
	{ ".activation_scale", NULL, "a scale of activations" },
	{ ".k_scale", NULL, "a scale of the KV cache" },
	{ ".v_scale", NULL, "a scale of the KV cache" },
};

static bool ends_with(const char *name, const char *ending)
{
	size_t len = strlen(name), end = strlen(ending);

	return len > end && !strcmp(name + len - end, ending);
}

static const struct part *find_part(const char *name)
{
	const struct part *found = NULL;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (ends_with(name, parts[i].ending) &&
		    (!found || strlen(parts[i].ending) > strlen(found->ending)))
			found = &parts[i];
	return found;
}

bool ckpt_why_is_quant_part(const char *name)
{
	return find_part(name) != NULL;
}

/* What programs call NAME may have more in front in the file; '{0...31}' in it stands for several layers. */
static bool is_called(const char *in_file, const char *name)
{
	const char *several = strrchr(name, '}');
	size_t len = strlen(in_file), n;

	if (several)
		name = several + 1;
	n = strlen(name);
	return len >= n && !strcmp(in_file + len - n, name) &&
	       (len == n || *name == '.' || in_file[len - n - 1] == '.');
}

static bool is_in_file(const struct ckpt_why *w, const char *name)
{
	uint64_t count = w->facts.model ? ckpt_tensor_count(w->facts.model) : 0;

	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(w->facts.model, i, &info) == 0 && is_called(info.name, name))
			return true;
	}
	return false;
}

/* ---- the file ---- */

/* What ckpt_quant_open() says; CKPT_E_NOTFOUND: nothing is quantized, or there is no file. */
static int find_quantized(struct ckpt_why *w)
{
	struct ckpt_facts *f = &w->facts;

	if (!f->model)
		return CKPT_E_NOTFOUND;
	if (!f->quant_known) {
		f->quant_known = true;
		f->quant_error = (struct ckpt_error)CKPT_ERROR_INIT;
		f->quant_status = ckpt_quant_open(f->model, NULL, &f->quant, &f->quant_error);
		if (f->quant_status == CKPT_E_NOMEM && w->failed == 0)
			w->failed = CKPT_E_NOMEM;
	}
	return f->quant_status;
}

static bool is_quantized(struct ckpt_why *w)
{
	return find_quantized(w) == 0;
}

bool ckpt_why_has_quant_items(struct ckpt_why *w, const char *name)
{
	uint64_t count = is_quantized(w) ? ckpt_quant_count(w->facts.quant) : 0;

	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_quant_weight_info info = CKPT_QUANT_WEIGHT_INFO_INIT;

		ckpt_quant_get(w->facts.quant, i, &info);
		if (is_called(info.items, name))
			return true;
	}
	return false;
}

/* Does a configuration beside the weights say that they are quantized? */
static bool is_said(const struct ckpt_why *w)
{
	struct ckpt_quant_config config;
	bool said = ckpt_quant_config_find(w->facts.model, &config, NULL) == 0 && config.says;

	ckpt_quant_config_clear(&config);
	return said;
}

/* Has the file anything that is called like a part of a quantized weight? */
static bool has_parts(const struct ckpt_why *w)
{
	uint64_t count = ckpt_tensor_count(w->facts.model);

	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(w->facts.model, i, &info) == 0 &&
		    ckpt_why_is_quant_part(info.name))
			return true;
	}
	return false;
}

bool ckpt_why_may_have_scales(struct ckpt_why *w)
{
	return is_quantized(w) || has_parts(w) || is_said(w);
}

static void add_error(struct ckpt_why *w)
{
	const struct ckpt_error *err = &w->facts.quant_error;
	char text[1024];

	ckpt_why_fact(w, "%s",
		      err->path[0] ? ckpt_error_format(err, text, sizeof(text))
				   : ckpt_error_text(err, text, sizeof(text)));
}

/* Is it a directory whose config.json from_pretrained() reads, as of the result? */
static bool has_config(struct ckpt_why *w)
{
	enum ckpt_format_code code = w->facts.model ? w->facts.model->doc->format->code : CKPT_FORMAT_DCP;

	return w->facts.folder && code != CKPT_FORMAT_DCP && code != CKPT_FORMAT_DCP_SAFETENSORS &&
	       access(ckpt_why_print(w, "%s/config.json", w->facts.path), R_OK) == 0;
}

static void advise_cast(struct ckpt_why *w)
{
	ckpt_why_command(w, "ckpt cast --dequantize bf16 %s%s %s", has_config(w) ? "--with-config " : "", ckpt_why_in(w),
			 ckpt_why_out(w));
}

/* A form that is not known, or that can be read in two ways. */
static bool report_unknown_form(struct ckpt_why *w, bool asked)
{
	if (!ckpt_why_begin(
		    w, "quantized", asked ? CKPT_CAUSE_LIKELY : CKPT_CAUSE_POSSIBLE,
		    "its weights are quantized in a way that ckpt does not know, or that can be read in two ways: a "
		    "loader that does not know it, either, takes the numbers without their scales"))
		return true;
	add_error(w);
	if (!is_said(w))
		ckpt_why_words(
			w,
			"'ckpt cast --dequantize bf16 --as FORMAT %s%s %s', where you know how they are quantized",
			has_config(w) ? "--with-config " : "", ckpt_why_in(w), ckpt_why_out(w));
	ckpt_why_words(
		w,
		"load it with the package that wrote it, which the configuration beside it names if there is one");
	ckpt_why_end(w);
	return true;
}

/* The file has something quantized that ckpt_quant_open() does not take. ASKED: a message is about it. */
static bool report_unfit(struct ckpt_why *w, bool asked)
{
	bool of_config = w->facts.quant_error.path[0] != '\0', said, cast;

	if (w->facts.quant_status == CKPT_E_UNSUPPORTED)
		return report_unknown_form(w, asked);
	if (of_config && !asked)
		return false; /* it may lie there for another purpose */
	said = of_config || is_said(w);
	cast = !said && !has_parts(w);
	if (!ckpt_why_begin(
		    w, "quantized_parts",
		    said    ? CKPT_CAUSE_CERTAIN
		    : asked ? CKPT_CAUSE_LIKELY
			    : CKPT_CAUSE_POSSIBLE,
		    "%s",
		    of_config ? "what says how its weights are quantized cannot be used"
		    : said ? "the parts of a quantized weight do not fit together: one is missing, left over, or of another "
			     "shape or dtype"
		    : cast ? "weights in it are numbers of 8 bits or fewer without scales: if they had some, these are lost"
			   : "by names and dtypes some of its weights are quantized, and their parts do not fit together, or no "
			     "config.json beside them says how"))
		return true;
	add_error(w);
	if (said)
		ckpt_why_words(
			w,
			"take it again from where it came, with all of its files: the parts of a weight may be in several");
	else
		ckpt_why_words(
			w,
			"put the config.json of the model beside it, which says how its weights are quantized");
	if (cast)
		ckpt_why_words(
			w,
			"if they were only cast to 8 bits, 'ckpt cast bf16 %s %s' makes them larger again",
			ckpt_why_in(w), ckpt_why_out(w));
	ckpt_why_end(w);
	return true;
}

/*
 * The part of the file that vLLM makes NAME of, which is not in the file: "X.q_proj.weight_scale" of "X.qkv_proj.weight_scale". NULL:
 * there is none.
 */
static const char *find_fused(struct ckpt_why *w, const char *name)
{
	static const char *const fused[][2] = { { ".qkv_proj.", ".q_proj." }, { ".gate_up_proj.", ".gate_proj." } };

	for (size_t i = 0; w->facts.model && i < sizeof(fused) / sizeof(fused[0]); i++) {
		const char *at = strstr(name, fused[i][0]), *one;

		one = at ? ckpt_why_print(w, "%.*s%s%s", (int)(at - name), name, fused[i][1], at + strlen(fused[i][0])) : NULL;
		if (one && is_in_file(w, one))
			return one;
	}
	return NULL;
}

/* "'X.weight_scale' is in the file: the scales of 'X.weight'" */
static void add_name(struct ckpt_why *w, const char *name)
{
	const struct part *part = find_part(name);
	bool is_there = is_in_file(w, name);
	const char *where = !w->facts.model ? "" : is_there ? "is in the file" : "is not in the file";
	const char *fused = is_there ? NULL : find_fused(w, name);
	size_t front = part ? strlen(name) - strlen(part->ending) : 0;
	const char *weight = part && part->weight
				     ? ckpt_why_print(w, "%.*s%s", (int)front, name, part->weight)
				     : NULL;

	if (fused)
		ckpt_why_fact(w, "'%s', of which vLLM makes '%s', is in the file", ckpt_why_show(w, fused),
			      ckpt_why_show(w, name));
	else if (weight)
		ckpt_why_fact(w, "'%s' %s%s %s of '%s'", ckpt_why_show(w, name), where,
			      *where ? ":" : "holds", part->what, ckpt_why_show(w, weight));
	else if (part)
		ckpt_why_fact(w, "'%s' %s%s %s, which only quantized weights need",
			      ckpt_why_show(w, name), where, *where ? ":" : "is", part->what);
	else if (*where)
		ckpt_why_fact(w, "'%s' %s", ckpt_why_show(w, name), where);
}

static void add_weights(struct ckpt_why *w)
{
	struct ckpt_quant_weight_info info = CKPT_QUANT_WEIGHT_INFO_INIT;
	uint64_t count = ckpt_quant_count(w->facts.quant);

	ckpt_quant_get(w->facts.quant, 0, &info);
	ckpt_why_fact(w,
		      "%" PRIu64 " weight%s quantized, as %s has it%s: '%s' is %s, in %u tensor%s",
		      count, count == 1 ? " is" : "s are", ckpt_quant_format(w->facts.quant),
		      count == 1 ? "" : "; one of them", ckpt_why_show(w, info.name), info.scheme,
		      info.parts, info.parts == 1 ? "" : "s");
}

/*
 * Report TEXT, of a message about the COUNT tensors NAMES. What the file shows goes first: that its parts do
 * not fit.
 */
static bool report(struct ckpt_why *w, const char *text, const char *const *names, size_t count,
		   const char *advice)
{
	int status = find_quantized(w);

	if (w->facts.path && !w->facts.model)
		return ckpt_why_check_file(w, &(struct ckpt_match){ .all = "" });
	if (status < 0 && status != CKPT_E_NOTFOUND)
		return report_unfit(w, true);
	if (!ckpt_why_begin(w, "quantized", status == 0 ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
			    "%s", text))
		return true;
	for (size_t i = 0; i < count && i < MOST_NAMED; i++)
		add_name(w, names[i]);
	if (status == 0) {
		add_weights(w);
	} else if (w->facts.model) {
		ckpt_why_fact(
			w, "no weight in this file is quantized, as far as names and dtypes tell");
		ckpt_why_words(
			w,
			"if it is the file that was loaded: take quantization_config out of the config.json that the program reads");
	}
	if (status == 0 || !w->facts.path)
		advise_cast(w);
	ckpt_why_words(w, "%s", advice);
	ckpt_why_end(w);
	return true;
}

bool ckpt_why_add_quantized(struct ckpt_why *w)
{
	if (!is_quantized(w))
		return false;
	add_weights(w);
	advise_cast(w);
	return true;
}

bool ckpt_why_check_quantized_parts(struct ckpt_why *w, const struct ckpt_match *match)
{
	int status = find_quantized(w);

	return status < 0 && status != CKPT_E_NOTFOUND && status != CKPT_E_NOMEM &&
	       report_unfit(w, match != NULL);
}

bool ckpt_why_check_quantized(struct ckpt_why *w, const struct ckpt_match *match)
{
	if (!is_quantized(w))
		return false;
	if (!ckpt_why_begin(
		    w, "quantized", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "its weights are quantized: a loader that does not know of it takes the numbers without their scales, or finds "
		    "names and shapes that its model has not"))
		return true;
	add_weights(w);
	advise_cast(w);
	ckpt_why_words(
		w,
		"or load it with what knows the format: transformers and vLLM go by the configuration beside it");
	ckpt_why_end(w);
	return true;
}

/* ---- messages ---- */

bool ckpt_why_explain_quant_names(struct ckpt_why *w, const char *const *names, size_t count)
{
	return report(
		w,
		"the program and the checkpoint do not agree which weights are quantized, or how: the one has parts of weights that "
		"the other has not",
		names, count,
		"or give the program the config.json that belongs to these weights, whole: its quantization_config says which "
		"are quantized, and how");
}

bool ckpt_why_explain_quant_part(struct ckpt_why *w, const struct ckpt_match *match)
{
	return ckpt_why_explain_quant_names(w, match->part, 1);
}

/* "'Linear' object has no attribute 'weight_scale_inv'": the first tensor of the file that is called so, or what the message says. */
bool ckpt_why_explain_quant_attribute(struct ckpt_why *w, const struct ckpt_match *match)
{
	uint64_t count = w->facts.model ? ckpt_tensor_count(w->facts.model) : 0;
	const char *name = match->part[0];

	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(w->facts.model, i, &info) < 0 || !is_called(info.name, match->part[0]))
			continue;
		name = info.name;
		break;
	}
	return ckpt_why_explain_quant_names(w, &name, 1);
}

/* ---- "Weight shape (200, 300) not divisible by scale grid (2, 3)" ---- */

static bool has_dims(const uint64_t *shape, uint32_t ndim, uint64_t rows, uint64_t cols)
{
	return ndim >= 2 && shape[ndim - 2] == rows && shape[ndim - 1] == cols;
}

/* Has the file scales of the weight with ITEMS in ROWS rows of COLS? */
static bool has_grid(const struct ckpt_why *w, const char *items, uint64_t rows, uint64_t cols)
{
	uint64_t count = ckpt_tensor_count(w->facts.model);
	size_t front = strlen(items);

	if (ends_with(items, ".weight"))
		front -= strlen("weight");
	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(w->facts.model, i, &info) == 0 && !strncmp(info.name, items, front) &&
		    (ends_with(info.name, "_scale_inv") || ends_with(info.name, ".scale")) &&
		    has_dims(info.shape, info.ndim, rows, cols))
			return true;
	}
	return false;
}

bool ckpt_why_explain_quant_grid(struct ckpt_why *w, const struct ckpt_match *match)
{
	uint64_t sizes[4], count = is_quantized(w) ? ckpt_quant_count(w->facts.quant) : 0, found = 0;
	const char *names[MOST_NAMED];

	for (int i = 0; i < 4; i++)
		sizes[i] = strtoull(match->part[i], NULL, 10);
	for (uint64_t i = 0; i < count && found < MOST_NAMED; i++) {
		struct ckpt_quant_weight_info info = CKPT_QUANT_WEIGHT_INFO_INIT;

		ckpt_quant_get(w->facts.quant, i, &info);
		if (has_dims(info.shape, info.ndim, sizes[0], sizes[1]) && has_grid(w, info.items, sizes[2], sizes[3]))
			names[found++] = info.name;
	}
	if (w->facts.model && !found && find_quantized(w) != CKPT_E_NOTFOUND && !is_quantized(w))
		return report_unfit(w, true);
	if (w->facts.path && !w->facts.model)
		return ckpt_why_check_file(w, match);
	if (!ckpt_why_begin(
		    w, "quantized", found ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    "transformers takes the size of FP8 blocks from the shapes, as if all were whole, and the last blocks of a weight are cut "
		    "off"))
		return true;
	for (uint64_t i = 0; i < found; i++)
		ckpt_why_fact(w, "'%s' is %s x %s numbers with %s x %s scales", ckpt_why_show(w, names[i]), match->part[0],
			      match->part[1], match->part[2], match->part[3]);
	if (w->facts.model && !found)
		ckpt_why_fact(w, "no quantized weight of this file has these shapes");
	if (!ckpt_why_add_quantized(w) && !w->facts.path)
		advise_cast(w);
	ckpt_why_words(w, "plain weights want no quantization_config in config.json, and more memory");
	ckpt_why_end(w);
	return true;
}

/* The table of transformers 5: "model.layers.{0...31}.up_proj.weight_scale_inv | UNEXPECTED |  | ". MATCH: of its first row. */
bool ckpt_why_explain_quant_table(struct ckpt_why *w, const struct ckpt_match *match)
{
	const char *names[MOST_NAMED], *line = w->error;
	size_t count = 0;

	(void)match;
	while (line && count < MOST_NAMED) {
		size_t len = strcspn(line, "|\n");
		bool is_row = !strncmp(line + len, "| UNEXPECTED", 12) ||
			      !strncmp(line + len, "| MISSING", 9);

		while (is_row && len && line[len - 1] == ' ')
			len--;
		names[count] = is_row ? ckpt_why_print(w, "%.*s", (int)len, line) : "";
		count += ckpt_why_is_quant_part(names[count]);
		line = strchr(line + len, '\n');
		line = line ? line + 1 : NULL;
	}
	return count && ckpt_why_explain_quant_names(w, names, count);
}

bool ckpt_why_explain_quant_shape(struct ckpt_why *w, const char *const *names, size_t count)
{
	return report(
		w,
		"weights are quantized in the file in another way than in the program's model, or in one of them alone: a packed weight "
		"has another shape",
		names, count,
		"or give the program the config.json that belongs to these weights: bits and group_size in it decide the shapes");
}

bool ckpt_why_explain_quant_method(struct ckpt_why *w, const struct ckpt_match *match)
{
	return report(
		w,
		ckpt_why_print(
			w,
			"the program, in this version, does not know weights that are quantized as '%s'",
			ckpt_why_show(w, match->part[0])),
		NULL, 0,
		"or install a version of the program that knows it; plain weights want no quantization_config in config.json");
}

bool ckpt_why_explain_quant_hardware(struct ckpt_why *w, const struct ckpt_match *match)
{
	(void)match;
	return report(
		w,
		"this GPU, a machine without one, or this version of the program does not compute with weights that are quantized so",
		NULL, 0,
		"plain weights want no quantization_config in config.json, and more memory");
}

bool ckpt_why_explain_float8(struct ckpt_why *w, const struct ckpt_match *match)
{
	(void)match;
	if (w->facts.model && find_quantized(w) == CKPT_E_NOTFOUND)
		return false;
	return report(
		w,
		"a program that knows nothing of quantization was given numbers of 8 bits: torch computes with them in few "
		"operations, and without their scales they are others",
		NULL, 0,
		"or load it with what knows the format; weights that were only cast to 8 bits: 'ckpt cast bf16'");
}

bool ckpt_why_explain_quant_state(struct ckpt_why *w, const struct ckpt_match *match)
{
	(void)match;
	return report(
		w,
		"weights of bitsandbytes are without their state: scales and layout were not saved with them, or were not loaded",
		NULL, 0,
		"or load it by from_pretrained() of transformers, with the config.json beside it, onto a GPU");
}
