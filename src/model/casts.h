/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_CASTS_H
#define CKPT_MODEL_CASTS_H

#include "model/model.h"
#include "tensor/cast_tally.h"

/*
 * A storage whose numbers a model casts. What they lose is known as far as they were read: of all
 * that are written, at the end of a save.
 */
struct ckpt_storage_cast {
	struct ckpt_cast cast;
	struct ckpt_cast_tally tally;
	uint32_t storage;
	struct ckpt_storage_cast *next;
};

/* A new one, of the arena of MODEL, which clears it. NULL: no memory. */
struct ckpt_storage_cast *ckpt_model_add_cast(struct ckpt_model *model, uint32_t storage);

/* For ckpt_close(). */
void ckpt_model_clear_casts(struct ckpt_model *model);

/*
 * The end of a save, before anything gets its name: CKPT_E_CHANGED if a file that MODEL consists
 * of was changed, and, with CKPT_SAVE_CHECK_CASTS in FLAGS, CKPT_E_UNSUPPORTED
 * (CKPT_REASON_CAST_LOSES) if a cast lost numbers.
 */
int ckpt_model_check_saved(const struct ckpt_model *model, unsigned flags, struct ckpt_error *err);

/*
 * The same for a save that writes nothing: read what it would have cast. CANCEL as in
 * ckpt_save_options.
 */
int ckpt_model_check_unsaved(const struct ckpt_model *model, unsigned flags,
			     const volatile int *cancel, struct ckpt_error *err);

#endif
