/* SPDX-License-Identifier: Apache-2.0 */
#include "zipfmt/python_zip.h"

#include "base/ascii.h"

#include <string.h>

enum { LOCAL_BYTES = 30, ENTRY_BYTES = 46, END_BYTES = 22, ZIP64_ENDS_BYTES = 76 };
enum { VERSION = 45, UNIX = 3, FLAG_UTF8 = 0x0800, TAG_ZIP64 = 1, LOCAL_EXTRA = 20 };
enum { DATE_1980 = 1 << 5 | 1, MOST_COUNT = 0xFFFF };
static const uint32_t Z32 = 0xFFFFFFFF, READ_AND_WRITE = (uint32_t)0600 << 16;

/* Above this zipfile uses zip64 fields, though the 32-bit ones have room for twice as much. */
static const uint64_t LIMIT = ((uint64_t)1 << 31) - 1;

static uint16_t flags_of(const struct ckpt_python_zip_member *m)
{
	return ckpt_is_ascii(m->name) ? 0 : FLAG_UTF8;
}

/* The length of the zip64 field's body in the directory: 8 bytes for each number that needs it. */
static uint16_t zip64_len(const struct ckpt_python_zip_member *m)
{
	return (uint16_t)((m->size > LIMIT ? 16 : 0) + (m->header_off > LIMIT ? 8 : 0));
}

static bool needs_zip64_ends(uint64_t count, uint64_t off, uint64_t size)
{
	return count > MOST_COUNT || off > LIMIT || size > LIMIT;
}

uint64_t ckpt_python_zip_local_size(const struct ckpt_python_zip_member *m)
{
	return LOCAL_BYTES + strlen(m->name) + LOCAL_EXTRA;
}

uint64_t ckpt_python_zip_entry_size(const struct ckpt_python_zip_member *m)
{
	uint16_t zip64 = zip64_len(m);

	return ENTRY_BYTES + strlen(m->name) + (zip64 ? 4u + zip64 : 0u);
}

uint64_t ckpt_python_zip_ends_size(uint64_t count, uint64_t off, uint64_t size)
{
	return END_BYTES + (needs_zip64_ends(count, off, size) ? ZIP64_ENDS_BYTES : 0);
}

/* What both headers have: flags, stored, time, date, checksum. */
static void put_common(const struct ckpt_python_zip_member *m, struct ckpt_buf *out)
{
	ckpt_buf_add_u16(out, flags_of(m));
	ckpt_buf_add_u16(out, 0);
	ckpt_buf_add_u16(out, 0);
	ckpt_buf_add_u16(out, DATE_1980);
	ckpt_buf_add_u32(out, m->crc32);
}

void ckpt_python_zip_put_local(const struct ckpt_python_zip_member *m, struct ckpt_buf *out)
{
	ckpt_buf_add_u32(out, 0x04034B50);
	ckpt_buf_add_u16(out, VERSION);
	put_common(m, out);
	ckpt_buf_add_u32(out, Z32); /* the sizes are in the zip64 field */
	ckpt_buf_add_u32(out, Z32);
	ckpt_buf_add_u16(out, (uint16_t)strlen(m->name));
	ckpt_buf_add_u16(out, LOCAL_EXTRA);
	ckpt_buf_add(out, m->name, strlen(m->name));
	ckpt_buf_add_u16(out, TAG_ZIP64);
	ckpt_buf_add_u16(out, LOCAL_EXTRA - 4);
	ckpt_buf_add_u64(out, m->size);
	ckpt_buf_add_u64(out, m->size);
}

static uint32_t clamp32(uint64_t v)
{
	return v > LIMIT ? Z32 : (uint32_t)v;
}

void ckpt_python_zip_put_entry(const struct ckpt_python_zip_member *m, struct ckpt_buf *out)
{
	uint16_t zip64 = zip64_len(m);

	ckpt_buf_add_u32(out, 0x02014B50);
	ckpt_buf_add_u8(out, VERSION);
	ckpt_buf_add_u8(out, UNIX);
	ckpt_buf_add_u16(out, VERSION);
	put_common(m, out);
	ckpt_buf_add_u32(out, clamp32(m->size));
	ckpt_buf_add_u32(out, clamp32(m->size));
	ckpt_buf_add_u16(out, (uint16_t)strlen(m->name));
	ckpt_buf_add_u16(out, (uint16_t)(zip64 ? 4 + zip64 : 0));
	ckpt_buf_add_u16(out, 0); /* comment */
	ckpt_buf_add_u16(out, 0); /* disk */
	ckpt_buf_add_u16(out, 0); /* attributes */
	ckpt_buf_add_u32(out, READ_AND_WRITE);
	ckpt_buf_add_u32(out, clamp32(m->header_off));
	ckpt_buf_add(out, m->name, strlen(m->name));
	if (!zip64)
		return;
	ckpt_buf_add_u16(out, TAG_ZIP64);
	ckpt_buf_add_u16(out, zip64);
	if (m->size > LIMIT) {
		ckpt_buf_add_u64(out, m->size);
		ckpt_buf_add_u64(out, m->size);
	}
	if (m->header_off > LIMIT)
		ckpt_buf_add_u64(out, m->header_off);
}

static void put_zip64_ends(uint64_t count, uint64_t off, uint64_t size, struct ckpt_buf *out)
{
	ckpt_buf_add_u32(out, 0x06064B50);
	ckpt_buf_add_u64(out, 44);
	ckpt_buf_add_u16(out, VERSION);
	ckpt_buf_add_u16(out, VERSION);
	ckpt_buf_add_u64(out, 0); /* disks */
	ckpt_buf_add_u64(out, count);
	ckpt_buf_add_u64(out, count);
	ckpt_buf_add_u64(out, size);
	ckpt_buf_add_u64(out, off);

	ckpt_buf_add_u32(out, 0x07064B50);
	ckpt_buf_add_u32(out, 0);
	ckpt_buf_add_u64(out, off + size);
	ckpt_buf_add_u32(out, 1);
}

void ckpt_python_zip_put_ends(uint64_t count, uint64_t off, uint64_t size, struct ckpt_buf *out)
{
	uint16_t count16 = (uint16_t)(count < MOST_COUNT ? count : MOST_COUNT);

	if (needs_zip64_ends(count, off, size))
		put_zip64_ends(count, off, size, out);
	ckpt_buf_add_u32(out, 0x06054B50);
	ckpt_buf_add_u32(out, 0);
	ckpt_buf_add_u16(out, count16);
	ckpt_buf_add_u16(out, count16);
	ckpt_buf_add_u32(out, size < Z32 ? (uint32_t)size : Z32);
	ckpt_buf_add_u32(out, off < Z32 ? (uint32_t)off : Z32);
	ckpt_buf_add_u16(out, 0);
}
