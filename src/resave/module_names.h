/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_RESAVE_MODULE_NAMES_H
#define CKPT_RESAVE_MODULE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The attributes that MODULE.CLASS assigns in its own methods, which Python keeps in
 * __static_attributes__: sorted, with spaces between. NULL: it is not one of torch.nn.
 */
const char *ckpt_module_class_names(const char *module, const char *class);

/* Whether torch.nn.Module itself puts NAME into every instance. */
bool ckpt_is_module_attribute(const char *name, uint64_t len);

#endif
