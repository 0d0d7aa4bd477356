/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of files by their first bytes, decided as the loader in question decides: tar as Python's
 * tarfile does (its checksum, read like int(text.strip() or "0", 8)), compressed files by their signatures.
 *
 * What must stay true: what a loader would take must be taken here. A stricter test (a tar without
 * its magic, say) hides a file from the scan that torch.load would read.
 */
#include "scan/kinds.h"

#include "base/ascii.h"
#include "base/paths.h"
#include "base/reader.h"
#include "base/text.h"
#include "format/format.h"
#include "format/safetensors_header.h"

#include <string.h>
#include <zlib.h>

enum { TAR_BLOCK = 512, TAR_CHECKSUM = 148, TAR_CHECKSUM_LEN = 8 };

/* What str.strip() takes off, and int() once more, of ASCII. */
static bool is_python_blank(char c)
{
	return (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F) || c == ' ';
}

/* As Python's int(text.strip() or "0", 8) reads it: a sign, "0o", single underscores. */
static bool read_octal(const char *text, size_t len, int64_t *out)
{
	bool negative = false, any = false;
	size_t i = 0;

	*out = 0;
	while (len && is_python_blank(text[len - 1]))
		len--;
	while (i < len && is_python_blank(text[i]))
		i++;
	if (i == len)
		return true;
	if (i < len && (text[i] == '-' || text[i] == '+'))
		negative = text[i++] == '-';
	if (i + 1 < len && text[i] == '0' && (text[i + 1] == 'o' || text[i + 1] == 'O'))
		i += 2;
	for (; i < len; i++) {
		if (text[i] == '_')
			continue;
		if (text[i] < '0' || text[i] > '7')
			return false;
		*out = *out << 3 | (text[i] - '0');
		any = true;
	}
	*out = negative ? -*out : *out;
	return any;
}

/* Python's tarfile.nti() */
static bool read_number(const uint8_t *field, size_t len, int64_t *out)
{
	const void *end = memchr(field, '\0', len);

	if (field[0] == 0x80 || field[0] == 0xFF) {
		*out = field[0] == 0xFF ? -1 : 0;
		for (size_t i = 1; i < len; i++)
			*out = (int64_t)((uint64_t)*out << 8 | field[i]);
		return true;
	}
	return read_octal((const char *)field, end ? (size_t)((const uint8_t *)end - field) : len,
			  out);
}

/* tarfile.TarInfo.frombuf() takes no header of which one of these is no number. */
static bool has_numbers(const uint8_t *header)
{
	static const struct {
		uint16_t off, len;
	} fields[] = { { 100, 8 }, { 108, 8 }, { 116, 8 }, { 124, 12 }, { 136, 12 }, { 329, 8 }, { 337, 8 } };
	int64_t number;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!read_number(header + fields[i].off, fields[i].len, &number))
			return false;
	return true;
}

bool ckpt_scan_is_tar(const uint8_t *head, size_t len)
{
	int64_t wanted, plain = 0, of_signed = 0;

	if (len < TAR_BLOCK || !read_number(head + TAR_CHECKSUM, TAR_CHECKSUM_LEN, &wanted) || !has_numbers(head))
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		uint8_t c =
			i >= TAR_CHECKSUM && i < TAR_CHECKSUM + TAR_CHECKSUM_LEN ? ' ' : head[i];

		plain += c;
		of_signed += (int8_t)c;
	}
	return wanted == plain || wanted == of_signed;
}

bool ckpt_scan_is_npy(const uint8_t *head, size_t len)
{
	return len >= 10 && !memcmp(head, "\x93NUMPY", 6);
}

bool ckpt_scan_is_safetensors(struct ckpt_source *source, const uint8_t *head, size_t len)
{
	return ckpt_safetensors_probe(head, len, ckpt_source_size(source));
}

bool ckpt_scan_is_text(const uint8_t *head, size_t len)
{
	const char *text = (const char *)head;
	size_t i = 0, n;

	while (i < len && (n = ckpt_utf8_len(text + i, len - i)) > 0) {
		if (head[i] < ' ' && (!head[i] || !strchr("\t\n\r\f", head[i])))
			return false;
		i += n;
	}
	/* the head may end in the middle of a character */
	return len && (i == len || (len == CKPT_PROBE_BYTES && len - i < 4));
}

/*
 * Two bytes, which begin one file of numbers in some thousands: those are followed by nothing that
 * unpacks.
 */
static bool is_zlib(const uint8_t *head, size_t len)
{
	uint8_t out[1024];
	z_stream z = { .next_in = (uint8_t *)head, .avail_in = (unsigned)len, .next_out = out, .avail_out = sizeof(out) };
	int rc;

	if (len < 6 || head[0] != 0x78 || !head[1] || !strchr("\x01\x5e\x9c\xda", head[1]) || inflateInit(&z) != Z_OK)
		return false;
	rc = inflate(&z, Z_SYNC_FLUSH);
	inflateEnd(&z);
	return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR || rc == Z_NEED_DICT;
}

const char *ckpt_scan_packed_by(const uint8_t *head, size_t len)
{
	static const struct {
		size_t len;
		const char *bytes, *name;
	} known[] = {
		{ 3, "\x1f\x8b\x08", "gzip" },
		{ 3, "BZh", "bzip2" },
		{ 6,
		  "\xfd"
		  "7zXZ",
		  "xz" },
		{ 5, "\x5d\0\0\x80\0", "lzma" },
		{ 4, "\x28\xb5\x2f\xfd", "zstd" },
		{ 4, "\x04\x22\x4d\x18", "lz4" },
		{ 6, "7z\xbc\xaf\x27\x1c", "7-Zip" },
		{ 4, "Rar!", "RAR" },
		{ 4, "ZF0x", "an old joblib" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (len >= known[i].len && !memcmp(head, known[i].bytes, known[i].len))
			return known[i].name;
	return is_zlib(head, len) ? "zlib" : NULL;
}

bool ckpt_scan_is_named_as_checkpoint(const char *path)
{
	static const char *const endings[] = {
		".pt",	    ".pth", ".bin",    ".ckpt",	  ".pkl", ".pickle",   ".p",
		".pck",	    ".pcl", ".dill",   ".joblib", ".npy", ".npz",      ".model",
		".weights", ".tar", ".distcp", ".pt2",	  ".ptl", ".jit",      ".torch",
		".th",	    ".t7",  ".dat",    ".data",	  ".zip", ".metadata", ".safetensors",
		".pyt",	    ".ts",  ".params", ".mdl",	  ".sav",
	};
	size_t len = strlen(path);

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t n = strlen(endings[i]);

		if (len >= n && !ckpt_strcasecmp(path + len - n, endings[i]))
			return true;
	}
	return ckpt_is_descriptor(path);
}

/*
 * Of Windows, whose own header lies where the old one of MS-DOS says: two letters alone begin many
 * numbers.
 */
static bool is_windows_program(const uint8_t *head, size_t len)
{
	struct ckpt_reader r = { head, len, 60, false };
	size_t start = ckpt_read_u32(&r);

	return !r.bad && !memcmp(head, "MZ", 2) && len >= 4 && start <= len - 4 && !memcmp(head + start, "PE\0\0", 4);
}

bool ckpt_scan_is_program(const uint8_t *head, size_t len)
{
	return len >= 64 &&
	       (!memcmp(head,
			"\x7f"
			"ELF",
			4) ||
		is_windows_program(head, len) || !memcmp(head, "\xcf\xfa\xed\xfe", 4) ||
		!memcmp(head, "\xca\xfe\xba\xbe", 4));
}

static bool has_parent_step(const char *name, size_t len)
{
	for (size_t i = 0; i + 1 < len; i++)
		if (name[i] == '.' && name[i + 1] == '.' &&
		    (!i || name[i - 1] == '/' || name[i - 1] == '\\') &&
		    (i + 2 == len || name[i + 2] == '/' || name[i + 2] == '\\'))
			return true;
	return false;
}

bool ckpt_scan_leads_out(const char *name, size_t len)
{
	return !len || name[0] == '/' || name[0] == '\\' || has_parent_step(name, len) || (len > 1 && name[1] == ':');
}
