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

static int open_source(struct ckpt_source *source, bool brief, struct ckpt_model **out,
		       struct ckpt_error *err)
{
	uint8_t head[CKPT_PROBE_BYTES];
	struct ckpt_opening opening = { .source = source, .head = head, .brief = brief };
	const struct ckpt_format *format = NULL;
	int rc;

	*out = NULL;
	opening.size = ckpt_source_size(source);
	opening.len = opening.size < sizeof(head) ? (size_t)opening.size : sizeof(head);
	rc = ckpt_source_read(source, 0, head, opening.len, err);
	if (rc < 0)
		return rc;
	rc = read_zip_directory(&opening, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; !format && i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i]->probe(&opening))
			format = formats[i];
	rc = format ? format->read(&opening, out, err)
		    : ckpt_fail_unknown_file(source, head, opening.len, err);
	ckpt_zip_close(opening.zip);
	return rc;
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
