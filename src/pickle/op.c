/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle/op.h"

#include <inttypes.h>
#include <string.h>

const struct ckpt_opcode_info ckpt_opcode_table[256] = {
#define X(name, byte, operand) [byte] = { #name, CKPT_OPERAND_##operand },
	CKPT_PICKLE_OPCODES(X)
#undef X
};

static const char *read_line(struct ckpt_reader *r, uint64_t *len)
{
	const char *line = (const char *)r->data + r->pos, *end;

	end = r->bad ? NULL : memchr(line, '\n', r->len - r->pos);
	if (!end) {
		r->bad = true;
		*len = 0;
		return "";
	}
	*len = (uint64_t)(end - line);
	r->pos += *len + 1;
	return line;
}

static void read_counted(struct ckpt_reader *r, struct ckpt_op *op, uint64_t len)
{
	op->bytes = (const char *)ckpt_read_bytes(r, len);
	op->len = op->bytes ? len : 0;
}

static double read_f64_be(struct ckpt_reader *r)
{
	uint64_t bits = __builtin_bswap64(ckpt_read_u64(r));
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void read_operand(struct ckpt_reader *r, struct ckpt_op *op)
{
	int32_t n;

	switch ((enum ckpt_operand)ckpt_opcode_table[op->code].operand) {
	case CKPT_OPERAND_NONE: break;
	case CKPT_OPERAND_U8: op->number = ckpt_read_u8(r); break;
	case CKPT_OPERAND_U16: op->number = ckpt_read_u16(r); break;
	case CKPT_OPERAND_U32: op->number = ckpt_read_u32(r); break;
	case CKPT_OPERAND_I32: op->number = (uint64_t)(int64_t)(int32_t)ckpt_read_u32(r); break;
	case CKPT_OPERAND_U64: op->number = ckpt_read_u64(r); break;
	case CKPT_OPERAND_F64_BE: op->real = read_f64_be(r); break;
	case CKPT_OPERAND_LINE_PAIR:
		op->bytes = read_line(r, &op->len);
		op->second = read_line(r, &op->second_len);
		break;
	case CKPT_OPERAND_LINE: op->bytes = read_line(r, &op->len); break;
	case CKPT_OPERAND_BYTES_U8: read_counted(r, op, ckpt_read_u8(r)); break;
	case CKPT_OPERAND_BYTES_U32: read_counted(r, op, ckpt_read_u32(r)); break;
	case CKPT_OPERAND_BYTES_I32:
		n = (int32_t)ckpt_read_u32(r);
		read_counted(r, op, n < 0 ? UINT64_MAX : (uint64_t)n);
		break;
	case CKPT_OPERAND_BYTES_U64: read_counted(r, op, ckpt_read_u64(r)); break;
	}
}

int ckpt_op_read(struct ckpt_reader *r, struct ckpt_op *op, struct ckpt_error *err)
{
	int rc = 0;

	*op = (struct ckpt_op){ .pos = r->pos };
	op->code = ckpt_read_u8(r);
	if (r->bad)
		rc = ckpt_error_because(err,
					ckpt_fail(err, CKPT_E_FORMAT,
						  "the pickle ends before STOP"),
					CKPT_REASON_TRUNCATED);
	else if (!ckpt_opcode_table[op->code].name)
		rc = ckpt_fail(err, CKPT_E_FORMAT, "unknown opcode 0x%02x", op->code);
	if (rc == 0) {
		read_operand(r, op);
		if (r->bad)
			rc = ckpt_error_because(
				err,
				ckpt_fail(err, CKPT_E_FORMAT,
					  "the operand of %s reaches past the end of the pickle",
					  ckpt_opcode_table[op->code].name),
				CKPT_REASON_TRUNCATED);
	}
	return ckpt_error_at(err, rc, NULL, NULL, op->pos);
}
