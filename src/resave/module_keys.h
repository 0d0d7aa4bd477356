/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_RESAVE_MODULE_KEYS_H
#define CKPT_RESAVE_MODULE_KEYS_H

#include "model/model.h"

/*
 * Which string object each attribute's name is after torch.load has read MODEL's file with Python
 * 3.14, of all modules (torch.nn.Module) that the file holds as objects.
 */
struct ckpt_module_keys;

/* NULL: no memory. What is made lives in ARENA. */
struct ckpt_module_keys *ckpt_module_keys_new(const struct ckpt_model *model,
					      struct ckpt_arena *arena);
void ckpt_module_keys_free(struct ckpt_module_keys *keys);

/*
 * The string that is the name KEY of an attribute of MODULE, the PLACEth of its state: KEY itself,
 * an interned one, or the one of the first module of its class.
 */
const struct ckpt_value *ckpt_module_key(const struct ckpt_module_keys *keys,
					 const struct ckpt_value *module, uint32_t place,
					 const struct ckpt_value *key);

#endif
