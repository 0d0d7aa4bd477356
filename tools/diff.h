/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_DIFF_H
#define CKPT_TOOLS_DIFF_H

#include "command.h"

/* What 'ckpt diff' prints of one comparison. A and B: the files as they were named. */
struct diff_names {
	const char *a, *b;
};

/* The words of enum ckpt_difference_what, lowest bit first; ends with NULL. */
extern const char *const diff_words[];

/* ---- as text ---- */

struct diff_text;

struct diff_text *diff_text_new(const struct diff_names *names, uint64_t limit);
void diff_text_free(struct diff_text *text);

/* For ckpt_diff(); CTX is a struct diff_text. */
int diff_text_add(void *ctx, const struct ckpt_difference *f);

/* Print all tables and the summary. QUICK: bytes were not compared. */
void diff_text_print(struct diff_text *text, const struct ckpt_diff_report *r, bool quick);

/* ---- as JSON ---- */

struct diff_json {
	FILE *out;
	bool any, quick;
};

void diff_json_begin(struct diff_json *json, const char *path, bool first);
int diff_json_add(void *ctx, const struct ckpt_difference *f);
void diff_json_end(struct diff_json *json, const struct ckpt_diff_report *r,
		   const struct ckpt_error *err);

#endif
