/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a DCP directory: torch loads the bytes that it points to, each item as a file of its
 * own. Data files are looked into as the archives that lie in them one behind the other, so an item
 * has to be one of these: elsewhere it could lie in the bytes of a tensor, which nobody takes for a
 * file.
 */
#include "scan/kinds.h"
#include "scan/loaders/zip.h"

#include "base/grow.h"
#include "base/strmap.h"
#include "base/text.h"
#include "io/unzstd.h"
#include "set/dcp/dcp.h"
#include "set/dcp/index.h"
#include "set/fields.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* items that are looked into though they are none: the verdict stands after the first */
enum { MOST_ODD = 8, MOST_NAMES = 4, EDGE = 4096, UNPACKED_OF_BYTE = 32 };
/* ... and so much behind an item, where a pickle begins in it and does not end there */
static const uint64_t BEHIND = 4 << 10;

struct item_extent {
	uint64_t start, end;
};

/* The items of one data file. */
struct data_file {
	struct ckpt_scanner *s;
	const char *name;
	const struct ckpt_dcp_chunk *const *chunks;
	uint64_t chunk_count;
	struct ckpt_source *source;
	struct item_extent *archives; /* owned: those in the file, the last first */
	uint32_t count, cap;
};

static bool add_archive(struct data_file *f, uint64_t start, uint64_t end)
{
	struct item_extent *grown = ckpt_grow(f->archives, f->count, &f->cap, sizeof(*grown));

	f->s->no_memory |= !grown;
	if (!grown)
		return false;
	f->archives = grown;
	f->archives[f->count++] = (struct item_extent){ start, end };
	return true;
}

/* What is odd of them is said as the scan of the data file would say it. */
static bool list_archives(struct data_file *f)
{
	uint64_t end = ckpt_source_size(f->source);

	while (end && f->s->rc == 0 && (end = ckpt_loose_row_end(f->source, end)) > 0) {
		struct ckpt_loose_zip zip = { .s = f->s, .in_row = true };
		bool found;

		if (ckpt_scan_is_cancelled(f->s))
			f->s->rc = CKPT_E_CANCELLED;
		if (ckpt_source_slice(f->source, 0, end, &zip.source, NULL) < 0) {
			f->s->no_memory = true;
			return false;
		}
		found = ckpt_loose_zip_find(&zip);
		ckpt_source_unref(zip.source);
		if (!found || !add_archive(f, zip.base, end))
			return false;
		end = zip.base;
		if (!end)
			return true;
	}
	return false;
}

static bool is_archive(const struct data_file *f, uint64_t off, uint64_t len)
{
	uint32_t low = 0, high = f->count;

	while (low < high) { /* the last first */
		uint32_t middle = low + (high - low) / 2;

		if (f->archives[middle].start > off)
			low = middle + 1;
		else
			high = middle;
	}
	return low < f->count && f->archives[low].start == off && f->archives[low].end - off == len;
}

/* LEN bytes at OFF, looked into as what they are. FLAGS: CKPT_SCAN_UNPICKLED, or none. */
static void look_at(struct data_file *f, uint64_t off, uint64_t len, unsigned flags)
{
	struct ckpt_scanner *s = f->s;
	struct ckpt_source *part;
	char place[32];
	const char *before;

	if (ckpt_source_slice(f->source, off, len, &part, NULL) < 0)
		return;
	snprintf(place, sizeof(place), "@0x%" PRIx64, off);
	before = ckpt_scan_enter(s, place, strlen(place));
	s->depth++;
	ckpt_scan_source(s, part, CKPT_SCAN_PART | flags);
	s->depth--;
	s->where = before;
	ckpt_source_unref(part);
}

/* Python's tarfile asks for no more than a header. */
static bool begins_as_tar(struct ckpt_source *rest)
{
	uint8_t header[512];

	return ckpt_source_size(rest) >= sizeof(header) && ckpt_source_read(rest, 0, header, sizeof(header), NULL) == 0 && ckpt_scan_is_tar(header, sizeof(header));
}

/*
 * torch 1.13 to 2.3 give an item that is no archive to readers of tars and pickles that know where it begins, and read on behind
 * its end (_ReaderView of torch/distributed/checkpoint/filesystem.py). OWN: as many bytes of it are looked into as what they are.
 */
static void look_behind(struct data_file *f, const struct ckpt_dcp_chunk *chunk, uint64_t own)
{
	uint64_t size = ckpt_source_size(f->source), left = chunk->off < size ? size - chunk->off : 0, len;
	struct ckpt_source *rest;
	enum ckpt_scan_reach reach;
	bool is_tar;

	if (own > left || ckpt_source_slice(f->source, chunk->off, left, &rest, NULL) < 0)
		return;
	len = left - own > BEHIND ? own + BEHIND : left;
	is_tar = begins_as_tar(rest);
	reach = is_tar ? CKPT_SCAN_ENDS_BEFORE : ckpt_scan_reach_of(f->s, rest, own, len);
	ckpt_source_unref(rest);
	if (is_tar)
		ckpt_scan_find(f->s, CKPT_SCAN_INCONSISTENT, "index", CKPT_NO_OFFSET, "the item at 0x%" PRIx64 " begins as a tar archive: torch 1.13 to 2.3 read on behind its end", chunk->off);
	else if (reach == CKPT_SCAN_GOES_FAR)
		ckpt_scan_find(f->s, CKPT_SCAN_INCONSISTENT, "index", CKPT_NO_OFFSET, "the item at 0x%" PRIx64 " begins as a pickle, and torch 1.13 to 2.3 read on elsewhere", chunk->off);
	else if (reach == CKPT_SCAN_GOES_ON)
		look_at(f, chunk->off, len, CKPT_SCAN_UNPICKLED);
}

static void look_at_item(struct data_file *f, const struct ckpt_dcp_chunk *chunk)
{
	ckpt_scan_find(f->s, CKPT_SCAN_INCONSISTENT, "index", CKPT_NO_OFFSET,
		       "the item at 0x%" PRIx64 " is none of the archives that lie in this file one behind the other",
		       chunk->off);
	if (!f->s->depth)
		look_at(f, chunk->off, chunk->len, 0);
}

/*
 * The numbers of tensors as they are: FileSystemWriter(serialization_format=SAFETENSORS) writes files of safetensors, called
 * "__0_0.distcp" in torch 2.14.
 */
static bool may_be_numbers(const struct data_file *f)
{
	uint64_t size = ckpt_source_size(f->source);
	uint8_t head[CKPT_PROBE_BYTES];
	size_t len = size < sizeof(head) ? (size_t)size : sizeof(head);

	return !f->s->depth && (ckpt_ends_with(f->name, ".safetensors") ||
				(ckpt_source_read(f->source, 0, head, len, NULL) == 0 && ckpt_scan_is_safetensors(f->source, head, len)));
}

/*
 * A packed item is looked into as what it unpacks to, which takes of what may be unpacked as the
 * records of archives do.
 */
static void look_at_packed(struct data_file *f, const struct ckpt_dcp_chunk *chunk)
{
	struct ckpt_scanner *s = f->s;
	struct ckpt_source *packed = NULL, *item = NULL;
	const char *before;
	char place[32];
	int rc = !ckpt_dcp_is_zstd(chunk->transform) ? CKPT_E_UNSUPPORTED : ckpt_source_slice(f->source, chunk->off, chunk->len, &packed, NULL);

	if (rc == 0)
		rc = ckpt_source_unzstd(packed, s->budget, EDGE, &item, NULL);
	ckpt_source_unref(packed);
	snprintf(place, sizeof(place), "@0x%" PRIx64, chunk->off);
	before = ckpt_scan_enter(s, place, strlen(place));
	if (rc < 0) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "index", CKPT_NO_OFFSET, "an item that is packed in a way that is not looked into, or unpacks to too much");
		s->where = before;
		return;
	}
	s->budget -= ckpt_source_size(item);
	s->depth++;
	ckpt_scan_source(s, item, CKPT_SCAN_PART);
	s->depth--;
	s->where = before;
	ckpt_source_unref(item);
}

/* In the order of the index's files. */
static int by_file(const void *a, const void *b)
{
	const struct ckpt_dcp_chunk *x = *(const struct ckpt_dcp_chunk *const *)a, *y = *(const struct ckpt_dcp_chunk *const *)b;

	return (x->file > y->file) - (x->file < y->file);
}

static void check_items(struct data_file *f)
{
	const char *before = ckpt_scan_enter(f->s, f->name, strlen(f->name));
	bool listed = list_archives(f);
	uint64_t size = ckpt_source_size(f->source), odd = 0, numbers = may_be_numbers(f) ? size : 0, packed = size;
	bool has_packed = false, lies_alone;

	for (uint64_t i = 0; i < f->chunk_count && f->s->rc == 0; i++) {
		const struct ckpt_dcp_chunk *chunk = f->chunks[i];

		if (chunk->len && chunk->transform) {
			if (!has_packed) /* what may be unpacked goes by the size of the index, so far */
				f->s->budget += UNPACKED_OF_BYTE * size;
			has_packed = true;
			lies_alone = chunk->len <= packed; /* no two of them have the same bytes */
			packed -= lies_alone ? chunk->len : 0;
			if (lies_alone || odd++ < MOST_ODD) {
				look_at_packed(f, chunk);
				look_behind(f, chunk, 0);
			}
			continue;
		}
		if (listed && is_archive(f, chunk->off, chunk->len))
			continue;
		if (chunk->len <= numbers) { /* no two of them have the same bytes */
			numbers -= chunk->len;
			if (chunk->len)
				look_at(f, chunk->off, chunk->len, 0);
			look_behind(f, chunk, chunk->len);
		} else if (odd++ < MOST_ODD) {
			look_at_item(f, chunk);
		}
	}
	if (odd > MOST_ODD)
		ckpt_scan_find(f->s, CKPT_SCAN_INCONSISTENT, "index", CKPT_NO_OFFSET,
			       "%" PRIu64 " more items, which lie over others or are no archives, and were not looked into", odd - MOST_ODD);
	f->s->where = before;
}

/*
 * On a walk through the folder the data file has its turn; who names the index alone means what it
 * leads to.
 */
static void scan_whole(struct data_file *f)
{
	struct ckpt_scanner *s = f->s;
	const char *before = ckpt_scan_enter(s, f->name, strlen(f->name));
	bool weights = s->weights;

	s->weights = false;
	s->depth++;
	ckpt_scan_source(s, f->source, CKPT_SCAN_PART | CKPT_SCAN_ROW);
	s->depth--;
	s->weights = weights;
	s->where = before;
}

/*
 * Is the file one that the index has named under so many other names ("a//b", links) that it is not looked at once more? Each time it
 * would be gone through anew.
 */
static bool is_named_too_often(struct data_file *f, struct ckpt_strmap *names)
{
	struct {
		uint64_t dev, ino;
	} id = { 0, 0 }, *key;
	dev_t dev;
	ino_t ino;
	uint64_t *count;
	bool there = false;

	if (!ckpt_source_identity(f->source, &dev, &ino))
		return false;
	id.dev = dev;
	id.ino = ino;
	count = ckpt_strmap_find(names, (const char *)&id, sizeof(id));
	if (!count) {
		key = ckpt_arena_alloc(f->s->arena, sizeof(*key));
		if (key)
			*key = id;
		count = key ? ckpt_strmap_insert(names, (const char *)key, sizeof(*key), 0, &there) : NULL;
	}
	f->s->no_memory |= !count;
	if (!count || ++*count <= MOST_NAMES)
		return !count;
	if (*count == MOST_NAMES + 1)
		ckpt_scan_find(f->s, CKPT_SCAN_UNREADABLE, "index", CKPT_NO_OFFSET, "one data file under more than %d names: what the others name is not looked into", MOST_NAMES);
	return true;
}

/* FOLDER: where the index lies, with a slash behind, or "". */
static void check_file(struct data_file *f, const char *folder, int folder_len, struct ckpt_strmap *names)
{
	size_t len = strlen(f->name);
	char *path;

	/* as pathlib has it, with which torch puts it together */
	while (len && (f->name[len - 1] == '/' || (len > 1 && f->name[len - 1] == '.' && f->name[len - 2] == '/')))
		len--;
	if (asprintf(&path, "%.*s%.*s", *f->name == '/' ? 0 : folder_len, folder, (int)len, f->name) < 0) {
		f->s->no_memory = true;
		return;
	}
	ckpt_text_to_file_name(path + (*f->name == '/' ? 0 : folder_len));
	/* else it is not there: nothing is loaded of it */
	if (ckpt_source_open(path, &f->source, NULL) < 0) {
		if (access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
			ckpt_scan_find(f->s, CKPT_SCAN_UNREADABLE, "index", CKPT_NO_OFFSET, "a data file that cannot be opened");
	} else {
		if (!is_named_too_often(f, names)) {
			check_items(f);
			if (!f->s->in_folder)
				scan_whole(f);
		}
		ckpt_source_unref(f->source);
	}
	free(f->archives);
	free(path);
}

static void check_files(struct ckpt_scanner *s, const struct ckpt_dcp_index *index)
{
	const struct ckpt_dcp_chunk **chunks = malloc((index->chunk_count + 1) * sizeof(*chunks));
	const char *path = s->file.path, *slash = strrchr(path, '/');
	struct ckpt_strmap names = { 0 }; /* how many each data file has, by device and inode */

	s->no_memory |= !chunks;
	if (!chunks)
		return;
	for (uint64_t i = 0; i < index->chunk_count; i++)
		chunks[i] = &index->chunks[i];
	qsort(chunks, index->chunk_count, sizeof(*chunks), by_file);
	for (uint64_t i = 0, next; i < index->chunk_count && s->rc == 0 && !s->no_memory; i = next) {
		struct data_file f = { .s = s, .chunks = chunks + i };

		for (next = i; next < index->chunk_count && chunks[next]->file == chunks[i]->file;)
			next++;
		f.chunk_count = next - i;
		if (chunks[i]->file == CKPT_DCP_NO_FILE)
			continue;
		f.name = index->files[chunks[i]->file];
		check_file(&f, path, slash ? (int)(slash - path + 1) : 0, &names);
	}
	ckpt_strmap_clear(&names);
	free(chunks);
}

/*
 * Could it have attributes, which is all that torch asks of an index, whatever its class? A member
 * of an enumeration has none of its own.
 */
static bool may_be_index(const struct ckpt_value *root)
{
	const struct ckpt_value *args;
	bool any = false;

	if (!root || root->kind != CKPT_CALL)
		return !root;
	args = root->u.call->args;
	for (uint32_t i = 0; args->kind == CKPT_TUPLE && i < args->u.seq.count; i++)
		any |= args->u.seq.items[i]->kind >= CKPT_TUPLE;
	return any || args->kind != CKPT_TUPLE || root->u.call->state || root->u.call->items.count || root->u.call->pairs.count || root->u.call->kwargs;
}

/* torch 2.4 and later set an attribute of this one, too (FileSystemReader.read_metadata). */
static bool has_odd_storage_meta(const struct ckpt_value *root)
{
	const struct ckpt_value *state = ckpt_fields_object_state(root), *meta = state ? ckpt_fields_find(state, "storage_meta") : NULL;

	return meta && meta->kind != CKPT_NONE && !ckpt_fields_is(meta, "StorageMeta");
}

/* "__0.metadata", of a rank */
static bool is_index_of_rank(const char *name)
{
	size_t digits = strncmp(name, "__", 2) ? 0 : strspn(name + 2, "0123456789");

	return digits && !strcmp(name + 2 + digits, ".metadata");
}

/*
 * Where ".metadata" does not load, torch 2.14 reads that of the rank beside it. Who scans the folder sees both.
 */
static void check_beside(struct ckpt_scanner *s)
{
	const char *slash = strrchr(s->file.path, '/');
	char *folder = strndup(slash ? s->file.path : ".", slash ? (size_t)(slash - s->file.path + 1) : 1);
	const struct dirent *entry;
	bool found = false;
	DIR *dir;

	s->no_memory |= !folder;
	dir = folder ? opendir(folder) : NULL;
	while (dir && !found && (entry = readdir(dir)))
		found = is_index_of_rank(entry->d_name);
	if (dir)
		closedir(dir);
	free(folder);
	if (found)
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "index", CKPT_NO_OFFSET, "an index of a rank lies beside it, which torch 2.14 reads where this one does not load: scan the folder");
}

void ckpt_scan_dcp_index(struct ckpt_scanner *s, struct ckpt_source *source)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_dcp_index index = { 0 };
	struct ckpt_pickle pickle = { 0 };
	uint8_t *bytes = NULL;
	char text[sizeof(err.text)];
	int rc;

	if (!s->in_folder && (ckpt_ends_with(s->file.path, "/.metadata") || !strcmp(s->file.path, ".metadata")))
		check_beside(s);
	rc = ckpt_dcp_index_load(source, &bytes, &pickle, &index, &err);
	if (rc == 0 && !ckpt_fields_is(index.root, "Metadata"))
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "index", CKPT_NO_OFFSET, "an index of another class than torch's, of which it is not known what its attributes are");
	if (rc == 0 && has_odd_storage_meta(index.root))
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "index", CKPT_NO_OFFSET, "an index whose storage_meta is none that torch writes: it would set an attribute of that");
	if (rc == 0)
		check_files(s, &index);
	else if (rc == CKPT_E_NOMEM)
		s->no_memory = true;
	else if (pickle.root && (pickle.root->kind == CKPT_GLOBAL || (s->file.verdict >= CKPT_SCAN_NEEDS_OBJECTS && pickle.root->kind == CKPT_CALL && pickle.root->u.call->kind == CKPT_CALL_REDUCE)))
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "index", CKPT_NO_OFFSET, "an index that is a class, or what a call gives: torch would set attributes of what all of the process has");
	/* plain data has no keys that would do */
	else if (s->file.verdict >= CKPT_SCAN_NEEDS_OBJECTS && may_be_index(pickle.root))
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "index", CKPT_NO_OFFSET,
			       "an index whose items cannot be found: %s", ckpt_error_text(&err, text, sizeof(text)));
	ckpt_dcp_index_clear(&index);
	ckpt_pickle_clear(&pickle);
	free(bytes);
}
