/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_STORAGE_BYTESWAP_H
#define CKPT_FORMAT_STORAGE_BYTESWAP_H

#include "format/format.h"
#include "resave/resave.h"

/*
 * The byte order of the numbers in storages: does a save have to swap their bytes, and how wide
 * are they? torch goes by the class of a storage, and so does not swap dtypes that have no
 * storage class (uint16, complex32 ...): torch/serialization.py, load_tensor() of _load();
 * checked with 2.14. Here all are swapped, by the dtype of the tensors that show them.
 */
struct ckpt_storage_byteswap {
	bool from_big, to_big;
	uint32_t not_by_torch; /* out: storages that torch would not have swapped */
};

/*
 * Set OUT by the options and by FOUND, what the input says: "little", "big" or "". CKPT_E_ARG if
 * the options are wrong.
 */
int ckpt_storage_byteswap_choose(const struct ckpt_save_options *options, const char *found,
				 struct ckpt_storage_byteswap *out, struct ckpt_error *err);

static inline bool ckpt_storage_byteswap_any(const struct ckpt_storage_byteswap *swap)
{
	return swap->from_big != swap->to_big;
}

/*
 * If the bytes of storage NUMBER have to be swapped, replace RECIPE, which has these bytes, by
 * one that swaps them, and set *SWAPPED. CKPT_E_UNSUPPORTED if tensors show numbers of two
 * widths in it.
 */
int ckpt_storage_byteswap_recipe(struct ckpt_storage_byteswap *swap, const struct ckpt_model *model,
				 const struct ckpt_resaved *resaved, uint32_t number,
				 struct ckpt_recipe *recipe, bool *swapped, struct ckpt_error *err);

#endif
