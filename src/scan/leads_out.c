/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a small file beside checkpoints leads. The index of a set, as Hugging Face's libraries write it: {"weight_map": {"name of
 * a tensor": "name of a file"}}. DeepSpeed's "latest": the name of the folder that it loads. Whoever loads these joins the names
 * to that of the folder.
 */
#include "scan/scanner.h"

#include "base/ascii.h"
#include "base/text.h"
#include "scan/json_text.h"
#include "scan/kinds.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN = 160, MOST_LATEST = 4096 };
static const uint64_t MOST_INDEX = 256 << 20;

/* The names of files in the object at C. True: one was found that leads out of the folder. */
static bool check_map(struct ckpt_scanner *s, struct ckpt_json_cursor *c)
{
	char text[CKPT_JSON_MOST_TEXT + 1], shown[SHOWN];

	while (ckpt_json_skip(c, '"')) {
		size_t len;

		ckpt_json_read_text(c, text);
		if (!ckpt_json_skip(c, ':') || !ckpt_json_skip(c, '"'))
			return false;
		len = ckpt_json_read_text(c, text);
		if (len > CKPT_JSON_MOST_TEXT || ckpt_scan_leads_out(text, len)) {
			ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "name", CKPT_NO_OFFSET, "the index names '%s', which leads out of the folder: what is there is not looked into",
				       ckpt_escape(shown, sizeof(shown), text, strlen(text)));
			return true;
		}
		if (!ckpt_json_skip(c, ','))
			return false;
	}
	return false;
}

/* model.safetensors.index.json, and of a variant pytorch_model.bin.index.fp16.json. */
static bool is_named_as_index(const char *path)
{
	const char *slash = strrchr(path, '/');

	return ckpt_ends_with(path, ".json") && strstr(slash ? slash : path, ".index.");
}

/* "latest", and "latest_universal": DeepSpeed takes what is in it, without blanks around it. */
static bool is_named_as_latest(const char *path)
{
	const char *slash = strrchr(path, '/');

	path = slash ? slash + 1 : path;
	return !strcmp(path, "latest") || !strcmp(path, "latest_universal");
}

bool ckpt_scan_latest(struct ckpt_scanner *s, struct ckpt_source *source)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t size = ckpt_source_size(source);
	char bytes[MOST_LATEST], shown[SHOWN], *text = bytes;
	size_t len = (size_t)size;
	int rc;

	if (!is_named_as_latest(s->file.path) || !size || size > sizeof(bytes))
		return false;
	rc = ckpt_source_read(source, 0, bytes, len, &err);
	ckpt_scan_failed(s, rc, &err);
	if (rc < 0)
		return true;
	while (len && ckpt_is_space((unsigned char)*text))
		text++, len--;
	while (len && ckpt_is_space((unsigned char)text[len - 1]))
		len--;
	if (!len || memchr(text, '\n', len) || !ckpt_scan_leads_out(text, len))
		return false;
	ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "name", CKPT_NO_OFFSET, "it names '%s', which leads out of the folder: what is there is not looked into",
		       ckpt_escape(shown, sizeof(shown), text, len));
	return true;
}

bool ckpt_scan_hf_index(struct ckpt_scanner *s, struct ckpt_source *source)
{
	static const char key[] = "weight_map";
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t size = ckpt_source_size(source);
	char text[CKPT_JSON_MOST_TEXT + 1];
	struct ckpt_json_cursor c;
	uint8_t *bytes;
	bool found = false;
	int rc;

	if (!is_named_as_index(s->file.path))
		return false;
	if (size > MOST_INDEX) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET, "an index of more than 256 MiB is not looked into");
		return true;
	}
	bytes = malloc((size_t)size + 1);
	rc = bytes ? ckpt_source_read(source, 0, bytes, (size_t)size, &err) : CKPT_E_NOMEM;
	ckpt_scan_failed(s, rc, &err);
	c = (struct ckpt_json_cursor){ bytes, bytes ? bytes + size : NULL };
	while (rc == 0 && !found && (c.at = memchr(c.at, '"', (size_t)(c.end - c.at)))) {
		size_t len;

		c.at++;
		len = ckpt_json_read_text(&c, text);
		if (len == sizeof(key) - 1 && !memcmp(text, key, len) && ckpt_json_skip(&c, ':') && ckpt_json_skip(&c, '{'))
			found = check_map(s, &c);
	}
	free(bytes);
	return found || rc < 0;
}
