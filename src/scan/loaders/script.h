/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_LOADERS_SCRIPT_H
#define CKPT_SCAN_LOADERS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CKPT_SCRIPT_SHOWN = 48 };

/*
 * What the sources of a TorchScript archive do. A load compiles them all, and runs the __setstate__
 * of the classes whose objects the archive holds: that can do little but arithmetic, unless it
 * calls an operator that opens files or other machines, or one that came with a library. Source:
 * torch/csrc/jit/serialization/unpickler.cpp and import_source.cpp of 1.13 to 2.14; names of all
 * operators with an argument of text.
 */
struct ckpt_scan_script {
	bool sets_states;
	char outward[CKPT_SCRIPT_SHOWN]; /* the first name that reaches out; "": none */
	/*
	 * what a load computes although no __setstate__ does: the first default of an argument, or
	 * constant of a class, that is no literal
	 */
	char evaluated[CKPT_SCRIPT_SHOWN];
	/* deeper than torch's parser, which goes into itself, may be sent */
	bool is_deep;
};

struct ckpt_scanner;

void ckpt_scan_script_source(struct ckpt_scan_script *script, const uint8_t *text, size_t len);

/* What was found in all sources, about s->where. */
void ckpt_scan_script_report(struct ckpt_scanner *s, const struct ckpt_scan_script *script);

#endif
