/* SPDX-License-Identifier: Apache-2.0 */
#include "diff_table.h"

#include "command.h"
#include "grow.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdlib.h>

struct diff_row *diff_table_add(struct diff_table *table)
{
	void *grown = grow_array(table->rows, table->count, &table->cap, sizeof(*table->rows));

	if (!grown)
		return NULL;
	table->rows = grown;
	table->rows[table->count] = (struct diff_row){ 0 };
	return &table->rows[table->count++];
}

void diff_table_clear(struct diff_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		for (int c = 0; c < DIFF_CELLS; c++)
			free(table->rows[i].cells[c]);
	free(table->rows);
	*table = (struct diff_table){ 0 };
}

static void measure(const struct diff_table *table, const char *const *head, int *widths)
{
	for (int i = 0; i < DIFF_CELLS; i++) {
		int most = i == 0 ? name_most() : 1000;

		widths[i] = head && head[i] ? (int)text_columns(head[i]) : 0;
		for (uint64_t k = 0; k < table->count; k++) {
			const char *cell = table->rows[k].cells[i];
			int width = cell ? (int)text_columns(cell) : 0;

			if (width > widths[i] && width <= most)
				widths[i] = width;
		}
	}
}

/* Columns from RIGHT on are numbers, except the last. */
static void print_row(char *const *cells, const int *widths, int right)
{
	int spaces = 2; /* that are owed */

	for (int i = 0; i < DIFF_CELLS; i++) {
		const char *cell = cells[i] ? cells[i] : "";
		int fill = widths[i] - (int)text_columns(cell);
		bool is_number = i >= right && i < DIFF_CELLS - 1;

		fill = fill > 0 ? fill : 0;
		if (is_number)
			spaces += fill;
		if (*cell) {
			printf("%*s%s", spaces, "", cell);
			spaces = 0;
		}
		spaces += (is_number ? 0 : fill) + (widths[i] || *cell ? 2 : 0);
	}
	putchar('\n');
}

void diff_table_print(const struct diff_table *table, const char *const *head, int right,
		      const char *title, const char *option)
{
	int widths[DIFF_CELLS], rest = 2;
	char count[32];

	if (!table->count)
		return;
	measure(table, head, widths);
	for (int i = 1; i < DIFF_CELLS; i++)
		rest += widths[i] ? widths[i] + 2 : 0;
	widths[0] = fit_name(widths[0], rest);
	printf("%s%s:%s\n", bold(), title, plain());
	if (head)
		print_row((char *const *)head, widths, right);
	for (uint64_t i = 0; i < table->count; i++) {
		if (table->rows[i].cells[0])
			shorten(table->rows[i].cells[0], widths[0]);
		print_row(table->rows[i].cells, widths, right);
	}
	if (table->left_out)
		printf("  ... and %s more (%s 0 shows all)\n", grouped(table->left_out, count),
		       option);
}
