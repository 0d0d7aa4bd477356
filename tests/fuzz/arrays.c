/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <ckpt/ckpt.h>

#include <string.h>

/* The values of tensors and of numpy's arrays, as far as they are small. */

enum {
	MOST_READ = 1 << 20,
	MOST_ARRAYS = 40,
	MOST_NAMES = 10,
	MOST_NAME = 300,
	MOST_COUNTED = 1 << 22
};

static bool is_small(const struct ckpt_array *array)
{
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;

	REQUIRE(ckpt_array_get(array, &info) == 0);
	REQUIRE(info.kind && info.dtype && info.reads && info.layout && info.device);
	return info.nbytes <= MOST_READ;
}

static void read_edges(const struct ckpt_array *array, const struct ckpt_array_info *info)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t shape[64], nbytes = info->itemsize;
	uint8_t *buf;
	int rc = ckpt_array_read_edges(array, 3, shape, NULL, &err);

	fuzz_check_error(rc, &err);
	for (uint32_t i = 0; rc == 0 && i < info->ndim && nbytes <= MOST_READ; i++)
		nbytes *= shape[i];
	if (rc < 0 || nbytes > MOST_READ)
		return;
	buf = malloc(nbytes + 1);
	REQUIRE(buf);
	fuzz_check_error(ckpt_array_read_edges(array, 3, shape, buf, &err), &err);
	free(buf);
}

static void read_array(const struct ckpt_array *array, unsigned depth)
{
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	bool small = is_small(array);
	struct ckpt_array *part;
	uint8_t *buf;
	int rc;

	ckpt_array_get(array, &info);
	for (uint32_t i = 0; info.parts[i] && !depth; i++) {
		rc = ckpt_array_part(array, info.parts[i], &part, &err);
		fuzz_check_error(rc, &err);
		if (rc == 0) {
			small &= is_small(part);
			read_array(part, depth + 1);
		}
		ckpt_array_close(part);
		err = (struct ckpt_error)CKPT_ERROR_INIT;
		if (rc < 0)
			return;
	}
	if (strncmp(info.layout, "sparse", 6) != 0)
		read_edges(array, &info);
	if (!small)
		return;
	buf = malloc(info.nbytes + 1);
	REQUIRE(buf);
	fuzz_check_error(ckpt_array_read(array, 0, info.numel, buf, &err), &err);
	free(buf);
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	options.flags = CKPT_SAVE_DRY_RUN;
	fuzz_check_error(ckpt_array_save_npy(array, "/dev/shm/none.npy", &options, NULL, &err),
			 &err);
}

static void end_array(int rc, struct ckpt_array *array, const struct ckpt_error *err)
{
	static const char *const parts[] = { "..., ::-2", "1:, ..., -3:", "..., ::-1", "-1" };

	fuzz_check_error(rc, err);
	REQUIRE((rc == 0) == (array != NULL));
	for (size_t i = 0; array && i <= sizeof(parts) / sizeof(parts[0]); i++) {
		struct ckpt_error why = CKPT_ERROR_INIT;

		read_array(array, 0);
		if (i < sizeof(parts) / sizeof(parts[0]))
			fuzz_check_error(ckpt_array_slice(array, parts[i], &why), &why);
	}
	ckpt_array_close(array);
}

struct names {
	char text[MOST_NAMES][MOST_NAME];
	unsigned count, left;
};

static int note_name(void *ctx, const struct ckpt_item *item)
{
	struct names *n = ctx;

	if (n->count == MOST_NAMES || !n->left--)
		return CKPT_E_CANCELLED;
	if ((strstr(item->type, "numpy.") || !strcmp(item->type, "ndarray")) &&
	    strlen(item->name) < MOST_NAME)
		strcpy(n->text[n->count++], item->name);
	return item->kind == CKPT_ITEM_CONTAINER && !item->seen;
}

static int count_text(void *ctx, const char *text)
{
	size_t *left = ctx, len = strlen(text);

	for (const char *p = text; *p; p++)
		REQUIRE((unsigned char)*p >= 0x20);
	if (len > *left)
		return CKPT_E_CANCELLED;
	*left -= len;
	return 0;
}

/* Is all of it small? */
static bool can_be_counted(const struct ckpt_model *model)
{
	uint64_t left = MOST_COUNTED;

	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		ckpt_tensor_get(model, i, &info);
		if (info.nbytes > left)
			return false;
		left -= info.nbytes;
	}
	return true;
}

static void check_values(const struct ckpt_stat_values *v)
{
	uint64_t bins = 0, bad = v->nans + v->infinities;

	REQUIRE(bad <= v->count && v->zeros <= v->count - bad);
	REQUIRE(bad == v->count || (v->min <= v->max && v->std >= 0));
	for (uint32_t i = 0; i < v->bin_count; i++)
		bins += v->bins[i];
	REQUIRE(!v->bins || v->count == UINT64_MAX || bins == v->count - bad);
}

static void count_values(const struct ckpt_model *model)
{
	struct ckpt_stat_options options = CKPT_STAT_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_stat *stat;
	int rc;

	options.bins = 5;
	rc = ckpt_stat_new(model, &options, &stat, &err);
	fuzz_check_error(rc, &err);
	REQUIRE((rc == 0) == (stat != NULL));
	for (uint64_t i = 0; stat && i < ckpt_stat_count(stat); i++) {
		struct ckpt_stat_item item = CKPT_STAT_ITEM_INIT;
		struct ckpt_stat_values values = CKPT_STAT_VALUES_INIT;

		REQUIRE(ckpt_stat_get(stat, i, &item, &values) == 0);
		REQUIRE(item.name && item.kind && item.dtype && item.layout);
		REQUIRE(!item.why_not || !values.count);
		check_values(&values);
	}
	ckpt_stat_free(stat);
}

void fuzz_read_arrays(const struct ckpt_model *model)
{
	struct names names = { .left = 2000 };
	struct ckpt_array *array;
	size_t left = 1 << 20;

	for (uint64_t i = 0; i < 2 * ckpt_tensor_count(model) && i < MOST_ARRAYS; i++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		int rc = ckpt_array_open(model, i / 2, i % 2 ? CKPT_ARRAY_FOR_NUMPY : 0, &array,
					 &err);

		end_array(rc, array, &err);
	}
	if (can_be_counted(model))
		count_values(model);
	ckpt_walk(model, note_name, &names, NULL);
	for (unsigned i = 0; i < names.count; i++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		int rc = ckpt_array_find(model, names.text[i], CKPT_ARRAY_FOR_NUMPY, &array, &err);

		end_array(rc, array, &err);
	}
	ckpt_show(model, "", count_text, &left, NULL);
	left = 1 << 20;
	ckpt_show_json(model, "", count_text, &left, NULL);
}
