/* SPDX-License-Identifier: Apache-2.0 */
#include "format/format.h"

#include <string.h>

/*
 * torch zip is the last of the archives, and says what is wrong with those that no other format
 * reads.
 */
static const struct ckpt_format *const formats[] = {
	&ckpt_format_safetensors,  &ckpt_format_torch_package, &ckpt_format_torch_export,
	&ckpt_format_torch_script, &ckpt_format_torch_zip,     &ckpt_format_torch_legacy,
	&ckpt_format_torch_tar,	   &ckpt_format_torch_mobile
};

/* A damaged directory is no error here: the format says what is wrong with it. */
static int read_zip_directory(struct ckpt_opening *opening, struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT;
	int rc = opening->len >= 4 && !memcmp(opening->head, "PK\x03\x04", 4)
			 ? ckpt_zip_open(opening->source, &opening->zip, &local)
			 : 0;

	if (rc < 0)
		opening->zip = NULL;
	if (rc != CKPT_E_NOMEM && rc != CKPT_E_IO)
		return 0;
	if (err)
		*err = local;
	return rc;
}

/* Read what the formats go by, and ask them. HEAD: CKPT_PROBE_BYTES bytes; opening->zip is to be closed. */
static int find_format(struct ckpt_opening *opening, uint8_t *head, const struct ckpt_format **out,
		       struct ckpt_error *err)
{
	int rc;

	*out = NULL;
	opening->head = head;
	opening->size = ckpt_source_size(opening->source);
	opening->len = opening->size < CKPT_PROBE_BYTES ? (size_t)opening->size : CKPT_PROBE_BYTES;
	rc = ckpt_source_read(opening->source, 0, head, opening->len, err);
	if (rc == 0)
		rc = read_zip_directory(opening, err);
	for (size_t i = 0; rc == 0 && !*out && i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i]->probe(opening))
			*out = formats[i];
	return rc;
}

static int open_source(struct ckpt_source *source, bool brief, struct ckpt_model **out,
		       struct ckpt_error *err)
{
	uint8_t head[CKPT_PROBE_BYTES];
	struct ckpt_opening opening = { .source = source, .brief = brief };
	const struct ckpt_format *format;
	int rc = find_format(&opening, head, &format, err);

	*out = NULL;
	if (rc < 0)
		return rc;
	rc = format ? format->read(&opening, out, err)
		    : ckpt_fail_unknown_file(source, head, opening.len, err);
	ckpt_zip_close(opening.zip);
	return rc;
}

/* Does it have a record that only torch's archives have? */
static bool is_of_torch(const struct ckpt_zip *zip)
{
	static const char *const ends[] = { "data.pkl", "/version", "model.json" };

	for (uint32_t i = 0; i < zip->count; i++)
		for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
			const struct ckpt_zip_entry *e = &zip->entries[i];
			size_t len = strlen(ends[k]);

			if (e->name_len >= len &&
			    !memcmp(e->name + e->name_len - len, ends[k], len))
				return true;
		}
	return false;
}

int ckpt_format_probe(struct ckpt_source *source, bool *is_one, struct ckpt_error *err)
{
	uint8_t head[CKPT_PROBE_BYTES];
	struct ckpt_opening opening = { .source = source, .brief = true };
	const struct ckpt_format *format;
	int rc = find_format(&opening, head, &format, err);

	*is_one = rc == 0 && format &&
		  (format != &ckpt_format_torch_zip || !opening.zip || is_of_torch(opening.zip));
	ckpt_zip_close(opening.zip);
	return rc;
}

int ckpt_format_refuse_data_file(const char *path, struct ckpt_error *err)
{
	static const char end[] = ".distcp";
	size_t len = path ? strlen(path) : 0, end_len = sizeof(end) - 1;

	if (len <= end_len || strcmp(path + len - end_len, end) != 0)
		return 0;
	return ckpt_error_because(
		err,
		ckpt_fail(err, CKPT_E_UNSUPPORTED,
			  "is a data file (.distcp) of a DCP directory: name the directory it belongs to"),
		CKPT_REASON_DCP_DATA_FILE);
}

int ckpt_format_open(struct ckpt_source *source, struct ckpt_model **out, struct ckpt_error *err)
{
	return open_source(source, false, out, err);
}

int ckpt_format_open_brief(struct ckpt_source *source, struct ckpt_model **out,
			   struct ckpt_error *err)
{
	return open_source(source, true, out, err);
}
