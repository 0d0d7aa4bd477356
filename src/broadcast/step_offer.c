/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/steps.h"

#include "broadcast/votes.h"

/* Do all ranks wish for the same, and what is there? */

enum { MOST_MANIFEST = 1 << 30 };

static int compare_wishes(struct ckpt_session *s)
{
	bool same = true;
	int rc = ckpt_agree_same(&s->agreement, ckpt_session_wishes(s), &same, &s->err);

	if (rc == 0 && !same)
		rc = ckpt_fail(
			&s->err, CKPT_E_ARG,
			"the ranks were started with different options, or are different versions "
			"of ckpt");
	return ckpt_session_agree(s, rc, CKPT_BROADCAST_SETUP);
}

/* A checksum is that of one file. */
static int check_expected(struct ckpt_session *s)
{
	int rc = 0;

	if (!s->o.has_expected)
		return 0;
	if (s->manifest.is_directory || s->manifest.count > 1)
		rc = ckpt_fail(&s->err, CKPT_E_ARG,
			       "a checksum is expected, which is that of one file: found %u%s",
			       s->manifest.count,
			       s->manifest.is_directory ? " in a directory" : "");
	return ckpt_session_agree(s, rc, CKPT_BROADCAST_SETUP);
}

/* Rank 0 tells what there is. */
static int share_manifest(struct ckpt_session *s)
{
	bool is_first = s->world.rank == 0;
	struct ckpt_buf bytes = { 0 };
	uint64_t len;
	int rc = 0;

	if (is_first)
		rc = ckpt_manifest_make(s->sources, s->source_count, &s->manifest, &s->err);
	if (is_first && rc == 0)
		rc = ckpt_manifest_write(&s->manifest, &bytes, &s->err);
	if (ckpt_session_agree(s, rc, CKPT_BROADCAST_SOURCE)) {
		ckpt_buf_clear(&bytes);
		return s->code;
	}
	len = bytes.len;
	rc = ckpt_agree_send(&s->agreement, &len, sizeof(len), 0, &s->err);
	if (rc == 0 && !is_first) {
		uint8_t *room = len <= MOST_MANIFEST ? ckpt_buf_grow(&bytes, (size_t)len) : NULL;

		rc = room ? 0 : ckpt_fail_nomem(&s->err);
	}
	/* a rank without memory is heard of before the others send */
	if (ckpt_session_agree(s, rc, CKPT_BROADCAST_SETUP) == 0) {
		rc = ckpt_agree_send(&s->agreement, bytes.data, (size_t)len, 0, &s->err);
		if (rc == 0 && !is_first)
			rc = ckpt_manifest_read(bytes.data, (size_t)len, &s->manifest, &s->err);
		ckpt_session_agree(s, rc, CKPT_BROADCAST_SETUP);
	}
	ckpt_buf_clear(&bytes);
	return s->code;
}

int ckpt_step_offer(struct ckpt_session *s)
{
	if (compare_wishes(s) || share_manifest(s))
		return s->code;
	return check_expected(s);
}
