/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar archives: those of torch 0.1 (legacy_load() of torch/serialization.py), whose tables are
 * pickles with bytes of tensors in between, and others, whose members are scanned as files.
 *
 * What must stay true: a table counts as read only if torch's own order of pickles and bytes
 * reaches its last byte. If not, the rest is searched for pickles, since these have no signature
 * that says where they are.
 */
#include "scan/kinds.h"
#include "scan/scanner.h"
#include "scan/loaders/tar_name.h"

#include "base/reader.h"
#include "format/tar.h"
#include "pickle/decode.h"
#include "tensor/dtype.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 100000, MOST_VALUE = 1 << 20, TYPE = 156, NAME = 100, FOLDER = '5' };
static const uint64_t MOST_WHOLE = (uint64_t)1 << 30;

/*
 * Of torch 0.1: pickles with bytes of tensors in between, of which the pickles have no signature
 * that tells where they are.
 */
static bool is_table(const char *name)
{
	return !strcmp(name, "storages") || !strcmp(name, "tensors") || !strcmp(name, "sys_info") ||
	       !strcmp(name, "pickle");
}

/* Python takes slashes off the end of a name. */
static bool is_table_or_folder(const char *name)
{
	char bare[16];
	size_t len = strlen(name);

	while (len && name[len - 1] == '/')
		len--;
	if (len >= sizeof(bare))
		return false;
	memcpy(bare, name, len);
	bare[len] = '\0';
	return is_table(bare);
}

/*
 * One of torch's tables on its way, as legacy_load() of torch/serialization.py reads it: 0.1 to
 * 2.14.
 */
struct table {
	struct ckpt_scanner *s;
	const uint8_t *bytes;
	size_t len, at;
	struct ckpt_pickle pickle; /* that was read last */
};

static bool next_pickle(struct table *t)
{
	struct ckpt_scan_pickle p = { .bytes = t->bytes + t->at,
				      .len = t->len - t->at,
				      .base = t->at,
				      .flags = CKPT_SCAN_STORAGES | CKPT_SCAN_TAR_IDS };
	struct ckpt_error err = CKPT_ERROR_INIT;

	ckpt_pickle_clear(&t->pickle);
	if (!p.len)
		return false;
	ckpt_scan_one_pickle(t->s, &p);
	if (!p.stopped || t->s->rc < 0 ||
	    ckpt_pickle_decode(p.bytes, p.end, MOST_VALUE + 64 * (uint64_t)p.end, &t->pickle, &err) < 0)
		return false;
	t->at += p.end;
	return true;
}

static bool skip(struct table *t, uint64_t len)
{
	if (len > t->len - t->at)
		return false;
	t->at += (size_t)len;
	return true;
}

static uint64_t read_number(const struct table *t, size_t len)
{
	struct ckpt_reader r = { t->bytes + t->at, t->len - t->at, 0, false };

	return ckpt_read_le(&r, len);
}

static const struct ckpt_value *item(const struct table *t, uint32_t i)
{
	const struct ckpt_value *v = t->pickle.root;

	return v->kind == CKPT_TUPLE && i < v->u.seq.count ? v->u.seq.items[i] : &ckpt_value_none;
}

/* (key, location, class of storage), and in front of the numbers how many they are */
static bool read_storage(struct table *t)
{
	const struct ckpt_value *cls;
	enum ckpt_dtype dtype;
	uint64_t nbytes;

	if (!next_pickle(t))
		return false;
	cls = item(t, 2);
	dtype = cls->kind == CKPT_GLOBAL ? ckpt_dtype_of_storage(cls->u.global->name)
					 : CKPT_DTYPE_UNKNOWN;
	if (t->s->weights && (ckpt_value_is_global(cls, "torch.storage", "UntypedStorage") || ckpt_value_is_global(cls, "torch.storage", "TypedStorage")))
		ckpt_scan_refuse(t->s, 1 << CKPT_SCAN_TORCH_1_13, NULL, t->at, "a storage of a class that has no dtype");
	if (ckpt_dtype_is_quantized(dtype)) /* which torch 0.1 did not have; there is nothing that could say the scale */
		ckpt_scan_find(t->s, CKPT_SCAN_UNREADABLE, "state", t->at,
			       "a tar with storages of %s: tensors of them have no numbers that they are quantized by", ckpt_dtype_name(dtype));
	return dtype != CKPT_DTYPE_UNKNOWN && t->len - t->at >= 8 &&
	       !__builtin_mul_overflow(read_number(t, 8), ckpt_dtype_size(dtype), &nbytes) &&
	       skip(t, 8) && skip(t, nbytes);
}

/*
 * (key, storage, class of tensor), the number of dimensions in 8 bytes, sizes, strides, the offset
 */
static bool read_tensor(struct table *t)
{
	uint64_t ndim;

	if (!next_pickle(t) || t->len - t->at < 8)
		return false;
	ndim = read_number(t, 4);
	return skip(t, 8) && ndim <= 64 && skip(t, 16 * ndim + 8);
}

/* True: all of it was read, to the last byte. */
static bool read_table(struct table *t, bool storages)
{
	int64_t count;

	if (!next_pickle(t) || t->pickle.root->kind != CKPT_INT)
		return false;
	count = t->pickle.root->u.integer;
	for (int64_t i = 0; i < count; i++)
		if (!(storages ? read_storage(t) : read_tensor(t)))
			return false;
	return (!storages || next_pickle(t)) && t->at == t->len;
}

static void scan_table(struct ckpt_scanner *s, const struct ckpt_tar_member *m,
		       const uint8_t *bytes)
{
	struct table t = { .s = s, .bytes = bytes, .len = (size_t)m->len };
	bool storages = !strcmp(m->name, "storages"),
	     weights = s->weights, ok;

	s->weights = !s->depth && strcmp(m->name, "sys_info") != 0; /* torch 1.13 reads the other three with its own unpickler, and this not at all */
	ok = storages || !strcmp(m->name, "tensors") ? read_table(&t, storages) : next_pickle(&t) && t.at == t.len;
	s->weights = weights;
	ckpt_pickle_clear(&t.pickle);
	if (ok || s->rc < 0)
		return;
	ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "archive", t.at,
		       "'%s' is not as torch reads it", m->name);
	/* whatever it is: pickles somewhere in it */
	for (const uint8_t *next = bytes + t.at, *end = bytes + m->len;
	     (next = memmem(next, (size_t)(end - next), "\x80", 1)); next++) {
		struct ckpt_scan_pickle p = { .bytes = next,
					      .len = (size_t)(end - next),
					      .base = (uint64_t)(next - bytes),
					      .flags = CKPT_SCAN_STORAGES | CKPT_SCAN_TAR_IDS |
						       CKPT_SCAN_PROBED };

		if (ckpt_scan_looks_like_pickle(p.bytes, p.len)) {
			ckpt_scan_one_pickle(s, &p);
			return;
		}
	}
}

static void scan_member(struct ckpt_scanner *s, struct ckpt_source *source,
			const struct ckpt_tar_member *m)
{
	const char *before = ckpt_scan_enter(s, m->name, strlen(m->name));
	struct ckpt_source *part = NULL;
	uint8_t *bytes;

	if (is_table(m->name) && m->len <= MOST_WHOLE) {
		bytes = malloc((size_t)m->len + 1);
		s->no_memory |= !bytes;
		if (bytes && ckpt_source_read(source, m->off, bytes, (size_t)m->len, NULL) == 0)
			scan_table(s, m, bytes);
		free(bytes);
	} else if (ckpt_source_slice(source, m->off, m->len, &part, NULL) == 0) {
		s->depth++;
		ckpt_scan_source(s, part, CKPT_SCAN_PART);
		s->depth--;
		ckpt_source_unref(part);
	} else {
		s->no_memory = true;
	}
	s->where = before;
}

static void check_end(struct ckpt_scanner *s, struct ckpt_source *source, uint64_t at)
{
	uint64_t size = ckpt_source_size(source), from = at;
	uint8_t block[4096];

	while (at < size) {
		size_t len = size - at < sizeof(block) ? (size_t)(size - at) : sizeof(block);

		if (ckpt_source_read(source, at, block, len, NULL) < 0)
			return;
		for (size_t i = 0; i < len; i++)
			if (block[i]) {
				ckpt_scan_find(
					s, CKPT_SCAN_INCONSISTENT, "trailer", at + i,
					"%" PRIu64
					" bytes behind the end of the tar archive are not zero",
					size - from);
				return;
			}
		at += len;
	}
}

static bool is_folder(struct ckpt_source *source, const struct ckpt_tar_member *m)
{
	uint8_t type;

	return ckpt_source_read(source, m->header + TYPE, &type, 1, NULL) == 0 && type == FOLDER;
}

/* ---- headers ---- */

/* Octal digits, all but the last one or two of the field, which end it. */
static bool is_octal(const uint8_t *field, size_t len, uint64_t *out)
{
	size_t n = 0;

	*out = 0;
	for (; n < len && field[n] >= '0' && field[n] <= '7'; n++)
		*out = *out << 3 | (uint64_t)(field[n] - '0');
	for (size_t i = n; i < len; i++)
		if (field[i] && field[i] != ' ')
			return false;
	return n + 2 >= len && n < len;
}

/* The same, or nothing at all: numbers of devices, of what is none. */
static bool is_octal_or_none(const uint8_t *field, size_t len)
{
	static const uint8_t none[12];
	uint64_t number;

	return is_octal(field, len, &number) || !memcmp(field, none, len);
}

/*
 * As Python's tarfile, GNU tar and bsdtar write it, with nothing that readers have other rules for: a
 * plain file or a folder, its type and the end of its name agreeing. SIZE: of what follows it. A type of
 * 'x' may come in front of it (is_time()).
 */
static bool is_usual_header(const uint8_t *h, uint64_t *size)
{
	size_t name_len = strnlen((const char *)h, NAME), prefix_len = strnlen((const char *)h + 345, 155);
	uint64_t number;
	char type = (char)h[TYPE];

	if (memcmp(h + 257, "ustar\0" "00", 8) != 0 && memcmp(h + 257, "ustar  \0", 8) != 0)
		return false;
	for (size_t i = name_len; i < NAME; i++)
		if (h[i])
			return false;
	if (!is_octal(h + 100, 8, &number) || !is_octal(h + 108, 8, &number) || !is_octal(h + 116, 8, &number) || !is_octal(h + 124, 12, size) || !is_octal(h + 136, 12, &number) ||
	    !is_octal(h + 148, 8, &number) || !is_octal_or_none(h + 329, 8) || !is_octal_or_none(h + 337, 8))
		return false;
	if (!name_len || (type == 'x' && prefix_len))
		return false;
	return type == 'x' || (type == '0' && h[name_len - 1] != '/') || (type == FOLDER && !*size);
}

/* Records of a pax header that say times, which is what Python's tarfile has to say of an ordinary file. */
static bool are_times(const char *text, size_t len)
{
	static const char *const keys[] = { "mtime=", "atime=", "ctime=" };
	size_t at = 0;

	while (at < len) {
		size_t digits = strspn(text + at, "0123456789"), record = 0, end;
		bool known = false;

		for (size_t i = 0; i < digits && i < 4; i++)
			record = record * 10 + (size_t)(text[at + i] - '0');
		if (!digits || digits > 3 || text[at] == '0' || text[at + digits] != ' ' || record > len - at || record < digits + 9)
			return false;
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			known |= !strncmp(text + at + digits + 1, keys[i], 6);
		end = at + record - 1;
		if (!known || text[end] != '\n' || strspn(text + at + digits + 7, "0123456789.-") != end - at - digits - 7)
			return false;
		at += record;
	}
	return true;
}

/*
 * Tars are read in many ways: which fields have to be numbers, what a folder with bytes is, which of
 * two extended headers counts. A plain one has no header that any reader could take otherwise.
 */
static void check_headers(struct ckpt_scanner *s, struct ckpt_source *source)
{
	enum { MOST_TIMES = 512 };
	static const uint8_t zeros[CKPT_TAR_BLOCK];
	uint8_t h[CKPT_TAR_BLOCK];
	char text[MOST_TIMES + 1];
	uint64_t whole = ckpt_source_size(source), at = 0, size = 0;
	bool extended = false, fine = true;

	for (uint32_t n = 0; fine && n < MOST_MEMBERS && whole - at >= sizeof(h); n++) {
		if (ckpt_source_read(source, at, h, sizeof(h), NULL) < 0)
			return;
		if (!memcmp(h, zeros, sizeof(h)))
			break;
		fine = is_usual_header(h, &size) && size <= whole - at - sizeof(h) && !(extended && h[TYPE] != '0');
		if (fine && h[TYPE] == 'x') {
			fine = size <= MOST_TIMES && ckpt_source_read(source, at + sizeof(h), text, (size_t)size, NULL) == 0;
			text[fine ? size : 0] = '\0';
			fine = fine && strlen(text) == size && are_times(text, (size_t)size);
		}
		extended = h[TYPE] == 'x';
		if (fine)
			at += sizeof(h) + (size + sizeof(h) - 1) / sizeof(h) * sizeof(h);
		fine = fine && at <= whole;
	}
	if (!fine || extended)
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", at, "a header of the tar archive that not all readers take alike");
}

void ckpt_scan_tar(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_tar tar = { .source = source };
	struct ckpt_tar_member m;
	uint32_t count = 0, tables = 0;
	bool is_all = true;
	int rc;

	ckpt_scan_tar_name(s, source);
	check_headers(s, source);
	while ((rc = ckpt_tar_next(&tar, &m, &err)) > 0 && s->rc == 0) {
		if (++count > MOST_MEMBERS) {
			ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", m.header,
				       "more than %d members: the others are not looked into", MOST_MEMBERS);
			is_all = false;
			break;
		}
		tables += is_table(m.name);
		if (ckpt_scan_leads_out(m.name, strlen(m.name)))
			ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "archive", m.header, "'%.200s': the name leads out of the archive", m.name);
		if (m.is_file)
			scan_member(s, source, &m);
		else if (is_table_or_folder(m.name))
			ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "archive", m.header,
				       "'%s' is a link to something else", m.name);
		else if (m.len || !is_folder(source, &m))
			ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", m.header,
				       "a member that is no plain file");
	}
	if (flags & CKPT_SCAN_TOP) {
		s->file.format = tables >= 3 ? "torch tar" : "tar archive";
		s->file.is_torch = tables >= 3;
		if (tables >= 3)
			ckpt_scan_refuse(s, 1 << CKPT_SCAN_TORCH_2_6 | 1 << CKPT_SCAN_TORCH_2_14,
					 NULL, CKPT_NO_OFFSET,
					 "tar archives are not for weights_only");
	}
	if (rc < 0)
		ckpt_scan_failed(s, rc, &err);
	else if (is_all)
		check_end(s, source, tar.at);
	if (tables >= 3 && !(flags & CKPT_SCAN_TOP))
		ckpt_scan_prove_part(s, source);
}
