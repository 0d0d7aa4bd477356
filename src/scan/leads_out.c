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

enum { SHOWN = 160 };
static const uint64_t MOST_INDEX = 256 << 20, MOST_LATEST = 1 << 20;

void *ckpt_scan_read_whole(struct ckpt_scanner *s, struct ckpt_source *source)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	size_t size = (size_t)ckpt_source_size(source);
	char *bytes = malloc(size + 1);
	int rc = bytes ? ckpt_source_read(source, 0, bytes, size, &err) : CKPT_E_NOMEM;

	ckpt_scan_failed(s, rc, &err);
	if (rc == 0)
		return bytes;
	free(bytes);
	return NULL;
}

/*
 * The names of files in the object at C. True: there is something to say of it. A value that is no text no library writes, and readers
 * get to it in any order. IS_WHOLE: the object is all of the index, and may be another one's, whose values are no names.
 */
static bool check_map(struct ckpt_scanner *s, struct ckpt_json_cursor *c, bool is_whole)
{
	char text[CKPT_JSON_MOST_TEXT + 1], shown[SHOWN];

	while (ckpt_json_skip(c, '"')) {
		size_t len;

		ckpt_json_read_text(c, text);
		if (!ckpt_json_skip(c, ':') || !ckpt_json_skip(c, '"')) {
			if (is_whole)
				return false;
			ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "name", CKPT_NO_OFFSET, "the index has a value that is no name of a file: the others are not looked into");
			return true;
		}
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

/*
 * How many bytes a blank has at the beginning, or END, of the text; 0: there is none. As str.strip() of Python knows them, in UTF-8,
 * or by one byte in a locale of Latin-1.
 */
static size_t blank_at(const char *text, size_t len, bool end)
{
	static const char *const blanks[] = {
		"\xC2\x85",	 "\xC2\xA0",	 "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
		"\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80", NULL
	};
	unsigned char byte = len ? (unsigned char)text[end ? len - 1 : 0] : 0;

	for (size_t i = 0; blanks[i]; i++) {
		size_t wide = strlen(blanks[i]);

		if (wide <= len && !memcmp(end ? text + len - wide : text, blanks[i], wide))
			return wide;
	}
	return ckpt_is_space(byte) || (byte >= 0x1C && byte <= 0x1F) || byte == 0x85 || byte == 0xA0;
}

bool ckpt_scan_latest(struct ckpt_scanner *s, struct ckpt_source *source)
{
	uint64_t size = ckpt_source_size(source);
	char shown[SHOWN], *bytes, *text;
	size_t len = (size_t)size, blank;
	bool leads_out;

	if (!is_named_as_latest(s->file.path) || !size)
		return false;
	if (size > MOST_LATEST) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET, "the name of a folder of more than 1 MiB is not looked into");
		return true;
	}
	text = bytes = ckpt_scan_read_whole(s, source);
	if (!bytes)
		return true;
	while ((blank = blank_at(text, len, false)) > 0)
		text += blank, len -= blank;
	while ((blank = blank_at(text, len, true)) > 0)
		len -= blank;
	leads_out = len && ckpt_scan_leads_out(text, len);
	if (leads_out)
		ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "name", CKPT_NO_OFFSET, "it names '%s', which leads out of the folder: what is there is not looked into",
			       ckpt_escape(shown, sizeof(shown), text, len));
	free(bytes);
	return leads_out;
}

bool ckpt_scan_hf_index(struct ckpt_scanner *s, struct ckpt_source *source)
{
	static const char key[] = "weight_map";
	uint64_t size = ckpt_source_size(source);
	char text[CKPT_JSON_MOST_TEXT + 1];
	struct ckpt_json_cursor c;
	uint8_t *bytes;
	bool found = false, has_map = false;

	if (!is_named_as_index(s->file.path))
		return false;
	if (size > MOST_INDEX) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", CKPT_NO_OFFSET, "an index of more than 256 MiB is not looked into");
		return true;
	}
	bytes = ckpt_scan_read_whole(s, source);
	if (!bytes)
		return true;
	c = (struct ckpt_json_cursor){ bytes, bytes + size };
	while (!found && (c.at = memchr(c.at, '"', (size_t)(c.end - c.at)))) {
		size_t len;

		c.at++;
		len = ckpt_json_read_text(&c, text);
		if (len != sizeof(key) - 1 || memcmp(text, key, len) != 0 || !ckpt_json_skip(&c, ':'))
			continue;
		has_map = true;
		found = ckpt_json_skip(&c, '{') && check_map(s, &c, false);
	}
	/* accelerate takes one without that key for the map itself (load_checkpoint_in_model) */
	c = (struct ckpt_json_cursor){ bytes, bytes + size };
	if (!has_map && ckpt_json_skip(&c, '{'))
		found = check_map(s, &c, true);
	free(bytes);
	return found;
}
