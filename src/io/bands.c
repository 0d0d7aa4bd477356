/* SPDX-License-Identifier: Apache-2.0 */
#include "io/bands.h"

#include <string.h>

int ckpt_bands_read(struct ckpt_bands *b, struct ckpt_stream *stream,
		    int (*next)(struct ckpt_stream *stream, struct ckpt_error *err), void *buf,
		    size_t len, struct ckpt_error *err)
{
	uint8_t *out = buf;
	int rc = 0;

	while (rc == 0 && len) {
		size_t have = b->len - b->taken, n = len < have ? len : have;

		if (!n) {
			rc = next(stream, err);
			continue;
		}
		memcpy(out, b->bytes + b->taken, n);
		b->taken += n;
		out += n;
		len -= n;
	}
	return rc;
}
