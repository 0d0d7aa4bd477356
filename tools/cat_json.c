/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The --json document of 'ckpt cat', and cat_read_numbers(), which it shares with the text.
 *
 * What must stay true: a long array without --all has only its edges read, so that a tensor of
 * many gigabytes is shown at once; and no more than MOST_PRINTED bytes of numbers are ever in
 * memory. Both sizes are known before anything is allocated.
 */
#include "cat.h"
#include "json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PRINTED = 1 << 30 }; /* bytes of numbers */

static int too_much(void)
{
	complain("that are more than %d bytes of numbers to be printed", MOST_PRINTED);
	hint("-o FILE.npy writes them to a file");
	return CKPT_E_LIMIT;
}

int cat_read_numbers(const struct ckpt_array *array, bool all, struct cat_numbers *n,
		     struct ckpt_error *err)
{
	uint64_t nbytes = n->info.nbytes;
	bool cut = !all && n->info.numel > ARRAY_THRESHOLD;
	int rc;

	if (n->info.ndim > ARRAY_MOST_DIMS)
		return too_much();
	if (cut) {
		rc = ckpt_array_read_edges(array, ARRAY_EDGE, n->shown, NULL, err);
		if (rc < 0)
			return rc;
		nbytes = n->info.itemsize;
		for (uint32_t i = 0; i < n->info.ndim && nbytes <= MOST_PRINTED; i++)
			nbytes *= n->shown[i];
	} else {
		memcpy(n->shown, n->info.shape, n->info.ndim * sizeof(*n->shown));
	}
	if (nbytes > MOST_PRINTED)
		return too_much();
	n->bytes = malloc(nbytes + 1);
	if (!n->bytes) {
		complain("out of memory");
		return CKPT_E_NOMEM;
	}
	rc = cut ? ckpt_array_read_edges(array, ARRAY_EDGE, n->shown, n->bytes, err)
		 : ckpt_array_read(array, 0, n->info.numel, n->bytes, err);
	n->view = (struct array_view){ .dtype = n->info.reads,
				       .ndim = n->info.ndim,
				       .shape = n->info.shape,
				       .shown = n->shown,
				       .summarised = cut,
				       .bytes = n->bytes };
	return rc;
}

static void put_json(FILE *out, const char *key, json_t *value)
{
	fprintf(out, ",\"%s\":", key);
	json_put(out, value);
}

/* Bytes that are not UTF-8 become two members, as in json_set_name(). */
static void put_name(FILE *out, const char *key, const char *name)
{
	json_t *o = json_object();

	json_set_name(o, key, name);
	fputc(',', out);
	json_put_members(out, o);
}

static void put_about(FILE *out, const struct ckpt_array_info *info)
{
	put_json(out, "kind", json_string(info->kind));
	put_json(out, "dtype", json_string(info->dtype));
	put_json(out, "shape", json_dims(info->shape, info->ndim));
	put_json(out, "reads", json_string(info->reads));
	put_json(out, "layout", json_string(info->layout));
	put_name(out, "device", info->device);
	if (info->class_name)
		put_name(out, "class", info->class_name);
	if (info->wrapped)
		put_name(out, "wrapped", info->wrapped);
	if (!info->qscheme)
		return;
	put_json(out, "qscheme", json_string(info->qscheme));
	if (!strcmp(info->qscheme, "per_tensor_affine")) {
		char scale[40];

		fprintf(out, ",\"scale\":%s",
			number_text(scale, sizeof(scale), "%.17g", info->scale));
		put_json(out, "zero_point", json_integer(info->zero_point));
	} else {
		put_json(out, "axis", json_integer(info->axis));
	}
}

static int put_values(FILE *out, const struct ckpt_array *array, bool all, struct ckpt_error *err)
{
	struct cat_numbers n = { .info = CKPT_ARRAY_INFO_INIT };
	int rc;

	ckpt_array_get(array, &n.info);
	put_about(out, &n.info);
	rc = n.info.readable && (!n.info.parts[0] || n.info.qscheme)
		     ? cat_read_numbers(array, all, &n, err)
		     : 0;
	if (rc == 0 && n.bytes) {
		fprintf(out, ",\"all\":%s,\"values\":", n.view.summarised ? "false" : "true");
		rc = print_array_json(out, &n.view) ? 0 : CKPT_E_NOMEM;
	}
	free(n.bytes);
	return rc;
}

static int put_array(FILE *out, const struct ckpt_array *array, bool all, struct ckpt_error *err)
{
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	int rc = put_values(out, array, all, err);

	ckpt_array_get(array, &info);
	if (rc < 0 || !info.parts[0])
		return rc;
	fputs(",\"parts\":{", out);
	for (const char *const *name = info.parts; rc == 0 && *name; name++) {
		struct ckpt_array *piece;

		rc = ckpt_array_part(array, *name, &piece, err);
		if (rc < 0)
			break;
		fprintf(out, "%s\"%s\":{\"name\":\"%s\"", name == info.parts ? "" : ",", *name,
			*name);
		rc = put_values(out, piece, all, err);
		fputc('}', out);
		ckpt_array_close(piece);
	}
	fputc('}', out);
	return rc;
}

static int begin_json(const char *target, FILE **out, const char *name)
{
	*out = json_open(target);
	if (!*out)
		return CKPT_E_IO;
	fprintf(*out, "{\"ckpt_json\":%d,\"command\":\"cat\"", JSON_VERSION);
	put_name(*out, "name", name);
	return 0;
}

static int end_json(FILE *out, int rc)
{
	fputs("}\n", out);
	return json_close(out, rc == 0) != EXIT_FINE && rc == 0 ? CKPT_E_IO : rc;
}

int cat_array_json(const char *target, const char *name, const char *index,
		   const struct ckpt_array *array, bool all, struct ckpt_error *err)
{
	FILE *out;
	int rc = begin_json(target, &out, name);

	if (rc < 0)
		return rc;
	rc = put_array(out, array, all, err);
	if (index)
		put_name(out, "index", index);
	return end_json(out, rc);
}

static int json_item(void *ctx, const struct ckpt_item *item)
{
	bool is_container = item->kind == CKPT_ITEM_CONTAINER;
	FILE *out = ctx;

	put_json(out, "kind", json_string(is_container ? "container" : "value"));
	put_name(out, "type", item->type);
	if (is_container)
		put_json(out, "count", json_u64(item->count));
	else
		put_name(out, "value", item->text);
	return 0;
}

static int put_piece(void *ctx, const char *text)
{
	return fputs(text, ctx) < 0 ? CKPT_E_IO : 0;
}

int cat_other_json(const char *target, const char *name, const struct ckpt_model *model,
		   struct ckpt_error *err)
{
	FILE *out;
	int rc = begin_json(target, &out, name);

	if (rc < 0)
		return rc;
	rc = ckpt_find(model, name, json_item, out, err);
	if (rc == 0) {
		fputs(",\"content\":", out);
		rc = ckpt_show_json(model, name, put_piece, out, err);
	}
	return end_json(out, rc);
}
