/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of TorchScript, word by word: what a load would run (__setstate__ and what it calls),
 * what the compiler would evaluate (defaults and constants), and nesting that would end torch's
 * parser.
 *
 * What must stay true: this is no parser. Every rule has to err towards a finding: words in
 * strings and comments count too where they name what reaches out, what is not known to be a literal is computed, and what is
 * not of the language of a __setstate__ is not let pass.
 */
#include "scan/loaders/script.h"

#include "base/ascii.h"
#include "scan/scanner.h"

#include <string.h>

/*
 * A word: what an identifier is made of. Those in texts and comments count, too: getattr() takes a
 * name as a text.
 */
struct word {
	const char *at;
	size_t len;
};

static bool is_letter(uint8_t c)
{
	return ckpt_is_alnum(c) || c == '_' || c >= 0x80;
}

/* The next word from *AT on; false: there is none. */
static bool next_word(const uint8_t *text, size_t len, size_t *at, struct word *out)
{
	size_t begin;

	while (*at < len && !is_letter(text[*at]))
		(*at)++;
	begin = *at;
	while (*at < len && is_letter(text[*at]))
		(*at)++;
	*out = (struct word){ (const char *)text + begin, *at - begin };
	return *at > begin;
}

static bool is_one_of(const struct word *w, const char *const *names)
{
	for (; *names; names++)
		if (w->len == strlen(*names) && !memcmp(w->at, *names, w->len))
			return true;
	return false;
}

static bool is_word(const struct word *w, const char *name)
{
	return w->len == strlen(name) && !memcmp(w->at, name, w->len);
}

static void record_outward(struct ckpt_scan_script *script, const struct word *w, const char *prefix)
{
	size_t len = strlen(prefix), rest = w->len;

	if (*script->outward)
		return;
	if (rest > sizeof(script->outward) - 1 - len)
		rest = sizeof(script->outward) - 1 - len;
	memcpy(script->outward, prefix, len);
	for (size_t i = 0; i < rest; i++)
		script->outward[len + i] = w->at[i] > ' ' && w->at[i] < 0x7F && w->at[i] != '\'' ? w->at[i] : '?';
	script->outward[len + rest] = '\0';
}

static void record_evaluated(struct ckpt_scan_script *script, const uint8_t *text, size_t begin, size_t end)
{
	size_t n = 0;

	if (*script->evaluated)
		return;
	for (size_t i = begin; i < end && n + 1 < sizeof(script->evaluated); i++)
		script->evaluated[n++] = text[i] >= ' ' && text[i] < 0x7F ? (char)text[i] : '?';
	script->evaluated[n] = '\0';
	if (!n)
		memcpy(script->evaluated, "?", 2);
}

/* A text in quotes, from *AT on. */
static void skip_text(const uint8_t *text, size_t len, size_t *at)
{
	uint8_t quote = text[(*at)++];

	while (*at < len && text[*at] != quote && text[*at] != '\n')
		*at += text[*at] == '\\' && *at + 1 < len ? 2 : 1;
	*at += *at < len;
}

/* ---- what a load runs ---- */

/*
 * The bodies of __setstate__ and of set_weight_bias, which torch's own __setstate__ of packed weights calls, are a closed
 * language: values are taken from the state, compared and set; a few functions of torch are called, by their full names. There
 * are no loops, no operators that compute, and no object with methods that an operator would call.
 */

/* As torch's lexer has them. Source: torch/csrc/jit/frontend/lexer.h. */
enum token_kind {
	NO_TOKEN,
	LINE, /* the end of one, outside of brackets */
	WORD,
	NUMBER,
	TEXT,
	SIGN, /* one byte */
};

struct token {
	enum token_kind kind;
	struct word word; /* of a SIGN: its byte */
	size_t indent;	  /* of the line behind a LINE */
	bool is_tripled;  /* a TEXT in three quotes, which torch does not write */
};

struct lexer {
	const uint8_t *text;
	size_t len, at;
	unsigned depth; /* of brackets */
};

/* Blanks and comments. In brackets ends of lines are blanks, too. */
static void skip_blanks(struct lexer *l)
{
	while (l->at < l->len) {
		uint8_t c = l->text[l->at];

		if (c == '#')
			while (l->at < l->len && l->text[l->at] != '\n')
				l->at++;
		else if (c == '\\' && l->at + 1 < l->len && l->text[l->at + 1] == '\n')
			l->at += 2;
		else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || (c == '\n' && l->depth))
			l->at++;
		else
			return;
	}
}

/* Behind the end of a line: how far the next one is indented that is not empty. */
static size_t next_indent(struct lexer *l)
{
	for (;;) {
		size_t begin = l->at;

		while (l->at < l->len && (l->text[l->at] == ' ' || l->text[l->at] == '\t' || l->text[l->at] == '\r' || l->text[l->at] == '\f' || l->text[l->at] == '\v'))
			l->at++;
		if (l->at < l->len && l->text[l->at] == '#')
			while (l->at < l->len && l->text[l->at] != '\n')
				l->at++;
		if (l->at == l->len || l->text[l->at] != '\n')
			return l->at - begin;
		l->at++;
	}
}

static struct token next_token(struct lexer *l)
{
	struct token t = { .kind = NO_TOKEN };
	size_t begin;
	uint8_t c;

	skip_blanks(l);
	if (l->at == l->len)
		return t;
	begin = l->at;
	c = l->text[l->at];
	if (c == '\n') {
		l->at++;
		t.kind = LINE;
		t.indent = next_indent(l);
	} else if (c == '"' || c == '\'') {
		t.kind = TEXT;
		t.is_tripled = l->len - l->at > 2 && l->text[l->at + 1] == c && l->text[l->at + 2] == c;
		skip_text(l->text, l->len, &l->at);
	} else if (ckpt_is_digit(c)) {
		t.kind = NUMBER;
		while (l->at < l->len && (is_letter(l->text[l->at]) || l->text[l->at] == '.' ||
					  ((l->text[l->at] == '-' || l->text[l->at] == '+') && (l->text[l->at - 1] == 'e' || l->text[l->at - 1] == 'E'))))
			l->at++;
	} else if (is_letter(c)) {
		t.kind = WORD;
		while (l->at < l->len && is_letter(l->text[l->at]))
			l->at++;
	} else {
		t.kind = SIGN;
		l->at++;
		l->depth += c == '(' || c == '[' || c == '{';
		l->depth -= l->depth && (c == ')' || c == ']' || c == '}');
	}
	t.word = (struct word){ (const char *)l->text + begin, l->at - begin };
	return t;
}

static bool is_sign(const struct token *t, char c)
{
	return t->kind == SIGN && *t->word.at == c;
}

static bool is_name(const struct token *t, const char *name)
{
	return t->kind == WORD && is_word(&t->word, name);
}

/* The last tokens, the newest first, and the function that they are in. */
struct body {
	struct token last[8];
	size_t indent;	    /* of its def */
	bool is_run, is_set_weight_bias;
};

/* What torch brings, and what these bodies may call as NAME(), torch.NAME() or ops.prim.NAME(). */
static const char *const functions[] = { "annotate", "__is__", "__isnot__", "__not__", "eq", "ne", "Exception", "AssertionError", "RaiseException", NULL };

/* LAST[0] is in front of a '(': may what it names be called? */
static bool may_be_called(const struct body *b)
{
	static const char *const of_packing[] = { "quantized", "_quantized", "sparse", "onednn", NULL };
	static const char *const of_torch[] = { "prim", "aten", NULL };
	const struct token *t = b->last;
	bool is_packer = memmem(t->word.at, t->word.len, "_prepack", 8);

	if (is_name(t, "set_weight_bias")) /* of self, or (self) */
		return !b->is_set_weight_bias && is_sign(&t[1], '.') &&
		       ((is_name(&t[2], "self") && !is_sign(&t[3], '.')) || (is_sign(&t[2], ')') && is_name(&t[3], "self") && is_sign(&t[4], '(') && t[5].kind != WORD));
	if (!is_packer && !is_one_of(&t->word, functions))
		return false;
	if (!is_sign(&t[1], '.'))
		return !is_packer;
	if (is_name(&t[2], "torch"))
		return !is_packer && !is_sign(&t[3], '.');
	return t[2].kind == WORD && is_one_of(&t[2].word, is_packer ? of_packing : of_torch) && is_sign(&t[3], '.') && is_name(&t[4], "ops") && !is_sign(&t[5], '.');
}

static bool is_in_front_of_brackets(const struct token *t)
{
	static const char *const words[] = { "if", "elif", "return", "and", "or", "not", "raise", "is", "else", NULL };

	return t->kind == LINE || t->kind == NO_TOKEN || (t->kind == WORD && is_one_of(&t->word, words)) || (t->kind == SIGN && !strchr(")]}", *t->word.at));
}

/* The '[' that is LAST[AT]: of a[b], and not of a type, or of a list. */
static bool is_index(const struct body *b, unsigned at)
{
	static const char *const types[] = { "List", "Tuple", "Optional", "Dict", "Union", "Future", "Final", "return", "in", NULL };
	const struct token *of = &b->last[at + 1];

	return is_sign(&b->last[at], '[') && ((of->kind == WORD && !is_one_of(&of->word, types)) || is_sign(of, ')') || is_sign(of, ']') || of->kind == TEXT);
}

/* Token T in the body of a function that a load runs. False: it is not of the language. */
static bool may_be_run(const struct body *b, const struct token *t)
{
	static const char *const words[] = { "while", "for", "with", "lambda", "def", "class", "yield", "import", "del", "global", "in", NULL };
	const struct token *before = b->last;

	/* a function of torch is called, and no variable: that might be an object of the file */
	if (before->kind == WORD && !is_sign(&b->last[1], '.') && is_one_of(&before->word, functions) && !is_sign(t, '('))
		return false;
	if ((is_name(before, "torch") || is_name(before, "ops")) && !is_sign(&b->last[1], '.') && !is_sign(t, '.'))
		return false;
	/* a part is taken by its number: a tensor as an index would make another one, of any size */
	if (is_index(b, 0))
		return t->kind == NUMBER;
	if (before->kind == NUMBER && is_index(b, 1))
		return is_sign(t, ']');
	if (is_sign(before, '-'))
		return t->kind == NUMBER || is_sign(t, '>') || is_name(t, "inf");
	if (t->kind == WORD)
		return !is_one_of(&t->word, words);
	if (is_sign(t, '('))
		return is_in_front_of_brackets(before) || is_name(&b->last[1], "def") || (before->kind == WORD && may_be_called(b));
	if (is_sign(t, '-')) /* of a number, or of "->" */
		return is_sign(before, ')') || is_in_front_of_brackets(before);
	if (is_sign(t, '=')) /* a == b would call a method of a */
		return !is_sign(before, '=');
	return t->kind != SIGN || !strchr("+*/%@&|^~<>!", *t->word.at);
}

/* Methods that what is left calls of an object: a[b], a[b] = c, "if a". */
static bool is_method_of_operators(const struct word *w)
{
	static const char *const methods[] = { "__getitem__", "__setitem__", "__delitem__", "__bool__", NULL };

	return is_one_of(w, methods);
}

static void check_bodies(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	struct lexer l = { text, len, 0, 0 };
	struct body b = { .is_run = false };
	size_t indent = 0;
	struct token t;

	do {
		t = next_token(&l);
		if (t.kind == LINE) {
			indent = t.indent;
			b.is_run &= indent > b.indent;
		}
		/* where it ends is not seen below */
		if (t.is_tripled)
			record_evaluated(script, text, (size_t)((const uint8_t *)t.word.at - text), len);
		if (t.is_tripled || (t.kind == TEXT && memmem(t.word.at, t.word.len, "set_weight_bias", 15)))
			record_outward(script, &t.word, "");
		/* a module of that name would be called by its forward() */
		if (is_name(b.last, "set_weight_bias") && !is_sign(&t, '('))
			record_outward(script, &b.last[0].word, "");
		if (is_name(b.last, "def") && t.kind == WORD && is_method_of_operators(&t.word))
			record_outward(script, &t.word, "");
		if (b.is_run && !may_be_run(&b, &t))
			record_outward(script, b.last[0].kind == WORD ? &b.last[0].word : &t.word, "__setstate__: ");
		if (is_name(b.last, "def") && t.kind == WORD && !b.is_run) {
			b.is_set_weight_bias = is_name(&t, "set_weight_bias");
			b.is_run = b.is_set_weight_bias || is_name(&t, "__setstate__");
			b.indent = indent;
		}
		memmove(b.last + 1, b.last, sizeof(b.last) - sizeof(*b.last));
		b.last[0] = t;
	} while (t.kind != NO_TOKEN);
}

/* ---- what is evaluated where the source is compiled ---- */

enum { MOST_NESTED = 200, MOST_ROW = 200, MOST_CHAIN = 1000, MOST_TUPLES = 16 };

static bool is_word_of_literals(const struct word *w)
{
	static const char *const known[] = { "True", "False", "None", "inf", "nan", "math", "CONSTANTS", "torch", "device", NULL };

	return is_one_of(w, known) || (w->len && (ckpt_is_digit((unsigned char)*w->at) || (*w->at == 'c' && w->len > 1 && ckpt_is_digit((unsigned char)w->at[1]))));
}

/*
 * The value behind a '=', up to END: numbers, texts, lists, tuples and dicts of them. *AT: where it
 * ends, at a comma or bracket that is not its own, or at the end of its line. False: something is
 * computed. IS_TYPE: any names, of which none is called. IS_ARGUMENT: an end of line is none.
 */
static bool is_literal(const uint8_t *text, size_t len, size_t *at, bool is_type, bool is_argument)
{
	unsigned depth = 0;
	bool any = false;

	while (*at < len) {
		uint8_t c = text[*at];
		struct word w;
		size_t begin = *at;

		if ((c == ',' || c == ')' || c == ']' || c == '}' || (c == '\n' && !is_argument)) && !depth)
			return any;
		any |= !strchr(" \t\r\n", c);
		if (c == '\'' || c == '"') {
			skip_text(text, len, at);
		} else if (is_letter(c)) {
			next_word(text, len, at, &w);
			if ((!is_type && !is_word_of_literals(&w)) || (*at < len && text[*at] == '(' && !is_word(&w, "device")))
				return false;
		} else if (c == '(' || c == '[' || c == '{') {
			depth++;
			(*at)++;
		} else if (c == ')' || c == ']' || c == '}') {
			depth--;
			(*at)++;
		} else if (strchr(" \t\n\r,.:-", c) || (c == '+' && begin && (text[begin - 1] == 'e' || text[begin - 1] == 'E'))) {
			(*at)++;
		} else if (c == '#') {
			while (*at < len && text[*at] != '\n')
				(*at)++;
		} else {
			return false;
		}
	}
	return true;
}

/* The arguments of a function, from the '(' at AT on: behind the ')'. */
static size_t check_arguments(struct ckpt_scan_script *script, const uint8_t *text, size_t len, size_t at)
{
	unsigned depth = 0;

	while (at < len) {
		uint8_t c = text[at];
		size_t begin = at;

		if (c == '\'' || c == '"') {
			skip_text(text, len, &at);
			continue;
		}
		depth += c == '(' || c == '[' || c == '{';
		depth -= depth && (c == ')' || c == ']' || c == '}');
		at++;
		if (c == ')' && !depth)
			return at;
		if (c != '=')
			continue;
		if (is_literal(text, len, &at, false, true))
			continue;
		record_evaluated(script, text, begin, at + CKPT_SCRIPT_SHOWN < len ? at + CKPT_SCRIPT_SHOWN : len);
		return at;
	}
	return at;
}

/* Of all functions, also inside the bodies of others: the compiler evaluates these defaults where it comes upon them. */
static void check_defaults(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	struct lexer l = { text, len, 0, 0 };
	struct token t, before = { .kind = NO_TOKEN }, before_that = before;

	do {
		t = next_token(&l);
		if (is_sign(&t, '(') && before.kind == WORD && is_name(&before_that, "def"))
			check_arguments(script, text, len, (size_t)((const uint8_t *)t.word.at - text));
		before_that = before;
		before = t;
	} while (t.kind != NO_TOKEN);
}

static size_t end_of_line(const uint8_t *text, size_t len, size_t at)
{
	const uint8_t *end = at < len ? memchr(text + at, '\n', len - at) : NULL;

	return end ? (size_t)(end - text) : len;
}

/*
 * "c = -1" in the body of a class: torch writes types with all but lists of names (__parameters__) and enumerations, and 1.13
 * crashes where there is none. NAME is the first word up to AT, where a '=' is.
 */
static bool has_no_type(const struct word *name, const uint8_t *text, size_t at)
{
	const uint8_t *behind = (const uint8_t *)name->at + name->len;

	while (behind < text + at && (*behind == ' ' || *behind == '\t'))
		behind++;
	return name->len && behind == text + at && !(name->len > 4 && !memcmp(name->at, "__", 2));
}

/*
 * Line by line: functions' heads, what is outside of their bodies; these are compiled, and not run.
 */
static void check_evaluated(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	/* how far the head of the function is indented whose body this is */
	size_t body = SIZE_MAX;
	bool in_class = false; /* but for enumerations */

	for (size_t at = 0, end; at < len; at = end + 1) {
		size_t begin = at, word_at;
		struct word w = { "", 0 };

		end = end_of_line(text, len, at);
		while (at < end && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\f'))
			at++;
		if (at == end || text[at] == '#' || (body != SIZE_MAX && at - begin > body))
			continue;
		body = SIZE_MAX;
		word_at = at;
		next_word(text, end, &word_at, &w);
		if (at == begin) /* "op_version_set = 1" */
			in_class = is_word(&w, "class") && !memmem(text + at, end - at, "(Enum)", 6);
		if (is_word(&w, "def")) {
			const uint8_t *open = memchr(text + at, '(', len - at);

			body = at - begin;
			if (open)
				at = check_arguments(script, text, len, (size_t)(open - text));
			end = end_of_line(text, len, at < end ? end : at);
			continue;
		}
		for (; at < end; at++) {
			size_t value = at + 1;

			if (text[at] == '\'' || text[at] == '"') {
				skip_text(text, end, &at);
				at--;
			} else if (text[at] == '=' && ((in_class && has_no_type(&w, text, at)) || !is_literal(text, len, &value, is_word(&w, "__annotations__"), false))) {
				record_evaluated(script, text, begin, end);
				break;
			} else if (text[at] == '=') {
				at = value - 1;
				end = end_of_line(text, len, value < end ? end : value);
			}
		}
	}
}

static bool is_word_at(const uint8_t *text, size_t len, size_t at, const char *word)
{
	size_t n = strlen(word);

	return len - at >= n && !memcmp(text + at, word, n);
}

/*
 * a + b, (a).b(): one more of what the compiler has to go into for the first. A number with an
 * exponent counts as one, too.
 */
static bool is_link(const uint8_t *text, size_t len, size_t at)
{
	if (text[at] == '.')
		return at && (text[at - 1] == ')' || text[at - 1] == ']');
	return (text[at] && strchr("+-*/%<>|&^@", text[at])) || is_word_at(text, len, at, " and ") || is_word_at(text, len, at, " or ") || is_word_at(text, len, at, " if ");
}

/*
 * Brackets in brackets, signs in a row, and long chains of operators or elif: the compiler calls
 * itself for each.
 */
static void check_depth(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	/* by depth */
	unsigned depth = 0, row = 0, branches = 0, tuples = 0, chains[MOST_NESTED + 1] = { 0 }, *chain = chains;
	/* by depth: of types, for each of which in another one torch takes twice as long */
	bool is_tuple[MOST_NESTED + 1] = { false };

	for (size_t at = 0; at < len; at++) {
		uint8_t c = text[at];

		if (c == '\'' || c == '"') {
			skip_text(text, len, &at);
			at--;
			continue;
		}
		if (c == '(' || c == '[' || c == '{') {
			depth++;
			chain = &chains[depth < MOST_NESTED ? depth : MOST_NESTED];
			*chain = 0;
			is_tuple[depth < MOST_NESTED ? depth : MOST_NESTED] = c == '[' && at >= 5 && is_word_at(text, len, at - 5, "Tuple");
			tuples += is_tuple[depth < MOST_NESTED ? depth : MOST_NESTED];
		} else if (depth && (c == ')' || c == ']' || c == '}')) {
			tuples -= tuples && is_tuple[depth < MOST_NESTED ? depth : MOST_NESTED];
			depth--;
			chain = &chains[depth < MOST_NESTED ? depth : MOST_NESTED];
		}
		if (c == '-' || c == '~' || c == '+' || (c == 'n' && len - at > 4 && !memcmp(text + at, "not ", 4)))
			row++;
		else if (!strchr(" \tot", c))
			row = 0;
		if (c == ',' || (c == '\n' && !depth))
			*chain = 0;
		else
			*chain += is_link(text, len, at);
		if (is_word_at(text, len, at, "def "))
			branches = 0;
		branches += is_word_at(text, len, at, "elif ");
		script->is_deep |= depth > MOST_NESTED || row > MOST_ROW || *chain > MOST_CHAIN || branches > MOST_CHAIN || tuples > MOST_TUPLES;
	}
}

void ckpt_scan_script_source(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	static const char *const outward[] = { "from_file", "save", "load", "rpc_async", "rpc_sync", "rpc_remote", NULL };
	/* operators that torch itself brings, and that compute */
	static const char *const known[] = { "aten",	"prim",	     "prims",	      "quantized", "_quantized", "sparse",
					     "mkldnn",	"prepacked", "mkldnn_prepacked", "onednn",  "quantized_decomposed", NULL };
	/* objects of C++ that do more than hold packed weights: names_code.c */
	static const char *const reaching[] = { "aten", "c10d", "cuda", "dist_rpc", "profiler", NULL };
	struct word w, before = { "", 0 };
	size_t at = 0;

	while (next_word(text, len, &at, &w)) {
		script->sets_states |= is_word(&w, "__setstate__");
		if (is_one_of(&w, outward))
			record_outward(script, &w, "");
		else if (is_word(&before, "ops") && !is_one_of(&w, known))
			record_outward(script, &w, "ops.");
		else if (is_word(&before, "classes") && is_one_of(&w, reaching))
			record_outward(script, &w, "classes.");
		before = w;
	}
	check_bodies(script, text, len);
	check_evaluated(script, text, len);
	check_defaults(script, text, len);
	check_depth(script, text, len);
	/* a name that is spelled with escapes */
	for (size_t i = 0; i + 9 < len; i++)
		if (!memcmp(text + i, "getattr(", 8)) {
			const uint8_t *end = memchr(text + i, '\n', len - i);
			size_t line = end ? (size_t)(end - text) - i : len - i;

			if (memchr(text + i, '\\', line))
				record_outward(script, &(struct word){ "getattr", 7 }, "");
		}
}

void ckpt_scan_script_report(struct ckpt_scanner *s, const struct ckpt_scan_script *script)
{
	if (*script->evaluated)
		ckpt_scan_find(s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET,
			       "TorchScript with a default or constant that is no literal, which a load computes: '%s'", script->evaluated);
	if (script->is_deep)
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "source", CKPT_NO_OFFSET, "TorchScript nested so deep that torch's parser could not go there");
	if (script->sets_states && *script->outward)
		ckpt_scan_find(s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET,
			       "TorchScript whose __setstate__ a load runs, in sources with '%s', which may reach out of the program", script->outward);
}
