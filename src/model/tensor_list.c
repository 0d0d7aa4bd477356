/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors of a model in the order of the file: a list that is made when somebody asks for it,
 * or a check that it could be made. Both see what the walk sees, under the names that it gives.
 *
 * What must stay true: the list and the map from values to it are caches under `listing`.
 */
#include "model/model.h"

#include "base/grow.h"
#include "base/text.h"
#include "model/walk.h"

#include <stdlib.h>
#include <string.h>

static struct ckpt_tensor *next_tensor(struct ckpt_model *m)
{
	struct ckpt_tensor *grown =
		ckpt_grow(m->tensors, m->tensor_count, &m->tensor_cap, sizeof(*grown));

	if (!grown)
		return NULL;
	m->tensors = grown;
	return &m->tensors[m->tensor_count];
}

/* The beginning of a name that is too long to be kept, as there may be very many below it. */
static const char *copy_shortened(struct ckpt_arena *arena, const char *name)
{
	enum { KEPT = 1000 };
	char text[KEPT + 4];
	size_t len = KEPT;

	while (len && ((uint8_t)name[len] & 0xC0) == 0x80)
		len--;
	memcpy(text, name, len);
	memcpy(text + len, "...", 3);
	return ckpt_arena_copy(arena, text, len + 3);
}

/* 1: the value of STEP is a tensor, T; its arrays are in ARENA. */
static int parse_tensor(const struct ckpt_model *m, const struct ckpt_walk_step *step,
			struct ckpt_arena *arena, struct ckpt_tensor *t, struct ckpt_error *err)
{
	char shown[120];
	int rc = ckpt_tensor_parse(m, step->value, arena, t, err);

	if (rc >= 0)
		return rc;
	if (m->doc->record_of)
		ckpt_error_at(err, rc, NULL, m->doc->record_of(step->name), CKPT_NO_OFFSET);
	return ckpt_error_prefix(err, rc, "tensor '%s': ",
				 ckpt_escape(shown, sizeof(shown), step->name, step->name_len));
}

static int add_tensor(struct ckpt_model *m, const struct ckpt_walk_step *step,
		      struct ckpt_error *err)
{
	struct ckpt_tensor *t = next_tensor(m);
	int rc = t ? parse_tensor(m, step, m->arena, t, err) : ckpt_fail_nomem(err);

	if (rc <= 0)
		return rc;
	t->name_is_cut = step->name_len > CKPT_MOST_TENSOR_NAME;
	t->name = t->name_is_cut ? copy_shortened(m->arena, step->name)
				 : ckpt_arena_copy(m->arena, step->name, step->name_len);
	if (!t->name)
		return ckpt_arena_fail(m->arena, err);
	t->value = step->value;
	m->tensor_count++;
	return 1;
}

static bool may_be_tensor(const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL || v->kind == CKPT_FOLDED;
}

static int list_if_tensor(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct ckpt_model *m = ctx;
	int rc = may_be_tensor(step->value) ? add_tensor(m, step, err) : 0;

	if (rc <= 0)
		return rc < 0 ? rc : CKPT_WALK_ENTER;
	return CKPT_WALK_SKIP;
}

int ckpt_model_list_tensors(struct ckpt_model *model, struct ckpt_error *err)
{
	int rc = ckpt_model_walk(model, list_if_tensor, model, err);

	model->listed = rc == 0;
	return rc;
}

struct checker {
	const struct ckpt_model *model;
	struct ckpt_arena *scratch;
};

static int check_if_tensor(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct checker *c = ctx;
	struct ckpt_arena_mark mark = ckpt_arena_mark(c->scratch);
	struct ckpt_tensor t;
	int rc = may_be_tensor(step->value) ? parse_tensor(c->model, step, c->scratch, &t, err) : 0;

	ckpt_arena_release(c->scratch, mark);
	if (rc <= 0)
		return rc < 0 ? rc : CKPT_WALK_ENTER;
	return CKPT_WALK_SKIP;
}

int ckpt_model_check_tensors(const struct ckpt_model *model, struct ckpt_error *err)
{
	struct checker c = { model, ckpt_arena_new(CKPT_MODEL_BUDGET_BASE) };
	int rc =
		c.scratch ? ckpt_model_walk(model, check_if_tensor, &c, err) : ckpt_fail_nomem(err);

	ckpt_arena_free(c.scratch);
	return rc;
}

bool ckpt_model_has_tensors(const struct ckpt_model *model)
{
	struct ckpt_model *m = (struct ckpt_model *)model; /* the list is a cache */
	bool listed;

	pthread_mutex_lock(&m->listing);
	if (!m->listed) {
		m->tensor_count = 0;
		ckpt_model_list_tensors(m, NULL);
	}
	listed = m->listed;
	pthread_mutex_unlock(&m->listing);
	return listed;
}

/* The first of each value's names. Under the lock. */
static int map_tensors(struct ckpt_model *m, struct ckpt_error *err)
{
	uint32_t *map = calloc((size_t)m->next_id + 1, sizeof(*map));

	if (!map)
		return ckpt_fail_nomem(err);
	for (uint32_t i = m->tensor_count; i-- > 0;)
		map[m->tensors[i].value->id] = i + 1;
	m->tensor_of_id = map;
	return 0;
}

int ckpt_model_tensor_of(const struct ckpt_model *model, const struct ckpt_value *v,
			 uint32_t *index, struct ckpt_error *err)
{
	struct ckpt_model *m = (struct ckpt_model *)model; /* the map is a cache */
	int rc = 0;

	if (!ckpt_model_has_tensors(model))
		return ckpt_fail_nomem(err);
	pthread_mutex_lock(&m->listing);
	if (!m->tensor_of_id)
		rc = map_tensors(m, err);
	pthread_mutex_unlock(&m->listing);
	if (rc < 0)
		return rc;
	*index = v->id <= m->next_id ? m->tensor_of_id[v->id] - 1 : UINT32_MAX;
	if (*index < m->tensor_count && m->tensors[*index].value == v)
		return 0;
	return ckpt_fail(err, CKPT_E_NOTFOUND, "is a tensor without a name");
}
