/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_DECODE_H
#define CKPT_PICKLE_DECODE_H

#include "pickle/value.h"

/* A decoded pickle. Everything hangs on the arena; strings are borrowed from the input bytes. */
struct ckpt_pickle {
	struct ckpt_arena *arena;      /* owned */
	const struct ckpt_value *root; /* arena */
	struct ckpt_seq persids;       /* every PERSID value, in the order of the stream */
	uint32_t next_id;	       /* ids 1 .. next_id-1 are taken */
	uint8_t protocol;	       /* highest PROTO seen; 0 or 1 if there was none */
	bool python_batches; /* written by the pure-Python pickler: see ckpt_pickle_options */
	bool frames_wrong;   /* one ends in an opcode: Python's unpickler in Python refuses that */
	bool has_folded;     /* some values are FOLDED */
	uint64_t nbytes;     /* up to and with STOP; what follows was not looked at */
};

/*
 * Decode LEN bytes, protocols 0 to 5, into OUT. Nothing is executed. BUDGET limits the memory, in
 * bytes; the run time is linear in LEN. The bytes must outlive OUT. One thread.
 *
 * Returns 0, CKPT_E_FORMAT (with the offset of the opcode), CKPT_E_LIMIT or CKPT_E_NOMEM.
 */
int ckpt_pickle_decode(const void *bytes, size_t len, uint64_t budget, struct ckpt_pickle *out,
		       struct ckpt_error *err);

/* The same, ids from FIRST_ID on: the values of several pickles may then be parts of one graph. */
int ckpt_pickle_decode_from(uint32_t first_id, const void *bytes, size_t len, uint64_t budget,
			    struct ckpt_pickle *out, struct ckpt_error *err);

/*
 * As an unpickler's persistent_load(): *OUT is what a persistent id stands for, a value that the
 * caller made; NULL: a PERSID that says the id, as without it. Returns 0 or a negative status.
 */
struct ckpt_persistent_load {
	int (*load)(void *ctx, const struct ckpt_value *pid, const struct ckpt_value **out,
		    struct ckpt_error *err);
	void *ctx;
};

/* The same with PERSISTENT, whose values have ids below FIRST_ID and outlive OUT. */
int ckpt_pickle_decode_with(const struct ckpt_persistent_load *persistent, uint32_t first_id,
			    const void *bytes, size_t len, uint64_t budget, struct ckpt_pickle *out,
			    struct ckpt_error *err);

/*
 * The same, in which tensors may be FOLDED, which takes a fifth of the memory: for whoever looks at
 * each only once, or not at all.
 */
int ckpt_pickle_decode_folded(uint32_t first_id, const void *bytes, size_t len, uint64_t budget,
			      struct ckpt_pickle *out, struct ckpt_error *err);
void ckpt_pickle_clear(struct ckpt_pickle *pickle);

#endif
