/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_MODULE_WRAPPERS_H
#define CKPT_MODEL_MODULE_WRAPPERS_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* What puts itself into the names of a module's weights, as an attribute that holds the module. */
struct ckpt_module_wrapper {
	const char *prefix; /* "_orig_mod." */
	const char *who;    /* "torch.compile" */
};
enum { CKPT_MODULE_WRAPPERS = 5 };
extern const struct ckpt_module_wrapper ckpt_module_wrappers[CKPT_MODULE_WRAPPERS];

/* The number of the wrapper with whose prefix TEXT begins, or -1. */
int ckpt_module_wrapper_at(const char *text, size_t len);

/*
 * Which wrappers a name has; sets are bits by number. A "module." that stands inside of a name, and
 * beside no other wrapper, may as well be an attribute of the model: it is OWN, and in no set.
 */
struct ckpt_wrapper_marks {
	int first;	  /* the one that the name begins with, or -1 */
	unsigned front;	  /* those that stand in a row at the beginning */
	size_t front_len; /* bytes of that row */
	unsigned inside;  /* those behind a dot that others than wrappers stand before */
	bool again;	  /* one of them stands in a row twice: "module.module." */
	bool own;
};
void ckpt_wrapper_marks_of(const char *name, size_t len, struct ckpt_wrapper_marks *out);

/*
 * Append NAME to OUT without the components that are a wrapper's. The last one names a tensor and
 * stays, whatever its name; not if MODULE: then it names a module, as in `_metadata`, and "" may be
 * left. True: something is gone; a name of which nothing would be left is no such name.
 */
bool ckpt_wrappers_strip(const char *name, size_t len, bool module, struct ckpt_buf *out);

#endif
