/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_LOADERS_EXPORT_H
#define CKPT_SCAN_LOADERS_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CKPT_EXPORT_SHOWN = 64 };

/*
 * Programs of torch.export are JSON, in which sizes that vary are formulas: torch.export.load gives
 * the text under "expr_str" to sympy, which has Python evaluate it. True if JSON has one that is
 * not put together of what torch writes there: SHOWN is its beginning, escaped by the caller.
 * Source: torch/_export/serde/serialize.py (_parse_sym_expr), torch/utils/_sympy/functions.py of
 * 2.1 to 2.14; sympy/parsing/sympy_parser.py.
 */
bool ckpt_scan_export_runs(const uint8_t *json, size_t len, char shown[CKPT_EXPORT_SHOWN]);

/* Is TEXT put together of names, numbers and operators that torch writes, with powers that do not grow without end? */
bool ckpt_scan_export_is_formula(const char *text, size_t len);

/* Is TEXT a condition on the sizes of inputs, as torch writes "L['x'].size()[0] >= 2", and no more? */
bool ckpt_scan_export_is_guard(const char *text, size_t len);

/*
 * Of such a program torch makes the source of a module in Python, and runs it: with the names of inputs, nodes, parameters and
 * arguments as they stand there, and conditions on sizes. True if JSON is a program and has a text that is neither such a name
 * or condition, nor where the source has it as a literal or not at all: SHOWN is its beginning. Source: torch/_export/serde/schema.py
 * and torch/fx/graph.py (CodeGen), torch/export/_unlift.py.
 */
bool ckpt_scan_export_writes(const uint8_t *json, size_t len, char shown[CKPT_EXPORT_SHOWN], bool *no_memory);

/*
 * What such a program imports: its specs of trees are JSON in a text of JSON, in which a default of a dict, and the class of an
 * enumeration, are named. They are listed as the names of a pickle are. Source: torch/utils/_pytree.py, _json_to_treespec().
 */
struct ckpt_scanner;
void ckpt_scan_export_imports(struct ckpt_scanner *s, const uint8_t *json, size_t len);

#endif
