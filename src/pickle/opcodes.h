/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_OPCODES_H
#define CKPT_PICKLE_OPCODES_H

#include <stdint.h>

/*
 * Every opcode of protocols 0 to 5: name, byte, operand. Source of the table: CPython's pickle.py.
 * Decoder, encoder and disassembler read this one.
 */
#define CKPT_PICKLE_OPCODES(X)       \
	X(MARK, 0x28, NONE)              \
	X(EMPTY_TUPLE, 0x29, NONE)       \
	X(STOP, 0x2E, NONE)              \
	X(POP, 0x30, NONE)               \
	X(POP_MARK, 0x31, NONE)          \
	X(DUP, 0x32, NONE)               \
	X(BINBYTES, 0x42, BYTES_U32)     \
	X(SHORT_BINBYTES, 0x43, BYTES_U8) \
	X(FLOAT, 0x46, LINE)             \
	X(BINFLOAT, 0x47, F64_BE)        \
	X(INT, 0x49, LINE)               \
	X(BININT, 0x4A, I32)             \
	X(BININT1, 0x4B, U8)             \
	X(LONG, 0x4C, LINE)              \
	X(BININT2, 0x4D, U16)            \
	X(NONE, 0x4E, NONE)              \
	X(PERSID, 0x50, LINE)            \
	X(BINPERSID, 0x51, NONE)         \
	X(REDUCE, 0x52, NONE)            \
	X(STRING, 0x53, LINE)            \
	X(BINSTRING, 0x54, BYTES_I32)    \
	X(SHORT_BINSTRING, 0x55, BYTES_U8) \
	X(UNICODE, 0x56, LINE)           \
	X(BINUNICODE, 0x58, BYTES_U32)   \
	X(EMPTY_LIST, 0x5D, NONE)        \
	X(APPEND, 0x61, NONE)            \
	X(BUILD, 0x62, NONE)             \
	X(GLOBAL, 0x63, LINE_PAIR)       \
	X(DICT, 0x64, NONE)              \
	X(APPENDS, 0x65, NONE)           \
	X(GET, 0x67, LINE)               \
	X(BINGET, 0x68, U8)              \
	X(INST, 0x69, LINE_PAIR)         \
	X(LONG_BINGET, 0x6A, U32)        \
	X(LIST, 0x6C, NONE)              \
	X(OBJ, 0x6F, NONE)               \
	X(PUT, 0x70, LINE)               \
	X(BINPUT, 0x71, U8)              \
	X(LONG_BINPUT, 0x72, U32)        \
	X(SETITEM, 0x73, NONE)           \
	X(TUPLE, 0x74, NONE)             \
	X(SETITEMS, 0x75, NONE)          \
	X(EMPTY_DICT, 0x7D, NONE)        \
	X(PROTO, 0x80, U8)               \
	X(NEWOBJ, 0x81, NONE)            \
	X(EXT1, 0x82, U8)                \
	X(EXT2, 0x83, U16)               \
	X(EXT4, 0x84, I32)               \
	X(TUPLE1, 0x85, NONE)            \
	X(TUPLE2, 0x86, NONE)            \
	X(TUPLE3, 0x87, NONE)            \
	X(NEWTRUE, 0x88, NONE)           \
	X(NEWFALSE, 0x89, NONE)          \
	X(LONG1, 0x8A, BYTES_U8)         \
	X(LONG4, 0x8B, BYTES_I32)        \
	X(SHORT_BINUNICODE, 0x8C, BYTES_U8) \
	X(BINUNICODE8, 0x8D, BYTES_U64)  \
	X(BINBYTES8, 0x8E, BYTES_U64)    \
	X(EMPTY_SET, 0x8F, NONE)         \
	X(ADDITEMS, 0x90, NONE)          \
	X(FROZENSET, 0x91, NONE)         \
	X(NEWOBJ_EX, 0x92, NONE)         \
	X(STACK_GLOBAL, 0x93, NONE)      \
	X(MEMOIZE, 0x94, NONE)           \
	X(FRAME, 0x95, U64)              \
	X(BYTEARRAY8, 0x96, BYTES_U64)   \
	X(NEXT_BUFFER, 0x97, NONE)       \
	X(READONLY_BUFFER, 0x98, NONE)

enum ckpt_opcode {
#define X(name, byte, operand) CKPT_OP_##name = byte,
	CKPT_PICKLE_OPCODES(X)
#undef X
};

/* How the operand behind an opcode is written. */
enum ckpt_operand {
	CKPT_OPERAND_NONE,
	CKPT_OPERAND_U8,
	CKPT_OPERAND_U16,
	CKPT_OPERAND_U32,
	CKPT_OPERAND_I32,
	CKPT_OPERAND_U64,
	CKPT_OPERAND_F64_BE,
	CKPT_OPERAND_LINE,      /* text up to LF */
	CKPT_OPERAND_LINE_PAIR, /* two of them */
	CKPT_OPERAND_BYTES_U8,  /* a length, then as many bytes */
	CKPT_OPERAND_BYTES_U32,
	CKPT_OPERAND_BYTES_I32,
	CKPT_OPERAND_BYTES_U64,
};

struct ckpt_opcode_info {
	const char *name; /* NULL: no such opcode */
	uint8_t operand;
};
extern const struct ckpt_opcode_info ckpt_opcode_table[256];

#endif
