/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_BANDS_H
#define CKPT_IO_BANDS_H

#include "io/stream.h"

/* The front of a stream whose bytes are made some at a time: the band that was made last, and how much of it was taken. */
struct ckpt_bands {
	uint8_t *bytes; /* malloc, owned by the stream */
	size_t len, taken;
};

/*
 * LEN bytes to BUF, from one band after the other: NEXT makes the next one, which is not empty, sets its LEN, and TAKEN to 0.
 * Not beyond the last one.
 */
int ckpt_bands_read(struct ckpt_bands *bands, struct ckpt_stream *stream,
		    int (*next)(struct ckpt_stream *stream, struct ckpt_error *err), void *buf,
		    size_t len, struct ckpt_error *err);

#endif
