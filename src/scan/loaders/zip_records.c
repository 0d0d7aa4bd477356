/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the records of an archive are (by the names that torch and torch.package give them), and
 * what is in them.
 *
 * What must stay true: pickles go first, since they say which records are storages; a record
 * counts as numbers only if a pickle mentions it. What unpacks is limited by the size of the file.
 * Names are compared without regard to case, as torch's reader of archives (miniz) does.
 */
#include "base/ascii.h"
#include "base/text.h"
#include "scan/loaders/export.h"
#include "scan/kinds.h"
#include "scan/names.h"
#include "scan/loaders/zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 64 << 10, SMALL = 4096 };
/* of which an opcode a byte may become 17 bytes of stack */
static const uint64_t MOST_WHOLE = (uint64_t)1 << 30, MOST_STORAGES = 32 << 20, MOST_UNPACKED = 3 << 20;
enum { MOST_RATIO = 24 }; /* packed records become no more than that many times as long */

enum role {
	ROLE_FOLDER,
	ROLE_PICKLE,  /* of torch */
	ROLE_STORAGE, /* bytes of tensors, which nobody takes for anything else */
	ROLE_MARK,    /* version, byte order and the like */
	ROLE_SOURCE,  /* code of TorchScript or torch.package */
	ROLE_OTHER,
};

static bool has_record(const struct ckpt_loose_zip *zip, const char *record)
{
	size_t len = strlen(zip->folder);

	for (uint32_t i = 0; i < zip->count; i++) {
		const struct ckpt_loose_entry *e = &zip->entries[i];

		if (!e->is_hidden && !ckpt_strncasecmp(e->name, zip->folder, len) &&
		    e->name[len] == '/' && !ckpt_strcasecmp(e->name + len + 1, record))
			return true;
	}
	return false;
}

/* A torch.package of torch 1.9 or later. */
static bool is_new_package(const struct ckpt_loose_zip *zip)
{
	return has_record(zip, ".data/extern_modules") || has_record(zip, ".data/python_version");
}

/* Of torch.export until 2.7, in no folder. */
static bool has_program(const struct ckpt_loose_zip *zip)
{
	static const char name[] = "serialized_exported_program.json";

	for (uint32_t i = 0; i < zip->count; i++) {
		const char *slash = strrchr(zip->entries[i].name, '/');

		if (!ckpt_strcasecmp(slash ? slash + 1 : zip->entries[i].name, name))
			return true;
	}
	return false;
}

/* As miniz compares names, and so torch: of ASCII letters any case. */
static bool ends_with(const char *name, const char *end)
{
	size_t len = strlen(name), n = strlen(end);

	return len >= n && !ckpt_strcasecmp(name + len - n, end);
}

static bool begins_with(const char *name, const char *begin)
{
	return !ckpt_strncasecmp(name, begin, strlen(begin));
}

/* Behind the archive's own folder; NULL: it is not in that. */
const char *ckpt_loose_zip_in_folder(const struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	size_t len = strlen(zip->folder);

	return !ckpt_strncasecmp(e->name, zip->folder, len) && e->name[len] == '/' ? e->name + len + 1
									  : NULL;
}

static bool is_of_torch(const struct ckpt_loose_zip *zip)
{
	return zip->has_pickle || zip->is_script || zip->is_package;
}

/* The key of a storage, if the record is called as one. */
static const char *key_of(const char *record, size_t *len)
{
	static const char *const folders[] = { "data/", "constants/", "traced_inputs/",
					       "tensors/" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		size_t n = strlen(folders[i]);

		*len = strlen(record) - (strlen(record) < n ? 0 : n);
		if (!ckpt_strncasecmp(record, folders[i], n))
			return record + n;
	}
	*len = strlen(record) < 14 ? 0 : strlen(record) - 14;
	return begins_with(record, ".data/") && ends_with(record, ".storage") ? record + 6 : NULL;
}

/* Only what a pickle mentions is taken for numbers by whoever loads it. */
static bool is_storage(const struct ckpt_loose_zip *zip, const char *record)
{
	size_t len;
	const char *key = key_of(record, &len);

	return key && ckpt_strmap_find(&zip->storages, key, len);
}

static bool is_mark(const char *record)
{
	static const char *const names[] = {
		"version",	   ".data/version",	 "byteorder",
		".format_version", ".storage_alignment", ".data/serialization_id"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!ckpt_strcasecmp(record, names[i]))
			return true;
	return false;
}

/*
 * TorchScript in a torch.package, which is compiled. The importer of Python's modules passes over
 * what lies there, under this very name: in other letters it is a source of Python, which is worse.
 */
static bool is_script_of_package(const struct ckpt_loose_zip *zip, const char *record)
{
	return zip->is_package && record && !strncmp(record, ".data/ts_code/", 14);
}

static enum role role_of(const struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	const char *record = ckpt_loose_zip_in_folder(zip, e);

	if (e->name_len && e->name[e->name_len - 1] == '/' && !e->csize && !e->usize)
		return ROLE_FOLDER;
	if (ends_with(e->name, "/data.pkl"))
		return ROLE_PICKLE;
	if (!record || !is_of_torch(zip))
		return ROLE_OTHER;
	if (is_mark(record))
		return ROLE_MARK;
	if ((zip->is_script || zip->is_package) &&
	    (ends_with(record, ".py") || begins_with(record, "code/")))
		return ends_with(record, "pkl") ? ROLE_PICKLE : ROLE_SOURCE;
	if (is_storage(zip, record))
		return ROLE_STORAGE;
	return ends_with(record, ".pkl") && is_of_torch(zip) ? ROLE_PICKLE : ROLE_OTHER;
}

/* ---- what torch.load(weights_only=True) says ---- */

enum { NO_1_13 = 1 << CKPT_SCAN_TORCH_1_13, NO_2_6 = 1 << CKPT_SCAN_TORCH_2_6, NO_2_14 = 1 << CKPT_SCAN_TORCH_2_14, NO_TORCH = NO_1_13 | NO_2_6 | NO_2_14 };

/* Python's int() of bytes: blanks around it, a sign, single underscores between up to 4300 digits. */
static bool is_python_integer(const uint8_t *bytes, uint64_t len)
{
	enum { MOST_DIGITS = 4300 };
	uint64_t digits = 0;
	bool is_digit = false;

	while (len && strchr(" \t\n\v\f\r", bytes[len - 1]) && bytes[len - 1])
		len--;
	while (len && strchr(" \t\n\v\f\r", *bytes) && *bytes)
		bytes++, len--;
	if (len && (*bytes == '-' || *bytes == '+'))
		bytes++, len--;
	for (uint64_t i = 0; i < len; i++) {
		if (!ckpt_is_digit(bytes[i]) && (bytes[i] != '_' || !is_digit))
			return false;
		is_digit = ckpt_is_digit(bytes[i]);
		digits += is_digit;
	}
	return is_digit && digits <= MOST_DIGITS;
}

/* std::stoull() in torch takes the number that a text begins with. Of torch 1.7 to 2.14 it is to be 1 to 10. */
static bool is_known_version(const uint8_t *bytes, uint64_t len)
{
	uint64_t i = 0, number = 0;

	while (i < len && bytes[i] && strchr(" \t\n\v\f\r", bytes[i]))
		i++;
	if (i < len && bytes[i] == '+')
		i++;
	for (; i < len && ckpt_is_digit(bytes[i]) && number <= 10; i++)
		number = number * 10 + (uint64_t)(bytes[i] - '0');
	return number >= 1 && number <= 10;
}

/*
 * Marks that torch reads before it asks its unpickler, and refuses an archive for, whatever
 * weights_only is. Source: torch/serialization.py, _load(); caffe2/serialize/inline_container.cc,
 * PyTorchStreamReader::init().
 */
static void check_mark_for_torch(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, const uint8_t *bytes, uint64_t len)
{
	const char *record = ckpt_loose_zip_in_folder(zip, e);

	if (!(zip->flags & CKPT_SCAN_TOP) || e->is_hidden || !record)
		return;
	if (!ckpt_strcasecmp(record, "byteorder") && !(len == 3 && !memcmp(bytes, "big", 3)) && !(len == 6 && !memcmp(bytes, "little", 6)))
		ckpt_scan_refuse(zip->s, NO_2_6 | NO_2_14, NULL, CKPT_NO_OFFSET, "a byte order that is neither 'little' nor 'big'");
	else if (!ckpt_strcasecmp(record, ".storage_alignment") && !is_python_integer(bytes, len))
		ckpt_scan_refuse(zip->s, NO_2_14, NULL, CKPT_NO_OFFSET, "an alignment that is no number");
	else if (!ckpt_strcasecmp(record, zip->version_record) && !is_known_version(bytes, len))
		ckpt_scan_refuse(zip->s, NO_TORCH, NULL, CKPT_NO_OFFSET, "a version of the format that is none of 1 to 10");
}

/* The same of the archive as a whole. */
void ckpt_loose_zip_check_for_torch(struct ckpt_loose_zip *zip)
{
	struct ckpt_scanner *s = zip->s;

	s->weights_seen |= zip->is_for_jit; /* no unpickler of torch.load reads it */
	if (zip->is_for_jit)
		ckpt_scan_refuse(s, NO_2_6 | NO_2_14, NULL, CKPT_NO_OFFSET, "TorchScript archives are not for weights_only");
	if (zip->has_disks)
		ckpt_scan_refuse(s, NO_TORCH, NULL, CKPT_NO_OFFSET, "an archive that says to be spread over several disks");
	if (zip->is_missed)
		ckpt_scan_refuse(s, NO_TORCH, NULL, CKPT_NO_OFFSET, "a comment behind which torch does not find the end of the archive");
	if (zip->is_far || zip->is_outside)
		ckpt_scan_refuse(s, zip->is_outside ? NO_TORCH : NO_1_13, NULL, CKPT_NO_OFFSET, "a record that lies outside of the file, by its offset of 32 bits");
	if (!has_record(zip, zip->version_record))
		ckpt_scan_refuse(s, NO_TORCH, NULL, CKPT_NO_OFFSET, "an archive without a version of its format");
}

/* ---- one record ---- */

static void check_bytes(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, uint64_t len,
			uint32_t crc32)
{
	if (e->is_hidden || (e->method && e->method != 8)) /* packed in a way that is not looked into: said */
		return;
	if (len != e->usize)
		ckpt_loose_zip_odd(zip, e, 0,
				   "it has %" PRIu64 " bytes, the directory says %" PRIu64, len,
				   e->usize);
	if (e->crc32 != crc32 && !(zip->without_crc && !e->crc32))
		ckpt_loose_zip_odd(zip, e, 0,
				   "its checksum is %08" PRIx32 ", %08" PRIx32
				   " is recorded: who checks it reads nothing",
				   crc32, e->crc32);
}

static bool is_known_mark(const uint8_t *bytes, uint64_t len)
{
	for (uint64_t i = 0; i < len && i < SMALL; i++)
		if (!ckpt_is_alnum(bytes[i]) && !strchr("\r\n -._", bytes[i]))
			return false;
	return len < SMALL;
}

static bool is_of_big_endian(const struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, const uint8_t *bytes, uint64_t len)
{
	const char *record = ckpt_loose_zip_in_folder(zip, e);

	return record && !ckpt_strcasecmp(record, "byteorder") && len == 3 && !memcmp(bytes, "big", 3);
}

/* Is it what torch.load gives to its unpickler? */
static bool is_main_pickle(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	const char *record = ckpt_loose_zip_in_folder(zip, e);

	return zip->flags & CKPT_SCAN_TOP && !e->is_hidden && record &&
	       !ckpt_strcasecmp(record, "data.pkl");
}

/* IS_CUT: these are its first bytes, and there are more. */
static void scan_pickle(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e,
			const uint8_t *bytes, uint64_t len, bool is_cut)
{
	struct ckpt_scan_pickle p = { .bytes = bytes,
				      .len = (size_t)len,
				      .flags = CKPT_SCAN_STORAGES | (is_cut ? CKPT_SCAN_CUT : 0u) };
	bool weights = zip->s->weights, in_package = zip->s->in_package;
	struct ckpt_strmap *said = zip->s->said_in_package;

	zip->s->weights = is_main_pickle(zip, e) && !zip->is_for_jit;
	zip->s->in_package = zip->is_package;
	zip->s->said_in_package = zip->is_package ? &zip->said_storages : NULL;
	zip->s->storages = &zip->storages;
	ckpt_scan_pickles(zip->s, &p, 1);
	zip->s->storages = NULL;
	zip->s->said_in_package = said;
	zip->s->in_package = in_package;
	zip->s->weights = weights;
}

/* A file in the archive, which may be of any kind. BYTES: those that it begins with, of which there are LEN. */
static void scan_other(struct ckpt_loose_zip *zip, struct ckpt_source *inner, const uint8_t *bytes, uint64_t len)
{
	struct ckpt_scanner *s = zip->s;
	bool weights = s->weights, in_package = s->in_package, known;
	struct ckpt_strmap *said = s->said_in_package;

	if (!inner) {
		s->no_memory = true;
		return;
	}
	s->depth++;
	s->weights = false;
	s->in_package = zip->is_package;
	s->said_in_package = zip->is_package ? &zip->said_storages : NULL;
	known = ckpt_scan_source(s, inner, CKPT_SCAN_PART);
	if (ckpt_scan_is_program(bytes, (size_t)len))
		ckpt_scan_find(s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET,
			       "a program or library for the machine itself");
	s->said_in_package = said;
	s->in_package = in_package;
	s->weights = weights;
	s->depth--;
	ckpt_source_unref(inner);
	if (known && zip->has_pickle && !zip->is_script && !zip->is_package)
		ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "hidden", CKPT_NO_OFFSET,
			       "a file that torch does not look at, in an archive of torch.save");
}

/* Does an archive begin or end there? */
static bool is_archive(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e,
		       const uint8_t *head, uint64_t len)
{
	uint8_t mark[4];

	return (len >= 4 && !memcmp(head, "PK\3\4", 4)) ||
	       (!e->method && e->csize >= 22 &&
		ckpt_loose_zip_at(zip, e->data_off + e->csize - 22, mark, 4) &&
		!memcmp(mark, "PK\5\6", 4));
}

static uint64_t most_unpacked(const struct ckpt_loose_entry *e)
{
	uint64_t most = MOST_UNPACKED + MOST_RATIO * (e->csize < MOST_WHOLE ? e->csize : MOST_WHOLE);

	return !e->method || most > MOST_WHOLE ? MOST_WHOLE : most;
}

/* The bytes of a record as a file; *BYTES is to be freed behind it. NULL: they are not to be had, or no memory. */
static struct ckpt_source *part_of(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, uint8_t **bytes)
{
	uint64_t most = most_unpacked(e), len;
	struct ckpt_source *part = NULL;
	uint32_t crc32;

	if (!e->method)
		return ckpt_source_slice(zip->source, e->data_off, e->csize, &part, NULL) == 0 ? part : NULL;
	*bytes = ckpt_loose_zip_bytes(zip, e, most, &len, &crc32);
	if (!*bytes || len > most)
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET, "a compressed storage that begins as a file of another kind, and is more than is looked into");
	return *bytes && ckpt_source_from_memory(*bytes, (size_t)(len < most ? len : most), &part, NULL) == 0 ? part : NULL;
}

/* Numbers, of a storage or an array, that a load unpacks. */
static void count_unpacked(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	uint64_t most = MOST_STORAGES + MOST_RATIO * ckpt_source_size(zip->source), before_it = zip->unpacked;

	if (!e->method || !e->usize)
		return;
	if (__builtin_add_overflow(before_it, e->usize, &zip->unpacked))
		zip->unpacked = UINT64_MAX;
	if (before_it <= most && zip->unpacked > most)
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "amount", CKPT_NO_OFFSET,
			       "compressed storages or arrays that unpack to more than %d times the archive", MOST_RATIO);
}

/*
 * Numbers, for whoever loads the checkpoint. Who asks for the record by its name may take it for a
 * file, packed or not: numpy.load() unpickles an array of objects in any member, and the importer of
 * torch.package any record.
 */
static void scan_storage(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e,
			 const uint8_t *head, uint64_t len)
{
	struct ckpt_scanner *s = zip->s;
	bool weights = s->weights, in_fragment = s->in_fragment;
	uint64_t size = e->method ? e->usize : e->csize;
	struct ckpt_source *part;
	uint8_t *bytes = NULL;

	count_unpacked(zip, e);
	if (e->method && !zip->has_packed_storage) {
		zip->has_packed_storage = s->has_packed_storage = true;
		ckpt_scan_find(s, CKPT_SCAN_PLAIN, "note", CKPT_NO_OFFSET,
			       "a compressed storage: torch.load(mmap=True) takes the compressed bytes for numbers");
	}
	if (!ckpt_scan_is_npy(head, (size_t)len) && !is_archive(zip, e, head, len) && !ckpt_scan_looks_like_pickle(head, (size_t)len) &&
	    ckpt_scan_begins_stream(head, (size_t)len, size) != CKPT_SCAN_STREAM && (len == size || !ckpt_scan_may_go_on(head, (size_t)len)))
		return;
	part = part_of(zip, e, &bytes);
	if (!part) {
		s->no_memory |= !e->method || bytes;
		free(bytes);
		return;
	}
	s->depth++;
	s->weights = false;
	s->in_fragment = true;
	if (ckpt_scan_source(s, part, CKPT_SCAN_PART))
		ckpt_scan_find(s, CKPT_SCAN_PLAIN, "hidden", 0,
			       "the bytes of a tensor would be a file, were anybody to take them for one");
	s->in_fragment = in_fragment;
	s->weights = weights;
	s->depth--;
	ckpt_source_unref(part);
	free(bytes);
}

/* A program of torch.export, or what could be one. */
static void scan_formulas(struct ckpt_loose_zip *zip, const uint8_t *bytes, uint64_t len)
{
	char formula[CKPT_EXPORT_SHOWN], shown[2 * CKPT_EXPORT_SHOWN];
	uint64_t at = 0;

	while (at < len && (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\n' || bytes[at] == '\r'))
		at++;
	if (at < len && bytes[at] == '{' && zip->is_export)
		ckpt_scan_export_imports(zip->s, bytes, (size_t)len);
	if (at < len && bytes[at] == '{')
		ckpt_loose_zip_check_payloads(zip, bytes, len);
	if (at < len && bytes[at] == '{' && ckpt_scan_export_runs(bytes, (size_t)len, formula))
		ckpt_scan_find(zip->s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET,
			       "a formula that torch does not write: '%s', which torch.export.load evaluates", ckpt_escape(shown, sizeof(shown), formula, strlen(formula)));
	else if (at < len && bytes[at] == '{' && ckpt_scan_export_writes(bytes, (size_t)len, formula, &zip->s->no_memory))
		ckpt_scan_find(zip->s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET,
			       "'%s' is not what torch writes there, and torch.export.load makes it a part of a source in Python", ckpt_escape(shown, sizeof(shown), formula, strlen(formula)));
}

/* Names of modules, one in a line, which could as well be opcodes: ".data/extern_modules", "extern_modules" of torch 1.8. */
static bool is_named_as_modules(const struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	const char *record = ckpt_loose_zip_in_folder(zip, e);

	return zip->is_package && record && (ckpt_strcasecmp(record, ".data/extern_modules") == 0 || ckpt_strcasecmp(record, "extern_modules") == 0);
}

static void scan_in_memory(struct ckpt_loose_zip *zip, const uint8_t *bytes, uint64_t len)
{
	struct ckpt_source *inner;

	scan_other(zip, ckpt_source_from_memory(bytes, (size_t)len, &inner, NULL) == 0 ? inner : NULL, bytes, len);
}

/*
 * A record that is neither packed nor one of which all has to be seen at once: others than the first
 * bytes, of which there are LEN, need not be in memory.
 */
static bool may_stay_outside(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, enum role role)
{
	uint8_t head[SMALL];
	size_t len = e->csize < sizeof(head) ? (size_t)e->csize : sizeof(head), at = 0;

	if (role != ROLE_OTHER || e->method || e->csize <= HEAD || !ckpt_loose_zip_at(zip, e->data_off, head, len))
		return false;
	while (at < len && (head[at] == ' ' || head[at] == '\t' || head[at] == '\n' || head[at] == '\r'))
		at++;
	return at < len && head[at] != '{' && !is_named_as_modules(zip, e);
}

static void scan_outside(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, const uint8_t *bytes, uint64_t len)
{
	struct ckpt_source *inner;

	scan_other(zip, ckpt_source_slice(zip->source, e->data_off, e->csize, &inner, NULL) == 0 ? inner : NULL, bytes, len);
}

static void scan_bytes(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, enum role role,
		       const uint8_t *bytes, uint64_t len, bool is_cut)
{
	uint64_t head = len < HEAD ? len : HEAD;

	switch (role) {
	case ROLE_FOLDER: break;
	case ROLE_PICKLE: scan_pickle(zip, e, bytes, len, is_cut); break;
	case ROLE_STORAGE: scan_storage(zip, e, bytes, head); break;
	case ROLE_MARK:
		check_mark_for_torch(zip, e, bytes, len);
		if (is_of_big_endian(zip, e, bytes, len))
			ckpt_scan_find(zip->s, CKPT_SCAN_PLAIN, "note", CKPT_NO_OFFSET,
				       "numbers of a big-endian machine: torch before 2.1 does not know of it, and reads others");
		if (!is_known_mark(bytes, len))
			ckpt_scan_find(
				zip->s, CKPT_SCAN_INCONSISTENT, "hidden", 0,
				"a mark of the archive that is no such text as torch writes");
		break;
	case ROLE_SOURCE:
		if (zip->is_script || is_script_of_package(zip, ckpt_loose_zip_in_folder(zip, e)))
			ckpt_scan_script_source(&zip->script, bytes, (size_t)len);
		scan_in_memory(zip, bytes, len);
		break;
	case ROLE_OTHER:
		if (!e->method && len < e->csize) {
			scan_outside(zip, e, bytes, len);
			break;
		}
		if (is_named_as_modules(zip, e) && ckpt_loose_zip_extern_modules(zip, bytes, len))
			break;
		if (ckpt_scan_is_npy(bytes, (size_t)len))
			count_unpacked(zip, e);
		scan_formulas(zip, bytes, len);
		scan_in_memory(zip, bytes, len);
		break;
	}
}

void ckpt_loose_zip_record(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	enum role role = role_of(zip, e);
	bool is_outside = e->data_off && may_stay_outside(zip, e, role);
	uint64_t most = role == ROLE_STORAGE || is_outside ? HEAD : most_unpacked(e), len, used;
	struct ckpt_arena_mark mark = ckpt_arena_mark(zip->s->arena);
	const char *before, *inside;
	uint32_t crc32;
	uint8_t *bytes;

	if (!e->data_off || role == ROLE_FOLDER || e->looked & 1u << role)
		return;
	for (uint32_t i = 0; e->is_shared && i < zip->count; i++)
		if (zip->entries[i].header_off == e->header_off)
			zip->entries[i].looked |= (uint8_t)(1u << role);
	if (ckpt_scan_is_cancelled(zip->s)) {
		zip->s->rc = CKPT_E_CANCELLED;
		return;
	}
	before = ckpt_scan_enter(zip->s, e->name, e->name_len);
	inside = zip->s->where;
	used = ckpt_arena_used(zip->s->arena);
	if (e->method != 0 && e->method != 8)
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "archive", CKPT_NO_OFFSET,
			       "compressed by method %u, which torch does not know", e->method);
	bytes = ckpt_loose_zip_bytes(zip, e, most, &len, &crc32);
	if (!bytes) {
		zip->s->weights_cut |= is_main_pickle(zip, e);
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "archive", CKPT_NO_OFFSET,
			       "cannot be unpacked, or is more than is looked into");
	} else {
		zip->s->where = before;
		check_bytes(zip, e, len, crc32);
		zip->s->where = inside;
		if (len > most && role != ROLE_STORAGE && !is_outside)
			ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET,
				       "more than %" PRIu64 " MiB of it is not looked into",
				       most >> 20);
		scan_bytes(zip, e, role, bytes, len < most ? len : most, len > most);
	}
	free(bytes);
	zip->s->where = before;
	if (ckpt_arena_used(zip->s->arena) == used) /* nobody has kept the name of the record */
		ckpt_arena_release(zip->s->arena, mark);
}

/* ---- all of them ---- */

/* What kind of archive it is: torch takes the folder of the first record. */
void ckpt_loose_zip_find_kind(struct ckpt_loose_zip *zip)
{
	const char *slash = zip->count ? strchr(zip->entries[0].name, '/') : NULL;

	zip->folder = strndup(zip->count ? zip->entries[0].name : "",
			      slash ? (size_t)(slash - zip->entries[0].name) : 0);
	if (!zip->folder) {
		zip->s->no_memory = true;
		return;
	}
	zip->has_pickle = has_record(zip, "data.pkl");
	zip->is_script = has_record(zip, "constants.pkl");
	for (uint32_t i = 0; i < zip->count && !zip->is_for_jit; i++) {
		const char *record = ckpt_loose_zip_in_folder(zip, &zip->entries[i]);

		zip->is_for_jit = record && !strcmp(record, "constants.pkl"); /* torch.load looks in the list of names, letter by letter */
	}
	zip->is_export = has_record(zip, "archive_format") || has_program(zip);
	zip->is_old_package = has_record(zip, "extern_modules");
	zip->is_package = zip->is_old_package || is_new_package(zip);
	zip->version_record = has_record(zip, ".data/version") ? ".data/version" : "version";
	zip->without_crc = true;
	for (uint32_t i = 0; i < zip->count; i++)
		zip->without_crc &= !zip->entries[i].crc32;
}

/* A folder without a name, or with one that means another folder: "a//b", "a/./b". */
static bool has_odd_folder(const char *name)
{
	for (const char *at = strchr(name, '/'); at; at = strchr(at + 1, '/'))
		if (at[1] == '/' || begins_with(at, "/./") || begins_with(at, "/../"))
			return true;
	return false;
}

/* torch.package, and zipimport of Python 3.14, keep an object of some 300 bytes for each folder that a name is in: package_importer.py, _get_or_create_package(). */
static void check_folders(struct ckpt_loose_zip *zip)
{
	enum { MOST_FOLDERS = 1 << 16, BYTES_OF_FOLDER = 8 };
	uint64_t folders = 0;

	for (uint32_t i = 0; i < zip->count; i++)
		for (const char *at = strchr(zip->entries[i].name, '/'); at; at = strchr(at + 1, '/'))
			folders++;
	if (folders > MOST_FOLDERS + ckpt_source_size(zip->source) / BYTES_OF_FOLDER)
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "amount", CKPT_NO_OFFSET, "names of records in %" PRIu64 " folders, for each of which torch.package, and Python, keep an object", folders);
}

static void check_archive(struct ckpt_loose_zip *zip)
{
	uint32_t pickles = 0, sources = 0, scripts = 0, compiled = 0;
	bool constants = false;

	for (uint32_t i = 0; i < zip->count; i++) {
		const struct ckpt_loose_entry *e = &zip->entries[i];

		compiled += ckpt_loose_zip_is_compiled(e->name);
		constants |= ckpt_loose_zip_is_constant(e->name);
		if (e->is_hidden)
			continue;
		if (is_script_of_package(zip, ckpt_loose_zip_in_folder(zip, e))) {
			scripts += role_of(zip, e) == ROLE_SOURCE;
		} else {
			pickles += ends_with(e->name, "/data.pkl") || !ckpt_strcasecmp(e->name, "data.pkl");
			sources += role_of(zip, e) == ROLE_SOURCE;
		}
		if (ckpt_loose_zip_is_main(e->name))
			ckpt_scan_find(zip->s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET, "'%s', which 'python FILE' runs, or 'python FILE/FOLDER'", e->name);
		if (ckpt_loose_zip_shadows(zip, e->name))
			ckpt_scan_find(zip->s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET, "'%s', which 'python FILE' or 'python FILE/FOLDER' imports in place of its own", e->name);
		if (is_of_torch(zip) && !ckpt_loose_zip_in_folder(zip, e))
			ckpt_loose_zip_odd(zip, e, 0, "it lies outside of the folder '%.80s/'",
					   zip->folder);
		else if ((is_of_torch(zip) || zip->is_export) && has_odd_folder(e->name))
			ckpt_loose_zip_odd(zip, e, 0, "the name goes through a folder without a name, which some readers of torch pass over");
	}
	if (pickles > 1)
		ckpt_loose_zip_odd(zip, NULL, CKPT_NO_OFFSET,
				   "%" PRIu32
				   " records are called data.pkl: which one is the checkpoint?",
				   pickles);
	if (scripts)
		ckpt_scan_find(zip->s, CKPT_SCAN_NEEDS_OBJECTS, "source", CKPT_NO_OFFSET,
			       "TorchScript in a torch.package: %" PRIu32 " sources, which a load of its pickles compiles", scripts);
	/* an archive may be of several kinds: whoever loads it says which */
	if (zip->is_script)
		ckpt_scan_find(zip->s, CKPT_SCAN_NEEDS_OBJECTS, "source", CKPT_NO_OFFSET,
			       "TorchScript: %" PRIu32 " sources, which torch.jit.load compiles",
			       sources);
	if (zip->is_script && zip->in_row)
		ckpt_scan_find(zip->s, CKPT_SCAN_INCONSISTENT, "source", CKPT_NO_OFFSET, "TorchScript as an item of a DCP directory: torch 1.13 to 2.3 compile what they find at the end of the data file");
	if (has_record(zip, "model.json"))
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "source", CKPT_NO_OFFSET,
			       "TorchScript of torch 1.0 to 1.3, which torch until 1.7 compiles: 'model.json' says where its sources are, which are not looked into");
	if (zip->is_export)
		ckpt_scan_find(zip->s, CKPT_SCAN_NEEDS_OBJECTS, "source", CKPT_NO_OFFSET,
			       "a program of torch.export, which a load evaluates");
	if (compiled)
		ckpt_scan_find(zip->s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET,
			       "AOTInductor: %" PRIu32 " files in 'data/aotinductor/' or 'data/constants/', which aoti_load_package and torch.export.load compile by a command of their own, or load as a library",
			       compiled);
	if (constants && !zip->is_export)
		ckpt_scan_find(zip->s, CKPT_SCAN_NEEDS_OBJECTS, "source", CKPT_NO_OFFSET, "records in 'data/constants/', which aoti_load_package writes to files in a folder of its own");
	if (zip->is_old_package && is_new_package(zip))
		ckpt_loose_zip_odd(zip, NULL, CKPT_NO_OFFSET, "a torch.package of torch 1.8, and one of later versions, which find modules and numbers elsewhere");
	if (sources && (zip->is_package || !zip->is_script))
		ckpt_scan_find(zip->s, CKPT_SCAN_DANGEROUS, "source", CKPT_NO_OFFSET,
			       "torch.package: %" PRIu32 " sources of Python, which a load of its pickles runs",
			       sources);
}

void ckpt_loose_zip_records(struct ckpt_loose_zip *zip)
{
	uint32_t count = zip->count;

	check_archive(zip);
	check_folders(zip);
	/* pickles first: they say what the others are */
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < count && zip->s->rc == 0 && !zip->s->no_memory; i++)
			if ((role_of(zip, &zip->entries[i]) == ROLE_PICKLE) == !round)
				ckpt_loose_zip_record(zip, &zip->entries[i]);
	ckpt_scan_script_report(zip->s, &zip->script);
}
