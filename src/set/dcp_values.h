/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_VALUES_H
#define CKPT_SET_DCP_VALUES_H

#include "pickle/value.h"
#include "tensor/dtype.h"

/*
 * The values of an index pickle: dataclasses of torch.distributed, sizes, dtypes. The module they are
 * looked for in changed from release to release; the names of the classes did not.
 */

/* Is V an instance of the class NAME of torch.distributed? */
bool ckpt_dcp_is(const struct ckpt_value *v, const char *name);

/* The attributes of such an instance: a dict; NULL if it is none. */
const struct ckpt_value *ckpt_dcp_state(const struct ckpt_value *v, const char *name);

/* The attributes of an instance of any class. */
const struct ckpt_value *ckpt_dcp_object_state(const struct ckpt_value *v);

/* The attribute NAME, or NULL. */
const struct ckpt_value *ckpt_dcp_field(const struct ckpt_value *state, const char *name);

/* CKPT_E_FORMAT: "wanted WHAT, found ..."; V may be NULL. */
int ckpt_dcp_wrong(struct ckpt_error *err, const char *what, const struct ckpt_value *v);

/* A torch.Size, or a tuple in its place. The numbers live in ARENA. */
int ckpt_dcp_dims(const struct ckpt_value *v, const char *what, struct ckpt_arena *arena,
		  const uint64_t **out, uint32_t *count, struct ckpt_error *err);

int ckpt_dcp_number(const struct ckpt_value *v, const char *what, uint64_t *out,
		    struct ckpt_error *err);

/* The dtype in a TensorProperties. */
int ckpt_dcp_dtype(const struct ckpt_value *properties, enum ckpt_dtype *out,
		   struct ckpt_error *err);

/* Does a relative path stay inside of the directory? Refused: absolute ones, `..`, drive letters, NULs. */
int ckpt_dcp_check_path(const struct ckpt_value *v, struct ckpt_error *err);

#endif
