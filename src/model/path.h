/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_PATH_H
#define CKPT_MODEL_PATH_H

#include "base/arena.h"
#include "base/buf.h"
#include "pickle/value.h"

/*
 * The way from the root of a checkpoint to a value, and how it is written. A step is the key of a
 * mapping, a position in a list or among arguments, or the name of an attribute.
 *
 * - The name, model.a.b.0: steps joined by dots, for people. Keys are as str() gives them; what is
 *   in a module is called as its state_dict() calls it (model/walk.h). Two paths may have one name,
 *   so no program can read it: model/find.h compares it with the names of all values.
 * - The exact form, ["model"]["a.b"][0]: every step, texts in quotes. Two paths have one exact form
 *   only if their keys are objects of which repr() shows the same. It is compared as well.
 * - The key of a DCP directory, model.a.b.0: like the name, but only of mappings and lists, and
 *   with texts as they are, zero bytes included, since files have it. The index has the steps
 *   beside it.
 * - A path of torch_checkpointing, ["model", "a.b", 0]: a list in JSON of texts and integers. The
 *   one form that is read.
 */

/* A step that was read, or is to be written: of a path through mappings and lists. */
struct ckpt_path_step {
	const char *key; /* of LEN bytes; NULL: a number */
	size_t len;
	int64_t number; /* a position in a list, or a key that is a number */
};

/* The forms of one step, appended to OUT, without what joins them. */

/* str() of a key, in a name: a C string, so a zero byte in a text becomes its symbol, U+2400. */
void ckpt_path_add_key(struct ckpt_buf *out, const struct ckpt_value *key);

/* The same in the key of a DCP directory: a text has its bytes as they are. */
void ckpt_path_add_raw_key(struct ckpt_buf *out, const struct ckpt_value *key);

void ckpt_path_add_position(struct ckpt_buf *out, uint32_t position);

/* In the brackets of the exact form: a text in quotes and in full, another key as its repr(). */
void ckpt_path_add_exact_key(struct ckpt_buf *out, const struct ckpt_value *key);

/*
 * TEXT, a str: '["state",0,"exp_avg"]', as Python's json.dumps() writes it. Keys are UTF-8, lone
 * surrogates allowed. The steps are in ARENA. Returns 0; CKPT_E_FORMAT, with what was found;
 * CKPT_E_LIMIT, CKPT_E_NOMEM.
 */
int ckpt_path_parse_json(const struct ckpt_value *text, struct ckpt_arena *arena,
			 const struct ckpt_path_step **steps, uint32_t *count,
			 struct ckpt_error *err);

#endif
