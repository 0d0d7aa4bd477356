/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of a program of torch.export that have no bytes. torch 2.14 makes them of zeros, as many as the JSON beside them says.
 * Source: torch/export/pt2_archive/_package.py, _build_file_map().
 */
#include "scan/loaders/zip.h"

#include "base/ascii.h"
#include "base/json.h"
#include "base/text.h"

#include <string.h>

enum { MOST_JSON = 1 << 20 /* jansson takes thirty times as much */, SHOWN = 120 };

/* By the last part of the name, in small letters: has a record of it no bytes? A folder is a record, too. False: no memory. */
static bool index_records(struct ckpt_loose_zip *zip)
{
	for (uint32_t i = 0; i < zip->count && !zip->s->no_memory; i++) {
		const struct ckpt_loose_entry *e = &zip->entries[i];
		const char *slash = strrchr(e->name, '/'), *last = slash ? slash + 1 : e->name;
		char *name = ckpt_arena_copy(zip->s->arena, last, strlen(last));
		uint64_t *is_empty;
		bool was_there;

		for (char *at = name; at && *at; at++)
			*at = (char)ckpt_to_lower((unsigned char)*at);
		is_empty = name ? ckpt_strmap_insert(&zip->records, name, strlen(name), 0, &was_there) : NULL;
		zip->s->no_memory |= !is_empty;
		if (is_empty)
			*is_empty |= !e->usize;
		zip->has_empty_record |= !e->usize;
	}
	return !zip->s->no_memory;
}

/* "weight_0", as torch names them: has each record of that name, in whatever folder, bytes? */
static bool has_bytes(const struct ckpt_loose_zip *zip, const char *name)
{
	const uint64_t *is_empty = name && *name && !strchr(name, '/') ? ckpt_strmap_find_small(&zip->records, name, strlen(name)) : NULL;

	return is_empty && !*is_empty;
}

/* [{"as_int": 3}, {"as_int": 0}]: a tensor without numbers. */
static bool is_of_no_numbers(const json_t *sizes)
{
	bool is = false;

	for (size_t i = 0; i < json_array_size(sizes); i++) {
		const json_t *size = json_object_get(json_array_get(sizes, i), "as_int");

		is |= json_is_integer(size) && !json_integer_value(size);
	}
	return is;
}

void ckpt_loose_zip_check_payloads(struct ckpt_loose_zip *zip, const uint8_t *json, uint64_t len)
{
	static const char key[] = "path_name";
	char shown[SHOWN];
	const char *name;
	json_t *root, *payload;

	if (!memmem(json, (size_t)len, key, sizeof(key) - 1) || (!zip->records.count && !index_records(zip)) || !zip->has_empty_record)
		return;
	root = len <= MOST_JSON ? ckpt_json_load((const char *)json, (size_t)len, 0, NULL) : NULL;
	if (!json_is_object(json_object_get(root, "config")))
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET, "weights without bytes, and no list of them as torch.export writes it, up to 1 MiB");
	json_object_foreach(json_object_get(root, "config"), name, payload) {
		if (has_bytes(zip, json_string_value(json_object_get(payload, key))) || json_is_true(json_object_get(payload, "use_pickle")) || is_of_no_numbers(json_object_get(json_object_get(payload, "tensor_meta"), "sizes")))
			continue;
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "amount", CKPT_NO_OFFSET, "the weight '%s' has no bytes: torch.export.load makes as many zeros as it is said to have numbers",
			       ckpt_escape(shown, sizeof(shown), name, strlen(name)));
		break;
	}
	json_decref(root);
}
