/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of resave: what its parts share. A part knows one family of objects and says what Python
 * or torch would write for them.
 *
 * What must stay true: every function returns the value to write in place of V, V itself if it
 * stays as it is, or NULL: no memory, or s->err says why. Values of an answer live in s->scratch
 * until the answer is written; constants, ids and keys live as long as the save. Two values are one
 * object for the encoder if they have one id, so each member below that holds ids says what shares
 * one.
 */
#ifndef CKPT_RESAVE_RESAVER_H
#define CKPT_RESAVE_RESAVER_H

#include "model/old_tensor.h"
#include "resave/module_keys.h"
#include "resave/resave.h"

/* Values that every tensor mentions: made once per save, with an identity. */
enum ckpt_resave_constant {
	CKPT_RESAVE_STR_STORAGE,
	CKPT_RESAVE_STR_MODULE,
	CKPT_RESAVE_STR_CPU,
	CKPT_RESAVE_STR_MPS,
	CKPT_RESAVE_STR_META,
	CKPT_RESAVE_ORDERED_DICT,
	CKPT_RESAVE_REBUILD_V2,
	CKPT_RESAVE_REBUILD_V3,
	CKPT_RESAVE_REBUILD_SPARSE,
	CKPT_RESAVE_REBUILD_PARAMETER,
	CKPT_RESAVE_UNTYPED,
	CKPT_RESAVE_CONSTANT_COUNT,
};

struct ckpt_saver {
	const struct ckpt_model *model;
	const struct ckpt_resave_options *o;
	struct ckpt_resaved *out;
	const struct ckpt_value **key_nodes; /* by storage index; NULL: not mentioned yet */
	/*
	 * With legacy_ids: from the address of a class to that of a persistent id with its source;
	 * 0 once that was written.
	 */
	struct ckpt_strmap class_sources;
	/*
	 * With empty_apart: from the address of a persistent id of a storage without bytes to that
	 * of its key.
	 */
	struct ckpt_strmap empty_keys;
	uint32_t key_cap, order_cap;
	uint32_t further; /* number of the next key that the file does not have */
	/*
	 * Owned: by the id of a tensor, the id of the dict of its attributes; 0: not met yet. NULL:
	 * no tensor has any.
	 */
	uint32_t *state_ids;
	/* Owned: by the id of an exception, the id of its tuple of arguments; NULL: none yet. */
	uint32_t *args_ids;
	/* Owned: by the id of a call that is made from a list of its own; NULL: none yet. */
	uint32_t *times_written;
	struct ckpt_module_keys *module_keys; /* owned; with prepared_keys; NULL: no module met yet */
	struct ckpt_strmap numpy_dtypes; /* "<f8" to the one dtype object of all scalars */
	uint32_t next_id;
	struct ckpt_value constants[CKPT_RESAVE_CONSTANT_COUNT],
		classes[CKPT_DTYPE_COUNT], /* storage classes */
		dtypes[CKPT_DTYPE_COUNT];
	struct ckpt_global constant_names[CKPT_RESAVE_CONSTANT_COUNT],
		class_names[CKPT_DTYPE_COUNT], dtype_names[CKPT_DTYPE_COUNT];
	unsigned nesting;
	struct ckpt_arena *scratch; /* of the value being resolved */
	struct ckpt_error *err;
};

/* ---- making values (make.c) ---- */

const struct ckpt_value *ckpt_resave_now(const struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_arg(const struct ckpt_saver *s, const struct ckpt_value *call,
					 uint32_t i);
struct ckpt_value *ckpt_resave_make(struct ckpt_saver *s, uint8_t kind);
const struct ckpt_value *ckpt_resave_seq(struct ckpt_saver *s, uint8_t kind,
					 const struct ckpt_value *const *items, uint32_t count);
const struct ckpt_value *ckpt_resave_call(struct ckpt_saver *s, const struct ckpt_value *like,
					  const struct ckpt_value *func,
					  const struct ckpt_value *args);
struct ckpt_value *ckpt_resave_global(struct ckpt_saver *s, const char *module, const char *name,
				      const char *tail);
const struct ckpt_value *ckpt_resave_attribute_dict(struct ckpt_saver *s,
						    const struct ckpt_value *dict);
const struct ckpt_value *ckpt_resave_attributes(struct ckpt_saver *s,
						const struct ckpt_value *state);
/*
 * The attributes of tensor V. They are an argument of the call that makes V, and so may contain V:
 * this is one dict, however often V is met inside.
 */
const struct ckpt_value *ckpt_resave_tensor_attributes(struct ckpt_saver *s,
						       const struct ckpt_value *v,
						       const struct ckpt_value *state);
const struct ckpt_value *ckpt_resave_with_attributes(struct ckpt_saver *s,
						     const struct ckpt_value *v);

/* ---- storages and tensors (tensor.c) ---- */

const struct ckpt_value *ckpt_resave_storage(struct ckpt_saver *s, const struct ckpt_value *persid,
					     enum ckpt_dtype v3);
const struct ckpt_value *ckpt_resave_fresh_tuple(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_tensor_v2(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_tensor_v3(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_old_tensor(struct ckpt_saver *s, const struct ckpt_value *v,
						const struct ckpt_old_tensor *old);
const struct ckpt_value *ckpt_resave_parameter(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_quantized(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_meta(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_sparse(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_from_type(struct ckpt_saver *s, const struct ckpt_value *v);

/* ---- bytes, classes, keyword arguments (object.c) ---- */

const struct ckpt_value *ckpt_resave_latin1_bytes(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_empty_bytes(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_bytearray(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_nested_global(struct ckpt_saver *s,
						   const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_iterator(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_of_text(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_called_partial(struct ckpt_saver *s,
						    const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_new_with_keywords(struct ckpt_saver *s,
						       const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_keyword_names(struct ckpt_saver *s,
						   const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_python2_str(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_python2_global(struct ckpt_saver *s,
						    const struct ckpt_value *v);

/* ---- Python's library (library.c) ---- */

const struct ckpt_value *ckpt_resave_time(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_path(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_array(struct ckpt_saver *s, const struct ckpt_value *v);

/* ---- sets (set.c) ---- */

const struct ckpt_value *ckpt_resave_set(struct ckpt_saver *s, const struct ckpt_value *v);
/*
 * V, a call of a class, with its attributes. Lists and tuples among its arguments are made anew
 * each time, as sets and classes derived from builtins do it.
 */
const struct ckpt_value *ckpt_resave_with_own_args(struct ckpt_saver *s,
						   const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_set_call(struct ckpt_saver *s, const struct ckpt_value *v);

/* ---- numpy (numpy.c) ---- */

const struct ckpt_value *ckpt_resave_numpy_scalar(struct ckpt_saver *s, const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_numpy_from_buffer(struct ckpt_saver *s,
						       const struct ckpt_value *v);
const struct ckpt_value *ckpt_resave_numpy_array(struct ckpt_saver *s, const struct ckpt_value *v);

/* ---- all of them, by the function that is called (resave.c) ---- */

const struct ckpt_value *ckpt_resave_resolve_call(struct ckpt_saver *s, const struct ckpt_value *v);

#endif
