/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed records, unpacked by libzip, which reads the archive through callbacks.
 *
 * What must stay true: libzip allows several open files but no threads, so every call of it has
 * the lock of the archive; libzip has read the directory itself, so check_same_entry() makes
 * sure that a number means the same record to both; the last read of a stream meets the end of
 * the record, as only that compares its CRC.
 */
#include "zipfmt/inflate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

struct ckpt_inflater {
	zip_t *archive;
	const struct ckpt_source *source;
	uint64_t pos;
	zip_error_t error;
};

struct inflate_stream {
	struct ckpt_stream base;
	struct ckpt_zip *zip;
	zip_file_t *file;
	uint64_t left; /* bytes that were not read yet */
};

static zip_int64_t read_source(struct ckpt_inflater *s, void *data, uint64_t len)
{
	uint64_t left = ckpt_source_size(s->source) - s->pos;

	if (len > left)
		len = left;
	if (ckpt_source_read(s->source, s->pos, data, len, NULL) < 0) {
		zip_error_set(&s->error, ZIP_ER_READ, EIO);
		return -1;
	}
	s->pos += len;
	return (zip_int64_t)len;
}

static zip_int64_t seek_source(struct ckpt_inflater *s, void *data, uint64_t len)
{
	zip_int64_t to = zip_source_seek_compute_offset(s->pos, ckpt_source_size(s->source), data,
							len, &s->error);

	if (to >= 0)
		s->pos = (uint64_t)to;
	return to < 0 ? -1 : 0;
}

static zip_int64_t stat_source(struct ckpt_inflater *s, void *data, uint64_t len)
{
	zip_stat_t st;

	if (len < sizeof(st))
		return -1;
	zip_stat_init(&st);
	st.size = ckpt_source_size(s->source);
	st.valid = ZIP_STAT_SIZE;
	memcpy(data, &st, sizeof(st));
	return sizeof(st);
}

/* libzip reads through this, so that slices and memory work as files do. */
static zip_int64_t do_command(void *ctx, void *data, zip_uint64_t len, zip_source_cmd_t cmd)
{
	struct ckpt_inflater *s = ctx;

	switch (cmd) {
	case ZIP_SOURCE_OPEN: s->pos = 0; return 0;
	case ZIP_SOURCE_READ: return read_source(s, data, len);
	case ZIP_SOURCE_CLOSE: return 0;
	case ZIP_SOURCE_STAT: return stat_source(s, data, len);
	case ZIP_SOURCE_ERROR: return zip_error_to_data(&s->error, data, len);
	case ZIP_SOURCE_FREE: return 0;
	case ZIP_SOURCE_SEEK: return seek_source(s, data, len);
	case ZIP_SOURCE_TELL: return (zip_int64_t)s->pos;
	case ZIP_SOURCE_SUPPORTS:
		return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ,
						      ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
						      ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE,
						      ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, -1);
	default: zip_error_set(&s->error, ZIP_ER_OPNOTSUPP, 0); return -1;
	}
}

void ckpt_zip_inflater_free(struct ckpt_inflater *inflater)
{
	if (!inflater)
		return;
	if (inflater->archive)
		zip_discard(inflater->archive);
	zip_error_fini(&inflater->error);
	free(inflater);
}

static void close_stream(struct ckpt_stream *stream)
{
	struct inflate_stream *s = (struct inflate_stream *)stream;

	pthread_mutex_lock(&s->zip->lock);
	if (s->file)
		zip_fclose(s->file);
	pthread_mutex_unlock(&s->zip->lock);
	free(s);
}

/* Only the read that meets the end compares the checksum. */
static int check_end(struct inflate_stream *s, struct ckpt_error *err)
{
	uint8_t more;
	zip_int64_t n = zip_fread(s->file, &more, 1);

	if (n < 0)
		return ckpt_fail(err, CKPT_E_FORMAT, "cannot decompress: %s",
				 zip_file_strerror(s->file));
	return n == 0 ? 0
		      : ckpt_fail(err, CKPT_E_FORMAT, "decompresses to more bytes than announced");
}

static int read_locked(struct inflate_stream *s, void *buf, size_t len, struct ckpt_error *err)
{
	uint8_t *p = buf;

	while (len) {
		zip_int64_t n = zip_fread(s->file, p, len);

		if (n < 0)
			return ckpt_fail(err, CKPT_E_FORMAT, "cannot decompress: %s",
					 zip_file_strerror(s->file));
		if (n == 0)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "decompresses to %zu bytes less than announced", len);
		p += n;
		len -= (size_t)n;
		s->left -= (uint64_t)n;
	}
	return s->left ? 0 : check_end(s, err);
}

static int read_stream(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct inflate_stream *s = (struct inflate_stream *)stream;
	int rc;

	pthread_mutex_lock(&s->zip->lock);
	rc = read_locked(s, buf, len, err);
	pthread_mutex_unlock(&s->zip->lock);
	return rc;
}

static int new_inflater(const struct ckpt_source *src, struct ckpt_inflater **out,
			struct ckpt_error *err)
{
	struct ckpt_inflater *inflater = calloc(1, sizeof(*inflater));
	zip_error_t why;
	zip_source_t *source;
	int rc = 0;

	if (!inflater)
		return ckpt_fail_nomem(err);
	inflater->source = src;
	zip_error_init(&inflater->error);
	zip_error_init(&why);
	source = zip_source_function_create(do_command, inflater, &why);
	inflater->archive = source ? zip_open_from_source(source, ZIP_RDONLY, &why) : NULL;
	if (!inflater->archive) {
		rc = ckpt_fail(err, CKPT_E_FORMAT, "libzip: %s", zip_error_strerror(&why));
		if (source)
			zip_source_free(source);
		ckpt_zip_inflater_free(inflater);
		inflater = NULL;
	}
	zip_error_fini(&why);
	*out = inflater;
	return rc;
}

/* libzip has read the directory itself: does number INDEX mean the same record to it? */
static int check_same_entry(const struct ckpt_zip *zip, uint64_t index, struct ckpt_error *err)
{
	const struct ckpt_zip_entry *e = &zip->entries[index];
	const char *name;
	zip_stat_t st;

	zip_stat_init(&st);
	name = zip_get_name(zip->inflater->archive, index, ZIP_FL_UNCHANGED | ZIP_FL_ENC_RAW);
	if (!name || strcmp(name, e->name) ||
	    zip_stat_index(zip->inflater->archive, index, ZIP_FL_UNCHANGED, &st) < 0 ||
	    st.size != e->usize || st.comp_size != e->csize || st.crc != e->crc32)
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"libzip sees another record here: the archive has two directories");
	return 0;
}

static int open_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err)
{
	struct inflate_stream *s = calloc(1, sizeof(*s));
	int rc = 0;

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ .read = read_stream, .close = close_stream };
	s->zip = recipe->ctx;
	s->left = recipe->len;
	pthread_mutex_lock(&s->zip->lock);
	if (!s->zip->inflater)
		rc = new_inflater(recipe->src, &s->zip->inflater, err);
	if (rc == 0)
		rc = check_same_entry(s->zip, recipe->off, err);
	if (rc == 0) {
		s->file = zip_fopen_index(s->zip->inflater->archive, recipe->off, 0);
		if (!s->file)
			rc = ckpt_fail(err, CKPT_E_FORMAT, "libzip: %s",
				       zip_strerror(s->zip->inflater->archive));
	}
	pthread_mutex_unlock(&s->zip->lock);
	if (rc < 0)
		close_stream(&s->base);
	else
		*out = &s->base;
	return rc;
}

struct ckpt_recipe ckpt_zip_inflate_recipe(struct ckpt_zip *zip, const struct ckpt_zip_entry *entry)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_STREAM,
				     .src = zip->source,
				     .off = (uint64_t)(entry - zip->entries),
				     .len = entry->usize,
				     .open = open_stream,
				     .is_one_way = true,
				     .ctx = zip };
}
