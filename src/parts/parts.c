/* SPDX-License-Identifier: Apache-2.0 */
#include "parts/parts.h"

#include "base/error.h"
#include "base/sized.h"

#include <stdlib.h>

static const uint64_t BUDGET_BASE = 64 << 20;

static int find_out(struct ckpt_parts *p, struct ckpt_error *err)
{
	int rc = ckpt_list_tensors(p->model, err);
	uint64_t count = rc == 0 ? ckpt_tensor_count(p->model) : 0;

	if (rc < 0)
		return rc;
	p->tensors = calloc(count + 1, sizeof(*p->tensors));
	p->order = malloc((count + 1) * sizeof(*p->order));
	p->arena = ckpt_arena_new(BUDGET_BASE + 64 * (uint64_t)p->model->doc->pickle_len);
	if (!p->tensors || !p->order || !p->arena)
		return ckpt_fail_nomem(err);
	for (int i = 0; i < CKPT_PARTS; i++)
		p->sizes[i] = (struct ckpt_part_size)CKPT_PART_SIZE_INIT;
	rc = ckpt_parts_find_places(p, err);
	if (rc == 0)
		rc = ckpt_parts_find_shared(p, err);
	if (rc == 0)
		rc = ckpt_parts_tell(p, err);
	if (rc == 0)
		ckpt_parts_add_up(p);
	return rc == 0 ? ckpt_parts_list_extras(p, err) : rc;
}

int ckpt_parts_new(const struct ckpt_model *model, struct ckpt_parts **out, struct ckpt_error *err)
{
	struct ckpt_parts *p;
	int rc;

	*out = NULL;
	rc = ckpt_model_whole(&model, err);
	if (rc < 0)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p)
		return ckpt_fail_nomem(err);
	p->model = model;
	rc = find_out(p, err);
	if (rc < 0)
		ckpt_parts_free(p);
	else
		*out = p;
	return rc;
}

void ckpt_parts_free(struct ckpt_parts *p)
{
	if (!p)
		return;
	ckpt_strmap_clear(&p->by_name[0]);
	ckpt_strmap_clear(&p->by_name[1]);
	ckpt_arena_free(p->arena);
	free(p->tensors);
	free(p->order);
	free(p->places);
	free(p->shared);
	free(p->shown);
	free(p->extras);
	free(p);
}

enum ckpt_part ckpt_parts_of(const struct ckpt_parts *p, uint64_t i)
{
	return i < p->tensor_count ? (enum ckpt_part)p->tensors[i].part : CKPT_PART_OTHER;
}

uint64_t ckpt_parts_counted(const struct ckpt_parts *p, uint64_t i)
{
	return i < p->tensor_count ? p->tensors[i].counted : i;
}

unsigned ckpt_parts_told_by(const struct ckpt_parts *p)
{
	unsigned told_by = 0;

	for (uint32_t i = 0; i < p->place_count; i++)
		told_by |= p->places[i].told_by;
	return told_by;
}

int ckpt_parts_get(const struct ckpt_parts *p, enum ckpt_part part, struct ckpt_part_size *out)
{
	if ((unsigned)part >= CKPT_PARTS || ckpt_sized_check(out, sizeof(*out), NULL) < 0)
		return CKPT_E_ARG;
	ckpt_sized_give(out, &p->sizes[part], sizeof(*out));
	return 0;
}

uint64_t ckpt_part_place_count(const struct ckpt_parts *p)
{
	return p->shown_count;
}

int ckpt_part_place_get(const struct ckpt_parts *p, uint64_t i, struct ckpt_part_place *out)
{
	struct ckpt_part_place given = CKPT_PART_PLACE_INIT;
	const struct ckpt_parts_place *place;

	if (i >= p->shown_count || ckpt_sized_check(out, sizeof(given), NULL) < 0)
		return CKPT_E_ARG;
	place = &p->places[p->shown[i]];
	given.name = place->name;
	given.same_as = place->same_as < 0 ? NULL : p->places[place->same_as].name;
	given.part = place->part;
	given.told_by = place->told_by;
	given.tensors = place->tensors;
	given.elements = place->elements;
	given.nbytes = place->nbytes;
	ckpt_sized_give(out, &given, sizeof(given));
	return 0;
}

uint64_t ckpt_extra_count(const struct ckpt_parts *p)
{
	return p->extra_count;
}

int ckpt_extra_get(const struct ckpt_parts *p, uint64_t i, struct ckpt_extra *out)
{
	if (i >= p->extra_count || ckpt_sized_check(out, sizeof(*out), NULL) < 0)
		return CKPT_E_ARG;
	ckpt_sized_give(out, &p->extras[i], sizeof(*out));
	return 0;
}
