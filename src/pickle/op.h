/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_OP_H
#define CKPT_PICKLE_OP_H

#include "base/error.h"
#include "base/reader.h"
#include "pickle/opcodes.h"

/* One opcode with its operand, read from a pickle. Bytes are borrowed from the input. */
struct ckpt_op {
	uint64_t pos; /* offset of the opcode byte */
	uint8_t code;
	uint64_t number;	    /* U8 to U64; I32 as two's complement in 64 bits */
	double real;		    /* F64_BE */
	const char *bytes, *second; /* LINE, LINE_PAIR, BYTES_* */
	uint64_t len, second_len;
};

/*
 * Read the next opcode. Returns 0, or CKPT_E_FORMAT at the end of the input, for an unknown opcode
 * or for an operand that reaches past the end; the error has the offset.
 */
int ckpt_op_read(struct ckpt_reader *r, struct ckpt_op *op, struct ckpt_error *err);

#endif
