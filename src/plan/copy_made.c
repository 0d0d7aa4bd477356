/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/copy_made.h"

#include <libdeflate.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 1 << 20 /* waking threads for less costs more than it saves */ };

struct making {
	struct ckpt_work work;
	const struct ckpt_made *made;
	void *kept;
	struct ckpt_sink *sink;
	uint64_t at, next;
	struct ckpt_moved *moved;
	uint32_t *crcs; /* by piece; malloc; NULL: not wanted */
	atomic_uint_fast64_t done;
	int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err);
	void *tick_ctx;
};

/* BUFFER has the place of the thread's band. */
static int take_band(struct ckpt_work *work, void *buffer, struct ckpt_error *err)
{
	struct making *m = (struct making *)work;

	(void)err;
	if (m->next == m->made->len)
		return 0;
	*(uint64_t *)buffer = m->next;
	m->next += ckpt_made_band_len(m->made, m->next);
	return 1;
}

static int write_piece(struct making *m, void *taken, uint64_t pos, uint8_t *bytes,
		       struct ckpt_error *err)
{
	size_t len = ckpt_made_piece_len(m->made, pos);
	int rc = m->made->make(m->made, m->kept, taken, pos, len, bytes, err);

	if (rc < 0)
		return rc;
	if (m->crcs)
		m->crcs[pos / m->made->piece] = libdeflate_crc32(0, bytes, len);
	if (pos == 0 && len >= sizeof(m->moved->head)) {
		memcpy(m->moved->head, bytes, sizeof(m->moved->head));
		m->moved->has_head = true;
	}
	return ckpt_sink_write(m->sink, m->at + pos, bytes, len, err);
}

static int finish_band(struct ckpt_work *work, void *buffer, struct ckpt_error *err)
{
	struct making *m = (struct making *)work;
	uint64_t pos = *(uint64_t *)buffer, end = pos + ckpt_made_band_len(m->made, pos);
	uint8_t *bytes = malloc(ckpt_made_piece_len(m->made, pos)); /* a worker may have less */
	void *taken = NULL;
	int rc = bytes ? ckpt_made_take(m->made, m->kept, pos, &taken, err) : ckpt_fail_nomem(err);

	for (; rc == 0 && pos < end; pos += m->made->piece)
		rc = write_piece(m, taken, pos, bytes, err);
	m->done += ckpt_made_band_len(m->made, *(uint64_t *)buffer);
	ckpt_made_drop(m->made, taken);
	free(bytes);
	return rc;
}

static int report_done(struct ckpt_work *work, struct ckpt_error *err)
{
	struct making *m = (struct making *)work;

	return m->tick(m->tick_ctx, m->done, err);
}

int ckpt_copy_made(struct ckpt_workers *workers, const struct ckpt_made *made,
		   struct ckpt_sink *sink, uint64_t at,
		   int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err), void *tick_ctx,
		   struct ckpt_moved *moved, struct ckpt_error *err)
{
	struct making m = { .work = { take_band, finish_band, report_done },
			    .made = made,
			    .sink = sink,
			    .at = at,
			    .moved = moved,
			    .tick = tick,
			    .tick_ctx = tick_ctx };
	struct ckpt_error local = CKPT_ERROR_INIT;
	int rc;

	if (moved->want_crc) {
		m.crcs = calloc(made->len / made->piece + 1, sizeof(*m.crcs));
		if (!m.crcs)
			return ckpt_fail_nomem(err);
	}
	rc = ckpt_made_begin(made, &m.kept, err);
	if (rc == 0)
		rc = ckpt_workers_run(workers, &m.work, made->len >= TOGETHER, err ? err : &local);
	ckpt_made_end(made, m.kept);
	moved->crc32 = 0;
	for (uint64_t pos = 0; rc == 0 && m.crcs && pos < made->len; pos += made->piece)
		moved->crc32 =
			ckpt_join_crc(moved->crc32, m.crcs[pos / made->piece],
				      ckpt_made_piece_len(made, pos));
	free(m.crcs);
	return rc;
}
