/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_EDIT_KEYS_H
#define CKPT_EDIT_KEYS_H

#include "base/buf.h"
#include "model/model.h"
#include "model/walk.h"

#include <ckpt/edit.h>

/* How keys get their new names. */
struct ckpt_key_edit {
	/* Before the keys of STATE_DICT, as the walked MODEL has it, and its `_metadata`; may be NULL. */
	int (*begin)(void *ctx, const struct ckpt_model *model, const struct ckpt_value *state_dict,
		     struct ckpt_error *err);
	/*
	 * Append the new name of KEY to OUT and return 1; 0: it keeps its name; <0: failed.
	 */
	int (*rename)(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
		      struct ckpt_error *err);
	/* The same for a module's name in `_metadata`: no trailing dot, "" for the root. */
	int (*rename_module)(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
			     struct ckpt_error *err);
	/* After all of them; may be NULL. ARENA lives as long as the result. */
	int (*end)(void *ctx, struct ckpt_arena *arena, struct ckpt_edit_report *report,
		   struct ckpt_error *err);
	const char *new_roots; /* "a.b.": modules '', a are new in `_metadata`; NULL: none */
	bool only_modules;     /* take only the state dicts of modules, unless AT names others */
	bool joins_modules; /* modules that get one name wrap one another: the innermost one stays */
	bool only_direct; /* only those with tensors of their own, and no optimizer's, unless AT */
	void *ctx;
};

/* The options of a caller, or the defaults. */
int ckpt_key_options_take(struct ckpt_key_options *out, const struct ckpt_key_options *given,
			  struct ckpt_error *err);

/* The options, and which of the names in AT have been met. To be cleared in any case. */
struct ckpt_key_choice {
	struct ckpt_key_options o;
	char **found; /* by index in o.at: exact form of what it names, or NULL */
};
int ckpt_key_choice_init(struct ckpt_key_choice *choice, const struct ckpt_key_options *options,
			 struct ckpt_error *err);
void ckpt_key_choice_clear(struct ckpt_key_choice *choice);

/* 1: the step is at, or below, one of the names the edit is limited to. */
int ckpt_key_choice_has(struct ckpt_key_choice *choice, const struct ckpt_walk_step *step,
			struct ckpt_error *err);

/* CKPT_E_NOTFOUND if a name was not met. */
int ckpt_key_choice_check(const struct ckpt_key_choice *choice, struct ckpt_error *err);

int ckpt_model_edit_keys(const struct ckpt_model *model, const struct ckpt_key_edit *edit,
			 const struct ckpt_key_options *options, struct ckpt_model **out,
			 struct ckpt_edit_report *report, struct ckpt_error *err);

#endif
