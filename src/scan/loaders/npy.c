/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numpy's format: a header in Python's syntax, then numbers, or a pickle if the items are objects.
 * The header is read as numpy writes it and in no other way: of another one it cannot be told what
 * numpy would make of it.
 */
#include "base/ascii.h"
#include "scan/kinds.h"
#include "scan/numpy.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADER = 1 << 20, MOST_DIMENSIONS = 32, MOST_NESTED = 16 };
static const uint64_t MOST_PICKLE = (uint64_t)1 << 30;

struct header_cursor {
	const char *at, *end;
};

struct header {
	uint64_t nbytes, count, itemsize; /* COUNT: items */
	uint64_t lists; /* product of the sizes that are not 0 */
	unsigned ndim;
	bool has_text, is_big; /* items are texts of 4 bytes a character, the highest first */
	bool has_objects;      /* what follows is a pickle */
};

static bool skip_text(struct header_cursor *c, const char *text)
{
	size_t len = strlen(text);

	if ((size_t)(c->end - c->at) < len || memcmp(c->at, text, len) != 0)
		return false;
	c->at += len;
	return true;
}

static bool read_number(struct header_cursor *c, uint64_t *out)
{
	const char *start = c->at;

	*out = 0;
	while (c->at < c->end && ckpt_is_digit((unsigned char)*c->at) && *out < UINT64_MAX / 16)
		*out = *out * 10 + (uint64_t)(*c->at++ - '0');
	return c->at > start && (c->at == start + 1 || *start != '0'); /* Python takes no 02 */
}

/* Does numpy have numbers of LETTER with so many bytes? Of texts and raw bytes it has any. */
static bool has_size(char letter, uint64_t itemsize)
{
	switch (letter) {
	case 'b':
		return itemsize == 1;
	case 'i':
	case 'u':
		return itemsize == 1 || itemsize == 2 || itemsize == 4 || itemsize == 8;
	case 'f':
		return itemsize == 2 || itemsize == 4 || itemsize == 8 || itemsize == 12 || itemsize == 16;
	case 'c':
		return itemsize == 8 || itemsize == 16 || itemsize == 24 || itemsize == 32;
	case 'm':
	case 'M':
		return itemsize == 8;
	default:
		return true;
	}
}

/* "ns]", "25s]": of more than an int has, numpy 1.19 makes another number, and later ones refuse. */
static bool read_unit(struct header_cursor *c)
{
	uint64_t count = 1;
	const char *name;

	if (c->at < c->end && ckpt_is_digit((unsigned char)*c->at) && (!read_number(c, &count) || !count || count > INT32_MAX))
		return false;
	for (name = c->at; c->at < c->end && ckpt_is_alpha((unsigned char)*c->at);)
		c->at++;
	return ckpt_scan_is_numpy_unit(name, (size_t)(c->at - name)) && skip_text(c, "]");
}

/* '<f4' -> 4; '|O', of older numpy '|O8' -> 1, as how much room objects have is not said. */
static bool read_type(struct header_cursor *c, uint64_t *itemsize, struct header *h)
{
	char letter;

	if (!skip_text(c, "'") || c->end - c->at < 3 || !strchr("<>|=", c->at[0]) ||
	    !strchr("biufcmMSUVO", c->at[1]))
		return false;
	letter = c->at[1];
	if (letter == 'O') {
		h->has_objects = true;
		*itemsize = 1;
		c->at += c->at[2] == '4' || c->at[2] == '8' ? 3 : 2;
		return skip_text(c, "'");
	}
	h->has_text = letter == 'U';
	h->is_big = c->at[0] == '>';
	c->at += 2;
	if (!read_number(c, itemsize) || !has_size(letter, *itemsize))
		return false;
	if (letter == 'U')
		*itemsize *= 4;
	if ((letter == 'm' || letter == 'M') && skip_text(c, "["))
		return read_unit(c) && skip_text(c, "'");
	return skip_text(c, "'");
}

static bool read_shape(struct header_cursor *c, struct header *h)
{
	uint64_t n;

	h->count = h->lists = 1;
	if (!skip_text(c, "("))
		return false;
	for (; !skip_text(c, ")"); h->ndim++) {
		if (!read_number(c, &n) || __builtin_mul_overflow(h->count, n, &h->count) || __builtin_mul_overflow(h->lists, n ? n : 1, &h->lists))
			return false;
		/* (2) is a number */
		if (!skip_text(c, ", ") && !skip_text(c, ",") && (c->at == c->end || *c->at != ')' || !h->ndim))
			return false;
	}
	return true;
}

/*
 * [('a', '<f4'), ('b', '<i8', (3,)), ('c', [('d', '|u1')])]: a structure of numbers, one behind the other, whose names
 * have neither escapes nor quotes. DEPTH: how many more may be in it, one in the other.
 */
static bool read_structure(struct header_cursor *c, uint64_t *itemsize, struct header *h, unsigned depth)
{
	struct header field = { 0 };
	uint64_t one;

	*itemsize = 0;
	if (!skip_text(c, "["))
		return false;
	for (bool first = true; !skip_text(c, "]"); first = false) {
		if ((!first && !skip_text(c, ", ")) || !skip_text(c, "('"))
			return false;
		while (c->at < c->end && !strchr("'\"\\\177", *c->at) && (unsigned char)*c->at >= ' ')
			c->at++;
		field = (struct header){ .count = 1 };
		if (!skip_text(c, "', ") || !(read_type(c, &one, &field) || (depth && read_structure(c, &one, &field, depth - 1))) || field.has_text || (skip_text(c, ", ") && !read_shape(c, &field)) || !skip_text(c, ")") ||
		    __builtin_mul_overflow(one, field.count, &one) || __builtin_add_overflow(*itemsize, one, itemsize) || field.ndim > MOST_DIMENSIONS || !one)
			return false;
		h->has_objects |= field.has_objects;
	}
	h->has_text = false;
	return *itemsize != 0;
}

/* "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", blanks, a line feed */
static bool read_header(struct header_cursor c, struct header *h)
{
	if (!skip_text(&c, "{'descr': ") || (!read_type(&c, &h->itemsize, h) && !read_structure(&c, &h->itemsize, h, MOST_NESTED)) ||
	    !skip_text(&c, ", 'fortran_order': ") || (!skip_text(&c, "False") && !skip_text(&c, "True")) ||
	    !skip_text(&c, ", 'shape': ") || !read_shape(&c, h) || !skip_text(&c, ", }"))
		return false;
	while (skip_text(&c, " ")) {
	}
	skip_text(&c, "\n");
	return c.at == c.end && !__builtin_mul_overflow(h->itemsize, h->count, &h->nbytes);
}

/* Behind a header that is not of numbers: a pickle, or nobody knows what. IS_WRITTEN: it is one that numpy writes for objects. */
static void scan_objects(struct ckpt_scanner *s, struct ckpt_source *source, uint64_t off, bool is_written)
{
	uint64_t len = ckpt_source_size(source) - off;
	struct ckpt_scan_pickle p = { .len = (size_t)len, .base = off };
	uint8_t *bytes;

	if (len > MOST_PICKLE) {
		ckpt_scan_find(
			s, CKPT_SCAN_UNREADABLE, "unreadable", off,
			"an array whose header is not of numbers, and too long to be a pickle");
		return;
	}
	bytes = malloc((size_t)len + 1);
	s->no_memory |= !bytes;
	p.bytes = bytes;
	if (bytes && ckpt_source_read(source, off, bytes, (size_t)len, NULL) == 0) {
		if (ckpt_scan_looks_like_pickle(bytes, (size_t)len))
			ckpt_scan_pickles(s, &p, 1);
		else
			is_written = false;
		if (!is_written) /* numbers perhaps, of which nobody knows how many there would be */
			ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", 0,
				       "an array with a header that numpy does not write");
	}
	free(bytes);
}

/* Characters that Python has. */
static void check_texts(struct ckpt_scanner *s, struct ckpt_source *source, uint64_t off, const struct header *h)
{
	uint8_t block[4096];

	for (uint64_t at = 0; at < h->nbytes; at += sizeof(block)) {
		size_t len = h->nbytes - at < sizeof(block) ? (size_t)(h->nbytes - at) : sizeof(block);

		if (ckpt_scan_is_cancelled(s) || ckpt_source_read(source, off + at, block, len, NULL) < 0)
			return;
		for (size_t i = 0; i + 4 <= len; i += 4)
			if (h->is_big ? block[i] || block[i + 1] > 0x10 : block[i + 3] || block[i + 2] > 0x10) {
				ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "arguments", off + at + i, "an array of texts with what is no character");
				return;
			}
	}
}

void ckpt_scan_npy(struct ckpt_scanner *s, struct ckpt_source *source)
{
	uint64_t size = ckpt_source_size(source), start;
	struct header h = { 0 };
	uint8_t head[12];
	char *text;
	bool ok;

	if (size < sizeof(head) || ckpt_source_read(source, 0, head, sizeof(head), NULL) < 0) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", 0,
			       "the array is cut off in its header");
		return;
	}
	start = head[6] == 1 ? 10u + (head[8] | head[9] << 8)
			     : 12u + (uint64_t)(head[8] | head[9] << 8 | head[10] << 16) +
				       ((uint64_t)head[11] << 24);
	if (head[6] < 1 || head[6] > 3 || head[7] || start > size || start > MOST_HEADER) {
		ckpt_scan_find(
			s, CKPT_SCAN_UNREADABLE, "unreadable", 0,
			"the array is cut off in its header, or of a version that numpy does not have");
		return;
	}
	text = malloc((size_t)start);
	s->no_memory |= !text;
	ok = text && ckpt_source_read(source, 0, text, (size_t)start, NULL) == 0 && (head[6] < 3 || ckpt_utf8_ok(text + 12, (size_t)start - 12)) &&
	     read_header((struct header_cursor){ text + (head[6] == 1 ? 10 : 12), text + start }, &h);
	free(text);
	if (!ok || h.has_objects)
		scan_objects(s, source, start, ok);
	else if (h.nbytes > size - start)
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", size,
			       "the array is cut off: %" PRIu64 " bytes, wanted %" PRIu64,
			       size - start, h.nbytes);
	else if (h.nbytes < size - start && !s->in_fragment)
		ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "trailer", start + h.nbytes,
			       "%" PRIu64 " bytes follow the array", size - start - h.nbytes);
	ok = ok && !h.has_objects;
	if (ok && (h.ndim > MOST_DIMENSIONS || (!h.count && h.lists > CKPT_NUMPY_EMPTY_LISTS)))
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "arguments", 0, "an array of more than %d dimensions, or of very many lists without items", MOST_DIMENSIONS);
	if (ok && !h.itemsize) /* and as many as the header says make lists without end */
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "arguments", 0, "an array whose items have no bytes: torch.from_numpy() of torch up to 2.6 divides by that, and ends the process");
	if (ok && h.has_text && h.nbytes <= size - start)
		check_texts(s, source, start, &h);
}
