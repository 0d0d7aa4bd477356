/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a file's first pickle ends, and whether torch's magic number is in it: torch.load then goes on with four more, whatever the
 * file is to others. Source: torch/serialization.py, _legacy_load(), of torch 1.7 to 2.14.
 *
 * What must stay true: no more than WINDOW bytes are in memory, and bytes and texts longer than that are hopped over: in a safetensors
 * file of billions of numbers a header may look like the beginning of a pickle with one text of gigabytes. Lines are read to their end.
 */
#include "scan/scanner.h"

#include "base/reader.h"
#include "format/torch_legacy.h"
#include "pickle/op.h"
#include "pickle/opcodes.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64 << 10, MARGIN = 8 << 10, WALK = 8 /* times as long it takes to run a pickle as to go through it */ };

/*
 * A number in text of so many characters as the magic number at least has: it may have a sign, blanks
 * around it, zeros in front, underscores, and be of another base. CPython's unpickler in C reads to a
 * zero byte, whatever is behind that.
 */
static bool is_long_number(const char *text, uint64_t len)
{
	enum { SHORTEST = 20 }; /* 0x1950a86a20f9469cfc6c has 22, its decimal form 24 */
	uint64_t i = 0;

	while (i < len && text[i] && strchr("0123456789abcdefABCDEFxXoOL_+- \t\r\v\f", text[i]))
		i++;
	return i >= SHORTEST && (i == len || !text[i]);
}

/* Could the operand be the number with which streams of torch begin? */
static bool may_be_magic(const struct ckpt_op *op)
{
	uint64_t len = op->len;

	if (op->code == CKPT_OP_INT || op->code == CKPT_OP_LONG)
		return is_long_number(op->bytes, len);
	if (op->code != CKPT_OP_LONG1 && op->code != CKPT_OP_LONG4)
		return false;
	while (len && !op->bytes[len - 1])
		len--;
	return len == CKPT_TORCH_MAGIC_BYTES && !memcmp(op->bytes, ckpt_torch_magic, CKPT_TORCH_MAGIC_BYTES);
}

/* ... that is longer than the window: such a number may have any zeros. */
static bool may_be_long_magic(uint8_t code)
{
	return code == CKPT_OP_LONG4 || code == CKPT_OP_INT || code == CKPT_OP_LONG;
}

enum ckpt_scan_beginning ckpt_scan_begins_stream(const uint8_t *bytes, size_t len, uint64_t size)
{
	struct ckpt_reader r = { .data = bytes, .len = len };
	struct ckpt_op op = { 0 };
	bool magic = false;

	while (ckpt_op_read(&r, &op, NULL) == 0) {
		if (op.code == CKPT_OP_STOP)
			return magic && r.pos < size ? CKPT_SCAN_STREAM : CKPT_SCAN_NO_STREAM;
		magic |= may_be_magic(&op);
	}
	return r.bad || r.pos == len ? CKPT_SCAN_NOT_YET : CKPT_SCAN_NO_STREAM;
}

/* A part of the file, at an opcode. */
struct window {
	struct ckpt_scanner *s;
	struct ckpt_source *source;
	uint8_t *bytes; /* malloc: WINDOW of them */
	uint64_t off, size;
	uint64_t limit; /* no line is read on behind it */
	size_t len;
};

/* As much as there is at POS. False: an error, or a signal. */
static bool fill(struct window *w, uint64_t pos)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	if (ckpt_scan_is_cancelled(w->s)) {
		w->s->rc = CKPT_E_CANCELLED;
		return false;
	}
	w->off = pos;
	w->len = w->size - pos < WINDOW ? (size_t)(w->size - pos) : WINDOW;
	rc = ckpt_source_read(w->source, pos, w->bytes, w->len, &err);
	ckpt_scan_failed(w->s, rc, &err);
	return rc == 0;
}

/* How many bytes the length of an operand has in front of it; 0: it has none. */
static unsigned width_of_length(uint8_t code)
{
	switch (code) {
	case CKPT_OP_BINBYTES:
	case CKPT_OP_BINSTRING:
	case CKPT_OP_BINUNICODE:
	case CKPT_OP_LONG4: return 4;
	case CKPT_OP_BINUNICODE8:
	case CKPT_OP_BINBYTES8:
	case CKPT_OP_BYTEARRAY8: return 8;
	default: return 0;
	}
}

/* Behind the next end of a line at POS or later; 0: there is none up to the limit. */
static uint64_t behind_line(struct window *w, uint64_t pos)
{
	for (; pos < w->limit && fill(w, pos); pos += w->len) {
		const uint8_t *at = memchr(w->bytes, '\n', w->len);

		if (at)
			return pos + (uint64_t)(at - w->bytes) + 1;
	}
	return 0;
}

/* Behind the opcode at the beginning of the window, whose operand is longer than that; 0: than the file, or it is a line too long. */
static uint64_t behind_long(struct window *w)
{
	uint8_t code = w->bytes[0];
	unsigned width = width_of_length(code);
	uint64_t pos = w->off, length;

	if (width) {
		length = width == 4 ? ckpt_get_u32(w->bytes + 1) : ckpt_get_u64(w->bytes + 1);
		pos += 1 + width;
		return length > w->size - pos ? 0 : pos + length;
	}
	pos = behind_line(w, pos + 1);
	return pos && (code == CKPT_OP_GLOBAL || code == CKPT_OP_INST) ? behind_line(w, pos) : pos;
}

/*
 * A line (a name, a number, a quoted text) that begins with a zero byte, which no unpickler takes: many whole numbers of tensors
 * look so.
 */
static bool is_broken_line(const uint8_t *bytes, size_t len)
{
	return len > 1 && !bytes[1] && memchr("cigpPILFS", bytes[0], 9);
}

enum step {
	STEP_OPCODE,
	STEP_LONG, /* one whose operand is longer than the window: of OP the code is set */
	STEP_NONE, /* there is none, the file ends in its operand, or an error was said */
	STEP_CUT,  /* it is a line that ends behind the limit */
};

/* The opcode at *POS, and behind it. */
static enum step next(struct window *w, uint64_t *pos, struct ckpt_op *op)
{
	for (;;) {
		uint64_t end = w->off + w->len;
		struct ckpt_reader r;

		if ((*pos < w->off || *pos >= end || (end - *pos < MARGIN && end < w->size)) && !fill(w, *pos))
			return STEP_NONE;
		r = (struct ckpt_reader){ .data = w->bytes + (*pos - w->off), .len = w->len - (size_t)(*pos - w->off) };
		if (is_broken_line(r.data, r.len))
			return STEP_NONE;
		if (ckpt_op_read(&r, op, NULL) == 0) {
			*pos += r.pos;
			return STEP_OPCODE;
		}
		if (!r.bad || w->off + w->len == w->size)
			return STEP_NONE;
		if (*pos == w->off) {
			op->code = w->bytes[0];
			*pos = behind_long(w);
			return *pos ? STEP_LONG : w->limit < w->size && !width_of_length(op->code) ? STEP_CUT : STEP_NONE;
		}
		if (!fill(w, *pos))
			return STEP_NONE;
	}
}

static enum ckpt_scan_beginning walk(struct window *w, uint64_t *walked)
{
	struct ckpt_op op = { 0 };
	uint64_t pos = 0;
	bool magic = false;

	while (pos < w->size) {
		uint64_t start = pos;
		enum step step = next(w, &pos, &op);

		if (step == STEP_OPCODE && op.code == CKPT_OP_STOP)
			return magic && pos < w->size ? CKPT_SCAN_STREAM : CKPT_SCAN_NO_STREAM;
		if (step == STEP_OPCODE) {
			magic |= may_be_magic(&op);
			*walked += pos - start;
		} else if (step == STEP_LONG) {
			magic |= may_be_long_magic(op.code);
		} else {
			return CKPT_SCAN_NO_STREAM;
		}
	}
	return CKPT_SCAN_NO_STREAM;
}

enum ckpt_scan_beginning ckpt_scan_first_pickle(struct ckpt_scanner *s, struct ckpt_source *source)
{
	struct window w = { .s = s, .source = source, .size = ckpt_source_size(source), .limit = ckpt_source_size(source) };
	enum ckpt_scan_beginning begins;
	uint64_t walked = 0;

	if (w.size > s->pickle_budget) /* which is said where it is looked into as a pickle */
		return CKPT_SCAN_NOT_YET;
	w.bytes = malloc(WINDOW);
	s->no_memory |= !w.bytes;
	begins = w.bytes ? walk(&w, &walked) : CKPT_SCAN_NO_STREAM;
	s->pickle_budget -= walked / WALK; /* it is not longer than that */
	free(w.bytes);
	return begins;
}

static enum ckpt_scan_reach reach_in(struct window *w, uint64_t end)
{
	struct ckpt_op op = { 0 };
	uint64_t pos = 0;
	bool magic = false;

	while (pos < w->limit) {
		enum ckpt_scan_reach reach = pos < end ? CKPT_SCAN_ENDS_BEFORE : CKPT_SCAN_GOES_ON;

		switch (next(w, &pos, &op)) {
		case STEP_NONE: return reach;
		case STEP_CUT: return CKPT_SCAN_GOES_FAR;
		case STEP_LONG: magic |= may_be_long_magic(op.code); break;
		case STEP_OPCODE:
			if (op.code == CKPT_OP_FRAME && op.number > w->size - pos)
				return reach;
			if (op.code == CKPT_OP_STOP)
				return magic ? CKPT_SCAN_GOES_FAR : reach;
			magic |= may_be_magic(&op);
		}
	}
	return w->limit < w->size ? CKPT_SCAN_GOES_FAR : CKPT_SCAN_GOES_ON;
}

enum ckpt_scan_reach ckpt_scan_reach_of(struct ckpt_scanner *s, struct ckpt_source *source, uint64_t end, uint64_t limit)
{
	struct window w = { .s = s, .source = source, .size = ckpt_source_size(source), .limit = limit };
	enum ckpt_scan_reach reach = CKPT_SCAN_ENDS_BEFORE;

	w.bytes = malloc(WINDOW);
	s->no_memory |= !w.bytes;
	if (w.bytes)
		reach = reach_in(&w, end);
	free(w.bytes);
	return reach;
}
