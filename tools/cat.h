/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_CAT_H
#define CKPT_TOOLS_CAT_H

#include "array_text.h"
#include "command.h"

/* What the parts of 'ckpt cat' share. */

/* Numbers of an array, those that will be printed. */
struct cat_numbers {
	struct ckpt_array_info info;
	struct array_view view;
	uint64_t shown[ARRAY_MOST_DIMS];
	void *bytes;
};

/*
 * Read the numbers to print; with ALL, not only the edges of a long array. The caller frees BYTES
 * in any case. If ERR has no status, the message is printed already.
 */
int cat_read_numbers(const struct ckpt_array *array, bool all, struct cat_numbers *numbers,
		     struct ckpt_error *err);

/* One document, as docs/json.md says; TARGET as for json_open(). INDEX: of a slice, or NULL. */
int cat_array_json(const char *target, const char *name, const char *index,
		   const struct ckpt_array *array, bool all, struct ckpt_error *err);
int cat_other_json(const char *target, const char *name, const struct ckpt_model *model,
		   struct ckpt_error *err);

#endif
