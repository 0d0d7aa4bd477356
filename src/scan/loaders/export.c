/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formulas in programs of torch.export (see the header). A text is plain only if it is made of
 * names, numbers and operators that torch writes.
 *
 * What must stay true: texts are found without a JSON parser, by their key alone, so that a broken
 * file or a repeated key hides none. Powers are limited, since sympy computes them.
 */
#include "scan/loaders/export.h"

#include "scan/json_text.h"
#include "scan/scanner.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 40, MOST_DIGITS = 20, MOST_EXPONENT = 1024, MOST_PRECISION = 4096, MOST_DEPTH = 200, MOST_TERMS = 1000, SHOWN = 700 };

/* ---- a formula ---- */

/* The language of C, whatever the locale. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* "s0", "u12", "zuf3": of a symbol. */
static bool is_symbol(const char *name, size_t len)
{
	size_t letters = 0, digits;

	while (letters < len && name[letters] >= 'a' && name[letters] <= 'z')
		letters++;
	for (digits = letters; digits < len && is_digit(name[digits]);)
		digits++;
	return letters >= 1 && letters <= 4 && digits > letters && digits == len;
}

/* What may be called, or stand by itself. */
static bool is_known(const char *name, size_t len)
{
	static const char *const names[] = {
		"Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Max", "Min", "Mod", "Abs", "And", "Or", "Not", "Eq", "Ne", "Lt", "Le", "Gt", "Ge",
		"Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "Piecewise", "ITE", "floor", "ceiling", "sqrt", "true", "false",
		"True", "False", "None", "oo", "int_oo", "positive", "nonnegative", "negative", "integer", "real", "finite", "zero", "nonzero", "evaluate",
		"FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow",
		"FloatTrueDiv", "IntTrueDiv", "TruncToFloat", "TruncToInt", "RoundToInt", "RoundDecimal", "ToFloat", "Identity",
		"IsNonOverlappingAndDenseIndicator", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "BitwiseFn_bitwise_xor",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return true;
	return is_symbol(name, len) || (len > 14 && len <= MOST_NAME && !memcmp(name, "OpaqueUnaryFn_", 14));
}

/* What a bracket holds: what is added, multiplied, raised, or is one thing whatever is in it. */
enum bracket { BRACKET, SUM, PRODUCT, RAISED, OPAQUE };

/* How many terms come out of what was read in a bracket so far, once all of it is multiplied out. */
struct terms {
	enum bracket kind;
	uint64_t sum;	   /* of what is added up to here */
	uint64_t product;  /* of factors of what is being added */
	uint64_t factor;   /* the last one; 0: there is none */
	uint64_t multiplied; /* of the arguments in front, of a PRODUCT; the base of what is RAISED */
	uint64_t exponent;
};

/*
 * A formula on its way: sympy computes what has no symbol in it, and Python what it is given, as
 * repeated texts and tuples. torch has it multiply out products and powers of sums.
 */
struct formula {
	const char *text;
	size_t len, at;
	uint64_t exponents; /* their product */
	unsigned depth;	    /* of brackets */
	bool is_call[MOST_DEPTH];
	enum { NO_POWER, POWER, POWER_BY_NATURAL } power[MOST_DEPTH]; /* its exponent comes next */
	struct terms terms[MOST_DEPTH + 1]; /* by depth */
	uint64_t exponent; /* the last one */
	bool has_many_terms;
};

/* ---- terms ---- */

static uint64_t multiply(struct formula *f, uint64_t a, uint64_t b)
{
	if (a > 1 && b > 1 && a > MOST_TERMS / b)
		f->has_many_terms = true;
	return f->has_many_terms ? 1 : a * b;
}

/* (a + b + ...) ** n has as many terms as there are ways to choose n of these, each as often as one likes. */
static uint64_t raise_to(struct formula *f, uint64_t base, uint64_t exponent)
{
	uint64_t all = 1;

	for (uint64_t i = 1; base > 1 && i <= exponent && !f->has_many_terms; i++) {
		all = all * (base + i - 1) / i;
		f->has_many_terms |= all > MOST_TERMS;
	}
	return all;
}

/* A factor of so many terms. */
static void add_factor(struct formula *f, uint64_t count)
{
	struct terms *t = &f->terms[f->depth];

	t->product = multiply(f, t->product, t->factor ? t->factor : 1);
	t->factor = count;
}

/* What stands between two signs ends here. */
static void end_addend(struct formula *f)
{
	struct terms *t = &f->terms[f->depth];

	if (t->factor)
		t->sum += multiply(f, t->product, t->factor);
	t->product = 1;
	t->factor = 0;
}

/* Behind an argument. */
static void end_argument(struct formula *f)
{
	struct terms *t = &f->terms[f->depth];

	end_addend(f);
	if (t->kind == SUM)
		return;
	t->multiplied = t->kind == PRODUCT ? multiply(f, t->multiplied, t->sum ? t->sum : 1) : t->multiplied == 1 ? t->sum : t->multiplied;
	t->sum = 0;
}

static void open_bracket(struct formula *f, enum bracket kind)
{
	f->terms[f->depth] = (struct terms){ .kind = kind, .product = 1, .multiplied = 1, .exponent = 1 };
}

/* Behind the last bracket: F->DEPTH is that around it. */
static void close_bracket(struct formula *f)
{
	struct terms *t = &f->terms[f->depth + 1];
	uint64_t count;

	f->depth++;
	end_addend(f);
	f->depth--;
	switch (t->kind) {
	case PRODUCT: count = multiply(f, t->multiplied, t->sum ? t->sum : 1); break;
	case RAISED: count = raise_to(f, t->multiplied, t->exponent); break;
	case OPAQUE: count = 1; break;
	default: count = t->sum ? t->sum : 1;
	}
	add_factor(f, count);
}

static void skip_blanks(struct formula *f)
{
	while (f->at < f->len && f->text[f->at] == ' ')
		f->at++;
}

/* The digits at F, which are up to MOST. */
static bool read_number(struct formula *f, uint64_t most, uint64_t *out)
{
	size_t begin = f->at;

	while (f->at < f->len && is_digit(f->text[f->at]))
		f->at++;
	if (f->at == begin || f->at - begin >= MOST_DIGITS)
		return false;
	*out = strtoull(f->text + begin, NULL, 10);
	return *out <= most;
}

/* Behind a quote, up to the next: the name of a symbol, or a number. It is an argument, and not repeated. */
static bool is_plain_text(struct formula *f, char quote)
{
	size_t begin = f->at, e;

	while (f->at < f->len && (is_letter(f->text[f->at]) || is_digit(f->text[f->at]) || strchr(".-+", f->text[f->at])))
		f->at++;
	if (f->at == f->len || f->text[f->at] != quote || !f->depth || !f->is_call[f->depth - 1])
		return false;
	/* of a number: 1e-308, which mpmath computes whatever the exponent is */
	e = begin;
	while (e < f->at && !(e > begin && (f->text[e] == 'e' || f->text[e] == 'E') && (is_digit(f->text[e - 1]) || f->text[e - 1] == '.')))
		e++;
	if (!is_letter(f->text[begin]) && f->at > e && f->at - e > 5)
		return false;
	f->at++;
	skip_blanks(f);
	return f->at < f->len && (f->text[f->at] == ',' || f->text[f->at] == ')');
}

/* An exponent: a small number, by itself, in brackets, as Integer(2) or Rational(1, 2). */
static bool is_exponent(struct formula *f)
{
	static const char *const fronts[] = { "Integer(", "Rational(", "(", "" };
	uint64_t number = 0, below;
	size_t i = 0, n;

	skip_blanks(f);
	while (i < 3 && (f->len - f->at < strlen(fronts[i]) || memcmp(f->text + f->at, fronts[i], strlen(fronts[i])) != 0))
		i++;
	n = strlen(fronts[i]);
	f->at += n;
	f->at += f->at < f->len && f->text[f->at] == '-';
	if (!read_number(f, MOST_EXPONENT, &number))
		return false;
	if (number < MOST_EXPONENT && f->at + 1 < f->len && f->text[f->at] == '.' && is_digit(f->text[f->at + 1])) { /* x ** 0.5 */
		for (f->at++; f->at < f->len && is_digit(f->text[f->at]);)
			f->at++;
		number++;
	}
	if (n && f->at < f->len && (f->text[f->at] == ',' || f->text[f->at] == '/')) {
		f->at++;
		skip_blanks(f);
		if (!read_number(f, MOST_EXPONENT, &below))
			return false;
	}
	if (n && !(f->at < f->len && f->text[f->at++] == ')'))
		return false;
	if (f->at < f->len && (f->text[f->at] == '.' || is_letter(f->text[f->at])))
		return false;
	skip_blanks(f);
	f->exponents *= number ? number : 1;
	f->exponent = number;
	return f->exponents <= MOST_EXPONENT && !(f->len - f->at >= 2 && !memcmp(f->text + f->at, "**", 2));
}

/* "Symbol('s0', integer=True)" or "s0": torch computes no power of it, and of no two numbers one that is too large. */
static bool is_symbol_alone(struct formula *f)
{
	static const char name[] = "Symbol(";
	size_t begin;

	skip_blanks(f);
	begin = f->at;
	while (f->at < f->len && (is_letter(f->text[f->at]) || is_digit(f->text[f->at])))
		f->at++;
	if (is_symbol(f->text + begin, f->at - begin))
		return true;
	f->at = begin + sizeof(name) - 1;
	if (f->at >= f->len || memcmp(f->text + begin, name, sizeof(name) - 1) != 0)
		return false;
	while (f->at < f->len && (is_letter(f->text[f->at]) || is_digit(f->text[f->at]) || strchr("'\", =", f->text[f->at])))
		f->at++;
	return f->at < f->len && f->text[f->at++] == ')';
}

/* Is what is called a name right in front of the bracket that was read last, or is nothing called? "or (" is no call. */
static bool is_in_sight(const struct formula *f)
{
	static const char *const words[] = { "or", "and", "not" };
	size_t at = f->at - 1, begin;

	while (at && f->text[at - 1] == ' ')
		at--;
	if (!at || strchr("+-*/%(,=<>&|~!", f->text[at - 1]))
		return true;
	for (begin = at; begin && (is_letter(f->text[begin - 1]) || is_digit(f->text[begin - 1]) || f->text[begin - 1] == '.');)
		begin--;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == at - begin && !memcmp(words[i], f->text + begin, at - begin))
			return true;
	return false;
}

static bool is_bracket(struct formula *f, char c, bool is_call, int power, enum bracket kind)
{
	if (c == ')') {
		if (f->depth) {
			f->depth--;
			close_bracket(f);
		}
		return true;
	}
	if (f->depth == MOST_DEPTH || (!is_call && !is_in_sight(f)))
		return false;
	f->is_call[f->depth] = is_call;
	f->power[f->depth] = power;
	f->depth++;
	open_bracket(f, kind);
	return true;
}

/* A comma stands between arguments, since a tuple could be repeated; behind the base of a power is the exponent. */
static bool is_comma(struct formula *f)
{
	unsigned i = f->depth - 1;
	size_t begin = f->at;
	int power;

	if (!f->depth || !f->is_call[i])
		return false;
	power = f->power[i];
	f->power[i] = NO_POWER;
	end_argument(f);
	if (power == NO_POWER)
		return true;
	f->exponent = 1;
	if (!is_exponent(f)) {
		f->at = begin;
		if (power == POWER || !is_symbol_alone(f))
			return false;
	}
	f->terms[f->depth].exponent = f->exponent;
	skip_blanks(f);
	return f->at < f->len && (f->text[f->at] == ')' || f->text[f->at] == ',');
}

static bool is_number(struct formula *f, size_t begin)
{
	uint64_t number;

	f->at = begin;
	if (!read_number(f, UINT64_MAX, &number))
		return false;
	if (f->at + 1 < f->len && f->text[f->at] == '.' && is_digit(f->text[f->at + 1]))
		for (f->at++; f->at < f->len && is_digit(f->text[f->at]);)
			f->at++;
	add_factor(f, 1);
	return !(f->at < f->len && (is_letter(f->text[f->at]) || f->text[f->at] == '.')); /* 1e999, 0x10, 1.__class__ */
}

/*
 * Float('0.5', precision=53), behind the bracket: of as many digits as are asked for.
 */
static bool is_float(struct formula *f)
{
	static const char name[] = "precision";
	uint64_t number;

	if (!is_bracket(f, '(', true, NO_POWER, OPAQUE))
		return false;
	skip_blanks(f);
	if (f->at < f->len && (f->text[f->at] == '\'' || f->text[f->at] == '"')) {
		f->at++;
		if (!is_plain_text(f, f->text[f->at - 1]))
			return false;
	} else {
		f->at += f->at < f->len && f->text[f->at] == '-';
		if (!is_number(f, f->at))
			return false;
		skip_blanks(f);
	}
	if (f->at < f->len && f->text[f->at] == ',') {
		f->at++;
		skip_blanks(f);
		if (f->len - f->at > sizeof(name) && !memcmp(f->text + f->at, name, sizeof(name) - 1) && f->text[f->at + sizeof(name) - 1] == '=')
			f->at += sizeof(name);
		if (!read_number(f, MOST_PRECISION, &number))
			return false;
		skip_blanks(f);
	}
	return f->at < f->len && f->text[f->at] == ')';
}

/* A name, and the '(' behind it if it is called. */
static bool is_name(struct formula *f, size_t begin)
{
	size_t n;

	while (f->at < f->len && (is_letter(f->text[f->at]) || is_digit(f->text[f->at])))
		f->at++;
	n = f->at - begin;
	if (!is_known(f->text + begin, n))
		return false;
	if (f->at == f->len || f->text[f->at] != '(') {
		add_factor(f, 1);
		return true;
	}
	f->at++;
	if (n == 3 && (!memcmp(f->text + begin, "Add", 3) || !memcmp(f->text + begin, "Mul", 3)))
		return is_bracket(f, '(', true, NO_POWER, f->text[begin] == 'A' ? SUM : PRODUCT);
	if (n == 5 && !memcmp(f->text + begin, "Float", 5))
		return is_float(f);
	if (n == 3 && !memcmp(f->text + begin, "Pow", 3))
		return is_bracket(f, '(', true, POWER, RAISED);
	if (n == 12 && !memcmp(f->text + begin, "PowByNatural", 12))
		return is_bracket(f, '(', true, POWER_BY_NATURAL, RAISED);
	return is_bracket(f, '(', true, NO_POWER, OPAQUE);
}

/* Behind "**", which is about the last factor. */
static bool raised(struct formula *f)
{
	struct terms *t = &f->terms[f->depth];

	if (!is_exponent(f))
		return false;
	t->factor = raise_to(f, t->factor, f->exponent);
	return true;
}

static bool is_sign(struct formula *f, char c)
{
	if (!c || !strchr(" +-*/%=<>&|~!", c))
		return false;
	if (!strchr(" */%", c))
		end_addend(f);
	return true;
}

bool ckpt_scan_export_is_formula(const char *text, size_t len)
{
	struct formula f = { .text = text, .len = len, .exponents = 1 };
	bool is_fine = true;

	open_bracket(&f, BRACKET);
	while (is_fine && f.at < len) {
		size_t begin = f.at;
		char c = text[f.at++];

		if (is_letter(c))
			is_fine = is_name(&f, begin);
		else if (is_digit(c))
			is_fine = is_number(&f, begin);
		else if (c == '\'' || c == '"')
			is_fine = is_plain_text(&f, c);
		else if (c == '(' || c == ')')
			is_fine = is_bracket(&f, c, false, NO_POWER, BRACKET);
		else if (c == ',')
			is_fine = is_comma(&f);
		else if (c == '*' && f.at < len && text[f.at] == '*')
			is_fine = f.at++ && raised(&f);
		else if ((c == '<' || c == '>') && f.at < len && text[f.at] == c)
			is_fine = false; /* 1 << 99999999999 */
		else
			is_fine = is_sign(&f, c);
		is_fine &= !f.has_many_terms;
	}
	end_addend(&f);
	return is_fine && !f.has_many_terms;
}

/* ---- a guard ---- */

static bool is_one_of(const char *const *names, size_t count, const char *name, size_t len)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return true;
	return false;
}

/* What may be called: builtins, what math and torch compute of sizes, and methods of tensors. */
static bool is_callable(const char *name, size_t len)
{
	static const char *const names[] = {
		"abs", "max", "min", "round", "int", "float", "size", "stride", "storage_offset", "floor", "ceil", "trunc", "sqrt", "cos", "cosh", "acos", "sin", "sinh",
		"asin", "tan", "tanh", "atan", "log2", "pow", "sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sqrt", "_sym_sqrt", "IsNonOverlappingAndDenseIndicator",
		"cast_symbool_to_symint_guardless",
	};

	return is_one_of(names, sizeof(names) / sizeof(names[0]), name, len);
}

static bool is_word(const char *name, size_t len)
{
	static const char *const names[] = { "L", "and", "or", "not", "if", "else", "True", "False", "None", "math", "torch", "inf" };

	return is_one_of(names, sizeof(names) / sizeof(names[0]), name, len);
}

/* A name in a guard: a word, what is called, or behind a dot what an input has. */
static bool is_guard_name(struct formula *f, size_t begin)
{
	bool is_attribute = begin && f->text[begin - 1] == '.', is_called;
	size_t n;

	while (f->at < f->len && (is_letter(f->text[f->at]) || is_digit(f->text[f->at])))
		f->at++;
	n = f->at - begin;
	is_called = f->at < f->len && f->text[f->at] == '(';
	if (is_called)
		return is_callable(f->text + begin, n) && f->at++ && is_bracket(f, '(', true, NO_POWER, OPAQUE);
	return is_attribute ? f->text[begin] != '_' : is_word(f->text + begin, n);
}

/* Behind "[": a number, or the name of an input or key in quotes, up to "]". What it is taken of is right in front. */
static bool is_subscript(struct formula *f)
{
	char before = f->at > 1 ? f->text[f->at - 2] : ' ';

	if (!is_letter(before) && !is_digit(before) && before != ']' && before != ')')
		return false;
	if (f->at < f->len && f->text[f->at] == '\'') {
		for (f->at++; f->at < f->len && f->text[f->at] != '\'';)
			if (strchr("\"\\?", f->text[f->at++]))
				return false;
		f->at += f->at < f->len;
	} else {
		f->at += f->at < f->len && f->text[f->at] == '-';
		while (f->at < f->len && is_digit(f->text[f->at]))
			f->at++;
	}
	return f->at < f->len && f->text[f->at++] == ']';
}

bool ckpt_scan_export_is_guard(const char *text, size_t len)
{
	struct formula f = { .text = text, .len = len, .exponents = 1 };
	bool is_fine = true;

	open_bracket(&f, BRACKET); /* terms are not counted: nothing is multiplied out */
	while (is_fine && f.at < len) {
		size_t begin = f.at;
		char c = text[f.at++];

		if (is_letter(c))
			is_fine = is_guard_name(&f, begin);
		else if (is_digit(c))
			is_fine = is_number(&f, begin);
		else if (c == '[')
			is_fine = is_subscript(&f);
		else if (c == '(' || c == ')')
			is_fine = is_bracket(&f, c, false, NO_POWER, BRACKET);
		else if (c == ',')
			is_fine = f.depth && f.is_call[f.depth - 1];
		else if (c == '.')
			is_fine = f.at < len && is_letter(text[f.at]);
		else if (c == '*' && f.at < len && text[f.at] == '*')
			is_fine = f.at++ && is_exponent(&f);
		else if ((c == '<' || c == '>') && f.at < len && text[f.at] == c)
			is_fine = false;
		else
			is_fine = strchr(" +-*/%=<>!&|", c) != NULL && c != '\0';
	}
	return is_fine;
}

/* ---- JSON ---- */

bool ckpt_scan_export_runs(const uint8_t *json, size_t len, char shown[CKPT_EXPORT_SHOWN])
{
	struct ckpt_json_cursor c = { json, json + len };
	char text[CKPT_JSON_MOST_TEXT + 1];

	while ((c.at = memchr(c.at, '"', (size_t)(c.end - c.at)))) {
		size_t n;

		c.at++;
		n = ckpt_json_read_text(&c, text);
		if (n != 8 || memcmp(text, "expr_str", 8) != 0 || !ckpt_json_skip(&c, ':') || !ckpt_json_skip(&c, '"'))
			continue;
		n = ckpt_json_read_text(&c, text);
		if (n <= CKPT_JSON_MOST_TEXT && ckpt_scan_export_is_formula(text, n))
			continue;
		text[n < CKPT_EXPORT_SHOWN ? n : CKPT_EXPORT_SHOWN - 1] = '\0';
		memcpy(shown, text, strlen(text) + 1);
		return true;
	}
	return false;
}

/* ---- what it imports ---- */

static void add_import(struct ckpt_scanner *s, const char *module, const char *name)
{
	struct ckpt_global g = { .module = module, .name = name, .module_len = (uint32_t)strlen(module), .name_len = (uint32_t)strlen(name) };
	enum ckpt_scan_kind kind = ckpt_scan_rule(module, name)->kind;
	char shown[SHOWN];

	if (!ckpt_scan_add_global(s, &g, CKPT_NO_OFFSET, kind) && kind == CKPT_SCAN_CODE)
		ckpt_scan_find(s, CKPT_SCAN_DANGEROUS, "name", CKPT_NO_OFFSET, "imports %s", ckpt_scan_show_global(&g, shown, sizeof(shown)));
}

/* The text behind the colon at C, if there is one. */
static bool read_value(struct ckpt_scanner *s, struct ckpt_json_cursor *c, char out[CKPT_JSON_MOST_TEXT + 1])
{
	if (!ckpt_json_skip(c, ':') || !ckpt_json_skip(c, '"'))
		return false;
	if (ckpt_json_read_text(c, out) <= CKPT_JSON_MOST_TEXT)
		return true;
	ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "name", CKPT_NO_OFFSET, "a program of torch.export imports what has a name of more than %d bytes", CKPT_JSON_MOST_TEXT);
	return false;
}

/* What was read of a default_factory: keys have no order, and of two the last counts. */
struct factory {
	char module[CKPT_JSON_MOST_TEXT + 1], name[CKPT_JSON_MOST_TEXT + 1];
	bool has_module, has_name; /* which belong to no pair yet */
};

static void add_factory(struct ckpt_scanner *s, struct factory *f)
{
	add_import(s, f->module, f->name);
	f->has_module = f->has_name = false;
}

/* The class of an enumeration, as "module:name"; in a program other things have such a key, too. */
static void add_enum(struct ckpt_scanner *s, struct ckpt_json_cursor *c)
{
	char text[CKPT_JSON_MOST_TEXT + 1], *colon;

	if (!read_value(s, c, text))
		return;
	colon = strchr(text, ':');
	if (colon)
		*colon = '\0';
	add_import(s, text, colon ? colon + 1 : "");
}

/* Each quote may be the first of a text: in what has lost its escapes nobody knows. */
static bool next_quote(struct ckpt_json_cursor *c)
{
	c->at = memchr(c->at, '"', (size_t)(c->end - c->at));
	return c->at && c->at++;
}

static bool has_enum(const uint8_t *json, size_t len)
{
	struct ckpt_json_cursor c = { json, json + len };

	while (next_quote(&c))
		if (ckpt_json_read_key(&c, "__enum__"))
			return true;
	return false;
}

static void add_imports(struct ckpt_scanner *s, const uint8_t *json, size_t len)
{
	struct ckpt_json_cursor c = { json, json + len };
	struct factory f = { .has_module = false };
	bool enums = has_enum(json, len);

	while (next_quote(&c)) {
		struct ckpt_json_cursor at = c;

		if (ckpt_json_read_key(&at, "default_factory_module")) {
			if (f.has_module)
				add_factory(s, &f);
			f.has_module = read_value(s, &at, f.module);
			if (f.has_module && f.has_name)
				add_factory(s, &f);
		} else if (ckpt_json_read_key(&at, "default_factory_name")) {
			f.has_name = read_value(s, &at, f.name);
			if (f.has_module && f.has_name)
				add_factory(s, &f);
		} else if (enums && ckpt_json_read_key(&at, "fqn")) {
			add_enum(s, &at);
		}
	}
	if (f.has_module)
		add_factory(s, &f);
}

void ckpt_scan_export_imports(struct ckpt_scanner *s, const uint8_t *json, size_t len)
{
	enum { LAYERS = 3 }; /* the program, a spec in it, the context in that */
	uint8_t *bytes = malloc(len + 1);

	s->no_memory |= !bytes;
	if (bytes)
		memcpy(bytes, json, len);
	for (int layer = 0; bytes && layer < LAYERS; layer++) {
		add_imports(s, bytes, len);
		len = ckpt_json_unescape(bytes, len);
	}
	free(bytes);
}
