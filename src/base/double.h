/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_DOUBLE_H
#define CKPT_BASE_DOUBLE_H

#include <stddef.h>

/* Numbers as text, with a '.' in any locale of the program: GTK, Qt, R and others set one. */

/* As printf() with %.*g. */
void ckpt_double_format(char *buf, size_t size, int digits, double v);

/* As strtod(). */
double ckpt_double_parse(const char *text, char **end);

#endif
