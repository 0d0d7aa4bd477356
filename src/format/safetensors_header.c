/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the JSON header of a safetensors file into a flat table. The code here walks the
 * objects, and jansson reads every key and value at its place: a tree of the whole header takes
 * thirty times the memory of its text.
 *
 * What must stay true: what the package safetensors refuses is refused (a test compares the
 * two), also where jansson is laxer than serde ("-0", depth); two fields or entries of one name
 * are refused as well; the length of the JSON is limited before it is read.
 */
#include "format/safetensors_header.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/reader.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 127 }; /* as deep as the package goes */

struct cursor {
	const uint8_t *json;
	size_t len, pos;
	json_t *key, *value; /* owned: the last ones */
	struct ckpt_error *err;
};

/* RC, which happened at POS of the JSON. */
static int at(const struct cursor *c, size_t pos, int rc)
{
	return ckpt_error_at(c->err, rc, NULL, NULL, CKPT_SAFETENSORS_BEFORE_JSON + pos);
}

/* ---- any JSON ---- */

static bool is_blank(uint8_t byte)
{
	return memchr(" \t\n\r", byte, 4);
}

static void skip_blanks(struct cursor *c)
{
	while (c->pos < c->len && is_blank(c->json[c->pos]))
		c->pos++;
}

static int fail_wanted(const struct cursor *c, const char *what)
{
	size_t n = c->pos < c->len ? ckpt_utf8_len((const char *)c->json + c->pos, c->len - c->pos)
				   : 0;
	char shown[16];

	if (!n)
		return at(c, c->pos,
			  ckpt_fail(c->err, CKPT_E_FORMAT, "wanted %s, the JSON ends", what));
	ckpt_escape(shown, sizeof(shown), (const char *)c->json + c->pos, n);
	return at(c, c->pos,
		  ckpt_fail(c->err, CKPT_E_FORMAT, "wanted %s, found '%s'", what, shown));
}

static int expect(struct cursor *c, char byte, const char *what)
{
	skip_blanks(c);
	if (c->pos == c->len || c->json[c->pos] != byte)
		return fail_wanted(c, what);
	c->pos++;
	return 0;
}

/* The value at the cursor, of which the first byte is there. */
static int decode(struct cursor *c, size_t flags, json_t **out)
{
	json_error_t e;

	json_decref(*out);
	*out = ckpt_json_load((const char *)c->json + c->pos, c->len - c->pos,
			      JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL | flags, &e);
	if (*out) {
		c->pos += (size_t)e.position;
		return 0;
	}
	if (json_error_code(&e) == json_error_out_of_memory)
		return ckpt_fail_nomem(c->err);
	return at(c, c->pos + (e.position > 0 ? (size_t)e.position : 0),
		  ckpt_fail(c->err, CKPT_E_FORMAT, "is not JSON: %s", e.text));
}

/* Go on to the value under the next key of an object: 1; 0: that was all. */
static int next_key(struct cursor *c, bool first)
{
	int rc;

	skip_blanks(c);
	if (c->pos < c->len && c->json[c->pos] == '}') {
		c->pos++;
		return 0;
	}
	rc = first ? 0 : expect(c, ',', "',' or '}' after a value");
	skip_blanks(c);
	if (rc == 0 && (c->pos == c->len || c->json[c->pos] != '"'))
		rc = fail_wanted(c, "a name in quotes");
	if (rc == 0)
		rc = decode(c, 0, &c->key);
	if (rc == 0)
		rc = expect(c, ':', "':' after a name");
	if (rc < 0)
		return rc;
	skip_blanks(c);
	return c->pos < c->len ? 1 : fail_wanted(c, "a value");
}

static bool key_is(const struct cursor *c, const char *text)
{
	return json_string_length(c->key) == strlen(text) &&
	       !memcmp(json_string_value(c->key), text, strlen(text));
}

static int copy_text(struct cursor *c, const json_t *text, struct ckpt_arena *arena,
		     const char **out, uint32_t *len)
{
	*len = (uint32_t)json_string_length(text); /* no longer than the JSON */
	*out = ckpt_arena_copy(arena, json_string_value(text), *len);
	return *out ? 0 : ckpt_arena_fail(arena, c->err);
}

/* Brackets inside of brackets, whatever they hold. */
static int check_depth(const struct cursor *c)
{
	unsigned depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < c->len; i++) {
		uint8_t byte = c->json[i];

		if (byte == '"')
			quoted = !quoted;
		else if (byte == '\\' && quoted)
			i++;
		else if (!quoted && (byte == '{' || byte == '['))
			depth++;
		else if (!quoted && (byte == '}' || byte == ']') && depth)
			depth--;
		if (depth > MOST_DEPTH)
			return at(c, i,
				  ckpt_fail(c->err, CKPT_E_FORMAT,
					    "values are nested deeper than %d levels", MOST_DEPTH));
	}
	return 0;
}

/* ---- entries ---- */

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

static int fail_entry(const struct cursor *c, const struct ckpt_safetensors_tensor *t, size_t pos,
		      const char *what)
{
	char shown[160];

	return at(c, pos,
		  ckpt_fail(c->err, CKPT_E_FORMAT, "tensor '%s': %s",
			    ckpt_escape(shown, sizeof(shown), t->name, t->name_len), what));
}

static int read_dtype(struct cursor *c, struct ckpt_safetensors_tensor *t)
{
	size_t start = c->pos;
	char shown[40], what[100];
	int rc = decode(c, 0, &c->value);

	if (rc < 0)
		return rc;
	if (!json_is_string(c->value))
		return fail_entry(c, t, start, "its dtype is not a string");
	for (int i = 0; i < CKPT_SAFETENSORS_DTYPE_COUNT; i++) {
		const char *name = ckpt_safetensors_dtype_name(i);

		if (json_string_length(c->value) == strlen(name) &&
		    !memcmp(json_string_value(c->value), name, strlen(name))) {
			t->dtype = i;
			return 0;
		}
	}
	ckpt_escape(shown, sizeof(shown), json_string_value(c->value),
		    json_string_length(c->value));
	snprintf(what, sizeof(what), "the format has no dtype '%s'", shown);
	return fail_entry(c, t, start, what);
}

/* An array of integers that are not negative: "-0" is a float to the package. */
static int read_integers(struct cursor *c, const struct ckpt_safetensors_tensor *t,
			 const char *what)
{
	size_t start = c->pos;
	int rc = decode(c, 0, &c->value);
	bool fine;

	if (rc < 0)
		return rc;
	fine = json_is_array(c->value) && !memchr(c->json + start, '-', c->pos - start);
	for (size_t i = 0; fine && i < json_array_size(c->value); i++)
		fine = json_is_integer(json_array_get(c->value, i));
	return fine ? 0 : fail_entry(c, t, start, what);
}

static int read_shape(struct cursor *c, struct ckpt_safetensors_tensor *t, struct ckpt_arena *arena)
{
	int rc = read_integers(c, t, "its shape is not an array of sizes");
	uint64_t *shape;

	if (rc < 0)
		return rc;
	t->ndim = (uint32_t)json_array_size(c->value);
	t->shape = shape = ckpt_arena_calloc(arena, t->ndim + 1u, sizeof(*shape));
	if (!shape)
		return ckpt_arena_fail(arena, c->err);
	for (uint32_t i = 0; i < t->ndim; i++)
		shape[i] = (uint64_t)json_integer_value(json_array_get(c->value, i));
	return 0;
}

static int read_offsets(struct cursor *c, struct ckpt_safetensors_tensor *t)
{
	size_t start = c->pos;
	int rc = read_integers(c, t, "its data_offsets are not two integers");

	if (rc == 0 && json_array_size(c->value) != 2)
		rc = fail_entry(c, t, start, "its data_offsets are not two integers");
	if (rc < 0)
		return rc;
	t->begin = (uint64_t)json_integer_value(json_array_get(c->value, 0));
	t->end = (uint64_t)json_integer_value(json_array_get(c->value, 1));
	return 0;
}

/* What newer writers may add is passed over, as the package does. */
static int read_field(struct cursor *c, struct ckpt_safetensors_tensor *t, struct ckpt_arena *arena,
		      unsigned *seen)
{
	unsigned field = key_is(c, "dtype")	     ? HAS_DTYPE
			 : key_is(c, "shape")	     ? HAS_SHAPE
			 : key_is(c, "data_offsets") ? HAS_OFFSETS
						     : 0;

	if (*seen & field)
		return fail_entry(c, t, c->pos, "says the same twice");
	*seen |= field;
	switch (field) {
	case HAS_DTYPE: return read_dtype(c, t);
	case HAS_SHAPE: return read_shape(c, t, arena);
	case HAS_OFFSETS: return read_offsets(c, t);
	default: return decode(c, JSON_DECODE_INT_AS_REAL, &c->value);
	}
}

static int read_entry(struct cursor *c, struct ckpt_arena *arena,
		      struct ckpt_safetensors_header *out)
{
	void *grown = ckpt_grow(out->tensors, out->count, &out->cap, sizeof(*out->tensors));
	struct ckpt_safetensors_tensor *t;
	unsigned seen = 0;
	int rc;

	if (!grown)
		return ckpt_fail_nomem(c->err);
	out->tensors = grown;
	t = &out->tensors[out->count++];
	*t = (struct ckpt_safetensors_tensor){ .at = (uint32_t)(CKPT_SAFETENSORS_BEFORE_JSON +
								c->pos) };
	rc = copy_text(c, c->key, arena, &t->name, &t->name_len);
	if (rc == 0 && c->json[c->pos] != '{')
		rc = fail_entry(c, t, c->pos, "its entry is not an object");
	c->pos++;
	for (bool first = true; rc == 0 && (rc = next_key(c, first)) > 0; first = false)
		rc = read_field(c, t, arena, &seen);
	if (rc == 0 && seen != HAS_ALL)
		rc = fail_entry(c, t, t->at - CKPT_SAFETENSORS_BEFORE_JSON,
				!(seen & HAS_DTYPE)   ? "has no dtype"
				: !(seen & HAS_SHAPE) ? "has no shape"
						      : "has no data_offsets");
	return rc;
}

/* ---- metadata ---- */

static int read_pair(struct cursor *c, struct ckpt_arena *arena,
		     struct ckpt_safetensors_header *out)
{
	void *grown = ckpt_grow(out->metadata, out->metadata_count, &out->metadata_cap,
				sizeof(*out->metadata));
	struct ckpt_safetensors_pair *pair;
	size_t start = c->pos;
	int rc;

	if (!grown)
		return ckpt_fail_nomem(c->err);
	out->metadata = grown;
	pair = &out->metadata[out->metadata_count++];
	*pair = (struct ckpt_safetensors_pair){ 0 };
	rc = copy_text(c, c->key, arena, &pair->key, &pair->key_len);
	if (rc == 0)
		rc = decode(c, JSON_DECODE_INT_AS_REAL, &c->value);
	if (rc == 0 && !json_is_string(c->value)) {
		char shown[100];

		ckpt_escape(shown, sizeof(shown), pair->key, pair->key_len);
		rc = at(c, start,
			ckpt_fail(c->err, CKPT_E_FORMAT, "__metadata__: '%s' is not a string", shown));
	}
	return rc < 0 ? rc : copy_text(c, c->value, arena, &pair->value, &pair->value_len);
}

static int read_metadata(struct cursor *c, struct ckpt_arena *arena,
			 struct ckpt_safetensors_header *out)
{
	int rc = 0;

	if (out->has_metadata)
		return at(c, c->pos,
			  ckpt_fail(c->err, CKPT_E_FORMAT, "__metadata__ is there twice"));
	out->has_metadata = true;
	if (c->len - c->pos >= 4 && !memcmp(c->json + c->pos, "null", 4))
		return decode(c, 0, &c->value);
	if (c->json[c->pos] != '{')
		return fail_wanted(c, "an object of strings as __metadata__");
	c->pos++;
	for (bool first = true; rc == 0 && (rc = next_key(c, first)) > 0; first = false)
		rc = read_pair(c, arena, out);
	return rc;
}

/* ---- the whole ---- */

static int read_all(struct cursor *c, struct ckpt_arena *arena, struct ckpt_safetensors_header *out)
{
	int rc = expect(c, '{', "an object");

	for (bool first = true; rc == 0 && (rc = next_key(c, first)) > 0; first = false)
		rc = key_is(c, "__metadata__") ? read_metadata(c, arena, out)
					       : read_entry(c, arena, out);
	if (rc < 0)
		return rc;
	skip_blanks(c);
	return c->pos == c->len ? 0 : fail_wanted(c, "nothing but blanks after the object");
}

static int check_text(const struct cursor *c)
{
	size_t pos = 0, n;

	if (ckpt_utf8_ok((const char *)c->json, c->len))
		return 0;
	while ((n = ckpt_utf8_len((const char *)c->json + pos, c->len - pos)) > 0)
		pos += n;
	return at(c, pos, ckpt_fail(c->err, CKPT_E_FORMAT, "the header is not UTF-8"));
}

static uint64_t end_of_tensors(const struct ckpt_safetensors_header *h)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < h->count; i++)
		end = h->tensors[i].end > end ? h->tensors[i].end : end;
	return end;
}

int ckpt_safetensors_header_parse(const uint8_t *json, size_t len, uint64_t data_len,
				  struct ckpt_arena *arena, struct ckpt_safetensors_header *out,
				  struct ckpt_error *err)
{
	struct cursor c = { .json = json, .len = len, .err = err };
	int rc;

	*out = (struct ckpt_safetensors_header){ .data_off = CKPT_SAFETENSORS_BEFORE_JSON + len,
						 .data_len = data_len };
	rc = check_text(&c);
	if (rc == 0)
		rc = check_depth(&c);
	if (rc == 0)
		rc = read_all(&c, arena, out);
	json_decref(c.key);
	json_decref(c.value);
	if (data_len == UINT64_MAX)
		out->data_len = end_of_tensors(out);
	return rc < 0 ? rc : ckpt_safetensors_header_check(out, err);
}

static int read_length(const struct ckpt_source *source, uint64_t *len, struct ckpt_error *err)
{
	uint8_t bytes[CKPT_SAFETENSORS_BEFORE_JSON];
	struct ckpt_reader r = { .data = bytes, .len = sizeof(bytes) };
	uint64_t size = ckpt_source_size(source);
	int rc;

	if (size < sizeof(bytes))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "a safetensors file has 8 bytes or more, this one has %" PRIu64,
				 size);
	rc = ckpt_source_read(source, 0, bytes, sizeof(bytes), err);
	if (rc < 0)
		return rc;
	*len = ckpt_read_u64(&r);
	if (*len > CKPT_SAFETENSORS_MOST_JSON)
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "the header is said to have %" PRIu64
			       " bytes, at most %d are allowed",
			       *len, CKPT_SAFETENSORS_MOST_JSON);
	else if (*len > size - sizeof(bytes))
		rc = ckpt_error_because(err,
					ckpt_fail(err, CKPT_E_FORMAT,
						  "the header is said to have %" PRIu64 " bytes, the file has %" PRIu64
						  " after their number: it is cut short",
						  *len, size - sizeof(bytes)),
					CKPT_REASON_TRUNCATED);
	return ckpt_error_at(err, rc, NULL, NULL, 0);
}

int ckpt_safetensors_header_read(const struct ckpt_source *source, enum ckpt_safetensors_data_len data_len, struct ckpt_arena *arena,
				 struct ckpt_safetensors_header *out, struct ckpt_error *err)
{
	uint8_t *json;
	uint64_t len = 0;
	int rc = read_length(source, &len, err);

	*out = (struct ckpt_safetensors_header){ 0 };
	if (rc < 0)
		return rc;
	json = malloc((size_t)len + 1);
	rc = json ? ckpt_source_read(source, CKPT_SAFETENSORS_BEFORE_JSON, json, (size_t)len, err)
		  : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_safetensors_header_parse(
			json, (size_t)len, data_len == CKPT_SAFETENSORS_AS_LISTED ? UINT64_MAX : ckpt_source_size(source) - CKPT_SAFETENSORS_BEFORE_JSON - len, arena, out,
			err);
	if (rc == 0 && data_len == CKPT_SAFETENSORS_AS_LISTED && out->data_len > INT64_MAX - out->data_off)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "the tensors take %" PRIu64 " bytes, no file has as many", out->data_len);
	free(json);
	return rc;
}

void ckpt_safetensors_header_clear(struct ckpt_safetensors_header *header)
{
	free(header->tensors);
	free(header->metadata);
	*header = (struct ckpt_safetensors_header){ 0 };
}

bool ckpt_safetensors_probe(const uint8_t *head, size_t len, uint64_t size)
{
	struct ckpt_reader r = { .data = head, .len = len };
	uint64_t n = ckpt_read_u64(&r);
	const uint8_t *text = head + CKPT_SAFETENSORS_BEFORE_JSON;

	/*
	 * one that was cut in its header is still one; other files begin with a number that is
	 * out of reach
	 */
	if (len < CKPT_SAFETENSORS_BEFORE_JSON + 2 || n < 2 ||
	    (n > CKPT_SAFETENSORS_MOST_JSON && n > size - CKPT_SAFETENSORS_BEFORE_JSON))
		return false;
	for (len -= CKPT_SAFETENSORS_BEFORE_JSON; len && is_blank(*text); len--)
		text++;
	if (!len || *text != '{')
		return false;
	for (text++, len--; len && is_blank(*text); len--)
		text++;
	return !len || *text == '"' || *text == '}';
}
