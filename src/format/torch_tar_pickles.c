/* SPDX-License-Identifier: Apache-2.0 */
#include "format/torch_tar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_READ = 1 << 10, READ_GROWTH = 8 };
static const uint64_t MOST_PICKLE = (uint64_t)256 << 20, BUDGET_BASE = 64 << 20;

int ckpt_torch_tar_pickle(struct ckpt_source *source, uint64_t *at, uint64_t end,
			  struct ckpt_pickle *out, uint8_t **bytes, struct ckpt_error *err)
{
	uint64_t left = end - *at, len = FIRST_READ;
	int rc;

	*bytes = NULL;
	for (;; len *= READ_GROWTH) {
		uint8_t *grown;

		len = len < left ? len : left;
		grown = realloc(*bytes, (size_t)len + 1);
		if (!grown)
			return ckpt_fail_nomem(err);
		*bytes = grown;
		rc = ckpt_source_read(source, *at, grown, (size_t)len, err);
		if (rc < 0)
			return rc;
		rc = ckpt_pickle_decode(grown, (size_t)len, BUDGET_BASE + 80 * len, out, err);
		if (rc != CKPT_E_FORMAT || len == left || len > MOST_PICKLE / READ_GROWTH)
			break; /* else it may just be longer */
	}
	if (rc == 0)
		*at += out->nbytes;
	else if (err && err->offset != CKPT_NO_OFFSET)
		err->offset += *at;
	return rc;
}

/* ---- all pickles of a member ---- */

struct pickle_visit {
	const struct ckpt_tar_member *member;
	int (*visit)(void *ctx, const uint8_t *bytes, size_t len, struct ckpt_error *err);
	void *ctx;
};

static int visit_table_pickle(void *ctx, uint64_t off, const uint8_t *bytes, size_t len,
			      struct ckpt_error *err)
{
	const struct pickle_visit *s = ctx;

	if (off < s->member->off || off - s->member->off >= s->member->len)
		return 0;
	return s->visit(s->ctx, bytes, len, err);
}

/* A member that is one pickle, also if it is damaged. */
static int visit_whole_member(const struct pickle_visit *s, struct ckpt_source *source,
			      struct ckpt_error *err)
{
	uint8_t *bytes;
	int rc;

	if (s->member->len > MOST_PICKLE)
		return ckpt_fail(err, CKPT_E_LIMIT, "is larger than any pickle: %" PRIu64 " bytes",
				 s->member->len);
	bytes = malloc((size_t)s->member->len + 1);
	if (!bytes)
		return ckpt_fail_nomem(err);
	rc = ckpt_source_read(source, s->member->off, bytes, (size_t)s->member->len, err);
	if (rc == 0)
		rc = s->visit(s->ctx, bytes, (size_t)s->member->len, err);
	free(bytes);
	return rc;
}

int ckpt_torch_tar_each_pickle(struct ckpt_source *source, const char *name,
			       int (*visit)(void *ctx, const uint8_t *bytes, size_t len,
					    struct ckpt_error *err),
			       void *ctx, struct ckpt_error *err)
{
	struct ckpt_torch_tar tt = { 0 };
	struct pickle_visit s = { .visit = visit, .ctx = ctx };
	struct ckpt_error damage =
		CKPT_ERROR_INIT; /* no matter, if it is not where the pickle is */
	uint32_t next_id = 1;
	int rc = ckpt_torch_tar_find(source, &tt, &damage), which = 0;

	while (which < CKPT_TAR_MEMBER_COUNT && strcmp(ckpt_torch_tar_name(which), name) != 0)
		which++;
	if (which < CKPT_TAR_TENSORS && tt.has[which]) {
		s.member = &tt.members[which];
		return visit_whole_member(&s, source, err);
	}
	if (rc < 0) {
		if (err)
			*err = damage;
		return rc;
	}
	if (which == CKPT_TAR_MEMBER_COUNT || !tt.has[which])
		return ckpt_fail(err, CKPT_E_NOTFOUND, "there is no member '%.40s' of torch", name);
	s.member = &tt.members[which];
	tt.visit = visit_table_pickle;
	tt.ctx = &s;
	rc = ckpt_torch_tar_read_tables(&tt, source, &next_id, err);
	ckpt_torch_tar_clear(&tt);
	return rc;
}
