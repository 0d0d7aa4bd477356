/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tar archive begins with is the name of its first member. `python FILE` takes the file for a
 * program, an unpickler for opcodes.
 *
 * CPython from 3.12 refuses a source with zero bytes, and the first header always has some. Until
 * 3.11 each line ends at its first zero byte: what follows is dropped up to the end of the line, and
 * the end of the line with it, so that the next line goes on where the zero byte was. The name
 * `data` and a member whose second line is `=print(1)` make a program. Lines that are longer than the
 * buffer of the C library are read in pieces, and the next piece goes on as the next line does.
 *
 * What must stay true: a name is called harmless only with a proof. There are four: some line
 * begins with bytes that are no UTF-8, which no program has that does not begin with a comment; with
 * a control character, and there is no quote or '#' in front of it; the first line cannot be parsed,
 * whatever follows; or it is an expression with a name in it that nothing has given a value, so that
 * nothing behind it runs.
 */
#include "scan/loaders/tar_name.h"

#include "base/ascii.h"
#include "base/text.h"
#include "pickle/decode.h"
#include "pickle/op.h"

#include <stdlib.h>
#include <string.h>

enum { NAME = 100, MOST_LINE = 500, /* of the smallest buffer */ BLOCK = 64 << 10, MOST_VALUE = 1 << 20, MOST_OPCODES = 5 /* bytes of opcodes in an ordinary name */ };
static const uint64_t MOST_SOURCE = (uint64_t)64 << 20;

/* ---- the source as Python until 3.11 sees it ---- */

struct python_source {
	char line[MOST_LINE + 1]; /* the first, in the words of Python */
	size_t len;
	bool is_complete; /* its end was reached */
	bool is_unsure;	  /* or what follows in it is not known */
	uint64_t at;	  /* in the line of the file */
	bool is_dropped;  /* behind a zero byte */
	bool is_lost;	  /* up to the end of this line it is not known what counts */
	bool was_cr;	  /* an LF now belongs to it */
	unsigned missing; /* bytes of the character that was begun */
	bool has_quote;	  /* or '#', anywhere so far: what follows may be a text, or a comment */
	bool is_no_source; /* a line is what no source has */
};

static void end_line(struct python_source *p)
{
	p->is_no_source |= p->missing > 0;
	p->missing = 0;
	if (!p->is_dropped)
		p->is_complete = true;
	p->is_dropped = p->is_lost = false;
	p->at = 0;
}

/* Does a piece of the line begin here, with the buffer of some C library (BUFSIZ)? */
static bool is_piece(uint64_t at)
{
	for (uint64_t size = 512; size <= BLOCK; size *= 2)
		if (at % (size - 1) == 0)
			return true;
	return false;
}

static void lose_line(struct python_source *p)
{
	p->missing = 0;
	p->is_unsure |= !p->is_complete;
	p->is_lost = true;
}

/* UTF-8 as Python 3.9 looks at it; control characters are in texts and comments only. */
static void check_character(struct python_source *p, uint8_t c)
{
	p->is_no_source |= c < ' ' && c != '\t' && c != '\f' && !p->has_quote;
	if (p->missing ? (c & 0xC0) != 0x80 : (c >= 0x80 && c < 0xC0) || c >= 0xF8)
		p->is_no_source = true;
	else if (p->missing)
		p->missing--;
	else if (c >= 0xC0)
		p->missing = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
}

static void add_byte(struct python_source *p, uint8_t c)
{
	bool is_lf_of_cr = p->was_cr && c == '\n';

	p->has_quote |= c == '\'' || c == '"' || c == '#';
	p->was_cr = c == '\r';
	if (is_lf_of_cr)
		return;
	if (c == '\n' || c == '\r') {
		end_line(p);
		return;
	}
	p->at++;
	if (p->is_lost)
		return;
	if (p->is_dropped) {
		if (c && is_piece(p->at - 1))
			lose_line(p);
		return;
	}
	if (p->at > MOST_LINE) {
		lose_line(p);
		return;
	}
	if (!c) {
		p->is_no_source |= p->missing > 0;
		p->missing = 0;
		p->is_dropped = true;
		return;
	}
	check_character(p, c);
	if (p->is_complete || p->is_unsure)
		return;
	if (p->len < MOST_LINE)
		p->line[p->len++] = (char)c;
	else
		p->is_unsure = true;
}

static void read_source(struct ckpt_scanner *s, struct ckpt_source *source, struct python_source *p)
{
	uint64_t size = ckpt_source_size(source), at = 0;
	uint8_t *block = malloc(BLOCK);
	bool ok = block;

	s->no_memory |= !block;
	while (ok && at < size && at < MOST_SOURCE && !p->is_no_source) {
		size_t len = size - at < BLOCK ? (size_t)(size - at) : BLOCK;

		ok = ckpt_source_read(source, at, block, len, NULL) == 0 && !ckpt_scan_is_cancelled(s);
		for (size_t i = 0; ok && i < len && !p->is_no_source; i++)
			add_byte(p, block[i]);
		at += len;
	}
	free(block);
	p->is_complete |= at >= size;
	p->is_complete &= ok && !p->is_unsure;
	p->line[p->len] = '\0';
}

/* ---- the first line ---- */

/* What Python has before a program runs, of 3.9 to 3.14; dunders and errors of any name are added. */
static const char *const known[] = {
	"BaseExceptionGroup", "Ellipsis", "ExceptionGroup", "False", "GeneratorExit", "KeyboardInterrupt", "None", "NotImplemented", "StopAsyncIteration", "StopIteration",
	"SystemExit", "True", "_", "abs", "aiter", "all", "anext", "any", "ascii", "bin", "bool", "breakpoint", "bytearray", "bytes", "callable", "chr", "classmethod", "compile",
	"complex", "copyright", "credits", "delattr", "dict", "dir", "divmod", "enumerate", "eval", "exec", "exit", "filter", "float", "format", "frozenset", "getattr", "globals",
	"hasattr", "hash", "help", "hex", "id", "input", "int", "isinstance", "issubclass", "iter", "len", "license", "list", "locals", "map", "max", "memoryview", "min", "next",
	"object", "oct", "open", "ord", "pow", "print", "property", "quit", "range", "repr", "reversed", "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum",
	"super", "tuple", "type", "vars", "zip", NULL
};
static const char *const keywords[] = {
	"False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except", "finally", "for", "from",
	"global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", NULL
};
/* That are some where a statement begins. */
static const char *const soft_keywords[] = { "case", "exec", "match", "print", "type", NULL };

enum token { NOTHING, ATOM, OPERATOR, DOT };
enum proof { NOT_YET, CANNOT_BE_PARSED, NOT_SURE };

struct line_reader {
	const char *at;
	enum token last;
	bool begins_softly;	 /* with what may be a keyword */
	unsigned atoms;
	bool has_unknown_name;
	bool is_more_than_a_name;
	bool is_expression; /* so far, of operators that need both sides */
};

static bool is_word_char(char c)
{
	return ckpt_is_alnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool has_value(const char *word)
{
	/* Python takes characters that are no ASCII for others that mean the same */
	return !ckpt_is_ascii(word) || !strncmp(word, "__", 2) || ckpt_is_one_of(word, known) || ckpt_ends_with(word, "Error") || ckpt_ends_with(word, "Warning") ||
	       ckpt_ends_with(word, "Exception");
}

/* With nothing between them, of which the first is no keyword. */
static enum proof two_values(const struct line_reader *r)
{
	return r->atoms == 1 && r->begins_softly ? NOT_SURE : CANNOT_BE_PARSED;
}

static enum proof add_atom(struct line_reader *r)
{
	if (r->last == ATOM)
		return two_values(r);
	r->last = ATOM;
	r->atoms++;
	return NOT_YET;
}

/* "12", "1.5", "2024_model", which is no number that Python knows; "1or" is two words. */
static enum proof read_number(struct line_reader *r)
{
	static const char *const words[] = { "and", "as", "else", "for", "from", "if", "in", "is", "not", "or" };
	const char *at = r->at;
	bool is_zero = *at == '0';
	enum proof proof = add_atom(r);

	if (proof != NOT_YET)
		return proof;
	at += strspn(at, "0123456789");
	is_zero &= at == r->at + 1;
	if (*at == '.')
		at += 1 + strspn(at + 1, "0123456789");
	r->at = at;
	if (*at == '.' || (is_zero && *at && strchr("xXbBoO", *at)) || (*at && strchr("eEjJ", *at)))
		return NOT_SURE;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(at, words[i], strlen(words[i])))
			return NOT_SURE;
	if (*at == '_' && ckpt_is_digit((unsigned char)at[1]))
		return NOT_SURE;
	return is_word_char(*at) ? CANNOT_BE_PARSED : NOT_YET;
}

static enum proof read_word(struct line_reader *r)
{
	char word[32];
	size_t len = 0;
	bool is_attribute = r->last == DOT;

	while (is_word_char(r->at[len]))
		len++;
	memcpy(word, r->at, len < sizeof(word) ? len : sizeof(word) - 1);
	word[len < sizeof(word) ? len : sizeof(word) - 1] = '\0';
	r->at += len;
	/* "rb'": how a text may begin */
	if ((*r->at == '\'' || *r->at == '"') && len <= 2)
		return NOT_SURE;
	if (len < sizeof(word) && ckpt_is_one_of(word, keywords))
		return NOT_SURE;
	if (is_attribute) {
		r->is_more_than_a_name = true;
		r->last = ATOM;
		return NOT_YET;
	}
	if (!r->atoms && len < sizeof(word))
		r->begins_softly = ckpt_is_one_of(word, soft_keywords);
	/* long words that are cut off are none of those that are known */
	if (r->last != ATOM)
		r->has_unknown_name |= !has_value(word);
	return add_atom(r);
}

static enum proof read_dot(struct line_reader *r)
{
	const char *next = r->at + 1;

	r->at++;
	if (r->last == ATOM) {
		r->last = DOT;
		return NOT_YET;
	}
	/* "./", "..": of "..." and ".5" Python makes values */
	if (r->last == DOT || ckpt_is_digit((unsigned char)*next) || (*next == '.' && next[1] == '.') || *next == '\\' || *next == '\0')
		return NOT_SURE;
	return CANNOT_BE_PARSED;
}

static enum proof read_operator(struct line_reader *r)
{
	char c = *r->at++;

	if (r->last == DOT)
		return CANNOT_BE_PARSED;
	if (c == '/') {
		if (r->last != ATOM)
			return CANNOT_BE_PARSED;
		if (*r->at == '/')
			r->at++;
	}
	r->last = OPERATOR;
	r->is_more_than_a_name = true;
	return NOT_YET;
}

static enum proof read_token(struct line_reader *r)
{
	char c = *r->at;

	if (c == ' ') {
		r->at++;
		return NOT_YET;
	}
	if (ckpt_is_digit((unsigned char)c) && r->last != DOT)
		return read_number(r);
	if (is_word_char(c))
		return r->last == DOT && ckpt_is_digit((unsigned char)c) ? two_values(r) : read_word(r);
	if ((c == '\'' || c == '"') && r->last == ATOM)
		return two_values(r);
	if (c == '.')
		return read_dot(r);
	if (c == '/' || c == '-' || c == '+')
		return read_operator(r);
	if (c == '$' || c == '?' || c == '`')
		return CANNOT_BE_PARSED;
	if (c == '=' || c == ',') { /* "epoch=3-step=100.ckpt" */
		r->at++;
		r->is_expression &= c == ',';
		if (r->last == DOT)
			return CANNOT_BE_PARSED;
		r->last = OPERATOR;
		return NOT_YET;
	}
	/* "a.b: c", where Python looks for a before it makes c, but for that where there is a name alone */
	if (c == ':' && r->last == ATOM && r->is_more_than_a_name) {
		r->at++;
		r->last = OPERATOR;
		return NOT_YET;
	}
	return NOT_SURE;
}

/* Does the line end the program, by itself or because of it nothing is run? */
static bool is_no_program(const struct python_source *p)
{
	struct line_reader r = { .at = p->line, .is_expression = true };
	enum proof proof = NOT_YET;

	while (*r.at && proof == NOT_YET)
		proof = read_token(&r);
	if (proof != NOT_YET)
		return proof == CANNOT_BE_PARSED;
	return p->is_complete && r.is_expression && r.has_unknown_name;
}

static bool is_python(struct ckpt_scanner *s, struct ckpt_source *source, const char *name)
{
	struct python_source p = { 0 };

	/* what may stand in front of a comment that says how the lines are coded */
	if (!*name || *name == ' ' || *name == '#' || (uint8_t)*name == 0xEF)
		return true;
	read_source(s, source, &p);
	return !p.is_no_source && !is_no_program(&p);
}

/* ---- opcodes ---- */

/* It puts a value on the stack that the file has right here, or a mark. */
static bool only_pushes(uint8_t code)
{
	switch ((enum ckpt_opcode)code) {
	case CKPT_OP_BININT:
	case CKPT_OP_BININT1:
	case CKPT_OP_BININT2:
	case CKPT_OP_BINFLOAT:
	case CKPT_OP_NONE:
	case CKPT_OP_SHORT_BINBYTES:
	case CKPT_OP_SHORT_BINSTRING:
	case CKPT_OP_EMPTY_TUPLE:
	case CKPT_OP_EMPTY_LIST:
	case CKPT_OP_EMPTY_DICT:
	case CKPT_OP_MARK: return true;
	default: return false;
	}
}

/* Would an unpickler end in NAME, of NAME bytes, before it did anything? */
static bool is_no_pickle(const char *name)
{
	struct ckpt_reader r = { (const uint8_t *)name, NAME, 0, false };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_pickle pickle = { 0 };
	struct ckpt_op op = { 0 };
	int rc = ckpt_pickle_decode((const uint8_t *)name, NAME, MOST_VALUE, &pickle, &err);

	ckpt_pickle_clear(&pickle);
	if (rc == 0)
		return false;
	if (err.offset < MOST_OPCODES)
		return true;
	while (r.pos < err.offset && ckpt_op_read(&r, &op, NULL) == 0)
		if (!only_pushes(op.code))
			return false;
	/* an opcode that there is may go on behind the name */
	return r.pos == err.offset && !r.bad && r.pos < NAME && (ckpt_op_read(&r, &op, NULL) == 0 || !ckpt_opcode_table[op.code].name);
}

void ckpt_scan_tar_name(struct ckpt_scanner *s, struct ckpt_source *source)
{
	char name[NAME + 1] = "";
	size_t len = 0;
	bool is_text = true;

	if (ckpt_source_read(source, 0, name, NAME, NULL) < 0)
		return; /* it is no tar then */
	for (; len < NAME && name[len]; len++)
		is_text &= (unsigned char)name[len] >= ' ' && name[len] != 0x7F;
	for (size_t i = len; i < NAME; i++)
		is_text &= !name[i];
	if (!is_text || !is_no_pickle(name))
		ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "archive", 0, "a tar archive that begins as a program or a pickle could: with the name of its first member");
	else if (is_python(s, source, name))
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "archive", 0, "a tar archive of text, which Python until 3.11 might take for a program that begins with the name of its first member");
}
