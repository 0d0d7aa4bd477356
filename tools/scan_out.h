/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_SCAN_OUT_H
#define CKPT_TOOLS_SCAN_OUT_H

#include <ckpt/ckpt.h>

#include <stdio.h>

/*
 * Write what a scan found, file by file. FIRST: no file was written before. COUNTS: files by
 * verdict.
 */
void scan_json_begin(FILE *out);
void scan_json_file(FILE *out, const struct ckpt_scan_file *file, bool first);
void scan_json_failed(FILE *out, const char *path, const char *text, bool first);
void scan_json_end(FILE *out, const uint64_t *counts, uint64_t passed_over, bool whole);

/* SARIF 2.1.0, which code hosts and editors show. */
void scan_sarif_begin(FILE *out);
void scan_sarif_file(FILE *out, const struct ckpt_scan_file *file, bool *first);
void scan_sarif_end(FILE *out, bool whole);

#endif
