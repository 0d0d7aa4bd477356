/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gpu/copy.h"
#include "gpu_doubles.h"

#include <ckpt/ckpt.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Programs that are older or newer than the library: every struct with a size, and every function with
 * flags. tests/manners.py looks that none is missing here.
 */

static char *folder, *in, *out, *place, *dcp;
static struct ckpt_model *model;
static struct ckpt_array *array;
static struct ckpt_stat *stats;
static struct ckpt_gpu_copy *gpu;
static struct ckpt_parts *parts;
static struct ckpt_error err;

static int setup(void **state)
{
	static const char *const keys[] = { "module.a" }, *const paths[] = { "a" };
	static const uint64_t sizes[] = { 100 };
	struct ckpt_save_options to_dcp = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_stat_options blocks = CKPT_STAT_OPTIONS_INIT;
	struct ckpt_buf pickle = { 0 }, file;

	(void)state;
	folder = unit_folder_new();
	in = unit_path(folder, "in.pt");
	out = unit_path(folder, "out.pt");
	place = unit_path(folder, "place.pt");
	dcp = unit_path(folder, "dcp");
	unit_put_state_dict(&pickle, keys, 1);
	file = unit_torch_file(&pickle, 1);
	unit_write_file(in, file.data, file.len);
	unit_write_file(place, file.data, file.len);
	ckpt_buf_clear(&pickle);
	ckpt_buf_clear(&file);
	doubles_use("fake_cuda.so", NULL);
	to_dcp.format = "dcp";
	blocks.depth = 1;
	return ckpt_open(in, &model, &err) < 0 || ckpt_save(model, dcp, &to_dcp, NULL, &err) < 0 ||
	       ckpt_array_open(model, 0, CKPT_ARRAY_FOR_NUMPY, &array, &err) < 0 ||
	       ckpt_stat_new(model, &blocks, &stats, &err) < 0 ||
	       ckpt_parts_new(model, &parts, &err) < 0 ||
	       ckpt_gpu_copy_new(0, paths, sizes, 1, false, &gpu, &err) < 0;
}

static int teardown(void **state)
{
	char command[4200];

	(void)state;
	ckpt_gpu_release(gpu);
	ckpt_parts_free(parts);
	ckpt_stat_free(stats);
	ckpt_array_close(array);
	ckpt_close(model);
	free(in);
	free(out);
	free(place);
	snprintf(command, sizeof(command), "rm -r '%s'", dcp);
	assert_int_equal(system(command), 0);
	free(dcp);
	unit_folder_remove(folder);
	return 0;
}

/* The result of an edit is of no interest. */
static int drop(int rc, struct ckpt_model *made)
{
	if (rc == 0)
		ckpt_close(made);
	return rc;
}

/* ---- calls with options, reports or both; either may be NULL ---- */

#define EDIT(name, call) \
	static int name(const void *options, void *report) \
	{ \
		struct ckpt_model *made = NULL; \
		const void *o = options; \
		struct ckpt_edit_report *r = report; \
		int rc = call; \
\
		(void)o; \
		return drop(rc, made); \
	}

static const char *const expressions[] = { "s/a/b/" };
static struct ckpt_name_pair names[] = { { "module.a", "b", 0 } };
static const struct ckpt_device_map maps[] = { { NULL, "cpu" } };

EDIT(strip_prefix, ckpt_strip_prefix(model, "module.", o, &made, r, &err))
EDIT(strip_wrappers, ckpt_strip_wrappers(model, o, &made, r, &err))
EDIT(add_prefix, ckpt_add_prefix(model, "x.", o, &made, r, &err))
EDIT(rename_keys, ckpt_rename(model, expressions, 1, o, &made, r, &err))
EDIT(rename_map, ckpt_rename_map(model, names, 1, o, &made, r, &err))
EDIT(number_keys, ckpt_number_keys(model, &made, r, &err))
EDIT(dequantize, ckpt_dequantize(model, "bf16", o, &made, r, &err))
EDIT(remap, ckpt_remap(model, maps, 1, o, &made, r, &err))
EDIT(extract, ckpt_extract(model, "", &made, r, &err))
EDIT(take_weights, ckpt_take_weights(model, o, &made, r, &err))
EDIT(select_all, ckpt_select(model, NULL, 0, NULL, 0, &made, r, &err))
EDIT(cast, ckpt_cast(model, "float16", o, &made, r, &err))
EDIT(average, ckpt_average((const struct ckpt_model *const[]){ model, model }, 2, o, &made, r, &err))

static int cast_losses(const void *options, void *report)
{
	(void)options;
	return ckpt_cast_losses(model, report, &err);
}

EDIT(compact, ckpt_compact(model, &made, r, &err))
EDIT(sanitize, ckpt_sanitize(model, &made, r, &err))

/* Of a file that holds one number. */
static int set_number(const char *text, unsigned flags, void *report)
{
	struct ckpt_buf pickle = { 0 }, file;
	struct ckpt_model *number, *made = NULL;
	int rc;

	ckpt_buf_add(&pickle, "I5\n", 3);
	file = unit_torch_file(&pickle, 0);
	rc = ckpt_open_memory(file.data, file.len, &number, &err);
	if (rc == 0) {
		rc = ckpt_set(number, "", text, flags, &made, report, &err);
		ckpt_close(number);
	}
	rc = drop(rc, made);
	ckpt_buf_clear(&pickle);
	ckpt_buf_clear(&file);
	return rc;
}

static int set(const void *options, void *report)
{
	(void)options;
	return set_number("6", 0, report);
}

static int set_flags(unsigned flags)
{
	return set_number("6", flags, NULL);
}

/* There is no module: not found, and no report, but only where the options are understood. */
static int state_dict(const void *options, void *report)
{
	struct ckpt_model *made = NULL;
	int rc = ckpt_state_dict(model, options, &made, report, &err);

	return rc == CKPT_E_NOTFOUND ? 0 : drop(rc, made);
}

static int save(const void *options, void *report)
{
	unlink(out);
	return ckpt_save(model, out, options, report, &err);
}

static int save_in_place(const void *options, void *report)
{
	struct ckpt_model *own;
	int rc = ckpt_open(place, &own, &err);

	assert_int_equal(rc, 0);
	rc = ckpt_save_in_place(own, options, report, &err);
	ckpt_close(own);
	return rc;
}

static int save_npy(const void *options, void *report)
{
	unlink(out);
	return ckpt_array_save_npy(array, out, options, report, &err);
}

static int reindex(const void *options, void *report)
{
	return ckpt_reindex(dcp, NULL, options, report, &err);
}

static int diff(const void *options, void *report)
{
	return ckpt_diff(model, model, options, NULL, NULL, report, &err);
}

static int repair(const void *options, void *report)
{
	struct ckpt_model *made = NULL;
	int rc = ckpt_repair_open(in, options, NULL, NULL, &made, report, &err);

	return drop(rc, made);
}

static int verify(const void *options, void *report)
{
	union {
		struct ckpt_verify_report r;
		char bytes[4200];
	} other = { .r = CKPT_VERIFY_REPORT_INIT };

	return ckpt_verify(in, options, NULL, NULL, report ? report : &other.r, &err);
}

static int scan(const void *options, void *report)
{
	return ckpt_scan(in, options, NULL, NULL, report, &err);
}

static int why(const void *options, void *report)
{
	return ckpt_why(in, options, NULL, NULL, report, &err);
}

static int stat_new(const void *options, void *report)
{
	struct ckpt_stat *made = NULL;
	int rc = ckpt_stat_new(model, options, &made, &err);

	(void)report;
	if (rc == 0)
		ckpt_stat_free(made);
	return rc;
}

static int broadcast(const void *options, void *report)
{
	const char *const sources[] = { in };

	unlink(out);
	return ckpt_broadcast(sources, 1, out, options, report, &err);
}

static int evict(const void *options, void *report)
{
	const char *const folders[] = { folder };

	return ckpt_evict_staged(folders, 1, options, report, &err);
}

static int count_prefix(const void *options, void *report)
{
	(void)options;
	return ckpt_count_prefix(model, "module.", report, &err);
}

/* An FP8 weight of two numbers, and its scale. */
static int quant_get(const void *options, void *report)
{
	static const char header[] = "{\"a.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,2],\"data_offsets\":[4,6]},"
				     "\"a.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}";
	char bytes[8 + sizeof(header) - 1 + 6] = { sizeof(header) - 1 };
	struct ckpt_model *quantized = NULL;
	struct ckpt_quant *quant = NULL;
	int rc;

	memcpy(bytes + 8, header, sizeof(header) - 1);
	rc = ckpt_open_memory(bytes, sizeof(bytes), &quantized, &err);
	if (rc == 0)
		rc = ckpt_quant_open(quantized, options, &quant, &err);
	if (rc == 0 && report)
		rc = ckpt_quant_get(quant, 0, report);
	ckpt_quant_close(quant);
	ckpt_close(quantized);
	return rc;
}

static int tensor_get(const void *options, void *report)
{
	(void)options;
	return ckpt_tensor_get(model, 0, report);
}

static int file_get(const void *options, void *report)
{
	(void)options;
	return ckpt_file_get(model, report);
}

static int array_get(const void *options, void *report)
{
	(void)options;
	return ckpt_array_get(array, report);
}

static int stat_get_item(const void *options, void *report)
{
	(void)options;
	return ckpt_stat_get(stats, 0, report, NULL);
}

static int stat_get_values(const void *options, void *report)
{
	(void)options;
	return ckpt_stat_get(stats, 0, NULL, report);
}

static int stat_total_get(const void *options, void *report)
{
	(void)options;
	return ckpt_stat_total_get(stats, 0, report, NULL);
}

static int stat_group_get(const void *options, void *report)
{
	(void)options;
	return ckpt_stat_group_get(stats, 0, report, NULL);
}

static int stat_total_get_values(const void *options, void *report)
{
	(void)options;
	return ckpt_stat_total_get(stats, 0, NULL, report);
}

static int parts_get(const void *options, void *report)
{
	(void)options;
	return ckpt_parts_get(parts, CKPT_PART_PARAMETER, report);
}

static int part_place_get(const void *options, void *report)
{
	(void)options;
	return ckpt_part_place_get(parts, 0, report);
}

static int extra_get(const void *options, void *report)
{
	(void)options;
	return ckpt_extra_get(parts, 0, report);
}

static int gpu_file_get(const void *options, void *report)
{
	(void)options;
	return ckpt_gpu_file_get(gpu, 0, report);
}

static int node_get(const void *options, void *report)
{
	const struct ckpt_node *root;
	int rc = ckpt_node_find(model, "", &root, &err);

	(void)options;
	return rc < 0 ? rc : ckpt_node_get(model, root, report, &err);
}

static int node_rebuild(const void *options, void *report)
{
	const struct ckpt_node *root;
	int rc = ckpt_node_find(model, "", &root, &err);

	(void)options;
	if (rc == 0)
		rc = ckpt_node_rebuild(model, ckpt_node_value(model, root, 0), report, &err);
	return rc;
}

static int storage_get(const void *options, void *report)
{
	(void)options;
	return ckpt_storage_get(model, 0, report, &err);
}

static int storages_read(const void *options, void *report)
{
	uint8_t bytes[4];
	const struct ckpt_storage_range range = { 0, 0, sizeof(bytes), bytes };

	(void)report;
	return ckpt_storages_read(model, &range, 1, options, &err);
}

/* Of an empty file, which is no checkpoint: but only where the options are understood. */
static int open_reader(const void *options, void *report)
{
	struct ckpt_model *made = NULL;
	int rc = ckpt_open_reader(options, &made, &err);

	(void)report;
	return rc == CKPT_E_FORMAT ? 0 : drop(rc, made);
}

/* A number without dimensions. */
static int build_tensor(const void *options, void *report)
{
	static const float one = 1;
	struct ckpt_builder *b;
	struct ckpt_model *made = NULL;
	const struct ckpt_node *t;
	int rc = ckpt_builder_new(&b, &err);

	(void)report;
	assert_int_equal(rc, 0);
	t = ckpt_build_tensor(b, ckpt_build_storage(b, "float32", "cpu", &one, sizeof(one)), options);
	rc = ckpt_builder_finish(b, t, &made, &err);
	return drop(rc, made);
}

/* ---- structs ---- */

#define ROW(function, type, init) { #function, function, sizeof(struct type), &(const struct type)init }

struct row {
	const char *name;
	int (*call)(const void *options, void *report);
	size_t size;
	const void *init;
};

static const struct row options[] = {
	ROW(strip_prefix, ckpt_key_options, CKPT_KEY_OPTIONS_INIT),
	ROW(strip_wrappers, ckpt_key_options, CKPT_KEY_OPTIONS_INIT),
	ROW(add_prefix, ckpt_key_options, CKPT_KEY_OPTIONS_INIT),
	ROW(rename_keys, ckpt_key_options, CKPT_KEY_OPTIONS_INIT),
	ROW(rename_map, ckpt_key_options, CKPT_KEY_OPTIONS_INIT),
	ROW(remap, ckpt_remap_options, CKPT_REMAP_OPTIONS_INIT),
	ROW(state_dict, ckpt_take_options, CKPT_TAKE_OPTIONS_INIT),
	ROW(take_weights, ckpt_take_options, CKPT_TAKE_OPTIONS_INIT),
	ROW(cast, ckpt_cast_options, CKPT_CAST_OPTIONS_INIT),
	ROW(average, ckpt_average_options, CKPT_AVERAGE_OPTIONS_INIT),
	ROW(dequantize, ckpt_quant_options, CKPT_QUANT_OPTIONS_INIT),
	ROW(quant_get, ckpt_quant_options, CKPT_QUANT_OPTIONS_INIT),
	ROW(save, ckpt_save_options, CKPT_SAVE_OPTIONS_INIT),
	ROW(save_in_place, ckpt_save_options, CKPT_SAVE_OPTIONS_INIT),
	ROW(save_npy, ckpt_save_options, CKPT_SAVE_OPTIONS_INIT),
	ROW(reindex, ckpt_reindex_options, CKPT_REINDEX_OPTIONS_INIT),
	ROW(diff, ckpt_diff_options, CKPT_DIFF_OPTIONS_INIT),
	ROW(repair, ckpt_repair_options, CKPT_REPAIR_OPTIONS_INIT),
	ROW(verify, ckpt_verify_options, CKPT_VERIFY_OPTIONS_INIT),
	ROW(scan, ckpt_scan_options, CKPT_SCAN_OPTIONS_INIT),
	ROW(why, ckpt_why_options, CKPT_WHY_OPTIONS_INIT),
	ROW(stat_new, ckpt_stat_options, CKPT_STAT_OPTIONS_INIT),
	ROW(broadcast, ckpt_broadcast_options, CKPT_BROADCAST_OPTIONS_INIT),
	ROW(evict, ckpt_evict_options, CKPT_EVICT_OPTIONS_INIT),
	ROW(open_reader, ckpt_reader_options, CKPT_READER_OPTIONS_INIT),
	ROW(build_tensor, ckpt_tensor_view, CKPT_TENSOR_VIEW_INIT),
	ROW(storages_read, ckpt_storage_read_options, CKPT_STORAGE_READ_OPTIONS_INIT),
};

static const struct row reports[] = {
	ROW(strip_prefix, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(strip_wrappers, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(add_prefix, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(rename_keys, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(rename_map, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(number_keys, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(remap, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(extract, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(take_weights, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(select_all, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(cast, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(average, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(compact, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(sanitize, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(set, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(save, ckpt_save_report, CKPT_SAVE_REPORT_INIT),
	ROW(save_in_place, ckpt_save_report, CKPT_SAVE_REPORT_INIT),
	ROW(save_npy, ckpt_save_report, CKPT_SAVE_REPORT_INIT),
	ROW(reindex, ckpt_reindex_report, CKPT_REINDEX_REPORT_INIT),
	ROW(cast_losses, ckpt_cast_report, CKPT_CAST_REPORT_INIT),
	ROW(diff, ckpt_diff_report, CKPT_DIFF_REPORT_INIT),
	ROW(repair, ckpt_repair_report, CKPT_REPAIR_REPORT_INIT),
	ROW(verify, ckpt_verify_report, CKPT_VERIFY_REPORT_INIT),
	ROW(scan, ckpt_scan_report, CKPT_SCAN_REPORT_INIT),
	ROW(why, ckpt_why_report, CKPT_WHY_REPORT_INIT),
	ROW(broadcast, ckpt_broadcast_report, CKPT_BROADCAST_REPORT_INIT),
	ROW(evict, ckpt_evict_report, CKPT_EVICT_REPORT_INIT),
	ROW(count_prefix, ckpt_prefix_count, CKPT_PREFIX_COUNT_INIT),
	ROW(tensor_get, ckpt_tensor_info, CKPT_TENSOR_INFO_INIT),
	ROW(quant_get, ckpt_quant_weight_info, CKPT_QUANT_WEIGHT_INFO_INIT),
	ROW(dequantize, ckpt_edit_report, CKPT_EDIT_REPORT_INIT),
	ROW(file_get, ckpt_file_info, CKPT_FILE_INFO_INIT),
	ROW(array_get, ckpt_array_info, CKPT_ARRAY_INFO_INIT),
	ROW(stat_get_item, ckpt_stat_item, CKPT_STAT_ITEM_INIT),
	ROW(stat_get_values, ckpt_stat_values, CKPT_STAT_VALUES_INIT),
	ROW(stat_total_get, ckpt_stat_total, CKPT_STAT_TOTAL_INIT),
	ROW(stat_group_get, ckpt_stat_group, CKPT_STAT_GROUP_INIT),
	ROW(stat_total_get_values, ckpt_stat_values, CKPT_STAT_VALUES_INIT),
	ROW(parts_get, ckpt_part_size, CKPT_PART_SIZE_INIT),
	ROW(part_place_get, ckpt_part_place, CKPT_PART_PLACE_INIT),
	ROW(extra_get, ckpt_extra, CKPT_EXTRA_INIT),
	ROW(gpu_file_get, ckpt_gpu_file, CKPT_GPU_FILE_INIT),
	ROW(node_get, ckpt_node_info, CKPT_NODE_INFO_INIT),
	ROW(node_rebuild, ckpt_node_rebuild, CKPT_NODE_REBUILD_INIT),
	ROW(storage_get, ckpt_storage_info, CKPT_STORAGE_INFO_INIT),
};

enum { MORE = 24, MOST = 4096 };

/* A struct of SIZE bytes: what ROW begins with, and FILL behind that. */
static void *make(const struct row *row, size_t size, int fill)
{
	static _Alignas(max_align_t) uint8_t bytes[2 * MOST];

	memset(bytes, fill, sizeof(bytes));
	memcpy(bytes, row->init, row->size < size || size < sizeof(size) ? row->size : size);
	memcpy(bytes, &size, sizeof(size));
	return bytes;
}

static void check(const struct row *row, const char *what, int rc, int want)
{
	if (rc != want)
		fail_msg("%s, %s: %d, %s", row->name, what, rc, unit_message(&err));
}

static void check_wrong_sizes(const struct row *row, bool is_report)
{
	static const size_t wrong[] = { 0, 1, sizeof(size_t) - 1, MOST + 1, SIZE_MAX };

	for (size_t i = 0; i < COUNT(wrong); i++) {
		void *given = make(row, wrong[i], 0);

		check(row, "a wrong size", is_report ? row->call(NULL, given) : row->call(given, NULL),
		      CKPT_E_ARG);
	}
}

static void options_of_other_versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(options); i++) {
		const struct row *row = &options[i];
		uint8_t *given;

		check(row, "none", row->call(NULL, NULL), 0);
		check(row, "of now", row->call(make(row, row->size, 0), NULL), 0);
		check(row, "older", row->call(make(row, sizeof(size_t), 0xA5), NULL), 0);
		check(row, "newer", row->call(make(row, row->size + MORE, 0), NULL), 0);
		check(row, "much newer", row->call(make(row, MOST, 0), NULL), 0);
		for (size_t at = row->size; at < row->size + MORE; at++) {
			given = make(row, row->size + MORE, 0);
			given[at] = 1;
			check(row, "with more", row->call(given, NULL), CKPT_E_ARG);
			assert_non_null(strstr(unit_text(&err), "that this version does not know"));
		}
		check_wrong_sizes(row, false);
	}
}

static void reports_of_other_versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(reports); i++) {
		const struct row *row = &reports[i];
		uint8_t *given;
		size_t size;

		for (size = sizeof(size); size <= MOST; size = size == MOST ? MOST + 1 : 2 * size) {
			size_t found;

			given = make(row, size, 0xA5);
			check(row, "another size", row->call(NULL, given), 0);
			memcpy(&found, given, sizeof(found));
			assert_int_equal(found, size);
			for (size_t at = row->size; at < size; at++)
				if (given[at])
					fail_msg("%s of %zu bytes: %#x at %zu", row->name, size, given[at], at);
			for (size_t at = size; at < size + MORE; at++)
				if (given[at] != 0xA5)
					fail_msg("%s of %zu bytes: written to %zu", row->name, size, at);
		}
		check_wrong_sizes(row, true);
	}
}

static void unused_bytes_have_to_be_0(void **state)
{
	struct ckpt_key_options of_keys = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_remap_options of_remap = CKPT_REMAP_OPTIONS_INIT;
	struct ckpt_cast_options of_cast = CKPT_CAST_OPTIONS_INIT;
	struct ckpt_reindex_options of_reindex = CKPT_REINDEX_OPTIONS_INIT;
	struct ckpt_repair_options of_repair = CKPT_REPAIR_OPTIONS_INIT;

	(void)state;
	of_keys.reserved = of_remap.reserved = of_cast.reserved = 1;
	assert_int_equal(strip_prefix(&of_keys, NULL), CKPT_E_ARG);
	assert_int_equal(rename_keys(&of_keys, NULL), CKPT_E_ARG);
	assert_int_equal(remap(&of_remap, NULL), CKPT_E_ARG);
	assert_int_equal(cast(&of_cast, NULL), CKPT_E_ARG);
	of_reindex.reserved[6] = 1;
	assert_int_equal(reindex(&of_reindex, NULL), CKPT_E_ARG);
	of_repair.reserved = 1;
	assert_int_equal(repair(&of_repair, NULL), CKPT_E_ARG);
}

/* ---- flags ---- */

#define FLAGS(type, call, known, init) \
	static int type##_##call(unsigned flags) \
	{ \
		struct type o = init; \
\
		o.flags = flags; \
		return call(&o, NULL); \
	}
#define SAVE_FLAGS (CKPT_SAVE_REPLACE | CKPT_SAVE_NO_SYNC | CKPT_SAVE_CANONICAL | CKPT_SAVE_DRY_RUN | \
		    CKPT_SAVE_HARD_LINK | CKPT_SAVE_DROP_OTHERS | CKPT_SAVE_CHECK_CASTS)
#define KEY_FLAGS (CKPT_KEY_ANYWHERE | CKPT_KEY_SKIP_ABSENT)
#define ALL_FLAGS(X) \
	X(ckpt_save_options, save, SAVE_FLAGS | CKPT_SAVE_TO_FD | CKPT_SAVE_IN_FOLDER, CKPT_SAVE_OPTIONS_INIT) \
	X(ckpt_save_options, save_in_place, \
	  CKPT_SAVE_DRY_RUN | CKPT_SAVE_REPLACE | CKPT_SAVE_FREE | CKPT_SAVE_CHECK_CASTS, \
	  CKPT_SAVE_OPTIONS_INIT) \
	X(ckpt_save_options, save_npy, SAVE_FLAGS, CKPT_SAVE_OPTIONS_INIT) \
	X(ckpt_reindex_options, reindex, SAVE_FLAGS, CKPT_REINDEX_OPTIONS_INIT) \
	X(ckpt_diff_options, diff, \
	  CKPT_DIFF_QUICK | CKPT_DIFF_READ | CKPT_DIFF_STRICT | CKPT_DIFF_IGNORE_DEVICE | \
		  CKPT_DIFF_IGNORE_DTYPE | CKPT_DIFF_TRUST_CHECKSUMS, \
	  CKPT_DIFF_OPTIONS_INIT) \
	X(ckpt_repair_options, repair, CKPT_REPAIR_PROVEN_ONLY, CKPT_REPAIR_OPTIONS_INIT) \
	X(ckpt_verify_options, verify, CKPT_VERIFY_QUICK | CKPT_VERIFY_FINITE | CKPT_VERIFY_REQUIRE_CHECKSUMS, CKPT_VERIFY_OPTIONS_INIT) \
	X(ckpt_key_options, strip_prefix, KEY_FLAGS, CKPT_KEY_OPTIONS_INIT) \
	X(ckpt_key_options, add_prefix, KEY_FLAGS, CKPT_KEY_OPTIONS_INIT) \
	X(ckpt_key_options, rename_keys, KEY_FLAGS, CKPT_KEY_OPTIONS_INIT) \
	X(ckpt_key_options, rename_map, KEY_FLAGS, CKPT_KEY_OPTIONS_INIT) \
	X(ckpt_remap_options, remap, CKPT_REMAP_DEVICE_OBJECTS | CKPT_REMAP_ANY_DEVICE, \
	  CKPT_REMAP_OPTIONS_INIT) \
	X(ckpt_cast_options, cast, CKPT_CAST_TO_INTEGER | CKPT_CAST_ALL, CKPT_CAST_OPTIONS_INIT) \
	X(ckpt_average_options, average, CKPT_AVERAGE_OTHERS_LAST | CKPT_AVERAGE_EMA, CKPT_AVERAGE_OPTIONS_INIT) \
	X(ckpt_quant_options, dequantize, 0, CKPT_QUANT_OPTIONS_INIT) \
	X(ckpt_scan_options, scan, 0, CKPT_SCAN_OPTIONS_INIT) \
	X(ckpt_why_options, why, 0, CKPT_WHY_OPTIONS_INIT) \
	X(ckpt_broadcast_options, broadcast, \
	  CKPT_BROADCAST_NO_SYNC | CKPT_BROADCAST_NO_VERIFY | CKPT_BROADCAST_NO_TARGET | \
		  CKPT_BROADCAST_REPLACE | CKPT_BROADCAST_NEW | CKPT_BROADCAST_MAY_EXIT | \
		  CKPT_BROADCAST_TO_GPU | CKPT_BROADCAST_REREAD | CKPT_BROADCAST_MKDIR | \
		  CKPT_BROADCAST_KEEP_GOING | CKPT_BROADCAST_ALL_OR_NONE | \
		  CKPT_BROADCAST_DIRECT | CKPT_BROADCAST_CACHED, \
	  CKPT_BROADCAST_OPTIONS_INIT) \
	X(ckpt_evict_options, evict, CKPT_EVICT_DRY_RUN, CKPT_EVICT_OPTIONS_INIT)

ALL_FLAGS(FLAGS)

static int open_with(unsigned flags)
{
	struct ckpt_model *made = NULL;
	int rc = ckpt_open_with(in, flags, &made, &err);

	return drop(rc, made);
}

static int array_find(unsigned flags)
{
	struct ckpt_array *made = NULL;
	int rc = ckpt_array_find(model, "module.a", flags, &made, &err);

	ckpt_array_close(made);
	return rc;
}

static int node_array(unsigned flags)
{
	const struct ckpt_node *node;
	struct ckpt_array *made = NULL;
	int rc = ckpt_node_find(model, "module.a", &node, &err);

	if (rc == 0)
		rc = ckpt_node_array(model, node, "a", flags, &made, &err);
	ckpt_array_close(made);
	return rc;
}

static int array_open(unsigned flags)
{
	struct ckpt_array *made = NULL;
	int rc = ckpt_array_open(model, 0, flags, &made, &err);

	ckpt_array_close(made);
	return rc;
}

static const struct {
	const char *name;
	int (*call)(unsigned flags);
	unsigned known;
} with_flags[] = {
#define FLAGS_ROW(type, call, known, init) { #type " of " #call, type##_##call, known },
	ALL_FLAGS(FLAGS_ROW)
	{ "ckpt_open_with", open_with, CKPT_OPEN_BRIEF },
	{ "ckpt_set", set_flags, CKPT_SET_JSON },
	{ "ckpt_node_array", node_array, CKPT_ARRAY_FOR_NUMPY },
	{ "ckpt_array_find", array_find, CKPT_ARRAY_FOR_NUMPY },
	{ "ckpt_array_open", array_open, CKPT_ARRAY_FOR_NUMPY },
};

static void flags_that_are_not_known_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(with_flags); i++)
		for (unsigned bit = 0; bit < 32; bit++) {
			unsigned flag = 1u << bit, known = with_flags[i].known;
			int rc = with_flags[i].call(flag);
			bool refused = rc == CKPT_E_ARG && strstr(unit_text(&err), "not known");

			/* in place has a message of its own */
			refused |= rc == CKPT_E_ARG && strstr(unit_text(&err), "always synced");
			if (refused == ((known & flag) != 0))
				fail_msg("%s, bit %u: %d", with_flags[i].name, bit, rc);
		}
}

/* ---- the flag that cancels ---- */

#define IS_CANCEL(type) _Generic(((struct type *)0)->cancel, const volatile int *: true)

static void every_cancel_flag_is_an_int(void **state)
{
	(void)state;
	assert_true(IS_CANCEL(ckpt_save_options) && IS_CANCEL(ckpt_verify_options) &&
		    IS_CANCEL(ckpt_diff_options) && IS_CANCEL(ckpt_stat_options) &&
		    IS_CANCEL(ckpt_scan_options) && IS_CANCEL(ckpt_repair_options) &&
		    IS_CANCEL(ckpt_broadcast_options) && IS_CANCEL(ckpt_average_options));
}

UNIT_SUITE(test_abi)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_of_other_versions),
		cmocka_unit_test(reports_of_other_versions),
		cmocka_unit_test(unused_bytes_have_to_be_0),
		cmocka_unit_test(flags_that_are_not_known_are_refused),
		cmocka_unit_test(every_cancel_flag_is_an_int),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
