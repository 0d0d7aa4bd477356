/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_PLAIN_VALUES_H
#define CKPT_MODEL_PLAIN_VALUES_H

#include "model/model.h"

/*
 * Values that an edit makes, in the arena of the model that is being made; NULL: no memory. And
 * what others mean, as far as it can be told without calling anything.
 */
const struct ckpt_value *ckpt_plain_int(struct ckpt_model *model, int64_t integer);
const struct ckpt_value *ckpt_plain_float(struct ckpt_model *model, double real);
const struct ckpt_value *ckpt_plain_global(struct ckpt_model *model, const char *module,
					   const char *name);
struct ckpt_value *ckpt_plain_seq(struct ckpt_model *model, uint8_t kind,
				  const struct ckpt_value *const *items, uint32_t count);

/* MODULE.NAME(*ITEMS) */
struct ckpt_value *ckpt_plain_call(struct ckpt_model *model, const char *module, const char *name,
				   const struct ckpt_value *const *items, uint32_t count);

/*
 * A dense tensor of LEN bytes, which are borrowed, on the CPU.
 */
struct ckpt_value *ckpt_plain_tensor(struct ckpt_model *model, enum ckpt_dtype dtype,
				     const uint64_t *shape, const uint64_t *stride, uint32_t ndim,
				     const void *bytes, uint64_t len, struct ckpt_error *err);

/*
 * Let a contiguous tensor of SHAPE over such a storage stand for T's value; the rest is as T says.
 */
int ckpt_plain_replace_tensor(struct ckpt_model *to, const struct ckpt_tensor *t,
			      const uint64_t *shape, uint32_t ndim, uint32_t storage,
			      struct ckpt_error *err);

/*
 * The bytes of a bytes object, also of one that protocol 2 wrote as a call; false if it is none.
 * *OUT lives as long as the model.
 */
bool ckpt_plain_bytes(struct ckpt_model *model, const struct ckpt_value *v, const uint8_t **out,
		      uint64_t *len);

/* The same, in another ARENA. */
bool ckpt_plain_bytes_in(const struct ckpt_model *model, const struct ckpt_value *v,
			 struct ckpt_arena *arena, const uint8_t **out, uint64_t *len);

/* Argument I of a call, as edited; NULL: there is none. */
const struct ckpt_value *ckpt_plain_arg(const struct ckpt_model *model,
					const struct ckpt_value *call, uint32_t i);
uint32_t ckpt_plain_arg_count(const struct ckpt_model *model, const struct ckpt_value *call);

/*
 * Is GLOBAL of a module that has tensors of Transformer Engine? And the class that FUNC makes such a tensor of, itself or by one of its
 * methods, which is pickled as getattr(CLASS, NAME); NULL: none. What is in such a call is codes and scales: no tensors by themselves.
 */
bool ckpt_plain_is_of_engine(const struct ckpt_global *global);
const struct ckpt_global *ckpt_plain_engine_class(const struct ckpt_model *model, const struct ckpt_value *func);

#endif
