/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts in programs of torch.export that become a part of the source in Python that torch makes of a program (see the header).
 *
 * What must stay true: a text is a name unless the key right in front of it says otherwise, so that one under an unknown key, in
 * an object of another kind or under a key that comes twice is looked at, too. A name has no character by which Python would
 * do anything with what is around it.
 */
#include "scan/loaders/export.h"

#include "scan/json_text.h"

#include <stdlib.h>
#include <string.h>

/* What a text is. */
enum kind {
	NAME,
	TREE,	  /* JSON in a text, with names and keys of dicts in it */
	GUARD,
	FREE,	  /* a literal in the source, or not in it; formulas are looked at elsewhere */
	QUOTED,	  /* names of modules and parameters, which the source has as getattr(self, "NAME") where they are none of Python */
	METADATA, /* an object of such */
	RANGES,	  /* an object whose keys are formulas of sizes: "2*s0" */
};

enum { MOST_NESTED = 900, MOST_LAYERS = 4 };

/* The first text that is not what it has to be. */
struct misfit {
	const char *text;
	size_t len;
};

struct reader {
	struct ckpt_json_cursor c;
	char *text; /* has room for all that is read */
	struct misfit *misfit;
	uint8_t kinds[MOST_NESTED];
	unsigned depth;
	uint8_t next; /* the kind of what comes behind a key */
	bool in_tree;
	unsigned layer;
};

static uint8_t kind_of(const char *key, size_t len)
{
	static const struct {
		const char *key;
		uint8_t kind;
	} known[] = { { "expr_str", FREE },    { "as_string", FREE },	    { "as_strings", FREE }, { "out_spec", FREE },	{ "torch_version", FREE },
		      { "in_spec", TREE },     { "guards_code", GUARD },    { "metadata", METADATA },
		      { "range_constraints", RANGES }, { "parameter_name", QUOTED }, { "buffer_name", QUOTED },
		      { "tensor_constant_name", QUOTED }, { "fqn", QUOTED } };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].key) == len && !memcmp(known[i].key, key, len))
			return known[i].kind;
	return NAME;
}

static uint8_t kind_in_metadata(const char *key, size_t len)
{
	if (len == 4 && !memcmp(key, "name", 4))
		return NAME;
	return len == 15 && !memcmp(key, "nn_module_stack", 15) ? QUOTED : FREE;
}

/* Letters of any language, digits, and what is between the parts of names; blanks in keys of dicts. */
static bool is_name(const char *text, size_t len, bool is_key)
{
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		bool is_fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (uint8_t)c >= 0x80 ||
			       (c && strchr("_.-+/@", c)) || (is_key && c == ' ');

		if (!is_fine)
			return false;
	}
	return true;
}

/* Would it end where a source of Python has it in quotes? A line end that JSON spells out was read as '?'. */
static bool leaves_quotes(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((uint8_t)text[i] < ' ' || text[i] == '"' || text[i] == '\\' || text[i] == '?')
			return true;
	return false;
}

/* "u12", "zuf3": torch 2.14 counts up to that number, one by one, and int() takes more than digits. */
static bool counts_far(const char *text, size_t len)
{
	enum { MOST_DIGITS = 6 };
	size_t front = len && text[0] == 'u' ? 1 : len > 3 && !memcmp(text, "zuf", 3) ? 3 : 0;

	if (!front || len - front <= MOST_DIGITS)
		return false;
	for (size_t i = front; i < len; i++)
		if (!(text[i] >= '0' && text[i] <= '9') && text[i] != '_' && text[i] != '+' && text[i] != ' ' && !((uint8_t)text[i] & 0x80))
			return false;
	return true;
}

static bool read_all(struct reader *r);

/* The text of LEN bytes in R->TEXT is a name, or JSON of such. */
static bool is_tree(struct reader *r, size_t len)
{
	struct reader inner = { .c = { (const uint8_t *)r->text, (const uint8_t *)r->text + len }, .text = r->text + len, .in_tree = true, .layer = r->layer + 1, .next = TREE, .misfit = r->misfit };

	if (is_name(r->text, len, true))
		return true;
	return len && strchr("[{\"", r->text[0]) && inner.layer < MOST_LAYERS && read_all(&inner);
}

static bool is_fine(struct reader *r, uint8_t kind, size_t len)
{
	switch (kind) {
	case FREE:
	case METADATA:
		return true;
	case QUOTED:
		return !leaves_quotes(r->text, len);
	case GUARD:
		return ckpt_scan_export_is_guard(r->text, len);
	case TREE:
		return is_tree(r, len);
	case RANGES:
		return !counts_far(r->text, len) && (ckpt_scan_export_is_formula(r->text, len) || is_name(r->text, len, false));
	default:
		return is_name(r->text, len, false);
	}
}

/* A text at R, behind its quote. In the metadata of a node "name" says none. */
static bool read_text(struct reader *r)
{
	uint8_t around = r->depth ? r->kinds[r->depth - 1] : r->next;
	size_t len = ckpt_json_read_whole(&r->c, r->text);
	bool fits;

	if (ckpt_json_skip(&r->c, ':')) { /* it is a key */
		/* in a tree the name of a class stands so, which is imported: ckpt_scan_export_imports() looks at it */
		r->next = r->in_tree ? (len == 3 && !memcmp(r->text, "fqn", 3) ? FREE : TREE) : around == METADATA ? kind_in_metadata(r->text, len) : kind_of(r->text, len);
		fits = is_fine(r, around == METADATA || around == RANGES || r->in_tree ? around : NAME, len);
	} else {
		fits = is_fine(r, r->next, len);
		r->next = around;
	}
	if (!fits && !r->misfit->text)
		*r->misfit = (struct misfit){ r->text, len };
	return fits;
}

/* Does JSON have BYTE beside its texts? */
static bool is_json(uint8_t byte)
{
	return byte && strchr("[]{}:,-+.0123456789 \t\n\rEtruefalsn", byte);
}

/* False: a text is not what it has to be; or all of it is nested too deep, or a tree no JSON. */
static bool read_all(struct reader *r)
{
	while (r->c.at < r->c.end) {
		uint8_t byte = *r->c.at++;

		if (byte == '"' && !read_text(r))
			return false;
		if (byte == '[' || byte == '{') {
			if (r->depth == MOST_NESTED)
				return false;
			/* the texts of a list are of its key, those of an object have their own */
			r->kinds[r->depth++] = r->in_tree ? TREE : byte == '[' ? r->next : r->next == METADATA || r->next == RANGES ? r->next : NAME;
			r->next = r->kinds[r->depth - 1];
		}
		if (r->in_tree && byte != '"' && !is_json(byte))
			return false;
		if (byte == ']' || byte == '}') {
			r->depth -= r->depth > 0;
			r->next = r->depth ? r->kinds[r->depth - 1] : NAME;
		}
	}
	return true;
}

static bool is_program(const uint8_t *json, size_t len)
{
	struct ckpt_json_cursor c = { json, json + len };

	while ((c.at = memchr(c.at, '"', (size_t)(c.end - c.at)))) {
		c.at++;
		if (ckpt_json_read_key(&c, "graph_module"))
			return true;
	}
	return false;
}

bool ckpt_scan_export_writes(const uint8_t *json, size_t len, char shown[CKPT_EXPORT_SHOWN], bool *no_memory)
{
	struct misfit misfit = { 0 };
	struct reader r = { .c = { json, json + len }, .misfit = &misfit };
	bool found;

	if (!is_program(json, len))
		return false;
	r.text = malloc(MOST_LAYERS * (len + 1));
	*no_memory |= !r.text;
	found = r.text && !read_all(&r);
	misfit.len = misfit.len < CKPT_EXPORT_SHOWN ? misfit.len : CKPT_EXPORT_SHOWN - 1;
	if (found && misfit.text)
		memcpy(shown, misfit.text, misfit.len);
	shown[misfit.len] = '\0';
	free(r.text);
	return found;
}
