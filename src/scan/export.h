/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_EXPORT_H
#define CKPT_SCAN_EXPORT_H

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

#endif
