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

/* What is asked for. */
struct diff_view {
	uint64_t limit;		    /* rows of a table; 0: all */
	uint64_t top;		    /* ... of that of changed tensors */
	const char *top_option;	    /* the option that says so: "--limit", "--top" */
	uint64_t depth;		    /* sum up changed tensors by so many first parts; 0: do not */
	enum ckpt_diff_order order; /* of these sums */
};

/* ---- several changed tensors together (diff_sums.c) ---- */

struct diff_sum {
	char *name; /* malloc: what all names begin with */
	uint64_t tensors, other_shape, other_dtype, other_device, no_numbers;
	struct ckpt_diff_numbers
		numbers; /* of all of them; has_numbers is false if there are none */
	double diff2, a2, b2, ab;
};

/* In the order in which they came, or, after diff_sums_finish(), one for each name. */
struct diff_sums {
	struct diff_sum *items; /* malloc */
	size_t count, cap;
};

/*
 * Add the tensor to SUM, whose name becomes what both names begin with, or to the sum of the first
 * DEPTH parts of its name. False: no memory.
 */
bool diff_sum_add(struct diff_sum *sum, const struct ckpt_difference *f);
bool diff_sums_add(struct diff_sums *sums, const struct ckpt_difference *f, uint64_t depth);

/* Make one of those with the same name, in ORDER. */
void diff_sums_finish(struct diff_sums *sums, enum ckpt_diff_order order);
void diff_sum_clear(struct diff_sum *sum);
void diff_sums_clear(struct diff_sums *sums);

/* Cut NAME to what it and OTHER begin with: whole parts. */
void diff_name_shorten(char *name, const char *other);

/* ---- as text ---- */

struct diff_text;

struct diff_text *diff_text_new(const struct diff_names *names, const struct diff_view *view);
void diff_text_free(struct diff_text *text);

/* For ckpt_diff(); CTX is a struct diff_text. */
int diff_text_add(void *ctx, const struct ckpt_difference *f);

/* Print all tables and the summary. QUICK: bytes were not compared. False: no memory. */
bool diff_text_print(struct diff_text *text, const struct ckpt_diff_report *r, bool quick);

/* ---- as JSON ---- */

struct diff_json {
	FILE *out;
	bool any, quick;
	struct diff_view view;
	struct diff_sums blocks; /* with a depth */
};

void diff_json_begin(struct diff_json *json, const char *path, bool first);
int diff_json_add(void *ctx, const struct ckpt_difference *f);
void diff_json_end(struct diff_json *json, const struct ckpt_diff_report *r,
		   const struct ckpt_error *err);

#endif
