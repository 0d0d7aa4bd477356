/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_WALK_H
#define CKPT_MODEL_WALK_H

#include "base/buf.h"
#include "model/model.h"

/*
 * Every value of a checkpoint with its name: the path to it, dict keys as str() gives them,
 * positions in decimal, attributes by name, joined by dots. The mappings `_parameters`, `_buffers`
 * and `_modules` of a module are not in the names of what they hold. Depth first, in the order of
 * the file; no recursion. Values reachable on several ways are entered once. A name has at most
 * CKPT_WALK_MOST_NAME bytes: of a longer one, the first.
 */
enum { CKPT_WALK_MOST_NAME = 1 << 18 };

struct ckpt_walk_step {
	const struct ckpt_value *value; /* as edited */
	const char *name;		/* valid during the call */
	size_t name_len;
	size_t below_len; /* what the names below it begin with: NAME, or less of it */
	size_t depth;
	/*
	 * of one name: another number where the kinds of the keys on the way are other ones, or the
	 * parts of the name: 0 and "0", a key and an attribute, "a.b" and "b" in "a"; or what is
	 * cut off
	 */
	uint32_t way;
	bool seen; /* entered before under another name, or being entered: will not be descended */
	const struct ckpt_walker *walker;
};

enum ckpt_walk_answer { CKPT_WALK_SKIP = 0, CKPT_WALK_ENTER = 1 };

/* Returns an answer, or a negative status to stop. */
typedef int ckpt_walk_visit(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err);

int ckpt_model_walk(const struct ckpt_model *model, ckpt_walk_visit *visit, void *ctx,
		    struct ckpt_error *err);

/*
 * The exact form of the current name: ["model"]["a.b"][0], with nothing left out. Only during a
 * visit.
 */
void ckpt_walk_exact_name(const struct ckpt_walk_step *step, struct ckpt_buf *out);

/*
 * Where the current value hangs, below the root: *PARENT (as edited), and *INDEX among the entries
 * of a dict (its key; the value is one further) or a list. False if it is no entry: part of a
 * tuple, an argument, an attribute. Only during a visit.
 */
bool ckpt_walk_is_entry(const struct ckpt_walk_step *step, const struct ckpt_value **parent,
			uint32_t *index);

/* The sequence that a value stands in, and where. */
struct ckpt_slot {
	const struct ckpt_value *holder; /* as edited: a dict, list or tuple, or an object */
	enum { CKPT_SLOT_SEQ, CKPT_SLOT_ITEMS, CKPT_SLOT_PAIRS } part; /* of the value, or of its call */
	uint32_t index;
};

/*
 * Where the current value could be another one without a call being another: an entry, an item of a tuple, an attribute.
 * False: it is the root, an argument, in a set, or the whole state of an object. Only during a visit.
 */
bool ckpt_walk_slot(const struct ckpt_walk_step *step, struct ckpt_slot *out);

#endif
