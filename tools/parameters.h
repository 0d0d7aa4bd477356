/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_PARAMETERS_H
#define CKPT_TOOLS_PARAMETERS_H

#include "command.h"

/* Names of tensors that are parameters, as ckpt_parts_of() tells them: what --parameters leaves. */
struct parameter_names {
	const char **names; /* malloc; the names are the models' */
	size_t count, cap;
};

/* Add those of MODEL, which has to stay open until the names are cleared. Returns what ckpt_parts_new() does. */
int parameter_names_add(struct parameter_names *names, const struct ckpt_model *model, struct ckpt_error *err);

/* For the options of ckpt_stat_new() and ckpt_diff(). CTX is a struct parameter_names. */
bool takes_parameter(void *ctx, const char *name);
void parameter_names_clear(struct parameter_names *names);

/* What every command says of a file without any. */
#define NO_PARAMETER "nothing in it is known to be a parameter"

#endif
