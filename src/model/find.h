/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_FIND_H
#define CKPT_MODEL_FIND_H

#include "model/walk.h"

/*
 * The value called NAME: its path joined by dots, or the exact form ["model"]["a.b"][0]; "" is the
 * root. CKPT_E_NOTFOUND; CKPT_E_ARG if the joined form names two things, with both exact forms.
 */
int ckpt_model_find(const struct ckpt_model *model, const char *name, const struct ckpt_value **out,
		    struct ckpt_error *err);

/* The same, with the place where it stands: SLOT->holder is NULL if it has none (ckpt_walk_slot()). */
int ckpt_model_find_slot(const struct ckpt_model *model, const char *name,
			 const struct ckpt_value **out, struct ckpt_slot *slot,
			 struct ckpt_error *err);

#endif
