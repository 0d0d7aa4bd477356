/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rescues a damaged legacy stream. Where everything is follows from the pickles alone. There are no
 * checksums, so nothing is ever proven; but the number of elements in front of each storage shows
 * whether it is where it should be.
 *
 * The rescued stream is put together from pieces of the file, with zeros for what is lost, and
 * opened like any other. A wrong number counts as damage of the number if what follows the storage
 * is at its place, else as damage of the storage (check_storage()).
 */
#include "base/cancel.h"
#include "repair/rescue.h"

#include "base/reader.h"
#include "format/format.h"
#include "format/pickle_stream.h"
#include "io/pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECT = 3, KEYS = 4, PICKLES = 5, COUNT_BYTES = 8 };
static const uint64_t BUDGET_BASE = 64 << 20;
static const char no_checksums[] = "a legacy stream has no checksums";

struct stream {
	struct ckpt_rescue *r;
	struct ckpt_pickle_stream s;
	struct ckpt_pickle_extent pickles[PICKLES];
	struct ckpt_pickle object, keys;
	struct ckpt_strmap storages; /* key to number among SIZES */
	struct {
		uint64_t numel, nbytes;
	} * sizes;
	uint32_t count;
	uint64_t at; /* where the next storage begins */
	struct ckpt_pieces *pieces;
	struct ckpt_error *err;
};

/* ---- the pickles ---- */

static int decode_pickle(struct stream *s, int which, struct ckpt_pickle *out,
			 struct ckpt_error *err)
{
	const struct ckpt_pickle_extent *at = &s->pickles[which];

	return ckpt_pickle_decode(s->s.bytes + at->off, (size_t)at->len, BUDGET_BASE + 80 * at->len,
				  out, err);
}

static int read_pickles(struct stream *s)
{
	struct ckpt_error inner = CKPT_ERROR_INIT;
	char why[sizeof(inner.text)];
	int rc = 0;

	ckpt_pickle_stream_open(&s->s, s->r->file);
	for (int i = 0; rc == 0 && i < PICKLES; i++)
		rc = ckpt_pickle_stream_next(&s->s, &s->pickles[i], &inner);
	if (rc == 0)
		rc = decode_pickle(s, OBJECT, &s->object, &inner);
	if (rc == 0)
		rc = decode_pickle(s, KEYS, &s->keys, &inner);
	if (rc == 0 && s->keys.root->kind != CKPT_LIST)
		rc = ckpt_fail(&inner, CKPT_E_FORMAT, "the list of storages is none");
	if (rc == CKPT_E_NOMEM)
		return ckpt_fail_nomem(s->err);
	if (rc == 0)
		return 0;
	return ckpt_fail(s->err, CKPT_E_FORMAT,
			 "nothing can be saved: the pickles in front of the stream are cut off or "
			 "damaged, which alone tell the names, shapes and types of the tensors: %s",
			 ckpt_error_text(&inner, why, sizeof(why)));
}

static int read_sizes(struct stream *s)
{
	const struct ckpt_seq *persids = &s->object.persids;

	s->sizes = calloc(persids->count + (size_t)1, sizeof(*s->sizes));
	if (!s->sizes)
		return ckpt_fail_nomem(s->err);
	for (uint32_t i = 0; i < persids->count; i++) {
		const struct ckpt_value *key = ckpt_storage_key(persids->items[i]);
		struct ckpt_storage storage;
		bool there;

		if (!key ||
		    ckpt_storage_parse(persids->items[i], s->object.arena, &storage, NULL) < 0)
			continue;
		if (!ckpt_strmap_insert(&s->storages, key->u.bytes.ptr, key->u.bytes.len, s->count,
					&there))
			return ckpt_fail_nomem(s->err);
		if (there)
			continue;
		s->sizes[s->count].numel = storage.numel;
		s->sizes[s->count++].nbytes = storage.nbytes;
	}
	return 0;
}

/* ---- the storages ---- */

static bool read_count(const struct stream *s, uint64_t at, uint64_t *count)
{
	uint8_t bytes[COUNT_BYTES];
	struct ckpt_reader r = { bytes, sizeof(bytes), 0, false };

	if (ckpt_source_read(s->r->file, at, bytes, sizeof(bytes), NULL) < 0)
		return false;
	*count = ckpt_read_u64(&r);
	return true;
}

/* The number of storage I of the list among the sizes; -1: the pickle does not mention it. */
static int64_t find_size(const struct stream *s, uint32_t i)
{
	const struct ckpt_seq *keys = &s->keys.root->u.seq;
	const struct ckpt_value *key = i < keys->count ? keys->items[i] : NULL;
	const uint64_t *slot;

	if (!key || (key->kind != CKPT_STR && key->kind != CKPT_PY2_STR))
		return -1;
	slot = ckpt_strmap_find(&s->storages, key->u.bytes.ptr, key->u.bytes.len);
	return slot ? (int64_t)*slot : -1;
}

/* Storage I ends at END: is the count of the next one there, or the end of the file? */
static bool is_followed(const struct stream *s, uint32_t i, uint64_t end)
{
	int64_t next = find_size(s, i + 1);
	uint64_t count;

	if (i + 1 == s->keys.root->u.seq.count)
		return end == ckpt_source_size(s->r->file);
	return next >= 0 && read_count(s, end, &count) && count == s->sizes[next].numel;
}

/* Finds the fate of storage I of the list, which should have NUMEL elements and begin at s->at. */
static void check_storage(struct stream *s, uint32_t i, uint64_t numel, uint64_t nbytes,
			  struct ckpt_fate *fate)
{
	uint64_t size = ckpt_source_size(s->r->file), data = s->at + COUNT_BYTES, count = 0;

	*fate = (struct ckpt_fate){ .mark = CKPT_FATE_LOST, .offset = data };
	if (!nbytes) { /* nothing of it can be lost */
		*fate = (struct ckpt_fate){ CKPT_FATE_UNPROVEN, s->pickles[KEYS].off, NULL,
					    no_checksums };
		s->r->report.damaged |= data > size;
		return;
	}
	if (data > size || nbytes > size - data) {
		fate->why = data >= size ? "the file ends before it"
					 : ckpt_rescue_text(s->r,
							    "the file ends %" PRIu64
							    " bytes into it, of %" PRIu64,
							    size - data, nbytes);
		return;
	}
	if (!read_count(s, s->at, &count))
		fate->why = "it cannot be read";
	else if (count != numel && !is_followed(s, i, data + nbytes))
		fate->why = ckpt_rescue_text(s->r,
					     "it should have %" PRIu64
					     " elements, the number in front is %" PRIu64,
					     numel, count);
	else
		fate->mark = CKPT_FATE_UNPROVEN;
	if (fate->mark == CKPT_FATE_LOST)
		return;
	fate->why = count == numel ? no_checksums
				   : "a legacy stream has no checksums, and the number of elements "
				     "in front is damaged";
	s->r->report.damaged |= count != numel;
}

static void add_count(struct stream *s, uint64_t numel)
{
	uint8_t bytes[COUNT_BYTES];

	for (int i = 0; i < COUNT_BYTES; i++)
		bytes[i] = (uint8_t)(numel >> 8 * i);
	ckpt_pieces_add_memory(s->pieces, bytes, sizeof(bytes));
}

static int add_storage(struct stream *s, uint32_t i)
{
	const struct ckpt_value *key = s->keys.root->u.seq.items[i];
	int64_t number = find_size(s, i);
	uint64_t numel, nbytes;
	struct ckpt_fate fate;

	if (number < 0)
		return ckpt_fail(
			s->err, CKPT_E_FORMAT,
			"nothing can be saved: the list of storages, which alone tells where they "
			"are, does not agree with the pickle");
	numel = s->sizes[number].numel;
	nbytes = s->sizes[number].nbytes;
	check_storage(s, i, numel, nbytes, &fate);
	add_count(s, numel);
	if (fate.mark == CKPT_FATE_LOST)
		ckpt_pieces_add_zeros(s->pieces, nbytes);
	else
		ckpt_pieces_add_extent(s->pieces, fate.offset, nbytes);
	if (__builtin_add_overflow(s->at, COUNT_BYTES + nbytes, &s->at) || s->at > INT64_MAX)
		s->at = INT64_MAX; /* behind the end of any file */
	s->r->report.damaged |= fate.mark == CKPT_FATE_LOST;
	return ckpt_rescue_set_fate(s->r, key->u.bytes.ptr, key->u.bytes.len, &fate, s->err);
}

static int add_storages(struct stream *s)
{
	const struct ckpt_pickle_extent *last = &s->pickles[KEYS];
	int rc = 0;

	s->at = last->off + last->len;
	s->pieces = ckpt_pieces_new(s->r->file);
	ckpt_pieces_add_extent(s->pieces, 0, s->at);
	for (uint32_t i = 0; rc == 0 && i < s->keys.root->u.seq.count; i++) {
		if (ckpt_cancelled(s->r->o.cancel))
			return ckpt_fail(s->err, CKPT_E_CANCELLED, "interrupted");
		rc = add_storage(s, i);
	}
	return rc;
}

/* ---- the whole ---- */

static int open_rebuilt(struct stream *s, struct ckpt_model **out)
{
	struct ckpt_opening opening = { 0 };
	struct ckpt_source *source;
	int rc = ckpt_pieces_finish(s->pieces, &source, s->err);

	s->pieces = NULL;
	opening.source = source;
	if (rc == 0)
		rc = ckpt_format_torch_legacy.read(&opening, out, s->err);
	ckpt_source_unref(source);
	return rc;
}

int ckpt_rescue_legacy(struct ckpt_rescue *r, struct ckpt_model **out, struct ckpt_error *err)
{
	struct stream s = { .r = r, .err = err };
	int rc = read_pickles(&s);

	r->pickle = CKPT_FATE_UNPROVEN;
	r->pickle_why = no_checksums;
	if (rc == 0)
		rc = read_sizes(&s);
	if (rc == 0)
		rc = add_storages(&s);
	if (rc == 0)
		rc = ckpt_rescue_check_texts(r, err);
	if (rc == 0)
		rc = open_rebuilt(&s, out);
	ckpt_pieces_free(s.pieces);
	ckpt_strmap_clear(&s.storages);
	ckpt_pickle_clear(&s.object);
	ckpt_pickle_clear(&s.keys);
	ckpt_pickle_stream_clear(&s.s);
	free(s.sizes);
	return rc;
}
