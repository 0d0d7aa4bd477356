/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a DCP directory: torch loads the bytes that it points to, each item as a file of its own. Data files are looked into as the
 * archives that lie in them one behind the other, so an item has to be one of these: elsewhere it could lie in the bytes of a tensor, which nobody
 * takes for a file.
 */
#include "scan/scanner.h"

#include "base/text.h"
#include "set/dcp_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { END_BYTES = 22, END64_BYTES = 56 + 20, MOST_PADDING = 1 << 20 };

/* The items of one data file. */
struct data_file {
	struct ckpt_scanner *s;
	const struct ckpt_dcp_index *index;
	struct ckpt_source *source;
	uint32_t number;
	uint64_t *starts, *ends; /* of the archives in it, the last first; malloc */
	uint64_t count, cap;
};

static bool read_at(const struct data_file *f, uint64_t off, void *buf, size_t len)
{
	uint64_t size = ckpt_source_size(f->source);

	return off <= size && len <= size - off && ckpt_source_read(f->source, off, buf, len, NULL) == 0;
}

static uint64_t little(const uint8_t *at, size_t len)
{
	uint64_t n = 0;

	while (len--)
		n = n << 8 | at[len];
	return n;
}

/* Where the archive that ends at END begins; UINT64_MAX: none ends there. */
static uint64_t start_of(const struct data_file *f, uint64_t end)
{
	uint8_t record[END_BYTES], wide[END64_BYTES];
	uint64_t size, off, records = END_BYTES;

	if (end < END_BYTES || !read_at(f, end - END_BYTES, record, END_BYTES) || memcmp(record, "PK\5\6", 4) != 0)
		return UINT64_MAX;
	size = little(record + 12, 4);
	off = little(record + 16, 4);
	if (end >= END_BYTES + END64_BYTES && read_at(f, end - END_BYTES - END64_BYTES, wide, END64_BYTES) &&
	    !memcmp(wide, "PK\6\6", 4) && !memcmp(wide + 56, "PK\6\7", 4)) {
		size = little(wide + 40, 8);
		off = little(wide + 48, 8);
		records += END64_BYTES;
	}
	if (size > end - records || off > end - records - size)
		return UINT64_MAX;
	return end - records - size - off;
}

/* Zeros that fill up to where the next archive begins are of none. */
static uint64_t skip_padding(const struct data_file *f, uint64_t end)
{
	uint8_t block[512];
	uint64_t left = MOST_PADDING;

	while (end && left) {
		size_t len = end < sizeof(block) ? (size_t)end : sizeof(block);

		if (!read_at(f, end - len, block, len))
			return end;
		while (len && !block[len - 1])
			len--, end--, left -= left > 0;
		if (len)
			return end;
	}
	return end;
}

static bool list_archives(struct data_file *f)
{
	uint64_t end = skip_padding(f, ckpt_source_size(f->source));

	while (end) {
		/* the end record's own zeros are no padding */
		uint64_t start = UINT64_MAX, stop = end;

		for (; stop <= end + END_BYTES && start == UINT64_MAX; stop++)
			start = start_of(f, stop);
		stop--;
		if (start == UINT64_MAX)
			return false;
		if (f->count == f->cap) {
			uint64_t cap = f->cap ? 2 * f->cap : 64;
			uint64_t *starts = realloc(f->starts, cap * sizeof(*starts)),
				 *ends = starts ? realloc(f->ends, cap * sizeof(*ends)) : NULL;

			f->starts = starts ? starts : f->starts;
			f->ends = ends ? ends : f->ends;
			f->s->no_memory |= !ends;
			if (!ends)
				return false;
			f->cap = cap;
		}
		f->starts[f->count] = start;
		f->ends[f->count++] = stop;
		end = skip_padding(f, start);
	}
	return true;
}

static bool is_archive(const struct data_file *f, uint64_t off, uint64_t len)
{
	uint64_t low = 0, high = f->count;

	while (low < high) { /* the last first */
		uint64_t middle = low + (high - low) / 2;

		if (f->starts[middle] > off)
			low = middle + 1;
		else
			high = middle;
	}
	return low < f->count && f->starts[low] == off && f->ends[low] == off + len;
}

/* An item that is no archive of the row is looked into as what it is. */
static void look_at_item(struct data_file *f, const struct ckpt_dcp_chunk *chunk)
{
	struct ckpt_scanner *s = f->s;
	struct ckpt_source *part;
	char place[32];
	const char *before;

	ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "index", CKPT_NO_OFFSET,
		       "an item at 0x%" PRIx64 " of '%.80s' is none of the archives that lie in it one behind the other",
		       chunk->off, f->index->files[chunk->file]);
	if (s->depth || ckpt_source_slice(f->source, chunk->off, chunk->len, &part, NULL) < 0)
		return;
	snprintf(place, sizeof(place), "@0x%" PRIx64, chunk->off);
	before = ckpt_scan_enter(s, place, strlen(place));
	s->depth++;
	ckpt_scan_source(s, part, CKPT_SCAN_PART);
	s->depth--;
	s->where = before;
	ckpt_source_unref(part);
}

static void check_file(struct data_file *f, const char *path)
{
	bool listed;

	if (ckpt_source_open(path, &f->source, NULL) < 0)
		return; /* it is not there: nothing is loaded of it */
	listed = list_archives(f);
	for (uint64_t i = 0; i < f->index->chunk_count && f->s->rc == 0; i++) {
		const struct ckpt_dcp_chunk *chunk = &f->index->chunks[i];

		if (chunk->file == f->number && chunk->len && !chunk->transform &&
		    !(listed && is_archive(f, chunk->off, chunk->len)))
			look_at_item(f, chunk);
	}
	ckpt_source_unref(f->source);
	free(f->starts);
	free(f->ends);
}

void ckpt_scan_dcp_index(struct ckpt_scanner *s, struct ckpt_source *source)
{
	const char *path = s->file.path, *slash = strrchr(path, '/');
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_dcp_index index = { 0 };
	struct ckpt_pickle pickle = { 0 };
	uint8_t *bytes = NULL;
	char *data;

	if (ckpt_dcp_index_load(source, &bytes, &pickle, &index, &err) == 0)
		for (uint32_t i = 0; i < index.file_count && s->rc == 0; i++) {
			struct data_file f = { .s = s, .index = &index, .number = i };
			size_t len = strlen(index.files[i]);

			/* numbers alone: safetensors */
			if (len > 12 && !strcmp(index.files[i] + len - 12, ".safetensors"))
				continue;
			if (asprintf(&data, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, index.files[i]) < 0) {
				s->no_memory = true;
				break;
			}
			check_file(&f, data);
			free(data);
		}
	ckpt_dcp_index_clear(&index);
	ckpt_pickle_clear(&pickle);
	free(bytes);
}
