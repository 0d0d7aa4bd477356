/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which places hold models, which hold copies of these, and what in a model is a buffer.
 *
 * Parameters and buffers are told apart by the first of these that can: what a program says; Parameter
 * objects, of a module that was saved whole or of state_dict(keep_vars=True); the optimizer, which has a
 * state for each parameter, of its shape; names. The optimizer can only where it has all parameters: if
 * a "weight" or "bias" were none of its, the model was trained in part, and what it does not have may be
 * a frozen parameter as well as a buffer.
 */
#include "parts/parts.h"

#include "base/error.h"
#include "tensor/shape.h"

#include <stdlib.h>
#include <string.h>

/* How many places are held against each other. */
enum { MOST_COMPARED = 32 };

/* ---- shapes ---- */

/* A tensor by its shape. */
struct shaped {
	uint64_t shape; /* a hash */
	uint32_t tensor;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
	return hash ^ hash >> 32;
}

static uint64_t shape_of(const struct ckpt_tensor *t)
{
	uint64_t hash = mix(1, t->ndim);

	for (uint32_t i = 0; i < t->ndim; i++)
		hash = mix(hash, t->shape[i]);
	return hash;
}

static int by_shape(const void *a, const void *b)
{
	const struct shaped *x = a, *y = b;

	if (x->shape != y->shape)
		return x->shape < y->shape ? -1 : 1;
	return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

/* How many of ITEMS, from I on, have one shape. */
static uint32_t count_same(const struct shaped *items, uint32_t i, uint32_t count)
{
	uint32_t n = 1;

	while (i + n < count && items[i + n].shape == items[i].shape)
		n++;
	return n;
}

static bool is_floating(enum ckpt_dtype dtype)
{
	const char *name = ckpt_dtype_name(dtype);

	return !strncmp(name, "float", 5) || !strncmp(name, "bfloat", 6) || strstr(name, "complex");
}

/* ---- what places are ---- */

static bool has_weight(const struct ckpt_parts *p, const struct ckpt_parts_place *place)
{
	for (uint32_t i = 0; i < place->listed; i++) {
		const struct ckpt_tensor *t = &p->model->tensors[p->order[place->first + i]];

		if (t->ndim && is_floating(t->dtype))
			return true;
	}
	return false;
}

static bool has_parameter(const struct ckpt_parts *p, const struct ckpt_parts_place *place)
{
	for (uint32_t i = 0; i < place->listed; i++)
		if (p->tensors[p->order[place->first + i]].is_parameter)
			return true;
	return false;
}

/* A model is a module, or a state dict in which there are weights; without one, whatever there is. */
static void find_weights(struct ckpt_parts *p)
{
	bool any = false;

	for (uint32_t i = 0; i < p->place_count; i++) {
		struct ckpt_parts_place *place = &p->places[i];

		if (place->part != CKPT_PART_OPTIMIZER && place->listed)
			place->is_weights =
				place->kind == CKPT_HOLDS_MODULE || has_parameter(p, place) ||
				(place->kind == CKPT_HOLDS_STATE && has_weight(p, place));
		any |= place->is_weights;
	}
	for (uint32_t i = 0; !any && i < p->place_count; i++)
		p->places[i].is_weights =
			p->places[i].part != CKPT_PART_OPTIMIZER && has_weight(p, &p->places[i]);
}

/* Elements of all its tensors, tied ones once for each name. */
static uint64_t elements_of(const struct ckpt_parts *p, const struct ckpt_parts_place *place)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < place->listed; i++) {
		const struct ckpt_tensor *t = &p->model->tensors[p->order[place->first + i]];

		sum = ckpt_parts_add(sum, ckpt_shape_numel(t->shape, t->ndim));
	}
	return sum;
}

static struct shaped *list_shapes(const struct ckpt_parts *p, const struct ckpt_parts_place *place)
{
	struct shaped *list = malloc((place->listed + (size_t)1) * sizeof(*list));

	for (uint32_t i = 0; list && i < place->listed; i++) {
		uint32_t tensor = p->order[place->first + i];

		list[i] = (struct shaped){ shape_of(&p->model->tensors[tensor]), tensor };
	}
	if (list)
		qsort(list, place->listed, sizeof(*list), by_shape);
	return list;
}

/*
 * 1: MODEL has tensors of all shapes that COPY has, and not more than twice as much in all; 0: it
 * has not; -1: no memory.
 */
static int is_copy_of(const struct ckpt_parts *p, const struct ckpt_parts_place *copy,
		      const struct ckpt_parts_place *model)
{
	struct shaped *a, *b;
	int answer;

	if (elements_of(p, copy) < elements_of(p, model) / 2)
		return 0;
	a = list_shapes(p, copy);
	b = list_shapes(p, model);
	answer = a && b ? 1 : -1;
	for (uint32_t i = 0, k = 0, n, m; answer > 0 && i < copy->listed; i += n) {
		n = count_same(a, i, copy->listed);
		while (k < model->listed && b[k].shape < a[i].shape)
			k++;
		m = k < model->listed && b[k].shape == a[i].shape ? count_same(b, k, model->listed)
								  : 0;
		/* AveragedModel counts in a tensor of its own */
		if (n > m && p->model->tensors[a[i].tensor].ndim)
			answer = 0;
	}
	free(a);
	free(b);
	return answer;
}

static int find_copies(struct ckpt_parts *p, struct ckpt_error *err)
{
	uint32_t models[MOST_COMPARED], count = 0, copies = 0;

	for (uint32_t i = 0; i < p->place_count && count < MOST_COMPARED; i++)
		if (p->places[i].is_weights && !p->places[i].looks_like_copy)
			models[count++] = i;
	for (uint32_t i = 0; i < p->place_count && copies < MOST_COMPARED; i++) {
		struct ckpt_parts_place *place = &p->places[i];

		if (!place->looks_like_copy || place->part == CKPT_PART_OPTIMIZER || !place->listed)
			continue;
		copies++;
		for (uint32_t k = 0; k < count && place->same_as < 0; k++) {
			int rc = is_copy_of(p, place, &p->places[models[k]]);

			if (rc < 0)
				return ckpt_fail_nomem(err);
			if (rc)
				place->same_as = models[k];
		}
		if (place->same_as >= 0) {
			place->part = CKPT_PART_COPY;
			place->is_weights = false;
		}
	}
	return 0;
}

/* Names and shapes of all tensors, in any order. */
static void fingerprint(const struct ckpt_parts *p, const struct ckpt_parts_place *place,
			uint64_t out[3])
{
	out[0] = 0;
	out[1] = place->listed;
	out[2] = elements_of(p, place);
	for (uint32_t i = 0; i < place->listed; i++) {
		const struct ckpt_tensor *t = &p->model->tensors[p->order[place->first + i]];
		const char *name = t->name;
		uint64_t hash = shape_of(t);

		if (strlen(name) >= place->inner)
			name += place->inner;
		for (; *name; name++)
			hash = mix(hash, (unsigned char)*name);
		out[0] += hash;
	}
}

/* Models at the top whose tensors have the names and shapes of an earlier one's. */
static void find_twins(struct ckpt_parts *p)
{
	uint64_t prints[MOST_COMPARED][3];
	uint32_t places[MOST_COMPARED], count = 0;

	for (uint32_t i = 0; i < p->place_count && count < MOST_COMPARED; i++) {
		struct ckpt_parts_place *place = &p->places[i];

		if (!place->is_weights || place->listed < 2 || !*place->name ||
		    strchr(place->name, '.'))
			continue;
		fingerprint(p, place, prints[count]);
		for (uint32_t k = 0; k < count && place->same_as < 0; k++)
			if (!memcmp(prints[k], prints[count], sizeof(prints[k])))
				place->same_as = places[k];
		places[count++] = i;
	}
}

/* ---- buffers ---- */

static bool is_buffer_name(const char *name)
{
	static const char *const words[] = { "running_mean", "running_var", "num_batches_tracked" };

	name = ckpt_parts_last_of(name);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(name, words[i]))
			return true;
	return false;
}

/* Would it be a parameter that was not trained, and no buffer? A mask of attention is called "bias", too. */
static bool may_be_frozen(const struct ckpt_tensor *t)
{
	const char *last = ckpt_parts_last_of(t->name);

	return strstr(last, "weight") || (strstr(last, "bias") && (t->ndim == 1 || t->ndim == 2));
}

static void tell_by_names(struct ckpt_parts *p, const struct ckpt_parts_place *place)
{
	for (uint32_t i = 0; i < place->listed; i++) {
		struct ckpt_parts_tensor *t = &p->tensors[p->order[place->first + i]];

		if (!t->is_said)
			t->part = is_buffer_name(p->model->tensors[p->order[place->first + i]].name)
					  ? CKPT_PART_BUFFER
					  : CKPT_PART_PARAMETER;
	}
}

static void tell_by_parameters(struct ckpt_parts *p, const struct ckpt_parts_place *place)
{
	for (uint32_t i = 0; i < place->listed; i++) {
		struct ckpt_parts_tensor *t = &p->tensors[p->order[place->first + i]];

		t->part = t->is_parameter ? CKPT_PART_PARAMETER : CKPT_PART_BUFFER;
	}
}

static bool has_said(const struct ckpt_parts *p, const struct ckpt_parts_place *place)
{
	for (uint32_t i = 0; i < place->listed; i++)
		if (p->tensors[p->order[place->first + i]].is_said)
			return true;
	return false;
}

/* ---- the optimizer ---- */

struct by_optimizer {
	struct shaped *kept;  /* malloc: what it has a state for; TENSOR is one of the state */
	struct shaped *asked; /* malloc: tensors of models that may be these */
	uint32_t kept_count, asked_count,
		unknown; /* UNKNOWN: states that have nothing of the shape of the parameter */
};

/* What has the shape of the parameter. Sources: see model/optimizers.c. */
static bool has_its_shape(const char *last)
{
	static const char *const words[] = { "exp_avg", "momentum_buffer", "square_avg",
					     "exp_inf", "exp_avg_sq",	   "sum",
					     "prev",	"acc_delta",	   "max_exp_avg_sq",
					     "ax" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(last, words[i]))
			return true;
	return false;
}

/* The tensors of one state stand beside each other, and their names differ in the last part. */
static bool list_kept(const struct ckpt_parts *p, struct by_optimizer *o)
{
	const char *front = "";
	size_t len = 0;
	bool known = true;

	o->kept = malloc((p->tensor_count + (size_t)1) * sizeof(*o->kept));
	for (uint32_t i = 0; o->kept && i < p->tensor_count; i++) {
		const struct ckpt_tensor *t = &p->model->tensors[i];
		const char *last;

		if (p->tensors[i].part != CKPT_PART_OPTIMIZER || p->tensors[i].is_beside ||
		    strstr(t->name, "param_groups"))
			continue;
		last = ckpt_parts_last_of(t->name);
		if (!known && (strncmp(t->name, front, len) || (size_t)(last - t->name) != len))
			o->unknown++;
		if (strncmp(t->name, front, len) || (size_t)(last - t->name) != len || !len) {
			front = t->name;
			len = (size_t)(last - t->name);
			known = false;
		}
		if (!known && has_its_shape(last)) {
			o->kept[o->kept_count++] = (struct shaped){ shape_of(t), i };
			known = true;
		}
	}
	o->unknown += !known;
	return o->kept;
}

static bool is_pending(const struct ckpt_parts_place *place)
{
	return place->is_weights && !place->told_by;
}

static bool list_asked(const struct ckpt_parts *p, struct by_optimizer *o)
{
	o->asked = malloc((p->tensor_count + (size_t)1) * sizeof(*o->asked));
	for (uint32_t i = 0; o->asked && i < p->tensor_count; i++) {
		const struct ckpt_tensor *t = &p->model->tensors[i];
		const struct ckpt_parts_tensor *of = &p->tensors[i];

		if (of->part != CKPT_PART_OPTIMIZER && is_pending(&p->places[of->place]) &&
		    of->counted == i && is_floating(t->dtype) && !is_buffer_name(t->name))
			o->asked[o->asked_count++] = (struct shaped){ shape_of(t), i };
	}
	return o->asked;
}

/* Of COUNT tensors of one shape, EXCESS are buffers: those that are no frozen parameters. False: too few of them. */
static bool mark_buffers(struct ckpt_parts *p, const struct shaped *items, uint32_t count,
			 uint64_t excess, bool mark)
{
	for (uint32_t i = count; excess && i-- > 0;) {
		if (may_be_frozen(&p->model->tensors[items[i].tensor]))
			continue;
		excess--;
		if (mark)
			p->tensors[items[i].tensor].part = CKPT_PART_BUFFER;
	}
	return !excess;
}

/*
 * Does every state find its parameter, and is what is left over a buffer? If not all states say a shape,
 * only that there are as many as tensors tells something: that none is a buffer.
 */
static bool compare_shapes(struct ckpt_parts *p, const struct by_optimizer *o, bool mark)
{
	uint64_t left = 0;
	uint32_t i = 0, k = 0, n, m;

	for (; k < o->asked_count; k += m) {
		m = count_same(o->asked, k, o->asked_count);
		if (i < o->kept_count && o->kept[i].shape < o->asked[k].shape)
			return false;
		n = i < o->kept_count && o->kept[i].shape == o->asked[k].shape
			    ? count_same(o->kept, i, o->kept_count)
			    : 0;
		i += n;
		if (n > m || (!o->unknown && !mark_buffers(p, o->asked + k, m, m - n, mark)))
			return false;
		left += m - n;
	}
	return i == o->kept_count && (!o->unknown || left == o->unknown);
}

/* The dtype of what is trained is floating; a mask or an index is a buffer. */
static void tell_by_optimizer(struct ckpt_parts *p, const struct by_optimizer *o)
{
	for (uint32_t i = 0; i < p->tensor_count; i++) {
		struct ckpt_parts_tensor *t = &p->tensors[i];
		const struct ckpt_tensor *tensor = &p->model->tensors[i];

		if (t->part == CKPT_PART_OPTIMIZER || !is_pending(&p->places[t->place]))
			continue;
		t->part = is_buffer_name(tensor->name) || !is_floating(tensor->dtype)
				  ? CKPT_PART_BUFFER
				  : CKPT_PART_PARAMETER;
	}
	compare_shapes(p, o, true);
	for (uint32_t i = 0; i < p->place_count; i++)
		if (is_pending(&p->places[i]))
			p->places[i].told_by = CKPT_TOLD_BY_OPTIMIZER;
}

static int ask_optimizer(struct ckpt_parts *p, struct ckpt_error *err)
{
	struct by_optimizer o = { 0 };
	bool ok = list_kept(p, &o) && (!o.kept_count || list_asked(p, &o));

	if (ok && o.kept_count && o.asked_count) {
		qsort(o.kept, o.kept_count, sizeof(*o.kept), by_shape);
		qsort(o.asked, o.asked_count, sizeof(*o.asked), by_shape);
		if (compare_shapes(p, &o, false))
			tell_by_optimizer(p, &o);
	}
	free(o.kept);
	free(o.asked);
	return ok ? 0 : ckpt_fail_nomem(err);
}

/* ---- all of it ---- */

int ckpt_parts_tell(struct ckpt_parts *p, struct ckpt_error *err)
{
	int rc;

	find_weights(p);
	rc = find_copies(p, err);
	if (rc < 0)
		return rc;
	find_twins(p);
	for (uint32_t i = 0; i < p->place_count; i++) {
		struct ckpt_parts_place *place = &p->places[i];

		if (place->is_weights && has_said(p, place)) {
			place->told_by = CKPT_TOLD_BY_PROGRAM;
			tell_by_names(p, place); /* what the program says nothing of */
		} else if (place->is_weights && has_parameter(p, place)) {
			place->told_by = CKPT_TOLD_BY_PARAMETERS;
			tell_by_parameters(p, place);
		}
	}
	rc = ask_optimizer(p, err);
	for (uint32_t i = 0; rc == 0 && i < p->place_count; i++) {
		struct ckpt_parts_place *place = &p->places[i];

		if (is_pending(place)) {
			place->told_by = CKPT_TOLD_BY_NAMES;
			tell_by_names(p, place);
		}
		if (place->is_weights)
			place->part = CKPT_PART_PARAMETER;
		for (uint32_t k = 0;
		     !place->is_weights && place->part != CKPT_PART_OPTIMIZER && k < place->listed;
		     k++)
			p->tensors[p->order[place->first + k]].part = (uint8_t)place->part;
	}
	p->shown = rc == 0 ? malloc((p->place_count + (size_t)1) * sizeof(*p->shown)) : NULL;
	for (uint32_t i = 0; p->shown && i < p->place_count; i++)
		if (p->places[i].part != CKPT_PART_OTHER)
			p->shown[p->shown_count++] = i;
	return rc < 0 || p->shown ? rc : ckpt_fail_nomem(err);
}
