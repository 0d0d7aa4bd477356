/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <string.h>

static const struct opt opts[] = { SPOOL_OPT, OPT_END };
static int run_dis(int argc, char **argv);

const struct command cmd_dis = {
	.name = "dis",
	.operands = "IN [RECORD]",
	.summary = "print the disassembled pickle with offsets",
	.details =
		"RECORD names a record of the archive; the default is data.pkl\n"
		"('ckpt ls --records' lists all). If the record is an archive itself, dis prints\n"
		"its data.pkl. In a legacy stream, RECORD is the number of a pickle, from 1 to 5;\n"
		"the default is 4, the object. In a tar of torch 0.1, RECORD is a member: pickle\n"
		"(the default), tensors, storages or sys_info. IN may also be a bare pickle. dis\n"
		"executes nothing. It prints a damaged pickle up to the damage.\n",
	.examples = "  ckpt dis model.pt | less\n"
		    "  ckpt dis model.jit constants.pkl\n",
	.opts = opts,
	.least = 1,
	.most = 2,
	.run = run_dis,
};

static int print_line(void *ctx, const char *line)
{
	(void)ctx;
	return puts(line) < 0 ? CKPT_E_IO : 0;
}

static int run_dis(int argc, char **argv)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int first = parse_options(&cmd_dis, argc, argv), code;

	if (first < 0)
		return -1 - first;
	code = refuse_names(argv[first], "OUT");
	if (code != EXIT_FINE)
		return code;
	if (ckpt_disassemble(argv[first], argc - first > 1 ? argv[first + 1] : NULL, print_line,
			     NULL, &err) < 0 &&
	    err.status) {
		fail(&err);
		if (err.status == CKPT_E_FORMAT && err.offset == 0 && !err.record[0])
			hint("it is no pickle; 'ckpt info' says what it is");
		else if (err.reason == CKPT_REASON_NO_RECORD)
			hint("'ckpt ls --records' lists those that are there");
		return EXIT_ERROR;
	}
	return finish_output(EXIT_FINE);
}
