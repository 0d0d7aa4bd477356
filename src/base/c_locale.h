/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_C_LOCALE_H
#define CKPT_BASE_C_LOCALE_H

#include <locale.h>
#include <stdbool.h>

/*
 * Calls of the system that go by the locale of the program, as in the C locale: what is read from a
 * file, and what is said about it, is the same in every program. Letters and digits: base/ascii.h;
 * numbers: base/double.h.
 */

/* For this thread alone, until the result is given back. */
locale_t ckpt_c_locale_enter(void);
void ckpt_c_locale_leave(locale_t before);

/* fnmatch() == 0: '?' and '[' stand for one byte, '*' also crosses bytes that are no text. */
bool ckpt_glob_matches(const char *pattern, const char *name, int flags);

/* The text of an errno, and why dlopen() or dlsym() failed; in English. Until the thread's next call. */
const char *ckpt_errno_text(int code);
const char *ckpt_dlerror(void);

#endif
