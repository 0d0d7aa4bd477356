/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_C_LOCALE_H
#define CKPT_BASE_C_LOCALE_H

#include <locale.h>
#include <stdbool.h>

/*
 * Library calls that depend on the locale of the program, made in the C locale, so that what is
 * read from a file, and what is said about it, is the same in every program. Letters and digits:
 * base/ascii.h; numbers: base/double.h.
 */

/* Switch this thread to the C locale, until the result is passed to ckpt_c_locale_leave(). */
locale_t ckpt_c_locale_enter(void);
void ckpt_c_locale_leave(locale_t before);

/* fnmatch() == 0: '?' and '[' stand for one byte, '*' also crosses bytes that are no text. */
bool ckpt_glob_matches(const char *pattern, const char *name, int flags);

/*
 * The text of an errno, and why dlopen() or dlsym() failed; in English. Until the thread's next
 * call.
 */
const char *ckpt_errno_text(int code);
const char *ckpt_dlerror(void);

#endif
