/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle/dis.h"

#include "base/double.h"
#include "base/text.h"
#include "pickle/op.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_SHOWN = 400 };

static void format_operand(const struct ckpt_op *op, char *out, size_t size)
{
	char first[MOST_SHOWN], second[MOST_SHOWN];

	out[0] = '\0';
	switch ((enum ckpt_operand)ckpt_opcode_table[op->code].operand) {
	case CKPT_OPERAND_NONE: return;
	case CKPT_OPERAND_U8:
	case CKPT_OPERAND_U16:
	case CKPT_OPERAND_U32:
	case CKPT_OPERAND_U64: snprintf(out, size, " %" PRIu64, op->number); return;
	case CKPT_OPERAND_I32: snprintf(out, size, " %" PRId64, (int64_t)op->number); return;
	case CKPT_OPERAND_F64_BE:
		ckpt_double_format(first, sizeof(first), 17, op->real);
		snprintf(out, size, " %s", first);
		return;
	case CKPT_OPERAND_LINE:
	case CKPT_OPERAND_BYTES_U8:
	case CKPT_OPERAND_BYTES_U32:
	case CKPT_OPERAND_BYTES_I32:
	case CKPT_OPERAND_BYTES_U64: break;
	case CKPT_OPERAND_LINE_PAIR:
		snprintf(out, size, " '%s %s'",
			 ckpt_escape(first, sizeof(first), op->bytes, op->len),
			 ckpt_escape(second, sizeof(second), op->second, op->second_len));
		return;
	}
	if (op->code == CKPT_OP_LONG1 || op->code == CKPT_OP_LONG4) {
		size_t used = (size_t)snprintf(out, size, " 0x");

		for (uint64_t i = op->len; i-- > 0 && used + 3 < size;)
			used += (size_t)snprintf(out + used, size - used, "%02x",
						 (uint8_t)op->bytes[i]);
		return;
	}
	snprintf(out, size, " '%s'", ckpt_escape(first, sizeof(first), op->bytes, op->len));
}

int ckpt_pickle_disassemble(const void *bytes, size_t len, int (*emit)(void *ctx, const char *line),
			    void *ctx, struct ckpt_error *err)
{
	struct ckpt_reader r = { bytes, len, 0, false };
	struct ckpt_op op = { 0 };
	char operand[2 * MOST_SHOWN + 16], line[2 * MOST_SHOWN + 80];
	int rc;

	while (op.code != CKPT_OP_STOP) {
		rc = ckpt_op_read(&r, &op, err);
		if (rc < 0)
			return rc;
		format_operand(&op, operand, sizeof(operand));
		snprintf(line, sizeof(line), "%8" PRIu64 ": %s%s", op.pos,
			 ckpt_opcode_table[op.code].name, operand);
		rc = emit(ctx, line);
		if (rc < 0)
			return rc;
	}
	return 0;
}
