/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_MAKER_H
#define CKPT_MODEL_MAKER_H

#include "base/strmap.h"
#include "pickle/decode.h"
#include "tensor/dtype.h"

/*
 * Values that nobody pickled, for checkpoints that say in another way what is in them: the calls
 * that torch.save would write. Only while a document is being made. Functions return NULL where
 * there is no memory, and take a NULL among what they are given for the same, so that one check at
 * the end is enough.
 */
struct ckpt_maker {
	struct ckpt_arena *arena; /* borrowed: of the values */
	/* borrowed: the document's, whose ids and persistent ids they are */
	struct ckpt_pickle *pickle;
	struct ckpt_strmap globals;
	const struct ckpt_value *word_storage, *word_cpu;
};

void ckpt_maker_clear(struct ckpt_maker *maker);

/* A node with an id of its own and nothing in it. */
struct ckpt_value *ckpt_maker_node(struct ckpt_maker *maker, uint8_t kind);

const struct ckpt_value *ckpt_maker_text(struct ckpt_maker *maker, const char *text, size_t len);
const struct ckpt_value *ckpt_maker_str(struct ckpt_maker *maker, const char *text);
const struct ckpt_value *ckpt_maker_int(struct ckpt_maker *maker, uint64_t integer);
const struct ckpt_value *ckpt_maker_tuple(struct ckpt_maker *maker,
					  const struct ckpt_value *const *items, uint32_t count);
const struct ckpt_value *ckpt_maker_call(struct ckpt_maker *maker, const struct ckpt_value *func,
					 const struct ckpt_value *args);

/* The one node of a class or function. */
const struct ckpt_value *ckpt_maker_global(struct ckpt_maker *maker, const char *module,
					   const char *name);

/* collections.OrderedDict(), empty. */
struct ckpt_value *ckpt_maker_ordered_dict(struct ckpt_maker *maker);

/*
 * Another item of a CKPT_DICT or an OrderedDict that was made here. False: no memory, or KEY or
 * VALUE is NULL.
 */
bool ckpt_maker_put(struct ckpt_maker *maker, struct ckpt_value *mapping,
		    const struct ckpt_value *key, const struct ckpt_value *value);

/* The persistent id of a storage of NUMEL elements. LOCATION NULL: "cpu". */
const struct ckpt_value *ckpt_maker_storage(struct ckpt_maker *maker, enum ckpt_dtype dtype,
					    const char *key, const char *location, uint64_t numel);

/* How a tensor lies in a storage. */
struct ckpt_maker_view {
	enum ckpt_dtype dtype;
	uint32_t ndim; /* at most CKPT_MOST_DIMS */
	uint64_t offset;
	const uint64_t *shape, *stride; /* in elements; stride NULL: as torch.empty() makes it */
	bool requires_grad;
};

/* The call that torch.save writes for a tensor over STORAGE. */
const struct ckpt_value *ckpt_maker_tensor(struct ckpt_maker *maker,
					   const struct ckpt_value *storage,
					   const struct ckpt_maker_view *view);

/* ... and for a Parameter of it. */
const struct ckpt_value *ckpt_maker_parameter(struct ckpt_maker *maker,
					      const struct ckpt_value *tensor, bool requires_grad);

/*
 * Stands for a value that could not be read, WHY says why: what it is part of can be shown, but not
 * be written.
 */
const struct ckpt_value *ckpt_maker_missing(struct ckpt_maker *maker, const char *why);

/*
 * The values of PART, a pickle that was decoded with ids up to maker->pickle->next_id, become the
 * document's: its storages get PREFIX in front of their keys, as other parts have storages of the
 * same keys. Keys that are numbers become texts.
 */
int ckpt_maker_adopt(struct ckpt_maker *maker, struct ckpt_pickle *part, const char *prefix,
		     struct ckpt_error *err);

#endif
