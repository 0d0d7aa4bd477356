/* SPDX-License-Identifier: Apache-2.0 */
/* Do bytes of which nobody says what they are look like a pickle? By their opcodes alone, before any is followed. */
#include "scan/walk.h"

#include "base/reader.h"
#include "base/text.h"
#include "pickle/op.h"
#include "pickle/opcodes.h"

#include <string.h>

/* A name, or what was made to look like one: numbers are not mistaken for it. */
static bool is_printable(const char *text, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if ((uint8_t)text[i] < ' ' && text[i] != '\r' && text[i] != '\t' && text[i])
			return false;
	return len && ckpt_utf8_ok(text, (size_t)len);
}

/* STACK_GLOBAL: it may. */
static bool imports_something(const struct ckpt_op *op)
{
	if (op->code == CKPT_OP_STACK_GLOBAL || op->code == CKPT_OP_EXT1 ||
	    op->code == CKPT_OP_EXT2 || op->code == CKPT_OP_EXT4)
		return true;
	return (op->code == CKPT_OP_GLOBAL || op->code == CKPT_OP_INST) &&
	       is_printable(op->bytes, op->len) && is_printable(op->second, op->second_len);
}

static bool runs_code(const struct ckpt_op *op)
{
	char module[256], name[256];

	if ((op->code != CKPT_OP_GLOBAL && op->code != CKPT_OP_INST) || op->len >= sizeof(module) ||
	    op->second_len >= sizeof(name))
		return false;
	memcpy(module, op->bytes, op->len);
	memcpy(name, op->second, op->second_len);
	module[op->len] = name[op->second_len] = '\0';
	return ckpt_scan_rule(module, name)->kind == CKPT_SCAN_CODE;
}

static bool calls_something(uint8_t code)
{
	return code == CKPT_OP_REDUCE || code == CKPT_OP_OBJ || code == CKPT_OP_INST ||
	       code == CKPT_OP_BUILD || code == CKPT_OP_NEWOBJ || code == CKPT_OP_NEWOBJ_EX;
}

bool ckpt_scan_looks_like_pickle(const uint8_t *bytes, size_t len)
{
	struct ckpt_reader r = { .data = bytes, .len = len };
	struct ckpt_op op = { 0 };
	bool signature = len >= 2 && bytes[0] == CKPT_OP_PROTO && bytes[1] <= 5, imports = false,
	     calls = false, asks = false, code = false;
	unsigned count = 0;

	for (; op.code != CKPT_OP_STOP && ckpt_op_read(&r, &op, NULL) == 0; count++) {
		if (!count && ckpt_scan_takes_values(op.code))
			return false; /* there is nothing to take yet */
		imports |= imports_something(&op);
		code |= runs_code(&op);
		calls |= imports && calls_something(op.code);
		if (calls || code) /* whatever follows */
			return true;
		asks |= op.code == CKPT_OP_PERSID || op.code == CKPT_OP_BINPERSID;
	}
	if (signature && (imports || count > 2))
		return true;
	/* a list of texts of protocol 0 names nothing, and is one if nothing else is in the file */
	return op.code == CKPT_OP_STOP && !r.bad &&
	       (imports || (asks && count > 1) || (count > 2 && r.pos == len));
}

/* Is the text that begins at TEXT, of whose bytes there are LEN, none that Python decodes? Its last character may be cut off. */
static bool is_no_text(const uint8_t *text, size_t len)
{
	enum { MOST_CUT = 3 };

	for (size_t cut = 0; cut <= MOST_CUT && cut <= len; cut++)
		if (ckpt_utf8_or_surrogates_ok((const char *)text, len - cut))
			return false;
	return true;
}

/* Of an operand that is cut off: a text that Python decodes may go on, of bytes and numbers it does not matter what they are. */
static enum ckpt_scan_break cut_operand(const uint8_t *bytes, size_t len, uint64_t *behind)
{
	struct ckpt_reader r = { .data = bytes, .len = len, .pos = 1 };
	bool is_text = false;

	switch (bytes[0]) {
	case CKPT_OP_PERSID: return CKPT_SCAN_BREAKS_OFF;
	case CKPT_OP_GLOBAL:
	case CKPT_OP_INST: return is_no_text(bytes + 1, len - 1) ? CKPT_SCAN_BREAKS_OFF : CKPT_SCAN_MAY_GO_ON;
	case CKPT_OP_BINUNICODE: is_text = true; /* fall through */
	case CKPT_OP_BINBYTES:
	case CKPT_OP_BINSTRING:
	case CKPT_OP_LONG4: *behind = ckpt_read_u32(&r); break;
	case CKPT_OP_BINUNICODE8: is_text = true; /* fall through */
	case CKPT_OP_BINBYTES8:
	case CKPT_OP_BYTEARRAY8: *behind = ckpt_read_u64(&r); break;
	default: return CKPT_SCAN_MAY_GO_ON;
	}
	if (r.bad || (is_text && !is_no_text(bytes + r.pos, len - r.pos)))
		return CKPT_SCAN_MAY_GO_ON;
	return is_text || __builtin_add_overflow(*behind, r.pos, behind) ? CKPT_SCAN_BREAKS_OFF : CKPT_SCAN_BEHIND;
}

/* An opcode by which few bytes take much of a loader: room for as many objects as they say, or a number that is made of digits. */
static bool is_costly(uint8_t code)
{
	return code == CKPT_OP_LONG_BINPUT || code == CKPT_OP_PUT || code == CKPT_OP_LONG || code == CKPT_OP_INT || code == CKPT_OP_FLOAT;
}

enum ckpt_scan_break ckpt_scan_breaks_off(const uint8_t *bytes, size_t len, bool is_beginning, uint64_t *behind)
{
	struct ckpt_reader r = { .data = bytes, .len = len };
	struct ckpt_op op = { 0 };
	bool is_behind = !is_beginning; /* of the beginning is_program() looks at what it takes */
	enum ckpt_scan_break is;
	size_t at;

	for (; at = r.pos, at < len && ckpt_op_read(&r, &op, NULL) == 0; is_beginning = false) {
		/* there is nothing to take yet, or an id that nobody asked for */
		if ((is_beginning && (ckpt_scan_takes_values(op.code) || op.code == CKPT_OP_STOP)) || op.code == CKPT_OP_PERSID)
			return CKPT_SCAN_BREAKS_OFF;
		if (op.code == CKPT_OP_STOP || op.code == CKPT_OP_STACK_GLOBAL || (is_behind && is_costly(op.code)))
			return CKPT_SCAN_MAY_GO_ON;
		if (op.code == CKPT_OP_GLOBAL || op.code == CKPT_OP_INST)
			return ckpt_utf8_ok(op.bytes, (size_t)op.len) && ckpt_utf8_ok(op.second, (size_t)op.second_len) ? CKPT_SCAN_MAY_GO_ON : CKPT_SCAN_BREAKS_OFF;
	}
	if (at >= len)
		return CKPT_SCAN_MAY_GO_ON;
	if (!r.bad) /* no opcode */
		return CKPT_SCAN_BREAKS_OFF;
	is = cut_operand(bytes + at, len - at, behind);
	if (is == CKPT_SCAN_BEHIND && __builtin_add_overflow(*behind, at, behind))
		return CKPT_SCAN_BREAKS_OFF;
	return is;
}

bool ckpt_scan_may_go_on(const uint8_t *bytes, size_t len)
{
	struct ckpt_reader r = { .data = bytes, .len = len };
	struct ckpt_op op = { 0 };

	while (op.code != CKPT_OP_STOP && ckpt_op_read(&r, &op, NULL) == 0)
		if (op.code == CKPT_OP_GLOBAL || op.code == CKPT_OP_INST || op.code == CKPT_OP_STACK_GLOBAL)
			return true;
	return r.bad || op.code == CKPT_OP_STOP || r.pos == len;
}
