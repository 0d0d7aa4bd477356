/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file is, by its bytes, and who looks into it. Loaders ask less than that: torch.load tries
 * tar first and by a checksum, then takes any bytes for a pickle; so does pickle.load. What a file
 * is for one of them it is, whatever else it may be.
 */
#include "base/ascii.h"
#include "scan/kinds.h"
#include "scan/scanner.h"
#include "scan/loaders/zip.h"

#include "base/reader.h"
#include "base/text.h"
#include "format/format.h"
#include "format/torch_legacy.h"
#include "pickle/opcodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 8 };
static const uint64_t MOST_PICKLE = (uint64_t)2 << 30;

/* How a file is seen, which may be in several ways at once. */
struct viewed_file {
	struct ckpt_scanner *s;
	struct ckpt_source *source;
	unsigned flags;
	const uint8_t *head;
	size_t len;
	bool is_stream, is_odd_stream; /* of torch until 1.5, as it begins all of them, or otherwise */
};

static void set_format(struct viewed_file *l, const char *format)
{
	if (l->flags & CKPT_SCAN_TOP)
		l->s->file.format = format;
}

static void add_finding(struct viewed_file *l, enum ckpt_scan_verdict verdict, const char *kind, const char *text)
{
	ckpt_scan_find(l->s, verdict, kind, CKPT_NO_OFFSET, "%s", text);
}

/* ---- pickles ---- */

/* The whole file in memory; NULL: said why. */
static uint8_t *read_whole(struct viewed_file *l)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t size = ckpt_source_size(l->source);
	uint8_t *bytes;
	int rc;

	if (size > MOST_PICKLE) {
		add_finding(l, CKPT_SCAN_UNREADABLE, "unreadable",
		     "a pickle of more than 2 GiB is not looked into");
		return NULL;
	}
	bytes = malloc((size_t)size + 1);
	rc = bytes ? ckpt_source_read(l->source, 0, bytes, (size_t)size, &err) : CKPT_E_NOMEM;
	ckpt_scan_failed(l->s, rc, &err);
	if (rc == 0)
		return bytes;
	free(bytes);
	return NULL;
}

static void scan_bare(struct viewed_file *l)
{
	struct ckpt_scan_pickle p = { .bytes = read_whole(l),
				      .len = (size_t)ckpt_source_size(l->source),
				      .flags = (l->s->in_fragment ? CKPT_SCAN_PROBED : 0u) |
					       (l->s->in_package ? CKPT_SCAN_STORAGES : 0u) };

	if (p.bytes)
		ckpt_scan_pickles(l->s, &p, 1);
	free((void *)p.bytes);
}

static void find_stream(struct viewed_file *l)
{
	uint64_t size = ckpt_source_size(l->source);
	enum ckpt_scan_beginning begins = ckpt_scan_begins_stream(l->head, l->len, size);

	l->is_stream = ckpt_torch_legacy_begins(l->head, l->len);
	if (!l->is_stream && begins == CKPT_SCAN_NOT_YET && l->len < size)
		begins = ckpt_scan_first_pickle(l->s, l->source);
	l->is_odd_stream = !l->is_stream && begins == CKPT_SCAN_STREAM;
}

/* "os.system": a name that Python can import. */
static bool is_importable(const char *name)
{
	bool dot = false;

	for (const char *at = name; *at; at++) {
		if (*at == '.' && (at == name || at[-1] == '.'))
			return false;
		if (*at != '.' && *at != '_' && !ckpt_is_alnum((unsigned char)*at) && !((unsigned char)*at & 0x80))
			return false;
		dot |= *at == '.';
	}
	return dot;
}

/*
 * Numbers begin like a pickle now and then: one file of random ones in some thousands. A program is
 * what imports, wherever it breaks off, ends where the file does, or would take a loader's time and
 * memory. LOOKS: it calls what it names, by its opcodes alone; of the bytes of a tensor nothing less is believed.
 */
static bool is_program(struct viewed_file *l, const uint8_t *bytes, size_t len, bool looks)
{
	bool text = ckpt_scan_is_text(l->head, l->len) && !ckpt_scan_is_named_as_checkpoint(l->s->file.path),
	     prose = text || (bytes == l->head && !(l->flags & CKPT_SCAN_TOP)); /* numbers in a part of an archive have such letters, too */
	struct ckpt_scan_pickle p = { .bytes = bytes, .len = len, .flags = CKPT_SCAN_PROBED | (prose ? CKPT_SCAN_PROSE : 0u) };
	struct ckpt_scanner quiet;
	bool is, is_over = len > l->s->pickle_budget; /* which is said where it is looked into */

	if (ckpt_scanner_init(&quiet, l->s->file.path) < 0 || ckpt_scanner_set_size(&quiet, len) < 0) {
		l->s->no_memory = true;
		ckpt_scanner_clear(&quiet);
		return true;
	}
	quiet.cancel = l->s->cancel;
	/* it is looked at twice, within the same limits */
	quiet.depth = l->s->depth;
	quiet.file.bytes = l->s->file.bytes;
	quiet.pickle_budget = l->s->pickle_budget;
	ckpt_scan_one_pickle(&quiet, &p);
	l->s->pickle_budget = quiet.pickle_budget;
	is = quiet.no_memory || quiet.rc < 0 || is_over || (((looks && p.stopped && p.end == len) || p.imports || p.gave_up) && !l->s->in_fragment);
	for (uint32_t i = 0; i < quiet.global_count && looks && !is; i++)
		is = is_importable(quiet.globals[i].name);
	for (uint32_t i = 0; i < quiet.finding_count && !is && !l->s->in_fragment; i++)
		is = !strcmp(quiet.findings[i].kind, "key") || !strcmp(quiet.findings[i].kind, "amount");
	ckpt_scanner_clear(&quiet);
	return is;
}

static bool has_signature(const struct viewed_file *l)
{
	return l->len >= 2 && l->head[0] == CKPT_OP_PROTO && l->head[1] <= 5;
}

/* In a file of which not all is looked into: in its first bytes, or behind texts and numbers that it passes over. */
static bool breaks_off_early(struct viewed_file *l)
{
	enum { WINDOW = 1 << 20, MOST_WINDOWS = 16 };
	uint64_t size = ckpt_source_size(l->source), at = 0, behind = 0;
	uint8_t *bytes = malloc(WINDOW);
	enum ckpt_scan_break is = CKPT_SCAN_BEHIND;

	l->s->no_memory |= !bytes;
	for (unsigned i = 0; bytes && is == CKPT_SCAN_BEHIND && i < MOST_WINDOWS; i++) {
		size_t len = size - at < WINDOW ? (size_t)(size - at) : WINDOW;

		if (ckpt_source_read(l->source, at, bytes, len, NULL) < 0)
			break;
		is = ckpt_scan_breaks_off(bytes, len, !at, &behind);
		if (!at && is != CKPT_SCAN_MAY_GO_ON && is_program(l, bytes, len, false))
			is = CKPT_SCAN_MAY_GO_ON;
		if (is == CKPT_SCAN_BEHIND && behind >= size - at) /* there is nothing */
			is = CKPT_SCAN_BREAKS_OFF;
		at += is == CKPT_SCAN_BEHIND ? behind : 0;
	}
	free(bytes);
	return is == CKPT_SCAN_BREAKS_OFF;
}

/*
 * Would an unpickler get anywhere? More of the file is read as long as its beginning is nothing but
 * opcodes.
 */
static bool is_pickle(struct viewed_file *l)
{
	uint64_t size = ckpt_source_size(l->source);
	uint8_t *bytes;
	bool looks = ckpt_scan_looks_like_pickle(l->head, l->len), is;

	if (looks && has_signature(l) && !l->s->in_fragment)
		return true;
	if (!looks && !ckpt_scan_may_go_on(l->head, l->len)) /* it breaks off here, which may take its time */
		return is_program(l, l->head, l->len, false);
	if (size > MOST_PICKLE || size > l->s->pickle_budget) /* a text may be that long: that it is not looked into is said */
		return looks || !breaks_off_early(l);
	bytes = malloc((size_t)size + 1);
	l->s->no_memory |= !bytes;
	is = bytes && ckpt_source_read(l->source, 0, bytes, (size_t)size, NULL) == 0;
	looks = is && ckpt_scan_looks_like_pickle(bytes, (size_t)size);
	is = is && ((looks && has_signature(l) && !l->s->in_fragment) || is_program(l, bytes, (size_t)size, looks));
	free(bytes);
	return is;
}

/* ---- what holds no code ---- */

static bool is_there(struct viewed_file *l, uint64_t off, const char *mark)
{
	uint8_t bytes[4];

	return off < ckpt_source_size(l->source) && ckpt_source_size(l->source) - off >= 4 &&
	       ckpt_source_read(l->source, off, bytes, 4, NULL) == 0 && !memcmp(bytes, mark, 4);
}

/* Is there a directory where the end record at OFF says, or one of zip64? */
static bool has_directory(struct viewed_file *l, uint64_t off, const uint8_t *end)
{
	struct ckpt_reader r = { end, 20, 12, false };
	uint64_t size = ckpt_read_u32(&r), start = ckpt_read_u32(&r);

	return (off >= size && is_there(l, off - size, "PK\1\2")) || is_there(l, start, "PK\1\2") ||
	       (off >= 20 && is_there(l, off - 20, "PK\6\7")) || (off >= 76 && is_there(l, off - 76, "PK\6\6"));
}

/*
 * An archive at the end of a file that is none: unzip, Python's zipfile, `python FILE`, torch.package
 * and torch.jit.load read it.
 */
static bool ends_as_zip(struct viewed_file *l)
{
	enum { END_BYTES = 22 };
	uint64_t size = ckpt_source_size(l->source);
	size_t len = size < CKPT_LOOSE_END_WINDOW ? (size_t)size : CKPT_LOOSE_END_WINDOW;
	uint8_t *tail = malloc(len + 1), *at = tail;
	bool is = false;

	l->s->no_memory |= !tail;
	if (tail && ckpt_source_read(l->source, size - len, tail, len, NULL) == 0)
		while (!is && (at = memmem(at, (size_t)(tail + len - at), "PK\5\6", 4))) {
			if ((size_t)(tail + len - at) >= END_BYTES)
				is = has_directory(l, size - len + (uint64_t)(at - tail), at);
			at++;
		}
	free(tail);
	return is;
}

/* What stands in the place of a checkpoint. */
static bool is_nothing(const struct viewed_file *l)
{
	struct ckpt_identity is;

	ckpt_identify(l->source, l->head, l->len, &is);
	return is.nature == CKPT_NATURE_MARKUP || is.nature == CKPT_NATURE_LFS || is.nature == CKPT_NATURE_EMPTY || is.nature == CKPT_NATURE_ZEROS;
}

/* As numpy.savez() writes it where it is given no array. */
static bool is_empty_npz(const struct viewed_file *l)
{
	static const uint8_t end[22] = { 'P', 'K', 5, 6 };

	return l->len == sizeof(end) && !memcmp(l->head, end, sizeof(end)) && ckpt_ends_with(l->s->file.path, ".npz");
}

/* Neither a pickle nor anything with one inside. */
static bool scan_other(struct viewed_file *l)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	bool top = l->flags & CKPT_SCAN_TOP,
	     named = ckpt_scan_is_named_as_checkpoint(l->s->file.path),
	     text = ckpt_scan_is_text(l->head, l->len);
	const char *packer = ckpt_scan_packed_by(l->head, l->len);
	char said[sizeof(err.text)];

	ckpt_fail_unknown_file(l->source, l->head, l->len, &err);
	if (packer && l->flags & CKPT_SCAN_ROW && !strcmp(packer, "zstd")) {
		set_format(l, "packed DCP items");
		add_finding(l, CKPT_SCAN_PLAIN, "note", "packed items of a DCP directory, whose index says what is in them");
		return true;
	}
	if (packer && (!l->s->in_folder || ckpt_source_size(l->source) > 16)) {
		set_format(l, "compressed");
		ckpt_scan_find(l->s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET,
			       "compressed by %s: unpack it first", packer);
		return true;
	}
	if (l->flags & CKPT_SCAN_ROW && !ckpt_source_size(l->source)) {
		set_format(l, "data of a DCP directory");
		add_finding(l, CKPT_SCAN_PLAIN, "note", "a data file without items, as torch leaves it where there are fewer than threads");
		return true;
	}
	if (!top)
		return false;
	if (ckpt_scan_hf_index(l->s, l->source) || ckpt_scan_latest(l->s, l->source)) {
		set_format(l, "text");
		return true;
	}
	if (is_empty_npz(l)) {
		set_format(l, "zip archive");
		add_finding(l, CKPT_SCAN_PLAIN, "note", "a numpy archive without arrays");
		return true;
	}
	if (text && !named && !is_nothing(l)) {
		set_format(l, "text");
		if (!l->s->in_folder)
			add_finding(l, CKPT_SCAN_PLAIN, "note", "text, which no loader of checkpoints runs");
		return false;
	}
	set_format(l, text ? "text" : "unknown");
	if (l->s->in_folder && !named)
		return false;
	ckpt_scan_find(l->s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET, "%s", ckpt_error_text(&err, said, sizeof(said)));
	return true;
}

/* ---- all ways to see it ---- */

static bool scan_named_kind(struct viewed_file *l)
{
	if (l->is_stream || l->is_odd_stream) {
		set_format(l, "torch legacy stream");
		if (l->is_odd_stream)
			add_finding(l, CKPT_SCAN_INCONSISTENT, "kind", "a stream of torch that does not begin as torch writes it: torch.load goes on behind the first pickle, others do not");
		ckpt_scan_legacy(l->s, l->source, l->flags);
		if (!(l->flags & CKPT_SCAN_TOP))
			ckpt_scan_prove_part(l->s, l->source);
	} else if (ckpt_scan_is_npy(l->head, l->len)) {
		set_format(l, "numpy array");
		ckpt_scan_npy(l->s, l->source);
	} else if (l->len >= 8 && !memcmp(l->head + 4, "PTMF", 4)) {
		set_format(l, "torch mobile");
		add_finding(l, CKPT_SCAN_NEEDS_OBJECTS, "source",
		     "a mobile model: a program, which torch.jit.load makes ready to run");
		ckpt_scan_mobile(l->s, l->source);
	} else if (ckpt_scan_is_safetensors(l->source, l->head, l->len)) {
		set_format(l, "safetensors");
		if (l->flags & CKPT_SCAN_TOP) {
			add_finding(l, CKPT_SCAN_PLAIN, "note",
			     "safetensors, in which there is nothing to run");
			ckpt_scan_prove(l->s, l->source, CKPT_SCAN_TOP);
		}
	} else {
		return false;
	}
	return true;
}

static void scan_unpickled(struct viewed_file *l)
{
	find_stream(l);
	if (l->is_stream || l->is_odd_stream)
		ckpt_scan_legacy(l->s, l->source, CKPT_SCAN_PART);
	else if (is_pickle(l))
		scan_bare(l);
}

static bool scan_all_ways(struct viewed_file *l)
{
	bool tar = ckpt_scan_is_tar(l->head, l->len), named, pickle;

	if (l->len >= 4 && !memcmp(l->head, "PK\3\4", 4)) {
		ckpt_scan_zip(l->s, l->source, l->flags);
		return true;
	}
	find_stream(l);
	named = scan_named_kind(l);
	pickle = !l->is_stream && !l->is_odd_stream && is_pickle(l);
	if (pickle) {
		if (!named)
			set_format(l, "pickle");
		scan_bare(l);
	}
	if (tar)
		ckpt_scan_tar(l->s, l->source, named || pickle ? CKPT_SCAN_PART : l->flags);
	if (named + pickle + tar > 1)
		add_finding(l, CKPT_SCAN_INCONSISTENT, "kind",
		     pickle ? "it can be read as a pickle, too"
			    : "it can be read as a tar archive, too");
	if (ends_as_zip(l)) {
		if (!named && !pickle && !tar)
			set_format(l, "zip archive behind other bytes");
		add_finding(l, CKPT_SCAN_INCONSISTENT, "kind", "a zip archive lies at its end");
		ckpt_scan_zip(l->s, l->source, CKPT_SCAN_PART);
		return true;
	}
	return named || pickle || tar || scan_other(l);
}

bool ckpt_scan_source(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags)
{
	uint8_t head[CKPT_PROBE_BYTES];
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t size = ckpt_source_size(source);
	struct viewed_file l = { .s = s, .source = source, .flags = flags, .head = head };
	int rc;

	l.len = size < sizeof(head) ? (size_t)size : sizeof(head);
	rc = ckpt_source_read(source, 0, head, l.len, &err);
	if (rc < 0) {
		ckpt_scan_failed(s, rc, &err);
		return true;
	}
	if (s->depth > MOST_DEPTH) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET,
			       "files in files, more than %d deep", MOST_DEPTH);
		return true;
	}
	if (flags & CKPT_SCAN_UNPICKLED) {
		scan_unpickled(&l);
		return true;
	}
	if (flags & CKPT_SCAN_TOP && ckpt_scan_extern_modules_file(s, source)) {
		set_format(&l, "text");
		if (!s->in_folder)
			add_finding(&l, CKPT_SCAN_PLAIN, "note", "names of modules that a torch.package is without");
		return s->file.verdict > CKPT_SCAN_PLAIN;
	}
	return scan_all_ways(&l);
}
