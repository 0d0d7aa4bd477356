/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_PLUGIN_FAIL_H
#define CKPT_BASE_PLUGIN_FAIL_H

#include <ckpt/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ckpt_fail() for plug-ins, which do not link the library. Their texts hold nothing from a file. */
__attribute__((format(printf, 3, 4))) static inline int ckpt_plugin_fail(struct ckpt_error *err,
									 int status,
									 const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return status;
	memset(err, 0, sizeof(*err));
	err->status = status;
	err->offset = CKPT_NO_OFFSET;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return status;
}

#endif
