/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes headers as caffe2/serialize/inline_container.cc of torch does through its patched
 * miniz, quirks included: the compressed size is 0 in the zip64 field of a local header, empty
 * records have no descriptor, and a descriptor is long also if only the offset is.
 *
 * What must stay true: the bytes are those of torch, for every size and offset (test_layout.c
 * has numbers from files of torch); the length of a header depends on its own record and offset
 * and on nothing after it, so that one pass places everything before anything is written.
 */
#include "zipfmt/layout.h"

#include <inttypes.h>
#include <string.h>

enum { LOCAL_BYTES = 30, DIRECTORY_BYTES = 46, ENDS_BYTES = 98, Z16 = 0xFFFF };
enum { FLAG_DESCRIPTOR = 0x0008, FLAG_UTF8 = 0x0800, TAG_ZIP64 = 0x0001, TAG_PADDING = 0x4246 };
static const uint32_t Z32 = 0xFFFFFFFF;

static bool has_big_size(const struct ckpt_zip_record *r)
{
	return r->size >= Z32;
}

static bool has_big_off(const struct ckpt_zip_record *r)
{
	return r->header_off >= Z32;
}

static uint16_t name_len(const struct ckpt_zip_layout *layout, uint32_t i)
{
	return (uint16_t)(strlen(layout->archive_name) + 1 + strlen(layout->records[i].name));
}

/* The length of the zip64 field's body: it only has what does not fit in 32 bits. */
static uint16_t zip64_len(const struct ckpt_zip_record *r)
{
	return (uint16_t)((has_big_size(r) ? 16 : 0) + (has_big_off(r) ? 8 : 0));
}

static uint64_t descriptor_len(const struct ckpt_zip_record *r)
{
	return !r->size ? 0 : has_big_size(r) || has_big_off(r) ? 24 : 16;
}

static uint64_t header_end(const struct ckpt_zip_layout *layout, uint32_t i)
{
	const struct ckpt_zip_record *r = &layout->records[i];
	uint16_t zip64 = zip64_len(r);

	return r->header_off + LOCAL_BYTES + name_len(layout, i) + (zip64 ? 4u + zip64 : 0u) + 4u;
}

uint64_t ckpt_zip_directory_entry_size(const struct ckpt_zip_layout *layout, uint32_t i)
{
	uint16_t zip64 = zip64_len(&layout->records[i]);

	return DIRECTORY_BYTES + name_len(layout, i) + (zip64 ? 4u + zip64 : 0u);
}

int ckpt_zip_layout_append(struct ckpt_zip_layout *layout, uint64_t start, struct ckpt_error *err)
{
	uint64_t at = start, directory = 0;

	for (uint32_t i = 0; i < layout->count; i++) {
		struct ckpt_zip_record *r = &layout->records[i];
		uint64_t end, pad;

		r->header_off = at;
		if (strlen(layout->archive_name) + 1 + strlen(r->name) > Z16)
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "the record name '%.100s' is too long for a zip", r->name);
		end = header_end(layout, i);
		pad = (layout->alignment - end % layout->alignment) % layout->alignment;
		if (pad + 8 + zip64_len(r) > Z16)
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "alignment %" PRIu32 " needs %" PRIu64
					 " bytes of padding, a zip header has room for 65,535",
					 layout->alignment, pad);
		r->data_off = end + pad;
		if (__builtin_add_overflow(r->data_off, r->size, &at) || at > INT64_MAX - 1024)
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "the output would be larger than 8 EiB");
		at += descriptor_len(r);
		directory += ckpt_zip_directory_entry_size(layout, i);
	}
	layout->directory_off = at;
	layout->directory_size = directory;
	layout->file_size = at + directory + ENDS_BYTES;
	return 0;
}

int ckpt_zip_layout_compute(struct ckpt_zip_layout *layout, struct ckpt_error *err)
{
	return ckpt_zip_layout_append(layout, 0, err);
}

static void put_name(const struct ckpt_zip_layout *layout, uint32_t i, struct ckpt_buf *out)
{
	ckpt_buf_add(out, layout->archive_name, strlen(layout->archive_name));
	ckpt_buf_add_u8(out, '/');
	ckpt_buf_add(out, layout->records[i].name, strlen(layout->records[i].name));
}

static void put_zip64(const struct ckpt_zip_record *r, uint64_t csize, struct ckpt_buf *out)
{
	if (!zip64_len(r))
		return;
	ckpt_buf_add_u16(out, TAG_ZIP64);
	ckpt_buf_add_u16(out, zip64_len(r));
	if (has_big_size(r)) {
		ckpt_buf_add_u64(out, r->size);
		ckpt_buf_add_u64(out, csize);
	}
	if (has_big_off(r))
		ckpt_buf_add_u64(out, r->header_off);
}

static uint16_t flags_of(const struct ckpt_zip_record *r)
{
	return r->size ? FLAG_UTF8 | FLAG_DESCRIPTOR : FLAG_UTF8;
}

void ckpt_zip_put_local_header(const struct ckpt_zip_layout *layout, uint32_t i,
			       struct ckpt_buf *out)
{
	const struct ckpt_zip_record *r = &layout->records[i];
	uint16_t zip64 = zip64_len(r);
	uint16_t pad = (uint16_t)(r->data_off - header_end(layout, i));

	ckpt_buf_add_u32(out, 0x04034B50);
	ckpt_buf_add_u16(out, 0); /* version needed */
	ckpt_buf_add_u16(out, flags_of(r));
	ckpt_buf_add_u16(out, 0); /* stored */
	ckpt_buf_add_u32(out, 0); /* time, date */
	ckpt_buf_add_u32(out, 0); /* CRC and sizes follow the data */
	ckpt_buf_add_u32(out, 0);
	ckpt_buf_add_u32(out, 0);
	ckpt_buf_add_u16(out, name_len(layout, i));
	ckpt_buf_add_u16(out, (uint16_t)((zip64 ? 4 + zip64 : 0) + 4 + pad));
	put_name(layout, i, out);
	put_zip64(r, 0, out); /* the compressed size is "not known yet" here */
	ckpt_buf_add_u16(out, TAG_PADDING);
	ckpt_buf_add_u16(out, pad);
	ckpt_buf_add_fill(out, 'Z', pad);
}

void ckpt_zip_put_descriptor(const struct ckpt_zip_layout *layout, uint32_t i, struct ckpt_buf *out)
{
	const struct ckpt_zip_record *r = &layout->records[i];

	if (!r->size)
		return;
	ckpt_buf_add_u32(out, 0x08074B50);
	ckpt_buf_add_u32(out, r->crc32);
	if (descriptor_len(r) == 24) {
		ckpt_buf_add_u64(out, r->size);
		ckpt_buf_add_u64(out, r->size);
	} else {
		ckpt_buf_add_u32(out, (uint32_t)r->size);
		ckpt_buf_add_u32(out, (uint32_t)r->size);
	}
}

static uint32_t clamp32(uint64_t v)
{
	return v >= Z32 ? Z32 : (uint32_t)v;
}

void ckpt_zip_put_directory_entry(const struct ckpt_zip_layout *layout, uint32_t i,
				  struct ckpt_buf *out)
{
	const struct ckpt_zip_record *r = &layout->records[i];
	uint16_t zip64 = zip64_len(r);

	ckpt_buf_add_u32(out, 0x02014B50);
	ckpt_buf_add_u16(out, 0); /* version made by */
	ckpt_buf_add_u16(out, 0); /* version needed */
	ckpt_buf_add_u16(out, flags_of(r));
	ckpt_buf_add_u16(out, 0); /* stored */
	ckpt_buf_add_u32(out, 0); /* time, date */
	ckpt_buf_add_u32(out, r->size ? r->crc32 : 0);
	ckpt_buf_add_u32(out, clamp32(r->size));
	ckpt_buf_add_u32(out, clamp32(r->size));
	ckpt_buf_add_u16(out, name_len(layout, i));
	ckpt_buf_add_u16(out, (uint16_t)(zip64 ? 4 + zip64 : 0));
	ckpt_buf_add_u16(out, 0); /* comment */
	ckpt_buf_add_u16(out, 0); /* disk */
	ckpt_buf_add_u16(out, 0); /* attributes */
	ckpt_buf_add_u32(out, 0);
	ckpt_buf_add_u32(out, clamp32(r->header_off));
	put_name(layout, i, out);
	put_zip64(r, r->size, out);
}

void ckpt_zip_put_ends(const struct ckpt_zip_layout *layout, struct ckpt_buf *out)
{
	uint64_t end64_off = layout->directory_off + layout->directory_size;
	uint16_t count = (uint16_t)(layout->count < Z16 ? layout->count : Z16);

	ckpt_buf_add_u32(out, 0x06064B50);
	ckpt_buf_add_u64(out, 44);
	ckpt_buf_add_u16(out, 0x031E);
	ckpt_buf_add_u16(out, 45);
	ckpt_buf_add_u64(out, 0); /* disks */
	ckpt_buf_add_u64(out, layout->count);
	ckpt_buf_add_u64(out, layout->count);
	ckpt_buf_add_u64(out, layout->directory_size);
	ckpt_buf_add_u64(out, layout->directory_off);

	ckpt_buf_add_u32(out, 0x07064B50);
	ckpt_buf_add_u32(out, 0);
	ckpt_buf_add_u64(out, end64_off);
	ckpt_buf_add_u32(out, 1);

	ckpt_buf_add_u32(out, 0x06054B50);
	ckpt_buf_add_u32(out, 0);
	ckpt_buf_add_u16(out, count);
	ckpt_buf_add_u16(out, count);
	ckpt_buf_add_u32(out, clamp32(layout->directory_size));
	ckpt_buf_add_u32(out, clamp32(layout->directory_off));
	ckpt_buf_add_u16(out, 0);
}
