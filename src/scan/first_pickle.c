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

/* Behind the next end of a line at POS or later; 0: there is none. */
static uint64_t behind_line(struct window *w, uint64_t pos)
{
	for (; pos < w->size && fill(w, pos); pos += w->len) {
		const uint8_t *at = memchr(w->bytes, '\n', w->len);

		if (at)
			return pos + (uint64_t)(at - w->bytes) + 1;
	}
	return 0;
}

/* Behind the opcode at the beginning of the window, whose operand is longer than that; 0: than the file. */
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

static enum ckpt_scan_beginning walk(struct window *w, uint64_t *walked)
{
	uint64_t pos = 0;
	bool magic = false;

	while (pos < w->size) {
		uint64_t end = w->off + w->len;
		struct ckpt_reader r = { 0 };
		struct ckpt_op op;

		if ((pos < w->off || pos >= end || (end - pos < MARGIN && end < w->size)) && !fill(w, pos))
			return CKPT_SCAN_NO_STREAM;
		r = (struct ckpt_reader){ .data = w->bytes + (pos - w->off), .len = w->len - (size_t)(pos - w->off) };
		if (ckpt_op_read(&r, &op, NULL) == 0) {
			if (op.code == CKPT_OP_STOP)
				return magic && pos + 1 < w->size ? CKPT_SCAN_STREAM : CKPT_SCAN_NO_STREAM;
			magic |= may_be_magic(&op);
			pos += r.pos;
			*walked += r.pos;
			continue;
		}
		/* no opcode, or the file ends in its operand */
		if (!r.bad || w->off + w->len == w->size)
			return CKPT_SCAN_NO_STREAM;
		if (pos != w->off) {
			if (!fill(w, pos))
				return CKPT_SCAN_NO_STREAM;
			continue;
		}
		/* a number so long may have any zeros */
		magic |= w->bytes[0] == CKPT_OP_LONG4 || w->bytes[0] == CKPT_OP_INT || w->bytes[0] == CKPT_OP_LONG;
		pos = behind_long(w);
		if (!pos)
			return CKPT_SCAN_NO_STREAM;
	}
	return CKPT_SCAN_NO_STREAM;
}

enum ckpt_scan_beginning ckpt_scan_first_pickle(struct ckpt_scanner *s, struct ckpt_source *source)
{
	struct window w = { .s = s, .source = source, .size = ckpt_source_size(source) };
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
