/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_LOADERS_TAR_NAME_H
#define CKPT_SCAN_LOADERS_TAR_NAME_H

#include "scan/scanner.h"

/* Says so if an unpickler, or a Python, may take the name for the beginning of a pickle or program. */
void ckpt_scan_tar_name(struct ckpt_scanner *s, struct ckpt_source *source);

#endif
