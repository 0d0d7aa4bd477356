/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_STATE_H
#define CKPT_SET_DCP_STATE_H

#include "set/dcp.h"

/* Call NOTE for everything that somebody who is about to use the directory should know. */
int ckpt_dcp_tell_state(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
			void *ctx, struct ckpt_error *err);

#endif
