/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the stream of torch.save before 1.6; torch_legacy.h has its parts. The storages have no
 * index: each is found by walking from the one before it, in the order of the list of keys at
 * the end of the pickles.
 *
 * What must stay true: the walk checks the count of each storage against the pickle, as one
 * wrong length moves all that follow; a storage that is in the list but in no tensor is an
 * error, since its item size is not known. Views of storages (old files) take their place from
 * their root.
 */
#include "format/torch_legacy.h"

#include "base/reader.h"
#include "base/text.h"
#include "pickle/opcodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC, VERSION, FACTS, OBJECT, KEYS, VERSION_NUMBER = 1001, COUNT_BYTES = 8, SHOWN = 120 };
static const uint64_t BUDGET_BASE = 64 << 20;
static const char object_pickle[] = "the object's pickle"; /* as record in messages */

const uint8_t ckpt_torch_magic[CKPT_TORCH_MAGIC_BYTES] = { 0x6C, 0xFC, 0x9C, 0x46, 0xF9,
							    0x20, 0x6A, 0xA8, 0x50, 0x19 };

const struct ckpt_torch_legacy *ckpt_torch_legacy_of(const struct ckpt_model *model)
{
	return model->doc->container;
}

static void free_legacy(void *container)
{
	struct ckpt_torch_legacy *l = container;

	if (!l)
		return;
	free(l->places);
	free(l);
}

/* ---- the small pickles ---- */

static int decode(const struct ckpt_pickle_stream *s, const struct ckpt_pickle_extent *at,
		  struct ckpt_pickle *out, struct ckpt_error *err)
{
	int rc = ckpt_pickle_decode(s->bytes + at->off, (size_t)at->len, BUDGET_BASE + 80 * at->len,
				    out, err);

	if (rc < 0 && err && err->offset != CKPT_NO_OFFSET)
		err->offset += at->off;
	return rc;
}

static int check_magic(const struct ckpt_value *v, struct ckpt_error *err)
{
	if (v->kind == CKPT_BIGINT && v->u.bytes.len == CKPT_TORCH_MAGIC_BYTES &&
	    !memcmp(v->u.bytes.ptr, ckpt_torch_magic, CKPT_TORCH_MAGIC_BYTES))
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "the first pickle is not a magic number of torch but %s %s",
			 strchr("aeiou", *ckpt_value_kind_name(v)) ? "an" : "a",
			 ckpt_value_kind_name(v));
}

static int check_version(const struct ckpt_value *v, struct ckpt_error *err)
{
	if (v->kind == CKPT_INT && v->u.integer == VERSION_NUMBER)
		return 0;
	if (v->kind == CKPT_INT)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the version of the stream is %" PRId64 ", torch has only %d",
				 v->u.integer, VERSION_NUMBER);
	return ckpt_fail(err, CKPT_E_FORMAT, "the version of the stream is a %s, wanted %d",
			 ckpt_value_kind_name(v), VERSION_NUMBER);
}

static void read_facts(struct ckpt_torch_legacy *l, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2)
		if (ckpt_value_is_str(pairs->items[i], "little_endian"))
			l->says_big_endian = pairs->items[i + 1]->kind == CKPT_BOOL &&
					     !pairs->items[i + 1]->u.integer;
}

static int check_small(struct ckpt_torch_legacy *l, int which, const struct ckpt_value *v,
		       struct ckpt_error *err)
{
	if (which == MAGIC)
		return check_magic(v, err);
	if (which == VERSION)
		return check_version(v, err);
	read_facts(l, v);
	return 0;
}

static int read_small(struct ckpt_torch_legacy *l, const struct ckpt_pickle_stream *s, int which,
		      struct ckpt_error *err)
{
	struct ckpt_pickle pickle = { 0 };
	int rc = decode(s, &l->pickles[which], &pickle, err);

	if (rc == 0)
		rc = check_small(l, which, pickle.root, err);
	rc = ckpt_error_at(err, rc, NULL, NULL, l->pickles[which].off);
	ckpt_pickle_clear(&pickle);
	return rc;
}

/* ---- the object ---- */

static int read_object(struct ckpt_document *doc, const struct ckpt_pickle_stream *s,
		       struct ckpt_error *err)
{
	const struct ckpt_torch_legacy *l = doc->container;
	const struct ckpt_pickle_extent *at = &l->pickles[OBJECT];
	int rc;

	doc->pickle_len = (size_t)at->len;
	doc->pickle_bytes = malloc(doc->pickle_len);
	if (!doc->pickle_bytes)
		return ckpt_fail_nomem(err);
	memcpy(doc->pickle_bytes, s->bytes + at->off, doc->pickle_len);
	rc = ckpt_pickle_decode(doc->pickle_bytes, doc->pickle_len, BUDGET_BASE + 80 * at->len,
				&doc->pickle, err);
	return ckpt_error_at(err, rc, NULL, object_pickle, CKPT_NO_OFFSET);
}

/* ---- the storages ---- */

struct placer {
	struct ckpt_document *doc;
	struct ckpt_torch_legacy *l;
	uint64_t at, size;
	struct ckpt_error *err;
};

static int fail_cut(const struct placer *p, const struct ckpt_storage *s, uint32_t number,
		    uint32_t count, uint64_t need)
{
	int rc = ckpt_fail(p->err, CKPT_E_FORMAT,
			   "the file ends in storage '%.40s', number %" PRIu32 " of %" PRIu32 ": %" PRIu64
			   " bytes are missing of this one; it was cut off",
			   s->key, number + 1, count, need - (p->size - p->at));

	ckpt_error_because(p->err, rc, CKPT_REASON_STORAGES_MISSING);
	return ckpt_error_at(p->err, rc, NULL, NULL, p->at);
}

static int check_count(const struct placer *p, const struct ckpt_storage *s, const uint8_t *bytes)
{
	uint64_t found = 0, swapped = 0;

	for (int i = 0; i < COUNT_BYTES; i++) {
		found |= (uint64_t)bytes[i] << 8 * i;
		swapped |= (uint64_t)bytes[i] << 8 * (COUNT_BYTES - 1 - i);
	}
	if (found == s->numel)
		return 0;
	return ckpt_error_at(p->err,
			     ckpt_fail(p->err, CKPT_E_FORMAT,
				       "storage '%.40s' has %" PRIu64
				       " elements, the pickle wants %" PRIu64 "%s",
				       s->key, found, s->numel,
				       swapped == s->numel
					       ? ": the count is big-endian, as some early "
						 "torch on such machines wrote it"
					       : ""),
			     NULL, NULL, p->at);
}

/* Find the bytes of S, the next storage in the file. */
static int place_next(struct placer *p, const struct ckpt_storage *s, uint32_t number,
		      uint32_t count)
{
	struct ckpt_legacy_place *place = &p->l->places[s - p->doc->storages];
	uint8_t bytes[COUNT_BYTES];
	int rc;

	if (p->size - p->at < COUNT_BYTES)
		return fail_cut(p, s, number, count, COUNT_BYTES + s->nbytes);
	rc = ckpt_source_read(p->doc->source, p->at, bytes, sizeof(bytes), p->err);
	if (rc == 0)
		rc = check_count(p, s, bytes);
	if (rc < 0)
		return rc;
	p->at += COUNT_BYTES;
	if (p->size - p->at < s->nbytes)
		return fail_cut(p, s, number, count, s->nbytes);
	*place = (struct ckpt_legacy_place){ p->at, s->nbytes };
	p->at += s->nbytes;
	return 0;
}

static int find_listed(const struct placer *p, const struct ckpt_value *key,
		       struct ckpt_storage **out)
{
	bool is_text = key->kind == CKPT_STR || key->kind == CKPT_PY2_STR;
	const uint64_t *index;
	char shown[SHOWN];

	if (!is_text)
		return ckpt_fail(p->err, CKPT_E_FORMAT,
				 "the list of storages has a %s in it, wanted texts",
				 ckpt_value_kind_name(key));
	index = ckpt_strmap_find(&p->doc->storage_by_key, key->u.bytes.ptr, key->u.bytes.len);
	if (!index)
		return ckpt_fail(
			p->err, CKPT_E_FORMAT,
			"storage '%s' is in the file, but no tensor mentions it: how long it "
			"is cannot be known",
			ckpt_escape(shown, sizeof(shown), key->u.bytes.ptr, key->u.bytes.len));
	*out = &p->doc->storages[*index];
	if ((*out)->view || p->l->places[*index].off)
		return ckpt_fail(p->err, CKPT_E_FORMAT, "storage '%.40s' is in the file %s",
				 (*out)->key, (*out)->view ? "but is a view of another" : "twice");
	return 0;
}

static int place_listed(struct placer *p, const struct ckpt_value *keys)
{
	int rc = 0;

	if (keys->kind != CKPT_LIST)
		return ckpt_fail(p->err, CKPT_E_FORMAT,
				 "the list of storages is a %s, wanted a list",
				 ckpt_value_kind_name(keys));
	for (uint32_t i = 0; rc == 0 && i < keys->u.seq.count; i++) {
		struct ckpt_storage *s = NULL;

		rc = find_listed(p, keys->u.seq.items[i], &s);
		if (rc == 0)
			rc = place_next(p, s, i, keys->u.seq.count);
	}
	return rc;
}

/* A view of an old file's storage has no bytes of its own. */
static int place_views(struct placer *p)
{
	for (uint32_t i = 0; i < p->doc->storage_count; i++) {
		const struct ckpt_storage *s = &p->doc->storages[i];
		const struct ckpt_storage_view *view = s->view;
		const struct ckpt_legacy_place *root = view ? &p->l->places[view->root] : NULL;
		uint64_t off;

		if (!root || !root->off)
			continue;
		off = view->offset * ckpt_dtype_size(s->dtype);
		p->l->places[i] = (struct ckpt_legacy_place){ root->off + off, s->nbytes };
	}
	return 0;
}

static int place_storages(struct ckpt_document *doc, const struct ckpt_value *keys,
			  struct ckpt_error *err)
{
	struct ckpt_torch_legacy *l = doc->container;
	struct placer p = { .doc = doc,
			    .l = l,
			    .at = l->pickles[KEYS].off + l->pickles[KEYS].len,
			    .size = ckpt_source_size(doc->source),
			    .err = err };
	int rc;

	l->places = calloc(doc->storage_count + (size_t)1, sizeof(*l->places));
	if (!l->places)
		return ckpt_fail_nomem(err);
	rc = place_listed(&p, keys);
	if (rc == 0)
		rc = place_views(&p);
	l->end = p.at;
	for (uint32_t i = 0; i < doc->storage_count; i++) {
		doc->storages[i].record = &l->places[i];
		l->missing += !l->places[i].off;
	}
	return rc;
}

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_legacy_place *place = s->record;

	if (!place->off)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "storage '%.200s' is not in the file, only mentioned", s->key);
	*out = (struct ckpt_recipe){
		.kind = CKPT_RECIPE_EXTENT, .src = doc->source, .off = place->off, .len = s->nbytes
	};
	return 0;
}

/* ---- the whole ---- */

/* Read all five pickles; KEYS is the last one. */
static int read_pickles(struct ckpt_document *doc, struct ckpt_pickle_stream *s,
			struct ckpt_pickle *keys, struct ckpt_error *err)
{
	struct ckpt_torch_legacy *l = doc->container;
	int rc = 0;

	for (int i = MAGIC; rc == 0 && i <= KEYS; i++) {
		rc = ckpt_pickle_stream_next(s, &l->pickles[i], err);
		if (rc == 0 && i < OBJECT)
			rc = read_small(l, s, i, err);
	}
	if (rc == 0)
		rc = read_object(doc, s, err);
	return rc < 0 ? rc : decode(s, &l->pickles[KEYS], keys, err);
}

static struct ckpt_document *new_document(struct ckpt_source *source)
{
	struct ckpt_document *doc =
		ckpt_document_new(source, &ckpt_format_torch_legacy,
				  sizeof(struct ckpt_torch_legacy), free_legacy);

	if (doc)
		doc->storage_bytes = storage_bytes;
	return doc;
}

static int read_legacy(struct ckpt_opening *opening, struct ckpt_model **out,
		       struct ckpt_error *err)
{
	struct ckpt_document *doc = new_document(opening->source);
	struct ckpt_pickle keys = { 0 };
	struct ckpt_pickle_stream stream;
	struct ckpt_model *model = NULL;
	int rc;

	*out = NULL;
	if (!doc)
		return ckpt_fail_nomem(err);
	ckpt_pickle_stream_open(&stream, opening->source);
	rc = read_pickles(doc, &stream, &keys, err);
	if (rc == 0)
		rc = ckpt_error_at(err, ckpt_model_new(doc, &model, err), NULL, object_pickle,
				   CKPT_NO_OFFSET);
	else
		ckpt_document_unref(doc);
	if (rc == 0)
		rc = place_storages(doc, keys.root, err);
	if (rc < 0)
		ckpt_close(model);
	else
		*out = model;
	ckpt_pickle_clear(&keys);
	ckpt_pickle_stream_clear(&stream);
	return rc;
}

bool ckpt_torch_legacy_begins(const uint8_t *head, size_t len)
{
	static const char digits[] = "L" CKPT_TORCH_MAGIC_DIGITS "L\n.";
	struct ckpt_reader r = { .data = head, .len = len };
	const uint8_t *number;
	unsigned protocol;

	if (len >= sizeof(digits) - 1 && !memcmp(head, digits, sizeof(digits) - 1))
		return true;
	if (ckpt_read_u8(&r) != CKPT_OP_PROTO)
		return false;
	protocol = ckpt_read_u8(&r);
	if (protocol >= 4 && r.pos < len && head[r.pos] == CKPT_OP_FRAME)
		ckpt_read_bytes(&r, 1 + sizeof(uint64_t));
	if (ckpt_read_u8(&r) != CKPT_OP_LONG1 || ckpt_read_u8(&r) != CKPT_TORCH_MAGIC_BYTES)
		return false;
	number = ckpt_read_bytes(&r, CKPT_TORCH_MAGIC_BYTES);
	return number && !memcmp(number, ckpt_torch_magic, CKPT_TORCH_MAGIC_BYTES) &&
	       ckpt_read_u8(&r) == CKPT_OP_STOP && protocol <= 5;
}

static bool probe(const struct ckpt_opening *opening)
{
	return ckpt_torch_legacy_begins(opening->head, opening->len);
}

static void describe_legacy(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_torch_legacy *l = ckpt_torch_legacy_of(model);

	out->format = "torch legacy stream";
	out->writer = "torch up to 1.5";
	out->profile = "legacy";
	out->archive_name = "";
	out->byteorder = "little";
	out->record_count = model->doc->storage_count - l->missing;
}

static int note_oddities(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
			 void *ctx, struct ckpt_error *err)
{
	const struct ckpt_torch_legacy *l = ckpt_torch_legacy_of(model);
	uint64_t rest = ckpt_source_size(model->doc->source) - l->end;
	char text[160];

	(void)err;
	if (l->says_big_endian)
		note(ctx,
		     "was written on a big-endian machine; the bytes of tensors are little-endian all "
		     "the same");
	if (l->missing) {
		snprintf(text, sizeof(text),
			 "%" PRIu32 " storage%s mentioned, but not in the file: torch leaves them "
			 "uninitialised",
			 l->missing, l->missing == 1 ? " is" : "s are");
		note(ctx, text);
	}
	if (rest) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " byte%s follow%s the last storage: another object, or rubbish",
			 rest, rest == 1 ? "" : "s", rest == 1 ? "s" : "");
		note(ctx, text);
	}
	return 0;
}

const struct ckpt_format ckpt_format_torch_legacy = {
	.name = "torch legacy stream",
	.code = CKPT_FORMAT_TORCH_LEGACY,
	.probe = probe,
	.read = read_legacy,
	.save = ckpt_torch_legacy_save,
	.save_in_place = ckpt_torch_legacy_save_in_place,
	.describe = describe_legacy,
	.notes = note_oddities,
};
