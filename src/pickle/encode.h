/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_ENCODE_H
#define CKPT_PICKLE_ENCODE_H

#include "base/buf.h"
#include "pickle/value.h"

/*
 * Asked about every value that is not CKPT_VALUE_FINAL, before it is written: returns the value to
 * write in its place (V itself: as it is). NULL: failed, ERR is filled. The answer may live in
 * SCRATCH, which is given back once the value is written. The answer's id is its identity: same
 * id = same object = written once.
 */
typedef const struct ckpt_value *ckpt_pickle_resolve(void *ctx, const struct ckpt_value *v,
						     struct ckpt_arena *scratch,
						     struct ckpt_error *err);

struct ckpt_pickle_options {
	uint8_t protocol; /* 1 to 5; torch.save writes 2 */
	/*
	 * The pure-Python pickler writes the last batch of long lists and dicts in another way than
	 * the C pickler: a batch of one has no MARK, a full dict batch is not followed by an empty
	 * one.
	 */
	bool python_batches;
	/*
	 * Python 3.11: an interned string of one letter is not the object that the process
	 * otherwise has for that letter.
	 */
	bool python311;
	/*
	 * Python 3.13: a nested class (module.A.B) is written as getattr of a GLOBAL that is not
	 * memoised; before, as an ordinary call of getattr.
	 */
	bool python313_nested;
	/*
	 * torch 2.14: torch._C.Generator is made when torch is loaded, and holds a string of its
	 * own as the name of its module.
	 */
	bool heap_generator;
	uint64_t most_bytes;	      /* of output; 0: no limit. Beyond it CKPT_E_LIMIT */
	ckpt_pickle_resolve *resolve; /* may be NULL */
	void *ctx;
};

/*
 * Append to OUT the bytes that CPython's C pickler would write for the graph under ROOT: order,
 * batches, memo numbers, frames. Ids may go up to any number; memory is a few bytes per id.
 *
 * Source of the rules: experiments with CPython 3.6 to 3.14; Modules/_pickle.c.
 * Returns 0, CKPT_E_UNSUPPORTED (the protocol has no way to write a value), CKPT_E_LIMIT (depth),
 * CKPT_E_NOMEM or what the resolver failed with.
 */
int ckpt_pickle_encode(const struct ckpt_value *root, const struct ckpt_pickle_options *options,
		       struct ckpt_buf *out, struct ckpt_error *err);

#endif
