/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of keys: their hashes, as far as the file determines them, and what they are equal by. */
#ifndef CKPT_SCAN_KEYS_H
#define CKPT_SCAN_KEYS_H

#include "scan/walk.h"

/*
 * Numbers in a key. numpy 2 rounds one of Python to the type of its own before it compares both, numpy 1 does not. That matters where
 * two are of one hash, and not the same: so is 314159 and an infinite number, and what differs by a multiple of 2^61 - 1, which is
 * rounded off from 2^84 on.
 */
enum ckpt_key_numbers {
	CKPT_KEY_NUMPY_INFINITE = 1 << 0,
	CKPT_KEY_NUMPY_HUGE = 1 << 1, /* 2^84 or more */
	CKPT_KEY_OVER = 1 << 2,	      /* of Python, and more than a number of 16 bits can be */
	CKPT_KEY_HUGE = 1 << 3,	      /* an integer of more than 64 bits */
	/* a complex number has the hash of very many */
	CKPT_KEY_NUMPY_SMALL = 1 << 4, /* of fewer bits than one of Python */
	CKPT_KEY_COMPLEX = 1 << 5,     /* of Python, and not of small integers */
};

/* One key that is looked at. */
struct ckpt_key {
	struct ckpt_scan_walk *w;
	uint64_t nodes, bytes; /* that were looked at */
	/* a call makes it, or part of it; exact: it is a number or text, and not known which */
	bool is_unknown;
	bool is_too_much;
	/*
	 * asked is what Python takes for the same: equal keys have one number, and others have
	 * different ones, as -1 and -2, whose hash is the same
	 */
	bool is_exact;
	enum ckpt_scan_encoding encoding;
	bool has_py2_text;
	unsigned numbers; /* enum ckpt_key_numbers, where it is exact */
	/* of dates and spans of numpy in it, by which it is known what they equal of the same unit only; 0: there are none */
	uint64_t unit;
	/* of dates and times in it, the same way; two of no zone and of one are never equal */
	uint64_t zone;
};

/* Of a value, and what is in it. DEPTH: of tuples above it. */
uint64_t ckpt_key_number(struct ckpt_key *k, const struct ckpt_value *v, unsigned depth);

uint64_t ckpt_key_of_text(const char *text, uint64_t len);
uint64_t ckpt_key_of_tuple(struct ckpt_key *k, const struct ckpt_seq *items, unsigned depth);
uint64_t ckpt_key_of_set(struct ckpt_key *k, const struct ckpt_seq *items, unsigned depth);
/* FNV-1a */
static const uint64_t CKPT_KEY_NO_BYTES = 0xCBF29CE484222325;
static inline uint64_t ckpt_key_with_byte(uint64_t number, uint8_t byte)
{
	return (number ^ byte) * 0x100000001B3;
}

/* Exact, of what torch has by NAME, by its last part: `torch.strided`, `torch.channels_last`. */
uint64_t ckpt_key_of_constant(const char *name, uint64_t len);
/* Exact, of bytes, and of an int or float (identity.c). */
uint64_t ckpt_key_of_bytes(const char *bytes, uint64_t len);
uint64_t ckpt_key_of_number(const struct ckpt_value *v);
/* Exact, of a call of RULE. False: it equals nothing but itself. */
bool ckpt_key_of_call(struct ckpt_key *k, const struct ckpt_scan_rule *rule, const struct ckpt_value *v, unsigned depth, uint64_t *number);

#endif
