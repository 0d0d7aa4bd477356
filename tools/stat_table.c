/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of 'ckpt stat', and histograms in it.
 *
 * What must stay true: widths are measured of the same rows that are printed (is_shown()), and of
 * the totals, so that columns line up. A bin with anything in it can be seen: its level is
 * rounded up.
 */
#include "command.h"
#include "stat.h"
#include "terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	NUMBER = 10, /* columns of a number */
	LEAST_BAR = 10,
	MOST_BAR = 40,
	DEFAULT_WIDTH = 80,
};

struct stat_widths {
	int name, dtype, shape, zeros, nans, infinities;
};

/* ---- texts ---- */

static const char *dims_text(uint32_t ndim, const uint64_t *shape, char *buf, size_t size)
{
	struct ckpt_tensor_info t = { .ndim = ndim, .shape = shape };

	return shape_text(&t, buf, size);
}

const char *stat_index_text(uint64_t i, uint32_t ndim, const uint64_t *shape, char *buf,
			    size_t size)
{
	uint64_t at[64] = { 0 };

	for (uint32_t d = ndim < 64 ? ndim : 64; d-- > 0; i /= shape[d])
		at[d] = i % shape[d];
	return dims_text(ndim, at, buf, size);
}

/* BUF has 32 bytes. */
static const char *real_text(double v, char *buf)
{
	if (isnan(v))
		return "-";
	return number_text(buf, 32, "%.4g", v);
}

/* Integers exactly, as far as there is room. */
static const char *extreme_text(const struct ckpt_stat_values *v, bool max, char *buf)
{
	int64_t n = max ? v->max_integer : v->min_integer;

	if (v->is_integer && !v->is_unsigned && n > -100000000 && n < 1000000000) {
		snprintf(buf, 32, "%" PRId64, n);
		return buf;
	}
	return real_text(max ? v->max : v->min, buf);
}

static const char *absmax_text(const struct ckpt_stat_values *v, char *buf)
{
	if (v->is_integer && v->absmax_integer < 1000000000) {
		snprintf(buf, 32, "%" PRIu64, v->absmax_integer);
		return buf;
	}
	return real_text(v->absmax, buf);
}

/* ---- rows ---- */

static bool is_bad(const struct ckpt_stat_values *v)
{
	return v->nans || v->infinities;
}

static bool is_shown(const struct stat_row *row)
{
	return !quiet || is_bad(&row->values) || row->item.unreadable || row->unreadable;
}

/* The third column: of a group, how many values it has. */
static const char *extent_text(const struct stat_row *row, char *buf, size_t size)
{
	char count[32];

	if (!row->tensors)
		return dims_text(row->item.ndim, row->item.shape, buf, size);
	snprintf(buf, size, "%s", grouped(row->values.count, count));
	return buf;
}

static void measure_counts(const struct ckpt_stat_values *v, struct stat_widths *w)
{
	char text[32];

	w->zeros = wider(w->zeros, strlen(grouped(v->zeros, text)), 20);
	w->nans = wider(w->nans, strlen(grouped(v->nans, text)), 20);
	w->infinities = wider(w->infinities, strlen(grouped(v->infinities, text)), 20);
}

static const char *dtype_text(const struct ckpt_stat_item *item)
{
	return item->dtype ? item->dtype : "mixed"; /* only a group has none */
}

static struct stat_widths measure(const struct stat_page *page, const struct stat_row *rows,
				  uint64_t count)
{
	struct stat_widths w = {
		.name = 10, .dtype = 7, .shape = 12, .zeros = 5, .nans = 3, .infinities = 3
	};
	char text[1024];

	for (uint64_t i = 0; i < count; i++) {
		const struct ckpt_stat_item *item = &rows[i].item;

		if (!is_shown(&rows[i]))
			continue;
		ckpt_escape(text, sizeof(text), item->name, strlen(item->name));
		w.name = wider(w.name, text_columns(text), name_most());
		w.dtype = wider(w.dtype, strlen(dtype_text(item)), 20);
		w.shape = wider(w.shape, strlen(extent_text(&rows[i], text, sizeof(text))), 28);
		measure_counts(&rows[i].values, &w);
	}
	for (uint64_t i = 0; i < ckpt_stat_total_count(page->stat); i++) {
		struct ckpt_stat_values values = CKPT_STAT_VALUES_INIT;

		ckpt_stat_total_get(page->stat, i, NULL, &values);
		measure_counts(&values, &w);
	}
	w.name = fit_name(w.name, w.dtype + w.shape + 3 * 2 + (int)(6 + page->quantile_count) * (NUMBER + 1) + 1 + w.zeros + 1 + w.nans + 1 + w.infinities);
	return w;
}

static void print_head(const struct stat_widths *w, const struct stat_page *page)
{
	print_padded("name", w->name);
	print_padded("dtype", w->dtype);
	print_padded(page->groups ? "values" : "shape", w->shape);
	printf("%*s %*s %*s %*s %*s %*s", NUMBER, "min", NUMBER, "max", NUMBER, "mean", NUMBER,
	       "std", NUMBER, "norm", NUMBER, "absmax");
	for (size_t i = 0; i < page->quantile_count; i++) {
		char text[32], number[32];

		snprintf(text, sizeof(text), "q%s",
			 number_text(number, sizeof(number), "%.9g", page->quantiles[i]));
		printf(" %*s", NUMBER, text);
	}
	printf("  %*s %*s %*s\n", w->zeros, "zeros", w->nans, "NaN", w->infinities, "Inf");
}

static void print_values(const struct ckpt_stat_values *v, const struct stat_widths *w,
			 const struct stat_page *page)
{
	char text[6][32], counts[3][32];

	printf("%*s %*s %*s %*s %*s %*s", NUMBER, extreme_text(v, false, text[0]), NUMBER,
	       extreme_text(v, true, text[1]), NUMBER, real_text(v->mean, text[2]), NUMBER,
	       real_text(v->std, text[3]), NUMBER, real_text(v->norm, text[4]), NUMBER,
	       absmax_text(v, text[5]));
	for (size_t i = 0; i < page->quantile_count; i++)
		printf(" %*s", NUMBER, v->quantiles ? real_text(v->quantiles[i], text[0]) : "-");
	printf("  %*s %*s %*s", w->zeros, grouped(v->zeros, counts[0]), w->nans,
	       grouped(v->nans, counts[1]), w->infinities, grouped(v->infinities, counts[2]));
}

static void print_group_notes(const struct stat_row *row)
{
	char count[32];

	printf("  %s tensor%s", grouped(row->tensors, count), plural(row->tensors));
	if (row->unreadable)
		printf(", %s cannot be read", grouped(row->unreadable, count));
}

static void print_notes(const struct stat_row *row)
{
	const struct ckpt_stat_item *item = &row->item;
	char text[1024];

	if (row->tensors) {
		print_group_notes(row);
		return;
	}
	if (item->is_magnitude)
		printf("  magnitudes");
	if (!strncmp(item->layout, "sparse", 6))
		printf("  of %s stored", grouped(row->values.count, text));
	else if (strcmp(item->layout, "strided"))
		printf("  %s", ckpt_escape(text, sizeof(text), item->layout, strlen(item->layout)));
	if (is_bad(&row->values))
		printf("  the first not finite at %s",
		       stat_index_text(item->first_not_finite, item->looked_ndim,
				       item->looked_shape, text, sizeof(text)));
	if (!item->counted)
		printf("  shared");
}

/* ---- histograms ---- */

/* True if no locale is named, or one with UTF-8. */
static bool has_blocks(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (int i = 0; i < 3; i++) {
		const char *v = getenv(names[i]);

		if (v && *v)
			return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
	}
	return true;
}

static unsigned terminal_width(void)
{
	const char *said = getenv("COLUMNS");
	struct winsize size;

	if (said && atoi(said) > 0)
		return (unsigned)atoi(said);
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	return DEFAULT_WIDTH;
}

unsigned stat_bar_width(void)
{
	unsigned width = terminal_width(), around = 2 * NUMBER + 6;

	if (width < around + LEAST_BAR)
		return LEAST_BAR;
	return width - around > MOST_BAR ? MOST_BAR : width - around;
}

/* Print one column for each bin. A bin with anything in it is visible. */
static void print_bins(const struct ckpt_stat_values *v)
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" },
				 *const letters[] = { " ", ".", ":", "-", "=", "+", "*", "#", "@" };
	const char *const *marks = has_blocks() ? blocks : letters;
	char low[32], high[32];
	uint64_t most = 1;

	if (!v->bins)
		return;
	for (uint32_t i = 0; i < v->bin_count; i++)
		most = v->bins[i] > most ? v->bins[i] : most;
	printf("  %*s |", NUMBER, real_text(v->low, low));
	for (uint32_t i = 0; i < v->bin_count; i++) {
		int level = (int)ceil((double)v->bins[i] / (double)most * 8);

		fputs(marks[level], stdout);
	}
	printf("| %s\n", real_text(v->high, high));
}

/* ---- all of it ---- */

static void print_row(const struct stat_row *row, const struct stat_widths *w,
		      const struct stat_page *page)
{
	const struct ckpt_stat_item *item = &row->item;
	char text[1024];

	ckpt_escape(text, sizeof(text), item->name, strlen(item->name));
	print_name(text, w->name);
	print_padded(dtype_text(item), w->dtype);
	print_padded(extent_text(row, text, sizeof(text)), w->shape);
	if (item->why_not) {
		printf("%s\n", item->why_not);
		return;
	}
	print_values(&row->values, w, page);
	print_notes(row);
	putchar('\n');
	print_bins(&row->values);
}

static void print_total(const struct stat_page *page, uint64_t i, const struct stat_widths *w)
{
	struct ckpt_stat_total total = CKPT_STAT_TOTAL_INIT;
	struct ckpt_stat_values values = CKPT_STAT_VALUES_INIT;
	char text[80], count[32];

	ckpt_stat_total_get(page->stat, i, &total, &values);
	snprintf(text, sizeof(text), "%s tensor%s", grouped(total.items, count),
		 plural(total.items));
	print_padded(text, w->name);
	print_padded(total.dtype ? total.dtype : "all", w->dtype);
	snprintf(text, sizeof(text), "%s value%s", grouped(values.count, count),
		 plural(values.count));
	print_padded(text, w->shape);
	print_values(&values, w, page);
	putchar('\n');
	print_bins(&values);
}

void stat_print_table(const struct stat_page *page)
{
	const struct stat_row *rows = page->groups ? page->groups : page->rows;
	uint64_t count = page->groups ? page->group_count : page->count;
	struct stat_widths w = measure(page, rows, count);
	uint64_t totals = ckpt_stat_total_count(page->stat);

	if (!quiet || page->not_finite || page->unreadable)
		print_head(&w, page);
	for (uint64_t i = 0; i < count; i++)
		if (is_shown(&rows[i]))
			print_row(&rows[i], &w, page);
	if (quiet)
		return;
	for (uint64_t i = 1; totals > 2 && i < totals; i++)
		print_total(page, i, &w);
	print_total(page, 0, &w);
}
