/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_COMPOSE_H
#define CKPT_PICKLE_COMPOSE_H

#include "pickle/value.h"

/*
 * Values that no pickle spells out, made before there is a model. They live in ARENA, their ids
 * come from *NEXT_ID. NULL: no memory; a value that is made of others is NULL if one of these is.
 */
struct ckpt_composer {
	struct ckpt_arena *arena;
	uint32_t *next_id;
};

struct ckpt_value *ckpt_compose(const struct ckpt_composer *c, uint8_t kind);
const struct ckpt_value *ckpt_compose_str(const struct ckpt_composer *c, const char *text,
					  size_t len);
const struct ckpt_value *ckpt_compose_int(const struct ckpt_composer *c, int64_t integer);
const struct ckpt_value *ckpt_compose_tuple(const struct ckpt_composer *c,
					    const struct ckpt_value *const *items, uint32_t count);

/* MODULE and NAME are borrowed. */
const struct ckpt_value *ckpt_compose_global(const struct ckpt_composer *c, const char *module,
					     const char *name);

/* FUNC(*ARGS) */
struct ckpt_value *ckpt_compose_call(const struct ckpt_composer *c, const struct ckpt_value *func,
				     const struct ckpt_value *args);

#endif
