/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Files up to this size are really written, larger ones only in a dry run. */
enum { MOST_WRITTEN = 64 * 1024, MOST_VISITS = 20000 };

void fuzz_check_error(int rc, const struct ckpt_error *err)
{
	char text[2048];

	REQUIRE(rc == err->status);
	REQUIRE(rc <= 0 && rc >= CKPT_E_DAMAGED);
	if (rc == 0)
		return;
	REQUIRE(err->text[0]);
	REQUIRE(memchr(err->text, '\0', sizeof(err->text)));
	REQUIRE(memchr(err->path, '\0', sizeof(err->path)));
	REQUIRE(memchr(err->record, '\0', sizeof(err->record)));
	ckpt_error_format(err, text, sizeof(text));
	for (const char *p = text; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7F);
}

static void check_tensor(const struct ckpt_tensor_info *t)
{
	uint64_t numel = 1, strides = 0;
	bool overflow = false;

	REQUIRE(t->name && t->dtype && t->device && t->layout);
	for (uint32_t i = 0; t->stride && i < t->ndim; i++)
		strides |= t->stride[i];
	REQUIRE(strides != UINT64_MAX); /* is negative for no tensor, and all of it was read */
	if (!strcmp(t->layout, "uninitialized"))
		return;
	for (uint32_t i = 0; i < t->ndim; i++)
		overflow |= __builtin_mul_overflow(numel, t->shape[i], &numel);
	for (uint32_t i = 0; i < t->ndim; i++)
		if (!t->shape[i])
			return;
	REQUIRE(t->numel == (overflow ? UINT64_MAX : numel));
}

static int visit_record(void *ctx, const struct ckpt_record *record)
{
	(void)ctx;
	REQUIRE(record->name && record->kind <= CKPT_RECORD_OTHER);
	return 0;
}

static int visit_wrapper(void *ctx, const struct ckpt_wrapper_count *count)
{
	(void)ctx;
	REQUIRE(count->first + count->inside && count->first + count->inside <= count->keys);
	return 0;
}

static void list(const struct ckpt_model *model)
{
	struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
	struct ckpt_file_info file = CKPT_FILE_INFO_INIT;
	struct ckpt_parts *parts;
	struct ckpt_prefix_count prefix = CKPT_PREFIX_COUNT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t count = ckpt_tensor_count(model);

	for (uint64_t i = 0; i < count; i++) {
		REQUIRE(ckpt_tensor_get(model, i, &info) == 0);
		check_tensor(&info);
		REQUIRE(info.storage < (int64_t)ckpt_storage_count(model));
	}
	REQUIRE(ckpt_tensor_get(model, count, &info) == CKPT_E_ARG);
	REQUIRE(ckpt_file_get(model, &file) == 0 && file.format && file.writer && file.profile);
	ckpt_storage_bytes(model);
	REQUIRE(ckpt_each_record(model, visit_record, NULL, &err) == 0);
	fuzz_check_error(ckpt_count_prefix(model, "module.", &prefix, &err), &err);
	fuzz_check_error(ckpt_parts_new(model, &parts, &err), &err);
	ckpt_parts_free(parts);
	REQUIRE(prefix.with_prefix <= prefix.keys);
	fuzz_check_error(ckpt_count_wrappers(model, NULL, visit_wrapper, NULL, &err), &err);
}

static int visit(void *ctx, const struct ckpt_item *item)
{
	unsigned *left = ctx;

	REQUIRE(item->name && item->type && item->text);
	for (const char *p = item->text; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20);
	if (!(*left)--)
		return CKPT_E_CANCELLED;
	return item->kind == CKPT_ITEM_CONTAINER && !item->seen;
}

static void walk(const struct ckpt_model *model)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	unsigned left = MOST_VISITS;
	int rc = ckpt_walk(model, visit, &left, &err);

	if (rc != CKPT_E_CANCELLED)
		fuzz_check_error(rc, &err);
}

/* ---- saving ---- */

static const char *output_path(void)
{
	static char path[512];
	const char *dir = getenv("TMPDIR");

	if (!path[0])
		snprintf(path, sizeof(path), "%s/ckpt-fuzz-%ld.pt", dir && *dir ? dir : "/tmp",
			 (long)getpid());
	return path;
}

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes;
	long len;

	REQUIRE(file && fseek(file, 0, SEEK_END) == 0);
	len = ftell(file);
	rewind(file);
	bytes = malloc((size_t)len + 1);
	REQUIRE(bytes && fread(bytes, 1, (size_t)len, file) == (size_t)len);
	fclose(file);
	*size = (size_t)len;
	return bytes;
}

static int save(const struct ckpt_model *model, const char *profile, unsigned flags)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	options.format = "torch";
	options.profile = profile;
	options.flags = flags | CKPT_SAVE_REPLACE | CKPT_SAVE_NO_SYNC;
	rc = ckpt_save(model, output_path(), &options, &report, &err);
	fuzz_check_error(rc, &err);
	return rc;
}

/*
 * What was written must open, hold all the tensors, and be fit to be written again. It may hold more:
 * objects that share the dict of their attributes in the pickle get one each, as they do in Python.
 */
static void save_and_open(const struct ckpt_model *model, const char *profile, unsigned flags)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *again;
	uint8_t *bytes;
	size_t size;
	int rc = save(model, profile, flags);

	if (rc < 0) {
		REQUIRE(access(output_path(), F_OK) < 0 && errno == ENOENT);
		return;
	}
	bytes = read_file(output_path(), &size);
	unlink(output_path());
	rc = ckpt_open_memory(bytes, size, &again, &err);
	if (rc < 0)
		fprintf(stderr, "%s\n", err.text);
	REQUIRE(rc == 0);
	REQUIRE(ckpt_tensor_count(again) >= ckpt_tensor_count(model));
	REQUIRE(save(again, profile, flags | CKPT_SAVE_DRY_RUN) == 0);
	ckpt_close(again);
	free(bytes);
}

static void count_unfit(void *ctx, const char *name, const char *why)
{
	REQUIRE(name && *why);
	++*(uint64_t *)ctx;
}

/* How many bytes there would be, or are. */
static uint64_t save_for_numpy(const struct ckpt_model *model, const char *format, unsigned flags)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t unfit = 0;
	int rc;

	options.format = format;
	options.flags = flags | CKPT_SAVE_NO_SYNC | CKPT_SAVE_DROP_OTHERS;
	options.unfit = count_unfit;
	options.unfit_ctx = &unfit;
	rc = ckpt_save(model, output_path(), &options, &report, &err);
	fuzz_check_error(rc, &err);
	REQUIRE(rc < 0 || (report.arrays && report.others == unfit));
	REQUIRE((rc == 0 && !(flags & CKPT_SAVE_DRY_RUN)) == (access(output_path(), F_OK) == 0));
	unlink(output_path());
	return rc < 0 ? UINT64_MAX : report.nbytes;
}

static void save_all(const struct ckpt_model *model, bool really)
{
	static const char *const profiles[] = { NULL, "1.6", "1.9", "1.13", "2.6", "2.14" };

	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
		save(model, profiles[i], CKPT_SAVE_DRY_RUN | (i % 2 ? CKPT_SAVE_CANONICAL : 0));
	save_for_numpy(model, "npy", CKPT_SAVE_DRY_RUN);
	/* a view may show a few bytes terabytes of times */
	if (save_for_numpy(model, "npz", CKPT_SAVE_DRY_RUN) < 1 << 20 && really)
		save_for_numpy(model, "npz", 0);
	if (!really)
		return;
	save_and_open(model, NULL, 0);
	save_and_open(model, "2.14", CKPT_SAVE_CANONICAL);
}

/* ---- edits ---- */

static void finish_edit(int rc, struct ckpt_model *edited, const struct ckpt_edit_report *report,
			const struct ckpt_error *err)
{
	fuzz_check_error(rc, err);
	REQUIRE((rc == 0) == (edited != NULL));
	if (!edited)
		return;
	for (size_t i = 0; i < report->place_count; i++)
		REQUIRE(report->places[i].name && report->places[i].renamed);
	list(edited);
	walk(edited);
	save(edited, NULL, CKPT_SAVE_DRY_RUN);
	ckpt_close(edited);
}

/* The first tensor's name is a key in most files, and in some it is none. */
static void rename_first(const struct ckpt_model *model)
{
	struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

	if (ckpt_tensor_get(model, 0, &t) < 0)
		return;
	for (unsigned flags = 0; flags <= CKPT_KEY_SKIP_ABSENT; flags += CKPT_KEY_SKIP_ABSENT) {
		struct ckpt_name_pair pairs[] = { { t.name, "a.b.c", 0 }, { "b", "c.d", 0 } };
		struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
		struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_model *edited;
		int rc;

		options.flags = flags;
		rc = ckpt_rename_map(model, pairs, flags ? 2 : 1, &options, &edited, &report, &err);
		for (size_t i = 0; edited && i < report.unused_count; i++)
			REQUIRE(report.unused[i]);
		finish_edit(rc, edited, &report, &err);
	}
}

/* The first value that is no tensor and in no container. */
static int note_value(void *ctx, const struct ckpt_item *item)
{
	char *name = ctx;

	if (item->kind != CKPT_ITEM_VALUE || strlen(item->name) >= 200)
		return item->kind == CKPT_ITEM_CONTAINER && !item->seen;
	strcpy(name, item->name);
	return CKPT_E_CANCELLED;
}

static void set_first(const struct ckpt_model *model)
{
	static const char *const texts[] = { "7", "\"a\"", "null", "0.5" };
	char name[200] = "";

	ckpt_walk(model, note_value, name, NULL);
	for (size_t i = 0; i < 2 * sizeof(texts) / sizeof(texts[0]); i++) {
		struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_model *edited;
		int rc = ckpt_set(model, name, texts[i / 2], i % 2 ? CKPT_SET_JSON : 0, &edited, &report,
				  &err);

		for (size_t k = 0; edited && k < report.change_count; k++)
			REQUIRE(report.changes[k].was && report.changes[k].is);
		finish_edit(rc, edited, &report, &err);
	}
}

static void edit(const struct ckpt_model *model)
{
	static const char *const expressions[] = { "s/^(\\w+)\\.(.*)/\\2.\\1/", "s,a,bb,g" };
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;

	for (int anywhere = 0; anywhere < 2; anywhere++) {
		struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_model *edited;
		int rc;

		options.flags = anywhere ? CKPT_KEY_ANYWHERE : 0;
		rc = ckpt_strip_prefix(model, "module.", &options, &edited, &report, &err);
		finish_edit(rc, edited, &report, &err);
	}
	for (int how = 0; how < 3; how++) {
		struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_model *edited;
		int rc = how == 2 ? ckpt_strip_wrappers(model, NULL, &edited, &report, &err)
			 : how    ? ckpt_add_prefix(model, "module.", NULL, &edited, &report, &err)
				  : ckpt_rename(model, expressions, 2, NULL, &edited, &report, &err);

		finish_edit(rc, edited, &report, &err);
	}
	rename_first(model);
	set_first(model);
}

/* Of the only module, or of the one called AT. */
static int state_dict(const struct ckpt_model *model, const char *at,
		      struct ckpt_model **out, struct ckpt_edit_report *report,
		      struct ckpt_error *err)
{
	struct ckpt_take_options options = CKPT_TAKE_OPTIONS_INIT;
	int rc;

	options.at = at;
	rc = ckpt_state_dict(model, &options, out, report, err);
	if (rc == 0)
		save_and_open(*out, "2.14", CKPT_SAVE_CANONICAL);
	return rc;
}

static void edit_more(const struct ckpt_model *model)
{
	static const struct ckpt_device_map maps[] = { { "cuda:0", "cpu" },
						       { "cpu", "cuda:1" },
						       { "c*", "mps" } };
	static const char *const keep[] = { "*a*", "re:[0-9]" }, *const drop[] = { "*b*", "0" };
	static const char *const dtypes[] = { "bfloat16", "float8_e4m3fn", "float64" };
	static const char *const names[] = { "a", "model", "0", "module.a", "[\"a\"]" };
	struct ckpt_remap_options options = CKPT_REMAP_OPTIONS_INIT;

	options.flags = CKPT_REMAP_DEVICE_OBJECTS;
	for (int how = 0; how < 15; how++) {
		struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_model *edited;
		int rc;

		if (how == 0)
			rc = ckpt_remap(model, maps, 3, &options, &edited, &report, &err);
		else if (how < 3)
			rc = ckpt_select(model, keep, how == 1 ? 2 : 0, drop, 2, &edited, &report,
					 &err);
		else if (how < 6)
			rc = ckpt_cast(model, dtypes[how - 3], NULL, &edited, &report, &err);
		else if (how == 6)
			rc = ckpt_compact(model, &edited, &report, &err);
		else if (how == 7)
			rc = ckpt_sanitize(model, &edited, &report, &err);
		else if (how < 13)
			rc = ckpt_extract(model, names[how - 8], &edited, &report, &err);
		else
			rc = state_dict(model, how == 13 ? NULL : names[0], &edited, &report, &err);
		finish_edit(rc, edited, &report, &err);
	}
}

/* What the last edit of a chain shows lives in the models before it. */
static void edit_in_a_chain(const struct ckpt_model *model, bool really)
{
	static const struct ckpt_device_map all = { NULL, "cuda:3" };
	struct ckpt_model *stripped = NULL, *compact = NULL, *cast = NULL, *moved = NULL;

	if (ckpt_strip_prefix(model, "module.", NULL, &stripped, NULL, NULL) == 0 &&
	    ckpt_compact(stripped, &compact, NULL, NULL) == 0 &&
	    ckpt_cast(compact, "float16", NULL, &cast, NULL, NULL) == 0)
		ckpt_remap(cast, &all, 1, NULL, &moved, NULL, NULL);
	ckpt_close(stripped);
	ckpt_close(compact);
	ckpt_close(cast);
	if (!moved)
		return;
	list(moved);
	walk(moved);
	if (really)
		save_and_open(moved, NULL, 0);
	ckpt_close(moved);
}

void fuzz_exercise_model(const struct ckpt_model *model, bool really)
{
	list(model);
	walk(model);
	fuzz_read_arrays(model);
	fuzz_walk_nodes(model);
	edit(model);
	edit_more(model);
	edit_in_a_chain(model, really);
	save_all(model, really);
}

void fuzz_exercise_file(const uint8_t *data, size_t size)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	int rc = ckpt_open_memory(data, size, &model, &err);

	fuzz_check_error(rc, &err);
	REQUIRE((rc == 0) == (model != NULL));
	if (!model)
		return;
	fuzz_exercise_model(model, size <= MOST_WRITTEN);
	ckpt_close(model);
}
