/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_PICKLE_STREAM_H
#define CKPT_FORMAT_PICKLE_STREAM_H

#include "io/source.h"

/*
 * Pickles that lie one behind the other in a file, without a table of where they are: each ends at its own STOP. They
 * are read as far as is needed to see that. One thread.
 */
struct ckpt_pickle_stream {
	struct ckpt_source *source; /* borrowed */
	uint8_t *bytes;		    /* owned: of the file, from its start */
	size_t len, cap;
	uint64_t at; /* behind the pickle that was found last; may be set */
};

struct ckpt_pickle_extent {
	uint64_t off, len; /* with STOP */
};

void ckpt_pickle_stream_open(struct ckpt_pickle_stream *stream, struct ckpt_source *source);
void ckpt_pickle_stream_clear(struct ckpt_pickle_stream *stream);

/*
 * Find the next pickle; its bytes are at stream->bytes + OUT->off until the next call. CKPT_E_FORMAT, with the offset in
 * the file, if it has no end; CKPT_E_LIMIT if it is longer than any pickle has to be.
 */
int ckpt_pickle_stream_next(struct ckpt_pickle_stream *stream, struct ckpt_pickle_extent *out,
			    struct ckpt_error *err);

#endif
