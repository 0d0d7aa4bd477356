/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_CHECK_DIRECTORY_H
#define CKPT_SET_DCP_CHECK_DIRECTORY_H

#include "set/dcp/dcp.h"

/* Call NOTE for everything that somebody who is about to use the directory should know. */
int ckpt_dcp_check_directory(const struct ckpt_model *model,
			     void (*note)(void *ctx, const char *text), void *ctx,
			     struct ckpt_error *err);

/* Is NAME that of a data file which the index does not mention? */
bool ckpt_dcp_is_unused_data(const struct ckpt_dcp *dcp, const char *name);

#endif
