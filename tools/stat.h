/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_STAT_H
#define CKPT_TOOLS_STAT_H

#include <ckpt/ckpt.h>

#include <stdio.h>

struct stat_row {
	struct ckpt_stat_item item;
	struct ckpt_stat_values values;
	uint64_t number;     /* in the file */
	uint64_t tensors;    /* of a group, of which ITEM has name, dtype and bytes; 0: one item */
	uint64_t unreadable; /* ... of these */
};

/* What 'ckpt stat' found, in the order in which it is shown. */
struct stat_page {
	const struct ckpt_stat *stat;
	struct stat_row *rows;
	uint64_t count;
	struct stat_row *groups; /* with --depth: the table shows these, and not the rows */
	uint64_t group_count;
	const double *quantiles; /* that are wanted */
	size_t quantile_count;
	uint64_t not_finite; /* rows with NaN or infinity */
	uint64_t unreadable; /* rows that have values which could not be read */
};

/* "[2, 5]", for item I of an array of that shape; BUF of SIZE bytes. */
const char *stat_index_text(uint64_t i, uint32_t ndim, const uint64_t *shape, char *buf,
			    size_t size);

/* Columns that a histogram is drawn in, from the width of the terminal. */
unsigned stat_bar_width(void);

void stat_print_table(const struct stat_page *page);
void stat_print_json(const struct stat_page *page, FILE *out);

#endif
