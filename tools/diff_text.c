/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences of 'ckpt diff' as tables: one for each kind, with columns as wide as what stands in
 * them, and a sentence with all counts.
 *
 * Rows are kept until diff_text_print(), when the widest cells are known. --limit bounds how many
 * rows are kept, not how many are counted.
 *
 * What must stay true: entries of a container that only one side has arrive one after the other,
 * with WITHIN its name. They become one row, which add_one_sided() adds when anything else
 * arrives, and at the end. Changed tensors of an optimizer arrive behind all others, and counters
 * behind these: an optimizer becomes one row, which add_optimizer() adds in between.
 */
#include "diff.h"
#include "diff_table.h"
#include "terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum section {
	ONLY_A,
	ONLY_B,
	RENAMED,
	CHANGED,
	UNREADABLE,
	VALUES,
	SECTIONS,
};

enum { MOST_VALUE = 60 };

/* A container that only one side has: one row for everything in it. */
struct one_sided {
	char *name;
	uint64_t tensors, values, nbytes;
};

enum { MOST_KINDS = 6 };

/* Other values of an optimizer that changed, by the last word in their names: step, lr ... */
struct optimizer_values {
	char *name; /* malloc: what all names begin with; NULL: none */
	struct {
		char *word, *text; /* malloc: of the first one */
		uint64_t count;
		bool is_same; /* all texts are */
	} kinds[MOST_KINDS];
	uint64_t kind_count, count, others; /* OTHERS: of further kinds */
};

struct diff_text {
	struct diff_names names;
	struct diff_view view;
	struct diff_sums blocks;   /* with a depth */
	struct diff_sum optimizer; /* until its row is added; no tensors: none */
	struct diff_sum steps;	   /* its tensors of one number, which would drown the others */
	struct diff_sum counters;  /* with a depth */
	struct optimizer_values optimizer_values;
	struct diff_table tables[SECTIONS];
	struct one_sided one_sided; /* being counted; NULL name: none */
	enum ckpt_difference_kind one_sided_kind;
	bool bad; /* no memory for all rows */
};

/* ---- rows ---- */

/* Whatever the limit is. */
static struct diff_row *add_free_row(struct diff_text *t, enum section section)
{
	struct diff_row *row = diff_table_add(&t->tables[section]);

	t->bad |= !row;
	return row;
}

static struct diff_row *add_row(struct diff_text *t, enum section section)
{
	struct diff_table *table = &t->tables[section];
	uint64_t limit = section == CHANGED ? t->view.top : t->view.limit;

	if (limit && table->count - table->more >= limit) {
		table->left_out++;
		return NULL;
	}
	return add_free_row(t, section);
}

static void set_cell(struct diff_text *t, struct diff_row *row, int i, const char *text)
{
	row->cells[i] = strdup(text);
	t->bad |= !row->cells[i];
}

static void set_name(struct diff_text *t, struct diff_row *row, int i, const char *name)
{
	char shown[1024];

	set_cell(t, row, i,
		 *name ? ckpt_escape(shown, sizeof(shown), name, strlen(name)) : "(root)");
}

/* ---- cells ---- */

static const char *side_shape(const struct ckpt_diff_side *s, char *buf, size_t size)
{
	struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

	info.ndim = s->ndim;
	info.shape = s->shape;
	return shape_text(&info, buf, size);
}

/* "float32 [10, 8]", "numpy float64 [3]" */
static void array_text(const struct ckpt_diff_side *s, char *buf, size_t size)
{
	char shape[200];

	snprintf(buf, size, "%s%s %s", !strcmp(s->type, "ndarray") ? "numpy " : "", s->dtype,
		 side_shape(s, shape, sizeof(shape)));
}

static void value_text(const struct ckpt_diff_side *s, char *buf, size_t size)
{
	if (s->is_array)
		array_text(s, buf, size);
	else if (strlen(s->text) < MOST_VALUE)
		snprintf(buf, size, "%s", s->text);
	else
		snprintf(buf, size, "%.*s...", MOST_VALUE - 3, s->text);
}

/* What differs in a tensor, except its numbers. */
static void both_text(const struct ckpt_difference *f, char *buf, size_t size)
{
	char a[240], b[240];

	array_text(f->a, a, sizeof(a));
	if (f->what & CKPT_DIFFERS_TYPE && strcmp(f->a->type, f->b->type) != 0)
		array_text(f->b, b, sizeof(b));
	else if (f->what & CKPT_DIFFERS_SHAPE && f->what & CKPT_DIFFERS_DTYPE)
		array_text(f->b, b, sizeof(b));
	else if (f->what & CKPT_DIFFERS_SHAPE)
		side_shape(f->b, b, sizeof(b));
	else
		b[0] = '\0';
	if (b[0])
		snprintf(buf, size, "%s -> %s", a, b);
	else if (f->what & CKPT_DIFFERS_DTYPE)
		snprintf(buf, size, "%s -> %s %s", f->a->dtype, f->b->dtype,
			 side_shape(f->a, a, sizeof(a)));
	else
		snprintf(buf, size, "%s", a);
}

static void add_note(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void add_note(char *buf, size_t size, const char *fmt, ...)
{
	size_t used = strlen(buf);
	va_list args;

	if (used)
		used += (size_t)snprintf(buf + used, size - used, ", ");
	if (used >= size)
		return;
	va_start(args, fmt);
	vsnprintf(buf + used, size - used, fmt, args);
	va_end(args);
}

static void note_count(char *buf, size_t size, uint64_t n, const char *what)
{
	char count[32];

	if (n)
		add_note(buf, size, "%s %s", grouped(n, count), what);
}

static void note_texts(char *buf, size_t size, const char *a, const char *b)
{
	char shown_a[80], shown_b[80];

	add_note(buf, size, "%s -> %s", ckpt_escape(shown_a, sizeof(shown_a), a, strlen(a)),
		 ckpt_escape(shown_b, sizeof(shown_b), b, strlen(b)));
}

static void note_numbers(char *buf, size_t size, const struct ckpt_diff_numbers *n)
{
	note_count(buf, size, n->nan_appeared, "NaN appeared");
	note_count(buf, size, n->nan_vanished, "NaN vanished");
	note_count(buf, size, n->inf_appeared, "infinite appeared");
	note_count(buf, size, n->inf_vanished, "infinite vanished");
	note_count(buf, size, n->other_bits, "equal in other bits");
}

static void notes_text(const struct ckpt_difference *f, char *buf, size_t size)
{
	const struct ckpt_diff_numbers *n = f->numbers;

	buf[0] = '\0';
	if (n)
		note_numbers(buf, size, n);
	if (f->what & CKPT_DIFFERS_DEVICE)
		note_texts(buf, size, f->a->device, f->b->device);
	if (f->what & CKPT_DIFFERS_LAYOUT)
		note_texts(buf, size, f->a->layout, f->b->layout);
	if (f->what & (CKPT_DIFFERS_CLASS | CKPT_DIFFERS_TYPE)) {
		const char *a = f->a->class_name ? f->a->class_name : f->a->type;
		const char *b = f->b->class_name ? f->b->class_name : f->b->type;

		if (strcmp(a, b) != 0)
			note_texts(buf, size, a, b);
		else
			add_note(buf, size, "requires_grad");
	}
	if (f->what & CKPT_DIFFERS_KEYS)
		add_note(buf, size, "another key of this name");
	if (f->what & CKPT_DIFFERS_ATTRIBUTES)
		add_note(buf, size, "other attributes");
	if (f->what & CKPT_DIFFERS_QUANTIZER)
		add_note(buf, size, "quantized in another way");
	if (f->what & CKPT_DIFFERS_STRIDES)
		add_note(buf, size, "other strides");
	if (f->what & CKPT_DIFFERS_ORDER)
		add_note(buf, size, "from here on keys stand in another order");
	if (f->what & CKPT_DIFFERS_VALUE && !n && !(f->what & CKPT_DIFFERS_SHAPE))
		add_note(buf, size, "no numbers to compare");
}

static void set_number(struct diff_text *t, struct diff_row *row, int i, double v, const char *fmt)
{
	char text[40];

	if (isnan(v))
		snprintf(text, sizeof(text), "-");
	else
		number_text(text, sizeof(text), fmt, v);
	set_cell(t, row, i, text);
}

static void set_ulp(struct diff_text *t, struct diff_row *row, int i, const struct ckpt_diff_numbers *n)
{
	char text[40];

	if (!n->has_ulp)
		snprintf(text, sizeof(text), "-");
	else if (n->max_ulp < 10000000)
		snprintf(text, sizeof(text), "%" PRIu64, n->max_ulp);
	else
		number_text(text, sizeof(text), "%.2g", (double)n->max_ulp);
	set_cell(t, row, i, text);
}

static void set_numbers(struct diff_text *t, struct diff_row *row, const struct ckpt_diff_numbers *n)
{
	char text[80], a[32];

	snprintf(text, sizeof(text), n->differing == n->count ? "all" : "%s",
		 grouped(n->differing, a));
	set_cell(t, row, 2, text);
	if (!n->has_numbers)
		return;
	set_number(t, row, 3, n->change, "%.2e");
	set_number(t, row, 4, n->max_abs, "%.2e");
	set_number(t, row, 5, n->max_rel, "%.2e");
	set_number(t, row, 6, n->rms, "%.2e");
	set_number(t, row, 7, n->cosine, "%.7f");
	set_ulp(t, row, 8, n);
}

/* ---- what only one side has ---- */

/* Add the row of a container, once all of it is counted. */
static void add_one_sided(struct diff_text *t)
{
	struct one_sided *w = &t->one_sided;
	char text[1100], shown[1024], size[16], count[32];
	struct diff_row *row;

	if (!w->name)
		return;
	row = add_row(t, t->one_sided_kind == CKPT_DIFFERENCE_REMOVED ? ONLY_A : ONLY_B);
	if (row) {
		snprintf(text, sizeof(text), "%s.*",
			 ckpt_escape(shown, sizeof(shown), w->name, strlen(w->name)));
		set_cell(t, row, 0, text);
		text[0] = '\0';
		if (w->tensors)
			add_note(text, sizeof(text), "%s tensor%s with %s",
				 grouped(w->tensors, count), plural(w->tensors),
				 size_phrase(w->nbytes, size));
		if (w->values)
			add_note(text, sizeof(text), "%s other value%s", grouped(w->values, count),
				 plural(w->values));
		set_cell(t, row, 1, text);
	}
	free(w->name);
	*w = (struct one_sided){ 0 };
}

static void count_one_sided(struct diff_text *t, const struct ckpt_difference *f,
			    const struct ckpt_diff_side *side)
{
	struct one_sided *w = &t->one_sided;

	if (!w->name || strcmp(w->name, f->within) != 0 || t->one_sided_kind != f->kind) {
		add_one_sided(t);
		w->name = strdup(f->within);
		t->bad |= !w->name;
		t->one_sided_kind = f->kind;
	}
	w->tensors += side->is_array;
	w->values += !side->is_array;
	w->nbytes = sum(w->nbytes, side->nbytes);
}

static void add_only(struct diff_text *t, const struct ckpt_difference *f)
{
	const struct ckpt_diff_side *side = f->a ? f->a : f->b;
	struct diff_row *row;
	char text[300];

	if (f->within && !verbose) {
		count_one_sided(t, f, side);
		return;
	}
	add_one_sided(t);
	row = add_row(t, f->a ? ONLY_A : ONLY_B);
	if (!row)
		return;
	set_name(t, row, 0, f->name);
	value_text(side, text, sizeof(text));
	set_cell(t, row, 1, text);
}

/* ---- several tensors in one row ---- */

/* MORE: what follows "3 tensors". */
static void set_sum(struct diff_text *t, struct diff_row *row, const struct diff_sum *s,
		    const char *name, const char *more)
{
	char text[300], count[32];

	if (!row)
		return;
	set_name(t, row, 0, name);
	snprintf(text, sizeof(text), "%s tensor%s%s", grouped(s->tensors, count),
		 plural(s->tensors), more);
	set_cell(t, row, 1, text);
	if (s->numbers.count)
		set_numbers(t, row, &s->numbers);
	text[0] = '\0';
	note_numbers(text, sizeof(text), &s->numbers);
	note_count(text, sizeof(text), s->other_shape, "of another shape");
	note_count(text, sizeof(text), s->other_dtype, "of another dtype");
	note_count(text, sizeof(text), s->other_device, "on another device");
	note_count(text, sizeof(text), s->no_numbers, "without numbers to compare");
	set_cell(t, row, 9, text);
}

static void add_blocks(struct diff_text *t)
{
	diff_sums_finish(&t->blocks, t->view.order);
	for (size_t i = 0; i < t->blocks.count; i++)
		set_sum(t, add_row(t, CHANGED), &t->blocks.items[i], t->blocks.items[i].name, "");
	diff_sums_clear(&t->blocks);
}

/* Add the row of the optimizer, once all of it came. */
static void add_optimizer(struct diff_text *t)
{
	struct diff_sum *s = t->optimizer.tensors ? &t->optimizer : &t->steps;
	char name[1024], more[100] = "", count[32];

	add_blocks(t);
	if (!s->tensors)
		return;
	if (s != &t->steps && t->steps.tensors) {
		diff_name_shorten(s->name, t->steps.name);
		snprintf(more, sizeof(more), " and %s of one number",
			 grouped(t->steps.tensors, count));
	}
	if (s->tensors > 1 || *more)
		snprintf(name, sizeof(name), *s->name ? "%s.*" : "(optimizer)", s->name);
	else
		snprintf(name, sizeof(name), "%s", s->name);
	strcat(more, " of the optimizer");
	t->tables[CHANGED].more++;
	set_sum(t, add_free_row(t, CHANGED), s, name, more);
	diff_sum_clear(&t->optimizer);
	diff_sum_clear(&t->steps);
	t->optimizer = t->steps = (struct diff_sum){ 0 };
}

/* ---- what both have ---- */

static void add_renamed(struct diff_text *t, const struct ckpt_difference *f)
{
	struct diff_row *row = add_row(t, RENAMED);
	char text[300], other[1024];

	if (!row)
		return;
	set_name(t, row, 0, f->name);
	snprintf(text, sizeof(text), "-> %s",
		 ckpt_escape(other, sizeof(other), f->other_name, strlen(f->other_name)));
	set_cell(t, row, 1, text);
	array_text(f->a, text, sizeof(text));
	set_cell(t, row, 2, text);
	notes_text(f, text, sizeof(text));
	set_cell(t, row, 3, text);
}

static void add_changed(struct diff_text *t, const struct ckpt_difference *f)
{
	struct diff_row *row;
	char text[600];

	if (f->of_optimizer && !verbose) {
		t->bad |= !diff_sum_add(f->a->ndim || f->b->ndim ? &t->optimizer : &t->steps, f);
		return;
	}
	if (t->view.depth && f->is_counter) {
		t->bad |= !diff_sum_add(&t->counters, f);
		return;
	}
	if (t->view.depth && !f->of_optimizer) {
		t->bad |= !diff_sums_add(&t->blocks, f, t->view.depth);
		return;
	}
	add_optimizer(t);
	row = add_row(t, CHANGED);
	if (!row)
		return;
	set_name(t, row, 0, f->name);
	both_text(f, text, sizeof(text));
	set_cell(t, row, 1, text);
	if (f->numbers)
		set_numbers(t, row, f->numbers);
	notes_text(f, text, sizeof(text));
	set_cell(t, row, 9, text);
}

static void change_text(const struct ckpt_difference *f, char *text, size_t size)
{
	char a[160], b[160];

	value_text(f->a, a, sizeof(a));
	value_text(f->b, b, sizeof(b));
	if (!strcmp(a, b) || !(f->what & CKPT_DIFFERS_VALUE))
		snprintf(text, size, "%s -> %s%s", f->a->type, f->b->type,
			 f->what & CKPT_DIFFERS_ORDER ? ", in another order from here on" : "");
	else
		snprintf(text, size, "%s -> %s", a, b);
	if (f->what & CKPT_DIFFERS_KEYS)
		snprintf(text, size, "other keys, which names do not tell apart");
	else if (!strcmp(f->a->type, f->b->type) && !strcmp(a, b))
		snprintf(text, size, "%s",
			 f->what & CKPT_DIFFERS_VALUE ? a
						      : "from here on keys stand in another order");
}

/* The last part of NAME that is no number: lr of param_groups.0.lr. */
static void last_word(const char *name, char *buf, size_t size)
{
	size_t end = strlen(name), begin;

	for (;;) {
		begin = end;
		while (begin && name[begin - 1] != '.')
			begin--;
		if (!begin || strspn(name + begin, "0123456789") < end - begin)
			break;
		end = begin - 1;
	}
	ckpt_escape(buf, size, name + begin, end - begin);
}

static void count_optimizer_value(struct diff_text *t, const struct ckpt_difference *f)
{
	struct optimizer_values *o = &t->optimizer_values;
	char word[80], text[400];
	uint64_t i = 0;

	change_text(f, text, sizeof(text));
	last_word(f->name, word, sizeof(word));
	if (o->name)
		diff_name_shorten(o->name, f->name);
	else
		o->name = strdup(f->name);
	t->bad |= !o->name;
	o->count++;
	while (i < o->kind_count && strcmp(o->kinds[i].word, word) != 0)
		i++;
	if (i < o->kind_count) {
		o->kinds[i].count++;
		o->kinds[i].is_same &= !strcmp(o->kinds[i].text, text);
	} else if (i < MOST_KINDS) {
		o->kinds[i].word = strdup(word);
		o->kinds[i].text = strdup(text);
		o->kinds[i].count = 1;
		o->kinds[i].is_same = true;
		o->kind_count += o->kinds[i].word && o->kinds[i].text;
		t->bad |= o->kind_count == i;
	} else {
		o->others++;
	}
}

/* Add the row of the optimizer: "step 10 -> 20 (24 times), lr 0.1 -> 0.05" */
static void add_optimizer_values(struct diff_text *t)
{
	const struct optimizer_values *o = &t->optimizer_values;
	struct diff_row *row = o->count && !t->bad ? add_free_row(t, VALUES) : NULL;
	char text[2000] = "", name[1024], count[32];

	if (!row)
		return;
	t->tables[VALUES].more++;
	for (uint64_t i = 0; i < o->kind_count; i++) {
		add_note(text, sizeof(text), "%s %s", o->kinds[i].word, o->kinds[i].text);
		if (o->kinds[i].count > 1) {
			size_t used = strlen(text);

			snprintf(text + used, sizeof(text) - used,
				 o->kinds[i].is_same ? " (%s times)" : " (and %s more)",
				 grouped(o->kinds[i].count - !o->kinds[i].is_same, count));
		}
	}
	note_count(text, sizeof(text), o->others, "others");
	snprintf(name, sizeof(name),
		 o->count == 1 ? "%s"
		 : *o->name    ? "%s.*"
			       : "(optimizer)",
		 o->name);
	if (o->count == 1)
		snprintf(text, sizeof(text), "%s", o->kinds[0].text);
	set_name(t, row, 0, name);
	set_cell(t, row, 1, text);
}

static void add_value(struct diff_text *t, const struct ckpt_difference *f)
{
	struct diff_row *row;
	char text[400];

	if (f->of_optimizer && !verbose) {
		count_optimizer_value(t, f);
		return;
	}
	row = add_row(t, VALUES);
	if (!row)
		return;
	set_name(t, row, 0, f->name);
	change_text(f, text, sizeof(text));
	set_cell(t, row, 1, text);
}

static void add_unreadable(struct diff_text *t, const struct ckpt_difference *f)
{
	struct diff_row *row = add_row(t, UNREADABLE);

	if (!row)
		return;
	set_name(t, row, 0, f->name);
	set_cell(t, row, 1, f->text);
}

int diff_text_add(void *ctx, const struct ckpt_difference *f)
{
	struct diff_text *t = ctx;
	bool tensors = f->a && f->b && f->a->is_array && f->b->is_array;

	if (f->kind != CKPT_DIFFERENCE_REMOVED && f->kind != CKPT_DIFFERENCE_ADDED)
		add_one_sided(t);
	switch (f->kind) {
	case CKPT_DIFFERENCE_REMOVED:
	case CKPT_DIFFERENCE_ADDED: add_only(t, f); break;
	case CKPT_DIFFERENCE_RENAMED: add_renamed(t, f); break;
	case CKPT_DIFFERENCE_CHANGED: (tensors ? add_changed : add_value)(t, f); break;
	case CKPT_DIFFERENCE_UNREADABLE: add_unreadable(t, f); break;
	}
	return t->bad ? CKPT_E_NOMEM : 0;
}

/* ---- printing ---- */

/* How the next count begins. */
struct sentence {
	const char *before; /* "", ", " or "; " */
	const char *noun;   /* "tensor", to print with the next number; NULL: printed already */
};

static void print_part(struct sentence *s, uint64_t n, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void print_part(struct sentence *s, uint64_t n, const char *fmt, ...)
{
	char count[32];
	va_list args;

	if (!n)
		return;
	printf("%s%s ", s->before, grouped(n, count));
	if (s->noun)
		printf("%s%s ", s->noun, plural(n));
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	s->before = ", ";
	s->noun = NULL;
}

static void print_counts(const struct diff_text *t, const char *noun,
			 const struct ckpt_diff_counts *c, struct sentence *s)
{
	s->noun = noun;
	print_part(s, c->changed, "changed");
	print_part(s, c->renamed, "renamed");
	print_part(s, c->removed, "only in %s", t->names.a);
	print_part(s, c->added, "only in %s", t->names.b);
	print_part(s, c->unreadable, "cannot be compared");
	if (!s->noun)
		s->before = "; ";
}

static void print_same(const struct ckpt_diff_report *r, bool quick)
{
	uint64_t tensors = r->tensors.same, values = r->values.same;
	char count[32], size[16];

	if (tensors || r->same)
		printf("%s tensor%s", grouped(tensors, count), plural(tensors));
	if (!tensors && !r->same)
		; /* "0 tensors are the same" says nothing */
	else if (quick)
		printf(" by name, shape, dtype and device");
	else if (r->by_checksum == tensors && tensors)
		printf(" with %s by checksum", size_phrase(r->by_checksum_nbytes, size));
	else if (r->by_checksum)
		printf(" (%s by checksum)", grouped(r->by_checksum, count));
	if (values)
		printf("%s%s other value%s", tensors || r->same ? ", " : "", grouped(values, count), plural(values));
	if (!r->same)
		fputs(tensors + values == 1 ? " is the same" : " are the same", stdout);
}

static void print_summary(const struct diff_text *t, const struct ckpt_diff_report *r, bool quick)
{
	struct sentence s = { "", NULL };

	printf("%s %s%s%s %s%s: ", t->names.b, r->same ? green() : red(),
	       r->same ? "is the same as" : "is not the same as", plain(), t->names.a,
	       !r->same	       ? ""
	       : quick	       ? ", as far as --quick looks"
	       : r->by_checksum ? ", if its checksums are right"
				: "");
	print_counts(t, "tensor", &r->tensors, &s);
	print_counts(t, "other value", &r->values, &s);
	if (!r->same && (r->tensors.same || r->values.same))
		fputs("; ", stdout);
	if (r->same || r->tensors.same || r->values.same)
		print_same(r, quick);
	s = (struct sentence){ "; ", "tensor" };
	print_part(&s, r->tolerated, "differ%s within the tolerance", r->tolerated == 1 ? "s" : "");
	s = (struct sentence){ "; ", "tensor" };
	print_part(&s, r->other_bits, "with equal numbers in other bits (0 and -0, or NaN)");
	s = (struct sentence){ "; ", "dict" };
	print_part(&s, r->other_keys,
		   "with numbers for keys on one side and texts on the other (0 and '0')");
	putchar('\n');
}

bool diff_text_print(struct diff_text *t, const struct ckpt_diff_report *r, bool quick)
{
	static const char *const head[DIFF_CELLS] = {
		"name", "", "differ", "change", "max abs", "max rel", "rms", "cosine", "ulp", "",
	};
	static const char limit[] = "--limit";
	char title[1200];

	add_one_sided(t);
	add_optimizer(t);
	if (t->counters.tensors)
		set_sum(t, add_row(t, CHANGED), &t->counters, "(counters)", "");
	add_optimizer_values(t);
	if (t->bad)
		return false;
	snprintf(title, sizeof(title), "only in %s", t->names.a);
	diff_table_print(&t->tables[ONLY_A], NULL, DIFF_CELLS, title, limit);
	snprintf(title, sizeof(title), "only in %s", t->names.b);
	diff_table_print(&t->tables[ONLY_B], NULL, DIFF_CELLS, title, limit);
	diff_table_print(&t->tables[RENAMED], NULL, DIFF_CELLS, "the same values under other names",
		    limit);
	diff_table_print(&t->tables[CHANGED], quick ? NULL : head, 2, "changed tensors",
		    t->view.top_option);
	diff_table_print(&t->tables[UNREADABLE], NULL, DIFF_CELLS, "cannot be compared", limit);
	diff_table_print(&t->tables[VALUES], NULL, DIFF_CELLS, "other values", limit);
	print_summary(t, r, quick);
	return true;
}

struct diff_text *diff_text_new(const struct diff_names *names, const struct diff_view *view)
{
	struct diff_text *t = calloc(1, sizeof(*t));

	if (t) {
		t->names = *names;
		t->view = *view;
	}
	return t;
}

void diff_text_free(struct diff_text *t)
{
	if (!t)
		return;
	for (int i = 0; i < SECTIONS; i++)
		diff_table_clear(&t->tables[i]);
	for (int i = 0; i < MOST_KINDS; i++) {
		free(t->optimizer_values.kinds[i].word);
		free(t->optimizer_values.kinds[i].text);
	}
	free(t->optimizer_values.name);
	diff_sum_clear(&t->optimizer);
	diff_sum_clear(&t->steps);
	diff_sum_clear(&t->counters);
	diff_sums_clear(&t->blocks);
	free(t->one_sided.name);
	free(t);
}
