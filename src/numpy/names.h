/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_NUMPY_NAMES_H
#define CKPT_NUMPY_NAMES_H

#include "base/error.h"

#include <stdint.h>

/* How the arrays of a checkpoint are called in files of numpy. */

enum { CKPT_NPY_MOST_FILE_NAME = 255 };

/*
 * What an .npz can call NAME: NAME itself. CKPT_E_UNSUPPORTED for what numpy could not read (not UTF-8), and for a path that would
 * lead out of the folder in which somebody unpacks it.
 */
int ckpt_npz_check_name(const char *name, struct ckpt_error *err);

/*
 * The file for NAME, without a folder: NAME.npy, where %XX stands for bytes that a file name cannot have or had better
 * not have: '/', '%', control characters, what is not UTF-8, '.' and '-' at the beginning. So no two names have one file,
 * and urllib.parse.unquote() gives the name back. CKPT_E_UNSUPPORTED: longer than file names are.
 */
int ckpt_npy_file_name(const char *name, char out[CKPT_NPY_MOST_FILE_NAME + 1],
		       struct ckpt_error *err);

#endif
