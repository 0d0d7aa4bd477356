/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pickle_stream.h"

#include "pickle/op.h"

#include <stdlib.h>

enum { FIRST_READ = 256 << 10 };
static const uint64_t MOST_BYTES = (uint64_t)512 << 20; /* of all pickles */

void ckpt_pickle_stream_open(struct ckpt_pickle_stream *s, struct ckpt_source *source)
{
	*s = (struct ckpt_pickle_stream){ .source = source };
}

void ckpt_pickle_stream_clear(struct ckpt_pickle_stream *s)
{
	free(s->bytes);
	s->bytes = NULL;
}

/* Read twice as many bytes as so far. *GROWN: false at the end of the file. */
static int read_more(struct ckpt_pickle_stream *s, bool *grown, struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(s->source),
		 cap = s->cap ? (uint64_t)s->cap * 2 : FIRST_READ;
	uint8_t *bytes;
	int rc;

	*grown = false;
	if (s->len == size)
		return 0;
	cap = cap < size ? cap : size;
	if (cap > MOST_BYTES)
		return ckpt_fail(err, CKPT_E_LIMIT,
				 "a pickle that is longer than %llu bytes: is it a checkpoint?",
				 (unsigned long long)MOST_BYTES);
	bytes = realloc(s->bytes, (size_t)cap);
	if (!bytes)
		return ckpt_fail_nomem(err);
	s->bytes = bytes;
	s->cap = (size_t)cap;
	rc = ckpt_source_read(s->source, s->len, bytes + s->len, s->cap - s->len, err);
	if (rc < 0)
		return rc;
	s->len = s->cap;
	*grown = true;
	return 0;
}

/* Read the opcode at *POS, and more of the file if it is cut off. *POS moves to the next one. */
static int read_op(struct ckpt_pickle_stream *s, size_t *pos, struct ckpt_op *op,
		   struct ckpt_error *err)
{
	for (;;) {
		struct ckpt_reader r = { .data = s->bytes, .len = s->len, .pos = *pos };
		struct ckpt_error cut_off = CKPT_ERROR_INIT;
		bool grown = false;
		int rc = ckpt_op_read(&r, op, &cut_off), more;

		if (rc == 0) {
			*pos = r.pos;
			return 0;
		}
		more = r.bad ? read_more(s, &grown, err) : 0;
		if (more < 0)
			return more;
		if (grown)
			continue;
		if (err)
			*err = cut_off;
		return rc;
	}
}

int ckpt_pickle_stream_next(struct ckpt_pickle_stream *s, struct ckpt_pickle_extent *out,
			    struct ckpt_error *err)
{
	size_t pos = (size_t)s->at;
	struct ckpt_op op;
	int rc;

	do
		rc = read_op(s, &pos, &op, err);
	while (rc == 0 && op.code != CKPT_OP_STOP);
	if (rc < 0)
		return rc;
	*out = (struct ckpt_pickle_extent){ s->at, pos - s->at };
	s->at = pos;
	return 0;
}
