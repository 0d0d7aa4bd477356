/* SPDX-License-Identifier: Apache-2.0 */
#include "format/format.h"

static const struct ckpt_format *const formats[] = { &ckpt_format_torch_zip,
						     &ckpt_format_torch_legacy };

int ckpt_format_open(struct ckpt_source *source, struct ckpt_model **out, struct ckpt_error *err)
{
	uint8_t head[CKPT_PROBE_BYTES];
	uint64_t size = ckpt_source_size(source);
	size_t len = size < sizeof(head) ? (size_t)size : sizeof(head);
	int rc = ckpt_source_read(source, 0, head, len, err);

	*out = NULL;
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i]->probe(head, len, size))
			return formats[i]->read(source, out, err);
	return ckpt_fail_unknown_file(source, head, len, err);
}
