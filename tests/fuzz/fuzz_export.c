/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of torch.export: what the scan lets pass has nothing but names where a JSON parser, Jansson's, finds a text that
 * becomes a part of a source.
 */
#include "fuzz.h"

#include "scan/loaders/export.h"

#include <jansson.h>
#include <string.h>

static bool is_name(const char *text)
{
	return !text[strcspn(text, "()[]{}=:;,'\"\\\n\r\t #<>!%^&*|~`?$")];
}

/* Texts that are literals, JSON again, or conditions. */
static bool is_other(const char *key)
{
	static const char *const keys[] = { "expr_str", "as_string", "as_strings", "out_spec", "in_spec", "torch_version", "guards_code", "metadata" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(keys[i], key))
			return true;
	return false;
}

static bool has_only_names(json_t *value, unsigned depth)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_string(value))
		return is_name(json_string_value(value));
	if (depth > 200)
		return true;
	json_array_foreach(value, i, item)
		if (!has_only_names(item, depth + 1))
			return false;
	json_object_foreach(value, key, item) {
		bool is_text = json_is_string(item) || json_is_array(item) || (!strcmp(key, "metadata") && json_is_object(item));

		if (!is_name(key) || (!(is_other(key) && is_text) && !has_only_names(item, depth + 1)))
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char shown[CKPT_EXPORT_SHOWN];
	bool no_memory = false, writes;
	json_t *whole;

	ckpt_scan_export_runs(data, size, shown);
	writes = ckpt_scan_export_writes(data, size, shown, &no_memory);
	REQUIRE(no_memory || !writes || memchr(shown, '\0', sizeof(shown)));
	ckpt_scan_export_is_guard((const char *)data, size);
	whole = json_loadb((const char *)data, size, 0, NULL);
	if (whole && json_object_get(whole, "graph_module"))
		REQUIRE(no_memory || writes || has_only_names(whole, 0));
	json_decref(whole);
	return 0;
}
