/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_STATE_DICT_H
#define CKPT_MODEL_STATE_DICT_H

#include "model/model.h"

/* Remembers which dicts hold tensors, so that one that is mentioned often is looked at once. */
struct ckpt_state_dict_finder {
	const struct ckpt_model *model;
	uint8_t *answers; /* by id: 0 not asked, 1 no, 2 yes */
};

int ckpt_state_dict_finder_init(struct ckpt_state_dict_finder *finder,
				const struct ckpt_model *model, struct ckpt_error *err);
void ckpt_state_dict_finder_clear(struct ckpt_state_dict_finder *finder);

/*
 * A state dict is a mapping in which a tensor, or a dict of tensors, stands under a string key.
 */
bool ckpt_is_state_dict(struct ckpt_state_dict_finder *finder, const struct ckpt_value *v);

/* A mapping in which a tensor stands. */
bool ckpt_holds_tensors(struct ckpt_state_dict_finder *finder, const struct ckpt_value *v);

/*
 * Of those, the ones a module made: with `_metadata`, or nothing but tensors under string keys.
 */
bool ckpt_is_module_state_dict(const struct ckpt_model *model, const struct ckpt_value *v);

/* The mapping in a state dict's `_metadata` attribute, or NULL. */
const struct ckpt_value *ckpt_state_dict_metadata(const struct ckpt_model *model,
						  const struct ckpt_value *v);

/*
 * Is NAME that of what a module's get_extra_state() gave? It stands in the module's state dict, but what
 * is in it is the module's own matter: its keys are no names of tensors.
 */
bool ckpt_is_extra_state(const char *name, size_t len);

/* A mapping with `param_groups`: an optimizer's state dict. */
bool ckpt_is_optimizer(const struct ckpt_model *model, const struct ckpt_value *v);

/* The value under a string key, or NULL. */
const struct ckpt_value *ckpt_mapping_find(const struct ckpt_model *model,
					   const struct ckpt_value *v, const char *key);

/*
 * The value under NAME in a dict of attributes, or NULL. Objects keep the attributes that mean
 * something in front: only the first CKPT_MOST_ATTRIBUTES are looked at, for a hostile file can
 * share one very long dict between very many objects.
 */
enum { CKPT_MOST_ATTRIBUTES = 256 };
const struct ckpt_value *ckpt_attribute_find(const struct ckpt_model *model,
					     const struct ckpt_value *dict, const char *name);

/*
 * The same in the STATE of an object: a dict, or a pair of one (or None) and the dict of its slots.
 */
const struct ckpt_value *ckpt_state_find(const struct ckpt_model *model,
					 const struct ckpt_value *state, const char *name);

#endif
