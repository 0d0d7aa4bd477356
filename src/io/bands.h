/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_BANDS_H
#define CKPT_IO_BANDS_H

#include "io/stream.h"

/*
 * For a stream whose bytes are made in bands, one after the other: the band that was made last,
 * and how much of it was read.
 */
struct ckpt_bands {
	uint8_t *bytes; /* malloc, owned by the stream */
	size_t len, taken;
};

/*
 * Read LEN bytes to BUF, from as many bands as that takes. NEXT makes the next band, which is
 * not empty, sets LEN and sets TAKEN to 0. Never reads beyond the last band.
 */
int ckpt_bands_read(struct ckpt_bands *bands, struct ckpt_stream *stream,
		    int (*next)(struct ckpt_stream *stream, struct ckpt_error *err), void *buf,
		    size_t len, struct ckpt_error *err);

#endif
