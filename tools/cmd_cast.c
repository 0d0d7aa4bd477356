/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"

#include <string.h>

static struct edit_settings s;
static struct str_list only, except;
static bool to_integer;

static const struct opt opts[] = {
	OPT_LIST("only", 0, &only, "PATTERN",
		 "cast only tensors whose name matches; may be repeated"),
	OPT_LIST("except", 0, &except, "PATTERN",
		 "do not cast tensors whose name matches; may be repeated"),
	OPT_FLAG("to-integer", 0, &to_integer,
		 "allow a cast to integers, which cuts fractions off"),
	OPT_FLAG("if-present", 0, &s.if_present,
		 "succeed if there is nothing to cast: write OUT unchanged"),
	EDIT_OPTS(s),
	OPT_END
};

static int run_cast(int argc, char **argv);

const struct command cmd_cast = {
	.name = "cast",
	.operands = "DTYPE IN OUT",
	.summary = "cast floating tensors to another dtype: bfloat16, float16, float8_e4m3fn",
	.details =
		"cast changes all floating tensors, an optimizer's too, unless --only or --except\n"
		"chooses (PATTERN works as in 'ckpt select'). Integers, bool, complex and\n"
		"quantized tensors stay. It rounds numbers exactly as Tensor.to() of torch does.\n"
		"Tied tensors stay tied, and views stay views. NaN stays NaN, in whatever bits. A\n"
		"number too large for fp8 becomes the largest fp8 number, as in torch 2.14; torch\n"
		"2.6 makes it NaN. Short names for DTYPE are bf16, fp16, fp32, fp64 and fp8\n"
		"(float8_e4m3fn).\n",
	.examples =
		"  ckpt cast bf16 in.pt out.pt\n"
		"  ckpt cast bf16 --except 'optimizer*' --except '*.norm.*' trainer.pt small.pt\n",
	.opts = opts,
	.least = 3,
	.most = 3,
	.one_less = &s.in_place,
	.run = run_cast,
};

static int cast(const struct ckpt_model *in, const struct edit_step *step, struct ckpt_model **out,
		struct ckpt_edit_report *report, struct ckpt_error *err)
{
	return ckpt_cast(in, step->args.items[0], step->cast, out, report, err);
}

static void hint_integer(const struct ckpt_model *in, const struct edit_step *step,
			 const struct ckpt_error *err)
{
	static const char *const integers[] = {
		"int64", "int32", "int16", "int8", "uint8", "bool"
	};

	(void)in;
	for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
		if (err->status == CKPT_E_ARG && !strcmp(step->args.items[0], integers[i]))
			hint("'ckpt cast --to-integer' says that it is meant");
}

static const char *nothing_to_cast(const struct ckpt_model *in, const struct edit_step *step,
				   char why[MOST_REASON])
{
	(void)in;
	snprintf(why, MOST_REASON, "no floating tensor%s has another dtype than %.40s",
		 step->cast && (step->cast->only_count || step->cast->except_count) ? " that was chosen" : "",
		 step->args.items[0]);
	return HINT_IF_PRESENT;
}

const struct edit_kind kind_cast = {
	.name = "cast",
	.apply = cast,
	.why_nothing = nothing_to_cast,
	.hint_failed = hint_integer,
};

static int run_cast(int argc, char **argv)
{
	int first = parse_options(&cmd_cast, argc, argv);
	struct ckpt_cast_options options = CKPT_CAST_OPTIONS_INIT;
	struct edit_step step = { .kind = &kind_cast, .cast = &options };

	if (first < 0)
		return -1 - first;
	step.args = (struct str_list){ (const char **)&argv[first], 1 };
	options.only = only.items;
	options.only_count = only.count;
	options.except = except.items;
	options.except_count = except.count;
	options.flags = to_integer ? CKPT_CAST_TO_INTEGER : 0;
	return run_edit(&s, &step, 1, &argv[first + 1]);
}
