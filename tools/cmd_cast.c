/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt cast`: floating tensors to another dtype, and, with --dequantize (dequantize.c), quantized weights
 * to plain ones. Both are steps of `ckpt edit` and `ckpt convert` as well.
 */
#include "edit.h"
#include "pipes.h"
#include "with_config.h"
#include "words.h"

#include <stdio.h>
#include <string.h>

static struct edit_settings s;
static struct str_list only, except;
static bool to_integer, all, dequantize, with_config;
static uint64_t left; /* tensors that the last step would have cast with --all */
static uint64_t quantized_left;

struct str_list cast_only;

static const struct opt opts[] = {
	OPT_FLAG("all", 0, &all, "cast an optimizer's tensors and those without a dimension, too"),
	OPT_LIST("only", 0, &only, "PATTERN",
		 "cast all tensors whose name matches, and no others; may be repeated"),
	OPT_LIST("except", 0, &except, "PATTERN",
		 "do not cast tensors whose name matches; may be repeated"),
	OPT_FLAG("to-integer", 0, &to_integer,
		 "allow a cast to integers, which cuts fractions off"),
	CHECK_OVERFLOW_OPT,
	OPT_FLAG("dequantize", 0, &dequantize,
		 "write plain weights in the place of quantized ones (bf16, f16, f32)"),
	CAST_AS_OPT,
	OPT_FLAG("with-config", 0, &with_config,
		 "with --dequantize, put config.json and the tokenizer beside OUT"),
	OPT_FLAG("if-present", 0, &s.if_present,
		 "succeed if there is nothing to cast: write OUT unchanged"),
	EDIT_OPTS(s),
	OPT_END
};

static int run_cast(int argc, char **argv);

const struct command cmd_cast = {
	.name = "cast",
	.operands = "DTYPE IN OUT",
	.summary = "cast weights to another dtype: bfloat16, float16, float8_e4m3fn",
	.details =
		"cast changes floating tensors. Integers, bool, complex and quantized tensors\n"
		"stay. So do, unless --all or --only takes them:\n"
		"  tensors without a dimension: narrow types round counters (10001 to 9984)\n"
		"  an optimizer's tensors: small moments become 0\n"
		"The keys of a mapping tell what belongs to an optimizer:\n"
		"  'state' and what is below it, beside 'param_groups' (torch.optim, FSDP)\n"
		"  P.state.NAME, beside P.param_groups.NAME (flat keys, as in DCP directories)\n"
		"  what stands beside 'exp_avg', 'momentum_buffer' and their like\n"
		"  what stands beside 'base_optimizer_state' or 'fp32_flat_groups' (DeepSpeed),\n"
		"  'fp32_from_fp16_params' (Megatron) or 'fp32_from_fp16' (Apex)\n"
		"What shares its bytes with a weight is cast with it.\n"
		"Parts of quantized weights (FP8, GPTQ ...) stay in any case, as config.json,\n"
		"metadata and names tell; a note counts them. If these say that weights are\n"
		"quantized and do not fit, cast fails. '--as plain' casts every floating tensor.\n"
		"--only and --except choose by name (PATTERN works as in 'ckpt select').\n"
		"cast rounds numbers exactly as Tensor.to() of torch does. Tied tensors stay\n"
		"tied, and views stay views. NaN stays NaN, in whatever bits. A number too large\n"
		"for fp8 becomes the largest fp8 number, as in torch 2.14; torch 2.6 makes it NaN.\n"
		"If numbers become infinite or 0, a note says how many, and where the first is.\n"
		"--check-overflow refuses that; with -n it reads all numbers and writes nothing.\n"
		"Short names for DTYPE are bf16, fp16, fp32, fp64 and fp8 (float8_e4m3fn).\n"
		"\n"
		"--dequantize takes quantized weights instead: FP8, MXFP4, NVFP4, INT8 and INT4 of\n"
		"compressed-tensors, ModelOpt and gpt-oss, GPTQ, AWQ, bitsandbytes. config.json beside\n"
		"IN says which; names, dtypes and shapes have to prove it. Scales are used up, a\n"
		"weight gets its plain name and shape, and all other tensors stay as they are. The\n"
		"numbers are, bit for bit, those of the package that made the format; '--as\n"
		"torchao_0.17' and '--as auto_gptq_0.6' are for old releases of two. Tensors that\n"
		"torch or torchao quantized, in a torch.save file, need no config.json.\n",
	.examples = "  ckpt cast bf16 in.pt out.pt\n"
		    "  ckpt cast bf16 --except '*.norm.*' trainer.pt small.pt\n"
		    "  ckpt cast bf16 --all trainer.pt small.pt\n"
		    "  ckpt cast fp16 --check-overflow in.pt out.pt\n"
		    "  ckpt cast --dequantize bf16 DeepSeek-V3/ DeepSeek-V3-bf16/\n",
	.opts = opts,
	.least = 3,
	.most = 3,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_cast,
};

static int cast(const struct ckpt_model *in, const struct edit_step *step, struct ckpt_model **out,
		struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct ckpt_cast_options chained = CKPT_CAST_OPTIONS_INIT;
	int rc;

	chained.as = quant_as;
	chained.only = cast_only.items;
	chained.only_count = cast_only.count;
	chained.flags = step->kind == &kind_cast_all ? CKPT_CAST_ALL : 0;
	if (chained.flags)
		chained.only_count = 0;
	rc = ckpt_cast(in, step->args.items[0], step->cast ? step->cast : &chained, out, report,
		       err);
	left = rc == 0 ? report->optimizer_left + report->scalars_left : 0;
	quantized_left = rc == 0 ? report->quantized_left : 0;
	return rc;
}

static void hint_integer(const struct ckpt_model *in, const struct edit_step *step,
			 const struct ckpt_error *err)
{
	static const char *const integers[] = {
		"int64", "int32", "int16", "int8", "uint8", "bool"
	};

	const char *dtype = step->args.items[0], *near, *words = operand_words("DTYPE");
	char buf[MOST_WORD];

	(void)in;
	if (err->reason == CKPT_REASON_QUANTIZED)
		hint("'ckpt cast --dequantize' makes plain weights of quantized ones; " HINT_AS_PLAIN);
	if (err->status != CKPT_E_ARG)
		return;
	for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
		if (!strcmp(dtype, integers[i]))
			hint("'ckpt cast --to-integer' says that it is meant");
	near = is_one_of(dtype, words) ? NULL : suggest_word(dtype, words, buf);
	if (near)
		hint("did you mean '%s'?", near);
}

static const char *nothing_to_cast(const struct ckpt_model *in, const struct edit_step *step,
				   char why[MOST_REASON])
{
	(void)in;
	if (quantized_left) {
		snprintf(why, MOST_REASON,
			 "all that could be cast is part of quantized weights (--dequantize makes numbers of them)");
		return HINT_IF_PRESENT;
	}
	snprintf(why, MOST_REASON, "no floating tensor%s has another dtype than %.40s",
		 (step->cast ? step->cast->only_count || step->cast->except_count
			     : step->kind == &kind_cast && cast_only.count)
			 ? " that was chosen"
		 : left ? " but an optimizer's and those without a dimension (--all takes them)"
			: "",
		 step->args.items[0]);
	return HINT_IF_PRESENT;
}

const struct edit_kind kind_cast = {
	.name = "cast",
	.apply = cast,
	.why_nothing = nothing_to_cast,
	.hint_failed = hint_integer,
};

const struct edit_kind kind_cast_all = {
	.name = "cast-all",
	.apply = cast,
	.why_nothing = nothing_to_cast,
	.hint_failed = hint_integer,
};

static int run_with_config(const struct edit_step *step, char **paths, int count)
{
	struct config_files files = { .count = 0 };
	int code = EXIT_FINE;

	if (with_config && (!dequantize || s.in_place || count < 2 || is_stream(paths[0]) || is_stream(paths[1])))
		return wrong_usage(
			&cmd_cast,
			"cast: --with-config is for --dequantize IN OUT, of a folder or file each");
	s.keeps_folder = dequantize;
	if (with_config)
		code = read_config(paths[0], &files);
	s.files = files.items;
	s.file_count = files.count;
	if (code == EXIT_FINE)
		code = run_edit(&cmd_cast, &s, step, 1, paths, count);
	for (int i = s.in_place ? 0 : 1;
	     dequantize && code == EXIT_FINE && !quiet && !s.dry_run && i < count; i++)
		note_config(paths[i]);
	clear_config(&files);
	return code;
}

static int run_cast(int argc, char **argv)
{
	int first = parse_options(&cmd_cast, argc, argv);
	struct ckpt_cast_options options = CKPT_CAST_OPTIONS_INIT;
	struct edit_step step = { .kind = &kind_cast, .cast = &options };

	if (first < 0)
		return -1 - first;
	step.args = (struct str_list){ (const char **)&argv[first], 1 };
	if (quant_as && !strcmp(quant_as, "plain") && dequantize)
		return wrong_usage(&cmd_cast,
				   "cast: --as plain says that there is nothing for --dequantize");
	options.as = quant_as;
	if (dequantize && (only.count || except.count || all || to_integer))
		return wrong_usage(
			&cmd_cast,
			"cast: --dequantize takes all quantized weights, and nothing else");
	if (dequantize)
		step.kind = &kind_dequantize;
	options.only = only.items;
	options.only_count = only.count;
	options.except = except.items;
	options.except_count = except.count;
	options.flags = (to_integer ? CKPT_CAST_TO_INTEGER : 0u) | (all ? CKPT_CAST_ALL : 0u);
	return run_with_config(&step, &argv[first + 1], argc - first - 1);
}
