/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_MAKE_H
#define CKPT_PICKLE_MAKE_H

#include "pickle/machine.h"

/*
 * Inside of the decoder: the opcodes that make a value. Each takes its operands from m->op and from
 * the stack, pushes what it made, and returns 0 or a negative status with the message in m->err.
 */
int ckpt_make_int(struct ckpt_machine *m, int64_t integer);
int ckpt_make_float(struct ckpt_machine *m);

/* Numbers and strings that are written as text; LONG1 and LONG4. */
int ckpt_make_literal(struct ckpt_machine *m);

/* KIND: one of those with bytes */
int ckpt_make_bytes(struct ckpt_machine *m, uint8_t kind);

/* A tuple, list, set or dict of COUNT values that were just taken off the stack. */
int ckpt_make_seq(struct ckpt_machine *m, uint8_t kind, const struct ckpt_value *const *items,
		  uint32_t count);
int ckpt_make_tuple(struct ckpt_machine *m, uint32_t count); /* of the topmost COUNT */
int ckpt_make_marked(struct ckpt_machine *m, uint8_t kind);  /* of everything above the mark */

int ckpt_make_global(struct ckpt_machine *m);
int ckpt_make_stack_global(struct ckpt_machine *m);

/* KIND: enum ckpt_call_kind; OPERANDS: 2, or 3 with keyword arguments */
int ckpt_make_call(struct ckpt_machine *m, uint8_t kind, size_t operands);

/* INST and OBJ: instances of Python 2's old-style classes. */
int ckpt_make_instance(struct ckpt_machine *m);
int ckpt_make_persid(struct ckpt_machine *m);
int ckpt_make_ext(struct ckpt_machine *m);

#endif
