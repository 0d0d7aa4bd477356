/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_NUMPY_NAMES_H
#define CKPT_NUMPY_NAMES_H

#include "base/error.h"

#include <stdint.h>

/* Names of arrays in files of numpy. */

enum { CKPT_NPY_MOST_FILE_NAME = 255 };

/*
 * Can NAME be the name of a member of an .npz? CKPT_E_UNSUPPORTED: it is not UTF-8, so numpy cannot
 * read it, or a path that leads out of the folder where somebody unpacks it.
 */
int ckpt_npz_check_name(const char *name, struct ckpt_error *err);

/*
 * The file name for NAME: NAME.npy, with %XX for bytes that a file name cannot or should not have:
 * '/', '%', control characters, what is not UTF-8, and '.' and '-' at the beginning. So no two
 * names have one file, and urllib.parse.unquote() gives the name back. CKPT_E_UNSUPPORTED: it is
 * too long.
 */
int ckpt_npy_file_name(const char *name, char out[CKPT_NPY_MOST_FILE_NAME + 1],
		       struct ckpt_error *err);

#endif
