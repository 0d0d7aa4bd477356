/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_NUMPY_NUMPY_H
#define CKPT_NUMPY_NUMPY_H

#include "format/format.h"

/* Files for numpy, which are written and never read: an archive, and a folder of files. */
extern const struct ckpt_format ckpt_format_npz;
extern const struct ckpt_format ckpt_format_npy;

#endif
