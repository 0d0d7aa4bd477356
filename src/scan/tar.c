/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/scanner.h"

#include "base/text.h"
#include "format/tar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 100000 };
static const uint64_t MOST_WHOLE = (uint64_t)1 << 30;

/* Of torch 0.1: pickles with bytes of tensors in between, of which the pickles have no signature that tells where they are. */
static bool is_table(const char *name)
{
	return !strcmp(name, "storages") || !strcmp(name, "tensors") || !strcmp(name, "sys_info") ||
	       !strcmp(name, "pickle");
}

/* The first pickle says how many entries there are; each has a pickle in front of its numbers. */
static void scan_table(struct ckpt_scanner *s, const struct ckpt_tar_member *m,
		       const uint8_t *bytes)
{
	size_t at = 0;

	while (at < m->len && s->rc == 0) {
		struct ckpt_scan_pickle p = { .bytes = bytes + at,
					      .len = (size_t)m->len - at,
					      .base = at,
					      .flags = CKPT_SCAN_STORAGES | CKPT_SCAN_TAR_IDS };
		const uint8_t *next;

		ckpt_scan_one_pickle(s, &p);
		if (!p.stopped)
			return;
		at += p.end;
		if (!strcmp(m->name, "pickle") || !strcmp(m->name, "sys_info"))
			return;
		/* numbers follow, and the next pickle somewhere behind them */
		next = memmem(bytes + at, (size_t)m->len - at, "\x80\x02", 2);
		if (!next)
			return;
		while (next && !ckpt_scan_looks_like_pickle(next, (size_t)(bytes + m->len - next)))
			next = memmem(next + 1, (size_t)(bytes + m->len - next - 1), "\x80\x02", 2);
		at = next ? (size_t)(next - bytes) : (size_t)m->len;
	}
}

static void scan_member(struct ckpt_scanner *s, struct ckpt_source *source,
			const struct ckpt_tar_member *m)
{
	const char *before = ckpt_scan_enter(s, m->name, strlen(m->name));
	struct ckpt_source *part = NULL;
	uint8_t *bytes;

	if (is_table(m->name) && m->len <= MOST_WHOLE) {
		bytes = malloc((size_t)m->len + 1);
		s->no_memory |= !bytes;
		if (bytes && ckpt_source_read(source, m->off, bytes, (size_t)m->len, NULL) == 0)
			scan_table(s, m, bytes);
		free(bytes);
	} else if (ckpt_source_slice(source, m->off, m->len, &part, NULL) == 0) {
		s->depth++;
		ckpt_scan_source(s, part, CKPT_SCAN_PART);
		s->depth--;
		ckpt_source_unref(part);
	} else {
		s->no_memory = true;
	}
	s->where = before;
}

static void check_end(struct ckpt_scanner *s, struct ckpt_source *source, uint64_t at)
{
	uint64_t size = ckpt_source_size(source), from = at;
	uint8_t block[4096];

	while (at < size) {
		size_t len = size - at < sizeof(block) ? (size_t)(size - at) : sizeof(block);

		if (ckpt_source_read(source, at, block, len, NULL) < 0)
			return;
		for (size_t i = 0; i < len; i++)
			if (block[i]) {
				ckpt_scan_find(
					s, CKPT_SCAN_INCONSISTENT, "trailer", at + i,
					"%" PRIu64
					" bytes behind the end of the tar archive are not zero",
					size - from);
				return;
			}
		at += len;
	}
}

void ckpt_scan_tar(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_tar tar = { .source = source };
	struct ckpt_tar_member m;
	uint32_t count = 0, tables = 0;
	int rc;

	while ((rc = ckpt_tar_next(&tar, &m, &err)) > 0 && s->rc == 0) {
		if (++count > MOST_MEMBERS) {
			ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", m.header,
				       "more members than are looked into");
			break;
		}
		tables += is_table(m.name);
		if (m.is_file)
			scan_member(s, source, &m);
		else if (m.len)
			ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", m.header,
				       "a member that is no plain file");
	}
	if (flags & CKPT_SCAN_TOP) {
		s->file.format = tables >= 3 ? "torch tar" : "tar archive";
		s->file.is_torch = tables >= 3;
		if (tables >= 3)
			ckpt_scan_refuse(s, 1 << CKPT_SCAN_TORCH_2_6 | 1 << CKPT_SCAN_TORCH_2_14,
					 NULL, CKPT_NO_OFFSET,
					 "tar archives are not for weights_only");
	}
	if (rc < 0)
		ckpt_scan_failed(s, rc, &err);
	else
		check_end(s, source, tar.at);
}
