/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt_disassemble(): finds the pickle that a name asks for, in any kind of file (bare, legacy
 * stream, tar, zip, archive in an archive, index of a directory), and hands its bytes to
 * pickle/dis.c.
 *
 * Nothing is decoded, and the file need not be a checkpoint that opens: this is what one looks at
 * damage with. Only the size of the pickle is limited.
 */
#include "base/text.h"
#include "format/container.h"
#include "format/pickle_stream.h"
#include "format/torch_tar.h"
#include "format/torch_zip.h"
#include "io/source.h"
#include "pickle/dis.h"
#include "set/listing.h"
#include "set/set.h"
#include "zipfmt/index.h"

#include <ckpt/dis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MOST_PICKLE = (uint64_t)2 << 30;

/* RECORD with or without the archive's folder in front; NULL: the first data.pkl. */
static struct ckpt_zip_entry *find_record(const struct ckpt_zip *zip, const char *record)
{
	const char *want = record ? record : "data.pkl";
	struct ckpt_zip_entry *entry = ckpt_zip_find(zip, want, strlen(want));

	for (uint32_t i = 0; !entry && i < zip->count; i++) {
		const char *slash = memchr(zip->entries[i].name, '/', zip->entries[i].name_len);

		if (slash && !strcmp(slash + 1, want))
			entry = &zip->entries[i];
	}
	return entry;
}

/*
 * The record as a pickle, or, if it is an archive itself (those of torch.export have such), the one
 * in that.
 */
static int read_record(struct ckpt_zip *zip, struct ckpt_zip_entry *entry, uint8_t **bytes,
		       size_t *len, struct ckpt_error *err)
{
	struct ckpt_source *inner = NULL;
	struct ckpt_zip *inner_zip = NULL;
	struct ckpt_zip_entry *pickle = NULL;
	struct ckpt_recipe recipe;
	int rc = ckpt_zip_locate(zip, entry, err);

	if (rc < 0)
		return rc;
	recipe = ckpt_zip_recipe(zip, entry);
	if (recipe.kind == CKPT_RECIPE_EXTENT &&
	    ckpt_source_slice(zip->source, recipe.off, recipe.len, &inner, NULL) == 0 &&
	    ckpt_zip_open(inner, &inner_zip, NULL) == 0)
		pickle = find_record(inner_zip, NULL);
	rc = ckpt_zip_read(pickle ? inner_zip : zip, pickle ? pickle : entry,
			   ckpt_torch_zip_most_pickle(pickle ? pickle : entry), bytes, err);
	*len = (size_t)(pickle ? pickle : entry)->usize;
	ckpt_zip_close(inner_zip);
	ckpt_source_unref(inner);
	return rc;
}

static int read_from_zip(struct ckpt_source *source, const char *record, uint8_t **bytes,
			 size_t *len, char *name, size_t name_size, struct ckpt_error *err)
{
	struct ckpt_zip *zip;
	struct ckpt_zip_entry *entry;
	char shown[160];
	int rc = ckpt_zip_open(source, &zip, err);

	if (rc < 0)
		return rc;
	entry = find_record(zip, record);
	if (!entry)
		rc = ckpt_error_because(
			err,
			ckpt_fail(err, CKPT_E_NOTFOUND, "there is no record '%s'",
				  ckpt_escape(shown, sizeof(shown), record ? record : "data.pkl",
					      strlen(record ? record : "data.pkl"))),
			CKPT_REASON_NO_RECORD);
	else
		rc = read_record(zip, entry, bytes, len, err);
	if (rc == 0)
		ckpt_escape(name, name_size, entry->name, entry->name_len);
	ckpt_zip_close(zip);
	return rc;
}

static int read_bare(struct ckpt_source *source, uint8_t **bytes, size_t *len,
		     struct ckpt_error *err)
{
	*len = ckpt_source_size(source);
	if (*len > MOST_PICKLE)
		return ckpt_fail(err, CKPT_E_LIMIT, "is larger than any pickle: %zu bytes", *len);
	*bytes = malloc(*len + 1);
	if (!*bytes)
		return ckpt_fail_nomem(err);
	return ckpt_source_read(source, 0, *bytes, *len, err);
}

/* A stream of pickles: the one with the number that RECORD is, else the object. */
static int read_from_legacy(struct ckpt_source *source, const char *record, uint8_t **bytes,
			    size_t *len, char *name, size_t name_size, struct ckpt_error *err)
{
	struct ckpt_pickle_stream stream;
	struct ckpt_pickle_extent at = { 0, 0 };
	int number = record ? *record - '0' : 4, rc = 0;

	if (record && (number < 1 || number > 5 || record[1]))
		return ckpt_fail(
			err, CKPT_E_NOTFOUND,
			"is a legacy stream of five pickles: wanted a number from 1 to 5, found '%.40s'",
			record);
	ckpt_pickle_stream_open(&stream, source);
	for (int i = 0; rc == 0 && i < number; i++)
		rc = ckpt_pickle_stream_next(&stream, &at, err);
	if (rc < 0 && stream.at < stream.len) { /* shown up to the damage */
		at = (struct ckpt_pickle_extent){ stream.at, stream.len - stream.at };
		rc = 0;
	}
	*len = (size_t)at.len;
	*bytes = rc == 0 ? malloc(*len + 1) : NULL;
	if (rc == 0 && !*bytes)
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		memcpy(*bytes, stream.bytes + at.off, *len);
	snprintf(name, name_size, "pickle %d", number);
	ckpt_pickle_stream_clear(&stream);
	return rc;
}

struct lines {
	int (*emit)(void *ctx, const char *line);
	void *ctx;
};

static int disassemble_pickle(void *ctx, const uint8_t *bytes, size_t len, struct ckpt_error *err)
{
	const struct lines *to = ctx;

	return ckpt_pickle_disassemble(bytes, len, to->emit, to->ctx, err);
}

/* Of a tar archive all pickles of one member, one behind the other. */
static int disassemble_tar(struct ckpt_source *source, const char *record,
			   int (*emit)(void *ctx, const char *line), void *ctx,
			   struct ckpt_error *err)
{
	struct lines to = { emit, ctx };
	char shown[80];
	int rc;

	if (!record)
		record = ckpt_torch_tar_name(CKPT_TAR_PICKLE);
	rc = ckpt_torch_tar_each_pickle(source, record, disassemble_pickle, &to, err);
	ckpt_escape(shown, sizeof(shown), record, strlen(record));
	return ckpt_error_at(err, rc, NULL, shown, CKPT_NO_OFFSET);
}

static int disassemble(struct ckpt_source *source, const char *record,
		       int (*emit)(void *ctx, const char *line), void *ctx, struct ckpt_error *err)
{
	uint8_t *bytes = NULL, head[CKPT_PROBE_BYTES] = { 0 };
	uint64_t size = ckpt_source_size(source);
	struct ckpt_opening opening = { .source = source, .head = head, .size = size };
	char name[160] = "";
	size_t len = 0;
	int rc;

	opening.len = size < sizeof(head) ? (size_t)size : sizeof(head);
	ckpt_source_read(source, 0, head, opening.len, NULL);
	if (ckpt_format_torch_tar.probe(&opening))
		return disassemble_tar(source, record, emit, ctx, err);
	if (!memcmp(head, "PK\x03\x04", 4))
		rc = read_from_zip(source, record, &bytes, &len, name, sizeof(name), err);
	else if (ckpt_format_torch_legacy.probe(&opening))
		rc = read_from_legacy(source, record, &bytes, &len, name, sizeof(name), err);
	else if (record)
		rc = ckpt_fail(err, CKPT_E_ARG, "is no archive and has no records");
	else
		rc = read_bare(source, &bytes, &len, err);
	if (rc == 0) {
		rc = ckpt_pickle_disassemble(bytes, len, emit, ctx, err);
		rc = ckpt_error_at(err, rc, NULL, name[0] ? name : NULL, CKPT_NO_OFFSET);
	}
	free(bytes);
	/* one that is a pickle, too, has been shown */
	if (rc == CKPT_E_FORMAT && ckpt_format_safetensors.probe(&opening))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is a safetensors file: there is no pickle in it");
	return rc;
}

int ckpt_disassemble(const char *path, const char *record, int (*emit)(void *ctx, const char *line),
		     void *ctx, struct ckpt_error *err)
{
	struct ckpt_source *source;
	bool inside, folder = ckpt_set_is_folder(path);
	int rc = folder ? ckpt_set_open_pickle(path, record, &source, err)
			: ckpt_container_open(path, &source, &inside, err);

	if (rc == 0) {
		rc = disassemble(source, folder ? NULL : record, emit, ctx, err);
		ckpt_source_unref(source);
	}
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}
