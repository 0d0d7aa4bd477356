/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_EMIT_H
#define CKPT_PICKLE_EMIT_H

#include "base/buf.h"
#include "base/strmap.h"
#include "pickle/opcodes.h"
#include "pickle/value.h"

/*
 * The bytes of a pickle being written: opcodes in frames, numbers and strings in the shortest form
 * of the protocol, and the memo. Knows nothing of containers; that is encode.c.
 */
struct ckpt_emitter {
	uint8_t protocol;
	bool interned_letters_apart; /* see ckpt_pickle_options */
	bool framing;
	size_t frame_start; /* SIZE_MAX: no frame is open */
	struct ckpt_buf *out;
	struct ckpt_error *err;

	uint32_t *memo; /* by id: memo index + 1, 0 if not written yet */
	size_t memo_cap;
	uint32_t memo_count;
	uint32_t short_str[257], short_bytes[257]; /* by code point; 256: empty */
	struct ckpt_strmap named; /* globals and interned strings, by content, to an index of: */
	uint32_t *named_memo;	  /* memo index + 1 */
	size_t named_cap;
	struct ckpt_arena *names; /* owned: keys of NAMED */
};

int ckpt_emitter_init(struct ckpt_emitter *e, uint8_t protocol, struct ckpt_buf *out,
		      struct ckpt_error *err);
void ckpt_emitter_clear(struct ckpt_emitter *e);

/* ---- bytes; a failed allocation shows in the buffer at the end ---- */

void ckpt_emit(struct ckpt_emitter *e, const void *bytes, size_t len);
void ckpt_emit_op(struct ckpt_emitter *e, enum ckpt_opcode op);
void ckpt_emit_op_le(struct ckpt_emitter *e, enum ckpt_opcode op, uint64_t v, unsigned width);

/* An opcode, a length of WIDTH bytes, the bytes. Long ones stand outside of frames. */
void ckpt_emit_payload(struct ckpt_emitter *e, enum ckpt_opcode op, unsigned width,
		       const char *bytes, uint64_t len);

/* Where a frame may end: in front of every value. */
void ckpt_emit_boundary(struct ckpt_emitter *e);
void ckpt_emit_close_frame(struct ckpt_emitter *e);

/* ---- numbers and strings, without the memo ---- */

int ckpt_emit_int(struct ckpt_emitter *e, int64_t v);
int ckpt_emit_long(struct ckpt_emitter *e, const uint8_t *bytes, size_t len);
void ckpt_emit_float(struct ckpt_emitter *e, double v);
void ckpt_emit_bool(struct ckpt_emitter *e, bool v);
int ckpt_emit_str(struct ckpt_emitter *e, const char *text, uint64_t len);
void ckpt_emit_bytes(struct ckpt_emitter *e, const char *bytes, uint64_t len);

/* ---- memo ---- */

/*
 * The name of a module, class or function: written, or referred to. OWNER tells whose string it is:
 * 's' the interned one, which all Python code shares; 0 one that is made for every save; any other
 * letter one string of that owner, which is not the interned one.
 */
int ckpt_emit_name(struct ckpt_emitter *e, char owner, const char *text, size_t len);

/*
 * Where the memo index of V is kept: by identity, or by content if CPython has only one such
 * object. NULL: V has no identity (id 0), or, with *FAILED set, there is no memory.
 */
uint32_t *ckpt_emit_slot(struct ckpt_emitter *e, const struct ckpt_value *v, bool *failed);

/* Give V the next memo index. */
int ckpt_emit_memoize(struct ckpt_emitter *e, const struct ckpt_value *v);
void ckpt_emit_get(struct ckpt_emitter *e, uint32_t index);

/* 1: V was written before and is now referred to. */
int ckpt_emit_get_if_memoized(struct ckpt_emitter *e, const struct ckpt_value *v);

#endif
