/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_DIFF_TABLE_H
#define CKPT_TOOLS_DIFF_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* A table of 'ckpt diff': rows are kept until it is printed, when the widest cells are known. */
enum { DIFF_CELLS = 10 };

struct diff_row {
	char *cells[DIFF_CELLS]; /* malloc; those behind the last one are NULL */
};

struct diff_table {
	struct diff_row *rows; /* malloc */
	size_t count, cap;
	size_t more;	   /* of these, rows that the limit does not count */
	uint64_t left_out; /* rows beyond the limit */
};

/* A row without cells at the end; NULL: no memory. It is the table's, and moves with the next one. */
struct diff_row *diff_table_add(struct diff_table *table);

/*
 * Print TITLE, HEAD if it is not NULL, and the rows; nothing of a table without rows. Columns from RIGHT on are
 * numbers, except the last. OPTION says how many rows there are at most. Long names are shortened in place.
 */
void diff_table_print(const struct diff_table *table, const char *const *head, int right,
		      const char *title, const char *option);
void diff_table_clear(struct diff_table *table);

#endif
