/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_PARTS_H
#define CKPT_TOOLS_PARTS_H

#include <ckpt/ckpt.h>

#include <stdio.h>

/* The lines of 'ckpt info': how much of the tensors is parameters, and what else makes a file large. */
void print_parts(const struct ckpt_parts *parts);

/* The same as an object, written to OUT. */
void print_parts_json(const struct ckpt_parts *parts, FILE *out);

#endif
