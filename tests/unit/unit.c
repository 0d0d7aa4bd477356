/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "zipfmt/layout.h"

#include <dirent.h>
#include <libdeflate.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ckpt_buf unit_bytes(const char *hex)
{
	struct ckpt_buf out = { 0 };
	unsigned byte;
	int used;

	ckpt_buf_grow(&out, 1);
	out.len = 0; /* never NULL */
	for (; sscanf(hex, " %2x%n", &byte, &used) == 1; hex += used)
		ckpt_buf_add_u8(&out, (uint8_t)byte);
	return out;
}

const char *unit_message(const struct ckpt_error *err)
{
	static char text[1200];

	return ckpt_error_format(err, text, sizeof(text));
}

const char *unit_text(const struct ckpt_error *err)
{
	static char texts[2][sizeof(err->text)];
	static unsigned turn;

	turn ^= 1;
	return ckpt_error_text(err, texts[turn], sizeof(texts[turn]));
}

unsigned unit_rounds(unsigned some, unsigned many)
{
	const char *is_long = getenv("CKPT_TEST_LONG");

	return is_long && strcmp(is_long, "1") == 0 ? many : some;
}

char *unit_folder_new(void)
{
	const char *base = getenv("CKPT_TEST_DIR");
	char *folder;

	if (base)
		mkdir(base, 0777);
	assert_true(asprintf(&folder, "%s/unit-XXXXXX", base ? base : "/tmp") > 0);
	assert_non_null(mkdtemp(folder));
	return folder;
}

void unit_folder_remove(char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *path = unit_path(folder, entry->d_name);

		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			remove(path);
		free(path);
	}
	if (dir)
		closedir(dir);
	rmdir(folder);
	free(folder);
}

unsigned unit_folder_count(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

char *unit_path(const char *folder, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
	return path;
}

void unit_write_file(const char *path, const void *bytes, size_t len)
{
	FILE *out = fopen(path, "wb");

	assert_non_null(out);
	assert_int_equal(fwrite(bytes, 1, len, out), len);
	assert_int_equal(fclose(out), 0);
}

struct ckpt_buf unit_read_file(const char *path)
{
	struct ckpt_buf out = { 0 };
	FILE *in = fopen(path, "rb");
	uint8_t block[4096];
	size_t n;

	assert_non_null(in);
	while ((n = fread(block, 1, sizeof(block), in)) > 0)
		ckpt_buf_add(&out, block, n);
	fclose(in);
	return out;
}

bool unit_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

char *unit_fixture(const char *name)
{
	const char *root = getenv("CKPT_SOURCE_DIR");
	char *path;

	assert_true(asprintf(&path, "%s/tests/fixtures/%s", root ? root : ".", name) > 0);
	return path;
}

uint32_t unit_zip_alignment = 64;

struct ckpt_buf unit_zip(const char *archive_name, const struct unit_record *records, size_t count)
{
	struct ckpt_zip_layout layout = { .archive_name = archive_name, .alignment = unit_zip_alignment,
					  .count = (uint32_t)count };
	struct ckpt_buf out = { 0 };

	layout.records = calloc(count + 1, sizeof(*layout.records));
	assert_non_null(layout.records);
	for (size_t i = 0; i < count; i++)
		layout.records[i] = (struct ckpt_zip_record){
			.name = records[i].name, .size = records[i].len,
			.crc32 = libdeflate_crc32(0, records[i].bytes, records[i].len) };
	assert_int_equal(ckpt_zip_layout_compute(&layout, NULL), 0);
	for (uint32_t i = 0; i < layout.count; i++) {
		ckpt_zip_put_local_header(&layout, i, &out);
		ckpt_buf_add(&out, records[i].bytes, records[i].len);
		ckpt_zip_put_descriptor(&layout, i, &out);
	}
	for (uint32_t i = 0; i < layout.count; i++)
		ckpt_zip_put_directory_entry(&layout, i, &out);
	ckpt_zip_put_ends(&layout, &out);
	assert_false(out.bad);
	free(layout.records);
	return out;
}

void unit_put_str(struct ckpt_buf *out, const char *text)
{
	ckpt_buf_add_u8(out, 'X');
	ckpt_buf_add_u32(out, (uint32_t)strlen(text));
	ckpt_buf_add(out, text, strlen(text));
}

void unit_put_tensor(struct ckpt_buf *out, const char *key, unsigned numel)
{
	ckpt_buf_printf(out, "ctorch._utils\n_rebuild_tensor_v2\n((");
	unit_put_str(out, "storage");
	ckpt_buf_printf(out, "ctorch\nFloatStorage\n");
	unit_put_str(out, key);
	unit_put_str(out, "cpu");
	ckpt_buf_add_u8(out, 'M');
	ckpt_buf_add_u16(out, (uint16_t)numel);
	ckpt_buf_printf(out, "tQK%cM", 0);
	ckpt_buf_add_u16(out, (uint16_t)numel);
	ckpt_buf_printf(out, "\x85K\x01\x85\x89" "ccollections\nOrderedDict\n)RtR");
}

void unit_put_state_dict(struct ckpt_buf *out, const char *const *keys, size_t count)
{
	char storage[24];

	ckpt_buf_printf(out, "ccollections\nOrderedDict\n)R(");
	for (size_t i = 0; i < count; i++) {
		unit_put_str(out, keys[i]);
		snprintf(storage, sizeof(storage), "%zu", i);
		unit_put_tensor(out, storage, 1);
	}
	ckpt_buf_add_u8(out, 'u');
}

struct ckpt_buf unit_torch_file(const struct ckpt_buf *pickle, unsigned storages)
{
	struct unit_record *records = calloc(storages + 2, sizeof(*records));
	struct ckpt_buf whole = { 0 }, file;
	char (*names)[24] = calloc(storages + 1, sizeof(*names));

	assert_true(records && names);
	ckpt_buf_add(&whole, "\x80\x02", 2);
	ckpt_buf_add(&whole, pickle->data, pickle->len);
	ckpt_buf_add_u8(&whole, '.');
	records[0] = (struct unit_record){ "data.pkl", whole.data, whole.len };
	for (unsigned i = 0; i < storages; i++) {
		snprintf(names[i], sizeof(names[i]), "data/%u", i);
		records[1 + i] = (struct unit_record){ names[i], "\0\0\x80?", 4 };
	}
	records[1 + storages] = (struct unit_record){ "version", "3\n", 2 };
	file = unit_zip("archive", records, storages + 2);
	ckpt_buf_clear(&whole);
	free(records);
	free(names);
	return file;
}
