/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of config.json and its like, which Python writes and reads: JSON, and more. All that asks what such a file says reads it
 * here, so that no two answers differ.
 */
#include "quant/config.h"

#include "base/json.h"
#include "base/text.h"

#include <ckpt/quant.h>

#include <stdlib.h>
#include <string.h>

/* How many bytes of a number, or of Infinity or NaN, begin at TEXT; 0: none. */
static size_t number_len(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && (strchr("+-.eE0123456789", text[n]) || strchr("InfityNa", text[n])) &&
	       text[n])
		n++;
	return n;
}

/*
 * Python writes and reads numbers that JSON does not have, or jansson: infinities, NaN, exponents and integers of any
 * length; and a byte order mark. Nothing that quantization is described by is among them: they become 0. The copy is to be freed.
 */
static char *make_strict(const char *text, size_t len)
{
	enum { LONGEST = 17 };
	char *copy = malloc(len + 1);
	bool in_text = false;

	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (len >= 3 && !memcmp(copy, "\xEF\xBB\xBF", 3))
		memset(copy, ' ', 3);
	for (size_t i = 0, n; i < len; i += n) {
		n = 1;
		if (in_text && copy[i] == '\\') {
			n = 2;
		} else if (copy[i] == '"') {
			in_text = !in_text;
		} else if (!in_text && strchr("-0123456789IN", copy[i]) && copy[i]) {
			n = number_len(copy + i, len - i);
			if (n > LONGEST || memchr(copy + i, 'I', n) || memchr(copy + i, 'N', n) ||
			    memchr(copy + i, 'e', n) || memchr(copy + i, 'E', n)) {
				memset(copy + i, ' ', n);
				copy[i] = '0';
			}
		}
	}
	return copy;
}

/* What is wrong with the text: jansson speaks of its own flags in places. */
static int fail_json(const json_error_t *error, struct ckpt_error *err)
{
	const char *why = error->text;
	char shown[120];

	switch (json_error_code(error)) {
	case json_error_out_of_memory:
		return ckpt_fail_nomem(err);
	case json_error_null_character:
		why = "a text in it has the character \\u0000";
		break;
	case json_error_null_byte_in_key:
		why = "a key in it has the character \\u0000";
		break;
	case json_error_stack_overflow:
		why = "lists and objects in it are nested too deep";
		break;
	default:
		why = ckpt_escape(shown, sizeof(shown), error->text, strlen(error->text));
	}
	return ckpt_fail(err, CKPT_E_FORMAT, "is not JSON that can be read: line %d: %s", error->line, why);
}

int ckpt_quant_config_load(const char *text, size_t len, size_t flags, json_t **out,
			   struct ckpt_error *err)
{
	char *strict = make_strict(text, len);
	json_error_t error;

	*out = NULL;
	if (!strict)
		return ckpt_fail_nomem(err);
	*out = ckpt_json_load(strict, len, flags, &error);
	free(strict);
	return *out ? 0 : fail_json(&error, err);
}

/* ---- which member says it ---- */

/* Models of several parts have the entry in one of these: text_config, and what that is made of. */
enum { MOST_NESTED = 2 };

static const char *find_entry(const json_t *root, unsigned depth)
{
	static const char *const entries[] = { "quantization_config", "compression_config" };
	const char *key, *found = NULL;
	const json_t *part;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]) && !found; i++)
		if (json_is_object(json_object_get(root, entries[i])))
			found = entries[i];
	if (depth && !found)
		json_object_foreach((json_t *)root, key, part)
			if (!found && json_is_object(part))
				found = find_entry(part, depth - 1);
	return found;
}

int ckpt_quant_config_entry(const char *text, size_t len, const char **entry, struct ckpt_error *err)
{
	json_t *root;
	int rc = ckpt_quant_config_load(text, len, 0, &root, err);

	*entry = NULL;
	if (rc < 0)
		return rc;
	if (json_is_object(root))
		*entry = find_entry(root, MOST_NESTED);
	else
		rc = ckpt_fail(err, CKPT_E_FORMAT, "is no JSON object");
	json_decref(root);
	return rc;
}
