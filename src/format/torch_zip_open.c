/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The archive of a torch.save file: whether it is one, what its small records say, what its
 * records are. torch_zip_read.c reads the pickle and the storages. What must stay true: torch
 * would load what is accepted here (folder, version, byte order), and what it would not is said
 * in words that name what the file is instead.
 */
#include "base/ascii.h"
#include "format/torch_zip.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ckpt_torch_zip_free(void *container)
{
	struct ckpt_torch_zip *tz = container;

	if (!tz)
		return;
	ckpt_zip_close(tz->zip);
	free(tz->archive_name);
	free(tz);
}

struct ckpt_zip_entry *ckpt_torch_zip_find(const struct ckpt_torch_zip *tz, const char *folder,
					   const char *record)
{
	size_t first = strlen(tz->archive_name), second = strlen(folder), third = strlen(record);
	/* enough for all names of torch, so that a lack of memory does not mean "not found" */
	char small[1024];
	char *name = first + second + third < sizeof(small) ? small
							    : malloc(first + second + third + 1);
	struct ckpt_zip_entry *entry;

	if (!name)
		return NULL;
	memcpy(name, tz->archive_name, first);
	memcpy(name + first, folder, second);
	memcpy(name + first + second, record, third + 1);
	entry = ckpt_zip_find(tz->zip, name, first + second + third);
	if (name != small)
		free(name);
	return entry;
}

struct ckpt_zip_entry *ckpt_torch_zip_record(const struct ckpt_torch_zip *tz, const char *record)
{
	return ckpt_torch_zip_find(tz, "/", record);
}

/* ---- which kind of archive is it ---- */

/* torch takes the folder of the first entry, and requires every other one to be in it. */
static int find_archive_name(struct ckpt_torch_zip *tz, struct ckpt_error *err)
{
	const struct ckpt_zip_entry *first = tz->zip->entries;
	const char *slash;

	if (!tz->zip->count)
		return ckpt_fail(err, CKPT_E_FORMAT, "is an empty zip archive");
	slash = memchr(first->name, '/', first->name_len);
	tz->archive_name = strndup(first->name, slash ? (size_t)(slash - first->name) : 0);
	return tz->archive_name ? 0 : ckpt_fail_nomem(err);
}

static bool has_suffix(const struct ckpt_zip_entry *e, const char *suffix)
{
	size_t len = strlen(suffix);

	return e->name_len >= len && !memcmp(e->name + e->name_len - len, suffix, len);
}

static uint32_t count_suffix(const struct ckpt_zip *zip, const char *suffix)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < zip->count; i++)
		count += has_suffix(&zip->entries[i], suffix);
	return count;
}

/*
 * Of Stable-Baselines3's tensors.pth, policy.pth and policy.optimizer.pth the second has the
 * weights.
 */
static bool is_rather_the_model(const struct ckpt_zip_entry *a, const struct ckpt_zip_entry *b)
{
	bool a_is_other = strstr(a->name, "optim"), b_is_other = strstr(b->name, "optim");

	return a_is_other != b_is_other ? b_is_other : a->usize > b->usize;
}

/*
 * The record that is most likely the model, judging by its name and size. NULL: none looks like
 * one.
 */
static const struct ckpt_zip_entry *find_model_file(const struct ckpt_zip *zip)
{
	static const char *const suffixes[] = { ".pt", ".pth", ".bin", ".ckpt", ".safetensors" };

	const struct ckpt_zip_entry *best = NULL;

	for (size_t k = 0; !best && k < sizeof(suffixes) / sizeof(suffixes[0]); k++)
		for (uint32_t i = 0; i < zip->count; i++)
			if (has_suffix(&zip->entries[i], suffixes[k]) &&
			    (!best || is_rather_the_model(&zip->entries[i], best)))
				best = &zip->entries[i];
	return best;
}

/* A zip without data.pkl in its first folder: say what it is instead. */
static int fail_other_zip(const struct ckpt_torch_zip *tz, struct ckpt_error *err)
{
	const struct ckpt_zip *zip = tz->zip;
	const struct ckpt_zip_entry *inner = NULL;
	char shown[160], pickle[160];

	if (ckpt_torch_zip_record(tz, "model.json"))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is a TorchScript archive of torch 1.0 to 1.3 (model.json), which is not read; "
			"torch.jit.load and torch.jit.save of a later torch make one that is");
	if (ckpt_torch_zip_record(tz, "version") && zip->count <= 3)
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"holds no data.pkl: an interrupted torch.save, nothing of the checkpoint was "
			"written");
	for (uint32_t i = 0; i < zip->count && !inner; i++)
		if (has_suffix(&zip->entries[i], "/data.pkl"))
			inner = &zip->entries[i];
	if (inner)
		return ckpt_error_because(
			err, ckpt_fail(err, CKPT_E_FORMAT,
				       "the records are not in one folder: the archive begins with '%s', but the pickle "
				       "is '%s'; it was repacked by another tool",
				       ckpt_escape(shown, sizeof(shown), zip->entries[0].name, zip->entries[0].name_len),
				       ckpt_escape(pickle, sizeof(pickle), inner->name, inner->name_len)),
			CKPT_REASON_REPACKED);
	if (count_suffix(zip, ".npy") == zip->count)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is a NumPy .npz archive, not a torch checkpoint");
	if (count_suffix(zip, "model.weights.h5"))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is a Keras model, not a torch checkpoint");
	inner = find_model_file(zip);
	if (inner)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is a zip archive with model files inside, not one itself: name one of them as "
			"ARCHIVE::%s",
			ckpt_escape(shown, sizeof(shown), inner->name, inner->name_len));
	return ckpt_fail(
		err, CKPT_E_UNSUPPORTED,
		"is a zip archive, but not one of torch, which has a folder with 'data.pkl' in it; its "
		"first record is '%s'",
		ckpt_escape(shown, sizeof(shown), zip->entries[0].name, zip->entries[0].name_len));
}

static int check_kind(const struct ckpt_torch_zip *tz, struct ckpt_error *err)
{
	size_t len = strlen(tz->archive_name);
	char shown[160];

	if (!ckpt_torch_zip_record(tz, "data.pkl"))
		return fail_other_zip(tz, err);
	if (ckpt_torch_zip_record(tz, "constants.pkl"))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is a TorchScript archive (torch.jit.save), not a torch.save file");
	for (uint32_t i = 0; i < tz->zip->count; i++) {
		const struct ckpt_zip_entry *e = &tz->zip->entries[i];

		if (e->name_len <= len || memcmp(e->name, tz->archive_name, len) ||
		    e->name[len] != '/')
			return ckpt_error_because(
				err, ckpt_fail(err, CKPT_E_FORMAT,
					       "'%s' is outside of the folder '%s/': the archive was repacked by "
					       "another tool, and torch will not load it",
					       ckpt_escape(shown, sizeof(shown), e->name, e->name_len), tz->archive_name),
				CKPT_REASON_REPACKED);
	}
	return 0;
}

/* ---- small records ---- */

static int read_text(struct ckpt_torch_zip *tz, const char *record, char out[16],
		     struct ckpt_error *err)
{
	struct ckpt_zip_entry *entry = ckpt_torch_zip_record(tz, record);
	uint8_t *bytes;
	int rc;

	out[0] = '\0';
	if (!entry)
		return 0;
	rc = ckpt_zip_read(tz->zip, entry, 15, &bytes, err);
	if (rc < 0)
		return rc;
	snprintf(out, 16, "%.*s", (int)entry->usize, (const char *)bytes);
	free(bytes);
	return 0;
}

/* Parsed as torch does, with strtoull: leading blanks and a tail are no error. */
static int check_version(struct ckpt_torch_zip *tz, struct ckpt_error *err)
{
	static const unsigned long long most = 10;
	unsigned long long v;
	char *end, shown[64];
	int rc = read_text(tz, ".data/version", tz->version, err);

	if (rc == 0 && !tz->version[0])
		rc = read_text(tz, "version", tz->version, err);
	if (rc < 0)
		return rc;
	if (!tz->version[0])
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "there is no record 'version', torch will not load the file");
	v = strtoull(tz->version, &end, 10);
	if (end == tz->version || v < 1 || v > most)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_FORMAT,
					       "file format version '%s', torch loads 1 to 10",
					       ckpt_escape(shown, sizeof(shown), tz->version,
							   strlen(tz->version))),
				     NULL, "version", CKPT_NO_OFFSET);
	return 0;
}

static int read_alignment(struct ckpt_torch_zip *tz, struct ckpt_error *err)
{
	char text[16], *end;
	unsigned long v;
	int rc = read_text(tz, ".storage_alignment", text, err);

	tz->alignment = 64;
	if (rc < 0 || !text[0])
		return rc;
	tz->has_storage_alignment = true;
	v = strtoul(text, &end, 10);
	if (*end || v < 1 || v > 1 << 20)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_FORMAT, "no alignment: '%.15s'", text),
				     NULL, ".storage_alignment", CKPT_NO_OFFSET);
	tz->alignment = (uint32_t)v;
	return 0;
}

int ckpt_torch_zip_read_marks(struct ckpt_torch_zip *tz, struct ckpt_error *err)
{
	struct ckpt_zip_entry *entry;
	char shown[64];
	int rc = check_version(tz, err);

	if (rc == 0)
		rc = read_text(tz, "byteorder", tz->byteorder, err);
	entry = ckpt_torch_zip_record(tz, "byteorder");
	if (rc == 0 && entry && ((strcmp(tz->byteorder, "little") && strcmp(tz->byteorder, "big")) || entry->usize != strlen(tz->byteorder)))
		rc = ckpt_error_at(err,
				   ckpt_fail(err, CKPT_E_FORMAT,
					     "byte order '%s', wanted 'little' or 'big'",
					     ckpt_escape(shown, sizeof(shown), tz->byteorder,
							 strlen(tz->byteorder))),
				   NULL, "byteorder", CKPT_NO_OFFSET);
	if (rc == 0)
		rc = read_alignment(tz, err);
	tz->has_format_version = ckpt_torch_zip_record(tz, ".format_version");
	tz->has_serialization_id = ckpt_torch_zip_record(tz, ".data/serialization_id");
	return rc;
}

/* ---- records ---- */

bool ckpt_torch_zip_knows(const struct ckpt_torch_zip *tz, const struct ckpt_zip_entry *entry,
			  const char **key)
{
	static const char *const names[] = {
		"data.pkl", ".format_version", ".storage_alignment",	"byteorder",
		"version",  ".data/version",   ".data/serialization_id"
	};
	const char *record = entry->name + strlen(tz->archive_name) + 1;

	*key = NULL;
	if (entry->name_len && entry->name[entry->name_len - 1] == '/')
		return true; /* folders that other tools add */
	if (!ckpt_strncasecmp(record, "data/", 5)) {
		*key = record + 5;
		return true;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!ckpt_strcasecmp(record, names[i]))
			return true;
	return false;
}

static enum ckpt_record_kind kind_of(const struct ckpt_torch_zip *tz,
				     const struct ckpt_zip_entry *entry)
{
	const char *key;

	if (has_suffix(entry, "/data.pkl"))
		return CKPT_RECORD_PICKLE;
	if (!ckpt_torch_zip_knows(tz, entry, &key))
		return CKPT_RECORD_OTHER;
	return key ? CKPT_RECORD_STORAGE : CKPT_RECORD_MARK;
}

int ckpt_torch_zip_records(const struct ckpt_model *model,
			   int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			   struct ckpt_error *err)
{
	const struct ckpt_torch_zip *tz = ckpt_torch_zip_of(model);
	int rc = 0;

	(void)err;
	for (uint32_t i = 0; rc >= 0 && i < tz->zip->count; i++) {
		const struct ckpt_zip_entry *e = &tz->zip->entries[i];
		struct ckpt_record record = ckpt_zip_describe(e, strlen(tz->archive_name) + 1);

		record.kind = kind_of(tz, e);
		rc = visit(ctx, &record);
	}
	return rc < 0 ? rc : 0;
}

/* ---- the whole ---- */

int ckpt_torch_zip_open_any(struct ckpt_source *source, struct ckpt_zip *zip,
			    struct ckpt_torch_zip **out, struct ckpt_error *err)
{
	struct ckpt_torch_zip *tz = calloc(1, sizeof(*tz));
	int rc = 0;

	*out = tz; /* also on failure: what was found out so far */
	if (!tz) {
		ckpt_zip_close(zip);
		return ckpt_fail_nomem(err);
	}
	tz->zip = zip;
	if (!zip)
		rc = ckpt_zip_open(source, &tz->zip, err);
	if (rc == CKPT_E_NOTFOUND)
		return ckpt_torch_zip_fail_truncated(source, err);
	if (rc == 0)
		rc = find_archive_name(tz, err);
	if (rc == 0)
		tz->version_first = tz->zip->count > 1 && has_suffix(tz->zip->entries, "/version");
	return rc;
}

int ckpt_torch_zip_open(struct ckpt_source *source, struct ckpt_zip *zip,
			struct ckpt_torch_zip **out, struct ckpt_error *err)
{
	int rc = ckpt_torch_zip_open_any(source, zip, out, err);

	if (rc == 0)
		rc = check_kind(*out, err);
	if (rc == 0)
		rc = ckpt_torch_zip_read_marks(*out, err);
	return rc;
}
