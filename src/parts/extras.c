/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/grow.h"
#include "parts/parts.h"

#include <stdlib.h>
#include <string.h>

/* What of the file is no parameters and no buffers, by what drops it. */

static int add_extra(struct ckpt_parts *p, struct ckpt_extra extra, struct ckpt_error *err)
{
	struct ckpt_extra *grown;

	if (!extra.nbytes)
		return 0;
	grown = ckpt_grow(p->extras, p->extra_count, &p->extra_cap, sizeof(*grown));
	if (!grown)
		return ckpt_fail_nomem(err);
	p->extras = grown;
	extra.size = sizeof(extra);
	p->extras[p->extra_count++] = extra;
	return 0;
}

static int add_places(struct ckpt_parts *p, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < p->place_count; i++) {
		const struct ckpt_parts_place *place = &p->places[i];
		struct ckpt_extra extra = {
			.tensors =
				place->tensors < UINT32_MAX ? (uint32_t)place->tensors : UINT32_MAX,
			.nbytes = place->nbytes,
			.place = place->name,
			.same_as = place->same_as < 0 ? NULL : p->places[place->same_as].name,
		};

		if (place->part == CKPT_PART_OPTIMIZER)
			extra.kind = CKPT_EXTRA_OPTIMIZER;
		else if (place->part == CKPT_PART_COPY)
			extra.kind = CKPT_EXTRA_COPY;
		else if (place->part == CKPT_PART_PARAMETER && extra.same_as)
			extra.kind = CKPT_EXTRA_TWIN;
		else
			continue;
		rc = add_extra(p, extra, err);
	}
	return rc;
}

static int add_record(void *ctx, const struct ckpt_record *record)
{
	uint64_t *nbytes = ctx;

	if (record->kind == CKPT_RECORD_STORAGE)
		*nbytes = ckpt_parts_add(*nbytes, record->nbytes);
	return 0;
}

/* What is in the file besides tensors; of an edited model that is not known. */
static int add_rest(struct ckpt_parts *p, struct ckpt_error *err)
{
	struct ckpt_file_info file = CKPT_FILE_INFO_INIT;
	uint64_t known = ckpt_storage_bytes(p->model), records = 0;
	struct ckpt_extra extra = { .kind = CKPT_EXTRA_DEAD };
	int rc = p->model->base ? 1 : ckpt_file_get(p->model, &file);

	if (rc)
		return rc < 0 ? rc : 0;
	extra.nbytes = file.dead_nbytes;
	rc = add_extra(p, extra, err);
	if (rc == 0 && file.unreferenced)
		rc = ckpt_each_record(p->model, add_record, &records, err);
	if (rc < 0)
		return rc;
	extra = (struct ckpt_extra){ .kind = CKPT_EXTRA_UNUSED,
				     .nbytes = records > known ? records - known : 0 };
	rc = add_extra(p, extra, err);
	known = ckpt_parts_add(known, extra.nbytes);
	known = ckpt_parts_add(known, ckpt_parts_add(file.pickle_nbytes, file.dead_nbytes));
	extra = (struct ckpt_extra){ .kind = CKPT_EXTRA_HEADERS,
				     .nbytes = file.file_nbytes > known ? file.file_nbytes - known
									: 0 };
	return rc == 0 ? add_extra(p, extra, err) : rc;
}

static int by_size(const void *a, const void *b)
{
	const struct ckpt_extra *x = a, *y = b;

	if (x->nbytes != y->nbytes)
		return x->nbytes < y->nbytes ? 1 : -1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->place && y->place ? strcmp(x->place, y->place) : 0;
}

int ckpt_parts_list_extras(struct ckpt_parts *p, struct ckpt_error *err)
{
	struct ckpt_extra unseen = { .kind = CKPT_EXTRA_UNSEEN,
				     .tensors = p->partial,
				     .nbytes = p->unseen,
				     .place = p->most_unseen ? p->model->tensors[p->most_unseen_at].name : NULL };
	int rc = add_extra(p, unseen, err);

	if (rc == 0)
		rc = add_places(p, err);
	if (rc == 0)
		rc = add_rest(p, err);
	if (rc == 0 && p->extra_count)
		qsort(p->extras, p->extra_count, sizeof(*p->extras), by_size);
	return rc;
}
