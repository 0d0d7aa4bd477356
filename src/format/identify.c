/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what a file is that no format reads, from its first bytes (and, for TensorFlow, its last
 * ones). What must stay true: strong signs come before weak ones, as a text or a pickle of
 * protocol 0 may be nearly anything; nothing here decides whether a checkpoint is read, so that
 * a wrong guess costs a wrong message and no more.
 */
#include "format/format.h"

#include "base/ascii.h"
#include "base/text.h"
#include "format/safetensors_header.h"
#include "pickle/op.h"
#include "pickle/opcodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char DCP_MODULE[] = "torch.distributed.checkpoint.metadata";
enum { LEAST_MESSAGE = 8, MOST_MESSAGE = 400 };

/* Files that people mistake for checkpoints, by the bytes at OFF. */
static const struct {
	size_t off, len;
	const char *bytes, *what;
} signatures[] = {
	{ 0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file (Keras .h5), not a torch checkpoint" },
	{ 0, 6, "\x93NUMPY", "a NumPy .npy array, not a torch checkpoint" },
	{ 0, 4, "GGUF", "a GGUF model (llama.cpp), not a torch checkpoint" },
	{ 0, 4, "lmgg", "an old GGML model, not a torch checkpoint" },
	{ 0, 4, "fmgg", "an old GGML model, not a torch checkpoint" },
	{ 0, 4, "tjgg", "an old GGML model, not a torch checkpoint" },
	{ 0, 8, "PYTORCH1", "a file of a torch 1.0 pre-release, a form that was given up" },
	{ 4, 4, "ET12", "an ExecuTorch program, not a torch.save file" },
	{ 4, 4, "TFL3", "a TensorFlow Lite model, not a torch checkpoint" },
	{ 0, 4,
	  "\x7f"
	  "ELF",
	  "an executable (ELF), not a torch checkpoint" },
	{ 0, 2, "MZ", "a Windows executable, not a torch checkpoint" },
	{ 0, 4, "\x00\x05\x16\x07",
	  "a macOS resource file (._name), not the checkpoint beside it" },
	{ 0, 8, "\x89PNG\r\n\x1a\n", "a PNG image, not a torch checkpoint" },
	{ 0, 4, "\xff\xd8\xff\xe0", "a JPEG image, not a torch checkpoint" },
	{ 0, 4, "%PDF", "a PDF document, not a torch checkpoint" },
	{ 0, 8, "\x03\0\0\0\x01\0\0\0", "a Lua Torch7 file (.t7), not a PyTorch checkpoint" },
	{ 0, 8, "\x04\0\0\0\x01\0\0\0", "a Lua Torch7 file (.t7), not a PyTorch checkpoint" },
	{ 0, 4, "PK\x05\x06", "an empty zip archive" },
	{ 0, 4, "PK\x07\x08", "one part of a zip archive that was split; join the parts first" },
};

/*
 * Compressors, and the command that unpacks to standard output; NULL: an archive of several
 * files.
 */
static const struct {
	size_t len;
	const char *bytes, *what, *unpack;
} packers[] = {
	{ 2, "\x1f\x8b", "compressed with gzip; unpack it first", "gzip -dc" },
	{ 3, "BZh", "compressed with bzip2; unpack it first", "bzip2 -dc" },
	{ 6,
	  "\xfd"
	  "7zXZ\0",
	  "compressed with xz; unpack it first", "xz -dc" },
	{ 4, "\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first", "zstd -dc" },
	{ 4, "\x04\x22\x4d\x18", "compressed with lz4; unpack it first", "lz4 -dc" },
	{ 6, "7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it first", NULL },
	{ 4, "Rar!", "a RAR archive; unpack it first", NULL },
};

static bool find_packer(const uint8_t *head, size_t len, struct ckpt_identity *out)
{
	for (size_t i = 0; i < sizeof(packers) / sizeof(packers[0]); i++) {
		if (packers[i].len > len || memcmp(head, packers[i].bytes, packers[i].len) != 0)
			continue;
		*out = (struct ckpt_identity){ CKPT_NATURE_PACKED, packers[i].what,
					       packers[i].unpack };
		return true;
	}
	return false;
}

static const char *find_signature(const uint8_t *head, size_t len)
{
	for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++)
		if (signatures[i].off + signatures[i].len <= len &&
		    !memcmp(head + signatures[i].off, signatures[i].bytes, signatures[i].len))
			return signatures[i].what;
	return NULL;
}

static bool is_all_zero(const uint8_t *head, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (head[i])
			return false;
	return true;
}

static bool starts_with(const char *text, size_t len, const char *what)
{
	return len >= strlen(what) && !ckpt_strncasecmp(text, what, strlen(what));
}

/* HEAD after a byte order mark and blanks. */
static const char *skip_blanks(const uint8_t *head, size_t *len)
{
	if (*len >= 3 && !memcmp(head, "\xEF\xBB\xBF", 3)) {
		head += 3;
		*len -= 3;
	}
	for (; *len && ckpt_is_space(*head); head++)
		--*len;
	return (const char *)head;
}

/* An error page that was saved in place of a model. */
static const char *find_markup(const uint8_t *head, size_t len)
{
	const char *text = skip_blanks(head, &len);

	if (starts_with(text, len, "<!doctype html") || starts_with(text, len, "<html"))
		return "an HTML page: the server sent a web page (an error, a login) instead of the model";
	if (starts_with(text, len, "<?xml") || starts_with(text, len, "<Error"))
		return "an XML document: the server sent an error instead of the model";
	return NULL;
}

static bool is_json(const uint8_t *head, size_t len)
{
	const char *text = skip_blanks(head, &len);

	return len && (*text == '{' || *text == '[');
}

/* A few words ("Not Found", "Invalid credentials") that were saved in place of a model. */
static bool is_short_text(const uint8_t *head, size_t len, uint64_t size)
{
	bool letters = false;

	if (size < LEAST_MESSAGE || size > MOST_MESSAGE)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!ckpt_is_print(head[i]) && !ckpt_is_space(head[i]))
			return false;
		letters |= ckpt_is_alpha(head[i]) != 0;
	}
	return letters;
}

/* A clone of a git-annex repository has a path in place of each file that was not fetched. */
static bool is_annex_pointer(const uint8_t *head, size_t len)
{
	const char *text = (const char *)head;

	return starts_with(text, len, "/annex/objects/") ||
	       (len < 1024 && memmem(text, len, ".git/annex/objects/", 19));
}

/* A Git LFS pointer names the object that was not fetched. */
static int fail_lfs_pointer(const uint8_t *head, size_t len, struct ckpt_error *err)
{
	char text[600], oid[80] = "?", size[32] = "?", *at;

	snprintf(text, sizeof(text), "%.*s", (int)(len < 599 ? len : 599), (const char *)head);
	at = strstr(text, "oid sha256:");
	if (at)
		sscanf(at, "oid sha256:%64[0-9a-f]", oid);
	at = strstr(text, "\nsize ");
	if (at)
		sscanf(at, "\nsize %20[0-9]", size);
	return ckpt_fail(
		err, CKPT_E_UNSUPPORTED,
		"is a Git LFS pointer, the model itself (%s bytes, sha256 %s) was not fetched; "
		"run 'git lfs pull'",
		size, oid);
}

static bool contains(const uint8_t *head, size_t len, const char *what)
{
	return memmem(head, len, what, strlen(what)) != NULL;
}

static const char *find_pickle(const uint8_t *head, size_t len)
{
	if (len < 2 || head[0] != 0x80 || head[1] < 2 || head[1] > 5)
		return NULL;
	if (contains(head, len, DCP_MODULE))
		return "the .metadata index of a distributed checkpoint (DCP), not a checkpoint file by itself";
	if (contains(head, len, "_load_from_bytes"))
		return "a bare pickle with tensors, made by pickle.dump, not by torch.save";
	return "a bare pickle, made by pickle.dump, not by torch.save; 'ckpt dis' shows what is in it";
}

/* Protocols 0 and 1 have no signature: are these opcodes up to STOP, and nothing after it? */
static bool is_old_pickle(const uint8_t *head, size_t len, uint64_t size)
{
	struct ckpt_reader r = { .data = head, .len = len };
	struct ckpt_op op = { 0 };
	unsigned count = 0;

	while (ckpt_op_read(&r, &op, NULL) == 0) {
		count++;
		if (op.code == CKPT_OP_STOP)
			return count > 2 && r.pos == size;
	}
	return r.bad && len < size && count > 100; /* it goes on after the head */
}

/* False, and OUT unchanged, if WHAT is NULL. */
static bool set(struct ckpt_identity *out, enum ckpt_nature nature, const char *what)
{
	if (what)
		*out = (struct ckpt_identity){ nature, what, NULL };
	return what != NULL;
}

static bool find_pickle_kind(const uint8_t *head, size_t len, uint64_t size,
			     struct ckpt_identity *out)
{
	const char *what = find_pickle(head, len);

	if (what)
		return set(out,
			   contains(head, len, DCP_MODULE) ? CKPT_NATURE_DCP_INDEX
							   : CKPT_NATURE_PICKLE,
			   what);
	return is_old_pickle(head, len, size) &&
	       set(out, CKPT_NATURE_PICKLE,
		   "a bare pickle of protocol 0 or 1, made by pickle.dump, not by torch.save; 'ckpt dis' shows what is in it");
}

static bool find_other(const uint8_t *head, size_t len, uint64_t size, struct ckpt_identity *out)
{
	if (set(out, CKPT_NATURE_OTHER, find_signature(head, len)) || find_packer(head, len, out))
		return true;
	if (ckpt_safetensors_probe(head, len, size)) /* its length may look like any text */
		return set(out, CKPT_NATURE_SAFETENSORS, "a safetensors file");
	if (set(out, CKPT_NATURE_MARKUP, find_markup(head, len)))
		return true;
	if (is_json(head, len))
		return set(
			out, CKPT_NATURE_JSON,
			"JSON text: a config, an index of shards, or an error message, not the model");
	if (is_annex_pointer(head, len))
		return set(
			out, CKPT_NATURE_ANNEX,
			"a git-annex pointer, the model itself was not fetched; run 'git annex get'");
	if (find_pickle_kind(head, len, size, out))
		return true;
	if (len >= 263 && !memcmp(head + 257, "ustar", 5))
		return set(
			out, CKPT_NATURE_TAR,
			"a tar archive; unpack it first (many .pth.tar files are not tar archives, this is one)");
	if (len > 16 && head[0] == 0x08 && contains(head, len < 256 ? len : 256, "pytorch"))
		return set(out, CKPT_NATURE_OTHER, "an ONNX model, not a torch checkpoint");
	return is_short_text(head, len, size) &&
	       set(out, CKPT_NATURE_TEXT, "a short text, not a checkpoint");
}

/* TensorFlow's tables have their signature at the end. */
static bool is_tensorflow(const struct ckpt_source *source)
{
	static const uint8_t magic[8] = { 0x57, 0xFB, 0x80, 0x8B, 0x24, 0x75, 0x47, 0xDB };
	uint64_t size = ckpt_source_size(source);
	uint8_t tail[8];

	return size >= sizeof(tail) &&
	       ckpt_source_read(source, size - sizeof(tail), tail, sizeof(tail), NULL) == 0 &&
	       !memcmp(tail, magic, sizeof(magic));
}

void ckpt_identify(const struct ckpt_source *source, const uint8_t *head, size_t len,
		   struct ckpt_identity *out)
{
	uint64_t size = ckpt_source_size(source);

	*out = (struct ckpt_identity){ CKPT_NATURE_UNKNOWN, NULL, NULL };
	if (!size)
		out->nature = CKPT_NATURE_EMPTY;
	else if (starts_with((const char *)head, len, "version https://git-lfs"))
		out->nature = CKPT_NATURE_LFS;
	else if (len >= 4 && !memcmp(head, "PK\x03\x04", 4))
		out->nature = CKPT_NATURE_ZIP;
	else if (is_all_zero(head, len))
		out->nature = CKPT_NATURE_ZEROS;
	else if (is_tensorflow(source))
		set(out, CKPT_NATURE_OTHER, "a TensorFlow checkpoint, not a torch checkpoint");
	else
		find_other(head, len, size, out);
}

int ckpt_fail_unknown_file(const struct ckpt_source *source, const uint8_t *head, size_t len,
			   struct ckpt_error *err)
{
	struct ckpt_identity is;
	char shown[2 * MOST_MESSAGE];

	ckpt_identify(source, head, len, &is);
	switch (is.nature) {
	case CKPT_NATURE_EMPTY:
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "is empty: a download or a save was interrupted");
	case CKPT_NATURE_LFS: return fail_lfs_pointer(head, len, err);
	case CKPT_NATURE_ZEROS:
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "begins with %zu zero bytes: space was reserved, but "
				 "the download or the save never filled it",
				 len);
	case CKPT_NATURE_TEXT:
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is a short text, not a checkpoint: '%s'",
				 ckpt_escape(shown, 200, (const char *)head, len));
	default: break;
	}
	if (is.what)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is %s", is.what);
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is not a torch checkpoint: it begins with '%s'",
			 ckpt_escape(shown, 64, (const char *)head, len < 16 ? len : 16));
}
