/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_PICKLE_STREAM_H
#define CKPT_FORMAT_PICKLE_STREAM_H

#include "io/source.h"

/*
 * Pickles that follow one another in a file without an index: each ends at its own STOP. The
 * file is read as far as it takes to see that. For one thread.
 */
struct ckpt_pickle_stream {
	struct ckpt_source *source; /* borrowed */
	uint8_t *bytes;		    /* owned: the beginning of the file */
	size_t len, cap;
	uint64_t at; /* where the next pickle begins; may be set */
};

struct ckpt_pickle_extent {
	uint64_t off, len; /* with STOP */
};

void ckpt_pickle_stream_open(struct ckpt_pickle_stream *stream, struct ckpt_source *source);
void ckpt_pickle_stream_clear(struct ckpt_pickle_stream *stream);

/*
 * Find the next pickle. Its bytes are at stream->bytes + OUT->off until the next call.
 * CKPT_E_FORMAT, with the offset in the file, if it does not end; CKPT_E_LIMIT if it is longer
 * than any pickle has to be.
 */
int ckpt_pickle_stream_next(struct ckpt_pickle_stream *stream, struct ckpt_pickle_extent *out,
			    struct ckpt_error *err);

#endif
