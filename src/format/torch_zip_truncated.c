/* SPDX-License-Identifier: Apache-2.0 */
#include "format/torch_zip.h"

#include "base/reader.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A download that broke off: the directory is missing, but local headers stand in front of every
 * record, and the pickle (the first record) tells how large each storage has to be.
 */
enum { LOCAL_BYTES = 30, MOST_NAME = 512, DESCRIPTOR = 16, DESCRIPTOR64 = 24 };

struct survivor {
	struct ckpt_source *source;
	struct ckpt_pickle pickle;
	uint8_t *pickle_bytes;
	struct ckpt_strmap sizes; /* key to bytes, from the pickle */
	uint64_t at;		  /* end of the last whole record */
	uint32_t whole;		  /* storages that are complete */
	uint32_t total;
	uint64_t expected; /* bytes of all storages */
};

/* The local header of a stored record at AT; false if there is none, or it is cut off. */
static bool read_header(const struct survivor *s, uint64_t at, char name[MOST_NAME],
			uint64_t *data_off)
{
	uint8_t bytes[LOCAL_BYTES];
	struct ckpt_reader r = { bytes, LOCAL_BYTES, 0, false };
	uint16_t name_len, extra_len;

	if (ckpt_source_read(s->source, at, bytes, LOCAL_BYTES, NULL) < 0)
		return false;
	if (ckpt_read_u32(&r) != 0x04034B50)
		return false;
	ckpt_read_bytes(&r, 4);
	if (ckpt_read_u16(&r) != CKPT_ZIP_STORED)
		return false;
	ckpt_read_bytes(&r, 16);
	name_len = ckpt_read_u16(&r);
	extra_len = ckpt_read_u16(&r);
	if (name_len >= MOST_NAME ||
	    ckpt_source_read(s->source, at + LOCAL_BYTES, name, name_len, NULL) < 0)
		return false;
	name[name_len] = '\0';
	*data_off = at + LOCAL_BYTES + name_len + extra_len;
	return *data_off <= ckpt_source_size(s->source);
}

/* Storage sizes out of every persistent id, in the order of the values. */
static void collect_sizes(struct survivor *s, const struct ckpt_value *pid)
{
	const struct ckpt_value *const *item = pid->u.seq.items;
	enum ckpt_dtype dtype;
	uint64_t nbytes;
	bool there;

	if (pid->kind != CKPT_TUPLE || pid->u.seq.count != 5 || item[1]->kind != CKPT_GLOBAL ||
	    item[2]->kind != CKPT_STR || item[4]->kind != CKPT_INT || item[4]->u.integer < 0)
		return;
	dtype = ckpt_dtype_of_storage(item[1]->u.global->name);
	if (dtype == CKPT_DTYPE_UNKNOWN ||
	    __builtin_mul_overflow((uint64_t)item[4]->u.integer, (uint64_t)ckpt_dtype_size(dtype),
				   &nbytes))
		return;
	if (!ckpt_strmap_insert(&s->sizes, item[2]->u.bytes.ptr, item[2]->u.bytes.len, nbytes,
				&there) ||
	    there)
		return;
	s->total++;
	if (__builtin_add_overflow(s->expected, nbytes, &s->expected))
		s->expected = UINT64_MAX / 2;
}

/*
 * Where the pickle ends is only known once it is decoded. It is tried in windows, each twice the one
 * before, as what follows may be gigabytes of tensors.
 */
static bool decode_pickle(struct survivor *s, uint64_t data_off)
{
	static const uint64_t first = 1 << 20, most = 256 << 20;
	uint64_t there = ckpt_source_size(s->source) - data_off, size = 0;

	while (size < there && size < most) {
		uint8_t *bytes;

		size = size ? 2 * size : first;
		if (size > there)
			size = there;
		bytes = realloc(s->pickle_bytes, size + 1);
		if (!bytes)
			return false;
		s->pickle_bytes = bytes;
		if (ckpt_source_read(s->source, data_off, bytes, size, NULL) < 0)
			return false;
		if (ckpt_pickle_decode(bytes, size, (64 << 20) + 80 * size, &s->pickle, NULL) == 0)
			return true;
	}
	return false;
}

/* Push what V is made of; returns the new depth. */
static size_t push_parts(const struct ckpt_value *v, const struct ckpt_value **todo, size_t depth,
			 size_t cap)
{
	const struct ckpt_seq *parts[2] = { 0 };
	const struct ckpt_value *singles[3] = { 0 };

	if (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT)
		parts[0] = &v->u.seq;
	if (v->kind == CKPT_CALL) {
		singles[0] = v->u.call->func;
		singles[1] = v->u.call->args;
		singles[2] = v->u.call->state;
		parts[0] = &v->u.call->items;
		parts[1] = &v->u.call->pairs;
	}
	for (int i = 0; i < 3; i++)
		if (singles[i] && depth < cap)
			todo[depth++] = singles[i];
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; parts[i] && k < parts[i]->count && depth < cap; k++)
			todo[depth++] = parts[i]->items[k];
	return depth;
}

static void collect_all_sizes(struct survivor *s)
{
	size_t depth = 0,
	       cap = 2 * (size_t)s->pickle.nbytes + 16; /* an opcode pushes two at most */
	const struct ckpt_value **todo = malloc(cap * sizeof(*todo));
	uint8_t *seen = calloc((size_t)s->pickle.next_id / 8 + 1, 1);

	if (todo && seen)
		todo[depth++] = s->pickle.root;
	while (depth) {
		const struct ckpt_value *v = todo[--depth];

		if (v->id) {
			if (seen[v->id >> 3] >> (v->id & 7) & 1)
				continue;
			seen[v->id >> 3] |= (uint8_t)(1 << (v->id & 7));
		}
		if (v->kind == CKPT_PERSID)
			collect_sizes(s, v->u.persid.pid);
		depth = push_parts(v, todo, depth, cap);
	}
	free(todo);
	free(seen);
}

static uint64_t skip_descriptor(const struct survivor *s, uint64_t at)
{
	uint8_t sig[4];

	for (uint64_t len = DESCRIPTOR; len <= DESCRIPTOR64; len += DESCRIPTOR64 - DESCRIPTOR)
		if (ckpt_source_read(s->source, at + len, sig, 4, NULL) == 0 &&
		    !memcmp(sig, "PK", 2))
			return at + len;
	return at + DESCRIPTOR;
}

/* Walk from header to header as long as sizes are known. */
static void count_whole(struct survivor *s)
{
	char name[MOST_NAME];
	uint64_t data_off, nbytes, *size;
	const char *key;

	for (;;) {
		uint64_t at = skip_descriptor(s, s->at);

		if (!read_header(s, at, name, &data_off) &&
		    !(at = s->at, read_header(s, at, name, &data_off)))
			return;
		key = strstr(name, "/data/");
		size = key ? ckpt_strmap_find(&s->sizes, key + 6, strlen(key + 6)) : NULL;
		if (key && !size)
			return;
		nbytes = size ? *size : 0;
		if (!key) { /* a small record: its text is short and known */
			static const struct {
				const char *name;
				uint64_t nbytes;
			} small[] = { { "/.format_version", 1 },
				      { "/byteorder", 6 },
				      { "/version", 2 },
				      { "/.storage_alignment", 2 } };

			for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
				if (strstr(name, small[i].name))
					nbytes = small[i].nbytes;
			if (!nbytes)
				return;
		}
		if (nbytes > ckpt_source_size(s->source) - data_off)
			return;
		s->whole += key != NULL;
		s->at = data_off + nbytes;
	}
}

int ckpt_torch_zip_fail_truncated(struct ckpt_source *source, struct ckpt_error *err)
{
	struct survivor s = { .source = source };
	uint64_t size = ckpt_source_size(source), data_off;
	char name[MOST_NAME];
	int rc;

	if (!read_header(&s, 0, name, &data_off) || !strstr(name, "/data.pkl"))
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "is a truncated zip archive: %" PRIu64
			       " bytes are there, the end with the "
			       "directory is missing; download or copy it again",
			       size);
	else if (!decode_pickle(&s, data_off))
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "is truncated: %" PRIu64
			       " bytes are there, not even the list of tensors is whole; "
			       "download or copy it again",
			       size);
	else {
		s.at = data_off + s.pickle.nbytes;
		collect_all_sizes(&s);
		count_whole(&s);
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "is truncated: %" PRIu64 " bytes are there, at least %" PRIu64
			       " are missing; the list of tensors and the first %" PRIu32
			       " of %" PRIu32 " storages are whole; download or copy it again",
			       size,
			       data_off + s.pickle.nbytes + s.expected > size
				       ? data_off + s.pickle.nbytes + s.expected - size
				       : 98,
			       s.whole, s.total);
	}
	ckpt_strmap_clear(&s.sizes);
	ckpt_pickle_clear(&s.pickle);
	free(s.pickle_bytes);
	return rc;
}
