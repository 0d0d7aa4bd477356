/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_OWNERS_H
#define CKPT_PICKLE_OWNERS_H

#include "pickle/value.h"

/*
 * Protocols 4 and 5 write the names of a class or function as strings, which go into the memo:
 * equal ones are one object or several, by who made them. Source: CPython 3.9 to 3.14,
 * Objects/typeobject.c (type_module, type_qualname), Objects/moduleobject.c, Modules/_pickle.c
 * (save_global); torch/csrc/Dtype.cpp.
 */

/* Whose string G's module is, for ckpt_emit_name(). */
char ckpt_owner_of_module(const struct ckpt_global *g, bool python311, bool python313);

/* Classes and functions written in C make their name for every save. */
bool ckpt_is_named_by_c(const struct ckpt_global *g);

#endif
