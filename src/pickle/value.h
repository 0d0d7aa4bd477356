/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object graph of a pickle, which the decoder makes and the encoder writes.
 *
 * What must stay true: one pointer is one Python object. Graphs may share values and may have
 * cycles, so walk them with an explicit stack and a bitmap over the ids. Nothing is ever executed:
 * what Python would call is a value that says so. Once the pickle is decoded, only `meaning`, which
 * the model sets, and the flags of the scan change. What later code relies on, such as a tuple of
 * arguments in every call, is checked where the value is made (make.c).
 */
#ifndef CKPT_PICKLE_VALUE_H
#define CKPT_PICKLE_VALUE_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum ckpt_value_kind {
	CKPT_NONE,
	CKPT_BOOL,	/* integer */
	CKPT_INT,	/* integer */
	CKPT_BIGINT,	/* bytes: two's complement, little-endian, shortest */
	CKPT_FLOAT,	/* real */
	CKPT_STR,	/* bytes: UTF-8, lone surrogates allowed */
	CKPT_PY2_STR,	/* bytes: a Python 2 str of unknown encoding */
	CKPT_BYTES,	/* bytes */
	CKPT_BYTEARRAY, /* bytes */
	CKPT_TUPLE,	/* seq */
	CKPT_LIST,	/* seq */
	CKPT_SET,	/* seq */
	CKPT_FROZENSET, /* seq */
	CKPT_DICT,	/* seq: key, value, key, value ... */
	CKPT_GLOBAL,	/* global: a class or function by name */
	CKPT_CALL,	/* call: an object made by calling something */
	CKPT_PERSID,	/* persid: something outside the pickle, in torch a storage */
	CKPT_EXT,	/* integer: code of the copyreg extension registry */
	/*
	 * folded: a CALL that rebuilds a tensor and is kept only as its place in the pickle; only
	 * if the caller of the decoder asked for it (pickle/fold.h)
	 */
	CKPT_FOLDED,
};

enum ckpt_value_flags {
	/* The value is exactly what a pickler should write: the resolver is not asked. */
	CKPT_VALUE_FINAL = 1 << 0,
	/*
	 * A string that Python has as one interned object: attribute names, module names,
	 * constants. Equal ones are one object, distinct from equal strings that came from a file.
	 */
	CKPT_VALUE_INTERNED = 1 << 1,
	/* A PERSID in place of a value that could not be read; its pid is a str that says why. */
	CKPT_VALUE_MISSING = 1 << 3,
	/* A string, or bytes, that a conversion made: never the same object as any other. */
	CKPT_VALUE_DISTINCT = 1 << 2,
	/* A call that also takes the reader of its archive: it can be shown but not written. */
	CKPT_VALUE_BOUND = 1 << 4,
	/* Bits 5 and 6 belong to the scan: see scan/walk.h. */
	/* The pickle takes it from the memo at least once, or DUPs it: it is one object in several places. */
	CKPT_VALUE_SHARED = 1 << 7,
};

/* Items of a dict (keys and values) that may be set as the state of one object a second time. */
enum { CKPT_MOST_REPEATED_STATE = 512 };

struct ckpt_value;

struct ckpt_seq {
	const struct ckpt_value **items;
	uint32_t count, cap;
};

struct ckpt_global {
	const char *module, *name; /* end with a NUL; NULs inside were refused */
	uint32_t module_len, name_len;
};

enum ckpt_call_kind {
	CKPT_CALL_REDUCE,    /* func(*args) */
	CKPT_CALL_NEWOBJ,    /* func.__new__(func, *args) */
	CKPT_CALL_NEWOBJ_EX, /* func.__new__(func, *args, **kwargs) */
};

/*
 * What was called, and what was done to the result afterwards, in the order in which pickle does
 * it. Several values may share a call that has no arguments and whose result was not changed.
 */
struct ckpt_call {
	const struct ckpt_value *func, *args; /* args: a tuple; make.c refuses all else */
	const struct ckpt_value *kwargs;      /* NEWOBJ_EX only, else NULL */
	struct ckpt_seq items;		      /* APPEND(S), ADDITEMS */
	struct ckpt_seq pairs;		      /* SETITEM(S): key, value, ... */
	const struct ckpt_value *state;	      /* BUILD; NULL: none */
	const struct ckpt_value *setter;      /* called as setter(object, state) instead of BUILD */
	uint8_t kind;			      /* enum ckpt_call_kind */
	/*
	 * The last argument was an empty dict at the time of the call, whatever was added to it
	 * afterwards: an object that is part of its own attributes is made from such a dict.
	 */
	bool early;
	/* for the encoder: the tuple of arguments is an object that is used elsewhere, too */
	bool keeps_args;
};

struct ckpt_value {
	uint8_t kind, flags;
	uint32_t id;  /* index in the document; 0: has no identity, never shared */
	uint64_t pos; /* offset of the opcode that made it */
	union {
		int64_t integer;
		double real;
		struct {
			const char *ptr;
			uint64_t len;
		} bytes;
		struct ckpt_seq seq;
		const struct ckpt_global *global;
		struct ckpt_call *call;
		struct {
			const struct ckpt_value *pid;
			uint64_t meaning; /* 0 until the model knows what it names */
		} persid;
		struct {
			const struct ckpt_mold *mold; /* what many such tensors have in common */
			/* offset of its first opcode; POS: of its REDUCE */
			uint32_t start;
			uint32_t meaning; /* of its storage's PERSID */
		} folded;
	} u;
};

/* The one value without identity of its kind. */
extern const struct ckpt_value ckpt_value_none, ckpt_value_true, ckpt_value_false,
	ckpt_value_empty_tuple;

/* "int", "dict", ... as Python calls it, for messages. */
const char *ckpt_value_kind_name(const struct ckpt_value *v);

bool ckpt_value_is_str(const struct ckpt_value *v, const char *text);

/* A str of Python 3, or of Python 2, which torch.load decodes. */
static inline bool ckpt_value_is_text(const struct ckpt_value *v)
{
	return v->kind == CKPT_STR || v->kind == CKPT_PY2_STR;
}

bool ckpt_value_is_global(const struct ckpt_value *v, const char *module, const char *name);

/* True if V is an object made by calling (or instantiating) MODULE.NAME. */
bool ckpt_value_is_call_of(const struct ckpt_value *v, const char *module, const char *name);

/*
 * The items of V, key and value in turn, if it is a dict or an object that was filled like one
 * (OrderedDict, defaultdict, ...); else NULL. The decoder turns Python 2's OrderedDict, whose items
 * are a list in the argument, into one that was filled.
 */
const struct ckpt_seq *ckpt_value_pairs(const struct ckpt_value *v);

/*
 * Decode LEN bytes of UTF-8 in which protocol 2 writes bytes, one character for each. OUT has room
 * for LEN bytes. False: a character is above 255.
 */
bool ckpt_latin1_narrow(const char *text, uint64_t len, uint8_t *out, uint64_t *out_len);

/* The same in ARENA. False with *OUT NULL: no memory. */
bool ckpt_latin1_bytes(const char *text, uint64_t len, struct ckpt_arena *arena,
		       const uint8_t **out, uint64_t *out_len);

/* Append to a sequence in ARENA. False: no memory. */
bool ckpt_seq_add(struct ckpt_arena *arena, struct ckpt_seq *seq, const struct ckpt_value *v);
bool ckpt_seq_add_many(struct ckpt_arena *arena, struct ckpt_seq *seq,
		       const struct ckpt_value *const *items, uint32_t count);

#endif
