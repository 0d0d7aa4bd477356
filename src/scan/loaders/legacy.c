/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/scanner.h"

#include "format/pickle_stream.h"
#include "pickle/decode.h"

#include <string.h>

static const uint64_t MOST_KEYS = (uint64_t)64 << 20; /* memory for them */

/*
 * The fifth pickle, a list of the keys of storages that follow: each that is mentioned? Of others
 * torch makes what its memory had before.
 */
static void check_keys(struct ckpt_scanner *s, const struct ckpt_scan_pickle *p, const struct ckpt_strmap *mentioned)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_pickle keys = { 0 };
	struct ckpt_strmap listed = { 0 };
	int rc = ckpt_pickle_decode(p->bytes, p->end, MOST_KEYS + 64 * (uint64_t)p->len, &keys, &err);

	for (uint32_t i = 0; rc == 0 && keys.root->kind == CKPT_LIST && i < keys.root->u.seq.count; i++) {
		const struct ckpt_value *key = keys.root->u.seq.items[i];
		bool there;

		if (key->kind == CKPT_STR || key->kind == CKPT_PY2_STR)
			s->no_memory |= !ckpt_strmap_insert(&listed, key->u.bytes.ptr, (size_t)key->u.bytes.len, key->kind, &there);
	}
	for (size_t i = 0; rc == 0 && !s->no_memory && i < mentioned->count; i++) {
		const uint64_t *kind = ckpt_strmap_find(&listed, mentioned->entries[i].key, mentioned->entries[i].len);

		/* bytes of Python 2 and a text are the same or not by the encoding that a loader is told */
		if (!kind || *kind != mentioned->entries[i].value) {
			ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "size", p->base, "a storage that is mentioned is not in the list of those that follow");
			break;
		}
	}
	s->no_memory |= rc == CKPT_E_NOMEM;
	ckpt_strmap_clear(&listed);
	ckpt_pickle_clear(&keys);
}

/* The stream that torch.save wrote until 1.5: five pickles, then the storages. */
void ckpt_scan_legacy(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags)
{
	struct ckpt_pickle_stream stream;
	struct ckpt_pickle_extent at;
	struct ckpt_strmap mentioned = { 0 }, *before = s->storages;
	bool weights = s->weights;

	if (flags & CKPT_SCAN_TOP) {
		s->file.is_torch = true;
		s->weights = true;
	}
	ckpt_pickle_stream_open(&stream, source);
	for (int i = 0; i < 5 && s->rc == 0; i++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_scan_pickle p = { .flags = CKPT_SCAN_STORAGES | CKPT_SCAN_NUMBERS_LATER };
		uint64_t start = stream.at;
		int rc = ckpt_pickle_stream_next(&stream, &at, &err);

		if (rc == CKPT_E_FORMAT) /* what there is of it may have run */
			at = (struct ckpt_pickle_extent){ start, stream.len - start };
		else if (rc < 0)
			ckpt_scan_failed(s, rc, &err);
		s->weights_cut |= rc < 0 && rc != CKPT_E_FORMAT;
		if (rc < 0 && rc != CKPT_E_FORMAT)
			break;
		p.bytes = stream.bytes + at.off;
		p.len = (size_t)at.len;
		p.base = at.off;
		s->storages = i == 3 ? &mentioned : before;
		ckpt_scan_one_pickle(s, &p);
		s->storages = before;
		if (i == 4 && p.stopped)
			check_keys(s, &p, &mentioned);
		if (i == 3) { /* magic number, protocol, system, the object, keys of storages */
			s->result = p.result;
			s->result_storage = p.result_storage;
		}
		if (rc < 0 || !p.stopped)
			break;
	}
	ckpt_pickle_stream_clear(&stream);
	ckpt_strmap_clear(&mentioned);
	s->weights = weights;
}
