/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_RESAVE_RESAVE_H
#define CKPT_RESAVE_RESAVE_H

#include "base/buf.h"
#include "model/model.h"

/*
 * The pickle that torch.save would write for a checkpoint that torch.load has read: tensors are
 * made anew from their meaning, storages are numbered in the order in which they are met, strings
 * and dtypes that are one object in a running Python are one object.
 */
struct ckpt_resave_options {
	uint8_t protocol;
	bool python_batches;
	bool keep_keys; /* storage keys stay; else they are 0, 1, 2 ... in order of first mention */
	bool spell_keys;   /* torch up to 1.8 writes the key's text out at every mention */
	bool python311;	   /* see ckpt_pickle_options.python311 */
	bool is_coalesced; /* torch 2.1+: sparse COO tensors carry the flag */
	/*
	 * who wrote it is not known: sparse tensors have as many parts, and the function, as in the
	 * input
	 */
	bool as_read;
	bool differentiable; /* torch 1.13+: optimizers get this default where they have none */
	/* torch 2.1+: storages without bytes are read as ones of their own at every mention */
	bool empty_apart;
	bool python313;	     /* see ckpt_pickle_options.python313_nested */
	bool heap_generator; /* see ckpt_pickle_options.heap_generator */
	/*
	 * Python 3.14: a class knows the names of its attributes before it has instances, see
	 * module_keys.h
	 */
	bool prepared_keys;
	/*
	 * As the legacy stream has them: storages with a sixth item, and the classes of a model
	 * that was saved whole with their source, where the input has it.
	 */
	bool legacy_ids;
	/* those of Python 2 become what torch.load makes of them: UTF-8, as text */
	bool python3_strings;
	bool python2_names; /* the source has the names of Python 3, protocol 2 wants those of 2 */
};

/* In WIDTHS: tensors disagree. */
enum { CKPT_WIDTHS_DIFFER = 0xFF };

struct ckpt_resaved {
	struct ckpt_buf pickle; /* owned */
	/*
	 * malloc: storages by index, in order of first mention; an empty one may stand there again
	 */
	uint32_t *order;
	const char **keys; /* malloc: their new keys; the texts live in ARENA */
	uint32_t count;
	/*
	 * malloc: by storage index, how wide the numbers are that tensors show in it, see
	 * ckpt_byteswap_width()
	 */
	uint8_t *widths;
	struct ckpt_arena *arena; /* owned */
};

int ckpt_model_resave(const struct ckpt_model *model, const struct ckpt_resave_options *options,
		      struct ckpt_resaved *out, struct ckpt_error *err);
void ckpt_resaved_clear(struct ckpt_resaved *resaved);

/*
 * PLACES gets the numbers below COUNT, in the order of the keys as text. Legacy files, and some
 * generations of zip files, have their storages in that order.
 */
void ckpt_resaved_sort_by_key(const struct ckpt_resaved *resaved, uint32_t *places);

#endif
