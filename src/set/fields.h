/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_FIELDS_H
#define CKPT_SET_FIELDS_H

#include "io/source.h"
#include "pickle/decode.h"

/*
 * The pickles that are indexes of sets, and nobody vouches for: dataclasses of torch.distributed,
 * sizes, paths. The module of a class changed from release to release; its name did not.
 */

/*
 * Read and decode the whole of SOURCE, the index of a set. *BYTES is to be freed, after PICKLE is
 * cleared, both also on failure; the path goes into the message.
 */
int ckpt_fields_load(const struct ckpt_source *source, uint8_t **bytes, struct ckpt_pickle *pickle,
		     struct ckpt_error *err);

/* Is V an instance of the class NAME of torch.distributed? */
bool ckpt_fields_is(const struct ckpt_value *v, const char *name);

/* The attributes of such an instance: a dict; NULL if it is none. */
const struct ckpt_value *ckpt_fields_state(const struct ckpt_value *v, const char *name);

/* The attributes of an instance of any class. */
const struct ckpt_value *ckpt_fields_object_state(const struct ckpt_value *v);

/* The attribute NAME, or NULL. */
const struct ckpt_value *ckpt_fields_find(const struct ckpt_value *state, const char *name);

/* CKPT_E_FORMAT: "wanted WHAT, found ..."; V may be NULL. */
int ckpt_fields_wrong(struct ckpt_error *err, const char *what, const struct ckpt_value *v);

/* A torch.Size, or a tuple in its place. The numbers live in ARENA. */
int ckpt_fields_dims(const struct ckpt_value *v, const char *what, struct ckpt_arena *arena,
		     const uint64_t **out, uint32_t *count, struct ckpt_error *err);

int ckpt_fields_number(const struct ckpt_value *v, const char *what, uint64_t *out,
		       struct ckpt_error *err);

/*
 * Does a relative path stay inside of the directory? Refused: absolute ones, `..`, drive letters,
 * NULs.
 */
int ckpt_fields_check_path(const struct ckpt_value *v, struct ckpt_error *err);

#endif
